"""What people read of a call that failed on its way: a failure of the network or a library in plain words.

Owns: these words. What the library calls it stands in the log only.
"""

import errno
import socket
import ssl

from urllib3.exceptions import ProtocolError

_NO_TLS = ("WRONG_VERSION_NUMBER", "UNEXPECTED_EOF_WHILE_READING", "RECORD_LAYER_FAILURE")
"""What OpenSSL says of a server that speaks in the clear."""
_BROKEN_OFF = "the connection was broken off"
_NO_WAY = "there is no way to the exchange over the network"
_BY_NUMBER = {
    errno.ECONNREFUSED: "connection refused",
    errno.ECONNRESET: _BROKEN_OFF,
    errno.ECONNABORTED: _BROKEN_OFF,
    errno.EPIPE: _BROKEN_OFF,
    errno.EHOSTUNREACH: _NO_WAY,
    errno.ENETUNREACH: _NO_WAY,
    errno.ENETDOWN: _NO_WAY,
}


def in_words(error: Exception) -> str:
    """The failure as a person reads it, without the names of exceptions and of their classes."""
    cause = innermost(error)
    if isinstance(cause, ssl.SSLError):
        return _of_tls(cause)
    if isinstance(cause, socket.gaierror):
        return "the name of the exchange is not known here"
    if isinstance(cause, TimeoutError):
        return "the exchange did not answer in time"
    if isinstance(cause, OSError) and cause.errno is not None:  # those of requests have none
        return _BY_NUMBER.get(cause.errno, (cause.strerror or _BROKEN_OFF).lower())
    if isinstance(error, ProtocolError) and len(error.args) == 1:
        return str(error)  # made by us, in plain words
    said = next((part for part in reversed(cause.args) if isinstance(part, str) and part), "")
    return said or "the connection failed"


def innermost(error: BaseException) -> BaseException:
    """What a failure began with."""
    while True:
        inner = next((part for part in error.args if isinstance(part, BaseException)), error.__cause__)
        if inner is None:
            return error
        error = inner


def technical(error: Exception) -> str:
    """The same for who reads the log: the class of the failure, and what it began with."""
    cause = innermost(error)
    return f"{type(error).__name__}: {str(cause) or type(cause).__name__}"


def _of_tls(error: ssl.SSLError) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"the certificate of the exchange is not accepted: {error.verify_message}"
    reason = error.reason or str(error)
    said = f"no secure connection comes about ({reason.replace('_', ' ').lower()})"
    return f"{said} (is it http://?)" if any(words in f"{reason} {error}" for words in _NO_TLS) else said

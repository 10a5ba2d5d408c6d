"""Masks the token in answers, in any form an answer may repeat it.

Recognises JSON, percent and HTML escapes, base64, hex and UTF-16, also nested. Works on bytes before they are decoded, so
the token reaches no log and no report. Long bodies are masked piece by piece and kept in a temporary file.
"""

import base64
import json
import re
import tempfile
from collections.abc import Iterator
from typing import IO, BinaryIO, cast

MASK = b"***"
SECRET_LENGTH = 8  # shorter texts are not masked: that would make answers unreadable
_ROUNDS = 4  # escapes within escapes
_SIGN_BYTES_MAX = 32  # for one escaped character of the token

# Only escapes of printable ASCII, the only characters of a token. Each alternative starts differently, so this is linear.
_ESCAPE = re.compile(
    rb"(?<!\\)\\++(?:(?:u00|x)([2-7][0-9a-fA-F])|(/))|%(?:25)*+(?:u00)?([2-7][0-9a-fA-F])"
    rb"|&#(?:[xX]0*+([2-7][0-9a-fA-F])|0*+([0-9]{2,3}));"
)


class TokenMask:
    """Masks every token ever added, because an exchange may repeat a token that has been replaced."""

    def __init__(self) -> None:
        self._needles: tuple[bytes, ...] = ()
        self._tokens: frozenset[str] = frozenset()
        self.reach = 0  # the number of bytes at the end of a text that may begin a token

    def add(self, token: str) -> None:
        """Mask this token too from now on."""
        if len(token) < SECRET_LENGTH or token in self._tokens:
            return
        self._tokens |= {token}
        found = {needle for each in self._tokens for needle in _forms(each)}
        self._needles = tuple(sorted(found, key=len, reverse=True))
        self.reach = _SIGN_BYTES_MAX * len(self._needles[0])

    def masked(self, text: bytes) -> bytes:
        """The text without tokens. Where one was escaped, all escapes of that kind are resolved; JSON keeps its meaning."""
        masked = text
        for _ in range(_ROUNDS):
            if any(needle in text for needle in self._needles):
                for needle in self._needles:
                    text = text.replace(needle, MASK)
                masked = text
            resolved = _resolved(text)
            if resolved == text:
                break
            text = resolved
        return masked


def _resolved(text: bytes) -> bytes:
    """The text with one level of escapes resolved."""
    if b"\\" in text or b"%" in text or b"&#" in text:
        return _ESCAPE.sub(_sign, text)
    return text


def _sign(found: re.Match[bytes]) -> bytes:
    json_hex, slash, percent_hex, html_hex, html_number = found.groups()
    if slash:
        return slash
    number = int(html_number) if html_number else int(json_hex or percent_hex or html_hex, 16)
    sign = chr(number)
    if not (sign.isascii() and sign.isprintable()):
        return found.group()
    return f"\\{sign}".encode() if sign in '"\\' else sign.encode()


def _forms(token: str) -> Iterator[bytes]:
    """The token itself, and its form in other encodings."""
    plain = token.encode("ascii")
    yield plain
    if any(sign.isdigit() for sign in token):  # without a digit it may be a word that answers use
        yield from {plain.lower(), plain.upper()} - {plain}
    yield json.dumps(token)[1:-1].encode("ascii")
    yield token.encode("utf-16-le")[:-1]  # also matches UTF-16 in the other byte order
    yield from (plain.hex().encode("ascii"), plain.hex().upper().encode("ascii"))
    for before in range(3):  # base64 with the token at any offset: the part that does not depend on its surroundings
        coded = base64.b64encode(bytes(before) + plain)
        stable = coded[(before * 8 + 5) // 6 : (before + len(plain)) * 8 // 6]
        yield from (stable, stable.translate(bytes.maketrans(b"+/", b"-_")))


IN_MEMORY_BYTES_MAX = 8_388_608


class MaskedBody:
    """Takes the pieces of one body as they arrive, so that a token repeated by the exchange never reaches a report."""

    def __init__(self, mask: TokenMask) -> None:
        self._mask = mask
        self._held = b""  # the end of the input, which may begin a token
        self._file: IO[bytes] = tempfile.SpooledTemporaryFile(max_size=IN_MEMORY_BYTES_MAX)  # noqa: SIM115 (the reader closes it)

    def add(self, piece: bytes) -> None:
        """Add the next piece."""
        whole = self._mask.masked(self._held + piece)
        begun = max(len(whole) - self._mask.reach, 0)
        self._file.write(whole[:begun])
        self._held = whole[begun:]

    def finish(self) -> BinaryIO:
        """The whole body, from its beginning."""
        self._file.write(self._held)
        self._held = b""
        self._file.seek(0)
        return cast("BinaryIO", self._file)

    def close(self) -> None:
        """Discard the body."""
        self._file.close()

"""The token is masked in what an exchange answers, however the answer writes it.

Owns: the ways in which a text may hold the token (JSON escapes, percent and HTML escapes, base64, hex, UTF-16, several of them nested).
Works on bytes before anybody decodes them, so no later reader can meet the token. Knows no call.
"""

import base64
import json
import re
from collections.abc import Iterator

MASK = b"***"
SECRET_LENGTH = 8  # a shorter text is no secret: hiding it would make answers unreadable
_ROUNDS = 4  # escapes within escapes
_SIGN_BYTES_MAX = 32  # of one character of the token, escaped

# Only what stands for a printable ASCII character: a token has no other. Each alternative begins at one place only, so this is linear.
_ESCAPE = re.compile(
    rb"(?<!\\)\\++(?:(?:u00|x)([2-7][0-9a-fA-F])|(/))|%(?:25)*+(?:u00)?([2-7][0-9a-fA-F])"
    rb"|&#(?:[xX]0*+([2-7][0-9a-fA-F])|0*+([0-9]{2,3}));"
)


class TokenMask:
    """Masks every token that was ever added: an exchange may repeat one that has been replaced since."""

    def __init__(self) -> None:
        self._needles: tuple[bytes, ...] = ()
        self._tokens: frozenset[str] = frozenset()
        self.reach = 0  # so many bytes at the end of a text may be the beginning of a token

    def add(self, token: str) -> None:
        """From now on this token is masked too."""
        if len(token) < SECRET_LENGTH or token in self._tokens:
            return
        self._tokens |= {token}
        found = {needle for each in self._tokens for needle in _forms(each)}
        self._needles = tuple(sorted(found, key=len, reverse=True))
        self.reach = _SIGN_BYTES_MAX * len(self._needles[0])

    def masked(self, text: bytes) -> bytes:
        """The text without a token. Where one was escaped, all escapes like it are resolved; JSON keeps its meaning."""
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
    """The token itself, and what it becomes in other encodings."""
    plain = token.encode("ascii")
    yield plain
    if any(sign.isdigit() for sign in token):  # what has none may be a word that answers use
        yield from {plain.lower(), plain.upper()} - {plain}
    yield json.dumps(token)[1:-1].encode("ascii")
    yield token.encode("utf-16-le")[:-1]  # also within UTF-16 of the other byte order
    yield from (plain.hex().encode("ascii"), plain.hex().upper().encode("ascii"))
    for before in range(3):  # base64 of a text in which the token begins at any place: what does not depend on the rest
        coded = base64.b64encode(bytes(before) + plain)
        stable = coded[(before * 8 + 5) // 6 : (before + len(plain)) * 8 // 6]
        yield from (stable, stable.translate(bytes.maketrans(b"+/", b"-_")))

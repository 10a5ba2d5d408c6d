"""Strict parsing and encoding of JSON bodies, with exact numbers.

Owns: the rules of JSON (RFC 8259) and our limits on nesting and on the size of numbers. Knows no field and no operation.
"""

import json
import re
from decimal import (
    Clamped,
    Context,
    Decimal,
    DecimalException,
    Inexact,
    InvalidOperation,
    Overflow,
    Rounded,
    Subnormal,
    Underflow,
)
from typing import Any, NoReturn

import msgspec

DEPTH_MAX = 64
VALUES_MAX = 200_000  # in one body, nested ones included
DIGITS_MAX = 100  # digits of a number with fraction or exponent, and its largest exponent; whole numbers have 4,300

# A number that cannot be stored digit for digit is refused: every signal of a change by decimal is an error here.
_EXACT = Context(
    prec=DIGITS_MAX,
    Emax=DIGITS_MAX,
    Emin=-DIGITS_MAX,
    traps=[Clamped, Inexact, InvalidOperation, Overflow, Rounded, Subnormal, Underflow],
)
_TOO_BIG = "holds a number with too many digits"
_TEXT = re.compile(rb'"(?:[^"\\]|\\.)*+"', re.DOTALL)
_TOO_DEEP = f"is nested deeper than {DEPTH_MAX} levels"


class BadBody(ValueError):
    """The bytes are not an acceptable JSON value; the text completes the sentence 'the body ...'."""


def parse_body(body: bytes) -> object:
    """The JSON value of a request body; numbers as int, or as Decimal with every digit as received.

    Raises BadBody for anything else: invalid UTF-8, a byte order mark, invalid JSON, NaN or Infinity, half a surrogate pair, a
    duplicate name in an object, and numbers, nesting or counts of values beyond the limits.
    """
    if not body:
        raise BadBody("is empty")
    if _separator_count(body) > VALUES_MAX and _separator_count(_TEXT.sub(b"", body)) > VALUES_MAX:
        raise BadBody(f"holds more than {VALUES_MAX} values")
    try:
        text = body.decode()
        value: object = _READER.decode(text)
        if "\\" in text:  # only escapes can make half a surrogate pair, which an answer cannot contain
            msgspec.json.encode(value)
    except BadBody:
        raise
    except (UnicodeDecodeError, UnicodeEncodeError) as error:
        raise BadBody(f"is not valid UTF-8 text ({error.reason})") from None
    except json.JSONDecodeError as error:
        raise BadBody(f"is not JSON ({error.msg} at character {error.pos})") from None
    except RecursionError:
        raise BadBody(_TOO_DEEP) from None
    except (DecimalException, ValueError):  # ValueError: the interpreter's own limit for whole numbers
        raise BadBody(_TOO_BIG) from None
    # The number of brackets is a fast upper bound of the depth; the exact depth is seldom needed.
    if body.count(b"{") + body.count(b"[") > DEPTH_MAX and _depth(value) > DEPTH_MAX:
        raise BadBody(_TOO_DEEP)
    return value


def decode_stored(text: str) -> dict[str, Any]:
    """The record that `encode` wrote into the store."""
    record: dict[str, Any] = _STORED.decode(text)
    return record


def encode(value: object) -> bytes:
    """Compact JSON; a Decimal is written as a number with all its digits."""
    return _WRITER.encode(value)


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    record: dict[str, Any] = {}
    for name, value in pairs:
        if name in record:
            raise BadBody(f"holds the name {name[:100]!r} twice in one object")
        record[name] = value
    return record


def _no_constant(name: str) -> NoReturn:
    raise BadBody(f"is not JSON ({name} is not a number)")


def _separator_count(body: bytes) -> int:
    """An upper bound of the number of values in these bytes, if no text contains such characters."""
    return body.count(b",") + body.count(b"{") + body.count(b"[")


def _depth(value: object) -> int:
    level, depth = [value], 0
    while level := [outer for outer in level if isinstance(outer, dict | list)]:
        depth += 1
        level = [inner for outer in level for inner in (outer.values() if isinstance(outer, dict) else outer)]
    return depth


_READER = json.JSONDecoder(object_pairs_hook=_object, parse_float=_EXACT.create_decimal, parse_constant=_no_constant)
_STORED = msgspec.json.Decoder(float_hook=Decimal)
_WRITER = msgspec.json.Encoder(decimal_format="number")

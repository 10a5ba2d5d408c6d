"""The token is masked in answers in whatever form they repeat it, and nothing else of them changes."""

import base64
import json
import time
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loadsheet.dispatch.token_masking import IN_MEMORY_BYTES_MAX, MASK, SECRET_LENGTH, MaskedBody, TokenMask

TOKEN = "lsx_Cq/8-n+Z~k.3=="


def mask_of(*tokens):
    mask = TokenMask()
    for token in tokens:
        mask.add(token)
    return mask


def hexed(text):
    return "".join(f"\\u{ord(sign):04X}" for sign in text)


FORMS = {
    "itself": TOKEN,
    "json": hexed(TOKEN),
    "one json escape": "\\u006c" + TOKEN[1:],
    "slash": TOKEN.replace("/", "\\/"),
    "json in json": hexed(TOKEN).replace("\\", "\\\\"),
    "json three deep": hexed(TOKEN).replace("\\", "\\" * 8),
    "percent": quote(TOKEN, safe=""),
    "every sign percent": "".join(f"%{ord(sign):02x}" for sign in TOKEN),
    "percent twice": quote(quote(TOKEN, safe=""), safe=""),
    "json of percent": hexed(quote(TOKEN, safe="")),
    "percent u": "".join(f"%u{ord(sign):04x}" for sign in TOKEN),
    "backslash x": "".join(f"\\x{ord(sign):02x}" for sign in TOKEN),
    "upper case": TOKEN.upper(),
    "html": "".join(f"&#{ord(sign)};" for sign in TOKEN),
    "html hex": "".join(f"&#x00{ord(sign):x};" for sign in TOKEN),
    "hex": TOKEN.encode().hex(),
    "utf-16": TOKEN.encode("utf-16-be").decode("ascii"),
}


@pytest.mark.parametrize("form", FORMS)
def test_a_token_is_masked_however_it_is_escaped(form):
    answer = (
        b'{"message": "who are you: ' + FORMS[form].encode() + b' \\"here\\"?", "errors": {"a\\/b": "M\\u00fcnchen"}}'
    )
    masked = mask_of(TOKEN).masked(answer)
    assert b"***" in masked
    for text in (masked, masked.replace(b"\0", b"")):
        assert FORMS[form].encode() not in text
        assert TOKEN.encode() not in text
    if form != "utf-16":
        assert json.loads(masked)["errors"] == {"a/b": "M\u00fcnchen"}
        assert json.loads(masked)["message"] == 'who are you: *** "here"?'


@pytest.mark.parametrize("prefix", ["", "Bearer ", "x:", "Authorization: Bearer "])
@pytest.mark.parametrize("encode", [base64.b64encode, base64.urlsafe_b64encode])
def test_a_token_within_base64_is_masked(prefix, encode):
    coded = encode(f"{prefix}{TOKEN}".encode())
    masked = mask_of(TOKEN).masked(b'{"message": "' + coded + b'"}')
    assert b"***" in masked
    assert coded[len(coded) // 2 :] not in masked
    assert coded.replace(b"/", b"\\/") not in masked


@given(st.text(alphabet='abc/"\\u0041%2&#;', max_size=60))
def test_an_answer_without_a_token_stays_as_it_is(text):
    answer = json.dumps({"message": text}).encode()
    assert mask_of(TOKEN).masked(answer) == answer


@given(st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=8, max_size=20), st.text(max_size=9))
def test_any_token_is_masked_in_json_that_keeps_its_meaning(token, around):
    words = f"<{around}>{token}<{around}>"
    for answer in (json.dumps({"message": words}), '{"message": "' + hexed(token) + '"}'):
        assert token not in json.loads(mask_of(token).masked(answer.encode()))["message"].replace("***", "\n")


def test_a_token_that_was_replaced_is_masked_as_well():
    assert mask_of(TOKEN, "another-token").masked(f"{TOKEN} another-token".encode()) == b"*** ***"


@pytest.mark.parametrize("form", FORMS)
def test_the_pieces_of_a_long_answer_may_end_anywhere(form):
    answer = b"x" * 50 + FORMS[form].encode() + b"y" * 50
    for size in (1, 7, 64):
        pieces = [answer[place : place + size] for place in range(0, len(answer), size)]
        assert kept(pieces, TOKEN.encode()).replace(b"\0", b"") == b"x" * 50 + b"***" + b"y" * 50


@pytest.mark.parametrize("piece", [b"\\", b"%25", b"&#0", b"\\u0041", b"\\/", b"\0l"])
def test_an_answer_made_to_cost_time_costs_little(piece):
    began = time.process_time()
    mask_of(TOKEN).masked(piece * (2_000_000 // len(piece)))
    assert time.process_time() - began < 5


@pytest.mark.parametrize("later", [0, 1])
def test_a_token_that_begins_like_another_is_masked_to_its_end(later):
    short, long = "lsx-0123456789abcdef", "lsx-0123456789abcdef-and-more"
    mask = mask_of(*((short, long), (long, short))[later])
    assert mask.masked(f"no {long}, no {short}".encode()) == b"no " + MASK + b", no " + MASK


@pytest.mark.parametrize(("length", "is_masked"), [(SECRET_LENGTH - 1, False), (SECRET_LENGTH, True)])
def test_what_is_too_short_for_a_secret_is_not_masked(length, is_masked):
    token = ("Z9" * length)[:length]
    assert (MASK in mask_of(token).masked(f"a {token} b".encode())) is is_masked


# bodies in pieces

SECRET = b"abcabcab"


def kept(pieces, secret=SECRET):
    """A body that arrives in these pieces, without the secret."""
    body = MaskedBody(mask_of(secret.decode()))
    for piece in pieces:
        body.add(piece)
    with body.finish() as file:
        return file.read()


@given(st.lists(st.lists(st.sampled_from([b"a", b"b", b"c", b"ab", SECRET]), max_size=5).map(b"".join), max_size=12))
def test_a_secret_is_masked_wherever_the_pieces_end(pieces):
    assert SECRET not in kept(pieces)
    assert kept(pieces) == b"".join(pieces).replace(SECRET, b"***")


@given(st.lists(st.binary(max_size=9), max_size=9))
def test_without_a_secret_nothing_is_touched(pieces):
    assert kept(pieces, b"") == b"".join(pieces)


@pytest.mark.parametrize("secret", [b"", SECRET])
def test_a_body_longer_than_memory_should_hold_comes_back_whole(secret):
    piece = bytes(range(256)) * 4096
    pieces = [piece] * (IN_MEMORY_BYTES_MAX // len(piece) + 2)
    assert kept(pieces, secret) == b"".join(pieces)

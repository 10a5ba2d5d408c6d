"""The token is masked in answers in whatever form they repeat it, and nothing else of them changes."""

import base64
import json
import time
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loadsheet.credentials import IN_MEMORY_BYTES_MAX, MASK, SECRET_LENGTH, MaskedBody, TokenMask

TOKEN = "lsx_Cq/8-n+Z~k.3=="
SECRET = b"abcabcab"


def mask_of(*tokens):
    mask = TokenMask()
    for token in tokens:
        mask.add(token)
    return mask


def kept(pieces, secret=SECRET):
    """A body that arrives in these pieces, without the secret."""
    body = MaskedBody(mask_of(secret.decode()))
    for piece in pieces:
        body.add(piece)
    with body.finish() as file:
        return file.read()


def each_sign(form):
    return "".join(form % ord(sign) for sign in TOKEN)


JSON = each_sign("\\u%04X")
FORMS = {
    "itself": TOKEN,
    "json": JSON,
    "one json escape": "\\u006c" + TOKEN[1:],
    "slash": TOKEN.replace("/", "\\/"),
    "json in json": JSON.replace("\\", "\\\\"),
    "json three deep": JSON.replace("\\", "\\" * 8),
    "percent": quote(TOKEN, safe=""),
    "every sign percent": each_sign("%%%02x"),
    "percent twice": quote(quote(TOKEN, safe=""), safe=""),
    "json of percent": "".join(f"\\u{ord(sign):04X}" for sign in quote(TOKEN, safe="")),
    "percent u": each_sign("%%u%04x"),
    "backslash x": each_sign("\\x%02x"),
    "upper case": TOKEN.upper(),
    "html": each_sign("&#%d;"),
    "html hex": each_sign("&#x00%x;"),
    "hex": TOKEN.encode().hex(),
    "utf-16": TOKEN.encode("utf-16-be").decode("ascii"),
}


@pytest.mark.parametrize("form", FORMS)
def test_a_token_is_masked_however_it_is_escaped_and_wherever_the_pieces_of_an_answer_end(form):
    token = FORMS[form].encode()
    masked = mask_of(TOKEN).masked(
        b'{"message": "who? ' + token + b' \\"here\\"?", "errors": {"a\\/b": "M\\u00fcnchen"}}'
    )
    for text in (masked, masked.replace(b"\0", b"")):
        assert token not in text
        assert TOKEN.encode() not in text
    if form != "utf-16":
        assert json.loads(masked) == {"message": 'who? *** "here"?', "errors": {"a/b": "München"}}
    answer = b"x" * 50 + token + b"y" * 50
    for size in (1, 7, 64):
        pieces = [answer[place : place + size] for place in range(0, len(answer), size)]
        assert kept(pieces, TOKEN.encode()).replace(b"\0", b"") == b"x" * 50 + b"***" + b"y" * 50


@pytest.mark.parametrize("prefix", ["", "Bearer ", "x:", "Authorization: Bearer "])
@pytest.mark.parametrize("encode", [base64.b64encode, base64.urlsafe_b64encode])
def test_a_token_within_base64_is_masked(prefix, encode):
    coded = encode(f"{prefix}{TOKEN}".encode())
    masked = mask_of(TOKEN).masked(b'{"message": "' + coded + b'"}')
    _, found, rest = masked.removesuffix(b'"}').partition(MASK)
    assert (found, len(rest) <= 3) == (MASK, True), "the last bits of the token at most"
    assert coded.replace(b"/", b"\\/") not in masked


@given(st.text(alphabet='abc/"\\u0041%2&#;', max_size=60))
def test_an_answer_without_a_token_stays_as_it_is(text):
    answer = json.dumps({"message": text}).encode()
    assert mask_of(TOKEN).masked(answer) == answer


@given(st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=8, max_size=20), st.text(max_size=9))
def test_any_token_is_masked_in_json_that_keeps_its_meaning(token, around):
    escaped = "".join(f"\\u{ord(sign):04X}" for sign in token)
    for answer in (json.dumps({"message": f"<{around}>{token}<{around}>"}), '{"message": "' + escaped + '"}'):
        assert token not in json.loads(mask_of(token).masked(answer.encode()))["message"].replace("***", "\n")


@pytest.mark.parametrize("order", [1, -1])
def test_each_of_several_tokens_is_masked_to_its_end_also_if_it_begins_like_another(order):
    short, long, other = "lsx-0123456789abcdef", "lsx-0123456789abcdef-and-more", "another-token"
    mask = mask_of(*(short, long, other)[::order])
    assert mask.masked(f"no {long}, {short} {other}".encode()) == b"no " + MASK + b", " + MASK + b" " + MASK


@pytest.mark.parametrize(("length", "is_masked"), [(SECRET_LENGTH - 1, False), (SECRET_LENGTH, True)])
def test_what_is_too_short_for_a_secret_is_not_masked(length, is_masked):
    token = ("Z9" * length)[:length]
    assert (MASK in mask_of(token).masked(f"a {token} b".encode())) is is_masked


@pytest.mark.parametrize("piece", [b"\\", b"%25", b"&#0", b"\\u0041", b"\\/", b"\0l"])
def test_an_answer_made_to_cost_time_costs_little(piece):
    began = time.process_time()
    mask_of(TOKEN).masked(piece * (2_000_000 // len(piece)))
    assert time.process_time() - began < 5


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

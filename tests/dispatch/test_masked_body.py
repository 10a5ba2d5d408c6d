import pytest
from hypothesis import given
from hypothesis import strategies as st

from loadsheet.dispatch.token_masking import IN_MEMORY_BYTES_MAX, MaskedBody, TokenMask

SECRET = b"abcabcab"


def kept(pieces, secret=SECRET):
    mask = TokenMask()
    mask.add(secret.decode())
    body = MaskedBody(mask)
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

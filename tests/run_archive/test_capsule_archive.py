"""The archive of a capsule: every change of a byte, a member, an order or the chain is seen, and two of the same members are equal."""

import gzip
import io
import itertools
import tracemalloc
import zipfile

import pytest

from loadsheet.run_archive import contents
from loadsheet.run_archive.contents import CHAIN, CannotOpen, CapsuleReader, CapsuleWriter
from loadsheet.run_archive.verify import check_archive

MEMBERS = {
    "inputs/1/1/orders.csv": b"Auftrag;Gewicht\nA-1;12,5\n",
    "mappings/ab/acme.yaml": b"name: acme\n",
    "manifest.json": b"{}",
}


def sealed(members=MEMBERS, lines=(("ledger/entries.jsonl.gz", [{"key": "A-1"}, {"key": "A-2"}]),)):
    """The bytes of a capsule, and its head."""
    file = io.BytesIO()
    with CapsuleWriter(file) as sealing:
        for name, content in members.items():
            sealing.put(name, content)
        for name, values in lines:
            sealing.lines(name, values)
        head = sealing.finish()
    return file.getvalue(), head


@pytest.fixture(scope="module")
def whole():
    return sealed()[0]


@pytest.fixture
def wrong(tmp_path):
    """What is wrong with these bytes as a capsule."""

    def judged(content):
        path = tmp_path / "one.capsule.zip"
        path.write_bytes(content)
        return check_archive(path).wrong

    return judged


def rewritten(whole, change):
    """The archive with its members, a list of (name, content), changed, and the old chain."""
    with zipfile.ZipFile(io.BytesIO(whole)) as archive:
        members = [(info.filename, archive.read(info)) for info in archive.infolist()]
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for name, content in change(members):
            info = zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))
            info.create_system, info.external_attr = 3, 0o100600 << 16
            with archive.open(info, "w", force_zip64=True) as opened:
                opened.write(content)
    return file.getvalue()


def test_the_same_members_give_the_same_bytes_and_the_same_head(whole, tmp_path):
    again, head = sealed()
    assert again == whole
    path = tmp_path / "one.capsule.zip"
    path.write_bytes(whole)
    looked = check_archive(path)
    assert (looked.wrong, looked.head) == ((), head)
    assert [link.name for link in looked.links] == [*MEMBERS, "ledger/entries.jsonl.gz"]
    assert rewritten(whole, list) == whole
    members = CapsuleReader(path)
    assert members.read("manifest.json") == b"{}"
    assert list(members.lines("ledger/entries.jsonl.gz")) == [{"key": "A-1"}, {"key": "A-2"}]


def test_any_other_content_name_or_order_gives_another_head():
    heads = {sealed(dict(order), ())[1] for order in itertools.permutations(MEMBERS.items())}
    heads |= {sealed({name: content + b" "}, ())[1] for name, content in MEMBERS.items()}
    heads |= {sealed({f"{name}x": content}, ())[1] for name, content in MEMBERS.items()}
    assert len(heads) == 6 + 3 + 3


def test_no_byte_can_be_changed_cut_off_put_in_or_added_unseen(whole, wrong):
    masks = itertools.cycle([0xFF, 0x01, 0x08, 0x80, 0x10])
    for place, mask in zip(range(len(whole)), masks, strict=False):
        changed = bytearray(whole)
        changed[place] ^= mask
        assert wrong(bytes(changed)), place
    for place in range(0, len(whole), 7):
        cut, after = whole[:place], whole[place:]
        assert all(map(wrong, (cut, cut + after[1:], cut + b"\0" + after))), place
    assert wrong(whole + b"\0")
    assert wrong(b"MZ" + whole)


def test_a_member_that_claims_to_be_packed_is_seen(whole, wrong):
    central = [place for place in range(len(whole)) if whole.startswith(b"PK\1\2", place)]
    assert len(central) == len(MEMBERS) + 2
    for place, method in itertools.product(central, (8, 12, 14, 99)):
        claims = bytearray(whole)
        claims[place + 10] = method
        assert wrong(bytes(claims))


@pytest.mark.parametrize("name", [*MEMBERS, "ledger/entries.jsonl.gz", CHAIN])
def test_a_member_that_was_taken_out_added_doubled_or_changed_is_named(whole, wrong, name):
    def said(change):
        return wrong(rewritten(whole, change))

    out = said(lambda members: [one for one in members if one[0] != name])
    assert any(name in text and "missing" in text for text in out)
    longer = said(lambda members: [(n, c + b" " if n == name else c) for n, c in members])
    assert any(name in text and "was changed" in text for text in longer)
    added = said(lambda members: [*members, (f"{name}.more", b"")])
    assert any(f"{name}.more was added" in text for text in added)
    renamed = said(lambda members: [(f"{n}x" if n == name else n, c) for n, c in members])
    assert any(f"{name}x was added" in text or "missing" in text for text in renamed)
    with pytest.warns(UserWarning, match="Duplicate name"):
        twice = said(lambda members: [*members, next(one for one in members if one[0] == name)])
    assert any("more than once" in text for text in twice)


def test_members_in_another_order_are_seen(whole, wrong):
    for order in itertools.permutations(range(len(MEMBERS) + 2)):
        found = wrong(rewritten(whole, lambda members, order=order: [members[place] for place in order]))
        assert (found == ()) == (list(order) == sorted(order))
        assert found == () or "another order" in found[0]


def test_a_chain_of_which_a_link_was_taken_out_moved_or_rewritten_does_not_hold(whole, wrong):
    def with_chain(change):
        def changed(members):
            return [(n, b"".join(change(c.splitlines(keepends=True))) if n == CHAIN else c) for n, c in members]

        return wrong(rewritten(whole, changed))

    assert "breaks at link 2" in with_chain(lambda lines: [lines[0], *lines[2:]])[0]
    assert "breaks at link 1" in with_chain(lambda lines: [lines[1], lines[0], *lines[2:]])[0]
    assert "was added" in with_chain(lambda lines: lines[:-1])[0]
    assert "no longer a hash chain" in with_chain(lambda lines: [*lines, b"{}\n"])[0]
    assert "no longer a hash chain" in with_chain(lambda lines: [line.replace(b",", b", ") for line in lines])[0]
    assert with_chain(list) == ()


def test_a_file_that_is_no_capsule_gets_a_clear_error(tmp_path, wrong):
    with pytest.raises(CannotOpen, match="there is no file"):
        check_archive(tmp_path / "none.zip")
    assert "cannot be read" in wrong(b"")[0]
    assert "cannot be read" in wrong(b"Auftrag;Gewicht\n")[0]
    plain = io.BytesIO()
    with zipfile.ZipFile(plain, "w") as archive:
        archive.writestr("readme.txt", "hello")
    assert "chain.jsonl is missing" in wrong(plain.getvalue())[0]


def test_a_member_that_is_packed_is_not_read_even_unverified(tmp_path):
    path = tmp_path / "packed.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("manifest.json", b" " * 30_000_000)
    tracemalloc.start()
    with pytest.raises(CannotOpen, match="its compression differs"):
        CapsuleReader(path).read("manifest.json")
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert most < 10_000_000


def test_a_line_that_grows_beyond_all_measure_is_not_read(tmp_path, monkeypatch):
    path = tmp_path / "one.zip"
    path.write_bytes(sealed(lines=[("a", [{"key": "A" * 200}]), ("b", [{"key": "B" * 2_000_000}])])[0])
    monkeypatch.setattr(contents, "_LINE_BYTES_MAX", 1_000)
    assert next(CapsuleReader(path).lines("a")) == {"key": "A" * 200}
    with pytest.raises(CannotOpen, match=r"b cannot be read \(a line has more than"):
        next(CapsuleReader(path).lines("b"))


def test_lines_that_cannot_be_unpacked_are_a_clear_error(tmp_path):
    packed = gzip.compress(b'{"key":"A-1"}\n' * 100)
    for name, content in {"cut off": packed[:-9], "changed": packed[:20] + b"xxxx" + packed[24:], "no": b"{}"}.items():
        path = tmp_path / "one.zip"
        path.write_bytes(sealed({"a": content}, ())[0])
        with pytest.raises(CannotOpen, match="a cannot be read"):
            print(name, list(CapsuleReader(path).lines("a")))


def test_tens_of_thousands_of_members_are_compared_once_each(wrong):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for number in range(30_000):
            archive.writestr(str(number), b"")
    assert len(wrong(file.getvalue())) == 30_001  # each was added, and there is no chain


def test_a_large_member_is_never_in_memory_as_a_whole(tmp_path):
    piece, path = bytes(range(256)) * 4096, tmp_path / "large.zip"
    tracemalloc.start()
    with path.open("w+b") as file, CapsuleWriter(file) as sealing:
        with sealing.member("large") as opened:
            for _ in range(14):
                opened.write(piece)
        assert sealing.lines("rows", ({"id": number} for number in range(20_000))) == 20_000
        sealing.finish()
    assert check_archive(path).wrong == ()
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert path.stat().st_size > 14_000_000
    assert most < 10_000_000

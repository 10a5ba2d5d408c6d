"""Zip files that mean harm, written byte by byte where no module would write them."""

import gzip
import io
import struct
import zipfile
import zlib

from reading_corpus import inline, workbook_parts, write_parts

ROWS = inline("Order", number=1) + inline("A1", number=2)
LOCAL = struct.Struct("<4s5H3L2H")
CENTRAL = struct.Struct("<4s6H3L5H2L")


def book(path, **more):
    """A sound workbook with further parts."""
    return write_parts(path, workbook_parts(ROWS) | more)


def hand_packed(parts, entries, *, parts_listed=None, zip64_parts=0):
    """An archive of (name, method, data as packed, checksum, inflated size) and a directory that says what `entries` make of it:
    functions from (offset, packed size, inflated size) to the same.
    """
    content, directory, count = bytearray(), bytearray(), 0
    for (name, method, packed, checksum, inflated), change in zip(parts, entries, strict=True):
        encoded = name.encode()
        offset = len(content)
        content += LOCAL.pack(b"PK\3\4", 20, 0, method, 0, 0, checksum, len(packed), inflated, len(encoded), 0)
        content += encoded + packed
        for offset_listed, packed_listed, inflated_listed in change(offset, len(packed), inflated):
            extra = b""
            short = min(inflated_listed, 0xFFFFFFFF)
            if short < inflated_listed:
                extra = struct.pack("<HHQ", 1, 8, inflated_listed)
            directory += CENTRAL.pack(
                b"PK\1\2", 20, 20, 0, method, 0, 0, checksum, packed_listed, short, len(encoded), len(extra),
                0, 0, 0, 0, offset_listed,
            )  # fmt: skip
            directory += encoded + extra
            count += 1
    start = len(content)
    content += directory
    count = min(parts_listed if parts_listed is not None else count, 0xFFFF)
    if zip64_parts:
        place = len(content)
        content += struct.pack(
            "<4sQ2H2L4Q", b"PK\6\6", 44, 45, 45, 0, 0, zip64_parts, zip64_parts, len(directory), start
        )
        content += struct.pack("<4sLQL", b"PK\6\7", 0, place, 1)
    content += struct.pack("<4s4H2LH", b"PK\5\6", 0, 0, count, count, len(directory), start, 0)
    return bytes(content)


def packed(text, name="xl/worksheets/sheet1.xml"):
    data = text if isinstance(text, bytes) else text.encode()
    squeeze = zlib.compressobj(9, zlib.DEFLATED, -15)
    return name, 8, squeeze.compress(data) + squeeze.flush(), zlib.crc32(data), len(data)


def _as_it_is(offset, size, inflated):
    return [(offset, size, inflated)]


def sound_parts():
    return [packed(content, name) for name, content in workbook_parts(ROWS).items()]


def lying(path, change, *, more=None, **listed):
    """A workbook with one more part, about which the directory says what `change` makes of it."""
    parts = [*sound_parts(), more or packed("<x/>" + " " * 2_000, "xl/more.xml")]
    path.write_bytes(hand_packed(parts, [_as_it_is] * (len(parts) - 1) + [change], **listed))
    return path


def repeated(text, megabytes, before="", after=""):
    """The same megabyte of a short text again and again: as deflate packs it, its checksum and its size. Packed once, then repeated."""
    million = text.encode() * (1_000_000 // len(text))
    squeeze = zlib.compressobj(9, zlib.DEFLATED, -15)
    head = squeeze.compress(before.encode()) + squeeze.flush(zlib.Z_FULL_FLUSH)
    block = squeeze.compress(million) + squeeze.flush(zlib.Z_FULL_FLUSH)
    tail = squeeze.compress(after.encode()) + squeeze.flush()
    checksum = zlib.crc32(before.encode())
    for _ in range(megabytes):
        checksum = zlib.crc32(million, checksum)
    size = len(before) + megabytes * 1_000_000 + len(after)
    return head + block * megabytes + tail, zlib.crc32(after.encode(), checksum), size


def with_large(path, large, *names):
    """A workbook with this content in parts of these names."""
    parts = [part for part in sound_parts() if part[0] not in names] + [(name, 8, *large) for name in names]
    path.write_bytes(hand_packed(parts, [_as_it_is] * len(parts)))
    return path


def one_large_sheet(path):
    name = "xl/worksheets/sheet1.xml"
    before, after = workbook_parts(ROWS + inline("@", number=3))[name].split("@")
    return with_large(path, repeated("x", 80, before, after), name)


def parts_inside_one_another(path):
    """As David Fifield's: each part quotes the headers of the ones after it, so that all share the last one's data."""

    def change(offset, size, inflated):
        return [(offset, size, inflated), (offset + 10, size - 10, inflated)]

    inner = b"\0" * 4 + hand_packed([packed("<x/>" * 500, "xl/inner.xml")], [_as_it_is])
    return lying(path, change, more=("xl/more.xml", 0, inner, zlib.crc32(inner), len(inner)))


def listed(count):
    """What lists a part so many times."""
    return lambda offset, size, inflated: [(offset, size, inflated)] * count


def inflating_to(size_of):
    """What declares another inflated size than the part has."""
    return lambda offset, size, inflated: [(offset, size, size_of(inflated))]


def nested():
    inner = b"Order\nA1\n"
    for _ in range(20):
        content = io.BytesIO()
        with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("orders.zip", inner)
        inner = content.getvalue()
    return inner


def letters():
    return repeated("a\n", 80, "Order\n")


NOTHING, LONG = (("x" * length, 0, b"", 0, 0) for length in (1, 65_535))
BOMBS = {  # what writes each to a path, and the code it has to be refused with
    "one large part": (lambda path: with_large(path, repeated(" ", 80), "xl/media/x.xml"), "R231"),
    "one large sheet": (one_large_sheet, "R231"),
    "many parts below the grace": (lambda path: with_large(path, repeated(" ", 9), *(f"xl/media/{n}.xml" for n in range(40))), "R231"),
    "an endless beginning": (lambda path: book(path, **{"xl/theme/theme1.xml": "<!--" + "x" * 5_000_000 + "--><a/>"}), "R231"),
    "three gigabytes declared": (lambda path: lying(path, inflating_to(lambda _: 3_000_000_000)), "R231"),
    "six gigabytes in zip64": (lambda path: lying(path, inflating_to(lambda _: 6_000_000_000)), "R231"),
    "a packed size that hides the ratio": (
        lambda path: lying(path, lambda offset, _, inflated: [(offset, 1_000_000, inflated)], more=packed(b" " * 9_999_999, "xl/more.xml")), "R235"),
    "a size smaller than it is": (lambda path: lying(path, inflating_to(lambda size: size // 2)), "R235"),
    "one part listed many times": (lambda path: lying(path, listed(200)), "R235"),
    "parts inside one another": (parts_inside_one_another, "R235"),
    "65,536 parts": (lambda path: lying(path, listed(65_536), more=NOTHING), "R231"),
    "a million parts in zip64": (lambda path: lying(path, listed(30_000), more=NOTHING, zip64_parts=1_000_000), "R231"),
    # names of 65,535 characters make a directory of gigabytes from few parts
    "a directory without parts": (lambda path: lying(path, listed(400), more=LONG), "R231"),
    "nested": (lambda path: path.write_bytes(nested()), "R201"),
    "a gzip of one letter": (lambda path: path.write_bytes(b"\x1f\x8b\x08\0\0\0\0\0\0\xff" + letters()[0] + bytes(8)), "R231"),
    "a zip of one letter": (lambda path: path.write_bytes(hand_packed([("orders.csv", 8, *letters())], [_as_it_is])), "R231"),
    "a gzip of a gzip": (lambda path: path.write_bytes(gzip.compress(gzip.compress(b"Order\n" + b"a\n" * 5_000_000))), "R201"),
}  # fmt: skip


def write_bombs(folder):
    """The paths of all bombs, in their order."""
    paths = [folder / name for name in BOMBS]
    for path, (write, _) in zip(paths, BOMBS.values(), strict=True):
        write(path)
    return paths

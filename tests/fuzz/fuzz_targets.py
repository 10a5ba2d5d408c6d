"""What is fuzzed of reading: functions of bytes that return for whatever they can cope with, and raise when a promise is broken.

The promise: any bytes give tables whose rows are as wide as their header, or one refusal with its words. Seeds lie beside this
file, one folder for each target; `make fuzz` starts from them, the test suite runs them once each.
"""

import tempfile
import zipfile
from io import BytesIO
from pathlib import Path

from loadsheet.errors import FileRefused
from loadsheet.problems import Where
from loadsheet.reading.header import check_header, find_header, fold_label
from loadsheet.reading.opening import open_in_this_process
from loadsheet.reading.tables import Layout, WantedColumn
from loadsheet.settings import ReadingSettings

SEEDS = Path(__file__).parent / "seeds"
ASKED = Layout("rows", (WantedColumn("order", ("Order", "Order no.")), WantedColumn("weight", ("Kg",), required=False)))
BOUNDS = ReadingSettings(
    cell_length_max=1_000, columns_max=100, blank_rows_max=50, record_lines_max=10, inflated_bytes_max=5_000_000
)
ROWS_MAX = 10_000


def read(content: bytes) -> None:
    """The bytes as a file."""
    with tempfile.NamedTemporaryFile(prefix="loadsheet-fuzz-") as file:
        file.write(content)
        file.flush()
        try:
            table = open_in_this_process(Path(file.name), "fuzzed", [ASKED], BOUNDS)["rows"]
            for count, row in enumerate(table.rows()):
                assert len(row.cells) == len(table.header)
                assert row.problem is None or str(row.problem)
                assert all(isinstance(cell, str) for cell in row.shown)
                if count > ROWS_MAX:
                    return
        except FileRefused as refused:
            str(refused.problem)  # its words must fill their template


def csv(content: bytes) -> None:
    """The bytes as a text file."""
    read(content)


def xlsx(content: bytes) -> None:
    """The bytes as an .xlsx, or as a part of a sound one."""
    _read_package("xlsx", content)


def xlsb(content: bytes) -> None:
    """The bytes as an .xlsb, or as a part of a sound one."""
    _read_package("xlsb", content)


def ods(content: bytes) -> None:
    """The bytes as an .ods, or as a part of a sound one."""
    _read_package("ods", content)


def xls(content: bytes) -> None:
    """The bytes as an .xls: its records, or all of its container."""
    read(content)


def _read_package(kind: str, content: bytes) -> None:
    """The first byte chooses a part of a sound workbook, the others are put in its place; or they are the whole file."""
    sound = _SOUND[kind]
    if not content:
        return
    if content[0] >= len(sound):
        read(content[1:])
        return
    packed = BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for place, (name, part) in enumerate(sound.items()):
            archive.writestr(name, content[1:] if place == content[0] else part)
    read(packed.getvalue())


def header(content: bytes) -> None:
    """The bytes as rows of text: which of them is the header. Labels are cells between tabs; a first line may name a header row."""
    lines = content.decode("utf-8", "replace").split("\n")
    asked_row = int(lines[0]) if lines[0].isdecimal() and len(lines[0]) < 4 else 0
    labels = [label for label in lines[1].split("\t") if label] if len(lines) > 1 else []
    columns = tuple(WantedColumn(f"c{place}", (label,), place % 3 != 2) for place, label in enumerate(labels))
    if not columns:
        return
    layout = Layout("rows", columns, header_row=asked_row or "auto")
    rows = [(number, line.split("\t")) for number, line in enumerate(lines[2:], 1)]
    found = find_header(rows, layout)
    for name, places in found.positions.items():
        wanted = {_letters(label) for column in columns if column.name == name for label in column.labels}
        if found.top == found.row:  # labels over several rows are put together in more than one way
            assert all(_letters(found.labels[place]) in wanted for place in places)
    try:
        check_header(found, layout, Where("fuzzed"), 100)
    except FileRefused as refused:
        str(refused.problem)
    else:
        assert found.is_complete


def _letters(label: str) -> str:
    """What of a label no reading of it may let go."""
    return "".join(character for character in fold_label(label) if character.isalnum())


def _parts(path: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


_SOUND = {kind: _parts(SEEDS / f"sound.{kind}") for kind in ("xlsx", "xlsb", "ods")}
TARGETS = {"csv": csv, "xlsx": xlsx, "xls": xls, "xlsb": xlsb, "ods": ods, "header": header}

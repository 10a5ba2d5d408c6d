"""R34: a disk that fails while a file is read. It is tried once more; a disk that goes on failing halts the run, and refuses nothing."""

import pytest
from reading_corpus import layout
from reading_writers import Sheet, Typed, write_ods, write_xls, write_xlsb, write_xlsx

from loadsheet.problems import FileRefused, FolderError
from loadsheet.reading import open_tables
from loadsheet.reading.sandbox import DiskFault, ForkServer, open_in_sandbox
from loadsheet.settings import Settings

sandbox_child = pytest.importorskip("loadsheet.reading.sandbox_child", reason="processes cannot be forked here")
ASKED = layout("Order")
READS_MAX = 60
SHEET = [Sheet([["Order", "Kg"], *([f"A{number}", Typed(number)] for number in range(40))])]


def write_csv(path, sheets):
    path.write_text("Order,Kg\n" + "".join(f"A{number},{'9' * 900}\n" for number in range(60)), encoding="utf-8")
    return path


WRITERS = {"csv": write_csv, "xlsx": write_xlsx, "xls": write_xls, "xlsb": write_xlsb, "ods": write_ods}


@pytest.fixture(scope="module")
def fork_server():
    made = ForkServer("reading_targets:fail")
    yield made
    made.close()


def read(path, fork_server, first, most):
    """The rows where reads from number `first` on fail, `most` of them."""
    name = f"{first} times {most} {path.name}"
    return [tuple(row.shown) for row in open_in_sandbox(path, name, [ASKED], Settings(), fork_server)["rows"].rows()]


@pytest.mark.parametrize("kind", WRITERS)
def test_r34_whichever_read_fails_the_file_is_read_in_the_second_try_or_the_run_halts(tmp_path, fork_server, kind):
    path = WRITERS[kind](tmp_path / f"a.{kind}", SHEET)
    expected = [tuple(row.shown) for row in open_tables(path, path.name, [ASKED], Settings())["rows"].rows()]
    assert len(expected) >= 40
    failed = 0
    for first in (*range(3), *range(3, READS_MAX, 8)):
        try:
            found = read(path, fork_server, first, 255)
        except DiskFault:
            failed += 1
            assert read(path, fork_server, first, 1) == expected
            continue
        assert found == expected  # there were no more reads than those before
        break
    assert failed >= 2
    with pytest.raises(FolderError, match=r"cannot be read from its disk \(Input/output error\)") as halted:
        read(path, fork_server, 0, 255)
    assert halted.value.exit_code == 75


def test_r34_a_file_that_is_cut_off_is_no_fault_of_the_disk(tmp_path):
    path = write_xlsx(tmp_path / "a.xlsx", SHEET)
    path.write_bytes(path.read_bytes()[:900])
    with pytest.raises(FileRefused) as refused:
        open_tables(path, path.name, [ASKED], Settings())
    assert sandbox_child.find_disk_error(refused.value) is None

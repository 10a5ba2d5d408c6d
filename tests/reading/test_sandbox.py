"""Each file is read in a process of its own: whatever a reader does there, one file is refused in words, and the next one is read."""

import ctypes
import os
import socket
import struct
import subprocess
import sys
import threading
import time
from ctypes.util import find_library
from itertools import zip_longest
from pathlib import Path

import openpyxl
import pytest
import xlsxwriter
from hostile_cost import cost_of
from hypothesis import given, settings
from hypothesis import strategies as st
from reading_corpus import layout, text_file
from reading_writers import WRITERS, Sheet, Typed

from loadsheet.errors import FileRefused, FolderError, ReadersUnavailable
from loadsheet.problems import Problem, Where
from loadsheet.reading import Native, Row, messages, open_tables, read_tops, sandbox
from loadsheet.reading.messages import ExitStatus, TableDescription, decode, pack_rows, receive, unpack_rows
from loadsheet.reading.sandbox import DiskFault, ForkServer, open_in_sandbox
from loadsheet.reading.tables import bounds_of
from loadsheet.settings import Settings

ASKED = layout("Order")
TIGHT = {"reading_memory_mb": 256, "reading_cpu_s": 0.1, "reading_s_per_mb": 0.0}
pytestmark = pytest.mark.skipif(
    not hasattr(os, "fork"), reason="processes cannot be forked here; files are read in our own"
)


@pytest.fixture(scope="module")
def fork_servers():
    """Fork servers whose readers do as a function of `reading_targets` does."""
    made = {}

    def fork_server(target):
        return made.setdefault(target, ForkServer(f"reading_targets:{target}"))

    yield fork_server
    for each in made.values():
        each.close()


def opened(path, fork_server=None, process="child", **limits):
    """The table of a file, by a reader of this fork server."""
    given = Settings(reading_process=process, **limits)
    if fork_server is None:
        return open_tables(path, path.name, [ASKED], given)["rows"]
    return open_in_sandbox(path, path.name, [ASKED], given, fork_server)["rows"]


def refusal_of(fork_server, path, **limits):
    with pytest.raises(FileRefused) as raised:
        list(opened(path, fork_server, **(TIGHT | limits)).rows())
    return raised.value.problem


FAILURES = {  # what a reader does: the code, what is said, and what to do
    "crash": ("R233", "SIGSEGV", "save it again"),
    "abort": ("R233", "SIGABRT", "save it again"),
    "panic": ("R233", "PanicException: called", "save it again"),
    "end": ("R233", "code 7", "save it again"),
    "recurse": ("R233", "RecursionError", "save it again"),
    "loop": ("R232", "at most 1 s are allowed", "raise reading.cpu_s"),
    "hang": ("R232", "reading.wall_s", "raise reading.wall_s"),
    "allocate": ("R232", "256 MB (reading.memory_mb)", "raise reading.memory_mb"),
    "killed": ("R232", "reading.memory_mb", "raise reading.memory_mb"),
    "refuse": ("R202", "no rows", "send it again"),
}


@pytest.mark.parametrize(
    ("deed", "when"), [*((deed, "rows") for deed in FAILURES), ("crash", "open"), ("recurse", "open"), ("hang", "open")]
)
def test_a_reader_that_fails_costs_one_file_and_the_next_is_read(tmp_path, fork_servers, deed, when):
    code, said, to_do = FAILURES[deed]
    fork_server = fork_servers("misbehave")
    path = text_file(tmp_path, f"{deed} {when}")
    problem = refusal_of(fork_server, path, reading_wall_s=0.2 if deed == "hang" else 100.0)
    assert (problem.code, said in problem.text, to_do in problem.hint) == (code, True, True), problem
    assert "Traceback" not in str(problem)
    path = text_file(tmp_path, "refuse rows")
    assert refusal_of(fork_server, path).code == "R202"  # the same fork server still has readers


def test_a_row_before_a_failure_is_handed_over_whole_or_not_at_all(tmp_path, fork_servers):
    table = opened(text_file(tmp_path, "crash rows"), fork_servers("misbehave"), **TIGHT)
    seen = []
    with pytest.raises(FileRefused):
        seen.extend(table.rows())
    assert seen in ([], [Row(2, ("first",))])
    with pytest.raises(FileRefused, match="SIGSEGV"):  # a dead reader is named again
        list(table.rows())


def test_the_first_rows_of_a_sample_are_read_in_the_sandbox_too(tmp_path, fork_servers, monkeypatch):
    monkeypatch.setattr(sandbox, "_fork_server", lambda _process: fork_servers("misbehave"))
    with pytest.raises(FileRefused, match="SIGSEGV"):
        read_tops(text_file(tmp_path, "crash open"), "sample.csv", Settings())


@pytest.mark.parametrize("lie", ["columns", "width", "code", "values", "kind", "number", "cell", "place", "endless"])
def test_a_reader_that_lies_about_its_table_is_not_believed(tmp_path, fork_servers, lie):
    problem = refusal_of(fork_servers("lie"), text_file(tmp_path, lie), reading_memory_mb=1_000, reading_cpu_s=60)
    assert problem.code in ("R232", "R233")


@pytest.mark.skipif(sys.platform != "linux", reason="Landlock and seccomp are Linux's")
def test_a_reader_can_do_nothing_but_read_its_file(tmp_path, fork_servers, monkeypatch):
    if ctypes.CDLL(None).syscall(444, None, 0, 1) < 1:
        pytest.skip("this kernel has no Landlock")
    monkeypatch.setenv("LOADSHEET_TOKEN", "very-secret")
    canary = text_file(tmp_path, "untouched", "canary")
    canary.chmod(0o640)
    with socket.create_server(("127.0.0.1", 0)) as server:
        path = text_file(tmp_path, f"{canary} {server.getsockname()[1]} {os.getpid()}")
        with_secrets = {"token": "very-secret", "database": "postgresql://user:very-secret@host/db"}
        came_of = dict(row.cells for row in opened(path, fork_servers("wander"), **TIGHT, **with_secrets).rows())
        server.settimeout(0)
        with pytest.raises(BlockingIOError):
            server.accept()
    assert came_of.pop("bounds") == " ".join(map(str, bounds_of(Settings())))
    assert {what: said for what, said in came_of.items() if not said.startswith("refused")} == {}
    assert len(came_of) == 30
    assert (canary.read_text(), canary.stat().st_mode & 0o7777) == ("untouched", 0o640)
    assert sorted(each.name for each in tmp_path.iterdir()) == ["canary", "orders.csv"]


@pytest.mark.skipif(not find_library("seccomp"), reason="libseccomp knows the numbers")
@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
def test_the_system_calls_have_the_numbers_of_the_kernel(machine):
    sandbox_child = pytest.importorskip("loadsheet.reading.sandbox_child")
    architecture, column = sandbox_child._ARCHITECTURES[machine]
    name_of = ctypes.CDLL(find_library("seccomp")).seccomp_syscall_resolve_num_arch
    name_of.restype = ctypes.c_char_p
    numbers = sandbox_child.forbidden_calls(machine) | {"tgkill": sandbox_child._SIGNAL_THREAD[column]}
    found = {name: name_of(ctypes.c_uint32(architecture), number) for name, number in numbers.items()}
    assert [known.decode() for known in found.values() if known] == [name for name, known in found.items() if known]
    assert {name for name, known in found.items() if not known} <= {"fchmodat2", "setxattrat", "removexattrat"}, "later"


def test_rows_come_back_as_they_are_read_in_our_own_process(tmp_path):
    text = text_file(tmp_path, 'Order,Kg\nA1,"a\nb"\nA2\nA3,\x07\n' + "".join(f"B{n},{n}\n" for n in range(12_000)))
    book = openpyxl.Workbook()
    book.active.append(["Order", "Kg"])
    for values in (["0017", 1.5], [17, True], ["=1/0", None], ["x\r\ny", "ü\N{SNOWMAN}"]):
        book.active.append(values)
    book.active["A3"].number_format = "00000"
    book.save(tmp_path / "a.xlsx")
    for path in (text, tmp_path / "a.xlsx"):
        apart, here = (opened(path, process=process) for process in ("child", "none"))
        for what in TableDescription._fields:
            assert getattr(apart, what) == getattr(here, what)
        for mine, other in zip_longest(apart.rows(), here.rows()):
            assert (mine, whole(mine)) == (other, whole(other))


def test_passes_over_the_rows_may_overlap_stop_early_and_come_from_threads(tmp_path):
    path = text_file(tmp_path, "Order\n" + "".join(f"A{number}\n" for number in range(20_000)))
    table = opened(path)
    first, second = table.rows(), table.rows()
    assert [next(first), next(second), next(first)] == [Row(2, ("A0",)), Row(2, ("A0",)), Row(3, ("A1",))]
    first.close()
    assert sum(1 for _ in second) == 19_999
    counts = []
    threads = [threading.Thread(target=lambda: counts.append(sum(1 for _ in opened(path).rows()))) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert counts == [20_000] * 3


def test_a_file_that_is_open_for_reading_may_lose_its_name(tmp_path):
    path = text_file(tmp_path, "Order\nA1\n")
    table = opened(path)
    path.unlink()
    assert [row.cells for row in table.rows()] == [("A1",)]


def test_readers_end_with_their_tables_and_with_their_fork_server(tmp_path):
    fork_server = ForkServer()
    path = text_file(tmp_path, "Order\nA1\n")
    table = opened(path, fork_server)
    pid = table.rows.args[0]._pid
    os.kill(pid, 0)
    fork_server.close()
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
    with pytest.raises(FileRefused):
        list(table.rows())
    again = opened(path, fork_server)  # a new one is started
    reader = again.rows.args[0]
    assert len(list(again.rows())) == 1
    del again, table
    assert fork_server.kill(reader._pid).code == 0
    fork_server.close()


def test_a_fork_server_that_cannot_start_stops_the_run_and_blames_no_file(tmp_path):
    fork_server = ForkServer("reading_targets:nothing_of_this_name")
    with pytest.raises(ReadersUnavailable, match="the process that reads files"):
        opened(text_file(tmp_path, "Order\nA1\n"), fork_server, **TIGHT)
    fork_server.close()


ENDLESS = """
import sys, time
from pathlib import Path
from loadsheet.reading import Layout, WantedColumn, sandbox
from loadsheet.settings import Settings
fork_server = sandbox.ForkServer()
asked = Layout("rows", (WantedColumn("Order", ("Order",)),))
table = sandbox.open_in_sandbox(Path(sys.argv[1]), "a.csv", [asked], Settings(), fork_server)["rows"]
rows = table.rows()
next(rows)
print(table.rows.args[0]._pid, flush=True)
time.sleep(600)
"""


def children_of(pid):
    """The processes that a process has forked, and those that they have, as far as they are not zombies."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            own, (state, parent) = stat.parent.name, stat.read_text().rpartition(")")[2].split()[:2]
        except OSError:
            continue
        if parent == str(pid) and state != "Z":
            found += [int(own), *children_of(own)]
    return found


def lives(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


@pytest.mark.skipif(sys.platform != "linux", reason="/proc is Linux's")
def test_no_process_outlives_ours_however_it_ends(tmp_path):
    path = text_file(tmp_path, "Order\n" + "A1\n" * 300_000)
    with subprocess.Popen([sys.executable, "-c", ENDLESS, str(path)], stdout=subprocess.PIPE) as ours:
        reader = int(ours.stdout.readline())
        family = children_of(ours.pid)
        assert reader in family
        assert len(family) == 2  # the fork server and the reader
        assert [len(list(Path(f"/proc/{pid}/task").iterdir())) for pid in family] == [1, 1]  # forking needs that
        ours.kill()
    until = time.monotonic() + 60
    while any(lives(pid) for pid in family) and time.monotonic() < until:
        time.sleep(0.01)
    assert [pid for pid in family if lives(pid)] == []


@pytest.mark.parametrize(
    ("imported", "absent"),
    [
        ("loadsheet.reading", {"openpyxl", "python_calamine", "numpy"}),  # ours does not load what reads files
        ("loadsheet.reading.sandbox_child, loadsheet.reading.opening", {"pydantic", "loadsheet.settings"}),
    ],
)
def test_a_process_loads_only_what_it_needs(imported, absent):
    code = f"import sys, {imported}; print({absent} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


# ---- messages ----
KINDS = st.sampled_from(["number", "datetime", "date", "time", "flag", "error", "formula"])
CELLS = st.text(max_size=8) | st.builds(Native, st.text(max_size=8), KINDS, st.none() | st.text(max_size=8))
PROBLEMS = st.none() | st.builds(
    lambda length, found: Problem("R212", Where("a.csv", "", 3, "Order"), found, {"length": length, "limit": 5}, "cut"),
    st.integers(0, 10**9),
    st.text(max_size=5),
)
BESIDE = st.none() | st.tuples(st.integers(3, 10**9), st.text(max_size=5))
ROWS = st.lists(
    st.builds(Row, st.integers(1, 10**9), st.tuples(CELLS, CELLS), PROBLEMS, st.text(max_size=5), BESIDE), max_size=20
)


def whole(row):
    """All of a row that its comparison leaves out."""
    return row.shown, [(type(cell), getattr(cell, "kind", "")) for cell in row.cells]


def sent(rows):
    return [bytes(message[1:]) for message in pack_rows(rows)]


@given(ROWS)
@settings(max_examples=100, deadline=None)
def test_rows_are_the_same_after_a_message(rows):
    back = [row for body in sent(rows) for row in unpack_rows(body, 2)]
    assert back == rows
    assert [whole(row) for row in back] == [whole(row) for row in rows]


@given(st.binary(max_size=200) | ROWS.map(lambda rows: b"".join(sent(rows))), st.data())
@settings(max_examples=200, deadline=None)
def test_any_bytes_of_a_message_give_what_they_should_or_a_value_error(body, data):
    if body:
        place = data.draw(st.integers(0, len(body) - 1))
        body = body[:place] + data.draw(st.binary(max_size=3)) + body[place + 1 :]
    readers = [
        lambda: list(unpack_rows(body, 2)),
        lambda: [table.check() for table in decode(body, list[TableDescription])],
        lambda: messages.check_problem(decode(body, Problem)),
        lambda: decode(body, tuple[str, str]),
        lambda: decode(body, ExitStatus),
        lambda: received(struct.pack("!i", len(body)) + body),
    ]
    for read in readers:
        try:
            read()
        except ValueError:
            continue


def received(content):
    """The message that a process gets which is sent these bytes and no more."""
    own_end, other_end = sandbox._connected_pair(10)
    with own_end:
        with other_end:
            os.write(other_end.fileno(), content)
        return receive(own_end)


@pytest.mark.parametrize(
    ("content", "error"),
    [
        (struct.pack("!i", messages.MESSAGE_BYTES_MAX + 1), ValueError),
        (struct.pack("!i", 2**31 - 1) + b"x" * 99, ValueError),
        (struct.pack("!iQ", -1, 2**63), ValueError),
        (struct.pack("!i", -2), ValueError),
        (struct.pack("!i", 0), ValueError),
        (struct.pack("!i", 9) + b"short", OSError),
        (b"\0\0", OSError),
        (b"", EOFError),
    ],
)
def test_a_message_of_a_length_that_cannot_be_is_not_awaited(content, error):
    with pytest.raises(error):
        received(content)
    assert received(struct.pack("!i", 3) + b"Tab") == (b"T", b"ab")


@pytest.mark.parametrize("part", [b"", b"\0\0", struct.pack("!i", 9) + b"half"])
def test_a_reader_that_stops_within_a_message_is_not_awaited_beyond_the_limit(part):
    own_end, child_end = sandbox._connected_pair(0.05)
    with own_end, child_end:
        os.write(child_end.fileno(), part)
        with pytest.raises(TimeoutError):
            receive(own_end)


def test_many_small_rows_go_in_messages_of_a_bounded_size():
    rows = [Row(number, ("x" * 100, "y")) for number in range(20_000)]
    bodies = sent(rows)
    assert [row for body in bodies for row in unpack_rows(body, 2)] == rows
    assert len(bodies) > 1
    assert max(map(len, bodies)) < 2 * messages.MESSAGE_BYTES


# ---- a disk that fails ----


def write_csv(path, sheets):
    path.write_text("Order,Kg\n" + "".join(f"A{number},{'9' * 900}\n" for number in range(60)), encoding="utf-8")
    return path


FORMS = {"csv": write_csv, **WRITERS}
READS_MAX = 60


@pytest.mark.parametrize("form", FORMS)
def test_r34_whichever_read_fails_the_file_is_read_in_the_second_try_or_the_run_halts(tmp_path, fork_servers, form):
    path = FORMS[form](tmp_path / f"a.{form}", [Sheet([["Order", "Kg"], *([f"A{n}", Typed(n)] for n in range(40))])])

    def read(first, most):
        """The rows where reads from number `first` on fail, `most` of them."""
        name = f"{first} times {most} {path.name}"
        table = open_in_sandbox(path, name, [ASKED], Settings(), fork_servers("fail"))["rows"]
        return [tuple(row.shown) for row in table.rows()]

    expected = [tuple(row.shown) for row in opened(path, process="none").rows()]
    assert len(expected) >= 40
    failed = 0
    for first in (0, 1, *range(2, READS_MAX, 8)):
        try:
            found = read(first, 255)
        except DiskFault:
            failed += 1
            assert read(first, 1) == expected
            continue
        assert found == expected  # there were no more reads than those before
        break
    assert failed >= 2
    with pytest.raises(FolderError, match=r"cannot be read because its disk failed \(Input/output error\)") as halted:
        read(0, 255)
    assert halted.value.exit_code == 75


# ---- memory ----

HEADER = ("Order", "City", "Weight", "Date", "Note", "Price")


def cells(number):
    return (f"A{number:08}", "Köln", number % 977, 45_000 + number % 400, f"note {number % 5_003}", number / 8)


def write_long_csv(path, rows):
    with path.open("w", encoding="utf-8") as file:
        file.write(",".join(HEADER) + "\n")
        for number in range(rows):
            file.write('%s,"%s",%s,%s,%s,%s\n' % cells(number))  # noqa: UP031 (a row, and twice as fast)


def write_long_xlsx(path, rows):
    """A workbook with its texts in its cells, as programs write what they stream."""
    with xlsxwriter.Workbook(path, {"constant_memory": True, "tmpdir": str(path.parent)}) as book:
        sheet = book.add_worksheet()
        sheet.write_row(0, 0, HEADER)
        for number in range(rows):
            for place, cell in enumerate(cells(number)):
                (sheet.write_string if isinstance(cell, str) else sheet.write_number)(number + 1, place, cell)


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere memory is counted in other units")
@pytest.mark.timeout(1_200)
@pytest.mark.parametrize(
    ("write", "rows"),
    [
        (write_long_csv, 40_000),
        pytest.param(write_long_csv, 1_000_000, marks=[pytest.mark.sweep, pytest.mark.alone]),
        pytest.param(write_long_xlsx, 150_000, marks=[pytest.mark.sweep, pytest.mark.alone]),
    ],
)
def test_ten_times_the_rows_take_no_more_memory(tmp_path, write, rows):
    costs = []
    for count in (rows // 10, rows):
        write(tmp_path / f"{count}", count)
        costs.append(cost_of([tmp_path / f"{count}"]))
    assert [cost.codes for cost in costs] == [[rows // 10], [rows]]
    few, many = (cost.peak_mb + cost.own_mb for cost in costs)
    assert many < few + 15, costs

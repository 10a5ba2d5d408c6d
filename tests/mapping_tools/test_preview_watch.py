"""`mapping preview --watch` shows the records anew at each save, and an error of the mapping does not end it."""

import contextlib
import io
import signal
import subprocess
import sys
import threading
import time
from contextlib import contextmanager

import pytest
from command import environment
from command_in_process import Terminal

from loadsheet.cli.mapping_results import show_at_each_save
from loadsheet.errors import MappingError

MAPPING = """\
mapping: small
version: 1
target: order.delete
source: {files: "*.csv", locale: en_GB}
columns: {order: {label: Order, required: true}}
payload: {order_id: {col: order}}
"""
WITH_CODES = MAPPING.replace(
    "columns:", "lookups: {codes: {file: codes/orders.csv, key: code, value: order}}\ncolumns:"
).replace("required: true", "lookup: codes, required: true")


@contextmanager
def watching(folder, *words):
    """A preview of `in.csv` that watches, with stdout and stderr in one pipe. It has to end with 0 and without a traceback after Ctrl-C."""
    command = [sys.executable, "-m", "loadsheet", "mapping", "preview", "in.csv", "--watch", *words]
    with subprocess.Popen(
        command, cwd=folder, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as process:
        guard = threading.Timer(60, process.kill)
        guard.start()
        try:
            yield process.stdout.readline
            process.send_signal(signal.SIGINT)
            assert "Traceback" not in process.stdout.read()
            assert process.wait(20) == 0
        finally:
            guard.cancel()
            process.kill()


@pytest.mark.journey
def test_a_saved_mapping_is_shown_anew_and_an_error_in_it_does_not_end_the_watch(tmp_path):
    (tmp_path / "mappings").mkdir()
    mapping = tmp_path / "mappings" / "small.yaml"
    mapping.write_text(MAPPING, encoding="utf-8")
    (tmp_path / "in.csv").write_text("Order\nA-1\n", encoding="utf-8")
    with watching(tmp_path) as line:
        assert line().startswith("A-1\torder_id")
        mapping.write_text(MAPPING.replace("{col: order}", "{colour: order}"), encoding="utf-8")
        assert "small.yaml:6:" in line()
        mapping.write_text(MAPPING.replace("{col: order}", "{expr: 'order + \"/x\"'}"), encoding="utf-8")
        while not (said := line()).startswith("A-1/x\torder_id"):
            assert said


@pytest.mark.journey
def test_saves_of_code_tables_and_of_the_file_count_and_no_others(tmp_path):
    """The mapping is given by its path, outside of the folder of mappings."""
    (tmp_path / "draft" / "codes").mkdir(parents=True)
    codes, sheet = tmp_path / "draft" / "codes" / "orders.csv", tmp_path / "in.csv"
    (tmp_path / "draft" / "small.yaml").write_text(WITH_CODES, encoding="utf-8")
    codes.write_text("code,order\na,A-1\nb,B-1\n", encoding="utf-8")
    sheet.write_text("Order\na\n", encoding="utf-8")
    with watching(tmp_path, "--mapping", "draft/small.yaml") as line:
        assert line().startswith("A-1\torder_id")
        for name in ("notes.txt", "other.csv", "draft/small.yaml~"):  # no save that counts
            (tmp_path / name).write_text("Order\na\n", encoding="utf-8")
        time.sleep(0.6)
        codes.write_text("code,order\na,A-2\nb,B-1\n", encoding="utf-8")
        assert line().startswith("A-2\torder_id"), "the other files were shown as a save"
        (tmp_path / "new").write_text("Order\nb\n", encoding="utf-8")
        (tmp_path / "new").replace(sheet)  # as many editors save
        assert line().startswith("B-1\torder_id")


def test_a_folder_of_mappings_that_is_replaced_is_watched_again(tmp_path):
    """As when another branch is checked out. Each save is made once the one before was shown."""
    folder, shown = tmp_path / "mappings", []
    folder.mkdir()
    saves = [folder.rmdir, folder.mkdir, (folder / "small.yaml").touch]

    def show():
        shown.append(folder.is_dir())
        if len(shown) > len(saves):
            raise KeyboardInterrupt
        saves[len(shown) - 1]()

    guard = threading.Timer(20, signal.raise_signal, [signal.SIGINT])
    guard.start()
    assert show_at_each_save(show, [], [folder]) == 0
    guard.cancel()
    assert shown == [True, False, True, True]


@pytest.mark.parametrize(("out", "clears"), [(Terminal, 2), (io.StringIO, 0)])
def test_only_a_terminal_is_cleared_and_says_what_it_waits_for(tmp_path, out, clears):
    file, shown = tmp_path / "in.csv", []
    file.touch()

    def show():
        shown.append(len(shown))
        if len(shown) == 2:
            raise KeyboardInterrupt
        file.write_text("saved", encoding="utf-8")
        raise MappingError("no such column")

    with contextlib.redirect_stdout(out()) as stdout, contextlib.redirect_stderr(io.StringIO()) as stderr:
        assert show_at_each_save(show, [file], [tmp_path / "none"]) == 0
    assert stdout.getvalue().count("\033[2J") == clears
    first, *waits = stderr.getvalue().splitlines()
    assert "no such column" in first
    assert [line.endswith("Waits for the next save; Ctrl-C ends.") for line in waits] == [True] * bool(clears)

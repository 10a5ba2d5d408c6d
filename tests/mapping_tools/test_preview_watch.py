"""`mapping preview --watch` shows the records anew at each save, and an error of the mapping does not end it."""

import signal
import subprocess
import sys
import threading

import pytest
from command import environment

MAPPING = """\
mapping: small
version: 1
target: order.delete
source: {files: "*.csv", locale: en_GB}
columns: {order: {label: Order, required: true}}
payload: {order_id: {col: order}}
"""


@pytest.mark.journey
def test_a_saved_mapping_is_shown_anew_and_an_error_in_it_does_not_end_the_watch(tmp_path):
    (tmp_path / "mappings").mkdir()
    mapping = tmp_path / "mappings" / "small.yaml"
    mapping.write_text(MAPPING, encoding="utf-8")
    (tmp_path / "in.csv").write_text("Order\nA-1\n", encoding="utf-8")
    words = [sys.executable, "-m", "loadsheet", "mapping", "preview", "in.csv", "--watch"]
    with subprocess.Popen(
        words,
        cwd=tmp_path,
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as process:
        guard = threading.Timer(60, process.kill)
        guard.start()
        assert process.stdout.readline().startswith("A-1\torder_id")
        mapping.write_text(MAPPING.replace("{col: order}", "{colour: order}"), encoding="utf-8")
        assert "small.yaml:6:" in process.stdout.readline()
        mapping.write_text(MAPPING.replace("{col: order}", "{expr: 'order + \"/x\"'}"), encoding="utf-8")
        while not (line := process.stdout.readline()).startswith("A-1/x\torder_id"):
            assert line
        process.send_signal(signal.SIGINT)
        assert process.wait(20) == 0
        assert "Traceback" not in process.stdout.read()
        guard.cancel()

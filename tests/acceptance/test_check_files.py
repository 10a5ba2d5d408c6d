"""`loadsheet check` on files as people name them on the command line."""

import json
import shutil

from workspace import SAMPLES

from loadsheet.inbox import Candidate
from loadsheet.ingest import FilesInPlace

SAMPLE = "alder_2026-03-10.csv"


def test_files_of_one_name_in_several_folders_are_all_checked(workspace):
    workspace.use_shipped("alder-parcels")
    for folder in ("monday", "tuesday"):
        (workspace / folder).mkdir()
        shutil.copy(SAMPLES / SAMPLE, workspace / folder)
    counts = [
        json.loads(workspace.command("check", "--json", *files).stdout)
        for files in ([f"monday/{SAMPLE}"], [f"monday/{SAMPLE}", f"tuesday/{SAMPLE}", f"monday/{SAMPLE}"])
    ]
    (one, both) = [(found["usable"], found["errors"], len(found["problems"])) for found in counts]
    assert one[0] > 0
    assert both == tuple(2 * count for count in one)


def test_a_file_that_is_gone_before_it_is_read_is_not_taken(tmp_path):
    assert FilesInPlace().claim(Candidate("gone.csv", tmp_path / "gone.csv")) is None

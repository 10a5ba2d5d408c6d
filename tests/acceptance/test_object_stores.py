"""Whole commands with inbox and outbox in an object store: they come to what they come to with folders."""

import io
import json
import shutil
import time

import openpyxl
import pytest
from command_in_process import loadsheet
from watch_process import watching
from workspace import SAMPLES, Workspace, copy_mappings

MAPPINGS = ("nordic-join", "order-updates")
DROPPED = (
    "nordic/2026-03-04/orders.csv",
    "nordic/2026-03-04/packages.csv",
    "order_updates.csv",
)


def settings_file(folder, bucket, mappings=("order-updates",)):
    copy_mappings(folder / "mappings", *mappings)
    places = "".join(f'{name} = "s3://{bucket.name}/{name}"\n' for name in ("inbox", "outbox"))
    (folder / "loadsheet.toml").write_text(f"{places}arrival.settle_s = 0\n", encoding="utf-8")
    return folder


def run_json(bucket):
    """What the newest run in the outbox says."""
    key = max(key for key in bucket.keys("outbox/2") if key.endswith("/run.json"))
    return json.loads(bucket.get(key)), key.removesuffix("/run.json")


def test_a_run_comes_to_the_same_as_with_folders(store, bucket, tmp_path):
    beside = Workspace(tmp_path / "beside")
    beside.use_shipped(*MAPPINGS)
    for name in (*DROPPED, "junk.xyz"):
        content = (SAMPLES / name).read_bytes() if name in DROPPED else b"junk"
        beside.drop(name, content)
        bucket.put(f"inbox/{name}", content)
    folders = beside.run("--json")
    here = settings_file(tmp_path / "here", bucket, MAPPINGS)
    done = loadsheet(here, "run", "--json", **store.environment)
    assert (done.returncode, done.stderr) == (folders.returncode, folders.stderr)
    summary, other = json.loads(done.stdout), json.loads(folders.stdout)
    for said in ("entries", "balance", "verdicts", "reports", "problems"):
        assert summary[said] == other[said], said
    assert summary["balance"]["balances"]
    assert bucket.keys("inbox/") == []
    written, place = run_json(bucket)
    assert written == summary
    listed = {f"{place}/{name}" for name in summary["reports"]}
    aside = {f"{place}/set-aside/junk.xyz", f"{place}/set-aside/junk.xyz.why.txt"}
    archive = f"outbox/archive/{summary['run'][:10].replace('-', '/')}/{summary['run']}"
    archived = {f"{archive}/{name}" for name in DROPPED}
    assert set(bucket.keys("outbox/")) == listed | aside | archived | {"outbox/index.html"}
    kept = {file["kept_as"] for one in summary["drops"] for file in one["files"]}
    originals = archived | {f"{place}/set-aside/junk.xyz"}
    assert kept == {f"s3://{bucket.name}/{key}" for key in originals}
    assert "a-secret" not in done.stdout + done.stderr


def exceptions(bucket, place):
    """The workbook of a run in the bucket, and the cells below Owner in its sheet of exceptions."""
    book = openpyxl.load_workbook(io.BytesIO(bucket.get(f"{place}/reconciliation.xlsx")))
    (owners,) = [column for column in book["Exceptions"].iter_cols() if column[0].value == "Owner"]
    return book, owners[1:]


def owned_by(name, bucket, place):
    """Have an analyst write an owner into the workbook in the bucket, and save it there."""
    book, (first, *_) = exceptions(bucket, place)
    first.value, saved = name, io.BytesIO()
    book.save(saved)
    time.sleep(1.1)  # the store's times are seconds
    bucket.put(f"{place}/reconciliation.xlsx", saved.getvalue())


@pytest.mark.sweep
def test_what_people_send_back_is_heard_by_another_machine_that_shares_nothing_but_the_ledger(store, bucket, tmp_path):
    here, fix = settings_file(tmp_path / "here", bucket), "order_updates.fix.xlsx"

    def another_machine(*words):
        for folder in ("fetched", "known", "outbox"):
            shutil.rmtree(here / ".loadsheet" / folder, ignore_errors=True)
        return loadsheet(here, *words, **store.environment)

    bucket.put("inbox/order_updates.csv", (SAMPLES / "order_updates.csv").read_bytes())
    before = bucket.keys()
    dry = another_machine("run", "--dry-run")
    assert "order_updates.csv (order-updates): " in dry.stdout
    assert bucket.keys() == before
    assert sorted(path.name for path in here.iterdir()) == ["loadsheet.toml", "mappings"]

    assert another_machine("run", "--exit-zero").returncode == 0
    _, place = run_json(bucket)
    owned_by("Bert", bucket, place)
    bucket.put(f"inbox/{fix}", bucket.get(f"{place}/{fix}"))
    done = another_machine("run", "--exit-zero")
    assert done.returncode == 0
    said, place = run_json(bucket)
    new = [drop for drop in said["drops"] if drop["run"] == said["run"]]
    assert [(file["name"], file["role"]) for drop in new for file in drop["files"]] == [(fix, "fix")]
    assert "Bert" in {cell.value for cell in exceptions(bucket, place)[1]}
    assert bucket.get("outbox/index.html").decode().count("/run.html") >= 2
    assert f"→ Reports:   s3://{bucket.name}/{place}" in done.stdout

    bucket.remove(*bucket.keys(f"{place}/"))
    assert another_machine("report").returncode == min(said["exit_code"], 1)
    assert {key.removeprefix(f"{place}/") for key in bucket.keys(f"{place}/")} == set(said["reports"])
    done = another_machine("capsule", "make", "last", "--json")
    assert (done.returncode, json.loads(done.stdout)["remarks"]) == (0, [])
    done = another_machine("ledger", "check")
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.sweep
def test_a_watch_looks_into_the_store_again_and_again_and_doctor_says_whether_it_answers(store, bucket, tmp_path):
    here = settings_file(tmp_path / "here", bucket)
    with watching(here, **store.environment) as watched:
        watched.until(lambda: watched.says("every 0.05 s: object storage sends no file events"))
        bucket.put("inbox/order_updates.csv", (SAMPLES / "order_updates.csv").read_bytes())
        watched.until(lambda: any("1 file," in line for line in watched.out))
        watched.stop()
    assert bucket.keys("inbox/") == []
    assert run_json(bucket)[0]["drops"][0]["files"][0]["name"] == "order_updates.csv"
    done = loadsheet(here, "doctor", **store.environment)
    assert f"inbox\tok\ts3://{bucket.name}/inbox is in an object store and can be listed" in done.stdout
    bucket.drop()
    done = loadsheet(here, "run", **store.environment)
    assert (done.returncode, f"s3://{bucket.name} does not exist" in done.stderr) == (75, True)
    assert "Traceback" not in done.stderr

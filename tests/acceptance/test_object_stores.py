"""Whole commands with inbox and outbox in an object store: they come to what they come to with folders."""

import io
import json
import shutil
import time

import openpyxl
from command_in_process import loadsheet
from watch_process import watching
from workspace import SAMPLES, copy_mappings

MAPPINGS = ("acme-flat", "nordic-join", "order-updates")
DROPPED = (
    "acme_orders_2026-03.xlsx",
    "nordic/2026-03-04/orders.csv",
    "nordic/2026-03-04/packages.csv",
    "order_updates.csv",
)


def settings_file(folder, bucket, mappings=("order-updates",)):
    copy_mappings(folder / "mappings", *mappings)
    lines = [f'inbox = "s3://{bucket.name}/inbox"', f'outbox = "s3://{bucket.name}/outbox"', "arrival.settle_s = 0"]
    (folder / "loadsheet.toml").write_text("\n".join(lines), encoding="utf-8")
    return folder


def drop(bucket, *names):
    for name in names:
        bucket.put(f"inbox/{name}", (SAMPLES / name).read_bytes())


def run_json(bucket):
    """What the newest run in the outbox says."""
    key = max(key for key in bucket.keys("outbox/2") if key.endswith("/run.json"))
    return json.loads(bucket.get(key)), key.removesuffix("/run.json")


def test_a_run_comes_to_the_same_as_with_folders(store, bucket, tmp_path):
    beside = tmp_path / "beside"
    for name in (*DROPPED, "junk.xyz"):
        target = beside / "inbox" / name
        target.parent.mkdir(parents=True, exist_ok=True)
        content = (SAMPLES / name).read_bytes() if name in DROPPED else b"junk"
        target.write_bytes(content)
        bucket.put(f"inbox/{name}", content)
    copy_mappings(beside / "mappings", *MAPPINGS)
    folders = loadsheet(beside, "run", "--settle", "0", "--json")
    here = settings_file(tmp_path / "here", bucket, MAPPINGS)
    done = loadsheet(here, "run", "--json", **store.environment)
    assert (done.returncode, done.stderr) == (folders.returncode, folders.stderr)
    summary, other = json.loads(done.stdout), json.loads(folders.stdout)
    for said in ("entries", "balance", "verdicts", "reports", "problems"):
        assert summary[said] == other[said], said
    assert summary["balance"]["balances"]
    assert bucket.keys("inbox/") == []
    told, place = run_json(bucket)
    assert told == summary
    listed = {f"{place}/{name}" for name in told["reports"]}
    aside = {f"{place}/set-aside/junk.xyz", f"{place}/set-aside/junk.xyz.why.txt"}
    archived = {f"outbox/archive/{told['run'][:10].replace('-', '/')}/{told['run']}/{name}" for name in DROPPED}
    assert set(bucket.keys("outbox/")) == listed | aside | archived | {"outbox/index.html"}
    kept = {file["name"]: file["kept_as"] for one in told["drops"] for file in one["files"]}
    assert {*kept.values(), f"s3://{bucket.name}/{place}/set-aside/junk.xyz.why.txt"} == {
        f"s3://{bucket.name}/{key}" for key in aside | archived
    }
    assert "a-secret" not in done.stdout + done.stderr


def owned_by(name, bucket, place):
    """Have an analyst write an owner into the workbook in the bucket, and save it there."""
    book = openpyxl.load_workbook(io.BytesIO(bucket.get(f"{place}/reconciliation.xlsx")))
    heads = [cell.value for cell in book["Exceptions"][1]]
    book["Exceptions"].cell(2, heads.index("Owner") + 1, name)
    saved = io.BytesIO()
    book.save(saved)
    time.sleep(1.1)  # the store's times are seconds
    bucket.put(f"{place}/reconciliation.xlsx", saved.getvalue())


def owners(bucket, place):
    """The owners that a workbook in the bucket names."""
    book = openpyxl.load_workbook(io.BytesIO(bucket.get(f"{place}/reconciliation.xlsx")))
    heads = [cell.value for cell in book["Exceptions"][1]]
    return {row[heads.index("Owner")].value for row in book["Exceptions"].iter_rows(min_row=2)}


def test_what_people_send_back_is_heard_by_another_machine_that_shares_nothing_but_the_ledger(store, bucket, tmp_path):
    here, fix = settings_file(tmp_path / "here", bucket), "order_updates.fix.xlsx"

    def another_machine():
        for folder in ("fetched", "known", "outbox"):
            shutil.rmtree(here / ".loadsheet" / folder, ignore_errors=True)

    drop(bucket, "order_updates.csv")
    leaves_no_trace(here, bucket, store)
    assert loadsheet(here, "run", "--exit-zero", **store.environment).returncode == 0
    _, place = run_json(bucket)
    owned_by("Bert", bucket, place)
    bucket.put(f"inbox/{fix}", bucket.get(f"{place}/{fix}"))
    another_machine()
    done = loadsheet(here, "run", "--exit-zero", **store.environment)
    assert done.returncode == 0
    told, place = run_json(bucket)
    new = [drop for drop in told["drops"] if drop["run"] == told["run"]]
    assert [(file["name"], file["role"]) for drop in new for file in drop["files"]] == [(fix, "fix")]
    assert "Bert" in owners(bucket, place)
    assert bucket.get("outbox/index.html").decode().count("/run.html") >= 2
    assert f"→ Reports:   s3://{bucket.name}/{place}" in done.stdout

    another_machine()
    bucket.remove(*bucket.keys(f"{place}/"))
    assert loadsheet(here, "report", **store.environment).returncode == min(told["exit_code"], 1)
    assert {key.removeprefix(f"{place}/") for key in bucket.keys(f"{place}/")} == set(told["reports"])

    another_machine()
    done = loadsheet(here, "capsule", "make", "last", "--json", **store.environment)
    assert (done.returncode, json.loads(done.stdout)["remarks"]) == (0, [])
    done = loadsheet(here, "ledger", "check", **store.environment)
    assert (done.returncode, done.stderr) == (0, "")


def leaves_no_trace(here, bucket, store):
    """A dry run says what a run would do."""
    before = bucket.keys()
    done = loadsheet(here, "run", "--dry-run", **store.environment)
    assert "order_updates.csv (order-updates): " in done.stdout
    assert bucket.keys() == before
    assert sorted(path.name for path in here.iterdir()) == ["loadsheet.toml", "mappings"]


def test_a_watch_looks_into_the_store_again_and_again(store, bucket, tmp_path):
    here = settings_file(tmp_path / "here", bucket)
    with watching(here, **store.environment) as watched:
        watched.until(lambda: watched.says("every 0.05 s: object storage sends no file events"))
        drop(bucket, "order_updates.csv")
        watched.until(lambda: any("1 file," in line for line in watched.out))
        watched.stop()
    assert bucket.keys("inbox/") == []
    assert run_json(bucket)[0]["drops"][0]["files"][0]["name"] == "order_updates.csv"


def test_the_doctor_says_whether_the_store_answers(store, bucket, tmp_path):
    here = settings_file(tmp_path / "here", bucket)
    done = loadsheet(here, "doctor", **store.environment)
    assert f"inbox\tok\ts3://{bucket.name}/inbox is in an object store and can be listed" in done.stdout
    bucket.drop()
    done = loadsheet(here, "run", **store.environment)
    assert done.returncode == 75
    assert f"s3://{bucket.name} does not exist" in done.stderr
    assert "Traceback" not in done.stderr

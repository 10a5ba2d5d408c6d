"""Capsules of real runs: replayed they give the same payloads and the same reports, verified they show what was done to them."""

import json
import os
import re
import shutil
import subprocess
import sys
import zipfile
from collections import Counter
from contextlib import contextmanager
from datetime import UTC, datetime

import pytest
from capsule_runs import SAMPLES, House
from pydantic import SecretStr
from workspace import copy_mappings

from loadsheet.cli import invoke
from loadsheet.run_archive import capsule_path, make, purge, seal_after_run
from loadsheet.run_archive.contents import (
    CHAIN,
    CannotOpen,
    CannotSeal,
    CapsuleReader,
    CapsuleWriter,
    member_of,
    read_manifest,
    rows_of,
)
from loadsheet.run_archive.replay import replay
from loadsheet.run_archive.verify import RECORD_FILE, CapsuleRecord, read_record, verify

REFUSING = """
import sys
def refuse(event, arguments):
    if event in ("socket.connect", "socket.getaddrinfo", "socket.bind", "socket.sendto"):
        raise RuntimeError(f"the network was tried: {event} {arguments}")
sys.addaudithook(refuse)
from loadsheet.cli import invoke
code = invoke(sys.argv[1:])
loaded = sorted(name for name in ("requests", "urllib3", "loadsheet.dispatch.client") if name in sys.modules)
print("loaded", loaded)
sys.exit(code)
"""


def made_anew(path, target, change):
    """A capsule with a sound chain of its own whose members, by name, `change` has changed."""
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist() if name != CHAIN}
    change(members)
    with target.open("w+b") as file, CapsuleWriter(file) as sealing:
        for name, content in members.items():
            (sealing.lines if isinstance(content, list) else sealing.put)(name, content)
        sealing.finish()
    return target


def outcomes(path, *, own=True):
    """How many entries of the run's own drops, or of all that it touched, are in which state."""
    manifest = read_manifest(CapsuleReader(path))
    drops = {drop.id for drop in manifest.drops} if own else set(manifest.touched)
    return Counter(row["state"] for row in rows_of(CapsuleReader(path), "entries") if row["drop_id"] in drops)


@contextmanager
def recorded(house, name=None):
    """The questions to the ledger of a house about a run, by default its last."""
    with house.ledger(exclusive=False) as ledger:
        (run,) = ledger.queries.runs_named(name) if name else ledger.queries.runs(1)
        yield ledger.queries, run


# what a replay gives


def test_the_run_of_the_samples_is_replayed_byte_for_byte(two_runs):
    path = two_runs.capsule(two_runs.first)
    done = replay(path)
    assert (done.differences, done.other, done.is_same) == ((), (), True)
    assert done.drops == 9
    assert done.entries == sum(two_runs.told[0].entries.values()) > 150
    assert {name.rpartition("/")[2] for name in done.same} >= {"run.json", "run.html", "reconciliation.xlsx"}
    assert len(done.same) == len(two_runs.told[0].reports)
    assert done.calls == read_manifest(CapsuleReader(path)).counts["attempts"] > 20
    assert outcomes(path) == two_runs.told[0].entries
    assert {"invalid", "ready", "accepted", "unknown"} == outcomes(path).keys()


@pytest.mark.journey
def test_a_replay_makes_the_same_links_to_originals_in_another_layout(tmp_path):
    house = House(tmp_path, "acme-flat", archive_path="{yyyy}-{mm}/{name}")
    house.drop("acme_orders_2026-03.xlsx")
    path = house.capsule(house.run())
    assert read_manifest(CapsuleReader(path)).archive_path == "{yyyy}-{mm}/{name}"
    done = replay(path)
    assert (done.differences, done.other, done.is_same) == ((), (), True)


@pytest.mark.journey
def test_a_replay_needs_nothing_but_the_capsule_and_no_network(two_runs, tmp_path):
    path, target = shutil.copy(two_runs.capsule(two_runs.second), tmp_path / "carried.zip"), tmp_path / "replayed"
    (tmp_path / "loadsheet.toml").write_text('reports.language = "de"\n[assumptions]\n', encoding="utf-8")
    poisoned = {
        "LOADSHEET_REPORTS__LANGUAGE": "de",
        "LOADSHEET_REPORTS__FEEDBACK": "csv",
        "LOADSHEET_STATE": str(tmp_path / "nowhere"),
        "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
    }
    words = [sys.executable, "-c", REFUSING, "capsule", "replay", str(path), "--to", str(target), "--json"]
    done = subprocess.run(words, cwd=tmp_path, env=os.environ | poisoned, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    replayed, _, loaded = done.stdout.rpartition("loaded ")
    assert loaded == "[]\n"
    found = json.loads(replayed)
    assert (found["differences"], found["other"], found["is_same"], found["drops"]) == ([], [], True, 3)
    assert (found["calls"] > 50, len(found["same"])) == (True, len(two_runs.told[1].reports))
    assert any("set aside unread, and taken as recorded: holiday.csv" in remark for remark in found["remarks"])
    assert any(" drops of earlier runs, which this run continued" in remark for remark in found["remarks"])
    original, again = two_runs.house.settings.outbox / two_runs.second, target / two_runs.second
    names = [output.name for output in read_manifest(CapsuleReader(path)).outputs]
    assert len(names) > 20
    assert all((again / name).read_bytes() == (original / name).read_bytes() for name in names)
    assert not (tmp_path / "nowhere").exists()


@pytest.mark.sweep
def test_the_capsule_of_a_run_has_what_was_sent_before_and_the_fix_file(two_runs):
    path = two_runs.capsule(two_runs.second)
    assert outcomes(path, own=False) == two_runs.told[1].entries
    assert {"accepted", "refused", "unknown", "held", "unchanged", "invalid"} == outcomes(path, own=False).keys()
    (fix,) = [drop for drop in read_manifest(CapsuleReader(path)).drops if drop.fixes is not None]
    assert [file.name for file in fix.files] == ["mended.xlsx"]


def test_what_another_mapping_would_have_made_is_shown_by_key_and_field(little, tmp_path):
    def heavier(members):
        names = [name for name in members if name.startswith("mappings/") and b"kg" in members[name]]
        assert names
        for name in names:
            members[name] = re.sub(rb"\bKG\b", b"G", re.sub(rb"\bkg\b", b"g", members[name]))

    done = replay(made_anew(little, tmp_path / "other.zip", heavier))
    first, *others = map(str, done.differences)
    assert not done.is_same
    assert first.startswith("mapping alder-parcels: hash was ")
    assert any("order.create" in text and "payload" in text and " was " in text for text in others), others
    assert done.other == ()  # the reports are made from what was recorded


RULE = "events do not lead to its state: held -> accepted after sending"
CHANGES = (  # in the capsule: of which accepted entry, in which table and column, to what; and what a replay says
    (
        (0, "entries", "payload", lambda old: old.replace('"', ' "', 1), "payload", 'was { "'),
        (0, "entries", "content_hash", lambda _: "0" * 64, "content_hash", "was 0000"),
        (0, "entries", "rows", lambda _: "[]", "rows", "was []"),
        (0, "entries", "key", lambda old: f"{old}-x", "key", "-x, is "),
        (0, "events", "before", lambda _: "held", "state", RULE),
        (0, "events", "reason", lambda _: "because I say so", "state", "because I say so"),
        (1, "entries", "state", lambda _: "refused", "state", "accepted according to its last event"),
        (1, "attempts", "request_hash", lambda _: "f" * 64, "request", "was SHA-256 ffffffffffff"),
    ),
    (
        (0, "entries", "attempts", lambda _: 2, "state", "sent 1 times with 1 attempts, but it counts 2"),
        (1, "attempts", "detail", lambda _: "accepted as 77", "state", "'accepted as 77', but no event followed"),
    ),
)


@pytest.mark.parametrize("changes", CHANGES, ids=["what was planned and sent", "what was answered"])
def test_whatever_was_changed_in_what_is_recorded_is_shown_by_entry_and_field(little, tmp_path, changes):
    accepted = [row for row in rows_of(CapsuleReader(little), "entries") if row["state"] == "accepted"]
    path = little
    for number, table, column, value, _, _ in changes:
        rows = list(map(dict, CapsuleReader(path).lines(member_of(table))))
        after = {"before": "accepted", "reason": "ready"}.get(column)
        mine = [row for row in rows if row["id" if table == "entries" else "entry_id"] == accepted[number]["id"]]
        (row,) = (row for row in mine if after in (None, row.get("after")))
        row[column] = value(row[column])
        new = {member_of(table): rows}
        path = made_anew(path, tmp_path / f"{column}.zip", lambda members, new=new: members.update(new))
    done = replay(path)
    assert ("run.json" in done.other) is any(column == "state" for _, _, column, *_ in changes)
    for number, _, _, _, field, text in changes:
        found = [str(one) for one in done.differences if one.field == field and f" {accepted[number]['key']}" in one.of]
        assert any(text in one for one in found), (field, text, done.differences)


def test_an_entry_that_is_missing_is_shown(little, tmp_path):
    capsule = CapsuleReader(little)
    last = max(row["id"] for row in rows_of(capsule, "entries"))

    def without(members):
        for table in ("entries", "events", "attempts", "exceptions"):
            column, rows = "id" if table == "entries" else "entry_id", capsule.lines(member_of(table))
            members[member_of(table)] = [row for row in rows if row[column] != last]

    done = replay(made_anew(little, tmp_path / "less.zip", without))
    assert any((one.field, one.kept, one.replayed) == ("entry", "missing", "there") for one in done.differences)


# how it is made


def test_a_capsule_made_twice_has_the_same_bytes(two_runs, tmp_path):
    sealed = two_runs.capsule(two_runs.second)
    with recorded(two_runs.house, two_runs.second) as (queries, run):
        made = make(queries, run, two_runs.house.settings, tmp_path / "again.zip")
    assert made.path.read_bytes() == sealed.read_bytes()
    assert made.head == verify(sealed, read_record(two_runs.house.settings.state)).head
    assert [path.name for path in tmp_path.iterdir()] == ["again.zip"]
    assert made.path.stat().st_mode & 0o077 == 0


def test_no_secret_is_in_a_capsule(two_runs, tmp_path):
    secrets = {"exchange": "https://someone:hunter2@exchange.example/v1", "token": "topsecret"}
    files = dict.fromkeys(("ca_bundle", "client_certificate", "client_key"), two_runs.house.folder / "ca.pem")
    dispatch = {**files, "proxy": SecretStr("http://someone:hunter2@proxy.example:3128")}
    secrets["dispatch"] = two_runs.house.settings.dispatch.model_copy(update=dispatch)
    chosen = two_runs.house.settings.model_copy(update=secrets)
    with recorded(two_runs.house, two_runs.first) as (queries, run):
        made = make(queries, run, chosen, tmp_path / "one.zip")
    assert made.manifest.exchange == "https://exchange.example/v1"
    with zipfile.ZipFile(made.path) as archive:
        content = b"".join(archive.read(name) for name in archive.namelist() if not name.endswith(".gz"))
    for secret in (b"hunter2", b"topsecret", b"proxy.example", str(two_runs.house.folder).encode()):
        assert secret not in content
    assert not {"token", "token_file", "token_command", "database", "state"} & made.manifest.settings.keys()


def test_without_an_original_or_with_another_one_no_capsule_is_made(little_house, tmp_path):
    with recorded(little_house) as (queries, run):
        (file,) = queries.drops_of(run)[0].files
        path = little_house.settings.state / file.kept_as
        kept, rights = path.read_bytes(), path.stat().st_mode
        path.chmod(0o600)
        path.write_bytes(b"something else")
        try:
            with pytest.raises(CannotSeal, match=r"is not the file that run .* read"):
                make(queries, run, little_house.settings, tmp_path / "harmed.zip")
            path.unlink()
            with pytest.raises(CannotSeal, match=f"the original of {path.name} is no longer at"):
                make(queries, run, little_house.settings, tmp_path / "harmed.zip")
        finally:
            path.write_bytes(kept)
            path.chmod(rights)
    assert not (tmp_path / "harmed.zip").exists()


def test_a_mapping_that_changed_since_is_taken_from_the_ledger_as_it_was(little_house, tmp_path):
    mappings = shutil.copytree(little_house.settings.mappings, tmp_path / "mappings")
    for path in mappings.rglob("*.yaml"):
        path.write_text(path.read_text(encoding="utf-8") + "\n# changed since\n", encoding="utf-8")
    with recorded(little_house) as (queries, run):
        changed = little_house.settings.model_copy(update={"mappings": mappings})
        make(queries, run, changed, tmp_path / "one.zip")
    assert replay(tmp_path / "one.zip").is_same


def test_a_run_that_had_nothing_to_do_is_not_sealed(two_runs, tmp_path):
    house = two_runs.house
    said = []
    with house.ledger() as ledger:
        run = ledger.begin_run()
        with pytest.raises(CannotSeal, match="has not ended"):
            make(ledger.queries, run, house.settings, tmp_path / "one.zip")
        ledger.end_run(run, exit_code=0, summary={})
        (run,) = ledger.queries.runs_named(run.name)
        with pytest.raises(CannotSeal, match="had nothing to do"):
            make(ledger.queries, run, house.settings, tmp_path / "one.zip")
        seal_after_run(house.settings, ledger.queries, run.name, house.now, said.append)
    assert said == []
    assert not capsule_path(house.settings, run.name).exists()


def test_what_goes_wrong_after_a_run_is_reported_and_old_capsules_go(two_runs, tmp_path):
    said, folder = [], tmp_path / "state" / "capsules"
    elsewhere = two_runs.house.settings.model_copy(update={"state": tmp_path / "state", "capsule_days": 30})
    (folder / "2026-03-05-01.capsule.zip").mkdir(parents=True)  # something stands in the way
    for name in ("2026-02-02-01.capsule.zip", "2026-02-03-02.capsule.zip", "2026-01-01.txt", "mine.capsule.zip"):
        (folder / name).touch()
    before = {path.name for path in folder.iterdir()}
    with recorded(two_runs.house) as (queries, _):
        seal_after_run(elsewhere, queries, two_runs.first, datetime(2026, 3, 5, 3, tzinfo=UTC), said.append)
    (line,) = said
    assert line.startswith(f"no capsule of run {two_runs.first}: ")
    assert before - {path.name for path in folder.iterdir()} == {"2026-02-02-01.capsule.zip"}
    assert purge(elsewhere, datetime(2026, 6, 1, tzinfo=UTC)) == 1


# the record, and the command


def test_a_capsule_replaced_as_a_whole_is_seen_by_the_record_and_by_whoever_kept_the_head(two_runs, tmp_path):
    known = read_record(two_runs.house.settings.state)
    path = two_runs.capsule(two_runs.first)
    verdict = verify(path, known)
    assert (verdict.wrong, verdict.vouched_by, verdict.run) == ((), "record", two_runs.first)
    other = made_anew(path, tmp_path / "other.zip", lambda members: members.pop(member_of("remarks")))
    (wrong,) = verify(other, known).wrong
    assert "the whole capsule was replaced" in wrong
    assert verify(other, CapsuleRecord(())).wrong == ()
    assert verify(other, CapsuleRecord(())).vouched_by == ""
    assert verify(path, CapsuleRecord(()), verdict.head[:20].upper()).vouched_by == "kept head"
    assert "it is another capsule" in verify(other, CapsuleRecord(()), verdict.head).wrong[0]


def test_a_record_that_was_changed_is_seen(two_runs, tmp_path):
    source = two_runs.house.settings.state / RECORD_FILE
    lines = source.read_text(encoding="utf-8").splitlines(keepends=True)
    assert len(lines) == 2
    for changed, broken in (
        (lines, 0),
        (lines[1:], 1),
        ([lines[0].replace(two_runs.first, two_runs.second), lines[1]], 1),
        ([lines[1], lines[0]], 1),
        ([lines[0], "nonsense\n"], 2),
    ):
        (tmp_path / RECORD_FILE).write_text("".join(changed), encoding="utf-8")
        assert read_record(tmp_path).broken == broken
    (tmp_path / RECORD_FILE).write_text(lines[1], encoding="utf-8")
    second, changed = two_runs.capsule(two_runs.second), read_record(tmp_path)
    assert "line 1 of the record" in verify(second, changed).wrong[0]
    assert verify(second, changed, verify(second, changed).head).vouched_by == "kept head", "the record is not asked"


def test_the_command_makes_shows_verifies_and_replays(little, tmp_path, capsys):
    house, path, run = little.parents[2], tmp_path / "one.zip", little.name.partition(".")[0]
    state = ["--state", str(house / "state")]
    where = [*state, "--outbox", str(house / "outbox"), "--mappings", str(house / "mappings")]
    assert invoke(["capsule", "make", run, "--to", str(path), *where, "--json"]) == 0
    head = json.loads(capsys.readouterr().out)["head"]

    def does(words, code, *texts):
        assert invoke(["capsule", words[0], str(path), *words[1:]]) == code
        said = capsys.readouterr()
        assert [text for text in texts if text not in said.out + said.err] == []

    does(["verify", *state], 0, f"run {run}")
    does(["verify", "--state", str(tmp_path / "none")], 0, "there is no record of it here")
    does(["verify", "--head", head[:16], *state], 0)
    does(["verify", "--head", "f" * 64, *state], 1)
    does(["verify", "--head", "ff", *state], 2, "too short")
    does(["show"], 0, "alder_2026-03-10.csv", "mapping alder-parcels 1")
    does(["replay"], 0, "1 drop read again, ", "every payload and verdict is identical")
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    does(["verify", *state], 1, "TAMPERED WITH")
    does(["replay"], 65, "was tampered with and is not replayed")


def test_wrong_usage_says_what_is_wrong(two_runs, capsys):
    for words, code, said in (
        (f"make 1999-01-01-01 --state {two_runs.house.settings.state}", 65, "there is no run 1999-01-01-01; `loadsheet runs` lists"),
        ("verify nowhere.zip", 2, "does not exist"),
        ("replay nowhere.zip", 2, "does not exist"),
        ("mend", 2, "No such command"),
    ):  # fmt: skip
        assert invoke(["capsule", *words.split()]) == code
        assert said in capsys.readouterr().err


@pytest.mark.parametrize("name", ["../../outside", "/tmp/outside", "2026-03-05-01/..", ""])
def test_a_capsule_that_was_made_to_write_elsewhere_is_refused(little, tmp_path, name):
    manifest = json.loads(CapsuleReader(little).read("manifest.json"))
    (mapping, *_) = manifest["mappings"]
    mappings = ({**mapping, "hash": name}, {**mapping, "files": [f"../{name}"]})
    for evil in ({"run": name}, *({"mappings": [one]} for one in mappings)):
        with pytest.raises(CannotOpen):
            replay(with_manifest(little, tmp_path, {**manifest, **evil}), tmp_path / "replayed")


WRONG_VALUES = {
    "text for a number": ("entries", {"attempts": "3"}),
    "nothing": ("events", {"at": None}),
    "an object": ("files", {"name": {"a": [1]}}),
    "a number that no column holds": ("drops", {"run_id": 2**64}),
    "bytes that are none": ("looks", {"shown": "%%"}),
}


@pytest.mark.parametrize("wrong", WRONG_VALUES)
def test_a_value_that_no_ledger_holds_is_named_with_its_member(little, tmp_path, wrong):
    table, values = WRONG_VALUES[wrong]
    rows = [row | values for row in CapsuleReader(little).lines(member_of(table))]
    path = made_anew(little, tmp_path / "other.zip", lambda members: members.update({member_of(table): rows}))
    with pytest.raises(CannotOpen, match=f"ledger/{table}.jsonl.gz cannot be read"):
        replay(path)


@pytest.mark.parametrize("wrong", [{"started_at": "yesterday"}, {"finished_at": ""}, {"counts": {}}])
def test_a_manifest_with_values_that_none_has_is_refused_by_every_command(little, tmp_path, capsys, wrong):
    manifest = json.loads(CapsuleReader(little).read("manifest.json"))
    path = str(with_manifest(little, tmp_path, {**manifest, **wrong}))
    assert [invoke(["capsule", command, path]) for command in ("show", "replay", "verify")] == [65, 65, 1]
    assert capsys.readouterr().err.count("this program cannot read manifest.json") == 2


def test_a_replay_takes_no_setting_from_the_capsule_that_concerns_this_machine(little, tmp_path):
    manifest = json.loads(CapsuleReader(little).read("manifest.json"))
    reading = {**manifest["settings"]["reading"], "process": "none", "wall_s": 1e-9}
    elsewhere = {"state": str(tmp_path / "state"), "outbox": str(tmp_path / "outbox"), "database": "sqlite:///x"}
    for settings in (elsewhere, {"token_command": f"touch {tmp_path / 'ran'}"}):
        assert replay(
            with_manifest(little, tmp_path, {**manifest, "settings": {**manifest["settings"], **settings}})
        ).is_same
    limited = with_manifest(little, tmp_path, {**manifest, "settings": {**manifest["settings"], "reading": reading}})
    # a child that has answered before it is waited for is in time; fifty times in a row it is not
    differences = (str(one) for _ in range(50) for one in replay(limited).differences)
    assert any("refused" in one for one in differences), "a process of its own reads, which has a time limit"
    assert [path.name for path in tmp_path.iterdir()] == ["other.zip"]


def with_manifest(path, folder, manifest):
    content = json.dumps(manifest).encode()
    return made_anew(path, folder / "other.zip", lambda members: members.update({"manifest.json": content}))


@pytest.mark.outcomes_differ("reports are taken away")
def test_a_set_aside_file_and_a_report_that_are_missing_are_named(tmp_path):
    house = House(tmp_path, "alder-parcels")
    (house.settings.inbox / "holiday.csv").write_text("nobody knows this\n", encoding="utf-8")
    name = house.run()
    (kept,) = read_manifest(CapsuleReader(house.capsule(name))).drops[0].files
    assert kept.member
    shutil.rmtree(house.settings.outbox / name / "set-aside")
    (house.settings.outbox / name / "run.html").unlink()
    with recorded(house) as (queries, run):
        made = make(queries, run, house.settings, tmp_path / "late.zip")
    assert made.manifest.drops[0].files[0].member == ""
    aside, report = made.remarks
    assert "holiday.csv was set aside, and its original at" in aside
    assert "run.html in" in report
    assert replay(made.path).is_same


def test_a_folder_that_is_not_empty_and_a_newer_capsule_are_refused(little, tmp_path):
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "mine.txt").touch()
    with pytest.raises(CannotOpen, match="is not empty"):
        replay(little, tmp_path / "full")
    for manifest, said in (({"format": 2}, "has format 2, this program knows 1"), ([], "this program cannot")):
        with pytest.raises(CannotOpen, match=said):
            replay(with_manifest(little, tmp_path, manifest))


def test_a_run_of_the_command_seals_itself_where_the_settings_say_so(tmp_path, capsys, monkeypatch):
    copy_mappings(tmp_path / "mappings", "alder-parcels")
    (tmp_path / "inbox").mkdir()
    shutil.copy(SAMPLES / "alder_2026-03-10.csv", tmp_path / "inbox")
    (tmp_path / "loadsheet.toml").write_text('run_archive.capsules = "each"\n', encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    assert invoke(["run", "--settle", "0"]) == 1
    (path,) = (tmp_path / ".loadsheet" / "capsules").iterdir()
    assert invoke(["capsule", "verify", str(path)]) == 0
    assert "the record confirms it" in capsys.readouterr().out
    assert invoke(["run", "--settle", "0"]) == 0  # nothing to do: nothing to seal
    assert list((tmp_path / ".loadsheet" / "capsules").iterdir()) == [path]


@pytest.mark.sweep
def test_the_mapping_in_a_shippers_folder_is_replayed_for_the_files_of_that_folder(tmp_path):
    house = House(tmp_path, "nordic-join")
    mapping = house.settings.mappings / "nordic-join.yaml"
    text = mapping.read_text(encoding="utf-8")
    mapping.unlink()
    inner = text.replace("nordic/{batch}/", "{batch}/").replace("file: lookups/", "file: ../lookups/")
    assert inner != text
    (mapping.parent / "nordic").mkdir()
    (mapping.parent / "nordic" / mapping.name).write_text(inner, encoding="utf-8")
    house.drop("nordic")
    done = replay(house.capsule(house.run()))
    assert (done.differences, done.other) == ((), ())
    assert done.entries > 30
    (kept,) = done.manifest.mappings
    assert kept.shipper == "nordic"
    assert not list(house.settings.inbox.rglob("*.csv"))


def the_capsule_of_an_earlier_run_says_what_changed_since(house, name, path):
    """And the replay names the reports that said otherwise."""
    with recorded(house, name) as (queries, run):
        made = make(queries, run, house.settings, path)
    changed = made.manifest.changed_since
    assert changed > 0
    assert any(f"{changed} entries" in remark and "current state" in remark for remark in made.remarks)
    done = replay(path)
    assert done.differences == ()  # what the files gave is as it was
    assert "run.json" in done.other
    said = f"{changed} entries changed between the end of the run and the making"
    assert any(said in remark for remark in done.remarks)


def test_a_run_whose_lost_answer_was_found_in_a_listing_is_replayed(tmp_path):
    house = House(tmp_path, "alder-parcels")
    house.drop("alder_2026-03-10.csv")
    run = house.run({"fault": "reset_after_effect", "operation": "order.create", "at": (1,)})
    (finding,) = rows_of(CapsuleReader(house.capsule(run)), "findings")
    assert finding["shown"] == "as it was sent"
    assert replay(house.capsule(run)).is_same


@pytest.mark.sweep
def test_runs_of_lost_answers_fix_texts_no_files_and_new_versions_are_replayed_as_they_were(tmp_path):
    house = House(tmp_path, "alder-parcels", "nordic-join", feedback="csv")
    house.drop("alder_2026-03-10.csv", "nordic")
    first = house.run({"fault": "html", "operation": "order.create", "at": (1,)})

    nothing = house.run()
    manifest = read_manifest(CapsuleReader(house.capsule(nothing)))
    assert manifest.drops == ()
    assert manifest.touched, "it sent what was left"
    done = replay(house.capsule(nothing))
    assert (done.drops, done.is_same) == (0, True)
    assert len(done.same) == len(house.last.reports) >= 5
    the_capsule_of_an_earlier_run_says_what_changed_since(house, first, tmp_path / "late.zip")

    house.drop("alder_2026-03-10.csv")
    path = house.settings.inbox / "alder_2026-03-10.csv"
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(line for line in lines if not line.startswith(b"AF-11,")))
    done = replay(house.capsule(house.run()))
    assert [drop.missing_records.count for drop in house.last.drops if drop.run == house.last.run] == [1]
    assert (done.differences, done.other) == ((), ()), "without the last version"

    fixes = sorted((house.settings.outbox / first).glob("*.fix.csv"))
    assert len(fixes) == 3  # one, and two that are read together
    for path in fixes:
        place = house.settings.inbox / path.name.replace("__", "/")
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(path.read_bytes().replace(b"stone", b"kg"))
    mended = house.run()
    done = replay(house.capsule(mended))
    assert (done.differences, done.other, done.is_same, done.drops) == ((), (), True, 2)
    assert [drop.fixes for drop in read_manifest(CapsuleReader(house.capsule(mended))).drops] == [1, 2]
    assert replay(house.capsule(first)).is_same

    house.drop("alder_2026-03-10.csv")
    done = replay(house.capsule(house.run()))
    assert (done.differences, done.other) == ((), ()), "its wrong order was accepted from the fix file"
    assert house.said == []

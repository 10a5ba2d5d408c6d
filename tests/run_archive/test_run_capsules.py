"""Capsules of real runs: replayed they give the same payloads and the same reports, verified they show what was done to them."""

import json
import os
import re
import shutil
import subprocess
import sys
import zipfile
from datetime import UTC, datetime

import pytest
from capsule_runs import SAMPLES, House
from fault_rules import FaultClass
from workspace import copy_mappings

from loadsheet.cli import invoke
from loadsheet.run_archive import place_of, purge, seal_after_run
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
from loadsheet.run_archive.create import make
from loadsheet.run_archive.replay import replay
from loadsheet.run_archive.verify import RECORD_FILE, Record, read_record, verify

REFUSING = """
import sys
def refuse(event, arguments):
    if event in ("socket.connect", "socket.getaddrinfo", "socket.bind", "socket.sendto"):
        raise RuntimeError(f"the network was tried: {event} {arguments}")
sys.addaudithook(refuse)
from loadsheet.cli import invoke
from fault_rules import FaultClass
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
            if isinstance(content, list):
                sealing.lines(name, content)
            else:
                sealing.put(name, content)
        sealing.finish()
    return target


def changed_rows(path, target, table, change):
    """The same with the rows of a table of the ledger changed."""
    rows = [dict(row) for row in CapsuleReader(path).lines(member_of(table))]
    change(rows)
    return made_anew(path, target, lambda members: members.update({member_of(table): rows}))


def outcomes(path, *, own=True):
    """How many entries of the run's own drops, or of all that it touched, are in which state."""
    manifest, counts = read_manifest(CapsuleReader(path)), {}
    drops = {drop.id for drop in manifest.drops} if own else set(manifest.touched)
    for row in rows_of(CapsuleReader(path), "entries"):
        if row["drop_id"] in drops:
            counts[row["state"]] = counts.get(row["state"], 0) + 1
    return counts


# what a replay gives


def test_the_run_of_the_samples_is_replayed_byte_for_byte(two_runs):
    path = two_runs.capsule(two_runs.first)
    done = replay(path)
    assert (done.differences, done.other, done.is_same) == ((), (), True)
    assert done.drops == len(two_runs.dropped)
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
    path = shutil.copy(two_runs.capsule(two_runs.second), tmp_path / "carried.zip")
    (tmp_path / "loadsheet.toml").write_text('reports.language = "de"\n[assumptions]\n', encoding="utf-8")
    poisoned = {
        "LOADSHEET_REPORTS__LANGUAGE": "de",
        "LOADSHEET_REPORTS__FEEDBACK": "csv",
        "LOADSHEET_STATE": str(tmp_path / "nowhere"),
    }
    words = [sys.executable, "-c", REFUSING, "capsule", "replay", str(path), "--to", str(tmp_path / "told"), "--json"]
    environment = {**os.environ, **poisoned, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    done = subprocess.run(words, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    replayed, _, loaded = done.stdout.rpartition("loaded ")
    assert loaded == "[]\n"
    told = json.loads(replayed)
    assert (told["differences"], told["other"], told["is_same"], told["drops"]) == ([], [], True, 3)
    assert (told["calls"] > 50, len(told["same"])) == (True, len(two_runs.told[1].reports))
    assert any("set aside unread, and taken as recorded: holiday.csv" in remark for remark in told["remarks"])
    assert any(" drops of earlier runs, which this run continued" in remark for remark in told["remarks"])
    original = two_runs.house.settings.outbox / two_runs.second
    again = tmp_path / "told" / two_runs.second
    names = [output.name for output in read_manifest(CapsuleReader(path)).outputs]
    assert len(names) > 20
    assert all((again / name).read_bytes() == (original / name).read_bytes() for name in names)
    assert not (tmp_path / "nowhere").exists()


def test_the_capsule_of_a_run_has_what_was_sent_before_and_the_fix_file(two_runs):
    path = two_runs.capsule(two_runs.second)
    assert outcomes(path, own=False) == two_runs.told[1].entries
    assert {"accepted", "refused", "unknown", "held", "unchanged", "invalid"} == outcomes(path, own=False).keys()
    (fix,) = [drop for drop in read_manifest(CapsuleReader(path)).drops if drop.fixes is not None]
    assert [file.name for file in fix.files] == ["mended.xlsx"]


def test_what_another_mapping_would_have_made_is_told_by_key_and_field(little, tmp_path):
    def heavier(members):
        names = [name for name in members if name.startswith("mappings/") and b"kg" in members[name]]
        assert names
        for name in names:
            members[name] = re.sub(rb"\bKG\b", b"G", re.sub(rb"\bkg\b", b"g", members[name]))

    path = made_anew(little, tmp_path / "other.zip", heavier)
    done = replay(path)
    told = [str(one) for one in done.differences]
    assert not done.is_same
    assert told[0].startswith("mapping alder-parcels: hash was ")
    assert any("order.create" in text and "payload" in text and " was " in text for text in told), told
    assert done.other == ()  # the reports are made from what was recorded


CHANGES = (  # in the capsule: of which accepted entry, in which table and column, to what; and what a replay says
    (
        (0, "entries", "payload", lambda old: old.replace('"', ' "', 1), "payload", 'was { "'),
        (0, "entries", "content_hash", lambda _: "0" * 64, "content_hash", "was 0000"),
        (0, "entries", "rows", lambda _: "[]", "rows", "was []"),
        (0, "entries", "key", lambda old: f"{old}-x", "key", "-x, is "),
        (
            0,
            "events",
            "before",
            lambda _: "held",
            "state",
            "events do not lead to its state: held -> accepted after sending",
        ),
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
def test_whatever_was_changed_in_what_is_recorded_is_told_by_entry_and_field(little, tmp_path, changes):
    accepted = [row for row in rows_of(CapsuleReader(little), "entries") if row["state"] == "accepted"]
    path = little
    for number, table, column, value, _, _ in changes:

        def change(rows, wanted=(accepted[number]["id"], table, column), value=value):
            entry, table, column = wanted
            after = {"before": "accepted", "reason": "ready"}.get(column)
            mine = [row for row in rows if row["id" if table == "entries" else "entry_id"] == entry]
            (row,) = (row for row in mine if after in (None, row.get("after")))
            row[column] = value(row[column])

        path = changed_rows(path, tmp_path / f"{column}.zip", table, change)
    done = replay(path)
    assert ("run.json" in done.other) is any(column == "state" for _, _, column, *_ in changes)
    for number, _, _, _, field, text in changes:
        found = [str(one) for one in done.differences if one.field == field and f" {accepted[number]['key']}" in one.of]
        assert any(text in one for one in found), (field, text, done.differences)


def test_an_entry_that_is_missing_or_too_many_is_told(little, tmp_path):
    path = little
    last = max(row["id"] for row in rows_of(CapsuleReader(path), "entries"))

    def without(members):
        for table, name in (
            ("entries", "id"),
            ("events", "entry_id"),
            ("attempts", "entry_id"),
            ("exceptions", "entry_id"),
        ):
            members[member_of(table)] = [
                row for row in CapsuleReader(path).lines(member_of(table)) if row[name] != last
            ]

    done = replay(made_anew(path, tmp_path / "less.zip", without))
    assert any((one.field, one.kept, one.replayed) == ("entry", "missing", "there") for one in done.differences)


# how it is made


def test_a_capsule_made_twice_has_the_same_bytes(two_runs, tmp_path):
    house, sealed = two_runs.house, two_runs.capsule(two_runs.second)
    with house.ledger(exclusive=False) as ledger:
        (run,) = ledger.queries.runs_named(two_runs.second)
        made = make(ledger.queries, run, house.settings, tmp_path / "again.zip")
    assert made.path.read_bytes() == sealed.read_bytes()
    assert made.head == verify(sealed, read_record(house.settings.state)).head
    assert [path.name for path in tmp_path.iterdir()] == ["again.zip"]
    assert made.path.stat().st_mode & 0o077 == 0


def test_no_secret_is_in_a_capsule(two_runs, tmp_path):
    house = two_runs.house
    chosen = house.settings.model_copy(
        update={"exchange": "https://someone:hunter2@exchange.example/v1", "token": "topsecret"}
    )
    with house.ledger(exclusive=False) as ledger:
        (run,) = ledger.queries.runs_named(two_runs.first)
        made = make(ledger.queries, run, chosen, tmp_path / "one.zip")
    assert made.manifest.exchange == "https://exchange.example/v1"
    with zipfile.ZipFile(made.path) as archive:
        held = b"".join(archive.read(name) for name in archive.namelist() if not name.endswith(".gz"))
    for secret in (b"hunter2", b"topsecret", str(house.folder).encode()):
        assert secret not in held
    assert not {"token", "token_file", "token_command", "database", "state"} & made.manifest.settings.keys()


@pytest.fixture
def harmed(two_runs, tmp_path):
    """The originals of the first run put aside while a test lasts; a function that makes the capsule."""
    house = two_runs.house
    with house.ledger(exclusive=False) as ledger:
        (run,) = ledger.queries.runs_named(two_runs.first)
        drop = ledger.queries.drops_of(run)[0]
        path = house.settings.state / drop.files[0].kept_as
        kept = path.read_bytes()
        rights = path.stat().st_mode
        path.chmod(0o600)
        yield (
            path,
            lambda **more: make(ledger.queries, run, house.settings.model_copy(update=more), tmp_path / "harmed.zip"),
        )
        path.unlink(missing_ok=True)
        path.write_bytes(kept)
        path.chmod(rights)
    assert not (tmp_path / "harmed.zip").exists()


def test_without_an_original_or_with_another_one_no_capsule_is_made(harmed):
    path, again = harmed
    path.write_bytes(b"something else")
    with pytest.raises(CannotSeal, match=r"is not the file that run .* read"):
        again()
    path.unlink()
    with pytest.raises(CannotSeal, match=f"the original of {path.name} is no longer at"):
        again()


def test_a_mapping_that_changed_since_is_taken_from_the_ledger_as_it_was(little_house, tmp_path):
    house = little_house
    mappings = shutil.copytree(house.settings.mappings, tmp_path / "mappings")
    for path in mappings.rglob("*.yaml"):
        path.write_text(path.read_text(encoding="utf-8") + "\n# changed since\n", encoding="utf-8")
    with house.ledger(exclusive=False) as ledger:
        (run,) = ledger.queries.runs(1)
        changed = house.settings.model_copy(update={"mappings": mappings})
        make(ledger.queries, run, changed, tmp_path / "one.zip")
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
    assert not place_of(house.settings, run.name).exists()


def test_what_goes_wrong_after_a_run_is_said_and_old_capsules_go(two_runs, tmp_path):
    house = two_runs.house
    said = []
    elsewhere = house.settings.model_copy(update={"state": tmp_path / "state", "capsule_days": 30})
    folder = tmp_path / "state" / "capsules"
    folder.mkdir(parents=True)
    (folder / "2026-03-05-01.capsule.zip").mkdir()  # something stands in the way
    for name in ("2026-01-31-01.capsule.zip", "2026-02-28-02.capsule.zip", "2026-01-01.txt", "mine.capsule.zip"):
        (folder / name).touch()
    with house.ledger(exclusive=False) as ledger:
        seal_after_run(elsewhere, ledger.queries, two_runs.first, datetime(2026, 3, 5, 3, tzinfo=UTC), said.append)
    (line,) = said
    assert line.startswith(f"no capsule of run {two_runs.first}: ")
    left = {path.name for path in folder.iterdir()}
    assert left == {"2026-03-05-01.capsule.zip", "2026-02-28-02.capsule.zip", "2026-01-01.txt", "mine.capsule.zip"}
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
    assert verify(other, Record(())).wrong == ()
    assert verify(other, Record(())).vouched_by == ""
    assert verify(path, Record(()), verdict.head[:20].upper()).vouched_by == "kept head"
    assert "it is another capsule" in verify(other, Record(()), verdict.head).wrong[0]


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
    house = little.parents[2]
    run, state = little.name.partition(".")[0], ["--state", str(house / "state")]
    where = [*state, "--outbox", str(house / "outbox"), "--mappings", str(house / "mappings")]
    path = tmp_path / "one.zip"
    assert invoke(["capsule", "make", run, "--to", str(path), *where, "--json"]) == 0
    head = json.loads(capsys.readouterr().out)["head"]
    assert invoke(["capsule", "verify", str(path), *state]) == 0
    assert f"run {run}" in capsys.readouterr().out
    assert invoke(["capsule", "verify", str(path), "--state", str(tmp_path / "none")]) == 0
    assert "there is no record of it here" in capsys.readouterr().out
    assert invoke(["capsule", "verify", str(path), "--head", head[:16], *state]) == 0
    assert invoke(["capsule", "verify", str(path), "--head", "f" * 64, *state]) == 1
    assert invoke(["capsule", "verify", str(path), "--head", "ff", *state]) == 2
    assert "too short" in capsys.readouterr().err
    assert invoke(["capsule", "show", str(path)]) == 0
    shown = capsys.readouterr().out
    assert "alder_2026-03-10.csv" in shown
    assert "mapping alder-parcels 1" in shown
    assert invoke(["capsule", "replay", str(path)]) == 0
    assert "every payload and verdict is identical" in capsys.readouterr().out
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    assert invoke(["capsule", "verify", str(path), *state]) == 1
    assert "TAMPERED WITH" in capsys.readouterr().out
    assert invoke(["capsule", "replay", str(path)]) == 65
    assert "was tampered with and is not replayed" in capsys.readouterr().err


def test_wrong_usage_says_what_is_wrong(two_runs, capsys):
    state = ["--state", str(two_runs.house.settings.state)]
    for words, code, said in (
        (["make", "1999-01-01-01", *state], 65, "there is no run 1999-01-01-01; `loadsheet runs` lists"),
        (["verify", "nowhere.zip"], 2, "does not exist"),
        (["replay", "nowhere.zip"], 2, "does not exist"),
        (["mend"], 2, "No such command"),
    ):
        assert invoke(["capsule", *words]) == code
        assert said in capsys.readouterr().err


@pytest.mark.parametrize("name", ["../../outside", "/tmp/outside", "2026-03-05-01/..", ""])
def test_a_capsule_that_was_made_to_write_elsewhere_is_refused(little, tmp_path, name):
    manifest = json.loads(CapsuleReader(little).read("manifest.json"))
    run = {**manifest, "run": name}
    mapping = {**manifest, "mappings": [{**manifest["mappings"][0], "hash": name}]}
    inner = {**manifest, "mappings": [{**manifest["mappings"][0], "files": [f"../{name}"]}]}
    for number, evil in enumerate((run, mapping, inner)):
        made = made_anew(
            little,
            tmp_path / f"{number}.zip",
            lambda members, evil=evil: members.update({"manifest.json": json.dumps(evil).encode()}),
        )
        with pytest.raises(CannotOpen):
            replay(made, tmp_path / "told")


@pytest.mark.outcomes_differ("reports are taken away")
def test_a_set_aside_file_that_is_gone_is_named_and_a_report_that_is_gone_is_said(tmp_path):
    house = House(tmp_path, "alder-parcels")
    (house.settings.inbox / "holiday.csv").write_text("nobody knows this\n", encoding="utf-8")
    run = house.run()
    (kept,) = read_manifest(CapsuleReader(house.capsule(run))).drops[0].files
    assert kept.member
    shutil.rmtree(house.settings.outbox / run / "set-aside")
    (house.settings.outbox / run / "run.html").unlink()
    with house.ledger(exclusive=False) as ledger:
        made = make(ledger.queries, ledger.queries.runs(1)[0], house.settings, tmp_path / "late.zip")
    assert made.manifest.drops[0].files[0].member == ""
    aside, report = made.remarks
    assert "holiday.csv was set aside, and its original at" in aside
    assert "run.html in" in report
    assert replay(made.path).is_same


def test_a_folder_that_is_not_empty_and_a_newer_capsule_are_refused(little, tmp_path):
    path = little
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "mine.txt").touch()
    with pytest.raises(CannotOpen, match="is not empty"):
        replay(path, tmp_path / "full")
    newer = made_anew(path, tmp_path / "newer.zip", lambda members: members.update({"manifest.json": b'{"format": 2}'}))
    with pytest.raises(CannotOpen, match="has format 2, this program knows 1"):
        replay(newer)
    other = made_anew(path, tmp_path / "none.zip", lambda members: members.update({"manifest.json": b"[]"}))
    with pytest.raises(CannotOpen, match="this program cannot"):
        replay(other)


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


def test_the_mapping_in_a_shippers_folder_is_replayed_for_the_files_of_that_folder(tmp_path):
    house = House(tmp_path, "nordic-join")
    mappings, inbox = house.settings.mappings, house.settings.inbox
    (mappings / "nordic").mkdir()
    text = (mappings / "nordic-join.yaml").read_text(encoding="utf-8")
    (mappings / "nordic-join.yaml").unlink()
    inner = text.replace("nordic/{batch}/", "{batch}/").replace("file: lookups/", "file: ../lookups/")
    assert inner != text
    (mappings / "nordic" / "nordic-join.yaml").write_text(inner, encoding="utf-8")
    house.drop("nordic")
    done = replay(house.capsule(house.run()))
    assert (done.differences, done.other) == ((), ())
    assert done.entries > 30
    (kept,) = done.manifest.mappings
    assert kept.shipper == "nordic"
    assert not list(inbox.rglob("*.csv"))


def the_capsule_of_an_earlier_run_says_what_changed_since(house, name, path):
    """And the replay names the reports that said otherwise."""
    with house.ledger(exclusive=False) as ledger:
        (run,) = ledger.queries.runs_named(name)
        made = make(ledger.queries, run, house.settings, path)
    changed = made.manifest.changed_since
    assert changed > 0
    assert any(f"{changed} entries" in remark and "current state" in remark for remark in made.remarks)
    done = replay(path)
    assert done.differences == ()  # what the files gave is as it was
    assert "run.json" in done.other
    said = f"{changed} entries changed between the end of the run and the making"
    assert any(said in remark for remark in done.remarks)


@pytest.mark.sweep
def test_runs_of_lost_answers_fix_texts_no_files_and_new_versions_are_replayed_as_they_were(tmp_path):
    house = House(tmp_path, "alder-parcels", "nordic-join", feedback="csv")
    house.drop("alder_2026-03-10.csv", "nordic")
    first = house.run({"fault": FaultClass.HTML, "operation": "order.create", "at": (1,)})

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

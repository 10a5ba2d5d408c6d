"""What is forgotten at a person's request is removed, byte for byte; counts, totals and the decision stay."""

import hashlib
import json
import os
import shutil
import zipfile
from dataclasses import replace
from pathlib import Path

import databases
import pytest
from killed_steps import dies_at
from ledgers import blocks_in, bytes_of, drop_of, order, refused, send, unknown, upsert, weight_problem
from retention_runs import PERSON, house_in, orders, records
from sqlalchemy import select

from loadsheet.cli import invoke
from loadsheet.errors import LedgerError
from loadsheet.inbox import InboxFile, find_archived_copy
from loadsheet.ledger import Choice, ReadTotals, Remark, Settlement, State, first_broken_decision, read_ledger
from loadsheet.ledger.ledger_tables import metadata
from loadsheet.mapping.documents import RowLinks
from loadsheet.operations.retention.key_erasure import Request, erase_key, find, plan

OTHER = "Herr Anderer"


def files_with(house, text):
    """The files around the ledger in which this text stands."""
    paths = [path for path in house.place.iterdir() if path.is_file()]
    return sorted(path.name for path in paths if text.encode() in bytes_of(path))


def files_holding(folder, text):
    """The files and links below a folder whose name, target, bytes or packed bytes have a text."""
    found, spelled = [], {text.encode(), json.dumps(text)[1:-1].encode()}
    for path in folder.rglob("*"):
        content = [str(path.relative_to(folder)).encode()]
        if path.is_symlink():
            content.append(str(path.readlink()).encode())
        elif path.is_file() and zipfile.is_zipfile(path):
            with zipfile.ZipFile(path) as packed:
                content += [part for name in packed.namelist() for part in (name.encode(), packed.read(name))]
        elif path.is_file():
            content.append(bytes_of(path))
        found += [str(path)] if any(one in part for one in spelled for part in content) else []
    return found


def do(house, key, **wanted):
    chosen = Request(**wanted, who="clerk", because="request 17")
    ledger = house.ledger
    found = find(house.settings, ledger, house.place / "ledger.db", key)
    deed = plan(house.settings, found, chosen)
    run = ledger.begin_run()
    erase_key(house.settings, ledger, run, found, chosen)
    ledger.end_run(run, exit_code=0, summary={})
    return deed


def filled(house):
    """Orders of one person and of another, refused, unknown and given up, with words of people; the bytes stand in the file."""
    listed = [*records(1, goods_value=7), *records(4, delivery_company=OTHER)]
    items = [*orders(1, 2, 3), *orders(4, delivery_company=OTHER)]
    made = {"A-00002": refused, "A-00003": unknown}
    run, drop = house.night(
        "orders.csv", items, answers=lambda one: made.get(one.key, lambda _: None)(one), listed=listed
    )
    called = Remark(house.entry("A-00001").id, "comment", f"called {PERSON}", "ann", "2026-03-05T00:00:00.000Z")
    assert house.ledger.record_remarks([called], {})
    return run, drop


def test_no_byte_of_a_forgotten_person_is_left_in_the_ledger_nor_in_its_log(house):
    filled(house)
    assert files_with(house, PERSON)
    packed = blocks_in(house.place / "ledger.db")
    unknown_one = house.entry("A-00003")
    with pytest.raises(LedgerError, match=r"order.create A-00003 is unknown: .* `loadsheet resolve A-00003`"):
        do(house, "A-00003")
    settled = Settlement(unknown_one.id, State.HELD, f"given up by bob: {PERSON} knows")
    choices = [Choice(unknown_one, settled, f"{PERSON} was asked")]
    house.ledger.decide(house.ledger.begin_run(), choices, who="bob", choice="give up", comment=f"{PERSON} knows")
    for key in ("A-00001", "A-00002", "A-00003"):
        do(house, key)
    left = [one for one in house.ledger.queries.entries_by_key("A-00004") if PERSON in str(one.rows)]
    assert left  # the other order's rows carry the same name in a cell of their own
    do(house, "A-00004")
    for text in (PERSON, OTHER, "pincode"):
        assert files_with(house, text) == []
    raw = b"".join(path.read_bytes() for path in house.place.glob("ledger.db*"))
    pieces = [block[start : start + 24] for block in packed for start in range(24, len(block) - 24, 24)]
    assert not [piece for piece in pieces if piece in raw]
    assert house.ledger.check() == []
    assert house.entry("A-00003").state is State.INVALID


def test_removed_contents_are_overwritten_on_disk(house):
    with house.ledger.maintenance.writing() as connection:
        assert connection.exec_driver_sql("pragma secure_delete").scalar() == 1


def test_of_an_upsert_that_waits_what_it_might_have_been_is_forgotten_too(house):
    house.night("orders.csv", orders(1), answers=unknown)
    either = upsert(
        order(1, delivery_company=OTHER), [("orders", 2, ("A-00001",))], {"order_id": "A-00001", "note": OTHER}
    )
    run, _ = house.night("again.csv", [either], answers=unknown)
    house.ledger.hold_waiting(run)
    waits = house.entry("A-00001")
    assert (waits.operation, waits.state) == ("order.update", State.HELD)
    lost = house.ledger.queries.entries_by_key("A-00001")[0]
    house.ledger.settle(house.ledger.begin_run(), [Settlement(lost.id, State.HELD, "given up")])
    do(house, "A-00001")
    assert files_with(house, OTHER) == []
    assert house.ledger.check() == []


def test_the_books_balance_and_totals_are_the_same_after_it(house):
    run, _ = filled(house)
    before = house.told_again(run)
    do(house, "A-00001")
    after = house.told_again(run)
    assert after.balances
    assert (after.balance, after.totals, after.shares) == (before.balance, before.totals, before.shares)
    assert after.matches.verdicts() == before.matches.verdicts()
    house.reported_again(run)
    house.night("later.csv", orders(5), listed=records(5))


def test_the_removal_is_a_decision_in_the_chain_without_the_key_and_vouches_for_words_it_took(house):
    filled(house)
    entry = house.entry("A-00002")
    choices = [Choice(entry, Settlement(entry.id, State.READY, "brought back"), "looked")]
    house.ledger.decide(house.ledger.begin_run(), choices, who="bob", choice="retry", comment=PERSON)
    house.end(house.ledger.begin_run())
    with pytest.raises(LedgerError, match="is ready"):
        do(house, "A-00002")
    send(house.ledger, house.ledger.begin_run())
    do(house, "A-00002")
    retried, deed = house.ledger.queries.decisions()
    assert (retried.comment, retried.evidence) == ("", "")
    assert (deed.who, deed.choice, deed.comment) == ("clerk", "forget", "request 17")
    assert "A-00002" not in deed.evidence
    assert retried.hash in deed.evidence
    assert first_broken_decision([retried, deed]) is None
    assert first_broken_decision([retried]) == retried  # nobody vouches for it
    other = replace(deed, evidence="key sha256 00; contents of 1 entries removed")
    assert first_broken_decision([retried, other]) is not None
    assert house.ledger.check() == []


@databases.ON_BOTH
def test_of_a_row_shared_with_another_key_no_cell_remains(house):
    first, second = orders(1), orders(2)
    shared = first[0].rows[1]
    second = replace(second[0], rows=(*second[0].rows, shared), links=RowLinks(shared=(2,)))
    run = house.ledger.begin_run()
    items = [first[0], second, ReadTotals({"orders": 4})]
    house.ledger.plan(run, drop_of(("orders", "o.csv")), {}, items)
    send(house.ledger, run)
    do(house, "A-00001")
    (other,) = house.ledger.queries.entries_by_key("A-00002")
    assert [bool(row.cells) for row in other.rows] == [True, True, False]
    assert other.payload
    house.end(run, records(1, 2))
    assert house.reported_again(run).folder.is_dir()


@databases.ON_BOTH
def test_the_same_record_is_not_sent_twice_after_it_unless_its_key_was_forgotten_too(house):
    filled(house)
    do(house, "A-00001")
    _, again = house.night("again.csv", orders(1), listed=records(1))
    assert house.entries(again)[0].state is State.UNCHANGED
    do(house, "A-00001", with_key=True)
    assert house.ledger.queries.entries_by_key("A-00001") == []
    assert files_with(house, "A-00001") == []
    _, anew = house.night("anew.csv", orders(1), listed=records(1))
    assert house.entries(anew)[0].state is State.ACCEPTED
    assert house.ledger.check() == []


def test_an_original_of_its_own_goes_one_with_rows_of_others_is_named_and_goes_on_wish(house):
    _, alone = house.night("alone.csv", orders(1), listed=records(1))
    _, many = house.night("many.csv", orders(2, 3), listed=records(1, 2, 3))
    mine, shared = house.archive(alone, "alone.csv", PERSON), house.archive(many, "many.csv", PERSON)
    deed = do(house, "A-00001")
    assert f"{mine}: the original alone.csv" in deed.goes
    assert not mine.exists()
    deed = do(house, "A-00002")
    assert any(text.startswith(f"{shared}: it also has rows of other keys") for text in deed.stays)
    assert shared.exists()
    do(house, "A-00002", originals=True)
    assert not shared.exists()
    assert [file.kept_as for drop in (alone, many) for file in house.ledger.queries.drop(drop.id).files] == ["", ""]


def test_reports_capsules_and_copies_are_named_and_go_on_wish(reporting):
    """A file of somebody's own stays in its folder and is named; the reports around it go."""
    run, _ = reporting.night("orders.csv", orders(1), listed=records(1))
    folder, copy = reporting.settings.outbox / run.name, reporting.place / "backups" / "ledger-2026-03-04.db"
    capsule = folder / f"{run.name}.capsule.zip"
    earlier = reporting.place / "capsules" / "2026-03-03-01.capsule.zip"
    mine = folder / "notes of Ann.txt"
    for path in (earlier, copy):
        path.parent.mkdir()
    for path in (capsule, earlier, mine):
        path.write_bytes(b"x")
    reporting.ledger.back_up(copy)
    assert PERSON.encode() in bytes_of(copy)
    stays = do(reporting, "A-00001").stays
    assert all(any(text.startswith(f"{path}: ") for text in stays) for path in (folder, capsule, copy))
    assert (folder.exists(), copy.exists()) == (True, True)
    deed = do(reporting, "A-00001", reports=True)
    assert [text for text in deed.stays if str(folder) in text] == [
        f"{mine}: not written by loadsheet: check it and remove it yourself"
    ]
    assert {f"{folder}: reports", f"{capsule}: a capsule, which may contain the key"} <= set(deed.goes)
    assert list(folder.iterdir()) == [mine]
    deed = do(reporting, "A-00001", reports=True)
    assert not any(str(folder) in text for text in deed.goes), "nothing of ours is left in it"
    mine.unlink()
    reporting.reported_again(run)
    capsule.write_bytes(b"x")
    goes = do(reporting, "A-00001", reports=True, backups=True).goes
    assert all(any(text.startswith(f"{path}: ") for text in goes) for path in (folder, capsule, copy))
    assert (folder.exists(), copy.exists(), earlier.exists()) == (False, False, True)
    written = reporting.reported_again(run)
    assert PERSON not in (written.folder / "forgotten-1.csv.results.csv").read_text(encoding="utf-8")
    assert run.name in (reporting.settings.outbox / "index.html").read_text(encoding="utf-8")


def test_reports_with_an_unread_workbook_stay_and_say_why(reporting):
    run, _ = reporting.night("orders.csv", orders(1), listed=records(1))
    folder = reporting.settings.outbox / run.name
    later = (folder / "run.json").stat().st_mtime + 60
    os.utime(folder / "reconciliation.xlsx", (later, later))
    deed = do(reporting, "A-00001", reports=True)
    assert any(text.startswith(f"{folder}: reports, because a workbook in it was saved") for text in deed.stays)
    assert f"{folder}: reports" not in deed.goes
    assert (folder / "run.html").exists()


def everywhere(house, text):
    """Where a text stands: in files and links below the house, and in the rows of its database."""
    found = files_holding(house.place, text)
    with house.ledger.queries.at_one_moment() as connection:
        for table in metadata.sorted_tables:
            for row in connection.execute(select(table)):
                values = (value if isinstance(value, bytes) else str(value).encode() for value in row)
                found += [f"{table.name}: {row}"] if any(text.encode() in value for value in values) else []
    return found


def logged(house, run, name):
    """The log file of a run, and a notice that waits, as they name a file."""
    log = house.place / "logs" / f"{run.name}.jsonl"
    log.parent.mkdir(exist_ok=True)
    log.write_text(f"{json.dumps({'event': 'entries planned', 'file': name})}\n", encoding="utf-8")
    waits = {"kept": {}, "waiting": [{"title": name, "body": f"see {Path(name).stem}.fix.xlsx"}]}
    (house.place / "notices.json").write_text(json.dumps(waits), encoding="utf-8")
    return log


def archived(house, drop, name):
    """The original of a drop, where the inbox archives it and finds its bytes again."""
    path = house.archive(drop, name, PERSON)
    inbox_file = InboxFile(name, path, path.stat().st_size, hashlib.sha256(name.encode()).hexdigest(), house.clock())
    mark = house.place / "known" / "archived" / inbox_file.sha256[:2] / inbox_file.sha256
    mark.parent.mkdir(parents=True, exist_ok=True)
    mark.symlink_to(path)
    return inbox_file


def wrong(number, name, **changes):
    """An order with a problem at a cell of a file."""
    (one,) = orders(number, **changes)
    return replace(one, payload=b"", content_hash="", problems=(weight_problem(name, 2 * number),))


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_a_name_under_which_only_forgotten_records_came_is_nowhere_any_more(reporting):
    name, stem = 'post/the "new" one of Käthe Weber.csv', 'the "new" one of Käthe Weber'
    run, drop = reporting.night(name, [wrong(1, name)], listed=[])
    reporting.night("others.csv", orders(2), listed=records(2))
    archived(reporting, drop, name)
    logged(reporting, run, name)
    assert len(everywhere(reporting, stem)) > 8
    deed = do(reporting, "A-00001", reports=True, with_key=True)
    (becomes,) = [text.partition(" becomes ")[2] for text in deed.goes if "the name of this file" in text]
    assert becomes.startswith("forgotten-1.csv")
    assert not any("the name of this file" in text for text in deed.stays)
    assert everywhere(reporting, stem) == []
    (notice,) = json.loads((reporting.place / "notices.json").read_text())["waiting"]
    assert notice["body"] == "see forgotten-1.fix.xlsx"
    written = reporting.reported_again(run)
    assert "forgotten-1.csv" in (written.folder / "run.json").read_text(encoding="utf-8")
    assert everywhere(reporting, stem) == []
    assert reporting.ledger.check() == []
    assert reporting.ledger.queries.drop(drop.id).table("orders").file == "forgotten-1.csv"


@databases.ON_BOTH
def test_a_name_under_which_others_came_stays_until_all_are_forgotten_or_it_is_wanted(house):
    _, drop = house.night("orders.csv", orders(1, 2), listed=records(1, 2))
    _, later = house.night("orders.csv", orders(3), listed=records(1, 2, 3))
    said = "orders.csv: the name of this file, in the ledger, the archive and reports: the file also has other records (--names)"
    for key in ("A-00001", "A-00002"):
        assert [text for text in do(house, key).stays if "the name of this file" in text] == [said]
        assert house.ledger.queries.drop(drop.id).name == "orders.csv"
    do(house, "A-00003")
    assert {house.ledger.queries.drop(one.id).name for one in (drop, later)} == {"forgotten-1.csv"}
    _, many = house.night("more.csv", orders(4, 5), listed=records(1, 2, 3, 4, 5))
    do(house, "A-00004", names=True)
    assert house.ledger.queries.drop(many.id).name == "forgotten-3.csv"


@pytest.mark.parametrize(
    ("name", "goes"),
    [
        ("Bestellung_A-00001.csv", True),
        ("bestellung a00001 neu.csv", True),
        ("A-000011.csv", False),
        ("NA-00001.csv", False),
        ("kai.csv", True),
        ("Bo.csv", False),
        ("weber_märz.csv", True),
        ("Frau X.csv", True),
        ("orders_2026-03.csv", False),
        ("dresden.csv", False),
        ("Auftrag 7.csv", False),
    ],
)
def test_a_file_name_that_identifies_the_record_is_replaced_even_if_others_share_it(house, name, goes):
    one, other = orders(1), orders(2, delivery_company=OTHER)
    one = [
        replace(
            one[0],
            rows=tuple(row._replace(cells=(*row.cells, "Dresden", "Auftrag", "Kai", "Bo")) for row in one[0].rows),
        )
    ]
    other = [replace(other[0], rows=tuple(row._replace(cells=("B", OTHER, "Dresden")) for row in other[0].rows))]
    _, drop = house.night(name, [*one, *other], listed=records(1, 2))
    file = archived(house, drop, name)
    do(house, "A-00001", reports=True)
    now = house.ledger.queries.drop(drop.id)
    assert (now.name == "forgotten-1.csv") is goes
    assert (house.settings.state / now.files[0].kept_as).read_text(encoding="utf-8") == PERSON
    assert file.path.exists() is not goes
    assert bool(everywhere(house, Path(name).stem)) is not goes
    earlier = find_archived_copy(file, house.settings)
    assert earlier == f"{drop.run}/{now.name}"


def test_a_file_dropped_again_is_known_by_its_records_and_forgetting_again_changes_only_its_name(house):
    _, first = house.night("Weber.csv", orders(1), listed=records(1))
    do(house, "A-00001")
    before = house.ledger.queries.drop(first.id)
    deed = do(house, "A-00001")
    assert not any("the name of this file" in text for text in deed.goes + deed.stays)
    assert house.ledger.queries.drop(first.id) == before
    _, again = house.night("Weber.csv", orders(1), listed=records(1))
    assert house.entries(again)[0].state is State.UNCHANGED
    assert house.ledger.queries.drop(again.id).name == "Weber.csv"
    assert house.ledger.queries.first_with(again.files[0].sha256, again.id).name == "forgotten-1.csv"
    do(house, "A-00001")
    assert [house.ledger.queries.drop(one.id).name for one in (first, again)] == ["forgotten-1.csv", "forgotten-2.csv"]
    assert everywhere(house, "Weber.csv") == []


def test_a_name_stays_while_a_file_of_it_is_not_in_the_archive(house):
    _, drop = house.night("Weber.csv", orders(1, 2), listed=records(1, 2))
    aside = house.place / "outbox" / drop.run / "set-aside" / "Weber.csv"
    aside.parent.mkdir(parents=True)
    aside.write_text("x", encoding="utf-8")
    house.ledger.record_kept_as(drop.id, "Weber.csv", str(aside))
    said = f"Weber.csv: the name of this file, because {aside} is not in the archive"
    assert any(text.startswith(said) for text in do(house, "A-00001", names=True).stays)
    assert house.ledger.queries.drop(drop.id).name == "Weber.csv"
    aside.unlink()
    do(house, "A-00001", names=True)
    (file,) = house.ledger.queries.drop(drop.id).files
    assert (file.name, file.kept_as) == ("forgotten-1.csv", "")


@pytest.fixture
def command(tmp_path, capsys, monkeypatch):
    """`loadsheet` in the folder of a house that had one run: exit code, stdout and stderr."""
    with house_in(tmp_path) as house:
        house.night("orders.csv", orders(1), listed=records(1))
    monkeypatch.chdir(tmp_path)

    def run(*words):
        code = invoke([*map(str, words), "--state", str(tmp_path)])
        said = capsys.readouterr()
        return code, said.out, said.err

    return run


def test_without_yes_the_command_says_what_would_go_and_nothing_goes(command, tmp_path):
    """It names the copies that were made elsewhere, while they are there."""
    first, second = tmp_path / "far" / "first.db", tmp_path / "second.db"
    for words in (["--to", first], ["--to", "second.db"], []):
        assert command("ledger", "backup", *words)[0] == 0
    second.unlink()
    code, out, err = command("ledger", "forget", "A-00001")
    assert code == 0
    assert "goes:  payloads, cells, answers and comments of 1 entry" in out
    assert "stays: the key itself" in out
    lines = [line for line in out.splitlines() if "backup --to" in line]
    assert lines == [f"stays: {first}: a copy of the ledger, made with `ledger backup --to`: remove it yourself"]
    assert "Nothing was erased" in err
    with read_ledger(f"sqlite:///{tmp_path / 'ledger.db'}") as ledger:
        assert ledger.maintenance.count_removed() == (0, "")


def test_with_yes_and_a_reason_it_is_done_and_recorded(command, tmp_path):
    forget_it = ("ledger", "forget", "A-00001", "--yes")
    code, _, err = command(*forget_it)
    assert (code, "--because" in err) == (2, True)
    code, out, _ = command(*forget_it, "--because", "request 18", "--who", "clerk")
    assert (code, out.startswith("gone:  payloads")) == (0, True)
    assert PERSON.encode() not in bytes_of(tmp_path / "ledger.db")
    assert "contents of 1 entry removed" in command("ledger", "check")[1]
    code, _, err = command("ledger", "forget", "A-99999")
    assert (code, "nothing is known about A-99999" in err) == (1, True)
    code, out, _ = command("show", "A-00001")
    assert (code, "removed  payload and cells on 20" in out, PERSON in out) == (0, True, False)
    assert command("show", "A-00001", "--payload")[0] == 0
    code, _, err = command("show", "A-00001", "--field", "total_weight")
    assert (code, "its values were removed on 20" in err) == (2, True)


def of_other(number, name=""):
    """An order of another person; wrong, if a file is named."""
    one = wrong(number, name, delivery_company=OTHER) if name else orders(number, delivery_company=OTHER)[0]
    return replace(one, rows=tuple(row._replace(cells=(f"A-{number:05}", OTHER)) for row in one.rows))


@pytest.mark.parametrize("apart", [37, pytest.param(1, marks=[pytest.mark.sweep, pytest.mark.timeout(900)])])
def test_killed_at_any_step_forgetting_is_done_again_and_the_books_balance(tmp_path, apart, record_property):
    prepared, point, kills, shared = tmp_path / "prepared", 1, 0, "A-00001 etc.csv"
    with house_in(prepared) as house:
        run, drop = house.night("Weber.csv", orders(1), listed=records(1, goods_value=7))
        items, listed = [*orders(1), of_other(2), of_other(3, shared)], records(2, delivery_company=OTHER)
        _, many = house.night(shared, items, listed=[*records(1), *listed])
        logged(house, run, "Weber.csv")

    def act(begin):
        with house_in(place) as house:
            begin()
            do(house, "A-00001", reports=True)

    while True:
        place = shutil.copytree(prepared, tmp_path / "again")
        with house_in(place) as house:
            archived(house, drop, "Weber.csv")
            archived(house, many, shared)
        if not dies_at(point, act, {"os.remove", "os.rename", "os.rmdir", "os.link", "os.symlink"}):
            break
        with house_in(place) as house:
            assert house.ledger.check() == []
            kept = {house.settings.state / one.kept_as for one in house.ledger.maintenance.originals()}
            assert all(path.read_text(encoding="utf-8") == PERSON for path in kept if path.name != "Weber.csv")
            do(house, "A-00001", reports=True)
            assert house.ledger.check() == []
            assert files_with(house, PERSON) == []
            assert everywhere(house, "Weber.csv") == everywhere(house, "A-00001 etc") == []
            assert [path.name for path in (place / "archive").rglob("*.csv")] == ["forgotten-2.csv"]
            assert not (place / "outbox" / run.name).exists()
            assert house.told_again(run).balances
        shutil.rmtree(place)
        point, kills = point + apart, kills + 1
    assert point > 40
    record_property("kills", kills)


HEAD = "Order,Name,Street,Postcode,City,Country,Collect,Deliver,Item,Weight,Value\n"
ROW = "AF-{},{},Park Row 3,LS1 5HD,Leeds,GB,2026-03-27 10:00,2026-03-30 09:00,Rug,{},180\n"
STEM = "alder_Okafor"


@pytest.mark.journey
def test_a_file_name_is_removed_from_every_file_and_the_copy_elsewhere_is_named(workspace):
    """After real runs: a person's file with a wrong row, and a later file of others."""
    workspace.use_shipped("alder-parcels")
    for name, rows in {
        f"{STEM}.csv": ROW.format(11, "S. Okafor", 22) + ROW.format(14, "S. Okafor", "heavy"),
        "alder_2026-03-10.csv": ROW.format(12, "Tide House", 6),
    }.items():
        workspace.drop(name, HEAD + rows)
        assert workspace.run().returncode in (0, 1)
    copy = workspace / "elsewhere" / "copy.db"
    assert workspace.command("ledger", "backup", "--to", copy).returncode == 0
    assert len(files_holding(workspace.folder, STEM)) > 10

    def forgotten(key):
        words = ("--reports", "--backups", "--yes", "--because", "asked to")
        done = workspace.command("ledger", "forget", key, *words)
        assert done.returncode == 0, done.stderr
        return done.stdout

    assert f"stays: {STEM}.csv: the name of this file" in forgotten("AF-14")
    said = forgotten("AF-11")
    assert f"gone:  {STEM}.csv: the name of this file becomes forgotten-1.csv" in said
    assert f"stays: {copy}: a copy of the ledger, made with `ledger backup --to`: remove it yourself" in said
    assert files_holding(workspace.folder, STEM) == [str(copy)]
    copy.unlink()
    said = forgotten("AF-11")
    assert not any(text in said for text in ("backup --to", "the name of this file"))
    checked = workspace.command("ledger", "check")
    assert "decisions in one chain" in checked.stdout
    assert "original" not in checked.stdout + checked.stderr
    for log in sorted((workspace.state / "logs").glob("*.jsonl")):
        workspace.command("report", "--run", log.stem)
    assert files_holding(workspace.folder, STEM) == []
    assert "forgotten-1.csv" in "".join(path.read_text() for path in workspace.outbox.glob("*/run.json"))

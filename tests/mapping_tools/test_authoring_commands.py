"""The commands for authors with real files: lint with its caret, preview, golden cases, diff, and one value explained."""

import contextlib
import json
import os
import re
import shutil
from pathlib import Path

import pytest
from command_in_process import Terminal, loadsheet
from hypothesis import given
from hypothesis import strategies as st
from workspace import Workspace

from loadsheet import cli
from loadsheet.cli.mapping import framed
from loadsheet.errors import MappingError
from loadsheet.mapping.documents import Document
from loadsheet.mapping_tools.comparison import PairVerdict, changed_paths, compare
from loadsheet.problems import Problem, Where

ROOT = Path(__file__).parents[2]
INBOX = ROOT / "inbox_samples"


NEEDED = ("acme-flat", "carrier7-quotes", "nordic-join", "order-deletes", "order-updates")


def with_mappings(folder, *names):
    """The folder with these shipped mappings, their code tables and golden cases."""
    shipped, own = ROOT / "mappings", folder / "mappings"
    shutil.copytree(shipped / "lookups", own / "lookups")
    for name in names:
        shutil.copy(shipped / f"{name}.yaml", own)
        if (shipped / "tests" / name).is_dir():
            shutil.copytree(shipped / "tests" / name, own / "tests" / name)
    return folder


@pytest.fixture
def house(tmp_path):
    return with_mappings(tmp_path, *NEEDED)


@pytest.fixture
def on_a_terminal(monkeypatch):
    """What a command prints where stdout is a terminal of 200 columns, without its colours."""
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setenv("TERM", "xterm")

    def shown(folder, *words):
        with contextlib.chdir(folder), contextlib.redirect_stdout(Terminal()) as out:
            code = cli.invoke([str(word) for word in words])
        return code, re.sub(r"\x1b\[[0-9;]*m", "", out.getvalue())

    return shown


def edited(folder, name, *changed):
    """A copy of a mapping with texts replaced, as mappings/new.yaml."""
    text = (folder / "mappings" / f"{name}.yaml").read_text(encoding="utf-8")
    for old, new in changed:
        assert old in text
        text = text.replace(old, new)
    path = folder / "mappings" / "new.yaml"
    path.write_text(text, encoding="utf-8")
    return path


# ---- lint ----


def test_a_mistake_is_shown_in_its_line_with_a_caret_on_a_terminal(house, on_a_terminal):
    edited(house, "acme-flat", ("lookup: package_types", "lookup: pakage_types"))
    code, shown = on_a_terminal(house, "mapping", "lint", "mappings/new.yaml")
    assert code == 78
    place, _, line, caret, hint = shown.splitlines()[:5]
    assert place.startswith("mappings/new.yaml:")
    assert line[caret.index("^") :].startswith("pakage_types")
    assert hint.strip() == "= did you mean package_types?"
    (line,) = loadsheet(house, "mapping", "lint", "mappings/new.yaml").stdout.splitlines()
    assert line.endswith('there is no lookup "pakage_types" (did you mean package_types?)'), "one line in a pipe"
    (found,) = json.loads(loadsheet(house, "mapping", "lint", "mappings/new.yaml", "--json").stdout)
    assert (found["text"], found["hint"]) == ('there is no lookup "pakage_types"', "did you mean package_types?")
    assert line.startswith(f"{found['file']}:{found['line']}:{found['column']}: ")


def test_a_mistake_in_a_base_is_one_mistake_however_many_mappings_extend_it(tmp_path):
    with_mappings(tmp_path, "alder-parcels", "birch-parcels")
    shutil.copytree(ROOT / "mappings" / "base", tmp_path / "mappings" / "base")
    base = tmp_path / "mappings" / "base" / "parcels.yaml"
    base.write_text(base.read_text(encoding="utf-8").replace("version: ", "versoin: ", 1), encoding="utf-8")
    done = loadsheet(tmp_path, "mapping", "lint")
    assert done.stdout.count("base/parcels.yaml:") == done.stdout.count('unknown key "versoin"') == 1
    assert "2 mapping files, " in done.stderr


def test_a_folder_that_does_not_exist_is_named_with_the_folder_it_is_looked_for_in(tmp_path):
    """A scheduler may start in another folder than the one with the settings."""
    (tmp_path / "inbox").mkdir()
    assert f"mappings: there is no such folder in {tmp_path} (" in loadsheet(tmp_path, "run").stderr


@given(
    line=st.text(st.characters(exclude_categories=["Cc", "Cs", "Zl", "Zp"]), min_size=1, max_size=300), data=st.data()
)
def test_a_frame_never_fails_and_points_into_its_line(line, data):
    column = data.draw(st.integers(1, len(line)))
    shown = framed(MappingError("wrong", file="m.yaml", line=1, column=column), line).splitlines()
    assert shown[0] == f"m.yaml:1:{column}: wrong"
    assert shown[3].endswith("^")
    assert len(shown) == 4
    beyond = MappingError("wrong", file="m.yaml", line=9, column=1)
    assert framed(beyond, line) == "m.yaml:9:1: wrong"


# ---- preview ----


def test_preview_shows_each_cell_beside_the_field_that_it_becomes(house):
    done = loadsheet(house, "mapping", "preview", INBOX / "acme_orders_2026-03.xlsx", "--rows", "1")
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    place = "acme_orders_2026-03.xlsx:Aufträge!K6\tVerpackung\tTR"
    assert f'A-4501\tpackages[0].package_type\t"Drum"\t{place}' in lines
    assert 'A-4501\tsender_id\t"ACME"\t\t\t(the mapping)' in lines


def test_preview_shows_problems_at_their_cells_and_what_fills_nothing(house):
    told = loadsheet(house, "mapping", "preview", INBOX / "order_updates.csv", "--rows", "5", "--json")
    assert told.returncode == 1
    found = json.loads(told.stdout)
    assert (found["mapping"], found["version"], len(found["hash"])) == ("order-updates", 1, 64)
    wrong = found["records"][4]
    assert [problem["where"]["column"] for problem in wrong["problems"]] == ["Deliver from"]
    assert {"place": "order_updates.csv:6 Deliver from", "label": "Deliver from", "text": "16/O3/2026 18:00"} in wrong[
        "unused"
    ]
    unused = json.loads(loadsheet(house, "mapping", "preview", INBOX / "order_deletes.csv", "--json").stdout)
    assert [cell["label"] for cell in unused["records"][0]["unused"]] == ["Reason"]


def test_preview_of_joined_files_and_with_a_mapping_by_name(house):
    orders, packages = (INBOX / "nordic" / "2026-03-04" / f"{name}.csv" for name in ("orders", "packages"))
    words = ("mapping", "preview", packages, orders, "--rows", "1", "--mapping")
    assert "00871\tpackages[1].item_name\t" in loadsheet(house, *words, "nordic-join").stdout
    unknown = loadsheet(house, *words, "nordic")
    assert unknown.returncode == 2
    assert "nordic-join" in unknown.stderr
    alone = loadsheet(house, "mapping", "preview", orders, "--mapping", "nordic-join")
    assert "needs a file for packages" in alone.stderr


def test_preview_of_two_files_of_one_name_reads_each_for_its_role(house):
    """In: patterns that tell the files apart by their folders. Out: a record of both, with the folder in the places."""
    new = edited(
        house,
        "nordic-join",
        ('"nordic/{batch}/orders.csv"', '"orders/{batch}.csv"'),
        ("nordic/{batch}/packages.csv", "packages/{batch}.csv"),
    )
    for name in ("orders", "packages"):
        (house / name).mkdir()
        shutil.copy(INBOX / "nordic" / "2026-03-04" / f"{name}.csv", house / name / "4.csv")
    done = loadsheet(house, "mapping", "preview", "orders/4.csv", "packages/4.csv", "--mapping", new, "--rows", "1")
    assert "orders/4.csv:2" in done.stdout, done.stderr
    assert "packages/4.csv:2" in done.stdout


def test_preview_is_a_table_on_a_terminal(house, on_a_terminal):
    code, shown = on_a_terminal(house, "mapping", "preview", INBOX / "acme_orders_2026-03.xlsx", "--rows", "1")
    assert code == 0
    (line,) = [line for line in shown.splitlines() if "packages[0].package_type" in line]
    cells = ["Aufträge!K6", "Verpackung", "TR", "->", "packages[0].package_type", '"Drum"']
    assert [cell.strip() for cell in line.strip("│").split("│")] == cells


HOSTILE = "order_updates_\nmapping: theirs\x1b]0;x\x07\x9b2J\u202e.csv"


def test_preview_shows_no_control_character_of_a_file_name_or_cell(house, on_a_terminal):
    hostile = house / HOSTILE
    sent = (INBOX / "order_updates.csv").read_text(encoding="utf-8-sig")
    hostile.write_text(sent.replace("HLT", "HLT\x9b31m\u202e"), encoding="utf-8")
    words = ("mapping", "preview", hostile, "--mapping", "order-updates")
    for shown in (
        on_a_terminal(house, *words)[1],
        *(loadsheet(house, *words, *more).stdout for more in ((), ("--json",))),
    ):
        assert "HLT" in shown
        assert not set(shown) & set("\x1b\x07\x9b\u202e")


def test_a_file_name_adds_no_line_to_a_draft(house):
    hostile = house / HOSTILE
    shutil.copy(INBOX / "order_updates.csv", hostile)
    done = loadsheet(house, "mapping", "suggest", hostile)
    assert done.returncode == 0, done.stderr
    assert not set(done.stdout) & set("\x1b\x07\x9b\u202e")
    assert re.findall(r"^mapping: .*", done.stdout, re.MULTILINE) == ["mapping: order-updates-mapping-theirs-x-j"]


def test_a_file_name_that_is_no_text_is_shown_as_in_the_inbox(house):
    hostile = house / os.fsdecode(b"order_updates_\xff.csv")
    shutil.copy(INBOX / "order_updates.csv", hostile)
    for command in (("check",), ("mapping", "preview"), ("mapping", "suggest")):
        done = loadsheet(house, *command, hostile)
        assert done.returncode in (0, 1), done.stderr
        assert "order_updates_%FF.csv" in done.stdout


# ---- test ----


@pytest.mark.journey
def test_the_shipped_golden_cases_hold():
    done = loadsheet(ROOT, "mapping", "test")
    assert done.returncode == 0, done.stdout
    assert done.stderr.endswith(" cases, 0 not as expected\n")


def test_a_changed_mapping_fails_its_case_until_it_is_updated(tmp_path):
    house = with_mappings(tmp_path, "carrier7-quotes")
    path = house / "mappings" / "carrier7-quotes.yaml"
    path.write_text(path.read_text(encoding="utf-8").replace("{const: carrier}", "{value: OTHER}"), encoding="utf-8")
    done = loadsheet(house, "mapping", "test")
    assert done.returncode == 1
    assert "wrong\tcarrier7-quotes/rates" in done.stdout
    assert 'carrier_id is "OTHER", expected "CARRIER7"' in done.stdout
    told = json.loads(loadsheet(house, "mapping", "test", "--json").stdout)
    assert [case["mapping"] for case in told if case["differences"]] == ["carrier7-quotes"]
    assert loadsheet(house, "mapping", "test", "--update").returncode == 0
    assert loadsheet(house, "mapping", "test").returncode == 0


def test_a_case_fails_without_its_expectation_and_where_a_refused_row_is_accepted_now(house):
    (house / "empty").mkdir()
    assert loadsheet(house, "mapping", "test", "empty").returncode == 78, "no case at all"
    shutil.copy(INBOX / "order_deletes.csv", house / "mappings" / "tests" / "order-updates" / "other.csv")
    case = house / "mappings" / "tests" / "carrier7-quotes" / "rates.csv"
    text = case.read_text(encoding="utf-8").splitlines()
    text[-1] = text[-1].split(",")[0] + ",100.00," + ",".join(text[-1].split(",")[-5:])
    case.write_text("\n".join(text) + "\n", encoding="utf-8")
    told = loadsheet(house, "mapping", "test").stdout
    assert "other.expected.jsonl does not exist" in told
    assert "is accepted, but should be refused" in told


def test_a_case_names_the_document_that_is_missing_and_the_one_that_is_not_expected(house):
    case = house / "mappings" / "tests" / "carrier7-quotes" / "rates.csv"
    expected = case.with_name("rates.expected.jsonl")
    rows, documents = case.read_text(encoding="utf-8"), expected.read_text(encoding="utf-8").splitlines(keepends=True)
    case.write_text(rows.rstrip("\n").rpartition("\n")[0] + "\n", encoding="utf-8")
    missing = f"document {len(documents) - 1} (tender.quote "
    told = loadsheet(house, "mapping", "test").stdout
    assert missing in told
    assert ") is expected, but missing" in told
    case.write_text(rows, encoding="utf-8")
    expected.write_text("".join(documents[:-1]), encoding="utf-8")
    assert ") is not expected" in loadsheet(house, "mapping", "test").stdout
    for line in (1, 2):
        expected.write_text("".join([*documents[: line - 1], "{\n"]), encoding="utf-8")
        assert f"rates.expected.jsonl:{line}:1: " in loadsheet(house, "mapping", "test").stderr


def test_a_case_with_dates_far_from_today_is_the_same_on_every_day(tmp_path):
    house = with_mappings(tmp_path, "order-updates")
    text = (INBOX / "order_updates.csv").read_text(encoding="utf-8")
    assert "2026" in text
    cases = house / "mappings" / "tests" / "order-updates"
    cases.mkdir(parents=True, exist_ok=True)
    text = text.replace("Delayed", "Delayed\N{NEXT LINE}again")
    (cases / "far.csv").write_text(text.replace("2026", "1926"), encoding="utf-8")
    shutil.copy(cases / "far.csv", house / "order_updates.csv")
    assert "C318" in loadsheet(house, "check", "order_updates.csv").stdout, "a check warns of them"
    assert loadsheet(house, "mapping", "test", "--update").returncode == 0
    assert "1926" in (expected := (cases / "far.expected.jsonl").read_text(encoding="utf-8"))
    assert "C318" not in expected
    assert "\N{NEXT LINE}" in expected
    assert loadsheet(house, "mapping", "test").returncode == 0


# ---- diff ----


def test_diff_tells_which_fields_change_in_how_many_documents(house):
    new = edited(house, "nordic-join", ("version: 1", "version: 2"), ("PT3H", "PT2H"))
    words = ("mapping", "diff", "mappings/nordic-join.yaml", new, "--on", INBOX / "nordic" / "2026-03-04")
    done = loadsheet(house, *words)
    assert done.returncode == 1
    assert "36  changed" in done.stdout
    assert "36  differ in pickup_enddatetime" in done.stdout
    told = json.loads(loadsheet(house, *words, "--json").stdout)
    assert told["counts"]["changed"] == 36
    assert told["counts"]["still failing"] == 5
    assert told["fields"] == {"pickup_enddatetime": 36}
    assert (told["old"]["version"], told["new"]["version"]) == (1, 2)
    assert told["old"]["hash"] != told["new"]["hash"]


def test_diff_compares_on_the_last_originals_in_the_archive(workspace):
    for count in (1, 2, 3):
        workspace.write_orders(count)
        workspace.run()
    mapping = next((workspace / "mappings").glob("*join*.yaml"))
    new = workspace / "new.yaml"
    new.write_text(mapping.read_text(encoding="utf-8").replace("CARRIER1", "CARRIER2"))
    words = ("mapping", "diff", str(mapping), str(new), "--last")
    told = json.loads(workspace.command(*words, "2", "--json").stdout)
    assert told["counts"]["changed"] == 2 + 3
    assert list(told["fields"]) == ["receiver_id"]
    assert json.loads(workspace.command(*words, "9", "--json").stdout)["counts"]["changed"] == 1 + 2 + 3
    workspace.change("update files set kept_as = '' where drop_id = 3 and role = 'packages'")  # removed after its days
    assert json.loads(workspace.command(*words, "1", "--json").stdout)["counts"]["changed"] == 2
    min((workspace.state / "archive").rglob("orders.csv")).unlink()
    gone = workspace.command(*words, "9")
    assert (gone.returncode, "the original orders.csv is missing" in gone.stderr) == (75, True)
    assert workspace.command("mapping", "diff", str(mapping), str(new)).returncode == 2
    other = Workspace(workspace / "other")
    none = other.command(*words, "1")
    assert (none.returncode, "there is no ledger" in none.stderr) == (78, True)


@pytest.mark.journey
def test_diff_compares_an_edited_mapping_with_the_versions_that_the_runs_used(workspace):
    """In: two runs with different versions, and then an edit. Nobody made a copy before it."""
    mapping = next((workspace / "mappings").glob("*join*.yaml"))
    texts = [mapping.read_text(encoding="utf-8")]
    texts += [texts[0].replace("CARRIER1", name) for name in ("CARRIER2", "CARRIER3")]
    for count, text in enumerate(texts, start=1):
        mapping.write_text(text, encoding="utf-8")
        if count < len(texts):
            workspace.write_orders(count)
            workspace.run()
    words = ("mapping", "diff", mapping, "--last")
    found = workspace.command(*words, "3")
    assert (found.returncode, [line.count(" -> ") for line in found.stdout.splitlines()[:2]]) == (1, [1, 1])
    told = json.loads(workspace.command(*words, "3", "--json").stdout)
    assert told["counts"]["changed"] == 1 + 2
    values = {
        (json.loads(change["old"]), json.loads(change["new"])) for one in told["documents"] for change in one["changes"]
    }
    assert values == {("CARRIER1", "CARRIER3"), ("CARRIER2", "CARRIER3")}
    assert len({one["hash"] for one in (told["old"], *told["older"], told["new"])}) == 3
    mapping.write_text(texts[1], encoding="utf-8")
    assert workspace.command(*words, "1").returncode == 0  # as that run read it
    workspace.change("update mappings set source = '{}'")
    lost = workspace.command(*words, "1")
    assert (lost.returncode, "name a copy of it" in lost.stderr) == (78, True)
    alone = workspace.command("mapping", "diff", mapping, "--on", mapping)
    assert (alone.returncode, "name two mappings" in alone.stderr) == (2, True)


def test_diff_of_a_folder_that_holds_nothing_for_the_mappings_is_refused(house):
    (house / "drop").mkdir()
    words = ("mapping", "diff", "mappings/acme-flat.yaml", "mappings/acme-flat.yaml", "--on", "drop")
    empty = loadsheet(house, *words)
    (house / "drop" / "notes.txt").write_text("see you on Monday\n", encoding="utf-8")
    other = loadsheet(house, *words)
    for done in (empty, other):
        assert (done.returncode, "nothing to compare" in done.stderr, "acme_" in done.stderr) == (65, True, True)


def test_diff_tells_what_fails_now_and_what_passes_now(house):
    old = house / "mappings" / "acme-flat.yaml"
    new = edited(house, "acme-flat", ("lookup: package_types", "one_of: {EUP: Pallet/Skid, EUX: Box}"))

    def counts(before, after):
        words = ("mapping", "diff", before, after, "--on", INBOX / "acme_orders_2026-03.xlsx", "--json")
        done = loadsheet(house, *words)
        found = {verdict: count for verdict, count in json.loads(done.stdout)["counts"].items() if count}
        assert done.returncode == bool(set(found) - {"identical", "still failing"})
        return found

    there, back = counts(old, new), counts(new, old)
    assert there["now failing"] == back["now passing"] > 0
    assert counts(old, old).keys() == {"identical", "still failing"}


def document(key, payload, *problems):
    return Document("order.update", key, f"order:{key}", payload, "", (), problems)


def test_documents_are_paired_by_key_and_each_pair_has_one_verdict():
    """A number that is written otherwise is a change."""
    wrong = Problem("C301", Where("f.csv", row=2))
    old = {"same": b'{"a":1.50}', "moved": b'{"a":[{"w":1.50}]}', "gone": b"{}", "broke": b"{}", "bad": b""}
    new = {"moved": b'{"a":[{"w":1.5}]}', "same": b'{"a":1.50}', "came": b"{}", "broke": b"", "bad": b"{}"}
    found = compare(*([document(*one, *([] if one[1] else [wrong])) for one in side.items()] for side in (old, new)))
    assert {pair.key: pair.verdict for pair in found.pairs} == {
        "moved": PairVerdict.CHANGED,
        "gone": PairVerdict.ONLY_OLD,
        "came": PairVerdict.ONLY_NEW,
        "broke": PairVerdict.NOW_FAILING,
        "bad": PairVerdict.NOW_PASSING,
    }
    assert (found.counts[PairVerdict.IDENTICAL], found.same) == (1, False)
    assert [tuple(change) for change in changed_paths(old["moved"], new["moved"])] == [("a[0].w", "1.50", "1.5")]


# ---- show --field ----


def test_a_value_is_explained_from_cell_to_payload(tmp_path):
    """A field by its path, one by its name in all its places, a constant, and fields that are not there."""
    folder = with_mappings(tmp_path, "acme-flat")
    (folder / "inbox").mkdir()
    shutil.copy(INBOX / "acme_orders_2026-03.xlsx", folder / "inbox")
    assert loadsheet(folder, "run", "--settle", "0", "--exchange", "embedded").returncode == 1
    lines = (folder / "mappings" / "acme-flat.yaml").read_text(encoding="utf-8").splitlines()
    line = next(number for number, text in enumerate(lines, 1) if text.strip() == "package_type: {col: kind}")

    def show(field, *words, key="A-4501"):
        return loadsheet(folder, "show", key, "--field", field, *words)

    done = show("packages[0].package_type")
    assert done.returncode == 0, done.stderr
    assert [line.strip() for line in done.stdout.splitlines()[1:6]] == [
        'packages[0].package_type = "Drum"',
        'cell     acme_orders_2026-03.xlsx:Aufträge!K6 Verpackung: "TR"',
        "read     text, lookup package_types",
        "code     lookups/package_types.csv: code TR -> exchange Drum",
        f"by       mappings/acme-flat.yaml:{line} {{col: kind}}",
    ]
    assert "mapping acme-flat version 1, hash " in done.stdout
    (told,) = json.loads(show("weight", "--json").stdout)
    assert [value["field"] for value in told["values"]] == [f"packages[{number}].weight" for number in range(3)]
    assert told["values"][0]["cells"][0]["read"] == "quantity, min 0.001, unit kg, locale de_DE"
    assert len(told["mapping_hash"]) == 64
    assert "from     the mapping, not from a cell" in show("sender_id").stdout
    misspelt = show("delivery_pincod")
    assert (misspelt.returncode, "did you mean delivery_pincode?" in misspelt.stderr) == (2, True)
    assert "has no record: " in show("order_id", key="A-4506").stderr


SMALL = """\
mapping: small
version: 1
target: order.delete
source: {files: "*.csv"}
columns: {order: {label: Order, required: true}}
payload:
  order_id: {col: order}
"""


def test_a_value_is_explained_by_the_mapping_of_its_run(tmp_path):
    """Also if that mapping has changed since, or is not in the folder, or if the folder is gone. A folder that is named counts."""
    workspace = Workspace(tmp_path, mappings={"small": SMALL})
    (workspace / "mappings").rename(workspace / "maps")
    workspace.drop("in.csv", "Order\nA-1\n")
    workspace.run("--exchange", "embedded", "--mappings", "maps")

    def shown(*words):
        return loadsheet(workspace, "show", "A-1", "--field", "order_id", *words).stdout.splitlines()

    *before, version = shown()
    assert before[-1] == "    by       maps/small.yaml:7 {col: order}"
    assert version.startswith("  mapping small version 1, hash "), "the mapping of the run is today's: there is no note"
    workspace.edit("maps/small.yaml", "version: 1", "version: 2")
    *changed, note = shown()
    assert note.startswith("  this is the mapping of the run: maps/small.yaml has changed since (now version 2")
    assert changed == [line.replace("maps/small.yaml", "small.yaml") for line in [*before, version]]
    (workspace / "other").mkdir()
    (workspace / "other" / "big.yaml").write_text(SMALL.replace("mapping: small", "mapping: big"), encoding="utf-8")
    assert "other has no mapping small today" in shown("--mappings", "other")[-1]
    shutil.rmtree(workspace / "maps")
    *gone, note = shown()
    assert gone == changed
    assert "there is no such folder" in note


def test_the_cell_under_a_repeated_heading_is_shown_and_not_the_first_of_its_name(tmp_path):
    text = SMALL.replace("order: {label: Order,", "order: {label: Order, aliases: [Nr], occurrence: 2,")
    workspace = Workspace(tmp_path, mappings={"small": text})
    workspace.drop("in.csv", "Nr,Nr\nX-1,A-1\n")
    preview = loadsheet(workspace, "mapping", "preview", "inbox/in.csv").stdout.splitlines()
    assert preview == ['A-1\torder_id\t"A-1"\tin.csv:2 Nr (2)\tOrder (2)\tA-1', "A-1\t\t\tin.csv:2 Nr\tNr\tX-1"]
    workspace.run("--exchange", "embedded")
    shown = loadsheet(workspace, "show", "A-1", "--field", "order_id").stdout
    assert '    cell     in.csv:2 Nr (2) Order (2): "A-1"' in shown

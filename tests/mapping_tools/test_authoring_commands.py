"""The commands for authors with real files: lint with its caret, preview, golden cases, diff, and one value explained."""

import contextlib
import io
import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from command_in_process import loadsheet as forked
from hypothesis import given
from hypothesis import strategies as st
from workspace import Workspace

from loadsheet import cli
from loadsheet.cli.mapping import framed
from loadsheet.mapping import Document
from loadsheet.mapping_tools.comparison import Verdict, changes, compare
from loadsheet.mapping_tools.value_origins import pattern
from loadsheet.problems import MappingError, Problem, Where

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


class Terminal(io.StringIO):
    """A stdout that says it is a terminal."""

    def isatty(self):
        return True


def loadsheet(folder, *words, out=io.StringIO):
    """The command in this process: most of the others of the suite start it as a user does."""
    out, err = out(), io.StringIO()
    with contextlib.chdir(folder), contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = cli.invoke([str(word) for word in words])
    return subprocess.CompletedProcess(words, code, out.getvalue(), err.getvalue())


@pytest.fixture
def on_a_terminal(monkeypatch):
    """What a command prints where stdout is a terminal of 200 columns, without its colours."""
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setenv("TERM", "xterm")

    def shown(folder, *words):
        done = loadsheet(folder, *words, out=Terminal)
        return done.returncode, re.sub(r"\x1b\[[0-9;]*m", "", done.stdout)

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


def test_a_case_with_dates_far_from_today_is_the_same_on_every_day(tmp_path):
    house = with_mappings(tmp_path, "order-updates")
    text = (INBOX / "order_updates.csv").read_text(encoding="utf-8")
    assert "2026" in text
    cases = house / "mappings" / "tests" / "order-updates"
    cases.mkdir(parents=True, exist_ok=True)
    text = text.replace("Delayed", "Delayed\N{LINE SEPARATOR}again")
    (cases / "far.csv").write_text(text.replace("2026", "1926"), encoding="utf-8")
    shutil.copy(cases / "far.csv", house / "order_updates.csv")
    assert "C318" in forked(house, "check", "order_updates.csv").stdout, "a check warns of them"
    assert loadsheet(house, "mapping", "test", "--update").returncode == 0
    assert "1926" in (expected := (cases / "far.expected.jsonl").read_text(encoding="utf-8"))
    assert "C318" not in expected
    assert "\N{LINE SEPARATOR}" in expected
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
    found = workspace.command("mapping", "diff", mapping, "--last", "3")
    assert found.returncode == 1
    told = json.loads(workspace.command("mapping", "diff", mapping, "--last", "3", "--json").stdout)
    assert told["counts"]["changed"] == 1 + 2
    assert {json.loads(change["old"]) for one in told["documents"] for change in one["changes"]} == {
        "CARRIER1",
        "CARRIER2",
    }
    assert {json.loads(change["new"]) for one in told["documents"] for change in one["changes"]} == {"CARRIER3"}
    assert len({one["hash"] for one in (told["old"], *told["older"], told["new"])}) == 3
    assert [line.count(" -> ") for line in found.stdout.splitlines()[:2]] == [1, 1]
    mapping.write_text(texts[1], encoding="utf-8")
    assert workspace.command("mapping", "diff", mapping, "--last", "1").returncode == 0  # as that run read it
    workspace.change("update mappings set source = '{}'")
    lost = workspace.command("mapping", "diff", mapping, "--last", "1")
    assert (lost.returncode, "name a copy of it" in lost.stderr) == (78, True)
    alone = workspace.command("mapping", "diff", mapping, "--on", mapping)
    assert (alone.returncode, "name two mappings" in alone.stderr) == (2, True)


@pytest.mark.parametrize("content", [{}, {"notes.txt": "see you on Monday\n"}])
def test_diff_of_a_folder_that_holds_nothing_for_the_mappings_is_refused(house, content):
    folder = house / "drop"
    folder.mkdir()
    for name, text in content.items():
        (folder / name).write_text(text, encoding="utf-8")
    done = loadsheet(house, "mapping", "diff", "mappings/acme-flat.yaml", "mappings/acme-flat.yaml", "--on", folder)
    assert done.returncode == 65
    assert "nothing to compare" in done.stderr
    assert "acme_" in done.stderr


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
    wrong = Problem("C301", Where("f.csv", row=2))
    old = {"same": b'{"a":1.50}', "moved": b'{"a":1}', "gone": b"{}", "broke": b"{}", "bad": b""}
    new = {"moved": b'{"a":2}', "same": b'{"a":1.50}', "came": b"{}", "broke": b"", "bad": b"{}"}
    found = compare(*([document(*one, *([] if one[1] else [wrong])) for one in side.items()] for side in (old, new)))
    assert {pair.key: pair.verdict for pair in found.pairs} == {
        "moved": Verdict.CHANGED,
        "gone": Verdict.ONLY_OLD,
        "came": Verdict.ONLY_NEW,
        "broke": Verdict.NOW_FAILING,
        "bad": Verdict.NOW_PASSING,
    }
    assert found.counts[Verdict.IDENTICAL] == 1
    assert not found.same


def test_a_number_written_otherwise_is_a_change():
    assert [tuple(change) for change in changes(b'{"p":[{"w":1.50}]}', b'{"p":[{"w":1.5}]}')] == [
        ("p[0].w", "1.50", "1.5")
    ]
    assert pattern("p[0].inner[12].w") == "p[].inner[].w"


# ---- show --field ----


@pytest.fixture(scope="module")
def night(tmp_path_factory):
    """A folder after a run of Acme's sample."""
    folder = with_mappings(tmp_path_factory.mktemp("night"), "acme-flat")
    (folder / "inbox").mkdir()
    shutil.copy(INBOX / "acme_orders_2026-03.xlsx", folder / "inbox")
    done = forked(folder, "run", "--settle", "0", "--exchange", "embedded")
    assert done.returncode == 1, done.stderr
    return folder


def test_a_value_is_explained_from_cell_to_payload(night):
    lines = (night / "mappings" / "acme-flat.yaml").read_text(encoding="utf-8").splitlines()
    line = next(number for number, text in enumerate(lines, 1) if text.strip() == "package_type: {col: kind}")
    done = loadsheet(night, "show", "A-4501", "--field", "packages[0].package_type")
    assert done.returncode == 0, done.stderr
    assert [line.strip() for line in done.stdout.splitlines()[1:6]] == [
        'packages[0].package_type = "Drum"',
        'cell     acme_orders_2026-03.xlsx:Aufträge!K6 Verpackung: "TR"',
        "read     text, lookup package_types",
        "code     lookups/package_types.csv: code TR -> exchange Drum",
        f"by       mappings/acme-flat.yaml:{line} {{col: kind}}",
    ]
    assert "mapping acme-flat version 1, hash " in done.stdout


def test_a_name_means_all_its_places_and_a_constant_has_no_cell(night):
    (told,) = json.loads(loadsheet(night, "show", "A-4501", "--field", "weight", "--json").stdout)
    assert [value["field"] for value in told["values"]] == [
        "packages[0].weight",
        "packages[1].weight",
        "packages[2].weight",
    ]
    assert told["values"][0]["cells"][0]["read"] == "quantity, min 0.001, unit kg, locale de_DE"
    assert len(told["mapping_hash"]) == 64
    assert "from     the mapping, not from a cell" in loadsheet(night, "show", "A-4501", "--field", "sender_id").stdout


def test_a_field_that_is_not_there_is_said_with_a_proposal(night):
    done = loadsheet(night, "show", "A-4501", "--field", "delivery_pincod")
    assert done.returncode == 2
    assert "did you mean delivery_pincode?" in done.stderr
    refused = loadsheet(night, "show", "A-4506", "--field", "order_id")
    assert "has no record: " in refused.stderr


SMALL = """\
mapping: small
version: 1
target: order.delete
source: {files: "*.csv"}
columns: {order: {label: Order, required: true}}
payload:
  order_id: {col: order}
"""


def test_a_value_is_explained_by_the_folder_of_mappings_that_its_run_was_given(tmp_path):
    workspace = Workspace(tmp_path, mappings={"small": SMALL})
    (workspace / "mappings").rename(workspace / "maps")
    workspace.drop("in.csv", "Order\nA-1\n")
    workspace.run("--exchange", "embedded", "--mappings", "maps")
    shown = loadsheet(workspace, "show", "A-1", "--field", "order_id").stdout.splitlines()
    assert shown[-2] == "    by       maps/small.yaml:7 {col: order}"
    assert shown[-1].startswith("  mapping small version 1, hash "), (
        "the mapping of the run is today's: there is no note"
    )
    workspace.edit("maps/small.yaml", "version: 1", "version: 2")
    changed = loadsheet(workspace, "show", "A-1", "--field", "order_id").stdout
    assert "this is the mapping of the run: maps/small.yaml has changed since (now version 2" in changed
    (workspace / "other").mkdir()
    other = loadsheet(workspace, "show", "A-1", "--field", "order_id", "--mappings", "other").stdout
    assert "other has no mapping small today" in other, "a folder that is named counts"


def test_the_cell_under_a_repeated_heading_is_shown_and_not_the_first_of_its_name(tmp_path):
    text = SMALL.replace("order: {label: Order,", "order: {label: Order, aliases: [Nr], occurrence: 2,")
    workspace = Workspace(tmp_path, mappings={"small": text})
    workspace.drop("in.csv", "Nr,Nr\nX-1,A-1\n")
    preview = loadsheet(workspace, "mapping", "preview", "inbox/in.csv").stdout.splitlines()
    assert preview == ['A-1\torder_id\t"A-1"\tin.csv:2 Nr (2)\tOrder (2)\tA-1', "A-1\t\t\tin.csv:2 Nr\tNr\tX-1"]
    workspace.run("--exchange", "embedded")
    shown = loadsheet(workspace, "show", "A-1", "--field", "order_id").stdout
    assert '    cell     in.csv:2 Nr (2) Order (2): "A-1"' in shown


def test_after_the_mapping_changed_or_went_a_value_is_explained_by_the_mapping_of_its_run(night, tmp_path):
    shutil.copytree(night, tmp_path / "later")
    before = loadsheet(night, "show", "A-4501", "--field", "packages[0].package_type").stdout.splitlines()
    path = tmp_path / "later" / "mappings" / "acme-flat.yaml"
    path.write_text(path.read_text(encoding="utf-8").replace("version: 1", "version: 2"), encoding="utf-8")
    done = loadsheet(tmp_path / "later", "show", "A-4501", "--field", "packages[0].package_type")
    *_, note = done.stdout.splitlines()
    assert note.startswith("  this is the mapping of the run: ")
    assert "has changed since (now version 2" in note
    told = [line.replace("mappings/acme-flat.yaml", "acme-flat.yaml") for line in before]
    assert done.stdout.splitlines()[:-1] == told
    shutil.rmtree(tmp_path / "later" / "mappings")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LOADSHEET_MAPPINGS", str(tmp_path / "later" / "mappings"))
        gone = loadsheet(tmp_path / "later", "show", "A-4501", "--field", "packages[0].package_type")
    assert gone.stdout.splitlines()[:-1] == told
    assert "there is no such folder" in gone.stdout

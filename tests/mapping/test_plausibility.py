"""Plausibility checks: nothing of a file is sent if a column was read in the wrong notation; dates far from today are warnings, and so are
postal codes from a code table that lost their zeros.
"""

import json
import re
from datetime import UTC, datetime

import pytest
from command_in_process import loadsheet
from sheets import load_text, of_file

from loadsheet.cli import invoke
from loadsheet.mapping import Document
from loadsheet.mapping.documents import Source, SourceRow
from loadsheet.mapping.plausibility import DateRangeCheck, NotationCheck, PostcodeCheck, notation_order
from loadsheet.problems import Problem, Where
from loadsheet.reading import Native, Row, Table

MAPPING = """\
mapping: lanes
version: 1
target: tender.create
source: {{files: ["lanes*.csv"], locale: {locale}, dates: {dates}, timezone: Europe/Berlin}}
columns:
  no:     {{label: No, required: true, key: true}}
  pick:   {{label: Pick, type: datetime}}
  volume: {{label: Volume, type: decimal}}
payload:
  tender_id: {{col: no}}
  sender_id: {{value: A}}
  receiver_id: {{value: B}}
  tender_status: {{value: OPEN}}
  pickup_startdatetime: {{col: pick}}
  packages: {{each: rows, item: {{package_type: {{value: BOX}}, item_name: {{value: Box}}, volume: {{col: volume}}}}}}
"""
AMERICAN = {"locale": "en_US", "dates": '["%m/%d/%Y %H:%M"]'}
GERMAN = {"locale": "de_DE", "dates": '["%d.%m.%Y %H:%M", "%m/%d/%Y %H:%M"]'}


def house(folder, rows, *, locale, dates):
    """A folder with this mapping and an inbox with one file of these rows: (pick, volume)."""
    for name in ("mappings", "inbox"):
        (folder / name).mkdir()
    (folder / "mappings" / "lanes.yaml").write_text(MAPPING.format(locale=locale, dates=dates), encoding="utf-8")
    lines = [f"L{number};{pick};{volume}" for number, (pick, volume) in enumerate(rows, 1)]
    (folder / "inbox" / "lanes.csv").write_text("\n".join(["No;Pick;Volume", *lines, ""]), encoding="utf-8")
    return folder


@pytest.fixture
def checked(tmp_path, capfd):
    """What `check` in this process says of a file of these rows, and its exit code."""

    def check(rows, **manner):
        folder = house(tmp_path, rows, **manner)
        code = invoke(["check", str(folder / "inbox" / "lanes.csv"), "--mappings", str(folder / "mappings")])
        return code, capfd.readouterr().out

    return check


def states(folder):
    """How many entries a run left in which state, and the problems that say that the file is misread, as the report tells them."""
    done = loadsheet(folder, "run", "--settle", "0")
    (told,) = (folder / "outbox").glob("*/run.json")
    summary = json.loads(told.read_text(encoding="utf-8"))
    assert summary["balance"]["balances"], done.stderr
    return summary["balance"]["rows"], [problem for problem in summary["problems"] if problem["code"] == "L612"]


@pytest.mark.parametrize(
    ("manner", "rows", "proof", "found"),
    [
        (AMERICAN, [("03/04/2026 08:00", ""), ("13/04/2026 08:00", ""), ("04/04/2026 08:00", "")], "13/04/2026", "03/04/2026"),
        (GERMAN, [("04.03.2026 08:00", ""), ("04.13.2026 08:00", "")], "04.13.2026", "04.03.2026"),
        (AMERICAN, [("", "0,25"), ("", "1,125")], "0,25", "1,125"),
        (AMERICAN, [("", "12,5"), ("", "0,375"), ("", "1,125")], "12,5", "1,125"),
        (GERMAN, [("", "0.25"), ("", "1,125")], "0.25", "1,125"),
    ],
)  # fmt: skip
def test_nothing_goes_when_a_refused_value_proves_that_the_others_were_read_wrongly(
    checked, manner, rows, proof, found
):
    code, said = checked(rows, **manner)
    assert (code, "L612 error" in said) == (65, True), said
    assert f'"{proof}' in said
    assert f'such as "{found}' in said
    assert said.splitlines()[-1].startswith("0 documents could be sent")


def test_a_run_holds_what_was_read_wrongly_until_a_person_sends_it_all_the_same(tmp_path):
    folder = house(tmp_path, [("03/04/2026 08:00", ""), ("13/04/2026 08:00", "")], **AMERICAN)
    foretold = loadsheet(folder, "run", "--settle", "0", "--dry-run")
    assert "0 records would be sent" in foretold.stdout
    rows_told, misread = states(folder)
    assert (rows_told["held"] >= 1, "accepted" in rows_told, len(misread)) == (True, False, 1)
    assert loadsheet(folder, "retry", "--file", "lanes.csv").returncode == 0
    done = loadsheet(folder, "run", "--settle", "0")
    assert done.stdout.startswith("✗ 1 of 2 documents needs attention · 1 accepted"), done.stdout


@pytest.mark.parametrize(
    ("manner", "rows", "sent"),
    [
        # another value proves that the column is read as it is written: the refused one is the mistake
        (AMERICAN, [("03/04/2026 08:00", ""), ("13/04/2026 08:00", ""), ("03/31/2026 08:00", "")], 2),
        (AMERICAN, [("", "0,25"), ("", "1,125"), ("", "12.5")], 2),
        # nothing that was read means anything else
        (AMERICAN, [("04/04/2026 08:00", ""), ("13/04/2026 08:00", "")], 1),
        (AMERICAN, [("", "0,25"), ("", "12")], 1),
        # refused for another reason than how it is written
        (AMERICAN, [("03/04/2026 08:00", ""), ("99/99/2026 08:00", ""), ("", "heavy")], 1),
        (GERMAN, [("", "12,5 or so"), ("", "1.125")], 1),
        # each separator has an order of its own
        (GERMAN, [("13.04.2026 08:00", ""), ("03/04/2026 08:00", ""), ("04.05.2026 25:00", "")], 2),
        # both ways of reading were refused, so none was taken for the other
        ({**GERMAN, "locale": "fr_FR"}, [("", "1.5"), ("", "1.125"), ("", "7")], 1),
    ],
)  # fmt: skip
def test_what_is_only_a_wrong_value_holds_nothing_else(checked, manner, rows, sent):
    _, said = checked(rows, **manner)
    assert "L612" not in said
    assert re.match(rf"{sent} documents? could be sent", said.splitlines()[-1]), said


@pytest.mark.parametrize(
    ("text", "of", "order"),
    [
        ("13/04/2026 08:00", "/", "the day before the month"),
        ("04/13/26", "/", "the month before the day"),
        ("04/03/2026", "/", "either"),
        ("04/04/2026", "/", ""),  # the same day in both
        ("13.04.2026", "/", ""),
        ("13/14/2026", "/", ""),
        ("2026/04/13", "/", ""),
        ("12,5 kg", "", "a decimal comma"),
        ("1.234,5", "", "a decimal comma"),
        ("1,234.5", "", "a decimal point"),
        ("1,234", "", "either"),
        ("0,234", "", "a decimal comma"),
        ("1,234,567", "", ""),
        ("1,234,567.5", "", "a decimal point"),
        ("1.234.567,5", "", "a decimal comma"),
        ("1.234,567.8", "", ""),
        ("1,234.567,8", "", ""),
        ("12", "", ""),
    ],
)
def test_how_a_text_is_written(text, of, order):
    assert notation_order(text, of) == order


def test_only_texts_of_rows_that_count_show_that_a_column_is_misread():
    """Not a row that is left out, one that could not be read, or a typed cell."""
    told = []
    for row in (
        Row(3, ("1,125",)),
        Row(3, ("1,125",), ignored="totals"),
        Row(3, ("1,125",), Problem("R204", Where("lanes.csv"))),
        Row(3, (Native("1,125", "number"),)),
    ):
        table = Table("rows", "lanes.csv", "", ("Volume",), 1, {"volume": 0}, lambda row=row: iter((row,)), {})
        found = NotationCheck()
        found.add(Problem("C302", Where("lanes.csv", "", 2, "Volume"), "0,25", {"locale": "en_US"}))
        told.append(bool(found.problems({"rows": table})))
    assert told == [True, False, False, False]


# ---- dates far from the day of a run ----

DAY = datetime(2026, 3, 10, 12, tzinfo=UTC)
LINEAGE = {"pickup_startdatetime": (Source("rows", "pickup", "Pickup", "first"),)}
TABLE = Table("rows", "a.xlsx", "Data", ("Order", "Pickup"), 1, {}, lambda: iter(()), {})


def warnings_about(day, **bounds):
    row = SourceRow("rows", 2, ("A1", day))
    payload = json.dumps({"order_id": "A1", "pickup_startdatetime": f"{day} 08:00:00"}, separators=(",", ":"))
    document = Document("order.update", "A1", "order:A1", payload.encode(), "", (row,), ())
    far = DateRangeCheck.around(DAY, **{"years_back": 10, "years_ahead": 5} | bounds)
    (found,) = far.watch([document], LINEAGE, {"rows": TABLE})
    assert found.payload == document.payload
    return found.problems


@pytest.mark.parametrize("day", ["1899-12-31", "1900-01-01", "2016-03-09", "2031-03-11", "2206-03-01"])
def test_a_date_outside_the_bounds_is_a_warning_at_its_cell(day):
    (warning,) = warnings_about(day)
    assert (warning.code, warning.level, warning.where.cell, warning.found) == ("C318", "warning", "B2", day)
    assert day in warning.text


@pytest.mark.parametrize("day", ["2016-03-10", "2026-03-10", "2031-03-10"])
def test_a_date_within_the_bounds_is_silent(day):
    assert warnings_about(day) == ()


def test_a_bound_of_no_years_is_none():
    assert warnings_about("1900-01-01", years_back=0) == ()
    assert warnings_about("2999-01-01", years_ahead=0) == ()


def test_the_29_of_february_has_bounds_too():
    leap = datetime(2028, 2, 29, tzinfo=UTC)
    assert DateRangeCheck.around(leap, years_back=1, years_ahead=1) == DateRangeCheck("2027-02-29", "2029-02-29")


def test_check_folds_them_by_column(tmp_path, capfd):
    rows = [("1900-01-01", ""), ("2999-01-01", ""), ("", "")]
    folder = house(tmp_path, rows, locale="en_GB", dates='["%Y-%m-%d"]')
    lanes, mappings = str(folder / "inbox" / "lanes.csv"), str(folder / "mappings")
    assert invoke(["check", lanes, "--mappings", mappings, "--json"]) == 0
    told = json.loads(capfd.readouterr().out)
    assert [(cause["code"], cause["column"], cause["count"]) for cause in told["causes"]] == [("C318", "Pick", 2)]
    assert told["usable"] == 3


# ---- postal codes from a code table ----

SITES = "code,zip,country\nA,1067,DE\nB,04109,DE\nC,8001,CH\nD,501,US\nE,SW1A,GB\nF,1067,Germany\nG,10,DE\n"
POSTCODES = """\
mapping: sites
version: 1
target: tender.create
source: {files: "*.csv", locale: en_GB}
columns:
  no:   {label: No, required: true, key: true}
  site: {label: Site, lookup: sites}
  zip:  {label: Zip}
lookups:
  sites: {file: sites.csv, key: code, value: [zip, country]}
payload:
  tender_id: {col: no}
  sender_id: {value: A}
  receiver_id: {value: B}
  tender_status: {value: OPEN}
  pickup_pincode: {col: site.zip}
  pickup_country: {col: site.country}
  delivery_pincode: {col: zip}
  delivery_country: {value: DE}
  packages: {each: rows, item: {package_type: {value: BOX}, item_name: {value: Box}}}
"""


def postcode_warnings(folder, *rows, text=POSTCODES):
    mapping = load_text(folder, text, sites=SITES)
    check = PostcodeCheck.of(mapping.lineage, mapping.plan.tables)
    tables, found = of_file(mapping, csv_of(folder, "No,Site,Zip", *rows))
    return [
        [
            (problem.code, problem.level, problem.where.column, problem.where.path, problem.found)
            for problem in document.problems
        ]
        for document in check.watch(found, mapping.lineage, tables)
    ]


def test_a_postal_code_from_a_code_table_that_lost_its_zeros_is_a_warning_at_its_cell(tmp_path):
    found = postcode_warnings(tmp_path, *(f"T{code},{code},1067" for code in "ABCDEFG"))
    warned = [[("C319", "warning", "Site", "pickup_pincode", code)] if code in "ADF" else [] for code in "ABCDEFG"]
    assert found == warned, "the damage checks warn of the column Zip, which no code table fills"


def test_a_postal_code_is_checked_if_a_code_table_gives_its_country(tmp_path):
    text = POSTCODES.replace("delivery_country: {value: DE}", "delivery_country: {col: site.country}")
    text = text.replace("  pickup_pincode: {col: site.zip}\n", "")
    found = postcode_warnings(tmp_path, "T1,B,1067", "T2,B,01067", "T3,C,1067", "T4,,1067", text=text)
    assert found == [[("C319", "warning", "Zip", "delivery_pincode", "1067")], [], [], []]


def test_a_postal_code_in_a_list_has_its_place_too(tmp_path):
    carriers = """  involved_carriers:
    list:
      - {carrier_company: {value: One}, country: {value: DE}, pincode: {value: "01067"}}
      - {carrier_company: {value: Two}, country: {col: site.country}, pincode: {col: site.zip}}
"""
    text = POSTCODES.replace("  pickup_pincode: {col: site.zip}\n", carriers)
    (found,) = postcode_warnings(tmp_path, "T1,A,01067", text=text)
    assert found == [("C319", "warning", "Site", "involved_carriers[1].pincode", "A")]


EVENTS = """
mapping: events
version: 1
target: order.status
source: {files: "*.csv", locale: en_GB, timezone: Europe/Berlin, shared: true}
columns: {no: {label: No}}
payload: {order_id: {col: no}, status_code: {value: DEP}, status_datetime: {value: "2026-03-01T10:00:00"}}
"""


@pytest.mark.parametrize("is_shared", [False, True])
def test_check_warns_of_postal_codes_from_a_code_table(tmp_path, capfd, is_shared):
    (tmp_path / "mappings").mkdir()
    text = POSTCODES.replace("locale: en_GB}", "locale: en_GB, shared: true}") if is_shared else POSTCODES
    (tmp_path / "mappings" / "sites.yaml").write_text(text, encoding="utf-8")
    if is_shared:
        (tmp_path / "mappings" / "events.yaml").write_text(EVENTS, encoding="utf-8")
    (tmp_path / "mappings" / "sites.csv").write_text(SITES, encoding="utf-8")
    path = csv_of(tmp_path, "No,Site,Zip", "T1,A,01067", "T2,B,01067")
    assert invoke(["check", str(path), "--mappings", str(tmp_path / "mappings")]) == 0
    said = capfd.readouterr().out
    assert "C319 warning" in said
    assert "the postal code 1067 of DE has 4 digits instead of 5" in said


def csv_of(folder, *lines):
    path = folder / "sites_1.csv"
    path.write_text("\n".join([*lines, ""]), encoding="utf-8")
    return path

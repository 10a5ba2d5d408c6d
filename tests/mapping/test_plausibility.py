"""Plausibility checks: nothing of a file is sent if a column was read in the wrong notation; dates far from today are warnings, and so are
lines that are pasted twice and postal codes from a code table that lost their zeros.
"""

import json
import re
from datetime import UTC, datetime

import pytest
from sheets import load_text, of_text

from loadsheet.cli import invoke
from loadsheet.mapping.documents import Document, Source, SourceRow
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
AMERICAN = MAPPING.format(locale="en_US", dates='["%m/%d/%Y %H:%M"]')
GERMAN = MAPPING.format(locale="de_DE", dates='["%d.%m.%Y %H:%M", "%m/%d/%Y %H:%M"]')
FRENCH = GERMAN.replace("de_DE", "fr_FR")
ENGLISH = MAPPING.format(locale="en_GB", dates='["%Y-%m-%d"]')
GROUPED = ENGLISH.replace("payload:", "group: {by: [no]}\npayload:")


def dated(*days):
    """The lines of a file with these days at eight o'clock."""
    return ["No;Pick;Volume", *(f"L{number};{day} 08:00;" for number, day in enumerate(days))]


def measured(*volumes):
    return ["No;Pick;Volume", *(f"L{number};;{volume}" for number, volume in enumerate(volumes))]


@pytest.fixture
def checked(workspace, capfd):
    """What `check` in this process says of a file of these lines, and its exit code."""

    def check(text, lines, *options, **files):
        workspace.use({"m": text, **files.pop("mappings", {})})
        for name, content in files.items():
            (workspace.folder / "mappings" / f"{name}.csv").write_text(content, encoding="utf-8")
        path = workspace.folder / "lanes.csv"
        path.write_text("\n".join([*lines, ""]), encoding="utf-8")
        code = invoke(["check", str(path), "--mappings", str(workspace.folder / "mappings"), *options])
        return code, capfd.readouterr().out

    return check


@pytest.mark.parametrize(
    ("text", "lines", "proof", "found"),
    [
        (AMERICAN, dated("03/04/2026", "13/04/2026", "04/04/2026"), "13/04/2026", "03/04/2026"),
        (GERMAN, dated("04.03.2026", "04.13.2026"), "04.13.2026", "04.03.2026"),
        (AMERICAN, measured("0,25", "1,125"), "0,25", "1,125"),
        (AMERICAN, measured("12,5", "0,375", "1,125"), "12,5", "1,125"),
        (GERMAN, measured("0.25", "1,125"), "0.25", "1,125"),
    ],
)
def test_nothing_goes_when_a_refused_value_proves_that_the_others_were_read_wrongly(checked, text, lines, proof, found):
    code, said = checked(text, lines)
    assert (code, "L612 error" in said) == (65, True), said
    assert f'"{proof}' in said
    assert f'such as "{found}' in said
    assert said.splitlines()[-1].startswith("0 documents could be sent")


def test_a_run_holds_what_was_read_wrongly_until_a_person_sends_it_all_the_same(workspace):
    workspace.use({"lanes": AMERICAN})
    workspace.drop("lanes.csv", "\n".join([*dated("03/04/2026", "13/04/2026"), ""]))
    assert "0 records would be sent" in workspace.run("--dry-run").stdout
    workspace.run()
    summary = workspace.run_json()
    assert summary["balance"]["balances"]
    assert summary["balance"]["rows"]["held"] >= 1
    assert "accepted" not in summary["balance"]["rows"]
    assert [problem["code"] for problem in summary["problems"]].count("L612") == 1
    assert workspace.command("retry", "--file", "lanes.csv").returncode == 0
    done = workspace.run()
    assert done.stdout.startswith("✗ 1 of 2 documents needs attention · 1 accepted"), done.stdout


@pytest.mark.parametrize(
    ("text", "lines", "sent"),
    [
        # another value proves that the column is read as it is written: the refused one is the mistake
        (AMERICAN, dated("03/04/2026", "13/04/2026", "03/31/2026"), 2),
        (AMERICAN, measured("0,25", "1,125", "12.5"), 2),
        # nothing that was read means anything else
        (AMERICAN, dated("04/04/2026", "13/04/2026"), 1),
        (AMERICAN, measured("0,25", "12"), 1),
        # refused for another reason than how it is written
        (AMERICAN, [*dated("03/04/2026", "99/99/2026"), "L9;;heavy"], 1),
        (GERMAN, measured("12,5 or so", "1.125"), 1),
        (AMERICAN, measured("12.5O m3", "12.5O", "12"), 1),
        # each separator has an order of its own
        (GERMAN, [*dated("13.04.2026", "03/04/2026"), "L9;04.05.2026 25:00;"], 2),
        # both ways of reading were refused, so none was taken for the other
        (FRENCH, measured("1.5", "1.125", "7"), 1),
    ],
)
def test_what_is_only_a_wrong_value_holds_nothing_else(checked, text, lines, sent):
    _, said = checked(text, lines)
    assert "L612" not in said
    assert re.match(rf"{sent} documents? could be sent", said.splitlines()[-1]), said


def test_how_a_text_is_written():
    dates = {
        "13/04/2026 08:00": "the day before the month", "04/13/26": "the month before the day", "04/03/2026": "either",
        "04/04/2026": "",  # the same day in both
        "13.04.2026": "", "13/14/2026": "", "2026/04/13": "",
    }  # fmt: skip
    numbers = {
        "12,5 kg": "a decimal comma", "1.234,5": "a decimal comma", "0,234": "a decimal comma", "1.234.567,5": "a decimal comma",
        "1,234.5": "a decimal point", "1,234,567.5": "a decimal point", "1,234": "either",
        "1,234,567": "", "1.234,567.8": "", "1,234.567,8": "", "12": "",
    }  # fmt: skip
    assert {text: notation_order(text, "/") for text in dates} == dates
    assert {text: notation_order(text, "") for text in numbers} == numbers


def test_only_texts_of_rows_that_count_show_that_a_column_is_misread():
    """Not a row that is left out, one that could not be read, or a typed cell."""
    rows = [
        (Row(3, ("1,125",)), True),
        (Row(3, ("1,125",), ignored="totals"), False),
        (Row(3, ("1,125",), Problem("R204", Where("lanes.csv"))), False),
        (Row(3, (Native("1,125", "number"),)), False),
    ]
    for row, is_proof in rows:
        table = Table("rows", "lanes.csv", "", ("Volume",), 1, {"volume": 0}, lambda row=row: iter((row,)), {})
        found = NotationCheck()
        found.add(Problem("C302", Where("lanes.csv", "", 2, "Volume"), "0,25", {"locale": "en_US"}))
        assert bool(found.problems({"rows": table})) is is_proof


# ---- dates far from the day of a run ----

DAY = datetime(2026, 3, 10, 12, tzinfo=UTC)
PICKUP = (Source("rows", "pickup", "Pickup", "first"),)
DELIVERY = (Source("rows", "delivery", "Delivery", "first"),)
LINEAGE = {"pickup_startdatetime": PICKUP, "pickup_enddatetime": PICKUP, "delivery_enddatetime": DELIVERY}
TABLE = Table("rows", "a.xlsx", "Data", ("Order", "Pickup", "Delivery"), 1, {}, lambda: iter(()), {})


def warnings_about(day, delivered="", **bounds):
    record = {"order_id": "A1", "pickup_startdatetime": f"{day} 08:00:00", "pickup_enddatetime": f"{day} 12:00:00"}
    record |= {"delivery_enddatetime": f"{delivered} 06:00:00"} if delivered else {}
    payload = json.dumps(record, separators=(",", ":")).encode()
    document = Document(
        "order.update", "A1", "order:A1", payload, "", (SourceRow("rows", 2, ("A1", day, delivered)),), ()
    )
    far = DateRangeCheck.around(DAY, **{"years_back": 10, "years_ahead": 5} | bounds)
    (found,) = far.watch([document], LINEAGE, {"rows": TABLE})
    assert found.payload == document.payload
    return found.problems


@pytest.mark.parametrize("day", ["1899-12-31", "1900-01-01", "2016-03-09", "2031-03-11", "2206-03-01"])
def test_a_date_outside_the_bounds_is_one_warning_at_its_cell(day):
    (warning,) = warnings_about(day)
    assert (warning.code, warning.level, warning.where.cell, warning.found) == ("C318", "warning", "B2", day)
    assert day in warning.text


def test_a_date_within_the_bounds_is_silent():
    assert [warnings_about(day) for day in ("2016-03-10", "2026-03-10", "2031-03-10")] == [()] * 3
    assert warnings_about("1900-01-01", years_back=0) == (), "no years are no bound"
    assert warnings_about("2999-01-01", years_ahead=0) == ()
    leap = datetime(2028, 2, 29, tzinfo=UTC)
    assert DateRangeCheck.around(leap, years_back=1, years_ahead=1) == DateRangeCheck("2027-02-29", "2029-02-29")


def test_a_delivery_that_ends_on_a_day_before_its_pickup_is_a_warning_at_its_cell():
    (warning,) = warnings_about("2026-03-10", "2026-03-09")
    assert (warning.code, warning.level, warning.where.cell, warning.found) == ("C324", "warning", "C2", "2026-03-09")
    assert warning.text == "the delivery ends on 2026-03-09, before the pickup on 2026-03-10"
    assert warnings_about("2026-03-10", "2026-03-10") == (), "times are not compared"
    assert [one.code for one in warnings_about("2026-03-10", "1926-03-11")] == ["C318"], "one cell, one warning"


def test_check_folds_them_by_column(checked):
    code, said = checked(ENGLISH, ["No;Pick;Volume", "1;1900-01-01;", "2;2999-01-01;", "3;;"], "--json")
    report = json.loads(said)
    assert [(cause["code"], cause["column"], cause["count"]) for cause in report["causes"]] == [("C318", "Pick", 2)]
    assert (code, report["usable"]) == (0, 3)


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
PICKUP = "  pickup_pincode: {col: site.zip}\n"
BY_TABLE = POSTCODES.replace(PICKUP, "").replace(
    "delivery_country: {value: DE}", "delivery_country: {col: site.country}"
)
CARRIERS = """  involved_carriers:
    list:
      - {carrier_company: {value: One}, country: {value: DE}, pincode: {value: "01067"}}
      - {carrier_company: {value: Two}, country: {col: site.country}, pincode: {col: site.zip}}
"""


def lines_of(orders, *, numbered=True):
    """Two lines of each order, one after the other."""
    rows = [(f"L{order}", line) for line in (1, 2) for order in range(orders)]
    return ["No;Line;Pick;Volume", *(f"{order};{10 * line if numbered else ''};;{line}.5" for order, line in rows)]


def test_a_numbered_line_that_is_pasted_twice_is_a_warning(checked):
    lines = lines_of(10)
    pasted = [*lines, lines[12], lines[4], lines[4]]
    code, said = checked(GROUPED, pasted, "--json")
    (warning,) = [one for one in json.loads(said)["problems"] if one["code"] == "R251"]
    assert (code, warning["level"], warning["found"], warning["where"]["row"]) == (0, "warning", "20", 22)
    assert warning["where"]["column"] == "Line"
    assert warning["values"] == {"count": 3, "rows": "rows 22, 23, 24"}
    incomplete = [*pasted, "L0;;;3.5;x", "L1;;;wrong"]
    assert "R251" in checked(GROUPED, incomplete)[1], "records with wrong rows do not say how lines are numbered"
    assert "lines of one record are equal in every column (rows 22, 23, 24)" in checked(GROUPED, pasted)[1]


def orders_of(count):
    """Two lines of each order, of no number, next to each other."""
    return ["No;Line;Pick;Volume", *(f"L{order};;;{line}.5" for order in range(count) for line in (1, 2))]


@pytest.mark.parametrize(
    ("lines", "rows"),
    [
        pytest.param([*orders_of(49)[:21], "L9;;;2.5", *orders_of(50)[21:]], "row 22", id="one of 101 lines"),
        pytest.param([*lines_of(50, numbered=False), "L3;;;1.5"], "row 102", id="one of 101 lines, not sorted"),
        pytest.param([*orders_of(8), "L3;;;1.5", "L3;;;2.5"], "rows 18, 19", id="an order pasted below"),
        pytest.param([*orders_of(8), *orders_of(8)[1:]], "rows 18, 19, 20, 21, 22 and 11 more", id="all pasted twice"),
    ],
)
def test_a_line_without_a_number_is_a_warning_if_copies_are_rare_or_stand_apart(checked, lines, rows):
    code, said = checked(GROUPED, lines, "--json")
    (warning,) = [one for one in json.loads(said)["problems"] if one["code"] == "R251"]
    assert (code, warning["values"]["rows"]) == (0, rows)
    assert f"lines of one record are equal in every column ({rows})" in checked(GROUPED, lines)[1]


@pytest.mark.parametrize(
    "lines",
    [
        pytest.param([*orders_of(49), "L48;;;2.5"], id="one of 99 lines"),
        pytest.param(
            [line for line in orders_of(200) for _ in range(1 + line.startswith("L1"))],
            id="equal parcels of some orders",
        ),
        pytest.param([*lines_of(10, numbered=False), "L3;;;1.5", "L4;;;2.5"], id="equal parcels"),
        pytest.param([*lines_of(10), "L3;30;;2.5"], id="another number"),
        pytest.param([*lines_of(10), "L3;20;;2.5", "L7;1;;2.5"], id="numbers that do not ascend everywhere"),
        pytest.param([*lines_of(10), "L3;20;;2.5", f"L7;{'9' * 5000};;2.5"], id="a number that is none"),
        pytest.param([*lines_of(7), "L3;20;;2.5"], id="too few lines to know"),
        pytest.param(["No;;Pick;Volume", *lines_of(10)[1:], "L3;20;;2.5"], id="a column without a heading"),
    ],
)
def test_equal_lines_that_may_be_meant_are_no_warning(checked, lines):
    problems = json.loads(checked(GROUPED, lines, "--json")[1])["problems"]
    assert [one["code"] for one in problems if one["code"] == "R251"] == []


@pytest.mark.parametrize(
    ("text", "row", "warned"),
    [
        # the damage checks warn of the column Zip, which no code table fills
        *(
            (POSTCODES, f"{code},1067", ("Site", "pickup_pincode", code) if code in "ADF" else None)
            for code in "ABCDEFG"
        ),
        # or if a code table gives its country
        (BY_TABLE, "B,1067", ("Zip", "delivery_pincode", "1067")),
        (BY_TABLE, "B,01067", None),
        (BY_TABLE, "C,1067", None),
        (BY_TABLE, ",1067", None),
        (POSTCODES.replace(PICKUP, CARRIERS), "A,01067", ("Site", "involved_carriers[1].pincode", "A")),
    ],
)
def test_a_postal_code_from_a_code_table_that_lost_its_zeros_is_a_warning_at_its_cell(tmp_path, text, row, warned):
    mapping = load_text(tmp_path, text, sites=SITES)
    documents = of_text(mapping, tmp_path, f"No,Site,Zip\nT1,{row}\n")
    tables = {"rows": Table("rows", "a.csv", "", ("No", "Site", "Zip"), 1, {}, lambda: iter(()), {})}
    (document,) = PostcodeCheck.of(mapping.lineage, mapping.plan.tables).watch(documents, mapping.lineage, tables)
    found = [(one.code, one.level, one.where.column, one.where.path, one.found) for one in document.problems]
    assert found == ([("C319", "warning", *warned)] if warned else [])


@pytest.mark.parametrize(
    ("codes", "warned"),
    [
        (["1067", "1069", "4109"], ("rows", "Zip", "1067")),
        (["1067", "", "501"], ("rows", "Zip", "1067")),
        (["11"], None),  # too few digits to have lost only zeros
        (["1067", "20095"], ("rows", "Zip", "1067")),
        (["20095", "1067"], ("rows", "Zip", "1067")),
        (["20095", "01067"], None),
        (["01067"], None),
        (["106"], ("rows", "Zip", "106")),
    ],
)
def test_a_column_of_postal_codes_that_have_lost_their_zeros_is_one_warning(tmp_path, codes, warned):
    mapping = load_text(
        tmp_path, BY_TABLE.replace("site.country}", "site}").replace("lookup: sites", "type: country"), sites=SITES
    )
    rows = "".join(f"T{number},DE,{code}\n" for number, code in enumerate(codes))
    check = PostcodeCheck.of(mapping.lineage, mapping.plan.tables)
    tables = {"rows": Table("rows", "a.csv", "", ("No", "Site", "Zip"), 1, {}, lambda: iter(()), {})}
    documents = list(check.watch(of_text(mapping, tmp_path, f"No,Site,Zip\n{rows}"), mapping.lineage, tables))
    assert [document.problems for document in documents] == [()] * len(codes)
    found = [("rows", one.where.column, one.found) for one in check.problems("rows") if one.code == "C319"]
    assert found == ([warned] if warned else [])
    assert [*check.problems("others")] == []


@pytest.mark.parametrize(
    ("rows", "codes"),
    [
        (["AT,1010", "DE,10115", "PL,90001", "DE,4109", "AT,4020", "DE,1067"], ["C319"]),  # several countries
        ([*(f"DE,{code}" for code in range(10115, 10145)), "DE,4109"], ["R223"]),  # one country: said once
        (["AT,1010", "DE,10115", "CH,8001"], []),
    ],
)
def test_short_postal_codes_are_one_warning_of_a_file_whatever_other_countries_it_has(checked, rows, codes):
    text = BY_TABLE.replace("site.country}", "site}").replace("lookup: sites", "type: country")
    lines = ["No,Site,Zip", *(f"T{number},{row}" for number, row in enumerate(rows))]
    _, said = checked(text, lines, sites=SITES)
    assert re.findall("C319|R223", said) == codes


EVENTS = """
mapping: events
version: 1
target: order.status
source: {files: "*.csv", locale: en_GB, timezone: Europe/Berlin, shared: true}
columns: {no: {label: No}}
payload: {order_id: {col: no}, status_code: {value: DEP}, status_datetime: {value: "2026-03-01T10:00:00"}}
"""


@pytest.mark.parametrize("is_shared", [False, True])
def test_check_warns_of_postal_codes_from_a_code_table(checked, is_shared):
    text = POSTCODES.replace("locale: en_GB}", "locale: en_GB, shared: true}") if is_shared else POSTCODES
    others = {"events": EVENTS} if is_shared else {}
    code, said = checked(text, ["No,Site,Zip", "T1,A,01067", "T2,B,01067"], mappings=others, sites=SITES)
    assert code == 0
    assert "C319 warning" in said
    assert "the postal code 1067 of DE has 4 digits instead of 5" in said

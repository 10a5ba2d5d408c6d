"""Whatever is wrong with a mapping file is refused at load, with its line and what to write instead (M1, M2, M3)."""

from functools import partial

import pytest
import sheets
from pydantic import BaseModel
from sheets import ASSUMED, EXAMPLES, example_text, load_text

from loadsheet.contract import Assumptions
from loadsheet.errors import MappingError
from loadsheet.mapping.compile import lint
from loadsheet.mapping.yamlfile import YamlFile, read_part

GOOD = example_text("everything").replace("lookups/", "")
STATES = (EXAMPLES / "lookups" / "states.csv").read_text(encoding="utf-8")
findings = partial(sheets.findings, states=STATES)


LISTED = "pickup_startdatetime: {col: pickup}"
WEIGHT = "weight:       {col: weight}"


@pytest.mark.parametrize(
    ("old", "new", "assumptions"),
    [
        ("", "", ASSUMED),
        (WEIGHT, "weight: {expr: 'weight * 1000'}\n      weight_uom: {value: G}", ASSUMED),
        (WEIGHT, f"{WEIGHT}\n      weight_uom: {{value: furlongs of ours}}", ASSUMED),
        (LISTED, "tender_expiration: {value: x}", Assumptions(listing_only_fields="accept")),
        (LISTED, "timezone: {value: Berlin}", Assumptions(timezones="any")),
    ],
)
def test_what_is_right_or_allowed_by_the_assumptions_is_not_refused(tmp_path, old, new, assumptions):
    assert findings(tmp_path, GOOD.replace(old, new), assumptions) == []


# what is changed -> the whole finding: file:line:column: text (hint)
CHANGES = {
    "version: 1\n": {
        "version: one\n": "m.yaml:2:10: version: must be a whole number, found one",
        "version: 0\n": "m.yaml:2:10: version: must be greater than 0, found 0",
        "version: 01\n": 'm.yaml:2:10: this number would lose its leading zero: 01 (write "01")',
        "": 'm.yaml:1:1: the key "version" is missing',
        "version: 1\nversoin: 2\n": 'm.yaml:3:1: unknown key "versoin" (did you mean version?)',
        "version: 1\nignore_rows: 'kind == null'\n": 'm.yaml:3:1: unknown key "ignore_rows" (write it under source.tables.NAME)',
        "version: 1\nlookup: states\n": 'm.yaml:3:1: unknown key "lookup" (did you mean lookups? Otherwise write it under columns.NAME)',
        "version: 1\nversion: 2\n": 'm.yaml:3:1: duplicate key "version" (first used in line 2)',
        "version: 1\n<<: {a: 1}\n": "m.yaml:3:1: merge keys (<<) are not part of the format (write the keys out)",
        "version: 1\n7: x\n": 'm.yaml:3:1: a key must be a text, found 7 (write "7")',
        "version: !!python/object:os.system x\n": 'm.yaml:2:10: the tag python/object:os.system is not allowed: x (write "x")',
        f"version: 0x{'f' * 99}\n": "m.yaml:2:10: a number of 101 characters; the limit is 100",
        f"version: {'9' * 5_000}\n": "m.yaml:2:10: a number of 5,000 characters; the limit is 100",
        "version: [1\n": "m.yaml:3:7: not YAML: did not find expected ',' or ']' (close the bracket or the quotes, here or in the line above; a text with a colon, comma or quote needs quotes)",
        "version: %1\n": "m.yaml:2:10: not YAML: found character that cannot start any token (write a text that begins with % in quotes)",
        "version: a: 1\n": "m.yaml:2:11: not YAML: mapping values are not allowed in this context (a text with a colon needs quotes, and all keys of a section begin in the same column)",
        "version: 1\n note: x\n": "m.yaml:3:6: not YAML: mapping values are not allowed in this context (a text with a colon needs quotes, and all keys of a section begin in the same column)",
        "\tversion: 1\n": "m.yaml:2:1: not YAML: found a tab character that violates indentation (begin each line with ordinary spaces, not with tabs or no-break spaces)",
        "version: 1\ndescription: \u201cx\u201d\n": 'm.yaml:3:14: these quotes are part of the text: \u201cx\u201d (write "x")',
        "version: *\n": 'm.yaml:2:11: not YAML: did not find expected alphabetic or numeric character (write a star in quotes: "*")',
    },
    "target: tender.create": {
        "target: tender.crate": 'm.yaml:3:9: "tender.crate" is not an operation (did you mean tender.create?)',
        "target: order.list": 'm.yaml:3:9: "order.list" is not an operation (did you mean order.upsert?)',
    },
    '["everything*.csv"]': {
        '["everything*.csv", " "]': "m.yaml:5:30: a file name pattern is blank (such as orders_*.csv)",
        '["../x.csv"]': 'm.yaml:5:11: "../x.csv" cannot match a file in the inbox (patterns are relative to the inbox, such as nordic/*.csv)',
    },
    "locale: de_DE": {
        "locale: xx_YY": "m.yaml:6:11: locale xx_YY is not known (such as de_DE or en_GB)",
        "locale: de_DE\n  order: [a]": 'm.yaml:7:3: unknown key "order" (write it at the top level of the file)',
        "locale: 5": 'm.yaml:6:11: locale takes a text, found 5 (write "5")',
    },
    'dates: ["%d.%m.%Y %H:%M"]': {
        'dates: ["dd.mm.yyyy hh:mm"]': "m.yaml:7:10: invalid date format: dd.mm.yyyy hh:mm has no directive: write %d.%m.%Y %H:%M",
        'dates: ["%d/%m/%Y", "%m/%d/%Y"]': "m.yaml:7:10: invalid date format: %d/%m/%Y and %m/%d/%Y read 04/05/2003 as different dates",
    },
    "timezone: Europe/Berlin": {
        "timezone: Europe/Berlyn": 'm.yaml:8:13: "Europe/Berlyn" is not the name of a time zone (did you mean Europe/Berlin?)',
        "timezone: {col: zone, default: Europe/Berlin}": 'm.yaml:8:19: rows has no column "zone"',
        "fold: none": "m.yaml:8:9: fold: none is not one of error, first, second",
    },
    "ignore_rows: 'tender == null'": {
        "ignore_rows: 'tendre == null'": 'm.yaml:10:26: "tendre" is neither a column nor a table here (did you mean tender?)',
        "join: {to: orders, on: {a: b}}": "m.yaml:9:3: exactly one table must be the main table, without a join; every table is joined to another",
    },
    "{label: Tender, type: text, required: true, key: true}": {
        "{label: Tender, type: txt}": "m.yaml:12:33: type: txt is not one of text, integer, decimal, quantity, date, time, datetime, country, currency, yesno, timezone (did you mean text?)",
        "{label: Tender, from_set: true}": "m.yaml:12:37: rows has no sets (write sets: under source.tables)",
        "{label: Tender, above: Kind}": "m.yaml:12:27: above is for tables with a kind",
        "{label: Tender, unit: kg}": "m.yaml:12:27: unit does not apply to type text",
        "{label: 2026-03-01}": 'm.yaml:12:19: an unquoted date is not allowed: 2026-03-01 (write "2026-03-01")',
        "{label: 01067}": 'm.yaml:12:19: this number would lose its leading zero: 01067 (write "01067")',
        "{label: Tender, pattern: '(?=a)'}": "m.yaml:12:36: pattern: look-around and back references are not supported",
        "{label: Tender, pattern: '(a)\\1'}": "m.yaml:12:36: pattern: look-around and back references are not supported",
        "{label: Tender, pattern: '('}": "m.yaml:12:36: pattern: invalid pattern: missing ): (",
        "{label: Tender, pattern: 'a{2000}'}": "m.yaml:12:36: pattern: invalid pattern: invalid repetition size: {2000}",
        "{label: Tender, split: '(?P<a'}": "m.yaml:12:34: split: invalid pattern: invalid named capture group: (?P<a",
        "{label: Tender, one_of: {A: 1}}": 'm.yaml:12:39: A takes a text, found 1 (write "1")',
        "{label: Tender, one_of: {P: a, p: b}, ignore_case: true}": "m.yaml:12:35: P and p are the same code here but mean a and b (ignore_case: true ignores capitals)",
        "{label: Tender, one_of: [P, p], ignore_case: true}": "m.yaml:12:35: P and p are the same code here but mean P and p (ignore_case: true ignores capitals)",
        "{label: Tender, one_of: {'P ': a, P: b}}": "m.yaml:12:35: P  and P are the same code here but mean a and b (remove one of them)",
        "{label: Tender, type: yesno, yes: x, no: X}": "m.yaml:12:52: x means yes and X means no, but capitals are ignored (list different words under yes: and no:)",
        "{label: Tender, type: yesno, yes: [x, Nein]}": "m.yaml:12:45: Nein means yes and nein (the usual words) means no, but capitals are ignored (list different words under yes: and no:)",
        "{label: Tender, type: timezone, one_of: {ET: New York}}": "m.yaml:12:51: one_of: New York is not the name of a time zone (such as America/New_York)",
        "{label: Tender, type: timezone, ignore_case: true}": "m.yaml:12:43: ignore_case needs one_of (it compares the cell with the codes of one_of)",
        "{label: Tender, type: timezone, blank: [ET], one_of: {ET: UTC}}": 'm.yaml:12:56: "ET" is also listed under blank, so no cell can have this value (remove it from one of the two)',
        "{label: Tender, type: country, one_of: [A]}": "m.yaml:12:42: one_of does not apply to type country",
        "{label: Tender, lookup: states, split: '(?P<no>.).*'}": "m.yaml:12:43: lookup states gives several values, but split needs one text (name one value)",
        "{label: Tender, pad_left: {to: 3, when: 'kind != null'}, split: '(?P<item>.).*'}": "m.yaml:12:68: split cannot be combined with pad_left.when (pad the part instead)",
        "{label: Tender, split: '(?P<item>.).*'}\n  no: {part_of: tender, split: '(?P<kind>.).*'}": "m.yaml:13:25: a part of a split cannot be split again (name all parts at tender)",
        "{label: Tender, lookup: states, one_of: [a]}": "m.yaml:12:43: one_of and lookup cannot be combined (keep one of them)",
        "{label: Tender, case: upper, one_of: [a, B]}": "m.yaml:12:40: no cell can match a after case (change the codes)",
        "{label: Tender, max_length: 2, one_of: [a, abc]}": "m.yaml:12:42: no cell can match abc after max_length (change the codes)",
        '{label: Tender, blank: ["-"], one_of: ["-", b]}': 'm.yaml:12:41: "-" is also listed under blank, so no cell can have this value (remove it from one of the two)',
        "{label: Tender, ignore_case: true}": "m.yaml:12:27: ignore_case needs one_of (it compares the cell with the codes of one_of)",
        "{label: Tender, on_too_long: cut_and_warn}": "m.yaml:12:27: on_too_long needs max_length",
        "{label: Tender, pad_left: {to: 5}, max_length: 3}": "m.yaml:12:46: pad_left pads to 5 characters, but max_length is 3 (no value fits)",
        "{label: Tender, min_length: 3, max_length: 2}": "m.yaml:12:54: max_length: 2 is less than min_length: 3 (no value fits)",
        "{label: Tender, control_total: true}": 'm.yaml:12:27: unknown key "control_total" (remove it: the reports total packages, weights, volumes and goods values of all records)',
        "{label: Tender, type: integer, default: x}": "m.yaml:12:51: default x is not a value of this column (write it like 12)",
    },
    "type: text, lookup: states": {
        "type: text, lookup: sates": 'm.yaml:13:46: there is no lookup "sates" (did you mean states?)',
        "type: text, lookup: states, pad_left: {to: 5, with: 0}": 'm.yaml:13:78: with takes a text, found 0 (write "0")',
    },
    "type: quantity, unit: kg": {
        "type: quantity, unit: kgg": "m.yaml:17:49: unit: kgg is not a known unit (did you mean kg?)",
        "type: quantity, unit: kg, from_unit: cm": "m.yaml:17:64: cm and kg measure different things",
        "type: quantity, unit: kg, min: 5, max: 4": "m.yaml:17:66: max: 4 is less than min: 5 (no value fits)",
        "type: quantity": "m.yaml:17:33: quantity needs a unit (such as unit: kg)",
    },
    "file: states.csv": {
        "file: stats.csv": "m.yaml:20:18: stats.csv cannot be read: No such file or directory (the path is relative to this file)",
    },
    "value: [name, colour]": {
        "value: [nam, colour]": 'm.yaml:20:48: states.csv has no column "nam" (did you mean name?)',
        "value: name, missing: skip": "m.yaml:20:63: missing: skip is not one of error, keep, blank",
        "value: [name], missing: keep": "m.yaml:20:65: keep needs a single value column (name one column instead of a list)",
    },
    "group: {by: [tender]": {
        "group: {by: [tendr]": 'm.yaml:21:14: rows has no column "tendr" (did you mean tender?)',
        "group: {by: []": "m.yaml:21:13: by: must not be empty, found a list",
    },
    "expr: 'weight * 2'": {
        "expr: 'wieght * 2'": 'm.yaml:24:34: "wieght" is neither a column nor a table here (did you mean weight?)',
        "expr: 'length * 2'": 'm.yaml:24:34: "length" may be blank (write (length ?? 0), or give the column length a default in line 18)',
        'expr: \'kind =~ "(a+)+$"\'': "m.yaml:24:34: =~ and !~ are not available here (write $matches(kind, pattern))",
        "expr: 'weight *'": "m.yaml:24:42: syntax error at its end: weight *",
        "expr: 'sum([weight])'": 'm.yaml:24:34: "sum" is neither a column nor a table here (did you mean $sum?)',
        "expr: 'kind'": "m.yaml:24:18: double is a text, not a number (set type: text, or change the expression)",
        "expr: 'kind == 5'": "m.yaml:24:34: \"kind\" is text, \"5\" is a number; they are never equal (write '5' for a text, or give the column kind type: decimal, in line 15)",
        "expr: '$summ([weight])'": "m.yaml:24:34: $summ is not a function (did you mean $sum?)",
        "expr: '$sum([length])'": 'm.yaml:24:40: "length" may be blank; $sum needs a value in every row (write (length ?? 0), or leave blanks out with: if length != null)',
        "expr: 'kind.__class__'": 'm.yaml:24:34: "kind" is text, which has no .__class__',
        'expr: \'kind.encode("hex")\'': "m.yaml:24:34: .encode(...) is not available here (known: starts_with, ends_with)",
    },
    "{col: tender}": {
        "{col: tendr}": 'm.yaml:26:24: "tendr": rows has no column "tendr" (did you mean tender?)',
        "tender": "m.yaml:26:18: tender_id has no source for its value (write {col: tender})",
        "T-1": "m.yaml:26:18: tender_id has no source for its value (write {value: T-1})",
        "{col: tender, round: 2}": "m.yaml:26:24: tender_id: round is for numbers, not for a text",
        "{col: tender, value: A}": "m.yaml:26:18: tender_id takes one of col, const, value, expr, utc_offset_of; it has col and value",
        "{value: 01067}": 'm.yaml:26:26: this number would lose its leading zero: 01067 (write "01067")',
        "{col: pickup}": "m.yaml:26:24: tender_id: a date needs a format here, such as format: '%Y-%m-%d'",
    },
    "  tender_status: {col: state.name}\n": {
        "": "m.yaml:25:1: payload lacks tender_status, which tender.create requires",
        "  tender_statuss: {col: state.name}\n": 'm.yaml:29:3: Tender has no field "tender_statuss" (did you mean tender_status?)',
        "  tender_status: {col: state}\n": 'm.yaml:29:24: "state": the code table gives several values; name one of name, colour',
        "  tender_status: {col: state.nam}\n": 'm.yaml:29:24: "state.nam": the code table has no column nam; it has name, colour (did you mean name?)',
    },
    "const: parties.sender": {
        "const: parties.sendr": 'm.yaml:27:26: there is no constant "parties.sendr" (did you mean parties.sender?)',
        "const: parties": "m.yaml:27:26: sender_id takes one value, found more than one value",
    },
    '{parties: {uom: LB, sender: ACME, receiver: "00123"}}': {
        '\n  parties:\n    sender:\n    receiver: "00123"': "m.yaml:24:5: sender_id has no value: fill it in",
    },
    "utc_offset_of: pickup": {
        "utc_offset_of: kind": "m.yaml:30:34: utc_offset_of needs a date; kind is a text",
        "utc_offset_of: '$days(2)'": "m.yaml:30:34: utc_offset_of needs a date; $days(2) is a time of day",
    },
    "pickup_startdatetime: {col: pickup}": {
        "pickup_startdatetime: {col: kind}": "m.yaml:31:31: pickup_startdatetime: it holds a date, found a text (give the column kind type: datetime, in line 15)",
        "pickup_startdatetime: {col: pickup, format: '%d.%m.%Y'}": "m.yaml:31:47: pickup_startdatetime would be 24.10.2026; it takes a value such as 2026-03-01 08:00:00 (remove format: a date is written in the form of the field)",
        "pickup_startdatetime: {value: 1.3.2026}": "m.yaml:31:33: pickup_startdatetime: expected a value such as 2026-03-01 08:00:00",
        "timezone: {value: Berlin}": 'm.yaml:31:13: "Berlin": timezone must be the name of a time zone such as Europe/Berlin',
        "tender_expiration: {value: x}": "m.yaml:31:3: tender_expiration exists in listings only, not in tender.create (set assumptions.listing_only_fields to accept if the exchange accepts it)",
        "dedicated_vehicle: {col: kind, when: '$sum([r.weight for r in rows])'}": "m.yaml:31:40: the condition gives a number, not yes or no (compare it with a value)",
    },
    "{col: state.name}": {
        "{col: pickup, format: '%I:%M'}": "m.yaml:29:24: tender_status: %I:%M has %I without %p, so 2 am and 2 pm look the same; write %H",
        "{col: pickup, format: '%Y-%m-%dT%H:%M:%SZ'}": "m.yaml:29:24: tender_status: Z in %Y-%m-%dT%H:%M:%SZ is plain text, but times are those of Europe/Berlin; write %z instead of Z",
        "{col: pickup, format: 'yyyy-mm-dd'}": "m.yaml:29:24: tender_status: yyyy-mm-dd has no directive: write %Y-%m-%d",
    },
    "each: rows": {
        "each: row": 'm.yaml:34:11: there is no table "row" (did you mean rows?)',
        "list: rows": "m.yaml:34:5: packages is a list (write {each: TABLE, item: {...}}, {list: [{...}]} or {value: []})",
    },
    "      item_name:    {col: item}\n": {
        "": "m.yaml:35:5: payload.packages.item lacks item_name, which tender.create requires",
    },
    "      weight:       {col: weight}": {
        "      weight:       {col: kind}": "m.yaml:38:27: weight: it holds a number, found a text (give the column kind type: decimal, in line 15)",
        "      weight:       {col: kind, as: number}": "m.yaml:38:27: weight: as: number is for numbers and values of a code table; the notation of a text is unknown (give the column kind type: decimal, in line 15)",
        "      weight:       {expr: 'kind[0:2]', as: number}": "m.yaml:38:28: weight: as: number is for numbers and values of a code table; the notation of a text is unknown (write $to_number(...) for the number that a text says)",
        "      weight:       {col: weight, unless_blank: false}": "m.yaml:38:49: unless_blank: false has no effect: a blank value always leaves its field out (remove it, or set default)",
        "      weight:       {col: weight, unless_blank: true, default: 1}": "m.yaml:38:49: unless_blank has no effect: default replaces a blank value (remove one of them)",
        "      weight:       {col: weight}\n      weight_uom:   {value: LB, when: 'weight > 0'}": "m.yaml:38:21: weight is in kg, but weight_uom is LB (set unit: lb on the column weight to convert it)",
        "      weight:       {col: rows.weight}\n      weight_uom:   {const: parties.uom}": "m.yaml:38:21: weight is in kg, but weight_uom is LB (set unit: lb on the column weight to convert it)",
        "      weight:       {col: weight}\n      weight_uom:   {value: CBM}": "m.yaml:38:21: weight is in kg, but weight_uom is CBM (they measure different things)",
        "      weight:       {col: weight, round: x}": "m.yaml:38:42: round: must be a whole number, found x",
        "      weight:       {col: weight, format: '%d'}": "m.yaml:38:27: weight: format is for dates, not for a number (type: decimal)",
    },
    "rule: 'weight < 100'": {
        "rule: 'weight'": "m.yaml:40:23: the condition gives a number, not yes or no (compare it with a value)",
        "rule: 'wight < 1'": 'm.yaml:40:24: "wight" is neither a column nor a table here (did you mean weight?)',
    },
    "columns: [weight]": {
        "columns: [wait]": 'm.yaml:40:49: "wait": rows has no column "wait" (did you mean weight?)',
        "level: bad": "m.yaml:40:46: level: bad is not one of error, warning",
    },
    "say: too heavy}": {
        "say: too heavy}\n  - {id: heavy, rule: 'weight < 9', say: no}": 'm.yaml:41:10: "heavy" is already the id of another check',
    },
    "say: too heavy": {
        "say: {dee: x}": "m.yaml:40:69: dee: dee is not one of en, de, fr, es (did you mean de?)",
        "say: {}": "m.yaml:40:63: say: needs a message in at least one of en, de, fr, es, found a mapping",
        'say: {fr: ""}': "m.yaml:40:68: fr: must not be empty, found ",
    },
    "checks:": {
        "batch: {max_records: 5}\nchecks:": "m.yaml:39:1: tender.create sends one record per call; only order.status supports batch",
        "changed: later\nchecks:": "m.yaml:39:10: changed: later is not one of hold, update",
        "order: [weight]\nchecks:": "m.yaml:39:9: only texts, dates and times can be sorted, Weight is a number",
    },
}  # fmt: skip
CASES = [(old, new, said) for old, changes in CHANGES.items() for new, said in changes.items()]


@pytest.mark.parametrize(
    ("old", "new", "said"), CASES, ids=[new.strip() or f"no {old.strip()}" for old, new, _ in CASES]
)
def test_a_wrong_mapping_is_refused_at_its_line(tmp_path, old, new, said):
    assert GOOD.count(old) == 1
    assert said in findings(tmp_path, GOOD.replace(old, new))


def test_all_findings_of_a_file_are_said_in_one_pass(tmp_path):
    text = GOOD.replace("{col: tender}", "{col: tendr}").replace("col: item", "col: itm")
    assert [line.split(":")[1] for line in findings(tmp_path, text)] == ["26", "37"]
    with pytest.raises(MappingError) as raised:
        load_text(tmp_path, text, states=STATES)
    assert (raised.value.line, raised.value.column, raised.value.exit_code) == (26, 24, 78)
    assert len(str(raised.value).splitlines()) == 2
    said = findings(tmp_path, text.replace("version: 1", "version: x"))
    assert [line.split(":")[1] for line in said] == ["2"]  # the frame of the file first: the rest hangs on it


class Part(BaseModel, extra="forbid"):
    """A section of a mapping with a single key."""

    version: int = 1


def test_thousands_of_unknown_keys_are_each_found_in_a_time_that_grows_with_their_number(tmp_path):
    """To compare each finding with each other takes more than the 5 s of CPU time that a test may take."""
    file = YamlFile(tmp_path / "m.yaml")
    assert read_part(Part, file, {f"z{number}": 1 for number in range(10_000)}, ()) is None
    assert len(file.findings) == 10_000


def test_an_empty_missing_or_foreign_file_is_refused(tmp_path):
    assert findings(tmp_path, "") == ["m.yaml:1:1: the file is empty"]
    assert "cannot be read" in str(lint(tmp_path / "none.yaml", ASSUMED)[0])
    (tmp_path / "m.yaml").write_bytes(b"mapping: \xff\xfe")
    assert "not UTF-8" in str(lint(tmp_path / "m.yaml", ASSUMED)[0])
    assert "must be a mapping of keys" in findings(tmp_path, "- a\n- b\n")[0]


def test_m1_what_older_yaml_would_change_stays_as_it_is_written(tmp_path):
    text = GOOD.replace("sender: ACME", "sender: NO").replace("label: Kind", "label: on")
    mapping = load_text(tmp_path, text.replace("label: Item", "label: 12:30"), states=STATES)
    assert [column.label for column in mapping.plan.tables[0].columns][3:5] == ["on", "12:30"]


def test_m1_aliases_cannot_blow_a_file_up(tmp_path):
    bomb = "a: &a [x, x, x, x, x, x, x, x, x, x]\n"
    for name, inner in ("ba", "cb", "dc", "ed", "fe", "gf"):
        bomb += f"{name}: &{name} [{', '.join(['*' + inner] * 10)}]\n"
    assert any("nested too deeply or its aliases repeat too much" in line for line in findings(tmp_path, bomb))
    assert any("nested too deeply" in line for line in findings(tmp_path, "a: &a {b: *a}\n"))


@pytest.mark.parametrize(
    "escape",
    [
        "kind.__class__.__mro__", "kind.format", "rows.__len__", "rows[0].__class__", "$eval(kind)", "$now.tzinfo", "__import__(kind)",
        "kind.decode(kind)", 'b"x".decode("utf-8")', "{kind: 1}", "$random()", "$range(5)", "kind[0].encode",
    ],
)  # fmt: skip
def test_m2_an_expression_reaches_nothing_but_its_columns(tmp_path, escape):
    assert findings(tmp_path, GOOD.replace("expr: 'weight * 2'", f"expr: '{escape}'"))


def test_a_lookup_with_two_meanings_for_one_code_is_refused(tmp_path):
    text = GOOD.replace("colour]}", "colour], ignore_case: true}")
    (said, *_) = findings(tmp_path, text, states=f"{STATES}o,OTHER,blue\n")
    assert 'states.csv gives "o" two meanings, in lines 2 and 4' in said


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ('"2026-03-20T08"', "m.yaml:22:74: pickup_startdatetime: expected a value such as 2026-03-01 08:00:00"),
        ("2026-03-20 08:00:00", 'm.yaml:22:74: an unquoted date is not allowed: 2026-03-20 08:00:00 (write "2026-03-20 08:00:00")'),
    ],
)  # fmt: skip
def test_a_wrong_constant_is_refused_once_and_where_it_stands(tmp_path, written, said):
    text = GOOD.replace('receiver: "00123"}', f'receiver: "00123"}}, pickup: {written}')
    text = text.replace("pickup_startdatetime: {col: pickup}", "pickup_startdatetime: {const: pickup}")
    assert findings(tmp_path, text) == [said]


def test_only_what_can_be_updated_with_the_same_record_may_say_that_it_is_when_it_changed(tmp_path):
    wanted = GOOD.replace("checks:", "changed: update\nchecks:")
    assert load_text(tmp_path, wanted, states=STATES).changed == "update"
    (said,) = findings(tmp_path, wanted.replace("tender.create", "tender.update"))
    assert "m.yaml:39:1: tender.update has nothing to update" in said


def test_the_share_of_errors_is_written_with_its_sign(tmp_path):
    wanted = GOOD.replace("checks:", "errors: {stop_at: 12.5%}\nchecks:")
    assert load_text(tmp_path, wanted, states=STATES).error_share_max == 0.125
    for share in ("20", "0.2", "101%", "a fifth"):
        (said,) = findings(tmp_path, wanted.replace("12.5%", share))
        assert f"m.yaml:39:19: stop_at: must be a percentage such as 20%, found {share}" in said


# ---- other files ----

BASED = "extends: {base}\nmapping: mine\nversion: 1\n"


def found_in(folder, name="mine.yaml"):
    return [str(finding).removeprefix(f"{folder}/") for finding in lint(folder / name, ASSUMED, folder)]


@pytest.mark.parametrize("text", ["[" * 500, "a: " + "[" * 500 + "]" * 500, "- " * 20_000, "{a: " * 20_000])
def test_a_file_that_is_nested_far_too_deeply_is_refused_with_its_line(tmp_path, text):
    (tmp_path / "mine.yaml").write_text(f"# a comment\n{text}\n", encoding="utf-8")
    (finding,) = found_in(tmp_path)
    assert finding.startswith("mine.yaml:2:")
    assert finding.endswith("not YAML: nested more than 40 levels deep")


SECRET = "secret:x:0:0:root"


@pytest.fixture
def folder(tmp_path):
    """A folder of mappings with all that is not a mapping and no code table in it, and secrets around it."""
    folder = tmp_path / "mappings"
    (folder / "folder.yaml").mkdir(parents=True)
    (folder / "folder.csv").mkdir()
    for name in ("notes.yaml", "notes.csv.gz", "notes.txt.bak"):
        (folder / name).write_text(f"{SECRET}\n{SECRET}\n", encoding="utf-8")
    (folder / "list.yaml").write_text(f"- {SECRET}\n", encoding="utf-8")
    (folder / "binary.yaml").write_bytes(b"\x89PNG\x00\x01" + SECRET.encode())
    (folder / "binary.csv").write_bytes(b"PK\x00\x01" + SECRET.encode())
    (tmp_path / "secret.yaml").write_text(f"{SECRET}\n", encoding="utf-8")
    (tmp_path / "secret.csv").write_text(f"{SECRET}\n", encoding="utf-8")
    for suffix in ("yaml", "csv"):
        (folder / f"link.{suffix}").symlink_to(tmp_path / f"secret.{suffix}")
        (folder / f"loop.{suffix}").symlink_to(folder / f"loop.{suffix}")
    return folder


@pytest.mark.parametrize(
    "base",
    ["/etc/passwd", "/etc/passwd.yaml", "../secret.yaml", "folder.yaml", "link.yaml", "loop.yaml", "notes.yaml", "list.yaml", "binary.yaml", "notes.txt.bak", "none.yaml"],
)  # fmt: skip
def test_what_is_extended_is_a_mapping_of_the_folder(folder, base):
    assert_refused_without_quoting(folder, BASED.format(base=base))


@pytest.mark.parametrize(
    "table",
    ["/etc/passwd", "../secret.csv", "folder.csv", "link.csv", "loop.csv", "notes.csv.gz", "binary.csv", "none.csv", "/dev/zero"],
)  # fmt: skip
def test_a_code_table_is_a_file_of_the_folder(folder, table):
    assert_refused_without_quoting(folder, GOOD.replace("file: states.csv", f"file: {table}"))


def assert_refused_without_quoting(folder, text):
    (folder / "mine.yaml").write_text(text, encoding="utf-8")
    found = found_in(folder)
    assert found
    assert SECRET not in "".join(found)


def test_a_mapping_of_a_shipper_extends_one_of_the_folder_above(folder):
    (folder / "base").mkdir()
    (folder / "base" / "all.yaml").write_text(GOOD.replace("mapping: everything\nversion: 1\n", ""), encoding="utf-8")
    (folder / "base" / "states.csv").write_text("code,name,colour\nA,ACCEPTED,green\n", encoding="utf-8")
    (folder / "nordic").mkdir()
    (folder / "nordic" / "mine.yaml").write_text(BASED.format(base="../base/all.yaml"), encoding="utf-8")
    assert found_in(folder, "nordic/mine.yaml") == []
    (folder / "nordic" / "mine.yaml").write_text(BASED.format(base="../../secret.yaml"), encoding="utf-8")
    assert found_in(folder, "nordic/mine.yaml")[0].endswith(
        "../../secret.yaml is not in the folder of mappings "
        "(write a path relative to the mapping, to a file in the folder of mappings)"
    )

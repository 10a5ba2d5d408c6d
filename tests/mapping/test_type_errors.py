"""Types that do not fit in an expression: the message names the part, its type and its place, and says what to write."""

import pytest
from sheets import findings

from loadsheet.mapping.expressions import compile_expression
from loadsheet.mapping.plans import CodeColumn, ExpressionError, Scope, Shape, Slot, Type

SLOTS = {
    "a": Slot(0, Type.NUMBER, declared_at="line 4"),
    "maybe": Slot(1, Type.NUMBER, nullable=True, declared_at="line 5"),
    "name": Slot(2, Type.TEXT, declared_at="line 6"),
    "at": Slot(3, Type.MOMENT),
    "clock": Slot(4, Type.SPAN),
    "flag": Slot(5, Type.FLAG),
    "other": Slot(6, Type.CODE_ROW, nullable=True, code_columns=(CodeColumn("name", nullable=False),)),
    "code": Slot(7, Type.CODE_ROW, code_columns=(CodeColumn("kg", nullable=False), CodeColumn("note", nullable=True))),
    "note": Slot(8, Type.TEXT, nullable=True),
    "kind": Slot(9, Type.TEXT, declared_at="line 9", is_code=True),
}
SHAPE, ITEMS = Shape("orders", SLOTS), Shape("d", {"kg": Slot(0, Type.TEXT, declared_at="line 14")})
SCOPE = Scope(SHAPE, SHAPE, {"rows": (0, SHAPE), "items": (1, ITEMS)})
DECIMAL = "give the column name type: decimal, in line 6"
ADDED = "takes two numbers, two texts, two durations, or a date and a duration"
# expression -> the offset of the part, the message, the hint
REFUSED = {
    # arguments of functions
    "$sum([d.kg for d in items])": (6, '"d.kg" is text; $sum needs numbers', "give the column kg type: decimal, in line 14"),
    "$sum(rows)": (5, '"rows" is a list of rows of orders; $sum needs numbers', "such as $sum([r.a for r in rows])"),
    "$sum([r for r in rows])": (6, '"r" is a row of orders; $sum needs numbers', "such as r.a"),
    "$sum([a, name])": (9, '"name" is text; $sum needs numbers', DECIMAL),
    "$sum(a)": (5, '"a" is a number; $sum needs a list of numbers', "such as $sum([a])"),
    "$latest([r.a for r in rows])": (9, '"r.a" is a number; $latest needs dates', ""),
    "$count(a)": (7, '"a" is a number; $count needs a list', "such as $count([a])"),
    "$sum([r.maybe for r in rows])": (6, '"r.maybe" may be blank; $sum needs a value in every row', "write (r.maybe ?? 0), or leave blanks out with: if r.maybe != null"),
    "1 + $round(name)": (11, '"name" is text; $round needs a number', DECIMAL),
    "$round(maybe)": (7, '"maybe" may be blank', "write (maybe ?? 0), or give the column maybe a default in line 5"),
    "$round(1, 2, 3)": (0, "$round takes 1 or 2 values, found 3", ""),
    "$at(at)": (0, "$at takes 2 values, found 1", ""),
    "$days(name)": (6, '"name" is text; $days needs a number', DECIMAL),
    "$days(kind)": (6, '"kind" is text; $days needs a number', "write $to_number(kind)"),
    "$days('x' + name)": (6, "\"'x' + name\" is text; $days needs a number", "write $to_number('x' + name)"),
    "$days(code.kg)": (6, '"code.kg" is text; $days needs a number', "write $to_number(code.kg)"),
    "$in_hours(a)": (10, '"a" is a number; $in_hours needs a duration', "write $days(a) or $hours(a)"),
    "$weekday(name)": (9, '"name" is text; $weekday needs a date', "give the column name type: datetime, in line 6"),
    "$replace(a, 'x', '')": (9, '"a" is a number; $replace needs text', "write a.to_str"),
    "$replace(at, 'x', '')": (9, '"at" is a date; $replace needs text', 'write $format(at, "%Y-%m-%d")'),
    "$format(at, 5)": (12, '"5" is a number; $format needs text', "write '5' for a text"),
    "name.starts_with(a)": (17, '"a" is a number; .starts_with needs text', "write a.to_str"),
    "a(1)": (0, '"a" is not a function', ""),
    # arithmetic
    "a + name": (0, f'"a" is a number, "name" is text; + {ADDED}', f"write a.to_str, or {DECIMAL}"),
    "name - a": (0, '"name" is text, "a" is a number; - takes two numbers, two dates, two durations, or a date and a duration', DECIMAL),
    "at + a": (0, f'"at" is a date, "a" is a number; + {ADDED}', "write $days(a) or $hours(a)"),
    "name + at": (0, f'"name" is text, "at" is a date; + {ADDED}', 'write $format(at, "%Y-%m-%d")'),
    "at + at": (0, f'"at" is a date, "at" is a date; + {ADDED}', ""),
    "2 * (name * a)": (5, '"name" is text; * needs a number', DECIMAL),
    "t'P1D' * a": (0, "t'P1D' is a duration; * needs a number", "write $days(a) or $hours(a)"),
    "a * maybe": (4, '"maybe" may be blank', "write (maybe ?? 0), or give the column maybe a default in line 5"),
    "maybe + 1": (0, '"maybe" may be blank', "write (maybe ?? 0), or give the column maybe a default in line 5"),
    "-name": (1, '"name" is text; - needs a number', DECIMAL),
    "1 / 0": (0, "cannot be calculated (division by zero): 1 / 0", ""),
    # comparison
    "a < name": (0, '"a" is a number, "name" is text; < compares values of one type', DECIMAL),
    "flag and name == 5": (9, '"name" is text, "5" is a number; they are never equal', f"write '5' for a text, or {DECIMAL}"),
    "at > '2026-03-01'": (0, "\"at\" is a date, '2026-03-01' is text; > compares values of one type", "write d'2026-03-01', such as d'2026-03-01'"),
    "flag != name": (0, '"flag" is yes or no, "name" is text; they are never equal', "give the column name type: yesno, in line 6"),
    "maybe >= 1": (0, '"maybe" may be blank', "write (maybe ?? 0), or give the column maybe a default in line 5"),
    # contains
    "a in name": (0, '"a" is a number; a text contains only texts', "write a.to_str"),
    "name in a": (8, '"a" is a number; in looks into a text or a list', "write a.to_str"),
    "name not in a": (12, '"a" is a number; in looks into a text or a list', "write a.to_str"),
    "name in [1, 2]": (0, '"name" is text, "[1, 2]" is a list of numbers; it is never in the list', f"write '1' for a text, or {DECIMAL}"),
    "'x' in note": (7, '"note" may be blank', 'write (note ?? "")'),
    # branches, lists, ranges
    "(flag ? a : 2) + name": (0, f'"flag ? a : 2" is a number, "name" is text; + {ADDED}', f"write (flag ? a : 2).to_str, or {DECIMAL}"),
    "$max([flag ? name : 'x'])": (6, "\"flag ? name : 'x'\" is text; $max needs numbers", "write $to_number(flag ? name : 'x')"),
    "1 + (flag ? a : name)": (5, '"a" is a number, "name" is text; here both sides of ? : need one type', DECIMAL),
    "$sum([flag ? r.a : '' for r in rows])": (6, "\"r.a\" is a number, '' is text; here both sides of ? : need one type", "write $to_number('')"),
    "$round(flag ? 1 : name)": (7, '"1" is a number, "name" is text; here both sides of ? : need one type', f"write '1' for a text, or {DECIMAL}"),
    "note ?? 5": (0, '"note" is text, "5" is a number; ?? needs two values of one type', "write '5' for a text, or give the column note type: decimal"),
    "[x for x in a]": (12, '"a" is a number; for ... in needs a list', "such as rows"),
    "name[at:]": (5, '"at" is a date; a place in [ ] needs a number', ""),
    "name[0:flag]": (7, '"flag" is yes or no; a place in [ ] needs a number', ""),
    "name[flag]": (5, '"flag" is yes or no; a place in [ ] needs a number', ""),
    "a[0]": (0, '"a" is a number; [ ] takes a part of a text or a list', "write a.to_str"),
    "orders[0]": (0, '"orders" is a row of orders', "name one of its columns, such as orders.a"),
    "rows[0] and flag": (0, '"rows[0]" is a row of orders; and needs conditions', ""),
    # names and parts
    "nam": (0, '"nam" is neither a column nor a table here', "did you mean name?"),
    "1 + orders.b": (4, '"b" is not a column of orders', "known: a, maybe, name, at, clock, flag, other, code, note, kind"),
    "name.year": (0, '"name" is text, which has no .year', "give the column name type: datetime, in line 6"),
    "a.length": (0, '"a" is a number, which has no .length', "write a.to_str"),
    "note.length": (0, '"note" may be blank', 'write (note ?? "").length'),
    "other.name": (0, '"other" may be blank', 'write (other&.name ?? "")'),
    "d'2026-13-45' < at": (0, "a date is written such as d\"2026-03-01\" or d\"2026-03-01 08:00\": d'2026-13-45'", ""),
    "name.encode('hex')": (0, ".encode(...) is not available here", "known: starts_with, ends_with"),
    "name =~ 'x'": (0, "=~ and !~ are not available here", "write $matches(name, pattern)"),
    "orders + 'x'": (0, f"\"orders\" is a row of orders, 'x' is text; + {ADDED}", ""),
    "a ) b": (2, 'syntax error at ")": a ) b', ""),
    "a +": (3, "syntax error at its end: a +", ""),
    "(a": (2, "syntax error at its end: (a", "a bracket is not closed: )"),
    "a = 1": (2, 'syntax error at "= 1": a = 1', "write == to compare"),
    "$max(a; b)": (6, 'syntax error at "; b)": $max(a; b)', "write a comma between values"),
    "IF(a > 1; 2; 3)": (8, 'syntax error at "; 2; 3)": IF(a > 1; 2; 3)', "write CONDITION ? VALUE : OTHER"),
}  # fmt: skip


@pytest.mark.parametrize("text", REFUSED)
def test_what_does_not_fit_is_named_with_its_type_its_place_and_what_to_write(text):
    with pytest.raises(ExpressionError) as raised:
        compile_expression(text, SCOPE)
    assert (raised.value.at, raised.value.text, raised.value.hint) == REFUSED[text]


MAPPING = """\
mapping: places
version: 1
target: order.delete
source: {{files: "*.csv", locale: de_DE}}
columns:
  order: {{label: Order, required: true}}
  kg:    {{label: Weight, required: true}}
derived:
  double: {{type: decimal, expr: {expr}}}
payload:
  order_id: {{col: order}}
"""


@pytest.mark.parametrize(
    ("expr", "place"),
    [
        ("'1 + kg * 2'", "9:38"),
        ('"1 + kg * 2"', "9:38"),
        ("1 + kg * 2", "9:37"),
        ("'order == ''x'' ? 1 : kg * 2'", "9:55"),
        ('"order == \\"x\\" ? 1 : kg * 2"', "9:55"),
        ("'1 +\n      kg * 2'", "10:7"),
        ('"\\x31 + kg * 2"', "9:33"),  # behind an escape: the expression
        ("&here '1 + kg * 2'", "9:33"),
    ],
)
def test_the_place_is_that_of_the_part_however_the_text_is_written(tmp_path, expr, place):
    (found,) = findings(tmp_path, MAPPING.format(expr=expr))
    assert found == f'm.yaml:{place}: "kg" is text; * needs a number (give the column kg type: decimal, in line 7)'


def test_the_place_in_a_folded_text_and_in_the_file_that_is_extended(tmp_path):
    folded = MAPPING.format(expr="''").replace(
        "  double: {type: decimal, expr: ''}", "  double:\n    expr: >-\n      1\n      + kg * 2"
    )
    (found,) = findings(tmp_path, folded)
    assert found.startswith('m.yaml:12:9: "kg" is text; * needs a number')
    (tmp_path / "base.yaml").write_text(MAPPING.format(expr="'1 + kg * 2'"), encoding="utf-8")
    (found,) = findings(tmp_path, "extends: base.yaml\nversion: 2\n")
    assert (
        found
        == 'base.yaml:9:38: "kg" is text; * needs a number (give the column kg type: decimal, in line 7 of base.yaml)'
    )

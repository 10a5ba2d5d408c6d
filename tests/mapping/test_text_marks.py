"""Text files whose quotes, escapes and blanks are declared: read so in a process of their own and in ours, refused where they clash."""

import pytest
from sheets import decode, findings, load_text, of_text

MAPPING = """\
mapping: marks
version: 1
target: order.update
source:
  files: ["*.csv"]
  {marks}
columns:
  id:   {{label: ID, required: true}}
  city: {{label: City}}
  item: {{label: Item, blank: [none]}}
payload:
  order_id: {{col: id}}
  sender_id: {{value: S}}
  receiver_id: {{value: R}}
  pickup_city: {{col: city}}
  pickup_company: {{col: item}}
"""
CASES = {
    "another quote": ('quote: "\'"', "1,'Bonn, am Rhein','it''s'\n", ("Bonn, am Rhein", "it's")),
    "another quote, none in sight": ('quote: "\'"', '1,Bonn,5" pipe\n', ("Bonn", '5" pipe')),
    "a quote that usually delimits": ("quote: ';'", "1,;Bonn, am Rhein;,pipe\n", ("Bonn, am Rhein", "pipe")),
    "no quote at all": ("quote: none", '1,"Bonn,5" pipe\n', ('"Bonn', '5" pipe')),
    "an escape": ('escape: "\\\\"', '1,Bonn\\, am Rhein,"5\\" pipe"\n', ("Bonn, am Rhein", '5" pipe')),
    "an escape, none in sight": ('escape: "\\\\"', "1,Bonn,pipe\n", ("Bonn", "pipe")),
    "an escape and no quote": ('quote: none\n  escape: "~"', '1,Bonn~, am Rhein,"~~\n', ("Bonn, am Rhein", '"~')),
    "blanks": ("blank: [n/a, '-']", "1,-,n/a\n", (None, None)),
    "blanks beside those of a column": ("blank: '-'", "1,none,none\n", ("none", None)),
    "no marks": ("encoding: utf-8", '1,"Bonn, am Rhein","5"" pipe"\n', ("Bonn, am Rhein", '5" pipe')),
}


@pytest.mark.parametrize("apart", ["child", "none"])
@pytest.mark.parametrize("case", CASES)
def test_declared_marks_are_read_as_they_are_declared(tmp_path, case, apart):
    marks, row, expected = CASES[case]
    mapping = load_text(tmp_path, MAPPING.format(marks=marks))
    (document,) = of_text(mapping, tmp_path, f"ID,City,Item\n{row}", process=apart)
    assert document.usable, document.problems
    payload = decode(document.payload)
    assert (payload.get("pickup_city"), payload.get("pickup_company")) == expected


@pytest.mark.parametrize(
    ("marks", "finding"),
    [
        ("quote: \"''\"", "6:10: quote: must be one character, or none, found ''"),
        ('quote: " "', "6:10: ' ' cannot be the quote: it is too common in texts"),
        ('escape: "\\n"', "6:11: '\\n' cannot be the escape: it is too common in texts"),
        ("escape: '\"'", '6:11: " is already the quote (quotes within a value are doubled and need no escape)'),
        ("delimiter: ['\"']", "6:15: '\"' cannot be a delimiter: it is already the quote or the escape"),
        ('delimiter: [";", "\\n"]', "6:20: '\\n' cannot be a delimiter: it ends a line"),
        ("delimiter: ['~']\n  escape: '~'", "6:15: '~' cannot be a delimiter: it is already the quote or the escape"),
    ],
)
def test_marks_that_clash_are_refused_at_load_with_their_line(tmp_path, marks, finding):
    (found,) = findings(tmp_path, MAPPING.format(marks=marks))
    assert found.startswith(f"m.yaml:{finding}")


def test_the_double_quote_may_delimit_where_nothing_is_quoted(tmp_path):
    assert findings(tmp_path, MAPPING.format(marks="quote: none\n  delimiter: ['\"']")) == []

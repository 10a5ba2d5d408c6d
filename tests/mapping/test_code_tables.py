"""Code tables with several keys and with wildcards (M28), what is said where they have no row, and which settings are refused."""

import pytest
from sheets import codes, documents, findings, load_text

RATES = """\
country,zip,mode,zone,days
DE,01*,ROAD,D-East,2
DE,0*,ROAD,D-North-East,3
DE,*,ROAD,D,4
DE,*,AIR,D-Air,1
*,1*,*,World-1,8
*,*,*,World,9
SE,1,ROAD,S-One,5
"""
MAPPING = """\
mapping: zones
version: 1
target: order.delete
source: {files: "*.csv", locale: en_GB, encoding: utf-8}
lookups:
  zones: {file: rates.csv, key: [zip, country, mode], value: [zone, days], wildcards: true, ignore_case: true}
columns:
  order: {label: Order, required: true}
  land: {label: Country, type: country}
  mode: {label: Mode, one_of: {Road: ROAD, Air: AIR}}
  zip: {label: Zip, lookup: zones, lookup_with: [land, mode]}
payload:
  order_id: {expr: 'order + "/" + (zip&.zone ?? "none") + "/" + (zip&.days ?? "none")'}
"""


def made(folder, *rows, text=MAPPING, rates=RATES):
    return documents(load_text(folder, text, rates=rates), [list(row) for row in rows])


@pytest.mark.parametrize(
    ("land", "mode", "code", "zone"),
    [
        ("DE", "Road", "01067", "D-East/2"),
        ("Germany", "Road", "0999", "D-North-East/3"),
        ("DE", "Road", "50668", "D/4"),
        ("DE", "Air", "01067", "D-Air/1"),
        ("SE", "Road", "1", "S-One/5"),
        ("SE", "Road", "11", "World-1/8"),
        ("SE", "Air", "1", "World-1/8"),
        ("FR", "Air", "75001", "World/9"),
        ("DE", "Road", "10115", "World-1/8"),  # the first key counts before the others
    ],
)
def test_m28_the_row_that_names_most_of_its_keys_counts(tmp_path, land, mode, code, zone):
    (document,) = made(tmp_path, ["A", land, mode, code])
    assert document.key == f"A/{zone}"


def test_m28_without_wildcards_a_star_is_a_star_and_each_key_must_agree(tmp_path):
    text = MAPPING.replace(", wildcards: true", "")
    found, lacking, unknown = made(
        tmp_path, ["A", "SE", "Road", "1"], ["B", "DE", "Road", "1"], ["C", "DE", "Air", "7"], text=text
    )
    assert found.key == "A/S-One/5"
    assert [problem.hint for problem in lacking.problems] == ["the table has no row for this value with DE and ROAD"]
    assert codes(unknown) == ["C306"]


def test_a_miss_in_a_table_of_wildcards_names_them_or_the_other_key(tmp_path):
    rates = "zip,country,mode,zone,days\n5*,DE,*,West,1\n0*,DE,*,East,2\n"
    other_country, no_zip = made(tmp_path, ["A", "FR", "Road", "50667"], ["B", "DE", "Road", "80331"], rates=rates)
    assert [problem.hint for problem in other_country.problems] == [
        "the table has no row for this value with FR and ROAD"
    ]
    (problem,) = no_zip.problems
    assert problem.text == '"80331" is not in the list: 5*, 0*'


def test_m28_a_miss_follows_the_rule(tmp_path):
    text = MAPPING.replace(", wildcards: true", ", missing: blank")
    (document,) = made(tmp_path, ["A", "DE", "Road", "7"], text=text)
    assert document.key == "A/none/none"


def test_a_blank_key_beside_it_is_a_key_of_its_own(tmp_path):
    text = MAPPING.replace(", wildcards: true", "")
    (document,) = made(tmp_path, ["A", "", "Road", "1"], text=text, rates=f"{RATES},1,ROAD,Nowhere,6\n")
    assert document.key == "A/Nowhere/6"


def test_a_wrong_key_beside_it_is_said_once(tmp_path):
    (document,) = made(tmp_path, ["A", "Erewhon", "Road", "1"])
    assert codes(document) == ["C308"]


def test_a_table_keyed_by_a_looked_up_column_comes_after_it(tmp_path):
    rates = "country,zip,mode,zone,days\nDE,0*,ROAD,North,3\n"
    text = MAPPING.replace(
        "payload:", "  depot: {label: Depot, lookup: depots, lookup_with: [land]}\npayload:"
    ).replace("lookups:", "lookups:\n  depots: {file: depots.csv, key: [name, country], value: place}")
    text = text.replace("order + ", 'order + "/" + (depot ?? "") + ')
    mapping = load_text(tmp_path, text, rates=rates, depots="name,country,place\nD1,DE,Dresden\n")
    (document,) = documents(mapping, [["A", "DE", "Road", "01067", "D1"]])
    assert document.key == "A/Dresden/North/3"


@pytest.mark.parametrize("setting", ["lookup: sizes", 'one_of: {Box: "12.5"}'])
def test_a_number_that_the_mapping_or_its_code_table_writes_may_be_sent_as_one(tmp_path, setting):
    text = """\
mapping: sizes
version: 1
target: order.update
source: {files: "*.csv", locale: de_DE}
lookups: {sizes: {file: sizes.csv, key: name, value: weight}}
columns: {order: {label: Order, required: true}, size: {label: Size, SETTING}}
payload: {order_id: {col: order}, sender_id: {value: A}, receiver_id: {value: B}, total_weight: {col: size, as: number}}
"""
    mapping = load_text(tmp_path, text.replace("SETTING", setting), sizes="name,weight\nBox,12.5\n")
    (document,) = documents(mapping, [["A", "Box"]])
    assert b'"total_weight":12.5' in document.payload


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        (", lookup_with: [land, mode]", "", "zones is searched by 3 values: this column and 2 more (list their columns in lookup_with)"),
        ("[land, mode]", "[land]", "zones is searched by 3 values"),
        ("[land, mode]", "[land, mood]", 'there is no other column "mood" here (did you mean mode?)'),
        ("[land, mode]", "[land, zip]", 'there is no other column "zip" here'),
        ("Mode, one_of: {Road: ROAD, Air: AIR}", "Mode, type: integer", "mode is a number; a key of a code table is a text"),
        ("key: [zip, country, mode]", "key: [zip, country, mood]", 'rates.csv has no column "mood"'),
        ("key: [zip, country, mode]", "key: []", "the code table has no key"),
        ("lookup: zones, ", "", "lookup_with needs a lookup"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_refused_at_load(tmp_path, old, new, said):
    assert MAPPING.count(old) == 1
    assert any(said in line for line in findings(tmp_path, MAPPING.replace(old, new), rates=RATES))


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ("DE,0*1,ROAD,X,1", 'rates.csv, line 9: "0*1, DE, ROAD" has a * that is not at the end'),
        ("de,01*,road,X,1", 'gives "01*, de, road" two meanings, in lines 2 and 9'),
    ],
)
def test_a_table_that_contradicts_itself_is_refused(tmp_path, row, said):
    assert any(said in line for line in findings(tmp_path, MAPPING, rates=f"{RATES}{row}\n"))

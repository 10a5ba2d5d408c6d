"""What is kept so that a file can be fixed: typed cells, what columns take, and the mapping as it was."""

import shutil
from pathlib import Path

import pytest
from sheets import ASSUMED, documents, load_text, run, table

from loadsheet.ledger import codec
from loadsheet.mapping.compile import load
from loadsheet.mapping.documents import ColumnGuide, Document, SourceRow
from loadsheet.mapping.yamlfile import source_texts, write_source
from loadsheet.reading.tables import Native

ROOT = Path(__file__).parents[2]
MAPPING = """\
mapping: orders
version: 1
target: order.delete
source: {files: ["*.xlsx"], locale: de_DE, dates: ["%d.%m.%Y"], tables: {rows: {ignore_rows: 'id == "skip"'}}}
columns:
  id:    {label: ID, aliases: [Nummer], required: true}
  day:   {label: Day, type: date}
  kind:  {label: Kind, one_of: [A, B]}
  pack:  {label: Pack, lookup: packs}
  many:  {label: Many, lookup: many}
  flag:  {label: Flag, type: yesno}
lookups:
  packs: {file: packs.csv, key: code, value: name}
  many:  {file: many.csv, key: code, value: name}
payload: {order_id: {col: id}}
"""
MORE = MAPPING.replace(
    "lookups:", "  land: {label: Land, type: country}\n  money: {label: Geld, type: currency}\nlookups:"
)
TABLES = {
    "packs": "code,name\nEUP,Pallet\nBOX,Box\n*,Other\n",
    "many": "code,name\n" + "".join(f"C{number},x\n" for number in range(400)),
}


def test_typed_cells_of_workbooks_are_kept_and_errors_are_not(tmp_path):
    mapping = load_text(tmp_path, MAPPING, **TABLES)
    typed = [Native("2026-03-01", "date"), Native("7", "number"), Native("#N/A", "error"), "x", Native("true", "flag")]
    (plan,) = mapping.plan.tables
    found = run(mapping, table(plan, [["A-1", *typed], ["skip", *typed]], sheet="S"))
    left, document = sorted(found, key=lambda one: isinstance(one, Document))
    natives = ((1, "date", "2026-03-01"), (2, "number", "7"), (5, "flag", "true"))
    assert (document.rows[0].natives, left.row.natives) == (natives, natives)
    (document,) = documents(mapping, [["A-1", "01.03.2026", "A", "EUP", "C1", "ja"]])
    assert document.rows[0].natives == (), "the rows of a text file have none"


def test_rows_without_typed_cells_are_written_as_ever_and_old_ones_are_read():
    plain, typed = SourceRow("rows", 2, ("a",)), SourceRow("rows", 3, ("7",), ((0, "number", "7"),))
    assert codec.encode_rows([plain]) == b'[["rows",2,["a"]]]'
    assert codec.decode_rows(codec.encode_rows([plain, typed])) == (plain, typed)


@pytest.mark.parametrize(
    ("locale", "takes"),
    [
        ("de_DE", "ein Datum, etwa 24.03.2026"),
        ("fr_FR", "une date, par exemple 24.03.2026"),
        ("nl_NL", "a date, such as 24.03.2026"),
    ],
)
def test_senders_learn_what_a_column_takes_in_the_language_of_their_sheet(tmp_path, locale, takes):
    mapping = load_text(tmp_path, MAPPING.replace("de_DE", locale), **TABLES)
    assert mapping.language == locale[:2]
    assert mapping.guide["rows"]["Day"].takes == takes


KNOWN = """\
mapping: orders
version: 1
target: order.update
source: {files: ["*.xlsx"]}
columns:
  id:     {label: ID, required: true}
  unit:   {label: Unit}
  both:   {label: Both}
  upper:  {label: Upper, pattern: "[A-Z]+"}
  mode:   {label: Mode, max_length: 4}
  made:   {label: Made, required: true}
  own:    {label: Own, one_of: {pallet: Pallet/Skid}}
payload:
  order_id: {col: id}
  sender_id: {value: A}
  receiver_id: {value: B}
  gross_weight_uom: {col: both, unless_blank: true}
  chargeable_weight_uom: {col: both, unless_blank: true}
  transport_mode: {col: mode}
  order_status: {expr: '$replace(made, "x", "y")'}
  packages:
    each: rows
    item: {package_type: {col: own}, item_name: {col: id}, weight_uom: {col: unit}, volume_uom: {col: upper}}
"""


def test_values_that_the_interface_names_are_listed_where_a_column_sends_them_as_they_are(tmp_path):
    """Not where an expression makes the value, or where the mapping has a list of its own."""
    found = {label: guide.choices for label, guide in load_text(tmp_path, KNOWN).guide["rows"].items()}
    assert found == {
        "ID": (),
        "Unit": ("KG", "Ton"),
        "Both": ("KG", "Ton"),  # what both fields take
        "Upper": ("CBM",),
        "Mode": ("ROAD", "AIR", "SEA", "RAIL"),
        "Made": (),
        "Own": ("pallet",),
    }
    short = load_text(tmp_path, KNOWN.replace("max_length: 4", "max_length: 3"))
    assert short.guide["rows"]["Mode"].choices == ()  # the column would refuse ROAD


def test_the_values_of_a_column_are_listed_unless_they_are_too_many(tmp_path):
    guide = load_text(tmp_path, MORE, **TABLES).guide["rows"]
    assert guide["Kind"] == ColumnGuide("ein Text", ("A", "B"))
    assert guide["Pack"].choices == ("EUP", "BOX")
    assert guide["Many"].choices == ()
    assert guide["Flag"].choices == ("ja", "nein")
    assert guide["Land"].choices[:3] == ("Afghanistan", "Ägypten", "Ålandinseln")
    assert {"EUR", "USD"} < set(guide["Geld"].choices)
    assert "DEM" not in guide["Geld"].choices
    assert guide["ID"].required
    assert guide["Nummer"] == guide["ID"]
    assert not guide["Kind"].required


@pytest.mark.parametrize(
    "names",
    [["carrier-status.yaml", "alder-parcels.yaml"], pytest.param(None, marks=pytest.mark.sweep)],
    ids=["a few", "all"],
)
def test_every_shipped_mapping_can_be_put_down_and_loaded_as_it_was(names, tmp_path):
    for name in names or [path.name for path in (ROOT / "mappings").glob("*.yaml")]:
        (folder := tmp_path / name).mkdir()
        mapping = load(ROOT / "mappings" / name, ASSUMED)
        again = load(write_source(mapping.source, folder), ASSUMED)
        assert again.hash == mapping.hash
        assert again.source == mapping.source
        assert next(iter(mapping.source)) == name


def test_a_mapping_that_extends_one_in_another_folder_finds_it_again(tmp_path):
    folder = tmp_path / "mappings"
    shutil.copytree(ROOT / "mappings", folder)
    (folder / "alder").mkdir()
    text = (folder / "alder-parcels.yaml").read_text(encoding="utf-8").replace("base/", "../base/")
    (folder / "alder" / "parcels.yaml").write_bytes(b"\xef\xbb\xbf" + text.replace("\n", "\r\n").encode())
    mapping = load(folder / "alder" / "parcels.yaml", ASSUMED)
    assert list(mapping.source) == ["alder/parcels.yaml", "base/parcels.yaml"]
    (tmp_path / "again").mkdir()
    assert load(write_source(mapping.source, tmp_path / "again"), ASSUMED).hash == mapping.hash
    used = {tmp_path / "a" / "m.yaml": b"1", tmp_path / "a" / ".." / "base" / "b.yaml": b"2"}
    assert source_texts(used) == {"a/m.yaml": "1", "base/b.yaml": "2"}, "from the folder that holds them all"


@pytest.mark.parametrize("source", [{}, {"../out.yaml": "x"}, {"in.yaml": "x", "/etc/out.yaml": "x"}])
def test_nothing_is_put_outside_of_its_folder(tmp_path, source):
    (tmp_path / "here").mkdir()
    with pytest.raises(ValueError, match=r"kept|is outside"):
        write_source(source, tmp_path / "here")
    assert not (tmp_path / "out.yaml").exists()

"""The JSON Schema of the mapping format (draft 2020-12), made from the models that read a mapping and from the contract.

Owns: how the two become one schema that editors understand: keys, types and words of `mapping/schema.py` with their meaning, and under
`payload:` the fields of the record that `target` names. It is as strict as a schema can be; what needs the sections together (does
this column exist?) only `lint` can say.
"""

from typing import Any

from pydantic import BaseModel

from loadsheet.contract import EXPECTED, WRITES, Field, Kind, Operation, Record, When
from loadsheet.mapping.schema import SOURCES_OF_A_VALUE, Column, Derived, Leaf, MappingSpec, Target, ZoneSpec

Json = dict[str, Any]

DIALECT = "https://json-schema.org/draft/2020-12/schema"
_DEFS = "#/$defs/"
_TEXTS: Json = {"type": "array", "items": {"type": "string"}}
UPSERT = ".upsert"
_SETS: Json = {
    "anyOf": [
        {"type": "integer", "minimum": 1, "maximum": 200},
        {"type": "array", "items": {"type": "string"}, "minItems": 1},
        {"type": "object", "additionalProperties": {"type": "string"}, "minProperties": 1},
    ]
}
_NUMBER_TEXT = "pattern"  # pydantic offers a Decimal as a patterned text as well; a mapping writes a number


def mapping_schema() -> Json:
    """The schema of a whole mapping file."""
    defs: Json = {}
    schema = _model(MappingSpec, defs)
    for model in (Column, Derived, ZoneSpec, Leaf):
        defs[model.__name__] = _model(model, defs)
    properties = schema["properties"]
    properties["columns"] = _described("MappingSpec.columns", _by_table("Column"))
    properties["derived"] = _described("MappingSpec.derived", _by_table("Derived"))
    zone = {"anyOf": [{"type": "string"}, {"$ref": f"{_DEFS}ZoneSpec"}]}
    defs["Source"]["properties"]["timezone"] = _described("Source.timezone", zone)
    defs["Leaf"]["oneOf"] = [{"required": [source]} for source in SOURCES_OF_A_VALUE]
    if "Target" not in defs:
        defs["Target"] = _model(Target, defs)
    upserts = [f"{operation.subject}{UPSERT}" for operation in WRITES if operation.creates]
    names = {"type": "string", "enum": [*(operation.name for operation in WRITES), *upserts]}
    properties["target"] = _described("MappingSpec.target", {"anyOf": [names, {"$ref": f"{_DEFS}Target"}]})
    defs["TableSpec"]["properties"]["sets"] = _described("TableSpec.sets", _SETS)
    whole = {"required": schema.pop("required")}  # a mapping that extends another says only what is different
    branches = [{"if": {"required": ["extends"]}, "else": whole}, *(_branch(operation, defs) for operation in WRITES)]
    return {
        "$schema": DIALECT,
        "title": "loadsheet mapping",
        "description": "What a shipper's sheet holds (columns) and what the exchange gets (payload).",
        **schema,
        "allOf": branches,
        "$defs": dict(sorted(defs.items())),
    }


def _branch(operation: Operation, defs: Json) -> Json:
    """The payload of a mapping for one operation, where it is written out whole in this file."""
    names = [operation.name, *([f"{operation.subject}{UPSERT}"] if operation.creates else [])]
    name = _record(operation.record, defs, creates=operation.creates)
    here = {"properties": {"target": {"enum": names}}, "required": ["target"], "not": {"required": ["extends"]}}
    return {"if": here, "then": {"properties": {"payload": {"$ref": f"{_DEFS}{name}"}}}}


def _model(model: type[BaseModel], defs: Json) -> Json:
    """A section as it is written in the file; the sections inside it become definitions."""
    found = model.model_json_schema(by_alias=True, ref_template=_DEFS + "{model}", mode="validation")
    for name, inner in found.pop("$defs", {}).items():
        defs[name] = _written(inner, name)
    return _written(found, model.__name__)


def _written(schema: Json, owner: str) -> Json:
    """A model's schema without pydantic's titles and defaults, with our meanings, and with the short forms that are allowed."""
    properties = {name: _described(f"{owner}.{name}", _loosened(value)) for name, value in schema["properties"].items()}
    return {
        "type": "object",
        "description": " ".join(schema.get("description", "").split()),
        "properties": properties,
        **({"required": schema["required"]} if "required" in schema else {}),
        "additionalProperties": False,
    }


def _loosened(schema: Json) -> Json:
    bare = {key: value for key, value in schema.items() if key not in ("title", "default")}
    if bare.get("type") == "array" and bare.get("items", {}).get("type") == "string":
        return {"anyOf": [bare["items"], bare]}
    if "anyOf" in bare:
        options = [_loosened(option) for option in bare["anyOf"]]
        is_number = any(option.get("type") == "number" for option in options)
        kept = [option for option in options if not (is_number and _NUMBER_TEXT in option)]
        nothing = {"type": "null"}
        kept = [option for option in kept if option != nothing] or kept
        return kept[0] if len(kept) == 1 else {**bare, "anyOf": kept}
    if isinstance(bare.get("additionalProperties"), dict):
        bare["additionalProperties"] = _loosened(bare["additionalProperties"])
    return bare


def _described(key: str, schema: Json) -> Json:
    meaning = MEANINGS.get(key, "")
    return {"description": meaning, **schema} if meaning else schema


def _by_table(definition: str) -> Json:
    """Entries by name for one table, or by table and name for several."""
    one = {"$ref": f"{_DEFS}{definition}"}
    return {
        "type": "object",
        "minProperties": 1,
        "additionalProperties": {
            "anyOf": [one, {"type": "object", "minProperties": 1, "additionalProperties": one}],
        },
    }


# ---- the payload, from the contract ----


def _record(record: Record, defs: Json, *, creates: bool) -> str:
    """The definition of a record's section under `payload:`; returns its name."""
    asks_for_more = any(field.when is When.ON_CREATE for field in record.fields)
    name = f"payload.{record.name.replace(' ', '')}{'OnCreate' if creates and asks_for_more else ''}"
    if name not in defs:
        defs[name] = {}  # a record that holds itself would end here
        required: list[str] = []
        properties: Json = {}
        for field in record.fields:
            if field.when is When.ALWAYS or (creates and field.when is When.ON_CREATE):
                required.append(field.name)
            node = _field(field, defs, creates=creates)
            properties |= dict.fromkeys((field.name, *field.spellings), node)
        defs[name] = {
            "type": "object",
            "description": f"The record {record.name} of the exchange.",
            "properties": properties,
            "required": required,
            "additionalProperties": False,
        }
    return name


def _field(field: Field, defs: Json, *, creates: bool) -> Json:
    meaning = f"{field.meaning}; {EXPECTED.get(field.kind, 'a text')}"
    meaning += f", such as {', '.join(field.known)}" if field.known else ""
    if field.record is None:
        return {"description": meaning, "$ref": f"{_DEFS}Leaf"}
    inner = {"$ref": f"{_DEFS}{_record(field.record, defs, creates=creates)}"}
    return {"description": meaning, **(inner if field.kind is Kind.OBJECT else _list_of(inner, field.record, defs))}


def _list_of(item: Json, record: Record, defs: Json) -> Json:
    """The three ways to write a list: an item for each row, entries written out, or none."""
    entry = {**defs[item["$ref"].removeprefix(_DEFS)]}
    when = {"type": "string", "description": "The entry is there where this condition holds."}
    name = f"payload.{record.name.replace(' ', '')}.entry"
    defs[name] = {**entry, "properties": {"when": when, **entry["properties"]}}
    each = {
        "type": "object",
        "properties": {
            "each": {"type": "string", "description": "A table: one item for each of its rows."},
            "ordered": {
                "type": "boolean",
                "description": "The order of the rows is content: another order is a change.",
            },
            "item": item,
        },
        "required": ["each", "item"],
        "additionalProperties": False,
    }
    entries = {
        "type": "object",
        "properties": {"list": {"type": "array", "items": {"$ref": f"{_DEFS}{name}"}}},
        "required": ["list"],
        "additionalProperties": False,
    }
    none = {
        "type": "object",
        "properties": {"value": {"const": []}},
        "required": ["value"],
        "additionalProperties": False,
    }
    return {"anyOf": [each, entries, none]}


# ---- what the keys mean ----


MEANINGS: dict[str, str] = {
    "MappingSpec.mapping": "The name of this mapping; documents, reports and the ledger carry it.",
    "MappingSpec.version": "Counts up with every change that matters; it travels with every document beside the content hash.",
    "MappingSpec.description": "Whose sheet it is, in words.",
    "MappingSpec.target": "The operation that each record becomes.",
    "MappingSpec.source": "The files, and how their texts are to be read.",
    "MappingSpec.columns": "What the shipper sees: columns by name; with several tables by table and name.",
    "MappingSpec.lookups": "Code tables: CSV files beside the mapping.",
    "MappingSpec.group": "Which rows together make one record. Without it each row of the main table is one.",
    "MappingSpec.constants": "Values that the payload names with const; they may be nested.",
    "MappingSpec.derived": "Values computed for every row and used like columns.",
    "MappingSpec.payload": "What the exchange gets: its record with its own field names.",
    "MappingSpec.checks": "Rules that must hold, with what the shipper reads when one does not.",
    "MappingSpec.batch": "How many records travel in one call.",
    "MappingSpec.order": "Columns by which records are sorted before they are sent.",
    "Source.files": "Patterns of file names: * ? and {placeholder}; one without a slash matches in any folder.",
    "Source.companions": "Files that belong to each main file, by role: the same {placeholder} means the same set.",
    "Source.complete_when": "A trigger file: nothing of the set is read before it is there.",
    "Source.encoding": "Encodings of text files, tried in order.",
    "Source.delimiter": "Delimiters of text files; the one that shows most columns is taken.",
    "Source.quote": "What values of text files are quoted with, doubled within them; none if nothing is.",
    "Source.escape": "What makes the character after it an ordinary one in text files.",
    "Source.blank": "Texts that mean nothing in every column, such as n/a.",
    "Source.locale": "How numbers, month names and countries are written, such as de_DE.",
    "Source.dates": "Formats of dates that are texts, tried in order; real dates of a workbook need none.",
    "Source.timezone": "The time zone of the file's local times: a name, or {col, default} where a column names it.",
    "Source.fold": "Which of the two is meant where clocks go back and a time happens twice.",
    "Source.units": "Further words for units, such as {colis: kg}.",
    "Source.tables": "The tables of the files by name; one of them is the main one, the others are joined to it.",
    "TableSpec.file": "The role of the file that holds this table.",
    "TableSpec.sheet": "Names of the sheet; the first that exists is read.",
    "TableSpec.header_row": "The row that holds the headings, or auto: the first that holds every required one.",
    "TableSpec.ignore_rows": "A condition; rows for which it holds are left out and counted as ignored.",
    "TableSpec.join": "How rows of this table belong to the main one.",
    "Join.to": "The main table.",
    "Join.on": "Columns here and the columns there that they must equal.",
    "Join.missing": "What a row of the main table without a partner here is.",
    "Join.extra": "What a row here without a partner in the main table is.",
    "ZoneSpec.col": "The column of type timezone that names each row's zone.",
    "ZoneSpec.default": "The zone where that column is blank.",
    "Column.label": "The heading in the sheet; compared without case, accents and punctuation around it.",
    "Column.aliases": "Further headings under which the column may come.",
    "Column.type": "What the cells hold.",
    "Column.required": "A blank cell is an error.",
    "Column.key": "Part of what tells records apart.",
    "Column.default": "The value of a blank cell.",
    "Column.blank": "Texts that mean nothing, such as n/a.",
    "Column.control_total": "The column is summed up, and the sums stand in the report.",
    "Column.example": "A cell as the shipper would fill it; the template shows it.",
    "Column.note": "What the shipper should know about the column; the template shows it.",
    "Column.lookup": "The code table that says what a cell means.",
    "Column.lookup_with": "The columns that hold the further keys of a code table with several.",
    "LookupSpec.wildcards": "Whether a * at the end of a key stands for any text.",
    "Column.one_of": "The allowed texts, or {text: meaning}.",
    "Column.ignore_case": "Texts are compared without case.",
    "Column.case": "Brings the text into upper or lower case.",
    "Column.pad_left": "Puts back characters that a program took away, such as leading zeros.",
    "Column.min_length": "The fewest characters.",
    "Column.max_length": "The most characters.",
    "Column.on_too_long": "Whether a longer text is an error, or is cut with a warning.",
    "Column.pattern": "A pattern that the whole text must match.",
    "Column.min": "The smallest number, in the column's unit.",
    "Column.max": "The largest number, in the column's unit.",
    "Column.places": "The most digits after the decimal point.",
    "Column.unit": "The unit that values are brought to, and read in where a cell names none.",
    "Column.from_unit": "The unit of cells that name none, if it is another one.",
    "Column.locale": "How this column's texts are written, where it differs from the file's.",
    "Column.formats": "Formats of this column's dates or times, where they differ from the file's.",
    "Column.yes": "The words for yes.",
    "Column.no": "The words for no.",
    "Pad.to": "So many characters in the end.",
    "Pad.with": "The character to put before the text.",
    "Pad.when": "A condition on the row; without it every text is padded.",
    "LookupSpec.file": "The CSV file, beside the mapping.",
    "LookupSpec.key": "The column of the CSV file that holds the codes.",
    "LookupSpec.value": "The column that holds what a code means, or a list of columns, then used as column.name.",
    "LookupSpec.ignore_case": "Codes are compared without case.",
    "LookupSpec.missing": "What becomes of a code that is not in the table.",
    "Group.by": "Rows that agree in these columns make one record.",
    "Group.one_value": "Columns that must say the same in all rows of a record.",
    "Derived.expr": "The expression over the row's columns.",
    "Derived.type": "What the expression gives.",
    "Check.id": "A short name, for reports.",
    "Check.rule": "The expression that must be true.",
    "Check.say": "What the shipper reads when it is not.",
    "Check.columns": "The cells that are meant, the most telling first.",
    "Check.level": "Whether the record is refused, or sent with a warning.",
    "Check.each": "The table for whose every row the rule is checked; without it once a record.",
    "Batch.max_records": "The most records in one call.",
    "Leaf.col": "A column; several tables: table.column; a code table of several values: column.value.",
    "Leaf.const": "A name under constants.",
    "Leaf.value": "The value itself.",
    "Leaf.expr": "An expression over columns.",
    "Leaf.utc_offset_of": "A date column: its offset from UTC in the form that the field demands.",
    "Leaf.default": "The value where there is none.",
    "Leaf.round": "So many digits after the point, half away from zero.",
    "Leaf.format": "How a date is written, where it is not the field's own form.",
    "Leaf.as": "The form in which it is sent.",
    "Leaf.when": "The field is there where this condition holds.",
    "Leaf.unless_blank": "The field is left out where the value is blank.",
    "MappingSpec.extends": "A mapping file that this one takes everything from which it does not say itself.",
    "MappingSpec.payload_of": "Fields that one of several operations takes otherwise, by the operation's name.",
    "Target.col": "The column whose values say which operation each record becomes.",
    "MappingSpec.errors": "When a drop has too many errors for any of it to be sent.",
    "Errors.stop_at": "The share of invalid records, such as 20%, above which nothing of a drop is sent.",
    "MappingSpec.changed": "What becomes of a record that was accepted before with other content: held for a person, or sent as an update.",
    "TableSpec.header_rows": "Over how many rows the headings are spread.",
    "TableSpec.units_row": "Whether the first row under the headings holds units; auto: if it holds nothing else.",
    "TableSpec.comment": "What rows with comments begin with; they are ignored.",
    "TableSpec.totals": "Rows that state sums: ignored by what they begin with, or each sum compared with the rows above; a file without them is refused.",
    "TableSpec.footer": "The row with which the table ends: it and all rows below are ignored.",
    "TableSpec.stop_at_blank": "Whether the table ends at its first blank row.",
    "TableSpec.hidden_rows": "Whether rows that a workbook hides are read, or ignored and counted.",
    "TableSpec.hidden_columns": "Whether labels are looked for in columns that a workbook hides.",
    "Beginnings.begins_with": "What the first text of such rows begins with, as whole words.",
    "TableSpec.kind": "The rows of one kind in a file that mixes several kinds.",
    "TableSpec.from": "The table whose rows hold the sets that this table is made of.",
    "TableSpec.sets": "How often a set of columns repeats, or the words that stand for {set} in their headings.",
    "TableSpec.filled_by": "Columns of which one must be filled for a set to count.",
    "Kind.label": "The heading of the column that tells the kind of a row.",
    "Kind.is": "The texts that mean this kind.",
    "Kind.others": "What a row of a kind is that no table takes.",
    "Totals.begins_with": "What the first text of rows with sums begins with, as whole words; they are ignored.",
    "Totals.where": "A condition that tells the rows with sums.",
    "Totals.sum": "The columns that are summed.",
    "Totals.over": "Whether sums are over the whole file, or over the rows since the last such row.",
    "Column.file": "A part of the file's name instead of a cell: name, stem, folder or a placeholder of files.",
    "Column.part_of": "The column whose split gives this one.",
    "Column.from_set": "The word of the column set instead of a cell.",
    "Column.above": "A column of the last row above of another kind, as table.column.",
    "Column.place": "The cell at this place in the row, counted from 1, instead of under a heading.",
    "Column.fill_down": "A blank cell means the same as the one above.",
    "Column.split": "A pattern with named groups that takes a cell apart; the parts are columns with part_of.",
}

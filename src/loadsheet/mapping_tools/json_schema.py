"""The JSON Schema of the mapping format (draft 2020-12), made from the models that read a mapping and from the contract.

Owns: the combination of both into one schema for editors: keys, types and words of `mapping/schema.py` with their meaning, and under
`payload:` the fields of the record that `target` names. The schema is as strict as possible. Checks across sections (does this column
exist?) need `lint`.
"""

from typing import Any

from pydantic import BaseModel

from loadsheet.contract import EXPECTED, WRITES, Field, Kind, Operation, Record, When
from loadsheet.mapping.schema import SOURCES_OF_A_VALUE, Column, Derived, Leaf, MappingSpec, Target, ZoneSpec

Json = dict[str, Any]

DIALECT = "https://json-schema.org/draft/2020-12/schema"
_DEFS = "#/$defs/"
_TEXTS: Json = {"type": "array", "items": {"type": "string"}}
_SETS: Json = {
    "anyOf": [
        {"type": "integer", "minimum": 1, "maximum": 200},
        {"type": "array", "items": {"type": "string"}, "minItems": 1},
        {"type": "object", "additionalProperties": {"type": "string"}, "minProperties": 1},
    ]
}
_NUMBER_TEXT = "pattern"  # pydantic also allows a Decimal as text with a pattern; a mapping has a number


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
    upserts = [f"{operation.subject}.upsert" for operation in WRITES if operation.creates]
    names = {"type": "string", "enum": [*(operation.name for operation in WRITES), *upserts]}
    properties["target"] = _described("MappingSpec.target", {"anyOf": [names, {"$ref": f"{_DEFS}Target"}]})
    defs["TableSpec"]["properties"]["sets"] = _described("TableSpec.sets", _SETS)
    whole = {"required": schema.pop("required")}  # a mapping that extends another has only the differences
    branches = [{"if": {"required": ["extends"]}, "else": whole}, *(_branch(operation, defs) for operation in WRITES)]
    return {
        "$schema": DIALECT,
        "title": "loadsheet mapping",
        "description": "The columns of a shipper's sheet and the payload for the exchange.",
        **schema,
        "allOf": branches,
        "$defs": dict(sorted(defs.items())),
    }


def _branch(operation: Operation, defs: Json) -> Json:
    """The payload of a mapping for one operation, if this file contains it completely."""
    names = [operation.name, *([f"{operation.subject}.upsert"] if operation.creates else [])]
    name = _record(operation.record, defs, creates=operation.creates)
    here = {"properties": {"target": {"enum": names}}, "required": ["target"], "not": {"required": ["extends"]}}
    return {"if": here, "then": {"properties": {"payload": {"$ref": f"{_DEFS}{name}"}}}}


def _model(model: type[BaseModel], defs: Json) -> Json:
    """The schema of a section. The sections inside it become definitions."""
    found = model.model_json_schema(by_alias=True, ref_template=_DEFS + "{model}", mode="validation")
    for name, inner in found.pop("$defs", {}).items():
        defs[name] = _written(inner, name)
    return _written(found, model.__name__)


def _written(schema: Json, owner: str) -> Json:
    """A model's schema without pydantic's titles and defaults, with our descriptions and the allowed short forms."""
    properties = {name: _described(f"{owner}.{name}", _loosened(value)) for name, value in schema["properties"].items()}
    required = schema.get("required")
    return _object(properties, required, description=" ".join(schema.get("description", "").split()))


def _object(properties: Json, required: list[str] | None = None, **more: Any) -> Json:
    """The schema of a section with these keys only."""
    needed = {"required": required} if required is not None else {}
    return {"type": "object", **more, "properties": properties, **needed, "additionalProperties": False}


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
    entry = {"$ref": f"{_DEFS}{definition}"}
    return {
        "type": "object",
        "minProperties": 1,
        "additionalProperties": {
            "anyOf": [entry, {"type": "object", "minProperties": 1, "additionalProperties": entry}],
        },
    }


# ---- the payload, from the contract ----


def _record(record: Record, defs: Json, *, creates: bool) -> str:
    """The definition of a record's section under `payload:`; returns its name."""
    asks_for_more = any(field.when is When.ON_CREATE for field in record.fields)
    name = f"payload.{record.name.replace(' ', '')}{'OnCreate' if creates and asks_for_more else ''}"
    if name not in defs:
        defs[name] = {}  # ends the recursion for a record that contains itself
        required: list[str] = []
        properties: Json = {}
        for field in record.fields:
            if field.when is When.ALWAYS or (creates and field.when is When.ON_CREATE):
                required.append(field.name)
            node = _field(field, defs, creates=creates)
            properties |= dict.fromkeys((field.name, *field.spellings), node)
        defs[name] = _object(properties, required, description=f"The record {record.name} of the exchange.")
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
    when = {"type": "string", "description": "The entry is sent if this condition holds."}
    name = f"payload.{record.name.replace(' ', '')}.entry"
    defs[name] = {**entry, "properties": {"when": when, **entry["properties"]}}
    ordered = {"type": "boolean", "description": "The order of the rows is content: a different order is a change."}
    rows = {"type": "string", "description": "A table: one item for each of its rows."}
    each = _object({"each": rows, "ordered": ordered, "item": item}, ["each", "item"])
    entries = _object({"list": {"type": "array", "items": {"$ref": f"{_DEFS}{name}"}}}, ["list"])
    return {"anyOf": [each, entries, _object({"value": {"const": []}}, ["value"])]}


# ---- descriptions of the keys ----


MEANINGS: dict[str, str] = {
    "MappingSpec.mapping": "The name of this mapping in documents, reports and the ledger.",
    "MappingSpec.version": "Increase it with every relevant change. It is stored with every document beside the content hash.",
    "MappingSpec.description": "The owner and purpose of the sheet.",
    "MappingSpec.target": "The operation that each record becomes.",
    "MappingSpec.source": "The files and their notation.",
    "MappingSpec.columns": "The shipper's columns by name; with several tables by table and name.",
    "MappingSpec.lookups": "Code tables: CSV files beside the mapping.",
    "MappingSpec.group": "The rows that form one record. Without it, each row of the main table is a record.",
    "MappingSpec.constants": "Values that the payload uses with const; they may be nested.",
    "MappingSpec.derived": "Values computed for every row and used like columns.",
    "MappingSpec.payload": "The record for the exchange, with the exchange's field names.",
    "MappingSpec.checks": "Rules for records, with the message for the shipper if a rule fails.",
    "MappingSpec.batch": "The number of records in one call.",
    "MappingSpec.order": "Columns by which records are sorted before they are sent.",
    "Source.files": "Patterns of file names: * ? and {placeholder}; one without a slash matches in any folder.",
    "Source.companions": "Files that belong to each main file, by role: files with the same {placeholder} value form a set.",
    "Source.complete_when": "A trigger file: the set is read only when this file exists.",
    "Source.shared": "Whether other mappings with shared: true may read the same file, each for its own records.",
    "Source.encoding": "Encodings of text files, tried in order.",
    "Source.delimiter": "Delimiters of text files; the one that finds most columns is used.",
    "Source.quote": "The quote character of text files, doubled inside values; none if values are not quoted.",
    "Source.escape": "The escape character of text files.",
    "Source.blank": "Texts that count as blank in every column, such as n/a.",
    "Source.locale": "The locale of numbers, month names and countries, such as de_DE.",
    "Source.dates": "Formats of text dates, tried in order; date cells of a workbook need none.",
    "Source.timezone": "The time zone of the file's local times: a name, or {col, default} if a column has it.",
    "Source.fold": "Which of two equal local times to use when clocks go back.",
    "Source.units": "Further words for units, such as {colis: kg}.",
    "Source.tables": "The tables of the files by name. One is the main table; the others are joined to it.",
    "TableSpec.file": "The role of the file with this table.",
    "TableSpec.sheet": "Possible names of the sheet; the first one that exists is read.",
    "TableSpec.header_row": "The row with the headings, or auto: the first row with all required headings.",
    "TableSpec.ignore_rows": "A condition; rows that meet it are left out and counted as ignored.",
    "TableSpec.join": "How rows of this table relate to the main table.",
    "Join.to": "The main table.",
    "Join.on": "Columns of this table and the equal columns of the other table.",
    "Join.missing": "The result for a row of the main table without a partner in this table.",
    "Join.extra": "The result for a row of this table without a partner in the main table.",
    "ZoneSpec.col": "The column of type timezone with each row's zone.",
    "ZoneSpec.default": "The zone if that column is blank.",
    "Column.label": "The heading in the sheet; compared without case, accents and punctuation around it.",
    "Column.aliases": "Other accepted headings of the column.",
    "Column.type": "The type of the cells.",
    "Column.required": "A blank cell is an error.",
    "Column.key": "The column is part of the record's key.",
    "Column.default": "The value of a blank cell.",
    "Column.blank": "Texts that count as blank, such as n/a.",
    "Column.example": "An example cell for the template.",
    "Column.note": "A note for the shipper in the template.",
    "Column.lookup": "The code table that translates the cells.",
    "Column.lookup_with": "The columns with the other keys of a code table with several keys.",
    "LookupSpec.wildcards": "Whether a * at the end of a key matches any text.",
    "Column.one_of": "The allowed texts, or {text: meaning}.",
    "Column.ignore_case": "Comparison ignores case.",
    "Column.case": "Converts the text to upper or lower case.",
    "Column.pad_left": "Restores lost leading characters, such as zeros.",
    "Column.min_length": "The fewest characters.",
    "Column.max_length": "The most characters.",
    "Column.on_too_long": "Whether a longer text is an error, or is cut with a warning.",
    "Column.pattern": "A pattern that the whole text must match.",
    "Column.min": "The smallest number, in the column's unit.",
    "Column.max": "The largest number, in the column's unit.",
    "Column.places": "The most digits after the decimal point.",
    "Column.unit": "The unit of the values, and the default unit of cells.",
    "Column.from_unit": "The unit of cells without one, if it differs from unit.",
    "Column.locale": "The locale of this column, if it differs from the file's.",
    "Column.formats": "Formats of this column's dates or times, if they differ from the file's.",
    "Column.yes": "The words for yes.",
    "Column.no": "The words for no.",
    "Pad.to": "The length after padding.",
    "Pad.with": "The padding character.",
    "Pad.when": "A condition on the row. Without it, every text is padded.",
    "LookupSpec.file": "The CSV file, beside the mapping.",
    "LookupSpec.key": "The column of the CSV file with the codes.",
    "LookupSpec.value": "The column with the meaning of a code, or a list of columns, used as column.name.",
    "LookupSpec.ignore_case": "Comparison of codes ignores case.",
    "LookupSpec.missing": "The result for a code that is not in the table.",
    "Group.by": "Rows with equal values in these columns form one record.",
    "Group.one_value": "Columns with one value in all rows of a record.",
    "Derived.expr": "The expression over the row's columns.",
    "Derived.type": "The type of the result.",
    "Check.id": "A short name, for reports.",
    "Check.rule": "The expression that must be true.",
    "Check.say": "The message for the shipper if it is false.",
    "Check.columns": "The cells concerned, the most relevant first.",
    "Check.level": "Whether the record is refused, or sent with a warning.",
    "Check.each": "The table whose rows are checked one by one. Without it, the rule is checked once for each record.",
    "Batch.max_records": "The most records in one call.",
    "Leaf.col": "A column: column, table.column for several tables, or column.value for a code table with several values.",
    "Leaf.const": "A name under constants.",
    "Leaf.value": "The value itself.",
    "Leaf.expr": "An expression over columns.",
    "Leaf.utc_offset_of": "A date column: its UTC offset in the form of the field.",
    "Leaf.default": "The value if the source is blank.",
    "Leaf.round": "The number of digits after the point; half is rounded away from zero.",
    "Leaf.format": "The date format, if it differs from the field's form.",
    "Leaf.as": "The form in which it is sent.",
    "Leaf.when": "The field is sent if this condition holds.",
    "Leaf.unless_blank": "Has no effect: a blank value always leaves its field out. Only true is accepted.",
    "MappingSpec.extends": "The base mapping file. Keys of this file override it.",
    "MappingSpec.payload_of": "Fields that differ for one of several operations, by the operation's name.",
    "Target.col": "The column with the operation of each record.",
    "MappingSpec.errors": "The number of errors at which nothing of a drop is sent.",
    "Errors.stop_at": "The share of invalid records, such as 20%. Above it, nothing of a drop is sent.",
    "MappingSpec.changed": "The action for an accepted record with changed content: hold for a person, or send as an update.",
    "TableSpec.header_rows": "The number of rows with headings.",
    "TableSpec.units_row": "Whether the first row under the headings has units; auto: only if all its cells are units.",
    "TableSpec.comment": "The text at the start of comment rows, which are ignored.",
    "TableSpec.totals": "Rows with totals: ignored by their first words, or compared with the rows above. Then a file without them is refused.",
    "TableSpec.footer": "The row that ends the table. It and all rows below are ignored.",
    "TableSpec.stop_at_blank": "Whether the table ends at its first blank row.",
    "TableSpec.hidden_rows": "Whether rows that a workbook hides are read, or ignored and counted.",
    "TableSpec.hidden_columns": "Whether labels in columns that a workbook hides are used.",
    "Beginnings.begins_with": "The first words of these rows, as whole words.",
    "TableSpec.kind": "The rows of one kind in a file that mixes several kinds.",
    "TableSpec.from": "The table whose rows contain the sets of this table.",
    "TableSpec.sets": "The number of column sets, or the words for {set} in their headings.",
    "TableSpec.filled_by": "A set counts if one of these columns is filled.",
    "Kind.label": "The heading of the column with the kind of a row.",
    "Kind.is": "The texts that mean this kind.",
    "Kind.others": "The result for a row of a kind that no table takes.",
    "Totals.begins_with": "The first words of total rows, as whole words; these rows are ignored.",
    "Totals.where": "A condition for total rows.",
    "Totals.sum": "The columns with sums.",
    "Totals.over": "Whether sums cover the whole file, or only the rows since the last total row.",
    "Column.file": "A part of the file's name instead of a cell: name, stem, folder or a placeholder of files.",
    "Column.part_of": "The split column that contains this one.",
    "Column.from_set": "Use the word of the column set instead of a cell.",
    "Column.above": "A column of the last row above of another kind, as table.column.",
    "Column.place": "The cell at this place in the row, counted from 1, instead of under a heading.",
    "Column.fill_down": "A blank cell gets the value of the cell above.",
    "Column.split": "A pattern with named groups that splits a cell; the parts are columns with part_of.",
}

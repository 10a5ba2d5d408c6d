"""The mapping file's own model: its sections, keys and types. `yamlfile.py` reads a file and reports errors.

`columns` describes the shipper's side, `payload` the exchange's side; see the class docstrings.
The tree under `payload` has the exchange's field names as keys, so only its leaves are modelled here; `payload.py` walks it.
Knows no file of rows and no field of the interface.
"""

import re
from decimal import Decimal
from functools import cache, partial
from typing import Annotated, Any, Literal, NamedTuple, get_args, get_origin

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    PositiveInt,
    StringConstraints,
    ValidationInfo,
    WithJsonSchema,
    field_validator,
)
from pydantic import Field as ModelField
from pydantic.fields import FieldInfo
from pydantic_core import PydanticCustomError

from loadsheet.languages import LANGUAGES, Language

_AS_LIST = BeforeValidator(lambda value: value if isinstance(value, list) else [value])


def _as_share(value: object) -> object:
    """`20%` is 0.2. A plain number is refused: 1 could mean 100% or 1%."""
    found = _SHARE.fullmatch(value) if isinstance(value, str) else None
    if found is None or Decimal(found[1]) > 100:
        raise PydanticCustomError("share", "must be a percentage such as 20%")
    return Decimal(found[1]) / 100


def _as_quote(value: object) -> object:
    if not isinstance(value, str) or (len(value) != 1 and value != "none"):
        raise PydanticCustomError("quote", "must be one character, or none")
    return value


def _as_message(value: object) -> object:
    if value == {}:
        raise PydanticCustomError(
            "message", "needs a message in at least one of {known}", {"known": ", ".join(LANGUAGES)}
        )
    return value


_SHARE = re.compile(r"([0-9]{1,3}(?:\.[0-9]+)?) ?%")
Share = Annotated[
    Decimal, BeforeValidator(_as_share), WithJsonSchema({"type": "string", "pattern": f"^{_SHARE.pattern}$"})
]
Names = Annotated[list[str], _AS_LIST]
Number = Annotated[Decimal, BeforeValidator(lambda value: Decimal(value) if type(value) is int else value)]
Name = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]*$", max_length=80)]
Text = Annotated[str, StringConstraints(min_length=1, strip_whitespace=True)]
Letter = Annotated[str, StringConstraints(min_length=1, max_length=1)]
Quote = Annotated[str, BeforeValidator(_as_quote), WithJsonSchema({"type": "string", "pattern": "^(.|none)$"})]
Message = Annotated[str | Annotated[dict[Language, Text], ModelField(min_length=1)], BeforeValidator(_as_message)]
Miss = Literal["error", "ignore"]
Level = Literal["error", "warning"]


class Part(BaseModel):
    """One section. Unknown keys and values of the wrong type are findings, never ignored."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


def _as_sets(value: object) -> object:
    if type(value) is int and 0 < value <= _MOST_SETS:
        return {str(number): str(number) for number in range(1, value + 1)}
    if isinstance(value, list) and all(isinstance(word, str) for word in value):
        return {word: word for word in value}
    return value


_MOST_SETS = 200
Sets = Annotated[dict[str, str], BeforeValidator(_as_sets), ModelField(min_length=1)]
SET = "{set}"
"""Placeholder in a label for the word of each set in the header."""


class Kind(Part):
    """The rows of one kind in a file with several kinds. `label` is the heading of the kind column, `is` lists the texts of this kind,
    `others` handles rows of kinds that no table takes.
    """

    label: str
    is_: Names = ModelField(alias="is", min_length=1)
    others: Miss = "error"


class Totals(Part):
    """Rows with totals, found in one of two ways. `begins_with`: their first text begins with these whole words, in any case. Such rows
    are ignored. `where`: each `sum` column must be the sum of its cells in all rows above, or in those since the last such row
    (`over: block`). A file without such a row is refused as truncated.
    """

    begins_with: Annotated[list[Text], _AS_LIST] = ModelField([], min_length=1)
    where: str | None = None
    sum: Names = ModelField([], min_length=1)
    over: Literal["file", "block"] = "file"


class Join(Part):
    """Rows of this table belong to the rows of `to` with equal columns: `on` is {column here: column there}.
    `missing`: a row there without a partner here. `extra`: a row here without a partner there.
    """

    to: str
    on: dict[str, str] = ModelField(min_length=1)
    missing: Miss = "error"
    extra: Miss = "error"


class Beginnings(Part):
    """Rows whose first text begins with these whole words, in any case."""

    begins_with: Annotated[list[Text], _AS_LIST] = ModelField(min_length=1)


class TableSpec(Part):
    """The place of one table. `file` is a role of `source.companions`, or a name for the main file.

    With `sets`, each row gives one row for every filled set of columns: a label `Item {set}` means `Item 1`, `Item 2` ... `from` takes
    the sets from the rows of another table; the new rows belong to them. With `filled_by`, only these columns and `required` ones make a
    set count as filled, so optional columns and zeros may be prefilled. With `repeated`, the headings of the sets have no word of their
    own: `{set}` stands for nothing, and the headings repeat in one order, such as Item, Qty, Item, Qty. With `kind`, the table has the rows of one kind.

    `header_rows` is the number of rows with labels. These rows are ignored and counted: `units_row` (true: the first row under the
    header; auto: only if all its cells are units), `comment` (rows that begin with this text), `totals` (anywhere), `footer` (this row
    and all below), `stop_at_blank` (all below the first blank row), `hidden_rows` (ignore: rows that a workbook hides), and rows for which
    the expression `ignore_rows` holds. With `hidden_columns: ignore`, labels in hidden columns of a workbook do not count.
    """

    file: str | None = None
    sheet: Names | None = None
    header_row: Literal["auto"] | PositiveInt = "auto"
    header_rows: Literal["auto", 1, 2, 3, 4, 5] = "auto"
    units_row: Literal["auto"] | bool = "auto"
    comment: Text | None = None
    footer: Beginnings | None = None
    stop_at_blank: bool = False
    hidden_rows: Literal["read", "ignore"] | None = None
    hidden_columns: Literal["read", "ignore"] = "read"
    ignore_rows: str | None = None
    totals: Totals | None = None
    kind: Kind | None = None
    from_: str | None = ModelField(None, alias="from")
    sets: Sets | None = None
    repeated: bool = False
    filled_by: Names = []
    join: Join | None = None


class ZoneSpec(Part):
    """The time zone of each row in a column of type timezone; `default` where it is blank or the table has no such column."""

    col: str
    default: str


class Source(Part):
    """The files and their notation.

    Text files: `encoding` and `delimiter` are detected among the listed ones (default: the usual ones). `quote` encloses values and is
    doubled inside them (none: no quotes; default: the double quote). `escape` makes the next character an ordinary one. `locale` sets
    the decimal mark and the group separator. `blank` lists texts that count as blank in any file and column.

    `shared`: other mappings with this key may read the same file. Each of them makes its own records from it.
    """

    files: Names = ModelField(min_length=1)
    companions: dict[Name, str] = {}
    complete_when: str | None = None
    shared: bool = False
    encoding: Names | None = None
    delimiter: Annotated[list[Letter], _AS_LIST] | None = None
    quote: Quote | None = None
    escape: Letter | None = None
    blank: Names = []
    locale: str | None = None
    dates: Names = []
    timezone: Any = None
    fold: Literal["error", "first", "second"] = "error"
    units: dict[str, str] = {}
    tables: dict[str, TableSpec] = ModelField(default={"rows": TableSpec()}, min_length=1)

    @field_validator("shared")
    @classmethod
    def _is_single_file(cls, value: object, info: ValidationInfo) -> object:
        others = [key for key in ("companions", "complete_when") if info.data.get(key)]
        if value and others:
            raise PydanticCustomError("shared", "must be false beside {key}", {"key": others[0]})
        return value


class Pad(Part):
    """Pads a text on the left to `to` characters where `when` holds, such as for lost leading zeros."""

    to: PositiveInt
    with_: Letter = ModelField("0", alias="with")
    when: str | None = None


ColumnType = Literal[
    "text", "integer", "decimal", "quantity", "date", "time", "datetime", "country", "currency", "yesno", "timezone"
]

_EVERY_TYPE = "label aliases type required key default convert blank example note file part_of from_set above place occurrence fill_down"
_KEYS_OF_TYPE = {
    "text": "lookup lookup_with one_of ignore_case case pad_left min_length max_length on_too_long pattern split",
    "integer": "min max locale lookup",
    "decimal": "min max places currency locale lookup",
    "quantity": "min max locale unit from_unit unit_column lookup",
    "date": "formats locale lookup",
    "time": "formats locale",
    "datetime": "formats locale lookup",
    "country": "locale",
    "currency": "locale",
    "yesno": "yes no locale",
    "timezone": "one_of ignore_case",
}


WHERE_CELLS_ARE = ("file", "part_of", "from_set", "above", "place")
"""The keys that locate the cells of a column without a heading."""


class Column(Part):
    """One column as the shipper sees it: its heading and the conversion of its cells.

    Without a heading, its cells are one of these: a part of the file's name (`file`: name, stem, folder or a placeholder of `files`), a
    named group of another column's `split` (`part_of`), the word of the column set (`from_set`), a cell of the last row above of
    another kind (`above: table.column`), or the cell at a `place` counted from 1.

    `occurrence` is for a heading that repeats: which of its columns is meant, from left to right. The header must then have exactly as
    many columns of this heading as the mapping reads. `convert` names a function of another package that gets the text of each cell first.
    """

    label: str | None = None
    aliases: Names = []
    type: ColumnType = "text"
    required: bool = False
    key: bool = False
    default: Any = None
    convert: str | None = None
    blank: Names = []
    file: str | None = None
    part_of: str | None = None
    from_set: bool = False
    above: str | None = None
    place: PositiveInt | None = None
    occurrence: PositiveInt | None = None
    fill_down: bool = False
    example: Any = None
    note: str = ""
    lookup: str | None = None
    lookup_with: Names = []
    one_of: dict[str, str] | list[str] | None = None
    ignore_case: bool = False
    case: Literal["upper", "lower"] | None = None
    pad_left: Pad | None = None
    min_length: PositiveInt | None = None
    max_length: PositiveInt | None = None
    on_too_long: Literal["error", "cut_and_warn"] = "error"
    pattern: str | None = None
    split: str | None = None
    min: Number | None = None
    max: Number | None = None
    places: Annotated[int, ModelField(ge=0, le=12)] | None = None
    unit: str | None = None
    from_unit: str | None = None
    unit_column: str | None = None
    currency: str | None = None
    locale: str | None = None
    formats: Names = []
    yes: Names = []
    no: Names = []

    def misplaced(self) -> list[str]:
        """The keys that are set but do not apply to this type."""
        return sorted(self.model_fields_set.difference(_EVERY_TYPE.split(), _KEYS_OF_TYPE.get(self.type, "").split()))

    def whereabouts(self) -> list[str]:
        """The keys other than `label` that locate its cells."""
        return [*filter(partial(getattr, self), WHERE_CELLS_ARE)]


class RangeSpec(Part):
    """The rows of a key differ by an interval of a number or a date. A row holds a value that is at least `from` and below `to`; with
    `upper: included`, at most `to`. A blank bound is open. Gaps between the rows of a key are refused unless `gaps: allow`.
    """

    from_: str = ModelField(alias="from")
    to: str
    upper: Literal["excluded", "included"] = "excluded"
    gaps: Literal["refuse", "allow"] = "refuse"


ValueType = Literal["text", "decimal", "integer", "date", "datetime", "yesno"]


class LookupSpec(Part):
    """A code table: a CSV file beside the mapping, or with `table` a table of `source.tables`, of which other tables find one row each. `key` is
    the column with the codes, or a list of columns that must all match. With `wildcards`, `*` at the end of a key matches any text. The row
    with the longest match wins; the first key counts before the second. With a `range`, the last column of `lookup_with` holds the number or
    date that is searched. Overlapping rows are refused, unless `match` says which one counts.

    Of a file, `value` is the column looked up, or a list of columns. `types` gives the types of values that are no texts; they are written like
    1234.5, 2026-03-31 and yes. Of a table, all columns under `columns` can be named: `sku.weight` is the weight in the row of that `sku`.
    """

    file: str | None = None
    table: str | None = None
    key: Names = []
    value: str | list[str] = []
    types: dict[str, ValueType] = {}
    range: RangeSpec | None = None
    match: Literal["only", "first", "last"] = "only"
    ignore_case: bool = False
    wildcards: bool = False
    missing: Literal["error", "keep", "blank"] = "error"


Weekday = Literal["monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"]


class CalendarSpec(Part):
    """The days off of a calendar for `$add_working_days`, `$working_days` and `$is_working_day`: the weekend, and holidays as ISO dates here, in
    a file beside the mapping with one date a line, or both.
    """

    weekend: Annotated[list[Weekday], _AS_LIST] = ["saturday", "sunday"]
    holidays: Names = []
    file: str | None = None


class Group(Part):
    """All rows with equal `by` columns form one record. `one_value` columns must be equal in all of them, as must columns that the record
    uses outside of lists. To use one of several values, write an expression over `rows`, such as `[r.city for r in rows][0]`.
    """

    by: Names = ModelField(min_length=1)
    one_value: Names = []


class Derived(Part):
    """A value computed for every row, usable like a column."""

    expr: str
    type: Literal["text", "decimal", "datetime", "time", "yesno"] = "decimal"


class Check(Part):
    """A condition for records. `rule` is an expression, `say` the message for the shipper if it fails, in one language or by language,
    `columns` the cells concerned.
    """

    id: Name
    rule: str
    say: Message
    columns: Names = []
    level: Level = "error"
    each: str | None = None


class Batch(Part):
    """How many records travel in one call, for the operation that takes several."""

    max_records: PositiveInt


class Errors(Part):
    """The share of invalid records at which nothing of a drop is sent."""

    stop_at: Share


class Leaf(Part):
    """One value of the payload. Exactly one of the first five keys gives its source; the others set its form."""

    col: str | None = None
    const: str | None = None
    value: Any = None
    expr: str | None = None
    utc_offset_of: str | None = None
    default: Any = None
    round: Annotated[int, ModelField(ge=0, le=12)] | None = None
    format: str | None = None
    as_: Literal["text", "number", "yes/no", "true/false"] | None = ModelField(None, alias="as")
    when: str | None = None
    unless_blank: bool = True


SOURCES_OF_A_VALUE = ("col", "const", "value", "expr", "utc_offset_of")


class Target(Part):
    """The operation of each record, chosen by a column. Its `one_of` or code table gives the operation's name."""

    col: str


class MappingSpec(Part):
    """The whole file. Parts whose shape depends on others (columns, derived, payload) are plain values here."""

    mapping: Name
    version: PositiveInt
    description: str = ""
    extends: str | None = None
    target: Any
    source: Source
    columns: dict[str, Any] = ModelField(min_length=1)
    lookups: dict[str, LookupSpec] = {}
    calendars: dict[Name, CalendarSpec] = {}
    group: Group | None = None
    constants: dict[str, Any] = {}
    derived: dict[str, Any] = {}
    payload: dict[str, Any] = ModelField(min_length=1)
    payload_of: dict[str, dict[str, Any]] = {}
    checks: list[Check] = []
    batch: Batch | None = None
    order: Names = []
    errors: Errors | None = None
    changed: Literal["hold", "update"] = "hold"  # for a create whose record was accepted before with other content


# ---- where each key stands ----

PLAIN_SECTIONS: dict[str, type[BaseModel]] = {
    "columns": Column,
    "derived": Derived,
    "payload": Leaf,
    "target": Target,
    "source.timezone": ZoneSpec,
}
"""The sections that `MappingSpec` holds as plain values, and what is written in them."""


class Key(NamedTuple):
    """A key of the mapping format: where it stands, the model that reads it, and its section as authors write it (`source.tables.NAME`)."""

    path: str
    model: type[BaseModel]
    field: FieldInfo
    name: str  # as it is written: `from`, not `from_`
    section: str


@cache
def keys() -> dict[str, Key]:
    """Every key of the format by its path, such as `source.tables.join.on`. A model that several keys hold counts at its first place."""
    found: dict[str, Key] = {}
    seen: set[type[BaseModel]] = set()

    def walk(model: type[BaseModel], above: str, section: str) -> None:
        if model in seen:
            return
        seen.add(model)
        for attribute, field in model.model_fields.items():
            name = field.alias or attribute
            path, below = (f"{start}.{name}" if start else name for start in (above, section))
            found[path] = Key(path, model, field, name, section)
            inner = [PLAIN_SECTIONS[path]] if path in PLAIN_SECTIONS else models_in(field.annotation)
            for one in inner:
                walk(one, path, f"{below}.NAME" if get_origin(field.annotation) is dict else below)

    walk(MappingSpec, "", "")
    return found


def models_in(annotation: Any) -> list[type[BaseModel]]:
    """The models that an annotation names, such as that of the members of a list."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [model for part in get_args(annotation) for model in models_in(part)]

"""One value of the payload: where it comes from and how it is written in the record.

A leaf of the payload tree is compiled into one function. The contract defines the forms of values (kinds, numbers, flags). A type that
cannot fill the field is refused at load. A blank value leaves its field out: neither null nor an empty text is sent unless the mapping
has `{value: ""}`. `round` rounds half away from zero to the given number of digits.
"""

import operator
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, time, timedelta
from decimal import ROUND_HALF_UP, Decimal
from functools import partial
from typing import Any

from loadsheet.contract import (
    DATE_SHAPES,
    Assumptions,
    Field,
    FieldKind,
    FlagForm,
    NumberForm,
    Record,
    WrongForm,
    clock_offsets,
    plain_digits,
    show_same_clock,
    unit_field,
    wire_form,
    zone_names,
)
from loadsheet.mapping.documents import Source
from loadsheet.mapping.names import DocumentFrame, Names, Needs, with_positions
from loadsheet.mapping.notations import check_written, check_zone_word, offset_minutes
from loadsheet.mapping.plans import CALCULATION_ERRORS, Evaluate, Type, reason_text
from loadsheet.mapping.schema import SOURCES_OF_A_VALUE, Leaf
from loadsheet.mapping.units import conversion_factor, unit_named
from loadsheet.mapping.yamlfile import Loc, YamlFile, read_part
from loadsheet.similar_text import closest_or_known, short_list

OMIT = object()
"""Marks a field that is left out of the record."""

Make = Callable[[DocumentFrame], Any]

_NOTHING = Needs()

_TEXT_KINDS = frozenset(
    {
        FieldKind.STRING,
        FieldKind.STRING_OR_NUMERIC,
        FieldKind.TIMEZONE,
        FieldKind.OFFSET_HOURS,
        FieldKind.OFFSET_MINUTES,
    }
)
_TAKES: dict[FieldKind, tuple[str, frozenset[Type], str]] = {
    **{kind: ("a date", frozenset({Type.MOMENT}), "type: datetime") for kind in DATE_SHAPES},
    FieldKind.TIME: ("a time of day", frozenset({Type.MOMENT, Type.SPAN}), "type: time or datetime"),
    FieldKind.NUMERIC: ("a number", frozenset({Type.NUMBER}), "type: decimal"),
    FieldKind.FLAG: (
        "yes or no",
        frozenset({Type.FLAG, Type.TEXT}),
        "type: yesno",
    ),  # a code table may give a flag word
}
"""What a field of this kind holds, the types of values that it takes, and what to write in the mapping."""

_TAKES_TEXT = ("a text", frozenset({Type.TEXT, Type.NUMBER, Type.FLAG}), "")


@dataclass(frozen=True, slots=True)
class PayloadContext:
    """What a payload is compiled with: the names its values may have, the mapping's constants, and how values are written."""

    names: Names
    constants: Mapping[str, Any]
    assumptions: Assumptions
    zone_known: bool


@dataclass(frozen=True, slots=True)
class LeafContext:
    """The place of a leaf: its field and record, the list it is in, and its path."""

    field: Field
    record: Record
    item: int | None
    path: str
    payload: PayloadContext

    def refuse(self, loc: Loc, text: str, hint: str = "") -> None:
        """Add a finding at `loc`."""
        self.payload.names.file.refuse(loc, text, hint)


@dataclass(frozen=True, slots=True)
class _Value:
    """A value before it is spelled. `constant` is set if it is the same for every document. `turned` converts what `get` returns.
    `is_column` says whether `get` returns the value of a column.
    """

    get: Evaluate
    type: Type
    needs: Needs
    sources: tuple[Source, ...]
    constant: Any = OMIT
    turned: Callable[[Any], Any] | None = None
    is_column: bool = False


@dataclass(frozen=True, slots=True)
class LeafPlan:
    """A compiled leaf: the function that makes its value, its sources, the constant if it is one, and whether it is in every record."""

    make: Make
    sources: tuple[Source, ...]
    constant: Any = OMIT
    is_fixed: bool = False


def plan_leaf(value: object, context: LeafContext, loc: Loc) -> LeafPlan | None:
    """Compile a leaf; None with findings if it is invalid."""
    if not isinstance(value, dict):
        source = "col" if any(str(value) in table.shape.slots for table in context.payload.names.tables) else "value"
        hint = (
            "write {value: ...}, {col: ...} or {expr: ...}"
            if isinstance(value, list)
            else f"write {{{source}: {value}}}"
        )
        context.refuse(loc, f"{context.field.name} has no source for its value", hint)
        return None
    leaf = read_part(Leaf, context.payload.names.file, value, loc)
    if leaf is None:
        return None
    given = leaf.model_fields_set.intersection(SOURCES_OF_A_VALUE)
    if len(given) != 1:
        actual = f"has {' and '.join(sorted(given, key=SOURCES_OF_A_VALUE.index))}" if given else "has none"
        context.refuse(loc, f"{context.field.name} takes one of {short_list(SOURCES_OF_A_VALUE)}; it {actual}")
        return None
    if not leaf.unless_blank:
        text = "unless_blank: false has no effect: a blank value always leaves its field out"
        context.payload.names.file.refuse((*loc, "unless_blank"), text, "remove it, or set default")
    elif "unless_blank" in leaf.model_fields_set and leaf.default is not None:
        text = "unless_blank has no effect: default replaces a blank value"
        context.payload.names.file.refuse((*loc, "unless_blank"), text, "remove one of them")
    names, when = context.payload.names, None
    if leaf.when is not None:
        when = names.condition_at(leaf.when, context.item, context.path, (*loc, "when"))
    at = (*loc, *given)
    found = _value(leaf, context, at)
    if found is None or not _fits(found, leaf, context, at):
        return None
    plan = _spelled(found, leaf, context, at)
    if plan is None or when is None:
        return plan
    make, holds = plan.make, when.holds
    return replace(plan, make=lambda frame: make(frame) if holds(frame) else OMIT, is_fixed=False)


def _spelled(found: _Value, leaf: Leaf, context: LeafContext, loc: Loc) -> LeafPlan | None:
    """The leaf without its condition. A constant or default that the field cannot take is a finding."""
    try:
        spelled = _speller(found.type, leaf, context)
        default = OMIT if leaf.default is None else spelled(leaf.default)
        constant = OMIT if found.constant is OMIT else spelled(found.constant)
    except (ValueError, ArithmeticError) as error:
        at = loc if leaf.const is None else ("constants", *leaf.const.split("."))
        context.refuse(at, f"{context.field.name}: {error or 'it cannot be rounded'}")
        return None
    if constant is not OMIT:
        if not _is_zone_of_times(constant, context, loc):
            return None
        return LeafPlan(lambda _: constant, found.sources, constant, is_fixed=True)
    if found.turned is not None:
        spelled = _chain([found.turned, spelled])
    known = context.field.known if context.payload.assumptions.known_values == "open" else ()
    if found.is_column and spelled is unchanged and not known:
        return LeafPlan(_copy(found.get, default), found.sources)
    return LeafPlan(_Spelling(found, spelled, default, known, context).make, found.sources)


# ---- where a value comes from ----


def _value(leaf: Leaf, context: LeafContext, loc: Loc) -> _Value | None:
    if leaf.const is not None or "value" in leaf.model_fields_set:
        return _constant(leaf, context, loc)
    text = leaf.expr or leaf.utc_offset_of or ""
    if leaf.expr is not None or text.startswith("$"):
        expression = context.payload.names.expression(text, context.item, loc)
        if expression is None:
            return None
        sources = context.payload.names.sources(expression.uses, context.item)
        found = _Value(expression.evaluate, expression.type, context.payload.names.needs(expression.uses), sources)
    else:
        reference = context.payload.names.reference(leaf.col or text, context.item, loc)
        if reference is None:
            return None
        found = _Value(reference.get, reference.type, reference.needs, reference.sources, is_column=True)
    return found if leaf.utc_offset_of is None else _offset_value(found, text, context, loc)


def _offset_value(moment: _Value, text: str, context: LeafContext, loc: Loc) -> _Value | None:
    kind = context.field.kind
    if moment.type is not Type.MOMENT:
        context.refuse(loc, f"utc_offset_of needs a date; {text} is {moment.type.value}")
        return None
    if not context.payload.zone_known:
        context.refuse(loc, "utc_offset_of needs source.timezone", "such as timezone: Europe/Berlin")
        return None
    if kind not in (FieldKind.OFFSET_HOURS, FieldKind.OFFSET_MINUTES):
        context.refuse(loc, f"{context.field.name} is not an offset from UTC")
        return None
    in_hours = partial(_hours, as_clock=context.payload.assumptions.offset_hours_form == "clock")
    written: Callable[[datetime], object] = offset_minutes if kind is FieldKind.OFFSET_MINUTES else in_hours
    return replace(moment, type=Type.NUMBER if kind is FieldKind.OFFSET_MINUTES else Type.TEXT, turned=written)


def _constant(leaf: Leaf, context: LeafContext, loc: Loc) -> _Value | None:
    found: Any = leaf.value
    if leaf.const is not None:
        found = _constant_at(context.payload.constants, leaf.const)
        if found is OMIT:
            hint = closest_or_known(leaf.const, _constant_names(context.payload.constants))
            context.refuse(loc, f'there is no constant "{leaf.const}"', hint)
            return None
    if found is None or isinstance(found, Mapping | list):
        at = ("constants", *leaf.const.split(".")) if found is None and leaf.const else loc
        wrong = "has no value: fill it in" if found is None else "takes one value, found more than one value"
        text = f"{context.field.name} {wrong}"
        context.payload.names.file.refuse(at, text, at_key=found is None)
        return None
    return _Value(lambda _: found, Type.ANY, _NOTHING, (), constant=found)


def _constant_at(constants: Mapping[str, Any], path: str) -> Any:
    """The constant of this name, such as `parties.sender`; OMIT if there is none."""
    found: Any = constants
    for step in path.split("."):
        if not isinstance(found, Mapping) or step not in found:
            return OMIT
        found = found[step]
    return found


def _constant_names(constants: Mapping[str, Any], above: str = "") -> list[str]:
    names = []
    for name, value in constants.items():
        names += _constant_names(value, f"{above}{name}.") if isinstance(value, Mapping) else [f"{above}{name}"]
    return names


def _hours(moment: datetime, *, as_clock: bool) -> str:
    """The UTC offset in hours: `+02:30` or `2.5`."""
    minutes = offset_minutes(moment)
    if as_clock:
        return f"{'-' if minutes < 0 else '+'}{abs(minutes) // 60:02d}:{abs(minutes) % 60:02d}"
    return plain_digits((Decimal(minutes) / 60).normalize()) if minutes else "0"


# ---- whether it fits, and how it is spelled ----


def _fits(value: _Value, leaf: Leaf, context: LeafContext, loc: Loc) -> bool:
    """Whether this value can fill the field; if not, the finding names the type that can."""
    field, kind, found = context.field, context.field.kind, value.type
    problem = ""
    if leaf.format is not None:
        problem = "" if found in (Type.MOMENT, Type.SPAN) else f"format is for dates, not for {found.value}"
        found = Type.TEXT
    elif found is Type.MOMENT and kind not in DATE_SHAPES:
        problem = "a date needs a format here, such as format: '%Y-%m-%d'"
    if leaf.round is not None and value.type not in (Type.NUMBER, Type.ANY):
        problem = f"round is for numbers, not for {value.type.value}"
    if kind is FieldKind.DATETIME_ISO and found is Type.MOMENT and not context.payload.zone_known:
        problem = "it is sent in UTC; set source.timezone"
    if found is Type.CODE_ROW:
        problem = "a row of a code table has several values; name one"
    if leaf.as_ == "number" and value.type is Type.TEXT and not _is_a_code(leaf, context, loc):
        problem = "as: number is for numbers and values of a code table; the notation of a text is unknown"
    holds, types, wanted = _TAKES.get(kind, _TAKES_TEXT)
    is_written = (leaf.format is not None and kind in DATE_SHAPES) or (
        leaf.as_ == "number" and kind is FieldKind.NUMERIC
    )
    if not (problem or is_written or found is Type.ANY or found in types):
        problem = f"it holds {holds}, found {found.value}"
    if problem:
        wanted = "type: decimal" if leaf.as_ == "number" else wanted
        context.refuse(loc, f"{field.name}: {problem}", _remedy(wanted, value.type, leaf, context, loc))
    return not problem and (leaf.format is None or _says_its_zone(leaf.format, context, loc))


def _remedy(wanted: str, found: Type, leaf: Leaf, context: LeafContext, loc: Loc) -> str:
    """What to write in the mapping, given the setting of a column that the field wants: at the column, or in the expression."""
    if leaf.expr is not None:
        is_number = found is Type.TEXT and context.field.kind is FieldKind.NUMERIC
        return "write $to_number(...) for the number that a text says" if is_number else wanted
    named = context.payload.names.column(leaf.col, context.item, loc) if leaf.col is not None else None
    slot = named[0].shape.slots[named[1]] if named is not None and not named[2] else None
    if slot is None or slot.type is not Type.TEXT or slot.is_code or not (slot.declared_at and wanted):
        return wanted
    return f"give the column {leaf.col} {wanted}, in {slot.declared_at}"


def _says_its_zone(format_: str, context: LeafContext, loc: Loc) -> bool:
    """Whether a literal zone in a format is the zone of its times. Adds a finding if not."""
    try:
        check_zone_word(format_, _source_zone(context.payload.names.file) or None)
    except ValueError as error:
        context.refuse(loc, f"{context.field.name}: {error}")
        return False
    return True


def _is_zone_of_times(constant: object, context: LeafContext, loc: Loc) -> bool:
    """Whether a constant time zone is that of the local times beside it. Adds a finding if not. True for any other field."""
    zone = _source_zone(context.payload.names.file)
    if context.field.kind is not FieldKind.TIMEZONE or show_same_clock(zone, str(constant)):
        return True
    text = f"{context.field.name} is {constant}, but times are sent as clocks in {zone} show them (source.timezone)"
    context.refuse(loc, text, "name one zone in both places; times with their zone behind them are converted to it")
    return False


def notes_on_offset(constant: object, field: Field, file: YamlFile) -> Iterator[str]:
    """The note on a constant offset if the clocks of the file's time zone change in the year."""
    zone = _source_zone(file)
    if field.kind is FieldKind.OFFSET_HOURS and zone in zone_names() and len({*clock_offsets(zone)}) > 1:
        yield f"{field.name} is {constant} all year, but clocks in {zone} change; utc_offset_of follows them"


def _source_zone(file: YamlFile) -> str:
    """The name of the time zone of the file's local times; empty if it is unknown or not the same for all rows."""
    zone = (file.values or {}).get("source", {}).get("timezone")
    return zone if isinstance(zone, str) else ""


def _is_a_code(leaf: Leaf, context: LeafContext, loc: Loc) -> bool:
    """Whether a text comes from the mapping or its code table, not from the cell."""
    found = context.payload.names.column(leaf.col, context.item, loc) if leaf.col is not None else None
    column = found[0].column(found[1]) if found is not None else None
    if column is None or column.spec.lookup is None:
        return column is not None and isinstance(column.spec.one_of, dict)
    table = context.payload.names.file.values["lookups"][column.spec.lookup]
    return "table" not in table and table.get("missing") != "keep"


def _speller(found: Type, leaf: Leaf, context: LeafContext) -> Callable[[Any], Any]:
    """The function from a value to its form in the record. Raises ValueError for an invalid format."""
    kind, record = context.field.kind, context.record
    flags = FlagForm(leaf.as_) if leaf.as_ in {"yes/no", "true/false"} else context.payload.assumptions.flag_form
    numbers = {"text": NumberForm.JSON_STRING, "number": NumberForm.JSON_NUMBER}.get(leaf.as_ or "", record.numbers)
    steps: list[Callable[[Any], Any]] = []
    if leaf.round is not None:
        places = Decimal(1).scaleb(-leaf.round)
        steps.append(lambda value: Decimal(value).quantize(places, ROUND_HALF_UP))
    if leaf.format is not None:
        check_written(leaf.format)
        steps += [_time_of_day, operator.methodcaller("strftime", leaf.format)]
    elif kind is FieldKind.TIME:
        steps.append(_time_of_day)
    is_plain = (found is Type.TEXT and kind in _TEXT_KINDS and leaf.as_ != "number") or (
        found is Type.NUMBER and kind is FieldKind.NUMERIC and numbers is NumberForm.JSON_NUMBER
    )
    if found is Type.FLAG and leaf.default is None and not steps:
        words = {value: wire_form(kind, value, numbers=numbers, flags=flags) for value in (True, False)}
        return words.__getitem__
    if not is_plain or leaf.default is not None:
        steps.append(lambda value: wire_form(kind, value, numbers=numbers, flags=flags))
    if leaf.as_ == "number" and kind in (FieldKind.STRING_OR_NUMERIC, FieldKind.OFFSET_MINUTES):
        steps.append(lambda value: wire_form(FieldKind.NUMERIC, value, numbers=numbers, flags=flags))
    return unchanged if not steps else steps[0] if len(steps) == 1 else _chain(steps)


def unchanged(value: Any) -> Any:
    """The spelling of a value that is already in the record's form."""
    return value


def _chain(steps: list[Callable[[Any], Any]]) -> Callable[[Any], Any]:
    def chained(value: Any) -> Any:
        for step in steps:
            value = step(value)
        return value

    return chained


def _time_of_day(value: Any) -> Any:
    """A time of day as such; other values as they are."""
    if not isinstance(value, timedelta):
        return value
    if not timedelta() <= value < timedelta(days=1):
        raise WrongForm(f"a time of day, found {value / timedelta(hours=1):g} h")
    minutes, seconds = divmod(int(value.total_seconds()), 60)
    return time(minutes // 60, minutes % 60, seconds)


# ---- the compiled leaf ----


def _copy(get: Evaluate, default: Any) -> Make:
    def make(frame: DocumentFrame) -> Any:
        found = get(frame)
        return default if found is None else found

    return make


@dataclass(frozen=True, slots=True)
class _Spelling:
    """How a value is written in the record. `default` replaces a blank. A value that is not `known` gets a warning, unless `known` is empty."""

    value: _Value
    spelled: Callable[[Any], Any]
    default: Any
    known: tuple[str, ...]
    context: LeafContext

    def make(self, frame: DocumentFrame) -> Any:
        """The record's form of the value. OMIT if a cell that it needs was refused, or if it cannot be calculated or written."""
        if frame.all_refused and frame.lacks(self.value.needs):
            frame.skipped.append(with_positions(self.context.path, frame.at))
            return OMIT
        try:
            found = self.value.get(frame)
            if found is None or found == "":
                return self.default
            wire = self.spelled(found)
        except CALCULATION_ERRORS as error:
            self._add_fault(error, frame)
            return OMIT
        if self.known and wire not in self.known:
            frame.unlisted.append((with_positions(self.context.path, frame.at), str(wire), self.known))
        return wire

    def _add_fault(self, error: BaseException, frame: DocumentFrame) -> None:
        """Adds the fault of this value to the document."""
        path = with_positions(self.context.path, frame.at)
        if isinstance(error, WrongForm):
            text = f"must be {error.expected}"
            frame.faults.append((path, "K501", {"path": path, "text": text}))
        else:
            frame.faults.append((path, "G407", {"target": self.context.field.name, "reason": reason_text(error)}))


# ---- units ----


def check_units(leaves: Mapping[str, Any], item: int | None, context: PayloadContext, loc: Loc) -> None:
    """Check quantities and amounts whose unit or currency is a constant: the column must have the same. Calculated ones, and units in
    columns, are only known when rows are read.
    """
    file = context.names.file
    extra = (file.values or {}).get("source", {}).get("units") or {}
    for name, leaf in leaves.items():
        column_name = leaf.get("col") if isinstance(leaf, Mapping) else None
        if not isinstance(column_name, str):
            continue
        other_field, stated = unit_field(name), None
        if isinstance(unit_leaf := leaves.get(other_field), Mapping):
            const = unit_leaf.get("const")
            stated = unit_leaf.get("value") if const is None else _constant_at(context.constants, str(const))
        if not isinstance(stated, str):
            continue
        found = context.names.column(column_name, item, (*loc, name, "col"))
        column = found and found[0].column(found[1])
        if column and column.reference is not None and found:
            column = context.names.tables[column.reference.position].column(found[2])
        if column and column.spec.currency not in (None, stated):
            file.refuse((*loc, name), f"{name} is in {column.spec.currency}, but {other_field} is {stated}")
        if not column or column.spec.type != "quantity" or (unit := column.spec.unit) is None:
            continue
        try:
            times = conversion_factor(unit_named(unit, extra), unit_named(stated, extra))
        except ValueError:  # a unit of the exchange's own that cannot be compared
            continue
        if times != 1:
            brought = f"set unit: {stated.lower()} on the column {column.name} to convert it"
            hint = brought if times is not None else "they measure different things"
            file.refuse((*loc, name), f"{name} is in {unit}, but {other_field} is {stated}", hint)

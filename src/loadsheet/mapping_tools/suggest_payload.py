"""The payload of a draft: for every field of the record a leaf, or a constant to fill in.

Owns: values computed without a column (ends of windows, offsets, units), and the marks of leaves. `payload_totals.py` has the totals. Fields are
identified by their meaning and kind in the contract. Knows no text of a column: that is the job of `suggest.py`.
"""

from collections.abc import Callable, Iterator, Sequence

from loadsheet.contract import DATE_SHAPES, Action, Field, FieldKind, Record, When
from loadsheet.mapping.yamlfile import flow
from loadsheet.mapping_tools.columns import CHECK, MOMENTS, UTC
from loadsheet.mapping_tools.drafts import FILL_IN, Draft, DraftColumn
from loadsheet.mapping_tools.headings import SIDES, concepts_of, event_code_field, gives_event
from loadsheet.mapping_tools.payload_parts import (
    Line,
    Payload,
    clock_of,
    coded_zones,
    currency_of,
    doubt_of_clock,
    habits_of,
    heading_in_utc,
    is_reference,
    is_without_clock,
    join_clock,
    join_columns,
    joined,
    moment_in,
    names_on,
    of_days,
    of_rows,
    over_midnight,
    take_contents_entry,
    take_further_columns,
    take_numbered_entries,
    take_party_entries,
    unit_leaf,
)
from loadsheet.mapping_tools.payload_totals import (
    Totals,
    doubt_of_whole,
    name_with_default,
    round_converted,
    value_of_pieces,
)

UNDER_CONSTANTS = f"{FILL_IN} under constants"
"""The comment at the use of a constant that is to be filled in."""

_TRANSIT = "P1D"  # assumed time from pickup to delivery if the sheet has only one of them
_WINDOW = "PT4H"  # assumed length of a window if the sheet has only one end
_LENGTH = f"{CHECK} the length; no column has it"
_OFFSETS = (FieldKind.OFFSET_HOURS, FieldKind.OFFSET_MINUTES)


def fill(draft: Draft) -> Payload:
    """The payload of a draft. Adds defaults to columns that a record needs."""
    return _Filler(draft).payload()


class _Filler:
    """Fills one record, field by field, in the contract's order."""

    def __init__(self, draft: Draft) -> None:
        self._draft = draft
        self._made = Payload()
        self._persons: list[DraftColumn] = []  # whose names stand for blank companies
        self._clocks: dict[DraftColumn, DraftColumn] = {}  # by the column of dates
        self._habits = habits_of(draft)
        self._changes = draft.operation.action is Action.UPDATE
        is_missing = draft.operation.action is Action.STATUS and not gives_event(draft.operation, draft.by_path)
        self._event = event_code_field(draft.operation.record.fields) if is_missing else None
        self._totals = Totals(draft)

    def payload(self) -> Payload:
        """The lines of the whole record."""
        self._find_zone()
        self._made.volume = self._totals.volume
        for field_ in (one for one in self._draft.operation.record.fields if one.when is not When.LISTED):
            if field_.record is None:
                self._top_leaf(field_)
            elif field_.kind is FieldKind.OBJECT:
                self._object(field_, field_.record)
            else:
                self._list(field_, field_.record)
        self._draft.mark_used(*self._persons)
        return self._made

    # ---- leaves of the record itself ----

    def _top_leaf(self, field_: Field) -> None:
        needed = self._is_required(field_) or field_ is self._event
        found = self._draft.by_path.get(field_.name)
        if found is not None and not (found.nullable and needed and self._counts(field_)):
            leaf, remark = self._from_column(field_, found, needed=needed)
            remark = self._draft.doubted(field_.name, remark)
            if field_.kind is FieldKind.DATETIME_ISO and not self._made.zone:  # sent in UTC
                remark = "; ".join(filter(None, (remark, f"{FILL_IN} source.timezone")))
        else:
            leaf, remark = self._computed(field_, needed=needed)
        if leaf:
            self._line(1, field_.name, leaf, remark)

    def _is_required(self, field_: Field) -> bool:
        return field_.is_required(creates=self._draft.operation.creates)

    def _from_column(self, field_: Field, drafted: DraftColumn, *, needed: bool) -> tuple[str, str]:
        varies = self._draft.varies(drafted)
        name = self._draft.ref(drafted)
        if together := self._with_another(field_, drafted):
            return together
        rows = f"for r in {drafted.table.name}])'"
        if field_.kind is FieldKind.NUMERIC and varies:
            digits = 2 if "value" in concepts_of(field_) else 3
            return f"{{expr: '$sum([r.{name_with_default(drafted)} {rows}, round: {digits}}}", doubt_of_whole(drafted)
        if field_.kind in DATE_SHAPES and varies and not drafted.nullable:
            moments = of_rows(drafted, late="late" in concepts_of(field_))
            return f"{{expr: '{moments}'}}", f"{CHECK}: its dates differ within a record"
        if needed and drafted.nullable:
            return self._blank_or(field_, drafted, name)
        return f"{{col: {name}{round_converted(drafted)}}}", ""

    def _with_another(self, field_: Field, drafted: DraftColumn) -> tuple[str, str] | None:
        """The leaf for a day with its time of day, or a text, from several columns; None for other fields."""
        if further := take_further_columns(self._draft, field_, drafted):
            labels = " and ".join(one.column.label for one in further)
            return join_columns(self._draft, drafted, further), f"{CHECK}: with {labels}"
        if field_.kind not in DATE_SHAPES:
            return None
        if clock := clock_of(self._draft, drafted):
            join_clock(self._draft, drafted, clock)
            self._clocks[drafted] = clock
            return self._shifted(drafted, ""), doubt_of_clock(drafted, clock)
        if field_.kind is not FieldKind.DATE and is_without_clock(drafted):
            return of_days(self._draft, field_, drafted, self._other_end(concepts_of(field_)))
        return None

    def _blank_or(self, field_: Field, drafted: DraftColumn, name: str) -> tuple[str, str]:
        """A needed field whose column has blank cells."""
        concepts = concepts_of(field_)
        usual = self._usual(field_) if drafted.column.guess.type in {"text", "country", "currency"} else ""
        if usual and self._draft.group:  # a default in the column would differ from the value in another row
            return f"{{col: {name}, default: {usual}}}", f"{CHECK} the default for blank cells"
        if usual:
            codes = drafted.keys.get("one_of")
            own = [code for code, meant in codes.items() if meant == usual] if isinstance(codes, dict) else []
            drafted.keys["default"] = own[0] if own else usual
            drafted.nullable = False
            drafted.remark += f"; {CHECK} the default for blank cells"
            return f"{{col: {name}}}", ""
        if "company" in concepts and (names := names_on(drafted.column.concepts & SIDES, drafted.table)):
            self._persons += names
            return (
                f"{{expr: '{name} ?? {joined(self._draft, names)}'}}",
                f"{CHECK}: the name of the person where it is blank",
            )
        if {"second", "province", "postal"} & concepts:
            remark = f"{CHECK}: sent empty for blank cells; without the default such records are refused"
            return f'{{col: {name}, default: ""}}', remark
        other = self._other_end(concepts) if field_.kind in DATE_SHAPES else None
        if other and not other.nullable:
            sign = "+" if "late" in concepts else "-"
            leaf = f"{{expr: '{name} ?? ({self._draft.ref(other)} {sign} t\"{_WINDOW}\")'}}"
            return leaf, f"{CHECK} the length for blank cells"
        return f"{{col: {name}}}", "records without it are refused"

    def _computed(self, field_: Field, *, needed: bool) -> tuple[str, str]:
        """The leaf for a field without a column; empty for an optional field without any information."""
        concepts, kind = concepts_of(field_), field_.kind
        if kind in _OFFSETS:
            return self._offset(field_, needed=needed)
        if kind is FieldKind.TIMEZONE or "timezone" in concepts:
            return self._zone_leaf(field_)
        if not needed and kind in DATE_SHAPES:
            return (self._by_other_end(concepts) if self._changes else self._end_by_clock(concepts)) or ("", "")
        if not needed:
            kinds = dict(self._draft.operation.record.walk())
            is_priced = any({"rate", "value"} & concepts_of(kinds[path]) for path in self._draft.by_path)
            named = currency_of(self._draft) if "currency" in concepts and is_priced else ""
            return (f"{{value: {named}}}", f"{CHECK}: no column has it; the amounts name it") if named else ("", "")
        return self._from_rows(field_, concepts) or self._assumed(field_, concepts) or self._constant(field_)

    def _from_rows(self, field_: Field, concepts: frozenset[str]) -> tuple[str, str] | None:
        """The leaf for a field computed from other columns, if possible."""
        if "unit" in concepts:
            return f"{unit_leaf(field_)}}}", ""
        if concepts - SIDES == {"company"} and (names := names_on(concepts & SIDES, self._draft.main)):
            self._persons += names
            return (
                f"{{expr: '{joined(self._draft, names)}'}}",
                f"{CHECK}: the name of the person; no column has a company",
            )
        if field_.kind in DATE_SHAPES and (by_other := self._by_other_end(concepts)):
            return by_other
        is_new = self._draft.operation.creates and self._draft.chosen_by is None
        if field_.kind in DATE_SHAPES and is_new and (day := self._other_side(concepts)):
            by = f' {"+" if "delivery" in concepts else "-"} t"{_TRANSIT}"' + f' + t"{_WINDOW}"' * ("late" in concepts)
            return self._shifted(day, by), f"{CHECK}: no column has it; one day is assumed"
        return self._totals.leaf(concepts) if field_.kind is FieldKind.NUMERIC else None

    def _assumed(self, field_: Field, concepts: frozenset[str]) -> tuple[str, str] | None:
        """The usual value of a field without a column: the sheet's own currency, that of the other mappings in the folder, or of the language."""
        if "value" in concepts and (by_pieces := value_of_pieces(self._draft, self._totals.lines)):
            return by_pieces
        value, count = self._draft.folder.fields.get(field_.name, ("", 0))
        named = currency_of(self._draft) if "currency" in concepts else ""
        if value and named in ("", value):
            others = "the other mapping" if count == 1 else f"the other {count} mappings"
            return f"{{value: {flow(value)}}}", f"{CHECK}: no column has it; as in {others}"
        if {"second", "province"} & concepts:
            return '{value: ""}', f"{CHECK}: no column; sent empty"
        if {"volume"} == concepts - {"total"} or "value" in concepts:
            return "{value: 0}", f"{CHECK}: no column has it; sent as 0"
        usual = self._usual(field_)
        return (f"{{value: {usual}}}", f"{CHECK}: no column has it") if usual else None

    def _constant(self, field_: Field) -> tuple[str, str]:
        self._made.constants[field_.name] = field_.meaning
        return f"{{const: {field_.name}}}", UNDER_CONSTANTS

    def _usual(self, field_: Field) -> str:
        """The value that the sheet's language or headings suggest for a field, if any."""
        concepts = concepts_of(field_)
        if "country" in concepts and "timezone" not in concepts:
            return self._habits.get("country", "")
        if "currency" in concepts:
            return self._habits.get("currency", "")
        return field_.known[0] if "mode" in concepts else ""

    # ---- moments ----

    def _counts(self, field_: Field) -> bool:
        """Whether a field can be counted from the rows without a column."""
        has_lines = any("[]" in path for path in self._draft.by_path)
        return field_.kind is FieldKind.NUMERIC and has_lines and self._totals.leaf(concepts_of(field_)) is not None

    def _other_end(self, concepts: frozenset[str]) -> DraftColumn | None:
        """The column with the other end of the same window."""
        side, end = concepts & SIDES, concepts & {"early", "late"}
        return self._moment_where(lambda theirs: bool(side) and side <= theirs and not end & theirs)

    def _other_side(self, concepts: frozenset[str]) -> DraftColumn | None:
        """The column with the moment of the pickup for one of the delivery, or the other way round."""
        side = concepts & SIDES
        return self._moment_where(lambda theirs: bool(side and theirs & SIDES) and not side & theirs)

    def _moment_where(self, fits: Callable[[frozenset[str]], bool]) -> DraftColumn | None:
        """The column of the first moment of the record whose meaning fits."""
        by_path, fields = self._draft.by_path, self._draft.operation.record.fields
        own = (field_ for field_ in fields if field_.kind in DATE_SHAPES and field_.name in by_path)
        return next((by_path[field_.name] for field_ in own if fits(concepts_of(field_))), None)

    def _by_other_end(self, concepts: frozenset[str]) -> tuple[str, str] | None:
        """An end of a window by the other one. A change needs it too: the old one at the exchange may lie on the wrong side of the new one."""
        if (other := self._other_end(concepts)) is None:
            return None
        sign, end = ("+", "end") if "late" in concepts else ("-", "beginning")
        kept = f"; without this line the old {end} stays at the exchange" * self._changes
        return self._end_by_clock(concepts) or (self._shifted(other, f' {sign} t"{_WINDOW}"'), f"{_LENGTH}{kept}")

    def _end_by_clock(self, concepts: frozenset[str]) -> tuple[str, str] | None:
        """The end of a window on the day of its other end, at the time in a column of its own; None without such a column."""
        day = self._other_end(concepts) if "late" in concepts else None
        clock = clock_of(self._draft, day, late=True) if day is not None else None
        if day is None or clock is None:
            return None
        join_clock(self._draft, day, clock)
        next_day, remark = over_midnight(self._draft, self._clocks.get(day), clock)
        return self._moment_at(day, clock, "", next_day), f"{doubt_of_clock(day, clock)}{remark}"

    def _shifted(self, day: DraftColumn, by: str) -> str:
        """The leaf for the moment in a column, with its time of day from a separate column if there is one, shifted by a duration."""
        return self._moment_at(day, self._clocks.get(day), by)

    def _moment_at(self, day: DraftColumn, clock: DraftColumn | None, by: str, next_day: str = "") -> str:
        text, there = moment_in(self._draft, day, clock, next_day)
        return f"{{expr: '{text}{by}', when: '{there}'}}" if there else f"{{expr: '{text}{by}'}}"

    def _moment(self) -> DraftColumn | None:
        """A column with a moment of the record, if there is one: always filled and the same in all its rows, if possible."""
        moments = [found for found in self._draft.by_path.values() if found.keys["type"] in MOMENTS]
        varies = self._draft.varies
        return min(moments, key=lambda one: ("created" in one.column.concepts, varies(one), one.nullable), default=None)

    def _offset(self, field_: Field, *, needed: bool) -> tuple[str, str]:
        moment = self._moment()
        if moment is None:
            return self._constant(field_) if needed else ("", "")
        remark = "" if self._made.zone else f"{FILL_IN} source.timezone"
        if "created" in moment.column.concepts:
            remark = "; ".join(filter(None, (remark, f"{CHECK}: no column has the day of the pickup")))
        differs = self._draft.varies(moment) and not moment.nullable
        text = f"'{of_rows(moment, late=False)}'" if differs else self._draft.ref(moment)
        return f"{{utc_offset_of: {text}}}", remark

    def _find_zone(self) -> None:
        made, main = self._made, self._draft.main
        column = next((drafted for drafted in main.columns if drafted.column.guess.type == "timezone"), None)
        if column is not None:
            zones = column.column.cells.shown
            made.zone, made.zone_column = max(sorted(zones), key=lambda zone: zones[zone]), column
            made.zone_remark = f"each row has its own, and sends its times in it; {CHECK} the default for blank cells"
            column.keys.pop("required", None)
            column.nullable = True
            self._draft.mark_used(column)
        elif self._moment() is not None:
            folder, own = self._draft.folder, heading_in_utc(self._draft)
            made.zone = UTC if own else folder.zone or self._habits.get("zone", "")
            why = "as in the other mappings" if folder.zone else "the sheet names no time zone"
            named = f"by the heading {own}" if own else why
            remark = f"{CHECK}: {named}" if made.zone else f"{FILL_IN} such as Europe/Berlin"
            made.zone_remark = remark + coded_zones(self._draft)

    def _zone_leaf(self, field_: Field) -> tuple[str, str]:
        made = self._made
        if made.zone_column is not None:
            made.zone_column.keys["default"] = made.zone
            return f"{{col: {self._draft.ref(made.zone_column)}}}", ""
        if made.zone:
            return f"{{value: {made.zone}}}", f"{CHECK}, as source.timezone"
        return self._constant(field_) if self._is_required(field_) else ("", "")

    # ---- lists and objects ----

    def _object(self, field_: Field, record: Record) -> None:
        lines = []
        filled: dict[frozenset[str], str] = {}
        for inner in record.fields:
            found = self._draft.by_path.get(f"{field_.name}.{inner.name}")
            leaf = ""
            if found is not None:
                leaf = f"{{col: {self._draft.ref(found)}}}"
                if found.column.guess.type == "datetime" and not is_without_clock(found):
                    filled[concepts_of(inner)] = leaf
            elif inner.kind is FieldKind.TIME:  # the time of the same moment
                leaf = filled.get(concepts_of(inner), "")
            if leaf:
                lines.append(Line(2, f"{inner.name}: {leaf}", self._draft.doubted(f"{field_.name}.{inner.name}")))
        if lines:
            self._made.lines += [Line(1, f"{field_.name}:"), *lines]

    def _list(self, field_: Field, record: Record) -> None:
        here = f"{field_.name}[]."
        if any(path.startswith(here) for path in self._draft.by_path):
            self._made.lines += [
                Line(1, f"{field_.name}:"),
                Line(2, f"each: {self._totals.lines.name}"),
                Line(2, "item:"),
            ]
            for inner in record.fields:
                self._item_leaf(inner, here)
            return
        if len(record.fields) == 2:
            self._pairs(field_, record)
        elif "carrier" in concepts_of(field_):
            if lines := take_numbered_entries(self._draft, record):
                remark = f"{CHECK}: the name, or a code for a lookup?"
                self._made.lines += [Line(1, f"{field_.name}:", remark), Line(2, "list:"), *lines]
        elif found := take_party_entries(self._draft, record):
            self._entries(1, field_, found, "the parties")

    def _entries(self, depth: int, field_: Field, entries: Sequence[tuple[int, str]], what: str) -> None:
        self._made.lines += [Line(depth, f"{field_.name}:", f"{CHECK} {what}"), Line(depth + 1, "list:")]
        self._made.lines += [Line(depth + 2 + below, text) for below, text in entries]

    def _item_leaf(self, field_: Field, here: str) -> None:
        if field_.record is not None:
            found = take_contents_entry(self._draft, self._totals.lines, field_.record)
            if found:
                self._entries(3, field_, found, "the contents")
            return
        concepts = concepts_of(field_)
        filled = self._draft.by_path.get(here + field_.name)
        if "unit" in concepts:
            self._item_unit(field_, concepts)
        elif filled is not None:
            digits = ", round: 3" if filled.column.guess.type == "quantity" else ""
            self._line(3, field_.name, f"{{col: {filled.name}{digits}}}", self._draft.doubted(here + field_.name))
        elif "volume" in concepts and self._totals.volume:
            self._line(3, field_.name, "{col: volume, round: 4, when: 'volume > 0'}", "")
        elif concepts == {"quantity"} and self._totals.is_one_row and (counted := self._totals.top_column("package")):
            self._line(3, field_.name, f"{{col: {counted.name}}}", f"{CHECK}: all packages of the row are alike")
        elif field_.when is When.ALWAYS:
            self._line(3, field_.name, *self._constant(field_))

    def _item_unit(self, field_: Field, concepts: frozenset[str]) -> None:
        for measure in concepts & {"weight", "volume", "length", "width", "height"}:
            drafted = self._totals.by_concept.get(measure)
            leaf = unit_leaf(field_)
            if drafted is not None:
                when = f", when: '{drafted.name} != null'" if drafted.nullable else ""
                self._line(3, field_.name, f"{leaf}{when}}}", "")
            elif measure == "volume" and self._totals.volume:
                self._line(3, field_.name, f"{leaf}, when: 'volume > 0'}}", "")

    def _pairs(self, field_: Field, record: Record) -> None:
        """A list of names and values, for columns without a field."""
        priced = "service" in concepts_of(field_)
        entries: list[Line] = []
        for drafted in self._draft.of_record():
            concepts, is_price = drafted.column.concepts, drafted.column.guess.type in ("decimal", "quantity")
            is_named = not concepts - {"service", *SIDES} and "%" not in drafted.column.label
            if priced is is_price and (is_named if priced else is_reference(concepts)):
                entries += self._pair(record, drafted)
        if entries:
            remark = f"{CHECK}: columns that fill no other field"
            self._made.lines += [Line(1, f"{field_.name}:", remark), Line(2, "list:"), *entries]

    def _pair(self, record: Record, drafted: DraftColumn) -> Iterator[Line]:
        name, value = record.fields
        ref = self._draft.ref(drafted)
        yield Line(3, f"- when: '{ref} != null'")
        yield Line(4, f"{name.name}: {{value: {flow(drafted.column.label)}}}")
        yield Line(4, f"{value.name}: {{col: {ref}}}")
        self._draft.mark_used(drafted)
        if drafted.column.guess.type not in ("text", "decimal"):
            for key in drafted.column.guess.keys:  # keys of its former type
                drafted.keys.pop(key, None)
            drafted.keys["type"] = "text"

    def _line(self, depth: int, name: str, leaf: str, remark: str) -> None:
        self._made.lines.append(Line(depth, f"{name}: {leaf}", remark))

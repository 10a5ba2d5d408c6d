"""Assigns the columns of a sheet to the fields of the interface, by the meaning of headings and help texts and by the values.

Owns: the score of a column for a field, the assignment, the probable operation of a sheet, and the milestone columns. Column sets turn
each filled milestone into an event. Fields are identified by meaning, kind and named values in the contract; this module contains no
field names.
"""

from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from loadsheet.contract import DATE_SHAPES, WRITES, Action, Field, Kind, Operation, Record, When
from loadsheet.mapping.plans import CellProblem
from loadsheet.mapping.words import currency_reader
from loadsheet.mapping_tools.column_types import CHECK, Guess, Reading, vocabulary, words_of
from loadsheet.mapping_tools.sheet_profiles import Column, Sheet

_SOFT = frozenset(
    {"code", "current", "customer", "id", "reference", "first", "moment", "company", "early", "count", "milestone"}
)
_SIDES = frozenset({"pickup", "delivery"})
_HARD = frozenset(
    {"inner", "unit", "second", "late", "chargeable", "estimated", "offset", "unused"}
)  # a heading and a field have both or neither
_PLANNED = frozenset({"moment", "estimated", "early", "late"})  # headings of planned moments, not of events
_TIMES = frozenset({"early", "late", "moment"})
_NAMED_IN_WORDS = frozenset({"company", "contact", "city", "province", "location", "address", "pickup", "delivery"})
_MADE_OF_DIGITS = frozenset({"postal", "phone", "id", "reference"})
_LEAST = 0.3
_SET_LABEL = "{set}"  # placeholder in a heading for the word of each set
_SET_LEAST = 2  # a single date is a moment of the record
_EVENTS = 3  # milestones with dates in a tracking sheet
_MANY = 8  # fields with a column in a sheet of whole records, not of changes
_VERBS = {
    Action.DELETE: {"delete", "deletes", "deleted", "cancel", "cancelled", "cancellations", "withdrawal", "withdrawals", "storno", "anulacion", "annulation"},
    Action.UPDATE: {"update", "updates", "change", "changes", "amend", "anderung", "anderungen", "modif", "cambios", "wijziging"},
    Action.QUOTE: {"quote", "quotes", "offer", "offers", "angebot", "angebote", "offerte", "devis", "cotizacion"},
    Action.CONFIRM: {"confirm", "confirmation", "confirmations", "award", "awards", "zuschlag"},
    Action.STATUS: {"status", "events", "event", "tracking", "milestones", "statut", "estado"},
    Action.CREATE: {"orders", "new", "lanes", "tender", "auftrage", "commandes", "pedidos", "create"},
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Target:
    """A field that a column may fill: its path pattern, its required and optional concepts, and whether it is needed."""

    path: str
    field: Field
    core: frozenset[str]
    soft: frozenset[str]
    needed: bool
    in_list: bool
    is_key: bool


class Filled(NamedTuple):
    """A column that fills a field: the number of its sheet, the column, its score (1 is a perfect match), and the doubt about it."""

    sheet: int
    column: Column
    score: float
    doubt: str = ""


@dataclass(frozen=True, slots=True)
class Match:
    """An operation with the columns that fill its fields, by path pattern, and a total to compare operations by."""

    operation: Operation
    filled: dict[str, Filled]
    total: float


@dataclass(frozen=True, slots=True)
class Sets:
    """The sets of a table: the code of each heading, and the two columns that read the sets."""

    codes: dict[str, str]
    at: Column
    event: Column


def meaning(field: Field) -> frozenset[str]:
    """The concepts of a field, from the help text of the contract."""
    return vocabulary().read(field.meaning.split("(")[0].split(";")[0].split(", zone")[0]).concepts


def is_needed(field: Field, operation: Operation) -> bool:
    """Whether the field is required in every record of this operation."""
    return field.when is When.ALWAYS or (operation.creates and field.when is When.ON_CREATE)


def milestones(sheet: Sheet) -> list[Column]:
    """The columns with the time of an event."""
    return [
        column
        for column in sheet.columns
        if column.concepts & {"milestone"}
        and not column.concepts & _PLANNED
        and column.guess.type in {"datetime", "date"}
    ]


def best_operation(sheets: Sequence[Sheet]) -> list[Match]:
    """The possible operations of the sheets, the most likely first."""
    return sorted((match(sheets, operation) for operation in WRITES), key=lambda found: -found.total)


def match(sheets: Sequence[Sheet], operation: Operation) -> Match:
    """The columns that fill the fields of an operation: the best pairs first, each column and each field once."""
    targets = list(_targets(operation.record, operation))
    columns = [(number, column) for number, sheet in enumerate(sheets) for column in sheet.columns]
    filled = _assigned(columns, targets)
    return Match(operation, filled, _total(operation, filled, sheets))


def best_columns(
    columns: Sequence[Column], record: Record, operation: Operation, context: frozenset[str]
) -> dict[str, Column]:
    """The columns that fill the fields of one record within another, by the fields' names: the best pairs first, each once. `context` are
    concepts that all of these columns may also have.
    """
    targets = list(_targets(record, operation, context=context, in_list=True))
    return {path: found.column for path, found in _assigned([(0, column) for column in columns], targets).items()}


def _assigned(columns: Sequence[tuple[int, Column]], targets: Sequence[Target]) -> dict[str, Filled]:
    """The columns, with the numbers of their sheets, that fill these fields: the best pairs first, each column and each field once."""
    pairs = [
        (score, number, column, target)
        for number, column in columns
        for target in targets
        if (score := _score(column, target)) >= _LEAST
    ]
    pairs.sort(key=lambda pair: (-pair[0], pair[1], pair[2].position))
    found: dict[str, Filled] = {}
    used: set[int] = set()
    for score, number, column, target in pairs:
        if target.path not in found and id(column) not in used:
            found[target.path] = Filled(number, column, score, _doubt(column, target))
            used.add(id(column))
    return found


def _targets(
    record: Record,
    operation: Operation,
    path: str = "",
    context: frozenset[str] = frozenset(),
    *,
    in_list: bool = False,
) -> Iterator[Target]:
    for field in record.fields:
        here = f"{path}.{field.name}" if path else field.name
        concepts = meaning(field)
        if field.record is not None:
            is_list = field.kind is Kind.ARRAY
            if not is_list or any(inner.when is When.ALWAYS for inner in field.record.fields):
                below = frozenset() if is_list else concepts
                yield from _targets(
                    field.record,
                    operation,
                    f"{here}[]" if is_list else here,
                    concepts | context if is_list else below,
                    in_list=in_list or is_list,
                )
        elif field.when is not When.LISTED and field.kind not in (Kind.OFFSET_HOURS, Kind.OFFSET_MINUTES) and concepts:
            is_key = not path and field.name in record.key
            subject = frozenset({operation.subject})
            soft = _SOFT if is_key else _SOFT | subject
            whole = concepts if in_list else concepts | context
            core = (subject & concepts if is_key else whole - soft) or whole
            yield Target(here, field, core, soft | context, is_needed(field, operation), in_list, is_key)


def _score(column: Column, target: Target) -> float:
    """How well a column fits a field, 0 to about 1.5; 0 where its values cannot fill it."""
    if not _type_fits(column, target.field):
        return 0.0
    label = column.concepts
    recognised = _named_values(column, target.field)
    hits = len(label & target.core)
    if not hits and recognised < 0.5:
        return 0.0
    if (label ^ (target.core | target.soft)) & _HARD & (label | target.core):
        return 0.0
    if label & _SIDES and target.core & _SIDES and not label & target.core & _SIDES:
        return 0.0
    telling = target.core - _SIDES - _TIMES
    if telling and not telling & label and recognised < 0.5:
        return 0.0  # the concept "delivery" alone does not make it the city
    missed = len(target.core - label)
    surplus = len(label - target.core - target.soft - _of_lines(target))
    score = hits / (hits + missed + 0.7 * surplus + 0.1 * len(column.reading.unknown)) if hits else 0.0
    score += 0.05 * len(label & meaning(target.field) & target.soft)
    score += 0.4 * recognised if recognised else -0.3 * bool(target.field.known)
    score += 0.1 * (target.is_key and "id" in label)  # prefer an order's number to its customer
    score += 0.1 * target.needed + 0.06 * ("delivery" in target.core and not label & _SIDES)
    return max(score, 0.0)


def _of_lines(target: Target) -> frozenset[str]:
    """The concepts that any heading in a list of packages may add: `Ware / Anzahl`."""
    lines = frozenset({"item", "package"})
    return lines if target.in_list and target.core - lines else frozenset()


def _named_values(column: Column, field: Field) -> float:
    """The share of distinct values that match a value named by the interface."""
    if not field.known or column.guess.type != "text":
        return 0.0
    distinct = set(column.filled)
    if not distinct or len(distinct) > 25:
        return 0.0
    meant = sum(bool(vocabulary().value_meant(value, field.known)) for value in distinct)
    return meant / len(distinct)


def _type_fits(column: Column, field: Field) -> bool:
    kind, found = field.kind, column.guess.type
    if kind is Kind.NUMERIC:
        return found in {"integer", "decimal", "quantity"}
    if kind in DATE_SHAPES:
        return found in {"datetime", "date"} or (kind is Kind.TIME and found == "time")
    if kind is Kind.FLAG:
        return found == "yesno"
    if kind is Kind.TIMEZONE or "timezone" in meaning(field):
        return found == "timezone"
    if field.known:
        return found == "text" and not column.holds_moments
    return found in {"text", "country", "currency", "integer", "decimal"} and _words_fit(column, meaning(field))


def _words_fit(column: Column, concepts: frozenset[str]) -> bool:
    """Whether the cells suit the meaning of a text field: no dates as names, no numbers as companies or places."""
    if concepts & _MADE_OF_DIGITS or "moment" in concepts:
        return True
    if "item" in concepts and column.guess.type in {"decimal", "quantity"}:
        return False
    return not column.holds_moments and not (concepts & _NAMED_IN_WORDS and column.holds_numbers)


def _doubt(column: Column, target: Target) -> str:
    """The reason to doubt that a heading matches its field; empty if there is none."""
    surplus = column.concepts - target.core - target.soft - meaning(target.field) - _of_lines(target)
    words = [word for word in column.reading.unknown if isinstance(currency_reader()(word.upper()), CellProblem)]
    if words:
        return f'what is "{" ".join(words)}" in the heading?'
    if surplus:
        return f"the heading also mentions {' and '.join(sorted(surplus))}"
    if missing := target.core - column.concepts - _SIDES - _TIMES - _of_lines(target) - {"total"}:
        return f"the heading does not mention {' and '.join(sorted(missing))}"
    return "the heading does not mention the pickup" if "pickup" in target.core - column.concepts else ""


def _total(operation: Operation, filled: dict[str, Filled], sheets: Sequence[Sheet]) -> float:
    total = sum(found.score for found in filled.values())
    keys = [name for name in operation.record.key if name in filled]
    total += 1.5 if operation.record.key[0] in keys else -4
    total -= 0.35 * sum(is_needed(field, operation) and field.name not in filled for field in operation.record.fields)
    columns = sum(len(sheet.columns) for sheet in sheets)
    many = len(filled) >= _MANY
    total += {
        Action.CREATE: 5.0 if many else -2.0,
        Action.UPDATE: 0.0 if many else 1.5,
        Action.DELETE: 2.0 if columns <= 2 else -4.0,
    }.get(operation.action, 0.0)
    if operation.action is Action.STATUS and (events := max(len(milestones(sheet)) for sheet in sheets)) >= _EVENTS:
        total += 2.0 * events
    words = {word for sheet in sheets for text in (sheet.path.stem, sheet.title) for word in words_of(text)}
    total += 3.0 * bool(words & _VERBS.get(operation.action, set()))
    subjects = {word for word in words if word.startswith(operation.subject)}
    return total + 0.5 * bool(subjects)


# ---- milestone columns: a date under each event that has happened (`Picked up`, `Arrived`) ----


def code_of_event(fields: Sequence[Field]) -> Field | None:
    """The field with the event code, if the operation has one."""
    return next((field for field in fields if {"status", "code"} <= meaning(field) and field.record is None), None)


def says_event(operation: Operation, filled: Container[str]) -> bool:
    """Whether one of the filled fields gives the event of each record."""
    fields = operation.record.fields
    return any(field.name in filled for field in fields if "status" in meaning(field) and field.kind not in DATE_SHAPES)


def in_sets(match: Match, sheets: Sequence[Sheet], main: int) -> tuple[Match, Sheet, Sets | None]:
    """The match and the main sheet with the milestone columns combined into sets. Both are unchanged if the sheet has no such columns,
    another column gives the event, or the operation has no events.
    """
    sheet = sheets[main]
    fields = match.operation.record.fields
    code, moment = (
        code_of_event(fields),
        next((field for field in fields if {"status", "moment"} <= meaning(field) and field.kind in DATE_SHAPES), None),
    )
    found = milestones(sheet)
    is_status = match.operation.action is Action.STATUS
    if (
        not is_status
        or code is None
        or moment is None
        or len(found) < _SET_LEAST
        or says_event(match.operation, match.filled)
    ):
        return match, sheet, None
    at, event = _at(found), _event(found)
    rest = tuple(column for column in sheet.columns if all(column is not milestone for milestone in found))
    kept = {
        path: filled
        for path, filled in match.filled.items()
        if path != moment.name and (filled.sheet != main or all(filled.column is not milestone for milestone in found))
    }
    kept[code.name] = Filled(
        main, event, 1.0, "the codes are the headings; replace them with the codes of the exchange"
    )
    kept[moment.name] = Filled(main, at, 1.0)
    codes = {column.label: "_".join(words_of(column.label)).upper() for column in found}
    sets = Sets(codes, at, event)
    return Match(match.operation, kept, match.total), replace(sheet, columns=(*rest, at, event)), sets


def _at(found: Sequence[Column]) -> Column:
    """One column with the moments of all milestones."""
    cells = tuple(
        next((cell for cell in row if cell.strip()), "")
        for row in zip(*(column.cells for column in found), strict=True)
    )
    formats = list(dict.fromkeys(format_ for column in found for format_ in column.guess.keys.get("formats", [])))
    evidence = f"{sum(len(column.filled) for column in found)} values under {len(found)} headings"
    remarks = [note for column in found for note in column.guess.evidence.split("; ")[1:] if CHECK in note]
    guess = Guess("datetime", {"formats": formats} if formats else {}, "; ".join([evidence, *remarks]))
    return Column(
        _SET_LABEL, -1, cells, Reading(frozenset({"status", "moment"}), (), found[0].reading.languages), guess
    )


def _event(found: Sequence[Column]) -> Column:
    reading = Reading(frozenset({"status", "code"}), (), found[0].reading.languages)
    return Column("event", -2, found[0].cells, reading, Guess("text", {}, "the code of the set"))

"""The operation of a sheet: which records its rows are, and why.

Owns: the evidence for each operation, as points with reasons, and the column that chooses the operation of each row. Points only compare the
operations of one sheet.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from loadsheet.contract import DATE_SHAPES, WRITES, Action, Operation
from loadsheet.mapping_tools.column_sets import milestones
from loadsheet.mapping_tools.columns import Column, some
from loadsheet.mapping_tools.field_matching import Match, match
from loadsheet.mapping_tools.headings import (
    SIDES,
    event_code_field,
    gives_event,
    is_needed,
    meaning,
    reading_of,
    words_of,
)
from loadsheet.mapping_tools.sheet_profiles import Sheet
from loadsheet.reading import fold

_OF_STATUS = 3  # headings such as Status Code, Status Text and Event Date
_EVENTS = 3  # milestones with dates in a tracking sheet
_MANY = 8  # fields with a column in a sheet of whole records, not of changes
_MISSING_MOST = 5.0  # points; many fields that a create needs can be computed
_SOME = 6  # fields with a column in a sheet of whole records with places on both sides
_WITH_LINES = 3  # fields of the record in a sheet that has packages as well
_FEW = 4  # columns in a sheet of cancellations
_PLACES = 3  # fields of addresses in a sheet of whole records
_VERBS = {
    Action.DELETE: "delete deletes deleted cancel cancelled cancellations withdrawal withdrawals storno anulacion annulation",
    Action.UPDATE: "update updates change changes amend anderung anderungen modif cambios wijziging",
    Action.QUOTE: "quote quotes offer offers angebot angebote offerte devis cotizacion",
    Action.CONFIRM: "confirm confirmation confirmations award awards zuschlag",
    Action.STATUS: "status events event tracking milestones statut estado",
    Action.CREATE: "orders new lanes tender auftrage commandes pedidos create",
}
_TENDER = "tender"

_ACTIONS_MOST = 8  # different codes
_ACTION_LETTERS = {"c": Action.CREATE, "n": Action.CREATE, "a": Action.CREATE, "i": Action.CREATE, "u": Action.UPDATE, "m": Action.UPDATE,
            "d": Action.DELETE, "x": Action.DELETE}  # fmt: skip
_ACTION_WORDS = {
    Action.CREATE: "create created new neu neuanlage add added insert nouveau nuevo nieuw ny",
    Action.UPDATE: "update updated change changed modify modified amend amended anderung geandert modification cambio wijziging andrad",
    Action.DELETE: "delete deleted cancel cancelled canceled storno storniert loschen geloscht annule annulation anulado geannuleerd avbruten makulerad annullato anulowane anulowano cancelado cancelada",
}
CANCELLED = frozenset(_ACTION_WORDS[Action.DELETE].split())
"""Words for a record that is no longer wanted."""
_ACTION_BY_WORD = _ACTION_LETTERS | {word: action for action, words in _ACTION_WORDS.items() for word in words.split()}
_ACTION_HEADINGS = {
    "action", "aktion", "operation", "op", "change", "changetype", "anderung", "anderungsart", "kennzeichen", "kz", "satzart",
    "vorgang", "accion", "mutatie", "atgard", "transaction", "function", "funktion", "verb", "record", "chg", "act", "actie", "azione", "akcja",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Candidate:
    """An operation that the sheets may be for: the columns of its fields, its points, and the reasons in words."""

    match: Match
    points: float
    reasons: tuple[str, ...]


def ranked(sheets: Sequence[Sheet]) -> list[Candidate]:
    """The possible operations of the sheets, the most likely first."""
    found = []
    for operation in WRITES:
        filled = match(sheets, operation)
        evidence = list(_evidence(filled, sheets))
        points = filled.total + sum(weight for weight, _ in evidence)
        reasons = [text for weight, text in sorted(evidence, key=lambda one: -abs(one[0])) if weight > 0 and text]
        found.append(Candidate(filled, points, tuple(reasons)))
    return sorted(found, key=lambda candidate: -candidate.points)


def _evidence(found: Match, sheets: Sequence[Sheet]) -> Iterator[tuple[float, str]]:
    """What speaks for an operation (points above 0) and against it, in points and words."""
    operation, filled = found.operation, found.filled
    key = filled.get(operation.record.key[0])
    yield (1.5, f"{key.column.label} identifies the records") if key else (-4.0, "")
    missing = sum(is_needed(field, operation) and field.name not in filled for field in operation.record.fields)
    yield -min(0.35 * missing, _MISSING_MOST), ""
    yield from _of_action(found, sheets)
    words = _names(sheets)
    if verb := words & set(_VERBS.get(operation.action, "").split()):
        yield 3.0, f"the name has the word {min(verb)}"
    named = any(word.startswith(operation.subject) for word in words)
    yield 0.5 * named, ""
    if operation.subject == _TENDER:
        tender = named or any(_TENDER in reading_of(text).concepts for text in _headings(sheets))
        yield (0.0, "") if tender else (-6.0, "")


def is_named(operation: Operation, sheets: Sequence[Sheet]) -> bool:
    """Whether the name of a file or sheet has a word for what the operation does."""
    return not _names(sheets).isdisjoint(_VERBS.get(operation.action, "").split())


def _names(sheets: Sequence[Sheet]) -> set[str]:
    """The words of the names of files and sheets."""
    return {word for sheet in sheets for text in (sheet.path.stem, sheet.title) for word in words_of(text)}


def _headings(sheets: Sequence[Sheet]) -> Iterator[str]:
    for sheet in sheets:
        yield from (sheet.path.stem, sheet.title)
        yield from (column.label for column in sheet.columns)


def _of_action(found: Match, sheets: Sequence[Sheet]) -> Iterator[tuple[float, str]]:
    operation, filled = found.operation, found.filled
    columns = sum(len(sheet.columns) for sheet in sheets)
    places = _of_places(found)
    of_record = sum("[]" not in path for path in filled)
    has_lines = len(filled) > of_record >= _WITH_LINES
    some = len(filled) >= _SOME and places >= _PLACES - 1
    many = len(filled) >= _MANY or places >= _PLACES or has_lines or some
    if operation.action is Action.CREATE:
        yield (8.0, f"{len(filled)} fields have a column, {places} of them for addresses") if many else (-2.0, "")
    elif operation.action is Action.UPDATE:
        yield (0.0, "") if many else (1.5, f"only {len(filled)} fields have a column, as in changes")
    elif operation.action is Action.DELETE:
        is_key = columns == 1 and operation.record.key[0] in filled
        yield (2.0, "only the key has a column") if is_key else (0.0 if columns <= _FEW else -4.0, "")
    elif operation.action is Action.QUOTE:
        rate = next(
            (filled[path] for path, field in operation.record.walk() if path in filled and "rate" in meaning(field)),
            None,
        )
        yield (2.0, f"{rate.column.label} has the rate of a carrier") if rate else (0.0, "")
    elif operation.action is Action.STATUS:
        events = max(len(milestones(sheet)) for sheet in sheets)
        if events >= _EVENTS:
            yield 2.0 * events, f"{events} headings are events with a date below them"
        code, fields = event_code_field(operation.record.fields), operation.record.fields
        moment = any(f.name in filled for f in fields if "status" in meaning(f) and f.kind in DATE_SHAPES)
        of_status = sum("status" in column.concepts for sheet in sheets for column in sheet.columns)
        if of_status >= _OF_STATUS:
            yield 2.0, f"{of_status} headings are about the status or an event"
        if code is not None and gives_event(operation, filled) and moment:
            yield 3.0, "each row has an event and its time"
        elif not moment and not events:
            yield -4.0, ""


def _of_places(found: Match) -> int:
    """The number of fields of an address with a column. Changes seldom have some."""
    fields = dict(found.operation.record.walk())
    return sum(
        bool(meaning(fields[path]) & SIDES) and fields[path].kind not in DATE_SHAPES and "[]" not in path
        for path in found.filled
    )


# ---- a column that marks each row as new, changed or cancelled ----


@dataclass(frozen=True, slots=True)
class Chooser:
    """The column that chooses the operation, and the operation of each of its codes."""

    column: Column
    codes: dict[str, str]

    @property
    def operation(self) -> str:
        """The operation whose payload covers all codes: create, if a code means it."""
        return min(self.codes.values(), key=_rank)


def _rank(name: str) -> int:
    return list(_ACTION_WORDS).index(next(operation.action for operation in WRITES if operation.name == name))


def chooser(sheet: Sheet, subject: str) -> Chooser | None:
    """The column of a sheet that chooses the operation of each row, if any. `subject` is the subject of the rows, such as order."""
    by_action = {operation.action: operation for operation in WRITES if operation.subject == subject}
    found = (_action_codes(column, by_action) for column in sheet.columns)
    return next((Chooser(column, codes) for column, codes in zip(sheet.columns, found, strict=True) if codes), None)


def unread_actions(sheet: Sheet) -> Iterator[str]:
    """The headings, with cells, of columns that say what happens to each row in codes that are not all known. Some mean a cancellation."""
    for column in sheet.columns:
        cells = list(column.cells.shown)
        deletes = any(_ACTION_BY_WORD.get(fold(cell)) is Action.DELETE for cell in cells)
        if deletes and 1 < len(cells) <= _ACTIONS_MOST and _ACTION_HEADINGS & set(words_of(column.label)):
            yield f"{column.label} ({some(cells)})"


def _action_codes(column: Column, by_action: dict[Action, Operation]) -> dict[str, str]:
    cells = list(column.cells.shown)
    if not cells or len(cells) > _ACTIONS_MOST:
        return {}
    actions = [_ACTION_BY_WORD.get(fold(cell)) for cell in cells]
    meant = [by_action[action].name for action in actions if action in by_action]
    named = bool(_ACTION_HEADINGS & set(words_of(column.label)))
    letters = any(len(cell) == 1 for cell in cells)
    if len(meant) < len(cells) or (not named and (letters or column.concepts)):
        return {}
    return dict(zip(cells, meant, strict=True)) if named or len(set(meant)) > 1 else {}

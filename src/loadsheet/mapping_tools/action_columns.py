"""A column that says of each row whether it is new, changed or cancelled: the operation is chosen by it.

Owns: the codes that shippers use for this, and the headings over them. Without this, a row to cancel would be sent as a change.
"""

from dataclasses import dataclass

from loadsheet.contract import WRITES, Action, Operation
from loadsheet.mapping_tools.column_profiles import Column, Sheet
from loadsheet.mapping_tools.vocabulary import words_of
from loadsheet.reading import fold

_MOST = 8  # different codes
_LETTERS = {"c": Action.CREATE, "n": Action.CREATE, "a": Action.CREATE, "i": Action.CREATE, "u": Action.UPDATE, "m": Action.UPDATE,
            "d": Action.DELETE, "x": Action.DELETE}  # fmt: skip
_WORDS = {
    Action.CREATE: "create created new neu neuanlage add added insert nouveau nuevo nieuw ny",
    Action.UPDATE: "update updated change changed modify modified amend amended anderung geandert modification cambio wijziging andrad",
    Action.DELETE: "delete deleted cancel cancelled canceled storno storniert loschen geloscht annule annulation anulado geannuleerd",
}
_BY_WORD = _LETTERS | {word: action for action, words in _WORDS.items() for word in words.split()}
_HEADINGS = frozenset(
    [
        "action",
        "aktion",
        "operation",
        "op",
        "change",
        "changetype",
        "anderung",
        "anderungsart",
        "kennzeichen",
        "kz",
        "satzart",
        "vorgang",
        "accion",
        "mutatie",
        "atgard",
        "transaction",
        "function",
        "funktion",
        "verb",
        "record",
    ]
)


@dataclass(frozen=True, slots=True)
class Chooser:
    """The column that chooses the operation, and the operation of each of its codes."""

    column: Column
    codes: dict[str, str]

    @property
    def operation(self) -> str:
        """The operation whose payload serves all: to create, where a code says so."""
        return min(self.codes.values(), key=_rank)


def _rank(name: str) -> int:
    return list(_WORDS).index(next(one.action for one in WRITES if one.name == name))


def chooser(sheet: Sheet, subject: str) -> Chooser | None:
    """The column of a sheet that chooses what becomes of each row, if there is one; `subject` is what the rows are about."""
    by_action = {one.action: one for one in WRITES if one.subject == subject}
    found = (_codes(column, by_action) for column in sheet.columns)
    return next((Chooser(column, codes) for column, codes in zip(sheet.columns, found, strict=True) if codes), None)


def _codes(column: Column, by_action: dict[Action, Operation]) -> dict[str, str]:
    cells = list(dict.fromkeys(cell.strip() for cell in column.filled))
    actions = [_BY_WORD.get(fold(cell)) for cell in cells]
    meant = [by_action[action].name for action in actions if action in by_action]
    named = bool(_HEADINGS & set(words_of(column.label)))
    letters = any(len(cell) == 1 for cell in cells)
    if not cells or len(cells) > _MOST or len(meant) < len(cells) or (not named and (letters or column.concepts)):
        return {}
    return dict(zip(cells, meant, strict=True)) if named or len(set(meant)) > 1 else {}

"""The fast path to a payload: one generated function for each operation of a mapping. It makes and validates records that are right.

The generated code holds only positions of cells, field names of the contract, and the contract's checks of single values. Calculated,
conditional and deeper nested values come from the full path (`leaves`, `payload`). If a record is not clearly valid the function raises;
then the full path makes the record again and reports its problems. So both paths make the same record, and the contract accepts it.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Literal

from loadsheet.mapping.calculation import CALCULATION_ERRORS
from loadsheet.mapping.names import Draft
from loadsheet.mapping.scopes import Evaluate

Make = Callable[[Draft], Any]
IsValid = Callable[[Any], bool]

_REMEMBERED = 4_096  # spelled values kept for each leaf


class FullPathNeeded(Exception):  # noqa: N818 (never leaves the mapping)
    """The record is not clearly valid: use the full path."""


FALLBACK_ERRORS = (FullPathNeeded, *CALCULATION_ERRORS)
"""What the generated function raises for a record that needs the full path."""


@dataclass(frozen=True, slots=True)
class CellValue:
    """A leaf with the value of one column. `default` replaces a blank (`omit`: the field is left out). `spelled` converts the value to the
    record's form, None if it has that form already. `known` are the values accepted without a warning, empty if all are.
    """

    rows: Literal["here", "first", "around"]
    index: int
    code: int | None
    default: Any
    spelled: Callable[[Any], Any] | None
    known: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class FullPathValue:
    """A value made by the full path: calculated, conditional, or a deeper list."""

    make: Make


@dataclass(frozen=True, slots=True)
class ConstantValue:
    """A valid value that is the same in every record."""

    value: Any


@dataclass(frozen=True, slots=True)
class EmptyList:
    """A list that is sent empty."""


@dataclass(frozen=True, slots=True)
class ObjectValue:
    """An object; left out if it is empty."""

    fields: tuple["FastField", ...]


@dataclass(frozen=True, slots=True)
class RowList:
    """A list with one object for each row of a table."""

    position: int
    fields: tuple["FastField", ...]


@dataclass(frozen=True, slots=True)
class EntryList:
    """A list with entries written in the mapping, each with an optional condition. Empty entries are left out."""

    path: str
    entries: tuple[tuple[Evaluate | None, tuple["FastField", ...]], ...]


FastValue = CellValue | FullPathValue | ConstantValue | EmptyList | ObjectValue | RowList | EntryList


@dataclass(frozen=True, slots=True)
class FastField:
    """One field of an object. A text of 1 to `text_max` characters is valid without calling `is_valid`; so is a finite Decimal if the
    field `takes_numbers`. A list has at most `items_max` items (0: no limit).
    """

    name: str
    value: FastValue
    required: bool
    is_valid: IsValid
    text_max: int = 0
    takes_numbers: bool = False
    items_max: int = 0


def generate(fields: Sequence[FastField], omit: object) -> Make:
    """Generate the function that makes a record of these fields. It raises one of FALLBACK_ERRORS if the record is not clearly valid.
    `omit` is the full path's marker for a field that is left out.
    """
    writer = _Writer(omit)
    writer.line(0, "def make(draft):")
    writer.line(1, "main = draft.main")
    made = writer.object(1, fields, "main")
    writer.line(1, "if draft.faults or draft.unlisted or draft.skipped: raise FullPathNeeded")
    writer.line(1, f"return {made}")
    found: dict[str, Any] = {"FullPathNeeded": FullPathNeeded, "Decimal": Decimal, "OMIT": omit, **writer.given}
    exec(compile("\n".join(writer.lines), "<payload>", "exec"), found)  # noqa: S102 (generated of numbers, and of names that the contract has)
    make: Make = found["make"]
    return make


class _Writer:
    """Writes the function line by line. `given` are the values it uses, by their names in the code."""

    def __init__(self, omit: object) -> None:
        self.lines: list[str] = []
        self.given: dict[str, Any] = {}
        self._omit = omit
        self._count = 0

    def line(self, depth: int, text: str) -> None:
        """Adds a line."""
        self.lines.append(" " * depth + text)

    def object(self, depth: int, fields: Sequence[FastField], row: str) -> str:
        """Writes the code for an object and returns its variable."""
        pairs, absent = [], []
        for field in fields:
            if isinstance(field.value, ConstantValue):
                pairs.append(f"{field.name!r}: {self._give(field.value.value)}")
                continue
            if isinstance(field.value, EmptyList):
                pairs.append(f"{field.name!r}: []")
                continue
            found, is_absent = self._value(depth, field, row)
            pairs.append(f"{field.name!r}: {found}")
            if is_absent:
                absent.append((field.name, is_absent))
        made = self._new()
        self.line(depth, f"{made} = {{{', '.join(pairs)}}}")
        for name, is_absent in absent:
            self.line(depth, f"if {is_absent}: del {made}[{name!r}]")
        return made

    def _new(self) -> str:
        self._count += 1
        return f"v{self._count}"

    def _give(self, value: Any) -> str:
        self._count += 1
        name = f"g{self._count}"
        self.given[name] = value
        return name

    def _value(self, depth: int, field: FastField, row: str) -> tuple[str, str]:
        """Writes the code for a field. Returns its variable and the condition for leaving it out (empty: never)."""
        value = field.value
        if isinstance(value, CellValue):
            return self._cell(depth, field, value, row)
        if isinstance(value, FullPathValue):
            return self._full_path_value(depth, field, value, row)
        if isinstance(value, ObjectValue):
            made = self.object(depth, value.fields, row)
        elif isinstance(value, RowList):
            made = self._each(depth, value)
        else:
            assert isinstance(value, EntryList)  # noqa: S101 (the last one)
            made = self._written_out(depth, value)
        if field.items_max:
            self.line(depth, f"if len({made}) > {field.items_max}: raise FullPathNeeded")
        if field.required:
            self.line(depth, f"if not {made}: raise FullPathNeeded")
            return made, ""
        return made, f"not {made}"

    # ---- leaves ----

    def _cell(self, depth: int, field: FastField, cell: CellValue, row: str) -> tuple[str, str]:
        found = self._new()
        self.line(depth, f"{found} = {'main' if cell.rows == 'first' else row}[{cell.index}]")
        if cell.code is not None:
            self.line(depth, f"if {found} is not None: {found} = {found}[{cell.code}]")
        is_left_out = cell.default is self._omit
        self.line(depth, f"if {found} is None:")
        if is_left_out:
            self.line(depth + 1, "raise FullPathNeeded" if field.required else "pass")
        else:
            self.line(depth + 1, f"{found} = {self._give(cell.default)}")
        if cell.spelled is None and not cell.known:
            self.line(depth, f"elif {self._invalid_condition(field, found)}: raise FullPathNeeded")
            return found, f"{found} is None" if is_left_out and not field.required else ""
        spelled = _SpellingCache(cell, field.is_valid)
        memory = self._give(spelled.memory)
        self.line(depth, f"else: {found} = {memory}.get(id({found})) or {self._give(spelled.spell)}({found})")
        return found, f"{found} is None" if is_left_out and not field.required else ""

    def _full_path_value(self, depth: int, field: FastField, asked: FullPathValue, row: str) -> tuple[str, str]:
        found = self._new()
        if row != "main":
            self.line(depth, f"draft.row = {row}")
        self.line(depth, f"{found} = {self._give(asked.make)}(draft)")
        self.line(depth, f"if {found} is OMIT:")
        self.line(depth + 1, "raise FullPathNeeded" if field.required else "pass")
        self.line(depth, f"elif {self._invalid_condition(field, found)}: raise FullPathNeeded")
        return found, "" if field.required else f"{found} is OMIT"

    def _invalid_condition(self, field: FastField, found: str) -> str:
        """The condition under which the contract rejects a value; common values are decided without calling it."""
        is_valid = self._give(field.is_valid)
        if field.text_max:
            return f"({found}.__class__ is not str or not 0 < len({found}) <= {field.text_max}) and not {is_valid}({found})"
        if field.takes_numbers:
            return f"({found}.__class__ is not Decimal or not {found}.is_finite()) and not {is_valid}({found})"
        return f"not {is_valid}({found})"

    # ---- lists ----

    def _each(self, depth: int, each: RowList) -> str:
        items, row = self._new(), self._new()
        self.line(depth, f"{items} = []")
        self.line(depth, f"for {row} in draft.lists[{each.position}]:")
        made = self.object(depth + 1, each.fields, row)
        self.line(depth + 1, f"{items}.append({made})")
        self.line(depth, "draft.row = main")
        return items

    def _written_out(self, depth: int, written: EntryList) -> str:
        items, kept = self._new(), self._new()
        self.line(depth, f"{items} = []")
        self.line(depth, f"{kept} = []")
        for number, (condition, fields) in enumerate(written.entries):
            here = depth
            if condition is not None:
                self.line(depth, f"if {self._give(condition)}(draft):")
                here += 1
            made = self.object(here, fields, "main")
            self.line(here, f"if {made}:")
            self.line(here + 1, f"{items}.append({made})")
            self.line(here + 1, f"{kept}.append({number})")
        self.line(
            depth, f"if {items} and len({kept}) < {len(written.entries)}: draft.items[{written.path!r}] = tuple({kept})"
        )
        return items


class _SpellingCache:
    """The spelled values of one leaf, by the id of the column value: a column gives the same object for the same text."""

    def __init__(self, cell: CellValue, is_valid: IsValid) -> None:
        self.memory: dict[int, Any] = {}
        self._kept: list[Any] = []  # keeps the values alive, so that no other object gets their id
        self._spelled, self._known, self._is_right = cell.spelled, cell.known, is_valid

    def spell(self, value: Any) -> Any:
        """The record's form of a value that is not blank. Raises FullPathNeeded, and whatever spelling raises."""
        wire = value if self._spelled is None else self._spelled(value)
        if value == "" or (self._known and wire not in self._known) or not self._is_right(wire):
            raise FullPathNeeded
        if len(self._kept) >= _REMEMBERED:
            self.memory.clear()
            self._kept.clear()
        self._kept.append(value)
        self.memory[id(value)] = wire
        return wire

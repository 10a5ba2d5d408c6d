"""Lists that a sheet tells of in single columns: what is inside a package, and the parties of a record by their contacts.

Owns: which unused columns belong to such an entry and whose it is. Fields and roles are told by their meaning in the contract; the
lines come back as (depth, text) for `suggest_payload.py` to put in their place.
"""

from collections.abc import Callable, Iterator, Sequence

from loadsheet.contract import Field, Record
from loadsheet.mapping_tools.field_matching import best_columns, meaning
from loadsheet.mapping_tools.suggest import Draft, DraftColumn, DraftTable
from loadsheet.mapping_tools.vocabulary import vocabulary

Ref = Callable[[DraftTable, DraftColumn], str]
_Found = list[tuple[Field, DraftColumn]]

_CONTACTS = frozenset({"contact", "phone", "email", "payer"})
_ROLES = ("payer", "carrier", "pickup", "delivery")  # the first that a heading means; the last where it means none


def inside(draft: Draft, table: DraftTable, record: Record, unit_of: Callable[[Field], str]) -> list[tuple[int, str]]:
    """The entry for what is inside a package, from the columns of its table that say so; nothing if none does. `unit_of` gives the
    leaf of a unit, without its closing brace.
    """
    own = [drafted for where, drafted in draft.unused if where is table and "inner" in drafted.column.concepts]
    found = _matched(own, record, frozenset({"inner"}), draft)
    _use(draft, found)
    by_measure = {meaning(field_): drafted.name for field_, drafted in found}
    texts = []
    for field_ in record.fields:
        drafted = next((drafted for filled, drafted in found if filled is field_), None)
        measured = by_measure.get(meaning(field_) - {"unit"}) if "unit" in meaning(field_) else None
        if drafted is not None:
            texts.append(f"{field_.name}: {{col: {drafted.name}, unless_blank: true}}")
        elif measured is not None:
            texts.append(f"{field_.name}: {unit_of(field_)}, when: '{measured} != null'}}")
    return _entry(texts, 0) if found else []


def parties(draft: Draft, record: Record, ref: Ref) -> list[tuple[int, str]]:
    """An entry for each party of which columns of the record's own table name the contact, telephone, mail or who pays."""
    role = next((field_ for field_ in record.fields if field_.known), None)
    if role is None:
        return []
    lines = []
    for concept in _ROLES:
        own = [drafted for drafted in _contacts(draft) if _role(drafted) == concept]
        named = next((known for known in role.known if concept in vocabulary().read(known).concepts), "")
        found = _matched(own, record, frozenset({concept}), draft) if named else []
        if concept == "payer":  # a heading that only says who pays holds a name
            rest = [drafted for drafted in own if drafted.column.concepts == {"payer"}]
            name = next((field_ for field_ in record.fields if meaning(field_) == {"company"}), None)
            found += [(name, rest[0])] if rest and name is not None and named else []
        if not found:
            continue
        _use(draft, found)
        there = " or ".join(f"{ref(draft.main, drafted)} != null" for _, drafted in found)
        texts = [f"{field_.name}: {{col: {ref(draft.main, drafted)}, unless_blank: true}}" for field_, drafted in found]
        lines += _entry([f"when: '{there}'", f"{role.name}: {{value: {named}}}", *texts], 0)
    return lines


def _contacts(draft: Draft) -> Iterator[DraftColumn]:
    for table, drafted in draft.unused:
        whole = table is draft.main and (not draft.group or drafted.name in draft.one_value)
        if whole and drafted.column.filled and drafted.column.concepts & _CONTACTS:
            yield drafted


def _role(drafted: DraftColumn) -> str:
    return next((role for role in _ROLES if role in drafted.column.concepts), _ROLES[-1])


def _matched(own: Sequence[DraftColumn], record: Record, context: frozenset[str], draft: Draft) -> _Found:
    """The columns that fill fields of a record, in the order of its fields."""
    columns = best_columns([drafted.column for drafted in own], record, draft.operation, context)
    by_column = {id(drafted.column): drafted for drafted in own}
    return [(field_, by_column[id(columns[field_.name])]) for field_ in record.fields if field_.name in columns]


def _use(draft: Draft, found: _Found) -> None:
    used = [drafted for _, drafted in found]
    draft.unused = [(table, one) for table, one in draft.unused if all(one is not drafted for drafted in used)]


def _entry(texts: Sequence[str], depth: int) -> list[tuple[int, str]]:
    """The lines of one entry of a list."""
    return [(depth, f"- {texts[0]}"), *((depth + 1, text) for text in texts[1:])]

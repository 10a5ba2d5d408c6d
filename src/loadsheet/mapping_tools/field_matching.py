"""Assigns the columns of a sheet to the fields of the interface, by what headings mean as a whole and by what the cells look like.

Owns: the score of a column for a field, the assignment with the highest sum of scores, and the reasons to doubt a pair. A heading that only
contains a field's word (`Weight class`, `Email consent`) is no match, and cells that cannot be the field's values exclude it. Fields are
identified by meaning, kind and named values in the contract; this module contains no field names.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from loadsheet.contract import DATE_SHAPES, Field, FieldKind, Operation, Record
from loadsheet.mapping.units import common_unit
from loadsheet.mapping_tools.best_pairs import best_pairs
from loadsheet.mapping_tools.column_types import currency_code
from loadsheet.mapping_tools.columns import MOMENTS, NUMBERS, UTC_WORDS, Column, a_few
from loadsheet.mapping_tools.headings import (
    FREE,
    PIECES,
    PLANNED,
    SIDES,
    TIMES,
    FieldTarget,
    concepts_of,
    targets_of,
    vocabulary,
)
from loadsheet.mapping_tools.sheet_profiles import Sheet

_NEVER = frozenset({"other", "unused"})  # a heading with one of these has no field
_AMOUNTS = frozenset({"quantity", "count", "weight", "volume", "length", "width", "height", "value"})
_PRICES, _NUMBERED = frozenset({"rate", "value"}), frozenset({"id", "reference"})  # `Order price` is no order number
_NAMES = frozenset({"company", "contact", "city", "province", "location", "address"})
_OF_ADDRESS = frozenset({"city", "postal", "country", "province", "address"})
_PLACES = frozenset({"city", "location"})  # headings use the one for the other
_MOMENT = frozenset({"moment"})
_ITEM, _DESCRIBED = frozenset({"item"}), frozenset({"description"})
_PROBABLY = {
    "delivery": frozenset({"customer"}),
    "pickup": frozenset({"supplier"}),
}  # headings that mostly name these companies
_IMPLIED = 0.88  # of the score: the sheet names no side, and goods are delivered
_NO_PARTIES = frozenset({"carrier", "package"})  # their names are not those of a party
_LINE_NUMBERS = frozenset("123")  # values that may as well number the lines of a record
_CODES_MOST = 25  # different codes
_CODES = {"country": "countries", "currency": "currencies"}
_COMPARED = 200  # rows
_FILLED_LEAST = 100  # a required field is not filled by a column that is blank in more than 99 of 100 rows
_ROWS_MOST = 200  # of one record, on average
_LEAST = 0.4
_TIE = 0.01  # between columns that fit one field alike: the one that is filled more, `Address 1` before `Street`, and times before days
_CLOSE = 0.08  # scores of two columns that fit one field alike


class Filled(NamedTuple):
    """A column that fills a field: the number of its sheet, the column, its score (1 is a perfect match), and the doubt about it."""

    sheet: int
    column: Column
    score: float
    doubt: str = ""


@dataclass(frozen=True, slots=True)
class Match:
    """An operation with the columns that fill its fields, by path pattern."""

    operation: Operation
    by_path: dict[str, Filled]

    @property
    def total(self) -> float:
        """The sum of the scores."""
        return sum(found.score for found in self.by_path.values())


def match(sheets: Sequence[Sheet], operation: Operation, main: int = -1, lines: int = -1) -> Match:
    """The columns that fill the fields of an operation, each column and each field once. With `main`, only the columns of that sheet fill
    the record, and if there is a sheet with `lines`, its columns fill the lists and add up to totals.
    """
    columns = [
        (number, column)
        for number, sheet in enumerate(sheets)
        for column in sheet.columns
        if main < 0 or number in (main, lines)
    ]
    targets = _with_described_item(list(targets_of(operation.record, operation)), columns)
    if lines < 0:
        return Match(operation, _assign(columns, _wanted_targets(targets, columns)))
    of_lines = [one for one in columns if one[0] == lines]
    filled = _assign(of_lines, [target for target in targets if target.in_list])
    used = {found.column for found in filled.values()}
    totals = [one for one in of_lines if one[1].guess.type in NUMBERS and one[1] not in used]
    record = [target for target in targets if not target.in_list]
    own = _assign([one for one in columns if one[0] == main], record)
    open_ = [target for target in record if target.path not in own and target.field.kind is FieldKind.NUMERIC]
    return Match(operation, own | _assign(totals, open_) | filled)


def best_columns(
    columns: Sequence[Column], record: Record, operation: Operation, context: frozenset[str]
) -> dict[str, Column]:
    """The columns that fill the fields of one record within another, by the fields' names, each once. `context` are concepts that all of
    these columns may also have.
    """
    targets = list(targets_of(record, operation, context=context, in_list=True))
    return {path: found.column for path, found in _assign([(0, column) for column in columns], targets).items()}


def _with_described_item(targets: Sequence[FieldTarget], columns: Sequence[tuple[int, Column]]) -> list[FieldTarget]:
    """The targets, the item among them by its description if no heading names it and nearly every row has one: remarks are rare."""
    item = next((target for target in targets if target.what == _ITEM and target.needed), None)
    described = any(
        column.concepts == _DESCRIBED and column.filled_count * 10 >= column.rows * 9 for _, column in columns
    )
    if item is None or not described or any(_score(column, item) for _, column in columns):
        return list(targets)
    return [replace(target, what=_DESCRIBED) if target is item else target for target in targets]


def _wanted_targets(targets: Sequence[FieldTarget], columns: Sequence[tuple[int, Column]]) -> list[FieldTarget]:
    """The targets without lists that no column is for: a weight without a kind or an item is one of the record, not of a package, unless other
    columns are of packages alone, such as their length. Where there are packages, a total has to be called one.
    """
    totals = frozenset[str]().union(*(target.whole for target in targets if not target.in_list))
    of_record = totals | {"quantity"}  # a number or a flag with nothing like it in the record is one of a list
    kinds = (FieldKind.NUMERIC, FieldKind.FLAG)
    decisive = [
        target
        for target in targets
        if target.in_list and (target.needed or (target.field.kind in kinds and not target.what & of_record))
    ]
    if not any(_score(column, target) for _, column in columns for target in decisive):
        return [target for target in targets if not target.in_list]
    return [
        replace(target, what=target.what | {"total"}) if "total" in target.whole and not target.in_list else target
        for target in targets
    ]


# ---- the score of a pair ----


def _score(column: Column, target: FieldTarget) -> float:
    """How well a column fits a field, 0.4 to about 1.5; 0 where its heading means something else or its cells cannot fill it."""
    label = column.concepts
    if (
        label & _NEVER
        or (column.counts_rows and not target.is_key)
        or (target.needed and 0 < column.filled_count * _FILLED_LEAST < column.rows)
        or (target.side and "reference" in label)
        or not _type_fits(column, target.field)
    ):
        return 0.0
    evidence = _evidence(column, target)
    if evidence < 0 or (label ^ target.whole) & target.exact & ((label | target.whole) - target.context):
        return 0.0
    if target.what == {"company"} and (label - target.whole) & _NO_PARTIES:
        return 0.0
    own = label & SIDES
    if (target.side and own and target.side not in own) or (
        target.side == "pickup" and not own and label not in (_MOMENT, _PROBABLY["pickup"])
    ):
        return 0.0
    likeness = _likeness(column, target, recognised=evidence)
    if not likeness:
        return 0.0
    extra = _extra_concepts(column, target)
    score = likeness - 0.25 * len(extra) - 0.12 * min(len(column.reading.unknown), 3)
    score *= _IMPLIED if target.side and not own else 1.0
    score += 0.2 * evidence + 0.04 * len(label & target.whole - target.what) + 0.05 * target.needed
    score -= 0.15 * (
        "id" in label and "id" not in target.whole and not target.is_key and not target.what & label & {"reference"}
    )
    score -= 0.15 * ("milestone" in label and "milestone" not in target.whole)
    score -= 0.4 * ("location" in target.what and "current" in target.whole - label)  # the place of an old event
    score += _TIE * (
        column.filled_count / max(column.rows, 1) + (target.what == {"address"} and column.label.endswith("1"))
    )
    score += _TIE * (target.field.kind in DATE_SHAPES and column.filled_count == column.rows and column.cells.has_times)
    score += 0.06 * (target.subject in label) + 0.1 * (target.is_key and "id" in label) - 0.05 * ("customer" in label)
    return score if score >= _LEAST else 0.0


def _likeness(column: Column, target: FieldTarget, *, recognised: float) -> float:
    """How much of the field the heading names, 0 to 1."""
    label, is_number = column.concepts, target.field.kind is FieldKind.NUMERIC
    if label == _MOMENT and target.field.kind in DATE_SHAPES:  # the only date is mostly that of the pickup
        is_first = target.side == "pickup" and "late" not in target.whole
        share = 0.5 if target.what - {"location", "other"} else (0.7 if target.needed else 0.5) if is_first else 0.0
        return share * (target.field.kind is not FieldKind.TIME)  # `Time` beside `Date` is the time of its day
    if not target.what:  # a moment of one side
        return 1.0 if target.side in label else 0.0
    counts = is_number and target.what - {"total"} == PIECES
    if is_number and column.guess.type == "integer":  # headings of packages and pieces use each other's words
        if counts and label & {"quantity", "package"} and not label & {"item", "type"}:
            return 0.8
        if target.what == {"quantity"} and "package" in label and not label & {"quantity", "type"}:
            return 0.7
    named = label & target.what
    if named == target.what:
        return 0.0 if counts and (column.guess.type != "integer" or "type" in label) else 1.0
    core = target.what & {"location"} or target.what & {
        "status"
    }  # `Customer name` is no status, `Order status` no place
    is_part = bool(named - FREE - {"total"}) and core <= named
    is_part = is_part and "unit" not in target.what  # of a unit, the measure has to be said
    return 0.7 if is_part else _implied_share(column, target, recognised=recognised)


def _implied_share(column: Column, target: FieldTarget, *, recognised: float) -> float:
    """How much of a field is meant by a heading that does not name it."""
    label = column.concepts
    others = label - SIDES - TIMES - FREE - {"company", "location"}
    is_bare = bool(target.side) and target.side in label and not others and "moment" not in label
    if target.what == {"city"}:  # `Destination` over towns
        is_town = "words" in column.cells.looks and not column.cells.names_companies
        return 0.8 if is_bare and "place" in label and is_town else 0.0
    if target.what == {"status", "location"}:  # a town beside an event
        return 0.7 if label - {"status"} == {"city"} and "words" in column.cells.looks else 0.0
    if target.what != {"company"}:
        return 0.6 if recognised > 0.8 and target.field.known and not others else 0.0
    if label and label == _PROBABLY.get(target.side):
        return 0.7
    if not is_bare:
        return 0.0
    return 0.95 if column.cells.names_companies else 0.8 if "name" in label else 0.7  # `Recipient` may be a person


def _extra_concepts(column: Column, target: FieldTarget) -> frozenset[str]:
    """The concepts of a heading that the field does not have."""
    lines = frozenset({"item", "package", "each"}) if target.in_list else frozenset[str]()
    allowed = target.whole | target.context | FREE | lines | {target.subject} | (PLANNED - target.exact)
    if target.field.kind is FieldKind.NUMERIC:
        allowed |= {"total"}
    if target.is_key:
        allowed -= {"package"}
    if target.what in (_ITEM, _DESCRIBED):
        allowed |= {"description"}
    if target.what == {"company"}:
        # `nombre` is a name in Spanish, a number in French
        allowed |= _PROBABLY.get(target.side, frozenset()) | {"quantity"}
    if allowed & _PLACES:
        allowed |= _PLACES
    if target.side and target.what <= _OF_ADDRESS | {"company"}:  # `Delivery address/City`
        allowed |= {"address"}
    return column.concepts - allowed


def _type_fits(column: Column, field: Field) -> bool:
    kind, found = field.kind, column.guess.type
    if kind is FieldKind.NUMERIC and concepts_of(field) & {"quantity", "package"} and set(column.cells.shown) == {"0"}:
        return False  # `Quantity shipped` of open orders
    if kind is FieldKind.NUMERIC:
        return found in NUMBERS and (found == "quantity") <= bool(concepts_of(field) & column.concepts)
    if kind in DATE_SHAPES:
        return found == "time" if kind is FieldKind.TIME else found in MOMENTS
    if kind is FieldKind.FLAG:
        return found == "yesno"
    if kind is FieldKind.TIMEZONE or "timezone" in concepts_of(field):
        return found == "timezone"
    return found in {"text", "country", "currency", "integer", "decimal", "yesno"}


def _evidence(column: Column, target: FieldTarget) -> float:
    """What the cells say about a field: 1 proves it, 0 is silent, below 0 excludes it."""
    field, concepts = target.field, concepts_of(target.field)
    is_silent = field.kind in (FieldKind.NUMERIC, FieldKind.FLAG, FieldKind.TIMEZONE) or field.kind in DATE_SHAPES
    if is_silent or not (field.known or column.filled_count):
        return -1.0 if target.is_key and column.rows else 0.0
    if field.known:
        return _named_values(column, target)
    looked = next((look(column) for concept, look in _LOOKED_AT.items() if concept in concepts), None)
    if looked is not None:
        return looked
    if column.holds_moments or column.cells.looks & {"email", "url"}:
        return -1.0
    if target.is_key:
        return _evidence_of_identity(column)
    return 0.0 if concepts & {"id", "value"} else _evidence_of_words(column, concepts)


def _as_digits(column: Column, look: str) -> float:
    return 1.0 if look in column.cells.looks else 0.0 if column.cells.has_digits else -1.0


def _as_type(column: Column, type_: str) -> float:
    if column.guess.type == type_:
        return 1.0
    return 0.0 if type_ in column.concepts and column.guess.type == "text" else -1.0


_LOOKED_AT: dict[str, Callable[[Column], float]] = {
    "moment": lambda column: 0.5 if column.guess.type in {*MOMENTS, "time"} or column.holds_moments else -1.0,
    "email": lambda column: 1.0 if "email" in column.cells.looks else -1.0,
    "phone": lambda column: _as_digits(column, "phone"),
    "postal": lambda column: _as_digits(column, "postal"),
    "country": lambda column: _as_type(column, "country"),
    "currency": lambda column: _as_type(column, "currency"),
    "latitude": lambda column: 0.5 if column.guess.type in NUMBERS else -1.0,
    "longitude": lambda column: 0.5 if column.guess.type in NUMBERS else -1.0,
    "rate": lambda column: -1.0 if _names_a_quote(column) else 0.0,
}
"""What the cells say about a field with one of these concepts; the first counts."""


def _names_a_quote(column: Column) -> bool:
    """Whether a column with a word for a rate identifies quotes, such as `Quote number`, or holds codes."""
    is_code = column.guess.type not in NUMBERS and "code" in column.cells.looks
    return is_code or bool(column.concepts & {"id", "reference"})


def _evidence_of_words(column: Column, concepts: frozenset[str]) -> float:
    """Whether the cells are names, places or other words, as these concepts need them."""
    is_amount = column.guess.type in NUMBERS and bool(column.concepts & _AMOUNTS)
    if is_amount or column.guess.type in {"decimal", "yesno"} or column.cells.is_yes_or_no:
        return -1.0
    if "address" in concepts and column.cells.has_digits and "digits" not in column.cells.looks:
        return 0.3
    if "address" in concepts:
        return -1.0 if column.holds_numbers else 0.0
    if "company" in concepts and "words" not in column.cells.looks:
        return -1.0
    if concepts & (_NAMES | {"item"}):
        return -1.0 if column.holds_numbers else 0.3 if "words" in column.cells.looks else 0.0
    return 0.0


def _evidence_of_identity(column: Column) -> float:
    """Whether the cells identify records: codes or numbers without a fraction, most of them different."""
    count = len(column.cells.values)
    repeats = count < 2 < column.filled_count or count * _ROWS_MOST < column.filled_count
    is_price = column.guess.type in NUMBERS and column.concepts & _PRICES and not column.concepts & _NUMBERED
    if repeats or is_price or column.guess.type in {"decimal", "yesno", "country", "currency"}:
        return -1.0
    is_code = bool(column.cells.looks & {"code", "digits"})
    return 0.3 * is_code + 0.4 * count / max(column.filled_count, 1)


def _named_values(column: Column, target: FieldTarget) -> float:
    """The share of distinct values that match a value named by the interface; below 0 if none does, unless the heading of a list names the
    field and the values are few: then they are the sender's own codes.
    """
    texts, known = column.cells.shown, target.field.known
    if (
        not texts
        or len(texts) > _CODES_MOST
        or column.guess.type
        not in {"text", "country", "currency", *(["yesno"] if target.what <= column.concepts else [])}
        or column.holds_moments
    ):
        return -1.0
    if meant := sum(bool(vocabulary().value_meant(text, known)) for text in texts):
        return meant / len(texts)
    named = column.concepts & target.what - {"type"}
    return 0.0 if target.in_list and named and not _extra_concepts(column, target) else -1.0


# ---- the assignment ----


def _assign(columns: Sequence[tuple[int, Column]], targets: Sequence[FieldTarget]) -> dict[str, Filled]:
    """The columns, with the numbers of their sheets, that fill these fields: the pairs with the highest sum of scores, first of columns with
    values, then of blank ones for the other fields.
    """
    scores = {
        (place, goal): score
        for place, (_, column) in enumerate(columns)
        for goal, target in enumerate(targets)
        if (score := _score(column, target))
    }
    blank = {place for place, (_, column) in enumerate(columns) if not column.filled_count}
    pairs = best_pairs({pair: score for pair, score in scores.items() if pair[0] not in blank})
    taken = {*pairs.values()}
    pairs |= best_pairs({pair: score for pair, score in scores.items() if pair[0] in blank and pair[1] not in taken})
    found: dict[str, Filled] = {}
    for place, goal in sorted(pairs.items(), key=lambda pair: pair[1]):
        number, column = columns[place]
        rivals = [
            columns[other][1]
            for (other, same), score in scores.items()
            if same == goal and other != place and score > scores[place, goal] - _CLOSE and columns[other][0] == number
        ]
        doubt = _doubt(column, targets[goal], columns) or _rival_doubt(column, rivals, is_key=targets[goal].is_key)
        found[targets[goal].path] = Filled(number, column, scores[place, goal], doubt)
    return _with_one_address(found, {target.path: target for target in targets})


def _with_one_address(found: dict[str, Filled], targets: Mapping[str, FieldTarget]) -> dict[str, Filled]:
    """The same columns, with a doubt where those of one address are partly the customer's and partly not."""
    for side in SIDES:
        own = {
            path: one for path, one in found.items() if targets[path].side == side and targets[path].what & _OF_ADDRESS
        }
        customers = {path: one for path, one in own.items() if "customer" in one.column.concepts}
        if customers and len(customers) < len(own):
            doubt = "it is the customer's, and other parts of the address are not"
            found |= {path: one._replace(doubt=one.doubt or doubt) for path, one in customers.items()}
    return found


# ---- doubts ----


def _doubt(column: Column, target: FieldTarget, columns: Sequence[tuple[int, Column]]) -> str:
    """The reason to doubt that a heading matches its field; empty if there is none."""
    words = [word for word in column.reading.unknown if not currency_code(word) and word not in UTC_WORDS]
    said = {"company", "type"} | ({"status"} if "location" in column.concepts else set())
    extra, missing = _extra_concepts(column, target), target.what - column.concepts - said
    if "package" in column.concepts and not set(column.cells.shown) <= _LINE_NUMBERS:  # `Boxes`
        missing -= {"quantity"}
    last_name = next((one.label for _, one in columns if "family" in one.concepts), "")
    postal = (one for _, one in columns if "postal" in one.concepts and target.what == {"address"})
    whole = next((one.label for one in postal if _holds(column, one)), "")
    unit = next((one.label for _, one in columns if _has_units_of(column, one)), "")
    side = _doubt_of_side(column, target, columns) if target.side and not column.concepts & SIDES else ""
    none = next((_CODES[kind] for kind in _CODES.keys() & concepts_of(target.field) if column.guess.type != kind), "")
    reasons: tuple[tuple[object, str], ...] = (
        (words, f'what is "{" ".join(words)}" in the heading?'),
        (extra, f"the heading also mentions {' and '.join(sorted(extra))}"),
        (missing, f"the heading does not mention {' and '.join(sorted(missing))}"),
        (
            column.concepts in _PROBABLY.values() and not target.is_key,
            f"the {' and '.join(column.concepts)} may not be the company of the {target.side}",
        ),
        (not column.filled_count, "all its cells are blank"),
        (
            target.what == {"company"}
            and not column.concepts & {"company", "customer", "supplier", "name"}
            and not column.cells.names_companies,
            "the values may be places",
        ),
        (
            "place" in target.whole and not column.concepts & (_PLACES | {"place"}),
            "the values may be names, not places",
        ),
        (
            target.what == {"company"} and not column.cells.names_companies and last_name,
            f"it may be the first name only: {last_name} has the last one",
        ),
        (whole, f"its cells hold {whole} too: it may be the whole address"),
        (target.what == {"company"} and column.cells.holds_addresses, "it may be the name with the whole address"),
        (target.what == _DESCRIBED and target.needed, "no heading names the goods"),
        (column.concepts == _MOMENT, "the heading does not say which date"),
        (side, side),
        (unit and target.what == {"quantity"}, f"{unit} has units of weight or volume: it may be no number of pieces"),
        (none, f"most of the values are no {none} in this language"),
        (
            {"status", "location"} & target.whole == {"status"}
            and target.field.kind is FieldKind.STRING
            and not target.field.known
            and not target.needed,
            f"sent as written: {a_few(column.cells.shown)}; does the exchange know these values?",
        ),
    )
    return next((text for holds, text in reasons if holds), "")


def _doubt_of_side(column: Column, target: FieldTarget, columns: Sequence[tuple[int, Column]]) -> str:
    """The reason to doubt that a heading without a side means that of its field: what the other headings say. Empty if there is none."""
    if target.what and any(one.concepts & SIDES and target.what <= one.concepts for _, one in columns):
        return f"the heading does not mention the {target.side}, other headings do"
    parts = _OF_ADDRESS | {"company", "name", "customer", "place"}
    own = next(number for number, one in columns if one is column)
    before = (one for number, one in columns if number == own and one.position < column.position)
    sided = [
        one
        for one in before
        if one.concepts & parts and one.concepts & (SIDES | {"customer"}) and not one.holds_moments
    ]
    last = max(sided, key=lambda one: one.position, default=None)
    if last is not None and last.concepts & SIDES == SIDES - {target.side}:
        return f"it stands behind {last.label}, which is not of the {target.side}"
    named = frozenset[str]().union(*(one.concepts for _, one in columns))
    is_collected = any({"pickup", "early"} <= one.concepts for _, one in columns)  # a window, not the day of dispatch
    only_collects = is_collected and not named & {"delivery", "customer"}
    return "the headings only mention the pickup" if target.side == "delivery" and only_collects else ""


def _has_units_of(column: Column, other: Column) -> bool:
    """Whether the next column has the units of this one, some of them of weights or volumes."""
    is_next = other.position == column.position + 1 and "unit" in other.concepts
    return is_next and any(map(common_unit, other.cells.shown))


def _holds(column: Column, other: Column) -> bool:
    """Whether most cells of a column hold the cell of another one in their row, such as the postal code of an address."""
    rows = zip(column.cells.value_indexes[:_COMPARED], other.cells.value_indexes[:_COMPARED], strict=False)
    texts = [(column.cells.values[own], other.cells.values[its]) for own, its in rows if own >= 0 and its >= 0]
    return column is not other and sum(its.strip() in own for own, its in texts) * 2 > len(texts)


def _rival_doubt(column: Column, rivals: Sequence[Column], *, is_key: bool) -> str:
    """The doubt about a column where others fit as well. Numbered keys (`Order 1`, `Order 2`) are those of several records in one row."""
    if not rivals:
        return ""
    others = " and ".join(rival.label for rival in rivals[:2])
    if is_key and column.reading.number and all(rival.reading.number for rival in rivals):
        return f"{others} may be records of their own: see loadsheet mapping help source.tables.sets"
    return f"{others} could fill it as well"

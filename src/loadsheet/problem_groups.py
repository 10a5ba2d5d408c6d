"""Groups problems by cause. Each cause has a sentence and, if possible, a proposal.

Owns: which problems have the same cause (same code, column and sheet), and what their values have in common: dates in another format,
numbers of another locale, words that a list lacks. A proposal is one line for the mapping or the sender. It is made only if all values
support it. A problem that follows from another one (`Problem.because`) is a consequence of the other's cause. Pure and streaming: keeps a
few examples of each cause, not the problems. Knows no document and no mapping.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from loadsheet.display_text import count_of
from loadsheet.problems import CATALOGUE, NOWHERE, Level, Problem, Where
from loadsheet.similar_text import proposed_value

PLACES_SHOWN = 3
_VALUES_KEPT = 50  # distinct values of a cause
_VALUES_SHOWN = 8
_CAUSES_MOST = 1_000  # further problems are grouped by code alone
_TEXT_MOST = 240  # characters

_DAYS = {
    "%d.%m.%Y": "day.month.year",
    "%d.%m.%y": "day.month.year",
    "%Y-%m-%d": "year-month-day",
    "%d/%m/%Y": "day/month",
    "%m/%d/%Y": "month/day",
    "%d/%m/%y": "day/month",
    "%m/%d/%y": "month/day",
    "%d-%m-%Y": "day-month",
    "%m-%d-%Y": "month-day",
    "%Y/%m/%d": "year/month/day",
    "%Y%m%d": "eight digits, year first",
    "%d %b %Y": "day, name of the month, year",
    "%d-%b-%Y": "day, name of the month, year",
    "%b %d, %Y": "name of the month, day, year",
}
_CLOCKS = ("", " %H:%M", " %H:%M:%S", "T%H:%M:%S", "T%H:%M", " %I:%M %p", "T%H:%M:%S%z")
_STYLES = {f"{day}{clock}": style for day, style in _DAYS.items() for clock in _CLOCKS}
_NUMBERS = {
    "en_GB": re.compile(r"[+-]?(?:[0-9]+|[0-9]{1,3}(?:,[0-9]{3})+)(?:\.[0-9]+)?"),
    "de_DE": re.compile(r"[+-]?(?:[0-9]+|[0-9]{1,3}(?:\.[0-9]{3})+)(?:,[0-9]+)?"),
    "fr_FR": re.compile(r"[+-]?(?:[0-9]+|[0-9]{1,3}(?:[ \u00a0\u202f][0-9]{3})+)(?:,[0-9]+)?"),
    "de_CH": re.compile(r"[+-]?(?:[0-9]+|[0-9]{1,3}(?:['\u2019][0-9]{3})+)(?:\.[0-9]+)?"),
    "en_IN": re.compile(r"[+-]?(?:[0-9]{1,2},)(?:[0-9]{2},)*[0-9]{3}(?:\.[0-9]+)?"),
}
_MARKS = {"en_GB": ".", "de_DE": ",", "fr_FR": ",", "de_CH": ".", "en_IN": "."}
_WITH_UNIT = re.compile(
    r"[+-]?[0-9][0-9.,' \u00a0\u202f]*(?P<unit>[^\W\d_][\w³]*|[$€£¥₹])\.?|[+-]?(?P<sign>[$€£¥₹]) ?[0-9][0-9.,' \u00a0\u202f]*"
)
_WAITS = "L607"
_CLOCK_ONLY = re.compile(r"[0-9: ]+(?: or [0-9: ]+)*")
_REQUIRED = "is required"  # the contract's text for a missing field
_ITEM = re.compile(r"\[[0-9]+\]")


@dataclass(frozen=True, slots=True)
class Consequences:
    """The problems that follow from a cause: their count, the number of documents that have no problem of the cause itself, the counts by
    code, and all of that in words (empty if there are none).
    """

    count: int = 0
    keys: int = 0
    kinds: Mapping[str, int] = field(default_factory=dict)
    say: str = ""


@dataclass(frozen=True, slots=True)
class Cause:
    """Problems with the same cause: their count, the number of documents, the first places, and up to three different values. Parts of
    the place that differ or are unknown are empty. `say` is one sentence; `proposal` is one line, the hint they share, or empty. Long
    values end in dots. `consequences` are the problems that it explains; they are no cause of their own.
    """

    code: str
    level: Level
    file: str
    sheet: str
    column: str
    count: int
    keys: int
    places: tuple[str, ...]
    found: tuple[str, ...]
    say: str
    proposal: str
    consequences: Consequences = Consequences()

    @property
    def documents(self) -> int:
        """The number of documents with a problem of this cause or a consequence of it."""
        return self.keys + self.consequences.keys


_Group = tuple[str, ...]


class Causes:
    """Groups problems by cause. Add all problems of a document one after the other."""

    def __init__(self) -> None:
        self._tallies: dict[
            tuple[_Group, _Group], _Tally
        ] = {}  # by their group and that of the problem they follow from
        self._documents: dict[_Group, _Documents] = defaultdict(_Documents)

    def add(self, problem: Problem, document: int = 0) -> None:
        """Add a problem. `document` is the number of its document among those that are added, 0 for a problem of a whole file or table."""
        own, root = _group(problem), _group(problem.because or problem)
        if (own, root) not in self._tallies and len(self._tallies) >= _CAUSES_MOST:
            own = root = own[:2]
        tally = self._tallies.get((own, root))
        if tally is None:
            where = problem.where
            at = Where(where.file, where.sheet, column=where.column) if len(own) > 2 else NOWHERE
            tally = self._tallies[own, root] = _Tally(problem, at)
        tally.add(problem, document)
        self._documents[root].add(document)

    def ranked(self) -> list[Cause]:
        """The causes: errors before warnings, then by the documents that they hold back, then by frequency. A problem whose cause is not
        among those added is one itself.
        """
        following: defaultdict[_Group, list[_Tally]] = defaultdict(list)
        alone: list[Cause] = []
        for (own, root), tally in self._tallies.items():
            if own != root and (root, root) in self._tallies:
                following[root].append(tally)
            elif own != root:
                alone.append(tally.cause())
        causes = [
            replace(
                tally.cause(),
                consequences=_consequences(following[root], self._documents[root].count - tally.documents.count),
            )
            for (own, root), tally in self._tallies.items()
            if own == root
        ]

        def rank(cause: Cause) -> tuple[bool, int, int, str, str, str]:
            return cause.level == "warning", -cause.documents, -cause.count, cause.code, cause.file, cause.column

        return sorted([*causes, *alone], key=rank)


@dataclass(slots=True)
class _Documents:
    """How many documents were counted, each once."""

    count: int = 0
    last: int = 0

    def add(self, document: int) -> None:
        if document and document != self.last:
            self.count, self.last = self.count + 1, document


def _consequences(tallies: Sequence["_Tally"], keys: int) -> Consequences:
    kinds: Counter[str] = Counter()
    for tally in tallies:
        kinds[tally.first.code] += tally.count
    if not kinds:
        return Consequences()
    waiting = kinds[_WAITS]
    named = [f"{count:,}x {_title(code)} ({code})" for code, count in kinds.most_common() if code != _WAITS]
    others = kinds.total() - waiting
    parts = [f"explains {count_of(others, 'more problem')}: {', '.join(named)}"] if others else []
    if waiting:
        parts.append(f"{waiting:,} document{'s wait' if waiting > 1 else ' waits'} for it")
    return Consequences(kinds.total(), max(keys, 0), dict(kinds.most_common()), "; ".join(parts))


def _title(code: str) -> str:
    title = CATALOGUE[code].title
    return f"{title[:1].lower()}{title[1:]}"


def _group(problem: Problem) -> _Group:
    where = problem.where
    return problem.code, problem.level, where.file, where.sheet, where.column, _subgroup(problem)


def _subgroup(problem: Problem) -> str:
    """Separates causes with the same code and column: the check, a key that looks like another one, or the field of the record without its
    place in a list.
    """
    check = str(problem.values.get("check", "")) or ("look-alike" if "meant" in problem.values else "")
    return check or _ITEM.sub("[]", problem.where.path)


@dataclass(slots=True)
class _Tally:
    """Statistics of one cause. `styles` and `locales` are those that fit every value so far."""

    first: Problem
    at: Where
    count: int = 0
    rows: int = 0
    documents: _Documents = field(default_factory=_Documents)
    longest: int = 0
    same_text: str = ""
    same_hint: str = ""
    places: list[str] = field(default_factory=list)
    values: dict[str, int] = field(default_factory=dict)
    near: dict[str, str] = field(default_factory=dict)
    units: dict[str, None] = field(default_factory=dict)
    styles: list[str] = field(default_factory=lambda: list(_STYLES))
    locales: list[str] = field(default_factory=lambda: list(_NUMBERS))
    more_values: bool = False
    all_with_unit: bool = True

    def add(self, problem: Problem, document: int) -> None:
        """Count one problem and its value."""
        self.count += 1
        self.rows += problem.number("count", 1) if problem.where.row else 0
        self.documents.add(document)
        if len(self.places) < PLACES_SHOWN and problem.where != NOWHERE and str(problem.where) not in self.places:
            self.places.append(str(problem.where))
        if self.count == 1:
            self.same_text, self.same_hint = _text(problem), problem.hint
        if self.same_hint != problem.hint:
            self.same_hint = ""
        if self.same_text and self.same_text != _text(problem):
            self.same_text = ""
        value = _shown_value(problem)
        kept = _short(value)
        if kept in self.values:
            self.values[kept] += 1
            return
        if len(self.values) < _VALUES_KEPT:
            self.values[kept] = 1
        else:
            self.more_values = True
        self._learn(problem, value)

    def _learn(self, problem: Problem, value: str) -> None:
        if problem.code == "C304":
            self.styles = [style for style in self.styles if _fits(value, style)]
        elif problem.code in ("C302", "C303", "C316"):
            self.locales = [name for name in self.locales if _NUMBERS[name].fullmatch(value)]
        if problem.code in ("C302", "C307"):
            unit = _WITH_UNIT.fullmatch(value)
            self.all_with_unit = self.all_with_unit and unit is not None
            if unit is not None and len(self.units) < _VALUES_KEPT:
                self.units[unit["unit"] or unit["sign"]] = None
        elif problem.code == "C312":
            self.longest = max(self.longest, problem.number("length"))
        close = proposed_value(problem.hint)
        if close and _short(value) in self.values:
            self.near[_short(value)] = close

    def cause(self) -> Cause:
        """The cause of these problems."""
        propose = _PROPOSALS.get(self.first.code)
        proposal = propose(self) if propose else ""
        at, examples = self.at, sorted(self.values, key=lambda value: -self.values[value])
        return Cause(
            self.first.code,
            self.first.level,
            at.file,
            at.sheet,
            at.column,
            self.count,
            self.documents.count,
            tuple(self.places),
            tuple(value for value in examples if value)[:PLACES_SHOWN],
            self._say(),
            " ".join((proposal or self.same_hint).splitlines()),
        )

    def _say(self) -> str:
        spread = f" in {self._spread()}" if self.count > 1 else ""
        if self.style and self.at.column and self.count > 1:
            return f"column {self.at.column} reads as {_STYLES[self.style]}{spread}"
        place = f"column {self.at.column}: " if self.at.column else ""
        if self.same_text:
            named = place if self.at.column not in self.same_text else ""
            return f"{named}{_short(self.same_text)}{',' if spread else ''}{spread}"
        return f"{place}{_title(self.first.code)}{spread}"

    def _spread(self) -> str:
        for count, unit in ((self.rows, "row"), (self.documents.count, "document"), (self.count, "place")):
            if count:
                return count_of(count, unit)
        return "no place"

    @property
    def style(self) -> str:
        """The only date format that fits all values; empty if there is none, or several that disagree on the order of day and month."""
        orders = {_STYLES[style] for style in self.styles} if self.first.code == "C304" and self.values else set()
        is_clock = _CLOCK_ONLY.fullmatch(str(self.first.values.get("expected", "")))
        return self.styles[0] if len(orders) == 1 and not is_clock else ""

    @property
    def locale(self) -> str:
        """The locale that fits all values; empty if there is none, or several that disagree on the decimal mark."""
        marks = {_MARKS[name] for name in self.locales}
        return self.locales[0] if len(marks) == 1 else ""

    def listed(self, values: Sequence[str] = ()) -> str:
        """The values as a short list."""
        chosen = list(values or self.values)
        more = len(chosen) - _VALUES_SHOWN
        text = ", ".join(chosen[:_VALUES_SHOWN])
        if more <= 0:
            return text
        return f"{text} and {'over ' if self.more_values else ''}{more} more"


def _text(problem: Problem) -> str:
    """The message without the numbers of list items."""
    return _ITEM.sub("", problem.text)


def _shown_value(problem: Problem) -> str:
    """The original text of the cell; for problems of the ledger or the exchange, the text of the refusal."""
    refusal = problem.values.get("text", "") if problem.code[0] in "LX" else ""
    return str(refusal or problem.found)


def _short(text: str) -> str:
    return text if len(text) <= _TEXT_MOST else f"{text[:_TEXT_MOST]} ..."


def _fits(value: str, style: str) -> bool:
    try:
        datetime.strptime(value, style)  # noqa: DTZ007 (only tests whether it parses)
    except ValueError:
        return False
    return True


# ---- proposals: one line about the values, or an empty text ----


def _dates(tally: _Tally) -> str:
    expected = str(tally.first.values.get("expected", ""))
    if expected == "a date without a time":
        return "the cells also hold times of day: use type: datetime"
    if tally.style:
        swapped = _swapped(tally.style)
        is_trap = bool(swapped) and any(_fits(example, swapped) for example in expected.split(" or "))
        if is_trap:
            remark = "dates with a day up to 12 were read with day and month swapped"
            return f'set dates: ["{tally.style}"] (or formats of the column); {remark}'
        return f'add "{tally.style}" to dates (or to formats of the column)'
    if tally.styles and tally.values and not _CLOCK_ONLY.fullmatch(expected):
        either = " or ".join(f'["{style}"]' for style in tally.styles[:2])
        return f"the values can be read in two ways: set dates: {either}"
    return f"expected: {expected}" if expected and not tally.same_text and not tally.same_hint else ""


def _swapped(style: str) -> str:
    """The format with day and month swapped, if both are numbers with the same separator; else empty."""
    day = style[:8]
    other = {"%d/%m/%": "%m/%d/%", "%m/%d/%": "%d/%m/%", "%d-%m-%": "%m-%d-%", "%m-%d-%": "%d-%m-%"}.get(day[:7])
    return f"{other}{style[7:]}" if other else ""


def _numbers(tally: _Tally) -> str:
    if tally.locale and tally.count > 1:  # one alone is a slip
        return f"they are numbers in the format of {tally.locale}: set locale: {tally.locale} for the column if all its numbers are"
    if (near := _near_words(tally)) or not (tally.all_with_unit and tally.units):
        return near
    return f"all have a unit ({', '.join(tally.units)}): use type: quantity with unit, or type: decimal with currency"


def _units(tally: _Tally) -> str:
    is_money = tally.first.values.get("expected", "").startswith("an amount")
    lacking = tally.all_with_unit and tally.units and not is_money
    return f"add {tally.listed(list(tally.units))} to source.units" if lacking else ""


def _listed(tally: _Tally) -> str:
    """Words close to a known one are typing errors; other words are missing in the list."""
    lacking = [value for value in tally.values if value not in tally.near]
    if tally.more_values:
        return "over 50 different words: perhaps the wrong column is mapped"
    if not lacking:
        pairs = [f"{value} -> {near}" for value, near in tally.near.items()]
        return f"correct {tally.listed(pairs)}; or, if they are right, add them to the list of the column"
    return f"the list of the column lacks {tally.listed(lacking)}"


def _near_words(tally: _Tally) -> str:
    if not tally.values or tally.more_values or len(tally.near) < len(tally.values):
        return ""
    return f"correct {tally.listed([f'{value} -> {near}' for value, near in tally.near.items()])}"


def _near_keys(tally: _Tally) -> str:
    """As many keys as are near another one, `O1 -> 01?`; the others lack a row."""
    pairs = [f"{value} -> {near}?" for value, near in tally.near.items()]
    return f"correct {tally.listed(pairs)}" if pairs else ""


def _zeros(tally: _Tally) -> str:
    """Only if the check of the values allows padding: it would change a value that is meant to be short."""
    width = tally.first.values.get("pads_to")
    return f'pad_left: {{to: {width}, with: "0"}} of the column restores the zeros' if width else ""


def _blank(tally: _Tally) -> str:
    is_blank = not any(tally.values) and tally.first.values.get("text", _REQUIRED) == _REQUIRED
    if not (is_blank and tally.at.column):
        return ""
    return "fill the column in; or set default: or fill_down: true in the mapping, if a blank has a meaning"


_PROPOSALS: dict[str, Callable[[_Tally], str]] = {
    "C301": _blank,
    "C302": _numbers,
    "C303": lambda tally: (
        "write a whole number, or use type: decimal if decimals are meant" if tally.locales and tally.values else ""
    ),
    "C304": _dates,
    "C306": _listed,
    "C307": _units,
    "C308": _near_words,
    "C309": _near_words,
    "C310": lambda tally: "" if tally.more_values else f"add {tally.listed()} to yes: or no: of the column",
    "C311": _near_words,
    "C312": lambda tally: (
        f"the longest has {tally.longest} characters: shorten them, or set max_length or on_too_long: cut_and_warn"
    ),
    "C316": _numbers,
    "G403": _near_keys,
    "G404": _near_keys,
    "K501": _blank,
    "R205": lambda tally: (
        "" if tally.same_hint else "compare these rows with the header: each value belongs below its own heading"
    ),
    "R207": lambda _: "correct the formula, or type the value in its place",
    "R223": _zeros,
}

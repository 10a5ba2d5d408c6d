"""Misbehaviour on demand: the classes of it, and the script that says which request meets which.

Owns: the names of the classes, the form of a script, and the decision for each request, which is the same for the same order of
requests. Pure: how a class looks on the wire stands in `front`.
"""

import random
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from enum import StrEnum
from pathlib import Path
from typing import Any, NamedTuple, Self

from loadsheet.contract import BY_NAME
from loadsheet.exchange.scripts import read_script, unknown_name
from loadsheet.problems import SettingsError

ANY, CONNECT = "any", "connect"
OPERATIONS = (ANY, CONNECT, *BY_NAME)


class Happens(StrEnum):
    """Whether the effect of a request that meets a class of misbehaviour happens all the same."""

    NEVER = "no"
    BEFORE = "before the answer"
    LATER = "after the answer"


class FaultClass(StrEnum):
    """Every class of misbehaviour: its name in scripts, what the client meets, and whether the effect happens."""

    doc: str
    happens: Happens

    def __new__(cls, name: str, doc: str, happens: Happens) -> Self:
        """A member that is its name and carries its line of documentation."""
        member = str.__new__(cls, name)
        member._value_ = name
        member.doc, member.happens = doc, happens
        return member

    CLOSED_AT_ACCEPT = (
        "closed_at_accept",
        "the connection is closed as soon as it stands (operation: connect)",
        Happens.NEVER,
    )
    RESET_AT_ACCEPT = (
        "reset_at_accept",
        "the connection is reset as soon as it stands (operation: connect)",
        Happens.NEVER,
    )
    REFUSED = (
        "refused",
        "the request is reset unread, and for `seconds` nobody listens: connection refused",
        Happens.NEVER,
    )
    RESET_BEFORE_BODY = "reset_before_body", "reset when the headers are read and nothing of the body is", Happens.NEVER
    RESET_IN_BODY = "reset_in_body", "reset when `bytes` of the body are read (0: half of it)", Happens.NEVER
    RESET_BEFORE_EFFECT = "reset_before_effect", "reset when the whole request is read", Happens.NEVER
    CLOSED_BEFORE_EFFECT = (
        "closed_before_effect",
        "closed without an answer when the whole request is read",
        Happens.NEVER,
    )
    RESET_AFTER_EFFECT = "reset_after_effect", "the effect is committed, the answer lost by a reset", Happens.BEFORE
    CLOSED_AFTER_EFFECT = "closed_after_effect", "the effect is committed, the answer lost by a close", Happens.BEFORE
    RESET_IN_ANSWER = "reset_in_answer", "reset in the middle of the answer's body", Happens.BEFORE
    STATUS_BEFORE_EFFECT = "status_before_effect", "an answer of `status`, with `retry_after` if given", Happens.NEVER
    STATUS_AFTER_EFFECT = "status_after_effect", "the same, although the effect is committed", Happens.BEFORE
    UNAUTHORISED = "unauthorised", "the documented 401, whatever the token is", Happens.NEVER
    NO_ANSWER = "no_answer", "the request is read, and `seconds` later the connection closed", Happens.NEVER
    SLOW_ANSWER = "slow_answer", "the answer comes `seconds` after the effect", Happens.BEFORE
    SLOW_EFFECT = "slow_effect", "effect and answer come after `seconds`, also if the client has gone", Happens.BEFORE
    LATE_EFFECT = (
        "late_effect",
        "an answer of `status` (0: closed without one), the effect `seconds` later",
        Happens.LATER,
    )
    DRIPPING_HEADERS = "dripping_headers", "the whole answer byte by byte, `seconds` between two", Happens.BEFORE
    DRIPPING_ANSWER = "dripping_answer", "the answer's body byte by byte, `seconds` between two", Happens.BEFORE
    CUT_ANSWER = "cut_answer", "half of the body under a Content-Length for all of it, then closed", Happens.BEFORE
    CUT_CHUNK = "cut_chunk", "closed in the middle of a chunk", Happens.BEFORE
    CUT_OLD_PROTOCOL = "cut_old_protocol", "HTTP/1.0 without a length, closed after half of the body", Happens.BEFORE
    TRUNCATED_JSON = "truncated_json", "half of the JSON under a Content-Length that fits", Happens.BEFORE
    LENGTH_TOO_SHORT = "length_too_short", "the whole body under a Content-Length for half of it", Happens.BEFORE
    TWO_LENGTHS = "two_lengths", "two Content-Length headers that differ", Happens.BEFORE
    GARBAGE = "garbage", "200 with `bytes` of noise as its JSON", Happens.BEFORE
    NOT_HTTP = "not_http", "noise instead of an answer, then closed", Happens.BEFORE
    HTML = "html", "200 with a web page, as a proxy's sign-in shows it", Happens.NEVER
    WRONG_SHAPE = "wrong_shape", "200 with good JSON of another shape", Happens.BEFORE
    STATUS_FALSE = "status_false", "200 with the answer's own body, but status false", Happens.BEFORE
    WRONG_ID = "wrong_id", "200 that names another record", Happens.BEFORE
    REDIRECT = "redirect", "`status` (0: 307) to `location` on another origin", Happens.NEVER
    GZIP_BOMB = "gzip_bomb", "a packed body that unpacks to `bytes`", Happens.BEFORE
    ENDLESS_ANSWER = "endless_answer", "a body that goes on for `bytes`", Happens.BEFORE
    CLOSED_UNDER_PIPELINED = (
        "closed_under_pipelined",
        "a good answer; the next request on the connection is reset unanswered, without effect",
        Happens.BEFORE,
    )
    TWO_ANSWERS = "two_answers", "the answer, and a second one behind it", Happens.BEFORE


_BY_CONNECTION = {FaultClass.CLOSED_AT_ACCEPT, FaultClass.RESET_AT_ACCEPT}
_BODY_UNREAD = {FaultClass.REFUSED, FaultClass.RESET_BEFORE_BODY, FaultClass.RESET_IN_BODY}


@dataclass(frozen=True, slots=True)
class FaultRule:
    """Which requests meet one class of misbehaviour.

    The requests of `operation` (and of the business `key`, if given) are counted from 1. The rule holds for those at the
    places `at`, for every `every`-th, and for all from `from_` to `until`; without any of these for all. Of those, `share`
    (0 to 1) decides by lot, the same lot for the same `seed` and place. Sizes are bytes; 0 means the class's own default.
    """

    fault: FaultClass
    operation: str = ANY
    key: str = ""
    at: tuple[int, ...] = ()
    every: int = 0
    from_: int = 0
    until: int = 0
    share: float = 1.0
    seconds: float = 1.0
    status: int = 0
    retry_after: str = ""
    bytes: int = 0
    location: str = ""

    def __post_init__(self) -> None:
        if self.operation not in OPERATIONS:
            raise SettingsError(f"faults: {self.operation!r} is no operation; known are {', '.join(OPERATIONS)}")
        if (self.fault in _BY_CONNECTION) != (self.operation == CONNECT):
            raise SettingsError(
                f"faults: {self.fault}: operation {CONNECT} belongs to {', '.join(sorted(_BY_CONNECTION))}"
            )
        if self.key and self.fault in _BODY_UNREAD | _BY_CONNECTION:
            raise SettingsError(f"faults: {self.fault} strikes before the body, and so the key, is read; leave out key")
        if not 0 <= self.share <= 1 or min(self.seconds, self.every, self.from_, self.until, self.bytes, *self.at) < 0:
            raise SettingsError(f"faults: {self.fault}: share lies between 0 and 1, and no number is below 0")
        if self.status and not 200 <= self.status <= 599:  # noqa: PLR2004 (the final statuses of HTTP)
            raise SettingsError(f"faults: {self.fault}: status {self.status} is none that ends a call")
        if not all(text.isascii() and text.isprintable() for text in (self.retry_after, self.location)):
            raise SettingsError(f"faults: {self.fault}: retry_after and location go into headers; use plain letters")

    def holds_at(self, place: int) -> bool:
        """Whether the request at a place (from 1), of those that the rule counts, is meant; `share` apart."""
        if place in self.at or (self.every and place % self.every == 0):
            return True
        bounded = self.from_ or self.until
        if bounded and place >= self.from_ and (not self.until or place <= self.until):
            return True
        return not (self.at or self.every or bounded)


class Fired(NamedTuple):
    """One misbehaviour that was shown: at which request of its operation (from 1), with what key (empty: not read)."""

    fault: FaultClass
    operation: str
    number: int
    key: str


@dataclass(frozen=True, slots=True)
class FaultScript:
    """The rules, first match first, and the seed of every lot and every noise."""

    rules: tuple[FaultRule, ...] = ()
    seed: int = 0


class Meeting(NamedTuple):
    """A request of an operation, its number among those (from 1), and the index of the rule it meets (None: none)."""

    operation: str
    number: int
    rule: int | None


@dataclass(slots=True)
class Faults:
    """A script at work: it counts what comes and says what each request meets. Not for several threads."""

    script: FaultScript
    fired: list[Fired] = field(default_factory=list)
    _places: Counter[int] = field(default_factory=Counter)
    _numbers: Counter[str] = field(default_factory=Counter)

    def at_headers(self, operation: str) -> Meeting:
        """Count a request of which only the headers are read: its number, and what it meets if no rule names its key."""
        self._numbers[operation] += 1
        return Meeting(operation, self._numbers[operation], self._first(operation, None))

    def at_body(self, meeting: Meeting, keys: Sequence[str]) -> Meeting:
        """What the same request meets now that the keys in its body are known."""
        found = [index for index in (meeting.rule, self._first(meeting.operation, keys)) if index is not None]
        return meeting._replace(rule=min(found, default=None))

    def fire(self, meeting: Meeting, keys: Sequence[str] = ()) -> FaultRule | None:
        """The rule that a request meets, noted down as shown; None if it meets none."""
        if meeting.rule is None:
            return None
        rule = self.script.rules[meeting.rule]
        self.fired.append(Fired(rule.fault, meeting.operation, meeting.number, " ".join(keys)))
        return rule

    def unread(self, meeting: Meeting) -> bool:
        """Whether the request meets something that strikes before its body is read."""
        return meeting.rule is not None and self.script.rules[meeting.rule].fault in _BODY_UNREAD

    def _first(self, operation: str, keys: Sequence[str] | None) -> int | None:
        """The first rule that holds, of those without a key (`keys` None) or of those with one of these keys; all count."""
        met = None
        for index, rule in enumerate(self.script.rules):
            if rule.operation != operation and (rule.operation != ANY or operation == CONNECT):
                continue
            if rule.key not in (("",) if keys is None else set(keys) - {""}):
                continue
            self._places[index] += 1
            if met is None and rule.holds_at(self._places[index]) and self._drawn(index, rule):
                met = index
        return met

    def noise(self, number: int, size: int) -> bytes:
        """Bytes of no meaning, the same for the same seed."""
        return random.Random(f"{self.script.seed}:{number}").randbytes(size)  # noqa: S311 (noise on purpose)

    def _drawn(self, index: int, rule: FaultRule) -> bool:
        lot = random.Random(f"{self.script.seed}:{index}:{self._places[index]}")  # noqa: S311 (has to be repeatable)
        return rule.share >= 1 or lot.random() < rule.share


_NAMES = {"from" if item.name == "from_" else item.name: item for item in fields(FaultRule)}
_TYPES: Mapping[str, type | tuple[type, ...]] = {
    "every": int, "from": int, "until": int, "status": int, "bytes": int, "share": (int, float), "seconds": (int, float)
}  # fmt: skip


def read_faults(path: Path) -> FaultScript:
    """The script of a file: `seed`, and a list of rules under `faults`. Raises SettingsError saying what is wrong in it."""
    script = read_script(path)
    for name in script:
        if name not in ("seed", "faults"):
            raise unknown_name(path, name, ("seed", "faults"))
    seed, rules = script.get("seed", 0), script.get("faults", [])
    if type(seed) is not int or not isinstance(rules, list) or not all(isinstance(rule, dict) for rule in rules):
        raise SettingsError(f"{path}: expected seed, a whole number, and faults, a list of rules")
    return FaultScript(tuple(_rule(path, rule) for rule in rules), seed)


def _rule(path: Path, given: Mapping[str, Any]) -> FaultRule:
    for name in given:
        if name not in _NAMES:
            raise unknown_name(path, str(name), _NAMES)
    kinds = [kind.value for kind in FaultClass]
    if given.get("fault") not in kinds:
        raise unknown_name(path, str(given.get("fault", "")), kinds)
    values: dict[str, Any] = {"fault": FaultClass._value2member_map_[given["fault"]]}
    for name, value in given.items():
        if name == "at":
            places = value if isinstance(value, list) else [value]
            if not all(type(place) is int for place in places):
                raise SettingsError(f"{path}: at: expected a whole number or a list of them, found {value!r}")
            values[name] = tuple(places)
        elif name in _TYPES:
            if isinstance(value, bool) or not isinstance(value, _TYPES[name]):
                raise SettingsError(f"{path}: {name}: expected a number, found {value!r}")
            values[_NAMES[name].name] = value
        elif name != "fault":
            values[name] = str(value)
    return FaultRule(**values)

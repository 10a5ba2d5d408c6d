"""The protocol for unknown outcomes, in every history that faults, crashes and strange exchanges can make of a few operations on one key.

The ledger is durable, everything else is lost in a crash; a request may land until `LATE` ticks after the client gave it up. What
follows from an unknown outcome is not modelled: it is asked of the product's own `conclude`.
"""

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

import pytest

from loadsheet.contract import Action
from loadsheet.dispatch.unknown_rules import NO_LISTING, Case, Observation, Presence, decide_case
from loadsheet.ledger import Entry, ListingFinding, State
from loadsheet.settings import Settings

TICK_S = 60
LATE = 3
"""So many ticks after the client gave up, a request may still be applied."""

READY, SENDING, UNKNOWN, ACCEPTED, REFUSED = "ready", "sending", "unknown", "accepted", "refused"
LISTED = (Action.CREATE, Action.UPDATE, Action.DELETE)
QUOTES = (Action.QUOTE, Action.CONFIRM)
_T0 = datetime(2026, 3, 4, 2, 0, tzinfo=UTC)


class Op(NamedTuple):
    """What the ledger knows of one operation. `waited` and `look` are ticks: since it became unknown, since absence was seen."""

    state: str = READY
    attempts: int = 0
    doubted: bool = False  # an earlier attempt was unknown
    waited: int = 0
    look: int | None = None
    named: bool = False  # as possibly doubled
    applied: int = 0  # what really happened, at most 2 counted


class World(NamedTuple):
    """One moment. `held` is the operation whose content the exchange holds (-1: no record), `copies` how many records of the key;
    `shown` is what a stale listing still shows; `flying` are late requests with the ticks they have left.
    """

    ops: tuple[Op, ...]
    held: int = -1
    copies: int = 0
    shown: int = -1
    last: int = -1  # the latest operation that was applied
    flying: tuple[tuple[int, int], ...] = ()
    faults: int = 0
    crashes: int = 0


def protocol_settings(**changes: Any) -> Settings:
    """The product's settings with pauses that outlast late requests and a stale listing."""
    pauses = {"quiesce_s": TICK_S * (LATE + 2), "status_quiesce_s": TICK_S * (LATE + 2), "confirm_gap_s": TICK_S}
    return Settings(**{**pauses, "call_timeout_s": TICK_S, **changes})


@dataclass(frozen=True)
class Setting:
    """A program of operations, an exchange, a listing, and the budgets of what may go wrong."""

    program: tuple[Action, ...]
    on_existing: str = "reject"  # reject, replace, accept (answered 200 without effect), double
    update_creates: bool = False
    listing: str = "exact"  # exact, stale (by a tick), capped or wrong kind (shows nothing, and is known to prove nothing), trusted cap
    faults: int = 2
    crashes: int = 1
    write_ahead: bool = True
    barrier: bool = True
    trusts_refusals: bool = False
    settings: Settings = field(default_factory=protocol_settings)
    judge: "Judge" = field(init=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "judge", Judge(self.settings))

    @property
    def patience(self) -> int:
        """After so many ticks nothing more is waited for."""
        pauses = self.settings.verification
        return int(max(pauses.quiesce_s, pauses.status_quiesce_s)) // TICK_S


class Broken(NamedTuple):
    """A law that does not hold, and the shortest way there."""

    law: str
    steps: tuple[str, ...]


class Explored(NamedTuple):
    """How many moments there are, how many of them are ends (nothing more can happen), and the first broken law."""

    states: int
    ends: int
    broken: Broken | None


def explore(setting: Setting) -> Explored:
    """Look at every moment, nearest first, until a law is broken or there are no more."""
    start = World(tuple(Op() for _ in setting.program))
    came_from: dict[World, tuple[World, str] | None] = {start: None}
    frontier, ends = [start], 0
    while frontier:
        following = []
        for world in frontier:
            moves = 0
            for step, then in _moves(setting, world):
                moves += 1
                if then in came_from:
                    continue
                came_from[then] = (world, step)
                if law := _broken(setting, then):
                    return Explored(len(came_from), ends, Broken(law, _path(came_from, then)))
                following.append(then)
            if not moves:
                ends += 1
                if law := _broken_at_the_end(setting, world):
                    return Explored(len(came_from), ends, Broken(law, _path(came_from, world)))
        frontier = following
    return Explored(len(came_from), ends, None)


def _path(came_from: dict[World, tuple[World, str] | None], world: World) -> tuple[str, ...]:
    steps: list[str] = []
    while (before := came_from[world]) is not None:
        world, step = before
        steps.append(step)
    return tuple(reversed(steps))


def _broken(setting: Setting, world: World) -> str:
    for action, op in zip(setting.program, world.ops, strict=True):
        if op.state == ACCEPTED and not op.applied and action is not Action.DELETE:
            return f"{action} accepted, and nothing happened"
        if op.state == REFUSED and op.applied:
            return f"{action} refused, and it happened"
        is_single = action in (*QUOTES, Action.STATUS) or (action is Action.CREATE and setting.on_existing == "double")
        if is_single and op.applied > 1 and (action is Action.CREATE or not op.named):
            return f"{action} doubled and not named"
    return "two records of one key" if world.copies > 1 else ""


def _broken_at_the_end(setting: Setting, world: World) -> str:
    """At an end all that is settled must be what the exchange holds; what is unknown is for a person."""
    if any(op.state not in (ACCEPTED, REFUSED) for op in world.ops):
        return ""
    done = [number for number, op in enumerate(world.ops) if op.state == ACCEPTED and setting.program[number] in LISTED]
    if not done:
        return ""
    meant = -1 if setting.program[done[-1]] is Action.DELETE else done[-1]
    return "" if world.held == meant else f"the exchange holds {world.held}, the ledger says {meant}"


def _moves(setting: Setting, world: World) -> Iterator[tuple[str, World]]:
    for number, op in enumerate(world.ops):
        if op.state == READY and _may_leave(setting, world, number):
            yield from _sent(setting, world, number)
        elif op.state == UNKNOWN:
            yield from _looked_up(setting, world, number)
    for flight in set(world.flying):
        rest = list(world.flying)
        rest.remove(flight)
        yield (
            f"{_say(setting, flight[0])} lands late",
            _apply(setting, world, flight[0])[0]._replace(flying=tuple(rest)),
        )
        yield f"{_say(setting, flight[0])} is lost for good", world._replace(flying=tuple(rest))
    if _time_matters(setting, world):
        yield "a tick", _tick(setting, world)


def _may_leave(setting: Setting, world: World, number: int) -> bool:
    """The lane: nothing before it open, and nothing but a create without its record."""
    before = world.ops[:number]
    if setting.barrier and any(op.state not in (ACCEPTED, REFUSED) for op in before):
        return False
    if any(op.state == READY for op in before):
        return False
    action = setting.program[number]
    if action not in (Action.UPDATE, Action.DELETE):
        return True
    made = [op.state for op, earlier in zip(before, setting.program, strict=False) if earlier is Action.CREATE]
    return ACCEPTED in made or not setting.barrier


def _sent(setting: Setting, world: World, number: int) -> Iterator[tuple[str, World]]:
    name, op = _say(setting, number), world.ops[number]
    sent = op._replace(attempts=op.attempts + 1)
    after, accepted = _apply(setting, world, number)
    if accepted:
        yield f"{name} ok", _with(after, number, after.ops[number]._replace(state=ACCEPTED, attempts=sent.attempts))
    elif op.doubted and not setting.trusts_refusals:
        yield f"{name} refused after a doubt", _with(world, number, _doubted(sent))
    else:
        yield f"{name} refused", _with(world, number, sent._replace(state=REFUSED))
    lost, landed = _with(world, number, _doubted(sent)), _apply(setting, world, number)[0]
    done = _with(landed, number, _doubted(landed.ops[number]._replace(attempts=sent.attempts)))
    if world.faults < setting.faults:
        for step, then in (
            ("not sent", world),
            ("lost", lost),
            ("delayed", _fly(lost, number)),
            ("done, answer lost", done),
        ):
            yield f"{name} {step}", then._replace(faults=world.faults + 1)
    if world.crashes < setting.crashes:
        written = (("marked", lost), ("delayed", _fly(lost, number)), ("done", done))
        for step, then in written if setting.write_ahead else (("done", landed),):
            yield f"{name} {step}, crash", then._replace(crashes=world.crashes + 1)


def _doubted(op: Op) -> Op:
    return op._replace(state=UNKNOWN, doubted=True, waited=0, look=None)


def _fly(world: World, number: int) -> World:
    return world._replace(flying=tuple(sorted((*world.flying, (number, LATE)))))


def _apply(setting: Setting, world: World, number: int) -> tuple[World, bool]:
    """What the exchange makes of a request, and whether it answers with success."""
    action, op, exists = setting.program[number], world.ops[number], world.held >= 0
    done = _with(world, number, op._replace(applied=min(op.applied + 1, 2)))._replace(last=number)
    if action not in LISTED:
        return done, True
    if action is Action.CREATE and exists and setting.on_existing in ("reject", "accept"):
        return world, setting.on_existing == "accept"
    if action is not Action.CREATE and not exists and not (action is Action.UPDATE and setting.update_creates):
        return world, False
    if action is Action.DELETE:
        return done._replace(held=-1, copies=0), True
    doubles = action is Action.CREATE and exists and setting.on_existing == "double"
    return done._replace(held=number, copies=2 if doubles else 1), True


def _looked_up(setting: Setting, world: World, number: int) -> Iterator[tuple[str, World]]:
    op = world.ops[number]
    action = setting.program[number]
    observation = _observation(setting, world, number) if action in LISTED else NO_LISTING
    state, counts, named = setting.judge.concludes(action, observation, op)
    if state is None:
        look = 0 if counts and op.look is None else op.look
        then = op._replace(look=look)
    else:
        then = op._replace(state=state, look=None, waited=0, named=op.named or named)
    if then != op:
        yield f"{_say(setting, number)} looked up: {observation.shown}, now {then.state}", _with(world, number, then)


def _observation(setting: Setting, world: World, number: int) -> Observation:
    if setting.listing in ("capped", "wrong kind"):
        return Observation(Presence.ABSENT, absence_is_proof=False, why=setting.listing)
    if setting.listing == "trusted cap":
        return Observation(Presence.ABSENT, absence_is_proof=True)
    held = world.shown if setting.listing == "stale" else world.held
    accepted = [
        earlier
        for earlier in range(number)
        if world.ops[earlier].state == ACCEPTED and setting.program[earlier] in LISTED
    ]
    before = accepted[-1] if accepted else -1
    if held < 0:
        return Observation(Presence.ABSENT, absence_is_proof=True)
    if world.copies > 1:
        return Observation(Presence.TWICE, absence_is_proof=True)
    if setting.program[number] is not Action.DELETE and held == number:
        return Observation(Presence.AS_SENT, absence_is_proof=True)
    return Observation(Presence.AS_BEFORE if held == before else Presence.OTHERWISE, absence_is_proof=True)


class Judge:
    """The product's conclusions, each asked for once."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._known: dict[tuple[Action, Observation, int, int | None, int], tuple[str | None, bool, bool]] = {}

    def concludes(self, action: Action, observation: Observation, op: Op) -> tuple[str | None, bool, bool]:
        """The state that follows (None: it stays unknown), whether the look counts, and whether a double is named."""
        asked = (action, observation, op.waited, op.look, op.attempts)
        if asked not in self._known:
            now = _T0 + timedelta(seconds=op.waited * TICK_S)
            looks = () if op.look is None else (_finding(now - timedelta(seconds=op.look * TICK_S)),)
            case = Case(
                _entry(f"{'tender' if action in QUOTES else 'order'}.{action}", op.attempts),
                observation,
                at=_stamp(now),
                waited_s=float(op.waited * TICK_S),
                sends=op.attempts,
                earlier_findings=looks,
            )
            found = decide_case(case, self._settings)
            state = None if found.state is None else str(found.state)
            self._known[asked] = (state, found.proves_absence, found.problem is not None)
        return self._known[asked]


def _finding(at: datetime) -> ListingFinding:
    return ListingFinding(1, "2026-03-04-01", _stamp(at), Presence.ABSENT, proves_absence=True, text="")


def _entry(operation: str, attempts: int) -> Entry:
    at = _stamp(_T0)
    return Entry(1, 1, operation, "A-1", "order:A-1", State.UNKNOWN, "", b"{}", "", (), {}, (), "", attempts, at, at)


def _stamp(moment: datetime) -> str:
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _time_matters(setting: Setting, world: World) -> bool:
    waits = any(op.state == UNKNOWN and (op.waited < setting.patience or op.look == 0) for op in world.ops)
    return bool(world.flying) or waits or (setting.listing == "stale" and world.shown != world.held)


def _tick(setting: Setting, world: World) -> World:
    """A minute passes. What is in the air either lands now or has less time left; it cannot stay up for ever."""
    ops = tuple(
        op._replace(waited=min(op.waited + 1, setting.patience), look=None if op.look is None else 1)
        if op.state == UNKNOWN
        else op
        for op in world.ops
    )
    shown = world.held if setting.listing == "stale" else -1
    if not world.flying:
        return world._replace(ops=ops, shown=shown)
    over = world
    flying = []
    for number, left in world.flying:
        if left > 1:
            flying.append((number, left - 1))
        else:
            over = _apply(setting, over, number)[0]  # its last moment; that it is lost instead is a move of its own
    merged = tuple(aged._replace(applied=done.applied) for aged, done in zip(ops, over.ops, strict=True))
    return over._replace(ops=merged, flying=tuple(flying), shown=shown)


def _with(world: World, number: int, op: Op) -> World:
    ops = list(world.ops)
    ops[number] = op
    return world._replace(ops=tuple(ops))


def _say(setting: Setting, number: int) -> str:
    return f"{setting.program[number]} {number}"


CREATE, UPDATE, DELETE, STATUS = Action.CREATE, Action.UPDATE, Action.DELETE, Action.STATUS
QUOTE, CONFIRM = Action.QUOTE, Action.CONFIRM
LISTINGS = ("exact", "stale", "capped", "wrong kind")
RESENDS = {"create_after_absent": "resend", "assumptions": {"create_existing": "reject"}}
PROGRAMS = [
    (CREATE,),
    (CREATE, UPDATE),
    (CREATE, UPDATE, UPDATE),
    (CREATE, UPDATE, DELETE),
    (CREATE, DELETE, CREATE),
    (STATUS, STATUS, STATUS),
    (QUOTE, QUOTE, CONFIRM),
]


@pytest.mark.parametrize("listing", LISTINGS)
@pytest.mark.parametrize("program", PROGRAMS, ids="-".join)
@pytest.mark.parametrize("changes", [{}, RESENDS], ids=["at most once", "resends"])
def test_no_history_loses_or_doubles(program, listing, changes):
    # an exchange that makes a second record of a repeated create is one that create_after_absent = resend is not meant for
    for on_existing in ("reject", "replace", "accept", "double"):
        found = explore(Setting(program, on_existing, listing=listing, settings=protocol_settings(**changes)))
        assert found.broken is None, (on_existing, found.broken)
        assert found.ends > 0


WEAKER = {
    "the pause is shorter than a late request": (
        {"on_existing": "double", "settings": protocol_settings(quiesce_s=TICK_S, **RESENDS)},
        (CREATE,),
    ),
    "a listing that hides records is trusted": (
        {"on_existing": "double", "listing": "trusted cap", "settings": protocol_settings(**RESENDS)},
        (CREATE,),
    ),
    "nothing is written down before a call": ({"on_existing": "double", "write_ahead": False}, (CREATE,)),
    "a refusal after a doubt is believed": (
        {"trusts_refusals": True, "settings": protocol_settings(quiesce_s=TICK_S, **RESENDS)},
        (CREATE,),
    ),
    "later operations do not wait": ({"barrier": False}, (CREATE, UPDATE, UPDATE)),
}


@pytest.mark.parametrize("name", WEAKER)
def test_each_rule_is_needed(name):
    """The same model finds what goes wrong without the rule: it can fail."""
    changes, program = WEAKER[name]
    found = explore(Setting(program, **changes))
    assert found.broken is not None


@pytest.mark.sweep
@pytest.mark.timeout(1200)
def test_half_a_million_moments(record_property):
    total, listings = 0, itertools.cycle(("exact", "stale"))
    for program in [(CREATE, UPDATE, UPDATE, DELETE), (CREATE, DELETE, CREATE, UPDATE), (STATUS,) * 4]:
        for on_existing, listing in zip(("reject", "replace", "double"), listings, strict=False):
            setting = Setting(
                program, on_existing, listing=listing, faults=6, crashes=4, settings=protocol_settings(**RESENDS)
            )
            found = explore(setting)
            assert found.broken is None, (program, on_existing, listing, found.broken)
            total += found.states
    record_property("moments", total)
    assert total >= 500_000

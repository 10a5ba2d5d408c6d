"""The probe: finds out how one exchange answers what the interface leaves open, and leaves the tenant as it was.

Owns: the order of the questions, the questions about listings, paths and limits, and what a probe that is cut short tells. The
questions about records stand in `questions`; calls and cleaning up in `sandbox`. For a tenant that may be written to only.
"""

import secrets
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, NamedTuple

from loadsheet.contract import BY_NAME, PATH_PREFIX, Listing, UndocumentedAnswer
from loadsheet.dispatch import probe_questions
from loadsheet.dispatch.client import Client
from loadsheet.dispatch.outcomes import decode
from loadsheet.dispatch.probe_questions import SUBJECTS, observed, settled
from loadsheet.dispatch.probe_records import ProbeRecords
from loadsheet.dispatch.probe_tenant import ProbeReply, ProbeTenant
from loadsheet.exchange_profile import Answer, Capabilities
from loadsheet.problems import ExchangeUnreachable, TokenRefused
from loadsheet.settings import Settings

PAUSE_S = 0.1
HUGE_PAGE = 1_000_000_000
PAGES = (1_000_000, 100_000, 10_000, 1_000, 100)  # tried one after the other where the huge one is refused
LAGS_S = (0.0, 0.5, 1.5, 3.0)  # a fresh record that is not listed after all of them is not listed at all

_Question = Callable[[], Answer | Iterable[Answer]]


@dataclass(frozen=True, slots=True)
class ProbeResult:
    """What a probe found. `left` is what it could not remove, a line each; `stopped` is why it did not come to its end."""

    capabilities: Capabilities
    calls: int
    left: tuple[str, ...]
    stopped: TokenRefused | ExchangeUnreachable | None = None


def probe(
    client: Client,
    settings: Settings,
    *,
    version: str,
    given: Mapping[str, str] | None = None,
    pause_s: float = PAUSE_S,
    report: Callable[[str], None] = lambda _line: None,
) -> ProbeResult:
    """Ask every question of the exchange that the client leads to, with records that are deleted again.

    `given` are values for fields of the records, such as the parties that the tenant knows; `pause_s` is kept between calls;
    `report` gets one line for each call. A refused token and an exchange that is gone end the probe early, never with an exception.
    """
    assumptions = settings.assumptions
    rate = assumptions.calls_per_second
    box = ProbeTenant(
        client,
        assumptions,
        ProbeRecords(given or {}),
        run=secrets.token_hex(4),
        pause_s=max(pause_s, 1 / rate if rate else 0.0),
        report=report,
    )
    answers: list[Answer] = []
    stopped: TokenRefused | ExchangeUnreachable | None = None
    left: tuple[str, ...] = ()
    try:
        for question in _questions(box):
            found = question()
            answers += [found] if isinstance(found, Answer) else found
    except (TokenRefused, ExchangeUnreachable) as error:
        stopped = error
    finally:
        left = box.clear()
    told = Capabilities(client.base_url, datetime.now(UTC), version, tuple(answers))
    return ProbeResult(told, box.calls, left, stopped)


def _questions(box: ProbeTenant) -> Iterator[_Question]:
    """The questions in their order: each may use what those before it found out."""
    yield lambda: _page_sizes(box)
    kept = {subject: box.new_id() for subject in SUBJECTS}
    order, tender = kept["order"], kept["tender"]
    yield lambda: _first_records(box, order, tender)
    yield lambda: _which_listing(box, kept)
    yield lambda: probe_questions.create_existing(box, order, tender)
    yield lambda: probe_questions.quotes(box, tender)
    yield lambda: probe_questions.statuses(box, order)
    yield lambda: probe_questions.update_unknown(box)
    yield lambda: probe_questions.unknown_ids(box)
    yield lambda: probe_questions.forms(box)
    yield lambda: probe_questions.shapes(box)
    yield lambda: probe_questions.listing_only(box)
    yield lambda: probe_questions.references(box)
    yield lambda: probe_questions.identifiers(box)
    yield lambda: _paths(box)
    yield lambda: _limits(box)


def _page_sizes(box: ProbeTenant) -> list[Answer]:
    """Default, place and maximum of the page size."""
    said, plain = box.look(None)
    if plain is None:
        names = ("page_size_default", "page_size_in", "page_size_max")
        return [settled(name, None, "the plain listing", [said], "it is no listing") for name in names]
    cut = plain.total_count > len(plain.results) == plain.page_size
    default = settled(
        "page_size_default",
        plain.page_size or None,
        "the listing without a page size",
        [said],
        f"it named {plain.page_size}" + (" and was cut to it" if cut else ""),
        seen=cut,
    )
    return [default, _place(box, plain), _most(box)]


def _place(box: ProbeTenant, plain: Listing) -> Answer:
    first, second = [size for size in (1, 2, 3) if size != plain.page_size][:2]
    came, read = [], []
    for place, size in (("query", first), ("body", second)):
        said, found = box.look(size, place=place)
        came.append(said)
        read += [place] if found is not None and found.page_size == size else []
    sent = f"page size {first} in the query, {second} in the body"
    if not read:
        return settled("page_size_in", None, sent, came, "neither was taken")
    box.page_size_in = "query" if read[0] == "query" else "body"
    return settled("page_size_in", read[0], sent, came, f"taken from the {' and the '.join(read)}")


def _most(box: ProbeTenant) -> Answer:
    came: list[ProbeReply] = []
    for size in (HUGE_PAGE, *PAGES):
        said, found = box.look(size)
        came.append(said)
        if found is not None and found.page_size:
            break
    sent = f"a page size of {HUGE_PAGE}" + (f" and less, down to {size}" if len(came) > 1 else "")
    if found is None or not found.page_size:
        return settled("page_size_max", None, sent, came, "none of them was taken")
    box.page_size_max = min(found.page_size, size)
    if found.page_size >= HUGE_PAGE:
        return settled("page_size_max", 0, sent, came, "it was named as asked for: there is no maximum", seen=False)
    finding = f"{found.page_size} was " + ("named" if size == HUGE_PAGE else "the first that was taken")
    return settled("page_size_max", found.page_size, sent, came, finding, seen=False)


def _first_records(box: ProbeTenant, order: str, tender: str) -> list[Answer]:
    """One order and one tender to ask about, and what the answers to an order look like."""
    create, update = BY_NAME["order.create"], BY_NAME["order.update"]
    said = box.write(create.name, box.specimens.least(create, order))
    entry = _entry(said, order)
    names = [name for name, value in entry.items() if str(value) == order]
    others = [name for name in entry if name not in names]
    customer = names[0] if len(names) == 1 else None
    service = others[0] if len(others) == 1 and customer else None
    if customer and service:
        found = {"customer_order_key": customer, "service_order_key": service}
        box.assumptions = box.assumptions.model_copy(update=found)
        box.judged(create, said)
    sent, finding = "the create of an order", f"the order came back as {', '.join(entry) or 'nothing'}"
    again = box.write(update.name, box.specimens.least(update, order))
    given = [(one, _entry(one, order).get(service or "")) for one in (said, again)]
    forms = [f"{what} a {'text' if isinstance(value, str) else 'number'}" for what, (_, value) in zip(("on create", "on update"), given, strict=True) if value is not None]  # fmt: skip
    for other in (BY_NAME["tender.create"], BY_NAME["tender.update"]):
        box.write(other.name, box.specimens.least(other, tender))
    return [
        settled("customer_order_key", customer, sent, [said], finding),
        settled("service_order_key", service, sent, [said], finding),
        observed("Is the exchange's own order number a number or a text?", f"{sent}, and its update", [said, again], ", ".join(forms)),
    ]  # fmt: skip


def _entry(said: ProbeReply, key: str) -> dict[str, Any]:
    """The one object of an answer that holds this identifier, wherever it stands."""
    try:
        waiting: list[object] = [decode(said.body)]
    except UndocumentedAnswer:
        return {}
    for value in waiting:  # it grows while it is read
        if isinstance(value, dict):
            if said.status == 200 and key in map(str, value.values()):  # noqa: PLR2004 (the one documented success)
                return value
            waiting += value.values()
        elif isinstance(value, list):
            waiting += value
    return {}


class _Visibility(NamedTuple):
    """Which of the two records a listing shows, whether it could tell of both, after how many seconds, and its answer."""

    subjects: list[str]
    tells: bool
    lag_s: float
    said: tuple[ProbeReply, ...]


def _which_listing(box: ProbeTenant, keys: Mapping[str, str]) -> list[Answer]:
    """What the listing shows with and without the query for tenders, and how soon."""
    plain = _shown(box, "", keys, LAGS_S)
    box.lag_s = plain.lag_s
    asks = box.assumptions.tender_listing_query or "record=tender"
    asked = _shown(box, asks, {"tender": keys["tender"]}, (plain.lag_s,))
    query: str | None = None
    if plain.subjects == ["order"] and (asked.subjects or (asked.tells and plain.tells)):
        query = asks if asked.subjects else ""
    box.visible = {*plain.subjects, *(asked.subjects if query else ())}
    box.assumptions = box.assumptions.model_copy(update={"tender_listing_query": query or ""})
    value = f"{plain.subjects[0]}s" if len(plain.subjects) == 1 and plain.tells else None
    sent = f"the listing, and the listing with {asks}, after an order and a tender were created"
    named = [" and ".join(one.subjects) or "neither" for one in (plain, asked)]
    finding = f"it showed {named[0]}, with {asks} {named[1]}"
    fresh = f"listed {f'after {plain.lag_s:g} s' if plain.lag_s else 'at once'}" if plain.subjects else ""
    return [
        settled("plain_listing", value, sent, plain.said, finding),
        settled("tender_listing_query", query, sent, asked.said, finding, seen=bool(query)),
        observed("Is a fresh create listed at once?", sent, plain.said, fresh),
    ]


def _shown(box: ProbeTenant, query: str, keys: Mapping[str, str], lags_s: Sequence[float]) -> _Visibility:
    """What the listing with this query shows. A record whose create was not accepted is not looked for, and nothing is told."""
    own = box.assumptions
    box.assumptions = own.model_copy(update={"tender_listing_query": query})
    there = {subject: key for subject, key in keys.items() if f"{subject}.create" in box.taken}
    found: dict[str, list[dict[str, Any]] | None] = {}
    lag_s = 0.0
    for lag_s in lags_s if there else ():
        time.sleep(lag_s)
        found = {subject: box.search(subject, key) for subject, key in there.items()}
        if any(found.values()) or [] not in found.values():  # a listing that is cut does not tell more by waiting
            break
    box.assumptions = own
    tells = there.keys() == keys.keys() and all(records is not None for records in found.values())
    shown = [subject for subject, records in found.items() if records]
    return _Visibility(shown, tells, lag_s if shown else 0.0, (box.last,) if found and box.last else ())


def _paths(box: ProbeTenant) -> list[Answer]:
    """A path of no operation, a method that a path does not know, and a path with a slash too many."""
    listing, create = BY_NAME["order.list"], BY_NAME["order.create"]
    elsewhere = box.ask(replace(listing, path=f"{PATH_PREFIX}lsprobe"))
    method = box.ask(replace(create, method="GET"))
    slash = box.ask(replace(listing, path=f"{listing.path}/"))
    value = elsewhere.status if elsewhere.status in (404, 405) else None
    return [
        settled("unknown_path", value, "a path of no operation", [elsewhere], f"status {elsewhere.status}"),
        observed(
            "What answers a known path with another method?", "GET of a create", [method], f"status {method.status}"
        ),
        observed("What answers a path with a slash too many?", "the listing", [slash], f"status {slash.status}"),
    ]


def _limits(box: ProbeTenant) -> list[Answer]:
    """What the calls so far met of limits and redirects."""
    sent = f"{box.calls} calls, one after the other"
    none: Sequence[ProbeReply] = ()
    return [
        observed("Is there a rate limit (429)?", sent, none, f"{box.busy} answers of 429"),
        observed("Are calls redirected?", sent, none, f"{box.redirects} redirects"),
    ]

"""The probe: finds out how one exchange handles what the interface leaves open, and leaves the tenant unchanged.

Decides the order of the questions. Asks those about listings, paths and limits. Reports a probe that stops early.
`probe_questions` asks about records, `probe_tenant` makes the calls and cleans up. Only for tenants that allow writes.
"""

import secrets
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from importlib.metadata import version
from typing import Any, NamedTuple

from loadsheet.contract import BY_NAME, PATH_PREFIX, Listing, UndocumentedAnswer
from loadsheet.dispatch import probe_questions
from loadsheet.dispatch.client import Client
from loadsheet.dispatch.outcomes import decode_body
from loadsheet.dispatch.probe_questions import SUBJECTS, observed_answer, setting_answer
from loadsheet.dispatch.probe_tenant import ProbeRecords, ProbeReply, ProbeTenant
from loadsheet.errors import ExchangeUnreachable, TokenRefused
from loadsheet.exchange_profile import Capabilities, ProbedAnswer
from loadsheet.settings import Settings

PAUSE_S = 0.1
HUGE_PAGE_SIZE = 1_000_000_000
PAGE_SIZES = (1_000_000, 100_000, 10_000, 1_000, 100)  # tried in turn if the huge one is refused
DELAYS_S = (0.0, 0.5, 1.5, 3.0)  # a new record that is not listed after these delays counts as not listed

_Question = Callable[[], ProbedAnswer | Iterable[ProbedAnswer]]


@dataclass(frozen=True, slots=True)
class ProbeResult:
    """The result of a probe. `left` names records it could not remove, one per line; `stopped` is why it ended early."""

    capabilities: Capabilities
    calls: int
    left: tuple[str, ...]
    stopped: TokenRefused | ExchangeUnreachable | None


def probe(
    client: Client,
    settings: Settings,
    *,
    given: Mapping[str, str] | None = None,
    pause_s: float = PAUSE_S,
    report: Callable[[str], None] = lambda _line: None,
) -> ProbeResult:
    """Ask every question of the client's exchange, with records that are deleted afterwards.

    `given` are values for fields of the records, such as parties that the tenant knows. `pause_s` is the pause between
    calls. `report` gets one line per call. A refused token or an unreachable exchange ends the probe early, without an
    exception.
    """
    assumptions = settings.assumptions
    rate = assumptions.calls_per_second
    tenant = ProbeTenant(
        client,
        assumptions,
        ProbeRecords(given or {}),
        run=secrets.token_hex(4),
        pause_s=max(pause_s, 1 / rate if rate else 0.0),
        report=report,
    )
    answers: list[ProbedAnswer] = []
    stopped: TokenRefused | ExchangeUnreachable | None = None
    left: tuple[str, ...] = ()
    try:
        for question in _questions(tenant):
            found = question()
            answers += [found] if isinstance(found, ProbedAnswer) else found
    except (TokenRefused, ExchangeUnreachable) as error:
        stopped = error
    finally:
        left = tenant.clear()
    findings = Capabilities(client.base_url, datetime.now(UTC), version("loadsheet"), tuple(answers))
    return ProbeResult(findings, tenant.calls, left, stopped)


def _questions(tenant: ProbeTenant) -> Iterator[_Question]:
    """The questions in order. Each may use earlier findings."""
    yield lambda: _page_sizes(tenant)
    kept = {subject: tenant.new_id() for subject in SUBJECTS}
    order, tender = kept["order"], kept["tender"]
    yield lambda: _first_records(tenant, order, tender)
    yield lambda: _which_listing(tenant, kept)
    yield lambda: probe_questions.create_existing(tenant, order, tender)
    yield lambda: probe_questions.quotes(tenant, tender)
    yield lambda: probe_questions.statuses(tenant, order)
    yield lambda: probe_questions.update_unknown(tenant)
    yield lambda: probe_questions.unknown_ids(tenant)
    yield lambda: probe_questions.forms(tenant)
    yield lambda: probe_questions.shapes(tenant)
    yield lambda: probe_questions.listing_only(tenant)
    yield lambda: probe_questions.references(tenant)
    yield lambda: probe_questions.identifiers(tenant)
    yield lambda: _paths(tenant)
    yield lambda: _limits(tenant)


def _page_sizes(tenant: ProbeTenant) -> list[ProbedAnswer]:
    """Default, place and maximum of the page size."""
    reply, plain = tenant.look(None)
    if plain is None:
        names = ("page_size_default", "page_size_in", "page_size_max")
        return [setting_answer(name, None, "the plain listing", [reply], "it is not a listing") for name in names]
    cut = plain.total_count > len(plain.results) == plain.page_size
    default = setting_answer(
        "page_size_default",
        plain.page_size or None,
        "the listing without a page size",
        [reply],
        f"it named {plain.page_size}" + (" and was cut to it" if cut else ""),
        seen=cut,
    )
    return [default, _page_size_in(tenant, plain), _page_size_max(tenant)]


def _page_size_in(tenant: ProbeTenant, plain: Listing) -> ProbedAnswer:
    first, second = [size for size in (1, 2, 3) if size != plain.page_size][:2]
    replies, read = [], []
    for place, size in (("query", first), ("body", second)):
        reply, found = tenant.look(size, place=place)
        replies.append(reply)
        read += [place] if found is not None and found.page_size == size else []
    sent = f"page size {first} in the query, {second} in the body"
    if not read:
        return setting_answer("page_size_in", None, sent, replies, "neither was accepted")
    tenant.page_size_in = "query" if read[0] == "query" else "body"
    return setting_answer("page_size_in", read[0], sent, replies, f"taken from the {' and the '.join(read)}")


def _page_size_max(tenant: ProbeTenant) -> ProbedAnswer:
    replies: list[ProbeReply] = []
    for size in (HUGE_PAGE_SIZE, *PAGE_SIZES):
        reply, found = tenant.look(size)
        replies.append(reply)
        if found is not None and found.page_size:
            break
    sent = f"a page size of {HUGE_PAGE_SIZE}" + (f" and less, down to {size}" if len(replies) > 1 else "")
    if found is None or not found.page_size:
        return setting_answer("page_size_max", None, sent, replies, "none of them was accepted")
    tenant.page_size_max = min(found.page_size, size)
    if found.page_size >= HUGE_PAGE_SIZE:
        return setting_answer(
            "page_size_max", 0, sent, replies, "it was echoed as requested: there is no maximum", seen=False
        )
    finding = f"{found.page_size} was " + ("echoed" if size == HUGE_PAGE_SIZE else "the first that was accepted")
    return setting_answer("page_size_max", found.page_size, sent, replies, finding, seen=False)


def _first_records(tenant: ProbeTenant, order: str, tender: str) -> list[ProbedAnswer]:
    """Create one order and one tender to ask about, and report the shape of the answers to the order."""
    create, update = BY_NAME["order.create"], BY_NAME["order.update"]
    reply = tenant.write(create.name, tenant.records.minimal(create, order))
    entry = _entry(reply, order)
    names = [name for name, value in entry.items() if str(value) == order]
    others = [name for name in entry if name not in names]
    customer = names[0] if len(names) == 1 else None
    service = others[0] if len(others) == 1 and customer else None
    if customer and service:
        found = {"customer_order_key": customer, "service_order_key": service}
        tenant.assumptions = tenant.assumptions.model_copy(update=found)
        tenant.classified(create, reply)
    sent, finding = "the create of an order", f"the order came back as {', '.join(entry) or 'nothing'}"
    again = tenant.write(update.name, tenant.records.minimal(update, order))
    given = [(one, _entry(one, order).get(service or "")) for one in (reply, again)]
    forms = []
    for what, (_, value) in zip(("on create", "on update"), given, strict=True):
        if value is not None:
            kind = "a text" if isinstance(value, str) else "a number"
            forms.append(f"{what} {kind}")
    for other in (BY_NAME["tender.create"], BY_NAME["tender.update"]):
        tenant.write(other.name, tenant.records.minimal(other, tender))
    return [
        setting_answer("customer_order_key", customer, sent, [reply], finding),
        setting_answer("service_order_key", service, sent, [reply], finding),
        observed_answer("Is the exchange's own order number a number or a text?", f"{sent}, and its update", [reply, again], ", ".join(forms)),
    ]  # fmt: skip


def _entry(reply: ProbeReply, key: str) -> dict[str, Any]:
    """The single object of an answer that has this identifier, at any depth."""
    try:
        waiting: list[object] = [decode_body(reply.body)]
    except UndocumentedAnswer:
        return {}
    for value in waiting:  # grows during the loop
        if isinstance(value, dict):
            if reply.status == 200 and key in map(str, value.values()):
                return value
            waiting += value.values()
        elif isinstance(value, list):
            waiting += value
    return {}


class _Visibility(NamedTuple):
    """Which of the two records a listing shows, whether it could show both, after how many seconds, and its answer."""

    subjects: list[str]
    is_conclusive: bool
    listing_delay_s: float
    reply: tuple[ProbeReply, ...]


def _which_listing(tenant: ProbeTenant, keys: Mapping[str, str]) -> list[ProbedAnswer]:
    """What the listing shows with and without the query for tenders, and how soon."""
    plain = _shown(tenant, "", keys, DELAYS_S)
    tenant.listing_delay_s = plain.listing_delay_s
    asks = tenant.assumptions.tender_listing_query or "record=tender"
    asked = _shown(tenant, asks, {"tender": keys["tender"]}, (plain.listing_delay_s,))
    query: str | None = None
    if plain.subjects == ["order"] and (asked.subjects or (asked.is_conclusive and plain.is_conclusive)):
        query = asks if asked.subjects else ""
    tenant.visible = {*plain.subjects, *(asked.subjects if query else ())}
    tenant.assumptions = tenant.assumptions.model_copy(update={"tender_listing_query": query or ""})
    value = f"{plain.subjects[0]}s" if len(plain.subjects) == 1 and plain.is_conclusive else None
    sent = f"the listing, and the listing with {asks}, after an order and a tender were created"
    named = [" and ".join(one.subjects) or "neither" for one in (plain, asked)]
    finding = f"it showed {named[0]}, with {asks} {named[1]}"
    fresh = (
        f"listed {f'after {plain.listing_delay_s:g} s' if plain.listing_delay_s else 'at once'}"
        if plain.subjects
        else ""
    )
    return [
        setting_answer("plain_listing", value, sent, plain.reply, finding),
        setting_answer("tender_listing_query", query, sent, asked.reply, finding, seen=bool(query)),
        observed_answer("Is a fresh create listed at once?", sent, plain.reply, fresh),
    ]


def _shown(tenant: ProbeTenant, query: str, keys: Mapping[str, str], delays_s: Sequence[float]) -> _Visibility:
    """What the listing with this query shows. A record whose create was not accepted is not looked for."""
    own = tenant.assumptions
    tenant.assumptions = own.model_copy(update={"tender_listing_query": query})
    there = {subject: key for subject, key in keys.items() if f"{subject}.create" in tenant.accepted_operations}
    found: dict[str, list[dict[str, Any]] | None] = {}
    listing_delay_s = 0.0
    for listing_delay_s in delays_s if there else ():
        time.sleep(listing_delay_s)
        found = {subject: tenant.search(subject, key) for subject, key in there.items()}
        if any(found.values()) or [] not in found.values():  # waiting does not complete a cut listing
            break
    tenant.assumptions = own
    is_conclusive = there.keys() == keys.keys() and all(records is not None for records in found.values())
    shown = [subject for subject, records in found.items() if records]
    return _Visibility(
        shown, is_conclusive, listing_delay_s if shown else 0.0, (tenant.last,) if found and tenant.last else ()
    )


def _paths(tenant: ProbeTenant) -> list[ProbedAnswer]:
    """A path of no operation, a wrong method on a known path, and a path with an extra slash."""
    listing, create = BY_NAME["order.list"], BY_NAME["order.create"]
    elsewhere = tenant.ask(replace(listing, path=f"{PATH_PREFIX}lsprobe"))
    method = tenant.ask(replace(create, method="GET"))
    slash = tenant.ask(replace(listing, path=f"{listing.path}/"))
    value = elsewhere.status if elsewhere.status in (404, 405) else None
    return [
        setting_answer("unknown_path", value, "a path of no operation", [elsewhere], f"status {elsewhere.status}"),
        observed_answer(
            "What answers a known path with another method?", "GET of a create", [method], f"status {method.status}"
        ),
        observed_answer("What answers a path with an extra slash?", "the listing", [slash], f"status {slash.status}"),
    ]


def _limits(tenant: ProbeTenant) -> list[ProbedAnswer]:
    """The limits and redirects that the calls met so far."""
    sent = f"{tenant.calls} calls in sequence"
    none: Sequence[ProbeReply] = ()
    return [
        observed_answer("Is there a rate limit (429)?", sent, none, f"{tenant.busy} answers with 429"),
        observed_answer("Are calls redirected?", sent, none, f"{tenant.redirects} redirects"),
    ]

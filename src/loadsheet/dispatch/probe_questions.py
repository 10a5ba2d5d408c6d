"""The questions of the probe that need records: how the exchange answers a create, update, delete, quote, decision or status.

Each function asks one question and returns its answers. If a 200 is not conclusive, the listing decides. If that is not
conclusive either, the answer stays unknown. A refusal counts only if a call of that operation was ever accepted: an
exchange that refuses all our records proves nothing. `order` and `tender` are existing identifiers.
"""

from collections.abc import Callable, Sequence

from loadsheet.contract import BY_NAME, register
from loadsheet.dispatch import probe_tenant
from loadsheet.dispatch.probe_tenant import CHANGED, Payload, ProbeReply, ProbeTenant
from loadsheet.exchange_profile import ProbedAnswer, Value

SUBJECTS = ("order", "tender")
CREATES = ("order.create", "tender.create")
EVERYTHING_REFUSED = "refused, but so was every call of that kind"
Shape = Callable[[Payload], Payload]

_QUESTIONS = {
    entry.setting.removeprefix("assumptions."): entry.question for entry in reversed(register()) if entry.setting
}


def setting_answer(
    name: str, value: Value | None, sent: str, replies: Sequence[ProbeReply], finding: str, *, seen: bool = True
) -> ProbedAnswer:
    """The answer to a question about a setting; a value of None means unknown."""
    confidence = "unknown" if value is None else "seen" if seen else "said"
    return ProbedAnswer(_QUESTIONS[name], name, value, sent, "; ".join(map(str, replies)), finding, confidence)  # type: ignore[arg-type]  # mypy widens the three words to str


def observed_answer(question: str, sent: str, replies: Sequence[ProbeReply], finding: str) -> ProbedAnswer:
    """The answer to a question without a setting."""
    return ProbedAnswer(
        question, "", None, sent, "; ".join(map(str, replies)), finding, "seen" if finding else "unknown"
    )


def by_status(
    tenant: ProbeTenant,
    name: str,
    sent: str,
    replies: Sequence[ProbeReply],
    operations: Sequence[str],
    *,
    accepted: Value,
    refused: Value,
) -> ProbedAnswer:
    """The answer if 200 and 400 are conclusive. Contradicting calls and any other status leave it unknown."""
    kinds = {reply.kind for reply in replies}
    if kinds == {"accepted"}:
        return setting_answer(name, accepted, sent, replies, "accepted")
    if kinds == {"refused"}:
        if not tenant.accepted_operations.issuperset(operations):
            return setting_answer(name, None, sent, replies, EVERYTHING_REFUSED)
        return setting_answer(name, refused, sent, replies, "refused")
    return setting_answer(
        name, None, sent, replies, "the answers differ" if len(kinds) > 1 else "neither accepted nor refused"
    )


def create(tenant: ProbeTenant, subject: str, shape: Shape = dict) -> tuple[ProbeReply, str]:
    """Create a new order or tender of the given shape. Returns the reply and its identifier."""
    operation, key = BY_NAME[f"{subject}.create"], tenant.new_id()
    return tenant.write(operation.name, shape(tenant.records.minimal(operation, key))), key


def create_existing(tenant: ProbeTenant, order: str, tender: str) -> ProbedAnswer:
    """A create with the same content, and one with different content, for both subjects."""
    sent = "a second create of an order and of a tender, first with the same content, then with other content"
    replies: list[ProbeReply] = []
    verdicts: set[Value | None] = set()
    for subject, key in zip(SUBJECTS, (order, tender), strict=True):
        operation = BY_NAME[f"{subject}.create"]
        same = tenant.write(operation.name, tenant.records.minimal(operation, key))
        other = tenant.write(operation.name, tenant.records.changed(operation, key))
        replies += [same, other]
        if (same.kind, other.kind) == ("refused", "refused"):
            verdicts.add("reject" if operation.name in tenant.accepted_operations else None)
        elif (same.kind, other.kind) == ("accepted", "accepted"):
            verdicts |= {_stored_content(tenant, subject, key)} if subject in tenant.visible else set()
        else:
            verdicts.add(None)
    value = verdicts.pop() if len(verdicts) == 1 else None
    findings = {"reject": "refused", "replace": "the new content was listed", "accept": "the old content was listed"}
    return setting_answer(
        "create_existing", value, sent, replies, findings.get(str(value), "not the same everywhere, or not visible")
    )


def _stored_content(tenant: ProbeTenant, subject: str, key: str) -> Value | None:
    found = tenant.find(subject, key)
    if not found or len(found) > 1:
        return None  # it is not visible, or exists twice
    return "replace" if found[0].get(probe_tenant.shared_text()) == CHANGED else "accept"


def update_unknown(tenant: ProbeTenant) -> ProbedAnswer:
    """An update of an order and of a tender that do not exist."""
    replies: list[ProbeReply] = []
    verdicts: set[Value | None] = set()
    for subject in SUBJECTS:
        operation, key = BY_NAME[f"{subject}.update"], tenant.new_id()
        reply = tenant.write(operation.name, tenant.records.minimal(operation, key))
        replies.append(reply)
        if reply.kind != "accepted":
            verdicts.add("reject" if reply.kind == "refused" and operation.name in tenant.accepted_operations else None)
        elif (found := tenant.find(subject, key)) is not None:
            verdicts.add("replace" if found else "accept")
    value = verdicts.pop() if len(verdicts) == 1 else None
    findings = {"reject": "refused", "replace": "it was listed afterwards", "accept": "it was not listed afterwards"}
    finding = findings.get(str(value), "not the same everywhere, or not visible")
    return setting_answer(
        "update_unknown", value, "an update of an unknown order and of an unknown tender", replies, finding
    )


def unknown_ids(tenant: ProbeTenant) -> list[ProbedAnswer]:
    """Deletes, a quote and a status update for identifiers that do not exist."""
    answers = []
    for subject in SUBJECTS:  # so that one delete is accepted, if any is
        _, key = create(tenant, subject)
        delete = BY_NAME[f"{subject}.delete"]
        tenant.write(delete.name, tenant.records.minimal(delete, key))
    for name, sent, operations in (
        ("delete_unknown", "a delete of an unknown order and of an unknown tender", ("order.delete", "tender.delete")),
        ("quote_unknown", "a quote for an unknown tender", ("tender.quote",)),
        ("status_unknown", "a status update for an unknown order", ("order.status",)),
    ):
        replies = [tenant.write(one, tenant.records.minimal(BY_NAME[one], tenant.new_id())) for one in operations]
        answers.append(by_status(tenant, name, sent, replies, operations, accepted="accept", refused="reject"))
    return answers


def quotes(tenant: ProbeTenant, tender: str) -> list[ProbedAnswer]:
    """A decision on a quote that does not exist, a duplicate quote, the effect of an accepted quote on its tender, and
    the answers to decisions and quotes after a decision.
    """
    quote, confirm = BY_NAME["tender.quote"], BY_NAME["tender.confirm"]
    never, carrier = (tenant.records.carrier(confirm, tender, f"LSPROBE-CARRIER-{number}") for number in (1, 2))
    unknown = tenant.write(confirm.name, never)
    given = tenant.records.carrier(quote, tender, carrier[quote.record.key[1]])
    first, second = tenant.write(quote.name, given), tenant.write(quote.name, given)
    acceptance = _acceptance(tenant, tender, carrier)
    sent = "the same quote twice"
    if first.kind == "accepted":
        twice = by_status(tenant, "quote_existing", sent, [second], (quote.name,), accepted="replace", refused="reject")
    else:
        twice = setting_answer("quote_existing", None, sent, [first, second], "the first was not accepted")
    sent = "a decision on a quote that does not exist"
    never_given = by_status(
        tenant, "confirm_unknown", sent, [unknown], (confirm.name,), accepted="accept", refused="reject"
    )
    return [never_given, twice, acceptance, _second_decision(tenant, carrier), *_other_decisions(tenant, tender)]


def _second_decision(tenant: ProbeTenant, accepted: Payload) -> ProbedAnswer:
    """The same decision on an accepted quote again, then the opposite."""
    confirm = BY_NAME["tender.confirm"]
    sent = "the acceptance of an accepted quote, and its rejection"
    replies = [
        tenant.write(confirm.name, accepted),
        tenant.write(confirm.name, probe_tenant.with_decision(accepted, "reject")),
    ]
    kinds = tuple(reply.kind for reply in replies)
    values: dict[tuple[str, ...], Value] = {
        ("accepted", "refused"): "same",
        ("refused", "refused"): "reject",
        ("accepted", "accepted"): "replace",
    }
    value = values.get(kinds) if confirm.name in tenant.accepted_operations else None
    return setting_answer(
        "confirm_decided", value, sent, replies, f"{kinds[0]}, then {kinds[1]}" if value else "not clear"
    )


def _other_decisions(tenant: ProbeTenant, tender: str) -> list[ProbedAnswer]:
    """A decision that is neither accept nor reject, and a new quote after an acceptance, each with its own carrier."""
    quote, confirm = BY_NAME["tender.quote"], BY_NAME["tender.confirm"]
    odd, accepted = (tenant.records.carrier(confirm, tender, f"LSPROBE-CARRIER-{number}") for number in (3, 4))
    for decision in (odd, accepted):
        given = tenant.records.carrier(quote, tender, decision[quote.record.key[1]])
        tenant.write(quote.name, given)
    word = tenant.write(confirm.name, probe_tenant.with_decision(odd, "LSPROBE"))
    decided = tenant.write(confirm.name, accepted)
    again = tenant.write(quote.name, given)
    sent, operations = "a decision LSPROBE", (confirm.name,)
    words = by_status(tenant, "decision_words", sent, [word], operations, accepted="open", refused="closed")
    name, sent = "quote_accepted", "a new quote after its acceptance"
    if decided.kind != "accepted":
        return [words, setting_answer(name, None, sent, [decided, again], "the first was not accepted")]
    return [words, by_status(tenant, name, sent, [again], (quote.name,), accepted="replace", refused="reject")]


def _acceptance(tenant: ProbeTenant, tender: str, decision: Payload) -> ProbedAnswer:
    before = tenant.find("tender", tender)
    reply = tenant.write("tender.confirm", decision)
    after = tenant.find("tender", tender)
    name, sent = "accept_sets_tender_status", "the acceptance of a quote"
    if reply.kind != "accepted" or not before or not after:
        return setting_answer(name, None, sent, [reply], "not accepted, or the tender is not visible")
    changes = {field: value for field, value in after[0].items() if before[0].get(field) != value}
    if not changes:
        return setting_answer(name, "", sent, [reply], "the tender was listed unchanged")
    field, value = next(iter(changes.items()))
    if len(changes) > 1 or not isinstance(value, str):
        return setting_answer(
            name, None, sent, [reply], f"the tender was listed with other values in {', '.join(changes)}"
        )
    return setting_answer(name, value, sent, [reply], f"the tender was listed with {field} {value}")


def statuses(tenant: ProbeTenant, order: str) -> list[ProbedAnswer]:
    """The effect of a status update on its order, and what happens to the valid records of a refused batch."""
    name = "status_sets_order_status"
    marks = probe_tenant.status_marks()
    before = tenant.find("order", order)
    reply = tenant.write("order.status", _marked(tenant, order, marks, "one"))
    after = tenant.find("order", order)
    sent = "a status update with a code and a name of its own"
    if reply.kind != "accepted" or not before or not after:
        sets = setting_answer(name, None, sent, [reply], "not accepted, or the order is not visible")
        return [sets, *_batch(tenant, order, {})]
    ways = [way for way, (target, _) in marks.items() if after[0].get(target) == _mark(way, "one")]
    unchanged = before == after
    value = ways[0] if ways else "off" if unchanged else None
    finding = (
        f"its {ways[0]} was listed with the order"
        if ways
        else "the order was listed " + ("unchanged" if unchanged else "with other values")
    )
    return [
        setting_answer(name, value, sent, [reply], finding),
        *_batch(tenant, order, {way: marks[way] for way in ways}),
    ]


def _mark(way: str, which: str) -> str:
    return f"LSPROBE-{way}-{which}"


def _marked(tenant: ProbeTenant, order: str, marks: dict[str, tuple[str, str]], which: str) -> Payload:
    own = {source: _mark(way, which) for way, (_, source) in marks.items()}
    return {**tenant.records.minimal(BY_NAME["order.status"], order), **own}


def _batch(tenant: ProbeTenant, order: str, carried: dict[str, tuple[str, str]]) -> list[ProbedAnswer]:
    """A valid record, then one without its key. `carried` is how a status shows in its order, if it does."""
    operation = BY_NAME["order.status"]
    good = _marked(tenant, order, probe_tenant.status_marks(), "two")
    bad = {name: value for name, value in good.items() if name not in operation.record.key}
    reply = tenant.write(operation.name, good, bad)
    sent = "a batch of a valid status record and one without its order"
    if reply.kind != "refused":
        return [
            setting_answer(name, None, sent, [reply], "it was not refused")
            for name in ("status_on_400", "status_index_base")
        ]
    indices = {fault.index for fault in reply.faults(operation) if fault.index is not None}
    base = {frozenset({1}): 0, frozenset({2}): 1}.get(frozenset(indices))  # the invalid record is second
    finding = f"the second record was named {sorted(indices)}" if indices else "no record was named by its index"
    index = setting_answer("status_index_base", base, sent, [reply], finding)
    listed = tenant.find("order", order) if carried else None
    if not listed:
        return [
            setting_answer("status_on_400", None, sent, [reply], "not visible: no listing shows what a status did"),
            index,
        ]
    applied = any(listed[0].get(target) == _mark(way, "two") for way, (target, _) in carried.items())
    finding = "the valid record was " + ("applied" if applied else "not applied")
    return [setting_answer("status_on_400", "partial" if applied else "atomic", sent, [reply], finding), index]


def forms(tenant: ProbeTenant) -> list[ProbedAnswer]:
    """Numbers and flags in both forms."""
    record, tender = BY_NAME["order.create"].record, BY_NAME["tender.create"]
    replies = [
        create(tenant, "order", lambda payload: probe_tenant.number_as_text(payload, record))[0],
        create(tenant, "tender", lambda payload: probe_tenant.number_as_number(payload, tender))[0],
    ]
    sent = "an order with a number as text, a tender with a number as number"
    numbers = by_status(tenant, "number_forms", sent, replies, CREATES, accepted="both", refused="declared")
    flags = {
        word: create(tenant, "order", lambda payload, word=word: probe_tenant.with_flag(payload, record, word))[0]  # type: ignore[misc]  # mypy cannot infer a lambda with a default
        for word in ("yes", "true")
    }
    taken = [form for form, word in (("yes/no", "yes"), ("true/false", "true")) if flags[word].kind == "accepted"]
    finding = f"accepted: {' and '.join(taken)}" if taken else "neither was accepted"
    value = taken[0] if taken else None
    return [
        numbers,
        setting_answer("flag_form", value, "orders with a flag yes, and true", list(flags.values()), finding),
    ]


def shapes(tenant: ProbeTenant) -> list[ProbedAnswer]:
    """Creates of orders with one irregularity each, where 200 and 400 are conclusive."""
    record, zone = BY_NAME["order.create"].record, probe_tenant.other_zone
    text, more = probe_tenant.shared_text(), probe_tenant.optional_text()
    asked: tuple[tuple[str, str, Shape, Value, Value], ...] = (
        ("unknown_fields", "an order with an unknown field", lambda one: {**one, "lsprobe": "1"}, "ignore", "reject"),
        ("null_fields", "an order with a null", lambda one: {**one, more: None}, "absent", "reject"),
        ("empty_required", "an order with an empty required text", lambda one: {**one, text: ""}, "accept", "reject"),
        ("known_values", "an order with unnamed modes and units", lambda one: probe_tenant.unnamed_values(one, record), "open", "closed"),
        ("timezones", "an order in a time zone that does not exist", lambda one: zone(one, record), "any", "iana"),
    )  # fmt: skip
    return [
        by_status(
            tenant, name, sent, [create(tenant, "order", shape)[0]], CREATES[:1], accepted=accepted, refused=refused
        )
        for name, sent, shape, accepted, refused in asked
    ]


def listing_only(tenant: ProbeTenant) -> ProbedAnswer:
    """A tender with a field that only listings show."""
    name, sent = "listing_only_fields", "a tender with a field that only listings show"
    field = probe_tenant.listing_only(BY_NAME["tender.create"].record)
    reply, key = create(tenant, "tender", lambda payload: {**payload, field: CHANGED})
    if reply.kind == "refused" and "tender.create" in tenant.accepted_operations:
        return setting_answer(name, "reject", sent, [reply], "refused")
    found = tenant.find("tender", key) if reply.kind == "accepted" else None
    if not found:
        return setting_answer(name, None, sent, [reply], "not visible: no listing shows whether it was kept")
    kept = found[0].get(field) == CHANGED
    return setting_answer(
        name, "accept" if kept else "reject", sent, [reply], "kept" if kept else "accepted, but not kept"
    )


def references(tenant: ProbeTenant) -> ProbedAnswer:
    """Whether a reference comes back in the listing unchanged, so that it can carry a mark."""
    question, sent = "Are references echoed in the listing, so that they can carry a mark?", "an order with a reference"
    payload, field = probe_tenant.reference(BY_NAME["order.create"].record, tenant.run)
    reply, key = create(tenant, "order", lambda minimal: {**minimal, **payload})
    found = tenant.find("order", key) if reply.kind == "accepted" else None
    if not found:
        return observed_answer(question, sent, [reply], "")
    return observed_answer(question, sent, [reply], "yes" if found[0].get(field) == payload[field] else "no")


def identifiers(tenant: ProbeTenant) -> ProbedAnswer:
    """Whether a numeric identifier keeps its leading zeros."""
    question = "Does an identifier keep its leading zeros, or is 00123 the same as 123?"
    sent = "an order with a numeric identifier with leading zeros"
    operation = BY_NAME["order.create"]
    digits = str(int(tenant.run, 16) + 10**11)
    if any(tenant.find("order", key) for key in (digits, f"00{digits}")):
        return observed_answer(question, sent, [], "")  # the identifier is in use
    reply = tenant.write(operation.name, tenant.records.minimal(operation, f"00{digits}"))
    if reply.kind != "accepted":
        return observed_answer(question, sent, [reply], "refused" if reply.kind == "refused" else "")
    exact, bare = tenant.find("order", f"00{digits}"), tenant.find("order", digits)
    if bare:
        tenant.write("order.delete", tenant.records.minimal(BY_NAME["order.delete"], digits))
    return observed_answer(question, sent, [reply], "kept" if exact else "lost" if bare else "")

"""The questions that are asked with records: what a create, update, delete, quote, decision or status is answered where the
interface leaves it open.

Each function asks one question of a sandbox and gives its answers. Where an answer of 200 does not tell, the listing is looked at;
where that does not tell either, the answer stays unknown. A refusal counts only if a call of that operation was ever accepted: an
exchange that refuses all of our records has not answered. `order` and `tender` are identifiers that are there.
"""

from collections.abc import Callable, Sequence

from loadsheet.contract import BY_NAME, register
from loadsheet.dispatch import probe_records
from loadsheet.dispatch.probe_records import CHANGED, Payload
from loadsheet.dispatch.probe_tenant import ProbeReply, ProbeTenant
from loadsheet.exchange_profile import Answer, Value

SUBJECTS = ("order", "tender")
CREATES = ("order.create", "tender.create")
EVERYTHING_REFUSED = "refused, but so was every call of that kind"
Shape = Callable[[Payload], Payload]

_QUESTIONS = {
    entry.setting.removeprefix("assumptions."): entry.question for entry in reversed(register()) if entry.setting
}


def settled(
    name: str, value: Value | None, sent: str, came: Sequence[ProbeReply], finding: str, *, seen: bool = True
) -> Answer:
    """The answer to a question of the register; a value of None is one that was not found out."""
    confidence = "unknown" if value is None else "seen" if seen else "said"
    return Answer(_QUESTIONS[name], name, value, sent, "; ".join(map(str, came)), finding, confidence)  # type: ignore[arg-type]  # mypy widens the three words to str


def observed(question: str, sent: str, came: Sequence[ProbeReply], finding: str) -> Answer:
    """The answer to a question that has no setting."""
    return Answer(question, "", None, sent, "; ".join(map(str, came)), finding, "seen" if finding else "unknown")


def by_status(
    box: ProbeTenant,
    name: str,
    sent: str,
    came: Sequence[ProbeReply],
    operations: Sequence[str],
    *,
    accepted: Value,
    refused: Value,
) -> Answer:
    """The answer where 200 and 400 tell all; calls that disagree, and any other status, tell nothing."""
    kinds = {said.kind for said in came}
    if kinds == {"accepted"}:
        return settled(name, accepted, sent, came, "accepted")
    if kinds == {"refused"}:
        if not box.taken.issuperset(operations):
            return settled(name, None, sent, came, EVERYTHING_REFUSED)
        return settled(name, refused, sent, came, "refused")
    return settled(name, None, sent, came, "the answers differ" if len(kinds) > 1 else "neither accepted nor refused")


def create(box: ProbeTenant, subject: str, shape: Shape = dict) -> tuple[ProbeReply, str]:
    """Create an order or tender of its own in a certain shape: what was said, and its identifier."""
    operation, key = BY_NAME[f"{subject}.create"], box.new_id()
    return box.write(operation.name, shape(box.specimens.least(operation, key))), key


def create_existing(box: ProbeTenant, order: str, tender: str) -> Answer:
    """A create with the same content, and one with other content, for both subjects."""
    sent = "a second create of an order and of a tender, first with the same content, then with other content"
    came: list[ProbeReply] = []
    verdicts: set[Value | None] = set()
    for subject, key in zip(SUBJECTS, (order, tender), strict=True):
        operation = BY_NAME[f"{subject}.create"]
        same = box.write(operation.name, box.specimens.least(operation, key))
        other = box.write(operation.name, box.specimens.changed(operation, key))
        came += [same, other]
        if (same.kind, other.kind) == ("refused", "refused"):
            verdicts.add("reject" if operation.name in box.taken else None)
        elif (same.kind, other.kind) == ("accepted", "accepted"):
            verdicts |= {_kept(box, subject, key)} if subject in box.visible else set()
        else:
            verdicts.add(None)
    value = verdicts.pop() if len(verdicts) == 1 else None
    told = {"reject": "refused", "replace": "the new content was listed", "accept": "the old content was listed"}
    return settled(
        "create_existing", value, sent, came, told.get(str(value), "not the same everywhere, or not visible")
    )


def _kept(box: ProbeTenant, subject: str, key: str) -> Value | None:
    found = box.find(subject, key)
    if not found or len(found) > 1:
        return None  # it cannot be seen, or it is there twice
    return "replace" if found[0].get(probe_records.shared_text()) == CHANGED else "accept"


def update_unknown(box: ProbeTenant) -> Answer:
    """An update of an order and of a tender that never were."""
    came: list[ProbeReply] = []
    verdicts: set[Value | None] = set()
    for subject in SUBJECTS:
        operation, key = BY_NAME[f"{subject}.update"], box.new_id()
        said = box.write(operation.name, box.specimens.least(operation, key))
        came.append(said)
        if said.kind != "accepted":
            verdicts.add("reject" if said.kind == "refused" and operation.name in box.taken else None)
        elif (found := box.find(subject, key)) is not None:
            verdicts.add("replace" if found else "accept")
    value = verdicts.pop() if len(verdicts) == 1 else None
    told = {"reject": "refused", "replace": "it was listed afterwards", "accept": "it was not listed afterwards"}
    finding = told.get(str(value), "not the same everywhere, or not visible")
    return settled("update_unknown", value, "an update of an unknown order and of an unknown tender", came, finding)


def unknown_ids(box: ProbeTenant) -> list[Answer]:
    """Deletes, a quote and a status update for identifiers that never were."""
    answers = []
    for subject in SUBJECTS:  # so that a delete was accepted once, if any is
        _, key = create(box, subject)
        delete = BY_NAME[f"{subject}.delete"]
        box.write(delete.name, box.specimens.least(delete, key))
    for name, sent, operations in (
        ("delete_unknown", "a delete of an unknown order and of an unknown tender", ("order.delete", "tender.delete")),
        ("quote_unknown", "a quote for an unknown tender", ("tender.quote",)),
        ("status_unknown", "a status update for an unknown order", ("order.status",)),
    ):
        came = [box.write(one, box.specimens.least(BY_NAME[one], box.new_id())) for one in operations]
        answers.append(by_status(box, name, sent, came, operations, accepted="accept", refused="reject"))
    return answers


def quotes(box: ProbeTenant, tender: str) -> list[Answer]:
    """A decision on a quote that was never given, a quote given twice, what an accepted quote makes of its tender, and what is
    answered to decisions and quotes after a decision.
    """
    quote, confirm = BY_NAME["tender.quote"], BY_NAME["tender.confirm"]
    never, carrier = (box.specimens.carrier(confirm, tender, f"LSPROBE-CARRIER-{number}") for number in (1, 2))
    unknown = box.write(confirm.name, never)
    given = box.specimens.carrier(quote, tender, carrier[quote.record.key[1]])
    first, second = box.write(quote.name, given), box.write(quote.name, given)
    acceptance = _acceptance(box, tender, carrier)
    sent = "one quote twice"
    if first.kind == "accepted":
        twice = by_status(box, "quote_existing", sent, [second], (quote.name,), accepted="replace", refused="reject")
    else:
        twice = settled("quote_existing", None, sent, [first, second], "the first was not accepted")
    sent = "a decision on a quote never given"
    never_given = by_status(
        box, "confirm_unknown", sent, [unknown], (confirm.name,), accepted="accept", refused="reject"
    )
    return [never_given, twice, acceptance, _second_decision(box, carrier), *_other_decisions(box, tender)]


def _second_decision(box: ProbeTenant, accepted: Payload) -> Answer:
    """The same decision on an accepted quote again, then the opposite one."""
    confirm = BY_NAME["tender.confirm"]
    sent = "the acceptance of an accepted quote, and its rejection"
    came = [box.write(confirm.name, accepted), box.write(confirm.name, probe_records.decided(accepted, "reject"))]
    kinds = tuple(said.kind for said in came)
    values: dict[tuple[str, ...], Value] = {
        ("accepted", "refused"): "same",
        ("refused", "refused"): "reject",
        ("accepted", "accepted"): "replace",
    }
    value = values.get(kinds) if confirm.name in box.taken else None
    return settled("confirm_decided", value, sent, came, f"{kinds[0]}, then {kinds[1]}" if value else "not clear")


def _other_decisions(box: ProbeTenant, tender: str) -> list[Answer]:
    """A decision that is neither accept nor reject, and a new quote after an acceptance, each with a carrier of its own."""
    quote, confirm = BY_NAME["tender.quote"], BY_NAME["tender.confirm"]
    odd, accepted = (box.specimens.carrier(confirm, tender, f"LSPROBE-CARRIER-{number}") for number in (3, 4))
    for decision in (odd, accepted):
        given = box.specimens.carrier(quote, tender, decision[quote.record.key[1]])
        box.write(quote.name, given)
    word = box.write(confirm.name, probe_records.decided(odd, "LSPROBE"))
    decided = box.write(confirm.name, accepted)
    again = box.write(quote.name, given)
    sent, operations = "a decision LSPROBE", (confirm.name,)
    words = by_status(box, "decision_words", sent, [word], operations, accepted="open", refused="closed")
    name, sent = "quote_accepted", "a new quote after its acceptance"
    if decided.kind != "accepted":
        return [words, settled(name, None, sent, [decided, again], "the first was not accepted")]
    return [words, by_status(box, name, sent, [again], (quote.name,), accepted="replace", refused="reject")]


def _acceptance(box: ProbeTenant, tender: str, decision: Payload) -> Answer:
    before = box.find("tender", tender)
    said = box.write("tender.confirm", decision)
    after = box.find("tender", tender)
    name, sent = "accept_sets_tender_status", "the acceptance of a quote"
    if said.kind != "accepted" or not before or not after:
        return settled(name, None, sent, [said], "not accepted, or the tender is not visible")
    changes = {field: value for field, value in after[0].items() if before[0].get(field) != value}
    if not changes:
        return settled(name, "", sent, [said], "the tender was listed unchanged")
    ((field, value),) = list(changes.items())[:1]
    if len(changes) > 1 or not isinstance(value, str):
        return settled(name, None, sent, [said], f"the tender was listed with other values in {', '.join(changes)}")
    return settled(name, value, sent, [said], f"the tender was listed with {field} {value}")


def statuses(box: ProbeTenant, order: str) -> list[Answer]:
    """What a status update makes of its order, and what becomes of the good records of a batch that is refused."""
    name = "status_sets_order_status"
    marks = probe_records.status_marks()
    before = box.find("order", order)
    said = box.write("order.status", _marked(box, order, marks, "one"))
    after = box.find("order", order)
    sent = "a status update with a code and a name of its own"
    if said.kind != "accepted" or not before or not after:
        sets = settled(name, None, sent, [said], "not accepted, or the order is not visible")
        return [sets, *_batch(box, order, {})]
    ways = [way for way, (target, _) in marks.items() if after[0].get(target) == _mark(way, "one")]
    unchanged = before == after
    value = ways[0] if ways else "off" if unchanged else None
    finding = (
        f"its {ways[0]} was listed with the order"
        if ways
        else "the order was listed " + ("unchanged" if unchanged else "otherwise")
    )
    return [settled(name, value, sent, [said], finding), *_batch(box, order, {way: marks[way] for way in ways})]


def _mark(way: str, which: str) -> str:
    return f"LSPROBE-{way}-{which}"


def _marked(box: ProbeTenant, order: str, marks: dict[str, tuple[str, str]], which: str) -> Payload:
    own = {source: _mark(way, which) for way, (_, source) in marks.items()}
    return {**box.specimens.least(BY_NAME["order.status"], order), **own}


def _batch(box: ProbeTenant, order: str, carried: dict[str, tuple[str, str]]) -> list[Answer]:
    """A good record, then one without its key. `carried` is how a status shows in its order, if it does."""
    operation = BY_NAME["order.status"]
    good = _marked(box, order, probe_records.status_marks(), "two")
    bad = {name: value for name, value in good.items() if name not in operation.record.key}
    said = box.write(operation.name, good, bad)
    sent = "a batch of a good status record and one without its order"
    if said.kind != "refused":
        return [
            settled(name, None, sent, [said], "it was not refused") for name in ("status_on_400", "status_index_base")
        ]
    indices = {fault.index for fault in said.faults(operation) if fault.index is not None}
    base = {frozenset({1}): 0, frozenset({2}): 1}.get(frozenset(indices))  # the wrong record stands second
    finding = f"the second record was named {sorted(indices)}" if indices else "no record was named by its index"
    index = settled("status_index_base", base, sent, [said], finding)
    listed = box.find("order", order) if carried else None
    if not listed:
        return [settled("status_on_400", None, sent, [said], "not visible: no listing shows what a status did"), index]
    applied = any(listed[0].get(target) == _mark(way, "two") for way, (target, _) in carried.items())
    finding = "the good record was " + ("applied" if applied else "not applied")
    return [settled("status_on_400", "partial" if applied else "atomic", sent, [said], finding), index]


def forms(box: ProbeTenant) -> list[Answer]:
    """Numbers and flags in both forms."""
    record, tender = BY_NAME["order.create"].record, BY_NAME["tender.create"]
    came = [
        create(box, "order", lambda payload: probe_records.number_as_text(payload, record))[0],
        create(box, "tender", lambda payload: probe_records.number_as_number(payload, tender))[0],
    ]
    sent = "an order with a number in a text, a tender with a number that is one"
    numbers = by_status(box, "number_forms", sent, came, CREATES, accepted="both", refused="declared")
    flags = {
        word: create(box, "order", lambda payload, word=word: probe_records.flagged(payload, record, word))[0]  # type: ignore[misc]  # mypy cannot infer a lambda with a default
        for word in ("yes", "true")
    }
    taken = [form for form, word in (("yes/no", "yes"), ("true/false", "true")) if flags[word].kind == "accepted"]
    finding = f"accepted: {' and '.join(taken)}" if taken else "neither was accepted"
    value = taken[0] if taken else None
    return [numbers, settled("flag_form", value, "orders with a flag yes, and true", list(flags.values()), finding)]


def shapes(box: ProbeTenant) -> list[Answer]:
    """Creates of orders that are odd in one point each, where 200 and 400 tell all."""
    record, zone = BY_NAME["order.create"].record, probe_records.other_zone
    text, more = probe_records.shared_text(), probe_records.optional_text()
    asked: tuple[tuple[str, str, Shape, Value, Value], ...] = (
        ("unknown_fields", "an order with a field of no record", lambda one: {**one, "lsprobe": "1"}, "ignore", "reject"),
        ("null_fields", "an order with a null", lambda one: {**one, more: None}, "absent", "reject"),
        ("empty_required", "an order with an empty required text", lambda one: {**one, text: ""}, "accept", "reject"),
        ("known_values", "an order with unnamed modes and units", lambda one: probe_records.unnamed_values(one, record), "open", "closed"),
        ("timezones", "an order in a time zone that does not exist", lambda one: zone(one, record), "any", "iana"),
    )  # fmt: skip
    return [
        by_status(box, name, sent, [create(box, "order", shape)[0]], CREATES[:1], accepted=accepted, refused=refused)
        for name, sent, shape, accepted, refused in asked
    ]


def listing_only(box: ProbeTenant) -> Answer:
    """A tender with a field that is shown in listings only."""
    name, sent = "listing_only_fields", "a tender with a field that only listings show"
    field = probe_records.listing_only(BY_NAME["tender.create"].record)
    said, key = create(box, "tender", lambda payload: {**payload, field: CHANGED})
    if said.kind == "refused" and "tender.create" in box.taken:
        return settled(name, "reject", sent, [said], "refused")
    found = box.find("tender", key) if said.kind == "accepted" else None
    if not found:
        return settled(name, None, sent, [said], "not visible: no listing shows whether it was kept")
    kept = found[0].get(field) == CHANGED
    return settled(name, "accept" if kept else "reject", sent, [said], "kept" if kept else "accepted, but not kept")


def references(box: ProbeTenant) -> Answer:
    """Whether a reference comes back in the listing as it was sent, so that it can carry a mark."""
    question, sent = "Are references echoed in the listing, so that they can carry a mark?", "an order with a reference"
    payload, field = probe_records.referenced({}, BY_NAME["order.create"].record, box.run)
    said, key = create(box, "order", lambda least: {**least, **payload})
    found = box.find("order", key) if said.kind == "accepted" else None
    if not found:
        return observed(question, sent, [said], "")
    return observed(question, sent, [said], "yes" if found[0].get(field) == payload[field] else "no")


def identifiers(box: ProbeTenant) -> Answer:
    """Whether an identifier of digits keeps its leading zeros."""
    question, sent = (
        "Does an identifier keep its leading zeros, or is 00123 the same as 123?",
        "an order of digits with zeros in front",
    )
    operation = BY_NAME["order.create"]
    digits = str(int(box.run, 16) + 10**11)
    if any(box.find("order", key) for key in (digits, f"00{digits}")):
        return observed(question, sent, [], "")  # it belongs to somebody
    said = box.write(operation.name, box.specimens.least(operation, f"00{digits}"))
    if said.kind != "accepted":
        return observed(question, sent, [said], "refused" if said.kind == "refused" else "")
    exact, bare = box.find("order", f"00{digits}"), box.find("order", digits)
    if bare:
        box.write("order.delete", box.specimens.least(BY_NAME["order.delete"], digits))
    return observed(question, sent, [said], "kept" if exact else "lost" if bare else "")

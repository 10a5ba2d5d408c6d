"""Compares the contents of documents for one record, as JSON: which are the same, in which fields they differ, and what an update does to its
record besides changing its own fields. It leaves what is blank now, it replaces lists as a whole, and the exchange reads its times in
the one time zone that the record has.

A problem that holds another version of a record keeps the values in which the two differ, field by field (`changes_to_keep`, `kept_changes`).
Old ledgers have only a text with all of them.
"""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any, NamedTuple

import msgspec

from loadsheet.contract import (
    BY_NAME,
    Action,
    Difference,
    FieldKind,
    decode_record,
    different_fields,
    may_differ_in_form,
    parties_of,
    same_content,
    show_same_clock,
)
from loadsheet.display_text import as_argument
from loadsheet.ledger.models import EarlierEntry, State
from loadsheet.mapping.documents import AlternativeForm, Document
from loadsheet.problems import Problem

NOT_KEPT = "the fields are unknown, because the accepted content has been removed"
"""The text in place of the differences from a record whose contents were removed."""

OTHER_VERSION = frozenset({"L601", "L605"})
"""The problems of a record of which another version came before."""

FIELDS = "fields"
"""The value of such a problem with all differences in one text, for operators."""

MEANT = "meant"
"""The value of a problem with the number of the order or tender that its sender may have meant."""

_MORE = "more"
_SHOWN = 5
_LENGTH_MAX = 60
TO_CLEAR = 'to clear a text there: default: "" at its field in the mapping'
_NO_FIELDS = b"{}"


def recognized(document: Document, lane: Sequence[EarlierEntry]) -> Document:
    """The document with the hash of the last entry on its lane that has the same content in another order of rows or with other
    line ends, if there is one. Removed contents can only be recognized by their own hash.
    """
    if not lane or not document.usable:
        return document
    forms = [AlternativeForm(document.operation, document.payload, document.content_hash)]
    forms += [document.alternative] if document.alternative is not None else []
    own, *others = [_recognized(form, document, lane) for form in forms]
    return replace(document, content_hash=own.content_hash, alternative=others[0] if others else None)


def _recognized(form: AlternativeForm, document: Document, lane: Sequence[EarlierEntry]) -> AlternativeForm:
    if not may_differ_in_form(form.payload):
        return form
    for earlier in reversed(lane):
        if earlier.content_hash == form.content_hash:
            return form
        if earlier.key == document.key and same_content(earlier.payload, form.payload, document.ordered):
            return form._replace(content_hash=earlier.content_hash)
    return form


def sender_in(payload: bytes) -> str:
    """The sender of a JSON record, or of what is kept of it; empty if it has none."""
    return parties_of(msgspec.json.decode(payload))[0] if payload else ""


def not_cleared(update: Document, before: bytes, whole: bytes, fields: Collection[str] | None = None) -> Problem | None:
    """The warning if the version before had fields that are blank in this one: an update without a field leaves it as it is. `whole` is the
    record as it would be created, which may have more fields than the mapping gives its update. `fields` are those that the mapping can fill;
    None: all.
    """
    found, filled = left_out(before, update.payload), fields_in(whole)
    blank = {name: value for name, value in found.items() if name not in filled and (fields is None or name in fields)}
    if not blank:
        return None
    values = changed_values(update, msgspec.json.encode(blank), _NO_FIELDS)
    return Problem("L626", values=values, hint=TO_CLEAR, level="warning")


def shortened(update: Document, sent: Sequence[bytes]) -> Problem | None:
    """The warning if a list of an update has fewer items than the record had: an update with some packages removes the others. So does a new
    version of an order whose other packages are in another file. `sent` is what was sent for the record, newest first.
    """
    for name, count in list_lengths(update.payload).items():
        before = next((lengths[name] for lengths in map(list_lengths, sent) if name in lengths), 0)
        if count < before:
            values = {"key": update.key, "list": name, "before": before, "after": count}
            return Problem("L627", values=values, hint="if the others are to stay, list them too", level="warning")
    return None


def sets_other_fields(earlier: EarlierEntry, update: Document) -> bool:
    """Whether an earlier update of the record leaves every field of this one as this one sets it. Not known if contents were removed."""
    is_update = earlier.operation == update.operation and BY_NAME[update.operation].action is Action.UPDATE
    if not is_update or earlier.state not in (State.ACCEPTED, State.READY):
        return False
    before, own = fields_in(earlier.payload), fields_in(update.payload)
    return (
        earlier.content_hash != update.content_hash
        and all(own.get(name, value) == value for name, value in before.items())
        and bool(before)
    )


def other_zone(update: Document, zone: str, sent: Sequence[bytes]) -> Problem | None:
    """The problem if an update changes some times of a record whose time zone shows other clocks. `zone` is that of the times of its file, if
    known; the update may name one itself. `sent` is what was sent for the record, newest first.
    """
    fields, new = BY_NAME[update.operation].record.fields, msgspec.json.decode(update.payload)
    if not any(field.kind is FieldKind.DATETIME and field.name in new for field in fields):
        return None
    (name,) = (field.name for field in fields if field.kind is FieldKind.TIMEZONE)
    zones = (msgspec.json.decode(payload).get(name) for payload in sent if payload)
    own, known = str(new.get(name) or zone), str(next(filter(None, zones), ""))
    if not (own and known) or show_same_clock(own, known):
        return None
    values = {"key": update.key, "own": own, "other": known}
    hint = f"give these times in {known} (source.timezone of the mapping); to send them as they are: loadsheet retry"
    return Problem("L628", values=values, hint=f"{hint} {as_argument(update.key)}")


def changed_values(document: Document, before: bytes, after: bytes) -> dict[str, Any]:
    """The values of a problem with the differences of two JSON records of a document."""
    texts = ", ".join(field_differences(before, after))
    return {"key": document.key, FIELDS: texts} | changes_to_keep(document.operation, before, after, document.ordered)


class ChangedValue(NamedTuple):
    """A field that changed: its payload path, and both values as texts (empty: no value). None if they are too long to show."""

    path: str
    old: str | None
    new: str | None


def changes_to_keep(operation: str, before: bytes, after: bytes, ordered: Collection[str]) -> dict[str, Any]:
    """The values of a problem that keep the differences of two JSON records of an operation; none if the earlier contents were removed."""
    if not before:
        return {}
    old, new, record = decode_record(before), decode_record(after), BY_NAME[operation].record
    left_out = (one for one in different_fields(record, old, new, ordered=ordered) if not one.held)
    changed = {one.path: one for one in different_fields(record, new, old, ordered=ordered)}
    found = [*changed.values(), *(Difference(one.path, "", one.sent) for one in left_out if one.path not in changed)]
    kept: dict[str, Any] = {_MORE: len(found) - _SHOWN} if len(found) > _SHOWN else {}
    for number, one in enumerate(found[:_SHOWN], start=1):
        kept[f"path {number}"] = one.path
        if max(len(one.sent), len(one.held)) <= _LENGTH_MAX:
            kept |= {f"old {number}": one.held, f"new {number}": one.sent}
    return kept


def fields_in(payload: bytes) -> dict[str, msgspec.Raw]:
    """The top-level fields of a JSON record. Empty if its contents were removed."""
    return msgspec.json.decode(payload, type=dict[str, msgspec.Raw]) if payload else {}


def left_out(before: bytes, after: bytes) -> dict[str, msgspec.Raw]:
    """The top-level fields with a value in the first JSON record that the second lacks."""
    fields = fields_in(after)
    return {
        name: value
        for name, value in fields_in(before).items()
        if name not in fields and bytes(value) not in (b'""', b"[]")
    }


def list_lengths(payload: bytes) -> dict[str, int]:
    """The number of items of each list of a JSON record, and of the lists within its items together (`packages.inner_cargos`). Empty if
    its contents were removed.
    """
    return dict(_lengths("", [msgspec.json.decode(payload)])) if payload else {}


def _lengths(path: str, records: Sequence[dict[str, Any]]) -> Iterator[tuple[str, int]]:
    """The number of items of each list in records at a path."""
    for name in dict.fromkeys(chain.from_iterable(records)):
        lists = [found for record in records if isinstance(found := record.get(name), list)]
        if lists:
            items = list(chain.from_iterable(lists))
            yield f"{path}{name}", len(items)
            yield from _lengths(f"{path}{name}.", items)


def field_differences(before: bytes, after: bytes) -> list[str]:
    """The top-level fields in which two JSON records differ, each as `name 1 -> 2`, long ones only by name. `NOT_KEPT` if the
    contents of the earlier record were removed (empty).
    """
    if not before:
        return [NOT_KEPT]
    old, new = (msgspec.json.decode(record, type=dict[str, msgspec.Raw]) for record in (before, after))
    names = [name for name in {**old, **new} if _compact(old.get(name)) != _compact(new.get(name))]
    shown = [_difference(name, old.get(name), new.get(name)) for name in names[:_SHOWN]]
    more = len(names) - len(shown)
    return [*shown, f"and {more} more"] if more else shown


def _compact(raw: msgspec.Raw | None) -> Any:
    return None if raw is None else bytes(raw)


def _difference(name: str, old: msgspec.Raw | None, new: msgspec.Raw | None) -> str:
    before, after = ("nothing" if raw is None else bytes(raw).decode() for raw in (old, new))
    if before[0] == after[0] == "[":
        counts = [len(msgspec.json.decode(items)) for items in (before, after)]
        return name if counts[0] == counts[1] else f"{name} {counts[0]} items -> {counts[1]} items"
    too_long = max(len(before), len(after)) > _LENGTH_MAX
    return name if too_long or before[:1] in "[{" else f"{name} {before} -> {after}"


def kept_changes(problem: Problem) -> list[ChangedValue]:
    """The differences that a problem keeps field by field; none in old ledgers."""
    values = problem.values
    paths = [values.get(f"path {number}") for number in range(1, _SHOWN + 1)]
    return [
        ChangedValue(path, values.get(f"old {number}"), values.get(f"new {number}"))
        for number, path in enumerate(paths, start=1)
        if path is not None
    ]


def further_changes(problem: Problem) -> int:
    """How many more fields changed than the problem keeps."""
    return problem.number(_MORE)

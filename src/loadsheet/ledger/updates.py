"""What an update does to a record besides changing its own fields: it leaves what is blank now, it replaces lists as a whole, and the exchange
reads its times in the one time zone that the record has. Compares JSON records.
"""

from collections.abc import Collection, Sequence
from typing import Any

import msgspec

from loadsheet.contract import BY_NAME, Action, Kind, show_same_clock
from loadsheet.display_text import as_argument
from loadsheet.ledger.codec import FIELDS, changes_to_keep, field_differences, fields_in, left_out, list_lengths
from loadsheet.ledger.states import EarlierEntry, State
from loadsheet.mapping.documents import Document
from loadsheet.problems import Problem

TO_CLEAR = 'to clear a text there: default: "" at its field in the mapping'
_NO_FIELDS = b"{}"


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
    if not any(field.kind is Kind.DATETIME and field.name in new for field in fields):
        return None
    (name,) = (field.name for field in fields if field.kind is Kind.TIMEZONE)
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

"""Hypothesis strategies made from the contract: any valid payload of an operation."""

from datetime import datetime
from decimal import Decimal

from hypothesis import strategies as st

from loadsheet.contract import DATE_SHAPES, Field, FieldKind, NumberForm, Operation, Record, When, plain_digits

texts = st.text(st.characters(exclude_categories=("Cs", "Cc")), min_size=1, max_size=12)
# drawn from the constants of the source, but in a sheet it is an error: #VALUE!
texts = texts.filter(lambda text: not (text.startswith("#") and text.isascii() and len(text) > 2))
idents = st.text("ABCxyz0123456789-", min_size=1, max_size=10)
numbers = st.decimals(min_value=0, max_value=Decimal("99999999.999"), places=3) | st.integers(0, 10**6)
moments = st.datetimes(min_value=datetime(2000, 1, 1), max_value=datetime(2099, 12, 31)).map(
    lambda moment: moment.replace(microsecond=0)
)
zones = st.sampled_from(["Europe/Berlin", "America/New_York", "Asia/Kolkata", "UTC"])


def _texts_of(field: Field):
    if not field.known:
        return texts
    closed = field.closed_by == "decision_words"  # the list that is closed by default
    return st.sampled_from(field.known) if closed else st.sampled_from(field.known) | texts


def values(field: Field, form: NumberForm, *, creates: bool):
    """Any valid value of one field in a record whose numbers take this form."""
    if field.record is not None:
        inner = records(field.record, creates=creates)
        return st.lists(inner, max_size=2) if field.kind is FieldKind.ARRAY else inner
    if field.kind in DATE_SHAPES:
        source = {FieldKind.DATE: moments.map(datetime.date), FieldKind.TIME: moments.map(datetime.time)}.get(
            field.kind, moments
        )
        return source.map(lambda value: value.strftime(DATE_SHAPES[field.kind][0]))
    return {
        FieldKind.STRING: _texts_of(field),
        FieldKind.STRING_OR_NUMERIC: idents,
        FieldKind.NUMERIC: numbers if form is NumberForm.JSON_NUMBER else numbers.map(plain_digits),
        FieldKind.FLAG: st.sampled_from(["yes", "no", "true", "false"]),
        FieldKind.TIMEZONE: zones,
        FieldKind.OFFSET_HOURS: st.sampled_from(["1", "-5", "5.5"]),
        FieldKind.OFFSET_MINUTES: st.sampled_from(["60", "-300", "330"]),
    }[field.kind]


def records(record: Record, *, creates: bool):
    """Any valid record; optional fields come and go."""
    required, optional = {}, {}
    for field in record.fields:
        if field.when is When.LISTED:
            continue
        needed = field.when is When.ALWAYS or (creates and field.when is When.ON_CREATE)
        (required if needed else optional)[field.name] = values(field, record.numbers, creates=creates)
    return st.fixed_dictionaries(required, optional=optional)


def payloads(operation: Operation):
    """Any valid request record of an operation, as a JSON reader with exact decimals would give it."""
    return records(operation.record, creates=operation.creates)


__all__ = ["idents", "moments", "numbers", "payloads", "records", "texts", "values", "zones"]

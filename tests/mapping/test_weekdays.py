"""Dates with the day of the week, as spreadsheet programs write long dates."""

import pytest
from sheets import decode, load_text, of_text

MAPPING = """\
mapping: weekdays
version: 1
target: order.update
source: {files: "*", locale: LOCALE, encoding: utf-8, delimiter: [";"], timezone: UTC, dates: ["FORMAT"]}
columns: {order: {label: Order, required: true, key: true}, day: {label: Day, type: date}}
payload: {order_id: {col: order}, sender_id: {value: A}, receiver_id: {value: B}, pickup_startdatetime: {col: day}}
"""


def read(tmp_path, locale, format_, cell):
    """The date of a cell, or its problem's hint."""
    mapping = load_text(tmp_path, MAPPING.replace("LOCALE", locale).replace("FORMAT", format_))
    (document,) = of_text(mapping, tmp_path, f"Order;Day\nA;{cell}\n")
    if document.problems:
        return document.problems[0].hint
    return decode(document.payload)["pickup_startdatetime"][:10]


@pytest.mark.parametrize(
    ("locale", "format_", "cell"),
    [
        ("de_DE", "%a, %d.%m.%Y", "Mo, 02.03.2026"),
        ("de_DE", "%a, %d.%m.%Y", "Mo., 02.03.2026"),
        ("de_DE", "%A, %d. %B %Y", "Montag, 2. März 2026"),
        ("fr_FR", "%a %d %B %Y", "lundi 2 mars 2026"),
        ("es_ES", "%A, %d de %B de %Y", "lunes, 2 de marzo de 2026"),
        ("en_US", "%A, %B %d, %Y", "Monday, March 2, 2026"),
        ("en_GB", "%a %d/%m/%Y", "MON 02/03/2026"),
        ("sv_SE", "%a %d/%m/%Y", "Mon 02/03/2026"),
    ],
)
def test_the_weekday_is_read_in_the_language_of_the_file_and_in_english(tmp_path, locale, format_, cell):
    assert read(tmp_path, locale, format_, cell) == "2026-03-02"


def test_a_weekday_that_is_not_that_of_the_date_is_refused_with_the_right_one(tmp_path):
    assert (
        read(tmp_path, "de_DE", "%a, %d.%m.%Y", "Di, 02.03.2026")
        == "2026-03-02 is a Monday: correct the day or the date"
    )
    assert read(tmp_path, "de_DE", "%a, %d.%m.%Y", "Xy, 02.03.2026") == ""


def test_two_formats_stay_ambiguous_beside_a_weekday(tmp_path):
    with pytest.raises(Exception, match="read Sat, 04/05/2003 as different dates"):
        read(tmp_path, "en_GB", '%a, %d/%m/%Y", "%a, %m/%d/%Y', "Mon, 02/03/2026")

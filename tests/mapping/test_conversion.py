"""Cells to values: what each column type accepts, what it refuses and what it says. Numbers and quantities: test_numbers.py."""

import time
import tracemalloc
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import get_args
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sheets import ASSUMED, NOW

import loadsheet
from loadsheet.mapping import conversion
from loadsheet.mapping.compile import lint, load
from loadsheet.mapping.conversion import Conventions, plan_column
from loadsheet.mapping.layouts import expected_text as described
from loadsheet.mapping.lookups import read_lookup
from loadsheet.mapping.plans import CellProblem, ValueWithWarning
from loadsheet.mapping.schema import Column, ColumnType, LookupSpec
from loadsheet.mapping.yamlfile import YamlFile
from loadsheet.reading.tables import Native

BERLIN = ZoneInfo("Europe/Berlin")
FORMATS = ("%d.%m.%Y %H:%M", "%d.%m.%Y")


def planned(type_, *, locale="de_DE", dates=FORMATS, zone=BERLIN, fold="error", units=None, lookups=None, **keys):
    """The plan of one column, and what is said of its settings."""
    file = YamlFile(Path("m.yaml"), {"lookups": lookups or {}})
    conventions = Conventions(locale, tuple(dates), zone, fold=fold, units=units or {}, lookups=lookups or {})
    plan = plan_column(Column.model_validate({"type": type_, **keys}), 0, conventions, file, ("columns", "c"))
    return plan, "; ".join(str(finding) for finding in file.findings)


def converter(type_, **settings):
    """The compiled converter of one column; fails the test if its settings are refused."""
    plan, said = planned(type_, **settings)
    assert said == ""
    return plan.convert


def shown(value):
    """A value as the tables below write it: a number, moment or time of day as text, a problem as its code."""
    if isinstance(value, CellProblem):
        return value.code
    if isinstance(value, datetime):
        return value.isoformat()
    return str(value) if isinstance(value, Decimal | timedelta) else value


def hints(type_, cells, **settings):
    """The code and the hint of each of these cells, all of them refused."""
    convert = converter(type_, **settings)
    return {cell: (convert(cell).code, convert(cell).hint) for cell in cells}


BLANKS = ["", "  ", "\t", "\N{NO-BREAK SPACE}", "\N{ZERO WIDTH SPACE}", "\N{EM SPACE}\r\n"]


def test_blank_cells_are_none_the_default_or_a_missing_value():
    for settings, value in (({}, None), ({"default": "A"}, "A"), ({"required": True}, "C301")):
        assert {shown(converter("text", **settings)(blank)) for blank in BLANKS} == {value}
    assert converter("integer", default=1)(" ") == 1


SMILE = "\N{GRINNING FACE}"
CARRIERS = ["V444_0", "V44_30", "Hansa", "Hanse", "Nordlink", "AB"]
PARCELS = {"p": "PAL", "P": "PKG"}
VALUES = [  # the type of a column, its settings, and what cells become
    ("text", {}, {"00123": "00123", " 123": "123", "abc": "abc", "\u00a0Ko\N{COMBINING DIAERESIS}ln \t": "Köln", "NA": "NA"}),
    ("text", {}, {
        "'02108": "02108", " '+49 89 1234 ": "+49 89 1234", "'12-3456/7": "12-3456/7",  # kept as text by an apostrophe
        "'26": "'26", "'s-Hertogenbosch": "'s-Hertogenbosch", "'90s chairs": "'90s chairs", "0'2108": "0'2108",
        "'LS1 4DY": "LS1 4DY", "'K1A 0B1": "K1A 0B1", "'LV-1050": "LV-1050", "'T ZAND 12": "'T ZAND 12", "'S-GRAVENHAGE": "'S-GRAVENHAGE",
    }),
    ("text", {}, {  # kept as text by a formula, as exports for spreadsheet programs write it
        '="02108"': "02108", ' ="A-1" ': "A-1", '=""': None, '=" "': None, '="Köln"': "Köln", '="a"&"b"': '="a"&"b"', "=": "=",
    }),
    ("integer", {}, {'="12"': "12"}),
    ("text", {}, {"1.23E+12": "1.23E+12"}),
    ("text", {"blank": ["NA", "-"]}, {" NA ": None, "-": None, "na": "na"}),
    ("text", {"max_length": 5}, {"12345": "12345", "123456": "C312", SMILE * 5: SMILE * 5}),
    ("text", {"min_length": 3}, {"ab": "C305", "abc": "abc"}),
    ("text", {"pad_left": {"to": 5, "with": "0"}}, {"1067": "01067", "101067": "101067"}),
    ("text", {"pad_left": {"to": 5}, "max_length": 5}, {"1067": "01067", "101067": "C312"}),
    ("text", {"one_of": {"Road": "ROAD", "Air": "AIR"}}, {"Road": "ROAD", "ROAD": "C306", "Raod": "C306"}),
    ("text", {"one_of": {"Road": "ROAD"}, "ignore_case": True}, {"ROAD": "ROAD"}),
    ("text", {"one_of": ["A", "B"]}, {"B": "B", "b": "C306"}),
    ("text", {"one_of": PARCELS}, {"p": "PAL", "P": "PKG"}),
    ("text", {"one_of": {"p": "PAL", "P": "PAL"}, "ignore_case": True}, {"p": "PAL"}),
    # errors of a workbook in a text file, and numbers of orders that look a little like them
    ("text", {}, dict.fromkeys(["#N/A", "#NV", "#REF!", "#BEZUG!", "#NAME?", "#¡VALOR!", "#N/D", "########"], "R207")),
    ("text", {}, {"#1001": "#1001", "#VIP!": "#VIP!", "###": "###", "#N/A 7": "#N/A 7"}),
    ("text", {"blank": ["#N/A"]}, {"#N/A": None}),
    ("text", {}, dict.fromkeys(["=SUM(E8:E27)", "=A1", "=-$B$2*2", "=(B2+C2)/2", "=Sheet1!A1", "='A list'!B7"], "R208")),
    ("text", {}, {"= see B2": "= see B2", "=AB": "=AB", "=1+1": "=1+1", "=> B2": "=> B2", "==B2==": "==B2=="}),
    ("decimal", {}, {"=B2*C2": "R208"}),
    ("decimal", {}, {"#DIV/0!": "R207", "#WERT!": "R207"}),
    # dates and times: by declared formats only
    ("datetime", {}, {
        "03.04.2026 08:15": "2026-04-03T08:15:00+02:00", "03.04.2026 08:15 ": "2026-04-03T08:15:00+02:00",
        "3.4.2026": "2026-04-03T00:00:00+02:00", "31.02.2026": "C304", "31.13.2026": "C304", "2026-04-03": "C304",
        "tomorrow": "C304", "1700": "C304", "03.04.2026 25:00": "C304", "31.03.2026 24:00": "2026-04-01T00:00:00+02:00", "31.03.2026 24:30": "C304", "03.04.2026x": "C304",
        "29.03.2026 02:30": "C314", "25.10.2026 02:30": "C315",
    }),
    ("datetime", {"fold": "first"}, {"25.10.2026 02:30": "2026-10-25T02:30:00+02:00"}),
    ("datetime", {"fold": "second"}, {"25.10.2026 02:30": "2026-10-25T02:30:00+01:00"}),
    ("datetime", {"dates": []}, {"2026-04-03": "C304"}),
    ("datetime", {"dates": ["%m/%d/%Y"]}, {"03/04/2026": "2026-03-04T00:00:00+01:00"}),
    ("datetime", {"dates": ["%d/%m/%Y"]}, {"03/04/2026": "2026-04-03T00:00:00+02:00"}),
    ("datetime", {"dates": ["%Y-%m-%d"]}, {"2026-05-28": "2026-05-28T00:00:00+02:00"}),
    ("datetime", {"dates": ["%d-%b-%y"]}, {"02-Jun-68": "2068-06-02T00:00:00+02:00", "02-Jun-69": "1969-06-02T00:00:00+01:00"}),
    ("datetime", {"dates": ["%a %d.%m.%Y %H:%M"]}, {
        "Fri 13.03.2026 24:00": "2026-03-14T00:00:00+01:00", "Sat 13.03.2026 24:00": "C304", "Fri 13.03.2026 0:00": "2026-03-13T00:00:00+01:00",
    }),
    ("datetime", {"dates": ["%d. %B %Y"]}, {"2. Juni 2026": "2026-06-02T00:00:00+02:00"}),
    ("datetime", {"dates": ["%m/%d/%Y %I:%M %p"]}, {
        "12/31/2026 12:05 AM": "2026-12-31T00:05:00+01:00", "12/31/2026 12:05 pm": "2026-12-31T12:05:00+01:00",
        "12/31/2026 1:05 p.\u00a0m.": "2026-12-31T13:05:00+01:00", "12/31/2026 1:05 a. m.": "2026-12-31T01:05:00+01:00",
        "12/31/2026 0:05 AM": "C304", "12/31/2026 13:05 PM": "C304",
    }),
    ("datetime", {"dates": ["%Y%m%dT%H%M%S"]}, {
        "20260301T080000": "2026-03-01T08:00:00+01:00", "20260301T80000": "C304", "2026301T080000": "C304",
    }),
    # a lost zero: neither 11 February nor 11:05
    ("datetime", {"dates": ["%d%m%Y", "%d%m%Y %H:%M"]}, {
        "01122026": "2026-12-01T00:00:00+01:00", "1122026": "C304", Native("1122026", "number"): "C304", Native("30112026", "number"): "2026-11-30T00:00:00+01:00",
        Native("46357", "number"): "C304", "30112026 8:05": "2026-11-30T08:05:00+01:00",
    }),
    ("time", {"formats": ["%H%M"]}, {"0115": "1:15:00", "115": "C304", "73": "C304"}),
    ("datetime", {"dates": ["%Y-%m-%d %H:%M:%S.%f"]}, {
        "2026-03-01 08:00:00.5": "2026-03-01T08:00:00.500000+01:00", "2026-03-01 08:00:00.1234567": "2026-03-01T08:00:00.123456+01:00",
        "2026-03-01 08:00:00.000000000": "2026-03-01T08:00:00+01:00", "2026-03-01 08:00:00.0000000000": "C304",
    }),
    ("datetime", {"dates": ["%Y-%m-%dT%H:%M%z"]}, {
        "2026-03-01T12:00Z": "2026-03-01T13:00:00+01:00", "2026-03-01T12:00+05:30": "2026-03-01T07:30:00+01:00",
    }),
    ("datetime", {"dates": ["%d.%m.%Y %H:%M%z", "%d.%m.%Y %H:%M %z"]},
     dict.fromkeys([f"01.07.2026 08:00{word}" for word in ("Z", " UTC", " gmt", "+0000", "-00:00")], "2026-07-01T10:00:00+02:00")),
    ("datetime", {"dates": ["%b %d, %Y %I:%M:%S %p %z"]}, {
        "Mar 1, 2026 12:04:11 AM PST": "2026-03-01T09:04:11+01:00", "Jul 1, 2026 1:04:11 PM edt": "2026-07-01T19:04:11+02:00",
        "Jul 1, 2026 1:04:11 PM CEST": "2026-07-01T13:04:11+02:00", "Jul 1, 2026 1:04:11 PM IST": "C304",
    }),
    ("datetime", {"dates": ["%s", "%s%f"]}, {
        "1795680300": "2026-11-26T09:05:00+01:00", "1795680300250": "2026-11-26T09:05:00.250000+01:00",
        Native("1795680300", "number"): "2026-11-26T09:05:00+01:00", "179568030": "C304", "2026-11-26": "C304",
    }),
    ("datetime", {"dates": ["%d.%m.%Y", "%E"]}, {
        "46357": "2026-12-01T00:00:00+01:00", "46357,75": "2026-12-01T18:00:00+01:00", "46357.708333333336": "2026-12-01T17:00:00+01:00",
        Native("46357", "number"): "2026-12-01T00:00:00+01:00", Native("46357.333333333333", "number"): "2026-12-01T08:00:00+01:00",
        "01.12.2026": "2026-12-01T00:00:00+01:00", **dict.fromkeys(["4635", "463570", "46.357", "04635", "46357 8"], "C304"),
        Native("4635", "number"): "C304",
    }),
    ("date", {"dates": ["%E"]}, {"46357": "2026-12-01T00:00:00+01:00", "46357,5": "C304"}),
    ("datetime", {"dates": ["%d.%m.%Y %H:%MZ"], "zone": ZoneInfo("UTC")}, {"01.07.2026 08:00Z": "2026-07-01T08:00:00+00:00"}),
    ("date", {}, {"01.03.2026": "2026-03-01T00:00:00+01:00", "01.03.2026 08:00": "C304"}),
    ("integer", {}, {"'12": "12", " '7 ": "7", "''7": "C302", "'": "C302", "'seven": "C302"}),
    ("integer", {}, {
        "1.000": "1000", "1000,000": "1000", "1.000,000": "1000", "0,000": "0", "1,00": "1", Native("1", "number", "1,000"): "1",
        **dict.fromkeys(["1,000", "-12,000", "250,000-", "'1,000"], "C316"),
    }),
    ("integer", {"locale": "en_GB"}, {"1,000": "1000", "1.000": "C316", "1.0000": "1"}),
    ("decimal", {"places": 0}, {"1,000": "C316"}),
    ("decimal", {}, {"1,000": "1", "'-1.234,5": "-1234.5", "'+2": "2", "',5": "0.5"}),
    ("time", {}, {"08:30": "8:30:00", "'08:30": "8:30:00", "24:00": "1 day, 0:00:00", "24:01": "C304", "25:00": "C304"}),
    ("time", {"formats": ["%H.%M Uhr"]}, {"8.05 Uhr": "8:05:00"}),
    # words
    ("country", {}, {"Deutschland": "DE", "germany": "DE", "de": "DE", "DEU": "DE", "D": "DE", "d": "C308", "D.E.": "C308"}),
    ("country", {"locale": "sv_SE"}, {"Norge": "NO", "SLO": "SI"}),
    ("country", {"locale": "en_GB"}, {"UK": "GB", "NA": "NA"} | dict.fromkeys(["EU", "Europe", "001", "Deutschland"], "C308")),
    ("currency", {}, {
        "eur": "EUR", "€": "EUR", "Euro": "EUR", "US-Dollar": "USD", "US Dollar": "USD", "zł": "PLN", "TL": "TRY", "RMB": "CNY", "Schweizer Franken": "CHF",
        **dict.fromkeys(["$", "¥", "ft", "Franc", "Krone", "XQQ"], "C309"),
    }),
    ("timezone", {"one_of": {"ET": "America/New_York", "ct": "america/chicago"}, "ignore_case": True}, {
        "ET": "America/New_York", " CT ": "America/Chicago", "PT": "C306", "Europe/Berlin": "C306", "": None,
    }),
    ("timezone", {"one_of": ["UTC", "Europe/Berlin"]}, {"UTC": "UTC", "Europe/Rome": "C306"}),
    ("timezone", {}, {"europe/berlin": "Europe/Berlin", "Mars/Base": "C311"}),
    ("yesno", {}, {"ja": True, "Nein": False, "YES": True, "0": False, "oui": "C310"}),
    ("yesno", {"locale": "fr_FR"}, {"oui": True}),
    ("yesno", {"yes": ["X"], "no": ["-"]}, {"x": True, "-": False, "ja": "C310"}),
]  # fmt: skip


@pytest.mark.parametrize(("type_", "settings", "cells"), VALUES)
def test_a_cell_is_read_as_its_column_declares(type_, settings, cells):
    convert = converter(type_, **settings)
    assert {cell: shown(convert(cell)) for cell in cells} == cells


@pytest.mark.parametrize(
    ("type_", "cell", "expected"),
    [
        ("text", Native("1067", "number", "01067"), "01067"),  # as its sender sees it
        ("decimal", Native("1.234", "number"), "1.234"),  # a number is exact in any locale
        ("datetime", Native("2026-03-01 08:00:00", "datetime"), "2026-03-01T08:00:00+01:00"),
        ("datetime", Native("2026-03-29 02:30:00", "datetime"), "C314"),
        ("date", Native("2026-03-01", "date"), "2026-03-01T00:00:00+01:00"),
        ("time", Native("08:30:00", "time"), "8:30:00"),
        ("time", Native("24:00:00", "time"), "1 day, 0:00:00"),
        ("time", Native("1", "number"), "C304"),
        ("time", Native("1.25", "number", "30:00:00"), "C304"),
        ("yesno", Native("true", "flag"), True),
        ("text", Native("#N/A", "error"), "R207"),
        ("decimal", Native("#DIV/0!", "error"), "R207"),
        ("text", Native("", "formula"), "R208"),
        ("decimal", Native("2026-03-01", "date"), "C302"),
        ("decimal", Native("true", "flag"), "C302"),
        ("datetime", Native("45000", "number"), "C304"),
        ("date", Native("2026-03-01 08:00:00", "datetime"), "C304"),
        ("time", Native("2026-03-01", "date"), "C304"),
    ],
)
def test_a_typed_cell_is_a_value_of_its_own_kind_only(type_, cell, expected):
    assert shown(converter(type_, dates=())(cell)) == expected


def test_a_text_is_cut_only_where_the_mapping_says_so_and_with_a_warning():  # M22
    cut = converter("text", max_length=5, on_too_long="cut_and_warn")("123456")
    assert isinstance(cut, ValueWithWarning)
    assert (cut.value, cut.warning.code, cut.warning.level) == ("12345", "C312", "warning")


@pytest.mark.parametrize(
    "pattern",
    ["[a-z]*[a-z]*x", "(a|b)c*d*", "a?a?a?a?b*", "[^,]*,[^,]*", "\\w*\\w*!", "(a+)+$", "(a|a)*b", "(.*)(.*)(.*)(.*)x"],
)
def test_m3_no_allowed_pattern_runs_away(pattern):
    convert = converter("text", pattern=pattern)
    started = time.perf_counter()
    for text in ("a" * 50_000, "a" * 200, "ab" * 100, "," * 200):
        convert(text)
    assert time.perf_counter() - started < 10


# ---- what is proposed ----

LOOK_ALIKES = {"BO1": "a", "X-07": "b", "CS": "c", "\N{CYRILLIC CAPITAL LETTER ES}5": "d"}
MEANT = [  # the type of a column, its settings, the code of refused cells, and what is proposed instead of them
    ("text", {"one_of": {"Road": "ROAD", "Air": "AIR"}}, "C306", {"Raod": "Road"}),
    ("text", {"one_of": CARRIERS}, "C306", {
        "V444_3": None, "V44_3": None, "V445_0": None,  # another carrier, though it is one digit away
        "v444-0": "V444_0", "Nordlnik": "Nordlink", "Nordink": "Nordlink",
        "Norlnik": None,  # two errors
        "Hans": None,  # either of two
        "AC": None,
    }),
    ("text", {"one_of": LOOK_ALIKES}, "C306", {
        "B01": "BO1",  # an O for a zero is an exception of the rule that digits agree
        "X-7": "X-07", "X\N{EN DASH}07": "X-07",
        "x-08": None,  # another digit is another code
        "C5": None,  # two look like it
    }),
    ("country", {}, "C308", {"germny": "Germany", "Deutschlnd": "Deutschland", "Schottland": "Vereinigtes Königreich"}),
    ("country", {"locale": "en_GB"}, "C308", {
        "England": "United Kingdom", "America": "United States", "Korea": "South Korea", "Brasil": "Brazil",
        "Nordland": None, "Deutchland": None, "Congo": None, "Guinea-Bissau Republic": None, "Atlantis": None,
    }),
    ("timezone", {}, "C311", {"Europe/Berlim": "Europe/Berlin"}),
    ("currency", {}, "C309", {"EURX": "EUR"}),
]  # fmt: skip


@pytest.mark.parametrize(("type_", "settings", "code", "meant"), MEANT)
def test_only_what_is_meant_without_doubt_is_proposed(type_, settings, code, meant):
    expected = {cell: (code, f"did you mean {word}?" if word else "") for cell, word in meant.items()}
    assert hints(type_, meant, **settings) == expected
    if "one_of" in settings:
        assert hints(type_, meant, one_of={word: word for word in settings["one_of"]}) == expected


def test_a_long_cell_has_no_proposal_and_takes_no_memory():
    convert = converter("text", one_of=[*CARRIERS, "Hans" * 500 + "e"])
    tracemalloc.start()
    refused = convert("Hans" * 500)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert (refused.code, "did you mean" in refused.hint, peak < 1_000_000) == ("C306", False, True)


DOTLESS = "\N{LATIN SMALL LETTER DOTLESS I}"
NAMED_DAYS = [  # locale, format, the day, cells that name it, and one that does not; capitals of whichever i a language has are read
    ("de_DE", "%a, %d.%m.%Y", "2026-03-02", ["Mo, 02.03.2026", "Mo., 02.03.2026", "Mon, 2.3.2026", "MONTAG, 02.03.2026"], "Di, 02.03.2026"),
    ("de_DE", "%A, %d. %B %Y", "2026-03-02", ["Montag, 2. März 2026", "MONTAG, 2. MÄRZ 2026"], "Xy, 2. März 2026"),
    ("fr_FR", "%a %d %B %Y", "2026-03-02", ["lundi 2 mars 2026", "lun. 2 mars 2026"], "mardi 2 mars 2026"),
    ("es_ES", "%A, %d de %B de %Y", "2026-03-02", ["lunes, 2 de marzo de 2026"], "martes, 2 de marzo de 2026"),
    ("en_US", "%A, %B %d, %Y", "2026-03-02", ["Monday, March 2, 2026"], "Monday, March 3, 2026"),
    ("en_GB", "%A %d %B %Y", "2029-04-13", ["FRIDAY 13 APRIL 2029"], "FRIDAY 13 APRIL 2028"),
    ("tr_TR", "%d %B %Y", "2026-11-15", ["15 KASIM 2026", "15 kasim 2026", f"15 Kas{DOTLESS}m 2026", "15 KASİM 2026"], "15 XYZ 2026"),
    ("tr_TR", "%d %b %Y", "2026-11-15", ["15 KAS 2026", "15 kas 2026"], "15 KASX 2026"),
    ("tr_TR", "%A %d.%m.%Y", "2026-11-16", ["PAZARTESİ 16.11.2026", "PAZARTESI 16.11.2026", "pazartesi\u0307 16.11.2026"], "SALI 16.11.2026"),
    ("tr_TR", "%A %d.%m.%Y", "2026-11-17", ["SALI 17.11.2026", f"Sal{DOTLESS} 17.11.2026"], "PAZARTESİ 17.11.2026"),
    ("az_AZ", "%A, %d %B %Y", "2026-11-17", ["ÇƏRŞƏNBƏ AXŞAMI, 17 NOYABR 2026"], "17 NOYABR 2026"),
    ("az_AZ", "%d %B %Y", "2026-06-15", ["15 İYUN 2026", "15 IYUN 2026"], "15 JUNI 2026"),
    ("el_GR", "%d %B %Y", "2026-05-15", ["15 Μαΐου 2026"], "15 XYZ 2026"),
]  # fmt: skip


@pytest.mark.parametrize(("locale", "format_", "day", "cells", "wrong"), NAMED_DAYS)
def test_names_of_months_and_days_are_read_as_the_language_writes_them(locale, format_, day, cells, wrong):
    read = converter("date", locale=locale, dates=[format_])
    assert [shown(read(cell))[:10] for cell in cells] == [day] * len(cells)
    assert shown(read(wrong)) == "C304"


def test_a_wrong_yes_or_no_is_told_one_word_for_each_in_the_language_of_the_sheet():
    for settings, hint in (
        ({"locale": "en_GB"}, "write yes or no"),
        ({}, "write ja or nein"),
        ({"yes": ["X", "1"], "no": ["-", "0"]}, "write X or -"),
        ({"locale": "es_ES", "yes": "X"}, "write X or no"),
    ):
        assert hints("yesno", ["maybe"], **settings) == {"maybe": ("C310", hint)}


@pytest.mark.parametrize(
    ("locale", "cell"), [("fr_FR", "1.000"), ("de_CH", "1,000"), ("de_DE", "1,000"), ("en_GB", "1.000")]
)
def test_what_is_proposed_for_an_ambiguous_whole_number_is_not_ambiguous(locale, cell):
    assert hints("integer", [cell], locale=locale) == {cell: ("C316", "write 1000 or 1")}
    assert converter("integer", locale=locale)("1000") == 1000


def test_the_hint_for_a_wrong_weekday_says_so():
    said = hints("date", ["Di, 02.03.2026", "Mo, 31.02.2026"], dates=["%a, %d.%m.%Y"])
    wrong = "2026-03-02 is another day of the week; correct the day or the date"
    assert [hint for _, hint in said.values()] == [wrong, ""]


@pytest.mark.parametrize(
    ("locale", "format_", "expected"),
    [
        ("de_DE", "%a, %d. %b %Y", "Di, 31. März 2026"),
        ("fr_FR", "%A %d %B %Y", "mardi 31 mars 2026"),
        ("en_US", "%A, %B %d, %Y", "Tuesday, March 31, 2026"),
    ],
)
def test_an_expected_date_is_shown_in_the_language_of_the_file_and_read(locale, format_, expected):
    convert = converter("date", locale=locale, dates=[format_])
    shown_as = convert("x").values["expected"]
    assert shown_as.replace(".,", ",") == expected
    assert convert(shown_as).day == 31


NAMES = {  # other spellings, other and former names
    "CI": ["Côte d'Ivoire", "Côte d\u2019Ivoire", "Cote d`Ivoire", "COTE D'IVOIRE", "Ivory Coast", "Costa de Marfil"],
    "CD": ["Congo, DRC", "DRC", "Congo, Democratic Republic of the", "Democratic Republic of the Congo"],
    "CG": ["Congo, Republic of the", "Congo (Brazzaville)"],
    "KR": ["South Korea", "Republic of Korea", "Korea, Republic of", "Korea, South"],
    "GB": ["Great Britain", "Great-Britain", "Britain", "United Kingdom of Great Britain and Northern Ireland", "U.K."],
    "US": ["USA", "U.S.A.", "United States of America", "The United States"],
    "NL": ["Holland", "The Netherlands", "Netherlands, The"], "GM": ["Gambia", "The Gambia", "Gambia, The"],
    "BS": ["Bahamas", "Bahamas, The"], "TR": ["Turkey", "Türkiye", "Turkiye"], "BO": ["Bolivia", "Bolivia, Plurinational State of"],
    "VE": ["Venezuela", "Venezuela, Bolivarian Republic of"], "IR": ["Iran", "Iran, Islamic Republic of"], "BN": ["Brunei", "Brunei Darussalam"],
    "FM": ["Micronesia", "Micronesia, Federated States of"], "PS": ["Palestine", "Palestine, State of"], "XK": ["Kosovo"],
    "TZ": ["Tanzania", "Tanzania, United Republic of"], "SY": ["Syria", "Syrian Arab Republic"], "LA": ["Laos", "Lao PDR"],
    "MD": ["Moldova", "Moldova, Republic of"], "VN": ["Viet Nam", "Vietnam"], "RU": ["Russia", "Russian Federation"], "SZ": ["Swaziland", "Eswatini"],
    "CZ": ["Czech Republic", "Czechia"], "MK": ["Macedonia", "North Macedonia"], "MM": ["Burma", "Myanmar"], "AE": ["UAE", "U.A.E."],
    "CV": ["Cape Verde", "Cabo Verde"], "TL": ["East Timor", "Timor-Leste"], "VA": ["Vatican", "Vatican City", "Holy See"],
    "BA": ["Bosnia and Herzegovina", "Bosnia & Herzegovina", "Bosnia-Herzegovina"], "LC": ["St. Lucia", "Saint Lucia", "St Lucia"],
    "ST": ["Sao Tome and Principe"], "TT": ["Trinidad and Tobago"], "HK": ["Hong Kong"], "TW": ["Taiwan"], "RE": ["Reunion"], "CW": ["Curacao"],
    "AT": ["Oesterreich"], "SA": ["Arabia Saudita"], "DO": ["Rep. Dominicana"],
}  # fmt: skip


def test_other_and_former_names_of_countries_are_known():
    english, german = converter("country", locale="en_GB"), converter("country", locale="de_DE")
    for country, names in NAMES.items():
        assert {shown(english(name)) for name in names} == {shown(german(name.upper())) for name in names} == {country}


# ---- code tables ----


@pytest.mark.parametrize(
    ("keys", "cells"),
    [
        ({"value": "name"}, {"01": "Box", "EUP": "Pallet", "eup": "C306", "EUX": "C306"}),
        ({"value": ["name", "colour"]}, {"EUP": ("Pallet", None), "01": ("Box", "red")}),
        ({"value": "name", "ignore_case": True}, {"eup": "Pallet"}),
        ({"value": "name", "missing": "keep"}, {"EUX": "EUX"}),
        ({"value": "name", "missing": "blank"}, {"EUX": None}),
    ],
)
def test_m28_a_code_table_gives_one_value_or_named_ones_and_a_code_that_it_lacks_follows_the_rule(
    tmp_path, keys, cells
):
    (tmp_path / "codes.csv").write_text("code;name;colour\nEUP;Pallet;\n 01 ;Box;red\n", encoding="utf-8-sig")
    file = YamlFile(tmp_path / "m.yaml")
    spec = LookupSpec.model_validate({"file": "codes.csv", "key": "code", **keys})
    convert = converter("text", lookup="codes", lookups={"codes": read_lookup(spec, file, ("lookups", "codes"))})
    assert file.findings == {}
    assert {cell: shown(convert(cell)) for cell in cells} == cells
    if cells.get("EUX") == "C306":
        wrong = convert("EUX")
        assert (wrong.hint, wrong.values["expected"]) == ("did you mean EUP?", "EUP, 01")


# ---- formats of dates ----

FORMATS_SAID = [  # the type of a column, its formats, and what is said of them
    ("datetime", ["%d/%m/%Y", "%m/%d/%Y"], "%d/%m/%Y and %m/%d/%Y read 04/05/2003 as different dates"),
    ("date", ["%a, %d/%m/%Y", "%a, %m/%d/%Y"], "read Sat, 04/05/2003 as different dates"),
    ("date", ["dddd, d. mmmm yyyy"], "write %A, %d. %B %Y"),
    ("datetime", ["%d.%m.%y", "%Y-%m-%d", "%y.%m.%d"], "read 03.04.05 as different dates"),
    ("datetime", ["%Y-%m-%dT%H:%M:%SZ", "%Y-%m-%dT%H:%M:%S%z"], "is plain text, but times are those of Europe/Berlin; write %z instead of Z"),
    ("datetime", ["%d.%m.%Y %H:%M UTC"], "write %z instead of UTC"),
    ("datetime", ["%d.%m.%Y %I:%M %p GMT"], "write %z instead of GMT"),
    ("datetime", ["%d.%m.%Y %H:%M Zulu", "%d.%m.%YZ"], ""),
    ("datetime", ["%d.%m.%Y %H:%M", "%d.%m.%Y", "%d.%m.%y", "%Y-%m-%d", "%Y%m%d", "%d %b %Y", "%d/%m/%Y"], ""),
    ("datetime", ["%Y-%m-%d %H:%M", "%Y-%m-%d %H:%M%z"], ""),
    ("datetime", ["%Y-%m-%d %H:%M%z", "%Y-%m-%d %H:%M"], ""),
    ("datetime", ["%d.%m. %H:%M"], "%d.%m. %H:%M has no year (%Y)"),
    ("datetime", ["%m/%Y"], "%m/%Y has no day (%d)"),
    ("date", ["%H:%M"], "%H:%M has no year (%Y) and no month (%m) and no day (%d)"),
    ("date", [""], "an empty format has no directive: write for example %d.%m.%Y %H:%M"),
    ("date", ["tomorrow"], "has no directive"),
    ("date", ["100%%"], "has no directive: write for example"),
    ("datetime", ["dd.mm.yyyy hh:mm"], "dd.mm.yyyy hh:mm has no directive: write %d.%m.%Y %H:%M"),
    ("datetime", ["TT.MM.JJJJ hh:mm:ss"], "write %d.%m.%Y %H:%M:%S"),
    ("datetime", ["yyyy-MM-ddTHH:mm"], "write %Y-%m-%dT%H:%M"),
    ("date", ["d-mmm-yy"], "write %d-%b-%y"),
    ("datetime", ["%d.%m.%Y %I:%M"], "%I without %p"),
    ("datetime", ["%d.%m.%Y %H:%M %p"], "%p without %I"),
    ("time", ["%I:%M"], "%I without %p"),
    ("time", ["%M"], "%M has no hour (%H)"),
    ("time", ["%H:%M"], ""),
    ("time", ["%I:%M %p"], ""),
    ("date", ["%d %B %y"], ""),
    ("date", ["%Q"], "%Q is not supported"),
    ("datetime", ["%s", "%s%f", "%d.%m.%Y"], ""),
    ("datetime", ["%d.%m.%Y %s"], "%s, which is a whole moment, and other parts of one"),
    ("time", ["%s"], "%s has no hour (%H)"),
    ("date", ["%d.%m.%Y", "%E"], ""),
    ("datetime", ["%E %H:%M"], "%E, which is a whole moment, and other parts of one"),
    ("datetime", ["%E%f"], "%E, which is a whole moment, and other parts of one"),
    ("time", ["%E"], "%E has no hour (%H)"),
]  # fmt: skip


@pytest.mark.parametrize(("type_", "formats", "said"), FORMATS_SAID)
def test_m16_formats_say_the_whole_day_or_hour_and_read_each_text_as_one_moment(type_, formats, said):
    _, found = planned(type_, locale="en_GB", dates=(), formats=formats)
    assert bool(found) == bool(said)
    assert said in found


def test_m16_what_is_expected_of_a_time_is_shown_with_its_offset_or_zone():
    wrong = converter("datetime", dates=("%Y-%m-%d %H:%M", "%Y-%m-%d %H:%M%z"))("31.3.2026")
    assert wrong.values == {"expected": "2026-03-31 14:05 or 2026-03-31 14:05+0200"}
    assert converter("datetime")("29.03.2026 02:30").values == {"timezone": "Europe/Berlin"}


@pytest.mark.parametrize("format_", ["%Y-%m-%d %H:%M:%S %z", "%Y-%m-%dT%H:%M%z", "%s", "%d.%m.%Y %H:%M"])
def test_the_example_that_senders_see_is_read(format_):
    plan, _ = planned("datetime", dates=(format_,))
    example = described(plan, "en").partition(", such as ")[2]
    assert isinstance(plan.convert(example), datetime)


@given(
    st.datetimes(datetime(1970, 1, 1), datetime(2037, 12, 31)),
    st.sampled_from(["%d.%m.%Y %H:%M:%S", "%Y-%m-%d %H:%M:%S", "%m/%d/%Y %I:%M:%S %p", "%d %b %Y %H:%M:%S"]),
)
def test_m16_what_a_format_writes_is_read_back(moment, format_):
    moment = moment.replace(microsecond=0)
    convert = converter("datetime", dates=(format_,), zone=ZoneInfo("UTC"))
    assert convert(moment.strftime(format_)) == moment.replace(tzinfo=UTC)


ZONES = ["Europe/Berlin", "America/New_York", "America/Sao_Paulo", "Australia/Lord_Howe", "Asia/Kolkata", "Africa/Casablanca", "America/Santiago"]  # fmt: skip


@pytest.mark.parametrize("zone", ZONES)
def test_m17_every_change_of_the_clocks_is_seen(zone):
    """Half-hour by half-hour through two years: a local time is taken, or refused as repeated; a shown one is never skipped."""
    place = ZoneInfo(zone)
    convert = converter("datetime", dates=("%Y-%m-%d %H:%M",), zone=place)
    instant, last, seen = datetime(2024, 1, 1, tzinfo=UTC), datetime(2026, 1, 1, tzinfo=UTC), set()
    while instant < last:
        local = instant.astimezone(place)
        before = (instant - timedelta(hours=3)).astimezone(place).utcoffset()
        after = (instant + timedelta(hours=3)).astimezone(place).utcoffset()
        if before != after:
            found = convert(f"{local:%Y-%m-%d %H:%M}")
            seen.add("taken" if isinstance(found, datetime) else found.code)
        instant += timedelta(minutes=30)
    assert seen == (set() if zone in {"America/Sao_Paulo", "Asia/Kolkata"} else {"taken", "C315"})


REFUSING = {"C302", "C303", "C304", "C307", "C308", "C309", "C310", "C311", "C314", "C315", "C316"}


@given(st.text(max_size=40), st.sampled_from(get_args(ColumnType)))
def test_no_text_breaks_a_converter(text, type_):
    value = converter(type_, **({"unit": "kg"} if type_ == "quantity" else {}))(text)
    assert value is None or isinstance(value, CellProblem | str | Decimal | datetime | timedelta | bool)
    assert not isinstance(value, CellProblem) or value.code in REFUSING


# ---- `convert: NAME`: functions of other packages, found by their entry points ----

ITEMS = """\
mapping: items
version: 1
target: order.update
source: {{files: ["*.csv"]}}
columns:
  id:   {{label: ID, required: true, key: true}}
  item: {{label: Item, convert: {name}, required: true}}
payload: {{order_id: {{col: id}}, sender_id: {{value: S}}, receiver_id: {{value: R}}, pickup_company: {{col: item}}}}
"""


def items(folder, name, cells=()):
    """The path of a mapping with this converter, and what it makes of these cells."""
    path = folder / "items.yaml"
    path.write_text(ITEMS.format(name=name), encoding="utf-8")
    lines = [f"{number},{cell}" for number, cell in enumerate(cells)]
    (folder / "one.csv").write_text("\n".join(["ID,Item", *lines, ""]), encoding="utf-8")
    return path, loadsheet.translate(folder / "one.csv", path, now=NOW) if cells else None


def test_a_value_that_a_converter_refuses_or_fails_on_is_a_problem_of_its_cell_with_its_message(tmp_path):
    _, found = items(tmp_path, "gtin", ["4006381333931", "4006381333932", "17", ""])
    assert [document.usable for document in found] == [True, False, False, False]
    assert found.documents[0].record["pickup_company"] == "04006381333931"
    assert [(problem.code, problem.hint) for problem in found.problems] == [
        ("C313", "its last digit does not agree with the others: a digit is wrong"),
        ("C313", "a GTIN has 8 to 14 digits"),
        ("C301", ""),
    ]
    fault, blank = items(tmp_path, "swapped", ["x", "-"])[1].problems
    assert (fault.code, fault.hint) == ("C313", "the converter swapped fails on it (InvalidOperation)")
    assert blank.code == "C301"


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("gtn", 'no converter "gtn" is installed (did you mean gtin?)'),
        ("gone", "the converter gone cannot be loaded: module 'example_converters' has no attribute 'gone'"),
    ],
)
def test_a_converter_that_is_not_there_is_found_when_the_mapping_loads(tmp_path, name, text):
    (found,) = lint(items(tmp_path, name)[0], ASSUMED)
    assert (found.line, str(found).split(": ", 1)[1]) == (7, text)


def test_another_version_of_a_converter_is_another_mapping(tmp_path, monkeypatch):
    path, _ = items(tmp_path, "gtin")
    before = load(path, ASSUMED).hash
    assert load(path, ASSUMED).hash == before
    assert conversion.converter("gtin").version == "example-converters 1.0"
    monkeypatch.setattr("loadsheet.mapping.converters._version", lambda _entry: "example-converters 1.1")
    assert load(path, ASSUMED).hash != before

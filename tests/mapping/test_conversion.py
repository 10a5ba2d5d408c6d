"""Cells to values: what each column type accepts, what it refuses and what it says."""

import time
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import get_args
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loadsheet.mapping.conversion import Conventions, plan_column
from loadsheet.mapping.lookups import read_lookup
from loadsheet.mapping.plans import CellProblem, ValueWithWarning
from loadsheet.mapping.schema import Column, ColumnType, LookupSpec
from loadsheet.mapping.yamlfile import YamlFile
from loadsheet.reading.tables import Native

BERLIN = ZoneInfo("Europe/Berlin")
FORMATS = ("%d.%m.%Y %H:%M", "%d.%m.%Y")


def converter(type_, *, locale="de_DE", dates=FORMATS, zone=BERLIN, fold="error", units=None, lookups=None, **keys):
    """The compiled converter of one column; fails the test if its settings are refused."""
    file = YamlFile(Path("m.yaml"), {"lookups": lookups or {}})
    conventions = Conventions(locale, tuple(dates), zone, fold=fold, units=units or {}, lookups=lookups or {})
    spec = Column.model_validate({"type": type_, **keys})
    plan = plan_column(spec, 0, conventions, file, ("c",))
    assert file.findings == []
    return plan.convert


def code(value):
    return value.code if isinstance(value, CellProblem) else value


# ---- blanks, texts and typed cells ----


@pytest.mark.parametrize("blank", ["", "  ", "\t", "\N{NO-BREAK SPACE}", "\N{ZERO WIDTH SPACE}", "\N{EM SPACE}\r\n"])
def test_blank_cells_are_none_the_default_or_a_missing_value(blank):
    assert converter("text")(blank) is None
    assert converter("integer", default=1)(blank) == 1
    assert code(converter("text", required=True)(blank)) == "C301"


def test_null_tokens_are_blank_only_where_the_mapping_says_so():
    assert converter("text")("NA") == "NA"  # Namibia
    assert converter("text", blank=["NA", "-"])(" NA ") is None


def test_m11_identifiers_are_texts_with_their_zeros():
    convert = converter("text", required=True)
    cells = ("00123", " 123", "abc", "ABC", "\N{NO-BREAK SPACE} Ko\N{COMBINING DIAERESIS}ln \t")
    assert [convert(cell) for cell in cells] == ["00123", "123", "abc", "ABC", "Köln"]


def test_a_typed_cell_is_read_as_its_sender_sees_it():
    assert converter("text")(Native("1067", "number", "01067")) == "01067"
    assert converter("decimal")(Native("1.234", "number")) == Decimal("1.234")  # a number is exact in any locale
    assert converter("decimal")("1.234") == Decimal(1234)
    assert converter("datetime", dates=())(Native("2026-03-01 08:00:00", "datetime")) == datetime(
        2026, 3, 1, 8, tzinfo=BERLIN
    )
    assert converter("date")(Native("2026-03-01", "date")) == datetime(2026, 3, 1, tzinfo=BERLIN)
    assert converter("time")(Native("08:30:00", "time")) == timedelta(hours=8, minutes=30)
    assert converter("yesno")(Native("true", "flag")) is True


@pytest.mark.parametrize(
    ("type_", "cell", "expected"),
    [
        ("text", Native("#N/A", "error"), "R207"),
        ("decimal", Native("#DIV/0!", "error"), "R207"),
        ("text", Native("", "formula"), "R208"),
        ("decimal", Native("2026-03-01", "date"), "C302"),
        ("datetime", Native("45000", "number"), "C304"),
        ("date", Native("2026-03-01 08:00:00", "datetime"), "C304"),
        ("time", Native("2026-03-01", "date"), "C304"),
        ("decimal", Native("true", "flag"), "C302"),
    ],
)
def test_a_typed_cell_of_another_kind_is_refused(type_, cell, expected):
    keys = {"unit": "kg"} if type_ == "quantity" else {}
    assert code(converter(type_, **keys)(cell)) == expected


def test_lengths_are_checked_and_never_cut_in_silence():  # M22
    assert code(converter("text", max_length=5)("123456")) == "C312"
    assert converter("text", max_length=5)("12345") == "12345"
    assert converter("text", max_length=5)("\N{GRINNING FACE}" * 5) == "\N{GRINNING FACE}" * 5
    cut = converter("text", max_length=5, on_too_long="cut_and_warn")("123456")
    assert isinstance(cut, ValueWithWarning)
    assert (cut.value, cut.warning.code, cut.warning.level) == ("12345", "C312", "warning")
    assert code(converter("text", min_length=3)("ab")) == "C305"


def test_padding_restores_lost_zeros():
    assert converter("text", pad_left={"to": 5, "with": "0"})("1067") == "01067"
    assert converter("text", pad_left={"to": 5, "with": "0"})("101067") == "101067"


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


# ---- code lists ----


def test_m21_codes_are_known_or_refused_with_a_proposal():
    convert = converter("text", one_of={"Road": "ROAD", "Air": "AIR"})
    assert convert("Road") == "ROAD"
    wrong = convert("Raod")
    assert (wrong.code, wrong.hint) == ("C306", "did you mean Road?")
    assert code(convert("ROAD")) == "C306"
    assert converter("text", one_of={"Road": "ROAD"}, ignore_case=True)("ROAD") == "ROAD"
    assert converter("text", one_of=["A", "B"])("B") == "B"


CARRIERS = ["V444_0", "V44_30", "Hansa", "Hanse", "Nordlink", "AB"]


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("V44_3", ""),  # another carrier, though it is one digit away
        ("V445_0", ""),
        ("v444-0", "did you mean V444_0?"),
        ("Nordlnik", "did you mean Nordlink?"),
        ("Nordink", "did you mean Nordlink?"),
        ("Norlnik", ""),  # two errors
        ("Hans", ""),  # either of two
        ("AC", ""),
    ],
)
def test_a_code_is_proposed_only_within_one_typing_error_and_where_digits_agree(text, hint):
    assert converter("text", one_of=CARRIERS)(text).hint == hint
    assert converter("text", one_of={word: word for word in CARRIERS})(text).hint == hint


@pytest.fixture
def lookup(tmp_path):
    (tmp_path / "codes.csv").write_text("code;name;colour\nEUP;Pallet;\n 01 ;Box;red\n", encoding="utf-8-sig")

    def read(**keys):
        spec = LookupSpec.model_validate({"file": "codes.csv", "key": "code", **keys})
        file = YamlFile(tmp_path / "m.yaml")
        found = read_lookup(spec, file, ("lookups", "codes"))
        assert file.findings == []
        return {"codes": found}

    return read


def test_m28_a_code_table_gives_one_value_or_named_ones(lookup):
    assert converter("text", lookup="codes", lookups=lookup(value="name"))("01") == "Box"
    assert converter("text", lookup="codes", lookups=lookup(value=["name", "colour"]))("EUP") == ("Pallet", None)
    assert converter("text", lookup="codes", lookups=lookup(value="name", ignore_case=True))("eup") == "Pallet"


def test_m28_a_code_that_the_table_lacks_follows_the_rule(lookup):
    wrong = converter("text", lookup="codes", lookups=lookup(value="name"))("EUX")
    assert (wrong.code, wrong.hint, wrong.values["expected"]) == ("C306", "did you mean EUP?", "EUP, 01")
    assert converter("text", lookup="codes", lookups=lookup(value="name", missing="keep"))("EUX") == "EUX"
    assert converter("text", lookup="codes", lookups=lookup(value="name", missing="blank"))("EUX") is None


def test_codes_that_differ_by_case_alone_and_mean_the_same_are_one():
    assert converter("text", one_of={"p": "PAL", "P": "PAL"}, ignore_case=True)("p") == "PAL"
    assert converter("text", one_of={"p": "PAL", "P": "PKG"})("P") == "PKG"


# ---- dates and times ----


@pytest.mark.parametrize(
    ("text", "dates", "expected"),
    [  # M16
        ("03.04.2026 08:15", FORMATS, datetime(2026, 4, 3, 8, 15)),
        ("3.4.2026", FORMATS, datetime(2026, 4, 3)),
        ("03/04/2026", ("%m/%d/%Y",), datetime(2026, 3, 4)),
        ("03/04/2026", ("%d/%m/%Y",), datetime(2026, 4, 3)),
        ("2026-05-28", ("%Y-%m-%d",), datetime(2026, 5, 28)),
        ("02-Jun-06", ("%d-%b-%y",), datetime(2006, 6, 2)),
        ("02-Jun-69", ("%d-%b-%y",), datetime(1969, 6, 2)),
        ("2. Juni 2026", ("%d. %B %Y",), datetime(2026, 6, 2)),
        ("12/31/2026 12:05 AM", ("%m/%d/%Y %I:%M %p",), datetime(2026, 12, 31, 0, 5)),
        ("12/31/2026 12:05 pm", ("%m/%d/%Y %I:%M %p",), datetime(2026, 12, 31, 12, 5)),
        ("20260301T080000", ("%Y%m%dT%H%M%S",), datetime(2026, 3, 1, 8)),
        ("2026-03-01 08:00:00.5", ("%Y-%m-%d %H:%M:%S.%f",), datetime(2026, 3, 1, 8, 0, 0, 500000)),
        ("31.02.2026", FORMATS, None),
        ("31.13.2026", FORMATS, None),
        ("2026-04-03", FORMATS, None),
        ("tomorrow", FORMATS, None),
        ("1700", FORMATS, None),
        ("03.04.2026 25:00", FORMATS, None),
        ("03.04.2026 08:15 ", FORMATS, datetime(2026, 4, 3, 8, 15)),
        ("03.04.2026x", FORMATS, None),
        ("2026-04-03", (), None),
    ],
)
def test_m16_dates_are_read_by_declared_formats_only(text, dates, expected):
    value = converter("datetime", dates=dates)(text)
    if expected is None:
        assert code(value) == "C304"
    else:
        assert value == expected.replace(tzinfo=BERLIN)


@pytest.mark.parametrize(
    ("dates", "said"),
    [
        (["%d/%m/%Y", "%m/%d/%Y"], "%d/%m/%Y and %m/%d/%Y read 04/05/2003 as different dates"),
        (["%d.%m.%y", "%Y-%m-%d", "%y.%m.%d"], "read 03.04.05 as different dates"),
        (
            ["%Y-%m-%dT%H:%M:%SZ", "%Y-%m-%dT%H:%M:%S%z"],
            "is plain text, but times are those of Europe/Berlin; write %z instead of Z",
        ),
        (["%d.%m.%Y %H:%M UTC"], "write %z instead of UTC"),
        (["%d.%m.%Y %I:%M %p GMT"], "write %z instead of GMT"),
        (["%d.%m.%Y %H:%M Zulu", "%d.%m.%YZ"], ""),
        (["%d.%m.%Y %H:%M", "%d.%m.%Y", "%d.%m.%y", "%Y-%m-%d", "%Y%m%d", "%d %b %Y", "%d/%m/%Y"], ""),
        (["%Y-%m-%d %H:%M", "%Y-%m-%d %H:%M%z"], ""),
        (["%Y-%m-%d %H:%M%z", "%Y-%m-%d %H:%M"], ""),
    ],
)
def test_m16_formats_that_read_one_text_as_two_dates_are_refused(dates, said):
    found = refusal("datetime", dates=dates)
    assert bool(found) == bool(said)
    assert said in found


@pytest.mark.parametrize("word", ["Z", " UTC", " gmt", "+0000", "-00:00"])
def test_what_names_utc_behind_a_time_is_read_as_an_offset(word):
    convert = converter("datetime", dates=["%d.%m.%Y %H:%M%z", "%d.%m.%Y %H:%M %z"])
    assert convert(f"01.07.2026 08:00{word}") == datetime(2026, 7, 1, 8, tzinfo=UTC)


def test_letters_that_name_utc_are_fine_where_times_are_of_utc():
    convert = converter("datetime", dates=["%d.%m.%Y %H:%MZ"], zone=ZoneInfo("UTC"))
    assert convert("01.07.2026 08:00Z") == datetime(2026, 7, 1, 8, tzinfo=UTC)


def refusal(type_, *, dates=(), **keys):
    """What is said of the settings of a column, or an empty text."""
    file = YamlFile(Path("m.yaml"), {})
    conventions = Conventions("en_GB", tuple(dates), BERLIN)
    plan_column(Column.model_validate({"type": type_, **keys}), 0, conventions, file, ("columns", "c"))
    return "; ".join(str(finding) for finding in file.findings)


@pytest.mark.parametrize(
    ("type_", "format_", "said"),
    [  # M16
        ("datetime", "%d.%m. %H:%M", "%d.%m. %H:%M has no year (%Y)"),
        ("datetime", "%m/%Y", "%m/%Y has no day (%d)"),
        ("date", "%H:%M", "%H:%M has no year (%Y) and no month (%m) and no day (%d)"),
        ("date", "", "an empty format has no directive: write for example %d.%m.%Y %H:%M"),
        ("date", "tomorrow", "has no directive"),
        ("date", "100%%", "has no directive: write for example"),
        ("datetime", "dd.mm.yyyy hh:mm", "dd.mm.yyyy hh:mm has no directive: write %d.%m.%Y %H:%M"),
        ("datetime", "TT.MM.JJJJ hh:mm:ss", "write %d.%m.%Y %H:%M:%S"),
        ("datetime", "yyyy-MM-ddTHH:mm", "write %Y-%m-%dT%H:%M"),
        ("date", "d-mmm-yy", "write %d-%b-%y"),
        ("datetime", "%d.%m.%Y %I:%M", "%I without %p"),
        ("datetime", "%d.%m.%Y %H:%M %p", "%p without %I"),
        ("time", "%I:%M", "%I without %p"),
        ("time", "%M", "%M has no hour (%H)"),
        ("time", "%H:%M", ""),
        ("time", "%I:%M %p", ""),
        ("date", "%d %B %y", ""),
        ("date", "%Q", "%Q is not supported"),
    ],
)
def test_m16_a_format_has_to_say_the_whole_day_or_hour(type_, format_, said):
    found = refusal(type_, formats=[format_])
    assert bool(found) == bool(said)
    assert said in found


def test_m16_an_expected_offset_is_shown():
    wrong = converter("datetime", dates=("%Y-%m-%d %H:%M", "%Y-%m-%d %H:%M%z"))("31.3.2026")
    assert wrong.values == {"expected": "2026-03-31 14:05 or 2026-03-31 14:05+0200"}


def test_an_offset_in_the_text_is_converted_and_not_dropped():
    convert = converter("datetime", dates=("%Y-%m-%dT%H:%M%z",))
    assert convert("2026-03-01T12:00Z").isoformat() == "2026-03-01T13:00:00+01:00"
    assert convert("2026-03-01T12:00+05:30").isoformat() == "2026-03-01T07:30:00+01:00"


@given(
    st.datetimes(datetime(1970, 1, 1), datetime(2037, 12, 31)),
    st.sampled_from(["%d.%m.%Y %H:%M:%S", "%Y-%m-%d %H:%M:%S", "%m/%d/%Y %I:%M:%S %p", "%d %b %Y %H:%M:%S"]),
)
def test_m16_what_a_format_writes_is_read_back(moment, format_):
    moment = moment.replace(microsecond=0)
    convert = converter("datetime", dates=(format_,), zone=ZoneInfo("UTC"))
    assert convert(moment.strftime(format_)) == moment.replace(tzinfo=UTC)


def test_m17_times_that_the_clocks_skip_are_refused():
    wrong = converter("datetime")("29.03.2026 02:30")
    assert (wrong.code, wrong.values) == ("C314", {"timezone": "Europe/Berlin"})
    assert code(converter("datetime")(Native("2026-03-29 02:30:00", "datetime"))) == "C314"


def test_m17_times_that_happen_twice_are_refused_unless_one_is_meant():
    assert code(converter("datetime")("25.10.2026 02:30")) == "C315"
    assert converter("datetime", fold="first")("25.10.2026 02:30").isoformat() == "2026-10-25T02:30:00+02:00"
    assert converter("datetime", fold="second")("25.10.2026 02:30").isoformat() == "2026-10-25T02:30:00+01:00"


ZONES = ["Europe/Berlin", "America/New_York", "America/Sao_Paulo", "Australia/Lord_Howe", "Asia/Kolkata", "Africa/Casablanca", "America/Santiago"]  # fmt: skip


@pytest.mark.parametrize("zone", ZONES)
def test_m17_every_change_of_the_clocks_is_seen(zone):
    """Half-hour by half-hour through two years: a local time is taken, refused as skipped or refused as repeated."""
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
    assert seen <= {"taken", "C315"}  # a time that a clock really shows is never one it skips
    if zone in {"Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "America/Santiago"}:
        assert seen == {"taken", "C315"}


def test_dates_and_times_of_day():
    assert converter("date")("01.03.2026") == datetime(2026, 3, 1, tzinfo=BERLIN)
    assert code(converter("date")("01.03.2026 08:00")) == "C304"
    assert converter("time")("08:30") == timedelta(hours=8, minutes=30)
    assert converter("time", formats=["%H.%M Uhr"])("8.05 Uhr") == timedelta(hours=8, minutes=5)
    assert code(converter("time")("25:00")) == "C304"


@pytest.mark.parametrize(
    ("cell", "value"),
    [
        ("'02108", "02108"),
        (" '+49 89 1234 ", "+49 89 1234"),
        ("'12-3456/7", "12-3456/7"),
        ("'26", "'26"),
        ("'s-Hertogenbosch", "'s-Hertogenbosch"),
        ("'90s chairs", "'90s chairs"),
        ("0'2108", "0'2108"),
    ],
)
def test_an_apostrophe_that_keeps_digits_as_text_is_removed(cell, value):
    assert converter("text")(cell) == value


# ---- words ----


@pytest.mark.parametrize(
    ("locale", "text", "expected"),
    [
        ("de_DE", "Deutschland", "DE"),
        ("de_DE", "germany", "DE"),
        ("de_DE", "de", "DE"),
        ("de_DE", "DEU", "DE"),
        ("de_DE", "D", "DE"),
        ("en_GB", "SLO", "SI"),
        ("de_DE", "d", "C308"),
        ("sv_SE", "Norge", "NO"),
        ("en_GB", "UK", "GB"),
        ("en_GB", "NA", "NA"),
        ("en_GB", "EU", "C308"),
        ("en_GB", "Europe", "C308"),
        ("en_GB", "001", "C308"),
        ("en_GB", "Deutschland", "C308"),
    ],
)
def test_countries_are_names_or_codes(locale, text, expected):
    assert code(converter("country", locale=locale)(text)) == expected


NAMES = {  # other spellings, other and former names
    "CI": ["Côte d'Ivoire", "Côte d\u2019Ivoire", "Cote d`Ivoire", "COTE D'IVOIRE", "Ivory Coast"],
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
}  # fmt: skip


@pytest.mark.parametrize(("text", "expected"), [(text, country) for country, texts in NAMES.items() for text in texts])
def test_other_and_former_names_of_countries_are_known(text, expected):
    assert converter("country", locale="en_GB")(text) == expected
    assert converter("country", locale="de_DE")(text.upper()) == expected


@pytest.mark.parametrize("text", ["Congo", "Korea", "England", "Guinea-Bissau Republic", "D.E.", "Atlantis"])
def test_what_may_be_another_country_is_not_guessed_and_never_proposed_as_itself(text):
    wrong = converter("country", locale="en_GB")(text)
    assert code(wrong) == "C308"
    assert text.casefold() not in wrong.hint.casefold().removeprefix("did you mean ").split("?")[:1]


@pytest.mark.parametrize(
    ("locale", "text", "hint"),
    [
        ("de_DE", "germny", "did you mean Germany?"),
        ("de_DE", "Deutschlnd", "did you mean Deutschland?"),
        ("en_GB", "England", "did you mean United Kingdom?"),
        ("de_DE", "Schottland", "did you mean Vereinigtes Königreich?"),
        ("en_GB", "America", "did you mean United States?"),
        ("en_GB", "Korea", "did you mean South Korea?"),
        ("en_GB", "Brasil", "did you mean Brazil?"),
        ("en_GB", "Nordland", ""),
        ("en_GB", "Deutchland", ""),
    ],
)
def test_of_a_country_only_the_one_that_is_meant_is_proposed(locale, text, hint):
    wrong = converter("country", locale=locale)(text)
    assert (wrong.code, wrong.hint) == ("C308", hint)
    assert converter("timezone")("Europe/Berlim").hint == "did you mean Europe/Berlin?"
    assert converter("currency")("EURX").hint == "did you mean EUR?"


def test_currencies_are_codes_names_and_signs_of_one_only():
    convert = converter("currency", locale="de_DE")
    assert [convert(word) for word in ("eur", "€", "Euro", "US-Dollar", "US Dollar", "zł", "Schweizer Franken")] == [
        *("EUR", "EUR", "EUR", "USD", "USD", "PLN", "CHF")
    ]
    assert {code(convert(word)) for word in ("$", "¥", "ft", "Franc", "Krone")} == {"C309"}


def test_currencies_time_zones_yes_and_no():
    assert converter("currency")("eur") == "EUR"
    assert code(converter("currency")("XQQ")) == "C309"
    assert converter("timezone")("europe/berlin") == "Europe/Berlin"
    assert code(converter("timezone")("Mars/Base")) == "C311"
    assert [converter("yesno")(text) for text in ("ja", "Nein", "YES", "0")] == [True, False, True, False]
    assert code(converter("yesno")("oui")) == "C310"
    assert converter("yesno", locale="fr_FR")("oui") is True
    assert converter("yesno", yes=["X"], no=["-"])("x") is True
    assert code(converter("yesno", yes=["X"], no=["-"])("ja")) == "C310"


@given(st.text(max_size=40), st.sampled_from(get_args(ColumnType)))
def test_no_text_breaks_a_converter(text, type_):
    keys = {"unit": "kg"} if type_ == "quantity" else {}
    value = converter(type_, **keys)(text)
    assert value is None or isinstance(value, CellProblem | str | Decimal | datetime | timedelta | bool)
    if isinstance(value, CellProblem):
        assert value.code in {"C302", "C303", "C304", "C307", "C308", "C309", "C310", "C311", "C314", "C315", "C316"}


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("B01", "BO1"),  # an O for a zero is an exception of the rule that digits agree
        ("X-7", "X-07"),
        ("X\N{EN DASH}07", "X-07"),
        ("x-08", ""),  # another digit is another code
        ("C5", ""),  # two look like it
    ],
)
def test_a_code_that_only_looks_like_one_of_the_list_is_proposed(typed, meant):
    convert = converter("text", one_of={"BO1": "a", "X-07": "b", "CS": "c", "\N{CYRILLIC CAPITAL LETTER ES}5": "d"})
    wrong = convert(typed)
    assert (wrong.code, wrong.hint) == ("C306", f"did you mean {meant}?" if meant else "")

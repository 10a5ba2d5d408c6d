"""Each catalogue has every text that a shipper can read, and no other; translations have the placeholders of the English text."""

import ast
import json
import re
import string
from decimal import Decimal
from functools import cache
from pathlib import Path

import pytest
from babel.messages.pofile import read_po
from fix_workbooks import House, write_fixes
from openpyxl import load_workbook

from loadsheet import languages
from loadsheet.languages import LANGUAGES, Sentences, known_language, words_in
from loadsheet.mapping import layouts
from loadsheet.mapping_tools import template, template_examples
from loadsheet.operations.notifications import mailings
from loadsheet.problems import CATALOGUE, Problem, Where
from loadsheet.reconcile import Verdict
from loadsheet.reports import results
from loadsheet.reports.fix_workbook import wording

PACKAGE = Path(languages.__file__).parent
SRC = PACKAGE.parent
TRANSLATED = LANGUAGES[1:]
SENDERS = [
    code
    for code in CATALOGUE
    if re.fullmatch(r"A1(?:0[1236]|1[126]|20)|[RCGK]\d+|L60[1-9]|L61[126-9]|L62[0-8]|X70[123]", code)
]
TABLES = [  # texts that are translated where they are used, not where they are written
    wording.PROBLEMS, wording.TODO, wording.SENTENCES, wording._OURS, wording.FOR_SENDERS, layouts.DESCRIBED, layouts.DETAILS,
    wording.ERROR_HEADS, wording.CHANGED_HEADS, wording.CHANGED, wording.STEPS, wording.ASIDE, wording.CHECKED,
    wording.CHANGED_INTRO, wording.FACTS, template._RULES, template._GUIDE_HEADS, template._GROUPED, template._NO_EXAMPLE, template._EXAMPLE_HEAD,
    template_examples._TRANSLATED,
    wording.RULES, results.LEADING, results.TRAILING, tuple(results.OUTCOMES), tuple(map(str, Verdict)),
    mailings._INTRO, mailings._OUTRO,
]  # fmt: skip


@cache
def catalogue(language):
    with (PACKAGE / f"{language}.po").open("rb") as file:
        return read_po(file, locale=language)


def entries(language):
    return [message for message in catalogue(language) if message.id]


def texts_of(value):
    return [value] if isinstance(value, str) else list(value) if isinstance(value, tuple) else list(value.values())


@cache
def used():
    """Every English text that the source has translated."""
    found = {wording.template_of(code) for code in SENDERS}
    found.update(*map(texts_of, TABLES))
    for path in SRC.rglob("*.py"):
        if "loadsheet.languages" in path.read_text(encoding="utf-8") or path.parent == PACKAGE:
            found.update(filter(None, map(translated_in, ast.walk(ast.parse(path.read_text(encoding="utf-8"))))))
    return found


def translated_in(node):
    """The text that a call of `say`, `raw` or `counted` has translated, or its singular and plural; None for anything else."""
    name = getattr(node.func, "attr", getattr(node.func, "id", "")) if isinstance(node, ast.Call) else ""
    count = {"say": 1, "raw": 1, "counted": 2}.get(name, 0)
    texts = tuple(arg.value for arg in node.args[:count] if isinstance(arg, ast.Constant)) if count else ()
    return (texts if count == 2 else texts[0]) if texts and all(isinstance(text, str) for text in texts) else None


def places(text):
    return {name for _, name, _, _ in string.Formatter().parse(text) if name is not None}


@pytest.mark.parametrize("language", TRANSLATED)
def test_a_catalogue_holds_exactly_what_the_source_uses(language):
    ids = {message.id for message in entries(language)}
    assert len(ids) > 300
    assert used() - ids == set(), "not translated"
    assert ids - used() == set(), "no longer used"
    assert [message.id for message in entries(language) if message.fuzzy] == []
    assert catalogue(language).obsolete == {}


@pytest.mark.parametrize("language", TRANSLATED)
def test_every_entry_is_translated_in_every_form_with_its_placeholders(language):
    for message in entries(language):
        forms = message.string if message.pluralizable else [message.string]
        assert all(form.strip() for form in forms), message.id
        if message.pluralizable:
            assert len(forms) == catalogue(language).num_plurals
            assert places(forms[1]) == places(message.id[1]), message.id
            assert places(forms[0]) | {"count"} == places(message.id[0]) | {"count"}, message.id
        else:
            assert places(message.string) == places(message.id), message.id


@pytest.mark.parametrize("language", TRANSLATED)
def test_texts_are_set_as_the_language_sets_them(language):
    for message in entries(language):
        for text in message.string if message.pluralizable else [message.string]:
            assert '"' not in text, text
            assert "'" not in text or language == "fr", text
            if language == "fr":
                assert not re.search(r"(?<![\u00a0 ])[;?!»](?!\S)|[^\u00a0 ]:(?= |$)|« | »| [;:?!]", text), text
            if language == "es":
                assert ("?" in text) == ("¿" in text), text
            assert ("„" in text) == ("“" in text) if language == "de" else "“" not in text, text


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_problem_says_what_to_do(language):
    codes = SENDERS
    at = Where("in.xlsx", "Blatt", 3, "Gewicht", "D3", "total_weight")
    for code in codes:
        values = dict.fromkeys(places(CATALOGUE[code].template) - {"found"}, "x")
        assert wording.word_problem(Problem(code, at, "?", values), words_in(language), {}).todo, code
    assert len(codes) > 40


@pytest.mark.parametrize("code", SENDERS)
def test_the_text_of_a_problem_uses_only_what_problems_of_its_code_have(code):
    known = places(CATALOGUE[code].template) | {"found", "column"} | ({"rows"} if code == "R225" else set())
    assert places(wording.template_of(code)) <= known
    assert places(wording.TODO.get(code, "")) <= known


def test_what_stands_for_a_sentence_has_only_its_placeholders():
    for sentence, instead in wording.FOR_SENDERS.items():
        assert places(instead) <= places(sentence)


def longest(sentence):
    """The longest piece of a sentence that no placeholder fills."""
    return max((literal.strip() for literal, *_ in string.Formatter().parse(sentence)), key=len)


OLD = {  # of ledgers that an older version wrote
    "{locale} writes {0}", "name it as one of the patterns", "(at most {count} digits after the decimal point)", "is invalid",
    '{0} is row {row} "{1}" and row {other} "{2}"',
}  # fmt: skip


def test_the_sentences_of_values_and_hints_are_written_by_the_source():
    """A sentence that no module writes any more would never be found."""
    rooms = ("reading", "mapping", "translation", "contract", "ledger", "dispatch")
    source = [*SRC.glob("*.py"), *(path for room in rooms for path in (SRC / room).rglob("*.py"))]
    nodes = [node for path in source for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))]
    joined = [
        [part.value if isinstance(part, ast.Constant) else "\0" for part in node.values]
        for node in nodes
        if isinstance(node, ast.JoinedStr)
    ]
    written = [node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)]
    found = " ".join([*written, *map("".join, joined)])
    sentences = {*wording.SENTENCES, *wording.FOR_SENDERS} - OLD
    pieces = {sentence: longest(sentence).removeprefix("must be ").removeprefix("otherwise ") for sentence in sentences}
    assert [sentence for sentence, piece in pieces.items() if piece not in found] == []


def test_the_sentence_with_the_most_fixed_letters_is_found():
    sentences = Sentences(["to {high}", "from {low}", "from {low} to {high}", "must be {0}", "must be a text"])
    assert sentences.find("from 1 to 9").named == {"low": "1", "high": "9"}
    assert sentences.find("must be a text").sentence == "must be a text"
    assert sentences.find("must be 1 or 2").numbered == ("1 or 2",)
    assert sentences.find("to send it again") is None


def test_the_language_of_a_locale_is_known_if_it_has_a_catalogue():
    languages_of = {"de_AT": "de", "FR": "fr", "es-MX": "es", "en": "en", "nl_NL": None, "": None}
    assert {locale: known_language(locale) for locale in languages_of} == languages_of


@pytest.mark.parametrize(
    ("language", "number", "day"),
    [
        ("en", "1,234", "2026-03-24"),
        ("de", "1.234", "24.03.2026"),
        ("fr", "1\u00a0234", "24/03/2026"),
        ("es", "1.234", "24/03/2026"),
    ],
)
def test_numbers_and_dates_are_written_as_in_the_language(language, number, day):
    words = words_in(language)
    assert (words.number(1234), words.day("2026-03-24"), words.day("03/2026")) == (number, day, "03/2026")
    assert [words.day(key) for key in ("2600100100", "20260324", "2026W11")] == ["2600100100", "20260324", "2026W11"]
    assert words.decimal(Decimal("1200.5")) == ("1200.5" if language == "en" else "1200,5")
    far = Problem("C318", values={"day": "2062-03-24", "bound": "after 2031-01-01"})
    assert words.day("2062-03-24") in wording.word_problem(far, words, {}).text


MAPPING = """
mapping: kinds
version: 1
target: order.update
source: {{files: ["*.csv"], locale: {locale}, timezone: Europe/Berlin, dates: ["%d.%m.%Y"]}}
columns:
  id:     {{label: XID, type: text, required: true, key: true}}
  zip:    {{label: XZIP, pattern: "(?P<xa>[0-9]{{5}})-(?P<xb>[0-9]+)"}}
  mode:   {{label: XMODE, one_of: [XROA, XSEA]}}
  land:   {{label: XLAND, type: country}}
  day:    {{label: XDAY, type: date}}
  weight: {{label: XKG, type: quantity, unit: kg, min: 0, max: 900}}
  count:  {{label: XNUM, type: integer, min: 1}}
  flag:   {{label: XFLAG, type: yesno}}
  town:   {{label: XTOWN, max_length: 5}}
payload: {{order_id: {{col: id}}, sender_id: {{value: S}}, receiver_id: {{value: R}}, total_weight: {{col: weight}}}}
checks:
  - {{id: heavy, rule: '(weight ?? 0) < 700', say: {says}}}
"""
ROWS = """\
XID;XZIP;XMODE;XLAND;XDAY;XKG;XNUM;XFLAG;XTOWN
A-1;4;XROB;Germny;99.99.2026;x;0;q;Xabcdefg
A-2;04109-1;XROA;DE;24.03.2026;1 stone;1,5;;
A-3;04109-1;XROA;DE;24.03.2026;2 lb;1;;
;04109-1;XROA;DE;24.03.2026;999999;1;;
A-4;04109-1;XROA
"""


@pytest.fixture
def taken_in(tmp_path):
    """A house after a run over a file of these lines, and what the run did."""

    def run(lines, locale, says="XHEAVY"):
        path = tmp_path / "kinds.yaml"
        path.write_text(MAPPING.format(locale=locale, says=json.dumps(says)), "utf-8")
        house = House(tmp_path / "house", path)
        (house.inbox / "a.csv").write_text(lines, encoding="utf-8")
        return house, house.night()

    return run


@pytest.mark.parametrize(
    ("says", "expected"),
    [
        ({"en": "too heavy", "de": "zu schwer", "fr": "trop lourd"}, {"en": "Too heavy", "de": "Zu schwer", "fr": "Trop lourd", "es": "Too heavy"}),
        ({"fr": "trop lourd", "de": "zu schwer"}, {"en": "Trop lourd", "de": "Zu schwer", "fr": "Trop lourd", "es": "Trop lourd"}),
        ("too heavy", dict.fromkeys(LANGUAGES, "Too heavy")),
    ],
)  # fmt: skip
def test_the_message_of_a_check_is_in_the_language_of_the_sheet_else_in_english_else_in_the_first(
    taken_in, says, expected
):
    house, taken = taken_in("XID;XKG\nA-1;800\n", "de_DE", says)
    with house.queries() as queries:
        (entry,) = queries.entries_of(taken.drops[0].id)
    (problem,) = entry.problems
    assert problem.text == (says if isinstance(says, str) else next(iter(says.values())))
    assert {one: wording.word_problem(problem, words_in(one), {}).text for one in LANGUAGES} == expected


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_fix_workbook_has_no_english_text_if_its_sheet_is_in_another_language(taken_in, tmp_path, language):
    house, taken = taken_in(ROWS, "en_GB" if language == "en" else f"{language}_{language.upper()}")
    assert taken.counts["invalid"] >= 3
    with house.queries() as queries:
        (name,) = write_fixes(queries, next(iter(queries.runs())), tmp_path, house.settings)
    texts = "\n".join(shown(load_workbook(tmp_path / name)))
    english = [message.id for message in entries("de") if isinstance(message.id, str)]
    words = words_in(language)
    pieces = {longest(text) for text in english if words.raw(text) != text}
    foreign = {piece for piece in pieces if len(piece) > 3 and re.search(rf"(?<!\w){re.escape(piece)}(?!\w)", texts)}
    assert foreign <= {piece for text in english for piece in re.findall(r"\w+", words.raw(text))}
    assert words.say("What to fix") in texts
    asked = (words.say("enter yes or no"), words.say("write {0} or {1}", "", "")[:6])
    assert any(text.casefold() in texts.casefold() for text in asked)


def shown(book):
    """All that a sender reads: cells, notes, titles of sheets and messages of cells."""
    for sheet in book:
        yield sheet.title
        for row in sheet.iter_rows():
            for cell in row:
                yield from (str(cell.value), *([cell.comment.text] if cell.comment else []))
        for rule in sheet.data_validations.dataValidation:
            yield rule.prompt or ""

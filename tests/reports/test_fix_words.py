"""Problems and hints in the words of the sender, in every language."""

import pytest

from loadsheet.languages import words_in
from loadsheet.ledger import ColumnGuide
from loadsheet.mapping.texts import describe_pattern
from loadsheet.problems import Problem, Where
from loadsheet.reports.fix_workbook.other_sheets import Errors
from loadsheet.reports.fix_workbook.wording import ProblemText, line_of, takes_of, word_problem

ENGLISH, GERMAN = words_in("en"), words_in("de")
AT = Where("in.xlsx", "Blatt", 3, "Gewicht", "D3", "total_weight")


def test_a_pattern_is_shown_by_its_parts_and_an_example():
    pattern = r"(?P<street>.+), (?P<zip>[0-9]{4} ?[A-Z]{2}) (?P<city>.+)"
    hint = describe_pattern(pattern, "Kade 8, 9711 LM Groningen")
    message = word_problem(Problem("C313", AT, "Kade 8", hint=hint), ENGLISH, {})
    assert message.text == '"Kade 8" is not in the expected form'
    assert message.todo == "Expected: street, zip, city; example: Kade 8, 9711 LM Groningen"
    assert describe_pattern(pattern) == "expected: street, zip, city"
    assert describe_pattern("[A-Z]{2}-[0-9]{3}") == "example: AB-123"


MISSING = Problem(
    "R204",
    Where("in.csv", row=1),
    "Order, Town",
    {"row": 1, "missing": "City"},
    "add the column City, or name its new heading under `aliases`; the row holds: Order, Town",
)
NOWHERE = Where("in.xlsx", "Blatt", 3, path="sender_id")
WORDED = [  # a problem, what is wrong, what to do, and the value that is suggested
    (
        Problem("C302", AT, "zwölf", {"locale": "de_DE"}, "write it like 1.234,5"),
        "„zwölf“ ist keine Zahl",
        *("Schreiben Sie die Zahl so: 1.234,5", ""),
    ),
    (
        Problem("C304", AT, "4/26", {"expected": "31.03.2026 14:05 or 31.03.2026"}),
        "„4/26“ ist weder ein gültiges Datum noch eine gültige Uhrzeit",
        *("Schreiben Sie den Wert so wie die anderen der Spalte", ""),
    ),
    (
        Problem("C305", AT, "45000", {"expected": "from 0.001 to 30000"}),
        "„45000“ ist nicht erlaubt; erwartet: von 0,001 bis 30000",
        *("Geben Sie einen passenden Wert ein: von 0,001 bis 30000", ""),
    ),
    (
        Problem("C310", AT, "maybe", hint="write ja or nein"),
        "„maybe“ ist weder Ja noch Nein",
        *("Schreiben Sie ja oder nein", ""),
    ),
    (
        Problem(
            "R225",
            AT,
            "2.3.26",
            {"styles": "real dates (9, rows 3, 4 and 7 more); D.M.YY (1, row 5)", "rows": "row 5"},
            "write all dates of a column in one style; day and month may have changed places in some rows",
        ),
        "Die meisten Datumsangaben der Spalte sind auf eine Weise geschrieben, diese auf eine andere: Zeile 5",
        "Schreiben Sie alle Datumsangaben einer Spalte einheitlich; in einigen Zeilen sind Tag und Monat möglicherweise vertauscht",
        "",
    ),
    (
        Problem("C306", AT, "EUX", {"expected": "EUP, KRT"}, "did you mean EUP?"),
        "„EUX“ steht nicht in der Liste: EUP, KRT",
        *("Meinten Sie EUP?", "EUP"),
    ),
    (
        Problem("X701", AT, "x", {"text": "total_weight: is invalid"}),
        "Von der Plattform abgelehnt: ist ungültig",
        *("Korrigieren Sie den Wert; ist er richtig, fragen Sie beim Betreiber der Plattform nach", ""),
    ),
    (
        Problem("K501", AT, "", {"path": "total_weight", "text": "is required"}),
        "Der Wert ist erforderlich",
        *("Korrigieren Sie ihn oder tragen Sie ihn ein", ""),
    ),
    (
        Problem("X701", NOWHERE, "", {"text": "sender_id: is invalid"}),
        "Von der Plattform abgelehnt: sender_id: is invalid",
        *("Dieser Wert steht nicht in Ihrer Datei: Wenden Sie sich an die Betreuer von loadsheet", ""),
    ),
    (
        Problem("G404", AT, "A-1", {"key": "A-1", "table": "orders"}),
        "A-1 hat hier eine Zeile, aber keine im Blatt Aufträge",
        *("Ergänzen Sie die Zeile dort oder korrigieren Sie Gewicht", ""),
    ),
    (
        MISSING,
        "Die Überschriften wurden nicht gefunden: Zeile 1 kommt ihnen am nächsten, dort fehlt aber City",
        "Ergänzen Sie die Spalte City und legen Sie die Datei noch einmal ab; in der Zeile steht: Order, Town",
        "",
    ),
    (
        Problem("C315", AT, "02:30", {"timezone": "Europe/Berlin"}, "the mapping can say which is meant: source.fold"),
        "„02:30“ gibt es in Europe/Berlin zweimal: Die Uhren wurden zurückgestellt",
        "Ist die Uhrzeit richtig, sagen Sie den Betreuern von loadsheet, ob die erste oder die zweite gemeint ist; andernfalls korrigieren Sie sie",
        "",
    ),
    (
        Problem("C306", AT, "x"),
        "„x“ steht nicht in der Liste: ",
        "Wählen Sie einen Wert aus der Liste",
        "",
    ),  # of an old ledger, which kept less
]


@pytest.mark.parametrize(("problem", "text", "todo", "suggestion"), WORDED)
def test_a_problem_is_worded_for_the_sender(problem, text, todo, suggestion):
    message = word_problem(problem, GERMAN, {"orders": "Aufträge"})
    assert (message.text, message.todo, message.suggestion) == (text, todo, suggestion)


def test_a_calculated_time_that_exists_twice_names_no_key_of_the_mapping():
    twice = "2026-10-25 02:30 occurs twice in this time zone: the clocks went back; set source.fold to first or second"
    text = word_problem(Problem("G407", AT, "", {"target": "start", "reason": twice}), ENGLISH, {}).text
    assert text.endswith(
        "2026-10-25 02:30 happens twice, because the clocks went back: tell the people who run loadsheet whether it is the first or the second one"
    )
    gap = "2026-03-29 02:30 does not exist in this time zone: the clocks went forward"
    text = word_problem(Problem("G407", AT, "", {"target": "start", "reason": gap}), GERMAN, {}).text
    assert text.endswith("2026-03-29 02:30 gibt es nicht: Die Uhren wurden vorgestellt")


def test_payload_fields_and_our_commands_are_not_for_senders():
    fields = Problem("K501", AT, "", {"path": "total_weight", "text": "is required"})
    assert word_problem(fields, ENGLISH, {}).text == "The value is required"
    of_old_ledger = {"key": "A-1", "fields": "x"}
    command = Problem("L601", AT, "", of_old_ledger, "to send it as an update: loadsheet retry A-1")
    assert word_problem(command, ENGLISH, {}).text == "The exchange already has A-1, with other values: x"
    assert word_problem(command, ENGLISH, {}).todo == (
        "If the new values are right, ask the people who run loadsheet to send them as a change; if not, restore the earlier ones"
    )


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("Is it a pallet?", "Is it a pallet? Check it"),
        ("Too late.", "Too late. Check it"),
        ("Wrong", "Wrong. Check it"),
    ],
)
def test_what_is_wrong_and_what_to_do_are_two_sentences(text, line):
    assert line_of(text, "Check it") == line


def test_the_guide_to_a_column_says_what_it_takes_where_the_problem_does_not():
    guide = ColumnGuide("a number, in kg, like the pattern [0-9]+, blank means 1")
    problem = Problem("C305", AT, "-1", {"expected": "from 0 to 9"})
    assert word_problem(problem, ENGLISH, {}, guide).todo == "Expected here: a number, in kg, blank means 1"
    assert word_problem(problem, ENGLISH, {}).todo == "Enter a valid value: from 0 to 9"
    slip = Problem("C305", AT, "0,00", {"expected": "more than 0"}, level="warning")
    assert word_problem(slip, GERMAN, {}, guide).todo == "Geben Sie einen passenden Wert ein: mehr als 0"
    long = Problem("C312", AT, "x" * 51, {"length": 51, "expected": 30})
    assert word_problem(long, ENGLISH, {}, guide).todo == "Shorten it to 30 characters"
    half = Problem("C323", AT, "04.03.2026", {"reason": "nothing that is sent changes the record"}, level="warning")
    assert word_problem(half, ENGLISH, {}, guide).todo.startswith("Fill in what is missing")


@pytest.mark.parametrize(
    ("takes", "message"),
    [
        ("a text", ""),
        ("a text, blank means ", ""),
        ("ein Text, nach dem Muster [0-9]+, leer bedeutet 1", "ein Text, leer bedeutet 1"),
        ("a text, like the pattern [a, b]", ""),
        ("a date", "a date"),
    ],
)
def test_only_what_helps_a_sender_is_said_of_a_column(takes, message):
    assert takes_of(ColumnGuide(takes), GERMAN) == message


def test_a_cell_of_another_kind_of_row_is_called_by_its_own_name():
    problem = Problem("C306", AT, "KISTE", {"column": "Verpackung", "expected": "PAL"})
    assert word_problem(problem, GERMAN, {}).column == "Verpackung"


@pytest.mark.parametrize(
    ("code", "found", "hint", "suggestion"),
    [
        ("C308", "Indai", "did you mean india?", "India"),
        ("C308", "indai", "did you mean india?", "india"),
        ("C306", "EUX", "did you mean EUP?", "EUP"),
        ("C306", "Who", "did you mean Who? (a;b)?", "Who? (a;b)"),
        ("G404", "O-O1", "did you mean O-01? It is at heads.csv:2 Is it new?", "O-01"),
        ("C307", "14 stone", "did you mean tonne?", ""),
        ("C316", "1.234", "write 1,234 or 1.234", ""),
    ],
)
def test_a_value_is_only_suggested_where_it_is_the_whole_cell(code, found, hint, suggestion):
    problem = Problem(code, AT, found, {"expected": "x", "first": "1", "second": "2"}, hint)
    assert word_problem(problem, ENGLISH, {}).suggestion == suggestion


def test_counts_have_the_sign_between_thousands_of_the_language():
    errors = Errors()
    errors.documents = 1_000
    for number in range(2_400):
        code, column = ("C302", "Gewicht") if number < 1_300 else ("C308", "Land")
        problem = Problem(code, Where("in.csv", row=number, column=column), "x")
        errors.add(problem, None, ProblemText(column, code, "", ""), "A-1")
    text = "2.400 Probleme mit 2 Ursachen in 1.000 Datensätzen. "
    assert errors.summary(GERMAN) == f"{text}Wenn Sie die Spalte „Gewicht“ korrigieren, sind 1.300 davon erledigt."
    assert "2,400 problems" in errors.summary(ENGLISH)
    assert GERMAN.counted("{count} problem", "{count} problems", 1_000) == "1.000 Probleme"

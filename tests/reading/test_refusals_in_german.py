"""What reading refuses is told to German senders in German: every part of the message and of what to do."""

import pytest
from reading_corpus import inline, layout, refusal, rows_of, text_file, workbook_parts, write_parts
from reading_writers import Sheet, write_xlsx

from loadsheet.languages import words_in
from loadsheet.reports.fix_workbook.wording import word_problem

ASKED = layout("Id", "City", encodings=("utf-8", "cp1252"), delimiters=(",",))
HEAD = ["Id", "City"]


def two_sheets(folder):
    sheets = [Sheet([HEAD, ["A1", "Ulm"]], "Week 10"), Sheet([HEAD, ["A2", "Bonn"]], "Week 11")]
    return refusal(write_xlsx(folder / "a.xlsx", sheets), ASKED)


def hidden_sheets(folder):
    parts = workbook_parts(inline("Id", "City", number=1), sheets=(("Week 10", "hidden"),))
    return refusal(write_parts(folder / "a.xlsx", parts), ASKED)


def a_cell_beyond(folder):
    (row,) = rows_of(write_xlsx(folder / "a.xlsx", [Sheet([HEAD, ["A1", "Ulm", "x"]])]), ASKED)
    return row.problem


def another_delimiter(folder):
    return refusal(text_file(folder, "Id;City\nA1;Ulm\n"), ASKED)


def cut_off(folder):
    return refusal(text_file(folder, "Id,City\nA1,Skövde\nA2,Malmö".encode()[:-1]), ASKED)


@pytest.mark.parametrize(
    ("refused", "parts"),
    [
        (
            two_sheets,
            ["Mehrere Blätter enthalten Zeilen der Tabelle: Week 10, Week 11", "blenden Sie die Blätter aus"],
        ),
        (hidden_sheets, ["alle ihre Blätter sind ausgeblendet: Week 10", "blenden Sie das Blatt"]),
        (
            a_cell_beyond,
            ["rechts der letzten Spalte", "tragen Sie ihn unter seiner Überschrift ein, wenn er gebraucht wird"],
        ),
        (another_delimiter, ["mit einem anderen Trennzeichen", "mit dem vereinbarten Trennzeichen"]),
        (cut_off, ["alles Übrige darin ist UTF-8", "speichern Sie sie als „CSV UTF-8“"]),
    ],
    ids=["two sheets", "hidden sheets", "a cell beyond", "another delimiter", "cut off"],
)  # fmt: skip
def test_refusals_are_worded_in_german(tmp_path, refused, parts):
    message = word_problem(refused(tmp_path), words_in("de"), {})
    whole = f"{message.text} {message.todo}".casefold()
    assert [part for part in parts if part.casefold() not in whole] == [], whole
    assert " the " not in whole

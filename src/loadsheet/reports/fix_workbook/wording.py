"""The texts of a fix workbook, and the wording of a problem for the sender of a file.

`problems.CATALOGUE` words problems for all readers. This module words them for senders, who know their columns but neither
payload fields, settings nor our commands. All texts are in English here; `languages` has their translations. Other modules
write values and hints of problems as English sentences. They are recognized here, and worded for senders.
"""

import re
from collections import defaultdict
from collections.abc import Mapping
from decimal import Decimal
from typing import NamedTuple

from loadsheet.display_text import show_controls
from loadsheet.languages import Sentences, Words
from loadsheet.ledger import ColumnGuide
from loadsheet.problems import CATALOGUE, FOR_ITS_SENDER, PROPOSING_VALUES, Problem
from loadsheet.similar_text import proposed_value

_PATTERN = re.compile(r", (?:like the pattern|nach dem Muster) .*?(?=, (?:blank means|leer bedeutet)|$)")
_NOTHING_MEANT = re.compile(r", (?:blank means|leer bedeutet) ?$")
_LIMIT = re.compile(r"-?[0-9]+(?:\.[0-9]+)?")
_FOR_OPERATORS = re.compile(r"\bloadsheet (?:retry|resolve)\b")

_OURS = "this value is not in your file: contact the people who run loadsheet"
"""What to do about a value that comes from the mapping, not from a cell."""

_SAID_BETTER = frozenset({"C301", "C306", "C312", "C313", "C314", "C315", "C323"})
"""Problems for which the advice of `TODO` is better than the guide to the column. So it is for a warning of a value out of range."""


class ProblemText(NamedTuple):
    """A problem in the sender's words: column, what is wrong, what to do, and the suggested value (empty if none)."""

    column: str
    text: str
    todo: str
    suggestion: str


def word_problem(
    problem: Problem, words: Words, titles: Mapping[str, str], guide: ColumnGuide | None = None
) -> ProblemText:
    """Word a problem for its sender. `titles` are the sheets by table; `guide` describes the column."""
    values = {"found": problem.found, "column": problem.where.column}
    english = problem.shown(words.number)
    prefix = f"{problem.where.path}: " if problem.where.column else ""
    values |= {name: _value(value.removeprefix(prefix), words) for name, value in english.items()}
    if problem.where.column:
        values["path"] = values["target"] = problem.where.column
    values["table"] = titles.get(values.get("table", ""), values.get("table", ""))
    if own := english.get(f"say_{words.language}"):  # the mapping's message of a check in this language
        values["say"] = own
    text = words.raw(template_of(problem.code)).format_map(defaultdict(str, values))  # an old ledger may lack a value
    suggestion = proposed_value(problem.hint) if problem.code in PROPOSING_VALUES else ""
    if suggestion.islower() and problem.found[:1].isupper():  # country names are stored in lower case
        suggestion = suggestion.title()
    return ProblemText(values["column"], _sentence(text), _sentence(_todo(problem, words, values, guide)), suggestion)


def word_rule(rule: str, words: Words) -> str:
    """Why a rule of reading or of the mapping left a row out, for its sender."""
    found = _RULES.find(rule)
    return words.say(RULES[found.sentence], *found.numbered) if found is not None else words.say("not meant to be sent")


def template_of(code: str) -> str:
    """The English text of a problem for senders, with placeholders."""
    return PROBLEMS.get(code, CATALOGUE[code].template)


def line_of(text: str, todo: str) -> str:
    """What is wrong and what to do, in one line."""
    return f"{text if text.endswith(('?', '!')) else text.rstrip('.') + '.'} {todo}" if todo else text


def takes_of(guide: ColumnGuide, words: Words) -> str:
    """What a column accepts, without patterns meant for programs. Empty if it accepts any text."""
    takes = _NOTHING_MEANT.sub("", _PATTERN.sub("", guide.takes))
    return "" if takes in ("a text", words.say("a text")) else takes


def _todo(problem: Problem, words: Words, values: Mapping[str, str], guide: ColumnGuide | None) -> str:
    hint = problem.hint if not _FOR_OPERATORS.search(problem.hint) else ""
    is_ours = problem.code[0] in "KX" and problem.where.path and not problem.where.column
    usual = words.raw(_OURS if is_ours else TODO.get(problem.code, "")).format_map(defaultdict(str, values))
    parts = [part for part in hint.split("; ") if part]
    known = [phrase for part in parts if (phrase := _phrase(part, words)) is not None]
    if known:
        return words.raw("; ").join(known)
    takes = takes_of(guide, words) if guide is not None else ""
    is_better = problem.code in _SAID_BETTER or (problem.code, problem.level) == ("C305", "warning")
    if takes and problem.code[0] in "CK" and not is_better:
        return words.say("expected here: {takes}", takes=takes)
    return usual or hint


def _value(text: str, words: Words) -> str:
    phrase = _phrase(text, words)
    return words.day(text) if phrase is None or phrase == text else phrase


def _phrase(text: str, words: Words) -> str | None:
    """A sentence of a value or hint in the language of the sender; None if the language does not have it."""
    found = _ANALYSTS.find(text)
    if found is not None:
        return words.say(FOR_SENDERS[found.sentence], *found.numbered, **_shown(found.named, words))
    if words.language == "en":
        return None if "mapping" in text else text  # a sender cannot change it
    found = _SENDERS.find(text)
    return None if found is None else words.say(found.sentence, *found.numbered, **_shown(found.named, words))


def _shown(named: Mapping[str, str], words: Words) -> dict[str, str]:
    limits = {
        name: words.decimal(Decimal(named[name])) for name in ("low", "high") if _LIMIT.fullmatch(named.get(name, ""))
    }
    return {name: words.day(value) if name == "day" else value for name, value in named.items()} | limits


def _sentence(text: str) -> str:
    return show_controls(text[:1].upper() + text[1:])


ERROR_HEADS = (
    "Where",
    "Column",
    "Your value",
    "Problem",
    "How to fix",
    "Suggested value",
    "How often",
    "Also at",
    "Original cell",
    "Code",
)
CHANGED_INTRO = "This is how we converted your values. Nothing needs fixing; please check that it is what you meant."
CHANGED_HEADS = ("Column", "What was done", "How often", "Your value", "Became", "Original cell")
CHANGED: dict[str, str] = {
    "number": "converted to another unit or rounded",
    "moment": "moved to another time zone or date",
    "word": "replaced by the exchange's own term",
    "blank": "was blank and has been filled in",
    "text": "written differently",
}
STEPS = (
    "Correct the red cells on {sheets}. The column “What to fix” says what is wrong. Yellow cells are only warnings, and grey rows are fine.",
    "Save this workbook under any name you like.",
    "Drop it into the same folder as {file}. Only your corrections are sent; nothing is sent twice.",
)
FACTS = ("File", "Run", "Mapping")
CHECKED = (
    "This was only a check: nothing from {file} was sent.",
    "Correct the red cells on {sheets} in your own file. The column “What to fix” says what is wrong. Yellow cells are only warnings, and grey rows are fine.",
    "Then drop your own file into the inbox, or here again to have it checked once more.",
)
ASIDE = (
    "{file} could not be read, so nothing from it was sent.",
    "The sheet {sheets} says what is wrong with it and what to do.",
    "Then drop your own file again; this workbook is for information only.",
)

PROBLEMS = FOR_ITS_SENDER | {
    "A116": "{found} stays in the inbox: the mapping {mapping} is wrong",
    "R203": "the text cannot be read: it is not {encoding} (line {line})",
    "R204": "the headings were not found: row {row} comes closest but lacks {missing}",
    "R215": "no row with headings found: none of the first {rows} rows holds one of the headings {missing}",
    "R225": "most dates of the column are written in one way, and these in another: {rows}",
    "R231": "{reason}; at most {limit} are read",
    "R232": "reading the file was stopped: {reason}",
    "R243": 'the heading "{label}" does not appear as often or in the order that was agreed; it is in the columns {columns}',
    "R290": "the columns were not checked for damaged values; the error is ours",
    "C304": '"{found}" is not a valid date or time',
    "G403": "{key} has no row in the sheet {table}",
    "G404": "{key} has a row here but none in the sheet {table}",
    "K501": "the value {text}",
    "K502": '"{found}" is not one of the usual values: {expected}',
    "L601": "the exchange already has {key}, with other values: {fields}",
    "L608": "{key} was sent {sends} times because an answer was lost; the exchange may have it twice",
    "L609": "not sent, because the first {count} records of this kind of file were all refused: {text}",
    "L612": 'the column is written in another way than it is read, as "{proof}" shows: {count} more values, such as "{found}", would be misread',
}
"""Texts of problems for senders, by code, where those of `problems.CATALOGUE` say more than a sender needs."""

TODO = {
    "A101": "give your file the agreed name, or contact the people who run loadsheet",
    "A102": "ask the people who run loadsheet to separate these mappings",
    "A103": "drop {companion} beside it",
    "A106": "nothing to do: it is read again",
    "A111": "drop {companion} beside it",
    "A112": "drop the original file again, with your corrections in it",
    **dict.fromkeys(("A116", "A120"), "contact the people who run loadsheet"),
    **dict.fromkeys(("R201", "R233", "R234", "R235"), "save it again in the program that made it, then send it again"),
    "R202": "send the file with its rows",
    "R203": "save it as “CSV UTF-8” and send it again",
    "R204": "send a table with these headings",
    "R205": "compare the row with the headings: put each value below its own heading",
    "R206": "close or remove the quote and send the file again",
    "R207": "replace the error with the value",
    "R208": "replace the formula with its value",
    "R209": "delete the character",
    "R210": "rename the sheet as agreed",
    "R211": "leave one of them, or give one another label",
    "R212": "shorten it",
    "R213": "put the whole value into quotes",
    "R214": "delete the blank rows above it",
    "R215": "send a table with these headings",
    **dict.fromkeys(
        ("R221", "R222", "R223", "R224", "R253"), "format the column as text and fill it again from its source"
    ),
    "R254": "leave such cells blank",
    "R225": "write all dates of a column in one style",
    "R226": "export it again as UTF-8, without HTML",
    "R227": "let Excel convert them to numbers (the green corner), or check their decimal mark",
    "R228": "nothing to do: they are left out",
    "R249": "if they mean the same one, write it in one way",
    "R231": "send it in several files, or as CSV",
    "R232": "send it in several files, or as CSV",
    "R236": "delete one of them",
    "R237": "add the row again",
    "R238": "hide or delete the sheets that are not meant; if all are, save each as a file of its own",
    "R239": "send the file with its rows",
    "R240": "delete one of them",
    "R241": "correct the heading if it is wrong",
    "R242": "if it holds totals, delete it",
    **dict.fromkeys(("R243", "R244"), "remove the column that was inserted, or restore the missing one"),
    "R245": "if their rows are to be sent, put them into the sheet that is read",
    "R247": "if they belong to the rows, give their columns headings next to the others",
    "R250": "if one of these is that column under a new heading, correct the heading",
    "R255": "nothing to do, unless their values matter: then contact the people who run loadsheet",
    "R251": "delete the second line, unless both are meant",
    **dict.fromkeys(("R252", "R256"), "delete them if they are not meant to be sent"),
    "R257": "restore them, unless they are missing on purpose",
    "R290": "contact the people who run loadsheet",
    "C301": "fill it in",
    "C302": "enter a number",
    "C303": "enter a whole number",
    "C304": "write it like the other values of the column",
    "C305": "enter a valid value: {expected}",
    "C306": "choose a value from the list",
    "C307": "use one of these units",
    "C308": "enter the country's name or its two-letter code",
    "C309": "enter the three-letter currency code, such as EUR",
    "C310": "enter yes or no",
    "C311": "enter the name of a time zone, such as Europe/Berlin",
    "C312": "shorten it to {expected} characters",
    "C313": "write it like the other rows do",
    "C314": "correct the time; if it is right, it may be of another time zone: contact the people who run loadsheet",
    "C315": "if the time is right, tell the people who run loadsheet whether it is the first or the second one; if not, correct it",
    "C316": "write {first} or {second}",
    **dict.fromkeys(("C318", "C324"), "check the date; if it is right, leave it"),
    "C322": "enter the whole number, in a cell formatted as text",
    "C323": "fill in what is missing; if the change is meant as it is, leave it",
    "C320": "check the value",
    "C321": "keep one of the rows of {table}",
    "C319": "check the code; if it is right, leave it",
    "C317": "move it to a row of its own",
    "G401": "enter the same value in all rows of {key}, or delete the rows that do not belong to it",
    "G402": "if {column} is wrong in one of the rows, correct it; otherwise keep one of the rows and delete the others",
    "G403": "add its rows there, or delete all rows of {key}",
    "G404": "add its row there, or correct {column}",
    "G405": "fill in {column}",
    "G406": "correct the cells concerned",
    "G407": "check the values it is calculated from",
    "G408": "correct the total or the rows above it",
    "G409": "send the whole file again",
    "K501": "correct it, or fill it in",
    "K502": "check the value; it is sent as it is",
    "L601": "if the new values are right, ask the people who run loadsheet to send them as a change; if not, restore the earlier ones",
    "L602": "nothing to do: the next run asks the exchange",
    "L603": "nothing to do: these values are sent once",
    "L604": "correct it; the same values are not sent again",
    "L605": "if this version is right, ask the people who run loadsheet to send it as a change; if not, enter the values of the other one",
    "L606": "contact the people who run loadsheet",
    "L607": "it is sent once {parent} is there; if that is a wrong number, correct it and drop the file again",
    "L608": "ask the exchange whether it has a duplicate",
    "L609": "contact the people who run loadsheet",
    "L611": "correct the file and send it again, or ask the people who run loadsheet to send the other records",
    "L612": "write all values of the column in the same format",
    "L616": "correct it and send it again if the accepted version is not right",
    "L617": "correct it and send it again if the version in the other file is not right",
    "L618": "nothing to do, unless it is wanted again: then contact the people who run loadsheet",
    "L619": "nothing to do, unless the older values are wanted again: then contact the people who run loadsheet",
    "L620": "decide which file is right: correct the other one and send it again",
    "L622": "use a number of your own, or contact the people who run loadsheet",
    "L623": "delete or hide the sheet if it is not meant to be sent; if it is, contact the people who run loadsheet",
    "L624": "restore the headings of the sheet; if it is not meant to be sent any more, contact the people who run loadsheet",
    "L625": "send the complete file again; if it is complete, contact the people who run loadsheet",
    "L626": "nothing to do, unless they are to be deleted there too: then contact the people who run loadsheet",
    "L627": "if the others are to stay, list them too",
    "L628": "give the times in the time zone of the record, or contact the people who run loadsheet",
    "L621": "restore the headings; if the columns are missing on purpose, contact the people who run loadsheet",
    "X701": "correct the value; if it is right, ask the exchange",
    "X702": "nothing to do: the next run asks the exchange",
    "X703": "nothing to do: it is sent with the next run",
}
"""What to do, by code, for problems that do not say it."""

FOR_SENDERS = {
    "all rows of one record must say the same here": "enter the same value in all rows of the record, or delete the rows that do not belong to it",
    "a row below has the value: if the rows were sorted, send them in the order of the export": "a row below has the value: if you sorted the rows, send them in the order of the export; if not, enter the value here as well",
    "in the United States a ton is 2,000 lb{0}": "in the United States a ton is 2,000 lb, elsewhere 1,000 kg: write lb or kg",
    "a cell is missing, so it is not clear{0}": "a cell is missing: put each value below its own heading; the row is sent as shown here",
    "a value stands beyond the last column of the header": "there is a value beyond the last column; see the errors sheet",
    "a delimiter inside a value needs quotes around it": "put each value below its own heading; the row is sent as shown here",
    "delete it, or give its column a label": "put it below its own heading if it is needed; the row is sent as shown here",
    "quotes inside a value are doubled{0}": "check each value of the row and remove the quotes around it; the row is sent as shown here",
    "delete the blank rows or what stands below them{0}": "delete the blank rows in your own file and drop it again: the rows below this one were not read",
    "the code table {0} has no value for it: add it there, or correct the cell": "correct it if it is wrong; if not, contact the people who run loadsheet",
    '{0} is row {row} "{1}" and row {other} "{2}"': '{0} is "{1}" in row {row} of your file and "{2}" in row {other}',
    "{locale} writes {0}": "write it like {0}",
    "{0} occurs twice in this time zone: the clocks went back{1}": "{0} happens twice, because the clocks went back: tell the people who run loadsheet whether it is the first or the second one",
    "{0} does not exist in this time zone: the clocks went forward": "{0} does not exist: the clocks went forward",
    "the mapping can say which is meant{0}": "if the time is right, tell the people who run loadsheet whether it is the first or the second one; if not, correct it",
    "let the mapping look up the other table{0}": "keep all these rows if each is an event of its own: then contact the people who run loadsheet",
    "name it as one of the patterns": "give your file the agreed name, or contact the people who run loadsheet",
    "make the patterns of these mappings{0}": "ask the people who run loadsheet to separate these mappings",
    "save it as 'CSV UTF-8'{0}": "save it as “CSV UTF-8” and send it again",
    "save it as .xlsx or as 'CSV UTF-8'": "save it as a workbook (.xlsx) and send it again",
    "open it in the program it comes from and save it as .xlsx or as 'CSV UTF-8'": "open it in the program it comes from, save it as a workbook (.xlsx) and send it again",
    "open it in Excel or LibreOffice and save it as .xlsx or as 'CSV UTF-8'": "open it in Excel or LibreOffice, save it as a workbook (.xlsx) and send it again",
    "its values seem to be separated by {kind}, which the mapping does not take": "its values seem to be separated by another character than was agreed",
    "save it with the delimiter that was agreed, or set source.delimiter in the mapping": "save it with the delimiter that was agreed",
    "if it is in another encoding, name that one alone in source.encoding of the mapping": "if it is in another encoding, save it as “CSV UTF-8”",
    "unhide the sheet that holds the table, or name it in the mapping{0}": "unhide the sheet that holds the table",
    "hide or delete the sheets that are not meant, or name the one that is in the mapping{0}; if all are, have the mapping read all{1}": "hide or delete the sheets that are not meant; if all are, save each as a file of its own",
    "rename the sheet, or name it in the mapping": "rename the sheet as agreed",
    "the cell is a {kind}": "the cell holds something else",
    "the cell is a {kind}; format it as a date": "format the cell as a date",
    "the cell is a {kind}; format it as a time": "format the cell as a time",
    "a date cell of a workbook{0}": "a date cell",
    "send a table with these labels over its columns": "send a table with these headings",
    "add the column {0}, or name its new heading under `aliases`": "add the column {0} and drop the file again",
    "add the columns {0}, or name their new headings under `aliases`": "add the columns {0} and drop the file again",
    "if it holds sums, delete it{0}": "if it holds totals, delete it",
    "otherwise format the column as Text{0}": "otherwise format the column as text and fill it again from its source",
    "this ledger does not know the files of run {run}": "its original file is not known here",
    "mapping {mapping} has changed since{0}": "the rules for this kind of file have changed since",
    "mapping {mapping} is for {0}": "it is in the wrong folder",
    "it is incomplete or damaged ({0})": "it is incomplete or damaged",
    "format the column as Text{0}": "format the column as text and fill it again from its source",
}
"""Sentences in values and hints that say more than a sender needs, and what senders read instead."""

SENTENCES = (
    "put all rows of one record on one sheet",
    "did you mean {0}? It is at {1}",
    "{0} looks like {1} at {2}",
    "correct {0} at {1}",
    "that settles this too",
    "did you mean {0}?",
    "for {0}, did you mean {1}?",
    "write it like {0}",
    "write {0} or {1}",
    "expected: {0}",
    "example: {0}",
    "one of {0}",
    "from {low} to {high}",
    "from {low}",
    "to {high}",
    "before {day}",
    "after {day}",
    "more than 0",
    "nothing that is sent changes the record",
    "only one end of the time window is given; the exchange keeps the other one as it was",
    "at least {count} characters",
    "cut to {count} characters",
    "at most {count} digits after the decimal point",
    "(at most {count} digits after the decimal point)",
    "a date without a time",
    "an amount in {0}",
    "{day} is another day of the week",
    "correct the day or the date",
    "a date",
    "a time of day",
    "a text",
    "a number",
    "format it as a date",
    "format it as a time",
    "is required",
    "must be a text",
    "must be a number",
    "must be a value, not an empty text",
    "must be one of {0}",
    "must be a value such as {0}",
    "must be {0}",
    "is invalid",
    "there are fewer rows than the expression needs",
    "a value is blank or has the wrong type",
    "the result is out of range",
    "the result is not a number",
    "division by zero",
    "no values",
    "delete one of them",
    "to keep both, drop the fix file that comes back as it is",
    "add the row again",
    "to leave it out, drop the fix file that comes back as it is",
    "enter {0} in this row again, or drop the fix file that comes back as it is if the row belongs to {1}",
    "drop the original file again, with your corrections in it",
    "drop it where {0} was dropped",
    "shorten it",
    "send the file with its rows",
    "nothing to do if there was nothing to send",
    "otherwise send the file with its rows",
    "it has 0 bytes",
    "send it again",
    "the file ends within this row",
    "send the complete file again",
    "save it again in the program that made it, then send it again",
    "send the table itself as .xlsx or CSV",
    "save it as .xlsx and send it again",
    "it is a fix workbook saved as text, in which numbers and dates can change",
    "copy that sheet back from the fix workbook that you received, also if nothing is wrong in it",
    "give the columns back the headings that they have in the fix workbook that you received",
    "save it without a password or encryption and send it again",
    "send it without a password",
    "it is a password-protected workbook",
    "it is a password-protected spreadsheet (.ods)",
    "it is locked with a password",
    "check that the file is there and may be read",
    "all else in it is UTF-8, so it was damaged or cut off here: send it again",
    "all its sheets are hidden: {0}",
    "close or remove the quote and send the file again",
    "nothing of it was used",
    "lines {first} to {last} were read as one row",
    "the file may be damaged",
    "if they are not meant to be sent, delete them, and cancel what was already sent",
    "the fields are unknown, because the accepted content has been removed",
    "remove the character and send it again",
    "leave one of them, or give one another label",
    "remove the columns that are not needed",
    "remove the column that was inserted, or restore the missing one",
    "looked at the sheets {0}",
    "the whole row is one value in quotes: export the file again from its source",
    "the row holds: {0}",
    "row {row} holds: {0}",
    "rows {0} and {count} more",
    "rows {0}",
    "row {row}",
    "it holds no text",
    "a form cannot be read",
    "drop {0} beside it",
    "send it in several files, or as CSV",
    "order {key}",
    "tender {key}",
    "it has not been sent yet",
    "the sender must fix it first",
    "it was deleted",
    "it was created after this",
    "it is held too",
    "its outcome is unknown",
    "the exchange refused it",
    "it waits too",
    "check the date",
    "if it is right, there is nothing to do",
    "Excel drops leading zeros of numbers",
    "ignore this if the values are meant to be short, such as postcodes of another country",
    "Excel turns texts such as 3-5 or MAR1 into dates",
    "write all dates of a column in one style",
    "write all dates of a column in one style, best as 2026-03-01",
    "day and month may have changed places in some rows",
    "the row was read as a record",
    "they were probably pasted as text",
    "let Excel convert them to numbers (the green corner), or check their decimal mark",
    "Excel shows long numbers in this form, and their last digits are lost",
    "Excel keeps only 15 digits of a number and replaces the others with zeros",
    "other programs lose them too",
    "another program changed the letters before the file was sent",
    "export it again as UTF-8, without HTML",
    "text pasted from web pages often contains them",
    "they are left out, and no-break spaces are sent as spaces",
    "they count as different records",
    "put files that belong together in a folder of the inbox",
    "open it in Excel or LibreOffice",
    "if you see your table, save it as .xlsx",
    "if you see a login or an error, download it again",
    "if they mean the same one, write it in one way",
)
"""Sentences in values and hints that senders read as they are."""

RULES = {
    "totals: begins with {0}": "a row of totals: it begins with {0}",
    "comment: {0}": "a comment",
    "footer: {0}": "below the table",
    "stop_at_blank: {0}": "below the table",
    "units_row: {0}": "a row of units",
    "repeated header": "the headings again",
    "separator line": "a line between rows",
    "page number": "the number of a page",
    "repeated title": "the title of another page",
    "hidden_rows: ignore": "a hidden row",
    "remark below the rows": "a remark below the rows",
    "cells beside the table": "beside the table",
    "sets: {0}": "none of its sets of columns is filled in",
    "no column that the mapping reads is filled in": "none of the columns that are read is filled in",
    "lookup: {0}": "other rows look up its values",
}
"""Rules that leave rows out, and what senders read of them."""

_ANALYSTS, _SENDERS, _RULES = Sentences(FOR_SENDERS), Sentences(SENTENCES), Sentences(RULES)

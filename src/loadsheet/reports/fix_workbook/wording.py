"""The texts of a fix workbook in one language (English here), and the wording of a problem for the sender of a file.

`problems.CATALOGUE` words problems for all readers. The catalogues here and in `texts_de` word them for senders, who
know their columns but neither payload fields nor our commands. A problem without a text here uses `problems.CATALOGUE`.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from loadsheet.control_characters import visible
from loadsheet.ledger import ColumnGuide
from loadsheet.problems import CATALOGUE, Problem

_NEAR = re.compile(r"did you mean ([^?;]+)\?")
_PATTERN = re.compile(r", (?:like the pattern|nach dem Muster) .*?(?=, (?:blank means|leer bedeutet)|$)")
_NOTHING_MEANT = re.compile(r", (?:blank means|leer bedeutet) ?$")
_ANY_TEXT = ("a text", "ein Text")
_FOR_OPERATORS = re.compile(r"\bloadsheet (?:retry|resolve)\b")


_WHOLE_VALUES = frozenset({"C302", "C306", "C308", "C309", "C311"})
"""Problems whose hint may suggest a value for the whole cell. Hints of other problems concern a part of it."""

_OURS = "ours"
"""The key in `todo` for a value that comes from the mapping, not from a cell."""

_SAID_BETTER = frozenset({"C301", "C306", "C313", "C314", "C315"})
"""Problems for which the catalogue's advice is better than the guide to the column."""


@dataclass(frozen=True, slots=True)
class Words:
    """The texts of one language. `problems` are templates by code, filled like those of `problems.CATALOGUE`. `todo`
    says what to do, by code, for problems that do not say it. `phrases` pair an English pattern in values and hints with
    its replacement.
    """

    language: str
    what_to_fix: str
    quoted: str
    belongs: str
    errors_title: str
    errors_heads: tuple[str, ...]
    errors_level: Mapping[str, str]
    errors_summary: str
    errors_clears: str
    errors_more: str
    errors_counted: tuple[str, str]
    kinds_counted: tuple[str, str]
    documents_counted: tuple[str, str]
    warnings_counted: tuple[str, str]
    warning: str
    changed_title: str
    changed_intro: str
    changed_some: str
    changed_heads: tuple[str, ...]
    changed_kinds: Mapping[str, str]
    changed_blank: str
    read_title: str
    read_sentences: tuple[str, str, str]
    read_aside: tuple[str, str, str]
    read_facts: tuple[str, str, str]
    read_more: str
    read_held: tuple[str, str]
    takes: str
    required: str
    choose: str
    whole_row: str
    date_format: str
    thousands: str
    problems: Mapping[str, str]
    todo: Mapping[str, str]
    phrases: tuple[tuple[str, str], ...]

    def number(self, count: int) -> str:
        """A count with the thousands separator of this language."""
        return f"{count:,}".replace(",", self.thousands)

    def counted(self, forms: tuple[str, str], count: int) -> str:
        """A count with its noun, singular or plural."""
        return forms[count != 1].format(self.number(count))

    def phrase(self, text: str) -> str:
        """The translation of a phrase; the text itself if no pattern matches."""
        for pattern, instead in self.phrases:
            found = re.fullmatch(pattern, text)
            if found is not None:
                return instead.format(*found.groups(default=""))
        return text


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
    english = problem.shown(words.thousands)
    prefix = f"{problem.where.path}: " if problem.where.column else ""
    values |= {name: words.phrase(value.removeprefix(prefix)) for name, value in english.items()}
    if problem.where.column:
        values["path"] = values["target"] = problem.where.column
    values["table"] = titles.get(values.get("table", ""), values.get("table", ""))
    template = words.problems.get(problem.code, CATALOGUE[problem.code].template)
    text = template.format_map(_Lenient(values))
    near = _NEAR.search(problem.hint) if problem.code in _WHOLE_VALUES else None
    suggestion = near[1].strip('"') if near else ""
    if suggestion.islower() and problem.found[:1].isupper():  # country names are stored in lower case
        suggestion = suggestion.title()
    return ProblemText(values["column"], _sentence(text), _sentence(_todo(problem, words, values, guide)), suggestion)


def line_of(text: str, todo: str) -> str:
    """What is wrong and what to do, in one line."""
    return f"{text.rstrip('.')}. {todo}" if todo else text


def takes_of(guide: ColumnGuide) -> str:
    """What a column accepts, without patterns meant for programs. Empty if it accepts any text."""
    takes = _NOTHING_MEANT.sub("", _PATTERN.sub("", guide.takes))
    return "" if takes in _ANY_TEXT else takes


def _todo(problem: Problem, words: Words, values: Mapping[str, str], guide: ColumnGuide | None) -> str:
    hint = problem.hint if not _FOR_OPERATORS.search(problem.hint) else ""
    if hint:
        return "; ".join(words.phrase(part) for part in hint.split("; "))
    if guide is not None and takes_of(guide) and problem.code[0] in "CK" and problem.code not in _SAID_BETTER:
        return words.takes.format(takes=takes_of(guide))
    is_ours = problem.code[0] in "KX" and problem.where.path and not problem.where.column
    return words.todo.get(_OURS if is_ours else problem.code, "").format_map(_Lenient(values))


def _sentence(text: str) -> str:
    return visible(text[:1].upper() + text[1:])


class _Lenient(dict[str, str]):
    """Values for a template; a value missing in an old ledger is empty."""

    def __missing__(self, name: str) -> str:
        return ""


ENGLISH = Words(
    language="en",
    what_to_fix="What to fix",
    quoted="“{}”",
    belongs="No change needed; listed because the row belongs to {key}",
    errors_title="Errors",
    errors_heads=(
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
    ),
    errors_level={"error": "", "warning": "Only a warning: "},
    errors_summary="{problems} of {kinds} in {documents}.",
    errors_clears="Correcting the column “{column}” clears {count} of them.",
    errors_more="There are more problems than listed here; each row shows its own.",
    errors_counted=("1 problem", "{} problems"),
    kinds_counted=("1 kind", "{} kinds"),
    documents_counted=("1 record", "{} records"),
    warnings_counted=("There is also 1 warning.", "There are also {} warnings."),
    warning="Warning",
    changed_title="Changed for you",
    changed_intro="This is how we converted your values. Nothing here needs fixing; please check that it is what you meant.",
    changed_some="Covers the first {count} records.",
    changed_heads=("Column", "What was done", "How often", "Your value", "Became", "Original cell"),
    changed_kinds={
        "number": "converted to another unit or rounded",
        "moment": "moved to another time zone or date",
        "word": "replaced by the exchange's own term",
        "blank": "was blank and has been filled in",
        "text": "written differently",
    },
    changed_blank="(blank)",
    read_title="Read me",
    read_sentences=(
        "Correct the red cells on {sheets}. The column “What to fix” says what is wrong. Yellow cells are only warnings, and grey rows are fine.",
        "Save this workbook under any name you like.",
        "Drop it into the same folder as {file}. Only your corrections are sent; nothing is sent twice.",
    ),
    read_aside=(
        "{file} could not be read, so nothing from it was sent.",
        "The sheet {sheets} says what is wrong with it and what to do.",
        "Then drop your own file again; this workbook is for information only.",
    ),
    read_facts=("File", "Run", "Mapping"),
    read_more="More rows to correct are in {names}, in the same folder.",
    read_held=(
        "1 more record waits for another record or for a decision; you do not need to do anything.",
        "{} more records wait for others or for a decision; you do not need to do anything.",
    ),
    takes="expected here: {takes}",
    required="must be filled in",
    choose="Choose from the list, or type.",
    whole_row="(whole row)",
    date_format="yyyy-mm-dd",
    thousands=",",
    problems={
        "A101": "no mapping matches a file named {found}",
        "R203": "the text cannot be read: it is not {encoding} (line {line})",
        "R204": "the headings were not found: row {row} comes closest but lacks {missing}",
        "R231": "{reason}; at most {limit} are read",
        "R232": "reading the file was stopped: {reason}",
        "G403": "{key} has no row in the sheet {table}",
        "G404": "{key} has a row here but none in the sheet {table}",
        "K501": "the value {text}",
        "K502": '"{found}" is not one of the usual values: {expected}',
        "L601": "the exchange already has {key}, with other values: {fields}",
        "L609": "not sent, because the first {count} records of this kind of file were all refused: {text}",
    },
    todo={
        "R205": "compare the row with the headings: put each value below its own heading",
        "R207": "replace the error with the value",
        "R208": "open the file in Excel, save it and send it again",
        "R209": "delete the character",
        "R212": "shorten it",
        "R213": "put the whole value into quotes",
        "R214": "delete the blank rows above it",
        "C301": "fill it in",
        "C302": "enter a number",
        "C303": "enter a whole number",
        "C304": "write it like {expected}",
        "C305": "enter a valid value: {expected}",
        "C306": "choose a value from the list",
        "C307": "use one of these units",
        "C308": "enter the country's name or its two-letter code",
        "C309": "enter the three-letter currency code, such as EUR",
        "C310": "enter yes or no",
        "C311": "enter the name of a time zone, such as Europe/Berlin",
        "C312": "shorten it to {expected} characters",
        "C313": "write it like the other rows do",
        "C314": "enter a time that exists on that day",
        "C315": "enter a time one hour earlier or later",
        "C316": "write {first} or {second}",
        "C318": "check the date; if it is right, leave it",
        "C320": "check the value",
        "C321": "keep one of the rows of {table}",
        "C319": "check the code; if it is right, leave it",
        "C317": "move it to a row of its own",
        "G401": "enter the same value in all rows of {key}, or delete the rows that do not belong to it",
        "G402": "keep one of the rows and delete the others",
        "G403": "add its rows there, or delete all rows of {key}",
        "G404": "add its row there, or correct {column}",
        "G405": "fill in {column}",
        "G406": "correct the red cells of the record",
        "G407": "check the values it is calculated from",
        "G408": "correct the total or the rows above it",
        "G409": "send the whole file again",
        "K501": "correct it, or fill it in",
        "K502": "check the value; it is sent as it is",
        "L601": "if the new values are right, have them sent as a change; if not, restore the earlier ones",
        "L602": "nothing to do: the next run asks the exchange",
        "L603": "nothing to do: it is sent with the next run",
        "L604": "correct it; the same values are not sent again",
        "L605": "decide which of the two versions to send",
        "L606": "contact the people who run loadsheet",
        "L607": "nothing to do: it is sent once {parent} is there",
        "L608": "ask the exchange whether it has a duplicate",
        "L609": "contact the people who run loadsheet",
        "L611": "correct the file and send it again, or ask the people who run loadsheet to send the other records",
        "L612": "write all values of the column in the same format",
        "ours": "this value is not in your file: contact the people who run loadsheet",
        "X701": "correct the value; if it is right, ask the exchange",
        "X702": "nothing to do: the next run asks the exchange",
        "X703": "nothing to do: it is sent with the next run",
    },
    phrases=(
        (
            r"all rows of one record must say the same here",
            "enter the same value in all rows of the record, or delete the rows that do not belong to it",
        ),
        (
            r"in the United States a ton is 2,000 lb.*",
            "in the United States a ton is 2,000 lb, elsewhere 1,000 kg: write lb or kg",
        ),
        (
            r"a cell is missing, so it is not clear.*",
            "a cell is missing: put each value below its own heading; the row is sent as shown here",
        ),
        (
            r"a value stands beyond the last column of the header",
            "there is a value beyond the last column; see the errors sheet",
        ),
        (
            r"a delimiter inside a value needs quotes around it",
            "put each value below its own heading; the row is sent as shown here",
        ),
        (
            r"delete it, or give its column a label",
            "put it below its own heading if it is needed; the row is sent as shown here",
        ),
        (
            r"quotes inside a value are doubled.*",
            "check each value of the row and remove the quotes around it; the row is sent as shown here",
        ),
        (
            r"delete the blank rows or what stands below them.*",
            "delete the blank rows in your own file and drop it again: the rows below this one were not read",
        ),
        (r"put it into a row of its own, or have the mapping read more sets", "move it to a row of its own"),
        (r'(.+) is row (\S+) "(.*)" and row (\S+) "(.*)"', '{0} is "{2}" in row {1} of your file and "{4}" in row {3}'),
        (r"\S+ writes (.+)", "write it like {0}"),
        (r"the mapping can say which is meant.*", "enter a time one hour earlier or later"),
        (
            r"name it as one of the patterns|give it a name that a mapping takes",
            "give your file the agreed name, or contact the people who run loadsheet",
        ),
        (
            r"make the patterns of these mappings.*",
            "ask the people who run loadsheet to separate these mappings",
        ),
        (r"save it as 'CSV UTF-8', or set source\.encoding.*", "save it as “CSV UTF-8” and send it again"),
    ),
)

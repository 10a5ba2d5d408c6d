"""The catalogue of problems: what may be wrong with data, as values. What ends a run is an exception, see `errors`.

Owns: every code with its title and message template (once, here).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Self

Level = Literal["error", "warning"]


@dataclass(frozen=True, slots=True)
class ProblemType:
    """One entry of the catalogue. `template` is filled with the values of a problem; `title` is the heading in lists and summaries."""

    title: str
    template: str


WAITS_FOR_MAPPING = frozenset({"A115", "A116"})
"""Problems of files whose mapping does not load. A run with one of them has the exit code of a wrong mapping."""

CATALOGUE: dict[str, ProblemType] = {
    # arrival
    "A101": ProblemType("No mapping for this file", "no mapping matches {found}; the closest patterns are: {patterns}"),
    "A102": ProblemType("Several mappings for this file", "{found} matches more than one mapping: {mappings}"),
    "A103": ProblemType("Companion file missing", "{found} waits for its companion {companion}"),
    "A104": ProblemType(
        "Still being written", "{found} changed a moment ago; it stays in the inbox until it no longer changes"
    ),
    "A105": ProblemType(
        "No permission to read", "{found} cannot be read; grant read access to the user loadsheet runs as"
    ),
    "A106": ProblemType(
        "Changed while being read",
        "{found} changed while it was being read; nothing was sent from it, and it is read again once it no longer changes",
    ),
    "A107": ProblemType("Not complete yet", "{found} {lacks}; it stays in the inbox for now"),
    "A108": ProblemType(
        "Too large", "{found} has {size} bytes; the limit is {limit} (arrival.file_bytes_max); it stays in the inbox"
    ),
    "A109": ProblemType("Not a regular file", "{found} is a {kind}; only regular files are read"),
    "A110": ProblemType("Already processed", "{found} has the same bytes as {earlier}, which was processed before"),
    "A111": ProblemType("Companion overdue", "{found} has waited {hours} hours for its companion {companion}"),
    "A112": ProblemType("Fix file without its original", "{found} is a fix file, but {reason}"),
    "A113": ProblemType(
        "Older than asked", "files last changed before {since}, not taken (arrival.arrived_since): {count}"
    ),
    "A114": ProblemType("Name of another file", "two files display as {found}; this one is processed in the next run"),
    "A115": ProblemType("Mapping does not load", "the mapping {mapping} does not load: {reason}"),
    "A116": ProblemType(
        "Waits for its mapping",
        "{found} stays in the inbox: the mapping {mapping} {claim}, and does not load: {reason}",
    ),
    "A117": ProblemType(
        "Hard link",
        "{found} is a hard link in a folder that others may write to; it stays in the inbox and is not read",
    ),
    "A118": ProblemType("Hidden files", "skipped because their names begin with a dot (arrival.ignore): {names}"),
    "A119": ProblemType("Left for the next run", "a run takes at most {limit}; files that wait in the inbox: {count}"),
    "A120": ProblemType(
        "Not in this ledger", "{found} was processed before as {earlier}, of which this ledger knows nothing"
    ),
    # reading
    "R201": ProblemType("File cannot be read", "the file cannot be read: {reason}"),
    "R202": ProblemType("File is empty", "the file holds no rows"),
    "R203": ProblemType("Wrong encoding", "the text is not {encoding}: first bad byte at offset {offset}, line {line}"),
    "R204": ProblemType(
        "Header not found", "no row holds the mapped columns; row {row} comes closest but lacks {missing}"
    ),
    "R205": ProblemType("Row of the wrong length", "number of cells: {cells} in the row, {columns} in the header"),
    "R206": ProblemType("Quote never closed", "a quote opened in row {row} is never closed"),
    "R207": ProblemType("Error value", "the cell holds the Excel error {found}"),
    "R208": ProblemType("Formula without a value", "the formula has no saved value"),
    "R209": ProblemType("Control character", "the cell holds a control character (code {character})"),
    "R210": ProblemType("Sheet not found", "no sheet is named {expected}; the workbook has {sheets}"),
    "R211": ProblemType("Column twice", "the column {found} appears in the header more than once: {columns}"),
    "R212": ProblemType("Cell too long", "the cell holds {length} characters; at most {limit} are read"),
    "R213": ProblemType(
        "Quote in the wrong place", "text follows a closing quote, so it is not clear where the value ends"
    ),
    "R214": ProblemType(
        "Row far below the table", "the row is below {blank} blank rows; it and those after it are not read"
    ),
    "R215": ProblemType(
        "No header row",
        "no header row found: none of the first {rows} rows of {looked} holds one of the labels {missing}",
    ),
    "R231": ProblemType("Over a limit of reading", "{reason}; at most {limit} are read ({setting})"),
    "R232": ProblemType("Reading stopped", "reading the file was stopped: {reason} ({setting})"),
    "R233": ProblemType("Reading failed", "the reader of this kind of file fails on it: {reason}"),
    "R234": ProblemType(
        "Document type or entity", "its part {part} declares a document type or an entity, which a table does not need"
    ),
    "R221": ProblemType("Scientific notation", 'numbers are in scientific notation, such as "{found}" ({rows})'),
    "R222": ProblemType(
        "Digits lost", 'numbers of more than 15 digits lose their last digits, such as "{found}" ({rows})'
    ),
    "R223": ProblemType(
        "Leading zeros lost", 'values are shorter than the {width} digits of the others, such as "{found}" ({rows})'
    ),
    "R224": ProblemType("Text turned into dates", 'dates appear among other values, such as "{found}" ({rows})'),
    "R254": ProblemType("Words for no value", 'words for no value are read as texts, such as "{found}" ({rows})'),
    "R253": ProblemType(
        "Identifiers with decimals", 'numbers end in decimals in a column of texts, such as "{found}" ({rows})'
    ),
    "R225": ProblemType("Mixed date styles", "the dates of the column are written in different styles: {styles}"),
    "R226": ProblemType("Garbled letters or HTML", 'garbled letters or HTML, such as "{found}" ({rows})'),
    "R227": ProblemType(
        "Numbers as text", 'text that looks like a number appears among {numbers} numbers, such as "{found}" ({rows})'
    ),
    "R228": ProblemType("Invisible characters", "values contain invisible characters ({rows})"),
    "R249": ProblemType("Identifiers look alike", '"{found}" and "{other}" look alike ({rows})'),
    "R235": ProblemType("Archive contradicts itself", "the archive contradicts itself: {reason}"),
    "R236": ProblemType("Row of a fix file twice", "a row of {key} appears here more than once: rows {rows}"),
    "R237": ProblemType("Row of a fix file missing", "{key} lacks row {rows} of {of}"),
    "R238": ProblemType("Several sheets hold the table", "more than one sheet holds rows of the table: {sheets}"),
    "R290": ProblemType(
        "Not examined for damage", "an internal error prevented the damage checks of the columns: {reason}"
    ),
    "R239": ProblemType("Only a header", "there is a header but no row below it"),
    "R240": ProblemType(
        "Cell or row twice", "{what} appears in the sheet {sheet} more than once; it is not clear which one counts"
    ),
    "R241": ProblemType(
        "Possibly misspelled heading", 'column "{heading}" ({cell}) is not used. Did you mean "{meant}"?'
    ),
    "R250": ProblemType("Column missing", "there is no column {missing}, and these columns are not read: {unused}"),
    "R255": ProblemType("New column not read", "columns are not read that earlier files did not have: {found}"),
    "R257": ProblemType("Column gone", "columns are missing that all earlier files had: {found}"),
    "R251": ProblemType("Line twice", "lines of one record are equal in every column ({rows})"),
    "R245": ProblemType("Sheet not read", "the mapping does not read other sheets with the same columns: {sheets}"),
    "R252": ProblemType("Struck-out rows are read", "rows that are struck out are read like the others: {rows}"),
    "R256": ProblemType("Hidden rows are read", "hidden rows are read like the others: {rows}"),
    "R247": ProblemType("Cells beside the table", 'cells beside the table are not read, such as "{found}" ({rows})'),
    "R242": ProblemType("Possible row of totals", 'a row begins with "{found}", like a row of totals ({rows})'),
    "R243": ProblemType(
        "Repeated heading", 'the heading "{label}" is expected {expected}; it is in the columns {columns}'
    ),
    "R244": ProblemType(
        "Repeated headings not in one order",
        'in repetition {number} of the headings {order}, "{label}" belongs in column {at}; found "{found}"',
    ),
    # conversion
    "C301": ProblemType("Value missing", "a value is missing"),
    "C302": ProblemType("Not a number", '"{found}" is not a number'),
    "C303": ProblemType("Not a whole number", '"{found}" is not a whole number'),
    "C304": ProblemType("Not a date", '"{found}" is not a valid date or time; expected {expected}'),
    "C305": ProblemType("Out of range", '"{found}" is out of range; expected {expected}'),
    "C306": ProblemType("Not in the list", '"{found}" is not in the list: {expected}'),
    "C307": ProblemType("Unit that does not fit", '"{found}" has a unit that does not fit here; expected {expected}'),
    "C308": ProblemType("Not a country", '"{found}" is not a country'),
    "C309": ProblemType("Not a currency", '"{found}" is not a currency code'),
    "C310": ProblemType("Not yes or no", '"{found}" is neither yes nor no'),
    "C311": ProblemType("Not a time zone", '"{found}" is not the name of a time zone'),
    "C312": ProblemType("Text too long", '"{found}" has {length} characters; at most {expected} are allowed'),
    "C313": ProblemType("Not in the expected form", '"{found}" is not in the expected form'),
    "C314": ProblemType("Time that does not exist", '"{found}" does not exist in {timezone}: the clocks went forward'),
    "C315": ProblemType("Time that exists twice", '"{found}" happens twice in {timezone}: the clocks went back'),
    "C316": ProblemType("Ambiguous number", '"{found}" can be read as {first} or as {second}'),
    "C317": ProblemType(
        "In a set of columns that is not read", '"{found}" is in an extra set of columns; only {count} sets are read'
    ),
    "C322": ProblemType(
        "Identifier in scientific notation", '"{found}" is a number in scientific notation, so its digits are lost'
    ),
    "C323": ProblemType("Incomplete change", "{reason}"),
    "C318": ProblemType("Date far away", "the date {day} is {bound}"),
    "C324": ProblemType("Delivery before pickup", "the delivery ends on {day}, before the pickup on {pickup}"),
    "C320": ProblemType("In no range", "{value} is in no range of the table {table}; the nearest is {nearest}"),
    "C321": ProblemType("Several rows fit", "{table} has different values for {key} in its rows {rows}"),
    "C319": ProblemType(
        "Postal code too short", "the postal code {code} of {country} has {count} digits instead of {digits}"
    ),
    # grouping, joining, checks
    "G401": ProblemType("Rows disagree", "the rows of {key} disagree: {values}"),
    "G402": ProblemType("Identifier twice", "{key} is in more than one row: {rows}"),
    "G403": ProblemType("Partner row missing", "{key} has no row in {table}"),
    "G404": ProblemType("Partner row left over", "{key} has a row here but none in {table}"),
    "G405": ProblemType("Row without identifier", "{column} is blank, so the row belongs to no record"),
    "G406": ProblemType("Check failed", "{say}"),
    "G407": ProblemType("Calculation failed", "{target} cannot be calculated: {reason}"),
    "G408": ProblemType("Total does not agree", "{column} in the row of totals: {found}; the rows add up to {sum}"),
    "G409": ProblemType("Totals missing", "there is no row with the totals; the end of the file may be cut off"),
    # the contract's check of a finished record
    "K501": ProblemType("Not as the interface requires", "{path} {text}"),
    "K502": ProblemType("Value outside the named ones", '{path} is "{found}"; the interface names {expected}'),
    # from the ledger
    "L601": ProblemType("Changed since it was accepted", "{key} was accepted before with other values: {fields}"),
    "L602": ProblemType(
        "Earlier outcome unknown", "the outcome of an earlier call for {key} is unknown and verified first"
    ),
    "L603": ProblemType("Same values twice", "{key} came before with the same values, which are sent once"),
    "L605": ProblemType(
        "Older version first", "another version of {key} came first and had not been sent yet: {fields}"
    ),
    "L604": ProblemType("Refused before", "{key} was refused before with the same values: {text}"),
    "L607": ProblemType("Waits for its order or tender", "waits for {parent}: {why}"),
    "L610": ProblemType(
        "Still waiting",
        "waiting for their order or tender since earlier runs: {count}, the oldest ({oldest}) since {since}",
    ),
    "L608": ProblemType(
        "Possible duplicate",
        "{key} was sent {sends} times because an answer was lost or its batch was refused; the exchange may have it more than once",
    ),
    "L609": ProblemType(
        "Held after the first were refused",
        "the first {count} records of a new mapping or folder were all refused, so the rest was not sent: {text}",
    ),
    "L611": ProblemType(
        "Held for the share of errors",
        "{invalid} of {count} records of {found} are invalid, more than {limit}, so none of them was sent",
    ),
    "L612": ProblemType(
        "Read the other way",
        '"{proof}" is written with {written}, but the column is read with {read}: {count} more values, such as "{found}", would be misread',
    ),
    "L613": ProblemType("Run did not finish", "run {run} did not finish; its work and its files are reported here"),
    "L614": ProblemType(
        "Cannot be verified",
        "{count} of {total} {subject}s cannot be verified: the listing shows {listed} of {held} records ({why})",
    ),
    "L615": ProblemType("Reports of an earlier run are missing", "run {run} {lacks}"),
    "L616": ProblemType(
        "Invalid here, accepted before",
        "this version is invalid; the exchange has the version of {key} that was accepted in run {run}",
    ),
    "L617": ProblemType(
        "Valid elsewhere", "this version is invalid; the version of {key} in {file} is valid and is sent"
    ),
    "L618": ProblemType("Deleted since it was accepted", "{key} was accepted with the same values and deleted since"),
    "L619": ProblemType(
        "Older file again", "these are older values of {key}: another file has changed, corrected or deleted them since"
    ),
    "L626": ProblemType(
        "Blank now, not cleared",
        "values of {key} are blank now, and the exchange keeps those that were sent before: {fields}",
    ),
    "L627": ProblemType("Fewer items than before", "this update replaces all {before} {list} of {key} by {after}"),
    "L628": ProblemType(
        "Times of another time zone", "the times are in the time zone {own}, but those of {key} are in {other}"
    ),
    "L620": ProblemType("Newer file has it", "{file} is newer and still holds {key}, so {key} is not deleted"),
    "L621": ProblemType(
        "Columns changed", "columns of earlier files are missing: {missing}; new ones are not read: {found}"
    ),
    "L623": ProblemType(
        "New sheet not read", 'the sheet "{found}" has the same columns and is not read; earlier files did not have it'
    ),
    "L624": ProblemType(
        "Sheet no longer read",
        'the sheet "{found}" had the table in earlier files, and the table is not found on it now',
    ),
    "L625": ProblemType(
        "File may be cut off", "the file ends within a line, which earlier files did not: it may be cut off"
    ),
    "L622": ProblemType("Number of another sender", "the sender {other} has a record with the number {key}"),
    "L606": ProblemType("Rows not accounted for", "an internal error: {reason}"),
    # from the exchange
    "X701": ProblemType("Refused by the exchange", "the exchange refused it: {text}"),
    "X702": ProblemType("Outcome unknown", "it was sent, but the outcome is unknown: {text}"),
    "X703": ProblemType("Not sent yet", "it was not sent: {text}"),
}


NOT_EXAMINED = "R290"

NOT_IN_LEDGER = "A120"

PROPOSING_VALUES = frozenset({"C302", "C306", "C308", "C309", "C311", "G403", "G404"})
"""Problems whose hint may propose a value for the whole cell. Hints of others may concern a part of it, such as the unit."""

FOR_ITS_SENDER = {
    "A101": "no mapping matches a file named {found}",
    "A120": "{found} was processed before, and is not sent twice",
    "L622": "another sender has a record with the number {key}",
}
"""Templates for the sender of a file, where those of the catalogue mention the files of other senders."""


@dataclass(frozen=True, slots=True)
class Where:
    """A place in a shipper's file; unknown parts are empty. `row` counts from 1, `cell` is such as J14, `path` is in the payload."""

    file: str = ""
    sheet: str = ""
    row: int = 0
    column: str = ""
    cell: str = ""
    path: str = ""

    def __str__(self) -> str:
        """One short place: `orders.xlsx:Orders!J14`, `orders.xlsx:Orders!14` or `orders.csv:14 Weight`."""
        if self.cell:
            return f"{self.file}:{self.sheet}!{self.cell}"
        place = f"{self.file}:{self.sheet}" if self.sheet else self.file
        place += f"{'!' if self.sheet else ':'}{self.row}" if self.row else ""
        return f"{place} {self.column}".strip() if self.column else place

    def to_json(self) -> dict[str, Any]:
        """The parts that are known, as JSON values."""
        return {name: getattr(self, name) for name in Where.__slots__ if getattr(self, name)}


NOWHERE = Where()

_COUNTS = frozenset({"count", "invalid", "length", "limit", "numbers", "sends", "size"})
"""Values that are counts and are shown with thousands separators, unlike row and line numbers."""
_INTEGER_MAX = 2**53


def column_letters(position: int) -> str:
    """The letters of a column position counted from 0, as spreadsheets show them: 0 is A, 26 is AA."""
    letters, position = "", position + 1
    while position:
        position, rest = divmod(position - 1, 26)
        letters = chr(65 + rest) + letters
    return letters


@dataclass(frozen=True, slots=True)
class Problem:
    """A problem in the data: a code of the catalogue, a place, the sender's value, and what to do. `also` are the other cells involved,
    such as the same date in another row of the order: any of them may be wrong. `because` is the problem that this one follows from (its
    code, place and value): correcting that one settles both.
    """

    code: str
    where: Where = NOWHERE
    found: str = ""
    values: Mapping[str, Any] = field(default_factory=dict)
    """The values for its message. Numbers stay numbers; `shown` formats them for people."""
    hint: str = ""
    level: Level = "error"
    also: tuple[Where, ...] = ()
    because: "Problem | None" = None

    @property
    def title(self) -> str:
        """The heading under which problems of this code are counted."""
        return CATALOGUE[self.code].title

    @property
    def text(self) -> str:
        """The message in one sentence, without place and hint."""
        filling = {"found": self.found, "column": self.where.column, **self.shown()}
        return CATALOGUE[self.code].template.format(**filling)

    def shown(self, number: Callable[[int], str] = "{:,}".format) -> dict[str, str]:
        """The values as text for people: counts as `number` writes them."""
        return {name: _shown(name, value, number) for name, value in self.values.items()}

    def number(self, name: str, default: int = 0) -> int:
        """One of the values as a number; the default if it is absent or not a number. Old ledgers store some as texts such as 1,000."""
        value = self.values.get(name, default)
        if isinstance(value, int):
            return value
        digits = str(value).replace(",", "")
        return int(digits) if digits.isascii() and digits.isdecimal() else default

    @property
    def text_for_its_sender(self) -> str:
        """The message for the sender of the file: mentions nothing of other senders."""
        template = FOR_ITS_SENDER.get(self.code)
        return self.text if template is None else template.format(found=self.found, **self.shown())

    def __str__(self) -> str:
        """One grep-able line: `place: CODE level: text (hint)`."""
        hint = f" ({self.hint})" if self.hint else ""
        place = f"{self.where}: " if self.where != NOWHERE else ""
        return f"{place}{self.code} {self.level}: {self.text}{hint}"

    def to_json(self) -> dict[str, Any]:
        """The problem as JSON values, for the ledger and reports; `from_json` returns an equal problem."""
        values = {name: value if _is_number(value) else str(value) for name, value in self.values.items()}
        also: dict[str, Any] = {"also": [where.to_json() for where in self.also]} if self.also else {}
        if self.because is not None:
            also["because"] = self.because.to_json()
        return {
            "code": self.code,
            "where": self.where.to_json(),
            "found": self.found,
            "values": values,
            "hint": self.hint,
            "level": self.level,
            **also,
        }

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> Self:
        """The problem from the result of `to_json`; values other than whole numbers become texts."""
        return cls(
            stored["code"],
            Where(**stored["where"]),
            stored["found"],
            dict(stored["values"]),
            stored["hint"],
            stored["level"],
            tuple(Where(**where) for where in stored.get("also", ())),
            cls.from_json(stored["because"]) if "because" in stored else None,
        )


def _is_number(value: object) -> bool:
    """Whether it is a whole number that every JSON parser represents exactly."""
    return type(value) is int and abs(value) < _INTEGER_MAX


def _shown(name: str, value: object, number: Callable[[int], str]) -> str:
    return number(value) if name in _COUNTS and isinstance(value, int) and _is_number(value) else str(value)

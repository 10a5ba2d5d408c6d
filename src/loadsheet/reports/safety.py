"""How foreign text is written so that it stays text: in CSV files that a spreadsheet program may open, and in workbooks.

Owns: the rules against formula injection (CWE-1236) and the limits of a workbook cell. Reports echo what shippers and the
exchange wrote, so every text goes through here. What people read has no control characters either; data that programs read keeps its own.
"""

import csv
import io
import re
from collections.abc import Sequence

from loadsheet.control_characters import has_control, visible

CELL_MAX = 32_767
_CUT = " … (cut, {length} characters)"

# A spreadsheet takes a cell that begins with one of these for a formula, also in full width, and after blanks or quotes.
_STARTS = "=+\\-@\uff1d\uff0b\uff0d\uff20"
_FORMULA = re.compile(rf"[\t\r\n]|[\s\"'\u201c\u201d]*[{_STARTS}]")
# Read with another delimiter than ours, a text goes on in the next cell or row: what begins there is a beginning too.
_INNER = re.compile(rf"([;\t\r\n|]\s*)(?=[{_STARTS}])")
# For a whole line, each text behind a NUL: all that can be dangerous begins behind one of few signs, which are quickly found.
_RISK = re.compile(rf"[\0;\t\r\n|](?:[\s\"'\u201c\u201d]*[{_STARTS}]|(?<=\0)[\t\r\n])")
# Nearly all lines have no such sign but hyphens within words, which is seen quicker still.
_HYPHEN = re.compile(r"-(?<![^\0;|\s\"'\u201c\u201d]-)")
_NUMBER = re.compile(r"[+-]?(\d[\d.,' \u00a0\u202f]*)?\d([eE][+-]?\d+)?%?")


def csv_line(texts: Sequence[str]) -> Sequence[str]:
    """The texts of one line of a CSV report, each as `csv_text` gives it; nearly all lines are found harmless in one look."""
    return [csv_text(text) for text in texts] if _RISK.search("\0".join(("", *texts))) else texts


def csv_row(texts: Sequence[str]) -> str:
    """One line of a CSV report that people read, each text as `csv_text` gives it and without control characters: commas, CRLF
    (RFC 4180).
    """
    joined = "\0".join(texts)
    if is_harmless(joined, len(texts)):
        return joined.replace("\0", ",") + "\r\n"
    line = io.StringIO(newline="")
    csv.writer(line).writerow(csv_line([visible(text) for text in texts]))
    return line.getvalue()


def is_harmless(joined: str, count: int) -> bool:
    """Whether so many texts, joined by NUL, can stand in a CSV report just as they are, with a comma between them."""
    quoted = '"' in joined or "," in joined or "\n" in joined or "\r" in joined or joined.count("\0") >= count
    if quoted or has_control(joined.replace("\0", "")):
        return False
    return not (_has_signs(joined) and _RISK.search("\0" + joined))


def _has_signs(joined: str) -> bool:
    """Whether a tab stands in these texts, or a sign that a formula could begin with; hyphens within words do not count."""
    rare = "=" in joined or "+" in joined or "@" in joined or "\t" in joined
    wide = "\uff1d" in joined or "\uff0b" in joined or "\uff0d" in joined or "\uff20" in joined
    return rare or wide or _HYPHEN.search(joined) is not None


def csv_text(text: str) -> str:
    """A text for a CSV report: one that a spreadsheet could take for a formula gets an apostrophe; plain numbers stay."""
    if _NUMBER.fullmatch(text):
        return text
    armed = f"'{text}" if _FORMULA.match(text) else text
    return _INNER.sub(r"\1'", armed)


def sheet_text(text: str) -> str:
    """A text for a workbook cell: cut, with a mark, to what a cell can hold. XlsxWriter escapes control characters itself."""
    if not fits(text):
        length = _units(text)
        mark = _CUT.format(length=length)
        text = text.encode("utf-16-le")[: 2 * (CELL_MAX - len(mark))].decode("utf-16-le", "ignore") + mark
    if text.startswith("<r>") and text.endswith("</r>"):
        text += " "  # XlsxWriter takes such a text for rich-text markup and would write it into the XML as it is
    return text


def fits(text: str) -> bool:
    """Whether a workbook cell holds all of a text."""
    return len(text) * 2 <= CELL_MAX or _units(text) <= CELL_MAX


def _units(text: str) -> int:
    return len(text.encode("utf-16-le", "surrogatepass")) // 2

"""A draft as the text of a mapping file: readable YAML with the evidence after each line.

Owns: order, spacing and comments of the file. Decides nothing.
"""

import re
import textwrap
from collections.abc import Collection, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

from loadsheet.contract import EVENTS
from loadsheet.display_text import count_of, one_line
from loadsheet.inbox.files import shown_name
from loadsheet.mapping.yamlfile import flow
from loadsheet.mapping_tools.columns import CHECK, MOMENTS, a_few
from loadsheet.mapping_tools.drafts import FILL_IN, Draft, DraftColumn, DraftTable, unread_actions
from loadsheet.mapping_tools.notation_guesses import compatible
from loadsheet.mapping_tools.payload_parts import Payload
from loadsheet.mapping_tools.relations import have_same_headings
from loadsheet.mapping_tools.sheet_profiles import Sheet
from loadsheet.mapping_tools.suggest_payload import UNDER_CONSTANTS, fill

_WIDTH = 140


def write_draft(draft: Draft) -> str:
    """The whole file."""
    payload = fill(draft)
    body = [
        *_source(draft, payload),
        "",
        *_columns(draft),
        *_group(draft),
        *_order(draft, payload),
        *_constants(payload),
        *_derived(draft, payload),
        "",
        "# What the exchange gets. Optional fields without a value are left out.",
        "payload:",
        *(_commented(f"{'  ' * line.depth}{line.text}", line.remark) for line in payload.lines),
    ]
    return "\n".join([*_head(draft, body), *body]) + "\n"


def marks_in(text: str) -> dict[str, int]:
    """The number of lines of a draft with each mark, its head and the uses of constants aside."""
    lines = [line for line in text.splitlines() if not line.startswith("# ") and not line.endswith(UNDER_CONSTANTS)]
    return {mark: sum(mark in line for line in lines) for mark in (FILL_IN, CHECK)}


def draft_as_json(draft: Draft, text: str) -> dict[str, Any]:
    """A draft that was written, as values for JSON: the operation, each column with its fields, the marks, and what is not read."""
    fields: dict[DraftColumn, list[str]] = {}
    for path, drafted in draft.by_path.items():
        fields.setdefault(drafted, []).append(path)
    unused = set(draft.unused)
    columns = [
        {
            "table": table.name,
            "label": drafted.column.label,
            "name": drafted.name,
            "used": drafted in _in_use(table, unused),
            "fields": fields.get(drafted, []),
            "keys": draft.keys_of(drafted),
            "is_key": "key" in drafted.keys,
            "of_record": not draft.varies(drafted),
            "doubt": next((draft.doubts[path] for path in fields.get(drafted, []) if path in draft.doubts), ""),
            "evidence": drafted.remark,
        }
        for table in draft.tables
        for drafted in table.columns
    ]
    return {
        "mapping": draft.name,
        "target": draft.operation.name,
        "why": draft.why,
        "group": draft.group,
        "columns": columns,
        "marks": marks_in(text),
        "warnings": list(warnings(draft)),
        "draft": text,
    }


def _head(draft: Draft, body: list[str]) -> Iterator[str]:
    marks = marks_in("\n".join([_target(draft), *body]))
    files = ", ".join(dict.fromkeys(table.sheet.path.name for table in draft.tables))
    yield _comment(f"A draft from {files}, made by `loadsheet mapping suggest`. Review every line before you use it.")
    yield f"# {FILL_IN} marks ({marks[FILL_IN]}): the draft does not load until they are filled in."
    yield f"# {CHECK} marks ({marks[CHECK]}): guesses that the sheet does not prove."
    yield "# Then: loadsheet mapping lint, loadsheet mapping preview FILE, loadsheet check FILE"
    yield from map(_comment, (*draft.evidence, *warnings(draft)))
    yield f"mapping: {draft.name}"
    yield "version: 1"
    yield _target(draft)
    yield ""


def warnings(draft: Draft) -> Iterator[str]:
    """Warnings for the user that are also printed."""
    for sheet, why in draft.left_out:
        yield f"not read: {sheet.title or sheet.path.name}: {why}"
    if draft.chooser is None:
        for text in unread_actions(draft.main.sheet):
            yield f"{CHECK}: {text} may say which rows are new, changed or cancelled; all are sent by one operation"
    for table in draft.tables:
        yield from _unread_in(table.sheet)


def _unread_in(sheet: Sheet) -> Iterator[str]:
    """What a draft does not read of a sheet, and headings that stand twice."""
    if sheet.unnamed:
        letters = ", ".join(sheet.unnamed)
        yield f"not read: column {letters} of {sheet.title or sheet.path.name} has values but no heading"
    if sheet.above:
        yield f"not read: the cells above the headings of {sheet.title or sheet.path.name}, such as {sheet.above}"
    for word in sheet.outside.titles:
        yield f"not read: the rows that begin with {word}, titles of groups"
    for one in sheet.outside.subtotals:
        yield f"not read: the rows that {'end' if one.found_by == 'ends_with' else 'begin'} with {one.text.strip()}, subtotals"
    if sheet.is_cut:
        yield f"only the first {len(sheet.rows):,} rows of {sheet.path.name} were looked at"
    if sheet.uneven:
        rows = count_of(sheet.uneven, "row")
        yield f"not read: {rows} of {sheet.path.name} with more or fewer cells than there are headings"
    for label in sheet.doubles:
        yield f"{CHECK}: several columns have the heading {label}; their order tells them apart"


def _target(draft: Draft) -> str:
    choosing = draft.chooser
    if choosing is not None and draft.chosen_by is not None:
        remark = f"{CHECK}: {choosing.column.label} gives the operation of each row"
        remark += f"; put fields that changes do not need under payload_of; {draft.why}"
        return _commented(f"target: {{col: {draft.chosen_by.name}}}", remark)
    if choosing is not None:
        codes = ", ".join(choosing.codes)
        remark = f"{CHECK}: {choosing.column.label} ({codes}) marks new, changed and cancelled rows; with --target {draft.operation.subject} it chooses the operation"
        return _commented(f"target: {draft.operation.name}", remark)
    if not draft.is_confirmed:
        return _commented("target: null", f"{FILL_IN} such as {draft.operation.name}; {draft.why}")
    return _commented(f"target: {draft.operation.name}", draft.why)


def _source(draft: Draft, payload: Payload) -> Iterator[str]:
    paths = list(dict.fromkeys(table.sheet.path for table in draft.tables))
    several = len(paths) > 1
    yield "source:"
    place = ": files that belong together lie in a folder of the inbox" if several else ""
    yield _commented(f"  files: [{flow(_pattern(paths[0], several=several))}]", f"{CHECK} the pattern{place}")
    if several:
        others = (table for table in draft.tables[1:] if table.sheet.path != paths[0])
        companions = {table.name: _pattern(table.sheet.path, several=True) for table in others}
        yield f"  companions: {flow(companions)}"
    encodings = {table.sheet.encoding for table in draft.tables if table.sheet.encoding}
    if encodings:
        known = ["utf-8-sig", *sorted(encodings - {"utf-8", "utf-8-sig"})]
        yield _commented(f"  encoding: {flow(known)}", _guessed_encoding(draft))
        delimiters = dict.fromkeys(table.sheet.delimiter for table in draft.tables if table.sheet.encoding)
        yield "  delimiter: [" + ", ".join('"\\t"' if one == "\t" else f'"{one}"' for one in delimiters) + "]"
        if any(table.sheet.is_unquoted for table in draft.tables):
            yield _commented("  quote: none", f"{CHECK}: a quote is never closed, so quotes belong to the values")
    if blank := sorted({text for table in draft.tables for text in table.sheet.blank}):
        yield _commented(f"  blank: {flow(blank)}", f"{CHECK}: these cells count as blank")
    yield _commented(f"  locale: {draft.notation.locale}", draft.notation.locale_evidence)
    if formats := _shared_formats(draft):
        yield _commented(f"  dates: [{', '.join(f'{chr(34)}{one}{chr(34)}' for one in formats)}]", "for dates as text")
    yield from _zone(payload)
    yield "  tables:"
    for table in draft.tables:
        rules = list(_rules(table))
        alike = (other.title for other in _other_sheets(table.sheet, draft) if have_same_headings(other, table.sheet))
        remark = "".join(f"{CHECK}: {title} has the same headings, and is not read" for title in islice(alike, 1))
        if draft.same_kind and table is draft.main:
            titles = a_few(sheet.title for sheet in draft.same_kind)
            remark = f"{CHECK}: every sheet with these headings is read, here {titles}"
        yield _commented(f"    {table.name}:{_table(table, draft, several=several, alone=not rules)}", remark)
        yield from rules


def _rules(table: DraftTable) -> Iterator[str]:
    """The keys of a table on separate lines: its sets, and the rules for rows outside the table."""
    if table.sets is not None:
        is_event = table.sets.word is not None
        what = "each date becomes an event with this code" if is_event else "each set becomes a package"
        codes = table.sets.codes
        numbers = [str(number) for number in range(1, len(codes) + 1)]
        yield _commented(f"      sets: {len(codes) if list(codes) == numbers else flow(codes)}", f"{CHECK}: {what}")
        if table.sets.repeated:
            yield "      repeated: true"
        yield f"      filled_by: [{', '.join(table.named(column).name for column in table.sets.filled_by)}]"
    if table.ignore:
        what = ", ".join(_left_out(table)) or "a total row"
        yield _commented(f"      ignore_rows: '{table.ignore}'", f"{CHECK}: {what}, not records")
    if table.sheet.outside.at_blank:
        yield _commented("      stop_at_blank: true", f"{CHECK}: what stands below the blank row is no record")
    for key, words in (("totals", table.sheet.outside.totals), ("footer", table.sheet.outside.footer)):
        what = "total rows" if key == "totals" else "a note below the rows"
        if words:
            yield _commented(f"      {key}: {{begins_with: {flow(words)}}}", f"{CHECK}: {what}, not records")


def _left_out(table: DraftTable) -> Iterator[str]:
    """What the rows are that the rule of a table leaves out, except totals."""
    if table.sheet.outside.titles or table.sheet.outside.subtotals:
        yield "titles of groups or subtotals"
    if table.sheet.outside.sums:
        yield "sums"
    if table.sheet.outside.prefilled:
        yield "rows filled in beforehand"
    if table.sheet.explained:
        yield "the row that explains the headings"
    if table.has_heads:
        yield "heads of records with several rows, with sums of these"


def _zone(payload: Payload) -> Iterator[str]:
    if payload.zone_column is not None:
        text = f"  timezone: {{col: {payload.zone_column.name}, default: {payload.zone}}}"
        yield _commented(text, payload.zone_remark)
    elif payload.zone_remark:
        yield _commented(f"  timezone: {payload.zone or 'null'}", payload.zone_remark)


def _table(table: DraftTable, draft: Draft, *, several: bool, alone: bool) -> str:
    if table.source is not None:
        return f"\n      from: {table.source.name}"
    parts = [f"file: {table.name}"] if several else []
    if table.join:
        parts.append(f"join: {{to: {draft.main.name}, on: {{{table.join}}}}}")
    if table.sheet.header_rows > 1:
        parts.append(f"header_rows: {table.sheet.header_rows}")
    if draft.same_kind:
        parts.append('sheet: "*"')
    elif _other_sheets(table.sheet, draft):  # the name of an only one may be another one in the next file
        parts.append(f"sheet: [{flow(table.sheet.title)}]")
    if not alone:
        return "\n".join(["", *(f"      {part}" for part in parts)])
    return " {" + ", ".join(parts) + "}"


def _other_sheets(sheet: Sheet, draft: Draft) -> list[Sheet]:
    """The other tables in the workbook of a sheet; none for a text file."""
    sheets = [*(table.sheet for table in draft.tables if table.source is None), *(other for other, _ in draft.left_out)]
    return [other for other in sheets if sheet.title and other.path == sheet.path and other.title != sheet.title]


def _columns(draft: Draft) -> Iterator[str]:
    yield "# What the shipper sends. Comments give the evidence from this file."
    formats = _shared_formats(draft)
    yield "columns:"
    for table in draft.tables:
        in_use = _in_use(table, set(draft.unused))
        pad = "  "
        if draft.is_joined:
            yield f"  {table.name}:"
            pad = "    "
        blank = [one for one in table.columns if one not in in_use and _says_nothing(one)]
        shown = [one for one in table.columns if one not in blank]
        width = max(len(drafted.name) for drafted in shown) + 1
        for drafted in shown:
            items = draft.keys_of(drafted).items()
            keys = {key: value for key, value in items if not (key == "formats" and set(value) <= set(formats))}
            text = f"{pad}{f'{drafted.name}:':<{width}} {flow(keys)}"
            if drafted in in_use:
                yield _commented(text, drafted.remark)
            else:
                yield _commented(f"{pad}# {text.strip()}", f"fills no field; {drafted.remark}")
        if blank:
            labels = ", ".join(one_line(drafted.column.label) for drafted in blank)
            lead = f"{pad}# "
            yield from textwrap.wrap(
                f"fill no field, all cells are blank: {labels}", _WIDTH, initial_indent=lead, subsequent_indent=lead
            )


def _says_nothing(drafted: DraftColumn) -> bool:
    return not drafted.column.cells.filled_count and CHECK not in drafted.remark


def _in_use(table: DraftTable, unused: Collection[DraftColumn]) -> set[DraftColumn]:
    """The columns that a mapping has to read: those that fill a field or that a rule needs, and at least one."""
    ruling = set(re.findall(r"[a-z0-9_]+", f"{table.ignore} {table.join.split(':')[0]}"))
    found = {
        drafted
        for drafted in table.columns
        if drafted not in unused or drafted.name in ruling or drafted.column.occurrence  # they are counted
    }
    return found or set(table.columns[:1])


def _group(draft: Draft) -> Iterator[str]:
    if draft.group:
        yield ""
        yield "group:"
        yield f"  by: {flow(draft.group)}"
        unused = set(draft.unused) - set(draft.by_path.values())
        names = {drafted.name for drafted in draft.main.columns if drafted not in unused}
        same = flow([name for name in draft.one_value if name in names])
        yield _commented(f"  one_value: {same}", "the same in nearly every group")


def _order(draft: Draft, payload: Payload) -> Iterator[str]:
    """Events of a record are sent as they happened: the last one that arrives says how it stands."""
    key = draft.by_path.get(draft.operation.record.key[0])
    text = next((line.text for line in payload.lines if line.text.startswith("status_datetime:")), "")
    words = set(re.findall(r"\w+", text.partition(":")[2]))
    times = [one.name for one in draft.main.columns if one.name in words and one.keys.get("type") in {*MOMENTS, "time"}]
    if draft.operation.name in EVENTS and key is not None and times and not draft.is_joined:
        yield ""
        yield f"order: {flow([key.name, *times])}   # sent oldest first, record by record"


def _constants(payload: Payload) -> Iterator[str]:
    if payload.constants:
        yield ""
        yield "constants:"
        for name, meaning in payload.constants.items():
            yield _commented(f"  {name}: null", f"{FILL_IN}: {meaning}")


def _derived(draft: Draft, payload: Payload) -> Iterator[str]:
    if payload.volume:
        yield ""
        yield "derived:"
        if draft.is_joined:
            yield f"  {draft.tables[-1].name}:"
        pad = "    " if draft.is_joined else "  "
        leaf = f"{pad}volume: {{type: decimal, expr: '{payload.volume}'}}"
        yield _commented(leaf, f"{CHECK}: cubic metres of one piece")


def _shared_formats(draft: Draft) -> list[str]:
    """The date formats of all columns. Empty if they contradict each other, as each column then keeps its own."""
    columns = (drafted for table in draft.tables for drafted in table.columns)
    dated = (drafted for drafted in columns if drafted.keys.get("type") in MOMENTS)
    formats = list(dict.fromkeys(format_ for drafted in dated for format_ in drafted.keys.get("formats", [])))
    return formats if compatible(formats, draft.notation.locale) == formats else []


def _guessed_encoding(draft: Draft) -> str:
    """The remark on an encoding other than UTF-8, with a text to look at; empty if there is none, or no text needs the guess."""
    for sheet in (table.sheet for table in draft.tables):
        texts = [text for column in sheet.columns for text in (column.label, *column.cells.shown) if not text.isascii()]
        if sheet.encoding == "cp1252":
            return next((_read_otherwise(text) for text in texts if _read_otherwise(text)), "")
        if sheet.encoding and not sheet.encoding.startswith("utf-"):
            return f"{CHECK}: guessed by the letters, such as {next(iter(texts), '')}"
    return ""


def _read_otherwise(text: str) -> str:
    """The remark on a text of Western Europe that is another one in the encoding of Central Europe; empty if it is the same there."""
    try:
        other = text.encode("cp1252").decode("cp1250")
    except UnicodeError:
        return ""
    return "" if other == text else f"{CHECK}: guessed by the letters, such as {text}; in cp1250 it is {other}"


def _pattern(path: Path, *, several: bool) -> str:
    """A pattern for similar files: parts with digits become a star. Several files share their folder."""
    path = Path(shown_name(Path(path.name)))
    name = re.sub(r"[0-9][0-9._-]*[0-9]|[0-9]", "*", path.stem) + path.suffix
    return f"{{batch}}/{path.name}" if several else re.sub(r"\*+", "*", name)


def _commented(text: str, remark: str) -> str:
    return f"{text}   {_comment(remark)}" if remark else text


def _comment(text: str) -> str:
    """A comment. File names and cells may hold line ends, behind which a reader of YAML would see keys."""
    return f"# {one_line(text)}"

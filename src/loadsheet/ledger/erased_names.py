"""File names that a forgotten key's files came under: which of them identify it, and how a pseudonym takes their place in the ledger.

Owns: that rule, the pseudonyms, and the statements. Opens no transaction: the verbs of `Maintenance` do.

A name goes if every record that came under it is forgotten, if it contains the key, or if it contains a word of the forgotten records
that stands in no other record and no heading of its files. The pseudonym is made of the number of the first file of that name, not of the
name: so nobody can find the name by trying.
"""

import json
import re
import unicodedata
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from sqlalchemy import Column, Connection, Select, func, or_, select, update

from loadsheet.ledger import codec
from loadsheet.ledger.decisions import FORGET
from loadsheet.ledger.exceptions import chunks
from loadsheet.ledger.schema import (
    attempts,
    decisions,
    drops,
    entries,
    events,
    exceptions,
    files,
    findings,
    meta,
    remarks,
    runs,
    tables,
)
from loadsheet.ledger.statements import streamed_within

ALONE = "every record that came under it is forgotten"
_KNOWN_ENDING = re.compile(r"(\.(csv|tsv|tab|txt|xlsx|xlsm|xls|xlsb|ods))?(\.(gz|zip))?$", re.IGNORECASE)
_WORD = re.compile(r"[^\W_]+")
_LETTERS_MIN, _DIGITS_MIN = 3, 6  # a shorter word of a name, such as a day or a year, identifies nobody

_TEXTS: tuple[Column[str], ...] = (
    files.c.problems,
    tables.c.problems,
    entries.c.problems,
    entries.c.reason,
    attempts.c.detail,
    events.c.reason,
    findings.c.text,
    exceptions.c.verdict,
    exceptions.c.found,
    remarks.c.value,
    runs.c.summary,
    meta.c.value,
)
"""Where texts may mention a file. What people decided is chained by hashes and stays as it is."""


class KeptFile(NamedTuple):
    """A file of a name: its number and run, the hash of its bytes, and where they should be (empty: not kept)."""

    number: int
    run: str
    sha256: str
    kept_as: str


class FileName(NamedTuple):
    """A name that a forgotten key's files came under, what takes its place, and why it has to go (empty: it need not). `files` are those of
    this name.
    """

    name: str
    pseudonym: str
    because: str
    files: tuple[KeptFile, ...]


def names_of(connection: Connection, key: str, mine: Iterable[int]) -> list[FileName]:
    """The names of the files in which a key stood, and names that contain the key, in the order in which they came first; pseudonyms
    are none. `mine` are the ids of the key's entries.
    """
    own = set(mine)
    found: dict[str, None] = {}
    for some in chunks(sorted(own)):
        query = select(files.c.name, func.min(files.c.id)).join(entries, entries.c.drop_id == files.c.drop_id)
        query = query.where(entries.c.id.in_(some)).group_by(files.c.name).order_by(func.min(files.c.id))
        found |= dict.fromkeys(connection.scalars(query))
    if own:
        every = connection.scalars(select(files.c.name).group_by(files.c.name).order_by(func.min(files.c.id)))
        found |= dict.fromkeys(name for name in every if contains_key(name, key))
    forgotten = own | set(connection.scalars(select(decisions.c.entry_id).where(decisions.c.choice == FORGET)))
    judged = [_judged(connection, name, key, own, forgotten) for name in found]
    return [one for one in judged if one.name != one.pseudonym]


def runs_naming(connection: Connection, names: Sequence[FileName]) -> set[int]:
    """The ids of the runs in whose reports these names may stand: they read files of the same bytes, changed entries of these, or told of
    one as an open exception.
    """
    found: set[int] = set()
    for some in chunks(sorted({file.sha256 for one in names for file in one.files})):
        here = select(files.c.drop_id).where(files.c.sha256.in_(some))
        changed = select(events.c.run_id).join(entries, entries.c.id == events.c.entry_id)
        found |= set(connection.scalars(select(drops.c.run_id).where(drops.c.id.in_(here))))
        found |= set(connection.scalars(changed.where(entries.c.drop_id.in_(here)).distinct()))
        found |= runs_listing(connection, here)
    return found


def runs_listing(connection: Connection, of_drops: Select[tuple[int]]) -> set[int]:
    """The ids of the runs while an entry of these drops was an open exception: their work lists hold it."""
    query = select(exceptions.c.run_id, exceptions.c.closed_run_id)
    query = query.join(entries, entries.c.id == exceptions.c.entry_id).where(entries.c.drop_id.in_(of_drops))
    found: set[int] = set()
    for first, last in connection.execute(query.distinct()).all():
        listing = select(runs.c.id).where(runs.c.id >= first)
        found |= set(connection.scalars(listing if last is None else listing.where(runs.c.id <= last)))
    return found


def rename(connection: Connection, names: Sequence[FileName]) -> None:
    """Put the pseudonyms in the place of these names wherever the ledger says them, but for decisions and what was dropped."""
    for one in names:
        here = select(files.c.drop_id).where(files.c.name == one.name)
        named = (tables.c.file == one.name) & tables.c.drop_id.in_(here)
        connection.execute(update(tables).where(named).values(file=one.pseudonym))
        connection.execute(update(files).where(files.c.name == one.name).values(name=one.pseudonym))
        for column in _TEXTS:
            _replace(connection, column, one)


def mentions(one: FileName) -> re.Pattern[str]:
    """Where a text mentions a name: with or without its folders, as JSON writes it too, and as the name of what was made of the file."""
    folder, _, bare = one.name.rpartition("/")
    ending = _KNOWN_ENDING.search(bare)
    stem = bare[: ending.start()] if ending else bare
    folders = f"(?:{_spelled(f'{folder}/')})?" if folder else ""
    after = f"(?:{re.escape(bare[len(stem) :])}(?!\\w)|(?=\\.(?:fix|results|ack)\\.))"
    return re.compile(rf"(?<![\w~-]){folders}{_spelled(stem)}(?P<number>~\d+)?{after}")


def without_name(text: str, one: FileName) -> str:
    """A text with the pseudonym where it mentions the name."""
    stem, dot, ending = one.pseudonym.partition(".")

    def other(found: re.Match[str]) -> str:
        is_whole = not found.string.startswith((".fix.", ".results.", ".ack."), found.end())
        return f"{stem}{found['number'] or ''}{dot + ending if is_whole else ''}"

    return mentions(one).sub(other, text)


def contains_key(name: str, key: str) -> bool:
    """Whether a name contains a key, in any spelling of it: upper and lower case, and signs between its parts, are no difference."""
    parts = [part for word in _words(key) for part in re.findall(r"\d+|\D+", word)]
    if not parts:
        return bool(key.strip()) and key in name
    pattern = r"[\W_]*".join(map(re.escape, parts))
    before = r"(?<!\d)" if parts[0].isdigit() else r"(?<![^\W\d_])"
    after = r"(?!\d)" if parts[-1].isdigit() else r"(?![^\W\d_])"
    return re.search(f"{before}{pattern}{after}", _folded(name)) is not None


def _judged(connection: Connection, name: str, key: str, own: set[int], forgotten: set[int]) -> FileName:
    query = select(files.c.id, runs.c.name, files.c.sha256, files.c.kept_as)
    query = query.join(drops, drops.c.id == files.c.drop_id).join(runs, runs.c.id == drops.c.run_id)
    kept = tuple(
        KeptFile(*row) for row in connection.execute(query.where(files.c.name == name).order_by(files.c.id)).all()
    )
    ending = _KNOWN_ENDING.search(name)
    pseudonym = f"forgotten-{kept[0].number}{ending[0].lower() if ending else ''}"
    return FileName(name, pseudonym, _because(connection, name, key, own, forgotten), kept)


def _because(connection: Connection, name: str, key: str, own: set[int], forgotten: set[int]) -> str:
    """Why a name has to go; empty if it need not."""
    here = select(files.c.drop_id).where(files.c.name == name)
    of_it = select(entries.c.id).where(entries.c.drop_id.in_(here))
    others = (one for one in connection.scalars(of_it) if one not in forgotten)
    if next(others, None) is None and connection.scalar(of_it.where(entries.c.id.in_(own)).limit(1)) is not None:
        return ALONE
    if contains_key(name, key):
        return "it contains the key"
    words = _telling(connection, name, here, own, forgotten)
    return f'"{words[0]}" in it stands in no other record' if words else ""


def _telling(
    connection: Connection, name: str, here: Select[tuple[int]], own: set[int], forgotten: set[int]
) -> list[str]:
    """The words of a name that stand in cells of these entries, and in none of other records and in no heading."""
    mine: set[str] = set()
    wanted = [word for word in _words(name) if len(word) >= (_DIGITS_MIN if word.isdigit() else _LETTERS_MIN)]
    rows = select(entries.c.id, entries.c.rows).where(entries.c.drop_id.in_(here))
    for row in streamed_within(connection, rows.where(entries.c.id.in_(own))) if wanted else ():
        mine |= _words_of(row.rows) & set(wanted)
    if mine:
        heads = connection.execute(
            select(tables.c.header, tables.c.sheet, tables.c.name).where(tables.c.drop_id.in_(here))
        )
        for header, sheet, table in heads.all():
            mine -= set(_words(" ".join((*codec.decode_cells(header), sheet, table))))
    for row in streamed_within(connection, rows) if mine else ():
        if row.id not in forgotten:
            mine -= _words_of(row.rows)
    return [word for word in wanted if word in mine]


def _words_of(rows: bytes) -> set[str]:
    return {word for row in codec.decode_rows(rows) for cell in row.cells for word in _words(cell)}


def _words(text: str) -> list[str]:
    return _WORD.findall(_folded(text))


def _folded(text: str) -> str:
    return unicodedata.normalize("NFKC", text).casefold()


def _spelled(text: str) -> str:
    """A pattern for a text as it is, and as JSON writes it."""
    spellings = dict.fromkeys((text, json.dumps(text, ensure_ascii=False)[1:-1], json.dumps(text)[1:-1]))
    return f"(?:{'|'.join(map(re.escape, spellings))})"


def _replace(connection: Connection, column: Column[str], one: FileName) -> None:
    table = column.table
    keys = list(table.primary_key.columns)
    bare = one.name.rpartition("/")[2]
    ending = _KNOWN_ENDING.search(bare)
    stem = bare[: ending.start()] if ending else bare
    spelled = {stem, json.dumps(stem, ensure_ascii=False)[1:-1], json.dumps(stem)[1:-1]}
    query = select(*keys, column).where(or_(*(column.contains(text, autoescape=True) for text in sorted(spelled))))
    for *key, text in connection.execute(query).all():
        after = without_name(text, one)
        if after != text:
            same = [its == value for its, value in zip(keys, key, strict=True)]
            connection.execute(update(table).where(*same).values({column.name: after}))

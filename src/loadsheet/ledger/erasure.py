"""Erasure at a person's request: the contents of every entry of a key, shared cells, comments, and file names.

Owns: what belongs to a key, the pseudonyms of file names, and the statements that remove both. Counts, states and hashes stay. The
erasure is a decision in the chain, without the key. Opens no transaction: the methods of `Ledger` do.

A file name is erased if every record from it is forgotten or if it contains the key. It is also erased if it contains a word of the
forgotten records that occurs in no other record and no heading of its files. The pseudonym contains only the number of the first file
of that name, so it does not reveal the name.
"""

import hashlib
import json
import re
import unicodedata
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from sqlalchemy import Column, Connection, Select, func, or_, select, update

from loadsheet import exit_codes
from loadsheet.display_text import as_argument
from loadsheet.errors import LedgerError
from loadsheet.ledger import codec
from loadsheet.ledger.content_blocks import Content, with_contents
from loadsheet.ledger.content_blocks import replace as replace_contents
from loadsheet.ledger.decisions import FORGET, append_to_chain
from loadsheet.ledger.ledger_tables import (
    attempts,
    chunks,
    decisions,
    drops,
    entries,
    events,
    exceptions,
    files,
    findings,
    ignored,
    meta,
    remarks,
    runs,
    seen,
    streamed_within,
    tables,
)
from loadsheet.ledger.maintenance import GONE, remove_contents
from loadsheet.ledger.models import Decision, Settlement, State
from loadsheet.ledger.transitions import Transaction, change_states

ALONE = "every record in it is forgotten"
_CONTENTS = select(*(entries.c[name] for name in ("id", "payload", "rows")))
_KNOWN_ENDING = re.compile(r"(\.(csv|tsv|tab|txt|xlsx|xlsm|xls|xlsb|ods))?(\.(gz|zip))?$", re.IGNORECASE)
_WORD = re.compile(r"[^\W_]+")
_LETTERS_MIN, _DIGITS_MIN = 3, 6  # shorter words, such as a day or a year, identify no person

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
"""Columns whose texts may mention a file. Decisions are not among them: a hash chain covers them."""


class KeptFile(NamedTuple):
    """A file: its number and run, the hash of its bytes, and where they should be (empty: not kept)."""

    number: int
    run: str
    sha256: str
    kept_as: str


class FileName(NamedTuple):
    """A file name of a forgotten key: its pseudonym, the reason to erase it (empty: it may stay), and the `files` with this name."""

    name: str
    pseudonym: str
    because: str
    files: tuple[KeptFile, ...]

    @property
    def stem(self) -> str:
        """The name without folders and ending."""
        return _KNOWN_ENDING.sub("", self.name.rpartition("/")[2], count=1)


def _names_of(connection: Connection, key: str, own: set[int]) -> list[FileName]:
    """The names of the files that contained a key, and names that contain the key, in the order of arrival, without pseudonyms.
    `own` are the ids of the key's entries.
    """
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
    return [file_name for file_name in judged if file_name.name != file_name.pseudonym]


def _runs_naming(connection: Connection, names: Sequence[FileName]) -> set[int]:
    """The ids of the runs whose reports may contain these names: they read files with the same bytes, changed entries of these
    files, or listed one as an open exception.
    """
    run_ids: set[int] = set()
    for some in chunks(sorted({file.sha256 for name in names for file in name.files})):
        here = select(files.c.drop_id).where(files.c.sha256.in_(some))
        changed = select(events.c.run_id).join(entries, entries.c.id == events.c.entry_id)
        run_ids |= set(connection.scalars(select(drops.c.run_id).where(drops.c.id.in_(here))))
        run_ids |= set(connection.scalars(changed.where(entries.c.drop_id.in_(here)).distinct()))
        run_ids |= _runs_listing(connection, here)
    return run_ids


def _runs_listing(connection: Connection, of_drops: Select[tuple[int]]) -> set[int]:
    """The ids of the runs while an entry of these drops was an open exception: their work lists contain it."""
    query = select(exceptions.c.run_id, exceptions.c.closed_run_id)
    query = query.join(entries, entries.c.id == exceptions.c.entry_id).where(entries.c.drop_id.in_(of_drops))
    run_ids: set[int] = set()
    for first, last in connection.execute(query.distinct()).all():
        listing = select(runs.c.id).where(runs.c.id >= first)
        run_ids |= set(connection.scalars(listing if last is None else listing.where(runs.c.id <= last)))
    return run_ids


def _rename(connection: Connection, names: Sequence[FileName]) -> None:
    """Replace these names with their pseudonyms everywhere in the ledger except in decisions and dropped data."""
    for name in names:
        here = select(files.c.drop_id).where(files.c.name == name.name)
        named = (tables.c.file == name.name) & tables.c.drop_id.in_(here)
        connection.execute(update(tables).where(named).values(file=name.pseudonym))
        connection.execute(update(files).where(files.c.name == name.name).values(name=name.pseudonym))
        for column in _TEXTS:
            _replace(connection, column, name)


def _mentions(file_name: FileName) -> re.Pattern[str]:
    """A pattern for a name in a text: with or without folders, as in JSON, and in the names of files made from this file."""
    folder, _, bare = file_name.name.rpartition("/")
    stem = file_name.stem
    folders = f"(?:{_spelled(f'{folder}/')})?" if folder else ""
    after = f"(?:{re.escape(bare[len(stem) :])}(?!\\w)|(?=\\.(?:fix|results|ack)\\.))"
    return re.compile(rf"(?<![\w~-]){folders}{_spelled(stem)}(?P<number>~\d+)?{after}")


def without_name(text: str, file_name: FileName) -> str:
    """A text with the name replaced by its pseudonym."""
    stem, dot, ending = file_name.pseudonym.partition(".")

    def replacement(match: re.Match[str]) -> str:
        is_whole = not match.string.startswith((".fix.", ".results.", ".ack."), match.end())
        return f"{stem}{match['number'] or ''}{dot + ending if is_whole else ''}"

    return _mentions(file_name).sub(replacement, text)


def contains_key(name: str, key: str) -> bool:
    """Whether a name contains a key, ignoring case and punctuation between the parts of the key."""
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
    """The reason to erase a name. Empty if it may stay."""
    here = select(files.c.drop_id).where(files.c.name == name)
    of_it = select(entries.c.id).where(entries.c.drop_id.in_(here))
    others = (entry for entry in connection.scalars(of_it) if entry not in forgotten)
    if next(others, None) is None and connection.scalar(of_it.where(entries.c.id.in_(own)).limit(1)) is not None:
        return ALONE
    if contains_key(name, key):
        return "it contains the key"
    words = _identifying_words(connection, name, here, own, forgotten)
    return f'"{words[0]}" in it occurs in no other record' if words else ""


def _identifying_words(
    connection: Connection, name: str, here: Select[tuple[int]], own: set[int], forgotten: set[int]
) -> list[str]:
    """The words of a name that occur in cells of these entries but in no other record and no heading."""
    mine: set[str] = set()
    wanted = [word for word in _words(name) if len(word) >= (_DIGITS_MIN if word.isdigit() else _LETTERS_MIN)]
    rows = _CONTENTS.where(entries.c.drop_id.in_(here))
    for _, content in _contents(connection, rows.where(entries.c.id.in_(own))) if wanted else ():
        mine |= _words_of(content.rows) & set(wanted)
    if mine:
        heads = connection.execute(
            select(tables.c.header, tables.c.sheet, tables.c.name).where(tables.c.drop_id.in_(here))
        )
        for header, sheet, table in heads.all():
            mine -= set(_words(" ".join((*codec.decode_cells(header), sheet, table))))
    for entry, content in _contents(connection, rows) if mine else ():
        if entry not in forgotten:
            mine -= _words_of(content.rows)
    return [word for word in wanted if word in mine]


def _words_of(rows: bytes) -> set[str]:
    return {word for row in codec.decode_rows(rows) for cell in row.cells for word in _words(cell)}


def _words(text: str) -> list[str]:
    return _WORD.findall(_folded(text))


def _folded(text: str) -> str:
    return unicodedata.normalize("NFKC", text).casefold()


def _spelled(text: str) -> str:
    """A pattern for a text as it is or as JSON writes it."""
    return f"(?:{'|'.join(map(re.escape, _spellings(text)))})"


def _spellings(text: str) -> list[str]:
    """A text as it is and as JSON writes it, each once."""
    return list(dict.fromkeys((text, json.dumps(text, ensure_ascii=False)[1:-1], json.dumps(text)[1:-1])))


def _replace(connection: Connection, column: Column[str], file_name: FileName) -> None:
    table = column.table
    keys = list(table.primary_key.columns)
    spelled = _spellings(file_name.stem)
    query = select(*keys, column).where(or_(*(column.contains(text, autoescape=True) for text in spelled)))
    for *key, text in connection.execute(query).all():
        after = without_name(text, file_name)
        if after != text:
            same = [its == value for its, value in zip(keys, key, strict=True)]
            connection.execute(update(table).where(*same).values({column.name: after}))


FORGOTTEN = "its contents were removed at a person's request"
UNSETTLED = (State.READY, State.SENDING, State.UNKNOWN)

Place = tuple[str, int]
"""A table of a drop and the number of a row."""


class KeyEntry(NamedTuple):
    """An entry of a key, with the fields that a plan of the erasure needs. `removed` is when its contents were removed (empty: not)."""

    id: int
    drop: int
    operation: str
    key: str
    lane: str
    state: State
    removed: str


class OriginalFile(NamedTuple):
    """A file that contained the key: its drop, name and place, and whether its drop also has rows of other keys or ignored rows."""

    drop: int
    name: str
    kept_as: str
    sha256: str
    shared: bool


class KeyTraces(NamedTuple):
    """All traces of a key: its entries and its kept originals. `runs` names the runs whose reports may contain it. `names` are the
    names of its files and of others that contain the key. Entries and runs are oldest first.
    """

    entries: Sequence[KeyEntry]
    originals: Sequence[OriginalFile]
    runs: Sequence[str]
    names: Sequence[FileName]


def traces_of_key(connection: Connection, key: str) -> KeyTraces:
    """All traces of a key."""
    mine = _entries_of_key(connection, key)
    names = _names_of(connection, key, {entry.id for entry in mine})
    return KeyTraces(mine, _originals_of(connection, mine), _runs_of(connection, mine, names), names)


def _entries_of_key(connection: Connection, key: str) -> list[KeyEntry]:
    """All entries of a key, of keys that begin with it and a slash, and of their lanes, oldest first."""
    named = or_(entries.c.key == key, entries.c.key.startswith(f"{key}/", autoescape=True))
    lanes = [lane for lane in connection.scalars(select(entries.c.lane).where(named).distinct()) if lane[-1:] != ":"]
    query = select(*(entries.c["drop_id" if name == "drop" else name] for name in KeyEntry._fields))
    rows = connection.execute(query.where(or_(named, entries.c.lane.in_(lanes))).order_by(entries.c.id))
    return [KeyEntry._make(row)._replace(state=State(row.state)) for row in rows]


def _originals_of(connection: Connection, mine: Sequence[KeyEntry]) -> list[OriginalFile]:
    """The kept files of the drops of these entries."""
    own = {entry.id for entry in mine}
    originals: list[OriginalFile] = []
    for drop in sorted({entry.drop for entry in mine}):
        all_of = set(connection.scalars(select(entries.c.id).where(entries.c.drop_id == drop)))
        left_out = connection.scalar(select(ignored.c.id).where(ignored.c.drop_id == drop).limit(1)) is not None
        query = select(files.c.name, files.c.kept_as, files.c.sha256).where(
            files.c.drop_id == drop, files.c.kept_as != ""
        )
        shared = left_out or bool(all_of - own)
        kept = connection.execute(query.order_by(files.c.id)).all()
        originals += [OriginalFile(drop, row.name, row.kept_as, row.sha256, shared) for row in kept]
    return originals


def _runs_of(connection: Connection, mine: Sequence[KeyEntry], names: Sequence[FileName]) -> list[str]:
    """The names of the runs whose reports may contain these entries or names, oldest first."""
    touching = _runs_naming(connection, names)
    touching |= set(connection.scalars(select(drops.c.run_id).where(drops.c.id.in_({entry.drop for entry in mine}))))
    for some in chunks([entry.id for entry in mine]):
        touching |= set(connection.scalars(select(events.c.run_id).where(events.c.entry_id.in_(some))))
    # reports cover whole drops: include runs that changed another entry of the drop
    for drop in {entry.drop for entry in mine}:
        beside = select(events.c.run_id).join(entries, entries.c.id == events.c.entry_id)
        touching |= set(connection.scalars(beside.where(entries.c.drop_id == drop).distinct()))
        touching |= _runs_listing(connection, select(drops.c.id).where(drops.c.id == drop))
    return list(connection.scalars(select(runs.c.name).where(runs.c.id.in_(touching)).order_by(runs.c.id)))


class NotSettled(LedgerError):
    """An entry may still be sent or looked up, so nothing of its key can be forgotten yet."""

    exit_code = exit_codes.NEEDS_SOMEONE


def refuse_unsettled(mine: Sequence[KeyEntry], key: str) -> None:
    """Raise NotSettled if one of these entries may still be sent or looked up."""
    waiting = [entry for entry in mine if entry.state in UNSETTLED]
    if waiting:
        message = f"{waiting[0].operation} {waiting[0].key} is {waiting[0].state}: its outcome is not known yet"
        raise NotSettled(
            f"{message}; first run `loadsheet run` or `loadsheet resolve {as_argument(key)}`, then forget it"
        )


class ErasureRequest(NamedTuple):
    """A person's request to forget a key: who asks and why. `with_key`: remove the key itself too. `names` are the file names that
    pseudonyms replace.
    """

    key: str
    who: str
    because: str
    with_key: bool = False
    names: tuple[FileName, ...] = ()


def erase_key(transaction: Transaction, request: ErasureRequest) -> None:
    """Remove the contents of a key's entries and the texts about them. Record who asked and why, with a hash of the key. Held
    entries can no longer be sent and become invalid. Raises NotSettled if an entry is not settled.
    """
    connection, _, now = transaction
    key = request.key
    mine = _entries_of_key(connection, key)
    refuse_unsettled(mine, key)
    held = [Settlement(entry.id, State.INVALID, FORGOTTEN) for entry in mine if entry.state is State.HELD]
    change_states(transaction, held)
    wanted = [entry.id for entry in mine]
    replace_contents(connection, dict(_entries_sharing_rows(connection, mine)))
    for some in chunks(wanted):
        remove_contents(connection, some, now)
    erased_words = [entry for some in chunks(wanted) for entry in _erase_words(connection, some)]
    evidence = f"key sha256 {hashlib.sha256(key.encode()).hexdigest()[:16]}; contents of {len(mine)} entries removed"
    if request.with_key:
        _replace_key(connection, mine, key)
        evidence += ", and the key"
    if request.names:
        _rename(connection, request.names)
        evidence += f"; file names replaced by {', '.join(entry.pseudonym for entry in request.names)}"
    if erased_words:
        evidence += f"; without their words: {', '.join(erased_words)}"
    append_to_chain(
        connection, [Decision(entry.id, now, request.who, FORGET, request.because, evidence, "") for entry in mine]
    )


def _entries_sharing_rows(connection: Connection, mine: Sequence[KeyEntry]) -> Iterator[tuple[int, Content]]:
    """Entries of other keys that share a source row, each with its contents without the shared cells."""
    own = {entry.id for entry in mine}
    for drop in sorted({entry.drop for entry in mine}):
        query = _CONTENTS.where(entries.c.drop_id == drop)
        its = _contents(connection, query)
        places = {place for entry, content in its if entry in own for place in _places(content.rows)}
        for entry, content in _contents(connection, query):
            if entry not in own and places & _places(content.rows):
                kept = [
                    source._replace(cells=(), natives=()) if (source.table, source.number) in places else source
                    for source in codec.decode_rows(content.rows)
                ]
                yield entry, content._replace(rows=codec.encode_rows(kept))


def _contents(connection: Connection, query: Select[Any]) -> Iterator[tuple[int, Content]]:
    rows = streamed_within(connection, query)
    return ((row.id, content) for row, content in with_contents(connection, rows))


def _places(rows: bytes) -> set[Place]:
    return {(row.table, row.number) for row in codec.decode_rows(rows)}


def _erase_words(connection: Connection, some: Sequence[int]) -> list[str]:
    """Remove what people wrote about these entries. Returns the hashes of the decisions that lost their words."""
    accepted = (entries.c.state == State.ACCEPTED) & entries.c.id.in_(some)
    connection.execute(update(entries).where(accepted).values(reason="accepted"))
    changed = events.c.entry_id.in_(some) & events.c.before.not_in(("", State.READY.value))
    connection.execute(update(events).where(changed).values(reason=""))
    commented = remarks.c.entry_id.in_(some) & (remarks.c.name == "comment") & (remarks.c.value != "")
    connection.execute(update(remarks).where(commented).values(value=GONE))
    worded = decisions.c.entry_id.in_(some) & (decisions.c.choice != FORGET)
    worded &= or_(decisions.c.comment != "", decisions.c.evidence != "")
    hashes = list(connection.scalars(select(decisions.c.hash).where(worded).order_by(decisions.c.id)))
    connection.execute(update(decisions).where(worded).values(comment="", evidence=""))
    return hashes


def _replace_key(connection: Connection, mine: Sequence[KeyEntry], key: str) -> None:
    """Replace the key and lane of these entries by one pseudonym for all, which does not reveal the key."""
    name = f"forgotten-{hashlib.sha256(key.encode()).hexdigest()[:12]}"
    for entry in mine:
        lane = f"{entry.lane.partition(':')[0]}:{name}"
        connection.execute(update(entries).where(entries.c.id == entry.id).values(key=name, lane=lane))
    for lane in {entry.lane for entry in mine}:
        new = f"{lane.partition(':')[0]}:{name}"
        if connection.scalar(select(seen.c.lane).where(seen.c.lane == new)) is None:
            connection.execute(update(seen).where(seen.c.lane == lane).values(lane=new))

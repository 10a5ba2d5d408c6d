"""Whether a capsule is what was made: sound in itself, and the very one that the record, or a head that somebody kept, speaks of.

Owns: the verdict.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from loadsheet.run_archive.contents import read_manifest
from loadsheet.run_archive.errors import CannotOpen
from loadsheet.run_archive.hash_chain import Members, look_at
from loadsheet.run_archive.register import Record

KEPT = "kept head"
RECORD = "record"


class Verdict(NamedTuple):
    """What `verify` found: the run and the head, everything that is wrong in words, and what vouches for the capsule as a whole
    (`KEPT`, `RECORD`; empty: nobody, it is only sound in itself).
    """

    run: str
    head: str
    members: int
    wrong: tuple[str, ...]
    vouched_by: str = ""


def verify(path: Path, record: Record, head: str = "") -> Verdict:
    """Hold a capsule against its own chain, and against the head that somebody kept, or else the record. `head` may be shortened to
    16 letters or more. Raises CannotOpen if there is no such file.
    """
    looked = look_at(path)
    if looked.wrong:
        return Verdict("", looked.head, len(looked.links), looked.wrong)
    try:
        run = read_manifest(Members(path)).run
    except CannotOpen as error:
        return Verdict("", looked.head, len(looked.links), (str(error),))
    known = record.heads_of(run)
    wrong, vouched_by = _judge(run, looked.head, head, known)
    if record.broken and not head:
        wrong = (
            *wrong,
            f"line {record.broken} of the record does not follow from the one before it: the record was changed",
        )
    return Verdict(run, looked.head, len(looked.links), wrong, "" if wrong else vouched_by)


def _judge(run: str, found: str, wanted: str, known: Sequence[str]) -> tuple[tuple[str, ...], str]:
    if wanted:
        if found.startswith(wanted.casefold()):
            return (), KEPT
        return (f"its head is {found}, not {wanted}: it is another capsule, however sound in itself",), ""
    if not known:
        return (), ""
    if found in known:
        return (), RECORD
    return (f"its head is {found}; the record has {known[-1]} for run {run}: the whole capsule was replaced",), ""

"""What looks showed and what people decided: findings, and decisions in a chain that shows whether somebody changed one.

Owns: the statements of both, and the hash of a decision. Opens no transaction: the verbs of `Ledger` do.
"""

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import NamedTuple

from sqlalchemy import Connection, bindparam, desc, insert, select, update

from loadsheet.ledger import codec
from loadsheet.ledger.changing import change
from loadsheet.ledger.schema import decisions, entries, findings
from loadsheet.ledger.states import Decision, Entry, Finding, Run, Settlement, State
from loadsheet.problems import LedgerError

IN_DOUBT = "X702"


class Choice(NamedTuple):
    """What a person chose for one entry: the entry as it was looked at, what is to become of it, on what grounds, and, if it is
    to be sent as another operation, as which.
    """

    entry: Entry
    settlement: Settlement
    evidence: str = ""
    operation: str = ""


def record_findings(connection: Connection, run: Run, found: Sequence[Finding]) -> None:
    """Record findings; what each says becomes the hint of its entry, as long as that is unknown."""
    if not found:
        return
    connection.execute(
        insert(findings),
        [
            {
                "entry_id": one.entry,
                "run_id": run.id,
                "at": one.at,
                "shown": one.shown,
                "counts": int(one.counts),
                "text": one.text,
            }
            for one in found
        ],
    )
    for one in found:
        held = connection.execute(_DOUBTFUL, {"entry": one.entry}).first()
        if held is not None:
            problems = [
                replace(problem, hint=one.text) if problem.code == IN_DOUBT else problem
                for problem in codec.decode_problems(held.problems)
            ]
            connection.execute(_TELL, {"entry": one.entry, "problems": codec.encode_problems(problems)})


def record_decisions(
    connection: Connection, run: Run, chosen: Sequence[Choice], now: str, *, who: str, choice: str, comment: str
) -> None:
    """Record what a person chose for entries, change their states, and chain the decisions. Raises LedgerError if an entry is
    not as it was when it was looked at.
    """
    for one in chosen:
        seen = {"entry": one.entry.id, "state": one.entry.state, "changed_at": one.entry.changed_at}
        if connection.execute(_AS_IT_WAS, seen).first() is None:
            raise LedgerError(f"{one.entry.key} has changed since it was looked at; nothing was decided, look again")
        if one.operation:
            connection.execute(_SEND_AS, {"entry": one.entry.id, "operation": one.operation})
    change(connection, run, [one.settlement for one in chosen], now)
    before = connection.scalar(select(decisions.c.hash).order_by(desc(decisions.c.id)).limit(1)) or ""
    records = []
    for one in chosen:
        made = Decision(one.entry.id, now, who, choice, comment, one.evidence, "")
        before = chained(before, made)
        records.append(
            {
                "entry_id": made.entry,
                "at": made.at,
                "who": made.who,
                "choice": made.choice,
                "comment": made.comment,
                "evidence": made.evidence,
                "hash": before,
            }
        )
    if records:
        connection.execute(insert(decisions), records)


def chained(before: str, decision: Decision) -> str:
    """The hash of a decision that follows one with the hash `before` (empty: it is the first): hex SHA-256."""
    fields = (decision.entry, decision.at, decision.who, decision.choice, decision.comment, decision.evidence)
    return hashlib.sha256(codec.encode([before, *fields]).encode()).hexdigest()


def first_broken(recorded: Iterable[Decision]) -> Decision | None:
    """The first of all decisions, oldest first, that is not as it was recorded, or that follows one which is missing."""
    before = ""
    for decision in recorded:
        before = chained(before, decision)
        if decision.hash != before:
            return decision
    return None


_ENTRY = entries.c.id == bindparam("entry")
_DOUBTFUL = select(entries.c.problems).where(_ENTRY, entries.c.state == State.UNKNOWN)
_TELL = update(entries).where(_ENTRY).values(problems=bindparam("problems"))
_AS_IT_WAS = select(entries.c.id).where(
    _ENTRY, entries.c.state == bindparam("state"), entries.c.changed_at == bindparam("changed_at")
)
_SEND_AS = update(entries).where(_ENTRY).values(operation=bindparam("operation"))

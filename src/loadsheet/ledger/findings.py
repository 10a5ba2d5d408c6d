"""What listings showed about entries of unknown outcome. Owns the statements on `findings`.

Opens no transaction: the methods of `Ledger` do.
"""

from collections.abc import Sequence
from dataclasses import replace

from sqlalchemy import Connection

from loadsheet.ledger import codec
from loadsheet.ledger.ledger_tables import Statement
from loadsheet.ledger.states import ListingFinding, Run

_OUTCOME_UNKNOWN = "X702"


def record_findings(connection: Connection, run: Run, findings: Sequence[ListingFinding]) -> None:
    """Record findings. The text of each becomes the hint of its entry, if that is still unknown."""
    for finding in findings:
        row = {"entry": finding.entry, "run": run.id, "at": finding.at}
        row |= {"shown": finding.shown, "counts": int(finding.counts), "text": finding.text}
        _INSERT.run(connection, [row])
        for unknown in _UNKNOWN.rows(connection, entry=finding.entry):
            problems = [
                replace(problem, hint=finding.text) if problem.code == _OUTCOME_UNKNOWN else problem
                for problem in codec.decode_problems(unknown.problems)
            ]
            _SET_PROBLEMS.run(connection, [{"entry": finding.entry, "problems": codec.encode_problems(problems)}])


def findings_of(connection: Connection, entry: int) -> list[ListingFinding]:
    """The findings of listings about an entry, oldest first."""
    rows = _OF_ENTRY.rows(connection, entry=entry)
    return [ListingFinding(entry, row.run, row.at, row.shown, bool(row.counts), row.text) for row in rows]


_INSERT = Statement(
    """
    insert into findings (entry_id, run_id, at, shown, counts, text)
    values (:entry, :run, :at, :shown, :counts, :text)
    """
)
_UNKNOWN = Statement("select problems from entries where id = :entry and state = 'unknown'")
_SET_PROBLEMS = Statement("update entries set problems = :problems where id = :entry")
_OF_ENTRY = Statement(
    """
    select runs.name as run, findings.at, findings.shown, findings.counts, findings.text
    from findings join runs on runs.id = findings.run_id where findings.entry_id = :entry order by findings.id
    """
)

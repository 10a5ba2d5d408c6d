"""What a worker does with a batch: take it, do what its kind says by the same functions that a run of one process uses, close it.

Owns: nothing but that. Whoever takes a batch over finds in the ledger what is left to do.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from loadsheet import journal
from loadsheet.dispatch import Patience, look_after, send
from loadsheet.fleet import answers
from loadsheet.fleet.clients import Clients
from loadsheet.fleet.pacing import Paces
from loadsheet.intake import translate_part
from loadsheet.ledger import Ledger
from loadsheet.ledger.batches import Kind, Taken
from loadsheet.ledger.clocks import utc_now
from loadsheet.ledger.joining import served
from loadsheet.ledger.shared import Engine
from loadsheet.ledger.shared.workers import note_takeover
from loadsheet.mapping import load_folder
from loadsheet.pipeline import updating_of
from loadsheet.problems import Superseded
from loadsheet.settings import Settings
from loadsheet.stages import Work, account, learn


class HandedBack(Exception):  # noqa: N818 (named for what happened to the batch)
    """The worker was asked to stop before the batch was done: whoever takes it next goes on."""


class Bench(NamedTuple):
    """What a worker works with: its name, what all ledgers share, the signals that ask it to stop (filled when one comes), and what it keeps
    from batch to batch.
    """

    name: str
    shared: Engine
    stopping: Sequence[int]
    clients: Clients
    paces: Paces


def work(settings: Settings, batch: int, bench: Bench) -> None:
    """Do a batch of the ledger of these settings; returns when it is done, by us or by somebody else.

    Raises HandedBack if we were asked to stop before, LedgerGone if the ledger cannot be reached any more, and what else breaks it: the
    batch stays open then.
    """
    ledger = served(settings.database_url, utc_now, entries=settings.batch_entries, canary=settings.canary)
    taken = ledger.batches.take(batch, bench.name)
    if taken is None:
        return
    if _is_other(taken.before, bench.name):
        with bench.shared.begin() as connection:
            note_takeover(connection, settings.shipper, taken, bench.name)
        journal.warning("batch taken over", batch=batch, kind=taken.kind, before=taken.before, unknown=taken.unknown)
    with suppress(Superseded), journal.stage(f"batch of {taken.kind}", batch=batch):  # then somebody else does it
        _do(settings, ledger, taken, bench)


def _is_other(before: str, name: str) -> bool:
    """Whether a batch was another process's; what one process could not do and tries again is no takeover."""
    return bool(before) and before.partition("/")[0] != name.partition("/")[0]


def _do(settings: Settings, ledger: Ledger, taken: Taken, bench: Bench) -> None:
    mine = ledger.for_batch(taken)
    answer = _DOES[taken.kind](settings, mine, taken, bench)
    calls = taken.kind is Kind.CALLS
    if calls and answer["interrupted"]:
        mine.batches.put_back(taken)
        raise HandedBack
    # a batch of which nothing could leave waits for something that only a run can bring
    mine.batches.close(taken, answer, go_on=calls and not answer["stopped"] and answer["calls"] > 0)


def _call(settings: Settings, ledger: Ledger, taken: Taken, bench: Bench) -> Mapping[str, Any]:
    """The entries of the batch are sent."""
    with bench.clients.borrowed(settings) as client:
        pace = bench.paces.of(settings)
        report = send(ledger, client, taken.run, settings, stopping=bench.stopping, fleet_pace=pace)
    if report.superseded:
        raise Superseded(f"batch {taken.id}: another process has taken over")
    return answers.sending_told(report)


def _learn(settings: Settings, ledger: Ledger, taken: Taken, bench: Bench) -> Mapping[str, Any]:
    """What earlier runs left unknown is looked for."""
    with bench.clients.borrowed(settings) as client:
        return {"stopped": answers.error_told(learn(_work(settings, ledger, taken), client))}


def _look(settings: Settings, ledger: Ledger, taken: Taken, bench: Bench) -> Mapping[str, Any]:
    """What something waits for is looked for."""
    with bench.clients.borrowed(settings) as client:
        look_after(ledger, client, taken.run, settings, Patience(ledger.now))
    return {}


def _account(settings: Settings, ledger: Ledger, taken: Taken, bench: Bench) -> Mapping[str, Any]:
    """The run is reconciled, and its reports are written."""
    sent = answers.delivered_heard(taken.given["sent"])
    fault, left = answers.error_heard(taken.given["fault"]), answers.problems_heard(taken.given["left"])
    with bench.clients.borrowed(settings) as client:
        result = account(_work(settings, ledger, taken), client, sent, fault=fault, left=left)
    return answers.result_told(result)


def _translate(settings: Settings, ledger: Ledger, taken: Taken, _bench: Bench) -> Mapping[str, Any]:
    """A part of a big file becomes documents, by the mapping that was given with it."""
    return translate_part(settings, ledger, taken.id, taken.given, ())


def _work(settings: Settings, ledger: Ledger, taken: Taken) -> Work:
    updating = updating_of(load_folder(settings.mappings, settings.assumptions))
    return Work(settings, ledger, taken.run, Patience(ledger.now), updating)


_DOES: Mapping[Kind, Callable[[Settings, Ledger, Taken, Bench], Mapping[str, Any]]] = {
    Kind.CALLS: _call,
    Kind.RESOLUTION: _learn,
    Kind.LOOKUP: _look,
    Kind.RECONCILIATION: _account,
    Kind.TRANSLATION: _translate,
}

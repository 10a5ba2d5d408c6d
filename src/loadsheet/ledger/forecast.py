"""What would become of documents if they were planned now: the verdicts of planning, with nothing recorded.

Owns: the memory of what was foreseen, so that documents are judged by those before them as well. Reads the ledger only.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

from sqlalchemy import Engine

from loadsheet.contract import BY_NAME
from loadsheet.ledger.planning import Changed, Known, Verdict, as_update, chosen, judge, recognized, stands
from loadsheet.ledger.recording import ON_LANE, known_lanes, seen_lanes
from loadsheet.ledger.states import State, Waits
from loadsheet.mapping.documents import Document

CHUNK = 500


class Forecaster:
    """One look ahead, over the documents of as many drops as are to come one after the other."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._foreseen: defaultdict[str, list[Known]] = defaultdict(list)

    def verdicts(self, documents: Iterable[Document], *, changed: Changed) -> Iterator[tuple[Document, Verdict]]:
        """Each document as it would be sent, with its verdict. `changed` says what becomes of a create whose record was accepted with
        other content. A child whose order or tender is foreseen to be sent waits for nothing.
        """
        stream = iter(documents)
        while chunk := list(islice(stream, CHUNK)):
            wanted = {document.lane for document in chunk if document.usable}
            with self._engine.connect() as connection:
                lanes, shown = known_lanes(connection, wanted), seen_lanes(connection, wanted)
            for given in chunk:
                lane = [*lanes.get(given.lane, ()), *self._foreseen[given.lane]] if given.usable else []
                document = chosen(recognized(given, lane), lane)
                document = as_update(document, lane) if changed == "update" else document
                verdict = judge(document, lane, seen=document.lane in shown)
                if verdict.waits is Waits.PARENT and any(_is_coming(known) for known in lane):
                    verdict = verdict._replace(waits=Waits.DECISION)
                if verdict.state in ON_LANE or (verdict.state is State.HELD and verdict.waits):
                    self._foreseen[given.lane].append(_known(document, verdict))
                yield document, _as_it_counts(document, verdict, lane, seen=document.lane in shown)


def _as_it_counts(document: Document, verdict: Verdict, lane: Sequence[Known], *, seen: bool) -> Verdict:
    """The verdict as the reports count it: what repeats a held entry is held as that one is, unless its order or tender is coming."""
    if not verdict.waits_again:
        return verdict
    if BY_NAME[document.operation].creates or stands(((one.operation, one.state) for one in lane), seen=seen):
        return verdict._replace(state=State.HELD)
    return verdict if any(map(_is_coming, lane)) else verdict._replace(state=State.HELD, waits=Waits.PARENT)


def _is_coming(known: Known) -> bool:
    return known.state is State.READY and BY_NAME[known.operation].creates


def _known(document: Document, verdict: Verdict) -> Known:
    # Without its record: so much memory is not to be had, and only in which fields two differ cannot be said then.
    return Known(0, document.operation, document.key, verdict.state, document.content_hash, b"", verdict.receipt, ())

"""The look after sending: whether the orders and tenders that something waits for are at the exchange, and what lost calls did.

Owns: which listings a run looks at when its calls are over. One listing serves both questions, and the reconciliation after them.
"""

from collections.abc import Collection, Mapping
from contextlib import suppress

from loadsheet.contract import BY_NAME, LISTED_KEYS, Listing, Operation, listed_subject
from loadsheet.dispatch.client import Client
from loadsheet.dispatch.unknown_rules import Patience
from loadsheet.dispatch.verification import resolve_by
from loadsheet.ledger import Ledger, Run, State
from loadsheet.problems import ExchangeUnreachable, TokenRefused
from loadsheet.settings import Settings

Listings = dict[str, Listing | None]
"""The listing of each subject that was looked at; None where it could not be had, which proves nothing."""


def look_after(ledger: Ledger, client: Client, run: Run, settings: Settings, patience: Patience) -> Listings:
    """Look at the listings that something waits for or that can show a lost call; none if nothing does.

    Afterwards the ledger knows which of the waiting lanes were seen, if the setting lets them go then, and has settled what is
    shown. Raises nothing for what the exchange does.
    """
    unknown = {BY_NAME[entry.operation] for entry in ledger.queries.entries_in(State.UNKNOWN)}
    lanes = set(ledger.queries.waiting_lanes()) if settings.parents == "look" else set()
    if not unknown and not lanes:
        return {}
    subjects = {operation.subject for operation in unknown if operation.proved_by}
    listings = look(client, subjects | {lane.partition(":")[0] for lane in lanes})
    resolve_by(listings, ledger, run, settings, patience=patience)
    if shown := shown_lanes(listings, lanes):
        ledger.saw(run, shown)
    return listings


def look(client: Client, subjects: Collection[str]) -> Listings:
    """The listings of these subjects, as whole as the exchange gives them."""
    listings: Listings = {}
    for operation in (one for one in BY_NAME.values() if not one.is_write and one.subject in subjects):
        listings[operation.subject] = None
        with suppress(ExchangeUnreachable, TokenRefused):
            listings[operation.subject] = client.whole_listing(operation)
    return listings


def shown_lanes(listings: Mapping[str, Listing | None], wanted: Collection[str]) -> set[str]:
    """Which of the wanted lanes have an order or tender that these listings show."""
    listed: dict[str, Operation] = {one.subject: one for one in BY_NAME.values() if not one.is_write}
    return {
        lane
        for subject, listing in listings.items()
        if listing is not None
        for head in listing.heads(LISTED_KEYS)
        if listed_subject(head) == subject and (lane := listed[subject].lane_of(head)) in wanted
    }

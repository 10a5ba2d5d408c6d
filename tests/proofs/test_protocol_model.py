"""The protocol for unknown outcomes, in every history that faults, crashes and strange exchanges can make of a few operations."""

import itertools

import pytest
from protocol_model import TICK_S, Setting, explore, protocol_settings

from loadsheet.contract import Action

CREATE, UPDATE, DELETE, STATUS = Action.CREATE, Action.UPDATE, Action.DELETE, Action.STATUS
QUOTE, CONFIRM = Action.QUOTE, Action.CONFIRM
LISTINGS = ("exact", "stale", "capped", "wrong kind")
RESENDS = {"create_after_absent": "resend", "assumptions": {"create_existing": "reject"}}
PROGRAMS = [
    (CREATE,),
    (CREATE, UPDATE),
    (CREATE, UPDATE, UPDATE),
    (CREATE, UPDATE, DELETE),
    (CREATE, DELETE, CREATE),
    (STATUS, STATUS, STATUS),
    (QUOTE, QUOTE, CONFIRM),
]


@pytest.mark.parametrize("listing", LISTINGS)
@pytest.mark.parametrize("program", PROGRAMS, ids="-".join)
@pytest.mark.parametrize("changes", [{}, RESENDS], ids=["at most once", "resends"])
def test_no_history_loses_or_doubles(program, listing, changes):
    # an exchange that makes a second record of a repeated create is one that create_after_absent = resend is not meant for
    for on_existing in ("reject", "replace", "accept", "double"):
        found = explore(Setting(program, on_existing, listing=listing, settings=protocol_settings(**changes)))
        assert found.broken is None, (on_existing, found.broken)
        assert found.ends > 0


WEAKER = {
    "the pause is shorter than a late request": (
        {"on_existing": "double", "settings": protocol_settings(quiesce_s=TICK_S, **RESENDS)},
        (CREATE,),
    ),
    "a listing that hides records is trusted": (
        {"on_existing": "double", "listing": "trusted cap", "settings": protocol_settings(**RESENDS)},
        (CREATE,),
    ),
    "nothing is written down before a call": ({"on_existing": "double", "write_ahead": False}, (CREATE,)),
    "a refusal after a doubt is believed": (
        {"trusts_refusals": True, "settings": protocol_settings(quiesce_s=TICK_S, **RESENDS)},
        (CREATE,),
    ),
    "later operations do not wait": ({"barrier": False}, (CREATE, UPDATE, UPDATE)),
}


@pytest.mark.parametrize("name", WEAKER)
def test_each_rule_is_needed(name):
    """The same model finds what goes wrong without the rule: it can fail."""
    changes, program = WEAKER[name]
    found = explore(Setting(program, **changes))
    assert found.broken is not None


@pytest.mark.sweep
@pytest.mark.timeout(1200)
def test_half_a_million_moments(record_property):
    total, listings = 0, itertools.cycle(("exact", "stale"))
    for program in [(CREATE, UPDATE, UPDATE, DELETE), (CREATE, DELETE, CREATE, UPDATE), (STATUS,) * 4]:
        for on_existing, listing in zip(("reject", "replace", "double"), listings, strict=False):
            setting = Setting(
                program, on_existing, listing=listing, faults=6, crashes=4, settings=protocol_settings(**RESENDS)
            )
            found = explore(setting)
            assert found.broken is None, (program, on_existing, listing, found.broken)
            total += found.states
    record_property("moments", total)
    assert total >= 500_000

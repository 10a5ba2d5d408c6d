"""Parting: a run that is asked to stop leaves what it handed out to the workers that do it."""


class Parted(KeyboardInterrupt):
    """The run has ended as if it had been killed: its batches go on, and the next run of the ledger waits for what is left of them."""

"""Counts with their nouns, in English. What shippers read in other languages has its plurals in the message catalogues."""


def count_of(count: int, noun: str, many: str = "") -> str:
    """A count with its noun: `1 document`, `2 documents`. `many` is the plural if it does not just add an s."""
    return f"{count:,} {noun if count == 1 else many or f'{noun}s'}"

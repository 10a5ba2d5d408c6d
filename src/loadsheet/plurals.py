"""Counts with their nouns, and sentences, in English. What shippers read in other languages has its plurals in the message catalogues."""


def count_of(count: int, noun: str, many: str = "") -> str:
    """A count with its noun: `1 document`, `2 documents`. `many` is the plural if it does not just add an s."""
    return f"{count:,} {noun if count == 1 else many or f'{noun}s'}"


def sentence(text: str) -> str:
    """The text with a capital letter, unless it begins with a name, such as that of a file: that stays as it is."""
    return text[:1].upper() + text[1:] if text.partition(" ")[0].isalpha() else text

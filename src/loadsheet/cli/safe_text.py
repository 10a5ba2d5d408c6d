"""Foreign text on a terminal: what files and exchanges say moves no cursor, changes no colour, and turns no text around."""

import unicodedata


def printable(text: str) -> str:
    """A text whose signs all show, or are spaces and line breaks; a question mark stands for every other one."""
    return text if text.isprintable() else "".join(sign if _shows(sign) else "?" for sign in text)


def _shows(sign: str) -> bool:
    return sign.isprintable() or sign in "\n\t" or unicodedata.category(sign) == "Zs"

"""The texts that shippers read, in their language: one message catalogue per language (`de.po`, `fr.po`, `es.po`).

English is in the source. The English text is the key of its translation (gettext calls it msgid). A catalogue is read when its
language is first used; English needs none.
"""

import gettext
import io
import re
import string
from collections.abc import Iterable
from datetime import date
from decimal import Decimal
from functools import cache
from importlib import resources
from typing import Literal, NamedTuple, get_args

Language = Literal["en", "de", "fr", "es"]
LANGUAGES: tuple[Language, ...] = get_args(Language)

_PLAIN_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?")
_MOMENT = re.compile(r"(\d{4}-\d\d-\d\d)(?:[T ](\d\d:\d\d)(?::00(?:\.0+)?)?(:\d\d(?:\.\d+)?)?(Z|[+-]\d\d:?\d\d)?)?")


def known_language(locale: str) -> Language | None:
    """The language of a locale such as `de_AT` or `DE`; None if there is no catalogue for it."""
    name = re.split("[_-]", locale, maxsplit=1)[0].lower()
    return next((language for language in LANGUAGES if language == name), None)


@cache
def words_in(language: Language) -> "Words":
    """The texts of a language."""
    return Words(language)


class Words:
    """The texts of one language, with its numbers and dates."""

    def __init__(self, language: Language) -> None:
        self.language = language
        self._catalogue = gettext.NullTranslations() if language == "en" else _catalogue(language)

    def raw(self, text: str) -> str:
        """The translation of an English text, with its placeholders."""
        # gettext keeps the head of the catalogue under an empty text
        return self._catalogue.gettext(text) if text else ""

    def say(self, text: str, /, *numbered: object, **named: object) -> str:
        """The translation of an English text, with its placeholders filled."""
        return self.raw(text).format(*numbered, **named)

    def counted(self, one: str, many: str, count: int) -> str:
        """The text for this count, which fills `{count}`."""
        return self._catalogue.ngettext(one, many, count).format(count=self.number(count))

    def number(self, count: int) -> str:
        """A count with thousands separators."""
        if self.language == "en":
            return f"{count:,}"
        from babel.numbers import format_decimal

        return format_decimal(count, locale=self.language).replace("\u202f", "\u00a0")  # more encodings have this space

    def decimal(self, value: Decimal) -> str:
        """A number with all its decimals, without thousands separators."""
        if self.language == "en":
            return f"{value:f}"
        from babel.numbers import format_decimal

        return format_decimal(value, locale=self.language, decimal_quantization=False, group_separator=False)

    def day(self, iso: str) -> str:
        """A date such as 2026-03-24 the way people write it; any other text, such as a number of eight digits, is unchanged."""
        try:
            found = date.fromisoformat(iso if iso[4:8:3] == "--" else "")
        except ValueError:
            return iso
        parts = {"yyyy": f"{found.year:04}", "mm": f"{found.month:02}", "dd": f"{found.day:02}"}
        return re.sub("yyyy|mm|dd", lambda part: parts[part[0]], self.date_format)

    def payload_value(self, value: str, kind: str) -> str:
        """A payload value as people write it: in German, `40.143` is `40,143` and `2026-03-04 09:00:00` is `04.03.2026 09:00`. What changed
        as a text or word (`kind`) stays as it is.
        """
        if kind in ("text", "word"):
            return value
        if _PLAIN_NUMBER.fullmatch(value):
            return self.decimal(Decimal(value))
        if moment := _MOMENT.fullmatch(value):
            day, minute, seconds, zone = moment.groups("")
            return f"{self.day(day)} {minute}{seconds}{' UTC' if zone == 'Z' else zone}".rstrip()
        return value

    @property
    def date_format(self) -> str:
        """The number format of dates in a workbook, such as `dd.mm.yyyy`."""
        return self.say("yyyy-mm-dd")


class Found(NamedTuple):
    """A sentence found in a text, and what fills its placeholders."""

    sentence: str
    numbered: tuple[str, ...]
    named: dict[str, str]


class Sentences:
    """English sentences with placeholders, recognized in texts that are already filled in.

    A numbered placeholder (`{0}`) stands for any text, a named one (`{row}`) for one word.
    """

    def __init__(self, sentences: Iterable[str]) -> None:
        self._sentences = tuple(sentences)

    def find(self, text: str) -> Found | None:
        """The sentence of this text, the one with the most fixed letters if several fit; None if none fits."""
        for sentence, pattern in _patterns(self._sentences):
            found = pattern.fullmatch(text)
            if found is not None:
                groups = found.groupdict()
                numbered = sorted(name for name in groups if name.startswith("_"))
                named = {name: value for name, value in groups.items() if not name.startswith("_")}
                return Found(sentence, tuple(groups[name] for name in numbered), named)
        return None


@cache
def _patterns(sentences: tuple[str, ...]) -> list[tuple[str, re.Pattern[str]]]:
    found = []
    for sentence in sentences:
        pattern, fixed = "", 0
        for literal, name, _, _ in string.Formatter().parse(sentence):
            pattern, fixed = pattern + re.escape(literal), fixed + len(literal)
            if name is not None:
                pattern += f"(?P<_{name}>.*?)" if name.isdigit() else rf"(?P<{name}>\S+)"
        found.append((fixed, sentence, re.compile(pattern, re.DOTALL)))
    found.sort(key=lambda one: -one[0])
    return [(sentence, compiled) for _, sentence, compiled in found]


def _catalogue(language: Language) -> gettext.NullTranslations:
    from babel.messages.mofile import write_mo
    from babel.messages.pofile import read_po

    compiled = io.BytesIO()
    with (resources.files(__name__) / f"{language}.po").open("rb") as file:
        write_mo(compiled, read_po(file, locale=language))
    compiled.seek(0)
    return gettext.GNUTranslations(compiled)

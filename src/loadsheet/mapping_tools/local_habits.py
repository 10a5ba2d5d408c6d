"""Country, currency and time zone of a draft where no column has them: by the notation of the sheet, its countries and its currency.

Owns: which of these counts first. Every value from here is marked CHECK.
"""

from collections import Counter

from loadsheet.mapping_tools.column_types import country_code, currency_code
from loadsheet.mapping_tools.drafts import Draft
from loadsheet.mapping_tools.vocabulary import vocabulary


def habits_of(draft: Draft) -> dict[str, str]:
    """The defaults `country`, `currency` and `zone`, as far as they are known: of the sheet's locale or language, else of the country that its
    cells name. A currency in a heading counts before both.
    """
    known, own = vocabulary(), draft.main.sheet.habits
    by_locale = [dict(habits) for habits in known.habits.values() if habits["locale"] == own.locale]
    habits = by_locale[0] if by_locale else dict(known.habits[own.language])
    currency = _currency(draft)
    if "country" not in habits and (country := _country(draft, currency)):
        habits |= {"country": country, **known.countries.get(country, {})}
    return habits | ({"currency": currency} if currency else {})


def _country(draft: Draft, currency: str) -> str:
    """The country of most cells, else the only one with this currency; empty if there is none."""
    counts: Counter[str] = Counter()
    for drafted in draft.filled.values():
        if drafted.column.guess.type == "country":
            for text, count in drafted.column.cells.shown.items():
                counts[country_code(text, drafted.table.sheet.habits.locale)] += count
    del counts[""]
    if counts:
        return counts.most_common(1)[0][0]
    own = [country for country, habits in vocabulary().countries.items() if habits["currency"] == currency]
    return own[0] if len(own) == 1 else ""


def _currency(draft: Draft) -> str:
    """The only currency code in a heading, such as `Value (INR)`; empty if there is none."""
    words = {
        currency_code(word)
        for table in draft.tables
        for drafted in table.columns
        for word in drafted.column.reading.unknown
        if currency_code(word)
    }
    return words.pop() if len(words) == 1 else ""

"""The two charts of the front page: how the last runs came out, and how old what is open is. They draw what other sheets hold."""

from typing import Any, NamedTuple

from loadsheet.reports.page import Page
from loadsheet.reports.reconciliation.ageing import AgeingCells

LINES = 15
"""How many lines of a page the charts take."""

_SIZE = {"width": 590, "height": 275}
_COLOURS = {"agree": "#5B9A6F", "open": "#E0B252", "need": "#C25450", "age": "#486581"}
_TITLE = {"name": "Arial", "size": 11, "bold": True, "color": "#243B53"}
_AXIS = {"num_font": {"name": "Arial", "size": 8, "color": "#616E7C"}, "line": {"color": "#D9E2EC"}}
_VALUES = {**_AXIS, "min": 0, "num_format": "#,##0", "major_gridlines": {"visible": True, "line": {"color": "#E4E7EB"}}}


class TrendCells(NamedTuple):
    """Where the last runs stand: the cells with their names, and with the three counts of each."""

    runs: str
    agree: str
    open: str
    need: str


def write_charts(page: Page, trend: TrendCells, ageing: AgeingCells) -> None:
    """Put both charts side by side where the page stands now."""
    outcomes = page.book.chart("column", subtype="stacked")
    for name, values, colour in (
        ("agree", trend.agree, "agree"),
        ("wait or not verifiable", trend.open, "open"),
        ("need someone", trend.need, "need"),
    ):
        _series(outcomes, name, (trend.runs, values), _COLOURS[colour], gap=40)
    _dress(outcomes, "Documents of the last runs, by outcome")
    ages = page.book.chart("bar")
    _series(ages, "open exceptions", (ageing.buckets, ageing.counts), _COLOURS["age"], gap=60, labels=True)
    _dress(ages, "Open exceptions, by age in working days")
    ages.set_y_axis({**_AXIS, "reverse": True})
    ages.set_x_axis(_VALUES)
    ages.set_legend({"none": True})
    page.sheet.insert_chart(
        page.row, 0, outcomes, {"x_offset": 4, "y_offset": 6, "description": "Outcomes of the last runs"}
    )
    page.sheet.insert_chart(page.row, 5, ages, {"x_offset": 20, "y_offset": 6, "description": "Open exceptions by age"})
    page.leave(LINES)


def _series(chart: Any, name: str, cells: tuple[str, str], colour: str, *, gap: int, labels: bool = False) -> None:
    categories, values = cells
    chart.add_series(
        {
            "name": name,
            "categories": f"={categories}",
            "values": f"={values}",
            "fill": {"color": colour},
            "gap": gap,
            **({"data_labels": {"value": True, "font": {"name": "Arial", "size": 9}}} if labels else {}),
        }
    )


def _dress(chart: Any, title: str) -> None:
    chart.set_title({"name": title, "name_font": _TITLE, "overlay": False})
    chart.set_x_axis(_AXIS)
    chart.set_y_axis(_VALUES)
    chart.set_size(_SIZE)

"""Charts as SVG that stands in a page: words and numbers in the labels, colours by the page's own names for them.

The library writes plain shapes without style and script, so the page's policy holds; its colours are replaced by the page's, for light
and dark alike.
"""

from collections.abc import Sequence
from decimal import localcontext
from typing import NamedTuple

import leather  # type: ignore[import-untyped]  # has neither annotations nor stubs
from markupsafe import Markup, escape

_BAR_HEIGHT, _ABOVE_AND_BELOW = 30, 80
_DIGITS = 28
_WIDTH = 480
_COLUMNS_HEIGHT = 260
_LABELS_MAX = 5
_ROUND = (1, 2, 5, 10)


class Bar(NamedTuple):
    """One bar: its label, its length, and the tone of its colour (good, bad, note, plain)."""

    label: str
    length: int
    tone: str


class Layer(NamedTuple):
    """One part of stacked columns: its name, its tone, and its height in each column."""

    name: str
    tone: str
    counts: Sequence[int]


def bars(title: str, lines: Sequence[Bar]) -> Markup:
    """Horizontal bars, each labelled with its words and its number; `title` is what a screen reader says. Nothing for no bars."""
    most = max((line.length for line in lines), default=0)
    if not most:
        return Markup("")
    tones = {_label(line): line.tone for line in lines}
    chart = leather.Chart()
    chart.add_x_scale(0, _ticks(most)[-1])
    chart.add_x_axis(ticks=_ticks(most), tick_formatter=_number)
    chart.add_bars(
        [(line.length, _label(line)) for line in lines], fill_color=lambda bar: f"var(--fill-{tones[bar.y]})"
    )
    return _svg(chart, title, "bars", len(tones) * _BAR_HEIGHT + _ABOVE_AND_BELOW)


def columns(title: str, labels: Sequence[str], layers: Sequence[Layer]) -> Markup:
    """Stacked columns, from the bottom up, with a legend; labels must differ. Nothing if all are empty."""
    totals = [sum(counts) for counts in zip(*(layer.counts for layer in layers), strict=True)]
    most = max(totals, default=0)
    if not most:
        return Markup("")
    chart = leather.Chart()
    chart.add_y_scale(0, _ticks(most)[-1])
    chart.add_y_axis(ticks=_ticks(most), tick_formatter=_number)
    every = -(-len(labels) // _LABELS_MAX)
    chart.add_x_axis(tick_formatter=lambda label, index, _: label if index % every == 0 else "")
    for layer in reversed(layers):  # the library draws columns over each other: the whole first, then what is less
        heights = list(zip(labels, totals, strict=True))
        chart.add_columns(heights, name=layer.name, fill_color=f"var(--fill-{layer.tone})")
        totals = [total - count for total, count in zip(totals, layer.counts, strict=True)]
    return _svg(chart, title, "columns", _COLUMNS_HEIGHT)


def _label(line: Bar) -> str:
    return f"{line.label}: {line.length:,}"


def _number(value: int, _index: int, _of: int) -> str:
    return f"{value:,}"


def _ticks(most: int) -> list[int]:
    """Round numbers from nought to at least the greatest value: three to six of them."""
    step = 1
    while step * 5 < most:
        step = next(
            size
            for size in (digit * 10**power for power in range(len(str(most)) + 1) for digit in _ROUND)
            if size > step
        )
    return list(range(0, most + step, step))


def _svg(chart: leather.Chart, title: str, kind: str, height: int) -> Markup:
    with localcontext(prec=_DIGITS):  # the library computes its ticks with as many as the figures of a report have
        drawn = str(chart.to_svg(width=_WIDTH, height=height))
    head = f'<svg width="{_WIDTH}" height="{height}"'
    opening_tag = f'<svg class="chart {kind}" viewBox="0 0 {_WIDTH} {height}" role="img" aria-label="{escape(title)}"'
    return Markup(drawn.replace(head, opening_tag, 1))  # noqa: S704 (written by the library, which escapes labels)

"""Renders templates into standalone HTML files: escaping, charts, and a policy that allows only the file's own style and script.

Owns the templates folder. Charts are SVG without style and script, so the policy holds. Their colours follow the page,
light or dark. Knows no run and no record.
"""

import base64
import hashlib
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal, localcontext
from functools import cache
from importlib import resources
from typing import Any, NamedTuple
from urllib.parse import quote

import leather  # type: ignore[import-untyped]  # has neither annotations nor stubs
from jinja2 import Environment
from markupsafe import Markup, escape

from loadsheet.control_characters import page_templates

_TEXT_MAX = 240  # shown characters of a cell or value


def render(template: str, values: Mapping[str, Any]) -> str:
    """Render part of a page from its template; every value is escaped. Raises UndefinedError for a missing value."""
    return _environment().get_template(template).render(values)


def page(template: str, values: Mapping[str, Any]) -> bytes:
    """Render a whole page to the bytes of its file (UTF-8)."""
    style, script = _file("style.css"), _file("script.js")
    policy = (
        f"default-src 'none'; style-src '{_hash(style)}'; script-src '{_hash(script)}'; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )
    trusted = {"style": Markup(style), "script": Markup(script), "policy": policy}  # noqa: S704 (our own files, not a value)
    return render(template, {**values, **trusted}).encode("utf-8", "replace")


def part(template: str, values: Mapping[str, Any]) -> Markup:
    """Render a part that another template includes unchanged."""
    return Markup(render(template, values))  # noqa: S704 (the template escaped every value)


def compile_templates() -> None:
    """Compile all templates now instead of on first use."""
    for name in _environment().list_templates(extensions=["html"]):
        _environment().get_template(name)


def clean(text: str) -> str:
    """A foreign text for a page, cut if it is very long."""
    return text if len(text) <= _TEXT_MAX else f"{text[:_TEXT_MAX]} … ({len(text):,} characters)"


@cache
def _environment() -> Environment:
    filters: dict[str, Callable[..., object]] = {
        "count": "{:,}".format,
        "clean": clean,
        "href": quote,
        "place": _place,
        "moment": _moment,
        "figure": _figure,
    }
    return page_templates("loadsheet.reports", filters)


@cache
def _file(name: str) -> str:
    return (resources.files("loadsheet.reports") / "templates" / name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"


def _moment(text: str) -> str:
    """An ISO 8601 UTC text in readable form."""
    return text[:19].replace("T", " ")


def _figure(number: Decimal) -> str:
    """A number with thousands separators and no trailing zeros."""
    text = f"{number:,f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def _place(text: str) -> str:
    """A link to an anchor in another file."""
    file, _, anchor = text.partition("#")
    return f"{quote(file)}#{quote(anchor)}"


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
    """One layer of stacked columns: its name, its tone, and its height in each column."""

    name: str
    tone: str
    counts: Sequence[int]


def bars(title: str, lines: Sequence[Bar]) -> Markup:
    """Horizontal bars, each with label and number; `title` is for screen readers. Empty if there are no bars."""
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
    """Stacked columns, bottom up, with a legend. Labels must differ. Empty if all columns are empty."""
    totals = [sum(counts) for counts in zip(*(layer.counts for layer in layers), strict=True)]
    most = max(totals, default=0)
    if not most:
        return Markup("")
    chart = leather.Chart()
    chart.add_y_scale(0, _ticks(most)[-1])
    chart.add_y_axis(ticks=_ticks(most), tick_formatter=_number)
    every = -(-len(labels) // _LABELS_MAX)
    chart.add_x_axis(tick_formatter=lambda label, index, _: label if index % every == 0 else "")
    for layer in reversed(layers):  # the library draws columns over each other, so the tallest goes first
        heights = list(zip(labels, totals, strict=True))
        chart.add_columns(heights, name=layer.name, fill_color=f"var(--fill-{layer.tone})")
        totals = [total - count for total, count in zip(totals, layer.counts, strict=True)]
    return _svg(chart, title, "columns", _COLUMNS_HEIGHT)


def _label(line: Bar) -> str:
    return f"{line.label}: {line.length:,}"


def _number(value: int, _index: int, _of: int) -> str:
    return f"{value:,}"


def _ticks(most: int) -> list[int]:
    """Three to six round numbers from zero to at least the greatest value."""
    step = 1
    while step * 5 < most:
        step = next(
            size
            for size in (digit * 10**power for power in range(len(str(most)) + 1) for digit in _ROUND)
            if size > step
        )
    return list(range(0, most + step, step))


def _svg(chart: leather.Chart, title: str, kind: str, height: int) -> Markup:
    with localcontext(prec=_DIGITS):  # enough digits for the ticks of any figure in a report
        drawn = str(chart.to_svg(width=_WIDTH, height=height))
    head = f'<svg width="{_WIDTH}" height="{height}"'
    opening_tag = f'<svg class="chart {kind}" viewBox="0 0 {_WIDTH} {height}" role="img" aria-label="{escape(title)}"'
    return Markup(drawn.replace(head, opening_tag, 1))  # noqa: S704 (written by the library, which escapes labels)

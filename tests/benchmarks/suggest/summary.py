"""All layouts, and the totals of their scores."""

from collections import Counter

from .draft_scores import MARKED, MISSING, RIGHT, UNMARKED
from .files_layouts import FILES
from .held_out_layouts import HELD_OUT
from .made_layouts import MADE
from .newcomer_layouts import NEWCOMER
from .orders_layouts import ORDERS

LAYOUTS = [*MADE, *ORDERS, *FILES, *NEWCOMER, *HELD_OUT]


def _share(part, whole):
    return round(100 * part / whole, 1) if whole else 100.0


def summary(scores):
    """The totals: percentages of columns and of layouts, and the numbers that have to be zero."""
    return {name: _totals(own) for name, own in _parts(scores).items() if own}


def _parts(scores):
    return {
        "all": scores,
        "open": [found for found in scores if not found.held_out],
        "held out": [found for found in scores if found.held_out],
    }


def _totals(scores):
    drafts = [found for found in scores if not found.refusal]
    counts = sum((found.counts for found in drafts), Counter())
    columns = sum(counts.values())
    return {
        "layouts": len(scores),
        "columns": columns,
        **{f"columns {verdict} %": _share(counts[verdict], columns) for verdict in (RIGHT, MARKED, UNMARKED, MISSING)},
        **{
            f"{name} right %": _share(sum(getattr(found, f"{name}_right") for found in drafts), len(drafts))
            for name in ("target", "key", "group")
        },
        "outliers shown %": _share(*_outliers(drafts)),
        "translate all rows %": _share(sum(found.translates for found in drafts), len(drafts)),
        "fill-ins a draft": round(sum(found.fill_ins for found in drafts) / max(1, len(drafts)), 1),
        "no draft": sum(bool(found.exit_code) for found in drafts),
        "refused by lint": sum(not found.lints for found in drafts),
        "lose rows": sum(bool(found.rows_lost) for found in drafts),
        "data in a heading": sum(found.data_in_heading for found in drafts),
        "order matters": sum(not found.same_in_any_order for found in drafts),
        "forms not refused": sum(found.refusal and not found.target_right for found in scores),
    }


def _outliers(drafts):
    shown = [is_shown for found in drafts for is_shown in found.outliers.values()]
    return sum(shown), len(shown)


def table(scores):
    """A line for each layout."""
    lines = [f"{'layout':24} right mark wrong miss  target         key group lint rows  valid fill"]
    for found in scores:
        counts = found.counts
        name = f"{found.name}{' *' if found.held_out else ''}"
        if found.refusal:
            lines.append(f"{name:24} {'refused' if found.target_right else f'NOT refused: exit {found.exit_code}'}")
            continue
        marks = [
            f"{found.target or 'no draft':13}{' ' if found.target_right else '!'}",
            *(
                f"{'ok' if good else 'NO':4}"
                for good in (
                    found.key_right,
                    found.group_right,
                    found.lints,
                    not found.rows_lost and not found.data_in_heading,
                )
            ),
            f"{'all' if found.translates else 'NO':5}{found.fill_ins:4}{'' if found.same_in_any_order else ' order!'}",
        ]
        numbers = "".join(f"{counts[verdict]:5}" for verdict in (RIGHT, MARKED, UNMARKED, MISSING))
        lines.append(f"{name:24}{numbers}  {'  '.join(marks)}")
    return "\n".join(lines)

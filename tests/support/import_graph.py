"""The picture of the architecture, drawn from the imports: which package uses which.

`python tests/support/import_graph.py` draws it again in docs/architecture.md.
"""

import ast
from collections import defaultdict
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "loadsheet"
PAGE = ROOT / "docs" / "architecture.md"
BEGIN, END = "```mermaid\n", "```"
PIPELINE = {"pipeline", "ledger_sink"}
MODULES = {"ingest", "inbox_watch"}
LEFT_OUT = {"settings"}


def picture():
    """The graph as Mermaid text. What a package uses through another one has no arrow of its own."""
    uses = _uses()
    arrows = sorted(
        (user, used) for user, all_used in uses.items() for used in all_used if used not in _others(uses, user, used)
    )
    return BEGIN + "flowchart TD\n" + "".join(f"    {user} --> {used}\n" for user, used in arrows) + END


def _uses():
    """What each node of the picture imports."""
    nodes = {path.parent.name for path in SOURCE.glob("*/__init__.py")} - LEFT_OUT | MODULES | {"pipeline"}
    uses = defaultdict(set)
    for path in sorted(SOURCE.rglob("*.py")):
        user = _node(path.relative_to(SOURCE).parts[0].removesuffix(".py"))
        uses[user] |= {used for used in map(_node, _imports(path)) if used in nodes - {user}}
    return {user: uses[user] for user in nodes}


@cache
def parsed(path):
    """A module as a tree; kept, because other tests of the house look at it as well."""
    return ast.parse(path.read_text(encoding="utf-8"))


def _node(name):
    return "pipeline" if name in PIPELINE else name


def _imports(path):
    for node in ast.walk(parsed(path)):
        if isinstance(node, ast.ImportFrom) and node.module == "loadsheet":
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("loadsheet."):
            yield node.module.split(".")[1]


def _others(uses, user, left_out):
    """All that a node reaches without one of its arrows."""
    found, open_ = set(), sorted(uses[user] - {left_out})
    while open_:
        if (one := open_.pop()) not in found:
            found.add(one)
            open_ += uses[one]
    return found


def draw():
    """Put the picture into the page."""
    before, _, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
    PAGE.write_text(before + picture() + rest.partition(END)[2], encoding="utf-8")


if __name__ == "__main__":
    draw()

"""The pages for developers are true: the picture is that of the imports, and what they link to exists."""

import ast
import re
from pathlib import Path

from import_graph import PAGE, picture

DOCS = Path(__file__).parents[2] / "docs"
LINK = re.compile(r"\[`(\w+)`\]\((\.\./src/[\w/]+\.py)\)")


def names_in(path):
    """What a module defines, and its own name."""
    found = {path.stem}
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            found.add(node.name)
        elif isinstance(node, ast.AnnAssign | ast.Assign):
            targets = [node.target] if isinstance(node, ast.AnnAssign) else node.targets
            found |= {target.id for target in targets if isinstance(target, ast.Name)}
    return found


def test_the_picture_is_drawn_from_the_imports():
    assert picture() in PAGE.read_text(encoding="utf-8"), "draw it again: python tests/support/import_graph.py"


def test_each_linked_function_is_where_the_link_says():
    links = [(page, *link) for page in sorted(DOCS.rglob("*.md")) for link in LINK.findall(page.read_text("utf-8"))]
    assert len(links) > 20
    wrong = [f"{page.name}: {name} in {path}" for page, name, path in links if name not in names_in(page.parent / path)]
    assert wrong == []

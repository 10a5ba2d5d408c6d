"""Prepares the pages of the documentation site: `site_pages.py FOLDER`. `make docs` then builds it with Zensical.

The pages in `docs` are written for the repository. This adds the ones that are made from something else (every option, the problems,
the changelog) and changes what only a repository can show: links to source files, diagrams, and anchors of repeated headings.
"""

import posixpath
import re
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import click
from man import contexts

from loadsheet.cli import loadsheet

ROOT = Path(__file__).parents[1]
COPIED = {
    "README.md": "overview.md",
    "CHANGELOG.md": "changelog.md",
    "src/loadsheet/reference/problems.md": "problems.md",
}
"""Files outside `docs` that are pages of the site."""

_BLOCKS = re.compile(r"^ *```.*?^ *```$", re.MULTILINE | re.DOTALL)
_HEADING = re.compile(r"^(#+) (.+)$", re.MULTILINE)
_LINK = re.compile(r"(?<!!)\[([^\]]+)\]\(([^)#:\s]+)(#[^)]*)?\)")
_DIAGRAM = re.compile(r"^```mermaid\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def anchors(text: str) -> list[str]:
    """The anchors of the headings of a page in their order, as a git host makes them."""
    titles = [title for _, title in _HEADING.findall(_BLOCKS.sub("", text))]
    slugs = [re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in titles]
    return [f"{slug}-{slugs[:at].count(slug)}" if slug in slugs[:at] else slug for at, slug in enumerate(slugs)]


def options_page() -> str:
    """Every command with its help and its options, as a page."""
    lines = [
        "# Every option",
        "",
        "`loadsheet COMMAND --help` prints the same. For an overview, see [commands](commands.md).",
    ]
    for context in contexts(loadsheet, None, "loadsheet"):
        if isinstance(context.command, click.Group):
            continue
        lines += ["", f"## {context.command_path}", "", *_paragraphs(context.command.help or "")]
        lines += ["", "```text", *context.get_usage().removeprefix("Usage: ").splitlines(), "```"]
        options = [one for one in context.command.get_params(context) if "--help" not in one.opts]
        rows = [
            _row(*found) for one in options if isinstance(one, click.Option) and (found := one.get_help_record(context))
        ]
        lines += ["", "| Option | Meaning |", "|---|---|", *rows] if rows else []
    return "\n".join(lines) + "\n"


def _paragraphs(text: str) -> Iterator[str]:
    """A help text as paragraphs; a block that click must not wrap keeps its lines."""
    for paragraph in re.split(r"\n\s*\n", text.strip()):
        kept = paragraph.strip().startswith("\b")
        yield from (
            ["```text", *paragraph.strip("\b\n ").splitlines(), "```", ""]
            if kept
            else [" ".join(paragraph.split()), ""]
        )


def _row(words: str, text: str) -> str:
    """An option as a row of a table. In code, the site takes a bar as it is."""
    return f"| `{' '.join(words.split())}` | {' '.join(text.split()).replace('|', '&#124;')} |"


def adapted(text: str, source: str) -> str:
    """A page as the site shows it; `source` is its path in the repository."""
    text = _DIAGRAM.sub(lambda found: _arrows(found[1]), text)
    text = re.sub(r"^To do: ", "\n**To do:** ", text, flags=re.MULTILINE)
    return _with_anchors(_LINK.sub(lambda found: _link(found, source), text))


def _arrows(diagram: str) -> str:
    """A diagram as a table: scripts that draw diagrams come from the network."""
    uses: dict[str, list[str]] = {}
    for one, other in re.findall(r"^ *(\w+) --> (\w+)$", diagram, re.MULTILINE):
        uses.setdefault(one, []).append(f"`{other}`")
    return "\n".join(
        ["| Package | Uses |", "|---|---|", *(f"| `{one}` | {', '.join(many)} |" for one, many in uses.items())]
    )


def _link(found: re.Match[str], source: str) -> str:
    """A link, with the place of its target on the site; one to a file that the site does not have as text."""
    words, target, anchor = found[1], found[2], found[3] or ""
    if ":" in target:
        return found[0]
    path = posixpath.normpath(posixpath.join(posixpath.dirname(source), target))
    there = _place(path)
    if not there:
        return f"{words} (`{path}`)"
    return f"[{words}]({posixpath.relpath(there, posixpath.dirname(_place(source)) or '.')}{anchor})"


def _place(source: str) -> str:
    """The place on the site of a file of the repository; empty if the site does not have it."""
    return source.removeprefix("docs/") if source.startswith("docs/") else COPIED.get(source, "")


def _with_anchors(text: str) -> str:
    """The page with its anchors as a git host makes them."""
    wanted = iter(anchors(text))
    blocks = [found.span() for found in _BLOCKS.finditer(text)]

    def heading(found: re.Match[str]) -> str:
        if any(start <= found.start() < end for start, end in blocks):
            return found[0]
        code = re.match(
            r"#+ ([A-Z]\d{3}) ", found[0]
        )  # the anchor of a problem is its code, such as problems.html#C306
        anchor = next(wanted)
        return f"{found[0]} {{#{code[1] if code else anchor}}}"

    return _HEADING.sub(heading, text)


def prepare(folder: Path) -> None:
    """Write the settings of the site and all its pages into a folder, which is made anew."""
    shutil.rmtree(folder, ignore_errors=True)
    pages = shutil.copytree(ROOT / "docs", folder / "pages")
    (pages / "zensical.toml").rename(folder / "zensical.toml")
    sources = {path: f"docs/{path.relative_to(pages).as_posix()}" for path in pages.rglob("*.md")}
    sources |= {pages / place: source for source, place in COPIED.items()}
    for path, source in sources.items():
        path.write_text(adapted((ROOT / source).read_text(encoding="utf-8"), source), encoding="utf-8")
    (pages / "options.md").write_text(options_page(), encoding="utf-8")


if __name__ == "__main__":
    prepare(Path(sys.argv[1]))

"""`loadsheet explain`: what a code of a problem means, with its cause and what to do."""

import re
from importlib import resources

import click
from click.shell_completion import CompletionItem

from loadsheet.cli.output import print_json
from loadsheet.problems import CATALOGUE

_SECTION = re.compile(r"^### ([A-Z][0-9]{3}) (.+)\n((?:(?!#).+\n?)+)", re.MULTILINE)


def _codes(_ctx: click.Context, _argument: click.Parameter, begun: str) -> list[CompletionItem]:
    return [CompletionItem(code, help=kind.title) for code, kind in CATALOGUE.items() if code.startswith(begun.upper())]


@click.command()
@click.argument("code", metavar="CODE", shell_complete=_codes)
@click.option("--json", "as_json", is_flag=True, help="Print JSON on stdout.")
def explain(code: str, *, as_json: bool) -> None:
    """Explain a problem by its CODE, such as C306: its cause, an example, and what to do."""
    pages = explanations()
    wanted = code.upper()
    if wanted not in pages:
        raise click.BadParameter(f"there is no problem {code}; codes are like {min(CATALOGUE)} and {max(CATALOGUE)}")
    title, text = pages[wanted]
    if as_json:
        print_json({"code": wanted, "title": title, "text": text})
    else:
        click.echo(f"{wanted} {title}\n\n{text}")


def explanations() -> dict[str, tuple[str, str]]:
    """Title and text of every problem, by code, from `reference/problems.md`."""
    page = (resources.files("loadsheet") / "reference" / "problems.md").read_text(encoding="utf-8")
    return {code: (title, text.strip()) for code, title, text in _SECTION.findall(page)}

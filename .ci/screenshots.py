"""Makes the pictures of the documentation from a real run of the demo: `screenshots.py FOLDER`. Needs chromium, soffice and pdftoppm."""

import os
import pty
import re
import subprocess
import sys
import tempfile
from io import StringIO
from pathlib import Path

from rich.console import Console
from rich.text import Text

DAY = "2026-03-13"  # the samples are of these days, and the pictures stay the same
WIDTH = 112  # columns of the terminal
_DEMO = f"""
import sys, time
from datetime import datetime, timedelta
from loadsheet.cli import invoke
began, now = time.monotonic(), datetime.fromisoformat("{DAY}T07:30+01:00")
sys.exit(invoke(["demo"], clock=lambda: now + timedelta(seconds=time.monotonic() - began)))
"""
_BROWSER = "--headless=new --no-sandbox --disable-gpu --hide-scrollbars --disable-background-networking"


def terminal(folder: Path, picture: Path) -> None:
    """Run the demo in a folder, and draw what a terminal shows."""
    ours, theirs = pty.openpty()
    environment = os.environ | {"COLUMNS": str(WIDTH), "TERM": "xterm-256color", "TZ": "Europe/Berlin"}
    words = [sys.executable, "-c", _DEMO]
    with subprocess.Popen(words, cwd=folder, stdout=theirs, stderr=subprocess.DEVNULL, env=environment):
        os.close(theirs)
        printed = b"".join(iter(lambda: _read(ours), b"")).decode()
    console = Console(record=True, width=WIDTH, file=StringIO())
    console.print(Text.from_ansi(printed.replace("\r\n", "\n")))
    drawn = console.export_svg(title="loadsheet demo", unique_id="demo")
    without_fonts = re.sub(r"@font-face \{.*?\}\n", "", drawn, flags=re.DOTALL)  # they come from the network
    picture.write_text(without_fonts, encoding="utf-8")


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 65536)
    except OSError:  # the other end is closed
        return b""


def page(source: Path, picture: Path, size: str) -> None:
    """A picture of the top of a page. `size` is WIDTH,HEIGHT in pixels."""
    with tempfile.TemporaryDirectory() as profile:
        _run(
            f"chromium {_BROWSER} --user-data-dir={profile} --window-size={size}",
            f"--screenshot={picture}",
            source.as_uri(),
        )


def sheet(workbook: Path, number: int, picture: Path, size: str) -> None:
    """A picture of the top left of one printed page of a workbook. `size` is WIDTH,HEIGHT in pixels."""
    width, height = size.split(",")
    with tempfile.TemporaryDirectory() as made:
        profile = Path(made, "profile").as_uri()
        _run(f"soffice -env:UserInstallation={profile} --headless --convert-to pdf --outdir {made}", workbook)
        top_left = f"-f {number} -l {number} -r 200 -x 85 -y 90 -W {width} -H {height}"
        _run(f"pdftoppm {top_left} -singlefile -png", Path(made, f"{workbook.stem}.pdf"), picture.with_suffix(""))


def _run(words: str, *others: Path | str) -> None:
    subprocess.run([*words.split(), *others], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def main(pictures: Path) -> None:
    """Make all pictures."""
    pictures.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as made:
        scratch = Path(made)
        terminal(scratch, pictures / "terminal.svg")
        run = scratch / "loadsheet-demo" / "outbox" / f"{DAY}-01"
        page(run / "run.html", pictures / "page.png", "1000,820")
        sheet(run / "reconciliation.xlsx", 2, pictures / "exceptions.png", "1540,400")
        sheet(run / "confirmations.fix.xlsx", 1, pictures / "fix.png", "2060,260")


if __name__ == "__main__":
    main(Path(sys.argv[1]).absolute())

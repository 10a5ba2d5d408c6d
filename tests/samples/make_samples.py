"""Writes the files of inbox_samples anew, the same cells every time.

    python tests/samples/make_samples.py [FOLDER]

The samples are kept in the repository; this is how they were made, and where to change them. After a change, rewrite the
golden payloads with LOADSHEET_REWRITE=1 and read the difference.
"""

import sys
from pathlib import Path

from making import acme, changes, harbour, layouts, nordic, status, tenders

FOLDER = Path(__file__).parents[2] / "inbox_samples"


def make_all(folder: Path) -> None:
    """Every sample into `folder`; those that refer to orders or tenders of others come after them."""
    folder.mkdir(parents=True, exist_ok=True)
    in_germany = acme.make(folder)
    in_sweden = nordic.make(folder)
    in_india = harbour.make(folder)
    offered = tenders.make(folder)
    status.make(folder, [*in_germany, *in_sweden])
    changes.make(folder, offered, in_india)
    layouts.make(folder)


if __name__ == "__main__":
    make_all(Path(sys.argv[1]) if len(sys.argv) > 1 else FOLDER)

"""loadsheet: spreadsheets in, orders and tenders out, and a report that balances.

    inbox -> reading -> mapping -> ledger -> dispatch -> reconcile -> reports

`pipeline` shows the stages in order; `contract` holds the interface they all speak; `exchange` is the other side of it. The public face is
the command line (`loadsheet --help`), and the names below for Python: see `docs/python.md`. They are imported on first use, so importing
this package does nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from loadsheet.errors import (
        ExchangeUnreachable,
        FileRefused,
        FolderError,
        LedgerBusy,
        LedgerError,
        LoadsheetError,
        MappingError,
        SettingsError,
        TokenRefused,
    )
    from loadsheet.library import Check, RunReport, Translation, check, run, translate
    from loadsheet.mapping.compile import CompiledMapping as Mapping
    from loadsheet.mapping.documents import Document, Ignored
    from loadsheet.mapping_tools.comparison import MissingFile
    from loadsheet.problems import Problem, Where
    from loadsheet.settings import Settings

__all__ = [
    "Check",
    "Document",
    "ExchangeUnreachable",
    "FileRefused",
    "FolderError",
    "Ignored",
    "LedgerBusy",
    "LedgerError",
    "LoadsheetError",
    "Mapping",
    "MappingError",
    "MissingFile",
    "Problem",
    "RunReport",
    "Settings",
    "SettingsError",
    "TokenRefused",
    "Translation",
    "Where",
    "check",
    "run",
    "translate",
]

_HOMES = {
    "library": ("Check", "RunReport", "Translation", "check", "run", "translate"),
    "mapping.compile": ("Mapping",),
    "mapping.documents": ("Document", "Ignored"),
    "mapping_tools.comparison": ("MissingFile",),
    "problems": ("Problem", "Where"),
    "settings": ("Settings",),
}
_NAMED_THERE = {"Mapping": "CompiledMapping"}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

if not TYPE_CHECKING:  # a type checker shall find misspelled names

    def __getattr__(name: str) -> object:
        """Import one of the names above from its module; exceptions are in `errors`. Raises AttributeError for others."""
        if name not in __all__:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        home = import_module(f"{__name__}.{_HOME_OF.get(name, 'errors')}")
        value = globals()[name] = getattr(home, _NAMED_THERE.get(name, name))
        return value

    def __dir__() -> list[str]:
        """The public names, for completion."""
        return [*globals(), *__all__]

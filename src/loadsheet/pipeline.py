"""The stages in order and nothing else. Read this first.

    inbox -> reading -> mapping -> ledger -> dispatch -> reconcile -> reports

Up to the ledger nothing touches the network; after it nothing touches a source file. After a crash everything is decided from
the ledger, so a run begins by learning what the last one left unknown, and only then sends anything new.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

from loadsheet import inbox, reconcile, reports
from loadsheet.contract import SENDING_ORDER
from loadsheet.dispatch import Client, SendingReport, resolve_unknown, send
from loadsheet.ledger import NEEDS_SOMEONE, Drop, Ledger, Run, SourceFile, SourceTable, State
from loadsheet.mapping import Document, Ignored, Mapping, Route, load_folder, route, translate
from loadsheet.problems import ExchangeUnreachable, FileRefused, LoadsheetError, Problem, TokenRefused
from loadsheet.reading import Table, open_tables
from loadsheet.settings import Settings

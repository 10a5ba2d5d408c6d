"""Loads the modules that every run of a worker needs. The fork server imports this module once, and each run is a fork of it.

The import also compiles the page templates. Finally it excludes all objects from garbage collection, which would copy the memory
that the runs share.
"""

import gc
import importlib

from loadsheet.reports.html_pages import compile_templates

_MODULES = (
    "loadsheet.cli.run",
    "loadsheet.cluster.job_queue",
    "loadsheet.credentials",
    "loadsheet.forecasts",
    "loadsheet.ledger.migrations",
    "loadsheet.ledger.shared.cluster_status",
    "loadsheet.mapping.expressions",
    "loadsheet.operations.run_hooks",
    "loadsheet.pipeline",
    "loadsheet.reports",
    "loadsheet.run_resources",
    "pandas",
    "psycopg",
    "sqlalchemy.dialects.postgresql.psycopg",
    "structlog",
)
_CODECS = ("ascii", "unicode_escape", "utf_16_le", "utf_8_sig")

for _name in (*_MODULES, *(f"encodings.{codec}" for codec in _CODECS)):
    importlib.import_module(_name)
compile_templates()
gc.collect()
gc.freeze()
gc.set_threshold(50_000)  # as in the command line: rows create many objects and no cycles

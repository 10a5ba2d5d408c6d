"""Commands without their start: the process that forks has imported what they need, each fork becomes one of them."""

import importlib
import os
import sys

_COMMANDS = ("run", "resolve", "retry", "look", "doctor", "check", "exchange", "worker", "workers", "report")
_ROOMS = (
    "pipeline",
    "exchange.server",
    "mapping.expressions",
    "authoring",
    "fleet.worker",
    "fleet.work",
    "fleet.hands",
    "fleet.pacing",
)
_LIBRARIES = ("pandas", "structlog", "psycopg", "procrastinate")  # else each command would load them again
_DIALECTS = ("sqlalchemy.dialects.postgresql.psycopg", "sqlalchemy.dialects.sqlite")
_NEEDED = (
    *(f"loadsheet.cli.{name}" for name in _COMMANDS),
    *(f"loadsheet.{name}" for name in _ROOMS),
    *_LIBRARIES,
    *_DIALECTS,
)


def prepare():
    """Import what any command needs."""
    for name in _NEEDED:
        importlib.import_module(name)


def become(folder, words, variables, files, before=lambda: None):
    """Be `loadsheet WORDS` in a folder, with these variables and nothing else of the environment; `files` are the descriptors of its
    stdin, stdout and stderr. `before` is called when all of that is so. Never returns.
    """
    from loadsheet.cli import invoke  # noqa: PLC0415 (the tests' own process needs none of it)

    for number, file in enumerate(files):
        os.dup2(file, number)
    sys.stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115 (a descriptor; the process ends with it)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(variables)
    code = 70
    try:
        before()
        code = invoke(words)
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)

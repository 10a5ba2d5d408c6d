"""A child process that is killed at its nth step: a statement, a commit, or a call that changes files."""

import os
import signal
import sys

from sqlalchemy import Engine, event


def dies_at(point, act, files=(), more=()):
    """Do `act` in a child that is killed at this step; whether it came so far. `act` is given a function that begins the counting; `files` are
    the audit events that count beside statements and commits, and `more` events of SQLAlchemy, each with what it happens to.
    """
    child = os.fork()
    if not child:
        left = [point]

        def count(*about):
            left[0] -= not (len(about) > 2 and about[2].startswith("PRAGMA"))  # looking changes nothing
            if not left[0]:
                os.kill(os.getpid(), signal.SIGKILL)

        def begin():
            event.listen(Engine, "before_cursor_execute", count)
            for happens_to, name in ((Engine, "commit"), *more):
                event.listen(happens_to, name, count)
            sys.addaudithook(lambda name, _: count() if name in files else None)

        try:
            act(begin)
            os._exit(0)
        finally:
            os._exit(3)
    _, status = os.waitpid(child, 0)
    assert status in (0, signal.SIGKILL)
    return status == signal.SIGKILL

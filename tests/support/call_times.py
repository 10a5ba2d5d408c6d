"""When calls left their gates, heard in each process that sends: what arrives elsewhere is late by as much as the machine is busy."""

import os
import struct
from bisect import bisect_left

from loadsheet.dispatch.shared_rate import SharedRate

HEARD = "THE_TESTS_DEPARTURES"
_MOMENT = struct.Struct("d")


class Departures:
    """Those of all processes that `listen` to them in one file. A process of the nursery does if `heard` is in its environment."""

    def __init__(self, path):
        self.path, self.heard = path, {HEARD: str(path)}

    def moments(self):
        """In seconds by the clock of departures, oldest first."""
        return sorted(moment for (moment,) in _MOMENT.iter_unpack(self.path.read_bytes()))


def listen(path):
    """Hear what leaves through the limiter of a fleet's pace in this process, right before it does."""
    file, take = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600), SharedRate.try_acquire

    def heard(fleet, now):
        leaves = take(fleet, now)
        if leaves:
            os.write(file, _MOMENT.pack(now))
        return leaves

    SharedRate.try_acquire = heard


def busiest(moments, span_s=1.0):
    """The most of these ordered moments in any `span_s`."""
    return max((bisect_left(moments, moment + span_s) - place for place, moment in enumerate(moments)), default=0)

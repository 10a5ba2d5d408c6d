"""A watch looks when something happens and when it is time, runs when there is work, and pauses when it cannot."""

import os
import signal
import threading
import time
import warnings

import pytest
from inbox_files import RUN, drop, lies_in, settings_in

from loadsheet.errors import ExchangeUnreachable, FolderError, LedgerError, MappingError, TokenRefused
from loadsheet.inbox import archive, claim, scan
from loadsheet.inbox_watch import WakeEvents, Watch, WatchedRun, watch
from loadsheet.problems import Problem

FAST = {"settle_s": 0.03, "poll_s": 0.02, "rescan_s": 30, "retry_s": 0.05, "retry_max_s": 0.2}


@pytest.fixture(autouse=True)
def _short_bursts(monkeypatch):
    """A burst of events is over after 0.01 s, so that pauses come from the settings of a test."""
    monkeypatch.setattr("loadsheet.inbox_watch.DEBOUNCE_S", 0.01)


class Runs:
    """Stands for a run: takes what is finished, keeps count, and has the watch stopped when a test has seen enough."""

    def __init__(self, place, enough, *, leaves=()):
        self.place, self.enough, self.leaves = place, enough, leaves
        self.taken, self.times, self.said = [], [], []
        self.deadline = time.monotonic() + 60

    def __call__(self):
        self.times.append(time.monotonic())
        found = scan(self.place)
        candidates = [candidate for candidate in found.candidates if candidate.name not in self.leaves]
        for candidate in candidates:
            if file := claim(candidate, self.place, RUN):
                archive(file, self.place, RUN)
                self.taken.append(candidate.name)
        self.look()
        return WatchedRun(0, None, found.left)

    def look(self):
        if self.enough(self) or time.monotonic() > self.deadline:
            os.kill(os.getpid(), signal.SIGTERM)

    def unfinished(self):
        return 0

    def say(self, text):
        self.said.append(text)
        self.look()


def go(place, runs, *deeds, run=None, unfinished=None, **more):
    """Watch, while `deeds` are done, one after the other; each is tried until it works."""

    def do():
        for deed in deeds:
            while deed() is False:
                time.sleep(0.01)

    meanwhile = threading.Thread(target=do)
    meanwhile.start()
    with WakeEvents([place], runs.say, **more) as wake_events:
        ended = watch([Watch(place, run or runs, unfinished or runs.unfinished, runs.say)], wake_events)
    meanwhile.join()
    return ended


@pytest.fixture
def place(tmp_path):
    return settings_in(tmp_path, **FAST)


def test_what_is_there_at_the_start_is_taken_and_so_is_what_comes(place):
    drop(place, "early.csv")
    before = signal.getsignal(signal.SIGTERM)
    runs = Runs(place, lambda runs: "n/late.csv" in runs.taken)
    assert go(place, runs, lambda: bool(runs.taken), lambda: drop(place, "n/late.csv")) == signal.SIGTERM
    assert runs.taken == ["early.csv", "n/late.csv"]
    assert runs.said == []
    assert signal.getsignal(signal.SIGTERM) is before


@pytest.mark.parametrize(
    ("chosen", "mounted", "said"),
    [
        ({}, "30 22 0:40 / / rw - nfs4 server:/export rw\n", "network share or shared folder (nfs4)"),
        ({"watch_with": "polling"}, "", "watch.method is polling"),
    ],
)
def test_on_a_network_share_or_on_demand_the_watch_polls_and_says_so_once(tmp_path, chosen, mounted, said):
    place, mounts = settings_in(tmp_path, **FAST, **chosen), tmp_path / "mountinfo"
    mounts.write_text(mounted)
    runs = Runs(place, lambda runs: len(runs.taken) == 2)
    deeds = (lambda: drop(place, "a.csv"), lambda: bool(runs.taken), lambda: drop(place, "b.csv"))
    go(place, runs, *deeds, mounts=mounts)
    assert runs.taken == ["a.csv", "b.csv"]
    (line,) = runs.said
    assert said in line


def test_without_any_event_the_rescan_finds_it(tmp_path):
    place = settings_in(tmp_path, **FAST | {"rescan_s": 0.1})
    runs = Runs(place, lambda runs: runs.taken)
    with WakeEvents([place], runs.say) as wake_events:
        wake_events.listen()
        wake_events.listeners[0].observer.unschedule_all()  # the system tells nothing any more
        drop(place, "a.csv")
        watch([Watch(place, runs, runs.unfinished, runs.say)], wake_events)
    assert runs.taken == ["a.csv"]


def test_while_nothing_is_to_be_run_files_are_checked(place):
    checked = []

    def check():
        if not checked:
            drop(place, "a.csv")
        checked.append(len(runs.times))

    runs = Runs(place, lambda runs: runs.taken)
    with WakeEvents([place], runs.say) as wake_events:
        watch([Watch(place, runs, runs.unfinished, runs.say, check=check)], wake_events)
    assert (checked[0], runs.taken) == (0, ["a.csv"])


def test_files_that_come_one_after_the_other_are_taken_together(tmp_path):
    place = settings_in(tmp_path, **FAST | {"settle_s": 0.2})
    runs = Runs(place, lambda runs: len(runs.taken) == 10)

    def come():
        for number in range(10):
            drop(place, f"{number}.csv")
            time.sleep(0.02)

    go(place, runs, come)
    assert len(runs.times) <= 3


def test_a_file_that_never_ends_holds_up_the_others_for_a_while_only(place):
    runs = Runs(place, lambda runs: "a.csv" in runs.taken)
    drop(place, "a.csv")

    def grow():
        with (place.inbox / "endless.csv").open("ab") as file:
            file.write(b"x")
        time.sleep(0.02)
        return bool(runs.taken)

    go(place, runs, grow)
    assert runs.taken == ["a.csv"]


def runs_until_another_comes(place, runs, quiet_s, exit_code=0, earlier=1):
    """How many runs there are if another file comes `quiet_s` after the first ones (as many as `earlier`)."""
    deeds = (lambda: len(runs.times) >= earlier, lambda: time.sleep(quiet_s), lambda: drop(place, "other.csv", b"a"))
    go(place, runs, *deeds, run=lambda: runs()._replace(exit_code=exit_code))
    return len(runs.times)


@pytest.mark.parametrize("exit_code", [0, 1])
def test_files_that_stay_in_the_inbox_cause_no_other_run_until_a_new_file_comes(tmp_path, exit_code):
    """One that waits for its companion, one that cannot be taken, and one that is too large; with 1 they need someone."""
    place = settings_in(tmp_path, **FAST | {"file_bytes_max": 10})
    runs = Runs(place, lambda runs: "other.csv" in runs.taken, leaves=("waits.csv",))
    drop(place, "waits.csv", b"Order")
    (place.inbox / "link.csv").symlink_to("nowhere")
    drop(place, "huge.csv", b"x" * 11)
    assert runs_until_another_comes(place, runs, 0.2, exit_code) == 2
    assert lies_in(place.inbox) == ["huge.csv", "link.csv", "waits.csv"]


def test_a_file_that_has_waited_too_long_causes_one_more_run(tmp_path):
    place = settings_in(tmp_path, **FAST | {"companion_wait_s": 0.5, "rescan_s": 0.1})
    runs = Runs(place, lambda runs: "other.csv" in runs.taken, leaves=("waits.csv",))
    drop(place, "waits.csv")
    assert runs_until_another_comes(place, runs, 0.2, earlier=2) == 3


def test_entries_that_are_unfinished_cause_a_run_at_once_and_then_with_growing_pauses(place):
    runs = Runs(place, lambda runs: len(runs.times) == 5)
    go(place, runs, unfinished=lambda: 3)
    pauses = [after - before for before, after in zip(runs.times, runs.times[1:], strict=False)]
    assert len(pauses) == 4
    assert all(pause >= least for pause, least in zip(pauses, [0.05, 0.1, 0.2, 0.2], strict=True))


def test_what_may_pass_by_itself_is_tried_again_and_said_once(place):
    """Not before its pause is over, although another file comes."""
    runs = Runs(place, lambda runs: len(runs.taken) == 2)
    drop(place, "a.csv")
    stops = [ExchangeUnreachable("nobody there"), ExchangeUnreachable("nobody there"), FolderError("the disk is full")]
    met = []

    def run():
        if not stops:
            return runs()
        met.append(time.monotonic())
        stopped = stops.pop(0)
        if isinstance(stopped, FolderError):
            raise stopped
        return WatchedRun(75, stopped)

    go(place, runs, lambda: bool(met), lambda: drop(place, "b.csv"), run=run)
    assert runs.taken == ["a.csv", "b.csv"]
    assert [text.split(";")[0] for text in runs.said] == ["nobody there", "the disk is full"]
    assert (met[1] - met[0] >= 0.05, met[2] - met[1] >= 0.1) == (True, True)


@pytest.mark.parametrize("error", [TokenRefused("401"), MappingError("no such column"), LedgerError("it is damaged")])
def test_what_does_not_pass_by_itself_ends_the_watch(place, error):
    drop(place)

    def run():
        if isinstance(error, TokenRefused):
            return WatchedRun(error.exit_code, error)
        raise error

    with pytest.raises(type(error)):
        go(place, Runs(place, lambda _: False), run=run)


def test_an_inbox_that_is_unmounted_is_said_and_the_watch_goes_on_when_it_is_back(tmp_path):
    place = settings_in(tmp_path, **FAST | {"rescan_s": 0.2})
    runs = Runs(place, lambda runs: "b.csv" in runs.taken)
    drop(place, "a.csv")

    def unmount():
        place.inbox.rename(tmp_path / "away")
        place.inbox.mkdir()

    def mount():
        place.inbox.rmdir()
        (tmp_path / "away").rename(place.inbox)
        drop(place, "b.csv")

    go(place, runs, lambda: bool(runs.taken), unmount, lambda: bool(runs.said), mount)
    assert "is a different folder than before" in runs.said[0]
    assert runs.taken == ["a.csv", "b.csv"]


def test_a_file_that_is_busy_when_it_is_to_be_taken_is_tried_again(place):
    runs = Runs(place, lambda runs: runs.taken)
    drop(place, "a.csv")
    busy = [Problem("A104", found="a.csv")] * 2

    def run():
        return WatchedRun(0, None, (busy.pop(),)) if busy else runs()

    go(place, runs, run=run)
    assert runs.taken == ["a.csv"]


@pytest.mark.parametrize("queued", [False, True], ids=["by this process", "queued for a worker"])
def test_files_over_the_limit_of_a_run_are_taken_by_the_next_one_at_once(place, queued):
    place = place.model_copy(update={"arrival": {"run_files_max": 1}})
    runs = Runs(place, lambda runs: len(runs.taken) == 3)
    for name in ("a.csv", "b.csv", "c.csv"):
        drop(place, name)

    def run():
        runs.leaves = tuple(path.name for path in sorted(place.inbox.glob("*.csv"))[1:])
        more = (Problem("A119", values={"count": 1, "limit": "1 file"}),) if runs.leaves and not queued else ()
        return runs()._replace(left=more, queued=queued)

    go(place, runs, run=run)
    assert runs.taken == ["a.csv", "b.csv", "c.csv"]
    assert len(runs.times) == 3


def test_a_folder_that_is_listened_to_twice_is_no_reason_to_say_anything(place):
    with WakeEvents([place], print):
        warnings.warn(
            "Callback with id '1' already exists for watch 2. It will be Overwritten.", RuntimeWarning, stacklevel=1
        )


@pytest.mark.sweep
def test_ten_thousand_files_at_once_are_all_taken(tmp_path):
    place = settings_in(tmp_path, **FAST | {"settle_s": 1.0})
    runs = Runs(place, lambda runs: len(runs.taken) == 10_000)
    runs.deadline += 600
    go(place, runs, lambda: [drop(place, f"{at % 50}/{at}.csv", b"%d" % at) for at in range(10_000)])
    assert len(set(runs.taken)) == len(runs.taken) == 10_000
    assert lies_in(place.inbox) == []


def test_a_watch_serves_the_other_shippers_after_one_failed_and_ends_with_the_last(tmp_path):
    places = []
    for name in ("acme", "birch"):
        (tmp_path / name).mkdir()
        places.append(settings_in(tmp_path / name, **FAST))
        drop(places[-1], f"{name}.csv")
    said, closed, runs = [], [], Runs(places[1], lambda _: False)

    def refused():
        drop(places[1], "late.csv")
        raise TokenRefused("the exchange refused the token")

    def served():
        if "late.csv" in runs.taken:
            assert [listener.settings for listener in wake_events.listeners] == [places[1]]
            raise MappingError("no such column")
        return runs()

    watches = [
        Watch(places[0], refused, lambda: 0, said.append, closed.append),
        Watch(places[1], served, lambda: 1, runs.say),
    ]
    with WakeEvents(places, said.append) as wake_events, pytest.raises(MappingError):
        watch(watches, wake_events)
    assert set(runs.taken) == {"birch.csv", "late.csv"}
    (line,) = said
    assert line.endswith("; this shipper is no longer watched (exit code 77); the others are")
    assert [why.exit_code for why in closed] == [77]

"""The log: one file of JSON lines a run, lines on stderr on wish, and nothing in them that must not be there."""

import json
import re
import string
from contextlib import redirect_stdout
from pathlib import Path
from urllib.parse import quote

import pytest
from command_in_process import Terminal
from hypothesis import given
from hypothesis import strategies as st
from monitored_runs import TOKEN, Exchange, house, order_id, write_orders
from orders import MAPPINGS
from ready_entries import Naps, ledgers, orders, settings

from loadsheet import run_log
from loadsheet.cli import invoke
from loadsheet.cli.output import print_lines, say
from loadsheet.dispatch import Client, SendOptions, send
from loadsheet.settings import Settings


@pytest.fixture
def quiet(tmp_path):
    return Settings(state=tmp_path, log_level="off")


def logged(settings, speak, run="2026-03-04-01", **more):
    """The lines of a run's file after something spoke, and its text."""
    with run_log.opened(settings, **more):
        run_log.run_started(run)
        speak()
    text = (settings.state / "logs" / f"{run}.jsonl").read_bytes().decode("ascii")
    return parsed(text), text


def of(lines, event):
    return [line for line in lines if line["event"] == event]


def parsed(text):
    return [json.loads(line) for line in text.splitlines()]


# what a run logs


def test_a_run_logs_what_became_of_files_and_of_entries_that_need_someone(tmp_path, capsys):
    exchange = Exchange(refused=[order_id(1)], lost=[order_id(2)])
    with house(tmp_path, exchange, shipper="acme") as here:
        assert here.night(5, wrong_every=4).exit_code == 1
        lines = here.lines()
    assert capsys.readouterr().err == "", "nothing goes to stderr unless it is asked for"
    assert {line["run"] for line in lines} == {"2026-03-04-01"}
    assert {line["shipper"] for line in lines} == {"acme"}
    assert all(re.fullmatch(r"2026-03-04T02:1\d:\d\d\.\d{3}Z", line["timestamp"]) for line in lines), "the clock's"
    (planned,) = of(lines, "entries planned")
    assert planned["entries"] == {"invalid": 2, "ready": 3}
    assert (planned["mapping"], planned["rows"], planned["file"]) == ("bench-join", 20, "orders.csv")
    (refused,) = of(lines, "entry refused")
    assert (refused["key"], refused["file"], refused["row"], refused["status"]) == (order_id(1), "orders.csv", 3, 400)
    assert "is not served" in refused["reason"]
    (unknown,) = of(lines, "entry unknown")
    assert (unknown["key"], unknown["level"]) == (order_id(2), "warning")
    (ended,) = of(lines, "run ended")
    assert (ended["exit_code"], ended["entries"]) == (1, {"accepted": 1, "invalid": 2, "refused": 1, "unknown": 1})
    assert {"learn", "intake", "one drop", "sending", "reconcile", "reports", "run"} == {
        line["stage"] for line in of(lines, "stage over")
    }
    assert of(lines, "listing read")[0]["operation"] == "order.list"
    assert of(lines, "call answered") == []


def test_what_is_held_or_set_aside_is_named_and_what_a_person_decides_has_a_log_of_its_own(tmp_path):
    with house(tmp_path, Exchange(refused=[order_id(0)])) as here:
        (here.settings.inbox / "strange.csv").write_text("a,b\n1,2\n", encoding="utf-8")
        here.night(3)
        (aside,) = of(here.lines(), "file set aside")
        path = here.settings.inbox / "orders.csv"
        write_orders(here.settings.inbox, 3)
        path.write_text(path.read_text(encoding="utf-8").replace("Empf\u00e4nger 1", "Somebody else"), encoding="utf-8")
        here.night()
        (held,) = of(here.lines(), "entry held")
        assert invoke(["retry", "--refused", "--state", str(here.settings.state), "--who", "me"]) == 0
        decided = max(path.stem for path in (here.settings.state / "logs").iterdir())
        assert [line["event"] for line in here.lines(decided)] == ["run began", "run ended"]
    assert (aside["file"], aside["code"]) == ("strange.csv", "A101")
    assert "no mapping matches strange.csv" in aside["reason"]
    assert (held["key"], held["file"], held["row"]) == (order_id(1), "orders.csv", 3)
    assert held["reason"]


def test_what_goes_well_costs_the_same_number_of_lines_however_much_it_is(tmp_path):
    counts = set()
    for count in (3, 20):
        with house(tmp_path / str(count), connections=2, connections_start=2) as here:
            assert here.night(count).exit_code == 0
            counts.add(len(here.lines()))
    assert len(counts) == 1


def test_debug_shows_each_answer_with_attempt_status_and_duration_and_no_body(tmp_path, capsys):
    with house(tmp_path, Exchange(refused=[order_id(0)]), log_level="debug") as here:
        here.night(2)
        calls = of(here.lines(), "call answered")
        assert of(parsed(capsys.readouterr().err), "call answered") == calls
    refused, accepted = sorted(calls, key=lambda call: call["status"], reverse=True)
    assert (refused["key"], refused["status"], refused["outcome"], refused["attempt"]) == (
        order_id(0),
        400,
        "refused",
        1,
    )
    assert (accepted["status"], accepted["outcome"], accepted["operation"]) == (200, "accepted", "order.create")
    assert accepted["duration_ms"] >= 0
    assert "Hauptstra" not in json.dumps(calls), "addresses are of bodies"


def test_a_run_that_stops_early_logs_why_and_only_the_command_prints_it(tmp_path, capsys):
    with house(tmp_path, Exchange(busy=1_000), unreachable_max=1, log_level="info") as here:
        assert here.night(2).exit_code == 75
        (stopped,) = of(here.lines(), "the run stopped early")
        assert stopped["exit_code"] == 75
        assert "busy" in stopped["reason"]
        assert "stopped early" not in capsys.readouterr().err


def test_pauses_and_their_end_are_logged_once_each(tmp_path):
    naps, chosen = Naps(), settings(state=tmp_path, connections=1)
    with (
        ledgers.ledger_in(tmp_path) as ledger,
        house(tmp_path, Exchange(busy=2)) as here,
        Client(here.server.url, TOKEN, chosen) as client,
        run_log.opened(chosen),
    ):
        run = ledger.begin_run()
        orders(ledger, run, 6)
        report = send(ledger, client, run, chosen, SendOptions(sleep=naps.sleep, clock=naps.clock))
    assert report.accepted == 6
    lines = parsed((tmp_path / "logs" / f"{run.name}.jsonl").read_text(encoding="ascii"))
    (pause,), (end,) = of(lines, "calls pause"), of(lines, "calls go on")
    assert (pause["status"], end["status"]) == (429, 200)
    assert lines.index(pause) < lines.index(end)
    assert pause["pause_s"] > 0


# where lines go


def test_in_a_pipe_lines_are_json_from_the_level_on_and_sentences_are_lines_as_well(tmp_path, capsys):
    with run_log.opened(Settings(state=tmp_path, log_level="warning", shipper="acme")):
        run_log.run_started("2026-03-04-01")
        run_log.warning("calls pause", pause_s=2)
        say("A104 orders.csv is still being written")
    lines = parsed(capsys.readouterr().err)
    assert [line["event"] for line in lines] == ["calls pause", "A104 orders.csv is still being written"]
    assert {line["shipper"] for line in lines} == {"acme"}


def test_what_a_command_says_at_its_end_is_a_line_as_well_and_nothing_of_that_is_left_for_the_next(
    tmp_path, capsys, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "inbox").mkdir()
    monkeypatch.setenv("LOADSHEET_MONITORING__LOG_LEVEL", "error")
    words = ["run", "--settle", "0", "--mappings", str(MAPPINGS), "--exchange", "http://127.0.0.1:9"]
    assert invoke(words) == 78
    (line,) = capsys.readouterr().err.splitlines()
    assert json.loads(line)["event"].startswith("loadsheet: no token")
    monkeypatch.setenv("LOADSHEET_MONITORING__LOG_LEVEL", "off")
    assert invoke(words) == 78
    assert capsys.readouterr().err.startswith("loadsheet: no token")
    say("and plain again")
    assert capsys.readouterr().err == "and plain again\n"


def test_that_a_watch_begins_and_ends_is_no_warning(tmp_path, capsys):
    """Who is called for each warning would be called at each start."""
    with run_log.opened(Settings(state=tmp_path, log_level="error", log_format="json")):
        say("watching inbox", level="info")
        say("loadsheet: the exchange is away")
    lines = map(json.loads, capsys.readouterr().err.splitlines())
    assert [(line["level"], line["event"]) for line in lines] == [
        ("info", "watching inbox"),
        ("warning", "loadsheet: the exchange is away"),
    ]


@pytest.mark.parametrize("chosen", ["auto", "human", "json"])
def test_a_terminal_gets_lines_for_people_unless_json_is_asked_for(tmp_path, monkeypatch, chosen):
    terminal = Terminal()
    monkeypatch.setattr("sys.stderr", terminal)
    monkeypatch.setenv("NO_COLOR", "1")
    with run_log.opened(Settings(state=tmp_path, log_level="info", log_format=chosen)):
        run_log.info("file taken", file="a\x1b[31m.csv", rows=3)
    (line,) = terminal.getvalue().splitlines()
    assert "\x1b" not in line
    if chosen == "json":
        assert json.loads(line)["file"] == "a\\x1b[31m.csv"
    else:
        assert "file taken" in line
        assert "rows=3" in line
        assert not line.startswith("{")


@pytest.mark.parametrize(("name", "value"), [("NO_COLOR", "1"), ("TERM", "dumb")])
def test_a_result_has_colours_only_on_a_terminal_that_shows_them(monkeypatch, name, value):
    def shown(**variables):
        terminal = Terminal()
        for variable in ("NO_COLOR", "TERM"):
            monkeypatch.setenv(variable, variables.get(variable, ""))
        with redirect_stdout(terminal):
            print_lines(["✓ done"])
        return terminal.getvalue()

    assert "\x1b[32m" in shown()
    assert shown(**{name: value}) == "✓ done\n"


def test_lines_before_a_run_has_a_name_stand_first_in_its_file(quiet, tmp_path):
    """A second log goes into the one that is open."""
    with run_log.opened(quiet):
        run_log.warning("a mapping is old")
        run_log.run_started("2026-03-04-01")
        with run_log.opened(Settings(state=tmp_path / "other"), reuse=True):
            run_log.info("still here")
        run_log.info("and here")
    lines = parsed((tmp_path / "logs" / "2026-03-04-01.jsonl").read_text())
    assert [line["event"] for line in lines] == ["a mapping is old", "run began", "still here", "and here"]
    assert not (tmp_path / "other").exists()


# logging never costs a run


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full")
@pytest.mark.parametrize(
    ("level", "fault", "reason"),
    [("off", "a full disk", "No space left on device"), ("warning", "no folder", "File exists")],
)
def test_a_log_that_cannot_be_written_is_said_once_and_does_not_end_the_run(tmp_path, capsys, level, fault, reason):
    with house(tmp_path, log_level=level) as here:
        path = here.settings.state / "logs" / "2026-03-04-01.jsonl"
        if fault == "a full disk":
            path.parent.mkdir(parents=True)
            path.symlink_to("/dev/full")
        else:
            here.settings.state.mkdir(parents=True)
            path.parent.write_text("in the way", encoding="utf-8")
        assert here.night(2).exit_code == 0
    lines = [line for line in capsys.readouterr().err.splitlines() if "could not be written" in line]
    (said,) = [json.loads(line)["event"] for line in lines] if level == "warning" else lines
    assert said == f"the log {path} could not be written: {reason}; the run goes on without it"


def test_a_run_in_which_everything_goes_wrong_writes_no_endless_file(quiet):
    def speak():
        for number in range(run_log.ENTRIES_MAX + 500):
            run_log.entry("entry refused", key=number)
        run_log.info("long", reason="ä" * 100_000, keys=list(range(10_000)))

    lines, text = logged(quiet, speak)
    assert len(of(lines, "entry refused")) == run_log.ENTRIES_MAX
    assert lines[-2]["event"] == "further entries are in the reports only"
    assert lines[-1]["reason"].endswith("... (100000 characters)")
    assert len(lines[-1]["keys"]) == 50
    assert len(text.splitlines()[-1]) < 5_000


# what a line may hold


def test_the_token_of_a_client_appears_in_no_line_wherever_it_turns_up(quiet):
    """Nor in the traceback of an internal error."""
    Client("http://127.0.0.1:9", TOKEN, quiet)

    def speak():
        reason, deep = f"Bearer {TOKEN}", [{"deep": (TOKEN,)}]
        run_log.info(f"we say {TOKEN}", reason=reason, seen=deep, odd={TOKEN: 1}, error=ValueError(TOKEN))
        with run_log.stage(f"stage of {TOKEN}", file=f"{TOKEN}.csv"):
            run_log.entry("entry refused", reason=f"<html>{TOKEN * 3}</html>" + "x" * 900 + TOKEN)
        raise RuntimeError(f"cannot send {TOKEN}")

    with pytest.raises(RuntimeError):
        logged(quiet, speak)
    text = (quiet.state / "logs" / "2026-03-04-01.jsonl").read_text(encoding="ascii")
    assert TOKEN not in text
    assert text.count(run_log.HIDDEN) > 6
    (line,) = of(parsed(text), "an internal error")
    assert "RuntimeError: cannot send ***" in line["exception"]
    assert "in speak" in line["exception"]


def test_secrets_of_the_settings_and_of_urls_and_headers_are_hidden_without_anybody_naming_them(tmp_path):
    url, owner = "mailto://robot:pass%2Fword-9@mail.example", "json://anna:owners-word@hooks.example"
    chosen = Settings(state=tmp_path, token="sesame-1234", notify=(url,), notify_owners={"anna": owner})
    lines = [
        {"reason": f"cannot reach {url}", "password": "x", "body": b"{}", "payload": {"a": 1}, "headers": ["b"]},
        {"zeroth": f"sent to {owner}", "first": "https://me:topsecret@host/path"},
        {"second": "Authorization: Basic dXNlcg==", "third": quote("pass%2Fword-9", safe="")},
    ]
    _, text = logged(chosen, lambda: [run_log.info("sesame-1234", **line) for line in lines])
    for secret in ("sesame-1234", "pass%2Fword-9", "owners-word", "topsecret", "dXNlcg", '{"a": 1}', "word-9"):
        assert secret not in text, secret


RESERVED = ("event", "said", "exc_info", "stack_info")
texts = st.text(max_size=40) | st.text(alphabet="\x00\x1b\n\r\t\x7f\u202e\u2028\ud800" + string.ascii_letters)
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | texts | st.binary(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4),
    max_leaves=8,
)
names = st.from_regex(r"[a-z_]{1,12}", fullmatch=True).filter(lambda name: name not in RESERVED)


@given(texts, st.dictionaries(names, values, max_size=5))
def test_every_line_parses_stands_on_one_line_and_holds_no_control_character(tmp_path_factory, event, fields):
    chosen = Settings(state=tmp_path_factory.mktemp("state"))
    lines, text = logged(chosen, lambda: run_log.info(event, **fields))
    assert len(lines) == 2
    assert all(sign == "\n" or " " <= sign <= "~" for sign in text)
    for one in _texts(lines[1]):
        assert one.isprintable()
        assert len(one) <= run_log.TEXT_MAX + 30


def _texts(value):
    if isinstance(value, str):
        yield value
    elif isinstance(value, (dict, list)):
        for inner in [*value, *value.values()] if isinstance(value, dict) else value:
            yield from _texts(inner)

"""The log of a run: lines with fields, and the stages of the run with their durations.

Owns: structlog; where lines go (always to the run's file STATE/logs/RUN.jsonl; to stderr depending on `monitoring.log_level`), and what a
line may contain: no secret, no body, no control character, and limited text. Every module may log. Lines are dropped if no log is open,
and in threads other than the one that opened it.
"""

import os
import re
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from contextvars import ContextVar
from datetime import UTC, datetime, timedelta
from types import TracebackType
from typing import Any, Literal, NamedTuple, Protocol, Self, TextIO, cast
from urllib.parse import quote, urlsplit

from pydantic import BaseModel, SecretStr

from loadsheet.errors import LoadsheetError
from loadsheet.settings import Settings

Level = Literal["debug", "info", "warning", "error"]

HIDDEN = "***"
TEXT_MAX = 500
"""Maximum characters of a text in a line; a traceback may have eight times as many."""
ENTRIES_MAX = 1_000
"""Maximum number of lines about single entries in the log of a run; its reports list all of them."""

_LEVELS = {"debug": 10, "info": 20, "warning": 30, "error": 40, "off": 60}
_ITEMS_MAX = 50
_WAITING_MAX = 200  # lines logged before the run has a number
_SECRET_MIN = 4  # masking shorter ones would make every line unreadable
_FILE = re.compile(r"\d{4}-\d{2}-\d{2}-\d+\.jsonl")
_NEVER = frozenset({"authorization", "body", "headers", "password", "payload", "token"})
_BEARER = re.compile(r"(?i)\b(bearer|basic)\s+[^\s\"',;]+")
_USERINFO = re.compile(r"(?<=://)[^/\s@]+(?=@)")
_FIRST = ("timestamp", "level", "event", "shipper", "run")

_secrets: set[str] = set()


StageBegan = Callable[[str, Mapping[str, Any]], None]
"""Takes the name of a stage that begins, and its fields."""


class Spans(Protocol):
    """Receives the beginning and end of stages and calls, for traces."""

    def stage(self, name: str, fields: Mapping[str, Any]) -> AbstractContextManager[None]:
        """A context that lasts as long as a stage."""

    def call(self, name: str, seconds: float, fields: Mapping[str, Any]) -> None:
        """Record a call to the exchange that ends now and took this many seconds."""

    def set_attributes(self, **fields: Any) -> None:
        """Add fields to the spans that have begun."""


class _LogEvent(NamedTuple):
    level: Level
    event: str
    fields: Mapping[str, Any]


def hide(secret: str) -> None:
    """Mask this text in all lines from now on, also in its URL-encoded form."""
    if len(secret) >= _SECRET_MIN:
        _secrets.update((secret, quote(secret, safe="")))


def clean(text: str, most: int = TEXT_MAX) -> str:
    """The text, safe to show: secrets masked, control characters escaped, cut after `most` characters."""
    for secret in sorted(_secrets, key=len, reverse=True):
        text = text.replace(secret, HIDDEN)
    text = _USERINFO.sub(HIDDEN, _BEARER.sub(rf"\1 {HIDDEN}", text))
    if not text.isprintable():
        text = "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text)
    return text if len(text) <= most else f"{text[:most]}... ({len(text)} characters)"


def _safe(name: str, value: object) -> object:
    """The value of a field of this name, safe for a line."""
    if name.casefold() in _NEVER:
        return HIDDEN
    if isinstance(value, bytes | bytearray | memoryview):
        return f"({len(value)} bytes)"
    if isinstance(value, Mapping):
        return {clean(str(key)): _safe(str(key), inner) for key, inner in list(value.items())[:_ITEMS_MAX]}
    if isinstance(value, list | tuple | set | frozenset):
        return [_safe("", inner) for inner in list(value)[:_ITEMS_MAX]]
    is_number = abs(value) < float("inf") if isinstance(value, float) else type(value) is int and abs(value) < 2**63
    if value is None or isinstance(value, bool) or is_number:  # a number that every JSON parser accepts
        return value
    return clean(str(value) if not isinstance(value, int) else hex(value), TEXT_MAX * (8 if name == "exception" else 1))


def _all_safe(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {name: _safe(name, value) for name, value in fields.items()}


def _presentable(_logger: object, _method: str, fields: Mapping[str, Any]) -> dict[str, Any]:
    """Order and clean the fields. Runs after all processors of structlog that add text."""
    ordered = {name: fields[name] for name in _FIRST if name in fields and fields[name] != ""}
    ordered |= {name: value for name, value in fields.items() if name not in _FIRST}
    return {name: _safe(name, value) for name, value in ordered.items()}


class _FailSafeFile:
    """A file whose write errors end no run: the first one is passed to `on_error`, and all later text is dropped."""

    def __init__(self, file: TextIO, on_error: Callable[[Exception], object] = lambda _error: None) -> None:
        self._file, self._failed, self._on_error = file, False, on_error

    def write(self, text: str) -> None:
        """Write; after a failure drop everything."""
        if not self._failed:
            self._try(self._file.write, text)

    def flush(self) -> None:
        """Flush; after a failure do nothing."""
        if not self._failed:
            self._try(self._file.flush)

    def close(self) -> None:
        """Close; ignore errors."""
        self._try(self._file.close)

    def _try(self, act: Callable[..., object], *words: str) -> None:
        try:
            act(*words)
        except (OSError, ValueError) as error:  # a full disk, a reader that is gone, a closed stream
            was_failed, self._failed = self._failed, True
            if not was_failed:
                self._on_error(error)


def _logger(stream: _FailSafeFile, level: str, *, human: bool, colours: bool = False) -> Any:
    import structlog

    last = (
        structlog.dev.ConsoleRenderer(colors=colours, pad_event_to=0)
        if human
        else structlog.processors.JSONRenderer(ensure_ascii=True)
    )
    chain: list[Any] = [structlog.processors.add_log_level, structlog.processors.format_exc_info, _presentable, last]
    kind = structlog.make_filtering_bound_logger(_LEVELS[level])
    return structlog.wrap_logger(structlog.WriteLogger(cast("TextIO", stream)), chain, kind).bind()


class RunLog:
    """The log of one command. `opened` makes it."""

    def __init__(
        self, settings: Settings, clock: Callable[[], datetime], spans: Spans | None, heartbeat: Callable[[], None]
    ) -> None:
        self.figures: dict[str, float] = {}
        self.spans, self.heartbeat = spans, heartbeat
        self.stage_began: StageBegan | None = None
        self.settings, self._clock = settings, clock
        self.is_debug = settings.monitoring.log_level == "debug"
        self._bound: dict[str, Any] = {"shipper": settings.shipper}
        self._waiting: list[_LogEvent] = []
        self._stderr: Any = None
        self._run: Any = None
        self._file: _FailSafeFile | None = None
        self._entries = 0
        self.json = False
        if settings.monitoring.log_level != "off":
            terminal = sys.stderr.isatty()
            self.json = settings.monitoring.log_format == "json" or (
                settings.monitoring.log_format == "auto" and not terminal
            )
            colours = terminal and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
            terminal_file = _FailSafeFile(sys.stderr)
            self._stderr = _logger(terminal_file, settings.monitoring.log_level, human=not self.json, colours=colours)

    def began(self, run: str) -> None:
        """From now on, write lines to the file of this run, starting with those that waited for its number."""
        self.close()
        self._bound["run"] = run
        self._entries = 0
        path = self.settings.state / "logs" / f"{run}.jsonl"

        def failed(error: Exception) -> None:
            reason = getattr(error, "strerror", None) or error
            print_notice(f"the log {path} could not be written: {reason}; the run goes on without it")

        try:
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        except OSError as error:
            failed(error)
            return
        self._file = _FailSafeFile(os.fdopen(handle, "w", encoding="utf-8", errors="backslashreplace"), failed)
        self._run = _logger(self._file, "debug" if self.is_debug else "info", human=False)
        waiting, self._waiting = self._waiting, []
        for line in waiting:
            self._write(self._run, line)

    def write_line(self, line: _LogEvent, *, printed: bool = False) -> None:
        """Write a line; only to the file if the command itself prints it."""
        self.heartbeat()
        line = self._stamped(line)
        if self._stderr is not None and not printed:
            self._write(self._stderr, line)
        if self._run is not None:
            self._write(self._run, line)
        elif len(self._waiting) < _WAITING_MAX:
            self._waiting.append(line)

    def write_json_to_stderr(self, text: str, level: Level) -> None:
        """Write a sentence of this level to stderr only, as a line of JSON, whatever `monitoring.log_level` is."""
        self._write(_logger(_FailSafeFile(sys.stderr), "debug", human=False), self._stamped(_LogEvent(level, text, {})))

    def entry(self, line: _LogEvent) -> None:
        """Write a line about one entry, up to `ENTRIES_MAX`."""
        self._entries += 1
        if self._entries <= ENTRIES_MAX:
            self.write_line(line)
        elif self._entries == ENTRIES_MAX + 1:
            self.write_line(_LogEvent("warning", "further entries are in the reports only", {}))

    def _stamped(self, line: _LogEvent) -> _LogEvent:
        now = self._clock().astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        return line._replace(fields={**line.fields, "timestamp": now})

    def _write(self, logger: Any, line: _LogEvent) -> None:
        getattr(logger, line.level)(line.event, **{**self._bound, **line.fields})

    @contextmanager
    def stage(self, name: str, fields: Mapping[str, Any]) -> Iterator[None]:
        """A stage; its line is written at its end."""
        began, ended = time.perf_counter(), {"failed": True}
        self.heartbeat()
        if self.stage_began is not None:
            self.stage_began(name, fields)
        try:
            with self.spans.stage(name, _all_safe(fields)) if self.spans else nullcontext():
                yield
            ended = {}
        finally:
            took = {"duration_ms": round(1000 * (time.perf_counter() - began))}
            self.write_line(_LogEvent("info", "stage over", {"stage": name, **fields, **took, **ended}))

    def close(self) -> None:
        """Close the run's file."""
        if self._file is not None:
            self._file.close()
        self._run = self._file = None


_current: ContextVar[RunLog | None] = ContextVar("run_log", default=None)
_last: ContextVar[tuple[TextIO, Settings] | None] = ContextVar("last", default=None)
"""The stderr for which the last log wrote JSON, and the settings of that log."""


class opened:  # noqa: N801 (used as a verb: `with run_log.opened(settings):`)
    """A log for the duration of the block. `clock` stamps lines (aware), `spans` receives stages and calls, `heartbeat` is called for every
    line. An exception other than a LoadsheetError is logged with its traceback, secrets masked.

    With `reuse`, a log that is already open is used.
    """

    def __init__(
        self,
        settings: Settings,
        *,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
        spans: Spans | None = None,
        heartbeat: Callable[[], None] | None = None,
        reuse: bool = False,
    ) -> None:
        is_open = reuse and _current.get() is not None
        self._made = None if is_open else RunLog(settings, clock, spans, heartbeat or _no_heartbeat)
        for secret in _secrets_in(vars(settings).values()):
            text = secret.get_secret_value().strip()
            hide(text)
            if "://" in text:
                with suppress(ValueError):
                    hide(urlsplit(text).password or "")

    def __enter__(self) -> Self:
        self._before = _current.set(self._made) if self._made else None
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._made is None or self._before is None:
            return
        if isinstance(error, KeyboardInterrupt):
            self._made.write_line(_LogEvent("warning", "interrupted", {}), printed=True)
        elif isinstance(error, Exception) and not isinstance(error, LoadsheetError):
            self._made.write_line(_LogEvent("error", "an internal error", {"exc_info": error}))
        self._made.close()
        _current.reset(self._before)
        _last.set((sys.stderr, self._made.settings) if self._made.json else None)


def _no_heartbeat() -> None:
    """Do nothing: no health file is kept."""


def _secrets_in(values: Iterable[object]) -> Iterator[SecretStr]:
    """The secrets among these values, including nested sections, tables and lists."""
    for value in values:
        if isinstance(value, SecretStr):
            yield value
        elif isinstance(value, BaseModel):
            yield from _secrets_in(vars(value).values())
        elif isinstance(value, dict):
            yield from _secrets_in(value.values())
        elif isinstance(value, tuple | list):
            yield from _secrets_in(value)


def debug(event: str, **fields: Any) -> None:
    """Log for `monitoring.log_level = debug`."""
    if (log := _current.get()) is not None and log.is_debug:
        log.write_line(_LogEvent("debug", event, fields))


def info(event: str, **fields: Any) -> None:
    """Log a normal event."""
    if (log := _current.get()) is not None:
        log.write_line(_LogEvent("info", event, fields))


def warning(event: str, *, printed: bool = False, **fields: Any) -> None:
    """Log an event that may need attention; `printed` if the command itself prints it."""
    if (log := _current.get()) is not None:
        log.write_line(_LogEvent("warning", event, fields), printed=printed)


def error(event: str, *, printed: bool = False, **fields: Any) -> None:
    """Log an error that ended a run; `printed` if the command itself prints it."""
    if (log := _current.get()) is not None:
        log.write_line(_LogEvent("error", event, fields), printed=printed)


def entry(event: str, **fields: Any) -> None:
    """Log an entry that needs attention; at most `ENTRIES_MAX` in a run."""
    if (log := _current.get()) is not None:
        log.entry(_LogEvent("warning", event, fields))


def log_is_open() -> bool:
    """Whether a log is open. If not, callers need not compute values for it."""
    return _current.get() is not None


def wants_calls() -> bool:
    """Whether single calls are logged or traced."""
    return (log := _current.get()) is not None and (log.is_debug or log.spans is not None)


def call(name: str, seconds: float, **fields: Any) -> None:
    """Log a call to the exchange that ends now and took this many seconds; see `wants_calls`."""
    if (log := _current.get()) is None:
        return
    if log.spans is not None:
        log.spans.call(name, seconds, _all_safe(fields))
    if log.is_debug:
        logged = {"operation": name, **fields, "duration_ms": round(1000 * seconds)}
        log.write_line(_LogEvent("debug", "call answered", logged))


def tell_stages(stage_began: StageBegan) -> None:
    """Call this for each stage that begins while the log is open."""
    if (log := _current.get()) is not None:
        log.stage_began = stage_began


@contextmanager
def stage(name: str, **fields: Any) -> Iterator[None]:
    """A stage of a run; its end is logged with its duration. Also a decorator."""
    if (log := _current.get()) is None:
        yield
        return
    with log.stage(name, fields):
        yield


def run_started(run: str) -> None:
    """A run begins: from now on, lines go to its file."""
    if (log := _current.get()) is not None:
        log.began(run)
        log.write_line(_LogEvent("info", "run began", {}))
        if log.spans is not None:
            log.spans.set_attributes(run=run, shipper=log.settings.shipper)


def run_ended(exit_code: int, entries: Mapping[str, int]) -> None:
    """A run ends with this exit code and these counts of entries by state."""
    if (log := _current.get()) is not None:
        log.write_line(_LogEvent("info", "run ended", {"exit_code": exit_code, "entries": dict(entries)}))
        if log.spans is not None:
            log.spans.set_attributes(exit_code=exit_code)


def figure(name: str, value: float) -> None:
    """Store a figure of the run for its metrics."""
    if (log := _current.get()) is not None:
        log.figures[name] = value


def figures() -> Mapping[str, float]:
    """The figures since the log was opened."""
    return log.figures if (log := _current.get()) is not None else {}


def say_as_json(text: str, level: Level = "warning") -> bool:
    """Write a sentence of this level as a line of JSON if stderr gets JSON now, or got it while the last log was open. Returns whether it did."""
    log = _current.get()
    if log is None and (last := _last.get()) is not None and last[0] is sys.stderr:
        log = RunLog(last[1], lambda: datetime.now(UTC), None, _no_heartbeat)
    if log is None or not log.json:
        return False
    log.write_json_to_stderr(text, level)
    return True


def print_notice(text: str) -> None:
    """Print a line to stderr during a stage."""
    if not say_as_json(text):
        sys.stderr.write(f"{clean(text)}\n")
        sys.stderr.flush()


def remove_older(settings: Settings, now: datetime) -> int:
    """Remove the log files of runs that were last written more than `retention.log_days` ago (0: never); `now` is aware. Returns how many
    were removed. A file that cannot be removed is retried next time.
    """
    if not settings.retention.log_days:
        return 0
    oldest = (now - timedelta(days=settings.retention.log_days)).timestamp()
    count = 0
    folder = settings.state / "logs"
    for path in sorted(folder.iterdir()) if folder.is_dir() else []:
        with suppress(OSError):
            if _FILE.fullmatch(path.name) and path.stat(follow_symlinks=False).st_mtime < oldest:
                path.unlink()
                count += 1
    return count

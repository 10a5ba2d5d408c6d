"""The sources of settings (command line, environment, file, capabilities) and their precedence.

Owns: the order of the sources, for the shared settings and for those of one shipper; and the old names of settings. Each source becomes a layer: values by path, such as
("dispatch", "window"), with the place of each. Values are not validated here.
"""

import json
import os
import stat
import tomllib
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple, get_origin

from pydantic import BaseModel

from loadsheet.exchange_profile import assumptions_for
from loadsheet.problems import SettingsError

EMBEDDED = "embedded"
"""The value of `exchange` for our own exchange, in this process."""

CONFIG_FILE = Path("loadsheet.toml")
SITE_FILE = Path("/etc/loadsheet/loadsheet.toml")
PREFIX = "LOADSHEET_"
BETWEEN = "__"
FOLDERS = ("inbox", "mappings", "outbox", "state")
TOKEN_SOURCES = ("token", "token_file", "token_command", "token_keyring")
TIED_TO_EXCHANGE = (*TOKEN_SOURCES, "capabilities")
"""Settings that belong to one exchange and must not be used for another."""

_NOT_FROM_ENVIRONMENT = frozenset(
    {"shipper", "shippers"}
)  # the first selects a shipper, the second is the prefix of its variables

Steps = tuple[str, ...]


class Found(NamedTuple):
    """A value, its place as text for people, and the tables and name under which it is written in a file."""

    value: Any
    place: str
    written: Steps = ()


Layer = dict[Steps, Found]
"""The settings of one source by path."""


# ---- old names: accepted until 0.7.0, from files and variables with a warning, from Python without ----

_SAME = {
    "arrival": "settle_s done_marker unfinished_wait_s companion_wait_s file_bytes_max ignore arrived_since",
    "watch": "poll_s rescan_s retry_s retry_max_s",
    "reading": "cell_length_max record_lines_max columns_max blank_rows_max inflated_bytes_max dates_years_back dates_years_ahead",
    "translation": "parts_bytes_min",
    "dispatch": "allow_insecure proxy ca_bundle client_certificate client_key connections connections_start connect_timeout_s call_timeout_s idle_connection_s answer_bytes_max listing_bytes_max listing_timeout_s retry_after_max_s unreachable_max unknown_max outstanding_unknown_max window canary error_share_max run_entries_max finish_by",
    "verification": "parents quiesce_s status_quiesce_s confirm_gap_s fresh_witness create_after_absent trust_quiesce update_resend delete_resend quote_on_unknown status_on_unknown sends_max create_sends_max",
    "reconcile": "weight_tolerance money_tolerance unverified_share_max",
    "reports": "page_documents_max index_runs_max working_days feedback fix_rows_max language",
    "retention": "archive_days payload_days reports_days log_days backups",
    "notifications": "digest_at ping_url ping_timeout_s fixes_to fixes_mail",
    "expected_files": "expect runs_due_s",
    "schedules": "catch_up_s",
    "monitoring": "log_level log_format metrics_file health_address health_stale_s otlp_endpoint",
    "run_archive": "capsules capsule_days",
    "cluster": "database_schema takeover_s worker_places jobs_days",
}
OLD_NAMES: dict[str, tuple[str, str]] = {
    **{name: (section, name) for section, names in _SAME.items() for name in names.split()},
    "watch_with": ("watch", "method"),
    "reading_process": ("reading", "process"),
    "reading_memory_mb": ("reading", "memory_mb"),
    "reading_cpu_s": ("reading", "cpu_s"),
    "reading_wall_s": ("reading", "wall_s"),
    "reading_s_per_mb": ("reading", "s_per_mb"),
    "translation_processes": ("translation", "processes"),
    "allow_network_ledger": ("ledger", "allow_network"),
    "accept_older_ledger": ("ledger", "accept_older"),
    "exchange_connections_max": ("server", "connections_max"),
    "exchange_header_bytes_max": ("server", "header_bytes_max"),
    "exchange_header_s": ("server", "header_s"),
    "exchange_body_s": ("server", "body_s"),
    "exchange_send_s": ("server", "send_s"),
    "exchange_keep_alive_s": ("server", "keep_alive_s"),
    "exchange_calls_per_second": ("server", "calls_per_second"),
    "exchange_wrong_tokens_per_second": ("server", "wrong_tokens_per_second"),
    "exchange_database_s": ("server", "database_s"),
    "exchange_docs": ("server", "docs"),
    "notify": ("notifications", "urls"),
    "notify_file": ("notifications", "urls_file"),
    "notify_after": ("notifications", "after"),
    "notify_again_days": ("notifications", "again_days"),
    "notify_owners": ("notifications", "owners"),
    "schedule": ("schedules", "cron"),
    "schedule_zone": ("schedules", "timezone"),
}

RETIRED = {
    "batch_entries": "one process does a whole run",
    "worker_wait_s": "a run needs no worker",
}
"""Settings of 0.5.0 that have no effect any more, and why. Accepted with a warning until 0.7.0."""


def in_sections(values: Mapping[str, Any]) -> dict[str, Any]:
    """The values with old names moved into their sections and retired ones removed. For callers in Python (`Settings(window=3)`); `_layer`
    converts those of files and variables.
    """
    found = {name: value for name, value in values.items() if name not in OLD_NAMES and name not in RETIRED}
    for old in OLD_NAMES.keys() & values.keys():
        section, name = OLD_NAMES[old]
        there = found.get(section, {})
        table = (
            there if isinstance(there, Mapping) else {field: getattr(there, field) for field in there.model_fields_set}
        )
        found[section] = {**table, name: values[old]}
    return found


# ---- the sources ----


def find(config: Path | None = None, site: Path = SITE_FILE) -> Path | None:
    """The settings file: `config`, else that of `LOADSHEET_CONFIG`, ./loadsheet.toml, the user's, the machine's; None if there is none.
    Raises SettingsError if `config` or the file of the variable does not exist.
    """
    named = config or (Path(variable) if (variable := os.environ.get(f"{PREFIX}CONFIG", "")) else None)
    if named is not None:
        if not named.is_file():
            raise SettingsError(f"settings file {named} does not exist")
        return named
    if CONFIG_FILE.is_file():
        return CONFIG_FILE
    from platformdirs import user_config_path

    return next((path for path in (user_config_path("loadsheet") / CONFIG_FILE, site) if path.is_file()), None)


def read(path: Path | None) -> dict[str, Any]:
    """The content of a settings file; empty if there is none. Raises SettingsError if it cannot be read."""
    if path is None:
        return {}
    try:
        found = _tables(path.read_text(encoding="utf-8-sig"))
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise SettingsError(f"{path}: cannot be read ({error.strerror})") from error
    except UnicodeDecodeError:
        raise SettingsError(f"{path}: not UTF-8 text") from None
    except ValueError as error:
        raise SettingsError(f"{path}: {error}") from None
    tables = found.get("shippers", {})
    holders = (
        [found, *(table for table in tables.values() if isinstance(table, dict))] if isinstance(tables, dict) else []
    )
    if any(holder.get("token") for holder in holders) and is_open(path):
        exposed = f"{path}: holds a token, and every user of this machine can read it"
        raise SettingsError(f"{exposed}: chmod 600 {path}, or move the token to a file and set token_file")
    return found


@lru_cache(maxsize=2)
def _tables(text: str) -> dict[str, Any]:
    """A parsed text; callers must not change it. Cached, because the settings of hundreds of shippers may come from one file."""
    return tomllib.loads(text)


def is_open(path: Path) -> bool:
    """Whether every user of this machine can read a file with a secret; False if that cannot be determined."""
    return os.name == "posix" and bool(path.stat().st_mode & stat.S_IROTH)


def from_file(model: type[BaseModel], file: Path | None, shipper: str = "") -> Layer:
    """The shared settings of a settings file, or those in the table of one shipper. Names ignore case. Raises SettingsError."""
    found = read(file)
    tables: Steps = ("shippers", shipper) if shipper else ()
    own = (
        found["shippers"][shipper]
        if shipper
        else {name: value for name, value in found.items() if name.lower() != "shippers"}
    )
    place = f"{file} [shippers.{shipper}]" if shipper else str(file)
    layer = _layer(model, ((Found(value, place, (*tables, *steps)), steps) for steps, value in _flat(own)))
    if not shipper and (names := found.get("shippers")):
        layer["shippers",] = Found(tuple(names), place)
    return layer


def from_environment(model: type[BaseModel], shipper: str = "") -> Layer:
    """The settings in variables: `LOADSHEET_DISPATCH__WINDOW` for all, `LOADSHEET_SHIPPERS__ACME__DISPATCH__WINDOW` for one shipper.

    Raises SettingsError for a variable that must be JSON and is not.
    """
    prefix = variables_of(shipper) if shipper else PREFIX
    variables = sorted((name, value) for name, value in os.environ.items() if name.upper().startswith(prefix))
    return dict(_from_variables(model, prefix, tuple(variables)))


@lru_cache(maxsize=64)
def _from_variables(model: type[BaseModel], prefix: str, variables: tuple[tuple[str, str], ...]) -> Layer:
    named = []
    for name, text in variables:
        steps = tuple(name[len(prefix) :].lower().split(BETWEEN))
        first = current_path(model, steps)[0]
        if first in RETIRED or (first in model.model_fields and first not in _NOT_FROM_ENVIRONMENT):
            place, value = f"environment {name.upper()}", _parsed(model, current_path(model, steps), name, text)
            nested = _flat(value) if isinstance(value, dict) else [((), value)]
            named += [(Found(value, place), (*steps, *inner)) for inner, value in nested]
    return _layer(model, named)


def from_arguments(model: type[BaseModel], given: Mapping[str, Any]) -> Layer:
    """The settings of the command line; old names are accepted without a warning."""
    return {current_path(model, steps): Found(value, "command line") for steps, value in _flat(given)}


def _layer(model: type[BaseModel], named: Iterable[tuple[Found, Steps]]) -> Layer:
    """Values by their current path. Warns about old names; the new name wins if both are set."""
    layer: Layer = {}
    old: Layer = {}
    for found, steps in named:
        name, path = steps[0].lower(), current_path(model, steps)
        if name in RETIRED:
            _warn(f"{found.place}: {name} has no effect any more: {RETIRED[name]}; remove it")
        elif name in OLD_NAMES:
            _warn(
                f"{found.place}: {name} is now {'.'.join(OLD_NAMES[name])}; {_how_now(found, steps)}. The old name is removed in 0.7.0."
            )
            old[path] = found
        else:
            layer[path] = found
    return old | layer


def _how_now(found: Found, steps: Steps) -> str:
    old = steps[0].lower()
    section, name = OLD_NAMES[old]
    if found.written:
        tables = found.written[: len(found.written) - len(steps)]
        return f"write {name} in the table [{'.'.join((*tables, section))}]"
    before, _, after = found.place.removeprefix("environment ").rpartition(old.upper())
    return f"set {before}{section.upper()}{BETWEEN}{name.upper()}{after}"


def _warn(text: str) -> None:
    # The source line is not shown: it may contain a secret. Each text is shown once: hundreds of shippers may share a file.
    warnings.warn_explicit(text, FutureWarning, "<settings>", 1, registry=_WARNED)


_WARNED: dict[Any, Any] = {}


def current_path(model: type[BaseModel], steps: Steps) -> Steps:
    """The current path of a name as it is written."""
    first, *rest = (steps[0].lower(), *steps[1:])
    if first in OLD_NAMES:
        return (*OLD_NAMES[first], *rest)
    if rest and first in model.model_fields and _is_model(model.model_fields[first].annotation):
        rest[0] = rest[0].lower()
    return (first, *rest)


def _flat(values: Mapping[str, Any], above: Steps = ()) -> Iterator[tuple[Steps, Any]]:
    for name, value in values.items():
        if isinstance(value, dict) and value:
            yield from _flat(value, (*above, name))
        else:
            yield (*above, name), value


def _parsed(model: type[BaseModel], path: Steps, variable: str, text: str) -> Any:
    """The value of a variable: JSON for lists, tables and sections, else its text. Raises SettingsError."""
    annotation: Any = model
    for step in path:
        if not _is_model(annotation) or step not in annotation.model_fields:
            return text
        annotation = annotation.model_fields[step].annotation
    if not _is_model(annotation) and get_origin(annotation) not in (tuple, dict, list):
        return text
    try:
        return json.loads(text)
    except ValueError:  # the value may be a secret
        raise SettingsError(f'{variable.upper()}: write it as JSON, such as ["a", "b"]') from None


def _is_model(annotation: Any) -> bool:
    return isinstance(annotation, type) and issubclass(annotation, BaseModel)


def variables_of(shipper: str) -> str:
    """The prefix of the variables of a shipper."""
    return f"{PREFIX}SHIPPERS{BETWEEN}{shipper.replace('-', '_').upper()}{BETWEEN}"


def shared(model: type[BaseModel], file: Path | None, given: Mapping[str, Any]) -> list[Layer]:
    """The layers of the shared settings, the strongest first."""
    return [from_arguments(model, given), from_environment(model), from_file(model, file)]


def of_shipper(model: type[BaseModel], file: Path | None, shipper: str, given: Mapping[str, Any]) -> list[Layer]:
    """The layers of one shipper's settings, the strongest first: command line, its variables, shared variables, its table, the file.

    A shipper's folders are below the shared ones. Its own token source wins over the shared ones. A shipper with its own exchange does not
    use the token and the capabilities of the shared exchange.
    """
    line, everywhere, whole = shared(model, file, given)
    own, table = from_environment(model, shipper), from_file(model, file, shipper)
    if refused := _NOT_FROM_ENVIRONMENT & {path[0] for path in table}:
        raise SettingsError(f"{file} [shippers.{shipper}] {min(refused)}: cannot be set for one shipper; remove it")
    hidden, has = {*FOLDERS, "archive", "shipper"}, set_in(own, table)
    if not has.isdisjoint(TOKEN_SOURCES):
        hidden.update(TOKEN_SOURCES)
    if "exchange" in has:
        hidden.update(TIED_TO_EXCHANGE)
    folders = own_folders(model, shipper, whole | everywhere)
    place = f"follows from [shippers.{shipper}]"
    follows: Layer = {(name,): Found(value, place) for name, value in {"shipper": shipper, **folders}.items()}
    return [line, own, _without(everywhere, hidden), table, _without(whole, hidden), follows]


def set_in(*layers: Layer) -> frozenset[str]:
    """The names of the settings in some layers, such as `dispatch.window`."""
    return frozenset(".".join(path) for layer in layers for path in layer)


def merged(layers: Sequence[Layer]) -> Layer:
    """Merge layers, the strongest first. The assumptions of the capabilities file are the weakest. Raises SettingsError."""
    found: Layer = {}
    for layer in reversed(layers):
        found |= layer
    capabilities, exchange = found.get(("capabilities",)), found.get(("exchange",))
    if capabilities is None or capabilities.value in (None, ""):
        return found
    probed = assumptions_for(str(exchange.value if exchange else EMBEDDED), Path(capabilities.value))
    return {("assumptions", name): Found(value, str(capabilities.value)) for name, value in probed.items()} | found


def nested(layer: Layer) -> dict[str, Any]:
    """The values of a layer as nested tables. A value in the place of a table stays: validation refuses it, or it is the whole table."""
    values: dict[str, Any] = {}
    for path in sorted(layer, key=len):
        table: Any = values
        for step in path[:-1]:
            table = table.setdefault(step, {}) if isinstance(table, dict) else None
        if isinstance(table, dict):
            table[path[-1]] = dict(value) if isinstance(value := layer[path].value, dict) else value
    return values


def own_folders(model: type[BaseModel], shipper: str, base: Layer) -> dict[str, Any]:
    """The folders of a shipper below the shared ones. Without a folder of its own, it uses the shared mappings."""
    found = {name: Path(base[name,].value if (name,) in base else model.model_fields[name].default) for name in FOLDERS}
    folders: dict[str, Any] = {
        name: folder / shipper for name, folder in found.items() if name != "mappings" or (folder / shipper).is_dir()
    }
    if ("archive",) in base and base["archive",].value:
        folders["archive"] = Path(base["archive",].value) / shipper
    return {"mappings": found["mappings"], **folders}


def _without(layer: Layer, hidden: set[str]) -> Layer:
    return {path: found for path, found in layer.items() if path[0] not in hidden}

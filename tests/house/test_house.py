"""The house keeps its shape: who may import whom, where each library lives, how long things are, where field names stand; and the pages for developers are true."""

import ast
import gc
import re
import subprocess
import sys
from collections import Counter
from functools import cache
from pathlib import Path

import pytest
from import_graph import PAGE, parsed, picture

from loadsheet.contract import OPERATIONS

TESTS = Path(__file__).parents[1]
SRC = TESTS.parent / "src" / "loadsheet"
MODULES = {
    ".".join(("loadsheet", *path.relative_to(SRC).with_suffix("").parts)).removesuffix(".__init__"): path
    for path in sorted(SRC.rglob("*.py"))
}

# Each room and the rooms it may import. A stage knows the stages before it by their values, never one after it.
FOUNDATION = {
    "exit_codes",
    "exchange_profile",
    "problem_groups",
    "contract",
    "confusables",
    "control_characters",
    "page_templates",
    "internal_errors",
    "file_modes",
    "workbook_marks",
    "run_log",
    "backoff",
    "problems",
    "languages",
    "plurals",
    "extras",
    "schedules",
    "settings",
}
MAY_IMPORT = {
    "exit_codes": set(),
    "problems": {"exit_codes"},
    "confusables": set(),
    "plurals": set(),
    "extras": {"problems", "settings"},
    "control_characters": set(),
    "page_templates": {"control_characters"},
    "file_modes": set(),
    "workbook_marks": set(),
    "backoff": set(),
    "schedules": {"plurals"},
    "languages": set(),
    "contract": {"problems"},
    "problem_groups": {"plurals", "problems"},
    "exchange_profile": {"contract", "control_characters", "file_modes", "problems"},
    "settings": {"exchange_profile", "contract", "file_modes", "languages", "problems", "schedules"},
    "run_log": {"problems", "settings"},
    "internal_errors": {"exit_codes", "run_log", "problems"},
    "run_resources": FOUNDATION | {"credentials", "dispatch", "exchange", "ledger"},
    "run_end": FOUNDATION | {"ledger", "operations.retention", "pipeline", "reports", "run_archive"},
    "credentials": {"problems", "settings"},
    "object_storage": {"problems", "settings"},
    "deploy": set(),  # texts for schedulers and shells
    "inbox": FOUNDATION | {"object_storage"},
    "reading": FOUNDATION | {"inbox"},
    "mapping": FOUNDATION | {"reading"},
    "mapping_tools": FOUNDATION | {"inbox", "reading", "mapping", "ingest"},  # beside the stages: no stage imports it
    "ledger": FOUNDATION | {"mapping"},
    "dispatch": FOUNDATION | {"ledger", "mapping"},
    "reconcile": FOUNDATION | {"ledger", "dispatch", "mapping"},
    "reports": FOUNDATION | {"ledger", "reconcile", "mapping", "object_storage"},
    "exchange": FOUNDATION,
    "fix_files": FOUNDATION | {"inbox", "reading", "mapping", "ledger"},
    "ingest": FOUNDATION | {"inbox", "reading", "mapping", "ledger", "fix_files", "object_storage", "translation"},
    "translation": FOUNDATION | {"reading", "mapping"},
    "ledger_sink": FOUNDATION | {"inbox", "reading", "mapping", "ledger", "fix_files", "translation", "ingest"},
    "dry_run": FOUNDATION | {"inbox", "mapping", "ledger", "ingest"},
    "checking": FOUNDATION | {"inbox", "reading", "mapping", "ledger", "ingest", "translation"},
    "check_folder": FOUNDATION | {"inbox", "mapping", "ledger", "ingest", "ledger_sink", "reconcile", "reports"},
    "inbox_watch": FOUNDATION | {"inbox"},
    "annotations": FOUNDATION | {"reading", "ledger", "object_storage"},
    "operations.expected_files": FOUNDATION | {"ledger"},
    "operations.expectation_suggestions": FOUNDATION | {"ledger", "operations.expected_files"},
    "operations.run_outcome": {"problems", "reports"},
    "operations.tracing": FOUNDATION,
    "operations.metrics": FOUNDATION | {"inbox", "ledger", "operations.expected_files", "operations.run_outcome"},
    "operations.health": FOUNDATION | {"operations.metrics"},
    "operations.notifications": FOUNDATION | {"ledger", "operations.expected_files", "operations.run_outcome"},
    "operations.retention": FOUNDATION
    | {"run_log", "inbox", "ledger", "annotations", "reconcile", "reports", "object_storage"},
    "run_archive": FOUNDATION
    | {
        "inbox",
        "reading",
        "mapping",
        "ledger",
        "reconcile",
        "reports",
        "ingest",
        "ledger_sink",
        "fix_files",
        "object_storage",
    },
    "cluster": FOUNDATION | {"operations.expected_files", "ledger", "reports"},
    "operations.run_hooks": FOUNDATION
    | {
        "operations.expected_files",
        "ledger",
        "operations.run_outcome",
        "pipeline",
        "operations.metrics",
        "operations.health",
        "operations.tracing",
        "operations.notifications",
    },
    "library": FOUNDATION
    | {
        "inbox",
        "reading",
        "mapping",
        "translation",
        "mapping_tools",
        "ledger",
        "reports",
        "ingest",
        "checking",
        "fix_files",
    }
    | {"pipeline", "operations.run_hooks", "run_end", "run_resources"},
    "pipeline": FOUNDATION
    | {"ingest", "ledger_sink", "mapping", "ledger", "dispatch", "annotations", "reconcile", "reports"},
    "operations": set(),
    "cli": FOUNDATION
    | {
        "inbox",
        "reading",
        "mapping",
        "translation",
        "mapping_tools",
        "ledger",
        "dispatch",
        "reconcile",
        "reports",
        "ingest",
        "check_folder",
        "checking",
        "dry_run",
        "pipeline",
        "exchange",
    }
    | {
        "operations.run_hooks",
        "operations.expected_files",
        "run_archive",
        "deploy",
        "cluster",
        "operations.retention",
        "operations.expectation_suggestions",
        "operations.health",
        "operations.notifications",
    }
    | {"credentials", "annotations", "fix_files", "object_storage", "inbox_watch", "run_end", "run_resources"},
}
VALUES_ONLY = {  # what a room may take of an earlier stage: its values, not its verbs
    ("ledger", "mapping"): {"loadsheet.mapping.documents"},
    ("dispatch", "mapping"): {"loadsheet.mapping.documents"},
    ("reconcile", "mapping"): {"loadsheet.mapping.documents"},
    ("reports", "mapping"): {"loadsheet.mapping.documents"},
    ("operations.run_outcome", "reports"): {"loadsheet.reports.run_document"},
}
HOMES = {  # each third-party library and the only places that import it
    "requests": {"loadsheet.dispatch"},
    "urllib3": {"loadsheet.dispatch"},
    "openpyxl": {"loadsheet.reading"},
    "xlrd": {"loadsheet.reading.xls"},
    "olefile": {"loadsheet.reading.xls"},
    "xlsxwriter": {"loadsheet.reports", "loadsheet.mapping_tools.template"},
    "sqlalchemy": {"loadsheet.ledger", "loadsheet.exchange"},
    "duckdb": {"loadsheet.operations.retention.ledger_copies"},
    "rule_engine": {"loadsheet.mapping.expression_parser"},
    "re2": {"loadsheet.mapping.patterns"},
    "ruamel": {"loadsheet.mapping", "loadsheet.exchange_profile"},
    "babel": {"loadsheet.mapping", "loadsheet.languages"},
    "pint": {"loadsheet.mapping"},
    "starlette": {"loadsheet.exchange"},
    "jinja2": {"loadsheet.page_templates", "loadsheet.exchange.pages", "loadsheet.reports.html_pages"},
    "uvicorn": {"loadsheet.exchange"},
    "pandas": {"loadsheet.library", "loadsheet.reading.frames", "loadsheet.reconcile"},
    "holidays": {"loadsheet.reports.reconciliation.worklist", "loadsheet.operations.expected_files"},
    "rich": {"loadsheet.cli"},
    "click": {"loadsheet.cli"},
    "filelock": {"loadsheet.run_archive.verify", "loadsheet.ledger", "loadsheet.operations.notifications.state"},
    "apprise": {"loadsheet.operations.notifications.notice_delivery"},
    "watchdog": {"loadsheet.inbox_watch", "loadsheet.cli.save_watch"},
    "httptools": {"loadsheet.dispatch", "loadsheet.exchange"},
    "alembic": {"loadsheet.exchange.migrations", "loadsheet.ledger.migrations"},
    "psycopg": {"loadsheet.exchange.database", "loadsheet.ledger.postgres"},
    "backports": {"loadsheet.ledger.content_blocks"},
    "keyring": {"loadsheet.credentials"},
    "platformdirs": {"loadsheet.settings.sources"},
    "structlog": {"loadsheet.run_log"},
    "prometheus_client": {"loadsheet.operations.metrics", "loadsheet.operations.health"},
    "opentelemetry": {"loadsheet.operations.tracing"},
    "cronsim": {"loadsheet.schedules"},
    "procrastinate": {"loadsheet.cluster.job_queue", "loadsheet.ledger.shared.jobs"},
    "fsspec": {"loadsheet.object_storage"},
    "botocore": {"loadsheet.object_storage"},
}
SPEAKING_NAMES = {"utils", "util", "helpers", "common", "manager", "base", "misc", "info"}


@pytest.fixture(autouse=True, scope="module")
def _no_collection():
    """The trees stay, so garbage collections would only walk them, for a second."""
    gc.disable()
    yield
    gc.enable()


@cache
def nodes(path):
    return tuple(ast.walk(parsed(path)))


@cache
def imports(path):
    return tuple(_imports(path))


def _imports(path):
    for node in nodes(path):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield from (
                [f"{node.module}.{one.name}" for one in node.names]
                if node.module == "loadsheet.operations"
                else [node.module]
            )


def room(module):
    parts = module.split(".")[1:]
    return ".".join(parts[: 2 if parts[:1] == ["operations"] else 1])


def test_rooms_import_only_what_lies_before_them():
    wrong = []
    for module, path in MODULES.items():
        mine = room(module)
        for imported in imports(path) if mine not in ("", "__main__") else ():
            theirs = room(imported)
            if not imported.startswith("loadsheet.") or theirs == mine:
                continue
            values = VALUES_ONLY.get((mine, theirs), {imported})
            if theirs not in MAY_IMPORT[mine] or imported not in values:
                wrong.append(f"{module} imports {imported}")
    assert wrong == []


def test_each_library_has_one_home():
    for library, homes in HOMES.items():
        users = {module for module, path in MODULES.items() for name in imports(path) if name.split(".")[0] == library}
        assert users, f"nobody uses {library}"
        others = [user for user in users if not any(user == home or user.startswith(f"{home}.") for home in homes)]
        assert others == [], f"{library} is used outside of {homes}"


def test_every_dependency_is_used_and_says_why():
    text = (SRC.parents[1] / "pyproject.toml").read_text(encoding="utf-8")
    block = text.split("dependencies = [", 1)[1].split("\n]", 1)[0]
    lines = [line.strip() for line in block.strip().splitlines()]
    assert all(re.fullmatch(r'"[^"]+",\s+# .+', line) for line in lines)
    used = {name.split(".")[0] for path in MODULES.values() for name in imports(path)}
    renamed = {
        "rule-engine": "rule_engine",
        "google-re2": "re2",
        "ruamel.yaml": "ruamel",
        "prometheus-client": "prometheus_client",
        "backports-zstd": "backports",
    }
    unimported = {"tzdata"}  # zoneinfo reads it
    for line in lines:
        name = re.match(r'"([A-Za-z0-9_.-]+)', line)[1]
        assert name in unimported or renamed.get(name, name) in used, name


def test_no_module_is_named_for_nothing_in_particular():
    assert not {part for module in MODULES for part in module.split(".")} & SPEAKING_NAMES


def test_modules_say_what_they_own_and_stay_readable():
    wrong = []
    for module, path in MODULES.items():
        lines, tree = len(path.read_text(encoding="utf-8").splitlines()), parsed(path)
        if not ast.get_docstring(tree):
            wrong.append(f"{module} has no docstring")
        if lines > 500:
            wrong.append(f"{module} has {lines} lines, more than 500")
        wrong += [
            f"{module}.{node.name} has {node.end_lineno - node.lineno + 1} lines, more than 60"
            for node in nodes(path)
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.end_lineno - node.lineno >= 60
        ]
    assert wrong == []


def test_no_two_modules_of_tests_have_one_name():
    names = Counter(path.name for path in TESTS.rglob("*.py") if path.name != "conftest.py")
    assert [name for name, count in names.items() if count > 1] == [], "pytest cannot import both"


STAGES = ("inbox", "reading", "mapping", "ledger", "dispatch", "reconcile", "reports")


def test_the_stages_begin_their_docstrings_with_their_place():
    for place, stage in enumerate(STAGES, start=1):
        docstring = ast.get_docstring(parsed(MODULES[f"loadsheet.{stage}"]))
        assert docstring.startswith(f"Stage {place}: "), stage


def test_the_pipeline_shows_the_stages_in_order_and_begins_with_a_short_run():
    text = (SRC / "pipeline.py").read_text(encoding="utf-8")
    first = next(node for node in parsed(SRC / "pipeline.py").body if isinstance(node, ast.FunctionDef))
    assert (first.name, first.end_lineno - first.lineno < 30) == ("run", True)
    flow = next(line for line in text.splitlines() if "->" in line)
    assert tuple(part.strip() for part in flow.split("->")) == STAGES


def test_field_names_of_the_interface_stand_in_the_contract_only():
    """A quoted field name with an underscore or an inner capital is the interface's own spelling."""
    names = {
        field.name
        for operation in OPERATIONS
        for _, field in operation.record.walk()
        if "_" in field.name or not field.name.islower()
    }
    found = []
    for module, path in MODULES.items():
        if room(module) == "contract":
            continue
        texts = (node for node in nodes(path) if isinstance(node, ast.Constant) and isinstance(node.value, str))
        found += [f"{module}:{node.lineno} {node.value}" for node in texts if node.value in names]
    assert found == []


def test_bare_exceptions_are_caught_in_the_outermost_function_only():
    catching = [
        module
        for module, path in MODULES.items()
        for node in nodes(path)
        if isinstance(node, ast.ExceptHandler)
        and (node.type is None or (isinstance(node.type, ast.Name) and node.type.id in ("Exception", "BaseException")))
    ]
    assert sorted({*catching}) == [
        "loadsheet.cli",
        "loadsheet.internal_errors",
    ]  # what comes after the work costs no run


def test_nothing_happens_when_the_package_is_imported():
    code = "import sys, loadsheet; print(sorted(m for m in sys.modules if m in ('pandas', 'duckdb', 'sqlalchemy')))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


DOCS = Path(__file__).parents[2] / "docs"
LINK = re.compile(r"\[`(\w+)`\]\((\.\./src/[\w/]+\.py)\)")


def names_in(path):
    """What a module defines, and its own name."""
    found = {path.stem}
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            found.add(node.name)
        elif isinstance(node, ast.AnnAssign | ast.Assign):
            targets = [node.target] if isinstance(node, ast.AnnAssign) else node.targets
            found |= {target.id for target in targets if isinstance(target, ast.Name)}
    return found


def test_the_picture_is_drawn_from_the_imports():
    assert picture() in PAGE.read_text(encoding="utf-8"), "draw it again: python tests/support/import_graph.py"


def test_each_linked_function_is_where_the_link_says():
    links = [(page, *link) for page in sorted(DOCS.rglob("*.md")) for link in LINK.findall(page.read_text("utf-8"))]
    assert len(links) > 20
    wrong = [f"{page.name}: {name} in {path}" for page, name, path in links if name not in names_in(page.parent / path)]
    assert wrong == []

"""The house keeps its shape: who may import whom, where each library lives, how long things are, where field names stand."""

import ast
import gc
import importlib
import re
import subprocess
import sys
from collections import Counter
from functools import cache
from pathlib import Path

import pytest
from import_graph import PAGE, parsed, picture

from loadsheet import errors
from loadsheet.contract import OPERATIONS

TESTS = Path(__file__).parents[1]
SRC = TESTS.parent / "src" / "loadsheet"
MODULES = {
    ".".join(("loadsheet", *path.relative_to(SRC).with_suffix("").parts)).removesuffix(".__init__"): path
    for path in sorted(SRC.rglob("*.py"))
}


def table(text):
    """The names after a colon, by each name before it; `*` stands for those of FOUNDATION."""
    lines = re.sub(r"\n\s+", " ", text.strip()).splitlines()
    rows = [(left.split(), right.split()) for left, right in (line.split(":") for line in lines)]
    return {name: {*names} - {"*"} | (FOUNDATION if "*" in names else set()) for some, names in rows for name in some}


FOUNDATION = {
    "exit_codes", "exchange_profile", "problem_groups", "contract", "similar_text", "display_text",
    "internal_errors", "places", "workbook_marks", "run_log", "errors", "problems",
    "languages", "extras", "schedules", "settings", "yaml_nodes",
}  # fmt: skip
# Each room and the rooms it may import. A stage knows the stages before it by their values, never one after it.
MAY_IMPORT = table("""
exit_codes similar_text display_text places workbook_marks languages operations problems yaml_nodes:
errors: exit_codes problems
schedules: display_text
contract: errors problems
problem_groups: display_text problems similar_text
exchange_profile: contract display_text places errors problems yaml_nodes
settings: exchange_profile contract places languages errors problems schedules
internal_errors: exit_codes run_log errors problems
run_resources: * credentials dispatch exchange ledger
credentials extras run_log: errors problems settings
object_storage: places errors problems settings
inbox: * object_storage
reading: * inbox
mapping: * reading
mapping_tools: * inbox reading mapping ingest
ledger: * mapping
dispatch: * credentials ledger mapping
reconcile: * ledger dispatch mapping
reports: * ledger reconcile mapping object_storage
exchange: * credentials
operations.tracing: *
fix_files: * inbox reading mapping ledger
ingest: * inbox reading mapping ledger fix_files object_storage drop_translation drop_checks
heading_checks: * reading mapping
drop_translation: * reading mapping heading_checks
drop_checks: * reading mapping ledger heading_checks drop_translation
ledger_sink: * inbox reading mapping ledger fix_files ingest
checking: * inbox reading mapping ledger ingest drop_translation
forecasts: * inbox mapping ledger ingest ledger_sink reconcile reports pipeline
inbox_watch: * inbox
annotations: * reading ledger object_storage
operations.expected_files: * ledger
operations.metrics: * inbox ledger operations.expected_files reports
operations.health: * operations.metrics
operations.notifications: * ledger operations.expected_files reports
operations.retention: * run_log inbox ledger annotations reconcile reports object_storage
run_archive: * inbox reading mapping ledger reconcile reports ingest ledger_sink fix_files object_storage
cluster: * operations.expected_files ledger reports
operations.run_hooks: * operations.expected_files ledger pipeline operations.metrics
    operations.health operations.tracing operations.notifications operations.retention reports run_archive run_resources
library: * inbox reading mapping drop_translation mapping_tools ledger reports ingest checking fix_files pipeline
    operations.run_hooks run_resources
pipeline: * ingest ledger_sink mapping ledger dispatch annotations reconcile reports
cli: * inbox reading mapping mapping_tools ledger dispatch reconcile reports ingest forecasts
    checking pipeline exchange operations.run_hooks operations.expected_files run_archive cluster
    operations.retention operations.health operations.notifications credentials
    annotations fix_files object_storage inbox_watch run_resources
""")
DOCUMENTS = {"loadsheet.mapping.documents"}
VALUES_ONLY = {  # what a room may take of an earlier stage: its values, not its verbs
    **{(stage, "mapping"): DOCUMENTS for stage in ("ledger", "dispatch", "reconcile", "reports")},
    **{(f"operations.{room}", "reports"): {"loadsheet.reports.run_document"} for room in ("metrics", "notifications")},
}
# Each third-party library and the only places that import it.
HOMES = table("""
requests urllib3: dispatch
openpyxl: reading
xlrd olefile: reading.xls
xlsxwriter: reports mapping_tools.template
sqlalchemy: ledger exchange
duckdb: operations.retention.ledger_copies
rule_engine: mapping.expression_parser
re2: mapping.texts
yaml: yaml_nodes
babel: mapping languages
pint: mapping
starlette uvicorn: exchange
jinja2: display_text exchange.pages reports.html_pages
pandas: library reconcile
holidays: extras
rich click: cli
filelock: run_archive.verify ledger operations.notifications.state
apprise: operations.notifications.notice_delivery
watchdog: inbox_watch cli.mapping_results
httptools: dispatch exchange
alembic: exchange.database ledger.migrations
psycopg: exchange.database ledger.postgres
backports: ledger.content_blocks
keyring: credentials
platformdirs: settings.sources
structlog: run_log
prometheus_client: operations.metrics operations.health
opentelemetry: operations.tracing
cronsim: schedules
procrastinate: cluster.job_queue ledger.shared.jobs
fsspec botocore: object_storage
""")
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
    """The modules that a module imports; of `loadsheet.operations` those in it."""
    found = []
    for node in nodes(path):
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module == "loadsheet.operations":
            found += [f"{node.module}.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.append(node.module)
    return found


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
        others = [user for user in users if not any(f"{user}.".startswith(f"loadsheet.{home}.") for home in homes)]
        assert others == [], f"{library} is used outside of {homes}"


def test_every_dependency_is_used_and_says_why():
    text = (SRC.parents[1] / "pyproject.toml").read_text(encoding="utf-8")
    block = text.split("dependencies = [", 1)[1].split("\n]", 1)[0]
    lines = [line.strip() for line in block.strip().splitlines()]
    assert all(re.fullmatch(r'"[^"]+",\s+# .+', line) for line in lines)
    used = {name.split(".")[0] for path in MODULES.values() for name in imports(path)}
    renamed = {"google-re2": "re2", "pyyaml": "yaml", "backports-zstd": "backports"}
    names = {re.match(r'"([A-Za-z0-9_.-]+)', line)[1] for line in lines} - {"tzdata"}  # zoneinfo reads it
    assert {renamed.get(name, name.replace("-", "_")) for name in names} <= used


def test_modules_say_what_they_own_and_stay_readable():
    wrong = [module for module in MODULES if {*module.split(".")} & SPEAKING_NAMES]  # named for nothing in particular
    for module, path in MODULES.items():
        lines, tree = len(path.read_text(encoding="utf-8").splitlines()), parsed(path)
        if not ast.get_docstring(tree):
            wrong.append(f"{module} has no docstring")
        if lines > 500:
            wrong.append(f"{module} has {lines} lines, more than 500")
        wrong += [
            f"{module}.{node.name} has {size} lines, more than 60"
            for node in nodes(path)
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
            and (size := node.end_lineno - node.lineno + 1) > 60
        ]
    assert wrong == []


def test_no_two_modules_of_tests_have_one_name():
    names = Counter(path.name for path in TESTS.rglob("*.py") if path.name != "conftest.py")
    assert [name for name, count in names.items() if count > 1] == [], "pytest cannot import both"


TOP = {
    *("README.md", "CHANGELOG.md", "LICENSE", "Makefile", "pyproject.toml", ".gitignore", ".gitattributes"),
    *(
        "src",
        "tests",
        "docs",
        "mappings",
        "inbox_samples",
        "outbox",
        ".ci",
        ".constraints.txt",
        ".constraints.hashed.txt",
    ),
    *("Dockerfile", ".dockerignore", "compose.yaml", "compose.fleet.yaml"),
}


def test_nothing_else_stands_at_the_top():
    listed = subprocess.run(["git", "ls-files"], cwd=TESTS.parent, capture_output=True, text=True, check=True).stdout
    assert {name.partition("/")[0] for name in listed.splitlines()} == TOP


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
    fields = {field.name for operation in OPERATIONS for _, field in operation.record.walk()}
    names = {name for name in fields if "_" in name or not name.islower()}
    found = []
    for module, path in MODULES.items():
        if room(module) != "contract":
            texts = (node for node in nodes(path) if isinstance(node, ast.Constant) and isinstance(node.value, str))
            found += [f"{module}:{node.lineno} {node.value}" for node in texts if node.value in names]
    assert found == []


def test_bare_exceptions_are_caught_in_the_outermost_function_only():
    bare = (None, "Exception", "BaseException")
    catching = {
        module
        for module, path in MODULES.items()
        for node in nodes(path)
        if isinstance(node, ast.ExceptHandler) and (node.type and ast.unparse(node.type)) in bare
    }
    assert catching == {"loadsheet.cli", "loadsheet.internal_errors"}  # what comes after the work costs no run


def test_nothing_happens_when_the_package_is_imported():
    code = "import sys, loadsheet; print(sorted(m for m in sys.modules if m in ('pandas', 'duckdb', 'sqlalchemy')))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


DOCS = TESTS.parent / "docs"
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


def test_the_diagram_of_the_architecture_matches_the_imports():
    assert picture() in PAGE.read_text(encoding="utf-8"), "draw it again: python tests/support/import_graph.py"


def test_each_linked_function_is_where_the_link_says():
    links = [(page, *link) for page in sorted(DOCS.rglob("*.md")) for link in LINK.findall(page.read_text("utf-8"))]
    assert len(links) > 20
    wrong = [f"{page.name}: {name} in {path}" for page, name, path in links if name not in names_in(page.parent / path)]
    assert wrong == []


def test_the_tree_of_exceptions_is_complete():
    """`errors` shows every exception of ours below the one that it is a kind of, with its exit code."""
    shown, above = [], ["LoadsheetError"]
    for indent, name, code in re.findall(r"^    ([│ ]*)[├└]── (\w+) +(\d+) ", errors.__doc__, re.MULTILINE):
        del above[len(indent) // 4 + 1 :]
        shown.append((above[-1], name, int(code)))
        above.append(name)
    bases = "|".join(["LoadsheetError", *(name for _, name, _ in shown)])
    for module, path in MODULES.items():
        if re.search(rf"^class \w+\(({bases})\):", path.read_text(encoding="utf-8"), re.MULTILINE):
            importlib.import_module(module)

    def below(kind):
        for one in kind.__subclasses__():
            yield kind.__name__, one.__name__, one.exit_code
            yield from below(one)

    assert sorted(shown) == sorted(below(errors.LoadsheetError))

"""Where the source can be changed, and which of these places a run draws."""

import ast
import contextlib
import itertools
import random
import re
import subprocess
from collections import defaultdict
from pathlib import Path
from typing import NamedTuple

import parso
from cosmic_ray.ast import ast_nodes, get_ast
from cosmic_ray.operators.operator import Operator
from cosmic_ray.plugins import get_operator

ROOT = Path(__file__).parents[2]
ROOMS = ("mapping", "mapping_tools", "reading", "dispatch", "object_storage")
"""Those with a target for the share of survivors."""

SWAPS = {
    "ReplaceComparisonOperator": ("Lt_LtE", "LtE_Lt", "Gt_GtE", "GtE_Gt", "Eq_NotEq", "NotEq_Eq", "Is_IsNot", "IsNot_Is"),
    "ReplaceBinaryOperator": ("Add_Sub", "Sub_Add", "Mul_FloorDiv", "FloorDiv_Mul", "Mod_Mul"),
    "Replace": ("AndWithOr", "OrWithAnd", "TrueWithFalse", "FalseWithTrue", "BreakWithContinue", "ContinueWithBreak"),
}  # fmt: skip
NAMES = [f"{kind}{'_' * (kind != 'Replace')}{swap}" for kind, swaps in SWAPS.items() for swap in swaps]
NAMES += ["ReplaceUnaryOperator_Delete_Not", "AddNot", "ExceptionReplacer", "NumberReplacer"]


class DeleteStatement(Operator):
    """Deletes a call whose result is not used, unless it writes a log; returns None instead of a value."""

    def mutation_positions(self, node):
        text = node.get_code().strip()
        is_call = (
            node.type == "atom_expr" and node.parent.type == "simple_stmt" and not re.match(r"_?log|journal", text)
        )
        if is_call or (node.type == "return_stmt" and text not in {"return None", "return False"}):
            yield node.start_pos, node.end_pos

    def mutate(self, node, index):
        instead = "return None" if node.type == "return_stmt" else "None"
        return parso.parse(node.get_first_leaf().prefix + instead)

    examples = classmethod(lambda _: ())


OPERATORS = [*(get_operator(f"core/{name}")() for name in NAMES), DeleteStatement()]


class Mutant(NamedTuple):
    """A change: the `occurrence`th place of an operator in a file, in the function that begins in line `function` (0: in none, or in one whose
    results are kept).
    """

    path: str
    line: int
    operator: Operator
    occurrence: int
    function: int


def functions(tree: ast.AST) -> list[ast.FunctionDef | ast.AsyncFunctionDef]:
    return [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]


def is_cached(function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Whether only the first test of a process runs a function, and the others depend on what it returned."""
    return any(ast.unparse(decorator) == "cache" for decorator in function.decorator_list)


def mutants_of(path: str, wanted: set[int] | None = None) -> list[Mutant]:
    """All mutants of a file, or those on the lines that are wanted."""
    source, found, seen = (ROOT / path).read_text(encoding="utf-8"), [], defaultdict(int)
    spans = [(node.lineno, node.end_lineno) for node in functions(ast.parse(source)) if not is_cached(node)]
    lines = source.splitlines()
    for node in ast_nodes(get_ast(source)):
        for operator in OPERATORS:
            positions = []
            with contextlib.suppress(AttributeError, IndexError):  # `except a.b:` is beyond cosmic-ray
                positions = list(operator.mutation_positions(node))
            for (line, _), _ in positions:
                occurrence, seen[operator] = seen[operator], seen[operator] + 1
                fit = "TYPE_CHECKING" not in lines[line - 1] and not parso.tree.search_ancestor(node, "decorator")
                fit &= (
                    not node.parent.get_code().strip().startswith("strict=")
                )  # of `zip`: it checks, and changes nothing
                if fit and (wanted is None or line in wanted):
                    function = max((first for first, last in spans if first <= line <= last), default=0)
                    found.append(Mutant(path, line, operator, occurrence, function))
    return found


def git(*words: str) -> str:
    done = subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=False)
    return done.stdout.strip()


def changed_lines(base: str) -> dict[str, set[int]]:
    """The lines of the source that differ from a commit."""
    usual = [git("merge-base", "HEAD", "origin/main"), git("describe", "--tags", "--abbrev=0"), "HEAD~1"]
    known = [
        (name, git("rev-parse", "--verify", "--quiet", f"{name}^{{commit}}")) for name in ([base] if base else usual)
    ]
    head = git("rev-parse", "HEAD")
    commit = next((name for name, found in known if name and (base or found not in {"", head})), "")
    lines, path = defaultdict(set), ""
    difference = git("diff", "-U0", "--diff-filter=d", commit, "--", "src/loadsheet/*.py") if commit else ""
    for line in difference.splitlines():
        if line.startswith("+++ "):
            path = line.removeprefix("+++ b/")
        elif hunk := re.match(r"@@ \S+ \+(\d+)(?:,(\d+))? @@", line):
            lines[path].update(range(int(hunk[1]), int(hunk[1]) + int(hunk[2] or 1)))
    return lines


def room_of(path: str) -> str:
    return Path(path).with_suffix("").parts[2]


def drawn_for(room: str, changed: dict[str, set[int]], count: int, seed: int, *, anywhere: bool) -> list[Mutant]:
    """Mutants on changed lines, and with `anywhere` as many from the whole room, in turns."""
    chance = random.Random(f"{seed} {room}")
    files = [str(path.relative_to(ROOT)) for path in sorted((ROOT / "src/loadsheet").rglob("*.py"))]
    files = [path for path in files if room_of(path) == room]
    on_changes = [mutant for path in files if path in changed for mutant in mutants_of(path, changed[path])]
    others = [mutant for path in files for mutant in mutants_of(path)] if anywhere else []
    samples = [chance.sample(some, min(count, len(some))) for some in (on_changes, others)]
    return list(dict.fromkeys(one for pair in itertools.zip_longest(*samples) for one in pair if one is not None))

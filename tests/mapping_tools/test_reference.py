"""The reference of the mapping language is complete and true: every word has an entry, and every example gives what the page says."""

import json
import os
import re
from pathlib import Path

import pytest
from command_in_process import loadsheet
from reference_examples import OUTCOMES, carried_out, examples_of, given, outcome, rewritten

from loadsheet.mapping.calculation import ARITHMETIC, ATTRIBUTES, COMPARISONS, FUNCTIONS, METHODS
from loadsheet.mapping.expressions import _Compiler, compile_expression
from loadsheet.mapping.plans import Type
from loadsheet.mapping.schema import keys
from loadsheet.mapping.type_errors import TypeErrors
from loadsheet.mapping_tools import reference
from loadsheet.mapping_tools.reference import PAGES, TARGETS, entries, find
from loadsheet.mapping_tools.reference_pages import page

ROOT = Path(__file__).parents[2]
SOURCES = ROOT / "src" / "loadsheet" / "mapping_tools" / "reference"
DOCS = ROOT / "docs" / "mapping"
REWRITE = bool(os.environ.get("LOADSHEET_REWRITE"))

OPERATORS = {
    "add": "+", "sub": "-", "mul": "*", "tdiv": "/", "fdiv": "//", "mod": "%", "pow": "**",
    "eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">=",
}  # fmt: skip
FORMS = {  # each form of an expression that the compiler knows, and the entries that explain it
    "SymbolExpression": "name rows $now", "GetAttributeExpression": "&.", "AddExpression": "+", "SubtractExpression": "-",
    "ArithmeticExpression": "*", "ComparisonExpression": "==", "ArithmeticComparisonExpression": "<", "LogicExpression": "and or",
    "CoalesceExpression": "??", "TernaryExpression": "?_:", "UnaryExpression": "not", "ContainsExpression": "in",
    "ComprehensionExpression": "[for_in]", "FunctionCallExpression": "$sum", "ArrayExpression": "[a,_b]", "GetItemExpression": "[0]",
    "GetSliceExpression": "[0:2]",
}  # fmt: skip
COMMANDS = dict.fromkeys(("mapping", "source"), pytest.mark.journey)
"""The pages with examples that run commands."""

LITERALS = {"'text'", "12.5", "true", "null", "d'...'", "t'...'"}

OF_LISTS = ("payload.each", "payload.item", "payload.ordered", "payload.list")  # no model reads these keys


def test_every_word_of_the_language_has_an_entry_and_every_entry_is_one():
    assert set(OPERATORS) == {*ARITHMETIC, *COMPARISONS}
    assert set(FORMS) == {kind.__name__ for kind in _Compiler(given().scope, TypeErrors("", given().scope))._builders}
    forms = {name.replace("_", " ") for names in FORMS.values() for name in names.split()}
    calls = {*(f"${name}" for name in FUNCTIONS), *(f".{name}" for name in (*ATTRIBUTES, *METHODS))}
    words = {*keys(), *OF_LISTS, *TARGETS, *OPERATORS.values(), *forms, *calls, *LITERALS}
    assert set(entries()) - words == set(), "these entries explain nothing that exists"
    assert words - set(entries()) == set(), f"write an entry with an example into {SOURCES}"


def test_every_entry_says_what_it_is_and_has_an_example_that_uses_it():
    wrong = [entry.name for entry in entries().values() if not re.match(r"[A-Z`].*[.:]$", entry.summary)]
    for entry in entries().values():
        above = entries().get(entry.name.rpartition(".")[0], entry)
        below = [other for name, other in entries().items() if name.startswith(f"{entry.name}.")]
        alike = [entries()["tender.upsert"]] if entry.name == "order.upsert" else []  # its payload would be a page long
        shown = [block for one in (entry, above, *below, *alike) for block in one.blocks]
        has_outcome = any(block.kind in OUTCOMES for block in shown)
        if entry.name in TARGETS:
            is_used = any(entry.name.partition(".")[2] in block.text for block in shown if block.kind == "yaml")
        elif entry.name in keys() or entry.name in OF_LISTS:
            key = entry.name.rpartition(".")[2]
            is_used = any(re.search(rf"\b{key}:", block.text) for block in shown if block.kind == "yaml")
        else:
            is_used = any(block.kind == "expression" for block in entry.blocks)
        wrong += [] if has_outcome and is_used else [entry.name]
    assert wrong == []


@pytest.mark.parametrize("name", [pytest.param(name, marks=COMMANDS.get(name, ())) for name in PAGES])
def test_every_example_gives_the_result_that_the_page_states(tmp_path, name):
    examples = examples_of(name)
    found = [outcome(example, tmp_path / str(number)) for number, example in enumerate(examples)]
    if REWRITE:
        (SOURCES / f"{name}.md").write_text(rewritten(name, found), encoding="utf-8")
        reference.entries.cache_clear()
    stated = [example.outcome.text for example in examples_of(name)]
    wrong = [f"{example}:\n{got}" for example, got, says in zip(examples, found, stated, strict=True) if got != says]
    assert not wrong, "\n\n".join(wrong)


@pytest.mark.parametrize("name", PAGES)
def test_the_pages_are_made_from_the_entries_and_the_code(name):
    path = DOCS / f"{name}.md"
    if REWRITE:
        path.write_text(page(name), encoding="utf-8")
    assert path.read_text(encoding="utf-8") == page(name), (
        "run the test with LOADSHEET_REWRITE=1 and look at the difference"
    )


# ---- types of expressions ----

SAMPLES = {
    "text": "item", "number": "kg", "yes/no": "adr", "date": "ready", "time": "at",
    "list of number": "[kg]", "list of date": "[ready]", "list of any": "[item]",
}  # fmt: skip
TYPES = {
    "list": Type.ANY,
    "text": Type.TEXT,
    "number": Type.NUMBER,
    "yes/no": Type.FLAG,
    "date": Type.MOMENT,
    "time": Type.SPAN,
}
WORD = re.compile(rf"(?<![.$\w])(?:{'|'.join(sorted(map(re.escape, SAMPLES), key=len, reverse=True))})(?!\w)")


def type_lines():
    return [
        (entry.name, line)
        for entry in entries().values()
        for block in entry.blocks
        if block.kind == "types"
        for line in block.text.splitlines()
    ]


def test_the_stated_types_are_those_of_the_language():
    wrong = []
    for name, line in type_lines():
        taken, given_type = line.split(" -> ")
        if "text" in taken and getattr(FUNCTIONS.get(name.lstrip("$")), "takes_calendar", False):
            continue  # the name of a calendar is written out
        expression = compile_expression(WORD.sub(lambda word: SAMPLES[word[0]], taken), given().scope)
        if expression.type is not TYPES[given_type]:
            wrong.append(f"{name}: {line}; it gives {expression.type.value}")
    assert wrong == []


def test_every_function_states_its_types_with_the_fewest_and_the_most_arguments():
    for name, function in FUNCTIONS.items():
        counts = {line.split(" -> ")[0].count(",") + 1 for entry, line in type_lines() if entry == f"${name}"}
        assert {len(function.arguments), function.least or len(function.arguments)} <= counts, name
    stated = {entry for entry, _ in type_lines()}
    assert {f".{name}" for name in (*ATTRIBUTES, *METHODS)} <= stated


# ---- the command ----


def test_a_name_is_found_with_and_without_what_stands_before_it():
    names = {
        "columns.pad_left": "columns.pad_left", "pad_left": "columns.pad_left", "PAD_LEFT": "columns.pad_left",
        "source.fold": "source.fold", "totals.sum": "source.tables.totals.sum", "$sum": "$sum", "round": "$round",
        "as_upper": ".as_upper", "starts_with()": ".starts_with", "??": "??",
    }  # fmt: skip
    assert {name: entry for name, entry in names.items() if entry not in [found.name for found in find(name)]} == {}


def test_help_explains_keys_fields_and_targets_and_lists_all_names(tmp_path):
    def helped(*words):
        done = loadsheet(tmp_path, "mapping", "help", *words)
        assert done.returncode == 0, done.stderr
        return done.stdout

    key = helped("pad_left")
    assert key.splitlines()[:2] == ["columns.pad_left", "Values: a section. Default: none. For text."]
    assert "    1067   -> 01067\n" in key
    names = ["source.timezone.default", "columns.default", "payload.default"]  # several keys have this name
    assert [line for line in helped("default").splitlines() if line in names] == names
    assert helped("chargeable_weight_uom").splitlines() == [
        "chargeable_weight_uom  (a field of the payload)",
        "Unit of the chargeable weight: G, KG, Ton. It holds a text.",
        "Required in order.create.",
        "Optional in order.update.",
    ]
    assert re.search(r"^  packages\[\]\.weight +a number +Weight", helped("order.create"), re.MULTILINE)
    everything = helped()
    assert {line.strip().split("  ")[0] for line in everything.splitlines() if line.startswith("  ")} == set(entries())
    assert re.search(r"^  \$sum +The sum of numbers; 0 for none\.$", everything, re.MULTILINE)


def test_an_unknown_name_is_refused_with_the_closest_one(tmp_path):
    for name, meant in {
        "padleft": "pad_left",
        "pad": "pad_left",
        "$summ": "$sum",
        "source.fodl": "source.fold",
    }.items():
        done = loadsheet(tmp_path, "mapping", "help", name)
        assert (done.returncode, done.stdout) == (2, "")
        assert f'"{name}" is not a word of mapping files; did you mean {meant}?' in done.stderr


def test_help_as_json(tmp_path):
    (found,) = json.loads(loadsheet(tmp_path, "mapping", "help", "source.fold", "--json").stdout)
    assert (found["name"], found["values"], found["required"]) == ("source.fold", "error, first or second", False)
    assert [block["kind"] for block in found["examples"]] == ["yaml", "csv", "result"]
    assert found["text"].startswith("Which of two equal local times is meant")
    everything = json.loads(loadsheet(tmp_path, "mapping", "help", "--json").stdout)
    assert [one["name"] for one in everything] == list(entries())


@pytest.mark.journey
@pytest.mark.parametrize("name", ["tutorial", "README"])
def test_the_commands_of_a_page_print_what_it_shows(tmp_path, name):
    path = DOCS / f"{name}.md"
    found = carried_out(path.read_text(encoding="utf-8"), tmp_path)
    if REWRITE:
        path.write_text(found, encoding="utf-8")
    assert found == path.read_text(encoding="utf-8"), "run the test with LOADSHEET_REWRITE=1 and look at the difference"


def test_the_tutorial_ends_with_accepted_orders():
    run = (DOCS / "tutorial.md").read_text(encoding="utf-8").split("$ loadsheet run\n")[1].split("```")[0]
    assert "All 3 documents were accepted" in run
    assert "4 of 4 rows accounted for" in run

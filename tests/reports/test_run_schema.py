"""`run.json` keeps to its published schema, and names are only ever added to it."""

import json

import jsonschema

from loadsheet.reports import schema

NAMES_OF_1 = {  # as loadsheet.run/1 was published; a name may be added here, and none ever goes or becomes another
    "RunSummary": "run started_at finished_at exit_code balance entries verdicts groups only_at_exchange needs_someone legs totals"
    " problems drops reports settings deviations versions schema remarks forecast causes inbox firsts",
    "InboxTold": "stuck count files",
    "LeftTold": "file code level say",
    "BalanceTold": "balances read rows faults",
    "NeedsSomeone": "entries rows first",
    "LegTold": "subject read listed total complete says",
    "TotalTold": "subject figure unit scale tolerance source not_sent sent acknowledged listed",
    "ProblemTold": "code title level count places",
    "CauseTold": "code level file sheet column count keys places found say proposal",
    "DropTold": "run mapping mapping_version operation entries files fix",
    "FileTold": "name role sha256 size arrived kept_as set_aside tables results",
    "TableTold": "table sheet rows fates balances found",
    "Deviation": "setting value default",
}
TYPES_OF_1 = {
    ("RunSummary", "schema"): "string",
    ("RunSummary", "entries"): "object",
    ("BalanceTold", "balances"): "boolean",
    ("BalanceTold", "read"): "integer",
    ("TotalTold", "listed"): "number",
    ("FileTold", "set_aside"): "array",
}


def published():
    return json.loads(schema())


def test_no_name_of_schema_1_ever_goes():
    parts = published()["$defs"]
    for part, names in NAMES_OF_1.items():
        assert set(names.split()) <= set(parts[part]["properties"]), part
    for (part, name), kind in TYPES_OF_1.items():
        assert parts[part]["properties"][name]["type"] == kind


def test_what_was_written_before_a_name_was_added_still_keeps_to_the_schema():
    parts = published()["$defs"]
    for part, names in NAMES_OF_1.items():
        assert set(parts[part]["required"]) <= set(names.split()), f"a new name of {part} needs a default"


def test_every_name_says_what_it_means():
    parts = published()["$defs"]
    assert all(part["description"] for part in parts.values())
    silent = [
        (part, name)
        for part, told in parts.items()
        for name, one in told["properties"].items()
        if not one.get("description")
    ]
    assert silent == []


def test_the_schema_is_a_schema():
    jsonschema.Draft202012Validator.check_schema(published())
    assert published()["$id"] == "loadsheet.run/1"

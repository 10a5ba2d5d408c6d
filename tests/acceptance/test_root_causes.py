"""One error is one cause, at its own cell; what only follows from it is a consequence. Knows the faults it seeds, and nothing of loadsheet."""

import json
import random

import pytest

JOINED = """\
mapping: joined
version: 1
target: tender.create
source:
  files: ["heads.csv"]
  companions: {lines: "lines.csv", notes: "notes.csv"}
  locale: en_GB
  tables:
    heads: {file: heads}
    lines: {file: lines, join: {to: heads, on: {order: id}}}
    notes: {file: notes, join: {to: heads, on: {order: id}, missing: ignore}}
columns:
  heads: {id: {label: ID, required: true, PATTERN}, total: {label: Total, type: decimal, required: true}}
  lines: {order: {label: Order, required: true}, item: {label: Item}, weight: {label: Weight, type: decimal, required: true}}
  notes: {order: {label: Order, required: true}, text: {label: Text}}
payload:
  tender_id:     {col: heads.id}
  sender_id:     {value: A}
  receiver_id:   {value: B}
  tender_status: {value: OPEN}
  packages: {each: lines, item: {package_type: {value: Box}, item_name: {col: item}, weight: {col: weight}}}
  tender_references: {each: notes, item: {name: {value: Note}, value: {col: text}}}
checks: [{id: sum, rule: '$sum([r.weight for r in lines]) == heads.total', say: the weights do not add up to the total}]
"""
KINDS = """\
mapping: kinds
version: 1
target: tender.create
source:
  files: ["kinds.csv"]
  locale: en_GB
  tables:
    heads: {kind: {label: Kind, is: HEAD}}
    lines: {kind: {label: Kind, is: [LINE, SUM]}, totals: {where: 'kind == "SUM"', sum: [weight], over: block}, join: {to: heads, on: {id: id}, missing: ignore}}
columns:
  heads: {id: {label: ID, required: true}}
  lines:
    kind:   {place: 1, required: true}
    id:     {above: heads.id, required: true}
    weight: {place: 3, type: decimal, required: true}
payload:
  tender_id:     {col: heads.id}
  sender_id:     {value: A}
  receiver_id:   {value: B}
  tender_status: {value: OPEN}
  packages: {each: lines, item: {package_type: {value: Box}, item_name: {value: Box}, weight: {col: weight}}}
"""


def key(number):
    return f"HLT-26-{number:04d}"


class Drop:
    """Orders with two lines and a note each, as lists of cells that a test may change. Row numbers are those of the files."""

    def __init__(self, house, orders):
        self.house = house
        self.heads = [[key(number), "3.5"] for number in range(orders)]
        self.lines = [[key(number), "Box", weight] for number in range(orders) for weight in ("1.5", "2")]
        self.notes = [[key(number), "x"] for number in range(orders)]

    def check(self, pattern="", of_lines=""):
        """What `check` says of the drop, as JSON; the patterns are those of the keys."""
        mapping = JOINED.replace("required: true, PATTERN", f"required: true{pattern}")
        mapping = mapping.replace("lines: {order: {label: Order,", f"lines: {{order: {{label: Order{of_lines},")
        heads, lines, notes = ["ID", "Total"], ["Order", "Item", "Weight"], ["Order", "Text"]
        files = {"heads": [heads, *self.heads], "lines": [lines, *self.lines], "notes": [notes, *self.notes]}
        return checked(self.house, mapping, files)


def checked(house, mapping, files):
    """What `check` says of files with these rows, by name, as JSON."""
    house.use({"only": mapping})
    for name, rows in files.items():
        (house / f"{name}.csv").write_text("".join(",".join(row) + "\n" for row in rows), encoding="utf-8")
    return json.loads(house.command("check", "--json", *[f"{name}.csv" for name in files]).stdout)


def place(problem):
    where = problem["where"]
    return where["file"], where["row"], where.get("column", "")


def roots(said):
    """The places of the errors that follow from no other."""
    return sorted(
        place(problem) for problem in said["problems"] if "because" not in problem and problem["level"] == "error"
    )


@pytest.fixture
def drop(workspace):
    return Drop(workspace, 24)


def test_each_seeded_fault_is_one_cause_at_its_own_cell_and_all_else_follows(drop):
    drop.lines[2][0] = drop.lines[3][0] = "HLT-26-OO01"  # both lines of order 1: it has none, and they have no order
    drop.lines[4][0] = "HLT-26-0O02"  # one line of order 2: the other weighs less than the total
    drop.heads[5][0] = "HLT-26-OO05"  # the head: its lines and its note have no order
    drop.lines[12][2] = "l.5"  # no number: the total is not checked
    del drop.heads[10]  # no head: two lines and a note wait for it
    said = drop.check()
    seeded = [("lines.csv", 4, "Order"), ("lines.csv", 6, "Order"), ("heads.csv", 7, "ID"), ("lines.csv", 14, "Weight")]
    assert roots(said) == sorted([*seeded, ("lines.csv", 22, "Order")])
    follow = {place(problem): place(problem["because"]) for problem in said["problems"] if "because" in problem}
    assert follow == {
        ("heads.csv", 3, "ID"): ("lines.csv", 4, "Order"),
        ("heads.csv", 4, ""): ("lines.csv", 6, "Order"),
        ("lines.csv", 12, "Order"): ("heads.csv", 7, "ID"),
        ("notes.csv", 7, "Order"): ("heads.csv", 7, "ID"),
        ("notes.csv", 12, "Order"): ("lines.csv", 22, "Order"),
    }
    hints = {place(problem): problem["hint"] for problem in said["problems"]}
    assert hints["lines.csv", 4, "Order"] == "did you mean HLT-26-0001? It is at heads.csv:3 ID"
    assert hints["heads.csv", 3, "ID"] == "correct HLT-26-OO01 at lines.csv:4 Order; that settles this too"
    assert hints["lines.csv", 14, "Weight"] == "did you mean 1.5?"
    assert said["usable"] == 24 - 5, "nothing that follows from an error is sent"


@pytest.mark.parametrize(
    "typed",
    [
        "HLT-26-1",
        "hlt-26-0001",
        "HLT\N{EN DASH}26-0001",
        "HLT-26-00\N{FULLWIDTH DIGIT ZERO}1",
        "HL\N{CYRILLIC CAPITAL LETTER TE}-26-0001",
        "HLT-26-000l",
        "HLT-Z6-0001",
        "HLT-26-0099",
    ],
)
def test_only_what_looks_the_same_is_proposed(drop, typed):
    drop.lines[2][0] = drop.lines[3][0] = typed
    said = drop.check()
    alike = typed not in ("HLT-Z6-0001", "HLT-26-0099")
    assert (
        "did you mean HLT-26-0001?" in {problem["hint"].partition(" It ")[0] for problem in said["problems"]}
    ) == alike
    assert len(roots(said)) == (1 if alike else 2)


def test_two_keys_that_may_be_meant_are_not_guessed(drop):
    drop.heads[2][0], drop.heads[3][0] = "A-S", "A-5"
    drop.lines[4:8] = [["A-5", "Box", "1.5"], ["A-5", "Box", "2"], ["A-s", "Box", "1.5"], ["A-s", "Box", "2"]]
    drop.notes[2:4] = []
    said = drop.check()
    assert not any("did you mean" in problem["hint"] for problem in said["problems"])
    assert len(roots(said)) == 2


def test_a_head_whose_key_is_refused_explains_its_lines(drop):
    drop.heads[4][0] = drop.notes[4][0] = "HLT/26/0004"
    drop.lines[8][0] = drop.lines[9][0] = "HLT/26/0004"
    said = drop.check(pattern=", pattern: 'HLT-[0-9]{2}-[0-9]{4}'")
    assert roots(said) == [("heads.csv", 6, "ID")]
    (cause,) = said["causes"]
    assert cause["consequences"]["kinds"] == {"G404": 2}


def test_lines_whose_key_is_refused_explain_what_their_orders_lack(drop):
    drop.lines[6][0] = "HLT-26-OO03"  # order 3 has another line: its weights do not add up
    drop.lines[8][0] = drop.lines[9][0] = "HLT-26-OO04"  # order 4 has none
    said = drop.check(of_lines=", pattern: 'HLT-[0-9]{2}-[0-9]{4}'")
    assert roots(said) == [("lines.csv", row, "Order") for row in (8, 10, 11)]
    (cause,) = said["causes"]
    assert cause["consequences"]["kinds"] == {"G406": 1, "G403": 1}


def test_lines_below_a_misspelt_head_wait_for_it_and_an_order_with_a_misspelt_line_is_not_sent(workspace):
    """Those lines are not given to the head before it, and the sum over the misspelt line is said neither to agree nor to differ."""
    rows = [["Kind", "ID", "Weight"]]
    for number in range(6):
        rows += [["HEAD", key(number), ""], ["LINE", "", "1.5"], ["LINE", "", "2"], ["SUM", "", "3.5"]]
    rows[9][0], rows[18][0] = "HAED", "LYNE"
    said = checked(workspace, KINDS, {"kinds": rows})
    assert roots(said) == [("kinds.csv", 10, "Kind"), ("kinds.csv", 19, "Kind")]
    assert {place(problem) for problem in said["problems"] if "because" in problem} == {
        ("kinds.csv", row, "id") for row in (11, 12)
    }
    assert said["usable"] == 4
    assert {left["rule"]: left["count"] for left in said["left_out_by"]} == {
        'totals: kind == "SUM"': 4,
        'totals: kind == "SUM" (not compared: a value above was refused)': 2,
    }


@pytest.mark.parametrize(("side", "follows"), [("lines", "missing (G403)"), ("heads", "left over (G404)")])
def test_hundreds_of_faults_in_thousands_of_rows_are_one_cause_and_each_problem_counts_once(workspace, side, follows):
    drop, chance = Drop(workspace, 3_000), random.Random(7)
    drop.notes = []
    wrong = sorted(chance.sample(range(1, 1_000), 300))
    for number in wrong:
        typed = key(number).replace("0", "O", 1)
        if side == "heads":
            drop.heads[number][0] = typed
        else:
            drop.lines[2 * number][0] = drop.lines[2 * number + 1][0] = typed
    said = drop.check()
    column = "ID" if side == "heads" else "Order"
    rows = [number + 2 if side == "heads" else 2 * number + 2 for number in wrong]
    assert roots(said) == [(f"{side}.csv", row, column) for row in rows]
    (cause,) = (cause for cause in said["causes"] if cause["level"] == "error")
    assert (cause["count"], cause["keys"], said["errors"]) == (300, 300, 600)
    assert cause["consequences"] == {
        "count": 300,
        "keys": 300,
        "kinds": {follows[-5:-1]: 300},
        "say": f"explains 300 more problems: 300x partner row {follows}",
    }
    assert cause["proposal"].startswith(f"correct {key(wrong[0]).replace('0', 'O', 1)} -> {key(wrong[0])}?, ")
    assert said["usable"] == 2_700


def test_a_run_has_the_same_causes_in_all_that_it_writes(drop):
    drop.lines[2][0] = drop.lines[3][0] = "HLT-26-OO01"
    drop.lines[12][2] = "l.5"
    drop.check()
    for name in ("heads", "lines", "notes"):
        drop.house.drop(f"{name}.csv", (drop.house / f"{name}.csv").read_text(encoding="utf-8"))
    done = drop.house.run()
    assert done.returncode == 1, done.stderr
    said, folder = drop.house.run_json(), drop.house.reports()[-1]
    typo, number = said["causes"]
    assert (typo["code"], typo["keys"], typo["consequences"]["kinds"]) == ("G404", 1, {"G403": 1})
    assert (number["code"], number["consequences"]["count"]) == ("C302", 0)
    assert said["verdicts"]["not sent: invalid"] == 3
    page = (folder / "run.html").read_text(encoding="utf-8")
    assert "explains 1 more problem: 1x partner row missing (G403)" in page
    assert "HLT-26-OO01 -&gt; HLT-26-0001?" in page or "HLT-26-OO01 -> HLT-26-0001?" in page
    lines = done.stdout.splitlines() + done.stderr.splitlines()
    (follows,) = [line for line in lines if "(follows from another problem)" in line]
    assert "partner row missing (G403)" in follows


def test_what_waits_for_an_invalid_order_follows_from_its_cause(workspace):
    workspace.write_orders(4, wrong_every=2)
    workspace.run()
    (wrong, *_) = [key for key, state in workspace.states().items() if state == "invalid"]
    workspace.add("events")
    workspace.write_orders(4, first=1, wrong_every=2)
    events = "".join(f"{wrong},P{number},2026-03-01 10:00\n" for number in range(3))
    workspace.drop("events.csv", f"Order,Code,At\n{events}")
    workspace.run()
    causes = [cause["consequences"] for cause in workspace.run_json()["causes"] if cause["consequences"]["count"]]
    assert [(cause["keys"], cause["say"]) for cause in causes] == [(3, "3 documents wait for it")]
    assert "the sender must fix it first" in workspace.command("show", wrong).stdout

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
        self.use(mapping.replace("lines: {order: {label: Order,", f"lines: {{order: {{label: Order{of_lines},"))
        for name, rows in (
            ("heads", [["ID", "Total"], *self.heads]),
            ("lines", [["Order", "Item", "Weight"], *self.lines]),
        ):
            self.write(name, rows)
        self.write("notes", [["Order", "Text"], *self.notes])
        return checked(self.house, "heads", "lines", "notes")

    def use(self, mapping):
        """Have this mapping only."""
        for path in (self.house / "mappings").iterdir():
            path.unlink()
        (self.house / "mappings" / "only.yaml").write_text(mapping, encoding="utf-8")

    def write(self, name, rows):
        (self.house / f"{name}.csv").write_text("".join(",".join(row) + "\n" for row in rows), encoding="utf-8")


def checked(house, *names):
    done = house.command("check", "--json", *[f"{name}.csv" for name in names])
    return json.loads(done.stdout)


def place(problem):
    where = problem["where"]
    return where["file"], where["row"], where.get("column", "")


def roots(told):
    """The places of the errors that follow from no other."""
    return sorted(
        place(problem) for problem in told["problems"] if "because" not in problem and problem["level"] == "error"
    )


@pytest.fixture
def drop(workspace):
    (workspace / "mappings").mkdir(exist_ok=True)
    return Drop(workspace, 24)


def test_each_seeded_fault_is_one_cause_at_its_own_cell_and_all_else_follows(drop):
    drop.lines[2][0] = drop.lines[3][0] = "HLT-26-OO01"  # both lines of order 1: it has none, and they have no order
    drop.lines[4][0] = "HLT-26-0O02"  # one line of order 2: the other weighs less than the total
    drop.heads[5][0] = "HLT-26-OO05"  # the head: its lines and its note have no order
    drop.lines[12][2] = "l.5"  # no number: the total is not checked
    del drop.heads[10]  # no head: two lines and a note wait for it
    told = drop.check()
    seeded = [("lines.csv", 4, "Order"), ("lines.csv", 6, "Order"), ("heads.csv", 7, "ID"), ("lines.csv", 14, "Weight")]
    assert roots(told) == sorted([*seeded, ("lines.csv", 22, "Order")])
    follow = {place(problem): place(problem["because"]) for problem in told["problems"] if "because" in problem}
    assert follow == {
        ("heads.csv", 3, "ID"): ("lines.csv", 4, "Order"),
        ("heads.csv", 4, ""): ("lines.csv", 6, "Order"),
        ("lines.csv", 12, "Order"): ("heads.csv", 7, "ID"),
        ("notes.csv", 7, "Order"): ("heads.csv", 7, "ID"),
        ("notes.csv", 12, "Order"): ("lines.csv", 22, "Order"),
    }
    hints = {place(problem): problem["hint"] for problem in told["problems"]}
    assert hints["lines.csv", 4, "Order"] == "did you mean HLT-26-0001? It is at heads.csv:3 ID"
    assert hints["heads.csv", 3, "ID"] == "correct HLT-26-OO01 at lines.csv:4 Order; that settles this too"
    assert hints["lines.csv", 14, "Weight"] == "did you mean 1.5?"
    assert told["usable"] == 24 - 5, "nothing that follows from an error is sent"


def test_the_causes_of_check_count_every_problem_once(drop):
    for number in (1, 3, 7):
        drop.lines[2 * number][0] = drop.lines[2 * number + 1][0] = key(number).replace("00", "0O", 1)
    told = drop.check()
    (cause,) = told["causes"]
    assert (cause["code"], cause["count"], cause["keys"]) == ("G404", 3, 3)
    assert cause["consequences"] == {
        "count": 3,
        "keys": 3,
        "kinds": {"G403": 3},
        "say": "explains 3 more problems: 3x partner row missing (G403)",
    }
    assert cause["proposal"].startswith("correct HLT-26-0O01 -> HLT-26-0001?, ")
    assert told["errors"] == cause["count"] + cause["consequences"]["count"]


@pytest.mark.parametrize(
    "typed",
    [
        "HLT-26-1",
        "hlt-26-0001",
        "HLT\N{EN DASH}26-0001",
        "HLT-26-00\N{FULLWIDTH DIGIT ZERO}1",
        "HL\N{CYRILLIC CAPITAL LETTER TE}-26-0001",
        "HLT-26-000\N{ZERO WIDTH SPACE}1",
        "HLT-26-\N{NO-BREAK SPACE}0001",
        "HLT-26-000l",
        "HLT-Z6-0001",
        "HLT-26-0099",
    ],
)
def test_only_what_looks_the_same_is_proposed(drop, typed):
    drop.lines[2][0] = drop.lines[3][0] = typed
    told = drop.check()
    alike = typed not in ("HLT-Z6-0001", "HLT-26-0099")
    assert (
        "did you mean HLT-26-0001?" in {problem["hint"].partition(" It ")[0] for problem in told["problems"]}
    ) == alike
    assert len(roots(told)) == (1 if alike else 2)


def test_two_keys_that_may_be_meant_are_not_guessed(drop):
    drop.heads[2][0], drop.heads[3][0] = "A-S", "A-5"
    drop.lines[4:8] = [["A-5", "Box", "1.5"], ["A-5", "Box", "2"], ["A-s", "Box", "1.5"], ["A-s", "Box", "2"]]
    drop.notes[2:4] = []
    told = drop.check()
    assert not any("did you mean" in problem["hint"] for problem in told["problems"])
    assert len(roots(told)) == 2


def test_a_head_whose_key_is_refused_explains_its_lines(drop):
    drop.heads[4][0] = drop.notes[4][0] = "HLT/26/0004"
    drop.lines[8][0] = drop.lines[9][0] = "HLT/26/0004"
    told = drop.check(pattern=", pattern: 'HLT-[0-9]{2}-[0-9]{4}'")
    assert roots(told) == [("heads.csv", 6, "ID")]
    (cause,) = told["causes"]
    assert cause["consequences"]["kinds"] == {"G404": 2}


def test_lines_whose_key_is_refused_explain_what_their_orders_lack(drop):
    drop.lines[6][0] = "HLT-26-OO03"  # order 3 has another line: its weights do not add up
    drop.lines[8][0] = drop.lines[9][0] = "HLT-26-OO04"  # order 4 has none
    told = drop.check(of_lines=", pattern: 'HLT-[0-9]{2}-[0-9]{4}'")
    assert roots(told) == [("lines.csv", row, "Order") for row in (8, 10, 11)]
    (cause,) = told["causes"]
    assert cause["consequences"]["kinds"] == {"G406": 1, "G403": 1}


def records(orders):
    """A file of heads, two lines each, and a sum of their weights."""
    rows = [["Kind", "ID", "Weight"]]
    for number in range(orders):
        rows += [["HEAD", key(number), ""], ["LINE", "", "1.5"], ["LINE", "", "2"], ["SUM", "", "3.5"]]
    return rows


def test_lines_below_a_misspelt_head_are_not_given_to_the_head_before_it(drop):
    rows = records(6)
    rows[1 + 4 * 2][0] = "HAED"
    drop.use(KINDS)
    drop.write("kinds", rows)
    told = checked(drop.house, "kinds")
    assert roots(told) == [("kinds.csv", 10, "Kind")]
    assert {place(problem) for problem in told["problems"] if "because" in problem} == {
        ("kinds.csv", row, "id") for row in (11, 12)
    }
    assert told["usable"] == 5


def test_a_sum_over_a_row_of_unknown_kind_is_no_problem_of_its_own_and_is_not_said_to_agree(drop):
    rows = records(6)
    rows[2 + 4 * 2][0] = "LYNE"
    drop.use(KINDS)
    drop.write("kinds", rows)
    told = checked(drop.house, "kinds")
    assert roots(told) == [("kinds.csv", 11, "Kind")]
    rules = {left["rule"]: left["count"] for left in told["left_out_by"]}
    assert rules == {
        'totals: kind == "SUM"': 5,
        'totals: kind == "SUM" (not compared: a value above was refused)': 1,
    }


@pytest.mark.parametrize("side", ["lines", "heads"])
def test_hundreds_of_faults_in_thousands_of_rows_are_one_cause_each_at_the_right_cell(workspace, side):
    (workspace / "mappings").mkdir(exist_ok=True)
    drop, chance = Drop(workspace, 3_000), random.Random(7)
    drop.notes = []
    wrong = sorted(chance.sample(range(1, 1_000), 300))
    for number in wrong:
        typed = key(number).replace("0", "O", 1)
        if side == "heads":
            drop.heads[number][0] = typed
        else:
            drop.lines[2 * number][0] = drop.lines[2 * number + 1][0] = typed
    told = drop.check()
    column = "ID" if side == "heads" else "Order"
    rows = [number + 2 if side == "heads" else 2 * number + 2 for number in wrong]
    assert roots(told) == [(f"{side}.csv", row, column) for row in rows]
    first = next(cause for cause in told["causes"] if cause["level"] == "error")
    assert (first["count"], first["keys"], first["consequences"]["count"]) == (300, 300, 300)
    assert told["usable"] == 2_700


STATUS = """\
mapping: status
version: 1
target: order.status
source: {files: ["status.csv"]}
columns: {order: {label: Order, required: true}, code: {label: Code, required: true}, place: {label: Place, required: true}}
payload: {order_id: {col: order}, status_code: {col: code}, status_location: {col: place}}
"""


def test_a_run_has_the_same_causes_in_all_that_it_writes(drop):
    drop.lines[2][0] = drop.lines[3][0] = "HLT-26-OO01"
    drop.lines[12][2] = "l.5"
    drop.check()
    for name in ("heads", "lines", "notes"):
        drop.house.drop(f"{name}.csv", (drop.house / f"{name}.csv").read_text(encoding="utf-8"))
    done = drop.house.run()
    assert done.returncode == 1, done.stderr
    told, folder = drop.house.run_json(), drop.house.reports()[-1]
    typo, number = told["causes"]
    assert (typo["code"], typo["keys"], typo["consequences"]["kinds"]) == ("G404", 1, {"G403": 1})
    assert (number["code"], number["consequences"]["count"]) == ("C302", 0)
    assert sum(told["verdicts"].get(name, 0) for name in ("not sent: invalid",)) == 3
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
    (workspace / "mappings" / "status.yaml").write_text(STATUS, encoding="utf-8")
    workspace.write_orders(4, first=1, wrong_every=2)
    workspace.drop("status.csv", "Order,Code,Place\n" + "".join(f"{wrong},P{number},dock\n" for number in range(3)))
    workspace.run()
    told = workspace.run_json()
    assert [cause["consequences"]["say"] for cause in told["causes"] if cause["consequences"]["count"]] == [
        "3 documents wait for it"
    ]

"""What an analyst sees: a record is one exception, however often its file comes; it rolls forward and closes when it is corrected."""

import os
import re
import time
from urllib.parse import unquote

import openpyxl
import pytest
from faulty_exchange import misbehaving
from fix_workbooks import FixBook
from workspace import SAMPLES, SMALL


@pytest.fixture
def loads(workspace):
    """Orders with a row of totals: what drops a file of them and runs."""
    mapping = (SMALL / "orders.yaml").read_text(encoding="utf-8")
    total = "rows: {totals: {where: 'order == \"Total\"', sum: [weight]}}"
    mapping = mapping.replace("rows: {}", total).replace("type: decimal", "type: quantity, unit: kg")
    workspace.use({"orders": mapping})

    def drop(*rows):
        workspace.drop("orders.csv", "\n".join(["Order,City,Weight", *rows, ""]))
        return workspace.run()

    workspace.drop_loads = drop
    return workspace


def sheet(workspace, title="Exceptions"):
    return [line for line in workspace.sheet(title) if line["Exception"].startswith("E-")]


def write_into(folder, values):
    """What an analyst writes into the first line of the work list, by heading; the path of the workbook."""
    path = folder / "reconciliation.xlsx"
    book = openpyxl.load_workbook(path)
    heads = [cell.value for cell in book["Exceptions"][1]]
    for head, value in values.items():
        book["Exceptions"].cell(2, heads.index(head) + 1).value = value
    book.save(path)
    return path


def test_a_wrong_order_is_remarked_on_rolled_forward_and_closed_when_it_is_fixed(workspace):
    workspace.write_orders(3, first=1, wrong_every=2)
    assert workspace.run().returncode == 1
    (exception,) = sheet(workspace)
    assert exception["Status"] == "open"
    remarks = {"Owner": "Ada", "Reason": "shipper data", "Comment": "they send it anew"}
    first = write_into(workspace.reports()[-1], remarks)
    later = first.stat().st_mtime + 60
    os.utime(first, (later, later))

    workspace.run()  # with an empty inbox
    (rolled,) = sheet(workspace)
    assert {head: rolled[head] for head in remarks} == remarks
    assert (rolled["Exception"], rolled["In run"]) == (exception["Exception"], exception["In run"])

    workspace.write_orders(3, first=1)
    assert workspace.run().returncode == 0
    assert sheet(workspace) == []
    (closed,) = sheet(workspace, "Closed")
    assert (closed["Exception"], closed["Owner"]) == (exception["Exception"], "Ada")
    assert closed["Closed because"] == "a later document was accepted"
    first_line, *_ = workspace.command("show", closed["Key"]).stdout.splitlines()
    assert first_line.startswith(f"order.create {closed['Key']}: accepted"), "how it stands now comes first"


@pytest.mark.parametrize("archive_path", ["{yyyy}-{mm}/of {run}/{name}", "{name}"])
def test_a_source_cell_opens_the_kept_original_at_the_cell(workspace, archive_path):
    """Wherever the archive keeps originals. The second of the same name is numbered there."""
    workspace.use_shipped("acme-flat")
    workspace.variables["LOADSHEET_ARCHIVE_PATH"] = archive_path
    for _ in range(1 + (archive_path == "{name}")):
        workspace.drop("acme_orders_50% [a]#1.xlsx", SAMPLES / "acme_orders_2026-03.xlsx")
        assert workspace.run().returncode == 1
    folder = workspace.reports()[-1]
    book = openpyxl.load_workbook(folder / "reconciliation.xlsx")
    followed, originals = [], {}
    for title, column, found in (("Exceptions", "Source cell", "Source value"), ("Problems", "Cell", "Value")):
        heads = [cell.value for cell in book[title][1]]
        for line in book[title].iter_rows(min_row=2):
            link, value = line[heads.index(column)].hyperlink, line[heads.index(found)].value
            path = folder / unquote(link.target.replace("\\", "/"))
            original = originals.get(path) or openpyxl.load_workbook(path, data_only=True)
            originals[path] = original
            sheet, _, cell = link.location.rpartition("!")
            followed.append((value, str(original[sheet.strip("'")][cell].value)))
    assert len(followed) > 8
    assert [pair for pair in followed if pair[0] != pair[1] and not pair[1].startswith(pair[0][:3])] == []
    assert ("zwölf", "zwölf") in followed


def drop_again(workspace, *corrected):
    """Six orders, two of three wrong, in the opposite order; the packages of the corrected ones have a weight."""
    workspace.write_orders(6, first=1, wrong_every=2)
    for path in workspace.inbox.iterdir():
        head, *lines = path.read_text(encoding="utf-8").splitlines()
        text = "\n".join([head, *reversed(lines), ""])
        for key in corrected:
            text = text.replace(f"{key},BOX,Item 0,heavy", f"{key},BOX,Item 0,12")
        path.write_text(text, encoding="utf-8")
    return workspace.run()


def test_a_file_that_comes_again_confirms_its_exceptions_and_closes_those_of_corrected_records(workspace):
    """Also one whose rows are in another order."""
    workspace.write_orders(6, first=1, wrong_every=2)
    assert workspace.run().returncode == 1
    first = {line["Key"]: line for line in sheet(workspace)}
    assert [(key, line["Times"]) for key, line in first.items()] == [(f"0000000{key}", 1) for key in (2, 4, 6)]

    again = drop_again(workspace)
    assert again.returncode == 1
    assert again.stdout.startswith("✗ 3 of 6 documents need attention · 3 unchanged · ")
    assert "still open" not in again.stdout, "each is counted once"
    for now in sheet(workspace):
        before = first[now["Key"]]
        assert [now[head] for head in ("Exception", "First seen", "In run")] == [
            before[head] for head in ("Exception", "First seen", "In run")
        ]
        assert (now["Last in run"], now["Times"]) == (workspace.reports()[-1].name, 2)

    partly = drop_again(workspace, "00000004")
    assert partly.stdout.startswith("✗ 2 of 6 documents need attention · 1 accepted · 3 unchanged · ")
    left = [(line["Exception"], line["Key"], line["Times"]) for line in sheet(workspace)]
    assert left == [(first[key]["Exception"], key, 3) for key in ("00000002", "00000006")]
    assert [line["Exception"] for line in sheet(workspace, "Closed")] == [first["00000004"]["Exception"]]
    assert "2 exceptions of earlier runs are still open: 00000002, 00000006" in workspace.run().stdout

    assert drop_again(workspace, *first).returncode == 0
    assert sheet(workspace) == []
    closed = {line["Exception"]: line["Closed because"] for line in sheet(workspace, "Closed")}
    assert closed == {exception: "a later document was accepted" for exception, _, _ in left}


def test_two_exceptions_of_one_record_in_an_older_ledger_become_the_older_one(workspace):
    for _ in range(2):
        drop_again(workspace)
    first = [line["Exception"] for line in sheet(workspace)]
    assert len(first) == 3
    workspace.change(  # as 0.5.0 opened them
        """
        insert into exceptions (entry_id, run_id, opened_at, verdict, found, closed_at, closed_because)
        select entries.id, drops.run_id, '2026-03-05T02:15:00Z', 'invalid', '[]', '', ''
        from entries join drops on drops.id = entries.drop_id
        where entries.state = 'invalid' and drops.run_id = (select max(run_id) from drops)
        """
    )
    assert drop_again(workspace).stdout.startswith("✗ 3 of 6 documents need attention · 3 unchanged · ")
    assert [(line["Exception"], line["Times"]) for line in sheet(workspace)] == [(name, 3) for name in first]
    closed = workspace.ask("select closed_because from exceptions where closed_because <> ''")
    assert [because for (because,) in closed] == [f"it is the same record as {name}" for name in first]


def open_and_closed(workspace):
    """The values of the keys in the sheets of exceptions, by exception."""
    return [line["Exception"] for line in sheet(workspace)], [line["Exception"] for line in sheet(workspace, "Closed")]


TOTAL = ("L1,Essen,2", "L2,Ulm,3", "Total,,6")


@pytest.mark.parametrize(
    ("wrong", "corrected"),
    [
        (TOTAL, ("L1,Essen,2", "L2,Ulm,3", "Total,,5")),
        (TOTAL, ("L1,Essen,2", "L2,Ulm,4", "Total,,6")),
        (("L1,Essen,2", ",Ulm,3", "Total,,5"), ("L2,Ulm,3", "L1,Essen,2", "Total,,5")),
    ],
    ids=["the total", "a row above it", "a row without identifier, shuffled"],
)
def test_a_problem_without_a_key_is_closed_by_the_corrected_file(loads, wrong, corrected):
    for times in (1, 2):
        assert loads.drop_loads(*wrong).returncode == 1
        (line,) = sheet(loads)
        assert (line["Key"], line["Times"]) == ("", times)
    loads.drop_loads(*corrected)
    assert line["Exception"] in open_and_closed(loads)[1]


def test_a_row_without_a_key_is_in_order_again_if_the_corrected_file_comes_after_the_bad_one_once_more(loads):
    bad, good = ("L1,Essen,2", ",Ulm,3", "Total,,5"), ("L1,Essen,2", "L2,Ulm,3", "Total,,5")
    assert [loads.drop_loads(*rows).returncode for rows in (bad, good, bad)] == [1, 0, 1]
    (line,) = sheet(loads)
    assert loads.drop_loads(*good).returncode == 0
    assert open_and_closed(loads) == ([], [line["Exception"]])


def test_a_quote_without_its_carrier_is_closed_by_the_corrected_file(workspace):
    """Half of a key identifies no record."""
    workspace.use_small("tenders", "quotes")
    workspace.drop("tenders.csv", "Tender,City\nT-1,Ulm\n")
    workspace.drop("quotes.csv", "Tender,Carrier,Rate\nT-1,,90\n")
    assert workspace.run().returncode == 1
    (line,) = sheet(workspace)
    workspace.drop("quotes.csv", "Tender,Carrier,Rate\nT-1,CARGO,90\n")
    assert workspace.run().returncode == 0
    assert open_and_closed(workspace) == ([], [line["Exception"]])


def test_a_row_without_a_key_stays_open_beside_an_equal_row_that_was_sent_before(loads):
    loads.drop_loads("L1,Essen,2", "L2,Ulm,3", ",Ulm,3", "Total,,8")
    (line,) = sheet(loads)
    loads.drop_loads("L1,Essen,2", "L2,Ulm,3", "Total,,5")
    assert open_and_closed(loads) == ([line["Exception"]], []), "that row is another one"


def test_another_file_of_the_same_name_closes_no_exception_without_a_key(loads):
    loads.drop_loads("L1,Essen,2", ",Ulm,3", "Total,,6")
    first = open_and_closed(loads)[0]
    assert len(first) == 2, "the row without a key, and the total"
    loads.drop_loads("L7,Essen,2", "L8,Bonn,3", "Total,,5")
    assert open_and_closed(loads) == (first, [])


def fix_book(workspace, name="*"):
    (path,) = workspace.reports()[-1].glob(f"{name}.fix.xlsx")
    return FixBook(path)


def test_problems_without_a_key_are_closed_by_their_fix_file_whatever_its_name_and_order(loads):
    loads.drop_loads("L1,Essen,2", ",Ulm,3", "Total,,6")
    first = open_and_closed(loads)[0]
    assert len(first) == 2, "the row without a key, and the total"
    book = fix_book(loads)
    assert book.repair({"6": "5"}) == 1
    (keyless,) = [row for row in book.sheets()[0].iter_rows(min_row=2) if "Ulm" in [cell.value for cell in row]]
    keyless[1].value = "L2"
    book.rearrange(lambda rows: [row for one in reversed(rows) for row in (None, one)])
    book.save(loads.inbox / "Kopie von answer.xlsx")
    done = loads.run()
    assert done.returncode == 0, done.stderr
    still_open, closed = open_and_closed(loads)
    assert (still_open, sorted(closed)) == ([], sorted(first))
    assert (loads.run_json()["entries"], loads.run_json()["balance"]["balances"]) == ({"accepted": 1}, True)
    assert len(list(loads.outbox.rglob("*.fix.xlsx"))) == 1, "nothing is left to fix"


@pytest.mark.parametrize("corrected_first", [True, False])
def test_of_a_fix_file_and_its_corrected_copy_in_one_inbox_each_row_has_its_fate(loads, corrected_first):
    loads.drop_loads("L1,Essen,2", "L2,,3", "Total,,5")
    (first,) = sheet(loads)
    book, names = fix_book(loads), ("a.xlsx", "b.xlsx")
    book.save(loads.inbox / names[corrected_first])
    (row,) = [row for row in book.sheets()[0].iter_rows(min_row=2) if "L2" in [cell.value for cell in row]]
    row[2].value = "Ulm"
    book.save(loads.inbox / names[not corrected_first])
    for name, age in zip(names, (20, 10), strict=True):  # the oldest is read first
        os.utime(loads.inbox / name, (time.time() - age,) * 2)
    done = loads.run()
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("✓ 1 document that needed attention no longer does · 1 accepted · ")
    assert loads.states() == {"L1": "accepted", "L2": "invalid" if corrected_first else "accepted"}
    assert set(open_and_closed(loads)[1]) >= {first["Exception"]}
    assert open_and_closed(loads)[0] == []
    if corrected_first:
        (line,) = loads.results("b.xlsx")
        assert "This version is invalid; the version of L2 in a.xlsx is valid and is sent" in line["problem"]
    assert loads.run().returncode == 0, "nothing waits, nothing is sent twice"
    assert loads.ask("select count(*) from attempts") == [(2,)]


@pytest.fixture
def returned(workspace, tmp_path):
    """A workspace in which an order was wrong, and its fix file was accepted; with the fix file as it was."""
    workspace.use_small("orders")
    workspace.drop_bad = lambda: workspace.drop("orders.csv", "Order,City,Weight\nA-1,Bonn,1\n,Ulm,x\nA-3,Bonn,x\n")
    workspace.drop_bad()
    workspace.run()
    book = fix_book(workspace)
    workspace.uncorrected = book.path.read_bytes()
    assert book.repair({"x": "2"}) == 2
    (keyless,) = [row for row in book.sheets()[0].iter_rows(min_row=2) if "Ulm" in [cell.value for cell in row]]
    keyless[1].value = "A-2"
    book.save(workspace.inbox / "mended.xlsx")
    assert workspace.run().returncode == 0
    return workspace


def test_a_fix_file_that_comes_uncorrected_after_its_corrected_copy_needs_nobody(returned):
    """Also a record whose identifier was missing. What each row is, its results say."""
    for _ in range(2):
        returned.drop("late.xlsx", returned.uncorrected)
        done = returned.run()
        assert done.returncode == 0, done.stdout
        assert done.stdout.startswith("✓ 2 documents that needed attention no longer do · ")
        assert open_and_closed(returned)[0] == []
        rows = returned.results("late.xlsx")
        assert [row["outcome"] for row in rows] == ["invalid", "invalid"]
        assert "the exchange has the version of A-3 that was accepted in run" in rows[1]["problem"]
        assert list(returned.reports()[-1].glob("*.fix.*")) == []
    assert returned.run().returncode == 0


def test_a_bad_file_that_comes_again_stays_one_exception_for_a_record_whatever_fix_files_follow(returned):
    """Those of its first version: as it came it says nothing new; with another wrong value it is the latest version of the same record."""
    returned.drop_bad()
    assert returned.run().returncode == 1
    still_open = open_and_closed(returned)[0]
    assert len(still_open) == 2
    returned.drop("late.xlsx", returned.uncorrected)
    done = returned.run()
    assert done.stdout.startswith("! 2 documents that needed attention no longer do · 2 exceptions of earlier runs are")
    assert open_and_closed(returned)[0] == still_open, "they are those of the bad file"
    path = returned.drop("late.xlsx", returned.uncorrected)
    book = FixBook(path)
    book.repair({"x": "y"})
    book.save()
    assert returned.run().returncode == 65
    lines = [line for line in sheet(returned) if line["Key"] == "A-3"]
    assert len(lines) == 1
    assert '"y" is not a number' in lines[0]["What is wrong"]


def test_a_fix_file_that_two_people_mend_in_different_ways_is_one_exception(returned):
    """The first is accepted; the others differ from it, and from each other."""
    for name, weight in (("second", "3"), ("third", "4")):
        book = FixBook(returned.drop(f"{name}.xlsx", returned.uncorrected))
        book.repair({"x": weight})
        book.save()
        assert returned.run().returncode == 1
        (line,) = [line for line in sheet(returned) if line["Key"] == "A-3"]
        assert f"total_weight 2 -> {weight}" in line["What is wrong"]
    assert line["Times"] == 2


def test_what_a_later_file_of_the_same_run_corrects_needs_nobody_and_every_row_has_its_fate(workspace):
    workspace.use_small("orders")
    done = workspace.nights(("orders_1: A-1,Bonn,1 | A-2,Ulm,x", "orders_2: A-2,Ulm,2"))
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("✓ 1 document that needed attention no longer does · 2 accepted · ")
    told = workspace.run_json()
    assert (told["entries"], told["settled"]) == ({"accepted": 2, "invalid": 1}, {"not sent: invalid": 1})
    assert (told["needs_someone"], told["headline"]["todo"]) == ({"entries": 0, "rows": 0, "first": ""}, [])
    assert told["balance"]["rows"] == {"accepted": 2, "invalid": 1}
    assert list(workspace.outbox.rglob("*.fix.*")) == []
    assert [list(row.values())[1] for row in workspace.results("orders_1.csv")] == ["accepted", "invalid"]
    assert open_and_closed(workspace)[0] == []


def test_a_record_that_a_later_file_of_the_same_run_has_wrong_again_is_to_be_corrected_once(workspace):
    workspace.use_small("orders")
    done = workspace.nights(("orders_1: A-1,Bonn,1 | A-2,Ulm,x", "orders_2: A-2,Ulm,x"))
    assert (done.returncode, workspace.run_json()["needs_someone"]["entries"]) == (1, 1)
    assert [path.name for path in workspace.outbox.rglob("*.fix.*")] == ["orders_2.fix.xlsx"]


def test_a_run_reported_again_still_counts_what_a_later_run_corrected(workspace):
    workspace.use_small("orders")
    assert workspace.nights("orders_1: A-2,Ulm,x", "orders_2: A-2,Ulm,2").returncode == 0
    first, _ = workspace.reports()
    again = workspace.command("report", "--run", first.name)
    assert (again.returncode, again.stdout[:40]) == (1, "✗ 1 of 1 document needs attention · 0 ac")
    assert (first / "orders_1.fix.xlsx").exists()


def test_an_old_export_whose_values_are_explained_needs_nobody_when_it_comes_again(workspace):
    workspace.use_small("orders", changed="update")

    def drop(name, weight):
        done = workspace.nights(f"orders_{name}: A-1,Bonn,{weight}")
        return done.returncode, workspace.run_json()["entries"]

    assert drop("export", 1) == (0, {"accepted": 1})
    assert drop("correction", 2) == (0, {"accepted": 1})
    assert drop("export", 1) == (1, {"held": 1})
    write_into(workspace.reports()[-1], {"Status": "Explained", "Owner": "Ann", "Comment": "an old export"})
    assert [drop("export", 1) for _ in range(2)] == [(0, {"held": 1})] * 2
    assert sheet(workspace) == []
    assert {line["Closed because"] for line in sheet(workspace, "Closed")} == {"explained"}
    shown = workspace.command("show", "A-1").stdout
    assert re.search(r"^  closed   in run .*: explained$", shown, re.MULTILINE), "what became of it"
    assert re.search(r"^  remarks  .*Ann.*an old export", shown, re.MULTILINE), "and who says why"
    assert drop("export", 3) == (0, {"accepted": 1}), "other values are a change"
    assert drop("correction", 2) == (1, {"held": 1}), "nobody has explained these"


def opened(workspace, *heads):
    """The open exceptions, of each what stands under these headings."""
    return [tuple(line[head] for head in heads) for line in sheet(workspace)]


@pytest.mark.parametrize("held_before", [False, True])
def test_an_update_that_a_newer_order_overtook_stays_open_until_somebody_decides(workspace, held_before):
    workspace.use_small("orders", "order-updates")
    files = ("updates: A-1,Essen", "orders: A-1,Bonn,5")
    assert workspace.nights(*(files if held_before else [files])).returncode == 1
    found = dict(workspace.ask("select operation, state from entries"))
    assert found == {"order.create": "accepted", "order.update": "held"}
    workspace.run()
    assert opened(workspace, "Key", "Status") == [("A-1", "open")]
    assert workspace.command("retry", "A-1").returncode == 0
    assert workspace.run().returncode == 0
    assert sheet(workspace) == []
    assert dict(workspace.ask("select operation, state from entries"))["order.update"] == "accepted"


@pytest.mark.parametrize("later", ["orders3: A-1,Bonn,8", "deletes: A-1"], ids=["a whole version", "it is deleted"])
def test_a_wrong_version_is_not_closed_by_an_update_of_other_fields(workspace, later):
    workspace.use_small("orders", "order-updates", "order-deletes", changed="update")
    workspace.nights("orders: A-1,Bonn,5", "orders2: A-1,Bonn,-7", "updates: A-1,Essen")
    assert opened(workspace, "Key", "Status") == [("A-1", "open")], "its weight was never sent"
    assert workspace.nights(later).returncode == 0
    assert sheet(workspace) == []


def test_an_update_that_could_not_be_built_is_not_closed_by_one_of_other_fields(workspace):
    workspace.use_small("orders", "order-updates")
    fields = "  delivery_city: {col: city}\n"
    workspace.edit("mappings/order-updates.yaml", fields, f"{fields}  total_weight: {{col: weight}}\n")
    column = "text}\n  weight: {label: Weight, type: decimal}\nconstants"
    workspace.edit("mappings/order-updates.yaml", "text, required: true}\nconstants", column)
    workspace.nights("orders: A-1,Bonn,5")
    for number, (row, ends) in enumerate(
        (("A-1,,heavy", [("A-1", "open")]), ("A-1,Essen,", [("A-1", "open")]), ("A-1,,7", []))
    ):
        workspace.drop(f"updates{number}.csv", f"Order,City,Weight\n{row}\n")
        workspace.run()
        assert opened(workspace, "Key", "Status") == ends, "open until its weight was sent"


@pytest.mark.parametrize("weight", ["x", -1])
def test_a_wrong_order_stays_open_if_another_sender_has_the_same_number_right(workspace, weight):
    """Also if its row could not be read at all. A dry run foresees it."""
    workspace.use_senders("first", "second", changed="update")
    workspace.drop_rows(f"first: A-1,Bonn,{weight}", "second: A-1,Ulm,1")
    assert [workspace.run(*words).returncode for words in (["--dry-run"], [])] == [1, 1]
    assert opened(workspace, "Key", "File") == [("A-1", "first.csv")]
    assert (workspace.reports()[-1] / "first.fix.xlsx").exists()
    workspace.nights("first: A-1,Bonn,2")
    assert ("not sent: held",) in opened(workspace, "Outcome"), "its number is taken"


def test_a_fix_file_names_no_file_of_another_sender(workspace):
    workspace.use_senders("first", "second", changed="update")
    assert workspace.nights(("first: A-1,Bonn,1", "second: A-1,Bonn,x")).returncode == 1
    book = openpyxl.load_workbook(fix_book(workspace, "second").path)
    texts = {str(cell.value) for page in book for row in page.iter_rows() for cell in row}
    assert any("second.csv" in text for text in texts)
    assert not any("first.csv" in text for text in texts)


def test_a_wrong_order_is_closed_by_a_right_one_of_its_sender_in_another_layout(workspace):
    workspace.use_senders("first", changed="update")
    workspace.add("orders")
    assert workspace.nights("first: A-1,Bonn,x | A-2,Bonn,1").returncode == 1
    assert workspace.nights("orders: A-1,Bonn,1").returncode == 0
    assert sheet(workspace) == []


def test_a_wrong_order_is_to_be_fixed_although_an_update_of_it_waits(workspace):
    """The update, which may be of another party, waits for the very order. Each is an exception."""
    workspace.use_small("orders", "order-updates")
    done = workspace.nights(("orders: A-1,Bonn,x", "updates: A-1,Ulm"))
    assert done.stdout.startswith("✗ 2 of 2 documents need attention · 0 accepted · ")
    assert sorted(opened(workspace, "File")) == [("orders.csv",), ("updates.csv",)]
    assert fix_book(workspace, "orders").repair({"x": 1}) == 1


def test_orders_of_senders_with_the_same_number_stay_open_whatever_the_others_send(workspace):
    workspace.use_senders("first", "second", "third", changed="update")
    assert workspace.nights(("first: A-1,Bonn,1", "second: A-1,Bonn,2", "third: A-1,Bonn,3")).returncode == 1
    for file in ("first2: A-1,Ulm,9", "second: A-1,Bonn,2"):  # the same order again is the same exception
        assert sorted(opened(workspace, "File")) == [("second.csv",), ("third.csv",)]
        workspace.nights(file)
    assert len(sheet(workspace)) == 2
    assert workspace.command("retry", "--file", "second.csv").returncode == 0
    workspace.run()
    assert opened(workspace, "File") == [("third.csv",)], "it was sent after all"


def test_a_row_that_comes_back_in_a_fix_file_as_it_was_closes_no_exception_of_a_newer_one(workspace):
    """A person released it; then the sender wrote other values, which were wrong, and only returned the old fix file."""
    workspace.use_small("orders")
    assert workspace.nights("orders: A-1,Bonn,5", "orders: A-1,Ulm,5").returncode == 1
    fixes = fix_book(workspace)
    workspace.nights("retry A-1", "orders: A-1,Kiel,x")
    fixes.save(workspace.inbox / "late.xlsx")
    done = workspace.run()
    assert done.stdout.startswith("! "), done.stdout
    assert opened(workspace, "Source value") == [("x",)]


def test_an_old_file_that_comes_again_closes_no_exception_of_a_newer_one(workspace):
    workspace.use_small("orders", changed="update")
    assert workspace.nights("orders: A-1,Bonn,5", "orders2: A-1,Bonn,-7").returncode == 65
    workspace.nights("orders: A-1,Bonn,5")
    assert opened(workspace, "Key", "Status") == [("A-1", "open")], "what the newer file wanted was never sent"
    workspace.drop("orders3.csv", "Order,City,Weight\r\nA-1,Bonn,5\r\n")
    assert workspace.run().returncode == 0
    assert sheet(workspace) == [], "a file written anew says that the old values are right"


def test_two_old_files_that_come_again_close_no_exception_of_a_newer_one(workspace):
    """The older one is wrong as well, and was corrected by the other one in its time."""
    workspace.use_small("orders")
    old = ("orders_wrong: A-1,Bonn,x", "orders_right: A-1,Bonn,5")
    workspace.nights(*old, "orders_new: A-1,Bonn,y", *old)
    assert opened(workspace, "Key") == [("A-1",)], "what the newest file wanted was never sent"


def test_an_old_file_that_repeats_what_a_person_released_closes_no_exception_of_a_newer_one(workspace):
    """The newer file waits for what the person released, and the old file comes again beside it."""
    workspace.use_small("orders")
    workspace.nights("orders_1: A-1,Bonn,1", "orders_2: A-1,Bonn,2", "retry A-1")
    assert workspace.nights(("orders_3: A-1,Bonn,3", "orders_2: A-1,Bonn,2")).returncode == 1
    for _ in range(2):
        assert opened(workspace, "Key") == [("A-1",)], "the weight of 3 was never sent"
        workspace.run()


def test_what_a_person_sends_again_and_the_exchange_refuses_again_still_needs_someone(workspace):
    """Its file came again meanwhile, and then its fix file as it was: that is one exception."""
    workspace.use_small("orders", "order-updates")
    workspace.nights("updates: A-1,Ulm", "updates2: A-1,Ulm")
    for _ in range(2):
        workspace.command("retry", "A-1")
        done = workspace.run()
        assert (done.returncode, done.stdout[:1]) == (1, "✗"), "the order is still not known"
    workspace.command("retry", "A-1")
    fix_book(workspace).save(workspace.inbox / "late.xlsx")
    assert workspace.run().returncode == 1
    assert opened(workspace, "Key", "Outcome") == [("A-1", "refused")]


def test_what_a_person_sends_again_and_the_exchange_refuses_needs_someone_although_a_newer_file_is_wrong(workspace):
    workspace.use_small("orders", "order-updates")
    workspace.nights("updates: A-1,Ulm", "updates2: A-1,", "retry A-1")
    assert workspace.run().returncode == 1
    assert opened(workspace, "Key", "Outcome") == [("A-1", "refused")]


def test_a_delete_closes_no_exception_of_a_newer_file_of_the_same_run(workspace):
    """Deletes are planned last, whatever their file is."""
    workspace.use_small("orders", "order-deletes")
    workspace.nights("orders: A-1,Bonn,1", "deletes: A-1")
    assert workspace.nights(("deletes2: A-1 |", "orders2: A-1,Bonn,x")).returncode == 1
    assert opened(workspace, "Source value") == [("x",)]


def test_a_held_delete_stays_open_whatever_updates_its_order(workspace):
    workspace.use_small("orders", "order-updates", "order-deletes")
    workspace.nights(("deletes: A-1", "orders: A-1,Bonn,1"), "updates: A-1,Ulm")
    assert opened(workspace, "Operation") == [("order.delete",)]


def test_an_update_that_a_person_sent_again_is_not_closed_by_a_delete_before_that(workspace):
    workspace.use_small("orders", "order-updates", "order-deletes")
    workspace.nights("updates: A-1,Ulm", "orders: A-1,Bonn,1", "deletes: A-1", "retry A-1")
    assert workspace.run().returncode == 1
    assert opened(workspace, "Operation", "Outcome") == [("order.update", "refused")]


def test_two_exceptions_of_a_record_become_one_when_a_newer_document_is_a_version_of_both(workspace):
    """One was held because another sender has the number; a person sent it."""
    workspace.use_senders("first", "second", changed="update")
    workspace.nights("first: A-1,Bonn,1", "second: A-1,Bonn,x", "second2: A-1,Bonn,2")
    assert len(sheet(workspace)) == 2
    workspace.nights("retry A-1", "second3: A-1,Bonn,y")
    assert opened(workspace, "Source value") == [("y",)]


@pytest.fixture
def narrow(workspace, tmp_path):
    """Orders of two senders and deletes, at an exchange that takes no text of more than 40 letters."""
    workspace.use_senders("first", "second", changed="update")
    workspace.add("order-deletes")
    with misbehaving(tmp_path, text_length_max=40) as served:
        workspace.variables |= {"LOADSHEET_EXCHANGE": served.url}
        yield workspace


LONG = "Bonn" * 11


def test_an_order_that_is_held_for_its_number_is_not_closed_by_an_untouched_fix_file_after_it(narrow):
    """That file is as old as the row that it had to correct: what closed that closes nothing newer."""
    narrow.nights(f"second: A-1,{LONG},1")
    fixes = fix_book(narrow)
    narrow.nights("second2: A-1,Bonn,1", "deletes: A-1", "first: A-1,Bonn,1", "second3: A-1,Bonn,3")
    fixes.save(narrow.inbox / "late.xlsx")
    narrow.run()
    assert ("second3.csv", "not sent: held") in opened(narrow, "File", "Outcome")


def test_what_is_refused_after_a_delete_is_not_closed_by_its_fix_file_as_it_was(narrow):
    """A person sent it after the delete, which its file is older than."""
    narrow.nights("first: A-1,Bonn,1", f"second: A-1,{LONG},2", "deletes: A-1", "retry A-1")
    assert narrow.run().returncode == 1
    fix_book(narrow).save(narrow.inbox / "late.xlsx")
    assert narrow.run().returncode == 1
    assert opened(narrow, "Key", "Mapping") == [("A-1", "second")]


@pytest.mark.parametrize("rows", ["A-1,{},1 |", "A-1,{},2"], ids=["same", "other"])
def test_a_document_that_waits_for_an_outcome_needs_someone_in_its_own_file(workspace, tmp_path, rows):
    """Refused after a lost answer, the outcome of the first stays unknown."""
    workspace.use_small("orders")
    lost = {"fault": "reset_before_effect", "operation": "order.create", "at": (1,)}
    with misbehaving(tmp_path, lost, text_length_max=40) as served:
        workspace.variables |= {"LOADSHEET_EXCHANGE": served.url}
        done = workspace.nights(f"orders: A-1,{LONG},1", f"orders2: {rows.format(LONG)}")
    assert done.stdout.startswith("✗ 2 of 2 documents need attention"), done.stdout
    assert len(sheet(workspace)) == 1


def test_a_corrected_row_that_is_held_is_not_closed_by_its_fix_file_as_it_was(workspace):
    """Another order with its number was accepted in the same run: a person decides which of them counts."""
    workspace.use_small("orders")
    workspace.nights("orders: A-1,Bonn,x")
    fixes = fix_book(workspace)
    untouched = fixes.path.read_bytes()
    fixes.repair({"x": 2})
    workspace.drop_rows("orders2: A-1,Bonn,1")
    fixes.save(workspace.inbox / "mended.xlsx")
    assert workspace.run().returncode == 1
    workspace.drop("late.xlsx", untouched)
    workspace.run()
    assert opened(workspace, "Outcome") == [("not sent: held",)]


@pytest.mark.parametrize("newer", ["file", "fix file"])
def test_an_old_file_again_needs_someone_as_long_as_what_came_after_it_is_wrong_too(workspace, newer):
    """Its document is not the newest, but the only one of the record in its run: "no longer needs attention" was not true."""
    workspace.use_small("orders")
    workspace.nights("orders: A-1,Bonn,x")
    if newer == "file":
        workspace.drop_rows("orders2: A-1,Bonn,y")
    else:
        fixes = fix_book(workspace)
        fixes.repair({"x": "y"})
        fixes.save(workspace.inbox / "mended.xlsx")
    workspace.run()
    done = workspace.nights("orders: A-1,Bonn,x")
    assert (done.returncode, done.stdout.split(" · ")[0]) == (65, "✗ 1 of 1 document needs attention"), done.stdout
    assert "still open" not in done.stdout
    assert opened(workspace, "Source value") == [("y",)]

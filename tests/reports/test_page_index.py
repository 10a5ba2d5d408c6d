"""`index.html` tells the runs, newest first, and stays cheap and calm whatever lies in the outbox."""

import json
import re
import shutil
from html import unescape
from xml.etree import ElementTree as ET

import pytest
from ledgers import ledger_in
from run_with_every_outcome import every_outcome
from shared_ledger import Fleet, a_fleet, joined, shared_settings

from loadsheet.ledger import ExceptionStatus
from loadsheet.reconcile import Exceptions
from loadsheet.reports.html_pages import Layer, columns, fleet_shown, write_index
from loadsheet.settings import Settings


def read_index(outbox):
    html = (outbox / "index.html").read_text(encoding="utf-8")
    body = html.split('class="runs"', 1)[1]
    runs = re.findall(r'<tr>\s*<th scope="row">(.*?)</th>(.*?)</tr>', body, re.DOTALL)
    return html, {
        text(name): [text(cell) for cell in re.findall(r"<td[^>]*>(.*?)</td>", rest, re.DOTALL)] for name, rest in runs
    }


def text(html):
    return " ".join(unescape(re.sub(r"<[^>]+>", " ", html)).split())


def summary(name, **more):
    given = {
        "run": name,
        "started_at": f"{name[:10]}T02:15:00.000Z",
        "exit_code": 0,
        "balance": {"balances": True, "read": 12, "rows": {}, "faults": []},
        "verdicts": {"matched": 4, "refused": 2},
        "needs_someone": {"entries": 2, "rows": 4, "first": "A"},
        "headline": {"tone": "note", "text": "2 of 6 documents need attention", "details": ["4 accepted"]},
        "reports": [
            "run.html",
            "reconciliation.xlsx",
            "a b.csv.results.csv",
            "a b.fix.xlsx",
            "ack/a b.csv.ack.json",
            "run.json",
        ],
    }
    return {**given, **more}


def kept(outbox, name, **more):
    (outbox / name).mkdir(parents=True)
    (outbox / name / "run.json").write_text(json.dumps(summary(name, **more)), encoding="utf-8")


@pytest.fixture
def queries(tmp_path):
    (tmp_path / "state").mkdir()
    with ledger_in(tmp_path / "state") as ledger:
        ledger.begin_run()
        yield ledger.queries


def index(outbox, queries, *, runs_max=100, **more):
    settings = Settings(outbox=outbox, index_runs_max=runs_max)
    write_index(settings, queries, queries.runs(1)[0], Exceptions(), **more)
    return read_index(outbox)


def test_runs_are_told_newest_first_whatever_their_numbers(tmp_path, queries):
    for name in ("2026-03-04-02", "2026-03-04-10", "2025-12-31-01", "2026-03-04-9"):
        kept(tmp_path / "out", name)
    (tmp_path / "out" / "2026-03-04").mkdir()
    (tmp_path / "out" / "aside").mkdir()
    _, runs = index(tmp_path / "out", queries)
    assert list(runs) == ["2026-03-04-10", "2026-03-04-9", "2026-03-04-02", "2025-12-31-01"]
    began, verdict, rows, documents, agree, need, code, reports = runs["2026-03-04-10"]
    assert (began, verdict, rows, documents, agree, need, code) == (
        *("2026-03-04 02:15:00", "2 of 6 documents need attention", "12", "6", "4", "2", "0 clean"),
    )
    assert reports == "workbook 3 more a b.csv.results.csv a b.fix.xlsx run.json"


def test_the_reports_of_whole_days_are_linked_if_there_are_any(tmp_path, queries):
    for name in ("2026-03-04-01", "2026-03-05-01"):
        kept(tmp_path / "out", name)
        (tmp_path / "out" / name[:10]).mkdir()
    (tmp_path / "out" / "2026-03-04" / "run.html").touch()
    html, _ = index(tmp_path / "out", queries)
    assert html.count("Whole days") == 1
    assert '"2026-03-04/run.html"' in html
    assert '"2026-03-05/run.html"' not in html


def test_links_lead_to_the_files(tmp_path, queries):
    kept(tmp_path / "out", "2026-03-04-01")
    html, _ = index(tmp_path / "out", queries)
    assert set(re.findall(r'href="(2026[^"]*)"', html)) == {
        "2026-03-04-01/run.html",
        "2026-03-04-01/reconciliation.xlsx",
        "2026-03-04-01/a%20b.csv.results.csv",
        "2026-03-04-01/a%20b.fix.xlsx",
        "2026-03-04-01/run.json",
    }


def test_runs_of_older_versions_show_their_exit_code_in_words(tmp_path, queries):
    out = tmp_path / "out"
    kept(out, "2026-03-04-01", headline={})
    kept(out, "2026-03-04-02", headline={}, exit_code=75)
    html, runs = index(out, queries)
    assert [line[1] for line in runs.values()] == ["stopped early; try again", "clean"]
    assert "Latest run 2026-03-04-02: stopped early; try again" in html


def test_deleted_and_damaged_folders_are_no_error(tmp_path, queries):
    out = tmp_path / "out"
    for number in range(1, 5):
        kept(out, f"2026-03-04-0{number}")
    index(out, queries)
    shutil.rmtree(out / "2026-03-04-01")
    (out / "2026-03-04-02" / "run.json").unlink()
    (out / "2026-03-04-03" / "run.json").write_text('{"run": 7}', encoding="utf-8")
    _, runs = index(out, queries)
    assert list(runs) == ["2026-03-04-04", "2026-03-04-03", "2026-03-04-02"]
    assert runs["2026-03-04-02"][1].startswith("its run.json is missing")
    assert runs["2026-03-04-03"][1].startswith("its run.json")


def test_of_thousands_of_runs_the_newest_are_read_and_the_others_counted(tmp_path, queries):
    out = tmp_path / "out"
    for number in range(40):
        kept(out, f"2026-03-04-{number:02}")
    for number in range(3000):
        (out / f"2025-01-01-{number:04}").mkdir()
    html, runs = index(out, queries, runs_max=40)
    assert len(runs) == 40
    assert "and 3,000 older runs" in html
    assert html.count("results.csv</a>") == 20
    assert html.count('class="chart columns"') == 1
    assert len(html.encode()) < 150_000


def test_the_columns_of_a_chart_are_as_high_as_their_counts():
    layers = [Layer("agree", "good", [30, 0, 9]), Layer("need attention", "bad", [4, 20, 0])]
    chart = ET.fromstring(columns("<Runs>", ["a&b", "c", "d"], layers))
    assert chart.get("aria-label") == "<Runs>"
    texts = [text.text for text in chart.iter("text")]
    assert texts == ["need attention", "agree", "0", "10", "20", "30", "40", "a&b", "c", "d"]
    heights = [float(line.get("y1")) for line in chart.iter("line")]
    ten = heights[0] - heights[1]
    legend, bars = list(chart.iter("rect"))[:2], list(chart.iter("rect"))[2:]
    assert [one.get("class") for one in legend] == ["bad", "good"]
    drawn = [
        (bar.get("class"), (heights[0] - float(bar.get("y"))) / ten * 10, float(bar.get("height")) / ten * 10)
        for bar in bars
    ]
    expected = [("good", 30, 30), ("bad", 34, 4), ("bad", 20, 20), ("good", 9, 9)]  # tone, upper end, height
    assert drawn == [
        (tone, pytest.approx(end, abs=0.1), pytest.approx(height, abs=0.1)) for tone, end, height in expected
    ]
    assert columns("none", ["a"], [Layer("agree", "good", [0])]) == ""


def test_a_young_outbox_has_an_index_too(tmp_path, queries):
    (tmp_path / "out").mkdir()
    html, runs = index(tmp_path / "out", queries)
    assert runs == {}
    assert "No run yet" in html


def test_open_exceptions_lead_to_their_place(tmp_path):
    (tmp_path / "state").mkdir()
    with every_outcome(tmp_path / "state") as held:
        report = held.write(tmp_path / "out")
    html, _ = read_index(tmp_path / "out")
    assert "Open exceptions: 5" in html
    links = re.findall(rf'href="{report.folder.name}/run.html#([^"]+)"', html)
    assert set(links) == {"A-00002", "A-00003", "A-00004", "A-00005", "A-00020"}
    page = (report.folder / "run.html").read_text(encoding="utf-8")
    assert all(f'id="{link}"' in page for link in links)


def test_reports_written_again_tell_the_exceptions_of_now(tmp_path):
    (tmp_path / "state").mkdir()
    with every_outcome(tmp_path / "state") as held:
        held.write(tmp_path / "out")
        newest = held.ledger.begin_run()
        assert newest.id > held.run.id
        stale = Exceptions((ExceptionStatus(1, held.run.name, held.run.started_at, "refused"),))
        write_index(Settings(outbox=tmp_path / "out"), held.ledger.queries, held.run, stale)
    assert "Open exceptions: 0" in read_index(tmp_path / "out")[0]


# the fleet


def fleet_in(html):
    """The section of the fleet, as text; empty if there is none."""
    _, found, rest = html.partition('aria-labelledby="fleet">')
    return text(rest.partition("</section>")[0]) if found else ""


def test_a_shared_ledger_shows_who_works_what_waits_and_what_was_taken_over(tmp_path, queries):
    kept(tmp_path, "2026-03-04-01")
    html, _ = index(tmp_path, queries, fleet=fleet_shown(a_fleet(), "acme"))
    section = fleet_in(html)
    assert section.startswith("Workers that share the ledger: 1 As of 2026-03-04 02:20:00 (UTC):")
    assert "in the queue: 12, the oldest for 7 min under way: 2" in section
    assert "taken over within a day: 1" in section
    assert "alfa-7-aa lives 2026-03-04 02:19:59 run (files) 1,204" in section
    assert "beta-9-bb silent" in section
    assert '<a href="#fleet">' in html
    index(tmp_path, queries)
    assert fleet_in((tmp_path / "index.html").read_text(encoding="utf-8")) == ""


def test_the_page_of_a_shipper_tells_nothing_of_others(tmp_path, queries):
    kept(tmp_path, "2026-03-04-01")
    html, _ = index(tmp_path, queries, fleet=fleet_shown(a_fleet(), "bolt"))
    section = fleet_in(html)
    assert "acme" not in section
    assert "other work" in section
    assert "in the queue: 0 under way: 1 taken over within a day: 0" in section


def test_of_a_large_fleet_some_workers_are_shown(tmp_path, queries):
    kept(tmp_path, "2026-03-04-01")
    (one, _) = a_fleet().workers
    many = a_fleet(workers=[one._replace(name=f"w-{number}") for number in range(60)])
    html, _ = index(tmp_path, queries, fleet=fleet_shown(many, ""))
    assert fleet_in(html).startswith("Workers that share the ledger: 60 ")
    assert "and 35 more." in fleet_in(html)


def test_the_reports_of_a_shared_ledger_have_it_and_those_of_a_file_do_not(tmp_path):
    settings = shared_settings(shipper="acme")
    with joined(settings) as connection:
        Fleet(connection).worker("alfa-1-aa", doing=["acme calls 17"])
    for number, more in enumerate(
        ({}, {"database": settings.database, "database_schema": settings.cluster.database_schema})
    ):
        folder = tmp_path / str(number)
        (folder / "state").mkdir(parents=True)
        with every_outcome(folder / "state") as held:
            held.write(folder / "out", shipper="acme", **more)
        section = fleet_in((folder / "out" / "index.html").read_text(encoding="utf-8"))
        assert ("alfa-1-aa" in section) == bool(more)


def test_reports_are_written_while_the_fleet_cannot_be_seen(tmp_path):
    (tmp_path / "state").mkdir()
    with every_outcome(tmp_path / "state") as held:
        held.write(tmp_path / "out", database=f"postgresql://me@/there?host={tmp_path}")
    assert fleet_in((tmp_path / "out" / "index.html").read_text(encoding="utf-8")) == ""

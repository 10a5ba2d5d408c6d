"""`index.html` lists the runs, newest first, and stays small whatever lies in the outbox."""

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
from loadsheet.reports.html_pages import Layer, cluster_as_shown, stacked_columns, write_index
from loadsheet.settings import Settings


def page_of(outbox):
    return (outbox / "index.html").read_text(encoding="utf-8")


def text(html):
    return " ".join(unescape(re.sub(r"<[^>]+>", " ", html)).split())


def runs_in(html):
    """The cells of each run's line, by its name."""
    lines = re.findall(r'<tr>\s*<th scope="row">(.*?)</th>(.*?)</tr>', html.split('class="runs"', 1)[1], re.DOTALL)
    return {
        text(name): [text(cell) for cell in re.findall(r"<td[^>]*>(.*?)</td>", rest, re.DOTALL)] for name, rest in lines
    }


def summary(name, **more):
    files = (
        "run.html",
        "reconciliation.xlsx",
        "a b.csv.results.csv",
        "a b.fix.xlsx",
        "ack/a b.csv.ack.json",
        "run.json",
    )
    given = {
        "run": name,
        "started_at": f"{name[:10]}T02:15:00.000Z",
        "exit_code": 0,
        "balance": {"balances": True, "read": 12, "rows": {}, "faults": []},
        "verdicts": {"matched": 4, "refused": 2},
        "needs_someone": {"entries": 2, "rows": 4, "first": "A"},
        "headline": {"tone": "note", "text": "2 of 6 documents need attention", "details": ["4 accepted"]},
        "reports": files,
    }
    return {**given, **more}


def kept(outbox, name, **more):
    """Put the reports of a run into the outbox."""
    (outbox / name).mkdir(parents=True)
    (outbox / name / "run.json").write_text(json.dumps(summary(name, **more)), encoding="utf-8")


@pytest.fixture
def index(tmp_path):
    """Writes the index of an outbox and returns the page."""
    (tmp_path / "state").mkdir()
    with ledger_in(tmp_path / "state") as ledger:
        ledger.begin_run()

        def write(outbox, *, runs_max=100, **more):
            settings = Settings(outbox=outbox, index_runs_max=runs_max)
            write_index(settings, ledger.queries, ledger.queries.runs(1)[0], Exceptions(), **more)
            return page_of(outbox)

        yield write


def test_runs_are_listed_newest_first_whatever_their_numbers_with_links_to_their_files(tmp_path, index):
    out = tmp_path / "out"
    for name in ("2026-03-04-02", "2026-03-04-10", "2025-12-31-01", "2026-03-04-9"):
        kept(out, name)
    (out / "2026-03-04").mkdir()
    (out / "aside").mkdir()
    html = index(out)
    runs = runs_in(html)
    assert list(runs) == ["2026-03-04-10", "2026-03-04-9", "2026-03-04-02", "2025-12-31-01"]
    *line, reports = runs["2026-03-04-10"]
    assert line == ["2026-03-04 02:15:00", "2 of 6 documents need attention", "12", "6", "4", "2", "0 clean"]
    assert reports == "workbook 3 more a b.csv.results.csv a b.fix.xlsx run.json"
    files = ("run.html", "reconciliation.xlsx", "a%20b.csv.results.csv", "a%20b.fix.xlsx", "run.json")
    links = {f"2025-12-31-01/{name}" for name in files}
    assert set(re.findall(r'href="(2025[^"]*)"', html)) == links


def test_the_reports_of_whole_days_are_linked_if_there_are_any(tmp_path, index):
    for name in ("2026-03-04-01", "2026-03-05-01"):
        kept(tmp_path / "out", name)
        (tmp_path / "out" / name[:10]).mkdir()
    (tmp_path / "out" / "2026-03-04" / "run.html").touch()
    html = index(tmp_path / "out")
    assert html.count("Whole days") == 1
    assert ('"2026-03-04/run.html"' in html, '"2026-03-05/run.html"' in html) == (True, False)


def test_runs_of_older_versions_and_damaged_folders_are_no_error(tmp_path, index):
    out = tmp_path / "out"
    kept(out, "2026-03-04-01", headline={})
    kept(out, "2026-03-04-02", headline={}, exit_code=75)
    html = index(out)
    assert [line[1] for line in runs_in(html).values()] == ["stopped early; try again", "clean"]
    assert "Latest run 2026-03-04-02: stopped early; try again" in html
    (out / "2026-03-04-01" / "run.json").unlink()
    (out / "2026-03-04-02" / "run.json").write_text('{"run": 7}', encoding="utf-8")
    runs = runs_in(index(out))
    assert list(runs) == ["2026-03-04-02", "2026-03-04-01"]
    assert runs["2026-03-04-01"][1].startswith("its run.json is missing")
    assert runs["2026-03-04-02"][1].startswith("its run.json")


def test_of_thousands_of_runs_the_newest_are_read_and_the_others_counted(tmp_path, index):
    out = tmp_path / "out"
    for number in range(40):
        kept(out, f"2026-03-04-{number:02}")
    for number in range(3000):
        (out / f"2025-01-01-{number:04}").mkdir()
    html = index(out, runs_max=40)
    assert len(runs_in(html)) == 40
    assert "and 3,000 older runs" in html
    assert html.count("results.csv</a>") == 20
    assert html.count('class="chart columns"') == 1
    assert len(html.encode()) < 150_000


def test_the_columns_of_a_chart_are_as_high_as_their_counts():
    layers = [Layer("agree", "good", [30, 0, 9]), Layer("need attention", "bad", [4, 20, 0])]
    chart = ET.fromstring(stacked_columns("<Runs>", ["a&b", "c", "d"], layers))
    assert chart.get("aria-label") == "<Runs>"
    texts = [text.text for text in chart.iter("text")]
    assert texts == ["need attention", "agree", "0", "10", "20", "30", "40", "a&b", "c", "d"]
    heights = [float(line.get("y1")) for line in chart.iter("line")]
    ten = heights[0] - heights[1]
    legend, bars = list(chart.iter("rect"))[:2], list(chart.iter("rect"))[2:]
    assert [one.get("class") for one in legend] == ["bad", "good"]
    found = [
        (bar.get("class"), (heights[0] - float(bar.get("y"))) / ten * 10, float(bar.get("height")) / ten * 10)
        for bar in bars
    ]
    expected = [("good", 30, 30), ("bad", 34, 4), ("bad", 20, 20), ("good", 9, 9)]  # tone, upper end, height
    assert found == [
        (tone, pytest.approx(end, abs=0.1), pytest.approx(height, abs=0.1)) for tone, end, height in expected
    ]
    assert stacked_columns("none", ["a"], [Layer("agree", "good", [0])]) == ""


def test_an_empty_outbox_has_an_index_too(tmp_path, index):
    (tmp_path / "out").mkdir()
    html = index(tmp_path / "out")
    assert runs_in(html) == {}
    assert "No run yet" in html


@pytest.fixture
def ended(tmp_path):
    (tmp_path / "ledger").mkdir()
    with every_outcome(tmp_path / "ledger") as found:
        yield found


def test_open_exceptions_lead_to_their_place_and_those_of_an_earlier_run_are_not_shown_as_open(tmp_path, ended):
    report = ended.write(tmp_path / "out")
    html = page_of(tmp_path / "out")
    assert "Open exceptions: 5" in html
    links = re.findall(rf'href="{report.folder.name}/run.html#([^"]+)"', html)
    assert set(links) == {"A-00002", "A-00003", "A-00004", "A-00005", "A-00020"}
    page = (report.folder / "run.html").read_text(encoding="utf-8")
    assert all(f'id="{link}"' in page for link in links)
    assert ended.ledger.begin_run().id > ended.run.id
    stale = Exceptions((ExceptionStatus(1, ended.run.name, ended.run.started_at, "refused"),))
    write_index(Settings(outbox=tmp_path / "out"), ended.ledger.queries, ended.run, stale)
    assert "Open exceptions: 0" in page_of(tmp_path / "out")


def test_an_open_exception_whose_page_was_erased_is_no_link(tmp_path, ended):
    shutil.rmtree(ended.write(tmp_path / "out").folder)
    still = Exceptions((ExceptionStatus(1, ended.run.name, ended.run.started_at, "refused"),))
    write_index(Settings(outbox=tmp_path / "out"), ended.ledger.queries, ended.run, still)
    html = page_of(tmp_path / "out")
    assert "Open exceptions: 1" in html
    assert f'href="{ended.run.name}/' not in html


def test_an_open_exception_without_a_key_can_be_clicked(tmp_path, ended, monkeypatch):
    report, queries = ended.write(tmp_path / "out"), ended.ledger.queries
    keyless = [entry._replace(key="") for entry in queries.entries_by_id([1])]
    monkeypatch.setattr(type(queries), "entries_by_id", lambda *_: iter(keyless))
    still = Exceptions((ExceptionStatus(1, ended.run.name, ended.run.started_at, "refused"),))
    write_index(Settings(outbox=tmp_path / "out"), queries, ended.run, still)
    assert re.search(rf'<a href="{report.folder.name}/run.html#[^"]*">without a key</a>', page_of(tmp_path / "out"))


# ---- the fleet ----


def fleet_in(html):
    """The section of the fleet, as text; empty if there is none."""
    _, found, rest = html.partition('aria-labelledby="fleet">')
    return text(rest.partition("</section>")[0]) if found else ""


def test_a_shared_ledger_shows_who_works_what_waits_and_what_was_taken_over(tmp_path, index):
    kept(tmp_path, "2026-03-04-01")
    html = index(tmp_path, fleet=cluster_as_shown(a_fleet(), "acme"))
    section = fleet_in(html)
    assert section.startswith("Workers that share the ledger: 1 As of 2026-03-04 02:20:00 (UTC):")
    assert "in the queue: 12, the oldest for 7 min under way: 2" in section
    assert "taken over within a day: 1" in section
    assert "alfa-7-aa lives 2026-03-04 02:19:59 run (files) 1,204" in section
    assert "beta-9-bb silent" in section
    assert '<a href="#fleet">' in html
    other = fleet_in(index(tmp_path, fleet=cluster_as_shown(a_fleet(), "bolt")))
    assert ("acme" in other, "other work" in other) == (False, True), "nothing of other shippers"
    assert "in the queue: 0 under way: 1 taken over within a day: 0" in other
    (one, _) = a_fleet().workers
    many = a_fleet(workers=[one._replace(name=f"w-{number}") for number in range(60)])
    section = fleet_in(index(tmp_path, fleet=cluster_as_shown(many, "")))
    assert section.startswith("Workers that share the ledger: 60 ")
    assert "and 35 more." in section
    assert fleet_in(index(tmp_path)) == ""


def test_reports_show_the_fleet_of_a_shared_ledger_and_are_written_while_it_cannot_be_seen(tmp_path, ended):
    settings = shared_settings(shipper="acme")
    with joined(settings) as connection:
        Fleet(connection).worker("alfa-1-aa", doing=["acme calls 17"])
    shared = {"database": settings.database, "database_schema": settings.cluster.database_schema}
    unseen = {"database": f"postgresql://me@/there?host={tmp_path}"}
    for number, (more, shown) in enumerate((({}, False), (shared, True), (unseen, False))):
        ended.write(tmp_path / str(number), shipper="acme", **more)
        assert ("alfa-1-aa" in fleet_in(page_of(tmp_path / str(number)))) == shown

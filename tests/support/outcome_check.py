"""Holds all that a finished run says against each other: exit code, terminal, ledger, run.json, page, workbook and results files.

Written from the documentation, without loadsheet: what is wrong there is not wrong here as well.
"""

import csv
import io
import json
import re
import sqlite3
from collections import Counter
from contextlib import closing, suppress
from html import unescape

import python_calamine

NEEDS_SOMEONE = {
    *("not sent: invalid", "not sent: held", "refused", "outcome unknown"),
    *("value difference", "missing at exchange", "still at exchange", "twice at exchange"),
}
FATES_NEEDING_SOMEONE = ("invalid", "held", "refused", "unknown")
OUTCOMES = {  # the outcome of a row in the shipper's language
    outcome: english
    for english, others in {
        "accepted": "angenommen accepté aceptado",
        "unchanged": "unverändert inchangé sin_cambios",
        "ready": "wartet en_attente en_espera",
        "sending": "wird_gesendet envoi_en_cours enviándose",
        "held": "zurückgehalten retenu retenido",
        "unknown": "unklar incertain desconocido",
        "refused": "abgelehnt refusé rechazado",
        "invalid": "fehlerhaft erroné erróneo",
        "ignored": "übergangen ignoré omitido",
    }.items()
    for outcome in [other.replace("_", " ") for other in others.split()]
}
FATES = ("accepted", "refused", "invalid", "held", "unchanged", "unknown", "waiting", "ignored")
RED = ("differs", "does not add up")
CAUSES_MAX = 200  # more are not in run.json
VERDICT_OF = {
    "invalid": "not sent: invalid",
    "held": "not sent: held",
    "refused": "refused",
    "unknown": "outcome unknown",
}


def check_outcome(folder):
    """Fail where the reports in a run's folder disagree; returns its `run.json`."""
    summary = json.loads((folder / "run.json").read_bytes())
    book = python_calamine.CalamineWorkbook.from_path(folder / "reconciliation.xlsx", load_tables=True)
    page = (folder / "run.html").read_text(encoding="utf-8")
    _check_counts(summary)
    _check_workbook(summary, book)
    _check_page(summary, page, book.get_sheet_by_name("Summary").to_python()[1][0])
    _check_results(folder, summary)
    _check_exit_code(summary, book)
    return summary


def check_outcomes_below(folder):
    """The same for every finished run with whole reports that lies in an outbox below a folder."""
    for path in sorted(folder.glob("**/outbox/**/run.json")):
        if "work" in path.parts or not (path.parent / "reconciliation.xlsx").exists():
            continue
        summary = json.loads(path.read_bytes())
        if not summary.get("missing") and summary["exit_code"] is not None:
            check_outcome(path.parent)


def check_command(folder, words, done):
    """What `loadsheet run` in a folder ended with and printed is what its new reports and its ledger say."""
    if not words or words[0] != "run" or done.returncode not in (0, 1) or {"--exit-zero", "--dry-run"} & set(words):
        return
    printed = re.search(r"^→ Reports:   (.+?)/run\.html$", done.stdout, re.MULTILINE)
    if not printed or done.stdout.count("→ Reports:") != 1 or not (folder / printed[1] / "run.json").exists():
        return
    summary = check_outcome(folder / printed[1])
    assert summary["exit_code"] == done.returncode
    assert summary["headline"]["tone"] != "good" or done.returncode == 0
    said = _headline(folder / printed[1])
    assert any(line[2:].startswith(said) for line in done.stdout.splitlines()), said
    ledger = folder / ".loadsheet" / "ledger.db"
    if ledger.exists():  # no process has it open any more; `immutable` leaves no files beside it
        with closing(sqlite3.connect(f"file:{ledger}?immutable=1", uri=True)) as database:
            _check_ledger(summary, database)


def _check_ledger(summary, database):
    """A run's own drops, entry by entry, are what `run.json` counts."""
    statement = "select entries.id, state, reason, runs.name from entries join drops on drops.id = drop_id join runs on runs.id = run_id"
    entries = {number: (state, reason, run) for number, state, reason, run in database.execute(statement)}
    counted = Counter(_counts_as(entries, *entry) for entry in entries.values() if entry[2] == summary["run"])
    assert counted == _sum(drop["entries"] for drop in summary["drops"] if drop["run"] == summary["run"])


def _counts_as(entries, state, reason, _):
    """What repeats a waiting document counts as that one, until that one is accepted."""
    repeated = reason.removeprefix("already waiting as entry ")
    first = _counts_as(entries, *entries[int(repeated)]) if state == "unchanged" and repeated.isdigit() else state
    return state if first == "accepted" else first


def _headline(folder):
    page = (folder / "run.html").read_text(encoding="utf-8")
    return unescape(re.search(r'<h1 id="verdict">(.*?)</h1>', page, re.DOTALL)[1])


def _check_counts(summary):
    assert sum(summary["entries"].values()) == sum(summary["verdicts"].values())
    assert _sum(summary["groups"].values()) == summary["verdicts"]
    assert _sum(drop["entries"] for drop in summary["drops"]) == summary["entries"]
    for state, verdict in VERDICT_OF.items():
        assert summary["entries"].get(state, 0) == summary["verdicts"].get(verdict, 0)
    tables = [table for drop in summary["drops"] for file in drop["files"] for table in file["tables"]]
    assert +_sum(table["fates"] for table in tables) == summary["balance"]["rows"]
    assert summary["balance"]["balances"] == (not summary["balance"]["faults"])
    if summary["balance"]["balances"]:
        assert sum(table["rows"] for table in tables) == summary["balance"]["read"]
        assert sum(summary["balance"]["rows"].values()) == summary["balance"]["read"]
    needs = summary["needs_someone"]
    assert needs["entries"] == sum(
        count for verdict, count in summary["verdicts"].items() if verdict in NEEDS_SOMEONE
    ) - sum(summary.get("settled", {}).values())
    needing = sum(summary["balance"]["rows"].get(one, 0) for one in FATES_NEEDING_SOMEONE)
    assert needs["rows"] == needing - sum(table.get("settled", 0) for table in tables)
    _check_problems(summary)


def _check_problems(summary):
    """Kinds and causes of problems are two ways of counting the same; amounts are numbers."""
    by_code = _sum({(problem["code"], problem["level"]): problem["count"]} for problem in summary["problems"])
    causes = _sum({(cause["code"], cause["level"]): cause["count"]} for cause in summary.get("causes", ()))
    assert causes <= by_code
    if 0 < len(summary.get("causes", ())) < CAUSES_MAX:
        follow = _sum(cause["consequences"]["kinds"] for cause in summary["causes"])
        own = _sum({cause["code"]: cause["count"]} for cause in summary["causes"])
        assert own + follow == _sum({problem["code"]: problem["count"]} for problem in summary["problems"])
    assert all(type(total["source"]) in (int, float) for total in summary["totals"])


def _check_workbook(summary, book):
    outcomes = _table(book, "tblOutcomes")
    assert {line["Outcome"]: line["Documents"] for line in outcomes if line["Documents"]} == summary["verdicts"]
    fates = Counter(summary["balance"]["rows"])
    fates["waiting"] = fates.pop("ready", 0) + fates.pop("sending", 0)
    for name in ("tblBalance", "tblFiles"):
        lines = _table(book, name)
        told = {fate: sum(line.get(fate.capitalize()) or 0 for line in lines) for fate in FATES}
        assert +Counter(told) == +fates, name
    assert all(line["Sum"] == line["Rows read"] for line in _table(book, "tblBalance") if line["Rows read"] != "")


def _check_page(summary, page, headline):
    (on_page,) = re.findall(r'<h1 id="verdict">(.*?)</h1>', page, re.DOTALL)
    assert unescape(on_page) == headline
    needs = summary["needs_someone"]["entries"]
    words = " · ".join((headline, *summary["headline"]["details"]))
    need = f"{needs:,} of {(total := sum(summary['entries'].values())):,} document{'' if total == 1 else 's'} need"
    assert (need in words) == bool(needs), words
    assert headline.startswith("The rows do not balance") == (not summary["balance"]["balances"])
    assert summary["headline"]["text"] == headline
    if summary["headline"]["tone"] == "good":
        still_so = Counter(summary["verdicts"]) - Counter(summary.get("settled", {}))
        assert not set(still_so) & {*NEEDS_SOMEONE, "waiting to be sent"}
    outcomes = page.partition('<h2 id="outcomes">')[2].partition("</section>")[0]
    found = re.findall(r'data-choose="(.*?)".*?<td class="number">([\d,]+)</td>', outcomes, re.DOTALL)
    assert {unescape(verdict): int(count.replace(",", "")) for verdict, count in found} == summary["verdicts"]


def _check_results(folder, summary):
    """The outcomes of rows, where several documents come from one row its worst, add up to the tie-out."""
    for drop in summary["drops"]:
        for file in (file for file in drop["files"] if not file["set_aside"]):
            fates = Counter()
            for name in file["results"]:
                for sheet, (_, *lines) in result_lines(folder / name).items():
                    numbers = [line[0] for line in lines]
                    assert len(numbers) == len(set(numbers)), f"{name} {sheet}: a row is there twice"
                    fates.update(OUTCOMES.get(line[1], line[1]) for line in lines)
            assert fates == +_sum(table["fates"] for table in file["tables"]), file["name"]


def result_lines(path):
    """The lines of a results file, headings first, by sheet; a text file has one sheet without a name."""
    if path.suffix == ".xlsx":
        book = python_calamine.load_workbook(path)
        return {title: book.get_sheet_by_name(title).to_python() for title in book.sheet_names}
    content = path.read_bytes()
    encodings = ["utf-16"] if content[:2] in (b"\xff\xfe", b"\xfe\xff") else ["utf-8-sig", "cp1252"]
    for encoding in encodings:
        with suppress(UnicodeDecodeError):
            text = content.decode(encoding)
            delimiter = max(",;\t|", key=text.partition("\r\n")[0].count)
            return {"": list(csv.reader(io.StringIO(text, newline=""), delimiter=delimiter))}
    raise AssertionError(f"{path} is in no encoding that we know")


def _check_exit_code(summary, book):
    """Exit 0 is a promise: nothing needs anyone."""
    if summary["exit_code"] == 0:
        control = _table(book, "tblControl") if summary["totals"] else []
        aside = [file["name"] for drop in summary["drops"] for file in drop["files"] if file["set_aside"]]
        needs = summary["needs_someone"]
        assert (needs["entries"], needs["rows"], aside, summary["inbox"]["stuck"]) == (0, 0, [], 0)
        assert [line for line in control if line["Says"] in RED] == []
        assert summary["balance"]["balances"]


def _table(book, name):
    table = book.get_table_by_name(name)
    return [dict(zip(table.columns, line, strict=True)) for line in table.to_python()]


def _sum(counts):
    total = Counter()
    for one in counts:
        total.update(one)
    return total

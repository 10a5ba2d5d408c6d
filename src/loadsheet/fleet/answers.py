"""What a run gives with a batch and what a worker answers, as JSON values: errors, problems, reports of sending, results.

Owns: these shapes. Both sides are of one version, or the batch is done again: nothing here is kept for long.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from loadsheet import problems, reports
from loadsheet.dispatch import Delivered, Forecast, Listings, SendingReport
from loadsheet.problems import LoadsheetError, Problem
from loadsheet.settings import Settings
from loadsheet.stages import Result

Values = Mapping[str, Any]


def error_told(error: LoadsheetError | None) -> Values | None:
    """An error as its kind and text."""
    return None if error is None else {"kind": type(error).__name__, "text": str(error), "exit_code": error.exit_code}


def error_heard(told: Values | None) -> LoadsheetError | None:
    """The error that was told; of a kind that cannot be made from a text alone at least with its exit code."""
    if told is None:
        return None
    kind = getattr(problems, told["kind"], LoadsheetError)
    if kind in (problems.FileRefused, LoadsheetError):
        kind = type(told["kind"], (LoadsheetError,), {"exit_code": told["exit_code"]})
    error: LoadsheetError = kind(told["text"])
    return error


def problems_told(found: Sequence[Problem]) -> list[Values]:
    """Problems as JSON values."""
    return [problem.to_json() for problem in found]


def problems_heard(told: Sequence[Values]) -> tuple[Problem, ...]:
    """The problems that were told."""
    return tuple(Problem.from_json(one) for one in told)


def sending_told(report: SendingReport) -> Values:
    """What became of the calls of a batch."""
    told: Values = msgspec.to_builtins(report)
    return told


def sending_heard(told: Values) -> SendingReport:
    """The report that was told."""
    return msgspec.convert(told, SendingReport)


def delivered_told(sent: Delivered) -> Values:
    """What delivering came to; listings that were looked at are not told: who accounts looks again."""
    forecast = msgspec.to_builtins(sent.forecast)
    return {"stopped": error_told(sent.stopped), "forecast": forecast, "limited": sent.limited}


def delivered_heard(told: Values) -> Delivered:
    """The same, heard."""
    forecast = told["forecast"] and msgspec.convert(told["forecast"], Forecast)
    return Delivered(error_heard(told["stopped"]), Listings(), forecast, told["limited"])


def result_told(result: Result) -> Values:
    """What a run came to, with its summary."""
    return {
        "exit_code": result.exit_code,
        "stopped": error_told(result.stopped),
        "left": problems_told(result.left),
        "late": result.late,
        "folder": str(result.reports.folder),
        "names": list(result.reports.names),
        "summary": result.reports.summary.to_json().decode(),
    }


def result_heard(told: Values, settings: Settings) -> Result:
    """The same, heard by the process that asked for it."""
    summary = msgspec.json.decode(told["summary"], type=reports.RunSummary)
    written = reports.Written(Path(told["folder"]), tuple(told["names"]), summary, settings.state, settings.shipper)
    left = problems_heard(told["left"])
    return Result(told["exit_code"], written, error_heard(told["stopped"]), left, told["late"])

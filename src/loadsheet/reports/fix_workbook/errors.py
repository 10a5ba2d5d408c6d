"""The problems of a drop, folded for its sender: one line for the same thing wrong with the same value, the most frequent cause first.

Owns: what one line of the Errors sheet stands for, and the sentence above them. Causes are counted by `loadsheet.problem_groups`; what is
added here is what a sender needs: the value, what to do about it, and the first places to go to.
"""

from collections import Counter
from dataclasses import dataclass, field

from loadsheet.problem_groups import Causes
from loadsheet.problems import Level, Problem
from loadsheet.reports.fix_workbook.rows import Place
from loadsheet.reports.fix_workbook.texts import WordedProblem, Words

LINES_MOST = 1_000
_PLACES = 4
_Kind = tuple[str, str, str, str, str]


@dataclass(slots=True)
class Line:
    """The same problem with the same value, in any number of rows: the first places, and how it is told."""

    problem: Problem
    worded: WordedProblem
    count: int = 0
    places: list[Place] = field(default_factory=list)

    @property
    def level(self) -> Level:
        """Error or warning."""
        return self.problem.level


class Errors:
    """Gathers problems, then gives them as lines."""

    def __init__(self) -> None:
        self._causes = Causes()
        self._lines: dict[tuple[str, ...], Line] = {}
        self._levels: Counter[str] = Counter()
        self._columns: Counter[str] = Counter()
        self.documents = 0
        self.is_cut = False

    def add(self, problem: Problem, place: Place, worded: WordedProblem, key: str) -> None:
        """Take a problem whose place is made good. All problems of a document come one after the other."""
        self._causes.add(problem, key)
        self._levels[problem.level] += 1
        if problem.level == "error" and problem.where.column:
            self._columns[problem.where.column] += 1
        identity = (*_kind(problem), problem.found, worded.text)
        line = self._lines.get(identity)
        if line is None:
            if len(self._lines) >= LINES_MOST:
                self.is_cut = True
                return
            line = self._lines[identity] = Line(problem, worded)
        line.count += 1
        if len(line.places) < _PLACES:
            line.places.append(place)

    def lines(self) -> list[Line]:
        """The lines, those of the most frequent cause first; errors before warnings."""
        ranks: dict[_Kind, int] = {}
        for rank, cause in enumerate(self._causes.ranked()):
            ranks.setdefault((cause.code, cause.level, cause.file, cause.sheet, cause.column), rank)
        return sorted(
            self._lines.values(),
            key=lambda line: (line.level == "warning", ranks.get(_kind(line.problem), len(ranks)), -line.count),
        )

    def summary(self, words: Words) -> str:
        """All of it in a sentence or two: `41 problems of 3 kinds in 12 records. Correcting the column “PLZ” clears 33 of them.`"""
        errors, warnings = self._levels["error"], self._levels["warning"]
        kinds = sum(cause.level == "error" for cause in self._causes.ranked())
        text = words.errors_summary.format(
            problems=words.counted(words.errors_counted, errors),
            kinds=words.counted(words.kinds_counted, kinds),
            documents=words.counted(words.documents_counted, self.documents),
        )
        column, most = max(self._columns.items(), key=lambda item: item[1], default=("", 0))
        if kinds > 1 < most < errors:
            text += f" {words.errors_clears.format(column=column, count=words.number(most))}"
        return f"{text} {words.counted(words.warnings_counted, warnings)}" if warnings else text


def _kind(problem: Problem) -> _Kind:
    where = problem.where
    return problem.code, problem.level, where.file, where.sheet, where.column

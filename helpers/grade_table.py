"""A grade as a table for the terminal."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from rich.table import Table
from rich.text import Text

from helpers.score_table import number

if TYPE_CHECKING:
    from rich.console import RenderableType

    from helpers.grading import NotebookGrade
    from helpers.judge import Verdict

_STYLE = {"passed": "green", "wrong": "red", "error": "red", "not started": "dim"}


def lines(grade: NotebookGrade) -> Iterator[RenderableType]:
    """Everything there is to print about one notebook: heading, error, table, notes."""
    yield Text(grade.path, style="bold")
    if grade.error:
        yield Text(grade.error, style="red")
    if grade.verdicts:
        yield _table(grade)
    yield from map(Text, grade.notes)
    yield Text()


def _table(grade: NotebookGrade) -> Table:
    table = Table()
    table.add_column("Exercise", no_wrap=True)
    table.add_column("Points", justify="right", no_wrap=True)
    table.add_column("State", no_wrap=True)
    table.add_column("What was found", ratio=1)
    for verdict in grade.verdicts:
        table.add_row(
            Text(verdict.exercise),
            f"{number(verdict.points)} / {number(verdict.max_points)}",
            Text(verdict.status, style=_STYLE[verdict.status]),
            _findings(verdict),
        )
    return table


def _findings(verdict: Verdict) -> Text:
    return Text("\n".join(finding.message for finding in verdict.findings))

"""Tables for spreadsheets: the grades, and what changed."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence

from helpers.classroom.reports.changes import Change
from helpers.classroom.reports.tally import by_exercise, exercises_of
from helpers.classroom.results import ClassResult

GRADES = ("student", "exercise", "points", "total", "max_points", "status")
CHANGES = ("student", "exercise", "before", "after", "what")
# A cell that begins with one of these may run as a formula, quoted or not. OWASP, "CSV Injection":
# https://owasp.org/www-community/attacks/CSV_Injection (the last four are the full-width forms of = + - @).
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "\uff1d", "\uff0b", "\uff0d", "\uff20")
# The byte order mark tells Excel that the file is UTF-8; without it a double click shows Ã¼ for ü. pandas.read_csv
# drops it by itself. Python's own csv module wants encoding="utf-8-sig".
_BYTE_ORDER_MARK = "\ufeff"


def grades_csv(result: ClassResult) -> str:
    """One row per student and exercise. total: the student's points of all exercises, the same on each row."""
    exercises = exercises_of(result)
    rows: list[Sequence[str]] = []
    for student in result.students:
        verdicts = by_exercise(student)
        for exercise in exercises:
            verdict = verdicts.get(exercise.name)
            points, status = (verdict.points, verdict.status) if verdict else (0.0, student.status)
            rows.append(
                (
                    student.student,
                    exercise.name,
                    _decimal(points),
                    _decimal(student.points),
                    _decimal(exercise.points),
                    status,
                )
            )
    return _csv(GRADES, rows)


def changes_csv(found: Iterable[Change]) -> str:
    """One row per change; only the head where nothing changed."""
    return _csv(CHANGES, [(c.student, c.exercise, _decimal(c.before), _decimal(c.after), c.what) for c in found])


def no_formula(text: str) -> str:
    """The text with an apostrophe before it where a spreadsheet could run it as a formula."""
    return f"'{text}" if text.startswith(_FORMULA) else text


def _decimal(points: float | None) -> str:
    return "" if points is None else f"{round(points, 4):g}"


def _csv(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    text = io.StringIO()
    writer = csv.writer(text)  # with \r\n between the rows, as RFC 4180 has it
    writer.writerow(head)
    writer.writerows([no_formula(cell) for cell in row] for row in rows)
    return _BYTE_ORDER_MARK + text.getvalue()

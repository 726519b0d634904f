"""What differs between a former run and this one: regrading after a changed check shows it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from helpers.classroom.reports.files import ReportError
from helpers.classroom.reports.results_json import VERSION
from helpers.classroom.reports.tally import by_exercise, exercises_of
from helpers.classroom.reports.texts import cleaned, number
from helpers.classroom.results import ClassResult


@dataclass(frozen=True)
class Change:
    """One difference.

    what: "points": of one exercise; "new": a student who was not there before; "gone": one who is not there now.
    exercise: empty for new and gone students; before and after are then their totals. None: there was nothing.
    """

    student: str
    exercise: str
    before: float | None
    after: float | None
    what: Literal["points", "new", "gone"] = "points"


def changes(before: Mapping[str, Any], result: ClassResult) -> list[Change]:
    """The differences to a former results.json: those of today's students in their order, then who is gone.

    An exercise without a verdict counts as 0 points.
    raises: ReportError when `before` is not the content of a results.json that this version can read
    """
    former = _points(before)
    result = cleaned(result)
    now = {student.student: student for student in result.students}
    exercises = [exercise.name for exercise in exercises_of(result)]
    found = []
    for name, student in now.items():
        if name not in former:
            found.append(Change(name, "", None, student.points, "new"))
            continue
        points = {exercise: verdict.points for exercise, verdict in by_exercise(student).items()}
        for exercise in dict.fromkeys([*exercises, *former[name]]):
            old, new = former[name].get(exercise, 0.0), points.get(exercise, 0.0)
            if abs(old - new) > 1e-6:
                found.append(Change(name, exercise, old, new))
    gone = [name for name in former if name not in now]
    return found + [Change(name, "", sum(former[name].values()), None, "gone") for name in gone]


def _points(before: Mapping[str, Any]) -> dict[str, dict[str, float]]:
    """student → exercise → points."""
    version = before.get("version") if isinstance(before, Mapping) else None
    if version != VERSION:
        raise ReportError(
            f"The former results cannot be compared: their version is {version!r}, and this course writes {VERSION}."
        )
    try:
        return {
            str(student["student"]): {str(e["exercise"]): float(e["points"]) for e in student["exercises"]}
            for student in before["students"]
        }
    except (LookupError, TypeError, ValueError) as error:
        raise ReportError(f"The former results cannot be compared: they are damaged ({error!r}).") from error


_SENTENCES = {
    "points": "{student}, {exercise}: {before} → {after} points",
    "new": "{student}: new, {after} points",
    "gone": "{student}: not there any more, had {before} points",
}


def changes_text(found: list[Change]) -> str:
    """The changes for a terminal, one line each, below a line that counts them."""
    if not found:
        return "Nothing changed since the former run."
    students = len({change.student for change in found})
    return "\n".join([f"Changed since the former run: {len(found)}, of {students} students.", *map(change_text, found)])


def change_text(change: Change) -> str:
    return _SENTENCES[change.what].format(
        student=change.student,
        exercise=change.exercise,
        before=number(change.before or 0),
        after=number(change.after or 0),
    )

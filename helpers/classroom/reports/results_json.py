"""`results.json`: everything that other programs may want to know. `results.schema.json` documents it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from helpers.classroom.reports import tally
from helpers.classroom.results import ClassResult, StudentResult

VERSION = 1  # of the format; a change that old readers would not understand raises it


def results_json(result: ClassResult, stems: Mapping[str, str]) -> dict[str, Any]:
    """The data of results.json, in a stable order and without times. stems: the file stem of each student."""
    exercises = tally.exercises_of(result)
    most = tally.max_points(exercises)
    return {
        "version": VERSION,
        "course": {
            "exercises": [
                {"name": exercise.name, "notebook": exercise.notebook, "points": float(exercise.points)}
                for exercise in exercises
            ],
            "max_points": most,
        },
        "run": {"seed": result.seed, "protection": list(result.protection)},
        "students": [_student(student, stems[student.student], most) for student in result.students],
        "mistakes": [
            {
                "id": mistake.id,
                "number": len(mistake.students),
                "students": list(mistake.students),
                "exercises": list(mistake.exercises),
            }
            for mistake in tally.found(result, "mistake")
        ],
    }


def _student(student: StudentResult, stem: str, most: float) -> dict[str, Any]:
    found_in = student.found_in or {}
    return {
        "student": student.student,
        "submission": student.submission,
        "status": student.status,
        "reason": student.reason,
        "notes": list(student.notes),
        "points": round(student.points, 6),
        "max_points": most,
        "page": f"students/{stem}.html",
        "gradescope": f"gradescope/{stem}.json",
        "exercises": [verdict.as_dict() | {"notebook": found_in.get(verdict.exercise)} for verdict in student.verdicts],
    }

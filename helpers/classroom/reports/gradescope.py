"""One student's result as Gradescope reads it from an autograder."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from helpers.classroom.reports.tally import by_exercise
from helpers.classroom.results import StudentResult
from helpers.course import Exercise
from helpers.judge import explain


def gradescope_json(student: StudentResult, exercises: Sequence[Exercise]) -> dict[str, Any]:
    """The content of a results.json for Gradescope, one test per exercise.

    All texts have the format "text", which Gradescope shows as it is: nothing in them can act as HTML or Markdown.
    Source: https://gradescope-autograders.readthedocs.io/en/latest/specs/#output-format
    """
    verdicts = by_exercise(student)
    tests = []
    for exercise in exercises:
        verdict = verdicts.get(exercise.name)
        passed = verdict is not None and verdict.passed
        tests.append(
            {
                "name": exercise.name,
                "name_format": "text",
                "score": round(verdict.points, 6) if verdict else 0.0,
                "max_score": float(exercise.points),
                "status": "passed" if passed else "failed",
                "output": explain.text(verdict) if verdict else f"Not graded: {student.reason}",
                "output_format": "text",
            }
        )
    return {
        "score": round(student.points, 6),
        "output": "\n".join([_about(student), *student.notes]).strip(),
        "output_format": "text",
        "tests": tests,
    }


def _about(student: StudentResult) -> str:
    if student.status == "graded":
        return student.reason
    return {"partly graded": "Partly graded: {}", "not gradable": "Not gradable: {}"}[student.status].format(
        student.reason
    )

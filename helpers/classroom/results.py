"""What came of a class: one result per student, as plain data and as JSON. Knows nothing of how it was found out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from helpers.judge import Comparison, Finding, Verdict

Status = Literal["graded", "partly graded", "not gradable"]


@dataclass(frozen=True)
class StudentResult:
    """What came of one submission.

    student: unique within a run. submission: its path below the folder of submissions.
    status: "graded": everything that was handed in was judged, open blanks included; "partly graded": something was
        not, and reason says what; "not gradable": nothing was, and reason says why.
    notes: one sentence for each thing worth knowing that cost nothing.
    verdicts: one for each exercise, in the course's order. Of a submission that is not gradable: none.
    found_in: exercise → the notebook in which the answer was found.
    """

    student: str
    submission: str
    status: Status
    reason: str = ""
    notes: tuple[str, ...] = ()
    verdicts: tuple[Verdict, ...] = ()
    found_in: Mapping[str, str] | None = None

    @property
    def points(self) -> float:
        return sum(verdict.points for verdict in self.verdicts)


@dataclass(frozen=True)
class ClassResult:
    """A whole run.

    seed: of the private probes; None when only the published ones were used.
    protection: the sentences that say what held the learners' code back, and what did not.
    students: in the order of their names.
    """

    seed: int | None
    protection: tuple[str, ...]
    students: tuple[StudentResult, ...]


def verdict_to_json(verdict: Verdict) -> dict[str, Any]:
    """A verdict with the matrices of its picture, as JSON-ready data."""
    pictures = [
        {
            "title": c.title,
            "yours": np.where(np.isfinite(c.yours), np.round(c.yours.astype(float), 4), np.nan).tolist(),
            "expected": np.where(np.isfinite(c.expected), np.round(c.expected.astype(float), 4), np.nan).tolist(),
            "row_label": c.row_label,
            "column_label": c.column_label,
            "is_map": c.is_map,
        }
        for c in verdict.comparisons
    ]
    return verdict.as_dict() | {"comparisons": pictures}


def verdict_from_json(data: Mapping[str, Any]) -> Verdict:
    """The way back. Raises KeyError or TypeError when it is not the data of a verdict."""
    kind = {True: bool, False: float}
    return Verdict(
        data["exercise"],
        data["status"],
        data["points"],
        data["max_points"],
        tuple(Finding(**finding) for finding in data["findings"]),
        tuple(data["details"]),
        tuple(
            Comparison(
                c["title"],
                np.array(c["yours"], kind[c["is_map"]]),
                np.array(c["expected"], kind[c["is_map"]]),
                c["row_label"],
                c["column_label"],
                c["is_map"],
            )
            for c in data["comparisons"]
        ),
    )


def student_to_json(result: StudentResult) -> dict[str, Any]:
    return {
        "student": result.student,
        "submission": result.submission,
        "status": result.status,
        "reason": result.reason,
        "notes": list(result.notes),
        "verdicts": [verdict_to_json(verdict) for verdict in result.verdicts],
        "found_in": dict(result.found_in or {}),
    }


def student_from_json(data: Mapping[str, Any]) -> StudentResult:
    """The way back. Raises KeyError or TypeError when it is not the data of a student."""
    return StudentResult(
        data["student"],
        data["submission"],
        data["status"],
        data["reason"],
        tuple(data["notes"]),
        tuple(map(verdict_from_json, data["verdicts"])),
        dict(data["found_in"]),
    )

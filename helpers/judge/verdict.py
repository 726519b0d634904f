"""What a check says: one verdict, with its findings. Plain data, no computing."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    import numpy as np
    from matplotlib.figure import Figure

Status = Literal["not started", "passed", "wrong", "error"]
Severity = Literal["mistake", "observation", "note"]


@dataclass(frozen=True)
class Finding:
    """One thing that was seen.

    id: a kebab-case id of the mistake catalogue, or of the observation.
    message: what happened, in one or two sentences.
    hint: a question or a nudge, never code; may be empty.
    severity: "mistake" (cause known), "observation" (seen, cause unknown) or "note" (passes, but fragile or unusual).
    """

    id: str
    message: str
    hint: str = ""
    severity: Severity = "mistake"


@dataclass(frozen=True)
class Comparison:
    """The numbers behind a verdict, for a picture: what the answer gave, what was expected, on which case.

    yours, expected: (rows, columns) arrays of the same shape; rows are queries.
    is_map: the entries say which changed key (column) moves which query (row).
    """

    title: str
    yours: np.ndarray
    expected: np.ndarray
    row_label: str = "query"
    column_label: str = "feature"
    is_map: bool = False


@dataclass(frozen=True)
class Verdict:
    """The result of one check.

    points: between 0 and max_points. details: short lines that show the smallest failing case.
    """

    exercise: str
    status: Status
    points: float
    max_points: float
    findings: tuple[Finding, ...] = ()
    details: tuple[str, ...] = ()
    comparisons: tuple[Comparison, ...] = field(default=(), repr=False)

    @property
    def passed(self) -> bool:
        return self.status == "passed"

    def as_dict(self) -> dict[str, Any]:
        """The verdict as JSON-ready data, without the arrays."""
        return {
            "exercise": self.exercise,
            "status": self.status,
            "passed": self.passed,
            "points": self.points,
            "max_points": self.max_points,
            "findings": [
                {"id": f.id, "message": f.message, "hint": f.hint, "severity": f.severity} for f in self.findings
            ],
            "details": list(self.details),
        }

    def plot(self) -> Figure:
        """Draw *yours · expected · difference*. Raises ValueError where there is nothing to compare."""
        from helpers.judge import explain

        return explain.picture(self)

    def __repr__(self) -> str:
        from helpers.judge import explain

        return explain.text(self)

    def _repr_html_(self) -> str:
        from helpers.judge import explain

        return explain.html(self)

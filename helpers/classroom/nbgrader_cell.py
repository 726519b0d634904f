"""What a check cell of the nbgrader edition calls: a card for the learner, a number for nbgrader.

nbgrader (0.9.6, `utils.determine_grade`) gives no points when a cell shows an error or anything on stderr, the number
in which the cell ends when it ends in one, and full points in every other case. A verdict is no number.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

from helpers import lookup
from helpers.words import CheckFailed, check

if TYPE_CHECKING:
    from helpers.judge import Verdict


def score(answer: object, exercise: str) -> Verdict | float:
    """Check an answer for whoever runs the notebook.

    exercise: always named, so that an answer is never judged, and paid, as another exercise
    returns: in the learner's hands the verdict, which shows itself as a card; where nbgrader runs the notebook or
        CHECK_STRICT is 1, the points, after the words were printed
    raises: ValueError when no exercise has that name; CheckFailed with the words when there are no points to give
    """
    if not _is_graded():
        return check(answer, exercise)
    from helpers import judge

    task = lookup.exercise_of(answer, exercise)
    with _silenced():
        verdict = judge.check_answer(answer, task.name)
    if verdict.points <= 0:
        raise CheckFailed(str(verdict))
    print(verdict)
    return float(verdict.points)


def _is_graded() -> bool:
    """nbgrader names itself in the environment, also under a teacher's own settings and in `nbgrader validate`."""
    return "NBGRADER_EXECUTION" in os.environ or os.environ.get("CHECK_STRICT", "0") not in ("", "0")


@contextlib.contextmanager
def _silenced() -> Iterator[None]:
    """Let nothing that an answer says reach the cell: a warning in a right answer would cost all its points.

    The judge silences Python's own streams. What is left: the process's stderr, where libraries in C++ write, and
    log handlers that kept the notebook's stderr. The first is closed, since a kernel reads it late, in a thread; what
    the second brought is cleared away.
    """
    from IPython.display import clear_output

    kept = os.dup(2)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 2)
    os.close(nowhere)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        clear_output()

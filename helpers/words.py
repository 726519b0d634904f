"""What the learner's words do: `check`, `hint`, `reveal`, `reset`, `scoreboard` and `yours`."""

from __future__ import annotations

import dataclasses
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from helpers import lookup, note, panels, paths, progress, score_table, source
from helpers.course import BY_NAME
from helpers.note import Note

if TYPE_CHECKING:
    from helpers.judge import Verdict


class CheckFailed(AssertionError):
    """A check that is not passed, under CHECK_STRICT=1. Its text is the verdict's."""

    def _render_traceback_(self) -> list[str]:
        """What IPython shows in place of a traceback: only the words."""
        return [f"AssertionError: {self}"]


def check(answer: object, exercise: str | None = None) -> Verdict:
    """Check an answer and say what was found.

    answer: the function or class that you wrote
    exercise: the exercise's name, where it is not the answer's own
    returns: the verdict; it shows itself when it is a cell's last value
    raises: ValueError when no exercise has that name; AssertionError when the check is not passed and the
        environment variable CHECK_STRICT is 1
    """
    from helpers import judge

    task = lookup.exercise_of(answer, exercise)
    verdict = judge.check_answer(answer, task.name)
    if verdict.status != "not started":  # looking at an open blank is no attempt
        progress.update(task.name, lambda entry: _after_check(entry, verdict))
    _say_notices()
    if os.environ.get("CHECK_STRICT", "0") not in ("", "0") and not verdict.passed:
        raise CheckFailed(str(verdict))
    return verdict


def hint(answer: object) -> Note:
    """Give the next hint: first a nudge, then where to look, then pseudo-code.

    answer: what you wrote so far, or the exercise's name
    raises: ValueError when no exercise has that name
    """
    task = lookup.exercise_of(answer)
    seen = progress.read().get(task.name, progress.Entry()).hints
    if seen < len(task.hints):
        progress.update(task.name, lambda entry: dataclasses.replace(entry, hints=seen + 1))
    _say_notices()
    return panels.one_hint(task, seen + 1) if seen < len(task.hints) else panels.all_hints(task)


def reveal(answer: object) -> Note:
    """Show the solution beside your own code, once your check has passed or you made an honest attempt.

    An honest attempt: three checked answers, or all three hints.

    answer: what you wrote, or the exercise's name
    raises: ValueError when no exercise has that name
    """
    task = lookup.exercise_of(answer)
    solution = source.solution(task.name, paths.SOLUTIONS)
    if solution is None:
        return note.simple("This copy of the course holds no solutions. Its hints and checks work without them.")
    entry = progress.read().get(task.name, progress.Entry())
    if not panels.is_earned(task, entry):
        _say_notices()
        return panels.not_yet(task, entry)
    progress.update(task.name, lambda entry: dataclasses.replace(entry, reveals=entry.reveals + 1))
    _say_notices()
    return panels.side_by_side(lookup.source_of(answer, task.name), source.without_imports(solution))


def reset(answer: object) -> Note:
    """Give the blank back in a new cell below; what you wrote stays where it is, with a copy in `attempts/`.

    answer: what you wrote, or the exercise's name
    raises: ValueError when no exercise has that name
    """
    from helpers.judge import answer_book

    task = lookup.exercise_of(answer)
    blank = answer_book.blank(task.name)
    lines = [_keep(lookup.source_of(answer, task.name), task.name)]
    shell = _shell()
    if shell is None:
        return Note("\n".join([*lines, "", blank]), note.panel(*map(note.paragraph, lines), note.code(blank)))
    shell.set_next_input(blank, replace=False)
    return note.simple(*lines, "The blank is in a new cell below this one. Nothing of yours was overwritten.")


def scoreboard() -> Note:
    """Show the points of every exercise and notebook, and what to do next."""
    entries = progress.read()
    _say_notices()
    return score_table.scoreboard(entries)


def yours(draw: Callable[[], Any]) -> Any:
    """Draw something with your own code, or say that the exercise above comes first.

    draw: makes the picture, for example `lambda: plots.attention_heatmap(softmax(scores))`
    returns: what `draw()` returns; a note while a blank is open or when your code raises
    """
    try:
        return draw()
    except Exception as error:
        if _is_open_blank(error):
            return note.simple("Finish the exercise above to see your own.")
        message = str(error).strip().split("\n")[0]
        told = f"{type(error).__name__}: {message}" if message else type(error).__name__
        return note.simple(f"Your code raised {told.rstrip('.')}. Run its check first.")


def _shell() -> Any:
    """The running IPython shell, or None. IPython is not imported where it is not already there."""
    ipython = sys.modules.get("IPython")
    return ipython.get_ipython() if ipython else None


def _is_open_blank(error: Exception) -> bool:
    """A bare NotImplementedError is a blank; one with a message is torch's, or the learner's own."""
    if isinstance(error, NameError):
        return error.name in BY_NAME
    return isinstance(error, NotImplementedError) and not str(error)


def _after_check(entry: progress.Entry, verdict: Verdict) -> progress.Entry:
    return dataclasses.replace(
        entry,
        attempts=entry.attempts + 1,
        points=max(entry.points, verdict.points),
        status=entry.status if entry.status == "passed" else verdict.status,
        findings=tuple(finding.id for finding in verdict.findings),
    )


def _say_notices() -> None:
    for line in progress.notices():
        print(line)


def _keep(old: str | None, name: str) -> str:
    """Append an old attempt to its file. Returns the sentence that says where it is."""
    if old is None:
        return "Your own code was not found, so there is no copy of it; your cells are as they were."
    if source.is_blank(old):
        return "Your code was still the blank."
    beside = progress.path()
    if beside is None:
        return "Progress is switched off, so no copy was made; your code is still in its cell."
    file = beside.parent / "attempts" / f"{name}.py"
    try:
        return _append(file, old)
    except (OSError, UnicodeError) as error:
        reason = getattr(error, "strerror", None) or type(error).__name__
        return f"No copy could be made in {file.parent} ({reason}); your code is still in its cell."


def _append(file: Path, old: str) -> str:
    file.parent.mkdir(exist_ok=True)
    before = file.read_text(encoding="utf-8") if file.exists() else ""
    if old not in before:
        with file.open("a", encoding="utf-8") as stream:
            stream.write(f"# --- an attempt at {file.stem} ---\n{old}\n\n\n")
    return f"Your code is kept in attempts/{file.name}."

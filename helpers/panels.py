"""What `hint` and `reveal` show: hints step by step, the solution beside the learner's own code."""

from __future__ import annotations

from helpers import note, source
from helpers.course import Exercise
from helpers.note import Note
from helpers.progress import Entry

HONEST_ATTEMPTS = 3  # so many checked answers open the solution before the check has passed


def one_hint(task: Exercise, step: int) -> Note:
    """Hint number `step`, counted from 1."""
    words = task.hints[step - 1]
    title = f"Hint {step} of {len(task.hints)} · {task.name}"
    more = (
        f"One step further: `hint({task.name})` again."
        if step < len(task.hints)
        else f"This was the last hint. `reveal({task.name})` shows the solution beside your code."
    )
    html = [note.paragraph(title, bold=True), _words(words), note.paragraph(more, pale=True)]
    return Note("\n".join([title, "", words, "", more]), note.panel(*html))


def all_hints(task: Exercise) -> Note:
    """Every hint once more, for the one who asks after the last."""
    title = f"No more hints · {task.name}"
    more = f"`reveal({task.name})` shows the solution beside your code."
    text = [title]
    html = [note.paragraph(title, bold=True)]
    for step, words in enumerate(task.hints, start=1):
        text += ["", f"{step}.{_after_number(words)}{words}"]
        html.append(_words(words, f"{step}. "))
    return Note("\n".join([*text, "", more]), note.panel(*html, note.paragraph(more, pale=True)))


def is_earned(task: Exercise, entry: Entry) -> bool:
    """The solution opens after success, or after an honest attempt."""
    return entry.status == "passed" or entry.attempts >= HONEST_ATTEMPTS or entry.hints >= len(task.hints)


def not_yet(task: Exercise, entry: Entry) -> Note:
    """What is missing before the solution opens."""
    return note.simple(
        f"The solution of {task.name} opens when its check passes, after {HONEST_ATTEMPTS} checked answers, "
        f"or after all {len(task.hints)} hints.",
        f"So far: {min(entry.attempts, HONEST_ATTEMPTS)} of {HONEST_ATTEMPTS} answers, "
        f"{entry.hints} of {len(task.hints)} hints.",
        f"`hint({task.name})` gives the next hint.",
    )


def side_by_side(own: str | None, solution: str) -> Note:
    """The learner's code and the solution, with a remark where one is true."""
    own_text = own or "(your code was not found)"
    remarks = _remarks(own, solution)
    text = "\n\n".join(["Your code", own_text, "The solution", solution, *remarks])
    columns = _column("Your code", own_text) + _column("The solution", solution)
    frame = f'<div style="display: flex; flex-wrap: wrap; gap: 0 16px;">{columns}</div>'
    return Note(text, f'<div style="color: {note.INK};">{frame}{"".join(map(note.paragraph, remarks))}</div>')


def _column(title: str, text: str) -> str:
    inner = note.paragraph(title, bold=True) + note.code(text)
    return f'<div style="flex: 1 1 26em; min-width: 0;">{inner}</div>'


def _words(hint: str, number: str = "") -> str:
    """A hint of several lines is pseudo-code."""
    if "\n" in hint:
        return (note.paragraph(number) if number else "") + note.code(hint)
    return note.paragraph(number + hint)


def _after_number(hint: str) -> str:
    return "\n" if "\n" in hint else " "


def _remarks(own: str | None, solution: str) -> list[str]:
    """One or two true sentences about the difference, or none."""
    if own is None or source.is_blank(own):
        return []
    remarks = [f"Lines of code: yours {source.code_lines(own)}, the solution {source.code_lines(solution)}."]
    if source.has_loop(own) and not source.has_loop(solution):
        remarks.append("Yours loops in Python; the solution needs no loop: a few large tensor operations do it all.")
    return remarks

"""The scoreboard: points per exercise and notebook as text and as HTML, and what to do next."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape

from helpers import note
from helpers.course import BY_NAME, EXERCISES, NOTEBOOKS, Exercise
from helpers.note import Note
from helpers.progress import Entries, Entry

_COLUMNS = (
    ("Exercise", "left"),
    ("Points", "right"),
    ("State", "left"),
    ("Checks", "right"),
    ("Hints", "right"),
)
_COLOUR = {"passed": note.GOOD, "wrong": note.BAD, "error": note.BAD}


def scoreboard(entries: Entries) -> Note:
    """Show what was done. The text is the same for the same entries: no times."""
    return Note(_text(entries), _html(entries))


def number(points: float) -> str:
    """Points without a needless `.0`."""
    return f"{round(points, 1):g}"


def _text(entries: Entries) -> str:
    width = max(len(name) for name in (*BY_NAME, *NOTEBOOKS)) + 2
    lines = [f"Points: {_earned(entries, EXERCISES)} of {_possible(EXERCISES)}"]
    for stem in NOTEBOOKS:
        tasks = _tasks(stem)
        lines += ["", f"{stem:<{width}} {_earned(entries, tasks):>4} / {_possible(tasks)}"]
        for task in tasks:
            entry = entries.get(task.name, Entry())
            points = f"{number(_points(entries, task)):>4} / {task.points}"
            lines.append(f"  {task.name:<{width - 2}} {points:<9}  {_state(entry)}")
    return "\n".join([*lines, "", _next_step(entries)])


def _state(entry: Entry) -> str:
    counts = [("checks", entry.attempts), ("hints", entry.hints)]
    return " · ".join([entry.status, *(f"{title} {count}" for title, count in counts if count)])


def _html(entries: Entries) -> str:
    total = f"{_earned(entries, EXERCISES)} of {_possible(EXERCISES)} points"
    head = _row(_cell(title, align, colour=note.PALE_INK) for title, align in _COLUMNS)
    rows = "".join(_notebook_rows(stem, entries) for stem in NOTEBOOKS)
    table = f'<table style="border-collapse: collapse; margin: 8px 0; font-size: inherit;">{head}{rows}</table>'
    parts = [note.paragraph(total, bold=True), _bar(entries), table, note.paragraph(_next_step(entries))]
    return f'<div style="color: {note.INK}; line-height: 1.4;">{"".join(parts)}</div>'


def _notebook_rows(stem: str, entries: Entries) -> str:
    tasks = _tasks(stem)
    points = f"{_earned(entries, tasks)} / {_possible(tasks)}"
    head = [
        _cell(f"{stem}.ipynb", "left", bold=True),
        _cell(points, "right", bold=True),
        *[_cell("", "left")] * 3,
    ]
    return _row(head, line=True) + "".join(_task_row(task, entries) for task in tasks)


def _task_row(task: Exercise, entries: Entries) -> str:
    entry = entries.get(task.name, Entry())
    return _row(
        [
            _cell(task.name, "left", indent=True),
            _cell(f"{number(_points(entries, task))} / {task.points}", "right"),
            _cell(entry.status, "left", colour=_COLOUR.get(entry.status, note.PALE_INK)),
            _cell(str(entry.attempts or ""), "right", colour=note.PALE_INK),
            _cell(str(entry.hints or ""), "right", colour=note.PALE_INK),
        ]
    )


def _row(cells: Iterable[str], *, line: bool = False) -> str:
    border = f" border-top: 1px solid {note.LINE};" if line else ""
    return f'<tr style="background: none;{border}">{"".join(cells)}</tr>'


def _cell(text: str, align: str, *, bold: bool = False, indent: bool = False, colour: str = note.INK) -> str:
    style = (
        f"text-align: {align}; padding: 2px 12px 2px {24 if indent else 4}px; white-space: nowrap;"
        f" font-weight: {600 if bold else 400}; color: {colour};"
    )
    return f'<td style="{style}">{escape(text)}</td>'


def _bar(entries: Entries) -> str:
    share = sum(_points(entries, task) for task in EXERCISES) / _possible(EXERCISES)
    outer = f"width: 24em; max-width: 100%; height: 8px; background: {note.PAPER}; border-radius: 4px;"
    inner = f"width: {share:.0%}; height: 8px; background: {note.GOOD}; border-radius: 4px;"
    return f'<div style="{outer}"><div style="{inner}"></div></div>'


def _next_step(entries: Entries) -> str:
    for task in EXERCISES:
        if entries.get(task.name, Entry()).status != "passed":
            return f"Next: `{task.name}` in {task.notebook}.ipynb, {task.minutes} minutes."
    hardest = max(EXERCISES, key=lambda task: _effort(entries[task.name]))
    return f"Everything is passed. To keep it, write one again from memory: `reset({hardest.name})`."


def _effort(entry: Entry) -> tuple[int, int, int]:
    return entry.hints, entry.attempts, entry.reveals


def _tasks(stem: str) -> tuple[Exercise, ...]:
    return tuple(task for task in EXERCISES if task.notebook == stem)


def _points(entries: Entries, task: Exercise) -> float:
    return min(entries.get(task.name, Entry()).points, task.points)


def _earned(entries: Entries, tasks: tuple[Exercise, ...]) -> str:
    return number(sum(_points(entries, task) for task in tasks))


def _possible(tasks: tuple[Exercise, ...]) -> int:
    return sum(task.points for task in tasks)

"""Grade a notebook: run it in a fresh kernel, then check there what its names hold."""

from __future__ import annotations

import json
import re
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from helpers import lookup, notebook, source
from helpers.course import BY_NAME, EXERCISES, NOTEBOOKS, Exercise
from helpers.judge import Finding, Verdict
from helpers.notebook import Answers, CellTrouble, NotebookError


@dataclass(frozen=True)
class NotebookGrade:
    """What came of one notebook.

    error: why it could not be graded, or not to the end; None when all went well
    notes: one sentence for each thing worth knowing, such as a cell that stopped
    """

    path: str
    error: str | None = None
    notes: tuple[str, ...] = ()
    verdicts: tuple[Verdict, ...] = ()

    @property
    def passed(self) -> bool:
        return self.error is None and bool(self.verdicts) and all(verdict.passed for verdict in self.verdicts)

    @property
    def points(self) -> float:
        return sum(verdict.points for verdict in self.verdicts)

    @property
    def max_points(self) -> float:
        return sum(verdict.max_points for verdict in self.verdicts)

    def as_dict(self) -> dict[str, Any]:
        """The grade as JSON-ready data."""
        return {
            "notebook": self.path,
            "passed": self.passed,
            "points": self.points,
            "max_points": self.max_points,
            "error": self.error,
            "notes": list(self.notes),
            "exercises": [verdict.as_dict() for verdict in self.verdicts],
        }


def notebooks_in(path: Path) -> list[Path]:
    """The notebooks of a folder, in order; of a file, the file itself."""
    return sorted(path.glob("*.ipynb")) if path.is_dir() else [path]


def grade(path: Path, *, timeout: float = notebook.CELL_TIMEOUT) -> NotebookGrade:
    """Grade one notebook, whatever is in it. The file and the learner's progress stay as they are.

    timeout: seconds that a cell, or the check of an answer, may take
    """
    try:
        read = notebook.read(path)
        answers = notebook.find_answers(read)
        tasks = _tasks(path.stem, read, answers)
    except NotebookError as error:
        return NotebookGrade(str(path), error=str(error))
    troubles: list[CellTrouble] = []
    error_text = None
    with tempfile.TemporaryDirectory() as folder:
        results = {task.name: Path(folder) / f"{task.name}.json" for task in tasks}
        try:
            troubles = notebook.run(
                read,
                folder=path.resolve().parent,
                timeout=timeout,
                afterwards=[_check_code(name, file) for name, file in results.items()],
                keep_going=True,
            )
        except NotebookError as error:
            error_text = str(error)
        checked = {name: json.loads(file.read_text("utf-8")) for name, file in results.items() if file.exists()}
    told = {trouble.number: trouble.message for trouble in troubles}
    told |= {number: f"syntax error, {message}" for number, message in answers.broken.items()}
    first_check = len(read.cells) + 1
    verdicts = tuple(
        _verdict(task, checked, read, answers, told, number) for number, task in enumerate(tasks, first_check)
    )
    return NotebookGrade(str(path), error_text, _notes(read, answers, tasks, told), verdicts)


def check_into(file: str, name: str) -> None:
    """Check one answer in the learner's kernel; write the verdict as JSON, null when nothing has the name."""
    from helpers import judge

    names = lookup.notebook_names()
    verdict = judge.check_answer(names[name], name).as_dict() if name in names else None
    text = json.dumps(verdict)
    beside = Path(f"{file}.part")
    beside.write_text(text, encoding="utf-8")
    beside.replace(file)


def _check_code(name: str, file: Path) -> str:
    """A cell that leans on as few of the learner's names as Python allows."""
    return f"__import__('helpers.grading', fromlist=['_']).check_into({str(file)!r}, {name!r})"


def _tasks(stem: str, read: Any, answers: Answers) -> list[Exercise]:
    """The exercises of a notebook: the course's own by the file's name, else all that it defines or asks for.

    raises: NotebookError when there is none
    """
    for course_stem in NOTEBOOKS:
        if course_stem in stem:  # also "01_self_attention_v1 (1)" or "01_self_attention_v1_jane"
            return [task for task in EXERCISES if task.notebook == course_stem]
    text = "\n".join(cell.source for cell in read.cells)
    asked = set(re.findall(r"^#+ Exercise: `(\w+)`", text, flags=re.MULTILINE))
    meant = {name for name in BY_NAME if source.mentions_definition(text, name)}
    tasks = [task for task in EXERCISES if task.name in asked | meant | set(answers.cells)]
    if not tasks:
        raise NotebookError(
            "No cell defines an exercise of the course. Answers are found by their names, "
            f"for example {EXERCISES[0].name} or {EXERCISES[-1].name}."
        )
    return tasks


def _verdict(
    task: Exercise,
    checked: Mapping[str, Any],
    read: Any,
    answers: Answers,
    told: Mapping[int, str],
    check_number: int,
) -> Verdict:
    result = checked.get(task.name)
    if result is not None:
        findings = tuple(Finding(**finding) for finding in result["findings"])
        return Verdict(
            result["exercise"],
            result["status"],
            result["points"],
            result["max_points"],
            findings,
            tuple(result["details"]),
        )
    if task.name not in checked:
        reason = told.get(check_number, "the notebook did not run to its end")
        return _unchecked(task, "error", Finding("not-checked", f"Not checked: {reason}.", severity="observation"))
    return _undefined(task, read, answers, told)


def _undefined(task: Exercise, read: Any, answers: Answers, told: Mapping[int, str]) -> Verdict:
    """Say why the kernel holds nothing of this name: a cell stopped, or is not code, or there is none."""
    for number, cell in enumerate(read.cells, start=1):
        if not source.mentions_definition(cell.source, task.name) and number not in answers.cells.get(task.name, ()):
            continue
        if number in told:
            message = f"Cell {number}, which defines it, stopped: {told[number]}."
            return _unchecked(task, "error", Finding("cell-stopped", message, severity="observation"))
        if cell.cell_type != "code":
            message = f"Cell {number} holds it, but is a {cell.cell_type} cell. Turn it into a code cell."
            return _unchecked(task, "error", Finding("not-a-code-cell", message, severity="observation"))
    message = f"No cell defines {task.name}."
    return _unchecked(task, "not started", Finding("not-defined", message, severity="observation"))


def _unchecked(task: Exercise, status: Any, finding: Finding) -> Verdict:
    return Verdict(task.name, status, 0.0, float(task.points), (finding,))


def _notes(read: Any, answers: Answers, tasks: list[Exercise], told: Mapping[int, str]) -> tuple[str, ...]:
    notes = [
        f"Cell {number} ({_first_line(read.cells[number - 1].source)}) stopped: {message}."
        for number, message in sorted(told.items())
        if number <= len(read.cells)
    ]
    for task in tasks:
        cells = answers.cells.get(task.name, ())
        if len(cells) > 1:
            places = ", ".join(map(str, cells))
            notes.append(f"{task.name} is defined more than once, in cells {places}. The last one that ran counts.")
    return tuple(notes)


def _first_line(text: str) -> str:
    """How a reader recognises a cell, since JupyterLab shows no cell numbers."""
    line = text.strip().split("\n")[0]
    return line if len(line) <= 40 else f"{line[:39]}…"

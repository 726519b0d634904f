"""Writes the course as a course of nbgrader: its settings, and one assignment with all notebooks."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Set
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from helpers import notebook, paths, source
from helpers.course import EXERCISES, NOTEBOOKS, Exercise

CONFIG = "nbgrader_config.py"
_FIRST_LINE = "# nbgrader settings of the course Attention by hand, from `python -m helpers class export-nbgrader`."
_SETTINGS = f"""{_FIRST_LINE}
# They belong into this folder only: learners' own servers must not read them.
# Install the course where nbgrader runs. Learners' code runs there with your rights; where that copy of the course
# holds solutions/, their code can read it and show it in their feedback. Use a copy without that folder.
import os

from nbgrader import preprocessors

c = get_config()  # noqa: F821
c.CourseDirectory.course_id = "attention-by-hand"

# Kernels inherit these: checks give points instead of a card, and nobody's progress is written.
os.environ["CHECK_STRICT"] = "1"
os.environ["ATTENTION_PROGRESS"] = "off"

# A blank looks as it does in the course.
c.ClearSolutions.code_stub = {{"python": "raise NotImplementedError"}}

# Some experiments measure for many seconds. Seconds that one cell may take:
c.ExecutePreprocessor.timeout = 120

# A check that a learner deleted is put back. Where an exercise lacks both its cells, nbgrader reports an error for
# this learner and goes on with the others.
c.OverwriteCells.add_missing_cells = True


class MendCopiedCells(preprocessors.NbGraderPreprocessor):
    '''DeduplicateIds leaves an empty record in the earlier copies of a cell, and nbgrader would stop at it.'''

    def preprocess_cell(self, cell, resources, cell_index):
        if not cell.metadata.get("nbgrader", True):
            del cell.metadata["nbgrader"]
        return cell, resources


c.Autograde.sanitize_preprocessors = [
    preprocessors.ClearOutput,
    preprocessors.DeduplicateIds,
    MendCopiedCells,
    preprocessors.OverwriteKernelspec,
    preprocessors.OverwriteCells,
    preprocessors.CheckCellMetadata,
]
"""
_CHECK_CELL = """from helpers.classroom import nbgrader_cell

nbgrader_cell.score({name}, exercise="{name}")"""
_WRITTEN = "Written to {folder}: the assignment {assignment}, {notebooks} notebooks, {points} points."
_SET_ASIDE = "Files that stood in the way and were different are in {folder}."
_NEXT = 'Next, in that folder: nbgrader generate_assignment "{assignment}"'


class ExportError(Exception):
    """The export is not possible. The message says why, and what to do."""


@dataclass(frozen=True)
class ExportReport:
    """What was written.

    folder: the course of nbgrader. assignment: its name there. files: what was written, below the folder.
    points: of the whole assignment.
    set_aside: the folder that holds the files that stood in the way and were different; None when there were none.
    """

    folder: Path
    assignment: str
    files: tuple[Path, ...]
    points: int
    set_aside: Path | None = None

    def __str__(self) -> str:
        notebooks = sum(file.suffix == ".ipynb" for file in self.files)
        lines = [
            _WRITTEN.format(folder=self.folder, assignment=self.assignment, notebooks=notebooks, points=self.points),
            *([_SET_ASIDE.format(folder=self.set_aside)] if self.set_aside else []),
            _NEXT.format(assignment=self.assignment),
        ]
        return "\n".join(lines)


def export_nbgrader(to: Path, *, assignment: str = "attention", force: bool = False) -> ExportReport:
    """Write a course folder for `nbgrader generate_assignment`, `autograde` and `generate_feedback`.

    to: a new folder, an empty one, or one of an earlier export. Only the files of the export are written there; a
        file in their place that is different is moved to `replaced-1/`, `replaced-2/`, …
    assignment: its name in nbgrader
    force: write into a folder that holds other things, too
    raises: ExportError, in words
    """
    _require_a_name(assignment)
    notebooks = {stem: source_notebook(stem) for stem in NOTEBOOKS}
    _require_room(to, force)
    folder = Path("source") / assignment
    texts = {Path(CONFIG): _SETTINGS}
    texts |= {folder / f"{stem}.ipynb": _as_text(filled) for stem, filled in notebooks.items()}
    with _told(to):
        set_aside = _move_away(to, texts)
        for path, text in texts.items():  # the settings first: they mark the folder as ours
            (to / path).parent.mkdir(parents=True, exist_ok=True)
            (to / path).write_text(text, encoding="utf-8")
    return ExportReport(to, assignment, tuple(texts), sum(task.points for task in EXERCISES), set_aside)


def source_notebook(stem: str) -> Any:
    """A notebook of the course as nbgrader's source version: with answers, marked, and with checks that give points.

    raises: ExportError when this copy of the course lacks the notebook, one of its cells or a solution
    """
    tasks = [task for task in EXERCISES if task.notebook == stem]
    try:
        blank = notebook.read(paths.NOTEBOOKS / f"{stem}.ipynb")
    except notebook.NotebookError as error:
        raise ExportError(str(error)) from error
    known = _imported(blank)
    filled = notebook.fill(blank, {task.name: marked(_solution(task), known) for task in tasks})
    cells = {cell.id: cell for cell in filled.cells}
    for task in tasks:
        answer, check = (_cell(cells, f"{kind}-{task.name}", stem) for kind in ("exercise", "check"))
        answer.metadata.nbgrader = _metadata(answer.id, solution=True)
        check.metadata.nbgrader = _metadata(check.id, grade=True, locked=True, points=task.points)
        check.source = _CHECK_CELL.format(name=task.name)
    return filled


def marked(text: str, known: Set[str]) -> str:
    """Put `### BEGIN SOLUTION` and `### END SOLUTION` around what follows each signature and docstring.

    text: a solution with its imports on top
    known: names that the notebook imports; other imports move into the marks, to be cut out with the rest
    returns: the definition alone; what nbgrader leaves of it when it cuts the marked lines out is the blank
    """
    missing = {bound: line for bound, line in source.imports(text).items() if bound not in known}
    text = source.without_imports(text)
    lines = text.split("\n")
    for function in reversed(list(_functions(ast.parse(text)))):
        first = function.body[0]
        documented = ast.get_docstring(function, clean=False) is not None
        start = first.end_lineno if documented else first.lineno - 1
        assert start is not None  # a parsed node has its lines
        assert function.end_lineno is not None
        while not documented and lines[start - 1].lstrip().startswith("#"):
            start -= 1  # a comment above the first statement belongs to the answer
        indent = " " * (function.col_offset + 4)
        used = {node.id for node in ast.walk(function) if isinstance(node, ast.Name)}
        imports = [indent + line for bound, line in missing.items() if bound in used]
        body = [*imports, *lines[start : function.end_lineno]]
        lines[start : function.end_lineno] = [f"{indent}### BEGIN SOLUTION", *body, f"{indent}### END SOLUTION"]
    return "\n".join(lines)


def _imported(blank: Any) -> set[str]:
    names: set[str] = set()
    for cell in blank.cells:
        if cell.cell_type == "code":
            with suppress(SyntaxError):  # a cell that is not Python imports nothing
                names.update(source.imports(cell.source))
    return names


def _as_text(filled: Any) -> str:
    import nbformat

    return f"{nbformat.writes(filled)}\n"


def _functions(module: ast.Module) -> Iterator[ast.FunctionDef]:
    """Functions and methods in the order of the text, without the functions inside them."""
    for node in module.body:
        inside = node.body if isinstance(node, ast.ClassDef) else [node]
        yield from (thing for thing in inside if isinstance(thing, ast.FunctionDef))


def _metadata(grade_id: str, **more: bool | int) -> dict[str, Any]:
    """What nbgrader's schema 3 knows about a cell.

    All other cells stay without it: a locked cell is overwritten, which would undo an import that a learner added.
    """
    return {"schema_version": 3, "grade_id": grade_id, "grade": False, "locked": False, "solution": False, **more}


def _solution(task: Exercise) -> str:
    text = source.solution(task.name, paths.SOLUTIONS)
    if text is None:
        raise ExportError(
            f"This copy of the course holds no solution of {task.name}, and nbgrader's source version needs all of "
            "them. Export from a copy that has the folder solutions/."
        )
    return text


def _cell(cells: dict[str, Any], cell_id: str, stem: str) -> Any:
    if cell_id not in cells:
        raise ExportError(f"{stem}.ipynb has no cell with the id {cell_id}. Restore the notebook as it was shipped.")
    return cells[cell_id]


def _require_a_name(assignment: str) -> None:
    if not re.fullmatch(r"\w[\w .-]*", assignment):
        raise ExportError(
            f'"{assignment}" cannot be the name of an assignment. It becomes a folder: begin with a letter or a '
            "digit; after it, spaces, dots, hyphens and underscores may follow too."
        )


def _require_room(to: Path, force: bool) -> None:
    with _told(to):
        if to.exists() and not to.is_dir():
            raise ExportError(f"{to} is a file. Name a folder.")
        if force or not to.exists() or not any(to.iterdir()) or _is_earlier_export(to / CONFIG):
            return
    raise ExportError(
        f"{to} holds other things. Name a new folder, or add --force: then only {CONFIG} and the notebooks of the "
        "assignment are written, and what stands in their place is moved aside."
    )


def _is_earlier_export(config: Path) -> bool:
    return config.is_file() and config.read_text(encoding="utf-8", errors="replace").startswith(_FIRST_LINE)


def _move_away(to: Path, texts: dict[Path, str]) -> Path | None:
    """Move the files that would be lost. Not inside source/: nbgrader hands out what lies there.

    returns: the folder that they are in now, None when no file was in the way
    """
    old = [path for path, text in texts.items() if (to / path).exists() and (to / path).read_bytes() != text.encode()]
    if not old:
        return None
    number = 1
    while (aside := to / f"replaced-{number}").exists():
        number += 1
    for path in old:
        (aside / path).parent.mkdir(parents=True, exist_ok=True)
        (to / path).rename(aside / path)
    return aside


@contextmanager
def _told(to: Path) -> Iterator[None]:
    """Retell what the file system refuses."""
    try:
        yield
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise ExportError(
            f"{error.filename or to} cannot be used ({reason}). Name a folder that you may write."
        ) from error

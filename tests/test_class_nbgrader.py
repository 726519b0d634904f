"""The export for nbgrader, proved with nbgrader itself: what it hands out, how it grades, what its feedback says."""

from __future__ import annotations

import copy
import html
import importlib.util
import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import nbformat
import pytest

from helpers import judge, notebook, paths, source
from helpers.classroom import nbgrader_cell, nbgrader_export
from helpers.classroom.nbgrader_export import CONFIG, ExportError, export_nbgrader
from helpers.course import BY_NAME, EXERCISES, NOTEBOOKS
from helpers.judge import Verdict
from helpers.words import CheckFailed

needs_nbgrader = pytest.mark.skipif(
    importlib.util.find_spec("nbgrader") is None, reason="nbgrader is not installed: pip install -e '.[nbgrader]'"
)

START, ONE, FOUR = NOTEBOOKS[0], NOTEBOOKS[1], NOTEBOOKS[4]
SOLUTIONS = {task.name: source.solution(task.name, paths.SOLUTIONS) or "" for task in EXERCISES}
POINTS = {f"check-{task.name}": float(task.points) for task in EXERCISES}


def changed(name: str, old: str, new: str) -> str:
    assert old in SOLUTIONS[name]
    return SOLUTIONS[name].replace(old, new)


MISTAKES = {
    "attention_scores": changed("attention_scores", " / math.sqrt(d)", ""),  # without the formula: no points
    "MultiHeadAttention": changed("MultiHeadAttention", 'float("-inf")', "1e-20"),  # a wrong mask: some points
}


def shipped(stem: str) -> Any:
    return notebook.read(paths.NOTEBOOKS / f"{stem}.ipynb")


def tags(cell: Any) -> set[str]:
    return set(cell.metadata.get("tags", []))


def cell_of(book: Any, cell_id: str) -> Any:
    return next(cell for cell in book.cells if cell.id == cell_id)


def made(name: str, text: str) -> Any:
    """What a definition gives, in a namespace of its own."""
    namespace: dict[str, Any] = {"__name__": "__main__"}
    exec("import math\nimport torch\nfrom torch import nn\n" + text, namespace)
    return namespace[name]


# --- what is written ------------------------------------------------------------------------------


@pytest.mark.parametrize("stem", NOTEBOOKS)
def test_answers_and_checks_carry_the_metadata_of_nbgrader_and_nothing_else_does(stem: str) -> None:
    found = {
        cell.id: cell.metadata.nbgrader
        for cell in nbgrader_export.source_notebook(stem).cells
        if "nbgrader" in cell.metadata
    }
    flags = {"schema_version": 3, "grade": False, "locked": False, "solution": False}
    expected: dict[str, dict[str, Any]] = {}
    for task in (task for task in EXERCISES if task.notebook == stem):
        answer, check = f"exercise-{task.name}", f"check-{task.name}"
        expected[answer] = flags | {"grade_id": answer, "solution": True}
        expected[check] = flags | {"grade_id": check, "grade": True, "locked": True, "points": task.points}
    assert found == expected
    assert all(re.fullmatch(r"[A-Za-z0-9_-]+", cell_id) for cell_id in found)


@pytest.mark.parametrize("stem", NOTEBOOKS)
def test_every_other_cell_is_as_the_course_ships_it(stem: str) -> None:
    before, after = shipped(stem).cells, nbgrader_export.source_notebook(stem).cells
    assert [(cell.id, tags(cell)) for cell in after] == [(cell.id, tags(cell)) for cell in before]
    assert all(
        new.source == old.source for new, old in zip(after, before, strict=True) if "nbgrader" not in new.metadata
    )


@pytest.mark.parametrize("name", SOLUTIONS)
def test_without_the_marks_a_marked_solution_is_the_solution(name: str) -> None:
    marked = nbgrader_export.marked(SOLUTIONS[name], {"math", "nn", "torch"})
    assert "### BEGIN SOLUTION" in marked
    assert re.sub(r"\n *### (BEGIN|END) SOLUTION", "", marked) == source.without_imports(SOLUTIONS[name])


def test_a_comment_above_the_first_statement_belongs_to_the_answer() -> None:
    text = "def f(x):\n    # the trick\n    return x"
    assert nbgrader_export.marked(text, set()) == (
        "def f(x):\n    ### BEGIN SOLUTION\n    # the trick\n    return x\n    ### END SOLUTION"
    )


def test_an_import_that_the_notebook_lacks_is_part_of_the_answer() -> None:
    text = "import math\n\n\ndef f(x):\n    return math.sqrt(x)"
    assert nbgrader_export.marked(text, set()) == (
        "def f(x):\n    ### BEGIN SOLUTION\n    import math\n    return math.sqrt(x)\n    ### END SOLUTION"
    )


def test_the_report_says_what_was_written(tmp_path: Path) -> None:
    report = export_nbgrader(tmp_path / "course", assignment="week 3")
    assert sorted(report.files) == sorted(
        path.relative_to(report.folder) for path in report.folder.rglob("*") if path.is_file()
    )
    assert {str(path.parent) for path in report.files} == {".", "source/week 3"}
    assert report.points == 100
    assert "5 notebooks, 100 points" in str(report)
    assert 'nbgrader generate_assignment "week 3"' in str(report)


# --- folders in the way ---------------------------------------------------------------------------


def test_an_earlier_export_is_renewed_and_its_other_files_stay(tmp_path: Path) -> None:
    export_nbgrader(tmp_path)
    (tmp_path / "gradebook.db").write_text("grades")
    assert export_nbgrader(tmp_path).set_aside is None
    assert (tmp_path / "gradebook.db").read_text() == "grades"


def test_what_a_teacher_changed_in_an_earlier_export_is_kept(tmp_path: Path) -> None:
    export_nbgrader(tmp_path)
    written = (tmp_path / CONFIG).read_text("utf-8")
    for number in (1, 2):
        (tmp_path / CONFIG).write_text(f"{written}\n# mine {number}\n", encoding="utf-8")
        report = export_nbgrader(tmp_path)
        assert report.set_aside == tmp_path / f"replaced-{number}"
        assert str(report.set_aside) in str(report)
    assert (tmp_path / CONFIG).read_text("utf-8") == written
    kept = [(tmp_path / f"replaced-{number}" / CONFIG).read_text("utf-8") for number in (1, 2)]
    assert kept == [f"{written}\n# mine {number}\n" for number in (1, 2)]


def test_a_folder_with_other_things_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / CONFIG).write_text("c = get_config()  # a course of somebody else\n")
    with pytest.raises(ExportError, match="holds other things"):
        export_nbgrader(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == [CONFIG]


def test_force_writes_into_it_and_loses_nothing(tmp_path: Path) -> None:
    (tmp_path / CONFIG).write_text("# theirs\n")
    (tmp_path / "notes.txt").write_text("theirs too")
    report = export_nbgrader(tmp_path, force=True)
    assert report.set_aside is not None
    assert (report.set_aside / CONFIG).read_text() == "# theirs\n"
    assert (tmp_path / "notes.txt").read_text() == "theirs too"
    assert "sanitize_preprocessors" in (tmp_path / CONFIG).read_text("utf-8")


def test_a_file_is_no_folder(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("")
    with pytest.raises(ExportError, match="is a file"):
        export_nbgrader(file)
    with pytest.raises(ExportError, match="cannot be used"):
        export_nbgrader(file / "below")


def test_a_folder_that_may_not_be_written_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: Path, *_: Any, **__: Any) -> None:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(Path, "mkdir", refuse)
    with pytest.raises(ExportError, match=r"course.* cannot be used \(Permission denied\)"):
        export_nbgrader(tmp_path / "course")


def test_a_copy_without_solutions_says_so_and_writes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(paths, "SOLUTIONS", tmp_path / "none")
    with pytest.raises(ExportError, match="holds no solution of weighted_average"):
        export_nbgrader(tmp_path / "course")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["", "a/b", "..", "a+b", " a", "-a"])
def test_a_name_that_is_no_folder_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(ExportError, match="cannot be the name of an assignment"):
        export_nbgrader(tmp_path / "course", assignment=name)


# --- what a check cell says -----------------------------------------------------------------------


def test_in_the_learners_hands_a_check_cell_shows_the_card() -> None:
    verdict = nbgrader_cell.score(made("softmax", SOLUTIONS["softmax"]), "softmax")
    assert isinstance(verdict, Verdict)
    assert verdict.passed


@pytest.mark.parametrize(
    ("variable", "value"),
    [("CHECK_STRICT", "1"), ("NBGRADER_EXECUTION", "autograde"), ("NBGRADER_EXECUTION", "validate")],
)
def test_where_it_is_graded_a_check_cell_ends_in_the_points(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], variable: str, value: str
) -> None:
    monkeypatch.setenv(variable, value)
    assert nbgrader_cell.score(made("softmax", SOLUTIONS["softmax"]), "softmax") == 4.0
    assert "softmax: passed" in capsys.readouterr().out
    partial = nbgrader_cell.score(made("MultiHeadAttention", MISTAKES["MultiHeadAttention"]), "MultiHeadAttention")
    assert isinstance(partial, float)
    assert 0 < partial < BY_NAME["MultiHeadAttention"].points


@pytest.mark.parametrize("name", SOLUTIONS)
def test_an_open_blank_raises_its_words(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setenv("CHECK_STRICT", "1")
    with pytest.raises(CheckFailed, match=f"^{name}: not started"):
        nbgrader_cell.score(made(name, source.blank_of(SOLUTIONS[name])), name)


@needs_nbgrader
@pytest.mark.parametrize(("shown", "points"), [("0.0", 0.0), ("0", 0.0), ("2.5", 2.5), ("4.0", 4.0), ("card", 4.0)])
def test_nbgrader_takes_the_number_and_gives_full_points_for_anything_else(shown: str, points: float) -> None:
    """Why a check cell must end in a number, and that a zero is a zero."""
    from nbgrader.utils import determine_grade

    cell = nbformat.v4.new_code_cell()
    cell.metadata.nbgrader = {"grade": True, "locked": True, "solution": False, "points": 4}
    cell.outputs = [nbformat.v4.new_output("execute_result", {"text/plain": shown})]
    assert determine_grade(cell) == (points, 4.0)


@needs_nbgrader
def test_the_settings_reach_nbgrader(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from nbgrader.preprocessors import ClearSolutions, Execute, OverwriteCells
    from traitlets.config import PyFileConfigLoader

    for variable in ("CHECK_STRICT", "ATTENTION_PROGRESS"):
        monkeypatch.setenv(variable, "")  # and so restored after the test
    export_nbgrader(tmp_path)
    settings = PyFileConfigLoader(CONFIG, path=str(tmp_path)).load_config()
    assert (os.environ["CHECK_STRICT"], os.environ["ATTENTION_PROGRESS"]) == ("1", "off")
    assert Execute(config=settings).timeout == 120
    assert ClearSolutions(config=settings).code_stub == {"python": "raise NotImplementedError"}
    assert OverwriteCells(config=settings).add_missing_cells


# --- nbgrader runs: one course, several learners --------------------------------------------------


@dataclass(frozen=True)
class Course:
    """After generate_assignment, autograde and generate_feedback.

    points: learner → cell → points. log: what autograde said.
    """

    folder: Path
    points: dict[str, dict[str, float]]
    log: str

    def release(self, stem: str) -> Any:
        return notebook.read(self.folder / f"release/attention/{stem}.ipynb")

    def feedback(self, learner: str, stem: str) -> str:
        """As text: the page without its tags."""
        page = (self.folder / f"feedback/{learner}/attention/{stem}.html").read_text("utf-8")
        return html.unescape(re.sub(r"<[^>]*>", "", page))


@pytest.fixture(scope="module")
def course(tmp_path_factory: pytest.TempPathFactory) -> Course:
    if importlib.util.find_spec("nbgrader") is None:
        pytest.skip("nbgrader is not installed: pip install -e '.[nbgrader]'")
    folder = tmp_path_factory.mktemp("nbgrader") / "course"
    export_nbgrader(folder)
    nbgrader(folder, "generate_assignment", "attention")
    for learner, books in handed_in(folder / "release/attention").items():
        own = folder / "submitted" / learner / "attention"
        own.mkdir(parents=True)
        for stem, book in books.items():
            notebook.write(book, own / f"{stem}.ipynb")
    log = nbgrader(folder, "autograde", "attention", returns=1)  # for the learner "lost"
    nbgrader(folder, "generate_feedback", "attention")
    return Course(folder, gradebook(folder), log)


def nbgrader(folder: Path, *arguments: str, returns: int = 0) -> str:
    """Run a command of nbgrader. Without pytest's variable, since a kernel that sees it does not catch all output."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTEST_CURRENT_TEST"}
    environment |= {"JUPYTER_CONFIG_DIR": str(folder / "no settings of a person")}
    # It calls `alembic` by name, which lies beside this Python, whether its environment is activated or not.
    environment["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    command = [sys.executable, "-m", "nbgrader", *arguments]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=280)
    assert done.returncode == returns, done.stderr
    return done.stderr


def gradebook(folder: Path) -> dict[str, dict[str, float]]:
    from nbgrader.api import Gradebook

    points: dict[str, dict[str, float]] = {}
    with Gradebook(f"sqlite:///{folder / 'gradebook.db'}") as book:
        assert book.find_assignment("attention").max_score == 100
        for submission in book.assignment_submissions("attention"):
            grades = [grade for own in submission.notebooks for grade in own.grades]
            points[submission.student.id] = {grade.name: grade.auto_score for grade in grades}
    return points


def handed_in(release: Path) -> dict[str, dict[str, Any]]:
    """learner → notebook → what they hand in, made from the released notebooks.

    Only the first two of the solved notebooks are whole. Of the others, imports, answers and checks are left: running
    all five with their experiments takes nbgrader about 80 seconds for each learner.
    """

    def whole(stem: str, answers: dict[str, str]) -> Any:
        return notebook.fill(notebook.read(release / f"{stem}.ipynb"), answers)

    def short(stem: str, answers: dict[str, str]) -> Any:
        book = whole(stem, answers)
        book.cells = [cell for cell in book.cells if cell.id == "imports" or tags(cell) & {"exercise", "check"}]
        return book

    lost = short(START, SOLUTIONS)
    lost.cells = [cell for cell in lost.cells if cell.id == "imports"]
    return {
        "lost": {START: lost},
        "blank": {stem: short(stem, {}) for stem in (START, NOTEBOOKS[3])},  # the others are missing
        "solved": {stem: (whole if stem in (START, ONE) else short)(stem, SOLUTIONS) for stem in NOTEBOOKS},
        "mistaken": {stem: short(stem, SOLUTIONS | MISTAKES) for stem in (ONE, FOUR)},
        "noisy": {ONE: noisy(short(ONE, SOLUTIONS))},
        "edited": {ONE: edited(short(ONE, SOLUTIONS | MISTAKES))},
    }


NOISE = {
    "attention_scores": 'warnings.warn("deprecated", stacklevel=1)',
    "softmax": 'print("as a log handler does that was made before", file=kept_stderr)',
    "dot_product_std": 'os.write(2, b"below Python")',
    "attention_parameters": 'print("to see it", file=sys.stderr)',
}


def noisy(book: Any) -> Any:
    """Right answers that say something on stderr, each in its own way."""
    cell_of(book, "imports").source += "\nimport os, sys, warnings\nkept_stderr = sys.stderr"
    for name, line in NOISE.items():
        cell = cell_of(book, f"exercise-{name}")
        assert cell.source.count("\n    return ") == 1  # the docstring says "returns:"
        cell.source = cell.source.replace("\n    return ", f"\n    {line}\n    return ")
    return book


def edited(book: Any) -> Any:
    """A notebook in which somebody turned more than the answers."""
    cell_of(book, "check-attention_scores").source = "4.0"  # a wrong answer with a check of its own
    cell_of(book, "exercise-attention_parameters").source = "attention_parameters = softmax"  # another exercise's
    for cell_id in ("check-softmax", "exercise-dot_product_std"):
        cell = cell_of(book, cell_id)
        twin = copy.deepcopy(cell)
        twin.id = f"copy-of-{cell_id}"
        book.cells.insert(book.cells.index(cell), twin)
    book.cells.remove(cell_of(book, "check-SelfAttentionV1"))
    return book


@pytest.mark.parametrize("stem", NOTEBOOKS)
def test_the_release_is_the_course_with_open_blanks(course: Course, stem: str) -> None:
    before, after = shipped(stem).cells, course.release(stem).cells
    assert [(cell.id, tags(cell)) for cell in after] == [(cell.id, tags(cell)) for cell in before]
    checks = {f"check-{task.name}" for task in EXERCISES}
    assert {c.id: c.source for c in after if c.id not in checks} == {
        c.id: c.source for c in before if c.id not in checks
    }


@pytest.mark.parametrize("stem", NOTEBOOKS)
def test_the_release_holds_no_solution(course: Course, stem: str) -> None:
    released = (course.folder / f"release/attention/{stem}.ipynb").read_text("utf-8")
    assert "SOLUTION" not in released
    seen = {line.strip() for cell in course.release(stem).cells for line in cell.source.splitlines()}
    public = {line.strip() for cell in shipped(stem).cells for line in cell.source.splitlines()}
    answers = {line.strip() for text in SOLUTIONS.values() for line in text.splitlines()}
    assert seen & answers <= public
    assert answers - public


def test_the_released_check_cells_show_the_card(course: Course) -> None:
    book = course.release(START)
    book.cells = [cell for cell in book.cells if cell.id == "imports" or tags(cell) & {"exercise", "check"}]
    assert notebook.run(book, folder=course.folder) == []
    (output,) = cell_of(book, "check-weighted_average").outputs
    assert 'role="status"' in output.data["text/html"]
    assert "not started" in output.data["text/plain"]


def test_a_blank_gets_no_points(course: Course) -> None:
    assert course.points["blank"] == dict.fromkeys(POINTS, 0.0)
    assert "SelfAttentionV3: not started." in course.feedback("blank", NOTEBOOKS[3])


def test_the_right_answers_get_all_points(course: Course) -> None:
    assert course.points["solved"] == POINTS
    assert "MultiHeadAttention: passed, 16 of 16 points." in course.feedback("solved", FOUR)


def test_one_mistake_costs_its_own_points_only(course: Course) -> None:
    points = course.points["mistaken"]
    assert points["check-attention_scores"] == 0
    assert 0 < points["check-MultiHeadAttention"] < POINTS["check-MultiHeadAttention"]
    handed_in = [
        f"check-{task.name}" for task in EXERCISES if task.notebook in (ONE, FOUR) and task.name not in MISTAKES
    ]
    assert {cell: points[cell] for cell in handed_in} == {cell: POINTS[cell] for cell in handed_in}


@pytest.mark.parametrize(("name", "stem"), [("attention_scores", ONE), ("MultiHeadAttention", FOUR)])
def test_the_feedback_holds_the_words_about_the_mistake(course: Course, name: str, stem: str) -> None:
    finding = judge.check_answer(made(name, MISTAKES[name]), name).findings[0]
    page = course.feedback("mistaken", stem)
    assert f"[{finding.id}]" in page
    assert finding.message in page
    assert finding.hint in page
    assert "nbgrader_cell.py" not in page  # no traceback of ours


def test_noise_costs_nothing(course: Course) -> None:
    checks = [f"check-{task.name}" for task in EXERCISES if task.notebook == ONE]
    assert {cell: course.points["noisy"][cell] for cell in checks} == {cell: POINTS[cell] for cell in checks}


def test_turned_cells_neither_gain_nor_lose_points(course: Course) -> None:
    points = course.points["edited"]
    assert points["check-attention_scores"] == 0  # its own check was put back
    assert points["check-attention_parameters"] == 0  # a right answer to another exercise is none to this one
    assert points["check-softmax"] == POINTS["check-softmax"]  # a check that was copied
    assert points["check-dot_product_std"] == POINTS["check-dot_product_std"]  # an answer that was copied
    assert points["check-SelfAttentionV1"] == POINTS["check-SelfAttentionV1"]  # a check that was deleted


def test_a_notebook_that_nbgrader_cannot_mend_is_reported_and_the_others_are_graded(course: Course) -> None:
    assert re.findall(r"error processing assignment 'attention' for student '(\w+)'", course.log) == ["lost"]
    assert set(course.points) >= {"blank", "solved", "mistaken", "noisy", "edited"}

"""The course itself: blanks, headings, hints and solutions fit together, and every notebook can be solved."""

from __future__ import annotations

import ast
import json
import os
import re
import subprocess
import sys
from functools import cache
from pathlib import Path
from statistics import median
from typing import Any

import pytest
from typer.testing import CliRunner

from helpers import notebook, paths, source
from helpers.__main__ import app
from helpers.course import BY_NAME, EXERCISES, NOTEBOOKS, Exercise
from helpers.judge import answer_book, check_answer

NAMES = [exercise.name for exercise in EXERCISES]
HEADING = re.compile(r"^#+ Exercise: `(\w+)` · (\d+) points · (\d+) minutes$", re.MULTILINE)


def path_of(stem: str) -> Path:
    return paths.NOTEBOOKS / f"{stem}.ipynb"


@cache
def shipped(stem: str) -> Any:
    """The notebook as JSON, untouched by any mending."""
    path = path_of(stem)
    assert path.exists(), f"{path} is not there, but helpers/course.py names it"
    return json.loads(path.read_text("utf-8"))


def text_of(cell: dict[str, Any]) -> str:
    return "".join(cell["source"])


def code_cells(stem: str) -> list[dict[str, Any]]:
    return [cell for cell in shipped(stem)["cells"] if cell["cell_type"] == "code"]


def tags_of(cell: dict[str, Any]) -> list[str]:
    return list(cell["metadata"].get("tags", []))


def tagged(stem: str, tag: str) -> dict[str, dict[str, Any]]:
    return {cell["id"]: cell for cell in code_cells(stem) if tag in tags_of(cell)}


def blank_in_notebook(exercise: Exercise) -> str:
    cells = tagged(exercise.notebook, "exercise")
    found = [text for cell in cells.values() if (text := source.definition(text_of(cell), exercise.name))]
    assert len(found) == 1, f"{exercise.notebook} holds {len(found)} blanks of {exercise.name}"
    return found[0]


def solution_of(name: str) -> str:
    text = source.solution(name, paths.SOLUTIONS)
    assert text is not None, f"solutions/ does not define {name}"
    return text


@cache
def solved(name: str) -> Any:
    """The right answer, run from its text: nothing here imports `solutions`."""
    namespace: dict[str, Any] = {"__name__": "__main__"}
    exec(solution_of(name), namespace)
    return namespace[name]


def opened(exercise: Exercise) -> Any:
    """The blank as a learner's kernel holds it."""
    imports = "\n".join(source.imports(solution_of(exercise.name)).values())
    namespace: dict[str, Any] = {"__name__": "__main__"}
    exec(f"{imports}\n{blank_in_notebook(exercise)}", namespace)
    return namespace[exercise.name]


# --- the plan ---


def test_the_course_sums_to_100_points() -> None:
    assert sum(exercise.points for exercise in EXERCISES) == 100


@pytest.mark.parametrize("name", NAMES)
def test_every_exercise_has_three_hints(name: str) -> None:
    hints = BY_NAME[name].hints
    assert len(hints) == 3
    assert all(hint.strip() for hint in hints)
    assert len(set(hints)) == 3


@pytest.mark.parametrize("name", NAMES)
def test_every_exercise_has_one_blank_and_one_check(name: str) -> None:
    stem = BY_NAME[name].notebook
    exercises, checks = tagged(stem, "exercise"), tagged(stem, "check")
    assert f"exercise-{name}" in exercises
    assert text_of(checks[f"check-{name}"]) == f"check({name})"
    order = [cell["id"] for cell in shipped(stem)["cells"]]
    assert order.index(f"exercise-{name}") < order.index(f"check-{name}")


@pytest.mark.parametrize("stem", NOTEBOOKS)
def test_no_notebook_holds_an_exercise_that_the_course_does_not_name(stem: str) -> None:
    expected = {exercise.name for exercise in EXERCISES if exercise.notebook == stem}
    cells = tagged(stem, "exercise").values()
    assert {name for cell in cells for name in source.definitions(text_of(cell))} == expected


@pytest.mark.parametrize("stem", NOTEBOOKS)
def test_headings_name_the_points_and_minutes_of_the_course(stem: str) -> None:
    text = "\n".join(text_of(cell) for cell in shipped(stem)["cells"] if cell["cell_type"] == "markdown")
    headings = [(name, int(points), int(minutes)) for name, points, minutes in HEADING.findall(text)]
    assert headings == [(e.name, e.points, e.minutes) for e in EXERCISES if e.notebook == stem]
    assert len(headings) == len(re.findall(r"^#+ Exercise", text, flags=re.MULTILINE))


# --- blanks and solutions ---


@pytest.mark.parametrize("name", NAMES)
def test_a_blank_is_its_solution_without_the_bodies(name: str) -> None:
    expected = source.blank_of(source.without_imports(solution_of(name)))
    in_notebook = blank_in_notebook(BY_NAME[name])
    assert ast.dump(ast.parse(in_notebook)) == ast.dump(ast.parse(expected))


@pytest.mark.parametrize("name", NAMES)
def test_reset_gives_the_blank_of_the_notebook(name: str) -> None:
    recorded = source.without_imports(answer_book.blank(name))
    assert ast.dump(ast.parse(recorded)) == ast.dump(ast.parse(blank_in_notebook(BY_NAME[name])))


@pytest.mark.parametrize("name", NAMES)
def test_a_blank_as_shipped_is_not_started(name: str) -> None:
    blank = opened(BY_NAME[name])
    verdict = check_answer(blank, name)
    assert (verdict.status, verdict.points) == ("not started", 0)
    assert repr(verdict) == repr(check_answer(blank, name))


@pytest.mark.parametrize("name", NAMES)
def test_a_solution_passes(name: str) -> None:
    verdict = check_answer(solved(name), name)
    assert verdict.passed, repr(verdict)
    assert verdict.points == BY_NAME[name].points


NO_SOLUTIONS = """
import json, sys

class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "solutions":
            raise ImportError("the solutions are hidden")

sys.meta_path.insert(0, Blocked())
try:
    import solutions
    sys.exit("the solutions can be imported")
except ImportError:
    pass
from helpers.judge import check_answer
for name, text in json.load(sys.stdin).items():
    names = {"__name__": "__main__"}
    exec(text, names)
    verdict = check_answer(names[name], name)
    print(name, verdict.status)
"""


def test_all_checks_run_where_the_solutions_cannot_be_imported() -> None:
    answers = json.dumps({name: solution_of(name) for name in NAMES})
    command = [sys.executable, "-c", NO_SOLUTIONS]
    done = subprocess.run(command, input=answers, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [f"{name} passed" for name in NAMES]


# --- how a notebook is kept ---


@pytest.mark.parametrize("stem", NOTEBOOKS)
def test_ids_are_unique_and_speaking(stem: str) -> None:
    ids = [cell["id"] for cell in shipped(stem)["cells"]]
    assert len(ids) == len(set(ids))
    assert [id for id in ids if not re.fullmatch(r"[A-Za-z][A-Za-z0-9_]*(-[A-Za-z0-9_]+)*", id)] == []
    generated = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4,})*")
    assert [id for id in ids if generated.fullmatch(id)] == []


@pytest.mark.parametrize("stem", NOTEBOOKS)
def test_execution_counts_are_clean(stem: str) -> None:
    counts = [cell["execution_count"] for cell in code_cells(stem)]
    assert counts == list(range(1, len(counts) + 1))


@pytest.mark.parametrize("stem", NOTEBOOKS)
def test_outputs_and_metadata_hold_nothing_of_a_machine(stem: str) -> None:
    data = shipped(stem)
    assert (data["nbformat"], data["nbformat_minor"]) == (4, 5)
    assert set(data["metadata"]) == {"kernelspec", "language_info"}
    assert data["metadata"]["kernelspec"]["name"] == "python3"
    assert "version" not in data["metadata"]["language_info"]
    assert [cell["id"] for cell in data["cells"] if set(cell["metadata"]) - {"tags"}] == []
    outputs = [output for cell in code_cells(stem) for output in cell["outputs"]]
    assert [output for output in outputs if output["output_type"] == "error"] == []
    assert [output for output in outputs if output.get("name") == "stderr"] == []
    assert str(paths.ROOT) not in path_of(stem).read_text("utf-8")


@pytest.mark.parametrize("stem", NOTEBOOKS)
def test_code_cells_are_short(stem: str) -> None:
    lengths = {cell["id"]: len(text_of(cell).splitlines()) for cell in code_cells(stem)}
    assert {id: length for id, length in lengths.items() if length > 40} == {}
    assert median(lengths.values()) < 15


@pytest.mark.parametrize("stem", NOTEBOOKS)
def test_the_first_code_cell_only_imports(stem: str) -> None:
    body = ast.parse(text_of(code_cells(stem)[0])).body
    assert [type(node) for node in body if not isinstance(node, ast.Import | ast.ImportFrom)] == []


@pytest.mark.parametrize("stem", NOTEBOOKS)
def test_a_notebook_ends_with_what_one_can_now_say(stem: str) -> None:
    last = [cell for cell in shipped(stem)["cells"] if cell["cell_type"] == "markdown"][-1]
    assert "You can now say" in text_of(last)


@pytest.mark.parametrize("stem", NOTEBOOKS)
def test_no_cell_of_a_learner_reaches_for_the_solutions(stem: str) -> None:
    imported = [line for cell in code_cells(stem) for line in source.imports(text_of(cell)).values()]
    assert [line for line in imported if "solutions" in line] == []


# --- solved notebooks ---


@pytest.fixture(scope="module")
def solved_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Every notebook of the course, solved."""
    folder = tmp_path_factory.mktemp("solved")
    for stem in NOTEBOOKS:
        if path_of(stem).exists():  # a missing one fails in its own tests
            answers = {e.name: solution_of(e.name) for e in EXERCISES if e.notebook == stem}
            filled = notebook.fill(notebook.read(path_of(stem)), answers)
            notebook.write(filled, folder / f"{stem}.ipynb")
    return folder


@pytest.mark.parametrize("stem", NOTEBOOKS)
def test_a_solved_notebook_runs_with_every_check_passed(stem: str, solved_folder: Path) -> None:
    options = ["--nbval-lax", "--nbval-current-env", "--nbval-cell-timeout=120", "--timeout=250"]
    command = [sys.executable, "-m", "pytest", "-q", *options, "-p", "no:cacheprovider", f"{stem}.ipynb"]
    strict = {**os.environ, "CHECK_STRICT": "1", "ATTENTION_PROGRESS": "off"}
    done = subprocess.run(command, cwd=solved_folder, env=strict, capture_output=True, text=True, timeout=280)
    assert done.returncode == 0, done.stdout[-3000:]
    assert f"{len(code_cells(stem))} passed" in done.stdout


def test_a_solved_notebook_is_graded_with_full_points(solved_folder: Path) -> None:
    stem = "01_self_attention_v1"
    result = CliRunner().invoke(app, ["grade", str(solved_folder / f"{stem}.ipynb"), "--json", "--timeout", "120"])
    grade = json.loads(result.stdout)
    assert result.exit_code == 0, json.dumps(grade, indent=1)
    assert grade["points"] == sum(exercise.points for exercise in EXERCISES if exercise.notebook == stem)

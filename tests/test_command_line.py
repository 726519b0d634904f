"""The command line: grading, solving and refreshing notebooks, with real kernels and the real judge."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook
from typer.testing import CliRunner

from helpers import notebook, paths, source
from helpers.__main__ import app
from helpers.course import BY_NAME

AVERAGE = "def weighted_average(weights, values):\n    return weights @ values"
WRONG = "def weighted_average(weights, values):\n    return values"
BLANK = "def weighted_average(weights, values):\n    raise NotImplementedError"


def run(*arguments: object) -> Any:
    return CliRunner().invoke(app, [str(argument) for argument in arguments], env={"COLUMNS": "120"})


def saved(path: Path, *cells: Any) -> Path:
    made = new_notebook(cells=[new_code_cell(cell) if isinstance(cell, str) else cell for cell in cells])
    notebook.write(made, path)
    return path


def graded(path: Path, *options: object) -> Any:
    result = run("grade", path, "--json", *options)
    return json.loads(result.stdout)


@pytest.fixture
def start(tmp_path: Path) -> Path:
    return tmp_path / "00_start_here.ipynb"


# --- grade ---


def test_a_right_notebook_is_passed(start: Path) -> None:
    result = run("grade", saved(start, AVERAGE))
    assert result.exit_code == 0, result.output
    assert "weighted_average" in result.stdout
    assert "passed" in result.stdout
    assert "2 of 2 points" in result.stdout


def test_an_open_notebook_is_not_passed(start: Path) -> None:
    result = run("grade", saved(start, BLANK))
    assert result.exit_code == 1
    assert "not started" in result.stdout
    assert "0 of 2 points" in result.stdout


def test_a_wrong_answer_is_told_what_was_found(start: Path) -> None:
    result = run("grade", saved(start, WRONG))
    assert result.exit_code == 1
    assert "0 of 2 points" in result.stdout
    (row,) = [line for line in result.stdout.splitlines() if "weighted_average" in line and "│" in line]
    name, points, state, found = [part.strip() for part in row.strip("│").split("│")]
    assert (name, points) == ("weighted_average", "0 / 2")
    assert state in ("wrong", "error")
    assert found


def test_json_stands_alone_on_stdout(start: Path) -> None:
    noise = "import os\nprint('noise')\nos.system('echo noise')\nimport warnings\nwarnings.warn('noise')"
    command = [sys.executable, "-m", "helpers", "grade", saved(start, noise, AVERAGE), "--json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stderr) == (0, "")
    grade = json.loads(done.stdout)
    (one,) = grade.pop("notebooks")
    (exercise,) = one.pop("exercises")
    assert grade == {"passed": True, "points": 2, "max_points": 2}
    assert one == {"notebook": str(start), **grade, "error": None, "notes": []}
    assert (exercise["exercise"], exercise["status"]) == ("weighted_average", "passed")


@pytest.mark.parametrize("name", ["00_start_here (1).ipynb", "jane_00_start_here.ipynb"])
def test_a_renamed_file_still_owes_every_exercise(tmp_path: Path, name: str) -> None:
    grade = graded(saved(tmp_path / name, "x = 1"))
    (exercise,) = grade["notebooks"][0]["exercises"]
    assert exercise["status"] == "not started"
    assert exercise["findings"][0]["message"] == "No cell defines weighted_average."


def test_a_file_of_any_name_is_graded_by_what_it_defines_or_asks_for(tmp_path: Path) -> None:
    asked = new_markdown_cell("### Exercise: `softmax` · 4 points · 5 minutes")
    grade = graded(saved(tmp_path / "mine.ipynb", AVERAGE, asked))
    states = {e["exercise"]: e["status"] for e in grade["notebooks"][0]["exercises"]}
    assert states == {"weighted_average": "passed", "softmax": "not started"}


def test_a_file_without_any_exercise_says_so(tmp_path: Path) -> None:
    result = run("grade", saved(tmp_path / "mine.ipynb", "x = 1"))
    assert result.exit_code == 1
    assert "No cell defines an exercise of the course." in result.stdout


@pytest.mark.parametrize(("cells", "passed"), [((WRONG, AVERAGE), True), ((AVERAGE, WRONG), False)])
def test_of_two_definitions_the_last_counts_and_it_is_said(start: Path, cells: tuple[str, str], passed: bool) -> None:
    grade = graded(saved(start, *cells))
    assert grade["passed"] is passed
    assert grade["notebooks"][0]["notes"] == [
        "weighted_average is defined more than once, in cells 1, 2. The last one that ran counts."
    ]


@pytest.fixture(scope="module")
def troubled(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The grade of one notebook with many troubles and one right answer, without ids, tags and metadata."""
    path = tmp_path_factory.mktemp("troubled") / "mine.ipynb"
    loud = AVERAGE.replace("    return", "    print('line\\n' * 1000)\n    return")
    sources = [
        "1 / 0",
        "def f(:",
        "open = globals = str = json = Path = helpers = None",
        loud,
        "def softmax(scores)\n    return scores",
        "@undefined\ndef dot_product_std(d):\n    return d ** 0.5",
    ]
    cells = [{"cell_type": "code", "source": text} for text in sources]
    cells.append({"cell_type": "markdown", "source": "def causal_mask(length):\n    return None"})
    path.write_text(json.dumps({"cells": cells, "nbformat": 4, "nbformat_minor": 2}), encoding="utf-8")
    (grade,) = graded(path)["notebooks"]
    return grade


def told(grade: dict[str, Any], name: str) -> tuple[str, str]:
    """Status and first message of one exercise."""
    (exercise,) = [one for one in grade["exercises"] if one["exercise"] == name]
    return exercise["status"], exercise["findings"][0]["message"] if exercise["findings"] else ""


def test_bad_cells_taken_names_and_a_thousand_lines_cost_a_right_answer_nothing(
    troubled: dict[str, Any],
) -> None:
    assert told(troubled, "weighted_average")[0] == "passed"
    assert troubled["points"] == 2


def test_every_cell_that_stopped_is_noted(troubled: dict[str, Any]) -> None:
    assert troubled["notes"][:2] == [
        "Cell 1 (1 / 0) stopped: ZeroDivisionError: division by zero.",
        "Cell 2 (def f(:) stopped: syntax error, line 1: invalid syntax.",
    ]
    assert len(troubled["notes"]) == 4


def test_a_syntax_error_in_an_answer_is_located(troubled: dict[str, Any]) -> None:
    message = "Cell 5, which defines it, stopped: syntax error, line 1: expected ':'."
    assert told(troubled, "softmax") == ("error", message)


def test_an_answer_whose_cell_stops_is_located(troubled: dict[str, Any]) -> None:
    message = "Cell 6, which defines it, stopped: NameError: name 'undefined' is not defined."
    assert told(troubled, "dot_product_std") == ("error", message)


def test_an_answer_in_a_text_cell_is_located(troubled: dict[str, Any]) -> None:
    message = "Cell 7 holds it, but is a markdown cell. Turn it into a code cell."
    assert told(troubled, "causal_mask") == ("error", message)


def test_endless_loops_cost_only_themselves(tmp_path: Path) -> None:
    endless = "def weighted_average(weights, values):\n    while True: pass"
    other = "def dot_product_std(d):\n    return d ** 0.5"
    cells = ["import helpers.judge", "while True: pass", endless, other]
    (grade,) = graded(saved(tmp_path / "mine.ipynb", *cells), "--timeout", "8")["notebooks"]
    assert grade["notes"] == ["Cell 2 (while True: pass) stopped: it ran for more than 8 seconds."]
    assert told(grade, "weighted_average")[0] != "passed"
    assert told(grade, "dot_product_std")[0] == "passed"


def test_a_folder_is_graded_to_its_end(tmp_path: Path) -> None:
    (tmp_path / "a.ipynb").write_text("{", encoding="utf-8")
    (tmp_path / "b.ipynb").write_text("{}", encoding="utf-8")
    saved(tmp_path / "c.ipynb", f"{AVERAGE}\nimport os\nos._exit(1)")
    saved(tmp_path / "d.ipynb", AVERAGE)
    result = run("grade", tmp_path, "--json")
    one, two, three, four = json.loads(result.stdout)["notebooks"]
    assert result.exit_code == 1
    assert "it is not JSON (line 1" in one["error"]
    assert "it has no cells" in two["error"]
    assert "The kernel died in cell 1" in three["error"]
    assert three["exercises"][0]["status"] == "error"
    assert four["passed"]


def test_grading_changes_neither_the_notebook_nor_the_progress(start: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ATTENTION_PROGRESS", str(start.parent / "progress.json"))
    monkeypatch.setenv("CHECK_STRICT", "1")
    saved(start, "from helpers import check", WRONG, "check(weighted_average)")
    before = start.read_bytes()
    grade = graded(start)
    assert grade["notebooks"][0]["notes"] == []  # the check reports, although the caller's checks are strict
    assert start.read_bytes() == before
    assert [path.name for path in start.parent.iterdir()] == [start.name]


@pytest.mark.parametrize("arguments", [["grade", "nowhere.ipynb"], ["grade"], ["grade", ".", "--timeout", "0"]])
def test_wrong_use_is_exit_code_2(arguments: list[str]) -> None:
    assert run(*arguments).exit_code == 2


def test_an_empty_folder_is_exit_code_2(tmp_path: Path) -> None:
    result = run("grade", tmp_path)
    assert result.exit_code == 2
    assert "There is no notebook in" in result.stderr


# --- solve ---


@pytest.fixture
def open_blank(start: Path) -> Path:
    return saved(start, "import torch", "x = 1", BLANK)


def test_a_blank_notebook_is_solved(open_blank: Path) -> None:
    solved = open_blank.with_name("solved_00_start_here.ipynb")
    result = run("solve", open_blank, "--to", solved)
    assert result.exit_code == 0, result.output
    assert "filled weighted_average" in result.stdout
    assert "return weights @ values" in notebook.read(solved).cells[2].source
    assert BLANK in notebook.read(open_blank).cells[2].source
    assert graded(solved)["passed"]


def test_solving_does_not_write_over_a_file(open_blank: Path) -> None:
    target = open_blank.with_name("precious.ipynb")
    target.write_text("precious", encoding="utf-8")
    result = run("solve", open_blank, "--to", target)
    assert result.exit_code == 2
    assert "precious.ipynb exists" in result.stderr
    assert target.read_text("utf-8") == "precious"
    assert run("solve", open_blank, "--to", target, "--force").exit_code == 0
    assert "weights @ values" in target.read_text("utf-8")


def test_solving_never_takes_the_place_of_the_notebook_itself(open_blank: Path) -> None:
    before = open_blank.read_bytes()
    result = run("solve", open_blank, "--to", open_blank, "--force")
    assert result.exit_code == 2
    assert open_blank.read_bytes() == before


def test_a_copy_without_solutions_cannot_solve(
    open_blank: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(paths, "SOLUTIONS", tmp_path / "solutions")
    result = run("solve", open_blank, "--to", tmp_path / "solved.ipynb")
    assert result.exit_code == 2
    assert "This copy of the course holds no solutions" in result.stderr


def test_where_nothing_is_to_fill_nothing_is_written(tmp_path: Path) -> None:
    target = tmp_path / "solved.ipynb"
    result = run("solve", saved(tmp_path / "mine.ipynb", "x = 1"), "--to", target)
    assert result.exit_code == 2
    assert "nothing to fill" in result.stderr
    assert not target.exists()


def test_what_is_not_a_notebook_cannot_be_solved(tmp_path: Path) -> None:
    (tmp_path / "mine.ipynb").write_text("{", encoding="utf-8")
    result = run("solve", tmp_path / "mine.ipynb", "--to", tmp_path / "solved.ipynb")
    assert result.exit_code == 2
    assert "it is not JSON" in result.stderr


def test_solving_says_which_cell_it_could_not_read(start: Path) -> None:
    result = run("solve", saved(start, "def f(:", BLANK), "--to", start.with_name("solved.ipynb"))
    assert result.exit_code == 0
    assert "Cell 1 was left as it is: line 1: invalid syntax." in result.stderr


@pytest.mark.parametrize("name", BY_NAME)
def test_every_exercise_has_a_solution_with_its_imports(name: str) -> None:
    text = source.solution(name, paths.SOLUTIONS)
    assert text is not None
    namespace: dict[str, Any] = {"__name__": "solution"}
    exec(compile(text, name, "exec"), namespace)
    assert namespace[name].__name__ == name


# --- refresh ---


def test_refreshing_saves_clean_outputs_in_place(start: Path) -> None:
    saved(start, "print('hello')", "1 + 1")
    first = run("refresh", start)
    once = start.read_bytes()
    assert first.exit_code == 0, first.output
    assert [cell.execution_count for cell in notebook.read(start).cells] == [1, 2]
    run("refresh", start)
    assert start.read_bytes() == once


def test_a_notebook_that_stops_stays_as_it_was(start: Path) -> None:
    saved(start, "print('hello')", "1 / 0")
    before = start.read_bytes()
    result = run("refresh", start)
    assert result.exit_code == 2
    assert "Cell 2 stopped: ZeroDivisionError" in result.stderr
    assert start.read_bytes() == before


def test_without_names_the_whole_course_is_refreshed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(paths, "NOTEBOOKS", tmp_path)
    monkeypatch.setattr("helpers.__main__.NOTEBOOKS", ("one", "two"))
    for stem in ("one", "two"):
        saved(tmp_path / f"{stem}.ipynb", "1 + 1")
    assert run("refresh").stdout.count("refreshed") == 2


# --- help ---


def test_help_lists_the_commands() -> None:
    shown = run("--help").stdout
    assert all(command in shown for command in ("grade", "solve", "refresh"))


@pytest.mark.parametrize("command", ["grade", "solve", "refresh"])
def test_every_command_explains_itself(command: str) -> None:
    result = run(command, "--help")
    assert result.exit_code == 0
    assert "--help" in result.stdout

"""Reading, filling and running notebooks, also those that other editors and other hands have damaged."""

from __future__ import annotations

import ast
import json
from pathlib import Path
from typing import Any

import pytest

from helpers import notebook, source
from helpers.notebook import CellTrouble, NotebookError
from solutions import self_attention_v1

BLANK = '''def softmax(scores):
    """Rows that sum to 1."""
    raise NotImplementedError'''
SOLUTION = '''import torch


# one line is enough
def softmax(scores):
    """Rows that sum to 1."""
    return torch.softmax(scores, dim=-1)'''


def code(text: str, **fields: Any) -> dict[str, Any]:
    plain = {"cell_type": "code", "id": f"cell-{abs(hash(text))}", "metadata": {}, "source": text}
    return {**plain, "outputs": [], "execution_count": None, **fields}


def words(text: str) -> dict[str, Any]:
    return {"cell_type": "markdown", "id": f"words-{abs(hash(text))}", "metadata": {}, "source": text}


def saved(folder: Path, *cells: dict[str, Any], **fields: Any) -> Path:
    path = folder / "walk.ipynb"
    data = {"cells": list(cells), "metadata": {}, "nbformat": 4, "nbformat_minor": 5, **fields}
    path.write_text(json.dumps(data), encoding="utf-8")
    return path


def read(folder: Path, *cells: dict[str, Any], **fields: Any) -> Any:
    return notebook.read(saved(folder, *cells, **fields))


# --- reading ---


def test_a_notebook_is_read(tmp_path: Path) -> None:
    found = read(tmp_path, words("# Hello"), code("x = 1"))
    assert [cell.source for cell in found.cells] == ["# Hello", "x = 1"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "it is empty"),
        ("  \n", "it is empty"),
        ("x = 1", r"it is not JSON \(line 1"),
        ('{"cells": [\n{"cell', r"it is not JSON \(line 2"),
        ("[]", "it has no cells"),
        ("{}", "it has no cells"),
        ('{"nbformat": 4, "metadata": {}}', "it has no cells"),
        ('{"cells": {}, "nbformat": 4}', "its cells are not a list"),
        ('{"cells": ["x = 1"], "nbformat": 4}', "cell 1 has no source"),
        ('{"cells": [{"cell_type": "code"}], "nbformat": 4}', "cell 1 has no source"),
        ("[" * 100_000, "it is nested too deeply"),
    ],
)
def test_what_is_not_a_notebook_is_told_in_words(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "walk.ipynb"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(NotebookError, match=rf"walk\.ipynb is not a notebook: {said}.*\.ipynb_checkpoints\."):
        notebook.read(path)


def test_bytes_that_are_not_text_are_told_in_words(tmp_path: Path) -> None:
    path = tmp_path / "walk.ipynb"
    path.write_bytes(b"\xff\xfe\x00\x01")
    with pytest.raises(NotebookError, match="it is not text"):
        notebook.read(path)


def test_a_missing_file_is_told_in_words(tmp_path: Path) -> None:
    with pytest.raises(NotebookError, match=r"nowhere\.ipynb cannot be read: No such file.*Is the path right"):
        notebook.read(tmp_path / "nowhere.ipynb")


@pytest.mark.parametrize(
    "fields",
    [
        {"cells": [{"cell_type": "dance", "source": "x"}]},
        {"nbformat": 99},
        {"nbformat": "four"},
        {"cells": [{"cell_type": "code", "source": 7, "metadata": {}}]},
    ],
)
def test_a_damaged_format_is_told_in_words(tmp_path: Path, fields: dict[str, Any]) -> None:
    with pytest.raises(NotebookError, match=r"walk\.ipynb is damaged: .+ Open it in JupyterLab"):
        read(tmp_path, **fields)


def test_a_notebook_without_any_cell_is_a_notebook(tmp_path: Path) -> None:
    assert read(tmp_path).cells == []


def test_lost_fields_do_no_harm(tmp_path: Path) -> None:
    bare = {"cell_type": "code", "source": ["x = 1\n", "y = 2"]}
    found = read(tmp_path, bare, {"source": "z = 3"}, metadata=None)
    assert [cell.source for cell in found.cells] == ["x = 1\ny = 2", "z = 3"]
    assert len({cell.id for cell in found.cells}) == 2


def test_doubled_ids_are_mended(tmp_path: Path) -> None:
    found = read(tmp_path, code("x = 1", id="same"), code("x = 2", id="same"))
    assert len({cell.id for cell in found.cells}) == 2


def test_an_older_format_is_read(tmp_path: Path) -> None:
    cell = {"cell_type": "code", "input": "x = 1", "language": "python", "outputs": [], "metadata": {}}
    old = {"nbformat": 3, "nbformat_minor": 0, "metadata": {"name": ""}, "worksheets": [{"cells": [cell]}]}
    path = tmp_path / "old.ipynb"
    path.write_text(json.dumps(old), encoding="utf-8")
    assert notebook.read(path).cells[0].source == "x = 1"


# --- writing ---


def test_what_is_written_is_read_back(tmp_path: Path) -> None:
    target = tmp_path / "copy.ipynb"
    notebook.write(read(tmp_path, code("x = 1")), target)
    assert notebook.read(target).cells[0].source == "x = 1"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["copy.ipynb", "walk.ipynb"]


def test_a_place_that_cannot_be_written_is_told_in_words(tmp_path: Path) -> None:
    with pytest.raises(NotebookError, match=r"copy\.ipynb cannot be written: No such file or directory"):
        notebook.write(read(tmp_path), tmp_path / "no folder" / "copy.ipynb")


# --- finding answers ---


def test_answers_are_found_by_name_wherever_they_stand(tmp_path: Path) -> None:
    found = read(tmp_path, words("def f(): no code"), code("import torch"), code(BLANK), code("f = abs\nx: int = 1"))
    assert notebook.find_answers(found).cells == {"softmax": (3,), "f": (4,), "x": (4,)}


def test_an_answer_defined_twice_names_both_cells(tmp_path: Path) -> None:
    found = read(tmp_path, code(BLANK), code("y = 1"), code(SOLUTION))
    assert notebook.find_answers(found).cells["softmax"] == (1, 3)


def test_a_syntax_error_in_one_cell_hides_no_other(tmp_path: Path) -> None:
    found = notebook.find_answers(read(tmp_path, code("x = 1\ndef f(:\n    pass"), code(BLANK)))
    assert found.cells == {"softmax": (2,)}
    assert found.broken == {1: "line 2: invalid syntax"}


@pytest.mark.parametrize(
    "line",
    ["%matplotlib inline", "!ls", "torch?", "?torch", "%%time", "await something()", "# only words", ""],
)
def test_lines_for_ipython_are_no_syntax_errors(tmp_path: Path, line: str) -> None:
    found = notebook.find_answers(read(tmp_path, code(f"{line}\n{BLANK}")))
    assert (dict(found.cells), dict(found.broken)) == ({"softmax": (1,)}, {})


def test_a_cell_of_another_language_is_left_alone(tmp_path: Path) -> None:
    found = notebook.find_answers(read(tmp_path, code("%%bash\nfor f in *; do echo $f; done")))
    assert (dict(found.cells), dict(found.broken)) == ({}, {})


def test_a_null_character_is_a_syntax_error_like_any_other(tmp_path: Path) -> None:
    assert list(notebook.find_answers(read(tmp_path, code("x = '\0'"))).broken) == [1]


# --- blanks ---


def test_a_blank_keeps_signature_and_docstring() -> None:
    assert source.blank_of(source.without_imports(SOLUTION)) == f"# one line is enough\n{BLANK}"


def test_the_blank_of_a_class_keeps_its_shape() -> None:
    text = '''class Layer(Module):
    """A layer."""

    width: int = 3

    def __init__(self, d: int):
        # the secret
        super().__init__()
        self.d = d

    @property
    def size(self) -> int:
        """How large."""
        # the secret
        def inner():
            return 1
        return inner()'''
    expected = '''class Layer(Module):
    """A layer."""

    width: int = 3

    def __init__(self, d: int):
        raise NotImplementedError

    @property
    def size(self) -> int:
        """How large."""
        raise NotImplementedError'''
    assert source.blank_of(text) == expected


def test_a_blank_of_the_course_holds_nothing_of_its_solution() -> None:
    text = Path(self_attention_v1.__file__).read_text("utf-8")
    blank = source.blank_of(source.definition(text, "SelfAttentionV1") or "")
    assert "nn.Linear" not in blank
    assert "(B, L, hidden_dim) → (B, L, hidden_dim)" in blank
    ast.parse(blank)


@pytest.mark.parametrize(
    ("text", "blank"),
    [
        (BLANK, True),
        ("def f():\n    ...", True),
        ("def f():\n    pass", True),
        ("def f():\n    raise NotImplementedError('soon')", True),
        ("class A:\n    def f(self):\n        raise NotImplementedError", True),
        (SOLUTION, False),
        ("def f():\n    x = 1\n    raise NotImplementedError", False),
        ("f = abs", False),
    ],
)
def test_a_blank_is_told_from_an_attempt(text: str, blank: bool) -> None:
    assert source.is_blank(text) is blank


# --- filling ---


def test_filling_replaces_the_blank_and_nothing_else(tmp_path: Path) -> None:
    cell = code(f"x = 1\n{BLANK}\n\ny = 2", id="exercise-softmax")
    cell["metadata"]["tags"] = ["exercise"]
    filled = notebook.fill(read(tmp_path, code("import torch"), words("# text"), cell), {"softmax": SOLUTION})
    answer = source.without_imports(SOLUTION)
    assert filled.cells[2].source == f"x = 1\n{answer}\n\ny = 2"
    assert filled.cells[2].id == "exercise-softmax"
    assert filled.cells[2].metadata.tags == ["exercise"]
    assert filled.cells[1].source == "# text"


def test_an_import_that_the_notebook_lacks_comes_with_the_answer(tmp_path: Path) -> None:
    filled = notebook.fill(read(tmp_path, code(BLANK)), {"softmax": SOLUTION})
    assert filled.cells[0].source == SOLUTION


def test_two_answers_share_one_import(tmp_path: Path) -> None:
    other = SOLUTION.replace("softmax(scores):", "weights(scores):")
    blanks = [code(BLANK), code(BLANK.replace("softmax", "weights"))]
    filled = notebook.fill(read(tmp_path, *blanks), {"softmax": SOLUTION, "weights": other})
    assert "\n".join(cell.source for cell in filled.cells).count("import torch") == 1


def test_every_definition_of_the_name_is_filled(tmp_path: Path) -> None:
    filled = notebook.fill(read(tmp_path, code(BLANK), code(BLANK + "\n# again")), {"softmax": SOLUTION})
    assert all("torch.softmax" in cell.source for cell in filled.cells)


def test_filling_leaves_the_original_and_broken_cells_alone(tmp_path: Path) -> None:
    before = read(tmp_path, code(BLANK, execution_count=3), code("def f(:"))
    filled = notebook.fill(before, {"softmax": SOLUTION})
    assert before.cells[0].source == BLANK
    assert before.cells[0].execution_count == 3
    assert filled.cells[0].execution_count is None
    assert filled.cells[1].source == "def f(:"


# --- running ---


def test_running_saves_stable_outputs(tmp_path: Path) -> None:
    cells = [
        words("# Numbers"),
        code("import ipywidgets\nprint('hello')", execution_count=9),
        code("ipywidgets.IntSlider()"),
        code("import os\nos.environ['ATTENTION_PROGRESS']"),
    ]
    executed = notebook.execute(read(tmp_path, *cells), folder=tmp_path)
    assert [cell.execution_count for cell in executed.cells[1:]] == [1, 2, 3]
    assert executed.cells[1].outputs[0].text == "hello\n"
    assert list(executed.cells[2].outputs[0].data) == ["text/plain"]
    assert executed.cells[3].outputs[0].data["text/plain"] == "'off'"
    assert [cell.metadata for cell in executed.cells] == [{}] * 4
    assert set(executed.metadata) == {"kernelspec", "language_info"}
    assert "version" not in executed.metadata.language_info


def test_the_first_cell_that_stops_ends_the_run(tmp_path: Path) -> None:
    with pytest.raises(NotebookError, match=r"Cell 2 stopped: ZeroDivisionError: division by zero\."):
        notebook.execute(read(tmp_path, code("x = 1"), code("x / 0"), code("undefined")), folder=tmp_path)


def test_a_cell_that_may_raise_is_no_trouble(tmp_path: Path) -> None:
    cell = code("1 / 0")
    cell["metadata"]["tags"] = ["raises-exception"]
    assert notebook.execute(read(tmp_path, cell), folder=tmp_path).cells[0].outputs[0].ename == "ZeroDivisionError"


def test_an_endless_loop_is_interrupted_and_the_rest_runs(tmp_path: Path) -> None:
    target = tmp_path / "reached"
    cells = [code("while True: pass"), code("{"), code(f"open({str(target)!r}, 'w').close()")]
    troubles = notebook.run(read(tmp_path, *cells), folder=tmp_path, timeout=2, keep_going=True)
    assert troubles[0] == CellTrouble(1, "it ran for more than 2 seconds")
    assert [trouble.number for trouble in troubles] == [1, 2]
    assert target.exists()


def test_a_loop_that_cannot_be_interrupted_is_told_in_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(notebook, "INTERRUPT_WAIT", 1)
    loop = "import signal\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\nwhile True: pass"
    with pytest.raises(NotebookError, match=r"The kernel hung in cell 2 .*Does a loop there never end"):
        notebook.run(read(tmp_path, code("x = 1"), code(loop)), folder=tmp_path, timeout=1, keep_going=True)


def test_a_kernel_that_dies_is_told_in_words(tmp_path: Path) -> None:
    with pytest.raises(NotebookError, match=r"The kernel died in cell 1.*end the process"):
        notebook.run(read(tmp_path, code("import os\nos._exit(3)")), folder=tmp_path, keep_going=True)

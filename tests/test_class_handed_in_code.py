"""From the bytes of a notebook to statements: what editors and honest accidents do to cells costs nothing."""

from __future__ import annotations

import ast
import itertools
import json
import random
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from helpers import source
from helpers.classroom import handed_in_code
from helpers.classroom.handed_in_code import HandedInCode, code_of
from helpers.course import BY_NAME
from helpers.notebook import NotebookError
from helpers.paths import NOTEBOOKS, ROOT, SOLUTIONS

SOFTMAX = "def softmax(scores):\n    return scores.softmax(-1)"


def code(text: str | list[str], **fields: Any) -> dict[str, Any]:
    return {"cell_type": "code", "metadata": {}, "outputs": [], "execution_count": None, "source": text, **fields}


def words(text: str, kind: str = "markdown") -> dict[str, Any]:
    return {"cell_type": kind, "metadata": {}, "source": text}


def packed(*cells: Any, **fields: Any) -> bytes:
    return json.dumps({"cells": list(cells), "metadata": {}, "nbformat": 4, "nbformat_minor": 5, **fields}).encode()


def read(*cells: Any, **fields: Any) -> HandedInCode:
    return code_of(packed(*cells, **fields))


def ran(found: HandedInCode) -> dict[str, Any]:
    """Run all statements, one by one, as a cell runner does. returns: the names that they leave"""
    names: dict[str, Any] = {}
    for cell in found.cells:
        for statement in cell.statements:
            exec(compile(ast.Module([statement.node], []), f"<cell {cell.number}>", "exec", cell.flags), names)
    return names


def defines(found: HandedInCode) -> dict[int, tuple[str, ...]]:
    return {cell.number: cell.defines for cell in found.cells if cell.defines}


# --- formats ---


@pytest.mark.parametrize(
    "data",
    [
        {"cells": [code(SOFTMAX)]},
        {"cells": [{"cell_type": "code", "source": SOFTMAX}]},
        {"cells": [{"source": SOFTMAX}]},
        {"cells": [{"source": SOFTMAX.splitlines(keepends=True), "metadata": None}], "metadata": None},
        {"cells": [code(SOFTMAX, id="a"), code("x = 1", id="a")], "nbformat": 4, "nbformat_minor": 5},
        {"cells": [code(SOFTMAX, metadata={"nbgrader": {"schema_version": 1, "grade": "?"}})], "nbformat": "four"},
        {"cells": [code(SOFTMAX)], "nbformat": 99},
        {"cells": [code(SOFTMAX.replace("\n", "\r\n"))]},
        {"cells": [code(SOFTMAX.replace("\n", "\r"))]},
        {"worksheets": [{"cells": [{"cell_type": "code", "input": SOFTMAX, "language": "python"}]}], "nbformat": 3},
        {"worksheets": [{"cells": [{"cell_type": "code", "input": SOFTMAX.splitlines(True)}]}], "nbformat": 2},
        {"cells": [{"cell_type": "code", "code": SOFTMAX}], "nbformat": 1},
    ],
)
def test_every_format_is_read(data: dict[str, Any]) -> None:
    found = code_of(json.dumps(data).encode())
    assert defines(found) == {1: ("softmax",)}
    assert found.broken == found.repaired == ()


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-32"])
def test_every_encoding_of_json_is_read(encoding: str) -> None:
    text = json.dumps({"cells": [code("# é\n" + SOFTMAX)]}, ensure_ascii=False)
    found = code_of(text.encode(encoding))
    assert (defines(found), found.repaired) == ({1: ("softmax",)}, ())


def test_a_foreign_encoding_costs_only_its_characters() -> None:
    found = code_of(json.dumps({"cells": [code("# é\n" + SOFTMAX)]}, ensure_ascii=False).encode("latin-1"))
    assert defines(found) == {1: ("softmax",)}
    assert found.repaired == ("The notebook is not saved as UTF-8; some characters may have been read wrongly.",)


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", "is empty"),
        (b"\xef\xbb\xbf \n", "is empty"),
        (bytes(1000), "is empty"),
        (b"x = 1", r"not JSON \(line 1"),
        (b'{"cells": [\n{"cell', r"not JSON \(line 2"),
        (b'{"cells": [\n<<<<<<< HEAD\n', "marks of a conflict"),
        (b"[" * 100_000, "nested too deeply"),
        (b"1" * 5_000, "not JSON"),
        (b"[]", "has no cells"),
        (b"7", "has no cells"),
        (b"{}", "has no cells"),
        (b'{"cells": {}}', "its cells are not a list"),
        (b'{"cells": []}', "has no cells"),
        (b'{"worksheets": [7, {"cells": 7}]}', "has no cells"),
        (packed(*[code("")] * 5_001), "more than 5,000 cells"),
        (packed(code("x" * 1_500_000), words("y" * 1_500_000)), "more than 2,000,000 characters"),
    ],
)
def test_what_is_not_a_notebook_is_told_in_words(data: bytes, said: str) -> None:
    with pytest.raises(NotebookError, match=said):
        code_of(data)


@pytest.mark.parametrize("cell", [7, None, "x = 1", code(7), code({"a": 1}), code(["x", 7])])  # type: ignore[arg-type]
def test_a_cell_that_is_none_hides_no_other(cell: Any) -> None:
    found = read(cell, code(SOFTMAX))
    assert defines(found) == {2: ("softmax",)}
    assert [number for number, _ in found.broken] == [1]


def test_a_hundred_megabytes_of_output_are_dropped() -> None:
    output = {"output_type": "stream", "name": "stdout", "text": "y" * 100_000_000}
    data = packed(code(SOFTMAX, outputs=[output]), code("x = 1", outputs=[{"data": {"outputs": 3}}]))
    assert defines(code_of(data)) == {1: ("softmax",)}


def test_the_notebooks_of_the_course_need_no_repair() -> None:
    for path in NOTEBOOKS.glob("*.ipynb"):
        found = code_of(path.read_bytes())
        names = [name for cell in found.cells for name in cell.defines]
        assert sorted(names) == sorted(name for name, exercise in BY_NAME.items() if exercise.notebook == path.stem)
        assert found.broken == found.repaired == ()


# --- statements ---


def test_statements_keep_the_lines_of_the_cell() -> None:
    found = read(words("# Title"), code("\n\nx = 1\n\n@staticmethod\n@staticmethod\ndef softmax(scores):\n    1 / 0\n"))
    (cell,) = found.cells
    assert cell.number == 2
    assert [(statement.first_line, statement.last_line) for statement in cell.statements] == [(3, 3), (5, 8)]
    names = ran(found)
    with pytest.raises(ZeroDivisionError) as raised:
        names["softmax"](1)
    assert raised.traceback[-1].lineno + 1 == 8  # pytest counts from 0
    assert str(raised.traceback[-1].path) == "<cell 2>"


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("def softmax(x): pass", ("softmax",)),
        ("async def softmax(x): pass", ("softmax",)),
        ("class MultiHeadAttention: pass\nclass Other: pass", ("MultiHeadAttention",)),
        ("softmax = merge_heads = abs", ("softmax", "merge_heads")),
        ("softmax: object = abs", ("softmax",)),
        ("from torch import softmax", ("softmax",)),
        ("if True:\n    def softmax(x): pass", ("softmax",)),
        ("try:\n    import torch\nexcept ImportError:\n    softmax = None", ("softmax",)),
        ("def outer():\n    softmax = 1\n    def merge_heads(): pass", ()),
        ("softmax(3)", ()),
    ],
)
def test_the_exercises_that_a_cell_gives_a_value_to_are_named(text: str, names: tuple[str, ...]) -> None:
    assert read(code(text)).cells[0].defines == names


def test_an_import_from_the_future_holds_for_the_cells_below() -> None:
    found = read(code("from __future__ import annotations"), code("def softmax(x: NotDefined): return x"))
    assert ran(found)["softmax"](3) == 3


# --- IPython's syntax ---


@pytest.mark.parametrize(
    "line",
    [
        "%matplotlib inline",
        "!ls",
        "!!ls",
        "files = !ls",
        "here = %pwd",
        "torch?",
        "?torch",
        "torch.nn??",
        "%time x = 1",
        "%%time",
        "%%timeit -n 3",
        "%%capture out",
        "%%prun",
        "%%time\n%%capture",
        "await something()",
        "# only words",
        "",
        ">>> x = 1",
    ],
)
def test_lines_for_ipython_keep_the_lines_below_in_their_place(line: str) -> None:
    found = read(code(f"\n{line}\n{SOFTMAX}"))
    assert (defines(found), found.broken) == ({1: ("softmax",)}, ())
    answer = found.cells[0].statements[-1]
    assert answer.first_line == 2 + line.count("\n") + 1


def test_a_magic_over_several_lines_keeps_the_lines_below_in_their_place() -> None:
    found = read(code(f"!ls \\\n  -l \\\n  -a\n{SOFTMAX}"))
    assert found.cells[0].statements[-1].first_line == 4
    assert found.cells[0].source.split("\n")[3] == "def softmax(scores):"


def test_a_magic_inside_a_definition_is_translated() -> None:
    found = read(code("def softmax(x):\n    %timeit x\n    return x"))
    assert "run_line_magic('timeit', 'x')" in found.cells[0].source
    assert defines(found) == {1: ("softmax",)}


@pytest.mark.parametrize("magic", ["bash", "html", "javascript", "script python", "sql"])
def test_a_cell_of_another_language_is_left_alone(magic: str) -> None:
    found = read(code(f"%%{magic}\nfor f in *; do echo $f; done"))
    assert found == HandedInCode((), (), ())


def test_an_answer_that_python_never_sees_is_told() -> None:
    found = read(code(f"%%writefile answer.py\n{SOFTMAX}"))
    assert found.broken == ((1, "it begins with %%writefile, so Python does not run it"),)


def test_a_cell_that_is_indented_throughout_is_read() -> None:
    found = read(code("    x = 1\n    y = 2"))
    assert {name: value for name, value in ran(found).items() if name in "xy"} == {"x": 1, "y": 2}


def test_two_cells_that_are_indented_throughout_stay_two() -> None:
    found = read(code("    x = 1"), code("    y = 2"))
    assert [cell.number for cell in found.cells] == [1, 2]
    assert found.repaired == ()


# --- text cells ---


@pytest.mark.parametrize("kind", ["markdown", "raw"])
def test_an_answer_that_was_turned_to_text_costs_nothing(kind: str) -> None:
    found = read(code("import torch"), words(SOFTMAX, kind))
    assert defines(found) == {2: ("softmax",)}
    assert found.repaired == (f"Cell 2 is a {kind} cell; it was read as code.",)


@pytest.mark.parametrize(
    "text",
    [
        f"An example:\n```python\n{SOFTMAX}\n```",
        f"```python\n{SOFTMAX}\n```",
        f"# Softmax\nYou write\n\n    {SOFTMAX}",
        "softmax = exponentials / total",
        "softmax",
        "x = 1",
        "def other(x): pass",
        "What is attention?",
    ],
)
def test_prose_is_no_code(text: str) -> None:
    assert read(words(text), code("x = 1")).cells[0].number == 2


def test_an_answer_in_prose_that_was_not_read_is_told() -> None:
    found = read(words(f"My answer:\n\n{SOFTMAX}"), code("x = 1"))
    assert found.broken == ((1, "it is a markdown cell and not Python throughout, so softmax in it was not read"),)


def test_an_old_attempt_kept_as_text_does_not_replace_the_answer() -> None:
    found = read(code(SOFTMAX), words("def softmax(scores):\n    return scores"))
    assert (defines(found), found.broken, found.repaired) == ({1: ("softmax",)}, (), ())


def test_an_answer_in_text_counts_when_the_code_cell_is_still_blank() -> None:
    found = read(code("def softmax(scores):\n    raise NotImplementedError"), words(SOFTMAX))
    assert defines(found) == {1: ("softmax",), 2: ("softmax",)}


# --- split cells ---


def solution(name: str) -> str:
    texts = [source.definition(path.read_text("utf-8"), name) for path in SOLUTIONS.glob("*.py")]
    return next(text for text in texts if text is not None)


def cut(text: str, *places: int) -> list[str]:
    """What JupyterLab's "split cell" leaves: line ends at the cut are dropped, spaces are kept."""
    ends = [0, *places, len(text)]
    return [text[first:last].strip("\n") for first, last in itertools.pairwise(ends)]


def tree_of(text: str) -> str:
    """The syntax tree, blind to the blank lines of docstrings, which a cut may drop."""
    return re.sub(r"\\n|\s", "", ast.dump(ast.parse(text).body[-1]))


def assert_whole(name: str, parts: list[str]) -> None:
    found = read(code("import torch"), words("# Exercise"), *map(code, parts), code("x = 3"))
    last = [s for cell in found.cells for s in cell.statements if getattr(s.node, "name", None) == name][-1]
    assert tree_of(ast.unparse(last.node)) == tree_of(ast.unparse(ast.parse(solution(name)))), parts


@pytest.mark.parametrize("name", BY_NAME)
def test_an_answer_may_be_split_at_any_line(name: str) -> None:
    text = solution(name)
    for match in re.finditer(r"\n *", text):
        assert_whole(name, cut(text, match.start() + 1))
        assert_whole(name, cut(text, match.end()))  # the cursor stood behind the indentation


@pytest.mark.parametrize("name", ["SelfAttentionV3", "MultiHeadAttention", "fused_xavier_ratio"])
def test_an_answer_may_be_split_in_three(name: str) -> None:
    text = solution(name)
    lines = [match.end() for match in re.finditer(r"\n", text)]
    pairs = list(itertools.combinations(lines, 2))
    for places in random.Random(0).sample(pairs, min(60, len(pairs))):
        assert_whole(name, cut(text, *places))


def test_a_split_in_the_middle_of_a_line_costs_nothing() -> None:
    found = read(code("scores = 6"), code("weights = scores * 2"), code(" / 3"))
    assert ran(found)["weights"] == 4
    assert found.repaired == ("Cells 2 and 3 hold one definition; they were read as one cell.",)


def test_a_text_between_the_parts_does_no_harm() -> None:
    found = read(code("def softmax(scores):"), words("Here I stopped."), code("    return scores"))
    assert defines(found) == {1: ("softmax",)}
    assert ran(found)["softmax"](5) == 5


def test_a_line_of_a_joined_cell_is_found_in_the_learners_cells() -> None:
    (cell,) = read(words("#"), code("def softmax(x):\n    y = x"), code("    z = y\n    return z")).cells
    assert [cell.place(line) for line in (1, 2, 3, 4)] == [(2, 1), (2, 2), (3, 1), (3, 2)]


@pytest.mark.parametrize(
    "second",
    [
        "    x = softmax(3)",  # behind a return nobody has cut
        "  x = softmax(3)",
        "x = softmax(3)",
        "# below\nx = softmax(3)",
    ],
)
def test_cells_that_belong_apart_stay_apart(second: str) -> None:
    found = read(code("def softmax(scores):\n    return scores\n    "), code(second))
    assert ran(found)["x"] == 3


def test_a_copied_cell_counts_like_its_original() -> None:
    cell = code(SOFTMAX, id="same", metadata={"nbgrader": {"grade_id": "same", "schema_version": 3}})
    found = read(cell, cell, code(SOFTMAX))
    assert defines(found) == {1: ("softmax",), 2: ("softmax",), 3: ("softmax",)}
    assert found.broken == found.repaired == ()


# --- cells that are not Python ---


@pytest.mark.parametrize(
    ("text", "error", "unread"),
    [
        (f"{SOFTMAX}\nthis is no Python at all", 3, "line 3"),
        (f"this is no Python at all\n{SOFTMAX}", 1, "line 1"),
        (f"x = 1\n<<<<<<< HEAD\n{SOFTMAX}\n=======", 2, "line 2, line 5"),
        (f"def merge_heads(x:\n    return x\n\n\n{SOFTMAX}", 1, "lines 1 to 4"),
        (f"{SOFTMAX}\n\nx = '''\nnever closed", 4, "lines 4 to 5"),
        (f"{SOFTMAX}\nreturn 3", 3, "line 3"),
        (f"{SOFTMAX}\nx = '\0'", 3, "line 3"),
        (f"{SOFTMAX}\nx = '\ud800'", 3, "line 3"),
        (f"x = {'-' * 50_000}1\n{SOFTMAX}", 1, "line 1"),
        (f"@staticmethod\n{SOFTMAX}\nelse:\n    x = 2", 4, "lines 4 to 5"),
    ],
)
def test_what_is_python_in_a_broken_cell_still_counts(text: str, error: int, unread: str) -> None:
    found = read(code(text), code("y = 1"))
    assert defines(found) == {1: ("softmax",)}
    assert re.match(rf"line {error}: ", found.broken[0][1])
    assert found.repaired == (f"Cell 1 is not Python throughout; it was read without {unread}.",)
    lines = text.split("\n")
    (answer,) = [s for s in found.cells[0].statements if getattr(s.node, "name", None) == "softmax"]
    assert "def softmax(scores):" in lines[answer.first_line - 1 : answer.last_line]


def test_a_broken_cell_is_reported_and_hides_no_other() -> None:
    found = read(code("def f(:\n    pass"), code(SOFTMAX))
    assert found.broken == ((1, "line 1: invalid syntax"),)
    assert defines(found) == {2: ("softmax",)}


HOSTILE = {
    "brackets": "(" * 100_000,
    "signs": "x = " + "-" * 100_000 + "1",
    "sum": "x = " + "1+" * 100_000 + "1",
    "calls": "f" + "()" * 50_000,
    "attributes": "x = y" + ".a" * 100_000,
    "lambdas": "x = " + "lambda:" * 50_000 + "1",
    "conditions": "if a:\n pass\n" + "elif b:\n pass\n" * 30_000,
    "choices": "x = " + "a if b else " * 50_000 + "c",
    "digits": "x = " + "9" * 100_000,
    "magics": "!ls\n" * 3_000,
    "questions": "what is it?\n" * 3_000,
    "empty lines": "\n" * 500_000 + "x = (",
    "continued": "x = \\\n" * 50_000,
    "functions": "\n".join(" " * depth + "def f():" for depth in range(150)),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_source_does_not_end_the_interpreter(name: str, tmp_path: Path) -> None:
    """In a process of its own, with a gigabyte of memory: a crash would end the tests otherwise."""
    path = tmp_path / "hostile.ipynb"
    path.write_bytes(packed(code(HOSTILE[name]), code(f"y = 1\n{SOFTMAX}")))
    program = (
        "import resource, sys; resource.setrlimit(resource.RLIMIT_AS, (2**30, 2**30))\n"
        "from helpers.classroom.handed_in_code import code_of\n"
        "found = code_of(open(sys.argv[1], 'rb').read())\n"
        "print([cell.number for cell in found.cells if cell.defines], bool(found.broken))"
    )
    result = subprocess.run([sys.executable, "-c", program, path], capture_output=True, text=True, cwd=ROOT)
    assert (result.returncode, result.stderr) == (0, "")
    expected = "[1] False" if name == "continued" else "[2] True"  # a backslash goes on into the next cell
    assert result.stdout.strip() == expected


def test_reading_code_loads_no_torch() -> None:
    program = f"import sys, {handed_in_code.__name__}; print('torch' in sys.modules, 'nbformat' in sys.modules)"
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, cwd=ROOT, check=True)
    assert result.stdout.strip() == "False False"

"""Imports run one way. Checked on the syntax trees, so that an import hidden in a function counts too."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent


def module_name(file: Path) -> str:
    parts = file.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


FILES = {module_name(file): file for folder in ("helpers", "solutions") for file in ROOT.glob(f"{folder}/**/*.py")}


def imports_of(tree: ast.AST, module: str, *, is_package: bool = False) -> set[str]:
    """Every module that the code names in an import, also inside functions and in `import_module("…")`."""
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                here = module.split(".") if is_package else module.split(".")[:-1]
                here = here[: len(here) - node.level + 1]
                base = ".".join([*here, *filter(None, [node.module])])
            names = {f"{base}.{alias.name}" for alias in node.names}
            found |= {name if name in FILES else base for name in names}
        elif isinstance(node, ast.Call) and node.args:
            called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            if called in ("import_module", "__import__", "run_module"):
                found.add(leading_text(node.args[0]).rstrip("."))
    return found - {""}


def leading_text(node: ast.expr) -> str:
    """The text that an argument begins with: all of a plain string, the fixed start of an f-string."""
    if isinstance(node, ast.JoinedStr) and node.values:
        node = node.values[0]
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""


def imports_in(module: str) -> set[str]:
    file = FILES[module]
    return imports_of(ast.parse(file.read_text("utf-8")), module, is_package=file.name == "__init__.py")


def inside(name: str, rooms: tuple[str, ...]) -> bool:
    return any(name == room or name.startswith(f"{room}.") for room in rooms)


def modules_in(room: str) -> list[str]:
    modules = [name for name in FILES if inside(name, (room,))]
    assert modules, f"{room} does not exist: was it renamed?"
    return modules


COMPARING = (
    "helpers.judge.untrusted",
    "helpers.judge.compare",
    "helpers.judge.dossier",
    "helpers.judge.class_findings",
    "helpers.judge.function_findings",
    "helpers.judge.seen",
    "helpers.judge.naming",
    "helpers.judge.matching",
    "helpers.judge.reading",
    "helpers.judge.properties",
    "helpers.judge.statistics",
    "helpers.judge.phrases",
    "helpers.judge.answer_book",
    "helpers.judge.observation",
    "helpers.judge.verdict",
    "helpers.judge.explain",
)

FORBIDDEN = [
    ("helpers.judge", ("helpers.words", "helpers.progress", "helpers.notebook", "helpers.__main__")),
    ("helpers.judge.explain", ("helpers.judge.compare",)),
    *[(room, ("helpers.classroom",)) for room in ("helpers.judge", "helpers.notebook", "helpers.grading")],
    ("helpers.classroom.reports", ("torch", "helpers.classroom.host", "helpers.classroom.judging")),
    ("solutions", ("helpers",)),
    *[(room, ("torch",)) for room in COMPARING],
]

ONLY = [
    ("helpers.course", ()),
    ("helpers.plots", ("helpers.plots",)),
    ("helpers.judge.compare", ("helpers.course", *COMPARING)),
    ("helpers.judge.untrusted", COMPARING),
]


@pytest.mark.parametrize(("room", "forbidden"), FORBIDDEN)
def test_a_room_does_not_look_where_it_must_not(room: str, forbidden: tuple[str, ...]) -> None:
    wrong = {
        module: bad for module in modules_in(room) if (bad := [i for i in imports_in(module) if inside(i, forbidden)])
    }
    assert wrong == {}


@pytest.mark.parametrize(("room", "allowed"), ONLY)
def test_a_room_imports_nothing_else_of_the_course(room: str, allowed: tuple[str, ...]) -> None:
    def is_wrong(name: str) -> bool:
        return inside(name, ("helpers", "solutions")) and not inside(name, allowed)

    wrong = {module: bad for module in modules_in(room) if (bad := [i for i in imports_in(module) if is_wrong(i)])}
    assert wrong == {}


def test_only_recording_imports_the_solutions() -> None:
    users = [name for name in modules_in("helpers") if any(inside(i, ("solutions",)) for i in imports_in(name))]
    assert sorted(users) == ["helpers.judge.matrix", "helpers.judge.record"]


def test_comparing_and_telling_never_reach_code_that_runs_answers() -> None:
    reached, waiting = set(), set(COMPARING)
    while waiting:
        module = waiting.pop()
        reached.add(module)
        waiting |= {name for name in imports_in(module) if name in FILES} - reached
    judge = {name for name in reached if inside(name, ("helpers.judge",))}
    assert judge == set(COMPARING)


def test_where_answers_run_there_is_nothing_to_compare_them_with() -> None:
    """In the sandbox the solutions and the answer book are not there; nothing asks for them."""
    code = "import sys, helpers.classroom.worker; print([name for name in sys.modules if 'helpers.judge.' in name])"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(ast.literal_eval(result.stdout))
    assert "helpers.judge.observe" in loaded
    assert loaded & set(COMPARING) == {"helpers.judge.verdict", "helpers.judge.observation"}
    assert not loaded & {"helpers.judge.record", "helpers.judge.matrix"}


def test_importing_helpers_loads_nothing_heavy_but_torch() -> None:
    heavy = ("matplotlib", "ipywidgets", "typer", "rich")
    code = f"import sys, helpers; print([name for name in {heavy} if name in sys.modules])"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("import helpers.words", {"helpers.words"}),
        ("from helpers import words, check", {"helpers.words", "helpers"}),
        ("from helpers.course import EXERCISES", {"helpers.course"}),
        ("from .verdict import Verdict", {"helpers.judge.verdict"}),
        ("from .. import course", {"helpers.course"}),
        ("def f():\n    import solutions.mistakes", {"solutions.mistakes"}),
        ("import_module('solutions.start_here')", {"solutions.start_here"}),
        ("importlib.import_module(f'solutions.{name}')", {"solutions"}),
        ("print('solutions')", set()),
    ],
)
def test_the_scanner_sees_every_form_of_import(code: str, expected: set[str]) -> None:
    assert imports_of(ast.parse(code), "helpers.judge.observe") == expected

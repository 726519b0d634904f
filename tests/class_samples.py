"""Submissions for the tests of the classroom: the course's notebooks with answers in them, as students hand them in."""

from __future__ import annotations

import ast
import inspect
import json
import textwrap
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from helpers import paths, source
from helpers.course import EXERCISES, NOTEBOOKS

POINTS = {exercise.name: exercise.points for exercise in EXERCISES}
_HOME = {exercise.name: exercise.notebook for exercise in EXERCISES}


@lru_cache
def _blank(stem: str) -> str:
    return (paths.NOTEBOOKS / f"{stem}.ipynb").read_text("utf-8")


@lru_cache
def solution(name: str) -> str:
    """The source of a right answer, with the imports it needs."""
    text = source.solution(name, paths.SOLUTIONS)
    assert text is not None
    return text


def exercises_of(stem: str) -> list[str]:
    return [name for name, home in _HOME.items() if home == stem]


def notebook(stem: str, answers: Mapping[str, str | None] | None = None, *, solved: bool = True) -> dict[str, Any]:
    """One notebook of the course as JSON data.

    solved: fill every blank with its solution. answers: name → what stands in its cell instead; None: the blank.
    """
    data = json.loads(_blank(stem))
    for cell in data["cells"]:
        name = cell["id"].removeprefix("exercise-")
        if name not in POINTS or cell["cell_type"] != "code":
            continue
        text = (answers or {}).get(name, solution(name) if solved else None)
        if text is not None:
            cell["source"] = text
    return data


def code_cell(text: str, **fields: Any) -> dict[str, Any]:
    return {
        "cell_type": "code", "execution_count": None, "id": "added", "metadata": {}, "outputs": [],
        "source": textwrap.dedent(text),
    } | fields  # fmt: skip


def bare(*cells: str) -> dict[str, Any]:
    """A notebook that holds only these code cells."""
    made = [code_cell(text, id=f"cell-{number}") for number, text in enumerate(cells)]
    return {"cells": made, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}


def write(file: Path, data: Mapping[str, Any] | str | bytes) -> Path:
    """Write a notebook, or whatever stands in its place."""
    file.parent.mkdir(parents=True, exist_ok=True)
    if isinstance(data, bytes):
        file.write_bytes(data)
    else:
        file.write_text(data if isinstance(data, str) else json.dumps(data), "utf-8")
    return file


def write_course(folder: Path, answers: Mapping[str, str | None] | None = None, *, solved: bool = True) -> Path:
    """All five notebooks."""
    for stem in NOTEBOOKS:
        write(folder / f"{stem}.ipynb", notebook(stem, answers, solved=solved))
    return folder


@lru_cache
def _module_source(module: str) -> str:
    return inspect.getsource(__import__(module, fromlist=["_"]))


def source_of(answer: Any, exercise: str) -> str:
    """An answer of the trial set as a learner's cell: with its imports, and all that its module defines for it."""
    tree = ast.parse(_module_source(answer.__module__))
    own = next(node for node in tree.body if getattr(node, "name", None) == answer.__name__)
    own.decorator_list = [
        d for d in own.decorator_list if "right" not in ast.unparse(d) and "wrong" not in ast.unparse(d)
    ]
    kept: list[ast.stmt] = []
    wanted = _names(own)
    for node in reversed(tree.body):
        if node is own:
            kept.append(node)
        elif isinstance(node, ast.Import | ast.ImportFrom):
            if not getattr(node, "level", 0) and getattr(node, "module", "") != "__future__":
                kept.append(node)
        elif _bound(node) & wanted and not any(_is_registered(d) for d in getattr(node, "decorator_list", [])):
            wanted |= _names(node)
            kept.append(node)
        elif _bound(node) & wanted:  # an answer that another one builds on
            node.decorator_list = []  # type: ignore[attr-defined]
            wanted |= _names(node)
            kept.append(node)
    body = "\n\n\n".join(ast.unparse(node) for node in reversed(kept))
    return body if answer.__name__ == exercise else f"{body}\n\n\n{exercise} = {answer.__name__}"


def _names(node: ast.AST) -> set[str]:
    return {inner.id for inner in ast.walk(node) if isinstance(inner, ast.Name)}


def _bound(node: ast.stmt) -> set[str]:
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        return {node.name}
    if isinstance(node, ast.Assign):
        return {name for target in node.targets for name in _names(target)}
    return set()


def _is_registered(decorator: ast.expr) -> bool:
    return any(word in ast.unparse(decorator) for word in ("right(", "wrong("))

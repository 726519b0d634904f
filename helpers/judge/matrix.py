"""Writes the page of all known mistakes in all exercises: is each named there? For maintainers; needs `solutions/`."""

from __future__ import annotations

import importlib
import re
from functools import lru_cache
from pathlib import Path
from typing import Any

from helpers.course import EXERCISES
from helpers.judge import check_answer
from helpers.judge.verdict import Verdict

PAGE = Path(__file__).parents[2] / "docs" / "mistakes.md"

# Mistakes without a variant of their own: found by a rule, and by which.
BY_RULE = {
    "heads-in-python-list": "layers that the module does not know",
    "not-a-parameter": "plain tensors where parameters are missing",
    "layers-built-in-forward": "parameters that change from call to call",
    "parameters-edited": "parameters before and after a call",
    "no-out-proj": "the numbers of out-proj-unused, and no such layer",
    "not-fused": "more than one layer for q, k and v",
    "softmax-in-half": "close to the right numbers, not close enough",
    "fixed-length-mask": "sizes in the error that no probe has",
    "notebook-global": "the words of the error, or sizes that no probe has",
    "inplace-on-input": "the words of the error",
    "mask-dtype-clash": "a note: half precision raises",
    "fill-overflows-half": "a note: half precision raises",
    "mask-made-on-cpu": "a note: the meta device raises",
    "mask-in-state-dict": "a note: saved buffers",
    "mask-not-buffer": "a note: plain tensors in the module",
    "weights-head-averaged": "a note: the shape of the second output",
    "debug-prints": "a note: what was printed",
    "wrong-dtype": "the dtype of the output",
}


def names_in(verdict: Verdict) -> tuple[list[str], list[str]]:
    """The ids of the findings, and the twins that a message lists."""
    ids = [finding.id for finding in verdict.findings if finding.severity == "mistake"]
    twins: list[str] = []
    for finding in verdict.findings:
        listed = re.search(r"The same numbers come from: (.*)\.$", finding.message)
        twins += listed[1].split(", ") if listed else []
    return ids, twins


@lru_cache(maxsize=1)
def matrix() -> dict[str, dict[str, str]]:
    """matrix[mistake][exercise]: "named", "twin of …", "refused as …" or "" where it cannot occur."""
    mistakes = importlib.import_module("solutions.mistakes")
    steps = importlib.import_module("solutions.mistakes.steps")
    mistakes.load_all()
    table: dict[str, dict[str, str]] = {}
    for variant in mistakes.VARIANTS:
        for exercise in variant.exercises:
            _enter(table, variant.id, exercise, check_answer(steps.build(exercise, variant), exercise))
    for wrong in mistakes.WRONG_FUNCTIONS:
        _enter(table, wrong.id, wrong.exercise, check_answer(wrong.function, wrong.exercise))
    return {id: {e.name: row.get(e.name, "") for e in EXERCISES} for id, row in table.items()}


def _enter(table: dict[str, dict[str, str]], id: str, exercise: str, verdict: Verdict) -> None:
    """Several variants of one mistake share a cell; the weakest of them counts."""
    ids, twins = names_in(verdict)
    if verdict.passed:
        text = "accepted"
    elif id in ids:
        text = "named"
    elif id in twins and ids:
        text = f"twin of {ids[0]}"
    else:
        text = f"refused as {ids[0] if ids else verdict.findings[0].id}"
    row = table.setdefault(id, {})
    strength = ["accepted", "refused", "twin", "named"]
    before = row.get(exercise, "named")
    row[exercise] = min(before, text, key=lambda cell: strength.index(cell.split()[0]))


def as_markdown() -> str:
    """The page: one row per mistake, one column per exercise."""
    table: dict[str, Any] = matrix()
    names = [exercise.name for exercise in EXERCISES]
    marks = {"": " ", "named": "✓"}
    notes: list[str] = []

    def mark(cell: str) -> str:
        if cell in marks:
            return marks[cell]
        if cell not in notes:
            notes.append(cell)
        return f"({notes.index(cell) + 1})"

    rows = [f"| `{id}` | " + " | ".join(mark(row[name]) for name in names) + " |" for id, row in table.items()]
    lines = [
        "# Known mistakes, exercise by exercise",
        "",
        "Written by `make book`; a test proves that it is up to date.",
        "✓: refused and named in every variant. A number: see below.",
        "Empty: it cannot occur there, because the exercise has no such step.",
        "",
        "| mistake | " + " | ".join(f"`{name}`" for name in names) + " |",
        "|---|" + "---|" * len(names),
        *rows,
        "",
        *(f"({i}) {note}.  " for i, note in enumerate(notes, 1)),
        "",
        "## Found by a rule",
        "",
        "| mistake | what gives it away |",
        "|---|---|",
        *(f"| `{id}` | {rule} |" for id, rule in BY_RULE.items()),
    ]
    return "\n".join(lines).rstrip() + "\n"


if __name__ == "__main__":
    PAGE.write_text(as_markdown(), "utf-8")
    print(f"Wrote {PAGE.name}")

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

# Notes and small findings that no wrong answer stands for: what gives them away.
BY_RULE = {
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

# Rows of the public catalogue that no exercise of this course can make, and why.
NOT_HERE = {
    "chunk3-with-gqa, gqa-repeat-order with fewer key heads": "every head has its own keys and values here",
    "fp16-score-overflow, two-minima-added": "judged in float32; half precision gives notes",
    "all-masked-nan, all-masked-uniform": "the contract allows NaN, zeros or the mean in a row with nothing to look at",
    "causal-alignment, causal-lost-in-branch, masks-combined-wrongly": "masks come from the caller, ready made",
    "weights-returned-after-dropout": "what is returned beside the output is the learner's choice",
    "default-728": "a default that no test builds",
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
        "",
        "## Not in this course",
        "",
        "| mistake | why |",
        "|---|---|",
        *(f"| {ids} | {why} |" for ids, why in NOT_HERE.items()),
    ]
    return "\n".join(lines).rstrip() + "\n"


if __name__ == "__main__":
    PAGE.write_text(as_markdown(), "utf-8")
    print(f"Wrote {PAGE.name}")

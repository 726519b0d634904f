"""Known wrong answers: small variants of the right ones, grouped by theme.

A mistake in one of the four attention classes replaces one or more *steps* of the plain formula in `steps.py`; a mistake
in a function replaces the function. To add one: write the step, put `@mistake("its-id", …)` above it, and give the id
its words in `catalogue.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

# Which classes a step exists in.
ALL = ("SelfAttentionV1", "SelfAttentionV2", "SelfAttentionV3", "MultiHeadAttention")
FUSED = ("SelfAttentionV2", "SelfAttentionV3")
MASKED = ("SelfAttentionV3", "MultiHeadAttention")
HEADS = ("MultiHeadAttention",)
SEPARATE = ("SelfAttentionV1", "MultiHeadAttention")


@dataclass(frozen=True)
class Variant:
    """One wrong answer. id: of the catalogue. steps: what it replaces, by the step's name. exercises: where it can occur."""

    id: str
    label: str
    steps: dict[str, Callable[..., Any]]
    exercises: tuple[str, ...]
    twin: bool = False  # the same mistake with another fill


@dataclass(frozen=True)
class WrongFunction:
    """A wrong answer to a function exercise."""

    id: str
    exercise: str
    function: Callable[..., Any]


VARIANTS: list[Variant] = []
WRONG_FUNCTIONS: list[WrongFunction] = []


def mistake(id: str, exercises: tuple[str, ...] = ALL) -> Callable[[Any], Any]:
    """Register a wrong step (a function named like the step) or several at once (a class with such functions)."""

    def register(thing: Any) -> Any:
        if isinstance(thing, type):
            steps = {name: value for name, value in vars(thing).items() if callable(value) and name[0] != "_"}
        else:
            steps = {thing.__name__: thing}
        _add(id, steps, exercises)
        if "read_mask" in steps and "hide" not in steps:  # the numbers depend on what is written into hidden places
            _add(id, steps | {"hide": _hide_with_a_large_number}, exercises, twin=True)
        return thing

    return register


def _add(id: str, steps: dict[str, Callable[..., Any]], exercises: tuple[str, ...], twin: bool = False) -> None:
    number = sum(variant.id == id for variant in VARIANTS) + 1
    VARIANTS.append(Variant(id, f"{id}#{number}", steps, exercises, twin))


def _hide_with_a_large_number(self: Any, scores: Any, keep: Any) -> Any:
    return scores.masked_fill(~keep, -1e9)


def wrong(id: str, exercise: str) -> Callable[[Any], Any]:
    """Register a wrong answer to a function exercise."""

    def register(function: Any) -> Any:
        WRONG_FUNCTIONS.append(WrongFunction(id, exercise, function))
        return function

    return register


def load_all() -> None:
    """Import every theme, so that the lists are full."""
    from solutions.mistakes import dropout, heads, masks, module, projections, scores, softmax  # noqa: F401, I001
    from solutions.mistakes import functions, whole  # noqa: F401  after the steps, which `functions` turns into functions

    if not any(wrong_one.exercise == "attention_scores" for wrong_one in WRONG_FUNCTIONS):
        functions.register_steps()

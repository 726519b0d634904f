"""Answers as learners write them, right ones and wrong ones: the judge is tried on all of them.

Each module registers its answers as it is imported; `load()` imports them all.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import TypeVar

T = TypeVar("T", bound=Callable)

RIGHT: list[tuple[str, Callable, str | None]] = []  # exercise, answer, what is unusual about it
WRONG: list[tuple[str, Callable, tuple[str, ...]]] = []  # exercise, answer, ids that name it; () = any refusal


def right(exercise: str, note: str | None = None) -> Callable[[T], T]:
    """Register a right answer. `note` says in words what is unusual or fragile about it."""

    def register(answer: T) -> T:
        RIGHT.append((exercise, answer, note))
        return answer

    return register


def wrong(exercise: str, *ids: str) -> Callable[[T], T]:
    """Register a wrong answer with every id that names its mistake (or one of its two mistakes)."""

    def register(answer: T) -> T:
        WRONG.append((exercise, answer, ids))
        return answer

    return register


def load() -> None:
    """Import every module of answers, so that RIGHT and WRONG are complete."""
    for kind in ("right", "wrong"):
        for what in ("functions", "v1", "v2", "v3", "multi_head"):
            import_module(f"{__name__}.{kind}_{what}")
    import_module(f"{__name__}.right_unusual")
    import_module(f"{__name__}.wrong_hidden")

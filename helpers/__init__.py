"""The words a learner uses, and nothing else. Heavy parts load when they are first used."""

from __future__ import annotations

from types import ModuleType

from helpers.words import check, hint, reset, reveal, scoreboard, yours

__all__ = ["check", "hint", "reset", "reveal", "scoreboard", "yours"]

_LATER = ("bench", "demo", "plots", "widgets")


def __getattr__(name: str) -> ModuleType:
    """Load `helpers.plots` and its neighbours on first use, so that `import helpers` stays cheap."""
    if name in _LATER:
        import importlib

        return importlib.import_module(f"helpers.{name}")
    raise AttributeError(f"helpers has no {name!r}. It has: {', '.join(__dir__())}.")


def __dir__() -> list[str]:
    return sorted([*__all__, *_LATER])

"""Measurements of a piece of code: time, matmul launches, arithmetic and memory. Loaded when first used."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from helpers.bench.measure import Timing, device, flops, launches, machine, peak_memory, time_of, times_of

__all__ = ["Timing", "device", "flops", "launches", "machine", "peak_memory", "time_of", "times_of"]


def __getattr__(name: str) -> Any:
    if name in __all__:
        return getattr(importlib.import_module("helpers.bench.measure"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})

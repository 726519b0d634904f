"""What both kinds of runs share: how one outcome is read and written down."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import torch

from helpers.judge.guard import Raised, attempt
from helpers.judge.observation import Observation
from helpers.judge.probes import Draw

CLOSE = 2e-5  # two runs of one function in float32 on outputs of order 1
MOST_NUMBERS = 200_000  # in an output that is read
READY_MADE = ("scaled_dot_product", "multi_head_attention", "_transformer_encoder_layer")  # parts of banned names


def as_array(tensor: torch.Tensor) -> np.ndarray:
    """float64 stays, everything else becomes float32. Raises an error for what holds no plain numbers."""
    if tensor.is_complex():
        raise TypeError("it holds complex numbers")
    dense = tensor.detach().resolve_neg().cpu()
    return dense.to(torch.float64 if dense.dtype == torch.float64 else torch.float32).numpy()


def equal(a: np.ndarray, b: np.ndarray, tolerance: float = CLOSE) -> bool:
    return a.shape == b.shape and bool(np.allclose(a, b, rtol=1e-5, atol=tolerance, equal_nan=True))


def direction(output: torch.Tensor) -> torch.Tensor:
    """A fixed gradient to send back: no two neighbours are equal."""
    return torch.cos(torch.arange(output.numel(), dtype=torch.float32)).reshape(output.shape).to(output.dtype)


class Run:
    """What both kinds of runs share: the record of single cases."""

    def __init__(self, answer: Any, observation: Observation, draw: Draw):
        self.answer = answer
        self.draw = draw
        self.exercise = observation.exercise
        self.facts = observation.facts
        self.tensors = observation.tensors

    def everything(self) -> None:
        raise NotImplementedError

    def record(self, case: str, value: Any, raised: Raised | None) -> torch.Tensor | None:
        """Write one outcome down. Returns the output tensor where there is one."""
        if raised is not None:
            self.facts["cases"][case] = {"raised": vars(raised)}
            return None
        entry: dict[str, Any] = {"kind": type(value).__name__}
        self.facts["cases"][case] = entry
        if isinstance(value, tuple) and value and isinstance(value[0], torch.Tensor):
            entry["kind"] = "pair"
            entry["extra_shape"] = list(value[1].shape) if len(value) > 1 and hasattr(value[1], "shape") else None
            value = value[0]
        if isinstance(value, bool | int | float | np.number):
            entry["kind"], value = "number", torch.tensor(float(value), dtype=torch.float64)
        if not isinstance(value, torch.Tensor):
            return None
        entry["kind"] = "tensor" if entry["kind"] not in ("pair", "number") else entry["kind"]
        entry |= {"shape": list(value.shape), "dtype": str(value.dtype).removeprefix("torch.")}
        if value.numel() > MOST_NUMBERS:
            entry["unreadable"] = f"it holds {value.numel()} numbers"
            return None
        array, raised = attempt(lambda: as_array(value))
        if raised is not None:
            entry["unreadable"] = raised.message
            return None
        self.tensors[case] = array
        return value


def is_open_blank(raised: Raised) -> bool:
    """A blank raises NotImplementedError itself; PyTorch raises it too, for a missing forward or an unknown dtype."""
    itself = "NotImplementedError" in raised.line or (not raised.line and not raised.message)
    return raised.type == "NotImplementedError" and itself


def parameters_of(function: Any) -> list[str]:
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return []
    kinds = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    return [name for name, parameter in signature.parameters.items() if parameter.kind not in kinds]

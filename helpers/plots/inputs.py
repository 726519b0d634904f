"""What comes in: tensors or arrays become float arrays, and what cannot be drawn is refused in words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
SUM_TOLERANCE = 0.01  # bfloat16 keeps about three digits, so its rows miss 1 by a few thousandths


def array(value: Any, name: str) -> Array:
    """A float64 array of any tensor, array or nested list. Raises ValueError where it has no real numbers."""
    try:
        if hasattr(value, "detach"):  # a torch tensor, any dtype, any device, with or without gradient
            value = value if value.is_complex() else value.detach().cpu().to_dense().double().numpy()
        result = np.asarray(value)
        if np.iscomplexobj(result) or value is None:
            raise TypeError
        return result.astype(np.float64)
    except (TypeError, ValueError, RuntimeError):  # RuntimeError: a complex tensor with gradient, a meta tensor
        kind = type(value).__name__
        raise ValueError(f"{name} must be a tensor or an array of real numbers; this {kind} holds none.") from None


def matrix(value: Any, name: str, shape: str = "L_q, L_k", *, finite: bool = True) -> Array:
    """A non-empty matrix. `finite=False` lets NaN and infinities through."""
    result = array(value, name)
    if result.ndim != 2:
        advice = " Pick one sample and one head first." if result.ndim > 2 else ""
        raise ValueError(f"{name} must be a matrix ({shape}); this has the shape {result.shape}.{advice}")
    if 0 in result.shape:
        raise ValueError(f"{name} is empty: its shape is {result.shape}. There is nothing to draw.")
    if finite:
        all_finite(result, name)
    return result


def all_finite(values: Array, name: str) -> None:
    """Raises ValueError with the place of the first NaN or infinity."""
    bad = np.argwhere(~np.isfinite(values))
    if len(bad):
        where = ", ".join(str(int(i)) for i in bad[0])
        found = "NaN" if np.isnan(values[tuple(bad[0])]) else "an infinity"
        raise ValueError(f"{name} holds {found} at [{where}] ({len(bad)} of {values.size} numbers cannot be drawn).")


def visible(mask: Any, shape: tuple[int, int], name: str = "mask") -> NDArray[np.bool_]:
    """The mask as bool (L_q, L_k), True = may look; it may broadcast. None hides nothing."""
    if mask is None:
        return np.ones(shape, dtype=bool)
    values = array(mask, name)
    while values.ndim > 2 and values.shape[0] == 1:
        values = values[0]
    all_finite(values, name)
    if not np.isin(values, (0.0, 1.0)).all():
        raise ValueError(
            f"{name} must hold only True and False (or 1 and 0); it holds {values.min():g} to {values.max():g}."
        )
    try:
        return np.broadcast_to(values, shape).astype(bool)
    except ValueError:
        raise ValueError(
            f"{name} has the shape {values.shape},"
            f" which does not fit {shape[0]} queries (rows) and {shape[1]} keys (columns)."
        ) from None


def check_weights(weights: Array, may_look: NDArray[np.bool_], name: str = "weights") -> None:
    """Raises ValueError where the rows are no attention weights: negative, not finite, or a sum other than 1.

    A row with nothing to look at may hold zeros, NaN or anything that sums to 1.
    """
    for i, row in enumerate(weights):
        if not may_look[i].any() and (np.isnan(row).all() or not row.any()):
            continue
        if np.isnan(row).any():
            raise ValueError(
                f"{name} holds NaN in row {i}."
                " Only a row with nothing to look at may be NaN, and only when mask says so."
            )
        if (row < 0).any():
            raise ValueError(f"{name} must not be negative; row {i} holds {row.min():.3g}. Are these scores?")
        if not abs(row.sum() - 1) <= SUM_TOLERANCE:
            raise ValueError(
                f"Every row of {name} must sum to 1 over the keys; row {i} sums to {row.sum():.3g}."
                " Are these scores, or weights after dropout?"
            )


def token_labels(labels: Sequence[Any] | None, length: int, axis: str, name: str) -> list[str]:
    """One printable string a position; positions are numbered where no labels are given.

    axis: "queries (rows)" or "keys (columns)", for the error text.
    """
    if labels is None:
        return [str(i) for i in range(length)]
    if isinstance(labels, str):
        raise ValueError(f"{name} must be a list with one label each, not one string.")
    texts = [printable(str(label)) for label in labels]
    if len(texts) != length:
        raise ValueError(f"{name} has {len(texts)} labels, but there are {length} {axis}.")
    return texts


def printable(token: str, longest: int = 14) -> str:
    """A token as a short visible string: line breaks and blanks are shown, long ones end in an ellipsis."""
    text = token.replace("\\", "\\\\") if "\\" in token else token
    text = text.replace("\n", "\\n").replace("\t", "\\t").replace("\r", "\\r")
    text = "".join(c if c.isprintable() else f"\\x{ord(c):02x}" for c in text)
    if not text.strip():
        text = "␣" * max(1, len(text))
    return text if len(text) <= longest else text[: longest - 1] + "…"


def one_line(values: Any, name: str, length: int | None = None, other: str = "") -> Array:
    """A non-empty one-dimensional series of finite numbers, of the given length."""
    result = array(values, name)
    if result.ndim != 1:
        raise ValueError(f"{name} must have one dimension; this has the shape {result.shape}.")
    if not result.size:
        raise ValueError(f"{name} is empty. There is nothing to draw.")
    if length is not None and len(result) != length:
        raise ValueError(f"{name} has {len(result)} values, but {other} has {length}.")
    all_finite(result, name)
    return result


def softmax(scores: Array) -> Array:
    """PyTorch's softmax over the last axis; a row of -inf gives NaN."""
    import torch

    result: Array = torch.from_numpy(scores).softmax(dim=-1).numpy()
    return result

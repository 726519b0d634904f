"""Reads off the outputs how an answer behaves: what sums to what, and what moves what. Pure functions of arrays."""

from __future__ import annotations

from typing import Any

import numpy as np

Seen = tuple[str, dict[str, Any]]  # the id of a sentence in `phrases`, and the values in it
_MOVED = 1e-5


def _differs(a: np.ndarray, b: np.ndarray) -> bool:
    return a.shape != b.shape or not np.allclose(a, b, atol=2e-5, rtol=1e-4, equal_nan=True)


def dependency(outputs: np.ndarray) -> np.ndarray:
    """Which changed token moves which output. outputs: (1 + L_k, L_q, d), sample 0 unchanged → (L_q, L_k) bool.

    A NaN counts as moved only where it was not there before.
    """
    base, changed = outputs[:1], outputs[1:]
    with np.errstate(invalid="ignore"):
        moved = np.abs(changed - base) > _MOVED
    moved |= np.isnan(changed) != np.isnan(base)
    return moved.any(axis=-1).T


def behaviour(tensors: dict[str, np.ndarray], right: dict[str, np.ndarray], failing: set[str]) -> list[Seen]:
    """What can be said about a wrong answer without knowing its cause, the telling things first."""
    if not all(np.isfinite(tensors[case]).all() for case in ("main", "equal tokens") if case in tensors):
        return [("nan", {})] if "main" in failing else _mask_behaviour(tensors, right, tensors["main"])
    seen: list[Seen] = []

    def both(case: str) -> tuple[np.ndarray, np.ndarray] | None:
        yours, expected = tensors.get(case), right.get(case)
        return None if yours is None or expected is None or yours.shape != expected.shape else (yours, expected)

    main = both("main")
    if main is not None and np.isnan(main[0]).any() and "main" in failing:
        return [("nan", {})]
    equal, one = both("equal tokens"), both("one of the equal tokens")
    if equal is not None and one is not None and "main" in failing:
        largest = 1 + np.abs(one[0]).max()
        if not np.abs(equal[0][:, :1] - one[0][:, :1]).max() <= 1e-3 * largest:
            seen.append(("rows-do-not-sum-to-one", {}))
    other = both("other sample changed")
    if main is not None and other is not None and not _differs(main[0], other[0]):
        return [("input-ignored", {})]
    if main is not None and other is not None and _differs(main[0][0], other[0][0]):
        seen.append(("samples-mix", {}))
    if main is not None and "main" in failing and _order_matters(main, both("tokens permuted")):
        seen.append(("order-matters", {}))
    if main is not None and "main" not in failing:
        seen += _mask_behaviour(tensors, right, main[0])
    return seen


def _order_matters(main: tuple[np.ndarray, np.ndarray], permuted: tuple[np.ndarray, np.ndarray] | None) -> bool:
    """Without a mask the order of the tokens must not matter: outputs are permuted along, or stay."""
    if permuted is None:
        return False
    expected_rows = main[1][0]
    order = [int(np.abs(expected_rows - row).max(axis=-1).argmin()) for row in permuted[1][0]]
    return _differs(main[0][:, order], permuted[0])


def _mask_behaviour(tensors: dict[str, np.ndarray], right: dict[str, np.ndarray], main: np.ndarray) -> list[Seen]:
    seen: list[Seen] = []
    masked = tensors.get("random mask")
    if masked is not None and not _differs(masked, main):
        return [("mask-without-effect", {})]
    if masked is not None and np.isnan(masked).any() and not np.isnan(right["random mask"]).any():
        seen.append(("nan-with-mask", {}))
    keep_all = tensors.get("keep-all mask")
    if keep_all is not None and _differs(keep_all, main):
        seen.append(("keep-all-differs", {}))
    outputs, expected = tensors.get("dependency map"), right.get("dependency map")
    if outputs is not None and expected is not None and outputs.shape == expected.shape:
        moved, allowed = dependency(outputs), dependency(expected)
        leaks, blind = np.argwhere(moved & ~allowed), np.argwhere(~moved & allowed)
        if len(leaks):
            seen.append(("sees-hidden", {"i": int(leaks[0][0]), "j": int(leaks[0][1])}))
        if len(blind):
            seen.append(("does-not-see", {"i": int(blind[0][0]), "j": int(blind[0][1])}))
    return seen


def every_hidden_key_leaks(tensors: dict[str, np.ndarray], right: dict[str, np.ndarray]) -> bool:
    """The mask has an effect, leaves visible keys alone, and yet every hidden key still moves the output."""
    outputs, expected, main = tensors.get("dependency map"), right.get("dependency map"), tensors.get("main")
    masked, keep_all = tensors.get("random mask"), tensors.get("keep-all mask")
    if outputs is None or expected is None or main is None or masked is None or keep_all is None:
        return False
    if outputs.shape != expected.shape or _differs(keep_all, main) or not _differs(masked, main):
        return False
    finite = all(np.isfinite(array).all() and np.abs(array).max() < 1e4 for array in (outputs, masked))
    return finite and bool(dependency(outputs).all())

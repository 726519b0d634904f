"""Yours, expected, and the difference, side by side: what a failed check draws."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.figure import Figure

from helpers.plots import look
from helpers.plots.cells import Panel, decimals, power
from helpers.plots.heatmaps import same_shape
from helpers.plots.inputs import Array, matrix
from helpers.plots.panels import arrange


def difference(
    yours: Any,
    expected: Any,
    *,
    title: str | None = None,
    row_label: str = "query",
    column_label: str = "feature",
    labels: tuple[str, str] = ("yours", "expected"),
) -> Figure:
    """Draw what an answer gave, what was expected, and the first minus the second.

    yours, expected: (rows, columns) of the same shape; NaN and infinities are drawn as grey cells and named
    row_label, column_label: what one row and one column is
    labels: what stands above the two matrices
    Attention weights keep their colours; other numbers share one scale that is symmetric about 0.
    """
    mine, right = (matrix(v, n, "rows, columns", finite=False) for v, n in ((yours, "yours"), (expected, "expected")))
    same_shape(("yours", mine), ("expected", right))
    with np.errstate(invalid="ignore"):
        gap = mine - right
    gap[(mine == right) | (np.isnan(mine) & np.isnan(right))] = 0.0
    if _are_weights(right) and np.nanmin(mine, initial=0.0) >= 0 and np.nanmax(mine, initial=0.0) <= 1:
        cmap, norm = look.weights_map(), look.weights_norm()
    else:
        cmap, norm = look.scores_map(), look.signed_norm(mine, right)
    rows, columns = ([str(i) for i in range(n)] for n in mine.shape)
    both: dict[str, Any] = {"cmap": cmap, "norm": norm, "scale": "number"}
    off: dict[str, Any] = _gap_numbers(gap) | {
        "cmap": look.difference_map(),
        "norm": look.signed_norm(gap),
        "scale": "difference",
    }
    panels = [
        Panel(mine, labels[0], numbers=decimals(mine), short=decimals(mine, 1), **both),
        Panel(right, labels[1], numbers=decimals(right), short=decimals(right, 1), **both),
        Panel(gap, "difference", **off),
    ]
    said = _largest(gap, row_label, column_label)
    names = (_plural(row_label), _plural(column_label))
    size = f"{mine.shape[0]} by {mine.shape[1]} ({names[0]} by {names[1]})"
    description = f"Two matrices and their difference, {size}: {labels[0]}, {labels[1]}. {said}"
    choices = (3, 1) if mine.shape[1] > 2.5 * mine.shape[0] else (3,)  # wide ones may stand below each other
    return arrange(panels, rows, columns, description, title=title, caption=said, names=names, choices=choices)


def _gap_numbers(gap: Array) -> dict[str, Any]:
    """Differences with two decimals and with one; where all are small, with one digit and an exponent."""
    if np.abs(gap[np.isfinite(gap)]).max(initial=0.0) >= 0.05:
        return {"numbers": decimals(gap), "short": decimals(gap, 1)}
    return {"numbers": np.array([[power(float(f"{v:.0e}")) for v in row] for row in gap])}


def _are_weights(values: Array) -> bool:
    return bool(np.isfinite(values).all() and (values >= 0).all() and np.allclose(values.sum(axis=1), 1, atol=0.01))


def _largest(gap: Array, row: str, column: str) -> str:
    """The largest difference and its place, or how much cannot be compared."""
    bad = int((~np.isfinite(gap)).sum())
    finite = np.where(np.isfinite(gap), np.abs(gap), 0.0)
    i, j = divmod(int(finite.argmax()), gap.shape[1])
    lost = f" {bad} numbers cannot be compared: NaN or infinite." if bad else ""
    if finite[i, j] == 0:
        return ("The numbers are equal." if not bad else "The other numbers are equal.") + lost
    return f"Largest difference: {gap[i, j]:.3g} at {row} {i}, {column} {j}.{lost}"


def _plural(name: str) -> str:
    return {"query": "queries", "key": "keys"}.get(name, f"{name}s" if not name.endswith("s") else name)

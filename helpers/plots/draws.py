"""What dropout does to attention weights: a draw takes some away, the mean over many draws is the same."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from helpers.plots.cells import decimals, without_zero
from helpers.plots.heatmaps import labels_of, weights_panel
from helpers.plots.inputs import all_finite, array, check_weights, matrix, visible
from helpers.plots.panels import arrange


def dropout_draws(
    weights: Any, draws: Any, rate: float, queries: Any = None, keys: Any = None, *, shown: int = 2
) -> Figure:
    """Draw the weights, the first draws of dropout, and the mean of all draws, with the sum of each row.

    weights: (L_q, L_k), every row sums to 1
    draws: (n, L_q, L_k), the weights after dropout, one random draw each; dropped cells are crossed out
    rate: the dropout rate, 0 ≤ rate < 1
    shown: how many single draws get a panel
    """
    before = matrix(weights, "weights")
    check_weights(before, visible(None, before.shape))
    after = array(draws, "draws")
    if after.ndim != 3:
        raise ValueError(f"draws must have the shape (n, L_q, L_k); this has the shape {after.shape}.")
    if after.shape[1:] != before.shape:
        raise ValueError(f"draws has the shape {after.shape}, but weights has the shape {before.shape}.")
    if not len(after):
        raise ValueError("draws is empty. There is nothing to draw.")
    all_finite(after, "draws")
    if not 0 <= rate < 1:
        raise ValueError(f"rate must be at least 0 and below 1; this is {rate}.")
    rows, columns = labels_of(queries, keys, before.shape)
    panels = [weights_panel(before, "weights", sums=True)]
    for i, draw in enumerate(after[: max(1, shown)]):
        dropped = (draw == 0) & (before > 0)
        panel = weights_panel(draw, f"draw {i + 1}", sums=True)
        texts, short = decimals(draw), without_zero(decimals(draw))
        panels.append(replace(panel, numbers=np.where(dropped, "×", texts), short=np.where(dropped, "×", short)))
    mean = after.mean(axis=0)
    panels.append(weights_panel(mean, f"mean of {len(after)} draws", sums=True))
    gone = float(((after == 0) & (before > 0)).mean())
    description = (
        f"Attention weights before dropout, {len(panels) - 2} single draws with the rate {rate:g},"
        f" and the mean of {len(after)} draws. {gone:.0%} of the weights were dropped;"
        f" the mean differs from the weights by at most {np.abs(mean - before).max():.2f}."
    )
    caption = f"Dropped weights become 0 (×), the others are divided by 1 - {rate:g}. Colours still end at 1."
    return arrange(panels, rows, columns, description, caption=caption)

"""Attention weights as heatmaps: one head, the steps from scores to weights, many heads."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

from helpers.plots import look
from helpers.plots.cells import (
    Panel,
    column_labels,
    decimals,
    draw,
    row_labels,
    without_zero,
)
from helpers.plots.inputs import Array, array, check_weights, matrix, token_labels, visible
from helpers.plots.panels import arrange, legible


def labels_of(
    queries: Sequence[Any] | None, keys: Sequence[Any] | None, shape: tuple[int, int]
) -> tuple[list[str], list[str]]:
    """Row and column labels; a square matrix with only one list of tokens uses it for both axes."""
    if shape[0] == shape[1]:
        queries, keys = (keys if queries is None else queries), (queries if keys is None else keys)
    return token_labels(queries, shape[0], "queries (rows)", "queries"), token_labels(
        keys, shape[1], "keys (columns)", "keys"
    )


def weights_panel(
    weights: Array,
    title: str,
    hidden: NDArray[np.bool_] | None = None,
    *,
    numbers: bool = True,
    sums: bool = False,
) -> Panel:
    """Weights on the fixed scale 0 to 1, with the sum of each row at the right where wanted."""
    texts = decimals(weights)
    if hidden is not None:
        texts[hidden & (weights == 0)] = ""  # nothing leaks: only the hatching is left to see
    return Panel(
        weights,
        title,
        look.weights_map(),
        look.weights_norm(),
        hidden,
        texts if numbers else None,
        without_zero(texts) if numbers else None,
        [f"{total:.2f}" if np.isfinite(total) else "NaN" for total in weights.sum(axis=1)] if sums else [],
        "sum" if sums else "",
        scale="weight",
    )


def scores_panel(scores: Array, title: str, norm: Any, hidden: NDArray[np.bool_] | None = None) -> Panel:
    """Scores on a scale that is symmetric about 0."""
    return Panel(scores, title, look.scores_map(), norm, hidden, decimals(scores), decimals(scores, 1), scale="score")


def largest(weights: Array, rows: Sequence[str], columns: Sequence[str]) -> str:
    """ "0.84, from query cat to key sat": the largest weight in words."""
    finite = np.where(np.isfinite(weights), weights, -1.0).round(4)
    i, j = divmod(int(finite.argmax()), finite.shape[1])
    return f"{finite[i, j]:.2f}, from query {rows[i]} to key {columns[j]}"


def attention_heatmap(
    weights: Any,
    queries: Sequence[Any] | None = None,
    keys: Sequence[Any] | None = None,
    *,
    mask: Any = None,
    title: str | None = None,
    numbers: bool | None = None,
    row_sums: bool = True,
    ax: Axes | None = None,
) -> Figure:
    """Draw who looks at whom, and how much: one row a query, one column a key, colours fixed on 0 to 1.

    weights: (L_q, L_k), every row sums to 1 (taken before dropout)
    queries, keys: labels of rows and columns, numbered when left out; a square matrix needs one list
    mask: broadcasts to (L_q, L_k), True = may look; hidden cells are hatched, a weight that leaks still shows
    numbers: False leaves the cells empty; otherwise the weights are written into them while they fit
    row_sums: write the sum of each row at the right
    ax: draw into these axes and return their figure; make it with layout="constrained", so that labels find room
    Raises ValueError in words for what is no matrix of weights, or for labels of the wrong number.
    """
    values = matrix(weights, "weights", finite=False)
    may_look = visible(mask, values.shape)
    check_weights(values, may_look)
    rows, columns = labels_of(queries, keys, values.shape)
    hidden = None if mask is None else ~may_look
    panel = weights_panel(values, title or "", hidden, numbers=numbers is not False, sums=row_sums)
    most = largest(values, rows, columns)
    description = f"Attention heatmap of {counted(values.shape)}. The largest weight is {most}."
    if hidden is not None and hidden.any():
        leaked = float(np.nansum(np.where(hidden, values, 0.0)))
        description += f" {int(hidden.sum())} cells are hidden by the mask and hold a weight of {leaked:.2f} in all."
    if ax is not None:
        return _into(ax, panel, rows, columns, description)
    return arrange([replace(panel, title="")], rows, columns, description, title=title)


def counted(shape: tuple[int, ...]) -> str:
    """ "6 queries by 1 key"."""
    rows, columns = ("query" if shape[0] == 1 else "queries"), ("key" if shape[1] == 1 else "keys")
    return f"{shape[0]} {rows} by {shape[1]} {columns}"


def _into(ax: Axes, panel: Panel, rows: list[str], columns: list[str], description: str) -> Figure:
    """Draw into axes that the caller placed; what fits is decided by their present size."""
    figure = ax.get_figure(root=True)
    assert figure is not None
    rows, columns, _ = legible(rows, columns)
    box = ax.get_window_extent()
    n_rows, n_columns = panel.values.shape
    side = min(box.width / figure.dpi / n_columns, box.height / figure.dpi / n_rows)
    draw(
        ax,
        panel,
        (side, side),
        row_labels(rows, side),
        column_labels(columns, side),
        aspect="equal",
    )
    if panel.title:
        ax.set_title(look.spelled(panel.title), loc="left", **look.font([panel.title], look.TITLE, bold=True))
    if isinstance(figure, look.Picture) and not figure.description:
        figure.description = description
    return figure


def score_steps(
    scores: Any,
    scaled: Any,
    weights: Any,
    queries: Sequence[Any] | None = None,
    keys: Sequence[Any] | None = None,
) -> Figure:
    """Draw the way from scores over scaled scores to weights; both kinds of scores share one colour scale.

    scores, scaled: (L_q, L_k), any finite numbers
    weights: (L_q, L_k), every row sums to 1
    """
    raw, small, final = matrix(scores, "scores"), matrix(scaled, "scaled"), matrix(weights, "weights")
    same_shape(("scores", raw), ("scaled", small), ("weights", final))
    check_weights(final, visible(None, final.shape))
    rows, columns = labels_of(queries, keys, raw.shape)
    norm = look.signed_norm(raw, small)
    panels = [
        scores_panel(raw, "1  scores", norm),
        scores_panel(small, "2  scaled scores", norm),
        weights_panel(final, "3  weights", sums=True),
    ]
    description = (
        f"Three heatmaps of {counted(raw.shape)}: scores from {raw.min():.2f} to {raw.max():.2f},"
        f" scaled scores from {small.min():.2f} to {small.max():.2f}, and the weights."
        f" The largest weight is {largest(final, rows, columns)}."
    )
    return arrange(panels, rows, columns, description, choices=(3, 2))


def same_shape(*named: tuple[str, Array]) -> None:
    """Raises ValueError where the named arrays differ in shape from the first."""
    name, first = named[0]
    for other, values in named[1:]:
        if values.shape != first.shape:
            raise ValueError(f"{other} has the shape {values.shape}, but {name} has the shape {first.shape}.")


def heads(
    weights: Any,
    queries: Sequence[Any] | None = None,
    keys: Sequence[Any] | None = None,
    *,
    mask: Any = None,
    titles: Sequence[str] | None = None,
) -> Figure:
    """Draw every head as a small heatmap, all on the scale 0 to 1, with one colour bar.

    weights: (h, L_q, L_k), every row sums to 1
    mask: broadcasts to (L_q, L_k), the same for every head; True = may look, hidden cells are hatched
    titles: one a head; "head 0", "head 1", … when left out
    """
    values = array(weights, "weights")
    if values.ndim != 3:
        advice = " Pick one sample first." if values.ndim > 3 else ""
        raise ValueError(f"weights must have the shape (h, L_q, L_k); this has the shape {values.shape}.{advice}")
    if 0 in values.shape:
        raise ValueError(f"weights is empty: its shape is {values.shape}. There is nothing to draw.")
    h, shape = len(values), values.shape[1:]
    may_look = visible(mask, shape)
    for i, head in enumerate(values):
        check_weights(head, may_look, f"weights of head {i}")
    if titles is not None and len(titles) != h:
        raise ValueError(f"titles has {len(titles)} titles, but there are {h} heads.")
    names = [look.spelled(str(t)) for t in titles] if titles is not None else [f"head {i}" for i in range(h)]
    rows, columns = labels_of(queries, keys, shape)
    hidden = None if mask is None else ~may_look
    panels = [weights_panel(head, name, hidden, numbers=False) for head, name in zip(values, names, strict=True)]
    description = f"{h} {'heatmap' if h == 1 else 'heatmaps'}, one a head, of {counted(shape)}. " + " ".join(
        f"{name}: largest weight {largest(head, rows, columns)}." for head, name in zip(values[:8], names, strict=False)
    )
    return arrange(panels, rows, columns, description, shared_bar=True)

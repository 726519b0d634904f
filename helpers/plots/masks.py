"""What a mask does: the whole path from scores to weights, what a fill lets through, who depends on whom."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from matplotlib.colors import ListedColormap, Normalize
from matplotlib.figure import Figure
from numpy.typing import NDArray

from helpers.plots import look
from helpers.plots.cells import Panel, power
from helpers.plots.heatmaps import counted, labels_of, scores_panel, weights_panel
from helpers.plots.inputs import Array, matrix, softmax, visible
from helpers.plots.panels import Key, arrange


def filled(scores: Array, may_look: NDArray[np.bool_], fill: float) -> Array:
    """The scores with `fill` in every hidden cell."""
    return np.where(may_look, scores, fill)


def number(value: Any, name: str) -> float:
    """A fill value as a float; -inf is welcome, NaN is not."""
    try:
        result = float(value)
    except (TypeError, ValueError):
        raise ValueError(f"{name} must be a number such as -inf or -1e9; this is {value!r}.") from None
    if math.isnan(result) or result == math.inf:
        raise ValueError(f"{name} must be a number such as -inf or -1e9; this is {result}.")
    return result


def leaked(weights: Array, may_look: NDArray[np.bool_]) -> Array:
    """The weight on hidden keys, one number a query; NaN for a row of NaN."""
    return np.where(may_look, 0.0, weights).sum(axis=1)


def share(value: float) -> str:
    """A leaked weight as text: exactly nothing is "0", next to nothing stays visible as 2e-9."""
    if np.isnan(value):
        return "NaN"
    if value == 0:
        return "0"
    return f"{value:.2f}" if value >= 0.005 else power(float(f"{value:.0e}"))


def mask_path(
    scores: Any,
    mask: Any,
    *,
    fill: float = -math.inf,
    queries: Sequence[Any] | None = None,
    keys: Sequence[Any] | None = None,
) -> Figure:
    """Draw the whole way of a mask: scores, mask, masked scores, weights.

    scores: (L_q, L_k), finite, already scaled
    mask: broadcasts to (L_q, L_k), True = may look; hidden cells are hatched
    fill: the score that a hidden cell gets; the weights are the softmax of the masked scores
    """
    raw = matrix(scores, "scores")
    may_look = visible(mask, raw.shape)
    fill = number(fill, "fill")
    rows, columns = labels_of(queries, keys, raw.shape)
    hidden = ~may_look
    after = filled(raw, may_look, fill)
    weights = softmax(after)
    norm = look.signed_norm(raw)  # the fill must not flatten the colours of the scores
    panels = [
        scores_panel(raw, "1  scores", norm),
        mask_panel(may_look, "2  mask"),
        scores_panel(after, f"3  masked scores, fill {power(fill)}", norm, hidden),
        weights_panel(weights, "4  weights", hidden, sums=True),
    ]
    leak = leaked(weights, may_look)
    description = (
        f"Four panels: scores, mask, masked scores and weights of {counted(raw.shape)}."
        f" The mask hides {int(hidden.sum())} of {hidden.size} cells; with the fill {power(fill)}"
        f" the most that one query spends on hidden keys is {share(_most(leak))}."
    )
    return arrange(panels, rows, columns, description, choices=(4, 2))


def _most(leak: Array) -> float:
    return float(np.nan if np.isnan(leak).all() else np.nanmax(leak))


def mask_panel(may_look: NDArray[np.bool_], title: str) -> Panel:
    """The mask itself: open cells are plain, hidden cells hatched."""
    texts = np.where(may_look, "1", "0")
    return Panel(
        may_look.astype(float),
        title,
        ListedColormap(["#ffffff", "#ffffff"]),
        Normalize(0, 1),
        ~may_look,
        texts,
    )


def compare_fills(
    scores: Any,
    mask: Any,
    fills: Sequence[float],
    *,
    queries: Sequence[Any] | None = None,
    keys: Sequence[Any] | None = None,
) -> Figure:
    """Draw the weights for each fill, with the weight that leaks to hidden keys at the right of each row.

    scores: (L_q, L_k), finite, already scaled
    mask: broadcasts to (L_q, L_k), True = may look
    fills: the score that a hidden cell gets, one panel each, such as [-inf, -1e9, 1e-20]; computed in float64
    """
    raw = matrix(scores, "scores")
    may_look = visible(mask, raw.shape)
    values = [number(fill, "each of fills") for fill in fills]
    if not values:
        raise ValueError("fills is empty. There is nothing to compare.")
    rows, columns = labels_of(queries, keys, raw.shape)
    panels, said = [], []
    for fill in values:
        weights = softmax(filled(raw, may_look, fill))
        leak = leaked(weights, may_look)
        panel = weights_panel(weights, f"fill {power(fill)}", ~may_look)
        panels.append(replace(panel, margin=[share(v) for v in leak], margin_title="leaks"))
        said.append(f"fill {power(fill)} leaks at most {share(_most(leak))}")
    description = f"Attention weights for {len(values)} fills. Of a query's weight, {', '.join(said)}."
    caption = "leaks: the weight that a query spends on hidden (hatched) keys."
    return arrange(panels, rows, columns, description, caption=caption)


# The four cases of a dependency map: (moved, expected) → colour, sign in the cell, words.
CASES = {
    (True, True): (look.BLUE, "", "moves the output, as it should"),
    (False, False): (look.CARD, "", "does not move it, as it should"),
    (True, False): (look.VERMILION, "!", "moves the output, but must not"),
    (False, True): (look.YELLOW, "?", "does not move it, but should"),
}


def dependency_map(
    moved: Any,
    *,
    expected: Any = None,
    queries: Sequence[Any] | None = None,
    keys: Sequence[Any] | None = None,
) -> Figure:
    """Draw which outputs move when one input is changed: row i, column j is "does key j reach output i".

    moved: (L_q, L_k), bool: changing key j moves output i
    expected: (L_q, L_k), bool: what a right answer shows; where the two differ the cell is marked
    """
    given = matrix(moved, "moved")
    seen = visible(given, given.shape, "moved")
    wanted = seen if expected is None else visible(matrix(expected, "expected"), seen.shape, "expected")
    rows, columns = labels_of(queries, keys, seen.shape)
    cases = [case for case in CASES if ((seen == case[0]) & (wanted == case[1])).any()]
    codes = np.zeros(seen.shape)
    signs = np.full(seen.shape, "", dtype="<U1")
    for code, (case, (_, sign, _)) in enumerate(CASES.items()):
        here = (seen == case[0]) & (wanted == case[1])
        codes[here], signs[here] = code, sign
    cmap = ListedColormap([colour for colour, _, _ in CASES.values()])
    panel = Panel(codes, "", cmap, Normalize(0, 3), ~seen & ~wanted, signs)
    wrong = int((seen != wanted).sum())
    description = f"Dependency map: {int(seen.sum())} of {seen.size} pairs of output and input depend on each other."
    if expected is not None:
        description += f" {wrong} pairs differ from what is expected." if wrong else " All are as expected."
    plain = {(True, True): "moves the output", (False, False): "does not move it"}
    words = [(plain.get(c, "") if expected is None else "") or CASES[c][2] for c in cases]
    legend = [Key(*CASES[c][:2], c == (False, False), text) for c, text in zip(cases, words, strict=True)]
    return arrange(
        [panel],
        rows,
        columns,
        description,
        names=("outputs (queries)", "changed inputs (keys)"),
        legend=legend,
    )

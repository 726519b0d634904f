"""The stepper: one query on its way through scores, scale, mask, softmax and weighted sum."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from helpers import demo, mask_demo
from helpers.plots import Picture, look
from helpers.plots.cells import Panel, above, column_labels, draw, row_labels
from helpers.plots.heatmaps import scores_panel, weights_panel
from helpers.plots.inputs import Array, array, visible
from helpers.plots.panels import legible
from helpers.widgets.explorer import Explorer, Shown, choice, counting_button, names_for, one_sample, stepper, tick

STEPS, MOST_KEYS, FEATURES = 5, 16, 4
CELL_WIDTH, CELL_HEIGHT = 0.62, 0.28  # inches
TITLES = (
    "1  scores: query · key",
    "2  scaled: ÷ √d",
    "3  masked",
    "4  weights: softmax",
    "5  weight · value",
)


@dataclass(frozen=True)
class Way:
    """Every station of one query. scores, scaled, masked, weights: (L_k,); weighted: (L_k, d_v); output: (d_v,)"""

    scores: torch.Tensor
    scaled: torch.Tensor
    masked: torch.Tensor
    weights: torch.Tensor
    weighted: torch.Tensor
    output: torch.Tensor


def watch_formula(
    q: Any = None, k: Any = None, v: Any = None, tokens: Any = None, *, mask: Any = None, query: int = 0
) -> Explorer:
    """Walk one query through the formula, step by step.

    q: (L_q, d), k: (L_k, d), v: (L_k, d_v), or each with a leading 1; the course's own sentence when all are left out
    tokens: labels of the keys, and of the queries where their number is the same
    mask: broadcasts to (L_q, L_k), True = may look; with a mask there is a box to tick for it
    query: the row to begin with
    raises: ValueError in words for shapes that do not fit, more than 16 keys, or a query that is not there
    """
    if q is None and k is None and v is None:
        own, x = demo.sentence()
        q, k, v = (layer(x) for layer in demo.projections())
        tokens, query = (own, own.index("it")) if tokens is None else (tokens, query)
    q, k, v = (one_sample(value, name) for value, name in ((q, "q"), (k, "k"), (v, "v")))
    _require_fitting(q, k, v, query)
    keys = names_for(tokens, len(k), "k")
    queries = keys if len(q) == len(k) else names_for(None, len(q), "q")
    may_look = torch.tensor(visible(mask, (len(q), len(k))))
    step = stepper("step", STEPS)
    controls = {"query": choice("query", [(name, i) for i, name in enumerate(queries)], query)}
    if mask is not None:
        controls["mask"] = tick("use the mask", True)
    controls["step"] = step

    def show(query: int, step: int, mask: bool = False) -> Shown:
        row = may_look[query] if mask else torch.ones_like(may_look[query])  # (L_k,)
        way = walk(q[query], k, v, row)
        words = _step_in_words(way, step, queries[query], keys, q.shape[-1], int((~row).sum()))
        return Shown(words, _drawn(way, step, queries[query], keys, ~row.numpy()), _reached(way, step))

    return Explorer(controls, show, buttons=[counting_button("back", step, -1), counting_button("next", step, 1)])


def walk(query: torch.Tensor, k: torch.Tensor, v: torch.Tensor, may_look: torch.Tensor) -> Way:
    """All stations of one query. query: (d,), k: (L_k, d), v: (L_k, d_v), may_look: (L_k,), bool"""
    scores, scaled, _ = (each[0] for each in demo.score_path(query.unsqueeze(0), k))  # (1, L_k) → (L_k,)
    masked = mask_demo.filled(scaled, may_look, -math.inf)
    weights = masked.softmax(dim=-1)
    weighted = weights.unsqueeze(-1) * v  # (L_k, 1) * (L_k, d_v) → (L_k, d_v)
    return Way(scores, scaled, masked, weights, weighted, weighted.sum(dim=0))


def _reached(way: Way, step: int) -> dict[str, torch.Tensor]:
    """The stations up to this step, by name."""
    names = ("scores", "scaled", "masked", "weights", "weighted")[:step]
    return {name: getattr(way, name) for name in (*names, *(["output"] if step == STEPS else []))}


def _require_fitting(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, query: int) -> None:
    if q.shape[-1] != k.shape[-1]:
        raise ValueError(f"q and k must have the same width d; they have {q.shape[-1]} and {k.shape[-1]}.")
    if len(k) != len(v):
        raise ValueError(f"k and v must have the same length L_k; they have {len(k)} and {len(v)}.")
    if len(k) > MOST_KEYS:
        raise ValueError(f"At most {MOST_KEYS} keys fit into the picture; k has {len(k)}.")
    if query not in range(len(q)):
        raise ValueError(f"query must be a row of q, 0 to {len(q) - 1}, not {query!r}.")


def _step_in_words(way: Way, step: int, query: str, keys: list[str], d: int, hidden: int) -> tuple[str, str]:
    """What the step does, and what to see in the picture."""
    best, most = keys[int(way.scores.argmax())], way.scores.max().item()
    heavy, weight = keys[int(way.weights.nan_to_num(0).argmax())], way.weights.max().item()
    total = way.masked.double().exp().sum().item()
    width = way.weighted.shape[-1]
    if step >= 4 and not way.weights.isfinite().all():
        return f"Step {step} of 5. Every key is hidden from “{query}”.", "The softmax divides 0 by 0: all is NaN."
    sentences = {
        1: (
            f"Step 1 of 5, scores. The query of “{query}” meets every key: one dot product of {d} features each.",
            f"The largest score is {most:.2f}, with “{best}”.",
        ),
        2: (
            f"Step 2 of 5, scale. Every score is divided by √{d} = {math.sqrt(d):.2f}.",
            f"The largest is now {way.scaled.max().item():.2f}. The order stays as it was.",
        ),
        3: (
            "Step 3 of 5, mask. A hidden key gets the score -inf."
            if hidden
            else "Step 3 of 5, mask. No key is hidden from this query: the scores stay as they are.",
            f"Hidden keys: {hidden} of {len(keys)}.",
        ),
        4: (
            f"Step 4 of 5, softmax. Every score becomes e to its power, and is divided by the sum of all: {total:.2f}.",
            f"The weights sum to 1. The largest is {weight:.2f}, on “{heavy}”.",
        ),
        5: (
            "Step 5 of 5, weighted sum. Every value is multiplied by its weight, and all are added up.",
            f"The output has {width} features, like a value. The picture shows the first {min(FEATURES, width)}.",
        ),
    }
    return sentences[step]


# ---- the picture -----------------------------------------------------------------------------------------


def _drawn(way: Way, step: int, query: str, keys: list[str], hidden: Any) -> Picture:
    """All stations below each other, one column a key; those not yet reached are empty. hidden: (L_k,), bool"""
    _, names, note = legible([query], keys)
    width = len(keys) * CELL_WIDTH if len(keys) <= 9 else 9 * CELL_WIDTH
    cell = (width / len(keys), CELL_HEIGHT)
    description = f"The query “{query}” and its {len(keys)} keys after step {step} of {STEPS}: {TITLES[step - 1][3:]}."
    picture, top = Picture(description), 0.0
    for number, (panel, rows) in enumerate(_stations(way, step, query, hidden), start=1):
        height = len(panel.values) * CELL_HEIGHT
        axes = picture.place(0.0, top, width, height)
        first = number == 1
        columns = column_labels(names, cell[0]) if first else None
        labels = row_labels(rows, CELL_HEIGHT) if rows else None
        draw(axes, panel, cell, labels, columns, names=("", "keys" if first else ""))
        style = look.font([], look.LABEL, look.INK if number <= step else look.QUIET, bold=number == step)
        above(axes, panel.title, picture.room_above(axes) if first else 0.0, style)
        top += height + look.line_height(look.LABEL) + 0.12
    return picture.wrap(caption=note)


def _stations(way: Way, step: int, query: str, hidden: Any) -> list[tuple[Panel, list[str]]]:
    """The panel of every station and the labels of its rows; the first label serves the rows of one query."""
    rows = [array(x, "x")[None] for x in (way.scores, way.scaled, way.masked, way.weights)]  # (1, L_k) each
    norm = look.signed_norm(rows[0], rows[1])
    parts = array(way.weighted, "weighted").T[:FEATURES]  # (features, L_k)
    hide = hidden[None] if hidden.any() else None
    panels = [
        scores_panel(rows[0], TITLES[0], norm),
        scores_panel(rows[1], TITLES[1], norm),
        scores_panel(rows[2], TITLES[2], norm, hide),
        weights_panel(rows[3], TITLES[3], hide, sums=True),
        _contributions(parts, array(way.output, "output")[:FEATURES]),
    ]
    labels = [[look.spelled(query)], [], [], [], [f"feature {i}" for i in range(len(parts))]]
    shown = [panel if number <= step else _empty(panel) for number, panel in enumerate(panels, start=1)]
    return list(zip(shown, labels, strict=True))


def _contributions(parts: Array, output: Array) -> Panel:
    """What every key hands over, and the output as the sum of each row."""
    panel = scores_panel(parts, TITLES[4], look.signed_norm(parts))
    return Panel(
        **{**vars(panel), "margin": [f"{value:.2f}" for value in output], "margin_title": "sum: output"},
    )


def _empty(panel: Panel) -> Panel:
    """The place of a station that is not yet reached; its margin keeps its title, so that nothing jumps."""
    margin, title = [""] * len(panel.margin), panel.margin_title
    values = np.full_like(panel.values, np.nan)
    return Panel(values, panel.title, panel.cmap, panel.norm, margin=margin, margin_title=title)

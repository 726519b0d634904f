"""The dropout explorer: what one draw does to the weights, and to the sums of their rows."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F

from helpers import demo, mask_demo
from helpers.plots import Picture
from helpers.plots.cells import decimals, without_zero
from helpers.plots.heatmaps import weights_panel
from helpers.plots.inputs import array, check_weights, visible
from helpers.plots.panels import arrange
from helpers.widgets.explorer import Explorer, Shown, choice, counter, counting_button, names_for, one_sample, slider

DRAWS = 4000  # for the mean


def explore_dropout(weights: Any = None, tokens: Any = None, *, rate: float = 0.5) -> Explorer:
    """Change the rate and the mode, and draw again; watch the sums of the rows.

    weights: (L_q, L_k) with rows that sum to 1, or (1, L_q, L_k); the course's own sentence when left out
    tokens: labels of the L_k keys, and of the queries where their number is the same
    rate: the dropout rate to begin with: 0, 0.1, … 0.9
    raises: ValueError in words for weights that are none, labels of the wrong number, or another rate
    """
    rates = [i / 10 for i in range(10)]
    if rate not in rates:
        raise ValueError(f"rate must be one of 0, 0.1, … 0.9, not {rate!r}.")
    if weights is None:
        own, x = demo.sentence()
        to_query, to_key, _ = demo.projections()
        weights, tokens = demo.attention_weights(to_query(x), to_key(x)), own if tokens is None else tokens
    table = one_sample(weights, "weights")
    check_weights(array(table, "weights"), visible(None, (len(table), table.shape[1])))
    keys = names_for(tokens, table.shape[1], "the keys")
    queries = keys if table.shape[0] == table.shape[1] else names_for(None, table.shape[0], "the queries")
    number = counter("draw number", 999)
    controls = {
        "rate": slider("rate p", [(f"{each:g}", each) for each in rates], rate),
        "mode": choice("mode", ["train", "eval"], "train"),
        "draw": number,
    }
    return Explorer(
        controls,
        lambda rate, mode, draw: dropped(table, rate, mode, draw, queries, keys),
        buttons=[counting_button("redraw", number, 1)],
    )


def dropped(weights: torch.Tensor, rate: float, mode: str, draw: int, queries: list[str], keys: list[str]) -> Shown:
    """One draw of dropout and the mean of many, each draw with its own seed. weights: (L_q, L_k)"""
    many = weights.expand(DRAWS, *weights.shape)  # (DRAWS, L_q, L_k)
    training = mode == "train"
    draws = mask_demo.draws(lambda: F.dropout(many, rate, training), 1, seed=draw)[0]  # (DRAWS, L_q, L_k)
    one = draws[0]  # (L_q, L_k)
    sums = one.sum(dim=-1)  # (L_q,)
    mean = draws.sum(dim=-1).mean().item()
    if training:
        gone = int(((one == 0) & (weights > 0)).sum())
        first = f"Draw {draw}, rate {rate:g}: {gone} of {one.numel()} weights are gone."
    else:
        first = "In eval mode nothing is dropped, whatever the rate is."
    words = (
        first,
        f"Sums of the rows: {sums.min().item():.2f} to {sums.max().item():.2f}. Mean over {DRAWS} draws: {mean:.2f}.",
    )
    return Shown(words, _drawn(weights, one, mode, queries, keys), {"draw": one, "sums": sums, "mean": mean})


def _drawn(weights: torch.Tensor, one: torch.Tensor, mode: str, queries: list[str], keys: list[str]) -> Picture:
    """The weights before and after dropout, each row with its sum; what was dropped is crossed out."""
    before, after = array(weights, "weights"), array(one, "draw")
    panel = weights_panel(after, f"after dropout, {mode}", sums=True)
    crossed = np.where((after == 0) & (before > 0), "×", decimals(after))
    description = (
        f"Attention weights before and after dropout in {mode} mode, each row with its sum."
        f" After dropout the sums are {after.sum(axis=1).min():.2f} to {after.sum(axis=1).max():.2f}."
    )
    panels = [
        weights_panel(before, "weights", sums=True),
        replace(panel, numbers=crossed, short=without_zero(crossed)),
    ]
    return arrange(panels, queries, keys, description, caption="×: dropped. Colours end at 1.", choices=(2,))

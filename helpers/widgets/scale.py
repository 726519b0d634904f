"""The scale explorer: what the width d does to scores and weights, with and without the scale."""

from __future__ import annotations

import math
from dataclasses import replace

import torch

from helpers import demo
from helpers.demo import BY_ROOT, BY_WIDTH, NO_SCALE, SCALES
from helpers.plots import look
from helpers.plots.cells import decimals
from helpers.plots.heatmaps import scores_panel, weights_panel
from helpers.plots.inputs import array
from helpers.plots.panels import arrange
from helpers.widgets.explorer import Explorer, Shown, choice, slider

LENGTH, WIDEST = 6, 4096


def explore_scale(d: int = 64, *, seed: int = 0) -> Explorer:
    """Change the width and the scale; watch the weights become one-hot, or all equal.

    Six random queries meet six random keys; all entries are independent, with mean 0 and variance 1.

    d: the width to begin with, a power of 2 up to 4096
    seed: of the local generator
    raises: ValueError when the slider has no such width
    """
    widths = [2**i for i in range(int(math.log2(WIDEST)) + 1)]
    if d not in widths:
        raise ValueError(f"d must be a power of 2 from 1 to {WIDEST}, not {d!r}.")
    generator = torch.Generator().manual_seed(seed)
    # A larger width adds features to these; it does not draw new ones.
    q, k = (torch.randn(LENGTH, WIDEST, generator=generator) for _ in range(2))
    controls = {
        "width": slider("width d", widths, d),
        "scale": choice("scale", [NO_SCALE, BY_ROOT, BY_WIDTH], BY_ROOT),
    }
    return Explorer(controls, lambda width, scale: scaled(q[:, :width], k[:, :width], scale))


def scaled(q: torch.Tensor, k: torch.Tensor, scale: str) -> Shown:
    """Scores after the scale, and their weights with the entropy of each row. q, k: (L, d)"""
    width = q.shape[-1]
    factor = SCALES[scale]
    multiplied = None if factor is None else factor(width)
    scores, weights = demo.scores(q, k, multiplied), demo.attention_weights(q, k, scale=multiplied)  # (L, L)
    entropies = torch.special.entr(weights).sum(dim=-1)  # (L,), in nats
    spread, entropy, largest = (x.item() for x in (scores.std(), entropies.mean(), weights.max(dim=-1).values.mean()))
    drawn = array(scores, "scores")
    panel = weights_panel(array(weights, "weights"), "weights")
    numbers = [str(i) for i in range(LENGTH)]
    scores_drawn = replace(
        scores_panel(drawn, f"scores, {scale}", look.signed_norm(drawn)), numbers=decimals(drawn, 1), short=None
    )
    picture = arrange(
        [
            scores_drawn,
            replace(panel, margin=[f"{value:.2f}" for value in entropies.tolist()], margin_title="entropy"),
        ],
        numbers,
        numbers,
        f"Two heatmaps of {LENGTH} random queries and keys of width {width}, {scale}: the scores, and the weights with"
        f" the entropy of each row. On average the largest weight of a row is {largest:.2f}.",
        choices=(2,),
    )
    words = (
        f"Width {width}, {scale}. Standard deviation of the scores: {spread:.2f}.",
        f"Entropy of a row of weights, on average: {entropy:.2f} nats. All weights equal: {math.log(LENGTH):.2f}."
        " All weight on one key: 0.",
    )
    data = {"scores": scores, "weights": weights, "entropies": entropies, "std": spread, "entropy": entropy}
    return Shown(words, picture, data)

"""What dividing by √d does: the spread of the scores and the entropy of the weights as the width grows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from helpers.plots import look
from helpers.plots.inputs import Array, array, one_line
from helpers.plots.lines import Curve, line_panel, style
from helpers.plots.look import MAX_WIDTH, SMALL, Picture


def scale_effect(
    widths: Sequence[int], stds: Mapping[str, Sequence[float]], entropies: Mapping[str, Sequence[float]]
) -> Figure:
    """Draw, against the width d, the standard deviation of the scores and the entropy of the weights.

    widths: the widths d, positive
    stds, entropies: label ("no scale", "÷ √d", "÷ d") → one value a width; entropies in nats
    """
    x = one_line(widths, "widths")
    if (x <= 0).any():
        raise ValueError("widths must be positive.")
    spread, entropy = series(stds, "stds", len(x), "widths"), series(entropies, "entropies", len(x), "widths")
    if any((values <= 0).any() for values in spread.values()):
        raise ValueError("stds must be positive: they are drawn on a logarithmic scale.")
    said = "; ".join(f"{label}: {values[0]:.2g} to {values[-1]:.2g}" for label, values in spread.items())
    also = "; ".join(f"{label}: {values[0]:.2g} to {values[-1]:.2g}" for label, values in entropy.items())
    picture = Picture(
        f"Two line charts over widths from {x[0]:g} to {x[-1]:g}. Standard deviation of the scores: {said}."
        f" Entropy of the weights: {also}."
    )
    half = (MAX_WIDTH - 3.0) / 2
    order = list(dict.fromkeys([*spread, *entropy]))
    for left, title, data, log_y in (
        (0.0, "spread of the scores (std)", spread, True),
        (half + 1.4, "entropy of the weights (nats)", entropy, False),
    ):
        axes = picture.place(left, 0.4, half, 2.4)
        lines = [Curve(label, data[label], order.index(label)) for label in order if label in data]
        line_panel(axes, x, lines, x_label="width d", y_label="", title=title, log_x=True, log_y=log_y)
    return picture.wrap()


def series(values: Mapping[str, Any], name: str, length: int, other: str) -> dict[str, Array]:
    """Label → values, each of the same length as `other`. Raises ValueError in words."""
    if not isinstance(values, Mapping):
        raise ValueError(f"{name} must map labels to values; this is {type(values).__name__}.")
    if not values:
        raise ValueError(f"{name} is empty. There is nothing to draw.")
    return {str(k): one_line(v, f"{name}[{k!r}]", length, other) for k, v in values.items()}


def score_distribution(samples: Mapping[str, Any]) -> Figure:
    """Draw a histogram of each sample, one below the other on the same axis, with its standard deviation.

    samples: label → scores, any shape, finite
    """
    if not isinstance(samples, Mapping):
        raise ValueError(f"samples must map labels to values; this is {type(samples).__name__}.")
    if not samples:
        raise ValueError("samples is empty. There is nothing to draw.")
    data = {str(k): one_line(array(v, f"samples[{k!r}]").ravel(), f"samples[{k!r}]") for k, v in samples.items()}
    together = np.concatenate(list(data.values()))
    limit = float(np.abs(together).max()) or 1.0
    said = "; ".join(f"{label}: {values.std():.2g}" for label, values in data.items())
    picture = Picture(f"Histograms of scores, one below the other on the same axis. Standard deviations: {said}.")
    height, gap = (0.95, 0.34) if len(data) <= 4 else (0.6, 0.3)
    for i, (label, values) in enumerate(data.items()):
        axes = picture.place(0.0, i * (height + gap), 5.6, height)
        colour = look.series_colour(label, i)
        bins = np.linspace(-limit, limit, 162)  # an odd number of bars: one is centred on 0
        axes.hist(values, bins=bins, color=colour, linewidth=0)
        style(axes, last := i == len(data) - 1)
        axes.set_xlim(-limit, limit)
        axes.set_yticks([])
        axes.spines["left"].set_visible(False)
        name = look.spelled(f"{label}   std {values.std():.2g}")
        axes.set_title(name, loc="left", pad=2, **look.font([name], look.LABEL, colour, bold=True))
        if last:
            axes.set_xlabel("score", **look.font([], SMALL, look.QUIET))
    return picture.wrap()

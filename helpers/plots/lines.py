"""Curves with their labels at the line's end: benchmarks, training, anything over one variable."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, NullLocator

from helpers.plots import look
from helpers.plots.inputs import Array, one_line
from helpers.plots.look import LABEL, QUIET, SMALL, Picture


@dataclass(frozen=True)
class Curve:
    """One line: its label, its values, its place in the order of colours, and the band around it."""

    label: str
    values: Array
    index: int
    band: tuple[Array, Array] | None = None


def curves(
    x: Any,
    series: Mapping[str, Any],
    *,
    x_label: str,
    y_label: str,
    spread: Mapping[str, tuple[Any, Any]] | None = None,
    log_x: bool = False,
    log_y: bool = False,
    title: str | None = None,
    ax: Axes | None = None,
) -> Figure:
    """Draw one line a series, each with its name at its end, and a band where a spread is given.

    x: (n,); series: label → (n,) values; spread: label → (low, high), each (n,)
    log_x, log_y: draw on a logarithmic scale; the values must be positive
    """
    at = one_line(x, "x")
    if not isinstance(series, Mapping) or not series:
        raise ValueError("series must map at least one label to its values.")
    data = {str(k): one_line(v, f"series[{k!r}]", len(at), "x") for k, v in series.items()}
    bands = {}
    for label, pair in (spread or {}).items():
        if str(label) not in data:
            raise ValueError(f"spread names {label!r}, but series has no such label. It has: {', '.join(data)}.")
        if len(pair) != 2:
            raise ValueError(f"spread[{label!r}] must be a pair (low, high); it has {len(pair)} parts.")
        low, high = (one_line(v, f"spread[{label!r}]", len(at), "x") for v in pair)
        if (low > high).any():
            raise ValueError(f"spread[{label!r}] must be a pair (low, high); somewhere low is above high.")
        bands[str(label)] = (low, high)
    if log_x and (at <= 0).any():
        raise ValueError("x must be positive to be drawn on a logarithmic scale.")
    drawn = [*data.values(), *(v for band in bands.values() for v in band)]
    if log_y and any((values <= 0).any() for values in drawn):
        raise ValueError("series and spread must be positive to be drawn on a logarithmic scale.")
    lines = [Curve(label, values, i, bands.get(label)) for i, (label, values) in enumerate(data.items())]
    names: dict[str, Any] = {"x_label": x_label, "y_label": y_label, "log_x": log_x, "log_y": log_y}
    if ax is not None:
        line_panel(ax, at, lines, title=title or "", **names)
        figure = ax.get_figure(root=True)
        assert figure is not None
        return figure
    said = "; ".join(f"{label} from {values[0]:.3g} to {values[-1]:.3g}" for label, values in data.items())
    picture = Picture(f"Line chart of {y_label} against {x_label}, {at[0]:g} to {at[-1]:g}: {said}.")
    longest = max(look.text_width(label, SMALL) for label in data) if len(data) > 1 else 0.0
    width = min(5.4, look.MAX_WIDTH - 2 * look.PAD - 0.9 - longest)
    line_panel(picture.place(0.0, 0.0, width, 2.9), at, lines, title="", **names)
    return picture.wrap(title=title)


def style(axes: Axes, ticks: bool = True) -> None:
    """The quiet frame of every chart: two spines, light rules, small numbers."""
    axes.set_facecolor(look.CARD)
    axes.set_axisbelow(True)
    axes.margins(0.05)
    axes.minorticks_off()
    axes.grid(False)
    for name, spine in axes.spines.items():
        spine.set(color=look.RULE, linewidth=0.8, visible=name in ("left", "bottom"))
    axes.tick_params(
        which="both",
        color=look.RULE,
        labelcolor=look.INK,
        labelsize=SMALL,
        labelfontfamily=look.FIRST,
        length=3,
        direction="out",
        bottom=True,
        left=True,
        labelbottom=ticks,
    )


def line_panel(
    axes: Axes,
    x: Array,
    lines: Sequence[Curve],
    *,
    x_label: str,
    y_label: str,
    title: str,
    log_x: bool,
    log_y: bool,
) -> None:
    """Draw the lines, their bands, and their names at their right ends."""
    style(axes)
    few = len(x) <= 25  # many points would hide the line below their markers
    for line in lines:
        dashes = "-" if few else look.STYLES[line.index % len(look.STYLES)]
        colour = look.series_colour(line.label, line.index)
        mark = look.MARKERS[line.index % len(look.MARKERS)]
        axes.plot(
            x, line.values, color=colour, linewidth=1.8, linestyle=dashes, label=line.label,
            marker=mark if few else None, markersize=4.5, markeredgecolor=look.CARD, markeredgewidth=0.6,
        )  # fmt: skip
        if line.band is not None:
            axes.fill_between(x, *line.band, color=colour, alpha=0.18, linewidth=0)
    _scales(axes, x, log_x, log_y)
    axes.grid(True, axis="y", color="#e7e9ee", linewidth=0.7, linestyle="-")
    for name, setter in ((x_label, axes.set_xlabel), (y_label, axes.set_ylabel)):
        setter(look.spelled(name), labelpad=5, **look.font([name], SMALL, QUIET))
    if title:
        axes.set_title(look.spelled(title), loc="left", pad=8, **look.font([title], LABEL, bold=True))
    if len(lines) > 1:
        _name_ends(axes, x, lines)


def _scales(axes: Axes, x: Array, log_x: bool, log_y: bool) -> None:
    if log_x:
        doubling = np.allclose(np.log2(x), np.round(np.log2(x)))
        axes.set_xscale("log", base=2 if doubling else 10)
        axes.xaxis.set_major_locator(FixedLocator(_apart(axes, x)))
        axes.xaxis.set_minor_locator(NullLocator())
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    if log_y:
        axes.set_yscale("log")
        axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5) if _decades(axes) < 3 else (1,)))
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        axes.yaxis.set_minor_locator(NullLocator())


def _apart(axes: Axes, x: Array) -> list[float]:
    """The values that get a tick on a logarithmic axis: none closer to the one before than half an inch."""
    figure = axes.get_figure(root=True)
    assert figure is not None
    inches = axes.get_window_extent().width / figure.dpi
    values = np.unique(x)
    closest = np.log(values[-1] / values[0]) * 0.5 / inches
    ticks = [float(values[0])]
    for value in values:
        if np.log(value / ticks[-1]) >= closest and value != ticks[-1]:
            ticks.append(float(value))
    return ticks


def _decades(axes: Axes) -> float:
    axes.autoscale_view()
    low, high = axes.get_ylim()
    return math.log10(high / low)


def _name_ends(axes: Axes, x: Array, lines: Sequence[Curve]) -> None:
    """Write each line's name beside its right end; names that would overlap are moved apart."""
    figure = axes.get_figure(root=True)
    assert figure is not None
    axes.autoscale_view()  # the limits are needed now, not when the figure is drawn
    box = axes.get_window_extent()
    right = int(np.argmax(x))
    ends = [float(axes.transData.transform((x[right], line.values[right]))[1]) for line in lines]
    needed = look.line_height(SMALL) * figure.dpi
    order = sorted(range(len(lines)), key=lambda i: ends[i])
    spots: list[float] = []
    for i in order:
        spots.append(max(ends[i], spots[-1] + needed) if spots else ends[i])
    shift = sum(spot - ends[i] for spot, i in zip(spots, order, strict=True)) / len(spots)
    low = box.y0 + needed / 2
    shift = min(shift, spots[0] - low) if spots[0] > low else 0.0
    for spot, i in zip(spots, order, strict=True):
        label = look.spelled(lines[i].label)
        axes.annotate(
            label, (1, (spot - shift - box.y0) / box.height), (8, 0), xycoords="axes fraction",
            textcoords="offset points", va="center", annotation_clip=False, gid="name",
            **look.font([label], SMALL, look.series_colour(lines[i].label, lines[i].index), bold=True),
        )  # fmt: skip

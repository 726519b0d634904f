"""Several panels of cells side by side: how many in a line, how large their cells, bars and legends."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import to_rgb
from matplotlib.patches import Rectangle

from helpers.plots import look
from helpers.plots.cells import Panel, above, column_labels, draw, fitting_numbers, power, row_labels
from helpers.plots.inputs import printable
from helpers.plots.look import LABEL, MAX_WIDTH, PAD, QUIET, SMALL, Picture

LARGEST_CELL, LARGEST_OF_MANY = 0.46, 0.38  # inches, for one panel and for several
READABLE_CELL = 0.1  # inches: without numbers, smaller cells are worth another line of panels
TALLEST = 5.8  # inches of cells below each other
GAP = 0.22  # inches between panels
BAR = 0.75  # inches that an upright colour bar needs


@dataclass(frozen=True)
class Grid:
    """How many panels stand side by side, and the size of their cells in inches."""

    columns: int
    cell: tuple[float, float]
    fits_numbers: bool


@dataclass(frozen=True)
class Key:
    """One entry of a legend: the cell's colour, the sign in it, whether it is hatched, and what it means."""

    colour: str
    sign: str
    hatched: bool
    words: str


def _cell_size(shape: tuple[int, ...], width: float, height: float, largest: float) -> tuple[float, float]:
    """Square cells in the given room, whole pixels; only a very flat or narrow matrix gets oblong ones."""
    n_rows, n_columns = shape
    side = min(width / n_columns, height / n_rows, largest)
    down = max(side, min(0.26, 0.9 / n_rows)) if n_rows * side < 0.9 else side
    across = max(side, min(0.26, 0.6 / n_columns, width / n_columns)) if n_columns * side < 0.6 else side
    return _whole(across), _whole(down)


def _whole(inches: float) -> float:
    pixels = inches * look.DPI
    return math.floor(pixels + 1e-6) / look.DPI if pixels >= 4 else inches


def _margins(panels: Sequence[Panel], n: int) -> list[float]:
    """Inches right of the cells, for each of `n` columns of panels."""
    return [max(p.margin_width for p in panels[x::n]) for x in range(n)]


def _slots(panels: Sequence[Panel], n: int, width: float) -> list[float]:
    """Inches from one column of panels to the next: cells and margin, or the title where that is longer."""
    titles = [max(look.text_width(p.title, LABEL, True) for p in panels[x::n]) for x in range(n)]
    return [max(width + m, t) + GAP for m, t in zip(_margins(panels, n), titles, strict=True)]


def plan(panels: Sequence[Panel], rows: Sequence[str], bar: bool, choices: Sequence[int] | None = None) -> Grid:
    """The arrangement with the fewest lines in which the numbers fit, else the one with the largest cells."""
    shape = panels[0].values.shape
    room = MAX_WIDTH - 2 * PAD - 0.3 - max(look.text_width(text, LABEL) for text in rows) - (BAR if bar else 0.0)
    largest = LARGEST_CELL if len(panels) == 1 else LARGEST_OF_MANY
    every = sorted({math.ceil(len(panels) / lines) for lines in range(1, len(panels) + 1)}, reverse=True)
    grids = []
    for n in choices or every:
        width, height = room - sum(_margins(panels, n)) - (n - 1) * GAP, TALLEST / math.ceil(len(panels) / n)
        cell = _cell_size(shape, width / n, height, largest)
        fits = all(p.numbers is None or fitting_numbers(p, cell) is not None for p in panels)
        if n == 1 or sum(_slots(panels, n, shape[1] * cell[0])) - GAP <= room + 0.01:
            grids.append(Grid(n, cell, fits))
    if any(p.numbers is not None for p in panels):
        liked = [grid for grid in grids if grid.fits_numbers]
    else:
        liked = [grid for grid in grids if min(grid.cell) >= READABLE_CELL]
    return next(iter(liked), max(grids, key=lambda grid: (round(math.prod(grid.cell), 6), grid.columns)))


def arrange(
    panels: Sequence[Panel],
    rows: Sequence[str],
    columns: Sequence[str],
    description: str,
    *,
    title: str | None = None,
    caption: str | None = None,
    shared_bar: bool = False,
    names: tuple[str, str] = ("queries", "keys"),
    choices: Sequence[int] | None = None,
    legend: Sequence[Key] = (),
) -> Picture:
    """Panels of the same shape in a grid, with shared labels.

    rows, columns: labels of the axes.
    shared_bar: one colour bar for all panels; without it a panel whose numbers do not fit gets its own.
    choices: how many panels may stand side by side, the favourite first. legend: written below.
    """
    rows, columns, note = legible(rows, columns)
    panels = [replace(p, title=printable(look.spelled(p.title), 34)) if p.title else p for p in panels]
    grid = plan(panels, rows, shared_bar, choices)
    if len(panels) == 1 and panels[0].scale and fitting_numbers(panels[0], grid.cell) is None:
        shared_bar, grid = True, plan(panels, rows, True, choices)
    own_bars = not shared_bar and not grid.fits_numbers
    n_rows, n_columns = panels[0].values.shape
    width, height = n_columns * grid.cell[0], n_rows * grid.cell[1]
    left_labels, top_labels = row_labels(rows, grid.cell[1]), column_labels(columns, grid.cell[0])
    lefts = [0.0, *np.cumsum(_slots(panels, grid.columns, width)).tolist()]
    line = height + look.line_height(LABEL) + (0.45 if own_bars else 0.2)
    picture, head = Picture(description), 0.0
    for index, panel in enumerate(panels):
        y, x = divmod(index, grid.columns)
        axes = picture.place(lefts[x], y * line, width, height)
        labels = (left_labels if x == 0 else None, top_labels if y == 0 else None)
        draw(axes, panel, grid.cell, *labels, names=(names[0], names[1] if x == 0 else ""))
        if panel.title:
            head = head if index else picture.room_above(axes)
            above(axes, panel.title, 0.0 if y else head, look.font([panel.title], LABEL, bold=True))
        if own_bars and panel.scale and fitting_numbers(panel, grid.cell) is None:
            below = picture.place(lefts[x], y * line + height + 0.07, min(width, 1.6), 0.07)
            colour_bar(below, panel, across=True)
    if shared_bar:
        lines = math.ceil(len(panels) / grid.columns)
        tall = min((lines - 1) * line + height, 2.6)
        right = lefts[min(grid.columns, len(panels))] - GAP
        colour_bar(picture.place(right + 0.2, 0.0, 0.11, max(tall, 0.6)), panels[0], panels[0].scale)
    if legend:
        _legend(picture.place(0.0, height + 0.14, 0.17, 0.22 * len(legend)), legend)
    return picture.wrap(title=title, caption=" ".join(filter(None, (caption, note))))


def colour_bar(axes: Axes, panel: Panel, name: str = "", *, across: bool = False) -> None:
    """A slim colour bar with its ends and its middle: upright, or lying `across` below a panel."""
    figure = axes.get_figure()
    assert figure is not None
    side: Literal["horizontal", "vertical"] = "horizontal" if across else "vertical"
    bar = figure.colorbar(ScalarMappable(panel.norm, panel.cmap), cax=axes, orientation=side)
    low, high = float(panel.norm.vmin or 0), float(panel.norm.vmax or 1)
    ticks = [low, (low + high) / 2, high]
    bar.set_ticks(ticks, labels=[power(float(f"{tick:.2g}")) for tick in ticks])
    axes.grid(False)
    axes.minorticks_off()
    axes.spines["outline"].set(color=look.RULE, linewidth=0.8)
    axes.tick_params(
        length=2, direction="out", color=look.RULE, labelsize=7.0 if across else SMALL, labelcolor=look.INK
    )
    axes.tick_params(labelfontfamily=look.FIRST, pad=2)
    if name:
        above(axes, name, 0.0, look.font([name], SMALL, QUIET))


def _legend(axes: Axes, entries: Sequence[Key]) -> None:
    """One small cell below the other, each with its words at the right."""
    axes.set(xlim=(0, 1), ylim=(len(entries), 0))
    axes.set_axis_off()
    for i, key in enumerate(entries):
        box = Rectangle((0, i + 0.12), 1, 0.76, facecolor=key.colour, edgecolor=look.RULE, linewidth=0.8, clip_on=False)
        axes.add_patch(box)
        if key.hatched:
            box.set(facecolor=look.HIDDEN_FACE, hatch="/////", hatchcolor=look.HIDDEN_HATCH)
            box.set_hatch_linewidth(0.7)
        axes.annotate(
            key.words, (1, i + 0.5), (6, 0), textcoords="offset points", va="center", annotation_clip=False,
            **look.font([key.words], SMALL),
        )  # fmt: skip
        if key.sign:
            style = look.font([], SMALL, look.text_colour(to_rgb(key.colour)), bold=True)
            axes.text(0.5, i + 0.5, key.sign, ha="center", va="center", **style)


def legible(rows: Sequence[str], columns: Sequence[str]) -> tuple[list[str], list[str], str]:
    """Labels that the installed fonts can draw, and a sentence where some had to be replaced by positions."""
    if not any(look.lacking(text) for text in (*rows, *columns)):
        return list(rows), list(columns), ""
    left, top = ([f"#{i}" if look.lacking(t) else t for i, t in enumerate(texts)] for texts in (rows, columns))
    return left, top, "The installed fonts lack characters of some labels; these show their position: #0, #1, …"

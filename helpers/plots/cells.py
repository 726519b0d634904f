"""One matrix as a panel of cells: colours, numbers, hatching, labels, and a margin of texts."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Literal

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection, PathCollection
from matplotlib.colors import Colormap, Normalize
from matplotlib.font_manager import FontProperties
from matplotlib.patches import PathPatch
from matplotlib.path import Path
from matplotlib.textpath import TextPath
from matplotlib.transforms import Affine2D
from numpy.typing import NDArray

from helpers.plots import look
from helpers.plots.inputs import Array
from helpers.plots.look import LABEL, QUIET, SMALL, TINY

Aspect = Literal["auto", "equal"]
Texts = NDArray[np.str_]
NUMBERS_UP_TO = 600  # cells a panel; more would be slow to draw and hard to read
EMPTY = (0.933, 0.941, 0.953, 1.0)  # look.HIDDEN_FACE, behind cells without a colour


@dataclass(frozen=True)
class Panel:
    """What one matrix looks like.

    values: (rows, columns); what is not finite is drawn as an empty cell. hidden: cells to hatch.
    numbers: the text of each cell; short: what is written where those do not fit.
    margin: one text a row, shown at the right below `margin_title`.
    scale: the name of the colour bar that stands in for missing numbers; empty where the colours need none.
    """

    values: Array
    title: str
    cmap: Colormap
    norm: Normalize
    hidden: NDArray[np.bool_] | None = None
    numbers: Texts | None = None
    short: Texts | None = None
    margin: list[str] = field(default_factory=list)
    margin_title: str = ""
    scale: str = ""

    @property
    def margin_width(self) -> float:
        """Inches that the margin needs right of the cells."""
        if not self.margin:
            return 0.0
        return 0.08 + max(look.text_width(text, SMALL) for text in (*self.margin, self.margin_title))


@dataclass(frozen=True)
class Labels:
    """How the labels of one axis are shown: every `step`-th, at `size` points, turned by `turn` degrees."""

    texts: list[str]
    size: float
    step: int
    turn: int


def _thin(cell: float) -> tuple[float, int]:
    """Font size and step for labels of which each line may be as high as one cell."""
    for size in (LABEL, SMALL, 7.0):
        if look.line_height(size) * 0.92 <= cell:
            return size, 1
    return 7.0, _countable(math.ceil(look.line_height(7.0) * 0.92 / cell))


def _countable(step: int) -> int:
    """The next step in which a person counts."""
    steps = (1, 2, 4, 5, 8, 10, 16, 20, 25, 32, 50, 64, 100, 128, 200, 256, 500)
    return next((n for n in steps if n >= step), step)


def row_labels(texts: Sequence[str], cell: float) -> Labels:
    """Labels left of the rows, thinned out where a cell is lower than a line of text."""
    size, step = _thin(cell)
    return Labels(list(texts), size, step, 0)


def column_labels(texts: Sequence[str], cell: float) -> Labels:
    """Labels above the columns: level while they fit, else slanted, else upright and thinned out."""
    texts = list(texts)
    for size in (LABEL, SMALL):
        if max(look.text_width(text, size) for text in texts) <= 0.92 * cell - 0.02:
            return Labels(texts, size, 1, 0)
    if all(text.isdecimal() for text in texts):  # positions: thin out rather than turn
        widest = max(look.text_width(text, 7.0) for text in texts)
        return Labels(texts, 7.0, _countable(math.ceil((widest + 0.06) / cell)), 0)
    if cell >= 1.5 * LABEL / 72:
        return Labels(texts, LABEL, 1, 45)
    size, step = _thin(cell)
    return Labels(texts, size, step, 90)


# ---- numbers ---------------------------------------------------------------------------------------------


def fitting_numbers(panel: Panel, cell: tuple[float, float]) -> tuple[Texts, float] | None:
    """The texts for the cells and their size in points; None where no form of them fits."""
    if panel.numbers is None or panel.values.size > NUMBERS_UP_TO:
        return None
    for texts in (panel.numbers, panel.short):
        if texts is None:
            continue
        widest = max(texts.ravel().tolist(), key=len)
        for size in (SMALL, 7.5, 7.0, TINY):
            if look.text_width(widest, size) <= 0.9 * cell[0] and look.line_height(size) <= cell[1]:
                return texts, size
    return None


def decimals(values: Array, digits: int = 2) -> Texts:
    """Cell texts: an exact 0 as "0", others with `digits` decimals, large numbers with fewer."""

    def text(value: float) -> str:
        if np.isnan(value):
            return "NaN"
        if np.isinf(value):
            return "-inf" if value < 0 else "inf"
        if value == 0:
            return "0"
        if abs(value) >= 1000:
            return power(value)
        places = max(0, digits - (abs(value) >= 10) - (abs(value) >= 100))
        written = f"{value:.{places}f}"
        return written.lstrip("-") if float(written) == 0 else written

    return np.array([[text(v) for v in row] for row in values])


def without_zero(texts: Texts) -> Texts:
    """Weights in narrow cells, three characters at most: .42 for 0.42, 1 for 1.00, 1.4 for 1.43."""

    def narrow(text: str) -> str:
        if text.startswith("0."):
            return text[1:]
        return text.removesuffix(".00") if "." in text else text

    return np.array([[narrow(t)[:3] for t in row] for row in texts.tolist()])


def power(value: float) -> str:
    """A short form of any number: -1e9, 1e-20, 0.5, -inf."""
    if value == 0:
        return "0"
    if 1e-3 <= abs(value) < 1000 or not np.isfinite(value):
        return f"{value:g}"
    mantissa, exponent = f"{value:.1e}".split("e")
    return f"{mantissa.removesuffix('.0')}e{int(exponent)}"


# ---- drawing ---------------------------------------------------------------------------------------------


def draw(
    axes: Axes,
    panel: Panel,
    cell: tuple[float, float],
    rows: Labels | None,
    columns: Labels | None,
    *,
    names: tuple[str, str] = ("queries", "keys"),
    aspect: Aspect = "auto",
) -> None:
    """Draw one matrix into `axes`, whose cells are (width, height) inches; None hides the labels of an axis.

    The panel's title is left to the caller, who knows what stands above the cells.
    """
    _cells(axes, panel, cell, aspect)
    _numbers(axes, panel, cell)
    _labels(axes, rows, columns, names)
    if panel.margin:
        _margin(axes, panel, cell[1])


def above(axes: Axes, text: str, inches: float, style: dict[str, Any]) -> None:
    """A text that begins at the left edge, some inches above the cells."""
    axes.annotate(
        text, (0, 1), (0, 72 * inches + 4), xycoords="axes fraction", textcoords="offset points", va="bottom",
        annotation_clip=False, gid="title", **style,
    )  # fmt: skip


def _cells(axes: Axes, panel: Panel, cell: tuple[float, float], aspect: Aspect) -> None:
    values = panel.values
    n_rows, n_columns = values.shape
    empty = ~np.isfinite(values)
    if panel.hidden is not None:
        empty = empty | (panel.hidden & (values == 0))  # nothing leaks: only the hatching is left to see
    shown = np.ma.masked_where(empty, values)
    axes.set_facecolor(EMPTY)
    axes.imshow(shown, cmap=panel.cmap, norm=panel.norm, aspect=aspect, interpolation="auto", origin="upper")
    axes.grid(False)
    axes.minorticks_off()
    for spine in axes.spines.values():
        spine.set(color=look.RULE, linewidth=0.8, visible=True)
    if panel.hidden is not None and panel.hidden.any():
        hatch(axes, panel.hidden, dense=min(cell) < 0.2)
    if min(cell) >= 0.08 and max(n_rows, n_columns) <= 64:
        inner = [[(x - 0.5, -0.5), (x - 0.5, n_rows - 0.5)] for x in range(1, n_columns)]
        inner += [[(-0.5, y - 0.5), (n_columns - 0.5, y - 0.5)] for y in range(1, n_rows)]
        width = 1.0 if min(cell) >= 0.2 else 0.4
        axes.add_collection(LineCollection(inner, colors=look.CARD, linewidths=width, gid="cell edges"), autolim=False)


def hatch(axes: Axes, cells: NDArray[np.bool_], *, dense: bool = False) -> None:
    """Hatch the given cells, whatever is drawn below."""
    # One compound path: a collection sets the hatch up for every cell, which takes seconds at 64 × 64.
    square = Path.unit_rectangle()
    squares = [square.transformed(Affine2D().translate(j - 0.5, i - 0.5)) for i, j in np.argwhere(cells)]
    hatched = PathPatch(
        Path.make_compound_path(*squares), facecolor="none", edgecolor="none", hatchcolor=look.HIDDEN_HATCH,
        linewidth=0, hatch="//////" if dense else "////", gid="hidden cells",
    )  # fmt: skip
    hatched.set_hatch_linewidth(0.7)
    hatched.set_in_layout(False)
    axes.add_artist(hatched)


@lru_cache(maxsize=4096)
def _outline(text: str) -> Path:
    """The outline of a short text at 1 pt, centred on (0, 0) by its width and by the height of a digit."""
    font = FontProperties(family=look.FIRST, size=100)
    path, digit = TextPath((0, 0), text, prop=font), TextPath((0, 0), "0", prop=font)
    width, height = path.get_extents().x1, digit.get_extents().y1
    return Affine2D().translate(-width / 2, -height / 2).scale(0.01).transform_path(path)


class Numbers(PathCollection):
    """Many short texts as one artist, about ten times as fast as one matplotlib text a cell.

    texts: what is written, `places`: (column, row) of each.
    """

    def __init__(self, texts: Sequence[str], places: Sequence[tuple[int, int]], size: float, **style: Any):
        super().__init__([_outline(text) for text in texts], offsets=places, gid="number", **style)
        self.texts, self.places, self._points = list(texts), list(places), size

    def draw(self, renderer: Any) -> None:
        self.set_transform(Affine2D().scale(self._points * self.figure.dpi / 72))
        super().draw(renderer)


def _numbers(axes: Axes, panel: Panel, cell: tuple[float, float]) -> None:
    fit = fitting_numbers(panel, cell)
    if fit is None:
        return
    texts, size = fit
    places = [(int(i), int(j)) for i, j in np.argwhere(texts != "")]
    behind = {at: panel.cmap(panel.norm(panel.values[at])) if np.isfinite(panel.values[at]) else EMPTY for at in places}
    covered = [at for at in places if panel.hidden is not None and panel.hidden[at]]
    halo = {"facecolors": "none", "edgecolors": [behind[at] for at in covered], "linewidths": 2.5}
    ink = {"facecolors": [look.text_colour(behind[at]) for at in places], "linewidths": 0}
    for chosen, style in ((covered, halo), (places, ink)):  # a halo keeps digits readable above the hatching
        if chosen:
            numbers = Numbers([str(texts[at]) for at in chosen], [(j, i) for i, j in chosen], size, **style)
            numbers.set_offset_transform(axes.transData)
            numbers.set_in_layout(False)
            axes.add_collection(numbers, autolim=False)


def _labels(axes: Axes, rows: Labels | None, columns: Labels | None, names: tuple[str, str]) -> None:
    axes.xaxis.tick_top()
    axes.xaxis.set_label_position("top")
    axes.tick_params(length=0, pad=3, labelcolor=look.INK)
    for axis, labels in ((axes.yaxis, rows), (axes.xaxis, columns)):
        if labels is None:
            axis.set_ticks([])
            continue
        shown = range(0, len(labels.texts), labels.step)
        axis.set_ticks(list(shown), labels=[labels.texts[i] for i in shown])
        family = look.families(labels.texts)
        for label in axis.get_ticklabels():
            label.set(fontsize=labels.size, fontfamily=family, parse_math=False, rotation=labels.turn)
            if labels.turn == 45:
                label.set(ha="left", va="bottom", rotation_mode="anchor")
    if rows is not None and names[0]:
        axes.set_ylabel(names[0], labelpad=4, **look.font([names[0]], SMALL, QUIET))
    if columns is not None and names[1]:
        axes.set_xlabel(names[1], labelpad=4, loc="left", **look.font([names[1]], SMALL, QUIET))


def _margin(axes: Axes, panel: Panel, cell_height: float) -> None:
    """The texts at the right of the rows, as many as there is room for."""
    size, step = _thin(cell_height)
    style = look.font([*panel.margin, panel.margin_title], min(size, SMALL), QUIET)
    for i in range(0, len(panel.margin), step):
        axes.annotate(
            panel.margin[i], (1, i), (5, 0), xycoords=("axes fraction", "data"), textcoords="offset points",
            va="center", annotation_clip=False, gid="margin", **style,
        )  # fmt: skip
    axes.annotate(
        panel.margin_title, (1, 1), (5, 3), xycoords="axes fraction", textcoords="offset points", va="bottom",
        annotation_clip=False, gid="margin title", **style,
    )  # fmt: skip

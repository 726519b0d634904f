"""How numbers lie in memory: the parts of a fused weight, and what view and transpose do to a tensor."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import ListedColormap, Normalize, hsv_to_rgb, to_hex, to_rgb
from matplotlib.figure import Figure
from numpy.typing import NDArray

from helpers.plots import look
from helpers.plots.cells import Panel, above, draw
from helpers.plots.inputs import Array, all_finite, array, matrix, one_line
from helpers.plots.look import LABEL, QUIET, SMALL, Picture


def _tint(colour: str, amount: float | Array) -> Array:
    """White at 0, the colour at 1."""
    strength = np.asarray(amount)[..., None]
    return 1 - strength * (1 - np.asarray(to_rgb(colour)))


def fused_weight(weight: Any, parts: Sequence[tuple[str, Any]], *, title: str | None = None) -> Figure:
    """Draw a fused weight as coloured blocks: which rows make q, which k, which v.

    weight: (3·d, d), or any matrix whose rows are outputs
    parts: (label, row indices) for each part; "q", "k" and "v" have their own colours
    A darker cell is a larger |weight|.
    """
    values = matrix(weight, "weight", "rows, columns")
    n_rows, n_columns = values.shape
    names, owner = _owners(parts, n_rows)
    colours = [look.ROLES.get(name, look.SERIES[i % len(look.SERIES)]) for i, name in enumerate(names)]
    size = np.clip(np.abs(values) / (np.quantile(np.abs(values), 0.995) or 1.0), 0, 1)
    image = np.ones((n_rows, n_columns, 3))
    for i in range(n_rows):
        image[i] = _tint(colours[owner[i]] if owner[i] >= 0 else look.QUIET, 0.15 + 0.85 * size[i])
    height = min(4.6, max(0.7, 0.16 * n_rows))
    width = min(4.6, max(0.7, height / n_rows * n_columns))
    said = ", ".join(f"rows of {name}: {int((owner == i).sum())}" for i, name in enumerate(names))
    picture = Picture(f"Fused weight of {n_rows} rows and {n_columns} columns in coloured blocks. {said}.")
    axes = picture.place(0.0, 0.0, width, height)
    axes.imshow(image, aspect="auto", interpolation="auto", origin="upper")
    axes.grid(False)
    for spine in axes.spines.values():
        spine.set(color=look.RULE, linewidth=0.8, visible=True)
    axes.set_xticks([])
    axes.set_yticks([])
    axes.set_xlabel(f"inputs: {n_columns}", labelpad=5, **look.font([], SMALL, QUIET))
    axes.set_ylabel(f"outputs: {n_rows}", labelpad=5, **look.font([], SMALL, QUIET))
    _brackets(axes, owner, names, colours, height / n_rows)
    return picture.wrap(title=title, caption="Darker: larger |weight|.")


def _owners(parts: Sequence[tuple[str, Any]], n_rows: int) -> tuple[list[str], NDArray[np.int_]]:
    """The names of the parts, and for each row the number of its part; -1 where no part claims it."""
    if not len(parts):
        raise ValueError("parts is empty: name at least one block of rows.")
    names, owner = [str(label) for label, _ in parts], np.full(n_rows, -1)
    for part, (label, indices) in enumerate(parts):
        listed = range(*indices.indices(n_rows)) if isinstance(indices, slice) else indices
        rows = one_line(list(listed) if isinstance(listed, range) else listed, f"the rows of {label!r}")
        chosen = rows.astype(int)
        if (rows != chosen).any() or (rows < 0).any() or (rows >= n_rows).any():
            raise ValueError(f"The rows of {label!r} must be whole numbers from 0 to {n_rows - 1}.")
        taken = owner[chosen][owner[chosen] >= 0]
        if taken.size:
            raise ValueError(f"The parts {names[taken[0]]!r} and {label!r} claim the same row of weight.")
        owner[chosen] = part
    return names, owner


def _brackets(axes: Axes, owner: NDArray[np.int_], names: list[str], colours: list[str], cell: float) -> None:
    """A bar and a name at the right of every run of rows; the names thin out where the runs are small."""
    starts = [0, *(i for i in range(1, len(owner)) if owner[i] != owner[i - 1])]
    lowest = -1.0
    for start, end in zip(starts, [*starts[1:], len(owner)], strict=True):
        if owner[start] < 0:
            continue
        name, colour = names[owner[start]], colours[owner[start]]
        middle, run = (start + end - 1) / 2, (end - start) * cell
        inset = 0.06 / max(cell, 0.06)
        axes.plot(
            [1.03, 1.03], [start - 0.5 + inset, end - 0.5 - inset], color=colour, linewidth=4,
            solid_capstyle="butt", transform=axes.get_yaxis_transform(), clip_on=False,
        )  # fmt: skip
        if middle * cell < lowest:
            continue
        text = f"{name}   rows {start}–{end - 1}" if end - start > 1 else f"{name}   row {start}"
        text = look.spelled(text)
        axes.annotate(
            text, (1.03, middle), (7, 0), xycoords=("axes fraction", "data"), textcoords="offset points",
            va="center", annotation_clip=False, **look.font([text], LABEL if run > 0.2 else SMALL),
        )  # fmt: skip
        lowest = middle * cell + look.line_height(SMALL)


def reshaping(steps: Sequence[tuple[str, Any]], *, title: str | None = None) -> Figure:
    """Draw small tensors as coloured cells, one step below the other.

    steps: (label, tensor), two or three dimensions; the first of three axes is drawn as blocks side by side
    A number from row i of the first tensor has colour i in every step, so that a row torn apart shows.
    """
    tensors = []
    for label, value in steps:
        values = array(value, f"the tensor of step {label!r}")
        if values.ndim not in (2, 3):
            raise ValueError(f"The tensor of step {label!r} must have 2 or 3 dimensions; its shape is {values.shape}.")
        if not values.size:
            raise ValueError(f"The tensor of step {label!r} is empty: its shape is {values.shape}.")
        all_finite(values, f"the tensor of step {label!r}")
        tensors.append((look.spelled(str(label)), values))
    if not tensors:
        raise ValueError("steps is empty. There is nothing to draw.")
    colours, row_of = _row_colours(tensors[0][1])
    cell = _common_cell([values for _, values in tensors])
    picture = Picture(
        "Tensors as coloured cells: " + "; ".join(f"{label} {tuple(v.shape)}" for label, v in tensors) + "."
    )
    top = 0.0
    for label, values in tensors:
        blocks = values[None] if values.ndim == 2 else values
        codes = np.vectorize(lambda v: row_of.get(v, -1), otypes=[float])(blocks)
        texts = np.vectorize(lambda v: f"{v:g}", otypes=[str])(blocks)
        top += 0.24 if values.ndim == 2 else 0.4
        for i, (code, text) in enumerate(zip(codes, texts, strict=True)):
            left = i * (blocks.shape[2] * cell + 0.28)
            axes = picture.place(left, top, blocks.shape[2] * cell, blocks.shape[1] * cell)
            panel = Panel(code, "", colours, Normalize(-1, colours.N - 2), None, text)
            draw(axes, panel, (cell, cell), None, None)
            if i == 0:
                name = f"{label}   {tuple(values.shape)}"
                above(axes, name, 0.0 if values.ndim == 2 else 0.16, look.font([name], LABEL, bold=True))
            if values.ndim == 3:
                above(axes, f"[{i}]", 0.0, look.font([], SMALL, QUIET))
        top += blocks.shape[1] * cell + 0.16
    return picture.wrap(title=title, caption="Colour: the row of the first tensor that the number comes from.")


def _row_colours(first: Array) -> tuple[ListedColormap, dict[float, int]]:
    """A light colour for each row of the first tensor, and the row in which each number stands first."""
    rows = first.reshape(-1, first.shape[-1])
    row_of: dict[float, int] = {}
    for i, row in enumerate(rows):
        for value in row:
            row_of.setdefault(float(value), i)
    base = [look.SKY, look.ORANGE, look.GREEN, look.PURPLE, look.YELLOW, look.VERMILION, look.BLUE]
    if len(rows) > len(base):  # neighbours still differ, and no colour comes twice
        base = [to_hex(tuple(hsv_to_rgb((0.85 * i / len(rows), 0.9, 0.85)).tolist())) for i in range(len(rows))]
    tints = [tuple(_tint(colour, 0.55)) for colour in base[: len(rows)]]
    return ListedColormap([(0.9, 0.9, 0.9), *tints]), row_of


def _common_cell(tensors: list[Array]) -> float:
    """One cell size for all steps, in inches, so that equal numbers look equal."""
    across = max((v.shape[0] if v.ndim == 3 else 1) * (v.shape[-1]) for v in tensors)
    gaps = max((v.shape[0] - 1 if v.ndim == 3 else 0) for v in tensors) * 0.28
    down = sum(v.shape[-2] for v in tensors)
    return max(0.04, min(0.32, (look.MAX_WIDTH - 0.4 - gaps) / across, 7.0 / down))

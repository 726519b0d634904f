"""*Yours · expected · difference* as inline SVG: cheap enough for thousands of answers, and at home in both themes.

A cell names a step of a colour scale; `style` gives each step its colour, once per page, for light and dark paper.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from html import escape
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from helpers.judge import Comparison

Array = NDArray[np.float64]
Names = tuple[str, str]  # what a row and what a column is
Number = TypeVar("Number", np.float64, np.bool_)
MOST = 24  # rows or columns; what is larger is cut to a window
STEPS = 21  # colours of a scale; odd, so that 0 has its own
ROW = 20  # pixels
SMALL_CELL = 14  # pixels: the width of a cell without a number
WIDEST = 276  # pixels of cells that are not small: three panels stand side by side on a screen, one fits a telephone
WIDTHS = {"−": 9.3, "-": 4.0, ".": 3.5}  # pixels of a character in the cells, in a wide font
CHARACTER = 7.0  # pixels of any other
TOP = 52  # pixels above the cells, for title and labels
DARK_PAPER = "#23262e"  # behind the pictures in the dark theme, see page.css

_WHERE = "Largest difference: {gap} at {row_label} {row}, {column_label} {column}."
_OTHERS = "Largest difference of the others: {gap} at {row_label} {row}, {column_label} {column}."
_LOST = (
    "Cells that cannot be compared, because of NaN or infinity: {number}."
    " The first is at {row_label} {row}, {column_label} {column}."
)
_CUT = (
    "Only a part is shown, around the place where they differ most: {row_names} {first_row} to {last_row} of {rows},"
    " {column_names} {first_column} to {last_column} of {columns}."
)
_ALOUD = "{title}: {rows} by {columns} ({row_names} by {column_names}), from {low} to {high}."
_ALOUD_MAP = (
    "{title}: {rows} by {columns} ({row_names} by {column_names}), {moves} of {cells} move the output."
    " {wrong} are not as expected."
)
_RANGE = "from {low} to {high}"


def picture(comparison: Comparison) -> str:
    """The picture as an HTML figure; empty where there is nothing that could be drawn."""
    kind = bool if comparison.is_map else float
    yours, expected = np.asarray(comparison.yours, kind), np.asarray(comparison.expected, kind)
    if yours.ndim != 2 or yours.shape != expected.shape or not yours.size:
        return ""
    names = (comparison.row_label[:16], comparison.column_label[:16])  # no label is wider than the picture
    return _drawn(comparison.title, names, comparison.is_map, yours.shape, yours.tobytes(), expected.tobytes())


@lru_cache(maxsize=512)
def _drawn(title: str, names: Names, is_map: bool, shape: tuple[int, ...], yours: bytes, expected: bytes) -> str:
    """Drawn once for the many answers of a class that have the same numbers; bytes, since arrays cannot be a key."""
    if is_map:
        return _map(title, names, *(np.frombuffer(data, bool).reshape(shape) for data in (yours, expected)))
    return _numbers(title, names, *(np.frombuffer(data, float).reshape(shape) for data in (yours, expected)))


def _numbers(title: str, names: Names, yours: Array, expected: Array) -> str:
    with np.errstate(invalid="ignore", over="ignore"):
        gap = yours - expected
    gap[(yours == expected) | (np.isnan(yours) & np.isnan(expected))] = 0.0
    at = _largest(gap)
    window = _Window.around(at, gap.shape)
    mine, right, off = window.cut(yours), window.cut(expected), window.cut(gap)
    scale = _Scale("w", 0.0, 1.0) if _are_weights(mine, right) else _Scale.signed("n", mine, right)
    texts, width = _cell_texts((mine, right, off))
    panels = [
        _panel("yours", mine, scale, texts[0], width, names, window),
        _panel("expected", right, scale, texts[1], width, names, window),
        _panel("difference", off, _Scale.signed("d", off), texts[2], width, names, window, mark=at),
    ]
    return _figure(title, panels, [*_said(gap, at, names), *window.said(names)])


def _map(title: str, names: Names, moves: NDArray[np.bool_], should: NDArray[np.bool_]) -> str:
    """Who moves whom: a cell is full or empty; where the two differ, yours has a sign."""
    at = np.unravel_index(int((moves != should).argmax()), moves.shape)
    window = _Window.around((int(at[0]), int(at[1])), moves.shape)
    mine, right = window.cut(moves), window.cut(should)
    signs = np.where(mine & ~right, "!", np.where(right & ~mine, "?", ""))
    panels = [
        _map_panel("yours", mine, signs, int((mine != right).sum()), names, window),
        _map_panel("expected", right, np.full(right.shape, ""), 0, names, window),
    ]
    legend = [_KEYS["full"], _KEYS["empty"], *(_KEYS[sign] for sign in "!?" if (signs == sign).any())]
    return _figure(title, panels, window.said(names), f'<p class="keys">{"".join(legend)}</p>')


_KEY = (
    '<span class="key"><svg class="matrix" width="18" height="18" aria-hidden="true"><g class="{kind}">{cell}</g></svg>'
    " {words}</span>"
)
_KEYS = {
    kind: _KEY.format(kind=css, cell=f'<path d="M0 0h18v18h-18z"/>{sign}', words=words)
    for kind, css, sign, words in (
        ("full", "on", "", "moves the output"),
        ("empty", "off", "", "does not move it"),
        ("!", "on wrong", '<text x="9" y="13.5">!</text>', "moves it, but must not"),
        ("?", "off wrong", '<text x="9" y="13.5">?</text>', "does not move it, but should"),
    )
}


# ---- what is shown ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Window:
    """The part of a matrix that is drawn: at most MOST rows and columns."""

    rows: range
    columns: range
    shape: tuple[int, int]

    @classmethod
    def around(cls, at: tuple[int, int], shape: tuple[int, ...]) -> _Window:
        starts = [min(max(0, i - MOST // 2), max(0, length - MOST)) for i, length in zip(at, shape, strict=True)]
        rows, columns = (range(s, min(s + MOST, length)) for s, length in zip(starts, shape, strict=True))
        return cls(rows, columns, (shape[0], shape[1]))

    def cut(self, matrix: NDArray[Number]) -> NDArray[Number]:
        return matrix[self.rows.start : self.rows.stop, self.columns.start : self.columns.stop]

    def said(self, names: Names) -> list[str]:
        if (len(self.rows), len(self.columns)) == self.shape:
            return []
        rows, columns = map(_plural, names)
        return [
            _CUT.format(
                row_names=rows, first_row=self.rows[0], last_row=self.rows[-1], rows=self.shape[0],
                column_names=columns, first_column=self.columns[0], last_column=self.columns[-1],
                columns=self.shape[1],
            )
        ]  # fmt: skip


def _largest(gap: Array) -> tuple[int, int]:
    """Where the two differ most; what cannot be compared counts as the largest difference."""
    size = np.where(np.isfinite(gap), np.abs(gap), np.inf)
    row, column = np.unravel_index(int(size.argmax()), gap.shape)
    return int(row), int(column)


def _said(gap: Array, at: tuple[int, int], names: Names) -> list[str]:
    """Where the largest difference is, and how much cannot be compared. at: the cell that is framed"""
    finite = np.isfinite(gap)
    said = []
    if not finite.all():
        said.append(_place(_LOST, at, names, number=int((~finite).sum())))
        at = _largest(np.where(finite, gap, 0.0))
    if gap[at] != 0 and finite[at]:
        said.append(_place(_OTHERS if said else _WHERE, at, names, gap=_short(gap[at])))
    return said or ["The numbers are equal."]


def _place(sentence: str, at: tuple[int, int], names: Names, **values: object) -> str:
    return sentence.format(row_label=names[0], row=at[0], column_label=names[1], column=at[1], **values)


def _are_weights(*matrices: Array) -> bool:
    """Numbers from 0 to 1 whose expected rows sum to 1 have the colours of attention weights."""
    inside = all(np.isfinite(m).all() and m.min() >= 0 and m.max() <= 1 for m in matrices)
    return inside and bool(np.allclose(matrices[-1].sum(axis=1), 1, atol=0.01))


@dataclass(frozen=True)
class _Scale:
    """How numbers become STEPS colours: from 0 to high, or from -high to high. letter: the scale's name in the CSS."""

    letter: str
    low: float
    high: float

    @classmethod
    def signed(cls, letter: str, *matrices: Array) -> _Scale:
        """Symmetric about 0, wide enough for every finite number."""
        limit = max(float(np.abs(m[np.isfinite(m)]).max(initial=0.0)) for m in matrices) or 1.0
        return cls(letter, -limit, limit)

    def steps(self, values: Array) -> NDArray[np.int64]:
        share = values / self.high if self.low == 0 else values / self.high / 2 + 0.5
        share = np.nan_to_num(share, nan=0.5, posinf=1, neginf=0)
        return np.rint(share * (STEPS - 1)).astype(np.int64)


# ---- numbers as text -------------------------------------------------------------------------------------


def _short(value: float) -> str:
    """A number in few characters, with a true minus; whole numbers without decimals."""
    if np.isnan(value):
        return "NaN"
    if np.isinf(value):
        return "inf" if value > 0 else "−inf"
    sign, size = "−" if value < 0 else "", abs(value)
    if size and (size < 0.005 or size >= 1000):
        return sign + f"{size:.0e}".replace("e-0", "e-").replace("e+0", "e").replace("e+", "e")
    return sign + (f"{size:.0f}" if size == round(size) else f"{size:.2f}")


def _pixels(text: str) -> float:
    return sum(WIDTHS.get(character, CHARACTER) for character in text)


def _cell_texts(matrices: Sequence[Array]) -> tuple[list[list[list[str]]], int]:
    """The texts of all cells, and the width of a cell; no texts where they do not fit."""
    texts = [[[_short(value) for value in row] for row in matrix.tolist()] for matrix in matrices]
    widest = max(_pixels(text) for matrix in texts for row in matrix for text in row)
    columns = matrices[0].shape[1]
    width = max(34, round(widest) + 5)
    if width * columns <= WIDEST:
        return texts, width
    return [[[""] * len(row) for row in matrix] for matrix in texts], _square(columns)


def _square(columns: int) -> int:
    """The side of a cell without a number."""
    return ROW if columns * ROW <= WIDEST else SMALL_CELL


def _range(values: Array) -> tuple[str, str]:
    finite = values[np.isfinite(values)]
    return (_short(finite.min()), _short(finite.max())) if finite.size else ("NaN", "NaN")


def _plural(name: str) -> str:
    return {"query": "queries"}.get(name, name if name.endswith("s") else f"{name}s")


# ---- drawing ---------------------------------------------------------------------------------------------


def _figure(title: str, panels: list[str], said: list[str], legend: str = "") -> str:
    caption = f"<figcaption>{escape(' '.join(said))}</figcaption>" if said else ""
    return (
        f'<figure class="picture"><p class="title">{escape(title)}</p>'
        f'<div class="panels">{"".join(panels)}</div>{legend}{caption}</figure>'
    )


def _panel(
    title: str,
    values: Array,
    scale: _Scale,
    texts: list[list[str]],
    width: int,
    names: Names,
    window: _Window,
    mark: tuple[int, int] | None = None,
) -> str:
    """One matrix of numbers. mark: the cell to frame, counted in the whole matrix."""
    kinds = np.where(np.isfinite(values), np.char.add(scale.letter, scale.steps(values).astype(str)), "nan")
    low, high = _range(values)
    height, left = min(width, ROW), _left(names)
    parts = [_cells(kinds, texts, left, width, height)]
    if mark is not None and values.any():
        x, y = left + (mark[1] - window.columns.start) * width, TOP + (mark[0] - window.rows.start) * height
        parts.append(f'<path class="frame" d="M{x} {y}h{width - 1}v{height - 1}h{1 - width}z"/>')
    aloud = _ALOUD.format(
        title=title, rows=window.shape[0], columns=window.shape[1],
        row_names=_plural(names[0]), column_names=_plural(names[1]), low=low, high=high,
    )  # fmt: skip
    below = [f'<text x="{left}" y="14">{_RANGE.format(low=low, high=high)}</text>']
    wide = 0
    if not any(map(any, texts)):  # the cells say no numbers, so the colours must
        bar, wide = _bar(scale, left)
        below.append(bar)
    return _svg(title, aloud, parts, (width, height), names, window, below, wide)


def _bar(scale: _Scale, left: int) -> tuple[str, int]:
    """The colours of a scale with the numbers at both ends, and where that ends in pixels."""
    ends = (_short(scale.low), _short(scale.high))
    start = left + round(_pixels(ends[0])) + 6
    steps = "".join(f'<g class="{scale.letter}{i}"><path d="M{start + 5 * i} 22h5v9h-5z"/></g>' for i in range(STEPS))
    end = start + 5 * STEPS + 6
    svg = f'<text x="{left}" y="31">{ends[0]}</text>{steps}<text x="{end}" y="31">{ends[1]}</text>'
    return svg, end + round(_pixels(ends[1])) + 2


def _map_panel(
    title: str,
    moves: NDArray[np.bool_],
    signs: NDArray[np.str_],
    wrong: int,
    names: Names,
    window: _Window,
) -> str:
    kinds = np.where(moves, "on", "off")
    kinds = np.where(signs != "", np.char.add(kinds, " wrong"), kinds)
    size = _square(moves.shape[1])
    aloud = _ALOUD_MAP.format(
        title=title, rows=window.shape[0], columns=window.shape[1], row_names=_plural(names[0]),
        column_names=_plural(names[1]), moves=int(moves.sum()), cells=moves.size, wrong=wrong,
    )  # fmt: skip
    return _svg(
        title, aloud, [_cells(kinds, signs.tolist(), _left(names), size, size)], (size, size), names, window, []
    )


def _left(names: Names) -> int:
    """Pixels for the labels of the rows, and for what a row is."""
    return max(46, round(_pixels(names[0])) + 20)


def _cells(kinds: NDArray[np.str_], texts: list[list[str]], left: int, width: int, height: int) -> str:
    """All cells of one colour are one path, followed by their numbers."""
    squares: dict[str, list[str]] = {}
    numbers: dict[str, list[str]] = {}
    square = f"h{width - 1}v{height - 1}h{1 - width}z"
    for i, row in enumerate(kinds.tolist()):
        y = TOP + i * height
        for j, kind in enumerate(row):
            x = left + j * width
            squares.setdefault(kind, []).append(f"M{x} {y}{square}")
            if texts[i][j]:
                numbers.setdefault(kind, []).append(
                    f'<text x="{x + (width - 1) / 2:g}" y="{y + height / 2 + 3.5:g}">{texts[i][j]}</text>'
                )
    return "".join(
        f'<g class="{kind}"><path d="{"".join(paths)}"/>{"".join(numbers.get(kind, []))}</g>'
        for kind, paths in squares.items()
    )


def _svg(
    title: str,
    aloud: str,
    parts: list[str],
    cell: tuple[int, int],
    names: Names,
    window: _Window,
    below: list[str],
    wide: int = 0,
) -> str:
    """The frame of a panel: title, axis names, positions, and what stands below the cells, 17 pixels a line.

    wide: pixels that the panel needs at least
    """
    left, rows, columns = _left(names), window.rows, window.columns
    bottom = TOP + len(rows) * cell[1]
    across, down = len(columns) * cell[0], len(rows) * cell[1]
    width, height = max(left + across, left + 130, wide), bottom + 4 + 17 * len(below)
    behind = f"M{left - 1} {TOP - 1}h{across + 1}v{down + 1}h-{across + 1}z"  # shows between the cells as a grid
    step = 1 if cell[0] >= ROW else 4
    labels = [
        f'<text class="head" x="{left}" y="13">{title}</text>',
        f'<text x="{left}" y="30">{escape(names[1])} →</text>',
        f'<text x="0" y="46">{escape(names[0])} ↓</text>',
    ]
    for j in columns[::step]:
        x = left + (j - columns.start + 0.5) * cell[0] - 0.5
        labels.append(f'<text class="mid" x="{x:g}" y="46">{j}</text>')
    for i in rows:
        y = TOP + (i - rows.start + 0.5) * cell[1] + 3.5
        labels.append(f'<text class="end" x="{left - 6}" y="{y:g}">{i}</text>')
    said = escape(aloud)
    return (
        f'<svg class="matrix" viewBox="0 0 {width} {height}" width="{width}" height="{height}" role="img"'
        f' aria-label="{said}"><title>{said}</title><g class="labels">{"".join(labels)}</g>'
        f'<path class="grid" d="{behind}"/>{"".join(parts)}'
        f'<g class="labels" transform="translate(0 {bottom})">{"".join(below)}</g></svg>'
    )


# ---- colours ---------------------------------------------------------------------------------------------


def definitions() -> str:
    """The hatching of cells that hold no number. It stands once in a page, before the pictures."""
    return (
        '<svg width="0" height="0" style="position:absolute" aria-hidden="true"><defs>'
        '<pattern id="hatch" width="6" height="6" patternUnits="userSpaceOnUse" patternTransform="rotate(45)">'
        '<path class="blank" d="M0 0h6v6h-6z"/><path class="hatch" d="M0 0h2v6h-2z"/></pattern></defs></svg>'
    )


@cache
def style() -> str:
    """CSS for the cells: the course's scales on light paper, and scales of the same hues on dark paper."""
    return f"{_rules('light')}\n@media screen and (prefers-color-scheme: dark) {{\n{_rules('dark')}\n}}"


def _rules(theme: str) -> str:
    from helpers.plots import look

    t = np.linspace(0, 1, STEPS)
    scales = {"w": look.weights_map()(t), "n": look.scores_map()(t), "d": look.difference_map()(t)}
    if theme == "dark":
        paper = _rgb(DARK_PAPER)
        scales = {
            "w": _between(paper, _rgb(look.SKY), t),
            "n": _through(look.scores_map()(0.25)[:3], paper, look.scores_map()(0.75)[:3], t),
            "d": _through(look.difference_map()(0.25)[:3], paper, look.difference_map()(0.75)[:3], t),
        }
    full = look.SKY if theme == "dark" else look.BLUE
    rules = [
        *(
            f".on path{{fill:{full}}}",
            f".on.wrong path{{fill:{look.VERMILION}}}",
            f".off.wrong path{{fill:{look.YELLOW}}}",
        ),
        f".wrong text{{fill:{look.INK};font-weight:700}}",
    ]
    rules += [
        f".{letter}{step} path{{fill:{_hex(rgb)}}}.{letter}{step} text{{fill:{_readable(rgb)}}}"
        for letter, colours in scales.items()
        for step, rgb in enumerate(np.asarray(colours)[:, :3])
    ]
    return "\n".join(rules)


def _readable(rgb: Array) -> str:
    """Black or white, whichever has more contrast: at least 4.5 on every colour (WCAG 2, relative luminance)."""
    linear = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
    return "#000000" if float(linear @ [0.2126, 0.7152, 0.0722]) > 0.179 else "#ffffff"


def _rgb(colour: str) -> Array:
    return np.array([int(colour[i : i + 2], 16) for i in (1, 3, 5)]) / 255


def _hex(rgb: Array) -> str:
    return "#" + "".join(f"{round(float(value) * 255):02x}" for value in rgb)


def _between(start: Array, end: Array, t: Array) -> Array:
    return start + t[:, None] * (end - start)


def _through(low: Sequence[float], middle: Array, high: Sequence[float], t: Array) -> Array:
    below, above = np.clip(1 - 2 * t, 0, 1)[:, None], np.clip(2 * t - 1, 0, 1)[:, None]
    return middle + below * (np.array(low) - middle) + above * (np.array(high) - middle)

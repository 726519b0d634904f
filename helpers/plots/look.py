"""The visual language that all pictures share: colours, fonts and the figure that displays itself."""

from __future__ import annotations

import base64
import io
import math
from collections.abc import Iterable, Sequence
from functools import cache, lru_cache
from typing import Any

import matplotlib
import numpy as np
from matplotlib import font_manager
from matplotlib.backends.backend_agg import FigureCanvasAgg, RendererAgg
from matplotlib.colors import Colormap, ListedColormap, Normalize
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties
from matplotlib.patches import FancyBboxPatch
from matplotlib.transforms import Bbox

DPI = 120  # pixels per inch: 9 pt text is 15 px high, as tall as the text of a notebook
MAX_WIDTH = 7.5  # inches: 900 px, what a notebook shows without shrinking
PAD = 0.14  # inches between the content and the edge of the card

INK = "#1f2430"  # titles and labels
QUIET = "#5b6270"  # axis names, captions
RULE = "#c9cdd6"  # hairlines
CARD = "#ffffff"
HIDDEN_FACE, HIDDEN_HATCH = "#eef0f3", "#8d94a3"

# Okabe and Ito, "Color Universal Design" (2008): eight colours that colour-blind readers tell apart.
BLUE, ORANGE, GREEN, VERMILION = "#0072b2", "#e69f00", "#009e73", "#d55e00"
SKY, PURPLE, YELLOW, BLACK = "#56b4e9", "#cc79a7", "#f0e442", "#1f2430"
SERIES = (BLUE, VERMILION, GREEN, PURPLE, ORANGE, SKY, BLACK)
MARKERS = ("o", "s", "^", "D", "v", "P", "X")
STYLES = ("-", "--", "-.", ":")
ROLES = {"q": BLUE, "k": VERMILION, "v": GREEN}  # query, key and value, wherever they are drawn
SCALES = {"no scale": VERMILION, "÷ √d": BLUE, "÷ d": GREEN}  # the same rule has the same colour everywhere

TITLE, LABEL, SMALL, TINY = 10.0, 9.0, 8.0, 6.5  # font sizes in points; nothing is smaller than TINY


# OKLab to cone responses (to be cubed), and those to linear sRGB: Ottosson, "A perceptual color space for image
# processing", 2020.
LAB_TO_LMS = np.array(
    [
        [1, 0.3963377774, 0.2158037573],
        [1, -0.1055613458, -0.0638541728],
        [1, -0.0894841775, -1.2914855480],
    ]
)
LMS_TO_RGB = np.array(
    [
        [4.0767416621, -3.3077115913, 0.2309699292],
        [-1.2684380046, 2.6097574011, -0.3413193965],
        [-0.0041960863, -0.7034186147, 1.7076147010],
    ]
)


@cache
def weights_map() -> Colormap:
    """White to navy for attention weights, 0 to 1: equal steps of weight are equal steps to the eye.

    A path through OKLab, cut into equal lengths.
    Lightness falls all the way, so it also reads in grey print and with any kind of colour blindness.
    """
    t = np.linspace(0, 1, 2001)
    lightness, chroma = 0.98 - 0.70 * t, 0.010 + 0.135 * np.sin(0.82 * np.pi * t)
    hue = np.radians(225 + 42 * t)
    path = np.stack([lightness, chroma * np.cos(hue), chroma * np.sin(hue)], axis=1)  # (2001, 3)
    length = np.concatenate([[0], np.cumsum(np.linalg.norm(np.diff(path, axis=0), axis=1))])
    even = np.linspace(0, length[-1], 256)
    lab = np.stack([np.interp(even, length, path[:, i]) for i in range(3)], axis=1)  # (256, 3)
    linear = np.clip((lab @ LAB_TO_LMS.T) ** 3 @ LMS_TO_RGB.T, 0, 1)
    rgb = np.where(linear <= 0.0031308, 12.92 * linear, 1.055 * linear ** (1 / 2.4) - 0.055)
    return ListedColormap(rgb, name="attention")


def scores_map() -> Colormap:
    """Purple (negative) over white to orange (positive), for scores and other signed numbers."""
    return matplotlib.colormaps["PuOr_r"]


def difference_map() -> Colormap:
    """Green (too small) over white to pink (too large), for differences only."""
    return matplotlib.colormaps["PiYG_r"]


def weights_norm() -> Normalize:
    """Weights are always drawn on 0..1."""
    return Normalize(0.0, 1.0, clip=True)


def signed_norm(*values: np.ndarray) -> Normalize:
    """Symmetric about 0, wide enough for every finite value given; ±1 where all are 0."""
    finite = np.concatenate([v[np.isfinite(v)].ravel() for v in values] or [np.zeros(0)])
    limit = float(np.abs(finite).max()) if finite.size else 0.0
    return Normalize(-limit or -1.0, limit or 1.0, clip=True)


def text_colour(rgba: Sequence[float]) -> str:
    """Dark or white, whichever has more contrast with the colour behind (WCAG 2 relative luminance)."""
    rgb = np.asarray(rgba[:3], dtype=float)
    linear = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
    return INK if float(linear @ [0.2126, 0.7152, 0.0722]) > 0.2 else "#ffffff"


def series_colour(label: str, index: int) -> str:
    """The colour of a curve: fixed for the names the course uses, else by position."""
    return SCALES.get(label, SERIES[index % len(SERIES)])


# ---- fonts -----------------------------------------------------------------------------------------------

FIRST = "DejaVu Sans"  # comes with matplotlib
PREFERRED = (
    "Noto Sans CJK SC", "Noto Sans SC", "Source Han Sans SC", "PingFang SC", "Hiragino Sans GB",
    "Microsoft YaHei", "WenQuanYi Zen Hei", "WenQuanYi Micro Hei", "SimHei", "Hiragino Sans", "Yu Gothic",
    "Noto Sans CJK JP", "Noto Sans CJK KR", "Malgun Gothic", "Apple SD Gothic Neo", "Arial Unicode MS",
    "Noto Sans",
)  # fmt: skip
UNUSABLE = (
    "lastresort",
    "last resort",
    "emoji",
    "blank",
    "adobe notdef",
)  # boxes, or bitmaps Agg cannot draw


@cache
def _has(path: str, character: str) -> bool:
    try:
        return font_manager.get_font(path).get_char_index(ord(character)) != 0
    except (OSError, RuntimeError, ValueError):  # a font file that cannot be read has no glyphs
        return False


@cache
def _fonts() -> tuple[tuple[str, str], ...]:
    """(family, path) of every usable installed font, plain weights, the preferred ones first."""
    plain: dict[str, str] = {}
    for entry in sorted(font_manager.fontManager.ttflist, key=lambda e: (abs(int(e.weight) - 400), e.style, e.name)):
        if not any(word in entry.name.lower() for word in UNUSABLE):
            plain.setdefault(entry.name, entry.fname)
    order = [name for name in (FIRST, *PREFERRED) if name in plain]
    order += [name for name in plain if name not in order]
    return tuple((name, plain[name]) for name in order)


@lru_cache(maxsize=4096)
def _font_of(character: str) -> str | None:
    """The first installed family that has the character, None where none has it."""
    return next((family for family, path in _fonts() if _has(path, character)), None)


def families(texts: Iterable[str]) -> list[str]:
    """Font families that together have every character that any installed font has."""
    found = dict.fromkeys([FIRST])
    for character in dict.fromkeys("".join(texts)):
        if not character.isascii() and (family := _font_of(character)):
            found[family] = None
    return list(found)


def lacking(text: str) -> bool:
    """True where no installed font has some character of the text."""
    return any(not c.isascii() and _font_of(c) is None for c in text)


def spelled(text: str) -> str:
    """The text with code points (U+732B) instead of characters that no installed font has."""
    return "".join(f"U+{ord(c):04X} " if lacking(c) else c for c in text).strip()


@cache
def _renderer() -> RendererAgg:
    return RendererAgg(1, 1, DPI)


@lru_cache(maxsize=8192)
def _size(text: str, points: float, family: tuple[str, ...], bold: bool) -> tuple[float, float]:
    font = FontProperties(family=list(family), size=points, weight="bold" if bold else "normal")
    width, height, _ = _renderer().get_text_width_height_descent(text, font, ismath=False)
    return width / DPI, height / DPI


def text_width(text: str, points: float, bold: bool = False) -> float:
    """Width in inches of the longest line."""
    return max(
        (_size(line, points, tuple(families([line])), bold)[0] for line in text.split("\n") if line),
        default=0.0,
    )


def line_height(points: float) -> float:
    """Height in inches of one line of text, leading included."""
    return 1.3 * points / 72


def fold(text: str, points: float, width: float, bold: bool = False) -> str:
    """Break a text into lines no wider than `width` inches; words stay whole where they fit."""
    lines: list[str] = []
    for paragraph in text.split("\n"):
        line = ""
        for word in paragraph.split(" "):
            longer = f"{line} {word}" if line else word
            if text_width(longer, points, bold) <= width:
                line = longer
                continue
            if line:
                lines.append(line)
            while text_width(word, points, bold) > width and len(word) > 1:
                cut = next(
                    n for n in range(len(word) - 1, 0, -1) if n == 1 or text_width(word[:n], points, bold) <= width
                )
                lines.append(word[:cut])
                word = word[cut:]
            line = word
        lines.append(line)
    return "\n".join(lines)


def font(texts: Iterable[str], points: float, colour: str = INK, bold: bool = False) -> dict[str, Any]:
    """Keyword arguments for a matplotlib text: set every time, so that the user's style changes nothing."""
    return {
        "fontfamily": families(texts),
        "fontsize": points,
        "fontweight": "bold" if bold else "normal",
        "color": colour,
        "parse_math": False,
    }


# ---- the figure ------------------------------------------------------------------------------------------


class Picture(Figure):
    """A matplotlib figure that displays itself once, as PNG, and says in one line what it shows.

    description: one sentence for screen readers; also the text/plain form.
    It is not known to pyplot: nothing has to be closed. It draws an opaque card, light in every theme.
    """

    def __init__(self, description: str = "", *, width: float = MAX_WIDTH, height: float = 4.0):
        super().__init__(figsize=(width, height), dpi=DPI, facecolor="none", edgecolor="none", linewidth=0)
        self.set_layout_engine("none")  # `wrap` makes the layout, whatever the user prefers elsewhere
        FigureCanvasAgg(self)
        self.description = description
        self._places: dict[Any, tuple[float, float, float, float]] = {}

    def place(self, left: float, top: float, width: float, height: float) -> Any:
        """A new axes at inches from the upper left; `wrap` finds room for its labels later."""
        axes = self.add_axes((0.1, 0.1, 0.5, 0.5))
        self._places[axes] = (left, -top - height, width, height)
        self._position(0.0, 0.0)
        return axes

    def _position(self, left: float, bottom: float) -> None:
        width, height = self.get_size_inches()
        for axes, (x, y, w, h) in self._places.items():
            axes.set_position(((x - left) / width, (y - bottom) / height, w / width, h / height))

    def room_above(self, axes: Any) -> float:
        """Inches that labels take above the axes."""
        renderer = self.canvas.get_renderer()  # type: ignore[attr-defined]
        return float(axes.get_tightbbox(renderer).y1 - axes.get_window_extent(renderer).y1) / self.dpi

    def wrap(self, *, title: str | None = None, caption: str | None = None) -> Picture:
        """Give the figure the size of its content, so that no label is cut; add title and caption."""
        title, caption = spelled(title or ""), spelled(caption or "")
        renderer = self.canvas.get_renderer()  # type: ignore[attr-defined]
        boxes = [axes.get_tightbbox(renderer) for axes in self._places]
        width, height = self.get_size_inches()
        # Places are in inches from an origin that now lies at the figure's lower left corner.
        content = Bbox.union([box for box in boxes if box is not None])
        x0, y0, x1, y1 = (value / self.dpi for value in content.extents)
        inner = min(max(x1 - x0, text_width(title, TITLE, True), text_width(caption, SMALL), 1.2), MAX_WIDTH - 2 * PAD)
        inner = max(inner, x1 - x0)
        title, caption = fold(title, TITLE, inner, True), fold(caption, SMALL, inner)
        above = (title.count("\n") + 1) * line_height(TITLE) + 0.08 if title else 0.0
        below = (caption.count("\n") + 1) * line_height(SMALL) + 0.08 if caption else 0.0
        width = math.ceil((inner + 2 * PAD) * DPI) / DPI
        height = math.ceil((y1 - y0 + above + below + 2 * PAD) * DPI) / DPI
        self.set_size_inches(width, height)
        # Whole pixels: cells keep sharp edges.
        self._position(math.floor((x0 - PAD) * DPI) / DPI, math.floor((y0 - PAD - below) * DPI) / DPI)
        if title:
            self.text(PAD / width, 1 - PAD / height, title, va="top", ha="left", **font([title], TITLE, bold=True))
        if caption:
            self.text(PAD / width, PAD / height, caption, va="bottom", ha="left", **font([caption], SMALL, QUIET))
        return self

    def draw(self, renderer: Any) -> None:
        """Draw the card in the figure's present size, then everything else."""
        for old in [artist for artist in self.artists if artist.get_gid() == "card"]:
            old.remove()
        width, height = self.get_size_inches()
        edge, corner = 0.6 / DPI, 8 / DPI
        card = FancyBboxPatch(
            (edge, edge), width - 2 * edge, height - 2 * edge, boxstyle=f"round,pad=0,rounding_size={corner}",
            transform=self.dpi_scale_trans, facecolor=CARD, edgecolor=RULE, linewidth=0.6, zorder=-10, gid="card",
        )  # fmt: skip
        card.set_in_layout(False)
        self.add_artist(card)
        super().draw(renderer)

    def __repr__(self) -> str:
        return self.description

    def _repr_png_(self) -> bytes:
        buffer = io.BytesIO()
        self.canvas.print_png(buffer, metadata={"Description": self.description, "Software": None})  # type: ignore[attr-defined]
        return buffer.getvalue()

    def _repr_mimebundle_(
        self, include: Any = None, exclude: Any = None, **_: Any
    ) -> tuple[dict[str, str], dict[str, dict[str, str]]]:
        png = base64.b64encode(self._repr_png_()).decode("ascii")
        # IPython's convention for alternative text. nbconvert's classic template uses it; JupyterLab 4.6 does not
        # (its image renderer reads width and height only), so the description is in text/plain as well.
        return {"image/png": png, "text/plain": self.description}, {"image/png": {"alt": self.description}}

"""The mask explorer: which cells a mask hides, what is written there, and how much weight leaks through."""

from __future__ import annotations

import copy
import inspect
import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import ipywidgets
import torch
from torch import nn

from helpers import demo, mask_demo
from helpers.note import Note
from helpers.plots import attention_heatmap, heads, look
from helpers.plots.heatmaps import scores_panel, weights_panel
from helpers.plots.inputs import array
from helpers.plots.masks import share
from helpers.plots.panels import arrange
from helpers.widgets.explorer import Explorer, Shown, choice, names_for, one_sample, square
from helpers.words import yours

CAUSAL, PADDING, BOTH, WINDOW, OWN = "causal", "padding", "causal and padding", "window of 3", "own clicks"
KINDS = (CAUSAL, PADDING, BOTH, WINDOW, OWN)
FILLS = {"-inf": -math.inf, "-1e9": -1e9, "-1": -1.0, "0": 0.0, "1e-20": 1e-20}
DTYPES = {"float32": torch.float32, "float16": torch.float16}
N_PADDING, LONGEST = 2, 12


def explore_masks(module: Any = None, *, x: Any = None, tokens: Any = None, kind: str = CAUSAL) -> Explorer:
    """Change the mask, the fill value and the dtype; watch how much weight lies on hidden keys.

    module: your own class or module, called as module(x, mask), or as module(q, k, v, mask) with 3 inputs; a class
        is built with the width of x, and with 2 heads where it asks for a second number. Your code then decides what
        is written into hidden cells, so there is no control for it. Left out: the right scores of the sentence.
    x: one sample (L, d) or (1, L, d), 3 to 12 tokens; tokens: its labels; the course's own sentence when left out
    kind: the mask to begin with
    raises: ValueError in words for another kind, another x, or a module that cannot be called
    """
    if kind not in KINDS:
        raise ValueError(f"kind must be one of: {', '.join(KINDS)}; not {kind!r}.")
    if module is not None and not callable(module):
        raise ValueError(f"module must be a class or a module; this is {type(module).__name__}.")
    if x is None:
        own, x = demo.sentence()
        tokens = own if tokens is None else tokens
    sample = one_sample(x, "x")
    length = len(sample)
    if not N_PADDING < length <= LONGEST:
        raise ValueError(f"x must have {N_PADDING + 1} to {LONGEST} tokens to be explored, not {length}.")
    grid = Grid(names_for(tokens, length, "x"), mask_of(kind, length))
    controls: dict[str, Any] = {
        "kind": choice("mask", KINDS, kind),
        "fill": choice("fill", list(FILLS.items()), -math.inf),
        "dtype": choice("dtype", list(DTYPES), "float32"),
    }
    weigh: Callable[..., Shown] = _demo_weights(sample) if module is None else _own_weights(module, sample)
    if module is not None:
        del controls["fill"]

    def show(kind: str, dtype: str, **fill: float) -> Shown:
        if kind != OWN:
            grid.take(mask_of(kind, length))  # own clicks begin with the mask that was seen last
        grid.box.layout.display = "grid" if kind == OWN else "none"
        padded = kind in (PADDING, BOTH)
        names = [*grid.tokens[:-N_PADDING], *[mask_demo.PAD] * N_PADDING] if padded else grid.tokens
        return weigh(grid.mask(), names, padded, DTYPES[dtype], **fill)

    return Explorer(controls, show, below=[grid.box], clicks=grid.cells)


def mask_of(kind: str, length: int) -> torch.Tensor:
    """The mask of this kind. returns: (L, L), bool, True = may look"""
    causal = mask_demo.causal(length)
    words = ["word"] * (length - N_PADDING) + [mask_demo.PAD] * N_PADDING
    padding = mask_demo.padding([words])[0].expand(length, length)
    masks = {CAUSAL: causal, PADDING: padding, BOTH: causal & padding, WINDOW: causal.triu(-2)}
    return masks.get(kind, causal).clone()


class Grid:
    """One square to press for each cell of a mask; pressed = may look.

    cells: "query 0, key 1" → its square; box: all of them with their labels
    """

    def __init__(self, tokens: list[str], mask: torch.Tensor):
        self.tokens = tokens
        pairs = [(i, j) for i in range(len(tokens)) for j in range(len(tokens))]
        self.cells = {
            f"query {i}, key {j}": square(bool(mask[i, j]), f"{tokens[i]} may look at {tokens[j]}") for i, j in pairs
        }
        squares = list(self.cells.values())
        parts = [ipywidgets.Label("may look at"), *(ipywidgets.Label(token) for token in tokens)]
        for i, token in enumerate(tokens):
            parts += [ipywidgets.Label(token), *squares[i * len(tokens) : (i + 1) * len(tokens)]]
        columns = f"max-content repeat({len(tokens)}, max-content)"
        layout = ipywidgets.Layout(grid_template_columns=columns, grid_gap="0 12px", margin="4px 0 4px 24px")
        self.box = ipywidgets.GridBox(parts, layout=layout)

    def mask(self) -> torch.Tensor:
        """What is pressed. returns: (L, L), bool, True = may look"""
        pressed = [each.value for each in self.cells.values()]
        return torch.tensor(pressed).view(len(self.tokens), len(self.tokens))

    def take(self, mask: torch.Tensor) -> None:
        """Press what the mask lets through. mask: (L, L)"""
        for each, value in zip(self.cells.values(), mask.flatten().tolist(), strict=True):
            each.value = value


# ---- whose weights ---------------------------------------------------------------------------------------


def _padded(x: torch.Tensor) -> torch.Tensor:
    """The sample with made-up padding in place of its last tokens. x: (L, d)"""
    return torch.cat([x[:-N_PADDING], torch.ones_like(x[-N_PADDING:])])


def _demo_weights(x: torch.Tensor) -> Callable[..., Shown]:
    """Right scores of the sample; the fill and the dtype decide what the weights are. x: (L, d)"""
    to_query, to_key, _ = demo.projections(x.shape[-1]) if x.shape[-1] >= len(demo.TOKENS) else (nn.Identity(),) * 3

    def show(mask: torch.Tensor, names: list[str], padded: bool, dtype: torch.dtype, fill: float) -> Shown:
        inputs = _padded(x) if padded else x
        scores = demo.score_path(to_query(inputs), to_key(inputs))[1].to(dtype)  # (L, L)
        return filled(scores, mask, fill, names)

    return show


def filled(scores: torch.Tensor, mask: torch.Tensor, fill: float, names: list[str]) -> Shown:
    """Scores, masked scores and weights, in the dtype of the scores. scores, mask: (L, L)"""
    name, dtype = next(text for text, value in FILLS.items() if value == fill), scores.dtype
    kind = str(dtype).removeprefix("torch.")
    try:
        masked = mask_demo.filled(scores, mask, fill)  # (L, L)
    except RuntimeError:
        limit = torch.finfo(dtype).max
        said = f"{kind} ends at {limit:g}, so it cannot hold {name}. PyTorch stops with an error."
        return Shown((said,), None, {"mask": mask})
    weights = masked.softmax(dim=-1)  # (L, L)
    raw, after, final, hidden = array(scores, "scores"), array(masked, "masked"), array(weights, "w"), ~mask.numpy()
    norm = look.signed_norm(raw)  # the fill must not flatten the colours of the scores
    leak = leaked(weights, mask)  # (L,)
    panels = [
        scores_panel(raw, "1  scores", norm),
        scores_panel(after, f"2  masked, fill {name}", norm, hidden),
        replace(
            weights_panel(final, "3  weights", hidden),
            margin=[share(value) for value in leak.tolist()],
            margin_title="leaks",
        ),
    ]
    words = [_leak_in_words(mask, leak)]
    if fill != 0 and torch.tensor(fill, dtype=dtype) == 0:
        words.append(f"{kind} rounds {name} to 0.")
    description = (
        f"Scores, masked scores with the fill {name}, and weights of {len(names)} queries in {kind}."
        f" {int(hidden.sum())} of {hidden.size} cells are hidden."
    )
    picture = arrange(panels, names, names, description, choices=(3,))
    return Shown(tuple(words), picture, {"mask": mask, "masked": masked, "weights": weights, "leaked": leak})


def leaked(weights: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """The weight on hidden keys. weights: (..., L_q, L_k), mask: (L_q, L_k); returns: (..., L_q), NaN for NaN rows"""
    spent = weights.double().masked_fill(mask, 0).sum(dim=-1)
    return spent.masked_fill(weights.isnan().any(dim=-1), math.nan)


def _leak_in_words(mask: torch.Tensor, leak: torch.Tensor) -> str:
    hidden = f"Hidden: {int((~mask).sum())} of {mask.numel()} cells."
    known = leak[~leak.isnan()]
    if not known.numel():
        return f"{hidden} Every row is NaN: 0 divided by 0."
    most, mean = share(known.max().item()), share(known.mean().item())
    parts = f"{hidden} Leaked weight of a row: at most {most}, on average {mean}."
    if known.max() == 0:
        parts = f"{hidden} Leaked weight: 0, in every row."
    empty = int(leak.isnan().sum())
    return f"{parts} Rows of NaN, with nothing to look at: {empty}." if empty else parts


def _own_weights(module: Any, x: torch.Tensor) -> Callable[..., Shown]:
    """The weights inside the learner's own class or module. x: (L, d)"""
    made = yours(lambda: _built(module, x.shape[-1]))

    def show(mask: torch.Tensor, names: list[str], padded: bool, dtype: torch.dtype) -> Shown:
        if isinstance(made, Note):
            return Shown((made.text,), None, {"mask": mask})
        # Fresh weights are nearly equal; a larger input shows more of them.
        inputs = 3 * (_padded(x) if padded else x).unsqueeze(0).to(dtype)  # (1, L, d)
        result = yours(lambda: watched(made, inputs, mask, names))
        return Shown((result.text,), None, {"mask": mask}) if isinstance(result, Note) else result

    return show


def watched(module: Any, x: torch.Tensor, mask: torch.Tensor, names: list[str]) -> Shown:
    """The weights of a module under a mask, in the dtype of x: one heatmap, or one a head.

    x: (1, L, d), mask: (L, L). Raises what the module raises.
    """
    twin = copy.deepcopy(module).to(x.dtype) if isinstance(module, nn.Module) else module
    inputs = (x, x, x) if _asks_for(twin.forward if isinstance(twin, nn.Module) else twin) >= 3 else (x,)
    weights = demo.watch_weights(twin, *inputs, mask)  # (..., L, L)
    while weights.dim() > 3 or (weights.dim() == 3 and len(weights) == 1):
        weights = weights[0]  # the only sample; the only head
    draw: Callable[..., Any] = heads if weights.dim() == 3 else attention_heatmap
    leak = leaked(weights, mask)  # (L,) or (h, L)
    kind = str(x.dtype).removeprefix("torch.")
    words = (f"The weights inside your own code, in {kind}. Look at the hatched cells.", _leak_in_words(mask, leak))
    return Shown(words, draw(weights, names, mask=mask), {"mask": mask, "weights": weights, "leaked": leak})


def _built(module: Any, d: int) -> Any:
    """A module as it is; a class as a fresh object, always the same, without touching the global random state."""
    if not isinstance(module, type):
        return module
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return module(d, 2) if _asks_for(module) >= 2 else module(d)


def _asks_for(call: Any) -> int:
    """How many positional arguments without a default it takes."""
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    parameters = inspect.signature(call).parameters.values()
    return sum(p.kind in positional and p.default is inspect.Parameter.empty for p in parameters)

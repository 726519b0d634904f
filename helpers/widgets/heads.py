"""The heads explorer: split a small labelled tensor into heads and merge it again, the right and the wrong way."""

from __future__ import annotations

from collections.abc import Callable
from itertools import chain
from typing import Any

import torch

from helpers.note import Note
from helpers.plots import reshaping
from helpers.widgets.explorer import Explorer, Shown, choice
from helpers.words import yours

LENGTH, D_MODEL = 3, 8  # three tokens, so that no length equals a number of heads
RIGHT, BY_VIEW, YOURS = "view and transpose", "view alone", "yours"

Split = Callable[[torch.Tensor, int], torch.Tensor]
Merge = Callable[[torch.Tensor], torch.Tensor]


def explore_heads(split_heads: Split | None = None, merge_heads: Merge | None = None, *, h: int = 2) -> Explorer:
    """Change the number of heads and the way to cut; the colours say from which token a number comes.

    split_heads, merge_heads: your own, (B, L, d_model) ↔ (B, h, L, d_k); each adds "yours" to the ways
    h: the number of heads to begin with: 1, 2, 4 or 8
    raises: ValueError when h is none of these, or when what should be a function is none
    """
    counts = [i for i in range(1, D_MODEL + 1) if D_MODEL % i == 0]
    if h not in counts:
        raise ValueError(f"h must divide the width {D_MODEL}: one of {', '.join(map(str, counts))}, not {h!r}.")
    splits: dict[str, Split] = {RIGHT: _split, BY_VIEW: _split_by_view}
    merges: dict[str, Merge] = {RIGHT: _merge, BY_VIEW: _merge_by_view}
    for own, name in ((split_heads, "split_heads"), (merge_heads, "merge_heads")):
        if own is not None and not callable(own):
            raise ValueError(f"{name} must be a function; this is {type(own).__name__}.")
    if split_heads is not None:
        splits[YOURS] = split_heads
    if merge_heads is not None:
        merges[YOURS] = merge_heads
    controls = {
        "h": choice("heads h", counts, h),
        "split": choice("split by", list(splits), list(splits)[-1] if split_heads else RIGHT),
        "merge": choice("merge by", list(merges), list(merges)[-1] if merge_heads else RIGHT),
    }

    def show(h: int, split: str, merge: str) -> Shown:
        made = yours(lambda: cut(splits[split], merges[merge], h))
        return Shown((made.text,)) if isinstance(made, Note) else made

    return Explorer(controls, show)


def cut(split: Split, merge: Merge, h: int) -> Shown:
    """Split and merge the labelled tensor. Raises ValueError in words for results that cannot be drawn."""
    x = torch.arange(LENGTH * D_MODEL).view(LENGTH, D_MODEL)  # (L, d_model)
    heads = _one("split_heads", split(x.unsqueeze(0), h))  # (h, L, d_k)
    merged = _one("merge_heads", merge(heads.unsqueeze(0)))  # (L, d_model)
    right = torch.equal(heads, _split(x.unsqueeze(0), h)[0])
    back = torch.equal(merged, x)
    words = []
    if right:
        words.append(f"Right: each head sees all {LENGTH} tokens, with d_k = {D_MODEL} / {h} = {D_MODEL // h}.")
        if h == 1:
            words.append("With one head, view alone is right too: a test with h = 1 cannot find the mistake.")
    else:
        tokens = ", ".join(str(i) for i in sorted(set((heads[0] // D_MODEL).flatten().tolist())))
        words.append(f"Wrong, although nothing fails. Head 0 holds numbers of these tokens: {tokens}.")
    words.append("Merged again: x comes back." if back else "Merged again: this is not x.")
    if back and not right:
        words.append("So the round trip alone is no test: two mistakes can cancel.")
    steps = [("x (L, d_model)", x), ("heads (h, L, d_k)", heads), ("merged (L, d_model)", merged)]
    picture: Any = reshaping(steps)
    return Shown(tuple(words), picture, {"x": x, "heads": heads, "merged": merged, "right": right, "back": back})


def _one(name: str, result: Any) -> torch.Tensor:
    """The only sample of what a function returned."""
    if not isinstance(result, torch.Tensor):
        raise ValueError(f"{name} returned no tensor, but {type(result).__name__}")
    wanted = 4 if name == "split_heads" else 3
    if result.dim() != wanted or len(result) != 1:
        raise ValueError(f"{name} returned the shape {tuple(result.shape)}, not {wanted} axes with 1 sample first")
    return result[0]


def _split(x: torch.Tensor, h: int) -> torch.Tensor:
    """The definition, number by number, for the one labelled sample. (1, L, d_model) → (1, h, L, d_k)"""
    tokens, d_k = x[0].tolist(), D_MODEL // h
    return torch.tensor([[[token[i * d_k : (i + 1) * d_k] for token in tokens] for i in range(h)]])


def _split_by_view(x: torch.Tensor, h: int) -> torch.Tensor:
    return x.view(1, h, LENGTH, -1)  # (1, L, d_model) → (1, h, L, d_k), cut anew


def _merge(x: torch.Tensor) -> torch.Tensor:
    """The definition, token by token, for the one labelled sample. (1, h, L, d_k) → (1, L, d_model)"""
    heads = x[0].tolist()
    return torch.tensor([[list(chain.from_iterable(head[token] for head in heads)) for token in range(LENGTH)]])


def _merge_by_view(x: torch.Tensor) -> torch.Tensor:
    return x.reshape(1, LENGTH, D_MODEL)  # (1, h, L, d_k) → (1, L, d_model), cut anew

"""The calls on which the function exercises are run: their arguments, seeded, of unequal sizes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from helpers.judge.probes import keep, keep_one, tokens


@dataclass(frozen=True)
class Call:
    """One call of a function. make: builds fresh arguments, since an answer may edit them.

    group: "formula", "sizes", "forms" (of a mask), "large", "empty rows" or "raw" (judged by statistics, not by value).
    """

    id: str
    make: Callable[[], tuple[Any, ...]]
    group: str = "formula"
    keywords: tuple[tuple[str, Any], ...] = ()
    tolerance: float = 1e-5
    gradients: bool = False


def _linear(seed: int, inputs: int, outputs: int, bias: bool = True) -> nn.Linear:
    layer = nn.Linear(inputs, outputs, bias=bias)
    with torch.no_grad():
        layer.weight.copy_(tokens(seed, outputs, inputs))
        if bias:
            layer.bias.copy_(tokens(seed + 1, outputs))
    return layer


class FourLinears(nn.Module):
    """The layers of a multi-head attention without its forward pass."""

    def __init__(self, d_model: int, h: int, bias: bool = True):
        super().__init__()
        self.h, self.d_model, self.d_k = h, d_model, d_model // h
        self.wq, self.wk, self.wv, self.wo = (_linear(900 + 10 * i, d_model, d_model, bias) for i in range(4))


def _rows(seed: int, *shape: int) -> torch.Tensor:
    return tokens(seed, *shape).softmax(dim=-1)


def _given(*arguments: Any) -> Callable[[], tuple[Any, ...]]:
    return lambda: arguments


def _scores_and_mask(*shape: int, mask: tuple[int, ...], dtype: torch.dtype = torch.bool) -> tuple[torch.Tensor, ...]:
    return tokens(200, *shape), keep(201, *mask).to(dtype)


def _with_empty_row() -> tuple[torch.Tensor, torch.Tensor]:
    mask = keep(201, 5, 7)
    mask[2] = False
    return tokens(200, 2, 5, 7), mask


def _all_visible_and_large() -> tuple[torch.Tensor, torch.Tensor]:
    return 100 * tokens(200, 2, 5, 7), torch.ones(5, 7, dtype=torch.bool)


def _mask_calls() -> list[Call]:
    """For the functions that take scores and a mask."""
    shape = (2, 5, 7)
    return [
        Call("main", lambda: _scores_and_mask(*shape, mask=(2, 5, 7)), gradients=True),
        Call("2-D", lambda: _scores_and_mask(3, 4, mask=(3, 4)), "sizes"),
        Call("4-D", lambda: _scores_and_mask(2, 4, 5, 7, mask=(2, 1, 5, 7)), "sizes"),
        Call("one mask for all", lambda: _scores_and_mask(*shape, mask=(5, 7)), "sizes"),
        Call("padding", lambda: _scores_and_mask(*shape, mask=(2, 1, 7)), "sizes"),
        Call("square", lambda: _scores_and_mask(5, 5, 5, mask=(5, 1, 5)), "sizes"),
        Call("int64 mask", lambda: _scores_and_mask(*shape, mask=shape, dtype=torch.int64), "forms"),
        Call("float mask", lambda: _scores_and_mask(*shape, mask=shape, dtype=torch.float32), "forms"),
        Call("uint8 mask", lambda: _scores_and_mask(*shape, mask=shape, dtype=torch.uint8), "forms"),
        Call("low scores", lambda: (tokens(203, *shape) - 400, keep(201, *shape)), "low", tolerance=1e-3),
        Call("all visible, large scores", _all_visible_and_large, "large", tolerance=1e-3),
        Call("large scores", lambda: (100 * tokens(200, *shape), keep_one(202, *shape)), "large mask", tolerance=1e-3),
        Call("empty row", _with_empty_row, "empty rows"),
    ]


def _layers(d: int, bias: bool) -> tuple[nn.Linear, ...]:
    return tuple(_linear(300 + 10 * i, d, d, bias) for i in range(3))


def _heads(d_model: int, d_k: int, h: int, bias: bool) -> tuple[list[tuple[nn.Linear, ...]]]:
    return ([tuple(_linear(400 + 10 * i + 100 * j, d_model, d_k, bias) for i in range(3)) for j in range(h)],)


def _attention_call(B: int, L_q: int, L_k: int, d: int, h: int, masked: bool) -> tuple[Any, ...]:
    mask = (keep(502, L_q, L_k),) if masked else ()
    return (
        FourLinears(d, h),
        tokens(503, B, L_q, d) / 4,
        tokens(504, B, L_k, d) / 4,
        tokens(505, B, L_k, d),
        *mask,
    )


FUNCTION_CALLS: dict[str, tuple[Call, ...]] = {
    "weighted_average": (
        Call("main", lambda: (_rows(101, 3, 5), tokens(102, 5, 4)), gradients=True),
        Call("square", lambda: (_rows(103, 4, 4), tokens(104, 4, 4)), "sizes"),
        Call("one", lambda: (_rows(105, 1, 1), tokens(106, 1, 6)), "sizes"),
        Call("wide", lambda: (_rows(107, 2, 7), tokens(108, 7, 3)), "sizes"),
    ),
    "attention_scores": (
        Call("main", lambda: (tokens(111, 2, 5, 6), tokens(112, 2, 7, 6)), gradients=True),
        Call("by hand", lambda: (torch.tensor([[1.0, 2.0, 0.0, 1.0]]), torch.tensor([[3.0, 1.0, 2.0, -1.0]])), "sizes"),
        Call("2-D", lambda: (tokens(113, 5, 6), tokens(114, 7, 6)), "sizes"),
        Call("4-D", lambda: (tokens(115, 2, 3, 5, 6), tokens(116, 2, 3, 7, 6)), "sizes"),
        Call("square", lambda: (tokens(117, 4, 4, 4), tokens(118, 4, 4, 4)), "sizes"),
        Call("d = 1", lambda: (tokens(119, 2, 3, 1), tokens(120, 2, 4, 1)), "sizes"),
        Call("not contiguous", lambda: (tokens(121, 5, 2, 6).transpose(0, 1), tokens(122, 7, 2, 6).transpose(0, 1)),
             "sizes"),
    ),
    "softmax": (
        Call("main", lambda: (2 * tokens(131, 2, 5, 7),), gradients=True),
        Call("by hand", lambda: (torch.tensor([[0.0, 1.0, 2.0], [3.0, 3.0, 3.0]]),), "sizes"),
        Call("square", lambda: (tokens(132, 4, 4, 4),), "sizes"),
        Call("4-D", lambda: (tokens(133, 2, 3, 4, 5),), "sizes"),
        Call("one key", lambda: (tokens(134, 2, 3, 1),), "sizes"),
        Call("+1000", lambda: (tokens(135, 3, 4) + 1000,), "large", tolerance=1e-3),
        Call("-1000", lambda: (tokens(136, 3, 4) - 1000,), "large", tolerance=1e-3),
        Call("±1000", lambda: (torch.tensor([[1000.0, -1000.0, 999.0], [-1000.0, -1001.0, 0.0]]),), "large",
             tolerance=1e-3),
        Call("rows far apart", lambda: (tokens(137, 3, 4) + torch.tensor([[-1000.0], [0.0], [1000.0]]),), "large",
             tolerance=1e-3),
    ),
    "dot_product_std": tuple(
        Call(f"d = {d}", _given(d), "number", tolerance=0.03) for d in (1, 4, 2, 3, 16, 64, 100, 768)
    ),
    "attention_parameters": (
        *(Call(f"hidden_dim = {d}", _given(d), "number") for d in (768, 1, 12, 64)),
        *(Call(f"hidden_dim = {d}, no bias", _given(d, False), "number") for d in (768, 1, 12)),
        Call("bias=False by name", lambda: (10,), "number", (("bias", False),)),
    ),
    "fuse_projections": (
        Call("main", lambda: _layers(6, True)),
        Call("no bias", lambda: _layers(6, False), "forms"),
        Call("d = 1", lambda: _layers(1, True), "sizes"),
        Call("other size", lambda: _layers(9, True), "sizes"),
    ),
    "fused_xavier_ratio": (Call("main", lambda: (), "number", tolerance=0.005),),
    "causal_mask": tuple(Call(f"length {n}", _given(n)) for n in (4, 1, 2, 7)),
    "padding_mask": (
        Call("main", lambda: (torch.tensor([3, 1, 5]), 5)),
        Call("room to spare", lambda: (torch.tensor([2, 4]), 7), "sizes"),
        Call("one sample", lambda: (torch.tensor([2]), 3), "sizes"),
        Call("as many samples as tokens", lambda: (torch.tensor([4, 1, 3, 2]), 4), "sizes"),
        Call("an empty sample", lambda: (torch.tensor([0, 2]), 3), "sizes"),
        Call("int32 lengths", lambda: (torch.tensor([1, 3], dtype=torch.int32), 4), "forms"),
    ),
    "masked_softmax": tuple(_mask_calls()),
    "repaired_weights": tuple(_mask_calls()),
    "inverted_dropout": (
        Call("rate 0.5", lambda: (_rows(141, 80, 60), 0.5, True), "raw"),
        Call("rate 0.5 again", lambda: (_rows(141, 80, 60), 0.5, True), "raw"),
        Call("rate 0.2", lambda: (_rows(141, 80, 60), 0.2, True), "raw"),
        Call("training by default", lambda: (_rows(141, 80, 60), 0.5), "raw"),
        Call("rate 0", lambda: (_rows(142, 3, 4), 0.0, True)),
        Call("not training", lambda: (_rows(143, 3, 4), 0.5, False)),
        Call("4-D, not training", lambda: (_rows(144, 2, 3, 4, 5), 0.9, False), "sizes"),
    ),
    "split_heads": (
        Call("main", lambda: (tokens(151, 2, 5, 24), 4), gradients=True),
        Call("by hand", lambda: (torch.arange(12.0).reshape(1, 3, 4), 2), "sizes"),
        Call("other sizes", lambda: (tokens(152, 3, 7, 10), 2), "sizes"),
        Call("one head", lambda: (tokens(153, 2, 3, 6), 1), "sizes"),
        Call("d_k = 1", lambda: (tokens(154, 2, 3, 6), 6), "sizes"),
        Call("as many heads as tokens", lambda: (tokens(155, 2, 4, 24), 4), "sizes"),
        Call("one token", lambda: (tokens(156, 1, 1, 8), 2), "sizes"),
        Call("not contiguous", lambda: (tokens(157, 5, 2, 24).transpose(0, 1), 4), "sizes"),
    ),
    "merge_heads": (
        Call("main", lambda: (tokens(161, 2, 4, 5, 6),), gradients=True),
        Call("by hand", lambda: (torch.arange(12.0).reshape(1, 2, 3, 2),), "sizes"),
        Call("other sizes", lambda: (tokens(162, 3, 2, 7, 5),), "sizes"),
        Call("one head", lambda: (tokens(163, 2, 1, 3, 6),), "sizes"),
        Call("as many heads as tokens", lambda: (tokens(164, 2, 4, 4, 6),), "sizes"),
        Call("one token", lambda: (tokens(165, 1, 3, 1, 4),), "sizes"),
        Call("not contiguous", lambda: (tokens(166, 2, 5, 4, 6).transpose(1, 2),), "sizes"),
    ),
    "init_attention_weights": (
        Call("main", lambda: (FourLinears(48, 4),), "raw"),
        Call("again", lambda: (FourLinears(48, 4),), "raw"),
        Call("no bias", lambda: (FourLinears(48, 4, bias=False),), "raw"),
    ),
    "stack_heads": (
        Call("main", lambda: _heads(24, 6, 4, True)),
        Call("no bias", lambda: _heads(24, 6, 4, False), "forms"),
        Call("other sizes", lambda: _heads(10, 5, 2, True), "sizes"),
        Call("one head", lambda: _heads(6, 6, 1, True), "sizes"),
    ),
    "torch_attention": (
        Call("main", lambda: _attention_call(2, 5, 7, 24, 4, False), tolerance=1e-4),
        Call("with a mask", lambda: _attention_call(2, 5, 7, 24, 4, True), "forms", tolerance=1e-4),
        Call("other sizes", lambda: _attention_call(3, 4, 4, 10, 2, True), "sizes", tolerance=1e-4),
    ),
}  # fmt: skip

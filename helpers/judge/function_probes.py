"""The calls on which the function exercises are run: their arguments, seeded, of unequal sizes.

The id of a call is the same in every draw: the number in "length 4" is that of the published one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import torch
from torch import nn

from helpers.judge.probes import PUBLISHED, Draw


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


def _linear(draw: Draw, number: int, inputs: int, outputs: int, bias: bool = True) -> nn.Linear:
    layer = nn.Linear(inputs, outputs, bias=bias)
    with torch.no_grad():
        layer.weight.copy_(draw.tokens(number, outputs, inputs))
        if bias:
            layer.bias.copy_(draw.tokens(number + 1, outputs))
    return layer


class FourLinears(nn.Module):
    """The layers of a multi-head attention without its forward pass."""

    def __init__(self, draw: Draw, d_model: int, h: int, bias: bool = True):
        super().__init__()
        self.h, self.d_model, self.d_k = h, d_model, d_model // h
        self.wq, self.wk, self.wv, self.wo = (_linear(draw, 900 + 10 * i, d_model, d_model, bias) for i in range(4))


def _rows(draw: Draw, number: int, *shape: int) -> torch.Tensor:
    return draw.tokens(number, *shape).softmax(dim=-1)


def _given(*arguments: Any) -> Callable[[], tuple[Any, ...]]:
    return lambda: arguments


def _mask_calls(draw: Draw) -> tuple[Call, ...]:
    """For the functions that take scores and a mask."""
    shape = (2, 5, 7)

    def both(*shape: int, mask: tuple[int, ...], dtype: torch.dtype = torch.bool) -> tuple[torch.Tensor, ...]:
        return draw.tokens(200, *shape), draw.keep(201, *mask).to(dtype)

    def all_visible() -> tuple[torch.Tensor, ...]:
        return 100 * draw.tokens(200, *shape), torch.ones(5, 7, dtype=torch.bool)

    def with_empty_row() -> tuple[torch.Tensor, ...]:
        mask = draw.keep(201, 5, 7)
        mask[2] = False
        return draw.tokens(200, *shape), mask

    return (
        Call("main", lambda: both(*shape, mask=shape), gradients=True),
        Call("2-D", lambda: both(3, 4, mask=(3, 4)), "sizes"),
        Call("4-D", lambda: both(2, 4, 5, 7, mask=(2, 1, 5, 7)), "sizes"),
        Call("one mask for all", lambda: both(*shape, mask=(5, 7)), "sizes"),
        Call("padding", lambda: both(*shape, mask=(2, 1, 7)), "sizes"),
        Call("square", lambda: both(5, 5, 5, mask=(5, 1, 5)), "sizes"),
        Call("int64 mask", lambda: both(*shape, mask=shape, dtype=torch.int64), "forms"),
        Call("float mask", lambda: both(*shape, mask=shape, dtype=torch.float32), "forms"),
        Call("uint8 mask", lambda: both(*shape, mask=shape, dtype=torch.uint8), "forms"),
        Call("low scores", lambda: (draw.tokens(203, *shape) - 400, draw.keep(201, *shape)), "low", tolerance=1e-3),
        Call("all visible, large scores", all_visible, "large", tolerance=1e-3),
        Call("large scores", lambda: (100 * draw.tokens(200, *shape), draw.keep_one(202, *shape)), "large mask",
             tolerance=1e-3),
        Call("empty row", with_empty_row, "empty rows"),
    )  # fmt: skip


def _layers(draw: Draw, d: int, bias: bool) -> tuple[nn.Linear, ...]:
    return tuple(_linear(draw, 300 + 10 * i, d, d, bias) for i in range(3))


def _heads(draw: Draw, d_model: int, d_k: int, h: int, bias: bool) -> tuple[list[tuple[nn.Linear, ...]]]:
    return ([tuple(_linear(draw, 400 + 10 * i + 100 * j, d_model, d_k, bias) for i in range(3)) for j in range(h)],)


def _attention_call(draw: Draw, B: int, L_q: int, L_k: int, d: int, h: int, masked: bool) -> tuple[Any, ...]:
    mask = (draw.keep(502, L_q, L_k),) if masked else ()
    return (
        FourLinears(draw, d, h),
        draw.tokens(503, B, L_q, d) / 4,
        draw.tokens(504, B, L_k, d) / 4,
        draw.tokens(505, B, L_k, d),
        *mask,
    )


def _padding(
    draw: Draw, number: int, lengths: tuple[int, ...], max_length: int, dtype: torch.dtype = torch.int64
) -> tuple[torch.Tensor, int]:
    """Lengths of samples and max_length: the published ones, or in a private draw others with as much room to spare.

    An empty sample stays empty, and as many samples as tokens stay as many.
    """
    if draw.seed is None:
        return torch.tensor(lengths, dtype=dtype), max_length
    longest, square = max(lengths), len(lengths) == max_length
    room = max_length - longest
    max_length = draw.size(number, max_length, range(max_length + 1, max_length + 7))
    if square:
        lengths += (1,) * (max_length - len(lengths))
    others = draw.random(number + 1).randint(1, max_length - room, len(lengths))
    drawn = [max_length - room if n == longest else min(n, 1) * int(m) for n, m in zip(lengths, others, strict=True)]
    return torch.tensor(drawn, dtype=dtype), max_length


@lru_cache
def function_calls(exercise: str, draw: Draw = PUBLISHED) -> tuple[Call, ...]:
    """The calls of a function exercise, in the order in which they are made. Raises KeyError for another exercise."""
    return _CALLS[exercise](draw)


def _of_weighted_average(draw: Draw) -> tuple[Call, ...]:
    return (
        Call("main", lambda: (_rows(draw, 101, 3, 5), draw.tokens(102, 5, 4)), gradients=True),
        Call("square", lambda: (_rows(draw, 103, 4, 4), draw.tokens(104, 4, 4)), "sizes"),
        Call("one", lambda: (_rows(draw, 105, 1, 1), draw.tokens(106, 1, 6)), "sizes"),
        Call("wide", lambda: (_rows(draw, 107, 2, 7), draw.tokens(108, 7, 3)), "sizes"),
    )


def _of_attention_scores(draw: Draw) -> tuple[Call, ...]:
    tokens = draw.tokens
    q, k = torch.tensor([[1.0, 2.0, 0.0, 1.0]]), torch.tensor([[3.0, 1.0, 2.0, -1.0]])
    return (
        Call("main", lambda: (tokens(111, 2, 5, 6), tokens(112, 2, 7, 6)), gradients=True),
        Call("by hand", lambda: (draw.near(2101, q), draw.near(2102, k)), "sizes"),
        Call("2-D", lambda: (tokens(113, 5, 6), tokens(114, 7, 6)), "sizes"),
        Call("4-D", lambda: (tokens(115, 2, 3, 5, 6), tokens(116, 2, 3, 7, 6)), "sizes"),
        Call("square", lambda: (tokens(117, 4, 4, 4), tokens(118, 4, 4, 4)), "sizes"),
        Call("d = 1", lambda: (tokens(119, 2, 3, 1), tokens(120, 2, 4, 1)), "sizes"),
        Call("not contiguous", lambda: (tokens(121, 5, 2, 6).transpose(0, 1), tokens(122, 7, 2, 6).transpose(0, 1)),
             "sizes"),
    )  # fmt: skip


def _of_softmax(draw: Draw) -> tuple[Call, ...]:
    tokens = draw.tokens
    example = torch.tensor([[0.0, 1.0, 2.0], [3.0, 3.0, 3.0]])
    extremes = torch.tensor([[1000.0, -1000.0, 999.0], [-1000.0, -1001.0, 0.0]])
    far_apart = torch.tensor([[-1000.0], [0.0], [1000.0]])
    return (
        Call("main", lambda: (2 * tokens(131, 2, 5, 7),), gradients=True),
        Call("by hand", lambda: (draw.near(2131, example),), "sizes"),
        Call("square", lambda: (tokens(132, 4, 4, 4),), "sizes"),
        Call("4-D", lambda: (tokens(133, 2, 3, 4, 5),), "sizes"),
        Call("one key", lambda: (tokens(134, 2, 3, 1),), "sizes"),
        Call("+1000", lambda: (tokens(135, 3, 4) + 1000,), "large", tolerance=1e-3),
        Call("-1000", lambda: (tokens(136, 3, 4) - 1000,), "large", tolerance=1e-3),
        Call("±1000", lambda: (draw.near(2132, extremes),), "large", tolerance=1e-3),
        Call("rows far apart", lambda: (tokens(137, 3, 4) + far_apart,), "large", tolerance=1e-3),
    )


# Whole numbers of the published draw → from where a private draw takes its own. None of these is published.
_WIDTHS_OF_DOT_PRODUCTS: dict[int, Sequence[int]] = {
    1: range(5, 10), 4: range(10, 16), 2: range(17, 32), 3: range(32, 64), 16: range(65, 100), 64: range(101, 200),
    100: range(200, 400), 768: range(400, 768),
}  # fmt: skip
_WIDTHS_OF_LAYERS: dict[int, Sequence[int]] = {
    768: range(300, 768),
    1: range(2, 10),
    12: range(13, 40),
    64: range(65, 300),
}
_LENGTHS: dict[int, Sequence[int]] = {4: (5, 6), 1: range(8, 16), 2: range(16, 24), 7: range(24, 40)}


def _of_dot_product_std(draw: Draw) -> tuple[Call, ...]:
    return tuple(
        Call(f"d = {d}", _given(draw.size(2200 + d, d, others)), "number", tolerance=0.03)
        for d, others in _WIDTHS_OF_DOT_PRODUCTS.items()
    )


def _of_attention_parameters(draw: Draw) -> tuple[Call, ...]:
    with_bias = {d: draw.size(3000 + d, d, others) for d, others in _WIDTHS_OF_LAYERS.items()}
    without = {d: draw.size(4000 + d, d, _WIDTHS_OF_LAYERS[d]) for d in (768, 1, 12)}
    by_name = draw.size(5000, 10, range(13, 40))
    return (
        *(Call(f"hidden_dim = {d}", _given(drawn), "number") for d, drawn in with_bias.items()),
        *(Call(f"hidden_dim = {d}, no bias", _given(drawn, False), "number") for d, drawn in without.items()),
        Call("bias=False by name", _given(by_name), "number", (("bias", False),)),
    )


def _of_fuse_projections(draw: Draw) -> tuple[Call, ...]:
    return (
        Call("main", lambda: _layers(draw, 6, True)),
        Call("no bias", lambda: _layers(draw, 6, False), "forms"),
        Call("d = 1", lambda: _layers(draw, 1, True), "sizes"),
        Call("other size", lambda: _layers(draw, 9, True), "sizes"),
    )


def _of_fused_xavier_ratio(draw: Draw) -> tuple[Call, ...]:
    return (Call("main", lambda: (), "number", tolerance=0.005),)  # without arguments nothing can be drawn


def _of_causal_mask(draw: Draw) -> tuple[Call, ...]:
    return tuple(Call(f"length {n}", _given(draw.size(2300 + n, n, others))) for n, others in _LENGTHS.items())


def _of_padding_mask(draw: Draw) -> tuple[Call, ...]:
    return (
        Call("main", lambda: _padding(draw, 2400, (3, 1, 5), 5)),
        Call("room to spare", lambda: _padding(draw, 2410, (2, 4), 7), "sizes"),
        Call("one sample", lambda: _padding(draw, 2420, (2,), 3), "sizes"),
        Call("as many samples as tokens", lambda: _padding(draw, 2430, (4, 1, 3, 2), 4), "sizes"),
        Call("an empty sample", lambda: _padding(draw, 2440, (0, 2), 3), "sizes"),
        Call("int32 lengths", lambda: _padding(draw, 2450, (1, 3), 4, torch.int32), "forms"),
    )


def dropout_rates(draw: Draw) -> tuple[float, float]:
    """The rates of the calls "rate 0.5" and "rate 0.2". The private ones are as easy to tell from none and from all."""
    return (
        draw.size(2501, 50, (*range(44, 50), *range(51, 57))) / 100,
        draw.size(2502, 20, (*range(15, 20), *range(21, 30))) / 100,
    )


def _of_inverted_dropout(draw: Draw) -> tuple[Call, ...]:
    half, fifth = dropout_rates(draw)
    many = (141, draw.size(2503, 80, range(90, 120)), draw.size(2504, 60, range(75, 90)))
    return (
        Call("rate 0.5", lambda: (_rows(draw, *many), half, True), "raw"),
        Call("rate 0.5 again", lambda: (_rows(draw, *many), half, True), "raw"),
        Call("rate 0.2", lambda: (_rows(draw, *many), fifth, True), "raw"),
        Call("training by default", lambda: (_rows(draw, *many), half), "raw"),
        Call("rate 0", lambda: (_rows(draw, 142, 3, 4), 0.0, True)),
        Call("not training", lambda: (_rows(draw, 143, 3, 4), half, False)),
        Call("4-D, not training", lambda: (_rows(draw, 144, 2, 3, 4, 5), 0.9, False), "sizes"),
    )


def _of_split_heads(draw: Draw) -> tuple[Call, ...]:
    tokens = draw.tokens
    example = torch.arange(12.0).reshape(1, 3, 4)
    h = draw.size(2601, 4, (3, 6, 8))
    return (
        Call("main", lambda: (tokens(151, 2, 5, 24), h), gradients=True),
        Call("by hand", lambda: (draw.near(2602, example), 2), "sizes"),
        Call("other sizes", lambda: (tokens(152, 3, 7, 10), draw.size(2603, 2, (5,))), "sizes"),
        Call("one head", lambda: (tokens(153, 2, 3, 6), 1), "sizes"),
        Call("d_k = 1", lambda: (tokens(154, 2, 3, 6), 6), "sizes"),
        Call("as many heads as tokens", lambda: (tokens(155, 2, 4, 24), 4), "sizes"),
        Call("one token", lambda: (tokens(156, 1, 1, 8), 2), "sizes"),
        Call("not contiguous", lambda: (tokens(157, 5, 2, 24).transpose(0, 1), 4), "sizes"),
    )


def _of_merge_heads(draw: Draw) -> tuple[Call, ...]:
    tokens = draw.tokens
    example = torch.arange(12.0).reshape(1, 2, 3, 2)
    return (
        Call("main", lambda: (tokens(161, 2, 4, 5, 6),), gradients=True),
        Call("by hand", lambda: (draw.near(2701, example),), "sizes"),
        Call("other sizes", lambda: (tokens(162, 3, 2, 7, 5),), "sizes"),
        Call("one head", lambda: (tokens(163, 2, 1, 3, 6),), "sizes"),
        Call("as many heads as tokens", lambda: (tokens(164, 2, 4, 4, 6),), "sizes"),
        Call("one token", lambda: (tokens(165, 1, 3, 1, 4),), "sizes"),
        Call("not contiguous", lambda: (tokens(166, 2, 5, 4, 6).transpose(1, 2),), "sizes"),
    )


def _of_init_attention_weights(draw: Draw) -> tuple[Call, ...]:
    d = draw.size(2801, 48, (52, 56, 60, 64))
    return (
        Call("main", lambda: (FourLinears(draw, d, 4),), "raw"),
        Call("again", lambda: (FourLinears(draw, d, 4),), "raw"),
        Call("no bias", lambda: (FourLinears(draw, d, 4, bias=False),), "raw"),
    )


def _of_stack_heads(draw: Draw) -> tuple[Call, ...]:
    return (
        Call("main", lambda: _heads(draw, 24, 6, 4, True)),
        Call("no bias", lambda: _heads(draw, 24, 6, 4, False), "forms"),
        Call("other sizes", lambda: _heads(draw, 10, 5, 2, True), "sizes"),
        Call("one head", lambda: _heads(draw, 6, 6, 1, True), "sizes"),
    )


def _of_torch_attention(draw: Draw) -> tuple[Call, ...]:
    return (
        Call("main", lambda: _attention_call(draw, 2, 5, 7, 24, 4, False), tolerance=1e-4),
        Call("with a mask", lambda: _attention_call(draw, 2, 5, 7, 24, 4, True), "forms", tolerance=1e-4),
        Call("other sizes", lambda: _attention_call(draw, 3, 4, 4, 10, 2, True), "sizes", tolerance=1e-4),
    )


_CALLS: dict[str, Callable[[Draw], tuple[Call, ...]]] = {
    "weighted_average": _of_weighted_average,
    "attention_scores": _of_attention_scores,
    "softmax": _of_softmax,
    "dot_product_std": _of_dot_product_std,
    "attention_parameters": _of_attention_parameters,
    "fuse_projections": _of_fuse_projections,
    "fused_xavier_ratio": _of_fused_xavier_ratio,
    "causal_mask": _of_causal_mask,
    "padding_mask": _of_padding_mask,
    "masked_softmax": _mask_calls,
    "repaired_weights": _mask_calls,
    "inverted_dropout": _of_inverted_dropout,
    "split_heads": _of_split_heads,
    "merge_heads": _of_merge_heads,
    "init_attention_weights": _of_init_attention_weights,
    "stack_heads": _of_stack_heads,
    "torch_attention": _of_torch_attention,
}

FUNCTION_CALLS: dict[str, tuple[Call, ...]] = {exercise: function_calls(exercise) for exercise in _CALLS}  # published

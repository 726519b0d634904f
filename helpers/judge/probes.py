"""The inputs and weights on which answers are run: seeded, of unequal sizes, none of them secret.

Sizes differ from each other on purpose: B = 2, h = 4, L_q = 5, d_k = 6, L_k = 7, d = 24. Equal sizes hide mistakes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal

import numpy as np
import torch
from torch import nn

ROLES = ("q", "k", "v", "o")  # query, key, value and output projection
WeightSet = Literal["plain", "biased", "dropout"]


# ---------------------------------------------------------------------------------------- weights


@lru_cache
def weights(d: int, kind: WeightSet) -> dict[str, torch.Tensor]:
    """The probe weights of width d by role: W_q … W_o (d, d) as (out, in), b_q … b_o (d,).

    plain:    weights that give logits of order 1, no biases.
    biased:   the same weights, with biases.
    dropout:  the values are the mean of the features; queries and keys are 0; the output projection is the identity.
    """
    random = np.random.RandomState(1000 + d)
    spread = 1.2 / np.sqrt(d)
    result = {f"W_{role}": random.normal(0, spread, (d, d)) for role in ROLES}
    biases = {f"b_{role}": random.normal(0, 0.7, d) for role in ROLES}
    result |= biases if kind == "biased" else {name: np.zeros(d) for name in biases}
    if kind == "dropout":
        result["W_q"] = result["W_k"] = np.zeros((d, d))
        result["W_v"] = np.full((d, d), 1 / d)
        result["W_o"] = np.eye(d)
    return {name: torch.tensor(value, dtype=torch.float32) for name, value in result.items()}


def flat_weights(d: int, kind: WeightSet) -> torch.Tensor:
    """All probe weights in one vector, in the order of `offsets`."""
    return torch.cat([value.flatten() for value in weights(d, kind).values()])


def offsets(d: int) -> dict[str, int]:
    """Where each weight begins in the flat vector: four matrices, then four biases."""
    sizes = {f"W_{role}": d * d for role in ROLES} | {f"b_{role}": d for role in ROLES}
    starts, start = {}, 0
    for name, size in sizes.items():
        starts[name] = start
        start += size
    return starts


# ------------------------------------------------------------------------ cases for the four classes


@dataclass(frozen=True)
class Case:
    """One run of a module. inputs: x, or q, k and v. mask: True or non-zero = may look.

    group: "formula", "sizes", "property", "mask", "large" or "low" (scores), "large mask", "empty rows": what a failure
    here speaks of.
    tolerance: absolute, on outputs of order 1.
    """

    id: str
    group: str
    d: int
    h: int
    inputs: tuple[torch.Tensor, ...]
    mask: torch.Tensor | None = None
    weights: WeightSet = "plain"
    tolerance: float = 1e-5


CLASSES = ("SelfAttentionV1", "SelfAttentionV2", "SelfAttentionV3", "MultiHeadAttention")
MASKED = ("SelfAttentionV3", "MultiHeadAttention")


def _tokens(seed: int, *shape: int) -> torch.Tensor:
    return torch.tensor(np.random.RandomState(seed).normal(0, 1, shape), dtype=torch.float32)


def _keep(seed: int, *shape: int) -> torch.Tensor:
    """A random mask; every row keeps at least one key and hides at least one."""
    random = np.random.RandomState(seed)
    keep = random.rand(*shape) < 0.55
    columns = random.randint(0, shape[-1], shape[:-1])
    np.put_along_axis(keep, columns[..., None], True, axis=-1)
    np.put_along_axis(keep, ((columns + 1) % shape[-1])[..., None], False, axis=-1)
    return torch.tensor(keep)


def _keep_one(seed: int, *shape: int) -> torch.Tensor:
    """A random mask with one visible key in every row: nothing lower can hide behind a second one."""
    columns = np.random.RandomState(seed).randint(0, shape[-1], shape[:-1])
    return torch.tensor(columns)[..., None] == torch.arange(shape[-1])


@lru_cache
def _with_low_scores(lengths: tuple[int, int], h: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Queries and keys, (2, L, 24), whose scores all lie around -400 with the plain weights.

    Softmax does not care about a shift, but a fill of -100 is then the highest score of all.
    """
    plain = {name: value.double() for name, value in weights(24, "plain").items()}
    d_k = 24 // h
    heads = [plain["W_q"][i * d_k : (i + 1) * d_k].T @ plain["W_k"][i * d_k : (i + 1) * d_k] for i in range(h)]
    if h == 1:  # one tensor for queries and keys: the direction in which a token likes itself least
        values, vectors = torch.linalg.eigh((heads[0] + heads[0].T) / 2)
        size = (400 * d_k**0.5 / -values[0]).sqrt()
        tokens = size * vectors[:, 0] + 0.1 * _tokens(71, 2, lengths[0], 24)
        return tokens.float(), tokens.float()
    query = _tokens(72, 24).double()
    rows = torch.stack([query @ head for head in heads])  # (h, 24)
    key = torch.linalg.pinv(rows) @ torch.full((h,), -400 * d_k**0.5, dtype=torch.double)
    size = (key.norm() / query.norm()).sqrt()
    queries = query * size + 0.1 * _tokens(73, 2, lengths[0], 24)
    keys = key / size + 0.1 * _tokens(74, 2, lengths[1], 24)
    return queries.float(), keys.float()


def _padding(lengths: tuple[int, ...], longest: int) -> torch.Tensor:
    return torch.arange(longest) < torch.tensor(lengths)[:, None]  # (B, longest)


def _each_token_changed(x: torch.Tensor) -> torch.Tensor:
    """(1, L, d) → (1 + L, L, d): sample 0 is x, sample 1 + j has token j changed."""
    length, d = x.shape[1:]
    batch = x.repeat(1 + length, 1, 1)
    for j in range(length):
        batch[1 + j, j] += _tokens(700 + j, d)
    return batch


@lru_cache
def class_cases(exercise: str) -> tuple[Case, ...]:
    """The cases of one of the four classes, in the order in which they are run."""
    return _cross_cases() if exercise == "MultiHeadAttention" else _self_cases(masked=exercise in MASKED)


def _self_cases(masked: bool) -> tuple[Case, ...]:
    x = _tokens(1, 2, 5, 24)
    other = x.clone()
    other[1] = _tokens(2, 5, 24)
    order = torch.tensor([3, 0, 4, 1, 2])
    cases = [
        Case("main", "formula", 24, 1, (x,)),
        Case("small", "formula", 4, 1, (_tokens(3, 1, 2, 4),)),
        Case("biased", "formula", 24, 1, (x,), weights="biased"),
        Case("other sizes", "sizes", 10, 1, (_tokens(4, 3, 7, 10),)),
        Case("one token", "sizes", 24, 1, (_tokens(5, 1, 1, 24),)),
        Case("longer", "sizes", 24, 1, (_tokens(6, 2, 11, 24),)),
        Case("long", "sizes", 24, 1, (_tokens(9, 1, 140, 24),)),
        Case("four samples", "sizes", 24, 1, (_tokens(15, 4, 6, 24),)),
        Case("as many samples as tokens", "sizes", 24, 1, (_tokens(7, 5, 5, 24),)),
        Case("not contiguous", "sizes", 24, 1, (_tokens(8, 5, 2, 24).transpose(0, 1),)),
        Case("large scores", "large", 24, 1, (10 * x,), tolerance=2e-3),
        Case("many samples", "sizes", 24, 1, (_tokens(10, 9, 3, 24),)),
        Case("equal tokens", "property", 24, 1, (x[:, :1].repeat(1, 5, 1),)),
        Case("one of the equal tokens", "property", 24, 1, (x[:, :1],)),
        Case("other sample changed", "property", 24, 1, (other,)),
        Case("tokens permuted", "property", 24, 1, (x[:, order],)),
    ]
    if masked:
        causal = torch.ones(5, 5, dtype=torch.bool).tril()
        random = _keep(21, 2, 5, 5)
        empty = random.clone()
        empty[0, 2] = empty[1, 0] = False
        square = _padding((2, 5, 3, 1, 4), 5)
        cases += [
            Case("causal mask", "mask", 24, 1, (x,), causal),
            Case("random mask", "mask", 24, 1, (x,), random),
            Case("padding mask", "mask", 24, 1, (x,), _padding((3, 4), 5)[:, None]),
            Case(
                "small mask",
                "mask",
                4,
                1,
                (_tokens(3, 1, 2, 4),),
                torch.tensor([[True, False], [True, True]]),
            ),
            Case("int64 mask", "mask", 24, 1, (x,), _keep(23, 2, 5, 5).long()),
            Case("uint8 mask", "mask", 24, 1, (x,), _keep(24, 2, 5, 5).to(torch.uint8)),
            Case("float mask", "mask", 24, 1, (x,), _keep(25, 2, 5, 5).float()),
            Case("keep-all mask", "mask", 24, 1, (x,), torch.ones(5, 5, dtype=torch.bool)),
            Case("int32 mask", "mask", 24, 1, (x,), _keep(28, 2, 5, 5).int()),
            Case("one mask for all samples", "mask", 24, 1, (x,), random[:1]),
            Case("first sample without padding", "mask", 24, 1, (x,), _padding((5, 3), 5)[:, None]),
            Case("mask, one sample", "mask", 24, 1, (x[:1],), _padding((3,), 5)[:, None]),
            Case("mask, one entry", "mask", 24, 1, (x,), torch.ones(1, 1, dtype=torch.bool)),
            Case("2-D mask, as many samples as tokens", "mask", 24, 1, (_tokens(7, 5, 5, 24),), _keep(29, 5, 5)),
            Case("mask, as many samples as tokens", "mask", 24, 1, (_tokens(7, 5, 5, 24),), square[:, None]),
            Case("mask, other sizes", "mask", 10, 1, (_tokens(4, 3, 7, 10),), _keep(22, 3, 7, 7)),
            Case("mask, one token", "mask", 24, 1, (_tokens(5, 1, 1, 24),), torch.ones(1, 1, dtype=torch.bool)),
            Case("mask, large scores", "large mask", 24, 1, (10 * x,), _keep_one(26, 2, 5, 5), tolerance=2e-3),
            Case("mask, low scores", "low", 24, 1, _with_low_scores((5, 5), 1)[:1], _keep(27, 2, 5, 5), tolerance=1e-2),
            Case("empty rows", "empty rows", 24, 1, (x,), empty),
            Case("dependency map", "mask", 24, 1, (_each_token_changed(x[:1]),), causal),
        ]
    return tuple(cases)


def _cross_cases() -> tuple[Case, ...]:
    q, k, v = _tokens(11, 2, 5, 24), _tokens(12, 2, 7, 24), _tokens(13, 2, 7, 24)
    x = _tokens(14, 2, 5, 24)
    other_k, other_v = k.clone(), v.clone()
    other_k[1], other_v[1] = _tokens(15, 7, 24), _tokens(16, 7, 24)
    order = torch.tensor([3, 0, 6, 4, 1, 5, 2])
    causal = torch.ones(5, 5, dtype=torch.bool).tril()
    random = _keep(31, 2, 1, 5, 7)
    per_head = _keep(32, 2, 4, 5, 7)
    padding = _padding((3, 6), 7)[:, None, None]  # (B, 1, 1, L_k)
    empty = random.clone()
    empty[0, 0, 2] = empty[1, 0, 0] = False
    four = tuple(_tokens(seed, 4, length, 24) for seed, length in ((17, 5), (18, 7), (19, 7)))
    changed_k, changed_v = _each_token_changed(k[:1]), _each_token_changed(v[:1])
    small = (_tokens(41, 1, 2, 4), _tokens(42, 1, 3, 4), _tokens(43, 1, 3, 4))
    return (
        Case("main", "formula", 24, 4, (q, k, v)),
        Case("small", "formula", 4, 2, small),
        Case("self", "formula", 24, 4, (x, x, x)),
        Case("biased", "formula", 24, 4, (q, k, v), weights="biased"),
        Case("other sizes", "sizes", 10, 2, (_tokens(51, 3, 4, 10), _tokens(52, 3, 9, 10), _tokens(53, 3, 9, 10))),
        Case("one head", "sizes", 6, 1, (_tokens(54, 2, 3, 6), _tokens(55, 2, 4, 6), _tokens(56, 2, 4, 6))),
        Case("d_k = 1", "sizes", 3, 3, (_tokens(57, 3, 2, 3), _tokens(58, 3, 4, 3), _tokens(59, 3, 4, 3))),
        Case("one query", "sizes", 24, 4, (q[:1, :1], k[:1], v[:1])),
        Case("one key", "sizes", 24, 4, (q[:1], k[:1, :1], v[:1, :1])),
        Case("twice as many keys", "sizes", 24, 4, (q, _tokens(60, 2, 10, 24), _tokens(61, 2, 10, 24))),
        Case("long", "sizes", 24, 4, (_tokens(64, 1, 140, 24), _tokens(65, 1, 133, 24), _tokens(66, 1, 133, 24))),
        Case("four samples", "sizes", 24, 4, (_tokens(78, 4, 6, 24),) * 3),
        Case("more queries than keys", "sizes", 24, 4, (_tokens(62, 2, 8, 24), k, v)),
        Case("not contiguous", "sizes", 24, 4, tuple(t.mT.contiguous().mT for t in (q, k, v))),
        Case("large scores", "large", 24, 4, (10 * q, 10 * k, 10 * v), tolerance=2e-3),
        Case("many samples", "sizes", 24, 4, (_tokens(67, 9, 3, 24), _tokens(68, 9, 4, 24), _tokens(69, 9, 4, 24))),
        Case("self, longer", "sizes", 24, 4, (_tokens(70, 2, 9, 24),) * 3),
        Case("eight heads", "sizes", 16, 8, (_tokens(75, 2, 3, 16), _tokens(76, 2, 5, 16), _tokens(77, 2, 5, 16))),
        Case("equal tokens", "property", 24, 4, (q, k, v[:, :1].repeat(1, 7, 1))),
        Case("one of the equal tokens", "property", 24, 4, (q, k[:, :1], v[:, :1])),
        Case("other sample changed", "property", 24, 4, (q, other_k, other_v)),
        Case("tokens permuted", "property", 24, 4, (q, k[:, order], v[:, order])),
        Case("causal mask", "mask", 24, 4, (x, x, x), causal),
        Case("random mask", "mask", 24, 4, (q, k, v), random),
        Case("padding mask", "mask", 24, 4, (q, k, v), padding),
        Case("mask per head", "mask", 24, 4, (q, k, v), per_head),
        Case("small mask", "mask", 4, 2, small, torch.tensor([[True, False, True], [False, True, True]])),
        Case("2-D mask", "mask", 24, 4, (q, k, v), random[0, 0]),
        Case("3-D mask", "mask", 24, 4, (q, k, v), random[0]),
        Case("int64 mask", "mask", 24, 4, (q, k, v), _keep(35, 2, 1, 5, 7).long()),
        Case("uint8 mask", "mask", 24, 4, (q, k, v), _keep(36, 2, 1, 5, 7).to(torch.uint8)),
        Case("float mask", "mask", 24, 4, (q, k, v), _keep(37, 2, 1, 5, 7).float()),
        Case("int32 mask", "mask", 24, 4, (q, k, v), _keep(40, 2, 1, 5, 7).int()),
        Case("first sample without padding", "mask", 24, 4, (q, k, v), _padding((7, 4), 7)[:, None, None]),
        Case("mask, one sample", "mask", 24, 4, (q[:1], k[:1], v[:1]), _padding((3,), 7)[:, None, None]),
        Case("per head, for all samples", "mask", 24, 4, (q, k, v), _keep(43, 1, 4, 5, 7)),
        Case("2-D mask, as many samples as tokens", "mask", 24, 4, (_tokens(63, 5, 5, 24),) * 3, _keep(44, 5, 5)),
        Case("keep-all mask", "mask", 24, 4, (q, k, v), torch.ones(5, 7, dtype=torch.bool)),
        Case("mask, as many samples as heads", "mask", 24, 4, four, _padding((2, 7, 3, 5), 7)[:, None, None]),
        Case("mask, as many samples as tokens", "mask", 24, 4, (_tokens(63, 5, 5, 24),) * 3, _keep(33, 5, 1, 5, 5)),
        Case("mask, other sizes", "mask", 10, 2, (_tokens(51, 3, 4, 10), _tokens(52, 3, 9, 10), _tokens(53, 3, 9, 10)),
             _keep(34, 3, 1, 4, 9)),
        Case("mask, one query", "mask", 24, 4, (q[:1, :1], k[:1], v[:1]), padding[:1]),
        Case("mask, one entry", "mask", 24, 4, (q, k, v), torch.ones(1, 1, dtype=torch.bool)),
        Case("mask, large scores", "large mask", 24, 4, (10 * q, 10 * k, 10 * v), _keep_one(38, 2, 1, 5, 7),
             tolerance=2e-3),
        Case("mask, low scores", "low", 24, 4, (*_with_low_scores((5, 7), 4), v), _keep(39, 2, 1, 5, 7),
             tolerance=1e-2),
        Case("empty rows", "empty rows", 24, 4, (q, k, v), empty),
        Case("dependency map", "mask", 24, 4, (q[:1].repeat(8, 1, 1), changed_k, changed_v),
             torch.ones(5, 7, dtype=torch.bool).tril(1)),
    )  # fmt: skip


# ------------------------------------------------------------------- dropout, notes, odd constructions

DROPOUT_RATE = 0.5
OTHER_DROPOUT_RATES = (0.2, 0.8)

# Run in train mode at a dropout rate of 0, where the outputs must be those of eval mode.
TRAIN_CASES = (
    "main", "self", "other sizes", "large scores", "causal mask", "random mask", "padding mask", "mask per head",
    "2-D mask", "3-D mask", "int64 mask", "keep-all mask", "one mask for all samples",
)  # fmt: skip


def dropout_inputs(exercise: str, samples: int, length: int) -> tuple[torch.Tensor, ...]:
    """Tokens of ones: with the "dropout" weights every value is 1, and an output shows which weights were dropped."""
    ones = torch.ones(samples, length, 24)
    return (ones, ones, ones) if exercise == "MultiHeadAttention" else (ones,)


# ---------------------------------------------------------------------------- calls of the functions


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
        layer.weight.copy_(_tokens(seed, outputs, inputs))
        if bias:
            layer.bias.copy_(_tokens(seed + 1, outputs))
    return layer


class FourLinears(nn.Module):
    """The layers of a multi-head attention without its forward pass."""

    def __init__(self, d_model: int, h: int, bias: bool = True):
        super().__init__()
        self.h, self.d_model, self.d_k = h, d_model, d_model // h
        self.wq, self.wk, self.wv, self.wo = (_linear(900 + 10 * i, d_model, d_model, bias) for i in range(4))


def _rows(seed: int, *shape: int) -> torch.Tensor:
    return _tokens(seed, *shape).softmax(dim=-1)


def _given(*arguments: Any) -> Callable[[], tuple[Any, ...]]:
    return lambda: arguments


def _scores_and_mask(*shape: int, mask: tuple[int, ...], dtype: torch.dtype = torch.bool) -> tuple[torch.Tensor, ...]:
    return _tokens(200, *shape), _keep(201, *mask).to(dtype)


def _with_empty_row() -> tuple[torch.Tensor, torch.Tensor]:
    mask = _keep(201, 5, 7)
    mask[2] = False
    return _tokens(200, 2, 5, 7), mask


def _all_visible_and_large() -> tuple[torch.Tensor, torch.Tensor]:
    return 100 * _tokens(200, 2, 5, 7), torch.ones(5, 7, dtype=torch.bool)


def _one_visible_and_large() -> tuple[torch.Tensor, torch.Tensor]:
    return 100 * _tokens(200, 2, 5, 7), _keep_one(202, 2, 5, 7)


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
        Call("low scores", lambda: (_tokens(203, *shape) - 400, _keep(201, *shape)), "low", tolerance=1e-3),
        Call("all visible, large scores", _all_visible_and_large, "large", tolerance=1e-3),
        Call(
            "large scores", lambda: (100 * _tokens(200, *shape), _keep_one(202, *shape)), "large mask", tolerance=1e-3
        ),
        Call("empty row", _with_empty_row, "empty rows"),
    ]


def _layers(d: int, bias: bool) -> tuple[nn.Linear, ...]:
    return tuple(_linear(300 + 10 * i, d, d, bias) for i in range(3))


def _heads(d_model: int, d_k: int, h: int, bias: bool) -> tuple[list[tuple[nn.Linear, ...]]]:
    return ([tuple(_linear(400 + 10 * i + 100 * j, d_model, d_k, bias) for i in range(3)) for j in range(h)],)


def _attention_call(B: int, L_q: int, L_k: int, d: int, h: int, masked: bool) -> tuple[Any, ...]:
    mask = (_keep(502, L_q, L_k),) if masked else ()
    return (
        FourLinears(d, h),
        _tokens(503, B, L_q, d) / 4,
        _tokens(504, B, L_k, d) / 4,
        _tokens(505, B, L_k, d),
        *mask,
    )


FUNCTION_CALLS: dict[str, tuple[Call, ...]] = {
    "weighted_average": (
        Call("main", lambda: (_rows(101, 3, 5), _tokens(102, 5, 4)), gradients=True),
        Call("square", lambda: (_rows(103, 4, 4), _tokens(104, 4, 4)), "sizes"),
        Call("one", lambda: (_rows(105, 1, 1), _tokens(106, 1, 6)), "sizes"),
        Call("wide", lambda: (_rows(107, 2, 7), _tokens(108, 7, 3)), "sizes"),
    ),
    "attention_scores": (
        Call("main", lambda: (_tokens(111, 2, 5, 6), _tokens(112, 2, 7, 6)), gradients=True),
        Call("by hand", lambda: (torch.tensor([[1.0, 2.0, 0.0, 1.0]]), torch.tensor([[3.0, 1.0, 2.0, -1.0]])), "sizes"),
        Call("2-D", lambda: (_tokens(113, 5, 6), _tokens(114, 7, 6)), "sizes"),
        Call("4-D", lambda: (_tokens(115, 2, 3, 5, 6), _tokens(116, 2, 3, 7, 6)), "sizes"),
        Call("square", lambda: (_tokens(117, 4, 4, 4), _tokens(118, 4, 4, 4)), "sizes"),
        Call("d = 1", lambda: (_tokens(119, 2, 3, 1), _tokens(120, 2, 4, 1)), "sizes"),
        Call("not contiguous", lambda: (_tokens(121, 5, 2, 6).transpose(0, 1), _tokens(122, 7, 2, 6).transpose(0, 1)),
             "sizes"),
    ),
    "softmax": (
        Call("main", lambda: (2 * _tokens(131, 2, 5, 7),), gradients=True),
        Call("by hand", lambda: (torch.tensor([[0.0, 1.0, 2.0], [3.0, 3.0, 3.0]]),), "sizes"),
        Call("square", lambda: (_tokens(132, 4, 4, 4),), "sizes"),
        Call("4-D", lambda: (_tokens(133, 2, 3, 4, 5),), "sizes"),
        Call("one key", lambda: (_tokens(134, 2, 3, 1),), "sizes"),
        Call("+1000", lambda: (_tokens(135, 3, 4) + 1000,), "large", tolerance=1e-3),
        Call("-1000", lambda: (_tokens(136, 3, 4) - 1000,), "large", tolerance=1e-3),
        Call("±1000", lambda: (torch.tensor([[1000.0, -1000.0, 999.0], [-1000.0, -1001.0, 0.0]]),), "large",
             tolerance=1e-3),
        Call("rows far apart", lambda: (_tokens(137, 3, 4) + torch.tensor([[-1000.0], [0.0], [1000.0]]),), "large",
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
        Call("main", lambda: (_tokens(151, 2, 5, 24), 4), gradients=True),
        Call("by hand", lambda: (torch.arange(12.0).reshape(1, 3, 4), 2), "sizes"),
        Call("other sizes", lambda: (_tokens(152, 3, 7, 10), 2), "sizes"),
        Call("one head", lambda: (_tokens(153, 2, 3, 6), 1), "sizes"),
        Call("d_k = 1", lambda: (_tokens(154, 2, 3, 6), 6), "sizes"),
        Call("as many heads as tokens", lambda: (_tokens(155, 2, 4, 24), 4), "sizes"),
        Call("one token", lambda: (_tokens(156, 1, 1, 8), 2), "sizes"),
        Call("not contiguous", lambda: (_tokens(157, 5, 2, 24).transpose(0, 1), 4), "sizes"),
    ),
    "merge_heads": (
        Call("main", lambda: (_tokens(161, 2, 4, 5, 6),), gradients=True),
        Call("by hand", lambda: (torch.arange(12.0).reshape(1, 2, 3, 2),), "sizes"),
        Call("other sizes", lambda: (_tokens(162, 3, 2, 7, 5),), "sizes"),
        Call("one head", lambda: (_tokens(163, 2, 1, 3, 6),), "sizes"),
        Call("as many heads as tokens", lambda: (_tokens(164, 2, 4, 4, 6),), "sizes"),
        Call("one token", lambda: (_tokens(165, 1, 3, 1, 4),), "sizes"),
        Call("not contiguous", lambda: (_tokens(166, 2, 5, 4, 6).transpose(1, 2),), "sizes"),
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

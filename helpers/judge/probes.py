"""The inputs and weights on which the four classes are run: seeded, of unequal sizes.

A draw says where the random numbers come from. The published draw is the one that a learner's own checks use, and none
of it is secret; a private one differs in all that could be learned by heart.

Sizes differ from each other on purpose: B = 2, h = 4, L_q = 5, d_k = 6, L_k = 7, d = 24. Equal sizes hide mistakes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

import numpy as np
import torch

ROLES = ("q", "k", "v", "o")  # query, key, value and output projection
WeightSet = Literal["plain", "biased", "dropout"]


# ------------------------------------------------------------------------------------------- what is random


@dataclass(frozen=True)
class Draw:
    """Where the random numbers of the probes come from. Every probe asks with a number of its own.

    seed: None for the published probes, which stay the same for ever; else a whole number from 0 on, for private ones.
    Raises ValueError for a negative seed.
    """

    seed: int | None = None

    def __post_init__(self) -> None:
        if self.seed is not None and self.seed < 0:
            raise ValueError(f"A seed is a whole number from 0 on, not {self.seed}.")

    def random(self, number: int) -> np.random.RandomState:
        """The generator for one probe: the same for one draw and one number, whatever was drawn before."""
        if self.seed is None:
            return np.random.RandomState(number)
        return np.random.RandomState(np.random.SeedSequence([self.seed, number]).generate_state(8))

    def tokens(self, number: int, *shape: int) -> torch.Tensor:
        """Random tokens, mean 0 and variance 1."""
        return torch.tensor(self.random(number).normal(0, 1, shape), dtype=torch.float32)

    def keep(self, number: int, *shape: int) -> torch.Tensor:
        """A random mask; every row keeps at least one key and hides at least one."""
        random = self.random(number)
        mask = random.rand(*shape) < 0.55
        columns = random.randint(0, shape[-1], shape[:-1])
        np.put_along_axis(mask, columns[..., None], True, axis=-1)
        np.put_along_axis(mask, ((columns + 1) % shape[-1])[..., None], False, axis=-1)
        return torch.tensor(mask)

    def keep_one(self, number: int, *shape: int) -> torch.Tensor:
        """A random mask with one visible key in every row: nothing lower can hide behind a second one."""
        columns = self.random(number).randint(0, shape[-1], shape[:-1])
        return torch.tensor(columns)[..., None] == torch.arange(shape[-1])

    def size(self, number: int, published: int, others: Sequence[int]) -> int:
        """A whole number: the published one, or in a private draw one of the others."""
        return published if self.seed is None else int(self.random(number).choice(others))

    def near(self, number: int, published: torch.Tensor) -> torch.Tensor:
        """The published numbers, or in a private draw numbers around them."""
        return published.clone() if self.seed is None else published + self.tokens(number, *published.shape)

    def weights(self, d: int, kind: WeightSet) -> dict[str, torch.Tensor]:
        """The probe weights of width d by role: W_q … W_o (d, d) as (out, in), b_q … b_o (d,).

        plain:    weights that give logits of order 1, no biases.
        biased:   the same weights, with biases.
        dropout:  the values are the mean of the features; queries and keys are 0; the output projection is the
        identity.
        """
        return _weights(self, d, kind)

    def flat_weights(self, d: int, kind: WeightSet) -> torch.Tensor:
        """All probe weights in one vector, in the order of `offsets`. To be read, not written."""
        return _flat_weights(self, d, kind)


PUBLISHED = Draw()


@lru_cache
def _weights(draw: Draw, d: int, kind: WeightSet) -> dict[str, torch.Tensor]:
    random = draw.random(1000 + d)
    spread = 1.2 / np.sqrt(d)
    result = {f"W_{role}": random.normal(0, spread, (d, d)) for role in ROLES}
    biases = {f"b_{role}": random.normal(0, 0.7, d) for role in ROLES}
    result |= biases if kind == "biased" else {name: np.zeros(d) for name in biases}
    if kind == "dropout":
        result["W_q"] = result["W_k"] = np.zeros((d, d))
        result["W_v"] = np.full((d, d), 1 / d)
        result["W_o"] = np.eye(d)
    return {name: torch.tensor(value, dtype=torch.float32) for name, value in result.items()}


@lru_cache
def _flat_weights(draw: Draw, d: int, kind: WeightSet) -> torch.Tensor:
    return torch.cat([value.flatten() for value in _weights(draw, d, kind).values()])


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


@lru_cache
def _with_low_scores(draw: Draw, lengths: tuple[int, int], h: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Queries and keys, (2, L, 24), whose scores all lie around -400 with the plain weights.

    Softmax does not care about a shift, but a fill of -100 is then the highest score of all.
    """
    plain = {name: value.double() for name, value in draw.weights(24, "plain").items()}
    d_k = 24 // h
    heads = [plain["W_q"][i * d_k : (i + 1) * d_k].T @ plain["W_k"][i * d_k : (i + 1) * d_k] for i in range(h)]
    if h == 1:  # one tensor for queries and keys: the direction in which a token likes itself least
        values, vectors = torch.linalg.eigh((heads[0] + heads[0].T) / 2)
        size = (400 * d_k**0.5 / -values[0]).sqrt()
        both = size * vectors[:, 0] + 0.1 * draw.tokens(71, 2, lengths[0], 24)
        return both.float(), both.float()
    query = draw.tokens(72, 24).double()
    rows = torch.stack([query @ head for head in heads])  # (h, 24)
    key = torch.linalg.pinv(rows) @ torch.full((h,), -400 * d_k**0.5, dtype=torch.double)
    size = (key.norm() / query.norm()).sqrt()
    queries = query * size + 0.1 * draw.tokens(73, 2, lengths[0], 24)
    keys = key / size + 0.1 * draw.tokens(74, 2, lengths[1], 24)
    return queries.float(), keys.float()


def _table(rows: str) -> torch.Tensor:
    """A mask written out, since its formula is an answer of the course: "10 11" → [[True, False], [True, True]]."""
    return torch.tensor([[mark == "1" for mark in row] for row in rows.split()])


CAUSAL = _table("10000 11000 11100 11110 11111")  # (5, 5)
_TWO_AHEAD = _table("1100000 1110000 1111000 1111100 1111110")  # (5, 7)


def _each_token_changed(draw: Draw, x: torch.Tensor) -> torch.Tensor:
    """(1, L, d) → (1 + L, L, d): sample 0 is x, sample 1 + j has token j changed."""
    length, d = x.shape[1:]
    batch = x.repeat(1 + length, 1, 1)
    for j in range(length):
        batch[1 + j, j] += draw.tokens(700 + j, d)
    return batch


@lru_cache
def class_cases(exercise: str, draw: Draw = PUBLISHED) -> tuple[Case, ...]:
    """The cases of one of the four classes, in the order in which they are run."""
    return _cross_cases(draw) if exercise == "MultiHeadAttention" else _self_cases(draw, exercise in MASKED)


def _self_cases(draw: Draw, masked: bool) -> tuple[Case, ...]:
    tokens, keep, keep_one = draw.tokens, draw.keep, draw.keep_one
    x = tokens(1, 2, 5, 24)
    other = x.clone()
    other[1] = tokens(2, 5, 24)
    order = torch.tensor([3, 0, 4, 1, 2])
    cases = [
        Case("main", "formula", 24, 1, (x,)),
        Case("small", "formula", 4, 1, (tokens(3, 1, 2, 4),)),
        Case("biased", "formula", 24, 1, (x,), weights="biased"),
        Case("other sizes", "sizes", 10, 1, (tokens(4, 3, 7, 10),)),
        Case("one token", "sizes", 24, 1, (tokens(5, 1, 1, 24),)),
        Case("longer", "sizes", 24, 1, (tokens(6, 2, 11, 24),)),
        Case("long", "sizes", 24, 1, (tokens(9, 1, 140, 24),)),
        Case("four samples", "sizes", 24, 1, (tokens(15, 4, 6, 24),)),
        Case("as many samples as tokens", "sizes", 24, 1, (tokens(7, 5, 5, 24),)),
        Case("not contiguous", "sizes", 24, 1, (tokens(8, 5, 2, 24).transpose(0, 1),)),
        Case("large scores", "large", 24, 1, (10 * x,), tolerance=2e-3),
        Case("many samples", "sizes", 24, 1, (tokens(10, 9, 3, 24),)),
        Case("equal tokens", "property", 24, 1, (x[:, :1].repeat(1, 5, 1),)),
        Case("one of the equal tokens", "property", 24, 1, (x[:, :1],)),
        Case("other sample changed", "property", 24, 1, (other,)),
        Case("tokens permuted", "property", 24, 1, (x[:, order],)),
    ]
    if masked:
        causal = CAUSAL
        random = keep(21, 2, 5, 5)
        empty = random.clone()
        empty[0, 2] = empty[1, 0] = False
        square = _table("11000 11111 11100 10000 11110")
        low, _ = _with_low_scores(draw, (5, 5), 1)
        cases += [
            Case("causal mask", "mask", 24, 1, (x,), causal),
            Case("random mask", "mask", 24, 1, (x,), random),
            Case("padding mask", "mask", 24, 1, (x,), _table("11100 11110")[:, None]),
            Case(
                "small mask",
                "mask",
                4,
                1,
                (tokens(3, 1, 2, 4),),
                torch.tensor([[True, False], [True, True]]),
            ),
            Case("int64 mask", "mask", 24, 1, (x,), keep(23, 2, 5, 5).long()),
            Case("uint8 mask", "mask", 24, 1, (x,), keep(24, 2, 5, 5).to(torch.uint8)),
            Case("float mask", "mask", 24, 1, (x,), keep(25, 2, 5, 5).float()),
            Case("keep-all mask", "mask", 24, 1, (x,), torch.ones(5, 5, dtype=torch.bool)),
            Case("int32 mask", "mask", 24, 1, (x,), keep(28, 2, 5, 5).int()),
            Case("one mask for all samples", "mask", 24, 1, (x,), random[:1]),
            Case("first sample without padding", "mask", 24, 1, (x,), _table("11111 11100")[:, None]),
            Case("mask, one sample", "mask", 24, 1, (x[:1],), _table("11100")[:, None]),
            Case("mask, one entry", "mask", 24, 1, (x,), torch.ones(1, 1, dtype=torch.bool)),
            Case("2-D mask, as many samples as tokens", "mask", 24, 1, (tokens(7, 5, 5, 24),), keep(29, 5, 5)),
            Case("mask, as many samples as tokens", "mask", 24, 1, (tokens(7, 5, 5, 24),), square[:, None]),
            Case("mask, other sizes", "mask", 10, 1, (tokens(4, 3, 7, 10),), keep(22, 3, 7, 7)),
            Case("mask, one token", "mask", 24, 1, (tokens(5, 1, 1, 24),), torch.ones(1, 1, dtype=torch.bool)),
            Case("mask, large scores", "large mask", 24, 1, (10 * x,), keep_one(26, 2, 5, 5), tolerance=2e-3),
            Case("mask, low scores", "low", 24, 1, (low,), keep(27, 2, 5, 5), tolerance=1e-2),
            Case("empty rows", "empty rows", 24, 1, (x,), empty),
            Case("dependency map", "mask", 24, 1, (_each_token_changed(draw, x[:1]),), causal),
        ]
    return tuple(cases)


def _cross_cases(draw: Draw) -> tuple[Case, ...]:
    tokens, keep, keep_one = draw.tokens, draw.keep, draw.keep_one
    q, k, v = tokens(11, 2, 5, 24), tokens(12, 2, 7, 24), tokens(13, 2, 7, 24)
    x = tokens(14, 2, 5, 24)
    other_k, other_v = k.clone(), v.clone()
    other_k[1], other_v[1] = tokens(15, 7, 24), tokens(16, 7, 24)
    order = torch.tensor([3, 0, 6, 4, 1, 5, 2])
    causal = CAUSAL
    random = keep(31, 2, 1, 5, 7)
    per_head = keep(32, 2, 4, 5, 7)
    padding = _table("1110000 1111110")[:, None, None]  # (B, 1, 1, L_k)
    empty = random.clone()
    empty[0, 0, 2] = empty[1, 0, 0] = False
    four = tuple(tokens(seed, 4, length, 24) for seed, length in ((17, 5), (18, 7), (19, 7)))
    changed_k, changed_v = _each_token_changed(draw, k[:1]), _each_token_changed(draw, v[:1])
    small = (tokens(41, 1, 2, 4), tokens(42, 1, 3, 4), tokens(43, 1, 3, 4))
    return (
        Case("main", "formula", 24, 4, (q, k, v)),
        Case("small", "formula", 4, 2, small),
        Case("self", "formula", 24, 4, (x, x, x)),
        Case("biased", "formula", 24, 4, (q, k, v), weights="biased"),
        Case("other sizes", "sizes", 10, 2, (tokens(51, 3, 4, 10), tokens(52, 3, 9, 10), tokens(53, 3, 9, 10))),
        Case("one head", "sizes", 6, 1, (tokens(54, 2, 3, 6), tokens(55, 2, 4, 6), tokens(56, 2, 4, 6))),
        Case("d_k = 1", "sizes", 3, 3, (tokens(57, 3, 2, 3), tokens(58, 3, 4, 3), tokens(59, 3, 4, 3))),
        Case("one query", "sizes", 24, 4, (q[:1, :1], k[:1], v[:1])),
        Case("one key", "sizes", 24, 4, (q[:1], k[:1, :1], v[:1, :1])),
        Case("twice as many keys", "sizes", 24, 4, (q, tokens(60, 2, 10, 24), tokens(61, 2, 10, 24))),
        Case("long", "sizes", 24, 4, (tokens(64, 1, 140, 24), tokens(65, 1, 133, 24), tokens(66, 1, 133, 24))),
        Case("four samples", "sizes", 24, 4, (tokens(78, 4, 6, 24),) * 3),
        Case("more queries than keys", "sizes", 24, 4, (tokens(62, 2, 8, 24), k, v)),
        Case("not contiguous", "sizes", 24, 4, tuple(t.mT.contiguous().mT for t in (q, k, v))),
        Case("large scores", "large", 24, 4, (10 * q, 10 * k, 10 * v), tolerance=2e-3),
        Case("many samples", "sizes", 24, 4, (tokens(67, 9, 3, 24), tokens(68, 9, 4, 24), tokens(69, 9, 4, 24))),
        Case("self, longer", "sizes", 24, 4, (tokens(70, 2, 9, 24),) * 3),
        Case("eight heads", "sizes", 40, 8, (tokens(75, 2, 3, 40), tokens(76, 2, 5, 40), tokens(77, 2, 5, 40))),
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
        Case("int64 mask", "mask", 24, 4, (q, k, v), keep(35, 2, 1, 5, 7).long()),
        Case("uint8 mask", "mask", 24, 4, (q, k, v), keep(36, 2, 1, 5, 7).to(torch.uint8)),
        Case("float mask", "mask", 24, 4, (q, k, v), keep(37, 2, 1, 5, 7).float()),
        Case("int32 mask", "mask", 24, 4, (q, k, v), keep(40, 2, 1, 5, 7).int()),
        Case("first sample without padding", "mask", 24, 4, (q, k, v), _table("1111111 1111000")[:, None, None]),
        Case("mask, one sample", "mask", 24, 4, (q[:1], k[:1], v[:1]), _table("1110000")[:, None, None]),
        Case("per head, for all samples", "mask", 24, 4, (q, k, v), keep(43, 1, 4, 5, 7)),
        Case("2-D mask, as many samples as tokens", "mask", 24, 4, (tokens(63, 5, 5, 24),) * 3, keep(44, 5, 5)),
        Case("keep-all mask", "mask", 24, 4, (q, k, v), torch.ones(5, 7, dtype=torch.bool)),
        Case("mask, as many samples as heads", "mask", 24, 4, four,
             _table("1100000 1111111 1110000 1111100")[:, None, None]),
        Case("mask, as many samples as tokens", "mask", 24, 4, (tokens(63, 5, 5, 24),) * 3, keep(33, 5, 1, 5, 5)),
        Case("mask, other sizes", "mask", 10, 2, (tokens(51, 3, 4, 10), tokens(52, 3, 9, 10), tokens(53, 3, 9, 10)),
             keep(34, 3, 1, 4, 9)),
        Case("mask, one query", "mask", 24, 4, (q[:1, :1], k[:1], v[:1]), padding[:1]),
        Case("mask, one entry", "mask", 24, 4, (q, k, v), torch.ones(1, 1, dtype=torch.bool)),
        Case("mask, large scores", "large mask", 24, 4, (10 * q, 10 * k, 10 * v), keep_one(38, 2, 1, 5, 7),
             tolerance=2e-3),
        Case("mask, low scores", "low", 24, 4, (*_with_low_scores(draw, (5, 7), 4), v), keep(39, 2, 1, 5, 7),
             tolerance=1e-2),
        Case("empty rows", "empty rows", 24, 4, (q, k, v), empty),
        Case("dependency map", "mask", 24, 4, (q[:1].repeat(8, 1, 1), changed_k, changed_v),
             _TWO_AHEAD),
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

"""Small training runs: a layer that learns to turn letters around, and what is left of a gradient after many layers."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

from helpers import demo

LETTERS = "ABCDEFGHIJ"
LENGTH = 8
D_MODEL = 32
H = 2
BATCH = 64
LEARNING_RATE = 1e-3
CHANCE = math.log(len(LETTERS))  # the loss of a model that can only guess

Build = Callable[[int, int], nn.Module]
Progress = Callable[[int, int, str], None]


@dataclass(frozen=True, eq=False)
class Lesson:
    """What a training run left behind.

    losses: one number per step; accuracy: share of right letters on 256 fresh sequences, 0 to 1.
    letters, answer: one fresh sequence and what the trained model makes of it.
    before, after: (heads, L, L), the attention weights on that sequence.
    """

    losses: tuple[float, ...]
    accuracy: float
    letters: tuple[str, ...]
    answer: tuple[str, ...]
    before: torch.Tensor
    after: torch.Tensor


class Reverser(nn.Module):
    """Letters → embeddings + positions → one attention layer → letters. No residual, no second layer."""

    def __init__(self, build: Build):
        super().__init__()
        self.letters = nn.Embedding(len(LETTERS), D_MODEL)
        self.positions = nn.Parameter(torch.randn(LENGTH, D_MODEL))
        self.attention = build(D_MODEL, H)
        self.read_out = nn.Linear(D_MODEL, len(LETTERS))

    def embed(self, ids: torch.Tensor) -> torch.Tensor:
        return self.letters(ids) + self.positions  # (B, L) → (B, L, d_model)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        x = self.embed(ids)  # (B, L, d_model)
        result = self.attention(x, x, x)
        context = result[0] if isinstance(result, tuple) else result  # (B, L, d_model)
        return self.read_out(context)  # (B, L, letters)


def learn_to_reverse(build: Build, *, steps: int = 400, seed: int = 0, progress: Progress | None = None) -> Lesson:
    """Train one attention layer to turn sequences of 8 letters around.

    build: build(d_model, h) gives a module, so the class `MultiHeadAttention` itself will do;
        module(q, k, v) maps 3 × (B, L, d_model) to (B, L, d_model), alone or first in a tuple.
    progress: called as progress(step, steps, sentence) ten times in a run.
    The same seed gives the same run on the same machine; the global random state is left as it was.
    raises: ValueError when steps is below 1, or when no attention weights are seen inside the module.
    """
    if steps < 1:
        raise ValueError(f"steps is {steps}; a training run needs at least 1.")
    draw = torch.Generator().manual_seed(seed)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = Reverser(build)
        sample = torch.randint(len(LETTERS), (1, LENGTH), generator=draw)  # (1, L)
        before = _weights(model, sample)
        losses = _train(model, steps, draw, progress)
        after = _weights(model, sample)
    fresh = torch.randint(len(LETTERS), (256, LENGTH), generator=draw)  # (256, L)
    with torch.no_grad():
        accuracy = (model(fresh).argmax(-1) == fresh.flip(1)).double().mean().item()
        answer = model(sample).argmax(-1)[0]  # (L,)
    return Lesson(tuple(losses), accuracy, _spell(sample[0]), _spell(answer), before, after)


def print_progress(done: int, total: int, sentence: str) -> None:
    """A line of progress for a notebook cell."""
    print(f"{done:4} of {total}   {sentence}")


def gradient_by_depth(
    fill: Callable[[torch.Tensor], object], depths: Sequence[int], *, residual: bool = False, seed: int = 0
) -> list[float]:
    """How much gradient is left at the input of a stack of attention layers, against what comes in at its output.

    fill: fills a weight (d_model, d_model) in place; every layer's wq, wk, wv and wo go through it.
    residual: each layer adds its input to its output, as in a Transformer block without its norm.
    returns: for each depth the norm of the gradient of x, divided by that of the gradient at the output
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return [_gradient_left(fill, depth, residual) for depth in depths]


def _gradient_left(fill: Callable[[torch.Tensor], object], depth: int, residual: bool) -> float:
    y = x = torch.randn(4, 16, 64, requires_grad=True)  # (B, L, d_model)
    for _ in range(depth):
        layer = nn.MultiheadAttention(64, 4, batch_first=True)
        for weight in (*layer.in_proj_weight.chunk(3), layer.out_proj.weight):
            fill(weight)
        y = layer(y, y, y, need_weights=False)[0] + (y if residual else 0)  # (B, L, d_model)
    upstream = torch.randn_like(y)
    (gradient,) = torch.autograd.grad(y, x, upstream)
    return (gradient.norm() / upstream.norm()).item()


def reach(build: Build, *, length: int = LENGTH, seed: int = 0) -> torch.Tensor:
    """Which tokens can move which outputs of a fresh layer, told by the gradient.

    returns: (L, L) bool; row i, column j is True when token j moves output i
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        layer = build(D_MODEL, H)
        x = torch.randn(1, length, D_MODEL, requires_grad=True)
        result = layer(x, x, x)
    output = result[0] if isinstance(result, tuple) else result  # (1, L, d_model)
    rows = [torch.autograd.grad(output[0, i].sum(), x, retain_graph=True)[0] for i in range(length)]
    return torch.stack([row[0].abs().sum(-1) > 0 for row in rows])  # (L, L)


def _train(model: Reverser, steps: int, draw: torch.Generator, progress: Progress | None) -> list[float]:
    optimizer = torch.optim.Adam(model.parameters(), lr=LEARNING_RATE)
    losses = []
    model.train()
    for step in range(1, steps + 1):
        ids = torch.randint(len(LETTERS), (BATCH, LENGTH), generator=draw)  # (B, L)
        predicted = model(ids)  # (B, L, letters)
        loss = F.cross_entropy(predicted.flatten(0, 1), ids.flip(1).flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        if progress and step % max(1, steps // 10) == 0:
            progress(step, steps, f"loss {losses[-1]:.3f}")
    model.eval()
    return losses


def _weights(model: Reverser, sample: torch.Tensor) -> torch.Tensor:
    with torch.no_grad():
        x = model.embed(sample)  # (1, L, d_model)
        result = model.attention(x, x, x)
    if isinstance(result, tuple):  # (output, weights), as nn.MultiheadAttention hands them back
        return result[1].reshape(-1, LENGTH, LENGTH)  # (heads, L, L)
    return demo.watch_weights(model.attention, x, x, x).reshape(-1, LENGTH, LENGTH)  # (heads, L, L)


def _spell(ids: torch.Tensor) -> tuple[str, ...]:
    return tuple(LETTERS[i] for i in ids.tolist())


class LibraryAttention(nn.MultiheadAttention):
    """nn.MultiheadAttention, batch first, with the weights of every head: a right layer to show."""

    def __init__(self, d_model: int, h: int):
        super().__init__(d_model, h, batch_first=True)

    def forward(self, *inputs: Any, **options: Any) -> tuple[torch.Tensor, torch.Tensor | None]:
        return super().forward(*inputs, **{"average_attn_weights": False, **options})


class _WrongLayer(nn.Module):
    """A multi-head layer whose heads are cut or joined wrongly on purpose."""

    def __init__(self, d_model: int, h: int):
        super().__init__()
        self.h = h
        self.out = nn.Linear(d_model, d_model)

    def cut(self, stream: int, x: torch.Tensor) -> torch.Tensor:
        """One of queries, keys and values. (B, L, d_model) → (B, h, L, d_k)"""
        raise NotImplementedError

    def forward(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        q, k, v = (self.cut(stream, x) for stream, x in enumerate((q, k, v)))  # (B, h, L, d_k)
        context = demo.attention_weights(q, k) @ v  # (B, h, L, d_k)
        return self.out(context.reshape(len(q), -1, self.out.in_features))  # joined without moving the heads back


class HeadsCutByView(_WrongLayer):
    """Wrong on purpose: heads are cut by view alone, so a head gets some tokens, not some features."""

    def __init__(self, d_model: int, h: int):
        super().__init__(d_model, h)
        self.streams = nn.ModuleList(nn.Linear(d_model, d_model) for _ in range(3))

    def cut(self, stream: int, x: torch.Tensor) -> torch.Tensor:
        return self.streams[stream](x).view(len(x), self.h, x.shape[1], -1)  # tokens mixed up


class HeadsJoinedByView(_WrongLayer):
    """Wrong on purpose: each head has its own small layers, and the heads are joined by view alone."""

    def __init__(self, d_model: int, h: int):
        super().__init__(d_model, h)
        self.small = nn.ModuleList(nn.Linear(d_model, d_model // h) for _ in range(3 * h))  # h for each stream

    def cut(self, stream: int, x: torch.Tensor) -> torch.Tensor:
        layers = self.small[stream * self.h : (stream + 1) * self.h]
        return torch.stack([layer(x) for layer in layers], dim=1)  # h × (B, L, d_k) → (B, h, L, d_k)

"""Attention cut into steps, so that a mistake can replace exactly one of them. Tests prove that the whole is right."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import nn

from solutions.mistakes import Variant


class Attention(nn.Module):
    """The plain formula in steps. Shapes are those of the single head; heads add an axis: (B, h, L, d_k)."""

    h = 1

    def forward_from(self, x_q: torch.Tensor, x_k: torch.Tensor, x_v: torch.Tensor, mask: Any) -> torch.Tensor:
        q, k, v = self.project(x_q, x_k, x_v)  # (B, L_q, d), (B, L_k, d), (B, L_k, d)
        q, k, v = self.split(q), self.split(k), self.split(v)  # (B, h, L, d_k)
        scores = self.scale(self.scores(q, k))  # (B, h, L_q, L_k)
        keep = None if mask is None else self.read_mask(mask, scores)
        if keep is not None:
            scores = self.hide(scores, keep)
        weights = self.normalise(scores)  # (B, h, L_q, L_k)
        if keep is not None:
            weights = self.after_softmax(weights, keep)
        context = self.gather(self.drop(weights), v)  # (B, h, L_q, d_k)
        return self.output(self.merge(context))  # (B, L_q, d)

    def project(self, x_q: torch.Tensor, x_k: torch.Tensor, x_v: torch.Tensor) -> tuple[torch.Tensor, ...]:
        raise NotImplementedError

    def split(self, x: torch.Tensor) -> torch.Tensor:
        return x

    def scores(self, q: torch.Tensor, k: torch.Tensor) -> torch.Tensor:
        return q @ k.transpose(-2, -1)

    def scale(self, scores: torch.Tensor) -> torch.Tensor:
        return scores / math.sqrt(self.d_k)

    def read_mask(self, mask: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        return mask != 0  # True = may look

    def hide(self, scores: torch.Tensor, keep: torch.Tensor) -> torch.Tensor:
        return scores.masked_fill(~keep, float("-inf"))

    def normalise(self, scores: torch.Tensor) -> torch.Tensor:
        return scores.softmax(dim=-1)

    def after_softmax(self, weights: torch.Tensor, keep: torch.Tensor) -> torch.Tensor:
        return weights

    def drop(self, weights: torch.Tensor) -> torch.Tensor:
        return weights

    def gather(self, weights: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        return weights @ v

    def merge(self, x: torch.Tensor) -> torch.Tensor:
        return x

    def output(self, x: torch.Tensor) -> torch.Tensor:
        return x


class StagesV1(Attention):
    def __init__(self, hidden_dim: int = 768):
        super().__init__()
        self.d = self.d_k = hidden_dim
        self.query_proj = nn.Linear(hidden_dim, hidden_dim)
        self.key_proj = nn.Linear(hidden_dim, hidden_dim)
        self.value_proj = nn.Linear(hidden_dim, hidden_dim)

    def layers(self) -> tuple[nn.Linear, ...]:
        return self.query_proj, self.key_proj, self.value_proj

    def project(self, x_q: torch.Tensor, x_k: torch.Tensor, x_v: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return self.query_proj(x_q), self.key_proj(x_k), self.value_proj(x_v)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.forward_from(x, x, x, None)


class StagesV2(Attention):
    def __init__(self, hidden_dim: int):
        super().__init__()
        self.d = self.d_k = hidden_dim
        self.proj = nn.Linear(hidden_dim, 3 * hidden_dim)

    def project(self, x_q: torch.Tensor, x_k: torch.Tensor, x_v: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return self.proj(x_q).chunk(3, dim=-1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.forward_from(x, x, x, None)


class StagesV3(StagesV2):
    def __init__(self, hidden_dim: int, dropout_rate: float = 0.1):
        super().__init__(hidden_dim)
        self.rate = dropout_rate
        self.attention_dropout = nn.Dropout(dropout_rate)
        self.output_proj = nn.Linear(hidden_dim, hidden_dim)

    def drop(self, weights: torch.Tensor) -> torch.Tensor:
        return self.attention_dropout(weights)

    def output(self, x: torch.Tensor) -> torch.Tensor:
        return self.output_proj(x)

    def forward(self, x: torch.Tensor, attention_mask: torch.Tensor | None = None) -> torch.Tensor:
        return self.forward_from(x, x, x, attention_mask)


class StagesMultiHead(Attention):
    def __init__(self, d_model: int, h: int):
        super().__init__()
        self.check_widths(d_model, h)
        self.d, self.h, self.d_k = d_model, h, d_model // h
        self.wq = nn.Linear(d_model, d_model)
        self.wk = nn.Linear(d_model, d_model)
        self.wv = nn.Linear(d_model, d_model)
        self.wo = nn.Linear(d_model, d_model)

    def check_widths(self, d_model: int, h: int) -> None:
        if d_model % h:
            raise ValueError("h must divide d_model")

    def layers(self) -> tuple[nn.Linear, ...]:
        return self.wq, self.wk, self.wv

    def project(self, x_q: torch.Tensor, x_k: torch.Tensor, x_v: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return self.wq(x_q), self.wk(x_k), self.wv(x_v)

    def split(self, x: torch.Tensor) -> torch.Tensor:
        return x.view(x.shape[0], x.shape[1], self.h, self.d_k).transpose(1, 2)

    def merge(self, x: torch.Tensor) -> torch.Tensor:
        return x.transpose(1, 2).flatten(-2)

    def output(self, x: torch.Tensor) -> torch.Tensor:
        return self.wo(x)

    def forward(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, mask: Any = None) -> torch.Tensor:
        return self.forward_from(q, k, v, mask)


STAGES: dict[str, type[Attention]] = {
    "SelfAttentionV1": StagesV1,
    "SelfAttentionV2": StagesV2,
    "SelfAttentionV3": StagesV3,
    "MultiHeadAttention": StagesMultiHead,
}


def build(exercise: str, *variants: Variant) -> type[Attention]:
    """The class of one exercise with the steps of the given mistakes put in."""
    steps: dict[str, Any] = {}
    for variant in variants:
        steps |= variant.steps
    return type(exercise, (STAGES[exercise],), steps)

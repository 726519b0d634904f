"""Stage 1, three linears: softmax(QKᵀ / √d) V, written out step by step."""

import math

import torch
from torch import nn


def attention_scores(q: torch.Tensor, k: torch.Tensor) -> torch.Tensor:
    """Compare every query with every key: scaled dot products.

    q: (..., L_q, d)
    k: (..., L_k, d)
    returns: (..., L_q, L_k)
    """
    d = q.shape[-1]
    return q @ k.transpose(-2, -1) / math.sqrt(d)  # (..., L_q, d) @ (..., d, L_k) → (..., L_q, L_k)


def softmax(scores: torch.Tensor) -> torch.Tensor:
    """Turn each row of scores into weights that sum to 1. Stays finite for scores of ±1000.

    scores: (..., L_q, L_k)
    returns: (..., L_q, L_k)
    """
    shifted = scores - scores.max(dim=-1, keepdim=True).values  # the largest score becomes 0: exp cannot overflow
    exponentials = shifted.exp()
    return exponentials / exponentials.sum(dim=-1, keepdim=True)


class SelfAttentionV1(nn.Module):
    """Single-head self-attention with three separate projections.

    forward(x): (B, L, hidden_dim) → (B, L, hidden_dim)
    """

    def __init__(self, hidden_dim: int = 768):
        super().__init__()
        self.hidden_dim = hidden_dim
        self.query_proj = nn.Linear(hidden_dim, hidden_dim)
        self.key_proj = nn.Linear(hidden_dim, hidden_dim)
        self.value_proj = nn.Linear(hidden_dim, hidden_dim)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q = self.query_proj(x)  # (B, L, hidden_dim)
        k = self.key_proj(x)  # (B, L, hidden_dim)
        v = self.value_proj(x)  # (B, L, hidden_dim)
        scores = q @ k.transpose(-2, -1) / math.sqrt(self.hidden_dim)  # (B, L, L)
        weights = scores.softmax(dim=-1)  # (B, L, L), rows sum to 1
        return weights @ v  # (B, L, L) @ (B, L, hidden_dim) → (B, L, hidden_dim)


def attention_parameters(hidden_dim: int, bias: bool = True) -> int:
    """Count the parameters of `SelfAttentionV1(hidden_dim)`, with or without biases.

    returns: a whole number
    """
    per_layer = hidden_dim * hidden_dim + (hidden_dim if bias else 0)
    return 3 * per_layer


def dot_product_std(d: int) -> float:
    """Standard deviation of q·k when all 2d entries of q and k are independent, with mean 0 and variance 1.

    returns: a number
    """
    return math.sqrt(d)  # a sum of d products, each of variance 1: the variances add up to d

"""Stage 3: mask, dropout on the weights, output projection."""

import math

import torch
from torch import nn


def causal_mask(length: int) -> torch.Tensor:
    """Who may look at whom when nobody may look ahead: True = may look, the diagonal included.

    returns: (L, L), bool; rows are queries, columns are keys
    """
    return torch.ones(length, length, dtype=torch.bool).tril()  # (L, L)


def padding_mask(lengths: torch.Tensor, max_length: int) -> torch.Tensor:
    """Which keys are real tokens: True = a real token, False = padding at the end.

    lengths: (B,), whole numbers: how many real tokens each sample has
    returns: (B, 1, max_length), bool
    """
    positions = torch.arange(max_length, device=lengths.device)  # (max_length,)
    real = positions < lengths.unsqueeze(1)  # (max_length,) < (B, 1) → (B, max_length)
    return real.unsqueeze(1)  # (B, 1, max_length)


def masked_softmax(scores: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """Softmax over the keys that the mask lets through; hidden keys get weight 0.

    scores: (..., L_q, L_k)
    mask:   broadcasts to scores; bool, 0/1 integers or 0/1 floats; True or non-zero = may look
    returns: (..., L_q, L_k)
    """
    return scores.masked_fill(mask == 0, float("-inf")).softmax(dim=-1)  # (..., L_q, L_k)


def inverted_dropout(weights: torch.Tensor, dropout_rate: float, training: bool = True) -> torch.Tensor:
    """Set each weight to 0 with probability `dropout_rate`; scale the others so that the mean is kept.

    weights: any shape
    returns: the same shape; unchanged when `training` is False
    """
    if not training:
        return weights
    keep = torch.rand_like(weights) >= dropout_rate
    return weights * keep / (1 - dropout_rate)


class SelfAttentionV3(nn.Module):
    """Single-head self-attention with a mask, dropout on the weights and an output projection.

    forward(x, attention_mask=None): (B, L, hidden_dim) → (B, L, hidden_dim)
    attention_mask: broadcasts to (B, L, L); bool, 0/1 integers or 0/1 floats; True or non-zero = may look
    """

    def __init__(self, hidden_dim: int, dropout_rate: float = 0.1):
        super().__init__()
        self.hidden_dim = hidden_dim
        self.proj = nn.Linear(hidden_dim, 3 * hidden_dim)
        self.attention_dropout = nn.Dropout(dropout_rate)
        self.output_proj = nn.Linear(hidden_dim, hidden_dim)

    def forward(self, x: torch.Tensor, attention_mask: torch.Tensor | None = None) -> torch.Tensor:
        q, k, v = self.proj(x).chunk(3, dim=-1)  # (B, L, 3 * hidden_dim) → 3 × (B, L, hidden_dim)
        scores = q @ k.transpose(-2, -1) / math.sqrt(self.hidden_dim)  # (B, L, L)
        if attention_mask is not None:
            scores = scores.masked_fill(attention_mask == 0, float("-inf"))  # (B, L, L)
        weights = self.attention_dropout(scores.softmax(dim=-1))  # (B, L, L)
        return self.output_proj(weights @ v)  # (B, L, hidden_dim)


def repaired_weights(scores: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """The tutorial's masked weights, with its bug repaired: hidden keys get weight 0.

    scores: (..., L_q, L_k)
    mask:   broadcasts to scores; 0 = hidden, 1 = may look
    returns: (..., L_q, L_k)
    """
    scores = scores.masked_fill(mask == 0, float("-inf"))  # the tutorial wrote 1e-20: almost 0, and exp(0) is 1
    return torch.softmax(scores, dim=-1)

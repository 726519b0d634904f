"""Stage 2, one fused projection: the three matmuls of stage 1 become one."""

import math

import torch
from torch import nn


def fuse_projections(query_proj: nn.Linear, key_proj: nn.Linear, value_proj: nn.Linear) -> nn.Linear:
    """Build one linear layer whose output is [q, k, v], side by side on the last axis.

    query_proj, key_proj, value_proj: (..., d) → (..., d); all three have a bias, or none has
    returns: a new nn.Linear, (..., d) → (..., 3d), with its own copy of the weights
    """
    d = query_proj.in_features
    layers = (query_proj, key_proj, value_proj)
    fused = nn.Linear(d, 3 * d, bias=query_proj.bias is not None)
    with torch.no_grad():
        fused.weight.copy_(torch.cat([layer.weight for layer in layers]))  # 3 × (d, d) → (3d, d)
        if fused.bias is not None:
            fused.bias.copy_(torch.cat([layer.bias for layer in layers]))  # 3 × (d,) → (3d,)
    return fused


class SelfAttentionV2(nn.Module):
    """Single-head self-attention with one fused projection, split into q, k, v in that order.

    forward(x): (B, L, hidden_dim) → (B, L, hidden_dim)
    """

    def __init__(self, hidden_dim: int):
        super().__init__()
        self.hidden_dim = hidden_dim
        self.proj = nn.Linear(hidden_dim, 3 * hidden_dim)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = self.proj(x).chunk(3, dim=-1)  # (B, L, 3 * hidden_dim) → 3 × (B, L, hidden_dim)
        scores = q @ k.transpose(-2, -1) / math.sqrt(self.hidden_dim)  # (B, L, L)
        weights = scores.softmax(dim=-1)  # (B, L, L)
        return weights @ v  # (B, L, hidden_dim)


def fused_xavier_ratio() -> float:
    """Xavier-uniform on one (3d, d) matrix, against Xavier-uniform on a (d, d) matrix.

    returns: the standard deviation of the first divided by that of the second
    """
    # The variance is 2 / (fan_in + fan_out): 2 / 4d for the fused matrix, 2 / 2d for a separate one.
    return math.sqrt(1 / 2)

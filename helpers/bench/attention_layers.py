"""One attention layer driven in five ways that share their weights: what the missing table compares.

All five stand on PyTorch's own attention. In the first three it takes its steps one by one and writes the scores to
memory; in the last two it may use its fused kernels.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext

import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.attention import SDPBackend, sdpa_kernel

LOOP, FOUR, FUSED = "one layer per head", "four linears", "one fused linear"
SDPA, LIBRARY, YOURS = "F.scaled_dot_product_attention", "nn.MultiheadAttention", "your MultiHeadAttention"

Build = Callable[[int, int], nn.Module]


def layers(d_model: int, h: int, *, seed: int = 0, yours: Build | None = None) -> dict[str, nn.Module]:
    """The five layers, and the learner's if given, with copies of the same weights.

    returns: label → module; each module maps (B, L, d_model) to (B, L, d_model)
    raises: ValueError when the learner's module lacks one of wq, wk, wv, wo
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        source = nn.MultiheadAttention(d_model, h, batch_first=True)
        nn.init.uniform_(source.in_proj_bias, -0.1, 0.1)  # PyTorch starts with zeros, which would hide a mistake
        nn.init.uniform_(source.out_proj.bias, -0.1, 0.1)
        kinds = {LOOP: _Loop, FOUR: _Four, FUSED: _Fused, SDPA: _Sdpa, LIBRARY: _Library}
        found: dict[str, nn.Module] = {label: kind(source) for label, kind in kinds.items()}
        if yours is not None:
            found[YOURS] = _Yours(yours, source)
    return found


def _step_by_step() -> AbstractContextManager[None]:
    """PyTorch's attention without its fused kernels: it writes the scores to memory."""
    return sdpa_kernel(SDPBackend.MATH)


class _Loop(nn.Module):
    """Three small layers for each head, one head after the other."""

    def __init__(self, source: nn.MultiheadAttention):
        super().__init__()
        self.h = source.num_heads
        sizes = (3, self.h, source.head_dim)  # (q k v, head, row of that head)
        weights, biases = source.in_proj_weight.unflatten(0, sizes), source.in_proj_bias.unflatten(0, sizes)
        heads, streams = range(self.h), range(3)
        self.small = nn.ModuleList(_linear(weights[s, i], biases[s, i]) for i in heads for s in streams)
        self.out = copy.deepcopy(source.out_proj)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        with _step_by_step():
            small = iter(self.small)
            heads = [F.scaled_dot_product_attention(*(next(small)(x) for _ in range(3))) for _ in range(self.h)]
        return self.out(torch.cat(heads, dim=-1))  # h × (B, L, d_k) → (B, L, d_model)


class _Library(nn.Module):
    """PyTorch's layer as it comes: in eval mode without gradients it takes a short cut of its own."""

    def __init__(self, source: nn.MultiheadAttention):
        super().__init__()
        self.layer = copy.deepcopy(source)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layer(x, x, x, need_weights=False)[0]


class _Sdpa(_Library):
    """The same without the short cut: one linear for q, k and v, then F.scaled_dot_product_attention."""

    kernel: Callable[[], AbstractContextManager[None]] = staticmethod(nullcontext)

    def train(self, mode: bool = True) -> _Sdpa:
        """Always in train mode, where there is no short cut; without dropout nothing else differs."""
        return super().train(True)

    def streams(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        return x, x, x

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        with self.kernel():
            return self.layer(*self.streams(x), need_weights=False)[0]


class _Fused(_Sdpa):
    """One linear for q, k and v, and attention step by step."""

    kernel = staticmethod(_step_by_step)


class _Four(_Fused):
    """One linear each for q, k and v: PyTorch does so when it is given three tensors, though they are the same."""

    def streams(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        return x, x.view_as(x), x.view_as(x)


class _Yours(nn.Module):
    """The learner's own class, its wq, wk, wv and wo filled by name."""

    def __init__(self, build: Build, source: nn.MultiheadAttention):
        super().__init__()
        self.layer = build(source.embed_dim, source.num_heads)
        weights = [*source.in_proj_weight.chunk(3), source.out_proj.weight]
        biases = [*source.in_proj_bias.chunk(3), source.out_proj.bias]
        for name, weight, bias in zip(("wq", "wk", "wv", "wo"), weights, biases, strict=True):
            own = getattr(self.layer, name, None)
            if not isinstance(own, nn.Linear) or own.weight.shape != weight.shape or own.bias is None:
                raise ValueError(f"The table needs an nn.Linear named {name}, {tuple(weight.shape)} with bias.")
            own.load_state_dict({"weight": weight, "bias": bias})

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        result = self.layer(x, x, x)
        return result[0] if isinstance(result, tuple) else result


def _linear(weight: torch.Tensor, bias: torch.Tensor) -> nn.Linear:
    """A linear of its own that holds copies of this weight and bias."""
    layer = nn.Linear(weight.shape[1], weight.shape[0])
    layer.load_state_dict({"weight": weight, "bias": bias})
    return layer

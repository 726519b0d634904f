"""One attention layer written in five ways that share their weights: what the missing table compares."""

from __future__ import annotations

import copy
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import nn

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
        packed, out = nn.Linear(d_model, 3 * d_model), nn.Linear(d_model, d_model)
        kinds = {LOOP: _Loop, FOUR: _Four, FUSED: _Fused, SDPA: _Sdpa, LIBRARY: _Library}
        found: dict[str, nn.Module] = {label: kind(packed, out, h) for label, kind in kinds.items()}
        if yours is not None:
            found[YOURS] = _Yours(yours, packed, out, h)
    return found


class _Layer(nn.Module):
    """Each layer copies its weights out of one packed linear (q, k, v) and one for the output."""

    def __init__(self, packed: nn.Linear, out: nn.Linear, h: int):
        super().__init__()
        self.h, self.d_model = h, packed.in_features
        self.out = copy.deepcopy(out)

    def heads_of(self, x: torch.Tensor) -> torch.Tensor:
        return x.unflatten(-1, (self.h, -1)).movedim(-2, 1)  # (B, L, d_model) → (B, h, L, d_k)

    def joined(self, context: torch.Tensor) -> torch.Tensor:
        return self.out(context.movedim(1, -2).flatten(-2))  # (B, h, L, d_k) → (B, L, d_model)


class _Loop(_Layer):
    def __init__(self, packed: nn.Linear, out: nn.Linear, h: int):
        super().__init__(packed, out, h)
        rows = torch.arange(3 * self.d_model).view(3, h, -1)  # (q k v, head, row of that head)
        self.small = nn.ModuleList(_part(packed, rows[stream, i]) for i in range(h) for stream in range(3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        small = iter(self.small)
        heads = [_attend(*(next(small)(x) for _ in range(3))) for _ in range(self.h)]  # h × (B, L, d_k)
        return self.out(torch.cat(heads, dim=-1))  # (B, L, d_model)


class _Four(_Layer):
    def __init__(self, packed: nn.Linear, out: nn.Linear, h: int):
        super().__init__(packed, out, h)
        self.wide = nn.ModuleList(_part(packed, rows) for rows in torch.arange(3 * self.d_model).chunk(3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.joined(_attend(*(self.heads_of(wide(x)) for wide in self.wide)))


class _Fused(_Layer):
    def __init__(self, packed: nn.Linear, out: nn.Linear, h: int):
        super().__init__(packed, out, h)
        self.packed = copy.deepcopy(packed)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.joined(_attend(*map(self.heads_of, self.packed(x).chunk(3, dim=-1))))


class _Sdpa(_Fused):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = map(self.heads_of, self.packed(x).chunk(3, dim=-1))
        return self.joined(F.scaled_dot_product_attention(q, k, v))


class _Library(nn.Module):
    def __init__(self, packed: nn.Linear, out: nn.Linear, h: int):
        super().__init__()
        self.layer = nn.MultiheadAttention(packed.in_features, h, batch_first=True)
        pairs = {"in_proj_": packed, "out_proj.": out}
        self.layer.load_state_dict(
            {prefix + name: p for prefix, of in pairs.items() for name, p in of.named_parameters()}
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layer(x, x, x, need_weights=False)[0]


class _Yours(nn.Module):
    """The learner's own class, its wq, wk, wv and wo filled by name."""

    def __init__(self, build: Build, packed: nn.Linear, out: nn.Linear, h: int):
        super().__init__()
        self.layer = build(packed.in_features, h)
        parts = [_part(packed, rows) for rows in torch.arange(packed.out_features).chunk(3)]
        for name, source in zip(("wq", "wk", "wv", "wo"), (*parts, out), strict=True):
            own = getattr(self.layer, name, None)
            if not isinstance(own, nn.Linear) or own.weight.shape != source.weight.shape or own.bias is None:
                raise ValueError(f"The table needs an nn.Linear named {name}, {tuple(source.weight.shape)} with bias.")
            own.load_state_dict(source.state_dict())

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        result = self.layer(x, x, x)
        return result[0] if isinstance(result, tuple) else result


def _part(source: nn.Linear, rows: torch.Tensor) -> nn.Linear:
    """A linear of its own with some rows of another one."""
    part = nn.Linear(source.in_features, len(rows))
    part.load_state_dict({name: value[rows] for name, value in source.state_dict().items()})
    return part


def _attend(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    """Attention in separate steps, which write the scores to memory; (..., L, d_k) each."""
    return F.softmax(q @ k.mT * q.shape[-1] ** -0.5, dim=-1) @ v

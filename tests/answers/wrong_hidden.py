"""Wrong answers that are right on most inputs: in eval mode, for most masks, without contract names."""

from __future__ import annotations

import math

import torch
from torch import nn
from torch.nn import functional as F

from . import wrong


class _Stage3(nn.Module):
    """A right stage 3 with a hook at every place where these answers go wrong."""

    def __init__(self, hidden_dim, dropout_rate=0.1):
        super().__init__()
        self.rate = dropout_rate
        self.proj = nn.Linear(hidden_dim, 3 * hidden_dim)
        self.attention_dropout = nn.Dropout(dropout_rate)
        self.output_proj = nn.Linear(hidden_dim, hidden_dim)

    def read(self, mask, scores):
        return mask != 0

    def scale(self, scores, d):
        return scores / math.sqrt(d)

    def drop(self, weights, mask):
        return self.attention_dropout(weights)

    def last(self, context):
        return self.output_proj(context)

    def values(self, v):
        return v

    def forward(self, x, attention_mask=None):
        q, k, v = self.proj(x).chunk(3, dim=-1)
        scores = self.scale(q @ k.mT, q.shape[-1])
        if attention_mask is not None:
            scores = scores.masked_fill(~self.read(attention_mask, scores), float("-inf"))
        return self.last(self.drop(scores.softmax(-1), attention_mask) @ self.values(v))


@wrong("SelfAttentionV3")
class NoScaleInTrainMode(_Stage3):
    def scale(self, scores, d):
        return scores if self.training else scores / math.sqrt(d)


@wrong("SelfAttentionV3")
class NoOutputProjectionInTrainMode(_Stage3):
    def last(self, context):
        return context if self.training else self.output_proj(context)


@wrong("SelfAttentionV3", "graph-cut")
class ValuesDetachedInTrainMode(_Stage3):
    def values(self, v):
        return v.detach() if self.training else v


@wrong("SelfAttentionV3")
class MaskSkippedInTrainMode(_Stage3):
    def read(self, mask, scores):
        return torch.ones_like(mask, dtype=torch.bool) if self.training and mask.dim() == 3 else mask != 0


@wrong("SelfAttentionV3")
class RescaledOnlyWithoutMask(_Stage3):
    def drop(self, weights, mask):
        if mask is None or not self.training:
            return self.attention_dropout(weights)
        return weights * (torch.rand_like(weights) >= self.rate)


@wrong("SelfAttentionV3")
class FirstSampleDecides(_Stage3):
    """A mask that hides nothing of the first sample hides nothing at all."""

    def read(self, mask, scores):
        keep = mask != 0
        return torch.ones_like(keep) if keep.dim() > 2 and bool(keep[0].all()) else keep


@wrong("SelfAttentionV3")
class SquareMaskReadAsPadding(_Stage3):
    """A mask of two axes is taken for (B, L) where the sizes allow it."""

    def read(self, mask, scores):
        keep = mask != 0
        return keep[:, None] if keep.dim() == 2 and keep.shape == scores.shape[:2] else keep


@wrong("SelfAttentionV3")
class Int32MasksIgnored(_Stage3):
    def read(self, mask, scores):
        return torch.ones_like(mask, dtype=torch.bool) if mask.dtype == torch.int32 else mask != 0


@wrong("SelfAttentionV3")
class EmptyRowLooksAtKeyZero(_Stage3):
    def read(self, mask, scores):
        keep = (mask != 0).expand(scores.shape).clone()
        keep[..., 0] |= ~keep.any(dim=-1)
        return keep


@wrong("SelfAttentionV3", "dropout-same-every-time")
class DropoutDrawnOncePerShape(_Stage3):
    def drop(self, weights, mask):
        if getattr(self, "kept", None) is None or self.kept.shape != weights.shape:
            self.kept = self.attention_dropout(torch.ones_like(weights))
        return weights * self.kept if self.training else weights


@wrong("SelfAttentionV3")
class RateAtMostOneHalf(_Stage3):
    def drop(self, weights, mask):
        return F.dropout(weights, min(self.rate, 0.5), self.training)


@wrong("SelfAttentionV3", "dropout-always-on")
class DropoutAlwaysOnUnderOtherNames(nn.Module):
    def __init__(self, n_embd, attn_pdrop=0.1):
        super().__init__()
        self.c_attn, self.c_proj, self.p = nn.Linear(n_embd, 3 * n_embd), nn.Linear(n_embd, n_embd), attn_pdrop

    def forward(self, x, mask=None):
        q, k, v = self.c_attn(x).chunk(3, dim=-1)
        scores = q @ k.mT / math.sqrt(q.shape[-1])
        scores = scores if mask is None else scores.masked_fill(mask == 0, float("-inf"))
        return self.c_proj(F.dropout(scores.softmax(-1), self.p) @ v)


@wrong("SelfAttentionV1", "scale-missing")
class NoScaleWithBareMatrices(nn.Module):
    def __init__(self, d=768):
        super().__init__()
        self.Wq, self.Wk, self.Wv = (nn.Parameter(torch.randn(d, d) / d**0.5) for _ in range(3))

    def forward(self, x):
        return (x @ self.Wq @ (x @ self.Wk).mT).softmax(-1) @ (x @ self.Wv)


@wrong("SelfAttentionV1")
class NormsItsInput(nn.Module):
    def __init__(self, hidden_dim=768):
        super().__init__()
        self.norm = nn.LayerNorm(hidden_dim)
        self.query_proj, self.key_proj, self.value_proj = (nn.Linear(hidden_dim, hidden_dim) for _ in range(3))

    def forward(self, x):
        x = self.norm(x)
        q, k, v = self.query_proj(x), self.key_proj(x), self.value_proj(x)
        return (q @ k.mT / math.sqrt(x.shape[-1])).softmax(-1) @ v


@wrong("SelfAttentionV2")
class PairInTrainModeTurnedRound(nn.Module):
    def __init__(self, hidden_dim):
        super().__init__()
        self.proj = nn.Linear(hidden_dim, 3 * hidden_dim)

    def forward(self, x):
        q, k, v = self.proj(x).chunk(3, dim=-1)
        weights = (q @ k.mT / math.sqrt(q.shape[-1])).softmax(-1)
        return (weights, weights @ v) if self.training else weights @ v


@wrong("SelfAttentionV2")
class NoWidthAtAll(nn.Module):
    def __init__(self, hidden_dim):
        super().__init__()
        self.proj = nn.Linear(hidden_dim, 0)

    def forward(self, x):
        return self.proj(x)

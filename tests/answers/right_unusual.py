"""Right answers whose parameters are kept in ways that are hard to recognise."""

from __future__ import annotations

import math

import torch
from torch import nn
from torch.nn import functional as F

from . import right


def heads_of(x, h):
    return x.unflatten(-1, (h, -1)).transpose(1, 2)


def hidden_scores(scores, mask):
    return scores if mask is None else scores.masked_fill(mask == 0, float("-inf"))


def check_widths(d, h):
    if d % h:
        raise ValueError("h must divide d")


@right("SelfAttentionV1", "the only bias is a vector of its own, with a name that tells nothing")
class ShiftedValues(nn.Module):
    def __init__(self, hidden_dim=768):
        super().__init__()
        self.query, self.key, self.value = (nn.Linear(hidden_dim, hidden_dim, bias=False) for _ in range(3))
        self.shift = nn.Parameter(torch.zeros(hidden_dim))

    def forward(self, x):
        q, k, v = self.query(x), self.key(x), self.value(x)
        return (q @ k.mT / math.sqrt(x.shape[-1])).softmax(-1) @ v + self.shift


@right("SelfAttentionV1", "the weights are flat vectors")
class FlatVectors(nn.Module):
    def __init__(self, hidden_dim=768):
        super().__init__()
        self.d = hidden_dim
        self.wq, self.wk, self.wv = (nn.Parameter(torch.randn(hidden_dim**2) / hidden_dim) for _ in range(3))

    def forward(self, x):
        q, k, v = (x @ w.view(self.d, self.d) for w in (self.wq, self.wk, self.wv))
        return (q @ k.mT / math.sqrt(self.d)).softmax(-1) @ v


@right("SelfAttentionV3", "all four weights side by side in one (d, 4d) parameter")
class FourSideBySide(nn.Module):
    def __init__(self, hidden_dim, dropout_rate=0.1):
        super().__init__()
        self.weights = nn.Parameter(torch.randn(hidden_dim, 4 * hidden_dim) / hidden_dim**0.5)
        self.drop = nn.Dropout(dropout_rate)

    def forward(self, x, attention_mask=None):
        to_q, to_k, to_v, to_out = self.weights.chunk(4, dim=1)
        scores = (x @ to_q) @ (x @ to_k).mT / math.sqrt(x.shape[-1])
        return self.drop(hidden_scores(scores, attention_mask).softmax(-1)) @ (x @ to_v) @ to_out


class Conv1D(nn.Module):
    """A linear layer as GPT-2 stores it: (in, out)."""

    def __init__(self, outputs, inputs):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(inputs, outputs) / inputs**0.5)
        self.bias = nn.Parameter(torch.zeros(outputs))

    def forward(self, x):
        return x @ self.weight + self.bias


@right("SelfAttentionV3", "GPT-2's own linear layer, twice")
class LikeGpt2(nn.Module):
    def __init__(self, n_embd, attn_pdrop=0.1):
        super().__init__()
        self.c_attn, self.c_proj = Conv1D(3 * n_embd, n_embd), Conv1D(n_embd, n_embd)
        self.attn_dropout = nn.Dropout(attn_pdrop)

    def forward(self, x, mask=None):
        q, k, v = self.c_attn(x).chunk(3, dim=-1)
        scores = hidden_scores(q @ k.mT / math.sqrt(q.shape[-1]), mask)
        return self.c_proj(self.attn_dropout(scores.softmax(-1)) @ v)


@right("SelfAttentionV3", "raw weights and biases, numbered")
class Numbered(nn.Module):
    def __init__(self, d, p=0.1):
        super().__init__()
        self.w1, self.b1 = nn.Parameter(torch.randn(d, 3 * d) / d**0.5), nn.Parameter(torch.zeros(3 * d))
        self.w2, self.b2 = nn.Parameter(torch.randn(d, d) / d**0.5), nn.Parameter(torch.zeros(d))
        self.p = p

    def forward(self, x, mask=None):
        q, k, v = (x @ self.w1 + self.b1).chunk(3, dim=-1)
        weights = hidden_scores(q @ k.mT / math.sqrt(q.shape[-1]), mask).softmax(-1)
        return F.dropout(weights, self.p, self.training) @ v @ self.w2 + self.b2


@right("MultiHeadAttention", "all four weights and biases in one tensor each")
class OneMatrix(nn.Module):
    def __init__(self, d_model, h):
        super().__init__()
        check_widths(d_model, h)
        self.h = h
        self.W = nn.Parameter(torch.randn(4 * d_model, d_model) / d_model**0.5)
        self.b = nn.Parameter(torch.zeros(4 * d_model))

    def forward(self, q, k, v, mask=None):
        weights, biases = self.W.chunk(4), self.b.chunk(4)
        q, k, v = (heads_of(F.linear(x, weights[i], biases[i]), self.h) for i, x in enumerate((q, k, v)))
        scores = hidden_scores(q @ k.mT / math.sqrt(q.shape[-1]), mask)
        return F.linear((scores.softmax(-1) @ v).transpose(1, 2).flatten(2), weights[3], biases[3])


@right("MultiHeadAttention", "bias-free layers and one output bias named `after`")
class BiasAfterwards(nn.Module):
    def __init__(self, d_model, h):
        super().__init__()
        check_widths(d_model, h)
        self.h = h
        self.wq, self.wk, self.wv, self.wo = (nn.Linear(d_model, d_model, bias=False) for _ in range(4))
        self.after = nn.Parameter(torch.zeros(d_model))

    def forward(self, q, k, v, mask=None):
        q, k, v = (heads_of(layer(x), self.h) for layer, x in ((self.wq, q), (self.wk, k), (self.wv, v)))
        scores = hidden_scores(q @ k.mT / math.sqrt(q.shape[-1]), mask)
        return self.wo((scores.softmax(-1) @ v).transpose(1, 2).flatten(2)) + self.after

"""Right answers to SelfAttentionV3, written in many ways."""

from __future__ import annotations

import math
import warnings

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from . import right

EXERCISE = "SelfAttentionV3"


@right(EXERCISE)
class Split(nn.Module):
    """split by size, matmul, F.softmax."""

    def __init__(self, hidden_dim, dropout_rate=0.1):
        super().__init__()
        self.hidden_dim = hidden_dim
        self.proj = nn.Linear(hidden_dim, hidden_dim * 3)
        self.attention_dropout = nn.Dropout(dropout_rate)
        self.output_proj = nn.Linear(hidden_dim, hidden_dim)

    def forward(self, X, attention_mask=None):
        QKV = self.proj(X)
        Q, K, V = torch.split(QKV, self.hidden_dim, dim=-1)
        scores = torch.matmul(Q, K.transpose(-1, -2)) / math.sqrt(self.hidden_dim)
        if attention_mask is not None:
            scores = scores.masked_fill(attention_mask == 0, float("-inf"))
        weights = F.softmax(scores, dim=-1)
        weights = self.attention_dropout(weights)
        return self.output_proj(torch.matmul(weights, V))


@right(EXERCISE, "-1e9: float16 cannot hold it")
class ThreeLayers(nn.Module):
    """Three projections instead of one; -1e9; output layer created first."""

    def __init__(self, hidden_dim, dropout=0.1):
        super().__init__()
        self.o = nn.Linear(hidden_dim, hidden_dim)
        self.v = nn.Linear(hidden_dim, hidden_dim)
        self.q = nn.Linear(hidden_dim, hidden_dim)
        self.k = nn.Linear(hidden_dim, hidden_dim)
        self.drop = nn.Dropout(dropout)

    def forward(self, x, mask=None):
        q, k, v = self.q(x), self.k(x), self.v(x)
        att = q @ k.transpose(1, 2) / x.shape[-1] ** 0.5
        if mask is not None:
            att = att.masked_fill(mask == 0, -1e9)
        att = self.drop(att.softmax(dim=-1))
        return self.o(att @ v)


@right(EXERCISE)
class FunctionalDropout(nn.Module):
    """F.dropout with the training flag; no biases."""

    def __init__(self, dim: int, p: float = 0.1):
        super().__init__()
        self.p = p
        self.to_qkv = nn.Linear(dim, dim * 3, bias=False)
        self.to_out = nn.Linear(dim, dim, bias=False)
        self.scale = dim**-0.5

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        q, k, v = self.to_qkv(x).chunk(3, dim=-1)
        dots = torch.einsum("bid,bjd->bij", q * self.scale, k)
        if mask is not None:
            dots = torch.where(mask != 0, dots, float("-inf"))
        attn = F.dropout(dots.softmax(-1), p=self.p, training=self.training)
        return self.to_out(torch.einsum("bij,bjd->bid", attn, v))


@right(EXERCISE)
class DropoutByHand(nn.Module):
    """Inverted dropout by hand with bernoulli."""

    def __init__(self, hidden_dim, dropout_rate=0.1):
        super().__init__()
        self.rate = dropout_rate
        self.qkv = nn.Linear(hidden_dim, 3 * hidden_dim)
        self.out = nn.Linear(hidden_dim, hidden_dim)

    def dropout(self, w):
        if not self.training or self.rate == 0:
            return w
        keep = torch.bernoulli(torch.full_like(w, 1 - self.rate))
        return w * keep / (1 - self.rate)

    def forward(self, x, attention_mask=None):
        q, k, v = self.qkv(x).tensor_split(3, dim=-1)
        scores = q.bmm(k.mT) / math.sqrt(x.size(-1))
        if attention_mask is not None:
            scores = scores.masked_fill(~attention_mask.bool(), -torch.inf)
        return self.out(self.dropout(torch.softmax(scores, 2)).bmm(v))


@right(EXERCISE)
class DropoutWithRand(nn.Module):
    """rand and where, with math of its own for the softmax."""

    def __init__(self, hidden_dim, dropout_rate=0.1):
        super().__init__()
        self.dropout_rate = dropout_rate
        self.output_proj = nn.Linear(hidden_dim, hidden_dim)
        self.proj = nn.Linear(hidden_dim, 3 * hidden_dim)

    def forward(self, x, attention_mask=None):
        B, L, d = x.shape
        q, k, v = self.proj(x).view(B, L, 3, d).unbind(2)
        s = q @ k.transpose(-2, -1) / math.sqrt(d)
        keep = torch.ones_like(s, dtype=torch.bool) if attention_mask is None else (attention_mask > 0.5).expand_as(s)
        s = s.masked_fill(~keep, torch.finfo(s.dtype).min)
        e = (s - s.amax(-1, keepdim=True)).exp()
        w = e / e.sum(-1, keepdim=True)
        if self.training:
            w = torch.where(torch.rand_like(w) < self.dropout_rate, 0.0, w / (1 - self.dropout_rate))
        return self.output_proj(w @ v)


@right(EXERCISE)
class SoftmaxAndDropoutInSequence(nn.Module):
    """nn.Sequential(nn.Softmax, nn.Dropout)."""

    def __init__(self, hidden_dim, dropout_rate=0.1):
        super().__init__()
        self.hidden_dim = hidden_dim
        self.proj = nn.Linear(hidden_dim, 3 * hidden_dim)
        self.weigh = nn.Sequential(nn.Softmax(dim=-1), nn.Dropout(dropout_rate))
        self.output_proj = nn.Sequential(nn.Linear(hidden_dim, hidden_dim))

    def forward(self, x, attention_mask=None):
        q, k, v = self.proj(x).chunk(3, -1)
        scores = q @ k.mT * self.hidden_dim**-0.5
        if attention_mask is not None:
            scores = scores.masked_fill(attention_mask.logical_not(), float("-inf"))
        return self.output_proj(self.weigh(scores) @ v)


@right(EXERCISE, "a second dropout on the output, as in GPT-2")
class ResidualDropoutToo(nn.Module):
    """attn_dropout and resid_dropout."""

    def __init__(self, n_embd, dropout=0.1, bias=True):
        super().__init__()
        self.c_attn = nn.Linear(n_embd, 3 * n_embd, bias=bias)
        self.c_proj = nn.Linear(n_embd, n_embd, bias=bias)
        self.attn_dropout = nn.Dropout(dropout)
        self.resid_dropout = nn.Dropout(dropout)
        self.n_embd = n_embd

    def forward(self, x, mask=None):
        q, k, v = self.c_attn(x).split(self.n_embd, dim=2)
        att = (q @ k.transpose(-2, -1)) * (1.0 / math.sqrt(k.size(-1)))
        if mask is not None:
            att = att.masked_fill(mask == 0, float("-inf"))
        att = F.softmax(att, dim=-1)
        att = self.attn_dropout(att)
        return self.resid_dropout(self.c_proj(att @ v))


@right(EXERCISE, "softmax first, then mask and renormalise: fragile when scores are large")
class RenormalisedAfterwards(nn.Module):
    """softmax, zeros, division by what is left, dropout."""

    def __init__(self, hidden_dim, dropout_rate=0.1):
        super().__init__()
        self.q_proj = nn.Linear(hidden_dim, hidden_dim)
        self.k_proj = nn.Linear(hidden_dim, hidden_dim)
        self.v_proj = nn.Linear(hidden_dim, hidden_dim)
        self.o_proj = nn.Linear(hidden_dim, hidden_dim)
        self.dropout = nn.Dropout(dropout_rate)

    def forward(self, x, attention_mask=None):
        q, k, v = self.q_proj(x), self.k_proj(x), self.v_proj(x)
        w = torch.softmax(q @ k.transpose(1, 2) / math.sqrt(q.shape[-1]), dim=-1)
        if attention_mask is not None:
            w = w.masked_fill(attention_mask == 0, 0.0)
            w = w / w.sum(dim=-1, keepdim=True)
        return self.o_proj(self.dropout(w) @ v)


@right(EXERCISE)
class AdditiveInfinity(nn.Module):
    """A bias tensor of 0 and -inf is built from the mask and added."""

    def __init__(self, hidden_dim, dropout_rate=0.1):
        super().__init__()
        self.fused = nn.Linear(hidden_dim, 3 * hidden_dim)
        self.final = nn.Linear(hidden_dim, hidden_dim)
        self.dropout = nn.Dropout(p=dropout_rate)

    @staticmethod
    def to_bias(mask, dtype):
        bias = torch.zeros(mask.shape, dtype=dtype, device=mask.device)
        return bias.masked_fill(mask == 0, float("-inf"))

    def forward(self, x, attention_mask=None):
        q, k, v = self.fused(x).chunk(3, dim=-1)
        logits = q @ k.mT / x.shape[-1] ** 0.5
        if attention_mask is not None:
            logits = logits + self.to_bias(attention_mask, logits.dtype)
        return self.final(self.dropout(logits.softmax(-1)) @ v)


@right(EXERCISE)
class AdditiveLargeNegative(nn.Module):
    """(1 - mask) * -10000, the mask cast first, as in BERT."""

    def __init__(self, hidden_size, attention_probs_dropout_prob=0.1):
        super().__init__()
        self.query = nn.Linear(hidden_size, hidden_size)
        self.key = nn.Linear(hidden_size, hidden_size)
        self.value = nn.Linear(hidden_size, hidden_size)
        self.dense = nn.Linear(hidden_size, hidden_size)
        self.dropout = nn.Dropout(attention_probs_dropout_prob)

    def forward(self, hidden_states, attention_mask=None):
        query_layer = self.query(hidden_states)
        key_layer = self.key(hidden_states)
        value_layer = self.value(hidden_states)
        attention_scores = torch.matmul(query_layer, key_layer.transpose(-1, -2))
        attention_scores = attention_scores / math.sqrt(query_layer.size(-1))
        if attention_mask is not None:
            attention_scores = attention_scores + (1.0 - attention_mask.to(attention_scores.dtype)) * -10000.0
        attention_probs = self.dropout(nn.functional.softmax(attention_scores, dim=-1))
        return self.dense(torch.matmul(attention_probs, value_layer))


@right(EXERCISE)
class LogOfMask(nn.Module):
    """Adds log(mask): 0 where it may look, -inf where not."""

    def __init__(self, d, p=0.1):
        super().__init__()
        self.a = nn.Linear(d, d)  # output
        self.b = nn.Linear(d, 3 * d)  # q, k, v
        self.c = nn.Dropout(p)

    def forward(self, x, m=None):
        q, k, v = self.b(x).chunk(3, 2)
        s = q @ k.mT / q.shape[-1] ** 0.5
        if m is not None:
            s = s + (m != 0).to(s.dtype).log()
        return self.a(self.c(s.softmax(2)) @ v)


@right(EXERCISE)
class ExponentialsTimesMask(nn.Module):
    """exp(scores - max) * mask / sum, with the maximum over the visible keys."""

    def __init__(self, hidden_dim, dropout_rate=0.1):
        super().__init__()
        self.proj = nn.Linear(hidden_dim, 3 * hidden_dim)
        self.attention_dropout = nn.Dropout(dropout_rate)
        self.output_proj = nn.Linear(hidden_dim, hidden_dim)

    def forward(self, x, attention_mask=None):
        q, k, v = self.proj(x).chunk(3, dim=-1)
        s = q @ k.transpose(1, 2) / math.sqrt(x.shape[-1])
        keep = torch.ones_like(s) if attention_mask is None else (attention_mask != 0).to(s.dtype).expand_as(s)
        top = s.masked_fill(keep == 0, torch.finfo(s.dtype).min).max(dim=-1, keepdim=True).values
        e = torch.exp((s - top).clamp(max=0)) * keep
        total = e.sum(dim=-1, keepdim=True)
        w = e / torch.where(total == 0, torch.ones_like(total), total)  # an empty row stays zero
        return self.output_proj(self.attention_dropout(w) @ v)


@right(EXERCISE)
class NanToNumOnWeights(nn.Module):
    """Empty rows become zeros."""

    def __init__(self, hidden_dim, dropout_rate=0.1):
        super().__init__()
        self.proj = nn.Linear(hidden_dim, 3 * hidden_dim)
        self.attention_dropout = nn.Dropout(dropout_rate)
        self.output_proj = nn.Linear(hidden_dim, hidden_dim)

    def forward(self, x, attention_mask=None):
        q, k, v = self.proj(x).chunk(3, dim=-1)
        scores = q @ k.mT / math.sqrt(q.shape[-1])
        if attention_mask is not None:
            scores = scores.masked_fill(attention_mask == 0, float("-inf"))
        weights = scores.softmax(-1).nan_to_num(0.0)
        return self.output_proj(self.attention_dropout(weights) @ v)


@right(EXERCISE, "NaN replaced only at the end: the gradient of an empty row stays NaN")
class NanToNumOnOutput(nn.Module):
    """nan_to_num on the very last tensor."""

    def __init__(self, hidden_dim, dropout_rate=0.1):
        super().__init__()
        self.proj = nn.Linear(hidden_dim, 3 * hidden_dim)
        self.attention_dropout = nn.Dropout(dropout_rate)
        self.output_proj = nn.Linear(hidden_dim, hidden_dim)

    def forward(self, x, attention_mask=None):
        q, k, v = self.proj(x).chunk(3, dim=-1)
        scores = q @ k.mT / math.sqrt(q.shape[-1])
        if attention_mask is not None:
            scores = scores.masked_fill(attention_mask == 0, float("-inf"))
        return torch.nan_to_num(self.output_proj(self.attention_dropout(scores.softmax(-1)) @ v), nan=0.0)


@right(EXERCISE)
class InPlaceOnOwnScores(nn.Module):
    """Scales and masks its own scores in place."""

    def __init__(self, hidden_dim, dropout_rate=0.1):
        super().__init__()
        self.hidden_dim = hidden_dim
        self.proj = nn.Linear(hidden_dim, 3 * hidden_dim)
        self.attention_dropout = nn.Dropout(dropout_rate)
        self.output_proj = nn.Linear(hidden_dim, hidden_dim)

    def forward(self, x, attention_mask=None):
        qkv = self.proj(x)
        q = qkv[..., : self.hidden_dim]
        k = qkv[..., self.hidden_dim : 2 * self.hidden_dim]
        v = qkv[..., 2 * self.hidden_dim :]
        scores = torch.bmm(q, k.transpose(1, 2))
        scores *= 1 / math.sqrt(self.hidden_dim)
        if attention_mask is not None:
            scores.masked_fill_(attention_mask == 0, float("-inf"))
        return self.output_proj(torch.bmm(self.attention_dropout(scores.softmax(-1)), v))


@right(EXERCISE, "fused, in the order k, v, q")
class OrderKVQ(nn.Module):
    """Another block order."""

    def __init__(self, hidden_dim, dropout_rate=0.1):
        super().__init__()
        self.kvq = nn.Linear(hidden_dim, 3 * hidden_dim)
        self.attention_dropout = nn.Dropout(dropout_rate)
        self.output_proj = nn.Linear(hidden_dim, hidden_dim)

    def forward(self, x, attention_mask=None):
        k, v, q = self.kvq(x).chunk(3, dim=-1)
        scores = q @ k.mT / math.sqrt(q.shape[-1])
        if attention_mask is not None:
            scores = scores.masked_fill(attention_mask == 0, float("-inf"))
        return self.output_proj(self.attention_dropout(scores.softmax(-1)) @ v)


@right(EXERCISE, "keys and values fused, queries apart")
class FusedKV(nn.Module):
    """to_q and to_kv; the mask is keyword-only."""

    def __init__(self, dim, dropout_rate=0.1):
        super().__init__()
        self.to_q = nn.Linear(dim, dim)
        self.to_kv = nn.Linear(dim, dim * 2)
        self.dropout = nn.Dropout(dropout_rate)
        self.to_out = nn.Linear(dim, dim)

    def forward(self, x, *, attention_mask=None):
        q = self.to_q(x)
        k, v = self.to_kv(x).chunk(2, dim=-1)
        sim = q @ k.mT * q.shape[-1] ** -0.5
        if attention_mask is not None:
            sim = sim.masked_fill(~(attention_mask != 0), -torch.finfo(sim.dtype).max)
        return self.to_out(self.dropout(sim.softmax(dim=-1)) @ v)


@right(EXERCISE)
class ParametersByHand(nn.Module):
    """(d, 3d) and (d, d) parameters, used as x @ W."""

    def __init__(self, hidden_dim, dropout_rate=0.1):
        super().__init__()
        self.w_in = nn.Parameter(torch.randn(hidden_dim, 3 * hidden_dim) / hidden_dim**0.5)
        self.b_in = nn.Parameter(torch.zeros(3 * hidden_dim))
        self.w_out = nn.Parameter(torch.randn(hidden_dim, hidden_dim) / hidden_dim**0.5)
        self.b_out = nn.Parameter(torch.zeros(hidden_dim))
        self.drop = nn.Dropout(dropout_rate)

    def forward(self, x, attention_mask=None):
        q, k, v = (x @ self.w_in + self.b_in).chunk(3, dim=-1)
        s = q @ k.mT / q.shape[-1] ** 0.5
        if attention_mask is not None:
            s = torch.where(attention_mask.bool(), s, torch.tensor(float("-inf"), dtype=s.dtype))
        return self.drop(s.softmax(-1)) @ v @ self.w_out + self.b_out


@right(EXERCISE, "four weights in one (4, d, d) parameter")
class FourInOne(nn.Module):
    """One (4, d, d) parameter in nn.Linear's orientation, no biases."""

    def __init__(self, hidden_dim, dropout_rate=0.1):
        super().__init__()
        self.weights = nn.Parameter(torch.empty(4, hidden_dim, hidden_dim))
        nn.init.normal_(self.weights, std=hidden_dim**-0.5)
        self.p = dropout_rate

    def forward(self, x, attention_mask=None):
        q, k, v = (F.linear(x, w) for w in self.weights[:3])
        s = torch.einsum("bqd,bkd->bqk", q, k) / math.sqrt(x.shape[-1])
        if attention_mask is not None:
            s = s.masked_fill(attention_mask == 0, -math.inf)
        w = torch.dropout(s.softmax(-1), self.p, self.training)
        return F.linear(w @ v, self.weights[3])


@right(EXERCISE)
class InAModuleDict(nn.Module):
    """Layers and dropout in one ModuleDict."""

    def __init__(self, hidden_dim, dropout_rate=0.1):
        super().__init__()
        self.parts = nn.ModuleDict()
        self.parts["out"] = nn.Linear(hidden_dim, hidden_dim, bias=False)
        for role in ("value", "key", "query"):
            self.parts[role] = nn.Linear(hidden_dim, hidden_dim)
        self.parts["drop"] = nn.Dropout(dropout_rate)

    def forward(self, x, attention_mask=None):
        scores = self.parts["query"](x) @ (self.parts["key"](x) / x.shape[-1] ** 0.5).mT
        if attention_mask is not None:
            scores = scores.masked_fill(attention_mask == 0, float("-inf"))
        weights = self.parts["drop"](torch.softmax(scores, dim=-1))
        return self.parts["out"](weights @ self.parts["value"](x))


@right(EXERCISE, "1x1 convolutions instead of linears")
class Convolutions(nn.Module):
    """Conv1d with kernel 1."""

    def __init__(self, hidden_dim, dropout_rate=0.1):
        super().__init__()
        self.qkv = nn.Conv1d(hidden_dim, 3 * hidden_dim, kernel_size=1)
        self.out = nn.Conv1d(hidden_dim, hidden_dim, kernel_size=1)
        self.dropout = nn.Dropout(dropout_rate)

    def forward(self, x, attention_mask=None):
        q, k, v = self.qkv(x.transpose(1, 2)).chunk(3, dim=1)  # (B, d, L)
        scores = q.transpose(1, 2) @ k / q.shape[1] ** 0.5
        if attention_mask is not None:
            scores = scores.masked_fill(attention_mask == 0, float("-inf"))
        weights = self.dropout(scores.softmax(dim=-1))
        return self.out(v @ weights.transpose(1, 2)).transpose(1, 2)


@right(EXERCISE, "parameters exist only after the first call")
class LazyLayers(nn.Module):
    """LazyLinear."""

    def __init__(self, hidden_dim, dropout_rate=0.1):
        super().__init__()
        self.proj = nn.LazyLinear(3 * hidden_dim)
        self.attention_dropout = nn.Dropout(dropout_rate)
        self.output_proj = nn.LazyLinear(hidden_dim)

    def forward(self, x, attention_mask=None):
        q, k, v = self.proj(x).chunk(3, dim=-1)
        scores = q @ k.mT / math.sqrt(q.shape[-1])
        if attention_mask is not None:
            scores = scores.masked_fill(attention_mask == 0, float("-inf"))
        return self.output_proj(self.attention_dropout(scores.softmax(-1)) @ v)


@right(EXERCISE, "layers exist only after the first call")
class BuiltOnFirstForward(nn.Module):
    """Layers and a default mask are built when they are first needed."""

    def __init__(self, hidden_dim, dropout_rate=0.1):
        super().__init__()
        self.hidden_dim = hidden_dim
        self.drop = nn.Dropout(dropout_rate)

    def forward(self, x, attention_mask=None):
        if not hasattr(self, "fq"):
            self.fq = nn.Linear(self.hidden_dim, self.hidden_dim).to(x)
            self.fk = nn.Linear(self.hidden_dim, self.hidden_dim).to(x)
            self.fv = nn.Linear(self.hidden_dim, self.hidden_dim).to(x)
            self.fo = nn.Linear(self.hidden_dim, self.hidden_dim).to(x)
        scores = self.fq(x) @ self.fk(x).mT / self.hidden_dim**0.5
        if attention_mask is None:
            attention_mask = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool, device=x.device)
        scores = scores.masked_fill(attention_mask == 0, float("-inf"))
        return self.fo(self.drop(scores.softmax(-1)) @ self.fv(x))


@right(EXERCISE)
class LoopOverSamples(nn.Module):
    """One sample at a time, the mask expanded first."""

    def __init__(self, hidden_dim, dropout_rate=0.1):
        super().__init__()
        self.proj = nn.Linear(hidden_dim, 3 * hidden_dim)
        self.attention_dropout = nn.Dropout(dropout_rate)
        self.output_proj = nn.Linear(hidden_dim, hidden_dim)

    def forward(self, x, attention_mask=None):
        B, L, d = x.shape
        if attention_mask is not None:
            attention_mask = attention_mask.expand(B, L, L)
        result = []
        for b in range(B):
            q, k, v = self.proj(x[b]).split(d, dim=-1)
            scores = q @ k.T / math.sqrt(d)
            if attention_mask is not None:
                scores = scores.masked_fill(attention_mask[b] == 0, float("-inf"))
            result.append(self.attention_dropout(scores.softmax(-1)) @ v)
        return self.output_proj(torch.stack(result))


@right(EXERCISE)
class LoopOverQueries(nn.Module):
    """One query at a time; hidden keys are left out of the softmax altogether."""

    def __init__(self, hidden_dim, dropout_rate=0.1):
        super().__init__()
        self.wq = nn.Linear(hidden_dim, hidden_dim)
        self.wk = nn.Linear(hidden_dim, hidden_dim)
        self.wv = nn.Linear(hidden_dim, hidden_dim)
        self.wo = nn.Linear(hidden_dim, hidden_dim)
        self.rate = dropout_rate

    def forward(self, x, attention_mask=None):
        B, L, d = x.shape
        keep = torch.ones(B, L, L, dtype=torch.bool)
        if attention_mask is not None:
            keep = (attention_mask != 0).expand(B, L, L)
        q, k, v = self.wq(x), self.wk(x), self.wv(x)
        rows = []
        for b in range(B):
            for i in range(L):
                visible = keep[b, i].nonzero().squeeze(-1)
                s = k[b, visible] @ q[b, i] / d**0.5
                w = F.dropout(s.softmax(0), self.rate, self.training)
                rows.append(w @ v[b, visible])
        return self.wo(torch.stack(rows).view(B, L, d))


@right(EXERCISE)
class ReturnsWeightsToo(nn.Module):
    """Returns (output, weights before dropout)."""

    def __init__(self, hidden_dim, dropout_rate=0.1):
        super().__init__()
        self.proj = nn.Linear(hidden_dim, 3 * hidden_dim)
        self.attention_dropout = nn.Dropout(dropout_rate)
        self.output_proj = nn.Linear(hidden_dim, hidden_dim)

    def forward(self, x, attention_mask=None):
        q, k, v = self.proj(x).chunk(3, dim=-1)
        scores = q @ k.mT / math.sqrt(q.shape[-1])
        if attention_mask is not None:
            scores = scores.masked_fill(attention_mask == 0, float("-inf"))
        weights = scores.softmax(-1)
        return self.output_proj(self.attention_dropout(weights) @ v), weights


@right(EXERCISE, "the weights it returns besides have been through dropout")
class ReturnsWeightsAfterDropout(nn.Module):
    """Returns (output, weights after dropout)."""

    def __init__(self, hidden_dim, dropout_rate=0.1):
        super().__init__()
        self.q = nn.Linear(hidden_dim, hidden_dim)
        self.k = nn.Linear(hidden_dim, hidden_dim)
        self.v = nn.Linear(hidden_dim, hidden_dim)
        self.o = nn.Linear(hidden_dim, hidden_dim)
        self.dropout = nn.Dropout(dropout_rate)

    def forward(self, x, mask=None):
        scores = self.q(x) @ self.k(x).mT / math.sqrt(x.shape[-1])
        if mask is not None:
            scores = scores.masked_fill(mask == 0, float("-inf"))
        weights = self.dropout(scores.softmax(-1))
        return self.o(weights @ self.v(x)), weights


@right(EXERCISE)
class PrintsAndWarns(nn.Module):
    """Prints, warns; comments in Chinese; extra constructor arguments."""

    def __init__(self, hidden_dim: int, dropout_rate: float = 0.1, bias: bool = True, device=None):
        super().__init__()
        self.hidden_dim = hidden_dim
        # 一次投影得到 Q, K, V
        self.proj = nn.Linear(hidden_dim, hidden_dim * 3, bias=bias, device=device)
        self.attention_dropout = nn.Dropout(dropout_rate)
        self.output_proj = nn.Linear(hidden_dim, hidden_dim, bias=bias, device=device)

    def forward(self, X: Tensor, attention_mask: Tensor | None = None) -> Tensor:
        Q, K, V = torch.split(self.proj(X), self.hidden_dim, dim=-1)
        print(Q.shape, K.shape, V.shape)
        scores = Q @ K.transpose(-1, -2) / math.sqrt(self.hidden_dim)
        if attention_mask is None:
            warnings.warn("没有掩码", stacklevel=2)
        else:
            # 0 的位置看不见
            print(attention_mask.dtype, attention_mask.shape)
            scores = scores.masked_fill(attention_mask == 0, float("-inf"))
        weights = self.attention_dropout(torch.softmax(scores, dim=-1))
        return self.output_proj(weights @ V)


class Projections(nn.Module):
    """q, k and v as a module of their own."""

    def __init__(self, d):
        super().__init__()
        self.to_q, self.to_k, self.to_v = nn.Linear(d, d), nn.Linear(d, d), nn.Linear(d, d)

    def forward(self, x):
        return self.to_q(x), self.to_k(x), self.to_v(x)


class Weigher(nn.Module):
    """Scores, mask, softmax and dropout as a module of their own."""

    def __init__(self, p):
        super().__init__()
        self.p = p

    def forward(self, q, k, mask):
        s = q @ k.mT / q.shape[-1] ** 0.5
        if mask is not None:
            s = s.masked_fill(mask == 0, float("-inf"))
        return F.dropout(F.softmax(s, -1), self.p, self.training)


@right(EXERCISE)
class BuiltFromParts(nn.Module):
    """Three small modules inside one."""

    def __init__(self, hidden_dim, dropout_rate=0.1):
        super().__init__()
        self.projections = Projections(hidden_dim)
        self.weigher = Weigher(dropout_rate)
        self.join = nn.Linear(hidden_dim, hidden_dim)

    def forward(self, x, attention_mask=None):
        q, k, v = self.projections(x)
        return self.join(self.weigher(q, k, attention_mask) @ v)


class _Base(nn.Module):
    def masked_weights(self, scores, mask):
        if mask is not None:
            scores = scores.masked_fill(mask == 0, float("-inf"))
        return (scores - scores.logsumexp(-1, keepdim=True)).exp()


@right(EXERCISE)
class FromABaseClass(_Base):
    """The masking and a log-sum-exp softmax are inherited."""

    def __init__(self, hidden_dim, dropout_rate=0.1):
        super().__init__()
        self.proj = nn.Linear(hidden_dim, 3 * hidden_dim)
        self.attention_dropout = nn.Dropout(dropout_rate)
        self.output_proj = nn.Linear(hidden_dim, hidden_dim)

    def forward(self, x, attention_mask=None):
        q, k, v = self.proj(x).chunk(3, dim=-1)
        w = self.masked_weights(q @ k.mT / q.shape[-1] ** 0.5, attention_mask)
        return self.output_proj(self.attention_dropout(w) @ v)


class _Scriptable(nn.Module):
    def __init__(self, hidden_dim: int, dropout_rate: float):
        super().__init__()
        self.hidden_dim = hidden_dim
        self.proj = nn.Linear(hidden_dim, 3 * hidden_dim)
        self.attention_dropout = nn.Dropout(dropout_rate)
        self.output_proj = nn.Linear(hidden_dim, hidden_dim)

    def forward(self, x: torch.Tensor, attention_mask: torch.Tensor | None = None) -> torch.Tensor:
        q, k, v = self.proj(x).split(self.hidden_dim, dim=-1)
        scores = torch.matmul(q, k.transpose(-2, -1)) / float(self.hidden_dim) ** 0.5
        if attention_mask is not None:
            scores = scores.masked_fill(attention_mask == 0, float("-inf"))
        return self.output_proj(torch.matmul(self.attention_dropout(scores.softmax(dim=-1)), v))


@right(EXERCISE, "a TorchScript module, made by a factory")
def scripted_masked(hidden_dim, dropout_rate=0.1):
    """A factory function that returns a scripted module."""
    return torch.jit.script(_Scriptable(hidden_dim, dropout_rate))


@right(EXERCISE)
class SoftmaxInFloat32(nn.Module):
    """Softmax in float32; the fill is the minimum of that type."""

    def __init__(self, hidden_dim, dropout_rate=0.1):
        super().__init__()
        self.proj = nn.Linear(hidden_dim, 3 * hidden_dim)
        self.attention_dropout = nn.Dropout(dropout_rate)
        self.output_proj = nn.Linear(hidden_dim, hidden_dim)

    def forward(self, x, attention_mask=None):
        q, k, v = self.proj(x).chunk(3, dim=-1)
        scores = (q @ k.mT).float() / math.sqrt(q.shape[-1])
        if attention_mask is not None:
            scores = scores.masked_fill(attention_mask == 0, torch.finfo(torch.float32).min)
        weights = scores.softmax(dim=-1).to(v.dtype)
        return self.output_proj(self.attention_dropout(weights) @ v)


@right(EXERCISE)
class OutputBeforeGathering(nn.Module):
    """Projects the values through the output layer first: (W V) W_o = W (V W_o); the bias comes last."""

    def __init__(self, hidden_dim, dropout_rate=0.1):
        super().__init__()
        self.proj = nn.Linear(hidden_dim, 3 * hidden_dim)
        self.attention_dropout = nn.Dropout(dropout_rate)
        self.output_proj = nn.Linear(hidden_dim, hidden_dim)

    def forward(self, x, attention_mask=None):
        q, k, v = self.proj(x).chunk(3, dim=-1)
        scores = q @ k.mT / math.sqrt(q.shape[-1])
        if attention_mask is not None:
            scores = scores.masked_fill(attention_mask == 0, float("-inf"))
        weights = self.attention_dropout(scores.softmax(-1))
        return weights @ F.linear(v, self.output_proj.weight) + self.output_proj.bias


@right(EXERCISE)
class OneHeadOfMany(nn.Module):
    """Written for several heads and built with one: 4-D inside, masks lifted to (B, 1, L, L)."""

    def __init__(self, hidden_dim, dropout_rate=0.1, num_heads=1):
        super().__init__()
        self.num_heads = num_heads
        self.qkv = nn.Linear(hidden_dim, 3 * hidden_dim)
        self.attn_drop = nn.Dropout(dropout_rate)
        self.proj = nn.Linear(hidden_dim, hidden_dim)

    def forward(self, x, attention_mask=None):
        B, N, C = x.shape
        qkv = self.qkv(x).reshape(B, N, 3, self.num_heads, C // self.num_heads).permute(2, 0, 3, 1, 4)
        q, k, v = qkv.unbind(0)
        attn = q @ k.transpose(-2, -1) * (C // self.num_heads) ** -0.5
        if attention_mask is not None:
            attention_mask = attention_mask.expand(B, N, N).unsqueeze(1)
            attn = attn.masked_fill(attention_mask == 0, float("-inf"))
        attn = self.attn_drop(attn.softmax(dim=-1))
        return self.proj((attn @ v).transpose(1, 2).reshape(B, N, C))


@right(EXERCISE)
class TypeChecks(nn.Module):
    """Raises for masks that the contract does not list, and for widths that do not fit."""

    def __init__(self, hidden_dim, dropout_rate=0.1):
        super().__init__()
        if not 0 <= dropout_rate <= 1:
            raise ValueError("dropout_rate must lie between 0 and 1")
        self.hidden_dim = hidden_dim
        self.proj = nn.Linear(hidden_dim, 3 * hidden_dim)
        self.attention_dropout = nn.Dropout(dropout_rate)
        self.output_proj = nn.Linear(hidden_dim, hidden_dim)

    def forward(self, x, attention_mask=None):
        if x.ndim != 3 or x.shape[-1] != self.hidden_dim:
            raise ValueError(f"expected (B, L, {self.hidden_dim}), got {tuple(x.shape)}")
        q, k, v = self.proj(x).chunk(3, dim=-1)
        scores = q @ k.mT / math.sqrt(self.hidden_dim)
        if attention_mask is not None:
            if not isinstance(attention_mask, Tensor):
                raise TypeError("attention_mask must be a tensor")
            if attention_mask.is_complex():
                raise TypeError("a complex mask says nothing")
            scores = scores.masked_fill(attention_mask.to(torch.bool).logical_not(), float("-inf"))
        return self.output_proj(self.attention_dropout(scores.softmax(-1)) @ v)

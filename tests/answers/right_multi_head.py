"""Right answers to MultiHeadAttention, written in many ways."""

from __future__ import annotations

import math
import warnings

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from . import right

EXERCISE = "MultiHeadAttention"


@right(EXERCISE)
class Plain(nn.Module):
    """Contract names, contiguous().view, -1e9 written as minus infinity."""

    def __init__(self, d_model, h):
        super().__init__()
        assert d_model % h == 0
        self.d_model = d_model
        self.h = h
        self.d_k = d_model // h
        self.wq = nn.Linear(d_model, d_model)
        self.wk = nn.Linear(d_model, d_model)
        self.wv = nn.Linear(d_model, d_model)
        self.wo = nn.Linear(d_model, d_model)

    def forward(self, q, k, v, mask=None):
        B = q.size(0)
        q = self.wq(q).view(B, -1, self.h, self.d_k).transpose(1, 2)
        k = self.wk(k).view(B, -1, self.h, self.d_k).transpose(1, 2)
        v = self.wv(v).view(B, -1, self.h, self.d_k).transpose(1, 2)
        scores = torch.matmul(q, k.transpose(-2, -1)) / math.sqrt(self.d_k)
        if mask is not None:
            scores = scores.masked_fill(mask == 0, float("-inf"))
        attn = torch.softmax(scores, dim=-1)
        out = torch.matmul(attn, v).transpose(1, 2).contiguous().view(B, -1, self.d_model)
        return self.wo(out)


@right(EXERCISE, "-1e9: float16 cannot hold it")
class Transformers101(nn.Module):
    """W_q, fc, -1e9; the attention itself is a method; returns the weights too."""

    def __init__(self, d_model: int, num_heads: int):
        super().__init__()
        if d_model % num_heads:
            raise ValueError("d_model must be divisible by num_heads")
        self.num_heads = num_heads
        self.W_k = nn.Linear(d_model, d_model)
        self.W_q = nn.Linear(d_model, d_model)
        self.W_v = nn.Linear(d_model, d_model)
        self.fc = nn.Linear(d_model, d_model)

    def split(self, x):
        batch, length, width = x.size()
        return x.view(batch, length, self.num_heads, width // self.num_heads).permute(0, 2, 1, 3)

    def attention(self, Q, K, V, mask):
        scores = Q @ K.transpose(-1, -2) / Q.size(-1) ** 0.5
        if mask is not None:
            scores = scores.masked_fill(mask == 0, -1e9)
        weights = F.softmax(scores, dim=-1)
        return weights @ V, weights

    def forward(self, Q, K, V, mask=None):
        Q, K, V = self.split(self.W_q(Q)), self.split(self.W_k(K)), self.split(self.W_v(V))
        context, weights = self.attention(Q, K, V, mask)
        context = context.permute(0, 2, 1, 3).contiguous()
        context = context.view(*context.shape[:2], -1)
        return self.fc(context), weights


@right(EXERCISE)
class NoBiasAnywhere(nn.Module):
    """bias=False on all four; output layer created first."""

    def __init__(self, d_model, h):
        super().__init__()
        if d_model % h != 0:
            raise ValueError(f"{d_model} features cannot be shared by {h} heads")
        self.h = h
        self.wo = nn.Linear(d_model, d_model, bias=False)
        self.wv = nn.Linear(d_model, d_model, bias=False)
        self.wk = nn.Linear(d_model, d_model, bias=False)
        self.wq = nn.Linear(d_model, d_model, bias=False)

    def forward(self, q, k, v, mask=None):
        q, k, v = (
            layer(x).unflatten(-1, (self.h, -1)).transpose(1, 2)
            for layer, x in ((self.wq, q), (self.wk, k), (self.wv, v))
        )
        scores = q @ k.mT * q.shape[-1] ** -0.5
        if mask is not None:
            scores = torch.where(mask.bool(), scores, float("-inf"))
        return self.wo((scores.softmax(-1) @ v).transpose(1, 2).flatten(2))


@right(EXERCISE)
class MixedBiases(nn.Module):
    """Biases on queries and output only; finfo.min as fill."""

    def __init__(self, dim, heads):
        super().__init__()
        assert dim % heads == 0, "dim must be divisible by heads"
        self.heads = heads
        self.scale = (dim // heads) ** -0.5
        self.to_q = nn.Linear(dim, dim)
        self.to_k = nn.Linear(dim, dim, bias=False)
        self.to_v = nn.Linear(dim, dim, bias=False)
        self.to_out = nn.Sequential(nn.Linear(dim, dim), nn.Dropout(0.0))

    def forward(self, x, context, values, mask=None):
        b, n, _ = x.shape
        q = self.to_q(x).reshape(b, n, self.heads, -1).transpose(1, 2)
        k = self.to_k(context).reshape(b, context.shape[1], self.heads, -1).transpose(1, 2)
        v = self.to_v(values).reshape(b, values.shape[1], self.heads, -1).transpose(1, 2)
        sim = torch.einsum("bhid,bhjd->bhij", q, k) * self.scale
        if mask is not None:
            sim = sim.masked_fill(~mask.bool(), torch.finfo(sim.dtype).min)
        attn = sim.softmax(dim=-1)
        out = torch.einsum("bhij,bhjd->bhid", attn, v)
        return self.to_out(out.transpose(1, 2).reshape(b, n, -1))


@right(EXERCISE)
class EinsumAllTheWay(nn.Module):
    """Never transposes: einsum names the axes."""

    def __init__(self, d_model: int, h: int):
        super().__init__()
        if d_model % h:
            raise ValueError("h must divide d_model")
        self.h, self.d_k = h, d_model // h
        self.query = nn.Linear(d_model, d_model)
        self.key = nn.Linear(d_model, d_model)
        self.value = nn.Linear(d_model, d_model)
        self.out = nn.Linear(d_model, d_model)

    def forward(self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None) -> Tensor:
        B, Lq, d = q.shape
        Lk = k.shape[1]
        q = self.query(q).reshape(B, Lq, self.h, self.d_k)
        k = self.key(k).reshape(B, Lk, self.h, self.d_k)
        v = self.value(v).reshape(B, Lk, self.h, self.d_k)
        energy = torch.einsum("nqhd,nkhd->nhqk", [q, k])
        if mask is not None:
            energy = energy.masked_fill(mask == 0, float("-1e20"))
        attention = torch.softmax(energy / self.d_k ** (1 / 2), dim=3)
        out = torch.einsum("nhqk,nkhd->nqhd", [attention, v]).reshape(B, Lq, d)
        return self.out(out)


@right(EXERCISE)
class BmmOnBatchTimesHeads(nn.Module):
    """Heads folded into the batch; the mask is expanded and folded the same way."""

    def __init__(self, d_model, h):
        super().__init__()
        if d_model % h != 0:
            raise ValueError("not divisible")
        self.h = h
        self.d = d_model
        self.q_proj = nn.Linear(d_model, d_model)
        self.k_proj = nn.Linear(d_model, d_model)
        self.v_proj = nn.Linear(d_model, d_model)
        self.out_proj = nn.Linear(d_model, d_model)

    def fold(self, x):
        B, L, _ = x.shape
        x = x.reshape(B, L, self.h, -1).permute(0, 2, 1, 3)
        return x.reshape(B * self.h, L, -1)

    def forward(self, q, k, v, mask=None):
        B, Lq, Lk = q.shape[0], q.shape[1], k.shape[1]
        q = self.fold(self.q_proj(q))
        k = self.fold(self.k_proj(k))
        v = self.fold(self.v_proj(v))
        scores = torch.bmm(q, k.transpose(1, 2)) / math.sqrt(q.shape[-1])  # (B*h, Lq, Lk)
        if mask is not None:
            mask = torch.broadcast_to(mask, (B, self.h, Lq, Lk)).reshape(B * self.h, Lq, Lk)
            scores = scores.masked_fill(mask == 0, float("-inf"))
        out = torch.bmm(scores.softmax(-1), v)  # (B*h, Lq, d_k)
        out = out.reshape(B, self.h, Lq, -1).permute(0, 2, 1, 3).reshape(B, Lq, self.d)
        return self.out_proj(out)


@right(EXERCISE)
class HeadsConcatenatedInTheBatch(nn.Module):
    """chunk and cat put the heads first: (h*B, L, d_k)."""

    def __init__(self, d_model, h):
        super().__init__()
        assert d_model % h == 0
        self.h = h
        self.wq = nn.Linear(d_model, d_model)
        self.wk = nn.Linear(d_model, d_model)
        self.wv = nn.Linear(d_model, d_model)
        self.wo = nn.Linear(d_model, d_model)

    def forward(self, q, k, v, mask=None):
        B, Lq, Lk = len(q), q.shape[1], k.shape[1]
        Q = torch.cat(self.wq(q).chunk(self.h, dim=2), dim=0)  # (h*B, Lq, d_k)
        K = torch.cat(self.wk(k).chunk(self.h, dim=2), dim=0)
        V = torch.cat(self.wv(v).chunk(self.h, dim=2), dim=0)
        A = Q.matmul(K.transpose(1, 2)) / K.shape[-1] ** 0.5
        if mask is not None:
            full = mask.expand(B, self.h, Lq, Lk).transpose(0, 1).reshape(self.h * B, Lq, Lk)
            A = A.masked_fill(full == 0, -torch.inf)
        A = A.softmax(dim=2)
        O = torch.cat((A @ V).chunk(self.h, dim=0), dim=2)  # noqa: E741
        return self.wo(O)


@right(EXERCISE)
class LoopOverHeads(nn.Module):
    """Wide layers, then a loop over slices of the features."""

    def __init__(self, d_model, h):
        super().__init__()
        if d_model % h:
            raise ValueError(f"d_model={d_model} is not a multiple of h={h}")
        self.h = h
        self.d_k = d_model // h
        self.lin1 = nn.Linear(d_model, d_model)
        self.lin2 = nn.Linear(d_model, d_model)
        self.lin3 = nn.Linear(d_model, d_model)
        self.lin4 = nn.Linear(d_model, d_model)

    def forward(self, q, k, v, mask=None):
        q, k, v = self.lin1(q), self.lin2(k), self.lin3(v)
        if mask is not None:
            mask = mask.expand(q.shape[0], self.h, q.shape[1], k.shape[1])
        outs = []
        for i in range(self.h):
            s = slice(i * self.d_k, (i + 1) * self.d_k)
            scores = q[..., s] @ k[..., s].transpose(1, 2) / self.d_k**0.5
            if mask is not None:
                scores = scores.masked_fill(mask[:, i] == 0, float("-inf"))
            outs.append(torch.softmax(scores, -1) @ v[..., s])
        return self.lin4(torch.cat(outs, dim=-1))


@right(EXERCISE)
class LoopOverSamplesHeadsQueries(nn.Module):
    """Three loops in Python."""

    def __init__(self, d_model, h):
        super().__init__()
        assert d_model % h == 0
        self.h = h
        self.wq = nn.Linear(d_model, d_model)
        self.wk = nn.Linear(d_model, d_model)
        self.wv = nn.Linear(d_model, d_model)
        self.wo = nn.Linear(d_model, d_model)

    def forward(self, q, k, v, mask=None):
        B, Lq, d = q.shape
        Lk, d_k = k.shape[1], d // self.h
        qs = self.wq(q).split(d_k, dim=-1)
        ks = self.wk(k).split(d_k, dim=-1)
        vs = self.wv(v).split(d_k, dim=-1)
        if mask is not None:
            mask = mask.expand(B, self.h, Lq, Lk) != 0
        batch = []
        for b in range(B):
            heads = []
            for n in range(self.h):
                rows = []
                for i in range(Lq):
                    score = ks[n][b] @ qs[n][b, i] / d_k**0.5  # (Lk,)
                    if mask is not None:
                        score = score.masked_fill(~mask[b, n, i], float("-inf"))
                    rows.append(score.softmax(0) @ vs[n][b])
                heads.append(torch.stack(rows))
            batch.append(torch.cat(heads, dim=1))
        return self.wo(torch.stack(batch))


class Head(nn.Module):
    """One head with its own small layers."""

    def __init__(self, d_model, d_k):
        super().__init__()
        self.query = nn.Linear(d_model, d_k)
        self.key = nn.Linear(d_model, d_k)
        self.value = nn.Linear(d_model, d_k)

    def forward(self, q, k, v, mask):
        q, k, v = self.query(q), self.key(k), self.value(v)
        scores = q @ k.transpose(-2, -1) * k.shape[-1] ** -0.5
        if mask is not None:
            scores = scores.masked_fill(mask == 0, float("-inf"))
        return F.softmax(scores, dim=-1) @ v


@right(EXERCISE, "one small layer for each head and role")
class ListOfHeads(nn.Module):
    """A ModuleList of Head modules, joined by one layer."""

    def __init__(self, d_model, h):
        super().__init__()
        if d_model % h != 0:
            raise ValueError("h must divide d_model")
        self.heads = nn.ModuleList([Head(d_model, d_model // h) for _ in range(h)])
        self.proj = nn.Linear(d_model, d_model)

    def forward(self, q, k, v, mask=None):
        if mask is not None:
            mask = mask.expand(q.size(0), len(self.heads), q.size(1), k.size(1))
        outs = [head(q, k, v, None if mask is None else mask[:, i]) for i, head in enumerate(self.heads)]
        return self.proj(torch.cat(outs, dim=-1))


class HeadWithOutput(nn.Module):
    """One head that also projects back to the full width."""

    def __init__(self, d_model, d_k, bias):
        super().__init__()
        self.k = nn.Linear(d_model, d_k, bias=False)
        self.q = nn.Linear(d_model, d_k, bias=False)
        self.v = nn.Linear(d_model, d_k, bias=False)
        self.o = nn.Linear(d_k, d_model, bias=bias)

    def forward(self, query, key, value, keep):
        q = self.q(query) / self.q.out_features**0.5
        s = torch.einsum("bqd,bkd->bqk", q, self.k(key))
        if keep is not None:
            s = torch.where(keep, s, torch.finfo(s.dtype).min)
        return self.o(s.softmax(dim=-1) @ self.v(value))


@right(EXERCISE, "each head has its own output layer; the results are summed")
class HeadsSummed(nn.Module):
    """Output projection per head, summed; only the first head's output layer has a bias."""

    def __init__(self, d_model, h):
        super().__init__()
        assert d_model % h == 0
        self.heads = nn.ModuleList(HeadWithOutput(d_model, d_model // h, bias=i == 0) for i in range(h))

    def forward(self, q, k, v, mask=None):
        total = 0
        for i, head in enumerate(self.heads):
            keep = None
            if mask is not None:
                keep = mask.expand(q.shape[0], len(self.heads), q.shape[1], k.shape[1])[:, i] > 0.5
            total = total + head(q, k, v, keep)
        return total


@right(EXERCISE, "three ModuleLists of small layers")
class ThreeModuleLists(nn.Module):
    """One ModuleList for each role, in the order value, query, key."""

    def __init__(self, d_model, h):
        super().__init__()
        if d_model % h:
            raise ValueError("not divisible")
        d_k = d_model // h
        self.h = h
        self.vs = nn.ModuleList([nn.Linear(d_model, d_k) for _ in range(h)])
        self.qs = nn.ModuleList([nn.Linear(d_model, d_k) for _ in range(h)])
        self.ks = nn.ModuleList([nn.Linear(d_model, d_k) for _ in range(h)])
        self.out = nn.Linear(d_model, d_model)

    def forward(self, q, k, v, mask=None):
        Q = torch.stack([layer(q) for layer in self.qs], dim=1)  # (B, h, Lq, d_k)
        K = torch.stack([layer(k) for layer in self.ks], dim=1)
        V = torch.stack([layer(v) for layer in self.vs], dim=1)
        S = Q @ K.mT / math.sqrt(Q.shape[-1])
        if mask is not None:
            S = S.masked_fill(mask == 0, float("-inf"))
        return self.out(torch.cat((S.softmax(-1) @ V).unbind(1), dim=-1))


@right(EXERCISE)
class InAModuleDict(nn.Module):
    """The four layers in a ModuleDict."""

    def __init__(self, d_model, h, bias=True, dropout=0.0, device=None):
        super().__init__()
        if d_model % h:
            raise ValueError("h must divide d_model")
        self.h = h
        self.drop = nn.Dropout(dropout)
        self.layers = nn.ModuleDict(
            {name: nn.Linear(d_model, d_model, bias=bias, device=device) for name in ("out", "k", "v", "q")}
        )

    def forward(self, q, k, v, mask=None):
        heads = {}
        for name, x in (("q", q), ("k", k), ("v", v)):
            y = self.layers[name](x)
            heads[name] = y.reshape(*y.shape[:2], self.h, -1).swapaxes(1, 2)
        scores = heads["q"] @ heads["k"].swapaxes(-1, -2)
        scores /= heads["q"].shape[-1] ** 0.5
        if mask is not None:
            scores.masked_fill_(mask == 0, float("-inf"))
        weights = self.drop(scores.softmax(-1))
        return self.layers["out"]((weights @ heads["v"]).swapaxes(1, 2).flatten(start_dim=2))


@right(EXERCISE)
class ListOfFourLinears(nn.Module):
    """A ModuleList of four equal layers, as in annotated code."""

    def __init__(self, d_model, h):
        super().__init__()
        assert d_model % h == 0
        self.d_k = d_model // h
        self.h = h
        self.linears = nn.ModuleList([nn.Linear(d_model, d_model) for _ in range(4)])
        self.attn = None

    def forward(self, query, key, value, mask=None):
        nb = query.size(0)
        query, key, value = [
            lin(x).view(nb, -1, self.h, self.d_k).transpose(1, 2)
            for lin, x in zip(self.linears, (query, key, value), strict=False)
        ]
        scores = query @ key.transpose(-2, -1) / math.sqrt(self.d_k)
        if mask is not None:
            scores = scores.masked_fill(mask == 0, -1e9)
        self.attn = scores.softmax(dim=-1)
        x = (self.attn @ value).transpose(1, 2).contiguous().view(nb, -1, self.h * self.d_k)
        return self.linears[-1](x)


@right(EXERCISE)
class ParametersInOut(nn.Module):
    """Hand-made (in, out) matrices, no biases."""

    def __init__(self, d_model, h):
        super().__init__()
        if d_model % h != 0:
            raise ValueError("h must divide d_model")
        self.h = h
        self.Wq = nn.Parameter(torch.randn(d_model, d_model) * d_model**-0.5)
        self.Wk = nn.Parameter(torch.randn(d_model, d_model) * d_model**-0.5)
        self.Wv = nn.Parameter(torch.randn(d_model, d_model) * d_model**-0.5)
        self.Wo = nn.Parameter(torch.randn(d_model, d_model) * d_model**-0.5)

    def heads(self, x):
        return x.view(x.shape[0], x.shape[1], self.h, -1).transpose(1, 2)

    def forward(self, q, k, v, mask=None):
        q, k, v = self.heads(q @ self.Wq), self.heads(k @ self.Wk), self.heads(v @ self.Wv)
        scores = q @ k.transpose(-1, -2) / q.size(-1) ** 0.5
        if mask is not None:
            scores = scores + torch.zeros_like(scores).masked_fill(mask == 0, float("-inf"))
        weights = scores.softmax(-1)
        return (weights @ v).transpose(1, 2).flatten(2) @ self.Wo


@right(EXERCISE)
class ParametersOutIn(nn.Module):
    """Hand-made (out, in) matrices and biases with F.linear."""

    def __init__(self, d_model, h):
        super().__init__()
        assert d_model % h == 0, (d_model, h)
        self.h = h
        for role in "qkvo":
            weight = nn.Parameter(torch.empty(d_model, d_model))
            nn.init.xavier_uniform_(weight)
            self.register_parameter(f"w_{role}", weight)
            self.register_parameter(f"b_{role}", nn.Parameter(torch.zeros(d_model)))

    def forward(self, q, k, v, mask=None):
        def project(x, w, b):
            return F.linear(x, w, b).unflatten(2, (self.h, -1)).transpose(1, 2)

        q = project(q, self.w_q, self.b_q)
        k = project(k, self.w_k, self.b_k)
        v = project(v, self.w_v, self.b_v)
        s = q @ k.mT / math.sqrt(k.shape[3])
        if mask is not None:
            s = s.masked_fill(mask.logical_not(), float("-inf"))
        return F.linear((s.softmax(3) @ v).transpose(1, 2).flatten(2), self.w_o, self.b_o)


@right(EXERCISE, "weights as (h, d_model, d_k) parameters")
class ParametersPerHead(nn.Module):
    """(h, d_model, d_k) for q, k, v and (h, d_k, d_model) for the output: nothing is ever reshaped."""

    def __init__(self, d_model, h):
        super().__init__()
        if d_model % h:
            raise ValueError("h must divide d_model")
        d_k = d_model // h
        self.W_Q = nn.Parameter(torch.randn(h, d_model, d_k) * d_model**-0.5)
        self.W_K = nn.Parameter(torch.randn(h, d_model, d_k) * d_model**-0.5)
        self.W_V = nn.Parameter(torch.randn(h, d_model, d_k) * d_model**-0.5)
        self.W_O = nn.Parameter(torch.randn(h, d_k, d_model) * d_model**-0.5)
        self.b_Q = nn.Parameter(torch.zeros(h, d_k))
        self.b_K = nn.Parameter(torch.zeros(h, d_k))
        self.b_V = nn.Parameter(torch.zeros(h, d_k))
        self.b_O = nn.Parameter(torch.zeros(d_model))
        self.d_k = d_k

    def forward(self, q, k, v, mask=None):
        q = torch.einsum("bpm,imh->bpih", q, self.W_Q) + self.b_Q
        k = torch.einsum("bpm,imh->bpih", k, self.W_K) + self.b_K
        v = torch.einsum("bpm,imh->bpih", v, self.W_V) + self.b_V
        scores = torch.einsum("bqih,bkih->biqk", q, k) / self.d_k**0.5
        if mask is not None:
            scores = scores.masked_fill(mask == 0, float("-inf"))
        pattern = scores.softmax(dim=-1)
        z = torch.einsum("biqk,bkih->bqih", pattern, v)
        return torch.einsum("bqih,ihm->bqm", z, self.W_O) + self.b_O


@right(EXERCISE, "weights as (d_model, h, d_k) parameters")
class ParametersWidthFirst(nn.Module):
    """(d_model, h, d_k), as in flax; the output weight is (h, d_k, d_model)."""

    def __init__(self, d_model, h):
        super().__init__()
        assert d_model % h == 0
        e = d_model // h
        self.query = nn.Parameter(torch.empty(d_model, h, e).normal_(std=0.2))
        self.key = nn.Parameter(torch.empty(d_model, h, e).normal_(std=0.2))
        self.value = nn.Parameter(torch.empty(d_model, h, e).normal_(std=0.2))
        self.out = nn.Parameter(torch.empty(h, e, d_model).normal_(std=0.2))

    def forward(self, q, k, v, mask=None):
        q = torch.einsum("bld,dhe->bhle", q, self.query) * self.query.shape[-1] ** -0.5
        k = torch.einsum("bld,dhe->bhle", k, self.key)
        v = torch.einsum("bld,dhe->bhle", v, self.value)
        w = q @ k.mT
        if mask is not None:
            w = torch.where(mask != 0, w, -1e30)
        return torch.einsum("bhqk,bhke,hed->bqd", w.softmax(-1), v, self.out)


@right(EXERCISE, "four weights in one (4, d, d) parameter")
class StackedParameter(nn.Module):
    """One (4, d, d) parameter, used as x @ W, and one (4, d) bias."""

    def __init__(self, d_model, h):
        super().__init__()
        if d_model % h:
            raise ValueError("h must divide d_model")
        self.h = h
        self.weight = nn.Parameter(torch.randn(4, d_model, d_model) * d_model**-0.5)
        self.bias = nn.Parameter(torch.zeros(4, d_model))

    def linear(self, i, x):
        return x @ self.weight[i] + self.bias[i]

    def forward(self, q, k, v, mask=None):
        q, k, v = (self.linear(i, x).unflatten(-1, (self.h, -1)).transpose(1, 2) for i, x in enumerate((q, k, v)))
        scores = q @ k.mT / q.shape[-1] ** 0.5
        if mask is not None:
            scores = scores.masked_fill(mask == 0, -math.inf)
        return self.linear(3, (scores.softmax(-1) @ v).transpose(1, 2).flatten(2))


@right(EXERCISE, "one fused layer for q, k and v, cut into three weights")
class FusedInProjection(nn.Module):
    """in_proj is one (3d, d) layer; its rows are taken apart, so that q, k, v may differ."""

    def __init__(self, d_model, h):
        super().__init__()
        if d_model % h:
            raise ValueError("h must divide d_model")
        self.h = h
        self.in_proj = nn.Linear(d_model, 3 * d_model)
        self.out_proj = nn.Linear(d_model, d_model)

    def forward(self, q, k, v, mask=None):
        weights, biases = self.in_proj.weight.chunk(3), self.in_proj.bias.chunk(3)
        q, k, v = (
            F.linear(x, w, b).unflatten(-1, (self.h, -1)).transpose(1, 2)
            for x, w, b in zip((q, k, v), weights, biases, strict=True)
        )
        scores = (q / q.shape[-1] ** 0.5) @ k.mT
        if mask is not None:
            scores = scores.masked_fill(mask == 0, float("-inf"))
        return self.out_proj((scores.softmax(-1) @ v).transpose(1, 2).flatten(2))


@right(EXERCISE, "fused qkv, laid out head by head")
class FusedPerHead(nn.Module):
    """Fused rows head by head (q, k, v of head 0, then of head 1, ...); runs the layer on each input."""

    def __init__(self, d_model, h):
        super().__init__()
        assert d_model % h == 0
        self.h = h
        self.d_k = d_model // h
        self.qkv = nn.Linear(d_model, 3 * d_model)
        self.o = nn.Linear(d_model, d_model)

    def pick(self, x, part):
        y = self.qkv(x).reshape(x.shape[0], x.shape[1], self.h, 3, self.d_k)
        return y[:, :, :, part].transpose(1, 2)

    def forward(self, q, k, v, mask=None):
        q, k, v = self.pick(q, 0), self.pick(k, 1), self.pick(v, 2)
        s = torch.matmul(q, k.transpose(2, 3)) / math.sqrt(self.d_k)
        if mask is not None:
            s = s.masked_fill(mask == 0, -1e9)
        return self.o(torch.matmul(s.softmax(-1), v).transpose(1, 2).flatten(2))


@right(EXERCISE, "keys and values share one layer")
class FusedKeysAndValues(nn.Module):
    """to_kv makes keys from k and values from v."""

    def __init__(self, dim, heads):
        super().__init__()
        if dim % heads != 0:
            raise ValueError("dim % heads")
        self.heads = heads
        self.to_q = nn.Linear(dim, dim, bias=False)
        self.to_kv = nn.Linear(dim, 2 * dim, bias=False)
        self.to_out = nn.Linear(dim, dim)

    def forward(self, q, k, v, mask=None):
        q = self.to_q(q)
        k = self.to_kv(k).chunk(2, dim=-1)[0]
        v = self.to_kv(v).chunk(2, dim=-1)[1]
        q, k, v = (t.reshape(t.shape[0], t.shape[1], self.heads, -1).transpose(1, 2) for t in (q, k, v))
        dots = q @ k.mT / q.shape[-1] ** 0.5
        if mask is not None:
            dots = dots.masked_fill(mask == 0, -torch.finfo(dots.dtype).max)
        return self.to_out((dots.softmax(-1) @ v).transpose(1, 2).flatten(2))


@right(EXERCISE, "features laid out as (d_k, h) in split and merge")
class HeadsLast(nn.Module):
    """Head i takes the features i, i + h, i + 2h, ... and puts them back there."""

    def __init__(self, d_model, h):
        super().__init__()
        if d_model % h:
            raise ValueError("h must divide d_model")
        self.h = h
        self.wq = nn.Linear(d_model, d_model)
        self.wk = nn.Linear(d_model, d_model)
        self.wv = nn.Linear(d_model, d_model)
        self.wo = nn.Linear(d_model, d_model)

    def split(self, x):
        B, L, d = x.shape
        return x.view(B, L, d // self.h, self.h).permute(0, 3, 1, 2)  # (B, h, L, d_k)

    def forward(self, q, k, v, mask=None):
        q, k, v = self.split(self.wq(q)), self.split(self.wk(k)), self.split(self.wv(v))
        scores = q @ k.transpose(-1, -2) / math.sqrt(q.size(-1))
        if mask is not None:
            scores = scores.masked_fill(mask == 0, float("-inf"))
        out = scores.softmax(dim=-1) @ v  # (B, h, L, d_k)
        return self.wo(out.permute(0, 2, 3, 1).flatten(2))


@right(EXERCISE, "parameters exist only after the first call")
class LazyLayers(nn.Module):
    """Four LazyLinear layers."""

    def __init__(self, d_model, h):
        super().__init__()
        assert d_model % h == 0
        self.h = h
        self.wq = nn.LazyLinear(d_model)
        self.wk = nn.LazyLinear(d_model)
        self.wv = nn.LazyLinear(d_model)
        self.wo = nn.LazyLinear(d_model)

    def forward(self, q, k, v, mask=None):
        q, k, v = (
            f(x).view(x.shape[0], x.shape[1], self.h, -1).transpose(1, 2)
            for f, x in ((self.wq, q), (self.wk, k), (self.wv, v))
        )
        w = q @ k.mT / q.shape[-1] ** 0.5
        if mask is not None:
            w = w.masked_fill(mask == 0, float("-inf"))
        return self.wo((w.softmax(-1) @ v).transpose(1, 2).flatten(2))


@right(EXERCISE, "layers exist only after the first call")
class BuiltOnFirstForward(nn.Module):
    """The layers are built when the first input arrives."""

    def __init__(self, d_model, h):
        super().__init__()
        if d_model % h:
            raise ValueError("h must divide d_model")
        self.d_model, self.h = d_model, h
        self.fq = None

    def forward(self, q, k, v, mask=None):
        if self.fq is None:
            self.fq, self.fk, self.fv, self.fo = (
                nn.Linear(self.d_model, self.d_model).to(q.device, q.dtype) for _ in range(4)
            )
        q, k, v = (
            f(x).unflatten(-1, (self.h, -1)).transpose(1, 2) for f, x in ((self.fq, q), (self.fk, k), (self.fv, v))
        )
        w = q @ k.mT / math.sqrt(q.shape[-1])
        if mask is not None:
            w = w.masked_fill(mask == 0, float("-inf"))
        return self.fo((w.softmax(-1) @ v).transpose(1, 2).flatten(2))


@right(EXERCISE, "1x1 convolutions instead of linears")
class Conv1x1(nn.Module):
    """Conv1d with kernel 1, channels first, as in text-to-speech models."""

    def __init__(self, channels, n_heads):
        super().__init__()
        assert channels % n_heads == 0
        self.n_heads = n_heads
        self.k_channels = channels // n_heads
        self.conv_q = nn.Conv1d(channels, channels, 1)
        self.conv_k = nn.Conv1d(channels, channels, 1)
        self.conv_v = nn.Conv1d(channels, channels, 1)
        self.conv_o = nn.Conv1d(channels, channels, 1)

    def forward(self, q, k, v, mask=None):
        q, k, v = self.conv_q(q.mT), self.conv_k(k.mT), self.conv_v(v.mT)  # (B, d, L)
        b, d, t_t = q.shape
        t_s = k.size(2)
        query = q.view(b, self.n_heads, self.k_channels, t_t).transpose(2, 3)
        key = k.view(b, self.n_heads, self.k_channels, t_s)
        value = v.view(b, self.n_heads, self.k_channels, t_s).transpose(2, 3)
        scores = torch.matmul(query / math.sqrt(self.k_channels), key)
        if mask is not None:
            scores = scores.masked_fill(mask == 0, -1e4)
        output = torch.matmul(F.softmax(scores, dim=-1), value)
        output = output.transpose(2, 3).contiguous().view(b, d, t_t)
        return self.conv_o(output).mT


@right(EXERCISE)
class KeywordOnlyMask(nn.Module):
    """mask is keyword-only; everything has defaults beyond the contract."""

    def __init__(self, d_model: int = 768, h: int = 12, *, bias: bool = True):
        super().__init__()
        if d_model % h != 0:
            raise ValueError("d_model must be divisible by h")
        self.h = h
        self.wq = nn.Linear(d_model, d_model, bias)
        self.wk = nn.Linear(d_model, d_model, bias)
        self.wv = nn.Linear(d_model, d_model, bias)
        self.wo = nn.Linear(d_model, d_model, bias)

    def forward(self, q, k, v, *, mask=None):
        B, L_q, d_model = q.shape
        L_k = k.shape[1]
        d_k = d_model // self.h
        q = self.wq(q).reshape(B, L_q, self.h, d_k).transpose(1, 2)
        k_t = self.wk(k).reshape(B, L_k, self.h, d_k).permute(0, 2, 3, 1)
        v = self.wv(v).reshape(B, L_k, self.h, d_k).transpose(1, 2)
        weights = q @ k_t / d_k**0.5
        if mask is not None:
            weights = weights.masked_fill(mask == False, float("-inf"))  # noqa: E712
        weights = weights.softmax(-1)
        return self.wo((weights @ v).transpose(1, 2).reshape(B, L_q, d_model))


@right(EXERCISE, "softmax first, then mask and renormalise: fragile when scores are large")
class RenormalisedAfterwards(nn.Module):
    """softmax, times mask, divided by what is left."""

    def __init__(self, d_model, h):
        super().__init__()
        assert d_model % h == 0
        self.h = h
        self.q = nn.Linear(d_model, d_model)
        self.k = nn.Linear(d_model, d_model)
        self.v = nn.Linear(d_model, d_model)
        self.o = nn.Linear(d_model, d_model)

    def forward(self, q, k, v, mask=None):
        q, k, v = (f(x).unflatten(-1, (self.h, -1)).transpose(1, 2) for f, x in ((self.q, q), (self.k, k), (self.v, v)))
        p = torch.softmax(q @ k.mT / math.sqrt(q.shape[-1]), dim=-1)
        if mask is not None:
            p = p * mask.to(p.dtype)
            p = p / p.sum(dim=-1, keepdim=True)
        return self.o((p @ v).transpose(1, 2).flatten(2))


@right(EXERCISE)
class OwnMaskedSoftmax(nn.Module):
    """exp(scores - max) * mask / sum, the maximum taken over the visible keys; empty rows become zeros."""

    def __init__(self, d_model, h):
        super().__init__()
        if d_model % h:
            raise ValueError("h must divide d_model")
        self.h = h
        self.wq = nn.Linear(d_model, d_model)
        self.wk = nn.Linear(d_model, d_model)
        self.wv = nn.Linear(d_model, d_model)
        self.wo = nn.Linear(d_model, d_model)

    @staticmethod
    def masked_softmax(scores, keep):
        low = torch.finfo(scores.dtype).min
        top = scores.masked_fill(~keep, low).amax(-1, keepdim=True)
        e = (scores - top).clamp(max=0).exp() * keep
        return e / e.sum(-1, keepdim=True).clamp(min=1e-30)

    def forward(self, q, k, v, mask=None):
        q = self.wq(q).unflatten(-1, (self.h, -1)).transpose(1, 2)
        k = self.wk(k).unflatten(-1, (self.h, -1)).transpose(1, 2)
        v = self.wv(v).unflatten(-1, (self.h, -1)).transpose(1, 2)
        scores = q @ k.mT / q.size(-1) ** 0.5
        keep = torch.ones_like(scores, dtype=torch.bool)
        if mask is not None:
            keep = keep & (mask != 0)
        return self.wo((self.masked_softmax(scores, keep) @ v).transpose(1, 2).flatten(2))


@right(EXERCISE)
class EmptyRowsToZero(nn.Module):
    """nan_to_num on the weights."""

    def __init__(self, d_model, h):
        super().__init__()
        assert d_model % h == 0
        self.h = h
        self.lin_k = nn.Linear(d_model, d_model)
        self.lin_v = nn.Linear(d_model, d_model)
        self.lin_q = nn.Linear(d_model, d_model)
        self.lin_out = nn.Linear(d_model, d_model)

    def forward(self, q, k, v, mask=None):
        q = self.lin_q(q).unflatten(-1, (self.h, -1)).transpose(1, 2)
        k = self.lin_k(k).unflatten(-1, (self.h, -1)).transpose(1, 2)
        v = self.lin_v(v).unflatten(-1, (self.h, -1)).transpose(1, 2)
        scores = q @ k.mT / q.size(-1) ** 0.5
        if mask is not None:
            scores = scores.masked_fill(mask == 0, float("-inf"))
        weights = torch.nan_to_num(scores.softmax(-1), nan=0.0)
        return self.lin_out((weights @ v).transpose(1, 2).flatten(2))


@right(EXERCISE)
class AdditiveMask(nn.Module):
    """(1 - mask) * -1e9, the mask cast to the scores' type first."""

    def __init__(self, d_model, h):
        super().__init__()
        if d_model % h:
            raise ValueError("h must divide d_model")
        self.h = h
        self.query_layer = nn.Linear(d_model, d_model)
        self.key_layer = nn.Linear(d_model, d_model)
        self.value_layer = nn.Linear(d_model, d_model)
        self.output_layer = nn.Linear(d_model, d_model)

    def forward(self, q, k, v, mask=None):
        q = self.query_layer(q).unflatten(-1, (self.h, -1)).transpose(1, 2)
        k = self.key_layer(k).unflatten(-1, (self.h, -1)).transpose(1, 2)
        v = self.value_layer(v).unflatten(-1, (self.h, -1)).transpose(1, 2)
        root = q.size(-1) ** 0.25
        scores = (q / root) @ (k / root).mT
        if mask is not None:
            scores = scores + (1.0 - mask.to(scores.dtype)) * -1e9
        return self.output_layer((scores.softmax(-1) @ v).transpose(1, 2).flatten(2))


@right(EXERCISE)
class TwoDimensionalMasksUnsqueezed(nn.Module):
    """A 2-D mask gets its two leading axes by hand; 3-D and 4-D masks broadcast."""

    def __init__(self, d_model, h):
        super().__init__()
        if d_model % h:
            raise ValueError("h must divide d_model")
        self.h = h
        self.register_buffer("scale", torch.tensor(math.sqrt(d_model // h)))
        self.wq = nn.Linear(d_model, d_model)
        self.wk = nn.Linear(d_model, d_model)
        self.wv = nn.Linear(d_model, d_model)
        self.wo = nn.Linear(d_model, d_model)

    def forward(self, q, k, v, mask=None):
        q = self.wq(q).unflatten(-1, (self.h, -1)).transpose(1, 2)
        k = self.wk(k).unflatten(-1, (self.h, -1)).transpose(1, 2)
        v = self.wv(v).unflatten(-1, (self.h, -1)).transpose(1, 2)
        scores = q @ k.mT / self.scale
        if mask is not None:
            if mask.dim() == 2:
                mask = mask.unsqueeze(0).unsqueeze(0)
            scores = scores.masked_fill(mask == 0, float("-inf"))
        return self.wo((scores.softmax(-1) @ v).transpose(1, 2).flatten(2))


class BaseAttention(nn.Module):
    """Shapes only; the layers come from the child class."""

    def __init__(self, d_model, h):
        super().__init__()
        if d_model % h != 0:
            raise ValueError("d_model must be divisible by h")
        self.h, self.d_k = h, d_model // h

    def split(self, x):
        return x.unflatten(-1, (self.h, self.d_k)).transpose(1, 2)

    def join(self, x):
        return x.transpose(1, 2).flatten(2)

    def attend(self, q, k, v, mask):
        scores = q @ k.mT / math.sqrt(self.d_k)
        if mask is not None:
            scores = scores.masked_fill(mask == 0, float("-inf"))
        return scores.softmax(-1) @ v


@right(EXERCISE)
class FromABaseClass(BaseAttention):
    """Layers here, everything else in a base class."""

    def __init__(self, d_model, h):
        super().__init__(d_model, h)
        self.d = nn.Linear(d_model, d_model)
        self.c = nn.Linear(d_model, d_model)
        self.b = nn.Linear(d_model, d_model)
        self.a = nn.Linear(d_model, d_model)

    def forward(self, q, k, v, mask=None):
        heads = self.attend(self.split(self.a(q)), self.split(self.b(k)), self.split(self.c(v)), mask)
        return self.d(self.join(heads))


@right(EXERCISE)
class MisleadingOrder(nn.Module):
    """a is the output layer, b the values, c the queries, d the keys."""

    def __init__(self, width, n):
        super().__init__()
        assert width % n == 0
        self.n = n
        self.a = nn.Linear(width, width)
        self.b = nn.Linear(width, width)
        self.c = nn.Linear(width, width)
        self.d = nn.Linear(width, width)

    def forward(self, q, k, v, mask=None):
        q = self.c(q).view(*q.shape[:2], self.n, -1)
        k = self.d(k).view(*k.shape[:2], self.n, -1)
        v = self.b(v).view(*v.shape[:2], self.n, -1)
        s = torch.einsum("bqnd,bknd->bnqk", q, k).div_(q.shape[-1] ** 0.5)
        if mask is not None:
            s = s.masked_fill(mask == 0, float("-inf"))
        y = torch.einsum("bnqk,bknd->bqnd", s.softmax(dim=-1), v)
        return self.a(y.flatten(-2))


class _Scriptable(nn.Module):
    def __init__(self, d_model: int, h: int):
        super().__init__()
        if d_model % h != 0:
            raise ValueError("h must divide d_model")
        self.h = h
        self.d_k = d_model // h
        self.wq = nn.Linear(d_model, d_model)
        self.wk = nn.Linear(d_model, d_model)
        self.wv = nn.Linear(d_model, d_model)
        self.wo = nn.Linear(d_model, d_model)

    def split(self, x: torch.Tensor) -> torch.Tensor:
        return x.view(x.size(0), x.size(1), self.h, self.d_k).transpose(1, 2)

    def forward(
        self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, mask: torch.Tensor | None = None
    ) -> torch.Tensor:
        q, k, v = self.split(self.wq(q)), self.split(self.wk(k)), self.split(self.wv(v))
        scores = torch.matmul(q, k.transpose(-2, -1)) / float(self.d_k) ** 0.5
        if mask is not None:
            scores = scores.masked_fill(mask == 0, float("-inf"))
        out = torch.matmul(torch.softmax(scores, dim=-1), v)
        return self.wo(out.transpose(1, 2).reshape(q.size(0), q.size(2), self.h * self.d_k))


@right(EXERCISE, "a TorchScript module, made by a factory")
def scripted_multi_head(d_model, h):
    """A factory function that returns a scripted module."""
    return torch.jit.script(_Scriptable(d_model, h))


@right(EXERCISE)
class PrintsAndAsserts(nn.Module):
    """Prints, warns, asserts; comments in Chinese; returns (output, averaged weights)."""

    def __init__(self, d_model, h):
        super().__init__()
        assert isinstance(d_model, int), "d_model 必须是整数"
        assert d_model % h == 0, f"d_model={d_model} 不能被 h={h} 整除"
        self.h = h
        self.d_k = d_model // h
        self.wq = nn.Linear(d_model, d_model)
        self.wk = nn.Linear(d_model, d_model)
        self.wv = nn.Linear(d_model, d_model)
        self.wo = nn.Linear(d_model, d_model)

    def forward(self, q, k, v, mask=None):
        assert q.dim() == k.dim() == v.dim() == 3
        assert k.shape[1] == v.shape[1], "K 和 V 的长度必须一样"
        B = q.shape[0]
        # 线性变换之后拆成多头
        q = self.wq(q).reshape(B, -1, self.h, self.d_k).transpose(1, 2)
        k = self.wk(k).reshape(B, -1, self.h, self.d_k).transpose(1, 2)
        v = self.wv(v).reshape(B, -1, self.h, self.d_k).transpose(1, 2)
        print(q.shape, k.shape, v.shape)
        scores = q @ k.transpose(-2, -1) / self.d_k**0.5  # 缩放
        if mask is not None:
            print("mask", mask.shape, mask.dtype)
            scores = scores.masked_fill(mask == 0, float("-inf"))
        else:
            warnings.warn("no mask given", stacklevel=2)
        weights = scores.softmax(-1)
        out = weights @ v
        # 把多头拼回来
        out = out.transpose(1, 2).reshape(B, -1, self.h * self.d_k)
        return self.wo(out), weights.mean(dim=1)


@right(EXERCISE)
class SoftmaxInFloat32(nn.Module):
    """Softmax in float32, cast back, as large models do."""

    def __init__(self, hidden_size, num_attention_heads, attention_bias=False):
        super().__init__()
        if hidden_size % num_attention_heads != 0:
            raise ValueError("hidden_size is not a multiple of the number of heads")
        self.head_dim = hidden_size // num_attention_heads
        self.q_proj = nn.Linear(hidden_size, hidden_size, bias=attention_bias)
        self.k_proj = nn.Linear(hidden_size, hidden_size, bias=attention_bias)
        self.v_proj = nn.Linear(hidden_size, hidden_size, bias=attention_bias)
        self.o_proj = nn.Linear(hidden_size, hidden_size, bias=attention_bias)

    def forward(self, query_states, key_states, value_states, attention_mask=None):
        shape = (*query_states.shape[:-1], -1, self.head_dim)
        key_shape = (*key_states.shape[:-1], -1, self.head_dim)
        q = self.q_proj(query_states).view(shape).transpose(1, 2)
        k = self.k_proj(key_states).view(key_shape).transpose(1, 2)
        v = self.v_proj(value_states).view(key_shape).transpose(1, 2)
        attn = torch.matmul(q, k.transpose(2, 3)) * self.head_dim**-0.5
        if attention_mask is not None:
            blocked = attention_mask == 0
            causal = torch.zeros_like(attn).masked_fill_(blocked, torch.finfo(attn.dtype).min)
            attn = attn + causal
        attn = F.softmax(attn, dim=-1, dtype=torch.float32).to(q.dtype)
        out = torch.matmul(attn, v).transpose(1, 2).contiguous()
        return self.o_proj(out.reshape(*query_states.shape[:-1], -1))


@right(EXERCISE)
class FunctionsBeside(nn.Module):
    """Splits and merges through functions written outside the class; log-softmax inside."""

    def __init__(self, d_model, h):
        super().__init__()
        if d_model % h:
            raise AssertionError("h must divide d_model")
        self.num_heads = h
        self.proj = nn.ModuleList(nn.Linear(d_model, d_model) for _ in range(3))
        self.final = nn.Linear(d_model, d_model)

    def forward(self, q, k, v, mask=None):
        q, k, v = (_split(layer(x), self.num_heads) for layer, x in zip(self.proj, (q, k, v), strict=True))
        logits = q @ k.mT / math.sqrt(q.shape[-1])
        if mask is not None:
            logits = logits.masked_fill(mask < 0.5 if mask.is_floating_point() else mask == 0, -torch.inf)
        return self.final(_merge(torch.log_softmax(logits, dim=-1).exp() @ v))


def _split(x, h):
    return torch.stack(x.chunk(h, dim=-1), dim=1)


def _merge(x):
    return torch.cat([head.squeeze(1) for head in x.split(1, dim=1)], dim=-1)


@right(EXERCISE)
class TransposedScores(nn.Module):
    """Scores with keys down and queries across; the mask is turned as well."""

    def __init__(self, d_model, h):
        super().__init__()
        assert d_model % h == 0
        self.h = h
        self.wq = nn.Linear(d_model, d_model)
        self.wk = nn.Linear(d_model, d_model)
        self.wv = nn.Linear(d_model, d_model)
        self.wo = nn.Linear(d_model, d_model)

    def forward(self, q, k, v, mask=None):
        B, Lq, _ = q.shape
        Lk = k.shape[1]
        qt = self.wq(q).mT.reshape(B, self.h, -1, Lq)  # (B, h, d_k, Lq)
        kt = self.wk(k).mT.reshape(B, self.h, -1, Lk)
        vt = self.wv(v).mT.reshape(B, self.h, -1, Lk)
        scores = kt.mT @ qt / qt.shape[2] ** 0.5  # (B, h, Lk, Lq)
        if mask is not None:
            mask = mask.expand(B, self.h, Lq, Lk).transpose(2, 3)
            scores = scores.masked_fill(mask == 0, float("-inf"))
        out = vt @ scores.softmax(dim=2)  # (B, h, d_k, Lq)
        return self.wo(out.flatten(1, 2).mT)


@right(EXERCISE, "keys and values are cached between calls only under a flag that is off")
class OptionalExtras(nn.Module):
    """Optional cache, optional weights, a last_weights attribute."""

    def __init__(self, d_model, h, use_cache=False):
        super().__init__()
        if d_model % h:
            raise ValueError("h must divide d_model")
        self.h = h
        self.use_cache = use_cache
        self.cache = None
        self.last_weights = None
        self.w_q = nn.Linear(d_model, d_model)
        self.w_k = nn.Linear(d_model, d_model)
        self.w_v = nn.Linear(d_model, d_model)
        self.w_o = nn.Linear(d_model, d_model)

    def forward(self, q, k, v, mask=None, need_weights=False):
        q = self.w_q(q).unflatten(-1, (self.h, -1)).transpose(1, 2)
        k = self.w_k(k).unflatten(-1, (self.h, -1)).transpose(1, 2)
        v = self.w_v(v).unflatten(-1, (self.h, -1)).transpose(1, 2)
        if self.use_cache:
            if self.cache is not None:
                k = torch.cat([self.cache[0], k], dim=2)
                v = torch.cat([self.cache[1], v], dim=2)
            self.cache = (k, v)
        scores = q @ k.mT / q.shape[-1] ** 0.5
        if mask is not None:
            scores = scores.masked_fill(mask == 0, float("-inf"))
        weights = scores.softmax(-1)
        self.last_weights = weights.detach()
        out = self.w_o((weights @ v).transpose(1, 2).flatten(2))
        return (out, weights) if need_weights else out

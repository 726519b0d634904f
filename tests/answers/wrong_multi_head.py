"""Wrong answers to MultiHeadAttention: the catalogue's mistakes in two styles, and others."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from . import wrong

EXERCISE = "MultiHeadAttention"
NEAR_ZERO = ("fill-tiny-positive", "fill-tiny-negative", "mask-multiplied")


class _Four(nn.Module):
    """What most answers below share: four layers with the contract's names, split and merge."""

    def __init__(self, d_model, h):
        super().__init__()
        if d_model % h != 0:
            raise ValueError("d_model must be divisible by h")
        self.d_model = d_model
        self.h = h
        self.d_k = d_model // h
        self.wq = nn.Linear(d_model, d_model)
        self.wk = nn.Linear(d_model, d_model)
        self.wv = nn.Linear(d_model, d_model)
        self.wo = nn.Linear(d_model, d_model)

    def split(self, x):
        return x.view(x.shape[0], x.shape[1], self.h, self.d_k).transpose(1, 2)

    def merge(self, x):
        return x.transpose(1, 2).reshape(x.shape[0], x.shape[2], self.d_model)

    def project(self, q, k, v):
        return self.split(self.wq(q)), self.split(self.wk(k)), self.split(self.wv(v))


class _Vision(nn.Module):
    """Another shared part: to_q, to_k, to_v, to_out, einsum and a stored scale."""

    def __init__(self, dim, heads):
        super().__init__()
        assert dim % heads == 0, "dim must be divisible by heads"
        self.heads = heads
        self.scale = (dim // heads) ** -0.5
        self.to_q = nn.Linear(dim, dim, bias=False)
        self.to_k = nn.Linear(dim, dim, bias=False)
        self.to_v = nn.Linear(dim, dim, bias=False)
        self.to_out = nn.Linear(dim, dim)

    def qkv(self, q, k, v):
        return (x.unflatten(-1, (self.heads, -1)).transpose(1, 2) for x in (self.to_q(q), self.to_k(k), self.to_v(v)))

    def out(self, x):
        return self.to_out(x.transpose(1, 2).flatten(2))


def hide(scores, mask):
    """The right masking, for the answers whose mistake lies elsewhere."""
    return scores if mask is None else scores.masked_fill(mask == 0, float("-inf"))


# ---------------------------------------------------------------- projections and parameters


@wrong(EXERCISE, "k-uses-wq", "q-uses-wk")
class KeysThroughWq(nn.Module):
    """k = wq(k)."""

    def __init__(self, d_model: int, h: int):
        super().__init__()
        if d_model % h != 0:
            raise ValueError(f"d_model ({d_model}) must be divisible by h ({h})")
        self.h = h
        self.d_k = d_model // h
        self.wq = nn.Linear(d_model, d_model)
        self.wk = nn.Linear(d_model, d_model)
        self.wv = nn.Linear(d_model, d_model)
        self.wo = nn.Linear(d_model, d_model)

    def forward(self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None) -> Tensor:
        B, L_q, d_model = q.shape
        L_k = k.shape[1]
        q = self.wq(q).view(B, L_q, self.h, self.d_k).transpose(1, 2)
        k = self.wq(k).view(B, L_k, self.h, self.d_k).transpose(1, 2)
        v = self.wv(v).view(B, L_k, self.h, self.d_k).transpose(1, 2)
        scores = q @ k.transpose(-2, -1) / math.sqrt(self.d_k)
        if mask is not None:
            scores = scores.masked_fill(mask == 0, float("-inf"))
        context = scores.softmax(dim=-1) @ v
        return self.wo(context.transpose(1, 2).reshape(B, L_q, d_model))


@wrong(EXERCISE, "k-uses-wq", "q-uses-wk")
class QueriesThroughToK(_Vision):
    """to_k projects the queries as well."""

    def forward(self, x, context, values, mask=None):
        b, n, h = *x.shape[:2], self.heads
        q, k, v = self.to_k(x), self.to_k(context), self.to_v(values)
        q, k, v = (t.reshape(b, -1, h, t.shape[-1] // h).transpose(1, 2) for t in (q, k, v))
        sim = hide(torch.einsum("bhid,bhjd->bhij", q, k) * self.scale, mask)
        return self.to_out((sim.softmax(-1) @ v).transpose(1, 2).reshape(b, n, -1))


@wrong(EXERCISE, "v-uses-wk")
class ValuesThroughWk(_Four):
    """v = wk(v)."""

    def forward(self, q, k, v, mask=None):
        q = self.split(self.wq(q))
        k = self.split(self.wk(k))
        v = self.split(self.wk(v))
        scores = hide(q @ k.mT / math.sqrt(self.d_k), mask)
        return self.wo(self.merge(scores.softmax(-1) @ v))


@wrong(EXERCISE, "v-uses-wk", "weights-times-keys")
class WeightsTimesKeys(_Vision):
    """attn @ k."""

    def forward(self, q, k, v, mask=None):
        q, k, v = self.qkv(q, k, v)
        attn = hide(torch.einsum("bhid,bhjd->bhij", q, k) * self.scale, mask).softmax(dim=-1)
        return self.out(torch.einsum("bhij,bhjd->bhid", attn, k))


@wrong(EXERCISE, "loop-overwrites-input")
class LoopRebinds(nn.Module):
    """The loop over heads rebinds q, k and v: head 2 sees what head 1 made."""

    def __init__(self, d_model, h):
        super().__init__()
        if d_model % h:
            raise ValueError("not divisible")
        self.h, self.d_k = h, d_model // h
        self.qs = nn.ModuleList([nn.Linear(d_model, self.d_k) for _ in range(h)])
        self.ks = nn.ModuleList([nn.Linear(d_model, self.d_k) for _ in range(h)])
        self.vs = nn.ModuleList([nn.Linear(d_model, self.d_k) for _ in range(h)])
        self.wo = nn.Linear(d_model, d_model)

    def forward(self, q, k, v, mask=None):
        outs = []
        for i in range(self.h):
            q, k, v = self.qs[i](q), self.ks[i](k), self.vs[i](v)
            scores = q @ k.mT / math.sqrt(self.d_k)
            if mask is not None:
                scores = scores.masked_fill(mask == 0, float("-inf"))
            outs.append(scores.softmax(-1) @ v)
        return self.wo(torch.cat(outs, dim=-1))


@wrong(EXERCISE, "loop-overwrites-input")
class LoopRebindsWide(_Four):
    """Wide layers inside the loop, so nothing raises: head 2 projects what head 1 projected."""

    def forward(self, q, k, v, mask=None):
        mask = None if mask is None else mask.expand(q.shape[0], self.h, q.shape[1], k.shape[1])
        heads = []
        for i in range(self.h):
            q, k, v = self.wq(q), self.wk(k), self.wv(v)
            s = slice(i * self.d_k, (i + 1) * self.d_k)
            scores = hide(q[..., s] @ k[..., s].mT / self.d_k**0.5, None if mask is None else mask[:, i])
            heads.append(scores.softmax(-1) @ v[..., s])
        return self.wo(torch.cat(heads, -1))


@wrong(EXERCISE, "stream-not-projected")
class RawValues(_Four):
    """The values are split without being projected."""

    def forward(self, q, k, v, mask=None):
        q, k, v = self.split(self.wq(q)), self.split(self.wk(k)), self.split(v)
        scores = hide(q @ k.mT / math.sqrt(self.d_k), mask)
        return self.wo(self.merge(scores.softmax(-1) @ v))


@wrong(EXERCISE, "stream-not-projected")
class RawQueries(_Vision):
    """The queries are not projected."""

    def forward(self, q, k, v, mask=None):
        q, k, v = (x.unflatten(-1, (self.heads, -1)).transpose(1, 2) for x in (q, self.to_k(k), self.to_v(v)))
        return self.out(hide(q @ k.mT * self.scale, mask).softmax(-1) @ v)


@wrong(EXERCISE, "stream-not-projected")
class RawKeys(_Four):
    """The keys are not projected."""

    def forward(self, q, k, v, mask=None):
        q, v = self.split(self.wq(q)), self.split(self.wv(v))
        k_t = k.view(k.shape[0], k.shape[1], self.h, self.d_k).permute(0, 2, 3, 1)
        return self.wo(self.merge(hide(q @ k_t / math.sqrt(self.d_k), mask).softmax(-1) @ v))


@wrong(EXERCISE, "split-before-projection")
class SmallSharedLayers(nn.Module):
    """The input is cut into heads first; one d_k by d_k layer serves all heads."""

    def __init__(self, embed_size, heads):
        super().__init__()
        assert embed_size % heads == 0
        self.heads = heads
        self.head_dim = embed_size // heads
        self.values = nn.Linear(self.head_dim, self.head_dim, bias=False)
        self.keys = nn.Linear(self.head_dim, self.head_dim, bias=False)
        self.queries = nn.Linear(self.head_dim, self.head_dim, bias=False)
        self.fc_out = nn.Linear(heads * self.head_dim, embed_size)

    def forward(self, query, keys, values, mask=None):
        N = query.shape[0]
        value_len, key_len, query_len = values.shape[1], keys.shape[1], query.shape[1]
        values = self.values(values.reshape(N, value_len, self.heads, self.head_dim))
        keys = self.keys(keys.reshape(N, key_len, self.heads, self.head_dim))
        queries = self.queries(query.reshape(N, query_len, self.heads, self.head_dim))
        energy = torch.einsum("nqhd,nkhd->nhqk", [queries, keys])
        if mask is not None:
            energy = energy.masked_fill(mask == 0, float("-1e20"))
        attention = torch.softmax(energy / self.head_dim ** (1 / 2), dim=3)
        out = torch.einsum("nhql,nlhd->nqhd", [attention, values])
        return self.fc_out(out.reshape(N, query_len, self.heads * self.head_dim))


@wrong(EXERCISE, "split-before-projection")
class SmallLayersOfTheirOwn(nn.Module):
    """Every head projects only its own slice of the token."""

    def __init__(self, d_model, h):
        super().__init__()
        if d_model % h:
            raise ValueError("not divisible")
        d_k = d_model // h
        self.h = h
        self.q = nn.ModuleList(nn.Linear(d_k, d_k) for _ in range(h))
        self.k = nn.ModuleList(nn.Linear(d_k, d_k) for _ in range(h))
        self.v = nn.ModuleList(nn.Linear(d_k, d_k) for _ in range(h))
        self.o = nn.Linear(d_model, d_model)

    def forward(self, q, k, v, mask=None):
        q = torch.stack([f(x) for f, x in zip(self.q, q.chunk(self.h, -1), strict=True)], 1)
        k = torch.stack([f(x) for f, x in zip(self.k, k.chunk(self.h, -1), strict=True)], 1)
        v = torch.stack([f(x) for f, x in zip(self.v, v.chunk(self.h, -1), strict=True)], 1)
        w = hide(q @ k.mT / math.sqrt(q.shape[-1]), mask).softmax(-1)
        return self.o((w @ v).transpose(1, 2).flatten(2))


@wrong(EXERCISE, "weight-transposed")
class LinearWeightsUsedTheWrongWay(_Four):
    """x @ layer.weight where nn.Linear means x @ layer.weight.T."""

    def forward(self, q, k, v, mask=None):
        q = self.split(q @ self.wq.weight + self.wq.bias)
        k = self.split(k @ self.wk.weight + self.wk.bias)
        v = self.split(v @ self.wv.weight + self.wv.bias)
        w = hide(q @ k.mT / math.sqrt(self.d_k), mask).softmax(-1)
        return self.merge(w @ v) @ self.wo.weight + self.wo.bias


@wrong(EXERCISE, "heads-in-python-list")
class HeadsInAList(nn.Module):
    """The heads sit in a plain list."""

    def __init__(self, d_model, h):
        super().__init__()
        if d_model % h:
            raise ValueError("not divisible")
        d_k = d_model // h
        self.heads = [[nn.Linear(d_model, d_k) for _ in range(3)] for _ in range(h)]
        self.wo = nn.Linear(d_model, d_model)

    def forward(self, q, k, v, mask=None):
        outs = []
        for wq, wk, wv in self.heads:
            scores = wq(q) @ wk(k).mT / wq.out_features**0.5
            if mask is not None:
                scores = scores.masked_fill(mask == 0, float("-inf"))
            outs.append(scores.softmax(-1) @ wv(v))
        return self.wo(torch.cat(outs, -1))


@wrong(EXERCISE, "heads-in-python-list")
class LinearsInAList(nn.Module):
    """[nn.Linear] * 4 in a plain list: not registered, and all four the same object."""

    def __init__(self, d_model, h):
        super().__init__()
        assert d_model % h == 0
        self.h = h
        self.linears = [nn.Linear(d_model, d_model) for _ in range(4)]

    def forward(self, q, k, v, mask=None):
        q, k, v = (
            layer(x).unflatten(-1, (self.h, -1)).transpose(1, 2)
            for layer, x in zip(self.linears, (q, k, v), strict=False)
        )
        w = hide(q @ k.mT / math.sqrt(q.shape[-1]), mask).softmax(-1)
        return self.linears[-1]((w @ v).transpose(1, 2).flatten(2))


@wrong(EXERCISE, "float-head-dim")
class FloatHeadDim(nn.Module):
    """d_model / h."""

    def __init__(self, d_model, h):
        super().__init__()
        assert d_model % h == 0
        self.h = h
        self.d_k = d_model / h
        self.wq = nn.Linear(d_model, d_model)
        self.wk = nn.Linear(d_model, d_model)
        self.wv = nn.Linear(d_model, d_model)
        self.wo = nn.Linear(d_model, d_model)

    def forward(self, q, k, v, mask=None):
        B = q.shape[0]
        q = self.wq(q).view(B, -1, self.h, self.d_k).transpose(1, 2)
        k = self.wk(k).view(B, -1, self.h, self.d_k).transpose(1, 2)
        v = self.wv(v).view(B, -1, self.h, self.d_k).transpose(1, 2)
        w = hide(q @ k.mT / math.sqrt(self.d_k), mask).softmax(-1)
        return self.wo((w @ v).transpose(1, 2).reshape(B, -1, self.h * self.d_k))


@wrong(EXERCISE, "float-head-dim")
class FloatHeadDimInLayers(nn.Module):
    """nn.Linear(d_model, d_model / h)."""

    def __init__(self, d_model, h):
        super().__init__()
        if d_model % h:
            raise ValueError("not divisible")
        self.heads = nn.ModuleList(nn.Linear(d_model, d_model / h) for _ in range(3 * h))
        self.wo = nn.Linear(d_model, d_model)

    def forward(self, q, k, v, mask=None):
        return self.wo(q)


@wrong(EXERCISE, "no-divisibility-check")
class NoCheck(nn.Module):
    """d_model and h are taken as they come."""

    def __init__(self, d_model, h):
        super().__init__()
        self.h = h
        self.d_k = d_model // h
        self.wq = nn.Linear(d_model, d_model)
        self.wk = nn.Linear(d_model, d_model)
        self.wv = nn.Linear(d_model, d_model)
        self.wo = nn.Linear(d_model, d_model)

    def forward(self, q, k, v, mask=None):
        B, L_q, d_model = q.shape
        q = self.wq(q).view(B, -1, self.h, self.d_k).transpose(1, 2)
        k = self.wk(k).view(B, -1, self.h, self.d_k).transpose(1, 2)
        v = self.wv(v).view(B, -1, self.h, self.d_k).transpose(1, 2)
        scores = q @ k.mT / math.sqrt(self.d_k)
        if mask is not None:
            scores = scores.masked_fill(mask == 0, float("-inf"))
        return self.wo((scores.softmax(-1) @ v).transpose(1, 2).reshape(B, L_q, d_model))


@wrong(EXERCISE, "no-divisibility-check")
class RoundsDown(nn.Module):
    """Layers of h * (d_model // h): 13 features and 3 heads work silently."""

    def __init__(self, d_model, h):
        super().__init__()
        self.h = h
        inner = h * (d_model // h)
        self.to_q = nn.Linear(d_model, inner)
        self.to_k = nn.Linear(d_model, inner)
        self.to_v = nn.Linear(d_model, inner)
        self.to_out = nn.Linear(inner, d_model)

    def forward(self, q, k, v, mask=None):
        q, k, v = (x.unflatten(-1, (self.h, -1)).transpose(1, 2) for x in (self.to_q(q), self.to_k(k), self.to_v(v)))
        w = hide(q @ k.mT / math.sqrt(q.shape[-1]), mask).softmax(-1)
        return self.to_out((w @ v).transpose(1, 2).flatten(2))


@wrong(EXERCISE, "no-divisibility-check")
class ChecksTooLate(_Four):
    """The check waits for the first forward."""

    def __init__(self, d_model, h):
        nn.Module.__init__(self)
        self.d_model, self.h, self.d_k = d_model, h, d_model // h
        self.wq, self.wk = nn.Linear(d_model, d_model), nn.Linear(d_model, d_model)
        self.wv, self.wo = nn.Linear(d_model, d_model), nn.Linear(d_model, d_model)

    def forward(self, q, k, v, mask=None):
        if self.d_model % self.h:
            raise ValueError("d_model must be divisible by h")
        q, k, v = self.project(q, k, v)
        return self.wo(self.merge(hide(q @ k.mT / math.sqrt(self.d_k), mask).softmax(-1) @ v))


@wrong(EXERCISE, "no-divisibility-check")
class PrintsInsteadOfRaising(NoCheck):
    """Prints a complaint and goes on."""

    def __init__(self, d_model, h):
        if d_model % h != 0:
            print("Error: d_model must be divisible by h")
        super().__init__(d_model, h)


@wrong(EXERCISE, "fixed-head-size")
class HeadSizeOf64(nn.Module):
    """d_k = 64."""

    def __init__(self, d_model, h):
        super().__init__()
        assert d_model % h == 0
        self.h, self.d_k = h, 64
        self.wq = nn.Linear(d_model, d_model)
        self.wk = nn.Linear(d_model, d_model)
        self.wv = nn.Linear(d_model, d_model)
        self.wo = nn.Linear(d_model, d_model)

    def forward(self, q, k, v, mask=None):
        B = q.shape[0]
        q = self.wq(q).view(B, -1, self.h, self.d_k).transpose(1, 2)
        k = self.wk(k).view(B, -1, self.h, self.d_k).transpose(1, 2)
        v = self.wv(v).view(B, -1, self.h, self.d_k).transpose(1, 2)
        w = hide(q @ k.mT / math.sqrt(self.d_k), mask).softmax(-1)
        return self.wo((w @ v).transpose(1, 2).flatten(2))


@wrong(EXERCISE, "fixed-head-size")
class ScaleOfEight(_Four):
    """Divides by 8."""

    def forward(self, q, k, v, mask=None):
        q, k, v = self.project(q, k, v)
        return self.wo(self.merge(hide(q @ k.mT / 8, mask).softmax(-1) @ v))


@wrong(EXERCISE, "fixed-head-size")
class AlwaysFourHeads(nn.Module):
    """h is ignored: always 4 heads."""

    def __init__(self, d_model, h):
        super().__init__()
        if d_model % h:
            raise ValueError("not divisible")
        self.layers = nn.ModuleList(nn.Linear(d_model, d_model) for _ in range(4))

    def forward(self, q, k, v, mask=None):
        q, k, v = (
            layer(x).unflatten(-1, (4, -1)).transpose(1, 2) for layer, x in zip(self.layers, (q, k, v), strict=False)
        )
        w = hide(q @ k.mT / math.sqrt(q.shape[-1]), mask).softmax(-1)
        return self.layers[3]((w @ v).transpose(1, 2).flatten(2))


# ---------------------------------------------------------------- scores and scale


@wrong(EXERCISE, "scale-missing")
class NoScale(_Four):
    """No division."""

    def forward(self, q, k, v, mask=None):
        q, k, v = self.project(q, k, v)
        return self.wo(self.merge(hide(q @ k.transpose(-2, -1), mask).softmax(-1) @ v))


@wrong(EXERCISE, "scale-missing")
class ScaleForgotten(_Vision):
    """self.scale is stored and never used."""

    def forward(self, q, k, v, mask=None):
        q, k, v = self.qkv(q, k, v)
        sim = torch.einsum("bhid,bhjd->bhij", q, k)
        if mask is not None:
            sim = sim.masked_fill(~mask.bool(), -torch.finfo(sim.dtype).max)
        return self.out(torch.einsum("bhij,bhjd->bhid", sim.softmax(-1), v))


@wrong(EXERCISE, "scale-d-model")
class ScaleByFullWidth(nn.Module):
    """√d_model instead of √d_k."""

    def __init__(self, d_model, h):
        super().__init__()
        assert d_model % h == 0
        self.d_model, self.h, self.d_k = d_model, h, d_model // h
        self.wq = nn.Linear(d_model, d_model)
        self.wk = nn.Linear(d_model, d_model)
        self.wv = nn.Linear(d_model, d_model)
        self.wo = nn.Linear(d_model, d_model)

    def forward(self, q, k, v, mask=None):
        B = q.size(0)
        q = self.wq(q).view(B, -1, self.h, self.d_k).transpose(1, 2)
        k = self.wk(k).view(B, -1, self.h, self.d_k).transpose(1, 2)
        v = self.wv(v).view(B, -1, self.h, self.d_k).transpose(1, 2)
        attn = torch.matmul(q, k.transpose(-2, -1)) / math.sqrt(self.d_model)
        if mask is not None:
            attn = attn.masked_fill(mask == 0, -1e9)
        attn = F.softmax(attn, dim=-1)
        out = torch.matmul(attn, v).transpose(1, 2).contiguous().view(B, -1, self.d_model)
        return self.wo(out)


@wrong(EXERCISE, "scale-d-model")
class ScaleByFullWidthOnQueries(_Vision):
    """The queries are scaled before they are split, by the width they have there."""

    def forward(self, q, k, v, mask=None):
        q, k, v = self.qkv(q * q.shape[-1] ** -0.5, k, v)
        return self.out(hide(q @ k.mT, mask).softmax(-1) @ v)


@wrong(EXERCISE, "scale-inverted")
class MultipliedByRoot(_Four):
    """Multiplies by √d_k."""

    def forward(self, q, k, v, mask=None):
        q, k, v = self.project(q, k, v)
        return self.wo(self.merge(hide(q @ k.mT * math.sqrt(self.d_k), mask).softmax(-1) @ v))


@wrong(EXERCISE, "scale-inverted")
class DividedByScale(_Vision):
    """Divides by d_k ** -0.5."""

    def forward(self, q, k, v, mask=None):
        q, k, v = self.qkv(q, k, v)
        return self.out(hide(q @ k.mT / self.scale, mask).softmax(-1) @ v)


@wrong(EXERCISE, "scale-no-sqrt")
class DividedByDk(_Four):
    """Divides by d_k."""

    def forward(self, q, k, v, mask=None):
        q, k, v = self.project(q, k, v)
        return self.wo(self.merge(hide(q @ k.mT / self.d_k, mask).softmax(-1) @ v))


@wrong(EXERCISE, "scale-no-sqrt")
class ScaledTwice(_Vision):
    """Scaled on the queries and on the scores."""

    def forward(self, q, k, v, mask=None):
        q, k, v = self.qkv(q, k, v)
        q = q * self.scale
        return self.out(hide(q @ k.mT * self.scale, mask).softmax(-1) @ v)


@wrong(EXERCISE, "scale-after-softmax")
class WeightsDivided(_Four):
    """The weights are divided."""

    def forward(self, q, k, v, mask=None):
        q, k, v = self.project(q, k, v)
        weights = hide(q @ k.mT, mask).softmax(-1) / math.sqrt(self.d_k)
        return self.wo(self.merge(weights @ v))


@wrong(EXERCISE, "scale-after-softmax")
class ContextDivided(_Vision):
    """The context is divided."""

    def forward(self, q, k, v, mask=None):
        q, k, v = self.qkv(q, k, v)
        return self.out(hide(q @ k.mT, mask).softmax(-1) @ v * self.scale)


@wrong(EXERCISE, "sqrt-of-int")
class TorchSqrtOfInt(_Four):
    """torch.sqrt(d_k)."""

    def forward(self, q, k, v, mask=None):
        q, k, v = self.project(q, k, v)
        scores = q @ k.mT / torch.sqrt(self.d_k)
        return self.wo(self.merge(hide(scores, mask).softmax(-1) @ v))


@wrong(EXERCISE, "k-not-transposed")
class KeysNotTransposed(_Four):
    """q @ k."""

    def forward(self, q, k, v, mask=None):
        q, k, v = self.project(q, k, v)
        scores = torch.matmul(q, k) / math.sqrt(self.d_k)
        return self.wo(self.merge(hide(scores, mask).softmax(-1) @ v))


@wrong(EXERCISE, "k-wrong-transpose")
class KeysSwapHeadsAndLength(_Four):
    """transpose(1, 2) on four axes."""

    def forward(self, q, k, v, mask=None):
        q, k, v = self.project(q, k, v)
        scores = torch.matmul(q, k.transpose(1, 2)) / math.sqrt(self.d_k)
        return self.wo(self.merge(hide(scores, mask).softmax(-1) @ v))


@wrong(EXERCISE, "k-wrong-transpose")
class KeysFullyReversed(_Four):
    """All axes reversed."""

    def forward(self, q, k, v, mask=None):
        q, k, v = self.project(q, k, v)
        scores = torch.matmul(q, k.permute(3, 2, 1, 0)) / math.sqrt(self.d_k)
        return self.wo(self.merge(hide(scores, mask).softmax(-1) @ v))


@wrong(EXERCISE, "k-wrong-transpose")
class KeysViewedAsTransposed(_Vision):
    """A reshape to (B, h, d_k, L) instead of a transpose."""

    def forward(self, q, k, v, mask=None):
        q, k, v = self.qkv(q, k, v)
        k_t = k.reshape(k.shape[0], k.shape[1], k.shape[3], k.shape[2])
        return self.out(hide(q @ k_t * self.scale, mask).softmax(-1) @ v)


# ---------------------------------------------------------------- softmax


@wrong(EXERCISE, "softmax-over-queries")
class SoftmaxOverQueries(_Four):
    """dim=-2."""

    def forward(self, q, k, v, mask=None):
        q, k, v = self.project(q, k, v)
        scores = q @ k.mT / math.sqrt(self.d_k)
        if mask is not None:
            scores = scores.masked_fill(mask == 0, -1e9)
        return self.wo(self.merge(torch.softmax(scores, dim=-2) @ v))


@wrong(EXERCISE, "softmax-over-queries")
class SoftmaxDimTwo(_Vision):
    """dim=2, as it was right for three axes."""

    def forward(self, q, k, v, mask=None):
        q, k, v = self.qkv(q, k, v)
        sim = hide(torch.einsum("bhid,bhjd->bhij", q, k) * self.scale, mask)
        return self.out(torch.einsum("bhij,bhjd->bhid", F.softmax(sim, dim=2), v))


@wrong(EXERCISE, "softmax-over-batch")
class SoftmaxOverBatch(_Four):
    """dim=0."""

    def forward(self, q, k, v, mask=None):
        q, k, v = self.project(q, k, v)
        scores = q @ k.mT / math.sqrt(self.d_k)
        if mask is not None:
            scores = scores.masked_fill(mask == 0, -1e9)
        return self.wo(self.merge(torch.softmax(scores, dim=0) @ v))


@wrong(EXERCISE, "softmax-implicit-axis")
class SoftmaxWithoutAxis(_Four):
    """F.softmax without an axis: over the heads."""

    def forward(self, q, k, v, mask=None):
        q, k, v = self.project(q, k, v)
        scores = q @ k.mT / math.sqrt(self.d_k)
        if mask is not None:
            scores = scores.masked_fill(mask == 0, -1e9)
        return self.wo(self.merge(F.softmax(scores) @ v))


@wrong(EXERCISE, "softmax-implicit-axis")
class SoftmaxOverHeads(_Vision):
    """dim=1: over the heads."""

    def forward(self, q, k, v, mask=None):
        q, k, v = self.qkv(q, k, v)
        sim = q @ k.mT * self.scale
        if mask is not None:
            sim = sim.masked_fill(mask == 0, -1e9)
        return self.out(sim.softmax(dim=1) @ v)


@wrong(EXERCISE, "softmax-missing")
class NoSoftmax(_Four):
    """Raw scores as weights."""

    def forward(self, q, k, v, mask=None):
        q, k, v = self.project(q, k, v)
        weights = q @ k.mT / math.sqrt(self.d_k)
        if mask is not None:
            weights = weights.masked_fill(mask == 0, 0)
        return self.wo(self.merge(weights @ v))


@wrong(EXERCISE, "softmax-missing")
class SoftmaxNotUsed(_Vision):
    """The softmax is computed, the scores are used."""

    def forward(self, q, k, v, mask=None):
        q, k, v = self.qkv(q, k, v)
        sim = torch.einsum("bhid,bhjd->bhij", q, k) * self.scale
        if mask is not None:
            sim = sim.masked_fill(mask == 0, -1e9)
        attn = sim.softmax(dim=-1)  # noqa: F841
        return self.out(torch.einsum("bhij,bhjd->bhid", sim, v))


@wrong(EXERCISE, "softmax-twice")
class SoftmaxTwice(_Four):
    """Once in a helper, once more in forward."""

    def weights(self, q, k, mask):
        return hide(q @ k.mT / math.sqrt(self.d_k), mask).softmax(-1)

    def forward(self, q, k, v, mask=None):
        q, k, v = self.project(q, k, v)
        weights = F.softmax(self.weights(q, k, mask), dim=-1)
        return self.wo(self.merge(weights @ v))


@wrong(EXERCISE, "naive-exp")
class NaiveExponentials(_Four):
    """exp without the maximum."""

    def forward(self, q, k, v, mask=None):
        q, k, v = self.project(q, k, v)
        e = torch.exp(q @ k.mT / math.sqrt(self.d_k))
        if mask is not None:
            e = e * (mask != 0)
        return self.wo(self.merge(e / e.sum(-1, keepdim=True) @ v))


@wrong(EXERCISE, "naive-exp")
class NaiveExponentialsWithInfinity(_Vision):
    """-inf first, exp next."""

    def forward(self, q, k, v, mask=None):
        q, k, v = self.qkv(q, k, v)
        e = hide(q @ k.mT * self.scale, mask).exp()
        return self.out((e @ v) / e.sum(-1).unsqueeze(-1))


@wrong(EXERCISE, "softmax-in-half")
class SoftmaxInHalf(_Four):
    """The softmax rounds to bfloat16."""

    def forward(self, q, k, v, mask=None):
        q, k, v = self.project(q, k, v)
        weights = hide(q @ k.mT / math.sqrt(self.d_k), mask).bfloat16().softmax(-1).to(v.dtype)
        return self.wo(self.merge(weights @ v))


# ---------------------------------------------------------------- what the mask does


@wrong(EXERCISE, *NEAR_ZERO)
class FillTinyPositive(_Four):
    """1e-20."""

    def forward(self, q, k, v, mask=None):
        q, k, v = self.project(q, k, v)
        scores = q @ k.mT / math.sqrt(self.d_k)
        if mask is not None:
            scores = scores.masked_fill(mask == 0, 1e-20)
        return self.wo(self.merge(scores.softmax(-1) @ v))


@wrong(EXERCISE, *NEAR_ZERO)
class FillTinyNegative(_Vision):
    """-1e-9."""

    def forward(self, q, k, v, mask=None):
        q, k, v = self.qkv(q, k, v)
        sim = q @ k.mT * self.scale
        if mask is not None:
            sim = torch.where(mask == 0, -1e-9, sim)
        return self.out(sim.softmax(-1) @ v)


@wrong(EXERCISE, *NEAR_ZERO)
class MaskMultiplied(_Four):
    """Scores times mask."""

    def forward(self, q, k, v, mask=None):
        q, k, v = self.project(q, k, v)
        scores = q @ k.mT / math.sqrt(self.d_k)
        if mask is not None:
            scores = scores * mask
        return self.wo(self.merge(scores.softmax(-1) @ v))


@wrong(EXERCISE, "fill-not-low-enough")
class FillMinusOne(_Four):
    """-1."""

    def forward(self, q, k, v, mask=None):
        q, k, v = self.project(q, k, v)
        scores = q @ k.mT / math.sqrt(self.d_k)
        if mask is not None:
            scores = scores.masked_fill(mask == 0, -1)
        return self.wo(self.merge(scores.softmax(-1) @ v))


@wrong(EXERCISE, "fill-not-low-enough")
class FillMinusTwenty(_Vision):
    """-20: enough for small scores only."""

    def forward(self, q, k, v, mask=None):
        q, k, v = self.qkv(q, k, v)
        sim = q @ k.mT * self.scale
        if mask is not None:
            sim = sim.masked_fill(mask == 0, -20.0)
        return self.out(sim.softmax(-1) @ v)


@wrong(EXERCISE, "mask-after-softmax")
class MaskAfterSoftmax(_Four):
    """Zeros after the softmax, not renormalised."""

    def forward(self, q, k, v, mask=None):
        q, k, v = self.project(q, k, v)
        weights = torch.softmax(q @ k.mT / math.sqrt(self.d_k), dim=-1)
        if mask is not None:
            weights = weights.masked_fill(mask == 0, 0.0)
        return self.wo(self.merge(weights @ v))


@wrong(EXERCISE, "mask-after-softmax")
class WeightsTimesMask(_Vision):
    """Weights times mask."""

    def forward(self, q, k, v, mask=None):
        q, k, v = self.qkv(q, k, v)
        attn = torch.einsum("bhid,bhjd->bhij", q, k).mul(self.scale).softmax(-1)
        if mask is not None:
            attn = attn * mask
        return self.out(torch.einsum("bhij,bhjd->bhid", attn, v))


@wrong(EXERCISE, "minus-inf-after-softmax")
class InfinityAfterSoftmax(_Four):
    """-inf written into the weights."""

    def forward(self, q, k, v, mask=None):
        q, k, v = self.project(q, k, v)
        weights = torch.softmax(q @ k.mT / math.sqrt(self.d_k), dim=-1)
        if mask is not None:
            weights = weights.masked_fill(mask == 0, float("-inf"))
        return self.wo(self.merge(weights @ v))


@wrong(EXERCISE, "masked-fill-discarded")
class MaskedFillDiscarded(_Four):
    """masked_fill without an assignment."""

    def forward(self, q, k, v, mask=None):
        q, k, v = self.project(q, k, v)
        scores = q @ k.mT / math.sqrt(self.d_k)
        if mask is not None:
            scores.masked_fill(mask == 0, float("-inf"))
        return self.wo(self.merge(scores.softmax(-1) @ v))


@wrong(EXERCISE, "masked-fill-discarded")
class MaskForgotten(_Vision):
    """The mask is an argument and nothing else."""

    def forward(self, q, k, v, mask=None):
        q, k, v = self.qkv(q, k, v)
        return self.out((q @ k.mT * self.scale).softmax(-1) @ v)


@wrong(EXERCISE, "mask-inverted")
class MaskInverted(_Four):
    """Hides where the mask is not 0."""

    def forward(self, q, k, v, mask=None):
        q, k, v = self.project(q, k, v)
        scores = q @ k.mT / math.sqrt(self.d_k)
        if mask is not None:
            scores = scores.masked_fill(mask != 0, -1e9)
        return self.wo(self.merge(scores.softmax(-1) @ v))


@wrong(EXERCISE, "mask-inverted")
class MaskInvertedAdditive(_Vision):
    """mask * -1e9 is added."""

    def forward(self, q, k, v, mask=None):
        q, k, v = self.qkv(q, k, v)
        sim = q @ k.mT * self.scale
        if mask is not None:
            sim = sim + mask * -1e9
        return self.out(sim.softmax(-1) @ v)


@wrong(EXERCISE, "additive-read-as-binary")
class MaskAdded(_Four):
    """scores + mask, as if the mask held 0 and -inf."""

    def forward(self, q, k, v, mask=None):
        q, k, v = self.project(q, k, v)
        scores = q @ k.mT / math.sqrt(self.d_k)
        if mask is not None:
            scores = scores + mask
        return self.wo(self.merge(scores.softmax(-1) @ v))


@wrong(EXERCISE, "zero-times-inf")
class ZeroTimesInfinity(_Four):
    """(1 - mask) * -inf."""

    def forward(self, q, k, v, mask=None):
        q, k, v = self.project(q, k, v)
        scores = q @ k.mT / math.sqrt(self.d_k)
        if mask is not None:
            scores = scores + (1 - mask.to(scores.dtype)) * float("-inf")
        return self.wo(self.merge(scores.softmax(-1) @ v))


@wrong(EXERCISE, "tilde-on-int")
class TildeOnInt(_Four):
    """~mask, then bool: right for bool masks, everything hidden for integers."""

    def forward(self, q, k, v, mask=None):
        q, k, v = self.project(q, k, v)
        scores = q @ k.mT / math.sqrt(self.d_k)
        if mask is not None:
            scores = scores.masked_fill((~mask).bool(), float("-inf"))
        return self.wo(self.merge(scores.softmax(-1) @ v))


@wrong(EXERCISE, "tilde-on-int")
class TildeWithoutBool(_Vision):
    """masked_fill(~mask): integer masks raise."""

    def forward(self, q, k, v, mask=None):
        q, k, v = self.qkv(q, k, v)
        sim = q @ k.mT * self.scale
        if mask is not None:
            sim = sim.masked_fill(~mask, float("-inf"))
        return self.out(sim.softmax(-1) @ v)


@wrong(EXERCISE, "one-minus-bool")
class OneMinusBool(_Four):
    """(1 - mask) * -1e9: bool masks raise."""

    def forward(self, q, k, v, mask=None):
        q, k, v = self.project(q, k, v)
        scores = q @ k.mT / math.sqrt(self.d_k)
        if mask is not None:
            scores = scores + (1 - mask) * -1e9
        return self.wo(self.merge(scores.softmax(-1) @ v))


@wrong(EXERCISE, "if-mask")
class IfMask(_Four):
    """if mask:"""

    def forward(self, q, k, v, mask=None):
        q, k, v = self.project(q, k, v)
        scores = q @ k.mT / math.sqrt(self.d_k)
        if mask:
            scores = scores.masked_fill(mask == 0, float("-inf"))
        return self.wo(self.merge(scores.softmax(-1) @ v))


@wrong(EXERCISE, "if-mask")
class MaskEqualsNone(_Vision):
    """mask or a default."""

    def forward(self, q, k, v, mask=None):
        mask = mask or torch.ones(q.shape[1], k.shape[1], dtype=torch.bool)
        q, k, v = self.qkv(q, k, v)
        return self.out(hide(q @ k.mT * self.scale, mask).softmax(-1) @ v)


# ---------------------------------------------------------------- mask shapes and lengths


@wrong(EXERCISE, "mask-on-query-axis", "causal-transposed")
class MaskTransposed(_Four):
    """The mask is transposed."""

    def forward(self, q, k, v, mask=None):
        q, k, v = self.project(q, k, v)
        scores = q @ k.mT / math.sqrt(self.d_k)
        if mask is not None:
            scores = scores.masked_fill(mask.transpose(-2, -1) == 0, -1e9)
        return self.wo(self.merge(scores.softmax(-1) @ v))


@wrong(EXERCISE, "mask-on-both-axes")
class MaskOnBothAxes(_Four):
    """A padding mask blocks rows as well when the lengths are equal."""

    def forward(self, q, k, v, mask=None):
        q, k, v = self.project(q, k, v)
        scores = q @ k.mT / math.sqrt(self.d_k)
        if mask is not None:
            keep = mask != 0
            if scores.shape[-1] == scores.shape[-2]:
                keep = keep & keep.transpose(-2, -1)
            scores = scores.masked_fill(~keep, float("-inf"))
        return self.wo(self.merge(scores.softmax(-1) @ v))


@wrong(EXERCISE)
class AlwaysUnsqueezes(_Four):
    """mask.unsqueeze(1) for every mask: 4-D masks become 5-D."""

    def forward(self, q, k, v, mask=None):
        q, k, v = self.project(q, k, v)
        scores = q @ k.mT / math.sqrt(self.d_k)
        if mask is not None:
            mask = mask.unsqueeze(1)
            scores = scores.masked_fill(mask == 0, float("-inf"))
        return self.wo(self.merge(scores.softmax(-1) @ v))


@wrong(EXERCISE, "mask-not-unsqueezed")
class MaskAgainstBatchTimesHeads(nn.Module):
    """(B*h, L, L) scores meet the mask as it comes: 4-D masks do not fit."""

    def __init__(self, d_model, h):
        super().__init__()
        if d_model % h:
            raise ValueError("not divisible")
        self.h = h
        self.wq, self.wk = nn.Linear(d_model, d_model), nn.Linear(d_model, d_model)
        self.wv, self.wo = nn.Linear(d_model, d_model), nn.Linear(d_model, d_model)

    def fold(self, x):
        return x.unflatten(-1, (self.h, -1)).transpose(1, 2).flatten(0, 1)

    def forward(self, q, k, v, mask=None):
        q, k, v = self.fold(self.wq(q)), self.fold(self.wk(k)), self.fold(self.wv(v))
        scores = torch.bmm(q, k.mT) / math.sqrt(q.shape[-1])
        if mask is not None:
            scores = scores.masked_fill(mask == 0, float("-inf"))
        out = torch.bmm(scores.softmax(-1), v)
        return self.wo(out.unflatten(0, (-1, self.h)).transpose(1, 2).flatten(2))


@wrong(EXERCISE)
class MaskRepeatedInTheWrongOrder(MaskAgainstBatchTimesHeads):
    """mask.repeat(h, 1, 1) where the heads run fastest: sample 0 sees through sample 1's mask."""

    def forward(self, q, k, v, mask=None):
        B, Lq, Lk = q.shape[0], q.shape[1], k.shape[1]
        q, k, v = self.fold(self.wq(q)), self.fold(self.wk(k)), self.fold(self.wv(v))
        scores = torch.bmm(q, k.mT) / math.sqrt(q.shape[-1])
        if mask is not None:
            mask = mask.expand(B, self.h, Lq, Lk).transpose(0, 1).reshape(-1, Lq, Lk)
            scores = scores.masked_fill(mask == 0, -1e9)
        out = torch.bmm(scores.softmax(-1), v)
        return self.wo(out.unflatten(0, (-1, self.h)).transpose(1, 2).flatten(2))


@wrong(EXERCISE, "square-mask-assumed")
class SquareMaskExpanded(_Four):
    """mask.expand(B, h, L_q, L_q)."""

    def forward(self, q, k, v, mask=None):
        B, L_q, _ = q.shape
        q, k, v = self.project(q, k, v)
        scores = q @ k.mT / math.sqrt(self.d_k)
        if mask is not None:
            scores = scores.masked_fill(mask.expand(B, self.h, L_q, L_q) == 0, float("-inf"))
        return self.wo(self.merge(scores.softmax(-1) @ v))


@wrong(EXERCISE, "square-mask-assumed")
class DefaultSquareMask(_Vision):
    """Without a mask it makes ones of (L_q, L_q)."""

    def forward(self, q, k, v, mask=None):
        L = q.shape[1]
        if mask is None:
            mask = torch.ones(L, L, device=q.device)
        q, k, v = self.qkv(q, k, v)
        return self.out(hide(q @ k.mT * self.scale, mask).softmax(-1) @ v)


@wrong(EXERCISE, "fixed-length-mask")
class StoredMaskNotCut(_Four):
    """A stored (64, 64) mask of ones, never cut to the length."""

    def __init__(self, d_model, h):
        super().__init__(d_model, h)
        self.register_buffer("ones", torch.ones(64, 64), persistent=False)

    def forward(self, q, k, v, mask=None):
        if mask is None:
            mask = self.ones
        q, k, v = self.project(q, k, v)
        return self.wo(self.merge(hide(q @ k.mT / math.sqrt(self.d_k), mask).softmax(-1) @ v))


@wrong(EXERCISE, "fixed-length-mask")
class MaskKeptFromTheFirstCall(_Vision):
    """The first mask it meets is kept for ever."""

    kept = None

    def forward(self, q, k, v, mask=None):
        q, k, v = self.qkv(q, k, v)
        sim = q @ k.mT * self.scale
        if self.kept is None:
            self.kept = torch.ones_like(sim, dtype=torch.bool) if mask is None else mask
        return self.out(hide(sim, self.kept).softmax(-1) @ v)


@wrong(EXERCISE, "q-length-for-kv")
class QueryLengthForKeys(nn.Module):
    """One L for everything, taken from the queries."""

    def __init__(self, d_model, h):
        super().__init__()
        assert d_model % h == 0
        self.h, self.d_k = h, d_model // h
        self.wq = nn.Linear(d_model, d_model)
        self.wk = nn.Linear(d_model, d_model)
        self.wv = nn.Linear(d_model, d_model)
        self.wo = nn.Linear(d_model, d_model)

    def forward(self, q, k, v, mask=None):
        B, L, d_model = q.shape
        q = self.wq(q).view(B, L, self.h, self.d_k).transpose(1, 2)
        k = self.wk(k).view(B, L, self.h, self.d_k).transpose(1, 2)
        v = self.wv(v).view(B, L, self.h, self.d_k).transpose(1, 2)
        scores = hide(q @ k.mT / math.sqrt(self.d_k), mask)
        return self.wo((scores.softmax(-1) @ v).transpose(1, 2).reshape(B, L, d_model))


@wrong(EXERCISE, "q-length-for-kv")
class QueryLengthWithMinusOne(_Four):
    """view(-1, L_q, ...) for the keys: silently wrong when L_k is a multiple of L_q."""

    def forward(self, q, k, v, mask=None):
        L = q.shape[1]
        q = self.wq(q).view(-1, L, self.h, self.d_k).transpose(1, 2)
        k = self.wk(k).view(-1, L, self.h, self.d_k).transpose(1, 2)
        v = self.wv(v).view(-1, L, self.h, self.d_k).transpose(1, 2)
        return self.wo(self.merge(hide(q @ k.mT / math.sqrt(self.d_k), mask).softmax(-1) @ v))


@wrong(EXERCISE, "q-length-for-kv")
class MergedWithKeyLength(_Four):
    """The output is merged with the keys' length."""

    def forward(self, q, k, v, mask=None):
        B, L, d = k.shape
        q, k, v = self.project(q, k, v)
        out = hide(q @ k.mT / math.sqrt(self.d_k), mask).softmax(-1) @ v
        return self.wo(out.transpose(1, 2).reshape(B, L, d))


@wrong(EXERCISE, "seq-first-confusion")
class SequenceFirst(_Four):
    """Takes (L, B, d): attention over the batch."""

    def forward(self, q, k, v, mask=None):
        L_q, B, _ = q.shape
        q = self.wq(q).view(L_q, B, self.h, self.d_k).permute(1, 2, 0, 3)
        k = self.wk(k).view(k.shape[0], -1, self.h, self.d_k).permute(1, 2, 0, 3)
        v = self.wv(v).view(v.shape[0], -1, self.h, self.d_k).permute(1, 2, 0, 3)
        out = hide(q @ k.mT / math.sqrt(self.d_k), mask).softmax(-1) @ v
        return self.wo(out.permute(2, 0, 1, 3).reshape(L_q, B, -1))


@wrong(EXERCISE)
class CausalAlways(_Four):
    """A causal mask on top, whatever is asked."""

    def forward(self, q, k, v, mask=None):
        q, k, v = self.project(q, k, v)
        scores = hide(q @ k.mT / math.sqrt(self.d_k), mask)
        future = torch.ones(scores.shape[-2:], dtype=torch.bool, device=scores.device).triu(1)
        return self.wo(self.merge(scores.masked_fill(future, -1e9).softmax(-1) @ v))


@wrong(EXERCISE)
class MaskOfTheFirstHeadOnly(_Four):
    """The mask is applied to head 0."""

    def forward(self, q, k, v, mask=None):
        B, L_q, L_k = q.shape[0], q.shape[1], k.shape[1]
        q, k, v = self.project(q, k, v)
        scores = q @ k.mT / math.sqrt(self.d_k)
        if mask is not None:
            mask = mask.expand(B, self.h, L_q, L_k)
            scores = torch.cat([hide(scores[:, :1], mask[:, :1]), scores[:, 1:]], dim=1)
        return self.wo(self.merge(scores.softmax(-1) @ v))


@wrong(EXERCISE)
class MaskOfTheFirstSampleForAll(_Four):
    """Everyone gets the first sample's mask."""

    def forward(self, q, k, v, mask=None):
        B, L_q, L_k = q.shape[0], q.shape[1], k.shape[1]
        q, k, v = self.project(q, k, v)
        scores = q @ k.mT / math.sqrt(self.d_k)
        if mask is not None:
            mask = mask.expand(B, self.h, L_q, L_k)[:1]
        return self.wo(self.merge(hide(scores, mask).softmax(-1) @ v))


@wrong(EXERCISE)
class MaskIgnoredWhenInteger(_Four):
    """Only bool masks count."""

    def forward(self, q, k, v, mask=None):
        q, k, v = self.project(q, k, v)
        scores = q @ k.mT / math.sqrt(self.d_k)
        if mask is not None and mask.dtype == torch.bool:
            scores = scores.masked_fill(~mask, float("-inf"))
        return self.wo(self.merge(scores.softmax(-1) @ v))


@wrong(EXERCISE)
class FloatMaskAdded(_Four):
    """Float masks are taken as additive; 0/1 floats go wrong."""

    def forward(self, q, k, v, mask=None):
        q, k, v = self.project(q, k, v)
        scores = q @ k.mT / math.sqrt(self.d_k)
        if mask is not None:
            scores = scores + mask if mask.is_floating_point() else scores.masked_fill(mask == 0, -1e9)
        return self.wo(self.merge(scores.softmax(-1) @ v))


@wrong(EXERCISE)
class MaskIgnoredWhenTwoDimensional(_Four):
    """Only 4-D masks count."""

    def forward(self, q, k, v, mask=None):
        q, k, v = self.project(q, k, v)
        scores = q @ k.mT / math.sqrt(self.d_k)
        if mask is not None and mask.dim() == 4:
            scores = scores.masked_fill(mask == 0, float("-inf"))
        return self.wo(self.merge(scores.softmax(-1) @ v))


@wrong(EXERCISE)
class EmptyRowRaises(_Four):
    """Asserts that no row is empty, though the contract allows it."""

    def forward(self, q, k, v, mask=None):
        q, k, v = self.project(q, k, v)
        scores = q @ k.mT / math.sqrt(self.d_k)
        if mask is not None:
            assert (mask != 0).any(-1).all(), "a query has nothing to look at"
            scores = scores.masked_fill(mask == 0, float("-inf"))
        return self.wo(self.merge(scores.softmax(-1) @ v))


@wrong(EXERCISE)
class MaskRequired(_Four):
    """mask has no default."""

    def forward(self, q, k, v, mask):
        q, k, v = self.project(q, k, v)
        scores = (q @ k.mT / math.sqrt(self.d_k)).masked_fill(mask == 0, float("-inf"))
        return self.wo(self.merge(scores.softmax(-1) @ v))


@wrong(EXERCISE)
class FillsTheMaskInPlace(_Four):
    """Turns the caller's mask into something else."""

    def forward(self, q, k, v, mask=None):
        q, k, v = self.project(q, k, v)
        scores = q @ k.mT / math.sqrt(self.d_k)
        if mask is not None:
            scores = scores.masked_fill(mask == 0, float("-inf"))
            mask.fill_(1)
        return self.wo(self.merge(scores.softmax(-1) @ v))


# ---------------------------------------------------------------- heads


@wrong(EXERCISE, "split-by-view")
class SplitByView(nn.Module):
    """view(B, h, L, d_k) straight away."""

    def __init__(self, d_model, h):
        super().__init__()
        assert d_model % h == 0
        self.h, self.d_k, self.d_model = h, d_model // h, d_model
        self.wq = nn.Linear(d_model, d_model)
        self.wk = nn.Linear(d_model, d_model)
        self.wv = nn.Linear(d_model, d_model)
        self.wo = nn.Linear(d_model, d_model)

    def forward(self, q, k, v, mask=None):
        B = q.shape[0]
        q = self.wq(q).view(B, self.h, -1, self.d_k)
        k = self.wk(k).view(B, self.h, -1, self.d_k)
        v = self.wv(v).view(B, self.h, -1, self.d_k)
        scores = hide(q @ k.mT / math.sqrt(self.d_k), mask)
        out = scores.softmax(-1) @ v
        return self.wo(out.transpose(1, 2).reshape(B, -1, self.d_model))


@wrong(EXERCISE, "split-by-view", "split-and-merge-by-view")
class ViewToBatchTimesHeads(nn.Module):
    """view(B * h, -1, d_k), and back the same way."""

    def __init__(self, dim_model, num_head):
        super().__init__()
        assert dim_model % num_head == 0
        self.num_head = num_head
        self.dim_head = dim_model // num_head
        self.fc_Q = nn.Linear(dim_model, num_head * self.dim_head)
        self.fc_K = nn.Linear(dim_model, num_head * self.dim_head)
        self.fc_V = nn.Linear(dim_model, num_head * self.dim_head)
        self.fc = nn.Linear(num_head * self.dim_head, dim_model)

    def forward(self, q, k, v, mask=None):
        B, Lq, Lk = q.size(0), q.size(1), k.size(1)
        Q = self.fc_Q(q).view(B * self.num_head, -1, self.dim_head)
        K = self.fc_K(k).view(B * self.num_head, -1, self.dim_head)
        V = self.fc_V(v).view(B * self.num_head, -1, self.dim_head)
        attention = torch.matmul(Q, K.permute(0, 2, 1)) * K.size(-1) ** -0.5
        if mask is not None:
            mask = mask.expand(B, self.num_head, Lq, Lk).reshape(-1, Lq, Lk)
            attention = attention.masked_fill(mask == 0, -1e9)
        context = torch.matmul(F.softmax(attention, dim=-1), V)
        return self.fc(context.view(B, -1, self.dim_head * self.num_head))


@wrong(EXERCISE, "merge-without-transpose")
class MergeByReshape(_Four):
    """reshape without moving the head axis."""

    def forward(self, q, k, v, mask=None):
        B, L_q, d_model = q.shape
        q, k, v = self.project(q, k, v)
        out = hide(q @ k.mT / math.sqrt(self.d_k), mask).softmax(-1) @ v
        return self.wo(out.reshape(B, L_q, d_model))


@wrong(EXERCISE, "merge-without-transpose")
class MergeByContiguousView(_Vision):
    """contiguous().view(B, -1, d)."""

    def forward(self, q, k, v, mask=None):
        shape = q.shape
        q, k, v = self.qkv(q, k, v)
        out = torch.einsum("bhij,bhjd->bhid", hide(q @ k.mT * self.scale, mask).softmax(-1), v)
        return self.to_out(out.contiguous().view(shape))


@wrong(EXERCISE, "split-and-merge-by-view")
class SplitAndMergeByView(_Four):
    """Both without a transpose."""

    def forward(self, q, k, v, mask=None):
        B, L_q, d_model = q.shape
        q = self.wq(q).view(B, self.h, -1, self.d_k)
        k = self.wk(k).view(B, self.h, -1, self.d_k)
        v = self.wv(v).view(B, self.h, -1, self.d_k)
        out = hide(q @ k.mT / math.sqrt(self.d_k), mask).softmax(-1) @ v
        return self.wo(out.view(B, L_q, d_model))


@wrong(EXERCISE, "view-not-contiguous")
class ViewAfterTranspose(_Four):
    """transpose, then view."""

    def forward(self, q, k, v, mask=None):
        B, L_q, d_model = q.shape
        q, k, v = self.project(q, k, v)
        out = hide(q @ k.mT / math.sqrt(self.d_k), mask).softmax(-1) @ v
        return self.wo(out.transpose(1, 2).view(B, L_q, d_model))


@wrong(EXERCISE, "no-out-proj", "out-proj-unused")
class NoOutputLayer(nn.Module):
    """The heads are joined and returned; there is no fourth layer."""

    def __init__(self, d_model, h):
        super().__init__()
        assert d_model % h == 0
        self.h = h
        self.wq = nn.Linear(d_model, d_model)
        self.wk = nn.Linear(d_model, d_model)
        self.wv = nn.Linear(d_model, d_model)

    def forward(self, q, k, v, mask=None):
        q, k, v = (x.unflatten(-1, (self.h, -1)).transpose(1, 2) for x in (self.wq(q), self.wk(k), self.wv(v)))
        return (hide(q @ k.mT / math.sqrt(q.shape[-1]), mask).softmax(-1) @ v).transpose(1, 2).flatten(2)


@wrong(EXERCISE, "out-proj-unused", "no-out-proj")
class OutputLayerUnused(_Four):
    """wo exists and is never called."""

    def forward(self, q, k, v, mask=None):
        q, k, v = self.project(q, k, v)
        return self.merge(hide(q @ k.mT / math.sqrt(self.d_k), mask).softmax(-1) @ v)


@wrong(EXERCISE, "out-proj-unused", "no-out-proj")
class OutputLayerResultLost(_Vision):
    """to_out is called and its result is lost."""

    def forward(self, q, k, v, mask=None):
        q, k, v = self.qkv(q, k, v)
        out = (hide(q @ k.mT * self.scale, mask).softmax(-1) @ v).transpose(1, 2).flatten(2)
        self.to_out(out)
        return out


@wrong(EXERCISE)
class HeadsReversedAtMerge(_Four):
    """The last head comes first."""

    def forward(self, q, k, v, mask=None):
        q, k, v = self.project(q, k, v)
        out = hide(q @ k.mT / math.sqrt(self.d_k), mask).softmax(-1) @ v
        return self.wo(torch.cat(out.unbind(1)[::-1], dim=-1))


@wrong(EXERCISE)
class HeadsInterleavedAtMerge(_Four):
    """Split as (h, d_k), merged as (d_k, h)."""

    def forward(self, q, k, v, mask=None):
        B, L_q, d_model = q.shape
        q, k, v = self.project(q, k, v)
        out = hide(q @ k.mT / math.sqrt(self.d_k), mask).softmax(-1) @ v
        return self.wo(out.permute(0, 2, 3, 1).reshape(B, L_q, d_model))


@wrong(EXERCISE)
class QueriesSplitOtherwise(_Four):
    """The queries are split as (d_k, h), keys and values as (h, d_k)."""

    def forward(self, q, k, v, mask=None):
        B, L_q, _ = q.shape
        _, k, v = self.project(q, k, v)
        q = self.wq(q).view(B, L_q, self.d_k, self.h).permute(0, 3, 1, 2)
        return self.wo(self.merge(hide(q @ k.mT / math.sqrt(self.d_k), mask).softmax(-1) @ v))


@wrong(EXERCISE)
class MeanOverHeads(_Four):
    """The heads' weights are averaged, so that all heads look alike."""

    def forward(self, q, k, v, mask=None):
        q, k, v = self.project(q, k, v)
        weights = hide(q @ k.mT / math.sqrt(self.d_k), mask).softmax(-1).mean(dim=1, keepdim=True)
        return self.wo(self.merge(weights.expand(-1, self.h, -1, -1) @ v))


@wrong(EXERCISE)
class OneHeadInTruth(_Four):
    """Never splits: one head of full width."""

    def forward(self, q, k, v, mask=None):
        q, k, v = self.wq(q), self.wk(k), self.wv(v)
        scores = (q @ k.mT / math.sqrt(self.d_model)).unsqueeze(1)
        return self.wo((hide(scores, mask).softmax(-1) @ v.unsqueeze(1)).mean(1))


@wrong(EXERCISE)
class HeadsShareTheFirstQuery(_Four):
    """All heads use the queries of head 0."""

    def forward(self, q, k, v, mask=None):
        q, k, v = self.project(q, k, v)
        q = q[:, :1]
        return self.wo(self.merge(hide(q @ k.mT / math.sqrt(self.d_k), mask).softmax(-1) @ v))


@wrong(EXERCISE)
class MultiQuery(nn.Module):
    """One key and value head for all queries: another model."""

    def __init__(self, d_model, h):
        super().__init__()
        assert d_model % h == 0
        self.h, d_k = h, d_model // h
        self.wq = nn.Linear(d_model, d_model)
        self.wk = nn.Linear(d_model, d_k)
        self.wv = nn.Linear(d_model, d_k)
        self.wo = nn.Linear(d_model, d_model)

    def forward(self, q, k, v, mask=None):
        q = self.wq(q).unflatten(-1, (self.h, -1)).transpose(1, 2)
        k, v = self.wk(k).unsqueeze(1), self.wv(v).unsqueeze(1)
        w = hide(q @ k.mT / math.sqrt(q.shape[-1]), mask).softmax(-1)
        return self.wo((w @ v).transpose(1, 2).flatten(2))


@wrong(EXERCISE)
class HeadsScaledByNumber(_Four):
    """√h instead of √d_k."""

    def forward(self, q, k, v, mask=None):
        q, k, v = self.project(q, k, v)
        return self.wo(self.merge(hide(q @ k.mT / math.sqrt(self.h), mask).softmax(-1) @ v))


# ---------------------------------------------------------------- gradients, modes, hygiene


@wrong(EXERCISE, "dropout-always-on")
class DropoutAlwaysOn(_Four):
    """F.dropout without the flag."""

    def forward(self, q, k, v, mask=None):
        q, k, v = self.project(q, k, v)
        weights = hide(q @ k.mT / math.sqrt(self.d_k), mask).softmax(-1)
        return self.wo(self.merge(F.dropout(weights, p=0.1) @ v))


@wrong(EXERCISE, "dropout-built-in-forward", "dropout-always-on")
class DropoutBuiltInForward(_Vision):
    """A fresh nn.Dropout in every call is always in train mode."""

    def forward(self, q, k, v, mask=None):
        q, k, v = self.qkv(q, k, v)
        attn = nn.Dropout(0.2)(hide(q @ k.mT * self.scale, mask).softmax(-1))
        return self.out(attn @ v)


@wrong(EXERCISE, "graph-cut")
class WeightsDetached(_Four):
    """detach on the weights."""

    def forward(self, q, k, v, mask=None):
        q, k, v = self.project(q, k, v)
        weights = hide(q @ k.mT / math.sqrt(self.d_k), mask).softmax(-1).detach()
        return self.wo(self.merge(weights @ v))


@wrong(EXERCISE, "graph-cut")
class KeysThroughData(_Vision):
    """k.data."""

    def forward(self, q, k, v, mask=None):
        q, k, v = self.qkv(q, k, v)
        return self.out(hide(q @ k.data.mT * self.scale, mask).softmax(-1) @ v)


@wrong(EXERCISE, "graph-cut")
class ContextUnderNoGrad(_Four):
    """Everything before wo runs under no_grad."""

    def forward(self, q, k, v, mask=None):
        with torch.no_grad():
            q, k, v = self.project(q, k, v)
            context = self.merge(hide(q @ k.mT / math.sqrt(self.d_k), mask).softmax(-1) @ v)
        return self.wo(context)


@wrong(EXERCISE, "inplace-after-softmax")
class WeightsMaskedInPlace(_Four):
    """weights *= ... right after the softmax: backward fails."""

    def forward(self, q, k, v, mask=None):
        q, k, v = self.project(q, k, v)
        weights = hide(q @ k.mT / math.sqrt(self.d_k), mask).softmax(-1)
        weights *= 1.0
        return self.wo(self.merge(weights @ v))


B, L = 2, 5  # the notebook's own sizes


@wrong(EXERCISE, "notebook-global", "batch-hard-coded")
class ReadsTheNotebooksSizes(nn.Module):
    """B and L come from the notebook."""

    def __init__(self, d_model, h):
        super().__init__()
        assert d_model % h == 0
        self.h, self.d_k = h, d_model // h
        self.wq, self.wk = nn.Linear(d_model, d_model), nn.Linear(d_model, d_model)
        self.wv, self.wo = nn.Linear(d_model, d_model), nn.Linear(d_model, d_model)

    def forward(self, q, k, v, mask=None):
        q = self.wq(q).view(B, L, self.h, self.d_k).transpose(1, 2)
        k = self.wk(k).view(B, L, self.h, self.d_k).transpose(1, 2)
        v = self.wv(v).view(B, L, self.h, self.d_k).transpose(1, 2)
        w = hide(q @ k.mT / math.sqrt(self.d_k), mask).softmax(-1)
        return self.wo((w @ v).transpose(1, 2).reshape(B, L, -1))


@wrong(EXERCISE, "notebook-global")
class NameThatIsNowhere(_Four):
    """num_heads exists in the notebook, not here."""

    def forward(self, q, k, v, mask=None):
        q, k, v = (
            x.unflatten(-1, (num_heads, -1)).transpose(1, 2)  # noqa: F821
            for x in (self.wq(q), self.wk(k), self.wv(v))
        )
        return self.wo(self.merge(hide(q @ k.mT / math.sqrt(self.d_k), mask).softmax(-1) @ v))


@wrong(EXERCISE, "batch-hard-coded")
class BatchOfTwo(_Four):
    """view(2, ...)."""

    def forward(self, q, k, v, mask=None):
        q = self.wq(q).view(2, -1, self.h, self.d_k).transpose(1, 2)
        k = self.wk(k).view(2, -1, self.h, self.d_k).transpose(1, 2)
        v = self.wv(v).view(2, -1, self.h, self.d_k).transpose(1, 2)
        return self.wo(self.merge(hide(q @ k.mT / math.sqrt(self.d_k), mask).softmax(-1) @ v))


# ---------------------------------------------------------------- mistakes outside the catalogue


@wrong(EXERCISE)
class KeysFromTheQueryInput(_Four):
    """The keys are made from the query input: hidden in self-attention."""

    def forward(self, q, k, v, mask=None):
        queries, keys, values = self.project(q, q, v)
        scores = queries @ keys.mT / math.sqrt(self.d_k)
        return self.wo(self.merge(hide(scores, mask).softmax(-1) @ values))


@wrong(EXERCISE)
class ValuesFromTheKeyInput(_Four):
    """The values are made from the key input; v is never read."""

    def forward(self, q, k, v, mask=None):
        queries, keys, values = self.project(q, k, k)
        scores = queries @ keys.mT / math.sqrt(self.d_k)
        return self.wo(self.merge(hide(scores, mask).softmax(-1) @ values))


@wrong(EXERCISE)
class EverythingFromTheQueryInput(_Vision):
    """Self-attention only: k and v are ignored."""

    def forward(self, q, k, v, mask=None):
        q, k, v = self.qkv(q, q, q)
        return self.out(hide(q @ k.mT * self.scale, mask).softmax(-1) @ v)


@wrong(EXERCISE)
class ArgumentsInAnotherOrder(_Four):
    """forward(v, k, q)."""

    def forward(self, v, k, q, mask=None):
        q, k, v = self.project(q, k, v)
        return self.wo(self.merge(hide(q @ k.mT / math.sqrt(self.d_k), mask).softmax(-1) @ v))


@wrong(EXERCISE)
class ResidualAdded(_Four):
    """q + attention."""

    def forward(self, q, k, v, mask=None):
        residual = q
        q, k, v = self.project(q, k, v)
        return residual + self.wo(self.merge(hide(q @ k.mT / math.sqrt(self.d_k), mask).softmax(-1) @ v))


@wrong(EXERCISE)
class ProjectedQueriesAdded(_Four):
    """The projected queries are added to the context."""

    def forward(self, q, k, v, mask=None):
        q, k, v = self.project(q, k, v)
        context = hide(q @ k.mT / math.sqrt(self.d_k), mask).softmax(-1) @ v
        return self.wo(self.merge(context + q))


@wrong(EXERCISE)
class LayerNormAtTheEnd(_Four):
    """A layer norm on the output."""

    def __init__(self, d_model, h):
        super().__init__(d_model, h)
        self.norm = nn.LayerNorm(d_model)

    def forward(self, q, k, v, mask=None):
        q, k, v = self.project(q, k, v)
        return self.norm(self.wo(self.merge(hide(q @ k.mT / math.sqrt(self.d_k), mask).softmax(-1) @ v)))


@wrong(EXERCISE)
class OutputRelu(_Four):
    """ReLU on the output."""

    def forward(self, q, k, v, mask=None):
        q, k, v = self.project(q, k, v)
        return F.relu(self.wo(self.merge(hide(q @ k.mT / math.sqrt(self.d_k), mask).softmax(-1) @ v)))


@wrong(EXERCISE)
class OutputTwice(_Four):
    """wo is called twice."""

    def forward(self, q, k, v, mask=None):
        q, k, v = self.project(q, k, v)
        return self.wo(self.wo(self.merge(hide(q @ k.mT / math.sqrt(self.d_k), mask).softmax(-1) @ v)))


@wrong(EXERCISE)
class SigmoidWeights(_Four):
    """sigmoid instead of softmax."""

    def forward(self, q, k, v, mask=None):
        q, k, v = self.project(q, k, v)
        return self.wo(self.merge(hide(q @ k.mT / math.sqrt(self.d_k), mask).sigmoid() @ v))


@wrong(EXERCISE)
class TanhScores(_Four):
    """tanh on the scores."""

    def forward(self, q, k, v, mask=None):
        q, k, v = self.project(q, k, v)
        return self.wo(self.merge(hide(torch.tanh(q @ k.mT / math.sqrt(self.d_k)), mask).softmax(-1) @ v))


@wrong(EXERCISE)
class TopTwo(_Four):
    """Only the two best keys."""

    def forward(self, q, k, v, mask=None):
        q, k, v = self.project(q, k, v)
        scores = hide(q @ k.mT / math.sqrt(self.d_k), mask)
        low = scores.topk(min(2, scores.shape[-1]), dim=-1).values[..., -1:]
        return self.wo(self.merge(scores.masked_fill(scores < low, float("-inf")).softmax(-1) @ v))


@wrong(EXERCISE)
class LastKeyDropped(_Four):
    """The last key is left out when there is more than one."""

    def forward(self, q, k, v, mask=None):
        q, k, v = self.project(q, k, v)
        scores = hide(q @ k.mT / math.sqrt(self.d_k), mask)
        if scores.shape[-1] > 1:
            scores, v = scores[..., :-1], v[..., :-1, :]
        return self.wo(self.merge(scores.softmax(-1) @ v))


@wrong(EXERCISE)
class ExtraZeroKey(_Four):
    """softmax with one more key of score zero (softmax-off-by-one): rows sum to less than 1."""

    def forward(self, q, k, v, mask=None):
        q, k, v = self.project(q, k, v)
        scores = hide(q @ k.mT / math.sqrt(self.d_k), mask)
        padded = F.pad(scores, (1, 0))
        return self.wo(self.merge(padded.softmax(-1)[..., 1:] @ v))


@wrong(EXERCISE)
class RelativePositions(_Four):
    """A penalty on distance, as in ALiBi."""

    def forward(self, q, k, v, mask=None):
        q, k, v = self.project(q, k, v)
        scores = q @ k.mT / math.sqrt(self.d_k)
        i = torch.arange(scores.shape[-2])[:, None]
        j = torch.arange(scores.shape[-1])[None]
        scores = scores - 0.1 * (i - j).abs().to(scores)
        return self.wo(self.merge(hide(scores, mask).softmax(-1) @ v))


@wrong(EXERCISE)
class BatchMixed(_Four):
    """The keys of all samples are shifted by one in the batch."""

    def forward(self, q, k, v, mask=None):
        q, k, v = self.project(q, k, v)
        return self.wo(self.merge(hide(q @ k.roll(1, 0).mT / math.sqrt(self.d_k), mask).softmax(-1) @ v))


@wrong(EXERCISE)
class CachesKeys(_Four):
    """Keeps keys and values and appends to them when the shapes allow it."""

    def __init__(self, d_model, h):
        super().__init__(d_model, h)
        self.cache = None

    def forward(self, q, k, v, mask=None):
        q, k, v = self.project(q, k, v)
        if self.cache is not None and mask is None and self.cache[0].shape[0] == k.shape[0]:
            k, v = torch.cat([self.cache[0], k], dim=2), torch.cat([self.cache[1], v], dim=2)
        self.cache = (k.detach(), v.detach())
        return self.wo(self.merge(hide(q @ k.mT / math.sqrt(self.d_k), mask).softmax(-1) @ v))


@wrong(EXERCISE)
class EditsParameters(_Four):
    """Shrinks its own weights a little in every call."""

    def forward(self, q, k, v, mask=None):
        q, k, v = self.project(q, k, v)
        out = self.wo(self.merge(hide(q @ k.mT / math.sqrt(self.d_k), mask).softmax(-1) @ v))
        with torch.no_grad():
            self.wq.weight.mul_(0.999)
        return out


@wrong(EXERCISE)
class EditsItsInput(_Four):
    """Scales the caller's q in place."""

    def forward(self, q, k, v, mask=None):
        with torch.no_grad():
            q.div_(math.sqrt(self.d_k))
        q, k, v = self.project(q, k, v)
        return self.wo(self.merge(hide(q @ k.mT, mask).softmax(-1) @ v))


@wrong(EXERCISE)
class RoundsToHalf(_Four):
    """The scores pass through float16."""

    def forward(self, q, k, v, mask=None):
        q, k, v = self.project(q, k, v)
        scores = (q @ k.mT / math.sqrt(self.d_k)).half().to(v.dtype)
        return self.wo(self.merge(hide(scores, mask).softmax(-1) @ v))


# ---------------------------------------------------------------- two mistakes at once


@wrong(EXERCISE, "scale-d-model", "merge-without-transpose")
class WrongScaleAndMerge(_Four):
    """√d_model, and a merge without transpose."""

    def forward(self, q, k, v, mask=None):
        shape = q.shape
        q, k, v = self.project(q, k, v)
        out = hide(q @ k.mT / math.sqrt(self.d_model), mask).softmax(-1) @ v
        return self.wo(out.reshape(shape))


@wrong(EXERCISE, "scale-d-model", "out-proj-unused", "no-out-proj")
class WrongScaleAndNoOutput(_Four):
    """√d_model, and wo unused, as a published tutorial has it."""

    def forward(self, q, k, v, mask=None):
        q, k, v = self.project(q, k, v)
        return self.merge(hide(q @ k.mT / math.sqrt(self.d_model), mask).softmax(-1) @ v)


@wrong(EXERCISE, "mask-inverted", "scale-missing")
class InvertedMaskAndNoScale(_Vision):
    """No scale, and the mask upside down."""

    def forward(self, q, k, v, mask=None):
        q, k, v = self.qkv(q, k, v)
        sim = q @ k.mT
        if mask is not None:
            sim = sim.masked_fill(mask != 0, -1e9)
        return self.out(sim.softmax(-1) @ v)


@wrong(EXERCISE, "split-by-view", "v-uses-wk")
class ViewSplitAndKeysAsValues(_Four):
    """Split by view, and values through wk."""

    def forward(self, q, k, v, mask=None):
        B = q.shape[0]
        q, k, v = (x.view(B, self.h, -1, self.d_k) for x in (self.wq(q), self.wk(k), self.wk(v)))
        return self.wo(self.merge(hide(q @ k.mT / math.sqrt(self.d_k), mask).softmax(-1) @ v))


@wrong(EXERCISE, "softmax-over-queries", "mask-after-softmax")
class WrongAxisAndLateMask(_Four):
    """Over the queries, masked afterwards."""

    def forward(self, q, k, v, mask=None):
        q, k, v = self.project(q, k, v)
        weights = (q @ k.mT / math.sqrt(self.d_k)).softmax(-2)
        if mask is not None:
            weights = weights * (mask != 0)
        return self.wo(self.merge(weights @ v))


@wrong(EXERCISE, "no-divisibility-check", *NEAR_ZERO)
class NoCheckAndTinyFill(NoCheck):
    """No check for divisibility, and a fill of 1e-20."""

    def forward(self, q, k, v, mask=None):
        B, L_q, d_model = q.shape
        q, k, v = (x.view(B, -1, self.h, self.d_k).transpose(1, 2) for x in (self.wq(q), self.wk(k), self.wv(v)))
        scores = q @ k.mT / math.sqrt(self.d_k)
        if mask is not None:
            scores = scores.masked_fill(mask == 0, 1e-20)
        return self.wo((scores.softmax(-1) @ v).transpose(1, 2).reshape(B, L_q, d_model))


# ---------------------------------------------------------------- structure


@wrong(EXERCISE)
class NotAModule:
    """A plain class that can be called."""

    def __init__(self, d_model, h):
        assert d_model % h == 0
        self.h = h
        self.wq, self.wk = nn.Linear(d_model, d_model), nn.Linear(d_model, d_model)
        self.wv, self.wo = nn.Linear(d_model, d_model), nn.Linear(d_model, d_model)

    def __call__(self, q, k, v, mask=None):
        q, k, v = (x.unflatten(-1, (self.h, -1)).transpose(1, 2) for x in (self.wq(q), self.wk(k), self.wv(v)))
        w = hide(q @ k.mT / math.sqrt(q.shape[-1]), mask).softmax(-1)
        return self.wo((w @ v).transpose(1, 2).flatten(2))


@wrong(EXERCISE)
class NoSuperInit(nn.Module):
    """super().__init__() is missing."""

    def __init__(self, d_model, h):
        self.h = h
        self.wq = nn.Linear(d_model, d_model)

    def forward(self, q, k, v, mask=None):
        return self.wq(q)


@wrong(EXERCISE)
class OneConstructorArgument(nn.Module):
    """h is missing."""

    def __init__(self, d_model):
        super().__init__()
        self.wo = nn.Linear(d_model, d_model)

    def forward(self, q, k, v, mask=None):
        return self.wo(v)


@wrong(EXERCISE)
class ConstructorSwapped(_Four):
    """__init__(h, d_model): called by position it gets them the wrong way round."""

    def __init__(self, heads, width):
        super().__init__(width, heads)

    def forward(self, q, k, v, mask=None):
        q, k, v = self.project(q, k, v)
        return self.wo(self.merge(hide(q @ k.mT / math.sqrt(self.d_k), mask).softmax(-1) @ v))


@wrong(EXERCISE)
class SelfAttentionOnly(_Four):
    """forward(x, mask=None)."""

    def forward(self, x, mask=None):
        q, k, v = self.project(x, x, x)
        return self.wo(self.merge(hide(q @ k.mT / math.sqrt(self.d_k), mask).softmax(-1) @ v))


@wrong(EXERCISE)
class NoMaskArgument(_Four):
    """forward(q, k, v)."""

    def forward(self, q, k, v):
        q, k, v = self.project(q, k, v)
        return self.wo(self.merge((q @ k.mT / math.sqrt(self.d_k)).softmax(-1) @ v))


@wrong(EXERCISE)
class ForgotReturn(_Four):
    """Returns None."""

    def forward(self, q, k, v, mask=None):
        q, k, v = self.project(q, k, v)
        out = hide(q @ k.mT / math.sqrt(self.d_k), mask).softmax(-1) @ v
        self.wo(self.merge(out))


@wrong(EXERCISE)
class ReturnsWeightsFirst(_Four):
    """(weights, output): the wrong way round."""

    def forward(self, q, k, v, mask=None):
        q, k, v = self.project(q, k, v)
        weights = hide(q @ k.mT / math.sqrt(self.d_k), mask).softmax(-1)
        return weights, self.wo(self.merge(weights @ v))


@wrong(EXERCISE)
class ReturnsListOfHeads(_Four):
    """A list with one tensor for each head."""

    def forward(self, q, k, v, mask=None):
        q, k, v = self.project(q, k, v)
        out = hide(q @ k.mT / math.sqrt(self.d_k), mask).softmax(-1) @ v
        return [self.wo(F.pad(head, (0, self.d_model - self.d_k))) for head in out.unbind(1)]


@wrong(EXERCISE)
class ReturnsNumpy(_Four):
    """A numpy array."""

    def forward(self, q, k, v, mask=None):
        q, k, v = self.project(q, k, v)
        out = self.wo(self.merge(hide(q @ k.mT / math.sqrt(self.d_k), mask).softmax(-1) @ v))
        return out.detach().numpy()


@wrong(EXERCISE)
class ReturnsFourAxes(_Four):
    """(B, h, L, d_k), not joined."""

    def forward(self, q, k, v, mask=None):
        q, k, v = self.project(q, k, v)
        return hide(q @ k.mT / math.sqrt(self.d_k), mask).softmax(-1) @ v


@wrong(EXERCISE)
class ReturnsOneHead(_Four):
    """Only d_k features come out."""

    def forward(self, q, k, v, mask=None):
        q, k, v = self.project(q, k, v)
        return (hide(q @ k.mT / math.sqrt(self.d_k), mask).softmax(-1) @ v).mean(dim=1)


@wrong(EXERCISE)
class Raises(_Four):
    """A typing slip on the way."""

    def forward(self, q, k, v, mask=None):
        q, k, v = self.project(q, k, v)
        scores = q @ k.transposed(-2, -1) / math.sqrt(self.d_k)
        return self.wo(self.merge(hide(scores, mask).softmax(-1) @ v))


@wrong(EXERCISE)
class RaisesOnlyWithMask(_Four):
    """The branch with a mask has never been run."""

    def forward(self, q, k, v, mask=None):
        q, k, v = self.project(q, k, v)
        scores = q @ k.mT / math.sqrt(self.d_k)
        if mask is not None:
            scores = scores.mask_fill(mask == 0, float("-inf"))
        return self.wo(self.merge(scores.softmax(-1) @ v))


@wrong(EXERCISE, "not-by-hand")
class UsesSDPA(_Four):
    """F.scaled_dot_product_attention."""

    def forward(self, q, k, v, mask=None):
        q, k, v = self.project(q, k, v)
        mask = None if mask is None else mask.bool()
        return self.wo(self.merge(F.scaled_dot_product_attention(q, k, v, attn_mask=mask)))


@wrong(EXERCISE, "not-by-hand")
class UsesTorchMultihead(nn.Module):
    """nn.MultiheadAttention."""

    def __init__(self, d_model, h):
        super().__init__()
        self.inner = nn.MultiheadAttention(d_model, h, batch_first=True)

    def forward(self, q, k, v, mask=None):
        if mask is not None:
            mask = (mask == 0).expand(q.shape[0], self.inner.num_heads, q.shape[1], k.shape[1]).flatten(0, 1)
        return self.inner(q, k, v, attn_mask=mask, need_weights=False)[0]


@wrong(EXERCISE, "not-by-hand")
class InheritsTorchMultihead(nn.MultiheadAttention):
    """Inherits from nn.MultiheadAttention."""

    def __init__(self, d_model, h):
        super().__init__(d_model, h, batch_first=True)

    def forward(self, q, k, v, mask=None):
        blocked = None
        if mask is not None:
            blocked = (mask == 0).expand(q.shape[0], self.num_heads, q.shape[1], k.shape[1]).flatten(0, 1)
        return super().forward(q, k, v, attn_mask=blocked)

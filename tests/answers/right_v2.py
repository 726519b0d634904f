"""Right answers to SelfAttentionV2, written in many ways."""

from __future__ import annotations

import math
import warnings

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from . import right

EXERCISE = "SelfAttentionV2"


@right(EXERCISE)
class SplitBySize(nn.Module):
    """torch.split with the size of a part."""

    def __init__(self, hidden_dim):
        super().__init__()
        self.hidden_dim = hidden_dim
        self.proj = nn.Linear(hidden_dim, hidden_dim * 3)

    def forward(self, X):
        QKV = self.proj(X)
        Q, K, V = torch.split(QKV, self.hidden_dim, dim=-1)
        att_weight = torch.softmax(torch.matmul(Q, K.transpose(-1, -2)) / math.sqrt(self.hidden_dim), dim=-1)
        return torch.matmul(att_weight, V)


@right(EXERCISE)
class SlicesNoBias(nn.Module):
    """Slices by hand, no bias, called qkv."""

    def __init__(self, hidden_dim: int):
        super().__init__()
        self.qkv = nn.Linear(hidden_dim, 3 * hidden_dim, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        d = x.shape[-1]
        out = self.qkv(x)
        q, k, v = out[:, :, :d], out[:, :, d : 2 * d], out[:, :, 2 * d :]
        return F.softmax(q @ k.mT / d**0.5, dim=-1) @ v


@right(EXERCISE)
class ViewAndUnbind(nn.Module):
    """view(B, L, 3, d).unbind(2), then einsum."""

    def __init__(self, dim):
        super().__init__()
        self.to_qkv = nn.Linear(dim, dim * 3)
        self.scale = dim**-0.5

    def forward(self, x):
        B, L, d = x.shape
        q, k, v = self.to_qkv(x).view(B, L, 3, d).unbind(dim=2)
        attn = torch.einsum("bid,bjd->bij", q, k).mul(self.scale).softmax(dim=-1)
        return torch.einsum("bij,bjd->bid", attn, v)


@right(EXERCISE)
class PermutedFirst(nn.Module):
    """(3, B, L, d), as in vision code."""

    def __init__(self, dim, qkv_bias=True):
        super().__init__()
        self.qkv = nn.Linear(dim, dim * 3, bias=qkv_bias)

    def forward(self, x):
        B, N, C = x.shape
        qkv = self.qkv(x).reshape(B, N, 3, C).permute(2, 0, 1, 3)
        q, k, v = qkv[0], qkv[1], qkv[2]
        attn = (q @ k.transpose(-2, -1)) * C**-0.5
        return attn.softmax(dim=-1) @ v


@right(EXERCISE)
class ScaledQueries(nn.Module):
    """The queries are scaled, out of place."""

    def __init__(self, hidden_dim):
        super().__init__()
        self.c_attn = nn.Linear(hidden_dim, 3 * hidden_dim)
        self.n_embd = hidden_dim

    def forward(self, x):
        q, k, v = self.c_attn(x).split(self.n_embd, dim=2)
        q = q / math.sqrt(self.n_embd)
        return torch.bmm(F.softmax(torch.bmm(q, k.transpose(1, 2)), dim=-1), v)


@right(EXERCISE)
class ScaledKeys(nn.Module):
    """The keys are scaled."""

    def __init__(self, hidden_dim):
        super().__init__()
        self.linear = nn.Linear(hidden_dim, 3 * hidden_dim)

    def forward(self, x):
        q, k, v = self.linear(x).chunk(3, dim=2)
        k = k * x.size(-1) ** -0.5
        return (q @ k.permute(0, 2, 1)).softmax(2) @ v


@right(EXERCISE)
class FourthRoots(nn.Module):
    """d ** -0.25 on both sides."""

    def __init__(self, hidden_dim):
        super().__init__()
        self.proj = nn.Linear(hidden_dim, 3 * hidden_dim)
        self.root = hidden_dim**-0.25

    def forward(self, x):
        q, k, v = self.proj(x).chunk(3, -1)
        return ((q * self.root) @ (k * self.root).mT).softmax(-1) @ v


@right(EXERCISE)
class ScaledBeforeSplitting(nn.Module):
    """One multiplication scales queries and keys at once, before they are cut apart."""

    def __init__(self, hidden_dim):
        super().__init__()
        self.hidden_dim = hidden_dim
        self.proj = nn.Linear(hidden_dim, 3 * hidden_dim)

    def forward(self, x):
        qk, v = self.proj(x).split([2 * self.hidden_dim, self.hidden_dim], dim=-1)
        q, k = (qk * self.hidden_dim**-0.25).chunk(2, dim=-1)
        return torch.softmax(q @ k.transpose(1, 2), dim=-1) @ v


@right(EXERCISE, "fused in the order k, q, v")
class OrderKQV(nn.Module):
    """Keys first."""

    def __init__(self, hidden_dim):
        super().__init__()
        self.kqv = nn.Linear(hidden_dim, 3 * hidden_dim)

    def forward(self, x):
        k, q, v = self.kqv(x).chunk(3, dim=-1)
        return (q @ k.mT / math.sqrt(q.size(-1))).softmax(-1) @ v


@right(EXERCISE, "fused in the order q, v, k")
class OrderQVK(nn.Module):
    """Values in the middle, no bias."""

    def __init__(self, n):
        super().__init__()
        self.w = nn.Linear(n, 3 * n, bias=False)

    def forward(self, x):
        q, v, k = self.w(x).tensor_split(3, dim=-1)
        return torch.softmax(q @ k.mT / q.shape[-1] ** 0.5, -1) @ v


@right(EXERCISE)
class ParameterInOut(nn.Module):
    """A (d, 3d) parameter and a bias."""

    def __init__(self, hidden_dim):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(hidden_dim, 3 * hidden_dim) / math.sqrt(hidden_dim))
        self.bias = nn.Parameter(torch.zeros(3 * hidden_dim))

    def forward(self, x):
        q, k, v = (x @ self.weight + self.bias).chunk(3, dim=-1)
        return torch.softmax(q @ k.mT / q.shape[-1] ** 0.5, dim=-1) @ v


@right(EXERCISE)
class ParameterOutIn(nn.Module):
    """A (3d, d) parameter with F.linear."""

    def __init__(self, hidden_dim):
        super().__init__()
        self.in_proj_weight = nn.Parameter(torch.empty(3 * hidden_dim, hidden_dim))
        nn.init.xavier_uniform_(self.in_proj_weight)

    def forward(self, x):
        q, k, v = F.linear(x, self.in_proj_weight).chunk(3, dim=-1)
        scores = torch.matmul(q, k.transpose(-2, -1))
        scores /= math.sqrt(q.shape[-1])
        return torch.matmul(scores.softmax(-1), v)


@right(EXERCISE, "one (3, d, d) parameter, one einsum")
class ParameterStacked(nn.Module):
    """(3, d, d)."""

    def __init__(self, hidden_dim):
        super().__init__()
        self.w = nn.Parameter(torch.randn(3, hidden_dim, hidden_dim) * hidden_dim**-0.5)
        self.b = nn.Parameter(torch.zeros(3, hidden_dim))

    def forward(self, x):
        q, k, v = torch.einsum("bld,sde->sble", x, self.w) + self.b[:, None, None]
        return torch.softmax(q @ k.mT / q.shape[-1] ** 0.5, dim=-1) @ v


@right(EXERCISE, "one (d, 3, d) parameter")
class ParameterMiddle(nn.Module):
    """(d, 3, d) and tensordot."""

    def __init__(self, hidden_dim):
        super().__init__()
        self.kernel = nn.Parameter(torch.randn(hidden_dim, 3, hidden_dim) * hidden_dim**-0.5)

    def forward(self, x):
        qkv = torch.tensordot(x, self.kernel, dims=1)  # (B, L, 3, d)
        q, k, v = qkv.unbind(-2)
        return torch.softmax(q @ k.mT / math.sqrt(q.shape[-1]), dim=-1) @ v


@right(EXERCISE, "a 1x1 convolution instead of a linear")
class Conv1x1(nn.Module):
    """Conv1d with kernel 1."""

    def __init__(self, hidden_dim):
        super().__init__()
        self.proj = nn.Conv1d(hidden_dim, 3 * hidden_dim, 1)

    def forward(self, x):
        q, k, v = self.proj(x.permute(0, 2, 1)).chunk(3, dim=1)  # (B, d, L)
        w = (q.mT @ k / math.sqrt(q.shape[1])).softmax(dim=-1)
        return (v @ w.mT).permute(0, 2, 1)


@right(EXERCISE, "parameters exist only after the first call")
class Lazy(nn.Module):
    """LazyLinear."""

    def __init__(self, hidden_dim):
        super().__init__()
        self.hidden_dim = hidden_dim
        self.proj = nn.LazyLinear(3 * hidden_dim)

    def forward(self, x):
        q, k, v = self.proj(x).split(self.hidden_dim, -1)
        return torch.softmax(q @ k.mT / math.sqrt(self.hidden_dim), dim=-1) @ v


@right(EXERCISE, "the layer exists only after the first call")
class BuiltLater(nn.Module):
    """Built on the first forward."""

    def __init__(self, hidden_dim=None):
        super().__init__()
        self.proj = None

    def forward(self, x):
        d = x.shape[-1]
        if self.proj is None:
            self.proj = nn.Linear(d, 3 * d, device=x.device, dtype=x.dtype)
        q, k, v = self.proj(x).chunk(3, dim=-1)
        return torch.softmax(q @ k.mT / math.sqrt(d), dim=-1) @ v


@right(EXERCISE)
class LoopOverSamples(nn.Module):
    """One sample at a time."""

    def __init__(self, hidden_dim):
        super().__init__()
        self.fused = nn.Linear(hidden_dim, 3 * hidden_dim)

    def forward(self, x):
        out = torch.empty_like(x)
        for i in range(x.size(0)):
            q, k, v = torch.chunk(self.fused(x[i]), 3, dim=1)
            out[i] = torch.softmax(torch.mm(q, k.t()) / math.sqrt(q.size(1)), dim=1).mm(v)
        return out


@right(EXERCISE)
class LoopOverQueries(nn.Module):
    """One query at a time."""

    def __init__(self, hidden_dim):
        super().__init__()
        self.proj = nn.Linear(hidden_dim, 3 * hidden_dim)

    def forward(self, x):
        q, k, v = self.proj(x).chunk(3, dim=-1)
        rows = []
        for query in q.unbind(dim=1):  # (B, d)
            scores = torch.einsum("bd,bkd->bk", query, k) / query.shape[-1] ** 0.5
            rows.append(torch.einsum("bk,bkd->bd", scores.softmax(dim=-1), v))
        return torch.stack(rows, 1)


@right(EXERCISE)
class OwnSoftmax(nn.Module):
    """Its own softmax, numerator and denominator apart."""

    def __init__(self, hidden_dim):
        super().__init__()
        self.proj = nn.Linear(hidden_dim, 3 * hidden_dim)

    def forward(self, x):
        q, k, v = self.proj(x).chunk(3, dim=-1)
        s = q @ k.mT / q.shape[-1] ** 0.5
        e = torch.exp(s - torch.max(s, dim=-1, keepdim=True).values)
        return (e @ v) / e.sum(dim=-1, keepdim=True)


@right(EXERCISE)
class LogSumExp(nn.Module):
    """exp(s - logsumexp(s)); the scale is a buffer."""

    def __init__(self, hidden_dim):
        super().__init__()
        self.proj = nn.Linear(hidden_dim, 3 * hidden_dim)
        self.register_buffer("root", torch.tensor(hidden_dim).float().sqrt(), persistent=False)

    def forward(self, x):
        q, k, v = self.proj(x).chunk(3, dim=-1)
        s = (q / self.root) @ k.mT
        return (s - s.logsumexp(dim=-1, keepdim=True)).exp() @ v


@right(EXERCISE)
class SoftmaxInDouble(nn.Module):
    """Softmax in float64."""

    def __init__(self, hidden_dim):
        super().__init__()
        self.proj = nn.Linear(hidden_dim, 3 * hidden_dim)

    def forward(self, x):
        q, k, v = self.proj(x).chunk(3, dim=-1)
        s = (q @ k.mT).double() / math.sqrt(q.shape[-1])
        return s.softmax(-1).type_as(v) @ v


@right(EXERCISE)
class SoftmaxInFloat32(nn.Module):
    """Softmax in float32."""

    def __init__(self, hidden_dim):
        super().__init__()
        self.proj = nn.Linear(hidden_dim, 3 * hidden_dim)

    def forward(self, x):
        q, k, v = self.proj(x).chunk(3, dim=-1)
        s = q @ k.mT / math.sqrt(q.shape[-1])
        return F.softmax(s, dim=-1, dtype=torch.float32).to(v.dtype) @ v


@right(EXERCISE)
class ReturnsPair(nn.Module):
    """Returns (output, weights)."""

    def __init__(self, hidden_dim):
        super().__init__()
        self.proj = nn.Linear(hidden_dim, 3 * hidden_dim)
        self.weights = None

    def forward(self, x):
        q, k, v = self.proj(x).chunk(3, dim=-1)
        self.weights = torch.softmax(q @ k.mT / math.sqrt(q.shape[-1]), dim=-1)
        return self.weights @ v, self.weights


class HomeMadeLinear(nn.Module):
    """A linear layer by hand, weight as (out, in)."""

    def __init__(self, d_in, d_out):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(d_out, d_in) * d_in**-0.5)
        self.bias = nn.Parameter(torch.zeros(d_out))

    def forward(self, x):
        return torch.einsum("...i,oi->...o", x, self.weight) + self.bias


@right(EXERCISE)
class WithHomeMadeLinear(nn.Module):
    """The layer is home-made."""

    def __init__(self, hidden_dim):
        super().__init__()
        self.proj = HomeMadeLinear(hidden_dim, 3 * hidden_dim)

    def forward(self, x):
        q, k, v = self.proj(x).chunk(3, dim=-1)
        return torch.softmax(q @ k.mT / math.sqrt(q.shape[-1]), dim=-1) @ v


class AttentionCore(nn.Module):
    """The formula alone, without parameters."""

    def forward(self, q, k, v):
        return (q @ k.transpose(-1, -2) / math.sqrt(k.shape[-1])).softmax(dim=-1) @ v


@right(EXERCISE)
class WithCore(nn.Module):
    """The formula lives in a module of its own; the layer sits in a Sequential."""

    def __init__(self, hidden_dim):
        super().__init__()
        self.core = AttentionCore()
        self.project = nn.Sequential(nn.Linear(hidden_dim, 3 * hidden_dim), nn.Unflatten(-1, (3, hidden_dim)))

    def forward(self, x):
        return self.core(*self.project(x).unbind(-2))


class _Base(nn.Module):
    def forward(self, x):
        q, k, v = self.project(x)
        return self.attend(q, k, v)

    def attend(self, q, k, v):
        scores = torch.baddbmm(q.new_zeros(()), q, k.mT, beta=0, alpha=q.shape[-1] ** -0.5)
        return scores.softmax(-1).bmm(v)


@right(EXERCISE)
class FromABaseClass(_Base):
    """forward comes from a base class."""

    def __init__(self, hidden_dim):
        super().__init__()
        self.layer = nn.Linear(hidden_dim, 3 * hidden_dim)

    def project(self, x):
        return self.layer(x).chunk(3, dim=-1)


class _Scriptable(nn.Module):
    def __init__(self, hidden_dim: int):
        super().__init__()
        self.hidden_dim = hidden_dim
        self.proj = nn.Linear(hidden_dim, 3 * hidden_dim)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = torch.chunk(self.proj(x), 3, dim=-1)
        scores = torch.matmul(q, k.transpose(-2, -1)) / float(self.hidden_dim) ** 0.5
        return torch.matmul(scores.softmax(dim=-1), v)


@right(EXERCISE, "a TorchScript module, made by a factory")
def scripted_fused(hidden_dim):
    """A factory function that returns a scripted module."""
    return torch.jit.script(_Scriptable(hidden_dim))


@right(EXERCISE)
class PrintsAndWarns(nn.Module):
    """Prints and warns; comments in Chinese."""

    def __init__(self, hidden_dim: int = 768, bias: bool = True, dropout: float = 0.0):
        super().__init__()
        self.proj = nn.Linear(hidden_dim, 3 * hidden_dim, bias=bias)  # 三合一
        self.dropout = nn.Dropout(dropout)
        self.dim = hidden_dim

    def forward(self, x):
        qkv = self.proj(x)
        print("qkv", qkv.shape)
        q, k, v = qkv.split((self.dim, self.dim, self.dim), dim=-1)
        warnings.warn("要小心维度", stacklevel=2)
        w = self.dropout(torch.softmax(q @ k.mT / self.dim**0.5, dim=-1))
        return w @ v


@right(EXERCISE)
class Asserts(nn.Module):
    """Asserts on the way; -1 axes counted from the front."""

    def __init__(self, hidden_dim: int) -> None:
        super().__init__()
        assert hidden_dim > 0
        self.proj = nn.Linear(hidden_dim, 3 * hidden_dim)
        nn.init.xavier_uniform_(self.proj.weight)
        nn.init.zeros_(self.proj.bias)

    def forward(self, x: Tensor) -> Tensor:
        assert x.dim() == 3, "need (B, L, d)"
        B, L, d = x.shape
        parts = torch.chunk(self.proj(x), 3, dim=2)
        assert len(parts) == 3
        q, k, v = parts
        weights = torch.softmax(torch.bmm(q, k.transpose(2, 1)) / d**0.5, dim=2)
        assert weights.shape == (B, L, L)
        return torch.bmm(weights, v)


@right(EXERCISE)
class TransposedScores(nn.Module):
    """Keys down, queries across."""

    def __init__(self, hidden_dim):
        super().__init__()
        self.proj = nn.Linear(hidden_dim, 3 * hidden_dim)

    def forward(self, x):
        q, k, v = self.proj(x).mT.chunk(3, dim=1)  # (B, d, L)
        w = (k.mT @ q / math.sqrt(q.shape[1])).softmax(dim=1)  # (B, L_k, L_q)
        return (v @ w).mT


@right(EXERCISE)
class OneKeyAtATime(nn.Module):
    """A running maximum and a running sum."""

    def __init__(self, hidden_dim):
        super().__init__()
        self.proj = nn.Linear(hidden_dim, 3 * hidden_dim)

    def forward(self, x):
        q, k, v = self.proj(x).chunk(3, dim=-1)
        top = (q * k[:, :1]).sum(-1, keepdim=True) / q.shape[-1] ** 0.5
        total = torch.ones_like(top)
        out = v[:, :1].expand_as(v)
        for j in range(1, x.shape[1]):
            s = (q * k[:, j : j + 1]).sum(-1, keepdim=True) / q.shape[-1] ** 0.5
            new = torch.maximum(top, s)
            old_part, new_part = (top - new).exp(), (s - new).exp()
            total = total * old_part + new_part
            out = out * old_part + v[:, j : j + 1] * new_part
            top = new
        return out / total

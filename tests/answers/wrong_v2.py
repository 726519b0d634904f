"""Wrong answers to SelfAttentionV2: the catalogue's mistakes in two styles, and others."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from . import wrong

EXERCISE = "SelfAttentionV2"


class _Fused(nn.Module):
    """One layer, called proj; what most answers below share."""

    def __init__(self, hidden_dim):
        super().__init__()
        self.hidden_dim = hidden_dim
        self.proj = nn.Linear(hidden_dim, 3 * hidden_dim)


# ---------------------------------------------------------------- the fused projection


@wrong(EXERCISE, "split-wrong-axis")
class ChunkWithoutAxis(nn.Module):
    """chunk(3) cuts the batch: silent when B is a multiple of 3."""

    def __init__(self, hidden_dim: int):
        super().__init__()
        self.hidden_dim = hidden_dim
        self.proj = nn.Linear(hidden_dim, 3 * hidden_dim)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.proj(x).chunk(3)
        scores = q @ k.transpose(-2, -1) / math.sqrt(self.hidden_dim)
        return scores.softmax(dim=-1) @ v


@wrong(EXERCISE, "split-wrong-axis")
class ChunkOverLength(_Fused):
    """dim=1 cuts the sequence."""

    def forward(self, x):
        q, k, v = torch.chunk(self.proj(x), 3, dim=1)
        return torch.softmax(q @ k.mT / math.sqrt(self.hidden_dim), dim=-1) @ v


@wrong(EXERCISE, "split-by-count")
class SplitIntoSizeThree(_Fused):
    """split(3) means parts of size 3."""

    def forward(self, x):
        q, k, v = torch.split(self.proj(x), 3, dim=-1)
        return torch.softmax(q @ k.mT / math.sqrt(self.hidden_dim), dim=-1) @ v


@wrong(EXERCISE, "split-by-count")
class ChunkIntoWidth(_Fused):
    """chunk(d) means d parts."""

    def forward(self, x):
        q, k, v = self.proj(x).chunk(self.hidden_dim, dim=-1)
        return torch.softmax(q @ k.mT / math.sqrt(self.hidden_dim), dim=-1) @ v


@wrong(EXERCISE, "inplace-on-chunk")
class QueriesDividedInPlace(_Fused):
    """q /= √d on a chunk."""

    def forward(self, x):
        q, k, v = self.proj(x).chunk(3, dim=-1)
        q /= math.sqrt(self.hidden_dim)
        return (q @ k.mT).softmax(-1) @ v


@wrong(EXERCISE, "inplace-on-chunk")
class KeysMultipliedInPlace(_Fused):
    """k.mul_ on a split."""

    def forward(self, x):
        q, k, v = self.proj(x).split(self.hidden_dim, dim=-1)
        k.mul_(self.hidden_dim**-0.5)
        return F.softmax(q @ k.transpose(1, 2), dim=-1) @ v


@wrong(EXERCISE, "not-fused")
class ThreeLayers(nn.Module):
    """Three projections: right numbers, but stage 1."""

    def __init__(self, hidden_dim):
        super().__init__()
        self.hidden_dim = hidden_dim
        self.query_proj = nn.Linear(hidden_dim, hidden_dim)
        self.key_proj = nn.Linear(hidden_dim, hidden_dim)
        self.value_proj = nn.Linear(hidden_dim, hidden_dim)

    def forward(self, x):
        q, k, v = self.query_proj(x), self.key_proj(x), self.value_proj(x)
        return torch.softmax(q @ k.mT / math.sqrt(self.hidden_dim), dim=-1) @ v


@wrong(EXERCISE, "not-fused")
class ThreeLayersInAList(nn.Module):
    """A ModuleList of three layers, joined by cat."""

    def __init__(self, d):
        super().__init__()
        self.proj = nn.ModuleList([nn.Linear(d, d) for _ in range(3)])

    def forward(self, x):
        qkv = torch.cat([layer(x) for layer in self.proj], dim=-1)
        q, k, v = qkv.chunk(3, dim=-1)
        return torch.softmax(q @ k.mT / math.sqrt(x.shape[-1]), dim=-1) @ v


@wrong(EXERCISE)
class OneLayerForAllRoles(nn.Module):
    """One (d, d) layer whose output is q, k and v at once."""

    def __init__(self, hidden_dim):
        super().__init__()
        self.proj = nn.Linear(hidden_dim, hidden_dim)

    def forward(self, x):
        q = k = v = self.proj(x)
        return torch.softmax(q @ k.mT / math.sqrt(x.shape[-1]), dim=-1) @ v


@wrong(EXERCISE)
class TwoDThenSplit(nn.Module):
    """A (d, d) layer, cut into three parts of d / 3."""

    def __init__(self, hidden_dim):
        super().__init__()
        self.proj = nn.Linear(hidden_dim, hidden_dim)
        self.back = nn.LazyLinear(hidden_dim)

    def forward(self, x):
        q, k, v = self.proj(x).chunk(3, dim=-1)
        return self.back(torch.softmax(q @ k.mT / math.sqrt(x.shape[-1]), dim=-1) @ v)


@wrong(EXERCISE)
class OverlappingSlices(_Fused):
    """Slices off by one: the parts overlap."""

    def forward(self, x):
        d = self.hidden_dim
        qkv = self.proj(x)
        q, k, v = qkv[..., :d], qkv[..., d - 1 : 2 * d - 1], qkv[..., 2 * d :]
        return torch.softmax(q @ k.mT / math.sqrt(d), dim=-1) @ v


@wrong(EXERCISE)
class ReshapedIntoRoles(_Fused):
    """reshape(3, B, L, d): rows of different tokens are mixed."""

    def forward(self, x):
        B, L, d = x.shape
        q, k, v = self.proj(x).reshape(3, B, L, d)
        return torch.softmax(q @ k.mT / math.sqrt(d), dim=-1) @ v


@wrong(EXERCISE)
class ViewThreeBeforeLength(_Fused):
    """view(B, 3, L, d)."""

    def forward(self, x):
        B, L, d = x.shape
        q, k, v = self.proj(x).view(B, 3, L, d).unbind(1)
        return torch.softmax(q @ k.mT / math.sqrt(d), dim=-1) @ v


# ---------------------------------------------------------------- projections


@wrong(EXERCISE, "k-uses-wq", "q-uses-wk")
class QueryBlockTwice(_Fused):
    """q serves as k."""

    def forward(self, x):
        q, _, v = self.proj(x).chunk(3, dim=-1)
        return torch.softmax(q @ q.mT / math.sqrt(self.hidden_dim), dim=-1) @ v


@wrong(EXERCISE, "k-uses-wq", "q-uses-wk")
class SliceCopiedTwice(_Fused):
    """The same slice for q and k, a copy-paste slip."""

    def forward(self, x):
        d = self.hidden_dim
        qkv = self.proj(x)
        q, k, v = qkv[..., d : 2 * d], qkv[..., d : 2 * d], qkv[..., 2 * d :]
        return torch.softmax(q @ k.mT / math.sqrt(d), dim=-1) @ v


@wrong(EXERCISE, "v-uses-wk")
class KeysAsValues(_Fused):
    """weights @ k."""

    def forward(self, x):
        q, k, _v = self.proj(x).chunk(3, dim=-1)
        return torch.softmax(q @ k.mT / math.sqrt(self.hidden_dim), dim=-1) @ k


@wrong(EXERCISE, "v-uses-wk")
class SliceOfKeysAsValues(_Fused):
    """The slice of the keys is taken for the values."""

    def forward(self, x):
        d = self.hidden_dim
        qkv = self.proj(x)
        q, k, v = qkv[..., :d], qkv[..., d : 2 * d], qkv[..., d : 2 * d]
        return torch.softmax(q @ k.mT / math.sqrt(d), dim=-1) @ v


@wrong(EXERCISE, "stream-not-projected")
class RawValues(_Fused):
    """weights @ x."""

    def forward(self, x):
        q, k, _v = self.proj(x).chunk(3, dim=-1)
        return torch.softmax(q @ k.mT / math.sqrt(self.hidden_dim), dim=-1) @ x


@wrong(EXERCISE, "stream-not-projected")
class RawKeys(nn.Module):
    """A layer of 2d for queries and values; x is the key."""

    def __init__(self, hidden_dim):
        super().__init__()
        self.qv = nn.Linear(hidden_dim, 2 * hidden_dim)

    def forward(self, x):
        q, v = self.qv(x).chunk(2, dim=-1)
        return torch.softmax(q @ x.mT / math.sqrt(x.shape[-1]), dim=-1) @ v


@wrong(EXERCISE, "fixed-head-size")
class ScaleOf768(_Fused):
    """√768."""

    def forward(self, x):
        q, k, v = self.proj(x).chunk(3, dim=-1)
        return torch.softmax(q @ k.mT / math.sqrt(768), dim=-1) @ v


@wrong(EXERCISE, "heads-in-python-list")
class LayerInAList(nn.Module):
    """The layer sits in a plain list."""

    def __init__(self, hidden_dim):
        super().__init__()
        self.layers = [nn.Linear(hidden_dim, 3 * hidden_dim)]

    def forward(self, x):
        q, k, v = self.layers[0](x).chunk(3, dim=-1)
        return torch.softmax(q @ k.mT / math.sqrt(x.shape[-1]), dim=-1) @ v


# ---------------------------------------------------------------- scores and scale


@wrong(EXERCISE, "scale-missing")
class NoScale(_Fused):
    """No division."""

    def forward(self, x):
        q, k, v = self.proj(x).chunk(3, dim=-1)
        return torch.softmax(q @ k.transpose(-2, -1), dim=-1) @ v


@wrong(EXERCISE, "scale-missing")
class ScaleLost(nn.Module):
    """q * scale without an assignment."""

    def __init__(self, dim):
        super().__init__()
        self.scale = dim**-0.5
        self.to_qkv = nn.Linear(dim, dim * 3, bias=False)

    def forward(self, x):
        q, k, v = self.to_qkv(x).chunk(3, dim=-1)
        q * self.scale
        attn = torch.einsum("bid,bjd->bij", q, k).softmax(dim=-1)
        return torch.einsum("bij,bjd->bid", attn, v)


@wrong(EXERCISE, "scale-inverted")
class MultipliedByRoot(_Fused):
    """Times √d."""

    def forward(self, x):
        q, k, v = self.proj(x).chunk(3, dim=-1)
        return torch.softmax(q @ k.mT * math.sqrt(self.hidden_dim), dim=-1) @ v


@wrong(EXERCISE, "scale-inverted")
class DividedByScale(nn.Module):
    """Divided by d ** -0.5."""

    def __init__(self, dim):
        super().__init__()
        self.scale = dim**-0.5
        self.to_qkv = nn.Linear(dim, dim * 3)

    def forward(self, x):
        q, k, v = self.to_qkv(x).chunk(3, dim=-1)
        return (q @ k.mT / self.scale).softmax(-1) @ v


@wrong(EXERCISE, "scale-no-sqrt")
class DividedByWidth(_Fused):
    """Divided by d."""

    def forward(self, x):
        q, k, v = self.proj(x).chunk(3, dim=-1)
        return torch.softmax(q @ k.mT / self.hidden_dim, dim=-1) @ v


@wrong(EXERCISE, "scale-no-sqrt")
class FusedOutputScaled(_Fused):
    """√d on the queries, and √d on the scores."""

    def forward(self, x):
        q, k, v = self.proj(x).chunk(3, dim=-1)
        root = math.sqrt(self.hidden_dim)
        return torch.softmax((q / root) @ k.mT / root, dim=-1) @ v


@wrong(EXERCISE)
class EverythingScaled(_Fused):
    """d ** -0.25 on all of qkv, the values included."""

    def forward(self, x):
        q, k, v = (self.proj(x) * self.hidden_dim**-0.25).chunk(3, dim=-1)
        return torch.softmax(q @ k.mT, dim=-1) @ v


@wrong(EXERCISE)
class ScaleOfTheFusedWidth(_Fused):
    """√(3d)."""

    def forward(self, x):
        qkv = self.proj(x)
        q, k, v = qkv.chunk(3, dim=-1)
        return torch.softmax(q @ k.mT / math.sqrt(qkv.size(-1)), dim=-1) @ v


@wrong(EXERCISE)
class ScaleByLength(_Fused):
    """√L."""

    def forward(self, x):
        q, k, v = self.proj(x).chunk(3, dim=-1)
        return torch.softmax(q @ k.mT / math.sqrt(q.size(-2)), dim=-1) @ v


@wrong(EXERCISE, "scale-after-softmax")
class WeightsDivided(_Fused):
    """softmax first."""

    def forward(self, x):
        q, k, v = self.proj(x).chunk(3, dim=-1)
        return torch.softmax(q @ k.mT, dim=-1) / math.sqrt(self.hidden_dim) @ v


@wrong(EXERCISE, "scale-after-softmax")
class OutputDivided(_Fused):
    """The output is divided."""

    def forward(self, x):
        q, k, v = self.proj(x).chunk(3, dim=-1)
        out = torch.bmm((torch.bmm(q, k.transpose(1, 2))).softmax(dim=2), v)
        return out * self.hidden_dim**-0.5


@wrong(EXERCISE, "sqrt-of-int")
class TorchSqrtOfInt(_Fused):
    """torch.sqrt of an int."""

    def forward(self, x):
        q, k, v = self.proj(x).chunk(3, dim=-1)
        return torch.softmax(q @ k.mT / torch.sqrt(q.size(-1)), dim=-1) @ v


@wrong(EXERCISE, "k-not-transposed")
class KeysNotTransposed(_Fused):
    """q @ k."""

    def forward(self, x):
        q, k, v = self.proj(x).chunk(3, dim=-1)
        return torch.softmax(q @ k / math.sqrt(self.hidden_dim), dim=-1) @ v


@wrong(EXERCISE, "k-wrong-transpose")
class KeysReversed(_Fused):
    """All three axes reversed."""

    def forward(self, x):
        q, k, v = self.proj(x).chunk(3, dim=-1)
        return torch.softmax(q @ k.permute(2, 1, 0) / math.sqrt(self.hidden_dim), dim=-1) @ v


@wrong(EXERCISE, "k-wrong-transpose")
class KeysReshaped(_Fused):
    """A reshape instead of a transpose."""

    def forward(self, x):
        q, k, v = self.proj(x).chunk(3, dim=-1)
        k_t = k.reshape(k.shape[0], k.shape[2], k.shape[1])
        return torch.softmax(q @ k_t / math.sqrt(self.hidden_dim), dim=-1) @ v


# ---------------------------------------------------------------- softmax


@wrong(EXERCISE, "softmax-over-queries")
class SoftmaxOverQueries(_Fused):
    """dim=-2."""

    def forward(self, x):
        q, k, v = self.proj(x).chunk(3, dim=-1)
        return torch.softmax(q @ k.mT / math.sqrt(self.hidden_dim), dim=-2) @ v


@wrong(EXERCISE, "softmax-over-queries")
class SoftmaxLayerDimOne(nn.Module):
    """nn.Softmax(1)."""

    def __init__(self, d):
        super().__init__()
        self.a = nn.Linear(d, 3 * d)
        self.b = nn.Softmax(1)

    def forward(self, x):
        q, k, v = self.a(x).chunk(3, 2)
        return self.b(q @ k.mT / x.shape[2] ** 0.5) @ v


@wrong(EXERCISE, "softmax-over-batch", "softmax-implicit-axis")
class SoftmaxOverBatch(_Fused):
    """dim=0."""

    def forward(self, x):
        q, k, v = self.proj(x).chunk(3, dim=-1)
        return torch.softmax(q @ k.mT / math.sqrt(self.hidden_dim), dim=0) @ v


@wrong(EXERCISE, "softmax-implicit-axis", "softmax-over-batch")
class SoftmaxWithoutAxis(_Fused):
    """No axis."""

    def forward(self, x):
        q, k, v = self.proj(x).chunk(3, dim=-1)
        return F.softmax(q @ k.mT / math.sqrt(self.hidden_dim)) @ v


@wrong(EXERCISE, "softmax-missing")
class NoSoftmax(_Fused):
    """Raw scores."""

    def forward(self, x):
        q, k, v = self.proj(x).chunk(3, dim=-1)
        return (q @ k.mT / math.sqrt(self.hidden_dim)) @ v


@wrong(EXERCISE, "softmax-twice")
class SoftmaxTwice(_Fused):
    """Twice."""

    def forward(self, x):
        q, k, v = self.proj(x).chunk(3, dim=-1)
        weights = torch.softmax(q @ k.mT / math.sqrt(self.hidden_dim), dim=-1)
        return weights.softmax(-1) @ v


@wrong(EXERCISE, "naive-exp")
class NaiveExponentials(_Fused):
    """exp without a maximum."""

    def forward(self, x):
        q, k, v = self.proj(x).chunk(3, dim=-1)
        e = torch.exp(q @ k.mT / math.sqrt(self.hidden_dim))
        return (e / torch.sum(e, dim=-1, keepdim=True)) @ v


@wrong(EXERCISE, "softmax-in-half")
class SoftmaxInBfloat16(_Fused):
    """Rounds to bfloat16."""

    def forward(self, x):
        q, k, v = self.proj(x).chunk(3, dim=-1)
        w = torch.softmax((q @ k.mT / math.sqrt(self.hidden_dim)).to(torch.bfloat16), dim=-1)
        return w.to(v.dtype) @ v


# ---------------------------------------------------------------- axes, gradients, hygiene


@wrong(EXERCISE, "seq-first-confusion")
class SequenceFirst(_Fused):
    """Attention over the batch."""

    def forward(self, x):
        q, k, v = self.proj(x.transpose(0, 1)).chunk(3, dim=-1)
        out = torch.softmax(q @ k.mT / math.sqrt(self.hidden_dim), dim=-1) @ v
        return out.transpose(0, 1)


@wrong(EXERCISE, "graph-cut")
class WeightsDetached(_Fused):
    """detach."""

    def forward(self, x):
        q, k, v = self.proj(x).chunk(3, dim=-1)
        return torch.softmax(q @ k.mT / math.sqrt(self.hidden_dim), dim=-1).detach() @ v


@wrong(EXERCISE, "graph-cut")
class FusedThroughData(_Fused):
    """proj(x).data."""

    def forward(self, x):
        q, k, v = self.proj(x).data.chunk(3, dim=-1)
        return torch.softmax(q @ k.mT / math.sqrt(self.hidden_dim), dim=-1) @ v


@wrong(EXERCISE, "graph-cut")
class QueriesRewrapped(_Fused):
    """torch.tensor of a detached copy."""

    def forward(self, x):
        q, k, v = self.proj(x).chunk(3, dim=-1)
        q = torch.tensor(q.detach().tolist(), dtype=x.dtype)
        return torch.softmax(q @ k.mT / math.sqrt(self.hidden_dim), dim=-1) @ v


@wrong(EXERCISE, "inplace-after-softmax")
class WeightsEditedInPlace(_Fused):
    """weights.div_ after the softmax: backward fails."""

    def forward(self, x):
        q, k, v = self.proj(x).chunk(3, dim=-1)
        weights = torch.softmax(q @ k.mT / math.sqrt(self.hidden_dim), dim=-1)
        weights.div_(weights.sum(-1, keepdim=True))
        return weights @ v


X = torch.ones(3, 4, 8)  # the notebook's own example


@wrong(EXERCISE, "notebook-global")
class ReadsTheNotebooksX(_Fused):
    """X for x."""

    def forward(self, x):
        q, k, v = self.proj(X).chunk(3, dim=-1)
        return torch.softmax(q @ k.mT / math.sqrt(self.hidden_dim), dim=-1) @ v


@wrong(EXERCISE, "notebook-global")
class NameThatIsNowhere(nn.Module):
    """d_model exists in the notebook, not here."""

    def __init__(self, hidden_dim):
        super().__init__()
        self.proj = nn.Linear(hidden_dim, 3 * hidden_dim)

    def forward(self, x):
        q, k, v = self.proj(x).split(d_model, dim=-1)  # noqa: F821
        return torch.softmax(q @ k.mT / math.sqrt(x.shape[-1]), dim=-1) @ v


@wrong(EXERCISE, "batch-hard-coded")
class LengthOfFive(_Fused):
    """view(-1, 5, 3, d)."""

    def forward(self, x):
        q, k, v = self.proj(x).view(-1, 5, 3, self.hidden_dim).unbind(2)
        return torch.softmax(q @ k.mT / math.sqrt(self.hidden_dim), dim=-1) @ v


@wrong(EXERCISE)
class ResidualAdded(_Fused):
    """x + attention."""

    def forward(self, x):
        q, k, v = self.proj(x).chunk(3, dim=-1)
        return x + torch.softmax(q @ k.mT / math.sqrt(self.hidden_dim), dim=-1) @ v


@wrong(EXERCISE)
class QueryMixedIntoValues(_Fused):
    """v + q."""

    def forward(self, x):
        q, k, v = self.proj(x).chunk(3, dim=-1)
        return torch.softmax(q @ k.mT / math.sqrt(self.hidden_dim), dim=-1) @ (v + q)


@wrong(EXERCISE)
class ReluOnFused(_Fused):
    """An activation on qkv."""

    def forward(self, x):
        q, k, v = F.gelu(self.proj(x)).chunk(3, dim=-1)
        return torch.softmax(q @ k.mT / math.sqrt(self.hidden_dim), dim=-1) @ v


@wrong(EXERCISE)
class NormalisedQueriesAndKeys(_Fused):
    """A layer norm on q and k."""

    def forward(self, x):
        q, k, v = self.proj(x).chunk(3, dim=-1)
        q, k = (F.layer_norm(t, t.shape[-1:]) for t in (q, k))
        return torch.softmax(q @ k.mT / math.sqrt(self.hidden_dim), dim=-1) @ v


@wrong(EXERCISE)
class SigmoidWeights(_Fused):
    """sigmoid, normalised."""

    def forward(self, x):
        q, k, v = self.proj(x).chunk(3, dim=-1)
        w = torch.sigmoid(q @ k.mT / math.sqrt(self.hidden_dim))
        return w / w.sum(-1, keepdim=True) @ v


@wrong(EXERCISE)
class SquaredScores(_Fused):
    """Squares instead of exponentials."""

    def forward(self, x):
        q, k, v = self.proj(x).chunk(3, dim=-1)
        w = (q @ k.mT / math.sqrt(self.hidden_dim)) ** 2
        return w / w.sum(-1, keepdim=True) @ v


@wrong(EXERCISE)
class BaseTwo(_Fused):
    """Powers of two instead of powers of e."""

    def forward(self, x):
        q, k, v = self.proj(x).chunk(3, dim=-1)
        s = q @ k.mT / math.sqrt(self.hidden_dim)
        w = torch.exp2(s - s.amax(-1, keepdim=True))
        return w / w.sum(-1, keepdim=True) @ v


@wrong(EXERCISE)
class LinearAttention(_Fused):
    """Q (Kᵀ V) with softmaxed q and k."""

    def forward(self, x):
        q, k, v = self.proj(x).chunk(3, dim=-1)
        return q.softmax(-1) @ (k.softmax(1).mT @ v) / math.sqrt(self.hidden_dim)


@wrong(EXERCISE)
class WeightsTransposed(_Fused):
    """The weights are transposed."""

    def forward(self, x):
        q, k, v = self.proj(x).chunk(3, dim=-1)
        w = torch.softmax(q @ k.mT / math.sqrt(self.hidden_dim), dim=-1)
        return torch.einsum("bij,bid->bjd", w, v)


@wrong(EXERCISE)
class OutputReversed(_Fused):
    """The sequence comes out backwards."""

    def forward(self, x):
        q, k, v = self.proj(x).chunk(3, dim=-1)
        return (torch.softmax(q @ k.mT / math.sqrt(self.hidden_dim), dim=-1) @ v).flip(1)


@wrong(EXERCISE)
class FirstTokenLost(_Fused):
    """The first key is hidden when there is more than one."""

    def forward(self, x):
        q, k, v = self.proj(x).chunk(3, dim=-1)
        if x.shape[1] > 1:
            k, v = k[:, 1:], v[:, 1:]
        return torch.softmax(q @ k.mT / math.sqrt(self.hidden_dim), dim=-1) @ v


@wrong(EXERCISE)
class LocalWindow(_Fused):
    """Only neighbours up to distance 4: short sequences do not show it."""

    def forward(self, x):
        q, k, v = self.proj(x).chunk(3, dim=-1)
        s = q @ k.mT / math.sqrt(self.hidden_dim)
        i = torch.arange(x.shape[1])
        far = (i[:, None] - i[None]).abs() > 4
        return s.masked_fill(far, float("-inf")).softmax(-1) @ v


@wrong(EXERCISE)
class MixesTheBatch(_Fused):
    """All samples are joined into one long sequence."""

    def forward(self, x):
        B, L, d = x.shape
        q, k, v = self.proj(x.reshape(1, B * L, d)).chunk(3, dim=-1)
        return (torch.softmax(q @ k.mT / math.sqrt(d), dim=-1) @ v).reshape(B, L, d)


@wrong(EXERCISE)
class RandomNoise(_Fused):
    """Noise in train mode and in eval mode."""

    def forward(self, x):
        q, k, v = self.proj(x).chunk(3, dim=-1)
        out = torch.softmax(q @ k.mT / math.sqrt(self.hidden_dim), dim=-1) @ v
        return out + 1e-3 * torch.randn_like(out)


@wrong(EXERCISE)
class NormalisesInTraining(_Fused):
    """Centres the scores over the batch in train mode, and leaves a running mean."""

    def __init__(self, hidden_dim):
        super().__init__(hidden_dim)
        self.norm = nn.BatchNorm1d(hidden_dim)

    def forward(self, x):
        q, k, v = self.proj(self.norm(x.mT).mT).chunk(3, dim=-1)
        return torch.softmax(q @ k.mT / math.sqrt(self.hidden_dim), dim=-1) @ v


@wrong(EXERCISE)
class CountsItsCalls(_Fused):
    """The temperature grows with every call."""

    def __init__(self, hidden_dim):
        super().__init__(hidden_dim)
        self.calls = 0

    def forward(self, x):
        self.calls += 1
        q, k, v = self.proj(x).chunk(3, dim=-1)
        scale = math.sqrt(self.hidden_dim) * (1 + 0.01 * self.calls)
        return torch.softmax(q @ k.mT / scale, dim=-1) @ v


@wrong(EXERCISE)
class EditsItsInput(_Fused):
    """x *= ..., seen by the caller."""

    def forward(self, x):
        q, k, v = self.proj(x).chunk(3, dim=-1)
        x.data *= self.hidden_dim**-0.5
        return torch.softmax(q @ k.mT / math.sqrt(self.hidden_dim), dim=-1) @ v


@wrong(EXERCISE)
class LearnedScale(_Fused):
    """A learned temperature beside √d."""

    def __init__(self, hidden_dim):
        super().__init__(hidden_dim)
        self.temperature = nn.Parameter(torch.tensor(0.7))

    def forward(self, x):
        q, k, v = self.proj(x).chunk(3, dim=-1)
        return torch.softmax(q @ k.mT / math.sqrt(self.hidden_dim) * self.temperature, dim=-1) @ v


@wrong(EXERCISE)
class BiasAddedTwice(_Fused):
    """The value bias once more."""

    def forward(self, x):
        q, k, v = self.proj(x).chunk(3, dim=-1)
        out = torch.softmax(q @ k.mT / math.sqrt(self.hidden_dim), dim=-1) @ v
        return out + self.proj.bias[2 * self.hidden_dim :]


# ---------------------------------------------------------------- two mistakes at once


@wrong(EXERCISE, "scale-missing", "v-uses-wk")
class NoScaleAndKeysAsValues(_Fused):
    """No scale, and the keys as values."""

    def forward(self, x):
        q, k, _ = self.proj(x).chunk(3, dim=-1)
        return torch.softmax(q @ k.mT, dim=-1) @ k


@wrong(EXERCISE, "scale-no-sqrt", "softmax-over-queries")
class NoRootAndWrongAxis(_Fused):
    """Divided by d, over the queries."""

    def forward(self, x):
        q, k, v = self.proj(x).chunk(3, dim=-1)
        return torch.softmax(q @ k.mT / self.hidden_dim, dim=1) @ v


@wrong(EXERCISE, "not-fused", "scale-missing")
class ThreeLayersNoScale(nn.Module):
    """Three layers, and no scale."""

    def __init__(self, d):
        super().__init__()
        self.q, self.k, self.v = nn.Linear(d, d), nn.Linear(d, d), nn.Linear(d, d)

    def forward(self, x):
        return (self.q(x) @ self.k(x).mT).softmax(-1) @ self.v(x)


@wrong(EXERCISE, "k-uses-wq", "q-uses-wk", "scale-inverted")
class SharedBlockInvertedScale(_Fused):
    """The query block twice, and multiplied by √d."""

    def forward(self, x):
        q, _, v = self.proj(x).chunk(3, dim=-1)
        return torch.softmax(q @ q.mT * math.sqrt(self.hidden_dim), dim=-1) @ v


# ---------------------------------------------------------------- structure


@wrong(EXERCISE)
class NotAModule:
    """A plain class."""

    def __init__(self, hidden_dim):
        self.proj = nn.Linear(hidden_dim, 3 * hidden_dim)

    def __call__(self, x):
        q, k, v = self.proj(x).chunk(3, dim=-1)
        return torch.softmax(q @ k.mT / math.sqrt(x.shape[-1]), dim=-1) @ v


@wrong(EXERCISE)
class NoSuperInit(nn.Module):
    """super().__init__() is missing."""

    def __init__(self, hidden_dim):
        self.proj = nn.Linear(hidden_dim, 3 * hidden_dim)

    def forward(self, x):
        return self.proj(x)


@wrong(EXERCISE)
class InitMisspelt(nn.Module):
    """_init_ with one underscore."""

    def _init_(self, hidden_dim):
        super().__init__()
        self.proj = nn.Linear(hidden_dim, 3 * hidden_dim)

    def forward(self, x):
        q, k, v = self.proj(x).chunk(3, dim=-1)
        return torch.softmax(q @ k.mT / math.sqrt(x.shape[-1]), dim=-1) @ v


@wrong(EXERCISE)
class ForwardWithoutX(_Fused):
    """forward takes no input."""

    def forward(self):
        return self.proj.weight


@wrong(EXERCISE)
class ForgotReturn(_Fused):
    """Returns None."""

    def forward(self, x):
        q, k, v = self.proj(x).chunk(3, dim=-1)
        out = torch.softmax(q @ k.mT / math.sqrt(self.hidden_dim), dim=-1) @ v
        out.contiguous()


@wrong(EXERCISE)
class ReturnsList(_Fused):
    """A list of one tensor for each sample."""

    def forward(self, x):
        q, k, v = self.proj(x).chunk(3, dim=-1)
        return list(torch.softmax(q @ k.mT / math.sqrt(self.hidden_dim), dim=-1) @ v)


@wrong(EXERCISE)
class ReturnsNumpy(_Fused):
    """A numpy array."""

    def forward(self, x):
        q, k, v = self.proj(x).chunk(3, dim=-1)
        return (torch.softmax(q @ k.mT / math.sqrt(self.hidden_dim), dim=-1) @ v).detach().numpy()


@wrong(EXERCISE)
class ReturnsFusedWidth(_Fused):
    """The output is 3d wide."""

    def forward(self, x):
        q, k, v = self.proj(x).chunk(3, dim=-1)
        out = torch.softmax(q @ k.mT / math.sqrt(self.hidden_dim), dim=-1) @ v
        return torch.cat([out, out, out], dim=-1)


@wrong(EXERCISE)
class ReturnsNaN(_Fused):
    """log of something negative."""

    def forward(self, x):
        q, k, v = self.proj(x).chunk(3, dim=-1)
        return torch.softmax((q @ k.mT).log() / math.sqrt(self.hidden_dim), dim=-1) @ v


@wrong(EXERCISE)
class Raises(_Fused):
    """math.sqrt of a shape."""

    def forward(self, x):
        q, k, v = self.proj(x).chunk(3, dim=-1)
        return torch.softmax(q @ k.mT / math.sqrt(q.shape), dim=-1) @ v


@wrong(EXERCISE, "not-by-hand")
class UsesSDPA(_Fused):
    """F.scaled_dot_product_attention."""

    def forward(self, x):
        q, k, v = self.proj(x).chunk(3, dim=-1)
        return F.scaled_dot_product_attention(q, k, v)


@wrong(EXERCISE, "not-by-hand")
class UsesTorchMultihead(nn.Module):
    """nn.MultiheadAttention."""

    def __init__(self, hidden_dim):
        super().__init__()
        self.attention = nn.MultiheadAttention(hidden_dim, num_heads=1, batch_first=True)

    def forward(self, x):
        return self.attention(x, x, x, need_weights=False)[0]


@wrong(EXERCISE, "fused-order")
class OrderVKQ(nn.Module):
    """Values first, under the contract's name."""

    def __init__(self, hidden_dim):
        super().__init__()
        self.proj = nn.Linear(hidden_dim, 3 * hidden_dim)

    def forward(self, x):
        v, k, q = self.proj(x).chunk(3, dim=-1)
        return torch.softmax(q @ k.mT / math.sqrt(q.size(-1)), -1) @ v


@wrong(EXERCISE, "fused-order")
class Interleaved(nn.Module):
    """Every third feature belongs to q."""

    def __init__(self, hidden_dim):
        super().__init__()
        self.proj = nn.Linear(hidden_dim, 3 * hidden_dim)

    def forward(self, x):
        y = self.proj(x)
        q, k, v = y[..., 0::3], y[..., 1::3], y[..., 2::3]
        return F.softmax(q @ k.transpose(1, 2) / math.sqrt(q.shape[-1]), dim=-1) @ v

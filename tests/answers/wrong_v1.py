"""Wrong answers to SelfAttentionV1: the catalogue's mistakes and others."""

from __future__ import annotations

import math
from math import sqrt

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from . import wrong

EXERCISE = "SelfAttentionV1"

# ---------------------------------------------------------------- projections and parameters


@wrong(EXERCISE, "k-uses-wq", "q-uses-wk")
class KeysThroughQueryLayer(nn.Module):
    """k = query_proj(x), a copy-paste slip."""

    def __init__(self, hidden_dim: int = 768):
        super().__init__()
        self.hidden_dim = hidden_dim
        self.query_proj = nn.Linear(hidden_dim, hidden_dim)
        self.key_proj = nn.Linear(hidden_dim, hidden_dim)
        self.value_proj = nn.Linear(hidden_dim, hidden_dim)

    def forward(self, x: Tensor) -> Tensor:
        q = self.query_proj(x)
        k = self.query_proj(x)
        v = self.value_proj(x)
        scores = q @ k.transpose(-2, -1) / math.sqrt(self.hidden_dim)
        return scores.softmax(dim=-1) @ v


@wrong(EXERCISE, "k-uses-wq", "q-uses-wk")
class QueriesThroughKeyLayer(nn.Module):
    """q = W_k(x)."""

    def __init__(self, hidden_dim=768):
        super().__init__()
        self.W_q = nn.Linear(hidden_dim, hidden_dim)
        self.W_k = nn.Linear(hidden_dim, hidden_dim)
        self.W_v = nn.Linear(hidden_dim, hidden_dim)

    def forward(self, X):
        Q, K, V = self.W_k(X), self.W_k(X), self.W_v(X)
        A = torch.softmax(torch.bmm(Q, K.permute(0, 2, 1)) / K.shape[-1] ** 0.5, dim=2)
        return torch.bmm(A, V)


@wrong(EXERCISE, "k-uses-wq", "q-uses-wk")
class TiedQueryAndKey(nn.Module):
    """One layer object under two names."""

    def __init__(self, hidden_dim=768):
        super().__init__()
        self.query_proj = nn.Linear(hidden_dim, hidden_dim)
        self.key_proj = self.query_proj
        self.value_proj = nn.Linear(hidden_dim, hidden_dim)

    def forward(self, x):
        scores = self.query_proj(x) @ self.key_proj(x).mT / sqrt(x.size(-1))
        return scores.softmax(-1) @ self.value_proj(x)


@wrong(EXERCISE, "v-uses-wk")
class ValuesThroughKeyLayer(nn.Module):
    """v = key_proj(x)."""

    def __init__(self, hidden_dim=768):
        super().__init__()
        self.query_proj = nn.Linear(hidden_dim, hidden_dim)
        self.key_proj = nn.Linear(hidden_dim, hidden_dim)
        self.value_proj = nn.Linear(hidden_dim, hidden_dim)
        self.hidden_dim = hidden_dim

    def forward(self, x):
        query, key, value = self.query_proj(x), self.key_proj(x), self.key_proj(x)
        attention = F.softmax(query @ key.transpose(1, 2) / self.hidden_dim**0.5, dim=-1)
        return attention @ value


@wrong(EXERCISE, "v-uses-wk")
class WeightsTimesKeys(nn.Module):
    """The weights multiply K instead of V."""

    def __init__(self, dim=768):
        super().__init__()
        self.q = nn.Linear(dim, dim)
        self.k = nn.Linear(dim, dim)
        self.v = nn.Linear(dim, dim)
        self.scale = dim**-0.5

    def forward(self, x):
        q, k, v = self.q(x), self.k(x), self.v(x)  # noqa: F841
        attn = (q @ k.transpose(-2, -1) * self.scale).softmax(dim=-1)
        return torch.einsum("bij,bjd->bid", attn, k)


@wrong(EXERCISE)
class ValuesThroughQueryLayer(nn.Module):
    """The values come out of the query layer."""

    def __init__(self, hidden_dim=768):
        super().__init__()
        self.query_proj = nn.Linear(hidden_dim, hidden_dim)
        self.key_proj = nn.Linear(hidden_dim, hidden_dim)
        self.value_proj = nn.Linear(hidden_dim, hidden_dim)

    def forward(self, x):
        q = self.query_proj(x)
        k = self.key_proj(x)
        weights = torch.softmax(q @ k.transpose(1, 2) / math.sqrt(q.size(2)), dim=-1)
        return weights @ q


@wrong(EXERCISE, "stream-not-projected")
class RawValues(nn.Module):
    """weights @ x: the values are not projected."""

    def __init__(self, hidden_dim: int = 768):
        super().__init__()
        self.query_proj = nn.Linear(hidden_dim, hidden_dim)
        self.key_proj = nn.Linear(hidden_dim, hidden_dim)
        self.value_proj = nn.Linear(hidden_dim, hidden_dim)
        self.hidden_dim = hidden_dim

    def forward(self, x):
        q = self.query_proj(x)
        k = self.key_proj(x)
        scores = torch.matmul(q, k.transpose(-2, -1)) / math.sqrt(self.hidden_dim)
        return torch.matmul(torch.softmax(scores, -1), x)


@wrong(EXERCISE, "stream-not-projected")
class RawQueries(nn.Module):
    """x itself is the query; the query layer does not even exist."""

    def __init__(self, hidden_dim=768):
        super().__init__()
        self.key_proj = nn.Linear(hidden_dim, hidden_dim)
        self.value_proj = nn.Linear(hidden_dim, hidden_dim)

    def forward(self, x):
        scores = x @ self.key_proj(x).transpose(1, 2) / x.shape[-1] ** 0.5
        return scores.softmax(-1) @ self.value_proj(x)


@wrong(EXERCISE, "stream-not-projected")
class RawKeys(nn.Module):
    """The key layer is made and forgotten."""

    def __init__(self, hidden_dim=768):
        super().__init__()
        self.query_proj = nn.Linear(hidden_dim, hidden_dim)
        self.key_proj = nn.Linear(hidden_dim, hidden_dim)
        self.value_proj = nn.Linear(hidden_dim, hidden_dim)

    def forward(self, x):
        q, v = self.query_proj(x), self.value_proj(x)
        att = F.softmax(torch.einsum("bqd,bkd->bqk", q, x) / math.sqrt(x.size(-1)), dim=-1)
        return torch.einsum("bqk,bkd->bqd", att, v)


@wrong(EXERCISE, "stream-not-projected")
class NoProjectionAtAll(nn.Module):
    """softmax(x xᵀ / √d) x, with no layers."""

    def __init__(self, hidden_dim=768):
        super().__init__()
        self.hidden_dim = hidden_dim

    def forward(self, x):
        scores = x @ x.transpose(-1, -2) / math.sqrt(self.hidden_dim)
        return F.softmax(scores, dim=-1) @ x


@wrong(EXERCISE, "weight-transposed")
class LinearWeightsUsedTheWrongWay(nn.Module):
    """x @ layer.weight where nn.Linear means x @ layer.weight.T."""

    def __init__(self, hidden_dim=768):
        super().__init__()
        self.query_proj = nn.Linear(hidden_dim, hidden_dim)
        self.key_proj = nn.Linear(hidden_dim, hidden_dim)
        self.value_proj = nn.Linear(hidden_dim, hidden_dim)

    def forward(self, x):
        q = x @ self.query_proj.weight + self.query_proj.bias
        k = x @ self.key_proj.weight + self.key_proj.bias
        v = x @ self.value_proj.weight + self.value_proj.bias
        weights = torch.softmax(q @ k.transpose(1, 2) / math.sqrt(x.shape[-1]), dim=-1)
        return weights @ v


@wrong(EXERCISE, "heads-in-python-list")
class LayersInAList(nn.Module):
    """The three layers sit in a plain list, so the module does not know them."""

    def __init__(self, hidden_dim=768):
        super().__init__()
        self.layers = [nn.Linear(hidden_dim, hidden_dim) for _ in range(3)]

    def forward(self, x):
        q, k, v = (layer(x) for layer in self.layers)
        return (q @ k.transpose(1, 2) / math.sqrt(x.shape[-1])).softmax(-1) @ v


@wrong(EXERCISE, "heads-in-python-list")
class LayersInADict(nn.Module):
    """The three layers sit in a plain dict."""

    def __init__(self, hidden_dim=768):
        super().__init__()
        self.proj = {role: nn.Linear(hidden_dim, hidden_dim) for role in ("q", "k", "v")}
        self.d = hidden_dim

    def forward(self, x):
        scores = self.proj["q"](x) @ self.proj["k"](x).transpose(-1, -2) / self.d**0.5
        return F.softmax(scores, -1) @ self.proj["v"](x)


@wrong(EXERCISE)
class PlainTensorWeights(nn.Module):
    """Weights are plain tensors, no parameters: nothing can be trained or saved."""

    def __init__(self, hidden_dim=768):
        super().__init__()
        self.wq = torch.randn(hidden_dim, hidden_dim, requires_grad=True)
        self.wk = torch.randn(hidden_dim, hidden_dim, requires_grad=True)
        self.wv = torch.randn(hidden_dim, hidden_dim, requires_grad=True)

    def forward(self, x):
        q, k, v = x @ self.wq.to(x), x @ self.wk.to(x), x @ self.wv.to(x)
        return torch.softmax(q @ k.transpose(1, 2) / math.sqrt(q.shape[-1]), dim=-1) @ v


@wrong(EXERCISE, "fixed-head-size")
class ScaleOf768(nn.Module):
    """Divides by √768 whatever the width."""

    def __init__(self, hidden_dim=768):
        super().__init__()
        self.query_proj = nn.Linear(hidden_dim, hidden_dim)
        self.key_proj = nn.Linear(hidden_dim, hidden_dim)
        self.value_proj = nn.Linear(hidden_dim, hidden_dim)

    def forward(self, x):
        q, k, v = self.query_proj(x), self.key_proj(x), self.value_proj(x)
        return torch.softmax(q @ k.transpose(-2, -1) / math.sqrt(768), dim=-1) @ v


@wrong(EXERCISE, "fixed-head-size")
class ScaleOfEight(nn.Module):
    """Divides by 8, as in the paper's head of 64."""

    def __init__(self, hidden_dim=768):
        super().__init__()
        self.to_q = nn.Linear(hidden_dim, hidden_dim, bias=False)
        self.to_k = nn.Linear(hidden_dim, hidden_dim, bias=False)
        self.to_v = nn.Linear(hidden_dim, hidden_dim, bias=False)

    def forward(self, x):
        s = torch.einsum("bid,bjd->bij", self.to_q(x), self.to_k(x)) / 8
        return torch.einsum("bij,bjd->bid", s.softmax(-1), self.to_v(x))


@wrong(EXERCISE, "fixed-head-size")
class LayersOf768(nn.Module):
    """The layers ignore the argument."""

    def __init__(self, hidden_dim=768):
        super().__init__()
        self.query_proj = nn.Linear(768, 768)
        self.key_proj = nn.Linear(768, 768)
        self.value_proj = nn.Linear(768, 768)
        self.hidden_dim = hidden_dim

    def forward(self, x):
        q, k, v = self.query_proj(x), self.key_proj(x), self.value_proj(x)
        return F.softmax(q @ k.transpose(1, 2) / self.hidden_dim**0.5, dim=-1) @ v


# ---------------------------------------------------------------- scores and scale


@wrong(EXERCISE, "scale-missing")
class NoScale(nn.Module):
    """No division."""

    def __init__(self, hidden_dim: int = 768):
        super().__init__()
        self.query_proj = nn.Linear(hidden_dim, hidden_dim)
        self.key_proj = nn.Linear(hidden_dim, hidden_dim)
        self.value_proj = nn.Linear(hidden_dim, hidden_dim)

    def forward(self, x: Tensor) -> Tensor:
        q = self.query_proj(x)
        k = self.key_proj(x)
        v = self.value_proj(x)
        weights = torch.softmax(q @ k.transpose(-2, -1), dim=-1)
        return weights @ v


@wrong(EXERCISE, "scale-missing")
class ScaleComputedAndForgotten(nn.Module):
    """The scaled scores are computed and thrown away."""

    def __init__(self, d=768):
        super().__init__()
        self.a = nn.Linear(d, d)
        self.b = nn.Linear(d, d)
        self.c = nn.Linear(d, d)
        self.d = d

    def forward(self, x):
        s = torch.bmm(self.a(x), self.b(x).transpose(1, 2))
        s / math.sqrt(self.d)
        s = F.softmax(s, dim=-1)
        return torch.bmm(s, self.c(x))


@wrong(EXERCISE, "scale-missing")
class ScaleAppliedToCopy(nn.Module):
    """torch.div without keeping the result."""

    def __init__(self, hidden_dim=768):
        super().__init__()
        self.qkv = nn.Linear(hidden_dim, 3 * hidden_dim)

    def forward(self, x):
        q, k, v = self.qkv(x).chunk(3, dim=-1)
        scores = q @ k.transpose(1, 2)
        torch.div(scores, x.shape[-1] ** 0.5)
        return scores.softmax(-1) @ v


@wrong(EXERCISE, "scale-inverted")
class MultipliedByRoot(nn.Module):
    """Multiplies by √d."""

    def __init__(self, hidden_dim=768):
        super().__init__()
        self.query_proj = nn.Linear(hidden_dim, hidden_dim)
        self.key_proj = nn.Linear(hidden_dim, hidden_dim)
        self.value_proj = nn.Linear(hidden_dim, hidden_dim)
        self.hidden_dim = hidden_dim

    def forward(self, x):
        q, k, v = self.query_proj(x), self.key_proj(x), self.value_proj(x)
        scores = q @ k.transpose(-2, -1) * math.sqrt(self.hidden_dim)
        return scores.softmax(dim=-1) @ v


@wrong(EXERCISE, "scale-inverted")
class DividedByInverseRoot(nn.Module):
    """Divides by d ** -0.5."""

    def __init__(self, dim=768):
        super().__init__()
        self.scale = dim**-0.5
        self.to_q = nn.Linear(dim, dim)
        self.to_k = nn.Linear(dim, dim)
        self.to_v = nn.Linear(dim, dim)

    def forward(self, x):
        dots = torch.matmul(self.to_q(x), self.to_k(x).transpose(-1, -2)) / self.scale
        return torch.matmul(dots.softmax(dim=-1), self.to_v(x))


@wrong(EXERCISE, "scale-no-sqrt")
class DividedByWidth(nn.Module):
    """Divides by d."""

    def __init__(self, hidden_dim=768):
        super().__init__()
        self.query_proj = nn.Linear(hidden_dim, hidden_dim)
        self.key_proj = nn.Linear(hidden_dim, hidden_dim)
        self.value_proj = nn.Linear(hidden_dim, hidden_dim)

    def forward(self, x):
        q = self.query_proj(x)
        k = self.key_proj(x)
        v = self.value_proj(x)
        return F.softmax(q @ k.transpose(-2, -1) / k.size(-1), dim=-1) @ v


@wrong(EXERCISE, "scale-no-sqrt")
class ScaledTwice(nn.Module):
    """The queries are scaled and the scores are scaled again."""

    def __init__(self, hidden_dim=768):
        super().__init__()
        self.wq = nn.Linear(hidden_dim, hidden_dim)
        self.wk = nn.Linear(hidden_dim, hidden_dim)
        self.wv = nn.Linear(hidden_dim, hidden_dim)
        self.root = hidden_dim**0.5

    def forward(self, x):
        q = self.wq(x) / self.root
        scores = q @ self.wk(x).transpose(1, 2)
        scores = scores / self.root
        return torch.softmax(scores, -1) @ self.wv(x)


@wrong(EXERCISE, "scale-no-sqrt")
class ScaledOnQueryAndKey(nn.Module):
    """√d on the queries and √d on the keys."""

    def __init__(self, hidden_dim=768):
        super().__init__()
        self.query_proj = nn.Linear(hidden_dim, hidden_dim)
        self.key_proj = nn.Linear(hidden_dim, hidden_dim)
        self.value_proj = nn.Linear(hidden_dim, hidden_dim)

    def forward(self, x):
        scale = x.shape[-1] ** -0.5
        q = self.query_proj(x) * scale
        k = self.key_proj(x) * scale
        return (q @ k.mT).softmax(-1) @ self.value_proj(x)


@wrong(EXERCISE, "scale-after-softmax")
class WeightsDivided(nn.Module):
    """softmax first, then the division."""

    def __init__(self, hidden_dim=768):
        super().__init__()
        self.query_proj = nn.Linear(hidden_dim, hidden_dim)
        self.key_proj = nn.Linear(hidden_dim, hidden_dim)
        self.value_proj = nn.Linear(hidden_dim, hidden_dim)
        self.hidden_dim = hidden_dim

    def forward(self, x):
        q, k, v = self.query_proj(x), self.key_proj(x), self.value_proj(x)
        weights = torch.softmax(q @ k.transpose(-2, -1), dim=-1) / math.sqrt(self.hidden_dim)
        return weights @ v


@wrong(EXERCISE, "scale-after-softmax")
class OutputDivided(nn.Module):
    """The output is divided, which is the same."""

    def __init__(self, dim=768):
        super().__init__()
        self.to_v = nn.Linear(dim, dim)
        self.to_q = nn.Linear(dim, dim)
        self.to_k = nn.Linear(dim, dim)

    def forward(self, x):
        A = F.softmax(torch.bmm(self.to_q(x), self.to_k(x).transpose(1, 2)), 2)
        return torch.bmm(A, self.to_v(x)) / x.size(-1) ** 0.5


@wrong(EXERCISE, "sqrt-of-int")
class TorchSqrtOfInt(nn.Module):
    """torch.sqrt of a Python number."""

    def __init__(self, hidden_dim=768):
        super().__init__()
        self.query_proj = nn.Linear(hidden_dim, hidden_dim)
        self.key_proj = nn.Linear(hidden_dim, hidden_dim)
        self.value_proj = nn.Linear(hidden_dim, hidden_dim)
        self.hidden_dim = hidden_dim

    def forward(self, x):
        q, k, v = self.query_proj(x), self.key_proj(x), self.value_proj(x)
        scores = q @ k.transpose(-2, -1) / torch.sqrt(self.hidden_dim)
        return torch.softmax(scores, dim=-1) @ v


@wrong(EXERCISE, "sqrt-of-int")
class TorchSqrtInInit(nn.Module):
    """torch.sqrt of an int while the module is built."""

    def __init__(self, hidden_dim=768):
        super().__init__()
        self.scale = 1 / torch.sqrt(hidden_dim)
        self.q = nn.Linear(hidden_dim, hidden_dim)
        self.k = nn.Linear(hidden_dim, hidden_dim)
        self.v = nn.Linear(hidden_dim, hidden_dim)

    def forward(self, x):
        return (self.q(x) @ self.k(x).mT * self.scale).softmax(-1) @ self.v(x)


@wrong(EXERCISE, "k-not-transposed")
class KeysNotTransposed(nn.Module):
    """Q @ K."""

    def __init__(self, hidden_dim=768):
        super().__init__()
        self.query_proj = nn.Linear(hidden_dim, hidden_dim)
        self.key_proj = nn.Linear(hidden_dim, hidden_dim)
        self.value_proj = nn.Linear(hidden_dim, hidden_dim)

    def forward(self, x):
        q, k, v = self.query_proj(x), self.key_proj(x), self.value_proj(x)
        scores = q @ k / math.sqrt(x.size(-1))
        return scores.softmax(dim=-1) @ v


@wrong(EXERCISE, "k-not-transposed")
class TransposeDiscarded(nn.Module):
    """The transposed keys are not kept."""

    def __init__(self, hidden_dim=768):
        super().__init__()
        self.Q = nn.Linear(hidden_dim, hidden_dim)
        self.K = nn.Linear(hidden_dim, hidden_dim)
        self.V = nn.Linear(hidden_dim, hidden_dim)

    def forward(self, x):
        q, k, v = self.Q(x), self.K(x), self.V(x)
        k.transpose(1, 2)
        att = torch.matmul(q, k) / math.sqrt(k.shape[-1])
        return torch.matmul(F.softmax(att, dim=-1), v)


@wrong(EXERCISE, "k-wrong-transpose")
class KeysFullyReversed(nn.Module):
    """k.T on three axes reverses them all."""

    def __init__(self, hidden_dim=768):
        super().__init__()
        self.query_proj = nn.Linear(hidden_dim, hidden_dim)
        self.key_proj = nn.Linear(hidden_dim, hidden_dim)
        self.value_proj = nn.Linear(hidden_dim, hidden_dim)

    def forward(self, x):
        q, k, v = self.query_proj(x), self.key_proj(x), self.value_proj(x)
        k_t = k.permute(2, 1, 0)
        return torch.softmax(q @ k_t / math.sqrt(q.shape[-1]), dim=-1) @ v


@wrong(EXERCISE, "k-wrong-transpose")
class KeysSwapBatch(nn.Module):
    """transpose(0, 1) instead of transpose(1, 2)."""

    def __init__(self, hidden_dim=768):
        super().__init__()
        self.query = nn.Linear(hidden_dim, hidden_dim)
        self.key = nn.Linear(hidden_dim, hidden_dim)
        self.value = nn.Linear(hidden_dim, hidden_dim)

    def forward(self, x):
        scores = torch.matmul(self.query(x), self.key(x).transpose(0, 1)) / x.shape[-1] ** 0.5
        return torch.matmul(scores.softmax(dim=-1), self.value(x))


@wrong(EXERCISE, "k-wrong-transpose")
class KeysViewedAsTransposed(nn.Module):
    """view(B, d, L) has the right shape and the wrong numbers."""

    def __init__(self, hidden_dim=768):
        super().__init__()
        self.query_proj = nn.Linear(hidden_dim, hidden_dim)
        self.key_proj = nn.Linear(hidden_dim, hidden_dim)
        self.value_proj = nn.Linear(hidden_dim, hidden_dim)

    def forward(self, x):
        B, L, d = x.shape
        k = self.key_proj(x).view(B, d, L)
        scores = self.query_proj(x) @ k / math.sqrt(d)
        return scores.softmax(-1) @ self.value_proj(x)


# ---------------------------------------------------------------- softmax


@wrong(EXERCISE, "softmax-over-queries")
class SoftmaxOverQueries(nn.Module):
    """dim=-2."""

    def __init__(self, hidden_dim=768):
        super().__init__()
        self.query_proj = nn.Linear(hidden_dim, hidden_dim)
        self.key_proj = nn.Linear(hidden_dim, hidden_dim)
        self.value_proj = nn.Linear(hidden_dim, hidden_dim)

    def forward(self, x):
        q, k, v = self.query_proj(x), self.key_proj(x), self.value_proj(x)
        return torch.softmax(q @ k.transpose(-2, -1) / math.sqrt(q.size(-1)), dim=-2) @ v


@wrong(EXERCISE, "softmax-over-queries")
class SoftmaxDimOne(nn.Module):
    """nn.Softmax(dim=1), as for a batch of class scores."""

    def __init__(self, hidden_dim=768):
        super().__init__()
        self.lin_q = nn.Linear(hidden_dim, hidden_dim)
        self.lin_k = nn.Linear(hidden_dim, hidden_dim)
        self.lin_v = nn.Linear(hidden_dim, hidden_dim)
        self.softmax = nn.Softmax(dim=1)

    def forward(self, x):
        energy = torch.einsum("bqd,bkd->bqk", self.lin_q(x), self.lin_k(x)) / x.shape[2] ** 0.5
        return self.softmax(energy) @ self.lin_v(x)


@wrong(EXERCISE, "softmax-over-batch", "softmax-implicit-axis")
class SoftmaxOverBatch(nn.Module):
    """dim=0."""

    def __init__(self, hidden_dim=768):
        super().__init__()
        self.query_proj = nn.Linear(hidden_dim, hidden_dim)
        self.key_proj = nn.Linear(hidden_dim, hidden_dim)
        self.value_proj = nn.Linear(hidden_dim, hidden_dim)

    def forward(self, x):
        q, k, v = self.query_proj(x), self.key_proj(x), self.value_proj(x)
        scores = q @ k.transpose(-2, -1) / math.sqrt(x.shape[-1])
        return F.softmax(scores, dim=0) @ v


@wrong(EXERCISE, "softmax-implicit-axis", "softmax-over-batch")
class SoftmaxWithoutAxis(nn.Module):
    """F.softmax without an axis."""

    def __init__(self, hidden_dim=768):
        super().__init__()
        self.query_proj = nn.Linear(hidden_dim, hidden_dim)
        self.key_proj = nn.Linear(hidden_dim, hidden_dim)
        self.value_proj = nn.Linear(hidden_dim, hidden_dim)

    def forward(self, x):
        q, k, v = self.query_proj(x), self.key_proj(x), self.value_proj(x)
        scores = torch.matmul(q, k.transpose(1, 2)) / math.sqrt(k.shape[-1])
        return torch.matmul(F.softmax(scores), v)


@wrong(EXERCISE, "softmax-implicit-axis", "softmax-over-batch")
class SoftmaxLayerWithoutAxis(nn.Module):
    """nn.Softmax() without an axis."""

    def __init__(self, dim=768):
        super().__init__()
        self.q, self.k, self.v = (nn.Linear(dim, dim) for _ in range(3))
        self.act = nn.Softmax()

    def forward(self, x):
        return self.act(self.q(x) @ self.k(x).mT * x.shape[-1] ** -0.5) @ self.v(x)


@wrong(EXERCISE, "softmax-missing")
class NoSoftmax(nn.Module):
    """The raw scores multiply the values."""

    def __init__(self, hidden_dim=768):
        super().__init__()
        self.query_proj = nn.Linear(hidden_dim, hidden_dim)
        self.key_proj = nn.Linear(hidden_dim, hidden_dim)
        self.value_proj = nn.Linear(hidden_dim, hidden_dim)
        self.hidden_dim = hidden_dim

    def forward(self, x):
        q, k, v = self.query_proj(x), self.key_proj(x), self.value_proj(x)
        return q @ k.transpose(-2, -1) / math.sqrt(self.hidden_dim) @ v


@wrong(EXERCISE, "softmax-missing")
class SoftmaxForgottenInAVariable(nn.Module):
    """The softmax goes into a variable that nobody reads."""

    def __init__(self, d=768):
        super().__init__()
        self.a = nn.Linear(d, d)
        self.b = nn.Linear(d, d)
        self.c = nn.Linear(d, d)

    def forward(self, x):
        scores = torch.bmm(self.a(x), self.b(x).transpose(1, 2)) / math.sqrt(x.shape[-1])
        weights = torch.softmax(scores, dim=-1)  # noqa: F841
        return torch.bmm(scores, self.c(x))


@wrong(EXERCISE, "softmax-twice")
class SoftmaxTwice(nn.Module):
    """Softmax of a softmax."""

    def __init__(self, hidden_dim=768):
        super().__init__()
        self.query_proj = nn.Linear(hidden_dim, hidden_dim)
        self.key_proj = nn.Linear(hidden_dim, hidden_dim)
        self.value_proj = nn.Linear(hidden_dim, hidden_dim)

    def scores(self, x):
        q, k = self.query_proj(x), self.key_proj(x)
        return torch.softmax(q @ k.transpose(-2, -1) / math.sqrt(q.size(-1)), dim=-1)

    def forward(self, x):
        weights = torch.softmax(self.scores(x), dim=-1)
        return weights @ self.value_proj(x)


@wrong(EXERCISE, "naive-exp")
class ExponentialsWithoutMaximum(nn.Module):
    """exp over sum of exp: infinity over infinity once the scores pass 88."""

    def __init__(self, hidden_dim=768):
        super().__init__()
        self.query_proj = nn.Linear(hidden_dim, hidden_dim)
        self.key_proj = nn.Linear(hidden_dim, hidden_dim)
        self.value_proj = nn.Linear(hidden_dim, hidden_dim)

    def forward(self, x):
        q, k, v = self.query_proj(x), self.key_proj(x), self.value_proj(x)
        e = torch.exp(q @ k.transpose(-2, -1) / math.sqrt(q.size(-1)))
        return e / e.sum(dim=-1, keepdim=True) @ v


@wrong(EXERCISE, "naive-exp")
class ExponentialsByPowerOfE(nn.Module):
    """math.e ** scores, numerator and denominator kept apart."""

    def __init__(self, d=768):
        super().__init__()
        self.q = nn.Linear(d, d)
        self.k = nn.Linear(d, d)
        self.v = nn.Linear(d, d)
        self.d = d

    def forward(self, x):
        powers = math.e ** (torch.einsum("bid,bjd->bij", self.q(x), self.k(x)) / self.d**0.5)
        numerator = torch.einsum("bij,bjd->bid", powers, self.v(x))
        return numerator / powers.sum(2).unsqueeze(-1)


@wrong(EXERCISE, "softmax-in-half")
class SoftmaxInBfloat16(nn.Module):
    """The softmax rounds to bfloat16."""

    def __init__(self, hidden_dim=768):
        super().__init__()
        self.query_proj = nn.Linear(hidden_dim, hidden_dim)
        self.key_proj = nn.Linear(hidden_dim, hidden_dim)
        self.value_proj = nn.Linear(hidden_dim, hidden_dim)

    def forward(self, x):
        scores = self.query_proj(x) @ self.key_proj(x).transpose(1, 2) / math.sqrt(x.size(-1))
        weights = torch.softmax(scores, dim=-1, dtype=torch.bfloat16).to(x.dtype)
        return weights @ self.value_proj(x)


# ---------------------------------------------------------------- axes, gradients, hygiene


@wrong(EXERCISE, "seq-first-confusion")
class SequenceFirst(nn.Module):
    """Takes axis 0 for time, so samples attend to one another."""

    def __init__(self, hidden_dim=768):
        super().__init__()
        self.query_proj = nn.Linear(hidden_dim, hidden_dim)
        self.key_proj = nn.Linear(hidden_dim, hidden_dim)
        self.value_proj = nn.Linear(hidden_dim, hidden_dim)

    def forward(self, x):
        x = x.transpose(0, 1)  # "(L, B, d) → (B, L, d)"
        q, k, v = self.query_proj(x), self.key_proj(x), self.value_proj(x)
        out = torch.softmax(q @ k.transpose(-2, -1) / math.sqrt(x.size(-1)), dim=-1) @ v
        return out.transpose(0, 1)


@wrong(EXERCISE, "seq-first-confusion")
class ScoresOverTheBatch(nn.Module):
    """einsum letters in the wrong order: every position attends over the batch."""

    def __init__(self, hidden_dim=768):
        super().__init__()
        self.query_proj = nn.Linear(hidden_dim, hidden_dim)
        self.key_proj = nn.Linear(hidden_dim, hidden_dim)
        self.value_proj = nn.Linear(hidden_dim, hidden_dim)

    def forward(self, x):
        q, k, v = self.query_proj(x), self.key_proj(x), self.value_proj(x)
        scores = torch.einsum("qbd,kbd->bqk", q, k) / x.shape[-1] ** 0.5
        return torch.einsum("bqk,kbd->qbd", scores.softmax(-1), v)


@wrong(EXERCISE, "graph-cut")
class WeightsDetached(nn.Module):
    """The weights are detached: query and key layers never learn."""

    def __init__(self, hidden_dim=768):
        super().__init__()
        self.query_proj = nn.Linear(hidden_dim, hidden_dim)
        self.key_proj = nn.Linear(hidden_dim, hidden_dim)
        self.value_proj = nn.Linear(hidden_dim, hidden_dim)

    def forward(self, x):
        q, k, v = self.query_proj(x), self.key_proj(x), self.value_proj(x)
        weights = torch.softmax(q @ k.transpose(-2, -1) / math.sqrt(x.size(-1)), dim=-1)
        return weights.detach() @ v


@wrong(EXERCISE, "graph-cut")
class ScoresUnderNoGrad(nn.Module):
    """The scores are computed under torch.no_grad."""

    def __init__(self, hidden_dim=768):
        super().__init__()
        self.q = nn.Linear(hidden_dim, hidden_dim)
        self.k = nn.Linear(hidden_dim, hidden_dim)
        self.v = nn.Linear(hidden_dim, hidden_dim)

    def forward(self, x):
        with torch.no_grad():
            scores = self.q(x) @ self.k(x).transpose(1, 2) / math.sqrt(x.shape[-1])
        return scores.softmax(dim=-1) @ self.v(x)


@wrong(EXERCISE, "graph-cut")
class QueriesThroughData(nn.Module):
    """q is read through .data, so only the query layer never learns."""

    def __init__(self, hidden_dim=768):
        super().__init__()
        self.query_proj = nn.Linear(hidden_dim, hidden_dim)
        self.key_proj = nn.Linear(hidden_dim, hidden_dim)
        self.value_proj = nn.Linear(hidden_dim, hidden_dim)

    def forward(self, x):
        q = self.query_proj(x).data
        k, v = self.key_proj(x), self.value_proj(x)
        return (q @ k.mT / q.shape[-1] ** 0.5).softmax(-1) @ v


@wrong(EXERCISE, "graph-cut")
class ValuesThroughNumpy(nn.Module):
    """torch.tensor(...) of a numpy copy cuts the graph."""

    def __init__(self, hidden_dim=768):
        super().__init__()
        self.query_proj = nn.Linear(hidden_dim, hidden_dim)
        self.key_proj = nn.Linear(hidden_dim, hidden_dim)
        self.value_proj = nn.Linear(hidden_dim, hidden_dim)

    def forward(self, x):
        q, k = self.query_proj(x), self.key_proj(x)
        v = torch.tensor(self.value_proj(x).detach().numpy())
        return (q @ k.mT / q.shape[-1] ** 0.5).softmax(-1) @ v


@wrong(EXERCISE, "graph-cut")
class ResultRewrapped(nn.Module):
    """The output is a fresh leaf."""

    def __init__(self, hidden_dim=768):
        super().__init__()
        self.query_proj = nn.Linear(hidden_dim, hidden_dim)
        self.key_proj = nn.Linear(hidden_dim, hidden_dim)
        self.value_proj = nn.Linear(hidden_dim, hidden_dim)

    @torch.no_grad()
    def forward(self, x):
        q, k, v = self.query_proj(x), self.key_proj(x), self.value_proj(x)
        return (q @ k.mT / q.shape[-1] ** 0.5).softmax(-1) @ v


@wrong(EXERCISE, "inplace-after-softmax")
class WeightsEditedInPlace(nn.Module):
    """weights /= their sum, after softmax: forward is fine, backward fails."""

    def __init__(self, hidden_dim=768):
        super().__init__()
        self.query_proj = nn.Linear(hidden_dim, hidden_dim)
        self.key_proj = nn.Linear(hidden_dim, hidden_dim)
        self.value_proj = nn.Linear(hidden_dim, hidden_dim)

    def forward(self, x):
        q, k, v = self.query_proj(x), self.key_proj(x), self.value_proj(x)
        weights = torch.softmax(q @ k.transpose(-2, -1) / math.sqrt(x.size(-1)), dim=-1)
        weights /= weights.sum(dim=-1, keepdim=True)
        return weights @ v


@wrong(EXERCISE, "inplace-after-softmax")
class WeightsClampedInPlace(nn.Module):
    """weights.clamp_ right after softmax."""

    def __init__(self, hidden_dim=768):
        super().__init__()
        self.q = nn.Linear(hidden_dim, hidden_dim)
        self.k = nn.Linear(hidden_dim, hidden_dim)
        self.v = nn.Linear(hidden_dim, hidden_dim)

    def forward(self, x):
        attn = F.softmax(self.q(x) @ self.k(x).transpose(1, 2) / x.shape[-1] ** 0.5, dim=-1)
        attn.clamp_(0, 1)
        return attn @ self.v(x)


X = torch.ones(2, 4, 768)  # the notebook's own example


@wrong(EXERCISE, "notebook-global")
class ReadsTheNotebooksX(nn.Module):
    """Reads the notebook's X instead of its argument."""

    def __init__(self, hidden_dim=768):
        super().__init__()
        self.query_proj = nn.Linear(hidden_dim, hidden_dim)
        self.key_proj = nn.Linear(hidden_dim, hidden_dim)
        self.value_proj = nn.Linear(hidden_dim, hidden_dim)
        self.hidden_dim = hidden_dim

    def forward(self, x):
        Q, K, V = self.query_proj(X), self.key_proj(X), self.value_proj(X)
        return torch.softmax(Q @ K.transpose(-1, -2) / math.sqrt(self.hidden_dim), dim=-1) @ V


@wrong(EXERCISE, "notebook-global")
class NameThatIsNowhere(nn.Module):
    """hidden_dim exists in the notebook, not in forward."""

    def __init__(self, hidden_dim=768):
        super().__init__()
        self.query_proj = nn.Linear(hidden_dim, hidden_dim)
        self.key_proj = nn.Linear(hidden_dim, hidden_dim)
        self.value_proj = nn.Linear(hidden_dim, hidden_dim)

    def forward(self, x):
        q, k, v = self.query_proj(x), self.key_proj(x), self.value_proj(x)
        scores = q @ k.transpose(1, 2) / math.sqrt(hidden_dim)  # noqa: F821
        return scores.softmax(-1) @ v


@wrong(EXERCISE, "batch-hard-coded")
class BatchOfTwo(nn.Module):
    """view(2, ...)."""

    def __init__(self, hidden_dim=768):
        super().__init__()
        self.query_proj = nn.Linear(hidden_dim, hidden_dim)
        self.key_proj = nn.Linear(hidden_dim, hidden_dim)
        self.value_proj = nn.Linear(hidden_dim, hidden_dim)

    def forward(self, x):
        q = self.query_proj(x).view(2, -1, x.shape[-1])
        k = self.key_proj(x).view(2, -1, x.shape[-1])
        v = self.value_proj(x).view(2, -1, x.shape[-1])
        return (q @ k.mT / math.sqrt(x.shape[-1])).softmax(-1) @ v


@wrong(EXERCISE)
class OnlyFirstSample(nn.Module):
    """squeeze and unsqueeze: works for one sentence, drops the others."""

    def __init__(self, hidden_dim=768):
        super().__init__()
        self.query_proj = nn.Linear(hidden_dim, hidden_dim)
        self.key_proj = nn.Linear(hidden_dim, hidden_dim)
        self.value_proj = nn.Linear(hidden_dim, hidden_dim)

    def forward(self, x):
        x = x[0]
        q, k, v = self.query_proj(x), self.key_proj(x), self.value_proj(x)
        return (torch.softmax(q @ k.T / x.shape[-1] ** 0.5, dim=-1) @ v).unsqueeze(0)


# ---------------------------------------------------------------- mistakes outside the catalogue


class _Three(nn.Module):
    """The part that most of the answers below share: three layers with the contract's names."""

    def __init__(self, hidden_dim=768):
        super().__init__()
        self.hidden_dim = hidden_dim
        self.query_proj = nn.Linear(hidden_dim, hidden_dim)
        self.key_proj = nn.Linear(hidden_dim, hidden_dim)
        self.value_proj = nn.Linear(hidden_dim, hidden_dim)

    def project(self, x):
        return self.query_proj(x), self.key_proj(x), self.value_proj(x)


@wrong(EXERCISE)
class ScaleByLength(_Three):
    """Divides by √L."""

    def forward(self, x):
        q, k, v = self.project(x)
        return torch.softmax(q @ k.transpose(1, 2) / math.sqrt(x.shape[1]), dim=-1) @ v


@wrong(EXERCISE)
class ScaleByBatch(_Three):
    """Divides by √B: x.shape[0] taken for the width."""

    def forward(self, x):
        q, k, v = self.project(x)
        d = x.shape[0]
        return torch.softmax(q @ k.transpose(1, 2) / math.sqrt(d), dim=-1) @ v


@wrong(EXERCISE, "scale-after-softmax")
class ScaleOnTheWrongSideOfTheProduct(_Three):
    """The values are scaled instead of the scores."""

    def forward(self, x):
        q, k, v = self.project(x)
        return torch.softmax(q @ k.mT, dim=-1) @ (v / math.sqrt(self.hidden_dim))


@wrong(EXERCISE)
class IntegerRoot(_Three):
    """int(math.sqrt(d)), rounded down."""

    def forward(self, x):
        q, k, v = self.project(x)
        return torch.softmax(q @ k.mT / int(math.sqrt(self.hidden_dim)), dim=-1) @ v


@wrong(EXERCISE)
class CubeRoot(_Three):
    """d ** (1 / 3)."""

    def forward(self, x):
        q, k, v = self.project(x)
        return torch.softmax(q @ k.mT / self.hidden_dim ** (1 / 3), dim=-1) @ v


@wrong(EXERCISE)
class FourthRootOnce(_Three):
    """d ** -0.25 on the queries only."""

    def forward(self, x):
        q, k, v = self.project(x)
        return (q * self.hidden_dim**-0.25 @ k.mT).softmax(-1) @ v


@wrong(EXERCISE)
class TemperatureTwo(_Three):
    """An extra temperature of 2."""

    def forward(self, x):
        q, k, v = self.project(x)
        return torch.softmax(q @ k.mT / math.sqrt(self.hidden_dim) / 2.0, dim=-1) @ v


@wrong(EXERCISE)
class ScoresNegated(_Three):
    """A minus sign: the least alike win."""

    def forward(self, x):
        q, k, v = self.project(x)
        return torch.softmax(-(q @ k.mT) / math.sqrt(self.hidden_dim), dim=-1) @ v


@wrong(EXERCISE)
class NegativeDistances(_Three):
    """Squared distances instead of dot products."""

    def forward(self, x):
        q, k, v = self.project(x)
        return torch.softmax(-(torch.cdist(q, k) ** 2) / math.sqrt(self.hidden_dim), dim=-1) @ v


@wrong(EXERCISE)
class CosineScores(_Three):
    """Normalised queries and keys."""

    def forward(self, x):
        q, k, v = self.project(x)
        q, k = F.normalize(q, dim=-1), F.normalize(k, dim=-1)
        return torch.softmax(q @ k.mT / math.sqrt(self.hidden_dim), dim=-1) @ v


@wrong(EXERCISE)
class TanhOnScores(_Three):
    """tanh squashes the scores."""

    def forward(self, x):
        q, k, v = self.project(x)
        return torch.softmax(torch.tanh(q @ k.mT / math.sqrt(self.hidden_dim)), dim=-1) @ v


@wrong(EXERCISE)
class ReluOnScores(_Three):
    """Negative scores become 0 before the softmax."""

    def forward(self, x):
        q, k, v = self.project(x)
        return torch.softmax(F.relu(q @ k.mT / math.sqrt(self.hidden_dim)), dim=-1) @ v


@wrong(EXERCISE)
class ReluOnProjections(_Three):
    """An activation on the three projections."""

    def forward(self, x):
        q, k, v = (F.relu(t) for t in self.project(x))
        return torch.softmax(q @ k.mT / math.sqrt(self.hidden_dim), dim=-1) @ v


@wrong(EXERCISE)
class SigmoidInsteadOfSoftmax(_Three):
    """sigmoid weights."""

    def forward(self, x):
        q, k, v = self.project(x)
        return torch.sigmoid(q @ k.mT / math.sqrt(self.hidden_dim)) @ v


@wrong(EXERCISE)
class SumInsteadOfExp(_Three):
    """Scores divided by their sum, without the exponential."""

    def forward(self, x):
        q, k, v = self.project(x)
        scores = q @ k.mT / math.sqrt(self.hidden_dim)
        return scores / scores.sum(-1, keepdim=True) @ v


@wrong(EXERCISE)
class LogWeights(_Three):
    """log_softmax instead of softmax."""

    def forward(self, x):
        q, k, v = self.project(x)
        return F.log_softmax(q @ k.mT / math.sqrt(self.hidden_dim), dim=-1) @ v


@wrong(EXERCISE)
class HardAttention(_Three):
    """Only the best key counts."""

    def forward(self, x):
        q, k, v = self.project(x)
        best = (q @ k.mT / math.sqrt(self.hidden_dim)).argmax(-1)
        return F.one_hot(best, x.shape[1]).to(v.dtype) @ v


@wrong(EXERCISE)
class TopThree(_Three):
    """Only the three best keys count."""

    def forward(self, x):
        q, k, v = self.project(x)
        scores = q @ k.mT / math.sqrt(self.hidden_dim)
        worst_kept = scores.topk(min(3, x.shape[1]), dim=-1).values[..., -1:]
        return scores.masked_fill(scores < worst_kept, float("-inf")).softmax(-1) @ v


@wrong(EXERCISE)
class SelfExcluded(_Three):
    """A token may not look at itself."""

    def forward(self, x):
        q, k, v = self.project(x)
        scores = q @ k.mT / math.sqrt(self.hidden_dim)
        diagonal = torch.eye(x.shape[1], dtype=torch.bool, device=x.device)
        return scores.masked_fill(diagonal, -1e9).softmax(-1) @ v


@wrong(EXERCISE)
class CausalWithoutBeingAsked(_Three):
    """A causal mask that stage 1 does not ask for."""

    def forward(self, x):
        q, k, v = self.project(x)
        scores = q @ k.mT / math.sqrt(self.hidden_dim)
        future = torch.ones(x.shape[1], x.shape[1], device=x.device).triu(1).bool()
        return scores.masked_fill(future, float("-inf")).softmax(-1) @ v


@wrong(EXERCISE)
class LastTokenDropped(_Three):
    """The last key is left out."""

    def forward(self, x):
        q, k, v = self.project(x)
        k, v = (k[:, :-1], v[:, :-1]) if x.shape[1] > 1 else (k, v)
        return torch.softmax(q @ k.mT / math.sqrt(self.hidden_dim), dim=-1) @ v


@wrong(EXERCISE)
class ResidualAdded(_Three):
    """x + attention."""

    def forward(self, x):
        q, k, v = self.project(x)
        return x + torch.softmax(q @ k.mT / math.sqrt(self.hidden_dim), dim=-1) @ v


@wrong(EXERCISE)
class LayerNormInside(_Three):
    """The input is normalised first."""

    def forward(self, x):
        q, k, v = self.project(F.layer_norm(x, x.shape[-1:]))
        return torch.softmax(q @ k.mT / math.sqrt(self.hidden_dim), dim=-1) @ v


@wrong(EXERCISE)
class OutputRelu(_Three):
    """ReLU at the end."""

    def forward(self, x):
        q, k, v = self.project(x)
        return torch.relu(torch.softmax(q @ k.mT / math.sqrt(self.hidden_dim), dim=-1) @ v)


@wrong(EXERCISE)
class OutputHalved(_Three):
    """Half of the output."""

    def forward(self, x):
        q, k, v = self.project(x)
        return 0.5 * (torch.softmax(q @ k.mT / math.sqrt(self.hidden_dim), dim=-1) @ v)


@wrong(EXERCISE, "dropout-always-on")
class DropoutAlwaysOn(_Three):
    """F.dropout without the training flag, though stage 1 has no dropout."""

    def forward(self, x):
        q, k, v = self.project(x)
        weights = torch.softmax(q @ k.mT / math.sqrt(self.hidden_dim), dim=-1)
        return F.dropout(weights, 0.1) @ v


@wrong(EXERCISE)
class NoiseAdded(_Three):
    """A little noise on the scores."""

    def forward(self, x):
        q, k, v = self.project(x)
        scores = q @ k.mT / math.sqrt(self.hidden_dim)
        return torch.softmax(scores + 1e-2 * torch.randn_like(scores), dim=-1) @ v


@wrong(EXERCISE)
class ScoresRounded(_Three):
    """Scores rounded to one decimal."""

    def forward(self, x):
        q, k, v = self.project(x)
        scores = torch.round(q @ k.mT / math.sqrt(self.hidden_dim), decimals=1)
        return torch.softmax(scores, dim=-1) @ v


@wrong(EXERCISE)
class BatchMeanSubtracted(_Three):
    """Centres the batch: samples touch one another."""

    def forward(self, x):
        x = x - x.mean(dim=0, keepdim=True)
        q, k, v = self.project(x)
        return torch.softmax(q @ k.mT / math.sqrt(self.hidden_dim), dim=-1) @ v


@wrong(EXERCISE)
class KeepsState(_Three):
    """Averages the weights with those of the call before."""

    previous = None

    def forward(self, x):
        q, k, v = self.project(x)
        weights = torch.softmax(q @ k.mT / math.sqrt(self.hidden_dim), dim=-1)
        if self.previous is not None and self.previous.shape == weights.shape:
            weights = (weights + self.previous) / 2
        self.previous = weights.detach()
        return weights @ v


@wrong(EXERCISE)
class EditsItsInput(_Three):
    """Scales the caller's tensor in place."""

    def forward(self, x):
        q, k, v = self.project(x)
        out = torch.softmax(q @ k.mT / math.sqrt(self.hidden_dim), dim=-1) @ v
        x.data.mul_(0.5)
        return out


@wrong(EXERCISE)
class NewLayersEachCall(nn.Module):
    """The layers are made anew in every forward."""

    def __init__(self, hidden_dim=768):
        super().__init__()
        self.hidden_dim = hidden_dim

    def forward(self, x):
        self.query_proj = nn.Linear(self.hidden_dim, self.hidden_dim).to(x)
        self.key_proj = nn.Linear(self.hidden_dim, self.hidden_dim).to(x)
        self.value_proj = nn.Linear(self.hidden_dim, self.hidden_dim).to(x)
        scores = self.query_proj(x) @ self.key_proj(x).mT / math.sqrt(self.hidden_dim)
        return scores.softmax(-1) @ self.value_proj(x)


@wrong(EXERCISE)
class SymmetricScores(_Three):
    """Scores plus their transpose."""

    def forward(self, x):
        q, k, v = self.project(x)
        scores = q @ k.mT / math.sqrt(self.hidden_dim)
        return torch.softmax((scores + scores.mT) / 2, dim=-1) @ v


@wrong(EXERCISE)
class ScoresTransposed(_Three):
    """K Qᵀ instead of Q Kᵀ, normalised over the keys, and then not turned back."""

    def forward(self, x):
        q, k, v = self.project(x)
        weights = torch.softmax(k @ q.mT / math.sqrt(self.hidden_dim), dim=1)
        return weights @ v


@wrong(EXERCISE)
class WeightsTransposed(_Three):
    """The weights are transposed before they meet the values."""

    def forward(self, x):
        q, k, v = self.project(x)
        weights = torch.softmax(q @ k.mT / math.sqrt(self.hidden_dim), dim=-1)
        return weights.transpose(1, 2) @ v


@wrong(EXERCISE)
class BiasAddedTwice(_Three):
    """The value bias once more at the end."""

    def forward(self, x):
        q, k, v = self.project(x)
        return torch.softmax(q @ k.mT / math.sqrt(self.hidden_dim), dim=-1) @ v + self.value_proj.bias


@wrong(EXERCISE)
class PositionsAdded(_Three):
    """Adds the position to the input."""

    def forward(self, x):
        x = x + torch.arange(x.shape[1], dtype=x.dtype, device=x.device)[:, None] / x.shape[1]
        q, k, v = self.project(x)
        return torch.softmax(q @ k.mT / math.sqrt(self.hidden_dim), dim=-1) @ v


@wrong(EXERCISE)
class ScoresClamped(_Three):
    """Scores clamped to ±1, 'for stability'."""

    def forward(self, x):
        q, k, v = self.project(x)
        return torch.softmax((q @ k.mT / math.sqrt(self.hidden_dim)).clamp(-1, 1), dim=-1) @ v


@wrong(EXERCISE)
class ScoresClampedHigh(_Three):
    """Scores clamped to ±50: only large inputs show it."""

    def forward(self, x):
        q, k, v = self.project(x)
        return torch.softmax((q @ k.mT / math.sqrt(self.hidden_dim)).clamp(-50, 50), dim=-1) @ v


@wrong(EXERCISE)
class EpsilonInDenominator(_Three):
    """A generous epsilon in the denominator: rows sum to less than 1."""

    def forward(self, x):
        q, k, v = self.project(x)
        s = q @ k.mT / math.sqrt(self.hidden_dim)
        e = (s - s.amax(-1, keepdim=True)).exp()
        return e / (e.sum(-1, keepdim=True) + 1e-2) @ v


@wrong(EXERCISE)
class OneMaximumForTheWholeBatch(_Three):
    """Takes away the maximum of the whole batch: rows far below it underflow to 0 / 0."""

    def forward(self, x):
        q, k, v = self.project(x)
        s = q @ k.mT / math.sqrt(self.hidden_dim)
        e = (s - s.max()).exp()
        return e / e.sum(-1, keepdim=True) @ v


@wrong(EXERCISE)
class FirstQueryForAll(_Three):
    """Every position receives the first token's result."""

    def forward(self, x):
        q, k, v = self.project(x)
        out = torch.softmax(q @ k.mT / math.sqrt(self.hidden_dim), dim=-1) @ v
        return out[:, :1].expand_as(x)


@wrong(EXERCISE)
class AverageOfValues(_Three):
    """A plain mean: queries and keys do not matter."""

    def forward(self, x):
        _, _, v = self.project(x)
        return v.mean(dim=1, keepdim=True).expand_as(v)


# ---------------------------------------------------------------- two mistakes at once


@wrong(EXERCISE, "scale-missing", "softmax-over-queries")
class NoScaleAndWrongAxis(_Three):
    """No scale, and softmax over the queries."""

    def forward(self, x):
        q, k, v = self.project(x)
        return torch.softmax(q @ k.mT, dim=1) @ v


@wrong(EXERCISE, "scale-inverted", "v-uses-wk")
class InvertedScaleAndKeysAsValues(nn.Module):
    """Multiplied by √d, and the keys as values."""

    def __init__(self, d=768):
        super().__init__()
        self.wq, self.wk, self.wv = nn.Linear(d, d), nn.Linear(d, d), nn.Linear(d, d)

    def forward(self, x):
        q, k = self.wq(x), self.wk(x)
        return F.softmax(torch.bmm(q, k.transpose(1, 2)) * x.shape[-1] ** 0.5, -1).bmm(k)


@wrong(EXERCISE, "scale-no-sqrt", "stream-not-projected")
class NoRootAndRawValues(_Three):
    """Divided by d, and x as values."""

    def forward(self, x):
        q, k = self.query_proj(x), self.key_proj(x)
        return F.softmax(q @ k.transpose(-2, -1) / self.hidden_dim, dim=-1) @ x


@wrong(EXERCISE, "k-uses-wq", "q-uses-wk", "scale-missing")
class SharedLayerAndNoScale(_Three):
    """Keys through the query layer, and no scale."""

    def forward(self, x):
        return (self.query_proj(x) @ self.query_proj(x).mT).softmax(-1) @ self.value_proj(x)


@wrong(EXERCISE, "softmax-twice", "scale-missing")
class SoftmaxTwiceNoScale(_Three):
    """Two softmaxes and no scale."""

    def forward(self, x):
        q, k, v = self.project(x)
        return torch.softmax(torch.softmax(q @ k.mT, -1), -1) @ v


# ---------------------------------------------------------------- structure


@wrong(EXERCISE)
class NotAModule:
    """A plain class with a forward."""

    def __init__(self, hidden_dim=768):
        self.query_proj = nn.Linear(hidden_dim, hidden_dim)
        self.key_proj = nn.Linear(hidden_dim, hidden_dim)
        self.value_proj = nn.Linear(hidden_dim, hidden_dim)

    def forward(self, x):
        q, k, v = self.query_proj(x), self.key_proj(x), self.value_proj(x)
        return torch.softmax(q @ k.mT / math.sqrt(x.shape[-1]), dim=-1) @ v


@wrong(EXERCISE)
class NoSuperInit(nn.Module):
    """super().__init__() is missing."""

    def __init__(self, hidden_dim=768):
        self.query_proj = nn.Linear(hidden_dim, hidden_dim)
        self.key_proj = nn.Linear(hidden_dim, hidden_dim)
        self.value_proj = nn.Linear(hidden_dim, hidden_dim)

    def forward(self, x):
        q, k, v = self.query_proj(x), self.key_proj(x), self.value_proj(x)
        return torch.softmax(q @ k.mT / math.sqrt(x.shape[-1]), dim=-1) @ v


@wrong(EXERCISE)
class NoArgument(nn.Module):
    """The constructor takes no width."""

    def __init__(self):
        super().__init__()
        self.query_proj = nn.Linear(768, 768)
        self.key_proj = nn.Linear(768, 768)
        self.value_proj = nn.Linear(768, 768)

    def forward(self, x):
        q, k, v = self.query_proj(x), self.key_proj(x), self.value_proj(x)
        return torch.softmax(q @ k.mT / math.sqrt(x.shape[-1]), dim=-1) @ v


@wrong(EXERCISE)
class ForwardWantsThree(_Three):
    """forward(q, k, v)."""

    def forward(self, q, k, v):
        q, k, v = self.query_proj(q), self.key_proj(k), self.value_proj(v)
        return torch.softmax(q @ k.mT / math.sqrt(self.hidden_dim), dim=-1) @ v


@wrong(EXERCISE)
class ForwardMisspelt(_Three):
    """foward."""

    def foward(self, x):
        q, k, v = self.project(x)
        return torch.softmax(q @ k.mT / math.sqrt(self.hidden_dim), dim=-1) @ v


@wrong(EXERCISE)
class ForgotReturn(_Three):
    """Returns None."""

    def forward(self, x):
        q, k, v = self.project(x)
        torch.softmax(q @ k.mT / math.sqrt(self.hidden_dim), dim=-1) @ v


@wrong(EXERCISE)
class ReturnsList(_Three):
    """Returns nested lists."""

    def forward(self, x):
        q, k, v = self.project(x)
        return (torch.softmax(q @ k.mT / math.sqrt(self.hidden_dim), dim=-1) @ v).tolist()


@wrong(EXERCISE)
class ReturnsNumpy(_Three):
    """Returns a numpy array."""

    def forward(self, x):
        q, k, v = self.project(x)
        return (torch.softmax(q @ k.mT / math.sqrt(self.hidden_dim), dim=-1) @ v).detach().numpy()


@wrong(EXERCISE)
class ReturnsWeightsOnly(_Three):
    """Returns the weights instead of the output."""

    def forward(self, x):
        q, k, _ = self.project(x)
        return torch.softmax(q @ k.mT / math.sqrt(self.hidden_dim), dim=-1)


@wrong(EXERCISE)
class ReturnsSumOverTokens(_Three):
    """One vector for the whole sentence."""

    def forward(self, x):
        q, k, v = self.project(x)
        return (torch.softmax(q @ k.mT / math.sqrt(self.hidden_dim), dim=-1) @ v).mean(dim=1)


@wrong(EXERCISE)
class ReturnsTransposed(_Three):
    """(B, d, L)."""

    def forward(self, x):
        q, k, v = self.project(x)
        return (torch.softmax(q @ k.mT / math.sqrt(self.hidden_dim), dim=-1) @ v).transpose(1, 2)


@wrong(EXERCISE)
class ReturnsSlice(_Three):
    """The last feature is cut off."""

    def forward(self, x):
        q, k, v = self.project(x)
        return (torch.softmax(q @ k.mT / math.sqrt(self.hidden_dim), dim=-1) @ v)[..., :-1]


@wrong(EXERCISE)
class AlwaysNaN(_Three):
    """0 / 0 somewhere."""

    def forward(self, x):
        q, k, v = self.project(x)
        weights = torch.softmax(q @ k.mT / math.sqrt(self.hidden_dim), dim=-1)
        return (weights - weights) / (weights - weights) @ v


@wrong(EXERCISE)
class Raises(_Three):
    """Calls something that does not exist."""

    def forward(self, x):
        q, k, v = self.project(x)
        return torch.soft_max(q @ k.mT / math.sqrt(self.hidden_dim), dim=-1) @ v


@wrong(EXERCISE)
class RaisesInInit(nn.Module):
    """A typing slip while it is built."""

    def __init__(self, hidden_dim=768):
        super().__init__()
        self.query_proj = nn.Linear(hidden_dim, hiden_dim)  # noqa: F821

    def forward(self, x):
        return x


@wrong(EXERCISE, "not-by-hand")
class UsesSDPA(_Three):
    """F.scaled_dot_product_attention."""

    def forward(self, x):
        return F.scaled_dot_product_attention(*self.project(x))


@wrong(EXERCISE, "not-by-hand")
class UsesTorchMultihead(nn.Module):
    """nn.MultiheadAttention with one head."""

    def __init__(self, hidden_dim=768):
        super().__init__()
        self.mha = nn.MultiheadAttention(hidden_dim, 1, batch_first=True)

    def forward(self, x):
        return self.mha(x, x, x)[0]


@wrong(EXERCISE, "v-uses-wk")
class TwoLayersOnly(nn.Module):
    """Keys and values are the same projection."""

    def __init__(self, hidden_dim=768):
        super().__init__()
        self.query_proj = nn.Linear(hidden_dim, hidden_dim)
        self.kv_proj = nn.Linear(hidden_dim, hidden_dim)

    def forward(self, x):
        q, kv = self.query_proj(x), self.kv_proj(x)
        return torch.softmax(q @ kv.mT / math.sqrt(x.shape[-1]), dim=-1) @ kv


@wrong(EXERCISE)
class Identity(nn.Module):
    """Returns x; the shape is right."""

    def __init__(self, hidden_dim=768):
        super().__init__()
        self.query_proj = nn.Linear(hidden_dim, hidden_dim)

    def forward(self, x):
        return x

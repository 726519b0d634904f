"""Right answers to SelfAttentionV1, written in many ways."""

from __future__ import annotations

import math
import warnings

import torch
import torch.nn.functional as F
from torch import Tensor, einsum, nn

from . import right

EXERCISE = "SelfAttentionV1"


@right(EXERCISE)
class ShortNames(nn.Module):
    """Layers called q, k, v."""

    def __init__(self, hidden_dim=768):
        super().__init__()
        self.dim = hidden_dim
        self.q = nn.Linear(hidden_dim, hidden_dim)
        self.k = nn.Linear(hidden_dim, hidden_dim)
        self.v = nn.Linear(hidden_dim, hidden_dim)

    def forward(self, x):
        Q, K, V = self.q(x), self.k(x), self.v(x)
        att = torch.matmul(Q, K.transpose(1, 2)) / math.sqrt(self.dim)
        att = F.softmax(att, dim=-1)
        return torch.matmul(att, V)


@right(EXERCISE)
class ContractNamesNoBias(nn.Module):
    """The contract's names, no biases, created in the order key, query, value."""

    def __init__(self, hidden_dim: int = 768):
        super().__init__()
        self.key_proj = nn.Linear(hidden_dim, hidden_dim, bias=False)
        self.query_proj = nn.Linear(hidden_dim, hidden_dim, bias=False)
        self.value_proj = nn.Linear(hidden_dim, hidden_dim, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        keys = self.key_proj(x)
        queries = self.query_proj(x)
        values = self.value_proj(x)
        scale = keys.size(-1) ** 0.5
        return (queries @ keys.mT / scale).softmax(-1) @ values


@right(EXERCISE)
class EinsumToQ(nn.Module):
    """einsum twice; value layer created first."""

    def __init__(self, dim=768):
        super().__init__()
        self.to_v = nn.Linear(dim, dim)
        self.to_k = nn.Linear(dim, dim)
        self.to_q = nn.Linear(dim, dim)
        self.scale = dim**-0.5

    def forward(self, x):
        q = self.to_q(x)
        k = self.to_k(x)
        v = self.to_v(x)
        sim = einsum("b i d, b j d -> b i j", q, k) * self.scale
        attn = sim.softmax(dim=-1)
        return einsum("b i j, b j d -> b i d", attn, v)


@right(EXERCISE)
class LettersABC(nn.Module):
    """Names that say nothing, in an order that misleads: a makes the values, b the queries, c the keys."""

    def __init__(self, n=768):
        super().__init__()
        self.a = nn.Linear(n, n)
        self.b = nn.Linear(n, n)
        self.c = nn.Linear(n, n)
        self.n = n

    def forward(self, t):
        s = torch.bmm(self.b(t), self.c(t).permute(0, 2, 1))
        s = s / self.n**0.5
        return torch.bmm(torch.softmax(s, 2), self.a(t))


@right(EXERCISE)
class MixedBias(nn.Module):
    """lin1, lin2, lin3; only the keys have no bias."""

    def __init__(self, hidden_dim=768):
        super().__init__()
        self.lin1 = nn.Linear(hidden_dim, hidden_dim)
        self.lin2 = nn.Linear(hidden_dim, hidden_dim, bias=False)
        self.lin3 = nn.Linear(hidden_dim, hidden_dim)

    def forward(self, x):
        _batch, _length, d = x.shape
        logits = self.lin1(x) @ self.lin2(x).transpose(-1, -2)
        probs = torch.softmax(logits / math.sqrt(d), dim=-1)
        return probs @ self.lin3(x)


@right(EXERCISE)
class OnlyValueBias(nn.Module):
    """Bias on the values alone, and names with capital letters."""

    def __init__(self, hidden_dim: int = 768) -> None:
        super().__init__()
        self.W_V = nn.Linear(hidden_dim, hidden_dim, bias=True)
        self.W_Q = nn.Linear(hidden_dim, hidden_dim, bias=False)
        self.W_K = nn.Linear(hidden_dim, hidden_dim, bias=False)

    def forward(self, X: Tensor) -> Tensor:
        d_k = self.W_Q.out_features
        A = F.softmax(self.W_Q(X) @ self.W_K(X).transpose(1, 2) * (1 / math.sqrt(d_k)), dim=2)
        return A @ self.W_V(X)


@right(EXERCISE)
class ParametersInOut(nn.Module):
    """Hand-made weights, used as x @ W, without biases."""

    def __init__(self, hidden_dim=768):
        super().__init__()
        self.W_query = nn.Parameter(torch.randn(hidden_dim, hidden_dim) / math.sqrt(hidden_dim))
        self.W_key = nn.Parameter(torch.randn(hidden_dim, hidden_dim) / math.sqrt(hidden_dim))
        self.W_value = nn.Parameter(torch.randn(hidden_dim, hidden_dim) / math.sqrt(hidden_dim))

    def forward(self, x):
        keys = x @ self.W_key
        queries = x @ self.W_query
        values = x @ self.W_value
        attn_scores = queries @ keys.transpose(1, 2)
        attn_weights = torch.softmax(attn_scores / keys.shape[-1] ** 0.5, dim=-1)
        return attn_weights @ values


@right(EXERCISE)
class ParametersOutIn(nn.Module):
    """Hand-made weights and biases in nn.Linear's orientation, applied with F.linear."""

    def __init__(self, hidden_dim=768):
        super().__init__()
        bound = hidden_dim**-0.5
        self.wq = nn.Parameter(torch.empty(hidden_dim, hidden_dim).uniform_(-bound, bound))
        self.bq = nn.Parameter(torch.zeros(hidden_dim))
        self.wk = nn.Parameter(torch.empty(hidden_dim, hidden_dim).uniform_(-bound, bound))
        self.bk = nn.Parameter(torch.zeros(hidden_dim))
        self.wv = nn.Parameter(torch.empty(hidden_dim, hidden_dim).uniform_(-bound, bound))
        self.bv = nn.Parameter(torch.zeros(hidden_dim))

    def forward(self, x):
        q = F.linear(x, self.wq, self.bq)
        k = F.linear(x, self.wk, self.bk)
        v = F.linear(x, self.wv, self.bv)
        w = (q @ k.transpose(-2, -1)).div(math.sqrt(q.size(-1))).softmax(dim=-1)
        return w @ v


@right(EXERCISE, "three projections in one (3, d, d) parameter")
class StackedParameter(nn.Module):
    """One (3, d, d) weight and one (3, d) bias for all three roles."""

    def __init__(self, hidden_dim: int = 768):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(3, hidden_dim, hidden_dim))
        self.bias = nn.Parameter(torch.zeros(3, hidden_dim))
        for matrix in self.weight:
            nn.init.xavier_uniform_(matrix)

    def forward(self, x):
        qkv = torch.einsum("bld,sde->sble", x, self.weight) + self.bias[:, None, None, :]  # (3, B, L, d)
        q, k, v = qkv.unbind(0)
        scores = torch.einsum("bqe,bke->bqk", q, k) / q.shape[-1] ** 0.5
        return torch.einsum("bqk,bke->bqe", scores.softmax(-1), v)


@right(EXERCISE)
class InAModuleList(nn.Module):
    """The three layers live in a ModuleList."""

    def __init__(self, hidden_dim=768):
        super().__init__()
        self.projections = nn.ModuleList([nn.Linear(hidden_dim, hidden_dim) for _ in range(3)])
        self.sqrt_d = math.sqrt(hidden_dim)

    def forward(self, x):
        query, key, value = [layer(x) for layer in self.projections]
        return F.softmax(query @ key.transpose(-2, -1) / self.sqrt_d, dim=-1) @ value


@right(EXERCISE)
class InAModuleDict(nn.Module):
    """The three layers live in a ModuleDict whose keys are v, q, k."""

    def __init__(self, hidden_dim=768, bias=True):
        super().__init__()
        self.proj = nn.ModuleDict({name: nn.Linear(hidden_dim, hidden_dim, bias=bias) for name in "vqk"})

    def forward(self, x):
        roles = {name: layer(x) for name, layer in self.proj.items()}
        scores = roles["q"] @ roles["k"].transpose(1, 2)
        scores /= math.sqrt(x.shape[-1])  # own temporary: in place is fine
        return scores.softmax(dim=-1) @ roles["v"]


@right(EXERCISE)
class InAParameterDict(nn.Module):
    """A ParameterDict of (in, out) matrices."""

    def __init__(self, hidden_dim=768):
        super().__init__()
        self.w = nn.ParameterDict(
            {
                "key": nn.Parameter(nn.init.xavier_uniform_(torch.empty(hidden_dim, hidden_dim))),
                "value": nn.Parameter(nn.init.xavier_uniform_(torch.empty(hidden_dim, hidden_dim))),
                "query": nn.Parameter(nn.init.xavier_uniform_(torch.empty(hidden_dim, hidden_dim))),
            }
        )

    def forward(self, x):
        q, k, v = (torch.matmul(x, self.w[role]) for role in ("query", "key", "value"))
        attention = torch.softmax(torch.matmul(q, k.transpose(-1, -2)) / math.sqrt(k.size(-1)), -1)
        return torch.matmul(attention, v)


@right(EXERCISE, "1x1 convolutions instead of linears")
class Conv1x1(nn.Module):
    """Conv1d with kernel 1, channels first, as in self-attention GANs."""

    def __init__(self, hidden_dim=768):
        super().__init__()
        self.query_conv = nn.Conv1d(hidden_dim, hidden_dim, kernel_size=1)
        self.key_conv = nn.Conv1d(hidden_dim, hidden_dim, kernel_size=1)
        self.value_conv = nn.Conv1d(hidden_dim, hidden_dim, kernel_size=1)

    def forward(self, x):
        x = x.transpose(1, 2)  # (B, d, L)
        q = self.query_conv(x)
        k = self.key_conv(x)
        v = self.value_conv(x)
        energy = torch.bmm(q.permute(0, 2, 1), k) / q.shape[1] ** 0.5  # (B, L, L)
        attention = energy.softmax(dim=-1)
        out = torch.bmm(v, attention.permute(0, 2, 1))  # (B, d, L)
        return out.transpose(1, 2)


@right(EXERCISE, "parameters exist only after the first call")
class LazyLayers(nn.Module):
    """LazyLinear reads the input width from the first batch."""

    def __init__(self, hidden_dim: int = 768):
        super().__init__()
        self.query_proj = nn.LazyLinear(hidden_dim)
        self.key_proj = nn.LazyLinear(hidden_dim)
        self.value_proj = nn.LazyLinear(hidden_dim)
        self.hidden_dim = hidden_dim

    def forward(self, x):
        q, k, v = self.query_proj(x), self.key_proj(x), self.value_proj(x)
        return torch.softmax(q @ k.transpose(1, 2) / math.sqrt(self.hidden_dim), dim=-1) @ v


@right(EXERCISE, "layers exist only after the first call")
class BuiltOnFirstForward(nn.Module):
    """Layers are created when the first input arrives."""

    def __init__(self, hidden_dim=768):
        super().__init__()
        self.hidden_dim = hidden_dim
        self.ready = False

    def build(self, x):
        make = lambda: nn.Linear(self.hidden_dim, self.hidden_dim).to(x.device, x.dtype)  # noqa: E731
        self.fq = make()
        self.fk = make()
        self.fv = make()
        self.ready = True

    def forward(self, x):
        if not self.ready:
            self.build(x)
        weights = (self.fq(x) @ self.fk(x).transpose(1, 2) / self.hidden_dim**0.5).softmax(-1)
        return weights @ self.fv(x)


@right(EXERCISE, "already fused: one layer makes q, k and v")
class FusedAlready(nn.Module):
    """One (d, 3d) layer, as in stage 2."""

    def __init__(self, hidden_dim=768):
        super().__init__()
        self.qkv = nn.Linear(hidden_dim, hidden_dim * 3)

    def forward(self, x):
        d = x.shape[-1]
        q, k, v = self.qkv(x).split(d, dim=-1)
        return ((q @ k.transpose(-2, -1)) / math.sqrt(d)).softmax(-1) @ v


@right(EXERCISE, "already fused, in the order v, k, q")
class FusedBackwards(nn.Module):
    """One fused layer, blocks taken as value, key, query."""

    def __init__(self, hidden_dim=768):
        super().__init__()
        self.all_in_one = nn.Linear(hidden_dim, 3 * hidden_dim, bias=False)

    def forward(self, x):
        v, k, q = torch.chunk(self.all_in_one(x), 3, -1)
        a = torch.softmax(q.matmul(k.mT) * q.shape[-1] ** -0.5, dim=-1)
        return a.matmul(v)


@right(EXERCISE, "keys and values share one layer")
class FusedKeysAndValues(nn.Module):
    """to_q and to_kv, as in many vision transformers."""

    def __init__(self, dim=768, bias=True):
        super().__init__()
        self.scale = dim**-0.5
        self.to_q = nn.Linear(dim, dim, bias=bias)
        self.to_kv = nn.Linear(dim, dim * 2, bias=bias)

    def forward(self, x):
        q = self.to_q(x) * self.scale
        k, v = self.to_kv(x).chunk(2, dim=-1)
        return (q @ k.transpose(-1, -2)).softmax(dim=-1) @ v


@right(EXERCISE)
class LoopOverSamples(nn.Module):
    """One sentence at a time, stacked at the end."""

    def __init__(self, hidden_dim=768):
        super().__init__()
        self.query = nn.Linear(hidden_dim, hidden_dim)
        self.key = nn.Linear(hidden_dim, hidden_dim)
        self.value = nn.Linear(hidden_dim, hidden_dim)

    def attend(self, sentence):
        q = self.query(sentence)  # (L, d)
        k = self.key(sentence)
        v = self.value(sentence)
        return torch.softmax(q @ k.T / math.sqrt(q.shape[1]), dim=1) @ v

    def forward(self, x):
        return torch.stack([self.attend(sentence) for sentence in x])


@right(EXERCISE)
class LoopOverQueries(nn.Module):
    """One query at a time."""

    def __init__(self, hidden_dim=768):
        super().__init__()
        self.p_query = nn.Linear(hidden_dim, hidden_dim)
        self.p_key = nn.Linear(hidden_dim, hidden_dim)
        self.p_value = nn.Linear(hidden_dim, hidden_dim)

    def forward(self, x):
        k = self.p_key(x)
        v = self.p_value(x)
        rows = []
        for i in range(x.size(1)):
            q_i = self.p_query(x[:, i])  # (B, d)
            score = (k * q_i[:, None, :]).sum(dim=-1) / math.sqrt(x.size(2))  # (B, L)
            weight = score.softmax(dim=-1)
            rows.append((weight[..., None] * v).sum(dim=1))
        return torch.stack(rows, dim=1)


@right(EXERCISE)
class EveryPairByHand(nn.Module):
    """Three nested loops, the slowest right answer there is."""

    def __init__(self, hidden_dim: int = 768):
        super().__init__()
        self.query_proj = nn.Linear(hidden_dim, hidden_dim)
        self.key_proj = nn.Linear(hidden_dim, hidden_dim)
        self.value_proj = nn.Linear(hidden_dim, hidden_dim)
        self.hidden_dim = hidden_dim

    def forward(self, x):
        out = torch.zeros_like(x)
        for b in range(x.shape[0]):
            for i in range(x.shape[1]):
                query = self.query_proj(x[b, i])
                scores = []
                for j in range(x.shape[1]):
                    scores.append(torch.dot(query, self.key_proj(x[b, j])) / self.hidden_dim**0.5)
                weights = torch.softmax(torch.stack(scores), dim=0)
                for j in range(x.shape[1]):
                    out[b, i] = out[b, i] + weights[j] * self.value_proj(x[b, j])
        return out


@right(EXERCISE)
class ScaleOnKeys(nn.Module):
    """The keys are scaled before the product."""

    def __init__(self, hidden_dim=768):
        super().__init__()
        self.q_linear = nn.Linear(hidden_dim, hidden_dim)
        self.v_linear = nn.Linear(hidden_dim, hidden_dim)
        self.k_linear = nn.Linear(hidden_dim, hidden_dim)

    def forward(self, x):
        k = self.k_linear(x) / math.sqrt(x.shape[-1])
        q = self.q_linear(x)
        v = self.v_linear(x)
        return F.softmax(q @ k.transpose(1, 2), dim=-1) @ v


@right(EXERCISE)
class ScaleOnBoth(nn.Module):
    """d ** -0.25 on the queries and on the keys."""

    def __init__(self, hidden_dim=768):
        super().__init__()
        self.query_proj = nn.Linear(hidden_dim, hidden_dim)
        self.key_proj = nn.Linear(hidden_dim, hidden_dim)
        self.value_proj = nn.Linear(hidden_dim, hidden_dim)

    def forward(self, x):
        root = x.size(-1) ** -0.25
        q = self.query_proj(x) * root
        k = self.key_proj(x) * root
        return (q @ k.transpose(-1, -2)).softmax(dim=-1) @ self.value_proj(x)


@right(EXERCISE)
class ScaleAsBuffer(nn.Module):
    """The scale is a buffer, a 0-dim tensor."""

    def __init__(self, hidden_dim=768):
        super().__init__()
        self.register_buffer("scale", torch.sqrt(torch.tensor(float(hidden_dim))))
        self.Wq = nn.Linear(hidden_dim, hidden_dim)
        self.Wk = nn.Linear(hidden_dim, hidden_dim)
        self.Wv = nn.Linear(hidden_dim, hidden_dim)

    def forward(self, inputs):
        scores = torch.matmul(self.Wq(inputs), self.Wk(inputs).transpose(1, 2)) / self.scale
        return torch.matmul(torch.softmax(scores, dim=-1), self.Wv(inputs))


@right(EXERCISE)
class ReturnsWeightsToo(nn.Module):
    """Returns (output, weights)."""

    def __init__(self, hidden_dim=768):
        super().__init__()
        self.query = nn.Linear(hidden_dim, hidden_dim)
        self.key = nn.Linear(hidden_dim, hidden_dim)
        self.value = nn.Linear(hidden_dim, hidden_dim)
        self.hidden_dim = hidden_dim

    def forward(self, x):
        attn = self.query(x) @ self.key(x).transpose(-2, -1)
        attn = (attn / self.hidden_dim**0.5).softmax(-1)
        return attn @ self.value(x), attn


@right(EXERCISE)
class OwnSoftmaxShifted(nn.Module):
    """A softmax of its own: the maximum is taken away first."""

    def __init__(self, hidden_dim=768):
        super().__init__()
        self.query_proj = nn.Linear(hidden_dim, hidden_dim)
        self.key_proj = nn.Linear(hidden_dim, hidden_dim)
        self.value_proj = nn.Linear(hidden_dim, hidden_dim)

    @staticmethod
    def stable_softmax(z):
        e = torch.exp(z - z.amax(dim=-1, keepdim=True))
        return e / e.sum(dim=-1, keepdim=True)

    def forward(self, x):
        scores = torch.einsum("bid,bjd->bij", self.query_proj(x), self.key_proj(x))
        return self.stable_softmax(scores / x.shape[-1] ** 0.5) @ self.value_proj(x)


@right(EXERCISE)
class OwnSoftmaxDetachedMax(nn.Module):
    """The maximum that is taken away carries no gradient, which changes nothing."""

    def __init__(self, hidden_dim=768):
        super().__init__()
        self.hidden_dim = hidden_dim
        self.key_proj = nn.Linear(hidden_dim, hidden_dim)
        self.value_proj = nn.Linear(hidden_dim, hidden_dim)
        self.query_proj = nn.Linear(hidden_dim, hidden_dim)

    def forward(self, x):
        q, k, v = self.query_proj(x), self.key_proj(x), self.value_proj(x)
        s = q @ k.transpose(1, 2) / math.sqrt(self.hidden_dim)
        s = s - s.max(-1, keepdim=True)[0].detach()
        numerator = s.exp() @ v  # (B, L, d)
        denominator = s.exp().sum(-1, keepdim=True)  # (B, L, 1)
        return numerator / denominator


@right(EXERCISE)
class LogSumExp(nn.Module):
    """Softmax as exp(scores - logsumexp(scores))."""

    def __init__(self, hidden_dim=768):
        super().__init__()
        self.wq = nn.Linear(hidden_dim, hidden_dim)
        self.wk = nn.Linear(hidden_dim, hidden_dim)
        self.wv = nn.Linear(hidden_dim, hidden_dim)

    def forward(self, x):
        scores = self.wq(x) @ self.wk(x).transpose(1, 2) / x.shape[2] ** 0.5
        weights = (scores - torch.logsumexp(scores, dim=-1, keepdim=True)).exp()
        return weights @ self.wv(x)


@right(EXERCISE)
class LogSoftmaxExp(nn.Module):
    """log_softmax, then exp."""

    def __init__(self, hidden_dim=768):
        super().__init__()
        self.layer_for_values = nn.Linear(hidden_dim, hidden_dim)
        self.layer_for_keys = nn.Linear(hidden_dim, hidden_dim)
        self.layer_for_queries = nn.Linear(hidden_dim, hidden_dim)

    def forward(self, x):
        dots = self.layer_for_queries(x) @ self.layer_for_keys(x).swapaxes(-1, -2)
        return F.log_softmax(dots / math.sqrt(dots.new_tensor(x.shape[-1])), dim=-1).exp() @ self.layer_for_values(x)


@right(EXERCISE)
class SoftmaxInDouble(nn.Module):
    """Softmax in float64, the result in the input's type again."""

    def __init__(self, hidden_dim=768):
        super().__init__()
        self.query_proj = nn.Linear(hidden_dim, hidden_dim)
        self.key_proj = nn.Linear(hidden_dim, hidden_dim)
        self.value_proj = nn.Linear(hidden_dim, hidden_dim)

    def forward(self, x):
        scores = self.query_proj(x) @ self.key_proj(x).transpose(1, 2)
        weights = torch.softmax(scores.double() / math.sqrt(x.size(-1)), dim=-1).to(x.dtype)
        return weights @ self.value_proj(x)


@right(EXERCISE)
class SoftmaxInFloat32(nn.Module):
    """Softmax in float32 whatever the input's type, as big language models do it."""

    def __init__(self, hidden_dim: int = 768):
        super().__init__()
        self.q_proj = nn.Linear(hidden_dim, hidden_dim, bias=False)
        self.k_proj = nn.Linear(hidden_dim, hidden_dim, bias=False)
        self.v_proj = nn.Linear(hidden_dim, hidden_dim, bias=False)
        self.scaling = hidden_dim**-0.5

    def forward(self, hidden_states):
        q = self.q_proj(hidden_states)
        k = self.k_proj(hidden_states)
        v = self.v_proj(hidden_states)
        attn = torch.matmul(q, k.transpose(1, 2)) * self.scaling
        attn = F.softmax(attn, dim=-1, dtype=torch.float32).to(q.dtype)
        return torch.matmul(attn, v)


@right(EXERCISE)
class Baddbmm(nn.Module):
    """baddbmm scales while it multiplies; torch.empty is never read because beta is 0."""

    def __init__(self, hidden_dim=768):
        super().__init__()
        self.query = nn.Linear(hidden_dim, hidden_dim)
        self.key = nn.Linear(hidden_dim, hidden_dim)
        self.value = nn.Linear(hidden_dim, hidden_dim)
        self.inv = 1.0 / math.sqrt(hidden_dim)

    def forward(self, x):
        B, L, _ = x.shape
        scores = torch.baddbmm(
            torch.empty(B, L, L, dtype=x.dtype, device=x.device),
            self.query(x),
            self.key(x).transpose(1, 2),
            beta=0,
            alpha=self.inv,
        )
        return torch.bmm(scores.softmax(-1), self.value(x))


class AttentionBase(nn.Module):
    """Everything but the projections; a learner's own base class."""

    def attention(self, q, k, v):
        return F.softmax(q @ k.transpose(-2, -1) / math.sqrt(k.size(-1)), dim=-1) @ v

    def forward(self, x):
        return self.attention(*self.project(x))


@right(EXERCISE)
class FromABaseClass(AttentionBase):
    """forward is inherited from a base class."""

    def __init__(self, hidden_dim=768):
        super().__init__()
        self.fc_k = nn.Linear(hidden_dim, hidden_dim)
        self.fc_q = nn.Linear(hidden_dim, hidden_dim)
        self.fc_v = nn.Linear(hidden_dim, hidden_dim)

    def project(self, x):
        return self.fc_q(x), self.fc_k(x), self.fc_v(x)


class OwnLinear(nn.Module):
    """A linear layer written by the learner, weight as (in, out)."""

    def __init__(self, d_in, d_out):
        super().__init__()
        self.w = nn.Parameter(torch.randn(d_in, d_out) * d_in**-0.5)
        self.b = nn.Parameter(torch.zeros(d_out))

    def forward(self, x):
        return x @ self.w + self.b


@right(EXERCISE)
class WithOwnLinear(nn.Module):
    """The linear layer is home-made as well."""

    def __init__(self, hidden_dim=768):
        super().__init__()
        self.query_proj = OwnLinear(hidden_dim, hidden_dim)
        self.key_proj = OwnLinear(hidden_dim, hidden_dim)
        self.value_proj = OwnLinear(hidden_dim, hidden_dim)

    def forward(self, x):
        s = self.query_proj(x) @ self.key_proj(x).transpose(2, 1)
        s *= x.shape[-1] ** -0.5
        return s.softmax(2) @ self.value_proj(x)


class _Scriptable(nn.Module):
    def __init__(self, hidden_dim: int):
        super().__init__()
        self.query_proj = nn.Linear(hidden_dim, hidden_dim)
        self.key_proj = nn.Linear(hidden_dim, hidden_dim)
        self.value_proj = nn.Linear(hidden_dim, hidden_dim)
        self.scale = 1 / math.sqrt(hidden_dim)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        scores = torch.matmul(self.query_proj(x), self.key_proj(x).transpose(-2, -1)) * self.scale
        return torch.matmul(torch.softmax(scores, dim=-1), self.value_proj(x))


@right(EXERCISE, "a TorchScript module, made by a factory")
def scripted_attention(hidden_dim=768):
    """A factory function that returns a scripted module."""
    return torch.jit.script(_Scriptable(hidden_dim))


@right(EXERCISE)
class PrintsAndWarns(nn.Module):
    """Prints shapes, warns, and is commented in Chinese."""

    def __init__(self, hidden_dim=768):
        super().__init__()
        # 三个线性层, 分别得到查询, 键, 值
        self.query_proj = nn.Linear(hidden_dim, hidden_dim)
        self.key_proj = nn.Linear(hidden_dim, hidden_dim)
        self.value_proj = nn.Linear(hidden_dim, hidden_dim)
        self.hidden_dim = hidden_dim

    def forward(self, X):
        Q = self.query_proj(X)
        K = self.key_proj(X)
        V = self.value_proj(X)
        print("Q:", Q.shape, "K:", K.shape, "V:", V.shape)
        warnings.warn("still in debug mode", stacklevel=2)
        # 除以根号d, 防止分数过大
        scores = torch.matmul(Q, K.transpose(-1, -2)) / math.sqrt(self.hidden_dim)
        weights = torch.softmax(scores, dim=-1)  # 在最后一维归一化
        print(weights)
        return torch.matmul(weights, V)


@right(EXERCISE)
class AssertsEverything(nn.Module):
    """Checks types and shapes on the way."""

    def __init__(self, hidden_dim: int = 768):
        if not isinstance(hidden_dim, int) or hidden_dim <= 0:
            raise TypeError("hidden_dim must be a positive int")
        super().__init__()
        self.query_proj = nn.Linear(hidden_dim, hidden_dim)
        self.key_proj = nn.Linear(hidden_dim, hidden_dim)
        self.value_proj = nn.Linear(hidden_dim, hidden_dim)
        self.hidden_dim = hidden_dim

    def forward(self, x: Tensor) -> Tensor:
        assert isinstance(x, Tensor), "x must be a tensor"
        assert x.ndim == 3, f"expected (B, L, d), got {tuple(x.shape)}"
        B, L, d = x.shape
        assert d == self.hidden_dim
        q, k, v = self.query_proj(x), self.key_proj(x), self.value_proj(x)
        scores = q.bmm(k.transpose(1, 2)) / d**0.5
        assert scores.shape == (B, L, L)
        weights = scores.softmax(-1)
        out = weights.bmm(v)
        assert out.shape == x.shape
        return out


@right(EXERCISE)
class ScoresTransposed(nn.Module):
    """Works with keys down and queries across, so the softmax runs over axis 1."""

    def __init__(self, hidden_dim=768):
        super().__init__()
        self.query_proj = nn.Linear(hidden_dim, hidden_dim)
        self.key_proj = nn.Linear(hidden_dim, hidden_dim)
        self.value_proj = nn.Linear(hidden_dim, hidden_dim)

    def forward(self, x):
        k_q = self.key_proj(x) @ self.query_proj(x).transpose(1, 2) / x.shape[-1] ** 0.5  # (B, L_k, L_q)
        w = k_q.softmax(dim=1)
        return w.transpose(1, 2) @ self.value_proj(x)


@right(EXERCISE, "default width 728: harmless here, but 12 heads do not divide it")
class Default728(nn.Module):
    """The tutorials' default width."""

    def __init__(self, hidden_dim: int = 728) -> None:
        super().__init__()
        self.hidden_dim = hidden_dim
        self.query_proj = nn.Linear(hidden_dim, hidden_dim)
        self.key_proj = nn.Linear(hidden_dim, hidden_dim)
        self.value_proj = nn.Linear(hidden_dim, hidden_dim)

    def forward(self, X):
        Q, K, V = self.query_proj(X), self.key_proj(X), self.value_proj(X)
        value = torch.matmul(Q, K.transpose(-1, -2))
        attention_weight = torch.softmax(value / math.sqrt(self.hidden_dim), dim=-1)
        return torch.matmul(attention_weight, V)


@right(EXERCISE)
class ManyConstructorArguments(nn.Module):
    """More constructor arguments than asked for, all with defaults."""

    def __init__(self, hidden_dim=768, *, bias=True, dropout=0.0, device=None, dtype=None):
        super().__init__()
        kw = {"bias": bias, "device": device, "dtype": dtype}
        self.q_proj = nn.Linear(hidden_dim, hidden_dim, **kw)
        self.k_proj = nn.Linear(hidden_dim, hidden_dim, **kw)
        self.v_proj = nn.Linear(hidden_dim, hidden_dim, **kw)
        self.drop = nn.Dropout(dropout)

    def forward(self, x, mask=None):
        scores = self.q_proj(x) @ self.k_proj(x).transpose(1, 2) / math.sqrt(x.shape[-1])
        if mask is not None:
            scores = scores.masked_fill(mask == 0, float("-inf"))
        return self.drop(scores.softmax(-1)) @ self.v_proj(x)


@right(EXERCISE)
class SoftmaxAsALayer(nn.Module):
    """nn.Softmax and nn.Sequential as attributes."""

    def __init__(self, hidden_dim=768):
        super().__init__()
        self.softmax = nn.Softmax(dim=-1)
        self.key = nn.Sequential(nn.Linear(hidden_dim, hidden_dim))
        self.query = nn.Sequential(nn.Linear(hidden_dim, hidden_dim))
        self.value = nn.Sequential(nn.Linear(hidden_dim, hidden_dim), nn.Identity())
        self.factor = math.sqrt(hidden_dim)

    def forward(self, x):
        return self.softmax(self.query(x) @ self.key(x).transpose(1, 2) / self.factor) @ self.value(x)


@right(EXERCISE)
class OneKeyAtATime(nn.Module):
    """Streams over the keys with a running maximum and a running sum."""

    def __init__(self, hidden_dim=768):
        super().__init__()
        self.query_proj = nn.Linear(hidden_dim, hidden_dim)
        self.key_proj = nn.Linear(hidden_dim, hidden_dim)
        self.value_proj = nn.Linear(hidden_dim, hidden_dim)

    def forward(self, x):
        B, L, d = x.shape
        q = self.query_proj(x) / math.sqrt(d)
        k = self.key_proj(x)
        v = self.value_proj(x)
        top = x.new_full((B, L, 1), float("-inf"))
        total = x.new_zeros(B, L, 1)
        out = torch.zeros_like(v)
        for j in range(L):
            s = (q * k[:, j : j + 1]).sum(-1, keepdim=True)  # (B, L, 1)
            new_top = torch.maximum(top, s)
            shrink = (top - new_top).exp()
            e = (s - new_top).exp()
            total = total * shrink + e
            out = out * shrink + e * v[:, j : j + 1]
            top = new_top
        return out / total


@right(EXERCISE)
class ProjectAfterGathering(nn.Module):
    """Gathers x first and projects the average: the same, because every row of weights sums to 1."""

    def __init__(self, hidden_dim=768):
        super().__init__()
        self.query_proj = nn.Linear(hidden_dim, hidden_dim)
        self.key_proj = nn.Linear(hidden_dim, hidden_dim)
        self.value_proj = nn.Linear(hidden_dim, hidden_dim)

    def forward(self, x):
        scores = self.query_proj(x) @ self.key_proj(x).transpose(-1, -2)
        weights = torch.softmax(scores / math.sqrt(x.size(-1)), dim=-1)
        return self.value_proj(weights @ x)


@right(EXERCISE)
class FlattenedBatch(nn.Module):
    """Projects a flat (B * L, d) batch and folds it back."""

    def __init__(self, hidden_dim=768):
        nn.Module.__init__(self)
        self.d = hidden_dim
        self.proj_q = nn.Linear(hidden_dim, hidden_dim)
        self.proj_k = nn.Linear(hidden_dim, hidden_dim)
        self.proj_v = nn.Linear(hidden_dim, hidden_dim)

    def forward(self, x):
        B, L, d = x.size()
        flat = x.reshape(-1, d)
        q = self.proj_q(flat).view(B, L, d)
        k = self.proj_k(flat).view(B, L, d)
        v = self.proj_v(flat).view(B, L, d)
        scores = torch.tensordot(q, k, dims=([2], [2]))  # (B, L, B, L)
        scores = torch.diagonal(scores, dim1=0, dim2=2).permute(2, 0, 1) / self.d**0.5  # (B, L, L)
        return scores.softmax(dim=-1) @ v

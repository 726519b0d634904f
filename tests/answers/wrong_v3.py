"""Wrong answers to SelfAttentionV3: the catalogue's mistakes in two styles, and others."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from . import wrong

EXERCISE = "SelfAttentionV3"
NEAR_ZERO = ("fill-tiny-positive", "fill-tiny-negative", "mask-multiplied")


class _Contract(nn.Module):
    """The contract's layers; what most answers below share."""

    def __init__(self, hidden_dim, dropout_rate=0.1):
        super().__init__()
        self.hidden_dim = hidden_dim
        self.proj = nn.Linear(hidden_dim, 3 * hidden_dim)
        self.attention_dropout = nn.Dropout(dropout_rate)
        self.output_proj = nn.Linear(hidden_dim, hidden_dim)

    def qkv(self, x):
        return self.proj(x).chunk(3, dim=-1)

    def scores(self, x):
        q, k, v = self.qkv(x)
        return q @ k.transpose(-2, -1) / math.sqrt(self.hidden_dim), v

    def finish(self, weights, v):
        return self.output_proj(self.attention_dropout(weights) @ v)


class _Apart(nn.Module):
    """Another shared part: three layers, another output layer, functional dropout."""

    def __init__(self, d, p=0.1):
        super().__init__()
        self.d, self.p = d, p
        self.out = nn.Linear(d, d)
        self.q = nn.Linear(d, d, bias=False)
        self.k = nn.Linear(d, d, bias=False)
        self.v = nn.Linear(d, d, bias=False)

    def attend(self, s, v):
        return self.out(F.dropout(s.softmax(-1), self.p, self.training) @ v)

    def raw(self, x):
        return torch.einsum("bid,bjd->bij", self.q(x), self.k(x)) * self.d**-0.5


def hide(scores, mask):
    """The right masking, for the answers whose mistake lies elsewhere."""
    return scores if mask is None else scores.masked_fill(mask == 0, float("-inf"))


# ---------------------------------------------------------------- projections


@wrong(EXERCISE, "k-uses-wq", "q-uses-wk")
class KeysThroughQueryLayer(_Apart):
    """k = q-layer of x."""

    def forward(self, x, attention_mask=None):
        q, k = self.q(x), self.q(x)
        return self.attend(hide(q @ k.mT / math.sqrt(self.d), attention_mask), self.v(x))


@wrong(EXERCISE, "k-uses-wq", "q-uses-wk")
class QueriesAreKeys(_Contract):
    """The middle block serves as queries as well."""

    def forward(self, x, attention_mask=None):
        _, k, v = self.qkv(x)
        scores = hide(k @ k.mT / math.sqrt(self.hidden_dim), attention_mask)
        return self.finish(scores.softmax(-1), v)


@wrong(EXERCISE, "v-uses-wk")
class KeysAsValues(_Contract):
    """weights @ k."""

    def forward(self, x, attention_mask=None):
        q, k, _ = self.qkv(x)
        scores = hide(q @ k.mT / math.sqrt(self.hidden_dim), attention_mask)
        return self.output_proj(self.attention_dropout(scores.softmax(-1)) @ k)


@wrong(EXERCISE, "v-uses-wk")
class ValuesThroughKeyLayer(_Apart):
    """v = k-layer of x."""

    def forward(self, x, attention_mask=None):
        return self.attend(hide(self.raw(x), attention_mask), self.k(x))


@wrong(EXERCISE, "stream-not-projected")
class RawValues(_Apart):
    """weights @ x."""

    def forward(self, x, attention_mask=None):
        return self.attend(hide(self.raw(x), attention_mask), x)


@wrong(EXERCISE, "stream-not-projected")
class RawQueries(_Contract):
    """x is the query."""

    def forward(self, x, attention_mask=None):
        _, k, v = self.qkv(x)
        return self.finish(hide(x @ k.mT / math.sqrt(self.hidden_dim), attention_mask).softmax(-1), v)


@wrong(EXERCISE, "weight-transposed")
class LinearWeightsUsedTheWrongWay(_Apart):
    """x @ layer.weight where nn.Linear means x @ layer.weight.T."""

    def forward(self, x, attention_mask=None):
        q, k, v = x @ self.q.weight, x @ self.k.weight, x @ self.v.weight
        w = hide(q @ k.mT / math.sqrt(self.d), attention_mask).softmax(-1)
        return F.dropout(w, self.p, self.training) @ v @ self.out.weight + self.out.bias


@wrong(EXERCISE, "heads-in-python-list")
class LayersInAList(nn.Module):
    """The projections sit in a plain list."""

    def __init__(self, hidden_dim, dropout_rate=0.1):
        super().__init__()
        self.layers = [nn.Linear(hidden_dim, hidden_dim) for _ in range(3)]
        self.drop = nn.Dropout(dropout_rate)
        self.out = nn.Linear(hidden_dim, hidden_dim)

    def forward(self, x, attention_mask=None):
        q, k, v = (layer(x) for layer in self.layers)
        w = hide(q @ k.mT / math.sqrt(x.shape[-1]), attention_mask).softmax(-1)
        return self.out(self.drop(w) @ v)


@wrong(EXERCISE, "fixed-head-size")
class ScaleOfEight(_Contract):
    """Divides by 8."""

    def forward(self, x, attention_mask=None):
        q, k, v = self.qkv(x)
        return self.finish(hide(q @ k.mT / 8, attention_mask).softmax(-1), v)


# ---------------------------------------------------------------- fused projection


@wrong(EXERCISE, "split-wrong-axis")
class ChunkOverBatch(_Contract):
    """chunk without an axis."""

    def forward(self, x, attention_mask=None):
        q, k, v = self.proj(x).chunk(3)
        return self.finish(hide(q @ k.mT / math.sqrt(self.hidden_dim), attention_mask).softmax(-1), v)


@wrong(EXERCISE, "split-by-count")
class SplitByThree(_Contract):
    """split(3) means parts of size 3."""

    def forward(self, x, attention_mask=None):
        q, k, v = self.proj(x).split(3, dim=-1)
        return self.finish(hide(q @ k.mT / math.sqrt(self.hidden_dim), attention_mask).softmax(-1), v)


@wrong(EXERCISE, "inplace-on-chunk")
class QueriesScaledInPlace(_Contract):
    """q /= ... on a chunk."""

    def forward(self, x, attention_mask=None):
        q, k, v = self.proj(x).chunk(3, dim=-1)
        q /= math.sqrt(self.hidden_dim)
        return self.finish(hide(q @ k.mT, attention_mask).softmax(-1), v)


# ---------------------------------------------------------------- scores, scale, softmax


@wrong(EXERCISE, "scale-missing")
class NoScale(_Contract):
    """No division."""

    def forward(self, x, attention_mask=None):
        q, k, v = self.qkv(x)
        return self.finish(hide(q @ k.mT, attention_mask).softmax(-1), v)


@wrong(EXERCISE, "scale-missing")
class NoScaleApart(_Apart):
    """The scores are scaled, and the unscaled ones are used."""

    def forward(self, x, attention_mask=None):
        dots = torch.bmm(self.q(x), self.k(x).transpose(1, 2))
        scaled = dots / self.d**0.5  # noqa: F841
        return self.attend(hide(dots, attention_mask), self.v(x))


@wrong(EXERCISE, "scale-inverted")
class MultipliedByRoot(_Contract):
    """Times √d."""

    def forward(self, x, attention_mask=None):
        q, k, v = self.qkv(x)
        return self.finish(hide(q @ k.mT * math.sqrt(self.hidden_dim), attention_mask).softmax(-1), v)


@wrong(EXERCISE, "scale-no-sqrt")
class DividedByWidth(_Contract):
    """Divided by d."""

    def forward(self, x, attention_mask=None):
        q, k, v = self.qkv(x)
        return self.finish(hide(q @ k.mT / self.hidden_dim, attention_mask).softmax(-1), v)


@wrong(EXERCISE, "scale-no-sqrt")
class ScaledAgain(_Apart):
    """Scaled in a helper and once more in forward."""

    def forward(self, x, attention_mask=None):
        return self.attend(hide(self.raw(x) / math.sqrt(self.d), attention_mask), self.v(x))


@wrong(EXERCISE, "scale-after-softmax")
class WeightsDivided(_Contract):
    """The weights are divided."""

    def forward(self, x, attention_mask=None):
        q, k, v = self.qkv(x)
        weights = hide(q @ k.mT, attention_mask).softmax(-1)
        return self.finish(weights / math.sqrt(self.hidden_dim), v)


@wrong(EXERCISE, "sqrt-of-int")
class TorchSqrtOfInt(_Contract):
    """torch.sqrt of an int."""

    def forward(self, x, attention_mask=None):
        q, k, v = self.qkv(x)
        scores = q @ k.mT / torch.sqrt(self.hidden_dim)
        return self.finish(hide(scores, attention_mask).softmax(-1), v)


@wrong(EXERCISE, "k-not-transposed")
class KeysNotTransposed(_Contract):
    """q @ k."""

    def forward(self, x, attention_mask=None):
        q, k, v = self.qkv(x)
        return self.finish(hide(torch.matmul(q, k) / self.hidden_dim**0.5, attention_mask).softmax(-1), v)


@wrong(EXERCISE, "k-wrong-transpose")
class KeysSwapBatch(_Contract):
    """transpose(0, 1)."""

    def forward(self, x, attention_mask=None):
        q, k, v = self.qkv(x)
        scores = torch.matmul(q, k.transpose(0, 1)) / self.hidden_dim**0.5
        return self.finish(hide(scores, attention_mask).softmax(-1), v)


@wrong(EXERCISE, "softmax-over-queries")
class SoftmaxOverQueries(_Contract):
    """dim=1."""

    def forward(self, x, attention_mask=None):
        s, v = self.scores(x)
        if attention_mask is not None:
            s = s.masked_fill(attention_mask == 0, -1e9)
        return self.finish(s.softmax(dim=1), v)


@wrong(EXERCISE, "softmax-over-batch", "softmax-implicit-axis")
class SoftmaxOverBatch(_Contract):
    """dim=0."""

    def forward(self, x, attention_mask=None):
        s, v = self.scores(x)
        if attention_mask is not None:
            s = s.masked_fill(attention_mask == 0, -1e9)
        return self.finish(F.softmax(s, 0), v)


@wrong(EXERCISE, "softmax-implicit-axis", "softmax-over-batch")
class SoftmaxWithoutAxis(_Contract):
    """No axis."""

    def forward(self, x, attention_mask=None):
        s, v = self.scores(x)
        if attention_mask is not None:
            s = s.masked_fill(attention_mask == 0, -1e9)
        return self.finish(F.softmax(s), v)


@wrong(EXERCISE, "softmax-missing")
class NoSoftmax(_Contract):
    """Raw scores; hidden ones set to zero."""

    def forward(self, x, attention_mask=None):
        s, v = self.scores(x)
        if attention_mask is not None:
            s = s.masked_fill(attention_mask == 0, 0.0)
        return self.finish(s, v)


@wrong(EXERCISE, "softmax-twice")
class SoftmaxTwice(_Contract):
    """Twice."""

    def forward(self, x, attention_mask=None):
        s, v = self.scores(x)
        weights = hide(s, attention_mask).softmax(-1)
        return self.finish(F.softmax(weights, dim=-1), v)


@wrong(EXERCISE, "naive-exp")
class NaiveExponentials(_Contract):
    """exp without a maximum."""

    def forward(self, x, attention_mask=None):
        s, v = self.scores(x)
        e = s.exp()
        if attention_mask is not None:
            e = e * (attention_mask != 0)
        return self.finish(e / e.sum(-1, keepdim=True), v)


@wrong(EXERCISE, "softmax-in-half")
class SoftmaxInBfloat16(_Contract):
    """Rounds to bfloat16."""

    def forward(self, x, attention_mask=None):
        s, v = self.scores(x)
        return self.finish(hide(s, attention_mask).softmax(-1, dtype=torch.bfloat16).to(v.dtype), v)


# ---------------------------------------------------------------- what the mask does


@wrong(EXERCISE, *NEAR_ZERO)
class TutorialFill(nn.Module):
    """1e-20, as the tutorial has it."""

    def __init__(self, hidden_dim, dropout_rate=0.1):
        super().__init__()
        self.hidden_dim = hidden_dim
        self.proj = nn.Linear(hidden_dim, hidden_dim * 3)
        self.attention_dropout = nn.Dropout(dropout_rate)
        self.output_proj = nn.Linear(hidden_dim, hidden_dim)

    def forward(self, X: Tensor, attention_mask: Tensor | None = None) -> Tensor:
        Q, K, V = torch.split(self.proj(X), self.hidden_dim, dim=-1)
        attention_weight = Q @ K.transpose(-1, -2) / math.sqrt(self.hidden_dim)
        if attention_mask is not None:
            attention_weight = attention_weight.masked_fill(attention_mask == 0, float("1e-20"))
        attention_weight = torch.softmax(attention_weight, dim=-1)
        attention_weight = self.attention_dropout(attention_weight)
        return self.output_proj(attention_weight @ V)


@wrong(EXERCISE, *NEAR_ZERO)
class FillTinyNegative(_Apart):
    """-1e-9."""

    def forward(self, x, mask=None):
        s = self.raw(x)
        if mask is not None:
            s = torch.where(mask != 0, s, -1e-9)
        return self.attend(s, self.v(x))


@wrong(EXERCISE, *NEAR_ZERO)
class FillZero(_Contract):
    """0."""

    def forward(self, x, attention_mask=None):
        s, v = self.scores(x)
        if attention_mask is not None:
            s = s.masked_fill(attention_mask == 0, 0)
        return self.finish(s.softmax(-1), v)


@wrong(EXERCISE, *NEAR_ZERO)
class ScoresTimesMask(_Apart):
    """Scores times mask."""

    def forward(self, x, mask=None):
        s = self.raw(x)
        if mask is not None:
            s = s * mask
        return self.attend(s, self.v(x))


@wrong(EXERCISE, "fill-not-low-enough")
class FillMinusOne(_Contract):
    """-1."""

    def forward(self, x, attention_mask=None):
        s, v = self.scores(x)
        if attention_mask is not None:
            s = s.masked_fill(attention_mask == 0, -1.0)
        return self.finish(s.softmax(-1), v)


@wrong(EXERCISE, "fill-not-low-enough")
class FillMinusTen(_Apart):
    """-10."""

    def forward(self, x, mask=None):
        s = self.raw(x)
        if mask is not None:
            s = s.masked_fill(~mask.bool(), -10)
        return self.attend(s, self.v(x))


@wrong(EXERCISE, "fill-not-low-enough")
class PenaltyOfFive(_Contract):
    """5 is taken away from hidden scores."""

    def forward(self, x, attention_mask=None):
        s, v = self.scores(x)
        if attention_mask is not None:
            s = s - 5.0 * (attention_mask == 0)
        return self.finish(s.softmax(-1), v)


@wrong(EXERCISE, "mask-after-softmax")
class MaskAfterSoftmax(_Contract):
    """Zeros after the softmax."""

    def forward(self, x, attention_mask=None):
        s, v = self.scores(x)
        weights = s.softmax(-1)
        if attention_mask is not None:
            weights = weights.masked_fill(attention_mask == 0, 0)
        return self.finish(weights, v)


@wrong(EXERCISE, "mask-after-softmax")
class MaskAfterDropout(_Apart):
    """Zeros after the dropout, just before the values."""

    def forward(self, x, mask=None):
        w = F.dropout(self.raw(x).softmax(-1), self.p, self.training)
        if mask is not None:
            w = w * mask.to(w.dtype)
        return self.out(w @ self.v(x))


@wrong(EXERCISE, "minus-inf-after-softmax")
class InfinityAfterSoftmax(_Contract):
    """-inf in the weights."""

    def forward(self, x, attention_mask=None):
        s, v = self.scores(x)
        return self.finish(hide(s.softmax(-1), attention_mask), v)


@wrong(EXERCISE, "minus-inf-after-softmax")
class LargeNegativeAfterSoftmax(_Apart):
    """-1e9 in the weights."""

    def forward(self, x, mask=None):
        w = self.raw(x).softmax(-1)
        if mask is not None:
            w = w.masked_fill(mask == 0, -1e9)
        return self.out(F.dropout(w, self.p, self.training) @ self.v(x))


@wrong(EXERCISE, "masked-fill-discarded")
class MaskedFillDiscarded(_Contract):
    """No assignment."""

    def forward(self, x, attention_mask=None):
        s, v = self.scores(x)
        if attention_mask is not None:
            s.masked_fill(attention_mask == 0, float("-inf"))
        return self.finish(s.softmax(-1), v)


@wrong(EXERCISE, "masked-fill-discarded")
class MaskedCopyForgotten(_Apart):
    """The masked scores get a name that nobody reads."""

    def forward(self, x, mask=None):
        s = self.raw(x)
        if mask is not None:
            masked = s.masked_fill(mask == 0, -1e9)  # noqa: F841
        return self.attend(s, self.v(x))


@wrong(EXERCISE, "mask-inverted")
class MaskInverted(_Contract):
    """masked_fill(mask, ...): True hides."""

    def forward(self, x, attention_mask=None):
        s, v = self.scores(x)
        if attention_mask is not None:
            s = s.masked_fill(attention_mask.bool(), float("-inf"))
        return self.finish(s.softmax(-1), v)


@wrong(EXERCISE, "mask-inverted")
class MaskInvertedWhere(_Apart):
    """where the wrong way round."""

    def forward(self, x, mask=None):
        s = self.raw(x)
        if mask is not None:
            s = torch.where(mask == 0, s, -1e9)
        return self.attend(s, self.v(x))


@wrong(EXERCISE, "additive-read-as-binary")
class MaskAdded(_Contract):
    """scores + mask."""

    def forward(self, x, attention_mask=None):
        s, v = self.scores(x)
        if attention_mask is not None:
            s = s + attention_mask
        return self.finish(s.softmax(-1), v)


@wrong(EXERCISE, "zero-times-inf")
class ZeroTimesInfinity(_Contract):
    """(mask == 0) * -inf."""

    def forward(self, x, attention_mask=None):
        s, v = self.scores(x)
        if attention_mask is not None:
            s = s + (attention_mask == 0) * float("-inf")
        return self.finish(s.softmax(-1), v)


@wrong(EXERCISE, "zero-times-inf")
class OneMinusTimesInfinity(_Apart):
    """(1 - mask) * -inf."""

    def forward(self, x, mask=None):
        s = self.raw(x)
        if mask is not None:
            s = s + (1.0 - mask.to(s.dtype)) * -torch.inf
        return self.attend(s, self.v(x))


@wrong(EXERCISE, "tilde-on-int")
class TildeOnInt(_Contract):
    """~mask to bool."""

    def forward(self, x, attention_mask=None):
        s, v = self.scores(x)
        if attention_mask is not None:
            s = s.masked_fill((~attention_mask).bool(), float("-inf"))
        return self.finish(s.softmax(-1), v)


@wrong(EXERCISE, "tilde-on-int")
class TildeWithoutBool(_Apart):
    """masked_fill(~mask)."""

    def forward(self, x, mask=None):
        s = self.raw(x)
        if mask is not None:
            s = s.masked_fill(~mask, -1e9)
        return self.attend(s, self.v(x))


@wrong(EXERCISE, "one-minus-bool")
class OneMinusBool(_Contract):
    """1 - mask."""

    def forward(self, x, attention_mask=None):
        s, v = self.scores(x)
        if attention_mask is not None:
            s = s + (1 - attention_mask) * -1e9
        return self.finish(s.softmax(-1), v)


@wrong(EXERCISE, "if-mask")
class IfMask(_Contract):
    """if attention_mask:"""

    def forward(self, x, attention_mask=None):
        s, v = self.scores(x)
        if attention_mask:
            s = s.masked_fill(attention_mask == 0, float("-inf"))
        return self.finish(s.softmax(-1), v)


@wrong(EXERCISE, "if-mask")
class MaskNotEqualNone(_Apart):
    """if mask == True:"""

    def forward(self, x, mask=None):
        s = self.raw(x)
        if mask == True:  # noqa: E712
            s = s.masked_fill(mask == 0, -1e9)
        return self.attend(s, self.v(x))


# ---------------------------------------------------------------- mask shapes, causality, lengths


@wrong(EXERCISE, "mask-on-query-axis", "causal-transposed")
class MaskTransposed(_Contract):
    """The mask is transposed."""

    def forward(self, x, attention_mask=None):
        s, v = self.scores(x)
        if attention_mask is not None:
            s = s.masked_fill(attention_mask.mT == 0, -1e9)
        return self.finish(s.softmax(-1), v)


@wrong(EXERCISE, "mask-on-query-axis", "causal-transposed")
class MaskOnQueriesWithInfinity(_Apart):
    """Transposed with transpose(-1, -2), and -inf."""

    def forward(self, x, mask=None):
        if mask is not None:
            mask = mask.transpose(-1, -2)
        return self.attend(hide(self.raw(x), mask), self.v(x))


@wrong(EXERCISE, "mask-on-both-axes")
class MaskOnBothAxes(_Contract):
    """Rows and columns are blocked."""

    def forward(self, x, attention_mask=None):
        s, v = self.scores(x)
        if attention_mask is not None:
            keep = (attention_mask != 0) & (attention_mask != 0).transpose(-2, -1)
            s = s.masked_fill(~keep, float("-inf"))
        return self.finish(s.softmax(-1), v)


@wrong(EXERCISE, "mask-not-unsqueezed")
class MaskSqueezed(_Contract):
    """squeeze turns (B, 1, L) into (B, L), which then lies along the wrong axis."""

    def forward(self, x, attention_mask=None):
        s, v = self.scores(x)
        if attention_mask is not None:
            s = s.masked_fill(attention_mask.squeeze() == 0, -1e9)
        return self.finish(s.softmax(-1), v)


@wrong(EXERCISE)
class MaskUnsqueezedAlways(_Contract):
    """Takes the mask for (B, L) and unsqueezes it."""

    def forward(self, x, attention_mask=None):
        s, v = self.scores(x)
        if attention_mask is not None:
            s = s.masked_fill(attention_mask.unsqueeze(1) == 0, float("-inf"))
        return self.finish(s.softmax(-1), v)


@wrong(EXERCISE)
class MaskViewedAsSquare(_Contract):
    """view(-1, L, L): a (B, 1, L) mask does not fit."""

    def forward(self, x, attention_mask=None):
        s, v = self.scores(x)
        if attention_mask is not None:
            attention_mask = attention_mask.reshape(-1, x.shape[1], x.shape[1])
        return self.finish(hide(s, attention_mask).softmax(-1), v)


@wrong(EXERCISE)
class MaskOfTheFirstSample(_Contract):
    """Everyone gets the first sample's mask."""

    def forward(self, x, attention_mask=None):
        s, v = self.scores(x)
        if attention_mask is not None and attention_mask.dim() == 3:
            attention_mask = attention_mask[:1]
        return self.finish(hide(s, attention_mask).softmax(-1), v)


@wrong(EXERCISE)
class OnlyTheFirstSampleMasked(_Contract):
    """scores[0] alone is masked."""

    def forward(self, x, attention_mask=None):
        s, v = self.scores(x)
        if attention_mask is not None:
            full = attention_mask.expand_as(s)
            s = torch.cat([hide(s[:1], full[:1]), s[1:]])
        return self.finish(s.softmax(-1), v)


@wrong(EXERCISE)
class FirstRowForAll(_Contract):
    """Every query gets the first query's row of the mask."""

    def forward(self, x, attention_mask=None):
        s, v = self.scores(x)
        if attention_mask is not None:
            attention_mask = attention_mask[..., :1, :] if attention_mask.dim() > 1 else attention_mask
        return self.finish(hide(s, attention_mask).softmax(-1), v)


@wrong(EXERCISE)
class CausalAlways(_Contract):
    """A causal mask when none is given."""

    def forward(self, x, attention_mask=None):
        s, v = self.scores(x)
        if attention_mask is None:
            attention_mask = torch.ones(x.shape[1], x.shape[1], device=x.device).tril()
        return self.finish(hide(s, attention_mask).softmax(-1), v)


@wrong(EXERCISE)
class CausalOnTop(_Apart):
    """A causal mask on top of the given one."""

    def forward(self, x, mask=None):
        s = hide(self.raw(x), mask)
        future = torch.ones(s.shape[-2:], dtype=torch.bool, device=s.device).triu(1)
        return self.attend(s.masked_fill(future, -1e9), self.v(x))


@wrong(EXERCISE, "fixed-length-mask")
class StoredMask(_Contract):
    """A stored mask of length 16, never cut."""

    def __init__(self, hidden_dim, dropout_rate=0.1):
        super().__init__(hidden_dim, dropout_rate)
        self.register_buffer("default_mask", torch.ones(16, 16), persistent=False)

    def forward(self, x, attention_mask=None):
        s, v = self.scores(x)
        mask = self.default_mask if attention_mask is None else attention_mask
        return self.finish(s.masked_fill(mask == 0, float("-inf")).softmax(-1), v)


@wrong(EXERCISE, "fixed-length-mask")
class MaskOfTheFirstLength(_Contract):
    """The default mask is built once, for the first length."""

    default_mask = None

    def forward(self, x, attention_mask=None):
        s, v = self.scores(x)
        if self.default_mask is None:
            self.default_mask = torch.ones(x.shape[1], x.shape[1])
        mask = self.default_mask if attention_mask is None else attention_mask
        return self.finish(hide(s, mask).softmax(-1), v)


@wrong(EXERCISE, "masks-combined-wrongly", "diagonal-always-visible")
class MaskOrDiagonal(_Contract):
    """mask | eye: every token may look at itself, whatever the mask says."""

    def forward(self, x, attention_mask=None):
        s, v = self.scores(x)
        if attention_mask is not None:
            attention_mask = (attention_mask != 0) | torch.eye(x.shape[1], dtype=torch.bool)
        return self.finish(hide(s, attention_mask).softmax(-1), v)


@wrong(EXERCISE)
class MaskIgnoredWhenInteger(_Contract):
    """Only bool masks count."""

    def forward(self, x, attention_mask=None):
        s, v = self.scores(x)
        if attention_mask is not None and attention_mask.dtype is torch.bool:
            s = s.masked_fill(~attention_mask, float("-inf"))
        return self.finish(s.softmax(-1), v)


@wrong(EXERCISE)
class FloatMaskAdded(_Contract):
    """0/1 floats are added."""

    def forward(self, x, attention_mask=None):
        s, v = self.scores(x)
        if attention_mask is not None:
            if attention_mask.is_floating_point():
                s = s + attention_mask
            else:
                s = s.masked_fill(attention_mask == 0, float("-inf"))
        return self.finish(s.softmax(-1), v)


@wrong(EXERCISE)
class MaskIgnoredWhenTwoDimensional(_Contract):
    """Only 3-D masks count."""

    def forward(self, x, attention_mask=None):
        s, v = self.scores(x)
        if attention_mask is not None and attention_mask.ndim == 3:
            s = hide(s, attention_mask)
        return self.finish(s.softmax(-1), v)


@wrong(EXERCISE)
class MaskEqualsMinusOne(_Contract):
    """Hides where the mask is below zero: never."""

    def forward(self, x, attention_mask=None):
        s, v = self.scores(x)
        if attention_mask is not None:
            s = s.masked_fill(attention_mask < 0, float("-inf"))
        return self.finish(s.softmax(-1), v)


@wrong(EXERCISE)
class MaskAfterOutput(_Contract):
    """The outputs of hidden tokens are zeroed; the keys are not hidden."""

    def forward(self, x, attention_mask=None):
        s, v = self.scores(x)
        out = self.finish(s.softmax(-1), v)
        if attention_mask is not None:
            seen = (attention_mask != 0).expand_as(s).any(dim=-2)
            out = out * seen[..., None]
        return out


@wrong(EXERCISE)
class MaskOnValues(_Contract):
    """Hidden tokens get zero values, and keep their share of the weights."""

    def forward(self, x, attention_mask=None):
        s, v = self.scores(x)
        if attention_mask is not None:
            seen = (attention_mask != 0).expand_as(s).any(dim=-2)
            v = v * seen[..., None]
        return self.finish(s.softmax(-1), v)


@wrong(EXERCISE)
class EmptyRowRaises(_Contract):
    """Raises for an empty row."""

    def forward(self, x, attention_mask=None):
        s, v = self.scores(x)
        weights = hide(s, attention_mask).softmax(-1)
        if weights.isnan().any():
            raise ValueError("NaN in the attention weights")
        return self.finish(weights, v)


@wrong(EXERCISE)
class MaskArgumentMissing(_Contract):
    """forward(x) alone."""

    def forward(self, x):
        s, v = self.scores(x)
        return self.finish(s.softmax(-1), v)


@wrong(EXERCISE)
class MaskArgumentRequired(_Contract):
    """attention_mask has no default."""

    def forward(self, x, attention_mask):
        s, v = self.scores(x)
        return self.finish(s.masked_fill(attention_mask == 0, float("-inf")).softmax(-1), v)


@wrong(EXERCISE)
class EditsTheMask(_Contract):
    """Inverts the caller's mask in place."""

    def forward(self, x, attention_mask=None):
        s, v = self.scores(x)
        if attention_mask is not None:
            attention_mask.logical_not_()
            s = s.masked_fill(attention_mask.bool(), float("-inf"))
        return self.finish(s.softmax(-1), v)


@wrong(EXERCISE, "seq-first-confusion")
class SequenceFirst(_Contract):
    """Attention over the batch."""

    def forward(self, x, attention_mask=None):
        s, v = self.scores(x.transpose(0, 1))
        if attention_mask is not None and attention_mask.shape[-1] == s.shape[-1]:
            s = s.masked_fill(attention_mask == 0, float("-inf"))
        return self.finish(s.softmax(-1), v).transpose(0, 1)


# ---------------------------------------------------------------- output projection


@wrong(EXERCISE, "no-out-proj", "out-proj-unused")
class NoOutputLayer(nn.Module):
    """There is no output layer."""

    def __init__(self, hidden_dim, dropout_rate=0.1):
        super().__init__()
        self.proj = nn.Linear(hidden_dim, 3 * hidden_dim)
        self.attention_dropout = nn.Dropout(dropout_rate)

    def forward(self, x, attention_mask=None):
        q, k, v = self.proj(x).chunk(3, dim=-1)
        scores = q @ k.mT / math.sqrt(x.shape[-1])
        if attention_mask is not None:
            scores = scores.masked_fill(attention_mask == 0, float("-inf"))
        return self.attention_dropout(scores.softmax(-1)) @ v


@wrong(EXERCISE, "out-proj-unused", "no-out-proj")
class OutputLayerUnused(_Contract):
    """The output layer is never called."""

    def forward(self, x, attention_mask=None):
        s, v = self.scores(x)
        return self.attention_dropout(hide(s, attention_mask).softmax(-1)) @ v


@wrong(EXERCISE, "out-proj-unused", "no-out-proj")
class OutputLayerResultLost(_Apart):
    """The output layer's result is lost."""

    def forward(self, x, mask=None):
        w = F.dropout(hide(self.raw(x), mask).softmax(-1), self.p, self.training)
        out = w @ self.v(x)
        self.out(out)
        return out


@wrong(EXERCISE)
class OutputLayerOnTheInput(_Contract):
    """The output layer reads x instead of what was gathered, and the two are added."""

    def forward(self, x, attention_mask=None):
        s, v = self.scores(x)
        return self.attention_dropout(hide(s, attention_mask).softmax(-1)) @ v + self.output_proj(x)


# ---------------------------------------------------------------- dropout


@wrong(EXERCISE, "dropout-always-on")
class DropoutAlwaysOn(_Apart):
    """F.dropout without the flag."""

    def forward(self, x, mask=None):
        w = F.dropout(hide(self.raw(x), mask).softmax(-1), self.p)
        return self.out(w @ self.v(x))


@wrong(EXERCISE, "dropout-always-on")
class DropoutByHandAlwaysOn(_Contract):
    """By hand, in every mode."""

    def forward(self, x, attention_mask=None):
        s, v = self.scores(x)
        w = hide(s, attention_mask).softmax(-1)
        p = self.attention_dropout.p
        w = w * (torch.rand_like(w) >= p) / (1 - p)
        return self.output_proj(w @ v)


@wrong(EXERCISE, "dropout-always-on")
class TrainingTrue(_Apart):
    """training=True, written out."""

    def forward(self, x, mask=None):
        w = F.dropout(hide(self.raw(x), mask).softmax(-1), p=self.p, training=True)
        return self.out(w @ self.v(x))


@wrong(EXERCISE, "dropout-built-in-forward", "dropout-always-on")
class DropoutBuiltInForward(_Apart):
    """nn.Dropout made in every call."""

    def forward(self, x, mask=None):
        dropout = nn.Dropout(self.p)
        return self.out(dropout(hide(self.raw(x), mask).softmax(-1)) @ self.v(x))


@wrong(EXERCISE, "dropout-on-context")
class DropoutOnContext(_Contract):
    """On the weighted sum."""

    def forward(self, x, attention_mask=None):
        s, v = self.scores(x)
        context = hide(s, attention_mask).softmax(-1) @ v
        return self.output_proj(self.attention_dropout(context))


@wrong(EXERCISE, "dropout-on-context")
class DropoutOnOutput(_Apart):
    """After the output layer."""

    def forward(self, x, mask=None):
        out = self.out(hide(self.raw(x), mask).softmax(-1) @ self.v(x))
        return F.dropout(out, self.p, self.training)


@wrong(EXERCISE)
class DropoutOnValues(_Contract):
    """On the values."""

    def forward(self, x, attention_mask=None):
        s, v = self.scores(x)
        return self.output_proj(hide(s, attention_mask).softmax(-1) @ self.attention_dropout(v))


@wrong(EXERCISE)
class DropoutOnInput(_Contract):
    """On x."""

    def forward(self, x, attention_mask=None):
        s, v = self.scores(self.attention_dropout(x))
        return self.output_proj(hide(s, attention_mask).softmax(-1) @ v)


@wrong(EXERCISE, "dropout-before-softmax")
class DropoutOnScores(_Contract):
    """On the scores."""

    def forward(self, x, attention_mask=None):
        s, v = self.scores(x)
        weights = hide(self.attention_dropout(s), attention_mask).softmax(-1)
        return self.output_proj(weights @ v)


@wrong(EXERCISE, "dropout-before-softmax")
class DropoutOnQueries(_Apart):
    """On the queries."""

    def forward(self, x, mask=None):
        q = F.dropout(self.q(x), self.p, self.training)
        s = hide(q @ self.k(x).mT / math.sqrt(self.d), mask)
        return self.out(s.softmax(-1) @ self.v(x))


@wrong(EXERCISE, "dropout-renormalised")
class DropoutRenormalised(_Contract):
    """Rows rescaled to 1."""

    def forward(self, x, attention_mask=None):
        s, v = self.scores(x)
        w = self.attention_dropout(hide(s, attention_mask).softmax(-1))
        w = w / w.sum(dim=-1, keepdim=True).clamp(min=1e-9)
        return self.output_proj(w @ v)


@wrong(EXERCISE, "dropout-no-rescale")
class DropoutNoRescale(_Contract):
    """By hand, without 1 / (1 - p)."""

    def forward(self, x, attention_mask=None):
        s, v = self.scores(x)
        w = hide(s, attention_mask).softmax(-1)
        if self.training:
            w = w * (torch.rand_like(w) >= self.attention_dropout.p)
        return self.output_proj(w @ v)


@wrong(EXERCISE, "dropout-no-rescale")
class DropoutMaskedFill(_Apart):
    """masked_fill, without the rescaling."""

    def forward(self, x, mask=None):
        w = hide(self.raw(x), mask).softmax(-1)
        if self.training:
            w = w.masked_fill(torch.rand(w.shape) < self.p, 0.0)
        return self.out(w @ self.v(x))


@wrong(EXERCISE, "dropout-unused")
class DropoutUnused(_Contract):
    """Made and not used."""

    def forward(self, x, attention_mask=None):
        s, v = self.scores(x)
        return self.output_proj(hide(s, attention_mask).softmax(-1) @ v)


@wrong(EXERCISE, "dropout-unused")
class DropoutResultLost(_Apart):
    """Called without keeping the result."""

    def forward(self, x, mask=None):
        w = hide(self.raw(x), mask).softmax(-1)
        F.dropout(w, self.p, self.training)
        return self.out(w @ self.v(x))


@wrong(EXERCISE, "dropout-lost-after-eval")
class DropoutLostAfterEval(_Contract):
    """eval sets the rate to 0 for ever."""

    def forward(self, x, attention_mask=None):
        if not self.training:
            self.attention_dropout.p = 0.0
        s, v = self.scores(x)
        return self.finish(hide(s, attention_mask).softmax(-1), v)


@wrong(EXERCISE)
class RateHardCoded(nn.Module):
    """nn.Dropout(0.1), whatever is asked."""

    def __init__(self, hidden_dim, dropout_rate=0.1):
        super().__init__()
        self.proj = nn.Linear(hidden_dim, 3 * hidden_dim)
        self.attention_dropout = nn.Dropout(0.1)
        self.output_proj = nn.Linear(hidden_dim, hidden_dim)

    def forward(self, x, attention_mask=None):
        q, k, v = self.proj(x).chunk(3, dim=-1)
        w = hide(q @ k.mT / math.sqrt(x.shape[-1]), attention_mask).softmax(-1)
        return self.output_proj(self.attention_dropout(w) @ v)


@wrong(EXERCISE)
class KeepProbability(nn.Module):
    """nn.Dropout(1 - dropout_rate)."""

    def __init__(self, hidden_dim, dropout_rate=0.1):
        super().__init__()
        self.proj = nn.Linear(hidden_dim, 3 * hidden_dim)
        self.attention_dropout = nn.Dropout(1 - dropout_rate)
        self.output_proj = nn.Linear(hidden_dim, hidden_dim)

    def forward(self, x, attention_mask=None):
        q, k, v = self.proj(x).chunk(3, dim=-1)
        w = hide(q @ k.mT / math.sqrt(x.shape[-1]), attention_mask).softmax(-1)
        return self.output_proj(self.attention_dropout(w) @ v)


@wrong(EXERCISE)
class DropoutTwiceOnWeights(_Contract):
    """The weights are dropped twice."""

    def forward(self, x, attention_mask=None):
        s, v = self.scores(x)
        w = self.attention_dropout(hide(s, attention_mask).softmax(-1))
        return self.finish(w, v)


@wrong(EXERCISE)
class ModesSwapped(_Apart):
    """Dropout in eval, none in train."""

    def forward(self, x, mask=None):
        w = F.dropout(hide(self.raw(x), mask).softmax(-1), self.p, not self.training)
        return self.out(w @ self.v(x))


@wrong(EXERCISE)
class DropoutSeeded(_Apart):
    """The same draw in every call."""

    def forward(self, x, mask=None):
        w = hide(self.raw(x), mask).softmax(-1)
        if self.training:
            generator = torch.Generator().manual_seed(0)
            w = w * (torch.rand(w.shape, generator=generator) >= self.p) / (1 - self.p)
        return self.out(w @ self.v(x))


@wrong(EXERCISE)
class DropoutWholeKeys(_Apart):
    """Drops a key for all queries at once."""

    def forward(self, x, mask=None):
        w = hide(self.raw(x), mask).softmax(-1)
        if self.training:
            w = w * (torch.rand(1, 1, w.shape[-1]) >= self.p) / (1 - self.p)
        return self.out(w @ self.v(x))


# ---------------------------------------------------------------- gradients, hygiene, state


@wrong(EXERCISE, "graph-cut")
class WeightsDetached(_Contract):
    """detach."""

    def forward(self, x, attention_mask=None):
        s, v = self.scores(x)
        return self.finish(hide(s, attention_mask).softmax(-1).detach(), v)


@wrong(EXERCISE, "graph-cut")
class KeysDetached(_Apart):
    """k.detach()."""

    def forward(self, x, mask=None):
        s = self.q(x) @ self.k(x).detach().mT / math.sqrt(self.d)
        return self.attend(hide(s, mask), self.v(x))


@wrong(EXERCISE, "inplace-after-softmax")
class WeightsZeroedInPlace(_Contract):
    """weights.masked_fill_ after the softmax: backward fails."""

    def forward(self, x, attention_mask=None):
        s, v = self.scores(x)
        weights = hide(s, attention_mask).softmax(-1)
        keep = torch.ones_like(weights) if attention_mask is None else attention_mask
        weights.masked_fill_(keep == 0, 0.0)
        return self.finish(weights, v)


@wrong(EXERCISE, "notebook-global")
class ReadsTheNotebooksMask(_Contract):
    """mask is the notebook's variable."""

    def forward(self, x, attention_mask=None):
        s, v = self.scores(x)
        if attention_mask is not None:
            s = s.masked_fill(mask == 0, float("-inf"))  # noqa: F821
        return self.finish(s.softmax(-1), v)


@wrong(EXERCISE, "batch-hard-coded")
class BatchOfTwo(_Contract):
    """view(2, L, 3, d)."""

    def forward(self, x, attention_mask=None):
        q, k, v = self.proj(x).view(2, -1, 3, self.hidden_dim).unbind(2)
        return self.finish(hide(q @ k.mT / math.sqrt(self.hidden_dim), attention_mask).softmax(-1), v)


@wrong(EXERCISE)
class ResidualAdded(_Contract):
    """x + attention."""

    def forward(self, x, attention_mask=None):
        s, v = self.scores(x)
        return x + self.finish(hide(s, attention_mask).softmax(-1), v)


@wrong(EXERCISE)
class LayerNormInside(_Contract):
    """x is normalised first."""

    def forward(self, x, attention_mask=None):
        s, v = self.scores(F.layer_norm(x, (self.hidden_dim,)))
        return self.finish(hide(s, attention_mask).softmax(-1), v)


@wrong(EXERCISE)
class OutputTanh(_Contract):
    """tanh on the output."""

    def forward(self, x, attention_mask=None):
        s, v = self.scores(x)
        return torch.tanh(self.finish(hide(s, attention_mask).softmax(-1), v))


@wrong(EXERCISE)
class ScaleByLength(_Contract):
    """√L."""

    def forward(self, x, attention_mask=None):
        q, k, v = self.qkv(x)
        return self.finish(hide(q @ k.mT / math.sqrt(x.size(1)), attention_mask).softmax(-1), v)


@wrong(EXERCISE)
class ScaleOfTheFusedWidth(_Contract):
    """√(3d): the width before the split."""

    def forward(self, x, attention_mask=None):
        qkv = self.proj(x)
        q, k, v = qkv.chunk(3, -1)
        return self.finish(hide(q @ k.mT / math.sqrt(qkv.shape[-1]), attention_mask).softmax(-1), v)


@wrong(EXERCISE)
class SelfExcluded(_Contract):
    """A token may not look at itself."""

    def forward(self, x, attention_mask=None):
        s, v = self.scores(x)
        s = hide(s, attention_mask)
        if x.shape[1] > 1:
            s = s.masked_fill(torch.eye(x.shape[1], dtype=torch.bool), -1e9)
        return self.finish(s.softmax(-1), v)


@wrong(EXERCISE)
class BatchMeanSubtracted(_Contract):
    """The scores lose their mean over the batch."""

    def forward(self, x, attention_mask=None):
        s, v = self.scores(x)
        s = s - s.mean(dim=0, keepdim=True)
        return self.finish(hide(s, attention_mask).softmax(-1), v)


@wrong(EXERCISE)
class RunningAverage(_Contract):
    """The output is averaged with that of the call before."""

    last = None

    def forward(self, x, attention_mask=None):
        s, v = self.scores(x)
        out = self.finish(hide(s, attention_mask).softmax(-1), v)
        if self.last is not None and self.last.shape == out.shape:
            out = 0.9 * out + 0.1 * self.last
        self.last = out.detach()
        return out


@wrong(EXERCISE)
class MaskRemembered(_Contract):
    """A mask given once is used again when none is given."""

    remembered = None

    def forward(self, x, attention_mask=None):
        if attention_mask is not None:
            self.remembered = attention_mask
        elif self.remembered is not None and self.remembered.shape == (x.shape[1], x.shape[1]):
            attention_mask = self.remembered
        s, v = self.scores(x)
        return self.finish(hide(s, attention_mask).softmax(-1), v)


@wrong(EXERCISE)
class EditsItsInput(_Contract):
    """Zeroes hidden tokens in the caller's x."""

    def forward(self, x, attention_mask=None):
        s, v = self.scores(x)
        out = self.finish(hide(s, attention_mask).softmax(-1), v)
        with torch.no_grad():
            x[:, 0] = 0.0
        return out


@wrong(EXERCISE)
class NewOutputLayerEachCall(_Contract):
    """The output layer is made anew in every call."""

    def forward(self, x, attention_mask=None):
        s, v = self.scores(x)
        self.output_proj = nn.Linear(self.hidden_dim, self.hidden_dim).to(x)
        return self.finish(hide(s, attention_mask).softmax(-1), v)


@wrong(EXERCISE)
class ScoresInHalf(_Contract):
    """The scores pass through float16."""

    def forward(self, x, attention_mask=None):
        s, v = self.scores(x)
        return self.finish(hide(s.half().to(v.dtype), attention_mask).softmax(-1), v)


@wrong(EXERCISE)
class Sparsemaxish(_Contract):
    """Small weights are set to zero and the rest renormalised."""

    def forward(self, x, attention_mask=None):
        s, v = self.scores(x)
        w = hide(s, attention_mask).softmax(-1)
        w = torch.where(w < 0.05, torch.zeros_like(w), w)
        return self.finish(w / w.sum(-1, keepdim=True), v)


@wrong(EXERCISE)
class PlainMeanUnderAMask(_Contract):
    """With a mask: a plain mean over the visible keys."""

    def forward(self, x, attention_mask=None):
        s, v = self.scores(x)
        if attention_mask is not None:
            keep = (attention_mask != 0).expand_as(s).to(v.dtype)
            return self.finish(keep / keep.sum(-1, keepdim=True), v)
        return self.finish(s.softmax(-1), v)


# ---------------------------------------------------------------- two mistakes at once


@wrong(EXERCISE, "scale-missing", *NEAR_ZERO)
class NoScaleAndTinyFill(_Contract):
    """No scale, and 1e-20."""

    def forward(self, x, attention_mask=None):
        q, k, v = self.qkv(x)
        s = q @ k.mT
        if attention_mask is not None:
            s = s.masked_fill(attention_mask == 0, 1e-20)
        return self.finish(s.softmax(-1), v)


@wrong(EXERCISE, "mask-inverted", "dropout-unused")
class InvertedMaskAndNoDropout(_Contract):
    """The mask upside down, and no dropout."""

    def forward(self, x, attention_mask=None):
        s, v = self.scores(x)
        if attention_mask is not None:
            s = s.masked_fill(attention_mask != 0, -1e9)
        return self.output_proj(s.softmax(-1) @ v)


@wrong(EXERCISE, "out-proj-unused", "no-out-proj", "softmax-over-queries")
class NoOutputAndWrongAxis(_Contract):
    """The output layer unused, and softmax over the queries."""

    def forward(self, x, attention_mask=None):
        s, v = self.scores(x)
        if attention_mask is not None:
            s = s.masked_fill(attention_mask == 0, -1e9)
        return self.attention_dropout(s.softmax(-2)) @ v


@wrong(EXERCISE, "mask-after-softmax", "dropout-on-context")
class LateMaskAndLateDropout(_Contract):
    """The mask after the softmax, and dropout on the context."""

    def forward(self, x, attention_mask=None):
        s, v = self.scores(x)
        w = s.softmax(-1)
        if attention_mask is not None:
            w = w * (attention_mask != 0)
        return self.output_proj(self.attention_dropout(w @ v))


@wrong(EXERCISE, "masked-fill-discarded", "dropout-always-on")
class LostMaskAndDropoutAlways(_Apart):
    """The mask is lost, and dropout never rests."""

    def forward(self, x, mask=None):
        s = self.raw(x)
        if mask is not None:
            s.masked_fill(mask == 0, float("-inf"))
        return self.out(F.dropout(s.softmax(-1), self.p) @ self.v(x))


# ---------------------------------------------------------------- structure


@wrong(EXERCISE)
class NotAModule:
    """A plain class."""

    def __init__(self, hidden_dim, dropout_rate=0.1):
        self.proj = nn.Linear(hidden_dim, 3 * hidden_dim)
        self.drop = nn.Dropout(dropout_rate)
        self.out = nn.Linear(hidden_dim, hidden_dim)

    def __call__(self, x, attention_mask=None):
        q, k, v = self.proj(x).chunk(3, -1)
        return self.out(self.drop(hide(q @ k.mT / x.shape[-1] ** 0.5, attention_mask).softmax(-1)) @ v)


@wrong(EXERCISE)
class NoSuperInit(nn.Module):
    """super().__init__() is missing."""

    def __init__(self, hidden_dim, dropout_rate=0.1):
        self.proj = nn.Linear(hidden_dim, 3 * hidden_dim)

    def forward(self, x, attention_mask=None):
        return self.proj(x)


@wrong(EXERCISE)
class NoDropoutArgument(nn.Module):
    """The constructor takes no rate."""

    def __init__(self, hidden_dim):
        super().__init__()
        self.proj = nn.Linear(hidden_dim, 3 * hidden_dim)
        self.out = nn.Linear(hidden_dim, hidden_dim)

    def forward(self, x, attention_mask=None):
        q, k, v = self.proj(x).chunk(3, -1)
        return self.out(hide(q @ k.mT / x.shape[-1] ** 0.5, attention_mask).softmax(-1) @ v)


@wrong(EXERCISE)
class ForgotReturn(_Contract):
    """Returns None."""

    def forward(self, x, attention_mask=None):
        s, v = self.scores(x)
        self.finish(hide(s, attention_mask).softmax(-1), v)


@wrong(EXERCISE)
class ReturnsOnlyWithMask(_Contract):
    """return stands inside the if."""

    def forward(self, x, attention_mask=None):
        s, v = self.scores(x)
        if attention_mask is not None:
            s = s.masked_fill(attention_mask == 0, float("-inf"))
            return self.finish(s.softmax(-1), v)


@wrong(EXERCISE)
class ReturnsOnlyWithoutMask(_Contract):
    """With a mask it falls off the end."""

    def forward(self, x, attention_mask=None):
        s, v = self.scores(x)
        if attention_mask is None:
            return self.finish(s.softmax(-1), v)
        s = s.masked_fill(attention_mask == 0, float("-inf"))


@wrong(EXERCISE)
class ReturnsWeights(_Contract):
    """Returns the weights."""

    def forward(self, x, attention_mask=None):
        s, _ = self.scores(x)
        return self.attention_dropout(hide(s, attention_mask).softmax(-1))


@wrong(EXERCISE)
class ReturnsDict(_Contract):
    """Returns a dict."""

    def forward(self, x, attention_mask=None):
        s, v = self.scores(x)
        w = hide(s, attention_mask).softmax(-1)
        return {"output": self.finish(w, v), "weights": w}


@wrong(EXERCISE)
class WrongWidthOut(nn.Module):
    """The output layer is 3d wide."""

    def __init__(self, hidden_dim, dropout_rate=0.1):
        super().__init__()
        self.proj = nn.Linear(hidden_dim, 3 * hidden_dim)
        self.drop = nn.Dropout(dropout_rate)
        self.out = nn.Linear(hidden_dim, 3 * hidden_dim)

    def forward(self, x, attention_mask=None):
        q, k, v = self.proj(x).chunk(3, -1)
        return self.out(self.drop(hide(q @ k.mT / x.shape[-1] ** 0.5, attention_mask).softmax(-1)) @ v)


@wrong(EXERCISE)
class RaisesOnlyWithMask(_Contract):
    """masked_full does not exist."""

    def forward(self, x, attention_mask=None):
        s, v = self.scores(x)
        if attention_mask is not None:
            s = s.masked_full(attention_mask == 0, float("-inf"))
        return self.finish(s.softmax(-1), v)


@wrong(EXERCISE, "not-by-hand")
class UsesSDPA(_Contract):
    """F.scaled_dot_product_attention, dropout and all."""

    def forward(self, x, attention_mask=None):
        q, k, v = self.qkv(x)
        mask = None if attention_mask is None else attention_mask.bool()
        p = self.attention_dropout.p if self.training else 0.0
        return self.output_proj(F.scaled_dot_product_attention(q, k, v, attn_mask=mask, dropout_p=p))


@wrong(EXERCISE, "not-by-hand")
class UsesTorchMultihead(nn.Module):
    """nn.MultiheadAttention with one head."""

    def __init__(self, hidden_dim, dropout_rate=0.1):
        super().__init__()
        self.inner = nn.MultiheadAttention(hidden_dim, 1, dropout=dropout_rate, batch_first=True)

    def forward(self, x, attention_mask=None):
        blocked = None
        if attention_mask is not None:
            blocked = (attention_mask == 0).expand(x.shape[0], x.shape[1], x.shape[1])
        return self.inner(x, x, x, attn_mask=blocked)[0]


@wrong(EXERCISE, "fused-order")
class Interleaved(nn.Module):
    """view(B, L, d, 3)."""

    def __init__(self, hidden_dim, dropout_rate=0.1):
        super().__init__()
        self.proj = nn.Linear(hidden_dim, 3 * hidden_dim)
        self.attention_dropout = nn.Dropout(dropout_rate)
        self.output_proj = nn.Linear(hidden_dim, hidden_dim)

    def forward(self, x, attention_mask=None):
        q, k, v = self.proj(x).unflatten(-1, (-1, 3)).unbind(-1)
        scores = q @ k.mT / math.sqrt(q.shape[-1])
        if attention_mask is not None:
            scores = scores.masked_fill(attention_mask == 0, float("-inf"))
        return self.output_proj(self.attention_dropout(scores.softmax(-1)) @ v)

"""Wrong answers to the exercises that ask for a function."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import nn

from . import wrong

# ---------------------------------------------------------------- weighted_average


@wrong("weighted_average")
def average_plain(weights, values):
    """The plain mean of the values."""
    return values.mean(dim=0, keepdim=True).expand(weights.shape[0], -1)


@wrong("weighted_average")
def average_not_summed(weights, values):
    """Weighted, but not summed."""
    return weights[..., None] * values


@wrong("weighted_average")
def average_weights_transposed(weights, values):
    """weights.T."""
    return weights.T @ values


@wrong("weighted_average")
def average_divided_by_count(weights, values):
    """Divided by the number of keys once more."""
    return weights @ values / values.shape[0]


@wrong("weighted_average")
def average_softmaxed_again(weights, values):
    """The weights go through softmax, although they sum to 1 already."""
    return torch.softmax(weights, dim=-1) @ values


@wrong("weighted_average")
def average_only_first(weights, values):
    """Only the first row of weights."""
    return (weights[0] @ values).expand(weights.shape[0], -1)


@wrong("weighted_average", "graph-cut")
def average_detached(weights, values):
    """Cuts the graph."""
    return (weights @ values).detach()


# ---------------------------------------------------------------- attention_scores


@wrong("attention_scores", "scale-missing")
def scores_unscaled(q, k):
    """No scale."""
    return q @ k.transpose(-2, -1)


@wrong("attention_scores", "scale-missing")
def scores_scale_lost(q, k):
    """The scale is computed and lost."""
    scores = torch.einsum("...id,...jd->...ij", q, k)
    scores.div(math.sqrt(q.shape[-1]))
    return scores


@wrong("attention_scores", "scale-inverted")
def scores_multiplied(q, k):
    """Multiplied by the root."""
    return torch.matmul(q, k.transpose(-1, -2)) * q.size(-1) ** 0.5


@wrong("attention_scores", "scale-no-sqrt")
def scores_divided_by_d(q, k):
    """Divided by d."""
    return q @ k.mT / q.shape[-1]


@wrong("attention_scores", "scale-no-sqrt")
def scores_scaled_twice(q, k):
    """Scaled before and after."""
    root = math.sqrt(q.shape[-1])
    return (q / root) @ k.mT / root


@wrong("attention_scores", "sqrt-of-int")
def scores_sqrt_of_int(q, k):
    """torch.sqrt of a Python int."""
    return q @ k.mT / torch.sqrt(q.shape[-1])


@wrong("attention_scores", "k-not-transposed")
def scores_not_transposed(q, k):
    """q @ k."""
    return q @ k / math.sqrt(q.shape[-1])


@wrong("attention_scores", "k-wrong-transpose")
def scores_reversed(q, k):
    """All axes of k reversed."""
    return q @ k.permute(*range(k.dim() - 1, -1, -1)) / math.sqrt(q.shape[-1])


@wrong("attention_scores", "k-wrong-transpose")
def scores_viewed(q, k):
    """A reshape in place of a transpose."""
    return q @ k.reshape(*k.shape[:-2], k.shape[-1], k.shape[-2]) / math.sqrt(q.shape[-1])


@wrong("attention_scores", "fixed-head-size")
def scores_eight(q, k):
    """Divided by 8."""
    return q @ k.transpose(-2, -1) / 8.0


@wrong("attention_scores")
def scores_by_length(q, k):
    """√L_k instead of √d."""
    return q @ k.mT / math.sqrt(k.shape[-2])


@wrong("attention_scores")
def scores_swapped(q, k):
    """Keys down, queries across."""
    return k @ q.transpose(-2, -1) / math.sqrt(q.shape[-1])


@wrong("attention_scores")
def scores_softmaxed(q, k):
    """Returns weights, not scores."""
    return (q @ k.mT / math.sqrt(q.shape[-1])).softmax(-1)


@wrong("attention_scores", "graph-cut")
def scores_detached(q, k):
    """The keys are detached."""
    return q @ k.detach().mT / math.sqrt(q.shape[-1])


@wrong("attention_scores")
def scores_three_axes_only(q, k):
    """bmm takes three axes and no others."""
    return torch.bmm(q, k.transpose(1, 2)) / math.sqrt(q.shape[2])


@wrong("attention_scores")
def scores_edit_q(q, k):
    """Scales the caller's q in place."""
    q /= math.sqrt(q.shape[-1])
    return q @ k.mT


# ---------------------------------------------------------------- softmax


@wrong("softmax", "naive-exp")
def softmax_naive(scores):
    """No shift."""
    e = scores.exp()
    return e / e.sum(dim=-1, keepdim=True)


@wrong("softmax", "naive-exp")
def softmax_power(scores):
    """math.e ** scores."""
    return math.e**scores / torch.sum(math.e**scores, dim=-1, keepdim=True)


@wrong("softmax", "softmax-over-queries")
def softmax_columns(scores):
    """Down the columns."""
    e = (scores - scores.amax(-2, keepdim=True)).exp()
    return e / e.sum(-2, keepdim=True)


@wrong("softmax", "softmax-over-batch", "softmax-implicit-axis")
def softmax_axis_zero(scores):
    """Axis 0."""
    e = (scores - scores.max(dim=0, keepdim=True).values).exp()
    return e / e.sum(0, keepdim=True)


@wrong("softmax")
def softmax_sum_of_all(scores):
    """One sum for everything."""
    e = (scores - scores.max(-1, keepdim=True).values).exp()
    return e / e.sum()


@wrong("softmax")
def softmax_global_max(scores):
    """One maximum for everything: rows far below it become 0 / 0."""
    e = (scores - scores.max()).exp()
    return e / e.sum(-1, keepdim=True)


@wrong("softmax")
def softmax_divided_by_max(scores):
    """Divided by the maximum instead of shifted."""
    e = (scores / scores.abs().amax(-1, keepdim=True)).exp()
    return e / e.sum(-1, keepdim=True)


@wrong("softmax")
def softmax_clamped(scores):
    """Clamped to ±80: large scores tie."""
    e = scores.clamp(-80, 80).exp()
    return e / e.sum(-1, keepdim=True)


@wrong("softmax")
def softmax_epsilon(scores):
    """An epsilon of 1e-3 in the denominator."""
    e = (scores - scores.amax(-1, keepdim=True)).exp()
    return e / (e.sum(-1, keepdim=True) + 1e-3)


@wrong("softmax")
def softmax_no_exp(scores):
    """Divided by the sum, without exp."""
    shifted = scores - scores.amin(-1, keepdim=True)
    return shifted / shifted.sum(-1, keepdim=True)


@wrong("softmax", "softmax-missing")
def softmax_nothing(scores):
    """Returns the scores."""
    return scores


@wrong("softmax")
def softmax_log(scores):
    """Forgets the last exp."""
    return scores - torch.logsumexp(scores, dim=-1, keepdim=True)


@wrong("softmax")
def softmax_in_place(scores):
    """Shifts the caller's scores in place."""
    with torch.no_grad():
        scores -= scores.amax(-1, keepdim=True)
    e = scores.exp()
    return e / e.sum(-1, keepdim=True)


@wrong("softmax", "not-by-hand")
def softmax_from_torch(scores):
    """torch.softmax, not by hand."""
    return torch.softmax(scores, dim=-1)


@wrong("softmax", "graph-cut")
def softmax_detached(scores):
    """The denominator carries no gradient."""
    e = (scores - scores.amax(-1, keepdim=True)).exp()
    return e / e.sum(-1, keepdim=True).detach()


# ---------------------------------------------------------------- numbers


@wrong("attention_parameters")
def count_one_layer(hidden_dim, bias=True):
    """One layer only."""
    return hidden_dim * hidden_dim + (hidden_dim if bias else 0)


@wrong("attention_parameters")
def count_four_layers(hidden_dim, bias=True):
    """Four layers, as in multi-head attention."""
    return 4 * (hidden_dim * hidden_dim + (hidden_dim if bias else 0))


@wrong("attention_parameters")
def count_ignores_bias(hidden_dim, bias=True):
    """The biases are forgotten."""
    return 3 * hidden_dim**2


@wrong("attention_parameters")
def count_always_bias(hidden_dim, bias=True):
    """The argument is ignored."""
    return 3 * hidden_dim * (hidden_dim + 1)


@wrong("attention_parameters")
def count_one_bias(hidden_dim, bias=True):
    """One bias for all three layers."""
    return 3 * hidden_dim**2 + int(bias) * hidden_dim


@wrong("attention_parameters")
def count_bias_of_three(hidden_dim, bias=True):
    """One number a bias."""
    return 3 * (hidden_dim**2 + int(bias))


@wrong("attention_parameters")
def count_nothing(hidden_dim, bias=True):
    """Forgot to return."""
    3 * hidden_dim * (hidden_dim + bias)


@wrong("dot_product_std")
def std_is_variance(d):
    """The variance."""
    return float(d)


@wrong("dot_product_std")
def std_inverse(d):
    """1 / √d."""
    return 1 / math.sqrt(d)


@wrong("dot_product_std")
def std_one(d):
    """Stays 1."""
    return 1.0


@wrong("dot_product_std")
def std_two_d(d):
    """√2d: adds up all 2d entries."""
    return math.sqrt(2 * d)


@wrong("dot_product_std")
def std_estimate(d):
    """A guess from ten samples."""
    return (torch.randn(10, d) * torch.randn(10, d)).sum(-1).std().item()


@wrong("dot_product_std")
def std_integer(d):
    """Rounded down."""
    return math.isqrt(d)


@wrong("dot_product_std", "sqrt-of-int")
def std_torch_sqrt(d):
    """torch.sqrt of an int."""
    return torch.sqrt(d)


@wrong("fused_xavier_ratio")
def ratio_variance():
    """The ratio of the variances."""
    return 0.5


@wrong("fused_xavier_ratio")
def ratio_inverted():
    """The other way round."""
    return math.sqrt(2)


@wrong("fused_xavier_ratio")
def ratio_third():
    """√(1/3): only fan_out counted."""
    return math.sqrt(1 / 3)


@wrong("fused_xavier_ratio")
def ratio_one():
    """No difference."""
    return 1.0


@wrong("fused_xavier_ratio")
def ratio_rounded():
    """Rounded to one decimal."""
    return round(math.sqrt(0.5), 1)


@wrong("fused_xavier_ratio")
def ratio_none():
    """Prints and returns nothing."""
    print(math.sqrt(0.5))


# ---------------------------------------------------------------- fuse_projections


def _fused(weight, bias):
    layer = nn.Linear(weight.shape[1], weight.shape[0], bias=bias is not None)
    with torch.no_grad():
        layer.weight.copy_(weight)
        if bias is not None:
            layer.bias.copy_(bias)
    return layer


@wrong("fuse_projections", "fused-order")
def fuse_kqv(query_proj, key_proj, value_proj):
    """Key first."""
    layers = (key_proj, query_proj, value_proj)
    bias = None if query_proj.bias is None else torch.cat([m.bias for m in layers])
    return _fused(torch.cat([m.weight for m in layers]), bias)


@wrong("fuse_projections", "fused-order")
def fuse_strided(query_proj, key_proj, value_proj):
    """Rows interleaved: q0, k0, v0, q1, ..."""
    layers = (query_proj, key_proj, value_proj)
    bias = None if query_proj.bias is None else torch.stack([m.bias for m in layers], 1).flatten()
    return _fused(torch.stack([m.weight for m in layers], dim=1).flatten(0, 1), bias)


@wrong("fuse_projections")
def fuse_bias_forgotten(query_proj, key_proj, value_proj):
    """The biases keep their random start."""
    d = query_proj.in_features
    fused = nn.Linear(d, 3 * d, bias=query_proj.bias is not None)
    fused.weight.data = torch.cat([query_proj.weight.data, key_proj.weight.data, value_proj.weight.data])
    return fused


@wrong("fuse_projections")
def fuse_always_bias(query_proj, key_proj, value_proj):
    """Asks for .bias even where there is none."""
    layers = (query_proj, key_proj, value_proj)
    return _fused(torch.cat([m.weight for m in layers]), torch.cat([m.bias for m in layers]))


@wrong("fuse_projections", "wrong-bias-choice")
def fuse_no_bias(query_proj, key_proj, value_proj):
    """A fused layer without bias."""
    return _fused(torch.cat([query_proj.weight, key_proj.weight, value_proj.weight]), None)


@wrong("fuse_projections", "weight-transposed")
def fuse_transposed(query_proj, key_proj, value_proj):
    """Every block transposed."""
    layers = (query_proj, key_proj, value_proj)
    bias = None if query_proj.bias is None else torch.cat([m.bias for m in layers])
    return _fused(torch.cat([m.weight.T for m in layers]), bias)


@wrong("fuse_projections", "split-wrong-axis")
def fuse_wrong_axis(query_proj, key_proj, value_proj):
    """Concatenated along axis 1."""
    layers = (query_proj, key_proj, value_proj)
    d = query_proj.in_features
    fused = nn.Linear(d, 3 * d, bias=query_proj.bias is not None)
    with torch.no_grad():
        fused.weight.copy_(torch.cat([m.weight for m in layers], dim=1))
    return fused


@wrong("fuse_projections")
def fuse_shared(query_proj, key_proj, value_proj):
    """Writes the copies into the query layer itself."""
    layers = (query_proj, key_proj, value_proj)
    query_proj.weight = nn.Parameter(torch.cat([m.weight for m in layers]).detach())
    if query_proj.bias is not None:
        query_proj.bias = nn.Parameter(torch.cat([m.bias for m in layers]).detach())
    query_proj.out_features *= 3
    return query_proj


@wrong("fuse_projections")
def fuse_random(query_proj, key_proj, value_proj):
    """A new layer of the right size, and no weights copied."""
    d = query_proj.in_features
    return nn.Linear(d, 3 * d, bias=query_proj.bias is not None)


@wrong("fuse_projections")
def fuse_sequential(query_proj, key_proj, value_proj):
    """One after the other."""
    return nn.Sequential(query_proj, key_proj, value_proj)


@wrong("fuse_projections")
def fuse_lambda(query_proj, key_proj, value_proj):
    """A function, not a layer."""
    return lambda x: torch.cat([query_proj(x), key_proj(x), value_proj(x)], dim=-1)


@wrong("fuse_projections", "k-uses-wq", "q-uses-wk")
def fuse_query_twice(query_proj, key_proj, value_proj):
    """q, q, v."""
    layers = (query_proj, query_proj, value_proj)
    bias = None if query_proj.bias is None else torch.cat([m.bias for m in layers])
    return _fused(torch.cat([m.weight for m in layers]), bias)


# ---------------------------------------------------------------- masks


@wrong("causal_mask", "causal-missing")
def causal_all(length):
    """Everyone sees everyone."""
    return torch.ones(length, length, dtype=torch.bool)


@wrong("causal_mask", "causal-transposed")
def causal_upper(length):
    """triu."""
    return torch.triu(torch.ones(length, length, dtype=torch.bool))


@wrong("causal_mask", "causal-transposed")
def causal_upper_compare(length):
    """The comparison the wrong way round."""
    i = torch.arange(length)
    return i[None, :] >= i[:, None]


@wrong("causal_mask", "causal-strict")
def causal_without_diagonal(length):
    """diagonal=-1."""
    return torch.tril(torch.ones(length, length), diagonal=-1).bool()


@wrong("causal_mask", "causal-strict")
def causal_less_than(length):
    """< instead of <=."""
    return torch.arange(length)[None] < torch.arange(length)[:, None]


@wrong("causal_mask", "causal-peeks-one")
def causal_one_ahead(length):
    """diagonal=1."""
    return torch.ones(length, length).tril(1) == 1


@wrong("causal_mask", "mask-inverted")
def causal_blocked(length):
    """True = blocked."""
    return torch.triu(torch.ones(length, length, dtype=torch.bool), diagonal=1)


@wrong("causal_mask")
def causal_floats(length):
    """Right, but not bool."""
    return torch.tril(torch.ones(length, length))


@wrong("causal_mask")
def causal_with_infinities(length):
    """An additive mask of 0 and -inf."""
    return torch.full((length, length), float("-inf")).triu(1)


@wrong("causal_mask")
def causal_extra_axis(length):
    """(1, L, L)."""
    return torch.ones(length, length, dtype=torch.bool).tril().unsqueeze(0)


@wrong("causal_mask")
def causal_diagonal_only(length):
    """Everyone sees only itself."""
    return torch.eye(length, dtype=torch.bool)


@wrong("causal_mask")
def causal_last_two(length):
    """Only the last two tokens."""
    mask = torch.ones(length, length, dtype=torch.bool)
    return mask.tril() & mask.triu(-1)


@wrong("padding_mask", "mask-inverted")
def padding_true_is_padding(lengths, max_length):
    """True = padding."""
    return (torch.arange(max_length)[None, :] >= lengths[:, None]).unsqueeze(1)


@wrong("padding_mask", "mask-not-unsqueezed")
def padding_two_axes(lengths, max_length):
    """(B, L)."""
    return torch.arange(max_length)[None, :] < lengths[:, None]


@wrong("padding_mask", "mask-on-query-axis")
def padding_rows(lengths, max_length):
    """(B, L, 1)."""
    return (torch.arange(max_length)[None, :] < lengths[:, None]).unsqueeze(-1)


@wrong("padding_mask")
def padding_one_too_many(lengths, max_length):
    """<= lets one padding token through."""
    return (torch.arange(max_length) <= lengths[:, None])[:, None]


@wrong("padding_mask")
def padding_one_too_few(lengths, max_length):
    """< lengths - 1."""
    return (torch.arange(max_length) < lengths[:, None] - 1)[:, None]


@wrong("padding_mask")
def padding_from_one(lengths, max_length):
    """Positions counted from 1."""
    return (torch.arange(1, max_length + 1) < lengths[:, None])[:, None]


@wrong("padding_mask")
def padding_on_the_left(lengths, max_length):
    """Padding at the beginning."""
    return (torch.arange(max_length) >= max_length - lengths[:, None])[:, None]


@wrong("padding_mask")
def padding_floats(lengths, max_length):
    """Not bool."""
    return (torch.arange(max_length) < lengths[:, None]).float()[:, None]


@wrong("padding_mask", "mask-on-both-axes")
def padding_square(lengths, max_length):
    """(B, L, L), rows and columns."""
    real = torch.arange(max_length) < lengths[:, None]
    return real[:, :, None] & real[:, None, :]


@wrong("padding_mask")
def padding_longest(lengths, max_length):
    """Ignores max_length."""
    return (torch.arange(int(lengths.max())) < lengths[:, None])[:, None]


@wrong("padding_mask")
def padding_first_for_all(lengths, max_length):
    """The first length for every sample."""
    return (torch.arange(max_length) < lengths[0]).expand(len(lengths), 1, -1)


# ---------------------------------------------------------------- masked_softmax and repaired_weights

NEAR_ZERO = ("fill-tiny-positive", "fill-tiny-negative", "mask-multiplied")


@wrong("masked_softmax", *NEAR_ZERO)
@wrong("repaired_weights", *NEAR_ZERO)
def masked_tiny(scores, mask):
    """1e-20, as the tutorial wrote it."""
    return torch.softmax(scores.masked_fill(mask == 0, 1e-20), dim=-1)


@wrong("masked_softmax", *NEAR_ZERO)
@wrong("repaired_weights", *NEAR_ZERO)
def masked_tiny_negative(scores, mask):
    """-1e-9."""
    return torch.softmax(torch.where(mask != 0, scores, -1e-9), dim=-1)


@wrong("masked_softmax", *NEAR_ZERO)
@wrong("repaired_weights", *NEAR_ZERO)
def masked_times(scores, mask):
    """Scores times mask."""
    return F.softmax(scores * mask, dim=-1)


@wrong("masked_softmax", "fill-not-low-enough")
@wrong("repaired_weights", "fill-not-low-enough")
def masked_minus_ten(scores, mask):
    """-10."""
    return torch.softmax(scores.masked_fill(mask == 0, -10.0), dim=-1)


@wrong("masked_softmax", "mask-after-softmax")
@wrong("repaired_weights", "mask-after-softmax")
def masked_after(scores, mask):
    """Softmax, then zeros."""
    return torch.softmax(scores, dim=-1).masked_fill(mask == 0, 0.0)


@wrong("masked_softmax", "minus-inf-after-softmax")
@wrong("repaired_weights", "minus-inf-after-softmax")
def masked_infinity_after(scores, mask):
    """-inf written into the weights."""
    return torch.softmax(scores, dim=-1).masked_fill(mask == 0, float("-inf"))


@wrong("masked_softmax", "masked-fill-discarded")
@wrong("repaired_weights", "masked-fill-discarded")
def masked_discarded(scores, mask):
    """The result of masked_fill is thrown away."""
    scores.masked_fill(mask == 0, float("-inf"))
    return scores.softmax(dim=-1)


@wrong("masked_softmax", "mask-inverted")
@wrong("repaired_weights", "mask-inverted")
def masked_inverted(scores, mask):
    """Hides what may be seen."""
    return scores.masked_fill(mask != 0, float("-inf")).softmax(dim=-1)


@wrong("masked_softmax", "additive-read-as-binary")
@wrong("repaired_weights", "additive-read-as-binary")
def masked_added(scores, mask):
    """Adds the 0/1 mask to the scores."""
    return (scores + mask).softmax(dim=-1)


@wrong("masked_softmax", "zero-times-inf")
@wrong("repaired_weights", "zero-times-inf")
def masked_zero_times_infinity(scores, mask):
    """(1 - mask) * -inf."""
    return (scores + (1 - mask.float()) * float("-inf")).softmax(dim=-1)


@wrong("masked_softmax", "tilde-on-int")
@wrong("repaired_weights", "tilde-on-int")
def masked_tilde(scores, mask):
    """~ on whatever comes."""
    return scores.masked_fill((~mask).bool(), -1e9).softmax(dim=-1)


@wrong("masked_softmax", "one-minus-bool")
@wrong("repaired_weights", "one-minus-bool")
def masked_one_minus(scores, mask):
    """1 - mask, which bool tensors refuse."""
    return (scores - (1 - mask) * 1e9).softmax(dim=-1)


@wrong("masked_softmax", "if-mask")
@wrong("repaired_weights", "if-mask")
def masked_if(scores, mask):
    """if mask:"""
    if mask:
        scores = scores.masked_fill(mask == 0, float("-inf"))
    return scores.softmax(dim=-1)


@wrong("masked_softmax", "softmax-over-queries")
@wrong("repaired_weights", "softmax-over-queries")
def masked_over_queries(scores, mask):
    """Down the columns."""
    return scores.masked_fill(mask == 0, -1e9).softmax(dim=-2)


@wrong("masked_softmax", "softmax-twice")
def masked_twice(scores, mask):
    """Masked, softmaxed, and softmaxed again."""
    weights = scores.masked_fill(mask == 0, float("-inf")).softmax(dim=-1)
    return weights.softmax(dim=-1)


@wrong("masked_softmax", "naive-exp")
def masked_naive(scores, mask):
    """Exponentials times mask, without a shift: NaN for large scores."""
    e = (scores * 1.0).exp() * (mask != 0)
    return e / e.sum(dim=-1, keepdim=True)


@wrong("masked_softmax", "mask-on-query-axis", "causal-transposed")
@wrong("repaired_weights", "mask-on-query-axis", "causal-transposed")
def masked_transposed(scores, mask):
    """The mask transposed."""
    return scores.masked_fill(mask.transpose(-2, -1) == 0, -1e9).softmax(dim=-1)


@wrong("masked_softmax")
@wrong("repaired_weights")
def masked_in_place(scores, mask):
    """Edits the caller's scores."""
    scores.data.masked_fill_(mask == 0, float("-inf"))
    return scores.softmax(dim=-1)


@wrong("masked_softmax")
@wrong("repaired_weights")
def masked_plus_infinity(scores, mask):
    """+inf."""
    return scores.masked_fill(mask == 0, float("inf")).softmax(dim=-1)


@wrong("masked_softmax")
def masked_byte_mask(scores, mask):
    """masked_fill refuses a uint8 mask."""
    hidden = 1 - mask.to(torch.uint8)
    return scores.masked_fill(hidden, -1e9).softmax(dim=-1)


@wrong("masked_softmax", "mask-after-softmax", "softmax-over-queries")
def masked_two_mistakes(scores, mask):
    """Over the queries, and masked after it."""
    return scores.softmax(dim=-2) * (mask != 0)


# ---------------------------------------------------------------- inverted_dropout


@wrong("inverted_dropout", "dropout-no-rescale")
def dropout_plain(weights, dropout_rate, training=True):
    """No 1 / (1 - p)."""
    if not training:
        return weights
    return weights * (torch.rand_like(weights) >= dropout_rate)


@wrong("inverted_dropout", "dropout-always-on")
def dropout_always(weights, dropout_rate, training=True):
    """Ignores training."""
    keep = torch.rand_like(weights) >= dropout_rate
    return weights * keep / (1 - dropout_rate)


@wrong("inverted_dropout", "dropout-always-on", "not-by-hand")
def dropout_functional_always(weights, dropout_rate, training=True):
    """F.dropout without the flag."""
    return F.dropout(weights, p=dropout_rate)


@wrong("inverted_dropout", "dropout-unused")
def dropout_never(weights, dropout_rate, training=True):
    """The layer is made and not used."""
    nn.Dropout(dropout_rate)
    return weights


@wrong("inverted_dropout", "dropout-renormalised")
def dropout_rows_rescaled(weights, dropout_rate, training=True):
    """Rows rescaled to their old sum."""
    if not training:
        return weights
    kept = weights * (torch.rand_like(weights) >= dropout_rate)
    return kept * weights.sum(-1, keepdim=True) / kept.sum(-1, keepdim=True).clamp(min=1e-9)


@wrong("inverted_dropout")
def dropout_keeps_p(weights, dropout_rate, training=True):
    """Keeps with probability p and divides by 1 - p."""
    if not training:
        return weights
    return weights * (torch.rand_like(weights) < dropout_rate) / (1 - dropout_rate)


@wrong("inverted_dropout")
def dropout_divided_by_p(weights, dropout_rate, training=True):
    """Divides by p."""
    if not training:
        return weights
    keep = torch.rand_like(weights) >= dropout_rate
    return weights * keep / dropout_rate if dropout_rate else weights


@wrong("inverted_dropout")
def dropout_multiplied(weights, dropout_rate, training=True):
    """Multiplies by 1 - p instead of dividing."""
    if not training:
        return weights
    return weights * (torch.rand_like(weights) >= dropout_rate) * (1 - dropout_rate)


@wrong("inverted_dropout")
def dropout_scaled_in_eval(weights, dropout_rate, training=True):
    """The old kind of dropout: scaled in eval mode."""
    if not training:
        return weights * (1 - dropout_rate)
    return weights * (torch.rand_like(weights) >= dropout_rate)


@wrong("inverted_dropout")
def dropout_whole_rows(weights, dropout_rate, training=True):
    """Drops whole rows."""
    if not training:
        return weights
    keep = torch.rand(*weights.shape[:-1], 1) >= dropout_rate
    return weights * keep / (1 - dropout_rate)


@wrong("inverted_dropout")
def dropout_seeded(weights, dropout_rate, training=True):
    """The same draw every time."""
    if not training:
        return weights
    generator = torch.Generator().manual_seed(0)
    keep = torch.rand(weights.shape, generator=generator) >= dropout_rate
    return weights * keep / (1 - dropout_rate)


@wrong("inverted_dropout")
def dropout_normal_draws(weights, dropout_rate, training=True):
    """randn instead of rand."""
    if not training:
        return weights
    return weights * (torch.randn_like(weights) >= dropout_rate) / (1 - dropout_rate)


@wrong("inverted_dropout")
def dropout_in_place(weights, dropout_rate, training=True):
    """Edits the caller's weights."""
    return F.dropout(weights, dropout_rate, training, inplace=True)


@wrong("inverted_dropout")
def dropout_half(weights, dropout_rate, training=True):
    """The rate is hard-coded."""
    return F.dropout(weights, 0.5, training)


@wrong("inverted_dropout")
def dropout_gaussian(weights, dropout_rate, training=True):
    """Gaussian noise with the right mean."""
    if not training:
        return weights
    return weights * (1 + torch.randn_like(weights) * math.sqrt(dropout_rate / (1 - dropout_rate)))


# ---------------------------------------------------------------- heads


@wrong("split_heads", "split-by-view")
def split_view(x, h):
    """view(B, h, L, d_k)."""
    B, L, d = x.shape
    return x.view(B, h, L, d // h)


@wrong("split_heads", "split-by-view")
def split_reshape(x, h):
    """reshape(B, h, -1, d_k)."""
    return x.reshape(x.size(0), h, -1, x.size(2) // h)


@wrong("split_heads", "float-head-dim")
def split_float(x, h):
    """/ instead of //."""
    B, L, d = x.shape
    return x.view(B, L, h, d / h).transpose(1, 2)


@wrong("split_heads")
def split_no_transpose(x, h):
    """(B, L, h, d_k)."""
    return x.unflatten(-1, (h, -1))


@wrong("split_heads")
def split_strided(x, h):
    """Head i takes the features i, i + h, i + 2h, ..."""
    B, L, d = x.shape
    return x.view(B, L, d // h, h).permute(0, 3, 1, 2)


@wrong("split_heads")
def split_size_h(x, h):
    """Heads of size h."""
    return torch.stack(x.split(h, dim=-1), dim=1)


@wrong("split_heads")
def split_length(x, h):
    """Splits the sequence."""
    return torch.stack(x.tensor_split(h, dim=1), dim=1)


@wrong("split_heads")
def split_reversed(x, h):
    """Heads in reverse order."""
    return torch.stack(x.chunk(h, dim=-1)[::-1], dim=1)


@wrong("split_heads")
def split_d_k_before_l(x, h):
    """(B, h, d_k, L)."""
    B, L, d = x.shape
    return x.view(B, L, h, d // h).permute(0, 2, 3, 1)


@wrong("split_heads")
def split_batch_joined(x, h):
    """(B * h, L, d_k)."""
    return torch.cat(x.chunk(h, dim=-1), dim=0)


@wrong("split_heads")
def split_repeated(x, h):
    """Every head gets the first slice."""
    first = x.chunk(h, dim=-1)[0]
    return first.unsqueeze(1).expand(-1, h, -1, -1)


@wrong("split_heads", "batch-hard-coded")
def split_batch_of_two(x, h):
    """view(2, ...)."""
    return x.view(2, -1, h, x.shape[-1] // h).transpose(1, 2)


@wrong("merge_heads", "merge-without-transpose")
def merge_view(x):
    """view without moving the axis."""
    B, h, L, d_k = x.shape
    return x.reshape(B, L, h * d_k)


@wrong("merge_heads", "merge-without-transpose")
def merge_flatten_view(x):
    """contiguous().view(B, L, -1)."""
    return x.contiguous().view(x.size(0), x.size(2), -1)


@wrong("merge_heads", "view-not-contiguous")
def merge_not_contiguous(x):
    """view after transpose."""
    B, h, L, d_k = x.shape
    return x.transpose(1, 2).view(B, L, h * d_k)


@wrong("merge_heads")
def merge_strided(x):
    """Features of the heads interleaved."""
    B, h, L, d_k = x.shape
    return x.permute(0, 2, 3, 1).reshape(B, L, h * d_k)


@wrong("merge_heads")
def merge_reversed(x):
    """Last head first."""
    return torch.cat(x.unbind(1)[::-1], dim=-1)


@wrong("merge_heads")
def merge_mean(x):
    """The mean over the heads."""
    return x.mean(dim=1)


@wrong("merge_heads")
def merge_sum_repeated(x):
    """The heads are summed and repeated."""
    return x.sum(dim=1).repeat(1, 1, x.shape[1])


@wrong("merge_heads")
def merge_along_length(x):
    """Heads one after the other in time."""
    return torch.cat(x.unbind(1), dim=1)


@wrong("merge_heads")
def merge_wrong_transpose(x):
    """transpose(2, 3)."""
    B, h, L, d_k = x.shape
    return x.transpose(2, 3).reshape(B, L, h * d_k)


@wrong("merge_heads")
def merge_length_first(x):
    """(L, B, d_model)."""
    B, h, L, d_k = x.shape
    return x.permute(2, 0, 1, 3).reshape(L, B, h * d_k)


@wrong("merge_heads")
def merge_not_joined(x):
    """Only the transpose."""
    return x.transpose(1, 2)


# ---------------------------------------------------------------- init_attention_weights


@wrong("init_attention_weights")
def init_normal(mha):
    """xavier_normal_."""
    for layer in (mha.wq, mha.wk, mha.wv, mha.wo):
        nn.init.xavier_normal_(layer.weight)
        if layer.bias is not None:
            nn.init.zeros_(layer.bias)


@wrong("init_attention_weights")
def init_kaiming(mha):
    """kaiming_uniform_."""
    for layer in (mha.wq, mha.wk, mha.wv, mha.wo):
        nn.init.kaiming_uniform_(layer.weight)
        if layer.bias is not None:
            nn.init.zeros_(layer.bias)


@wrong("init_attention_weights")
def init_gain(mha):
    """gain=√2."""
    for layer in (mha.wq, mha.wk, mha.wv, mha.wo):
        nn.init.xavier_uniform_(layer.weight, gain=2**0.5)
        if layer.bias is not None:
            nn.init.zeros_(layer.bias)


@wrong("init_attention_weights")
def init_forgets_output(mha):
    """wo is forgotten."""
    for layer in (mha.wq, mha.wk, mha.wv):
        nn.init.xavier_uniform_(layer.weight)
        if layer.bias is not None:
            nn.init.zeros_(layer.bias)


@wrong("init_attention_weights")
def init_forgets_bias(mha):
    """The biases are forgotten."""
    for layer in (mha.wq, mha.wk, mha.wv, mha.wo):
        nn.init.xavier_uniform_(layer.weight)


@wrong("init_attention_weights")
def init_needs_bias(mha):
    """Fails where there is no bias."""
    for layer in (mha.wq, mha.wk, mha.wv, mha.wo):
        nn.init.xavier_uniform_(layer.weight)
        nn.init.zeros_(layer.bias)


@wrong("init_attention_weights")
def init_bias_of_ones(mha):
    """Biases of one."""
    for layer in (mha.wq, mha.wk, mha.wv, mha.wo):
        nn.init.xavier_uniform_(layer.weight)
        if layer.bias is not None:
            nn.init.ones_(layer.bias)


@wrong("init_attention_weights")
def init_all_zero(mha):
    """Zeros everywhere."""
    for parameter in mha.parameters():
        nn.init.zeros_(parameter)


@wrong("init_attention_weights")
def init_same_for_all(mha):
    """One draw for all four."""
    drawn = nn.init.xavier_uniform_(torch.empty_like(mha.wq.weight))
    for layer in (mha.wq, mha.wk, mha.wv, mha.wo):
        layer.weight.data.copy_(drawn)
        if layer.bias is not None:
            nn.init.zeros_(layer.bias)


@wrong("init_attention_weights")
def init_copy(mha):
    """Initialises copies."""
    for layer in (mha.wq, mha.wk, mha.wv, mha.wo):
        nn.init.xavier_uniform_(layer.weight.detach().clone())
        if layer.bias is not None:
            nn.init.zeros_(layer.bias.detach().clone())


@wrong("init_attention_weights", "fused-xavier")
def init_fused(mha):
    """Xavier on the fused (3d, d) matrix, then cut into three: too narrow by √2."""
    d = mha.wq.in_features
    fused = nn.init.xavier_uniform_(torch.empty(3 * d, d))
    with torch.no_grad():
        for layer, block in zip((mha.wq, mha.wk, mha.wv), fused.chunk(3), strict=True):
            layer.weight.copy_(block)
        nn.init.xavier_uniform_(mha.wo.weight)
        for layer in (mha.wq, mha.wk, mha.wv, mha.wo):
            if layer.bias is not None:
                layer.bias.zero_()


# ---------------------------------------------------------------- stack_heads


def _wide(layers, order=lambda parts: torch.cat(parts)):
    bias = None if layers[0].bias is None else order([m.bias for m in layers])
    return _fused(order([m.weight for m in layers]), bias)


@wrong("stack_heads")
def stack_interleaved(heads):
    """Rows of the heads interleaved."""
    return tuple(_wide(group, lambda parts: torch.stack(parts, 1).flatten(0, 1)) for group in zip(*heads, strict=True))


@wrong("stack_heads")
def stack_reversed(heads):
    """The last head first."""
    return tuple(_wide(group[::-1]) for group in zip(*heads, strict=True))


@wrong("stack_heads")
def stack_key_first(heads):
    """Returns (wk, wq, wv)."""
    wq, wk, wv = (_wide(group) for group in zip(*heads, strict=True))
    return wk, wq, wv


@wrong("stack_heads")
def stack_axis_one(heads):
    """Concatenated along axis 1."""
    return tuple(_wide(group, lambda parts: torch.cat(parts, dim=-1)) for group in zip(*heads, strict=True))


@wrong("stack_heads")
def stack_first_head_repeated(heads):
    """The first head h times."""
    return tuple(_wide([layer] * len(heads)) for layer in heads[0])


@wrong("stack_heads")
def stack_mean(heads):
    """The mean of the heads."""
    return tuple(_wide(group, lambda parts: torch.stack(parts).mean(0)) for group in zip(*heads, strict=True))


@wrong("stack_heads", "wrong-bias-choice")
def stack_no_bias(heads):
    """The biases are lost."""
    return tuple(_fused(torch.cat([m.weight for m in group]), None) for group in zip(*heads, strict=True))


@wrong("stack_heads")
def stack_needs_bias(heads):
    """Fails where there is no bias."""
    return tuple(
        _fused(torch.cat([m.weight for m in group]), torch.cat([m.bias for m in group]))
        for group in zip(*heads, strict=True)
    )


@wrong("stack_heads")
def stack_one_layer(heads):
    """All in one."""
    return _wide([layer for head in heads for layer in head])


@wrong("stack_heads")
def stack_random_bias(heads):
    """The biases keep their random start."""
    wide = []
    for group in zip(*heads, strict=True):
        weight = torch.cat([m.weight.data for m in group])
        layer = nn.Linear(weight.shape[1], weight.shape[0], bias=group[0].bias is not None)
        layer.weight.data.copy_(weight)
        wide.append(layer)
    return tuple(wide)


@wrong("stack_heads", "v-uses-wk")
def stack_keys_as_values(heads):
    """wv made from the key layers."""
    wq, wk, _ = zip(*heads, strict=True)
    return _wide(wq), _wide(wk), _wide(wk)


# ---------------------------------------------------------------- torch_attention


def _twin(mha, layers=None, copy_out=True, copy_bias=True, **kwargs):
    q, k, v = layers or (mha.wq, mha.wk, mha.wv)
    twin = nn.MultiheadAttention(mha.wq.in_features, mha.h, **{"batch_first": True, **kwargs})
    with torch.no_grad():
        twin.in_proj_weight.copy_(torch.cat([q.weight, k.weight, v.weight]))
        if copy_bias:
            twin.in_proj_bias.copy_(torch.cat([q.bias, k.bias, v.bias]))
        if copy_out:
            twin.out_proj.weight.copy_(mha.wo.weight)
            twin.out_proj.bias.copy_(mha.wo.bias)
    return twin


@wrong("torch_attention", "mask-inverted")
def torch_mask_not_inverted(mha, q, k, v, mask=None):
    """The mask goes in as it is."""
    return _twin(mha)(q, k, v, attn_mask=mask)[0]


@wrong("torch_attention")
def torch_mask_ignored(mha, q, k, v, mask=None):
    """The mask is dropped."""
    return _twin(mha)(q, k, v)[0]


@wrong("torch_attention")
def torch_returns_tuple(mha, q, k, v, mask=None):
    """Not attention: returns the weights."""
    return _twin(mha)(q, k, v, attn_mask=None if mask is None else ~mask)[1]


@wrong("torch_attention")
def torch_no_output_copy(mha, q, k, v, mask=None):
    """The output projection is not copied."""
    return _twin(mha, copy_out=False)(q, k, v, attn_mask=None if mask is None else ~mask)[0]


@wrong("torch_attention")
def torch_no_bias_copy(mha, q, k, v, mask=None):
    """The biases of q, k, v are not copied."""
    return _twin(mha, copy_bias=False)(q, k, v, attn_mask=None if mask is None else ~mask)[0]


@wrong("torch_attention", "fused-order")
def torch_key_first(mha, q, k, v, mask=None):
    """k, q, v."""
    twin = _twin(mha, layers=(mha.wk, mha.wq, mha.wv))
    return twin(q, k, v, attn_mask=None if mask is None else ~mask)[0]


@wrong("torch_attention", "seq-first-confusion")
def torch_batch_second(mha, q, k, v, mask=None):
    """batch_first is forgotten."""
    twin = _twin(mha, batch_first=False)
    return twin(q, k, v, attn_mask=None if mask is None else ~mask)[0]


@wrong("torch_attention")
def torch_one_head(mha, q, k, v, mask=None):
    """One head instead of h."""
    twin = _twin(mha)
    twin.num_heads, twin.head_dim = 1, mha.wq.in_features
    return twin(q, k, v, attn_mask=None if mask is None else ~mask)[0]


@wrong("torch_attention")
def torch_random(mha, q, k, v, mask=None):
    """No weights copied."""
    twin = nn.MultiheadAttention(mha.wq.in_features, mha.h, batch_first=True)
    return twin(q, k, v, attn_mask=None if mask is None else ~mask)[0]


@wrong("torch_attention", "weight-transposed")
def torch_transposed(mha, q, k, v, mask=None):
    """Weights transposed."""
    twin = _twin(mha)
    with torch.no_grad():
        twin.in_proj_weight.copy_(torch.cat([mha.wq.weight.T, mha.wk.weight.T, mha.wv.weight.T]))
    return twin(q, k, v, attn_mask=None if mask is None else ~mask)[0]


@wrong("torch_attention")
def torch_dropout(mha, q, k, v, mask=None):
    """Built with dropout and left in train mode."""
    twin = _twin(mha, dropout=0.1)
    return twin(q, k, v, attn_mask=None if mask is None else ~mask)[0]


@wrong("torch_attention", "one-minus-bool")
def torch_one_minus(mha, q, k, v, mask=None):
    """1 - mask."""
    return _twin(mha)(q, k, v, attn_mask=None if mask is None else 1 - mask)[0]


@wrong("torch_attention")
def torch_own_class_again(mha, q, k, v, mask=None):
    """Calls the learner's own module: compares it with itself."""
    return mha(q, k, v, mask)


@wrong("inverted_dropout", "not-by-hand")
def dropout_functional(weights, dropout_rate, training=True):
    """F.dropout."""
    return F.dropout(weights, dropout_rate, training)


@wrong("inverted_dropout", "not-by-hand")
def dropout_layer(weights, dropout_rate, training=True):
    """An nn.Dropout put in the right mode."""
    layer = nn.Dropout(dropout_rate)
    layer.train(training)
    return layer(weights)

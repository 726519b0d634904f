"""Wrong answers to the function exercises."""

import math

import torch
from torch import nn

from solutions import multi_head_attention, self_attention_v2
from solutions.mistakes import VARIANTS, wrong

# ------------------------------------------------------------------------------------------- weighted_average
wrong("weights-transposed", "weighted_average")(lambda weights, values: weights.T @ values)
wrong("scores-elementwise", "weighted_average")(lambda weights, values: weights * values)
wrong("weights-not-applied", "weighted_average")(lambda weights, values: values.mean(0).expand(len(weights), -1))
wrong("softmax-twice", "weighted_average")(lambda weights, values: weights.softmax(-1) @ values)

# ------------------------------------------------- attention_scores and softmax: the steps of the classes


class _Widths:
    """Stands in for `self` in a step."""

    def __init__(self, width):
        self.d = self.d_k = width
        self.h = 1


def _scores_with(steps):
    def attention_scores(q, k):
        widths = _Widths(q.shape[-1])
        scores = steps["scores"](widths, q, k) if "scores" in steps else q @ k.transpose(-2, -1)
        return steps["scale"](widths, scores) if "scale" in steps else scores / math.sqrt(widths.d_k)

    return attention_scores


def _softmax_with(step):
    return lambda scores: step(None, scores)


def _masked_softmax_with(steps):
    def masked_softmax(scores, mask):
        one = _Widths(scores.shape[-1])
        keep = steps["read_mask"](one, mask, scores) if "read_mask" in steps else mask != 0
        if keep is None:
            return scores.softmax(-1)
        hidden = steps["hide"](one, scores, keep) if "hide" in steps else scores.masked_fill(~keep, float("-inf"))
        weights = steps["normalise"](one, hidden) if "normalise" in steps else hidden.softmax(-1)
        return steps["after_softmax"](one, weights, keep) if "after_softmax" in steps else weights

    return masked_softmax


def register_steps():
    """Every wrong step of a class is also a wrong answer to the function that is that step."""
    for variant in VARIANTS:
        names = set(variant.steps)
        if "SelfAttentionV3" not in variant.exercises:
            continue
        if names <= {"scores", "scale"}:
            wrong(variant.id, "attention_scores")(_scores_with(variant.steps))
        if names == {"normalise"} and variant.id != "inplace-after-softmax":
            wrong(variant.id, "softmax")(_softmax_with(variant.steps["normalise"]))
        if names <= {"read_mask", "hide", "after_softmax", "normalise"}:
            for exercise in ("masked_softmax", "repaired_weights"):
                wrong(variant.id, exercise)(_masked_softmax_with(variant.steps))


@wrong("max-of-everything", "softmax")
def softmax_with_one_maximum(scores):
    exponentials = (scores - scores.max()).exp()
    return exponentials / exponentials.sum(-1, keepdim=True)


# ------------------------------------------------------------------------------- the two reasoning blanks of 01
wrong("variance-not-std", "dot_product_std")(lambda d: d)
wrong("std-of-one-product", "dot_product_std")(lambda d: 1.0)
wrong("inverse-std", "dot_product_std")(lambda d: d**-0.5)

wrong("parameters-without-bias", "attention_parameters")(lambda hidden_dim, bias=True: 3 * hidden_dim**2)
wrong("parameters-with-bias", "attention_parameters")(lambda hidden_dim, bias=True: 3 * (hidden_dim**2 + hidden_dim))
wrong("parameters-one-layer", "attention_parameters")(lambda hidden_dim, bias=True: hidden_dim**2 + bias * hidden_dim)
wrong("parameters-four-layers", "attention_parameters")(
    lambda hidden_dim, bias=True: 4 * (hidden_dim**2 + bias * hidden_dim)
)

# --------------------------------------------------------------------------------------------------- notebook 02


def _fused_of(layers, bias=True, order=(0, 1, 2)):
    return self_attention_v2.fuse_projections(*(layers[i] for i in order))


for _order in ((1, 0, 2), (0, 2, 1), (2, 1, 0), (1, 2, 0), (2, 0, 1)):
    wrong("fused-order", "fuse_projections")(lambda q, k, v, order=_order: _fused_of((q, k, v), order=order))


@wrong("wrong-bias-choice", "fuse_projections")
def fuse_without_bias(query_proj, key_proj, value_proj):
    fused = _fused_of((query_proj, key_proj, value_proj))
    if fused.bias is not None:
        nn.init.zeros_(fused.bias)
    return fused


@wrong("fused-order", "fuse_projections")
def fuse_interleaved(query_proj, key_proj, value_proj):
    fused = _fused_of((query_proj, key_proj, value_proj))
    with torch.no_grad():
        fused.weight.copy_(fused.weight.unflatten(0, (3, -1)).transpose(0, 1).flatten(0, 1))
        if fused.bias is not None:
            fused.bias.copy_(fused.bias.unflatten(0, (3, -1)).T.flatten())
    return fused


@wrong("fuse-wrong-axis", "fuse_projections")
def fuse_along_the_input(query_proj, key_proj, value_proj):
    d = query_proj.in_features
    fused = nn.Linear(d, 3 * d)
    fused.weight = nn.Parameter(torch.cat([query_proj.weight, key_proj.weight, value_proj.weight], dim=1))
    return fused


@wrong("weight-transposed", "fuse_projections")
def fuse_transposed(query_proj, key_proj, value_proj):
    fused = _fused_of((query_proj, key_proj, value_proj))
    with torch.no_grad():
        fused.weight.copy_(torch.cat([layer.weight.T for layer in (query_proj, key_proj, value_proj)]))
    return fused


@wrong("k-uses-wq", "fuse_projections")
def fuse_query_twice(query_proj, key_proj, value_proj):
    return _fused_of((query_proj, query_proj, value_proj))


wrong("ratio-inverted", "fused_xavier_ratio")(lambda: math.sqrt(2))
wrong("ratio-of-variances", "fused_xavier_ratio")(lambda: 0.5)
wrong("fan-in-only", "fused_xavier_ratio")(lambda: math.sqrt(1 / 3))

# --------------------------------------------------------------------------------------------------- notebook 03


def _ones(length):
    return torch.ones(length, length, dtype=torch.bool)


wrong("causal-missing", "causal_mask")(_ones)
wrong("causal-transposed", "causal_mask")(lambda length: _ones(length).triu())
wrong("mask-inverted", "causal_mask")(lambda length: _ones(length).triu(1))
wrong("causal-strict", "causal_mask")(lambda length: _ones(length).tril(-1))
wrong("causal-peeks-one", "causal_mask")(lambda length: _ones(length).tril(1))
wrong("causal-reversed", "causal_mask")(lambda length: _ones(length).tril().flip(1))
wrong("diagonal-only", "causal_mask")(lambda length: torch.eye(length, dtype=torch.bool))


def _positions(max_length):
    return torch.arange(max_length)


wrong("mask-inverted", "padding_mask")(lambda n, m: (_positions(m) >= n[:, None])[:, None])
wrong("padding-off-by-one", "padding_mask")(lambda n, m: (_positions(m) <= n[:, None])[:, None])
wrong("padding-off-by-one", "padding_mask")(lambda n, m: (_positions(m) < n[:, None] - 1)[:, None])
wrong("padding-on-the-left", "padding_mask")(lambda n, m: (_positions(m) >= m - n[:, None])[:, None])
wrong("mask-on-query-axis", "padding_mask")(lambda n, m: (_positions(m) < n[:, None])[:, :, None])

wrong("mask-not-unsqueezed", "padding_mask")(lambda n, m: _positions(m) < n[:, None])
wrong("mask-on-both-axes", "padding_mask")(
    lambda n, m: (_positions(m) < n[:, None])[:, None] & (_positions(m) < n[:, None])[:, :, None]
)

wrong("dropout-no-rescale", "inverted_dropout")(
    lambda w, rate, training=True: w * (torch.rand_like(w) >= rate) if training else w
)
wrong("dropout-keeps-rate", "inverted_dropout")(
    lambda w, rate, training=True: w * (torch.rand_like(w) < rate) / max(rate, 1e-9) if training else w
)
wrong("dropout-keeps-rate", "inverted_dropout")(
    lambda w, rate, training=True: w * (torch.rand_like(w) < rate) / (1 - rate) if training else w
)
wrong("dropout-always-on", "inverted_dropout")(
    lambda w, rate, training=True: w * (torch.rand_like(w) >= rate) / (1 - rate)
)
wrong("dropout-mode-inverted", "inverted_dropout")(
    lambda w, rate, training=True: w if training else w * (torch.rand_like(w) >= rate) / (1 - rate)
)
wrong("dropout-unused", "inverted_dropout")(lambda w, rate, training=True: w)
wrong("dropout-whole-rows", "inverted_dropout")(
    lambda w, rate, training=True: w * (torch.rand(*w.shape[:-1], 1) >= rate) / (1 - rate) if training else w
)


@wrong("dropout-renormalised", "inverted_dropout")
def dropout_renormalised(weights, dropout_rate, training=True):
    if not training:
        return weights
    kept = weights * (torch.rand_like(weights) >= dropout_rate)
    return kept / kept.sum(dim=-1, keepdim=True)


@wrong("dropout-same-every-time", "inverted_dropout")
def dropout_seeded(weights, dropout_rate, training=True):
    if not training:
        return weights
    keep = torch.rand(weights.shape, generator=torch.Generator().manual_seed(0)) >= dropout_rate
    return weights * keep / (1 - dropout_rate)


# --------------------------------------------------------------------------------------------------- notebook 04

wrong("split-by-view", "split_heads")(lambda x, h: x.reshape(x.shape[0], h, x.shape[1], -1))
wrong("attention-across-heads", "split_heads")(lambda x, h: x.unflatten(-1, (h, -1)))
wrong("head-layout-mixed", "split_heads")(lambda x, h: x.unflatten(-1, (-1, h)).permute(0, 3, 1, 2))
wrong("heads-reversed", "split_heads")(lambda x, h: x.unflatten(-1, (h, -1)).transpose(1, 2).flip(1))

wrong("merge-without-transpose", "merge_heads")(lambda x: x.reshape(x.shape[0], x.shape[2], -1))
wrong("view-not-contiguous", "merge_heads")(lambda x: x.transpose(1, 2).view(x.shape[0], x.shape[2], -1))
wrong("head-layout-mixed", "merge_heads")(lambda x: x.permute(0, 2, 3, 1).flatten(-2))
wrong("heads-reversed", "merge_heads")(lambda x: x.flip(1).transpose(1, 2).flatten(-2))


def _initialised(init, layers=("wq", "wk", "wv", "wo"), zero=True):
    def init_attention_weights(mha):
        for name in layers:
            layer = getattr(mha, name)
            init(layer.weight)
            if zero and layer.bias is not None:
                nn.init.zeros_(layer.bias)

    return init_attention_weights


wrong("xavier-normal", "init_attention_weights")(_initialised(nn.init.xavier_normal_))
wrong("kaiming-for-xavier", "init_attention_weights")(_initialised(nn.init.kaiming_uniform_))
wrong("biases-not-zeroed", "init_attention_weights")(_initialised(nn.init.xavier_uniform_, zero=False))
wrong("xavier-one-draw", "init_attention_weights")(
    lambda mha: (
        [layer.load_state_dict(mha.wq.state_dict()) for layer in (mha.wk, mha.wv, mha.wo)]
        if _initialised(nn.init.xavier_uniform_)(mha) is None
        else None
    )
)


@wrong("fused-xavier", "init_attention_weights")
def init_fused(mha):
    _initialised(nn.init.xavier_uniform_)(mha)
    fused = nn.init.xavier_uniform_(torch.empty(3 * mha.d_model, mha.d_model))
    with torch.no_grad():
        for layer, part in zip((mha.wq, mha.wk, mha.wv), fused.chunk(3), strict=True):
            layer.weight.copy_(part)


wrong("layer-forgotten", "init_attention_weights")(_initialised(nn.init.xavier_uniform_, ("wq", "wk", "wv")))


def _stacked(heads, order=lambda index: index):
    wide = []
    for small in zip(*heads, strict=True):
        layers = order(list(small))
        wide.append(multi_head_attention.stack_heads([(layer,) * 3 for layer in layers])[0])
    return tuple(wide)


wrong("stack-order", "stack_heads")(lambda heads: _stacked(heads, lambda layers: layers[::-1]))


@wrong("wrong-bias-choice", "stack_heads")
def stack_without_bias(heads):
    wide = _stacked(heads)
    for layer in wide:
        if layer.bias is not None:
            nn.init.zeros_(layer.bias)
    return wide


@wrong("roles-swapped", "stack_heads")
def stack_keys_first(heads):
    wq, wk, wv = _stacked(heads)
    return wk, wq, wv


for _name, _order in (("v-uses-wk", (0, 1, 1)), ("k-uses-wq", (0, 0, 2)), ("q-uses-wk", (1, 1, 2))):
    wrong(_name, "stack_heads")(lambda heads, order=_order: tuple(_stacked(heads)[i] for i in order))


@wrong("weight-transposed", "stack_heads")
def stack_transposed(heads):
    wide = _stacked(heads)
    with torch.no_grad():
        for layer in wide:
            if layer.weight.shape[0] == layer.weight.shape[1]:
                layer.weight.copy_(layer.weight.T.clone())
    return wide


@wrong("stack-order", "stack_heads")
def stack_interleaved(heads):
    wide = _stacked(heads)
    with torch.no_grad():
        for layer in wide:
            layer.weight.copy_(layer.weight.unflatten(0, (len(heads), -1)).transpose(0, 1).flatten(0, 1))
            if layer.bias is not None:
                layer.bias.copy_(layer.bias.unflatten(0, (len(heads), -1)).T.flatten())
    return wide


def _torch_attention(mask_for, transpose="", order=("wq", "wk", "wv")):
    def torch_attention(mha, q, k, v, mask=None):
        layers = [getattr(mha, name) for name in order]
        weight = torch.cat([layer.weight.T if transpose else layer.weight for layer in layers])
        bias = torch.cat([layer.bias for layer in layers])
        twin = nn.MultiheadAttention(mha.wq.in_features, mha.h, batch_first=True)
        with torch.no_grad():
            twin.in_proj_weight.copy_(weight)
            twin.in_proj_bias.copy_(bias)
            twin.out_proj.weight.copy_(mha.wo.weight.T if transpose == "all" else mha.wo.weight)
            twin.out_proj.bias.copy_(mha.wo.bias)
        return twin(q, k, v, attn_mask=mask_for(mask))[0]

    return torch_attention


wrong("mask-inverted", "torch_attention")(_torch_attention(lambda mask: mask))
wrong("mask-ignored", "torch_attention")(_torch_attention(lambda mask: None))
wrong("fused-order", "torch_attention")(
    _torch_attention(lambda mask: None if mask is None else ~mask, order=("wk", "wq", "wv"))
)


def _opposite(mask):
    return None if mask is None else ~mask


wrong("weight-transposed", "torch_attention")(_torch_attention(_opposite, transpose="all"))
wrong("weight-transposed", "torch_attention")(_torch_attention(_opposite, transpose="inputs"))

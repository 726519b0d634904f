"""Right answers to the exercises that ask for a function."""

from __future__ import annotations

import copy
import math
from functools import reduce

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from . import right

# ---------------------------------------------------------------- weighted_average


@right("weighted_average")
def average_with_einsum(weights, values):
    """einsum."""
    return torch.einsum("ij,jd->id", weights, values)


@right("weighted_average")
def average_with_mm(weights: Tensor, values: Tensor) -> Tensor:
    """torch.mm."""
    return torch.mm(weights, values)


@right("weighted_average")
def average_with_loops(w, v):
    """A loop over the rows of both."""
    rows = []
    for row in w:
        total = torch.zeros_like(v[0])
        for weight, value in zip(row, v, strict=True):
            total = total + weight * value
        rows.append(total)
    return torch.stack(rows)


@right("weighted_average")
def average_by_broadcasting(weights, values):
    """Broadcast to (L_q, L_k, d), then sum."""
    return (weights[:, :, None] * values[None]).sum(dim=1)


@right("weighted_average")
def average_transposed(weights, values):
    """Both transposed, and the product transposed back."""
    return (values.T @ weights.T).T


@right("weighted_average")
def average_column_by_column(weights, values):
    """One feature at a time."""
    return torch.stack([weights @ column for column in values.unbind(1)], dim=-1)


average_as_lambda = right("weighted_average")(lambda weights, values: weights.matmul(values))

# ---------------------------------------------------------------- attention_scores


@right("attention_scores")
def scores_einsum(q, k):
    """einsum with an ellipsis."""
    return torch.einsum("...qd,...kd->...qk", q, k) / q.shape[-1] ** 0.5


@right("attention_scores")
def scores_scaled_query(query, key):
    """The query is scaled first."""
    query = query * query.size(-1) ** -0.5
    return torch.matmul(query, key.transpose(-1, -2))


@right("attention_scores")
def scores_scaled_key(q: Tensor, k: Tensor) -> Tensor:
    """The key is scaled first."""
    return q @ (k / math.sqrt(k.shape[-1])).mT


@right("attention_scores")
def scores_fourth_root(q, k):
    """The fourth root on both sides."""
    r = q.shape[-1] ** 0.25
    return (q / r) @ (k / r).swapaxes(-1, -2)


@right("attention_scores")
def scores_by_broadcasting(q, k):
    """(..., L_q, 1, d) times (..., 1, L_k, d), summed."""
    return (q.unsqueeze(-2) * k.unsqueeze(-3)).sum(-1) / math.sqrt(q.size(-1))


@right("attention_scores")
def scores_row_by_row(q, k):
    """One query at a time."""
    d = q.shape[-1]
    rows = [(k * q[..., i : i + 1, :]).sum(dim=-1) for i in range(q.shape[-2])]
    return torch.stack(rows, dim=-2) / d**0.5


@right("attention_scores")
def scores_tensor_scale(q, k):
    """The root is a 0-dim tensor; the product is divided in place."""
    root = torch.sqrt(torch.tensor(q.shape[-1], dtype=q.dtype))
    out = torch.matmul(q, torch.transpose(k, -2, -1))
    out /= root
    return out


@right("attention_scores")
def scores_with_numpy_root(q, k):
    """np.sqrt, turned into a float."""
    return (k @ q.transpose(-2, -1)).transpose(-2, -1) / float(np.sqrt(q.shape[-1]))


# ---------------------------------------------------------------- softmax


@right("softmax")
def softmax_amax(scores):
    """amax and one division."""
    e = torch.exp(scores - scores.amax(-1, keepdim=True))
    return e / e.sum(-1, keepdim=True)


@right("softmax", "rounds to 2e-5 in float32 at scores of 1000")
def softmax_logsumexp(x):
    """exp(x - logsumexp(x))."""
    return torch.exp(x - torch.logsumexp(x, dim=-1, keepdim=True))


@right("softmax", "rounds to 2e-5 in float32 at scores of 1000")
def softmax_own_logsumexp(z):
    """Its own log-sum-exp."""
    top, _ = z.max(dim=-1, keepdim=True)
    log_sum = top + (z - top).exp().sum(dim=-1, keepdim=True).log()
    return (z - log_sum).exp()


@right("softmax")
def softmax_unsqueezed(scores):
    """Without keepdim: the lost axis is put back by hand."""
    peak = torch.max(scores, dim=-1)[0].unsqueeze(-1)
    numerator = torch.exp(scores - peak)
    return numerator / torch.sum(numerator, dim=-1).unsqueeze(-1)


@right("softmax")
def softmax_in_double(scores: Tensor) -> Tensor:
    """In float64 and back."""
    s = scores.double()
    s = s - s.max(-1, keepdim=True).values
    e = s.exp()
    return (e / e.sum(-1, keepdim=True)).to(scores.dtype)


@right("softmax")
def softmax_detached_max(scores):
    """The maximum is detached."""
    m = scores.detach().max(dim=-1, keepdim=True).values
    w = (scores - m).exp()
    return w * w.sum(dim=-1, keepdim=True).reciprocal()


@right("softmax")
def softmax_by_rows(scores):
    """A loop over the rows."""
    flat = scores.reshape(-1, scores.shape[-1])
    out = []
    for row in flat:
        e = (row - row.max()).exp()
        out.append(e / e.sum())
    return torch.stack(out).reshape(scores.shape)


@right("softmax")
def softmax_pairwise(scores):
    """1 / sum over j of exp(s_j - s_i): no maximum at all, and yet stable, since 1 / inf is 0."""
    differences = scores.unsqueeze(-2) - scores.unsqueeze(-1)  # (..., L_q, i, j)
    return 1 / differences.double().clamp(max=700).exp().sum(-1).to(scores.dtype)


@right("softmax")
def softmax_base_two(scores):
    """Powers of two."""
    s = (scores - scores.amax(dim=-1, keepdim=True)) * math.log2(math.e)
    p = torch.exp2(s)
    return p.div(p.sum(dim=-1, keepdim=True))


# ---------------------------------------------------------------- attention_parameters


@right("attention_parameters")
def count_three_layers(hidden_dim, bias=True):
    """3 * (d * d + d)."""
    return 3 * (hidden_dim**2 + hidden_dim * bias)


@right("attention_parameters")
def count_by_building(hidden_dim: int, bias: bool = True) -> int:
    """Builds a layer and counts."""
    layer = nn.Linear(hidden_dim, hidden_dim, bias=bias)
    return 3 * sum(p.numel() for p in layer.parameters())


@right("attention_parameters")
def count_fused(d, bias=True):
    """As one (d + 1) by 3d matrix."""
    rows = d + 1 if bias else d
    return rows * 3 * d


@right("attention_parameters")
def count_with_if(hidden_dim, bias=True):
    """Two branches."""
    if bias:
        return 3 * hidden_dim * hidden_dim + 3 * hidden_dim
    return 3 * hidden_dim * hidden_dim


@right("attention_parameters")
def count_in_a_loop(hidden_dim, bias=True):
    """A sum over the three roles."""
    total = 0
    for _role in ("query", "key", "value"):
        total += hidden_dim * hidden_dim
        if bias:
            total += hidden_dim
    return total


@right("attention_parameters", "a whole number kept in a float")
def count_as_float(hidden_dim, bias=True):
    """Returns a float that is whole."""
    return 3.0 * hidden_dim * (hidden_dim + (1.0 if bias else 0.0))


# ---------------------------------------------------------------- dot_product_std


@right("dot_product_std")
def std_power(d):
    """d ** 0.5."""
    return d**0.5


@right("dot_product_std")
def std_numpy(d: int):
    """A numpy number."""
    return np.sqrt(d)


@right("dot_product_std")
def std_tensor(d):
    """A 0-dim tensor turned into a number."""
    return torch.tensor(float(d)).sqrt().item()


@right("dot_product_std")
def std_from_variances(d):
    """Adds up d variances of 1."""
    variance = sum(1.0 for _ in range(d))
    return math.sqrt(variance)


@right("dot_product_std")
def std_exp_log(d):
    """exp(log(d) / 2)."""
    return math.exp(0.5 * math.log(d))


@right("dot_product_std")
def std_hypot(d):
    """The length of a vector of d ones."""
    return math.hypot(*[1.0] * d)


# ---------------------------------------------------------------- fuse_projections


@right("fuse_projections")
def fuse_with_data(query_proj, key_proj, value_proj):
    """Writes into .data."""
    d = query_proj.in_features
    out = nn.Linear(d, 3 * d, bias=query_proj.bias is not None)
    out.weight.data = torch.cat([query_proj.weight.data, key_proj.weight.data, value_proj.weight.data], dim=0)
    if query_proj.bias is not None:
        out.bias.data = torch.cat([query_proj.bias.data, key_proj.bias.data, value_proj.bias.data])
    return out


@right("fuse_projections")
def fuse_with_slices(q, k, v):
    """Copies block after block into slices."""
    d_out, d_in = q.weight.shape
    has_bias = q.bias is not None
    fused = nn.Linear(d_in, 3 * d_out, bias=has_bias, dtype=q.weight.dtype, device=q.weight.device)
    with torch.no_grad():
        for i, layer in enumerate((q, k, v)):
            fused.weight[i * d_out : (i + 1) * d_out] = layer.weight
            if has_bias:
                fused.bias[i * d_out : (i + 1) * d_out] = layer.bias
    return fused


@right("fuse_projections")
def fuse_with_new_parameters(query_proj: nn.Linear, key_proj: nn.Linear, value_proj: nn.Linear) -> nn.Linear:
    """Replaces the parameters."""
    layers = [query_proj, key_proj, value_proj]
    size = query_proj.out_features
    fused = nn.Linear(query_proj.in_features, size * 3, bias=False)
    fused.weight = nn.Parameter(torch.cat([m.weight.detach() for m in layers]).clone())
    if all(m.bias is not None for m in layers):
        fused.bias = nn.Parameter(torch.cat([m.bias.detach() for m in layers]).clone())
    return fused


@right("fuse_projections")
def fuse_with_state_dict(query_proj, key_proj, value_proj):
    """Through state_dict and load_state_dict."""
    states = [layer.state_dict() for layer in (query_proj, key_proj, value_proj)]
    merged = {name: torch.cat([state[name] for state in states]) for name in states[0]}
    out_features, in_features = merged["weight"].shape
    fused = nn.Linear(in_features, out_features, bias="bias" in merged)
    fused.load_state_dict(merged)
    return fused


@right("fuse_projections")
def fuse_with_vstack(a, b, c):
    """vstack and hstack."""
    fused = nn.Linear(a.in_features, a.out_features + b.out_features + c.out_features, a.bias is not None)
    with torch.no_grad():
        fused.weight.copy_(torch.vstack((a.weight, b.weight, c.weight)))
        if a.bias is not None:
            fused.bias.copy_(torch.hstack((a.bias, b.bias, c.bias)))
    return fused


@right("fuse_projections")
def fuse_with_stack(query_proj, key_proj, value_proj):
    """stack and flatten."""
    triple = (query_proj, key_proj, value_proj)
    weight = torch.stack([layer.weight for layer in triple]).flatten(0, 1)  # (3, d, d) → (3d, d)
    fused = nn.utils.skip_init(nn.Linear, weight.shape[1], weight.shape[0], bias=query_proj.bias is not None)
    fused.weight.data.copy_(weight)
    if query_proj.bias is not None:
        fused.bias.data.copy_(torch.stack([layer.bias for layer in triple]).flatten())
    return fused


@right("fuse_projections")
def fuse_by_probing(query_proj, key_proj, value_proj):
    """Reads the weights off the outputs for the zero vector and the unit vectors."""
    d = query_proj.in_features
    with torch.no_grad():
        zero = torch.zeros(1, d, dtype=query_proj.weight.dtype)
        eye = torch.eye(d, dtype=query_proj.weight.dtype)
        outs = [torch.cat([p(zero), p(eye)]) for p in (query_proj, key_proj, value_proj)]  # three of (1 + d, d)
        table = torch.cat(outs, dim=1)  # (1 + d, 3d)
        fused = nn.Linear(d, 3 * d, bias=query_proj.bias is not None).to(table.dtype)
        fused.weight.copy_((table[1:] - table[0]).T)
        if fused.bias is not None:
            fused.bias.copy_(table[0])
    return fused


# ---------------------------------------------------------------- fused_xavier_ratio


@right("fused_xavier_ratio")
def ratio_half_root():
    """1 / sqrt 2."""
    return 1 / math.sqrt(2)


@right("fused_xavier_ratio")
def ratio_from_fans():
    """From the two formulas."""
    d = 64
    fused = math.sqrt(2 / (d + 3 * d))
    single = math.sqrt(2 / (d + d))
    return fused / single


@right("fused_xavier_ratio")
def ratio_from_bounds():
    """From the two bounds of the uniform distribution."""
    bound_fused, bound_single = np.sqrt(6 / 4), np.sqrt(6 / 2)
    return bound_fused / bound_single


@right("fused_xavier_ratio")
def ratio_power():
    """2 ** -0.5."""
    return 2**-0.5


@right("fused_xavier_ratio")
def ratio_cosine():
    """The cosine of 45 degrees."""
    return math.cos(math.pi / 4)


@right("fused_xavier_ratio")
def ratio_as_tensor():
    """A number out of a tensor."""
    return torch.tensor(0.5, dtype=torch.float64).sqrt().item()


# ---------------------------------------------------------------- causal_mask


@right("causal_mask")
def causal_tril(length):
    """tril, then bool."""
    return torch.tril(torch.ones(length, length)).bool()


@right("causal_mask")
def causal_not_triu(n):
    """Not the upper triangle."""
    return ~torch.triu(torch.ones(n, n, dtype=torch.bool), diagonal=1)


@right("causal_mask")
def causal_arange(length: int) -> Tensor:
    """Positions compared."""
    i = torch.arange(length)
    return i[None, :] <= i[:, None]


@right("causal_mask")
def causal_loops(length):
    """Two loops."""
    mask = torch.zeros(length, length, dtype=torch.bool)
    for query in range(length):
        for key in range(query + 1):
            mask[query, key] = True
    return mask


@right("causal_mask")
def causal_equal_zero(length):
    """triu == 0."""
    return torch.triu(torch.ones((length, length)), 1) == 0


@right("causal_mask")
def causal_from_lists(length):
    """A list of lists."""
    return torch.tensor([[key <= query for key in range(length)] for query in range(length)])


@right("causal_mask")
def causal_cumsum(length):
    """cumsum down an identity matrix."""
    return torch.eye(length).cumsum(dim=0) > 0


@right("causal_mask")
def causal_indices(length):
    """tril_indices."""
    mask = torch.full((length, length), False)
    rows, columns = torch.tril_indices(length, length)
    mask[rows, columns] = True
    return mask


# ---------------------------------------------------------------- padding_mask


@right("padding_mask")
def padding_broadcast(lengths, max_length):
    """arange against lengths[:, None, None]."""
    return torch.arange(max_length) < lengths[:, None, None]


@right("padding_mask")
def padding_loop(lengths, max_length):
    """A loop over the samples."""
    mask = torch.zeros(len(lengths), 1, max_length, dtype=torch.bool)
    for i, n in enumerate(lengths.tolist()):
        mask[i, 0, :n] = True
    return mask


@right("padding_mask")
def padding_view(lengths: Tensor, max_length: int) -> Tensor:
    """Expanded, compared and viewed."""
    batch = lengths.size(0)
    positions = torch.arange(max_length).expand(batch, max_length)
    return torch.lt(positions, lengths.view(-1, 1)).view(batch, 1, max_length)


@right("padding_mask")
def padding_not_padding(lengths, max_length):
    """First where the padding is, then the opposite."""
    is_padding = torch.arange(max_length)[None, :] >= lengths[:, None]
    return (~is_padding)[:, None, :]


@right("padding_mask")
def padding_stacked(lengths, max_length):
    """Row by row with cat."""
    rows = [torch.cat([torch.ones(int(n)), torch.zeros(max_length - int(n))]) for n in lengths]
    return torch.stack(rows).bool().unsqueeze(1)


@right("padding_mask")
def padding_from_triangle(lengths, max_length):
    """Rows picked out of a triangle."""
    triangle = torch.ones(max_length + 1, max_length).tril(-1).bool()  # row n holds n ones
    return triangle[lengths].unsqueeze(dim=1)


@right("padding_mask")
def padding_lists(lengths, max_length):
    """Nested lists."""
    return torch.tensor([[[j < n for j in range(max_length)]] for n in lengths.tolist()])


# ---------------------------------------------------------------- masked_softmax and repaired_weights


@right("masked_softmax")
@right("repaired_weights")
def masked_where(scores, mask):
    """torch.where."""
    return torch.where(mask != 0, scores, -torch.inf).softmax(dim=-1)


@right("masked_softmax")
@right("repaired_weights")
def masked_not_bool(scores, mask):
    """masked_fill with ~bool."""
    return F.softmax(scores.masked_fill(~mask.bool(), -torch.inf), dim=-1)


@right("masked_softmax", "-1e9: float16 cannot hold it")
@right("repaired_weights", "-1e9: float16 cannot hold it")
def masked_minus_1e9(scores, mask):
    """-1e9 instead of minus infinity."""
    return torch.softmax(scores.masked_fill(mask == 0, -1e9), dim=-1)


@right("masked_softmax")
@right("repaired_weights")
def masked_finfo(scores, mask):
    """The smallest number of the dtype."""
    low = torch.finfo(scores.dtype).min
    return torch.softmax(torch.where(mask.to(torch.bool), scores, torch.full_like(scores, low)), -1)


@right("masked_softmax")
@right("repaired_weights")
def masked_additive(scores, mask):
    """An additive mask."""
    bias = torch.zeros(mask.shape, dtype=scores.dtype).masked_fill(mask == 0, float("-inf"))
    return (scores + bias).softmax(-1)


@right("masked_softmax", "-1e4: low enough for normal scores only")
@right("repaired_weights", "-1e4: low enough for normal scores only")
def masked_minus_1e4(scores, mask):
    """(1 - mask) * -10000, as BERT did it."""
    return F.softmax(scores + (1.0 - mask.to(scores.dtype)) * -10000.0, dim=-1)


@right("masked_softmax")
@right("repaired_weights")
def masked_exponentials(scores, mask):
    """Exponentials times mask, divided by their sum; an empty row gives NaN."""
    shifted = scores.masked_fill(mask == 0, float("-inf"))
    shifted = shifted - shifted.amax(dim=-1, keepdim=True)
    e = shifted.exp() * (mask != 0)
    return e / e.sum(dim=-1, keepdim=True)


@right("masked_softmax", "softmax first, then mask and renormalise: fragile when scores are large")
@right("repaired_weights", "softmax first, then mask and renormalise: fragile when scores are large")
def masked_renormalised(scores, mask):
    """Softmax first, zeros next, then the rows are divided by what is left."""
    weights = torch.softmax(scores, dim=-1) * (mask > 0.5)
    return weights / weights.sum(dim=-1, keepdim=True)


@right("masked_softmax")
@right("repaired_weights")
def masked_empty_rows_zero(scores, mask):
    """Empty rows become zeros."""
    weights = scores.masked_fill(mask.logical_not(), float("-inf")).softmax(dim=-1)
    return weights.nan_to_num(0.0)


@right("masked_softmax")
@right("repaired_weights")
def masked_by_index(scores, mask):
    """Writes -inf by index into a copy."""
    hidden = (mask == 0).expand(scores.shape)
    scores = scores.clone()
    scores[hidden] = -math.inf
    return scores.softmax(dim=-1)


@right("masked_softmax")
def masked_log_of_mask(scores, mask):
    """Adds the logarithm of the mask: log 1 is 0, log 0 is minus infinity."""
    return torch.softmax(scores + mask.to(scores.dtype).log(), dim=-1)


# ---------------------------------------------------------------- inverted_dropout


@right("inverted_dropout")
def dropout_bernoulli(weights: Tensor, dropout_rate: float, training: bool = True) -> Tensor:
    """bernoulli of the keep probability."""
    if not training or dropout_rate == 0:
        return weights
    keep_prob = 1 - dropout_rate
    mask = torch.bernoulli(torch.full_like(weights, keep_prob))
    return mask * weights / keep_prob


@right("inverted_dropout")
def dropout_where(weights, p, training=True):
    """where, with the scaled weights."""
    if training:
        return torch.where(torch.rand(weights.shape) < p, torch.zeros_like(weights), weights / (1 - p))
    return weights


@right("inverted_dropout")
def dropout_masked_fill(weights, dropout_rate, training=True):
    """masked_fill of the dropped ones."""
    if not training:
        return weights.clone()
    dropped = torch.rand_like(weights).lt(dropout_rate)
    return weights.masked_fill(dropped, 0.0).mul(1.0 / (1.0 - dropout_rate))


@right("inverted_dropout")
def dropout_loop(weights, dropout_rate, training=True):
    """One weight at a time."""
    if training is False:
        return weights
    keep = [0.0 if torch.rand(()).item() < dropout_rate else 1 / (1 - dropout_rate) for _ in range(weights.numel())]
    return weights * torch.tensor(keep, dtype=weights.dtype).reshape(weights.shape)


@right("inverted_dropout")
def dropout_numpy(weights, dropout_rate, training=True):
    """numpy draws; torch's seed has no say."""
    if not training:
        return weights
    draws = np.random.default_rng().random(tuple(weights.shape))
    keep = torch.as_tensor(draws >= dropout_rate).to(weights)
    return weights * (keep / (1 - dropout_rate))


# ---------------------------------------------------------------- split_heads and merge_heads


@right("split_heads")
def split_reshape_permute(x, h):
    """reshape and permute."""
    b, n, d = x.shape
    return x.reshape(b, n, h, d // h).permute(0, 2, 1, 3)


@right("split_heads")
def split_unflatten(x, h):
    """unflatten."""
    return x.unflatten(-1, (h, -1)).transpose(1, 2)


@right("split_heads")
def split_chunk_stack(x, h):
    """chunk and stack."""
    return torch.stack(torch.chunk(x, h, dim=-1), dim=1)


@right("split_heads")
def split_loop(x: Tensor, h: int) -> Tensor:
    """A slice for each head."""
    d_k = x.size(-1) // h
    heads = [x[:, :, i * d_k : (i + 1) * d_k] for i in range(h)]
    return torch.cat([head.unsqueeze(1) for head in heads], dim=1)


@right("split_heads")
def split_contiguous(x, h):
    """view, transpose, contiguous."""
    B = x.size(0)
    return x.contiguous().view(B, -1, h, x.size(2) // h).transpose(1, 2).contiguous()


@right("split_heads")
def split_empty(x, h):
    """Fills an empty tensor."""
    B, L, d = x.shape
    out = x.new_empty(B, h, L, d // h)
    for i, part in enumerate(x.split(d // h, dim=2)):
        out[:, i] = part
    return out


@right("split_heads")
def split_movedim(x, h):
    """movedim."""
    return torch.movedim(x.reshape(*x.shape[:2], h, x.shape[-1] // h), 2, 1)


@right("merge_heads")
def merge_permute(x):
    """permute and reshape."""
    B, _, L, _ = x.shape
    return x.permute(0, 2, 1, 3).reshape(B, L, -1)


@right("merge_heads")
def merge_contiguous(x):
    """transpose, contiguous, view."""
    b, h, n, e = x.size()
    return x.transpose(1, 2).contiguous().view(b, n, h * e)


@right("merge_heads")
def merge_flatten(x):
    """transpose and flatten."""
    return x.transpose(1, 2).flatten(2)


@right("merge_heads")
def merge_cat(x):
    """Concatenates the heads."""
    return torch.cat(x.unbind(dim=1), dim=-1)


@right("merge_heads")
def merge_loop(x):
    """Grows the result head by head."""
    out = x[:, 0]
    for i in range(1, x.shape[1]):
        out = torch.cat((out, x[:, i]), dim=2)
    return out


@right("merge_heads")
def merge_einsum(x: Tensor) -> Tensor:
    """einsum only moves the axes."""
    return torch.einsum("bhld->blhd", x).reshape(x.shape[0], x.shape[2], x.shape[1] * x.shape[3])


@right("merge_heads")
def merge_reduce(x):
    """functools.reduce over the heads."""
    return reduce(lambda left, right_part: torch.cat([left, right_part], -1), [x[:, i] for i in range(x.size(1))])


# ---------------------------------------------------------------- init_attention_weights


@right("init_attention_weights")
def init_by_names(mha):
    """One line for each tensor."""
    for name in ("wq", "wk", "wv", "wo"):
        layer = getattr(mha, name)
        nn.init.xavier_uniform_(layer.weight)
        if layer.bias is not None:
            nn.init.constant_(layer.bias, 0.0)


@right("init_attention_weights")
def init_by_hand(mha):
    """The bound computed by hand."""
    with torch.no_grad():
        for layer in [mha.wq, mha.wk, mha.wv, mha.wo]:
            fan_out, fan_in = layer.weight.shape
            bound = math.sqrt(6.0 / (fan_in + fan_out))
            layer.weight.uniform_(-bound, bound)
            if layer.bias is not None:
                layer.bias.zero_()


@right("init_attention_weights")
def init_all_linears(mha: nn.Module) -> None:
    """Every nn.Linear among the modules."""
    for module in mha.modules():
        if isinstance(module, nn.Linear):
            nn.init.xavier_uniform_(module.weight, gain=1.0)
            if module.bias is not None:
                module.bias.data.fill_(0)


@right("init_attention_weights")
def init_with_apply(mha):
    """Module.apply."""

    def init(module):
        if type(module) is nn.Linear:
            torch.nn.init.xavier_uniform_(module.weight)
            if module.bias is not None:
                torch.nn.init.zeros_(module.bias)

    mha.apply(init)


@right("init_attention_weights")
def init_by_parameters(mha):
    """By the number of axes of each parameter; returns the module."""
    for parameter in mha.parameters():
        if parameter.dim() > 1:
            nn.init.xavier_uniform_(parameter)
        else:
            nn.init.zeros_(parameter)
    return mha


@right("init_attention_weights")
def init_from_rand(mha):
    """rand stretched to the bound and copied."""
    for layer in (mha.wo, mha.wv, mha.wk, mha.wq):
        d_out, d_in = layer.weight.shape
        draw = (2 * torch.rand(d_out, d_in) - 1) * (6 / (d_in + d_out)) ** 0.5
        layer.weight.data.copy_(draw)
        if layer.bias is not None:
            layer.bias.data *= 0


# ---------------------------------------------------------------- stack_heads


@right("stack_heads")
def stack_with_cat(heads):
    """cat for each role, a tuple out."""

    def wide(layers):
        has_bias = layers[0].bias is not None
        weight = torch.cat([layer.weight.data for layer in layers], 0)
        out = nn.Linear(weight.size(1), weight.size(0), bias=has_bias)
        out.weight.data.copy_(weight)
        if has_bias:
            out.bias.data.copy_(torch.cat([layer.bias.data for layer in layers], 0))
        return out

    return wide([h[0] for h in heads]), wide([h[1] for h in heads]), wide([h[2] for h in heads])


@right("stack_heads")
def stack_with_slices(heads):
    """Copies head by head into slices; a list out."""
    h = len(heads)
    d_k, d_model = heads[0][0].weight.shape
    result = []
    for role in range(3):
        big = nn.Linear(d_model, h * d_k, bias=heads[0][role].bias is not None)
        with torch.no_grad():
            for i in range(h):
                rows = slice(i * d_k, (i + 1) * d_k)
                big.weight[rows].copy_(heads[i][role].weight)
                if big.bias is not None:
                    big.bias[rows].copy_(heads[i][role].bias)
        result.append(big)
    return result


@right("stack_heads")
def stack_with_new_parameters(heads: list) -> tuple:
    """Replaces the parameters of new layers."""
    wide = []
    for group in zip(*heads, strict=True):
        layer = nn.Linear(group[0].in_features, sum(g.out_features for g in group), bias=False)
        layer.weight = nn.Parameter(torch.vstack([g.weight.detach().clone() for g in group]))
        if group[0].bias is not None:
            layer.bias = nn.Parameter(torch.hstack([g.bias.detach().clone() for g in group]))
        wide.append(layer)
    return tuple(wide)


@right("stack_heads")
def stack_with_state_dict(heads):
    """Through state dicts."""
    wq, wk, wv = [], [], []
    for q, k, v in heads:
        wq.append(q.state_dict())
        wk.append(k.state_dict())
        wv.append(v.state_dict())
    out = []
    for states in (wq, wk, wv):
        merged = {name: torch.cat([s[name] for s in states], dim=0) for name in states[0]}
        layer = nn.Linear(merged["weight"].shape[1], merged["weight"].shape[0], bias="bias" in merged)
        layer.load_state_dict(merged)
        out.append(layer)
    return tuple(out)


@right("stack_heads")
def stack_with_stack(heads):
    """stack and flatten."""
    roles = list(map(list, zip(*heads, strict=True)))
    linears = []
    for layers in roles:
        W = torch.stack([m.weight for m in layers]).flatten(0, 1).detach()
        linear = nn.Linear(W.shape[1], W.shape[0], layers[0].bias is not None)
        linear.weight.data = W.clone()
        if linear.bias is not None:
            linear.bias.data = torch.stack([m.bias for m in layers]).flatten().detach().clone()
        linears.append(linear)
    return linears[0], linears[1], linears[2]


@right("stack_heads")
def stack_grown(heads):
    """Grows the wide layers one head at a time from copies of the first."""
    grown = [copy.deepcopy(layer) for layer in heads[0]]
    for head in heads[1:]:
        for role, layer in enumerate(head):
            big = grown[role]
            big.weight = nn.Parameter(torch.cat([big.weight, layer.weight]).detach())
            if big.bias is not None:
                big.bias = nn.Parameter(torch.cat([big.bias, layer.bias]).detach())
            big.out_features += layer.out_features
    return tuple(grown)


# ---------------------------------------------------------------- torch_attention


@right("torch_attention")
def torch_attention_data(mha, q, k, v, mask=None):
    """Copies through .data."""
    twin = nn.MultiheadAttention(mha.wq.in_features, mha.h, batch_first=True, dropout=0.0)
    twin.in_proj_weight.data = torch.cat([mha.wq.weight.data, mha.wk.weight.data, mha.wv.weight.data])
    twin.in_proj_bias.data = torch.cat([mha.wq.bias.data, mha.wk.bias.data, mha.wv.bias.data])
    twin.out_proj.weight.data = mha.wo.weight.data.clone()
    twin.out_proj.bias.data = mha.wo.bias.data.clone()
    attn_mask = mask.logical_not() if mask is not None else None
    out, _weights = twin(q, k, v, attn_mask=attn_mask, need_weights=False)
    return out


@right("torch_attention")
def torch_attention_state_dict(mha, query, key, value, mask=None):
    """Through load_state_dict."""
    other = nn.MultiheadAttention(embed_dim=mha.wo.out_features, num_heads=mha.h, batch_first=True)
    other.load_state_dict(
        {
            "in_proj_weight": torch.vstack([mha.wq.weight, mha.wk.weight, mha.wv.weight]),
            "in_proj_bias": torch.hstack([mha.wq.bias, mha.wk.bias, mha.wv.bias]),
            "out_proj.weight": mha.wo.weight,
            "out_proj.bias": mha.wo.bias,
        }
    )
    other.eval()
    if mask is None:
        return other(query, key, value)[0]
    return other(query, key, value, attn_mask=~mask)[0]


@right("torch_attention")
def torch_attention_sequence_first(mha, q, k, v, mask=None):
    """The default layout, sequence first: axes swapped on the way in and out."""
    attention = nn.MultiheadAttention(q.shape[-1], mha.h)
    with torch.no_grad():
        for i, layer in enumerate((mha.wq, mha.wk, mha.wv)):
            d = q.shape[-1]
            attention.in_proj_weight[i * d : (i + 1) * d] = layer.weight
            attention.in_proj_bias[i * d : (i + 1) * d] = layer.bias
        attention.out_proj.weight.copy_(mha.wo.weight)
        attention.out_proj.bias.copy_(mha.wo.bias)
    blocked = None if mask is None else mask == False  # noqa: E712
    y, _ = attention(q.transpose(0, 1), k.transpose(0, 1), v.transpose(0, 1), attn_mask=blocked)
    return y.transpose(0, 1)


@right("torch_attention")
def torch_attention_functional(mha, q, k, v, mask=None):
    """F.multi_head_attention_forward, the function behind the module."""
    blocked = None if mask is None else ~mask
    out, _ = F.multi_head_attention_forward(
        q.transpose(0, 1),
        k.transpose(0, 1),
        v.transpose(0, 1),
        mha.wq.in_features,
        mha.h,
        torch.cat([mha.wq.weight, mha.wk.weight, mha.wv.weight]),
        torch.cat([mha.wq.bias, mha.wk.bias, mha.wv.bias]),
        None,
        None,
        False,
        0.0,
        mha.wo.weight,
        mha.wo.bias,
        training=False,
        attn_mask=blocked,
    )
    return out.transpose(0, 1)


@right("torch_attention")
def torch_attention_additive(mha, q, k, v, mask=None):
    """The mask as numbers to add: 0 and minus infinity."""
    twin = nn.MultiheadAttention(mha.wq.in_features, mha.h, batch_first=True)
    with torch.no_grad():
        twin.in_proj_weight.copy_(torch.cat([mha.wq.weight, mha.wk.weight, mha.wv.weight]))
        twin.in_proj_bias.copy_(torch.cat([mha.wq.bias, mha.wk.bias, mha.wv.bias]))
        twin.out_proj.weight.copy_(mha.wo.weight)
        twin.out_proj.bias.copy_(mha.wo.bias)
    added = None
    if mask is not None:
        added = torch.zeros(mask.shape, dtype=q.dtype).masked_fill(~mask, float("-inf"))
    return twin(q, k, v, attn_mask=added)[0]


@right("torch_attention")
def torch_attention_per_head_mask(mha, q, k, v, mask=None):
    """The mask repeated for every sample and head."""
    twin = nn.MultiheadAttention(mha.wq.in_features, mha.h, bias=True, batch_first=True).train(False)
    twin.in_proj_weight = nn.Parameter(torch.cat([mha.wq.weight, mha.wk.weight, mha.wv.weight]).detach())
    twin.in_proj_bias = nn.Parameter(torch.cat([mha.wq.bias, mha.wk.bias, mha.wv.bias]).detach())
    twin.out_proj.weight = nn.Parameter(mha.wo.weight.detach().clone())
    twin.out_proj.bias = nn.Parameter(mha.wo.bias.detach().clone())
    if mask is not None:
        mask = ~mask.expand(q.size(0) * mha.h, q.size(1), k.size(1))
    return twin(q, k, v, attn_mask=mask, average_attn_weights=False)[0]


@right("torch_attention")
def torch_attention_double(mha, q, k, v, mask=None):
    """nn.MultiheadAttention in double precision, cast back."""
    twin = nn.MultiheadAttention(mha.wq.in_features, mha.h, batch_first=True).double()
    with torch.no_grad():
        twin.in_proj_weight.copy_(torch.cat([mha.wq.weight, mha.wk.weight, mha.wv.weight]))
        twin.in_proj_bias.copy_(torch.cat([mha.wq.bias, mha.wk.bias, mha.wv.bias]))
        twin.out_proj.weight.copy_(mha.wo.weight)
        twin.out_proj.bias.copy_(mha.wo.bias)
    blocked = ~mask if mask is not None else None
    return twin(q.double(), k.double(), v.double(), attn_mask=blocked)[0].to(q.dtype)

"""The solutions against PyTorch's own attention: outputs, gradients, dtypes, lengths; that they compile."""

from __future__ import annotations

import ast
import copy
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from solutions.multi_head_attention import (
    MultiHeadAttention,
    init_attention_weights,
    merge_heads,
    split_heads,
    stack_heads,
    torch_attention,
)
from solutions.self_attention_v1 import (
    SelfAttentionV1,
    attention_parameters,
    attention_scores,
    dot_product_std,
    softmax,
)
from solutions.self_attention_v2 import SelfAttentionV2, fuse_projections, fused_xavier_ratio
from solutions.self_attention_v3 import (
    SelfAttentionV3,
    causal_mask,
    inverted_dropout,
    masked_softmax,
    padding_mask,
    repaired_weights,
)
from solutions.start_here import weighted_average

ROOT = Path(__file__).resolve().parent.parent
SIZES = [(2, 5, 7, 12, 3), (1, 4, 4, 8, 1), (3, 1, 6, 10, 5), (2, 6, 1, 8, 8)]  # B, L_q, L_k, d_model, h
TOLERANCES = {torch.float32: 1e-5, torch.float64: 1e-12, torch.bfloat16: 2e-2}
dtypes = pytest.mark.parametrize("dtype", TOLERANCES, ids=str)
sizes = pytest.mark.parametrize("size", SIZES, ids=str)


@pytest.fixture(autouse=True)
def _own_random_state() -> Iterator[None]:
    """Layers draw their weights from the global generator: each test gets its own, and leaves none behind."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        yield


def draw(*shape: int, dtype: torch.dtype = torch.float32, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed)).to(dtype)


def draw_mask(*shape: int) -> torch.Tensor:
    """A random mask in which every query may look at the first key."""
    mask = torch.rand(*shape, generator=torch.Generator().manual_seed(1)) > 0.4
    mask[..., 0] = True
    return mask


def assert_same(got: torch.Tensor, expected: torch.Tensor) -> None:
    tolerance = TOLERANCES[got.dtype]
    torch.testing.assert_close(got, expected, atol=tolerance, rtol=tolerance)


def assert_same_with_gradients(
    got: torch.Tensor, expected: torch.Tensor, got_from: list[torch.Tensor], expected_from: list[torch.Tensor]
) -> None:
    """Both outputs, and what both send back for the same gradient at the output."""
    assert_same(got, expected)
    upstream = draw(*got.shape, dtype=got.dtype, seed=9)
    ours = torch.autograd.grad(got, got_from, upstream)
    theirs = torch.autograd.grad(expected, expected_from, upstream)
    for one, other in zip(ours, theirs, strict=True):
        assert_same(one, other)


# --- single-head ---


def library_self_attention(
    x: torch.Tensor, q: nn.Linear, k: nn.Linear, v: nn.Linear, mask: torch.Tensor | None = None
) -> torch.Tensor:
    return F.scaled_dot_product_attention(q(x), k(x), v(x), attn_mask=mask)


@dtypes
@sizes
def test_v1_equals_the_library(size: tuple[int, ...], dtype: torch.dtype) -> None:
    B, L, _, d, _ = size
    layer = SelfAttentionV1(d).to(dtype)
    x = draw(B, L, d, dtype=dtype).requires_grad_()
    expected = library_self_attention(x, layer.query_proj, layer.key_proj, layer.value_proj)
    leaves = [
        x,
        layer.query_proj.weight,
        layer.key_proj.weight,
        layer.value_proj.weight,
        layer.value_proj.bias,
    ]
    assert_same_with_gradients(layer(x), expected, leaves, leaves)


@dtypes
@sizes
def test_v2_with_fused_weights_equals_v1(size: tuple[int, ...], dtype: torch.dtype) -> None:
    B, L, _, d, _ = size
    first, second = SelfAttentionV1(d).to(dtype), SelfAttentionV2(d).to(dtype)
    second.proj = fuse_projections(first.query_proj, first.key_proj, first.value_proj).to(dtype)
    x = draw(B, L, d, dtype=dtype).requires_grad_()
    assert_same_with_gradients(second(x), first(x), [x], [x])


@dtypes
@sizes
def test_v3_equals_the_library_under_a_mask(size: tuple[int, ...], dtype: torch.dtype) -> None:
    B, L, _, d, _ = size
    layer = SelfAttentionV3(d, dropout_rate=0.5).to(dtype).eval()
    x, mask = draw(B, L, d, dtype=dtype).requires_grad_(), draw_mask(B, L, L)
    q, k, v = layer.proj(x).split(d, dim=-1)
    expected = layer.output_proj(F.scaled_dot_product_attention(q, k, v, attn_mask=mask))
    leaves = [x, layer.proj.weight, layer.output_proj.weight, layer.output_proj.bias]
    assert_same_with_gradients(layer(x, mask), expected, leaves, leaves)


@pytest.mark.parametrize("kind", [torch.bool, torch.int64, torch.float32], ids=str)
def test_v3_takes_every_mask_that_the_contract_names(kind: torch.dtype) -> None:
    layer = SelfAttentionV3(8).eval()
    x, mask = draw(2, 5, 8), draw_mask(2, 5, 5)
    assert_same(layer(x, mask.to(kind)), layer(x, mask))
    assert not torch.allclose(layer(x, mask), layer(x))


def test_v3_drops_weights_in_training_only() -> None:
    layer = SelfAttentionV3(8, dropout_rate=0.5)
    x = draw(2, 5, 8)
    assert not torch.equal(layer.train()(x), layer(x))
    assert torch.equal(layer.eval()(x), layer(x))


# --- multi-head ---


def library_twin(layer: MultiHeadAttention) -> nn.MultiheadAttention:
    """nn.MultiheadAttention with copies of the layer's weights."""
    twin = nn.MultiheadAttention(layer.wq.in_features, layer.h, batch_first=True, dtype=layer.wq.weight.dtype)
    packed = {
        f"in_proj_{name}": torch.cat([getattr(part, name) for part in (layer.wq, layer.wk, layer.wv)]).detach()
        for name in ("weight", "bias")
    }
    twin.load_state_dict({**packed, **{f"out_proj.{name}": value for name, value in layer.wo.state_dict().items()}})
    return twin


@dtypes
@sizes
@pytest.mark.parametrize("masked", [False, True], ids=["no mask", "mask"])
def test_multi_head_equals_the_library(size: tuple[int, ...], dtype: torch.dtype, masked: bool) -> None:
    B, L_q, L_k, d_model, h = size
    layer = MultiHeadAttention(d_model, h).to(dtype)
    twin = library_twin(layer)
    q, k, v = (draw(B, L, d_model, dtype=dtype, seed=i).requires_grad_() for i, L in enumerate((L_q, L_k, L_k)))
    mask = draw_mask(L_q, L_k) if masked else None
    expected, _ = twin(q, k, v, attn_mask=None if mask is None else ~mask)
    ours = [q, k, v, layer.wv.weight, layer.wo.weight, layer.wo.bias]
    got = layer(q, k, v, mask)
    assert_same_with_gradients(got, expected, ours[:3] + ours[4:], [q, k, v, twin.out_proj.weight, twin.out_proj.bias])
    upstream = draw(*got.shape, dtype=dtype, seed=9)
    names = (layer.wq.weight, layer.wk.weight, layer.wv.weight)
    gradients = torch.autograd.grad(layer(q, k, v, mask), names, upstream)
    expected, _ = twin(q, k, v, attn_mask=None if mask is None else ~mask)
    assert_same(torch.cat(gradients), torch.autograd.grad(expected, twin.in_proj_weight, upstream)[0])


@sizes
def test_multi_head_takes_a_mask_for_each_sample_and_head(size: tuple[int, ...]) -> None:
    B, L_q, L_k, d_model, h = size
    layer = MultiHeadAttention(d_model, h)
    q, k, v = draw(B, L_q, d_model), draw(B, L_k, d_model, seed=1), draw(B, L_k, d_model, seed=2)
    mask = draw_mask(B, h, L_q, L_k)
    parts = (
        part(x).unflatten(-1, (h, -1)).transpose(1, 2) for part, x in ((layer.wq, q), (layer.wk, k), (layer.wv, v))
    )
    context = F.scaled_dot_product_attention(*parts, attn_mask=mask)  # (B, h, L_q, d_k)
    assert_same(layer(q, k, v, mask), layer.wo(context.transpose(1, 2).flatten(2)))
    assert_same(layer(q, k, v, mask.float()), layer(q, k, v, mask))


@pytest.mark.parametrize(("d_model", "h"), [(728, 12), (13, 3), (4, 8)])
def test_multi_head_refuses_heads_that_do_not_divide(d_model: int, h: int) -> None:
    with pytest.raises(ValueError, match=rf"{d_model}.*{h}"):
        MultiHeadAttention(d_model, h)


@pytest.mark.parametrize("h", [1, 4, 12])
def test_the_parameter_count_does_not_depend_on_the_heads(h: int) -> None:
    assert sum(p.numel() for p in MultiHeadAttention(768, h).parameters()) == 4 * 768**2 + 4 * 768 == 2_362_368


@sizes
def test_splitting_gives_each_head_its_slice_and_merging_takes_it_back(size: tuple[int, ...]) -> None:
    B, L, _, d_model, h = size
    x = draw(B, L, d_model)
    heads = split_heads(x, h)  # (B, h, L, d_k)
    for i, part in enumerate(x.chunk(h, dim=-1)):
        assert torch.equal(heads[:, i], part)
    assert torch.equal(merge_heads(heads), x)


@sizes
def test_stacked_heads_equal_the_loop(size: tuple[int, ...]) -> None:
    B, L, _, d_model, h = size
    d_k = d_model // h
    heads = [tuple(nn.Linear(d_model, d_k) for _ in range(3)) for _ in range(h)]
    wide = stack_heads(heads)
    x = draw(B, L, d_model)
    for stream, layer in enumerate(wide):
        assert_same(layer(x), torch.cat([head[stream](x) for head in heads], dim=-1))
    assert all(p.requires_grad and p.is_leaf for layer in wide for p in layer.parameters())


def test_stacking_and_fusing_keep_layers_without_bias_so() -> None:
    plain = [nn.Linear(6, 6, bias=False) for _ in range(3)]
    assert fuse_projections(*plain).bias is None
    assert [layer.bias for layer in stack_heads([tuple(plain), tuple(plain)])] == [None, None, None]


def test_initial_weights_fill_the_xavier_range_and_biases_are_zero() -> None:
    layer = MultiHeadAttention(64, 4)
    init_attention_weights(layer)
    bound = (6 / 128) ** 0.5
    for part in (layer.wq, layer.wk, layer.wv, layer.wo):
        assert 0.95 * bound < part.weight.abs().max() <= bound
        assert part.weight.std().item() == pytest.approx(bound / 3**0.5, rel=0.05)
        assert not part.bias.any()


@sizes
def test_torch_attention_is_the_same_function(size: tuple[int, ...]) -> None:
    B, L_q, L_k, d_model, h = size
    layer = MultiHeadAttention(d_model, h)
    q, k = draw(B, L_q, d_model), draw(B, L_k, d_model, seed=1)
    mask = draw_mask(L_q, L_k)
    assert_same(torch_attention(layer, q, k, k), layer(q, k, k))
    assert_same(torch_attention(layer, q, k, k, mask), layer(q, k, k, mask))


# --- the small functions ---


def test_scores_and_softmax_equal_the_library() -> None:
    q, k = draw(2, 5, 6, seed=3), draw(2, 7, 6, seed=4)
    identity = torch.eye(7).expand(2, 7, 7)
    assert_same(softmax(attention_scores(q, k)), F.scaled_dot_product_attention(q, k, identity))
    far = torch.tensor([[1000.0, -1000.0, 999.0]])
    assert_same(softmax(far), F.softmax(far, dim=-1))


def test_masked_weights_equal_the_library() -> None:
    scores, mask = draw(2, 5, 7), draw_mask(2, 5, 7)
    expected = F.softmax(scores + torch.zeros(2, 5, 7).masked_fill(~mask, float("-inf")), dim=-1)
    assert_same(masked_softmax(scores, mask), expected)
    assert_same(repaired_weights(scores, mask.long()), expected)


def test_masks_say_who_may_look() -> None:
    assert causal_mask(3).tolist() == [[True, False, False], [True, True, False], [True, True, True]]
    assert padding_mask(torch.tensor([2, 0]), 3).tolist() == [[[True, True, False]], [[False, False, False]]]


def test_inverted_dropout_keeps_the_mean() -> None:
    weights = torch.ones(100_000)
    dropped = inverted_dropout(weights, 0.25)
    assert dropped.unique().tolist() == pytest.approx([0, 1 / 0.75])
    assert dropped.mean().item() == pytest.approx(1, abs=0.01)
    assert torch.equal(inverted_dropout(weights, 0.25, training=False), weights)


def test_the_numbers_that_are_asked_for() -> None:
    assert attention_parameters(7) == sum(p.numel() for p in SelfAttentionV1(7).parameters())
    assert attention_parameters(7, bias=False) == 3 * 49
    products = (draw(100_000, 9, seed=5) * draw(100_000, 9, seed=6)).sum(-1)
    assert dot_product_std(9) == pytest.approx(products.std().item(), rel=0.02)
    fused, separate = torch.empty(3 * 256, 256), torch.empty(256, 256)
    nn.init.xavier_uniform_(fused)
    nn.init.xavier_uniform_(separate)
    assert fused_xavier_ratio() == pytest.approx((fused.std() / separate.std()).item(), rel=0.01)
    average = weighted_average(torch.tensor([[0.25, 0.75]]), torch.tensor([[4.0, 0.0], [0.0, 8.0]]))
    assert average.tolist() == [[1.0, 6.0]]


# --- the classes as code ---

CLASSES = {
    "SelfAttentionV1": lambda: SelfAttentionV1(12),
    "SelfAttentionV2": lambda: SelfAttentionV2(12),
    "SelfAttentionV3": lambda: SelfAttentionV3(12).eval(),
    "MultiHeadAttention": lambda: MultiHeadAttention(12, 3),
}


@pytest.mark.timeout(280)
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # the compiler's own
@pytest.mark.parametrize("name", CLASSES)
def test_every_class_compiles(name: str) -> None:
    if shutil.which("c++") is None and shutil.which("cl") is None:
        pytest.skip("torch.compile builds C++ code for the CPU, and this machine has no C++ compiler")
    layer = CLASSES[name]()
    x = draw(2, 5, 12)
    inputs = (x, x, x) if name == "MultiHeadAttention" else (x,)
    compiled = torch.compile(copy.deepcopy(layer), fullgraph=True)
    assert_same(compiled(*inputs), layer(*inputs))


def test_no_class_is_longer_than_forty_lines() -> None:
    long = {
        node.name: node.end_lineno - node.lineno + 1
        for file in sorted((ROOT / "solutions").glob("*.py"))
        for node in ast.parse(file.read_text("utf-8")).body
        if isinstance(node, ast.ClassDef) and node.end_lineno - node.lineno + 1 > 40
    }
    assert long == {}

"""The demonstrations: the sentence, the experiments, and the eye that sees weights inside any module."""

import math
import re
from pathlib import Path

import nbformat
import pytest
import torch
import torch.nn.functional as F
from torch import nn

from helpers import course, demo
from solutions.multi_head_attention import MultiHeadAttention, merge_heads, split_heads
from solutions.self_attention_v1 import SelfAttentionV1
from solutions.self_attention_v2 import SelfAttentionV2
from solutions.self_attention_v3 import SelfAttentionV3

NOTEBOOKS = Path(__file__).resolve().parents[1] / "notebooks"
SIZES = [(2, 5, 7, 12), (1, 1, 3, 4), (3, 4, 4, 4), (2, 6, 2, 9)]  # B, L_q, L_k, d


def draw(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed)).to(dtype)


def softmax_by_formula(q: torch.Tensor, k: torch.Tensor, scale: float | None = None) -> torch.Tensor:
    scores = q @ k.transpose(-2, -1) * (q.shape[-1] ** -0.5 if scale is None else scale)
    return scores.exp() / scores.exp().sum(dim=-1, keepdim=True)


# --- the sentence ---


@pytest.mark.parametrize("d", [1, 4, 8, 16, 64])
def test_the_sentence_has_one_embedding_for_each_token(d: int) -> None:
    tokens, x = demo.sentence(d)
    assert x.shape == (1, len(tokens), d)
    torch.testing.assert_close(x.square().mean(dim=-1), torch.ones(1, len(tokens)))


def test_the_sentence_depends_on_its_seed_alone() -> None:
    assert torch.equal(demo.sentence(16, seed=3)[1], demo.sentence(16, seed=3)[1])
    assert not torch.equal(demo.sentence(16, seed=3)[1], demo.sentence(16, seed=4)[1])


@pytest.mark.parametrize("seed", range(5))
def test_words_of_one_kind_are_near_each_other(seed: int) -> None:
    tokens, x = demo.sentence(16, seed)
    alike = (x[0] @ x[0].T).fill_diagonal_(-math.inf)
    assert tokens[alike[tokens.index("it")].argmax()] == "cat"
    assert tokens[alike[tokens.index("ate")].argmax()] == "sleeps"


def test_a_sentence_without_width_is_refused() -> None:
    with pytest.raises(ValueError, match="at least 1, not 0"):
        demo.sentence(0)


@pytest.mark.parametrize("d", [6, 16, 33])
@pytest.mark.parametrize("seed", range(4))
def test_the_layers_make_attention_that_can_be_read(d: int, seed: int) -> None:
    tokens, x = demo.sentence(d, seed)
    to_query, to_key, _ = demo.projections(d, seed)
    weights = demo.attention_weights(to_query(x), to_key(x))[0]
    looked_at = {word: tokens[weights[row].argmax()] for row, word in enumerate(tokens)}
    assert looked_at["it"] == looked_at["the"] == looked_at["sleeps"] == "cat"
    both_verbs = weights[tokens.index("because")].topk(2).indices.tolist()
    assert {tokens[i] for i in both_verbs} == {"sleeps", "ate"}


def test_layers_narrower_than_the_sentence_are_refused() -> None:
    with pytest.raises(ValueError, match="at least 6"):
        demo.projections(5)


def test_the_readable_weights_go_into_a_copy() -> None:
    module = SelfAttentionV1(16)
    before = {name: tensor.clone() for name, tensor in module.state_dict().items()}
    twin = demo.with_projections(module)
    torch.testing.assert_close(twin.query_proj.weight, demo.projections()[0].weight)
    assert all(torch.equal(tensor, before[name]) for name, tensor in module.state_dict().items())


def test_a_module_with_other_names_comes_back_as_a_copy() -> None:
    module = SelfAttentionV2(16)
    twin = demo.with_projections(module)
    assert twin is not module
    assert torch.equal(twin.proj.weight, module.proj.weight)


# --- right weights, wrong weights ---


@pytest.mark.parametrize(("B", "L_q", "L_k", "d"), SIZES)
@pytest.mark.parametrize("scale", [None, 1.0, 0.1])
def test_attention_weights_follow_the_formula(B: int, L_q: int, L_k: int, d: int, scale: float | None) -> None:
    q, k = draw(B, L_q, d), draw(B, L_k, d, seed=1)
    torch.testing.assert_close(demo.attention_weights(q, k, scale=scale), softmax_by_formula(q, k, scale))
    torch.testing.assert_close(demo.attention_weights(q[0], k[0], scale=scale), softmax_by_formula(q, k, scale)[0])


@pytest.mark.parametrize("dtype", [torch.bool, torch.int64, torch.float32])
def test_hidden_keys_get_no_weight(dtype: torch.dtype) -> None:
    q, k = draw(2, 3, 5, 4), draw(2, 3, 6, 4, seed=1)
    mask = torch.ones(5, 6, dtype=torch.bool).tril()
    weights = demo.attention_weights(q, k, mask=mask.to(dtype))
    assert (weights[..., ~mask] == 0).all()
    torch.testing.assert_close(weights.sum(dim=-1), torch.ones(2, 3, 5))


def test_the_score_path_ends_in_the_weights() -> None:
    q, k = draw(2, 5, 12), draw(2, 7, 12, seed=1)
    scores, scaled, weights = demo.score_path(q, k)
    torch.testing.assert_close(scores, q @ k.transpose(-2, -1))
    torch.testing.assert_close(scaled, scores / math.sqrt(12))
    torch.testing.assert_close(weights, scaled.softmax(dim=-1))


def test_over_the_wrong_axis_the_columns_sum_to_one() -> None:
    q, k = draw(5, 12), draw(7, 12, seed=1)
    wrong = demo.wrong_axis_weights(q, k)
    torch.testing.assert_close(wrong, (q @ k.T / math.sqrt(12)).softmax(dim=0))
    assert (wrong.sum(dim=-1) - 1).abs().max() > 0.1


# --- experiments ---


def test_the_scale_experiment_shows_what_the_scale_is_for() -> None:
    widths = [16, 64, 256, 1024]
    stds, entropies = demo.scale_experiment(widths)
    assert list(stds) == list(entropies) == [demo.NO_SCALE, demo.BY_ROOT, demo.BY_WIDTH]
    for d, none, root, width in zip(widths, *stds.values(), strict=True):
        assert none == pytest.approx(math.sqrt(d), rel=0.05)
        assert root == pytest.approx(1, rel=0.05)
        assert width == pytest.approx(1 / math.sqrt(d), rel=0.05)
    assert entropies[demo.NO_SCALE] == sorted(entropies[demo.NO_SCALE], reverse=True)
    assert max(entropies[demo.BY_ROOT]) - min(entropies[demo.BY_ROOT]) < 0.1
    assert entropies[demo.BY_WIDTH][-1] == pytest.approx(math.log(64), abs=0.01)


def test_without_a_scale_the_gradient_fades() -> None:
    norms = demo.gradient_experiment([16, 1024])
    assert norms[demo.NO_SCALE][1] < norms[demo.NO_SCALE][0] / 2
    assert norms[demo.BY_ROOT][1] == pytest.approx(norms[demo.BY_ROOT][0], rel=0.1)


def test_the_two_parts_of_the_cost_follow_their_formulas() -> None:
    assert demo.attention_flops(7, 12) == (6 * 7 * 12**2, 4 * 7**2 * 12)


@pytest.mark.parametrize(
    "call",
    [
        demo.sentence,
        demo.projections,
        lambda: demo.with_projections(PLAIN_MODULE),
        lambda: demo.scale_experiment([16]),
        lambda: demo.gradient_experiment([16]),
        lambda: demo.attention_flops(4, 8),
        lambda: demo.watch_weights(PLAIN_MODULE, draw(1, 5, 16)),
    ],
)
def test_the_global_random_state_is_left_alone(call) -> None:
    before = torch.get_rng_state()
    call()
    assert torch.equal(torch.get_rng_state(), before)


PLAIN_MODULE = SelfAttentionV1(16)


# --- watching weights ---


def by_sum(scores: torch.Tensor) -> torch.Tensor:
    exponentials = (scores - scores.amax(dim=-1, keepdim=True)).exp()
    return exponentials / exponentials.sum(dim=-1, keepdim=True)


def in_place(scores: torch.Tensor) -> torch.Tensor:
    exponentials = scores.exp()
    exponentials /= exponentials.sum(dim=-1, keepdim=True)
    return exponentials


def by_log(scores: torch.Tensor) -> torch.Tensor:
    return (scores - scores.logsumexp(dim=-1, keepdim=True)).exp()


@pytest.mark.parametrize(
    "softmax",
    [
        lambda scores: scores.softmax(dim=-1),
        lambda scores: F.softmax(scores, dim=-1),
        nn.Softmax(dim=-1),
        by_sum,
        in_place,
        by_log,
    ],
)
@pytest.mark.parametrize(("B", "L", "d"), [(2, 5, 12), (1, 4, 4), (3, 2, 6)])
def test_weights_are_seen_however_the_softmax_is_written(softmax, B: int, L: int, d: int) -> None:
    x = draw(B, L, d)

    def layer(x: torch.Tensor) -> torch.Tensor:
        scores = torch.einsum("bid,bjd->bij", x, x) / math.sqrt(d)
        return torch.einsum("bij,bjd->bid", softmax(scores), x)

    torch.testing.assert_close(demo.watch_weights(layer, x), softmax_by_formula(x, x))


def test_heads_are_seen_together() -> None:
    mha = MultiHeadAttention(12, 3)
    q, kv = draw(2, 5, 12), draw(2, 7, 12, seed=1)
    expected = softmax_by_formula(split_heads(mha.wq(q), 3), split_heads(mha.wk(kv), 3))
    torch.testing.assert_close(demo.watch_weights(mha, q, kv, kv), expected.detach())
    torch.testing.assert_close(demo.watch_weights(mha, q=q, k=kv, v=kv), expected.detach())


def test_heads_win_against_their_mean() -> None:
    def layer(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        heads = split_heads(x, 3)
        weights = (heads @ heads.transpose(-2, -1)).softmax(dim=-1)
        return merge_heads(weights @ heads), weights.mean(dim=1)

    assert demo.watch_weights(layer, draw(2, 5, 12)).shape == (2, 3, 5, 5)


def test_a_loop_over_heads_shows_its_last_head() -> None:
    x = draw(2, 5, 12)

    def layer(x: torch.Tensor) -> torch.Tensor:
        parts = x.chunk(3, dim=-1)
        return torch.cat([by_sum(part @ part.transpose(-2, -1)) @ part for part in parts], dim=-1)

    last = x[..., 8:]
    torch.testing.assert_close(demo.watch_weights(layer, x), softmax_by_formula(last, last, scale=1.0))


def test_hidden_keys_and_empty_rows_are_seen_as_they_are() -> None:
    layer = SelfAttentionV3(12)
    mask = torch.ones(5, 5).tril()
    mask[2] = 0  # nothing to look at
    weights = demo.watch_weights(layer, draw(2, 5, 12), attention_mask=mask)
    assert weights[:, 2].isnan().all()
    assert (weights[:, 1, 2:] == 0).all()


@pytest.mark.parametrize("shape", [(5, 5), (2, 1, 5), (1, 5, 5)])
def test_a_mask_of_floats_does_not_confuse_the_lengths(shape: tuple[int, ...]) -> None:
    layer = SelfAttentionV3(5)  # the width equals the length
    weights = demo.watch_weights(layer, draw(2, 5, 5), torch.ones(shape))
    assert weights.shape == (2, 5, 5)


def test_dropout_is_off_while_watching_and_the_modes_come_back() -> None:
    layer = SelfAttentionV3(12, dropout_rate=0.5).train()
    layer.output_proj.eval()
    weights = demo.watch_weights(layer, draw(2, 5, 12))
    torch.testing.assert_close(weights.sum(dim=-1), torch.ones(2, 5))
    assert layer.training
    assert layer.attention_dropout.training
    assert not layer.output_proj.training


def test_the_modes_come_back_after_an_exception() -> None:
    layer = SelfAttentionV1(12).train()
    with pytest.raises(RuntimeError):
        demo.watch_weights(layer, draw(2, 5, 13))
    assert layer.training


def test_the_copy_is_not_touched_by_what_the_module_does_later() -> None:
    x = draw(2, 5, 12)

    def layer(x: torch.Tensor) -> torch.Tensor:
        weights = (x @ x.transpose(-2, -1)).softmax(dim=-1)
        return weights.mul_(0) @ x

    weights = demo.watch_weights(layer, x)
    assert not weights.requires_grad
    torch.testing.assert_close(weights, softmax_by_formula(x, x, scale=1.0))


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16, torch.float16])
def test_weights_are_seen_in_other_precisions(dtype: torch.dtype) -> None:
    weights = demo.watch_weights(SelfAttentionV1(12).to(dtype), draw(2, 5, 12, dtype=dtype))
    assert weights.shape == (2, 5, 5)
    assert weights.dtype == dtype


def test_what_pytorchs_own_layer_hands_back_is_seen() -> None:
    layer = nn.MultiheadAttention(12, 3, batch_first=True)
    x = draw(2, 5, 12)
    expected = layer(x, x, x)[1].detach()
    torch.testing.assert_close(demo.watch_weights(layer, x, x, x), expected)


@pytest.mark.parametrize(
    "layer",
    [
        lambda x: F.scaled_dot_product_attention(x, x, x),
        lambda x: (x @ x.transpose(-2, -1)).softmax(dim=-2) @ x,
        lambda x: x,
    ],
)
def test_weights_that_cannot_be_seen_are_said_so(layer) -> None:
    with pytest.raises(ValueError, match="No attention weights were seen"):
        demo.watch_weights(layer, draw(2, 5, 12))


def test_without_a_tensor_there_is_nothing_to_watch() -> None:
    with pytest.raises(ValueError, match="Give watch_weights the tensors"):
        demo.watch_weights(lambda x: x, 3)


# --- the map of the course ---


def test_the_map_in_start_here_says_what_the_course_declares() -> None:
    notebook = nbformat.read(NOTEBOOKS / "00_start_here.ipynb", as_version=4)
    text = next(cell.source for cell in notebook.cells if cell.id == "map")
    rows = re.findall(r"^\| `(\w+)` \|[^|]*\| (\d+) \| (\d+) \|$", text, re.MULTILINE)
    declared = []
    for stem in course.NOTEBOOKS:
        tasks = [task for task in course.EXERCISES if task.notebook == stem]
        declared.append((stem, str(sum(task.points for task in tasks)), str(sum(task.minutes for task in tasks))))
    assert rows == declared
    totals = re.search(r"^\| \*\*all\*\* \| \| \*\*(\d+)\*\* \| \*\*(\d+)\*\* \|$", text, re.MULTILINE)
    assert totals is not None
    assert totals.groups() == tuple(str(sum(int(row[i]) for row in rows)) for i in (1, 2))

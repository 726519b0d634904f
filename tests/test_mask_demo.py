"""The experiments of notebook 03 show what the notebook says about them."""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn

from helpers import mask_demo
from helpers.mask_demo import PAD


def some_x(length: int, d: int = 16, seed: int = 1) -> torch.Tensor:
    return torch.randn(1, length, d, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("length", [1, 2, 5])
def test_the_causal_mask_lets_a_query_see_itself_and_what_is_before(length: int) -> None:
    mask = mask_demo.causal(length)
    assert mask.dtype == torch.bool
    assert mask.tolist() == [[key <= query for key in range(length)] for query in range(length)]


def test_the_padding_mask_hides_the_fill_wherever_it_stands() -> None:
    mask = mask_demo.padding([["a", "b", "c"], [PAD, PAD, PAD], ["a", PAD, PAD], [PAD, PAD, "c"]])
    assert mask.shape == (4, 1, 3)
    assert mask[:, 0].tolist() == [[True] * 3, [False] * 3, [True, False, False], [False, False, True]]


@pytest.mark.parametrize(("batch", "said"), [([["a"], ["a", "b"]], r"\[1, 2\]"), ([], r"\[\]")])
def test_the_padding_mask_wants_sentences_of_one_length(batch: list[list[str]], said: str) -> None:
    with pytest.raises(ValueError, match=f"must have one length; these have {said}"):
        mask_demo.padding(batch)


@pytest.mark.parametrize("length", [1, 4, 6])
def test_moved_finds_the_causal_mask_of_a_layer(length: int) -> None:
    layer = mask_demo.LibraryAttention(16)
    assert mask_demo.moved(layer, some_x(length)).all()
    assert torch.equal(mask_demo.moved(layer, some_x(length), mask_demo.causal(length)), mask_demo.causal(length))


def test_moved_shows_that_padding_is_heard_by_itself_only() -> None:
    mask = mask_demo.padding([["a", "b", "c", "d", PAD, PAD]])
    seen = mask_demo.moved(mask_demo.LibraryAttention(16), some_x(6), mask)
    assert torch.equal(seen, mask[0] | torch.eye(6, dtype=torch.bool))


def test_moved_leaves_the_layer_and_its_mode_alone() -> None:
    layer = mask_demo.LibraryAttention(16, dropout_rate=0.5)
    before = {name: weight.clone() for name, weight in layer.state_dict().items()}
    mask_demo.moved(layer, some_x(4))
    assert layer.training
    assert all(torch.equal(weight, before[name]) for name, weight in layer.state_dict().items())


def test_moved_puts_the_mode_back_when_the_layer_fails() -> None:
    class Failing(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            raise RuntimeError("on purpose")

    layer = Failing()
    with pytest.raises(RuntimeError, match="on purpose"):
        mask_demo.moved(layer, some_x(4))
    assert layer.training


def test_moved_takes_the_output_where_the_weights_are_returned_too() -> None:
    inner = mask_demo.LibraryAttention(16)
    seen = mask_demo.moved(lambda x, mask: (inner(x, mask), "weights"), some_x(5), mask_demo.causal(5))
    assert torch.equal(seen, mask_demo.causal(5))


def test_repeats_differ_in_training_only() -> None:
    layer = mask_demo.LibraryAttention(16, dropout_rate=0.5)
    assert list(mask_demo.repeats(layer, some_x(6)).values()) == [False, True]
    assert layer.training
    assert list(mask_demo.repeats(mask_demo.LibraryAttention(16), some_x(6)).values()) == [True, True]


def test_moved_wants_one_sample() -> None:
    with pytest.raises(ValueError, match=r"one sample: x must be \(1, L, d\), not \(2, 3, 16\)"):
        mask_demo.moved(mask_demo.LibraryAttention(16), torch.zeros(2, 3, 16))


def test_a_mask_with_empty_rows_is_no_move() -> None:
    def attend(x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        scores = torch.einsum("bid,bjd->bij", x, x)
        return mask_demo.filled_weights(scores, mask, -math.inf) @ x

    left = mask_demo.causal(4) & mask_demo.padding([[PAD, "b", "c", "d"]])  # (1, 4, 4), row 0 is empty
    seen = mask_demo.moved(attend, some_x(4), left)
    assert not seen[0].any()


def test_the_tutorials_fill_leaks_and_minus_infinity_does_not() -> None:
    scores, mask = mask_demo.random_scores(6), mask_demo.causal(6)
    buggy = mask_demo.tutorial_weights(scores, mask)
    assert torch.allclose(buggy.sum(dim=-1), torch.ones(6))
    assert mask_demo.leaked(buggy, mask) > 0.5
    assert mask_demo.leaked(mask_demo.filled_weights(scores, mask, -math.inf), mask) == 0


def test_zeroed_weights_keep_the_mask_but_not_the_sum() -> None:
    mask = mask_demo.causal(6)
    weights = mask_demo.zeroed_weights(mask_demo.random_scores(6), mask)
    assert mask_demo.leaked(weights, mask) == 0
    assert (weights.sum(dim=-1)[:-1] < 0.99).all()


def test_the_leak_table_names_what_half_precision_cannot_hold() -> None:
    table = mask_demo.leak_table(mask_demo.causal(6), [1e-20, -10, -1e9, "finfo.min", -math.inf], [1, 20])
    rows = {row[0]: row[1:] for row in table.rows}
    assert table.header[1:] == (
        "float32, spread 1", "float32, spread 20", "float16, spread 1", "float16, spread 20",
    )  # fmt: skip
    assert rows["-1e+09"] == ("0", "0", "error: does not fit", "error: does not fit")
    assert rows["finfo.min"] == rows["-inf"] == ("0", "0", "0", "0")
    assert float(rows["-10"][0]) < 0.01 < 0.9 < float(rows["-10"][1])
    assert float(rows["1e-20"][0]) > 0.5


def test_every_wrong_mask_has_its_own_pattern() -> None:
    table = mask_demo.hidden_key_table()
    pattern = {way: (float(key) > 0, float(value) > 0) for way, _, key, value in table.rows}
    assert pattern == {
        "no mask": (True, True),
        "1e-20 before softmax": (False, True),
        "0 after softmax": (True, False),
        "-inf before softmax": (False, False),
    }


def test_an_empty_row_gives_nan_zeros_or_the_mean() -> None:
    assert {row[0]: row[1:] for row in mask_demo.empty_row_table().rows} == {
        "-inf": ("NaN", "NaN"),
        "-inf, NaN replaced in the output": ("zeros", "NaN"),
        "-inf, NaN replaced in the weights": ("zeros", "finite"),
        "-1e9": ("the mean of all values", "finite"),
        "PyTorch's own function": ("zeros", "finite"),
    }


def test_draws_repeat_and_leave_the_global_state() -> None:
    dropout, ones = nn.Dropout(0.5), torch.ones(4, 5)
    state = torch.random.get_rng_state()
    first = mask_demo.draws(lambda: dropout(ones), 3, seed=2)
    assert first.shape == (3, 4, 5)
    assert torch.equal(first, mask_demo.draws(lambda: dropout(ones), 3, seed=2))
    assert not torch.equal(first, mask_demo.draws(lambda: dropout(ones), 3, seed=3))
    assert torch.equal(state, torch.random.get_rng_state())


def test_dropped_weights_are_zero_or_as_they_were() -> None:
    ones = torch.ones(20, 30)
    dropped = mask_demo.draws(lambda: mask_demo.dropped_weights(ones, 0.3), 5)
    assert torch.allclose(dropped, dropped.round())
    assert dropped.mean().item() == pytest.approx(0.7, abs=0.05)


def test_dropout_spreads_equal_clues_and_leaves_a_clear_one() -> None:
    state, threads = torch.random.get_rng_state(), torch.get_num_threads()
    largest, spread = mask_demo.leaning([0.0, 0.5], seeds=[0])
    equal, clear = largest[mask_demo.EQUAL_CLUES], largest[mask_demo.ONE_CLEAR_CLUE]
    assert equal[1] < 0.6 * equal[0]
    assert clear[1] > 0.8 * clear[0]
    assert spread[mask_demo.EQUAL_CLUES] == [equal, equal]
    assert torch.equal(state, torch.random.get_rng_state())
    assert threads == torch.get_num_threads()


def test_in_a_deep_stack_a_smaller_branch_does_most_of_what_the_projection_does() -> None:
    losses, spread = mask_demo.deep_stack(depth=12, steps=75, seeds=[0])
    last = {kind: values[-1] for kind, values in losses.items()}
    assert last[mask_demo.LEARNED] < last[mask_demo.ONLY_SMALLER] < 0.3 < 1 < last[mask_demo.LEFT_OUT]
    assert spread[mask_demo.LEARNED] == [losses[mask_demo.LEARNED]] * 2


def test_normalising_closes_most_of_the_gap() -> None:
    plain, _ = mask_demo.deep_stack(depth=12, steps=75, seeds=[0])
    normal, _ = mask_demo.deep_stack(depth=12, steps=75, seeds=[0], norm=True)
    gaps = [losses[mask_demo.LEFT_OUT][-1] - losses[mask_demo.LEARNED][-1] for losses in (plain, normal)]
    assert gaps[1] < 0.6 * gaps[0]


def test_a_table_shows_itself_as_text_and_as_markdown() -> None:
    table = mask_demo.Table(("fill", "leak"), (("0", "0.72"), ("-inf", "0")))
    assert repr(table) == "fill  leak\n0     0.72\n-inf  0"
    assert table._repr_markdown_() == "| fill | leak |\n| --- | --- |\n| 0 | 0.72 |\n| -inf | 0 |"

"""The small training run: a right layer learns, a wrong one learns nothing, or hides what it learned."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from helpers import training
from solutions.multi_head_attention import MultiHeadAttention


def anti_diagonal(weights: torch.Tensor) -> torch.Tensor:
    """(h, L, L) → (h,): the mean weight that position i gives to position L - 1 - i."""
    return weights.flip(-1).diagonal(dim1=-2, dim2=-1).mean(-1)


@pytest.mark.parametrize("build", [MultiHeadAttention, training.LibraryAttention])
def test_a_right_layer_learns_and_its_attention_can_be_read(build: training.Build) -> None:
    lesson = training.learn_to_reverse(build)
    assert lesson.accuracy == 1
    assert lesson.answer == lesson.letters[::-1]
    assert lesson.losses[0] == pytest.approx(training.CHANCE, abs=0.1)
    assert lesson.losses[-1] < 0.05
    assert (anti_diagonal(lesson.before) < 0.3).all()
    assert (anti_diagonal(lesson.after) > 0.8).all()


def test_heads_cut_by_view_never_get_beyond_guessing() -> None:
    lesson = training.learn_to_reverse(training.HeadsCutByView)
    assert lesson.losses[-1] == pytest.approx(training.CHANCE, abs=0.1)
    assert lesson.accuracy < 0.2
    assert (anti_diagonal(lesson.after) < 0.3).all()


def test_heads_joined_by_view_learn_but_their_attention_does_not_show_it() -> None:
    lesson = training.learn_to_reverse(training.HeadsJoinedByView)
    assert lesson.accuracy == 1
    assert (anti_diagonal(lesson.after) < 0.3).all()


def test_heads_cut_by_view_see_only_their_half_of_the_tokens() -> None:
    half = torch.ones(4, 4, dtype=torch.bool)
    assert torch.equal(training.reach(training.HeadsCutByView), torch.block_diag(half, half).bool())
    assert training.reach(MultiHeadAttention).all()


def test_the_same_seed_gives_the_same_run_and_leaves_the_random_state_alone() -> None:
    before = torch.get_rng_state()
    first, again = (training.learn_to_reverse(MultiHeadAttention, steps=3) for _ in range(2))
    other = training.learn_to_reverse(MultiHeadAttention, steps=3, seed=1)
    training.reach(MultiHeadAttention)
    assert first.losses == again.losses
    assert torch.equal(first.after, again.after)
    assert first.losses != other.losses
    assert torch.equal(torch.get_rng_state(), before)


def test_progress_is_told_until_the_last_step() -> None:
    said: list[tuple[int, int, str]] = []
    training.learn_to_reverse(MultiHeadAttention, steps=20, progress=lambda *news: said.append(news))
    assert [news[:2] for news in said] == [(step, 20) for step in range(2, 21, 2)]
    assert all(news[2].startswith("loss ") for news in said)


def test_a_layer_may_hand_back_its_weights_too() -> None:
    class Both(MultiHeadAttention):
        def forward(self, q, k, v, mask=None):
            output = super().forward(q, k, v, mask)
            return output, torch.full((len(q), self.h, q.shape[1], k.shape[1]), 1 / k.shape[1])

    lesson = training.learn_to_reverse(Both, steps=2)
    assert lesson.before.shape == (2, 8, 8)


def test_no_steps_is_refused_in_words() -> None:
    with pytest.raises(ValueError, match="at least 1"):
        training.learn_to_reverse(MultiHeadAttention, steps=0)


def test_a_layer_that_hides_its_weights_is_told_so() -> None:
    class Mean(nn.Module):
        def __init__(self, d_model: int, h: int):
            super().__init__()

        def forward(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
            return q + v.mean(dim=1, keepdim=True)

    with pytest.raises(ValueError, match="No attention weights were seen"):
        training.learn_to_reverse(Mean, steps=1)


def test_xavier_keeps_the_gradient_of_a_plain_stack_and_small_weights_lose_it() -> None:
    def small(weight: torch.Tensor) -> torch.Tensor:
        return nn.init.normal_(weight, std=0.02)

    kept = training.gradient_by_depth(nn.init.xavier_uniform_, [1, 8])
    lost = training.gradient_by_depth(small, [1, 8])
    assert kept[1] > 0.1 * kept[0]
    assert lost[1] < 1e-6 * lost[0]
    assert training.gradient_by_depth(small, [8], residual=True) == [pytest.approx(1, abs=0.05)]


def test_measuring_gradients_leaves_the_random_state_alone() -> None:
    before = torch.get_rng_state()
    training.gradient_by_depth(nn.init.xavier_uniform_, [1])
    assert torch.equal(torch.get_rng_state(), before)


def test_a_line_of_progress_can_be_read(capsys: pytest.CaptureFixture[str]) -> None:
    training.print_progress(3, 10, "loss 0.5")
    assert capsys.readouterr().out == "   3 of 10   loss 0.5\n"

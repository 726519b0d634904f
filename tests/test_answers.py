"""The judge on a thousand answers as learners write them: all right ones pass, all wrong ones are refused and named."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

from helpers.judge import Verdict, check_answer
from tests import answers

answers.load()

# Wrong answers that are refused without the name that their author had in mind, and why.
UNNAMED = {
    (
        "SelfAttentionV2",
        "SharedBlockInvertedScale",
    ): "two mistakes that end in a one-hot: another pair has the same numbers",
    ("SelfAttentionV3", "MaskOfTheFirstLength"): "raises at another length in a product, whatever the cause",
    ("masked_softmax", "masked_two_mistakes"): "pairs are recorded for the classes only",
    ("fuse_projections", "fuse_wrong_axis"): "raises where the learner copies, before any number is there",
    ("torch_attention", "torch_batch_second"): "raises where the learner reshapes, before any number is there",
    ("MultiHeadAttention", "SquareMaskExpanded"): "the error says only that the mask does not fit",
    ("MultiHeadAttention", "MaskKeptFromTheFirstCall"): "the error says only that the mask does not fit",
    ("MultiHeadAttention", "DefaultSquareMask"): "raises without any mask given",
    ("MultiHeadAttention", "ReadsTheNotebooksSizes"): "the sizes of its notebook happen to be sizes of the probes",
}


def _name(entry: tuple[Any, ...]) -> str:
    return f"{entry[0]}-{entry[1].__name__}"


def _ids(verdict: Verdict) -> set[str]:
    """The ids of the findings, and of the twins that a message lists."""
    named = {finding.id for finding in verdict.findings if finding.severity != "note"}
    for finding in verdict.findings:
        twins = re.search(r"The same numbers come from: (.*)\.$", finding.message)
        named |= set(twins[1].split(", ")) if twins else set()
    return named


@pytest.mark.parametrize(("exercise", "answer", "note"), answers.RIGHT, ids=map(_name, answers.RIGHT))
def test_a_right_answer_passes_however_it_is_written(exercise: str, answer: Callable, note: str | None) -> None:
    verdict = check_answer(answer, exercise)
    assert verdict.passed, verdict
    assert verdict.points == verdict.max_points


@pytest.mark.parametrize(("exercise", "answer", "ids"), answers.WRONG, ids=map(_name, answers.WRONG))
def test_a_wrong_answer_is_refused_and_named(exercise: str, answer: Callable, ids: tuple[str, ...]) -> None:
    verdict = check_answer(answer, exercise)
    assert verdict.status in ("wrong", "error")
    assert verdict.points < verdict.max_points
    assert verdict.findings
    if ids and (exercise, answer.__name__) not in UNNAMED:
        assert _ids(verdict) & set(ids), verdict


def test_nine_in_ten_are_named() -> None:
    nameable = [entry for entry in answers.WRONG if entry[2]]
    assert len(UNNAMED) < 0.1 * len(nameable)
    assert set(UNNAMED) <= {(exercise, answer.__name__) for exercise, answer, _ in nameable}


@pytest.mark.parametrize("exercise", ["SelfAttentionV1", "SelfAttentionV2", "SelfAttentionV3", "MultiHeadAttention"])
def test_there_are_at_least_25_right_variants_of_each_class(exercise: str) -> None:
    assert sum(entry[0] == exercise for entry in answers.RIGHT) >= 25

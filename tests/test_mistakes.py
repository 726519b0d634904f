"""The bank of known wrong answers: each is refused, and named as itself or as a twin with the very same numbers."""

from __future__ import annotations

from itertools import combinations
from pathlib import Path
from typing import Any

import pytest

from helpers.course import EXERCISES
from helpers.judge import check_answer
from helpers.judge.matrix import as_markdown, matrix, names_in
from solutions import mistakes
from solutions.mistakes.catalogue import CATALOGUE
from solutions.mistakes.steps import build

mistakes.load_all()

CLASS_CASES = [(exercise, variant) for variant in mistakes.VARIANTS for exercise in variant.exercises]
PAGE = Path(__file__).parents[1] / "docs" / "mistakes.md"


def _class_id(case: tuple[str, Any]) -> str:
    return f"{case[0]}-{case[1].label}"


@pytest.mark.parametrize("case", CLASS_CASES, ids=map(_class_id, CLASS_CASES))
def test_a_known_mistake_in_a_class_is_named(case: tuple[str, Any]) -> None:
    exercise, variant = case
    verdict = check_answer(build(exercise, variant), exercise)
    assert not verdict.passed
    assert matrix()[variant.id][exercise].startswith(("named", "twin")), verdict


@pytest.mark.parametrize(
    "wrong",
    mistakes.WRONG_FUNCTIONS,
    ids=[f"{wrong.exercise}-{wrong.id}-{number}" for number, wrong in enumerate(mistakes.WRONG_FUNCTIONS)],
)
def test_a_known_wrong_function_is_refused(wrong: Any) -> None:
    assert not check_answer(wrong.function, wrong.exercise).passed


def _pairs(exercise: str) -> list[tuple[Any, Any]]:
    """Every twentieth pair of mistakes that replace different steps."""
    variants = [v for v in mistakes.VARIANTS if exercise in v.exercises and not v.twin]
    pairs = [(a, b) for a, b in combinations(variants, 2) if a.id != b.id and not set(a.steps) & set(b.steps)]
    return pairs[::20]


@pytest.mark.parametrize("exercise", ["SelfAttentionV1", "SelfAttentionV2", "SelfAttentionV3", "MultiHeadAttention"])
def test_two_mistakes_at_once_are_refused_and_one_is_mostly_named(exercise: str) -> None:
    pairs, named = _pairs(exercise), 0
    for a, b in pairs:
        verdict = check_answer(build(exercise, a, b), exercise)
        assert not verdict.passed, (a.label, b.label)
        ids, twins = names_in(verdict)
        named += bool({a.id, b.id} & {*ids, *twins})
    assert named >= 0.9 * len(pairs), f"{named} of {len(pairs)}"


def test_every_id_has_its_words() -> None:
    used = {variant.id for variant in mistakes.VARIANTS} | {wrong.id for wrong in mistakes.WRONG_FUNCTIONS}
    assert used <= set(CATALOGUE)
    for id, words in CATALOGUE.items():
        assert words.cause.endswith("."), id
        assert words.consequence.endswith("."), id
        assert words.source, id
        assert words.hint.endswith(("?", ".")) or id == "debug-prints", id


def test_the_page_of_the_matrix_is_up_to_date() -> None:
    assert PAGE.read_text("utf-8") == as_markdown(), "run `make book`"


def test_the_matrix_speaks_of_every_exercise() -> None:
    assert {exercise for row in matrix().values() for exercise in row} == {exercise.name for exercise in EXERCISES}

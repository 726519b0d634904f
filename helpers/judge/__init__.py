"""The judge: observe an answer, compare it with the answer book, explain the verdict."""

from __future__ import annotations

from typing import Any

from helpers.course import exercise_named
from helpers.judge.verdict import Comparison, Finding, Verdict

__all__ = ["Comparison", "Finding", "Verdict", "check_answer"]


def check_answer(answer: Any, exercise: str) -> Verdict:
    """Judge one answer in this process. Never raises for anything the answer does.

    Raises KeyError for an unknown exercise, FileNotFoundError or ValueError when the answer book cannot be read.
    """
    from helpers.judge.answer_book import answer_book
    from helpers.judge.compare import compare
    from helpers.judge.observe import observe

    points = exercise_named(exercise).points
    book = answer_book()
    return compare(observe(answer, exercise, book.key(exercise)), book, points)

"""Judges what a worker sent that may have been taken over by the code it ran: whatever the bytes are, a verdict comes.

A record that could not have been written by `observe` counts as damaged and is worth nothing.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from helpers.judge import phrases
from helpers.judge.answer_book import AnswerBook
from helpers.judge.compare import compare, compare_private
from helpers.judge.dossier import CLASSES
from helpers.judge.observation import Observation
from helpers.judge.verdict import Finding, Verdict

_MOST_TENSORS = 400
_MOST_THINGS = 20_000  # in the facts, counted through all levels
_DEEPEST = 8  # levels of the facts
_LONGEST_TEXT = 600  # characters, of one text in the facts
_LONGEST_MESSAGE = 4000  # characters, of one finding
_MOST_CANDIDATES = 80  # outputs under other readings; each is looked up in the answer book
_LARGEST_NUMBER = 10**15  # in the facts

# What a whole run writes down besides its cases.
_FACTS_OF_CLASSES = (
    *("printed", "forbidden", "parameters_replaced", "repeatable", "misfits", "shapes", "unregistered"),
    *("saved_buffers", "plain_tensors", "default_rate", "dropouts", "readings_tried", "edited_parameters"),
)
_FACTS_OF_FUNCTIONS = ("printed", "forbidden")


def judge(
    exercise: str,
    public: bytes,
    book: AnswerBook,
    max_points: float,
    private: Sequence[tuple[bytes, AnswerBook]] = (),
) -> Verdict:
    """The verdict on one answer, from the packed observations of its runs. Never raises for what the bytes hold.

    public, book: the run on the published probes, and the published answer book.
    private: for each private draw its run and its right outputs, from `record.record_right`.
    Raises KeyError when a book does not know the exercise.
    """
    for each in (book, *(other for _, other in private)):
        if exercise not in each.kinds:
            raise KeyError(f"This answer book does not know the exercise {exercise!r}.")
    try:
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            verdict = compare(validated(Observation.from_bytes(public), exercise), book, max_points)
    except Exception as problem:
        return damaged(exercise, max_points, problem)
    for data, right in private:
        try:
            with np.errstate(all="ignore"), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                observation = validated(Observation.from_bytes(data), exercise)
                verdict = compare_private(verdict, observation, right, max_points)
        except Exception as problem:
            broken = damaged(exercise, max_points, problem)
            verdict = broken if verdict.passed else replace(verdict, points=0.0)
    return _shortened(verdict)


def damaged(exercise: str, max_points: float, problem: Exception) -> Verdict:
    """The verdict on a record that cannot be judged."""
    why = str(problem) if isinstance(problem, ValueError) else f"it is not complete ({type(problem).__name__})."
    finding = Finding("damaged-record", phrases.say("damaged-record", why=_clean_text(why)), "", "observation")
    return Verdict(exercise, "error", 0.0, max_points, (finding,))


def validated(observation: Observation, exercise: str) -> Observation:
    """A copy that holds no more than a run of this exercise writes down, its texts cut and made printable.

    Raises ValueError in words for anything that such a run does not write.
    """
    if observation.exercise != exercise:
        raise ValueError("it is the record of another exercise.")
    if not isinstance(observation.facts, dict):
        raise ValueError("its facts are not a table.")
    budget = [_MOST_THINGS]
    facts = {_clean_text(str(key)): _clean(value, _DEEPEST, budget) for key, value in observation.facts.items()}
    cases = facts.get("cases")
    if not isinstance(cases, dict) or not all(isinstance(case, dict) for case in cases.values()):
        raise ValueError("it has no table of cases.")
    if "trouble" not in facts and "interrupted" not in facts:
        needed = _FACTS_OF_CLASSES if exercise in CLASSES else _FACTS_OF_FUNCTIONS
        if not all(name in facts for name in needed):
            raise ValueError("the run did not come to its end.")
    if len(observation.tensors) > _MOST_TENSORS:
        raise ValueError("it holds too many outputs.")
    if any(array.dtype not in (np.float32, np.float64) for array in observation.tensors.values()):
        raise ValueError("an output holds something other than floating-point numbers.")
    if len(np.atleast_1d(observation.tensors.get("candidates", np.zeros(1)))) > _MOST_CANDIDATES:
        raise ValueError("it holds too many readings.")
    return Observation(exercise, dict(observation.tensors), facts)


def _clean(value: Any, levels: int, budget: list[int]) -> Any:
    """A copy of JSON data. budget: how many values may still come; counted down.

    Raises ValueError when it is too deep, too much, or no JSON.
    """
    budget[0] -= 1
    if budget[0] < 0 or levels < 0:
        raise ValueError("its facts are too many.")
    if value is None or isinstance(value, bool | float):
        return value
    if isinstance(value, int) and abs(value) < _LARGEST_NUMBER:
        return value
    if isinstance(value, str):
        return _clean_text(value)
    if isinstance(value, list):
        return [_clean(part, levels - 1, budget) for part in value]
    if isinstance(value, dict):
        return {_clean_text(str(key)): _clean(part, levels - 1, budget) for key, part in value.items()}
    raise ValueError("its facts hold something else than texts and numbers.")


def _clean_text(text: str) -> str:
    """Shortened, and without control characters, halves of characters and marks that turn the reading direction."""
    return "".join(c if c.isprintable() or c == "\n" else " " for c in text[:_LONGEST_TEXT])


def _shortened(verdict: Verdict) -> Verdict:
    findings = tuple(replace(f, message=f.message[:_LONGEST_MESSAGE]) for f in verdict.findings)
    return replace(verdict, findings=findings)

"""Searches the answer book: which known wrong answer gave the same numbers, or raised the same error?"""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np

from helpers.judge.answer_book import PAIRED, AnswerBook, agrees, fingerprint

_ENOUGH = 0.8  # of the failing cases: answers with the same mistake may still differ on odd sizes


@dataclass(frozen=True)
class Match:
    """ids: the mistakes that explain the failing cases; twins: other ids with the very same numbers there."""

    ids: tuple[str, ...]
    twins: tuple[str, ...] = ()


def same_numbers(
    book: AnswerBook,
    exercise: str,
    outputs: dict[str, np.ndarray],
    failing: list[str],
    wrong: set[str],
    without: tuple[str, ...] = (),
) -> Match | None:
    """The known wrong answer whose numbers are those of the failing cases.

    outputs: what the answer gave, by case. failing: the cases to explain. wrong: all cases that are not right.
    without: beginnings of ids that cannot be meant.
    """
    known, right = book.wrong.get(exercise, {}), book.right[exercise]
    prints = {case: fingerprint(outputs[case]) for case in failing if case in known and case in outputs}
    prints = {c: row for c, row in prints.items() if not _looks_right(right, c, row)}
    telling = {case: row for case, row in prints.items() if not np.isnan(row[:-1].astype(np.float32)).all()}
    prints = telling or prints  # NaN everywhere says little: many mistakes end there
    if not prints:
        return None
    labels = book.labels[exercise]
    agreement = np.stack([agrees(row, known[case]) for case, row in prints.items()])
    explains = agreement.mean(axis=0) >= _ENOUGH
    explains &= ~np.stack([_as_right(right, known, case) for case in prints]).all(axis=0)  # right on all: no reason
    passing = [case for case in known if case in outputs and case in right and case not in wrong and case != "biased"]
    for case in passing:  # where the answer is right, the mistake must be right
        explains &= agrees(fingerprint(outputs[case]), known[case]) | _late_difference(case)
    best = sorted(np.flatnonzero(explains), key=lambda i: -agreement[:, i].mean())
    names = [labels[i] for i in best if not labels[i].startswith(without)]
    return _match(names) if names else None


def _late_difference(case: str) -> bool:
    """Cases in which right answers differ by what they write into hidden places."""
    return "empty row" in case or "large scores" in case


def _looks_right(right: dict[str, np.ndarray], case: str, row: np.ndarray) -> bool:
    """Too close to the right output to tell anything."""
    return case in right and bool(agrees(row, fingerprint(right[case])[None])[0])


def _as_right(right: dict[str, np.ndarray], known: dict[str, np.ndarray], case: str) -> np.ndarray:
    """Which known wrong answers are right on this case, and so explain nothing."""
    return agrees(fingerprint(right[case]), known[case]) if case in right else np.zeros(len(known[case]), bool)


def two_at_once(
    book: AnswerBook, exercise: str, outputs: dict[str, np.ndarray], wrong: set[str], without: tuple[str, ...] = ()
) -> Match | None:
    """Two mistakes in the plain formula. What a mask does as well is left to `second_mistake`."""
    pairs = book.pairs.get(exercise, {})
    if "plain" not in pairs or any(case not in wrong or case not in outputs for case in PAIRED["plain"]):
        return None
    prints = {case: fingerprint(outputs[case]) for case in PAIRED["plain"]}
    both = np.all([agrees(prints[case], rows) for case, rows in zip(PAIRED["plain"], pairs["plain"], strict=True)], 0)
    for hit in np.flatnonzero(both):
        ids = tuple(dict.fromkeys(book.labels[exercise][i].split("#")[0] for i in pairs["plain/which"][hit]))
        if not any(id in without for id in ids):
            return Match(ids)
    return None


def second_mistake(
    book: AnswerBook, exercise: str, first: str, outputs: dict[str, np.ndarray], masked: list[str]
) -> str:
    """The id of a mistake that, together with `first`, explains the masked cases which `first` alone does not."""
    known = book.wrong[exercise]
    prints = {case: fingerprint(outputs[case]) for case in masked if case in known and case in outputs}
    alone = [i for i, label in enumerate(book.labels[exercise]) if label.split("#")[0] == first]
    explained = [agrees(row, known[case][alone]).any() for case, row in prints.items()]
    pairs = book.pairs.get(exercise, {})
    if all(explained) or "random mask" not in prints or "masked" not in pairs:
        return ""
    for hit in np.flatnonzero(agrees(prints["random mask"], pairs["masked"][0])):
        ids = [book.labels[exercise][i].split("#")[0] for i in pairs["masked/which"][hit]]
        if first in ids:
            return ids[1 - ids.index(first)]
    return ""


def _match(labels: list[str]) -> Match:
    ids = list(dict.fromkeys(label.split("#")[0] for label in labels))
    return Match((ids[0],), tuple(ids[1:4]))


def same_numbers_under_another_reading(
    book: AnswerBook, exercise: str, candidates: np.ndarray, case: str = "main"
) -> Match | None:
    """The same for an answer with names of its own: candidates holds its output for every possible reading."""
    known = book.wrong.get(exercise, {}).get(case)
    if known is None:
        return None
    for output in candidates:
        hits = np.flatnonzero(agrees(fingerprint(output), known))
        labels = [book.labels[exercise][i] for i in hits]
        labels = [label for label in labels if not label.startswith(("roles-swapped", "fused-order"))]
        if labels:
            return _match(labels)
    return None


# Errors that any answer can raise, whatever the exercise.
_EVERYWHERE = (
    *("notebook-global", "inplace-on-input", "inplace-after-softmax", "view-not-contiguous", "sqrt-of-int"),
    *("one-minus-bool", "if-mask", "float-head-dim"),
)


def telling_error(book: AnswerBook, exercise: str, message: str) -> str:
    """The id of a mistake that can occur in this exercise and is known by the words of its error, or ""."""
    here = {label.split("#")[0] for label in book.labels[exercise]} | set(_EVERYWHERE)
    for id, words in book.words.items():
        if id in here and words["raises"] and re.search(words["raises"], message):
            return id
    return ""


def same_error(book: AnswerBook, exercise: str, case: str, error: str, outputs: dict[str, np.ndarray]) -> str:
    """The id of the only known mistake that raised this very error on this case, and agrees where both ran; or ""."""
    known, labels = book.wrong.get(exercise, {}), book.labels[exercise]
    ran = {name: fingerprint(outputs[name]) for name in known if name in outputs}
    ids = set()
    for label, raised in book.raised.get(exercise, {}).get(case, {}).items():
        i = labels.index(label)
        if raised == error[: len(raised)] and all(agrees(row, known[name][i : i + 1])[0] for name, row in ran.items()):
            ids.add(label.split("#")[0])
    return ids.pop() if len(ids) == 1 else ""

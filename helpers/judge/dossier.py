"""Everything known about one answer while it is judged: its observation, the right outputs, the findings so far."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from helpers.judge import phrases
from helpers.judge.answer_book import AnswerBook
from helpers.judge.observation import Observation
from helpers.judge.verdict import Finding

CLASSES = ("SelfAttentionV1", "SelfAttentionV2", "SelfAttentionV3", "MultiHeadAttention")
MEASURED = ("dot_product_std", "fused_xavier_ratio")  # a number that was measured, not derived, passes as well
WIDTH = 24  # d of the main cases
HEADS = {"MultiHeadAttention": 4}  # h of the main cases; 1 elsewhere


@dataclass
class CaseResult:
    """How one case came out.

    outcome: "right"; "numbers", "shape", "dtype", "type" (what is wrong with it); "raised"; "missing" (never run);
    "fragile" (right as long as nothing underflows).
    """

    case: str
    outcome: str
    yours: np.ndarray | None = None
    expected: np.ndarray | None = None
    facts: dict[str, Any] = field(default_factory=dict)

    @property
    def largest_difference(self) -> float:
        """Infinite where there is nothing to compare; a NaN counts as infinite too."""
        if self.yours is None or self.expected is None or self.yours.shape != self.expected.shape:
            return float("inf")
        with np.errstate(invalid="ignore"):
            return float(np.nan_to_num(np.abs(self.yours - self.expected), nan=np.inf).max(initial=0))


class Dossier:
    """One answer under judgement."""

    def __init__(self, observation: Observation, book: AnswerBook):
        self.exercise = observation.exercise
        self.facts = observation.facts
        self.tensors = observation.tensors
        self.book = book
        self.right = book.right[self.exercise]
        self.kinds = book.kinds[self.exercise]
        self.findings: list[Finding] = []
        self.lost: set[str] = set()  # the parts of the exercise that are not right
        self.results: list[CaseResult] = []

    # -- about the exercise and its cases

    @property
    def is_class(self) -> bool:
        return self.exercise in CLASSES

    @property
    def binding(self) -> dict[str, Any]:
        return self.facts.get("binding", {})

    @property
    def h(self) -> int:
        return HEADS.get(self.exercise, 1)

    @property
    def failed(self) -> list[CaseResult]:
        return [result for result in self.results if result.outcome not in ("right", "fragile")]

    def group(self, case: str) -> str:
        return self.kinds[case]["group"] if case in self.kinds else "formula"

    def part(self, case: str) -> str:
        """The part of the exercise's points that a case belongs to."""
        return phrases.part_of(self.group(case), not self.is_class)

    def fails_in(self, *groups: str) -> bool:
        return any(self.group(result.case) in groups for result in self.failed)

    def is_random(self, case: str) -> bool:
        """Cases that are judged by `statistics`, not by value."""
        return self.group(case) == "raw"

    # -- findings

    def has_mistake(self) -> bool:
        return any(finding.severity == "mistake" for finding in self.findings)

    def mistake(self, id: str, part: str, *twins: str, raised: bool = False) -> None:
        """Add a mistake that the catalogue knows. twins: other ids with the very same numbers. raised: by its error."""
        words = self.book.words_for(id, self.exercise)
        cause = words["cause"].replace(*phrases.NUMBERS_TO_ERROR) if raised else words["cause"]
        message = f"{cause} {words['consequence']}"
        if twins:
            message = f"{message} {phrases.say('twins', names=', '.join(twins))}"
        self._add(Finding(id, message, words["hint"], "mistake"))
        self.lost.add(part)

    def refuse(self, id: str, part: str, **values: Any) -> None:
        """Add a mistake that has its own sentence here, not in the catalogue."""
        self._add(Finding(id, phrases.say(id, **values), phrases.hint(id), "mistake"))
        self.lost.add(part)

    def observe(self, id: str, part: str, **values: Any) -> None:
        """Add something that was seen, whose cause is not known."""
        self._add(Finding(id, phrases.say(id, **values), phrases.hint(id), "observation"))
        self.lost.add(part)

    def note(self, id: str, **values: Any) -> None:
        """Add something that costs nothing."""
        if id in phrases.SENTENCES:
            self._add(Finding(id, phrases.say(id, **values), phrases.hint(id), "note"))
        else:
            words = self.book.words[id]
            self._add(Finding(id, f"{words['cause']} {words['consequence']}", words["hint"], "note"))

    def _add(self, finding: Finding) -> None:
        if all(finding.id != known.id for known in self.findings):
            self.findings.append(finding)


def judge_cases(dossier: Dossier) -> list[CaseResult]:
    """Compare every case with the right output, in the order of the book."""
    return [_judge_case(dossier, case) for case in dossier.kinds]


def _judge_case(dossier: Dossier, case: str) -> CaseResult:
    facts, yours = dossier.facts["cases"].get(case), dossier.tensors.get(case)
    expected = _expected(dossier, case)
    if facts is None:
        return CaseResult(case, "missing", None, expected)
    if "raised" in facts:
        return CaseResult(case, "raised", None, expected, facts)
    if yours is None:
        return CaseResult(case, "type", None, expected, facts)
    if dossier.is_random(case):
        return CaseResult(case, "right", yours, expected, facts)
    if yours.shape != expected.shape:
        return CaseResult(case, "shape", yours, expected, facts)
    close = _close(dossier, case, yours, expected)
    if close.all():
        needs_bool = dossier.kinds[case]["dtype"] == "bool" and facts.get("dtype") != "bool"
        return CaseResult(case, "dtype" if needs_bool else "right", yours, expected, facts)
    if dossier.group(case) == "large mask" and only_underflow(dossier, case, yours, expected):
        return CaseResult(case, "fragile", yours, expected, facts)
    return CaseResult(case, "numbers", yours, expected, facts)


def _expected(dossier: Dossier, case: str) -> np.ndarray:
    if case != "biased":
        return dossier.right[case]
    pattern = dossier.binding.get("biases", "").replace("k", "")  # b_k never matters
    return dossier.right[f"biased/{pattern}"]


def _close(dossier: Dossier, case: str, yours: np.ndarray, expected: np.ndarray) -> np.ndarray:
    absolute, relative = dossier.kinds[case]["tolerance"], 1e-5
    if dossier.exercise in MEASURED:
        absolute, relative = 0.0, absolute
    with np.errstate(invalid="ignore"):
        close = np.abs(yours - expected) <= absolute + relative * np.abs(expected)
    if dossier.group(case) == "empty rows":
        close |= np.isnan(expected) & _allowed_in_empty_rows(dossier, case, yours)
    return close


def same_output(dossier: Dossier, case: str, yours: np.ndarray) -> bool:
    """Is this the right output of a case? For runs of the case in another mode."""
    expected = dossier.right[case]
    return yours.shape == expected.shape and bool(_close(dossier, case, yours, expected).all())


def _allowed_in_empty_rows(dossier: Dossier, case: str, yours: np.ndarray) -> np.ndarray:
    """A row with nothing to look at may be NaN, zeros, or what a finite fill gives: the mean, or the plain softmax."""
    allowed = np.isnan(yours) | (np.abs(yours) < 1e-5)
    for name, other in dossier.right.items():
        if name.startswith(f"{case}/"):
            allowed |= np.abs(yours - other) <= 0.02 * (1 + np.abs(other))
    return allowed


def only_underflow(dossier: Dossier, case: str, yours: np.ndarray, expected: np.ndarray) -> bool:
    """Zero-and-renormalise: right, but where the one visible weight underflows, a head's share shrinks or is NaN.

    Every row must be a sum of the heads' right outputs, each times a number between 0 and 1, or be NaN.
    """
    heads = dossier.right.get(f"heads/{case}", expected[None])  # (h, ..., d)
    width = expected.shape[-1]
    parts = heads.reshape(len(heads), -1, width)
    for row, mine in enumerate(yours.reshape(-1, width)):
        if np.isnan(mine).any():
            continue
        shares, *_ = np.linalg.lstsq(parts[:, row].T, mine, rcond=None)
        left_over = np.abs(parts[:, row].T @ shares - mine).max()
        if left_over > 1e-2 * (1 + np.abs(mine).max()) or shares.min() < -0.01 or shares.max() > 1.01:
            return False
    return True

"""Compares an observation with the answer book. A pure function: it never runs the learner's code."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from helpers.judge import phrases
from helpers.judge.answer_book import AnswerBook
from helpers.judge.class_findings import add_notes, judge_class
from helpers.judge.dossier import Dossier, judge_cases
from helpers.judge.function_findings import judge_function
from helpers.judge.naming import name_of_error, name_of_foreign_size
from helpers.judge.observation import Observation
from helpers.judge.seen import comparisons, describe, details
from helpers.judge.verdict import Finding, Verdict

# What the parts of an exercise are worth, as shares of its points. Without the formula there are none.
_SHARES = {
    "SelfAttentionV1": {"formula": 0.5, "sizes": 0.25, "gradients": 0.25},
    "SelfAttentionV2": {"formula": 0.5, "sizes": 0.25, "gradients": 0.25},
    "SelfAttentionV3": {"formula": 0.3, "sizes": 0.1, "mask": 0.3, "dropout": 0.2, "gradients": 0.1},
    "MultiHeadAttention": {"formula": 0.4, "sizes": 0.2, "mask": 0.25, "gradients": 0.15},
}
_FUNCTION_SHARES = {"formula": 0.5, "sizes": 0.25, "forms": 0.25}


def compare(observation: Observation, book: AnswerBook, max_points: float) -> Verdict:
    """Judge an observation. Raises KeyError when the book does not know the exercise."""
    return _judge(Dossier(observation, book), max_points, with_notes=True)


def compare_private(public: Verdict, private: Observation, book: AnswerBook, max_points: float) -> Verdict:
    """Add what private probes showed to the verdict on the published ones. Nothing of the private numbers is told.

    book: the right outputs of the private draw, from `record.record_right`.
    """
    verdict = _judge(Dossier(private, book), max_points, with_notes=False)
    points = min(public.points, verdict.points)
    if verdict.passed or not public.passed:
        return replace(public, points=points)
    notes = tuple(finding for finding in public.findings if finding.severity == "note")
    if "interrupted" in private.facts:
        return Verdict(public.exercise, "error", points, max_points, verdict.findings + notes)
    finding = _finding("only-published-probes", "observation")
    return Verdict(public.exercise, "wrong", points, max_points, (finding, *notes))


def _judge(dossier: Dossier, max_points: float, *, with_notes: bool) -> Verdict:
    """with_notes: also say what is unusual about an answer that passes."""
    if "interrupted" in dossier.facts:
        line = phrases.line_of(dossier.facts["interrupted"])
        return _without_numbers(dossier, "error", max_points, _finding("interrupted", line=line))
    if "trouble" in dossier.facts:
        return _never_ran(dossier, max_points)
    dossier.results = judge_cases(dossier)
    if dossier.is_class:
        judge_class(dossier)
    else:
        judge_function(dossier)
    refused = any(finding.severity != "note" for finding in dossier.findings)
    if dossier.failed and not refused:  # nothing may fail without a word
        describe(dossier)
        refused = True
    if not refused:
        if with_notes:
            _add_notes(dossier)
        return Verdict(dossier.exercise, "passed", max_points, max_points, tuple(dossier.findings))
    raised = {result.case for result in dossier.failed if result.outcome == "raised"}
    does_not_run = next(iter(dossier.kinds)) in raised
    return Verdict(
        dossier.exercise,
        "error" if does_not_run and not dossier.facts.get("forbidden") else "wrong",
        _points(dossier, max_points),
        max_points,
        tuple(dossier.findings),
        details(dossier),
        comparisons(dossier),
    )


def _add_notes(dossier: Dossier) -> None:
    if dossier.facts.get("printed"):
        dossier.note("debug-prints")
    if any(result.outcome == "fragile" for result in dossier.results):
        dossier.note("fragile-renormalising")
    if dossier.is_class:
        add_notes(dossier)


def _points(dossier: Dossier, max_points: float) -> float:
    """Half points, by the parts that are right; an answer with a mistake never has all of them."""
    if "formula" in dossier.lost:
        return 0.0
    shares = _SHARES.get(dossier.exercise, _FUNCTION_SHARES)
    kept = sum(share for part, share in shares.items() if part not in dossier.lost)
    kept = min(kept, 1 - min(shares.values()))
    return min(round(2 * kept * max_points) / 2, max_points - 0.5)


# ------------------------------------------------------------------------- answers that never ran on a probe


def _finding(id: str, severity: Any = "mistake", **values: Any) -> Finding:
    return Finding(id, phrases.say(id, **values), phrases.hint(id), severity)


def _without_numbers(dossier: Dossier, status: Any, max_points: float, *findings: Finding) -> Verdict:
    return Verdict(dossier.exercise, status, 0, max_points, findings)


def _never_ran(dossier: Dossier, max_points: float) -> Verdict:
    trouble, facts, name = dossier.facts["trouble"], dossier.facts, dossier.exercise
    if trouble == "blank":
        return _without_numbers(dossier, "not started", max_points, _finding("not-started", "note", name=name))
    if trouble not in ("cannot be built", "cannot be called"):
        what = phrases.kind_of(dossier.is_class)
        finding = _finding(trouble.replace(" ", "-"), name=name, what=what, kind=facts.get("kind", ""))
        return _without_numbers(dossier, "error", max_points, finding)
    raised, called = facts["raised"], trouble == "cannot be called"
    general = phrases.trouble_id(trouble, raised)
    told = _finding(
        general,
        name=name,
        error=phrases.error_of(raised),
        line=phrases.line_of(raised),
        arguments=phrases.listed(facts.get("forward" if called else "parameters", [])),
        contract=phrases.CONTRACTS[name][called],
    )
    id = name_of_foreign_size(dossier, raised["message"]) or name_of_error(
        dossier, raised["type"], raised["message"], "main"
    )
    if general not in ("build-raises", "call-raises") or not id:
        return _without_numbers(dossier, "error", max_points, told)
    dossier.mistake(id, "formula", raised=True)
    seen = Finding(told.id, told.message, "", "observation")
    return _without_numbers(dossier, "error", max_points, dossier.findings[0], seen)

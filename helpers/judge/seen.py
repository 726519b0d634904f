"""Says what was seen where no name is known, and writes the smallest failing case out. It guesses nothing."""

from __future__ import annotations

import numpy as np

from helpers.judge import phrases
from helpers.judge.dossier import WIDTH, CaseResult, Dossier
from helpers.judge.properties import behaviour, dependency
from helpers.judge.verdict import Comparison

_SMALL = ("small", "small mask", "by hand")


def describe(dossier: Dossier) -> None:
    """Add what was seen about the first failed case."""
    first = dossier.failed[0]
    part, when = dossier.part(first.case), phrases.case_words(first.case)
    dossier.lost |= {dossier.part(result.case) for result in dossier.failed}
    if first.outcome == "raised":
        raised = first.facts["raised"]
        dossier.observe("raises", part, when=when, error=phrases.error_of(raised), line=phrases.line_of(raised))
    elif first.outcome == "missing":
        dossier.observe("not-all-cases", part, case=first.case)
    elif first.outcome == "dtype":
        dossier.mistake("wrong-dtype", part)
    elif first.outcome == "type" and "unreadable" in first.facts:
        dossier.observe("unreadable", part, when=when, why=first.facts["unreadable"])
    elif first.outcome == "type":
        wanted = phrases.wanted(dossier.exercise)
        dossier.observe("wrong-type", part, when=when, kind=first.facts.get("kind", "?"), wanted=wanted)
    elif first.outcome == "shape" and first.yours is not None and first.expected is not None:
        yours, expected = first.yours.shape, first.expected.shape
        dossier.observe(
            "wrong-shape", part, when=when,
            yours=phrases.shape(yours), expected=phrases.shape(expected), axis=phrases.axis(yours, expected),
        )  # fmt: skip
    else:
        _describe_numbers(dossier, first)


def _describe_numbers(dossier: Dossier, first: CaseResult) -> None:
    part = dossier.part(first.case)
    if all(dossier.group(result.case) == "empty rows" for result in dossier.failed):
        dossier.observe("empty-row-other", part)
        return
    if np.isnan(first.largest_difference) or np.isinf(first.largest_difference):
        dossier.observe("nan-when", part, when=phrases.case_words(first.case))
        return
    if _roles_are_open(dossier):
        dossier.observe("roles-not-found", part)
        return
    seen = behaviour(dossier.tensors, dossier.right, {result.case for result in dossier.failed})
    for id, values in seen:
        dossier.observe(id, part, **values)
    idle = _idle_layers(dossier)
    if idle:
        dossier.observe("layer-without-influence", "formula", names=idle)
    if not seen and not idle:
        dossier.observe("numbers-differ", part, when=phrases.case_words(first.case))


def _roles_are_open(dossier: Dossier) -> bool:
    """Names of one's own, and not even all roles could be given."""
    needed = 4 if dossier.exercise in ("SelfAttentionV3", "MultiHeadAttention") else 3
    held = dossier.binding.get("roles", "")
    leftover = dossier.binding.get("unbound") or dossier.facts.get("misfits")
    return dossier.is_class and not dossier.facts.get("recognised") and len(held) < needed and bool(leftover)


def _idle_layers(dossier: Dossier) -> str:
    """Layers whose weights get no gradient although they should."""
    yours, expected = dossier.tensors.get("main/gradient"), dossier.right.get("main/gradient")
    if not dossier.is_class or yours is None or expected is None:
        return ""
    size = WIDTH**2
    blocks = {role: slice(i * size, (i + 1) * size) for i, role in enumerate("qkvo")}
    idle = {role for role, block in blocks.items() if not yours[block].any() and expected[block].any()}
    units = dossier.binding.get("units", {})
    return ", ".join(key.removesuffix(".weight") for key, roles in units.items() if set(roles) <= idle)


def details(dossier: Dossier) -> tuple[str, ...]:
    """The smallest failing case in numbers: the row that differs most, yours and the expected one."""
    shown = [r for r in dossier.failed if r.outcome == "numbers" and r.yours is not None and r.yours.size]
    if not shown or (dossier.is_class and _roles_are_open(dossier)):
        return ()
    result = min(shown, key=lambda r: (r.case not in _SMALL, r.case != "main"))
    assert result.yours is not None
    assert result.expected is not None
    yours, expected = np.atleast_1d(result.yours), np.atleast_1d(result.expected)
    index = _worst(yours, expected)[:-1]
    where = phrases.say("details-row", index=list(index)) if index else phrases.say("details-output")
    return (
        phrases.say("details-where", when=phrases.case_words(result.case), where=where),
        phrases.say("details-yours", numbers=phrases.numbers(yours[index])),
        phrases.say("details-expected", numbers=phrases.numbers(expected[index])),
    )


def comparisons(dossier: Dossier) -> tuple[Comparison, ...]:
    """The matrices for a picture: who moves whom where a mask is at fault, else the smallest failing case."""
    drawable = [r for r in dossier.failed if r.outcome == "numbers" and r.yours is not None and r.yours.ndim >= 2]
    if not drawable:
        return ()
    only_masks = not any(dossier.group(result.case) in ("formula", "sizes", "property") for result in drawable)
    outputs, expected = dossier.tensors.get("dependency map"), dossier.right.get("dependency map")
    pictures = []
    if only_masks and outputs is not None and expected is not None and outputs.shape == expected.shape:
        moved, allowed = dependency(outputs), dependency(expected)
        if not np.array_equal(moved, allowed):
            title = phrases.say("map-title")
            pictures.append(Comparison(title, moved, allowed, "query", "key", is_map=True))
    result = min(drawable, key=lambda r: r.case not in _SMALL)
    assert result.yours is not None
    assert result.expected is not None
    index = _worst(result.yours, result.expected)[:-2]
    title = phrases.say("picture-title", when=phrases.case_words(result.case))
    labels = phrases.axis_labels(dossier.exercise)
    yours, right = result.yours[index].astype(float), result.expected[index].astype(float)
    return (*pictures, Comparison(title, yours, right, *labels))


def _worst(yours: np.ndarray, expected: np.ndarray) -> tuple[int, ...]:
    """Where the two differ most; a NaN counts as the largest difference."""
    with np.errstate(invalid="ignore"):
        difference = np.nan_to_num(np.abs(yours - expected), nan=np.inf, posinf=np.inf)
    return tuple(int(i) for i in np.unravel_index(int(difference.argmax()), difference.shape))

"""Looks for the name of what went wrong: by the numbers, by the error, by which sizes fail, by the parameters."""

from __future__ import annotations

import re

from helpers.judge import phrases
from helpers.judge.dossier import WIDTH, CaseResult, Dossier
from helpers.judge.matching import (
    Match,
    same_error,
    same_numbers,
    same_numbers_under_another_reading,
    second_mistake,
    telling_error,
    two_at_once,
)
from helpers.judge.properties import every_hidden_key_leaks

_PLAIN = ("formula", "sizes", "property", "number")  # cases without a mask
# Sizes that stand in no probe: when one of them shows up, it comes from the learner's own code.
_FOREIGN_SIZES = (16, 32, 50, 64, 100, 128, 256, 512, 768, 1000, 1024, 2048)
_WIDTHS_OF_MAIN = (1, 2, 4, 5, 6, 7, 10, 14, 24, 28, 30, 35, 42, 48, 72, 96)
_PROBE_SIZES = (1, 2, 3, 4, 5, 6, 7, 9, 10, 11, 12, 14, 18, 20, 24, 28, 30, 35, 40, 48, 56, 72, 96, 120, 168, 240, 336)


def name_failures(dossier: Dossier) -> bool:
    """Add the mistake that explains the failed cases, if its name can be found."""
    ways = (_by_sizes, _by_numbers_or_error, _by_parameters, _by_leak, _by_distance)
    found = any(way(dossier) for way in ways)
    if found:
        dossier.lost |= {dossier.part(result.case) for result in dossier.failed}
    return found


# ------------------------------------------------------------------------------------- numbers and errors


def _by_numbers_or_error(dossier: Dossier) -> bool:
    raised = [result for result in dossier.failed if result.outcome == "raised"]
    if dossier.failed[0].outcome == "raised":
        return _by_error(dossier, raised[:1]) or _by_numbers(dossier) or _by_error(dossier, raised[1:])
    return _by_numbers(dossier) or _by_error(dossier, raised)


def _by_numbers(dossier: Dossier) -> bool:
    """The plain cases first: what a mask does cannot be told before the formula is right."""
    outputs = {case: dossier.tensors[case] for case in dossier.right if case in dossier.tensors}
    wrong = [result.case for result in dossier.failed if result.outcome in ("numbers", "shape")]
    not_right = {result.case for result in dossier.results if result.outcome != "right"}
    book, exercise, without = dossier.book, dossier.exercise, _not_meant(dossier)
    for groups in (_PLAIN, ("mask", "forms"), ("low", "large", "large mask", "empty rows")):
        cases = [case for case in wrong if dossier.group(case) in groups]
        if len(cases) > 1 and not _has_all_biases(dossier):
            cases = [case for case in cases if case != "biased"]  # recorded with a bias in every layer
        match = same_numbers(book, exercise, outputs, cases, not_right, without) if cases else None
        if match is None and "main" in cases and "candidates" in dossier.tensors:
            match = same_numbers_under_another_reading(book, exercise, dossier.tensors["candidates"])
        if match is None and groups is _PLAIN and "main" in cases:
            match = two_at_once(book, exercise, outputs, not_right, without)
        if match is None:
            continue
        _add_match(dossier, match, dossier.part(cases[0]))
        if groups is _PLAIN and len(match.ids) == 1:
            masked = [case for case in wrong if dossier.group(case) == "mask"]
            second = second_mistake(book, exercise, match.ids[0], outputs, masked)
            if second:
                dossier.mistake(second, "mask")
        return True
    return False


def _not_meant(dossier: Dossier) -> tuple[str, ...]:
    """A bare parameter may be stored either way round; with names of one's own, roles and order are free as well."""
    by_name, linear = dossier.binding.get("contract", True), dossier.binding.get("linear", True)
    return (() if by_name else ("roles-swapped", "fused-order")) + (() if linear else ("weight-transposed",))


def _has_all_biases(dossier: Dossier) -> bool:
    return set(dossier.binding.get("roles", "")) <= set(dossier.binding.get("biases", ""))


def _add_match(dossier: Dossier, match: Match, part: str) -> None:
    output_is_there = "o" in dossier.binding.get("roles", "")
    for id in match.ids:
        name = "no-out-proj" if id == "out-proj-unused" and not output_is_there else id
        dossier.mistake(name, part, *(twin for twin in match.twins if twin != name))


def _by_error(dossier: Dossier, raised: list[CaseResult]) -> bool:
    for result in raised:
        error = result.facts["raised"]
        id = name_of_error(dossier, error["type"], error["message"], result.case)
        if id:
            dossier.mistake(id, dossier.part(result.case), raised=True)
            when, line = phrases.case_words(result.case), phrases.line_of(error)
            told = phrases.error_of(error)
            dossier.observe("raises", dossier.part(result.case), when=when, error=told, line=line)
            return True
    return False


def name_of_error(dossier: Dossier, kind: str, message: str, case: str) -> str:
    """The id of the mistake behind an exception, or ""."""
    return (
        telling_error(dossier.book, dossier.exercise, message)
        or _name_of_shapes(dossier, message, dossier.group(case))
        or same_error(dossier.book, dossier.exercise, case, f"{kind}: {message}", dossier.tensors)
    )


def _name_of_shapes(dossier: Dossier, message: str, group: str) -> str:
    """What the numbers in an error about shapes tell: the sizes of the probes all differ from each other."""
    if not re.search(
        r"shapes cannot be multiplied|invalid for input of size|must match the size|expanded size", message
    ):
        return "mask-not-unsqueezed" if group == "mask" and "broadcast" in message else ""
    numbers = [int(number) for number in re.findall(r"\d+", message)]
    product = re.search(r"shapes cannot be multiplied \(\d+x(\d+) and (\d+)x\d+\)", message)
    if product and dossier.is_class and product[2] == str(WIDTH) and int(product[1]) not in _WIDTHS_OF_MAIN:
        return "notebook-global"
    if any(number in _FOREIGN_SIZES for number in numbers):
        return "fixed-length-mask" if "must match the size" in message else "fixed-head-size"
    if dossier.exercise == "MultiHeadAttention":
        viewed = re.search(r"shape '\[(.*)\]' is invalid for input of size (\d+)", message)
        sizes = [int(number) for number in re.findall(r"\d+", viewed[1])] if viewed else []
        if viewed and ((7 in sizes and viewed[2] == "240") or (5 in sizes and viewed[2] == "336")):
            return "q-length-for-kv"
        if product and product.groups() == ("6", "24"):  # a head's output where a token should be
            return "loop-overwrites-input"
    if "expanded size" in message and {5, 7} <= set(numbers):  # L_q stands where L_k should
        return "square-mask-assumed"
    return "mask-not-unsqueezed" if group in ("mask", "empty rows") else ""


def name_of_foreign_size(dossier: Dossier, message: str) -> str:
    """A width in the layers, or in the error, that the caller never gave."""
    shapes = dossier.facts.get("shapes", {}).values()
    if any(size not in _PROBE_SIZES for shape in shapes for size in shape):
        return "fixed-head-size"
    return _name_of_shapes(dossier, message, "formula")


# --------------------------------------------------------------------------- which cases fail, and how much


def _by_sizes(dossier: Dossier) -> bool:
    """Right for one batch only, or for one width only."""
    if not dossier.is_class and dossier.exercise not in ("split_heads", "merge_heads"):
        return False
    sizes = {case: kind["sizes"] for case, kind in dossier.kinds.items() if len(kind["sizes"]) == 3}
    main, failing = sizes.get("main"), {result.case for result in dossier.failed}
    if main is None or "main" in failing:
        return False
    raised = all(result.outcome in ("raised", "shape") for result in dossier.failed)
    best, name = (0.49, "") if raised else (0.99, "")
    names = ((2, "fixed-head-size"), (0, "batch-hard-coded"), (1, "batch-hard-coded"))
    for axis, id in names if raised else names[:1]:
        others = {case for case, size in sizes.items() if size[axis] != main[axis]}
        if failing <= others and len(failing) / len(others) > best:
            best, name = len(failing) / len(others), id
    if name:
        dossier.mistake(name, "sizes")
    return bool(name)


def _by_parameters(dossier: Dossier) -> bool:
    """What the shapes of the parameters give away."""
    if not dossier.is_class:
        return False
    d_k = WIDTH // dossier.h
    if dossier.h > 1 and [d_k, d_k] in dossier.facts["misfits"].values():
        dossier.mistake("split-before-projection", "formula")
    elif len(dossier.binding.get("roles", "")) < 3 and dossier.facts["plain_tensors"]:
        dossier.mistake("not-a-parameter", "formula")
    else:
        return False
    return True


def _by_leak(dossier: Dossier) -> bool:
    """Right without a mask, and hidden keys come back: a number that is not low enough was used."""
    if dossier.fails_in(*_PLAIN) or not dossier.fails_in("mask", "forms", "low", "large mask"):
        return False
    extreme = ("low", "large mask")
    hardly_wrong = all(r.largest_difference < 0.05 or dossier.group(r.case) in extreme for r in dossier.failed)
    if hardly_wrong or (dossier.is_class and every_hidden_key_leaks(dossier.tensors, dossier.right)):
        dossier.mistake("fill-not-low-enough", "mask")
        return True
    return False


def _by_distance(dossier: Dossier) -> bool:
    """Almost right everywhere: something was rounded."""
    formula = [result for result in dossier.failed if dossier.group(result.case) == "formula"]
    if dossier.is_class and formula and all(result.largest_difference < 0.02 for result in formula):
        dossier.mistake("softmax-in-half", "formula")
        return True
    return False

"""Texts of submissions, made harmless once for all reports; each format then escapes them in its own way."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace

from helpers.classroom.results import ClassResult, StudentResult
from helpers.judge import Comparison, Finding, Verdict

LONGEST_NAME, LONGEST_TEXT = 300, 4000  # characters
# What no report can hold: control characters (XML and terminals), surrogates (UTF-8), characters that are none.
_BROKEN = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff\r]")
# What makes the text around it read backwards (Unicode Standard Annex 9: embeddings, overrides, isolates).
_TURNING = re.compile("[\u202a-\u202e\u2066-\u2069]")
_BREAKS = re.compile("[\n\t\u2028\u2029]")
_REPLACEMENT = "\ufffd"


def harmless(text: str, longest: int = LONGEST_TEXT) -> str:
    """The text with a visible sign for every character that could break a report, cut where it is too long.

    ASCII control characters become their pictures (␀ for NUL), other bad ones `�`. Line breaks and tabs stay.
    """
    text = text.replace("\r\n", "\n")
    if len(text) > longest:
        text = text[: longest - 1] + "…"
    return _TURNING.sub(_REPLACEMENT, _BROKEN.sub(_picture, text))


def harmless_line(text: str, longest: int = LONGEST_TEXT) -> str:
    """The same for a text of one line: line breaks and tabs become pictures too."""
    return _BREAKS.sub(_picture, harmless(text, longest))


def _picture(match: re.Match[str]) -> str:
    code = ord(match[0])
    if code < 0x20:
        return chr(0x2400 + code)  # Unicode's Control Pictures
    return "\u2421" if code == 0x7F else _REPLACEMENT


def cleaned(result: ClassResult) -> ClassResult:
    """The result with harmless texts only, and with names that are still unique. The numbers stay as they are."""
    names = _unique(harmless_line(student.student, LONGEST_NAME) for student in result.students)
    students = tuple(_cleaned_student(student, name) for student, name in zip(result.students, names, strict=True))
    return replace(result, protection=tuple(map(harmless, result.protection)), students=students)


def _cleaned_student(student: StudentResult, name: str) -> StudentResult:
    return replace(
        student,
        student=name,
        submission=harmless_line(student.submission),
        reason=harmless(student.reason),
        notes=tuple(map(harmless, student.notes)),
        verdicts=tuple(map(_cleaned_verdict, student.verdicts)),
        found_in={exercise: harmless_line(place) for exercise, place in (student.found_in or {}).items()},
    )


def _cleaned_verdict(verdict: Verdict) -> Verdict:
    return replace(
        verdict,
        findings=tuple(map(_cleaned_finding, verdict.findings)),
        details=tuple(map(harmless_line, verdict.details)),
        comparisons=tuple(map(_cleaned_comparison, verdict.comparisons)),
    )


def _cleaned_finding(finding: Finding) -> Finding:
    return replace(
        finding, id=harmless_line(finding.id), message=harmless(finding.message), hint=harmless(finding.hint)
    )


def _cleaned_comparison(comparison: Comparison) -> Comparison:
    return replace(
        comparison,
        title=harmless_line(comparison.title),
        row_label=harmless_line(comparison.row_label),
        column_label=harmless_line(comparison.column_label),
    )


def _unique(names: Iterable[str]) -> list[str]:
    """The names, with a number behind each that was there before."""
    taken: dict[str, None] = {}
    for name in names:
        free, number = name, 2
        while free in taken:
            free, number = f"{name} ({number})", number + 1
        taken[free] = None
    return list(taken)


def number(points: float) -> str:
    """Points without the noise of a sum of floats, and without a needless `.0`."""
    return f"{round(points, 2):g}"

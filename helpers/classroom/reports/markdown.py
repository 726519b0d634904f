"""The results as a Markdown table, for the summary of a CI job."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from html import escape

from helpers.classroom.reports import tally
from helpers.classroom.reports.texts import cleaned, number
from helpers.classroom.results import ClassResult, StudentResult

# A character that is written as an entity is only a character, never the start of Markdown or HTML:
# https://spec.commonmark.org/0.31.2/#entity-and-numeric-character-references
_ACTIVE = re.compile(r"[\\`*_{}\[\]()#+\-!|~@:$^=]")
_LONGEST = 300  # characters of a cell: the summary of a job on GitHub holds 1 MiB


def markdown_summary(result: ClassResult) -> str:
    """One student: a row per exercise. Several: a row each."""
    result = cleaned(result)
    if len(result.students) == 1:
        return "\n".join(_one(result, result.students[0])) + "\n"
    return "\n".join(_several(result)) + "\n"


def _one(result: ClassResult, student: StudentResult) -> Iterator[str]:
    exercises = tally.exercises_of(result)
    most = tally.max_points(exercises)
    yield f"### {_plain(student.student)}: {number(student.points)} of {number(most)} points"
    yield ""
    if student.status != "graded":
        yield f"**{student.status.capitalize()}**: {_plain(student.reason)}"
        yield ""
    verdicts = tally.by_exercise(student)
    rows = []
    for exercise in exercises:
        verdict = verdicts.get(exercise.name)
        said = [finding.message for finding in verdict.findings] if verdict and not verdict.passed else []
        points = f"{number(verdict.points if verdict else 0)} / {exercise.points}"
        state = verdict.status if verdict else "not graded"
        rows.append((f"`{exercise.name}`", points, state, "<br>".join(map(_plain, said))))
    yield from _table(("Exercise", "Points", "State", "What was found"), (":--", "--:", ":--", ":--"), rows)
    if student.notes:
        yield ""
        yield from (f"- {_plain(note)}" for note in student.notes)


def _several(result: ClassResult) -> Iterator[str]:
    most = number(tally.max_points(tally.exercises_of(result)))
    counts = tally.statuses(result)
    yield f"### {len(result.students)} students"
    yield ""
    yield ", ".join(f"{status}: {count}" for status, count in counts.items())
    yield ""
    head = ("Student", "Points", "Status", "Passed", "Wrong", "Not started", "Reason")
    rows = []
    for student in result.students:
        states = [verdict.status for verdict in student.verdicts]
        wrong = states.count("wrong") + states.count("error")
        numbers = (str(states.count("passed")), str(wrong), str(states.count("not started")))
        points = f"{number(student.points)} / {most}"
        rows.append((_plain(student.student), points, student.status, *numbers, _plain(student.reason)))
    yield from _table(head, (":--", "--:", ":--", "--:", "--:", "--:", ":--"), rows)


def _table(head: Sequence[str], rule: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    for row in (head, rule, *rows):
        yield f"| {' | '.join(row)} |"


def _plain(text: str) -> str:
    """The text on one line, with nothing in it that Markdown or HTML would act on."""
    line = " ".join(text.split())
    line = line if len(line) <= _LONGEST else f"{line[: _LONGEST - 1]}…"
    return _ACTIVE.sub(lambda match: f"&#{ord(match[0])};", escape(line, quote=False)) if line else ""

"""The pages that people read: one for each student, one for the teacher. Self-contained, without scripts."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from helpers.classroom.reports import histogram, matrix_picture, tally
from helpers.classroom.reports.changes import Change
from helpers.classroom.reports.texts import number
from helpers.classroom.results import ClassResult, StudentResult
from helpers.course import Exercise
from helpers.judge import Comparison, Verdict, explain
from helpers.note import with_code

FEW = 8  # so many students are listed at once; more are folded away


@cache
def _environment() -> Environment:
    """Templates in which every text is escaped, unless this module says that it is HTML."""
    environment = Environment(
        loader=PackageLoader("helpers.classroom.reports"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["points"] = number
    environment.filters["with_code"] = lambda text: Markup(with_code(text))  # escapes the text itself
    environment.filters["picture"] = _picture
    environment.filters["card"] = _card
    css = environment.get_template("page.css").render()
    environment.globals["style"] = Markup(css + matrix_picture.style())
    environment.globals["definitions"] = Markup(matrix_picture.definitions())
    return environment


def _picture(comparison: Comparison) -> Markup:
    return Markup(matrix_picture.picture(comparison))


def _card(verdict: Verdict) -> Markup:
    return Markup(explain.html(verdict))


def student_page(student: StudentResult, exercises: Sequence[Exercise]) -> str:
    """What a student reads about the own work, and nothing about others."""
    verdicts = tally.by_exercise(student)
    groups = [
        (notebook, [(e, verdicts.get(e.name)) for e in exercises if e.notebook == notebook])
        for notebook in tally.notebooks_of(exercises)
    ]
    return _render(
        "student.html",
        student=student,
        groups=groups,
        found_in=student.found_in or {},
        most=tally.max_points(exercises),
    )


def class_page(result: ClassResult, stems: Mapping[str, str], changed: Sequence[Change] | None) -> str:
    """What the teacher reads. stems: the file stem of each student; changed: None where there was no former run."""
    exercises = tally.exercises_of(result)
    most = tally.max_points(exercises)
    points = [student.points for student in tally.graded(result)]
    return _render(
        "class.html",
        result=result,
        stems=stems,
        most=most,
        statuses=tally.statuses(result),
        mean=statistics.fmean(points) if points else None,
        median=statistics.median(points) if points else None,
        histogram=Markup(histogram.histogram(points, most)),
        attention=[s for status in ("not gradable", "partly graded") for s in result.students if s.status == status],
        notebooks=tally.notebooks_of(exercises),
        rows=[(student, _points_by_notebook(student, exercises)) for student in result.students],
        possible={n: sum(e.points for e in exercises if e.notebook == n) for n in tally.notebooks_of(exercises)},
        tallies=tally.exercise_tallies(result),
        states=tally.STATES,
        mistakes=tally.found(result, "mistake"),
        observations=tally.found(result, "observation"),
        changed=changed,
        few=FEW,
    )


def _points_by_notebook(student: StudentResult, exercises: Sequence[Exercise]) -> dict[str, float]:
    verdicts = tally.by_exercise(student)
    points: dict[str, float] = {}
    for exercise in exercises:
        own = verdicts[exercise.name].points if exercise.name in verdicts else 0.0
        points[exercise.notebook] = points.get(exercise.notebook, 0.0) + own
    return points


def _render(template: str, **values: Any) -> str:
    return _environment().get_template(template).render(values)

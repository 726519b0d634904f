"""What a class did, counted: by status, by exercise, by mistake. Pure functions of a `ClassResult`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from helpers.classroom.results import ClassResult, Status, StudentResult
from helpers.course import EXERCISES, Exercise
from helpers.judge import Comparison, Verdict
from helpers.judge.verdict import Severity

STATUSES: tuple[Status, ...] = ("graded", "partly graded", "not gradable")
STATES = ("passed", "wrong", "error", "not started", "not graded")
BINS = 10


@dataclass(frozen=True)
class Found:
    """One finding of a class.

    message: the sentence that most of its students read. exercises: in the course's order.
    comparison: the numbers of the first answer that has some.
    """

    id: str
    message: str
    students: tuple[str, ...]
    exercises: tuple[str, ...]
    comparison: Comparison | None


@dataclass(frozen=True)
class ExerciseTally:
    """How one exercise went. states: how many students are in each of STATES; mean: over those who were graded."""

    exercise: Exercise
    states: Mapping[str, int]
    mean: float | None


def exercises_of(result: ClassResult) -> tuple[Exercise, ...]:
    """The exercises that were judged in this run; the whole course where none was."""
    judged = {verdict.exercise for student in result.students for verdict in student.verdicts}
    return tuple(exercise for exercise in EXERCISES if exercise.name in judged) or EXERCISES


def max_points(exercises: Sequence[Exercise]) -> float:
    return float(sum(exercise.points for exercise in exercises))


def notebooks_of(exercises: Sequence[Exercise]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(exercise.notebook for exercise in exercises))


def by_exercise(student: StudentResult) -> dict[str, Verdict]:
    return {verdict.exercise: verdict for verdict in student.verdicts}


def statuses(result: ClassResult) -> dict[Status, int]:
    """How many students have each status."""
    counts = Counter(student.status for student in result.students)
    return {status: counts[status] for status in STATUSES}


def graded(result: ClassResult) -> list[StudentResult]:
    return [student for student in result.students if student.status != "not gradable"]


def distribution(points: list[float], most: float) -> list[int]:
    """How many students have points in each tenth of the range; the last tenth includes full points."""
    counts = [0] * BINS
    for value in points:
        counts[min(int(value / most * BINS), BINS - 1)] += 1
    return counts


def exercise_tallies(result: ClassResult) -> list[ExerciseTally]:
    tallies = []
    verdicts = [by_exercise(student) for student in result.students]
    for exercise in exercises_of(result):
        found = [of_student.get(exercise.name) for of_student in verdicts]
        states = Counter(verdict.status if verdict else "not graded" for verdict in found)
        points = [verdict.points for verdict in found if verdict]
        mean = sum(points) / len(points) if points else None
        tallies.append(ExerciseTally(exercise, {state: states[state] for state in STATES}, mean))
    return tallies


@dataclass
class _Heap:
    messages: Counter[str] = field(default_factory=Counter)
    students: dict[str, None] = field(default_factory=dict)
    exercises: set[str] = field(default_factory=set)
    comparison: Comparison | None = None


def found(result: ClassResult, severity: Severity) -> list[Found]:
    """The findings of one severity, the most frequent first.

    Observations count only in answers in which no mistake is named: elsewhere the mistake is their cause. What is said
    about an open blank is no finding about an answer.
    """
    heaps: dict[str, _Heap] = {}
    for student in result.students:
        for verdict in student.verdicts:
            named = any(finding.severity == "mistake" for finding in verdict.findings)
            if verdict.status == "not started" or (severity == "observation" and named):
                continue
            for finding in verdict.findings:
                if finding.severity == severity:
                    heap = heaps.setdefault(finding.id, _Heap())
                    heap.messages[finding.message] += 1
                    heap.students[student.student] = None
                    heap.exercises.add(verdict.exercise)
                    if heap.comparison is None and verdict.comparisons:
                        heap.comparison = verdict.comparisons[0]
    ordered = sorted(heaps.items(), key=lambda item: (-len(item[1].students), item[0]))
    return [
        Found(
            id,
            heap.messages.most_common(1)[0][0],
            tuple(heap.students),
            tuple(exercise.name for exercise in EXERCISES if exercise.name in heap.exercises),
            heap.comparison,
        )
        for id, heap in ordered
    ]

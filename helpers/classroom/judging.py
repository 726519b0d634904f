"""From what the workers saw to one student's result. Runs in a clean process, which never runs learner code."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from helpers.classroom.host import NotebookRecord
from helpers.classroom.results import StudentResult
from helpers.course import EXERCISES, Exercise
from helpers.judge import Finding, Verdict, untrusted
from helpers.judge.answer_book import AnswerBook, answer_book

# Why a step was ended, as a finding of the exercise: id → sentence. The ids of `host.NotebookRecord`.
_ENDED = {
    "time": "It was still running when its time was up. Does a loop in it never end?",
    "total time": "The time for the whole notebook was up before it was reached. Does something in the notebook wait?",
    "memory": "It used more memory than there is for one answer.",
    "processes": "It started more processes than an answer may.",
    "output": "What it gave back is larger than an answer can be.",
    "channel": "It wrote into the channel that the grader uses, so nothing that came after could be read.",
    "died": "It ended the whole process that ran it.",
}
_IN_A_CELL = {
    "time": "A line of cell {number} was given up: its time was up.",
    "memory": "A line of cell {number} was given up: it used too much memory.",
    "processes": "A line of cell {number} was given up: it started too many processes.",
    "output": "A line of cell {number} was given up: it wrote too much.",
    "channel": "A line of cell {number} was given up: it wrote into the grader's channel.",
    "died": "A line of cell {number} was given up: it ended the process.",
}
_SAY = {
    "not-defined": "No cell defines {name}.",
    "cell-stopped": "Cell {number}, which defines it, stopped: {error}.",
    "cell-not-python": "Cell {number}, which defines it, is not Python: {error}.",
    "given-up": "{name} was given up.",
    "damaged": "What {name} gave back could not be read.",
    "unreadable": "{notebook} could not be read: {why}",
    "unfinished": "{notebook} was not looked at to its end.",
    "nothing-defined": "No cell defines an exercise of the course. Answers are found by their names, such as {name}.",
    "in-notebook": "{notebook}: {sentence}",
    "not-python": "Cell {number} is not Python: {error}.",
    "more-than-one": "{name} is in several notebooks; the best answer counts, the one in {notebook}.",
}
_RANK = {"passed": 3, "wrong": 2, "error": 1, "not started": 0}


@dataclass(frozen=True)
class Books:
    """What the answers are compared with. private: right outputs on the private probes, where there are any."""

    published: AnswerBook
    private: AnswerBook | None = None


@lru_cache(maxsize=4)
def books(seed: int | None) -> Books:
    """The answer book of this copy, and a private one that is recorded now, from `solutions/`.

    Raises ModuleNotFoundError when there is a seed but this copy has no solutions.
    """
    if seed is None:
        return Books(answer_book())
    from helpers.judge.probes import Draw
    from helpers.judge.record import record_right

    return Books(answer_book(), record_right(Draw(seed)))


def not_gradable(student: str, submission: str, reason: str, notes: Sequence[str] = ()) -> StudentResult:
    """The result of a submission in which there is nothing to judge."""
    return StudentResult(student, submission, "not gradable", reason, tuple(notes))


def judge_submission(student: str, submission: str, records: Sequence[NotebookRecord], books: Books) -> StudentResult:
    """Judge all that was observed. Never raises, whatever the records hold."""
    reasons = [
        _SAY["unreadable"].format(notebook=record.name, why=record.unreadable)
        for record in records
        if record.unreadable
    ]
    readable = [record for record in records if not record.unreadable]
    if not any(record.observed or record.failed or any(record.defined.values()) for record in readable):
        if readable:
            reasons.append(_SAY["nothing-defined"].format(name=EXERCISES[-1].name))
        return not_gradable(student, submission, " ".join(reasons))
    several = len(readable) > 1
    verdicts, found_in, notes = [], {}, []
    for exercise in EXERCISES:
        verdict, record, rivals = _best(exercise, readable, books)
        verdicts.append(verdict)
        if record is not None:
            found_in[exercise.name] = record.name
            if rivals:
                notes.append(_SAY["more-than-one"].format(name=exercise.name, notebook=record.name))
            if exercise.name in record.failed:
                reasons.append(_SAY["given-up"].format(name=exercise.name))
            if any(finding.id == "damaged-record" for finding in verdict.findings):
                reasons.append(_SAY["damaged"].format(name=exercise.name))
    for record in readable:
        given_up = [_IN_A_CELL[reason].format(number=n) for n, reason in sorted(record.skipped.items())]
        reasons += [_where(record, sentence, several) for sentence in given_up]
        if record.unfinished:
            reasons.append(_SAY["unfinished"].format(notebook=record.name))
        notes += [_where(record, sentence, several) for sentence in _notes(record)]
    status: Any = "partly graded" if reasons else "graded"
    return StudentResult(student, submission, status, " ".join(reasons), tuple(notes), tuple(verdicts), found_in)


def _where(record: NotebookRecord, sentence: str, several: bool) -> str:
    return _SAY["in-notebook"].format(notebook=record.name, sentence=sentence) if several else sentence


def _notes(record: NotebookRecord) -> list[str]:
    """Cells that stopped are not told: the demonstrations stop here, for want of the real `helpers`."""
    broken = [_SAY["not-python"].format(number=n, error=error) for n, error in sorted(record.broken.items())]
    return [*record.repaired, *broken]


def _best(
    exercise: Exercise, records: Sequence[NotebookRecord], books: Books
) -> tuple[Verdict, NotebookRecord | None, bool]:
    """The best verdict on an exercise, where its answer was found, and whether others were there as well."""
    judged = [(verdict, record) for record in records if (verdict := _verdict(exercise, record, books))]
    started = [pair for pair in judged if pair[0].status != "not started"]
    if not judged:
        return _without_answer(exercise, "not started", "not-defined", name=exercise.name), None, False
    verdict, record = max(judged, key=lambda pair: (pair[0].points, _RANK[pair[0].status]))
    return verdict, record, len(started) > 1


def _verdict(exercise: Exercise, record: NotebookRecord, books: Books) -> Verdict | None:
    """The verdict on the answer in one notebook; None where the notebook has none."""
    name = exercise.name
    if name in record.observed:
        public, *private = record.observed[name]
        pairs = [(one, books.private) for one in private if books.private is not None]
        return untrusted.judge(name, public, books.published, float(exercise.points), pairs)
    if name in record.failed:
        return _ended(exercise, record.failed[name])
    cells = record.defined.get(name, [])
    if not cells:
        return None
    if record.unfinished:
        return _ended(exercise, record.unfinished)
    told: tuple[tuple[str, Mapping[int, str]], ...] = (
        ("cell-stopped", record.stopped),
        ("cell-not-python", record.broken),
    )
    for id, errors in told:
        for number in reversed(cells):
            if number in errors:
                return _without_answer(exercise, "error", id, number=number, error=errors[number])
    skipped = next((record.skipped[number] for number in cells if number in record.skipped), "died")
    return _ended(exercise, skipped)


def _ended(exercise: Exercise, reason: str) -> Verdict:
    finding = Finding(f"ended-{reason.replace(' ', '-')}", _ENDED.get(reason, _ENDED["died"]), severity="observation")
    return Verdict(exercise.name, "error", 0.0, float(exercise.points), (finding,))


def _without_answer(exercise: Exercise, status: Any, id: str, **values: Any) -> Verdict:
    finding = Finding(id, _SAY[id].format(**values), severity="observation")
    return Verdict(exercise.name, status, 0.0, float(exercise.points), (finding,))

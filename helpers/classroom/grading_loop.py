"""Grades a class: every submission through an executor, each judged here, each remembered at once."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, CancelledError, Executor, Future, wait
from dataclasses import asdict
from pathlib import Path

from helpers.classroom.host import HostError, NotebookRecord, Settings, SubmissionRecord, observe_submission
from helpers.classroom.judging import Books, books, judge_submission, not_gradable
from helpers.classroom.ledger import Ledger
from helpers.classroom.results import ClassResult, StudentResult
from helpers.classroom.submissions import HandedIn, Submission, fingerprint

_NO_NOTEBOOK = "There is no notebook in it."
_LOST = "The machine that ran it was lost again and again. Grade the class again to give it another try."
_FAILED = "Running it failed: {error}. Grade the class again to give it another try."

Progress = Callable[[StudentResult, bool], None]  # the result, and whether it was already known from a former run


def grade_class(
    submissions: Sequence[Submission],
    out: Path,
    settings: Settings,
    executor: Executor,
    *,
    in_flight: int,
    fresh: bool = False,
    progress: Progress = lambda result, known: None,
) -> ClassResult:
    """Grade every submission. None is lost, none is graded twice; what a former run has graded is taken from there.

    executor: runs `observe_submission`; threads are enough on one machine, since the work is done in processes.
    in_flight: submissions that are handed to the executor at the same time.
    fresh: grade all of them again.
    Raises HostError when answers cannot be run at all, LedgerError when `out` cannot be written.
    """
    ledger = Ledger.open(out, asdict(settings))
    loop = _Loop(ledger, settings, books(settings.seed), progress)
    waiting = iter(submissions)
    running: dict[Future[SubmissionRecord], _Job] = {}
    try:
        while True:
            while len(running) < in_flight and (job := loop.next_job(waiting, fresh)) is not None:
                running[executor.submit(observe_submission, job.plain, settings)] = job
            if not running:
                break
            for future in wait(running, return_when=FIRST_COMPLETED).done:
                loop.finish(running.pop(future), future)
    finally:
        for future in running:
            future.cancel()
    students = sorted(loop.results.values(), key=lambda result: (result.student.casefold(), result.student))
    return ClassResult(settings.seed, tuple(loop.protection), tuple(students))


class _Job:
    """A submission on its way. plain: what is sent to the executor. unread: notebooks that could not be read."""

    def __init__(self, submission: Submission, notebooks: Sequence[HandedIn]):
        self.submission = submission
        self.fingerprint = fingerprint(notebooks)
        self.plain = [(notebook.name, notebook.data) for notebook in notebooks if not notebook.problem]
        self.unread = [NotebookRecord(one.name, unreadable=one.problem) for one in notebooks if one.problem]


class _Loop:
    """What the loop knows: the results so far."""

    def __init__(self, ledger: Ledger, settings: Settings, books: Books, progress: Progress):
        self._ledger, self._settings, self._books, self._progress = ledger, settings, books, progress
        self.results: dict[str, StudentResult] = {}
        self.protection: dict[str, None] = {}  # an ordered set

    def next_job(self, waiting: Iterator[Submission], fresh: bool) -> _Job | None:
        """The next submission that has to be run. Those that need no run are finished on the way."""
        for submission in waiting:
            try:
                notebooks = [] if submission.problem else submission.notebooks()
                problem = submission.problem or ("" if notebooks else _NO_NOTEBOOK)
            except Exception as error:  # one odd submission never stops the others
                notebooks, problem = [], str(error) or type(error).__name__
            if problem:
                self._done(not_gradable(submission.student, submission.path, problem), known=False)
                continue
            job = _Job(submission, notebooks)
            known = None if fresh else self._ledger.find(submission.path, job.fingerprint)
            if known is not None:
                self._done(known, known=True)
            elif job.plain:
                return job
            else:
                self._done(judge_submission(submission.student, submission.path, job.unread, self._books), known=False)
        return None

    def finish(self, job: _Job, future: Future[SubmissionRecord]) -> None:
        """Judge what came back."""
        submission = job.submission
        try:
            record = future.result()
        except (HostError, BrokenExecutor, CancelledError):
            raise
        except Exception as error:  # the executor's own trouble: not remembered, so that another run tries again
            lost = type(error).__name__ == "KilledWorker"  # of Dask, which is not imported here
            reason = _LOST if lost else _FAILED.format(error=f"{type(error).__name__}: {error}")
            self._done(not_gradable(submission.student, submission.path, reason), known=False)
            return
        self.protection |= dict.fromkeys(record.protection)
        records = [*record.notebooks, *job.unread]
        result = judge_submission(submission.student, submission.path, records, self._books)
        self._ledger.write(submission.path, job.fingerprint, result)
        self._done(result, known=False)

    def _done(self, result: StudentResult, known: bool) -> None:
        self.results[result.submission] = result
        self._progress(result, known)

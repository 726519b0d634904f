"""The command line of the classroom, `python -m helpers class`: only parses, calls and prints."""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Iterator
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

from helpers import paths

if TYPE_CHECKING:
    from helpers.classroom.host import Settings
    from helpers.classroom.results import ClassResult
    from helpers.classroom.submissions import Submission

NOT_ALL, CANNOT, INTERRUPTED = 1, 2, 130
_MOST_SEED = 2**31
_AGAIN = "{done} of {all} submissions are graded. Run the same command again to go on where it stopped."
_COUNTS = "{graded} graded, {partly} partly graded, {not_gradable} not gradable. Mean: {mean:.1f} of {most} points."
_NO_SOLUTIONS = (
    "Private probes are recorded from the solutions, and this copy of the course has none: {folder} is missing."
)
_PUBLISHED_ONLY = "Only the published probes are used: an answer that has learnt their outputs by heart would pass."

_STUDENT_EDITION = "This is a student edition of the course. Only the teacher's copy can hand out and export."
_WRITTEN = "Written to {out}: class.html, grades.csv, changes.csv, results.json, junit.xml, students/, gradescope/."

app = typer.Typer(
    help="For teachers: hand out a student edition, grade a class, report, export.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)


@app.command()
def release(
    to: Annotated[Path, typer.Option("--to", metavar="DIR", help="Where the student edition goes.")],
    zip_to: Annotated[
        Path | None, typer.Option("--zip", metavar="FILE", dir_okay=False, help="Also pack it into this zip file.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Take DIR whatever is in it; that is kept beside it.")] = False,
) -> None:
    """Write the student edition: the notebooks and their checks, no solutions and nothing to read one from.

    The same state of the course gives the same bytes. Example: python -m helpers class release --to student-edition
    """
    try:
        from helpers.classroom.release import ReleaseError, release
    except ModuleNotFoundError:
        _stop(_STUDENT_EDITION)
    try:
        report = release(to, zip_to=zip_to, force=force)
    except ReleaseError as error:
        _stop(str(error))
    typer.echo(str(report))


@app.command()
def grade(
    submissions: Annotated[
        Path,
        typer.Argument(
            metavar="SUBMISSIONS",
            help="A folder with one folder, notebook or zip per student, as Moodle, Canvas, nbgrader or git lay them; "
            "or the zip that such a system gives out.",
        ),
    ],
    out: Annotated[Path, typer.Option("--out", metavar="DIR", file_okay=False, help="Where the reports go.")],
    single: Annotated[bool, typer.Option("--single", help="SUBMISSIONS is the work of one student.")] = False,
    seed: Annotated[
        int | None,
        typer.Option(
            min=0,
            metavar="N",
            help="Draws the private probes. Default: that of the former run in DIR, else a new one. "
            "The same seed gives the same grades.",
        ),
    ] = None,
    published_only: Annotated[
        bool,
        typer.Option("--published-only", help="Use no private probes. A copy without solutions has none anyway."),
    ] = False,
    require_sandbox: Annotated[
        bool, typer.Option("--require-sandbox", help="Run nothing where there is no bubblewrap.")
    ] = False,
    workers: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="Submissions at the same time. Default: one for each core.")
    ] = None,
    dask: Annotated[
        str | None, typer.Option(metavar="ADDRESS", help="Run the answers on a Dask cluster, tcp://host:8786.")
    ] = None,
    seconds: Annotated[
        float, typer.Option(min=0.1, metavar="S", help="Processor time for one exercise, or one statement of a cell.")
    ] = 10,
    memory: Annotated[int, typer.Option(min=64, metavar="MB", help="Memory for one submission.")] = 2048,
    fresh: Annotated[bool, typer.Option("--fresh", help="Grade all again, also what is already graded.")] = False,
    summary: Annotated[
        Path | None, typer.Option(metavar="FILE", dir_okay=False, help="Append a Markdown table, for CI.")
    ] = None,
) -> None:
    """Grade a class. Every submission ends as graded, partly graded, or not gradable with a reason.

    Learners' code runs in processes that are shut in and hold no answers; another process compares. Interrupted, the
    same command goes on where it was. Writes grades.csv, results.json, class.html and a page for each student.

    Exit code: 0 when every submission is graded (with --single: passed), 1 when not, 2 when it cannot grade.

    Example: python -m helpers class grade submissions --out results
    """
    from helpers.classroom.host import HostError, Settings
    from helpers.classroom.ledger import Ledger, LedgerError
    from helpers.classroom.reports import ReportError, changes, changes_text, markdown_summary, write_all
    from helpers.classroom.submissions import SubmissionsError, find

    if os.name != "posix":
        _stop("Grading a class needs Linux or macOS: on Windows, run it in WSL.")
    if not paths.SOLUTIONS.is_dir():
        if seed is not None:
            _stop(_NO_SOLUTIONS.format(folder=paths.SOLUTIONS))
        published_only = True
    if published_only:
        seed = None
        typer.echo(_PUBLISHED_ONLY)
    elif seed is None:
        seed = Ledger.former_seed(out)
        seed = secrets.randbelow(_MOST_SEED) if seed is None else seed
    settings = Settings(seed, seconds, memory << 20, require_sandbox)
    try:
        found = find(submissions, single=single, skip=out)
        before = _former_results(out)
        result = _graded(found, out, settings, workers, dask, fresh)
        write_all(result, out, before=before)
    except (SubmissionsError, HostError, LedgerError, ReportError) as error:
        _stop(str(error))
    _say(result, changes_text(changes(before, result)) if before else "", out)
    if summary is not None:
        _append(summary, markdown_summary(result))
    everything = all(v.passed for s in result.students for v in s.verdicts) if single else True
    raise typer.Exit(0 if everything and all(s.status == "graded" for s in result.students) else NOT_ALL)


@app.command()
def export_nbgrader(
    to: Annotated[Path, typer.Option("--to", metavar="DIR", file_okay=False, help="Where the course folder goes.")],
    assignment: Annotated[str, typer.Option(metavar="NAME", help="What nbgrader calls the assignment.")] = "attention",
    force: Annotated[
        bool, typer.Option("--force", help="Take DIR whatever is in it; files in the way are set aside.")
    ] = False,
) -> None:
    """Write a course folder for nbgrader: generate_assignment, autograde and generate_feedback take it as it is.

    Example: python -m helpers class export-nbgrader --to attention-course
    """
    try:
        from helpers.classroom.nbgrader_export import ExportError, export_nbgrader
    except ModuleNotFoundError:
        _stop(_STUDENT_EDITION)
    try:
        report = export_nbgrader(to, assignment=assignment, force=force)
    except ExportError as error:
        _stop(str(error))
    typer.echo(str(report))


def _graded(
    found: list[Submission], out: Path, settings: Settings, workers: int | None, dask: str | None, fresh: bool
) -> ClassResult:
    """Grade behind a progress bar. An interrupt ends the program, in words."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    from helpers.classroom.grading_loop import grade_class
    from helpers.classroom.host import close_workers

    done = 0
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with _executor(workers, dask) as (executor, in_flight), Progress(*columns, transient=True) as bar:
        task = bar.add_task("grading", total=len(found))

        def progress(result: Any, known: bool) -> None:
            nonlocal done
            done += 1
            bar.update(task, completed=done)

        try:
            return grade_class(found, out, settings, executor, in_flight=in_flight, fresh=fresh, progress=progress)
        except KeyboardInterrupt:
            close_workers()
            typer.echo(_AGAIN.format(done=done, all=len(found)), err=True)
            raise typer.Exit(INTERRUPTED) from None


@contextmanager
def _executor(workers: int | None, dask: str | None) -> Iterator[tuple[Executor, int]]:
    """What runs the submissions, and how many it should have at the same time."""
    if dask is None:
        count = workers or os.cpu_count() or 1
        threads = ThreadPoolExecutor(count)  # they wait: the work is done in a process for each
        try:
            yield threads, count + 2
        finally:
            threads.shutdown(wait=False, cancel_futures=True)
        return
    try:
        from distributed import Client
    except ModuleNotFoundError:
        _stop("Dask is not installed: pip install 'attention-by-hand[dask]'.")
    try:
        client = Client(dask, timeout=10)
    except (OSError, ValueError) as error:
        _stop(f"There is no Dask scheduler at {dask}: {error}")
    with client:
        yield client.get_executor(pure=False), 2 * max(sum(client.nthreads().values()), 1)


def _former_results(out: Path) -> dict[str, Any] | None:
    try:
        data = json.loads((out / "results.json").read_text("utf-8"))
    except (OSError, ValueError):
        return None
    return data if isinstance(data, dict) else None


def _say(result: ClassResult, changed: str, out: Path) -> None:
    from helpers.classroom.reports import tally

    for sentence in result.protection:
        typer.echo(sentence)
    for student in result.students:
        if student.status != "graded":
            typer.echo(f"{student.student}: {student.status}. {student.reason}")
    if changed:
        typer.echo(changed.rstrip())
    counts = tally.statuses(result)
    points = [student.points for student in result.students]
    typer.echo(
        _COUNTS.format(
            graded=counts["graded"],
            partly=counts["partly graded"],
            not_gradable=counts["not gradable"],
            mean=sum(points) / max(len(points), 1),
            most=sum(exercise.points for exercise in tally.exercises_of(result)),
        )
    )
    typer.echo(_WRITTEN.format(out=out))


def _append(file: Path, text: str) -> None:
    try:
        with file.open("a", encoding="utf-8") as stream:
            stream.write(text)
    except OSError as error:
        _stop(f"{file} cannot be written: {error.strerror}.")


def _stop(message: str) -> NoReturn:
    typer.echo(message, err=True)
    raise typer.Exit(CANNOT)

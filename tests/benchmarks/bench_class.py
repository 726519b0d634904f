"""Measures what grading a class costs: `python tests/benchmarks/bench_class.py --help`. For maintainers; no test.

Prints how fast the classroom, `nbgrader autograde` and `otter run` grade the same solved notebooks, all in this one
run; what the right answers alone cost on the same probes; the memory of the processes; and whether the time grows with
the class. Every grader must give full points, else the run ends.

Otter needs a Python of its own that also finds this course and its packages:

    python -m venv OTTER && OTTER/bin/pip install otter-grader==7.0.0
    python -c "import os, sysconfig; print(os.getcwd(), sysconfig.get_path('purelib'), sep='\\n')" \\
        > OTTER/lib/python3.11/site-packages/course.pth
    python tests/benchmarks/bench_class.py --otter OTTER/bin/python
"""

from __future__ import annotations

import argparse
import json
import math
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import torch

from helpers import notebook, paths, source
from helpers.bench.measure import machine
from helpers.classroom import sandbox
from helpers.classroom.grading_loop import grade_class
from helpers.classroom.host import Settings
from helpers.classroom.judging import books
from helpers.classroom.nbgrader_export import export_nbgrader
from helpers.classroom.reports import write_all
from helpers.classroom.submissions import find
from helpers.course import EXERCISES, NOTEBOOKS
from helpers.judge import function_probes, probes
from helpers.judge.answer_book import answer_book
from helpers.judge.observe import observe_each
from helpers.judge.probes import PUBLISHED, Draw
from helpers.judge.record import solution

_ASSIGNMENT = "attention"
_MOST = sum(exercise.points for exercise in EXERCISES)
_ROUNDS_OF_ANSWERS = 20
_CLASS = 10_000  # submissions, for the extrapolation
_CORES = (8, 16, 32, 64)


@dataclass
class Times:
    """Seconds for one submission, by the clock and of CPU, once for each time that they were measured.

    The CPU seconds say more where other programs keep the machine busy.
    """

    each: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)

    @property
    def a_minute(self) -> float:
        return 60 / statistics.median(self.each)

    def line(self, label: str) -> str:
        spread = f"{60 / max(self.each):.2f} – {60 / min(self.each):.2f}"
        seconds, cpu = statistics.median(self.each), statistics.median(self.cpu)
        return f"{label:44}{self.a_minute:9.2f}{spread:>18}{seconds:9.2f}{cpu:8.2f}{len(self.each):5}"


# ------------------------------------------------------------------------------------------- what is handed in


def released(folder: Path) -> Path:
    """A course of nbgrader with its release. Returns the folder of the released notebooks."""
    export_nbgrader(folder, assignment=_ASSIGNMENT)
    nbgrader(folder, "generate_assignment", _ASSIGNMENT)
    return folder / "release" / _ASSIGNMENT


def solved(release: Path, short: bool) -> dict[str, Any]:
    """File name → released notebook with every blank solved. short: imports, answers and checks alone."""
    answers = {exercise.name: source.solution(exercise.name, paths.SOLUTIONS) or "" for exercise in EXERCISES}
    found = {}
    for stem in NOTEBOOKS:
        filled = notebook.fill(notebook.read(release / f"{stem}.ipynb"), answers)
        if short:
            filled.cells = [
                cell
                for cell in filled.cells
                if cell.id == "imports" or {"exercise", "check"} & set(cell.metadata.get("tags", []))
            ]
        found[f"{stem}.ipynb"] = filled
    return found


def hand_in(notebooks: dict[str, Any], folder: Path, students: int, below: str = "") -> Path:
    """The same notebooks for every student: folder/student/below/."""
    for number in range(students):
        own = folder / f"student-{number:05}" / below
        own.mkdir(parents=True)
        for name, data in notebooks.items():
            notebook.write(data, own / name)
    return folder


# ------------------------------------------------------------------------------------------------- the graders


@dataclass(frozen=True)
class Graded:
    """Wall-clock seconds for a class: find and grade, then write the reports; CPU seconds of host and of workers."""

    grading: float
    reports: float
    host: float
    workers: float


def ours(folder: Path, settings: Settings, workers: int, most: int = _MOST) -> Graded:
    """Grade everything in the folder, as `python -m helpers class grade` does."""
    with tempfile.TemporaryDirectory() as out, ThreadPoolExecutor(workers) as executor:
        host, inside = cpu_of_host(), cpu_of_workers()
        start = time.perf_counter()
        result = grade_class(find(folder), Path(out), settings, executor, in_flight=workers + 2)
        grading = time.perf_counter() - start
        host, inside = cpu_of_host() - host, cpu_of_workers() - inside
        wrong = [student for student in result.students if student.points != most]
        if wrong:
            raise SystemExit(f"{wrong[0].student} got {wrong[0].points} points, not {most}. {wrong[0].reason}")
        start = time.perf_counter()
        write_all(result, Path(out))
        return Graded(grading, time.perf_counter() - start, host, inside)


def nbgrader(course: Path, *arguments: str) -> None:
    environment = os.environ | {"JUPYTER_CONFIG_DIR": str(course / "no settings of a person")}
    command = [sys.executable, "-m", "nbgrader", *arguments]
    done = subprocess.run(command, cwd=course, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"nbgrader {' '.join(arguments)} failed:\n{done.stderr[-2000:]}")


def autograde(course: Path, notebooks: dict[str, Any], copies: int) -> Times:
    """One `nbgrader autograde` for all copies. A submission ends when its last notebook is written."""
    from nbgrader.api import Gradebook

    for folder in ("submitted", "autograded"):
        shutil.rmtree(course / folder, ignore_errors=True)
    hand_in(notebooks, course / "submitted", copies, _ASSIGNMENT)
    start, cpu = time.time(), cpu_of_commands()
    nbgrader(course, "autograde", _ASSIGNMENT, "--force")
    cpu = cpu_of_commands() - cpu
    students = (course / "autograded").iterdir()
    ends = sorted(max(file.stat().st_mtime for file in student.rglob("*.ipynb")) for student in students)
    ends[-1] = time.time()  # the command has to end, too
    with Gradebook(f"sqlite:///{course / 'gradebook.db'}") as book:
        points = {submission.student.id: submission.score for submission in book.assignment_submissions(_ASSIGNMENT)}
    if len(ends) != copies or set(points.values()) != {_MOST}:
        raise SystemExit(f"nbgrader gave {points}, not {_MOST} points to each of {copies}.")
    return Times(np.diff([start, *ends]).tolist(), [cpu / copies])


def autograder_zips(python: str, notebooks: dict[str, Any], folder: Path) -> dict[str, Path]:
    """File name of a notebook → what otter needs to grade it: one test for each exercise, which calls our check."""
    found = {}
    for name in notebooks:
        stem = Path(name).stem
        tests = folder / stem
        tests.mkdir()
        for exercise in (exercise for exercise in EXERCISES if exercise.notebook == stem):
            code = f'>>> from helpers import check\n>>> assert check({exercise.name}, "{exercise.name}").passed'
            case = {"code": code, "hidden": False, "locked": False}
            suite = {"cases": [case], "scored": True, "setup": "", "teardown": "", "type": "doctest"}
            test = {"name": exercise.name, "points": exercise.points, "suites": [suite]}
            (tests / f"{exercise.name}.py").write_text(f"OK_FORMAT = True\ntest = {test!r}\n", "utf-8")
        found[name] = folder / f"{stem}.zip"
        options = ["-t", str(tests), "-o", str(found[name]), "--no-environment", "--no-requirements"]
        otter(python, folder, "generate", *options)
    return found


def otter(python: str, folder: Path, *arguments: str) -> None:
    environment = os.environ | {"ATTENTION_PROGRESS": "off"}
    command = [python, "-m", "otter", *arguments]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"otter {' '.join(arguments)} failed:\n{(done.stdout + done.stderr)[-2000:]}")


def otter_run(python: str, folder: Path, notebooks: dict[str, Any], copies: int) -> Times:
    """One `otter run` after the other, one for each notebook of each copy."""
    folder.mkdir()
    zips = autograder_zips(python, notebooks, folder)
    hand_in(notebooks, folder / "in", copies)
    times = Times()
    for student in sorted((folder / "in").iterdir()):
        points, start, cpu = 0.0, time.perf_counter(), cpu_of_commands()
        for name, autograder in zips.items():
            out = student / Path(name).stem
            out.mkdir()
            otter(python, folder, "run", "-a", str(autograder), "-o", str(out), "--no-logo", str(student / name))
            tests = json.loads((out / "results.json").read_text("utf-8"))["tests"]
            points += sum(test.get("score", 0) for test in tests)
        times.each.append(time.perf_counter() - start)
        times.cpu.append(cpu_of_commands() - cpu)
        if points != _MOST:
            raise SystemExit(f"otter gave {points}, not {_MOST} points.")
    return times


def version(python: str, package: str) -> str:
    """The version of a package in another Python, which must see the course as well."""
    code = f"import helpers, torch, {package}; print({package}.__version__)"
    elsewhere = tempfile.gettempdir()  # the course must be found from there, too
    done = subprocess.run([python, "-c", code], cwd=elsewhere, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{python} does not find all of helpers, torch and {package}:\n{done.stderr[-600:]}")
    return done.stdout.strip()


# ------------------------------------------------------------------------------------------- our own processes


def processes() -> list[tuple[str, psutil.Process]]:
    """The processes of the workers of this process, each with what it does."""
    roles = ("worker", "supervisor", "cell runner")
    found: dict[int, int] = {}  # process → how deep it is below the first one of its worker
    result = []
    for process in psutil.Process().children(recursive=True):  # parents come before their children
        try:
            if "helpers.classroom.worker" not in process.cmdline() or process.name() == "bwrap":
                continue
            found[process.pid] = found.get(process.ppid(), -1) + 1
        except psutil.Error:
            continue
        if found[process.pid] < len(roles):
            result.append((roles[found[process.pid]], process))
    return result


def cpu_of_host() -> float:
    used = psutil.Process().cpu_times()
    return float(used.user + used.system)


def cpu_of_commands() -> float:
    """CPU seconds of the commands that have ended, with all that they started and waited for."""
    used = os.times()
    return used.children_user + used.children_system


def cpu_of_workers() -> float:
    """CPU seconds of all workers with all that they have started and waited for. To be read while they are idle."""
    return float(sum(sum(process.cpu_times()[:4]) for role, process in processes() if role == "worker"))


def memory_while(run: Callable[[], Any]) -> dict[str, list[tuple[float, float]]]:
    """Unique and proportional memory (USS, PSS) in MB, seen again and again while `run` works.

    By role, and under "workers" of all workers together. Empty where it cannot be read.
    """
    seen: dict[str, list[tuple[float, float]]] = {}
    ended = threading.Event()

    def look() -> None:
        while not ended.wait(0.05):
            together = np.zeros(2)
            for role, process in [*processes(), ("host", psutil.Process())]:
                try:
                    info = process.memory_full_info()
                except psutil.Error:  # it has ended, or it may not be looked into
                    continue
                if info.pss:  # what is just ending has none left
                    seen.setdefault(role, []).append((info.uss / 1e6, info.pss / 1e6))
                    together += seen[role][-1] if role != "host" else 0
            seen.setdefault("workers", []).append((float(together[0]), float(together[1])))

    watcher = threading.Thread(target=look)
    watcher.start()
    try:
        run()
    finally:
        ended.set()
        watcher.join()
    return seen


# ------------------------------------------------------------------------------------------- the answers alone


def alone(exercise: str, draws: Sequence[Draw]) -> Callable[[], Any]:
    """One forward pass of the right answer on each probe of all draws, with everything built beforehand."""
    answer = solution(exercise)
    if exercise not in probes.CLASSES:
        drawn = [call for draw in draws for call in function_probes.function_calls(exercise, draw)]
        calls = [(call.make(), dict(call.keywords)) for call in drawn]
        return lambda: [answer(*arguments, **keywords) for arguments, keywords in calls]
    cases = [case for draw in draws for case in probes.class_cases(exercise, draw)]
    of_heads = exercise == "MultiHeadAttention"
    modules = {
        (d, h): (answer(d, h) if of_heads else answer(d)).eval() for d, h in {(case.d, case.h) for case in cases}
    }

    def run() -> None:
        with torch.no_grad():
            for case in cases:
                modules[case.d, case.h](*case.inputs, *(() if case.mask is None else (case.mask,)))

    return run


def observation(exercise: str, draws: Sequence[Draw]) -> Callable[[], Any]:
    """`observe` of the right answer: gradients, state, dropout and the rest, and no process, sandbox or comparison."""
    key = answer_book().key(exercise) if exercise in probes.CLASSES else None
    return lambda: observe_each(solution(exercise), exercise, key, draws)


def quartiles(runs: Sequence[Callable[[], Any]]) -> tuple[float, float, float]:
    """Lower quartile, median and upper quartile of the seconds that all of them take, warm, with one thread."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # as in a worker
    times = []
    for _ in range(3 + _ROUNDS_OF_ANSWERS):
        start = time.perf_counter()
        for run in runs:
            run()
        times.append(time.perf_counter() - start)
    torch.set_num_threads(threads)
    low, median, high = np.quantile(times[3:], (0.25, 0.5, 0.75))
    return float(low), float(median), float(high)


# ------------------------------------------------------------------------------------------------------ printing


def show_start(settings: Settings, folder: Path, workers: int) -> None:
    start = time.perf_counter()
    books(settings.seed)
    recorded = time.perf_counter() - start
    empty = {"empty.ipynb": notebook.read(paths.NOTEBOOKS / f"{NOTEBOOKS[0]}.ipynb")}
    hand_in(empty, folder, workers)
    started = ours(folder, settings, workers, most=0).grading
    print(
        f"start-up, not in the figures below: {recorded:.1f} s for the right outputs on the private probes, "
        f"{started:.1f} s for {workers} workers and a blank notebook in each\n"
    )


def compare(
    given: argparse.Namespace, settings: Settings, folder: Path, course: Path, notebooks: dict[str, Any]
) -> Graded:
    """Time the graders in turns, print what each does in a minute, and the ratios. Returns one of our own runs."""
    found = hand_in(notebooks, folder / "in", given.submissions)
    all_cores, one_worker, runs = Times(), Times(), []

    def our_turn() -> None:
        for times, workers in ((all_cores, given.workers), (one_worker, 1)):
            runs.append(ours(found, settings, workers))
            times.each.append(runs[-1].grading / given.submissions)
            times.cpu.append((runs[-1].host + runs[-1].workers) / given.submissions)

    others = {}
    our_turn()
    if given.copies:
        others["nbgrader autograde"] = autograde(course, notebooks, given.copies)
    our_turn()
    if given.copies and given.otter:
        others["otter run"] = otter_run(given.otter, folder / "otter", notebooks, given.copies)
    our_turn()
    print(f"{'':44}{'a minute':>9}{'slowest – fastest':>18}{'seconds':>9}{'of CPU':>8}{'runs':>5}")
    print(all_cores.line(f"this classroom, {given.workers} workers"))
    print(one_worker.line("this classroom, 1 worker"))
    for label, times in others.items():
        print(times.line(f"{label}, one notebook at a time"))
    for label, times in others.items():
        ratios = [one.a_minute / times.a_minute for one in (all_cores, one_worker)]
        cpu = statistics.median(times.cpu) / statistics.median(one_worker.cpu)
        print(
            f"this classroom ÷ {label}, submissions a minute: {ratios[0]:.1f} with {given.workers} workers, "
            f"{ratios[1]:.1f} with 1 worker, {cpu:.1f} by CPU time"
        )
    print(flush=True)
    return min(runs[1::2], key=lambda run: run.grading)


def show_floor(settings: Settings, draws: Sequence[Draw], graded: Graded, submissions: int) -> None:
    names = [exercise.name for exercise in EXERCISES]
    floor = quartiles([alone(name, draws) for name in names])
    observed = quartiles([observation(name, draws) for name in names])
    wall, cpu = graded.grading / submissions, (graded.host + graded.workers) / submissions
    print(f"{'one submission, 1 worker, fastest run':44}{'seconds':>9}{'quartiles':>18}{'÷ floor':>11}")
    for label, (low, median, high) in (
        (f"floor: {len(names)} right answers on all probes", floor),
        ("observe alone, in one warm process", observed),
    ):
        spread = f"{low:.3f} – {high:.3f}"
        print(f"{label:44}{median:9.3f}{spread:>18}{median / floor[1]:11.1f}")
    for label, seconds in (
        ("this classroom, by the clock", wall),
        ("this classroom, CPU of workers", graded.workers / submissions),
        ("this classroom, CPU of the host", graded.host / submissions),
        ("this classroom, CPU of both", cpu),
    ):
        print(f"{label:44}{seconds:9.3f}{'':18}{seconds / floor[1]:11.1f}")
    print(f"this classroom by the clock ÷ observe alone: {wall / observed[1]:.1f}\n", flush=True)


def show_memory(found: Path, settings: Settings, workers: int) -> None:
    seen = memory_while(lambda: ours(found, settings, workers))
    if "worker" not in seen:
        print("The memory of the workers cannot be read on this machine.\n")
        return
    print(f"{'memory in MB':44}{'USS median':>11}{'most':>8}{'PSS median':>12}{'most':>8}{'seen':>7}")
    for role in (role for role in ("worker", "supervisor", "cell runner", "host") if role in seen):
        values = seen[role]
        (uss, pss), (most_uss, most_pss) = np.median(values, axis=0), np.max(values, axis=0)
        print(f"{role:44}{uss:11.0f}{most_uss:8.0f}{pss:12.0f}{most_pss:8.0f}{len(values):7}")
    most = max(pss for _, pss in seen["workers"])
    print(
        f"{workers} workers with all that they start, PSS: at most {most:.0f} MB, {most / workers:.0f} MB for each\n",
        flush=True,
    )


def show_growth(
    sizes: Sequence[int], notebooks: dict[str, Any], folder: Path, settings: Settings, workers: int
) -> Graded:
    """Returns the figures of the largest class, for one submission."""
    print(f"{f'growth, {workers} workers: submissions':34}{'grading s':>10}{'reports s':>10}", end="")
    print(f"{'s each':>10}{'÷ smallest':>12}{'host in MB':>12}")
    first, each = 0.0, Graded(0, 0, 0, 0)
    for size in sizes:
        found = hand_in(notebooks, folder / str(size), size)
        run = ours(found, settings, workers)
        shutil.rmtree(found)
        each = Graded(run.grading / size, run.reports / size, run.host / size, run.workers / size)
        both = each.grading + each.reports
        first = first or both
        held = psutil.Process().memory_info().rss / 1e6
        print(
            f"{size:34}{run.grading:10.1f}{run.reports:10.2f}{both:10.3f}{both / first:12.2f}{held:12.0f}", flush=True
        )
    return each


def show_extrapolation(each: Graded, workers: int, cores: int) -> None:
    """From the largest class that was measured; nothing here was run."""
    hours = (each.grading + each.reports) * cores * _CLASS / 3600
    cpu_hours = (each.host + each.workers) * _CLASS / 3600
    host_minutes = (each.host + each.reports) * _CLASS / 60
    print(f"\nextrapolated to {_CLASS:,} submissions of the whole course, from the last line above:")
    print(f"{hours:.1f} core hours ({cpu_hours:.1f} of them CPU time), with {workers} workers on {cores} cores")
    for count in _CORES:
        minutes = max(60 * hours / count, host_minutes)
        machines = math.ceil(hours / count)
        print(f"machines of {count} cores: {machines} for one hour, or a single one for {minutes:.0f} minutes")
    print(
        f"The one process that reads, compares and reports works {host_minutes:.0f} minutes of that: "
        f"by CPU time it keeps up with {each.workers / each.host:.0f} workers"
    )


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Times the grading of a class against nbgrader and otter.")
    parser.add_argument("--submissions", type=int, default=8, metavar="N", help="for a run of this classroom")
    parser.add_argument("--copies", type=int, default=2, metavar="N", help="for nbgrader and otter; 0: leave them out")
    parser.add_argument("--otter", metavar="PYTHON", help="a Python with otter-grader that finds the course as well")
    parser.add_argument("--short", action="store_true", help="compare also notebooks of answers and checks alone")
    parser.add_argument("--growth", type=int, nargs="+", default=[10, 100], metavar="N", help="sizes of a class")
    parser.add_argument("--large", action="store_true", help="grow to 1,000 submissions as well")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1, metavar="N", help="default: all cores")
    parser.add_argument("--seed", type=int, default=11, metavar="N", help="of the private probes")
    given = parser.parse_args()
    if given.otter:
        found = shutil.which(given.otter) or parser.error(f"{given.otter} is no program that can be started")
        given.otter = os.path.abspath(found)
    return given


def main() -> None:
    given = arguments()
    settings = Settings(given.seed)
    draws = [PUBLISHED, Draw(given.seed)]
    print(machine())
    print(" ".join(sandbox.protection().sentences[:1]))
    if given.copies:
        versions = [f"nbgrader {version(sys.executable, 'nbgrader')}"]
        versions += [f"otter-grader {version(given.otter, 'otter')}"] if given.otter else []
        print(", ".join(versions))
    print(f"a submission: {len(NOTEBOOKS)} solved notebooks, {len(EXERCISES)} exercises; published and private probes")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        release = released(folder / "course")
        show_start(settings, folder / "start", given.workers)
        print(
            "whole notebooks; nbgrader and otter run the experiments in them, this classroom only what the answers need"
        )
        whole = solved(release, short=False)
        graded = compare(given, settings, folder / "whole", folder / "course", whole)
        if given.short:
            print("the same notebooks without experiments: imports, answers and checks alone")
            compare(given, settings, folder / "short", folder / "course", solved(release, short=True))
        show_floor(settings, draws, graded, given.submissions)
        show_memory(folder / "whole" / "in", settings, given.workers)
        sizes = [*given.growth, *([1000] if given.large else [])]
        each = show_growth(sizes, whole, folder / "growth", settings, given.workers)
        show_extrapolation(each, given.workers, os.cpu_count() or 1)


if __name__ == "__main__":
    main()

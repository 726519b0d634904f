"""A class is graded: every answer gets what it deserves, whatever the notebook looks like; nothing is lost."""

from __future__ import annotations

import copy
import json
import os
import signal
import subprocess
import sys
import time
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import answers
import class_samples as samples
import pytest
from typer.testing import CliRunner

from helpers.__main__ import app
from helpers.classroom import sandbox
from helpers.classroom.grading_loop import grade_class
from helpers.classroom.host import HostError, Settings
from helpers.classroom.ledger import LedgerError
from helpers.classroom.results import ClassResult, StudentResult
from helpers.classroom.submissions import find
from helpers.course import EXERCISES

SETTINGS = Settings(seed=11, seconds=20.0)
MOST = sum(exercise.points for exercise in EXERCISES)
ONE = "01_self_attention_v1"
ON_ONE = sum(samples.POINTS[name] for name in samples.exercises_of(ONE))


def grade(folder: Path, out: Path, settings: Settings = SETTINGS, **more: Any) -> ClassResult:
    with ThreadPoolExecutor(2) as executor:
        return grade_class(find(folder), out, settings, executor, in_flight=3, **more)


def by_name(result: ClassResult) -> dict[str, StudentResult]:
    return {student.student: student for student in result.students}


# --- right and wrong answers ----------------------------------------------------------------------


def test_every_answer_gets_the_grade_that_it_deserves(tmp_path: Path) -> None:
    """The trial set of the judge, a third of it, handed in as notebooks; with private probes."""
    answers.load()
    piles: dict[str, list[tuple[bool, str]]] = {}
    for right, bank in ((True, answers.RIGHT), (False, answers.WRONG)):
        for exercise, answer, *_ in bank[::3]:
            if answer.__name__ != "<lambda>":
                piles.setdefault(exercise, []).append((right, samples.source_of(answer, exercise)))
    truth: dict[str, dict[str, bool]] = {}
    for number in range(max(map(len, piles.values()))):
        mine = {exercise: pile[number] for exercise, pile in piles.items() if number < len(pile)}
        student = f"student {number:03}"
        truth[student] = {exercise: right for exercise, (right, _) in mine.items()}
        samples.write(tmp_path / "in" / student / "all.ipynb", samples.bare(*(text for _, text in mine.values())))
    result = by_name(grade(tmp_path / "in", tmp_path / "out"))
    judged = {
        (student, verdict.exercise): verdict.passed
        for student, one in result.items()
        for verdict in one.verdicts
        if verdict.exercise in truth[student]
    }
    expected = {(student, exercise): right for student, all in truth.items() for exercise, right in all.items()}
    assert {key for key in expected if judged.get(key) != expected[key]} == set()


def test_the_whole_course_solved_is_full_marks_and_blank_is_none(tmp_path: Path) -> None:
    samples.write_course(tmp_path / "in" / "solved")
    samples.write_course(tmp_path / "in" / "blank", solved=False)
    samples.write_course(tmp_path / "in" / "one mistake", {"softmax": "def softmax(scores):\n    return scores.exp()"})
    result = by_name(grade(tmp_path / "in", tmp_path / "out"))
    assert result["solved"].points == MOST
    assert result["solved"].notes == ()
    assert {verdict.status for verdict in result["blank"].verdicts} == {"not started"}
    assert result["one mistake"].points == MOST - samples.POINTS["softmax"]
    assert {student.status for student in result.values()} == {"graded"}


# --- what happens to notebooks --------------------------------------------------------------------


def cell_of(data: dict[str, Any], name: str) -> dict[str, Any]:
    return next(cell for cell in data["cells"] if cell["id"] == f"exercise-{name}")


def _copied(data: dict[str, Any]) -> None:
    data["cells"] += [copy.deepcopy(cell) for cell in data["cells"]]


def _split(data: dict[str, Any]) -> None:
    """Jupyter's own split, in the middle of a class: both halves keep id and metadata."""
    whole = cell_of(data, "SelfAttentionV1")
    head, tail = whole["source"].split("    def forward", 1)
    place = data["cells"].index(whole)
    data["cells"][place : place + 1] = [whole | {"source": head}, whole | {"source": f"    def forward{tail}"}]


def _moved(data: dict[str, Any]) -> None:
    data["cells"].reverse()


def _without_checks(data: dict[str, Any]) -> None:
    data["cells"] = [cell for cell in data["cells"] if not cell["id"].startswith(("check", "imports"))]


def _without_imports(data: dict[str, Any]) -> None:
    data["cells"] = [
        cell
        for cell in data["cells"]
        if cell["id"].startswith("exercise") or "import torch" not in "".join(cell["source"])
    ]


def _retagged(data: dict[str, Any]) -> None:
    for cell in data["cells"]:
        cell["metadata"] = {
            "tags": ["raises-exception", "nbval-skip"],
            "nbgrader": {"grade_id": "other", "schema_version": 1},
        }


def _stripped(data: dict[str, Any]) -> None:
    for cell in data["cells"]:
        del cell["id"], cell["metadata"]
        cell.pop("outputs", None)
        cell.pop("execution_count", None)
    del data["metadata"]


def _as_markdown(data: dict[str, Any]) -> None:
    cell_of(data, "softmax")["cell_type"] = "markdown"
    cell_of(data, "SelfAttentionV1")["cell_type"] = "raw"


def _same_ids(data: dict[str, Any]) -> None:
    for cell in data["cells"]:
        cell["id"] = "same"


def _blank_below(data: dict[str, Any]) -> None:
    """What `reset` leaves when it is called after the answer was right."""
    blank = cell_of(samples.notebook(ONE, solved=False), "softmax")
    data["cells"].append(blank)


def _with_magics(data: dict[str, Any]) -> None:
    cell_of(data, "softmax")["source"] = "%%time\n%matplotlib inline\n!ls\n" + samples.solution("softmax")
    cell_of(data, "attention_scores")["source"] += "\n\nfiles = !ls\ntorch?\nawait __import__('asyncio').sleep(0)"


def _old_format(data: dict[str, Any]) -> None:
    cells = [
        {
            "cell_type": "code",
            "input": cell["source"],
            "language": "python",
            "outputs": [],
            "metadata": {},
            "prompt_number": 1,
        }
        if cell["cell_type"] == "code"
        else {"cell_type": "markdown", "source": cell["source"], "metadata": {}}
        for cell in data["cells"]
    ]
    data.clear()
    data |= {
        "worksheets": [{"cells": cells, "metadata": {}}],
        "metadata": {"name": ""},
        "nbformat": 3,
        "nbformat_minor": 0,
    }


def _with_garbage(data: dict[str, Any]) -> None:
    cell_of(data, "softmax")["source"] += "\n\nthis is not python at all"
    data["cells"].insert(3, samples.code_cell("def broken(:"))


@pytest.mark.parametrize(
    "change",
    [
        *(_copied, _split, _moved, _without_checks, _without_imports, _retagged, _stripped, _as_markdown, _same_ids),
        *(_blank_below, _with_magics, _old_format, _with_garbage),
    ],
)
def test_what_happens_to_a_notebook_costs_nothing(tmp_path: Path, change: Any) -> None:
    data = samples.notebook(ONE)
    change(data)
    samples.write(tmp_path / "in" / "ana" / "homework (1).ipynb", data)
    (ana,) = grade(tmp_path / "in", tmp_path / "out").students
    assert (ana.points, ana.status) == (ON_ONE, "graded"), (ana.reason, ana.notes, ana.verdicts)


def test_an_answer_may_be_in_any_notebook_and_the_best_one_counts(tmp_path: Path) -> None:
    wrong = {"softmax": "def softmax(scores):\n    return scores"}
    samples.write(tmp_path / "in/ana/first try.ipynb", samples.notebook(ONE, wrong))
    samples.write(tmp_path / "in/ana/second/again.ipynb", samples.notebook(ONE))
    (ana,) = grade(tmp_path / "in", tmp_path / "out").students
    assert ana.points == ON_ONE
    assert any("several notebooks" in note for note in ana.notes)


# --- damaged submissions --------------------------------------------------------------------------


def test_every_damaged_submission_gets_a_reason_and_stops_nobody(tmp_path: Path) -> None:
    right = json.dumps(samples.notebook(ONE))
    large = samples.notebook(ONE)
    large["cells"][-1] = samples.code_cell(
        "1", outputs=[{"output_type": "stream", "name": "stdout", "text": "x" * 10**8}]
    )
    folder = tmp_path / "in"
    damaged: dict[str, Any] = {
        "not json": right[:-100],
        "empty file": "",
        "no cells": '{"nbformat": 4, "nbformat_minor": 5, "metadata": {}}',
        "cells is a number": '{"cells": 3, "nbformat": 4, "nbformat_minor": 5, "metadata": {}}',
        "a list": "[]",
        "not text": bytes(range(256)),
        "nested": "[" * 200_000,
        "nothing of the course": samples.bare("x = 1"),
        "no code": {"cells": [], "metadata": {}, "nbformat": 4, "nbformat_minor": 5},
    }
    for name, data in damaged.items():
        samples.write(folder / name / "work.ipynb", data)
    (folder / "empty folder").mkdir()
    samples.write(folder / "no zip.zip", b"PK\x03\x04 not a zip")
    samples.write(folder / "only a report" / "report.pdf", b"%PDF")
    samples.write(folder / "ünïcode und Leerzeichen 名前" / "mein Heft.ipynb", right)
    samples.write(folder / "large outputs" / "work.ipynb", large)
    result = by_name(grade(folder, tmp_path / "out"))
    graded = {"ünïcode und Leerzeichen 名前", "large outputs"}
    assert {name for name, one in result.items() if one.status == "graded"} == graded
    assert {result[name].points for name in graded} == {ON_ONE}
    for name, one in result.items():
        if name not in graded:
            assert (one.status, one.points) == ("not gradable", 0), name
            assert len(one.reason) > 15, name
    assert len(result) == len(damaged) + 5


def test_one_damaged_notebook_leaves_the_others(tmp_path: Path) -> None:
    samples.write(tmp_path / "in/ana/one.ipynb", samples.notebook(ONE))
    samples.write(tmp_path / "in/ana/two.ipynb", "{")
    (ana,) = grade(tmp_path / "in", tmp_path / "out").students
    assert (ana.status, ana.points) == ("partly graded", ON_ONE)
    assert "two.ipynb" in ana.reason


# --- interrupted, resumed, graded again -----------------------------------------------------------


class Counting(Executor):
    """Runs everything at once, here, and counts; breaks off after some."""

    def __init__(self, most: int = 1000):
        self.most, self.ran = most, 0

    def submit(self, call: Any, *arguments: Any) -> Future[Any]:  # type: ignore[override]
        if self.ran == self.most:
            raise KeyboardInterrupt
        self.ran += 1
        future: Future[Any] = Future()
        future.set_result(call(*arguments))
        return future


@pytest.fixture
def five(tmp_path: Path) -> Path:
    for number in range(5):
        samples.write(tmp_path / "in" / f"student {number}" / "work.ipynb", samples.bare(samples.solution("softmax")))
    return tmp_path


def test_an_interrupted_run_goes_on_where_it_was(five: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        grade_class(find(five / "in"), five / "out", SETTINGS, Counting(3), in_flight=1)
    rest = Counting()
    result = grade_class(find(five / "in"), five / "out", SETTINGS, rest, in_flight=1)
    assert rest.ran == 2
    assert [student.points for student in result.students] == [samples.POINTS["softmax"]] * 5


def test_a_new_submission_a_new_seed_and_a_changed_check_are_graded_again(
    five: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def runs(settings: Settings = SETTINGS) -> int:
        counting = Counting()
        grade_class(find(five / "in"), five / "out", settings, counting, in_flight=1)
        return counting.ran

    assert (runs(), runs()) == (5, 0)
    samples.write(five / "in/student 3/work.ipynb", samples.bare("x = 1", samples.solution("softmax")))
    assert (runs(), runs()) == (1, 0)
    assert runs(Settings(seed=12)) == 5
    monkeypatch.setattr("helpers.classroom.ledger._course_fingerprint", lambda: "a changed check")
    assert runs(Settings(seed=12)) == 5


def test_a_damaged_note_is_graded_again(five: Path) -> None:
    grade_class(find(five / "in"), five / "out", SETTINGS, Counting(), in_flight=1)
    notes = sorted((five / "out/.grading").glob("*.json"))
    notes[0].write_text('{"key": ')
    notes[1].write_text("[]")
    again = Counting()
    grade_class(find(five / "in"), five / "out", SETTINGS, again, in_flight=1)
    assert 1 <= again.ran <= 2  # one of the two may be the run's own settings


def test_any_executor_will_do(five: Path) -> None:
    import multiprocessing

    with ProcessPoolExecutor(2, multiprocessing.get_context("spawn")) as processes:
        result = grade_class(find(five / "in"), five / "out", SETTINGS, processes, in_flight=4)
    assert [student.points for student in result.students] == [samples.POINTS["softmax"]] * 5


def test_trouble_of_the_executor_is_told_and_tried_again_later(five: Path) -> None:
    class Failing(Counting):
        def submit(self, call: Any, *arguments: Any) -> Future[Any]:  # type: ignore[override]
            future: Future[Any] = Future()
            future.set_exception(RuntimeError("the network is down"))
            return future

    result = grade_class(find(five / "in"), five / "out", SETTINGS, Failing(), in_flight=1)
    assert all("the network is down" in student.reason for student in result.students)
    again = Counting()
    grade_class(find(five / "in"), five / "out", SETTINGS, again, in_flight=1)
    assert again.ran == 5


def test_a_folder_that_cannot_be_written_is_told(five: Path) -> None:
    (five / "out").write_text("a file in the way")
    with pytest.raises(LedgerError, match="cannot be written"):
        grade(five / "in", five / "out")


# --- the sandbox ----------------------------------------------------------------------------------


def test_without_bubblewrap_it_says_what_is_open_and_may_refuse(five: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sandbox.shutil, "which", lambda name: None)
    with pytest.raises(HostError, match="bubblewrap is not installed"):
        grade(five / "in", five / "out", Settings(seed=11, require_sandbox=True))
    open_settings = Settings(seed=11, seconds=9.5)  # other settings, so that workers of its own are started
    result = grade(five / "in", five / "out", open_settings)
    assert any("no sandbox" in sentence for sentence in result.protection)
    assert [student.points for student in result.students] == [samples.POINTS["softmax"]] * 5


def test_without_bubblewrap_the_limits_still_hold(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sandbox.shutil, "which", lambda name: None)
    cells = {
        "loop": "while True:\n    pass",
        "exit": "import os\nos._exit(0)",
        "memory": "hoard = [bytearray(10**9) for _ in range(100)]",
        "parent": "import os, signal\nos.kill(os.getppid(), signal.SIGKILL)",
        "stays": "import os, time\nif os.fork() == 0:\n    os.setsid()\n    time.sleep(1000)",
    }
    for name, cell in cells.items():
        samples.write(tmp_path / "in" / name / "a.ipynb", samples.bare(samples.solution("softmax"), cell))
    settings = Settings(seed=11, seconds=1.25, memory=400 << 20)
    result = by_name(grade(tmp_path / "in", tmp_path / "out", settings))
    assert {name: one.points for name, one in result.items()} == dict.fromkeys(cells, samples.POINTS["softmax"])


# --- the command ----------------------------------------------------------------------------------


def run_command(*arguments: str | Path) -> Any:
    return CliRunner().invoke(app, ["class", "grade", *map(str, arguments)])


def test_the_command_writes_every_report(five: Path) -> None:
    result = run_command(five / "in", "--out", five / "out", "--seed", "11")
    assert result.exit_code == 0, result.output
    for name in ("grades.csv", "results.json", "class.html", "junit.xml"):
        assert (five / "out" / name).stat().st_size > 100
    assert len(list((five / "out/students").iterdir())) == 5
    assert "5 graded, 0 partly graded, 0 not gradable" in result.output


def test_the_command_keeps_the_seed_of_the_former_run(five: Path) -> None:
    first = run_command(five / "in", "--out", five / "out")
    seed = json.loads((five / "out/results.json").read_text())["run"]["seed"]
    assert first.exit_code == 0
    run_command(five / "in", "--out", five / "out")
    assert json.loads((five / "out/results.json").read_text())["run"]["seed"] == seed


def test_the_exit_code_says_that_something_was_not_graded(five: Path) -> None:
    samples.write(five / "in/odd/work.ipynb", "{")
    result = run_command(five / "in", "--out", five / "out", "--seed", "11")
    assert result.exit_code == 1
    assert "odd: not gradable." in result.output


def test_a_single_repository_with_its_summary(tmp_path: Path) -> None:
    samples.write_course(tmp_path / "repository/notebooks")
    summary = tmp_path / "summary.md"
    arguments = (
        tmp_path / "repository",
        "--single",
        "--published-only",
        "--out",
        tmp_path / "out",
        "--summary",
        summary,
    )
    result = run_command(*arguments)
    assert result.exit_code == 0, result.output
    assert "Only the published probes" in result.output
    assert "MultiHeadAttention" in summary.read_text("utf-8")


def test_a_single_repository_that_is_not_all_right_fails(tmp_path: Path) -> None:
    samples.write(tmp_path / "repository/notebooks/01.ipynb", samples.notebook(ONE))
    assert run_command(tmp_path / "repository", "--single", "--seed", "11", "--out", tmp_path / "out").exit_code == 1


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("nowhere", "--out", "out"), "nowhere"),
        (("in", "--out", "out", "--dask", "tcp://127.0.0.1:9"), "no Dask scheduler"),
    ],
)
def test_what_cannot_be_done_is_told_with_exit_code_2(
    five: Path, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...], says: str
) -> None:
    monkeypatch.chdir(five)
    result = run_command(*arguments, "--seed", "11")
    assert result.exit_code == 2, result.output
    assert says in result.output


def test_an_interrupt_at_the_keyboard_ends_in_words(tmp_path: Path) -> None:
    """The real command in a process of its own, with Ctrl-C while a submission sleeps."""
    samples.write(tmp_path / "in/a/a.ipynb", samples.bare(samples.solution("softmax")))
    samples.write(tmp_path / "in/b/b.ipynb", samples.bare("import time\ntime.sleep(1000)"))
    command = [
        sys.executable,
        "-m",
        "helpers",
        "class",
        "grade",
        "in",
        "--out",
        "out",
        "--seed",
        "11",
        "--workers",
        "1",
    ]
    process = subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    end = time.monotonic() + 60
    while not list(tmp_path.glob("out/.grading/????????*.json")) and time.monotonic() < end:
        time.sleep(0.1)
    process.send_signal(signal.SIGINT)
    output, _ = process.communicate(timeout=60)
    assert process.returncode == 130, output
    assert "1 of 2 submissions are graded" in output


# --- a Dask cluster -------------------------------------------------------------------------------


def test_a_lost_worker_of_a_dask_cluster_loses_no_submission(tmp_path: Path) -> None:
    distributed = pytest.importorskip("distributed")
    for number in range(8):
        cells = (samples.solution("softmax"), "import time\ntime.sleep(0.5)")
        samples.write(tmp_path / "in" / f"student {number}" / "a.ipynb", samples.bare(*cells))
    seen: list[str] = []
    quiet = {"distributed.logging.distributed": "critical", "distributed.comm.retry.count": 2}
    import dask

    with (
        dask.config.set(quiet),
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None, silence_logs=50
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        pids = list(client.run(os.getpid).values())

        def progress(result: StudentResult, known: bool) -> None:
            if not seen:
                os.kill(pids[0], signal.SIGKILL)
            seen.append(result.student)

        executor = client.get_executor(pure=False)
        result = grade_class(
            find(tmp_path / "in"), tmp_path / "out", SETTINGS, executor, in_flight=8, progress=progress
        )
        survivors = list(client.run(os.getpid).values())
    assert pids[0] not in survivors
    assert sorted(seen) == [f"student {number}" for number in range(8)]
    assert [student.points for student in result.students] == [samples.POINTS["softmax"]] * 8
    assert {student.status for student in result.students} == {"graded"}


def test_what_python_has_not_imported_yet_can_still_be_imported(tmp_path: Path) -> None:
    """Some packages are imported late, parts of PyTorch too; wherever the course lies, they must be there."""
    answer = samples.solution("softmax").replace("    shifted =", "    import matplotlib.cbook\n    shifted =")
    assert "cbook" in answer
    samples.write(tmp_path / "in/ana/a.ipynb", samples.bare(answer))
    (ana,) = grade(tmp_path / "in", tmp_path / "out").students
    assert ana.points == samples.POINTS["softmax"], ana.verdicts

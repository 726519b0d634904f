"""What the learner's words say and remember. The judge is replaced by one that says what a test wants."""

from __future__ import annotations

import functools
import linecache
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from nbformat.v4 import new_code_cell, new_notebook

import helpers
from helpers import check, hint, judge, lookup, notebook, paths, progress, reset, reveal, scoreboard, words, yours
from helpers.course import BY_NAME, EXERCISES, NOTEBOOKS
from helpers.judge import Finding, Verdict, answer_book


@pytest.fixture(autouse=True)
def progress_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(progress, "_waiting", {})
    monkeypatch.setattr(progress, "_unsaid", [])
    monkeypatch.setattr(progress, "_said", set())
    monkeypatch.setenv("ATTENTION_PROGRESS", str(tmp_path / "progress.json"))
    return tmp_path / "progress.json"


@pytest.fixture
def says(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Make the judge say this of every answer."""

    def say(status: Any, points: float = 0.0, *ids: str) -> None:
        findings = tuple(Finding(id, f"This is {id}.") for id in ids)
        monkeypatch.setattr(judge, "check_answer", lambda answer, name: Verdict(name, status, points, 4, findings))

    say("wrong", 1.0, "scores-not-scaled")
    return say


@pytest.fixture
def solutions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the course with one small solution."""
    folder = tmp_path / "solutions"
    folder.mkdir()
    text = "import torch\n\n\ndef softmax(scores):\n    return torch.softmax(scores, -1)\n"
    (folder / "first.py").write_text(text, encoding="utf-8")
    monkeypatch.setattr(paths, "SOLUTIONS", folder)
    return folder


def entry(name: str = "softmax") -> progress.Entry:
    return progress.read().get(name, progress.Entry())


def cell(source: str, **names: Any) -> dict[str, Any]:
    """Run source as IPython runs a cell: its text is in linecache under the name of the cell."""
    file = f"<cell {hash(source)}>"
    linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
    namespace: dict[str, Any] = {"__name__": "__main__", **names}
    exec(compile(source, file, "exec"), namespace)
    return namespace


def softmax(scores: torch.Tensor) -> torch.Tensor:
    return scores


class SelfAttentionV1(torch.nn.Module):
    pass


# --- which exercise ---


def test_the_exercise_is_found_by_the_name_of_the_answer(says: Callable[..., None]) -> None:
    assert check(softmax).exercise == "softmax"
    assert check(SelfAttentionV1).exercise == "SelfAttentionV1"


def test_the_exercise_can_be_named_by_hand(says: Callable[..., None]) -> None:
    assert check(lambda scores: scores, exercise="softmax").exercise == "softmax"


def test_a_compiled_answer_keeps_its_name(says: Callable[..., None]) -> None:
    assert check(torch.compile(softmax, backend="eager")).exercise == "softmax"


def test_an_object_is_checked_in_the_name_of_its_class(says: Callable[..., None]) -> None:
    assert check(SelfAttentionV1()).exercise == "SelfAttentionV1"


@pytest.mark.parametrize(
    "answer",
    [lambda scores: scores, functools.partial(torch.softmax, dim=-1), torch.exp],
    ids=["lambda", "partial", "another name"],
)
def test_the_name_that_the_notebook_gives_counts_too(
    answer: object, says: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.modules["__main__"], "softmax", answer, raising=False)
    assert check(answer).exercise == "softmax"


def test_an_unknown_name_is_answered_with_near_ones() -> None:
    def soft_max(scores: torch.Tensor) -> None: ...

    with pytest.raises(ValueError, match=r'no exercise named "soft_max".*softmax.*exercise="softmax"'):
        check(soft_max)


def test_a_name_that_is_near_to_none_is_answered_with_all() -> None:
    with pytest.raises(ValueError, match=r"The exercises: weighted_average, .*torch_attention\."):
        hint("qqqq")


def test_an_answer_without_a_name_is_told_how_to_name_its_exercise() -> None:
    with pytest.raises(ValueError, match=r"This partial has no name of its own.*exercise="):
        check(functools.partial(torch.softmax, dim=-1))


# --- check ---


def test_a_check_is_remembered(says: Callable[..., None]) -> None:
    check(softmax)
    assert entry() == progress.Entry(1, 0, 0, 1.0, "wrong", ("scores-not-scaled",))


def test_the_best_points_are_kept(says: Callable[..., None]) -> None:
    says("passed", 4.0)
    check(softmax)
    says("wrong", 1.0, "softmax-wrong-axis")
    check(softmax)
    assert entry() == progress.Entry(2, 0, 0, 4.0, "passed", ("softmax-wrong-axis",))


def test_an_open_blank_is_no_attempt(says: Callable[..., None]) -> None:
    says("not started")
    check(softmax)
    assert entry().attempts == 0


def test_a_check_does_not_raise_by_default(says: Callable[..., None]) -> None:
    assert not check(softmax).passed


@pytest.mark.parametrize("status", ["not started", "wrong", "error"])
def test_a_strict_check_raises_the_words_of_the_verdict(
    status: str, says: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CHECK_STRICT", "1")
    says(status, 0.0, "softmax-wrong-axis")
    monkeypatch.setattr(Verdict, "__repr__", lambda verdict: f"{verdict.exercise}: {verdict.status}")
    with pytest.raises(AssertionError) as caught:
        check(softmax)
    assert str(caught.value) == f"softmax: {status}"
    assert caught.value._render_traceback_() == [f"AssertionError: softmax: {status}"]
    assert entry().attempts == (status != "not started")


def test_a_strict_check_lets_a_right_answer_pass(says: Callable[..., None], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CHECK_STRICT", "1")
    says("passed", 4.0)
    assert check(softmax).passed


@pytest.mark.parametrize("value", ["", "0"])
def test_strict_can_be_switched_off(value: str, says: Callable[..., None], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CHECK_STRICT", value)
    assert not check(softmax).passed


def test_trouble_with_progress_is_one_plain_line_and_stops_no_check(
    says: Callable[..., None], progress_file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    progress_file.write_text("{", encoding="utf-8")
    assert check(softmax).status == "wrong"
    assert check(softmax).status == "wrong"
    said = capsys.readouterr().out.splitlines()
    assert said == [
        "Progress: progress.json could not be used (it is not JSON). "
        "It is kept as progress.damaged-1.json; a new one begins."
    ]


# --- hint ---


def test_hints_go_one_step_further_each_time() -> None:
    steps = [hint(softmax).text for _ in range(3)]
    for number, (text, hint_words) in enumerate(zip(steps, BY_NAME["softmax"].hints, strict=True), start=1):
        assert text.startswith(f"Hint {number} of 3 · softmax")
        assert hint_words in text


def test_after_the_last_hint_all_are_shown_and_reveal_is_offered() -> None:
    shown = [hint("softmax") for _ in range(4)][-1].text
    assert shown.startswith("No more hints · softmax")
    assert all(hint_words in shown for hint_words in BY_NAME["softmax"].hints)
    assert "reveal(softmax)" in shown
    assert entry().hints == 3


def test_a_hint_has_an_html_form_without_markup_from_the_text() -> None:
    html = [hint("SelfAttentionV1") for _ in range(3)][-1]._repr_html_()
    assert html.startswith("<div")
    assert "<script" not in html


# --- reveal ---


def test_a_copy_without_solutions_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(paths, "SOLUTIONS", tmp_path / "none")
    assert repr(reveal(softmax)).startswith("This copy of the course holds no solutions.")


def test_the_solution_stays_hidden_before_an_honest_attempt(solutions: Path, says: Callable[..., None]) -> None:
    check(softmax)
    hint(softmax)
    shown = reveal(softmax).text
    assert "torch.softmax" not in shown
    assert "So far: 1 of 3 answers, 1 of 3 hints." in shown
    assert entry().reveals == 0


def test_a_passed_check_opens_the_solution(solutions: Path, says: Callable[..., None]) -> None:
    says("passed", 4.0)
    check(softmax)
    assert "return torch.softmax(scores, -1)" in reveal(softmax).text
    assert entry().reveals == 1


def test_three_checked_answers_open_the_solution(solutions: Path, says: Callable[..., None]) -> None:
    for _ in range(3):
        check(softmax)
    assert "return torch.softmax(scores, -1)" in reveal(softmax).text


def test_three_hints_open_the_solution(solutions: Path) -> None:
    for _ in range(3):
        hint(softmax)
    assert "return torch.softmax(scores, -1)" in reveal("softmax").text


def test_three_open_blanks_do_not_open_the_solution(solutions: Path, says: Callable[..., None]) -> None:
    says("not started")
    for _ in range(3):
        check(softmax)
    assert "torch.softmax" not in reveal(softmax).text


@pytest.fixture
def earned(solutions: Path) -> None:
    progress.update("softmax", lambda entry: progress.Entry(hints=3))


def test_the_learners_own_code_stands_beside_the_solution(earned: None) -> None:
    own = """# my idea
def softmax(scores):
    out = []
    for row in scores:
        out.append(row)
    return out"""
    names = cell(f"x = 1\n{own}\ny = 2\n")
    shown = reveal(names["softmax"])
    assert own in shown.text
    assert "x = 1" not in shown.text
    assert "Lines of code: yours 5, the solution 2." in shown.text
    assert "Yours loops in Python" in shown.text
    assert "out.append(row)" in shown.html


def test_nothing_is_remarked_where_nothing_can_be_compared(earned: None) -> None:
    names = cell("def softmax(scores):\n    raise NotImplementedError\n")
    assert "Lines of code" not in reveal(names["softmax"]).text
    assert "(your code was not found)" in reveal("softmax").text


def test_code_is_escaped_in_html(earned: None) -> None:
    names = cell('def softmax(scores):\n    return "<b>" if 1 < 2 else "&"\n')
    assert "&lt;b&gt;" in reveal(names["softmax"]).html


def test_a_class_of_the_notebook_is_found_by_its_methods() -> None:
    text = "class SelfAttentionV1:\n    def forward(self, x):\n        return x"
    names = cell(f"import math\n\n{text}\n\nlayer = SelfAttentionV1()\n")
    assert lookup.source_of(names["SelfAttentionV1"], "SelfAttentionV1") == text


def test_a_class_without_methods_is_found_in_the_history(monkeypatch: pytest.MonkeyPatch) -> None:
    history = ["", "class SelfAttentionV1: x = 1", "def broken(:", "class SelfAttentionV1: x = 2", "print(1)"]
    monkeypatch.setattr(sys.modules["__main__"], "In", history, raising=False)
    names = cell("class SelfAttentionV1: x = 2")
    assert lookup.source_of(names["SelfAttentionV1"], "SelfAttentionV1") == "class SelfAttentionV1: x = 2"


def test_an_answer_under_another_name_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    names = cell("def my_own(scores):\n    return scores")
    assert lookup.source_of(names["my_own"], "softmax") == "def my_own(scores):\n    return scores"


# --- reset ---

BLANK = "def softmax(scores):\n    raise NotImplementedError"


@pytest.fixture(autouse=True)
def _blank(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answer_book, "blank", lambda name: BLANK)


def test_reset_gives_the_blank_and_keeps_the_attempt(progress_file: Path) -> None:
    names = cell("def softmax(scores):\n    return scores * 2")
    shown = reset(names["softmax"])
    assert BLANK in shown.text
    kept = (progress_file.parent / "attempts" / "softmax.py").read_text("utf-8")
    assert "def softmax(scores):\n    return scores * 2" in kept


def test_attempts_are_added_and_never_overwritten(progress_file: Path) -> None:
    for factor in (2, 3, 3):
        reset(cell(f"def softmax(scores):\n    return scores * {factor}")["softmax"])
    kept = (progress_file.parent / "attempts" / "softmax.py").read_text("utf-8")
    assert [kept.count(f"scores * {factor}") for factor in (2, 3)] == [1, 1]


def test_a_blank_is_not_kept_as_an_attempt(progress_file: Path) -> None:
    assert "still the blank" in reset(cell(BLANK)["softmax"]).text
    assert not (progress_file.parent / "attempts").exists()


def test_reset_says_when_the_code_was_not_found(progress_file: Path) -> None:
    assert "was not found" in reset("softmax").text


def test_reset_in_a_read_only_folder_loses_nothing(progress_file: Path) -> None:
    (progress_file.parent / "attempts").write_text("in the way", encoding="utf-8")
    shown = reset(cell("def softmax(scores):\n    return scores * 2")["softmax"]).text
    assert "No copy could be made" in shown
    assert "still in its cell" in shown


def test_reset_makes_no_file_while_progress_is_off(progress_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ATTENTION_PROGRESS", "off")
    assert "switched off" in reset(cell("def softmax(scores):\n    return scores * 2")["softmax"]).text
    assert list(progress_file.parent.iterdir()) == []


def test_in_a_notebook_the_blank_goes_into_a_new_cell(monkeypatch: pytest.MonkeyPatch) -> None:
    offered = []

    class Shell:
        def set_next_input(self, text: str, replace: bool) -> None:
            offered.append((text, replace))

    monkeypatch.setattr(words, "_shell", Shell)
    shown = reset(softmax).text
    assert offered == [(BLANK, False)]
    assert "new cell below" in shown


# --- scoreboard ---


def test_the_scoreboard_of_a_newcomer_names_the_first_exercise() -> None:
    text = repr(scoreboard())
    assert text.startswith("Points: 0 of 100")
    assert all(name in text for name in (*BY_NAME, *NOTEBOOKS))
    assert text.endswith("Next: `weighted_average` in 00_start_here.ipynb, 2 minutes.")


def test_the_scoreboard_counts_points_checks_and_hints(says: Callable[..., None]) -> None:
    says("passed", 2.0)
    check(softmax, exercise="weighted_average")
    says("wrong", 1.5)
    check(softmax, exercise="attention_scores")
    hint("attention_scores")
    text = scoreboard().text
    assert text.startswith("Points: 3.5 of 100")
    lines = [" ".join(line.split()) for line in text.splitlines()]
    assert "00_start_here 2 / 2" in lines
    assert "01_self_attention_v1 1.5 / 20" in lines
    assert "attention_scores 1.5 / 4 wrong · checks 1 · hints 1" in lines
    assert lines[-1] == "Next: `attention_scores` in 01_self_attention_v1.ipynb, 5 minutes."


def test_when_everything_is_passed_the_hardest_comes_back() -> None:
    for exercise in EXERCISES:
        hints = 3 if exercise.name == "causal_mask" else 0
        done = progress.Entry(1, hints, 0, exercise.points, "passed")
        progress.update(exercise.name, lambda entry, done=done: done)
    text = scoreboard().text
    assert text.startswith("Points: 100 of 100")
    assert "reset(causal_mask)" in text


def test_the_scoreboard_is_the_same_twice() -> None:
    assert repr(scoreboard()) == repr(scoreboard())
    assert scoreboard()._repr_html_() == scoreboard()._repr_html_()


def test_the_html_runs_no_scripts() -> None:
    assert "<script" not in scoreboard().html
    assert "var(--jp-ui-font-color1" in scoreboard().html


# --- yours ---


def open_blank() -> None:
    raise NotImplementedError


def broken() -> None:
    raise ValueError("the widths 4 and 5 do not fit\nand more lines")


def test_yours_returns_what_is_drawn() -> None:
    picture = object()
    assert yours(lambda: picture) is picture


def test_yours_waits_for_an_open_blank() -> None:
    assert repr(yours(open_blank)) == "Finish the exercise above to see your own."


def test_yours_waits_for_a_name_that_is_not_there_yet() -> None:
    assert repr(yours(lambda: causal_mask(3))) == "Finish the exercise above to see your own."  # noqa: F821


@pytest.mark.parametrize(
    ("draw", "said"),
    [
        (broken, "Your code raised ValueError: the widths 4 and 5 do not fit. Run its check first."),
        (lambda: 1 / 0, "Your code raised ZeroDivisionError: division by zero. Run its check first."),
        (lambda: eval("unknown"), "Your code raised NameError: name 'unknown' is not defined. Run its check"),
        (torch.nn.Module().forward, "Your code raised NotImplementedError: Module [Module] is missing"),
    ],
)
def test_yours_tells_what_the_code_raised(draw: Callable[[], Any], said: str) -> None:
    assert repr(yours(draw)).startswith(said)


# --- in a real kernel ---


def test_in_a_real_kernel_words_find_code_keep_attempts_and_raise_without_a_traceback(tmp_path: Path) -> None:
    cells = [
        f"import os\nos.environ['ATTENTION_PROGRESS'] = {str(tmp_path / 'progress.json')!r}",
        "from helpers import check, hint, reset, reveal\n\nfor _ in range(3):\n    hint('SelfAttentionV1')",
        "class SelfAttentionV1:\n    def forward(self, x):\n        return x  # so far",
        "reveal(SelfAttentionV1)",
        "reset(SelfAttentionV1)",
        "os.environ['CHECK_STRICT'] = '1'\ncheck(SelfAttentionV1)",
    ]
    walk = new_notebook(cells=[new_code_cell(text) for text in cells])
    (trouble,) = notebook.run(walk, folder=tmp_path, keep_going=True)
    assert trouble.number == 6
    assert "return x  # so far" in walk.cells[3].outputs[0].data["text/plain"]
    assert "Your code is kept in attempts/SelfAttentionV1.py." in walk.cells[4].outputs[0].data["text/plain"]
    assert "return x  # so far" in (tmp_path / "attempts" / "SelfAttentionV1.py").read_text("utf-8")
    (raised,) = walk.cells[5].outputs
    assert raised.ename == "CheckFailed"
    assert "SelfAttentionV1" in raised.evalue
    assert raised.traceback == [f"AssertionError: {raised.evalue}"]


# --- the package ---


def test_the_package_offers_the_words_and_the_rooms() -> None:
    face = {"check", "hint", "reveal", "reset", "scoreboard", "yours"}
    assert face | {"plots", "widgets", "demo", "bench"} == set(dir(helpers))


def test_a_room_loads_when_it_is_asked_for() -> None:
    code = "import sys, helpers; assert 'helpers.plots' not in sys.modules; print(helpers.plots.__name__)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "helpers.plots"


def test_a_word_that_is_not_there_is_answered_with_those_that_are() -> None:
    with pytest.raises(AttributeError, match=r"helpers has no 'chek'\. It has: bench, check"):
        _ = helpers.chek  # type: ignore[attr-defined]


def test_importing_the_words_loads_nothing_that_torch_does_not() -> None:
    heavy = (
        "matplotlib",
        "ipywidgets",
        "typer",
        "rich",
        "nbformat",
        "nbclient",
        "IPython",
        "filelock",
        "solutions",
    )
    code = f"import sys, torch, helpers; print([name for name in {heavy} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"

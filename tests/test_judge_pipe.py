"""The parts of the pipe observe → compare, and the answer book between them: each can be trusted by itself."""

from __future__ import annotations

import ast
import copy
import hashlib
import json
import math
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from helpers import source
from helpers.course import BY_NAME, EXERCISES
from helpers.judge import answer_book as book_module
from helpers.judge import check_answer, function_probes, phrases, probes
from helpers.judge import record as recording
from helpers.judge.answer_book import FOLDER, AnswerBook, agrees, answer_book
from helpers.judge.compare import compare
from helpers.judge.observation import Observation
from helpers.judge.observe import observe
from solutions import mistakes
from solutions.mistakes import steps
from solutions.mistakes.catalogue import CATALOGUE

ROOT = Path(__file__).resolve().parent.parent
NAMES = [exercise.name for exercise in EXERCISES]


class Unscaled(nn.Module):
    """A wrong SelfAttentionV1 with a name: the scores are not divided by √d."""

    def __init__(self, hidden_dim: int = 768):
        super().__init__()
        self.query_proj = nn.Linear(hidden_dim, hidden_dim)
        self.key_proj = nn.Linear(hidden_dim, hidden_dim)
        self.value_proj = nn.Linear(hidden_dim, hidden_dim)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        scores = self.query_proj(x) @ self.key_proj(x).transpose(-2, -1)  # (B, L, L)
        return torch.softmax(scores, dim=-1) @ self.value_proj(x)


class Raises(Unscaled):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        raise ValueError("no such luck")


class Open(Unscaled):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        raise NotImplementedError


def nan_softmax(scores: torch.Tensor) -> torch.Tensor:
    return scores.exp() / scores.exp().sum(dim=-1, keepdim=True)


def a_number_too_large(d: int) -> float:
    return float(d)


# exercise, answer: one of each kind of verdict
ANSWERS: dict[str, tuple[str, Any]] = {
    "right": ("SelfAttentionV1", steps.build("SelfAttentionV1")),
    "right, masked": ("SelfAttentionV3", steps.build("SelfAttentionV3")),
    "named": ("SelfAttentionV1", Unscaled),
    "raises": ("SelfAttentionV1", Raises),
    "open": ("SelfAttentionV1", Open),
    "no class": ("SelfAttentionV1", 5),
    "nan": ("softmax", nan_softmax),
    "number": ("dot_product_std", a_number_too_large),
}
answers = pytest.mark.parametrize("name", ANSWERS)


def observed(name: str) -> Observation:
    exercise, answer = ANSWERS[name]
    return observe(answer, exercise, answer_book().key(exercise))


def judged(observation: Observation) -> dict[str, Any]:
    return compare(observation, answer_book(), BY_NAME[observation.exercise].points).as_dict()


def run_python(code: str, *, forbidden: tuple[str, ...] = (), given: bytes = b"", seed: str = "0") -> Any:
    """Run code in a fresh process in which some imports fail. Returns what it prints as JSON."""
    block = (
        "import sys\n"
        "class Block:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        f"        if any(name == f or name.startswith(f + '.') for f in {forbidden!r}):\n"
        "            raise ImportError(f'{name} is forbidden here')\n"
        "sys.meta_path.insert(0, Block())\n"
    )
    environment = {"PYTHONHASHSEED": seed, "OMP_NUM_THREADS": "1", "ATTENTION_PROGRESS": "off", "PATH": ""}
    done = subprocess.run(
        [sys.executable, "-c", block + code], input=given, capture_output=True, cwd=ROOT, env=environment
    )
    assert done.returncode == 0, done.stderr.decode()
    return json.loads(done.stdout)


# ---------------------------------------------------------------------------------------- observations


@answers
def test_an_observation_survives_the_way_through_bytes(name: str) -> None:
    before = observed(name)
    after = Observation.from_bytes(before.to_bytes())
    assert after.exercise == before.exercise
    assert after.facts == json.loads(json.dumps(before.facts))
    assert set(after.tensors) == set(before.tensors)
    for case, array in before.tensors.items():
        assert after.tensors[case].dtype == array.dtype
        np.testing.assert_array_equal(after.tensors[case], array)


@answers
def test_the_verdict_is_the_same_on_the_other_side(name: str) -> None:
    before = observed(name)
    assert judged(Observation.from_bytes(before.to_bytes())) == judged(before)


def test_an_empty_observation_survives() -> None:
    after = Observation.from_bytes(Observation("softmax").to_bytes())
    assert after == Observation("softmax")


def without_metadata() -> bytes:
    from safetensors.numpy import save

    return save({"main": np.zeros(3)})


DAMAGED = {
    "nothing": b"",
    "too short": b"abc",
    "text": b"this is not an observation at all",
    "pickle": b"\x80\x04K\x05.",
    "a header beyond the end": (2**60).to_bytes(8, "little") + b"{}",
    "a header that is a list": (2).to_bytes(8, "little") + b"[]",
    "no metadata": without_metadata(),
    "cut off": Observation("softmax", {"main": np.ones(100)}, {"cases": {}}).to_bytes()[:-40],
    "a flipped byte": Observation("softmax", {"main": np.ones(9)}).to_bytes().replace(b"F64", b"F99"),
}


@pytest.mark.parametrize("name", DAMAGED)
def test_damaged_bytes_are_refused_in_words(name: str) -> None:
    with pytest.raises(ValueError, match="not an observation"):
        Observation.from_bytes(DAMAGED[name])


# ------------------------------------------------------------------------------------------- comparing


@answers
def test_comparing_twice_gives_the_same_verdict(name: str) -> None:
    observation = observed(name)
    assert judged(observation) == judged(observation)


@answers
def test_comparing_changes_neither_observation_nor_book(name: str) -> None:
    observation, book = observed(name), answer_book()
    kept, right = copy.deepcopy(observation), copy.deepcopy(book.right[observation.exercise])
    judged(observation)
    assert observation.facts == kept.facts
    for now, before in ((observation.tensors, kept.tensors), (book.right[observation.exercise], right)):
        assert set(now) == set(before)
        assert all(np.array_equal(now[case], before[case], equal_nan=True) for case in before)


def test_comparing_needs_neither_torch_nor_solutions_nor_the_code_that_runs_answers(tmp_path: Path) -> None:
    for name in ANSWERS:
        (tmp_path / name).write_bytes(observed(name).to_bytes())
    code = (
        "import json, pathlib\n"
        "from helpers.judge.answer_book import answer_book\n"
        "from helpers.judge.compare import compare\n"
        "from helpers.judge.observation import Observation\n"
        f"files = sorted(pathlib.Path({str(tmp_path)!r}).iterdir())\n"
        "observations = [Observation.from_bytes(file.read_bytes()) for file in files]\n"
        "verdicts = [compare(o, answer_book(), 4) for o in observations]\n"
        "print(json.dumps([[v.as_dict(), repr(v), v._repr_html_()] for v in verdicts]))\n"
    )
    runners = tuple(f"helpers.judge.{room}" for room in ("observe", "binding", "guard", "probes"))
    there = run_python(code, forbidden=("torch", "solutions", *runners))
    here = [compare(observed(name), answer_book(), 4) for name in sorted(ANSWERS)]
    assert there == [[v.as_dict(), repr(v), v._repr_html_()] for v in here]


def test_every_exercise_is_checked_where_solutions_cannot_be_imported() -> None:
    right = {name: source.solution(name, ROOT / "solutions") for name in NAMES}
    wrong = (
        "import torch\n\ndef softmax(scores):\n    return torch.exp(scores) / torch.exp(scores).sum(-1, keepdim=True)"
    )
    code = (
        "import json, sys\n"
        "from helpers import check\n"
        "def judged(name, source):\n"
        "    names = {'__name__': 'a notebook'}\n"
        "    exec(source, names)\n"
        "    verdict = check(names[name])\n"
        "    return [verdict.status, [finding.id for finding in verdict.findings]]\n"
        "right, wrong = json.load(sys.stdin)\n"
        "results = {name: judged(name, source) for name, source in right.items()}\n"
        "imported = [module for module in sys.modules if module.startswith('solutions')]\n"
        "print(json.dumps([results, judged('softmax', wrong), imported]))\n"
    )
    results, refused, imported = run_python(code, forbidden=("solutions",), given=json.dumps([right, wrong]).encode())
    assert results == {name: ["passed", []] for name in NAMES}
    assert refused == ["wrong", ["naive-exp"]]
    assert imported == []


# ------------------------------------------------------------------------------------------ the probes


def digest_of_probes(seed: int | None) -> str:
    """One number for every input, mask, weight and argument of every probe of a draw."""
    draw, seen = probes.Draw(seed), hashlib.sha256()

    def add(thing: Any) -> None:
        if isinstance(thing, torch.Tensor):
            seen.update(f"{thing.dtype} {tuple(thing.shape)} {thing.stride()}".encode())
            seen.update(thing.detach().contiguous().numpy().tobytes())
        elif isinstance(thing, nn.Module):
            add(dict(thing.state_dict()))
        elif isinstance(thing, dict):
            add(sorted(thing.items()))
        elif isinstance(thing, list | tuple):
            for part in thing:
                add(part)
        else:
            seen.update(repr(thing).encode())

    for exercise in probes.CLASSES:
        for case in probes.class_cases(exercise, draw):
            add([case.id, case.d, case.h, case.inputs, case.mask, case.weights])
            add(draw.weights(case.d, case.weights))
    for exercise in function_probes.FUNCTION_CALLS:
        for call in function_probes.function_calls(exercise, draw):
            add([call.id, call.make(), call.keywords])
    return seen.hexdigest()


@pytest.mark.parametrize("seed", [None, 0, 2**70])
def test_the_probes_are_the_same_in_another_process(seed: int | None) -> None:
    code = (
        "import json, torch\n"
        "torch.manual_seed(7)\n"
        "from tests.test_judge_pipe import digest_of_probes\n"
        f"print(json.dumps(digest_of_probes({seed})))\n"
    )
    assert run_python(code, seed="1") == digest_of_probes(seed)


@pytest.mark.parametrize("seed", [None, 0])
@pytest.mark.parametrize("exercise", function_probes.FUNCTION_CALLS)
def test_the_arguments_of_a_call_are_made_afresh(exercise: str, seed: int | None) -> None:
    for call in function_probes.function_calls(exercise, probes.Draw(seed)):
        first, second = call.make(), call.make()
        assert not any(a is b for a, b in zip(first, second, strict=True) if isinstance(a, torch.Tensor | nn.Module))


# ------------------------------------------------------------------------------------- the answer book


@pytest.fixture(scope="module")
def recorded() -> AnswerBook:
    """The book, recorded anew: once for all tests, since it takes some twenty seconds."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield recording.record()
    torch.set_num_threads(threads)


def assert_same_arrays(new: dict[str, dict[str, np.ndarray]], saved: dict[str, dict[str, np.ndarray]]) -> None:
    assert {name: set(cases) for name, cases in new.items()} == {name: set(cases) for name, cases in saved.items()}
    for name, cases in new.items():
        for case, array in cases.items():
            np.testing.assert_allclose(
                array, saved[name][case], rtol=1e-5, atol=1e-5, equal_nan=True, err_msg=f"{name}: {case}"
            )


def assert_same_fingerprints(new: dict[str, dict[str, np.ndarray]], saved: dict[str, dict[str, np.ndarray]]) -> None:
    assert {name: set(cases) for name, cases in new.items()} == {name: set(cases) for name, cases in saved.items()}
    for name, cases in new.items():
        for case, rows in cases.items():
            assert rows.shape == saved[name][case].shape
            differing = [i for i, row in enumerate(rows) if not agrees(row, saved[name][case][i : i + 1]).all()]
            assert differing == [], f"{name}: {case}"


def test_recording_again_gives_the_same_right_outputs(recorded: AnswerBook) -> None:
    assert_same_arrays(recorded.right, AnswerBook.read().right)


def test_recording_again_gives_the_same_fingerprints(recorded: AnswerBook) -> None:
    saved = AnswerBook.read()
    assert_same_fingerprints(recorded.wrong, saved.wrong)
    which = {name: cases.pop("which") for name, cases in recorded.pairs.items() if "which" in cases}
    kept = {name: cases.pop("which") for name, cases in saved.pairs.items() if "which" in cases}
    assert {name: array.tolist() for name, array in which.items()} == {n: array.tolist() for n, array in kept.items()}
    assert_same_fingerprints(recorded.pairs, saved.pairs)


def test_recording_again_gives_the_same_words(recorded: AnswerBook) -> None:
    saved = AnswerBook.read()
    for part in ("labels", "raised", "kinds", "words", "blanks"):
        assert json.loads(json.dumps(getattr(recorded, part))) == getattr(saved, part), part


def test_a_book_survives_saving(tmp_path: Path) -> None:
    book = AnswerBook.read()
    book.save(tmp_path)
    again = AnswerBook.read(tmp_path)
    assert_same_arrays(again.right, book.right)
    assert again.labels == book.labels
    assert {name: set(cases) for name, cases in again.pairs.items()} == {n: set(c) for n, c in book.pairs.items()}


def test_the_book_is_small() -> None:
    assert sum(file.stat().st_size for file in FOLDER.iterdir()) < 2_000_000


FILES = ("book.json", "right.safetensors", "wrong.safetensors")


@pytest.fixture
def copied(tmp_path: Path) -> Path:
    return Path(shutil.copytree(FOLDER, tmp_path / "recorded"))


@pytest.mark.parametrize("name", FILES)
def test_a_missing_file_is_named_with_a_way_out(copied: Path, name: str) -> None:
    (copied / name).unlink()
    with pytest.raises(FileNotFoundError, match=rf"{re.escape(name)} is missing.*git checkout"):
        AnswerBook.read(copied)


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"\xff\xfe", b'{"version": 1, "more": 2}', b"null"], ids=repr)
@pytest.mark.parametrize("name", FILES)
def test_a_damaged_file_is_told_in_words(copied: Path, name: str, content: bytes) -> None:
    (copied / name).write_bytes(content)
    with pytest.raises(ValueError, match="answer book"):
        AnswerBook.read(copied)


@pytest.mark.parametrize("name", FILES)
def test_a_file_that_was_cut_off_is_told_in_words(copied: Path, name: str) -> None:
    whole = (copied / name).read_bytes()
    (copied / name).write_bytes(whole[: len(whole) // 2])
    with pytest.raises(ValueError, match="answer book"):
        AnswerBook.read(copied)


def test_another_version_says_how_to_record_it_again(copied: Path) -> None:
    text = json.loads((copied / "book.json").read_text("utf-8"))
    (copied / "book.json").write_text(json.dumps(text | {"version": 0}), "utf-8")
    with pytest.raises(ValueError, match="make book"):
        AnswerBook.read(copied)


def test_a_check_without_a_book_says_what_is_missing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(book_module, "answer_book", lambda: AnswerBook.read(tmp_path))
    with pytest.raises(FileNotFoundError, match="answer book is not complete"):
        check_answer(Unscaled, "SelfAttentionV1")


@pytest.mark.parametrize("exercise", NAMES)
def test_the_book_knows_every_exercise(exercise: str) -> None:
    book = answer_book()
    assert book.right[exercise]
    assert book.labels[exercise]
    assert list(book.kinds[exercise]) == [case.id for case in cases_of(exercise)]
    assert set(book.kinds[exercise]) <= set(book.right[exercise])


def cases_of(exercise: str) -> tuple[Any, ...]:
    return probes.class_cases(exercise) if exercise in probes.CLASSES else function_probes.FUNCTION_CALLS[exercise]


@pytest.mark.parametrize("exercise", NAMES)
def test_a_blank_in_the_book_is_the_solution_without_its_bodies(exercise: str) -> None:
    for file in (ROOT / "solutions").glob("*.py"):
        definition = source.definition(file.read_text("utf-8"), exercise)
        if definition is not None:
            assert answer_book().blanks[exercise] == source.blank_of(definition)
            return
    pytest.fail(f"no solution of {exercise}")


# ---------------------------------------------------------------------------------- the bank of mistakes


def bank() -> list[tuple[str, str]]:
    """id and exercise of every known wrong answer."""
    mistakes.load_all()
    of_classes = [(variant.id, exercise) for variant in mistakes.VARIANTS for exercise in variant.exercises]
    return of_classes + [(wrong.id, wrong.exercise) for wrong in mistakes.WRONG_FUNCTIONS]


@pytest.mark.parametrize("id", CATALOGUE)
def test_every_mistake_has_words(id: str) -> None:
    words = CATALOGUE[id]
    assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*(@\w+)?", id)
    for sentence in (words.cause, words.consequence):
        assert sentence.endswith((".", "?", "!")), sentence
    assert words.hint == "" or words.hint.endswith((".", "?"))
    assert words.source
    re.compile(words.raises)


def test_every_known_wrong_answer_has_words() -> None:
    assert sorted({id for id, _ in bank()} - set(CATALOGUE)) == []


def test_words_for_one_exercise_belong_to_an_exercise() -> None:
    own = [id.split("@") for id in CATALOGUE if "@" in id]
    assert [pair for pair in own if pair[1] not in BY_NAME or tuple(pair) not in bank()] == []


def ids_in_code(*methods: str) -> set[str]:
    """The ids that the judge's own code writes out in calls of these methods."""
    found: set[str] = set()
    for file in (ROOT / "helpers" / "judge").glob("*.py"):
        for node in ast.walk(ast.parse(file.read_text("utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in methods:
                found |= {a.value for a in node.args[:1] if isinstance(a, ast.Constant) and isinstance(a.value, str)}
    return found


def test_every_id_that_the_judge_names_has_words() -> None:
    named, said, noted = ids_in_code("mistake"), ids_in_code("observe", "refuse"), ids_in_code("note")
    assert len(named) > 10
    assert len(said) > 10
    assert sorted(named - set(CATALOGUE)) == []
    assert sorted(said - set(phrases.SENTENCES)) == []
    assert sorted(noted - set(phrases.SENTENCES) - set(CATALOGUE)) == []


@pytest.mark.parametrize("exercise", probes.CLASSES)
def test_the_steps_without_a_mistake_are_the_solution(exercise: str) -> None:
    whole = observe(recording.solution(exercise), exercise)
    in_steps = observe(steps.build(exercise), exercise)
    for case in probes.class_cases(exercise):
        np.testing.assert_allclose(
            in_steps.tensors[case.id], whole.tensors[case.id], atol=1e-6 * case.tolerance / 1e-5, equal_nan=True
        )
    assert check_answer(steps.build(exercise), exercise).passed
    assert math.isfinite(float(np.nanmax(whole.tensors["main"])))

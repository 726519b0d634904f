"""Records the answer book from `solutions/`: `python -m helpers.judge.record`. For maintainers; needs `solutions/`."""

from __future__ import annotations

import importlib
import itertools
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import torch

from helpers import source
from helpers.course import EXERCISES
from helpers.judge import probes
from helpers.judge.answer_book import ELSEWHERE, FOLDER, PAIRED, AnswerBook, agrees, fingerprint
from helpers.judge.binding import Loaded, candidates, index_tensors
from helpers.judge.function_probes import Call, dropout_rates, function_calls
from helpers.judge.guard import attempt
from helpers.judge.observation import Observation
from helpers.judge.observe import observe, observe_each
from helpers.judge.probes import CLASSES, PUBLISHED, Case, Draw
from helpers.judge.statistics import as_row, init_facts, inverted_dropout_facts
from helpers.paths import SOLUTIONS

_MODULES = {
    "00_start_here": "start_here",
    "01_self_attention_v1": "self_attention_v1",
    "02_self_attention_v2": "self_attention_v2",
    "03_self_attention_v3": "self_attention_v3",
    "04_multi_head_attention": "multi_head_attention",
}


def solution(exercise: str) -> Any:
    """The right answer to an exercise."""
    notebook = next(e.notebook for e in EXERCISES if e.name == exercise)
    return getattr(importlib.import_module(f"solutions.{_MODULES[notebook]}"), exercise)


def record() -> AnswerBook:
    """Run every right and every known wrong answer on the published probes."""
    mistakes = importlib.import_module("solutions.mistakes")
    mistakes.load_all()
    catalogue = importlib.import_module("solutions.mistakes.catalogue").CATALOGUE
    book = AnswerBook(words={id: vars(words) for id, words in catalogue.items()})
    for exercise in (e.name for e in EXERCISES):
        _record_right(book, exercise, PUBLISHED)
        _record_wrong(book, exercise, mistakes)
        if exercise in CLASSES:
            _record_pairs(book, exercise, mistakes)
        book.blanks[exercise] = source.blank_of(source.without_imports(source.solution(exercise, SOLUTIONS) or ""))
    return book


# How much further off an answer may be on private probes. The published ones are strict, and nobody can try these
# beforehand: a right answer must not meet a seed or a machine whose rounding refuses it.
_PRIVATE_SLACK = 5


def record_right(draw: Draw) -> AnswerBook:
    """Run the right answers alone on the probes of a draw: what `compare_private` needs, and no more."""
    book = AnswerBook()
    for exercise in (e.name for e in EXERCISES):
        _record_right(book, exercise, draw)
        book.labels[exercise] = []
    return book


def _record_right(book: AnswerBook, exercise: str, draw: Draw) -> None:
    [observation] = observe_each(solution(exercise), exercise, None, [draw])
    right = {
        case: array
        for case, array in observation.tensors.items()
        if not case.startswith(("dropout", "train", "eval", "again", "very"))
    }
    cases = _cases(exercise, draw)
    book.kinds[exercise] = {
        case.id: {
            "dtype": observation.facts["cases"][case.id].get("dtype", ""),
            "group": case.group,
            "tolerance": case.tolerance if draw == PUBLISHED else _PRIVATE_SLACK * case.tolerance,
            "sizes": _sizes(case),
        }
        for case in cases
    }
    for case in cases:
        if case.group == "raw":
            right[case.id] = np.zeros(1)
        elif isinstance(case, Call) and case.group == "empty rows":
            scores, mask = case.make()
            right |= {f"{case.id}/{fill:g}": _added(scores, mask, fill).softmax(-1).numpy() for fill in _FILLS}
    if exercise in probes.MASKED:
        right |= _empty_rows_with_fills(exercise, draw)
    if exercise in CLASSES:
        right |= _biased_patterns(exercise, draw)
        if exercise == "MultiHeadAttention":
            right["heads/mask, large scores"] = _outputs_of_single_heads(exercise, draw, "mask, large scores")
        if "very large scores" in observation.tensors:
            right["given/very large scores"] = observation.tensors["very large scores"]
    if exercise == "inverted_dropout":
        right["given/main"] = function_calls(exercise, draw)[0].make()[0].numpy()
        if draw != PUBLISHED:
            right["given/rates"] = np.array(dropout_rates(draw))
    if exercise == "init_attention_weights":
        mha = function_calls(exercise, draw)[0].make()[0]
        layers = [getattr(mha, name) for name in ("wq", "wk", "wv", "wo")]
        no_bias = np.zeros((mha.d_model, 1), np.float32)
        right["given/main"] = np.stack(
            [np.concatenate([layer.weight.detach().numpy(), no_bias], axis=1) for layer in layers]
        )
    book.right[exercise] = {case: array.astype(_stored_type(array)) for case, array in right.items()}


def _cases(exercise: str, draw: Draw) -> tuple[Case, ...] | tuple[Call, ...]:
    return probes.class_cases(exercise, draw) if exercise in CLASSES else function_calls(exercise, draw)


def _sizes(case: Case | Call) -> list[int]:
    """B, L and d of a case of a class; the sizes of the first tensor of a function's call."""
    inputs = case.inputs if isinstance(case, Case) else case.make()
    first = next((x for x in inputs if hasattr(x, "shape")), None)
    return [] if first is None else list(first.shape)


def _stored_type(array: np.ndarray) -> Any:
    return np.float64 if array.ndim == 0 else np.float32


def _biased_patterns(exercise: str, draw: Draw) -> dict[str, np.ndarray]:
    """The right outputs for every choice of which projections have a bias; b_k never matters."""
    case = next(c for c in probes.class_cases(exercise, draw) if c.id == "biased")
    roles = "qvo" if exercise in probes.MASKED else "qv"
    results = {}
    loaded = _loaded(solution(exercise), exercise)
    for size in range(len(roles) + 1):
        for chosen in itertools.combinations(roles, size):
            vector = draw.flat_weights(case.d, "biased").clone()
            for role in probes.ROLES:
                if role not in chosen:
                    start = probes.offsets(case.d)[f"b_{role}"]
                    vector[start : start + case.d] = 0
            loaded.load(vector)
            with torch.no_grad():
                results["biased/" + "".join(chosen)] = loaded.module(*case.inputs).numpy()
    return results


# A finite fill gives a row with nothing to look at a softmax over the rounded scores: the mean, when it is large.
_FILLS = (-1e4, -1e6, -1e7, -1e8, -1e9)


def _added(scores: torch.Tensor, mask: torch.Tensor, fill: float) -> torch.Tensor:
    return scores + fill * (mask == 0).to(scores.dtype)


def _empty_rows_with_fills(exercise: str, draw: Draw) -> dict[str, np.ndarray]:
    """What an additive mask of each size gives on the case with empty rows."""
    steps = importlib.import_module("solutions.mistakes.steps")
    case = next(c for c in probes.class_cases(exercise, draw) if c.id == "empty rows")
    results = {}
    for fill in _FILLS:
        hide = {"hide": lambda self, scores, keep, fill=fill: _added(scores, keep, fill)}
        loaded = _loaded(type(exercise, (steps.STAGES[exercise],), hide), exercise)
        loaded.load(draw.flat_weights(case.d, "plain"))
        with torch.no_grad():
            results[f"empty rows/{fill:g}"] = loaded.module(*case.inputs, case.mask).numpy()
    return results


def _outputs_of_single_heads(exercise: str, draw: Draw, case_id: str) -> np.ndarray:
    """What each head alone brings to the output of a case: (h, B, L_q, d)."""
    case = next(c for c in probes.class_cases(exercise, draw) if c.id == case_id)
    loaded = _loaded(solution(exercise), exercise)
    outputs = []
    for head in range(case.h):
        loaded.load(draw.flat_weights(case.d, "plain"))
        d_k = case.d // case.h
        others = [i for i in range(case.d) if i // d_k != head]
        with torch.no_grad():
            loaded.module.wo.weight[:, others] = 0  # type: ignore[union-attr, operator]
            outputs.append(loaded.module(*case.inputs, case.mask).numpy())
    return np.stack(outputs)


def _loaded(answer: Any, exercise: str, d: int = 0, h: int = 0) -> Loaded:
    """An answer of the contract's names, built at the given sizes (else the main ones), ready for the probe weights."""
    main = probes.class_cases(exercise)[0]
    d, h = d or main.d, h or main.h
    module = answer(d, h) if exercise == "MultiHeadAttention" else answer(d)
    return Loaded(module.eval(), index_tensors(next(candidates(module, exercise, d, h)), module, d, h))


def _record_wrong(book: AnswerBook, exercise: str, mistakes: Any) -> None:
    if exercise in CLASSES:
        steps = importlib.import_module("solutions.mistakes.steps")
        answers: list[tuple[str, Callable[..., Any]]] = [
            (variant.label, steps.build(exercise, variant))
            for variant in mistakes.VARIANTS
            if exercise in variant.exercises
        ]
    else:
        of_this = [w for w in mistakes.WRONG_FUNCTIONS if w.exercise == exercise]
        answers = [(f"{w.id}#{n}", w.function) for n, w in enumerate(of_this, 1)]
    observations = [(label, observe(answer, exercise, book.key(exercise))) for label, answer in answers]
    book.labels[exercise] = [label for label, _ in observations]
    cases = [case for case in book.right[exercise] if "/" not in case]
    book.raised[exercise] = {}
    book.wrong[exercise] = {
        case: np.stack([_row(observation, case) for _, observation in observations]) for case in cases if observations
    }
    for label, observation in observations:
        for case, facts in observation.facts["cases"].items():
            if "raised" in facts:
                error = facts["raised"]
                if not case.startswith("train"):
                    book.raised[exercise].setdefault(case, {})[label] = f"{error['type']}: {error['message'][:200]}"
        if "raised" in observation.facts:
            error = observation.facts["raised"]
            book.raised[exercise].setdefault("main", {})[label] = f"{error['type']}: {error['message'][:200]}"
    if exercise in ("inverted_dropout", "init_attention_weights"):
        facts_of = inverted_dropout_facts if exercise == "inverted_dropout" else init_facts
        given = book.right[exercise]["given/main"]
        book.wrong[exercise]["statistics"] = np.stack([as_row(facts_of(o.tensors, given)) for _, o in observations])


def _row(observation: Observation, case: str) -> np.ndarray:
    output = observation.tensors.get(case)
    return ELSEWHERE if output is None else fingerprint(output)


def _record_pairs(book: AnswerBook, exercise: str, mistakes: Any) -> None:
    """Two mistakes at once: two in the plain formula, or one there and one with the mask."""
    steps = importlib.import_module("solutions.mistakes.steps")
    labels = book.labels[exercise]
    variants = [v for v in mistakes.VARIANTS if exercise in v.exercises and not v.twin and "drop" not in v.steps]
    plain = [v for v in variants if _changes(book, exercise, v.label, "main")]
    masked = [v for v in variants if v not in plain and _changes(book, exercise, v.label, "random mask")]
    kinds = {"plain": itertools.combinations(plain, 2), "masked": itertools.product(plain, masked)}
    book.pairs[exercise] = {}
    for kind, pairs in kinds.items():
        which, rows = [], []
        for a, b in pairs:
            if a.id == b.id or set(a.steps) & set(b.steps):
                continue
            outputs, raised = attempt(partial(_paired_outputs, steps.build(exercise, a, b), exercise, PAIRED[kind]))
            numbers = [labels.index(a.label), labels.index(b.label)]
            if raised is None and not _like_one_alone(book, exercise, PAIRED[kind], outputs, numbers):
                which.append(numbers)
                rows.append(np.stack(outputs))
        if rows:
            book.pairs[exercise][kind] = np.stack(rows, axis=1)  # (cases, pairs, numbers of a fingerprint)
            book.pairs[exercise][f"{kind}/which"] = np.array(which, np.int16)


def _changes(book: AnswerBook, exercise: str, label: str, case: str) -> bool:
    """Does the mistake change this case, without failing on it?"""
    if case not in book.right[exercise]:
        return False
    row = book.wrong[exercise][case][book.labels[exercise].index(label)]
    right = fingerprint(book.right[exercise][case])
    return not agrees(right, row[None])[0] and row[0] != ELSEWHERE[0] and row[-1] == right[-1]


def _like_one_alone(
    book: AnswerBook, exercise: str, cases: tuple[str, ...], outputs: list[np.ndarray], numbers: list[int]
) -> bool:
    """Does one of the two mistakes hide the other?"""
    wrong = book.wrong[exercise]
    return any(
        all(agrees(row, wrong[case][i][None])[0] for row, case in zip(outputs, cases, strict=True)) for i in numbers
    )


def _paired_outputs(answer: Any, exercise: str, cases: tuple[str, ...]) -> list[np.ndarray]:
    """Fingerprints of an answer's outputs on some cases. Raises whatever the answer raises."""
    rows = []
    for case in (case for case in probes.class_cases(exercise) if case.id in cases):
        loaded = _loaded(answer, exercise, case.d, case.h)
        loaded.load(PUBLISHED.flat_weights(case.d, "plain"))
        mask = () if case.mask is None else (case.mask,)
        with torch.no_grad():
            rows.append(fingerprint(loaded.module(*(x.clone() for x in case.inputs), *mask).numpy()))
    return rows


if __name__ == "__main__":
    torch.set_num_threads(1)
    record().save(FOLDER)
    size = sum(file.stat().st_size for file in FOLDER.iterdir())
    print(f"Recorded {len(list(FOLDER.iterdir()))} files, {size / 1e6:.2f} MB, in {FOLDER.name}/")

"""Private probes: right answers pass whatever the seed, answers learned by heart do not, and no record is believed."""

from __future__ import annotations

import copy
import functools
import json
import random
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.numpy import save
from torch import nn

from helpers.course import BY_NAME, EXERCISES
from helpers.judge import Verdict, untrusted
from helpers.judge.answer_book import AnswerBook, answer_book
from helpers.judge.compare import compare, compare_private
from helpers.judge.function_probes import FUNCTION_CALLS, dropout_rates, function_calls
from helpers.judge.observation import MOST_BYTES, Observation
from helpers.judge.observe import observe, observe_each
from helpers.judge.probes import CLASSES, PUBLISHED, Draw, class_cases
from helpers.judge.record import record_right, solution
from solutions import mistakes
from solutions.mistakes import steps
from tests import answers

answers.load()
NAMES = [exercise.name for exercise in EXERCISES]
SEEDS = (3, 2**64 + 1)
MANY_SEEDS = range(40)
each_exercise = pytest.mark.parametrize("exercise", NAMES)


@functools.lru_cache
def right_of(seed: int) -> AnswerBook:
    """The right outputs of a private draw."""
    return record_right(Draw(seed))


def on_both(answer: Any, exercise: str, *seeds: int) -> tuple[Verdict, list[Verdict]]:
    """The verdict on the published probes, and with the private ones of each seed added."""
    book, points = answer_book(), BY_NAME[exercise].points
    public, *private = observe_each(answer, exercise, book.key(exercise), [PUBLISHED, *map(Draw, seeds)])
    verdict = compare(public, book, points)
    return verdict, [compare_private(verdict, o, right_of(s), points) for o, s in zip(private, seeds, strict=True)]


def private_alone(answer: Any, exercise: str, *seeds: int) -> list[Verdict]:
    """What the private probes alone say: the public verdict counts as passed."""
    points = BY_NAME[exercise].points
    passed = Verdict(exercise, "passed", points, points)
    _, *private = observe_each(answer, exercise, answer_book().key(exercise), [PUBLISHED, *map(Draw, seeds)])
    return [compare_private(passed, o, right_of(s), points) for o, s in zip(private, seeds, strict=True)]


# ----------------------------------------------------------------------------------------------- the draws


def test_a_negative_seed_is_refused_in_words() -> None:
    with pytest.raises(ValueError, match="A seed is a whole number from 0 on, not -1"):
        Draw(-1)


def parts_of(thing: Any) -> Iterator[bytes]:
    """The arguments of a call as bytes, however they are packed."""
    if isinstance(thing, torch.Tensor):
        yield f"{thing.dtype} {tuple(thing.shape)}".encode() + thing.detach().contiguous().numpy().tobytes()
    elif isinstance(thing, nn.Module):
        yield from parts_of(list(thing.state_dict().values()))
    elif isinstance(thing, list | tuple):
        for part in thing:
            yield from parts_of(part)
    else:
        yield repr(thing).encode()


def key_of(*things: Any) -> bytes:
    return b"|".join(parts_of(things))


def keys_of(exercise: str, draw: Draw) -> dict[str, bytes]:
    """What an answer is given in each case, as bytes."""
    if exercise in CLASSES:
        return {
            case.id: key_of(case.inputs, draw.flat_weights(case.d, case.weights))
            for case in class_cases(exercise, draw)
        }
    return {call.id: key_of(call.make(), call.keywords) for call in function_calls(exercise, draw)}


# Without arguments there is nothing to draw.
NOT_DRAWN = {("fused_xavier_ratio", "main")}


@pytest.mark.parametrize("seed", SEEDS)
@each_exercise
def test_no_private_input_is_a_published_one(exercise: str, seed: int) -> None:
    published, private = keys_of(exercise, PUBLISHED), keys_of(exercise, Draw(seed))
    assert list(private) == list(published)
    known = set(published.values())
    assert {(exercise, id) for id, key in private.items() if key in known} <= NOT_DRAWN


@pytest.mark.parametrize("exercise", [name for name in NAMES if name != "fused_xavier_ratio"])
def test_a_seed_gives_the_same_inputs_again_and_another_seed_others(exercise: str) -> None:
    first, second = (keys_of(exercise, Draw(seed)) for seed in SEEDS)
    assert keys_of(exercise, Draw(SEEDS[0])) == first
    assert sum(key == second[id] for id, key in first.items()) <= len(first) / 4  # small whole numbers may be equal


@pytest.mark.parametrize("exercise", ["SelfAttentionV3", "MultiHeadAttention"])
def test_random_masks_keep_and_hide_in_every_row(exercise: str) -> None:
    drawn = (
        "random mask",
        "int64 mask",
        "mask, other sizes",
        "2-D mask, as many samples as tokens",
        "mask, low scores",
    )
    for seed in MANY_SEEDS:
        masks = {case.id: case.mask for case in class_cases(exercise, Draw(seed)) if case.id in drawn}
        assert len(masks) == len(drawn)
        for mask in masks.values():
            assert mask is not None
            assert (mask != 0).any(dim=-1).all()
            assert (mask == 0).any(dim=-1).all()


@pytest.mark.parametrize("exercise", ["SelfAttentionV3", "MultiHeadAttention"])
def test_low_scores_lie_far_below_a_fill_of_minus_100(exercise: str) -> None:
    for seed in MANY_SEEDS:
        draw = Draw(seed)
        case = next(case for case in class_cases(exercise, draw) if case.id == "mask, low scores")
        weights, d_k = draw.weights(24, "plain"), 24 // case.h
        q, k = (
            (x @ weights[name].T).reshape(*x.shape[:2], case.h, d_k).transpose(1, 2)  # (B, h, L, d_k)
            for x, name in ((case.inputs[0], "W_q"), (case.inputs[min(1, len(case.inputs) - 1)], "W_k"))
        )
        scores = q @ k.transpose(-2, -1) / d_k**0.5
        assert scores.max() < -300
        assert scores.min() > -500


def test_private_lengths_leave_padding_where_the_published_ones_do() -> None:
    for seed in MANY_SEEDS:
        for published, private in zip(
            FUNCTION_CALLS["padding_mask"], function_calls("padding_mask", Draw(seed)), strict=True
        ):
            (before, longest_before), (lengths, longest) = published.make(), private.make()
            assert longest > longest_before
            assert longest - lengths.max() == longest_before - before.max()
            assert (lengths == 0).tolist()[: len(before)] == (before == 0).tolist()
            assert (len(lengths) == longest) == (len(before) == longest_before)
            assert lengths.min() < longest
            assert lengths.dtype == before.dtype


def test_private_rates_of_dropout_are_neither_published_nor_extreme() -> None:
    rates = np.array([dropout_rates(Draw(seed)) for seed in MANY_SEEDS])
    assert dropout_rates(PUBLISHED) == (0.5, 0.2)
    assert not np.isin(rates, (0.5, 0.2)).any()
    assert (rates > 0.1).all()
    assert (rates < 0.6).all()


# --------------------------------------------------------------------------------- right and wrong answers


def some(entries: list[tuple[str, Callable, Any]], step: int) -> list[Any]:
    """Every so many answers of each exercise."""
    of_each = {name: [entry[:2] for entry in entries if entry[0] == name] for name in NAMES}
    chosen = [entry for of_one in of_each.values() for entry in of_one[step // 2 :: step] or of_one[:1]]
    return [pytest.param(*entry, id=f"{entry[0]}-{entry[1].__name__}") for entry in chosen]


@pytest.mark.parametrize(("exercise", "answer"), some(answers.RIGHT, 9))
def test_a_right_answer_passes_whatever_the_seed(exercise: str, answer: Callable) -> None:
    public, verdicts = on_both(answer, exercise, *SEEDS)
    assert public.passed
    assert verdicts == [public] * len(SEEDS)


@pytest.mark.parametrize(("exercise", "answer"), some(answers.WRONG, 25))
def test_a_wrong_answer_is_refused_by_private_probes_alone(exercise: str, answer: Callable) -> None:
    for verdict in private_alone(answer, exercise, *SEEDS):
        assert verdict.status == "wrong"
        assert verdict.points < verdict.max_points


@each_exercise
def test_the_book_of_a_private_draw_has_the_cases_of_the_published_one(exercise: str) -> None:
    private, published = right_of(SEEDS[0]), answer_book()
    assert list(private.kinds[exercise]) == list(published.kinds[exercise])
    kinds = [(kind["group"], kind["dtype"]) for kind in private.kinds[exercise].values()]
    assert kinds == [(kind["group"], kind["dtype"]) for kind in published.kinds[exercise].values()]
    assert (private.wrong, private.pairs, private.raised, private.words, private.blanks) == ({}, {}, {}, {}, {})


def test_a_private_run_skips_what_only_makes_notes() -> None:
    public, private = observe_each(solution("SelfAttentionV3"), "SelfAttentionV3", None, [PUBLISHED, Draw(3)])
    assert {"half", "meta"} <= set(public.facts)
    assert not {"half", "meta"} & set(private.facts)


class OwnNames(nn.Module):
    """A right V1 whose names tell no role; the output alone shows which layer makes what."""

    def __init__(self, hidden_dim: int = 768):
        super().__init__()
        self.first, self.second, self.third = (nn.Linear(hidden_dim, hidden_dim) for _ in range(3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        scores = self.third(x) @ self.first(x).transpose(-2, -1) / x.shape[-1] ** 0.5  # (B, L, L)
        return scores.softmax(dim=-1) @ self.second(x)


class LooseBiases(nn.Module):
    """A right V1 whose biases stand beside the layers, in an order of their own."""

    def __init__(self, hidden_dim: int = 768):
        super().__init__()
        self.a, self.b, self.c = (nn.Linear(hidden_dim, hidden_dim, bias=False) for _ in range(3))
        self.s, self.t = (nn.Parameter(torch.zeros(hidden_dim)) for _ in range(2))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = self.a(x) + self.t, self.b(x), self.c(x) + self.s
        return (q @ k.transpose(-2, -1) / x.shape[-1] ** 0.5).softmax(dim=-1) @ v


@pytest.mark.parametrize("answer", [OwnNames, LooseBiases])
def test_what_the_published_run_found_out_is_taken_over_without_a_key(answer: type[nn.Module]) -> None:
    public, verdicts = on_both(answer, "SelfAttentionV1", *SEEDS)
    assert public.passed
    assert verdicts == [public] * len(SEEDS)
    _, private = observe_each(
        answer, "SelfAttentionV1", answer_book().key("SelfAttentionV1"), [PUBLISHED, Draw(SEEDS[0])]
    )
    assert private.facts["readings_tried"] == 1
    alone = observe_each(answer, "SelfAttentionV1", None, [Draw(SEEDS[0])])[0]
    assert not np.allclose(alone.tensors["biased"], private.tensors["biased"])


# ---------------------------------------------------------------------------------- answers learned by heart


class Remembered(torch.autograd.Function):
    """A known output with known gradients."""

    @staticmethod
    def forward(ctx: Any, output: torch.Tensor, gradients: tuple[torch.Tensor, ...], *inputs: torch.Tensor) -> Any:
        ctx.gradients = gradients
        return output.clone()

    @staticmethod
    def backward(ctx: Any, *_: torch.Tensor) -> Any:
        return (None, None, *ctx.gradients)


def output_in_book(exercise: str, case: str) -> torch.Tensor:
    array = torch.tensor(answer_book().right[exercise][case])
    return array.bool() if answer_book().kinds[exercise][case]["dtype"] == "bool" else array


def learned_by_heart(exercise: str) -> Callable[..., Any]:
    """A function that looks the published outputs up, with their gradients, and computes nothing."""
    right = answer_book().right[exercise]
    outputs = {
        key_of(call.make(), [value for _, value in call.keywords]): output_in_book(exercise, call.id)
        for call in reversed(FUNCTION_CALLS[exercise])  # "main", with its gradients, is entered last
    }
    with_gradients = key_of(FUNCTION_CALLS[exercise][0].make(), [])
    gradients = [torch.tensor(right[name]) for name in sorted(right) if name.startswith("main/input gradient")]

    def answer(*arguments: Any, **keywords: Any) -> Any:
        key = key_of(arguments, list(keywords.values()))
        if key not in outputs:
            return torch.zeros(())
        inputs = [a for a in arguments if isinstance(a, torch.Tensor) and a.is_floating_point()]
        if gradients and key == with_gradients:
            return Remembered.apply(outputs[key], tuple(gradients), *inputs)
        return outputs[key].clone() if outputs[key].dim() else float(outputs[key])

    return answer


LEARNED = (
    *("causal_mask", "attention_parameters", "padding_mask", "softmax", "masked_softmax", "dot_product_std"),
    *("weighted_average", "split_heads", "attention_scores"),
)


@pytest.mark.parametrize("exercise", LEARNED)
def test_a_function_learned_by_heart_gets_nothing(exercise: str) -> None:
    public, verdicts = on_both(learned_by_heart(exercise), exercise, *SEEDS)
    assert public.passed, public
    for verdict in verdicts:
        assert verdict.status == "wrong"
        assert verdict.points == 0
        assert [finding.id for finding in verdict.findings] == ["only-published-probes"]


LAYERS = {
    "SelfAttentionV1": {"q": "query_proj", "k": "key_proj", "v": "value_proj"},
    "MultiHeadAttention": {"q": "wq", "k": "wk", "v": "wv", "o": "wo"},
}


def class_by_heart(exercise: str) -> type[nn.Module]:
    """A class with the contract's layers that looks (inputs, loaded weights, mask) up, and computes nothing."""
    layers, right = LAYERS[exercise], answer_book().right[exercise]
    table: dict[bytes, tuple[torch.Tensor, list[torch.Tensor]]] = {}
    for case in class_cases(exercise):
        weights = PUBLISHED.weights(case.d, case.weights)
        loaded = [weights[f"{kind}_{role}"] for role in layers for kind in "Wb"]
        name = "biased/" + "".join(layers).replace("k", "") if case.id == "biased" else case.id
        entry = torch.tensor(right[name]), gradients_of(right, case.id, len(layers))
        table.setdefault(key_of(case.inputs, loaded, case.mask), entry)

    class ByHeart(nn.Module):
        def __init__(self, d: int, h: int = 1):
            super().__init__()
            if d % h:
                raise ValueError("h does not divide d")
            for name in layers.values():
                setattr(self, name, nn.Linear(d, d))

        def forward(self, *given: torch.Tensor) -> torch.Tensor:
            inputs, mask = (given[:3], given[3]) if len(given) == 4 else (given, None)
            loaded = list(self.parameters())
            output, gradients = table.get(key_of(inputs, loaded, mask), (torch.zeros_like(inputs[0]), []))
            if gradients and torch.is_grad_enabled():
                return Remembered.apply(output, tuple(gradients), *inputs, *loaded)
            return output.clone()

    return ByHeart


def gradients_of(right: dict[str, np.ndarray], case: str, layers: int) -> list[torch.Tensor]:
    """The recorded gradients of a case, of the inputs and then of each layer's weight and bias; [] without any."""
    if f"{case}/gradient" not in right:
        return []
    names = sorted(name for name in right if name.startswith(f"{case}/input gradient"))
    d, flat = 24, torch.tensor(right[f"{case}/gradient"])
    weights = [flat[i * d * d : (i + 1) * d * d].reshape(d, d) for i in range(4)]
    biases = [flat[4 * d * d + i * d : 4 * d * d + (i + 1) * d] for i in range(4)]
    layers = [part for i in range(layers) for part in (weights[i], biases[i])]
    return [*(torch.tensor(right[name]) for name in names), *layers]


@pytest.mark.parametrize("exercise", ["SelfAttentionV1", "MultiHeadAttention"])
def test_a_class_learned_by_heart_gets_nothing(exercise: str) -> None:
    public, verdicts = on_both(class_by_heart(exercise), exercise, *SEEDS)
    assert public.passed, public
    for verdict in verdicts:
        assert verdict.status == "wrong"
        assert verdict.points == 0
        assert verdict.findings[0].id == "only-published-probes"


def right_where_it_is_watched(exercise: str) -> Any:
    """The solution on the published inputs, and something else on all others."""
    answer = solution(exercise)
    if exercise not in CLASSES:
        known = {key_of(call.make()) for call in FUNCTION_CALLS[exercise]}
        return lambda *given: answer(*given) * (1 if key_of(given) in known else 2)
    known = {key_of(case.inputs) for case in class_cases(exercise)}

    class Watched(answer):  # type: ignore[misc, valid-type]
        def forward(self, *inputs: torch.Tensor, **mask: Any) -> torch.Tensor:
            output = super().forward(*inputs, **mask)
            return output if key_of(inputs[: len(next(iter(class_cases(exercise))).inputs)]) in known else 2 * output

    return Watched


@pytest.mark.parametrize("exercise", ["softmax", "split_heads", "SelfAttentionV1", "MultiHeadAttention"])
def test_an_answer_that_is_right_only_where_it_is_watched_is_refused(exercise: str) -> None:
    public, verdicts = on_both(right_where_it_is_watched(exercise), exercise, *SEEDS)
    assert public.passed, public
    for verdict in verdicts:
        assert verdict.status == "wrong"
        assert verdict.points == 0
        assert verdict.findings[0].id == "only-published-probes"


# ------------------------------------------------------------------------------------ how the two are combined


def build_wrong(exercise: str, id: str) -> Any:
    mistakes.load_all()
    return steps.build(exercise, next(v for v in mistakes.VARIANTS if v.id == id and exercise in v.exercises))


def test_a_wrong_answer_keeps_its_public_words_and_the_smaller_points() -> None:
    public, [verdict] = on_both(build_wrong("SelfAttentionV3", "mask-ignored"), "SelfAttentionV3", 3)
    assert public.findings[0].severity == "mistake"
    assert 0 < public.points < public.max_points
    assert verdict == replace(public, points=verdict.points)
    assert verdict.points <= public.points


def test_points_are_those_of_the_parts_that_are_right_on_private_probes_too() -> None:
    [verdict] = private_alone(build_wrong("SelfAttentionV3", "mask-ignored"), "SelfAttentionV3", 3)
    assert verdict.findings[0].id == "only-published-probes"
    assert 0 < verdict.points < verdict.max_points


def test_notes_stay_with_an_answer_that_fails_on_private_probes() -> None:
    public, [verdict] = on_both(OwnNames, "SelfAttentionV1", 3)
    failing = observe_each(build_wrong("SelfAttentionV1", "scale-missing"), "SelfAttentionV1", None, [Draw(3)])[0]
    refused = compare_private(public, failing, right_of(3), 8)
    assert verdict == public
    assert [finding.id for finding in refused.findings] == ["only-published-probes", "roles-discovered"]


def test_an_open_blank_stays_an_open_blank() -> None:
    def softmax(scores: torch.Tensor) -> torch.Tensor:
        raise NotImplementedError

    public, [verdict] = on_both(softmax, "softmax", 3)
    assert public.status == "not started"
    assert verdict == public


def test_an_answer_that_was_stopped_on_private_probes_is_told_so() -> None:
    points = BY_NAME["softmax"].points
    passed = Verdict("softmax", "passed", points, points)
    raised = {"type": "KeyboardInterrupt", "message": "", "where": "f", "line": "while True:", "number": 3}
    stopped = Observation("softmax", facts={"cases": {}, "interrupted": raised})
    verdict = compare_private(passed, stopped, right_of(3), points)
    assert (verdict.status, verdict.points, verdict.findings[0].id) == ("error", 0, "interrupted")


@pytest.mark.parametrize("exercise", ["causal_mask", "SelfAttentionV3"])
def test_nothing_of_the_private_numbers_is_told(exercise: str) -> None:
    [verdict] = private_alone(right_where_it_is_watched(exercise), exercise, 3)
    assert verdict.details == ()
    assert verdict.comparisons == ()
    assert verdict.findings[0].message == (
        "Your answer is right on the published inputs, and wrong on others. An answer has to be right on every input."
    )


# --------------------------------------------------------------------------------------- records not believed


def packed(answer: Any, exercise: str) -> list[Observation]:
    return observe_each(answer, exercise, answer_book().key(exercise), [PUBLISHED, Draw(SEEDS[0])])


def judged(exercise: str, public: bytes, private: bytes | None = None) -> Verdict:
    points = BY_NAME[exercise].points
    others = [] if private is None else [(private, right_of(SEEDS[0]))]
    return untrusted.judge(exercise, public, answer_book(), points, others)


def ids(verdict: Verdict) -> list[str]:
    return [finding.id for finding in verdict.findings]


@pytest.mark.parametrize("entries", [answers.RIGHT, answers.WRONG], ids=["right", "wrong"])
def test_an_honest_record_gets_its_verdict(entries: list[Any]) -> None:
    for exercise, answer, _ in entries[::40]:
        public, private = packed(answer, exercise)
        expected = compare(public, answer_book(), BY_NAME[exercise].points)
        expected = compare_private(expected, private, right_of(SEEDS[0]), BY_NAME[exercise].points)
        verdict = judged(exercise, public.to_bytes(), private.to_bytes())
        assert verdict.as_dict() == expected.as_dict(), answer.__name__


def test_an_unknown_exercise_is_a_mistake_of_the_caller() -> None:
    with pytest.raises(KeyError, match="nonsense"):
        untrusted.judge("nonsense", b"", answer_book(), 3)


SOFTMAX = Observation("softmax", facts={"cases": {}, "printed": 0, "forbidden": []})
DAMAGED: dict[str, bytes] = {
    "nothing": b"",
    "noise": bytes(range(256)) * 4,
    "too much": b"\0" * (MOST_BYTES + 1),
    "another exercise": observe(solution("causal_mask"), "causal_mask").to_bytes(),
    "facts that are a list": save({}, metadata={"exercise": "softmax", "facts": "[]"}),
    "no cases": Observation("softmax", facts={"printed": 0, "forbidden": []}).to_bytes(),
    "cases that are a list": Observation("softmax", facts=SOFTMAX.facts | {"cases": []}).to_bytes(),
    "cases that are no tables": Observation("softmax", facts=SOFTMAX.facts | {"cases": {"main": 1}}).to_bytes(),
    "a run cut short": Observation("softmax", facts={"cases": {}}).to_bytes(),
    "a deep nest": save({}, metadata={"exercise": "softmax", "facts": '{"cases": ' + "[" * 100_000}),
    "a nest": Observation(
        "softmax", facts=SOFTMAX.facts | {"x": functools.reduce(lambda nest, _: [nest], range(50), 0)}
    ).to_bytes(),
    "a long list": Observation("softmax", facts=SOFTMAX.facts | {"x": [0] * 50_000}).to_bytes(),
    "a huge number": Observation("softmax", facts=SOFTMAX.facts | {"x": 10**400}).to_bytes(),
    "whole numbers": Observation("softmax", {"main": np.ones((2, 5, 7), np.int64)}, SOFTMAX.facts).to_bytes(),
    "half numbers": Observation("softmax", {"main": np.ones((2, 5, 7), np.float16)}, SOFTMAX.facts).to_bytes(),
    "many outputs": Observation("softmax", {str(i): np.ones(1) for i in range(1000)}, SOFTMAX.facts).to_bytes(),
    "many readings": Observation("softmax", {"candidates": np.ones((5000, 2))}, SOFTMAX.facts).to_bytes(),
}


@pytest.mark.parametrize("name", DAMAGED)
def test_a_damaged_record_is_worth_nothing(name: str) -> None:
    verdict = judged("softmax", DAMAGED[name])
    assert (verdict.status, verdict.points, ids(verdict)) == ("error", 0, ["damaged-record"])
    assert verdict.findings[0].message.startswith("The record of this answer's run cannot be read: ")


@pytest.mark.parametrize("name", DAMAGED)
def test_a_damaged_private_record_takes_the_points_of_a_right_answer(name: str) -> None:
    verdict = judged("softmax", observe(solution("softmax"), "softmax").to_bytes(), DAMAGED[name])
    assert (verdict.status, verdict.points, ids(verdict)) == ("error", 0, ["damaged-record"])


def test_a_wrong_answer_keeps_its_words_beside_a_damaged_private_record() -> None:
    public = observe(lambda scores: scores.exp() / scores.exp().sum(-1, keepdim=True), "softmax")
    verdict = judged("softmax", public.to_bytes(), b"")
    assert (verdict.status, verdict.points, ids(verdict)) == ("wrong", 0, ["naive-exp"])


def test_texts_are_cut_and_printable() -> None:
    raised = {"type": "Odd\ud800", "message": "\x1b[31m\u202e" + "x" * 5000, "where": "", "line": "a\0b", "number": 1}
    facts = {"cases": {"main": {"raised": raised}}, "printed": 0, "forbidden": ["y" * 5000] * 900}
    for used in (facts, facts | {"forbidden": []}):
        verdict = judged("softmax", Observation("softmax", facts=used).to_bytes())
        text = json.dumps(verdict.as_dict(), ensure_ascii=False)
        assert len(text.encode("utf-8")) < 10_000
        assert all(c.isprintable() for c in text)


STRANGE: list[Any] = [
    *(None, True, -1, 0, 10**14, 10**30, 1e308, float("nan"), float("inf"), "", "x", "\ud800", "é" * 900),
    *([], [[]], {}, {"raised": 5}, {"raised": {}}, {"raised": {"type": 1, "message": None, "line": [], "where": 0}}),
    *([None, 3], {"x": {"y": []}}, {"roles": 7}, [["a", ["b"]]], ["main"], {"shape": [-1], "dtype": 4}),
]


def strange_arrays(array: np.ndarray) -> list[np.ndarray]:
    flat, like = array.reshape(-1), functools.partial(np.full, array.shape, dtype=np.float32)
    return [
        *(flat[:0], flat, flat[:3], array[..., None, None], np.zeros((0, 4, 0)), np.ones((1,) * 30)),
        *(like(np.nan), like(np.inf), like(-np.inf), like(0), like(1), like(3e38), like(1e-40)),
        *(np.array(3.0), array.astype(np.float64), array > 0, np.zeros(array.shape, np.int32)),
        np.zeros(array.shape, np.float16),
    ]


def tables_in(facts: Any) -> list[Any]:
    """Every table and list in the facts."""
    inner = list(facts.values()) if isinstance(facts, dict) else facts if isinstance(facts, list) else []
    return [facts, *(table for part in inner for table in tables_in(part))] if isinstance(facts, dict | list) else []


def spoiled(observation: Observation, dice: random.Random) -> bytes:
    """A record with one to three things in it dropped or replaced by something strange."""
    copied = copy.deepcopy(observation)
    for _ in range(dice.randint(1, 3)):
        table = dice.choice([table for table in tables_in(copied.facts) if table] or [{"": 0}])
        if copied.tensors and dice.random() < 0.5:
            name = dice.choice(list(copied.tensors))
            array = copied.tensors.pop(name)
            if dice.random() < 0.8:
                copied.tensors[name] = dice.choice(strange_arrays(array))
        elif isinstance(table, list):
            table[dice.randrange(len(table))] = dice.choice(STRANGE)
        else:
            name = dice.choice(list(table))
            table.pop(name)
            if dice.random() < 0.7:
                table[name] = copy.deepcopy(dice.choice(STRANGE))
    return copied.to_bytes()


FUZZED: dict[str, tuple[str, Any]] = {
    "a right class": ("SelfAttentionV1", solution("SelfAttentionV1")),
    "a right class with names of its own": ("SelfAttentionV1", OwnNames),
    "a right class with dropout": ("SelfAttentionV3", solution("SelfAttentionV3")),
    "a wrong class": ("MultiHeadAttention", build_wrong("MultiHeadAttention", "scale-missing")),
    "a class that ignores the mask": ("SelfAttentionV3", build_wrong("SelfAttentionV3", "mask-ignored")),
    "a class that cannot be built": ("SelfAttentionV2", lambda: 1 / 0),
    "a right function": ("masked_softmax", solution("masked_softmax")),
    "random numbers": ("inverted_dropout", solution("inverted_dropout")),
    "weights": ("init_attention_weights", solution("init_attention_weights")),
    "layers": ("fuse_projections", solution("fuse_projections")),
    "a wrong function": ("softmax", lambda scores: scores.softmax(-2)),
    "a wrong number": ("dot_product_std", lambda d: float(d)),
}


@pytest.mark.parametrize("name", FUZZED)
def test_a_spoiled_record_gives_a_verdict_with_no_more_points(name: str) -> None:
    exercise, answer = FUZZED[name]
    observations = packed(answer, exercise)
    whole = [observation.to_bytes() for observation in observations]
    true = judged(exercise, *whole)
    dice = random.Random(0)
    damaged = 0
    for round in range(60):
        side = round % 2
        parts = list(whole)
        parts[side] = spoiled(observations[side], dice)
        verdict = judged(exercise, *parts)
        assert verdict.points <= true.points
        assert verdict.exercise == exercise
        assert json.dumps(verdict.as_dict())
        assert repr(verdict)
        damaged += ids(verdict) == ["damaged-record"]
    assert 0 < damaged < 60


def test_flipped_and_missing_bytes_are_survived() -> None:
    data = observe(solution("causal_mask"), "causal_mask").to_bytes()
    dice = random.Random(0)
    for _ in range(300):
        spoilt = bytearray(data)
        for _ in range(dice.randint(1, 4)):
            spoilt[dice.randrange(len(spoilt))] = dice.randrange(256)
        assert judged("causal_mask", bytes(spoilt[: dice.choice((len(data), dice.randrange(len(data))))])).points <= 3

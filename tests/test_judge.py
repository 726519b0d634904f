"""What every check promises, and what it does with answers that are broken in ways no exercise foresees."""

from __future__ import annotations

import _thread
import builtins
import math
import random
import signal
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from matplotlib.figure import Figure
from torch import nn

import helpers
from helpers.course import EXERCISES
from helpers.judge import Verdict, check_answer
from helpers.judge.answer_book import answer_book, blank


class Right(nn.Module):
    """A right SelfAttentionV1; most broken answers here are this one with one thing changed."""

    def __init__(self, hidden_dim: int = 768):
        super().__init__()
        self.query_proj = nn.Linear(hidden_dim, hidden_dim)
        self.key_proj = nn.Linear(hidden_dim, hidden_dim)
        self.value_proj = nn.Linear(hidden_dim, hidden_dim)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = self.query_proj(x), self.key_proj(x), self.value_proj(x)  # (B, L, d)
        scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])  # (B, L, L)
        return torch.softmax(scores, dim=-1) @ v  # (B, L, d)


class RightV3(nn.Module):
    """A right SelfAttentionV3; what it does with the mask can be replaced."""

    def __init__(self, hidden_dim: int, dropout_rate: float = 0.1):
        super().__init__()
        self.proj = nn.Linear(hidden_dim, 3 * hidden_dim)
        self.attention_dropout = nn.Dropout(dropout_rate)
        self.output_proj = nn.Linear(hidden_dim, hidden_dim)

    def hide(self, scores: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        return scores.masked_fill(mask == 0, float("-inf"))

    def forward(self, x: torch.Tensor, attention_mask: torch.Tensor | None = None) -> torch.Tensor:
        q, k, v = self.proj(x).chunk(3, dim=-1)  # (B, L, d)
        scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])  # (B, L, L)
        if attention_mask is not None:
            scores = self.hide(scores, attention_mask)
        weights = self.attention_dropout(scores.softmax(dim=-1))  # (B, L, L)
        return self.output_proj(weights @ v)  # (B, L, d)


def right_softmax(scores: torch.Tensor) -> torch.Tensor:
    exponentials = (scores - scores.amax(dim=-1, keepdim=True)).exp()
    return exponentials / exponentials.sum(dim=-1, keepdim=True)


class Unscaled(Right):
    """A wrong answer with a name: the scores are not divided by √d."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        scores = self.query_proj(x) @ self.key_proj(x).transpose(-2, -1)  # (B, L, L)
        return torch.softmax(scores, dim=-1) @ self.value_proj(x)


def returning(change: Callable[[torch.Tensor], Any]) -> type[Right]:
    """A right answer whose output is changed before it is returned."""

    class Answer(Right):
        def forward(self, x: torch.Tensor) -> Any:
            return change(super().forward(x))

    return Answer


def doing(deed: Callable[[], Any]) -> type[Right]:
    """A right answer that does something else on the way."""

    class Answer(Right):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            output = super().forward(x)
            deed()
            return output

    return Answer


def verdict_on(answer: Any, exercise: str = "SelfAttentionV1") -> Verdict:
    return check_answer(answer, exercise)


def ids(verdict: Verdict) -> list[str]:
    return [finding.id for finding in verdict.findings]


def assert_checks_still_work() -> None:
    assert verdict_on(Right).passed
    assert verdict_on(right_softmax, "softmax").passed
    assert not verdict_on(Unscaled).passed


@pytest.fixture(autouse=True)
def _settings_of_torch() -> Iterator[None]:
    """Whatever an answer set and the judge did not put back must not spoil the next test."""
    dtype, device, state = torch.get_default_dtype(), torch.get_default_device(), torch.get_rng_state()
    yield
    torch.set_default_device(None if device.type == "cpu" else device)
    torch.set_default_dtype(dtype)
    torch.set_grad_enabled(True)
    torch.set_rng_state(state)


# ------------------------------------------------------------------------------------ not started


class OnlyADocstring(nn.Module):
    """Self-attention."""


class OnlyPass(nn.Module):
    pass


class OnlyDots(nn.Module): ...


class DotsInBoth(nn.Module):
    def __init__(self, hidden_dim: int = 768): ...

    def forward(self, x: torch.Tensor) -> torch.Tensor: ...


class DocstringsInBoth(nn.Module):
    def __init__(self, hidden_dim: int = 768):
        """Make three projections."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(B, L, d) → (B, L, d)"""


class ForwardStillRaises(Right):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        raise NotImplementedError


class ForwardStillRaisesWithWords(Right):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        raise NotImplementedError("tomorrow")


class ForwardStillPasses(Right):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        pass


class InitStillRaises(nn.Module):
    def __init__(self, hidden_dim: int = 768):
        raise NotImplementedError

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x


class AStepStillRaises(Right):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.weights(x) @ self.value_proj(x)

    def weights(self, x: torch.Tensor) -> torch.Tensor:
        raise NotImplementedError


OPEN_CLASSES = (
    OnlyADocstring, OnlyPass, OnlyDots, DotsInBoth, DocstringsInBoth, ForwardStillRaises, ForwardStillRaisesWithWords,
    ForwardStillPasses, InitStillRaises, AStepStillRaises,
)  # fmt: skip


def raises(scores: torch.Tensor) -> torch.Tensor:
    raise NotImplementedError


def dots(scores: torch.Tensor) -> torch.Tensor: ...


def passes(scores: torch.Tensor) -> torch.Tensor:
    pass


def documents(scores: torch.Tensor) -> torch.Tensor:
    """Turn scores into weights."""


def returns_dots(scores: torch.Tensor) -> Any:
    return ...


OPEN_FUNCTIONS = (raises, dots, passes, documents, returns_dots)


@pytest.mark.parametrize("answer", OPEN_CLASSES)
def test_an_open_class_is_not_started(answer: type) -> None:
    assert verdict_on(answer).status == "not started"


@pytest.mark.parametrize("answer", OPEN_FUNCTIONS)
def test_an_open_function_is_not_started(answer: Callable) -> None:
    assert verdict_on(answer, "softmax").status == "not started"


@pytest.mark.parametrize("exercise", [exercise.name for exercise in EXERCISES])
def test_every_blank_is_not_started(exercise: str) -> None:
    names: dict[str, Any] = {"torch": torch, "nn": nn, "math": math}
    exec(blank(exercise), names)
    assert verdict_on(names[exercise], exercise).status == "not started"


def test_not_started_is_said_kindly_and_costs_nothing() -> None:
    verdict = verdict_on(ForwardStillRaises)
    assert verdict.points == 0
    assert [finding.severity for finding in verdict.findings] == ["note"]
    assert "not started" in repr(verdict)
    assert not any(word in repr(verdict) for word in ("Mistake", "wrong", "NotImplementedError", "0 of"))


def test_an_error_that_torch_calls_not_implemented_is_no_blank() -> None:
    class Answer(Right):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            scores = self.query_proj(x) @ self.key_proj(x).transpose(-2, -1)
            return (scores > 0).softmax(dim=-1) @ self.value_proj(x)

    verdict = verdict_on(Answer)
    assert verdict.status == "error"
    assert "not implemented for 'Bool'" in repr(verdict)


# ------------------------------------------------------------------------------ not what was asked for


@pytest.mark.parametrize(
    "answer", [None, 5, "SelfAttentionV1", [Right], torch.ones(3), math], ids=lambda a: str(type(a))
)
def test_what_is_neither_class_nor_function_is_named_by_its_type(answer: Any) -> None:
    for exercise in ("SelfAttentionV1", "softmax"):
        verdict = verdict_on(answer, exercise)
        assert verdict.status == "error"
        assert f"`{type(answer).__name__}`" in repr(verdict)


def test_an_instance_is_told_to_give_the_class() -> None:
    verdict = verdict_on(Right(8))
    assert ids(verdict) == ["an-instance"]
    assert "check(SelfAttentionV1)" in repr(verdict)


def test_a_function_in_place_of_a_class_is_told_what_came_back() -> None:
    def self_attention(x: torch.Tensor) -> torch.Tensor:
        return x

    verdict = verdict_on(self_attention)
    assert verdict.status == "error"
    assert ids(verdict) == ["built-no-module"]


def test_a_class_in_place_of_a_function_is_refused() -> None:
    class Softmax(nn.Module):
        def forward(self, scores: torch.Tensor) -> torch.Tensor:
            return right_softmax(scores)

    verdict = verdict_on(Softmax, "softmax")
    assert verdict.status == "error"
    assert "Traceback" not in repr(verdict)


def test_a_class_without_nn_module_is_told_so() -> None:
    class Answer:
        def __init__(self, hidden_dim: int):
            self.query_proj = nn.Linear(hidden_dim, hidden_dim)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.query_proj(x)

    verdict = verdict_on(Answer)
    assert ids(verdict) == ["not-a-module"]
    assert "nn.Module" in repr(verdict)


class LayersBeforeSuper(nn.Module):
    def __init__(self, hidden_dim: int):
        self.query_proj = nn.Linear(hidden_dim, hidden_dim)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.query_proj(x)


class NumbersAndNoSuper(nn.Module):
    def __init__(self, hidden_dim: int):
        self.hidden_dim = hidden_dim

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x / self.hidden_dim


@pytest.mark.parametrize("answer", [LayersBeforeSuper, NumbersAndNoSuper])
def test_a_forgotten_super_init_is_told_so(answer: type) -> None:
    verdict = verdict_on(answer)
    assert verdict.status == "error"
    assert ids(verdict) == ["no-super-init"]


def test_a_misspelled_forward_is_told_so() -> None:
    class Answer(nn.Module):
        def __init__(self, hidden_dim: int):
            super().__init__()
            self.query_proj = nn.Linear(hidden_dim, hidden_dim)

        def foward(self, x: torch.Tensor) -> torch.Tensor:
            return self.query_proj(x)

    verdict = verdict_on(Answer)
    assert verdict.status == "error"
    assert ids(verdict) == ["no-forward"]


def test_other_arguments_of_init_are_written_out() -> None:
    class Answer(Right):
        def __init__(self, hidden_dim: int, vocabulary: int):
            super().__init__(hidden_dim)

    verdict = verdict_on(Answer)
    assert ids(verdict) == ["wrong-arguments"]
    assert "hidden_dim, vocabulary" in repr(verdict)
    assert "SelfAttentionV1(hidden_dim)" in repr(verdict)


class TooFew(Right):
    def forward(self) -> torch.Tensor:
        return self.query_proj.weight


class TooMany(Right):
    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return super().forward(x)


@pytest.mark.parametrize("answer", [TooFew, TooMany])
def test_other_arguments_of_forward_are_written_out(answer: type) -> None:
    verdict = verdict_on(answer)
    assert ids(verdict) == ["wrong-forward-arguments"]
    assert "forward(x)" in repr(verdict)


def test_too_few_forward_arguments_of_multi_head_attention_are_written_out() -> None:
    class Answer(nn.Module):
        def __init__(self, d_model: int, h: int):
            super().__init__()
            self.wq = nn.Linear(d_model, d_model)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.wq(x)

    verdict = verdict_on(Answer, "MultiHeadAttention")
    assert ids(verdict) == ["wrong-forward-arguments"]
    assert "forward(q, k, v, mask)" in repr(verdict)


def test_a_forward_without_a_mask_is_told_so() -> None:
    class Answer(RightV3):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return super().forward(x)

    verdict = verdict_on(Answer, "SelfAttentionV3")
    assert not verdict.passed
    assert 0 < verdict.points < verdict.max_points
    assert "mask" in repr(verdict)


@pytest.mark.parametrize("answer", [lambda: torch.ones(1), lambda scores, dim: scores], ids=["too few", "too many"])
def test_other_arguments_of_a_function_are_an_error_in_words(answer: Callable) -> None:
    verdict = verdict_on(answer, "softmax")
    assert verdict.status == "error"
    assert "argument" in repr(verdict)


# ------------------------------------------------------------------------------------ what it returns


@pytest.mark.parametrize(
    "change",
    [lambda o: None, lambda o: o.tolist(), lambda o: {"output": o}, lambda o: o.detach().numpy(), lambda o: "done"],
    ids=["NoneType", "list", "dict", "ndarray", "str"],
)
def test_an_output_that_is_no_tensor_is_named_by_its_type(
    change: Callable[[torch.Tensor], Any], request: pytest.FixtureRequest
) -> None:
    kind = request.node.callspec.id
    for verdict in (
        verdict_on(returning(change)),
        verdict_on(lambda scores: change(right_softmax(scores)), "softmax"),
    ):
        assert not verdict.passed
        assert ids(verdict) == ["wrong-type"]
        assert f"`{kind}`" in repr(verdict)


def test_a_wrong_length_names_the_axis_and_both_lengths() -> None:
    verdict = verdict_on(returning(lambda output: torch.cat([output, output], dim=1)))
    assert verdict.findings[0].id == "wrong-shape"
    assert all(shape in repr(verdict) for shape in ("(2, 10, 24)", "(2, 5, 24)"))
    assert "Axis 1 has length 10 instead of 5" in repr(verdict)


def test_a_missing_token_names_the_axis_even_where_nothing_is_left() -> None:
    verdict = verdict_on(returning(lambda output: output[:, :-1]))  # a single token leaves an empty output
    assert verdict.findings[0].id == "wrong-shape"
    assert "Axis 1 has length 4 instead of 5" in repr(verdict)


def test_a_missing_axis_says_how_many_there_should_be() -> None:
    verdict = verdict_on(returning(lambda output: output.mean(dim=1)))
    assert verdict.findings[0].id == "wrong-shape"
    assert "2 axes instead of 3" in repr(verdict)


@pytest.mark.parametrize("change", [lambda o: o[:0], lambda o: o.sum(), lambda o: o[..., None]], ids=["()", "0", "4"])
def test_odd_shapes_are_refused(change: Callable[[torch.Tensor], Any]) -> None:
    assert ids(verdict_on(returning(change))) == ["wrong-shape"]


def test_nan_is_said() -> None:
    verdict = verdict_on(returning(lambda output: output * float("nan")))
    assert verdict.status == "wrong"
    assert "NaN" in repr(verdict)


def test_infinite_numbers_are_refused() -> None:
    assert verdict_on(returning(lambda output: output / 0)).status == "wrong"


def test_a_mask_that_is_not_bool_is_told_so() -> None:
    verdict = verdict_on(lambda length: torch.ones(length, length).tril(), "causal_mask")
    assert ids(verdict) == ["wrong-dtype"]


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.int64, torch.complex64], ids=str)
def test_another_dtype_with_other_numbers_is_refused(dtype: torch.dtype) -> None:
    assert verdict_on(returning(lambda output: output.to(dtype))).status == "wrong"
    assert verdict_on(lambda scores: (right_softmax(scores) + 0.01).to(dtype), "softmax").status == "wrong"


def test_double_precision_is_right() -> None:
    assert verdict_on(returning(lambda output: output.double())).passed


@pytest.mark.parametrize(
    "change",
    [
        lambda output: output.to_sparse(),
        lambda output: output.to("meta"),
        lambda output: torch.quantize_per_tensor(output, 0.1, 0, torch.qint8),
        lambda output: torch.zeros(1).expand(10**12),  # 4 TB to write down, 4 bytes to hold
        lambda output: (output.to_sparse(), output),
    ],
    ids=["sparse", "meta", "quantized", "huge", "sparse pair"],
)
@pytest.mark.filterwarnings("ignore:torch.quantize_per_tensor")
def test_a_tensor_without_readable_numbers_is_refused_in_words(change: Callable[[torch.Tensor], Any]) -> None:
    for verdict in (
        verdict_on(returning(change)),
        verdict_on(lambda scores: change(right_softmax(scores)), "softmax"),
    ):
        assert not verdict.passed
        assert verdict.findings
    assert_checks_still_work()


def test_weights_beside_the_output_cost_nothing() -> None:
    for extra in (torch.ones(2), None, "weights"):
        assert verdict_on(returning(lambda output, extra=extra: (output, extra))).passed


# ------------------------------------------------------------------------------- what it does on the way


def test_an_exception_is_retold_with_the_learners_last_line() -> None:
    class Answer(Right):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            raise ValueError("no such luck")

    verdict = verdict_on(Answer)
    assert verdict.status == "error"
    assert "ValueError: no such luck" in repr(verdict)
    assert 'raise ValueError("no such luck")' in repr(verdict)
    assert not any(word in repr(verdict) for word in ("Traceback", "helpers", "observe", 'File "'))


def test_shapes_that_do_not_meet_are_told_with_both_lengths_and_the_line() -> None:
    class Answer(Right):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            queries = self.query_proj(x)
            return queries @ x

    verdict = verdict_on(Answer)
    assert "return queries @ x" in repr(verdict)
    assert all(length in repr(verdict) for length in ("24", "5"))


def test_an_exception_in_a_function_names_the_case_and_the_line() -> None:
    def attention_scores(q: torch.Tensor, k: torch.Tensor) -> torch.Tensor:
        _, _, width = q.shape
        return q @ k.transpose(1, 2) / math.sqrt(width)

    verdict = verdict_on(attention_scores, "attention_scores")
    assert ids(verdict) == ["raises"]  # there is no fused projection here that could be cut along the wrong axis
    assert "On numbers that can be checked by hand" in repr(verdict)
    assert "_, _, width = q.shape" in repr(verdict)


class WordlessError(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no words")


def fail(error: BaseException) -> None:
    raise error


@pytest.mark.parametrize(
    "error",
    [
        SystemExit(1),
        MemoryError(),
        GeneratorExit(),
        StopIteration(),
        WordlessError(),
        ValueError("\ud800"),
        KeyError("x"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_no_exception_of_an_answer_gets_out(error: BaseException) -> None:
    for verdict in (
        verdict_on(doing(lambda: fail(error))),
        verdict_on(lambda scores: fail(error), "softmax"),
    ):
        assert verdict.status == "error"
        assert type(error).__name__ in repr(verdict)
        assert "Traceback" not in verdict._repr_html_()


def test_leaving_the_kernel_is_an_error_like_any_other() -> None:
    verdict = verdict_on(doing(sys.exit))
    assert verdict.status == "error"
    assert_checks_still_work()


def test_infinite_recursion_is_told_with_its_line() -> None:
    class Answer(Right):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.forward(x)

    verdict = verdict_on(Answer)
    assert verdict.status == "error"
    assert "RecursionError" in repr(verdict)
    assert "return self.forward(x)" in repr(verdict)
    assert_checks_still_work()


def test_a_huge_allocation_is_told_with_its_line() -> None:
    class Answer(Right):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return super().forward(x) + torch.empty(10**14).sum()

    verdict = verdict_on(Answer)
    assert verdict.status == "error"
    assert "torch.empty(10**14)" in repr(verdict)
    assert_checks_still_work()


def test_an_interrupt_is_said_and_the_next_check_works() -> None:
    verdict = verdict_on(doing(lambda: signal.raise_signal(signal.SIGINT)))
    assert verdict.status == "error"
    assert ids(verdict) == ["interrupted"]
    assert_checks_still_work()


def loop_for_ever() -> None:
    threading.Timer(0.05, _thread.interrupt_main).start()  # the learner loses patience
    while True:
        pass


@pytest.mark.parametrize("place", ["__init__", "forward", "function"])
def test_an_endless_loop_can_be_stopped_and_is_told_with_its_line(place: str) -> None:
    class Answer(Right):
        def __init__(self, hidden_dim: int = 768):
            super().__init__(hidden_dim)
            if place == "__init__":
                loop_for_ever()

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            loop_for_ever()
            return x

    def loops(scores: torch.Tensor) -> None:
        loop_for_ever()

    verdict = verdict_on(loops, "softmax") if place == "function" else verdict_on(Answer)
    assert ids(verdict) == ["interrupted"]
    assert "`while True:`" in repr(verdict) or "`pass`" in repr(verdict)
    assert_checks_still_work()


def test_a_hundred_thousand_printed_lines_cost_nothing(capfd: pytest.CaptureFixture[str]) -> None:
    printed: list[bool] = []

    def print_once() -> None:
        if not printed:
            printed.append(True)
            for number in range(100_000):
                print("line", number)
                print("trouble", number, file=sys.stderr)

    verdict = verdict_on(doing(print_once))
    assert verdict.passed
    assert ids(verdict) == ["debug-prints"]
    assert capfd.readouterr() == ("", "")


def test_a_warning_costs_nothing_and_stays_inside() -> None:
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        assert verdict_on(doing(lambda: warnings.warn("careful", DeprecationWarning, stacklevel=1))).passed
        assert not verdict_on(returning(lambda output: output / 0)).passed
        assert not verdict_on(returning(lambda output: output.to(torch.complex64) + 1)).passed
    assert [str(warning.message) for warning in seen] == []


def test_a_closed_output_stream_does_not_reach_the_session(capsys: pytest.CaptureFixture[str]) -> None:
    verdict_on(doing(lambda: sys.stdout.close()))
    print("still here")
    assert capsys.readouterr().out == "still here\n"
    assert_checks_still_work()


class TrainReturnsNothing(Right):
    def train(self, mode: bool = True) -> None:
        self.training = mode


def test_a_train_method_that_returns_nothing_is_no_reason_to_fail() -> None:
    assert verdict_on(TrainReturnsNothing).status in ("passed", "wrong", "error")
    assert_checks_still_work()


# ---------------------------------------------------------------------- nothing reaches the rest of the session


def break_everything(*arguments: Any, **keywords: Any) -> Any:
    raise RuntimeError("patched")


PATCHES: dict[str, tuple[Any, str]] = {
    "torch.softmax": (torch, "softmax"),
    "torch.manual_seed": (torch, "manual_seed"),
    "torch.equal": (torch, "equal"),
    "torch.cat": (torch, "cat"),
    "F.linear": (F, "linear"),
    "Tensor.softmax": (torch.Tensor, "softmax"),
    "Tensor.__matmul__": (torch.Tensor, "__matmul__"),
    "nn.Linear.forward": (nn.Linear, "forward"),
    "nn.Dropout.forward": (nn.Dropout, "forward"),
    "nn.Module.train": (nn.Module, "train"),
    "nn.Module.__call__": (nn.Module, "__call__"),
    "abs": (builtins, "abs"),
    "print": (builtins, "print"),
}
_MISSING = object()


@pytest.mark.parametrize("place", PATCHES)
def test_a_patched_function_is_put_back(place: str) -> None:
    owner, name = PATCHES[place]
    own, before = vars(owner).get(name, _MISSING), getattr(owner, name)
    try:
        verdict = verdict_on(doing(lambda: setattr(owner, name, break_everything)))
        assert verdict.status in ("passed", "wrong", "error")
        assert getattr(owner, name) is before or getattr(owner, name) == before
        assert_checks_still_work()
        assert verdict_on(RightV3, "SelfAttentionV3").passed
    finally:
        if own is _MISSING and name in vars(owner):
            delattr(owner, name)
        elif own is not _MISSING:
            setattr(owner, name, own)


SETTINGS: dict[str, tuple[Callable[[], Any], Callable[[], Any]]] = {
    "default dtype": (lambda: torch.set_default_dtype(torch.float64), torch.get_default_dtype),
    "gradients off": (lambda: torch.set_grad_enabled(False), torch.is_grad_enabled),
    "default device": (lambda: torch.set_default_device("meta"), torch.get_default_device),
}


@pytest.mark.parametrize("name", SETTINGS)
def test_a_changed_setting_is_put_back(name: str) -> None:
    change, read = SETTINGS[name]
    before = read()
    assert verdict_on(doing(change)).status in ("passed", "wrong", "error")
    assert read() == before
    assert_checks_still_work()


def draw_from_all() -> None:
    torch.rand(3)
    np.random.rand(3)  # noqa: NPY002
    random.random()


def seed_all() -> None:
    torch.manual_seed(5)
    np.random.seed(5)  # noqa: NPY002
    random.seed(5)


@pytest.mark.parametrize("deed", [lambda: None, draw_from_all, seed_all], ids=["nothing", "draws", "seeds"])
def test_the_random_state_is_as_it_was(deed: Callable[[], Any]) -> None:
    before = torch.get_rng_state(), np.random.get_state()[1].copy(), random.getstate()  # noqa: NPY002
    verdict_on(doing(deed))
    verdict_on(lambda scores: (deed(), right_softmax(scores))[1], "softmax")
    assert torch.equal(torch.get_rng_state(), before[0])
    assert np.array_equal(np.random.get_state()[1], before[1])  # noqa: NPY002
    assert random.getstate() == before[2]


@pytest.mark.parametrize("seed", [0, 1])
def test_no_verdict_depends_on_the_random_state(seed: int) -> None:
    torch.manual_seed(seed)
    assert verdict_on(Right).passed
    assert verdict_on(RightV3, "SelfAttentionV3").passed
    assert ids(verdict_on(Unscaled)) == ["scale-missing"]


def test_the_learners_own_module_is_as_it_was() -> None:
    layer = Right(8).train()
    layer(torch.ones(1, 2, 8)).sum().backward()
    parameters = [(p, p.detach().clone(), p.grad, p.grad.clone()) for p in layer.parameters()]
    verdict_on(Right)
    verdict_on(layer)
    assert layer.training
    for now, (parameter, value, gradient, its_value) in zip(layer.parameters(), parameters, strict=True):
        assert now is parameter
        assert now.grad is gradient
        assert torch.equal(parameter, value)
        assert torch.equal(gradient, its_value)


def test_gradients_of_the_learners_own_tensors_are_as_they_were() -> None:
    temperature = torch.ones((), requires_grad=True)

    def attention_scores(q: torch.Tensor, k: torch.Tensor) -> torch.Tensor:
        return q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1]) / temperature

    verdict_on(attention_scores, "attention_scores")
    verdict_on(returning(lambda output: output * temperature))
    assert temperature.grad is None


def test_the_class_is_as_it_was() -> None:
    class Answer(Right):
        calls = 0

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.calls += 1
            return super().forward(x)

    before = dict(vars(Answer))
    assert verdict_on(Answer).passed
    assert dict(vars(Answer)) == before


def test_a_class_that_counts_all_its_calls_passes() -> None:
    class Answer(Right):
        calls = 0

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            type(self).calls += 1
            return super().forward(x)

    assert verdict_on(Answer).passed


def test_answers_that_edit_their_inputs_do_not_touch_the_next_check() -> None:
    class ZeroesItsInput(Right):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            output = super().forward(x)
            x.data.zero_()
            return output

    class ZeroesItsMask(RightV3):
        def hide(self, scores: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
            hidden = super().hide(scores, mask)
            mask.zero_()
            return hidden

    def zeroes_scores(scores: torch.Tensor) -> torch.Tensor:
        output = right_softmax(scores)
        scores.data.zero_()
        return output

    assert "input-edited" in ids(verdict_on(ZeroesItsInput))
    assert "input-edited" in ids(verdict_on(ZeroesItsMask, "SelfAttentionV3"))
    assert "input-edited" in ids(verdict_on(zeroes_scores, "softmax"))
    assert_checks_still_work()
    assert verdict_on(RightV3, "SelfAttentionV3").passed


def test_an_answer_that_edits_its_own_output_later_does_not_touch_the_next_check() -> None:
    outputs: list[torch.Tensor] = []

    class Answer(Right):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            for output in outputs:
                output.detach().zero_()
            outputs.append(super().forward(x))
            return outputs[-1]

    verdict_on(Answer)
    assert_checks_still_work()


# ------------------------------------------------------------------------ right, however the session is set up


@pytest.mark.parametrize("setting", [torch.no_grad, torch.inference_mode, lambda: torch.set_grad_enabled(False)],
                         ids=["no_grad", "inference_mode", "gradients off"])  # fmt: skip
def test_right_answers_pass_where_gradients_are_off(setting: Callable[[], Any]) -> None:
    with setting():
        assert ids(verdict_on(Right)) == []
        assert verdict_on(RightV3, "SelfAttentionV3").passed
        assert verdict_on(right_softmax, "softmax").passed
        assert not torch.is_grad_enabled()
    assert_checks_still_work()


def test_right_answers_pass_where_float64_is_the_default() -> None:
    torch.set_default_dtype(torch.float64)
    assert_checks_still_work()
    assert verdict_on(RightV3, "SelfAttentionV3").passed
    assert torch.get_default_dtype() is torch.float64


def test_right_answers_pass_where_another_device_is_the_default() -> None:
    torch.set_default_device("meta")  # stands for a GPU: tensors without a device given do not land on the CPU
    assert_checks_still_work()
    assert torch.get_default_device().type == "meta"


def test_right_answers_pass_under_autocast() -> None:
    with torch.autocast("cpu"):
        assert_checks_still_work()


def test_the_print_options_of_numpy_and_torch_change_no_text() -> None:
    plain = repr(verdict_on(Unscaled))
    torch.set_printoptions(precision=1, sci_mode=True)
    try:
        with np.printoptions(precision=1, floatmode="fixed", threshold=1):
            assert_checks_still_work()
            assert repr(verdict_on(Unscaled)) == plain
    finally:
        torch.set_printoptions(profile="default")


def test_numpy_errors_that_are_set_to_raise_change_nothing() -> None:
    with np.errstate(all="raise"):
        assert_checks_still_work()
        assert "NaN" in repr(verdict_on(returning(lambda output: output * float("nan"))))


def test_a_factory_of_scripted_modules_passes() -> None:
    assert verdict_on(lambda hidden_dim=768: torch.jit.script(Right(hidden_dim))).passed


# -------------------------------------------------------------------------------------------- by hand


class ReadyMade(Right):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.scaled_dot_product_attention(self.query_proj(x), self.key_proj(x), self.value_proj(x))


class ReadyMadeUnderAnotherName(Right):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        import torch.nn.functional as functions
        from torch.nn.functional import scaled_dot_product_attention as attend

        half = attend(self.query_proj(x), self.key_proj(x), self.value_proj(x))
        other = functions.scaled_dot_product_attention(self.query_proj(x), self.key_proj(x), self.value_proj(x))
        return (half + other) / 2


class Core(nn.Module):
    def forward(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        return F.scaled_dot_product_attention(q, k, v)


class ReadyMadeInside(Right):
    def __init__(self, hidden_dim: int = 768):
        super().__init__(hidden_dim)
        self.core = Core()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.core(self.query_proj(x), self.key_proj(x), self.value_proj(x))


class WrappedLayer(nn.Module):
    def __init__(self, hidden_dim: int = 768):
        super().__init__()
        self.layer = nn.MultiheadAttention(hidden_dim, 1, batch_first=True)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layer(x, x, x)[0]


class WrappedInside(nn.Module):
    def __init__(self, hidden_dim: int = 768):
        super().__init__()
        self.inner = nn.ModuleDict({"attention": WrappedLayer(hidden_dim)})

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.inner["attention"](x)


@pytest.mark.parametrize("answer", [ReadyMade, ReadyMadeUnderAnotherName, ReadyMadeInside, WrappedLayer, WrappedInside])
def test_ready_made_attention_is_refused_by_name(answer: type) -> None:
    verdict = verdict_on(answer)
    assert verdict.status == "wrong"
    assert ids(verdict) == ["not-by-hand"]
    assert "by hand" in repr(verdict)


def test_ready_made_attention_only_with_a_mask_is_refused_too() -> None:
    class Answer(RightV3):
        def forward(self, x: torch.Tensor, attention_mask: torch.Tensor | None = None) -> torch.Tensor:
            if attention_mask is None:
                return super().forward(x)
            q, k, v = self.proj(x).chunk(3, dim=-1)
            rate = self.attention_dropout.p if self.training else 0.0
            return self.output_proj(F.scaled_dot_product_attention(q, k, v, attention_mask != 0, rate))

    assert ids(verdict_on(Answer, "SelfAttentionV3")) == ["not-by-hand"]


@pytest.mark.parametrize(
    "answer",
    [
        lambda scores: torch.softmax(scores, dim=-1),
        lambda scores: scores.softmax(-1),
        lambda scores: F.softmax(scores, dim=-1),
        lambda scores: nn.Softmax(dim=-1)(scores),
        lambda scores: F.log_softmax(scores, dim=-1).exp(),
    ],
    ids=["torch", "method", "functional", "layer", "log"],
)
def test_ready_made_softmax_is_refused_by_name(answer: Callable) -> None:
    assert ids(verdict_on(answer, "softmax")) == ["not-by-hand"]


# ------------------------------------------------------------------------------------------ the verdict


def test_a_right_answer_has_all_points_and_no_finding() -> None:
    verdict = verdict_on(Right)
    assert (verdict.exercise, verdict.status, verdict.passed) == ("SelfAttentionV1", "passed", True)
    assert verdict.points == verdict.max_points > 0
    assert verdict.findings == ()


def test_a_known_mistake_has_its_id_a_message_and_a_hint() -> None:
    verdict = verdict_on(Unscaled)
    assert (verdict.status, verdict.passed, verdict.points) == ("wrong", False, 0)
    (finding,) = verdict.findings
    assert (finding.id, finding.severity) == ("scale-missing", "mistake")
    assert "√d" in finding.message
    assert finding.hint.endswith("?")


def test_the_smallest_failing_case_is_written_out() -> None:
    text = repr(verdict_on(Unscaled))
    assert "yours     [" in text
    assert "expected  [" in text


def test_an_unknown_mistake_is_described_and_given_no_name() -> None:
    verdict = verdict_on(returning(lambda output: output + output.roll(1, dims=0)))
    assert {finding.severity for finding in verdict.findings} == {"observation"}
    assert ids(verdict) == ["samples-mix"]


def test_a_fragile_answer_passes_with_a_note() -> None:
    class Answer(RightV3):
        def hide(self, scores: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
            return scores.masked_fill(mask == 0, -1e9)

    verdict = verdict_on(Answer, "SelfAttentionV3")
    assert verdict.passed
    assert [(finding.id, finding.severity) for finding in verdict.findings] == [("fill-overflows-half", "note")]


def test_a_wrong_mask_leaves_the_points_for_the_formula() -> None:
    class Answer(RightV3):
        def hide(self, scores: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
            return scores.masked_fill(mask != 0, float("-inf"))

    verdict = verdict_on(Answer, "SelfAttentionV3")
    assert verdict.findings[0].id == "mask-inverted"
    assert 0 < verdict.points < verdict.max_points


def test_of_two_mistakes_at_once_one_is_named_at_least() -> None:
    class Answer(Right):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            scores = self.query_proj(x) @ self.query_proj(x).transpose(-2, -1)  # keys from W_q, and no scale
            return torch.softmax(scores, dim=-1) @ self.value_proj(x)

    verdict = verdict_on(Answer)
    assert verdict.status == "wrong"
    assert set(ids(verdict)) & {"k-uses-wq", "scale-missing"}


def test_a_verdict_is_ready_for_json() -> None:
    import json

    data = json.loads(json.dumps(verdict_on(Unscaled).as_dict()))
    assert set(data) == {"exercise", "status", "passed", "points", "max_points", "findings", "details"}
    assert set(data["findings"][0]) == {"id", "message", "hint", "severity"}


def test_wrong_numbers_can_be_drawn() -> None:
    assert isinstance(verdict_on(Unscaled).plot(), Figure)
    assert isinstance(verdict_on(lambda scores: right_softmax(scores.mT).mT, "softmax").plot(), Figure)


@pytest.mark.parametrize("answer", [Right, ForwardStillRaises, TooFew, returning(lambda output: None)],
                         ids=["passed", "not started", "error", "no numbers"])  # fmt: skip
def test_there_is_nothing_to_draw_without_numbers_that_differ(answer: type) -> None:
    with pytest.raises(ValueError, match="nothing to draw"):
        verdict_on(answer).plot()


@pytest.mark.parametrize("answer", [Right, Unscaled, ForwardStillRaises, TooFew, doing(lambda: fail(ValueError("no")))],
                         ids=["passed", "wrong", "not started", "arguments", "raises"])  # fmt: skip
def test_the_text_is_the_same_in_two_runs(answer: type) -> None:
    first, second = verdict_on(answer), verdict_on(answer)
    assert repr(first) == repr(second)
    assert first._repr_html_() == second._repr_html_()


def test_the_text_holds_no_addresses() -> None:
    verdict = verdict_on(doing(lambda: fail(ValueError(f"cannot use {object()}"))))
    assert "cannot use" in repr(verdict)
    assert "0x" not in repr(verdict)


def test_no_text_is_longer_than_a_screen() -> None:
    class ManyThingsWrong(RightV3):
        def forward(self, x: torch.Tensor, attention_mask: torch.Tensor | None = None) -> torch.Tensor:
            x[:, 0] = 0
            return x.flip(0) * torch.rand(()) if attention_mask is None else x

    for verdict in (
        verdict_on(ManyThingsWrong, "SelfAttentionV3"),
        verdict_on(doing(lambda: fail(ValueError("very long " * 10_000)))),
        verdict_on(doing(lambda: fail(ValueError("\n" * 10_000)))),
    ):
        assert len(repr(verdict).splitlines()) <= 24
        assert len(repr(verdict)) <= 2_000


def test_html_in_a_message_is_text() -> None:
    html = verdict_on(doing(lambda: fail(ValueError("<script>alert(1)</script> & `<b>`"))))._repr_html_()
    assert "<script>" not in html
    assert "<b>" not in html
    assert "&lt;script&gt;" in html


def test_curly_brackets_in_a_message_are_text() -> None:
    assert "{name} {0} {" in repr(verdict_on(doing(lambda: fail(ValueError("{name} {0} {")))))


def test_an_unknown_exercise_is_told_with_its_neighbours() -> None:
    with pytest.raises(KeyError, match="SelfAttentionV1"):
        check_answer(Right, "SelfAttentionV4")


def test_the_book_is_not_changed_by_a_check() -> None:
    book = answer_book()
    before = {case: array.copy() for case, array in book.right["SelfAttentionV1"].items()}
    verdict_on(Unscaled).comparisons[0].yours.fill(0)
    verdict_on(returning(lambda output: output.zero_()))
    for case, array in before.items():
        assert np.array_equal(book.right["SelfAttentionV1"][case], array, equal_nan=True)


# ------------------------------------------------------------------------------------------ strict checks


@pytest.fixture
def _strict(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CHECK_STRICT", "1")
    monkeypatch.setenv("ATTENTION_PROGRESS", "off")


@pytest.mark.usefixtures("_strict")
@pytest.mark.parametrize("answer", [Unscaled, ForwardStillRaises, TooFew])
def test_a_strict_check_raises_the_verdict(answer: type) -> None:
    with pytest.raises(AssertionError) as raised:
        helpers.check(answer, exercise="SelfAttentionV1")
    assert str(raised.value) == repr(verdict_on(answer))


@pytest.mark.usefixtures("_strict")
def test_a_strict_check_of_a_right_answer_returns_the_verdict() -> None:
    assert helpers.check(Right, exercise="SelfAttentionV1").passed

"""The measurements: they count what is known by hand, and refuse what they cannot measure."""

import subprocess
import sys

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from helpers import bench
from helpers.bench import measure

B, L, D, H = 2, 5, 12, 3


@pytest.fixture
def x() -> torch.Tensor:
    return torch.randn(B, L, D, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize("bias", [True, False])
def test_a_linear_layer_is_one_launch(x, bias):
    layer = nn.Linear(D, 7, bias=bias)
    assert bench.launches(lambda: layer(x)) == 1


def test_three_layers_are_three_launches(x):
    layers = [nn.Linear(D, D) for _ in range(3)]
    assert bench.launches(lambda: [layer(x) for layer in layers]) == 3


def test_the_backward_pass_adds_two_launches_per_layer(x):
    layer = nn.Linear(D, D)
    x.requires_grad_()
    assert bench.launches(lambda: layer(x).sum().backward()) == 3


def test_both_products_of_attention_are_launches(x):
    assert bench.launches(lambda: (x @ x.transpose(-2, -1)).softmax(-1) @ x) == 2


def test_fused_attention_is_one_launch_there_and_one_back():
    q = torch.randn(B, H, L, 4, generator=torch.Generator().manual_seed(0), requires_grad=True)
    assert bench.launches(lambda: F.scaled_dot_product_attention(q, q, q)) == 1
    assert bench.launches(lambda: F.scaled_dot_product_attention(q, q, q).sum().backward()) == 2


def test_what_multiplies_no_matrices_has_no_launches(x):
    assert bench.launches(lambda: x.softmax(-1) + x * x) == 0
    assert bench.flops(lambda: x.softmax(-1) + x * x) == 0


def test_flops_are_two_per_multiply_add(x):
    layer = nn.Linear(D, 7)
    assert bench.flops(lambda: layer(x)) == 2 * B * L * D * 7


def test_flops_of_fused_attention_equal_those_of_the_two_products():
    q = torch.randn(B, H, L, 4, generator=torch.Generator().manual_seed(0))
    k = torch.randn(B, H, L + 2, 4, generator=torch.Generator().manual_seed(1))
    by_hand = bench.flops(lambda: (q @ k.transpose(-2, -1)).softmax(-1) @ k)
    assert by_hand == 4 * B * H * L * (L + 2) * 4
    assert bench.flops(lambda: F.scaled_dot_product_attention(q, k, k)) == by_hand


def test_flops_of_fused_attention_backward_are_counted():
    q = torch.randn(B, H, L, 4, generator=torch.Generator().manual_seed(0), requires_grad=True)
    forward = 4 * B * H * L * L * 4
    both = bench.flops(lambda: F.scaled_dot_product_attention(q, q, q).sum().backward())
    assert both == forward + forward * 5 // 2  # five products on the way back: the scores once more


def test_flops_of_multihead_attention_do_not_depend_on_its_fast_path(x):
    mha = nn.MultiheadAttention(D, H, batch_first=True).eval()
    expected = 8 * B * L * D * D + 4 * B * L * L * D
    with torch.no_grad():
        assert bench.flops(lambda: mha(x, x, x, need_weights=False)) == expected
    assert torch.backends.mha.get_fastpath_enabled()


def test_the_fast_path_comes_back_after_an_error():
    with pytest.raises(ZeroDivisionError):
        bench.flops(lambda: 1 / 0)
    assert torch.backends.mha.get_fastpath_enabled()


def test_peak_memory_counts_what_is_held_at_the_same_time():
    def one_after_the_other() -> None:
        for _ in range(3):
            torch.zeros(1000)  # freed at once

    def together() -> list[torch.Tensor]:
        return [torch.zeros(1000) for _ in range(3)]

    assert bench.peak_memory(one_after_the_other) == 4000
    assert bench.peak_memory(together) == 12_000


def test_peak_memory_sees_what_lives_only_inside():
    assert 8000 <= bench.peak_memory(lambda: (torch.zeros(1000) + 1).sum()) < 8200


def test_peak_memory_on_mps_is_the_growth_after_any_operator(monkeypatch):
    held = iter([100, 300, 900, 500])
    monkeypatch.setattr(torch.mps, "current_allocated_memory", lambda: next(held))
    one = torch.ones(3)
    assert measure._peak_on_mps(lambda: ((one + 1) * 2).sum()) == 800


def test_peak_memory_on_cuda_is_the_peak_above_what_was_held(monkeypatch):
    said = []
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: said.append("wait"))
    monkeypatch.setattr(torch.cuda, "memory_allocated", lambda: 1000)
    monkeypatch.setattr(torch.cuda, "reset_peak_memory_stats", lambda: said.append("reset"))
    monkeypatch.setattr(torch.cuda, "max_memory_allocated", lambda: 5000)
    assert bench.peak_memory(lambda: said.append("call")) == 4000
    assert said == ["call", "wait", "reset", "call", "wait"]  # warm-up first, then a clean slate


def test_a_timing_is_ordered_and_positive(x):
    timing = bench.time_of(lambda: x @ x.transpose(-2, -1), min_run_time=0.01)
    assert 0 < timing.low <= timing.median <= timing.high


def test_a_slow_call_is_sampled_often_enough_to_have_a_spread():
    calls = []
    bench.time_of(lambda: calls.append(sum(range(100_000))), min_run_time=1e-6)
    assert len(calls) >= 1 + measure.FEWEST_SAMPLES


def test_functions_take_turns():
    order = []
    fns = {name: lambda name=name: order.append(name) or sum(range(50_000)) for name in "ab"}
    timings = bench.times_of(fns, rounds=3, min_run_time=0.03)
    assert list(timings) == ["a", "b"]
    turns = [name for name, before in zip(order[2:], ["", *order[2:]], strict=False) if name != before]
    assert turns == ["a", "b"] * 3


@pytest.mark.parametrize("rounds", [0, -1])
def test_no_rounds_are_refused(rounds):
    with pytest.raises(ValueError, match="at least 1 round"):
        bench.times_of({"a": lambda: None}, rounds=rounds)


def test_an_accelerator_is_waited_for(monkeypatch):
    waits = []
    monkeypatch.setattr(torch.accelerator, "is_available", lambda: True)
    monkeypatch.setattr(torch.accelerator, "synchronize", lambda: waits.append(1))
    bench.time_of(lambda: sum(range(100)), min_run_time=0.001)
    assert waits


def test_timing_uses_the_threads_that_torch_uses():
    seen = []
    bench.time_of(lambda: seen.append(torch.get_num_threads()), min_run_time=0.001)
    assert set(seen) == {torch.get_num_threads()}


def test_the_device_is_one_that_works():
    assert torch.ones(2, device=bench.device()).sum().item() == 2


def test_the_machine_is_one_line_with_version_and_threads():
    line = bench.machine()
    assert "\n" not in line
    assert f"torch {torch.__version__}" in line
    assert f"threads: {torch.get_num_threads()}" in line


@pytest.mark.parametrize("function", [bench.time_of, bench.launches, bench.flops, bench.peak_memory])
def test_a_result_instead_of_a_function_is_refused_in_words(function, x):
    with pytest.raises(TypeError, match=r"lambda: layer\(x\)"):
        function(x)


@pytest.mark.parametrize("seconds", [0, -1.0, float("nan")])
def test_a_time_that_is_not_positive_is_refused(seconds):
    with pytest.raises(ValueError, match="seconds above 0"):
        bench.time_of(lambda: None, min_run_time=seconds)


def test_nothing_is_printed(x, capfd):
    layer = nn.Linear(D, D)
    for function in (bench.launches, bench.flops, bench.peak_memory):
        function(lambda: layer(x))
    assert capfd.readouterr() == ("", "")


def test_the_package_is_loaded_only_when_used():
    program = "import sys, helpers.bench; assert 'torch' not in sys.modules; helpers.bench.device"
    subprocess.run([sys.executable, "-c", program], check=True)
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        bench.nonsense  # noqa: B018

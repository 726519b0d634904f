"""Measure one piece of code on whatever device is there: time, matmul launches, FLOPs, peak memory.

`fn` is a callable without arguments. It is called several times, and what it returns is thrown away.
"""

from __future__ import annotations

import os
import platform
import statistics
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch.profiler import ProfilerActivity, profile
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.benchmark import Timer
from torch.utils.flop_counter import FlopCounterMode, sdpa_backward_flop_count, sdpa_flop_count

Fn = Callable[[], Any]

FEWEST_SAMPLES = 5  # below this, quartiles say nothing about the spread

MATMULS = frozenset(
    f"aten::{name}"
    for name in ("mm", "addmm", "bmm", "baddbmm", "addbmm", "mv", "addmv", "dot", "linear", "linear_backward")
)
FUSED_ATTENTION = "aten::_scaled_dot_product"


@dataclass(frozen=True)
class Timing:
    """Seconds for one call: the median, and the quartiles around it.

    A quarter of the samples lie below `low`, a quarter above `high`.
    """

    median: float
    low: float
    high: float


def device() -> torch.device:
    """The best device of this machine: its accelerator (CUDA, MPS, XPU …) if one is there, else the CPU."""
    return torch.accelerator.current_accelerator(check_available=True) or torch.device("cpu")


def time_of(fn: Fn, *, min_run_time: float = 0.2) -> Timing:
    """Time one call of `fn`, after a warm-up, with the threads that torch uses now.

    The samples come from `torch.utils.benchmark.Timer.blocked_autorange`: blocks of calls, long enough that
    reading the clock costs nothing. An accelerator (CUDA, MPS …) is waited for before the clock is read.

    min_run_time: seconds to spend on samples, more if there are fewer than five after that.
    returns: seconds for one call.
    raises: TypeError when `fn` is not callable, ValueError when `min_run_time` is not positive.
    """
    return times_of({"fn": fn}, rounds=1, min_run_time=min_run_time)["fn"]


def times_of(fns: Mapping[str, Fn], *, rounds: int = 3, min_run_time: float = 0.2) -> dict[str, Timing]:
    """Time several functions in turns, so that a slow moment of the machine hits them all.

    fns: label → function; each is timed like in `time_of`, its samples are spread over the rounds.
    rounds: how often each has its turn.
    min_run_time: seconds of samples for each function, all rounds together.
    returns: label → seconds for one call.
    raises: TypeError when one is not callable, ValueError when `rounds` or `min_run_time` is not positive.
    """
    for fn in fns.values():
        _require_callable(fn)
    if rounds < 1 or not min_run_time > 0:
        raise ValueError(f"Give at least 1 round and a number of seconds above 0, not {rounds!r} and {min_run_time!r}.")
    for fn in fns.values():
        fn()  # the first call pays for lazy set-up
    # Timer uses a single thread unless it is told otherwise: that is not what the learner's code does.
    timers = {
        label: Timer("fn()", globals={"fn": fn}, num_threads=torch.get_num_threads()) for label, fn in fns.items()
    }
    samples: dict[str, list[float]] = {label: [] for label in fns}
    for _ in range(rounds):
        for label, timer in timers.items():
            samples[label] += _samples(timer, min_run_time / rounds, FEWEST_SAMPLES / rounds)
    return {label: _summary(values) for label, values in samples.items()}


def _samples(timer: Timer, seconds: float, fewest: float) -> list[float]:
    samples: list[float] = []
    while len(samples) < fewest:
        samples += timer.blocked_autorange(min_run_time=seconds).times
    return samples


def _summary(samples: list[float]) -> Timing:
    low, median, high = statistics.quantiles(samples, n=4, method="inclusive")
    return Timing(median, low, high)


def launches(fn: Fn) -> int:
    """Count the matrix products that one call of `fn` starts, backward passes included.

    `torch.profiler` sees each operator call; those of `MATMULS` count, and a fused attention operator as one.
    Where one of them calls another (`linear` calls `addmm`) only the innermost counts. These are calls made
    on the CPU side: a library may still cut one of them into several kernels on the device.

    raises: TypeError when `fn` is not callable.
    """
    _require_callable(fn)
    fn()
    events = _profiled(fn).events() or ()
    return sum(_is_matmul(event) and not _holds_matmul(event) for event in events)


def _profiled(fn: Fn, *, memory: bool = False) -> profile:
    """Run `fn` once under the profiler."""
    # The tracing library below writes to stderr at every start unless its log level is this high.
    os.environ.setdefault("KINETO_LOG_LEVEL", "6")
    with profile(activities=[ProfilerActivity.CPU], profile_memory=memory) as profiler:
        result = fn()  # kept, so that what fn returns counts as held until the end
    del result
    return profiler


def _is_matmul(event: Any) -> bool:
    return event.name in MATMULS or event.name.startswith(FUSED_ATTENTION)


def _holds_matmul(event: Any) -> bool:
    return any(_is_matmul(child) or _holds_matmul(child) for child in event.cpu_children)


def flops(fn: Fn) -> int:
    """Count the floating-point operations of the matrix products in one call of `fn`, two per multiply-add.

    Counted by `torch.utils.flop_counter`, which leaves out all that is no matrix product (softmax, bias).
    It knows neither the CPU's fused attention nor the inference path of `nn.MultiheadAttention`: the first
    is added here with the counter's own formulas, the second is switched off while counting.

    raises: TypeError when `fn` is not callable.
    """
    _require_callable(fn)
    fast_path = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        with FlopCounterMode(display=False, custom_mapping=_cpu_attention()) as counter:
            fn()
    finally:
        torch.backends.mha.set_fastpath_enabled(fast_path)
    return int(counter.get_total_flops())


def _cpu_attention() -> dict[Any, Callable[..., int]]:
    """FLOPs of the CPU's fused attention, forward and backward, from the shapes of its inputs."""

    def forward(q: Any, k: Any, v: Any, *args: Any, **kwargs: Any) -> int:
        return int(sdpa_flop_count(q, k, v))

    def backward(grad: Any, q: Any, k: Any, v: Any, *args: Any, **kwargs: Any) -> int:
        return int(sdpa_backward_flop_count(grad, q, k, v))

    aten = torch.ops.aten
    return {
        aten._scaled_dot_product_flash_attention_for_cpu: forward,
        aten._scaled_dot_product_flash_attention_for_cpu_backward: backward,
    }


def peak_memory(fn: Fn) -> int:
    """The most memory that one call of `fn` holds at a time, with its result, beyond what was held before.

    Reported is the first device on which `fn` allocates anything. CUDA: `torch.cuda.max_memory_allocated`.
    MPS: read after every operator, as it keeps no peak of its own. CPU: the peak of the running sum of all
    allocations that the profiler records; what is freed counts negative. One call goes first as a warm-up.

    returns: bytes.
    raises: TypeError when `fn` is not callable.
    """
    _require_callable(fn)
    fn()
    if torch.cuda.is_available() and (peak := _peak_on_cuda(fn)):
        return peak
    if torch.backends.mps.is_available() and (peak := _peak_on_mps(fn)):
        return peak
    return _peak_on_cpu(fn)


def _peak_on_cuda(fn: Fn) -> int:
    torch.cuda.synchronize()
    before = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    fn()
    torch.cuda.synchronize()
    return torch.cuda.max_memory_allocated() - before


class _MpsPeak(TorchDispatchMode):
    """Remembers the most memory that MPS held after any operator."""

    def __init__(self) -> None:
        super().__init__()
        self.start = self.peak = torch.mps.current_allocated_memory()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        self.peak = max(self.peak, torch.mps.current_allocated_memory())
        return result


def _peak_on_mps(fn: Fn) -> int:
    with _MpsPeak() as watch:
        fn()
    return watch.peak - watch.start


def _peak_on_cpu(fn: Fn) -> int:
    profiler = _profiled(fn, memory=True).profiler
    assert profiler is not None
    assert profiler.kineto_results is not None
    records: list[Any] = profiler.kineto_results.events()
    events = [record for record in records if record.name() == "[memory]"]
    held = peak = 0
    for event in sorted(events, key=lambda event: event.start_ns()):
        held += event.nbytes()
        peak = max(peak, held)
    return peak


def machine() -> str:
    """One line that says where numbers were measured: processor, cores, accelerator, torch, threads."""
    parts = [_processor(), f"cores: {_cores()}"]
    if torch.cuda.is_available():
        parts.append(torch.cuda.get_device_name())
    elif device().type != "cpu":
        parts.append(device().type)
    parts += [f"torch {torch.__version__}", f"threads: {torch.get_num_threads()}"]
    return " · ".join(parts)


def _processor() -> str:
    """The processor's name as the system gives it, else its architecture."""
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        for line in cpuinfo.read_text(errors="replace").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    if platform.system() == "Darwin":
        command = ["sysctl", "-n", "machdep.cpu.brand_string"]
        name = subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()
        if name:
            return name
    return platform.processor() or platform.machine()


def _cores() -> int:
    """The cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _require_callable(fn: object) -> None:
    if not callable(fn):
        kind = type(fn).__name__
        raise TypeError(f"Hand over a function to call, such as `lambda: layer(x)`, not a {kind}.")

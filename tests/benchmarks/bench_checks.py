"""Measures what a check costs: `python tests/benchmarks/bench_checks.py`. For maintainers; nothing here is a test.

Prints for every exercise the time of a check in a warm kernel and its ratio to running the answer alone on the same
probes; then what `import helpers` costs against `import torch`, and the size of the answer book.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from helpers.bench.measure import machine
from helpers.course import EXERCISES
from helpers.judge import check_answer, function_probes, probes
from helpers.judge.answer_book import FOLDER
from helpers.judge.record import solution

_WARM_UP, _CHECKS, _IMPORTS = 5, 40, 9


def quartiles(run: Callable[[], Any], count: int) -> tuple[float, float, float]:
    """Lower quartile, median and upper quartile of the time of `count` runs, in milliseconds."""
    times = []
    for _ in range(count):
        start = time.perf_counter()
        run()
        times.append(1e3 * (time.perf_counter() - start))
    low, median, high = np.quantile(times, (0.25, 0.5, 0.75))
    return float(low), float(median), float(high)


def alone(exercise: str) -> Callable[[], Any]:
    """One forward pass of the answer on each of the probes, with everything built beforehand."""
    answer = solution(exercise)
    if exercise not in probes.CLASSES:
        calls = [(call.make(), dict(call.keywords)) for call in function_probes.FUNCTION_CALLS[exercise]]
        return lambda: [answer(*arguments, **keywords) for arguments, keywords in calls]
    cases = probes.class_cases(exercise)
    sizes = {(case.d, case.h) for case in cases}
    of_heads = exercise == "MultiHeadAttention"
    modules = {(d, h): (answer(d, h) if of_heads else answer(d)).eval() for d, h in sizes}

    def run() -> None:
        with torch.no_grad():
            for case in cases:
                modules[case.d, case.h](*case.inputs, *(() if case.mask is None else (case.mask,)))

    return run


def bench_exercise(exercise: str) -> tuple[float, float, float, float]:
    """Quartiles of a check, and the median of the answer alone, in milliseconds."""
    answer, forward = solution(exercise), alone(exercise)

    def check() -> None:
        check_answer(answer, exercise)

    if not check_answer(answer, exercise).passed:
        raise SystemExit(f"The solution of {exercise} does not pass: record the answer book again with `make book`.")
    for _ in range(_WARM_UP):
        check()
        forward()
    return *quartiles(check, _CHECKS), quartiles(forward, _CHECKS)[1]


def import_time(code: str) -> tuple[float, float, float]:
    """Quartiles of a fresh process that runs `code`, in milliseconds."""
    run = [sys.executable, "-c", code]
    subprocess.run(run, check=True)  # files are read from disk once
    return quartiles(lambda: subprocess.run(run, check=True), _IMPORTS)


def main() -> None:
    print(machine())
    print(f"{torch.get_num_threads()} threads of torch, {_CHECKS} checks of each exercise, times in milliseconds\n")
    print(f"{'exercise':24}{'median':>8}{'quartiles':>16}{'alone':>9}{'ratio':>8}")
    medians = []
    for exercise in (e.name for e in EXERCISES):
        low, median, high, forward = bench_exercise(exercise)
        medians.append(median)
        spread = f"{low:.1f} – {high:.1f}"
        print(f"{exercise:24}{median:8.1f}{spread:>16}{forward:9.2f}{median / forward:8.1f}", flush=True)
    print(f"\n{'median of all':24}{np.median(medians):8.1f}\n{'slowest':24}{max(medians):8.1f}\n")
    empty = import_time("pass")[1]
    results = {name: import_time(f"import {name}") for name in ("torch", "helpers", "helpers.judge.observe")}
    for name, (low, median, high) in results.items():
        spread = f"{low - empty:.0f} – {high - empty:.0f}"
        print(f"{f'import {name}':30}{median - empty:8.0f}{spread:>16}")
    size = sum(file.stat().st_size for file in FOLDER.iterdir())
    print(f"\nanswer book: {size / 1e6:.2f} MB")


if __name__ == "__main__":
    main()

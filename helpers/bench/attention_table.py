"""The missing table: one attention layer in five ways, with the same weights, measured on this machine."""

from __future__ import annotations

import json
import statistics
from collections.abc import Callable
from dataclasses import asdict, dataclass
from html import escape
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import nn
from torch.utils.benchmark import timer

from helpers.bench import measure
from helpers.bench.attention_layers import FOUR, Build, layers

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FORWARD, BOTH = "forward", "forward + backward"
MIB = 2**20
BLOCK = 0.002  # seconds: fast layers run several times between two readings of the clock
FEWEST, MOST = 5, 50  # rounds: so many samples stand behind every median
TOLERANCE = 1e-5  # in float32 on the CPU; an accelerator adds in another order and is given ten times as much

Progress = Callable[[int, int, str], None]


@dataclass(frozen=True)
class Grid:
    """What is measured: every length with `h` heads, and every number of heads at `length`.

    lengths, heads: the two walks; length, h: what stays fixed on the other walk.
    batch, d_model: the other sizes of x (B, L, d_model).
    device: "cpu", "cuda", "mps"; None for the best one that is there.
    seconds: how long each point is timed, all layers together; slow machines take longer, for FEWEST rounds.
    """

    lengths: tuple[int, ...]
    heads: tuple[int, ...]
    length: int
    h: int
    d_model: int
    batch: int
    device: str | None = None
    seconds: float = 2.0

    def points(self) -> list[tuple[int, int]]:
        """(length, heads) of every point, each once. Raises ValueError for a grid that cannot be measured."""
        sizes = (*self.lengths, *self.heads, self.length, self.h, self.d_model, self.batch)
        if min(sizes) < 1:
            raise ValueError(f"Every size of the grid must be at least 1, not {min(sizes)}.")
        for h in (*self.heads, self.h):
            if self.d_model % h:
                raise ValueError(f"{h} heads do not divide d_model = {self.d_model}.")
        walks = [(length, self.h) for length in self.lengths] + [(self.length, h) for h in self.heads]
        return list(dict.fromkeys(walks))


SMALL = Grid(lengths=(32, 128, 512), heads=(1, 4, 16), length=128, h=4, d_model=256, batch=1, seconds=1.5)
LARGE = Grid(
    lengths=(32, 64, 128, 256, 512, 1024),
    heads=(1, 2, 4, 8, 12, 24, 48),
    length=128,
    h=12,
    d_model=768,
    batch=4,
    seconds=10.0,
)


@dataclass(frozen=True)
class Measurement:
    """One line of the table.

    seconds: median and quartiles over the rounds.
    memory: peak in bytes; launches: matrix products started.
    parameters: how many numbers the layer holds; pieces: in how many separate tensors.
    """

    layer: str
    direction: str
    length: int
    h: int
    seconds: measure.Timing
    memory: int
    launches: int
    parameters: int
    pieces: int


@dataclass(frozen=True, repr=False)
class Results:
    """What `run` found. largest_difference: of any output or gradient of x from that of four linears."""

    machine: str
    device: str
    grid: Grid
    largest_difference: float
    lines: tuple[Measurement, ...]

    def as_json(self) -> dict[str, Any]:
        """Everything as JSON-ready data; times in seconds, memory in bytes."""
        return asdict(self)

    def table(self) -> Table:
        """One row for each point and layer, as texts; where a cell has two numbers, forward comes first."""
        points: dict[tuple[int, int, str], list[Measurement]] = {}
        for line in self.lines:
            points.setdefault((line.length, line.h, line.layer), []).append(line)
        return Table(_row(*both) for both in points.values())

    def sentences(self) -> list[str]:
        """What this machine saw, also where the claim "one layer per head is slower" fails."""
        from helpers.bench import attention_words

        return attention_words.sentences(self)

    def walk(self, over: str, direction: str) -> tuple[list[int], dict[str, list[Measurement]]]:
        """One walk through the grid, over "length" or "heads": its x values, and the lines of each layer."""
        by_length = over == "length"
        xs = sorted(set(self.grid.lengths if by_length else self.grid.heads))
        found = {(m.layer, m.length, m.h): m for m in self.lines if m.direction == direction}
        labels = dict.fromkeys(line.layer for line in self.lines)
        at = [(x, self.grid.h) if by_length else (self.grid.length, x) for x in xs]
        return xs, {label: [found[(label, *point)] for point in at] for label in labels}

    def plot(self, over: str = "length", direction: str = FORWARD, what: str = "time") -> Figure:
        """Draw one walk: what "time" (milliseconds, with quartiles) or "memory" (MiB)."""
        from helpers import plots

        xs, walk = self.walk(over, direction)
        if what == "memory":
            series = {label: [m.memory / MIB for m in ms] for label, ms in walk.items()}
            spread = None
        else:
            series = {label: [1e3 * m.seconds.median for m in ms] for label, ms in walk.items()}
            spread = {
                label: ([1e3 * m.seconds.low for m in ms], [1e3 * m.seconds.high for m in ms])
                for label, ms in walk.items()
            }
        fixed = f"{self.grid.h} heads" if over == "length" else f"length {self.grid.length}"
        return plots.curves(
            xs,
            series,
            x_label="length L" if over == "length" else "heads h",
            y_label="peak memory in MiB" if what == "memory" else "milliseconds",
            spread=spread,
            log_x=True,
            log_y=True,
            title=f"{direction}, d_model {self.grid.d_model}, {fixed}",
        )

    def __repr__(self) -> str:
        return "\n".join(self.sentences())

    def _repr_html_(self) -> str:
        return "<ul>" + "".join(f"<li>{escape(sentence)}</li>" for sentence in self.sentences()) + "</ul>"


def run(grid: Grid, *, progress: Progress | None = None, yours: Build | None = None) -> Results:
    """Measure every layer at every point of the grid, forward and forward + backward, float32.

    First the layers must agree: their outputs and the gradients of x are compared before any clock starts.

    progress: called as progress(done, total, sentence) after each point.
    yours: the learner's class, called as yours(d_model, h), measured beside the five.
    raises: ValueError for a grid that cannot be measured, an unknown device, or a class without wq, wk,
        wv and wo; AssertionError when a layer's numbers differ from those of the others.
    """
    points = grid.points()
    device = _device(grid.device)
    lines: list[Measurement] = []
    worst = 0.0
    for done, (length, h) in enumerate(points, start=1):
        at_point = {label: layer.eval().to(device) for label, layer in layers(grid.d_model, h, yours=yours).items()}
        draw = torch.Generator().manual_seed(0)
        x = torch.randn(grid.batch, length, grid.d_model, generator=draw).to(device)  # (B, L, d_model)
        worst = max(worst, _agree(at_point, x))
        jobs = [job for label, layer in at_point.items() for job in _jobs(label, layer, x)]
        times = _take_turns([job.fn for job in jobs], grid.seconds)
        lines += [_line(job, length, h, seconds) for job, seconds in zip(jobs, times, strict=True)]
        if progress:
            progress(done, len(points), f"L = {length}, h = {h}")
    return Results(measure.machine(), str(device), grid, worst, tuple(lines))


def _device(name: str | None) -> torch.device:
    if name is None:
        return measure.device()
    try:
        torch.zeros(1, device=name).item()
    except (RuntimeError, AssertionError) as error:
        raise ValueError(f'This machine cannot measure on "{name}". Its best device is {measure.device()}.') from error
    return torch.device(name)


def _agree(at_point: dict[str, nn.Module], x: torch.Tensor) -> float:
    """The largest difference from four linears. Raises AssertionError where it is too large."""
    tolerance = TOLERANCE if x.device.type == "cpu" else 10 * TOLERANCE
    seen = {}
    for label, layer in at_point.items():
        with torch.no_grad():
            quick = layer(x)  # (B, L, d_model), as `forward` will be timed
        source = x.clone().requires_grad_()
        output = layer(source)  # as `forward + backward` will be timed
        (gradient,) = torch.autograd.grad(output, source, grad_outputs=x)  # (B, L, d_model)
        seen[label] = (quick, output.detach(), gradient)
    worst = 0.0
    for label, numbers in seen.items():
        difference = max((a - b).abs().max().item() for a, b in zip(numbers, seen[FOUR], strict=True))
        if not difference <= tolerance:  # so that NaN counts as a difference
            raise AssertionError(f"{label} differs from {FOUR} by {difference:.1e}, so it was not timed.")
        worst = max(worst, difference)
    return worst


@dataclass(frozen=True)
class _Job:
    """One layer in one direction, ready to be measured."""

    label: str
    direction: str
    layer: nn.Module
    fn: Callable[[], object]


def _jobs(label: str, layer: nn.Module, x: torch.Tensor) -> list[_Job]:
    def forward() -> torch.Tensor:
        with torch.no_grad():
            return layer(x)

    def both() -> None:
        layer(x).sum().backward()
        layer.zero_grad(set_to_none=True)  # every call starts and ends without gradients

    return [_Job(label, FORWARD, layer, forward), _Job(label, BOTH, layer, both)]


def _take_turns(fns: list[Callable[[], object]], seconds: float) -> list[measure.Timing]:
    """Time the functions in turns, one block each, so that a busy moment of the machine does not fall on one alone.

    The clock is that of torch.utils.benchmark: it waits for the accelerator, if there is one.
    """
    counts = []
    for fn in fns:
        fn()  # the first call pays for lazy set-up
        counts.append(max(1, round(BLOCK / _block(fn, 1))))
    samples: list[list[float]] = [[] for _ in fns]
    start = timer()
    for done in range(MOST):
        if done >= FEWEST and timer() - start > seconds:
            break
        for fn, count, seen in zip(fns, counts, samples, strict=True):
            seen.append(_block(fn, count))
    return [_timing(seen) for seen in samples]


def _block(fn: Callable[[], object], count: int) -> float:
    """Seconds for one call, averaged over `count` calls in a row."""
    start = timer()
    for _ in range(count):
        fn()
    return (timer() - start) / count


def _timing(samples: list[float]) -> measure.Timing:
    low, median, high = statistics.quantiles(samples, n=4, method="inclusive")
    return measure.Timing(median, low, high)


def _line(job: _Job, length: int, h: int, seconds: measure.Timing) -> Measurement:
    parameters = list(job.layer.parameters())
    return Measurement(
        layer=job.label,
        direction=job.direction,
        length=length,
        h=h,
        seconds=seconds,
        memory=measure.peak_memory(job.fn),
        launches=measure.launches(job.fn),
        parameters=sum(p.numel() for p in parameters),
        pieces=len(parameters),
    )


class Table(list[dict[str, str]]):
    """Rows that show themselves as a table in a notebook; every row has the same columns, in one order."""

    def _repr_html_(self) -> str:
        head = "".join(f"<th>{escape(name)}</th>" for name in (self[0] if self else ()))
        rows = (
            "".join(f'<td style="white-space: nowrap">{escape(cell)}</td>' for cell in row.values()) for row in self
        )
        body = "".join(f"<tr>{row}</tr>" for row in rows)
        return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _row(forward: Measurement, both: Measurement) -> dict[str, str]:
    return {
        "L": str(forward.length),
        "h": str(forward.h),
        "layer": forward.layer,
        "forward ms": _milliseconds(forward.seconds),
        "forward + backward ms": _milliseconds(both.seconds),
        "peak MiB": f"{forward.memory / MIB:.1f} · {both.memory / MIB:.1f}",
        "matmuls": f"{forward.launches} · {both.launches}",
        "parameters": f"{forward.parameters:,}",
        "tensors": str(forward.pieces),
    }


def _milliseconds(seconds: measure.Timing) -> str:
    """The median, then the quartiles."""
    low, median, high = (1e3 * value for value in (seconds.low, seconds.median, seconds.high))
    return f"{median:#.3g} ({low:#.3g} to {high:#.3g})"


def save(results: Results, folder: Path) -> list[Path]:
    """Write attention.json and one PNG for each curve into `folder`, which is made if needed.

    returns: the files written. raises: OSError when the folder cannot be written.
    """
    folder.mkdir(parents=True, exist_ok=True)
    files = [folder / "attention.json"]
    files[0].write_text(json.dumps(results.as_json(), indent=1) + "\n", encoding="utf-8")
    for what, over, direction in product(("time", "memory"), ("length", "heads"), (FORWARD, BOTH)):
        files.append(folder / f"{what}-over-{over}-{direction.replace(' + ', '-')}.png")
        results.plot(over, direction, what).savefig(files[-1])
    return files

"""What the missing table saw, in whole sentences: also where a claim of the sources fails on this machine."""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from typing import TYPE_CHECKING

from helpers.bench.attention_layers import FOUR, LIBRARY, LOOP, SDPA, YOURS

if TYPE_CHECKING:
    from helpers.bench.attention_table import Measurement, Results

MIB = 2**20
STEADY = 2.0  # a quiet machine stays below this ratio of upper to lower quartile

MACHINE = "Measured on {machine}; device {device}, float32, batch {batch}, d_model {d_model}."
BUSY = (
    "The machine was busy: the upper quartile of a time is {factor:.1f} times the lower one (median over the table). "
    "So no times are compared here. Close other programs and run it again."
)
SAME = (
    "Before any clock started, all layers gave the same outputs and gradients: the largest difference was {worst:.0e}."
)
PARAMETERS = (
    "With h = {h} every layer holds {parameters:,} parameters: the loop keeps them in {loop} tensors, "
    "four linears in {four}."
)
LAUNCHES = "With h = {h} one forward pass starts {loop} matrix products in the loop and {four} with four linears."
ALL_SLOWER = (
    "Time, {direction}: the loop was slower than four linears at all {points} points. "
    "It took {least:.2f} to {most:.2f} times as long."
)
SOME_SLOWER = "Time, {direction}: the loop was slower than four linears at {slower} of {points} points."
FASTER = (
    "The claim fails at L = {length}, h = {h}, {direction}: the loop was faster. "
    "It took {ratio:.2f} times as long as four linears."
)
UNDECIDED = (
    "The claim is not shown at L = {length}, h = {h}, {direction}: the quartiles overlap. "
    "The loop took {ratio:.2f} times as long as four linears."
)
LESS_MEMORY = (
    "Peak memory at L = {length}, h = {h}, {direction}: the loop held less than four linears, "
    "{loop:.1f} MiB against {four:.1f} MiB. F.scaled_dot_product_attention held {sdpa:.1f} MiB."
)
MORE_MEMORY = (
    "Peak memory at L = {length}, h = {h}, {direction}: the loop held no less than four linears, "
    "{loop:.1f} MiB against {four:.1f} MiB. F.scaled_dot_product_attention held {sdpa:.1f} MiB."
)
RANKING = (
    "Time at L = {length}, h = {h}, {direction}: fastest was {fastest} with {low:.2f} ms, "
    "slowest was {slowest} with {high:.2f} ms."
)
YOUR_TIME = (
    "Time, {direction}: your MultiHeadAttention took {least:.2f} to {most:.2f} times as long as nn.MultiheadAttention."
)

Point = dict[str, "Measurement"]  # one point of the grid in one direction: layer → its line


def sentences(results: Results) -> list[str]:
    """The sentences in reading order: machine, equality, sizes, memory, times. A busy machine compares no times."""
    grid = results.grid
    factor = statistics.median(line.seconds.high / line.seconds.low for line in results.lines)
    said = [
        MACHINE.format(machine=results.machine, device=results.device, batch=grid.batch, d_model=grid.d_model),
        SAME.format(worst=results.largest_difference),
        *_sizes(results),
    ]
    directions = _directions(results)
    said += [_memory(direction, _longest(points)) for direction, points in directions.items()]
    if factor > STEADY:
        return [*said, BUSY.format(factor=factor)]
    return said + [sentence for direction, points in directions.items() for sentence in _times(direction, points)]


def _directions(results: Results) -> dict[str, list[Point]]:
    found: dict[str, dict[tuple[int, int], Point]] = {}
    for line in results.lines:
        found.setdefault(line.direction, {}).setdefault((line.length, line.h), {})[line.layer] = line
    return {direction: list(points.values()) for direction, points in found.items()}


def _sizes(results: Results) -> Iterator[str]:
    """Parameters and launches at the largest number of heads, where the loop is longest."""
    first = next(iter(_directions(results).values()))
    point = max(first, key=lambda point: point[LOOP].h)
    loop, four = point[LOOP], point[FOUR]
    yield PARAMETERS.format(h=loop.h, parameters=loop.parameters, loop=loop.pieces, four=four.pieces)
    yield LAUNCHES.format(h=loop.h, loop=loop.launches, four=four.launches)


def _times(direction: str, points: list[Point]) -> Iterator[str]:
    yield from _claim(direction, points)
    yield _ranking(direction, _longest(points))
    if YOURS in points[0]:
        least, most = _extremes([_ratio(point, YOURS, LIBRARY) for point in points])
        yield YOUR_TIME.format(direction=direction, least=least, most=most)


def _longest(points: list[Point]) -> Point:
    return max(points, key=lambda point: point[LOOP].length)


def _claim(direction: str, points: list[Point]) -> Iterator[str]:
    """Is the loop slower? Only where its lower quartile lies above the upper quartile of four linears."""
    slower = [point for point in points if point[LOOP].seconds.low > point[FOUR].seconds.high]
    if len(slower) == len(points):
        least, most = _extremes([_ratio(point, LOOP, FOUR) for point in points])
        yield ALL_SLOWER.format(direction=direction, points=len(points), least=least, most=most)
        return
    yield SOME_SLOWER.format(direction=direction, slower=len(slower), points=len(points))
    for point in points:
        if point not in slower:
            loop, four = point[LOOP], point[FOUR]
            template = FASTER if loop.seconds.high < four.seconds.low else UNDECIDED
            yield template.format(direction=direction, length=loop.length, h=loop.h, ratio=_ratio(point, LOOP, FOUR))


def _memory(direction: str, point: Point) -> str:
    loop, four, sdpa = (point[label].memory / MIB for label in (LOOP, FOUR, SDPA))
    template = LESS_MEMORY if loop < four else MORE_MEMORY
    at = point[LOOP]
    return template.format(direction=direction, length=at.length, h=at.h, loop=loop, four=four, sdpa=sdpa)


def _ranking(direction: str, point: Point) -> str:
    ranked = sorted(point.values(), key=lambda line: line.seconds.median)
    return RANKING.format(
        direction=direction,
        length=ranked[0].length,
        h=ranked[0].h,
        fastest=ranked[0].layer,
        low=1e3 * ranked[0].seconds.median,
        slowest=ranked[-1].layer,
        high=1e3 * ranked[-1].seconds.median,
    )


def _ratio(point: Point, layer: str, other: str) -> float:
    return point[layer].seconds.median / point[other].seconds.median


def _extremes(values: list[float]) -> tuple[float, float]:
    return min(values), max(values)

"""The distribution of points of a class as a small inline SVG."""

from __future__ import annotations

from html import escape

from helpers.classroom.reports.tally import BINS, distribution
from helpers.classroom.reports.texts import number

WIDTH, HEIGHT, BAR, FLOOR = 350, 150, 32, 122  # pixels; FLOOR: where the bars stand
_ALOUD = "Distribution of points, by tenths of {most}: {counts} students."


def histogram(points: list[float], most: float) -> str:
    """Ten bars with their counts; empty for a class without graded students."""
    if not points:
        return ""
    counts = distribution(points, most)
    tallest = max(counts)
    parts = []
    for i, count in enumerate(counts):
        x, height = 14 + i * BAR, round(96 * count / tallest)
        if count:
            parts.append(f'<rect class="fill" x="{x + 2}" y="{FLOOR - height}" width="{BAR - 4}" height="{height}"/>')
            parts.append(f'<text class="mid" x="{x + BAR / 2:g}" y="{FLOOR - height - 5}">{count}</text>')
    parts.append(f'<path class="axis" d="M14 {FLOOR}.5h{BINS * BAR}"/>')
    for i in range(0, BINS + 1, 2):
        parts.append(f'<text class="mid" x="{14 + i * BAR}" y="{FLOOR + 17}">{number(most * i / BINS)}</text>')
    aloud = escape(_ALOUD.format(most=number(most), counts=", ".join(map(str, counts))))
    return (
        f'<svg class="matrix" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}" role="img"'
        f' aria-label="{aloud}"><title>{aloud}</title><g class="labels">{"".join(parts)}</g></svg>'
    )

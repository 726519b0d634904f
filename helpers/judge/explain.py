"""Turns a verdict into words and pictures. It computes nothing."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from helpers.judge.reading import section_about
from helpers.judge.verdict import Finding, Verdict

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_HEADS = {
    "passed": "{exercise}: passed, {points} of {max_points} points.",
    "not started": "{exercise}: not started.",
    "wrong": "{exercise}: not right yet, {points} of {max_points} points.",
    "error": "{exercise}: it does not run yet, {points} of {max_points} points.",
}
_COLOURS = {"passed": "#1b7f4b", "not started": "#6b7280", "wrong": "#b45309", "error": "#b42318"}
_LABELS = {"mistake": "Mistake", "observation": "Seen", "note": "Note"}
_LOOK_AGAIN = "Look again at: {notebook}, section “{heading}”."
_MOST_FINDINGS = 4  # never more than a screen


def text(verdict: Verdict) -> str:
    """Plain text, the same from run to run."""
    lines = [head(verdict)]
    for finding in verdict.findings[:_MOST_FINDINGS]:
        label = [f"{_LABELS[finding.severity]} [{finding.id}]"] if _is_named(finding) else []
        lines += ["", *label, f"  {finding.message}"]
        lines += [f"  Ask yourself: {finding.hint}"] if finding.hint else []
        lines += [f"  {_look_again(finding)}"] if _look_again(finding) else []
    if verdict.details:
        lines += ["", *(f"  {line}" for line in verdict.details)]
    return "\n".join(lines)


def head(verdict: Verdict) -> str:
    """The first line: what came out, and the points."""
    return _HEADS[verdict.status].format(
        exercise=verdict.exercise, points=_number(verdict.points), max_points=_number(verdict.max_points)
    )


def _is_named(finding: Finding) -> bool:
    return finding.id != "not-started"


def _look_again(finding: Finding) -> str:
    """Where the notebooks show what the finding is about."""
    section = section_about(finding.id) if finding.severity != "note" else None
    return _LOOK_AGAIN.format(notebook=section[0], heading=section[1]) if section else ""


def _number(points: float) -> str:
    return f"{points:g}"


def html(verdict: Verdict) -> str:
    """The same as a small card that reads well in JupyterLab's light and dark themes."""
    colour = _COLOURS[verdict.status]
    parts = [
        f'<div role="status" style="border-left:4px solid {colour};padding:.5em .9em;margin:.3em 0;'
        'max-width:46em;line-height:1.45;color:var(--jp-ui-font-color1,inherit)">',
        f'<div style="font-weight:600">{escape(head(verdict))}</div>',
    ]
    for finding in verdict.findings[:_MOST_FINDINGS]:
        parts.append(_finding_html(finding))
    if verdict.details:
        lines = "\n".join(escape(line) for line in verdict.details)
        parts.append(
            '<pre style="margin:.6em 0 0;padding:.4em .6em;overflow-x:auto;font-size:.92em;color:inherit;'
            f'background:var(--jp-layout-color2,#f3f4f6)">{lines}</pre>'
        )
    parts.append("</div>")
    return "".join(parts)


def _finding_html(finding: Finding) -> str:
    label = f"{_LABELS[finding.severity]}: {finding.id}" if _is_named(finding) else ""
    small = "font-size:.85em;opacity:.75"
    rows = [f'<div style="{small}">{escape(label)}</div>'] if label else []
    rows.append(f"<div>{_with_code(finding.message)}</div>")
    if finding.hint:
        rows.append(f'<div style="margin-top:.2em"><em>Ask yourself:</em> {_with_code(finding.hint)}</div>')
    if _look_again(finding):
        rows.append(f'<div style="{small}">{escape(_look_again(finding))}</div>')
    return '<div style="margin-top:.6em">' + "".join(rows) + "</div>"


def _with_code(sentence: str) -> str:
    """`like this` becomes code."""
    pieces = escape(sentence).split("`")
    if len(pieces) % 2 == 0:
        return escape(sentence)
    return "".join(f"<code>{piece}</code>" if i % 2 else piece for i, piece in enumerate(pieces))


def picture(verdict: Verdict) -> Figure:
    """*Yours · expected · difference* of the smallest failing case; for a mask, which key moves which query.

    Raises ValueError when the verdict holds no numbers to compare.
    """
    if not verdict.comparisons:
        raise ValueError(f"There is nothing to draw: the verdict on {verdict.exercise} compares no matrices.")
    from helpers import plots

    shown = verdict.comparisons[0]
    if shown.is_map:
        return plots.dependency_map(shown.yours, expected=shown.expected)
    return plots.difference(
        shown.yours, shown.expected, title=shown.title, row_label=shown.row_label, column_label=shown.column_label
    )

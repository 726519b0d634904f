"""What a word shows: one small object with a plain form and a richer HTML form."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape

# JupyterLab's theme variables where they exist; elsewhere colours that read on light and dark paper alike.
INK = "var(--jp-ui-font-color1, inherit)"
PALE_INK = "var(--jp-ui-font-color2, inherit)"
LINE = "var(--jp-border-color1, rgba(128, 128, 128, 0.4))"
PAPER = "var(--jp-layout-color2, rgba(128, 128, 128, 0.15))"
ACCENT = "var(--jp-brand-color1, #1976d2)"
GOOD = "var(--jp-success-color1, #2e8b3d)"
BAD = "var(--jp-error-color1, #e0393e)"


@dataclass(frozen=True, repr=False)
class Note:
    """Text for a terminal and for nbval, HTML for a notebook. `str(note)` is the text."""

    text: str
    html: str

    def __repr__(self) -> str:
        return self.text

    def _repr_html_(self) -> str:
        return self.html


def panel(*parts: str) -> str:
    """Frame some HTML as one note."""
    style = f"color: {INK}; border-left: 3px solid {ACCENT}; padding: 2px 0 2px 12px; line-height: 1.5;"
    return f'<div style="{style}">{"".join(parts)}</div>'


def paragraph(text: str, *, pale: bool = False, bold: bool = False) -> str:
    """One paragraph of plain text; `code` in backticks is set as code."""
    style = f"margin: 4px 0;{f' color: {PALE_INK};' if pale else ''}{' font-weight: 600;' if bold else ''}"
    return f'<p style="{style}">{with_code(text)}</p>'


def with_code(text: str) -> str:
    """Escape text for HTML, and set what stands between backticks as code."""
    parts = escape(text).split("`")
    if len(parts) % 2 == 0:  # an odd backtick is only a backtick
        return escape(text)
    return "".join(f"<code>{part}</code>" if index % 2 else part for index, part in enumerate(parts))


def code(text: str) -> str:
    """A block of code, or of any text whose line breaks count."""
    style = (
        f"margin: 4px 0; padding: 8px 10px; background: {PAPER}; color: {INK}; border-radius: 4px;"
        " overflow-x: auto; line-height: 1.4; white-space: pre;"
        " font-family: var(--jp-code-font-family, monospace); font-size: var(--jp-code-font-size, 13px);"
    )
    return f'<pre style="{style}">{escape(text)}</pre>'


def simple(*lines: str) -> Note:
    """A note of one or more paragraphs, the same words in both forms."""
    return Note("\n".join(lines), panel(*(paragraph(line) for line in lines)))

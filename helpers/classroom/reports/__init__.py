"""The reports of a graded class: grades, pages, and what other systems read, all from one `ClassResult`."""

from __future__ import annotations

from helpers.classroom.reports.changes import Change, changes, changes_text
from helpers.classroom.reports.files import ReportError
from helpers.classroom.reports.markdown import markdown_summary
from helpers.classroom.reports.writing import write_all

__all__ = ["Change", "ReportError", "changes", "changes_text", "markdown_summary", "write_all"]

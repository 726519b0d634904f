"""Writes all reports of a run into one folder."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from helpers.classroom.reports.changes import changes
from helpers.classroom.reports.file_names import file_stems
from helpers.classroom.reports.files import as_json, former_files, remove_stale, write
from helpers.classroom.reports.grades_csv import changes_csv, grades_csv
from helpers.classroom.reports.gradescope import gradescope_json
from helpers.classroom.reports.junit import junit_xml
from helpers.classroom.reports.pages import class_page, student_page
from helpers.classroom.reports.results_json import results_json
from helpers.classroom.reports.tally import exercises_of
from helpers.classroom.reports.texts import cleaned
from helpers.classroom.results import ClassResult


def write_all(result: ClassResult, out: Path, *, before: Mapping[str, Any] | None = None) -> list[Path]:
    """Write every report. Returns the files that were written.

    out: the folder; what a former run wrote there is replaced, and pages of students who are gone are removed
    before: the parsed results.json of a former run; changes.csv and the class page then say what changed
    raises: ReportError when a file cannot be written or removed, or when `before` cannot be read
    """
    changed = None if before is None else changes(before, result)
    result = cleaned(result)
    stems = file_stems(student.student for student in result.students)
    exercises = exercises_of(result)
    former = former_files(out)
    written = []
    for student in result.students:
        stem = stems[student.student]
        written.append(write(out / "students" / f"{stem}.html", student_page(student, exercises)))
        written.append(write(out / "gradescope" / f"{stem}.json", as_json(gradescope_json(student, exercises))))
    written += [
        write(out / "grades.csv", grades_csv(result)),
        write(out / "changes.csv", changes_csv(changed or [])),
        write(out / "junit.xml", junit_xml(result)),
        write(out / "class.html", class_page(result, stems, changed)),
    ]
    remove_stale(out, former, written)
    # Last, since it lists the pages: a run that is cut short leaves the list of what has to be removed.
    written.append(write(out / "results.json", as_json(results_json(result, stems))))
    return written

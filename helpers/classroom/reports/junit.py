"""The results as JUnit XML, which CI systems show as a test report."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from xml.etree import ElementTree as ET

from helpers.classroom.reports.tally import by_exercise, exercises_of
from helpers.classroom.results import ClassResult, StudentResult
from helpers.course import Exercise
from helpers.judge import Verdict, explain

# The state of an answer → the element inside its test case; passed answers have none.
_ELEMENTS = {"wrong": "failure", "error": "error", "not started": "skipped"}


def junit_xml(result: ClassResult) -> str:
    """One suite per student, one case per exercise. Expects texts without characters that XML 1.0 forbids.

    A wrong answer is a failure; one that does not run, or was not graded, is an error; an open blank is skipped. The
    class name of a case is the student, since GitLab takes cases of the same class and name for one test. Times are 0:
    some readers want the attribute, and a report must be the same from run to run.
    """
    exercises = exercises_of(result)
    suites = [_suite(student, exercises) for student in result.students]
    counted = ("tests", "failures", "errors", "skipped")
    totals = {name: str(sum(int(suite.get(name, "0")) for suite in suites)) for name in counted}
    root = ET.Element("testsuites", {"name": "attention-by-hand", **totals, "time": "0"})
    root.extend(suites)
    ET.indent(root)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ET.tostring(root, encoding="unicode") + "\n"


def _suite(student: StudentResult, exercises: Sequence[Exercise]) -> ET.Element:
    verdicts = by_exercise(student)
    cases = [_case(student, exercise.name, verdicts.get(exercise.name)) for exercise in exercises]
    inside = [element.tag for case in cases for element in case]
    counts = {"failures": "failure", "errors": "error", "skipped": "skipped"}
    numbers = {name: str(inside.count(tag)) for name, tag in counts.items()}
    suite = ET.Element("testsuite", {"name": student.student, "tests": str(len(cases)), **numbers, "time": "0"})
    suite.extend(cases)
    said = list(_said(student))
    if said:
        ET.SubElement(suite, "system-out").text = "\n".join(said)
    return suite


def _case(student: StudentResult, exercise: str, verdict: Verdict | None) -> ET.Element:
    case = ET.Element("testcase", {"classname": student.student, "name": exercise, "time": "0"})
    if verdict is None:
        ET.SubElement(case, "error", {"message": f"Not graded: {student.reason}", "type": student.status})
    elif not verdict.passed:
        about: dict[str, str] = {"message": explain.head(verdict)}
        tag = _ELEMENTS[verdict.status]
        if tag != "skipped":
            about["type"] = verdict.findings[0].id if verdict.findings else verdict.status
        ET.SubElement(case, tag, about).text = explain.text(verdict)
    return case


def _said(student: StudentResult) -> Iterator[str]:
    if student.status != "graded":
        yield f"{student.status}: {student.reason}"
    yield from student.notes

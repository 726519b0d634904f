"""The reports of a graded class: made from real verdicts, and read back the way their readers read them."""

from __future__ import annotations

import csv
import io
import json
import os
import re
import xml.etree.ElementTree as ET
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import jsonschema
import pytest
from markdown_it import MarkdownIt

from helpers.classroom import reports
from helpers.classroom.reports import Change, ReportError, changes, changes_text, markdown_summary, tally, write_all
from helpers.classroom.reports.grades_csv import no_formula
from helpers.classroom.results import ClassResult, StudentResult
from helpers.course import EXERCISES
from helpers.judge import Finding, Verdict, check_answer
from tests import answers

answers.load()
NAMES = [exercise.name for exercise in EXERCISES]
HOSTILE = '<script>alert(1)</script> "O\'Neil" & \x00\x1b[31m\u202egpj.exe \ud800 ]]> {{ 7*7 }}'
LONG = "n" * 300
VOID = {"meta", "br", "path", "rect"}  # elements that these pages use without an end tag


# ---- a class ---------------------------------------------------------------------------------------------


@cache
def verdict(exercise: str, answer: str | None) -> Verdict:
    """The judge's verdict on an answer of tests/answers; on a blank for None; on the first right one for ""."""
    if answer is None:
        open_blank = Finding("not-started", f"`{exercise}` is still open.", severity="note")
        points = float(next(e.points for e in EXERCISES if e.name == exercise))
        return Verdict(exercise, "not started", 0.0, points, (open_blank,))
    bank = [(name, given) for name, given, _ in (*answers.RIGHT, *answers.WRONG)]
    return check_answer(next(a for name, a in bank if name == exercise and answer in ("", a.__name__)), exercise)


def student(name: str, written: dict[str, str], **more: Any) -> StudentResult:
    """A student who left every exercise open but those in `written`: exercise → name of the answer, "" for right."""
    verdicts = tuple(verdict(exercise, written.get(exercise)) for exercise in NAMES)
    found_in = {exercise: "work/01 (1).ipynb" for exercise in written}
    return StudentResult(name, f"{name}/work", "graded", verdicts=verdicts, found_in=found_in, **more)


@pytest.fixture(scope="module")
def class_result() -> ClassResult:
    unscaled = {"attention_scores": "scores_unscaled", "softmax": "softmax_columns"}
    mask = {"SelfAttentionV3": "MaskInverted", "attention_scores": "scores_unscaled", "softmax": ""}
    lena = replace(student("Lena", {"softmax": ""}), status="partly graded", reason="Notebook 03 ran out of memory.")
    return ClassResult(
        7,
        ("The code ran without network.",),
        (
            student("Ada", dict.fromkeys(NAMES, "")),
            student("Bo", unscaled, notes=("Cell 3 stopped: it ran too long.",)),
            StudentResult("Cy", "Cy.zip", "not gradable", "The archive is damaged."),
            student("李明", mask),
            lena,
            student("Mo", {"attention_scores": "scores_sqrt_of_int", "softmax": "softmax_sum_of_all"}),
        ),
    )


def hostile_class() -> ClassResult:
    """A class in which everything that a submission can influence is meant to do harm."""
    finding = Finding("raises", f"{HOSTILE} `code`", HOSTILE, "observation")
    bad = replace(verdict("softmax", "softmax_columns"), findings=(finding,), details=(HOSTILE,))
    worse = replace(bad, findings=(replace(finding, severity="mistake"),))
    verdicts = tuple(bad if name == "softmax" else verdict(name, None) for name in NAMES)
    first = StudentResult(
        HOSTILE, HOSTILE, "partly graded", HOSTILE, (HOSTILE, "two\nlines"), verdicts, {"softmax": HOSTILE}
    )
    others = [
        StudentResult("../../escaped", "x", "not gradable", HOSTILE),
        StudentResult("=cmd|' /C calc'!A0", "x", "graded", verdicts=(worse, *verdicts[1:])),
        StudentResult(LONG, "x", "graded", verdicts=verdicts),
        StudentResult("a\x01", "x", "graded"),
        StudentResult("a\u2401", "x", "graded"),
        StudentResult("con", "x", "graded"),
        StudentResult("שלום <b>", "x", "graded"),
    ]
    return ClassResult(None, (HOSTILE,), (first, *others))


class Page(HTMLParser):
    """A page as a browser sees it: its text, its elements, and whether every element is closed."""

    def __init__(self, source: str):
        super().__init__()
        self.open: list[str] = []
        self.tags: Counter[str] = Counter()
        self.attributes: list[tuple[str, str]] = []
        self.text = ""
        self.feed(source)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags[tag] += 1
        self.attributes += [(name, value or "") for name, value in attrs]
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags[tag] += 1
        self.attributes += [(name, value or "") for name, value in attrs]

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open[-1:] != ["style"]:
            self.text += data

    def links(self) -> list[str]:
        return [value for name, value in self.attributes if name == "href"]


def rows(path: Path) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(path.read_bytes().decode("utf-8-sig"), newline="")))


def read(path: Path) -> Any:
    return json.loads(path.read_text("utf-8"))


def page_of(out: Path, name: str) -> Page:
    path = next(s["page"] for s in read(out / "results.json")["students"] if s["student"] == name)
    return Page((out / path).read_text("utf-8"))


@pytest.fixture(scope="module")
def out(class_result: ClassResult, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("reports") / "new"
    write_all(class_result, folder)
    return folder


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("hostile") / "deep" / "er"
    write_all(hostile_class(), folder)
    return folder


# ---- grades.csv ------------------------------------------------------------------------------------------


def test_the_grades_have_one_row_per_student_and_exercise(class_result: ClassResult, out: Path) -> None:
    table = rows(out / "grades.csv")
    assert list(table[0])[:4] == ["student", "exercise", "points", "total"]
    assert [row["exercise"] for row in table] == NAMES * len(class_result.students)
    for given in class_result.students:
        own = [row for row in table if row["student"] == given.student]
        assert sum(float(row["points"]) for row in own) == pytest.approx(given.points)
        assert {float(row["total"]) for row in own} == {given.points}
        assert sum(float(row["max_points"]) for row in own) == 100


def test_a_submission_that_is_not_gradable_has_rows_with_its_status(out: Path) -> None:
    own = [row for row in rows(out / "grades.csv") if row["student"] == "Cy"]
    assert len(own) == len(NAMES)
    assert {(row["points"], row["total"], row["status"]) for row in own} == {("0", "0", "not gradable")}


def test_a_spreadsheet_sees_that_the_grades_are_utf_8(out: Path) -> None:
    data = (out / "grades.csv").read_bytes()
    assert data.startswith(b"\xef\xbb\xbfstudent,")
    assert "李明".encode() in data


@pytest.mark.parametrize("text", ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1", "\n=1", "＝1", "=cmd|' /C calc'!A0"])
def test_what_a_spreadsheet_would_run_is_neutralised(text: str) -> None:
    assert no_formula(text) == f"'{text}"


@pytest.mark.parametrize("text", ["Ada", "", "O'Neil", "a=b", "12.5", " x", "李明"])
def test_other_cells_stay_as_they_are(text: str) -> None:
    assert no_formula(text) == text


def test_no_cell_of_a_hostile_class_runs(hostile: Path) -> None:
    cells = {cell for row in rows(hostile / "grades.csv") for cell in row.values()}
    assert "'=cmd|' /C calc'!A0" in cells
    assert not [cell for cell in cells if re.match(r"[=+\-@\t\r\n]", cell)]


# ---- results.json ----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def schema() -> Any:
    path = Path(reports.__file__).parent / "results.schema.json"
    loaded = read(path)
    jsonschema.Draft202012Validator.check_schema(loaded)
    return loaded


def test_the_results_follow_their_schema(out: Path, hostile: Path, schema: Any) -> None:
    for folder in (out, hostile):
        jsonschema.Draft202012Validator(schema).validate(read(folder / "results.json"))


def test_the_schema_refuses_what_it_does_not_describe(out: Path, schema: Any) -> None:
    data = read(out / "results.json")
    data["students"][0]["exercises"][0]["stack_trace"] = "…"
    assert not jsonschema.Draft202012Validator(schema).is_valid(data)


def test_the_schema_describes_every_field(schema: Any) -> None:
    def undescribed(part: Any, path: str) -> list[str]:
        named = [
            (f"{path}.{name}", field)
            for key in ("properties", "$defs")
            for name, field in (part.get(key) or {}).items()
            if isinstance(field, dict)
        ]
        inner = [(f"{path}[]", part["items"])] if isinstance(part.get("items"), dict) else []
        bare = [name for name, field in named if "description" not in field and "$ref" not in field]
        return bare + [deep for name, field in named + inner for deep in undescribed(field, name)]

    assert undescribed(schema, "") == []


def test_the_results_hold_the_verdicts_and_where_the_answers_were_found(class_result: ClassResult, out: Path) -> None:
    data = read(out / "results.json")
    assert data["course"]["max_points"] == 100
    assert data["run"] == {"seed": 7, "protection": ["The code ran without network."]}
    for given, written in zip(class_result.students, data["students"], strict=True):
        assert (written["student"], written["status"], written["reason"]) == (given.student, given.status, given.reason)
        assert written["points"] == pytest.approx(given.points)
        for judged, exercise in zip(given.verdicts, written["exercises"], strict=True):
            notebook = exercise.pop("notebook")
            assert notebook == (given.found_in or {}).get(judged.exercise)
            assert exercise == judged.as_dict()


def test_the_results_count_each_student_once_per_mistake(out: Path) -> None:
    mistakes = {entry["id"]: entry for entry in read(out / "results.json")["mistakes"]}
    assert mistakes["scale-missing"]["students"] == ["Bo", "李明"]
    assert mistakes["scale-missing"]["number"] == 2
    assert mistakes["scale-missing"]["exercises"] == ["attention_scores"]
    assert "not-started" not in mistakes
    numbers = [entry["number"] for entry in mistakes.values()]
    assert numbers == sorted(numbers, reverse=True)


def test_every_listed_file_exists(out: Path, hostile: Path) -> None:
    for folder in (out, hostile):
        listed = [s[key] for s in read(folder / "results.json")["students"] for key in ("page", "gradescope")]
        assert len(listed) == len({name.casefold() for name in listed})
        assert all((folder / name).is_file() for name in listed)


def test_the_same_class_gives_the_same_bytes(class_result: ClassResult, out: Path, tmp_path: Path) -> None:
    for path in write_all(class_result, tmp_path):
        assert path.read_bytes() == (out / path.relative_to(tmp_path)).read_bytes()


# ---- what is judged --------------------------------------------------------------------------------------


def test_a_class_that_did_one_notebook_is_measured_by_that_notebook(tmp_path: Path) -> None:
    only = StudentResult("Ada", "a", "graded", verdicts=(verdict("weighted_average", ""),))
    absent = StudentResult("Bo", "b", "not gradable", "Empty.")
    write_all(ClassResult(None, (), (only, absent)), tmp_path)
    assert [row["exercise"] for row in rows(tmp_path / "grades.csv")] == ["weighted_average"] * 2
    assert read(tmp_path / "results.json")["course"]["max_points"] == 2
    assert "2 of 2 points" in page_of(tmp_path, "Ada").text


@pytest.mark.parametrize("students", [(), (StudentResult("Bo", "b", "not gradable", "Empty."),)])
def test_a_class_without_any_verdict_has_reports(students: tuple[StudentResult, ...], tmp_path: Path) -> None:
    written = write_all(ClassResult(None, (), students), tmp_path)
    assert len(written) == 5 + 2 * len(students)
    assert f"{len(students)}students" in Page((tmp_path / "class.html").read_text("utf-8")).text


def test_an_observation_beside_a_named_mistake_is_not_of_unknown_cause(class_result: ClassResult) -> None:
    beside = verdict("attention_scores", "scores_sqrt_of_int")
    assert {finding.severity for finding in beside.findings} == {"mistake", "observation"}
    seen = {found.id: found for found in tally.found(class_result, "observation")}
    assert all("attention_scores" not in found.exercises for found in seen.values())
    assert "sqrt-of-int" in {found.id for found in tally.found(class_result, "mistake")}
    assert any("softmax" in found.exercises and found.students == ("Mo",) for found in seen.values())


def test_the_tally_of_an_exercise_counts_every_student_once(class_result: ClassResult) -> None:
    by_name = {item.exercise.name: item for item in tally.exercise_tallies(class_result)}
    assert dict(by_name["softmax"].states) == {"passed": 3, "wrong": 2, "error": 0, "not started": 0, "not graded": 1}
    assert by_name["softmax"].mean == pytest.approx(
        sum(v.points for s in class_result.students for v in s.verdicts if v.exercise == "softmax") / 5
    )


@pytest.mark.parametrize(
    ("points", "counts"),
    [([0, 9.9, 10, 100], {0: 2, 1: 1, 9: 1}), ([100, 99], {9: 2}), ([], {})],
)
def test_the_distribution_counts_tenths(points: list[float], counts: dict[int, int]) -> None:
    assert {i: n for i, n in enumerate(tally.distribution(points, 100)) if n} == counts


# ---- the pages -------------------------------------------------------------------------------------------


def all_pages(*folders: Path) -> list[str]:
    paths = [path for folder in folders for path in (folder / "class.html", *(folder / "students").iterdir())]
    return [path.read_text("utf-8") for path in paths]


def test_the_pages_load_and_run_nothing(out: Path, hostile: Path) -> None:
    for source in all_pages(out, hostile):
        page = Page(source)
        assert not {"script", "img", "link", "iframe", "object", "form"} & set(page.tags)
        assert not [name for name, _ in page.attributes if name.startswith("on") or name in ("src", "srcset", "action")]
        assert all(re.fullmatch(r"#[\w-]+|students/[^/:]+\.html", link) for link in page.links())
        assert not re.search(r"url\((?!#hatch\))|@import", source)


def test_a_student_page_says_total_points_findings_and_notes(class_result: ClassResult, out: Path) -> None:
    page = page_of(out, "Bo")
    given = class_result.students[1]
    assert f"{given.points:g} of 100 points" in page.text
    assert "Cell 3 stopped: it ran too long." in page.text
    assert "work/01 (1).ipynb" in page.text
    for judged in given.verdicts:
        for finding in judged.findings:
            assert finding.message.replace("`", "") in page.text
    assert page.text.count("difference") >= 2
    assert set(page.links()) == {f"#{name}" for name in NAMES}


def test_a_student_page_says_nothing_about_the_class(out: Path) -> None:
    source = (out / read(out / "results.json")["students"][1]["page"]).read_text("utf-8")
    for other in ("Ada", "李明", "class.html", "seed", "without network"):
        assert other not in source


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("Cy", "Not gradable. The archive is damaged."),
        ("Lena", "Partly graded. Notebook 03 ran out of memory."),
    ],
)
def test_a_page_says_why_something_was_not_graded(out: Path, name: str, said: str) -> None:
    assert said in page_of(out, name).text


def test_the_class_page_orders_the_mistakes_and_links_who_made_them(class_result: ClassResult, out: Path) -> None:
    source = (out / "class.html").read_text("utf-8")
    page = Page(source)
    sections = re.findall(r'<section class="box" aria-label="([\w-]+)">', source)
    mistakes, seen = (tally.found(class_result, severity) for severity in ("mistake", "observation"))
    assert sections == [found.id for found in (*mistakes, *seen)]
    assert "2 of 6 students, in attention_scores" in " ".join(page.text.split())
    for said in ("The archive is damaged.", "Their seed: 7.", "The code ran without network.", "Cy.zip"):
        assert said in page.text
    pages = {student["page"] for student in read(out / "results.json")["students"]}
    assert {unquote(link) for link in page.links() if not link.startswith("#")} == pages


def test_who_could_not_be_graded_stands_before_the_others(out: Path) -> None:
    text = Page((out / "class.html").read_text("utf-8")).text
    assert text.index("The archive is damaged.") < text.index("Notebook 03 ran out of memory.") < text.index("Ada")


def test_many_students_with_one_mistake_are_folded_away(tmp_path: Path) -> None:
    crowd = tuple(student(f"s{i:02}", {"attention_scores": "scores_unscaled"}) for i in range(20))
    write_all(ClassResult(None, (), crowd), tmp_path)
    page = Page((tmp_path / "class.html").read_text("utf-8"))
    assert page.tags["details"] == 1
    assert "20 of 20 students" in page.text


# ---- hostile texts ---------------------------------------------------------------------------------------


def test_hostile_texts_stay_texts_in_every_page(hostile: Path) -> None:
    name = read(hostile / "results.json")["students"][0]["student"]
    page = page_of(hostile, name)
    assert page.text.count("<script>alert(1)</script>") >= 5
    assert "{{ 7*7 }}" in page.text
    assert name in page.text


def test_no_report_holds_what_breaks_its_readers(hostile: Path) -> None:
    for path in hostile.rglob("*"):
        if path.is_file():
            text = path.read_bytes().decode("utf-8")
            assert not re.search("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\u202a-\u202e\u2066-\u2069\ufffe\uffff]", text), path


def test_a_long_name_is_shown_in_full(hostile: Path) -> None:
    assert LONG in page_of(hostile, LONG).text


def test_names_that_become_equal_stay_two_students(hostile: Path) -> None:
    names = [student["student"] for student in read(hostile / "results.json")["students"]]
    assert len(names) == len(set(names)) == 8
    assert names[4:6] == ["a␁", "a␁ (2)"]


def test_no_name_leads_out_of_the_folder(hostile: Path) -> None:
    outside = [path for path in hostile.parent.parent.rglob("*") if path.is_file() and hostile not in path.parents]
    assert outside == []
    assert {path.parent.name for path in hostile.rglob("*.html")} == {hostile.name, "students"}


# ---- Gradescope and JUnit --------------------------------------------------------------------------------


def test_gradescope_reads_the_score_and_one_test_per_exercise(class_result: ClassResult, out: Path) -> None:
    for given, listed in zip(class_result.students, read(out / "results.json")["students"], strict=True):
        data = read(out / listed["gradescope"])
        assert set(data) == {"score", "output", "output_format", "tests"}
        assert data["score"] == pytest.approx(sum(test["score"] for test in data["tests"])) == given.points
        assert sum(test["max_score"] for test in data["tests"]) == 100
        assert {test["status"] for test in data["tests"]} <= {"passed", "failed"}
        assert {test["output_format"] for test in data["tests"]} == {"text"}
        assert all(isinstance(test["output"], str) and test["output"] for test in data["tests"])


@pytest.mark.parametrize(
    ("name", "said"),
    [("Cy", "Not gradable: The archive is damaged."), ("Bo", "Cell 3 stopped: it ran too long."), ("Ada", "")],
)
def test_gradescope_shows_reasons_and_notes(out: Path, name: str, said: str) -> None:
    listed = next(s for s in read(out / "results.json")["students"] if s["student"] == name)
    assert read(out / listed["gradescope"])["output"] == said


def test_junit_counts_what_its_suites_hold(class_result: ClassResult, out: Path) -> None:
    root = ET.parse(out / "junit.xml").getroot()
    assert root.tag == "testsuites"
    assert [suite.get("name") for suite in root] == [student.student for student in class_result.students]
    assert len({(case.get("classname"), case.get("name")) for case in root.iter("testcase")}) == 6 * len(NAMES)
    tags = {"failures": "failure", "errors": "error", "skipped": "skipped", "tests": "testcase"}
    for level in (root, *root):
        for attribute, tag in tags.items():
            assert int(level.get(attribute, "")) == len(list(level.iter(tag)))
    for case in root.iter("testcase"):
        assert {element.tag for element in case} <= {"failure", "error", "skipped"}
        assert len(case) <= 1
        assert all(element.get("message") for element in case)


@pytest.mark.parametrize(
    ("name", "exercise", "tag"),
    [
        ("Ada", "softmax", None),
        ("Bo", "softmax", "failure"),
        ("Mo", "attention_scores", "error"),
        ("Bo", "SelfAttentionV1", "skipped"),
        ("Cy", "softmax", "error"),
    ],
)
def test_junit_tells_failures_errors_and_open_blanks_apart(
    out: Path, name: str, exercise: str, tag: str | None
) -> None:
    root = ET.parse(out / "junit.xml").getroot()
    (case,) = (c for c in root.iter("testcase") if (c.get("classname"), c.get("name")) == (name, exercise))
    assert [element.tag for element in case] == ([tag] if tag else [])


def test_junit_of_a_hostile_class_is_still_xml(hostile: Path) -> None:
    root = ET.parse(hostile / "junit.xml").getroot()
    messages = [element.text or "" for element in root.iter("failure")]
    assert any("<script>alert(1)</script>" in text and "]]>" in text for text in messages)


# ---- changes ---------------------------------------------------------------------------------------------


def test_nothing_changed_when_the_same_class_is_graded_again(class_result: ClassResult, out: Path) -> None:
    assert changes(read(out / "results.json"), class_result) == []
    assert changes_text([]) == "Nothing changed since the former run."
    assert rows(out / "changes.csv") == []


def test_regrading_after_a_changed_check_shows_the_difference(
    class_result: ClassResult, out: Path, tmp_path: Path
) -> None:
    before = read(out / "results.json")
    former = {s["student"]: s for s in before["students"]}
    softmax = next(e for e in former["Bo"]["exercises"] if e["exercise"] == "softmax")
    softmax["points"] = was = verdict("softmax", "softmax_columns").points + 0.25
    before["students"].remove(former["Ada"])
    before["students"].append(former["Ada"] | {"student": "Old"})
    now = verdict("softmax", "softmax_columns").points
    expected = [
        Change("Ada", "", None, 100.0, "new"),
        Change("Bo", "softmax", was, now),
        Change("Old", "", 100.0, None, "gone"),
    ]
    assert changes(before, class_result) == expected
    assert changes_text(expected).splitlines()[1:] == [
        "Ada: new, 100 points",
        f"Bo, softmax: {was:g} → {now:g} points",
        "Old: not there any more, had 100 points",
    ]
    write_all(class_result, tmp_path, before=before)
    assert [row["what"] for row in rows(tmp_path / "changes.csv")] == ["new", "points", "gone"]
    text = Page((tmp_path / "class.html").read_text("utf-8")).text
    assert "Changes since the former run" in text
    assert "Old" in text


def test_a_submission_that_became_gradable_changes_from_nothing(class_result: ClassResult, out: Path) -> None:
    repaired = student("Cy", {"softmax": ""})
    students = tuple(repaired if s.student == "Cy" else s for s in class_result.students)
    found = changes(read(out / "results.json"), replace(class_result, students=students))
    assert found == [Change("Cy", "softmax", 0.0, 4.0)]


def test_a_hostile_name_is_the_same_student_in_the_next_run(hostile: Path) -> None:
    assert changes(read(hostile / "results.json"), hostile_class()) == []


@pytest.mark.parametrize("before", [{}, [], {"version": 99, "students": []}, {"version": 1, "students": [{}]}])
def test_former_results_that_cannot_be_read_are_refused_in_words(class_result: ClassResult, before: Any) -> None:
    with pytest.raises(ReportError, match="former results cannot be compared"):
        changes(before, class_result)


# ---- the summary of a CI job -----------------------------------------------------------------------------


def table_of(markdown: str) -> list[list[str]]:
    """The cells of the one table, as text."""
    tokens = MarkdownIt("gfm-like", {"linkify": False}).parse(markdown)
    assert [token.type for token in tokens].count("table_open") == 1
    cells: list[list[str]] = []
    for before, token in pairwise(tokens):
        if before.type == "tr_open":
            cells.append([])
        if token.type == "inline" and before.type in ("th_open", "td_open"):
            harmless = {"text", "text_special", "code_inline", "html_inline"}
            assert {child.type for child in token.children or []} <= harmless
            tags = [child.content for child in token.children or [] if child.type == "html_inline"]
            assert set(tags) <= {"<br>"}
            cells[-1].append("".join(child.content for child in token.children or []))
    return cells


def test_the_summary_of_one_student_has_a_row_per_exercise(class_result: ClassResult) -> None:
    text = markdown_summary(replace(class_result, students=class_result.students[1:2]))
    head, *table = table_of(text)
    assert head == ["Exercise", "Points", "State", "What was found"]
    assert [row[0] for row in table] == NAMES
    scores = verdict("attention_scores", "scores_unscaled")
    assert table[1][1:3] == [f"{scores.points:g} / 4", "wrong"]
    assert table[1][3].startswith(scores.findings[0].message[:40])


def test_the_summary_of_a_class_has_a_row_per_student(class_result: ClassResult) -> None:
    head, *table = table_of(markdown_summary(class_result))
    assert head[0] == "Student"
    assert [row[0] for row in table] == [student.student for student in class_result.students]
    assert table[2][-1] == "The archive is damaged."


@pytest.mark.parametrize(
    "text",
    [
        "a | b",
        "`code`",
        "<b>bold</b>",
        "*a* _b_ ~~c~~",
        "[x](http://a.b)",
        "![x](y)",
        "\\|",
        "line\nbreak | x",
        "a &lt; b",
    ],
)
def test_the_summary_shows_names_and_reasons_as_they_are(text: str) -> None:
    given = tuple(StudentResult(f"{text}{i}", "x", "not gradable", text) for i in range(2))
    shown = " ".join(text.replace("\n", "␊").split())
    _, *table = table_of(markdown_summary(ClassResult(None, (), given)))
    assert [row[0] for row in table] == [f"{shown}0", f"{shown}1"]
    assert table[0][-1] == " ".join(text.split())
    one = markdown_summary(ClassResult(None, (), given[:1]))
    rendered = MarkdownIt("gfm-like", {"linkify": False}).render(one)
    assert not {"b", "em", "s", "a", "img"} & set(Page(rendered).tags)


# ---- writing ---------------------------------------------------------------------------------------------


def test_what_is_written_is_what_is_returned(class_result: ClassResult, tmp_path: Path) -> None:
    written = write_all(class_result, tmp_path)
    assert sorted(written) == sorted(path for path in tmp_path.rglob("*") if path.is_file())


def test_pages_of_students_who_are_gone_are_removed_and_nothing_else(class_result: ClassResult, tmp_path: Path) -> None:
    write_all(class_result, tmp_path)
    gone = read(tmp_path / "results.json")["students"][0]
    own = [tmp_path / "students/mine.html", tmp_path / "gradescope/mine.json", tmp_path / "notes.txt"]
    for path in own:
        path.write_text("mine", encoding="utf-8")
    write_all(replace(class_result, students=class_result.students[1:]), tmp_path)
    assert not (tmp_path / gone["page"]).exists()
    assert not (tmp_path / gone["gradescope"]).exists()
    assert all(path.read_text("utf-8") == "mine" for path in own)
    assert all((tmp_path / student["page"]).exists() for student in read(tmp_path / "results.json")["students"])


@pytest.mark.parametrize(
    "listed",
    ["../victim.html", "students/../../victim.html", "/victim.html", "victim.html", "students/a/../../../victim.html"],
)
def test_a_former_list_cannot_name_files_elsewhere(class_result: ClassResult, tmp_path: Path, listed: str) -> None:
    folder = tmp_path / "reports"
    (folder / "students" / "a").mkdir(parents=True)
    victims = [tmp_path / "victim.html", folder / "victim.html"]
    for victim in victims:
        victim.write_text("precious", encoding="utf-8")
    former = {"students": [{"page": listed, "gradescope": str(victims[0])}]}
    (folder / "results.json").write_text(json.dumps(former), encoding="utf-8")
    write_all(class_result, folder)
    assert all(victim.exists() for victim in victims)


@pytest.mark.parametrize(
    "content", ["", "not json", "[]", '{"students": 3}', '{"students": [{"page": 1}]}', "[" * 9999]
)
def test_a_damaged_former_list_removes_nothing(class_result: ClassResult, tmp_path: Path, content: str) -> None:
    (tmp_path / "students").mkdir()
    (tmp_path / "students/old.html").write_text("old", encoding="utf-8")
    (tmp_path / "results.json").write_text(content, encoding="utf-8")
    write_all(class_result, tmp_path)
    assert (tmp_path / "students/old.html").exists()
    assert read(tmp_path / "results.json")["version"] == 1


def _file_for_the_folder(out: Path) -> None:
    out.write_text("mine", encoding="utf-8")


def _file_for_the_students(out: Path) -> None:
    out.mkdir()
    (out / "students").write_text("mine", encoding="utf-8")


def _folder_for_the_grades(out: Path) -> None:
    (out / "grades.csv").mkdir(parents=True)


@pytest.mark.parametrize(
    ("block", "said"),
    [
        (_file_for_the_folder, "is a file, and should be a folder"),
        (_file_for_the_students, "is a file, and should be a folder"),
        (_folder_for_the_grades, "a folder has this name"),
    ],
)
def test_something_in_the_way_is_said_and_stays(
    class_result: ClassResult, tmp_path: Path, block: Callable[[Path], None], said: str
) -> None:
    folder = tmp_path / "reports"
    block(folder)
    with pytest.raises(ReportError, match=said):
        write_all(class_result, folder)
    assert not [path for path in tmp_path.rglob("*") if path.name.endswith(".part")]


def test_a_folder_without_write_permission_is_said(
    class_result: ClassResult, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: Any) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(os, "replace", refuse)  # root may write everywhere, so a real folder would not refuse
    with pytest.raises(ReportError, match=r"cannot be written: you may not write into"):
        write_all(class_result, tmp_path)
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]


def test_a_report_that_cannot_be_replaced_keeps_its_old_content(
    class_result: ClassResult, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_all(class_result, tmp_path)
    before = (tmp_path / "class.html").read_bytes()

    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(ReportError, match="No space left"):
        write_all(replace(class_result, seed=8), tmp_path)
    assert (tmp_path / "class.html").read_bytes() == before

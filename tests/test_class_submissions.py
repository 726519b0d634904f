"""What was handed in: layouts, names, and files that were made to do harm. No test reads beyond its `tmp_path`."""

from __future__ import annotations

import io
import json
import os
import pickle
import socket
import stat
import struct
import subprocess
import sys
import unicodedata
import zipfile
import zlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from helpers.classroom import handed_in_files
from helpers.classroom.submissions import MOST_NOTEBOOKS, HandedIn, Submission, SubmissionsError, find, fingerprint
from helpers.paths import ROOT

NOTEBOOK = b'{"cells": []}'


def laid_out(folder: Path, *names: str) -> Path:
    """Make files; a name that ends with "/" is an empty folder."""
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if name.endswith("/"):
            path.mkdir(exist_ok=True)
        else:
            path.write_bytes(name.encode("utf-8", "surrogateescape"))
    return folder


def packed(*names: str, **contents: bytes) -> bytes:
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in names:
            archive.writestr(name, name)
        for name, content in contents.items():
            archive.writestr(name.replace("__", "."), content)
    return target.getvalue()


def students(found: list[Submission]) -> list[str]:
    return [submission.student for submission in found]


def names_in(submission: Submission) -> list[str]:
    return [notebook.name for notebook in submission.notebooks()]


def by_student(found: list[Submission]) -> dict[str, list[str]]:
    """Student → names of the notebooks, or the problem."""
    return {s.student: [s.problem] if s.problem else names_in(s) for s in found}


def only(found: list[Submission]) -> Submission:
    (submission,) = found
    return submission


# --- layouts ---


def test_a_folder_a_notebook_or_a_zip_for_each_student(tmp_path: Path) -> None:
    laid_out(tmp_path, "ana/01.ipynb", "ana/deep/er/02.ipynb", "ben.ipynb", "grades.csv", "README.md")
    (tmp_path / "cleo.zip").write_bytes(packed("01.ipynb", "more/02.ipynb", "notes.txt"))
    assert by_student(find(tmp_path)) == {
        "ana": ["01.ipynb", "deep/er/02.ipynb"],
        "ben": ["ben.ipynb"],
        "cleo": ["cleo.zip/01.ipynb", "cleo.zip/more/02.ipynb"],
    }


MOODLE = (
    "Ana María Lee_1234567_assignsubmission_file_/work.ipynb",
    "Ana María Lee_1234567_assignsubmission_onlinetext_/onlinetext.html",
    "Ben Oh_1234568_assignsubmission_file_work.ipynb",
    "Cleo Ray_1234569_assignsubmission_onlinetext_/onlinetext.html",
    "Group A_77_assignsubmission_file/deep/work.ipynb",
    "Default group_assignsubmission_file_/work.ipynb",
)
MOODLE_EXPECTED = {
    "Ana María Lee": ["work.ipynb"],
    "Ben Oh": ["Ben Oh_1234568_assignsubmission_file_work.ipynb"],
    "Cleo Ray": ["There is no notebook (.ipynb) in it, only: onlinetext.html."],
    "Default group": ["work.ipynb"],
    "Group A": ["deep/work.ipynb"],
}
CANVAS = (
    "kimana_12345_67890_01_self_attention_v1.ipynb",
    "kimana_12345_67891_02_self_attention_v2-2.ipynb",
    "leejo_LATE_12346_67892_01_self_attention_v1.ipynb",
    "ohben_12347_text.html",
    "anon_a1B2c_67893_01_work.ipynb",
    "LATE_anon_d4E5f_67894_work.ipynb",
)
CANVAS_EXPECTED = {
    "anon_a1B2c": ["anon_a1B2c_67893_01_work.ipynb"],
    "anon_d4E5f": ["LATE_anon_d4E5f_67894_work.ipynb"],
    "kimana": list(CANVAS[:2]),
    "leejo": ["leejo_LATE_12346_67892_01_self_attention_v1.ipynb"],
    "ohben": ["There is no notebook (.ipynb) in it, only: ohben_12347_text.html."],
}
NBGRADER = ("submitted/ana/ps1/p1.ipynb", "submitted/ana/ps1/timestamp.txt", "submitted/ben/ps1/p1.ipynb")
NBGRADER_EXPECTED = {"ana": ["ps1/p1.ipynb"], "ben": ["ps1/p1.ipynb"]}
CLASSROOM = ("attention-submissions/attention-ana/.git/x.ipynb", "attention-submissions/attention-ana/01.ipynb")
LAYOUTS = {
    "Moodle": (MOODLE, MOODLE_EXPECTED),
    "Canvas": (CANVAS, CANVAS_EXPECTED),
    "nbgrader": (NBGRADER, NBGRADER_EXPECTED),
    "nbgrader course": ((*NBGRADER, "source/ps1/p1.ipynb", "autograded/ana/ps1/p1.ipynb"), NBGRADER_EXPECTED),
    "GitHub Classroom": (CLASSROOM, {"ana": ["01.ipynb"]}),
    "in a folder": (tuple(f"download/{name}" for name in MOODLE), MOODLE_EXPECTED),
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_what_a_platform_offers_is_read(layout: str, tmp_path: Path) -> None:
    names, expected = LAYOUTS[layout]
    assert by_student(find(laid_out(tmp_path / "class", *names))) == expected


@pytest.mark.parametrize("layout", LAYOUTS)
def test_what_a_platform_offers_is_read_from_its_zip(layout: str, tmp_path: Path) -> None:
    names, expected = LAYOUTS[layout]
    (tmp_path / "class.zip").write_bytes(packed(*names))
    assert by_student(find(tmp_path / "class.zip")) == expected


def test_nbgraders_own_folder_may_be_given(tmp_path: Path) -> None:
    laid_out(tmp_path, *NBGRADER)
    assert by_student(find(tmp_path / "submitted")) == NBGRADER_EXPECTED


def test_a_folder_that_was_packed_as_a_whole_is_unwrapped(tmp_path: Path) -> None:
    (tmp_path / "spring.zip").write_bytes(packed("class/ana/1.ipynb", "class/ben.ipynb", "__MACOSX/class/._ben.ipynb"))
    assert by_student(find(tmp_path / "spring.zip")) == {"ana": ["1.ipynb"], "ben": ["ben.ipynb"]}


def test_one_students_folder_in_a_zip_stays_one(tmp_path: Path) -> None:
    names = ("bitdiddle/01_self_attention_v1.ipynb", "bitdiddle/02_self_attention_v2.ipynb")
    (tmp_path / "class.zip").write_bytes(packed(*names))
    assert students(find(tmp_path / "class.zip")) == ["bitdiddle"]


def test_zips_inside_the_zip_of_a_class_are_read(tmp_path: Path) -> None:
    target = tmp_path / "class.zip"
    with zipfile.ZipFile(target, "w") as archive:
        archive.writestr("kimana_1_2_work.zip", packed("a.ipynb", more__zip=packed("b.ipynb")))
        archive.writestr("ohben_3_4_work.zip", b"no zip")
    first, second = find(target)
    assert names_in(first) == ["kimana_1_2_work.zip/a.ipynb", "kimana_1_2_work.zip/more.zip/b.ipynb"]
    with pytest.raises(SubmissionsError, match=r"ohben_3_4_work\.zip was not read: it is not a zip file"):
        second.notebooks()


@pytest.mark.parametrize("name", ["ana", "ana/01.ipynb", "ana.zip"])
def test_one_submission_may_be_given_alone(name: str, tmp_path: Path) -> None:
    laid_out(tmp_path, "ana/01.ipynb", "ana/part/02.ipynb")
    (tmp_path / "ana.zip").write_bytes(packed("01.ipynb"))
    submission = only(find(tmp_path / name, single=True))
    assert submission.student == Path(name).stem
    assert submission.problem == ""
    assert names_in(submission)[0].endswith("01.ipynb")


@pytest.mark.parametrize(
    "names",
    [
        ("00_start_here.ipynb", "01_self_attention_v1.ipynb", "data.csv"),
        ("notebooks/01_self_attention_v1.ipynb", "helpers/course.py", "solutions/a.py"),
    ],
)
def test_a_copy_of_the_course_is_one_submission(names: tuple[str, ...], tmp_path: Path) -> None:
    assert students(find(laid_out(tmp_path / "ana", *names))) == ["ana"]


def test_what_editors_and_tools_leave_behind_is_ignored(tmp_path: Path) -> None:
    rooms = (".ipynb_checkpoints", ".git", "__MACOSX", ".venv", "venv", "node_modules", "lib/site-packages", "a/.x")
    laid_out(tmp_path, "ana/work.ipynb", "ana/._work.ipynb", "ana/.hidden.ipynb", ".git/x.ipynb", ".DS_Store")
    laid_out(tmp_path / "ana", *(f"{room}/other.ipynb" for room in rooms), "solutions/mine.ipynb")
    assert by_student(find(tmp_path)) == {"ana": ["solutions/mine.ipynb", "work.ipynb"]}


def test_a_notebook_that_a_browser_renamed_is_read(tmp_path: Path) -> None:
    laid_out(tmp_path, "ana.ipynb.txt", "ben.ipynb.json", "cleo.IPYNB")
    assert students(find(tmp_path)) == ["ana", "ben", "cleo"]


def test_the_same_notebook_twice_is_read_twice(tmp_path: Path) -> None:
    laid_out(tmp_path, "ana/01 (1).ipynb", "ana/01.ipynb", "ana/copy/01.ipynb")
    assert by_student(find(tmp_path)) == {"ana": ["01 (1).ipynb", "01.ipynb", "copy/01.ipynb"]}


def test_the_folder_of_the_results_is_not_looked_into(tmp_path: Path) -> None:
    laid_out(tmp_path, "ana/a.ipynb", "ana/results/b.ipynb", "results/students/c.ipynb")
    assert students(find(tmp_path, skip=tmp_path / "results")) == ["ana"]
    assert by_student(find(tmp_path, skip=tmp_path / "ana" / "results"))["ana"] == ["a.ipynb"]


# --- names ---


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (
            ("Ana Lee_11_assignsubmission_file_/a.ipynb", "Ana Lee_12_assignsubmission_file_/a.ipynb"),
            ["Ana Lee (11)", "Ana Lee (12)"],
        ),
        (("leean_1_5_a.ipynb", "leean_2_6_a.ipynb"), ["leean (1)", "leean (2)"]),
        (("ana.ipynb", "ana.zip", "ana/a.ipynb"), ["ana", "ana (ana.ipynb)", "ana (ana.zip)"]),
        (("Ana/a.ipynb", "ana/a.ipynb"), ["Ana (1)", "ana (2)"]),
        (("Zoë/a.ipynb", unicodedata.normalize("NFD", "Zoë") + "/a.ipynb"), ["Zoë (1)", "Zoë (2)"]),
        (("ana.ipynb", "ana.zip", "ana (ana.zip)/a.ipynb"), None),
        (("an\u200ba/a.ipynb", "ana/a.ipynb"), None),
        (("ﬁn/a.ipynb", "fin/a.ipynb"), None),
        (("straße/a.ipynb", "STRASSE/a.ipynb"), None),
    ],
)
def test_equal_names_are_told_apart(names: tuple[str, ...], expected: list[str] | None, tmp_path: Path) -> None:
    found = students(find(laid_out(tmp_path, *names)))
    assert expected is None or found == expected
    assert len({unicodedata.normalize("NFKC", name).casefold() for name in found}) == len(names)


def test_names_do_not_depend_on_the_order_of_the_listing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    laid_out(tmp_path, "ana.ipynb", "ana/1.ipynb", "ana/2.ipynb", "Ana.ipynb", "Ben_1_assignsubmission_file_/x.ipynb")
    before = [(s.student, s.path, names_in(s)) for s in find(tmp_path)]
    scandir = os.scandir

    class Reversed:
        def __init__(self, path: str):
            with scandir(path) as listing:
                self._entries = list(listing)[::-1]

        def __enter__(self) -> list[os.DirEntry[str]]:
            return self._entries

        def __exit__(self, *_: object) -> None: ...

    monkeypatch.setattr(os, "scandir", Reversed)
    assert [(s.student, s.path, names_in(s)) for s in find(tmp_path)] == before


@pytest.mark.parametrize(
    ("name", "student"),
    [
        ("ana\x1b[31m\nlee", "ana[31m lee"),
        ("ana\u202egnp.exe", "anagnp.exe"),
        ("a\u2066n\u2069a", "ana"),
        ("  ana \t lee ", "ana lee"),
        (os.fsdecode(b"zo\xeb"), "zo\ufffd"),
        ("x" * 200, "x" * 49 + "…" + "x" * 30),
        ("\u200b", "without a name"),
    ],
)
def test_names_are_cleaned(name: str, student: str, tmp_path: Path) -> None:
    submission = only(find(laid_out(tmp_path, f"{name}/{name}.ipynb")))
    assert submission.student == student
    for text in (submission.student, submission.path, *names_in(submission)):
        assert not {unicodedata.category(c) for c in text} & {"Cc", "Cf", "Cs"}


def test_paths_are_unique_although_they_are_cleaned(tmp_path: Path) -> None:
    found = find(laid_out(tmp_path, "ana\u200b/a.ipynb", "ana\u202e/a.ipynb", "ana/a.ipynb"))
    assert len({submission.path for submission in found}) == 3


def test_a_zip_that_does_not_say_how_its_names_are_spelled_is_read(tmp_path: Path) -> None:
    data = packed("Zo??/work.ipynb").replace(b"Zo??", "Zoë".encode())
    (tmp_path / "class.zip").write_bytes(data)
    assert by_student(find(tmp_path / "class.zip")) == {"Zoë": ["work.ipynb"]}


# --- nothing to read ---


@pytest.mark.parametrize(
    ("names", "said"),
    [
        ((), "is empty"),
        ((".git/x",), "is empty"),
        (("README.md", "grades.csv"), "holds no submission. There should be a folder, a notebook"),
    ],
)
def test_a_folder_without_submissions_is_told_in_words(names: tuple[str, ...], said: str, tmp_path: Path) -> None:
    with pytest.raises(SubmissionsError, match=said):
        find(laid_out(tmp_path, *names))


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("nowhere", "nowhere cannot be read: No such file.*Is the path right"),
        ("notes.txt", "notes.txt is neither a folder nor a notebook"),
        ("broken.zip", "broken.zip cannot be read: it is not a zip file, or it is damaged"),
        ("pipe.zip", "pipe.zip is neither"),
    ],
)
def test_what_holds_no_submissions_is_told_in_words(name: str, said: str, tmp_path: Path) -> None:
    laid_out(tmp_path, "notes.txt", "broken.zip")
    os.mkfifo(tmp_path / "pipe.zip")
    with pytest.raises(SubmissionsError, match=said):
        find(tmp_path / name)


def test_each_problem_is_told_and_stops_no_other(tmp_path: Path) -> None:
    laid_out(
        tmp_path, "a/", "b/.hidden.ipynb", "c/x.pdf", "d/1.txt", "d/2.txt", "d/3.txt", "d/4.txt", "g.rar", "z.ipynb"
    )
    (tmp_path / "e.zip").write_bytes(b"PK\x03\x04 no zip")
    (tmp_path / "f.zip").write_bytes(packed())
    (tmp_path / "h.zip").write_bytes(packed("work.py"))
    assert by_student(find(tmp_path)) == {
        "a": ["The folder is empty, hidden files aside."],
        "b": ["The folder is empty, hidden files aside."],
        "c": ["There is no notebook (.ipynb) in it, only: x.pdf."],
        "d": ["There is no notebook (.ipynb) among its 4 files."],
        "e": ["e.zip was not read: it is not a zip file, or it is damaged."],
        "f": ["f.zip is empty."],
        "g": ["There is no notebook (.ipynb) in it, only: g.rar."],
        "h": ["There is no notebook (.ipynb) in it, only: h.zip/work.py."],
        "z": ["z.ipynb"],
    }


def test_a_submission_with_a_problem_raises_it(tmp_path: Path) -> None:
    with pytest.raises(SubmissionsError, match="The folder is empty"):
        only(find(laid_out(tmp_path, "ana/"))).notebooks()


def test_what_vanishes_after_the_listing_is_told(tmp_path: Path) -> None:
    submission = only(find(laid_out(tmp_path, "ana/a.ipynb")))
    (tmp_path / "ana" / "a.ipynb").unlink()
    with pytest.raises(SubmissionsError, match="There is no notebook"):
        submission.notebooks()


def test_a_file_that_may_not_be_read_costs_no_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    laid_out(tmp_path, "ana/a.ipynb", "ana/b.ipynb", "ben/a.ipynb")
    refused = {str(tmp_path / "ana" / "a.ipynb"), str(tmp_path / "ben")}

    def refusing(function: Callable[..., Any]) -> Callable[..., Any]:
        def call(path: Any, *args: Any, **kwargs: Any) -> Any:
            if str(path) in refused:
                raise PermissionError(13, "Permission denied")
            return function(path, *args, **kwargs)

        return call

    monkeypatch.setattr(os, "open", refusing(os.open))  # permissions themselves do not bind a superuser
    monkeypatch.setattr(os, "scandir", refusing(os.scandir))
    ana, ben = find(tmp_path)
    assert ben.problem == "ben was not read: Permission denied."
    first, second = ana.notebooks()
    assert first == HandedIn("a.ipynb", b"", "a.ipynb was not read: Permission denied.")
    assert (second.data, second.problem) == (b"ana/b.ipynb", "")


# --- links, pipes and devices ---


def test_a_link_out_of_a_submission_is_not_followed(tmp_path: Path) -> None:
    laid_out(tmp_path, "secret/solution.ipynb", "class/ana/work.ipynb", "class/ben/work.ipynb")
    ana = tmp_path / "class" / "ana"
    (ana / "a.ipynb").symlink_to(tmp_path / "secret" / "solution.ipynb")
    (ana / "b.ipynb").symlink_to("../ben/work.ipynb")
    (ana / "c").symlink_to(tmp_path / "secret", target_is_directory=True)
    (ana / "d.ipynb").symlink_to("nowhere.ipynb")
    (ana / "e.ipynb").symlink_to("e.ipynb")
    (ana / "f").symlink_to(ana, target_is_directory=True)
    (ana / "g.ipynb").symlink_to("work.ipynb")
    found = find(tmp_path / "class")[0].notebooks()
    assert {notebook.name: notebook.problem or notebook.data for notebook in found} == {
        "a.ipynb": "a.ipynb was not read: it is a link that leads out of the submission.",
        "b.ipynb": "b.ipynb was not read: it is a link that leads out of the submission.",
        "c": "c was not read: it is a link that leads out of the submission.",
        "d.ipynb": "d.ipynb was not read: it is a link that leads nowhere.",
        "e.ipynb": "e.ipynb was not read: it is a link that leads nowhere.",
        "g.ipynb": b"class/ana/work.ipynb",
        "work.ipynb": b"class/ana/work.ipynb",
    }


@pytest.mark.parametrize("target", ["../secret.ipynb", "ana", "nowhere"])
def test_a_submission_that_is_a_link_is_not_followed(target: str, tmp_path: Path) -> None:
    laid_out(tmp_path, "secret.ipynb", "class/ana/work.ipynb")
    (tmp_path / "class" / "ben.ipynb").symlink_to(target)
    ben = find(tmp_path / "class")[1]
    assert ben.student.startswith("ben")
    assert ben.problem == "ben.ipynb was not read: it is a link that leads out of the submission."


def test_a_link_put_there_after_the_listing_is_not_followed(tmp_path: Path) -> None:
    laid_out(tmp_path, "secret.ipynb", "class/ana.ipynb")
    submission = only(find(tmp_path / "class"))
    (tmp_path / "class" / "ana.ipynb").unlink()
    (tmp_path / "class" / "ana.ipynb").symlink_to(tmp_path / "secret.ipynb")
    with pytest.raises(SubmissionsError, match="not an ordinary file"):
        submission.notebooks()


def test_pipes_sockets_and_devices_never_block(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    laid_out(tmp_path, "ana/z.ipynb")
    os.mkfifo(tmp_path / "ana" / "a.ipynb")
    os.mkfifo(tmp_path / "ana" / "b")
    os.mkfifo(tmp_path / "ben.ipynb")
    monkeypatch.chdir(tmp_path / "ana")  # the path of a socket may be short only
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind("c.ipynb")
        ana, ben = find(tmp_path)
        assert [(n.name, n.problem) for n in ana.notebooks()] == [
            ("a.ipynb", "a.ipynb was not read: it is not an ordinary file."),
            ("c.ipynb", "c.ipynb was not read: it is not an ordinary file."),
            ("z.ipynb", ""),
        ]
        assert ben.problem == "ben.ipynb was not read: it is not an ordinary file."


def test_opening_a_pipe_does_not_wait_for_its_other_end(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "a.ipynb")
    with pytest.raises(handed_in_files.NotReadableError, match="not an ordinary file"):
        handed_in_files.open_on_disk(tmp_path / "a.ipynb")


# --- zips that were made to do harm ---


def in_zip(name: str, content: bytes = NOTEBOOK, **fields: int) -> tuple[zipfile.ZipInfo, bytes]:
    info = zipfile.ZipInfo(name)
    info.create_system = 3
    for field, value in fields.items():
        setattr(info, field, value)
    return info, content


def zipped(path: Path, *members: tuple[zipfile.ZipInfo, bytes]) -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        for info, content in members:
            archive.writestr(info, content)
    return path


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("../../x.ipynb", "x.ipynb"),
        ("/etc/x.ipynb", "etc/x.ipynb"),
        ("a\\b\\x.ipynb", "a/b/x.ipynb"),
        ("C:\\Users\\x.ipynb", "Users/x.ipynb"),
        ("..\\..\\x.ipynb", "x.ipynb"),
        ("./a//x.ipynb", "a/x.ipynb"),
        ("a\u202e\x1b/x.ipynb", "a/x.ipynb"),
    ],
)
def test_a_member_that_points_elsewhere_is_read_and_goes_nowhere(name: str, shown: str, tmp_path: Path) -> None:
    zipped(tmp_path / "ana.zip", in_zip(name))
    before = sorted(tmp_path.rglob("*"))
    (notebook,) = only(find(tmp_path)).notebooks()
    assert (notebook.name, notebook.data) == (f"ana.zip/{shown}", NOTEBOOK)
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"external_attr": (stat.S_IFLNK | 0o777) << 16}, "it is not an ordinary file"),
        ({"external_attr": (stat.S_IFIFO | 0o666) << 16}, "it is not an ordinary file"),
        ({"external_attr": (stat.S_IFCHR | 0o666) << 16}, "it is not an ordinary file"),
        ({"compress_type": zipfile.ZIP_LZMA}, "it is packed in an unusual way, which ordinary zip programs do not use"),
        (
            {"compress_type": zipfile.ZIP_BZIP2},
            "it is packed in an unusual way, which ordinary zip programs do not use",
        ),
    ],
)
def test_a_member_that_is_no_ordinary_file_costs_no_other(
    fields: Mapping[str, int], reason: str, tmp_path: Path
) -> None:
    zipped(tmp_path / "ana.zip", in_zip("a.ipynb", b"/etc/passwd", **fields), in_zip("b.ipynb"))
    first, second = only(find(tmp_path)).notebooks()
    assert first == HandedIn("ana.zip/a.ipynb", b"", f"ana.zip/a.ipynb was not read: {reason}.")
    assert second.data == NOTEBOOK


def test_a_member_with_a_password_is_told(tmp_path: Path) -> None:
    data = bytearray(packed("a.ipynb"))
    data[6] |= 1
    data[data.index(b"PK\x01\x02") + 8] |= 1
    (tmp_path / "ana.zip").write_bytes(data)
    assert only(find(tmp_path)).problem == "ana.zip/a.ipynb was not read: it is protected by a password."


@pytest.mark.parametrize("place", ["data", "list", "end"])
def test_a_damaged_zip_costs_no_other_file(place: str, tmp_path: Path) -> None:
    laid_out(tmp_path, "ana/z.ipynb")
    data = bytearray(packed("a.ipynb"))
    at = {"data": 40, "list": data.index(b"PK\x01\x02") + 1, "end": len(data) - 10}[place]
    data[at] ^= 0xFF
    (tmp_path / "ana" / "work.zip").write_bytes(data)
    first, second = only(find(tmp_path)).notebooks()
    assert "was not read: it is" in first.problem
    assert second.name == "z.ipynb"


def test_a_zip_in_a_zip_is_read_and_no_deeper(tmp_path: Path) -> None:
    deepest = packed("c.ipynb")
    (tmp_path / "ana.zip").write_bytes(packed("a.ipynb", m__zip=packed("b.ipynb", n__zip=deepest)))
    found = only(find(tmp_path)).notebooks()
    assert [notebook.name for notebook in found if not notebook.problem] == ["ana.zip/a.ipynb", "ana.zip/m.zip/b.ipynb"]
    assert found[-1].problem == "ana.zip/m.zip/n.zip was not read: it is a zip in a zip in a zip."


def overlapping(count: int, content: bytes, *, declared: int | None = None) -> bytes:
    """A bomb: one packed file, listed `count` times. declared: the size that the list claims for it."""
    compressor = zlib.compressobj(9, zlib.DEFLATED, -15)
    data = compressor.compress(content) + compressor.flush()
    size = len(content) if declared is None else declared
    name = b"a.ipynb"
    sizes = struct.pack("<LLL", zlib.crc32(content), len(data), size)
    local = struct.pack("<4s5H", b"PK\x03\x04", 20, 0, 8, 0, 0) + sizes + struct.pack("<2H", len(name), 0) + name
    entry = struct.pack("<4s6H", b"PK\x01\x02", 20, 20, 0, 8, 0, 0) + sizes
    entry += struct.pack("<5H2L", len(name), 0, 0, 0, 0, 0, 0) + name
    start, listed = len(local) + len(data), len(entry) * count
    end = struct.pack("<4s4H2LH", b"PK\x05\x06", 0, 0, count & 0xFFFF, count & 0xFFFF, listed, start, 0)
    return local + data + entry * count + end


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Limits of 1 and 4 MB, and a record of how many bytes are unpacked."""
    monkeypatch.setattr(handed_in_files, "MOST_BYTES", 2**20)
    monkeypatch.setattr(handed_in_files, "MOST_BYTES_TOGETHER", 4 * 2**20)
    monkeypatch.setattr(handed_in_files, "_CHUNK", 2**16)
    unpacked: list[int] = []
    read = zipfile.ZipExtFile.read

    def counting(self: zipfile.ZipExtFile, n: int | None = -1) -> bytes:
        data = read(self, n)
        unpacked.append(len(data))
        return data

    monkeypatch.setattr(zipfile.ZipExtFile, "read", counting)
    return unpacked


MB = 2**20


@pytest.mark.parametrize(
    ("bomb", "read", "said"),
    [
        (overlapping(1, bytes(2 * MB)), 0, "it is larger than"),
        (overlapping(500, bytes(MB)), 4, "there are more than 50 notebooks"),
        (overlapping(1, bytes(2 * MB), declared=100), 0, "it is damaged"),
        (packed(**{f"{i:02}__zip": packed(a__ipynb=bytes(MB)) for i in range(20)}), 4, "the submission is larger than"),
        (packed(**{f"{i:02}__zip": packed("a.ipynb") for i in range(30)}), 4, "there are more than 20 zip files"),
        (packed(*(f"{i}.ipynb" for i in range(60))), 0, "there are more than 50 notebooks"),
    ],
)
def test_a_bomb_is_stopped_while_it_is_read(
    bomb: bytes, read: int, said: str, tmp_path: Path, small: list[int]
) -> None:
    assert len(bomb) < 100_000
    (tmp_path / "ana.zip").write_bytes(bomb)
    submission = only(find(tmp_path))
    try:
        told = [notebook.problem for notebook in submission.notebooks()]
    except SubmissionsError as error:
        told = [str(error)]
    assert any(said in problem for problem in told)
    assert sum(small) <= (read + 1) * MB


def test_too_many_notebooks_are_told_once(tmp_path: Path) -> None:
    found = only(find(laid_out(tmp_path, *(f"ana/{number:03}.ipynb" for number in range(70))))).notebooks()
    assert [bool(notebook.problem) for notebook in found] == [False] * MOST_NOTEBOOKS + [True]


@pytest.mark.parametrize("nested", [False, True])
def test_a_zip_with_endless_entries_is_not_listed(
    nested: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bomb = overlapping(200_000, b"x")
    made = 0
    init = zipfile.ZipInfo.__init__

    def counting(self: zipfile.ZipInfo, *args: Any, **kwargs: Any) -> None:
        nonlocal made
        made += 1
        init(self, *args, **kwargs)

    (tmp_path / "ana.zip").write_bytes(packed(inner__zip=bomb) if nested else bomb)
    monkeypatch.setattr(zipfile.ZipInfo, "__init__", counting)
    with pytest.raises(SubmissionsError, match="it holds more than 100,000 files"):
        only(find(tmp_path)).notebooks()
    assert made < 10


def test_a_zip_that_claims_an_endless_list_is_told(tmp_path: Path) -> None:
    data = bytearray(packed("a.ipynb"))
    data[-10:-6] = struct.pack("<L", 2**32 - 2)
    (tmp_path / "ana.zip").write_bytes(data)
    assert "was not read: it " in only(find(tmp_path)).problem


def test_a_huge_file_that_takes_no_room_on_the_disk_is_not_read(tmp_path: Path) -> None:
    laid_out(tmp_path, "ana/a.ipynb")
    with open(tmp_path / "ana" / "b.ipynb", "wb") as file:
        file.truncate(2**40)
    first, second = only(find(tmp_path)).notebooks()
    assert (first.problem, second.problem) == ("", "b.ipynb was not read: it is larger than 256 MB.")


def test_the_real_limits_hold_in_one_gigabyte_of_memory(tmp_path: Path) -> None:
    (tmp_path / "ana.zip").write_bytes(overlapping(1_000, bytes(200 * MB)))
    program = (
        "import resource, sys; from pathlib import Path\n"
        "from helpers.classroom.submissions import find\n"
        "resource.setrlimit(resource.RLIMIT_AS, (2**30, 2**30))\n"
        "found = find(Path(sys.argv[1]))[0].notebooks()\n"
        "print(sum(len(notebook.data) for notebook in found), found[-1].problem)"
    )
    command = [sys.executable, "-c", program, str(tmp_path)]
    result = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, timeout=120)
    assert (result.returncode, result.stderr) == (0, "")
    assert int(result.stdout.split()[0]) in (200 * MB, 400 * MB)  # newer Pythons refuse what overlaps, after the first
    assert "there are more than 50 notebooks" in result.stdout


# --- for the rest of the classroom ---


def test_a_submission_can_be_sent_to_another_process(tmp_path: Path) -> None:
    laid_out(tmp_path, "ana/a.ipynb")
    (tmp_path / "class.zip").write_bytes(packed("ben/b.ipynb"))
    for submission in (find(tmp_path)[0], only(find(tmp_path / "class.zip"))):
        assert pickle.loads(pickle.dumps(submission)).notebooks() == submission.notebooks()


def test_the_fingerprint_sees_names_bytes_and_problems() -> None:
    same = [HandedIn("a", b"1"), HandedIn("b", b"2")]
    others = [
        [HandedIn("a", b"1")],
        [HandedIn("a", b"12"), HandedIn("b", b"")],
        [HandedIn("b", b"1"), HandedIn("a", b"2")],
        [HandedIn("a", b"1"), HandedIn("b", b"2", "late")],
        [],
    ]
    prints = [fingerprint(notebooks) for notebooks in (same, list(same), *others)]
    assert prints[0] == prints[1]
    assert len(set(prints)) == 6
    assert json.dumps(prints[0]) == f'"{prints[0]}"'
    assert len(prints[0]) == 64

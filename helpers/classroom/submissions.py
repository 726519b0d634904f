"""What was handed in: one submission for each student, whatever the system it was downloaded from.

Its files are read by `handed_in_files`, on the trusted side: nothing of a submission is executed or written anywhere.
"""

from __future__ import annotations

import hashlib
import itertools
import os
import re
import stat
import unicodedata
import zipfile
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from helpers.classroom.handed_in_files import (
    MOST_BYTES,
    MOST_BYTES_TOGETHER,
    MOST_NOTEBOOKS,
    NO_NOTEBOOK,
    HandedIn,
    NotReadableError,
    Place,
    is_ignored,
    is_notebook,
    is_skipped,
    is_zip,
    link_outside,
    may_hold_one,
    open_on_disk,
    opened_zip,
    parts_of,
    problem_of,
    read_notebooks,
    shown,
    stem_of,
)
from helpers.course import NOTEBOOKS

__all__ = [
    "MOST_BYTES",
    "MOST_BYTES_TOGETHER",
    "MOST_NOTEBOOKS",
    "HandedIn",
    "Submission",
    "SubmissionsError",
    "find",
    "fingerprint",
]

_OTHER_WORK = (".7z", ".bz2", ".gz", ".py", ".rar", ".tar", ".tgz", ".xz")  # somebody's, but not readable here
_COURSE = {"helpers", "notebooks"}  # the folders of a whole copy of the course
_NBGRADER = {"source", "release", "autograded", "feedback", "gradebook.db", "nbgrader_config.py"}

# Full Name_1234567_assignsubmission_file_/work.ipynb, and flat: …_assignsubmission_file_work.ipynb. A team may lack the
# id, and newer versions drop the last underscore. Source: load_submissionplugin_filelist in
# https://github.com/moodle/moodle/blob/main/mod/assign/classes/downloader.php
_MOODLE = re.compile(r"(?P<name>.*?)(?:_(?P<id>\d+))?_assignsubmission_[a-z0-9]+(?:_.*)?", re.DOTALL)
# name_LATE_user_file_work.ipynb; without names: anon_id_file_work.ipynb; typed in: name_user_text.html. Source:
# add_submission in https://github.com/instructure/canvas-lms/blob/master/lib/content_zipper.rb
_CANVAS = re.compile(
    r"(?:(?:LATE_)?anon_(?P<anonymous>[A-Za-z0-9]+)|(?P<name>.+?)_(?:LATE_)?(?P<id>\d+))"
    r"_(?:\d+_.+|text\.html|link\.html)",
    re.DOTALL,
)
# ASSIGNMENT-submissions/ASSIGNMENT-student. Source:
# https://github.com/github/gh-classroom/blob/main/cmd/gh-classroom/clone/student-repos/student-repos.go
_CLASSROOM = re.compile(r"(?P<assignment>.+)-submissions", re.DOTALL)


class SubmissionsError(Exception):
    """Submissions that cannot be read. The message says what is wrong and what to do."""


@dataclass(frozen=True)
class Submission:
    """What one student handed in.

    student: a readable name, unique within the run. path: below the folder of submissions, for people; also unique.
    problem: a sentence when there is nothing to read, else "". What only shows on reading is told by `notebooks`.
    """

    student: str
    path: str
    problem: str
    _places: tuple[Place, ...] = field(repr=False)

    def notebooks(self) -> list[HandedIn]:
        """Read the notebooks, in the order of their names. Whatever could not be read has a `problem` there.

        Reads at most MOST_BYTES_TOGETHER bytes. Raises SubmissionsError in words when not one notebook could be read.
        """
        if self.problem:
            raise SubmissionsError(self.problem)
        found = read_notebooks(self._places)
        if all(notebook.problem for notebook in found):
            raise SubmissionsError(found[0].problem if found else NO_NOTEBOOK)
        names = _told_apart([(notebook.name, "") for notebook in found], same=str)
        return [replace(notebook, name=name) for notebook, name in zip(found, names, strict=True)]


def find(folder_or_zip: Path, *, single: bool = False, skip: Path | None = None) -> list[Submission]:
    """Find the submissions in a folder, or in the zip that a learning platform offers: one for each student.

    single: the folder, notebook or zip is one submission itself.
    skip: a folder that is not looked into, such as the one for the results.
    returns: sorted by student. Errors of one submission are told in its `problem` and never stop the others.
    Raises SubmissionsError when the folder is missing, empty, or cannot be read.
    """
    root = Path(os.path.abspath(folder_or_zip))
    try:
        mode = root.stat().st_mode
    except OSError as error:
        raise SubmissionsError(f"{folder_or_zip} cannot be read: {error.strerror}. Is the path right?") from error
    packed = stat.S_ISREG(mode) and is_zip(root.name)
    if not (stat.S_ISDIR(mode) or packed or (stat.S_ISREG(mode) and is_notebook(root.name))):
        raise SubmissionsError(f"{folder_or_zip} is neither a folder nor a notebook (.ipynb) nor a zip file.")
    skipped = None if skip is None else os.path.realpath(skip)
    whole = _Entry(root.name, root.name, stat.S_ISDIR(mode), Place(root.resolve(), skip=skipped))
    if single or not (stat.S_ISDIR(mode) or packed):
        return _submissions([whole], "")
    entries, container = _top_of_zip(root) if packed else _top_of_folder(root, skipped)
    if not entries:
        raise SubmissionsError(f"{folder_or_zip} is empty: there is no submission in it.")
    if _belongs_to_one_student(entries):
        return _submissions([whole], "")
    chosen = [entry for entry in entries if _is_somebodys(entry)]
    if not chosen:
        raise SubmissionsError(
            f"{folder_or_zip} holds no submission. There should be a folder, a notebook (.ipynb) or a zip file "
            "for each student."
        )
    return _submissions(chosen, container)


def fingerprint(notebooks: Iterable[HandedIn]) -> str:
    """A hash over names, bytes and problems: equal when the same was handed in again."""
    total = hashlib.sha256()
    for notebook in notebooks:
        for part in (notebook.name.encode(), notebook.data, notebook.problem.encode()):
            total.update(len(part).to_bytes(8, "big"))
            total.update(part)
    return total.hexdigest()


# --- whose is it? ---


@dataclass(frozen=True)
class _Entry:
    """Something at the top level. name: as it is spelled there; path: below the folder of submissions."""

    name: str
    path: str
    is_folder: bool
    place: Place


def _top_of_folder(root: Path, skip: str | None) -> tuple[list[_Entry], str]:
    """The entries of the folder that holds the submissions, which may lie one level further down, and its name."""
    entries = _entries_of_folder(root, root, skip)
    inner = _inner_folder({entry.name: entry.is_folder and not entry.place.trouble for entry in entries})
    if inner is not None:
        return _entries_of_folder(root / inner, root, skip), inner
    if len(entries) == 1 and entries[0].is_folder and not entries[0].place.trouble:
        with suppress(SubmissionsError):  # if it cannot be read, it is the problem of one submission
            below = _entries_of_folder(root / entries[0].name, root, skip)
            if below and all(_is_by_platform(entry.name) for entry in below):  # unpacked into a folder of its own
                return below, entries[0].name
    return entries, root.name


def _entries_of_folder(folder: Path, root: Path, skip: str | None) -> list[_Entry]:
    entries = []
    try:
        with os.scandir(folder) as listing:
            for found in listing:
                if is_ignored(found.name) or is_skipped(found.path, skip):
                    continue
                path = os.path.relpath(found.path, root)
                if found.is_symlink():  # even inside the folder it leads to somebody else's work
                    place = Place(Path(found.path), trouble=link_outside(found.name))
                    entries.append(_Entry(found.name, path, not os.path.isfile(found.path), place))
                else:
                    entries.append(_Entry(found.name, path, found.is_dir(), Place(Path(found.path), skip=skip)))
    except OSError as error:
        raise SubmissionsError(f"{folder} cannot be read: {error.strerror}.") from error
    return sorted(entries, key=lambda entry: entry.name)


def _top_of_zip(path: Path) -> tuple[list[_Entry], str]:
    """The same for a zip: its members, grouped by the first part of their names."""
    try:
        with open_on_disk(path) as stream, opened_zip(stream) as archive:
            members = [
                (parts, info)
                for info in archive.infolist()
                if (parts := parts_of(info)) and not any(map(is_ignored, parts))
            ]
    except NotReadableError as error:
        raise SubmissionsError(f"{path} cannot be read: {error}.") from error
    except OSError as error:
        raise SubmissionsError(f"{path} cannot be read: {error.strerror}.") from error
    container, strip = "", 0
    while (inner := _inner_of_zip(members, path.stem if strip == 0 else None)) is not None:
        members = [(parts[1:], info) for parts, info in members if parts[0] == inner and len(parts) > 1]
        container, strip = inner, strip + 1
    groups: dict[str, list[tuple[tuple[str, ...], zipfile.ZipInfo]]] = {}
    for parts, info in members:
        groups.setdefault(parts[0], []).append((parts, info))
    entries = []
    for name, group in sorted(groups.items()):
        is_folder = any(len(parts) > 1 or info.is_dir() for parts, info in group)
        offsets = frozenset(info.header_offset for _, info in group)
        place = Place(path, members=offsets, strip=strip + is_folder)
        entries.append(_Entry(name, "/".join(parts_of(group[0][1])[: strip + 1]), is_folder, place))
    return entries, container


def _inner_of_zip(members: Sequence[tuple[tuple[str, ...], zipfile.ZipInfo]], stem: str | None) -> str | None:
    """The folder in the zip that holds the submissions; None when its top level does."""
    tops = _kinds(members, 0)
    if len(tops) == 1 and stem is not None:  # a folder packed as a whole is the only thing in its zip
        only, is_folder = next(iter(tops.items()))
        below = _kinds(members, 1)
        several = [name for name, is_one in below.items() if is_one or may_hold_one(name)]
        is_class = len(several) > 1 and not {stem_of(name) for name in several} <= set(NOTEBOOKS)
        is_class |= only == stem or any(map(_is_by_platform, below))
        if is_folder and is_class and not _MOODLE.fullmatch(only) and not set(below) >= _COURSE:
            return only
    return _inner_folder(tops)


def _kinds(members: Sequence[tuple[tuple[str, ...], zipfile.ZipInfo]], depth: int) -> dict[str, bool]:
    """The names at a depth of a zip. returns: name → is it a folder?"""
    kinds: dict[str, bool] = {}
    for parts, info in members:
        if len(parts) > depth:
            kinds[parts[depth]] = kinds.get(parts[depth], False) or len(parts) > depth + 1 or info.is_dir()
    return kinds


def _inner_folder(names: dict[str, bool]) -> str | None:
    """The folder below that holds the submissions, by the habits of nbgrader and GitHub Classroom.

    names: name → is it a folder?
    nbgrader keeps submitted/STUDENT/ASSIGNMENT/NOTEBOOK.ipynb beside its other folders. Source:
    https://nbgrader.readthedocs.io/en/stable/user_guide/philosophy.html
    """
    folders = [name for name, is_folder in names.items() if is_folder]
    if "submitted" in folders and (len(folders) == 1 or _NBGRADER & set(names)):
        return "submitted"
    return folders[0] if len(names) == 1 and folders and _CLASSROOM.fullmatch(folders[0]) else None


def _belongs_to_one_student(entries: Sequence[_Entry]) -> bool:
    """True for a copy of the course, or its notebooks: several with its own names, and no student's name anywhere."""
    if {entry.name for entry in entries} >= _COURSE:
        return True
    stems = [stem_of(entry.name) for entry in entries if not entry.is_folder and is_notebook(entry.name)]
    others = [entry for entry in entries if _is_somebodys(entry) and stem_of(entry.name) not in stems]
    return len(stems) > 1 and set(stems) <= set(NOTEBOOKS) and not others


def _is_somebodys(entry: _Entry) -> bool:
    """False for what lies about beside the submissions, such as a table of grades."""
    name = entry.name
    return entry.is_folder or may_hold_one(name) or name.lower().endswith(_OTHER_WORK) or _is_by_platform(name)


def _is_by_platform(name: str) -> bool:
    return bool(_MOODLE.fullmatch(name) or _CANVAS.fullmatch(name))


def _whose(entry: _Entry, container: str) -> tuple[str, str, str]:
    """Read the student off a name. returns: what all files of one student share, the name, what may tell it apart"""
    moodle = _MOODLE.fullmatch(entry.name)
    if moodle:
        return f"moodle {moodle['name']} {moodle['id']}", moodle["name"], moodle["id"] or entry.name
    canvas = None if entry.is_folder else _CANVAS.fullmatch(entry.name)
    if canvas:
        number = canvas["id"] or canvas["anonymous"]
        return f"canvas {number}", canvas["name"] or f"anon_{number}", number
    name = entry.name if entry.is_folder else stem_of(entry.name)
    classroom = _CLASSROOM.fullmatch(container)
    if classroom and entry.is_folder:
        name = name.removeprefix(f"{classroom['assignment']}-") or name
    return f"name {entry.name}", name, entry.name


def _submissions(entries: Sequence[_Entry], container: str) -> list[Submission]:
    groups: dict[str, list[_Entry]] = {}
    names: dict[str, tuple[str, str]] = {}
    for entry in sorted(entries, key=lambda entry: entry.name):
        shared, name, apart = _whose(entry, container)
        groups.setdefault(shared, []).append(entry)
        names.setdefault(shared, (shown(name), shown(apart)))
    order = list(groups)
    students = _told_apart([names[shared] for shared in order])
    paths = _told_apart([(_paths(groups[shared]), "") for shared in order], same=str)
    found = []
    for shared, student, path in zip(order, students, paths, strict=True):
        places = tuple(entry.place for entry in groups[shared])
        found.append(Submission(student, path, problem_of(places), places))
    return sorted(found, key=lambda submission: (submission.student.casefold(), submission.student))


def _paths(entries: Sequence[_Entry]) -> str:
    paths = ["/".join(map(shown, entry.path.replace(os.sep, "/").split("/"))) for entry in entries]
    return ", ".join(paths if len(paths) <= 3 else [*paths[:3], "…"])


def _same(name: str) -> str:
    """What is the same for a disk or a reader that does not tell upper from lower case, or two ways to write é."""
    return unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", name).casefold())


def _told_apart(names: Sequence[tuple[str, str]], same: Callable[[str], str] = _same) -> list[str]:
    """Make names unique. names: each with what may tell it apart, or "". The last resort is a number, in order."""
    often = Counter(same(name) for name, _ in names)
    longer = [
        f"{name} ({apart})" if often[same(name)] > 1 and apart not in ("", name) else name for name, apart in names
    ]
    often = Counter(map(same, longer))
    taken = {name for name, count in often.items() if count == 1}
    unique = []
    for name in longer:
        if often[same(name)] > 1:
            numbered = (f"{name} ({number})" for number in itertools.count(1))
            name = next(candidate for candidate in numbered if same(candidate) not in taken)
            taken.add(same(name))
        unique.append(name)
    return unique

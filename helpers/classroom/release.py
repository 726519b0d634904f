"""Writes the student edition: a copy of the course with its checks, and nothing in it from which an answer can be read.

What is in it is named here; whatever is not named stays out, so that a new file does not slip through.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import stat
import subprocess
import tempfile
import zipfile
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

from helpers import notebook, paths, source
from helpers.course import BY_NAME, EXERCISES, NOTEBOOKS, Exercise

TEMPLATES = Path(__file__).parent / "templates"
MARKER = ".student-edition.json"  # says that a folder holds a student edition, and which files belong to it
ZIP_FOLDER = "attention-by-hand"  # what the zip unpacks to

# Copied byte by byte. A star stands for any characters, slashes too.
COPIED = (
    *(f"notebooks/{stem}.ipynb" for stem in NOTEBOOKS),
    *("helpers/*.py", "helpers/*.json", "helpers/*.html", "helpers/*.css", "helpers/*.safetensors"),
    *("environment.yml", "pyproject.toml", "constraints.txt", "LICENSE", "LICENSE-text", ".gitignore"),
    "docs/images/*.png",
)
# What the teacher's copy alone can do, as it needs the solutions.
KEPT_BACK = (
    *("helpers/judge/record.py", "helpers/judge/matrix.py"),
    *("helpers/classroom/release.py", "helpers/classroom/nbgrader_export.py", "helpers/classroom/templates/*"),
)
TARGETS = ("help", "lab", "clean")  # of the Makefile; the others need tests, solutions or tools for authors
_FIRST_LINE = "# The whole course in a few words: `make lab` to learn. `make` alone lists them."
_GONE = ("solutions", "tests")  # folders that a kept target names, and that are not there
_NEEDED = ("README.md", "Makefile", "pyproject.toml", "constraints.txt", "environment.yml", "LICENSE")
_JUNK = (".venv", "__pycache__", ".ipynb_checkpoints", ".DS_Store", "*.egg-info", "*_cache")
_EARLIEST = (1980, 1, 1, 0, 0, 0)  # the first time that a zip can hold
_WRITTEN = "{folder}: the student edition, {count} files, {size:.1f} MB. It holds no solutions and no known mistakes."
_ZIPPED = "{zip_file}: the same as a zip file, {size:.1f} MB."
_SET_ASIDE = "What was in {folder} before is now in {aside}."


class ReleaseError(Exception):
    """A release that cannot be written. The message says why and what to do; what was there is as it was."""


@dataclass(frozen=True)
class ReleaseReport:
    """What was written.

    files: name below the folder → size in bytes, in order, without the marker
    set_aside: where the former contents of the folder are, if they were more than a former release
    """

    folder: Path
    files: Mapping[str, int]
    zip_file: Path | None = None
    zip_size: int = 0
    set_aside: Path | None = None

    def __str__(self) -> str:
        size = sum(self.files.values()) / 1e6
        lines = [_WRITTEN.format(folder=self.folder, count=len(self.files), size=size)]
        if self.zip_file is not None:
            lines.append(_ZIPPED.format(zip_file=self.zip_file, size=self.zip_size / 1e6))
        if self.set_aside is not None:
            lines.append(_SET_ASIDE.format(folder=self.folder, aside=self.set_aside))
        return "\n".join(lines)


def release(to: Path, *, zip_to: Path | None = None, force: bool = False, root: Path = paths.ROOT) -> ReleaseReport:
    """Write the student edition into a folder, and into a zip file if one is named.

    The same state of the course gives the same bytes. Nothing half-written is left: all of it is written beside its
    place and then swapped in. A `.git` in the folder stays, so it may be the checkout of a repository.

    to: a new or empty folder, or one that holds a former release as it was written
    zip_to: replaced if it holds a former release
    force: use the folder and the zip file whatever they hold; the folder's former contents are kept beside it
    root: the copy of the course to release; it may lack `solutions/`
    raises: ReleaseError in words
    """
    to = to.resolve()
    zip_to = None if zip_to is None else zip_to.resolve()
    _require_place(to, zip_to, root.resolve(), force)
    files = student_files(root.resolve(), without=to)
    written = {**files, MARKER: _marker(files)}
    with _in_words(to), _beside(to) as new:
        for name, data in written.items():
            file = new / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(data)
            file.chmod(0o644)
        for folder in (new, *(path for path in new.rglob("*") if path.is_dir())):
            folder.chmod(0o755)
        packed = None if zip_to is None else _pack(written, zip_to)
        try:
            aside = _swap(new, to)
            if packed is not None and zip_to is not None:
                packed.replace(zip_to)
        finally:
            if packed is not None:
                packed.unlink(missing_ok=True)
    size = 0 if zip_to is None else zip_to.stat().st_size
    return ReleaseReport(to, {name: len(data) for name, data in files.items()}, zip_to, size, aside)


# ---- what is in it ---------------------------------------------------------------------------------------


def student_files(root: Path, *, without: Path | None = None) -> dict[str, bytes]:
    """The files of the student edition: name → bytes, in order.

    without: a folder to leave out, as it is where the release goes
    raises: ReleaseError when a file is missing, or a notebook holds an answer
    """
    names = [name for name in _candidates(root) if without is None or not (root / name).is_relative_to(without)]
    copied = [name for name in names if _matches(name, COPIED) and not _matches(name, KEPT_BACK)]
    notebooks = [f"notebooks/{stem}.ipynb" for stem in NOTEBOOKS]
    missing = [name for name in (*_NEEDED, *notebooks) if name not in names]
    if missing:
        raise ReleaseError(f"This copy of the course is not complete: {missing[0]} is missing in {root}.")
    with _in_words(root):
        files = {name: (root / name).read_bytes() for name in copied}
        readme, makefile = ((root / name).read_text("utf-8") for name in ("README.md", "Makefile"))
        template = (TEMPLATES / "README.md").read_text("utf-8")
        files[".github/workflows/grade.yml"] = (TEMPLATES / "grade.yml").read_bytes()
    for name in notebooks:
        _require_open_blanks(root / name)
    files["Makefile"] = student_makefile(makefile).encode()
    files["README.md"] = student_readme(readme, template).encode()
    pictures = set(re.findall(r"\]\((docs/[^)]+)\)", files["README.md"].decode()))
    return {name: files[name] for name in sorted(files) if not name.startswith("docs/") or name in pictures}


def _candidates(root: Path) -> list[str]:
    """The names of all files that belong to this copy: git knows them; without git, all that there are."""
    if (root / ".git").exists() and shutil.which("git"):
        command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
        listed = subprocess.run(command, cwd=root, capture_output=True)
        if listed.returncode == 0:
            names = listed.stdout.decode().rstrip("\0").split("\0")
            return sorted({name for name in names if _is_plain_file(root / name)})
    return sorted(name for name in _walked(root) if _is_plain_file(root / name))


def _walked(root: Path) -> Iterator[str]:
    for folder, folders, names in os.walk(root):
        folders[:] = [name for name in folders if name != ".git" and not _matches(name, _JUNK)]
        yield from ((Path(folder) / name).relative_to(root).as_posix() for name in names)


def _is_plain_file(path: Path) -> bool:
    return path.is_file() and not path.is_symlink()


def _matches(name: str, patterns: Collection[str]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)


def _require_open_blanks(path: Path) -> None:
    """Raises ReleaseError when somebody worked in this copy of a notebook."""
    try:
        read = notebook.read(path)
    except notebook.NotebookError as error:
        raise ReleaseError(str(error)) from error
    answers = notebook.find_answers(read).cells
    for name in BY_NAME:
        written = [source.definition(read.cells[number - 1].source, name) for number in answers.get(name, ())]
        if any(text is not None and not source.is_blank(text) for text in written):
            raise ReleaseError(
                f"{path} holds an answer to {name}. Put the blank back before you hand the course out, "
                f"for example with `git checkout {path.parent.name}/{path.name}`."
            )


def student_makefile(makefile: str) -> str:
    """The Makefile with the targets that work in a student edition; everything else stays as it is."""
    blocks = re.split(r"\n{2,}", makefile.rstrip("\n"))
    kept = [block for block in blocks if _serves(block)]
    text = "\n\n".join(kept) + "\n"
    text = re.sub(r"\A(?:#.*\n)+?(?=[^#])", f"{_FIRST_LINE}\n", text)
    text = re.sub(r"^\.PHONY:.*$", f".PHONY: {' '.join(TARGETS)}", text, flags=re.MULTILINE)
    return re.sub(rf" (?:{'|'.join(_GONE)})\b", "", text)


def _serves(block: str) -> bool:
    """True for a variable, and for a rule that a kept target needs."""
    rule = re.match(r"([^\s#:=]+):(?!=)", block)
    if rule is None or rule[1] in (".PHONY", *TARGETS):
        return True
    return rule[1].startswith("$(") and not rule[1].endswith("-test")  # the environment, without the tools of the tests


def student_readme(readme: str, template: str) -> str:
    """Fill the template with parts of the course's README: `{{intro}}` is its beginning, `{{section TITLE}}` a section.

    What speaks of a make target that is not there is left out; minutes and points come from `course.py`.
    raises: ReleaseError when the README has no such section
    """
    parts = re.split(r"^(?=## )", readme, flags=re.MULTILINE)
    sections = {part.split("\n", 1)[0].removeprefix("## "): part for part in parts[1:]}

    def taken(match: re.Match[str]) -> str:
        title = match[1]
        if title is None:
            return _for_students(parts[0])
        if title not in sections:
            raise ReleaseError(f'README.md has no section "{title}", which the student edition takes from it.')
        return _for_students(sections[title])

    text = re.sub(r"^\{\{(?:intro|section (.+))\}\}$", taken, template, flags=re.MULTILINE)
    return _with_numbers(text)


def _for_students(section: str) -> str:
    """A section without the paragraphs that need a target of the Makefile that is not there."""
    kept: list[str] = []
    for paragraph in re.split(r"\n{2,}", section.strip("\n")):
        if set(re.findall(r"\bmake (\w+)", "\n".join(_code_in(paragraph)))) - set(TARGETS):
            while kept and kept[-1].endswith(":"):  # the sentence that led to it
                kept.pop()
        else:
            kept.append(paragraph)
    return "\n\n".join(kept)


def _code_in(paragraph: str) -> list[str]:
    return re.findall(r"```.*?```|`[^`]+`", paragraph, flags=re.DOTALL)


def _with_numbers(text: str) -> str:
    """The table of notebooks with the minutes and points that `course.py` says."""
    for stem in NOTEBOOKS:
        here = [exercise for exercise in EXERCISES if exercise.notebook == stem]
        row = rf"^(\| \[`{stem}`\].*\|) \d+ \| \d+ \|$"
        text, found = re.subn(row, rf"\1 {_numbers(here)}", text, flags=re.MULTILINE)
        if found != 1:
            raise ReleaseError(f"The table of notebooks in README.md has no row for {stem}.")
    return re.sub(r"^(\| all \|.*\|) \d+ \| \d+ \|$", rf"\1 {_numbers(EXERCISES)}", text, flags=re.MULTILINE)


def _numbers(exercises: Collection[Exercise]) -> str:
    return f"{sum(e.minutes for e in exercises)} | {sum(e.points for e in exercises)} |"


# ---- where it goes ---------------------------------------------------------------------------------------


def _require_place(to: Path, zip_to: Path | None, root: Path, force: bool) -> None:
    """Raises ReleaseError when something would be lost, or when the course itself is in the way."""
    if to == root or to in root.parents or any(to.is_relative_to(root / name) for name in ("helpers", "notebooks")):
        raise ReleaseError(f"{to} holds the course itself. Choose another folder.")
    if to.exists() and not to.is_dir():
        raise ReleaseError(f"{to} is a file. Choose a folder.")
    if zip_to is not None and zip_to.is_relative_to(to):
        raise ReleaseError(f"{zip_to} would lie in the folder that it packs. Choose a place outside {to}.")
    if zip_to is not None and zip_to.is_dir():
        raise ReleaseError(f"{zip_to} is a folder. Choose a file.")
    if force:
        return
    with _in_words(to):
        odd = _first_foreign(to)
    if odd is not None:
        raise ReleaseError(
            f"{to} is not empty, and {odd} is no file of a former release as it was written. "
            "Choose another folder, or add --force: then what is there is kept beside it."
        )
    if zip_to is not None and zip_to.exists() and not _is_packed_release(zip_to):
        raise ReleaseError(f"{zip_to} exists and is no former release. Choose another file, or add --force.")


def _first_foreign(folder: Path) -> str | None:
    """A file that would be lost with this folder: one that is neither junk nor a former release's, or was changed."""
    known = _marked(folder)
    for path in sorted(folder.rglob("*")) if folder.is_dir() else ():
        parts, name = path.relative_to(folder).parts, path.relative_to(folder).as_posix()
        if parts[0] == ".git" or any(_matches(part, _JUNK) for part in parts) or name == MARKER:
            continue
        if path.is_dir() and not path.is_symlink():
            continue
        ours = name in known and _is_plain_file(path) and _checksum(path.read_bytes()) == known[name]
        if not ours:
            return name
    return None


def _checksum(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _marker(files: Mapping[str, bytes]) -> bytes:
    sums = {name: _checksum(data) for name, data in files.items()}
    return (json.dumps({"student edition of": ZIP_FOLDER, "sha256": sums}, indent=1) + "\n").encode()


def _marked(folder: Path) -> dict[str, str]:
    """Name → checksum of the files of a former release in this folder; empty where there is none."""
    try:
        sums = json.loads((folder / MARKER).read_text("utf-8"))["sha256"]
    except (OSError, ValueError, KeyError, TypeError):
        return {}
    return sums if isinstance(sums, dict) else {}


def _is_packed_release(file: Path) -> bool:
    try:
        with zipfile.ZipFile(file) as packed:
            return f"{ZIP_FOLDER}/{MARKER}" in packed.namelist()
    except (OSError, zipfile.BadZipFile):
        return False


@contextmanager
def _in_words(place: Path) -> Iterator[None]:
    """What the operating system refuses, as a sentence."""
    try:
        yield
    except OSError as error:
        where = error.filename if error.filename is not None else place
        raise ReleaseError(
            f"The release stopped at {where}: {error.strerror or error}. Nothing was changed."
        ) from error


@contextmanager
def _beside(to: Path) -> Iterator[Path]:
    """A new folder in the same place, gone afterwards if it is still there."""
    to.parent.mkdir(parents=True, exist_ok=True)
    new = Path(tempfile.mkdtemp(prefix=f".{to.name}.", dir=to.parent))
    try:
        yield new
    finally:
        shutil.rmtree(new, ignore_errors=True)


def _swap(new: Path, to: Path) -> Path | None:
    """Put the new folder in the place of the old one. Returns where the old one is, if it held more than a release."""
    if not to.exists():
        new.rename(to)
        return None
    lost = _first_foreign(to) is not None
    old = _free_name(to) if lost else Path(tempfile.mkdtemp(prefix=f".{to.name}.", dir=to.parent)) / "old"
    to.rename(old)
    try:
        if (old / ".git").exists():
            (old / ".git").rename(new / ".git")
        new.rename(to)
    except OSError:
        if (new / ".git").exists():
            (new / ".git").rename(old / ".git")
        old.rename(to)
        raise
    finally:
        if not lost:
            shutil.rmtree(old.parent, ignore_errors=True)
    return old if lost else None


def _free_name(to: Path) -> Path:
    """A name beside a folder that is not taken: `edition.before`, `edition.before-2`, …"""
    first = to.with_name(f"{to.name}.before")
    numbered = (to.with_name(f"{first.name}-{number}") for number in range(2, 1000))
    return next(name for name in (first, *numbered) if not name.exists())


def _pack(files: Mapping[str, bytes], zip_to: Path) -> Path:
    """The zip file, written beside its place: sorted, one time and one set of permissions for all."""
    zip_to.parent.mkdir(parents=True, exist_ok=True)
    handle, beside = tempfile.mkstemp(prefix=f".{zip_to.name}.", dir=zip_to.parent)
    try:
        with os.fdopen(handle, "wb") as stream, zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as packed:
            for name in sorted(files):
                entry = zipfile.ZipInfo(f"{ZIP_FOLDER}/{name}", _EARLIEST)
                entry.compress_type = zipfile.ZIP_DEFLATED
                entry.create_system = 3  # Unix, on every machine
                entry.external_attr = (stat.S_IFREG | 0o644) << 16
                packed.writestr(entry, files[name])
        os.chmod(beside, 0o644)
    except BaseException:
        Path(beside).unlink(missing_ok=True)
        raise
    return Path(beside)

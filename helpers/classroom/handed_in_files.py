"""Reads what was handed in, as bytes and within limits: from folders, from zips, from a zip in a zip.

This is the trusted side. Nothing of a submission is executed, unpickled, unpacked to disk or written anywhere, and no
link is followed out of it. All names in a submission are hostile data: they are cleaned before they are told.
"""

from __future__ import annotations

import io
import os
import re
import stat
import unicodedata
import zipfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import BinaryIO

MOST_BYTES = 256 * 2**20  # of one notebook, and of a zip inside a zip
MOST_BYTES_TOGETHER = 512 * 2**20  # read for one submission
MOST_NOTEBOOKS = 50  # of one submission
MOST_ZIPS = 20  # opened in one submission
MOST_FILES = 100_000  # looked at in one folder or zip
MOST_DIRECTORY_BYTES = 8 * 2**20  # the list of contents at the end of a zip, which is read in one go
_CHUNK = 2**20  # bytes read at a time

_IGNORED = {"__MACOSX", "__pycache__", "venv", "node_modules", "site-packages"}
NOTEBOOK_ENDINGS = (".ipynb.json", ".ipynb.txt", ".ipynb")  # browsers save notebooks under the longer names

_EMPTY = "The folder is empty, hidden files aside."
_EMPTY_ZIP = "{name} is empty."
NO_NOTEBOOK = "There is no notebook (.ipynb) in it."
_OTHER_FILES = "There is no notebook (.ipynb) in it, only: {names}."
_MANY_OTHER_FILES = "There is no notebook (.ipynb) among its {count} files."
_NOT_READ = "{name} was not read: {reason}."
_OUTSIDE = "it is a link that leads out of the submission"
_NOWHERE = "it is a link that leads nowhere"
_NOT_A_FILE = "it is not an ordinary file"
_TOO_LARGE = f"it is larger than {MOST_BYTES // 2**20} MB"
_TOO_MUCH = f"the submission is larger than {MOST_BYTES_TOGETHER // 2**20} MB"
_TOO_MANY_NOTEBOOKS = f"there are more than {MOST_NOTEBOOKS} notebooks"
_TOO_MANY_ZIPS = f"there are more than {MOST_ZIPS} zip files"
_TOO_MANY_FILES = f"it holds more than {MOST_FILES:,} files"
_TOO_DEEP = "it is a zip in a zip in a zip"
_PASSWORD = "it is protected by a password"
_METHOD = "it is packed in an unusual way, which ordinary zip programs do not use"
_NO_ZIP = "it is not a zip file, or it is damaged"
_DAMAGED = "it is damaged"


@dataclass(frozen=True)
class HandedIn:
    """A notebook of a submission.

    name: its path inside the submission, cleaned, unique there. data: its bytes, whatever they are.
    problem: a sentence when it could not be read; `data` is empty then, and `name` may be that of a folder or a zip.
    """

    name: str
    data: bytes = field(repr=False)
    problem: str = ""


@dataclass(frozen=True)
class Place:
    """Where files of a submission lie: a folder or file on disk, or some members of a zip.

    members: offsets in the zip `path`, which say which member it is; None when `path` itself is meant.
    strip: how many parts of the members' names belong to the folder of the student.
    skip: a real path that is not looked into. trouble: a sentence when nothing can be read here.
    """

    path: Path
    members: frozenset[int] | None = None
    strip: int = 0
    skip: str | None = None
    trouble: str = ""


class NotReadableError(Exception):
    """A file that is not read. The message completes `_NOT_READ`."""


@dataclass(frozen=True)
class _File:
    """A regular file of a submission. size: as declared, in bytes. in_zip: its stream cannot jump about quickly."""

    name: str
    size: int
    open: Callable[[], BinaryIO]
    in_zip: bool


_Item = _File | HandedIn  # a file, or the problem with one


@dataclass
class _Budget:
    """What may still be read of a submission."""

    bytes: int
    notebooks: int
    zips: int


def link_outside(name: str) -> str:
    """Say that something is a link which is not followed."""
    return _NOT_READ.format(name=shown(name), reason=_OUTSIDE)


def read_notebooks(places: Sequence[Place]) -> list[HandedIn]:
    """Read the notebooks of a submission, those in zips too, in the order of their names."""
    budget = _Budget(MOST_BYTES_TOGETHER, MOST_NOTEBOOKS, MOST_ZIPS)
    found: list[HandedIn] = []
    for place in places:
        with _files(place) as files:
            for file in files:
                found += _read(file, budget, depth=0)
    return found


def problem_of(places: Sequence[Place]) -> str:
    """Say why there is nothing to read; "" when there is, as far as one can tell without reading it."""
    others: list[str] = []
    problems: list[str] = []
    for place in places:
        with _files(place) as files:
            for file in files:
                if isinstance(file, HandedIn):
                    problems.append(file.problem)
                elif is_notebook(file.name) or (is_zip(file.name) and file.in_zip):
                    return ""
                elif is_zip(file.name):
                    inside = _look_into(file) or [HandedIn(file.name, b"", _EMPTY_ZIP.format(name=file.name))]
                    if any(isinstance(item, _File) and may_hold_one(item.name) for item in inside):
                        return ""
                    problems += [item.problem for item in inside if isinstance(item, HandedIn)]
                    others += [item.name for item in inside if isinstance(item, _File)]
                else:
                    others.append(file.name)
    if problems:
        return problems[0]
    if not others:
        return _EMPTY if len(places) == 1 else NO_NOTEBOOK
    many = len(others) > 3
    return _MANY_OTHER_FILES.format(count=len(others)) if many else _OTHER_FILES.format(names=", ".join(others))


def _look_into(file: _File) -> list[_Item]:
    """What a zip on disk lists. Nothing in it is read."""
    try:
        with file.open() as stream, opened_zip(stream) as archive:
            return _members(archive, f"{file.name}/")
    except (NotReadableError, OSError) as error:
        return [_unread(file.name, error)]


@contextmanager
def _files(place: Place) -> Iterator[list[_Item]]:
    """The files of a place, sorted by name; they can be opened inside the `with`."""
    name = shown(place.path.name)
    if place.trouble:
        yield [HandedIn(name, b"", place.trouble)]
    elif place.members is not None:
        try:
            stream = open_on_disk(place.path)
        except (NotReadableError, OSError) as error:
            yield [_unread(name, error)]
            return
        with stream:
            try:
                archive = opened_zip(stream)
            except NotReadableError as error:
                yield [_unread(name, error)]
                return
            with archive:
                yield _members(archive, "", place.members, place.strip)
    elif place.path.is_dir():
        yield sorted(_files_below(place.path, place.skip), key=lambda file: file.name)
    else:
        yield [_on_disk(place.path, name)]


def _files_below(folder: Path, skip: str | None) -> Iterator[_Item]:
    """The files of a folder and the folders in it. A link that leads out of it is told, never followed."""
    root = os.path.realpath(folder)
    waiting = [root]
    left = MOST_FILES
    while waiting:
        current = waiting.pop()
        try:
            with os.scandir(current) as listing:
                for found in listing:
                    left -= 1
                    if left < 0:
                        yield _unread(_below(root, current), NotReadableError(_TOO_MANY_FILES))
                        return
                    if is_ignored(found.name) or is_skipped(found.path, skip):
                        continue
                    if found.is_symlink():
                        yield from _linked(found.path, root)
                    elif found.is_dir():
                        waiting.append(found.path)
                    elif found.is_file() or may_hold_one(found.name):
                        yield _on_disk(Path(found.path), _below(root, found.path))
        except OSError as error:
            yield _unread(_below(root, current), error)


def _linked(path: str, root: str) -> Iterator[_Item]:
    """A link to a notebook. One to a folder inside adds nothing: that folder is looked into anyway."""
    name, target = _below(root, path), os.path.realpath(path)
    inside = target == root or target.startswith(os.path.join(root, ""))
    if not inside and (may_hold_one(name) or os.path.isdir(target)):
        yield _unread(name, NotReadableError(_OUTSIDE))
    elif inside and may_hold_one(name) and os.path.isfile(target):
        yield _on_disk(Path(target), name)
    elif inside and may_hold_one(name) and not os.path.exists(target):
        yield _unread(name, NotReadableError(_NOWHERE))


def _on_disk(path: Path, name: str) -> _Item:
    try:
        found = path.lstat()
    except OSError as error:
        return _unread(name, error)
    if not stat.S_ISREG(found.st_mode):
        return _unread(name, NotReadableError(_NOT_A_FILE))
    return _File(name, found.st_size, partial(open_on_disk, path), in_zip=False)


def open_on_disk(path: Path) -> BinaryIO:
    """Open a regular file. Never waits for the other end of a pipe, and never follows a link put there meanwhile."""
    flags = os.O_RDONLY
    for name in ("O_NOFOLLOW", "O_NONBLOCK", "O_CLOEXEC", "O_BINARY"):  # not every system has all of them
        flags |= getattr(os, name, 0)
    stream = os.fdopen(os.open(path, flags), "rb")
    if not stat.S_ISREG(os.fstat(stream.fileno()).st_mode):
        stream.close()
        raise NotReadableError(_NOT_A_FILE)
    return stream


class _ShortReads(io.RawIOBase):
    """A file that refuses to hand out much at once: `zipfile` reads the whole list of contents in one go."""

    def __init__(self, stream: BinaryIO):
        self._stream = stream

    def read(self, size: int | None = -1) -> bytes:
        to_the_end = size is None or size < 0
        data = self._stream.read(MOST_DIRECTORY_BYTES + 1 if to_the_end else min(size or 0, MOST_DIRECTORY_BYTES + 1))
        if len(data) > MOST_DIRECTORY_BYTES:
            raise NotReadableError(_TOO_MANY_FILES)
        return data

    def seek(self, offset: int, whence: int = 0) -> int:
        return self._stream.seek(offset, whence)

    def tell(self) -> int:
        return self._stream.tell()

    def seekable(self) -> bool:
        return True

    def readable(self) -> bool:
        return True


def opened_zip(stream: BinaryIO) -> zipfile.ZipFile:
    """Read the list of contents of a zip, within limits. Raises NotReadableError."""
    try:
        return zipfile.ZipFile(_ShortReads(stream))
    except NotReadableError:
        raise
    except Exception as error:  # a damaged zip makes zipfile raise many kinds
        raise NotReadableError(_NO_ZIP) from error


def _members(
    archive: zipfile.ZipFile, prefix: str, wanted: frozenset[int] | None = None, strip: int = 0
) -> list[_Item]:
    """The files that a zip lists. wanted: offsets of the members that count; strip: leading parts to drop."""
    infos = [info for info in archive.infolist() if wanted is None or info.header_offset in wanted]
    items: list[_Item] = []
    if len(infos) > MOST_FILES:
        items.append(_unread(prefix.rstrip("/") or "The zip file", NotReadableError(_TOO_MANY_FILES)))
    for info in infos[:MOST_FILES]:
        parts = parts_of(info)
        if info.is_dir() or not parts or any(map(is_ignored, parts)):
            continue
        name = prefix + "/".join(map(shown, parts[strip:] or parts[-1:]))
        kind = stat.S_IFMT(info.external_attr >> 16)  # 0 when it was not packed on Unix
        reason = ""
        if kind not in (0, stat.S_IFREG):
            reason = _NOT_A_FILE
        elif info.flag_bits & 0x1:
            reason = _PASSWORD
        elif info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            reason = _METHOD  # others may ask for gigabytes of memory to unpack a few bytes
        if not reason:
            items.append(_File(name, info.file_size, partial(_open_member, archive, info), in_zip=True))
        elif may_hold_one(name):
            items.append(_unread(name, NotReadableError(reason)))
    return sorted(items, key=lambda item: item.name)


def _open_member(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> BinaryIO:
    return archive.open(info)  # type: ignore[return-value]  # typeshed calls it IO[bytes]


def parts_of(info: zipfile.ZipInfo) -> tuple[str, ...]:
    """The parts of a member's name. Nothing is unpacked, so a name that leads elsewhere only loses its way there."""
    name = info.filename
    if not info.flag_bits & 0x800:  # packed without saying that the name is UTF-8, as macOS does
        try:
            name = name.encode("cp437").decode("utf-8")
        except UnicodeError:
            name = info.filename
    parts = re.sub(r"^[A-Za-z]:", "", name.replace("\\", "/")).split("/")
    return tuple(part for part in parts if part.strip() not in ("", ".", ".."))


def _read(file: _Item, budget: _Budget, depth: int) -> Iterator[HandedIn]:
    """Read a notebook, or those in a zip. depth: in how many zips the file lies."""
    if isinstance(file, HandedIn):
        yield file
    elif is_notebook(file.name):
        budget.notebooks -= 1
        if budget.notebooks < 0:
            if budget.notebooks == -1:  # told once
                yield _unread(file.name, NotReadableError(_TOO_MANY_NOTEBOOKS))
            return
        try:
            yield HandedIn(file.name, _bytes_of(file, budget))
        except (NotReadableError, OSError) as error:
            yield _unread(file.name, error)
    elif is_zip(file.name):
        yield from _read_zip(file, budget, depth)


def _read_zip(file: _File, budget: _Budget, depth: int) -> Iterator[HandedIn]:
    budget.zips -= 1
    try:
        if budget.zips < 0:
            raise NotReadableError(_TOO_MANY_ZIPS)
        if depth > 1:
            raise NotReadableError(_TOO_DEEP)
        stream = io.BytesIO(_bytes_of(file, budget)) if file.in_zip else file.open()
        with stream, opened_zip(stream) as archive:
            for item in _members(archive, f"{file.name}/"):
                yield from _read(item, budget, depth + 1)
    except (NotReadableError, OSError) as error:
        yield _unread(file.name, error)


def _bytes_of(file: _File, budget: _Budget) -> bytes:
    """All bytes of a file. Stops at the first limit, whatever size the file declares."""
    if file.size > MOST_BYTES:
        raise NotReadableError(_TOO_LARGE)
    if file.size > budget.bytes:
        raise NotReadableError(_TOO_MUCH)
    kept = io.BytesIO()
    try:
        with file.open() as stream:
            while chunk := stream.read(_CHUNK):
                kept.write(chunk)
                if kept.tell() > MOST_BYTES:
                    raise NotReadableError(_TOO_LARGE)
                if len(chunk) > budget.bytes:
                    budget.bytes = 0
                    raise NotReadableError(_TOO_MUCH)
                budget.bytes -= len(chunk)
    except (NotReadableError, OSError):
        raise
    except Exception as error:  # a damaged zip makes zipfile and zlib raise many kinds
        raise NotReadableError(_DAMAGED) from error
    return kept.getvalue()


def _unread(name: str, error: NotReadableError | OSError) -> HandedIn:
    reason = error.strerror or _DAMAGED if isinstance(error, OSError) else str(error)
    return HandedIn(name, b"", _NOT_READ.format(name=name, reason=reason))


def _below(root: str, path: str) -> str:
    """The cleaned path of a file inside its submission."""
    relative = os.path.relpath(path, os.path.dirname(root) if path == root else root)
    return "/".join(map(shown, relative.split(os.sep)))


def is_ignored(name: str) -> bool:
    return name.startswith(".") or name in _IGNORED


def is_skipped(path: str, skip: str | None) -> bool:
    same_name = skip is not None and os.path.basename(path) == os.path.basename(skip)
    return same_name and os.path.realpath(path) == skip


def is_notebook(name: str) -> bool:
    return name.lower().endswith(NOTEBOOK_ENDINGS)


def is_zip(name: str) -> bool:
    return name.lower().endswith(".zip")


def may_hold_one(name: str) -> bool:
    return is_notebook(name) or is_zip(name)


def stem_of(name: str) -> str:
    """A file's name without what says its kind."""
    for ending in (*NOTEBOOK_ENDINGS, ".zip"):
        if name.lower().endswith(ending):
            return name[: -len(ending)]
    return Path(name).stem


def shown(name: str) -> str:
    """A name that can be shown: no control characters, no invisible ones that turn or hide text, not too long."""
    shown = "".join(
        " " if c.isspace() else "\N{REPLACEMENT CHARACTER}" if category == "Cs" else c
        for c in name
        if (category := unicodedata.category(c)) not in ("Cc", "Cf") or c.isspace()
    )
    shown = " ".join(unicodedata.normalize("NFC", shown).split())
    return f"{shown[:49]}…{shown[-30:]}" if len(shown) > 80 else shown or "without a name"

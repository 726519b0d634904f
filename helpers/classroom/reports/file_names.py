"""The file name of a student's reports: safe on every system, unique, readable, and the same for the same name."""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections.abc import Iterable

LONGEST = 80  # bytes of UTF-8, without the mark; file systems allow 255, some only 143, Windows 260 for a whole path
# Names of devices on Windows, with any extension:
# https://learn.microsoft.com/en-us/windows/win32/fileio/naming-a-file
_DEVICES = re.compile(r"(con|prn|aux|nul|conin|conout|com\d|lpt\d)")
_MARK = re.compile(r"-[0-9a-f]{8}(-\d+)?$")  # a name that looks as if it had one gets one, too


def file_stem(name: str) -> str:
    """A file name, without ending, for a student's name.

    Letters and digits of every script stay, in lower case, since some systems do not tell cases apart. A name that had
    to be changed gets a mark from its hash, so that two names never share a file and adding a student renames nobody.
    """
    normal = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", name).casefold())
    kept = "".join(char if _stays(char) else "_" for char in normal)
    stem = _shortened(re.sub("__+", "_", kept).strip("_-"))
    if stem == name and stem and not _DEVICES.fullmatch(stem) and not _MARK.search(stem):
        return stem
    mark = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:8]
    return f"{stem or 'student'}-{mark}"


def file_stems(names: Iterable[str]) -> dict[str, str]:
    """The file stem of each name. Names whose hashes were made to collide are told apart by a number."""
    stems: dict[str, str] = {}
    taken: set[str] = set()
    for name in names:
        stem, number = file_stem(name), 2
        free = stem
        while free in taken:
            free, number = f"{stem}-{number}", number + 1
        stems[name] = free
        taken.add(free)
    return stems


def _stays(char: str) -> bool:
    return char in "_-" or unicodedata.category(char)[0] in "LMN"  # letters, marks (accents, vowels), numbers


def _shortened(stem: str) -> str:
    return stem.encode("utf-8")[:LONGEST].decode("utf-8", "ignore").rstrip("_-")

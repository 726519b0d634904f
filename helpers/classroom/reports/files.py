"""Reports on disk: whole or not at all, and nothing removed that a former run did not write."""

from __future__ import annotations

import contextlib
import json
import os
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

# The only paths that a former run may tell us to remove: one name without separators in one of the two folders.
_OURS = re.compile(r"students/[^/\\\x00-\x1f]+\.html|gradescope/[^/\\\x00-\x1f]+\.json")


class ReportError(Exception):
    """A report cannot be written, or a former one not be read; the message says which and why."""


def write(path: Path, text: str) -> Path:
    """Write a file in UTF-8 in one step: whoever reads it sees the old text or the new one.

    raises: ReportError when it cannot be written
    """
    beside = path.with_name(f".{path.name[:60]}.{os.getpid()}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            beside.write_bytes(text.encode("utf-8"))
            os.replace(beside, path)
        except OSError:
            with contextlib.suppress(OSError):
                beside.unlink()
            raise
    except OSError as error:
        raise ReportError(_in_words(path, error)) from error
    return path


def _in_words(path: Path, error: OSError) -> str:
    in_the_way = next((p for p in path.parents if p.exists() and not p.is_dir()), None)
    if in_the_way:
        return f"{path} cannot be written: {in_the_way} is a file, and should be a folder. Move it, or choose another."
    if path.is_dir():
        return f"{path} cannot be written: a folder has this name. Move it, or choose another folder for the reports."
    if isinstance(error, PermissionError):
        return f"{path} cannot be written: you may not write into {path.parent}."
    return f"{path} cannot be written: {error.strerror or error}."


def former_files(out: Path) -> set[str]:
    """The pages and Gradescope files of a former run, as `results.json` lists them; none when it cannot be read."""
    try:
        students = json.loads((out / "results.json").read_bytes())["students"]
        listed = {student[key] for student in students for key in ("page", "gradescope")}
    except (OSError, ValueError, LookupError, TypeError, RecursionError):
        return set()
    return {path for path in listed if isinstance(path, str) and _OURS.fullmatch(path)}


def remove_stale(out: Path, former: Iterable[str], written: Iterable[Path]) -> None:
    """Remove what a former run wrote and this one did not.

    raises: ReportError when a file cannot be removed
    """
    kept = set(written)
    for path in sorted(out / name for name in former):
        if path in kept or path.is_symlink() or not path.is_file():
            continue
        try:
            path.unlink()
        except OSError as error:
            raise ReportError(f"{path} is of a former run and cannot be removed: {error.strerror or error}.") from error


def as_json(data: Any) -> str:
    """JSON that a person can read, with a line break at its end.

    raises: ValueError for NaN and infinity, which JSON does not have
    """
    return json.dumps(data, ensure_ascii=False, indent=2, allow_nan=False) + "\n"

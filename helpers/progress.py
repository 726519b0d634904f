"""What a learner has done: one small JSON file in the course's root, safe with several kernels open.

A change that cannot be written stays in memory and is written with the next one that can. Nothing here raises
for a file or folder that gives trouble: `notices` hands out what there is to say about it, once.
"""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from helpers.paths import ROOT

VERSION = 1
LOCK_WAIT = 3.0  # seconds; a change takes milliseconds, so whoever holds the lock for longer is stuck


@dataclass(frozen=True)
class Entry:
    """What happened with one exercise.

    attempts: checks of an answer that was started.
    points: the best so far. status: "passed" once passed, else the last one.
    findings: ids of the last check.
    """

    attempts: int = 0
    hints: int = 0
    reveals: int = 0
    points: float = 0.0
    status: str = "not started"
    findings: tuple[str, ...] = ()


Change = Callable[[Entry], Entry]
Entries = dict[str, Entry]


class _Damaged(Exception):
    """The file is there but is not a progress file that this version can read."""


_waiting: dict[Path | None, list[tuple[str, Change]]] = {}
_unsaid: list[str] = []
_said: set[str] = set()


def path() -> Path | None:
    """The progress file, or None when nothing is to be written.

    The environment variable ATTENTION_PROGRESS holds another path, or `off`. Under pytest (nbval too) it is
    off by itself, so that testing a notebook never counts as a learner's attempt.
    """
    wish = os.environ.get("ATTENTION_PROGRESS", "")
    if wish.lower() == "off":
        return None
    if wish:
        return Path(wish).expanduser().absolute()
    return None if "PYTEST_VERSION" in os.environ else ROOT / "progress.json"


def read() -> Entries:
    """Everything that is remembered, by exercise name."""
    file = path()
    saved: Entries = {}
    if file is not None:
        try:
            saved = _load(file)
        except (_Damaged, OSError):
            _flush(file)  # sets a damaged file aside, and says what cannot be done
    return _changed(saved, _waiting.get(file, []))


def update(name: str, change: Change) -> Entry:
    """Change what is remembered about one exercise. Returns its new entry."""
    file = path()
    waiting = _waiting.setdefault(file, [])
    waiting.append((name, change))
    entries = None if file is None else _flush(file)
    if entries is None:
        entries = read() if file is None else _changed(_load_or_nothing(file), waiting)
    return entries[name]


def notices() -> list[str]:
    """What there is to say about the file and was not said before; each line is handed out once."""
    fresh = [line for line in dict.fromkeys(_unsaid) if line not in _said]
    _said.update(fresh)
    _unsaid.clear()
    return fresh


def _flush(file: Path) -> Entries | None:
    """Write every waiting change. Returns all entries, or None when that is impossible now."""
    waiting = _waiting.get(file, [])
    try:
        with _locked(file):
            try:
                entries = _load(file)
            except _Damaged as damage:
                _set_aside(file, str(damage))
                entries = {}
            entries = _changed(entries, waiting)
            if waiting:
                _write(file, entries)
    except TimeoutError:
        _unsaid.append(f"Progress: another kernel holds {file.name}; this is saved with your next check.")
        return None
    except OSError as error:
        reason = error.strerror or type(error).__name__
        _unsaid.append(f"Progress is kept in memory only: {file} cannot be written ({reason}).")
        return None
    waiting.clear()
    return entries


def _changed(entries: Entries, changes: list[tuple[str, Change]]) -> Entries:
    result = dict(entries)
    for name, change in changes:
        result[name] = change(result.get(name, Entry()))
    return result


@contextmanager
def _locked(file: Path) -> Iterator[None]:
    """Hold the file's lock. Raises TimeoutError when another keeps it, OSError when it cannot be made."""
    import filelock

    with filelock.FileLock(f"{file}.lock", timeout=LOCK_WAIT):  # its Timeout is a TimeoutError
        yield


def _load(file: Path) -> Entries:
    try:
        text = file.read_text(encoding="utf-8")
    except FileNotFoundError:
        return {}
    except UnicodeDecodeError:
        raise _Damaged("it is not text") from None
    try:
        data = json.loads(text)
    except (json.JSONDecodeError, RecursionError):
        raise _Damaged("it is not JSON") from None
    if not isinstance(data, dict) or data.get("version") != VERSION:
        raise _Damaged("it has a version that this course does not know")
    try:
        return {name: _entry(values) for name, values in data["exercises"].items()}
    except (KeyError, TypeError, ValueError, AttributeError):
        raise _Damaged("its fields are not those of a progress file") from None


def _load_or_nothing(file: Path) -> Entries:
    try:
        return _load(file)
    except (_Damaged, OSError):
        return {}


def _entry(values: dict[str, Any]) -> Entry:
    return Entry(
        attempts=int(values["attempts"]),
        hints=int(values["hints"]),
        reveals=int(values["reveals"]),
        points=float(values["points"]),
        status=str(values["status"]),
        findings=tuple(str(finding) for finding in values["findings"]),
    )


def _write(file: Path, entries: Entries) -> None:
    """Write beside the file, then swap: a reader sees the old file or the new one, never half of it."""
    data = {
        "version": VERSION,
        "exercises": {name: dataclasses.asdict(entry) for name, entry in entries.items()},
    }
    beside = file.with_name(f"{file.name}.{os.getpid()}.tmp")
    try:
        beside.write_text(json.dumps(data, indent=1) + "\n", encoding="utf-8")
        os.replace(beside, file)
    finally:
        beside.unlink(missing_ok=True)


def _set_aside(file: Path, damage: str) -> None:
    """Rename a file that cannot be read, so that it is neither used nor lost."""
    number = 1
    while (aside := file.with_name(f"{file.stem}.damaged-{number}{file.suffix}")).exists():
        number += 1
    file.rename(aside)
    _unsaid.append(f"Progress: {file.name} could not be used ({damage}). It is kept as {aside.name}; a new one begins.")

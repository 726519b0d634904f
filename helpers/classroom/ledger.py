"""Remembers which submissions are graded, so that a run which was interrupted goes on where it was."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from helpers import paths
from helpers.classroom.results import StudentResult, student_from_json, student_to_json

_FOLDER = ".grading"
_JUDGING = ("judge", "classroom", "course.py", "notebook.py", "source.py")  # what a grade depends on, below helpers/


class LedgerError(Exception):
    """The folder for the results cannot be used. The message says why."""


@dataclass(frozen=True)
class Ledger:
    """The notes of one run in the folder of its results. Each submission has one file, written when it is judged.

    key: what the grades depend on besides the submission; notes under another key do not count.
    """

    folder: Path
    key: str

    @classmethod
    def open(cls, out: Path, settings: Mapping[str, Any]) -> Ledger:
        """Raises LedgerError, in words, when nothing can be written there."""
        folder = out / _FOLDER
        try:
            folder.mkdir(parents=True, exist_ok=True)
            _write(folder / "run.json", dict(settings))
        except OSError as error:
            raise LedgerError(f"{out} cannot be written: {error.strerror}.") from error
        told = json.dumps(dict(settings), sort_keys=True) + _course_fingerprint()
        return cls(folder, hashlib.sha256(told.encode()).hexdigest())

    @staticmethod
    def former_seed(out: Path) -> int | None:
        """The seed of the run before, if there was one: the same seed gives the same grades."""
        try:
            seed = json.loads((out / _FOLDER / "run.json").read_text("utf-8")).get("seed")
        except (OSError, ValueError, AttributeError):
            return None
        return seed if isinstance(seed, int) else None

    def find(self, submission: str, fingerprint: str) -> StudentResult | None:
        """The result of this very submission under this very key; None where there is none, or it is damaged."""
        try:
            note = json.loads(self._file(submission).read_text("utf-8"))
            same = note["key"] == self.key and note["fingerprint"] == fingerprint
            return student_from_json(note["result"]) if same else None
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def write(self, submission: str, fingerprint: str, result: StudentResult) -> None:
        """Raises LedgerError when it cannot be written."""
        note = {"key": self.key, "fingerprint": fingerprint, "result": student_to_json(result)}
        try:
            _write(self._file(submission), note)
        except OSError as error:
            raise LedgerError(f"{self.folder} cannot be written: {error.strerror}.") from error

    def _file(self, submission: str) -> Path:
        return self.folder / f"{hashlib.sha256(submission.encode('utf-8', 'surrogatepass')).hexdigest()[:32]}.json"


def _write(file: Path, data: Mapping[str, Any]) -> None:
    """Beside its place, then swapped in: never half a file."""
    beside = file.with_suffix(f".{os.getpid()}.part")
    beside.write_text(json.dumps(data), "utf-8")
    os.replace(beside, file)


def _course_fingerprint() -> str:
    """Changes with every change of the checks, of the answer book or of the solutions."""
    helpers = paths.ROOT / "helpers"
    files = [helpers / name for name in _JUDGING]
    files = [inner for file in files for inner in (sorted(file.rglob("*")) if file.is_dir() else [file])]
    files += sorted(paths.SOLUTIONS.glob("*.py"))
    digest = hashlib.sha256()
    for file in files:
        if file.suffix in (".py", ".json", ".safetensors"):
            digest.update(file.name.encode() + b"\0" + file.read_bytes())
    return digest.hexdigest()

"""What the right answers and the known wrong ones gave on the probes. Recorded by `record.py`."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import load_file, save_file

FOLDER = Path(__file__).parent / "recorded"
VERSION = 1
PAIRED = {"plain": ("main", "other sizes"), "masked": ("random mask",)}  # the cases on which pairs are recorded
_ROWS = 12  # rows of an output that a fingerprint looks at
ELSEWHERE = np.full(
    _ROWS + 1, -12344, np.float16
)  # stands for "raised, or gave another shape" in a row of fingerprints


@dataclass
class AnswerBook:
    """The published book has all of this; one for private probes has right outputs, kinds and empty labels.

    right[exercise][case]: full outputs. wrong[exercise][case]: one row of fingerprint per known wrong answer.

    labels[exercise]: the names of those rows, `id#variant`.
    pairs[exercise]["plain"]: fingerprints of two mistakes at once in the formula, (cases, n, 13); "masked": of
    one in the formula and one with the mask; "…/which" (n, 2): their places in labels.
    raised[exercise][case][label]: the exception's type and message, where a wrong answer raises.
    kinds[exercise][case]: "dtype" of the right output, "group", "tolerance" and "sizes"
    (B, L, d) of the case; in the order in which the cases are judged. words[id]: see `solutions/mistakes/catalogue.py`.
    blanks[exercise]: the open blank's source.
    """

    right: dict[str, dict[str, np.ndarray]] = field(default_factory=dict)
    wrong: dict[str, dict[str, np.ndarray]] = field(default_factory=dict)
    pairs: dict[str, dict[str, np.ndarray]] = field(default_factory=dict)
    labels: dict[str, list[str]] = field(default_factory=dict)
    raised: dict[str, dict[str, dict[str, str]]] = field(default_factory=dict)
    kinds: dict[str, dict[str, dict[str, Any]]] = field(default_factory=dict)
    words: dict[str, dict[str, str]] = field(default_factory=dict)
    blanks: dict[str, str] = field(default_factory=dict)

    def save(self, folder: Path = FOLDER) -> None:
        """Write three files into `folder`."""
        folder.mkdir(parents=True, exist_ok=True)
        save_file(_flat(self.right), folder / "right.safetensors")
        save_file(
            _flat(self.wrong) | {f"pairs/{k}": v for k, v in _flat(self.pairs).items()},
            folder / "wrong.safetensors",
        )
        text = {
            "version": VERSION,
            "labels": self.labels,
            "raised": self.raised,
            "kinds": self.kinds,
            "words": self.words,
            "blanks": self.blanks,
        }
        (folder / "book.json").write_text(json.dumps(text, indent=1, ensure_ascii=False) + "\n", "utf-8")
        for file in folder.iterdir():
            file.chmod(0o644)  # safetensors writes for the owner alone

    @classmethod
    def read(cls, folder: Path = FOLDER) -> AnswerBook:
        """Read what `save` wrote. Raises FileNotFoundError or ValueError in words."""
        for name in ("book.json", "right.safetensors", "wrong.safetensors"):
            if not (folder / name).is_file():
                raise FileNotFoundError(
                    f"The answer book is not complete: {name} is missing in {folder}. Get it back with `git checkout`."
                )
        try:
            text: dict[str, Any] = json.loads((folder / "book.json").read_text("utf-8"))
            right, wrong = load_file(folder / "right.safetensors"), load_file(folder / "wrong.safetensors")
            version = text.pop("version", None)
            if version == VERSION:
                pairs = {n.removeprefix("pairs/"): array for n, array in wrong.items() if n.startswith("pairs/")}
                plain = {n: array for n, array in wrong.items() if not n.startswith("pairs/")}
                return cls(_nested(right), _nested(plain), _nested(pairs), **text)
        except Exception as problem:
            raise ValueError(f"The answer book in {folder} cannot be read: {problem}") from problem
        raise ValueError(f"The answer book in {folder} has version {version}. Record it again with `make book`.")

    def words_for(self, id: str, exercise: str) -> dict[str, str]:
        """The words for a mistake; an exercise may have its own, under `id@exercise`. A book without words has none."""
        if not self.words:
            return {"cause": "", "consequence": "", "hint": "", "raises": ""}
        return self.words.get(f"{id}@{exercise}") or self.words[id]

    def key(self, exercise: str) -> dict[str, np.ndarray]:
        """The right outputs by which `observe` recognises an unusual layout."""
        right = self.right.get(exercise, {})
        return {case: array for case, array in right.items() if case == "main" or case.startswith("biased/")}


@lru_cache(maxsize=1)
def answer_book() -> AnswerBook:
    """The book of this copy of the course, read once."""
    return AnswerBook.read()


def blank(exercise: str) -> str:
    """The source of an exercise's open blank."""
    return answer_book().blanks[exercise]


def _flat(nested: dict[str, dict[str, np.ndarray]]) -> dict[str, np.ndarray]:
    return {
        f"{exercise}|{case}": np.asarray(array, order="C")
        for exercise, cases in nested.items()
        for case, array in cases.items()
    }


def _nested(flat: dict[str, np.ndarray]) -> dict[str, dict[str, np.ndarray]]:
    result: dict[str, dict[str, np.ndarray]] = {}
    for name, array in flat.items():
        exercise, case = name.split("|", 1)
        result.setdefault(exercise, {})[case] = array
    return result


# ---------------------------------------------------------------------------------------- fingerprints


def fingerprint(output: np.ndarray) -> np.ndarray:
    """A short stand-in for an output: a mixture of the features for up to 12 rows, and a number for the shape.

    (..., n) → (13,), float16.

    Mixing over all features keeps a NaN visible and separates outputs that differ anywhere in a row.
    """
    rows = np.atleast_1d(output).astype(np.float64)
    if rows.size == 0:
        return np.full(_ROWS + 1, 12344, np.float16)
    rows = rows.reshape(-1, rows.shape[-1])
    chosen = np.unique(np.linspace(0, len(rows) - 1, _ROWS).astype(int))
    result = np.zeros(_ROWS + 1, np.float16)
    with np.errstate(invalid="ignore", over="ignore"):
        mixed = rows[chosen] @ np.cos(1.3 * np.arange(1, rows.shape[-1] + 1))
        result[: len(mixed)] = mixed
    result[_ROWS] = np.dot(np.shape(output), 7 ** np.arange(np.ndim(output)) % 97) % 1000
    return result


def agrees(ours: np.ndarray, theirs: np.ndarray) -> np.ndarray:
    """Which rows of `theirs` (n, 13) equal the fingerprint `ours` (13,). NaN and infinity agree with themselves."""
    ours, theirs = ours.astype(np.float32), theirs.astype(np.float32)
    with np.errstate(invalid="ignore"):
        close = np.isfinite(ours) & (np.abs(theirs - ours) <= 2e-3 + 2e-3 * np.abs(ours))
        same = (theirs == ours) | (np.isnan(theirs) & np.isnan(ours))
    return np.all(close | same, axis=-1)

"""What happened when an answer was run: plain tensors and JSON, ready to cross from one process to another."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from safetensors.numpy import load, save

MOST_BYTES = 32_000_000  # of a packed observation; a usual one has a tenth of a million


@dataclass
class Observation:
    """The record of one answer on the probes of one exercise.

    tensors: what the answer gave, by case. facts: everything else, JSON only.
    facts["cases"][id] holds "raised" (see `guard.Raised`) or "kind" and "shape" for every case that was run.
    """

    exercise: str
    tensors: dict[str, np.ndarray] = field(default_factory=dict)
    facts: dict[str, Any] = field(default_factory=dict)

    def to_bytes(self) -> bytes:
        """Pack as safetensors; the facts travel in its metadata."""
        arrays = {name: np.asarray(array, order="C") for name, array in self.tensors.items()}
        return save(arrays, metadata={"exercise": self.exercise, "facts": json.dumps(self.facts)})

    @classmethod
    def from_bytes(cls, data: bytes) -> Observation:
        """Unpack. Raises ValueError in words when the bytes are not an observation, or more than `MOST_BYTES`.

        What the facts hold is not looked at: see `untrusted`.
        """
        if len(data) > MOST_BYTES:
            raise ValueError(f"These bytes are not an observation: they are more than {MOST_BYTES:,}.")
        try:
            length = int.from_bytes(data[:8], "little")
            metadata = json.loads(data[8 : 8 + length])["__metadata__"]
            return cls(metadata["exercise"], load(data), json.loads(metadata["facts"]))
        except Exception as problem:
            raise ValueError(f"These bytes are not an observation: {problem}") from problem

"""What a learner reads, word for word: recorded, reviewed as prose, and compared.

Record again after a change with `UPDATE_FEEDBACK=1 pytest tests/test_feedback.py`, and read the difference.
"""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from helpers.judge import check_answer
from helpers.judge.reading import sections
from solutions.mistakes import VARIANTS, WRONG_FUNCTIONS, load_all
from solutions.mistakes.steps import build

FOLDER = Path(__file__).parent / "feedback"
NOTEBOOKS = Path(__file__).parents[1] / "notebooks"
load_all()


def _variant(exercise: str, label: str) -> Callable[..., Any]:
    return build(exercise, next(variant for variant in VARIANTS if variant.label == label))


def _function(exercise: str, id: str) -> Callable[..., Any]:
    return next(wrong.function for wrong in WRONG_FUNCTIONS if (wrong.exercise, wrong.id) == (exercise, id))


class Open(nn.Module):
    def __init__(self, hidden_dim: int = 768):
        raise NotImplementedError


class ThreeLayers(nn.Module):
    def __init__(self, hidden_dim: int):
        super().__init__()
        self.query_proj, self.key_proj, self.value_proj = (nn.Linear(hidden_dim, hidden_dim) for _ in range(3))

    def attend(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = self.query_proj(x), self.key_proj(x), self.value_proj(x)
        return (q @ k.mT / math.sqrt(x.shape[-1])).softmax(dim=-1) @ v


class NoReturn(ThreeLayers):
    def forward(self, x):
        self.attend(x)


class WrongShape(ThreeLayers):
    def forward(self, x):
        return self.attend(x).transpose(1, 2)


class FirstTokenOnly(ThreeLayers):
    def forward(self, x):
        return self.attend(x)[:, 0]


class Raises(ThreeLayers):
    def forward(self, x):
        scores = self.query_proj(x) @ self.key_proj(x)
        return scores


class NoSuperInit(nn.Module):
    def __init__(self, hidden_dim):
        self.query_proj = nn.Linear(hidden_dim, hidden_dim)


class NoWidth(nn.Module):
    def __init__(self):
        super().__init__()


class ReadyMade(ThreeLayers):
    def forward(self, x):
        return F.scaled_dot_product_attention(self.query_proj(x), self.key_proj(x), self.value_proj(x))


class Tanh(ThreeLayers):
    """A mistake that no catalogue knows."""

    def forward(self, x):
        q, k, v = self.query_proj(x), self.key_proj(x), self.value_proj(x)
        return torch.tanh(q @ k.mT / math.sqrt(x.shape[-1])).softmax(dim=-1) @ v


class NotNormalised(ThreeLayers):
    def forward(self, x):
        q, k, v = self.query_proj(x), self.key_proj(x), self.value_proj(x)
        return (q @ k.mT / math.sqrt(x.shape[-1])).relu() @ v


class MixesSamples(ThreeLayers):
    def forward(self, x):
        return self.attend(x - x.mean(dim=0))


class OddNames(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.c, self.b, self.a = (nn.Linear(d, d, bias=False) for _ in range(3))

    def forward(self, x):
        return (self.a(x) @ self.b(x).mT * x.shape[-1] ** -0.5).softmax(-1) @ self.c(x)


class Prints(ThreeLayers):
    def forward(self, x):
        print("x:", x.shape)
        return self.attend(x)


TEXTS: dict[str, tuple[str, Any]] = {
    "not started": ("SelfAttentionV1", Open),
    "passed": ("SelfAttentionV2", build("SelfAttentionV2")),
    "an instance": ("SelfAttentionV1", ThreeLayers(8)),
    "not a class": ("SelfAttentionV1", 3),
    "no super init": ("SelfAttentionV1", NoSuperInit),
    "no width": ("SelfAttentionV1", NoWidth),
    "no forward": ("SelfAttentionV1", ThreeLayers),
    "returns nothing": ("SelfAttentionV1", NoReturn),
    "axes swapped": ("SelfAttentionV1", WrongShape),
    "an axis lost": ("SelfAttentionV1", FirstTokenOnly),
    "raises": ("SelfAttentionV1", Raises),
    "ready-made": ("SelfAttentionV1", ReadyMade),
    "unknown, tanh": ("SelfAttentionV1", Tanh),
    "unknown, rows do not sum to one": ("SelfAttentionV1", NotNormalised),
    "unknown, samples mix": ("SelfAttentionV1", MixesSamples),
    "note, odd names": ("SelfAttentionV1", OddNames),
    "note, prints": ("SelfAttentionV1", Prints),
    "scale missing": ("SelfAttentionV1", _variant("SelfAttentionV1", "scale-missing#1")),
    "softmax over queries": ("SelfAttentionV1", _variant("SelfAttentionV1", "softmax-over-queries#1")),
    "graph cut": ("SelfAttentionV1", _variant("SelfAttentionV1", "graph-cut#1")),
    "naive exp": ("SelfAttentionV1", _variant("SelfAttentionV1", "naive-exp#1")),
    "fused order": ("SelfAttentionV2", _variant("SelfAttentionV2", "fused-order#1")),
    "not fused": ("SelfAttentionV2", OddNames),
    "split by count": ("SelfAttentionV2", _variant("SelfAttentionV2", "split-by-count#1")),
    "tiny fill": ("SelfAttentionV3", _variant("SelfAttentionV3", "fill-tiny-positive#1")),
    "mask after softmax": ("SelfAttentionV3", _variant("SelfAttentionV3", "mask-after-softmax#1")),
    "mask inverted": ("SelfAttentionV3", _variant("SelfAttentionV3", "mask-inverted#1")),
    "fill not low enough": ("SelfAttentionV3", _variant("SelfAttentionV3", "fill-not-low-enough#3")),
    "tilde on int": ("SelfAttentionV3", _variant("SelfAttentionV3", "tilde-on-int#2")),
    "dropout always on": ("SelfAttentionV3", _variant("SelfAttentionV3", "dropout-always-on#1")),
    "dropout before softmax": ("SelfAttentionV3", _variant("SelfAttentionV3", "dropout-before-softmax#1")),
    "scale by d_model": ("MultiHeadAttention", _variant("MultiHeadAttention", "scale-d-model#1")),
    "merge without transpose": ("MultiHeadAttention", _variant("MultiHeadAttention", "merge-without-transpose#1")),
    "view not contiguous": ("MultiHeadAttention", _variant("MultiHeadAttention", "view-not-contiguous#1")),
    "no divisibility check": ("MultiHeadAttention", _variant("MultiHeadAttention", "no-divisibility-check#1")),
    "mask not unsqueezed": ("MultiHeadAttention", _variant("MultiHeadAttention", "mask-not-unsqueezed#1")),
    "causal strict": ("causal_mask", _function("causal_mask", "causal-strict")),
    "padding shape": ("padding_mask", _function("padding_mask", "mask-not-unsqueezed")),
    "variance": ("dot_product_std", _function("dot_product_std", "variance-not-std")),
    "dropout not rescaled": ("inverted_dropout", _function("inverted_dropout", "dropout-no-rescale")),
}


@pytest.mark.parametrize("name", TEXTS)
def test_the_text_is_the_recorded_one(name: str) -> None:
    exercise, answer = TEXTS[name]
    text = str(check_answer(answer, exercise)) + "\n"
    file = FOLDER / f"{name.replace(' ', '-').replace(',', '')}.txt"
    if os.environ.get("UPDATE_FEEDBACK"):
        FOLDER.mkdir(exist_ok=True)
        file.write_text(text, "utf-8")
    assert text == file.read_text("utf-8")


@pytest.mark.parametrize("name", TEXTS)
def test_a_text_is_never_more_than_a_screen_and_names_nothing_of_ours(name: str) -> None:
    exercise, answer = TEXTS[name]
    text = str(check_answer(answer, exercise))
    assert text.count("\n") < 24
    assert not re.search(r"Traceback|helpers/|0x[0-9a-f]{6}|solutions", text)


def test_the_sections_that_a_text_points_to_exist() -> None:
    for notebook, heading in sections():
        cells = json.loads((NOTEBOOKS / f"{notebook}.ipynb").read_text("utf-8"))["cells"]
        lines = [line.lstrip("# ") for cell in cells for line in "".join(cell["source"]).split("\n") if line[:1] == "#"]
        assert heading in lines, (notebook, heading)


def test_no_recorded_text_is_left_over() -> None:
    names = {f"{name.replace(' ', '-').replace(',', '')}.txt" for name in TEXTS}
    assert {file.name for file in FOLDER.iterdir()} == names

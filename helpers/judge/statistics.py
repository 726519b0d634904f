"""Turns random outputs into a row of yes and no: what a random answer must satisfy, whatever its random numbers."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Fact:
    """One yes or no about random outputs, and the sentence that is said when it is no."""

    holds: bool
    otherwise: str


def _share_dropped(output: np.ndarray) -> float:
    return float(np.mean(output == 0))


def inverted_dropout_facts(
    tensors: dict[str, np.ndarray], weights: np.ndarray, rates: tuple[float, float] = (0.5, 0.2)
) -> list[Fact]:
    """The facts about `inverted_dropout`.

    weights: what was given to the calls with random outcome, (rows, columns).
    rates: what was given to the calls "rate 0.5" and "rate 0.2"; a private draw has its own.
    """
    first = tensors.get("rate 0.5", np.zeros(0))
    again = tensors.get("rate 0.5 again", np.zeros(0))
    other = tensors.get("rate 0.2", np.zeros(0))
    default = tensors.get("training by default", np.zeros(0))
    shapes = all(t.shape == weights.shape for t in (first, again, other, default))
    facts = [Fact(shapes, "The output does not have the shape of the weights.")]
    if not shapes:
        return facts
    n = weights.size
    for output, rate in zip((first, other), rates, strict=True):
        kept = output != 0
        spread = 5 * math.sqrt(rate * (1 - rate) / n)
        scaled = np.allclose(output[kept], weights[kept] / (1 - rate), atol=1e-5)
        facts += [
            Fact(scaled, "The weights that stay are not their old value divided by (1 - rate)."),
            Fact(
                abs(_share_dropped(output) - rate) < spread,
                "The share of weights that is dropped is not the rate.",
            ),
        ]
    facts.append(Fact(abs(first.mean() / weights.mean() - 1) < 0.15, "The mean of the weights is not kept."))
    row_share = (first == 0).mean(axis=-1)
    column_share = (first == 0).mean(axis=0)
    facts += [
        Fact(
            bool(np.all((row_share > 0.1) & (row_share < 0.9)) and np.all((column_share > 0.1) & (column_share < 0.9))),
            "Whole rows or columns are dropped together, instead of each weight by itself.",
        ),
        Fact(not np.array_equal(first == 0, again == 0), "Two calls drop the same weights."),
        Fact(
            bool(np.any(default == 0)),
            "Nothing is dropped when `training` is not given; its default is True.",
        ),
    ]
    return facts


def init_facts(tensors: dict[str, np.ndarray], before: np.ndarray) -> list[Fact]:
    """The facts about `init_attention_weights`. before: the weights that were there, (4, d, d + 1), bias last."""
    facts = []
    d = before.shape[1]
    bound = math.sqrt(6 / (2 * d))
    for case in ("main", "no bias"):
        after = tensors.get(case, np.zeros(0))
        if after.shape != before.shape:
            facts.append(Fact(False, "The layers do not have their shapes any more, or the call failed."))
            continue
        for i, name in enumerate(("wq", "wk", "wv", "wo")):
            weight = after[i, :, :d]
            facts += [
                Fact(not np.array_equal(weight, before[i, :, :d]), f"{name} still has its old weights."),
                Fact(np.abs(weight).max() <= bound * 1.001, f"{name} has weights beyond the Xavier bound."),
                Fact(
                    abs(weight.std() / (bound / math.sqrt(3)) - 1) < 0.08 and np.abs(weight).max() > 0.97 * bound,
                    f"The weights of {name} are not spread like Xavier-uniform weights.",
                ),
                Fact(abs(weight.mean()) < 0.1 * bound, f"The weights of {name} are not centred on 0."),
                Fact(bool(np.all(after[i, :, d] == 0)), f"The bias of {name} is not 0."),
            ]
    first, again = tensors.get("main", np.zeros((4, 1, 1))), tensors.get("again", np.zeros(1))
    facts.append(Fact(not np.array_equal(first[0], first[1]), "Two of the layers have the same weights."))
    facts.append(Fact(not np.array_equal(first, again), "Two calls give the same weights."))
    return facts


def as_row(facts: list[Fact]) -> np.ndarray:
    """Yes as 1 and no as 0, for the fingerprints of the answer book."""
    return np.array([float(fact.holds) for fact in facts], dtype=np.float32)


# ------------------------------------------------------------------------------- dropout in the classes


def dropout_problem(
    one_key: np.ndarray | None,
    many_keys: np.ndarray | None,
    rate: float,
    h: int,
    acts_on_scores: bool = False,
) -> str:
    """What is wrong with dropout, as an id, or "".

    one_key: (samples, 1, d) with one key of value 1: each head of each sample must be 0 or 1 / (1 - rate) as a block.
    many_keys: (samples, L, d) with L equal keys of value 1: 1 on average.
    acts_on_scores: train mode changes results although no weight is ever dropped.
    """
    if one_key is None:
        return "dropout-fails"
    if not np.all(np.isfinite(one_key)):
        return "dropout-renormalised"
    blocks = one_key.reshape(len(one_key), h, -1)  # (samples, h, d_k)
    if np.any(blocks.max(axis=-1) - blocks.min(axis=-1) > 1e-4):
        return "dropout-on-context"
    rows = None if many_keys is None else many_keys.reshape(len(many_keys), many_keys.shape[1], h, -1)[..., 0]
    if rows is not None and rows.std() > 1e-4 and np.allclose(rows, rows[:1], atol=1e-4):
        return "dropout-shared-by-batch"
    values = blocks[..., 0].flatten()
    dropped = float(np.mean(np.abs(values) < 1e-4))
    kept = values[np.abs(values) >= 1e-4]
    if dropped == 0:
        return "dropout-before-softmax" if acts_on_scores else "dropout-unused"
    if dropped == 1 or not np.allclose(kept, kept[0], atol=1e-4):
        return "dropout-fails"
    if np.allclose(kept, 1, atol=1e-4):
        mean = 1.0 if many_keys is None else float(np.nanmean(many_keys))
        return "dropout-renormalised" if abs(mean - 1) < 0.1 else "dropout-no-rescale"
    if abs(dropped - (1 - rate)) < 0.2 and abs(rate - 0.5) > 0.1:
        return "dropout-keeps-rate"
    far_from_rate = abs(dropped - rate) > 5 * math.sqrt(rate * (1 - rate) / len(values))
    if not np.allclose(kept, 1 / (1 - rate), atol=1e-3) or far_from_rate:
        return "dropout-rate-ignored"
    if rows is None or many_keys is None:
        return ""
    if len(np.unique(np.round(rows, 3))) <= 2:
        return "dropout-whole-rows"
    if np.allclose(rows, rows[:, :1], atol=1e-4):
        return "dropout-shared-by-queries"
    kept_keys = rows * many_keys.shape[1] * (1 - rate)  # each key brings 1 / (L * (1 - rate)), or nothing
    whole = np.allclose(kept_keys, np.round(kept_keys), atol=1e-3)
    if np.allclose(rows[rows != 0], 1, atol=1e-3):
        return "dropout-renormalised"
    return "" if whole and abs(rows.mean() - 1) < 0.15 else "dropout-fails"


def four_keys_dropped(output: np.ndarray | None, rate: float) -> bool:
    """Is this dropout on four visible keys of value 1? output: (samples, L, d); each key brings 1 / (4 (1 - rate))."""
    if output is None or not np.isfinite(output).all() or np.abs(output - output[..., :1]).max() > 1e-4:
        return False
    kept_keys = output[..., 0] * 4 * (1 - rate)
    whole = np.allclose(kept_keys, np.round(kept_keys), atol=1e-3)
    return whole and set(np.round(kept_keys).astype(int).flatten()) == {0, 1, 2, 3, 4}


def dropped_features(train: np.ndarray, evaluated: np.ndarray, rate: float) -> bool:
    """True when every number in train mode is 0 or its eval value / (1 - rate): dropout on the output itself."""
    if train.shape != evaluated.shape:
        return False
    kept = np.abs(train - evaluated / (1 - rate)) <= 1e-4
    return bool(np.all(kept | (train == 0)))

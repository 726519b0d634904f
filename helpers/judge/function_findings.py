"""What there is to say about the answer to a function exercise."""

from __future__ import annotations

import numpy as np

from helpers.judge.answer_book import agrees, fingerprint
from helpers.judge.class_findings import judge_gradients
from helpers.judge.dossier import Dossier
from helpers.judge.naming import name_failures
from helpers.judge.seen import describe
from helpers.judge.statistics import Fact, init_facts, inverted_dropout_facts


def judge_function(dossier: Dossier) -> None:
    """Add every finding: what was used, the numbers, the random ones, the layers, the gradients."""
    facts = dossier.facts
    used = facts.get("forbidden", [])
    if used and used != ["not used"]:
        dossier.refuse("not-by-hand", "formula", names=", ".join(used))
        return
    if dossier.failed and not name_failures(dossier):
        describe(dossier)
    if dossier.failed:
        return
    if used:
        dossier.refuse("torch-layer-not-used", "formula")
    _judge_random_outputs(dossier)
    if facts.get("frozen_layers"):
        dossier.refuse("frozen-layers", "forms")
    if any(bias != asked for asked, got in facts.get("layer_bias", []) for bias in got):
        dossier.mistake("wrong-bias-choice", "forms")
    if facts.get("edited_inputs") and dossier.exercise != "init_attention_weights":
        dossier.mistake("input-edited", "forms")
    judge_gradients(dossier)


def _judge_random_outputs(dossier: Dossier) -> None:
    """Random outputs cannot be compared by value: what must hold for them whatever the random numbers?"""
    facts = _facts(dossier)
    broken = [fact for fact in facts if not fact.holds]
    if not broken:
        return
    row = np.array([float(fact.holds) for fact in facts], dtype=np.float32)
    known = dossier.book.wrong.get(dossier.exercise, {}).get("statistics", ())
    same = [i for i, other in enumerate(known) if np.array_equal(other, row)]
    names = [dossier.book.labels[dossier.exercise][i].split("#")[0] for i in same if _right_by_value(dossier, i)]
    if names:
        dossier.mistake(names[0], "formula")
    else:
        for number, fact in enumerate(broken[:3], 1):
            dossier.observe(f"statistics-{number}", "formula", sentence=fact.otherwise)


def _facts(dossier: Dossier) -> list[Fact]:
    """What must hold for the random outputs of an exercise; nothing where there are none."""
    if dossier.exercise == "inverted_dropout":
        half, fifth = dossier.right.get("given/rates", (0.5, 0.2))
        return inverted_dropout_facts(dossier.tensors, dossier.right["given/main"], (float(half), float(fifth)))
    if dossier.exercise == "init_attention_weights":
        return init_facts(dossier.tensors, dossier.right["given/main"])
    return []


def _right_by_value(dossier: Dossier, i: int) -> bool:
    """Is known wrong answer number i right on all cases that are judged by value?"""
    wrong = dossier.book.wrong[dossier.exercise]
    cases = [case for case in dossier.kinds if not dossier.is_random(case)]
    return all(bool(agrees(fingerprint(dossier.right[case]), wrong[case][i : i + 1])[0]) for case in cases)

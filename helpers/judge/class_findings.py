"""What there is to say about one of the four attention classes."""

from __future__ import annotations

import numpy as np

from helpers.judge import phrases
from helpers.judge.dossier import WIDTH, Dossier, same_output
from helpers.judge.matching import telling_error
from helpers.judge.naming import name_failures
from helpers.judge.seen import describe
from helpers.judge.statistics import dropout_problem, dropped_features, four_keys_dropped

_RATE, _OTHER_RATES = 0.5, (0.2, 0.8)  # of the dropout probes
_NEEDED = {"SelfAttentionV1": "qkv", "SelfAttentionV2": "qkv", "SelfAttentionV3": "qkvo", "MultiHeadAttention": "qkvo"}


def judge_class(dossier: Dossier) -> None:
    """Add every finding: the numbers first, then state, gradients, dropout and construction."""
    facts = dossier.facts
    if facts["forbidden"]:
        dossier.refuse("not-by-hand", "formula", names=", ".join(facts["forbidden"]))
        return
    if facts["unregistered"]:
        dossier.mistake("heads-in-python-list", "formula")
    if facts["parameters_replaced"]:
        dossier.mistake("layers-built-in-forward", "formula")
        return
    named = bool(dossier.failed) and name_failures(dossier)
    judge_state(dossier)
    if dossier.failed and not named and not dossier.findings:
        describe(dossier)
    if not dossier.failed:
        judge_gradients(dossier)
        _judge_structure(dossier)
    if not dossier.fails_in("formula") and facts.get("repeatable", True):
        if dossier.exercise == "SelfAttentionV3":
            _judge_dropout(dossier)
        else:
            _judge_dropout_not_asked(dossier)
        _judge_train_mode(dossier)
    if dossier.exercise == "MultiHeadAttention":
        _judge_indivisible(dossier)


# ------------------------------------------------------------------------------- state, gradients, structure


def judge_state(dossier: Dossier) -> None:
    """Edited inputs and parameters; equal calls that differ."""
    facts = dossier.facts
    if facts.get("edited_inputs"):
        dossier.mistake("input-edited", "gradients")
    if facts.get("edited_parameters"):
        dossier.mistake("parameters-edited", "gradients")
    if dossier.has_mistake():
        return
    if not facts.get("repeatable", True):
        _name_randomness(dossier)
    elif not dossier.fails_in("formula"):
        main = dossier.right["main"]
        for case in ("again", "eval after train"):
            output = dossier.tensors.get(case)
            if case in facts["cases"] and (
                output is None or output.shape != main.shape or not np.allclose(output, main, atol=2e-5, rtol=1e-5)
            ):
                dossier.mistake("state-kept", "gradients")


def _name_randomness(dossier: Dossier) -> None:
    """Two equal calls in eval mode differ. With one key of value 1, dropout shows itself."""
    one_key, trained = dossier.tensors.get("eval, one key"), dossier.tensors.get("dropout, one key")
    if one_key is None or one_key.std() < 1e-3:
        dossier.observe("not-repeatable", "formula")
        return
    if trained is not None and np.allclose(trained, 1, atol=1e-4):
        dossier.mistake("dropout-mode-inverted", "dropout")
        return
    blocks = one_key.reshape(len(one_key), dossier.h, -1)
    on_weights = np.allclose(blocks.min(axis=-1), blocks.max(axis=-1), atol=1e-4)
    dossier.mistake("dropout-always-on", "dropout", "dropout-built-in-forward" if on_weights else "dropout-on-context")


def judge_gradients(dossier: Dossier, prefix: str = "") -> None:
    """Gradients of every weight and input, against the right ones. prefix: "train/" for those of train mode."""
    for case in ("main", "random mask"):
        backward = dossier.facts["cases"].get(f"{prefix}{case}/backward")
        if backward is None:
            continue
        if backward.get("no_graph"):
            dossier.mistake("graph-cut", "gradients")
            return
        if "raised" in backward:
            id = telling_error(dossier.book, dossier.exercise, backward["raised"]["message"])
            if id:
                dossier.mistake(id, "gradients")
            else:
                dossier.observe("backward-raises", "gradients", error=phrases.error_of(backward["raised"]))
            return
        for name in dossier.right:
            if name.startswith(f"{case}/"):
                _judge_gradient(dossier, name, prefix)


def _judge_gradient(dossier: Dossier, name: str, prefix: str) -> None:
    expected, yours = dossier.right[name], dossier.tensors.get(prefix + name)
    if yours is None or yours.shape != expected.shape:
        return
    judged = _bound_entries(dossier) if name.endswith("/gradient") else np.ones_like(expected, bool)
    if np.isnan(yours[judged]).any():
        dossier.observe("gradient-nan", "gradients")
    elif np.any(np.abs(yours - expected)[judged] > 1e-4 + 1e-4 * np.abs(expected)[judged]):
        dossier.mistake("graph-cut", "gradients")


def _bound_entries(dossier: Dossier) -> np.ndarray:
    """Which entries of the flat weight vector the answer has parameters for: four matrices, then four biases."""
    roles, biases = dossier.binding.get("roles", ""), dossier.binding.get("biases", "")
    return np.concatenate([np.full(WIDTH**2, role in roles) for role in "qkvo"] + [
        np.full(WIDTH, role in biases) for role in "qkvo"
    ])  # fmt: skip


def _judge_structure(dossier: Dossier) -> None:
    held = dossier.binding.get("roles", "")
    if set(_NEEDED[dossier.exercise]) - set(held):
        dossier.observe("weights-not-found", "gradients")
    layers = {key.split("[")[0] for key in dossier.binding.get("units", {})}  # `w[0]` and `w[1]` are one stack
    if dossier.exercise == "SelfAttentionV2" and len(layers) > 1:
        dossier.mistake("not-fused", "sizes")


# -------------------------------------------------------------------------------------- train mode and dropout


def _judge_train_mode(dossier: Dossier) -> None:
    """At a dropout rate of 0 train mode must give what eval mode gives, outputs and gradients."""
    if any(finding.severity != "note" for finding in dossier.findings):
        return
    for case in dossier.kinds:
        facts, yours = dossier.facts["cases"].get(f"train/{case}"), dossier.tensors.get(f"train/{case}")
        if facts is None:
            continue
        if "raised" in facts:
            raised = facts["raised"]
            dossier.observe("train-raises", "gradients", error=phrases.error_of(raised), line=phrases.line_of(raised))
            return
        if yours is None or not same_output(dossier, case, yours):
            dossier.observe("train-numbers", dossier.part(case), when=phrases.case_words(case))
            return
    judge_gradients(dossier, "train/")


def _judge_dropout(dossier: Dossier) -> None:
    for case in ("dropout, one key", "dropout, many keys", "dropout, four of seven keys", "train, masked"):
        raised = dossier.facts["cases"].get(case, {}).get("raised")
        if raised:
            if not dossier.fails_in("mask"):
                error, line = phrases.error_of(raised), phrases.line_of(raised)
                dossier.observe("train-raises", "dropout", error=error, line=line)
            return
    problem = _dropout_problem(dossier)
    if problem in phrases.SENTENCES:
        dossier.observe(problem, "dropout")
    elif problem:
        dossier.mistake(problem, "dropout")
    elif not dossier.fails_in("mask", "low", "large mask") and _leaks_in_train_mode(dossier):
        dossier.observe("train-leaks", "mask")


def _dropout_problem(dossier: Dossier) -> str:
    """The id of what is wrong with dropout on the weights, or ""."""
    tensors = dossier.tensors
    one, many = tensors.get("dropout, one key"), tensors.get("dropout, many keys")
    acts_with_mask = _differs(tensors.get("train, masked"), dossier.right["causal mask"])
    problem = dropout_problem(one, many, _RATE, 1, acts_with_mask)
    alone = [array for case, array in tensors.items() if case.startswith("dropout, one key, layer")]
    if alone and problem and any(not dropout_problem(array, None, _RATE, 1) for array in alone):
        dossier.note("more-dropout")
        return ""
    if alone:
        return problem
    fresh = [dropout_problem(tensors.get(f"dropout, rate {rate}"), None, rate, 1) for rate in _OTHER_RATES]
    if problem:
        return "dropout-lost-after-eval" if problem == "dropout-unused" and not any(fresh) else problem
    if any(fresh):
        return next(filter(None, fresh))
    if dropout_problem(tensors.get("dropout, after eval"), None, _RATE, 1):
        return "dropout-lost-after-eval"
    if not acts_with_mask and not dossier.fails_in("mask"):
        return "dropout-unused"
    gradient = tensors.get("dropout, one key/input gradient 0")
    if one is not None and gradient is not None and not np.allclose(gradient, one, atol=1e-3):
        return "graph-cut"  # each token's gradient is the factor that its weight was multiplied with
    again = tensors.get("dropout, one key again")
    if one is not None and again is not None and np.array_equal(one, again):
        return "dropout-same-every-time"
    four = tensors.get("dropout, four of seven keys")
    return "dropout-with-mask" if not dossier.fails_in("mask") and not four_keys_dropped(four, _RATE) else ""


def _differs(a: np.ndarray | None, b: np.ndarray) -> bool:
    return a is not None and a.shape == b.shape and not np.allclose(a, b, atol=1e-4)


def _leaks_in_train_mode(dossier: Dossier) -> bool:
    """Same random numbers, the hidden last token changed: earlier positions must not notice."""
    before, after = (dossier.tensors.get(f"train, masked{end}") for end in ("", ", last token changed"))
    return before is not None and after is not None and _differs(before[:, :-1], after[:, :-1])


def _judge_dropout_not_asked(dossier: Dossier) -> None:
    """Where the contract has no dropout it may be there, but not wrong."""
    one, train, main = (dossier.tensors.get(case) for case in ("dropout, one key", "train mode", "main"))
    if one is None or train is None or main is None:
        return
    if train.shape != main.shape:
        dossier.observe("train-numbers", "gradients", when=phrases.case_words("main"))
        return
    problem = dropout_problem(one, None, _RATE, dossier.h)
    if not problem or dropped_features(train, dossier.right["main"], _RATE) or dossier.facts["dropouts"] > 1:
        dossier.note("dropout-not-asked")
    elif problem in dossier.book.words and dossier.facts["dropouts"]:
        dossier.mistake(problem, "gradients")
    else:
        dossier.observe("train-differs", "gradients")


def _judge_indivisible(dossier: Dossier) -> None:
    """A width that the heads do not divide must be refused when the module is built."""
    kinds = dossier.facts.get("indivisible", [])
    if not kinds:
        dossier.mistake("no-divisibility-check", "gradients")
    elif "ValueError" not in kinds and "AssertionError" not in kinds:
        dossier.observe("indivisible-other-error", "gradients", error=kinds[0])


# -------------------------------------------------------------------------------------------------- notes


def add_notes(dossier: Dossier) -> None:
    """What is unusual or fragile about a class that passed."""
    facts, binding = dossier.facts, dossier.binding
    for id in binding.get("notes", []):
        dossier.note(id)
    if not binding.get("contract") and facts.get("readings_tried", 1) > 1:
        dossier.note("roles-discovered", names=phrases.roles_sentence(binding))
    if binding.get("unbound"):
        dossier.note("extra-parameters", names=", ".join(binding["unbound"]))
    extra = facts["cases"].get("main", {}).get("extra_shape")
    if dossier.exercise == "MultiHeadAttention" and extra and len(extra) == 3:
        dossier.note("weights-head-averaged")
    if facts["saved_buffers"]:
        dossier.note("mask-in-state-dict")
    if "bool" in facts["plain_tensors"].values():
        dossier.note("mask-not-buffer")
    rate = facts.get("default_rate")
    if dossier.exercise == "SelfAttentionV3" and rate is not None and abs(rate - 0.1) > 1e-9:
        dossier.note("default-rate", value=rate)
    _add_precision_notes(dossier)


def _add_precision_notes(dossier: Dossier) -> None:
    half, brain, double, meta = (dossier.facts.get(name) for name in ("half", "bfloat16", "double", "meta"))
    error = half or brain or double
    if half and "overflow" in half["message"]:
        dossier.note("fill-overflows-half")
    elif error and "dtype" in error["message"]:
        dossier.note("mask-dtype-clash")
    elif error:
        dossier.note("other-dtype-raises", error=phrases.error_of(error))
    if meta and "meta" in meta["message"] and "device" in meta["message"] and "item" not in meta["message"]:
        dossier.note("mask-made-on-cpu")
    deep, expected = dossier.tensors.get("very large scores"), dossier.right.get("given/very large scores")
    if deep is not None and expected is not None and deep.shape == expected.shape:
        with np.errstate(invalid="ignore"):
            close = np.abs(deep - expected) <= 0.05 + 0.01 * np.abs(expected)
        fragile = any(result.outcome == "fragile" for result in dossier.results)
        if not close.all() and np.isfinite(deep).all() and not fragile:
            dossier.note("fill-may-be-reached")

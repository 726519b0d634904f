"""Wrong answers made by rule: the judge refuses every mutant of a solution that computes something else, and no other.

A mutant is a solution with one small change of its source (`tests/mutants.py`). Whether it computes something else is
decided there by running it beside the solution, without the judge.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import mutants
import pytest
from mutants import Mutant

from helpers.course import EXERCISES
from helpers.judge import check_answer

exercises = pytest.mark.parametrize("exercise", [exercise.name for exercise in EXERCISES])

# What changes nothing, and why: reason → exercises → the change. A change is what the changed line holds afterwards,
# or two statements that changed places.
SELF = "SelfAttentionV1 SelfAttentionV2 SelfAttentionV3"
EQUIVALENT: dict[str, dict[str, tuple[str, ...]]] = {
    "the same axes by other numbers, or in the other order": {
        f"attention_scores {SELF} MultiHeadAttention": ("k.transpose(-1, -2)",),
        SELF: ("k.transpose(1, -1)", "k.transpose(-2, 2)", "softmax(dim=2)"),
        "SelfAttentionV2 SelfAttentionV3": ("chunk(3, dim=2)",),
        "MultiHeadAttention": ("k.transpose(2, -1)", "k.shape[-2]"),
        "MultiHeadAttention split_heads merge_heads": (".transpose(2, 1)", ".transpose(1, -2)"),
        "padding_mask": ("lengths.unsqueeze(-1)", "real.unsqueeze(-2)"),
        "stack_heads": ("weight.shape[-1], weight.shape[0]", "weight.shape[1], weight.shape[-2]"),
    },
    "the same width, length or bias, read elsewhere": {
        "attention_scores": ("d = k.shape[-1]",),
        "SelfAttentionV1 SelfAttentionV3": ("nn.Linear(self.hidden_dim, hidden_dim)",),
        "SelfAttentionV1 SelfAttentionV3 ": ("nn.Linear(hidden_dim, self.hidden_dim)",),
        "SelfAttentionV2 SelfAttentionV3": ("nn.Linear(self.hidden_dim, 3 *", "nn.Linear(hidden_dim, 3 * self."),
        "MultiHeadAttention": ("d_model // self.h", "v.shape[1]"),
        "fuse_projections": ("query_proj.out_features", "key_proj.in_features", "value_proj.in_features",
                             "bias=key_proj.bias", "bias=value_proj.bias", "if query_proj.bias", "if key_proj.bias",
                             "if value_proj.bias"),
        "stack_heads": ("small_layers[-1].bias",),
        "torch_attention": ("mha.wq.out_features", "mha.wk.in_", "mha.wv.in_", "mha.wo.in_"),
    },
    "h * d_k = d_model: the wide matrix is square": {
        "stack_heads": ("weight.shape[0], weight.shape[1]", "weight.shape[0], weight.shape[0]",
                        "weight.shape[-2], weight.shape[0]", "weight.shape[1], weight.shape[1]",
                        "weight.shape[1], weight.shape[-1]"),
    },
    "a product or a sum the other way round": {
        "attention_parameters": ("(hidden_dim if bias else 0) + hidden_dim * hidden_dim", "per_layer * 3"),
        "fuse_projections": ("d * 3",),
        "SelfAttentionV2 SelfAttentionV3": ("hidden_dim * 3",),
        "inverted_dropout": ("keep * weights",),
        "merge_heads": ("d_k * h",),
    },
    "the two names change places on every line that uses them": {"merge_heads": ("B, d_k, L, h = x.shape",)},
    "on 0 and 1, at most 0 is equal to 0; a remainder is never negative": {
        "masked_softmax repaired_weights MultiHeadAttention": ("mask <= 0",),
        "SelfAttentionV3": ("attention_mask <= 0",),
        "MultiHeadAttention": ("if d_model % h > 0:", "if d_model % h:"),
    },
    "a large negative number instead of -inf passes by contract": {
        "masked_softmax repaired_weights SelfAttentionV3 MultiHeadAttention": ("-1000000000.0",),
    },
    "the words of an error are free": {
        "MultiHeadAttention": ("raise ValueError()", "raise ValueError(ValueError("),
    },
    "the tensor that is edited or reshaped is the answer's own": {
        "SelfAttentionV3 MultiHeadAttention": ("scores.masked_fill_(",),
        "split_heads": ("x.reshape(",),
        "MultiHeadAttention": ("self.wq(q).reshape(", "self.wk(k).reshape(", "self.wv(v).reshape("),
    },
    "the second time has nothing left to do": {
        "causal_mask": (".tril().tril()",),
        "merge_heads": (".reshape(B, L, h * d_k).reshape(B, L, h * d_k)",),
        "MultiHeadAttention": (".view(B, L_q, self.h, self.d_k).view(", ".view(B, L_k, self.h, self.d_k).view(",
                               ".reshape(B, L_q, d_model).reshape("),
    },
    "joining vectors: hstack is cat": {
        "fuse_projections stack_heads torch_attention": ("torch.hstack([",),
    },
    "a random number is equal to the rate once in 16 million draws": {
        "inverted_dropout": ("torch.rand_like(weights) > dropout_rate",),
    },
    "one device: the lengths lie on the CPU": {"padding_mask": ("torch.arange(max_length)",)},
    "every head has three layers, so strict finds nothing; a list unpacks like a tuple": {
        "stack_heads": ("zip(*heads)", "strict=False", "strict=None", "return wide_layers"),
    },
    "the biases of nn.MultiheadAttention begin at 0; a bias of the keys moves all scores of a row alike": {
        "torch_attention": ("in_proj_bias.add_(", "out_proj.bias.add_(", "[mha.wq.bias, mha.wq.bias,",
                            "[mha.wq.bias, mha.wv.bias,", "[mha.wq.bias, mha.wo.bias,"),
    },
    "the name is not used again": {
        "torch_attention": ("output, mha =", "output, q =", "output, k =", "output, v =", "output, mask =",
                            "output, d_model =", "output, twin =", "output, blocked ="),
    },
    "the statements do not depend on each other": {
        SELF: ("super().__init__() ⇄ self.hidden_dim",),
        "SelfAttentionV1": ("self.hidden_dim ⇄ self.query_proj", "self.query_proj ⇄ self.key_proj",
                            "self.key_proj ⇄ self.value_proj"),
        "SelfAttentionV1 MultiHeadAttention": ("q ⇄ k", "k ⇄ v", "v ⇄ scores"),
        "SelfAttentionV2 SelfAttentionV3": ("self.hidden_dim ⇄ self.proj",),
        "SelfAttentionV3": ("self.proj ⇄ self.attention_dropout", "self.attention_dropout ⇄ self.output_proj"),
        "MultiHeadAttention": ("super().__init__() ⇄ if d_model % h != 0:", "if d_model % h != 0: ⇄ self.h",
                               "self.h ⇄ self.d_k", "self.d_k ⇄ self.wq", "self.wq ⇄ self.wk", "self.wk ⇄ self.wv",
                               "self.wv ⇄ self.wo", "(B, L_q, d_model) ⇄ L_k", "L_k ⇄ q"),
        "fuse_projections": ("d ⇄ layers", "layers ⇄ fused",
                             "fused.weight.copy_(torch.cat([layer.weight for layer in layers])) "
                             "⇄ if fused.bias is not None:"),
        "inverted_dropout": ("if not training: ⇄ keep",),
        "init_attention_weights": ("nn.init.xavier_uniform_(layer.weight) ⇄ if layer.bias is not None:",),
        "stack_heads": ("with torch.no_grad(): ⇄ wide_layers.append(wide)",
                        "wide.weight.copy_(weight) ⇄ if wide.bias is not None:"),
        "torch_attention": ("with torch.no_grad(): ⇄ blocked",
                            "twin.in_proj_weight.copy_(torch.cat([mha.wq.weight, mha.wk.weight, mha.wv.weight])) "
                            "⇄ twin.in_proj_bias.copy_(torch.cat([mha.wq.bias, mha.wk.bias, mha.wv.bias]))",
                            "twin.in_proj_bias.copy_(torch.cat([mha.wq.bias, mha.wk.bias, mha.wv.bias])) "
                            "⇄ twin.out_proj.weight.copy_(mha.wo.weight)",
                            "twin.out_proj.weight.copy_(mha.wo.weight) ⇄ twin.out_proj.bias.copy_(mha.wo.bias)"),
    },
}  # fmt: skip


class Outcome(NamedTuple):
    """What became of a mutant. difference: where it differs from the solution, or "". verdict: the judge's status."""

    mutant: Mutant
    difference: str
    verdict: str


@lru_cache
def outcomes(exercise: str) -> list[Outcome]:
    """All mutants of an exercise, run and judged once."""
    return [_outcome(mutant) for mutant in mutants.mutants(exercise)]


def _outcome(mutant: Mutant) -> Outcome:
    answer = mutant.build()
    difference = mutants.difference(mutant.exercise, answer)
    try:
        verdict = check_answer(answer, mutant.exercise).status
    except Exception as error:  # the judge promises never to raise
        verdict = f"the judge raised {type(error).__name__}: {error}"
    return Outcome(mutant, difference, verdict)


def reviewed(mutant: Mutant) -> set[str]:
    """The entries of EQUIVALENT that speak of this mutant."""
    before, _, after = mutant.change.partition(" → ")
    entries = {
        change
        for cases in EQUIVALENT.values()
        for names, changes in cases.items()
        for change in changes
        if mutant.exercise in names.split()
    }
    return {entry for entry in entries if entry == mutant.change or (entry in after and entry not in before)}


def report(found: list[Outcome], total: int, what: str) -> str:
    lines = [f"  {o.mutant.operator} | {o.mutant.change} | differs on: {o.difference} | {o.verdict}" for o in found]
    return "\n".join([f"{len(found)} of {total} mutants {what}:", *lines])


@exercises
def test_every_mutant_that_computes_something_else_is_refused(exercise: str) -> None:
    different = [outcome for outcome in outcomes(exercise) if outcome.difference]
    survivors = [outcome for outcome in different if outcome.verdict not in ("wrong", "error", "not started")]

    assert different
    assert not survivors, report(survivors, len(different), "are accepted, or break the judge")


@exercises
def test_a_mutant_that_computes_the_same_passes(exercise: str) -> None:
    same = [outcome for outcome in outcomes(exercise) if not outcome.difference]
    refused = [outcome for outcome in same if outcome.verdict != "passed"]

    assert not refused, report(refused, len(same), "are refused though they are right")


@exercises
def test_every_mutant_that_computes_the_same_has_a_reviewed_reason(exercise: str) -> None:
    same = [outcome for outcome in outcomes(exercise) if not outcome.difference]
    unexplained = [outcome for outcome in same if not reviewed(outcome.mutant)]

    assert not unexplained, report(unexplained, len(same), "are not explained in EQUIVALENT")


@exercises
def test_no_reviewed_reason_is_stale(exercise: str) -> None:
    used = set().union(*(reviewed(outcome.mutant) for outcome in outcomes(exercise) if not outcome.difference))
    listed = [
        change
        for cases in EQUIVALENT.values()
        for names, changes in cases.items()
        for change in changes
        if exercise in names.split()
    ]

    assert [change for change in listed if change not in used] == []


@pytest.mark.parametrize(
    ("operator", "change"),
    [
        ("swap names", "B, L_q, d_model = q.shape → L_q, B, d_model = q.shape"),
        ("swap operands", "context = weights @ v → context = v @ weights"),
        ("replace name", "k = self.wk(k).view(B, L_k, self.h, self.d_k).transpose(1, 2) → "
                         "k = self.wk(k).view(B, L_q, self.h, self.d_k).transpose(1, 2)"),
        ("drop statement", "context = context.transpose(1, 2).reshape(B, L_q, d_model) → pass"),
        ("change number", "weights = scores.softmax(dim=-1) → weights = scores.softmax(dim=-2)"),
        ("change operator", "scores = q @ k.transpose(-2, -1) / math.sqrt(self.d_k) → "
                            "scores = q @ k.transpose(-2, -1) * math.sqrt(self.d_k)"),
        ("negate condition", "if mask is not None: → if not mask is not None:"),
        ("drop wrapper", "scores = q @ k.transpose(-2, -1) / math.sqrt(self.d_k) → "
                         "scores = q @ k.transpose(-2, -1) / self.d_k"),
        ("replace -inf", "scores = scores.masked_fill(mask == 0, float('-inf')) → "
                         "scores = scores.masked_fill(mask == 0, 1e-20)"),
        ("swap statements", "weights ⇄ context"),
    ],
)  # fmt: skip
def test_the_operators_make_the_slips_that_people_make(operator: str, change: str) -> None:
    made = {(mutant.operator, mutant.change) for name in ("MultiHeadAttention", "SelfAttentionV1")
            for mutant in mutants.mutants(name)}  # fmt: skip

    assert (operator, change) in made


@exercises
def test_mutants_differ_from_the_solution_and_from_each_other(exercise: str) -> None:
    sources = [mutant.source for mutant in mutants.mutants(exercise)]

    assert len(set(sources)) == len(sources) > 0

"""What cannot be drawn is refused with a ValueError in words that name the input and both lengths."""

from __future__ import annotations

import math
import re

import numpy as np
import pytest
import torch

from helpers import plots

HALF = torch.full((2, 2), 0.5)
ZEROS = torch.zeros(2, 2)
NAN = torch.tensor([[math.nan, 1.0], [0.5, 0.5]])

REFUSED = {
    "three axes": (lambda: plots.attention_heatmap(torch.zeros(1, 2, 2)), "weights must be a matrix .*(1, 2, 2)"),
    "one axis": (lambda: plots.attention_heatmap(torch.ones(2)), "weights must be a matrix .*(2,)"),
    "empty": (lambda: plots.attention_heatmap(torch.zeros(0, 2)), "weights is empty"),
    "words": (lambda: plots.attention_heatmap([["a", "b"]]), "weights must be a tensor or an array of real numbers"),
    "complex": (lambda: plots.attention_heatmap(HALF.to(torch.complex64)), "real numbers"),
    "no data": (lambda: plots.attention_heatmap(HALF.to("meta")), "weights must be a tensor or an array"),
    "complex array": (lambda: plots.attention_heatmap(np.ones((1, 1), dtype=complex)), "real numbers"),
    "ragged": (lambda: plots.attention_heatmap([[1.0], [0.5, 0.5]]), "weights must be a tensor or an array"),
    "none": (lambda: plots.attention_heatmap(None), "weights must be a tensor or an array"),
    "sums": (lambda: plots.attention_heatmap(torch.ones(2, 2)), "must sum to 1 over the keys; row 0 sums to 2"),
    "negative": (lambda: plots.attention_heatmap([[-0.5, 1.5]]), "must not be negative; row 0 holds -0.5"),
    "nan": (lambda: plots.attention_heatmap(NAN), "weights holds NaN in row 0"),
    "nan, open row": (lambda: plots.attention_heatmap(NAN, mask=torch.eye(2)), "weights holds NaN in row 0"),
    "infinity": (lambda: plots.attention_heatmap([[math.inf, 0.0]]), "row 0 sums to inf"),
    "queries": (lambda: plots.attention_heatmap(HALF, ["a"], ["a", "b"]), "queries has 1 labels, .* 2 queries (rows)"),
    "keys": (lambda: plots.attention_heatmap(HALF, None, list("abc")), "labels, but there are 2"),
    "keys only": (lambda: plots.attention_heatmap(HALF, list("ab"), list("abc")), "keys has 3 labels, .* 2 keys (colu"),
    "one string": (lambda: plots.attention_heatmap(HALF, "ab"), "queries must be a list"),
    "mask shape": (lambda: plots.attention_heatmap(HALF, mask=torch.ones(3, 2)), "mask has the shape (3, 2), .* 2 que"),
    "mask batch": (lambda: plots.attention_heatmap(HALF, mask=torch.ones(3, 2, 2)), "mask has the shape (3, 2, 2)"),
    "mask values": (lambda: plots.attention_heatmap(HALF, mask=HALF), "mask must hold only True and False"),
    "mask nan": (lambda: plots.attention_heatmap(HALF, mask=NAN), "mask holds NaN at [0, 0]"),
    "steps shape": (
        lambda: plots.score_steps(ZEROS, torch.zeros(2, 3), HALF),
        "scaled has the shape (2, 3), but scores",
    ),
    "steps nan": (lambda: plots.score_steps(NAN, ZEROS, HALF), "scores holds NaN at [0, 0] (1 of 4"),
    "steps weights": (lambda: plots.score_steps(ZEROS, ZEROS, ZEROS), "must sum to 1"),
    "heads axes": (lambda: plots.heads(HALF), "must have the shape (h, L_q, L_k); this has the shape (2, 2)"),
    "heads batch": (lambda: plots.heads(torch.zeros(1, 1, 2, 2)), "Pick one sample first"),
    "heads empty": (lambda: plots.heads(torch.zeros(0, 2, 2)), "weights is empty"),
    "heads sums": (lambda: plots.heads(torch.stack([HALF, ZEROS])), "row of weights of head 1 must sum to 1"),
    "heads titles": (lambda: plots.heads(HALF[None], titles=["a", "b"]), "titles has 2 titles, but there are 1 heads"),
    "path infinity": (lambda: plots.mask_path([[-math.inf]], [[1]]), "scores holds an infinity at [0, 0]"),
    "path fill": (lambda: plots.mask_path(ZEROS, HALF * 2, fill=math.nan), "fill must be a number such as -inf"),
    "path fill word": (lambda: plots.mask_path(ZEROS, HALF * 2, fill="low"), "fill must be a number .* 'low'"),
    "no fills": (lambda: plots.compare_fills(ZEROS, HALF * 2, []), "fills is empty"),
    "fills nan": (lambda: plots.compare_fills(ZEROS, HALF * 2, [math.nan]), "each of fills must be a number"),
    "moved values": (lambda: plots.dependency_map(HALF), "moved must hold only True and False"),
    "moved shape": (lambda: plots.dependency_map(ZEROS, expected=torch.zeros(3, 3)), "expected has the shape (3, 3)"),
    "stds length": (
        lambda: plots.scale_effect([4, 8], {"a": [1]}, {"a": [1, 2]}),
        "stds['a'] has 1 values, but widths has 2",
    ),
    "entropies length": (
        lambda: plots.scale_effect([4], {"a": [1]}, {"a": [1, 2]}),
        "entropies['a'] has 2 values, but wid",
    ),
    "no stds": (lambda: plots.scale_effect([4], {}, {"a": [1]}), "stds is empty"),
    "zero std": (lambda: plots.scale_effect([4], {"a": [0]}, {"a": [1]}), "stds must be positive"),
    "no widths": (lambda: plots.scale_effect([], {"a": []}, {"a": []}), "widths is empty"),
    "negative width": (lambda: plots.scale_effect([-4], {"a": [1]}, {"a": [1]}), "widths must be positive"),
    "stds list": (lambda: plots.scale_effect([4], [1], {"a": [1]}), "stds must map labels to values"),
    "no samples": (lambda: plots.score_distribution({}), "samples is empty"),
    "samples list": (lambda: plots.score_distribution([1.0]), "samples must map labels to values"),
    "empty sample": (lambda: plots.score_distribution({"a": []}), "samples['a'] is empty"),
    "sample nan": (lambda: plots.score_distribution({"a": [math.nan]}), "samples['a'] holds NaN"),
    "draws axes": (lambda: plots.dropout_draws(HALF, HALF, 0.1), "draws must have the shape (n, L_q, L_k)"),
    "draws shape": (
        lambda: plots.dropout_draws(HALF, torch.zeros(1, 3, 3), 0.1),
        "(1, 3, 3), but weights has the shape (2, 2)",
    ),
    "no draws": (lambda: plots.dropout_draws(HALF, torch.zeros(0, 2, 2), 0.1), "draws is empty"),
    "rate": (lambda: plots.dropout_draws(HALF, HALF[None], 1.0), "rate must be at least 0 and below 1; this is 1.0"),
    "no parts": (lambda: plots.fused_weight(HALF, []), "parts is empty"),
    "part rows": (lambda: plots.fused_weight(HALF, [("q", [0, 2])]), "rows of 'q' must be whole numbers from 0 to 1"),
    "half a row": (lambda: plots.fused_weight(HALF, [("q", [0.5])]), "rows of 'q' must be whole numbers"),
    "row twice": (lambda: plots.fused_weight(HALF, [("q", [0]), ("k", [0])]), "'q' and 'k' claim the same row"),
    "no steps": (lambda: plots.reshaping([]), "steps is empty"),
    "step axes": (lambda: plots.reshaping([("x", torch.zeros(1, 1, 1, 1))]), "'x' must have 2 or 3 dimensions"),
    "empty step": (lambda: plots.reshaping([("x", torch.zeros(0, 2))]), "'x' is empty"),
    "curve length": (
        lambda: plots.curves([1, 2], {"a": [1]}, x_label="x", y_label="y"),
        "series['a'] has 1 values, but x has 2",
    ),
    "no curves": (lambda: plots.curves([1], {}, x_label="x", y_label="y"), "series must map at least one label"),
    "curve nan": (lambda: plots.curves([1], {"a": [math.nan]}, x_label="x", y_label="y"), "series['a'] holds NaN"),
    "band name": (
        lambda: plots.curves([1], {"a": [1]}, x_label="x", y_label="y", spread={"b": ([0], [1])}),
        "spread names 'b', but series has no such label",
    ),
    "band length": (
        lambda: plots.curves([1], {"a": [1]}, x_label="x", y_label="y", spread={"a": ([0, 1], [1, 2])}),
        "spread['a'] has 2 values, but x has 1",
    ),
    "band order": (
        lambda: plots.curves([1], {"a": [1]}, x_label="x", y_label="y", spread={"a": ([2], [1])}),
        "somewhere low is above high",
    ),
    "log of zero": (
        lambda: plots.curves([0], {"a": [1]}, x_label="x", y_label="y", log_x=True),
        "x must be positive",
    ),
    "log of a value": (
        lambda: plots.curves([1], {"a": [-1]}, x_label="x", y_label="y", log_y=True),
        "series and spread must be positive",
    ),
    "difference shape": (
        lambda: plots.difference(ZEROS, torch.zeros(2, 3)),
        "expected has the shape (2, 3), but yours has the shape (2, 2)",
    ),
    "difference axes": (lambda: plots.difference(torch.zeros(2), torch.zeros(2)), "yours must be a matrix"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_drawn_is_refused_in_words(case):
    call, words = REFUSED[case]
    pattern = ".*".join(re.escape(part) for part in words.split(".*"))
    with pytest.raises(ValueError, match=pattern) as caught:
        call()
    assert str(caught.value)[0].isalpha()
    assert str(caught.value).rstrip().endswith((".", "?"))

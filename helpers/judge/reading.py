"""Where a learner finds more about a mistake: the section of a notebook, by the mistake's id."""

from __future__ import annotations

# The beginnings of ids, and the section (notebook, heading) that shows what they are about. The first that fits counts.
_SECTIONS: tuple[tuple[tuple[str, ...], str, str], ...] = (
    (("heads-in-python", "not-a-parameter", "layers-built"), "01_self_attention_v1", "The whole layer"),
    (("scale-d-model", "scale-by-heads"), "04_multi_head_attention", "√d_k against √d_model"),
    (("scale-", "sqrt-of-int", "variance", "std-", "inverse-std"), "01_self_attention_v1", "Why √d"),
    (("k-not-", "k-wrong", "scores-", "features-"), "01_self_attention_v1", "From queries and keys to scores"),
    (("softmax-after-mask",), "03_self_attention_v3", "Why not afterwards?"),
    (("softmax-", "exp-", "naive-exp", "sigmoid", "one-hot", "max-of", "rows-do"), "01_self_attention_v1",
     "From scores to weights"),
    (("weights-times", "stream-", "one-proj", "roles-", "bias-ign"), "01_self_attention_v1", "Query, key and value"),
    (("k-uses", "q-uses", "v-uses", "weight-transposed"), "01_self_attention_v1", "Why three matrices, and not one?"),
    (("parameters-w", "parameters-o", "parameters-f"), "01_self_attention_v1", "How many parameters?"),
    (("fused-order",), "02_self_attention_v2", "Three layouts, one shape"),
    (("split-wrong", "split-by-count", "inplace-on-chunk"), "02_self_attention_v2", "What the cut hands you"),
    (("not-fused", "fuse-", "wrong-bias"), "02_self_attention_v2", "What the wide layer has to give"),
    (("fused-xavier", "ratio-", "fan-in"), "02_self_attention_v2", "What an initialisation sees"),
    (("mask-after", "minus-inf-after"), "03_self_attention_v3", "Why not afterwards?"),
    (("fill-", "mask-multiplied", "additive", "zero-times"), "03_self_attention_v3",
     "What each fill value lets through"),
    (("nan-", "all-masked"), "03_self_attention_v3", "A query with nothing to look at"),
    (("causal-", "diagonal-"), "03_self_attention_v3", "Nobody looks ahead"),
    (("padding-",), "03_self_attention_v3", "Nobody looks at padding"),
    (("mask", "tilde", "one-minus", "if-mask", "integer-mask", "square-mask", "sees-", "does-not", "keep-all"),
     "03_self_attention_v3", "The whole path"),
    (("dropout-",), "03_self_attention_v3", "Dropout on the weights"),
    (("no-out-proj", "out-proj"), "03_self_attention_v3", "What does the output projection add?"),
    (("split-", "merge-", "view-", "head-layout"), "04_multi_head_attention", "View and transpose do not commute"),
    (("heads-", "first-head", "attention-across", "gqa"), "04_multi_head_attention", "What a head gets"),
    (("xavier", "kaiming", "biases-not", "layer-forgotten"), "04_multi_head_attention", "How the layer starts"),
    (("stack-order",), "04_multi_head_attention", "Four linears are the loop"),
)  # fmt: skip


def section_about(id: str) -> tuple[str, str] | None:
    """(notebook, heading) of the section that shows what a finding is about, or None."""
    for beginnings, notebook, heading in _SECTIONS:
        if id.startswith(beginnings):
            return notebook, heading
    return None


def sections() -> list[tuple[str, str]]:
    """All sections that are pointed to."""
    return [(notebook, heading) for _, notebook, heading in _SECTIONS]

"""The sentences of the judge: whole templates with named places, ready to be translated."""

from __future__ import annotations

import re
from typing import Any

import numpy as np

# What a learner reads where the catalogue of mistakes has no words. id → (sentence, hint)
SENTENCES: dict[str, tuple[str, str]] = {
    "not-started": ("`{name}` is still open: write your answer, run its cell, then run the check again.", ""),
    "interrupted": (
        "The check was stopped while your code was still running{line}.",
        "Is there a loop whose condition never becomes false?",
    ),
    "an-instance": (
        "This is an object that was already built. Give the class itself: `check({name})`, without brackets behind it.",
        "",
    ),
    "not-a-class": ("`{name}` should be {what}, and this is of type `{kind}`.", "Did another cell reuse the name?"),
    "not-a-function": ("`{name}` should be {what}, and this is of type `{kind}`.", "Did another cell reuse the name?"),
    "not-a-module": (
        "`{name}` does not inherit from nn.Module, so PyTorch cannot find its layers.",
        "What stands in the brackets behind the class name?",
    ),
    "built-no-module": ("Calling `{name}` gave an object of type `{kind}`, not an nn.Module.", ""),
    "broke-the-check": (
        "Your code replaces something that the check itself needs, and the check stopped: {kind}",
        "Which function of Python or PyTorch do you assign to?",
    ),
    "no-super-init": (
        "The layers were assigned before nn.Module was set up{line}.",
        "What must the first line of `__init__` do?",
    ),
    "no-forward": (
        "`{name}` has no forward method of its own.",
        "Is it spelled `forward`, and indented inside the class?",
    ),
    "wrong-arguments": (
        "`{name}` cannot be built the way the exercise builds it: {contract}. Its arguments are: {arguments}. {error}",
        "Compare your `__init__` with the exercise.",
    ),
    "wrong-forward-arguments": (
        "`{name}` cannot be called the way the exercise calls it: {contract}. Its arguments are: {arguments}. {error}",
        "Compare your `forward` with the exercise.",
    ),
    "build-raises": ("Building `{name}` raised {error}{line}.", ""),
    "call-raises": ("Calling `{name}` raised {error}{line}.", ""),
    "raises": ("{when}, your code raised {error}{line}.", ""),
    "train-raises": ("In train mode your code raised {error}{line}.", "What is different in train mode?"),
    "backward-raises": (
        "The forward pass is right, but the backward pass raised {error}.",
        "Which tensor is changed after something else has used it?",
    ),
    "wrong-shape": (
        "{when}, your output has the shape {yours}; it should be {expected}.{axis}",
        "Write the shape behind each line of your code.",
    ),
    "wrong-type": (
        "{when}, your code returned `{kind}`; the exercise asks for {wanted}.",
        "What does the last line return?",
    ),
    "nan-when": ("{when}, your output contains NaN or infinity.", "Where does the first one appear?"),
    "roles-not-found": (
        "The check could not find which of your parameters plays which role, so your numbers cannot be compared.",
        "Would somebody else see which parameter makes q, k, v and the output?",
    ),
    "numbers-differ": (
        "{when}, the numbers differ from the right ones.",
        "Go through the formula step by step and compare each with your line.",
    ),
    "rows-do-not-sum-to-one": (
        "When all values are equal, their number should not matter, and with your code it does: "
        "the weights of a query do not sum to 1.",
        "What do your weights add up to?",
    ),
    "input-ignored": (
        "Another input gave the same output.",
        "Where do the tokens in your formula come from: the arguments, or a variable of the notebook?",
    ),
    "samples-mix": (
        "Sample 0 changes when only sample 1 was changed: the samples of the batch influence each other.",
        "Which of your operations works along the batch axis?",
    ),
    "order-matters": (
        "Without a mask the order of the keys should not matter, and with your code it does.",
        "Which of your operations mixes neighbouring tokens?",
    ),
    "mask-without-effect": (
        "With a mask your output is the same as without one.",
        "Follow the mask from the argument to the scores: where does it get lost?",
    ),
    "nan-with-mask": ("With a mask your output contains NaN.", "Where does the first NaN appear?"),
    "keep-all-differs": (
        "A mask that shows everything should change nothing, and with your code it does.",
        "What does your mask do to a visible score?",
    ),
    "sees-hidden": (
        "Query {i} still reacts to key {j}, which the mask hides.",
        "What weight does a hidden key have in your code?",
    ),
    "does-not-see": (
        "Query {i} does not react to key {j}, although it may look there.",
        "Which keys does your code hide?",
    ),
    "nan": ("Your output contains NaN or infinity.", "Where does the first one appear?"),
    "layer-without-influence": (
        "These layers do not influence the result: {names}.",
        "Change each of your layers in turn: does the output react to every one?",
    ),
    "not-repeatable": (
        "In eval mode the same input gave two different outputs.",
        "What is random in your code, or what does it remember?",
    ),
    "gradient-nan": ("The output is right, but a gradient is NaN.", "Where does a NaN get hidden after it appeared?"),
    "weights-not-found": (
        "The numbers are right, but not every projection could be found among the module's parameters.",
        "Does the module know all of its weights?",
    ),
    "dropout-fails": (
        "In train mode the outputs are not what dropout on the weights gives.",
        "For one key with value 1, which outputs are possible at a rate of one half?",
    ),
    "train-numbers": (
        "{when}, train mode gives other numbers than eval mode, although nothing is dropped.",
        "What in your code depends on self.training?",
    ),
    "dropout-with-mask": (
        "With a mask, dropout is not what it is without one.",
        "Does a weight take the same way with and without a mask?",
    ),
    "empty-row-other": (
        "A query that may look at nothing should receive NaN, zeros or the mean of the values, and with your code it "
        "receives something else.",
        "What does your code do with a row that has no visible key?",
    ),
    "default-rate": ("The default of the dropout rate is {value}; the exercise has 0.1.", ""),
    "train-leaks": (
        "In train mode an earlier position changes when a hidden token is changed.",
        "In which order do mask, softmax and dropout come?",
    ),
    "train-differs": ("Train mode gives other numbers than eval mode, and the exercise has no dropout.", ""),
    "indivisible-other-error": (
        "Building it with a width that the heads do not divide raised {error}; "
        "the exercise asks for ValueError or AssertionError.",
        "Who should notice first that the sizes do not fit, and in which words?",
    ),
    "not-all-cases": ("The check ended before all cases were run; the first one missing is: {case}.", ""),
    "unreadable": ("{when}, your output could not be read: {why}.", ""),
    "statistics-1": ("{sentence}", ""),
    "statistics-2": ("{sentence}", ""),
    "statistics-3": ("{sentence}", ""),
    "not-by-hand": (
        "A ready-made function was used: {names}. Here you write it by hand.",
        "Which steps does that function do for you?",
    ),
    "torch-layer-not-used": (
        "nn.MultiheadAttention was not called.",
        "This exercise is about PyTorch's own layer: does your weight layout agree with it?",
    ),
    "frozen-layers": (
        "The weights of the layer cannot be trained any more.",
        "Is the weight still an nn.Parameter that asks for gradients?",
    ),
    "only-published-probes": (
        "Your answer is right on the published inputs, and wrong on others. An answer has to be right on every input.",
        "Does your code look at which input it has been given?",
    ),
    "damaged-record": ("The record of this answer's run cannot be read: {why}", ""),
    # notes
    "twins": ("The same numbers come from: {names}.", ""),
    "layout-order": (
        "Your fused projection holds its parts in another order than q, k, v. That is a valid layout of its own.",
        "",
    ),
    "layout-interleaved": (
        "Your fused projection does not hold all of q, then all of k, then all of v. "
        "That is a valid layout; weights from elsewhere will not fit it.",
        "",
    ),
    "layout-strided-heads": (
        "Your heads take every h-th feature instead of a block. "
        "That is a valid layout; weights from elsewhere will not fit it.",
        "",
    ),
    "roles-discovered": ("The roles of your layers were found by trying: {names}.", ""),
    "extra-parameters": ("The module has parameters that the exercise does not need: {names}.", ""),
    "fragile-renormalising": (
        "It passes, but it is fragile: with large scores every visible weight can underflow to 0, and 0 / 0 is NaN.",
        "What happens to the visible weights when a hidden score is the largest by far?",
    ),
    "fill-may-be-reached": (
        "It passes, but with very large scores your fill is no longer lower than all of them.",
        "Is your number lower than every real score, or just low?",
    ),
    "other-dtype-raises": ("It passes in float32; in another precision it raises {error}.", ""),
    "more-dropout": ("There is more dropout than the exercise asks for. On the weights it is right.", ""),
    "dropout-not-asked": ("There is dropout, which this exercise does not ask for.", ""),
    "details-row": ("output{index}", ""),
    "details-output": ("output", ""),
    "details-where": ("{when}, {where}:", ""),
    "details-yours": ("yours     {numbers}", ""),
    "details-expected": ("expected  {numbers}", ""),
    "map-title": ("Which changed key (column) moves which query (row)", ""),
    "picture-title": ("{when}: output of one sample", ""),
}  # fmt: skip

# A mistake that is known by its error gave no numbers: the opening of its sentence is another one.
NUMBERS_TO_ERROR = ("Your numbers are exactly what you get when", "This error is what you get when")

# How a case is called in a sentence.
CASE_WORDS: dict[str, str] = {
    "main": "On random tokens",
    "small": "On two tokens of width 4",
    "self": "With the same tokens as q, k and v",
    "biased": "With biases",
    "other sizes": "With other sizes",
    "one head": "With one head",
    "d_k = 1": "With heads of width 1",
    "one token": "With a single token",
    "one query": "With a single query",
    "one key": "With a single key",
    "longer": "With a longer sequence",
    "long": "With a long sequence",
    "twice as many keys": "With twice as many keys as queries",
    "more queries than keys": "With more queries than keys",
    "as many samples as tokens": "With as many samples as tokens",
    "not contiguous": "With a tensor that is not contiguous",
    "large scores": "With large scores",
    "equal tokens": "When all values are equal",
    "one of the equal tokens": "With a single key",
    "other sample changed": "When another sample changes",
    "tokens permuted": "With the tokens in another order",
    "causal mask": "With a causal mask",
    "random mask": "With a random mask",
    "padding mask": "With a padding mask",
    "small mask": "On two tokens with a mask",
    "mask per head": "With another mask for each head",
    "2-D mask": "With a mask of two axes",
    "3-D mask": "With a mask of three axes",
    "int64 mask": "With a mask of integers",
    "uint8 mask": "With a mask of uint8",
    "float mask": "With a mask of floats",
    "int32 mask": "With a mask of int32",
    "first sample without padding": "With a padding mask that hides nothing of the first sample",
    "mask, one sample": "With a padding mask and a single sample",
    "per head, for all samples": "With a mask per head that all samples share",
    "2-D mask, as many samples as tokens": "With a mask of two axes and as many samples as tokens",
    "four samples": "With four samples",
    "many samples": "With many samples",
    "self, longer": "With a longer sequence as q, k and v",
    "eight heads": "With eight heads",
    "keep-all mask": "With a mask that shows everything",
    "one mask for all samples": "With one mask for all samples",
    "mask, as many samples as tokens": "With a mask and as many samples as tokens",
    "mask, as many samples as heads": "With a mask and as many samples as heads",
    "mask, other sizes": "With a mask and other sizes",
    "mask, one token": "With a mask and a single token",
    "mask, one query": "With a mask and a single query",
    "mask, one entry": "With a mask of one entry",
    "mask, large scores": "With a mask and large scores",
    "mask, low scores": "With a mask and very low scores",
    "low scores": "With very low scores",
    "empty rows": "With a query that may look at nothing",
    "dependency map": "With a causal mask and one token changed at a time",
    "by hand": "On numbers that can be checked by hand",
    "square": "With as many rows as columns",
    "one": "With a single token",
    "wide": "With more keys than queries",
    "2-D": "With tensors of two axes",
    "4-D": "With tensors of four axes",
    "d = 1": "With a width of 1",
    "+1000": "With scores around 1000",
    "-1000": "With scores around -1000",
    "±1000": "With scores from -1000 to 1000",
    "all visible, large scores": "With large scores and nothing hidden",
    "rows far apart": "With rows that lie far apart",
    "no bias": "With layers that have no bias",
    "other size": "With another size",
    "one mask for all": "With one mask for all samples",
    "padding": "With a padding mask",
    "empty row": "With a query that may look at nothing",
    "room to spare": "With max_length beyond the longest sample",
    "one sample": "With a single sample",
    "an empty sample": "With a sample that has no real token",
    "int32 lengths": "With lengths of int32",
    "as many heads as tokens": "With as many heads as tokens",
    "with a mask": "With a mask",
    "rate 0": "At a rate of 0",
    "not training": "With training=False",
    "4-D, not training": "With training=False and four axes",
    "bias=False by name": "With bias=False",
}  # fmt: skip

CONTRACTS: dict[str, tuple[str, str]] = {
    "SelfAttentionV1": ("SelfAttentionV1(hidden_dim)", "forward(x)"),
    "SelfAttentionV2": ("SelfAttentionV2(hidden_dim)", "forward(x)"),
    "SelfAttentionV3": ("SelfAttentionV3(hidden_dim, dropout_rate)", "forward(x, attention_mask)"),
    "MultiHeadAttention": ("MultiHeadAttention(d_model, h)", "forward(q, k, v, mask)"),
}

# Groups of cases that count for another part of the points.
_PARTS = {
    "property": "formula",
    "raw": "formula",
    "number": "formula",
    "large": "sizes",
    "low": "mask",
    "large mask": "mask",
    "empty rows": "mask",
}
_NUMBERS = ("dot_product_std", "attention_parameters", "fused_xavier_ratio")


def part_of(group: str, function: bool) -> str:
    """The part of an exercise's points that a group of cases belongs to."""
    part = _PARTS.get(group, group)
    return "forms" if function and part in ("mask", "sizes") and group != "sizes" else part


def say(id: str, **values: Any) -> str:
    """Fill a sentence. Raises KeyError when the id or a value is missing."""
    return SENTENCES[id][0].format(**values)


def hint(id: str) -> str:
    return SENTENCES[id][1]


def case_words(case: str) -> str:
    if case in CASE_WORDS:
        return CASE_WORDS[case]
    return f"For {case}" if "=" in case or case.startswith("length") else case.capitalize()


def error_of(raised: dict[str, Any]) -> str:
    """`TypeError: the message`, its first line, shortened."""
    message = re.sub(r"0x[0-9a-f]{4,}", "…", raised["message"].strip().split("\n")[0]).rstrip(".")
    message = message if len(message) <= 220 else message[:217] + "..."
    return f"{raised['type']}: {message}" if message else raised["type"]


def line_of(raised: dict[str, Any]) -> str:
    """Where in the learner's code, or "" when that is not known."""
    return f" at `{raised['line']}`" if raised.get("line") else ""


def kind_of(is_class: bool) -> str:
    return "a class" if is_class else "a function"


def listed(names: list[str]) -> str:
    return ", ".join(names) or "none"


def trouble_id(trouble: str, raised: dict[str, Any]) -> str:
    """Which sentence tells why an answer could not be built or called."""
    message = raised["message"]
    if "before Module.__init__() call" in message or (
        raised["type"] == "AttributeError"
        and any(name in message for name in ("_modules", "_parameters", "_backward_hooks"))
    ):
        return "no-super-init"
    if raised["type"] == "NotImplementedError" and 'missing the required "forward"' in message:
        return "no-forward"
    arguments = raised["type"] == "TypeError" and "argument" in message and (
        "positional" in message or "unexpected keyword" in message
    ) and ("__init__()" in message or "forward()" in message)  # fmt: skip
    if trouble == "cannot be built":
        return "wrong-arguments" if arguments else "build-raises"
    return "wrong-forward-arguments" if arguments else "call-raises"


def shape(sizes: tuple[int, ...]) -> str:
    return str(tuple(int(size) for size in sizes))


def axis(yours: tuple[int, ...], expected: tuple[int, ...]) -> str:
    """Which axis differs, as a sentence with a space before it, or ""."""
    if len(yours) != len(expected):
        return f" It has {len(yours)} axes instead of {len(expected)}."
    differing = [i for i, (a, b) in enumerate(zip(yours, expected, strict=True)) if a != b]
    if sorted(yours) == sorted(expected) and len(differing) == 2:
        return f" Axes {differing[0]} and {differing[1]} have changed places."
    i = differing[0]
    return f" Axis {i} has length {yours[i]} instead of {expected[i]}."


def wanted(exercise: str) -> str:
    if exercise in _NUMBERS:
        return "a number"
    if exercise == "fuse_projections":
        return "one nn.Linear"
    if exercise == "stack_heads":
        return "three nn.Linear"
    if exercise in CONTRACTS:
        return "a tensor, or a tensor and the weights"
    return "a tensor"


def axis_labels(exercise: str) -> tuple[str, str]:
    """What the rows and columns of a picture are."""
    if exercise in (
        "attention_scores",
        "softmax",
        "masked_softmax",
        "repaired_weights",
        "causal_mask",
        "padding_mask",
    ):
        return "query", "key"
    return "query", "feature"


def roles_sentence(binding: dict[str, Any]) -> str:
    words = {"q": "queries", "k": "keys", "v": "values", "o": "output", "qkv": "queries, keys, values"}
    parts = [
        f"`{key.removesuffix('.weight')}` → {words.get(mine, ', '.join(words[role] for role in mine))}"
        for key, mine in binding["units"].items()
    ]
    return "; ".join(parts)


def numbers(row: np.ndarray) -> str:
    return "[" + "  ".join(f"{float(value):.3f}" for value in row[:6]) + ("  …]" if len(row) > 6 else "]")

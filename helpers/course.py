"""What there is to solve: every exercise with its notebook, points, minutes and hints. The points sum to 100."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Exercise:
    """One blank of the course.

    name: the function or class that the learner writes; also the exercise's id.
    notebook: the file's stem in `notebooks/`.
    points: whole points; minutes: what a prepared person needs.
    hints: three steps: a nudge that begins with what the learner sees, where to look, pseudo-code.
    """

    name: str
    notebook: str
    points: int
    minutes: int
    hints: tuple[str, str, str]


EXERCISES: tuple[Exercise, ...] = (
    # 00_start_here
    Exercise(
        "weighted_average",
        "00_start_here",
        2,
        2,
        (
            "If you see an error about shapes: do one row of weights on paper first. Multiply each row of "
            "values by its weight and add the results. How many numbers come out?",
            "Look at the two shapes side by side: (L_q, L_k) and (L_k, d). One axis stands in both, and it "
            "is gone in the result. Which operation on two matrices sums over just that axis?",
            "for every row i and every column c:\n"
            "    result[i, c] = sum over j of weights[i, j] times values[j, c]\n"
            "this is the definition of a matrix product",
        ),
    ),
    # 01_self_attention_v1
    Exercise(
        "attention_scores",
        "01_self_attention_v1",
        4,
        5,
        (
            "If you see an error about shapes, or a table of another size: every query meets every key, so "
            "the result has one row for each query and one column for each key. Which axis must be summed "
            "away?",
            "Look at the last two axes of k, and only at those: there may be any number of axes before "
            "them. Then look at the formula: what stands under the fraction bar, and which axis of q gives "
            "you that width?",
            "keys across = k with its last two axes swapped: (..., L_k, d) becomes (..., d, L_k)\n"
            "scores = matrix product of q and the keys across: (..., L_q, L_k)\n"
            "result = scores divided by the square root of the width d of q",
        ),
    ),
    Exercise(
        "softmax",
        "01_self_attention_v1",
        4,
        5,
        (
            "If you see nan: e to the 1000 fits into no float. If you see rows that do not sum to 1: write "
            "down the shape of your sum. Is there one number left for each row?",
            "Look at the exponential. Subtracting one number from a whole row does not change its weights, "
            "so choose the number that makes the largest exponent 0. Then look at the axis: the last one, "
            "and it must stay as an axis of length 1 for the division to line up.",
            "for every row, along the last axis:\n"
            "    largest = maximum of the row, kept as an axis of length 1\n"
            "    exponentials = e to the (row - largest)\n"
            "    weights = exponentials divided by their own sum, kept as an axis of length 1",
        ),
    ),
    Exercise(
        "dot_product_std",
        "01_self_attention_v1",
        2,
        3,
        (
            "If your number grows too fast or not at all with d: begin with one product of two entries. Its "
            "mean is 0. What is its variance?",
            "Look at the sum: a dot product adds d such products, and they are independent. What happens to "
            "variances when independent numbers are added? And then: were you asked for the variance?",
            "variance of one product = 1\n"
            "variance of the dot product = d times that\n"
            "result = the square root of that variance",
        ),
    ),
    Exercise(
        "SelfAttentionV1",
        "01_self_attention_v1",
        8,
        10,
        (
            "If you see other numbers than expected: follow x on paper. It goes through three layers, and "
            "each of the three results is used exactly once. Is one of yours used twice, or never?",
            "Look at the shape after every line: (B, L, hidden_dim) three times, then (B, L, L) twice, then "
            "(B, L, hidden_dim) again. The two lines in the middle are the two functions that you have just "
            "written. In __init__, the call of the parent class comes first.",
            "to build: three linear layers, each from hidden_dim to hidden_dim\n"
            "forward:\n"
            "    q, k, v = the three layers, each applied to x\n"
            "    scores = q times k with its last two axes swapped, over the square root of hidden_dim\n"
            "    weights = softmax of the scores over the keys\n"
            "    result = weights times v",
        ),
    ),
    Exercise(
        "attention_parameters",
        "01_self_attention_v1",
        2,
        3,
        (
            "If your number is a little too small: a layer has more than its matrix. If it is far off: how "
            "many layers does the class have? Scores and softmax have none.",
            "Look at one nn.Linear from hidden_dim to hidden_dim. There is one weight for each pair of an "
            "input and an output. How many biases are there: one for each pair, or one for each output?",
            "one layer = hidden_dim times hidden_dim, plus hidden_dim when it has a bias\nresult = three such layers",
        ),
    ),
    # 02_self_attention_v2
    Exercise(
        "fuse_projections",
        "02_self_attention_v2",
        4,
        6,
        (
            "If you see an error about sizes, or numbers that do not fit: print the shape of a layer's "
            "weight. It is (outputs, inputs). The new layer has three times as many outputs. Which axis "
            "grows?",
            "Look at output feature 0 of the new layer: it must be feature 0 of q, so it needs row 0 of "
            "query_proj's weight. Feature d must be feature 0 of k. Then look at what else a layer holds "
            "besides its weight, and at the case where it holds nothing else.",
            "d = the number of inputs of query_proj\n"
            "fused = a linear layer from d to 3d, with a bias only if query_proj has one\n"
            "without recording gradients:\n"
            "    copy into fused.weight: rows of query_proj, below them those of key_proj, of value_proj\n"
            "    copy into fused.bias, if there is one: the three biases, end to end in the same order\n"
            "result = fused",
        ),
    ),
    Exercise(
        "SelfAttentionV2",
        "02_self_attention_v2",
        8,
        8,
        (
            "If you see an error about shapes: print the shape of the wide output. It is "
            "(B, L, 3 * hidden_dim). Which axis is three times as long as it should be? If the numbers are "
            "wrong instead, ask which third is q, which is k, which is v.",
            "Look at how you cut. The axis has to be named, because the default is the first one. And read "
            "what your function's number means: how many parts, or how wide each part is. After the cut, "
            "everything is as in stage 1; the scale still uses hidden_dim, not 3 * hidden_dim.",
            "to build: one linear layer, proj, from hidden_dim to 3 * hidden_dim\n"
            "forward:\n"
            "    wide = proj applied to x: (B, L, 3 * hidden_dim)\n"
            "    q, k, v = wide cut into three equal parts along its last axis: (B, L, hidden_dim) each\n"
            "    scores = q times k with its last two axes swapped, over the square root of hidden_dim\n"
            "    weights = softmax of the scores over the keys\n"
            "    result = weights times v",
        ),
    ),
    Exercise(
        "fused_xavier_ratio",
        "02_self_attention_v2",
        2,
        3,
        (
            "If your number is above 1 or depends on d: write down fan_in and fan_out for both matrices. One "
            "of the two did not change. The width cancels in the end.",
            "Look at the sum under the fraction bar: d + d for a separate matrix, something larger for the "
            "fused one. Then read the docstring once more: does it ask for the ratio of the variances, or of "
            "the standard deviations?",
            "variance of the separate matrix = 2 over (fan_in + fan_out), with both equal to d\n"
            "variance of the fused matrix = the same with its own fan_out, three times d\n"
            "result = the square root of (second variance over first variance), where d cancels",
        ),
    ),
    # 03_self_attention_v3
    Exercise(
        "causal_mask",
        "03_self_attention_v3",
        3,
        3,
        (
            "If the first row is all True: may the first token see the whole sentence? If it is all False: "
            "may a token not look at itself? Draw the table for three tokens on paper.",
            "Look at one cell: row i is the query, column j is the key. For which j may i look? Either "
            "compare two lists of positions, one standing and one lying, or cut a full table along its "
            "diagonal. The dtype is bool.",
            "for every row i and every column j:\n    mask[i, j] = True if j is not after i, else False",
        ),
    ),
    Exercise(
        "padding_mask",
        "03_self_attention_v3",
        3,
        4,
        (
            "If you see an error about shapes, or a result without the axis of length 1: write (B,) and "
            "(max_length,) side by side. Each sample must meet each position. If real tokens come out "
            "False: which positions does a sample with 2 real tokens have?",
            "Look at position numbers 0, 1, 2, … and compare them with the lengths, with one axis more on "
            "the lengths so that the two spread over (B, max_length). Then look at where the new axis goes: "
            "the last axis holds the keys, the one before it serves all queries.",
            "positions = 0, 1, …, max_length - 1: (max_length,)\n"
            "real = positions below the length of the sample, for every sample: (B, max_length)\n"
            "result = real with a new axis between the two: (B, 1, max_length)",
        ),
    ),
    Exercise(
        "masked_softmax",
        "03_self_attention_v3",
        4,
        5,
        (
            "If hidden keys keep some weight: what does a score of 0 become under the exponential? If rows "
            "no longer sum to 1: at which moment did you apply the mask? If everything is nan: was it the "
            "visible keys that you hid?",
            "Look at the scores before the softmax: which single number has the exponential 0? And look at "
            "the mask: it may be True and False, 1 and 0, or 1.0 and 0.0. One comparison treats all of them "
            "alike. Does anything receive the result of your masking?",
            "hidden = where the mask equals zero\n"
            "masked scores = the scores, with minus infinity wherever hidden\n"
            "result = softmax of the masked scores over the keys, the last axis",
        ),
    ),
    Exercise(
        "repaired_weights",
        "03_self_attention_v3",
        3,
        4,
        (
            "If your hidden cells still hold weight: take one hidden cell and follow it. It gets the fill "
            "as its score. What does the exponential make of that number?",
            "Look at the second argument of masked_fill, and at nothing else. A number close to 0 is a "
            "middling score, not a low one. And a number that is only rather low fails as soon as the real "
            "scores are lower.",
            "keep both lines of the tutorial, their order and the test for hidden cells\n"
            "replace the fill by the one value whose exponential is exactly zero",
        ),
    ),
    Exercise(
        "inverted_dropout",
        "03_self_attention_v3",
        4,
        5,
        (
            "If your mean is too small: half of the weights are gone, and who makes up for them? If your "
            "rows always sum to 1: dropout does not do that. If two calls agree: is every entry drawn anew, "
            "on its own?",
            "Look at one weight w. It survives with the probability 1 minus the rate. By what must a "
            "survivor be divided so that the average over many draws is w again? And look at `training`: "
            "when it is False, nothing at all happens.",
            "if not training: give the weights back as they are\n"
            "keep = for every entry on its own: a uniform random number is not below the rate\n"
            "result = the weights where keep, else 0, all divided by (1 - rate)",
        ),
    ),
    Exercise(
        "SelfAttentionV3",
        "03_self_attention_v3",
        14,
        12,
        (
            "If you see other numbers than expected: the order is scores, mask, softmax, dropout, average, "
            "output projection. Which step of yours stands elsewhere? If eval gives another result on every "
            "call: does your dropout know the mode?",
            "Look at the four lines of stage 2; three things join them. The mask acts on the scores, only "
            "when there is one, and the test for that is a comparison with None. The dropout is a layer "
            "built once in __init__ and acts on the weights. The new linear layer is called last.",
            "to build: one linear layer from hidden_dim to three times that, a dropout layer, a linear "
            "layer from hidden_dim to hidden_dim\n"
            "forward:\n"
            "    q, k, v = the fused projection of x, cut in three along the last axis\n"
            "    scores = q times k with its last two axes swapped, over the square root of hidden_dim\n"
            "    if a mask was given: minus infinity into the scores where the mask is zero\n"
            "    weights = dropout of the softmax of the scores over the keys\n"
            "    result = output projection of (weights times v)",
        ),
    ),
    # 04_multi_head_attention
    Exercise(
        "split_heads",
        "04_multi_head_attention",
        3,
        4,
        (
            "If the shape is right and the numbers are refused: print head 0 for a small x of counted "
            "numbers. Does it hold some features of every token, or all features of some tokens?",
            "Only the last axis may be cut: d_model becomes (h, d_k), in this order. That gives four axes, "
            "but not yet in the order that the docstring asks for. Which two axes must change places?",
            "cut the last axis: (B, L, d_model) becomes (B, L, h, d_k)\n"
            "let the axes L and h change places: (B, L, h, d_k) becomes (B, h, L, d_k)\n"
            "the other order of these two steps gives another result",
        ),
    ),
    Exercise(
        "merge_heads",
        "04_multi_head_attention",
        3,
        3,
        (
            'If you see "view size is not compatible": the axes were moved, so the numbers no longer '
            "lie in memory in the order that you see. If the numbers are refused: was the head axis moved back "
            "before the heads were joined?",
            "Take the steps of split_heads in reverse order. The head axis must stand directly before d_k "
            "when the two become one axis. Then ask which call may copy the numbers when their order in "
            "memory does not fit.",
            "let the axes h and L change places: (B, h, L, d_k) becomes (B, L, h, d_k)\n"
            "join the last two axes, copying where needed: (B, L, h, d_k) becomes (B, L, h times d_k)",
        ),
    ),
    Exercise(
        "MultiHeadAttention",
        "04_multi_head_attention",
        16,
        15,
        (
            "If you see an error about shapes: write the four axes on every line, with L_q and L_k apart. If "
            "only the numbers are refused: try it with h = 1. What is right there and wrong for h = 2 "
            "concerns the heads: the split, the scale or the merge.",
            "Five places where it goes wrong: k and v have the length L_k, not L_q; the scale is the width "
            "of one head; the softmax runs over keys; the mask works on scores, before the softmax; the head "
            "axis moves back before the heads are joined. And when it is built: what should 13 features and "
            "3 heads do?",
            "when built: refuse an h that leaves a rest; keep h and d_k; four layers d_model to d_model\n"
            "project q, k and v, each with its own layer; cut each into heads: (B, h, L_q or L_k, d_k)\n"
            "scores = queries times keys turned on their side, divided by the root of d_k: (B, h, L_q, L_k)\n"
            "if there is a mask: scores become minus infinity where the mask is zero\n"
            "weights = softmax of the scores over the last axis\n"
            "context = weights times values; heads joined again: (B, L_q, d_model)\n"
            "result = the fourth layer of the context",
        ),
    ),
    Exercise(
        "init_attention_weights",
        "04_multi_head_attention",
        3,
        4,
        (
            "If nothing changed in the module: did you fill its own tensors, or make new ones beside them? "
            "If an error speaks of None: not every layer has a bias.",
            "PyTorch has a module of functions that fill a tensor in place; their names end with an "
            "underscore. One is named after Xavier, one after zero. Four layers need both.",
            "for each of the four layers:\n"
            "    fill its weight in place, Xavier, uniform\n"
            "    if it has a bias: fill it with zeros in place",
        ),
    ),
    Exercise(
        "stack_heads",
        "04_multi_head_attention",
        4,
        6,
        (
            "If the shapes fit but the numbers are refused: in which order do the heads lie in the result, "
            "and does all of q come from the q layers?",
            "A weight of nn.Linear has one row for each output. A wide layer has the outputs of head 0, then "
            "those of head 1, and so on. Along which axis do the small weights join? The biases join in the "
            "same order.",
            "for each of the three kinds, wq then wk then wv:\n"
            "    collect the small layers of this kind, head 0 first\n"
            "    wide weight = their weights below one another: h times (d_k, d_model) becomes (h times d_k, "
            "d_model)\n"
            "    wide bias = their biases one after the other, if they have any\n"
            "    make a new layer of that size and copy both into it, without recording gradients\n"
            "return the three wide layers",
        ),
    ),
    Exercise(
        "torch_attention",
        "04_multi_head_attention",
        4,
        8,
        (
            "If the result is NaN or belongs to the opposite mask: say aloud what True means for you, and "
            "what it means in the documentation of nn.MultiheadAttention. If the shapes are odd: which axis "
            "does it take for the batch?",
            "Print the names and shapes of its parameters: in_proj_weight is (3 times d_model, d_model). "
            "Which of your layers fills which rows? The fourth layer is out_proj. Your module is batch "
            "first. The result is a pair.",
            "twin = PyTorch's layer with the same d_model and h, batch first\n"
            "without recording gradients:\n"
            "    packed weight of the twin: rows of wq, then of wk, then of wv\n"
            "    packed bias of the twin: in the same order\n"
            "    output layer of the twin: weight and bias of wo\n"
            "blocked = the opposite of mask, if there is a mask\n"
            "run the twin on q, k, v with blocked as its attention mask; return the first part of the result",
        ),
    ),
)

BY_NAME: dict[str, Exercise] = {exercise.name: exercise for exercise in EXERCISES}
NOTEBOOKS: tuple[str, ...] = tuple(dict.fromkeys(exercise.notebook for exercise in EXERCISES))


def exercise_named(name: str) -> Exercise:
    """Look an exercise up. Raises KeyError in words, with the nearest names, when there is none."""
    import difflib

    if name in BY_NAME:
        return BY_NAME[name]
    near = difflib.get_close_matches(name, BY_NAME, n=3, cutoff=0.5)
    known = ", ".join(near or BY_NAME)
    raise KeyError(f"The course has no exercise named {name!r}. Did you mean: {known}?")

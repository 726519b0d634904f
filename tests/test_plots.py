"""Pictures are tested by the data in their artists: colours, numbers, hatches, labels, limits; never by pixels."""

from __future__ import annotations

import itertools
import math
import subprocess
import sys
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import torch

from helpers import plots

TOKENS = ["The", "cat", "sat", "on", "the", "mat"]
CHINESE = list("我爱自然语言处理")


def weights_of(*shape: int, seed: int = 0, mask: torch.Tensor | None = None) -> torch.Tensor:
    scores = torch.randn(*shape, generator=torch.Generator().manual_seed(seed))
    return (scores if mask is None else scores.masked_fill(~mask, -math.inf)).softmax(dim=-1)


def scores_of(*shape: int, seed: int = 0) -> torch.Tensor:
    return 2 * torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def causal(length: int) -> torch.Tensor:
    return torch.ones(length, length, dtype=torch.bool).tril()


def panels(figure: Any) -> list[Any]:
    """The axes that hold an image of cells."""
    return [axes for axes in figure.axes if axes.images]


def written(axes: Any) -> dict[tuple[int, int], str]:
    """(row, column) → the number in that cell."""
    numbers = [artist for artist in axes.collections if artist.get_gid() == "number"]
    return {(i, j): t for n in numbers for t, (j, i) in zip(n.texts, n.places, strict=True)}


def hatched(axes: Any) -> set[tuple[int, int]]:
    """(row, column) of the hatched cells."""
    found = [artist for artist in axes.get_children() if artist.get_gid() == "hidden cells"]
    if not found:
        return set()
    assert found[0].get_hatch()
    squares = found[0].get_path().vertices.reshape(-1, 5, 2)[:, :4].mean(axis=1)
    return {(round(y), round(x)) for x, y in squares}


def labelled(axes: Any) -> tuple[list[str], list[str]]:
    return [t.get_text() for t in axes.get_yticklabels()], [t.get_text() for t in axes.get_xticklabels()]


def texts(figure: Any, gid: str) -> list[str]:
    return [t.get_text() for axes in figure.axes for t in axes.texts if t.get_gid() == gid]


def every_picture(length: int, tokens: list[str] | None) -> dict[str, Any]:
    """One picture of each kind for `length` tokens."""
    mask, scores, weights = causal(length), scores_of(length, length), weights_of(length, length)
    kept = torch.rand(5, length, length, generator=torch.Generator().manual_seed(1)) > 0.2
    cells = torch.arange(length * 4).view(length, 4)
    halves = cells.view(length, 2, 2).transpose(0, 1)
    widths = [4 * 2**i for i in range(length)] if length <= 8 else list(range(4, 4 + length))
    three = torch.cat([weights] * 3)
    parts = [(name, range(i * length, (i + 1) * length)) for i, name in enumerate("qkv")]
    return {
        "attention_heatmap": plots.attention_heatmap(weights, tokens, title="A title that is longer than one cell"),
        "masked_heatmap": plots.attention_heatmap(weights_of(length, length, mask=mask), tokens, mask=mask),
        "score_steps": plots.score_steps(scores, scores / 2, weights, tokens),
        "heads": plots.heads(weights_of(8, length, length), tokens),
        "mask_path": plots.mask_path(scores, mask, queries=tokens),
        "compare_fills": plots.compare_fills(scores, mask, [-math.inf, -1e9, 1e-20], queries=tokens),
        "dependency_map": plots.dependency_map(mask, expected=mask.T, queries=tokens),
        "scale_effect": plots.scale_effect(widths, {"no scale": widths}, {"no scale": widths, "÷ √d": widths}),
        "score_distribution": plots.score_distribution({"no scale": scores, "÷ √d": scores / 8}),
        "dropout_draws": plots.dropout_draws(weights, weights * kept / 0.8, 0.2, tokens),
        "fused_weight": plots.fused_weight(three, parts, title="Fused"),
        "reshaping": plots.reshaping([("x", cells), ("heads", halves)]),
        "curves": plots.curves(
            widths, {"loop": widths, "four linears": widths}, x_label="L", y_label="ms", log_x=True, log_y=True
        ),
        "difference": plots.difference(scores, scores + 1, title="MultiHeadAttention"),
    }


# ---- the heatmap -----------------------------------------------------------------------------------------


def test_a_heatmap_shows_the_weights_on_the_fixed_scale_from_0_to_1():
    weights = weights_of(3, 5)
    (axes,) = panels(plots.attention_heatmap(weights, ["a", "b", "c"], list("vwxyz")))
    assert np.allclose(axes.images[0].get_array(), weights)
    assert axes.images[0].get_clim() == (0.0, 1.0)
    assert labelled(axes) == (["a", "b", "c"], list("vwxyz"))
    assert (axes.get_ylabel(), axes.get_xlabel()) == ("queries", "keys")


def test_queries_run_down_and_keys_run_across():
    (axes,) = panels(plots.attention_heatmap(weights_of(3, 5)))
    low, high = axes.get_ylim()
    assert low > high, "row 0 must be at the top"
    assert axes.xaxis.get_label_position() == "top"


def test_numbers_stand_in_the_cells_and_sums_at_the_right():
    figure = plots.attention_heatmap(torch.tensor([[0.25, 0.75], [1.0, 0.0]]), ["a", "b"])
    assert written(panels(figure)[0]) == {(0, 0): "0.25", (0, 1): "0.75", (1, 0): "1.00", (1, 1): "0"}
    assert texts(figure, "margin") == ["1.00", "1.00"]


def test_numbers_contrast_with_the_cell_behind_them():
    (axes,) = panels(plots.attention_heatmap(torch.tensor([[0.02, 0.98]]), ["a"], ["x", "y"]))
    (numbers,) = [c for c in axes.collections if c.get_gid() == "number"]
    light, dark = numbers.get_facecolors()[:, :3].mean(axis=1)
    assert light < 0.3, "dark digits on a light cell"
    assert dark > 0.9, "white digits on a dark cell"


def test_numbers_and_sums_can_be_left_out():
    figure = plots.attention_heatmap(weights_of(3, 3), numbers=False, row_sums=False)
    assert written(panels(figure)[0]) == {}
    assert texts(figure, "margin") == []


def test_without_numbers_a_colour_bar_tells_the_scale():
    assert len(plots.attention_heatmap(weights_of(3, 3)).axes) == 1
    assert len(plots.attention_heatmap(weights_of(3, 3), numbers=False).axes) == 2
    assert len(plots.attention_heatmap(weights_of(64, 64)).axes) == 2


def test_one_list_of_tokens_labels_both_axes_of_a_square_matrix():
    (axes,) = panels(plots.attention_heatmap(weights_of(6, 6), TOKENS))
    assert labelled(axes) == (TOKENS, TOKENS)


def test_hidden_cells_are_hatched_and_hold_no_number():
    mask = causal(4)
    (axes,) = panels(plots.attention_heatmap(weights_of(4, 4, mask=mask), mask=mask))
    hidden = {(i, j) for i in range(4) for j in range(4) if j > i}
    assert hatched(axes) == hidden
    assert not hidden & written(axes).keys()
    assert np.ma.getmaskarray(axes.images[0].get_array()).sum() == len(hidden)


def test_a_weight_that_leaks_stays_visible_below_the_hatching():
    weights, mask = torch.tensor([[0.25, 0.75]]), torch.tensor([[True, False]])
    figure = plots.attention_heatmap(weights, mask=mask)
    (axes,) = panels(figure)
    assert hatched(axes) == {(0, 1)}
    assert written(axes)[0, 1] == "0.75"
    assert axes.images[0].get_array()[0, 1] == 0.75
    assert "weight of 0.75 in all" in figure.description


def test_a_padding_mask_of_one_row_hides_the_key_from_every_query():
    mask = torch.tensor([[[True, True, False]]])
    (axes,) = panels(plots.attention_heatmap(weights_of(2, 3, mask=mask[0]), mask=mask))
    assert hatched(axes) == {(0, 2), (1, 2)}


@pytest.mark.parametrize("empty", [0.0, math.nan, 0.5])
def test_a_row_with_nothing_to_look_at_may_hold_zeros_nan_or_the_mean(empty):
    weights = torch.tensor([[1.0, 0.0], [empty, empty]])
    mask = torch.tensor([[True, False], [False, False]])
    figure = plots.attention_heatmap(weights, mask=mask)
    assert texts(figure, "margin")[1] == {0.0: "0.00", 0.5: "1.00"}.get(empty, "NaN")


def test_a_heatmap_can_be_drawn_into_given_axes():
    figure = plots.Picture("two heads", width=6, height=3)
    left, right = figure.subplots(1, 2)
    assert plots.attention_heatmap(weights_of(3, 3), list("abc"), title="left", ax=left) is figure
    assert np.allclose(left.images[0].get_array(), weights_of(3, 3))
    assert labelled(left) == (list("abc"), list("abc"))
    assert left.get_title(loc="left") == "left"
    assert not right.images
    assert figure.description == "two heads"


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_tensors_of_any_precision_are_drawn(dtype):
    figure = plots.attention_heatmap(weights_of(12, 12).to(dtype).requires_grad_())
    assert panels(figure)[0].images[0].get_array().shape == (12, 12)


def test_arrays_and_lists_are_drawn_too():
    for weights in (weights_of(2, 2).numpy(), weights_of(2, 2).tolist()):
        assert np.allclose(panels(plots.attention_heatmap(weights))[0].images[0].get_array(), weights_of(2, 2))


# ---- several panels --------------------------------------------------------------------------------------


def test_score_steps_share_a_symmetric_scale_and_end_in_weights():
    scores = scores_of(4, 4)
    first, second, third = panels(plots.score_steps(scores, scores / 2, (scores / 2).softmax(-1)))
    limit = scores.abs().max().item()
    assert first.images[0].get_clim() == second.images[0].get_clim() == pytest.approx((-limit, limit))
    assert third.images[0].get_clim() == (0.0, 1.0)
    assert first.images[0].cmap.name != third.images[0].cmap.name


@pytest.mark.parametrize("h", [1, 2, 3, 8, 12, 16])
def test_heads_have_one_panel_each_and_one_colour_bar(h):
    weights = weights_of(h, 6, 6)
    figure = plots.heads(weights, TOKENS)
    shown = panels(figure)
    assert len(shown) == h
    assert len(figure.axes) == h + 1
    for axes, head in zip(shown, weights, strict=True):
        assert np.allclose(axes.images[0].get_array(), head)
        assert axes.images[0].get_clim() == (0.0, 1.0)
    assert texts(figure, "title")[:h] == [f"head {i}" for i in range(h)]


def test_many_heads_fill_lines_instead_of_one_long_column():
    figure = plots.heads(weights_of(40, 3, 3))
    assert figure.bbox.width <= 901
    assert figure.bbox.height <= 901


def test_a_quantity_has_the_same_colours_in_every_picture():
    scores, mask = scores_of(3, 3), causal(3)
    path = panels(plots.mask_path(scores, mask))
    steps = panels(plots.score_steps(scores, scores, scores.softmax(-1)))
    (heat,) = panels(plots.attention_heatmap(scores.softmax(-1)))
    assert path[0].images[0].cmap == path[2].images[0].cmap == steps[0].images[0].cmap
    assert path[3].images[0].cmap == steps[2].images[0].cmap == heat.images[0].cmap
    gap = panels(plots.difference(scores, scores + 1))[2]
    assert gap.images[0].cmap not in (steps[0].images[0].cmap, heat.images[0].cmap)


def test_a_mask_path_goes_from_scores_over_the_mask_to_weights():
    scores, mask = scores_of(4, 4), causal(4)
    first, second, third, fourth = panels(plots.mask_path(scores, mask, queries=list("abcd")))
    expected = scores.masked_fill(~mask, -math.inf).softmax(-1)
    hidden = {(i, j) for i in range(4) for j in range(4) if j > i}
    assert np.allclose(first.images[0].get_array(), scores)
    assert hatched(first) == set()
    assert hatched(second) == hatched(third) == hatched(fourth) == hidden
    assert {written(third)[at] for at in hidden} == {"-inf"}
    assert np.allclose(fourth.images[0].get_array().filled(0), expected, atol=1e-6)


def test_compare_fills_writes_the_leaked_weight_beside_each_query():
    scores, mask = torch.zeros(1, 4), torch.tensor([[1, 1, 1, 0]])
    figure = plots.compare_fills(scores, mask, [-math.inf, 0.0])
    without, leaking = panels(figure)
    assert texts(figure, "margin") == ["0", "0.25"]
    assert texts(figure, "title") == ["fill -inf", "fill 0"]
    assert written(leaking)[0, 3] == "0.25"
    assert (0, 3) not in written(without)
    assert "fill 0 leaks at most 0.25" in figure.description


def test_a_row_that_sees_nothing_is_nan_under_minus_infinity_and_the_mean_under_a_finite_fill():
    scores, mask = torch.zeros(2, 2), torch.tensor([[True, True], [False, False]])
    figure = plots.compare_fills(scores, mask, [-math.inf, -1e9])
    assert texts(figure, "margin") == ["0", "NaN", "0", "1.00"]


def test_a_dependency_map_marks_what_moves_and_must_not_and_what_should_but_does_not():
    expected = causal(3)
    moved = expected.clone()
    moved[0, 2], moved[2, 0] = True, False
    figure = plots.dependency_map(moved, expected=expected, queries=list("abc"))
    (axes,) = panels(figure)
    assert written(axes) == {(0, 2): "!", (2, 0): "?"}
    assert hatched(axes) == {(0, 1), (1, 2)}
    words = [t.get_text() for t in figure.axes[1].texts if len(t.get_text()) > 1]
    assert words == [
        "moves the output, as it should",
        "does not move it, as it should",
        "moves the output, but must not",
        "does not move it, but should",
    ]
    assert "2 pairs differ" in figure.description


def test_a_dependency_map_without_expectation_only_says_what_moves():
    figure = plots.dependency_map(causal(3))
    words = [t.get_text() for t in figure.axes[1].texts]
    assert words == ["moves the output", "does not move it"]


def test_dropout_shows_the_weights_single_draws_and_the_mean():
    weights = torch.full((2, 2), 0.5)
    draws = torch.stack([torch.tensor([[1.0, 0.0], [0.0, 1.0]]), torch.tensor([[0.0, 1.0], [1.0, 0.0]])])
    figure = plots.dropout_draws(weights, draws, 0.5)
    before, first, second, mean = panels(figure)
    assert np.allclose(mean.images[0].get_array(), before.images[0].get_array())
    assert written(first) == {(0, 0): "1.00", (0, 1): "×", (1, 0): "×", (1, 1): "1.00"}
    assert written(second)[0, 0] == "×"
    assert all(axes.images[0].get_clim() == (0.0, 1.0) for axes in panels(figure))
    assert "50% of the weights were dropped" in figure.description


def test_a_difference_is_yours_minus_expected_on_its_own_symmetric_scale():
    yours, expected = torch.tensor([[1.0, 2.0]]), torch.tensor([[1.0, 4.5]])
    figure = plots.difference(yours, expected, title="probe")
    mine, right, gap = panels(figure)
    assert mine.images[0].get_clim() == right.images[0].get_clim() == (-4.5, 4.5)
    assert gap.images[0].get_array().tolist() == [[0.0, -2.5]]
    assert gap.images[0].get_clim() == (-2.5, 2.5)
    assert "Largest difference: -2.5 at query 0, feature 1." in figure.description


def test_a_difference_of_weights_keeps_the_colours_of_weights():
    mine = panels(plots.difference(weights_of(3, 3), weights_of(3, 3, seed=1), column_label="key"))[0]
    assert mine.images[0].get_clim() == (0.0, 1.0)


def test_nan_in_yours_is_shown_and_counted():
    yours = torch.tensor([[math.nan, 1.0], [0.5, math.inf]])
    figure = plots.difference(yours, torch.ones(2, 2))
    assert written(panels(figure)[0])[0, 0] == "NaN"
    assert "2 numbers cannot be compared" in figure.description


def test_small_differences_are_written_with_an_exponent():
    figure = plots.difference(torch.tensor([[1.0002]], dtype=torch.float64), torch.tensor([[1.0]]))
    assert written(panels(figure)[2]) == {(0, 0): "2e-4"}


# ---- charts ----------------------------------------------------------------------------------------------


def test_scale_effect_draws_both_measures_with_one_colour_a_rule():
    widths = [4, 16, 64]
    stds = {"no scale": [2, 4, 8], "÷ √d": [1, 1, 1]}
    entropies = {"no scale": [1.5, 1.0, 0.5], "÷ √d": [1.8, 1.8, 1.8]}
    spread, entropy = plots.scale_effect(widths, stds, entropies).axes
    for axes, data in ((spread, stds), (entropy, entropies)):
        assert {line.get_label(): line.get_ydata().tolist() for line in axes.lines} == data
    assert [line.get_color() for line in spread.lines] == [line.get_color() for line in entropy.lines]
    assert spread.get_yscale() == "log"


def test_score_distribution_has_one_histogram_a_sample_on_one_axis():
    scores = scores_of(1000)
    figure = plots.score_distribution({"no scale": scores * 4, "÷ √d": scores})
    first, second = figure.axes
    assert first.get_xlim() == second.get_xlim()
    assert sum(bar.get_height() for bar in second.patches) == 1000
    assert first.get_title(loc="left").startswith("no scale   std 8")


def test_curves_have_their_names_at_their_ends_and_bands_where_given():
    figure = plots.curves(
        [64, 128], {"loop": [1, 2], "wide": [1, 1.5]}, x_label="L", y_label="ms", spread={"loop": ([1, 1], [2, 3])}
    )
    (axes,) = figure.axes
    assert texts(figure, "name") == ["wide", "loop"]
    assert len(axes.collections) == 1
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("L", "ms")


def test_names_of_curves_that_end_together_do_not_overlap():
    series = {f"series {i}": [1.0, 2.0] for i in range(5)}
    figure = plots.curves([1, 2], series, x_label="x", y_label="y")
    renderer = figure.canvas.get_renderer()
    boxes = [t.get_window_extent(renderer) for t in figure.axes[0].texts]
    boxes.sort(key=lambda box: box.y0)
    assert all(upper.y0 >= lower.y1 - 1 for lower, upper in itertools.pairwise(boxes))


def test_one_curve_needs_no_name():
    assert texts(plots.curves([1, 2], {"loss": [2, 1]}, x_label="step", y_label="loss"), "name") == []


def test_a_fused_weight_has_one_colour_a_part():
    weight = torch.ones(6, 2)
    figure = plots.fused_weight(weight, [("q", [0, 1]), ("k", [2, 3]), ("v", slice(4, 6))])
    rows = np.asarray(figure.axes[0].images[0].get_array())[:, 0]
    assert len(np.unique(rows, axis=0)) == 3
    assert (rows[0] == rows[1]).all()
    assert [t.get_text() for t in figure.axes[0].texts] == ["q   rows 0–1", "k   rows 2–3", "v   rows 4–5"]


def test_reshaping_keeps_the_colour_of_the_first_row():
    x = torch.arange(12).view(3, 4)
    figure = plots.reshaping([("x", x), ("view", x.view(2, 3, 2)), ("transpose", x.view(3, 2, 2).transpose(0, 1))])
    codes = [axes.images[0].get_array().tolist() for axes in panels(figure)]
    assert codes[0] == [[0] * 4, [1] * 4, [2] * 4]
    assert codes[1] == [[0, 0], [0, 0], [1, 1]], "view tears the rows apart"
    assert codes[3] == codes[4] == [[0, 0], [1, 1], [2, 2]], "transpose keeps them"
    assert written(panels(figure)[2])[0, 0] == "6"
    assert texts(figure, "title")[:2] == ["x   (3, 4)", "view   (2, 3, 2)"]


# ---- every picture ---------------------------------------------------------------------------------------


def ticks_of(axis: Any) -> list[Any]:
    """The tick labels that are drawn: not those beyond the limits."""
    low, high = sorted(axis.get_view_interval())
    ticks = [tick for tick in axis.get_major_ticks() if low <= tick.get_loc() <= high]
    return [tick.label1 if tick.label1.get_visible() else tick.label2 for tick in ticks]


def drawn_texts(figure: Any) -> list[Any]:
    """Every text that a reader sees."""
    found = list(figure.texts)
    for axes in figure.axes:
        found += [*axes.texts, axes.title, axes._left_title]
        if axes.axison:
            found += [*ticks_of(axes.xaxis), *ticks_of(axes.yaxis), axes.xaxis.label, axes.yaxis.label]
    return [text for text in found if text.get_visible() and text.get_text().strip()]


SIZES = [(1, ["a"]), (6, TOKENS), (8, CHINESE), (12, None), (64, [f"token{i}" for i in range(64)])]


@pytest.fixture(scope="module", params=SIZES, ids=["1", "6", "chinese", "12", "64"])
def drawn(request: pytest.FixtureRequest) -> dict[str, Any]:
    """One picture of each kind, drawn; a missing glyph would be a warning, and warnings are errors here."""
    pictures = every_picture(*request.param)
    for figure in pictures.values():
        figure.canvas.draw()
    return pictures


def test_no_text_of_any_picture_is_cut(drawn):
    for name, figure in drawn.items():
        renderer, edge = figure.canvas.get_renderer(), figure.bbox
        texts_seen = drawn_texts(figure)
        assert texts_seen, name
        for text in texts_seen:
            box = text.get_window_extent(renderer)
            inside = box.x0 >= 0 and box.y0 >= 0 and box.x1 <= edge.x1 and box.y1 <= edge.y1
            assert inside, f"{name}: {text.get_text()!r} is cut"


def test_every_picture_fits_a_notebook_and_describes_itself_in_one_line(drawn):
    for name, figure in drawn.items():
        assert figure.bbox.width <= 901, f"{name} is {figure.bbox.width} px wide"
        assert figure.description.endswith("."), name
        assert "\n" not in figure.description, name


def test_labels_of_one_axis_never_overlap(drawn):
    for name, figure in drawn.items():
        renderer = figure.canvas.get_renderer()
        for axes in figure.axes:
            for axis, side in ((axes.xaxis, "x"), (axes.yaxis, "y")):
                shown = [text for text in ticks_of(axis) if text.get_text()]
                if not axes.axison or not shown or shown[0].get_rotation() == 45:
                    continue
                spans = sorted(getattr(t.get_window_extent(renderer), f"interval{side}").tolist() for t in shown)
                clear = all(low[1] <= high[0] + 1.5 for low, high in pairwise(spans))
                assert clear, f"{name}: labels overlap"


def test_titles_of_neighbouring_panels_never_overlap(drawn):
    for name, figure in drawn.items():
        renderer = figure.canvas.get_renderer()
        boxes = [t.get_window_extent(renderer) for axes in panels(figure) for t in axes.texts if t.get_gid() == "title"]
        apart = all(not one.overlaps(other) for i, one in enumerate(boxes) for other in boxes[:i])
        assert apart, f"{name}: titles overlap"


@pytest.mark.parametrize("tokens", [["$x$", "$"], ["a\nb", "\t"], ["", "  "], ["\x00", "w" * 200], ["\\n", "_^{}"]])
def test_odd_tokens_are_drawn_as_they_are_written(tokens):
    figure = plots.attention_heatmap(weights_of(2, 2), tokens)
    figure.canvas.draw()
    rows, _ = labelled(panels(figure)[0])
    assert all(row.strip() and len(row) <= 14 and "\n" not in row for row in rows)


def test_tokens_that_no_font_has_are_replaced_by_positions_and_said(monkeypatch):
    from helpers.plots import look

    monkeypatch.setattr(look, "_font_of", lambda character: None)
    figure = plots.attention_heatmap(weights_of(2, 2), ["我", "cat"], title="我")
    figure.canvas.draw()
    assert labelled(panels(figure)[0])[0] == ["#0", "cat"]
    said = [t.get_text() for t in figure.texts]
    assert said[0] == "U+6211"
    assert "lack characters of some labels" in said[1].replace("\n", " ")


def test_chinese_tokens_get_a_font_that_has_them():
    from helpers.plots import look

    if look.lacking("我"):
        pytest.skip("no installed font has Chinese characters")
    families = look.families(CHINESE)
    assert families[0] == look.FIRST
    assert len(families) > 1


def test_a_picture_displays_itself_once_and_describes_itself():
    figure = plots.attention_heatmap(weights_of(2, 2))
    data, metadata = figure._repr_mimebundle_()
    assert set(data) == {"image/png", "text/plain"}
    assert data["text/plain"] == repr(figure) == metadata["image/png"]["alt"]
    assert "0x" not in repr(figure)
    assert figure._repr_png_().startswith(b"\x89PNG")


def test_the_same_input_gives_the_same_picture():
    one, two = (plots.attention_heatmap(weights_of(3, 3), list("abc")) for _ in range(2))
    assert repr(one) == repr(two)
    assert one._repr_png_() == two._repr_png_()


def test_nothing_global_is_touched_and_no_figure_stays_open():
    import matplotlib
    import matplotlib.pyplot as plt

    before = dict(matplotlib.rcParams)
    for figure in every_picture(2, list("ab")).values():
        figure._repr_png_()
    assert dict(matplotlib.rcParams) == before
    assert plt.get_fignums() == []


STYLE = {
    "axes.edgecolor": "white", "axes.facecolor": "black", "axes.grid": True, "axes.labelcolor": "white",
    "axes.linewidth": 4, "axes.spines.top": False, "axes.xmargin": 0.3, "figure.constrained_layout.use": True,
    "figure.dpi": 50, "figure.facecolor": "black", "font.family": ["serif"], "font.size": 20, "hatch.color": "red",
    "hatch.linewidth": 4, "image.cmap": "gray", "image.origin": "lower", "lines.linewidth": 5, "text.color": "white",
    "savefig.bbox": "tight", "xtick.bottom": False, "xtick.color": "white", "xtick.direction": "in",
    "xtick.labelsize": 3, "xtick.minor.visible": True, "ytick.left": False,
}  # fmt: skip


def test_the_users_style_changes_no_picture():
    import matplotlib

    def drawn_once() -> list[bytes]:
        weights, mask = weights_of(2, 2), causal(2)
        series = {"a": [1, 2, 3], "b": [1, 2, 2]}
        pictures = [
            plots.mask_path(scores_of(2, 2), mask),
            plots.heads(weights[None]),
            plots.curves([1, 2, 4], series, x_label="x", y_label="y", log_x=True, log_y=True),
            plots.fused_weight(weights, [("q", [0]), ("k", [1])]),
            plots.score_distribution({"a": scores_of(50)}),
            plots.dependency_map(mask),
        ]
        return [picture._repr_png_() for picture in pictures]

    plain = drawn_once()
    with matplotlib.rc_context(STYLE):
        assert drawn_once() == plain


def test_the_inputs_are_left_as_they_were():
    weights, scores, mask = weights_of(3, 3), scores_of(3, 3), causal(3)
    copies = [t.clone() for t in (weights, scores, mask)]
    plots.attention_heatmap(weights)
    plots.mask_path(scores, mask)
    plots.compare_fills(scores, mask, [0.0])
    plots.difference(scores, scores)
    assert all(torch.equal(a, b) for a, b in zip(copies, (weights, scores, mask), strict=True))


def test_importing_plots_imports_no_matplotlib_and_drawing_arrays_imports_no_torch():
    code = (
        "import sys; sys.path.insert(0, '.'); from helpers import plots; assert 'matplotlib' not in sys.modules;"
        " assert 'attention_heatmap' in dir(plots); plots.Picture; assert 'matplotlib' in sys.modules;"
        " assert 'matplotlib.pyplot' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_an_unknown_picture_is_named_with_the_known_ones():
    with pytest.raises(AttributeError, match=r"no picture named .heatmap.. It has: .*attention_heatmap"):
        plots.heatmap  # noqa: B018


# ---- the visual language ---------------------------------------------------------------------------------


def test_equal_steps_of_weight_are_equal_steps_to_the_eye():
    from helpers.plots import look

    rgb = look.weights_map()(np.linspace(0, 1, 256))[:, :3]
    linear = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
    lab = np.cbrt(linear @ np.linalg.inv(look.LMS_TO_RGB).T) @ np.linalg.inv(look.LAB_TO_LMS).T
    steps = np.linalg.norm(np.diff(lab, axis=0), axis=1)
    assert steps.max() / steps.min() < 1.05
    assert (np.diff(lab[:, 0]) < 0).all(), "lightness falls all the way, so that grey print reads the same"


@pytest.mark.parametrize("name", ["weights_map", "scores_map", "difference_map"])
def test_numbers_are_readable_on_every_colour(name):
    from matplotlib.colors import to_rgb

    from helpers.plots import look

    def luminance(colour):
        rgb = np.asarray(to_rgb(colour))
        linear = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
        return float(linear @ [0.2126, 0.7152, 0.0722])

    for cell in getattr(look, name)()(np.linspace(0, 1, 64)):
        high, low = sorted((luminance(cell[:3]), luminance(look.text_colour(cell))), reverse=True)
        assert (high + 0.05) / (low + 0.05) >= 3.5

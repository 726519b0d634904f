"""Explorers are tested without a browser: every control moves the numbers behind the picture as it should."""

from __future__ import annotations

import base64
import gc
import html
import math
import re
import subprocess
import sys
import weakref
from typing import Any

import ipywidgets
import matplotlib
import pytest
import torch
from torch import nn

from helpers import demo, mask_demo, widgets
from helpers.widgets import explorer as frame
from helpers.widgets.heads import cut

WIDGET_VIEW = "application/vnd.jupyter.widget-view+json"
MAKE = {
    "explore_scale": lambda: widgets.explore_scale(),
    "explore_masks": lambda: widgets.explore_masks(),
    "explore_masks, own module": lambda: widgets.explore_masks(OneHead),
    "explore_heads": lambda: widgets.explore_heads(),
    "explore_dropout": lambda: widgets.explore_dropout(),
    "watch_formula": lambda: last_but_one(widgets.watch_formula(mask=mask_demo.causal(6))),
}


def last_but_one(shown: Any) -> Any:
    """The formula at a step at which every control changes something."""
    shown.controls["step"].value = 4
    return shown


class OneHead(nn.Module):
    """A right layer of stage 3, without dropout; `fill` decides what is written into hidden cells."""

    fill = -math.inf

    def __init__(self, d: int):
        super().__init__()
        self.q, self.k = nn.Linear(d, d), nn.Linear(d, d)

    def forward(self, x: torch.Tensor, attention_mask: torch.Tensor | None = None) -> torch.Tensor:
        scores = self.q(x) @ self.k(x).transpose(-2, -1) / x.shape[-1] ** 0.5
        if attention_mask is not None:
            scores = scores.masked_fill(attention_mask == 0, self.fill)
        return scores.softmax(dim=-1) @ x


class TwoHeads(nn.Module):
    """Three inputs and a number of heads, like stage 4."""

    def __init__(self, d: int, h: int):
        super().__init__()
        self.h = h

    def forward(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, mask: Any = None) -> torch.Tensor:
        q, k, v = (each.unflatten(-1, (self.h, -1)).transpose(1, 2) for each in (q, k, v))
        scores = (q @ k.transpose(-2, -1)).masked_fill(mask == 0, -math.inf)
        return (scores.softmax(dim=-1) @ v).transpose(1, 2).flatten(2)


class Open(nn.Module):
    def __init__(self, d: int):
        raise NotImplementedError


def layer_with(fill: float) -> type[OneHead]:
    return type("Filled", (OneHead,), {"fill": fill})


def boxes(shown: Any) -> list[Any]:
    """The boxes of the grid, row by row."""
    return [box for name, box in shown.controls.items() if name.startswith("query ")]


def image(shown: Any) -> str:
    """The <img> on display, empty where there is none."""
    found = re.findall(r"<img.*?>", shown._picture.value)
    assert len(found) <= 1
    return found[0] if found else ""


def another(control: Any) -> Any:
    """A value that the control does not have now."""
    if isinstance(control, ipywidgets.Checkbox | ipywidgets.ToggleButton):
        return not control.value
    if hasattr(control, "options"):
        values = [option[1] if isinstance(option, tuple) else option for option in control.options]
        return next(value for value in values if value != control.value)
    return control.value + 1


# --- the frame ---


@pytest.mark.parametrize("name", MAKE)
def test_an_explorer_is_one_widget_with_one_picture_that_says_what_it_shows(name: str) -> None:
    shown = MAKE[name]()
    assert isinstance(shown, ipywidgets.VBox)
    assert isinstance(shown, widgets.Explorer)
    assert html.unescape(re.search('alt="(.*?)"', image(shown)).group(1)) == shown.description  # type: ignore[union-attr]
    assert all(word.endswith(".") for word in (shown.description, *shown.words))


@pytest.mark.parametrize("name", MAKE)
def test_every_control_redraws_the_same_picture_in_place(name: str) -> None:
    shown = MAKE[name]()
    parts, first = shown.children, image(shown)
    for control in list(shown.controls.values()):
        before = image(shown), shown.words
        was = control.value
        control.value = another(control)
        if control not in boxes(shown):  # the boxes count for "own clicks" only
            assert (image(shown), shown.words) != before
        control.value = was
    assert shown.children == parts
    assert image(shown) == first


@pytest.mark.parametrize("name", MAKE)
def test_every_control_has_a_label(name: str) -> None:
    for control in MAKE[name]().controls.values():
        assert control.description or control.tooltip


@pytest.mark.parametrize("name", MAKE)
def test_a_front_end_without_widgets_finds_a_picture_and_words(name: str) -> None:
    shown = MAKE[name]()
    data, metadata = shown._repr_mimebundle_()
    assert set(data) == {WIDGET_VIEW, "image/png", "text/plain"}
    assert data[WIDGET_VIEW]["model_id"] == shown.model_id
    assert base64.b64decode(data["image/png"]).startswith(b"\x89PNG")
    assert data["image/png"] in image(shown)
    assert metadata["image/png"]["alt"] == shown.description
    assert data["text/plain"] == repr(shown) == "\n".join([shown.description, *shown.words])
    assert data["text/plain"] == MAKE[name]()._repr_mimebundle_()[0]["text/plain"]


def test_the_text_is_escaped_where_it_becomes_html() -> None:
    q = torch.ones(2, 3)
    shown = widgets.watch_formula(q, q, q, ['"><b>', "&"])
    assert "<b>" not in shown._picture.value + shown._words.value
    assert '"><b>' in shown.description


def test_a_figure_is_freed_when_its_picture_is_drawn() -> None:
    drawn: list[weakref.ref[Any]] = []

    def show(number: int) -> frame.Shown:
        shown = cut(lambda x, h: x.unsqueeze(1), lambda x: x[:, 0], 1)
        drawn.append(weakref.ref(shown.picture))
        return frame.Shown(shown.words, shown.picture, {"number": number})

    control = frame.stepper("number", 5)
    gc.disable()  # it would come by and hide what is left
    try:
        shown = widgets.Explorer({"number": control}, show)
        control.value = 3
        assert [figure() for figure in drawn] == [None, None]
    finally:
        gc.enable()
    assert shown.picture_data == {"number": 3}


@pytest.mark.parametrize("enabled", [True, False])
def test_the_garbage_collector_is_left_as_it_was(enabled: bool) -> None:
    before = gc.isenabled()
    try:
        (gc.enable if enabled else gc.disable)()
        widgets.explore_heads()
        assert gc.isenabled() is enabled
    finally:
        (gc.enable if before else gc.disable)()


@pytest.mark.parametrize("name", MAKE)
def test_nothing_global_is_touched(name: str) -> None:
    torch.manual_seed(1)
    state, style = torch.random.get_rng_state(), dict(matplotlib.rcParams)
    threads, grad = torch.get_num_threads(), torch.is_grad_enabled()
    shown = MAKE[name]()
    for control in list(shown.controls.values())[:4]:
        control.value = another(control)
    assert torch.equal(torch.random.get_rng_state(), state)
    assert dict(matplotlib.rcParams) == style
    assert (torch.get_num_threads(), torch.is_grad_enabled()) == (threads, grad)
    pyplot = sys.modules.get("matplotlib.pyplot")
    assert pyplot is None or not pyplot.get_fignums()


def test_ipywidgets_and_matplotlib_wait_until_a_widget_is_made() -> None:
    code = (
        "import sys; from helpers import widgets; dir(widgets);"
        "print([m for m in ('ipywidgets', 'matplotlib') if m in sys.modules]);"
        "widgets.explore_scale(); print('matplotlib.pyplot' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split("\n")[:2] == ["[]", "False"]


def test_an_unknown_name_is_refused_with_the_known_ones() -> None:
    with pytest.raises(AttributeError, match=r"no widget named 'explore_mask'. It has: .*explore_masks"):
        _ = widgets.explore_mask
    assert set(dir(widgets)) == {"Explorer", *(name for name in MAKE if "," not in name)}


# --- the scale ---


def test_the_scale_decides_whether_the_width_matters() -> None:
    shown = widgets.explore_scale(d=16)
    width, scale = shown.controls["width"], shown.controls["scale"]
    entropies: dict[str, list[float]] = {}
    for rule in (demo.NO_SCALE, demo.BY_ROOT, demo.BY_WIDTH):
        scale.value = rule
        for d in (16, 1024):
            width.value = d
            entropies.setdefault(rule, []).append(shown.picture_data["entropy"])
            assert f"{shown.picture_data['entropy']:.2f} nats" in repr(shown)
    assert entropies[demo.NO_SCALE][1] < 0.2 < entropies[demo.NO_SCALE][0]
    assert abs(entropies[demo.BY_ROOT][1] - entropies[demo.BY_ROOT][0]) < 0.4
    assert entropies[demo.BY_WIDTH][1] == pytest.approx(math.log(6), abs=0.01)


def test_a_width_adds_features_and_draws_no_new_ones() -> None:
    shown = widgets.explore_scale(d=1)
    shown.controls["scale"].value = demo.NO_SCALE
    narrow = shown.picture_data["scores"]
    shown.controls["width"].value = 2
    assert torch.linalg.matrix_rank(shown.picture_data["scores"] - narrow) == 1


@pytest.mark.parametrize("d", [0, 3, 8192, "64"])
def test_a_width_that_the_slider_lacks_is_refused(d: Any) -> None:
    with pytest.raises(ValueError, match="d must be a power of 2 from 1 to 4096, not"):
        widgets.explore_scale(d)


# --- masks ---


@pytest.mark.parametrize(
    ("kind", "hidden"),
    [("causal", 15), ("padding", 12), ("causal and padding", 18), ("window of 3", 21), ("own clicks", 15)],
)
def test_a_kind_of_mask_hides_its_cells(kind: str, hidden: int) -> None:
    shown = widgets.explore_masks()
    shown.controls["kind"].value = kind
    mask = shown.picture_data["mask"]
    assert int((~mask).sum()) == hidden
    assert mask.diagonal().all() or "padding" in kind
    assert f"Hidden: {hidden} of 36 cells." in shown.words[0]
    assert shown.picture_data["weights"][~mask].abs().max() == 0


@pytest.mark.parametrize(
    ("fill", "leaks"), [(-math.inf, False), (-1e9, False), (-1.0, True), (0.0, True), (1e-20, True)]
)
def test_a_fill_leaks_or_does_not(fill: float, leaks: bool) -> None:
    shown = widgets.explore_masks()
    shown.controls["fill"].value = fill
    data = shown.picture_data
    assert torch.allclose(data["masked"].softmax(dim=-1), data["weights"])
    assert bool((data["leaked"] > 0.01).any()) is leaks
    said = "Leaked weight of a row: at most" if leaks else "Leaked weight: 0, in every row."
    assert said in shown.words[0]


def test_half_precision_cannot_hold_every_fill() -> None:
    shown = widgets.explore_masks()
    shown.controls["dtype"].value = "float16"
    assert shown.picture_data["weights"].dtype == torch.float16
    shown.controls["fill"].value = 1e-20
    assert shown.words[-1] == "float16 rounds 1e-20 to 0."
    shown.controls["fill"].value = -1e9
    assert shown.words == ("float16 ends at 65504, so it cannot hold -1e9. PyTorch stops with an error.",)
    assert image(shown) == shown.description == ""
    assert set(shown._repr_mimebundle_()[0]) == {WIDGET_VIEW, "text/plain", "text/html"}
    shown.controls["dtype"].value = "float32"
    assert image(shown)


def test_own_clicks_begin_with_the_mask_seen_last() -> None:
    shown = widgets.explore_masks(kind="window of 3")
    assert all(box.value is not None for box in boxes(shown))
    shown.controls["kind"].value = "own clicks"
    before = shown.picture_data["mask"].clone()
    assert before.equal(mask_demo.causal(6).triu(-2))
    shown.controls["query 5, key 0"].value = True
    changed = shown.picture_data["mask"] != before
    assert changed.nonzero().tolist() == [[5, 0]]
    assert shown.controls["query 5, key 0"].tooltip == "ate may look at the"


def test_the_boxes_show_only_for_own_clicks() -> None:
    shown = widgets.explore_masks()
    grid = next(part for part in shown.children if isinstance(part, ipywidgets.GridBox))
    assert grid.layout.display == "none"
    shown.controls["kind"].value = "own clicks"
    assert grid.layout.display == "grid"


def test_a_row_without_anything_to_look_at_is_said() -> None:
    shown = widgets.explore_masks()
    shown.controls["kind"].value = "own clicks"
    shown.controls["query 0, key 0"].value = False
    assert "Rows of NaN, with nothing to look at: 1." in shown.words[0]
    for box in boxes(shown):
        box.value = False
    assert "Every row is NaN" in shown.words[0]
    assert image(shown)


@pytest.mark.parametrize("module", [OneHead, OneHead(16)])
def test_your_own_layer_shows_its_own_weights(module: Any) -> None:
    shown = widgets.explore_masks(module)
    assert "fill" not in shown.controls  # that is decided in the layer
    for kind in ("causal", "padding", "causal and padding", "window of 3"):
        shown.controls["kind"].value = kind
        data = shown.picture_data
        assert data["weights"].shape == (6, 6)
        assert data["leaked"].abs().max() == 0


def test_your_own_fill_shows_as_a_leak() -> None:
    shown = widgets.explore_masks(layer_with(1e-20))
    assert shown.picture_data["leaked"].max() > 0.1
    assert f"at most {shown.picture_data['leaked'].max():.2f}" in shown.words[-1]


def test_your_own_heads_show_one_picture_a_head() -> None:
    shown = widgets.explore_masks(TwoHeads)
    assert shown.picture_data["weights"].shape == (2, 6, 6)
    assert shown.picture_data["leaked"].abs().max() == 0
    assert shown.description.startswith("2 heatmaps, one a head")


def test_your_own_layer_meets_half_precision() -> None:
    shown = widgets.explore_masks(layer_with(-1e9))
    assert image(shown)
    shown.controls["dtype"].value = "float16"
    assert image(shown) == ""
    assert shown.words[0].startswith("Your code raised RuntimeError: ")
    shown.controls["dtype"].value = "float32"
    assert image(shown)


def test_your_own_module_is_left_as_it_is() -> None:
    module = OneHead(16).train()
    before = {name: value.clone() for name, value in module.state_dict().items()}
    widgets.explore_masks(module).controls["dtype"].value = "float16"
    assert module.training
    assert all(value.dtype == torch.float32 for value in module.state_dict().values())
    assert all(torch.equal(value, before[name]) for name, value in module.state_dict().items())


def test_an_open_blank_is_no_error() -> None:
    shown = widgets.explore_masks(Open)
    assert shown.words == ("Finish the exercise above to see your own.",)
    assert repr(shown) == shown.words[0]
    shown.controls["kind"].value = "padding"
    assert image(shown) == ""


@pytest.mark.parametrize(
    ("module", "said"),
    [
        (lambda x, mask: 1 / 0, "Your code raised ZeroDivisionError: division by zero. Run its check first."),
        (lambda x, mask: x, "Your code raised ValueError: No attention weights were seen"),
    ],
)
def test_code_that_raises_is_said_in_words(module: Any, said: str) -> None:
    shown = widgets.explore_masks(module)
    assert shown.words[0].startswith(said)
    assert image(shown) == ""


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"kind": "diagonal"}, "kind must be one of: causal, padding"),
        ({"module": 3}, "module must be a class or a module; this is int"),
        ({"x": [[1.0]]}, r"x must be a tensor \(L, d\); this is list"),
        ({"x": torch.zeros(2, 6, 16)}, r"x must be one sample, .* not \(2, 6, 16\)"),
        ({"x": torch.full((6, 16), math.nan)}, "x holds numbers that are not finite"),
        ({"x": torch.zeros(2, 16)}, "x must have 3 to 12 tokens to be explored, not 2"),
        ({"x": torch.zeros(13, 16)}, "x must have 3 to 12 tokens to be explored, not 13"),
        ({"tokens": ["a", "b"]}, "tokens must be a list with one label for each of the 6 positions"),
        ({"tokens": "abcdef"}, "tokens must be a list with one label"),
    ],
)
def test_odd_input_for_masks_is_refused_in_words(arguments: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        widgets.explore_masks(**arguments)


@pytest.mark.parametrize("length", [3, 12])
@pytest.mark.parametrize("d", [1, 5, 24])
def test_your_own_sample_of_any_allowed_size(length: int, d: int) -> None:
    x = torch.randn(1, length, d, generator=torch.Generator().manual_seed(0))
    shown = widgets.explore_masks(x=x, tokens=list("我爱自然语言处理好吗是的")[:length])
    assert shown.picture_data["weights"].shape == (length, length)
    assert len(boxes(shown)) == length**2


# --- heads ---


@pytest.mark.parametrize("h", [1, 2, 4, 8])
def test_the_right_way_gives_every_head_all_tokens(h: int) -> None:
    shown = widgets.explore_heads(h=h)
    data = shown.picture_data
    d_k = 8 // h
    assert data["heads"].shape == (h, 3, d_k)
    for i in range(h):
        assert data["heads"][i].equal(data["x"][:, i * d_k : (i + 1) * d_k])
    assert (data["right"], data["back"]) == (True, True)
    assert "round trip" not in repr(shown)


@pytest.mark.parametrize("h", [2, 4, 8])
def test_view_alone_tears_the_tokens_apart(h: int) -> None:
    shown = widgets.explore_heads(h=h)
    shown.controls["split"].value = "view alone"
    assert (shown.picture_data["right"], shown.picture_data["back"]) == (False, False)
    assert shown.words[0].startswith("Wrong, although nothing fails. Head 0 holds numbers of these tokens: 0")
    shown.controls["merge"].value = "view alone"
    assert (shown.picture_data["right"], shown.picture_data["back"]) == (False, True)
    assert shown.words[-1] == "So the round trip alone is no test: two mistakes can cancel."


def test_one_head_hides_the_mistake() -> None:
    shown = widgets.explore_heads(h=1)
    shown.controls["split"].value = "view alone"
    assert shown.picture_data["right"]
    assert "a test with h = 1 cannot find the mistake" in shown.words[1]


def test_your_own_split_and_merge_are_one_of_the_ways() -> None:
    shown = widgets.explore_heads(lambda x, h: x.view(1, h, 3, -1), lambda x: x.transpose(1, 2).flatten(2))
    assert shown.controls["split"].value == shown.controls["merge"].value == "yours"
    assert shown.picture_data["right"] is False
    shown.controls["split"].value = "view and transpose"
    assert (shown.picture_data["right"], shown.picture_data["back"]) == (True, True)


def open_blank(*_: Any) -> torch.Tensor:
    raise NotImplementedError


@pytest.mark.parametrize(
    ("split", "said"),
    [
        (open_blank, "Finish the exercise above to see your own."),
        (lambda x, h: None, "Your code raised ValueError: split_heads returned no tensor, but NoneType. Run its check"),
        (lambda x, h: x, r"Your code raised ValueError: split_heads returned the shape (1, 3, 8), not 4 axes"),
        (lambda x, h: x.view(7), "Your code raised RuntimeError: "),
    ],
)
def test_a_split_that_fails_is_said_in_words(split: Any, said: str) -> None:
    shown = widgets.explore_heads(split)
    assert shown.words[0].startswith(said)
    shown.controls["split"].value = "view alone"
    assert image(shown)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"h": 3}, "h must divide the width 8: one of 1, 2, 4, 8, not 3"),
        ({"split_heads": 2}, "split_heads must be a function; this is int"),
        ({"merge_heads": "x"}, "merge_heads must be a function; this is str"),
    ],
)
def test_odd_input_for_heads_is_refused_in_words(arguments: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        widgets.explore_heads(**arguments)


# --- dropout ---


def test_a_rate_drops_that_share_and_scales_the_rest() -> None:
    weights = torch.full((20, 20), 1 / 20)
    shown = widgets.explore_dropout(weights, rate=0.0)
    for rate in (0.0, 0.2, 0.5, 0.9):
        shown.controls["rate"].value = rate
        draw = shown.picture_data["draw"]
        assert (draw == 0).float().mean().item() == pytest.approx(rate, abs=0.08)
        assert torch.allclose(draw[draw > 0], torch.tensor(1 / 20 / (1 - rate)))
        assert shown.picture_data["mean"] == pytest.approx(1, abs=0.02)


def test_eval_drops_nothing() -> None:
    shown = widgets.explore_dropout(rate=0.9)
    shown.controls["mode"].value = "eval"
    assert torch.allclose(shown.picture_data["sums"], torch.ones(6))
    assert shown.words[0] == "In eval mode nothing is dropped, whatever the rate is."


def test_redraw_draws_anew_and_every_draw_comes_back() -> None:
    shown = widgets.explore_dropout()
    button = next(part for part in shown.children[0].children if isinstance(part, ipywidgets.Button))
    first = shown.picture_data["draw"]
    button.click()
    assert shown.controls["draw"].value == 2
    assert not torch.equal(shown.picture_data["draw"], first)
    shown.controls["draw"].value = 1
    assert torch.equal(shown.picture_data["draw"], first)
    sums = first.sum(dim=-1)
    assert f"Sums of the rows: {sums.min():.2f} to {sums.max():.2f}." in shown.words[1]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"rate": 1.0}, "rate must be one of 0, 0.1, … 0.9, not 1.0"),
        ({"weights": "w"}, r"weights must be a tensor \(L, d\); this is str"),
        ({"weights": torch.ones(2, 2, 2)}, "weights must be one sample"),
        ({"weights": torch.ones(2, 2)}, "Every row of weights must sum to 1"),
        ({"tokens": ["a"]}, "tokens must be a list with one label"),
    ],
)
def test_odd_input_for_dropout_is_refused_in_words(arguments: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        widgets.explore_dropout(**arguments)


# --- the formula ---


def random_inputs(L_q: int, L_k: int, d: int, d_v: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    q, k, v = (torch.randn(*shape, generator=generator) for shape in ((L_q, d), (L_k, d), (L_k, d_v)))
    return q, k, v


def inputs(L_q: int, L_k: int, **others: Any) -> dict[str, Any]:
    """Arguments for the formula: q, k and v of these lengths, some of them replaced."""
    return dict(zip("qkv", random_inputs(L_q, L_k, 4, 5), strict=True)) | others


@pytest.mark.parametrize(("L_q", "L_k", "d", "d_v"), [(3, 5, 4, 2), (5, 3, 2, 7), (1, 1, 1, 1), (2, 16, 8, 3)])
def test_the_steps_end_at_what_pytorch_computes(L_q: int, L_k: int, d: int, d_v: int) -> None:
    q, k, v = random_inputs(L_q, L_k, d, d_v)
    mask = torch.ones(L_q, L_k, dtype=torch.bool)
    mask[0, 1:] = False
    shown = widgets.watch_formula(q, k, v, mask=mask)
    shown.controls["step"].value = 5
    for use in (True, False):
        shown.controls["mask"].value = use
        expected = nn.functional.scaled_dot_product_attention(q, k, v, mask if use else None)
        for query in range(L_q):
            shown.controls["query"].value = query
            assert torch.allclose(shown.picture_data["output"], expected[query], atol=1e-5)


def test_each_step_shows_one_station_more() -> None:
    shown = widgets.watch_formula(mask=mask_demo.causal(6))
    stations = ["scores", "scaled", "masked", "weights", "weighted", "output"]
    for step in range(1, 6):
        shown.controls["step"].value = step
        assert list(shown.picture_data) == stations[: step if step < 5 else 6]
        assert shown.words[0].startswith(f"Step {step} of 5, ")
    assert shown.picture_data["scaled"].equal(shown.picture_data["scores"] / 4)
    assert shown.picture_data["masked"].isinf().tolist() == [False] * 5 + [True]
    assert shown.picture_data["output"].allclose(shown.picture_data["weighted"].sum(dim=0))


def test_back_and_next_stop_at_the_ends() -> None:
    shown = widgets.watch_formula()
    back, forth = (part for part in shown.children[0].children if isinstance(part, ipywidgets.Button))
    seen = []
    for button in (back, *[forth] * 6, back):
        button.click()
        seen.append(shown.controls["step"].value)
    assert seen == [1, 2, 3, 4, 5, 5, 5, 4]


def test_the_picture_keeps_its_size_from_step_to_step() -> None:
    shown = widgets.watch_formula(mask=mask_demo.causal(6))
    sizes = set()
    for step in range(1, 6):
        shown.controls["step"].value = step
        sizes.update(re.findall(r'width="\d+" height="\d+"', image(shown)))
    assert len(sizes) == 1


def test_without_a_mask_there_is_no_box_for_it() -> None:
    shown = widgets.watch_formula()
    assert "mask" not in shown.controls
    shown.controls["step"].value = 3
    assert shown.words[0] == "Step 3 of 5, mask. No key is hidden from this query: the scores stay as they are."
    assert shown.picture_data["masked"].equal(shown.picture_data["scaled"])


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"q": torch.ones(2, 3)}, r"k must be a tensor \(L, d\); this is NoneType"),
        (inputs(2, 3, q=torch.ones(2, 3)), "q and k must have the same width d"),
        (inputs(2, 3, v=torch.ones(2, 3)), "k and v must have the same length L_k"),
        (inputs(2, 17), "At most 16 keys fit into the picture; k has 17"),
        (inputs(2, 3, query=2), "query must be a row of q, 0 to 1, not 2"),
        ({"mask": torch.ones(5, 5)}, r"mask has the shape \(5, 5\), which does not fit 6 queries"),
        ({"mask": torch.full((6, 6), 0.5)}, "mask must hold only True and False"),
        ({"tokens": ["a"]}, "tokens must be a list with one label"),
    ],
)
def test_odd_input_for_the_formula_is_refused_in_words(arguments: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        widgets.watch_formula(**arguments)


def test_a_query_that_may_look_at_nothing_ends_in_nan_and_is_said() -> None:
    mask = mask_demo.causal(6)
    mask[4] = False
    shown = widgets.watch_formula(mask=mask)
    for step in (4, 5):
        shown.controls["step"].value = step
        assert shown.picture_data["weights"].isnan().all()
        assert shown.words[0] == f"Step {step} of 5. Every key is hidden from “it”."
        assert image(shown)

"""The missing table: five layers that are one function, and sentences that say what was seen."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest
import torch
from torch import nn
from typer.testing import CliRunner

from helpers.__main__ import app
from helpers.bench import attention_table as table
from helpers.bench.attention_layers import FOUR, FUSED, LIBRARY, LOOP, SDPA, YOURS, layers
from helpers.bench.measure import Timing
from solutions.multi_head_attention import MultiHeadAttention

TINY = table.Grid((3, 5), (1, 2), length=3, h=2, d_model=8, batch=2, device="cpu", seconds=1e-3)
LABELS = [LOOP, FOUR, FUSED, SDPA, LIBRARY]


@pytest.fixture(scope="module")
def results() -> table.Results:
    return table.run(TINY, yours=MultiHeadAttention)


def written_by_hand(loop_ms: dict[tuple[int, int], float], *, spread: float = 0.1) -> table.Results:
    """Results in which four linears take 1 ms everywhere, and the loop what is given for (length, h)."""
    lines = [
        table.Measurement(
            layer=label,
            direction=direction,
            length=length,
            h=h,
            seconds=Timing(ms * 1e-3, ms * 1e-3 * (1 - spread), ms * 1e-3 * (1 + spread)),
            memory=memory * table.MIB,
            launches=3 + 5 * h if label == LOOP else 6,
            parameters=288,
            pieces=2 + 6 * h if label == LOOP else 8,
        )
        for (length, h), loop in loop_ms.items()
        for label, ms, memory in ((LOOP, loop, 2), (FOUR, 1.0, 3), (SDPA, 0.5, 1))
        for direction in (table.FORWARD, table.BOTH)
    ]
    return table.Results("a machine", "cpu", TINY, 1e-7, tuple(lines))


# --- the five layers ---


@pytest.mark.parametrize(("d_model", "h"), [(12, 3), (8, 1), (10, 5)])
def test_all_layers_compute_the_same(d_model: int, h: int) -> None:
    found = layers(d_model, h, yours=MultiHeadAttention)
    assert list(found) == [*LABELS, YOURS]
    x = torch.randn(2, 7, d_model, generator=torch.Generator().manual_seed(0))
    for layer in found.values():
        torch.testing.assert_close(layer(x), found[FOUR](x), atol=1e-6, rtol=1e-6)


def test_all_layers_hold_the_same_weights_in_their_own_tensors() -> None:
    found = layers(12, 3)
    sizes = {sum(p.numel() for p in layer.parameters()) for layer in found.values()}
    assert sizes == {4 * 12 * 12 + 4 * 12}
    addresses = [p.data_ptr() for layer in found.values() for p in layer.parameters()]
    assert len(set(addresses)) == len(addresses)


def test_making_the_layers_leaves_the_random_state_alone() -> None:
    before = torch.get_rng_state()
    layers(8, 2)
    assert torch.equal(torch.get_rng_state(), before)


def test_a_class_without_the_four_names_is_refused_in_words() -> None:
    with pytest.raises(ValueError, match="named wq"):
        layers(8, 2, yours=lambda d_model, h: nn.Identity())


# --- measuring ---


def test_every_point_layer_and_direction_is_measured_once(results: table.Results) -> None:
    seen = [(line.length, line.h, line.layer, line.direction) for line in results.lines]
    assert len(set(seen)) == len(seen) == 3 * 6 * 2
    assert {line.seconds.low <= line.seconds.median <= line.seconds.high for line in results.lines} == {True}
    assert all(line.memory > 0 for line in results.lines)


def test_the_loop_starts_more_matmuls_from_more_pieces(results: table.Results) -> None:
    at = {line.layer: line for line in results.lines if (line.length, line.h, line.direction) == (3, 2, table.FORWARD)}
    assert at[LOOP].launches == 2 * 5 + 1  # each head: three projections, scores, weighted sum; then the output
    assert at[FOUR].launches == at[YOURS].launches == 6
    assert at[FUSED].launches == 4
    assert (at[LOOP].pieces, at[YOURS].pieces, at[FOUR].pieces) == (14, 8, 4)


def test_layers_that_differ_are_not_timed() -> None:
    class Unscaled(MultiHeadAttention):
        def forward(self, q, k, v, mask=None):
            return super().forward(2 * q, k, v, mask)

    with pytest.raises(AssertionError, match=r"your MultiHeadAttention differs from four linears"):
        table.run(TINY, yours=Unscaled)


def test_a_layer_that_gives_nan_is_not_timed() -> None:
    class Broken(MultiHeadAttention):
        def forward(self, q, k, v, mask=None):
            return super().forward(q, k, v, mask) * float("nan")

    with pytest.raises(AssertionError, match="differs from four linears by nan"):
        table.run(TINY, yours=Broken)


def test_right_outputs_with_wrong_gradients_are_not_timed() -> None:
    class Detached(MultiHeadAttention):
        def forward(self, q, k, v, mask=None):
            return super().forward(q, k.detach(), v, mask)

    with pytest.raises(AssertionError, match="differs from four linears"):
        table.run(TINY, yours=Detached)


def test_progress_reaches_the_total() -> None:
    said: list[tuple[int, int, str]] = []
    table.run(dataclasses.replace(TINY, lengths=(3,), heads=(1, 2)), progress=lambda *news: said.append(news))
    assert said == [(1, 2, "L = 3, h = 2"), (2, 2, "L = 3, h = 1")]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"heads": (3,)}, "3 heads do not divide d_model = 8"),
        ({"lengths": (0,)}, "at least 1, not 0"),
        ({"device": "no such device"}, "cannot measure on"),
        ({"device": "meta"}, "cannot measure on"),
    ],
)
def test_a_grid_that_cannot_be_measured_is_refused_in_words(change: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        table.run(dataclasses.replace(TINY, **change))


# --- showing ---


def test_the_table_has_one_row_for_each_point_and_layer(results: table.Results) -> None:
    rows = results.table()
    assert len(rows) == 3 * 6
    assert {tuple(row) for row in rows} == {tuple(rows[0])}
    assert rows[0]["layer"] == LOOP
    html = rows._repr_html_()
    assert html.count("<tr>") == 1 + len(rows)
    assert html.count("<td ") == len(rows) * len(rows[0])


def test_results_show_their_sentences_as_text_and_as_a_list(results: table.Results) -> None:
    assert repr(results).splitlines() == results.sentences()
    assert results._repr_html_().count("<li>") == len(results.sentences())


def test_json_holds_every_number(results: table.Results) -> None:
    data = json.loads(json.dumps(results.as_json()))
    assert len(data["lines"]) == len(results.lines)
    assert data["lines"][0]["seconds"]["median"] == results.lines[0].seconds.median
    assert data["grid"]["d_model"] == 8


@pytest.mark.parametrize("over", ["length", "heads"])
def test_a_curve_shows_the_medians_of_its_walk(results: table.Results, over: str) -> None:
    xs, walk = results.walk(over, table.FORWARD)
    assert xs == ([3, 5] if over == "length" else [1, 2])
    figure = results.plot(over)
    drawn = {tuple(line.get_ydata()) for axes in figure.axes for line in axes.lines}
    for lines in walk.values():
        assert tuple(1e3 * line.seconds.median for line in lines) in drawn


def test_a_loop_that_is_slower_everywhere_is_said_so() -> None:
    said = written_by_hand({(3, 2): 2.0, (5, 2): 3.0}).sentences()
    assert (
        "Time, forward: the loop was slower than four linears at all 2 points. "
        "It took 2.00 to 3.00 times as long." in said
    )
    assert not [sentence for sentence in said if "fails" in sentence or "not shown" in sentence]


def test_the_points_where_the_claim_fails_are_named() -> None:
    said = written_by_hand({(3, 2): 2.0, (5, 2): 0.5, (7, 2): 1.05}).sentences()
    assert "Time, forward: the loop was slower than four linears at 1 of 3 points." in said
    assert (
        "The claim fails at L = 5, h = 2, forward: the loop was faster. "
        "It took 0.50 times as long as four linears." in said
    )
    assert (
        "The claim is not shown at L = 7, h = 2, forward: the quartiles overlap. "
        "The loop took 1.05 times as long as four linears." in said
    )


def test_memory_parameters_and_launches_are_said() -> None:
    said = written_by_hand({(3, 4): 2.0}).sentences()
    assert "With h = 4 every layer holds 288 parameters: the loop keeps them in 26 tensors, four linears in 8." in said
    assert "With h = 4 one forward pass starts 23 matrix products in the loop and 6 with four linears." in said
    assert (
        "Peak memory at L = 3, h = 4, forward: the loop held less than four linears, "
        "2.0 MiB against 3.0 MiB. F.scaled_dot_product_attention held 1.0 MiB." in said
    )


def test_a_busy_machine_compares_no_times() -> None:
    busy = written_by_hand({(3, 2): 2.0}, spread=0.5).sentences()
    quiet = written_by_hand({(3, 2): 2.0}).sentences()
    assert busy[-1].startswith("The machine was busy: the upper quartile of a time is 3.0 times the lower one")
    assert not [sentence for sentence in busy if sentence.startswith("Time")]
    assert not [sentence for sentence in quiet if "busy" in sentence]
    assert [sentence for sentence in quiet if sentence.startswith("Time")]


def test_your_own_layer_is_compared_with_the_library() -> None:
    results = written_by_hand({(3, 2): 2.0})
    own = [
        dataclasses.replace(line, layer=label, seconds=Timing(*(factor * 1e-3 * part for part in (1, 0.9, 1.1))))
        for line in results.lines
        if line.layer == FOUR
        for label, factor in ((LIBRARY, 2), (YOURS, 3))
    ]
    said = dataclasses.replace(results, lines=(*results.lines, *own)).sentences()
    assert "Time, forward: your MultiHeadAttention took 1.50 to 1.50 times as long as nn.MultiheadAttention." in said


# --- the command ---


def test_the_command_writes_json_and_pictures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table, "SMALL", TINY)
    to = tmp_path / "deep" / "bench"
    outcome = CliRunner().invoke(app, ["bench", "--small", "--device", "cpu", "--to", str(to)])
    assert outcome.exit_code == 0, outcome.output
    assert json.loads((to / "attention.json").read_text())["device"] == "cpu"
    pictures = sorted(to.glob("*.png"))
    assert len(pictures) == 8
    assert all(picture.read_bytes().startswith(b"\x89PNG") for picture in pictures)
    assert "Before any clock started" in outcome.output


def test_the_command_measures_the_large_grid_unless_told_otherwise(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[table.Grid] = []

    def run(grid: table.Grid, **_: object) -> table.Results:
        seen.append(grid)
        raise ValueError("Enough seen.")

    monkeypatch.setattr(table, "run", run)
    outcome = CliRunner().invoke(app, ["bench", "--to", str(tmp_path)])
    assert outcome.exit_code == 2
    assert "Enough seen." in outcome.output
    assert seen == [table.LARGE]


def test_the_command_says_which_device_it_lacks(tmp_path: Path) -> None:
    outcome = CliRunner().invoke(app, ["bench", "--small", "--device", "xyz", "--to", str(tmp_path)])
    assert outcome.exit_code == 2
    assert 'cannot measure on "xyz"' in outcome.output

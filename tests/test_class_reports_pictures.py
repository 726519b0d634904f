"""The small SVG pictures of the reports, tested by what they say and by which colours their cells have."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET

import numpy as np
import pytest

from helpers.classroom.reports import matrix_picture
from helpers.classroom.reports.histogram import histogram
from helpers.classroom.reports.matrix_picture import MOST, STEPS, picture
from helpers.judge import Comparison

RNG = np.random.default_rng(0)


def parsed(yours: object, expected: object, **more: object) -> ET.Element:
    given = Comparison(str(more.pop("title", "On two tokens")), np.array(yours), np.array(expected), **more)  # type: ignore[arg-type]
    return ET.fromstring(picture(given))


def panels(figure: ET.Element) -> list[ET.Element]:
    return [svg for svg in figure.iter("svg") if svg.get("role") == "img"]


def cells(panel: ET.Element) -> dict[str, int]:
    """Class of a cell → how many cells have it."""
    return {
        group.get("class", ""): (group.find("path").get("d") or "").count("M")  # type: ignore[union-attr]
        for group in panel.findall("g")
        if group.get("class") != "labels"
    }


def numbers(panel: ET.Element) -> set[str]:
    return {text.text or "" for g in panel.findall("g") if g.get("class") != "labels" for text in g.findall("text")}


def caption(figure: ET.Element) -> str:
    return "".join(figure.find("figcaption").itertext())  # type: ignore[union-attr]


def test_three_panels_show_yours_expected_and_the_difference() -> None:
    figure = parsed([[1.0, 2.0], [3.0, 4.0]], [[1.0, 2.5], [3.0, 4.25]])
    yours, expected, gap = panels(figure)
    assert numbers(yours) == {"1", "2", "3", "4"}
    assert numbers(expected) == {"1", "2.50", "3", "4.25"}
    assert numbers(gap) == {"0", "−0.50", "−0.25"}
    assert cells(gap) == {"d10": 2, "d0": 1, "d5": 1}
    assert caption(figure) == "Largest difference: −0.50 at query 0, feature 1."
    assert figure.find("p").text == "On two tokens"  # type: ignore[union-attr]


def test_every_panel_says_its_size_and_range_to_a_screen_reader() -> None:
    for panel, title in zip(
        panels(parsed([[1.0, -2.0]], [[0.5, 7.0]])), ("yours", "expected", "difference"), strict=True
    ):
        said = panel.get("aria-label") or ""
        assert said.startswith(f"{title}: 1 by 2 (queries by features), from ")
        assert panel.find("title").text == said  # type: ignore[union-attr]


def test_axes_have_names_and_positions() -> None:
    labels = [text.text for text in panels(parsed([[1.0, 2.0]], [[0.0, 0.0]], column_label="key"))[0].iter("text")]
    assert {"query ↓", "key →", "0", "1"} <= set(labels)


def test_yours_and_expected_share_one_scale() -> None:
    yours, expected, _ = panels(parsed([[-4.0, 0.0]], [[2.0, 0.0]]))
    assert cells(yours) == {"n0": 1, "n10": 1}
    assert cells(expected) == {"n15": 1, "n10": 1}


def test_attention_weights_have_the_scale_of_weights() -> None:
    yours, expected, gap = panels(parsed([[1.0, 0.0]], [[0.5, 0.5]]))
    assert cells(yours) == {"w20": 1, "w0": 1}
    assert cells(expected) == {"w10": 2}
    assert set(cells(gap)) == {"d0", "d20"}


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_what_is_not_finite_is_hatched_and_named(value: float) -> None:
    figure = parsed([[value, 1.0], [0.5, 0.5]], [[0.0, 1.0], [0.5, 0.25]])
    yours, _, gap = panels(figure)
    assert cells(yours)["nan"] == cells(gap)["nan"] == 1
    assert {"NaN", "inf", "−inf"} & numbers(yours)
    assert caption(figure).startswith("Cells that cannot be compared, because of NaN or infinity: 1.")
    assert caption(figure).endswith("Largest difference of the others: 0.25 at query 1, feature 1.")


def test_two_infinities_of_the_same_sign_are_equal() -> None:
    figure = parsed([[-np.inf, 1.0]], [[-np.inf, 1.0]])
    assert caption(figure) == "The numbers are equal."


@pytest.mark.parametrize("shape", [(1, 1), (1, 40), (40, 1), (5, 7), (24, 24), (25, 24), (100, 300)])
def test_a_picture_is_never_larger_than_its_window(shape: tuple[int, int]) -> None:
    yours = RNG.normal(size=shape)
    expected = yours.copy()
    expected[-1, -1] += 9.0
    figure = parsed(yours, expected)
    shown = min(shape[0], MOST) * min(shape[1], MOST)
    assert [sum(cells(panel).values()) for panel in panels(figure)] == [shown] * 3
    assert ("Only a part is shown" in caption(figure)) == (max(shape) > MOST)
    assert cells(panels(figure)[2])["d0"] == 1  # the largest difference is inside


def test_a_cut_picture_says_which_part_it_is() -> None:
    yours = np.zeros((60, 30))
    expected = yours.copy()
    expected[40, 2] = 1.0
    assert caption(parsed(yours, expected)).endswith("queries 28 to 51 of 60, features 0 to 23 of 30.")
    labels = {text.text for text in panels(parsed(yours, expected))[0].iter("text")}
    assert {"28", "51"} <= labels


def test_numbers_that_do_not_fit_give_way_to_a_bar_of_colours() -> None:
    wide = panels(parsed(RNG.normal(size=(3, 24)), RNG.normal(size=(3, 24))))[0]
    assert numbers(wide) == set()
    below = wide.findall("g")[-1]
    assert len(below.findall("g")) == STEPS


@pytest.mark.parametrize("values", [[[1e308, -1e308]], [[5e-324, 0.0]], [[1e-12, 2e-12]], [[0.0, 0.0]], [[1e6, 2.0]]])
def test_extreme_numbers_are_drawn_without_a_warning(values: list[list[float]]) -> None:
    assert len(panels(parsed(values, [[-v for v in row] for row in values]))) == 3


def test_a_map_has_two_states_and_marks_where_they_differ() -> None:
    figure = parsed([[1, 1], [0, 1]], [[1, 0], [1, 1]], column_label="key", is_map=True)
    yours, expected = panels(figure)
    assert cells(yours) == {"on": 2, "on wrong": 1, "off wrong": 1}
    assert numbers(yours) == {"!", "?"}
    assert cells(expected) == {"on": 3, "off": 1}
    assert "2 are not as expected" in (yours.get("aria-label") or "")
    keys = " ".join("".join(figure.itertext()).split())
    assert "moves it, but must not" in keys
    assert "does not move it, but should" in keys


@pytest.mark.parametrize(
    ("yours", "expected"), [([], []), ([[]], [[]]), ([1.0], [1.0]), ([[1.0]], [[1.0, 2.0]]), ([[[1.0]]], [[[1.0]]])]
)
def test_what_is_no_pair_of_matrices_is_not_drawn(yours: list, expected: list) -> None:
    assert picture(Comparison("title", np.array(yours), np.array(expected))) == ""


def test_hostile_labels_are_escaped() -> None:
    bad = '<script>"&'
    figure = parsed([[1.0]], [[2.0]], title=bad, row_label=bad, column_label=bad)
    assert figure.find("p").text == bad  # type: ignore[union-attr]
    assert next(figure.iter("script"), None) is None


# ---- colours ---------------------------------------------------------------------------------------------


def luminance(colour: str) -> float:
    rgb = np.array([int(colour[i : i + 2], 16) for i in (1, 3, 5)]) / 255
    linear = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
    return float(linear @ [0.2126, 0.7152, 0.0722])


def themes() -> list[dict[str, tuple[str, str]]]:
    """For light and dark: class of a cell → its colour and that of its number."""
    light, dark = matrix_picture.style().split("@media screen and (prefers-color-scheme: dark)")
    rule = r"\.(\w\d+) path\{fill:(#\w{6})\}\.\w\d+ text\{fill:(#\w{6})\}"
    return [{kind: (cell, text) for kind, cell, text in re.findall(rule, css)} for css in (light, dark)]


@pytest.mark.parametrize("theme", [0, 1], ids=["light", "dark"])
def test_every_number_can_be_read_on_its_cell(theme: int) -> None:
    colours = themes()[theme]
    assert len(colours) == 3 * STEPS
    for cell, text in colours.values():
        lighter, darker = sorted((luminance(cell), luminance(text)), reverse=True)
        assert (lighter + 0.05) / (darker + 0.05) >= 4.5  # WCAG 2, level AA


@pytest.mark.parametrize("theme", [0, 1], ids=["light", "dark"])
def test_more_is_further_from_the_paper_also_without_colour(theme: int) -> None:
    """In grey print and to colour-blind eyes lightness alone must tell small from large."""
    colours = themes()[theme]
    towards = -1 if theme == 0 else 1
    for letter, middle in (("w", 0), ("n", STEPS // 2), ("d", STEPS // 2)):
        for side in (range(middle, STEPS), range(middle, -1, -1)):
            steps = np.diff([luminance(colours[f"{letter}{i}"][0]) for i in side])
            assert (steps * towards > 0).all()


# ---- the histogram ---------------------------------------------------------------------------------------


def test_the_histogram_shows_and_says_its_counts() -> None:
    svg = ET.fromstring(histogram([0.0, 5.0, 100.0], 100.0))
    assert [rect.get("height") for rect in svg.iter("rect")] == ["96", "48"]
    assert svg.get("aria-label") == "Distribution of points, by tenths of 100: 2, 0, 0, 0, 0, 0, 0, 0, 0, 1 students."


def test_nobody_has_no_histogram() -> None:
    assert histogram([], 100.0) == ""

"""The course in a real browser: JupyterLab in headless Chromium, driven with menus and keyboard.

Every window must end without an error in the browser's console and without a request to another machine.
Screenshots are kept in test-artefacts/, in the light and in the dark theme.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import browser as driver
import nbformat
import pytest
from browser import PATIENCE, Lab, Server
from playwright.sync_api import Browser, Locator, expect

from helpers.course import EXERCISES, NOTEBOOKS

ROOT = Path(__file__).resolve().parent.parent
ARTEFACTS = ROOT / "test-artefacts"
PARTS = ("notebooks", "helpers", "solutions", "pyproject.toml")

pytestmark = [
    pytest.mark.skipif(driver.CHROMIUM is None, reason="there is no chromium, chromium-browser or google-chrome"),
    pytest.mark.timeout(240),
]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """JupyterLab on a copy of the course, so that the learner's files and progress are not touched."""
    course = tmp_path_factory.mktemp("course")
    for part in PARTS:
        copy = shutil.copytree if (ROOT / part).is_dir() else shutil.copy
        copy(ROOT / part, course / part)
    _write_explorers(course / "notebooks/explorers.ipynb")
    with driver.serving(course, tmp_path_factory.mktemp("jupyter")) as running:
        yield running


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    with driver.chromium() as running:
        yield running


@pytest.fixture
def lab(chromium: Browser, server: Server) -> Iterator[Lab]:
    """A window for one test; nothing was done in the course yet."""
    (server.folder / "progress.json").unlink(missing_ok=True)
    with driver.lab(chromium, server) as window:
        yield window
        assert window.complaints == []


# ---- notebooks -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("notebook", NOTEBOOKS[:2])  # nbval runs them all; these two are looked at
def test_run_all_reaches_the_end_with_every_blank_open(lab: Lab, notebook: str) -> None:
    lab.open(notebook)
    lab.run_all()
    assert lab.failures() == []
    for exercise in (each for each in EXERCISES if each.notebook == notebook):
        said = lab.cell(f"check({exercise.name})").locator(".jp-OutputArea-output")
        expect(said).to_contain_text(f"{exercise.name}: not started.", timeout=PATIENCE)
    lab.keep_screenshots(ARTEFACTS, notebook)


def test_a_wrong_answer_hears_its_mistake_and_a_right_one_is_kept(lab: Lab, server: Server) -> None:
    lab.open("00_start_here")
    lab.run(lab.cell("import torch"))
    blank, check = lab.cell("def weighted_average"), lab.cell("check(weighted_average)")
    verdict = check.locator(".jp-OutputArea-output")

    lab.write_last_line(blank, "return torch.softmax(weights, dim=-1) @ values")
    lab.run(blank)
    lab.run(check)
    expect(verdict).to_be_visible(timeout=PATIENCE)
    expect(verdict).to_contain_text("weighted_average: not right yet", timeout=PATIENCE)
    expect(verdict).to_contain_text("Mistake: softmax-twice", timeout=PATIENCE)

    lab.write_last_line(blank, "return weights @ values")
    lab.run(blank)
    lab.run(check)
    expect(verdict).to_contain_text("weighted_average: passed, 2 of 2 points.", timeout=PATIENCE)
    expect(verdict).not_to_contain_text("Mistake", timeout=PATIENCE)
    scoreboard = lab.cell("scoreboard()")
    lab.run(scoreboard)
    expect(scoreboard.locator(".jp-OutputArea-output")).to_contain_text("2 of 100 points", timeout=PATIENCE)

    lab.reload("00_start_here")
    lab.restart()
    lab.clear()
    assert lab.run(lab.cell("import torch")) == "[1]:"  # so the kernel is a new one
    lab.run(scoreboard)
    row = scoreboard.locator("tr", has_text="weighted_average")
    expect(row.locator("td")).to_have_text(["weighted_average", "2 / 2", "passed", "2", ""], timeout=PATIENCE)
    expect(scoreboard.locator(".jp-OutputArea-output")).to_contain_text("2 of 100 points", timeout=PATIENCE)
    expect(blank.locator(".cm-line").last).to_have_text("    return weights @ values", timeout=PATIENCE)
    assert lab.failures() == []

    kept = json.loads((server.folder / "progress.json").read_text("utf-8"))["exercises"]
    assert list(kept) == ["weighted_average"]
    assert kept["weighted_average"]["attempts"] == 2


def test_an_error_in_the_console_does_not_go_unheard(chromium: Browser, server: Server) -> None:
    with driver.lab(chromium, server) as window:
        window.open("00_start_here")
        assert window.complaints == []
        window.page.evaluate("console.error('said by the page')")
        window.page.evaluate("setTimeout(() => { throw new Error('thrown by the page'); })")
        window.page.evaluate("fetch('http://127.0.0.1:9/elsewhere').catch(() => 0)")
        heard = "\n".join(window.complaints)
    assert all(part in heard for part in ("said by the page", "thrown by the page", "127.0.0.1:9/elsewhere"))


# ---- explorers -------------------------------------------------------------------------------------------

EXPLORERS = {
    "scale": "widgets.explore_scale()",
    "masks": "widgets.explore_masks()",
    "masks, own clicks": 'widgets.explore_masks(kind="own clicks")',
    "heads": "widgets.explore_heads()",
    "dropout": "widgets.explore_dropout()",
    # at a step, and with a mask, where every control changes something
    "formula": "f = widgets.watch_formula(mask=~torch.eye(6).bool())\nf.controls['step'].value = 4\nf",
}
HURRIED = 'widgets.explore_masks(kind="padding")'
KEYS = {"slider": "ArrowRight", "number": "ArrowUp", "checkbox": "Space", "radio": "Space", "button": "Space"}
BACK = {"slider": "ArrowLeft", "number": "ArrowDown"}

# What has the focus: a control, or something else ("kind" is empty). Marks each control that had it.
STOP = """cell => {
  const here = document.activeElement, inside = cell.querySelector('.jp-OutputArea')?.contains(here);
  const type = here.getAttribute('role') || (here.tagName === 'BUTTON' ? 'button' : here.type) || '';
  const kind = inside && ['slider', 'number', 'checkbox', 'radio', 'button'].includes(type) ? type : '';
  if (kind) here.dataset.reached = 'yes';
  const group = here.closest('.widget-inline-hbox, .widget-radio')?.querySelector('.widget-label');
  const own = here.closest('label')?.innerText || here.innerText;
  const words = [group?.innerText, own, here.title].map(text => (text || '').replace(/\\u200b/g, '').trim());
  return {inside, kind, chosen: kind === 'radio' && here.checked, label: [...new Set(words)].filter(Boolean).join(', '),
          cut: Boolean(group) && group.scrollWidth > group.clientWidth + 1};
}"""
# What is on display. Squares to press are counted because "own clicks" begins with the picture that is there.
SHOWN = """cell => {
  const image = cell.querySelector('img');
  const boxes = [...cell.querySelectorAll('.widget-toggle-button')].filter(box => box.offsetParent);
  return [image?.src, image?.alt, boxes.length].join(' ');
}"""
CHANGED = f"([cell, before]) => ({SHOWN})(cell) !== before"
RESTORED = f"([cell, before]) => ({SHOWN})(cell) === before"
CHOSEN = "() => [...document.activeElement.closest('.widget-radio-box').querySelectorAll('input')].find(r => r.checked)"
NOT_REACHED = """cell => [...cell.querySelectorAll('[role=slider], input, .jupyter-button')]
  .filter(control => control.offsetParent && control.dataset.reached !== 'yes').map(control => control.outerHTML)"""
CHOOSE = """([cell, label]) => [...cell.querySelectorAll('.widget-radio-box label')]
  .find(each => each.textContent.trim() === label).querySelector('input').click()"""


def _write_explorers(path: Path) -> None:
    new = nbformat.v4
    sources = ("import torch\n\nfrom helpers import widgets", *EXPLORERS.values(), HURRIED)
    kernel = {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"}
    notebook = new.new_notebook(cells=[*map(new.new_code_cell, sources)], metadata={"kernelspec": kernel})
    nbformat.write(notebook, path)


@pytest.fixture(scope="module")
def explorers(chromium: Browser, server: Server) -> Iterator[Lab]:
    """One window with all explorers."""
    with driver.lab(chromium, server) as window:
        window.open("explorers")
        window.run_all()
        expect(window.page.locator(".jp-CodeCell img")).to_have_count(len(EXPLORERS) + 1, timeout=PATIENCE)
        yield window
        assert window.complaints == []


def test_explorers_are_shown_in_both_themes(explorers: Lab) -> None:
    assert explorers.failures() == []
    explorers.keep_screenshots(ARTEFACTS, "explorers")


def test_a_control_moved_while_the_picture_is_drawn_counts_too(explorers: Lab) -> None:
    """JupyterLab hands the first change of each control to the kernel's main thread, later ones to another thread."""
    cell = explorers.cell(HURRIED)
    picture, handle = cell.locator("img"), cell.element_handle()
    explorers.page.evaluate(CHOOSE, [handle, "causal and padding"])
    expect(picture).to_have_attribute("alt", re.compile("18 of 36 cells"), timeout=PATIENCE)
    explorers.page.evaluate(CHOOSE, [handle, "window of 3"])
    explorers.page.wait_for_timeout(50)  # milliseconds: the drawing has begun, and takes longer
    explorers.page.evaluate(CHOOSE, [handle, "-1e9"])
    expect(picture).to_have_attribute("alt", re.compile(r"fill -1e9.* 21 of 36 cells"), timeout=PATIENCE / 4)


@pytest.mark.parametrize("name", EXPLORERS)
def test_every_control_has_a_label_and_moves_the_picture_by_keyboard(explorers: Lab, name: str) -> None:
    cell, moved = explorers.cell(EXPLORERS[name].split("\n")[0]), []
    for stop in _stops(explorers, cell):
        assert stop["label"]
        assert not stop["cut"], stop["label"]
        if not stop["chosen"]:
            _move_and_return(explorers, cell, stop["kind"])
            moved.append(stop["label"])
    assert moved
    assert cell.evaluate(NOT_REACHED) == []
    assert explorers.failures() == []


def _move_and_return(lab: Lab, cell: Locator, kind: str) -> None:
    """Move the control that has the focus, and wait for another picture; where there is a way back, for the first."""
    page, handle = lab.page, cell.element_handle()
    before = cell.evaluate(SHOWN)
    chosen = page.evaluate_handle(CHOSEN).as_element() if kind == "radio" else None
    page.keyboard.press(KEYS[kind])
    page.wait_for_function(CHANGED, arg=[handle, before])
    if kind in BACK:
        page.keyboard.press(BACK[kind])
        page.wait_for_function(RESTORED, arg=[handle, before])
    if chosen:  # so that the next choice is a change again
        after = cell.evaluate(SHOWN)
        chosen.evaluate("radio => radio.click()")
        page.wait_for_function(CHANGED, arg=[handle, after])


@pytest.mark.parametrize("name", EXPLORERS)
def test_a_screen_reader_has_a_name_for_every_control(explorers: Lab, name: str) -> None:
    cell = explorers.cell(EXPLORERS[name].split("\n")[0])
    # ipywidgets gives the handle of a slider no name; its label stands beside it.
    unnamed = [each["label"] for each in _stops(explorers, cell) if each["kind"] != "slider" and not explorers.spoken()]
    assert unnamed == []


def _stops(lab: Lab, cell: Locator) -> Iterator[dict[str, Any]]:
    """Select the cell, and press Tab until its output is left. Yields each control on the way."""
    page, was_inside = lab.page, False
    page.evaluate("document.activeElement.blur()")
    cell.locator(".jp-InputPrompt").first.click()
    page.wait_for_function("cell => document.activeElement === cell", arg=cell.element_handle())
    while True:
        page.keyboard.press("Tab")
        stop = cell.evaluate(STOP)
        if stop["kind"]:
            yield stop
        if was_inside and not stop["inside"]:
            return
        was_inside = stop["inside"]

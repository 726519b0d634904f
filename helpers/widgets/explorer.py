"""The frame that all explorers share: labelled controls, one picture changed in place, and its numbers in words."""

from __future__ import annotations

import base64
import gc
import io
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from html import escape
from typing import Any

import ipywidgets
import torch

from helpers import note
from helpers.plots import Picture


@dataclass(frozen=True)
class Shown:
    """What one setting of the controls shows.

    words: sentences below the picture, each a paragraph
    picture: None where there is nothing to draw; the words then say why
    data: the numbers behind the picture, by name
    """

    words: tuple[str, ...]
    picture: Picture | None = None
    data: Mapping[str, Any] = field(default_factory=dict)


class Explorer(ipywidgets.VBox):  # type: ignore[misc]  # ipywidgets has no types
    """Controls, one picture, and words; a changed control redraws the picture and writes the words anew.

    controls: name → control, each with a `value`; cells of a grid are among them
    words, description, picture_data: what is on display now; without a picture the description is empty
    Without a widget front end it shows its picture as PNG; in plain text its description and its words.
    """

    def __init__(
        self,
        controls: Mapping[str, Any],
        show: Callable[..., Shown],
        *,
        buttons: Sequence[Any] = (),
        below: Sequence[Any] = (),
        clicks: Mapping[str, Any] | None = None,
    ):
        """
        show: called with the value of every control by its name
        buttons, below: more parts, beside and below the controls
        clicks: more controls, whose values `show` reads by itself
        """
        self._picture, self._words = ipywidgets.HTML(), ipywidgets.HTML()
        row = ipywidgets.Layout(flex_flow="row wrap", align_items="center", grid_gap="2px 14px")
        head = ipywidgets.Box([*controls.values(), *buttons], layout=row)
        super().__init__([head, *below, self._picture, self._words])
        self.controls = {**controls, **(clicks or {})}
        self._asked = dict(controls)
        self._show = show
        self._busy = False
        self._one_at_a_time = threading.RLock()  # JupyterLab may hand two changes to two threads of the kernel
        self.picture_data: Mapping[str, Any] = {}
        for control in self.controls.values():
            control.observe(lambda change: self.refresh(), names="value")
        self.refresh()

    def refresh(self) -> None:
        """Draw what the controls say now. The old picture stays until the new one is complete."""
        with self._one_at_a_time:
            if self._busy:  # `show` may set controls itself
                return
            self._busy = True
            try:
                with _collected_at_once():
                    self._draw()
            finally:
                self._busy = False

    def _draw(self) -> None:
        shown = self._show(**{name: control.value for name, control in self._asked.items()})
        self.words, self.picture_data, picture = shown.words, shown.data, shown.picture
        self.description = "" if picture is None else picture.description
        self._png = b"" if picture is None else _png(picture)
        self._picture.value = "" if picture is None else _image(picture, self._png)
        self._words.value = f'<div role="status">{"".join(note.paragraph(line) for line in self.words)}</div>'

    def __repr__(self) -> str:
        return "\n".join(filter(None, (self.description, *self.words)))

    def _repr_mimebundle_(self, **kwargs: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        data = {**(super()._repr_mimebundle_(**kwargs) or {}), "text/plain": repr(self)}
        if not self._png:
            data["text/html"] = self._words.value
            return data, {}
        # A front end takes the richest form that it can show: the widget, or this picture where there is none.
        data["image/png"] = base64.b64encode(self._png).decode("ascii")
        return data, {"image/png": {"alt": self.description}}


@contextmanager
def _collected_at_once() -> Iterator[None]:
    """Free a figure as soon as it is drawn.

    A figure is full of cycles. Left to grow old, it makes Python search all objects of torch and matplotlib now and
    then, and the picture stands still meanwhile. While it is young, only new objects are searched.
    """
    running = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        gc.collect(0)
        if running:
            gc.enable()


def _png(picture: Picture) -> bytes:
    """The picture as PNG, packed loosely: a tenth larger, and sooner there."""
    buffer = io.BytesIO()
    picture.canvas.print_png(  # type: ignore[attr-defined]
        buffer,
        metadata={"Description": picture.description, "Software": None},
        pil_kwargs={"compress_level": 1},
    )
    return buffer.getvalue()


def _image(picture: Picture, png: bytes) -> str:
    """An <img> that says what it shows. Its size is given, so that nothing below it jumps while it loads."""
    width, height = (round(inches * picture.dpi) for inches in picture.get_size_inches())
    return (
        f'<img alt="{escape(picture.description)}" width="{width}" height="{height}" decoding="sync"'
        ' style="max-width: 100%; height: auto;"'
        f' src="data:image/png;base64,{base64.b64encode(png).decode("ascii")}">'
    )


# ---- controls --------------------------------------------------------------------------------------------


def choice(label: str, options: Sequence[Any], value: Any) -> Any:
    """One of several, side by side. options: values, or (text, value) pairs.

    No list that opens: JupyterLab takes the arrow keys away from it.
    """
    row = {"display": "flex", "flex_flow": "row wrap", "align_items": "baseline", "grid_gap": "0 10px"}
    return ipywidgets.RadioButtons(
        options=list(options), value=value, orientation="horizontal", **_look(label, "auto", **row)
    )


def slider(label: str, options: Sequence[Any], value: Any) -> Any:
    """One of an ordered series. options: values, or (text, value) pairs."""
    return ipywidgets.SelectionSlider(options=list(options), value=value, **_look(label, "320px"))


def stepper(label: str, last: int) -> Any:
    """A whole number from 1 to `last`, as a slider."""
    return ipywidgets.IntSlider(value=1, min=1, max=last, **_look(label, "260px"))


def counter(label: str, last: int) -> Any:
    """A whole number from 1 to `last`, as a field."""
    return ipywidgets.BoundedIntText(value=1, min=1, max=last, **_look(label, "160px"))


def tick(label: str, value: bool) -> Any:
    """Yes or no."""
    layout = ipywidgets.Layout(width="max-content")
    return ipywidgets.Checkbox(description=label, value=value, indent=False, layout=layout)


def square(value: bool, tooltip: str) -> Any:
    """One square of a grid, pressed or not. It has no text of its own, so the tooltip is read aloud."""
    layout = ipywidgets.Layout(width="34px", height="24px", padding="0")
    button = ipywidgets.ToggleButton(value=value, tooltip=tooltip, layout=layout)

    def colour(_: Any = None) -> None:
        button.button_style = "primary" if button.value else ""

    button.observe(colour, "value")
    colour()
    return button


def counting_button(label: str, counted: Any, by: int) -> Any:
    """A button that moves a control that holds a number; at its ends the control stays where it is."""
    button = ipywidgets.Button(description=label, layout=ipywidgets.Layout(width="max-content"))

    def move(_: Any) -> None:
        counted.value = min(max(counted.value + by, counted.min), counted.max)

    button.on_click(move)
    return button


def _look(label: str, width: str, **layout: str) -> dict[str, Any]:
    """A label that is never cut. Without a tooltip of its own it would get one that says "null"."""
    style = {"description_width": "initial"}
    return {"description": label, "tooltip": "", "layout": ipywidgets.Layout(width=width, **layout), "style": style}


# ---- what comes in ---------------------------------------------------------------------------------------


def one_sample(value: Any, name: str) -> torch.Tensor:
    """One sample (L, d) out of (L, d) or (1, L, d), detached, as float32. Raises ValueError in words."""
    if not isinstance(value, torch.Tensor):
        raise ValueError(f"{name} must be a tensor (L, d); this is {type(value).__name__}.")
    sample = value[0] if value.dim() == 3 and len(value) == 1 else value
    if sample.dim() != 2 or 0 in sample.shape:
        raise ValueError(f"{name} must be one sample, (L, d) or (1, L, d), not {tuple(value.shape)}.")
    sample = sample.detach().float()
    if not sample.isfinite().all():
        raise ValueError(f"{name} holds numbers that are not finite.")
    return sample


def names_for(tokens: Sequence[Any] | None, length: int, name: str) -> list[str]:
    """One label a position; positions are numbered where no tokens are given. Raises ValueError in words."""
    if tokens is None:
        return [str(i) for i in range(length)]
    if isinstance(tokens, str) or len(tokens) != length:
        raise ValueError(f"tokens must be a list with one label for each of the {length} positions of {name}.")
    return [str(token) for token in tokens]

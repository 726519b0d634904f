"""Pictures to play with: every function returns one widget, controls above a picture that they change.

Nothing of ipywidgets or matplotlib is imported until a widget is made.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from helpers.widgets.dropout import explore_dropout as explore_dropout
    from helpers.widgets.explorer import Explorer as Explorer
    from helpers.widgets.formula import watch_formula as watch_formula
    from helpers.widgets.heads import explore_heads as explore_heads
    from helpers.widgets.masks import explore_masks as explore_masks
    from helpers.widgets.scale import explore_scale as explore_scale

_HOME = {
    "Explorer": "explorer",
    "explore_dropout": "dropout",
    "explore_heads": "heads",
    "explore_masks": "masks",
    "explore_scale": "scale",
    "watch_formula": "formula",
}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"helpers.widgets has no widget named {name!r}. It has: {', '.join(sorted(_HOME))}.")
    return getattr(importlib.import_module(f"helpers.widgets.{_HOME[name]}"), name)


def __dir__() -> list[str]:
    return sorted(_HOME)

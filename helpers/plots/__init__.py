"""Static pictures: every function takes tensors or arrays and returns a figure that displays by itself.

Queries are always rows, keys always columns. Nothing of matplotlib is imported until a picture is drawn.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from helpers.plots.comparison import difference as difference
    from helpers.plots.draws import dropout_draws as dropout_draws
    from helpers.plots.heatmaps import attention_heatmap as attention_heatmap
    from helpers.plots.heatmaps import heads as heads
    from helpers.plots.heatmaps import score_steps as score_steps
    from helpers.plots.layouts import fused_weight as fused_weight
    from helpers.plots.layouts import reshaping as reshaping
    from helpers.plots.lines import curves as curves
    from helpers.plots.look import Picture as Picture
    from helpers.plots.masks import compare_fills as compare_fills
    from helpers.plots.masks import dependency_map as dependency_map
    from helpers.plots.masks import mask_path as mask_path
    from helpers.plots.scales import scale_effect as scale_effect
    from helpers.plots.scales import score_distribution as score_distribution

_HOME = {
    "Picture": "look",
    "attention_heatmap": "heatmaps",
    "compare_fills": "masks",
    "curves": "lines",
    "dependency_map": "masks",
    "difference": "comparison",
    "dropout_draws": "draws",
    "fused_weight": "layouts",
    "heads": "heatmaps",
    "mask_path": "masks",
    "reshaping": "layouts",
    "scale_effect": "scales",
    "score_distribution": "scales",
    "score_steps": "heatmaps",
}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"helpers.plots has no picture named {name!r}. It has: {', '.join(sorted(_HOME))}.")
    return getattr(importlib.import_module(f"helpers.plots.{_HOME[name]}"), name)


def __dir__() -> list[str]:
    return sorted(_HOME)

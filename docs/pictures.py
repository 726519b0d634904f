"""Draw the pictures of README: a heatmap, and a check that names a mistake. Needs Chromium for the second."""

from __future__ import annotations

import math
import shutil
from pathlib import Path

import torch
from playwright.sync_api import sync_playwright
from torch import nn

from helpers import demo, plots
from helpers.judge import check_answer

IMAGES = Path(__file__).parent / "images"

PAGE = """<body style="margin: 16px; width: 760px; font: 15px sans-serif; background: white; color: black">
<pre style="background: #f5f5f5; padding: 12px; font-size: 14px">{code}</pre>{verdict}</body>"""


class SelfAttentionV1(nn.Module):
    """A wrong answer: the root of the length, where the root of the width belongs."""

    def __init__(self, hidden_dim=768):
        super().__init__()
        self.query_proj = nn.Linear(hidden_dim, hidden_dim)
        self.key_proj = nn.Linear(hidden_dim, hidden_dim)
        self.value_proj = nn.Linear(hidden_dim, hidden_dim)

    def forward(self, x):
        q, k, v = self.query_proj(x), self.key_proj(x), self.value_proj(x)
        scores = q @ k.transpose(-2, -1) / math.sqrt(x.shape[1])
        return torch.softmax(scores, dim=-1) @ v


def heatmap() -> None:
    """A small sentence under a causal mask: who looks at whom."""
    tokens, x = demo.sentence()
    query_proj, key_proj, _ = demo.projections()
    mask = torch.ones(len(tokens), len(tokens), dtype=torch.bool).tril()
    weights = demo.attention_weights(query_proj(x), key_proj(x), mask=mask)[0]  # (L, L)
    figure = plots.attention_heatmap(weights, tokens, tokens, mask=mask)
    figure.savefig(IMAGES / "heatmap.png", dpi=110, metadata={"Software": None})


def named_mistake() -> None:
    """What the check says to the wrong answer above. The picture does not show its code: that is the exercise."""
    verdict = check_answer(SelfAttentionV1, "SelfAttentionV1")
    page = PAGE.format(code="check(SelfAttentionV1)", verdict=verdict._repr_html_())
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        tab = browser.new_page(viewport={"width": 792, "height": 100})
        tab.set_content(page)
        tab.screenshot(path=IMAGES / "check.png", full_page=True)
        browser.close()


if __name__ == "__main__":
    heatmap()
    named_mistake()

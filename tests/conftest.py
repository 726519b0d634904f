"""What every test may count on: the environment of whoever runs the tests changes nothing."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def _plain_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """No strict checks, and a progress file only where a test names one."""
    monkeypatch.delenv("CHECK_STRICT", raising=False)
    monkeypatch.delenv("ATTENTION_PROGRESS", raising=False)

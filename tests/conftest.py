"""What every test shares: hypothesis profiles, and no agentaccel settings from the outside."""

from __future__ import annotations

import os
import zlib
from collections.abc import Iterable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

settings.register_profile("fast", max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("fast")


@pytest.fixture(autouse=True)
def _own_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No test reads the user's settings, writes the user's store or goes through the user's proxy."""
    for name in [name for name in os.environ if name.startswith("AGENTACCEL_") and name != "AGENTACCEL_TRACES"]:
        monkeypatch.delenv(name)
    for name in ("http_proxy", "https_proxy", "all_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: Iterable[pytest.Item]) -> None:
    """Of tests marked `many(n)` one in n is fast, always the same ones; the others are soak."""
    for item in items:
        mark = item.get_closest_marker("many")
        if mark is not None and zlib.crc32(item.nodeid.encode()) % mark.args[0]:
            item.add_marker(pytest.mark.soak)

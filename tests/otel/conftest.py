"""Telemetry that is shut down at the end."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.otel.scene import Telemetry


@pytest.fixture
def telemetry() -> Iterator[Telemetry]:
    kept = Telemetry()
    yield kept
    kept.close()

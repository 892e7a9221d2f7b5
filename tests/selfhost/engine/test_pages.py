"""The pages that show a real engine do what they say, with one."""

from __future__ import annotations

import pytest

from agentaccel.selfhost.tiny import Tiny
from tests.docs.test_pages import ENGINE, apart

pytestmark = pytest.mark.engine


def test_every_block_does_what_the_page_says(tiny: Tiny, monkeypatch: pytest.MonkeyPatch) -> None:
    """A page has a home of its own; what is installed already is not installed there again."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tiny.python_path.parents[2]))
    failed = apart(ENGINE)
    assert not failed, "\n".join(failed.values())

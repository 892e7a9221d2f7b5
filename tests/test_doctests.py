"""Every worked example in a docstring is run."""

from __future__ import annotations

import doctest
import importlib
from pathlib import Path

import pytest

import agentaccel

FOLDER = Path(agentaccel.__path__[0])
MODULES = sorted(
    ".".join(("agentaccel", *path.relative_to(FOLDER).with_suffix("").parts)).removesuffix(".__init__")
    for path in FOLDER.rglob("*.py")
    if ">>>" in path.read_text(encoding="utf-8")
)


@pytest.mark.parametrize("name", MODULES)
def test_the_examples_of_a_module_hold(name: str) -> None:
    """As printed."""
    found = doctest.testmod(importlib.import_module(name))
    assert found.attempted
    assert found.failed == 0

"""Every worked example in a docstring is run."""

from __future__ import annotations

import doctest
import importlib
import pkgutil

import pytest

import agentaccel

MODULES = sorted(
    info.name
    for info in pkgutil.walk_packages(agentaccel.__path__, "agentaccel.")
    if not info.name.endswith("__main__")
)


@pytest.mark.parametrize("name", MODULES)
def test_the_examples_of_a_module_hold(name: str) -> None:
    """As printed."""
    assert doctest.testmod(importlib.import_module(name)).failed == 0

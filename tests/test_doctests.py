"""Every worked example in a docstring is run."""

from __future__ import annotations

import doctest
import importlib
import inspect
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
    module = importlib.import_module(name)
    if ">>>" in inspect.getsource(module):  # looking for examples takes longer than running them
        assert doctest.testmod(module).failed == 0

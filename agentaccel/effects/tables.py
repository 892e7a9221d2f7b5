"""The data files of this package, parsed: what is known to be a read, with source and date."""

from __future__ import annotations

import functools
import tomllib
from collections.abc import Mapping
from importlib import resources
from typing import Any


@functools.cache
def table(name: str) -> Mapping[str, Any]:
    """The data file `name` as parsed, read once per process; treat it as immutable."""
    return tomllib.loads(resources.files("agentaccel.effects").joinpath(f"{name}.toml").read_text(encoding="utf-8"))

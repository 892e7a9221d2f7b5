"""The data files of this package, parsed: what is known to be a read, with source and date."""

from __future__ import annotations

import functools
import tomllib
from collections.abc import Mapping
from importlib import resources
from typing import Any

_FILES: Mapping[str, str] = {
    file.name.removesuffix(".toml"): file.read_text(encoding="utf-8")
    for file in resources.files("agentaccel.effects").iterdir()
    if file.name.endswith(".toml")
}
"""The data files, read with this module: an event loop that asks for a table later does not wait for the disk."""


@functools.cache
def table(name: str) -> Mapping[str, Any]:
    """The data file `name`, parsed once per process; treat it as immutable."""
    return tomllib.loads(_FILES[name])

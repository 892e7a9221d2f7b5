"""Former names of public things: they work for one minor version, with a warning that says the new name."""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Callable, Mapping


def former(module: str, homes: Mapping[str, str]) -> Callable[[str], object]:
    """The `__getattr__` of `module`, some names of which are now found elsewhere.

    `homes` says where: each former name with the full present one, or `*` with the module that has all of them under
    the names that they had.
    """

    def found(name: str) -> object:
        home = homes.get(name) or ("" if name.startswith("__") or "*" not in homes else f"{homes['*']}.{name}")
        where, _, now = home.rpartition(".")
        present = getattr(importlib.import_module(where), now, _ABSENT) if where else _ABSENT
        if present is _ABSENT:
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        warnings.warn(f"{module}.{name} is now {home}", DeprecationWarning, stacklevel=2)
        return present

    return found


_ABSENT = object()

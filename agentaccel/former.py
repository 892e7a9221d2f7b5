"""Former names of public things: they work for one minor version, with a warning that says the new name."""

from __future__ import annotations

import importlib
import sys
import warnings
from collections.abc import Callable, Mapping


def former(module: str, homes: Mapping[str, str], words: Mapping[str, str] | None = None) -> Callable[[str], object]:
    """The `__getattr__` of `module`, some names of which are now found elsewhere.

    `homes` says where: each former name with the full present one, or `*` with the module that has all of them under
    the names that they had. `words` has what the warning says, where that is not the full present name.
    """

    def found(name: str) -> object:
        home = homes.get(name) or ("" if name.startswith("__") or "*" not in homes else f"{homes['*']}.{name}")
        where, _, now = home.rpartition(".")
        present = getattr(importlib.import_module(where), now, _ABSENT) if where else _ABSENT
        if present is _ABSENT:
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        warn_former(f"{module}.{name}", (words or {}).get(name, home))
        return present

    return found


_ABSENT = object()


def warn_former(name: str, now: str) -> None:
    """Warn that `name` is now `now`, at the first line outside of this package."""
    level, frame = 2, sys._getframe(1)
    while frame.f_back is not None and _is_ours(frame.f_globals.get("__name__", "")):
        level, frame = level + 1, frame.f_back
    warnings.warn(f"{name} is now {now}", DeprecationWarning, stacklevel=level)


def _is_ours(module: str) -> bool:
    return module.partition(".")[0] in ("agentaccel", "dataclasses")

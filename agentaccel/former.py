"""Former names of public things: they work for one minor version, with a warning that says the new name."""

from __future__ import annotations

import functools
import importlib
import sys
import warnings
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from agentaccel.errors import ConfigError

T = TypeVar("T")


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


def former_fields(**names: str) -> Callable[[type[T]], type[T]]:
    """Decorator of a dataclass whose fields had other names: each former name with the present one.

    A former name is still taken as a keyword, also by `dataclasses.replace`, and can still be read; both warn. Raises
    `ConfigError` for a field that is given by both of its names.

    >>> from dataclasses import dataclass
    >>> @former_fields(length="width")
    ... @dataclass(frozen=True)
    ... class Lamp:
    ...     width: int
    >>> Lamp(length=1, width=2)
    Traceback (most recent call last):
    agentaccel.errors.ConfigError: Lamp.length is now width: give width alone
    """

    def known(cls: type[T]) -> type[T]:
        written: Any = cls.__init__

        @functools.wraps(written)
        def init(self: T, *args: Any, **given: Any) -> None:
            for name in [name for name in names if name in given]:
                now = names[name]
                # `dataclasses.replace` gives every field, and the former names of the caller beside them.
                if now in given and sys._getframe(1).f_globals.get("__name__") != "dataclasses":
                    raise ConfigError(f"{cls.__name__}.{name} is now {now}: give {now} alone")
                warn_former(f"{cls.__name__}.{name}", now)
                given[now] = given.pop(name)
            written(self, *args, **given)

        cls.__init__ = init  # type: ignore[method-assign, assignment]
        for name, now in names.items():
            setattr(cls, name, property(functools.partial(_read, f"{cls.__name__}.{name}", now)))
        return cls

    return known


def _read(name: str, now: str, one: object) -> object:
    warn_former(name, now)
    return getattr(one, now)

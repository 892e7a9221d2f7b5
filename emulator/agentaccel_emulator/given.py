"""What scripts, faults and orders are given: of its kind and within bounds, or it is refused in one line."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from reprlib import Repr
from typing import Any

from agentaccel.errors import ConfigError

MOST = 1_000_000_000
"""That a clock is advanced by at once, in seconds: thirty years; and that anything is counted up to."""
_SHORT = Repr()


def shown(value: object) -> str:
    """`value` in one short line, whatever it is.

    >>> shown("two\\nlines"), shown("x" * 99), shown([[[[[[[[[[]]]]]]]]]])
    ("'two\\\\nlines'", "'xxxxxxxxxxxx...xxxxxxxxxxxxx'", '[[[[[[[...]]]]]]]')
    """
    return _SHORT.repr(value)


def number(what: str, value: object, *, least: float = 0, most: float = MOST, whole: bool = False) -> None:
    """Raises ConfigError unless `value` is a number from `least` to `most`, and `whole` where it has to be."""
    kinds = int if whole else int | float
    if isinstance(value, bool) or not isinstance(value, kinds) or not least <= value <= most:
        kind = "a whole number" if whole else "a number"
        raise ConfigError(f"{what} is {kind} from {least:,} to {most:,}, not {shown(value)}")


def text(what: str, value: object) -> None:
    """Raises ConfigError unless `value` is a text that UTF-8 can say."""
    try:
        if isinstance(value, str) and value.encode() is not None:
            return
    except UnicodeEncodeError:
        pass
    raise ConfigError(f"{what} is a text, not {shown(value)}")


def fields(what: str, value: Mapping[str, object], known: Collection[str]) -> None:
    """Raises ConfigError where `value` has a field that is not `known`."""
    if unknown := [name for name in value if name not in known]:
        raise ConfigError(f"{what} has no field {shown(unknown[0])}: use {', '.join(known)}")


def well_formed(value: Any) -> Any:
    """`value`, a JSON value, with U+FFFD for what no UTF-8 can say.

    >>> well_formed({"q": ["half \\ud83d", 1]}) == {"q": ["half \\ufffd", 1]}
    True
    """
    if isinstance(value, str):
        if value.isascii():
            return value
        return value.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    if isinstance(value, Mapping):
        return {well_formed(name): well_formed(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [well_formed(item) for item in value]
    return value

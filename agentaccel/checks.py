"""Settings that cannot be meant: each check raises `ConfigError` with the setting's name, its value and what to give.

Python takes any object for any field, and what is not looked at where it is written goes wrong somewhere else, or goes
unnoticed: `"false"` from an environment variable is true.
"""

from __future__ import annotations

import sys
from collections.abc import Collection, Mapping, Sequence

from agentaccel.errors import ConfigError


def check_flags(where: object, *names: str) -> None:
    """Fields of `where` are True or False; nothing else is a consent."""
    for name in names:
        value = getattr(where, name)
        if not isinstance(value, bool):
            raise ConfigError(f"{_field(where, name)} is {value!r}; give True or False")


def check_count(what: str, value: object, least: int) -> None:
    """A whole number.

    >>> check_count("ToolPolicy.depth", True, 1)
    Traceback (most recent call last):
    agentaccel.errors.ConfigError: ToolPolicy.depth is True; give a whole number of at least 1
    """
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise ConfigError(f"{what} is {value!r}; give a whole number of at least {least}")


def is_amount(value: object) -> bool:
    """Whether `value` is a finite number of 0 or more.

    >>> [is_amount(one) for one in (0, 0.5, True, "1", float("nan"), None)]
    [True, True, False, False, False, False]
    """
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= sys.float_info.max


def is_names(value: object) -> bool:
    """Whether `value` is a collection of non-empty strings: not one string, and nothing that is read only once.

    >>> [is_names(one) for one in (("a",), ["a"], "a", (one for one in "a"), {"a": 1}, None)]
    [True, True, False, False, False, False]
    """
    if isinstance(value, str | bytes | Mapping) or not isinstance(value, Collection):
        return False
    return all(isinstance(name, str) and name for name in value)


def check_mapping(where: object, name: str, example: str) -> None:
    """A field by name of something: a dict, with strings for keys."""
    value = getattr(where, name)
    if not isinstance(value, Mapping) or not all(isinstance(key, str) and key for key in value):
        raise ConfigError(f"{_field(where, name)} is {value!r}; give a dict by name, such as {example}")


def check_part(where: object, name: str, kind: type) -> None:
    """A field that holds settings of its own."""
    value = getattr(where, name)
    if not isinstance(value, kind):
        raise ConfigError(f"{_field(where, name)} is {value!r}; give {name}={kind.__name__}(…)")


def check_prices(model: str, prices: object, lifetimes: Sequence[str]) -> None:
    """What a model costs, in USD per million tokens: by kind, and what it writes by lifetime."""
    if isinstance(prices, Mapping) and "input" in prices and {"input", "output", "read", "write"}.issuperset(prices):
        write = prices.get("write", {})
        figures = [value for name, value in prices.items() if name != "write"]
        by_lifetime = isinstance(write, Mapping) and set(lifetimes).issuperset(write)
        if by_lifetime and all(map(is_amount, (*figures, *write.values()))):
            return
    raise ConfigError(
        f"the prices of {model!r} are {prices!r}; give USD per million tokens, 0 or more, for 'input' and any of "
        f"'output', 'read' and 'write' (the last by lifetime, such as {{'5m': 3.75}}: {', '.join(lifetimes)})"
    )


def _field(where: object, name: str) -> str:
    return f"{type(where).__name__}.{name}"


def check_session_name(what: str, name: object, *, required: bool) -> None:
    """The id, agent or tenant of a session: it goes into reports and rows."""
    if name is None and not required:
        return
    if not isinstance(name, str) or not name or not name.isprintable():
        raise ConfigError(f"the {what} of a session is a printable, non-empty string; got {name!r}")


def is_of_sdk(kind: type) -> bool:
    """Whether a class is a vendor SDK's: frameworks have classes that are called `OpenAI`, too."""
    return kind.__module__.partition(".")[0] in ("anthropic", "openai")

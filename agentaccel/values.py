"""Values that are made in numbers, or while a request waits: a log of a gigabyte is a million records."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable, Sequence
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


def quickly_made(cls: type[T]) -> type[T]:
    """`cls`, a frozen dataclass, with an `__init__` that does the same in half the time.

    The one that `dataclasses` writes sets every field by name through `object.__setattr__`, past its own guard; this
    one sets the slots themselves or, where there are none, all fields at once. That is quickest; with slots, values of
    which many are held at a time take less memory. Whoever has an instance can change it as little as before.

    >>> @quickly_made
    ... @dataclasses.dataclass(frozen=True, slots=True)
    ... class Point:
    ...     x: int
    ...     y: int = 0
    >>> Point(1)
    Point(x=1, y=0)
    >>> Point(1).x = 2
    Traceback (most recent call last):
    dataclasses.FrozenInstanceError: cannot assign to field 'x'
    """
    written: Any = cls.__init__
    lines, scope = _keeping(cls)
    cls.__init__ = _function(written, lines, scope)  # type: ignore[method-assign]
    return cls


def maker(cls: Callable[P, T]) -> Callable[P, T]:
    """A function that makes what `cls` does, a named tuple or a dataclass, in two thirds of the time: where it is given
    fields by name, a class makes a dict of them first.

    >>> @dataclasses.dataclass(frozen=True)
    ... class Point:
    ...     x: int
    ...     y: int = 0
    >>> maker(Point)(x=1)
    Point(x=1, y=0)
    """
    kind: Any = cls
    if hasattr(kind, "_fields"):
        fields = "".join(f"{name}, " for name in kind._fields)
        made: Callable[P, T] = _function(
            kind.__new__, [f" return _new(_kind, ({fields}))"], {"_new": tuple.__new__, "_kind": kind}, apart=True
        )
        return made
    lines, scope = _keeping(kind)
    scope |= {"_new": object.__new__, "_kind": kind}
    made = _function(kind.__init__, [" self = _new(_kind)", *lines, " return self"], scope, apart=True)
    return made


def _keeping(cls: Any) -> tuple[list[str], dict[str, Any]]:
    """What keeps the fields of a dataclass in `self`, in lines of code, and what these refer to."""
    fields = dataclasses.fields(cls)
    factories = [one for one in fields if one.default_factory is not dataclasses.MISSING]
    if hasattr(cls, "__post_init__") or not all(one.init or one in factories for one in fields):
        raise TypeError(f"{cls.__name__} does more than keep what it is given")
    scope: dict[str, Any] = {}
    values = {one.name: one.name for one in fields}
    for one in factories:
        scope[f"make_{one.name}"] = one.default_factory
        values[one.name] = f"make_{one.name}()"
        if one.init:
            scope["not_given"] = inspect.signature(cls).parameters[one.name].default
            values[one.name] += f" if {one.name} is not_given else {one.name}"
    if not cls.__dataclass_params__.frozen:
        return [f" self.{name} = {value}" for name, value in values.items()], scope
    if "__slots__" in vars(cls):
        scope |= {f"set_{name}": getattr(cls, name).__set__ for name in values}
        return [f" set_{name}(self, {value})" for name, value in values.items()], scope
    scope["set_dict"] = vars(cls)["__dict__"].__set__
    return [" set_dict(self, {" + ", ".join(f"{name!r}: {value}" for name, value in values.items()) + "})"], scope


def _function(written: Any, lines: Sequence[str], scope: dict[str, Any], *, apart: bool = False) -> Any:
    """A function of these `lines` that takes what `written` takes, `apart` from its first parameter."""
    code = written.__code__
    names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    plain, named = names[apart : code.co_argcount], names[code.co_argcount :]
    head = ", ".join((*plain, *(("*", *named) if named else ())))
    exec(f"def {written.__name__}({head}):\n" + "\n".join(lines), scope)
    made = scope[written.__name__]
    for name in ("__defaults__", "__kwdefaults__", "__annotations__", "__qualname__", "__module__", "__doc__"):
        setattr(made, name, getattr(written, name))
    return made


MOST_NAMED = 200
"""Characters of a name that is kept."""


def kept_name(text: str) -> str:
    """A name that comes from outside, as it is written into records, spans and logs: bounded, and of characters that
    can be seen. Where it is cut, its length is said.

    Providers name errors and reasons, and models make up names of tools; nothing keeps them from sending a page of text
    or an order to a terminal.

    >>> kept_name("rate_limit_error"), kept_name("a\\x1b[2J\\n"), kept_name("x" * 52_000)[-24:]
    ('rate_limit_error', 'a\ufffd[2J\ufffd', 'xxx… [52,000 characters]')
    """
    if len(text) <= MOST_NAMED and text.isprintable():
        return text
    said = f"… [{len(text):,} characters]" if len(text) > MOST_NAMED else ""
    seen = "".join(one if one.isprintable() else "\ufffd" for one in text[: MOST_NAMED - len(said)])
    return seen + said


def kept_name_or_none(text: str | None) -> str | None:
    """The same; None where nothing is named."""
    return None if text is None else kept_name(text)

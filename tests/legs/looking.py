"""Every method of a vendor's client that sends a request, and all that can be seen of what it gives."""

from __future__ import annotations

import functools
import inspect
import tempfile
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

RESOURCES = ("anthropic.resources", "openai.resources")
FORMS = ("plain", "with_raw_response", "with_streaming_response")
"""How each method can be called."""


class Method(NamedTuple):
    """A method of one of a client's resources."""

    path: str
    """How it is reached from the client: `messages.batches.results`."""
    gives: str
    """What its annotation says that it returns."""


def methods(client: Any) -> list[Method]:
    """Every public method of every resource of `client`, those that send no request included."""
    return [Method(path, str(method.__annotations__.get("return", ""))) for path, method in _walk(client, "")]


def _walk(thing: Any, path: str) -> Iterator[tuple[str, Any]]:
    for name in dir(type(thing)):
        if name.startswith(("_", "with_")):
            continue
        defined = inspect.getattr_static(type(thing), name)
        if inspect.isfunction(defined) and path:
            yield path + name, defined
        elif isinstance(defined, functools.cached_property | property):
            value = getattr(thing, name, None)
            if type(value).__module__.startswith(RESOURCES):
                yield from _walk(value, f"{path}{name}.")


def around_replies(*modules: ModuleType) -> dict[str, type]:
    """The classes of `modules` that are made of a response or of the call that gives one, errors aside, by name."""
    return {
        name: value
        for module in modules
        for name, value in vars(module).items()
        if inspect.isclass(value)
        and not issubclass(value, BaseException)
        and (_MADE_OF & {*_parameters(value)} or {"raw", "cast_to"} <= {*_parameters(value)})
    }


_MADE_OF = {"response", "http_response", "request_func", "api_request"}


def _parameters(kind: type) -> list[str]:
    try:
        return list(inspect.signature(kind).parameters)
    except ValueError:  # of a type that is not written in Python
        return []


def found(client: Any, method: str, form: str) -> Callable[..., Any] | None:
    """The method of `client` at a path, in one of the `FORMS`; None where it has no such form."""
    *path, name = method.split(".")
    resource = functools.reduce(getattr, path, client)
    return getattr(resource if form == "plain" else getattr(resource, form, None), name, None)


def filled(method: Callable[..., Any]) -> dict[str, Any]:
    """Something for each argument that `method` insists on."""
    parameters = inspect.signature(inspect.unwrap(method)).parameters.values()
    needed = [one for one in parameters if one.default is one.empty and one.name != "self"]
    return {one.name: _something(str(one.annotation)) for one in needed}


def _something(annotation: str) -> Any:
    if annotation.startswith(("Iterable", "List", "Sequence", "SequenceNotStr", "Union[Iterable", "Union[List")):
        return []
    return {"int": 1, "float": 1.0, "bool": True, "FileTypes": b"data"}.get(annotation, "x")


class Seen(NamedTuple):
    """What a call gave, as plain values that can be compared."""

    classes: tuple[str, ...]
    """Of what was given, and of what could then be entered."""
    said: Any
    """What was read of it, or what the error says."""
    failed: bool = False


async def outcome(client: Any, method: str, form: str, given: dict[str, Any], reader: str | None = None) -> Seen:
    """What calling a method gives, read by `reader`: by default by whatever reads all."""
    call = found(client, method, form)
    if call is None:
        return Seen((), f"has no form {form}")
    try:
        value = await _now(call(**given))
        if form != "with_streaming_response":
            return Seen((_name(value),), await _read(value, reader))
        if hasattr(value, "__aenter__"):
            async with value as response:
                return Seen((_name(value), _name(response)), await _read(response, reader))
        with value as response:
            return Seen((_name(value), _name(response)), await _read(response, reader))
    except Exception as error:  # noqa: BLE001 - whatever it is, both clients are to raise it
        told = (str(error), getattr(error, "body", None), getattr(error, "request_id", None))
        return Seen((_name(error),), told, failed=True)


def readers(kind: type) -> list[str]:
    """Everything public of a response class that can be looked at without arguments, or with the name of a file."""
    found = []
    for name in dir(kind):
        defined = inspect.getattr_static(kind, name)
        if name.startswith("_") or name in _ELSE:
            continue
        if isinstance(defined, property):
            found.append(name)
        elif inspect.isfunction(defined):
            needed = [one.name for one in inspect.signature(defined).parameters.values() if one.default is one.empty]
            if needed in (["self"], ["self", "file"]):
                found.append(name)
    return found


_ELSE = ("elapsed", "http_request", "close", "aclose")
"""What differs from call to call, or says nothing."""


async def _read(value: Any, reader: str | None) -> Any:
    if reader is None:
        reader = next((one for one in ("read", "parse") if hasattr(value, one)), None)
    if reader is None:
        return await _plain(value)
    read = getattr(value, reader)
    if not callable(read):
        return await _plain(read)
    if "file" not in inspect.signature(read).parameters:
        return await _plain(await _now(read()))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "read"
        await _now(read(path))
        return path.read_bytes()


async def _now(value: Any) -> Any:
    return await value if inspect.isawaitable(value) else value


async def _plain(value: Any) -> Any:
    """`value` as something that can be compared."""
    if value is None or isinstance(value, str | bytes | int | float | dict | list):
        return value
    if hasattr(value, "model_dump"):
        return _name(value), value.model_dump(exclude={"_request_id"})
    if hasattr(value, "status_code"):
        return _name(value), value.status_code, [pair for pair in value.headers.items() if pair[0] != "date"]
    if hasattr(value, "response") and hasattr(value, "aread"):
        return _name(value), await _plain(value.response), value.content
    if hasattr(value, "__aiter__"):
        return _name(value), [await _plain(one) async for one in value]
    if hasattr(value, "__iter__"):
        return _name(value), [await _plain(one) for one in value]
    return _name(value), str(value)


def _name(value: Any) -> str:
    return f"{type(value).__module__}.{type(value).__qualname__}"


def driven(coroutine: Coroutine[Any, Any, Any]) -> Any:
    """The result of a coroutine that waits for nothing, without an event loop."""
    try:
        coroutine.send(None)
    except StopIteration as done:
        return done.value
    raise AssertionError("waits for something")

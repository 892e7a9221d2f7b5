"""Where requests go, as users name it."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from types import NoneType

from agentaccel.errors import ConfigError
from agentaccel.facts import PROVIDERS, Wire, cache_facts, platforms, speaks
from agentaccel.types import Endpoint, Request
from agentaccel.wire import wire_of
from agentaccel.wire.json import is_object, items, name_of


def endpoint_of(
    request: Request, provider: str | None, platform: str | None, aliases: Mapping[str, str] | None = None
) -> Endpoint:
    """Where `request` is to go, once everything said of it is known to make sense. Raises `ConfigError`.

    Without a provider it is the first that has the platform and knows the model, which the user's `aliases` may name.
    """
    if type(request) is not dict and not is_object(request):
        raise ConfigError(f"a request is the JSON body as a dict; got {type(request).__name__}")
    if type(request.get("messages")) is not list or "input" in request:
        _check(request)
    model = request.get("model", "") if provider is None else ""
    if aliases or type(model) is not str:
        model = name_of(model)
        model = (aliases or {}).get(model, model)
    form = _form(request)
    try:
        return _endpoint(provider, platform, model, form)
    except TypeError:  # what nobody can be called
        provider, platform = (one if one is None else name_of(one) for one in (provider, platform))
        return _endpoint(provider, platform, model, form)


def _form(request: Request) -> str:
    """What tells the form of a request: Anthropic's has instructions or tools that no other one has."""
    if "messages" not in request:
        return ""
    tools = items(request.get("tools"))
    return "system" if "system" in request or any(is_object(one) and "input_schema" in one for one in tools) else "chat"


def _check(request: Request) -> None:
    """Raise `ConfigError` for a conversation that is no list."""
    for name, kinds, said in _LISTS:
        if not isinstance(messages := request.get(name), kinds):
            once = ", which could be read only once" if hasattr(messages, "__next__") else ""
            raise ConfigError(f"{name} must be {said}; got {type(messages).__name__}{once}")


_LISTS = (
    ("messages", (list, tuple, NoneType), "a list"),
    ("input", (list, tuple, str, NoneType), "a string or a list"),
)


def _provider(model: str, platform: str | None) -> str:
    at = [name for name in PROVIDERS if platform is None or platform in platforms(name)]
    if not at:
        known = ", ".join(dict.fromkeys(repr(name) for one in PROVIDERS for name in platforms(one)))
        raise ConfigError(f"platform is {platform!r}; known are {known}")

    def knows(name: str) -> bool:
        return cache_facts(model, provider=name, platform=platform or platforms(name)[0]) is not None

    return next(filter(knows, at), at[0])


@functools.lru_cache(maxsize=256)
def _endpoint(provider: str | None, platform: str | None, model: str, form: str) -> Endpoint:
    if provider is None:
        provider = _provider(model, platform)
    if provider not in PROVIDERS:
        raise ConfigError(f"provider is {provider!r}; known are {', '.join(map(repr, PROVIDERS))}")
    known = platforms(provider)
    if platform is not None and platform not in known:
        raise ConfigError(f"{provider!r} has no platform {platform!r}; it has {', '.join(map(repr, known))}")
    place = platform or known[0]
    own = form == "system" and speaks(provider, place, "messages")
    return Endpoint(provider, place, "messages" if own else wire_of(provider, ("messages",) if form else ()))


def platform_named(platform: str | None, said_by: str = "platform", *, wire: Wire = "chat") -> tuple[str, str] | None:
    """The provider and platform that the user named; None for the host or the client's class to say. Raises
    `ConfigError`, with `said_by`, for a platform that speaks no such `wire`."""
    if platform is None:
        return None
    known = {name: one for one in reversed(PROVIDERS) for name in platforms(one) if speaks(one, name, wire)}
    if platform not in known:
        raise ConfigError(f"{said_by} is {platform!r}; known are {', '.join(map(repr, known))}")
    return known[platform], platform

"""Where requests go, as users name it."""

from __future__ import annotations

import functools
from types import NoneType

from agentaccel.errors import ConfigError
from agentaccel.facts import PROVIDERS, platforms
from agentaccel.providers import wire_of
from agentaccel.providers.values import is_object
from agentaccel.types import Endpoint, Request


def endpoint_of(request: Request, provider: str, platform: str | None) -> Endpoint:
    """Where `request` is to go, once everything said of it is known to make sense."""
    if provider not in PROVIDERS:
        raise ConfigError(f"provider is {provider!r}; known are {', '.join(map(repr, PROVIDERS))}")
    if platform is not None and platform not in (known := platforms(provider)):
        raise ConfigError(f"platform is {platform!r}; known are {', '.join(map(repr, known))}")
    if type(request) is not dict and not is_object(request):
        raise ConfigError(f"a request is the JSON body as a dict; got {type(request).__name__}")
    if type(request.get("messages")) is not list or "input" in request:
        _check(request)
    return _endpoint(provider, platform, "messages" in request)


def _check(request: Request) -> None:
    """Raise `ConfigError` for a conversation that is no list."""
    for name, kinds in _LISTS:
        if not isinstance(messages := request.get(name), kinds):
            raise ConfigError(f"{name} must be a list; got {type(messages).__name__}, which could be read only once")


_LISTS = (("messages", (list, tuple, NoneType)), ("input", (list, tuple, str, NoneType)))


@functools.lru_cache(maxsize=256)
def _endpoint(provider: str, platform: str | None, has_messages: bool) -> Endpoint:
    wire = wire_of(provider, ("messages",) if has_messages else ())
    return Endpoint(provider, platform or platforms(provider)[0], wire)


def platform_named(platform: str | None) -> tuple[str, str] | None:
    """The provider and platform that the user named; None for the host to say."""
    if platform is None:
        return None
    known = {name: provider for provider in ("compatible", "openai") for name in platforms(provider)}
    if platform not in known:
        raise ConfigError(f"platform is {platform!r}; known are {', '.join(map(repr, known))}")
    return known[platform], platform

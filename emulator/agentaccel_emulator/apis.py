"""Every API of the emulator, and where each is found: by its path, or by the platform that was chosen."""

from __future__ import annotations

from agentaccel.errors import ConfigError, UnknownModel
from agentaccel.facts import PROVIDERS, platforms, speaks, table
from agentaccel_emulator.behaviour import Behaviour
from agentaccel_emulator.calls import Api
from agentaccel_emulator.cloud_api import BedrockApi, VertexApi
from agentaccel_emulator.engine_messages_api import EngineMessagesApi
from agentaccel_emulator.gateway_api import GatewayApi
from agentaccel_emulator.messages_api import MessagesApi
from agentaccel_emulator.openai_api import Host, OpenAiApi

_BELOW_ANTHROPIC = ("bedrock", "foundry")
"""Platforms whose Messages API lies below /anthropic: Bedrock's newer endpoint, by default, and Microsoft Foundry."""


def apis_of(*, model: str | None, platform: str, behaviour: Behaviour) -> tuple[Api, ...]:
    """The APIs of an emulator, the Messages API first.

    `platform` says whose rules hold at the paths that several share: /v1/messages, /v1/chat/completions and
    /v1/responses. Raises ConfigError where there is no such platform, UnknownModel where nobody knows the model.
    """
    names = sorted({name for provider in PROVIDERS for name in platforms(provider)})
    if platform not in names:
        raise ConfigError(f"there is no platform {platform!r}: use one of {', '.join(names)}")
    claude = platform if platform in platforms("anthropic") else "api"
    below = claude if claude in _BELOW_ANTHROPIC else _BELOW_ANTHROPIC[0]
    places = {
        name: MessagesApi(
            model=model,
            platform=name,
            behaviour=behaviour,
            prefixes=(
                *(("",) if name == claude and not _speaks_messages(platform) else ()),
                *(("/anthropic",) if name == below else ()),
            ),
        )
        for name in {claude, below, "bedrock", "vertex"}
    }
    apis: tuple[Api, ...] = (
        places[claude],
        places[below],
        BedrockApi(places["bedrock"]),
        VertexApi(places["vertex"]),
        OpenAiApi(
            model=model,
            host=Host(provider="openai", platform="azure", prefixes=("/openai/v1", "/openai")),
            behaviour=behaviour,
        ),
        *_at_v1(model, platform, behaviour),
    )
    # A server of its own, and a gateway, serve whatever they are told to.
    if model is not None and platform not in platforms("compatible") and not any(api.serves(model) for api in apis):
        raise UnknownModel(model, "serve one that `docs/reference/provider-facts.md` lists, or all of them")
    return apis


def _at_v1(model: str | None, platform: str, behaviour: Behaviour) -> tuple[Api, ...]:
    """The gateway, and what is found at /v1: OpenAI, the gateway again, or a server that speaks OpenAI's API, and some
    of them Anthropic's as well, with the same cache."""
    if platform in platforms("compatible") and table("compatible")["platforms"][platform].get("upstream"):
        return (GatewayApi(model=model, behaviour=behaviour, prefixes=("/api/v1", "/v1")),)
    gateway = GatewayApi(model=model, behaviour=behaviour, prefixes=("/api/v1",))
    provider = "openai"
    if platform in platforms("openai"):
        place = platform
    elif platform in platforms("compatible"):
        provider, place = "compatible", platform
    else:
        place = "api"
    host = Host(provider=provider, platform=place, prefixes=("/v1",))
    engine = OpenAiApi(model=model, host=host, behaviour=behaviour)
    own = (EngineMessagesApi(engine),) if _speaks_messages(place) else ()
    return (*own, gateway, engine)


def _speaks_messages(platform: str) -> bool:
    """True for servers of OpenAI's wires that speak Anthropic's, too: /v1/messages is their own, and not Claude's."""
    return platform in platforms("compatible") and speaks("compatible", platform, "messages")

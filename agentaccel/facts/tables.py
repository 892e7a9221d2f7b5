"""The data files, parsed, and what their names mean: providers, platforms, and models as vendors spell them."""

from __future__ import annotations

import functools
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from fnmatch import fnmatch, fnmatchcase
from importlib import resources
from typing import Any

from agentaccel.facts.nouns import Wire

PROVIDERS = ("anthropic", "openai", "compatible")
"""Providers with a data file of their own."""

_DATED = re.compile(r"[-@]\d{8}$|-\d{4}-\d{2}-\d{2}$|-latest$")
_ARN = r"arn:aws[a-z-]*:bedrock:[a-z0-9-]*:\d*:(?:foundation-model|inference-profile)/"
_PLATFORM_PREFIX = re.compile(
    rf"^(?:{_ARN})?(?:[a-z_-]+/)*(?:(?:[a-z]{{2,8}}(?:-[a-z]{{2,6}})?\.)?(?:anthropic|openai)\.|ft:)?"
)
"""Where on Bedrock a model is, who sells it, and from which regions it is served."""
_PLATFORM_SUFFIX = re.compile(r"(?:-v\d+(?::[a-z0-9]+)*|@default|\[1m\]|:[a-z0-9:_-]*)$")


_FILES: Mapping[str, str] = {
    file.name.removesuffix(".toml"): file.read_text(encoding="utf-8")
    for file in resources.files("agentaccel.facts").iterdir()
    if file.name.endswith(".toml")
}
"""The data files, read with this module: an event loop that asks for a table later does not wait for the disk."""


@functools.cache
def table(name: str) -> Mapping[str, Any]:
    """The data file `name`, parsed once per process; treat it as immutable."""
    return tomllib.loads(_FILES[name])


@functools.lru_cache(maxsize=4096)
def plain_name(model: str) -> str:
    """`model` without the prefixes, dates and versions that platforms add.

    >>> plain_name("us.anthropic.claude-sonnet-4-5-20250929-v1:0"), plain_name("claude-haiku-5.5@20261001")
    ('claude-sonnet-4-5', 'claude-haiku-5-5')
    >>> plain_name("arn:aws:bedrock:us-east-1:123456789012:inference-profile/us-gov.anthropic.claude-opus-5-v1:0")
    'claude-opus-5'
    """
    name = _PLATFORM_PREFIX.sub("", model.strip().lower())
    name = _PLATFORM_SUFFIX.sub("", name)
    return _DATED.sub("", name).replace(".", "-")


def is_sold_everywhere(model: str) -> bool:
    """True if a platform's name for a model says that any region may serve it, where those of one region cost more.

    >>> is_sold_everywhere("global.anthropic.claude-opus-5"), is_sold_everywhere("us.anthropic.claude-opus-5")
    (True, False)
    """
    return "global." in model


def sold_as(model: str, asked: str) -> str:
    """`model` with what stands before `asked`: where it is sold, and by whom.

    >>> sold_as("claude-haiku-4-5", "global.anthropic.claude-opus-5"), sold_as("claude-haiku-4-5", "claude-opus-5")
    ('global.anthropic.claude-haiku-4-5', 'claude-haiku-4-5')
    """
    own, of_asked = (_PLATFORM_PREFIX.match(name.strip().lower()) for name in (model, asked))
    return model if of_asked is None or (own is not None and own[0]) else f"{of_asked[0]}{model}"


def family_of(data: Mapping[str, Any], name: str) -> Mapping[str, Any] | None:
    """The figures that a data file has for models that begin like `name`, a plain one, and are not listed.

    A name goes on behind its family's at a word: gpt-60 is no gpt-6.
    """
    if any(fnmatchcase(name, pattern) for pattern in data.get("no_family", {}).get("names", ())):
        return None
    for row in data["families"]:
        prefix = plain_name(row["prefix"])
        if name.startswith(prefix) and (prefix[-1:] in ("", "-") or name[len(prefix) :][:1] in ("", "-")):
            found: Mapping[str, Any] = row
            return found
    return None


@functools.cache
def wires(provider: str) -> tuple[Wire, ...]:
    """The forms of request that the models of `provider` take, the usual one first."""
    return tuple(table(provider)["wires"])


@functools.cache
def speaks(provider: str, platform: str, wire: Wire) -> bool:
    """True if requests of this form are taken at `platform`: the servers that speak OpenAI's wires do not all speak
    Anthropic's.

    >>> speaks("compatible", "vllm", "messages"), speaks("compatible", "openrouter", "messages")
    (True, False)
    """
    data = table(provider)
    return wire in data["wires"] and (
        wire != "messages" or provider == "anthropic" or wire in data["platforms"][platform]
    )


@functools.cache
def platforms(provider: str) -> tuple[str, ...]:
    """The platforms that serve the models of `provider`."""
    return tuple(table(provider)["platforms"])


def lifetimes(*providers: str) -> tuple[str, ...]:
    """The labels of all lifetimes that one of `providers` lets a request choose; of any, where none is named.

    >>> lifetimes("anthropic")
    ('5m', '1h')
    """
    places = [
        place
        for name in providers or PROVIDERS
        for place in (table(name)["rules"], *table(name).get("generations", {}).values())
    ]
    chosen = [place for place in places if place.get("mark")]
    return tuple(dict.fromkeys(ttl["label"] for place in chosen for ttl in place["ttls"]))


def price_providers(provider: str, platform: str) -> tuple[str, ...]:
    """Under which names the price tables list what is sold there, the platform's own first; a provider that is not ours
    has its own name.

    >>> price_providers("anthropic", "bedrock"), price_providers("anthropic", "api")
    (('aws', 'anthropic'), ('anthropic',))
    """
    if provider not in PROVIDERS:
        return (provider,)
    data = table(provider)
    names = (data["platforms"].get(platform, {}).get("price_provider"), data["provider"].get("price_provider"))
    return tuple(dict.fromkeys(str(name) for name in names if name))


def price_term(provider: str, platform: str, model: str, name: str, value: str) -> Mapping[str, Any] | None:
    """What is known of how a term changes the price of `model`, a plain name; None where nothing is.

    >>> price_term("anthropic", "api", "claude-sonnet-4-6", "inference_geo", "us")["multiple"]
    1.1
    """
    for row in table(provider).get("terms", ()) if provider in PROVIDERS else ():
        if row["name"] != name or platform not in row.get("platforms", (platform,)):
            continue
        if not any(fnmatchcase(value, one) for one in row["values"]):
            continue
        if not any(fnmatchcase(model, plain_name(one)) for one in row.get("only", ("*",))):
            continue
        usual = any(fnmatchcase(model, plain_name(one)) for one in row.get("usual", ()))
        return {**row, "multiple": 1.0} if usual else row
    return None


def usage_asked(provider: str, platform: str) -> bool:
    """True if a chat's stream is known to report usage only where `stream_options.include_usage` asks for it."""
    data = table(provider)
    return bool({**data["rules"], **data["platforms"][platform]}.get("usage_in_streams"))


def joinable(provider: str, platform: str, wire: Wire) -> bool:
    """True if what a stream tells is known to add up to the reply of a call that is not streamed.

    >>> joinable("anthropic", "api", "messages"), joinable("anthropic", "bedrock", "messages")
    (True, False)
    """
    return provider in PROVIDERS and wire in table(provider)["platforms"].get(platform, {}).get("joinable", ())


def client_platform(class_name: str) -> tuple[str, str] | None:
    """The provider and platform of a vendor SDK's client class, by the name of the class."""
    for provider in PROVIDERS:
        for platform, row in table(provider)["platforms"].items():
            if class_name in row.get("clients", ()):
                return provider, platform
    return None


def priced_region(provider: str, platform: str, host: str, named: str = "") -> str:
    """The region in which requests have to be answered, told by the host or by what the client `named`, where that has
    a price of its own; empty elsewhere.

    >>> priced_region("openai", "api", "eu.api.openai.com"), priced_region("openai", "api", "api.openai.com")
    ('eu', '')
    >>> priced_region("anthropic", "vertex", "", "us-east5"), priced_region("anthropic", "vertex", "", "global")
    ('us-east5', '')
    """
    place = table(provider)["platforms"][platform]
    if "regional_hosts" in place and fnmatch(host.lower(), place["regional_hosts"]):
        return host.lower().partition(".")[0]
    return named if "everywhere" in place and named != place["everywhere"] else ""


@functools.lru_cache(maxsize=1024)
def platform_of_name(provider: str, model: str) -> str:
    """The platform of `provider` that alone sells a model under this name; its first where the name does not tell.

    >>> platform_of_name("anthropic", "us.anthropic.claude-sonnet-4-6"), platform_of_name("anthropic", "claude-opus-5")
    ('bedrock', 'api')
    """
    for platform, row in table(provider)["platforms"].items():
        if any(fnmatchcase(model, pattern) for pattern in row.get("names", ())):
            return str(platform)
    return platforms(provider)[0]


def host_platform(host: str) -> tuple[str, str]:
    """The provider and platform that answer at `host`; a server that is not known for one that no data file lists.

    >>> host_platform("api.openai.com"), host_platform("mine.openai.azure.com"), host_platform("localhost")
    (('openai', 'api'), ('openai', 'azure'), ('compatible', 'server'))
    """
    host = host.lower()
    for provider in PROVIDERS:
        for platform, row in table(provider)["platforms"].items():
            if any(fnmatch(host, pattern) for pattern in row.get("hosts", ())):
                return provider, platform
    return "compatible", "server"


# --- Emulators that this process serves: who answers at their addresses, which no data file can list ------------------

Server = tuple[str, int]
"""Host and port."""
_SERVED: dict[Server, Sequence[tuple[str, tuple[str, str]]]] = {}


@contextmanager
def served_at(server: Server, places: Sequence[tuple[str, tuple[str, str]]]) -> Iterator[None]:
    """While the block lasts, `places` answer at `server`: beginnings of paths, each with its provider and platform."""
    _SERVED[server] = sorted(places, key=lambda place: len(place[0]), reverse=True)
    try:
        yield
    finally:
        _SERVED.pop(server, None)


def local_platform(server: Server | None, path: str) -> tuple[str, str] | None:
    """The provider and platform that this process itself serves there; None where it serves nothing."""
    if server is None:
        return None
    host, port = server
    places = _SERVED.get(("127.0.0.1" if host == "localhost" else host, port), ())
    return next((place for prefix, place in places if path.startswith(prefix + "/")), None)

"""What is known about providers, models and prices: data files with a source and a date, and the one loader.

A name is resolved in steps: the user's alias, the exact model, the model without its platform's prefixes and dates,
the family's most cautious figures, nothing. *Nothing* means that no marker is placed, never that a guess is made.

>>> facts = cache_facts("claude-sonnet-5")
>>> facts.min_tokens, facts.max_markers, [t.label for t in facts.ttls]
(1024, 4, ['5m', '1h'])
>>> cache_facts("us.anthropic.claude-sonnet-4-5-20250929-v1:0", platform="bedrock").positions
'blocks'
>>> cache_facts("claude-sonnet-9").family, cache_facts("my-deployment") is None
(True, True)
>>> [cache_facts(model, provider="openai", wire="chat").physics for model in ("gpt-6-sol", "gpt-4o")]
['breakpoints', 'automatic']
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from agentaccel.facts.nouns import LEVELS, CacheFacts, Citation, Level, Physics, Priors, Ttl, Wire
from agentaccel.facts.tables import (
    PROVIDERS,
    client_platform,
    family_of,
    host_platform,
    is_sold_everywhere,
    joinable,
    lifetimes,
    local_platform,
    plain_name,
    platform_of_name,
    platforms,
    price_providers,
    price_term,
    priced_region,
    served_at,
    sold_as,
    speaks,
    table,
    usage_asked,
    wires,
)

__all__ = [
    "LEVELS",
    "PROVIDERS",
    "CacheFacts",
    "Citation",
    "Level",
    "Physics",
    "Priors",
    "Ttl",
    "Wire",
    "cache_facts",
    "client_platform",
    "host_platform",
    "is_sold_everywhere",
    "joinable",
    "known_model",
    "known_place",
    "lifetimes",
    "local_platform",
    "plain_name",
    "platform_of_name",
    "platforms",
    "price_providers",
    "price_term",
    "priced_region",
    "priors",
    "served_at",
    "sold_as",
    "speaks",
    "table",
    "usage_asked",
    "wires",
]


def cache_facts(
    model: str,
    *,
    provider: str = "anthropic",
    platform: str = "api",
    wire: Wire | None = None,
    aliases: Mapping[str, str] | None = None,
) -> CacheFacts | None:
    """The cache facts for `model`, or None where nothing is known about it nor about its family.

    `wire` is the form of the request, by default the provider's first. `aliases` maps the user's own names
    (deployments, gateways) to known ones. Raises KeyError for a provider or platform without a data file: both are ours
    to name, never the user's.
    """
    if aliases:
        model = aliases.get(model, model)
    return _resolve(model, provider, platform, wire or wires(provider)[0])


def known_model(model: str) -> bool:
    """Whether `model`, or its family, stands in some data file."""
    named = [provider for provider in PROVIDERS if "models" in table(provider)]
    return any(cache_facts(model, provider=provider) is not None for provider in named)


def known_place(provider: str, platform: str) -> bool:
    """Whether anything is believed of caches at `platform`, whatever its models are called."""
    known: bool = table(provider)["platforms"][platform].get("known", True)
    return known


@functools.lru_cache(maxsize=256)
def _resolve(model: str, provider: str, platform: str, wire: Wire) -> CacheFacts | None:
    data = table(provider)
    place = data["platforms"][platform]
    if not place.get("known", True):
        return None
    if place.get("upstream") and (behind := _upstream(model, provider, platform, wire)) is not None:
        return behind
    name = plain_name(model)
    found = _row(data, name)
    if found is None:
        return None
    row, family = found
    generation = data["generations"][row["generation"]] if "generation" in row else {}
    form = data["wires"][wire]
    figures = {**_RULES, **data["rules"], **generation, **form, **place, **place.get(wire, {}), **row}
    ttls = [
        ttl for ttl in figures["ttls"] if ttl["label"] in form.get("labels", (ttl["label"],)) or not figures["mark"]
    ]
    refused = name in place.get("top_level_refused", ())
    return CacheFacts(
        provider=provider,
        platform=platform,
        wire=wire,
        model=row["prefix"] if family else name,
        family=family,
        **{name: figures[name] for name in _AS_GIVEN},
        retentions=tuple(figures["retentions"]),
        ttls=tuple(Ttl(label=ttl["label"], seconds=float(ttl["seconds"]), write=ttl["write"]) for ttl in ttls),
        top_level_marker=figures["top_level_marker"] and not refused,
        operator_message="system"
        if figures["system_messages"] and row.get("takes_system")
        else figures["operator_message"],
        parameters={name: tuple(levels) for name, levels in data["parameters"].items()},
        markable_tools=frozenset(data["markable"]["tools"]),
        markable_blocks=frozenset(figures["blocks"] if figures["mark"] else ()),
        system_tools=frozenset(data["system_tools"]["types"]),
        bytes_per_token=data["tokens"]["bytes_per_token"],
        image_tokens=data["tokens"]["image"],
        pdf_bytes_per_token=data["tokens"]["pdf_bytes_per_token"],
        source=Citation(**data["sources"][figures["source"]]),
    )


def _row(data: Mapping[str, Any], name: str) -> tuple[Mapping[str, Any], bool] | None:
    """The model's figures, or its family's, and whether they are the family's."""
    for row in data.get("models", ()):
        if name in map(plain_name, row["match"]):
            return row, False
    family = family_of(data, name)
    return None if family is None else (family, True)


_AS_GIVEN = (
    "physics",
    "assured",
    "controls",
    "mark",
    "keeps",
    "implicit_off",
    "key",
    "key_field",
    "key_rate",
    "key_front",
    "session_field",
    "salt_field",
    "self_hosted",
    "slots",
    "step",
    "report_step",
    "min_tokens",
    "max_markers",
    "ages",
    "read",
    "lookback",
    "positions",
    "lookback_planned",
    "diagnostics",
    "strips_thinking",
    "allowed_tools",
    "reads_count_to_rate_limit",
)
"""Figures that the facts take over as the data file has them."""

_RULES: Mapping[str, Any] = {
    "assured": True,
    "controls": True,
    "mark": "",
    "keeps": "",
    "implicit_off": {},
    "ages": "entries",
    "key": "",
    "key_field": "prompt_cache_key",
    "key_rate": 0,
    "key_front": 0,
    "session_field": "",
    "salt_field": "",
    "self_hosted": False,
    "slots": False,
    "retentions": (),
    "step": 1,
    "report_step": 1,
    "strips_thinking": False,
    "operator_message": "",
    "system_messages": False,
    "allowed_tools": False,
}
"""What holds where a data file says nothing."""


def _upstream(model: str, provider: str, platform: str, wire: Wire) -> CacheFacts | None:
    """The facts of a gateway that hands requests on to the vendor that a model's name begins with.

    None where that is nobody's whose rules are known. Its markers are the upstream's where the gateway documents that
    it passes them on, and stand on content alone.
    """
    place = table(provider)["platforms"][platform]
    vendor, _, name = model.partition("/")
    if not name or vendor not in table(provider)["upstreams"]:
        return None
    behind = table(provider)["upstreams"][vendor]
    facts = _resolve(name, behind["provider"], behind["platform"], behind["wire"])
    if facts is None:
        return None
    passes = behind.get("markers", False) and wire == "chat"
    return replace(
        facts,
        provider=provider,
        platform=platform,
        wire=wire,
        controls=passes,
        keeps="",
        mark=facts.mark if passes else "",
        key="",
        session_field=place.get("session_field", ""),
        operator_message="",
        allowed_tools=False,
        positions="blocks",
        top_level_marker=facts.physics == "breakpoints",
        diagnostics=False,
        parameters={**facts.parameters, **{n: tuple(v) for n, v in table(provider)["parameters"].items()}},
        markable_tools=frozenset(),
        markable_blocks=frozenset(behind["blocks"]) if passes else frozenset(),
    )


@functools.cache
def priors() -> Priors:
    """The planner's stated priors."""
    data: dict[str, Any] = {key: value for key, value in table("priors").items() if key != "date"}
    fields: dict[str, Any] = {key: tuple(value) if isinstance(value, list) else value for key, value in data.items()}
    fields["place_strengths"] = tuple((strength, odds) for strength, odds in data["place_strengths"])
    return Priors(**fields)

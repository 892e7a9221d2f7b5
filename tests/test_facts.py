"""Names of models: what platforms make of them, and which of them somebody has figures for."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from datetime import date
from importlib import resources
from typing import Any

import pytest

from agentaccel.facts import PROVIDERS, cache_facts, plain_name, table, usage_asked

SONNET = "anthropic.claude-sonnet-4-5-20250929-v1:0"


@pytest.mark.parametrize(
    "name",
    [
        SONNET,
        f"us.{SONNET}",
        f"us-gov.{SONNET}",
        f"apac.{SONNET}",
        f"global.{SONNET}",
        f"{SONNET}:200k",
        f"bedrock/us.{SONNET}",
        f"arn:aws:bedrock:us-east-1::foundation-model/{SONNET}",
        f"arn:aws:bedrock:us-east-1:123456789012:inference-profile/us.{SONNET}",
        f"arn:aws-us-gov:bedrock:us-gov-west-1:123456789012:inference-profile/us-gov.{SONNET}",
        "publishers/anthropic/models/claude-sonnet-4-5@20250929",
        "claude-sonnet-4-5@20250929",
        "anthropic/claude-sonnet-4.5",
    ],
)
def test_a_model_is_known_under_every_name_that_platforms_give_it(name: str) -> None:
    """Mandated by the platforms: regions, resource names, versions and dates say nothing of the model."""
    assert plain_name(name) == "claude-sonnet-4-5"
    facts = cache_facts(name, platform="bedrock")
    assert facts is not None
    assert not facts.family


def test_a_profile_of_ones_own_names_no_model() -> None:
    """Mandated by Bedrock: what stands behind it is not in its name; an alias says it."""
    name = "arn:aws:bedrock:us-east-1:123456789012:application-inference-profile/a1b2c3"
    assert cache_facts(name, platform="bedrock") is None
    assert cache_facts(name, platform="bedrock", aliases={name: "claude-sonnet-5"}) is not None


@pytest.mark.parametrize(
    ("name", "family"),
    [
        ("claude-sonnet-9", "claude-"),
        ("claude-10-opus", "claude-"),
        ("gpt-6-terra", "gpt-6"),
        ("gpt-6.2-sol", "gpt-6"),
        ("gpt-5.6-cyber", "gpt-5.6"),
        ("gpt-5.3-codex", "gpt-5"),
        ("gpt-4o-nano", "gpt-4o"),
        ("o3-deep-research", "o3"),
    ],
)
def test_a_model_that_is_not_listed_gets_the_figures_of_its_family(name: str, family: str) -> None:
    """Chosen by us: the most cautious ones."""
    facts = cache_facts(name, provider="anthropic" if name.startswith("claude") else "openai")
    assert facts is not None
    assert (facts.model, facts.family) == (family, True)


@pytest.mark.parametrize("name", ["claude-1", "claude-2", "claude-2.1", "anthropic.claude-v2:1", "claude-instant-1.2"])
def test_models_from_before_the_cache_are_given_no_marker(name: str) -> None:
    """Mandated by the provider: there is no price at which they would read."""
    assert cache_facts(name) is None


@pytest.mark.parametrize(
    "name",
    [
        *("gpt-60", "gpt-5.60", "gpt-5.7", "gpt-4", "gpt-4-0613", "gpt-4-turbo", "gpt-3.5-turbo", "o10", "gpt-4.10"),
        *("gpt-image-1", "gpt-5-image", "gpt-4o-audio-preview-2024-12-17", "gpt-4o-realtime-preview"),
        *("gpt-4o-mini-tts", "gpt-4o-transcribe", "gpt-6-embedding", "gpt-6-moderation"),
    ],
)
def test_what_only_begins_like_a_family_is_unknown(name: str) -> None:
    """Chosen by us: another version, a model without a cache or one that does not chat is not guessed at."""
    assert cache_facts(name, provider="openai") is None


def test_a_platform_has_a_read_price_of_its_own() -> None:
    """Mandated by the vendors, where the price tables have no better figure."""
    found = {name: cache_facts("m", provider="compatible", platform=name) for name in ("groq", "qwen", "mistral")}
    assert {name: facts and facts.read for name, facts in found.items()} == {"groq": 0.5, "qwen": 0.2, "mistral": 0.1}


def test_a_stream_is_asked_for_its_usage_only_where_it_is_known_to_need_that() -> None:
    """A gateway may send its usage unasked, and what we keep back then was the caller's."""
    asked = {platform for platform in table("compatible")["platforms"] if usage_asked("compatible", platform)}
    # As their sources, Ollama's page on the OpenAI API, and Alibaba's have it; nobody here has read TensorRT-LLM's.
    assert asked == {"vllm", "sglang", "llamacpp", "ollama", "qwen"}
    assert (usage_asked("openai", "api"), usage_asked("openai", "azure")) == (True, False)


Json = dict[str, Any]
NAMES = ("sources", "provider")
"""Tables of a provider's file that state nothing of anybody."""


def rows(name: str, value: Any) -> Iterator[tuple[str, Json]]:
    """All rows of facts in `value`, by where they stand: tables and members of lists of tables. A table of nothing but
    tables is none itself; what stands in a row is a part of it, but for lists of tables."""
    if isinstance(value, list):
        for index, one in enumerate(value):
            yield from rows(f"{name}[{index}]", one) if isinstance(one, dict) else ()
    elif isinstance(value, dict) and value and all(isinstance(one, dict) for one in value.values()):
        for inner, one in value.items():
            yield from rows(f"{name}.{inner}", one)
    elif isinstance(value, dict):
        yield name, value
        for inner, one in value.items():
            yield from rows(f"{name}.{inner}", one) if isinstance(one, list) else ()


def unsourced(data: Json) -> list[str]:
    """The rows of a provider's data file that name no source, or one that is not listed with its day."""
    listed = {
        name for name, one in data["sources"].items() if one["what"] and one["where"] and type(one["date"]) is date
    }
    found = {
        where: row.get("source")
        for name, value in data.items()
        if name not in (*NAMES, "parameters")
        for where, row in rows(name, value)
    }
    found["parameters"] = data["parameters_source"]
    return [where for where, source in found.items() if source not in listed]


@pytest.mark.parametrize("provider", PROVIDERS)
def test_every_fact_of_a_provider_has_a_source_and_a_date(provider: str) -> None:
    """Chosen by us: a figure of which nobody knows where it stands is a guess."""
    assert unsourced(dict(table(provider))) == []


def test_a_row_without_a_source_is_found_wherever_it_stands() -> None:
    """The twin: six places, one with a source that is not listed."""
    listed = {"S": {"what": "w", "where": "h", "date": date(2026, 11, 27)}}
    sourced, bare = {"figure": 1, "source": "S"}, {"figure": 1}
    data = {
        "sources": listed, "provider": {"id": "p"}, "parameters": {"model": []}, "parameters_source": "S",
        "rules": {**sourced, "ttls": [sourced, bare]}, "platforms": {"a": sourced, "b": bare}, "terms": [bare],
        "tokens": bare, "models": [{"figure": 1, "source": "X"}],
    }  # fmt: skip
    assert unsourced(data) == ["rules.ttls[1]", "platforms.b", "terms[0]", "tokens", "models[0]"]
    assert unsourced({**data, "parameters_source": "X"})[-1] == "parameters"


def test_every_other_data_file_has_a_date() -> None:
    """What is stated and not measured stands in files that say so, with the day on which it was stated."""
    files = {file.name for file in resources.files("agentaccel.facts").iterdir() if file.name.endswith(".toml")}
    others = {name.removesuffix(".toml") for name in files} - {*PROVIDERS}
    assert others
    assert {name: type(table(name)["date"]) for name in others} == dict.fromkeys(others, date)


def unused(text: str) -> set[str]:
    """Sources that a data file lists and no row of it names, be it in a remark."""
    listed = {name: f"\n{name} = {{" for name in tomllib.loads(text)["sources"]}
    rest = "\n".join(line for line in text.splitlines() if not f"\n{line}".startswith(tuple(listed.values())))
    return {name for name in listed if not re.search(rf"\b{name}\b", rest)}


@pytest.mark.parametrize("name", ["engines", "launch", "shapes", "gpus", "drafting"])
def test_every_source_of_what_is_known_of_engines_is_dated_and_used(name: str) -> None:
    """What servers say, how they are started, what models keep, and what GPUs hold: each lists what it rests on, and no
    more."""
    assert all(type(one["date"]) is date for one in table(name)["sources"].values())
    assert unused((resources.files("agentaccel.facts") / f"{name}.toml").read_text(encoding="utf-8")) == set()


def test_a_source_that_no_row_names_is_found() -> None:
    """The twin: the second of three."""
    sources = "".join(f'{name} = {{ what = "S2" }}\n' for name in ("S1", "S2", "S3"))
    assert unused(f'[sources]\n{sources}[row]\nsource = "S1"\nother = 1  # S3\n') == {"S2"}

"""What breaks a cached prefix: the invalidation table of providers.md 1.4, row by row."""

from __future__ import annotations

import pytest
from emulator_talk import MODEL, ask, assistant, calls, emulator, marked, request, results, text, user

from agentaccel.facts import cache_facts
from agentaccel_emulator import anthropic_levels

TOOL = {"name": "f", "description": "x" * 1200, "input_schema": {"type": "object"}}
SEARCH = {"type": "web_search_20260318", "name": "web_search"}
IMAGE = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "aaaa"}}
CITED = {"type": "document", "source": {"type": "text", "data": "d", "media_type": "text/plain"}}

NOTHING, TOOLS, SYSTEM, ALL = "nothing", "tools", "system", "all"


def prompt(**changes):
    """A request with a marker at the end of each level, and `changes` to its fields."""
    base = request(
        text(900, "hi", "5m"),
        tools=[marked(TOOL)],
        system=[text(1000, "you are", "5m")],
        output_config={},
    )
    return {**base, **changes}


def survives(first, second, **headers):
    """The longest level of `first` that `second` reads."""
    provider = emulator()
    ends = [sum(ask(emulator(), level).usage[:3]) for level in (_only_tools(first), _only_system(first), first)]
    ask(provider, first, 0)
    read = ask(provider, second, 10, **headers).read
    return {0: NOTHING, ends[0]: TOOLS, ends[1]: SYSTEM, ends[2]: ALL}[read]


def _only_tools(body):
    return {**body, "system": "", "messages": [user(text(30))]}


def _only_system(body):
    return {**body, "messages": [user(text(30))]}


@pytest.mark.parametrize(
    ("change", "kept"),
    [
        ({"max_tokens": 50}, ALL),
        ({"stop_sequences": ["x"]}, ALL),
        ({"metadata": {"user_id": "u"}}, ALL),
        ({"service_tier": "auto"}, ALL),
        ({"tool_choice": {"type": "auto"}}, ALL),
        ({"tool_choice": {"type": "any"}}, SYSTEM),
        ({"tool_choice": {"type": "auto", "disable_parallel_tool_use": True}}, SYSTEM),
        ({"thinking": {"type": "adaptive"}}, SYSTEM),
        ({"output_config": {"effort": "low"}}, SYSTEM),
        ({"output_config": {"effort": "high"}}, ALL),
        ({"output_config": {"format": {"type": "json_schema", "schema": {}}}}, TOOLS),
        ({"speed": "fast"}, TOOLS),
        ({"speed": "standard"}, ALL),
        ({"system": [text(1000, "you were", "5m")]}, TOOLS),
        ({"tools": [marked(TOOL), SEARCH]}, TOOLS),
        ({"tools": [marked(TOOL), {"name": "g", "input_schema": {"type": "object"}}]}, TOOLS),
        ({"tools": [{"name": "g", "input_schema": {"type": "object"}}, marked(TOOL)]}, NOTHING),
        ({"tools": [marked({**TOOL, "description": "y" * 1200})]}, NOTHING),
        ({"inference_geo": "us"}, NOTHING),
        ({"model": "claude-sonnet-4-6"}, NOTHING),
        ({"mcp_servers": []}, NOTHING),
        ({"container": "c"}, SYSTEM),
        ({"context_management": {"edits": []}}, SYSTEM),
        ({"tools": [marked(TOOL), {**TOOL, "name": "late", "defer_loading": True}]}, ALL),
    ],
    ids=str,
)
def test_a_change_of_a_field_breaks_its_level_and_the_later_ones(change, kept):
    """Mandated, except that defaults of tool_choice and speed render as if left out, which is inferred."""
    assert survives(prompt(), prompt(**change)) == kept


def test_an_image_anywhere_breaks_the_messages():
    """Mandated: presence or absence of images."""
    assert survives(prompt(), prompt(messages=[user(text(900, "hi", "5m"), IMAGE)])) == SYSTEM


def test_a_second_image_breaks_nothing():
    """Mandated: it is the presence of images that counts."""
    one, two = (prompt(messages=[user(text(900, "hi", "5m"), *[IMAGE] * n)]) for n in (1, 2))
    assert survives(one, two) == ALL


def test_an_image_inside_a_tool_result_counts():
    """Mandated: "anywhere"."""
    result = {"type": "tool_result", "tool_use_id": "t0", "content": [IMAGE]}
    later = [user(text(900, "hi", "5m")), assistant(*calls(1)), user(result)]
    assert survives(prompt(), prompt(messages=later)) == SYSTEM


def test_switching_citations_on_breaks_the_system_level():
    """Mandated."""
    plain, cited = (
        prompt(messages=[user(text(900, "hi", "5m"), {**CITED, "citations": {"enabled": on}})]) for on in (False, True)
    )
    assert survives(plain, cited) == TOOLS


def test_search_tools_are_rendered_into_the_system_prompt():
    """Mandated: a marked search tool is part of the system level, so a change of speed loses it."""
    provider = emulator()
    body = request(text(30), tools=[TOOL, marked({**SEARCH, "allowed_domains": ["x" * 1500]})])
    written = ask(provider, body, 0).usage[1]
    assert ask(provider, body, 10).read == written
    assert ask(provider, {**body, "speed": "fast"}, 20).read == 0


def test_beta_features_break_everything():
    """Chosen: beta headers affect the prompt, and where is not published."""
    assert survives(prompt(), prompt(), anthropic_beta="some-feature-2026-01-01") == NOTHING


def test_a_deferred_tool_is_outside_the_prefix():
    """Mandated: it is neither hashed nor counted."""
    deferred = {**TOOL, "name": "late", "defer_loading": True}
    assert ask(emulator(), prompt(tools=[marked(TOOL), deferred])).usage == ask(emulator(), prompt()).usage


def test_appending_keeps_everything():
    """Mandated: the point of the cache."""
    more = [user(text(900, "hi", "5m")), assistant(*calls(1)), user(*results(1))]
    assert survives(prompt(), prompt(messages=more)) == ALL


def test_a_system_message_that_ends_with_the_next_user_message_is_no_longer_shown():
    """Chosen where the documentation is silent: what follows the cleared message is another prefix."""
    provider = emulator()
    fleeting = {"role": "system", "content": [text(100, "now")], "clear_at": "next_user_message"}
    opening = [user(text(1500, "hi", "5m")), fleeting, assistant(*calls(1))]
    model = "claude-opus-5"
    first = request(messages=[*opening[:2], assistant(text(40, "a", "5m"))], model=model)
    assert ask(provider, first, 0).usage[1] == 1640
    later = request(messages=[*opening[:2], assistant(text(40, "a")), user(text(50, "b", "5m"))], model=model)
    assert ask(provider, later, 10).usage == (1500, 90, 0, 0)


def test_the_emulators_own_table_agrees_with_the_facts():
    """The table is written twice on purpose; where the two differ, one of them is wrong."""
    facts = cache_facts(MODEL)
    for name in anthropic_levels.SYSTEM_PARAMETERS:
        assert facts.breaks(name) == ("system", "messages"), name
    for name in anthropic_levels.MESSAGE_PARAMETERS:
        assert facts.breaks(name) == ("messages",), name
    for name in anthropic_levels.UNRENDERED:
        assert facts.breaks(name) == (), name
    listed = anthropic_levels.SYSTEM_PARAMETERS | anthropic_levels.MESSAGE_PARAMETERS | anthropic_levels.UNRENDERED
    for name in set(facts.parameters) - listed:
        assert facts.breaks(name) == ("tools", "system", "messages") or "." in name, name

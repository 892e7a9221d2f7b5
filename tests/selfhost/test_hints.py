"""One object of hints, as each engine takes it; and which field a refusal names, as each engine says it."""

from __future__ import annotations

import json
from hashlib import blake2b
from typing import Any

import pytest

from agentaccel.errors import ConfigError
from agentaccel.selfhost import hints as module
from agentaccel.selfhost.hints import Hints, Rendered, added, names_session, refused, rendered, without
from agentaccel.selfhost.probe import Server
from agentaccel.selfhost.tables import dialects, row
from tests.selfhost.captured import case

KEY = b"a key of the store"


def name(*parts: str) -> str:
    """By hand: keyed BLAKE2b of 16 bytes over the parts, as 32 hexadecimal digits."""
    return blake2b("\0".join(parts).encode(), digest_size=16, key=KEY).hexdigest()


ALL = Hints(
    session="ticket-1",
    parent="ticket-0",
    final=True,
    tenant="acme",
    priority=2,
    expected_output=300,
    ttft_target=0.5,
    tpot_target=0.02,
    next_turn_likely=True,
    steps_to_execution=3,
)
SESSION, PARENT, TENANT = name("session", "ticket-1"), name("session", "ticket-0"), name("tenant", "acme")


@pytest.mark.parametrize(
    ("dialect", "fields", "headers"),
    [
        ("vllm", {"cache_salt": TENANT, "priority": -2}, {"X-Session-ID": SESSION}),
        ("sglang", {"cache_salt": TENANT, "priority": 2}, {"x-smg-routing-key": SESSION}),
        (
            "dynamo",
            {
                "nvext": {
                    "cache_salt": TENANT,
                    "agent_hints": {"priority": 2, "osl": 300, "speculative_prefill": True},
                    "router": {"ttft_target": 500.0, "itl_target": 20.0},
                }
            },
            {
                "X-Dynamo-Session-ID": SESSION,
                "X-Dynamo-Parent-Session-ID": PARENT,
                "X-Dynamo-Session-Final": "true",
            },
        ),
        ("smg", {}, {"x-smg-routing-key": SESSION}),
        (
            "llm-d",
            {"cache_salt": TENANT},
            {"x-llm-d-inference-fairness-id": TENANT, "x-llm-d-slo-ttft-ms": "500", "x-llm-d-slo-tpot-ms": "20"},
        ),
        ("production-stack", {"cache_salt": TENANT, "priority": -2}, {"x-session-id": SESSION}),
        ("ray", {}, {"x-session-id": SESSION}),
        ("llamacpp", {}, {}),
        ("trtllm", {}, {}),
        ("transformers", {}, {}),
        ("unknown", {}, {}),
    ],
)
def test_each_engine_gets_its_own_fields_and_headers(
    dialect: str, fields: dict[str, Any], headers: dict[str, str]
) -> None:
    """By the table of the engines' own fields: higher is more urgent with us; vLLM means lower, the others higher."""
    sent = rendered(ALL, Server(dialect=dialect), KEY)
    assert (sent.fields, sent.headers) == (fields, headers)
    assert sent.reasons.keys() == {*fields, *headers}
    assert len(sent.unsent) == {
        **{"dynamo": 1, "vllm": 7, "sglang": 7, "smg": 9, "llm-d": 7, "production-stack": 7, "ray": 9},
    }.get(dialect, 10)


def test_a_hint_that_is_not_sent_is_said() -> None:
    """Plans explain themselves."""
    reasons = rendered(Hints(tenant="acme"), Server(dialect="llamacpp"), KEY).unsent
    assert reasons["tenant"] == "tenant is not sent: llama.cpp server has no isolation: one server for each tenant"
    reasons = rendered(Hints(priority=1), Server(), KEY).unsent
    assert reasons["priority"] == "priority is not sent: a server that is not known is not known to take it"


@pytest.mark.parametrize(
    ("dialect", "steps", "fields"),
    [
        ("sglang", 3, {"priority": -3}),  # a higher priority is kept longer, so what runs later has a lower one
        ("sglang", 2.6, {"priority": -3}),
        ("sglang", 0, {"priority": 0}),
        ("dynamo", 1, {"nvext": {"agent_hints": {"speculative_prefill": True}}}),
        ("dynamo", 2, {}),
        ("vllm", 1, {}),  # its priority is of the queue alone
        ("llamacpp", 1, {}),
        ("smg", 1, {}),
        ("unknown", 1, {}),
    ],
)
def test_steps_until_an_agent_runs_again_go_where_they_act(dialect: str, steps: float, fields: dict[str, Any]) -> None:
    """By what each engine does with the field; where there is none, that is said."""
    sent = rendered(Hints(steps_to_execution=steps), Server(dialect=dialect), KEY)
    assert sent.fields == fields
    assert bool(sent.unsent) is not bool(fields)


def test_where_no_hint_acts_the_reason_names_what_does() -> None:
    """vLLM keeps by use alone, with LMCache behind it or not: what acts is to compute the prompt ahead."""
    said = rendered(Hints(steps_to_execution=1), Server(dialect="vllm"), KEY).unsent["steps_to_execution"]
    assert "Session.prewarm" in said


def test_what_is_said_outright_stays_before_what_steps_would_say() -> None:
    """SGLang has one field for both; Dynamo's is sent once."""
    both = rendered(Hints(priority=7, steps_to_execution=3), Server(dialect="sglang"), KEY)
    assert both.fields == {"priority": 7}
    assert both.unsent["steps_to_execution"] == "steps_to_execution is not sent: priority has what another hint says"
    twice = rendered(Hints(next_turn_likely=True, steps_to_execution=1), Server(dialect="dynamo"), KEY)
    assert twice.fields == {"nvext": {"agent_hints": {"speculative_prefill": True}}}
    far = rendered(Hints(steps_to_execution=2.5), Server(dialect="dynamo"), KEY).unsent["steps_to_execution"]
    assert far == (
        "steps_to_execution is not sent: 2.5 is more than the 1 that nvext.agent_hints.speculative_prefill is for"
    )


def test_nothing_is_sent_for_nothing() -> None:
    for dialect in dialects():
        assert rendered(Hints(), Server(dialect=dialect), KEY) == Rendered({}, {}, {}, {})


@pytest.mark.parametrize("tenant", ["a/b", "a@b", "_default", "ü" * 300, "a\\b"])
@pytest.mark.parametrize("dialect", ["vllm", "sglang", "dynamo"])
def test_a_salt_is_legal_whatever_the_tenant_is_called(dialect: str, tenant: str) -> None:
    """vLLM's rules: at most 128 characters, not empty, none of @ / \\ and NUL; LMCache's `_default` means no salt."""
    sent = json.dumps(rendered(Hints(tenant=tenant), Server(dialect=dialect), KEY).fields)
    salt = sent.rpartition(': "')[2].partition('"')[0]
    rule = row("vllm")["salt"]
    assert 0 < len(salt) <= rule["most"] == 128
    assert not set(salt) & set(rule["forbidden"])
    assert salt != "_default"
    assert tenant not in sent


def test_names_differ_by_key_and_by_what_they_name() -> None:
    """A session of the name of a tenant says nothing of the tenant; another store's names are others."""
    one = rendered(Hints(session="acme", tenant="acme"), Server(dialect="vllm"), KEY)
    assert one.headers["X-Session-ID"] != one.fields["cache_salt"]
    other = rendered(Hints(tenant="acme"), Server(dialect="vllm"), b"another key")
    assert other.fields["cache_salt"] != one.fields["cache_salt"]


@pytest.mark.parametrize(
    ("version", "strict", "sent"),
    [("0.9.0", False, True), ("0.8.4", False, False), (None, False, True), (None, True, False)],
)
def test_a_version_that_lacks_a_field_is_not_sent_it(
    monkeypatch: pytest.MonkeyPatch, version: str | None, strict: bool, sent: bool
) -> None:
    """Where the version is not known, only a server that ignores what it does not know is sent the field."""
    hint = {"field": "cache_salt", "means": "x", "since": "0.9"}
    monkeypatch.setattr(
        module, "row", lambda _: {"name": "x", "ignores_unknown": not strict, "hints": {"tenant": hint}}
    )
    assert bool(rendered(Hints(tenant="a"), Server(dialect="vllm", version=version), KEY).fields) is sent


@pytest.mark.parametrize(
    "wrong",
    [
        {"session": ""},
        {"tenant": 5},
        {"priority": 1.5},
        {"priority": True},
        {"expected_output": 0},
        {"ttft_target": 0},
        {"tpot_target": -1.0},
        {"final": "yes"},
        {"steps_to_execution": -1},
        {"steps_to_execution": True},
    ],
)
def test_hints_that_cannot_be_meant_are_refused_where_they_are_written(wrong: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=next(iter(wrong))):
        Hints(**wrong)


def test_headers_that_name_a_session_are_known() -> None:
    """Two ids of one session are not to be sent: Dynamo takes those of known agents as well."""
    assert names_session({"accept", "x-claude-code-session-id"})
    assert not names_session({"accept", "authorization"})
    ours = {one["header"].lower() for each in dialects() for what, one in row(each).get("hints", {}).items()
            if what == "session" and "header" in one}  # fmt: skip
    assert ours
    assert all(names_session({one}) for one in ours)


# --- refusals ---------------------------------------------------------------------------------------------------------

DYNAMO = case("dynamo-1.6.1-wire")["rejections"]


@pytest.mark.parametrize("one", DYNAMO, ids=lambda one: json.dumps(one["extra"]))
def test_a_refusal_of_dynamo_names_exactly_our_field(one: dict[str, Any]) -> None:
    """Captured: each of its refusals, of a request in which that field is ours and others are, too."""
    place = ".".join(_places(one["extra"]))
    body = json.dumps(one["body"]).encode()
    assert refused(body, {place, "cache_salt", "nvext.cache_salt"}, {"model": "m"}) == {place}
    assert refused(body, {"cache_salt", "nvext.cache_salt"}, {"model": "m", **one["extra"]}) == set()


def _places(value: dict[str, Any]) -> list[str]:
    [(key, inner)] = value.items()
    deep = isinstance(inner, dict) and len(inner) == 1 and key in ("nvext", "agent_hints")
    return [key, *(_places(inner) if deep else ())]


PYDANTIC = (
    "1 validation error for ChatCompletionRequest\ncache_salt\n  Extra inputs are not permitted [type=extra_forbidden]"
)


@pytest.mark.parametrize(
    ("body", "names"),
    [
        ({"detail": [{"type": "extra_forbidden", "loc": ["body", "cache_salt"], "msg": "Extra inputs"}]},
         {"cache_salt"}),
        ({"detail": [{"type": "extra_forbidden", "loc": ["body", "nvext", "cache_salt"], "msg": "Extra inputs"}]},
         {"nvext.cache_salt"}),
        ({"error": {"message": "[{'type': 'extra_forbidden', 'loc': ('body', 'cache_salt'), 'msg': 'Extra inputs', "
                               "'input': 'x'}]", "type": "Bad Request", "code": 400}}, {"cache_salt"}),
        ({"error": {"message": PYDANTIC}}, {"cache_salt"}),
        ({"error": {"message": "Unknown parameter: 'stream_options'.", "param": "stream_options"}}, {"stream_options"}),
        ({"error": {"message": "Unrecognized request argument supplied: cache_salt"}}, {"cache_salt"}),
        ({"message": "Validation: Unsupported parameter(s): `cache_salt`, `stream_options`"},
         {"cache_salt", "stream_options"}),
    ],
)  # fmt: skip
def test_other_servers_name_it_in_other_words(body: dict[str, Any], names: set[str]) -> None:
    """FastAPI's list, vLLM's print of it, pydantic's own text, OpenAI's, and several at once."""
    ours = {"cache_salt", "nvext.cache_salt", "stream_options", "stream_options.include_usage"}
    assert refused(json.dumps(body).encode(), ours, {"model": "m"}) == names


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"<html>Bad Request</html>",
        b'{"error": {"message": "This model\'s maximum context length is 4096 tokens."}}',
        b'{"error": {"message": "Parameter \'cache_salt\' must be a non-empty string. (parameter=cache_salt)"}}',
        b'{"message": "Unsupported parameter(s): `seed`"}',
        b'{"detail": [{"type": "missing", "loc": ["body", "cache_salt"], "msg": "Field required"}]}',
        b"[" * 100_000,
        b'{"error": {"message": "cache_salt cache_salt"}}',
    ],
)
def test_a_refusal_that_names_no_field_of_ours_as_unknown_is_the_senders(body: bytes) -> None:
    """Wrong values, missing fields, other names, another product's page."""
    assert refused(body, {"cache_salt"}, {"model": "m", "seed": 1}) == set()


def test_a_field_that_the_sender_has_is_never_taken_for_ours() -> None:
    """Also inside of an object, where the text has the last part of its name alone."""
    top = b'{"message": "Unsupported parameter(s): `priority`"}'
    inside = b'{"message": "unknown field `priority`, expected one of `osl`"}'
    ours = {"priority", "nvext.router.priority"}
    assert refused(top, ours, {"priority": 1}) == set()
    assert refused(inside, ours, {"nvext": {"agent_hints": {"priority": 1}}}) == set()
    assert refused(top, ours, {"metadata": {"priority": "1"}}) == {"priority"}


def test_the_twin_without_the_guard_takes_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_is_the_senders", lambda *given, **named: False)
    assert refused(b'{"message": "Unsupported parameter(s): `priority`"}', {"priority"}, {"priority": 1}) == {
        "priority"
    }


def test_what_we_added_is_told_by_comparing_what_was_sent_with_what_was_written() -> None:
    """A whole object has its own place and those of its parts; what the sender wrote has none."""
    written = {"model": "m", "nvext": {"annotations": []}, "stream_options": None}
    sent = {
        **written,
        "nvext": {"annotations": [], "cache_salt": "s"},
        "stream_options": {"include_usage": True},
        "x": {"y": 1},
    }
    assert added(sent, written) == {"nvext.cache_salt", "x", "x.y"}
    assert added(written, written) == set()


def test_what_was_refused_is_left_out_and_an_empty_object_with_it() -> None:
    fields = {"nvext": {"cache_salt": "s", "router": {"ttft_target": 1}}, "cache_salt": "s"}
    assert without(fields, {"nvext.router.ttft_target"}) == {"nvext": {"cache_salt": "s"}, "cache_salt": "s"}
    assert without(fields, {"nvext"}) == {"cache_salt": "s"}
    assert without(fields, set()) == fields

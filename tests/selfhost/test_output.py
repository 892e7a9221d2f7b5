"""What a reply has to be like, as each engine takes it. The right values are the engines' own pages and sources."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from agentaccel.errors import ConfigError
from agentaccel.selfhost import output
from agentaccel.selfhost.output import Constraint, constrained
from agentaccel.selfhost.probe import Server
from agentaccel.selfhost.tables import dialects
from tests.clients.wire import an_accel
from tests.selfhost.serving import engine, serving

SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"], "additionalProperties": False}
LOOK = {"type": "function", "function": {"name": "look", "parameters": SCHEMA}}
OPENAI = {"response_format": {"type": "json_schema", "json_schema": {"name": "reply", "schema": SCHEMA}}}
GRAMMAR = 'root ::= "a" | "b"'
NEW, OLD = "0.12.0", "0.11.2"


@pytest.mark.parametrize(
    ("dialect", "version", "given", "fields"),
    [
        ("vllm", NEW, {"schema": SCHEMA}, OPENAI),
        ("vllm", OLD, {"schema": SCHEMA}, OPENAI),
        ("vllm", NEW, {"regex": "a+"}, {"structured_outputs": {"regex": "a+"}}),
        ("vllm", OLD, {"regex": "a+"}, {"guided_regex": "a+"}),
        ("vllm", "0.33.0", {"grammar": GRAMMAR}, {"structured_outputs": {"grammar": GRAMMAR}}),
        ("vllm", "0.8.5", {"grammar": GRAMMAR}, {"guided_grammar": GRAMMAR}),
        ("vllm", NEW, {"choice": ["a", "b"]}, {"structured_outputs": {"choice": ["a", "b"]}}),
        ("vllm", OLD, {"choice": ["a", "b"]}, {"guided_choice": ["a", "b"]}),
        ("vllm", None, {"regex": "a+"}, {}),  # either field is ignored by the other versions
        ("vllm", None, {"schema": SCHEMA}, OPENAI),
        ("vllm", "0.32.0", {"tools": [LOOK]}, {"tools": [{**LOOK, "function": {**LOOK["function"], "strict": True}}]}),  # type: ignore[dict-item]
        ("vllm", "0.31.0", {"tools": [LOOK]}, {}),
        ("sglang", "0.5.23", {"schema": SCHEMA}, OPENAI),
        ("sglang", None, {"regex": "a+"}, {"regex": "a+"}),
        ("sglang", None, {"grammar": GRAMMAR}, {"ebnf": GRAMMAR}),
        ("sglang", None, {"choice": ["a.b", "c"]}, {"regex": r"(a\.b|c)"}),
        ("sglang", None, {"tools": [LOOK]}, {"tools": [{**LOOK, "function": {**LOOK["function"], "strict": True}}]}),  # type: ignore[dict-item]
        ("llamacpp", None, {"schema": SCHEMA}, OPENAI),
        ("llamacpp", None, {"grammar": GRAMMAR}, {"grammar": GRAMMAR}),
        ("llamacpp", None, {"choice": ["a", 'b"c']}, {"grammar": 'root ::= "a" | "b\\"c"'}),
        ("llamacpp", None, {"regex": "a+"}, {}),
        ("llamacpp", None, {"tools": [LOOK]}, {}),
        ("trtllm", "1.3.0rc27", {"schema": SCHEMA}, {"response_format": {"type": "json", "schema": SCHEMA}}),
        ("trtllm", "1.3.0rc27", {"regex": "a+"}, {"response_format": {"type": "regex", "regex": "a+"}}),
        ("trtllm", "1.4.0rc1", {"grammar": GRAMMAR}, {"response_format": {"type": "ebnf", "ebnf": GRAMMAR}}),
        ("trtllm", "1.4.0", {"choice": ["a", "b"]}, {"response_format": {"type": "regex", "regex": "(a|b)"}}),
        ("trtllm", None, {"regex": "a+"}, {}),
        ("dynamo", None, {"schema": SCHEMA}, {"guided_json": SCHEMA}),
        ("dynamo", None, {"regex": "a+"}, {"guided_regex": "a+"}),
        ("dynamo", None, {"grammar": GRAMMAR}, {"guided_grammar": GRAMMAR}),
        ("dynamo", None, {"choice": ["a", "b"]}, {"guided_choice": ["a", "b"]}),
        ("smg", None, {"schema": SCHEMA}, {}),
        ("transformers", None, {"regex": "a+"}, {}),
        ("unknown", None, {"schema": SCHEMA}, {}),
    ],
)
def test_each_engine_gets_it_in_its_own_fields(
    dialect: str, version: str | None, given: dict[str, Any], fields: dict[str, Any]
) -> None:
    """And where it is not sent, that is said: a reply that nothing holds is not to go unnoticed."""
    sent = constrained(Constraint(**given), Server(dialect=dialect, version=version))
    assert sent.fields == fields
    assert sent.reasons.keys() == fields.keys()
    assert sent.unsent.keys() == (set() if fields else given.keys())
    assert not sent.headers


@pytest.mark.parametrize(
    ("dialect", "version", "kind", "says"),
    [
        ("llamacpp", None, "regex", "llama.cpp server takes no regular expressions: give a grammar"),
        ("vllm", None, "regex", "vLLM of a version that is not known is not known to take it"),
        ("vllm", "0.31.0", "tools", "vLLM 0.31.0 is not known to take it"),
        ("smg", None, "schema", "smg (Shepherd Model Gateway) is not known to take it"),
        ("unknown", None, "choice", "a server that is not known is not known to take it"),
    ],
)
def test_why_it_is_not_sent_is_said(dialect: str, version: str | None, kind: str, says: str) -> None:
    given = {"regex": "a+", "schema": SCHEMA, "choice": ["a"], "tools": [LOOK]}[kind]
    sent = constrained(Constraint(**{kind: given}), Server(dialect=dialect, version=version))  # type: ignore[arg-type]
    assert sent.unsent == {kind: f"{kind} is not sent: {says}"}


def test_what_was_given_stays_as_it_was() -> None:
    """Tools become strict in a copy."""
    before = {"type": "function", "function": {"name": "look"}}
    constrained(Constraint(tools=[before]), Server(dialect="sglang"))
    assert before == {"type": "function", "function": {"name": "look"}}


@pytest.mark.parametrize(
    "wrong",
    [
        {},
        {"regex": "a", "grammar": "b"},
        {"schema": "{}"},
        {"regex": ""},
        {"grammar": 5},
        {"choice": "ab"},
        {"choice": []},
        {"choice": [""]},
        {"tools": []},
        {"tools": [{"name": "look"}]},
        {"tools": {"function": {"name": "look"}}},
    ],
)
def test_what_cannot_be_meant_is_refused_where_it_is_written(wrong: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match="Constraint"):
        Constraint(**wrong)


def test_the_twin_without_the_versions_sends_a_field_that_nobody_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(output, "has_by", lambda *given: True)
    sent = constrained(Constraint(regex="a+"), Server(dialect="vllm", version=OLD))
    assert sent.fields == {"structured_outputs": {"regex": "a+"}}


def test_every_kind_has_a_way_or_a_reason_for_every_dialect() -> None:
    kinds = {"schema": SCHEMA, "regex": "a", "grammar": GRAMMAR, "choice": ["a"], "tools": [LOOK]}
    for dialect in dialects():
        for kind, given in kinds.items():
            sent = constrained(Constraint(**{kind: given}), Server(dialect=dialect))  # type: ignore[arg-type]
            assert bool(sent.fields) is not bool(sent.unsent)


def test_an_attached_server_is_asked_which_it_is(tmp_path: Path) -> None:
    """By what it was found to be: vLLM 0.32.0."""
    server = engine("vllm-0.32.0-cpu")
    with serving(server), an_accel(tmp_path) as accel:
        backend = accel.backend(f"{server.url}/v1")
        assert backend.constrained(Constraint(choice=["a"])).fields == {}
        assert backend.wait_ready()
        assert backend.constrained(Constraint(choice=["a"])).fields == {"structured_outputs": {"choice": ["a"]}}

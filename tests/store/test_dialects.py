"""Spans of many instrumentations: one request, the same tokens in the same session, whatever they are called."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from agentaccel import Policy
from agentaccel.cache.bills import cards_of, paid_for
from agentaccel.cli import main
from agentaccel.hooks import Told
from agentaccel.otel.exporter import SpanPrices, of_ours, of_turn
from agentaccel.records import TurnRecord
from agentaccel.report import report
from agentaccel.sources import dialects
from agentaccel.types import BilledPart, Usage
from tests.store.span_lines import MODEL, NOON, agent, batch, chat, otlp, python, read, read_files, span, tool

SEEN = Usage(input=1000, read=700, write={"5m": 200}, output=5)
"""100 fresh + 700 read + 200 written = 1,000."""

AI = {"ai.operationId": "ai.streamText.doStream", "ai.model.id": MODEL, "ai.model.provider": "anthropic.messages"}
GENAI = {"gen_ai.operation.name": "chat", "gen_ai.provider.name": "anthropic", "gen_ai.request.model": MODEL}

WRITTEN: dict[str, dict[str, Any]] = {
    "Claude Code": {
        "name": "claude_code.llm_request",
        "session.id": "s1",
        "gen_ai.system": "anthropic",
        "gen_ai.request.model": MODEL,
        "input_tokens": 100,
        "cache_read_tokens": 700,
        "cache_creation_tokens": 200,
        "output_tokens": 5,
    },
    "Vercel AI SDK 5": {
        **AI,
        "ai.telemetry.metadata.sessionId": "s1",
        "ai.usage.inputTokens": 100,
        "ai.usage.cachedInputTokens": 700,
        "ai.usage.outputTokens": 5,
        "gen_ai.usage.input_tokens": 100,
        "gen_ai.usage.output_tokens": 5,
        "ai.response.providerMetadata": json.dumps({"anthropic": {"cacheCreationInputTokens": 200}}),
    },
    "Vercel AI SDK, usage as the provider has it": {
        **AI,
        "ai.telemetry.metadata.sessionId": "s1",
        "ai.usage.inputTokens": 1000,
        "ai.usage.cachedInputTokens": 700,
        "ai.response.providerMetadata": json.dumps(
            {
                "anthropic": {
                    "usage": {
                        "input_tokens": 100,
                        "cache_read_input_tokens": 700,
                        "cache_creation_input_tokens": 200,
                        "output_tokens": 5,
                    }
                }
            }
        ),
    },
    "Vercel AI SDK 6": {
        **AI,
        "session.id": "s1",
        "gen_ai.conversation.id": "s1",
        "ai.usage.inputTokens": 1000,
        "ai.usage.inputTokenDetails.cacheReadTokens": 700,
        "ai.usage.inputTokenDetails.cacheWriteTokens": 200,
        "ai.usage.outputTokens": 5,
    },
    "OpenInference": {
        "openinference.span.kind": "LLM",
        "session.id": "s1",
        "llm.model_name": MODEL,
        "llm.provider": "anthropic",
        "llm.token_count.prompt": 1000,
        "llm.token_count.prompt_details.cache_read": 700,
        "llm.token_count.prompt_details.cache_write": 200,
        "llm.token_count.completion": 5,
        "llm.token_count.total": 1005,
    },
    "OpenLLMetry": {
        "llm.request.type": "chat",
        "traceloop.association.properties.session_id": "s1",
        "gen_ai.system": "Anthropic",
        "gen_ai.request.model": MODEL,
        "gen_ai.usage.input_tokens": 1000,
        "gen_ai.usage.output_tokens": 5,
        "llm.usage.total_tokens": 1005,
        "gen_ai.usage.cache_read_input_tokens": 700,
        "gen_ai.usage.cache_creation_input_tokens": 200,
    },
    "Pydantic AI": {
        **GENAI,
        "gen_ai.conversation.id": "s1",
        "gen_ai.usage.input_tokens": 1000,
        "gen_ai.usage.output_tokens": 5,
        "gen_ai.usage.details.cache_read_tokens": 700,
        "gen_ai.usage.details.cache_write_tokens": 200,
    },
    "Langfuse": {
        "langfuse.observation.type": "generation",
        "langfuse.session.id": "s1",
        "langfuse.observation.model.name": MODEL,
        "langfuse.observation.usage_details": json.dumps(
            {"input": 100, "output": 5, "cache_read_input_tokens": 700, "cache_creation_input_tokens": 200}
        ),
    },
    "MLflow": {
        "mlflow.spanType": '"CHAT_MODEL"',
        "mlflow.trace.session": "s1",
        "mlflow.llm.model": json.dumps(MODEL),
        "mlflow.chat.tokenUsage": json.dumps(
            {
                "input_tokens": 100,
                "output_tokens": 5,
                "total_tokens": 105,
                "cache_read_input_tokens": 700,
                "cache_creation_input_tokens": 200,
            }
        ),
    },
    "LangSmith": {
        "langsmith.span.kind": "llm",
        "langsmith.metadata.session_id": "s1",
        "gen_ai.system": "anthropic",
        "gen_ai.request.model": MODEL,
        "gen_ai.usage.input_tokens": 1000,
        "gen_ai.usage.output_tokens": 5,
        "gen_ai.usage.input_token_details": json.dumps({"cache_read": 700, "cache_creation": 200}),
    },
    "GenAI conventions": {
        **GENAI,
        "gen_ai.conversation.id": "s1",
        "gen_ai.usage.input_tokens": 1000,
        "gen_ai.usage.output_tokens": 5,
        "gen_ai.usage.cache_read.input_tokens": 700,
        "gen_ai.usage.cache_creation.input_tokens": 200,
    },
}


def line(said: dict[str, Any], *, name: str = "one", parent: str = "", at: float = 0.0) -> dict[str, Any]:
    """A span of OTLP, whose own name may stand among its attributes."""
    said = dict(said)
    called = said.pop("name", "x")
    return {**otlp(span(name, said, parent=parent, at=at)), "name": called}


def spans(*lines: dict[str, Any]) -> str:
    return json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": list(lines)}]}]}) + "\n"


@pytest.mark.parametrize("dialect", WRITTEN)
def test_a_request_is_the_same_in_every_dialect(tmp_path: Path, dialect: str) -> None:
    """Each as its instrumentation writes it: input with the cache or without, under whatever names."""
    (turn,), _, tally = read(tmp_path / "a.jsonl", spans(line(WRITTEN[dialect])))
    assert turn.usage == SEEN
    assert (turn.session, turn.model, turn.provider) == ("s1", MODEL, "anthropic")
    assert tally.notes("") == []


KINDS = {f"gen_ai.usage.{kind}.input_tokens": tokens for kind, tokens in (("text", 900), ("audio", 200))}
"""900 tokens of text and 200 of sound are 1,100."""
SHORT = {"gen_ai.usage.input_tokens", "gen_ai.usage.output_tokens", "gen_ai.usage.total_tokens"}


@pytest.mark.parametrize(
    ("said", "usage", "doubts"),
    [
        # 1,000 + 5 are 1,005.
        (chat(1000, 700, 200, gen_ai__usage__total_tokens=900),
         Usage(read=700, write={"5m": 200}), SHORT),
        (chat(1000, 700, 200, gen_ai__usage__total_tokens=1005), SEEN, set()),
        # 1,100 of a prompt of 1,000, unless the total says that the prompt is what it is.
        (chat(1000, 700, 200, **KINDS), Usage(read=700, write={"5m": 200}, output=5),
         {"gen_ai.usage.input_tokens", *KINDS}),
        (chat(1000, 700, 200, gen_ai__usage__total_tokens=1005, **KINDS), SEEN, set()),
        # The cache beside the input: 100 + 5 of one who did not know of it, 100 + 700 + 200 + 5 of one who did.
        *(({**WRITTEN["Langfuse"], "langfuse.observation.usage_details": json.dumps(
            {"input": 100, "input_cache_read": 700, "input_cache_creation": 200, "output": 5, "total": total}
        )}, usage, doubts) for total, usage, doubts in (
            (105, SEEN, set()),
            (1005, SEEN, set()),
            (500, Usage(read=700, write={"5m": 200}, output=5), {"input", "total"}),
            (99, Usage(read=700, write={"5m": 200}), {"input", "output", "total"}),
        )),
    ],
)  # fmt: skip
def test_a_total_of_a_span_is_no_less_than_its_parts(
    tmp_path: Path, said: dict[str, Any], usage: Usage, doubts: set[str]
) -> None:
    """Chosen by us, as in live replies: what nobody can trust is n/a, and named."""
    (turn,), _, _ = read(tmp_path / "a.jsonl", spans(line(said)))
    assert turn.usage == usage
    assert {name.removeprefix("langfuse.observation.usage_details.") for name in turn.doubts} == doubts


def test_without_looking_at_the_total_its_parts_are_believed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The twin."""
    monkeypatch.setattr(dialects, "below", lambda *_: False)
    (turn,), _, _ = read(tmp_path / "a.jsonl", spans(line(chat(1000, 700, 200, gen_ai__usage__total_tokens=900))))
    assert turn.usage == SEEN


@pytest.mark.parametrize("dialect", ["Claude Code", "OpenInference", "Langfuse"])
def test_without_its_row_a_request_is_named_as_not_understood(
    tmp_path: Path, dialect: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The twin: the row is what knows the names. It is no request without a cache, and the attributes are named."""
    rows = tuple(row for row in dialects.dialects() if not row.name.startswith(dialect))
    monkeypatch.setattr(dialects, "dialects", lambda: rows)
    turns, _, tally = read(tmp_path / "a.jsonl", spans(line(WRITTEN[dialect])))
    assert [turn for turn in turns if turn.usage == SEEN] == []
    if dialect != "Langfuse":  # whose counters are JSON, and would have to be unpacked to be seen
        assert (turns, tally.unread_spans) == ([], 1)
        assert "tokens" in " ".join(tally.notes("")) or "token_count" in " ".join(tally.notes(""))


def test_a_dialect_that_nobody_knows_is_named(tmp_path: Path) -> None:
    """How many spans, and which attributes; what is no counter is not named."""
    said = {"acme.model": MODEL, "acme.prompt_tokens": 50, "acme.cached_tokens": 40, "acme.max_tokens": 1}
    path = tmp_path / "a.jsonl"
    path.write_text(spans(line(said), line(said, name="two", at=1), line({"http.method": "GET"}, name="three")))
    turns, _, tally = read_files(path)
    assert turns == []
    assert tally.notes("") == [
        "spans whose counters are not understood, and of which no request was made: 2 "
        "(acme.cached_tokens, acme.prompt_tokens)"
    ]
    done = CliRunner().invoke(main, ["report", str(path)])
    assert "acme.prompt_tokens" in done.output + str(done.exception)


def test_a_cache_counter_that_nobody_knows_is_named_beside_the_request(tmp_path: Path) -> None:
    """The rest of the request is understood; its cache is n/a."""
    (turn,), _, tally = read(tmp_path / "a.jsonl", batch(span("one", {**chat(100), "acme.cached_tokens": 40})))
    assert turn.usage == Usage(input=100, output=5)
    assert tally.notes("") == ["requests whose cache counters are not understood: acme.cached_tokens"]


FLAT = WRITTEN["Claude Code"]
NESTED: dict[str, dict[str, Any]] = {
    "details in an object": {
        **{name: value for name, value in WRITTEN["Pydantic AI"].items() if "details" not in name},
        "gen_ai.usage.details": {"cache_read_tokens": 700, "cache_write_tokens": 200},
    },
    "details in JSON": {
        **{name: value for name, value in WRITTEN["Pydantic AI"].items() if "details" not in name},
        "gen_ai.usage.details": json.dumps({"cache_read_tokens": 700, "cache_write_tokens": 200}),
    },
    "all of the usage in an object": {
        **GENAI,
        "gen_ai.conversation.id": "s1",
        "gen_ai.usage": {
            "input_tokens": 1000,
            "output_tokens": 5,
            "cache_read": {"input_tokens": 700},
            "cache_creation": {"input_tokens": 200},
        },
    },
    "all of OpenInference in an object": {
        "openinference.span.kind": "LLM",
        "session.id": "s1",
        "llm": {
            "model_name": MODEL,
            "provider": "anthropic",
            "token_count": {"prompt": 1000, "prompt_details": {"cache_read": 700, "cache_write": 200}, "completion": 5},
        },
    },
}


@pytest.mark.parametrize("form", ["OTLP", "OTLP, attributes as an object", "Python"])
@pytest.mark.parametrize("how", NESTED)
def test_counters_inside_of_an_attribute_are_counters(tmp_path: Path, how: str, form: str) -> None:
    """Chosen by us: an exporter may write names with dots as objects in one another."""
    one = line(NESTED[how])
    if form == "Python":
        one = json.loads(python(span("one", NESTED[how])))
    elif form != "OTLP":
        one["attributes"] = NESTED[how]
    turns, _, tally = read(tmp_path / "a.jsonl", json.dumps(one) + "\n")
    assert ([turn.usage for turn in turns], tally.notes("")) == ([SEEN], [])


@pytest.mark.parametrize("name", ["LLM call", "llm_request"])
def test_counters_by_names_of_a_dialect_that_does_not_hold_are_named(tmp_path: Path, name: str) -> None:
    """`input_tokens` is Claude Code's where the span is, and else nobody's."""
    turns, _, tally = read(tmp_path / "a.jsonl", spans(line({**FLAT, "name": name})))
    assert (turns, tally.unread_spans) == ([], 1)
    assert "input_tokens" in " ".join(tally.notes(""))


@pytest.mark.parametrize("signal", ["instrumentationLibrarySpans", "instrumentation_library_spans"])
def test_spans_of_before_scopes_had_their_name_are_read(tmp_path: Path, signal: str) -> None:
    """Mandated by the protocol until its version 0.15."""
    scopes = {signal: [{"spans": [line(FLAT)]}]}
    for batch_ in ({"resourceSpans": [scopes]}, scopes):
        turns, _, _ = read(tmp_path / "a.jsonl", json.dumps(batch_) + "\n")
        assert [turn.usage for turn in turns] == [SEEN]


@pytest.mark.parametrize(
    ("seller", "model", "platform", "usd"),
    [
        # By the price list a tenth more from one region: 3.30 USD a million.
        *((name, "us.anthropic.claude-sonnet-4-6", "bedrock", 0.33) for name in ("aws.bedrock", "AWS", "bedrock")),
        *((name, "us.anthropic.claude-sonnet-4-6", "bedrock", 0.33) for name in ("amazon-bedrock", "aws_bedrock", "")),
        ("anthropic", "claude-sonnet-4-6", "api", 0.3),
        ("anthropic.messages", "claude-sonnet-4-6", "api", 0.3),
        ("google.vertex.chat", "claude-sonnet-4-6", "vertex", 0.3),
    ],
)
def test_who_sold_it_is_known_by_any_of_his_names(
    tmp_path: Path, seller: str, model: str, platform: str, usd: float
) -> None:
    """Mandated by the price list; the names are those of instrumentations."""
    said = chat(total=100_000, read=0, write=0) | {"gen_ai.request.model": model, "gen_ai.provider.name": seller}
    turns, _, _ = read(tmp_path / "a.jsonl", batch(span("one", said)))
    assert [turn.platform for turn in turns] == [platform]
    assert paid(turns) == pytest.approx(usd)


@pytest.mark.parametrize(
    ("told", "usd"),
    [
        ({}, 0.2),
        ({"server.address": "eu.api.openai.com"}, 0.22),
        ({"openai.request.service_tier": "priority"}, 0.4),
        ({"openai.request.service_tier": "priority", "openai.response.service_tier": "default"}, 0.2),
        (
            {
                "ai.operationId": AI["ai.operationId"],
                "ai.response.providerMetadata": json.dumps({"openai": {"serviceTier": "priority"}}),
            },
            0.4,
        ),
    ],
)
def test_terms_by_other_names_are_applied(tmp_path: Path, told: dict[str, Any], usd: float) -> None:
    """Mandated by the provider: 100,000 tokens of gpt-6-sol at 2 USD a million, a tenth more where they stay in Europe,
    twice as much with priority. What the reply says counts before what was asked for."""
    model = {"gen_ai.request.model": "gpt-6-sol", "gen_ai.provider.name": "openai"}
    turns, _, _ = read(tmp_path / "a.jsonl", batch(span("one", chat(total=100_000, read=0, write=0) | model | told)))
    assert paid(turns) == pytest.approx(usd)


def test_what_openai_wrote_has_openais_lifetime(tmp_path: Path) -> None:
    """Mandated by the provider: 30 minutes. 10 at 2 USD a million, 60 read at 0.20, 30 written at 2.50: 0.000107."""
    model = {"gen_ai.request.model": "gpt-6-sol", "gen_ai.provider.name": "openai"}
    turns, _, _ = read(tmp_path / "a.jsonl", batch(span("one", chat(total=100, read=60, write=30) | model)))
    assert [turn.usage.write for turn in turns] == [{"30m": 30}]
    assert paid(turns) == pytest.approx(0.000107)


def test_steps_count_and_their_sum_does_not(tmp_path: Path) -> None:
    """The outer span of the Vercel AI SDK has what its two steps used together; so has a span of an agent."""
    step = WRITTEN["Vercel AI SDK 6"]
    outer = {
        **step,
        "ai.operationId": "ai.streamText",
        "ai.telemetry.functionId": "desk",
        "ai.usage.inputTokens": 2000,
    }
    lines = spans(
        line(step, name="s1", parent="out"), line(step, name="s2", parent="out", at=2), line(outer, name="out")
    )
    turns, _, tally = read(tmp_path / "a.jsonl", lines)
    assert [(turn.usage, turn.agent) for turn in turns] == [(SEEN, "desk")] * 2
    assert tally.notes("") == []
    told = {"gen_ai.usage.input_tokens": 2000, "gen_ai.usage.output_tokens": 10}
    both = batch(span("in", chat(1000, 700, 200), parent="run"), span("run", agent("desk", **told)))
    (turn,), _, tally = read(tmp_path / "b.jsonl", both)
    assert (turn.usage.input, tally.sums) == (1000, 0)


def test_a_sum_whose_requests_are_missing_is_said(tmp_path: Path) -> None:
    """It is in no figure: a sum of requests has no prompt."""
    turns, _, tally = read(tmp_path / "a.jsonl", batch(span("run", agent("desk", **{"gen_ai.usage.input_tokens": 9}))))
    assert (turns, tally.sums) == ([], 1)


def event(name: str, said: dict[str, Any], at: float = 1.0) -> dict[str, Any]:
    """A log record of OTLP, whose numbers are strings, as Claude Code writes them."""
    told = {"event.name": name.partition(".")[2], **said}
    return {
        "timeUnixNano": str(int((NOON + at) * 1e9)),
        "body": {"stringValue": name},
        "attributes": [{"key": key, "value": {"stringValue": str(value)}} for key, value in told.items()],
    }


def logs(*records: dict[str, Any]) -> str:
    return json.dumps({"resourceLogs": [{"scopeLogs": [{"logRecords": list(records)}]}]}) + "\n"


ASKED = {
    "session.id": "s1",
    "model": MODEL,
    "input_tokens": 100,
    "cache_read_tokens": 700,
    "cache_creation_tokens": 200,
    "output_tokens": 5,
    "duration_ms": 1000,
    "request_id": "req_1",
}


def test_events_of_claude_code_are_requests_and_tools(tmp_path: Path) -> None:
    """A record is written when the request has ended; what else happened is nothing to us."""
    lines = logs(
        event("claude_code.user_prompt", {"session.id": "s1", "prompt_length": 5}),
        event("claude_code.api_request", ASKED),
        event("claude_code.api_error", {"session.id": "s1", "model": MODEL, "status_code": 529, "duration_ms": 10}, 2),
        event("claude_code.tool_result", {"session.id": "s1", "tool_name": "Bash", "success": "false"}, 3),
    )
    (turn, failed), (ran,), tally = read(tmp_path / "a.jsonl", lines)
    assert (turn.usage, turn.session, turn.started, turn.finished) == (SEEN, "s1", NOON, NOON + 1)
    assert (failed.outcome, failed.usage) == ("failed", Usage())
    assert (ran.name, ran.outcome, ran.session) == ("Bash", "failed", "s1")
    assert tally.notes("") == []


@pytest.mark.parametrize("lacks", [None, "span", "event"])
def test_a_request_in_a_span_and_in_an_event_counts_once(tmp_path: Path, lacks: str | None) -> None:
    """By its id, and by what it used where one of the two does not name it; either file may come first."""
    whole = {**WRITTEN["Claude Code"], "request_id": "req_1"}
    told = dict(ASKED)
    if lacks == "span":
        del whole["request_id"]
    if lacks == "event":
        del told["request_id"]
    for first, second in itertools.permutations(["a", "b"]):
        (tmp_path / f"{first}.jsonl").write_text(spans(line(whole)))
        (tmp_path / f"{second}.jsonl").write_text(logs(event("claude_code.api_request", told)))
        (turn,), _, tally = read_files(tmp_path)
        assert (turn.usage, tally.nested) == (SEEN, 1)


def test_events_of_one_moment_that_count_differently_are_two_requests(tmp_path: Path) -> None:
    """Two sub-agents may be answered in the same millisecond; older clients name no request."""
    told = {name: value for name, value in ASKED.items() if name != "request_id"}
    one, other = (event("claude_code.api_request", {**told, "input_tokens": n}) for n in (100, 90_507))
    turns, _, _ = read(tmp_path / "a.jsonl", logs(one, other))
    assert sorted(turn.usage.input or 0 for turn in turns) == [1000, 91_407]
    turns, _, _ = read(tmp_path / "b.jsonl", logs(one, one))
    assert [turn.usage.input for turn in turns] == [1000]


DETAILS = {name: value for name, value in WRITTEN["GenAI conventions"].items() if name != "gen_ai.conversation.id"}


def placed(record: dict[str, Any], trace: str, within: str) -> dict[str, Any]:
    """A log record that was written in a span of a trace."""
    one = line({}, name=within)
    return {**record, "traceId": trace, "spanId": one["spanId"]}


def test_events_of_two_traces_are_of_two_sessions(tmp_path: Path) -> None:
    """Where no conversation is named, the trace is one."""
    name = "gen_ai.client.inference.operation.details"
    records = [placed(event(name, DETAILS), trace * 32, "x") for trace in "ab"]
    turns, _, _ = read(tmp_path / "a.jsonl", logs(*records))
    assert sorted(turn.session for turn in turns) == ["a" * 32, "b" * 32]


def test_an_event_in_the_span_of_a_request_tells_of_that_request(tmp_path: Path) -> None:
    """The counters stand in the event alone; what another trace counts alike is another request."""
    name = "gen_ai.client.inference.operation.details"
    bare = line({k: v for k, v in DETAILS.items() if "usage" not in k}, name="one")
    (turn,), _, tally = read(
        tmp_path / "a.jsonl", spans(bare), logs(placed(event(name, DETAILS), bare["traceId"], "one"))
    )
    assert (turn.usage, tally.nested) == (SEEN, 1)
    turns, _, _ = read(tmp_path / "b.jsonl", spans(line(DETAILS)), logs(placed(event(name, DETAILS), "c" * 32, "x")))
    assert [turn.usage for turn in turns] == [SEEN, SEEN]


def test_sub_agents_of_claude_code_are_below_their_session(tmp_path: Path) -> None:
    """As in its own logs: a session of their own, and that of the agent that they work for."""
    said = WRITTEN["Claude Code"]
    lines = spans(
        line(said),
        line({**said, "agent_id": "a1"}, name="two", at=1),
        line({**said, "agent_id": "a2", "parent_agent_id": "a1"}, name="three", at=2),
    )
    turns, _, _ = read(tmp_path / "a.jsonl", lines)
    assert [(turn.session, turn.parent, turn.agent) for turn in turns] == [
        ("s1", None, "claude-code"),
        ("s1/a1", "s1", "claude-code sub-agent"),
        ("s1/a2", "s1/a1", "claude-code sub-agent"),
    ]


def snake(value: Any) -> Any:
    """A copy with every member's name in snake_case, as protobuf's JSON may have it."""
    if isinstance(value, list):
        return [snake(one) for one in value]
    if not isinstance(value, dict):
        return value
    return {"".join(f"_{c.lower()}" if c.isupper() else c for c in name): snake(one) for name, one in value.items()}


def test_names_in_snake_case_are_the_same_spans(tmp_path: Path) -> None:
    """Protobuf's JSON may keep the names of the fields."""
    lines = json.dumps(snake(json.loads(spans(line(WRITTEN["Claude Code"]))))) + "\n"
    lines += json.dumps(snake(json.loads(logs(event("claude_code.tool_result", {"tool_name": "Bash"}))))) + "\n"
    (turn,), (ran,), _ = read(tmp_path / "a.jsonl", lines)
    assert (turn.usage, turn.session, turn.started, ran.name) == (SEEN, "s1", NOON, "Bash")


def test_a_tool_is_a_tool_in_every_dialect(tmp_path: Path) -> None:
    """By its kind; arguments are hashed."""
    told = [
        {"name": "claude_code.tool", "tool_name": "look"},
        {"ai.operationId": "ai.toolCall", "ai.toolCall.name": "look", "ai.toolCall.args": "{}"},
        {"openinference.span.kind": "TOOL", "tool.name": "look", "input.value": "{}"},
        {"traceloop.span.kind": "tool", "traceloop.entity.name": "look"},
        tool("look"),
    ]
    lines = spans(*(line(said, name=f"t{n}", at=n) for n, said in enumerate(told)))
    turns, tools, _ = read(tmp_path / "a.jsonl", lines)
    assert (turns, [one.name for one in tools]) == ([], ["look"] * 5)
    report(tools)


def test_what_a_request_is_priced_by_is_read_back_from_spans(tmp_path: Path) -> None:
    """100,000 tokens of claude-sonnet-4-6 at 3 USD a million, a tenth more for those made in the US: 0.33 USD."""
    lines = [
        span(name, chat(total=100_000, read=0, write=0) | {"gen_ai.request.model": "claude-sonnet-4-6"} | terms)
        for name, terms in {
            "own": {"agentaccel.price.inference_geo": "us"},
            "usual": {},
            "tier": {"openai.response.service_tier": "priority"},
            "default": {"gen_ai.openai.response.service_tier": "default"},
        }.items()
    ]
    turns, _, _ = read(tmp_path / "spans.jsonl", *map(batch, lines))
    assert [turn.terms for turn in turns] == [{"inference_geo": "us"}, {}, {"service_tier": "priority"}, {}]
    assert [paid_for(turn, cards_of(turn, None, None)) for turn in turns[:2]] == pytest.approx([0.33, 0.3])


def test_writes_without_a_lifetime_have_that_of_the_session_s_other_writes(tmp_path: Path) -> None:
    """7,345 tokens for an hour at 6 USD a million are 0.04407 USD; for five minutes, at 3.75, 0.02754."""
    model = {"gen_ai.request.model": "claude-sonnet-4-6", "gen_ai.conversation.id": "s1"}
    hour = {"anthropic.usage.cache_creation.ephemeral_1h_input_tokens": 500}
    lines = [
        span("unsplit", chat(total=7345, read=0, write=7345) | model),
        span("split", chat(total=8000, read=7345, write=500) | model | hour, at=5),
        span("elsewhere", chat(total=7345, read=0, write=7345) | model | {"gen_ai.conversation.id": "s2"}, at=9),
    ]
    turns, _, _ = read(tmp_path / "spans.jsonl", *map(batch, lines))
    assert [turn.usage.write for turn in turns] == [{"1h": 7345}, {"1h": 500}, {"5m": 7345}]
    paid = [paid_for(turn, cards_of(turn, None, None)) for turn in (turns[0], turns[2])]
    assert paid == pytest.approx([0.04407, 0.02754], abs=1e-5)


def counted(*given: tuple[str, Any]) -> dict[str, Any]:
    """A request of claude-sonnet-4-6, 3 USD a million tokens of input, a tenth of it to read."""
    return {**GENAI, "gen_ai.request.model": "claude-sonnet-4-6", "gen_ai.conversation.id": "s1", **dict(given)}


def paid(turns: list[TurnRecord]) -> float | None:
    return report(turns).total.costs.paid


@pytest.mark.parametrize(
    ("dialect", "name", "value"),
    [
        ("OpenInference", "openinference.span.kind", "llm"),
        ("Langfuse", "langfuse.observation.type", "GENERATION"),
        ("MLflow", "mlflow.spanType", '"chat_model"'),
        ("LangSmith", "langsmith.span.kind", "LLM"),
        ("GenAI conventions", "gen_ai.operation.name", "Chat"),
        ("GenAI conventions", "gen_ai.operation.name", "chat.completions"),
        ("OpenLLMetry", "traceloop.span.kind", "task"),
    ],
)
def test_a_kind_is_the_same_in_either_case(tmp_path: Path, dialect: str, name: str, value: str) -> None:
    """Instrumentations of one dialect differ in that; the operation of Semantic Kernel is a chat's, and the type of a
    request tells what a span of a task is."""
    (turn,), _, tally = read(tmp_path / "a.jsonl", spans(line({**WRITTEN[dialect], name: value})))
    assert (turn.usage, tally.notes("")) == (SEEN, [])


UNKNOWN = {
    "GenAI conventions": ("gen_ai.operation.name", "responses"),
    "OpenInference": ("openinference.span.kind", "CHAIN"),
    "Langfuse": ("langfuse.observation.type", "event"),
    "MLflow": ("mlflow.spanType", "UNKNOWN"),
    "LangSmith": ("langsmith.span.kind", "chain"),
    "Vercel AI SDK 6": ("ai.operationId", "ai.chat"),
    "Claude Code": ("name", "claude_code.llm_call"),
}


@pytest.mark.parametrize("dialect", UNKNOWN)
def test_a_span_that_counts_and_is_of_no_known_kind_is_named(tmp_path: Path, dialect: str) -> None:
    """It is no request, because it may be the sum of some; beside one that is understood, below the same span, too, and
    not where it tells of that one again, as what stands around it."""
    name, value = UNKNOWN[dialect]
    odd = {**WRITTEN[dialect], name: value}
    known = WRITTEN[dialect]
    said = f"{'' if name == 'name' else name} {value}".strip()
    note = f"spans that count tokens and are of no known kind, and of which no request was made: 1 ({said})"
    turns, _, tally = read(tmp_path / "a.jsonl", spans(line(odd)))
    assert (turns, tally.notes("")) == ([], [note])
    both = spans(line(odd, parent="root"), line(known, name="two", parent="root", at=1), line({}, name="root"))
    turns, _, tally = read(tmp_path / "b.jsonl", both)
    assert ([turn.usage for turn in turns], tally.notes("")) == ([SEEN], [note])
    turns, _, tally = read(tmp_path / "c.jsonl", spans(line(odd, name="out"), line(known, name="in", parent="out")))
    assert ([turn.usage for turn in turns], tally.notes("")) == ([SEEN], [])
    turns, _, tally = read(tmp_path / "d.jsonl", spans(line(known, name="out"), line(odd, name="in", parent="out")))
    assert ([turn.usage for turn in turns], tally.notes("")) == ([SEEN], [])


def test_an_embedding_is_no_request_and_no_riddle(tmp_path: Path) -> None:
    """Its kind is known."""
    told = {**chat(100), "gen_ai.operation.name": "embeddings"}
    turns, _, tally = read(tmp_path / "a.jsonl", batch(span("one", told)))
    assert (turns, tally.notes("")) == ([], [])


def test_an_event_that_counts_and_is_of_no_known_kind_is_named(tmp_path: Path) -> None:
    """As a span is; where it counts what a request does, it tells of that again."""
    odd, told = event("claude_code.llm_call", ASKED), event("claude_code.api_request", ASKED)
    turns, _, tally = read(tmp_path / "a.jsonl", logs(odd))
    assert (turns, list(tally.kindless)) == ([], ["claude_code.llm_call"])
    turns, _, tally = read(tmp_path / "b.jsonl", logs(odd, told))
    assert ([turn.usage for turn in turns], list(tally.kindless)) == ([SEEN], [])


READ, OLD_READ = "gen_ai.usage.cache_read.input_tokens", "gen_ai.usage.cache_read_input_tokens"
INPUT, OLD_INPUT = "gen_ai.usage.input_tokens", "gen_ai.usage.prompt_tokens"
PYDANTIC = "gen_ai.usage.details.cache_"
CONTRADICTING: dict[str, tuple[dict[str, Any], Usage, tuple[str, ...]]] = {
    "read, by two names": (
        counted((INPUT, 100_000), (READ, 0), (OLD_READ, 20_000), ("gen_ai.usage.cache_write.input_tokens", 0)),
        Usage(input=100_000, write={}),
        (READ, OLD_READ),
    ),
    "input, by two names": (
        counted((INPUT, 100), (OLD_INPUT, 5), (READ, 0)),
        Usage(read=0, write={}),
        (INPUT, OLD_INPUT),
    ),
    "input, of which the total knows": (
        counted(
            (INPUT, 100),
            (OLD_INPUT, 5),
            (READ, 0),
            ("gen_ai.usage.output_tokens", 7),
            ("gen_ai.usage.total_tokens", 107),
        ),
        Usage(input=100, read=0, write={}, output=7),
        (),
    ),
    "more read than OpenAI's input": (
        {**counted((INPUT, 100), (READ, 5_000)), "gen_ai.provider.name": "openai", "gen_ai.request.model": "gpt-5.4"},
        Usage(input=100),
        (READ,),
    ),
    "more written for an hour than at all": (
        counted(
            (INPUT, 1_000),
            (f"{PYDANTIC}read_tokens", 100),
            (f"{PYDANTIC}write_tokens", 500),
            (f"{PYDANTIC}write_1h_tokens", 900),
        ),
        Usage(input=1_000, read=100),
        (f"{PYDANTIC}write_tokens", f"{PYDANTIC}write_1h_tokens"),
    ),
    "read, in two dialects": (
        counted(
            (INPUT, 1_000),
            (READ, 0),
            ("llm.token_count.prompt", 1_000),
            ("llm.token_count.prompt_details.cache_read", 600),
            ("openinference.span.kind", "LLM"),
        ),
        Usage(input=1_000),
        ("llm.token_count.prompt_details.cache_read", READ),
    ),
    "what is no count": (
        {**WRITTEN["Claude Code"], "cache_read_tokens": -1, "gen_ai.request.model": "claude-sonnet-4-6"},
        Usage(write={"5m": 200}, output=5),
        ("cache_read_tokens",),
    ),
}
"""What a span says, what is known of it, and whose word is doubted; of Claude Code, whose input leaves the cache out,
an input without what was read is none."""


@pytest.mark.parametrize("what", CONTRADICTING)
def test_counters_of_a_span_that_contradict_one_another_are_not_known_and_said(tmp_path: Path, what: str) -> None:
    """As live: n/a, unless one of them fits all the rest, and the names in the report's note."""
    said, usage, doubts = CONTRADICTING[what]
    (turn,), _, _ = read(tmp_path / "a.jsonl", spans(line(said)))
    assert (turn.usage, turn.doubts) == (usage, doubts)
    assert all(any(name in note for note in report([turn]).notes) for name in doubts)


def test_the_first_name_that_is_there_would_be_believed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The twin: 100,000 tokens, of which 0 or 20,000 were read, would cost 0.3 USD as if it were known."""
    said, _, _ = CONTRADICTING["read, by two names"]
    turns, _, _ = read(tmp_path / "a.jsonl", spans(line(said)))
    assert paid(turns) is None
    first = lambda counts, fits=None: (next(iter(counts.values()), None), ())  # noqa: E731
    monkeypatch.setattr(dialects, "agreed", first)
    turns, _, _ = read(tmp_path / "a.jsonl", spans(line(said)))
    assert paid(turns) == pytest.approx(0.3)


def test_a_total_says_that_the_input_leaves_the_cache_out(tmp_path: Path) -> None:
    """50,000 + 20,000 read + 100 are the 70,100: 50,000 x 3 USD and 20,000 x 0.3 USD a million are 0.156."""
    said = counted(
        ("llm.token_count.prompt", 50_000),
        ("llm.token_count.completion", 100),
        ("llm.token_count.total", 70_100),
        ("llm.token_count.prompt_details.cache_read", 20_000),
        ("openinference.span.kind", "LLM"),
    )
    turns, _, _ = read(tmp_path / "a.jsonl", spans(line(said)))
    assert turns[0].usage.input == 70_000
    assert paid(turns) == pytest.approx(0.156)


def test_the_usage_that_anthropic_reported_is_read_whole(tmp_path: Path) -> None:
    """A compaction of 180,000 and 23,000 tokens at 3 USD a million, in the US a tenth more, in a batch half of it:
    203,000 x 3 x 1.1 / 2 = 0.33495 USD."""
    none = {"cache_read_input_tokens": 0, "cache_creation_input_tokens": 0}
    rounds = [
        {"type": "compaction", "input_tokens": 180_000, "output_tokens": 3_500, **none},
        {"type": "message", "input_tokens": 23_000, "output_tokens": 5, **none},
    ]
    usage = {"input_tokens": 23_000, "output_tokens": 5, **none, "iterations": rounds}
    told = {**usage, "service_tier": "batch", "inference_geo": "us"}
    said = {
        **AI,
        "ai.model.id": "claude-sonnet-4-6",
        "ai.usage.inputTokens": 203_000,
        "ai.usage.outputTokens": 3_505,
        "ai.response.providerMetadata": json.dumps({"anthropic": {"usage": told}}),
    }
    (turn,), _, _ = read(tmp_path / "a.jsonl", spans(line(said)))
    assert (turn.usage.input, turn.billed.input, turn.billed.output) == (23_000, 203_000, 3_505)
    assert paid([turn]) == pytest.approx(0.33495)


@pytest.mark.parametrize("first", [True, False])
def test_of_two_copies_of_a_span_the_fuller_one_counts(tmp_path: Path, first: bool) -> None:
    """One may be exported while it is open; what only that one tells is kept."""
    open_ = line({**GENAI, "gen_ai.conversation.id": "s9"})
    whole = line({name: value for name, value in WRITTEN["GenAI conventions"].items() if "conversation" not in name})
    del open_["endTimeUnixNano"]
    lines = [open_, whole] if first else [whole, open_]
    (turn,), _, tally = read(tmp_path / "a.jsonl", *map(spans, lines))
    assert (turn.usage, turn.session, turn.finished, tally.duplicates) == (SEEN, "s9", NOON + 1, 1)


def uncached(tokens: int, output: int | None = None) -> Usage:
    return Usage(input=tokens, read=0, write={}, output=output)


BILLED = {
    "advisor": (
        uncached(23_000, 5),
        (BilledPart(kind="advisor_message", model="claude-opus-5", usage=uncached(30_000, 5)),),
        0.219,
    ),
    "compaction, written for an hour": (
        Usage(input=23_000, read=20_000, write={"1h": 3_000}, output=5),
        (BilledPart(kind="compaction", usage=Usage(input=100_000, read=0, write={"1h": 100_000}, output=9)),),
        0.624,
    ),
    "nothing but a compaction": (Usage(), (BilledPart(kind="compaction", usage=uncached(9_000)),), 0.027),
}
"""What a reply was billed for, and USD by hand: 23,000 x 3 + 30,000 x 5; 20,000 x 0.3 + 103,000 x 6; 9,000 x 3, each
for a million."""


@pytest.mark.parametrize("what", BILLED)
def test_what_else_a_reply_was_billed_for_goes_out_and_comes_back(tmp_path: Path, what: str) -> None:
    """In a span, the conventions' usage is that of the answer; the rest stands beside it. Doubts come back as well."""
    usage, besides, usd = BILLED[what]
    turn = TurnRecord(
        session="s1", provider="anthropic", model="claude-sonnet-4-6", started=NOON, finished=NOON + 1, mode="observe",
        usage=usage, besides=besides, doubts=("cached_tokens", "num_cached_tokens") if usage.input else (),
    )  # fmt: skip
    cost = SpanPrices(Policy()).cost(turn)
    said = {**of_turn(turn, Told(record=turn)), **of_ours(turn, cost)}
    assert said.get("gen_ai.usage.input_tokens") == usage.input
    for lines in (spans(line(said)), python(span("one", said))):
        (back,), _, _ = read(tmp_path / "a.jsonl", lines)
        assert (back.usage, back.besides, back.doubts) == (usage, besides, turn.doubts)
        assert paid([back]) == paid([turn]) == pytest.approx(usd)
    assert cost.paid == pytest.approx(usd)


def test_without_what_stands_beside_the_answer_the_rest_of_the_bill_is_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The twin: 23,000 x 3 USD a million."""
    parts = [{"kind": "compaction", "usage": {"input": 180_000, "read": 0, "write": {}}}]
    said = counted((INPUT, 23_000), (READ, 0), ("agentaccel.billed", json.dumps(parts)))
    turns, _, _ = read(tmp_path / "a.jsonl", spans(line(said)))
    assert paid(turns) == pytest.approx(0.609)
    monkeypatch.setattr("agentaccel.sources.span_log._besides", lambda told: ())
    turns, _, _ = read(tmp_path / "a.jsonl", spans(line(said)))
    assert paid(turns) == pytest.approx(0.069)


@pytest.mark.parametrize("damaged", ["[{", "{}", "[5]", 7])
def test_where_the_rest_of_a_bill_cannot_be_read_nothing_of_it_is_priced(tmp_path: Path, damaged: Any) -> None:
    """An exporter may cut what is long."""
    said = counted((INPUT, 23_000), (READ, 0), ("agentaccel.billed", damaged))
    (turn,), _, _ = read(tmp_path / "a.jsonl", spans(line(said)))
    assert (turn.usage.input, turn.billed.input, paid([turn])) == (23_000, None, None)


def test_every_row_has_a_source_and_a_date() -> None:
    """Names change: who mends one must know where it was read."""
    assert all(row.source and row.date for row in dialects.dialects())

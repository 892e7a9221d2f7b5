"""Spans as a source of reports: every form, every name, each call once, and nothing that lines can do to us."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import anthropic
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from agentaccel import Accel, CachePolicy, Policy, StorePolicy
from agentaccel.cli import main
from agentaccel.otel import export
from agentaccel.records import ToolRecord, TurnRecord
from agentaccel.report import report
from agentaccel.sources.logs import ImportTally, read_logs
from agentaccel.store.store import open_reader
from agentaccel.types import Usage
from agentaccel_emulator import serve
from tests.anything import CHARACTERS
from tests.store.span_lines import MODEL, NOON, agent, batch, chat, otlp, python, read, read_files, span, tool

FORMS = {
    "a batch of OTLP": lambda one: batch(one),
    "a resource of OTLP": lambda one: json.dumps({"scopeSpans": [{"spans": [otlp(one)]}]}) + "\n",
    "a span of OTLP": lambda one: json.dumps(otlp(one)) + "\n",
    "a line of Python": lambda one: python(one),
    "lines of Python": lambda one: python(one, indent=4),
}


@pytest.mark.parametrize("form", FORMS)
def test_every_form_gives_the_same_record(tmp_path: Path, form: str) -> None:
    """Recognised by content, whatever the file is called."""
    said = chat(
        9000,
        8000,
        900,
        gen_ai__response__finish_reasons=["end_turn"],
        gen_ai__conversation__id="ticket 7",
        gen_ai__request__stream=True,
        gen_ai__response__time_to_first_chunk=0.25,
    )
    (turn,), tools, tally = read(tmp_path / "anything.txt", FORMS[form](span("one", said)))
    assert not tools
    assert (turn.session, turn.provider, turn.platform, turn.model) == ("ticket 7", "anthropic", "api", MODEL)
    assert turn.usage == Usage(input=9000, read=8000, write={"5m": 900}, output=5)
    assert (turn.started, turn.finished, turn.first_byte) == (NOON, NOON + 1, NOON + 0.25)
    assert (turn.outcome, turn.stop, turn.streamed, turn.mode) == ("ok", "end_turn", True, "log")
    assert (tally.files, tally.skipped, tally.unrecognised) == (1, 0, [])


@pytest.mark.parametrize(
    ("said", "usage"),
    [
        (
            {"gen_ai.usage.cache_read.input_tokens": 70, "gen_ai.usage.cache_creation.input_tokens": 20},
            Usage(input=100, read=70, write={"5m": 20}, output=5),
        ),
        (
            {"gen_ai.usage.cache_read_input_tokens": 70, "gen_ai.usage.cache_creation_input_tokens": 20},
            Usage(input=100, read=70, write={"5m": 20}, output=5),
        ),
        (
            {
                "gen_ai.usage.cache_read.input_tokens": 70,
                "gen_ai.usage.cache_write.input_tokens": 20,
                "anthropic.usage.cache_creation.ephemeral_5m_input_tokens": 0,
                "anthropic.usage.cache_creation.ephemeral_1h_input_tokens": 20,
            },
            Usage(input=100, read=70, write={"1h": 20}, output=5),
        ),
        # Counters that cannot be inside the total stand beside it: the provider's raw figures.
        (
            {"gen_ai.usage.cache_read.input_tokens": 700, "gen_ai.usage.cache_write.input_tokens": 20},
            Usage(input=820, read=700, write={"5m": 20}, output=5),
        ),
        ({"gen_ai.usage.cache_write.input_tokens": 20}, Usage(input=100, read=0, write={"5m": 20}, output=5)),
        ({"gen_ai.usage.cache_read.input_tokens": 20}, Usage(input=100, read=20, write={}, output=5)),
        ({}, Usage(input=100, output=5)),
        ({"gen_ai.usage.cache_read.input_tokens": "many"}, Usage(input=100, output=5)),
    ],
)
def test_usage_under_old_and_new_names(tmp_path: Path, said: dict[str, Any], usage: Usage) -> None:
    """Input is inclusive; who tells of one of the cache counters has left out the other because it was 0."""
    (turn,), _, _ = read(tmp_path / "a.jsonl", batch(span("one", {**chat(100), **said})))
    assert turn.usage == usage


def test_spans_of_before_the_conventions_had_operations_are_requests(tmp_path: Path) -> None:
    """`gen_ai.system`, prompt and completion tokens; embeddings are none."""
    old = {
        "gen_ai.system": "Anthropic",
        "llm.request.type": "chat",
        "gen_ai.request.model": MODEL,
        "gen_ai.usage.prompt_tokens": 100,
        "gen_ai.usage.completion_tokens": 5,
    }
    lines = batch(span("one", old), span("two", {**old, "llm.request.type": "embedding"}, at=1))
    (turn,), _, _ = read(tmp_path / "a.jsonl", lines)
    assert (turn.provider, turn.usage) == ("anthropic", Usage(input=100, output=5))


@pytest.mark.parametrize(
    ("name", "model", "place"),
    [
        ("openai", "gpt-5", ("openai", "api")),
        ("az.ai.openai", "gpt-5", ("openai", "azure")),
        ("azure.ai.openai", "gpt-5", ("openai", "azure")),
        ("aws.bedrock", "us.anthropic.claude-sonnet-4-5-20250929-v1:0", ("anthropic", "bedrock")),
        ("gcp.vertex_ai", "claude-sonnet-5", ("anthropic", "vertex")),
        ("gcp.vertex_ai", "gemini-2.5-pro", ("google", "api")),
        ("x_ai", "grok-4", ("compatible", "xai")),
        ("openrouter", "anthropic/claude-sonnet-5", ("compatible", "openrouter")),
        ("somebody", "nobody-knows-me", ("unknown", "api")),
    ],
)
def test_providers_are_those_whose_prices_and_rules_hold(
    tmp_path: Path, name: str, model: str, place: tuple[str, str]
) -> None:
    """The conventions' names for them, of today and before; a writing that nobody counts is not known to be none."""
    said = {**chat(100, 20), "gen_ai.provider.name": name, "gen_ai.request.model": model}
    (turn,), _, _ = read(tmp_path / "a.jsonl", batch(span("one", said)))
    assert (turn.provider, turn.platform) == place
    assert turn.usage.write == ({} if place[0] == "anthropic" else None)


def test_a_call_that_two_instrumentations_report_counts_once(tmp_path: Path) -> None:
    """The inner span, with what only the outer one knows; whatever stands between them."""
    outer = chat(9000, 8000, 900, output=None, gen_ai__conversation__id="ticket 7")
    inner = chat(9000, 8000, 900, gen_ai__response__finish_reasons=["end_turn"])
    lines = [
        batch(
            span("inner", inner, parent="http", at=0.2), span("http", {"http.request.method": "POST"}, parent="outer")
        ),
        batch(span("outer", outer)),
    ]
    (turn,), _, tally = read(tmp_path / "a.jsonl", *lines)
    assert (turn.session, turn.usage.output, turn.started) == ("ticket 7", 5, NOON + 0.2)
    assert tally.nested == 1


def test_an_inner_span_without_usage_gets_that_of_the_outer_one(tmp_path: Path) -> None:
    """Of the whole, not counter by counter; and the last attempt gets it, which was answered."""
    lines = batch(
        span("first", chat(None, output=None, error__type="overloaded_error"), parent="outer", failed=True),
        span("second", chat(None, output=None), parent="outer", at=0.5),
        span("outer", chat(9000, 8000, 900)),
    )
    turns, _, tally = read(tmp_path / "a.jsonl", lines)
    assert [(turn.outcome, turn.usage.input) for turn in turns] == [("failed", None), ("ok", 9000)]
    assert tally.nested == 1


def test_a_model_that_a_tool_asks_is_another_call(tmp_path: Path) -> None:
    """A tool or an agent between two requests makes them two."""
    lines = batch(
        span("nested", chat(50), parent="tool", at=0.2),
        span("tool", tool("ask"), parent="outer", at=0.1),
        span("outer", chat(100)),
    )
    turns, tools, tally = read(tmp_path / "a.jsonl", lines)
    assert [turn.usage.input for turn in turns] == [100, 50]
    assert len(tools) == 1
    assert tally.nested == 0


def test_sessions_are_conversations_and_else_traces(tmp_path: Path) -> None:
    """A conversation goes on over traces; within a trace, one that is named once holds for all of it."""
    lines = batch(
        span("one", chat(gen_ai__conversation__id="ticket 7"), parent="root"),
        span("two", chat(), parent="root", at=1),
        span("three", chat(gen_ai__conversation__id="ticket 7"), trace="b" * 32, at=2),
        span("four", chat(), trace="c" * 32, at=3),
    )
    turns, _, _ = read(tmp_path / "a.jsonl", lines)
    assert [turn.session for turn in turns] == ["ticket 7"] * 3 + ["c" * 32]


def test_an_agent_within_an_agent_is_a_session_of_its_own(tmp_path: Path) -> None:
    """Below the one that it works for, also where both carry the name of the conversation."""
    mine = {"gen_ai__conversation__id": "ticket 7"}
    lines = batch(
        span("ask", chat(**mine), parent="desk"),
        span("found", chat(**mine), parent="finder", at=2),
        span("look", tool("look"), parent="finder", at=3),
        span("finder", agent("finder"), parent="delegate", at=1),
        span("delegate", tool("delegate"), parent="desk", at=1),
        span("desk", agent("desk")),
    )
    turns, tools, _ = read(tmp_path / "a.jsonl", lines)
    finder = f"ticket 7/finder-{b'finder'.hex()[:8]}"
    assert [(one.session, one.parent, one.agent) for one in turns] == [
        ("ticket 7", None, "desk"),
        (finder, "ticket 7", "finder"),
    ]
    assert [(one.session, one.name) for one in tools] == [("ticket 7", "delegate"), (finder, "look")]


def test_an_agent_that_is_told_of_twice_is_one(tmp_path: Path) -> None:
    """By a framework and by the SDK's tool runner, which has no name for it."""
    lines = batch(
        span("ask", chat(), parent="inner"), span("inner", agent(), parent="outer"), span("outer", agent("desk"))
    )
    (turn,), _, _ = read(tmp_path / "a.jsonl", lines)
    assert (turn.session, turn.parent, turn.agent) == ("a" * 32, None, "desk")


def test_tools_are_counted_once_and_equal_calls_have_equal_keys(tmp_path: Path) -> None:
    """Arguments are hashed where they are told of; failures have the class of their error."""
    args = {"gen_ai.tool.call.arguments": '{"order": 7}'}
    lines = batch(
        span("inner", tool("look", **args), parent="outer"),
        span("outer", tool("look")),
        span("again", tool("look", **args), at=1),
        span("other", tool("book", **{"error.type": "KeyError"}), at=2, failed=True),
    )
    _, (first, again, other), tally = read(tmp_path / "a.jsonl", lines)
    assert first.key == again.key != ""
    assert (other.name, other.key, other.outcome, other.error) == ("book", "", "failed", "KeyError")
    assert (first.finished or 0) - first.started == pytest.approx(1)
    assert tally.nested == 1


def test_a_span_in_two_files_counts_once_and_a_parent_may_be_in_another(tmp_path: Path) -> None:
    """Files are rotated, copied and sent twice."""
    (tmp_path / "1.jsonl").write_text(batch(span("inner", chat(), parent="outer")), encoding="utf-8")
    (tmp_path / "2.jsonl").write_text(
        batch(span("inner", chat(), parent="outer"), span("outer", agent("desk"))), encoding="utf-8"
    )
    (turn,), _, tally = read_files(tmp_path)
    assert turn.agent == "desk"
    assert (tally.files, tally.duplicates) == (2, 1)


def test_broken_lines_are_skipped_and_counted(tmp_path: Path) -> None:
    """Garbage, a line of something else, a line that was cut; metrics and logs in between are no spans and no fault."""
    lines = [
        batch(span("one", chat())),
        "garbage\n",
        '{"some": "thing"}\n',
        '{"resourceMetrics": []}\n',
        '{"resourceLogs": []}\n',
        "\n",
        batch(span("two", chat(), at=1)),
        batch(span("three", chat(), at=2))[:-40],
    ]
    turns, _, tally = read(tmp_path / "a.jsonl", *lines)
    assert len(turns) == 2
    assert (tally.skipped, tally.cut) == (2, 1)


def test_spans_in_a_loop_are_nobodys_parents(tmp_path: Path) -> None:
    """Each counts; nothing hangs."""
    lines = batch(
        span("one", chat(1), parent="two"), span("two", chat(2), parent="one"), span("self", chat(4), parent="self")
    )
    turns, _, _ = read(tmp_path / "a.jsonl", lines)
    assert sorted(turn.usage.input or 0 for turn in turns) == [1, 2, 4]


anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(CHARACTERS, max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(CHARACTERS, max_size=8), inner, max_size=3),
    max_leaves=8,
)


@st.composite
def damaged(draw: st.DrawFn) -> str:
    """A span, in some form, in which a value somewhere is anything at all."""
    whole = span("one", chat(9, 3, 3), parent=draw(st.sampled_from(["", "one", "two"])))
    made = json.loads(draw(st.sampled_from([batch(whole), python(whole), json.dumps(otlp(whole))])))
    place: Any = made
    while True:
        key = draw(st.sampled_from(sorted(place) if isinstance(place, dict) else range(len(place))))
        inner = place[key]
        if not isinstance(inner, dict | list) or not inner or draw(st.booleans()):
            place[key] = draw(anything)
            return json.dumps(made) + "\n"
        place = inner


@given(st.lists(damaged() | st.text(CHARACTERS, max_size=40).map(lambda text: text + "\n"), max_size=6))
def test_no_line_is_an_error(tmp_path_factory: pytest.TempPathFactory, lines: list[str]) -> None:
    """Whatever stands in it; and what is sound beside it is read."""
    path = tmp_path_factory.mktemp("spans") / "a.jsonl"
    sound = batch(span("sound", chat(77), trace="f" * 32))
    path.write_text(sound + "".join(lines), encoding="utf-8", errors="replace")
    found = list(read_logs([path]))
    assert 77 in [one.usage.input for one in found if isinstance(one, TurnRecord)]
    report(found)


def test_what_was_exported_reconciles_with_the_store_to_the_token(tmp_path: Path) -> None:
    """Out as spans, in again as records: the same report, and the provider's own totals."""
    kept, spans = InMemorySpanExporter(), TracerProvider()
    spans.add_span_processor(SimpleSpanProcessor(kept))
    store = tmp_path / "trace.db"
    policy = Policy(strict=True, store=StorePolicy(path=store), cache=CachePolicy(ttl="1h"))
    with (
        serve() as server,
        Accel(policy, clock=server.clock) as accel,
        accel.wrap(anthropic.Anthropic(base_url=server.url, api_key="k", open_telemetry=False)) as client,
    ):
        export(accel, tracer_provider=spans)
        look = accel.tools({"look": lambda order: order})["look"]
        for ticket in ("one", "two"):
            messages: list[Any] = [{"role": "user", "content": "Where is it?"}]
            with accel.session(ticket, agent="desk"):
                for _ in range(4):
                    reply = client.messages.create(
                        model=MODEL, max_tokens=50, system="You sell lamps. " * 500, messages=messages
                    )
                    look(7)
                    messages += [
                        {"role": "assistant", "content": reply.content},
                        {"role": "user", "content": "And now?"},
                    ]
        billed = [entry.usage for entry in server.log if entry.usage is not None]
    path = tmp_path / "spans.jsonl"
    path.write_text("".join(one.to_json(indent=None) + "\n" for one in kept.get_finished_spans()), encoding="utf-8")
    found = list(read_logs([path]))
    with open_reader(store) as reader:
        recorded = [*reader.turns()]
    turns = [one for one in found if isinstance(one, TurnRecord)]
    assert [(one.session, one.agent, one.usage) for one in turns] == [
        (one.session, one.agent, one.usage) for one in recorded
    ]
    assert sum(isinstance(one, ToolRecord) for one in found) == 8
    total = report(found).total
    assert total.tokens.read == sum(one.read for one in billed) > 0
    assert total.tokens.input == sum(one.read + one.uncached + one.write_5m + one.write_1h for one in billed)
    assert total.costs.paid == pytest.approx(report(recorded).total.costs.paid)


def test_the_command_reads_spans_and_says_what_it_left_out(tmp_path: Path) -> None:
    """By content; notes as for other logs."""
    lines = batch(span("inner", chat(9000, 0, 8000), parent="outer"), span("outer", chat(9000, 0, 8000)))
    (tmp_path / "spans.jsonl").write_text(lines + "garbage\n", encoding="utf-8")
    done = CliRunner().invoke(main, ["report", str(tmp_path / "spans.jsonl")])
    assert done.exit_code == 0, done.output
    assert "1 session, 1 request" in done.output
    said = " ".join(done.output.split())
    assert "spans that told of the same call as one inside them, which counts once: 1" in said
    assert "lines that could not be read, and were skipped: 1 of 2" in said
    tally = ImportTally()
    list(read_logs([tmp_path], tally=tally))
    assert tally.nested == 1

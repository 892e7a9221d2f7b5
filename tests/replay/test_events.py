"""Recorded conversations tell what happened, in order, whichever form they are in."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from agentaccel import Accel, Policy, StorePolicy, TraceError
from agentaccel.predict.events import Answered, Asked, Event, Returned, Said
from agentaccel.replay.events import Recorded, events_of, recorded
from agentaccel.sources.logs import ImportTally
from agentaccel.turn import Finished, Started
from agentaccel.types import ToolCall
from tests.driver import MODEL, Driver, body, user
from tests.sources.session_lines import line, reply, usage
from tests.sources.session_lines import write as write_log

LOOK = ToolCall(name="look", arguments={"at": 1}, id="c1")
SEEK = ToolCall(name="seek", arguments={}, id="c2")
TOLD: tuple[Event, ...] = (
    Said("hello"),
    Asked((LOOK, SEEK), "let me see"),
    Returned(LOOK, "a tree"),
    Returned(SEEK, "no such thing", error=True),
    Answered("a tree"),
    Said("thanks"),
)
"""What every form below tells."""


def chat() -> list[dict[str, Any]]:
    """The conversation as agent runs have it."""
    calls = [
        {"id": one.id, "function": {"name": one.name, "arguments": json.dumps(one.arguments)}} for one in (LOOK, SEEK)
    ]
    return [
        {"role": "user", "content": "hello"},
        {"role": "assistant", "content": "let me see", "tool_calls": calls},
        {"role": "tool", "tool_call_id": "c1", "content": "a tree"},
        {"role": "tool", "tool_call_id": "c2", "content": "no such thing", "is_error": True},
        {"role": "tool", "tool_call_id": "c9", "content": "nobody asked"},
        {"role": "assistant", "content": "a tree"},
        {"role": "user", "content": "[compact_boundary]", "compact_boundary": True},
        {"role": "user", "content": "thanks"},
    ]


def run(id_: str = "r1", **fields: Any) -> dict[str, Any]:
    tools = [{"name": "look", "description": "Looks.", "origin": "code", "read_only": True}, {"name": "seek"}]
    return {"id": id_, "task_id": "t1", "domain": "wood", "tools": tools, "messages": chat(), **fields}


def used(call: ToolCall) -> dict[str, Any]:
    return {"type": "tool_use", "id": call.id, "name": call.name, "input": call.arguments}


def came(call: ToolCall, text: object, **fields: Any) -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": call.id, "content": text, **fields}


def read(*paths: Path, tally: ImportTally | None = None) -> list[Recorded]:
    return list(recorded(paths, ImportTally() if tally is None else tally))


def test_agent_runs_tell_what_happened(tmp_path: Path) -> None:
    """A result without a call, and a marker of the client's, are no events; a run counts once."""
    path = tmp_path / "wood.jsonl"
    path.write_text("".join(json.dumps(one) + "\n" for one in (run(), run(), run("r2"))))
    first, second = read(tmp_path)
    assert first.events == second.events == TOLD
    assert (first.id, first.task, first.workload, first.calls) == ("r1", "t1", "agent wood", 2)
    assert first.reads == {"look"}
    assert first.tools[0] == {"name": "look", "description": "Looks."}


def test_an_agent_run_tells_its_system_prompt(tmp_path: Path) -> None:
    """Where it has a field for it, and where its chat begins with it; one that comes later is a message of its own."""
    opening = [{"role": "system", "content": "Be brief."}, {"role": "developer", "content": [{"text": "Be kind."}]}]
    late = {"role": "system", "content": "Be late."}
    runs = [
        run("field", system="Be exact.", messages=[opening[0], *chat()]),
        run("chat", messages=[*opening, *chat(), late]),
        run("none"),
        run("odd", system=7),
    ]
    (tmp_path / "wood.jsonl").write_text("".join(json.dumps(one) + "\n" for one in runs))
    talks = read(tmp_path)
    assert [one.system for one in talks] == ["Be exact.", "Be brief.\nBe kind.", "", ""]
    assert all(one.events == TOLD for one in talks)


def test_session_logs_tell_what_happened(tmp_path: Path) -> None:
    """A reply stands on several lines, with results of its first calls in between: its calls belong together."""
    use = usage()
    lines = [
        line("user", 0, message={"role": "user", "content": "hello"}),
        reply(1, "1", use, {"type": "thinking", "thinking": "hm"}),
        reply(2, "1", use, {"type": "text", "text": "let me see"}),
        reply(3, "1", use, used(LOOK)),
        line("user", 4, message={"role": "user", "content": [came(LOOK, [{"type": "text", "text": "a tree"}])]}),
        reply(5, "1", use, used(SEEK)),
        line("progress", 6, data={"type": "hook_progress"}),
        line("user", 7, message={"role": "user", "content": [came(SEEK, "no such thing", is_error=True)]}),
        reply(8, "2", use, {"type": "text", "text": "a tree"}),
        reply(9, "3", use, {"type": "text", "text": "broken off"}, model="<synthetic>"),
        line("user", 10, message={"role": "user", "content": "thanks"}),
    ]
    write_log(tmp_path / "s1.jsonl", lines, tail=b'{"cut": ')
    [talk] = read(tmp_path)
    assert talk.events == TOLD
    assert (talk.id, talk.workload) == ("s1", "agent claude-code")


def test_sub_agents_are_conversations_of_their_own(tmp_path: Path) -> None:
    """In `progress` lines, in side chains, or in files of their own."""
    use = usage()
    nested = {"type": "assistant", "message": reply(1, "9", use, used(SEEK))["message"]}
    lines = [
        reply(0, "1", use, used(LOOK)),
        line("progress", 1, data={"type": "agent_progress", "agentId": "abc", "message": nested}),
        line("user", 2, isSidechain=True, uuid="u1", message={"role": "user", "content": "go"}),
        reply(3, "2", use, {"type": "text", "text": "done"}, isSidechain=True, uuid="u2", parentUuid="u1"),
    ]
    write_log(tmp_path / "s1.jsonl", lines)
    talks = {one.id: one.events for one in read(tmp_path)}
    assert talks == {
        "s1": (Asked((LOOK,)),),
        "s1/abc": (Asked((SEEK,)),),
        "s1/sidechain-u1": (Said("go"), Answered("done")),
    }


def test_a_reply_that_two_logs_tell_of_counts_once(tmp_path: Path) -> None:
    """A session that was resumed repeats what came before."""
    use = usage()
    lines = [reply(0, "1", use, used(LOOK)), line("user", 1, message={"role": "user", "content": [came(LOOK, "x")]})]
    write_log(tmp_path / "a.jsonl", lines)
    write_log(tmp_path / "b.jsonl", [*lines, reply(3, "2", use, used(SEEK), session="s2")])
    tally = ImportTally()
    assert [one.calls for one in read(tmp_path, tally=tally)] == [1, 1]
    assert tally.duplicates == 1


def test_a_store_with_content_tells_what_happened(tmp_path: Path) -> None:
    """All but the last reply, which no request repeats."""
    driver = Driver(tmp_path, policy=Policy(strict=True, store=StorePolicy(content=True)))
    messages = [
        user("hello"),
        {"role": "assistant", "content": [{"type": "text", "text": "let me see"}, used(LOOK), used(SEEK)]},
        {"role": "user", "content": [came(LOOK, "a tree"), came(SEEK, "no such thing", is_error=True)]},
        {"role": "assistant", "content": [{"type": "text", "text": "a tree"}]},
        user("thanks"),
    ]
    with driver.accel.session("talk", agent="wood"):
        driver.ask(body(*messages[:1], system="Be brief."))
        driver.ask(body(*messages[:3], system="Be brief."))
        driver.ask(body(*messages, system="Be brief."))
    driver.accel.close()
    [talk] = read(tmp_path / "trace.db")
    assert talk.events == TOLD
    assert (talk.id, talk.workload, talk.system) == ("talk", "agent wood", "Be brief.")


BLOCKS = [{"type": "text", "text": "Be brief."}, {"type": "text", "text": "It is noon."}]


@pytest.mark.parametrize(
    ("provider", "asked", "system"),
    [
        ("anthropic", body(user("hello"), system=BLOCKS), "Be brief.\nIt is noon."),
        ("anthropic", body(user("hello")), ""),
        ("openai", body({"role": "system", "content": "Be brief."}, user("hello")), "Be brief."),
        ("openai", body({"role": "developer", "content": BLOCKS}, user("hello")), "Be brief.\nIt is noon."),
        ("openai", {"instructions": "Be brief.", "input": [user("hello")]}, "Be brief."),
    ],
)
def test_a_store_tells_the_system_prompt(tmp_path: Path, provider: str, asked: dict[str, Any], system: str) -> None:
    """As text, in whichever form it was given; empty where there was none."""
    policy = Policy(strict=True, store=StorePolicy(content=True, path=tmp_path / "trace.db"))
    with Accel(policy) as accel, accel.session("talk"):
        model = MODEL if provider == "anthropic" else "gpt-5.5"
        turn = accel.turn({**asked, "model": model}, provider=provider)
        turn.handle(Started(0.0))
        turn.handle(Finished(1.0))
    [talk] = read(tmp_path / "trace.db")
    assert talk.system == system


def test_a_store_without_content_says_so(tmp_path: Path) -> None:
    """As by default."""
    driver = Driver(tmp_path)
    driver.ask(body(user("hello")))
    driver.accel.close()
    tally = ImportTally()
    assert not read(tmp_path / "trace.db", tally=tally)
    assert (tally.contentless, tally.unreadable) == ([f"{tmp_path / 'trace.db'} (1)"], [])


def test_what_openai_calls_items_and_chats_is_told_alike() -> None:
    """A result that names no call belongs to the oldest that has none, as a store keeps them."""
    item = {"type": "function_call", "name": "look", "arguments": '{"at": 1}', "call_id": "c1"}
    other = {"id": "c2", "type": "function", "function": {"name": "seek", "arguments": "{}"}}
    messages = [
        {"role": "assistant", "content": [], "tool_calls": [item, other]},
        {"role": "tool", "content": "a tree"},
        {"role": "tool", "content": [{"type": "text", "text": "none"}]},
    ]
    assert tuple(events_of(messages)) == (Asked((LOOK, SEEK)), Returned(LOOK, "a tree"), Returned(SEEK, "none"))


@pytest.mark.parametrize(
    "odd",
    [
        {},
        {"role": 7},
        {"role": "assistant", "content": 7, "tool_calls": [1, {"function": None}, {"function": {"arguments": "{"}}]},
        {"role": "user", "content": [None, {"type": "tool_result"}, {"text": 3}]},
        {"role": "tool", "tool_call_id": ["x"], "content": None},
    ],
)
def test_odd_messages_never_raise(odd: dict[str, Any]) -> None:
    """Nobody specified what logs hold."""
    list(events_of([odd, odd, {"role": "user", "content": "on"}]))


def test_a_path_that_is_not_there_is_said_at_once(tmp_path: Path) -> None:
    """Before anything is read."""
    with pytest.raises(TraceError, match="no such file"):
        recorded([tmp_path / "none"], ImportTally())


@pytest.mark.traces
def test_the_recorded_sources_have_the_calls_that_their_page_counts() -> None:
    """Of the sources, as their own page has them."""
    traces = Path(os.environ["AGENTACCEL_TRACES"])
    for name, calls in (("tau2_airline", 825), ("agentdojo_dev", 1063), ("moatless_swebench", 810), ("webdancer", 222)):
        assert sum(one.calls for one in read(traces / f"{name}.jsonl.gz")) == calls

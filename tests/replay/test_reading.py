"""Recorded conversations as runs: which prompts they had, what is concluded, and what is not."""

from __future__ import annotations

import gzip
import json
import sqlite3
from collections.abc import Iterable
from contextlib import closing
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentaccel import Accel, Policy, StorePolicy, Usage
from agentaccel.errors import ConfigError, TraceError, UnknownModel
from agentaccel.replay.pace import paces, placed
from agentaccel.replay.read import read, runs_of_store
from agentaccel.replay.read_runs import read_runs
from agentaccel.replay.runs import Run
from agentaccel.replay.simulate import accelerate
from agentaccel.replay.source import Rules, Source
from agentaccel.report.advise.reading import talks_of_store
from agentaccel.sources.logs import ImportTally
from agentaccel.store.store import open_reader
from agentaccel.turn import Failed, Finished, Reported, Started
from tests.anything import CHARACTERS
from tests.driver import Driver, body, prose, user
from tests.replay.live import SCRIPTS, live, runs_of

NOON = 1_770_000_000.0
Json = dict[str, Any]
TOOL = {"name": "search", "description": "Finds things. " * 200, "input_schema": {"type": "object"}, "origin": "code"}


def run_line(id_: str, *messages: Json, **more: Any) -> Json:
    return {"id": id_, "model": "claude-sonnet-5", "domain": "desk", "system": "Be kind. " * 300, "tools": [TOOL],
            "messages": [*messages], **more}  # fmt: skip


def said(role: str, content: str | None, **more: Any) -> Json:
    return {"role": role, "content": content, **more}


def asked(*ids: str, **more: Any) -> Json:
    calls = [{"id": id_, "type": "function", "function": {"name": "search", "arguments": '{"q": 1}'}} for id_ in ids]
    return said("assistant", None, tool_calls=calls, **more)


def result(id_: str) -> Json:
    return said("tool", "found it " * 20, tool_call_id=id_)


def write(path: Path, lines: Iterable[Json]) -> Path:
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    return path


def source_of(tmp_path: Path, *lines: Json, rules: Rules | None = None) -> Source:
    (found,) = read([write(tmp_path / "desk.jsonl", lines)], rules or Rules(), ImportTally())
    return found


def kinds(run: Run, step: int) -> list[str]:
    segments = run.steps[step].prefix.prompt.segments
    return [f"{s.role}:{s.kind}" for s in segments if s.level == "messages"]


def grows(run: Run) -> bool:
    """Whether each prompt begins with the one before."""
    hashes = [step.prefix.hashes for step in run.steps]
    return all(now[: len(before)] == before for before, now in pairwise(hashes))


# --- agent runs with their bodies -------------------------------------------------------------------------------------


def test_each_reply_was_a_request_with_all_that_came_before(tmp_path: Path) -> None:
    """Results of parallel calls and the text after them are one user message."""
    messages = [said("user", "Hello"), asked("1", "2"), result("1"), result("2"), said("user", "well?")]
    (run,) = source_of(tmp_path, run_line("r", *messages, said("assistant", "Yes"))).runs
    assert len(run.steps) == 2
    assert kinds(run, 0) == ["user:text"]
    assert kinds(run, 1) == [
        "user:text", "assistant:tool_use", "assistant:tool_use", "user:tool_result", "user:tool_result", "user:text"
    ]  # fmt: skip
    assert run.steps[1].prefix.prompt.messages == 3
    assert grows(run)
    assert run.workload == "agent desk"
    assert not run.inferred


def test_a_greeting_was_no_request_and_stands_behind_a_placeholder(tmp_path: Path) -> None:
    """A legal prompt begins with the user."""
    messages = [said("assistant", "How can I help?"), said("user", "Hello"), said("assistant", "Yes")]
    (run,) = source_of(tmp_path, run_line("r", *messages)).runs
    assert [kinds(run, i) for i in range(len(run.steps))] == [["user:text", "assistant:text", "user:text"]]


def test_tokens_match_recorded_totals_and_stay_what_they_were(tmp_path: Path) -> None:
    """What is new has what the total adds."""
    use = [{"prompt_tokens": n, "completion_tokens": 5} for n in (1000, 1300)]
    messages = [said("user", "Hello"), asked("1", usage=use[0]), result("1"), said("assistant", "Yes", usage=use[1])]
    (run,) = source_of(tmp_path, run_line("r", *messages)).runs
    first, second = run.steps
    assert (first.total, second.total) == (1000, 1300)
    assert second.tokens[: len(first.tokens)] == first.tokens
    assert first.recorded is not None
    assert first.recorded.read is None


def test_runs_without_times_say_so_and_those_with_times_keep_them(tmp_path: Path) -> None:
    """A request was sent when the message before it was complete."""
    bare = run_line("a", said("user", "Hello"), said("assistant", "Yes"))
    timed = run_line("b", said("user", "Hello", ts=NOON), said("assistant", "Yes", ts=NOON + 9))
    source = source_of(tmp_path, bare, timed)
    assert source.untimed == {0}
    assert (source.runs[1].steps[0].started, source.runs[1].steps[0].visible) == (NOON, NOON + 2.0)


def test_models_that_the_facts_do_not_know_are_replaced_and_named(tmp_path: Path) -> None:
    """And `model` replaces every one."""
    messages = [said("user", "Hello"), said("assistant", "Yes")]
    line = run_line("r", *messages, model="gpt-4o")
    assert source_of(tmp_path, line).models == (("gpt-4o", "claude-sonnet-5"),)
    chosen = source_of(tmp_path, run_line("r", *messages), rules=Rules(model="claude-opus-5"))
    assert chosen.models == (("claude-sonnet-5", "claude-opus-5"),)
    assert chosen.runs[0].steps[0].prefix.facts.min_tokens == 512


def test_rules_that_nobody_knows_are_refused() -> None:
    """At once, before anything is read."""
    with pytest.raises(UnknownModel):
        Rules(model="my-deployment")
    with pytest.raises(ConfigError):
        Rules(platform="mainframe")


def test_a_model_of_another_vendor_is_refused_as_such() -> None:
    """It is listed: what is missing is a model of its cache."""
    with pytest.raises(ConfigError, match=r"only Claude's cache is modelled: choose a Claude model .* 'gpt-6\.1-sol'"):
        Rules(model="gpt-6.1-sol")


VALUES = st.none() | st.booleans() | st.integers() | st.text(CHARACTERS, max_size=5) | st.floats(allow_nan=False)
ANYTHING = st.recursive(
    VALUES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(CHARACTERS, max_size=5), inner)
)
MESSAGES = st.fixed_dictionaries(
    {"role": st.sampled_from(["user", "assistant", "tool", "system"]) | ANYTHING},
    optional={
        "content": st.text(CHARACTERS, max_size=9) | ANYTHING,
        "tool_calls": st.lists(st.fixed_dictionaries({"function": ANYTHING}) | ANYTHING, max_size=2) | ANYTHING,
        "ts": st.just(NOON) | ANYTHING,
        "usage": st.fixed_dictionaries({"prompt_tokens": st.integers(0, 9999)}) | ANYTHING,
    },
)


@pytest.mark.slow
@given(
    messages=st.lists(MESSAGES | ANYTHING, max_size=6),
    more=st.dictionaries(st.sampled_from(["tools", "system", "meta", "model", "id", "domain"]), ANYTHING),
)
def test_whatever_a_line_holds_it_is_read_or_left_out(messages: list[Any], more: Json) -> None:
    """Never an exception; and what is read can be replayed."""
    line = json.dumps({**run_line("r"), "messages": messages, **more}).encode() + b"\n"
    found = read_runs([line], "odd", Rules(), ImportTally())
    for run in found.runs:
        assert all(step.total == step.tokens[-1] >= 0 for step in run.steps)
    accelerate(placed(found.runs, found.untimed, paces()[0], 0))


# --- usage alone ------------------------------------------------------------------------------------------------------


def used(read: int, written: int, plain: int = 10) -> Json:
    return {"input_tokens": plain, "cache_read_input_tokens": read, "cache_creation_input_tokens": written}


def conversation(id_: str, *usages: Json, gap: float = 10.0, **more: Any) -> Json:
    """A run of which only usage is to be trusted."""
    messages: list[Json] = []
    for i, usage in enumerate(usages):
        messages.append(said("user", "go on", ts=NOON + i * gap))
        messages.append(said("assistant", "Yes", usage=usage, ts=NOON + i * gap + 1))
    return run_line(id_, *messages, **more)


def test_text_that_cannot_have_been_the_prompt_gives_way_to_usage(tmp_path: Path) -> None:
    """A token is at least one byte; and tools that were inferred were not in the prompt."""
    small = conversation("small", used(0, 900), used(900, 100))
    large = conversation("large", used(0, 90_000), used(90_000, 100))
    inferred = conversation("inferred", used(0, 900), tools=[{**TOOL, "origin": "inferred"}])
    source = source_of(tmp_path, small, large, inferred)
    assert [run.inferred for run in source.runs] == [False, True, True]
    assert [step.total for step in source.runs[1].steps] == [90_010, 90_110]


def test_names_that_no_bytes_stand_for_are_names(tmp_path: Path) -> None:
    """A log may hold a lone surrogate anywhere."""
    (run,) = source_of(tmp_path, conversation("r\ud800", used(0, 90_000), used(90_000, 100))).runs
    assert [step.total for step in run.steps] == [90_010, 90_110]


def test_requests_whose_tokens_are_not_known_are_left_out_and_counted(tmp_path: Path) -> None:
    """A counter that cannot be, in the second of three."""
    usages = (used(0, 90_000), {**used(90_000, 100), "cache_creation_input_tokens": "x"}, used(90_100, 100))
    source = source_of(tmp_path, conversation("r", *usages))
    assert [len(run.steps) for run in source.runs] == [2]
    assert "requests: 1 left out, because their tokens are not known" in source.notes


def test_a_growing_history_grows(tmp_path: Path) -> None:
    """By a reply and a message."""
    usages = (used(50_000, 40_000), *(used(90_000 + 500 * i, 500) for i in range(3)))
    (run,) = source_of(tmp_path, conversation("r", *usages)).runs
    assert grows(run)
    assert kinds(run, 1) == ["user:text", "assistant:text", "user:text"]
    assert run.steps[0].tokens == (50_000, 90_010)


def test_a_cut_history_keeps_what_it_read(tmp_path: Path) -> None:
    """The head: tools and instructions."""
    (run,) = source_of(tmp_path, conversation("r", used(0, 90_000), used(90_000, 9_000), used(20_000, 15_000))).runs
    first, _, cut = run.steps
    assert cut.prefix.hashes[0] == first.prefix.hashes[0]
    assert cut.prefix.hashes[1] != first.prefix.hashes[1]
    assert (first.tokens, cut.tokens) == ((20_000, 90_010), (20_000, 27_505, 35_010))


@pytest.mark.parametrize(("gap", "changed"), [(10.0, True), (400.0, False)])
def test_a_short_read_is_a_changed_prompt_unless_a_pause_explains_it(tmp_path: Path, gap: float, changed: bool) -> None:
    """Entries of five minutes are gone after a longer pause."""
    usages = (used(20_000, 70_000), used(90_000, 1_000), used(20_000, 72_000))
    (run,) = source_of(tmp_path, conversation("r", *usages, gap=gap)).runs
    assert grows(run) is not changed


def test_a_read_of_nothing_says_nothing_of_the_prompt(tmp_path: Path) -> None:
    """Entries go all at once: evicted, or out of time."""
    (run,) = source_of(tmp_path, conversation("r", used(0, 90_000), used(0, 91_000))).runs
    assert grows(run)


def test_sessions_of_one_agent_share_a_head_of_one_size(tmp_path: Path) -> None:
    """One that shows none of its own has the least that is known of its workload."""
    lines = [conversation(id_, used(read, 50_000), used(60_000, 10_000)) for id_, read in (("a", 20_000), ("b", 0))]
    lines.append(conversation("c", used(0, 50_000), domain="office"))
    heads = [run.steps[0].prefix.hashes[0] for run in source_of(tmp_path, *lines).runs]
    assert heads[0] == heads[1]
    assert heads[2] not in heads[:2]


@given(totals=st.lists(st.tuples(st.integers(0, 99_999), st.integers(1, 99_999)), min_size=1, max_size=8))
def test_whatever_was_recorded_totals_hold(
    totals: list[tuple[int, int]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Cut, grown or neither: the prompt has as many tokens as were counted."""
    line = conversation("r", *(used(read, written) for read, written in totals), tools=[{**TOOL, "origin": "inferred"}])
    (run,) = source_of(tmp_path_factory.mktemp("runs"), line).runs
    assert [step.total for step in run.steps] == [read + written + 10 for read, written in totals]
    assert all(list(step.tokens) == sorted(step.tokens) for step in run.steps)


# --- other formats ----------------------------------------------------------------------------------------------------


def geometry(id_: str, *prompts: tuple[float, int, list[int]]) -> Json:
    requests = [
        {"t": t, "type": "n", "model": "claude-opus-4-5", "in": n, "out": 64, "hash_ids": ids, "api_time": 3.0}
        for t, n, ids in prompts
    ]
    return {"id": id_, "block_size": 64, "tool_tokens": 128, "system_tokens": 64, "requests": requests}


def test_prefix_traces_become_segments_that_part_where_their_blocks_do(tmp_path: Path) -> None:
    """Levels by their tokens, a reply by its own, and the end of the shared blocks by a cut."""
    value = geometry("g", (0, 330, [1, 2, 3, 4, 5]), (9, 540, [1, 2, 3, 4, 5, 6, 7, 8]), (20, 320, [1, 2, 3, 4, 9]))
    (tmp_path / "g.json.gz").write_bytes(gzip.compress(json.dumps(value).encode()))
    (source,) = read([tmp_path], Rules(), ImportTally())
    first, second, third = source.runs[0].steps
    assert [s.level for s in first.prefix.prompt.segments] == ["tools", "system", "messages", "messages"]
    assert first.tokens == (128, 192, 256, 330)
    assert second.tokens == (128, 192, 256, 320, 384, 540)
    assert [s.role for s in second.prefix.prompt.segments] == ["", "", "user", "user", "assistant", "user"]
    assert third.prefix.hashes[:3] == second.prefix.hashes[:3]
    assert third.prefix.hashes[3] != second.prefix.hashes[3]
    assert (third.started, third.recorded) == (20.0, None)


@pytest.mark.many(3)
@pytest.mark.parametrize("script", SCRIPTS)
def test_a_store_gives_back_the_prompts_that_were_sent(script: str, tmp_path: Path) -> None:
    """Where prompts part, how many tokens they had, and the user's own markers, without any content."""
    asks = SCRIPTS[script]()
    started, usages = live(asks, tmp_path)
    written = {run.id: run for run in runs_of(asks, started)}
    with open_reader(tmp_path / "trace.db") as store:
        kept = {run.id: run for run in runs_of_store(store)}
    assert kept.keys() == written.keys()
    for name, run in kept.items():
        original = written[name]
        assert run.workload == original.workload
        assert [step.total for step in run.steps] == [usage.input for usage in usages[name]]
        assert [step.marks for step in run.steps] == [step.marks for step in original.steps]
        assert [step.started for step in run.steps] == pytest.approx([step.started for step in original.steps])
        assert shape(run) == shape(original)


def test_a_replay_of_a_store_costs_what_was_recorded(tmp_path: Path) -> None:
    """Tokens inside a prompt are shares of its total, so to about a per cent."""
    asks = SCRIPTS["long_pause"]()
    live(asks, tmp_path)
    with open_reader(tmp_path / "trace.db") as store:
        runs = list(runs_of_store(store))
    replayed = [usage.read or 0 for usages in accelerate(runs).usages for usage in usages]
    recorded = [step.recorded.read or 0 for run in runs for step in run.steps if step.recorded is not None]
    assert replayed == pytest.approx(recorded, rel=0.01)


@pytest.mark.parametrize("snapshot", ["", "null", '{"alive":', '{"alive":[null,1]}'])
def test_what_a_session_once_believed_is_not_read_to_replay_it_or_to_advise(snapshot: str, tmp_path: Path) -> None:
    """One damaged row costs neither."""
    live(SCRIPTS["plain"](), tmp_path)
    path = tmp_path / "trace.db"
    with open_reader(path) as store:
        intact = [(run.workload, len(run.steps)) for run in runs_of_store(store)]
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("UPDATE sessions SET snapshot = ?", (snapshot,))
    with open_reader(path) as store:
        assert [(run.workload, len(run.steps)) for run in runs_of_store(store)] == intact
        assert [(talk.workload, len(talk.requests)) for talk in talks_of_store(store)] == intact


def shape(run: Run) -> list[list[int]]:
    """For every two prompts of a run, the segments that they begin with alike."""
    hashes = [step.prefix.hashes for step in run.steps]
    return [[sum(a == b for a, b in zip(one, other, strict=False)) for other in hashes] for one in hashes]


def test_a_request_that_was_not_answered_is_no_step(tmp_path: Path) -> None:
    """Nobody knows what it would have cost."""
    driver = Driver(tmp_path)
    first, second = (ask.request for ask in SCRIPTS["plain"]()[:2])
    driver.ask(first)
    turn = driver.accel.turn(second)
    turn.handle(Started(at=driver.clock.monotonic()))
    turn.handle(Failed(at=driver.clock.monotonic(), error="APIConnectionError"))
    driver.accel.close()
    assert len(driver.records) == 2
    with open_reader(driver.store) as store:
        (run,) = runs_of_store(store)
    assert len(run.steps) == 1


def test_files_are_told_apart_by_content_and_grouped_by_folder(tmp_path: Path) -> None:
    """What is in no known format is noted, and the others are read."""
    (tmp_path / "logs").mkdir()
    usage = {"input_tokens": 3, "cache_read_input_tokens": 0, "cache_creation_input_tokens": 9000}
    for name in ("one", "two"):
        message = {"id": name, "role": "assistant", "model": "claude-opus-4-6", "content": [], "usage": usage}
        stamp = "2026-11-21T10:00:00Z"
        line = {"type": "assistant", "sessionId": name, "uuid": name, "timestamp": stamp, "message": message}
        write(tmp_path / "logs" / f"{name}.jsonl", [line])
    write(tmp_path / "desk.jsonl", [run_line("r", said("user", "Hello"), said("assistant", "Yes"))])
    write(tmp_path / "other.jsonl", [{"event": 1}])
    (tmp_path / "notes.txt").write_text("not a trace")
    (tmp_path / "settings.json").write_text("{}")
    tally = ImportTally()
    found = read([tmp_path, tmp_path / "desk.jsonl"], Rules(), tally)
    assert [(one.name, len(one.runs), one.inferred) for one in found] == [("desk", 1, 0), ("logs", 2, 2)]
    assert [Path(name).name for name in tally.unrecognised] == ["other.jsonl", "settings.json"]
    with pytest.raises(TraceError):
        read([tmp_path / "nowhere"], Rules(), tally)


def test_requests_to_other_providers_are_left_out_and_counted(tmp_path: Path) -> None:
    """Chosen by us: only Claude's cache is modelled, and a table that left somebody out says so."""
    policy = Policy(strict=True, store=StorePolicy(path=tmp_path / "trace.db"))
    with Accel(policy, environ={}) as accel:
        for request, provider in (
            ({"model": "gpt-6.1-sol", "messages": [{"role": "user", "content": "Hi."}]}, "openai"),
            ({"model": "claude-sonnet-5", "messages": [{"role": "user", "content": "Hi."}]}, "anthropic"),
        ):
            turn = accel.turn(request, provider=provider)
            turn.handle(Started(0.0))
            turn.handle(Reported(usage=Usage(input=9, read=0, write={})))
            turn.handle(Finished(1.0))
    (source,) = read([tmp_path / "trace.db"], Rules(), ImportTally())
    assert [len(run.steps) for run in source.runs] == [1]
    assert source.notes == ("requests to openai: 1 left out, because only Claude's cache is modelled",)


def test_requests_of_our_own_are_left_out_and_counted(tmp_path: Path) -> None:
    """What was recorded cost more by them than the row says, so it is said beside it."""
    driver = Driver(tmp_path)
    driver.ask(body(user(prose(1500))))
    driver.accel.close()
    with closing(sqlite3.connect(tmp_path / "trace.db")) as connection, connection:
        connection.execute(
            "INSERT INTO turns SELECT 99, session, started + 60, tools, system, messages,"
            " json_set(record, '$.mode', 'keep-alive') FROM turns"
        )
    rules = Rules()
    with open_reader(tmp_path / "trace.db") as store:
        (run,) = runs_of_store(store, rules)
    assert len(run.steps) == 1
    (note,) = rules.left_out()
    assert note.startswith("requests of our own, which wrote or kept entries: 1 left out, because")

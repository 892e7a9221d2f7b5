"""The public test kit fails where it should, and says where."""

# ruff: noqa: F811 - a fixture that is imported, and asked for by its name

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import anthropic
import openai
import pytest

from agentaccel import TraceError
from agentaccel.report import report, to_json
from agentaccel.testing import ManualClock, assert_hit_rate, assert_no_new_cause, assert_prefix_stable
from agentaccel.testing.assertions import records_of
from agentaccel.testing.plugin import agentaccel_emulator  # noqa: F401 - also where plug-ins are not looked for
from agentaccel.testing.virtual import run
from agentaccel_emulator import Emulator, RunningServer, serve
from tests.driver import MODEL, Driver, assistant, body, loop, prose, tool, user


def test_a_growing_conversation_is_stable() -> None:
    """Markers may move."""
    mark = {"cache_control": {"type": "ephemeral"}}
    assert_prefix_stable(
        [body(user([{"type": "text", "text": "a", **mark}])), body(user("a"), assistant("b"), user("c"))]
    )


def test_a_change_is_named_with_its_place() -> None:
    """The twin: it bites."""
    with pytest.raises(AssertionError, match=r"request 2 leaves request 1 at messages\[0\]"):
        assert_prefix_stable([body(user("a")), body(user("a"), assistant("b")), body(user("x"), assistant("b"))])


def test_a_model_of_your_own_needs_a_known_name() -> None:
    """With what to do."""
    ours = [{**body(user("a")), "model": "prod"}] * 2
    with pytest.raises(AssertionError, match="pass model="):
        assert_prefix_stable(ours)
    assert_prefix_stable(ours, model="claude-sonnet-5")


def test_the_hit_rate_is_asserted_over_what_was_reported(tmp_path: Path) -> None:
    """And nothing reported is no hit."""
    driver = Driver(tmp_path)
    loop(driver, 6, system=prose(1200))
    assert_hit_rate(driver.records, at_least=0.7)
    with pytest.raises(AssertionError, match="at least 95 %"):
        assert_hit_rate(driver.records, at_least=0.95)
    with pytest.raises(AssertionError, match="no request reported"):
        assert_hit_rate([], at_least=0.1)


def test_an_agent_that_asked_nobody_is_not_stable(agentaccel_emulator: RunningServer) -> None:
    """The twin: one request is, and follows nothing. A refused request is none that was answered."""
    for nothing in (agentaccel_emulator, agentaccel_emulator.emulator, []):
        with pytest.raises(AssertionError, match="there is no request"):
            assert_prefix_stable(nothing)
    assert_prefix_stable([body(user("a"))])


def test_in_virtual_time_what_the_clock_was_asked_to_call_is_called_on_the_way() -> None:
    """Such as a request that keeps entries alive, in the middle of a pause of the agent's."""
    clock = ManualClock(now=0.0)
    called: list[float] = []

    async def main() -> float:
        clock.call_later(300.0, lambda: called.append(clock.now))
        await asyncio.sleep(1000.0)
        return clock.now

    assert run(main, clock) == pytest.approx(1000.0)
    assert called == [300.0]


def ask(client: Any, tools: int = 4, other: int | None = None, system: str = prose(3000)) -> None:
    """One request with so many tools; the one at `other` is described otherwise."""
    listed = [{**tool(f"t{i}"), "description": "new" if i == other else "old"} for i in range(tools)]
    block = {"type": "text", "text": system, "cache_control": {"type": "ephemeral"}}
    client.messages.create(model=MODEL, max_tokens=9, system=[block], tools=listed, messages=[user("Hi.")])


@pytest.fixture
def client(agentaccel_emulator: RunningServer) -> Iterator[Any]:
    with anthropic.Anthropic(base_url=agentaccel_emulator.url, api_key="any", max_retries=0) as client:
        yield client


def test_what_an_emulator_saw_is_asserted_of_it(
    agentaccel_emulator: RunningServer, client: Any, tmp_path: Path
) -> None:
    """Of four equal requests, the first writes and three read: the rate is three quarters of what is cached."""
    for _ in range(4):
        ask(client)
    first, *rest = (entry.usage for entry in agentaccel_emulator.log)
    assert first is not None
    rate = sum(one.read for one in rest if one is not None) / (4 * first.input)
    assert 0.7 < rate < 0.75
    for subject in (agentaccel_emulator, agentaccel_emulator.emulator):
        assert_prefix_stable(subject)
        assert_hit_rate(subject, at_least=rate)
        with pytest.raises(AssertionError, match="at least 76 %"):
            assert_hit_rate(subject, at_least=0.76)


def test_a_tool_that_changes_is_named_with_both_texts(agentaccel_emulator: RunningServer, client: Any) -> None:
    """By its place in the list; a refused request is none that the next one follows."""
    ask(client)
    ask(client, other=3)
    with pytest.raises(AssertionError) as found:
        assert_prefix_stable(agentaccel_emulator)
    place, before, now = str(found.value).splitlines()
    assert place.startswith("request 1 leaves request 0 at tools[3]")
    assert "old" in before
    assert "new" in now


def test_a_tool_that_goes_is_named_by_the_place_where_it_stood(agentaccel_emulator: RunningServer, client: Any) -> None:
    ask(client, tools=4)
    ask(client, tools=3)
    with pytest.raises(AssertionError, match=r"at tools\[3\]: changed tool set \(removed t3\)"):
        assert_prefix_stable(agentaccel_emulator)


def test_conversations_are_told_apart_where_the_test_says_how(agentaccel_emulator: RunningServer, client: Any) -> None:
    """Two agents in turn are two stable conversations, and one that leaves itself each time."""
    for system in ("a", "b") * 2:
        ask(client, system=system * 9000)
    with pytest.raises(AssertionError, match="request 1 leaves request 0 at system"):
        assert_prefix_stable(agentaccel_emulator)
    assert_prefix_stable(agentaccel_emulator, conversation=lambda request: request["system"][0]["text"][0])


def test_requests_of_openai_are_compared_as_what_they_are() -> None:
    """A system message there is one of the messages."""
    pair = [
        {"model": "gpt-6-sol", "messages": [{"role": "system", "content": text}, user("Hi.")]} for text in ("a", "b")
    ]
    with pytest.raises(AssertionError, match=r"at messages\[0\]\.content, byte 0"):
        assert_prefix_stable(pair)


def test_a_server_of_no_known_model_has_the_rules_of_its_platform() -> None:
    """As the emulator was told; what the second request begins with is what the first one was."""
    with (
        serve(Emulator(platform="vllm")) as server,
        openai.OpenAI(base_url=f"{server.url}/v1", api_key="any", max_retries=0) as client,
    ):
        for asked in ("a", "b"):
            client.chat.completions.create(model="qwen", messages=[{"role": "system", "content": prose(900) + asked}])
        with pytest.raises(AssertionError, match=r"request 1 leaves request 0 at messages\[0\]\.content"):
            assert_prefix_stable(server)
        assert {record.platform for record in records_of(server)} == {"vllm"}


def test_a_request_whose_history_the_provider_holds_is_not_compared(agentaccel_emulator: RunningServer) -> None:
    """It goes on from that by definition, and says nothing of it."""
    with openai.OpenAI(base_url=f"{agentaccel_emulator.url}/v1", api_key="any", max_retries=0) as client:
        first = client.responses.create(model="gpt-6-sol", input="Hi.")
        client.responses.create(model="gpt-6-sol", input="And then?", previous_response_id=first.id)
        assert_prefix_stable(agentaccel_emulator)
        client.responses.create(model="gpt-6-sol", input="Something else.")
    with pytest.raises(AssertionError, match="request 2 leaves request 1"):
        assert_prefix_stable(agentaccel_emulator)


def test_a_cause_that_the_baseline_does_not_have_fails(
    agentaccel_emulator: RunningServer, client: Any, tmp_path: Path
) -> None:
    """A baseline in which nothing was missed but first requests, and a prompt that changes since."""
    baseline = tmp_path / "baseline.json"
    ask(client)
    ask(client)
    baseline.write_text(json.dumps(to_json(report(records_of(agentaccel_emulator)))))
    assert_no_new_cause(agentaccel_emulator, baseline)
    ask(client, other=0)
    with pytest.raises(AssertionError, match="new causes of misses: prompt changed"):
        assert_no_new_cause(agentaccel_emulator, baseline)
    with pytest.raises(TraceError, match="cannot be read"):
        assert_no_new_cause(agentaccel_emulator, tmp_path / "nowhere.json")


def test_what_an_accel_or_its_store_has_recorded_is_asserted_of_it(tmp_path: Path) -> None:
    driver = Driver(tmp_path)
    loop(driver, 6, system=prose(1200))
    for subject in (driver.accel, tmp_path / "trace.db", str(tmp_path / "trace.db")):
        assert_hit_rate(subject, at_least=0.7)
        with pytest.raises(AssertionError):
            assert_hit_rate(subject, at_least=0.95)


PLUGIN = """
import sys
import pytest
code = pytest.main(["-q", "--fixtures", "-p", "no:cacheprovider", *sys.argv[1:]])
loaded = sorted(name for name in sys.modules if name.startswith("agentaccel"))
print(int(code), loaded, "anthropic" in sys.modules, "orjson" in sys.modules)
"""


@pytest.mark.slow
def test_pytest_finds_the_plug_in_which_loads_nothing_until_a_test_asks_for_it(tmp_path: Path) -> None:
    """By the entry point that an installation of agentaccel has, in a suite that does not use it."""
    root = Path(__file__).parent.parent
    declared = tomllib.loads((root / "pyproject.toml").read_text())["project"]["entry-points"]["pytest11"]
    installed = tmp_path / "site" / "made_up-0.dist-info"
    installed.mkdir(parents=True)
    (installed / "METADATA").write_text("Metadata-Version: 2.1\nName: made-up\nVersion: 0\n")
    there = {point.name: point.value for point in entry_points(group="pytest11")}
    if there.items().isdisjoint(declared.items()):  # else pytest would find the module twice
        points = "\n".join(f"{name} = {module}" for name, module in declared.items())
        (installed / "entry_points.txt").write_text(f"[pytest11]\n{points}\n")
    (tmp_path / "suite").mkdir()
    paths = {"PYTHONPATH": os.pathsep.join((str(root), str(tmp_path / "site")))}
    command = [sys.executable, "-W", "ignore", "-c", PLUGIN, str(tmp_path / "suite")]
    done = subprocess.run(
        command, cwd=tmp_path / "suite", env={**os.environ, **paths}, capture_output=True, text=True, timeout=60
    )
    for name in ("agentaccel_emulator", "assert_hit_rate", "assert_prefix_stable", "assert_no_new_cause"):
        assert f"\n{name}" in done.stdout
    loaded = "['agentaccel', 'agentaccel.testing', 'agentaccel.testing.plugin']"
    assert done.stdout.splitlines()[-1].endswith(f" {loaded} False False")

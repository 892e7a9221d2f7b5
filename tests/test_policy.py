"""Bad settings get a clear error where they are written."""

from __future__ import annotations

import asyncio
import contextvars
import logging
from pathlib import Path
from typing import Any

import pytest

from agentaccel import (
    Accel,
    CachePlan,
    CachePolicy,
    ConfigError,
    HistoryPolicy,
    Policy,
    SessionClosedError,
    StorePolicy,
    ToolPolicy,
)
from agentaccel.engine.scope import current
from agentaccel.policy import from_environment
from agentaccel.store.store import open_reader


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: Policy(mode="fast"), "'on', 'observe', 'off'"),  # type: ignore[arg-type]
        (lambda: Policy(holdout=1.0), "from 0 up to"),
        (lambda: Policy(holdout=-0.1), "from 0 up to"),
        (lambda: CachePolicy(ttl="2h"), "'5m'"),
        (lambda: StorePolicy(max_bytes=10), "1 MiB"),
        (lambda: ToolPolicy(timeout=0), "above 0"),
        (lambda: ToolPolicy(concurrency=-1), "at least 0"),
        (lambda: ToolPolicy(max_concurrent={"search": 0}), "at least 1"),
        (lambda: ToolPolicy(remote_guesses="search"), "a tuple of names"),  # type: ignore[arg-type]
        (lambda: ToolPolicy(remote_guesses=("https://a.example.com/x",)), "a tuple of names"),
        (lambda: ToolPolicy(effects={"search": "harmless"}), "'read_local'"),
        (lambda: Policy(prices={"m": {}}), "USD per million"),
        (lambda: Policy(prices={"m": {"input": -1}}), "USD per million"),
        (lambda: Policy(prices={"m": {"inputs": 1}}), "USD per million"),
        (lambda: Policy(prices={"m": {"input": 3, "write": 3}}), "by lifetime"),
        (lambda: Policy(prices={"m": {"input": 3, "write": {"5min": 3}}}), "5m, 1h"),
        (lambda: Policy(prices={"m": {"input": {"5m": 3}}}), "USD per million"),
        (lambda: Policy(aliases={"prod": "no-such-model"}), "no-such-model"),
    ],
)
def test_a_setting_that_cannot_be_meant_says_what_to_do(make: Any, says: str) -> None:
    """At construction, never in the middle of a run."""
    with pytest.raises(ConfigError) as error:
        make()
    assert says in str(error.value)


@pytest.mark.parametrize("value", ["false", "", 0, 1, None, [True]])
@pytest.mark.parametrize(
    ("make", "name"),
    [
        (CachePolicy, "move_volatile"),
        (CachePolicy, "keep_alive"),
        (HistoryPolicy, "clear_results"),
        (ToolPolicy, "speculate"),
        (StorePolicy, "content"),
        (Policy, "strict"),
    ],
)
def test_nothing_but_true_is_a_consent(make: Any, name: str, value: object) -> None:
    """A setting that was read from a file or from the environment is often a string, and "false" is true."""
    with pytest.raises(ConfigError, match=rf"{name} is .*; give True or False"):
        make(**{name: value})


@pytest.mark.parametrize("part", ["cache", "history", "tools", "store"])
@pytest.mark.parametrize("value", [{}, None, "trace.db", True])
def test_settings_of_a_part_are_a_policy_of_that_part(part: str, value: object) -> None:
    """A dict in their place would be noticed by the first request, and cost every plan."""
    with pytest.raises(ConfigError, match=rf"Policy\.{part} is .*; give {part}=\w+Policy"):
        Policy(**{part: value})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("make", "names"),
    [
        (Policy, ("holdout", "aliases", "prices")),
        (CachePolicy, ("own_requests_budget", "max_wait", "cost_per_second", "pinned")),
        (HistoryPolicy, ("keep_results", "pinned_tools", "distil_from", "summarise_from")),
        (ToolPolicy, ("effects", "remote_guesses", "max_age", "timeout", "concurrency", "depth")),
        (ToolPolicy, ("max_concurrent", "rate_limits", "max_result_bytes")),
        (StorePolicy, ("max_bytes", "sensitive")),
    ],
)
@pytest.mark.parametrize("value", [None, "x", b"x", True, float("nan"), -1, object(), print])
def test_a_value_of_another_kind_cannot_be_meant(make: Any, names: tuple[str, ...], value: Any) -> None:
    """Whatever it is, its field is named where it is written."""
    for name in names:
        with pytest.raises(ConfigError, match=name):
            make(**{name: value})


@pytest.mark.parametrize("value", ["", 5, True, b"trace.db"])
def test_the_path_of_a_store_is_a_path(value: Any) -> None:
    """Where nobody looked, a store would lie at a place that nobody meant."""
    with pytest.raises(ConfigError, match=r"StorePolicy\.path"):
        StorePolicy(path=value)


def test_places_that_are_pinned_can_be_read_more_than_once() -> None:
    """A generator would be empty after the look at it, and pin nothing."""
    with pytest.raises(ConfigError, match="tuple of places"):
        CachePolicy(pinned=(name for name in ("tools", "system")))  # type: ignore[arg-type]
    assert list(CachePolicy(pinned=["tools"]).pinned) == ["tools"]  # type: ignore[arg-type]


@pytest.mark.parametrize("policy", ["observe", {"mode": "observe"}])
def test_an_accel_takes_a_policy_and_nothing_else(policy: Any) -> None:
    """With what to write in its place."""
    with pytest.raises(ConfigError, match=r"Accel\(Policy\(mode='observe'\)\)"):
        Accel(policy)


@pytest.mark.parametrize("tools", [5, None, print])
def test_a_single_function_is_no_table_of_tools(tools: Any) -> None:
    """Functions come by name or in a list."""
    accel = Accel(Policy(store=StorePolicy(enabled=False)))
    with pytest.raises(ConfigError, match="a dict of functions by name, or a list"):
        accel.tools(tools)


@pytest.mark.parametrize("hook", [5, None, asyncio.sleep])
def test_a_hook_is_a_plain_function_or_has_both_methods(hook: Any) -> None:
    """Another one would fail at the first request, and nobody awaits what a coroutine function returns."""
    accel = Accel(Policy(store=StorePolicy(enabled=False)))
    with pytest.raises(ConfigError, match="begins and ended"):
        accel.add_hook(hook)
    with pytest.raises(ConfigError, match="begins and ended"):
        Accel(hooks=[hook], environ={"AGENTACCEL_DISABLE": "1"})


def test_hooks_are_given_as_a_list() -> None:
    with pytest.raises(ConfigError, match="hooks is a list of functions"):
        Accel(hooks=print, environ={"AGENTACCEL_DISABLE": "1"})  # type: ignore[arg-type]


@pytest.mark.parametrize("part", ["cache", "history", "tools", "store"])
def test_a_part_of_a_policy_is_told_where_it_goes(part: str) -> None:
    """`Accel(CachePolicy(…))` is the likely mistake."""
    given: Any = getattr(Policy(), part)
    with pytest.raises(ConfigError, match=rf"wrap it in Policy\({part}=…\)"):
        Accel(given)


async def test_an_accel_is_left_without_blocking_the_event_loop(tmp_path: Path) -> None:
    """`async with` waits in a thread: a task of the loop that the closing waits for can end meanwhile."""
    steps: list[str] = []

    async def lasting() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            steps.append("ended")

    async with Accel(Policy(store=StorePolicy(path=tmp_path / "trace.db")), environ={}) as accel:
        assert accel.tools({"look": lambda: 7})["look"]() == 7
        accel._background.spawn("s", lasting, contextvars.copy_context())
        await asyncio.sleep(0)
    steps.append("left")
    assert steps == ["ended", "left"]
    with open_reader(tmp_path / "trace.db") as reader:
        assert [one.name for one in reader.tools()] == ["look"]


@pytest.mark.parametrize("value", ["maybe", "enabled", "2"])
def test_a_switch_that_cannot_be_meant_is_not_taken_for_off(value: str) -> None:
    """Whoever sets it wants agentaccel out of the way, and is told where it would not be."""
    with pytest.raises(ConfigError, match="AGENTACCEL_DISABLE"):
        from_environment(Policy(), {"AGENTACCEL_DISABLE": value})


@pytest.mark.parametrize("value", ["", "0", "false", "No", " off "])
def test_a_switch_that_is_off_disables_nothing(value: str) -> None:
    """In the words in which one may be set."""
    assert from_environment(Policy(), {"AGENTACCEL_DISABLE": value}).mode == "on"


def test_where_it_is_off_a_plan_adds_nothing() -> None:
    """For people with their own HTTP, too."""
    request = {"model": "claude-sonnet-5", "max_tokens": 9, "system": "word " * 9000, "messages": []}
    off = Accel(Policy(), environ={"AGENTACCEL_DISABLE": "1"})
    assert off.plan(request).apply(request) is request
    assert off.plan({"model": "gpt-6.1-sol", "input": "hi"}, provider="openai").wire == "responses"


def test_who_serves_a_model_need_not_be_said() -> None:
    """The model's name, an alias or the platform tells; and where one was named that does not, the plan says so."""
    request = {"model": "gpt-6.1-sol", "input": "word " * 9000}
    accel = Accel(Policy(store=StorePolicy(enabled=False), aliases={"prod": "gpt-6.1-sol"}))
    named = accel.plan(request, provider="openai")
    assert accel.plan(request) == named
    assert accel.plan({**request, "model": "prod"}).wire == "responses"
    assert accel.plan({"model": "qwen", "messages": []}, platform="vllm").wire == "chat"
    wrong = accel.plan({"model": "gpt-6.1-sol", "messages": []}, provider="anthropic")
    assert "'anthropic' does not serve model 'gpt-6.1-sol'" in wrong.reasons[0]


def test_a_plan_of_another_request_is_refused_in_words() -> None:
    """What it points at is not there."""
    accel = Accel(Policy(store=StorePolicy(enabled=False)))
    hello = [{"role": "user", "content": "hi"}]
    plan = accel.plan({"model": "claude-sonnet-5", "max_tokens": 9, "system": "word " * 9000, "messages": hello})
    with pytest.raises(ConfigError, match="made for another request: plan the one that you send"):
        plan.apply({"model": "claude-sonnet-5", "messages": hello})


def test_the_environment_overrides_the_code() -> None:
    """Operators can switch without a deployment."""
    assert from_environment(Policy(), {"AGENTACCEL_MODE": "observe"}).mode == "observe"
    assert from_environment(Policy(), {"AGENTACCEL_STORE": "/x/y.db"}).store.path == "/x/y.db"
    assert from_environment(Policy(mode="on"), {"AGENTACCEL_DISABLE": "1"}).mode == "off"
    assert from_environment(Policy(), {"AGENTACCEL_DISABLE": "0"}).mode == "on"
    with pytest.raises(ConfigError, match="AGENTACCEL_MODE"):
        from_environment(Policy(), {"AGENTACCEL_MODE": "fast"})


def test_the_environment_that_is_given_says_what_is_logged() -> None:
    """As it says everything else."""
    log = logging.getLogger("agentaccel")
    before, level = list(log.handlers), log.level
    try:
        Accel(environ={"AGENTACCEL_LOG": "debug", "AGENTACCEL_DISABLE": "1"})
        assert log.level == logging.DEBUG
    finally:
        log.handlers[:], log.level = before, level


def test_where_it_is_off_nothing_that_the_environment_says_wrong_is_in_the_way() -> None:
    """Who switches it off wants his program to run."""
    accel = Accel(environ={"AGENTACCEL_LOG": "loud", "AGENTACCEL_MODE": "fast", "AGENTACCEL_DISABLE": "1"})
    assert accel.policy.mode == "off"


def test_a_level_of_the_log_that_there_is_none_of_is_refused() -> None:
    """Nobody would miss the lines that never come."""
    with pytest.raises(ConfigError, match="AGENTACCEL_LOG is 'loud'; set it to debug, info or warning"):
        Accel(environ={"AGENTACCEL_LOG": "loud"})


def test_a_plan_is_applied_to_a_request_body() -> None:
    """A JSON body as a dict, and nothing else."""
    with pytest.raises(ConfigError, match="the JSON body as a dict; got CachePlan"):
        CachePlan().apply(CachePlan())  # type: ignore[arg-type]


def test_the_plan_of_a_turn_is_not_applied_a_second_time() -> None:
    """The request of the turn's `Send` command has its markers already."""
    hello = [{"role": "user", "content": "hi"}]
    body = {"model": "claude-sonnet-5", "max_tokens": 9, "system": "word " * 9000, "messages": hello}
    with Accel(Policy(store=StorePolicy(enabled=False)), environ={}) as accel:
        turn = accel.turn(body)
        assert turn.plan.markers
        with pytest.raises(ConfigError, match="send the request of its Send command"):
            turn.plan.apply(body)


@pytest.mark.parametrize("name", ["", "a\nb", "x\ud800", None, 7])
def test_a_session_needs_a_name(name: Any, tmp_path: Path) -> None:
    """Names go into reports and rows."""
    accel = Accel(Policy(store=StorePolicy(enabled=False)))
    with pytest.raises(ConfigError, match="printable"):
        accel.session(name)


async def test_a_session_that_is_entered_twice_is_open_until_it_was_left_twice() -> None:
    """Also by two tasks, whichever leaves first."""
    with Accel(Policy(store=StorePolicy(enabled=False))) as accel:
        session = accel.session("s")
        with session:
            with session:
                pass
            assert not session.closed
            assert current.get().of(session.owner).session is session
        assert session.closed
        assert current.get().of(session.owner).session is None

        both, entered, first_left = accel.session("both"), asyncio.Barrier(2), asyncio.Event()

        async def inside(number: int) -> None:
            async with both:
                await entered.wait()
                if number:
                    await first_left.wait()
                    assert not both.closed
            assert current.get().of(session.owner).session is None
            first_left.set()

        await asyncio.gather(inside(0), inside(1))
        assert both.closed


def test_a_session_that_was_left_cannot_be_entered_again() -> None:
    """Opening it anew under the same id goes on."""
    accel = Accel(Policy(store=StorePolicy(enabled=False)))
    session = accel.session("s")
    with session:
        pass
    with pytest.raises(SessionClosedError, match="open it again"), session:
        pass
    with accel.session("s") as again:
        assert again.id == "s"


@pytest.mark.parametrize("client", [object(), "client", None])
def test_a_client_that_is_not_known_is_a_clear_error(client: Any) -> None:
    """With what can be wrapped, and what to do otherwise."""
    accel = Accel(Policy(store=StorePolicy(enabled=False)))
    with pytest.raises(ConfigError, match=r"accel\.turn"):
        accel.wrap(client)


@pytest.mark.parametrize(
    ("request_body", "provider", "says"),
    [
        ({"messages": []}, "nobody", "'anthropic'"),
        ([1], "anthropic", "dict"),
        ({"messages": iter([])}, "anthropic", "read only once"),
    ],
)
def test_a_request_that_is_none_is_a_clear_error(request_body: Any, provider: str, says: str) -> None:
    """For people with their own HTTP."""
    accel = Accel(Policy(store=StorePolicy(enabled=False)))
    with pytest.raises(ConfigError) as error:
        accel.plan(request_body, provider=provider)
    assert says in str(error.value)


def test_an_unknown_platform_is_a_clear_error() -> None:
    """With the known ones."""
    accel = Accel(Policy(store=StorePolicy(enabled=False)))
    with pytest.raises(ConfigError, match="bedrock"):
        accel.plan({"model": "claude-sonnet-5", "messages": []}, platform="mainframe")

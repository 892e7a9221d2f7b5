"""Bad settings get a clear error where they are written."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from agentaccel import Accel, CachePolicy, ConfigError, Policy, SessionClosed, StorePolicy, ToolPolicy
from agentaccel.policy import from_environment


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
        (lambda: ToolPolicy(slots={"search": 0}), "at least 1"),
        (lambda: ToolPolicy(egress="search"), "a tuple of names"),  # type: ignore[arg-type]
        (lambda: ToolPolicy(effects={"search": "harmless"}), "'read_local'"),
        (lambda: Policy(prices={"m": {}}), "USD per million"),
        (lambda: Policy(prices={"m": {"input": -1}}), "USD per million"),
        (lambda: Policy(prices={"m": {"inputs": 1}}), "USD per million"),
        (lambda: Policy(aliases={"prod": "no-such-model"}), "no-such-model"),
    ],
)
def test_a_setting_that_cannot_be_meant_says_what_to_do(make: Any, says: str) -> None:
    """At construction, never in the middle of a run."""
    with pytest.raises(ConfigError) as error:
        make()
    assert says in str(error.value)


def test_the_environment_overrides_the_code() -> None:
    """Operators can switch without a deployment."""
    assert from_environment(Policy(), {"AGENTACCEL_MODE": "observe"}).mode == "observe"
    assert from_environment(Policy(), {"AGENTACCEL_STORE": "/x/y.db"}).store.path == "/x/y.db"
    assert from_environment(Policy(mode="on"), {"AGENTACCEL_DISABLE": "1"}).mode == "off"
    assert from_environment(Policy(), {"AGENTACCEL_DISABLE": "0"}).mode == "on"
    with pytest.raises(ConfigError, match="AGENTACCEL_MODE"):
        from_environment(Policy(), {"AGENTACCEL_MODE": "fast"})


@pytest.mark.parametrize("name", ["", "a\nb", "x\ud800", None, 7])
def test_a_session_needs_a_name(name: Any, tmp_path: Path) -> None:
    """Names go into reports and rows."""
    accel = Accel(Policy(store=StorePolicy(enabled=False)))
    with pytest.raises(ConfigError, match="printable"):
        accel.session(name)


def test_a_session_that_was_left_cannot_be_entered_again() -> None:
    """Opening it anew under the same id goes on."""
    accel = Accel(Policy(store=StorePolicy(enabled=False)))
    session = accel.session("s")
    with session:
        pass
    with pytest.raises(SessionClosed, match="open it again"), session:
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

"""The hook below: failures stay in it, nobody listening is nothing done, and nothing of OpenTelemetry is loaded."""

from __future__ import annotations

import asyncio
import logging
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from agentaccel import Accel, Policy, StorePolicy, ToolRecord, TurnRecord
from agentaccel.hooks import HookList, Told
from agentaccel_emulator import serve
from tests.clients.wire import records
from tests.otel.scene import ASK, claude


class Broken:
    """Fails at one of its two moments."""

    def __init__(self, at: str) -> None:
        self.at = at

    def begins(self, at: float, tool: str | None) -> object:
        if self.at == "begins":
            raise RuntimeError("of ours")
        return None

    def ended(self, began: object, told: Told | None) -> None:
        raise RuntimeError("of ours")


class Kept:
    """Keeps what it is told."""

    def __init__(self) -> None:
        self.told: list[tuple[object, Told | None]] = []

    def begins(self, at: float, tool: str | None) -> object:
        return tool or "a request"

    def ended(self, began: object, told: Told | None) -> None:
        self.told.append((began, told))


@pytest.mark.parametrize("at", ["begins", "ended"])
def test_a_listener_that_fails_costs_one_log_line(tmp_path: Path, caplog: pytest.LogCaptureFixture, at: str) -> None:
    """The caller's replies and results are what they are, others are told, and the store has its rows."""
    kept = Kept()
    with serve() as server, Accel(Policy(store=StorePolicy(path=tmp_path / "trace.db"))) as accel:
        accel.add_hook(kept)
        accel.add_hook(Broken(at))
        with accel.wrap(claude(server)) as client, caplog.at_level(logging.WARNING, "agentaccel"):
            for _ in range(2):
                client.messages.create(**ASK)
            assert accel.tools({"look": lambda: 7})["look"]() == 7
    assert len(caplog.records) == 1
    assert "listener failed" in caplog.text
    assert [began for began, _ in kept.told] == ["a request", "a request", "look"]
    assert len(records(tmp_path)) == 2


@pytest.mark.parametrize("at", ["begins", "ended"])
def test_strict_raises_it(tmp_path: Path, at: str) -> None:
    """For tests."""
    with Accel(Policy(strict=True, store=StorePolicy(path=tmp_path / "trace.db"))) as accel:
        accel.add_hook(Broken(at))
        with pytest.raises(RuntimeError, match="of ours"):
            accel.tools({"look": lambda: 7})["look"]()


def test_a_listener_is_told_what_the_store_keeps(tmp_path: Path) -> None:
    """The very record, the id and model that the reply names, and where the request went."""
    kept = Kept()
    with serve() as server, Accel(Policy(strict=True, store=StorePolicy(path=tmp_path / "trace.db"))) as accel:
        accel.add_hook(kept)
        with accel.wrap(claude(server)) as client:
            reply = client.messages.create(**ASK)
        port = int(server.url.rpartition(":")[2])
    [(_, told)] = kept.told
    assert told is not None
    assert (told.id, told.model, told.server) == (reply.id, reply.model, ("127.0.0.1", port))
    assert [told.record] == records(tmp_path)


def test_a_plain_function_is_a_hook(tmp_path: Path) -> None:
    """It is called with each request and each tool run once it has ended."""
    told: list[Told] = []
    policy = Policy(strict=True, store=StorePolicy(path=tmp_path / "trace.db"))
    with serve() as server, Accel(policy, hooks=[told.append]) as accel, accel.wrap(claude(server)) as client:
        reply = client.messages.create(**ASK)
        accel.tools({"look": lambda: 7})["look"]()
    assert [type(one.record) for one in told] == [TurnRecord, ToolRecord]
    assert told[0].id == reply.id


def test_the_former_name_of_a_hook_says_so() -> None:
    kept: Any = Kept()
    with Accel(Policy(store=StorePolicy(enabled=False))) as accel:
        with pytest.warns(DeprecationWarning, match=r"Accel\.listen is now Accel\.add_hook, or Accel\(hooks="):
            accel.listen(kept)
        accel.tools({"look": lambda: 7})["look"]()
    assert [began for began, _ in kept.told] == ["look"]


def test_without_listeners_nothing_is_noted() -> None:
    """One look at an empty tuple."""
    assert HookList().begins(0.0) is None


def run(code: str) -> str:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout


@pytest.mark.slow
def test_opentelemetry_is_loaded_by_export_and_by_nothing_else() -> None:
    """An agent that exports nothing does not pay for it."""
    code = "import sys, agentaccel, agentaccel.otel; agentaccel.Accel; print('opentelemetry' in sys.modules)"
    assert run(code).strip() == "False"


@pytest.mark.slow
def test_without_the_package_the_error_is_the_line_to_install_it() -> None:
    """Raised where it was asked for."""
    code = (
        "import sys; sys.modules['opentelemetry'] = sys.modules['opentelemetry.metrics'] = None\n"
        "import agentaccel, agentaccel.otel\n"
        "try:\n    agentaccel.otel.export(agentaccel.Accel(agentaccel.Policy(mode='off')))\n"
        "except agentaccel.MissingExtraError as error:\n    print(error)\n"
    )
    assert run(code).strip() == 'opentelemetry-api is not installed: pip install "agentaccel[otel]"'


def test_off_is_off(tmp_path: Path) -> None:
    """Nothing begins, so nobody is told."""
    kept: Any = Kept()
    with serve() as server, Accel(Policy(mode="off")) as accel, accel.wrap(claude(server)) as client:
        accel.add_hook(kept)
        client.messages.create(**ASK)
        accel.tools({"look": lambda: 7})["look"]()

        async def look() -> int:
            async with accel.session("s") as session:
                return await session.tool("look", {}, look_up)

        async def look_up() -> int:
            return 7

        assert asyncio.run(look()) == 7
    assert not kept.told

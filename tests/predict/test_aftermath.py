"""What an early run leaves behind, and what happens beside it: the agent's own work goes on as it would without it."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from agentaccel.effects.spec import NotProven
from agentaccel.executors import Folder
from agentaccel.policy import ToolPolicy
from agentaccel.tools.early import EarlyRuns
from tests.predict.scripted import Agent, call

EAGER = ToolPolicy(speculate=False)


class Office:
    """A tool that opens a worker on first use, which saves what is put in its queue with another tool."""

    def __init__(self, agent: Agent) -> None:
        self.queue: asyncio.Queue[tuple[str, asyncio.Future[str]]] | None = None
        self.worker: asyncio.Task[None] | None = None
        self._save = agent.writes("save", seconds=0.0)
        self.lookup = agent.accel.tool(name="lookup", effect="read_local", concurrent=True)(self._lookup)

    async def _lookup(self, q: str) -> str:
        if self.worker is None:
            self.queue = asyncio.Queue()
            self.worker = asyncio.create_task(self._work(self.queue))
        return q

    async def _work(self, queue: asyncio.Queue[tuple[str, asyncio.Future[str]]]) -> None:
        while True:
            job, done = await queue.get()
            try:
                done.set_result(await self._save(job))
            except Exception as error:  # noqa: BLE001 - for the one who waits
                done.set_exception(error)

    async def saved(self, job: str) -> str:
        done = asyncio.get_running_loop().create_future()
        assert self.queue is not None
        self.queue.put_nowait((job, done))
        found: str = await done
        return found


def test_a_worker_that_an_unused_run_left_behind_writes_once_its_tool_was_really_called() -> None:
    agent = Agent(EAGER)
    office = Office(agent)

    async def main() -> tuple[str, str]:
        await agent.model(call("lookup", q="1"))
        found = await office.lookup(q="2")
        return found, await office.saved("job")

    assert agent.run(main) == ("2", "done")


def test_before_that_it_writes_nothing_that_nobody_has_asked_for() -> None:
    """The twin: the guard stands."""
    agent = Agent(EAGER)
    office = Office(agent)

    async def main() -> None:
        await agent.model(call("lookup", q="1"))
        with pytest.raises(NotProven):
            await office.saved("job")

    agent.run(main)
    assert agent.state == {}


class Log:
    """A file that another program writes to whenever a run of `read_file` has begun."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.path, put = folder / "app.log", EarlyRuns.put
        self.path.write_text("one\n")

        def written(buffer: EarlyRuns, entry: Any) -> Any:
            self.path.write_text(self.path.read_text() + "more\n")
            return put(buffer, entry)

        monkeypatch.setattr(EarlyRuns, "put", written)


def test_what_another_program_writes_is_not_put_down_to_an_executor_of_ours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its result is stale; it is run early again, and its calls make nothing else stale."""
    agent, log = Agent(ToolPolicy(speculate=False, cache_results=False)), Log(tmp_path, monkeypatch)
    read = agent.accel.tools(Folder(tmp_path).tools())["read_file"]

    async def main() -> list[str]:
        found = []
        for _ in range(2):
            await agent.model(call("read_file", path="app.log"), gap=1.0)
            found.append(str(await read(path="app.log")))
            agent.answers(found[-1])
        return found

    agent.run(main)
    assert (agent.ledger.asked.launched, agent.ledger.asked.stale) == (2, 2)
    assert "more" in log.path.read_text()


def test_a_tool_of_the_user_s_that_changes_what_it_reads_is_not_run_early_again() -> None:
    """The twin: what it is said to do is all that is known of it."""
    agent = Agent(EAGER)
    look = agent.reads(validator=lambda arguments: len(agent.log))

    async def main() -> None:
        for _ in range(2):
            await agent.model(call("look", key="a"), gap=1.5)
            agent.answers(await look("a"))

    agent.run(main)
    assert agent.ledger.asked.launched == 1

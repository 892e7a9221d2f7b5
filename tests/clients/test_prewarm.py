"""What a session announces is written ahead: with consent, where the seconds won are worth it, and never in the way.

The real SDKs against the emulator, in virtual time. By its timing a cached prompt takes 0.3 s to the first byte; each
10,000 tokens that are not cached take a second more.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import anthropic
import httpx2
import openai
import pytest

from agentaccel import Accel, CachePolicy, Policy, Session, StorePolicy, TurnRecord
from agentaccel.records import PREWARM
from agentaccel.report import render_text, report
from agentaccel.store.store import open_reader
from agentaccel.testing import ManualClock
from agentaccel.testing.virtual import EmulatedTransport, run
from agentaccel_emulator import Emulator, serve
from tests.clients.branches import EXACT
from tests.driver import Json, assistant, prose, tool, user
from tests.engine.test_arranging import clocked

RULES: Json = {"model": "claude-sonnet-5", "system": prose(30_200), "tools": [tool("search", 600)]}
"""About 50,000 tokens."""
CONSENT: Json = {"prewarm": True}
BUDGETED: Json = {"thinking": {"type": "enabled", "budget_tokens": 1024}}


class Room:
    """One process in virtual time: a provider, an `Accel` with a store, and wrapped clients."""

    def __init__(self, folder: Path, *, cache: Json = CONSENT, faults: Any = None, **policy: Any) -> None:
        self.clock, self.path = ManualClock(), folder / "trace.db"
        self.emulator = Emulator(script=["Done."], faults=faults, behaviour=EXACT, clock=self.clock)
        store = StorePolicy(path=self.path)
        self.accel = Accel(Policy(strict=True, store=store, cache=CachePolicy(**cache), **policy), clock=self.clock)
        http = httpx2.AsyncClient(transport=EmulatedTransport(self.emulator, self.clock, set()))
        self.bare = anthropic.AsyncAnthropic(
            base_url="http://api.anthropic.com", api_key="k", http_client=http, max_retries=2
        )
        self.client = self.accel.wrap(self.bare)
        self.gpt = self.accel.wrap(
            openai.AsyncOpenAI(base_url="http://api.openai.com/v1", api_key="k", http_client=http, max_retries=2)
        )

    def run(self, main: Callable[[Room], Awaitable[None]]) -> list[TurnRecord]:
        """The records of what `main` has done."""

        async def whole() -> None:
            await main(self)
            assert asyncio.all_tasks() == {asyncio.current_task()}

        run(whole, self.clock)
        self.accel.close()
        with open_reader(self.path) as store:
            return list(store.turns())

    def announce(self, session: Session, **more: Any) -> None:
        session.prewarm(self.client.messages.create, **{**RULES, **more})

    async def ask(self, *messages: Json, **more: Any) -> float:
        """Seconds to the first byte of a reply, from when it was asked for."""
        began = self.clock.now
        asked = {"max_tokens": 99, **RULES, "messages": list(messages or [user("Where is order 7?")]), **more}
        async with self.client.messages.stream(**asked) as reply:
            first = 0.0
            async for _ in reply:
                first = first or self.clock.now - began
        return first

    @property
    def sent(self) -> list[Json]:
        """The requests that came to the provider."""
        return [dict(entry.request) for entry in self.emulator.log if entry.request is not None]

    @property
    def ahead(self) -> int:
        """Those of them that ask for no reply."""
        return sum(
            body.get("max_tokens") == 0 or (body.get("prompt_cache_options") or {}).get("prewarm", False)
            for body in self.sent
        )


async def once(room: Room, **more: Any) -> float:
    """A session that announces what it begins with, and asks half a minute later."""
    async with room.accel.session("s", agent="clerk") as session:
        room.announce(session, **more)
        await asyncio.sleep(30)
        return await room.ask(**more)


def test_what_was_announced_is_read(tmp_path: Path) -> None:
    """The first byte comes five seconds sooner; what was written is what the request reads, to the token."""
    firsts = []

    async def main(room: Room) -> None:
        firsts.append(await once(room))

    ours, asked = Room(tmp_path).run(main)
    assert firsts == [pytest.approx(0.3, abs=0.01)]
    assert ours.mode == PREWARM
    assert ours.consents == ("prewarm",)
    assert ours.usage.output == 0
    assert ours.usage.written == asked.usage.read
    assert asked.expected is not None
    assert asked.expected.read == asked.usage.read
    assert asked.as_written is not None
    assert asked.as_written.read == 0  # as the user wrote it, nothing would have been


def test_a_request_of_our_own_is_no_news_to_the_process_that_sent_it(tmp_path: Path) -> None:
    """What only this process knows of the session stays: here, what the prompt before looked like, piece by piece."""
    other = "x" * 100 + RULES["system"][100:]
    history = [user("Where is order 7?")]

    async def main(room: Room) -> None:
        async with room.accel.session("s", agent="clerk") as session:
            await room.ask(*history)
            history.extend((assistant("Done."), user("And 8?")))
            await asyncio.sleep(4000)
            room.announce(session, messages=history)
            await asyncio.sleep(30)
            await room.ask(*history, system=other)

    room = Room(tmp_path)
    _, ours, last = room.run(main)
    assert ours.mode == PREWARM
    assert last.drift is not None
    assert last.drift.bytes is not None


def test_without_consent_it_is_not(tmp_path: Path) -> None:
    """The twin: the same calls, nothing of our own is sent, and the first byte takes as long as it does."""
    firsts = []

    async def main(room: Room) -> None:
        firsts.append(await once(room))

    room = Room(tmp_path, cache={})
    assert [record.mode for record in room.run(main)] == ["on"]
    assert firsts == [pytest.approx(5.3, abs=0.05)]


def test_a_stub_stands_in_the_place_of_what_is_not_known(tmp_path: Path) -> None:
    """The API wants a message of the user's at the end; nothing is marked on it, and our markers stand before it."""

    async def main(room: Room) -> None:
        await once(room, cache_control={"type": "ephemeral"})

    room = Room(tmp_path)
    room.run(main)
    first = room.sent[0]
    assert first["messages"] == [user(".")]
    assert "cache_control" not in first
    assert first["system"][-1]["cache_control"] == {"type": "ephemeral"}
    assert room.emulator.log[1].usage is not None
    assert room.emulator.log[1].usage.read > 49_000


def test_while_a_tool_runs_what_stands_before_its_call_is_written(tmp_path: Path) -> None:
    """A call without its result is refused by the API, so what is sent ends before it; the rest is new anyway."""
    call = {"type": "tool_use", "id": "toolu_1", "name": "search", "input": {}}
    history = [user("Where is order 7?"), assistant([call])]

    async def main(room: Room) -> None:
        async with room.accel.session("s", agent="clerk") as session:
            room.announce(session, messages=history)
            await asyncio.sleep(30)
            result = user([{"type": "tool_result", "tool_use_id": "toolu_1", "content": prose(100)}])
            assert await room.ask(*history, result) < 0.4

    room = Room(tmp_path)
    ours, asked = room.run(main)
    assert (ours.outcome, ours.usage.written) == ("ok", asked.usage.read)
    assert [message["role"] for message in room.sent[0]["messages"]] == ["user"]


def test_what_consents_move_is_written_as_it_will_be_sent(tmp_path: Path) -> None:
    """Where the end is known, the arrangement is that of the request; with a stub nobody can tell, and none is sent."""
    tools, said = [tool("search", 30_200)], user(prose(2_000))

    async def main(room: Room) -> None:
        async with room.accel.session("s", agent="clerk") as session:
            room.announce(session, system=clocked(0, room.clock.now), tools=tools)
            await asyncio.sleep(30)
            assert room.sent == []
            room.announce(session, system=clocked(0, room.clock.now), tools=tools, messages=[said])
            await asyncio.sleep(30)
            assert await room.ask(said, system=clocked(0, room.clock.now), tools=tools) < 0.4

    room = Room(tmp_path, cache={**CONSENT, "move_volatile": True})
    room.run(main)
    assert room.ahead == 1


def test_a_history_that_has_expired_is_written_ahead(tmp_path: Path) -> None:
    """A person is back and types: what the session has said so far is warm again when they send it."""
    firsts = []

    async def main(room: Room) -> None:
        history = [user("Where is order 7?"), assistant(prose(4_000))]
        async with room.accel.session("s", agent="clerk") as session:
            firsts.append(await room.ask(history[0]))
            await asyncio.sleep(900)
            room.announce(session, messages=history)
            await asyncio.sleep(20)
            firsts.append(await room.ask(*history, user("And order 8?")))

    *_, asked = Room(tmp_path).run(main)
    assert firsts == [pytest.approx(5.3, abs=0.05), pytest.approx(0.3, abs=0.01)]
    assert (asked.usage.read or 0) > 52_000


# --- when nothing is sent ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("cache", "more"),
    [
        ({**CONSENT, "cost_per_second": 0.0}, {}),
        ({**CONSENT, "cost_per_second": 0.001}, {}),
        ({**CONSENT, "own_requests_budget": 0.1}, {}),
        (CONSENT, {"system": prose(50), "tools": []}),
        (CONSENT, {"model": "claude-haiku-4-5", "max_tokens": 2000, **BUDGETED}),
        (CONSENT, {"tool_choice": {"type": "any"}}),
    ],
    ids=["no gain", "too little gain", "budget", "below the minimum", "budgeted thinking", "forced tools"],
)  # fmt: skip
def test_what_does_not_pay_or_is_not_taken_is_not_sent(tmp_path: Path, cache: Json, more: Json) -> None:
    """Each has its twin in `test_what_was_announced_is_read`."""

    async def main(room: Room) -> None:
        await once(room, **more)

    room = Room(tmp_path, cache=cache)
    assert [record.outcome for record in room.run(main)] == ["ok"]
    assert room.ahead == 0


@pytest.mark.filterwarnings("ignore:The model")
def test_a_model_without_a_price_is_not_written_ahead(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """What it would cost nobody knows; one log line says so."""

    async def main(room: Room) -> None:
        async with room.accel.session("s") as session:
            for _ in range(2):
                room.announce(session, model="claude-mythos-preview")
                await asyncio.sleep(1)

    room = Room(tmp_path)
    with caplog.at_level(logging.WARNING, "agentaccel"):
        room.run(main)
    assert room.sent == []
    assert sum("no price is known" in line for line in caplog.messages) == 1


@pytest.mark.parametrize("other", ["s", "another"])
def test_what_is_held_is_not_written_again(tmp_path: Path, other: str) -> None:
    """By this session, or by another one of the process."""

    async def main(room: Room) -> None:
        async with room.accel.session(other, agent="clerk"):
            await room.ask()
        async with room.accel.session("s", agent="clerk") as session:
            room.announce(session)
            await asyncio.sleep(30)

    room = Room(tmp_path)
    room.run(main)
    assert len(room.sent) == 1


@pytest.mark.parametrize("cost_per_second", [0.01, 0.1])
def test_announced_twice_it_is_written_once(tmp_path: Path, cost_per_second: float) -> None:
    """Whether the first one is still on its way or has been answered, and however dear waiting is."""

    async def main(room: Room) -> None:
        async with room.accel.session("s") as session:
            for seconds in (0, 1, 30):
                room.announce(session)
                await asyncio.sleep(seconds)
            room.announce(session)

    room = Room(tmp_path, cache={**CONSENT, "cost_per_second": cost_per_second})
    room.run(main)
    assert room.ahead == len(room.sent) == 1


@pytest.mark.parametrize("policy", [{"mode": "observe"}, {"mode": "off"}, {"holdout": 0.999999}], ids=str)
def test_what_goes_out_as_written_is_not_written_ahead(tmp_path: Path, policy: Json) -> None:
    """Neither by observers, nor in the control group, nor with us switched off."""

    async def main(room: Room) -> None:
        async with room.accel.session("s") as session:
            room.announce(session)
            await asyncio.sleep(30)

    room = Room(tmp_path, **policy)
    run(lambda: _as_coroutine(main(room)), room.clock)
    assert room.sent == []


async def _as_coroutine(work: Awaitable[None]) -> None:
    await work


def test_nothing_is_sent_in_a_bypass_or_in_no_open_session(tmp_path: Path) -> None:
    """Whose it would be, nobody could say, nor when it ends."""

    async def main(room: Room) -> None:
        session = room.accel.session("s")
        room.announce(session)
        async with session:
            with room.accel.bypass():
                room.announce(session)
            await asyncio.sleep(1)
        room.announce(session)
        await asyncio.sleep(1)

    room = Room(tmp_path)
    room.run(main)
    assert room.sent == []


def test_what_would_send_a_request_is_not_called(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Methods of a bare client and others of a wrapped one; the caller sees one log line and no exception."""

    async def main(room: Room) -> None:
        async with room.accel.session("s") as session:
            session.prewarm(room.bare.messages.create, **RULES)
            session.prewarm(room.client.messages.count_tokens, **RULES)
            session.prewarm(room.client.messages.with_raw_response.create, **RULES)
            session.prewarm(room.gpt.chat.completions.create, model="gpt-6.1-sol", messages=[])
            session.prewarm(print)
            await asyncio.sleep(1)

    room = Room(tmp_path)
    with caplog.at_level(logging.WARNING, "agentaccel"):
        room.run(main)
    assert room.sent == []
    assert sum("prewarm takes" in line for line in caplog.messages) == 1


def test_a_request_that_was_signed_is_not_sent(tmp_path: Path) -> None:
    """Another body under the same signature would be a forged one."""

    async def main(room: Room) -> None:
        async with room.accel.session("s") as session:
            signed = {"authorization": "AWS4-HMAC-SHA256 Credential=x"}
            session.prewarm(
                room.gpt.responses.create, model="gpt-6.1-sol", input=[user(prose(30_200))], extra_headers=signed
            )
            await asyncio.sleep(1)

    room = Room(tmp_path)
    room.run(main)
    assert room.sent == []


def test_arguments_that_the_client_refuses_raise_nothing(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """What cannot be asked cannot be announced: it is logged, and the session goes on."""

    async def main(room: Room) -> None:
        async with room.accel.session("s") as session:
            session.prewarm(room.client.messages.create, nonsense=True)
            await asyncio.sleep(1)

    room = Room(tmp_path)
    room.run(main)
    assert room.sent == []
    assert sum("no pre-warming request could be made" in line for line in caplog.messages) == 1


def test_announcements_that_do_not_come_true_are_believed_less(tmp_path: Path) -> None:
    """Of the agent whose code announces in vain, those of its next sessions too; the first ones are lost."""

    async def main(room: Room) -> None:
        for number in range(6):
            async with room.accel.session(f"s{number}", agent="clerk") as session:
                room.announce(session)
                await asyncio.sleep(900)

    room = Room(tmp_path)
    room.run(main)
    assert 1 <= len(room.sent) <= 3


def test_a_session_learns_of_its_own_announcements(tmp_path: Path) -> None:
    """The same within one session."""

    async def main(room: Room) -> None:
        async with room.accel.session("s", agent="clerk") as session:
            for _ in range(6):
                room.announce(session)
                await asyncio.sleep(900)

    room = Room(tmp_path)
    room.run(main)
    assert 1 <= len(room.sent) <= 3


def test_announcements_that_come_true_go_on_being_believed(tmp_path: Path) -> None:
    """The twin."""

    async def main(room: Room) -> None:
        for number in range(6):
            async with room.accel.session(f"s{number}", agent="clerk") as session:
                room.announce(session)
                await asyncio.sleep(30)
                await room.ask()
            await asyncio.sleep(5000)  # longer than any entry lives

    room = Room(tmp_path)
    room.run(main)
    assert room.ahead == 6


# --- a request that comes meanwhile, and a session that is left -------------------------------------------------------


async def overtaken(room: Room) -> float:
    """The request comes a second after it was announced."""
    async with room.accel.session("s", agent="clerk") as session:
        room.announce(session)
        await asyncio.sleep(1)
        return await room.ask()


def test_a_request_that_comes_meanwhile_reads_what_is_being_written(tmp_path: Path) -> None:
    """It waits for what it would have to compute itself, and not longer: the prefix is written once."""
    firsts = []

    async def main(room: Room) -> None:
        firsts.append(await overtaken(room))

    ours, asked = Room(tmp_path).run(main)
    assert firsts == [pytest.approx(4.6, abs=0.05)]
    assert ours.usage.written == asked.usage.read
    assert asked.waited == pytest.approx(4.3, abs=0.05)


def test_with_holding_switched_off_it_goes_out_at_once(tmp_path: Path) -> None:
    """The twin: both write, as the policy says."""
    firsts = []

    async def main(room: Room) -> None:
        firsts.append(await overtaken(room))

    records = Room(tmp_path, cache={**CONSENT, "max_wait": 0.0}).run(main)
    assert firsts == [pytest.approx(5.3, abs=0.05)]
    assert [record.waited for record in records] == [None, None]
    assert all((record.usage.written or 0) > 49_000 for record in records)


def test_a_request_that_came_before_is_not_followed_by_it(tmp_path: Path) -> None:
    """Announced while it is on its way already: there is nothing to do."""

    async def main(room: Room) -> None:
        async with room.accel.session("s") as session, asyncio.TaskGroup() as group:
            asked = group.create_task(room.ask())
            await asyncio.sleep(1)
            room.announce(session)
            assert await asked == pytest.approx(5.3, abs=0.05)

    room = Room(tmp_path)
    room.run(main)
    assert room.ahead == 0


def test_leaving_the_session_ends_it(tmp_path: Path) -> None:
    """No task outlives it, and nobody waits for what was given up; the record says what became of it."""

    async def main(room: Room) -> None:
        async with room.accel.session("s") as session:
            room.announce(session)
            await asyncio.sleep(1)
        began = room.clock.now
        await room.ask()
        assert room.clock.now - began < 6.0

    ours, asked = Room(tmp_path).run(main)
    assert (ours.mode, ours.outcome) == (PREWARM, "cancelled")
    assert asked.waited is None


@pytest.mark.parametrize("kind", ["529", "timeout"])
def test_one_that_fails_is_not_tried_again_and_holds_nobody_for_long(tmp_path: Path, kind: str) -> None:
    """The client's retries are for what the agent asked; the agent's request goes its own way, and is answered."""
    firsts = []

    async def main(room: Room) -> None:
        firsts.append(await overtaken(room))

    room = Room(tmp_path, faults=[{"kind": kind, "at": 1}])
    records = {record.mode: record for record in room.run(main)}
    assert room.ahead == 1
    assert records["on"].outcome == "ok"
    assert records[PREWARM].outcome in ("failed", "cancelled")
    assert firsts[0] <= 10.0 + 5.4


def test_a_refusal_ends_it_for_good(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """One log line, no exception, and the agent's own requests go on."""

    async def main(room: Room) -> None:
        for name in ("a", "b"):
            async with room.accel.session(name) as session:
                room.announce(session, system="", max_tokens=5, tools=[tool("search", 30_000), tool("search", 900)])
                await asyncio.sleep(1)

    room = Room(tmp_path)
    with caplog.at_level(logging.WARNING, "agentaccel"):
        records = room.run(main)
    assert [(record.mode, record.status) for record in records] == [(PREWARM, 400)]
    assert sum("was refused with 400" in line for line in caplog.messages) == 1


@pytest.mark.parametrize("status", [429, 500, 529])
def test_a_refusal_of_the_moment_ends_that_one_alone(tmp_path: Path, status: int) -> None:
    """The twin: a rate limit, an error, a provider that is too busy. It is not tried again; what the next
    session announces is written ahead."""

    async def main(room: Room) -> None:
        for name in ("a", "b"):
            async with room.accel.session(name) as session:
                room.announce(session)
                await asyncio.sleep(30)

    room = Room(tmp_path, faults=[{"kind": str(status), "at": 1}])
    records = [record for record in room.run(main) if record.mode == PREWARM]
    assert [(record.outcome, record.status) for record in records] == [("failed", status), ("ok", 200)]


# --- the report, and other clients ------------------------------------------------------------------------------------


def test_the_report_counts_them_apart(tmp_path: Path) -> None:
    """In what was paid and in no other figure; with the rest they are all that the provider counted."""

    async def main(room: Room) -> None:
        await once(room)

    room = Room(tmp_path)
    made = report(room.run(main))
    total, ours = made.total, made.total.prewarmed
    usages = [entry.usage for entry in room.emulator.log if entry.usage is not None]
    assert (total.requests, ours.requests, total.kept.requests) == (1, 1, 0)
    assert total.tokens.input + ours.tokens.input == sum(usage.input for usage in usages)
    assert ours.usd == pytest.approx(0.1246, abs=0.001)
    assert total.costs.paid is not None
    assert total.costs.paid > ours.usd
    assert "pre-warming" in render_text(made)


def test_responses_of_openai_are_written_ahead_by_its_own_field(tmp_path: Path) -> None:
    """`prewarm`, where the provider has it; the input ends where what is known does."""
    rules = {"role": "developer", "content": [{"type": "input_text", "text": prose(30_200)}]}

    async def main(room: Room) -> None:
        async with room.accel.session("s", agent="gpt") as session:
            room_gpt = room.gpt.responses
            session.prewarm(room_gpt.create, model="gpt-6.1-sol", input=[rules])
            await asyncio.sleep(30)
            asked = [rules, {"role": "user", "content": "Where is order 7?"}]
            reply = await room_gpt.create(model="gpt-6.1-sol", input=asked)  # type: ignore[arg-type]
            assert reply.usage is not None
            assert reply.usage.input_tokens_details.cached_tokens > 40_000

    room = Room(tmp_path)
    ours, _ = room.run(main)
    assert ours.mode == PREWARM
    assert room.ahead == 1


def test_a_platform_that_is_not_known_to_take_it_is_not_asked(tmp_path: Path) -> None:
    """Azure has the same API, and nobody has documented the field there."""

    async def main(room: Room) -> None:
        azure = room.gpt.with_options(base_url="http://lamps.openai.azure.com/openai/v1")
        async with room.accel.session("s") as session:
            session.prewarm(azure.responses.create, model="gpt-6.1-sol", input=[user(prose(30_200))])
            await asyncio.sleep(1)

    room = Room(tmp_path)
    room.run(main)
    assert room.sent == []


@pytest.mark.parametrize("model", ["gpt-5.2", "gpt-6.1-sol"])
def test_where_openai_takes_none_nothing_is_sent(tmp_path: Path, model: str) -> None:
    """Older models keep every prefix and have no such field; nor has Chat Completions, which is not announced."""

    async def main(room: Room) -> None:
        async with room.accel.session("s") as session:
            if model == "gpt-5.2":
                session.prewarm(room.gpt.responses.create, model=model, input=prose(30_000))
            else:
                session.prewarm(room.gpt.chat.completions.create, model=model, messages=[user(prose(30_000))])
            await asyncio.sleep(1)

    room = Room(tmp_path, cache={**CONSENT, "cost_per_second": 1.0})
    room.run(main)
    assert room.sent == []


def test_a_synchronous_client_is_written_ahead_in_a_thread(tmp_path: Path) -> None:
    """Over sockets: the call returns at once, and the request that follows waits for what is being written."""
    with serve(clock=ManualClock(), behaviour=EXACT) as server:
        policy = Policy(strict=True, store=StorePolicy(path=tmp_path / "t.db"), cache=CachePolicy(prewarm=True))
        with (
            Accel(policy, clock=server.clock) as accel,
            accel.wrap(anthropic.Anthropic(base_url=server.url, api_key="k", max_retries=0)) as client,
            accel.session("s", agent="clerk") as session,
        ):
            session.prewarm(client.messages.create, **RULES)
            server.wait_for_calls(1)
            reply = client.messages.create(max_tokens=99, messages=[user("Where is order 7?")], **RULES)  # type: ignore[call-overload]
    assert reply.usage.cache_read_input_tokens > 49_000


def test_an_asynchronous_client_is_announced_on_its_event_loop(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Elsewhere there is nobody who could send it; one log line says so."""
    room = Room(tmp_path)
    with caplog.at_level(logging.WARNING, "agentaccel"), room.accel.session("s") as session:
        room.announce(session)
    assert room.sent == []
    assert sum("event loop" in line for line in caplog.messages) == 1

"""Every token that could have been read and was not is named, and the ledger says what surprised it."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path

import pytest

from agentaccel import Policy, TurnRecord, Usage
from agentaccel.cache.ledger import Breakpoint, CacheBill, Entry, Ledger
from agentaccel.cache.prefix import prefixes, scale
from agentaccel.cache.settle import misses_of
from agentaccel.cache.state import SessionState
from agentaccel.cache.teach import Sent
from agentaccel.engine.gate import Flight
from agentaccel.facts import cache_facts
from agentaccel.testing import ManualClock
from agentaccel.turn import Finished, Reported, Send, Started
from agentaccel.types import Cause, Expected
from agentaccel.wire.anthropic import decode
from agentaccel_emulator import Behaviour, Emulator, Tokenizer
from tests.driver import Driver, Json, assistant, body, loop, prose, tool, user

SYSTEM = prose(1200)
TOOLS = [tool("search", 500), tool("book", 400)]


@pytest.fixture
def driver(tmp_path: Path) -> Driver:
    return Driver(tmp_path)


def causes(record: TurnRecord) -> list[Cause]:
    return [miss.cause for miss in record.misses]


def grown(turns: int) -> list[Json]:
    messages = [user(prose(40))]
    for turn in range(turns):
        messages += [assistant(prose(30, turn)), user(prose(25, turn + 100))]
    return messages


def test_what_was_expected_is_what_the_provider_counts(driver: Driver) -> None:
    """On a plain loop the ledger is right to the token, because the provider's own counts calibrate it."""
    loop(driver, 6, system=SYSTEM, tools=TOOLS)
    for record in driver.records:
        assert record.expected is not None
        assert round(record.expected.read) == record.usage.read
        assert sum(record.expected.write.values()) == record.usage.written


def test_a_first_request_has_nothing_to_read(driver: Driver) -> None:
    """A cold start is a cause of its own, not a fault."""
    loop(driver, 2, system=SYSTEM)
    first, second = driver.records
    assert causes(first) == [Cause.FIRST]
    assert first.misses[0].tokens == first.usage.input
    assert causes(second) == []


def test_a_pause_beyond_the_lifetime_is_an_expiry(driver: Driver) -> None:
    """Named with the idle seconds."""
    driver.ask(body(*grown(0), system=SYSTEM))
    driver.ask(body(*grown(1), system=SYSTEM), gap=420.0)
    record = driver.records[-1]
    assert causes(record) == [Cause.EXPIRED]
    assert "422 s" in record.misses[0].detail
    assert record.misses[0].tokens == record.reusable


def test_a_clock_is_named_with_its_place_and_no_content_is_stored(driver: Driver, tmp_path: Path) -> None:
    """Must show 6: in a live session, from checksums alone."""
    for turn in range(3):
        driver.ask(body(*grown(turn), system=f"Secret policy. {SYSTEM} It is 2026-11-21 12:30:{turn:02d}. Go on."))
    record = driver.records[-1]
    assert causes(record) == [Cause.CHANGED]
    assert record.drift is not None
    assert (record.drift.where, record.drift.likely) == ("system", "clock")
    assert b"Secret policy" not in (tmp_path / "trace.db").read_bytes()


def test_reordered_tools_are_named(driver: Driver) -> None:
    """The same tools in another order are another prompt."""
    driver.ask(body(*grown(0), tools=TOOLS))
    driver.ask(body(*grown(1), tools=TOOLS[::-1]))
    record = driver.records[-1]
    assert causes(record) == [Cause.CHANGED]
    assert record.drift is not None
    assert record.drift.likely == "reordered tools"


def test_a_tool_that_came_in_is_named(driver: Driver) -> None:
    """By its name, which is no content."""
    driver.ask(body(*grown(0), tools=TOOLS))
    driver.ask(body(*grown(1), tools=[*TOOLS, tool("late")]))
    drift = driver.records[-1].drift
    assert drift is not None
    assert (drift.likely, drift.detail) == ("changed tool set", "added late")


def test_keys_in_another_order_are_noticed(driver: Driver) -> None:
    """Providers hash a prompt as it was sent."""
    turned = [dict(reversed(list(one.items()))) for one in TOOLS]
    driver.ask(body(*grown(0), tools=TOOLS))
    driver.ask(body(*grown(1), tools=turned))
    drift = driver.records[-1].drift
    assert drift is not None
    assert drift.likely == "key order"


def test_an_edited_history_is_named(driver: Driver) -> None:
    """With the message where it begins."""
    messages = grown(3)
    edited = [*messages[:2], user("[cleared]"), *messages[3:], assistant("ok"), user("go on")]
    with driver.accel.session("edited"):
        driver.ask(body(*messages, system=SYSTEM))
        driver.ask(body(*edited, system=SYSTEM))
    record = driver.records[-1]
    assert causes(record) == [Cause.CHANGED]
    assert record.drift is not None
    assert (record.drift.where, record.drift.likely) == ("messages[2].content", "edited history")


def test_another_model_reads_nothing(driver: Driver) -> None:
    """Caches are kept per model."""
    driver.ask(body(*grown(0), system=SYSTEM))
    driver.ask({**body(*grown(1), system=SYSTEM), "model": "claude-opus-5"})
    record = driver.records[-1]
    assert causes(record) == [Cause.MODEL]
    assert record.drift is not None
    assert record.drift.where == "model"


def test_a_changed_parameter_is_named_and_costs_only_its_levels(driver: Driver) -> None:
    """`tool_choice` breaks the messages and leaves tools and system."""
    messages = [user(prose(1500))]
    driver.ask(body(*messages, system=SYSTEM, tools=TOOLS))
    driver.ask(body(*messages, assistant("ok"), user("more"), system=SYSTEM, tools=TOOLS, tool_choice={"type": "any"}))
    record = driver.records[-1]
    assert causes(record) == [Cause.PARAMETER]
    assert record.misses[0].detail == "tool_choice"
    assert (record.usage.read or 0) > 1500


def test_a_parameter_that_is_not_rendered_costs_nothing(driver: Driver) -> None:
    """`max_tokens` and `metadata` are no part of the prompt."""
    driver.ask(body(*grown(0), system=SYSTEM))
    driver.ask({**body(*grown(1), system=SYSTEM), "max_tokens": 77, "metadata": {"user_id": "u"}})
    assert causes(driver.records[-1]) == []


def test_an_early_eviction_is_the_providers_doing(tmp_path: Path) -> None:
    """What should have been held and was not read is named as such."""
    clock = ManualClock()
    behaviour = Behaviour(tokenizer=Tokenizer(bytes_per_token=3.3), eviction=1.0)
    driver = Driver(tmp_path, clock=clock, emulator=Emulator(clock=clock, behaviour=behaviour))
    driver.ask(body(*grown(0), system=SYSTEM))
    driver.ask(body(*grown(1), system=SYSTEM), gap=200.0)
    assert causes(driver.records[-1]) == [Cause.EVICTED]


def test_a_users_single_tail_marker_falls_behind_the_lookback(tmp_path: Path) -> None:
    """In observe mode the user's own geometry is explained: thirty interleaved pairs are beyond twenty positions."""
    driver = Driver(tmp_path, policy=Policy(strict=True, mode="observe"))
    opening = user(prose(40))
    pairs = []
    for i in range(30):
        pairs.append({"type": "text", "text": f"Step {i}."})
        pairs.append({"type": "tool_use", "id": f"t{i}", "name": "search", "input": {}})
    results = user([{"type": "tool_result", "tool_use_id": f"t{i}", "content": "ok"} for i in range(30)])
    top = {"cache_control": {"type": "ephemeral"}}
    driver.ask(body(opening, system=SYSTEM, tools=TOOLS, **top))
    driver.ask(body(opening, assistant(pairs), results, system=SYSTEM, tools=TOOLS, **top))
    assert causes(driver.records[-1]) == [Cause.LOOKBACK]


def test_without_a_marker_the_cause_is_that_there_was_none(tmp_path: Path) -> None:
    """Caching was never on: the first complaint of users."""
    driver = Driver(tmp_path, policy=Policy(strict=True, mode="observe"))
    loop(driver, 2, system=SYSTEM)
    record = driver.records[-1]
    assert causes(record) == [Cause.NOT_MARKED]
    assert record.misses[0].tokens == record.reusable


def test_a_prompt_below_the_minimum_is_told_from_one_that_was_not_marked(tmp_path: Path) -> None:
    """Below the minimum a marker does nothing, and nobody is at fault."""
    driver = Driver(tmp_path, policy=Policy(strict=True, mode="observe"))
    loop(driver, 2, system=prose(150), cache_control={"type": "ephemeral"})
    assert causes(driver.records[-1]) == [Cause.BELOW_MINIMUM]


def test_a_request_that_starts_before_the_writer_has_answered_reads_nothing_yet(driver: Driver) -> None:
    """An entry can be read once the response that writes it has begun."""
    shared = body(*grown(0), system=SYSTEM, tools=TOOLS)
    with driver.accel.session("fan-out"):
        first = driver.accel.turn(shared)
        second = driver.accel.turn(shared)
        for turn in (first, second):
            send = turn.handle(Started(driver.clock.monotonic()))[-1]
            assert isinstance(send, Send)
            _, reply = driver.post(send.request)
            usage = reply["usage"]
            assert usage["cache_read_input_tokens"] == 0
        driver.clock.advance(3)
        for turn in (first, second):
            written = {"5m": usage["cache_creation_input_tokens"]}
            turn.handle(Reported(usage=Usage(input=written["5m"], read=0, write=written)))
            turn.handle(Finished(driver.clock.monotonic()))
    assert [causes(record) for record in driver.records] == [[Cause.FIRST], [Cause.CONCURRENT]]


def test_a_reply_that_reports_no_cache_fields_is_not_a_miss(driver: Driver) -> None:
    """Contract line 8: not reported is n/a, never zero."""
    request = body(user(prose(1500)))
    for _ in range(2):
        turn = driver.accel.turn(request)
        turn.handle(Started(driver.clock.monotonic()))
        turn.handle(Reported(usage=Usage(input=3000, output=5)))
        turn.handle(Finished(driver.clock.monotonic()))
    record = driver.records[-1]
    assert record.usage.read is None
    assert record.misses == ()


def test_the_request_as_the_user_wrote_it_is_settled_beside_ours(driver: Driver) -> None:
    """Savings are stated against what the user wrote: here, automatic caching that already does well."""
    loop(driver, 4, system=SYSTEM, tools=TOOLS, cache_control={"type": "ephemeral"})
    for record in driver.records:
        assert record.as_written == record.usage


def test_without_markers_of_the_user_everything_would_have_been_uncached(driver: Driver) -> None:
    """The bill as written has the provider's own total."""
    loop(driver, 3, system=SYSTEM, tools=TOOLS)
    for record in driver.records:
        assert record.as_written is not None
        assert (record.as_written.input, record.as_written.read, record.as_written.write) == (record.usage.input, 0, {})


def test_thinking_that_the_model_drops_is_no_surprise(driver: Driver) -> None:
    """Earlier models strip thinking once a user speaks again: the ledger knows, so nothing is called an eviction."""
    thinking: Json = {"model": "claude-sonnet-4-5", "thinking": {"type": "enabled", "budget_tokens": 1024}}
    thinking["max_tokens"] = 2048
    thought = {"type": "thinking", "thinking": prose(400), "signature": "c2ln"}
    messages: list[Json] = [user(prose(1500))]
    for turn in range(4):
        driver.ask({**body(*messages, system=SYSTEM), **thinking})
        messages += [assistant([thought, {"type": "text", "text": "ok"}]), user(prose(20, turn))]
    assert all(Cause.EVICTED not in causes(record) for record in driver.records)
    assert (driver.records[-1].usage.read or 0) > 3000


def test_what_was_written_anew_after_an_eviction_lives_from_then(tmp_path: Path) -> None:
    """The provider lost an entry early and this request wrote it again: the next one is expected to find that."""
    clock = ManualClock()
    behaviour = Behaviour(tokenizer=Tokenizer(bytes_per_token=3.3))
    driver = Driver(tmp_path, clock=clock, emulator=Emulator(clock=clock, behaviour=behaviour))
    with driver.accel.session("one"):
        driver.ask(body(*grown(0), system=SYSTEM))
        driver.emulator = Emulator(clock=clock, behaviour=behaviour)  # which holds nothing
        assert driver.ask(body(*grown(1), system=SYSTEM), gap=200.0).read == 0
        assert driver.ask(body(user("Something else."), system=SYSTEM), gap=250.0).read
    record = driver.records[-1]
    assert record.expected is not None
    assert record.expected.read == pytest.approx(record.usage.read, rel=0.02)


def test_what_the_ledger_did_not_expect_is_no_eviction_however_little_it_is() -> None:
    """About as many tokens as an estimate may be out by were in an entry that had expired."""
    facts = cache_facts("claude-sonnet-5")
    assert facts is not None
    prefix = prefixes(decode(body(*grown(1), system=SYSTEM), facts), facts)
    last = len(prefix.hashes) - 1
    gone = Entry("5m", expires=300.0, visible=1.0, tokens=5436, at=last)
    usage = Usage(input=5564, read=5325, write={"5m": 239})
    sent = Sent(prefix, (Breakpoint(last, "5m"),), (), started=400.0, visible=401.0, usage=usage, ours=True)
    state = SessionState(turns=1, ledger=Ledger({prefix.hashes[last]: gone}))

    def named(expected: float) -> list[tuple[Cause, int]]:
        bill = CacheBill(hit=0, expected=Expected(read=expected, write={}, uncached=0.0), written=())
        tokens = scale(prefix, {last: 5436}, None, 5564)
        return [(one.cause, one.tokens) for one in misses_of(state, None, sent, bill, 5436, tokens)]

    assert named(5328.0) == [(Cause.EXPIRED, 108)]
    assert named(5436.0) == [(Cause.EVICTED, 111)]


def test_a_users_own_marker_is_not_taken_for_the_one_that_was_read(driver: Driver) -> None:
    """A picture makes all messages anew. Ours on the instructions is read, a few tokens before the user's, which would
    have found nothing by itself."""
    source = {"type": "base64", "media_type": "image/png", "data": "A" * 40}
    marked = {"type": "text", "text": prose(20), "cache_control": {"type": "ephemeral"}}
    said = [user([marked]), assistant(prose(30)), user(prose(25))]
    driver.ask(body(*said[:1], system=SYSTEM, tools=TOOLS))
    driver.ask(body(*said, system=SYSTEM, tools=TOOLS))
    driver.ask(body(*said, assistant("Ok."), user([{"type": "image", "source": source}]), system=SYSTEM, tools=TOOLS))
    record = driver.records[-1]
    assert (record.usage.read or 0) > 2000
    assert record.as_written is not None
    assert record.as_written.read == 0
    assert sum((record.as_written.write or {}).values()) > (record.usage.read or 0)


@pytest.mark.parametrize("named", [True, False])
def test_what_expired_is_not_called_evicted_where_the_clock_stands_still_during_a_request(
    driver: Driver, named: bool
) -> None:
    """A coarse clock: each request begins and is answered in one moment. 4,000 s later its entries, which live for
    an hour at most, are gone; what the request itself has just written was not held before it."""
    messages = [user(prose(40))]
    with driver.accel.session("s") if named else nullcontext():
        for turn in range(3):
            driver.ask(body(*messages, system=SYSTEM, tools=TOOLS), gap=4000.0, seconds=0.0)
            messages += [assistant(prose(30, turn)), user(prose(25, turn + 100))]
    assert [causes(record) for record in driver.records] == [[Cause.FIRST], [Cause.EXPIRED], [Cause.EXPIRED]]


def test_lent_its_own_write_it_would_be_called_evicted(driver: Driver, monkeypatch: pytest.MonkeyPatch) -> None:
    """The twin."""
    monkeypatch.setattr(Flight, "wrote", property(lambda self: frozenset(), lambda self, wrote: None))
    with pytest.raises(AssertionError):
        test_what_expired_is_not_called_evicted_where_the_clock_stands_still_during_a_request(driver, True)

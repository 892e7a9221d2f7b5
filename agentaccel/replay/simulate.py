"""Runs against one provider's cache in virtual time: with a fixed policy, or with the product's own decisions.

All requests of all runs are served in the order in which they were sent, so that what one session wrote another can
read. `accelerate` drives the product's own `Engine`, on a clock that is moved from request to request. Three things
differ from a program that sends them: a request has no body, so nothing of its content is looked at; it is sent when it
was sent, and waits for no other; and a run is a session with a name, so nothing is lost to requests that could not be
grouped.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import orjson

from agentaccel.cache.beliefs import Beliefs
from agentaccel.cache.breakpoints import awaited, marks_of, reaching
from agentaccel.cache.ledger import Breakpoint, bill, charge, reach_of
from agentaccel.cache.pauses import USER
from agentaccel.clock import ManualClock
from agentaccel.concurrency import Background
from agentaccel.engine.draft import Draft
from agentaccel.engine.engine import Engine
from agentaccel.engine.lineage import Registry
from agentaccel.engine.scope import OnlyRuns, Session, Within
from agentaccel.facts import CacheFacts
from agentaccel.policy import CachePolicy, Policy, StorePolicy
from agentaccel.replay.placements import Placement
from agentaccel.replay.runs import Run, Step
from agentaccel.store.learned import Workloads
from agentaccel.store.recorder import Recorder
from agentaccel.turn import Answer, CallClosed, Finished, FirstByte, Reported, Resend, Started, Turn
from agentaccel.types import Endpoint, Expected, Marker, Request, ToolCall, Usage

# --- The provider of a replay: every entry that any run has written, without the bounds of a session's ledger ---------
# The algorithm is that of `cache.ledger`, from the same guide, and of its arithmetic this uses the very function.
# What the ledger leaves open is decided here as the vendor's text reads: only markers behind the place that was read
# write an entry, and where two requests wrote the same prefix before either could be read, the earlier reply makes it
# readable and the longer life counts.


@dataclass(slots=True)
class _SimulatedEntry:
    """One entry. Mutable: reading it re-arms it."""

    label: str
    seconds: float
    expires: float
    """Exclusive."""
    visible: float
    """Inclusive."""


@dataclass(slots=True)
class SimulatedProvider:
    """One provider's cache. Mutable: it is the state of a simulation, which serves requests in order of their start."""

    _entries: dict[bytes, _SimulatedEntry] = field(default_factory=dict)

    def serve(self, step: Step, marks: Sequence[Breakpoint]) -> Usage:
        """Bill the request of `step` sent with `marks` (ascending), and keep what it writes.

        Marks on prefixes below the model's minimum do nothing. The counts add up to `step.total`.
        """
        prefix, facts, now = step.prefix, step.prefix.facts, step.started
        valid = reaching(step.tokens_at, marks, facts.min_tokens)
        if not valid:
            return Usage(input=step.total, read=0, write={})
        hashes = prefix.hashes
        if facts.ages == "blocks":
            return self._serve_blocks(step, valid)
        done = bill(prefix, valid, lambda i: self._live(hashes[i], now), step.tokens_at, facts.positions)
        for held in filter(None, map(self._entries.get, hashes[: done.hit + 1])):
            if held.visible <= now < held.expires:
                held.expires = max(held.expires, now + held.seconds)
        read = step.tokens_at(done.hit)
        for mark in valid:
            if step.tokens_at(mark.at) > read:
                self._write(hashes[mark.at], mark.ttl, step)
        return _usage(done.expected, step.total)

    def _serve_blocks(self, step: Step, marks: Sequence[Breakpoint]) -> Usage:
        """The same where every block has the lifetime that it was written with: what is read is the longest prefix of
        blocks that are all held, wherever it ends.
        """
        prefix, facts, now = step.prefix, step.prefix.facts, step.started
        hit = -1
        while hit < marks[-1].at and self._live(prefix.hashes[hit + 1], now):
            hit += 1
            held = self._entries[prefix.hashes[hit]]
            held.expires = max(held.expires, now + held.seconds)
        for i in range(hit + 1, marks[-1].at + 1):
            label = next(mark.ttl for mark in marks if mark.at >= i)
            self._write(prefix.hashes[i], label, step)
        reach = reach_of(marks, step.tokens_at)
        return _usage(charge(facts, reach, read=step.tokens_at(hit), total=step.total), step.total)

    def _live(self, hash_: bytes, now: float) -> bool:
        held = self._entries.get(hash_)
        return held is not None and held.visible <= now < held.expires

    def _write(self, hash_: bytes, label: str, step: Step) -> None:
        seconds = _seconds(step.prefix.facts, label)
        fresh = _SimulatedEntry(label, seconds, step.started + seconds, step.visible)
        old = self._entries.get(hash_)
        if old is not None and step.started < old.expires:
            fresh.visible = min(old.visible, fresh.visible)
            if old.expires > fresh.expires:
                fresh.label, fresh.seconds, fresh.expires = old.label, old.seconds, old.expires
        self._entries[hash_] = fresh


def _seconds(facts: CacheFacts, label: str) -> float:
    ttl = facts.ttl(label)
    return ttl.seconds if ttl is not None else 0.0


def _usage(expected: Expected, total: int) -> Usage:
    """Counts are whole, because the tokens of a step are."""
    write = {label: int(tokens) for label, tokens in expected.write.items() if tokens}
    return Usage(input=total, read=int(expected.read), write=write)


@dataclass(frozen=True, slots=True, kw_only=True)
class Simulated:
    """What runs would have been billed for, and what they were sent with; in the order of the runs given."""

    usages: tuple[tuple[Usage, ...], ...]
    """Per run, one for each step; each adds up to `step.total`, and `output` is not known."""
    marks: tuple[tuple[tuple[Breakpoint, ...], ...], ...]
    """Per run and step, the markers as sent."""
    kept: tuple[tuple[Usage, ...], ...] = ()
    """Per run, the requests of our own that kept entries alive; empty where there were none to be."""
    learned: Mapping[str, Beliefs] = field(default_factory=dict)
    """What is believed of each workload in the end; empty for a fixed policy."""


def simulate(runs: Sequence[Run], placement: Placement) -> Simulated:
    """Every request of `runs` with the markers of `placement`, against one cache that is empty at first."""
    provider, results = SimulatedProvider(), _Results(runs)
    for run, number in in_order(runs):
        step = runs[run].steps[number]
        marks = placement(step)
        results.put(run, number, marks, provider.serve(step, marks))
    return results.done()


@dataclass(frozen=True, slots=True, kw_only=True)
class Allowed:
    """What agentaccel may do in a replay, and what it knows."""

    ttl: str = "auto"
    """The policy's choice of lifetime."""
    keep_alive: bool = False
    """Whether requests of its own may keep entries alive during pauses."""
    ends_known: bool = False
    """Whether it is told when a session has ended, as by leaving its context manager."""


def accelerate(
    runs: Sequence[Run],
    allowed: Allowed = Allowed(),
    *,
    learned: Beliefs | None = None,
    planned: Callable[[int, int], bool] | None = None,
) -> Simulated:
    """Every request of `runs` as agentaccel would have sent it, on top of its own markers.

    `learned` is what is believed of each workload at first. Where `planned` is False of a run and its step, by their
    numbers, that request goes out as it is, and is only learned from.
    """
    results, product = _Results(runs), _Product(allowed, Workloads(learned or Beliefs()))
    sessions = [_Session(product, f"run-{number}", run) for number, run in enumerate(runs)]
    for run, number in in_order(runs):
        plans = planned is None or planned(run, number)
        results.put(run, number, *sessions[run].send(number, plans=plans))
    product.clock.advance_to(float("inf"))
    return replace(results.done(), kept=tuple(tuple(one.kept) for one in sessions), learned=product.workloads.learned)


def in_order(runs: Sequence[Run]) -> Iterator[tuple[int, int]]:
    """Run and step of every request in the order in which they were sent; one run's steps stay in theirs."""

    def times(index: int) -> Iterator[tuple[float, int, int]]:
        latest = float("-inf")
        for number, step in enumerate(runs[index].steps):
            latest = max(latest, step.started)
            yield latest, index, number

    for _, index, number in heapq.merge(*map(times, range(len(runs)))):
        yield index, number


# --- the product in front of the provider -----------------------------------------------------------------------------

_NO_LIMIT = 1e9
"""USD for requests of our own: what they are worth is asked, and not what a user would spend."""


@dataclass(slots=True)
class _Product:
    """The engine without a store, the provider, and the time that both live in."""

    allowed: Allowed
    workloads: Workloads
    clock: ManualClock = field(default_factory=lambda: ManualClock(float("-inf")))
    provider: SimulatedProvider = field(default_factory=SimulatedProvider)
    engine: Engine = field(init=False)

    def __post_init__(self) -> None:
        allowed, clock = self.allowed, self.clock
        cache = CachePolicy(ttl=allowed.ttl, keep_alive=allowed.keep_alive, own_requests_budget=_NO_LIMIT)
        policy = Policy(strict=True, cache=cache, store=StorePolicy(enabled=False))
        recorder = Recorder(policy.store, strict=True, workloads=self.workloads)
        self.engine = Engine(policy, clock, recorder, Registry(recorder), background=Background(clock))


@dataclass(slots=True)
class _Session:
    """A run as the product has it: a session that stays open. Mutable, as a conversation is."""

    product: _Product
    id: str
    run: Run
    kept: list[Usage] = field(default_factory=list)
    """Requests of our own."""
    session: Session = field(init=False)

    def __post_init__(self) -> None:
        registry = self.product.engine.registry
        conversation = registry.named(self.id)
        conversation.workload, conversation.open = self.run.workload, 1
        self.session = Session(conversation, OnlyRuns(), owner=registry.owner)

    def send(self, number: int, *, plans: bool) -> tuple[tuple[Breakpoint, ...], Usage]:
        """The markers that a step is sent with, and what it is billed for. Its reply comes when its time has come."""
        step, engine, clock = self.run.steps[number], self.product.engine, self.product.clock
        clock.advance_to(step.started)
        draft = _draft(step)
        turn = engine.turn_of(draft, self.session.conversation, Within(self.session, bypass=not plans))
        markers = turn.plan.beside(draft.prompt.markers) if plans else draft.prompt.markers
        marks = marks_of(step.prefix, markers)
        usage = self.product.provider.serve(step, marks)
        turn.resend = Resend(partial(self._send_again, step, marks))
        turn.handle(Started(clock.now))
        clock.call_at(step.visible, lambda: turn.handle(FirstByte(clock.now)))
        clock.call_at(step.finished or step.visible, partial(self._end, turn, number, usage))
        return marks, usage

    def _end(self, turn: Turn, number: int, usage: Usage) -> None:
        now, steps = self.product.clock.now, self.run.steps
        following = steps[number + 1] if number + 1 < len(steps) else None
        for name in _tools_awaited(steps[number], following):
            turn.handle(CallClosed(ToolCall(name=name, arguments={}), now))
        turn.handle(Reported(usage=usage))
        turn.handle(Finished(now))
        if following is None and self.product.allowed.ends_known:
            self.session.conversation.open = 0

    def _send_again(self, step: Step, marks: Sequence[Breakpoint], body: Request, headers: Mapping[str, str]) -> Answer:
        """A request of our own: as the step was sent, now."""
        now = self.product.clock.now
        usage = self.product.provider.serve(replace(step, started=now, visible=now), marks)
        self.kept.append(usage)
        return Answer(200, _body_of(usage))


def _draft(step: Step) -> Draft:
    """The request of `step`: its prompt, with the markers that it has as the sender's own."""
    prefix, prompt = step.prefix, step.prefix.prompt
    if marks_of(prefix, prompt.markers) != step.marks:
        markers = [Marker(path=prompt.segments[mark.at].path, ttl=mark.ttl) for mark in step.marks]
        prompt = replace(prompt, markers=tuple(markers))
    return Draft({}, prompt, prefix.facts, Endpoint(prompt.provider, prompt.platform, prefix.facts.wire), prompt.model)


def _tools_awaited(step: Step, following: Step | None) -> tuple[str, ...]:
    """The first tool that the reply to `step` asked for: its name, empty where that is not known; nothing of an answer.

    As the source says, or the next request shows. The last reply is taken for an answer, as most are.
    """
    if step.turn is not None and step.turn.calls:
        return step.turn.calls[:1]
    shown = awaited(following.prefix.prompt) if following is not None else USER
    return () if (step.awaits or shown) == USER else ("",)


def _body_of(usage: Usage) -> bytes:
    """A reply of the Messages API that reports `usage`."""
    write = {f"ephemeral_{label}_input_tokens": tokens for label, tokens in (usage.write or {}).items()}
    counts = {
        "input_tokens": usage.uncached,
        "cache_read_input_tokens": usage.read,
        "cache_creation_input_tokens": usage.written,
        "cache_creation": write,
    }
    return orjson.dumps({"type": "message", "usage": counts})


@dataclass(slots=True)
class _Results:
    """Gathers what comes in order of time back into the order of runs."""

    runs: Sequence[Run]
    _usages: list[list[Usage]] = field(init=False)
    _marks: list[list[tuple[Breakpoint, ...]]] = field(init=False)

    def __post_init__(self) -> None:
        self._usages = [[] for _ in self.runs]
        self._marks = [[] for _ in self.runs]

    def put(self, run: int, number: int, marks: tuple[Breakpoint, ...], usage: Usage) -> None:
        assert len(self._usages[run]) == number
        self._usages[run].append(usage)
        self._marks[run].append(marks)

    def done(self) -> Simulated:
        return Simulated(usages=tuple(map(tuple, self._usages)), marks=tuple(map(tuple, self._marks)))

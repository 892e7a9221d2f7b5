"""Runs against one provider's cache in virtual time: with a fixed policy, or with the product's own decisions.

All requests of all runs are served in the order in which they were sent, so that what one session wrote another can
read. `accelerate` is the live line of `session.compose` and `session.settlement` over the same functions: observe,
decide, send, settle, learn. Two things differ: a reply is settled when it begins, because a step does not say when it
ended; and a run is a session from the start, so nothing is lost to requests that could not be grouped.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from agentaccel.cache.beliefs import Beliefs
from agentaccel.cache.breakpoints import awaited, marks_of, reaching
from agentaccel.cache.forecast import snapshot
from agentaccel.cache.ledger import Breakpoint, bill, charge, reach_of
from agentaccel.cache.observe import Observed, observe
from agentaccel.cache.own_requests import PausePlan, kept, warming
from agentaccel.cache.pauses import USER
from agentaccel.cache.planner import Decided, decide
from agentaccel.cache.settle import settle
from agentaccel.cache.sharing import beginnings_of, begun, read_by_first, used_earlier
from agentaccel.cache.state import PreviousPrompt, SessionState, head_of
from agentaccel.cache.teach import Sent
from agentaccel.cache.waiting import waiting
from agentaccel.facts import CacheFacts
from agentaccel.replay.placements import Placement
from agentaccel.replay.runs import Run, Step
from agentaccel.store.learned import Workloads
from agentaccel.types import CachePlan, Expected, Usage

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
    provider, results = SimulatedProvider(), _Results(runs)
    learning = _Learning(Workloads(learned or Beliefs()), provider, allowed)
    sessions = [_Session(run) for run in runs]
    for run, number in in_order(runs):
        step = runs[run].steps[number]
        learning.advance(step.started)
        plans = planned is None or planned(run, number)
        sent = sessions[run].send(step, provider, learning, plans=plans)
        results.put(run, number, sent.marks, sent.usage)
    learning.advance(float("inf"))
    return replace(results.done(), kept=tuple(tuple(one.kept) for one in sessions), learned=learning.workloads.learned)


def in_order(runs: Sequence[Run]) -> Iterator[tuple[int, int]]:
    """Run and step of every request in the order in which they were sent; one run's steps stay in theirs."""

    def times(index: int) -> Iterator[tuple[float, int, int]]:
        latest = float("-inf")
        for number, step in enumerate(runs[index].steps):
            latest = max(latest, step.started)
            yield latest, index, number

    for _, index, number in heapq.merge(*map(times, range(len(runs)))):
        yield index, number


# --- one session of the product ---------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Session:
    """What the product has seen of one run. Mutable, as a live conversation is."""

    run: Run
    snapshot: Beliefs | None = None
    state: SessionState = field(default_factory=SessionState)
    head: PreviousPrompt | None = None
    requests: int = 0
    """Sent so far."""
    kept: list[Usage] = field(default_factory=list)
    """Requests of our own."""

    def send(self, step: Step, provider: SimulatedProvider, learning: _Learning, *, plans: bool) -> Sent:
        prefix, now, allowed = step.prefix, step.started, learning.allowed
        if self.snapshot is None:
            self.snapshot = snapshot(learning.workloads.believed(self.run.workload, now, tools=prefix.starts[1] > 0))
        self.requests += 1
        observed = observe(self.state, self.head, prefix, now, self.snapshot)
        made = Decided(CachePlan())
        if plans:
            state, snapshot_ = self.state, self.snapshot
            made = decide(state, observed, prefix, snapshot_, now=now, ttl=allowed.ttl, keeps=allowed.keep_alive)
        ours = marks_of(prefix, made.plan.markers)
        marks = tuple(sorted((*step.marks, *ours), key=lambda mark: mark.at))
        sent = Sent(
            prefix=prefix,
            marks=marks,
            written_marks=step.marks,
            started=now,
            visible=step.visible,
            usage=provider.serve(step, marks),
            ours=bool(ours),
            standing=made.standing,
            awaits=step.awaits or _awaits(self.run.steps, self.requests),
        )
        earlier: Mapping[str, float] = {}
        if not self.state.turns:
            earlier = used_earlier(beginnings_of(prefix, 0), learning.workloads.last_used)
        learning.wait(_Going(self, sent, observed, self.head, step, earlier), step.finished or step.visible)
        return sent

    @property
    def over(self) -> bool:
        """Whether its last request has been sent."""
        return self.requests == len(self.run.steps)


def _awaits(steps: Sequence[Step], number: int) -> str:
    """What the reply before step `number` asked for, as that step shows; the last one was an answer, as most are."""
    return awaited(steps[number].prefix.prompt) if number < len(steps) else USER


@dataclass(frozen=True, slots=True)
class _Going:
    """A request that has been sent and whose reply has not ended."""

    session: _Session
    sent: Sent
    observed: Observed
    head: PreviousPrompt | None
    """The prompt before it, when it was sent."""
    step: Step
    earlier: Mapping[str, float]
    """When sessions that begin alike had last been answered; of a first request."""


@dataclass(frozen=True, slots=True)
class _Keeping:
    """A request of our own that is due unless the session goes on first."""

    going: _Going
    warming: PausePlan
    requests: int
    """As many as the session had sent when the pause began."""
    count: int
    """Those of our own that were sent in this pause."""


@dataclass(slots=True)
class _Learning:
    """What the trace store would hold, and what is to come."""

    workloads: Workloads
    provider: SimulatedProvider
    allowed: Allowed
    _events: list[tuple[float, int, _Going | _Keeping]] = field(default_factory=list)
    _count: int = 0

    def wait(self, event: _Going | _Keeping, until: float) -> None:
        self._count += 1
        heapq.heappush(self._events, (until, self._count, event))

    def advance(self, now: float) -> None:
        """Let happen all that does until `now`: replies that end are settled, and entries kept that are to be."""
        while self._events and self._events[0][0] <= now:
            at, _, event = heapq.heappop(self._events)
            if isinstance(event, _Going):
                self._settle(event)
            else:
                self._keep(event, at)

    def _settle(self, going: _Going) -> None:
        session, sent = going.session, going.sent
        settled = settle(session.state, going.head, sent, going.observed)
        session.state = settled.state
        session.head = head_of(sent.prefix, going.head, started=sent.started, tokens=sent.usage.input, message_id=None)
        beginnings = beginnings_of(sent.prefix, settled.state.born)
        seen = list(settled.learned)
        if settled.state.turns == 1:
            read = read_by_first(sent.prefix, sent.usage)
            times = {"started": sent.started, "visible": sent.visible}
            last_used = self.workloads.last_used
            seen += begun(beginnings, last_used, going.earlier, **times, facts=sent.prefix.facts, read=read)
        workload = session.run.workload
        self.workloads.learn(workload, seen)
        self.workloads.answered(workload, id(session), waiting(session.state))
        self.workloads.used(beginnings.values(), sent.visible)
        if self.allowed.keep_alive and session.snapshot is not None:
            beliefs = session.snapshot.joined(session.state.seen)
            warm = warming(session.state, sent.prefix, beliefs, self.allowed.ttl)
            if warm is not None:
                self._schedule(_Keeping(going, warm, session.requests, 0), sent.started)

    def _schedule(self, keeping: _Keeping, last_used: float) -> None:
        due = keeping.warming.due(last_used, keeping.count)
        if due is not None:
            self.wait(keeping, due)

    def _keep(self, keeping: _Keeping, now: float) -> None:
        """Send it, unless the session has gone on, or is known to be over."""
        session, going, warm = keeping.going.session, keeping.going, keeping.warming
        if session.requests != keeping.requests or (session.over and self.allowed.ends_known):
            return
        step = replace(going.step, started=now, visible=now)
        usage = self.provider.serve(step, going.sent.marks)
        session.kept.append(usage)
        session.state = kept(session.state, going.sent.prefix, warm, now=now, read=bool(usage.read))
        if usage.read:
            self._schedule(keeping.__class__(going, warm, keeping.requests, keeping.count + 1), now)


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

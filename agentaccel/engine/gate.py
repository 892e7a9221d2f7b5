"""Several requests that begin alike, at once: one writes the prefix, and the others wait until they can read it.

An entry can be read from the first byte of the reply to the request that writes it. Requests that are sent before that
all pay for writing the same. So a request that would write a prefix while another one on its way is about to, waits
for that one's first byte, where this is expected to save more than the wait costs.

    flight = Flight(write_gate, writes, …)
    flight.before(now)     a gate and how long to wait for it, then ask again; or None: it goes out
    flight.began(now)      the reply has begun: all gates of what it writes open
    flight.over(now)       it has ended without: its gates open, the first to ask again leads, the others wait for it

Whoever waits has not been sent and leads nothing, so nobody waits in a circle; and each waits so long in all as it
was allowed to, whatever becomes of those it waits for. A leader that is dropped without a word opens its gates, too.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple
from weakref import ref

from agentaccel.facts import priors
from agentaccel.locks import Lock, forks, when_free

# --- How long replies take to begin: what was stated of it, corrected by how it went ----------------------------------

_FADE = 0.8
"""Each new observation multiplies the weight of those before it by this."""


@dataclass(slots=True)
class ReplyPace:
    """What has been seen in this process, by kind of request."""

    _seen: dict[str, tuple[float, float]] = field(default_factory=dict)
    """The seconds that first bytes took, and those that were stated for them."""

    def expected(self, kind: str, stated: float) -> float:
        """Seconds to a first byte for which `stated` were stated; that is worth one occasion like this one.

        >>> pace = ReplyPace()
        >>> pace.saw("any", took=8.0, stated=2.0)
        >>> pace.expected("any", 2.0), pace.expected("other", 2.0)
        (5.0, 2.0)
        """
        took, said = self._seen.get(kind, (0.0, 0.0))
        return stated * (took + stated) / (said + stated)

    def saw(self, kind: str, *, took: float, stated: float) -> None:
        """A reply has begun after `took` seconds."""
        before, said = self._seen.get(kind, (0.0, 0.0))
        self._seen[kind] = before * _FADE + took, said * _FADE + stated


def stated_seconds(tokens: float, *, streamed: bool) -> float:
    """Seconds that the first byte of a reply is stated to take when so many tokens of the prompt are not cached.

    >>> stated_seconds(0, streamed=True), stated_seconds(50_000, streamed=True), stated_seconds(50_000, streamed=False)
    (1.0, 5.5, 8.5)
    """
    known = priors()
    return known.first_byte + known.first_byte_per_1k * tokens / 1000 + (0.0 if streamed else known.whole_reply)


Key = tuple[str, bytes]
"""Whose cache it is, and the hash of the prefix."""

_MOST_REMEMBERED = 4096
"""Prefixes and conversations remembered of each kind."""

_NEARLY = 0.9
"""Of the tokens of a prefix, which are an estimate: as many were it."""

_LOST = 2.0
"""A leader that takes so many times what was expected is waited for no longer."""


class Write(NamedTuple):
    """A prefix that a request is about to write."""

    key: Key
    tokens: float
    """Tokens of the prefix."""
    entry: HeldPrefix
    """What is held once the reply has begun; its times are set then."""


class HeldPrefix(NamedTuple):
    """A prefix that a request of this process has written or read; times are monotonic."""

    ttl: str
    """Label of its lifetime."""
    seconds: float
    """Its lifetime."""
    own: bool = False
    """Whether the provider wrote it by itself."""
    visible: float = 0.0
    """From when on it can be read."""
    expires: float = 0.0

    def live(self, now: float) -> bool:
        return self.visible <= now < self.expires


@dataclass(slots=True)
class _BeingWritten:
    """A prefix that is being written. All waiters of one place wait at one gate, whoever leads."""

    leader: ref[Flight]
    due: float
    """When the leader's reply is expected to begin."""
    lost: float
    """When it is so late that nobody waits for it any longer, and the next one leads."""
    forks: int = field(default_factory=forks)
    gate: Future[None] = field(default_factory=Future)

    def void(self) -> bool:
        """Whether nobody is on the way any more who could open it."""
        return self.leader() is None or self.forks != forks()

    def wait(self, now: float) -> float:
        """Seconds that the leader's first byte is expected to take yet: of a late one, as many again as it is late."""
        return abs(self.due - now)


@dataclass(slots=True, kw_only=True, weakref_slot=True, eq=False)
class Flight:
    """One request on its way, from being planned to the end of its turn."""

    write_gate: WriteGate
    writes: tuple[Write, ...]
    """What it will write, the shortest prefix first."""
    kind: str
    """What its first byte is learned under."""
    total: float
    """Tokens of its prompt."""
    read: float
    """Those of them that its own session knows to be held."""
    streamed: bool
    at_most: float
    """Seconds that it may wait in all; 0 where it only leads."""
    cost_per_second: float
    price: Callable[[], float | None]
    """What reading a token saves over writing it, in the unit of `cost_per_second`; None where not known."""
    since: float | None = None
    """When it began to wait."""
    sent: float | None = None
    """When it went out; None before that."""
    stated: float = 0.0
    """Seconds that its first byte is stated to take, once it went out."""
    done: bool = False
    """Whether it has begun to be answered, or ended."""
    wrote: frozenset[bytes] = frozenset()
    """Hashes of the prefixes that nobody held before its reply began."""

    def before(self, at: float, *, can_wait: bool = True) -> tuple[Future[None], float] | None:
        """The gate to wait for and the most seconds; None where the request goes out now, and leads from now on."""
        waited = at - self.since if self.since is not None else 0.0
        return self.write_gate.ask(self, at, self.at_most - waited if can_wait else 0.0)

    def began(self, at: float) -> None:
        """The reply has begun: what it writes can be read."""
        if self.sent is not None:
            self.over(at, at)

    def over(self, at: float, began: float | None = None) -> None:
        """The turn has ended, whatever way; nothing more can be expected of it."""
        if not self.done:
            self.done = True
            self.write_gate.open(self, at, began)

    def worth(self, tokens: float, wait: float) -> bool:
        """Whether reading so many tokens in place of writing them is worth so many seconds."""
        price = self.price()
        return price is not None and tokens * price > wait * self.cost_per_second


@dataclass(slots=True, weakref_slot=True, eq=False)
class WriteGate:
    """Who writes what in this process, and what it has written. Thread-safe; nothing here does I/O or reads a clock."""

    _places: dict[Key, _BeingWritten] = field(default_factory=dict)
    _held: OrderedDict[Key, HeldPrefix] = field(default_factory=OrderedDict)
    _unwritten: OrderedDict[Key, None] = field(default_factory=OrderedDict)
    """Prefixes that were to be written and, by the provider's counts, were not: nobody waits for another try."""
    _pace: ReplyPace = field(default_factory=ReplyPace)
    _waited: OrderedDict[str, float] = field(default_factory=OrderedDict)
    """Seconds for which attempts that came to nothing have waited, by conversation."""
    _lock: Lock = field(default_factory=Lock)

    # --- leading and following ----------------------------------------------------------------------------------------

    def ask(self, flight: Flight, now: float, left: float) -> tuple[Future[None], float] | None:
        """Whether `flight`, which may wait for `left` seconds, waits for another; else it leads where nobody does."""
        with self._lock:
            if flight.sent is not None or flight.done:
                return None
            place = self._worth_waiting(flight, now, left) if left > 0 else None
            if place is not None:
                if flight.since is None:
                    flight.since = now
                return place.gate, min(left, place.lost - now)
            flight.sent = now
            self._lead(flight, now)
            return None

    def _worth_waiting(self, flight: Flight, now: float, left: float) -> _BeingWritten | None:
        """Where the most is to be had: the longest prefix that somebody writes, if that one is worth its wait."""
        there = self._there(flight, now)
        for write in reversed(flight.writes):
            place = self._places.get(write.key)
            if place is None or place.void() or write.tokens <= there or write.key in self._unwritten:
                continue
            wait = place.wait(now)
            if now < place.lost and wait <= left and flight.worth(write.tokens - there, wait):
                return place
        return None

    def _there(self, flight: Flight, now: float) -> float:
        """Tokens of the longest prefix that somebody has written already."""
        live = [one.tokens for one in flight.writes if (held := self._held.get(one.key)) is not None and held.live(now)]
        return max(live, default=flight.read)

    def takes(self, kind: str, tokens: float, *, streamed: bool) -> float:
        """Seconds to the first byte of a reply of that kind, where so many tokens of the prompt are not cached."""
        return self._pace.expected(kind, stated_seconds(tokens, streamed=streamed))

    def sooner(self, kind: str, cold: float, warm: float, *, streamed: bool) -> float:
        """Seconds by which it comes sooner where `warm` tokens are not cached, and not `cold`."""
        return self.takes(kind, cold, streamed=streamed) - self.takes(kind, warm, streamed=streamed)

    def _lead(self, flight: Flight, now: float) -> None:
        leader = ref(flight, partial(_dropped, ref(self), tuple(write.key for write in flight.writes)))
        flight.stated = stated_seconds(flight.total - self._there(flight, now), streamed=flight.streamed)
        takes = self._pace.expected(flight.kind, flight.stated)
        due, lost = now + takes, now + takes * _LOST
        for write in flight.writes:
            held, place = self._held.get(write.key), self._places.get(write.key)
            if held is not None and held.live(now):
                continue
            if place is None or place.forks != forks():
                self._places[write.key] = _BeingWritten(leader, due, lost)
            elif place.void() or place.due < now:
                # Those who come now wait for this one: the leader is late, and may never be answered.
                place.leader, place.due, place.lost = leader, due, lost

    def open(self, flight: Flight, now: float, began: float | None) -> None:
        """`flight` has begun to be answered, or has ended without."""
        with self._lock:
            if began is not None and flight.sent is not None:
                self._pace.saw(flight.kind, took=began - flight.sent, stated=flight.stated)
                new = [write for write in flight.writes if self._notes_new(write.key, write.entry, began, flight.sent)]
                flight.wrote = frozenset(write.key[1] for write in new)
            gates = self._leave(flight, began is not None)
        for gate in gates:
            gate.set_result(None)

    def _leave(self, flight: Flight, written: bool) -> list[Future[None]]:
        """The gates that open: of all it has written, or else of what it alone was about to write."""
        gates = []
        for write in flight.writes:
            place = self._places.get(write.key)
            if place is not None and (written or place.leader() is flight):
                del self._places[write.key]
                if place.forks == forks():  # else those who wait there are in another process
                    gates.append(place.gate)
        return gates

    def release(self, keys: Iterable[Key]) -> None:
        """Open the gates of `keys` whose leader is gone without a word."""
        with self._lock:
            places = {key: place for key in keys if (place := self._places.get(key)) is not None}
            gone = [key for key, place in places.items() if place.leader() is None]
            gates = [self._places.pop(key).gate for key in gone]
        for gate in gates:
            gate.set_result(None)

    # --- what is held -------------------------------------------------------------------------------------------------

    def held(self, account: str, hashes: Iterable[bytes], now: float) -> dict[bytes, HeldPrefix]:
        """Of the prefixes with these hashes, those that this process has seen written or read in time."""
        return {
            hash_: held
            for hash_ in hashes
            if (held := self._held.get((account, hash_))) is not None and held.visible <= now < held.expires
        }

    def settled(self, flight: Flight | None, account: str, entries: Mapping[bytes, HeldPrefix], read: float) -> None:
        """What the provider's counts have told since: what it holds, and that what is longer than it `read` and is not
        held was not written."""
        with self._lock:
            for write in flight.writes if flight is not None else ():
                if write.key[1] not in entries:
                    self._held.pop(write.key, None)
                    if write.tokens * _NEARLY > read:
                        self._unwritten[write.key] = None
            for hash_, held in entries.items():
                self._unwritten.pop((account, hash_), None)
                self._held[account, hash_] = held
                self._held.move_to_end((account, hash_))
            self._bound()

    def _notes_new(self, key: Key, entry: HeldPrefix, visible: float, sent: float) -> bool:
        old = self._held.get(key)
        held = old if old is not None and old.live(visible) else None
        entry = entry._replace(visible=visible if held is None else held.visible)
        if held is not None and held.own <= entry.own:
            entry = held  # read, not written: it goes on with the lifetime that it has, whatever the marker says
        self._held[key] = entry._replace(expires=sent + entry.seconds)
        self._held.move_to_end(key)
        self._bound()
        return held is None

    def _bound(self) -> None:
        for known in (self._held, self._unwritten, self._waited):
            while len(known) > _MOST_REMEMBERED:
                known.popitem(last=False)

    # --- attempts that came to nothing --------------------------------------------------------------------------------

    def waited(self, conversation: str) -> float:
        """Seconds for which attempts of this request have waited that came to nothing."""
        return self._waited.get(conversation, 0.0)

    def came_to(self, conversation: str, seconds: float, *, nothing: bool) -> None:
        """An attempt that waited so long has ended, and came to nothing or not."""
        if not seconds and conversation not in self._waited:
            return
        with self._lock:
            before = self._waited.pop(conversation, 0.0)
            if nothing:
                self._waited[conversation] = before + seconds
                self._bound()


def _dropped(write_gate: ref[WriteGate], keys: tuple[Key, ...], gone: ref[Flight]) -> None:
    """A leader was collected, anywhere, also inside a lock of ours."""
    there = write_gate()
    if there is not None:
        when_free(partial(there.release, keys))

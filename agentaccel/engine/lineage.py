"""Which conversation a request belongs to: the open session, else the one whose prefix it goes on from."""

from __future__ import annotations

import itertools
import secrets
from collections import OrderedDict, deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple
from weakref import WeakValueDictionary

from agentaccel.engine.conversation import Conversation, workload_of
from agentaccel.engine.draft import Done, Settled
from agentaccel.hashing import digest, identity_bytes, link
from agentaccel.locks import Lock
from agentaccel.records import parts_of
from agentaccel.store.recorder import Recorder
from agentaccel.types import STRETCH, Prompt, ToolCall, digest_of, message_start

# --- Which conversation a request goes on from, told by its messages alone --------------------------------------------
# Only messages count, so that a clock in the system prompt or a reordered tool list does not make a new session.

_FARTHEST_REWIND = 64
"""Messages that a rewind may take back and still be recognised by its end; farther ones by the first exchange."""


_PLAIN = "anthropic"
"""The provider whose conversations are known by their messages alone, as they were before there were others."""


class Lineage:
    """A hash of the conversation after each message: what the next request of it begins with.

    Equal at message i if and only if the messages up to and including it are equal, and the `tenant` and the provider
    are the same.
    """

    def __init__(self, prompt: Prompt, tenant: str | None = None) -> None:
        self._segments = prompt.segments
        owner = "\x00".join((tenant or "", "" if prompt.provider == _PLAIN else prompt.provider)).strip("\x00")
        self._owner = digest(owner.encode("utf-8", "replace")) if owner else None
        self._start = prompt.starts[2]
        self._stretches = prompt.stretches
        self._opening = prompt.opening
        self._length = prompt.messages if self._start < len(prompt.segments) else 0

    def __len__(self) -> int:
        """How many messages there are."""
        return self._length

    def __getitem__(self, message: int) -> bytes:
        """The hash after `message`, inclusive; negative ones count from the end."""
        message = range(self._length)[message]
        whole = message // STRETCH
        missing = range(len(self._stretches), whole)
        if missing:
            self._stretches += tuple([self._digest(stretch * STRETCH, STRETCH) for stretch in missing])
        last = self._digest(whole * STRETCH, message % STRETCH + 1)
        hash_ = digest(b"".join((*self._stretches[:whole], last)))
        return link(hash_, self._owner) if self._owner is not None else hash_

    def _digest(self, first: int, count: int) -> bytes:
        """A hash over the digests of `count` messages from `first` on."""
        segments = self._segments[self._begin(first) : self._begin(first + count)]
        return digest(b"".join(map(digest_of, segments)))

    def _begin(self, message: int) -> int:
        """The first segment of `message`."""
        return message_start(self._segments, self._start, self._opening + message if message else 0)

    def _reply(self, messages: range) -> int | None:
        """The first of `messages` that is the model's."""
        for message in messages:
            begin = self._begin(message)
            if begin < len(self._segments) and self._segments[begin].role == "assistant":
                return message
        return None

    def sought(self) -> Iterator[bytes]:
        """The hashes by which this request may go on from an earlier one, longest first; the request itself left out.

        So a request that is repeated begins a session of its own, and a single first message never joins one: many
        conversations begin with the same words.
        """
        for _, hash_ in self.ends():
            yield hash_

    def ends(self) -> Iterator[tuple[int, bytes]]:
        """The same with the number of messages up to each."""
        before = len(self) - 1
        near = max(before - _FARTHEST_REWIND, 0)
        for message in (*range(before - 1, near - 1, -1), *range(min(near, 2))):
            yield message + 1, self[message]

    def written(self, born: int) -> tuple[bytes, ...]:
        """The hashes under which the next request finds this one: its end, its last reply, its first exchange.

        The last reply is the way back where the end is replaced each turn; the first exchange, where history is edited.
        Replies among the first `born` messages came with the session's first request: examples, perhaps, which every
        session of an agent begins with, so the first of them says nothing about which one it is. (The last one does,
        for a request that is longer than the one that wrote it: another session's first request is not.)
        """
        if not self._length:
            return ()
        last = self._reply(range(self._length - 1, -1, -1))
        first = self._reply(range(born, self._length))
        chosen = [self._length - 1, *(reply for reply in (last, first) if reply is not None)]
        return tuple(dict.fromkeys(self[message] for message in chosen))


_MOST_CONVERSATIONS = 1024
"""Conversations kept in memory; an older one is read back from the store when it goes on."""
_MOST_STOPS = 24
"""Places a session is known by in memory: some ten turns back. The trace store knows them all."""
_MOST_CALLS = 64
"""Calls that the model asked for last, whose session is told when they run; most run at once."""
_MOST_REMEMBERED = 16384
"""Hashes kept in memory per kind, about sixteen per conversation."""


class Stop(NamedTuple):
    """A session at one lineage hash."""

    passed: bool
    """Whether it has gone on from there."""
    messages: int
    """Messages of its last request: one that goes on from it has more."""


@dataclass(slots=True)
class Registry:
    """Conversations by id and by lineage. Thread-safe."""

    recorder: Recorder
    owner: int = field(default_factory=itertools.count(1).__next__)
    """A number that no other registry of the process has: sessions are told apart by it."""
    _conversations: OrderedDict[str, Conversation] = field(default_factory=OrderedDict)
    """The last ones used, kept in memory."""
    _alive: WeakValueDictionary[str, Conversation] = field(default_factory=WeakValueDictionary)
    """Those, and older ones that an open session or a running turn still holds."""
    _waiting: OrderedDict[bytes, dict[str, Stop]] = field(default_factory=OrderedDict)
    """For each lineage hash, the sessions that came to it, in that order."""
    _stops: dict[str, deque[bytes]] = field(default_factory=dict)
    """For each session, the hashes it came to, the latest last."""
    _begun: OrderedDict[bytes, str] = field(default_factory=OrderedDict)
    """Conversations by the whole of their first request, so that a retry does not begin another."""
    _asked: OrderedDict[bytes, str] = field(default_factory=OrderedDict)
    """Sessions by the identity of the tool calls that the model asked for in them."""
    _calls: dict[str, deque[bytes]] = field(default_factory=dict)
    """For each session, those calls, the latest last."""
    _open: dict[str, tuple[bytes, ...]] = field(default_factory=dict)
    """For each session, the calls that its last reply asked for."""
    _askers: dict[bytes, set[str]] = field(default_factory=dict)
    """For each of these, the sessions."""
    _replies: OrderedDict[str, str] = field(default_factory=OrderedDict)
    """Sessions by the replies, and by the conversations kept by a provider, that a held request can go on from."""
    _lock: Lock = field(default_factory=Lock)

    def named(self, key: str) -> Conversation:
        """The conversation whose `key` it is, begun if there is none; the same object for as long as one is held."""
        id_, thread = parts_of(key)
        root = self.named(id_) if thread else None
        with self._lock:
            conversation = self._alive.get(key)
            if conversation is None:
                made = Conversation(id=id_) if root is None else _thread(root, thread)
                conversation = self._alive[key] = made
            self._conversations[key] = conversation
            self._conversations.move_to_end(key)
            while len(self._conversations) > _MOST_CONVERSATIONS:
                gone, _ = self._conversations.popitem(last=False)
                for hash_ in self._stops.pop(gone, ()):
                    self._leave(hash_, gone)
                self._calls.pop(gone, None)
                self._forget_open(gone)
            return conversation

    def by_lineage(self, prompt: Prompt, lineage: Lineage, agent: str | None = None) -> Conversation | None:
        """The conversation that `prompt`, of that `agent`, goes on from; None where it begins one.

        Where several wait at one place, as those that begin with the same words do, one of its own workload.
        """
        if not self._waiting and self.recorder.store is None:
            return None
        found, passed, longer = None, True, list[bytes]()
        with self._lock:
            for hash_ in lineage.sought():
                found, passed = self._here(hash_, prompt, agent)
                if found is not None:
                    break
                longer.append(hash_)
        if passed or len(longer) > 1:
            # One that waits before the last reply goes on from there; else another process may know of one that has
            # come farther.
            at = longer, prompt.messages, workload_of(prompt, agent)
            found = self.recorder.read(lambda store: store.session_of(*at), None) or found
        return None if found is None else self.named(found)

    def begin(self, lineage: Lineage, *, retried: bool) -> Conversation:
        """A new conversation under a name of our own; the one of the failed attempt where the request is `retried`."""
        whole = lineage[-1] if len(lineage) else None
        with self._lock:
            name = self._begun.get(whole) if retried and whole is not None else None
        conversation = self.named(name or f"s-{secrets.token_hex(8)}")
        if whole is not None:
            with self._lock:
                _remember(self._begun, whole, conversation.id)
        return conversation

    def by_reply(self, after: str) -> Conversation | None:
        """The conversation in which the provider gave the reply `after`, or keeps that conversation."""
        with self._lock:
            name = self._replies.get(after)
        return None if name is None else self.named(name)

    def settled(self, done: Done, settled: Settled) -> None:
        """A call has ended: its reply, and the tool calls that it asks for, belong to its conversation."""
        conversation = done.planned.conversation
        self.asked(done.reply.calls, conversation.id)
        for id_ in (done.reply.said.message_id, done.planned.prompt.after):
            if id_:
                self.replied(id_, conversation.key)

    def replied(self, id_: str, session_id: str) -> None:
        """What the provider calls `id_` belongs to that session."""
        with self._lock:
            self._replies[id_] = session_id
            self._replies.move_to_end(id_)
            while len(self._replies) > _MOST_REMEMBERED:
                self._replies.popitem(last=False)

    def asked(self, calls: Sequence[ToolCall], session_id: str) -> None:
        """The model's last reply in that session asked for `calls`, so whoever runs one now, runs it for that."""
        identities = [identity_of(call) for call in calls]
        with self._lock:
            self._forget_open(session_id)
            if identities:
                self._open[session_id] = tuple(identities)
            for identity in identities:
                _remember(self._asked, identity, session_id)
                self._askers.setdefault(identity, set()).add(session_id)
                known = self._calls.setdefault(session_id, deque())
                known.append(identity)
                while len(known) > _MOST_CALLS:
                    gone = known.popleft()
                    if gone not in known and self._asked.get(gone) == session_id:
                        del self._asked[gone]

    def _forget_open(self, session_id: str) -> None:
        for identity in self._open.pop(session_id, ()):
            askers = self._askers.get(identity, set())
            askers.discard(session_id)
            if not askers:
                self._askers.pop(identity, None)

    def asker(self, call: ToolCall) -> str | None:
        """The session in which the model last asked for exactly this call."""
        with self._lock:
            return self._asked.get(identity_of(call))

    def only_asker(self, call: ToolCall) -> str | None:
        """The one session whose last reply asked for exactly this call; None where several did: it may be any of them,
        and what one user may see another must not."""
        with self._lock:
            askers = self._askers.get(identity_of(call), ())
            return next(iter(askers)) if len(askers) == 1 else None

    def waits_at(self, session_id: str, hashes: tuple[bytes, ...], messages: int) -> None:
        """The session has come to `hashes` with a request of so many messages, and past those it waited at before."""
        with self._lock:
            stops = self._stops.setdefault(session_id, deque())
            for hash_ in reversed(stops):  # those not passed are the latest
                sessions = self._waiting.get(hash_)
                here = sessions.get(session_id) if sessions is not None else None
                if sessions is None or here is None:
                    continue
                if here.passed:
                    break
                sessions[session_id] = Stop(True, messages)
            for hash_ in hashes:
                if hash_ in stops:
                    stops.remove(hash_)
                stops.append(hash_)
                self._waiting.setdefault(hash_, {})[session_id] = Stop(False, messages)
                self._waiting.move_to_end(hash_)
            while len(stops) > _MOST_STOPS:
                self._leave(stops.popleft(), session_id)
            while len(self._waiting) > _MOST_REMEMBERED:
                self._waiting.popitem(last=False)

    def stop(self, key: str, hash_: bytes) -> Stop | None:
        """The conversation at a lineage hash; None where it has not come to it, or so long ago that it is forgotten."""
        with self._lock:
            return self._waiting.get(hash_, {}).get(key)

    def _leave(self, hash_: bytes, session_id: str) -> None:
        sessions = self._waiting.get(hash_, {})
        sessions.pop(session_id, None)
        if not sessions:
            self._waiting.pop(hash_, None)

    def _here(self, hash_: bytes, prompt: Prompt, agent: str | None) -> tuple[str | None, bool]:
        """The session that a longer request goes on from at `hash_`, and whether it has gone past it already."""
        sessions = self._waiting.get(hash_, {})
        there = [name for name, stop in sessions.items() if stop.messages < prompt.messages]
        waiting = [name for name in there if not sessions[name].passed]
        names = waiting or there[::-1]
        if len(names) < 2:
            return (names[0] if names else None), not waiting
        workload = workload_of(prompt, agent)
        alike = (name for name in names if (one := self._alive.get(name)) is not None and one.workload == workload)
        return next(alike, names[0]), not waiting


def _thread(root: Conversation, thread: str) -> Conversation:
    """Another conversation under the name of `root`; what is run early for one of them is run for the session."""
    return Conversation(id=root.id, thread=thread, root=root, ledger=root.ledger, following=root.following)


def identity_of(call: ToolCall, key: bytes = b"") -> bytes:
    """Equal for equal calls: the name and the arguments, whatever the order of their keys.

    Where the arguments have no form as text, which no model can ask for, it is the name alone. Raises nothing.
    """
    try:
        data = identity_bytes([call.name, call.arguments])
    except Exception:  # noqa: BLE001 - they hold themselves, or an object of the user's that cannot be shown
        data = identity_bytes([call.name])
    return digest(data, key)


def _remember(known: OrderedDict[bytes, str], what: bytes, session_id: str) -> None:
    known[what] = session_id
    known.move_to_end(what)
    while len(known) > _MOST_REMEMBERED:
        known.popitem(last=False)

"""Which conversation a request goes on from, told by its messages alone.

Only messages count, so that a clock in the system prompt or a reordered tool list does not make a new session.
"""

from __future__ import annotations

from collections.abc import Iterator

from agentaccel.canonical import digest, link
from agentaccel.types import STRETCH, Prompt, digest_of, message_start

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

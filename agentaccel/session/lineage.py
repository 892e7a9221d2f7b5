"""Which conversation a request goes on from, told by its messages alone.

Only messages count, so that a clock in the system prompt or a reordered tool list does not make a new session.
"""

from __future__ import annotations

from collections.abc import Iterator

from agentaccel.cache.prefix import level_starts
from agentaccel.canonical import ROOT, digest, link
from agentaccel.types import Prompt

_STRETCH = 8
"""Messages that are hashed together once they are past: a long history is then a short chain. Part of the form of the
hashes, which the trace store keeps."""

_FARTHEST_REWIND = 64
"""Messages that a rewind may take back and still be recognised by its end; farther ones by the first exchange."""


class Lineage:
    """A hash of the conversation after each message: what the next request of it begins with.

    Equal at message i if and only if the messages up to and including it are equal and the `tenant` is the same.
    """

    def __init__(self, prompt: Prompt, tenant: str | None = None) -> None:
        self._segments = prompt.segments
        self._tenant = digest(tenant.encode("utf-8", "replace")) if tenant else None
        self._starts: list[int] = []
        """The first segment of each message, in order."""
        self.replies: list[int] = []
        """Messages of the model."""
        last: object = None
        for i in range(level_starts(prompt.segments)[2], len(prompt.segments)):
            segment = prompt.segments[i]
            message = segment.path[1]
            if message != last:
                if segment.role == "assistant":
                    self.replies.append(len(self._starts))
                self._starts.append(i)
                last = message
        self._past: list[bytes] = [ROOT]
        """The chain after each whole stretch, as far as it was asked for."""

    def __len__(self) -> int:
        """How many messages there are."""
        return len(self._starts)

    def __getitem__(self, message: int) -> bytes:
        """The hash after `message`, inclusive; negative ones count from the end."""
        message = range(len(self._starts))[message]
        stretch = message // _STRETCH
        while len(self._past) <= stretch:
            first = (len(self._past) - 1) * _STRETCH
            self._past.append(link(self._past[-1], self._digest(first, first + _STRETCH)))
        hash_ = link(self._past[stretch], self._digest(stretch * _STRETCH, message + 1))
        return link(hash_, self._tenant) if self._tenant is not None else hash_

    def _digest(self, first: int, end: int) -> bytes:
        """A hash of messages `first` to `end`, exclusive."""
        until = self._starts[end] if end < len(self._starts) else len(self._segments)
        begin = self._starts[first]
        return digest(b"".join([segment.digest for segment in self._segments[begin:until]]))

    def sought(self) -> Iterator[bytes]:
        """The hashes by which this request may go on from an earlier one, longest first; the request itself left out.

        So a request that is repeated begins a session of its own, and a single first message never joins one: many
        conversations begin with the same words.
        """
        before = len(self) - 1
        near = max(before - _FARTHEST_REWIND, 0)
        for message in (*range(before - 1, near - 1, -1), *range(min(near, 2))):
            yield self[message]

    def written(self, born: int) -> tuple[bytes, ...]:
        """The hashes under which the next request finds this one: its end, its last reply, its first exchange.

        The last reply is the way back where the end is replaced each turn; the first exchange, where history is edited.
        Replies among the first `born` messages came with the session's first request: examples, perhaps, which every
        session of an agent begins with, so the first of them says nothing about which one it is. (The last one does,
        for a request that is longer than the one that wrote it: another session's first request is not.)
        """
        if not len(self):
            return ()
        first = next((reply for reply in self.replies if reply >= born), None)
        chosen = [len(self) - 1, *self.replies[-1:], *([first] if first is not None else [])]
        return tuple(dict.fromkeys(self[message] for message in chosen))

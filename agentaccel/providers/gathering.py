"""What a dialect's reader gathers while it reads a stretch of a request."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from agentaccel.canonical import digest
from agentaccel.facts import CacheFacts
from agentaccel.providers.memory import NO_FLAGS, Part, made_part
from agentaccel.types import Marker, Path, Segment, digest_of, show_path


@dataclass(slots=True)
class Gathering:
    """What a dialect's reader gathers while it reads a stretch. A reader adds `tools`, `system` and `messages`."""

    facts: CacheFacts | None
    hash_of: Callable[[bytes, bytes], bytes]
    """The hash of a segment: of what stands before it in its message, and its wire bytes."""
    segments: list[Segment] = field(init=False, default_factory=list)
    markers: list[Marker] = field(init=False, default_factory=list)
    misplaced: list[str] = field(init=False, default_factory=list)
    flags: set[str] = field(init=False, default_factory=set)

    def part(self, *, hashed: bool = True) -> Part:
        """What has been read, `hashed` as a whole where somebody asks for that; the reader is as new."""
        segments = tuple(self.segments)
        digests = (digest(b"".join(map(digest_of, segments))),) if hashed else ()
        self.segments.clear()
        if not self.markers and not self.flags:  # markers that are misplaced are among the markers
            return made_part(segments, (), (), NO_FLAGS, digests)
        read = made_part(segments, tuple(self.markers), tuple(self.misplaced), frozenset(self.flags), digests)
        self.markers, self.misplaced, self.flags = [], [], set()
        return read

    def found(self, path: Path, ttl: str, *, allowed: bool) -> None:
        """A marker stands at `path`, where one is `allowed` or not."""
        self.markers.append(Marker(path=path, ttl=ttl))
        if not allowed:
            self.misplaced.append(f"{show_path(path)} cannot carry a marker")

    def tools(self, tools: Sequence[Any]) -> None:
        """Read the list of tools."""
        raise NotImplementedError

    def system(self, system: Any) -> None:
        """Read what stands before the conversation."""
        raise NotImplementedError

    def messages(self, messages: Sequence[Any], start: int) -> None:
        """Read messages that stand from index `start` on."""
        raise NotImplementedError

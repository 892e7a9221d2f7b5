"""What several sessions may begin with: told when a session begins, and counted for those that come after."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

from agentaccel.cache.beliefs import LATER, REPEATED, SHARED, SHARED_BLOCKS, SHARED_OPENING, SHARED_TOOLS, Observation
from agentaccel.cache.prefix import Prefixes
from agentaccel.facts import CacheFacts
from agentaccel.types import Usage, message_start


def beginnings_of(prefix: Prefixes, born: int) -> dict[str, bytes]:
    """What another session may begin with too, by the topic it is counted under: the parts of `beginning_ends`, and all
    of it."""
    beginnings = {topic: prefix.hashes[end - 1] for topic, end in beginning_ends(prefix, born).items()}
    lasting = len(prefix.prompt.lasting)
    if lasting and not prefix.turn:
        beginnings[REPEATED] = prefix.hashes[lasting - 1]
    return beginnings


def beginning_ends(prefix: Prefixes, born: int) -> dict[str, int]:
    """Where what another session may begin with ends, by topic, ascending: the segment behind each part.

    These are the tools, where a system prompt follows them; the first blocks of the system prompt, where others follow;
    tools and system; and the opening, where the session's first request, of `born` messages, had several blocks: all of
    it but the last one, which mostly is the question. `born` is 0 for that request itself.
    """
    _, tools, static = prefix.starts
    ends = {SHARED_TOOLS: tools} if 0 < tools < static else {}
    ends |= dict(zip(SHARED_BLOCKS, range(tools + 1, static), strict=False))
    if static:
        ends[SHARED] = static
    prompt, count = prefix.prompt, len(prefix.prompt.lasting)
    if 0 < born < prompt.messages:
        count = min(message_start(prompt.segments, static, prompt.opening + born), count)
    if count - 1 > static:
        ends[SHARED_OPENING] = count - 1
    return ends


def read_beginnings(prefix: Prefixes, usage: Usage, born: int) -> dict[str, bool]:
    """Which of its beginnings a request read: one without entries of its own, so another session had them."""
    return _read(prefix, usage, beginning_ends(prefix, born))


def read_by_first(prefix: Prefixes, usage: Usage) -> list[str]:
    """The beginnings that a session's first request read, all of it among them: others had them, for it had none."""
    ends = beginning_ends(prefix, 0) | ({REPEATED: len(prefix.sizes)} if prefix.sizes else {})
    return [topic for topic, there in _read(prefix, usage, ends).items() if there]


def _read(prefix: Prefixes, usage: Usage, ends: Mapping[str, int]) -> dict[str, bool]:
    """Which parts of a prompt were read, by the segments behind them, ascending."""
    read, before, found = 0.0, 0, dict[str, bool]()
    if usage.read and usage.input:
        read = usage.read / usage.input * prefix.size
    for topic, end in ends.items():
        size = prefix.sizes[end - 1]
        found[topic] = read >= max(_NEARLY * size, (before + size) / 2)  # else the shorter one is what was read
        before = size
    return found


def used_earlier(beginnings: Mapping[str, bytes], last_used: Callable[[bytes], float | None]) -> dict[str, float]:
    """When sessions that begin so were last answered, by topic, of those that `last_used` knows."""
    times = {topic: last_used(hash_) for topic, hash_ in beginnings.items()}
    return {topic: at for topic, at in times.items() if at is not None}


_NEARLY = 0.9
"""Share of a beginning from which on it was read: by bytes its tokens are an estimate."""


def begun(
    beginnings: Mapping[str, bytes],
    last_used: Callable[[bytes], float | None],
    earlier: Mapping[str, float],
    *,
    started: float,
    visible: float,
    facts: CacheFacts,
    read: Collection[str] = (),
) -> list[Observation]:
    """Whether a session that began at `started`, begins as one did that was answered within a lifetime.

    `last_used` tells when the reply to a session that begins so last began, and `visible` when this one's did: from
    reply to reply is as long as from request to request, by which lifetimes go. Of several that began at once others
    may have been answered since, so `earlier` has what it told before this one was sent, by topic (`used_earlier`).
    `read` are the beginnings that this one did read: of several that waited for the first of them, nothing else may
    tell it. What was read after the default lifetime, because it had been written for longer, was still used as late
    as it was.
    """
    shortest, longest, seen = facts.ttls[0].seconds, facts.ttls[-1].seconds, []
    for topic, hash_ in beginnings.items():
        times = (last_used(hash_), earlier.get(topic))
        ago = min([visible - at for at in times if at is not None and at <= started], default=float("inf"))
        if topic in read and ago >= longest:
            ago = 0.0
        seen.append(Observation(topic, float(ago < shortest)))
        if topic in LATER and longest > shortest and ago >= shortest:
            seen.append(Observation(LATER[topic], float(ago < longest)))
    return seen

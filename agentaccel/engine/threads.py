"""Which of the conversations under a session's name a request belongs to.

A name may stand for several conversations at once: an agent with its sub-agents, the branches of a graph, a call on the
side that asks for a title or a summary. Each has what it has seen, its tool list and its statistics to itself. A
request belongs to the one whose messages it goes on from; where it goes on from none, to the one whose history it has
in another form: shortened, with its end kept, or told in a summary as long as the last reply. Else it begins another.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from agentaccel.cache.ledger import Ledger
from agentaccel.cache.pauses import USER
from agentaccel.cache.state import PreviousPrompt, SessionState, Static
from agentaccel.engine.conversation import Conversation, refresh
from agentaccel.engine.lineage import Lineage, Registry
from agentaccel.facts import CacheFacts
from agentaccel.hashing import digest
from agentaccel.records import key_of
from agentaccel.rewrite.arranging import NO_MEMORY
from agentaccel.store.store import MOST_THREADS, Store, places_of, threads_in
from agentaccel.types import Prompt, digest_of

_STEADY = 64
"""Bytes by which a system prompt may differ in size from the one before it to be taken for the same with another
clock, where the tools are others, too."""
_LEAST_KEPT = 2
"""Segments that must be left of a history: one alone may be a phrase that many conversations hold."""
_ALIKE = (0.5, 2.0)
"""Tokens of a summary as multiples of those of the reply that it was: it may have been thought about, or rendered
otherwise."""
_SHORTER = 0.5
"""Share of a history below which what stands for all of it is a summary."""


class Relation(NamedTuple):
    """How a request stands to one conversation whose messages it goes on from."""

    alike: int
    """1 where the tools are the same, 2 where the system prompt is, 3 where both are."""
    common: int
    """Messages that both begin with."""
    waits: bool
    """Whether the conversation has not gone on from there."""


@dataclass(frozen=True, slots=True)
class Threads:
    """The conversations of all names. Thread-safe."""

    registry: Registry

    def of(
        self, root: Conversation, prompt: Prompt, facts: CacheFacts | None, *, attempt: int = 0, begins: bool = True
    ) -> Conversation:
        """The conversation under the name of `root` that `prompt` belongs to; where it `begins` none, a new one is
        made for this once and kept nowhere."""
        if facts is None:
            return root  # nothing is known of what it leaves behind
        with root.sorting:
            found = _grown(_family(root), prompt)
            if found is None:
                if self.registry.recorder.store is not None:
                    self.registry.recorder.read(lambda store: self._catch_up(root, store, prompt, facts), None)
                found = self._found(root, prompt, facts, attempt)
            return _used(root, found) if found is not None else self._new(root, prompt, begins=begins)

    def known(self, root: Conversation | None, prompt: Prompt, facts: CacheFacts | None) -> Conversation | None:
        """The one that `prompt` would belong to, with no session where `root` is None; nothing is begun."""
        if root is None:
            return self.registry.by_lineage(prompt, Lineage(prompt))
        return self.of(root, prompt, facts, begins=False)

    def unnamed(self, prompt: Prompt, attempt: int) -> Conversation:
        """The conversation of a request where no session is open."""
        if prompt.after and (known := self.registry.by_reply(prompt.after)) is not None:
            return known
        lineage = Lineage(prompt)
        if prompt.held:  # its few messages are the beginning of nothing
            return self.registry.begin(lineage, retried=attempt > 0)
        return self.registry.by_lineage(prompt, lineage) or self.registry.begin(lineage, retried=attempt > 0)

    def told(self, root: Conversation, prompt: Prompt) -> Conversation:
        """The conversation whose next request begins like `prompt`, of which no messages are known yet."""
        static = static_of(prompt)
        alike = (one for one in _family(root)[::-1] if one.state.static is not None and _alike(one, static) == 3)
        return next(alike, root)

    def _found(self, root: Conversation, prompt: Prompt, facts: CacheFacts, attempt: int) -> Conversation | None:
        family, lineage, static = _family(root), Lineage(prompt, root.tenant), static_of(prompt)
        if prompt.held:
            known = self.registry.by_reply(prompt.after) if prompt.after else None
            return known if known is not None and known.session is root else family[-1]
        begun = _whole(lineage), static
        same = next((one for one in family if one.begun == begun and (attempt or not _has_gone_on(one))), None)
        if same is not None:
            same.repeats += not attempt
            return same
        places = self._places(family, lineage, prompt, static)
        best = max(places, key=lambda place: (place[0], place[1].repeats, family.index(place[1])), default=None)
        if best is None:
            told = _told(prompt)
            return next((one for one in family[::-1] if _is_rewritten(one, told, static, facts)), None)
        (_, common, waits), found = best
        if found.repeats and not waits and common == found.state.born:  # another of the replies to one first request
            found.repeats -= 1
            return None
        return found

    def _places(
        self, family: Sequence[Conversation], lineage: Lineage, prompt: Prompt, static: Static
    ) -> Iterator[tuple[Relation, Conversation]]:
        """Where `prompt` goes on from conversations, the longest way first."""
        left, done = {one.key: one for one in family}, False
        for common, hash_ in _ends(lineage):
            for key, one in list(left.items()):
                stop = self.registry.stop(key, hash_)
                if stop is None or (stop.messages >= prompt.messages and common < one.state.born):
                    continue  # examples, perhaps, which many conversations begin with
                del left[key]
                alike = _alike(one, static)
                if alike or _is_same_text(one, static):
                    yield Relation(alike, common, not stop.passed), one
                done = done or alike == 3
            if done or not left:
                return  # no place farther back comes before these

    def _new(self, root: Conversation, prompt: Prompt, *, begins: bool) -> Conversation:
        """A conversation that begins: in the place of one whose first request came to nothing, or another."""
        vacant = next((one for one in _family(root) if one.is_new and one.begun is None), None)
        if not begins:
            return vacant if vacant is not None else _fresh(root, Conversation(id=root.id, thread="new", root=root))
        if vacant is None:
            vacant = _fresh(root, self.registry.named(key_of(root.id, secrets.token_hex(4))))
        static = static_of(prompt)
        vacant.begun = (_whole(Lineage(prompt, root.tenant)), static)
        alike = (one for one in _family(root)[::-1] if one.print is not None and _alike(one, static) % 2)
        known = next((one for one in alike if one is not vacant and _is_same_text(one, static)), None)
        if known is not None:  # the same with another clock, say: what is known of its texts holds here, too
            vacant.like = known.print
            vacant.arranging = NO_MEMORY._replace(texts=known.arranging.texts) if known.arranging is not None else None
        return _used(root, vacant)

    def _catch_up(self, root: Conversation, store: Store, prompt: Prompt, facts: CacheFacts) -> None:
        """Take over what other processes have added to the conversations of the name."""
        known, turns = {one.key for one in root.others}, threads_in(store, root.id)
        root.others[:0] = [self.registry.named(key) for key in turns if key not in known]
        for one in _family(root):
            before = one.stored_turns
            if turns.get(one.key, before + 1) <= before:
                continue  # nothing to take over; of those that are not listed it is not known
            refresh(one, store, facts, prompt.provider)
            if one.stored_turns > before:
                for hashes, messages in places_of(store, one.key):
                    self.registry.waits_at(one.key, hashes, messages)


def static_of(prompt: Prompt) -> Static:
    """What `prompt` has in front of its messages."""
    tools, system = prompt.segments[: prompt.starts[1]], prompt.segments[prompt.starts[1] : prompt.starts[2]]
    names = sorted(one.name or one.kind for one in tools)
    return Static(
        digest(b"".join(map(digest_of, system))),
        sum(one.size for one in system),
        digest("\x00".join(names).encode("utf-8", "replace")),
        prompt.model,
    )


def _family(root: Conversation) -> list[Conversation]:
    return [root, *root.others]


def _used(root: Conversation, found: Conversation) -> Conversation:
    """`found`, as the one that was used last, with what is known of the session."""
    if found is not root:
        found.agent, found.tenant, found.parent = root.agent, root.tenant, root.parent
        others = [one for one in root.others if one is not found]
        root.others = [*others, found][-MOST_THREADS:]
    return found


def _fresh(root: Conversation, made: Conversation) -> Conversation:
    """`made`, which begins, with what the others of its name are known to hold."""
    ledger, shadow, ours = dict(root.state.ledger.entries), dict(root.state.shadow.entries), root.state.ours
    for one in root.others:
        ledger |= one.state.ledger.entries
        shadow |= one.state.shadow.entries
        ours = ours or one.state.ours
    made.state = SessionState(ledger=Ledger(ledger), shadow=Ledger(shadow), ours=ours)
    made.agent, made.tenant, made.parent = root.agent, root.tenant, root.parent
    return made


def _whole(lineage: Lineage) -> bytes:
    return lineage[-1] if len(lineage) else b""


def _ends(lineage: Lineage) -> Iterator[tuple[int, bytes]]:
    """The hashes by which a request may go on from an earlier one of its session, with the messages up to each; first
    its own, which a repeated one has."""
    if len(lineage) > 1:
        yield len(lineage), lineage[-1]
    yield from lineage.ends()


def _grown(family: Sequence[Conversation], prompt: Prompt) -> Conversation | None:
    """The one whose last request `prompt` has added to, and to nothing else; of several the one that came farthest."""
    grown = [one for one in family if _grew(one.head, prompt)]
    return max(grown, key=lambda one: one.head.messages if one.head is not None else 0, default=None)


def _grew(head: PreviousPrompt | None, prompt: Prompt) -> bool:
    """Whether all that the request behind `head` held comes first in `prompt`, with more behind it."""
    if head is None or head.messages >= prompt.messages or head.starts != prompt.starts:
        return False
    count = len(head.segments)
    return head.segments[-1:] == prompt.segments[count - 1 : count] and head.segments == prompt.segments[:count]


def _has_gone_on(one: Conversation) -> bool:
    """Whether its first request was gone on from."""
    return one.head is not None and one.head.messages > one.state.born


def _alike(one: Conversation, static: Static) -> int:
    before = one.state.static
    if before is None:
        return 1
    return 2 * (before.system == static.system) + (before.tools == static.tools)


def _is_same_text(one: Conversation, static: Static) -> bool:
    """Whether its system prompt is about as long as the one of `static`."""
    return one.state.static is not None and abs(one.state.static.size - static.size) <= _STEADY


class _Told(NamedTuple):
    """The messages of a request that goes on from none, as they are compared with what others of its name hold."""

    digests: list[bytes]
    messages: int
    size: int
    """Bytes of all."""
    first: int
    """Bytes of the first message."""


def _told(prompt: Prompt) -> _Told:
    segments = prompt.segments[prompt.starts[2] :]
    digests = list(map(digest_of, segments))
    first = sum(segment.size for segment in segments if segment.path[:2] == segments[0].path[:2])
    return _Told(digests, prompt.messages, sum(segment.size for segment in segments), first)


def _is_rewritten(one: Conversation, told: _Told, static: Static, facts: CacheFacts) -> bool:
    """Whether the messages that are `told` are the history of `one` in another form."""
    head, before = one.head, one.state.static
    if head is None or before is None or before.model != static.model or not _alike(one, static):
        return False
    if len(_texts(one, head).intersection(told.digests)) >= _LEAST_KEPT and _is_kept(head, told):
        return True
    if _alike(one, static) < 3:
        return False
    start = head.starts[2]
    begins_alike = head.segments[start : start + 1] and head.segments[start].digest in told.digests[:1]
    if begins_alike and one.state.turns == 1 and told.messages > head.messages:
        return True  # its first message ended in something that was for that request alone, as a reminder is
    return _is_summed_up(one, head, told, one.state.seen.bytes_per_token(static.model) or facts.bytes_per_token)


def _texts(one: Conversation, head: PreviousPrompt) -> frozenset[bytes]:
    """The digests of its messages: told once for each of its prompts, however many requests are compared with it."""
    if one.texts[0] is not head.segments:
        one.texts = head.segments, frozenset(map(digest_of, head.segments[head.starts[2] :]))
    return one.texts[1]


def _is_kept(head: PreviousPrompt, told: _Told) -> bool:
    """Whether texts from behind the place where both part are held by both."""
    old, new = list(map(digest_of, head.segments[head.starts[2] :])), told.digests
    first = next((i for i, pair in enumerate(zip(old, new, strict=False)) if pair[0] != pair[1]), len(old))
    return len(set(old[first:]) & set(new[first:])) >= _LEAST_KEPT


def _is_summed_up(one: Conversation, head: PreviousPrompt, told: _Told, ratio: float) -> bool:
    """Whether a message as long as the last reply stands in the place of a longer history."""
    state, replied = one.state, one.state.replied
    if not replied or state.turns < 2 or state.awaits != USER:
        return False
    shorter = told.size < _SHORTER * (head.sizes[-1] - (head.sizes[head.starts[2] - 1] if head.starts[2] else 0))
    return shorter and _ALIKE[0] * replied <= told.first / ratio <= _ALIKE[1] * replied

"""The physics of automatic prefix caches: OpenAI's before gpt-5.6, other vendors' and self-hosted servers'.

Nobody marks anything: a request reads the longest stretch that it shares with an earlier one, cut to whole steps, and
nothing is charged for writing. Pure, but for the table of what was sent. Source: providers.md, 2.3 and 4.

>>> rules = AutomaticRules(min_tokens=1024, step=128, report=128, seconds=600.0)
>>> def pieces(*texts):
...     return [Piece(tag=b"|user/text", data=text.encode()) for text in texts]
>>> exact = Tokenizer(bytes_per_token=1.0)
>>> cache = AutomaticCache()
>>> for texts, now in ((["a" * 2000], 0.0), (["a" * 1500 + "b" * 500], 9.0), (["a" * 1000 + "c" * 500], 18.0)):
...     read = cache.match(b"machine", pieces(*texts), exact, rules, now)
...     cache.keep(b"machine", pieces(*texts), exact, rules, now=now, visible_at=now + 1)
...     print(read)  # 1500 shared are 11 steps of 128; 1000 shared are below the minimum
0
1408
0
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b

from agentaccel_emulator.anthropic_prompt import Tokenizer
from agentaccel_emulator.openai_prompt import Piece, chained
from agentaccel_emulator.settlement import Lifetimes

_SWEEP_EVERY = 1_000
_MINUTE = 60.0
_ROUTED_BY = 256
"""Tokens at the front of a prompt that choose its machine (invented: the vendor says "the initial tokens")."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AutomaticRules:
    """What differs between models, vendors and servers."""

    min_tokens: int
    """Shortest prefix that is read."""
    step: int
    """Prefixes are kept in steps of so many tokens, hidden ones included."""
    report: int
    """Reads are reported in multiples of so many tokens."""
    seconds: float
    """How long a prefix lives after its last use."""
    oldest: float = float("inf")
    """How long a prefix lives at most, however often it is used."""
    recomputes: int = 0
    """Tokens at the end of every prompt that are never read: the model has to compute one to go on from."""


_Sent = tuple[bytes, bytes]
"""Tag and data of a piece; a breakpoint that it carries is no part of the prompt."""


@dataclass(slots=True)
class _Node:
    """A piece that was sent behind a certain prefix. Mutable: using it re-arms it."""

    born: float
    expires: float
    visible_at: float
    name: bytes
    """The hash of all up to here."""
    tokens: int
    used: int
    """Which prompt it was part of last."""

    def readable(self, now: float, oldest: float) -> bool:
        return self.visible_at <= now <= min(self.expires, self.born + oldest)


@dataclass(slots=True)
class AutomaticCache:
    """What was sent to each machine, as a tree of pieces; what may not be shared goes to different machines."""

    eviction: float = 0.0
    """Probability that a prefix dies at a random moment of its lifetime."""
    seed: int = 0
    """Seed of the evictions."""
    capacity: int | None = None
    """Tokens that there is room for; what was used longest ago goes first, from its end. None for any number."""
    _children: dict[bytes, dict[_Sent, _Node]] = field(default_factory=dict)
    _lifetimes: Lifetimes = field(init=False)
    _kept: int = 0
    _tokens: int = 0

    def __post_init__(self) -> None:
        self._lifetimes = Lifetimes(self.eviction, self.seed)

    def match(
        self, machine: bytes, pieces: Iterable[Piece], tokenizer: Tokenizer, rules: AutomaticRules, now: float
    ) -> int:
        """Tokens that a request which starts at `now` is reported to have read on `machine`."""
        pieces = tuple(pieces)
        shared = self._shared(machine, pieces, tokenizer, rules, now)
        total = sum(piece.tokens(tokenizer) for piece in pieces)
        if not shared:
            return 0
        boundary = (tokenizer.hidden + min(shared, total - rules.recomputes)) // rules.step * rules.step
        if boundary < rules.min_tokens:
            return 0
        return max(0, boundary - tokenizer.hidden) // rules.report * rules.report

    def keep(
        self,
        machine: bytes,
        pieces: Iterable[Piece],
        tokenizer: Tokenizer,
        rules: AutomaticRules,
        *,
        now: float,
        visible_at: float,
    ) -> None:
        """Note what was sent to `machine`; it can be read from `visible_at` on and lives from `now` on."""
        parent = machine
        self._kept += 1
        for piece in pieces:
            siblings, name = self._children.setdefault(parent, {}), chained(parent, piece)
            node = siblings.get(sent := (piece.tag, piece.data))
            expires = self._lifetimes.until(now, rules.seconds)
            if node is None or not now <= min(node.expires, node.born + rules.oldest):
                tokens = piece.tokens(tokenizer)
                siblings[sent] = _Node(now, expires, visible_at, name, tokens, self._kept)
                self._tokens += tokens - (0 if node is None else node.tokens)
            else:
                node.visible_at, node.used = min(node.visible_at, visible_at), self._kept
                node.expires = self._lifetimes.longer(node.expires, expires)
            parent = name
        if self._kept % _SWEEP_EVERY == 0:
            self._sweep(now)
        while self.capacity is not None and self._tokens > self.capacity and self._evicted():
            pass

    def _evicted(self) -> bool:
        """True if there was an end of some prompt to give up: the one that was used longest ago."""
        ends = (
            (node.used, parent, sent, node)
            for parent, siblings in self._children.items()
            for sent, node in siblings.items()
            if not self._children.get(node.name)
        )
        used, parent, sent, node = min(ends, key=lambda end: end[0])
        if used == self._kept:
            return False  # what is being used stays
        del self._children[parent][sent]
        self._tokens -= node.tokens
        return True

    def _shared(
        self, machine: bytes, pieces: Sequence[Piece], tokenizer: Tokenizer, rules: AutomaticRules, now: float
    ) -> int:
        shared, parent = 0, machine
        for piece in pieces:
            siblings = self._children.get(parent, {})
            node = siblings.get((piece.tag, piece.data))
            if node is None or not node.readable(now, rules.oldest):
                alike = (
                    common(data, piece.data)
                    for (tag, data), seen in siblings.items()
                    if tag == piece.tag and seen.readable(now, rules.oldest)
                )
                return shared + int(max(alike, default=0) / tokenizer.bytes_per_token) * (piece.fixed is None)
            shared += piece.tokens(tokenizer)
            parent = chained(parent, piece)
        return shared

    def _sweep(self, now: float) -> None:
        for parent in list(self._children):
            live = {sent: node for sent, node in self._children[parent].items() if node.expires >= now}
            self._tokens -= sum(node.tokens for sent, node in self._children[parent].items() if sent not in live)
            if live:
                self._children[parent] = live
            else:
                del self._children[parent]


def common(one: bytes, other: bytes) -> int:
    """How many bytes two pieces have in common at the front."""
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        if one[:middle] == other[:middle]:
            low = middle
        else:
            high = middle - 1
    return low


@dataclass(slots=True)
class Router:
    """Which machine a request goes to. Mutable: it remembers the last minute.

    A prefix and key have one machine until they are sent too often; what is beyond the rate goes to further machines,
    which have not seen them. Each request goes to the first that has had fewer than the rate in the last minute
    (invented: the vendor says that some "overflow and get routed to additional machines").
    """

    rate: int
    """Requests a minute that one prefix and key stand; 0 is without limit."""
    _seen: dict[bytes, list[deque[float]]] = field(default_factory=dict)
    """By prefix and key: what each of its machines was sent in the last minute."""

    def machine(self, root: bytes, pieces: Iterable[Piece], key: str, tokenizer: Tokenizer, now: float) -> bytes:
        """The machine for a request of `pieces` that starts at `now`; `root` is what may not be shared."""
        route = blake2b(root + key.encode(), digest_size=16)
        left = _ROUTED_BY
        for piece in pieces:
            if left <= 0:
                break
            tokens = piece.tokens(tokenizer)
            route.update(piece.tag + piece.data[: int(left * tokenizer.bytes_per_token)])
            left -= tokens
        digest = route.digest()
        if not self.rate:
            return digest
        machines = self._seen.setdefault(digest, [])
        for seen in machines:
            while seen and seen[0] <= now - _MINUTE:
                seen.popleft()
        number = next((n for n, seen in enumerate(machines) if len(seen) < self.rate), len(machines))
        if number == len(machines):
            machines.append(deque())
        machines[number].append(now)
        return digest if not number else blake2b(digest + b"%d" % number, digest_size=16).digest()

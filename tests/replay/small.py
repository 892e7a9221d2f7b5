"""Small instances for the oracle, and every plan for them looked at: the cache's rules written a second time.

Written from the vendor's algorithm alone, in plain dictionaries; it shares no code with the ledger or the oracle.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import combinations, product

from agentaccel.cache.ledger import Breakpoint
from agentaccel.cache.prefix import prefixes
from agentaccel.facts import CacheFacts, cache_facts
from agentaccel.hashing import digest
from agentaccel.replay.runs import Step
from agentaccel.types import Prompt, Segment

WRITE = {"5m": 1.25, "1h": 2.0}
SECONDS = {"5m": 300.0, "1h": 3600.0}
READ = 0.1


@dataclass(frozen=True)
class Rules:
    """Of one instance."""

    minimum: int
    lookback: int
    markers: int
    runs: bool


@dataclass(frozen=True)
class Block:
    """One content block."""

    text: str
    tokens: int
    kind: str = "text"

    @property
    def markable(self) -> bool:
        return self.kind != "thinking"


@dataclass(frozen=True)
class Ask:
    """One request."""

    blocks: tuple[Block, ...]
    started: float
    visible: float
    own: tuple[tuple[int, str], ...] = ()
    optional: bool = False
    """Whether it may be left out: it is asked again, only to keep what is held, and so it must read and write nothing.
    """

    def key(self, end: int) -> tuple[str, ...]:
        return tuple(block.text for block in self.blocks[: end + 1])

    def tokens(self, end: int) -> int:
        return sum(block.tokens for block in self.blocks[: end + 1])


Cache = dict[tuple[str, ...], tuple[str, float, float]]
"""Lifetime, expiry and readability of each prefix."""


def brute_force(asks: list[Ask], rules: Rules) -> float:
    """The least that any legal markers cost, by looking at all of them."""
    states: dict[frozenset[tuple[tuple[str, ...], tuple[str, float, float]]], float] = {frozenset(): 0.0}
    for ask in asks:
        following: dict[frozenset[tuple[tuple[str, ...], tuple[str, float, float]]], float] = {}
        every = list(legal_markers(ask, rules))
        for state, spent in states.items():
            if ask.optional:
                following[state] = min(following.get(state, float("inf")), spent)
            for markers in every:
                cost, cache = handle(ask, markers, dict(state), rules)
                if ask.optional and not keeps(ask, dict(state), cache):
                    continue
                key = frozenset(cache.items())
                following[key] = min(following.get(key, float("inf")), spent + cost)
        states = following
    return min(states.values())


def keeps(ask: Ask, before: Cache, after: Cache) -> bool:
    """Whether an entry was read, and none was written."""
    there = {key: entry for key, entry in before.items() if entry[1] > ask.started}
    if set(after) != set(there) or any(after[key][2] != there[key][2] for key in there):
        return False
    return any(after[key] != there[key] for key in there)


def legal_markers(ask: Ask, rules: Rules) -> Iterator[list[tuple[int, str]]]:
    own = dict(ask.own)
    free = [i for i, block in enumerate(ask.blocks) if block.markable and i not in own]
    free = [i for i in free if ask.tokens(i) >= rules.minimum]
    for count in range(max(rules.markers - len(own), 0) + 1):
        for chosen in combinations(free, count):
            for labels in product(WRITE, repeat=count):
                markers = sorted([*own.items(), *zip(chosen, labels, strict=True)])
                seconds = [SECONDS[label] for _, label in markers]
                if seconds == sorted(seconds, reverse=True):
                    yield markers


def handle(ask: Ask, markers: list[tuple[int, str]], cache: Cache, rules: Rules) -> tuple[float, Cache]:
    """The cost of one request, and the cache behind it."""
    now = ask.started
    cache = {key: entry for key, entry in cache.items() if entry[1] > now}
    markers = [(at, label) for at, label in markers if ask.tokens(at) >= rules.minimum]
    hit = -1
    for at, _ in reversed(markers):
        position, found = at, False
        for _ in range(rules.lookback):
            entry = cache.get(ask.key(position))
            if entry is not None and entry[2] <= now:
                hit, found = position, True
                break
            position = before(ask, position, rules)
            if position < 0:
                break
        if found:
            break
    read = ask.tokens(hit)
    for end in range(hit + 1):
        entry = cache.get(ask.key(end))
        if entry is not None and entry[2] <= now:
            cache[ask.key(end)] = (entry[0], now + SECONDS[entry[0]], entry[2])
    behind = [(at, label) for at, label in markers if at > hit]
    hours = max((ask.tokens(at) for at, label in behind if label == "1h"), default=read)
    last = max((ask.tokens(at) for at, _ in behind), default=read)
    for at, label in behind:
        entry = (label, now + SECONDS[label], ask.visible)
        old = cache.get(ask.key(at))
        if old is not None:  # written by another request that was not answered yet
            longer = old if old[1] > entry[1] else entry
            entry = (longer[0], longer[1], min(old[2], entry[2]))
        cache[ask.key(at)] = entry
    total = ask.tokens(len(ask.blocks) - 1)
    return read * READ + (hours - read) * WRITE["1h"] + (last - hours) * WRITE["5m"] + total - last, cache


def before(ask: Ask, position: int, rules: Rules) -> int:
    kind = ask.blocks[position].kind
    if rules.runs and kind in ("tool_use", "tool_result"):
        while position > 0 and ask.blocks[position - 1].kind == kind:
            position -= 1
    return position - 1


# --- instances --------------------------------------------------------------------------------------------------------


def instance(seed: int, *, most: int) -> tuple[list[Ask], Rules]:
    """A random one of at most `most` blocks a request: they grow, part or repeat, with pauses around both lifetimes."""
    chance = random.Random(seed)
    rules = Rules(
        minimum=chance.choice([0, 0, 100, 250]),
        lookback=chance.choice([1, 2, 3, 20]),
        markers=chance.choice([1, 2, 2, 3, 4]),
        runs=chance.random() < 0.5,
    )
    asks: list[Ask] = []
    now, most = 0.0, chance.randint(3, most)
    for number in range(chance.choice([2, 3, 3, 4]) if most < 5 else 3):
        now += chance.choice([0.0, 1.0, 5.0, 60.0, 250.0, 299.0, 300.0, 320.0, 3300.0, 3599.0, 3700.0])
        blocks = _blocks(chance, asks, number, most)
        own: tuple[tuple[int, str], ...] = ()
        if chance.random() < 0.2:
            at = chance.randrange(len(blocks))
            own = ((at, chance.choice(["5m", "1h"])),) if blocks[at].markable else ()
        asks.append(Ask(blocks, now, now + chance.choice([0.0, 2.0, 30.0]), own))
    return asks, rules


def instance_with_pauses(seed: int) -> tuple[list[Ask], Rules]:
    """A random one whose last request, or a middle one, may be asked again during the pause that follows."""
    asks, rules = instance(seed, most=3)
    chance = random.Random(f"pauses {seed}")
    asks = [replace(ask, own=()) for ask in asks[:3]]
    at = chance.randrange(len(asks) - 1)
    longer = chance.choice([320.0, 580.0, 850.0, 3700.0])
    begun = asks[at]
    late = [replace(a, started=a.started + longer, visible=a.visible + longer) for a in asks[at + 1 :]]
    again = [begun.started + n * chance.choice([250.0, 290.0, 299.0]) for n in (1, 2)]
    optional = [replace(begun, started=when, visible=when, optional=True) for when in again if when > begun.visible]
    optional = [one for one in optional if one.started < late[0].started]
    return [*asks[: at + 1], *optional, *late], rules


def _blocks(chance: random.Random, asks: list[Ask], number: int, most: int) -> tuple[Block, ...]:
    kept: tuple[Block, ...] = ()
    if asks and chance.random() < 0.9:
        old = chance.choice([*asks, asks[-1], asks[-1]]).blocks
        kept = old[: chance.choice([len(old), len(old), chance.randint(1, len(old))])]
    grown = list(kept)
    for i in range(chance.randint(0 if grown else 1, max(most - len(grown), 0 if grown else 1))):
        kind = chance.choice(["text", "text", "tool_use", "tool_use", "tool_result", "tool_result", "thinking"])
        grown.append(Block(f"{number}/{i}", chance.choice([20, 100, 100, 150, 400]), kind))
    return tuple(grown)


def steps_of(asks: list[Ask], rules: Rules) -> list[Step]:
    """The same instance in the oracle's terms."""
    base = cache_facts("claude-sonnet-5")
    assert base is not None
    facts = replace(
        base,
        min_tokens=rules.minimum,
        lookback=rules.lookback,
        max_markers=rules.markers,
        read=READ,
        positions="runs" if rules.runs else "blocks",
    )
    return [_step(ask, facts) for ask in asks]


def _step(ask: Ask, facts: CacheFacts) -> Step:
    segments = tuple(
        Segment(
            level="messages", path=("messages", i, "content", 0), kind=block.kind, role="user", name="",
            digest=digest(block.text.encode()), size=block.tokens, markable=block.markable,
        )
        for i, block in enumerate(ask.blocks)
    )  # fmt: skip
    prompt = Prompt(
        provider="anthropic", platform="api", model="m", segments=segments, parameters={}, markers=(),
        messages=len(segments), stream=False,
    )  # fmt: skip
    return Step(
        prefix=prefixes(prompt, facts),
        tokens=tuple(ask.tokens(i) for i in range(len(segments))),
        started=ask.started,
        visible=ask.visible,
        marks=tuple(Breakpoint(at, label) for at, label in ask.own),
        optional=ask.optional,
    )

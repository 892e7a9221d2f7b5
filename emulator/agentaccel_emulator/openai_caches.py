"""Which physics bills a prompt: breakpoints, an automatic cache, or none. The facts of the model decide."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from agentaccel.facts import CacheFacts
from agentaccel_emulator.anthropic_prompt import Tokenizer
from agentaccel_emulator.automatic_cache import AutomaticCache, AutomaticRules, Router
from agentaccel_emulator.behaviour import Behaviour
from agentaccel_emulator.breakpoint_cache import BreakpointCache, BreakpointRules, Wanted
from agentaccel_emulator.openai_candidate import extra_facts
from agentaccel_emulator.openai_prompt import Prompt, read_tape, root_hash
from agentaccel_emulator.slot_cache import SlotCache

Json = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A prompt that is to be billed."""

    prompt: Prompt
    """The prompt."""
    body: Json
    """The request."""
    facts: CacheFacts | None
    """What is known of the model; None where nothing is cached."""
    scope: object
    """What may not be shared."""
    tokenizer: Tokenizer
    """How tokens are counted."""
    now: float
    """When the request starts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bill:
    """How a prompt divides, and how to keep what it writes."""

    total: int
    """Tokens of the whole prompt."""
    read: int = 0
    """Tokens read."""
    written: Mapping[str, int] = field(default_factory=dict)
    """Tokens that are paid for as written, per lifetime."""
    markers: tuple[tuple[int, str], ...] = ()
    """Piece and lifetime of each breakpoint that is written."""
    hit: int | None = None
    """The piece that was read up to, where entries have places."""
    keep: Callable[[float], None] = lambda _: None
    """Writes what there is to write; it can be read from the given moment on."""


class PromptCaches:
    """The caches of one server. Not thread-safe: its owner takes turns."""

    def __init__(self, behaviour: Behaviour) -> None:
        self._behaviour = behaviour
        options = {"eviction": behaviour.eviction, "seed": behaviour.seed}
        self.breakpoints = BreakpointCache(**options)  # type: ignore[arg-type]  # two numbers
        self.automatic = AutomaticCache(**options, capacity=behaviour.capacity)  # type: ignore[arg-type]
        self.slots = None if behaviour.slots is None else SlotCache(slots=behaviour.slots)
        self._routers: dict[int, Router] = {}

    def bill(self, asked: Asked) -> Bill:
        """Bill a prompt."""
        facts = asked.facts
        if facts is None or not _caches(asked, facts):
            return Bill(total=sum(piece.tokens(asked.tokenizer) for piece in asked.prompt.pieces))
        return self._at_breakpoints(asked, facts) if facts.physics == "breakpoints" else self._by_itself(asked, facts)

    def _at_breakpoints(self, asked: Asked, facts: CacheFacts) -> Bill:
        options = asked.body.get("prompt_cache_options") or {}
        seconds = {ttl.label: ttl.seconds for ttl in facts.ttls}
        wanted = Wanted(
            implicit=options.get("mode", "implicit") == "implicit", ttl=options.get("ttl") or facts.ttls[0].label
        )
        extra = extra_facts(facts)
        rules = BreakpointRules(
            min_tokens=facts.min_tokens,
            endings=facts.lookback,
            first=extra["lookup_first"],
            latest=extra["lookup_latest"],
            writes=facts.max_markers,
            seconds=seconds,
            sees_implicit=self._behaviour.explicit_sees_implicit,
            sees_explicit=self._behaviour.implicit_sees_explicit,
        )
        tape = read_tape(asked.prompt, [asked.scope, asked.body.get("prompt_cache_key")], asked.tokenizer)
        settled = self.breakpoints.settle(tape, rules, wanted, asked.now)

        def keep(visible_at: float) -> None:
            self.breakpoints.keep(tape, settled, rules, wanted, now=asked.now, visible_at=visible_at)

        return Bill(
            total=tape.total,
            read=settled.read,
            written=settled.written,
            markers=settled.entries,
            hit=settled.hit,
            keep=keep,
        )

    def _by_itself(self, asked: Asked, facts: CacheFacts) -> Bill:
        extra = extra_facts(facts)
        wanted = asked.body.get("prompt_cache_retention") or ("in_memory" if self._behaviour.zero_retention else None)
        ttl = facts.ttl(wanted or "") or facts.ttls[0]
        rules = AutomaticRules(
            min_tokens=facts.min_tokens,
            step=facts.step,
            report=extra.get("report_step", facts.step),
            seconds=ttl.seconds,
            oldest=extra.get("longest", {}).get(ttl.label, float("inf")),
            recomputes=1 if extra.get("self_hosted") else 0,
        )
        pieces = tuple(asked.prompt.pieces)
        own = extra.get("self_hosted") and not facts.salt_field  # a server that keeps nobody's prefixes apart
        apart = [None, None] if own else [asked.scope, asked.body.get("cache_salt")]
        machine = root_hash(apart, asked.prompt.seed)
        if rate := extra.get("key_rate", 0):
            router = self._routers.setdefault(rate, Router(rate))
            key = asked.body.get("prompt_cache_key") or ""
            machine = router.machine(machine, pieces, key, asked.tokenizer, asked.now)
        total, tokenizer = sum(piece.tokens(asked.tokenizer) for piece in pieces), asked.tokenizer
        if (slots := self.slots) is not None:
            read = min(slots.match(machine, pieces, tokenizer, asked.now), total - rules.recomputes)

            def take(visible_at: float) -> None:
                slots.keep(machine, pieces, tokenizer, now=asked.now, visible_at=visible_at)

            return Bill(total=total, read=max(read, 0), keep=take)
        read = self.automatic.match(machine, pieces, tokenizer, rules, asked.now)

        def keep(visible_at: float) -> None:
            self.automatic.keep(machine, pieces, tokenizer, rules, now=asked.now, visible_at=visible_at)

        return Bill(total=total, read=read, keep=keep)


def _caches(asked: Asked, facts: CacheFacts) -> bool:
    """Whether the request wants a cache: some servers have to be asked, and some can be told not to."""
    if asked.body.get("cache_prompt") is False:
        return False
    return facts.key != "opts_in" or bool(asked.body.get("prompt_cache_key"))

"""The nouns of a replay: recorded conversations with nothing of their content, only hashes, sizes and times."""

from __future__ import annotations

from dataclasses import dataclass

from agentaccel.cache.ledger import Breakpoint
from agentaccel.cache.prefix import Prefixes, prefixes
from agentaccel.cache.state import head_of
from agentaccel.facts import CacheFacts
from agentaccel.records import TurnRecord
from agentaccel.types import Prompt, Usage
from agentaccel.values import maker


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One request of a run."""

    prefix: Prefixes
    """The prompt, with one chained hash per segment; equal hashes are equal prefixes, in every run."""
    tokens: tuple[int, ...]
    """Tokens of the prefix that ends with each segment, inclusive; never decreasing. What the provider would count."""
    started: float
    """When the request was sent: seconds since the epoch, or since the beginning where the source has no times."""
    visible: float
    """When the reply began: what the request wrote can be read from then on."""
    finished: float | None = None
    """When the reply ended, from where on we know of it; None where the source does not say: then when it began."""
    marks: tuple[Breakpoint, ...] = ()
    """The markers that it was sent with, ascending; empty where the source does not have them."""
    recorded: Usage | None = None
    """What the provider reported; None where the source does not say."""
    optional: bool = False
    """Whether it may be left out: a request of our own, which only keeps entries alive and of which nothing is new."""
    awaits: str = ""
    """What the reply asked for: "tool" or "user"; empty where the source does not say."""
    turn: TurnRecord | None = None
    """Its record, by which it is priced; None where the source has none."""

    @property
    def total(self) -> int:
        """Tokens of the whole prompt."""
        return self.tokens[-1] if self.tokens else 0

    def sent_as(self, prefix: Prefixes, tokens: tuple[int, ...], marks: tuple[Breakpoint, ...]) -> Step:
        """The same request with another prompt, or other markers: a replay tries many."""
        return _step(
            prefix=prefix,
            tokens=tokens,
            started=self.started,
            visible=self.visible,
            finished=self.finished,
            marks=marks,
            recorded=self.recorded,
            optional=self.optional,
            awaits=self.awaits,
            turn=self.turn,
        )

    def tokens_at(self, i: int) -> int:
        """Tokens of the prefix that ends with segment i, inclusive; 0 for -1."""
        return self.tokens[i] if i >= 0 else 0


_step = maker(Step)


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One conversation, its steps in the order in which they were sent."""

    id: str
    workload: str
    """What statistics are learned for."""
    steps: tuple[Step, ...]
    inferred: bool = False
    """True where the prompts were rebuilt from usage alone, because the source has no bodies."""


# --- The prefixes of a recorded prompt, and their tokens from recorded totals: what the provider would have counted ---


def grown(prompt: Prompt, facts: CacheFacts, before: Step | None) -> Prefixes:
    """The prefixes of `prompt`; those that the request `before` had, too, are not made again."""
    if before is None:
        return prefixes(prompt, facts)
    return prefixes(prompt, facts, head_of(before.prefix, started=before.started, tokens=None, message_id=None))


def counted(prefix: Prefixes, before: Step | None, total: int | None) -> tuple[int, ...]:
    """Tokens per prefix of `prefix`, never decreasing, the last of them `total`.

    What the request `before` began with, too, keeps the tokens that it had there; what `total` has beyond that goes
    to the other segments by their bytes. Where that cannot be (the provider counted less than before, as when hidden
    tokens have gone), all prefixes are scaled alike. Without a total, bytes count by the ratio that the facts state.
    """
    sizes = prefix.sizes
    if not sizes:
        return ()
    shared = _shared(prefix, before)
    base = before.tokens[shared - 1] if before is not None and shared else 0
    start = sizes[shared - 1] if shared else 0
    added = sizes[-1] - start
    if total is None:
        rate = 1.0 / prefix.facts.bytes_per_token
    elif total < base or not added:
        return (*(round(size * total / max(sizes[-1], 1)) for size in sizes[:-1]), total)
    else:
        rate = (total - base) / added
    known = before.tokens[:shared] if before is not None else ()
    return (*known, *(base + round((size - start) * rate) for size in sizes[shared:]))


def _shared(prefix: Prefixes, before: Step | None) -> int:
    """Segments that both prompts begin with."""
    if before is None:
        return 0
    pairs = zip(prefix.hashes, before.prefix.hashes, strict=False)
    return next((i for i, (now, then) in enumerate(pairs) if now != then), min(len(prefix.hashes), len(before.tokens)))

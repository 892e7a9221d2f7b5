"""The prefixes of a recorded prompt, and their tokens from recorded totals: what the provider would have counted."""

from __future__ import annotations

from agentaccel.cache.prefix import Prefixes, prefixes
from agentaccel.cache.state import head_of
from agentaccel.facts import CacheFacts
from agentaccel.replay.runs import Step
from agentaccel.types import Prompt


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

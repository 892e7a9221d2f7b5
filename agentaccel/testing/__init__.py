"""The public test kit: assertions for your own suite, over requests you captured or a trace store you wrote.

Run your agent against the emulator (`agentaccel.emulator`) with `Policy(strict=True)`, then assert.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise

from agentaccel.facts import cache_facts
from agentaccel.prompt.drift import compare
from agentaccel.providers.anthropic import decode
from agentaccel.records import TurnRecord
from agentaccel.types import Request

__all__ = ["assert_hit_rate", "assert_prefix_stable"]


def assert_prefix_stable(requests: Sequence[Request], *, model: str | None = None) -> None:
    """Assert that each request of one conversation begins with the whole prompt of the one before it.

    `model` names a known model where the requests use a name of your own. Raises AssertionError with the place and the
    likely cause of the first change.

    >>> ask = {"role": "user", "content": "Hi."}
    >>> assert_prefix_stable([
    ...     {"model": "claude-sonnet-5", "system": "It is 12:00.", "messages": [ask]},
    ...     {"model": "claude-sonnet-5", "system": "It is 12:01.", "messages": [ask, ask]},
    ... ])
    Traceback (most recent call last):
        ...
    AssertionError: request 1 leaves request 0 at system, byte 10: clock
    """
    for i, (old, new) in enumerate(pairwise(requests)):
        facts = cache_facts(model or str(new.get("model", "")))
        assert facts is not None, f"no cache facts for model {new.get('model')!r}: pass model=… to name a known one"
        found = compare(old, new, decode(old, facts), decode(new, facts), facts)
        if found is not None:
            place = found.where if found.byte is None else f"{found.where}, byte {found.byte}"
            raise AssertionError(f"request {i + 1} leaves request {i} at {place}: {found.likely}")


def assert_hit_rate(records: Iterable[TurnRecord], at_least: float) -> None:
    """Assert that cache reads over all input tokens reach `at_least` (0 to 1), failed requests left out.

    Raises AssertionError with the rate, and where nothing was reported: silence is no hit.
    """
    answered = [record for record in records if record.usage.reported]
    assert answered, "no request reported what the cache did"
    total = sum(record.usage.input or 0 for record in answered)
    read = sum(record.usage.read or 0 for record in answered)
    rate = read / total if total else 0.0
    assert rate >= at_least, f"hit rate is {rate:.1%}, below {at_least:.1%}: {read} of {total} input tokens were read"

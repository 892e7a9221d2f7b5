"""Markers of whoever sent a request that cost more than they save: what is written in front of what changes."""

from __future__ import annotations

from collections.abc import Iterator

from agentaccel.cache.scene import Scene
from agentaccel.cache.weigh import expected_bill, expected_cost
from agentaccel.facts import CacheFacts
from agentaccel.types import Expected


def in_vain(scene: Scene, cost: float) -> Iterator[str]:
    """That the markers of whoever sent the request cost more than they save, and by how much; a framework sets them."""
    own = sum(not mark.own for mark in scene.existing)
    bare = scene._replace(existing=(), counting=())
    if not own or expected_cost(bare, ()) >= cost:
        return
    now, without = (_price(scene.facts, expected_bill(one, ())) for one in (scene, bare))
    share = 1 - without / now if now else 0.0
    if share >= _WORTH_SAYING:
        yield (
            f"the request's own {own} marker(s) write what is hardly read again: with the caching of whatever sets "
            f"them switched off, this request is expected to cost {share:.0%} less"
        )


_WORTH_SAYING = 0.02
"""Share of a request's cost that markers must waste to be worth a word."""


def _price(facts: CacheFacts, bill: Expected) -> float:
    """What is billed, in uncached tokens."""
    dear = {ttl.label: ttl.write for ttl in facts.ttls}
    return facts.read * bill.read + sum(dear.get(one, 1.0) * n for one, n in bill.write.items()) + bill.uncached

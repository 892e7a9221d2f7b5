"""How many slots of a host real calls need at once.

The most that were seen, which fades: one large turn does not keep early runs from the slots that it took for ever.
"""

from __future__ import annotations

FADES = 1 / 16
"""Of a slot, for each real call that begins and needs fewer: what is needed once in so many calls is kept free."""


def still_needed(needed: float, running: int) -> float:
    """What is needed, once a real call has begun with which so many are under way.

    >>> still_needed(1.0, 4), still_needed(4.0, 1)
    (4.0, 3.9375)
    """
    return max(float(running), needed - FADES)

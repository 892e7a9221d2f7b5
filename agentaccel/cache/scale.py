"""Tokens from bytes: the provider tells the exact count of every turn, so no tokenizer is needed."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from agentaccel.cache.prefix import Prefixes
from agentaccel.values import quickly_made


@quickly_made
@dataclass(frozen=True, slots=True)
class Scale:
    """Tokens of the prefixes of one prompt: exact where the provider counted them, by their bytes elsewhere."""

    sizes: Sequence[int]
    """Bytes of each prefix."""
    at: tuple[int, ...]
    """Segments whose prefix the provider has counted, ascending."""
    counts: tuple[float, ...]
    """Their tokens, never decreasing."""
    bytes_per_token: float
    """Beyond and between counted prefixes."""
    calibrated: bool
    """Whether a count of this provider stands behind the figures."""

    def __call__(self, i: int) -> float:
        """Tokens of the prefix that ends with segment i, inclusive; 0 for -1."""
        if i < 0:
            return 0.0
        below = bisect_right(self.at, i) - 1
        base = self.counts[below] if below >= 0 else 0.0
        start = self.sizes[self.at[below]] if below >= 0 else 0
        estimate = base + (self.sizes[i] - start) / self.bytes_per_token
        if below + 1 < len(self.at):
            # Between two counts, by the share of the bytes between them.
            span = self.sizes[self.at[below + 1]] - start
            if span > 0:
                estimate = base + (self.counts[below + 1] - base) * (self.sizes[i] - start) / span
        return estimate


def scale(
    prefix: Prefixes, known: Mapping[int, int | None], bytes_per_token: float | None, total: int | None = None
) -> Scale:
    """The scale for the prompt of `prefix`.

    `known` holds exact counts by the segment that the prefix ends with; `bytes_per_token` is what was learned (None:
    the facts' prior); `total` is the exact count of the whole prompt once its reply has told it.
    """
    last = len(prefix.hashes) - 1
    whole = float(total) if total is not None and last >= 0 else None
    at: list[int] = []
    ordered: list[float] = []
    highest = 0.0
    for index, count in sorted(known.items()):
        # Counts of different requests may disagree by hidden tokens; what would make the scale fall is left out.
        if count is not None and count >= highest and not (index == last and whole is not None):
            at.append(index)
            highest = float(count)
            ordered.append(highest)
    if whole is not None:
        # The count of this very request outweighs those of others.
        at, ordered = ([*at, last], [*ordered, whole]) if whole >= highest else ([last], [whole])
    return Scale(
        sizes=prefix.sizes,
        at=tuple(at),
        counts=tuple(ordered),
        bytes_per_token=bytes_per_token or prefix.facts.bytes_per_token,
        calibrated=bytes_per_token is not None or bool(at),
    )

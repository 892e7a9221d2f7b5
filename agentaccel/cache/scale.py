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
        if below >= 0 and self.at[below] == i:
            return base
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
    counted = sorted([(i, count) for i, count in known.items() if count is not None and (whole is None or i != last)])
    at, counts = zip(*counted, strict=True) if counted else ((), ())
    if list(counts) != sorted(counts):
        at, counts = _rising(counted)
    if whole is not None:
        # The count of this very request outweighs those of others.
        at, counts = ((*at, last), (*counts, whole)) if not counts or whole >= counts[-1] else ((last,), (whole,))
    return Scale(
        sizes=prefix.sizes,
        at=at,
        counts=tuple(map(float, counts)),
        bytes_per_token=bytes_per_token or prefix.facts.bytes_per_token,
        calibrated=bytes_per_token is not None or bool(at),
    )


def _rising(counted: Sequence[tuple[int, int]]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Counts of different requests may disagree by hidden tokens: without those that would make the scale fall."""
    kept = list(counted[:1])
    for i, count in counted[1:]:
        if count >= kept[-1][1]:
            kept.append((i, count))
    return tuple([i for i, _ in kept]), tuple([count for _, count in kept])

"""How long replies take to begin: what was stated of it, corrected by how it went."""

from __future__ import annotations

from dataclasses import dataclass, field

from agentaccel.facts import priors

_FADE = 0.8
"""Each new observation multiplies the weight of those before it by this."""


@dataclass(slots=True)
class Pace:
    """What has been seen in this process, by kind of request."""

    _seen: dict[str, tuple[float, float]] = field(default_factory=dict)
    """The seconds that first bytes took, and those that were stated for them."""

    def expected(self, kind: str, stated: float) -> float:
        """Seconds to a first byte for which `stated` were stated; that is worth one occasion like this one.

        >>> pace = Pace()
        >>> pace.saw("any", took=8.0, stated=2.0)
        >>> pace.expected("any", 2.0), pace.expected("other", 2.0)
        (5.0, 2.0)
        """
        took, said = self._seen.get(kind, (0.0, 0.0))
        return stated * (took + stated) / (said + stated)

    def saw(self, kind: str, *, took: float, stated: float) -> None:
        """A reply has begun after `took` seconds."""
        before, said = self._seen.get(kind, (0.0, 0.0))
        self._seen[kind] = before * _FADE + took, said * _FADE + stated


def stated_seconds(tokens: float, *, streamed: bool) -> float:
    """Seconds that the first byte of a reply is stated to take when so many tokens of the prompt are not cached.

    >>> stated_seconds(0, streamed=True), stated_seconds(50_000, streamed=True), stated_seconds(50_000, streamed=False)
    (1.0, 5.5, 8.5)
    """
    known = priors()
    return known.first_byte + known.first_byte_per_1k * tokens / 1000 + (0.0 if streamed else known.whole_reply)

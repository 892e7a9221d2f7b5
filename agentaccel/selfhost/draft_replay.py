"""What a way of guessing ahead would have made of replies that were recorded: pure.

    talks = [Talk(site="agent", passages=(Passage(prompt), Passage(reply, said=True)))]
    replayed(PromptLookup(), talks)["agent"].tokens_per_step

Each reply is verified as an engine does it: what is drafted is right as far as the recorded tokens go on like it, and
each pass of the model gives one token more. A draft that is certain is accepted with the probability that the model
gives its token, so the share of recorded tokens that it meets is the acceptance at the temperature at which they were
sampled (Leviathan et al. 2023, arXiv:2211.17192).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from agentaccel.selfhost.drafters import Drafter, Tokens


class Passage(NamedTuple):
    """A part of a conversation, as tokens."""

    tokens: Tokens
    said: bool = False
    """True if the model has said it: a whole reply."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Talk:
    """One conversation, from its beginning."""

    site: str
    """Where in the user's program it is held: what is chosen for one is chosen for all talks of it."""
    passages: tuple[Passage, ...]


@dataclass(slots=True)
class Drafted:
    """What came of it. Mutable: it adds up."""

    replies: int = 0
    tokens: int = 0
    """Of the replies."""
    steps: int = 0
    """Passes that verified a draft."""
    drafted: int = 0
    accepted: int = 0
    positions: list[int] = field(default_factory=list)
    """Drafts of which so many tokens, or more, were accepted: of 1, of 2, and so on."""

    @property
    def passes(self) -> int:
        """Passes of the model in all; the one that reads the prompt gives the first token."""
        return self.tokens - self.accepted

    @property
    def tokens_per_step(self) -> float:
        """Tokens that one pass gives; 1 where nothing was said."""
        return self.tokens / self.passes if self.passes else 1.0

    @property
    def acceptance(self) -> float | None:
        """The share of drafted tokens that was right; None where nothing was drafted."""
        return self.accepted / self.drafted if self.drafted else None

    def plus(self, other: Drafted) -> Drafted:
        """Both together."""
        most = max(len(self.positions), len(other.positions))
        padded = [one.positions + [0] * (most - len(one.positions)) for one in (self, other)]
        return Drafted(
            replies=self.replies + other.replies,
            tokens=self.tokens + other.tokens,
            steps=self.steps + other.steps,
            drafted=self.drafted + other.drafted,
            accepted=self.accepted + other.accepted,
            positions=[one + two for one, two in zip(*padded, strict=True)],
        )

    def add(self, drafted: int, accepted: int) -> None:
        """One pass that verified a draft."""
        self.steps += 1
        self.drafted += drafted
        self.accepted += accepted
        self.positions += [0] * (accepted - len(self.positions))
        for position in range(accepted):
            self.positions[position] += 1


def replayed(
    drafter: Drafter, talks: Iterable[Talk], tell: Callable[[int], None] = lambda tokens: None
) -> dict[str, Drafted]:
    """What `drafter` makes of `talks`, one after the other, by their sites. `tell` is called with the tokens of each
    talk when it is done."""
    found: dict[str, Drafted] = {}
    for talk in talks:
        of_site = found.setdefault(talk.site, Drafted())
        drafter.begin()
        for passage in talk.passages:
            if passage.said:
                _reply(drafter, passage.tokens, of_site)
            else:
                drafter.read(passage.tokens, said=False)
        tell(sum(len(passage.tokens) for passage in talk.passages))
    return found


def _reply(drafter: Drafter, tokens: Tokens, found: Drafted) -> None:
    """One reply. What a draft has beyond its end is drafted, and not accepted."""
    found.replies += 1
    found.tokens += len(tokens)
    drafter.read(tokens[:1], said=True)
    done = 1
    while done < len(tokens):
        draft = drafter.draft()
        right = _right(draft, tokens, done)
        if draft:
            drafter.judged(len(draft), right)
            found.add(len(draft), right)
        after = min(done + right + 1, len(tokens))
        drafter.read(tokens[done:after], said=True)
        done = after
    drafter.replied()


def _right(draft: Sequence[int], tokens: Tokens, done: int) -> int:
    """Tokens of a draft that were said."""
    for at, token in enumerate(draft):
        if done + at >= len(tokens) or tokens[done + at] != token:
            return at
    return len(draft)

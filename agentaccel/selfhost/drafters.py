"""Ways of guessing tokens ahead from text that is there already, as engines do it: pure, for replays of what was said.

    drafter = PromptLookup(tokens=5)
    drafter.begin()
    drafter.read(prompt, said=False)
    drafter.read(first, said=True)
    drafter.draft()         # what it would have guessed next

A drafter reads one conversation after the other, each from its beginning, token by token. Some remember what was said
in earlier ones. Tokens are numbers, 0 and more.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

Tokens = Sequence[int]


class Drafter(Protocol):
    """One way of guessing ahead. Not thread-safe."""

    def begin(self) -> None:
        """Another conversation begins, with nothing in it."""
        ...

    def read(self, tokens: Tokens, *, said: bool) -> None:
        """These stand behind all that was read since `begin`; `said` is true for what the model itself has said."""
        ...

    def draft(self) -> Tokens:
        """What is likely to follow; empty where nothing is."""
        ...

    def judged(self, drafted: int, accepted: int) -> None:
        """So many tokens of the last draft were right; most do not mind."""
        return

    def replied(self) -> None:
        """The reply has ended; most do not mind."""
        return


class PromptLookup(Drafter):
    """The tokens behind the first place of the conversation at which its last few tokens stood before.

    Of all numbers of last tokens from `shortest` to `longest` the largest counts that is found. As vLLM 0.32.0 does it
    (v1/spec_decode/ngram_proposer.py), after Saxena, "Prompt Lookup Decoding", 2023.
    """

    def __init__(self, tokens: int = 5, shortest: int = 2, longest: int = 5) -> None:
        self._tokens, self._lengths = tokens, range(longest, shortest - 1, -1)
        self.begin()

    def begin(self) -> None:
        self._text: list[int] = []
        self._first: dict[tuple[int, ...], int] = {}

    def read(self, tokens: Tokens, *, said: bool) -> None:
        text, first = self._text, self._first
        for token in tokens:
            text.append(token)
            end = len(text)
            for length in self._lengths:
                if length <= end:
                    first.setdefault(tuple(text[-length:]), end)

    def draft(self) -> Tokens:
        text = self._text
        for length in self._lengths:
            end = self._first.get(tuple(text[-length:]), len(text)) if length <= len(text) else len(text)
            if end < len(text):
                return text[end : end + self._tokens]
        return ()


class NgramSimple(Drafter):
    """The tokens behind the last place of the conversation at which its last `match` tokens stood before: at most
    `tokens` of them, and none where fewer than `match` follow.

    As llama.cpp 0c1e570 does it (common/ngram-map.cpp, `common_ngram_simple_draft`).
    """

    def __init__(self, tokens: int = 48, match: int = 12) -> None:
        self._tokens, self._match = tokens, match
        self.begin()

    def begin(self) -> None:
        self._text: list[int] = []
        self._last: dict[tuple[int, ...], int] = {}
        self._next = 1  # where the next pattern begins that is to be remembered: one at 0 does not count

    def read(self, tokens: Tokens, *, said: bool) -> None:
        self._text += tokens

    def draft(self) -> Tokens:
        text, match = self._text, self._match
        known = len(text) - 1  # all but the last token, which the engine has only just sampled
        if known <= match + self._tokens + 1:
            return ()
        for start in range(self._next, known - match):
            self._last[tuple(text[start : start + match])] = start
        self._next = max(self._next, known - match)
        behind = self._last.get(tuple(text[-match:]), known) + match
        most = min(self._tokens, known - behind)
        return text[behind : behind + most] if most >= match else ()


class NgramPool(Drafter):
    """What last followed the last `match` tokens anywhere, in this conversation or an earlier one, and so on from
    there: at most `tokens` of them, and none where it knows fewer than `least`. Nothing is known any more once a
    quarter of its room was written over, or after five drafts of which fewer than a quarter was right.

    As llama.cpp 0c1e570 does it (common/speculative.cpp, `ngram-mod`): one table for all slots.
    """

    def __init__(self, tokens: int = 64, match: int = 24, least: int = 48) -> None:
        self._tokens, self._match, self._least = tokens, match, least
        self._forget()
        self.begin()

    def _forget(self) -> None:
        self._pool = array("i", [_EMPTY]) * _ROOM
        self._written_over = self._low = 0

    def begin(self) -> None:
        self._text: list[int] = []
        self._said = False
        self._learned = 0  # where the next pattern begins that is to be remembered

    def read(self, tokens: Tokens, *, said: bool) -> None:
        self._text += tokens
        if said and not self._said:  # the engine reads the whole prompt of each request, again
            self._learned = 0
            self._learn(len(self._text) - len(tokens))
            if self._written_over > _ROOM // 4:
                self._forget()
        self._said = said

    def _learn(self, end: int) -> None:
        """Remember what follows each pattern that ends before `end`."""
        text, match, pool = self._text, self._match, self._pool
        first = self._learned
        if end - match <= first:
            return
        at = _sum(text[first : first + match])
        gone = pow(_FACTOR, match - 1, _WORD)
        for start in range(first, end - match):
            place = at % _ROOM
            self._written_over += pool[place] != _EMPTY
            pool[place] = text[start + match]
            at = ((at - text[start] * gone) * _FACTOR + text[start + match]) % _WORD
        self._learned = end - match

    def draft(self) -> Tokens:
        known = len(self._text) - 1
        if known < self._match:
            return ()
        if self._learned + _CHUNK < known:
            self._learn(known)
        window = self._text[-self._match :]
        at, gone = _sum(window), pow(_FACTOR, self._match - 1, _WORD)
        for i in range(self._tokens):
            token = self._pool[at % _ROOM]
            if token == _EMPTY:
                break
            window.append(token)
            at = ((at - window[i] * gone) * _FACTOR + token) % _WORD
        drafted = window[self._match :]
        return drafted if len(drafted) == self._tokens or len(drafted) >= self._least else ()

    def judged(self, drafted: int, accepted: int) -> None:
        self._low = self._low + 1 if accepted < drafted / 4 else 0
        if self._low >= _STREAK:
            self._forget()
            self._learned = 0

    def replied(self) -> None:
        self._said = False


_EMPTY = -1
_ROOM = 4 << 20
_CHUNK = 32
_STREAK = 5
_FACTOR, _WORD = 6364136223846793005, 1 << 64


def _sum(tokens: Tokens) -> int:
    """The engine's own hash of a pattern, by which two of them may fall on one place."""
    at = 0
    for token in tokens:
        at = (at * _FACTOR + token) % _WORD
    return at


class SuffixLookup(Drafter):
    """What mostly followed the longest ends of the conversation, where they stood before: in this conversation, or in
    what was said in earlier ones if `remembers`.

    A draft is at most `factor` times as long as what has matched, and goes on while its tokens are as likely as
    `least_likely`, counted over the places where they stood; of all lengths that match, from `shortest` on, the one
    counts whose draft is the longest to be expected. After Oliaro et al., "SuffixDecoding", 2024 (arXiv:2411.04975), as
    arctic-inference 0.3.0 does it. Of places that are very many, the newest 64 are looked at.
    """

    def __init__(
        self,
        tokens: int = 16,
        depth: int = 24,
        factor: float = 1.0,
        least_likely: float = 0.1,
        remembers: bool = True,
        shortest: int = 1,
    ) -> None:
        self._bounds = _Bounds(tokens, depth, factor, least_likely, shortest)
        self._said = _Places() if remembers else None
        self.begin()

    def begin(self) -> None:
        self._here = _Places()

    def read(self, tokens: Tokens, *, said: bool) -> None:
        self._here.add(tokens)
        if said and self._said is not None:
            self._said.add(tokens)

    def draft(self) -> Tokens:
        tail = self._here.text[-self._bounds.depth :]
        score, drafted = self._here.likely(tail, self._bounds)
        if self._said is not None:
            further, other = self._said.likely(tail, self._bounds)
            drafted = other if further > score else drafted
        return drafted

    def replied(self) -> None:
        if self._said is not None:
            self._said.part()


class _Bounds(NamedTuple):
    """How far a draft may go."""

    tokens: int
    depth: int
    factor: float
    least_likely: float
    shortest: int

    def after(self, matched: int) -> int:
        """Tokens at most behind so many that have matched: the tree is not deeper than `depth`."""
        return min(self.tokens, int(matched * self.factor + 1e-6), self.depth - matched)

    def most(self, least: int, most: int) -> int:
        """Tokens at most behind `least` to `most` that have matched."""
        return max(self.after(matched) for matched in range(least, most + 1))


_ORDERS = (8, 4, 2, 1)
"""Lengths of patterns by which places are found."""
_MOST_PLACES = 64
_END = -1
"""Stands where a reply has ended: nothing matches across it."""


class _Places:
    """Text, and where its patterns stand. Mutable: it grows."""

    def __init__(self) -> None:
        self.text: list[int] = []
        self._ends: tuple[dict[tuple[int, ...], list[int]], ...] = tuple({} for _ in _ORDERS)

    def add(self, tokens: Tokens) -> None:
        for token in tokens:
            self.text.append(token)
            end = len(self.text)
            for order, ends in zip(_ORDERS, self._ends, strict=True):
                if order <= end:
                    places = ends.setdefault(tuple(self.text[-order:]), [])
                    places.append(end)
                    if len(places) > 2 * _MOST_PLACES:
                        del places[:_MOST_PLACES]

    def part(self) -> None:
        """What follows is another text."""
        self.text.append(_END)

    def likely(self, tail: Tokens, bounds: _Bounds) -> tuple[float, Tokens]:
        """What is expected behind `tail`: how many tokens of it, and the tokens."""
        best: tuple[float, Tokens] = (0.0, ())
        longest = len(tail) - 1
        for order, ends in zip(_ORDERS, self._ends, strict=True):
            if order > longest or longest < bounds.shortest:
                continue
            places = ends.get(tuple(tail[-order:]))
            if places and bounds.most(order, longest) > best[0]:
                lengths = {end: self._matched(tail, end, order, longest) for end in places[-_MOST_PLACES:]}
                best = self._longest(lengths, max(order, bounds.shortest), longest, bounds, best)
            longest = order - 1
        return best

    def _matched(self, tail: Tokens, end: int, least: int, most: int) -> int:
        """How many tokens before `end` are as at the end of `tail`."""
        text = self.text
        while least < most and least < end and text[end - least - 1] == tail[-least - 1]:
            least += 1
        return least

    def _longest(
        self, lengths: Mapping[int, int], least: int, most: int, bounds: _Bounds, best: tuple[float, Tokens]
    ) -> tuple[float, Tokens]:
        """The best of what follows places with `least` to `most` tokens that match, and of `best`."""
        levels = sorted({min(length, most) for length in lengths.values() if length >= least}, reverse=True)
        for level, lower in zip(levels, (*levels[1:], least - 1), strict=True):
            matched = max(range(lower + 1, level + 1), key=bounds.after)  # the same places, for each of these lengths
            room = bounds.after(matched)
            if room > best[0]:
                found = self._followed([end for end, length in lengths.items() if length >= level], room, bounds)
                best = found if found[0] > best[0] else best  # of equals the longer match
        return best

    def _followed(self, places: list[int], room: int, bounds: _Bounds) -> tuple[float, Tokens]:
        """What mostly follows these places, token by token."""
        text, among = self.text, len(places)
        drafted: list[int] = []
        score = 0.0
        while places and len(drafted) < room:
            ahead = len(drafted)
            following = [(end, text[end + ahead]) for end in places if end + ahead < len(text)]
            counts = Counter(token for _, token in reversed(following) if token != _END)
            if not counts:
                break
            token, count = counts.most_common(1)[0]  # of equals the newest
            if count == 1:  # and the oldest of those that stood there once
                token = next(one for _, one in following if one != _END)
            if count / among < bounds.least_likely:
                break
            drafted.append(token)
            score += count / among
            places = [end for end, one in following if one == token]
            if len(places) == 1:  # the rest of it stands there only
                rest = text[places[0] + len(drafted) : places[0] + room]
                rest = rest[: rest.index(_END)] if _END in rest else rest
                return score + len(rest) / among, drafted + rest
        return score, drafted

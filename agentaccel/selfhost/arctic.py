"""The suffix cache of arctic-inference as a drafter: the one that vLLM itself drafts with."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from itertools import count
from typing import Any

from agentaccel.selfhost.drafters import Drafter, Tokens


def arctic_suffix(
    *, tokens: int, depth: int, factor: float, least_likely: float, requests: int = 10_000
) -> ArcticSuffix | None:
    """One that remembers what was said in the last `requests` replies; None where the library is not installed."""
    if find_spec("arctic_inference") is None:
        return None
    cache = import_module("arctic_inference.suffix_decoding").SuffixDecodingCache(depth, requests)
    return ArcticSuffix(cache, tokens, factor, least_likely)


class ArcticSuffix(Drafter):
    """`SuffixDecodingCache` of arctic-inference, asked as vLLM 0.32.0 asks it (v1/spec_decode/suffix_decoding.py).

    `cache` is one; where the library is not there, `drafters.SuffixLookup` does nearly the same.
    """

    def __init__(self, cache: Any, tokens: int, factor: float, least_likely: float) -> None:
        self._cache, self._tokens = cache, tokens
        self._factor, self._least_likely = factor, least_likely
        self._numbers = count()
        self._number: int | None = None
        self.begin()

    def begin(self) -> None:
        self._text: list[int] = []

    def read(self, tokens: Tokens, *, said: bool) -> None:
        if said:
            if self._number is None:
                self._number = next(self._numbers)
                self._cache.start_request(self._number, self._text)
            self._cache.add_active_response(self._number, list(tokens))
        self._text += tokens

    def draft(self) -> Tokens:
        tail = self._text[-self._cache.max_tree_depth :]
        bounds = {"max_spec_tokens": self._tokens, "max_spec_factor": self._factor}
        drafted: Tokens = self._cache.speculate(
            self._number, tail, min_token_prob=self._least_likely, **bounds
        ).token_ids
        return drafted

    def replied(self) -> None:
        if self._number is not None:
            self._cache.stop_request(self._number)
            self._number = None

"""Texts as numbers of tokens: exactly, by a server that has the model; or nearly, by a rule of our own.

What is drafted hangs on repeated stretches of text, which are there however it is cut up: the rule's tokens are about
as long as those of a large vocabulary, so shares and ratios hold, and absolute numbers are near.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Protocol

from agentaccel.errors import ConfigError, TraceError
from agentaccel.selfhost.asking import Asker, replica_of
from agentaccel.selfhost.probe import Page


class Tokenizer(Protocol):
    """What cuts text up."""

    def encode(self, text: str) -> list[int]:
        """The tokens of a text: numbers of 0 and more, below `FIRST_MARK`."""
        ...


FIRST_MARK = 1 << 30
"""Numbers from here on are ours: they stand where a chat template has its own tokens."""

_PIECES = re.compile(r" ?[^\W\d_]{1,10}|\d{1,3}| ?[^\s\w]{1,2}| ?_|\s+(?!\S)|\s|.", re.DOTALL)


class ByRule:
    """Words of up to ten letters with the space before them, three digits, two signs, space: about what the byte-pair
    encodings of large vocabularies make of text."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}

    def encode(self, text: str) -> list[int]:
        numbers = self._numbers
        return [numbers.setdefault(piece, len(numbers)) for piece in _PIECES.findall(text)]


class ByServer:
    """What a running engine makes of text: its `/tokenize`, as vLLM and llama.cpp have it."""

    def __init__(self, url: str, timeout: float = 30.0) -> None:
        try:
            replica = replica_of(url)
        except ConfigError:
            example = "the http URL of a server, such as http://127.0.0.1:8000"
            raise ConfigError(f"--tokenizer is {url!r}; give {example}") from None
        self._url = replica.url("/tokenize")
        self._asker = Asker(headers={}, verify=True, timeout=timeout, hosts=frozenset())

    def encode(self, text: str) -> list[int]:
        """Raises `TraceError` where the server does not say."""
        return [token for part in _parts(text.encode("utf-8", "replace").decode()) for token in self._asked(part)]

    def _asked(self, text: str) -> list[int]:
        # llama.cpp reads `content`, vLLM `prompt`; each leaves the other's fields alone.
        body = {"content": text, "prompt": text, "add_special": False, "add_special_tokens": False}
        answer = self._asker.post(self._url, body)
        if not isinstance(answer, Page):
            raise TraceError(f"{self._url}: {answer}; leave --tokenizer out, or give the URL of an engine that runs")
        try:
            tokens = json.loads(answer.body)["tokens"]
        except (ValueError, KeyError, TypeError, RecursionError):
            tokens = None
        if answer.status != 200 or not isinstance(tokens, list) or not all(map(_is_token, tokens)):
            raise TraceError(f"{self._url} answers {answer.status} and no tokens: give the URL of vLLM or llama.cpp")
        if not tokens and _WORD.search(text):
            raise TraceError(f"{self._url} makes no tokens of a text with words: give the URL of vLLM or llama.cpp")
        return tokens


_WORD = re.compile(r"\w")


def _is_token(value: object) -> bool:
    return type(value) is int and 0 <= value < FIRST_MARK


_MOST = 30_000
"""Characters that are asked about at once."""


def _parts(text: str) -> Iterator[str]:
    """A long text in parts that end where a word does."""
    while len(text) > _MOST:
        end = text.rfind(" ", 0, _MOST)
        end = end if end > 0 else _MOST
        yield text[:end]
        text = text[end:]
    if text:
        yield text

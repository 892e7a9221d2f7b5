"""The words and redirections of one pipeline, as the reader of a shell line comes upon them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from agentaccel.effects.lines import Block, Redirect
from agentaccel.effects.tables import table
from agentaccel.effects.verdict import Refused
from agentaccel.effects.words import Word, alternatives, read_word

_TEST_SIGNS = {"[", "]", "[[", "]]", "test_operator", "=", "==", "!=", "!"}
_SINKS: Mapping[tuple[str, ...], Redirect] = {
    ("2", ">", "/dev/null"): (2, None),
    (">", "/dev/null"): (1, None),
    ("2", ">&", "1"): (2, 1),
    ("1", ">&", "2"): (1, 2),
    (">&", "2"): (1, 2),
}
"""Redirections that lose or join output and touch no file."""


class Pieces:
    """What stands between two operators that end a pipeline."""

    def __init__(self, source: bytes) -> None:
        self._source, self._read_to = source, 0
        self.tokens: list[str] = []
        self._words: list[list[Word]] = []
        self._redirects: list[list[Redirect]] = []
        self._given: list[Word | None] = []
        self._settings: list[list[tuple[str, str]]] = []
        self._block: Block | None = None
        self._values: dict[str, str] = {}

    def _command(self, node: Any) -> None:
        self._words.append([])
        self._redirects.append([])
        self._given.append(None)
        self._settings.append([])
        self._test(node) if node.type == "test_command" else self._arguments(node)

    def _arguments(self, node: Any) -> None:
        for child in node.children:
            self._argument(child)

    def _argument(self, node: Any) -> None:
        if node.type == "command_name":
            node = node.children[0]
        if node.type == "file_redirect":
            self._sink(node)
        elif node.type == "variable_assignment":
            self._setting(node)
        else:
            self._words[-1] += self._several(node)

    def _setting(self, node: Any) -> None:
        """A variable for this command alone: one of those that are listed, with a listed value."""
        text = node.text.decode()
        if text not in table("shell")["prefixes"]:
            raise Refused("it holds a variable assignment")
        self._goes_on_at(node)
        self.tokens.append(text)
        name, _, value = text.partition("=")
        self._settings[-1].append((name, value))

    def _several(self, node: Any) -> list[Word]:
        found = alternatives(node)
        if not found:
            return [self._word(node)]
        self._goes_on_at(node)
        self.tokens.append(node.text.decode())
        return found

    def _word(self, node: Any) -> Word:
        self._goes_on_at(node)
        word, seen = read_word(node, self._values)
        self.tokens.append(seen)
        return word

    def _test(self, node: Any) -> None:
        """`[ … ]` is the program `test`; `[[ … ]]` says the same where its words are plain."""
        for child in node.children:
            if child.type in ("unary_expression", "binary_expression"):
                self._test(child)
            elif child.child_count == 0 and child.type in _TEST_SIGNS:
                self._goes_on_at(child)
                text = child.text.decode()
                self.tokens.append(text)
                if text not in ("]", "]]"):
                    self._words[-1].append(Word(text="test" if text in ("[", "[[") else text))
            else:
                self._argument(child)

    def _goes_on_at(self, node: Any) -> None:
        """A line's end ends a command; the parser takes some for blanks, and what follows for more arguments."""
        between = self._source[self._read_to : node.start_byte]
        if b"\n" in between and self._words and self._words[-1]:
            raise Refused("a line ends where the parser of shell syntax sees no end of a command")
        self._read_to = node.end_byte

    def _sink(self, node: Any) -> None:
        self._goes_on_at(node)
        parts = [child.text.decode() for child in node.children]
        if b"\n" in self._source[node.children[0].end_byte : node.children[-1].start_byte]:
            raise Refused("a line ends in the middle of a redirection")
        if parts[:1] == ["<"] and len(parts) == 2 and self._words:
            self.tokens.append("<")
            self._read_to = node.children[1].start_byte
            word = self._word(node.children[1])
            if word.glob or self._given[-1] is not None:
                raise Refused("a redirection of input names no single file")
            self._given[-1] = word
            return
        if tuple(parts) not in _SINKS:
            raise Refused("it holds a redirection to something else than /dev/null")
        if self._words:
            self._redirects[-1].append(_SINKS[tuple(parts)])
        elif self._block is not None:
            self._block = replace(self._block, redirects=(*self._block.redirects, _SINKS[tuple(parts)]))
        else:
            raise Refused("a redirection stands without a command")
        self.tokens += parts

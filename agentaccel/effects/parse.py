"""A shell command line as words and pipes, or a refusal: the small part of the language that needs no shell to run.

tree-sitter-bash reads the text; every word is then decoded here, and `shlex` must read the same words and operators.
What stands in a node that is not listed (an expansion, a substitution, an assignment, a subshell, a here-document, a
job in the background, a redirection to anything but /dev/null) refuses the whole text.
"""

from __future__ import annotations

import functools
import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from agentaccel.effects.verdict import Refused
from agentaccel.errors import MissingExtra

Redirect = tuple[int, int | None]
"""A stream of a command (1 is output, 2 is errors), and the stream that it joins; None loses it."""

MAX_LENGTH = 8_000
"""Characters of a command line that are looked at; a longer one is refused."""

_OPERATORS = {"&&", "||", "|", ";"}
_BARE = re.compile(r"(?:[A-Za-z0-9_@%+=:,./~^*?\[\]{}!#-]|\\[ !-/:-@\[-`{-~])+")
"""An unquoted word: plain characters, and punctuation behind a backslash."""
_GLOB = re.compile(r"(?<!\\)[*?\[]")
_MAGIC = re.compile(r"[*?\[]")
_DOUBLE_ESCAPE = re.compile(r'\\(["\\])')
_TEST_SIGNS = {"[", "]", "[[", "]]", "test_operator", "=", "==", "!=", "!"}
_SINKS: Mapping[tuple[str, ...], Redirect] = {
    ("2", ">", "/dev/null"): (2, None),
    (">", "/dev/null"): (1, None),
    ("2", ">&", "1"): (2, 1),
    ("1", ">&", "2"): (1, 2),
    (">&", "2"): (1, 2),
}
"""Redirections that lose or join output and touch no file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Word:
    """One argument as the program gets it."""

    text: str
    glob: bool = False
    """It stands for the names of files that match."""
    wild: bool = False
    """It begins with a wildcard, so that a name which looks like an option could match."""
    home: bool = False
    """It begins with an unquoted ~/ that stands for the home folder."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """One program with its arguments."""

    words: tuple[Word, ...]
    piped: bool
    """It stands in a pipeline of several commands."""
    fed: bool = False
    """The command before it in the pipeline writes its standard input, which is empty otherwise."""
    after: str
    """The operator before its pipeline: "", "&&", "||" or ";" (also for a line's end)."""
    pipeline: int = 0
    """Which pipeline of the text it stands in, counted from 0."""
    redirects: tuple[Redirect, ...] = ()
    """In the order in which they take effect."""


@functools.cache
def _parser() -> Any:
    try:
        import tree_sitter
        import tree_sitter_bash
    except ImportError:
        raise MissingExtra("effects", "tree-sitter-bash") from None
    return tree_sitter.Parser(tree_sitter.Language(tree_sitter_bash.language()))


def commands(text: str) -> tuple[Command, ...]:
    """The commands of a line in order. Raises `Refused` for all that is not plain words, pipes and lists.

    >>> [[word.text for word in one.words] for one in commands("git log --oneline -5 | head -n 2")]
    [['git', 'log', '--oneline', '-5'], ['head', '-n', '2']]
    """
    _plain(text)
    root = _parser().parse(text.encode()).root_node
    if root.has_error:
        raise Refused("it does not parse as shell")
    reader = _Reader(text.encode())
    reader.read(root)
    reader.close()
    lexer = shlex.shlex(text, posix=True, punctuation_chars="();<>|&")
    lexer.whitespace_split, lexer.commenters = True, ""
    try:
        seen = list(lexer)
    except ValueError:
        raise Refused("its quotes do not close") from None
    if seen != reader.tokens:
        raise Refused("two readers of shell syntax see different words in it")
    if not reader.found:
        raise Refused("it holds no command")
    return tuple(reader.found)


def _plain(text: str) -> None:
    if len(text) > MAX_LENGTH:
        raise Refused(f"it is longer than {MAX_LENGTH} characters")
    for character in text:
        if not (character.isprintable() or character in "\n\t") or 0xD800 <= ord(character) < 0xE000:
            raise Refused(f"it holds the character U+{ord(character):04X}")


class _Reader:
    """Walks the tree in order and collects commands."""

    def __init__(self, source: bytes) -> None:
        self._source, self._read_to = source, 0
        self.found: list[Command] = []
        self.tokens: list[str] = []
        self._words: list[list[Word]] = []
        self._redirects: list[list[Redirect]] = []
        self._pipelines = 0
        self._after = ""
        self._pending = ""

    def read(self, node: Any) -> None:
        kind = node.type
        if kind in ("program", "list", "pipeline", "redirected_statement"):
            for child in node.children:
                self.read(child)
                if kind == "program" and child.type not in _OPERATORS:
                    self._end(";")
        elif kind in ("command", "test_command"):
            self._words.append([])
            self._redirects.append([])
            self._test(node) if kind == "test_command" else self._arguments(node)
        elif kind in _OPERATORS and node.child_count == 0:
            self._goes_on_at(node)
            self.tokens.append(kind)
            if kind != "|":
                self._end(kind)
        elif kind == "file_redirect":
            self._sink(node)
        elif kind != "\n":
            raise Refused(f"it holds {_named(kind)}")

    def _arguments(self, node: Any) -> None:
        for child in node.children:
            self._argument(child)

    def _argument(self, node: Any) -> None:
        if node.type == "command_name":
            node = node.children[0]
        if node.type == "file_redirect":
            self._sink(node)
            return
        self._goes_on_at(node)
        word = _word(node)
        self._words[-1].append(word)
        self.tokens.append(word.text)

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
        if tuple(parts) not in _SINKS:
            raise Refused("it holds a redirection to something else than /dev/null")
        if not self._redirects:
            raise Refused("a redirection stands without a command")
        self._redirects[-1].append(_SINKS[tuple(parts)])
        self.tokens += parts

    def _end(self, operator: str) -> None:
        if self._words:
            self.found += [
                Command(
                    words=tuple(words),
                    piped=len(self._words) > 1,
                    fed=place > 0,
                    after=self._after,
                    pipeline=self._pipelines,
                    redirects=tuple(redirects),
                )
                for place, (words, redirects) in enumerate(zip(self._words, self._redirects, strict=True))
            ]
            self._words, self._redirects = [], []
            self._pipelines += 1
            self._after = operator
        elif operator in ("&&", "||"):
            raise Refused("an operator stands where a command should")

    def close(self) -> None:
        self._end(";")
        if any(not one.words for one in self.found):
            raise Refused("a redirection stands without a command")


def _named(kind: str) -> str:
    return {"&": "a job in the background", "|&": "the operator |&"}.get(kind, f"a {kind.replace('_', ' ')}")


def _word(node: Any) -> Word:
    pieces = [*node.children] if node.type == "concatenation" else [node]
    bare = "".join(piece.text.decode() if piece.type in ("word", "number") else "" for piece in pieces)
    if "{" in bare and ("," in bare or ".." in bare):
        raise Refused("it holds a brace expansion")
    text = "".join(_decoded(piece) for piece in pieces)
    first = pieces[0].text.decode() if pieces[0].type in ("word", "number") else ""
    if first.startswith("~") and not (first.startswith("~/") or (first == "~" and len(pieces) == 1)):
        raise Refused("it holds the home folder of another user")
    glob = bool(_GLOB.search(bare))
    if glob and len(_MAGIC.findall(text)) != len(_GLOB.findall(bare)):
        raise Refused("a pattern for file names holds a wildcard that is quoted")
    wild = glob and re.match(r"\*+[A-Za-z0-9_./]|\*\Z", first) is not None
    if glob and not wild and not re.match(r"--[a-z-]+=|[A-Za-z0-9_./]|~/", first):
        raise Refused("a pattern for file names could match any name, and become an option")
    return Word(text=text, glob=glob, wild=wild, home=first.startswith("~"))


def _decoded(piece: Any) -> str:
    text: str = piece.text.decode()
    if piece.type in ("word", "number") and not piece.children:
        if not _BARE.fullmatch(text):
            raise Refused(f"it holds {text!r} without quotes")
        return re.sub(r"\\(.)", r"\1", text)
    if piece.type == "raw_string":
        return text[1:-1]
    if piece.type == "string" and all(child.type in ('"', "string_content", "$") for child in piece.children):
        inner = text[1:-1]
        if re.search(r"`|\$(?!\Z)", inner) or "\\\n" in inner:
            raise Refused("a string in double quotes holds $, ` or a continued line")
        return _DOUBLE_ESCAPE.sub(r"\1", inner)
    raise Refused(f"it holds {_named(piece.type)}")

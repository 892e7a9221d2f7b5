"""A shell command line as words, pipes and blocks, or a refusal: the part of the language that needs no shell to run.

tree-sitter-bash reads the text; every word is then decoded (`agentaccel.effects.words`), and `shlex` must read the same
words and operators. Loops over fixed words are written out, a variable that is set once to a fixed text is put in.
What stands in a node that is not listed (a substitution, another expansion, a here-document, a job in the background, a
redirection to anything but /dev/null) refuses the whole text.
"""

from __future__ import annotations

import functools
import shlex
from collections.abc import Iterable
from typing import Any

from agentaccel.effects.lines import Command, Line
from agentaccel.effects.reader import Reader
from agentaccel.effects.verdict import Refused, worked_out_once
from agentaccel.errors import MissingExtra

MAX_LENGTH = 8_000
"""Characters of a command line that are looked at; a longer one is refused."""
_KEPT = 64
"""Lines whose words are kept: a line is judged several times before it runs, and each time its files are looked at."""


@functools.cache
def _parser() -> Any:
    try:
        import tree_sitter
        import tree_sitter_bash
    except ImportError:
        raise MissingExtra("effects", "tree-sitter-bash") from None
    return tree_sitter.Parser(tree_sitter.Language(tree_sitter_bash.language()))


def commands(text: str) -> tuple[Command, ...]:
    """The commands of a line in order. Raises `Refused` for all that is not plain words, pipes, lists and blocks.

    >>> [[word.text for word in one.words] for one in commands("for n in 2 5; do git log -$n | head -n 2; done")]
    [['git', 'log', '-2'], ['head', '-n', '2'], ['git', 'log', '-5'], ['head', '-n', '2']]
    """
    return read_line(text).commands


def read_line(text: str) -> Line:
    """The line with its blocks. Raises `Refused`, as `commands` does."""
    _plain(text)
    _parser()
    return _read(text)


@worked_out_once("shell", _KEPT)
def _read(text: str) -> Line:
    root = _parser().parse(text.encode()).root_node
    if root.has_error:
        raise Refused("it does not parse as shell")
    reader = Reader(text.encode())
    reader.read(root)
    reader.close()
    lexer = shlex.shlex(text, posix=True, punctuation_chars="();<>|&")
    lexer.whitespace_split, lexer.commenters = True, ""
    try:
        seen = list(lexer)
    except ValueError:
        raise Refused("its quotes do not close") from None
    if _apart(seen) != _apart(reader.tokens):
        raise Refused("two readers of shell syntax see different words in it")
    if not reader.found:
        raise Refused("it holds no command")
    return Line(commands=tuple(reader.found), items=tuple(reader.items), chained=reader.chained)


def _apart(tokens: Iterable[str]) -> list[str]:
    """Operators that touch one another are one token for shlex."""
    return [one for token in tokens for one in (token if token and not set(token) - set("();<>|&") else (token,))]


def _plain(text: str) -> None:
    if len(text) > MAX_LENGTH:
        raise Refused(f"it is longer than {MAX_LENGTH} characters")
    for character in text:
        if not (character.isprintable() or character in "\n\t") or 0xD800 <= ord(character) < 0xE000:
            raise Refused(f"it holds the character U+{ord(character):04X}")

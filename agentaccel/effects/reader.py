"""Walks the syntax tree of a shell line and collects its commands and blocks."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

from agentaccel.effects.lines import Command, Item, PipelineBlock, Redirect
from agentaccel.effects.tables import table
from agentaccel.effects.verdict import Refused
from agentaccel.effects.words import TURN, Word, alternatives, named, read_word

# --- The words and redirections of one pipeline, as the reader of a shell line comes upon them ------------------------

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
        self._block: PipelineBlock | None = None
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


MOST_COMMANDS = 120
"""Of a line, in which loops are written out."""
_OPERATORS = {"&&", "||", "|", ";"}
_KEYWORDS = {"do", "done", "{", "}", "(", ")", "if", "then", "elif", "else", "fi"}
_VARIABLE = re.compile(r"(?!.*proxy)[a-z_][a-z0-9_]*|FILE|DIR|NAME|SRC|ROOT|BASE|[A-Z]")
"""Names that mean nothing to a shell or to a program: no PATH, no IFS."""


class TreeReader(Pieces):
    """Walks the tree in order."""

    def __init__(self, source: bytes) -> None:
        super().__init__(source)
        self.found: list[Command] = []
        self.items: list[Item] = []
        self.chained = True
        self._over: Word | None = None
        self._scope: tuple[int, ...] = ()
        self._depth = self._subshells = self._pipelines = 0
        self._after = ""
        self._set = self._sets_last = self._sets_perhaps = False

    def read(self, node: Any) -> None:
        kind = node.type
        if kind in ("program", "list", "pipeline", "redirected_statement"):
            self._children(_chain(node) if kind == "list" else node.children, ends=kind == "program")
        elif kind in ("command", "test_command"):
            self._command(node)
        elif kind in ("subshell", "compound_statement", "if_statement", "for_statement"):
            self._compound(node)
        elif kind == "variable_assignment":
            self._assignment(node)
        elif kind in _OPERATORS and node.child_count == 0:
            self._goes_on_at(node)
            self.tokens.append(kind)
            if kind != "|":
                self._end(kind)
            elif self._set:
                raise Refused("a variable is set in a pipe, and forgotten")
        elif kind == "file_redirect":
            self._sink(node)
        elif kind != "\n":
            raise Refused(f"it holds {named(kind)}")

    def _children(self, children: Sequence[Any], *, ends: bool) -> None:
        for child in children:
            if child.type in _KEYWORDS and child.child_count == 0:
                self._keyword(child)
                continue
            self.read(child)
            if ends and child.type not in _OPERATORS:
                self._end(";")

    def _keyword(self, node: Any) -> None:
        self._end(";")
        self._goes_on_at(node)
        self.tokens.append(node.type)

    def _assignment(self, node: Any) -> None:
        """A variable that is set to a fixed text, where it is certain that it is."""
        name, sign, *value = node.children
        fixed = self._after != "||" and (self.chained or self._after != "&&") and not (self._depth or self._words)
        if self._block is not None or not fixed or sign.type != "=" or len(value) != 1:
            raise Refused("it holds a variable assignment")
        self._goes_on_at(node)
        word, seen = read_word(value[0], self._values)
        home = word.home or ":~" in value[0].text.decode()  # which in a value is one, too
        if not _VARIABLE.fullmatch(name.text.decode()) or word.glob or home or TURN in word.text:
            raise Refused("it holds a variable assignment")
        self.tokens.append(f"{name.text.decode()}={seen}")
        self._values[name.text.decode()] = word.text
        self._set = self._sets_last = True
        self._sets_perhaps |= self._after == "&&"

    def _compound(self, node: Any) -> None:
        if self._words or self._block is not None:
            raise Refused("a loop, a branch or a group stands behind a pipe")
        around, self.items = (self.items, self._after), []
        self._after, self._depth = "", self._depth + 1
        if node.type == "if_statement":
            block = PipelineBlock(kind="if", parts=self._branch(iter(_flat(node))), after=around[1])
        elif node.type == "for_statement":
            block = self._loop(node, around[1])
        else:
            block = self._group(node, around[1])
        self._no_last_setting()
        self.items, self._after = around
        self._depth -= 1
        self._block = block

    def _group(self, node: Any, after: str) -> PipelineBlock:
        kind: Literal["subshell", "group"] = "subshell" if node.type == "subshell" else "group"
        scope, values, depth = self._scope, dict(self._values), self._depth
        if kind == "subshell":
            self._subshells += 1
            self._scope, self._depth = (*scope, self._subshells), 0 if depth == 1 else depth
        self._children(node.children, ends=True)
        self._scope, self._values, self._depth = scope, values, depth
        return PipelineBlock(kind=kind, parts=(tuple(self.items),), after=after)

    def _branch(self, nodes: Iterator[Any]) -> tuple[tuple[Item, ...], ...]:
        """What is tested, what follows then, and what else, up to `fi`."""
        parts = list[tuple[Item, ...]]()
        for node in nodes:
            if node.type not in _KEYWORDS or node.child_count:
                self._children([node], ends=True)
                continue
            self._keyword(node)
            if node.type != "if":
                parts.append(tuple(self.items))
                self.items, self._after = [], ""
            if node.type == "elif":
                parts.append((PipelineBlock(kind="if", parts=self._branch(nodes), after=""),))
                break
        return (*parts, (), ())[:3]

    def _loop(self, node: Any, after: str) -> PipelineBlock:
        word, name, inside, *rest = node.children
        variable = name.text.decode()
        if word.type != "for" or inside.type != "in" or not _VARIABLE.fullmatch(variable):
            raise Refused("it holds a for statement over what is not written there")
        for one in (word, name, inside):
            self._goes_on_at(one)
            self.tokens.append(one.text.decode())
        body, over = rest.pop(), list[Word]()
        for one in rest:
            self._keyword_or_word(one, over)
        if not over:
            raise Refused("a loop goes over nothing")
        around, taken = self._values, len(self.tokens)
        if any(one.glob for one in over):
            if len(over) != 1 or self._over is not None:
                raise Refused("a loop goes over files and more")
            self._over = over[0]
            self._turn(body, {**around, variable: TURN})
            block = PipelineBlock(kind="each", parts=(tuple(self.items),), after=after, over=self._over)
            self._over = None
        else:
            for one in over:
                if one.home:
                    raise Refused("a loop goes over a home folder")
                del self.tokens[taken:]
                self._turn(body, {**around, variable: one.text})
            block = PipelineBlock(kind="group", parts=(tuple(self.items),), after=after)
        self._values = around
        return block

    def _keyword_or_word(self, node: Any, over: list[Word]) -> None:
        if node.type == ";":
            self._goes_on_at(node)
            self.tokens.append(";")
        else:
            over += self._several(node)

    def _turn(self, body: Any, values: dict[str, str]) -> None:
        self._values, self._read_to = values, body.start_byte
        self._children(body.children, ends=True)

    def _end(self, operator: str) -> None:
        if self._words or self._block is not None:
            fed = self._block is not None
            self.found += [
                Command(
                    words=tuple(words),
                    piped=fed or len(self._words) > 1,
                    fed=fed or place > 0 or given is not None,
                    given=given,
                    settings=tuple(self._settings[place]),
                    after=self._after,
                    pipeline=self._pipelines,
                    redirects=tuple(redirects),
                    scope=self._scope,
                    over=self._over,
                )
                for place, (words, redirects, given) in enumerate(
                    zip(self._words, self._redirects, self._given, strict=True)
                )
            ]
            if len(self.found) > MOST_COMMANDS:
                raise Refused(f"it holds more than {MOST_COMMANDS} commands")
            self._finished()
            self._after = operator
        elif operator in ("&&", "||") and not self._set:
            raise Refused("an operator stands where a command should")
        elif self._set:
            if operator == "||":
                raise Refused("it holds a variable assignment")
            self._after = "&&" if self._after == operator == "&&" else ";"
        self._set = False

    def _finished(self) -> None:
        """The pipeline, or the block with the pipeline that reads from it, becomes one item."""
        self.chained &= self._after in ("", "&&")
        self._sets_last = False
        if self._depth and any(words[0].text == "cd" for words in self._words if words):
            raise Refused("cd stands in a loop, a branch or a group")
        if self._block is None:
            self.items.append(self._pipelines)
        else:
            self.items.append(replace(self._block, feeds=self._pipelines if self._words else None))
        self._words, self._redirects, self._given, self._settings, self._block = [], [], [], [], None
        self._pipelines += 1

    def close(self) -> None:
        self._end(";")
        self._no_last_setting()
        if self._sets_perhaps and not self.chained:
            raise Refused("it holds a variable assignment that may not happen")
        if any(not one.words for one in self.found):
            raise Refused("a redirection stands without a command")

    def _no_last_setting(self) -> None:
        if self._sets_last:
            raise Refused("a list ends with a variable assignment")


def _chain(node: Any) -> list[Any]:
    """The parts of `a && b || c`, whose tree is as deep as the list is long."""
    found = list[Any]()
    while node.type == "list":
        found += reversed(node.children[1:])
        node = node.children[0]
    return [node, *reversed(found)]


def _flat(node: Any) -> list[Any]:
    """The parts of an `if`, those of its `elif` and `else` included."""
    found = []
    for child in node.children:
        found += _flat(child) if child.type in ("elif_clause", "else_clause") else [child]
    return found

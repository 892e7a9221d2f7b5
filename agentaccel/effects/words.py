"""Words of a shell line as a program gets them: quotes taken off, names of variables that have one value put in."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from agentaccel.effects.verdict import Refused

_BARE = re.compile(r"(?:[A-Za-z0-9_@%+=:,./~^*?\[\]{}!#-]|\\[ !-/:-@\[-`{-~])+")
"""An unquoted word: plain characters, and punctuation behind a backslash."""
_GLOB = re.compile(r"(?<!\\)[*?\[]")
_MAGIC = re.compile(r"[*?\[]")
_DOUBLE_ESCAPE = re.compile(r'\\(["\\])')
_BRACES = re.compile(r"([A-Za-z0-9_./*=-]*)\{([A-Za-z0-9_.-]+(?:,[A-Za-z0-9_.-]+)+)\}([A-Za-z0-9_./*-]*)")
_ASSIGNS_HOME = re.compile(r"[A-Za-z_][^=]*=(?:.*[=:])?~")
"""bash takes it for an assignment, also where it is an argument: `echo a=~/b`, `echo a=b:~/c`."""
_ONE_WORD = re.compile(r"[A-Za-z0-9_@%+:,./-]+")
"""A value that stays one word, and itself, where it is put in without quotes."""
TURN = "\ue000"
"""Stands in a word for the name of a file of which a loop tells one after the other; no line of a user may hold it."""
TURN_BARE = "\ue001"
"""The same without quotes, where a name with a blank in it would become two words."""


_HOME = "\ue002"
"""Stands for $HOME until the word is whole."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Word:
    """One argument as the program gets it."""

    text: str
    glob: bool = False
    """It stands for the names of files that match."""
    wild: bool = False
    """It begins with a wildcard, so that a name which looks like an option could match."""
    home: bool = False
    """It begins with ~/ that stands for the home folder; $HOME/ is read as the same."""

    def at(self, name: str) -> Word:
        """In one turn of a loop. Raises `Refused` where the name would not stay one word.

        >>> Word(text=f"== {TURN}").at("a b").text
        '== a b'
        """
        if TURN_BARE in self.text and not _ONE_WORD.fullmatch(name):
            raise Refused("a loop tells of a name that becomes several words")
        return replace(self, text=self.text.replace(TURN, name).replace(TURN_BARE, name))


def read_word(node: Any, values: Mapping[str, str]) -> tuple[Word, str]:
    """The word with the values of variables put in, and as other readers of shell syntax see it."""
    pieces = [*node.children] if node.type == "concatenation" else [node]
    bare = "".join(piece.text.decode() if piece.type in ("word", "number") else "" for piece in pieces)
    if "{" in bare and ("," in bare or ".." in bare):
        raise Refused("it holds a brace expansion")
    decoded = [_decoded(piece, values) for piece in pieces]
    text = "".join(one for one, _ in decoded)
    first = pieces[0].text.decode() if pieces[0].type in ("word", "number") else ""
    if first.startswith("~") and not (first.startswith("~/") or (first == "~" and len(pieces) == 1)):
        raise Refused("it holds the home folder of another user")
    if _ASSIGNS_HOME.match(bare):
        raise Refused("it holds a home folder behind =, which shells put in each in its own way")
    glob = bool(_GLOB.search(bare))
    if glob and len(_MAGIC.findall(text)) != len(_GLOB.findall(bare)):
        raise Refused("a pattern for file names holds a wildcard that is quoted")
    wild = glob and re.match(r"\*+[A-Za-z0-9_./]|\*\Z", first) is not None
    if glob and not wild and not re.match(r"--[a-z-]+=|[A-Za-z0-9_./]|~/", first):
        raise Refused("a pattern for file names could match any name, and become an option")
    if _HOME in text:
        if not re.fullmatch(f"{_HOME}(?:/[^{_HOME}]*)?", text):
            raise Refused("it holds the home folder in the middle of a word")
        text, first = f"~{text[1:]}", "~"
    if glob and (TURN in text or TURN_BARE in text):
        raise Refused("a pattern for file names holds the name of another file")
    return Word(text=text, glob=glob, wild=wild, home=first.startswith("~")), "".join(seen for _, seen in decoded)


def alternatives(node: Any) -> list[Word]:
    """The words that `a{b,c}d` stands for, in order; none where it is no brace expansion of plain characters.

    Raises `Refused` for a pattern that could become an option.
    """
    plain = all(piece.type in ("word", "number") and not piece.children for piece in node.children)
    match = _BRACES.fullmatch(node.text.decode()) if node.type == "concatenation" and plain else None
    if match is None:
        return []
    texts = [f"{match[1]}{one}{match[3]}" for one in match[2].split(",")]
    if any(_MAGIC.search(text) and not re.match(r"--[a-z-]+=|[A-Za-z0-9_./]", text) for text in texts):
        raise Refused("a pattern for file names could match any name, and become an option")
    return [Word(text=text, glob=_MAGIC.search(text) is not None) for text in texts]


def _decoded(piece: Any, values: Mapping[str, str]) -> tuple[str, str]:
    text: str = piece.text.decode()
    if piece.type in ("word", "number") and not piece.children:
        if not _BARE.fullmatch(text):
            raise Refused(f"it holds {text!r} without quotes")
        plain = re.sub(r"\\(.)", r"\1", text)
        return plain, plain
    if piece.type == "raw_string":
        return text[1:-1], text[1:-1]
    if piece.type in ("simple_expansion", "expansion"):
        value = _value(piece, values)
        if value not in (TURN, _HOME) and not _ONE_WORD.fullmatch(value):
            raise Refused("a variable without quotes may become several words, or none")
        return TURN_BARE if value == TURN else value, text
    if piece.type == "string":
        return _quoted(piece, values)
    raise Refused(f"it holds {named(piece.type)}")


def _quoted(piece: Any, values: Mapping[str, str]) -> tuple[str, str]:
    """A string in double quotes: what lies between its variables is taken from the text, blanks included."""
    source, start, end = piece.text, piece.start_byte, piece.end_byte
    texts, seen, place = list[str](), list[str](), start + 1
    for child in piece.children:
        if child.type in ('"', "string_content", "$"):
            continue
        if child.type not in ("simple_expansion", "expansion"):
            raise Refused("a string in double quotes holds $, ` or a continued line")
        between = _between(source[place - start : child.start_byte - start].decode(), last=False)
        texts += [between, _value(child, values)]
        seen += [between, child.text.decode()]
        place = child.end_byte
    last = _between(source[place - start : end - 1 - start].decode(), last=True)
    return "".join([*texts, last]), "".join([*seen, last])


def _between(inner: str, *, last: bool) -> str:
    if re.search(r"`|\$(?!\Z)" if last else r"`|\$", inner) or "\\\n" in inner:
        raise Refused("a string in double quotes holds $, ` or a continued line")
    return _DOUBLE_ESCAPE.sub(r"\1", inner)


def _value(node: Any, values: Mapping[str, str]) -> str:
    """What stands for `$name` or `${name}` here. Raises `Refused` for any other expansion."""
    match = re.fullmatch(r"\$(?:([A-Za-z_]\w*)|\{([A-Za-z_]\w*)\})", node.text.decode(), re.ASCII)
    name = (match[1] or match[2]) if match else ""
    if name == "HOME":
        return _HOME
    if name not in values:
        raise Refused(f"it holds {named(node.type)}")
    return values[name]


def named(kind: str) -> str:
    """A node of the syntax tree, for people."""
    return {"&": "a job in the background", "|&": "the operator |&"}.get(kind, f"a {kind.replace('_', ' ')}")

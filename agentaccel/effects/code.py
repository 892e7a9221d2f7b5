"""Programs that a tool is given in a language that nobody names: whether all that one does is to work something out.

No reader of every language is at hand, so a grammar is allowed that means the same, or nothing at all, in each:
numbers, short texts, names of values, operators, and calls of functions that are listed. Whatever else a text holds
may do something, and a text of the grammar has a bound on what it costs.
"""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Iterator

from agentaccel.effects.tables import table
from agentaccel.effects.texts import deeds, worded

MOST_READ = 5_000
"""Characters of a program that are looked at."""
MOST_BEGUN = 2_000
"""Characters of a text that are looked at for how a function begins."""
MOST_DIGITS = 15
"""Of a whole number."""
MOST_RAISED = 999
"""The highest power, and the highest number of which a factorial is taken."""
MOST_POWERS = 2
"""Powers and factorials in one program: 9 ** 999 ** 999 would not end."""
MOST_COUNTED = 100_000
"""Up to which a range counts."""
_TEXT = re.compile(r"\"[\w ,.:;?/+()*=-]*\"|'[\w ,.:;?/+()*=-]*'", re.ASCII)
_OPERATORS = (ast.Add, ast.Sub, ast.Mult, ast.Div, ast.FloorDiv, ast.Mod, ast.Pow, ast.BitXor, ast.USub, ast.UAdd)
_SIGNS = (ast.Eq, ast.NotEq, ast.And, ast.Or, ast.Not, ast.Load, ast.Store)


def does(text: str) -> str | None:
    """What the program may do beside working something out; None where it is certainly nothing.

    >>> does("2 * (3 + x)"), does("round(math.sqrt(2), 3)"), does("E404")
    (None, None, None)
    >>> does("open('x', 'w')")
    "it calls 'open'"
    """
    known = table("mcp")["code"]
    if re.fullmatch(known["codes"], text):
        return None
    if len(text) > MOST_READ or not text.isascii():
        return "it is too long to be looked at, or not written in plain characters"
    lines = [line for line in text.strip().split("\n") if not re.fullmatch(known["imports"], line)]
    bare = "\n".join(re.sub(known["telling"], "", re.sub(known["comment"], "", line)) for line in lines)
    marked = _TEXT.sub("\0", bare)
    if re.search(known["foreign"], marked) or re.search(r"[\w\0]\s*\0|\0\s*[\w\0]", marked):
        return "it holds a sign, or a text, that means different things in different languages"
    try:
        tree = ast.parse(bare)
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        return "it is more than a formula"
    return next(_more(tree), None)


_CALL = re.compile(r"(?<![\w$])([A-Za-z_$][\w$]*[!?]?)\(")
_HOLDING = re.compile(r"[\w!?]\([^()]*[\"'\[{]")
_PUT_IN = re.compile(r"\{%|#\{|%[xX][({\[<]|\bq[xX][({\[<]|\{\{(?![-\s]*\.?\w+[-\s]*\}\})")
_ASKED = re.compile(r"\s*(?:(?:query|fragment|subscription)\b[^{}]*)?\{.*\}\s*", re.DOTALL)
_OF_WHAT = re.compile(r"\s*(?:\w+(?:\.|::))+(\w+)[!?]?\s+[\"'\[].*", re.DOTALL)


def calls(text: str) -> str | None:
    """What a text calls that is neither listed nor named for a read, where it is built as a program; None for others.

    Sentences may speak of a call, and questions of many languages are built of calls that ask.

    >>> calls("what does eval(x) do"), calls("db.users.find({})"), calls("contains(name, 'x')"), calls("system('w')")
    (None, None, None, "it calls 'system'")
    """
    known = table("mcp")["code"]
    if found := _PUT_IN.search(text):
        return f"it holds {found[0]!r}, behind which a program stands"
    if (found := _OF_WHAT.fullmatch(text)) and set(worded(found[1])) & {*deeds(), *known["writers"]}:
        return f"it calls {found[1]!r}"
    begun = re.sub(r"\s*\n\s*", "\n", re.sub(r"[ \t]+", " ", text[:MOST_BEGUN])).strip()
    if (found := _function().match(begun)) and not re.match(table("mcp")["ordered"]["questions"], text, re.IGNORECASE):
        return f"it is a function: {found[0].strip()[:20]!r}"
    names = _CALL.findall(text)
    if not names or (_ASKED.fullmatch(text) and not re.search(r"\w\((?!\s*\$?\w+\s*:)", text)):  # GraphQL
        return None
    apart = re.sub(r"(?<![\w.$])[\w.$]++\([^()]*\)", " ", text)
    prose = re.fullmatch(r"[\w\s,.?'-]*", apart) and len(apart.split()) > 1
    if prose and (not _HOLDING.search(text) or set(apart.lower().split()) & set(table("mcp")["small_words"])):
        return None
    whole = re.match(r"[\w.$\s]*\(", text) and text.rstrip(" \t\r\n;.").endswith(")")
    if not prose and not _HOLDING.search(text) and not whole:
        return None
    listed = {*known["functions"], *known["methods"], *(one for of in known["of_roots"].values() for one in of)}
    for name in names:
        words = worded(name)
        read = words[:1] and words[0] in known["getters"] and not set(words) & deeds()
        if not (read or name in listed or re.fullmatch(known["asking"], name, re.IGNORECASE)):
            return f"it calls {name!r}"
    return None


@functools.cache
def _function() -> re.Pattern[str]:
    """How a function begins, in any language that is known to have such: whoever takes one may call it."""
    known = table("mcp")["code"]
    whole = "|".join(f"(?:{one})" for one in known["made"])
    return re.compile(rf"(?:{known['given']})?(?:{whole})", re.DOTALL)


def _more(tree: ast.Module) -> Iterator[str]:
    """What is beside the grammar, or costs too much."""
    nodes = list(ast.walk(tree))
    told = {id(node.func) for node in nodes if isinstance(node, ast.Call)}
    for node in nodes:
        if id(node) not in told:
            yield from _node(node, nodes)
    yield from _costs(nodes)


_BUILT = (ast.Module, ast.BinOp, ast.UnaryOp, ast.BoolOp, ast.Compare, ast.List, ast.Tuple)


def _node(node: ast.AST, nodes: list[ast.AST]) -> Iterator[str]:
    if isinstance(node, ast.Expr):
        yield from _alone(node.value)
    elif isinstance(node, ast.Call):
        yield from _call(node)
    elif isinstance(node, ast.Attribute):
        yield from _part(node)
    elif isinstance(node, ast.Name):
        yield from _value(node, nodes)
    elif isinstance(node, ast.Assign):
        if not all(isinstance(target, ast.Name) for target in node.targets):
            yield "it assigns to a part of something"
    elif isinstance(node, ast.Constant):
        if isinstance(node.value, int) and len(str(node.value)) > MOST_DIGITS:
            yield "a number in it is very long"
    elif not isinstance(node, (*_OPERATORS, *_SIGNS, *_BUILT)):
        yield f"it holds a {type(node).__name__}"


def _alone(value: ast.expr) -> Iterator[str]:
    """A word by itself is a call in Ruby, in Perl and in a shell; so is one between quotes, in a shell."""
    if isinstance(value, ast.Name):
        yield f"{value.id!r} by itself may be a call"
    if isinstance(value, ast.Constant) and isinstance(value.value, str) and re.search(r"[A-Za-z]", value.value):
        yield "a text by itself may be a call"


def _call(node: ast.Call) -> Iterator[str]:
    known, called = table("mcp")["code"], node.func
    if isinstance(called, ast.Name):
        if called.id not in known["functions"]:
            yield f"it calls {called.id!r}"
    elif not isinstance(called, ast.Attribute):
        yield "it calls what another call gives"
    elif isinstance(called.value, ast.Name):
        if called.attr not in known["of_roots"].get(called.value.id, ()):
            yield f"it calls {called.attr!r}"
    elif called.attr not in known["methods"]:
        yield f"it calls {called.attr!r}"


def _part(node: ast.Attribute) -> Iterator[str]:
    """Of a list or a text that is written down, how long it is; of a root, a number that is listed."""
    known = table("mcp")["code"]
    written = isinstance(node.value, ast.List | ast.Constant) and node.attr in known["parts"]
    number = isinstance(node.value, ast.Name) and f"{node.value.id}.{node.attr}" in known["numbers"]
    if not written and not number:
        yield f"it asks for {node.attr!r} of something, which may be a call"


def _value(node: ast.Name, nodes: list[ast.AST]) -> Iterator[str]:
    known = table("mcp")["code"]
    root = any(isinstance(one, ast.Attribute) and one.value is node for one in nodes) and (
        node.id in known["of_roots"] or any(number.startswith(f"{node.id}.") for number in known["numbers"])
    )
    if not root and node.id not in known["values"] and not re.fullmatch(r"[A-Za-z]\d{0,3}", node.id):
        yield f"it names {node.id!r}, which may be a call"


def _costs(nodes: list[ast.AST]) -> Iterator[str]:
    raised = 0
    for node in nodes:
        called = node.func if isinstance(node, ast.Call) else None
        name = called.id if isinstance(called, ast.Name) else called.attr if isinstance(called, ast.Attribute) else ""
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Pow | ast.BitXor):
            bounds, most = [node.right], MOST_RAISED
        elif isinstance(node, ast.Call) and name in table("mcp")["code"]["growing"]:
            bounds, most = (node.args[1:] if name == "pow" else node.args), MOST_RAISED
        elif isinstance(node, ast.Call) and name == "range":
            bounds, most = node.args, MOST_COUNTED
        else:
            continue
        raised += most == MOST_RAISED
        if not all(_small(bound, most) for bound in bounds):
            yield "nobody can say how long it takes"
    if raised > MOST_POWERS:
        yield "it raises too often"
    long = any(isinstance(one, ast.List | ast.Tuple) or (isinstance(one, ast.Constant) and isinstance(one.value, str))
               for one in nodes)  # fmt: skip
    if long and any(isinstance(one, ast.Mult) for one in nodes):
        yield "it may repeat a text or a list"


def _small(node: ast.expr, most: int) -> bool:
    node = node.operand if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub) else node
    return isinstance(node, ast.Constant) and isinstance(node.value, int | float) and abs(node.value) <= most

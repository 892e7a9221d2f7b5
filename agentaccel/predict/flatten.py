"""What a result holds: its values by path, and the records among them.

A path has `*` for an index of a list, and for a key of an object whose keys are values themselves (ids, names); those
keys are values at the path `….<key>`. So are those of an object of numbers alone (what is counted), beside its fields.
A record is one object with all that hangs on it singly, and the fields of the objects around it under `^`: the
arguments of a call often come from one record.

Results that are no JSON are read as an outline where they are one (lists and fields as YAML writes them), else as text.
At most `MOST_LEAVES` values, `MOST_ELEMENTS` of a list, and `MOST_RECORDS` records of one result are kept.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from typing import Any

import orjson

from agentaccel.predict.tokens import MOST_LENGTH, resources_in, values_in

MOST_LEAVES = 400
MOST_ELEMENTS = 12
MOST_RECORDS = 36
MOST_BYTES = 200_000
"""Of a result that is parsed; a longer one is read as text."""
_MOST_LITERAL = 4000
_DEEPEST = 8
_KEY = "<key>"
_LINE = re.compile(r"( *)((?:- )*)(?:([\w .\-@]{1,40}?):(?: +|$))?(.*)$")
_NUMBER = re.compile(r"-?\d+(\.\d+)?")

Record = Mapping[str, Any]


class Leaves:
    """The values of one result."""

    __slots__ = ("_left", "records", "values")

    def __init__(self) -> None:
        self.values: dict[str, list[Any]] = {}
        """By path, each list in order, without repeats."""
        self.records: dict[str, list[Record]] = {}
        self._left = MOST_LEAVES

    def add(self, path: str, value: Any) -> None:
        if self._left <= 0:
            return
        self._left -= 1
        values = self.values.setdefault(path, [])
        if value not in values:
            values.append(value)

    def read(self, value: Any, path: str, around: Record, depth: int = 0) -> dict[str, Any]:
        """Take in `value`; the values that hang on it singly, by path below it."""
        if self._left <= 0 or depth > _DEEPEST:
            return {}
        if isinstance(value, dict):
            return self._object(value, path, around, depth)
        if isinstance(value, list):
            for element in value[:MOST_ELEMENTS]:
                self.read(element, f"{path}[*]", around, depth + 1)
            return {}
        if isinstance(value, str) and (len(value) > MOST_LENGTH or " " in value):
            for kind, resource in resources_in(value):
                self.add(f"{path}~{kind}", resource)
            if len(value) > MOST_LENGTH:
                return {}
        if value is None or value == "" or isinstance(value, bool):
            return {}
        self.add(path, value)
        return {"": value}

    def _object(self, value: Mapping[str, Any], path: str, around: Record, depth: int) -> dict[str, Any]:
        by_value = _keys_are_values(value)
        self._counted(value, path)
        own: dict[str, Any] = {}
        nested: list[tuple[str, Any]] = []
        for key, one in list(value.items())[: 4 * MOST_ELEMENTS]:
            if isinstance(one, dict | list):
                nested.append((key, one))
            elif not by_value:
                below = self.read(one, f"{path}.{key}", around, depth + 1)
                if below:
                    own[key] = below[""]
        outer = {f"^{name}": one for name, one in around.items() if not name.startswith("^^")} | {
            f"^{name}": one for name, one in own.items()
        }
        for key, one in nested[: MOST_ELEMENTS if by_value else None]:
            if by_value:
                self.add(f"{path}.{_KEY}", key)
                self.read(one, f"{path}.*", {**outer, f"^{_KEY}": key}, depth + 1)
            else:
                for name, deep in self.read(one, f"{path}.{key}", outer, depth + 1).items():
                    own[f"{key}.{name}" if name else key] = deep
        records = self.records.setdefault(path, [])
        if own and len(records) < MOST_RECORDS:
            records.append({**around, **own})
        return own

    def _counted(self, value: Mapping[str, Any], path: str) -> None:
        """Take in the keys of numbers. The elements of a list have the same keys each: those are names of fields."""
        if "[*]" not in path and len(value) > 1 and all(type(one) in (int, float) for one in value.values()):
            for key in list(value)[:MOST_ELEMENTS]:
                self.add(f"{path}.{_KEY}", key)


def leaves_of(result: str) -> Leaves:
    """What the text of a result holds; never raises.

    >>> leaves = leaves_of('{"user": "mia", "trips": [{"id": "A1"}, {"id": "B2"}]}')
    >>> leaves.values[".trips[*].id"], leaves.records[".trips[*]"][1]
    (['A1', 'B2'], {'^user': 'mia', 'id': 'B2'})
    >>> leaves_of("- general\\n- random").values
    {'[*]': ['general', 'random']}
    """
    leaves = Leaves()
    structure = _parsed(result)
    if structure is not None:
        leaves.read(structure, "", {})
        return leaves
    text = result.strip()
    if 0 < len(text) <= MOST_LENGTH and "\n" not in text:
        leaves.add("", text)
        if _NUMBER.fullmatch(text):
            leaves.add("~number", _scalar(text))
    for kind, values in values_in(result, words=False).items():
        for value in values:
            leaves.add(kind if kind[0] == "~" else f"~{kind}", value)
    return leaves


def _parsed(result: str) -> Any:
    """The structure of a result, None where it has none."""
    start = result.lstrip()[:1]
    if start in ("{", "[") and len(result) <= MOST_BYTES:
        try:
            return orjson.loads(result)
        except ValueError:
            pass
        if len(result) <= _MOST_LITERAL:
            try:
                return ast.literal_eval(result.strip())  # what `str` makes of a Python structure
            except (ValueError, SyntaxError, MemoryError, RecursionError, TypeError):
                pass
    return outline(result) if len(result) <= MOST_BYTES else None


def _keys_are_values(value: Mapping[str, Any]) -> bool:
    """Whether an object maps ids or names to things, rather than having fields."""
    if len(value) == 0 or not all(isinstance(one, dict | list) for one in list(value.values())[:MOST_ELEMENTS]):
        return False
    return any(any(letter.isdigit() for letter in key) for key in value) or (
        len(value) > 1 and len({tuple(one) if isinstance(one, dict) else None for one in value.values()}) == 1
    )


def outline(text: str) -> Any:
    """Lists and fields as YAML writes them, in its plain forms; None for what is no such text.

    >>> outline("- id: 1\\n  to: 'x y'\\n- id: 2")
    [{'id': 1, 'to': 'x y'}, {'id': 2}]
    >>> outline("- body: see\\n    www.example.com\\n- body: no")
    [{'body': 'see www.example.com'}, {'body': 'no'}]
    >>> outline("Dear all, this is prose.") is None
    True
    """
    lines: list[tuple[int, str | None, str]] = []
    count = 0
    for line in text[:20_000].split("\n"):
        if not line.strip():
            continue
        found = _LINE.match(line)
        count += 1
        if found is None or count > 8 * MOST_LEAVES:
            return None
        indent, dashes, key, rest = found.groups()
        at = len(indent)
        for _ in range(len(dashes) // 2):
            lines.append((at, None, ""))
            at += 2
        if key is not None:
            lines.append((at, key, rest))
        elif dashes:
            lines[-1] = (at - 2, None, rest)
        elif not lines:
            return None
        else:
            lines[-1] = _going_on(lines[-1], at, rest)
    structured = sum(1 for _ in lines)
    if (structured < 2 and not (lines and lines[0][1] is None)) or structured * 2 < count:
        return None
    try:
        return _block(lines, 0, lines[0][0], 0)[0]
    except RecursionError:
        return None


def _block(lines: list[tuple[int, str | None, str]], at: int, indent: int, depth: int) -> tuple[Any, int]:
    """The list or object whose lines stand at `indent`, and the number of the line behind it."""
    is_list = lines[at][1] is None
    elements: list[Any] = []
    fields: dict[str, Any] = {}
    while at < len(lines) and lines[at][0] == indent and (lines[at][1] is None) == is_list and depth <= _DEEPEST:
        _, key, rest = lines[at]
        at += 1
        value: Any = _scalar(rest) if rest else None
        if not rest and at < len(lines) and _is_below(lines[at], indent, key):
            value, at = _block(lines, at, lines[at][0], depth + 1)
        while at < len(lines) and lines[at][0] > indent:
            at += 1
        if is_list:
            elements.append(value)
        else:
            fields[str(key)] = value
    return (elements if is_list else fields), at


def _going_on(line: tuple[int, str | None, str], indent: int, rest: str) -> tuple[int, str | None, str]:
    """A line whose value goes on, as YAML folds a long text."""
    return (*line[:2], f"{line[2]} {rest}") if line[2] and indent > line[0] else line


def _is_below(line: tuple[int, str | None, str], indent: int, key: str | None) -> bool:
    """Whether a line begins the value of a field or element at `indent`; a list may stand under its field's name."""
    return line[0] > indent or (line[0] == indent and key is not None and line[1] is None)


def _scalar(text: str) -> Any:
    text = text.strip()
    if len(text) > 1 and text[0] == text[-1] and text[0] in "'\"":
        return text[1:-1]
    if _NUMBER.fullmatch(text) and len(text) < 16:
        return float(text) if "." in text else int(text)
    return {"true": True, "false": False, "null": None, "~": None}.get(text.lower(), text)

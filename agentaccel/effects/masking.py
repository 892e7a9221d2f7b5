"""Credentials taken out of what an agent said, was told and called: the rules are those of `secrets`.

What is masked by its name (the argument `password`, or one that a policy calls sensitive) is masked in every other
place, too: in the user's words, in results and in the system prompt.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Any

from agentaccel.effects.secrets import credentials, is_credential, is_mixed

MASK = "<redacted>"
"""Stands in the place of a credential."""
DEEPEST = 60
"""Levels of a value that are looked at; what lies deeper is masked as a whole."""
SHORTEST_ANYWHERE = 3
"""Characters of a value that is masked in other places, too; a shorter one would be found in words of anybody's."""
_SHORTEST_WITHIN = 8
"""From so many on, also within a longer word."""
_GIVEN = frozenset({"default", "example", "examples"})
"""Of a schema, what holds a value of its argument."""
_SAID = frozenset({"description", "title", "$comment"}) | _GIVEN
"""Of a schema, what the model reads and nobody checks."""
_NAMED = frozenset({"properties", "patternProperties", "$defs", "definitions"})
"""Of a schema, what holds schemas by names."""

Sensitive = Callable[[str, str], bool]
"""True if the user calls an argument of a tool sensitive."""


class Masks:
    """Masks what belongs together, such as one conversation. Mutable: it remembers what is to be masked everywhere.

    >>> masks = Masks()
    >>> masks.arguments("login", {"user": "mia", "password": "plum"})
    {'user': 'mia', 'password': '<redacted>'}
    >>> masks.everywhere("The password is plum, as in plums.")
    'The password is <redacted>, as in plums.'
    >>> masks.count
    2
    """

    def __init__(self, sensitive: Sensitive | None = None) -> None:
        self.count = 0
        """Masked so far."""
        self._sensitive = sensitive
        self._known: dict[str, None] = {}
        """Values that are masked wherever they stand."""

    def text(self, text: str) -> str:
        """The text without credentials, otherwise unchanged; one that is JSON is read as such."""
        return self._text(text, 0)

    def arguments(self, tool: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """The arguments of a call of the tool, without credentials."""
        return {self.text(name): self._argument(tool, name, name, value, 1) for name, value in arguments.items()}

    def schema(self, tool: str, schema: Any, name: str = "", path: str = "", depth: int = 0) -> Any:
        """The schema of the tool's arguments: descriptions as texts, values that it gives by their arguments' names."""
        if depth > DEEPEST:
            return self._masked()
        if isinstance(schema, list):
            return [self.schema(tool, one, name, path, depth + 1) for one in schema]
        if not isinstance(schema, dict):
            return self._value("", schema, depth, whole=False)
        made: dict[str, Any] = {}
        for key, value in schema.items():
            if key in _GIVEN:
                made[key] = self._argument(tool, path, name, value, depth + 1)
            elif key in _NAMED and isinstance(value, dict):
                made[key] = {
                    one: self.schema(tool, below, one, f"{path}.{one}" if path else one, depth + 2)
                    for one, below in value.items()
                }
            else:
                made[key] = self.schema(tool, value, name, path, depth + 1)
        return made

    def everywhere(self, value: Any, *, schema: bool = False) -> Any:
        """`value` without what was masked by its name in another place; to be called when all was masked.

        Of a schema names, types and what else is checked stay as they are.
        """
        if not self._known:
            return value
        forms = dict.fromkeys(form for one in self._known for form in _forms(one))
        either = "|".join(
            re.escape(one) if len(one) >= _SHORTEST_WITHIN else rf"(?<![^\W_]){re.escape(one)}(?![^\W_])"
            for one in sorted(forms, key=len, reverse=True)
        )
        return (self._schema_without if schema else self._without)(value, re.compile(either))

    def _without(self, value: Any, known: re.Pattern[str]) -> Any:
        if isinstance(value, str):
            made, times = known.subn(MASK, value)
            self.count += times
            return made
        if isinstance(value, dict):
            return {self._without(name, known): self._without(below, known) for name, below in value.items()}
        if isinstance(value, list):
            return [self._without(one, known) for one in value]
        return self._masked() if _is_number(value) and known.fullmatch(str(value)) else value

    def _schema_without(self, value: Any, known: re.Pattern[str]) -> Any:
        if isinstance(value, list):
            return [self._schema_without(one, known) for one in value]
        if not isinstance(value, dict):
            return value
        made: dict[str, Any] = {}
        for key, below in value.items():
            if key in _SAID:
                made[key] = self._without(below, known)
            elif key in _NAMED and isinstance(below, dict):
                made[key] = {name: self._schema_without(one, known) for name, one in below.items()}
            else:
                made[key] = self._schema_without(below, known)
        return made

    def _argument(self, tool: str, path: str, name: str, value: Any, depth: int) -> Any:
        if self._sensitive is not None and (self._sensitive(tool, path) or self._sensitive(tool, name)):
            return self._value(name, value, depth, whole=True)
        if isinstance(value, dict) and depth <= DEEPEST:
            whole = is_credential(name, "a b")
            return {
                self.text(one): self._value(one, below, depth + 1, whole=True)
                if whole
                else self._argument(tool, f"{path}.{one}", one, below, depth + 1)
                for one, below in value.items()
            }
        return self._value(name, value, depth, whole=False)

    def _value(self, name: str, value: Any, depth: int, *, whole: bool) -> Any:
        """`value`, called `name`; `whole`: all that is in it is secret."""
        if value is None or isinstance(value, bool):
            return value
        if depth > DEEPEST:
            return self._masked()
        if isinstance(value, dict):
            whole = whole or is_credential(name, "a b")
            return {
                self._text(one, depth): self._value(one, below, depth + 1, whole=whole) for one, below in value.items()
            }
        if isinstance(value, list):
            return [self._value(name, one, depth + 1, whole=whole) for one in value]
        said = str(value)
        if said and said != MASK and (whole or is_credential(name, said)):
            self._know(said)
            return self._masked()
        return self._text(value, depth) if isinstance(value, str) else value

    def _text(self, text: str, depth: int) -> str:
        if text.lstrip()[:1] in ("{", "[") and depth <= DEEPEST:
            try:
                parsed = json.loads(text)
            except (ValueError, RecursionError):
                parsed = None
            if isinstance(parsed, dict | list):
                return self._json(text, parsed, depth)
        made, done = [], 0
        for start, end in credentials(text):
            if is_mixed(text[start:end]):
                self._know(text[start:end])
            made += [text[done:start], self._masked()]
            done = end
        return "".join((*made, text[done:]))

    def _json(self, text: str, parsed: Any, depth: int) -> str:
        before = self.count
        made = self._value("", parsed, depth + 1, whole=False)
        if self.count == before:
            return text
        indent = 2 if "\n" in text.strip() else None
        return json.dumps(made, ensure_ascii=False, indent=indent)

    def _know(self, value: str) -> None:
        if len(value) >= SHORTEST_ANYWHERE:
            self._known[value] = None

    def _masked(self) -> str:
        self.count += 1
        return MASK


def _forms(value: str) -> tuple[str, ...]:
    """The value as it is, and as it stands within JSON."""
    return value, json.dumps(value)[1:-1], json.dumps(value, ensure_ascii=False)[1:-1]


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)

"""What a model writes that is bound to a JSON schema, where the script has no JSON for it: the smallest instance."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import orjson

from agentaccel_emulator.script import ScriptedReply, say

_EMPTY: Mapping[str, object] = {"string": "", "integer": 0, "number": 0, "boolean": False, "null": None, "array": []}
_DEEPEST = 12
_MOST = 10_000
"""Values that an instance may have: a schema can ask for more than there is memory."""


def bound(reply: ScriptedReply, form: Mapping[str, Any] | None) -> ScriptedReply:
    """`reply`, or an instance of the schema in `form` where its text is no JSON; replies with calls stay."""
    if form is None or form.get("type") not in ("json_schema", "json_object"):
        return reply
    texts = [block.get("text", "") for block in reply.content if block["type"] == "text"]
    if any(block["type"] == "tool_use" for block in reply.content) or _is_json("".join(texts)):
        return reply
    inner = form.get("json_schema") or form
    schema = inner.get("schema") or {"type": "object"}
    text = orjson.dumps(smallest(schema, schema)).decode()
    return ScriptedReply(
        content=(*(block for block in reply.content if block["type"] == "thinking"), *say(text).content),
        output_tokens=reply.output_tokens,
        first_token=reply.first_token,
        tokens_per_second=reply.tokens_per_second,
    )


def _is_json(text: str) -> bool:
    try:
        orjson.loads(text)
    except orjson.JSONDecodeError:
        return False
    return True


def smallest(schema: Mapping[str, Any], root: Mapping[str, Any]) -> object:
    """A small instance of `schema`, whose references are resolved in `root`. Raises `ValueError` where it is not small.

    >>> smallest({"type": "object", "properties": {"n": {"type": "integer"}, "k": {"enum": ["a", "b"]}}}, {})
    {'n': 0, 'k': 'a'}
    """
    return _Writer(root).instance(schema, 0)


@dataclass(slots=True)
class _Writer:
    """Writes one instance. Mutable: it counts the values that it has made."""

    root: Mapping[str, Any]
    made: int = 0

    def instance(self, schema: Mapping[str, Any], depth: int) -> object:
        self.made += 1
        if self.made > _MOST:
            raise ValueError(f"an instance would have more than {_MOST:,} values")
        if "$ref" in schema:
            return None if depth > _DEEPEST else self.instance(_target(schema["$ref"], self.root), depth + 1)
        for name in ("const", "default"):
            if name in schema:
                return schema[name]
        if schema.get("enum"):
            return schema["enum"][0]
        for name in ("anyOf", "oneOf", "allOf"):
            if schema.get(name):
                return self.instance(schema[name][-1], depth + 1)
        kind = schema.get("type", "object")
        kind = kind[0] if isinstance(kind, list) else kind
        if kind == "object":
            return {name: self.instance(part, depth + 1) for name, part in schema.get("properties", {}).items()}
        if kind == "array" and schema.get("minItems"):
            return [self.instance(schema.get("items", {}), depth + 1) for _ in range(schema["minItems"])]
        return _EMPTY.get(kind)


def _target(reference: str, root: Mapping[str, Any]) -> Any:
    target: Any = root
    for name in reference.removeprefix("#").strip("/").split("/"):
        target = target.get(name, {}) if name else target
    return target


def has_instances(schema: object) -> bool:
    """Whether `schema` is one that an instance can be written for."""
    try:
        smallest(schema, schema)  # type: ignore[arg-type]  # that is the question
    except (AttributeError, LookupError, RecursionError, TypeError, ValueError):
        return False
    return True

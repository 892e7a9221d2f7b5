"""What a model writes that is bound to a JSON schema, where the script has no JSON for it: the smallest instance."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson

from agentaccel.emulator.script import ScriptedReply, say

_EMPTY: Mapping[str, object] = {"string": "", "integer": 0, "number": 0, "boolean": False, "null": None, "array": []}
_DEEPEST = 12


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


def smallest(schema: Mapping[str, Any], root: Mapping[str, Any], depth: int = 0) -> object:
    """A small instance of `schema`, whose references are resolved in `root`.

    >>> smallest({"type": "object", "properties": {"n": {"type": "integer"}, "k": {"enum": ["a", "b"]}}}, {})
    {'n': 0, 'k': 'a'}
    """
    if "$ref" in schema:
        target: Any = root
        for name in schema["$ref"].removeprefix("#").strip("/").split("/"):
            target = target.get(name, {}) if name else target
        return None if depth > _DEEPEST else smallest(target, root, depth + 1)
    for name in ("const", "default"):
        if name in schema:
            return schema[name]
    if schema.get("enum"):
        return schema["enum"][0]
    for name in ("anyOf", "oneOf", "allOf"):
        if schema.get(name):
            return smallest(schema[name][-1], root, depth + 1)
    kind = schema.get("type", "object")
    kind = kind[0] if isinstance(kind, list) else kind
    if kind == "object":
        return {name: smallest(part, root, depth + 1) for name, part in schema.get("properties", {}).items()}
    if kind == "array" and schema.get("minItems"):
        return [smallest(schema.get("items", {}), root, depth + 1)] * schema["minItems"]
    return _EMPTY.get(kind)


def has_instances(schema: object) -> bool:
    """Whether `schema` is one that an instance can be written for."""
    try:
        smallest(schema, schema)  # type: ignore[arg-type]  # that is the question
    except (AttributeError, LookupError, TypeError, ValueError):
        return False
    return True

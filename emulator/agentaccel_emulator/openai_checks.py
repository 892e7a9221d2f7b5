"""What OpenAI's APIs refuse whatever the form of the request: keys, fields, models, and the cache's fields.

*Invented* marks a text that is not published; the others have the form of recorded refusals (providers.md, 2 and 9).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import orjson

from agentaccel_emulator.openai_candidate import Candidate, Part, extra_facts, refusal
from agentaccel_emulator.openai_fields import FIELDS
from agentaccel_emulator.openai_prompt import MARK
from agentaccel_emulator.trial import Check, Problem

_OPTIONS: Mapping[str, tuple[str, ...]] = {
    "chat": ("mode", "ttl"),
    "responses": ("mode", "ttl", "prewarm", "comparison_response_id"),
}
_KEY_LENGTH = 64
_WORDS: Mapping[type, str] = {
    str: "a string",
    bool: "a boolean",
    int: "an integer",
    float: "a decimal",
    list: "an array",
    dict: "an object",
    type(None): "null",
}


def authentication(request: Candidate) -> Problem | None:
    """A key is given, and accepted."""
    if request.api_key is None:
        text = (
            "You didn't provide an API key. You need to provide your API key in an Authorization header using Bearer "
            "auth (i.e. Authorization: Bearer YOUR_KEY)."
        )
        return refusal(text, status=401)
    if request.api_keys is not None and request.api_key not in request.api_keys:
        text = (
            f"Incorrect API key provided: {request.api_key}. You can find your API key at "
            "https://platform.openai.com/account/api-keys."
        )
        return refusal(text, code="invalid_api_key", status=401)
    return None


def body_is_json(request: Candidate) -> Problem | None:
    """The body is JSON, and an object (text of the latter invented)."""
    try:
        body = request.decoded
    except orjson.JSONDecodeError:
        return refusal("We could not parse the JSON body of your request.")
    return None if isinstance(body, dict) else refusal("The body of your request is not a JSON object.")


def refused_fields(request: Candidate) -> Problem | None:
    """No field is sent that this server does not take (for strict servers that speak the API)."""
    name = next((name for name in request.body if name in request.refused), None)
    return unknown(name) if name else None


def required_fields(request: Candidate) -> Problem | None:
    """The model and the conversation are there."""
    names = ("messages",) if request.wire == "chat" else ()
    names = names if request.deployment is not None else ("model", *names)
    name = next((name for name in names if name not in request.body), None)
    return missing(name) if name else None


def known_fields(request: Candidate) -> Problem | None:
    """No field is unknown."""
    name = next((name for name in request.body if name not in FIELDS[request.wire]), None)
    return unknown(name) if name else None


def unknown(path: str) -> Problem:
    """The refusal of a field that does not belong where it stands."""
    return refusal(f"Unknown parameter: '{path}'.", path, "unknown_parameter")


def missing(path: str) -> Problem:
    """The refusal of what lacks a field."""
    return refusal(f"Missing required parameter: '{path}'.", path, "missing_required_parameter")


def wrong_type(path: str, wanted: str, value: object) -> Problem:
    """The refusal of a value of a wrong type."""
    text = f"Invalid type for '{path}': expected {wanted}, but got {_WORDS.get(type(value), 'a value')} instead."
    return refusal(text, path, "invalid_type")


def wrong_value(path: str, value: object, allowed: tuple[str, ...]) -> Problem:
    """The refusal of a value that is none of those allowed."""
    names = [f"'{name}'" for name in allowed]
    listed = names[0] if len(names) == 1 else ", ".join(names[:-1]) + " and " + names[-1]
    return refusal(f"Invalid value: '{value}'. Supported values are: {listed}.", path, "invalid_value")


def field_types(request: Candidate) -> Problem | None:
    """Fields of the request have their types."""
    for name, kinds in FIELDS[request.wire].items():
        value = request.body.get(name)
        if value is None and name not in ("model", "messages"):
            continue
        if name == "model" and request.deployment is not None:
            continue
        if kinds and (not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds)):
            return wrong_type(name, " or ".join(_WORDS[kind] for kind in kinds), value)
    return None


def model_is_known(request: Candidate) -> Problem | None:
    """The model exists."""
    if request.serves(request.model):
        return None
    if request.deployment is not None:
        text = (
            "The API deployment for this resource does not exist. If you created the deployment within the last 5 "
            "minutes, please wait a moment and try again."
        )
        return refusal(text, code="DeploymentNotFound", status=404)
    if request.wire == "responses":
        return refusal(f"The requested model '{request.model}' does not exist.", "model", "model_not_found")
    text = f"The model `{request.model}` does not exist or you do not have access to it."
    return refusal(text, code="model_not_found", status=404)


def cache_options(request: Candidate) -> Problem | None:
    """Options of the cache go to models with breakpoints, and are among those of the API."""
    options = request.body.get("prompt_cache_options")
    if options is None:
        return None
    path = "prompt_cache_options"
    if request.known.physics != "breakpoints":
        return refusal(  # invented
            f"Unsupported parameter: '{path}' is not supported with this model.", path, "unsupported_parameter"
        )
    allowed = _OPTIONS[request.wire]
    if (name := next((name for name in options if name not in allowed), None)) is not None:
        return unknown(f"{path}.{name}")
    if options.get("mode", "implicit") not in ("implicit", "explicit"):
        return wrong_value(f"{path}.mode", options["mode"], ("implicit", "explicit"))
    if not isinstance(options.get("prewarm", False), bool):
        return wrong_type(f"{path}.prewarm", "a boolean", options["prewarm"])
    compared = options.get("comparison_response_id")
    if not isinstance(compared, (str, type(None))):
        return wrong_type(f"{path}.comparison_response_id", "a string", compared)
    return _lifetime(request, options.get("ttl"), f"{path}.ttl")


def _lifetime(request: Candidate, ttl: object, path: str) -> Problem | None:
    allowed = tuple(one.label for one in request.known.ttls)
    return wrong_value(path, ttl, allowed) if ttl is not None and ttl not in allowed else None


def breakpoints(request: Candidate) -> Problem | None:
    """Explicit breakpoints stand on input content, go to models that have them, and are well-formed."""
    if (misplaced := next(_misplaced(request), None)) is not None:
        return unknown(f"{misplaced}.{MARK}")
    for found in request.breakpoints:
        path, mark = f"{found.path}.{MARK}", found.part[MARK]
        if request.known.physics != "breakpoints":
            return refusal(  # invented
                f"Unsupported parameter: '{path}' is not supported with this model.", path, "unsupported_parameter"
            )
        if not isinstance(mark, dict):
            return wrong_type(path, "an object", mark)
        if (name := next((name for name in mark if name not in ("mode", "ttl")), None)) is not None:
            return unknown(f"{path}.{name}")
        if "mode" not in mark:
            return missing(f"{path}.mode")
        if mark["mode"] != "explicit":
            return wrong_value(f"{path}.mode", mark["mode"], ("explicit",))
        if (problem := _lifetime(request, mark.get("ttl"), f"{path}.ttl")) is not None:
            return problem
    return None


def _misplaced(request: Candidate) -> Iterator[str]:
    """The places of breakpoints that may not stand there."""
    if request.body.get(MARK) is not None:
        yield MARK
    tools = request.body.get("tools")
    for number, tool in enumerate(tools if isinstance(tools, list) else ()):
        if isinstance(tool, dict) and (tool.get(MARK) is not None or MARK in (tool.get("function") or {})):
            yield f"tools[{number}]"
    for path, item in request.items:
        if item.get(MARK) is not None:
            yield path
    for found in request.breakpoints:
        if not _takes_breakpoint(request, found):
            yield found.path


def _takes_breakpoint(request: Candidate, found: Part) -> bool:
    return found.role != "assistant" and found.part.get("type") in _MARKABLE[request.wire]


_MARKABLE: Mapping[str, tuple[str, ...]] = {
    "chat": ("text", "image_url", "file", "input_audio"),
    "responses": ("input_text", "input_image", "input_file"),
}


def cache_key(request: Candidate) -> Problem | None:
    """A cache key has at most 64 characters."""
    key = request.body.get("prompt_cache_key")
    if key is None or len(key) <= _KEY_LENGTH:
        return None
    text = (
        f"Invalid 'prompt_cache_key': string too long. Expected a string with maximum length {_KEY_LENGTH}, but got "
        f"a string with length {len(key)} instead."
    )
    return refusal(text, "prompt_cache_key", "string_above_max_length")


def retention(request: Candidate) -> Problem | None:
    """The retention is one that the model has; from gpt-5.5 on that is 24h alone."""
    value = request.body.get("prompt_cache_retention")
    allowed = tuple(extra_facts(request.known).get("retentions", ("in_memory", "24h")))
    if value is None or value in allowed:
        return None
    return wrong_value("prompt_cache_retention", value, allowed)


def allowed_tools(request: Candidate) -> Problem | None:
    """A choice among some of the tools names tools of the request (texts invented)."""
    choice = request.body.get("tool_choice")
    if not isinstance(choice, Mapping) or choice.get("type") != "allowed_tools":
        return None
    said = choice.get("allowed_tools") if request.wire == "chat" else choice
    if not isinstance(said, Mapping) or said.get("mode") not in ("auto", "required"):
        return refusal("Missing or invalid 'tool_choice.mode'.", "tool_choice")
    known = {(tool.get("type"), _tool_name(tool)) for tool in request.body.get("tools") or ()}
    for tool in said.get("tools") or ():
        if not isinstance(tool, Mapping) or (tool.get("type"), _tool_name(tool)) not in known:
            return refusal("Tool choice 'allowed_tools' names a tool that is not in 'tools'.", "tool_choice")
    return None


def _tool_name(tool: Mapping[str, object]) -> object:
    inner = tool.get(str(tool.get("type")))
    return inner.get("name") if isinstance(inner, Mapping) else tool.get("name")


ENVELOPE: tuple[Check[Candidate], ...] = (
    Check("authentication", authentication),
    Check("body_is_json", body_is_json),
    Check("refused_fields", refused_fields),
    Check("required_fields", required_fields),
    Check("known_fields", known_fields),
    Check("field_types", field_types),
    Check("model_is_known", model_is_known),
)
"""The checks on what encloses the prompt; the others presuppose them."""

CACHE_RULES: tuple[Check[Candidate], ...] = (
    Check("cache_options", cache_options),
    Check("breakpoints", breakpoints),
    Check("cache_key", cache_key),
    Check("retention", retention),
    Check("allowed_tools", allowed_tools),
)
"""The rules on the cache's fields and on masked tools; they presuppose that messages and parts are well-formed."""

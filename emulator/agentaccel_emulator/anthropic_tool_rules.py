"""What the Messages API refuses in tools: their shapes, names, choice and deferral.

The texts on `input_schema` are those of recorded exchanges; the others are from memory, like the rules' own.
"""

from __future__ import annotations

from agentaccel_emulator.anthropic_candidate import Candidate
from agentaccel_emulator.trial import Check, Json, Problem

TOOL_KINDS = (
    "bash",
    "text_editor",
    "memory",
    "computer",
    "computer_toolset",
    "browser_toolset",
    "web_search",
    "web_fetch",
    "code_execution",
    "tool_search_tool_bm25",
    "tool_search_tool_regex",
    "advisor",
)
"""Types of tool other than custom ones and mcp_toolset, without their dates."""


def tool_shapes(request: Candidate) -> Problem | None:
    """Tools are objects; a custom one has a name and an object schema."""
    for number, tool in enumerate(request.body.get("tools") or ()):
        path = f"tools.{number}"
        if not isinstance(tool, dict):
            return Problem(f"{path}: Input should be a valid dictionary")
        for name in ("type", "name"):
            if not isinstance(tool.get(name), (str, type(None))):
                return Problem(f"{path}.{name}: Input should be a valid string")
        kind = tool.get("type") or "custom"
        if kind not in ("custom", "mcp_toolset") and kind.rpartition("_")[0] not in TOOL_KINDS:
            text = f"Input tag '{kind}' found using 'type' does not match any of the expected tags"
            return Problem(f"{path}: {text}")
        if kind == "custom" and (problem := _custom_shape(tool, f"{path}.custom")) is not None:
            return problem
    return None


def _custom_shape(tool: Json, path: str) -> Problem | None:
    if not tool.get("name"):
        return Problem(f"{path}.name: Field required")
    schema = tool.get("input_schema")
    if schema is None:
        return Problem(f"{path}.input_schema: Field required")
    if not isinstance(schema, dict):
        return Problem(f"{path}.input_schema: Input should be a valid dictionary")
    if "type" not in schema:
        return Problem(f"{path}.input_schema.type: Field required")
    if schema["type"] != "object":
        return Problem(f"{path}.input_schema.type: Input should be 'object'")
    return None


def tool_names(request: Candidate) -> Problem | None:
    """Names of tools are unique."""
    names = [tool["name"] for tool in request.body.get("tools") or () if "name" in tool]
    return None if len(set(names)) == len(names) else Problem("tools: Tool names must be unique.")


def tool_choice(request: Candidate) -> Problem | None:
    """A tool choice goes with tools, and names one of them."""
    choice = request.body.get("tool_choice")
    if choice is None:
        return None
    kind, tools = choice.get("type"), request.body.get("tools") or ()
    if kind not in ("auto", "any", "tool", "none"):
        tags = "'any', 'auto', 'none', 'tool'"
        text = f"Input tag '{kind}' found using 'type' does not match any of the expected tags: {tags}"
        return Problem(f"tool_choice: {text}")
    if not tools and kind != "none":
        return Problem("tool_choice: tool_choice may only be specified while providing tools.")
    if kind == "tool" and choice.get("name") not in {tool.get("name") for tool in tools}:
        return Problem(f"Tool '{choice.get('name')}' not found in provided tools")
    return None


def deferred_tools(request: Candidate) -> Problem | None:
    """A deferred tool carries no marker, and not all tools are deferred."""
    tools = request.body.get("tools") or ()
    for tool in tools:
        if tool.get("defer_loading") and tool.get("cache_control") is not None:
            return Problem(
                f"Tool '{tool.get('name')}' cannot have both defer_loading=true and cache_control set. "
                "Tools with defer_loading cannot use prompt caching."
            )
    if tools and all(tool.get("defer_loading") for tool in tools):
        return Problem("At least one tool must have defer_loading=false. All tools cannot be deferred.")
    return None


TOOL_RULES: tuple[Check[Candidate], ...] = (
    Check("tool_shapes", tool_shapes),
    Check("tool_names", tool_names),
    Check("tool_choice", tool_choice),
    Check("deferred_tools", deferred_tools),
)
"""The rules on tools; those on markers presuppose the first."""

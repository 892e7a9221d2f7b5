"""agentaccel in sessions of MCP, whichever loop or framework holds them.

await wrap(session, accel, server="desk", trusted=True)
"""

from agentaccel_mcp.sessions import unwrap, wrap

__all__ = ["unwrap", "wrap"]

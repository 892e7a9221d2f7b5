"""agentaccel makes any LLM agent loop cheaper and faster without changing its answers."""

__version__ = "0.1.0"

"""The dialects of the OpenAI wires: Chat Completions and Responses, and what is compatible with them."""

from agentaccel.wire.openai.usage import usage_of

__all__ = ["usage_of"]

"""The dialect of the Anthropic Messages API: `decode` and `encode` for requests, `MessagesTap` for replies."""

from agentaccel.wire.anthropic.edit import encode, only_tools, strip, warmed, with_note, with_stub
from agentaccel.wire.anthropic.reply import MessagesTap
from agentaccel.wire.anthropic.request import decode
from agentaccel.wire.anthropic.usage import usage_of
from agentaccel.wire.parts import PartMemory

__all__ = [
    "MessagesTap",
    "PartMemory",
    "decode",
    "encode",
    "only_tools",
    "strip",
    "usage_of",
    "warmed",
    "with_note",
    "with_stub",
]

"""The dialect of the Anthropic Messages API: `decode` and `encode` for requests, `ReplyTap` for replies."""

from agentaccel.providers.anthropic.arrange import only_tools, with_note
from agentaccel.providers.anthropic.edit import encode, strip, warmed, with_stub
from agentaccel.providers.anthropic.reply import ReplyTap
from agentaccel.providers.anthropic.request import decode
from agentaccel.providers.anthropic.usage import usage_of
from agentaccel.providers.parts import PartMemory

__all__ = [
    "PartMemory",
    "ReplyTap",
    "decode",
    "encode",
    "only_tools",
    "strip",
    "usage_of",
    "warmed",
    "with_note",
    "with_stub",
]

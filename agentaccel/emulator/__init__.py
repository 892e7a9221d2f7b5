"""A local provider: the Anthropic Messages API with its documented prompt cache, its refusals and its faults.

`Emulator` is the core without sockets; `serve` puts a real HTTP server around it, to which the vendor's own SDK
talks. It shares no code with the rest of agentaccel except the facts, so that the two cannot share a mistake.
"""

from agentaccel.emulator.accounts import Counters, LogEntry, RateLimits, Totals
from agentaccel.emulator.anthropic_prompt import Tokenizer
from agentaccel.emulator.anthropic_wire import Usage
from agentaccel.emulator.behaviour import Behaviour, Timing
from agentaccel.emulator.core import Emulator
from agentaccel.emulator.exchange import Chunk, HttpReply, HttpRequest
from agentaccel.emulator.faults import Fault
from agentaccel.emulator.script import Conversation, Script, ScriptedReply, Turn, call, say
from agentaccel.emulator.server import RunningServer, serve

__all__ = [
    "Behaviour",
    "Chunk",
    "Conversation",
    "Counters",
    "Emulator",
    "Fault",
    "HttpReply",
    "HttpRequest",
    "LogEntry",
    "RateLimits",
    "RunningServer",
    "Script",
    "ScriptedReply",
    "Timing",
    "Tokenizer",
    "Totals",
    "Turn",
    "Usage",
    "call",
    "say",
    "serve",
]

"""A local provider: the APIs of Anthropic and OpenAI, and of servers that speak OpenAI's, with the documented prompt
caches, refusals and faults.

`Emulator` is the core without sockets; `serve` puts a real HTTP server around it, to which the vendors' own SDKs
talk. Of the rest of agentaccel it shares the facts, clocks and errors and nothing else, so that a mistake in the
planner's arithmetic is not repeated here.
"""

from agentaccel_emulator.accounts import Counters, LogEntry, RateLimits, Totals
from agentaccel_emulator.anthropic_prompt import Tokenizer
from agentaccel_emulator.behaviour import Behaviour, Timing
from agentaccel_emulator.core import Emulator
from agentaccel_emulator.exchange import Chunk, HttpReply, HttpRequest
from agentaccel_emulator.faults import Fault
from agentaccel_emulator.script import Conversation, Script, ScriptedReply, Turn, call, say
from agentaccel_emulator.server import RunningServer, serve
from agentaccel_emulator.usage import Usage

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

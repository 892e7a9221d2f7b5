"""The former name of `agentaccel_emulator`: the same objects, until the next minor version."""

import warnings

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

warnings.warn("agentaccel.emulator is now agentaccel_emulator", PendingDeprecationWarning, stacklevel=2)

"""The former name of `agentaccel.wire.openai`."""

from agentaccel.former import former

__getattr__ = former(__name__, {"*": "agentaccel.wire.openai"})

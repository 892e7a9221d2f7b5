"""The former name of `agentaccel.wire.anthropic`."""

from agentaccel.former import former

__getattr__ = former(__name__, {"*": "agentaccel.wire.anthropic"})

"""The former name of `agentaccel.hooks`."""

from agentaccel.former import former

__getattr__ = former(__name__, {"*": "agentaccel.hooks"})

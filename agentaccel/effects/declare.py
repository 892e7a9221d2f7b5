"""The former name of `agentaccel.effects.spec`."""

from agentaccel.former import former

__getattr__ = former(__name__, {"*": "agentaccel.effects.spec"})

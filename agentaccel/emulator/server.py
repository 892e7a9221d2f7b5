"""The former name of `agentaccel_emulator.server`."""

from agentaccel_emulator.server import RunningServer, serve

__all__ = ["RunningServer", "serve"]

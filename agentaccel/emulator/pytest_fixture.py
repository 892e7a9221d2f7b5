"""The former name of `agentaccel_emulator.pytest_fixture`."""

from agentaccel_emulator.pytest_fixture import emulator

__all__ = ["emulator"]

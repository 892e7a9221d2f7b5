"""`python -m agentaccel.emulator`, as `python -m agentaccel_emulator`."""

from agentaccel_emulator.command import emulate

if __name__ == "__main__":
    emulate()

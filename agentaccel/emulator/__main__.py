"""`python -m agentaccel.emulator`: run the emulator."""

from agentaccel.emulator.command import emulate

if __name__ == "__main__":
    emulate()

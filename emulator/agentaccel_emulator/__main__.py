"""`python -m agentaccel_emulator`: run the emulator."""

from agentaccel_emulator.command import emulate

if __name__ == "__main__":
    emulate()

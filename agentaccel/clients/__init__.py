"""The seams of the vendor SDKs: they perform a turn's commands, report its events, and decide nothing."""

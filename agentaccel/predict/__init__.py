"""Predicting the next tool call, deciding whether to run it early, and keeping its result until it is asked for.

Pure decisions over frozen values, and state machines without I/O: `tools` runs them.
"""

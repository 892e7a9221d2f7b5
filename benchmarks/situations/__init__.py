"""Synthetic agents described in TOML, as real requests of the Messages API with times, and as runs for a replay.

`load` reads situations, `requests` writes their requests, `runs` decodes those as a replay reads them. What disturbs a
prompt cache is a `Change`: a function from one session's requests to another list of them, so that more of them can be
composed with what the file says.
"""

from benchmarks.situations.agents import Change, Exchange
from benchmarks.situations.form import Situation, bundled, load
from benchmarks.situations.sessions import requests, runs

__all__ = ["Change", "Exchange", "Situation", "bundled", "load", "requests", "runs"]

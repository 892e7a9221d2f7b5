"""Ten conversations with one beginning, a turn of each every ten seconds, with a model before gpt-5.6. Runs offline.

A machine of the provider's stands about fifteen requests a minute of one beginning; sixty go from machine to machine,
and what each has seen of a conversation is old. agentaccel gives those that no longer fit a `prompt_cache_key`.
"""

import random

from openai import OpenAI

from agentaccel import Accel, Policy, StorePolicy
from agentaccel.testing import ManualClock
from agentaccel_emulator import serve

RULES = {"role": "developer", "content": "You sort questions about lamps into drawers. " * 280}
TOOLS = [{"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}]
TALKS, TURNS = 10, 12
HOW = ("as it is", "one key for all", "agentaccel")


def hit_rate(how: str) -> float:
    """Share of the input that is read, in the order in which people happen to ask."""
    rng = random.Random(7)
    due = sorted((rng.random() * 10 + turn * rng.uniform(9, 11), n) for n in range(TALKS) for turn in range(TURNS))
    talks = [[RULES, {"role": "user", "content": f"Case {n}. " + "A lamp stands here. " * 40}] for n in range(TALKS)]
    options = {"prompt_cache_key": "lamps"} if how == "one key for all" else {}
    with (
        serve(script=["drawer " * 60] * len(due), clock=ManualClock(now=1e9)) as server,
        Accel(Policy(store=StorePolicy(enabled=False)), clock=server.clock) as accel,
        OpenAI(base_url=f"{server.url}/v1", api_key="any") as bare,
    ):
        client = accel.wrap(bare, platform="api") if how == "agentaccel" else bare
        begin = server.clock.now
        for at, n in due:
            server.clock.advance(max(0, begin + at - server.clock.now))
            with accel.session(f"case {n}"):
                client.chat.completions.create(model="gpt-4.1", messages=talks[n], tools=TOOLS, **options)
            talks[n] += [
                {"role": "assistant", "content": "drawer " * 60},
                {"role": "user", "content": f"And then, at {at}? " + "It is another lamp. " * 30},
            ]
        total = server.counters.total
    return total.read / (total.read + total.uncached)


rates = {how: hit_rate(how) for how in HOW}
print("\n".join(f"{how:16} {rate:.1%} read" for how, rate in rates.items()))
assert rates["agentaccel"] > rates["one key for all"] + 0.05

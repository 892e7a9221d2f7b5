"""One question each behind the same instructions, with the OpenAI SDK. Runs offline, against the emulator.

The model caches by itself, at the end of each question, where nobody will look again. agentaccel marks the end of the
instructions instead, and tells the provider not to write the rest.
"""

from openai import OpenAI

from agentaccel import Accel, Policy, StorePolicy
from agentaccel_emulator import serve

RULES = {"role": "developer", "content": "You sort questions about lamps into drawers. " * 200}
QUESTIONS = [f"Question {number}: where does a desk lamp go?" for number in range(8)]


def cost(accelerated: bool) -> float:
    """Input cost of all questions, in uncached tokens: a read costs 0.05, a write 1.25."""
    with (
        serve(script=["drawer one"] * len(QUESTIONS)) as server,
        Accel(Policy(store=StorePolicy(enabled=False))) as accel,
        OpenAI(base_url=f"{server.url}/v1", api_key="any") as bare,
    ):
        # At OpenAI's own address the platform is known; this server is a stranger and has to be named.
        client = accel.wrap(bare, platform="api") if accelerated else bare
        for question in QUESTIONS:
            client.chat.completions.create(model="gpt-6.1-sol", messages=[RULES, {"role": "user", "content": question}])
        total = server.counters.total
    return total.uncached + 0.05 * total.read + 1.25 * total.write_30m


bare, ours = cost(accelerated=False), cost(accelerated=True)
print(f"bare {bare:,.0f}, with agentaccel {ours:,.0f}")
assert ours < 0.4 * bare

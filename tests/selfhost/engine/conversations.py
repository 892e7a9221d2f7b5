"""Conversations that a small model really held, some of which repeat themselves and some do not: made by a script.

python -m tests.selfhost.engine.conversations http://127.0.0.1:8131 runs.jsonl 40
"""

from __future__ import annotations

import json
import random
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import openai

WORDS = (
    *("river", "stone", "lamp", "garden", "copper", "window", "silver", "mountain", "paper", "engine", "bridge"),
    *("forest", "candle", "harbor", "winter", "orchard", "signal", "valley", "basket", "ribbon", "kettle", "market"),
)
SITES = ("repeating", "mixed", "fresh")
"""The same list again and again; stories, which this model soon goes round in circles with; sampled answers."""
TURNS = 4
"""Of one conversation."""
TOKENS = 48
"""Of a reply, at most."""


def asked(site: str, turn: int, rng: random.Random) -> tuple[str, float]:
    """What is asked in a turn of a conversation, and at which temperature."""
    one, two = rng.choice(WORDS), rng.choice(WORDS)
    if site == "repeating":
        lines = "\n".join(f"- the {rng.choice(WORDS)} is behind the {rng.choice(WORDS)}" for _ in range(6))
        return (f"Repeat this list, and nothing else:\n{lines}" if turn == 0 else "Repeat the same list again."), 0.0
    if site == "mixed":
        return f"Write a short story about the {one} and the {two}.", 0.0
    return f"Tell me something surprising about a {one} {two}.", 1.0


def conversations(client: openai.OpenAI, site: str, turns: int, seed: int = 1) -> Iterator[dict[str, Any]]:
    """So many turns at one site, as conversations in the normalised form of agent runs."""
    rng = random.Random(f"{site} {seed}")
    for number in range(-(-turns // TURNS)):
        messages: list[dict[str, Any]] = []
        for turn in range(min(TURNS, turns - number * TURNS)):
            question, temperature = asked(site, turn, rng)
            messages.append({"role": "user", "content": question})
            reply = client.chat.completions.create(
                model="any",
                messages=messages,  # type: ignore[arg-type]
                max_tokens=TOKENS,
                temperature=temperature,
                seed=rng.randrange(10**6),
            )
            messages.append({"role": "assistant", "content": reply.choices[0].message.content})
        yield {"id": f"{site}-{number}", "domain": site, "messages": messages}


def main(url: str, into: str, turns: str) -> None:
    """Hold so many turns, shared out among the sites, and write the conversations into a file."""
    with openai.OpenAI(base_url=f"{url}/v1", api_key="none") as client:
        found = [one for site in SITES for one in conversations(client, site, -(-int(turns) // len(SITES)))]
    Path(into).write_text("\n".join(map(json.dumps, found)), encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])

"""Our suffix tree and that of arctic-inference on one text: run by a Python that has that library.

Prints, for each setting, tokens a step and tokens drafted of both, as JSON.
"""

from __future__ import annotations

import json
import random

from agentaccel.selfhost.arctic import arctic_suffix
from agentaccel.selfhost.draft_replay import Passage, Talk, replayed
from agentaccel.selfhost.drafters import Drafter, SuffixLookup

SETTINGS = ((16, 24, 1.0, 0.1), (16, 24, 0.5, 0.5), (8, 64, 2.0, 0.3))


def talks(seed: int) -> list[Talk]:
    """Text of phrases, of which some come again and some do not; replies copy from prompts and from earlier replies."""
    rng = random.Random(seed)
    phrases = [[rng.randrange(500) for _ in range(rng.randint(2, 14))] for _ in range(60)]

    def text(length: int) -> list[int]:
        found: list[int] = []
        while len(found) < length:
            found += rng.choice(phrases) if rng.random() < 0.8 else [rng.randrange(500, 5000)]
        return found

    def talk() -> Talk:
        parts = [(text(200), text(80)) for _ in range(3)]
        return Talk(
            site="", passages=tuple(p for asked, said in parts for p in (Passage(asked), Passage(said, said=True)))
        )

    return [talk() for _ in range(12)]


def figures(drafter: Drafter) -> tuple[float, int]:
    found = replayed(drafter, talks(7))[""]
    return found.tokens_per_step, found.drafted


def main() -> None:
    compared = []
    for tokens, depth, factor, least in SETTINGS:
        theirs = arctic_suffix(tokens=tokens, depth=depth, factor=factor, least_likely=least)
        assert theirs is not None
        compared.append((figures(theirs), figures(SuffixLookup(tokens, depth, factor, least))))
    print(json.dumps(compared))


if __name__ == "__main__":
    main()

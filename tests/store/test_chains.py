"""Prompts in the store: whatever a session does to its history, each turn's chains spell its prompt."""

from __future__ import annotations

import random
import sqlite3
from pathlib import Path

import pytest

from agentaccel.facts import cache_facts
from agentaccel.store.store import open_reader
from agentaccel.wire.anthropic import decode
from tests.driver import MODEL, Driver, Json, assistant, body, prose, tool, user


def stored(path: Path) -> list[list[bytes]]:
    """The digests of each turn's segments, oldest first."""
    with sqlite3.connect(path) as connection:
        ends = connection.execute("SELECT tools, system, messages FROM turns ORDER BY id").fetchall()
    connection.close()
    with open_reader(path) as reader:
        return [[s.digest for end in row if end for s in reader.chain_to(end)] for row in ends]


@pytest.mark.parametrize("seed", range(6))
def test_each_turn_can_be_read_back_after_any_edits(seed: int, tmp_path: Path) -> None:
    chance = random.Random(seed)
    driver = Driver(tmp_path)
    tools = [tool("a", 20), tool("b", 20)]
    histories = [[user(f"{seed} {n}")] for n in range(2)]
    sent: list[Json] = []
    for turn in range(25):
        messages = histories[chance.randrange(2)]
        match chance.randrange(6):
            case 0 if len(messages) > 2:
                del messages[-2:]
            case 1:
                messages[chance.randrange(len(messages)) // 2 * 2] = user(f"edited {turn}")
            case 2:
                chance.shuffle(tools)
            case _:
                messages += [assistant(f"answer {turn}"), user(prose(5, turn))]
        system = f"Turn {turn}" if chance.random() < 0.3 else "Be brief."
        sent.append(body(*messages, system=system, tools=list(tools)))
        driver.ask(sent[-1])
    driver.accel.close()
    key = (tmp_path / "trace.db.key").read_bytes()
    facts = cache_facts(MODEL)
    assert stored(tmp_path / "trace.db") == [[s.digest for s in decode(one, facts, key=key).segments] for one in sent]

"""What turns teach: added up in the store as it is in memory, so that replays and live sessions believe alike."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from agentaccel.cache.beliefs import ALIVE, GROWS, Beliefs, Observation
from agentaccel.store.learned import believed, learn
from agentaccel.store.migrations import migrate

counts = st.floats(0, 1e9) | st.sampled_from([0.0, 1.0, 39.5, 40.0, 41.0])
observations = st.builds(
    Observation, st.sampled_from(["goes_on/0", "bytes/m", ALIVE, GROWS, "pause/tool:\ud800/300"]), counts, counts
)


@given(st.lists(st.lists(observations, max_size=8), max_size=6))
def test_the_store_adds_up_what_is_learned_as_beliefs_do(turns: list[list[Observation]]) -> None:
    """Chosen by us: in one statement, so the two sums must be one; the same to the last bit."""
    connection = sqlite3.connect(":memory:", isolation_level=None)
    migrate(connection, Path("t.db"))
    expected = Beliefs()
    for seen in turns:
        learn(connection, "w", seen)
        learn(connection, "another", seen[:1])
        expected = expected.learned([one._replace(topic=one.topic.replace("\ud800", "\\ud800")) for one in seen])
    assert dict(believed(connection, "w", 0.0, tools=True).counts) == dict(expected.counts)
    connection.close()

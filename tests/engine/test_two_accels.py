"""Two `Accel`s in one process: what is opened in one is nobody's business in the other."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anthropic
import pytest

from agentaccel import Accel, Policy, StorePolicy
from agentaccel.store.store import open_reader
from agentaccel_emulator import RunningServer, serve
from tests.driver import MODEL, prose, user


class Side:
    """One of them, with a client, a tool and a store of its own."""

    def __init__(self, path: Path, server: RunningServer) -> None:
        self.path = path
        self.accel = Accel(Policy(strict=True, store=StorePolicy(path=path)), clock=server.clock)
        self.client = self.accel.wrap(anthropic.Anthropic(base_url=server.url, api_key="k"))
        self.tool = self.accel.tools({"look": lambda key: key})["look"]

    def work(self) -> None:
        self.client.messages.create(model=MODEL, max_tokens=9, system=prose(2000), messages=[user("hi")])
        self.tool("a")

    @property
    def seen(self) -> list[tuple[str, str | None]]:
        """Sessions and tenants of what was recorded, names of our own as a dash."""
        self.accel.close()
        with open_reader(self.path) as store:
            records: list[Any] = [*store.turns(), *store.tools()]
        return [("-" if one.session.startswith("s-") else one.session, one.tenant) for one in records]


@pytest.fixture
def sides(tmp_path: Path) -> Iterator[tuple[Side, Side]]:
    with serve(script=lambda asked: "ok") as server:
        made = Side(tmp_path / "one.db", server), Side(tmp_path / "other.db", server)
        yield made
        for side in made:
            side.client.close()
            side.accel.close()


def test_a_session_of_one_is_none_of_the_other(sides: tuple[Side, Side]) -> None:
    """Neither its name nor its tenant is written into the other's store, and what is held is kept apart."""
    one, other = sides
    with one.accel.session("ours", tenant="acme"):
        one.work()
        other.work()
    assert one.seen == [("@acme/ours", "acme")] * 2
    assert other.seen == [("-", None), ("", None)]


def test_inside_of_both_each_has_its_own(sides: tuple[Side, Side]) -> None:
    """Whichever was opened last."""
    one, other = sides
    with one.accel.session("ours"), other.accel.session("theirs"), one.accel.session("inner") as inner:
        one.work()
        other.work()
    assert inner.parent == "ours"
    assert one.seen == [("inner", None)] * 2
    assert other.seen == [("theirs", None)] * 2

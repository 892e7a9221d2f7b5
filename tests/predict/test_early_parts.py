"""The pure parts of early results: identities, write epochs, the buffer, the order of a message."""

from __future__ import annotations

import os
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentaccel.errors import ConfigError
from agentaccel.predict.identity import Key, Principal, arguments_key
from agentaccel.predict.order import Order, OrderedCall
from agentaccel.predict.stats import SpeculationStats
from agentaccel.tools.early import EarlyRun, EarlyRuns, EarlyRunState
from agentaccel.tools.epochs import WriteEpochs
from agentaccel.types import ToolCall
from agentaccel.validators import file_stat, file_state, git_head, version_of
from tests.anything import CHARACTERS

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(CHARACTERS),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(CHARACTERS), inner, max_size=3),
    max_leaves=8,
)
objects = st.dictionaries(st.text(CHARACTERS), json_values, max_size=4)


def same(one: Any, other: Any) -> bool:
    """Equal, and of equal types all through."""
    if type(one) is not type(other):
        return False
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same(one[name], other[name]) for name in one)
    if isinstance(one, list):
        return len(one) == len(other) and all(map(same, one, other))
    return bool(one == other) and str(one) == str(other)


@given(objects, objects)
def test_two_calls_have_one_key_exactly_when_no_function_can_tell_them_apart(one: Any, other: Any) -> None:
    assert (arguments_key(one, {}) == arguments_key(other, {})) == same(one, other)
    shuffled = dict(reversed(list(one.items())))
    assert arguments_key(shuffled, {}) == arguments_key(one, {})


@pytest.mark.parametrize(
    "value", [date(2026, 1, 1), (1, 2), float("nan"), float("inf"), {1: 2}, object(), {"a": b""}, {1}]
)
def test_what_json_cannot_say_has_no_key(value: Any) -> None:
    assert arguments_key({"a": value}, {}) is None


class TestWorld:
    """Write epochs."""

    def test_a_read_begun_while_a_write_runs_is_dead_once_that_ends(self) -> None:
        world = WriteEpochs()
        write = world.begins(None)
        during = world.version(None)
        assert not world.holds(during, None)
        world.ends(write)
        assert not world.holds(during, None)
        assert world.holds(world.version(None), None)

    @pytest.mark.parametrize(
        ("wrote", "kills"), [(None, {None, "files", "mails"}), ("files", {None, "files"}), ("other", {None})]
    )
    def test_a_write_kills_what_could_see_it(self, wrote: str | None, kills: set[str | None]) -> None:
        world = WriteEpochs()
        before = {scope: world.version(scope) for scope in (None, "files", "mails")}
        write = world.begins(wrote)
        assert {scope for scope in before if world.closed(scope)} == kills
        world.ends(write)
        assert {scope for scope, version in before.items() if not world.holds(version, scope)} == kills

    @pytest.mark.parametrize("ended", [False, True])
    def test_what_turns_out_to_read_leaves_all_as_it_was(self, ended: bool) -> None:
        world = WriteEpochs()
        before = world.version(None)
        call = world.suspect(None)
        assert not world.holds(before, None)
        world.resolve(call, ended=ended, writes=False)
        assert world.holds(before, None)

    def test_what_turns_out_to_write_stays_closed_until_it_ends(self) -> None:
        world = WriteEpochs()
        call = world.suspect("files")
        world.resolve(call, ended=False, writes=True)
        during = world.version("files")
        assert world.closed("files")
        world.ends(call)
        assert not world.holds(during, "files")
        assert not world.closed("files")


def entry(world: WriteEpochs, name: str = "look", session: str = "s", at: float = 0.0) -> EarlyRun:
    return EarlyRun(
        key=Key(name, b"{}", Principal(None, session), 0),
        call=ToolCall(name=name, arguments={}),
        tier="predicted",
        scope=None,
        version=world.version(None),
        born=at,
        max_age=100.0,
        ledger=SpeculationStats(),
    )


class TestBuffer:
    """Where results wait."""

    def test_every_entry_ends_in_one_state_and_is_told_of_once(self) -> None:
        world = WriteEpochs()
        buffer, told = EarlyRuns(world), list[EarlyRunState]()
        for number, end in enumerate(("served", "stale", "failed", "unused")):
            one = entry(world, name=f"t{number}")
            one.on_end = lambda it: told.append(it.state)
            buffer.put(one)
            if end == "failed":
                buffer.failed(one, 1.0)
            else:
                assert buffer.finished(one, "x", 1.0)
            if end == "served":
                assert buffer.claim(one.key, 2.0) is one
                assert buffer.serve(one, 2.0, waited=0.0, joined=False)
            if end == "stale":
                world.ends(world.begins(None))
                assert buffer.claim(one.key, 2.0) is None
            if end == "unused":
                assert buffer.leave("s") == [one]
            assert one.state.value == end
            assert getattr(one.tally, end) == 1
        assert [one.value for one in told] == ["served", "stale", "failed", "unused"]
        assert len(buffer) == 0

    def test_a_run_that_ends_after_its_entry_is_wasted_time_and_told_of_then(self) -> None:
        world = WriteEpochs()
        buffer, told = EarlyRuns(world), list[float]()
        one = entry(world)
        one.on_end = lambda it: told.append(it.seconds)
        buffer.put(one)
        buffer.leave("s")
        assert not told
        assert not buffer.finished(one, "x", 7.0)
        assert (told, one.tally.wasted, one.tally.unused) == ([7.0], 7.0, 1)

    def test_the_oldest_makes_room(self) -> None:
        world = WriteEpochs()
        buffer = EarlyRuns(world, most=2)
        first, second, third = (entry(world, name=name) for name in "abc")
        assert buffer.put(first) is None
        assert buffer.put(second) is None
        assert buffer.put(third) is first
        assert (first.state, len(buffer)) == (EarlyRunState.UNUSED, 2)

    def test_what_closes_the_world_for_a_moment_takes_nothing_away(self) -> None:
        world = WriteEpochs()
        buffer, one = EarlyRuns(world), entry(world)
        buffer.put(one)
        buffer.finished(one, "x", 1.0)
        call = world.suspect(None)
        assert buffer.claim(one.key, 2.0) is None
        world.resolve(call, ended=True, writes=False)
        assert buffer.claim(one.key, 2.0) is one

    def test_a_sweep_takes_out_what_is_stale_or_too_old(self) -> None:
        world = WriteEpochs()
        buffer, old, new = EarlyRuns(world), entry(world, "old"), entry(world, "new", at=60.0)
        buffer.put(old)
        buffer.put(new)
        assert buffer.sweep(120.0) == [old]
        world.ends(world.begins(None))
        assert buffer.sweep(120.0) == [new]


@given(st.lists(st.tuples(st.sampled_from("ab"), st.booleans()), max_size=8))
def test_reads_begin_in_order_and_never_before_a_write_that_stands_before_them(calls: list[tuple[str, bool]]) -> None:
    order, begun = Order(), list[int]()
    placed = [
        OrderedCall(ToolCall(name=name, arguments={}, id=str(i)), b"", reads) for i, (name, reads) in enumerate(calls)
    ]
    for one in placed:
        begun += [int(it.call.id or 0) for it in order.closed(one)]
    first = next((i for i, one in enumerate(placed) if not one.reads), len(placed))
    assert begun == list(range(first))
    for i, one in enumerate(placed):
        if not one.reads:
            begun += [int(it.call.id or 0) for it in order.done(one.call.name, b"")]
            nxt = next((j for j in range(i + 1, len(placed)) if not placed[j].reads), len(placed))
            assert begun == [j for j in range(nxt) if placed[j].reads]


def test_a_validator_of_files_names_the_arguments_that_hold_paths() -> None:
    """One that looks at nothing would let any change pass."""
    with pytest.raises(ConfigError, match=r"file_stat\('path'\)"):
        file_stat()


def test_a_validator_of_files_shows_every_change(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    validator, arguments = file_stat("path"), {"path": str(path)}
    seen = [version_of(validator, arguments)]
    for text in ("one", "three"):
        path.write_text(text)
        seen.append(version_of(validator, arguments))
    path.unlink()
    assert len(set(map(str, seen))) == 3
    assert version_of(validator, arguments) == seen[0]
    assert version_of(validator, {}) != version_of(validator, {}), "one that fails is never equal"


@pytest.mark.skipif(os.name == "nt", reason="no time of the entry there")
def test_a_validator_of_files_shows_a_change_whose_time_was_set_back(tmp_path: Path) -> None:
    """As `rsync -t --inplace` and `tar` do."""
    path = tmp_path / "a.txt"
    path.write_text("v1")
    stat, seen = path.stat(), file_state(path)
    while path.stat().st_ctime_ns == stat.st_ctime_ns:  # until the clock of the file system has ticked
        path.write_text("v2")
        os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    assert path.stat().st_mtime_ns == stat.st_mtime_ns
    assert file_state(path) != seen


def test_a_validator_of_a_repository_shows_a_commit_and_another_branch(tmp_path: Path) -> None:
    git = tmp_path / ".git"
    (git / "refs" / "heads").mkdir(parents=True)
    (git / "HEAD").write_text("ref: refs/heads/main\n")
    (git / "refs" / "heads" / "main").write_text("a" * 40)
    validator = git_head(tmp_path)
    first = version_of(validator, {})
    (git / "refs" / "heads" / "main").write_text("b" * 41)
    second = version_of(validator, {})
    (git / "HEAD").write_text("ref: refs/heads/other\n")
    assert first == first
    assert len({str(first), str(second), str(version_of(validator, {}))}) == 3

"""Observed, bypassed, held out or off: at every place, bytes out and bytes in are those of the bare client."""

from __future__ import annotations

import datetime
import math
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from agentaccel_emulator import Fault
from tests.clients.places import PLACES, Line
from tests.clients.wire import an_accel, records, wire_of

pytestmark = pytest.mark.many(8)

MODES = ("observe", "bypass", "holdout", "off")
BOTH = pytest.mark.parametrize("streamed", [False, True], ids=["json", "stream"])
EVERYWHERE = pytest.mark.parametrize("name", PLACES)


@pytest.fixture(autouse=True)
def _one_moment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Requests to AWS are signed with the time of day."""
    now = datetime.datetime(2026, 11, 1, 12, 0, 0)
    monkeypatch.setattr("botocore.auth.get_current_datetime", lambda: now)


def in_mode(folder: Path, mode: str) -> tuple[Any, Any]:
    """An `Accel`, and the context in which its clients are called."""
    if mode == "holdout":
        return an_accel(folder, holdout=math.nextafter(1, 0)), nullcontext()
    accel = an_accel(folder, mode="on" if mode == "bypass" else mode)
    return accel, accel.bypass() if mode == "bypass" else nullcontext()


def read(place: Any, client: Any, streamed: bool) -> list[bytes]:
    """The raw pieces of the reply, as they reach a reader of bytes."""
    more = {"stream": True} if streamed else {}
    with place.calls(client).with_streaming_response.create(**place.ask, **more) as reply:
        return list(reply.http_response.iter_raw())


async def read_async(place: Any, client: Any, streamed: bool) -> list[bytes]:
    more = {"stream": True} if streamed else {}
    async with place.calls(client).with_streaming_response.create(**place.ask, **more) as reply:
        return [piece async for piece in reply.http_response.aiter_raw()]


def check_record(folder: Path, mode: str) -> None:
    if mode == "off":
        assert not (folder / "trace.db").exists()
        return
    [turn] = records(folder)
    assert (turn.mode, turn.outcome, turn.calls) == (mode, "ok", ("search",))


@BOTH
@EVERYWHERE
@pytest.mark.parametrize("mode", MODES)
def test_a_sync_call_that_is_not_to_be_changed_is_the_bare_clients(
    tmp_path: Path, name: str, mode: str, streamed: bool
) -> None:
    """Chosen by us, and promised: URL, headers and body of the request, and the reply in its pieces."""
    place = PLACES[name]
    bare, ours = Line(place), Line(place)
    accel, context = in_mode(tmp_path, mode)
    with context:
        found = read(place, place.wrapped(accel)(ours.client()), streamed)
    assert found == read(place, bare.client(), streamed)
    assert found[0]
    assert [wire_of(one) for one in ours.requests] == [wire_of(one) for one in bare.requests]
    check_record(tmp_path, mode)


@BOTH
@EVERYWHERE
@pytest.mark.parametrize("mode", MODES)
async def test_an_async_call_that_is_not_to_be_changed_is_the_bare_clients(
    tmp_path: Path, name: str, mode: str, streamed: bool
) -> None:
    """Chosen by us, as above."""
    place = PLACES[name]
    bare, ours = Line(place), Line(place)
    accel, context = in_mode(tmp_path, mode)
    with context:
        found = await read_async(place, place.wrapped(accel)(ours.async_client()), streamed)
    assert found == await read_async(place, bare.async_client(), streamed)
    assert [wire_of(one) for one in ours.requests] == [wire_of(one) for one in bare.requests]
    check_record(tmp_path, mode)


@EVERYWHERE
def test_a_refusal_that_is_observed_is_the_bare_clients(tmp_path: Path, name: str) -> None:
    """Chosen by us, as above: the bytes of an error are the caller's too, and its name is recorded."""
    place, pieces = PLACES[name], []
    for wrap in (lambda bare: bare, place.wrapped(an_accel(tmp_path, mode="observe"))):
        line = Line(place)
        line.emulator.use_faults([Fault(kind="429")])
        client: Any = wrap(line.client())
        with pytest.raises(Exception, match="429") as caught:
            place.calls(client).create(**place.ask, stream=True)
        pieces.append((caught.value.response.content, str(caught.value)))  # type: ignore[attr-defined]
    assert pieces[0] == pieces[1]
    [turn] = records(tmp_path)
    assert (turn.outcome, turn.status) == ("failed", 429)


def test_the_identity_check_bites(tmp_path: Path) -> None:
    """The twin: with the plan applied, the same comparison fails wherever there is something to plan."""
    changed = set()
    for name, place in PLACES.items():
        bare, ours = Line(place), Line(place)
        read(place, place.wrapped(an_accel(tmp_path / name))(ours.client()), True)
        read(place, bare.client(), True)
        if [wire_of(one) for one in ours.requests] != [wire_of(one) for one in bare.requests]:
            changed.add(name)
    assert changed == set(PLACES) - {"azure chat", "azure responses", "old responses", "server"}

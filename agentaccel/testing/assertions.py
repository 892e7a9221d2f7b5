"""The assertions of the test kit."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import pairwise
from pathlib import Path
from typing import TypeAlias

import orjson

from agentaccel.accel import Accel
from agentaccel.clients.endpoint import endpoint_of
from agentaccel.clock import ManualClock
from agentaccel.errors import TraceError
from agentaccel.facts import CacheFacts, cache_facts, platforms
from agentaccel.hooks import Told
from agentaccel.policy import Policy, StorePolicy
from agentaccel.records import TurnRecord
from agentaccel.report import report
from agentaccel.report.gate import Demands, baseline_of, judge
from agentaccel.rewrite.drift import compare, text_of
from agentaccel.store.files import read_bytes
from agentaccel.store.store import open_reader
from agentaccel.turn import Finished, FirstByte, Reported, Started
from agentaccel.types import Drift, Endpoint, Prompt, Request, Usage, agreeing, show_path, value_at
from agentaccel.wire import dialect
from agentaccel_emulator import Emulator, LogEntry, RunningServer

# --- What a suite's agent has done, wherever it is told: requests as they were sent, and records of what came of them -

Subject: TypeAlias = Emulator | RunningServer | Accel | Path | str | Iterable[TurnRecord]
"""What can be asserted of: an emulator, what an `Accel` has recorded, a trace store by its path, or records."""


Conversation: TypeAlias = Callable[[Request], object]
"""Tells which conversation a request belongs to."""


def records_of(subject: Subject, conversation: Conversation | None = None) -> list[TurnRecord]:
    """The requests that `subject` tells of. Raises `TraceError` for a store that cannot be read.

    Those of an emulator are of one conversation, unless `conversation` tells them apart; others know their session.
    """
    if isinstance(subject, Emulator | RunningServer):
        return _observed(answered(subject), conversation or (lambda request: None), platform_of(subject))
    if isinstance(subject, Accel):
        store = subject.policy.store
        assert store.enabled, "this Accel keeps no trace store: give it StorePolicy(path=…)"
        return _stored(None if store.path is None else Path(store.path).expanduser())
    if isinstance(subject, Path | str):
        return _stored(Path(subject))
    return list(subject)


def _stored(path: Path | None) -> list[TurnRecord]:
    with open_reader(path) as store:
        turns = list(store.turns())
        if store.skipped:
            raise TraceError(f"{store.path} is damaged: {store.skipped:,} of its rows cannot be read")
        return turns


def answered(emulator: Emulator | RunningServer) -> list[LogEntry]:
    """The model calls that it answered, in the order in which they were sent."""
    return [entry for entry in emulator.log if entry.usage is not None and entry.request is not None]


class _Heard:
    """Collects records as they end."""

    def __init__(self) -> None:
        self.records: list[TurnRecord] = []

    def begins(self, at: float, tool: str | None) -> object:
        return None

    def ended(self, began: object, told: Told | None) -> None:
        if told is not None and isinstance(told.record, TurnRecord):
            self.records.append(told.record)


def platform_of(subject: object) -> str | None:
    """The platform whose rules an emulator has, where no model's name tells it; None where it does."""
    core = subject.emulator if isinstance(subject, RunningServer) else subject
    return core.platform if isinstance(core, Emulator) and core.platform in platforms("compatible") else None


def _observed(entries: list[LogEntry], conversation: Conversation, platform: str | None) -> list[TurnRecord]:
    """What an `Accel` that changes nothing would have recorded of these calls."""
    if not entries:
        return []
    heard, clock = _Heard(), ManualClock(now=entries[0].at)
    policy = Policy(mode="observe", strict=True, store=StorePolicy(enabled=False))
    with Accel(policy, clock=clock, environ={}) as accel:
        accel.add_hook(heard)
        for entry, after in pairwise([*entries, None]):
            assert entry is not None
            assert entry.request is not None
            with accel.session(f"conversation {conversation(entry.request)!r}"):
                turn = accel.turn(entry.request, platform=platform)
                for event in (
                    Started(entry.at),
                    FirstByte(entry.at + entry.first_byte),
                    Reported(usage=_usage(entry)),
                    Finished(entry.at + entry.seconds),
                ):
                    turn.handle(event)
            if after is not None:
                clock.advance(max(0.0, after.at - clock.wall()))
    return heard.records


def _usage(entry: LogEntry) -> Usage:
    used = entry.usage
    assert used is not None
    labels = {"5m": used.write_5m, "1h": used.write_1h, "30m": used.write_30m, "12h": used.write_12h}
    write = {label: tokens for label, tokens in labels.items() if tokens}
    return Usage(input=used.input, read=used.read, write=write, output=used.output)


def requests_of(subject: Emulator | RunningServer | Iterable[Request]) -> list[Request]:
    """The requests as they were sent; of an emulator, those that it answered."""
    if isinstance(subject, Emulator | RunningServer):
        return [entry.request for entry in answered(subject) if entry.request is not None]
    return list(subject)


AROUND = 24
"""Characters shown on each side of the first difference."""


def assert_prefix_stable(
    requests: Emulator | RunningServer | Iterable[Request],
    *,
    model: str | None = None,
    conversation: Conversation | None = None,
) -> None:
    """Assert that each request of a conversation begins with the whole prompt of the one before it.

    Of an emulator: of all requests that it answered. They are taken for one conversation, unless `conversation` tells
    which one a request belongs to. One that goes on from a history that the provider holds (`previous_response_id`) is
    not compared. `model` names a known model where the requests use a name of your own. Raises AssertionError with the
    place, the likely cause and both texts of the first change, and where there is no request: an agent that asked
    nobody is not stable.

    >>> ask = {"role": "user", "content": "Hi."}
    >>> assert_prefix_stable([
    ...     {"model": "claude-sonnet-5", "system": "It is 12:00.", "messages": [ask]},
    ...     {"model": "claude-sonnet-5", "system": "It is 12:01.", "messages": [ask, ask]},
    ... ])
    Traceback (most recent call last):
        ...
    AssertionError: request 1 leaves request 0 at system, byte 10: clock
      before: 'It is 12:00.'
      now:    'It is 12:01.'
    """
    platform = platform_of(requests)
    talks: dict[object, list[tuple[int, Request]]] = {}
    for number, request in enumerate(requests_of(requests)):
        talks.setdefault(conversation(request) if conversation is not None else None, []).append((number, request))
    assert talks, "there is no request"
    for talk in talks.values():
        for (before, old), (number, new) in pairwise(talk):
            change = _change(old, new, model, platform)
            if change is not None:
                raise AssertionError(f"request {number} leaves request {before} at {change}")


def _change(old: Request, new: Request, model: str | None, platform: str | None) -> str | None:
    """Where `new` leaves `old`, why, and both texts; None where it only goes on."""
    name = model or str(new.get("model", ""))
    assert name, "the request names no model: pass model=… to name a known one"
    endpoint = endpoint_of({**new, "model": name}, None, None if model else platform)
    facts = cache_facts(name, provider=endpoint.provider, platform=endpoint.platform, wire=endpoint.wire)
    assert facts is not None, f"no cache facts for model {new.get('model')!r}: pass model=… to name a known one"
    before, now = (_decoded(request, facts, endpoint) for request in (old, new))
    if now.held:
        return None
    found = compare(old, new, before, now, facts)
    return None if found is None else _told(found, (old, new), (before, now))


def _decoded(request: Request, facts: CacheFacts, endpoint: Endpoint) -> Prompt:
    return dialect(endpoint.wire).decode(request, facts, place=(endpoint.provider, endpoint.platform))


def _told(found: Drift, requests: tuple[Request, Request], prompts: tuple[Prompt, Prompt]) -> str:
    if found.level == "parameters":
        texts = [repr(request.get(found.where)) for request in requests]
        return f"{found.where}: {found.likely}\n  before: {texts[0]}\n  now:    {texts[1]}"
    i = agreeing(prompts[0].segments, prompts[1].segments)
    paths = [prompt.segments[i].path if i < len(prompt.segments) else None for prompt in prompts]
    where = found.where
    if where == "tools":  # the list as a whole: where it first differs
        where = next((show_path(path) for path in reversed(paths) if path and path[0] == "tools"), where)
    place = where if found.byte is None else f"{where}, byte {found.byte}"
    texts = [
        "" if path is None else text_of(value_at(request, path)).decode("utf-8", "replace")
        for request, path in zip(requests, paths, strict=True)
    ]
    detail = f" ({found.detail})" if found.where == "tools" else ""
    before, now = _excerpts(*texts)
    return f"{place}: {found.likely}{detail}\n  before: {before}\n  now:    {now}"


def _excerpts(before: str, now: str) -> tuple[str, str]:
    """Both texts around their first difference, as short strings.

    >>> _excerpts("It is 12:00.", "It is 12:01.")
    ("'It is 12:00.'", "'It is 12:01.'")
    """
    same = next((i for i, (a, b) in enumerate(zip(before, now, strict=False)) if a != b), min(len(before), len(now)))
    begin = max(0, same - AROUND)

    def shown(text: str) -> str:
        if not text:
            return "nothing"
        cut = text[begin : same + AROUND]
        return f"{'…' if begin else ''}{cut!r}{'…' if same + AROUND < len(text) else ''}"

    return shown(before), shown(now)


def assert_hit_rate(subject: Subject, at_least: float) -> None:
    """Assert that cache reads over all input tokens reach `at_least` (0 to 1), failed requests left out.

    `subject` is an emulator, an `Accel` with a trace store, the path of one, or records. Raises AssertionError with the
    rate, and where nothing was reported: silence is no hit.
    """
    [judged] = judge(report(records_of(subject), "agent"), Demands(hit_rate=at_least))
    assert judged.outcome == "holds", judged.why


def assert_no_new_cause(subject: Subject, baseline: Path | str, *, conversation: Conversation | None = None) -> None:
    """Assert that no agent missed tokens for a cause that it did not have in a report as JSON, at `baseline`.

    `subject` is as in `assert_hit_rate`. Of an emulator, the causes are told from its requests and bills, the agent has
    no name, and `conversation` is as in `assert_prefix_stable`. Raises AssertionError with the new causes, and where
    nothing was reported; TraceError where there is no such report.
    """
    try:
        before = baseline_of(orjson.loads(read_bytes(Path(baseline))))
    except OSError as error:
        raise TraceError(f"{baseline} cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise TraceError(f"{baseline} is not JSON: {error}") from error
    [judged] = judge(report(records_of(subject, conversation), "agent"), Demands(baseline=before))
    assert judged.outcome == "holds", judged.why

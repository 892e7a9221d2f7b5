"""Whatever class an SDK gives back, a wrapped client gives what the bare one does: in every mode, sync and async, for
every supported version, and with the SDK's own retries and errors."""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import inspect
import itertools
import json
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from agentaccel import Accel, Policy, StorePolicy
from agentaccel.store.store import open_reader
from tests.legs.answers import (
    BYTES,
    CLAUDE,
    CLAUDE_SAYS,
    CLAUDE_STREAMS,
    EVENTS,
    GPT,
    GPT_SAYS,
    GPT_STREAMS,
    LINES,
    STREAMED,
    TYPED,
    TYPED_SAYS,
    TYPED_STREAMS,
)
from tests.legs.looking import FORMS, Seen, around_replies, driven, filled, found, methods, outcome, readers
from tests.legs.loopback import Far, Sent, far_side

anthropic = pytest.importorskip("anthropic")
openai = pytest.importorskip("openai")

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of what an SDK is about to drop

SDKS = {"Anthropic": anthropic, "AsyncAnthropic": anthropic, "OpenAI": openai, "AsyncOpenAI": openai}
EVERY_CLIENT = pytest.mark.parametrize("kind", SDKS)
MODES = {
    "off": ({"mode": "off"}, {}),
    "disabled": ({"mode": "on"}, {"AGENTACCEL_DISABLE": "1"}),
    "observe": ({"mode": "observe", "strict": False}, {}),
    "on": ({"mode": "on", "strict": False}, {}),
    "strict": ({"mode": "on", "strict": True}, {}),
}
RETRIES = 1
REFUSALS = (0, 1, RETRIES + 1)
"""How often a request is refused before it succeeds: never, once, and as often as it is tried."""


class Case(NamedTuple):
    """A call, and what the server answers."""

    method: str
    given: dict[str, Any]
    answer: tuple[str, list[bytes]]


MODEL_CALLS: dict[Any, list[Case]] = {
    anthropic: [
        *(Case(name, CLAUDE, CLAUDE_SAYS) for name in ("messages.create", "beta.messages.create")),
        *(Case(name, CLAUDE | STREAMED, CLAUDE_STREAMS) for name in ("messages.create", "beta.messages.create")),
        Case("messages.count_tokens", {"model": "m", "messages": []}, ("application/json", [b'{"input_tokens": 3}'])),
    ],
    openai: [
        Case("chat.completions.create", GPT, GPT_SAYS),
        Case("chat.completions.create", {**GPT, **STREAMED, "stream_options": {"include_usage": True}}, GPT_STREAMS),
        Case("responses.create", TYPED, TYPED_SAYS),
        Case("responses.create", TYPED | STREAMED, TYPED_STREAMS),
    ],
}


@pytest.fixture(scope="module")
def far() -> Iterator[Far]:
    with far_side() as one:
        # What the SDK asks for before it asks for the lines of a batch.
        told = {"id": "x", "results_url": f"{one.url}/v1/messages/batches/x/results"}
        one.elsewhere["/v1/messages/batches/x"] = json.dumps(told).encode()
        yield one


class Pair:
    """A bare client and a wrapped one, in front of the same server."""

    def __init__(self, kind: str, far: Far, folder: Path, mode: str) -> None:
        policy, environ = MODES[mode]
        self.far, self.store = far, folder / "trace.db"
        self.accel = Accel(Policy(**policy, store=StorePolicy(path=self.store)), environ=environ)
        self.bare = getattr(SDKS[kind], kind)(base_url=far.url, api_key="k", max_retries=RETRIES)
        # Unnamed, it would be asked for its models, as servers on this machine are, and the bare client asks for none.
        named = {"platform": "server" if SDKS[kind] is openai else "api"}
        self.wrapped = self.accel.wrap(self.bare, **named)
        self.drive = asyncio.Runner().run if kind.startswith("Async") else driven

    def close(self) -> None:
        self.drive(self._close())
        if isinstance(runner := getattr(self.drive, "__self__", None), asyncio.Runner):
            runner.close()
        self.accel.close()

    async def _close(self) -> None:
        closed = self.bare.close()
        if inspect.isawaitable(closed):
            await closed

    def both(
        self, case: Case, form: str, *, refusals: int = 0, reader: str | None = None
    ) -> list[tuple[Seen, list[Sent]]]:
        """What the bare client gives and sends, and what the wrapped one does."""
        seen = []
        for client in (self.bare, self.wrapped):
            self.far.begin(*case.answer, refusals=refusals)
            came = self.drive(outcome(client, case.method, form, case.given, reader))
            seen.append((came, [_without_keys(sent) for sent in self.far.sent]))
        return seen


def _records(folder: Path) -> list[Any]:
    with open_reader(folder / "trace.db") as store:
        return list(store.turns())


def _without_keys(sent: Sent) -> Sent:
    """A request without what differs each time that it is made."""
    return sent._replace(headers=tuple(pair for pair in sent.headers if "idempotency" not in pair[0]))


def _downloads(client: Any, sdk: Any) -> list[Case]:
    """A case for each method that gives something else than a parsed model: bytes, or lines as they come."""
    known = around_replies(*_modules(sdk))
    cases = []
    for method in methods(client):
        name = method.gives.rpartition(".")[2].partition("[")[0]
        if name in known and not name.endswith("Manager"):
            call = found(client, method.path, "plain")
            assert call is not None
            answer = EVENTS if "Stream[" in method.gives else LINES if "JSONL" in method.gives else BYTES
            cases.append(Case(method.path, filled(call), answer))
    return cases


def _modules(sdk: Any) -> list[Any]:
    """The modules of an SDK that hold what stands around a reply."""
    names = ("_response", "_legacy_response", "_streaming", "_decoders.jsonl")
    found = []
    for name in names:
        with contextlib.suppress(ModuleNotFoundError):
            found.append(importlib.import_module(f"{sdk.__name__}.{name}"))
    return found


def _compare(pair: Pair, case: Case, *, same_request: bool, readers: tuple[str | None, ...] = (None,)) -> int:
    """How many calls were made, each by both clients. Fails where anything differs that can be seen."""
    made = 0
    for form, often, reader in itertools.product(FORMS, REFUSALS, readers):
        bare, wrapped = pair.both(case, form, refusals=often, reader=reader)
        assert pair.far.refusals == 0
        assert bare[0].failed == (often > RETRIES), bare[0]
        assert wrapped[0] == bare[0], (case.method, form, often, reader)
        assert len(wrapped[1]) == len(bare[1])
        if same_request:
            assert wrapped[1] == bare[1], (case.method, form, often, reader)
        made += bool(bare[1])
    return made


@pytest.mark.slow
@EVERY_CLIENT
@pytest.mark.parametrize("mode", MODES)
def test_every_download_is_as_the_bare_clients(far: Far, tmp_path: Path, kind: str, mode: str) -> None:
    """Bytes and lines, whole, raw and streamed: the same type, the same content, the same retries, the same error.

    The methods are those that the installed SDK has; what is sent is the same, too.
    """
    with closing(Pair(kind, far, tmp_path, mode)) as pair:
        cases = _downloads(pair.bare, SDKS[kind])
        made = sum(_compare(pair, case, same_request=True) for case in cases)
    assert {case.method for case in cases} >= KNOWN[SDKS[kind]]
    assert made == len(cases) * len(FORMS) * len(REFUSALS)
    assert not (tmp_path / "trace.db").exists() or not _records(tmp_path)


KNOWN = {
    anthropic: {"beta.files.download", "messages.batches.results"},
    openai: {"audio.speech.create", "files.content"},
}
"""Downloads of every supported version: that the others are found can be seen by these."""


@pytest.mark.slow
@EVERY_CLIENT
@pytest.mark.parametrize("mode", MODES)
def test_every_form_of_a_model_call_is_as_the_bare_clients(far: Far, tmp_path: Path, kind: str, mode: str) -> None:
    """Parsed, raw and streamed, with the SDK's own retries and errors; each attempt is recorded."""
    with closing(Pair(kind, far, tmp_path, mode)) as pair:
        for case in MODEL_CALLS[SDKS[kind]]:
            assert _compare(pair, case, same_request=mode not in ("on", "strict")) == len(FORMS) * len(REFUSALS)
    if mode in ("off", "disabled"):
        return
    # Each form: an answer; a refusal and an answer; two refusals.
    of_models = [case for case in MODEL_CALLS[SDKS[kind]] if "count" not in case.method]
    outcomes = Counter(record.outcome for record in _records(tmp_path))
    assert outcomes == {"ok": 2 * 3 * len(of_models), "failed": 3 * 3 * len(of_models)}


@pytest.mark.parametrize("kind", [pytest.param(one, marks=[pytest.mark.slow] * ("OpenAI" in one)) for one in SDKS])
def test_every_class_that_can_be_asked_for_is_given_as_by_the_bare_client(far: Far, tmp_path: Path, kind: str) -> None:
    """Whatever class of the SDK, or of the HTTP library, a caller passes as `cast_to`, of model calls, too."""
    answer, path = (CLAUDE_SAYS, "/v1/messages") if SDKS[kind] is anthropic else (TYPED_SAYS, "/responses")
    with closing(Pair(kind, far, tmp_path, "strict")) as pair:
        bases = [base.__module__.partition(".")[0] for base in type(pair.bare._client).__mro__]
        library = sys.modules[next(name for name in bases if name.startswith("httpx"))]
        for asked, often in itertools.product((*_own(kind).values(), library.Response, bytes, str, object), REFUSALS):
            other = Case("get", {"path": "/v1/other", "cast_to": asked}, LINES)
            if often and pair.both(other, "plain")[0][0].failed:
                continue  # the SDK refuses the class, behind any middleware before it looks at what came
            _same(pair, other, often)
            of_model = {"path": path, "cast_to": asked, "body": {**CLAUDE, **TYPED}}
            _same(pair, Case("post", of_model, answer), often, same_request=False)


def _own(kind: str) -> dict[str, type]:
    """The classes around replies that belong to clients of this kind, threads or event loops."""
    known = around_replies(*_modules(SDKS[kind]))
    return {name: of for name, of in known.items() if name.startswith("Async") == kind.startswith("Async")}


def _same(pair: Pair, case: Case, often: int, *, same_request: bool = True) -> None:
    bare, wrapped = pair.both(case, "plain", refusals=often)
    assert wrapped[0] == bare[0], (case.given["cast_to"], often)
    assert len(wrapped[1]) == len(bare[1]), (case.given["cast_to"], often)
    if same_request:
        assert wrapped[1] == bare[1], (case.given["cast_to"], often)


@pytest.mark.slow
@EVERY_CLIENT
def test_every_way_to_read_a_reply_gives_what_it_gives_without_us(far: Far, tmp_path: Path, kind: str) -> None:
    """Whatever the SDK's response classes have to look at, bytes, text, lines, headers, files; and each of these
    classes is among those looked at, so that one that a later version adds fails this test until it is."""
    seen = set[str]()
    with closing(Pair(kind, far, tmp_path, "strict")) as pair:
        downloads = _downloads(pair.bare, SDKS[kind])
        cases = [*MODEL_CALLS[SDKS[kind]], *{case.answer[0]: case for case in downloads}.values()]
        asked = [Case("get", {"path": "/v1/other", "cast_to": of}, BYTES) for of in _own(kind).values()]
        for case, form in (*itertools.product(cases, FORMS), *((case, "plain") for case in asked)):
            first = pair.both(case, form)[0][0]
            seen |= {name.rpartition(".")[2] for name in first.classes}
            if first.failed:
                continue
            module, _, cls = first.classes[-1].rpartition(".")
            for reader in readers(getattr(importlib.import_module(module), cls)):
                bare, wrapped = pair.both(case, form, reader=reader)
                assert wrapped[0] == bare[0], (case.method, form, reader)
    assert set(_own(kind)) - seen == {"BaseAPIResponse"} & set(_own(kind))  # of which only what derives from it is made


@pytest.mark.skipif(not hasattr(anthropic, "Middleware"), reason="without middleware our seam is the transport")
def test_without_the_look_at_the_class_a_download_fails(
    far: Far, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The twin: any class that was asked for is taken for the HTTP library's."""
    monkeypatch.setattr("agentaccel.clients.anthropic.is_response", lambda response: True)
    with closing(Pair("Anthropic", far, tmp_path, "on")) as pair:
        bare, wrapped = pair.both(Case("beta.files.download", {"file_id": "x"}, BYTES), "plain")
    assert bare[0].said == b"".join(BYTES[1])
    assert wrapped[0].classes == ("builtins.AttributeError",)

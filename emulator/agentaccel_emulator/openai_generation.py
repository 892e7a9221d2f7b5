"""From a billed request to a finished completion: the script is asked, bound to the request's limits, and timed."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from agentaccel.facts import CacheFacts, Wire
from agentaccel_emulator.accounts import Bucket
from agentaccel_emulator.anthropic_prompt import Tokenizer
from agentaccel_emulator.behaviour import Behaviour
from agentaccel_emulator.calls import Call
from agentaccel_emulator.chat_wire import chat_body, chat_chunks
from agentaccel_emulator.exchange import Chunk, Ending, HttpReply
from agentaccel_emulator.openai_caches import Bill
from agentaccel_emulator.openai_prompt import Prompt
from agentaccel_emulator.openai_wire import Completion, Shape, Streams
from agentaccel_emulator.responses_wire import response_body, response_chunks
from agentaccel_emulator.schema_writing import bound
from agentaccel_emulator.script import Script, ScriptedReply, Turn
from agentaccel_emulator.usage import Usage
from agentaccel_emulator.writing import Written, turn_of, write

Json = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Billed:
    """A request that has passed every check and been billed."""

    body: Json
    """The request; `model` is there even where the path names it."""
    wire: Wire
    """chat or responses."""
    context: Sequence[Json]
    """The whole conversation as items or messages, the server-held part included."""
    prompt: Prompt
    """The prompt."""
    facts: CacheFacts | None
    """What is known of the model."""
    bill: Bill
    """How the prompt divides."""
    workspace: str
    """Whose cache it sees."""
    buckets: tuple[Bucket, ...]
    """Its rate limits."""
    tokenizer: Tokenizer
    """How tokens are counted."""

    @property
    def prewarms(self) -> bool:
        """Whether nothing is to be generated."""
        return bool((self.body.get("prompt_cache_options") or {}).get("prewarm"))

    @property
    def streams(self) -> bool:
        """Whether a stream is asked for."""
        return self.body.get("stream") is True

    @property
    def _limit(self) -> float:
        names = ("max_completion_tokens", "max_tokens", "max_output_tokens")
        return next((self.body[name] for name in names if self.body.get(name) is not None), float("inf"))

    @property
    def _format(self) -> Json | None:
        form = self.body.get("response_format") if self.wire == "chat" else (self.body.get("text") or {}).get("format")
        return form if isinstance(form, Mapping) else None

    def replies(self, script: Script, served: int) -> list[ScriptedReply]:
        """What the script says, once per choice; `served` requests came before this one."""
        index = self.prompt.turns if script.order == "turns" else served
        turns = (
            Turn(index=index, opening=self.prompt.opening, request=self.body, choice=choice)
            for choice in range(0 if self.prewarms else self.body.get("n") or 1)
        )
        return [bound(script.reply(turn), self._format) for turn in turns]

    def written(self, replies: Sequence[ScriptedReply]) -> tuple[Written, ...]:
        """What the model writes of `replies`."""
        turn = turn_of(self.context)
        return tuple(
            write(
                reply,
                limit=self._limit,
                turn=turn,
                tokenizer=self.tokenizer,
                ids="call_emulated" + (f"_{choice}" if choice else ""),
            )
            for choice, reply in enumerate(replies)
        )


def completed(call: Call, request: Billed, replies: Sequence[ScriptedReply], behaviour: Behaviour) -> Completion:
    """The finished completion of a request, with its usage and its times."""
    bill, timing = request.bill, behaviour.timing
    written = request.written(replies)
    first = next((reply.first_token for reply in replies if reply.first_token is not None), None)
    if first is None:
        first = timing.base + (bill.total - bill.read) / timing.prefill
    first += call.delay
    speed = next((reply.tokens_per_second for reply in replies if reply.tokens_per_second), timing.decode)
    # Choices are generated side by side.
    last = first + max((one.tokens for one in written), default=0) / speed
    return Completion(
        id=f"emulated{call.number:012d}",
        created=call.now,
        model=request.body["model"],
        choices=written,
        usage=Usage(
            uncached=bill.total - bill.read - sum(bill.written.values()),
            read=bill.read,
            write_30m=bill.written.get("30m", 0),
            write_12h=bill.written.get("12h", 0),
            output=sum(one.tokens for one in written),
            thinking=sum(one.thinking for one in written),
        ),
        request=request.body,
        seconds=(first, last),
    )


def shape_of(call: Call, request: Billed, behaviour: Behaviour, habit: Shape) -> Shape:
    """How the usage of a request is reported by a server whose habit is `habit`."""
    if call.goes_wrong("missing_usage") or behaviour.reports == "nothing":
        return "nothing"
    if behaviour.reports == "no_streams" and request.streams:
        return "nothing"
    return "tokens" if behaviour.reports in ("tokens", "no_streams") else habit


def id_of(completion: Completion, wire: Wire) -> str:
    """The id of a reply, as its API names it."""
    return ("chatcmpl-" if wire == "chat" else "resp_") + completion.id


def body_of(completion: Completion, wire: Wire) -> dict[str, object]:
    """The body of a reply that is not streamed."""
    return chat_body(completion) if wire == "chat" else response_body(completion)


def reply_to(call: Call, completion: Completion, wire: Wire, headers: Mapping[str, str]) -> HttpReply:
    """The reply as it is sent, as a fault may spoil it."""
    cut = call.goes_wrong("disconnect_mid_stream")
    ending: Ending = "disconnect" if cut else "complete"
    first, last = completion.seconds
    sent = {"x-request-id": call.request_id, "openai-processing-ms": f"{first * 1000:.0f}", **headers}
    if completion.request.get("stream") is True:
        chunks = (chat_chunks if wire == "chat" else response_chunks)(completion, call.fault)
        sent = {"content-type": "text/event-stream; charset=utf-8", **sent}
        return HttpReply(status=200, headers=sent, chunks=chunks, streamed=True, ending=ending)
    data = orjson.dumps(body_of(completion, wire))
    if cut or call.goes_wrong("malformed_sse"):
        data = data[: len(data) // 2]
    sent = {"content-type": "application/json", **sent}
    return HttpReply(status=200, headers=sent, chunks=(Chunk(last, data),), ending=ending)


def with_extra(completion: Completion, shape: Shape, streams: Streams, extra: Json) -> Completion:
    """The completion, reported in this shape, at this place of a stream, and with further fields."""
    return dataclasses.replace(completion, shape=shape, streams=streams, extra=extra)

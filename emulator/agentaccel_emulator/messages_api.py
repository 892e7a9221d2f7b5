"""The emulated Messages API: checks, prompt, cache, script and rendering put together. Other APIs stand beside it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import orjson

from agentaccel.facts import CacheFacts, cache_facts, plain_name, table
from agentaccel_emulator.accounts import Bucket, RateMeter, drain, limit_headers
from agentaccel_emulator.anthropic_cache import PromptCache, Rules
from agentaccel_emulator.anthropic_candidate import Candidate
from agentaccel_emulator.anthropic_levels import canonical
from agentaccel_emulator.anthropic_limits import objection
from agentaccel_emulator.anthropic_prompt import Tape, read_tape, with_lists
from agentaccel_emulator.anthropic_threads import Threads, goes_on, message_thread
from agentaccel_emulator.anthropic_wire import Message, error_body, message_body, stream_chunks
from agentaccel_emulator.behaviour import Behaviour
from agentaccel_emulator.calls import Call, Outcome, entry_of, hung
from agentaccel_emulator.diagnosis import Diagnoser, fingerprint
from agentaccel_emulator.exchange import Chunk, Ending, HttpReply, json_reply
from agentaccel_emulator.script import Script, ScriptedReply, Turn
from agentaccel_emulator.settlement import Settlement
from agentaccel_emulator.trial import Problem
from agentaccel_emulator.usage import Usage
from agentaccel_emulator.writing import opening_text, turn_of, write


@dataclass(frozen=True, slots=True, kw_only=True)
class _Prompt:
    """A prompt that has been read and billed."""

    body: Mapping[str, Any]
    facts: CacheFacts
    rules: Rules
    tape: Tape
    settled: Settlement
    workspace: str
    buckets: tuple[Bucket, ...]


class MessagesApi:
    """The Messages API of one provider and platform. Not thread-safe: its owner takes turns."""

    def __init__(
        self, *, model: str | None, platform: str, behaviour: Behaviour, prefixes: tuple[str, ...] = ("",)
    ) -> None:
        """Serve `model` only, or every model that the facts list, at paths that begin with one of the prefixes."""
        self._model, self._platform, self._behaviour = model, platform, behaviour
        self._shared = table("anthropic")["platforms"][platform]["isolation"] == "organization"
        self._prefixes = prefixes
        self.reset()

    def takes(self, path: str) -> bool:
        return self.generates(path) or any(path == f"{prefix}/v1/messages/count_tokens" for prefix in self._prefixes)

    def methods(self, path: str) -> tuple[str, ...]:
        return ("POST",)

    def generates(self, path: str) -> bool:
        return any(path == f"{prefix}/v1/messages" for prefix in self._prefixes)

    def serves(self, model: str) -> bool:
        return cache_facts(model, platform=self._platform, aliases=self._behaviour.aliases) is not None

    def reset(self) -> None:
        """Forget the cache, the rate limits and past messages."""
        self.cache = PromptCache(eviction=self._behaviour.eviction, seed=self._behaviour.seed)
        self._meter = RateMeter(self._behaviour.limits)
        self._diagnoser = Diagnoser()
        self._threads = Threads()
        self._served = 0

    def facts_of(self, model: str) -> CacheFacts | None:
        """The facts of a model that is served under this name, or None."""
        facts = cache_facts(model, platform=self._platform, aliases=self._behaviour.aliases)
        if self._model is not None:
            return facts if model == self._model else None
        return None if facts is None or facts.family else facts

    def answer(self, call: Call, script: Script) -> Outcome:
        """Answer one call."""
        if call.goes_wrong("timeout"):
            return hung(call)
        if call.fault is not None and call.fault.status is not None:
            kind, text = call.fault.error
            return _refusal(call, Problem(text, kind, call.fault.status), headers=call.fault.headers)
        candidate = Candidate(
            headers=call.headers,
            raw=call.body,
            counting=call.path.endswith("count_tokens"),
            resolve=self.facts_of,
            platform=self._platform,
            api_keys=self._behaviour.api_keys,
        )
        if goes_on(candidate):
            whole = self._threads.whole(candidate.body, self._workspace(candidate))
            if isinstance(whole, Problem):
                return _refusal(call, whole, check=message_thread.__name__)
            candidate = replace(candidate, raw=orjson.dumps(whole))
        if (found := objection(candidate, self._behaviour.skipped_checks)) is not None:
            return _refusal(call, found[1], check=found[0])
        workspace = self._workspace(candidate)
        tape = self._read(candidate, workspace)
        if candidate.counting:
            reply = json_reply(200, {"input_tokens": tape.total}, {"request-id": call.request_id})
            return Outcome(
                reply=reply, entry=entry_of(call, status=200, request=candidate.body, leaves=len(tape.hashes))
            )
        return self._generate(call, candidate, workspace, tape, script)

    def _name(self, model: str) -> str:
        """The model's plain name: aliases and dated names share one cache."""
        return plain_name(self._behaviour.aliases.get(model, model))

    def _workspace(self, candidate: Candidate) -> str:
        key = candidate.api_key or ""
        named = candidate.headers.get("anthropic-workspace-id")
        return named or self._behaviour.workspaces.get(key) or f"wrkspc_of_{key}"

    def _read(self, candidate: Candidate, workspace: str) -> Tape:
        facts, body = candidate.known, candidate.body
        if body.get("thread") is not None:
            body = {**body, "cache_control": {"type": "ephemeral"}}
        return read_tape(
            with_lists(body),
            scope=canonical(["" if self._shared else workspace, self._name(candidate.body["model"])]),
            betas=candidate.headers.get("anthropic-beta", ""),
            tokenizer=self._behaviour.tokenizer_of(self._name(candidate.body["model"])),
            positions=self._behaviour.positions or facts.positions,
            strips_thinking=facts.strips_thinking,
        )

    def _generate(self, call: Call, candidate: Candidate, workspace: str, tape: Tape, script: Script) -> Outcome:
        buckets = self._meter.open(workspace, self._name(candidate.body["model"]), call.now)
        if (used_up := self._meter.refusal(buckets)) is not None:
            return _limited(call, buckets, *used_up)
        facts = candidate.known
        rules = Rules(
            min_tokens=facts.min_tokens,
            lookback=facts.lookback,
            seconds={ttl.label: ttl.seconds for ttl in facts.ttls},
        )
        prompt = _Prompt(
            body=candidate.body,
            facts=facts,
            rules=rules,
            tape=tape,
            settled=self.cache.settle(tape, rules, call.now),
            workspace=workspace,
            buckets=buckets,
        )
        return self._reply(call, prompt, self._ask(prompt, script))

    def _ask(self, prompt: _Prompt, script: Script) -> ScriptedReply:
        messages = prompt.body["messages"]
        spoken = sum(message["role"] == "assistant" for message in messages)
        self._served += 1
        index = spoken if script.order == "turns" else self._served - 1
        return script.reply(Turn(index=index, opening=opening_text(messages), request=prompt.body))

    def _reply(self, call: Call, prompt: _Prompt, scripted: ScriptedReply) -> Outcome:
        body, fault = prompt.body, call.fault
        tokenizer = self._behaviour.tokenizer_of(self._name(body["model"]))
        written = write(scripted, limit=body["max_tokens"], turn=turn_of(body["messages"]), tokenizer=tokenizer)
        timing, settled = self._behaviour.timing, prompt.settled
        first = scripted.first_token
        if first is None:
            first = timing.base + (settled.total - settled.read) / timing.prefill
        first += call.delay
        last = first + written.tokens / (scripted.tokens_per_second or timing.decode)
        self.cache.keep(prompt.tape, settled, prompt.rules, now=call.now, visible_at=call.now + first)
        usage = Usage(
            uncached=settled.uncached,
            read=settled.read,
            write_5m=settled.written.get("5m", 0),
            write_1h=settled.written.get("1h", 0),
            output=written.tokens,
            thinking=written.thinking,
        )
        counted = usage.input - (0 if prompt.facts.reads_count_to_rate_limit else usage.read)
        drain(prompt.buckets, counted, usage.output)
        message = Message(
            id=f"msg_emulated{call.number:012d}",
            model=body["model"],
            content=written.content,
            stop_reason=written.stop_reason,
            usage=usage,
            speed=body.get("speed") or "standard",
            geo=body.get("inference_geo") or "global",
            diagnostics=self._diagnose(call, prompt),
            shows_usage=fault is None or fault.kind != "missing_usage",
        )
        if body.get("thread") is not None:
            self._threads.keep(body, prompt.workspace, message.id, written.content)
        reply = _rendered(call, message, prompt, first=first, last=last)
        entry = entry_of(
            call,
            status=200,
            request=body,
            workspace=prompt.workspace,
            message_id=message.id,
            usage=usage,
            markers=tuple(prompt.tape.markers),
            hit=settled.hit,
            leaves=len(prompt.tape.hashes),
            first_byte=first,
            seconds=last,
        )
        return Outcome(reply=reply, entry=entry)

    def _diagnose(self, call: Call, prompt: _Prompt) -> Mapping[str, object] | None:
        if prompt.body.get("diagnostics") is None:
            return None
        print_ = fingerprint(prompt.body, prompt.settled.total)
        diagnosis = self._diagnoser.diagnose(prompt.workspace, prompt.body, print_)
        self._diagnoser.remember(prompt.workspace, f"msg_emulated{call.number:012d}", print_)
        return diagnosis


def _rendered(call: Call, message: Message, prompt: _Prompt, *, first: float, last: float) -> HttpReply:
    fault = call.fault
    headers = {
        "request-id": call.request_id,
        "anthropic-workspace-id": prompt.workspace,
        **limit_headers(prompt.buckets),
    }
    cut = fault is not None and fault.kind == "disconnect_mid_stream"
    ending: Ending = "disconnect" if cut else "complete"
    if prompt.body.get("stream") is True:
        chunks = stream_chunks(message, first=first, last=last, fault=fault)
        headers = {"content-type": "text/event-stream; charset=utf-8", "cache-control": "no-cache", **headers}
        return HttpReply(status=200, headers=headers, chunks=chunks, streamed=True, ending=ending)
    data = orjson.dumps(message_body(message))
    if fault is not None and fault.kind in ("disconnect_mid_stream", "malformed_sse"):
        data = data[: len(data) // 2]
    headers = {"content-type": "application/json", **headers}
    return HttpReply(status=200, headers=headers, chunks=(Chunk(last, data),), ending=ending)


def _refusal(
    call: Call, problem: Problem, *, check: str | None = None, headers: Mapping[str, str] | None = None
) -> Outcome:
    sent = {"request-id": call.request_id, **(headers or {})}
    return Outcome(
        reply=json_reply(problem.status, error_body(problem, call.request_id), sent),
        entry=entry_of(call, status=problem.status, check=check, error=problem.message),
    )


def _limited(call: Call, buckets: tuple[Bucket, ...], name: str, wait: float) -> Outcome:
    text = f"This request would exceed your organization's rate limit of {name.replace('-', ' ')} per minute."
    headers = {**limit_headers(buckets), "retry-after": str(int(wait) + 1)}
    return _refusal(call, Problem(text, "rate_limit_error", 429), headers=headers)

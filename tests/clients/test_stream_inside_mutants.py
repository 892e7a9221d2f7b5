"""The tests of calls that are streamed inside the client bite: without any single guard they fail."""

from __future__ import annotations

from tests.mutants import Mutant, biting, running

GUARDS = (
    Mutant(
        guard="a stream that goes on for longer than its caller waits",
        at="agentaccel.clients.joining:Join.takes",
        old="if at_most is not None and",
        new="if False and",
    ),
    Mutant(
        guard="an error behind the whole reply",
        at="agentaccel.clients.joining:Join.forgives",
        old="isinstance(error, Exception) and self.joiner.complete",
        new="False",
    ),
    Mutant(
        guard="a stream that is refused although the call is not",
        at="agentaccel.clients.joining:joined",
        old="if not _may_refuse(http) or not join.refused(peek(http)):",
        new="if True:",
    ),
    Mutant(
        guard="headers of the stream on the whole reply",
        at="agentaccel.clients.joining:_made",
        old=" if name.lower() not in _OF_BODY",
        new="",
    ),
    Mutant(
        guard="a reply without its end",
        at="agentaccel.wire.openai.joining:ChatJoiner.done",
        old='if not self._choices or any(choice["finish_reason"] is None for choice in self._choices.values()):',
        new="if False:",
    ),
    Mutant(
        guard="arguments that were cut",
        at="agentaccel.wire.anthropic.joining:MessageJoiner._stops",
        old="if arguments is None:",
        new="if False:",
    ),
    Mutant(
        guard="blocks that do not begin in their order",
        at="agentaccel.wire.anthropic.joining:MessageJoiner._starts",
        old="if index != len(content):",
        new="if False:",
    ),
    Mutant(
        guard="counts that null would take away",
        at="agentaccel.wire.anthropic.joining:_over",
        old=" if value is not None or name not in before",
        new="",
    ),
    Mutant(
        guard="what is told twice, and otherwise",
        at="agentaccel.wire.openai.joining:_set",
        old='raise UnclearError(f"{name_of(name)} is told twice, and otherwise")',
        new="thing[name] = value",
    ),
    Mutant(
        guard="fields of a request that nobody knows",
        at="agentaccel.wire.joining:unknown_fields",
        old="name not in known and value is not None",
        new="False",
    ),
    Mutant(
        guard="callers that read the bytes of a call of openai",
        at="agentaccel.clients.transport:_reads_whole",
        old=' and headers.get("x-stainless-raw-response", "") != "stream"',
        new="",
    ),
    Mutant(
        guard="callers that read the bytes of a call of anthropic",
        at="agentaccel.clients.anthropic_inside:reads_whole",
        old='modes <= {"raw", "true"}',
        new="True",
    ),
    Mutant(
        guard="callers that want the library's own response",
        at="agentaccel.clients.anthropic_inside:reads_whole",
        old=" and isinstance(kind, type) and issubclass(kind, BaseModel)",
        new="",
    ),
    Mutant(
        guard="middleware that stands between us and the wire",
        at="agentaccel.clients.anthropic:_outgoing",
        old="joinable=_only_encodes(call_next) and reads_whole(request)",
        new="joinable=reads_whole(request)",
    ),
    Mutant(
        guard="platforms whose streams nobody knows",
        at="agentaccel.engine.inside:StreamInside._why_whole",
        old="if not joinable(prompt.provider, prompt.platform, wire):",
        new="if False:",
    ),
    Mutant(
        guard="a model whose stream did not add up",
        at="agentaccel.engine.inside:StreamInside._why_whole",
        old="if model_at(prompt) in self._left:",
        new="if len(self._left) > 9:",
    ),
    Mutant(
        guard="modes in which nothing is changed",
        at="agentaccel.engine.inside:StreamInside.planned",
        old='if not self.policy.stream_inside or mode != "on":',
        new="if not self.policy.stream_inside:",
    ),
    Mutant(
        guard="the usage chunk of a stream that we put together",
        at="agentaccel.engine.engine:Engine._begin",
        old=" and not planned.inside",
        new="",
    ),
    Mutant(
        guard="tools that are never run early",
        at="agentaccel.tools.speculator:Speculator.may_begin",
        old="any(one.effect is not Effect.UNKNOWN for one in known)",
        new="True",
    ),
)

COMMAND = [
    *running(
        "tests/wire/test_joining.py",
        "tests/clients/test_stream_inside.py",
        "tests/clients/test_stream_inside_replies.py",
    ),
    *("-o", "timeout=30"),
]

test_they_fail_without_the_guard, test_with_every_guard_they_pass = biting(GUARDS, COMMAND)

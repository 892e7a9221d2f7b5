"""Recorded conversations as tokens, with what the model has said told apart: what a way of drafting is replayed on."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator

from agentaccel.predict.events import Answered, Asked, Event, Returned
from agentaccel.replay.events import Recorded
from agentaccel.selfhost.draft_replay import Passage, Talk
from agentaccel.selfhost.tokens import FIRST_MARK, Tokenizer

_END, _USER, _MODEL, _TOOL = range(FIRST_MARK, FIRST_MARK + 4)
"""What stands for the tokens of a chat template: where a message ends, and whose one begins."""


def tokenised(runs: Iterable[Recorded], tokenizer: Tokenizer) -> Iterator[Talk]:
    """Each conversation as its model read it: tools, system prompt, and what happened. Of conversations about one task
    the first counts: the others are near copies, and what is drafted from a copy says nothing of new text."""
    seen: set[tuple[str, str]] = set()
    for run in runs:
        key = (run.workload, run.task)
        if key not in seen:
            seen.add(key)
            yield tokenised_run(run, tokenizer)


def tokenised_run(run: Recorded, tokenizer: Tokenizer) -> Talk:
    """One conversation. What is said by the model ends with the end of its message, which it has to say, too."""
    head = [*map(_text, run.tools), run.system]
    passages = [Passage(tokenizer.encode("\n".join(part for part in head if part)))]
    for event in run.events:
        tokens = tokenizer.encode(_said(event))
        if isinstance(event, Asked | Answered):
            passages += [Passage([_MODEL]), Passage([*tokens, _END], said=True)]
        else:
            passages.append(Passage([_TOOL if isinstance(event, Returned) else _USER, *tokens, _END]))
    return Talk(site=run.workload, passages=tuple(passages))


def _said(event: Event) -> str:
    if isinstance(event, Returned):
        return event.result
    if isinstance(event, Asked):
        return event.text + "".join(_text({"name": call.name, "arguments": call.arguments}) for call in event.calls)
    return event.text


def _text(value: object) -> str:
    """JSON as models write it."""
    return json.dumps(value, ensure_ascii=False, default=str)

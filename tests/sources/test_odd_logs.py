"""Formats grow, and are not ours: a field of any kind in any place never stops an import or a report."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from session_lines import NOON, call, line, prompt, reply, result, usage

from agentaccel.report import render_text, report, to_json
from agentaccel.sources.logs import read_logs
from tests.anything import CHARACTERS

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(CHARACTERS, max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(CHARACTERS, max_size=5), inner, max_size=3),
    max_leaves=5,
)
NESTED = reply(1, "a1", usage(read=50, write=5000), call("t9"))
SESSION = [
    prompt(0),
    reply(1, "1", usage(write=9000), call("t1")),
    result(2, "t1"),
    line("progress", 3, data={"type": "agent_progress", "agentId": "abc", "message": NESTED}),
    line("system", 4, subtype="compact_boundary", compactMetadata={"trigger": "auto"}),
    line("system", 5, subtype="api_error", error={"status": 529}, retryAttempt=1),
    reply(6, "2", usage(read=9000), isSidechain=True, uuid="u1", parentUuid="u0"),
]
RUN = {
    "id": "r1",
    "source": "x",
    "model": "gpt-4o",
    "domain": "office",
    "meta": {"t0": NOON},
    "messages": [
        {"role": "user", "content": "hi", "ts": NOON},
        {
            "role": "assistant",
            "ts": NOON + 1,
            "usage": {"prompt_tokens": 5, "prompt_tokens_details": {"cached_tokens": 1}},
            "tool_calls": [{"id": "c", "function": {"name": "f", "arguments": "{}"}}],
        },
        {"role": "tool", "tool_call_id": "c", "ts": NOON + 2},
    ],
}


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The path of everything inside `value`."""
    if isinstance(value, dict):
        inside = [found for key, item in value.items() for found in places(item, (*path, key))]
    elif isinstance(value, list):
        inside = [found for key, item in enumerate(value) for found in places(item, (*path, key))]
    else:
        inside = []
    return [path, *inside]


def changed(whole: Any, path: tuple[Any, ...], value: Any) -> Any:
    """A copy of `whole` with `value` at `path`."""
    whole = copy.deepcopy(whole)
    inner = whole
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = value
    return whole


@pytest.mark.slow
@pytest.mark.parametrize("lines", [pytest.param(SESSION, id="session"), pytest.param([RUN, RUN], id="runs")])
@given(data=st.data())
def test_any_value_in_any_field_leaves_the_import_standing(
    data: st.DataObject, lines: list[Any], tmp_path_factory: pytest.TempPathFactory
) -> None:
    """And the report of what is left, in every form."""
    path = data.draw(st.sampled_from([found for found in places(lines) if len(found) > 1]))
    odd = changed(lines, path, data.draw(JSON))
    log: Path = tmp_path_factory.mktemp("odd") / "a.jsonl"
    log.write_text("".join(json.dumps(entry) + "\n" for entry in odd), encoding="utf-8")
    for by in ("session", "day"):
        found = report(read_logs([log]), by=by, causes=True)  # type: ignore[arg-type]
        render_text(found).encode()
        json.dumps(to_json(found), allow_nan=False)


def test_a_byte_order_mark_costs_no_line(tmp_path):
    """Some editors write one."""
    from agentaccel.sources.lines import parse
    from agentaccel.sources.tally import ImportTally

    tally = ImportTally()
    assert parse(b'\xef\xbb\xbf{"type": "user"}\n', tally) == {"type": "user"}
    assert tally.skipped == 0

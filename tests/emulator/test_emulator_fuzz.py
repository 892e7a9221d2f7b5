"""What holds for every sequence of requests, and for every body whatsoever."""

from __future__ import annotations

import json

import pytest
from emulator_talk import MODEL, ask, emulator, request, text
from hypothesis import given, settings
from hypothesis import strategies as st

from agentaccel_emulator import Behaviour, Emulator
from agentaccel_emulator.anthropic_cache import PromptCache, Rules
from agentaccel_emulator.anthropic_prompt import Tape
from tests.anything import CHARACTERS

LIFETIMES = {"5m": 300.0, "1h": 3600.0}

json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-3, 3)
    | st.text(CHARACTERS, max_size=3)
    | st.sampled_from(["text", "tool_use", "user"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(CHARACTERS, max_size=4), inner, max_size=3),
    max_leaves=6,
)

WHOLE = {
    "model": MODEL,
    "max_tokens": 100,
    "stream": True,
    "cache_control": {"type": "ephemeral", "ttl": "5m"},
    "diagnostics": {"previous_message_id": None},
    "thinking": {"type": "adaptive"},
    "tool_choice": {"type": "auto"},
    "output_config": {"effort": "low"},
    "tools": [
        {"name": "f", "input_schema": {"type": "object"}, "cache_control": {"type": "ephemeral"}},
        {"type": "web_search_20260318", "name": "web_search"},
    ],
    "system": [{"type": "text", "text": "s", "cache_control": {"type": "ephemeral"}}],
    "messages": [
        {"role": "user", "content": "hi"},
        {
            "role": "assistant",
            "content": [
                {"type": "thinking", "thinking": "t", "signature": "s"},
                {"type": "tool_use", "id": "t0", "name": "f", "input": {}},
            ],
        },
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": "t0", "content": [{"type": "text", "text": "r"}]},
                {"type": "image", "source": {"type": "base64"}},
                {"type": "document", "source": {}, "citations": {"enabled": True}},
            ],
        },
    ],
}


def places(value, path=()):
    """Every path into a JSON value."""
    yield path
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in items:
        yield from places(inner, (*path, key))


def replaced(value, path, new):
    """`value` with `new` at `path`."""
    if not path:
        return new
    copy = value.copy()
    copy[path[0]] = replaced(value[path[0]], path[1:], new)
    return copy


def test_the_body_that_is_mutated_is_legal():
    """Ours: a fuzz of what is refused anyway would show nothing."""
    assert ask(emulator(), WHOLE).status == 200


@settings(max_examples=3 * settings.default.max_examples)
@given(st.data())
def test_no_body_makes_the_emulator_raise(data):
    """Ours: any value anywhere is answered or refused, never a crash."""
    body = WHOLE
    for _ in range(data.draw(st.integers(1, 2))):
        path = data.draw(st.sampled_from(list(places(body))))
        body = replaced(body, path, data.draw(json_values))
    assert ask(emulator(), json.dumps(body).encode()).status in (200, 400, 404)


@given(st.binary(max_size=40))
def test_no_bytes_make_the_emulator_raise(raw):
    """Ours."""
    assert ask(emulator(), raw).status in (400, 404)


turns = st.lists(
    st.tuples(
        st.lists(st.integers(0, 2), min_size=1, max_size=50),
        st.lists(st.integers(0, 49), max_size=4, unique=True),
        st.sampled_from([0.0, 1.0, 100.0, 299.0, 400.0, 3000.0]),
        st.integers(0, 4),
    ),
    min_size=1,
    max_size=8,
)


class Plain:
    """The physics once more, as slowly and as literally as the reference page states them."""

    def __init__(self, minimum, lookback=20):
        self.minimum, self.lookback, self.entries = minimum, lookback, {}

    def live(self, prefix, now):
        entry = self.entries.get(prefix)
        return entry is not None and entry["visible"] <= now <= entry["expires"]

    def request(self, items, marks, now):
        """Bill a prompt of `items`, 100 tokens each, one position each; marks are (index, ttl)."""
        hit = None
        for mark, _ in sorted(marks, reverse=True):
            window = range(mark, max(-1, mark - self.lookback), -1)
            hit = next((at for at in window if self.live(items[: at + 1], now)), None)
            if hit is not None:
                break
        for at in range(0 if hit is None else hit + 1):
            if self.live(items[: at + 1], now):
                entry = self.entries[items[: at + 1]]
                entry["expires"] = max(entry["expires"], now + LIFETIMES[entry["ttl"]])
        a = 0 if hit is None else 100 * (hit + 1)
        fresh = [(100 * (m + 1), ttl) for m, ttl in marks if 100 * (m + 1) > a and 100 * (m + 1) >= self.minimum]
        b = max([end for end, ttl in fresh if ttl == "1h"], default=a)
        c = max([end for end, _ in fresh], default=a)
        for end, ttl in fresh:
            old = self.entries.get(items[: end // 100])
            new = {"ttl": ttl, "expires": now + LIFETIMES[ttl], "visible": now + 1.0}
            if old is not None and old["expires"] >= now:
                new["visible"] = min(old["visible"], new["visible"])
                if old["expires"] > new["expires"]:
                    new["ttl"], new["expires"] = old["ttl"], old["expires"]
            self.entries[items[: end // 100]] = new
        return (a, c - b, b - a, 100 * len(items) - max(a, c))


@pytest.mark.slow
@settings(max_examples=2 * settings.default.max_examples)
@given(turns, st.sampled_from([100, 500]))
def test_every_bill_is_the_one_that_the_reference_page_gives(sequence, minimum):
    """Mandated: a second, literal implementation agrees on every token of every request."""
    plain, cache, now = Plain(minimum), PromptCache(), 0.0
    rules = Rules(min_tokens=minimum, lookback=20, seconds=LIFETIMES)
    for choices, marks, gap, hours in sequence:
        now += gap
        items = tuple(min(choice, 1) for choice in choices)
        where = sorted(mark for mark in marks if mark < len(items))
        marked = [(mark, "1h" if place < hours else "5m") for place, mark in enumerate(where)]
        tape = Tape(
            hashes=[bytes([len(items[: i + 1]), *items[: i + 1]]) for i in range(len(items))],
            tokens=[100 * (i + 1) for i in range(len(items))],
            positions=list(range(len(items))),
            markers=marked,
            hidden=0,
        )
        settled = cache.settle(tape, rules, now)
        cache.keep(tape, settled, rules, now=now, visible_at=now + 1.0)
        bill = (settled.read, settled.written.get("5m", 0), settled.written.get("1h", 0), settled.uncached)
        assert bill == plain.request(items, marked, now)


grown = st.lists(st.tuples(st.integers(1, 25), st.booleans(), st.floats(0, 400)), min_size=1, max_size=6)


@given(grown)
def test_the_parts_of_every_bill_add_up_to_the_count_of_tokens(sequence):
    """Mandated: total prompt = input + creation + read, and count_tokens says the same."""
    provider, content, now = Emulator(behaviour=Behaviour()), [], 0.0
    for added, marked, gap in sequence:
        now += gap
        content += [text(150, f"{len(content) + i} ") for i in range(added)]
        body = request(*content, **({"cache_control": {"type": "ephemeral"}} if marked else {}))
        total = ask(provider, body, now, path="/v1/messages/count_tokens").json["input_tokens"]
        assert sum(ask(provider, body, now).usage) == total
    assert provider.counters.total.input == sum(entry.usage.input for entry in provider.log if entry.usage)


run_lengths = st.lists(st.tuples(st.integers(1, 12), st.booleans()), min_size=1, max_size=5)


@given(run_lengths)
def test_the_reading_by_runs_reads_at_least_what_the_reading_by_blocks_reads(sequence):
    """Chosen, so that planning by the stricter reading is never too hopeful."""
    providers = [emulator(positions=positions) for positions in ("runs", "blocks")]
    messages = [{"role": "user", "content": [text(1100, "go")]}]
    number = 0
    for turn, (count, marked) in enumerate(sequence):
        ids = [f"t{number + i}" for i in range(count)]
        number += count
        messages.append(
            {"role": "assistant", "content": [{"type": "tool_use", "id": i, "name": "f", "input": {}} for i in ids]}
        )
        messages.append({"role": "user", "content": [{"type": "tool_result", "tool_use_id": i} for i in ids]})
        extra = {"cache_control": {"type": "ephemeral"}} if marked else {}
        runs, plain = (ask(provider, request(messages=messages, **extra), turn * 10.0).read for provider in providers)
        assert runs >= plain


@pytest.mark.soak
def test_twenty_thousand_requests_keep_the_books():
    """Ours: the totals stay those of the log, and expired entries are swept out."""
    provider = emulator()
    for number in range(20_000):
        ask(
            provider, request(*[text(150, f"{number % 97} {i}") for i in range(8)], text(200, "q", "5m")), number * 10.0
        )
    assert provider.counters.total.input == sum(entry.usage.input for entry in provider.log)
    assert len(provider.cache.entries) < 2_000

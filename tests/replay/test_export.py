"""Recorded conversations as chats to train on: legal ones, each once, a task on one side, nothing secret in them."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentaccel.effects.masking import MASK
from agentaccel.policy import StorePolicy
from agentaccel.predict.events import Answered, Asked, Event, Returned, Said
from agentaccel.replay.events import Recorded, run_of
from agentaccel.replay.export import Chat, ExportTally, Form, chat_of, chosen, is_held_out, line_of
from agentaccel.types import ToolCall

LOOK = ToolCall(name="look", arguments={"at": 1}, id="toolu_01")
SEEK = ToolCall(name="seek", arguments={}, id="toolu_02")


def told(*events: Event, id_: str = "r1", **fields: Any) -> Recorded:
    return Recorded(id=id_, task=fields.pop("task", id_), workload="agent wood", events=events, **fields)


def chat(*events: Event, **fields: Any) -> Chat:
    made = chat_of(told(*events, **fields))
    assert made is not None
    return made


def roles(chat: Chat) -> str:
    """s, u, a, t, and A for a reply with calls."""
    return "".join("A" if "tool_calls" in one else one["role"][0] for one in chat.messages)


def test_a_conversation_becomes_a_chat_in_the_usual_form() -> None:
    tools = ({"name": "look", "description": "Looks.", "input_schema": {"type": "object"}}, {"name": "seek"})
    made = chat(
        Said("hello"),
        Asked((LOOK, SEEK), "let me see"),
        Returned(SEEK, "none", error=True),
        Returned(LOOK, "a tree"),
        Answered("a tree"),
        Said("thanks"),
        system="Be brief.",
        tools=tools,
        models=("m1",),
        task="t1",
    )
    function = {"name": "look", "arguments": {"at": 1}}
    assert made.messages == (
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "hello"},
        {
            "role": "assistant",
            "content": "let me see",
            "tool_calls": [
                {"id": "call_1", "type": "function", "function": function},
                {"id": "call_2", "type": "function", "function": {"name": "seek", "arguments": {}}},
            ],
        },
        {"role": "tool", "tool_call_id": "call_2", "content": "none"},
        {"role": "tool", "tool_call_id": "call_1", "content": "a tree"},
        {"role": "assistant", "content": "a tree"},
    )
    assert made.tools == (
        {"type": "function", "function": {"name": "look", "description": "Looks.", "parameters": {"type": "object"}}},
        {"type": "function", "function": {"name": "seek"}},
    )
    assert (made.replies, made.calls, made.masked, made.cut, made.models) == (2, 2, 0, False, ("m1",))


@pytest.mark.parametrize(
    ("events", "roles_", "cut"),
    [
        ((Answered("hi, how can I help?"), Said("a"), Answered("b")), "ua", False),
        ((Asked((LOOK,)), Returned(LOOK, "x"), Said("a"), Answered("b")), "ua", False),
        ((Said("a"), Said("b"), Answered("c"), Answered("d")), "ua", False),
        ((Said("a"), Answered("b"), Asked((LOOK,)), Returned(LOOK, "x"), Answered("c")), "uAta", False),
        ((Said("a"), Asked((LOOK,)), Said("b"), Returned(LOOK, "x"), Answered("c")), "uAtua", False),
        ((Said("a"), Asked((LOOK, SEEK)), Returned(LOOK, "x"), Answered("c"), Said("d"), Answered("e")), "uA", True),
        ((Said("a"), Asked((LOOK,)), Said("stop"), Asked((SEEK,))), "uA", True),
        ((Said("a"), Asked((LOOK,)), Returned(LOOK, "x"), Returned(LOOK, "y"), Answered("b")), "uAta", False),
        ((Said("a"), Asked((LOOK, LOOK)), Returned(LOOK, "x"), Returned(LOOK, "y"), Answered("b")), "uAtta", False),
        ((Said("a"), Asked((LOOK,)), Returned(LOOK, "x")), "uA", False),
    ],
)
def test_a_chat_is_one_that_templates_take(events: tuple[Event, ...], roles_: str, cut: bool) -> None:
    """It begins with the user and ends with a reply; nobody speaks twice in a row, and no call waits in between."""
    made = chat(*events)
    assert (roles(made), made.cut) == (roles_, cut)
    assert_legal(made.messages)


def test_what_is_said_twice_in_a_row_stands_on_lines_of_one_message() -> None:
    made = chat(Said("a"), Said("b"), Answered("c"), Asked((LOOK,), "d"), Said("e"), Said("f"), Returned(LOOK, "x"))
    assert [one["content"] for one in made.messages] == ["a\nb", "c\nd"]
    made = chat(Said("a"), Asked((LOOK,)), Said("e"), Said("f"), Returned(LOOK, "x"), Answered("b"))
    assert [one["content"] for one in made.messages] == ["a", "", "x", "e\nf", "b"]


@pytest.mark.parametrize("events", [(), (Said("a"),), (Answered("a"),), (Returned(LOOK, "x"), Said("a"))])
def test_a_conversation_without_a_reply_is_none(events: tuple[Event, ...]) -> None:
    tally = ExportTally()
    assert list(chosen([told(*events, system="Be brief.")], tally, share=0)) == []
    assert tally.bare == 1


def test_a_conversation_is_taken_once_whoever_recorded_it() -> None:
    """By what it holds: names of calls are those of whoever recorded them."""
    tally = ExportTally()
    other = ToolCall(name="look", arguments={"at": 1}, id="x")
    runs = [
        told(Said("a"), Asked((LOOK,))),
        told(Said("a"), Asked((other,)), id_="r2", models=("m1",)),
        told(Said("a"), Asked((SEEK,)), id_="r3", models=("m1", "m2")),
    ]
    assert len(list(chosen(runs, tally, share=0))) == 2
    assert (tally.twice, tally.chats, tally.replies, tally.calls) == (1, {False: 2}, 2, 2)
    assert tally.models == {"m1": 1, "m2": 1}


def test_the_form_is_the_field_that_holds_the_messages() -> None:
    made = chat(Said("a"), Asked((LOOK,)), tools=({"name": "look"},), models=("m1",))
    plain = json.loads(line_of(made, "messages"))
    table = json.loads(line_of(made, "conversations"))
    assert plain["messages"] == table["conversations"]
    assert plain["tools"] == json.loads(table["tools"]) == list(made.tools)
    assert plain["messages"][1]["tool_calls"][0]["function"]["arguments"] == '{"at":1}'
    assert (plain["model"], plain["id"], len(plain["task"])) == ("m1", made.id, 32)
    bare = json.loads(line_of(chat(Said("a"), Answered("b"), models=("m1", "m2")), "messages"))
    assert bare.keys() == {"id", "task", "messages"}


# --- Secrets: of each kind, in each place -----------------------------------------------------------------------------

SECRETS = {
    "a key": "ghp_" + "a1B2c3D4e5F6g7H8i9J0",
    "an address": "postgres://mia:hunter2@db.example/x",
    "a header": "Authorization: Bearer abc.def-123456",
    "a setting": "DB_PASSWORD=hunter2plum",
    "a private key": "-----BEGIN PRIVATE KEY-----\nMIIEpAIBAAKCAQEAx5MIIEpAIBAAKCAQEA\n-----END PRIVATE KEY-----",
}
PLACES: dict[str, Callable[[str], Recorded]] = {
    "system": lambda it: told(Said("a"), Answered("b"), system=f"Use {it} only."),
    "user": lambda it: told(Said(f"use {it} please"), Answered("b")),
    "reply": lambda it: told(Said("a"), Answered(f"I use {it} now")),
    "text beside a call": lambda it: told(Said("a"), Asked((LOOK,), f"I use {it} now")),
    "argument": lambda it: told(Said("a"), Asked((ToolCall(name="run", arguments={"command": f"x {it} y"}),))),
    "field of an argument": lambda it: told(Said("a"), Asked((ToolCall(name="run", arguments={"of": [{"it": it}]}),))),
    "result": lambda it: told(Said("a"), Asked((LOOK,)), Returned(LOOK, f"it is {it} there"), Answered("b")),
    "result in JSON": lambda it: told(
        Said("a"), Asked((LOOK,)), Returned(LOOK, json.dumps({"rows": [{"it": it}]})), Answered("b")
    ),
    "description": lambda it: told(Said("a"), Answered("b"), tools=({"name": "run", "description": f"Takes {it} ."},)),
    "default": lambda it: told(Said("a"), Answered("b"), tools=(of_schema({"type": "string", "default": it}),)),
    "example": lambda it: told(Said("a"), Answered("b"), tools=(of_schema({"type": "string", "examples": [it]}),)),
}


def of_schema(schema: dict[str, Any]) -> dict[str, Any]:
    return {"name": "run", "input_schema": {"type": "object", "properties": {"command": schema}}}


def text_of_all(run: Recorded) -> str:
    return json.dumps([run.system, run.tools, [repr(one) for one in run.events]], ensure_ascii=False)


@pytest.mark.parametrize("form", ["conversations", "messages"])
@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("kind", SECRETS)
def test_a_secret_in_a_recording_is_not_in_its_line(kind: str, place: str, form: Form) -> None:
    run = PLACES[place](SECRETS[kind])
    word = max(SECRETS[kind].replace("\n", " ").split(), key=len)
    assert word in text_of_all(run)
    made = chat_of(run)
    assert made is not None
    line = line_of(made, form).decode()
    assert word not in line
    assert MASK in line
    assert made.masked


@pytest.mark.parametrize("place", PLACES)
def test_what_an_argument_s_name_says_is_secret_is_masked_in_every_place(place: str) -> None:
    """`password` in a call, and the same word wherever else it is said."""
    run = PLACES[place]("plumpie")
    login = ToolCall(name="login", arguments={"password": "plumpie"})
    before = (Said("go"), Asked((login,)), Returned(login, "done"))
    plain = chat_of(run)
    assert plain is not None
    assert "plumpie" in line_of(plain, "messages").decode()
    made = chat(*before, *run.events, system=run.system, tools=run.tools)
    assert "plumpie" not in line_of(made, "messages").decode()
    assert made.messages[1 if not run.system else 2]["tool_calls"][0]["function"]["arguments"] == {"password": MASK}


def test_a_policy_says_which_arguments_are_sensitive() -> None:
    run = told(Said("I am mia"), Asked((ToolCall(name="book", arguments={"who": "mia", "at": "noon"}),)))
    made = chat_of(run, StorePolicy(sensitive=("book.who",)).is_sensitive)
    assert made is not None
    assert made.messages[0]["content"] == f"I am {MASK}"
    assert made.messages[1]["tool_calls"][0]["function"]["arguments"] == {"who": MASK, "at": "noon"}
    plain = chat_of(run)
    assert plain is not None
    assert MASK not in str(plain.messages)


def test_roles_and_names_stay_whatever_was_secret() -> None:
    """A password may be a word that the form itself has."""
    names = ("user", "assistant", "tool", "role", "content", "login", "function", "object", "password", "call_1")
    calls = tuple(ToolCall(name="login", arguments={"password": one}) for one in names)
    results = tuple(Returned(one, "done") for one in calls)
    schema = {"type": "object", "properties": {"password": {"type": "string"}}, "required": ["password"]}
    made = chat(Said("a"), Asked(calls), *results, Answered("b"), tools=({"name": "login", "input_schema": schema},))
    assert_legal(made.messages)
    assert made.tools[0]["function"] == {"name": "login", "parameters": schema}
    assert {one["function"]["name"] for one in made.messages[1]["tool_calls"]} == {"login"}
    assert all(list(one["function"]["arguments"]) == ["password"] for one in made.messages[1]["tool_calls"])


# --- Any recording ----------------------------------------------------------------------------------------------------

WORDS = ["order", "4411", "is", "on", "its", "way;", "the", "lamp", "— naïve", "café 🙂", "weighs", "12.5", "kg\n"]


def said_so(words: st.SearchStrategy[list[str]]) -> st.SearchStrategy[str]:
    return words.map(" ".join)


texts = said_so(st.lists(st.sampled_from(WORDS), min_size=1, max_size=8))
calls_ = st.builds(
    ToolCall,
    name=st.sampled_from(["look", "seek"]),
    arguments=st.dictionaries(st.sampled_from(["at", "of"]), texts | st.integers() | st.lists(texts, max_size=2)),
    id=st.none() | st.sampled_from(["1", "2"]),
)
events_ = st.lists(
    st.builds(Said, texts)
    | st.builds(Answered, texts)
    | st.builds(Asked, st.lists(calls_, min_size=1, max_size=3).map(tuple), st.just("") | texts),
    max_size=8,
)


@st.composite
def recordings(draw: st.DrawFn) -> Recorded:
    """Conversations of several tasks, in which results are late, missing or of nobody's call."""
    events: list[Event] = []
    for event in draw(events_):
        events.append(event)
        if isinstance(event, Asked):
            answered = draw(st.permutations(event.calls))
            events += [Returned(one, draw(texts)) for one in answered[: draw(st.sampled_from([9, 9, 9, 1]))]]
    for _ in range(draw(st.integers(0, 2))):
        events.insert(
            draw(st.integers(0, len(events))), draw(st.builds(Said, texts) | st.builds(Returned, calls_, texts))
        )
    task = draw(st.sampled_from([f"t{n}" for n in range(6)]))
    return told(*events, task=task, system=draw(st.just("") | texts))


def assert_legal(messages: Any) -> None:
    """What chat templates and the APIs ask for."""
    before, waiting, met = "", set[str](), set[str]()
    for one in messages:
        role = one["role"]
        assert isinstance(one["content"], str)
        if role == "tool":
            assert one["tool_call_id"] in waiting
            waiting.discard(one["tool_call_id"])
        else:
            assert not waiting
            assert role in {"": "system user", "system": "user", "user": "assistant", "assistant": "user",
                            "tool": "assistant user"}[before].split()  # fmt: skip
            assert role == "assistant" or one.keys() == {"role", "content"}
            waiting = {call["id"] for call in one.get("tool_calls", ())}
            assert len(waiting) == len(one.get("tool_calls", ()))
            assert not waiting & met
            met |= waiting
        before = role
    assert before == "assistant"


@given(st.lists(recordings(), max_size=6), st.floats(0, 1), st.sampled_from(["conversations", "messages"]))
def test_any_recording_becomes_lines_that_parse_with_each_task_on_one_side(
    runs: list[Recorded], share: float, form: Form
) -> None:
    tally = ExportTally()
    sides: dict[str, bool] = {}
    ids: list[str] = []
    for made, held_out in chosen(runs, tally, share=share):
        line = line_of(made, form)
        assert line.count(b"\n") == 1
        assert line.endswith(b"\n")
        read = json.loads(line)
        assert sides.setdefault(read["task"], held_out) == held_out == is_held_out(read["task"], share)
        assert_legal(read[form])
        assert all(
            isinstance(json.loads(call["function"]["arguments"]), dict)
            for one in read[form]
            for call in one.get("tool_calls", ())
        )
        ids.append(read["id"])
    assert len(ids) == len({*ids}) == tally.chats.total()
    assert len(ids) + tally.bare + tally.twice == len(runs)
    assert tally.tasks == sides


@given(recordings())
def test_ordinary_words_are_what_they_were_byte_for_byte(run: Recorded) -> None:
    """A mask that takes everything would be safe, and of no use."""
    made = chat_of(run)
    if made is None:
        return
    assert not made.masked
    calls = [call for event in run.events if isinstance(event, Asked) for call in event.calls]
    mine = [one["function"] for message in made.messages for one in message.get("tool_calls", ())]
    asked = [{"name": one.name, "arguments": dict(one.arguments)} for one in calls]
    assert all(one in asked for one in mine)
    whole = "\n".join(one.result if isinstance(one, Returned) else one.text for one in (*run.events, Said(run.system)))
    for message in made.messages:
        for part in message["content"].split("\n"):
            assert part in whole


@given(st.sets(st.text(max_size=8), min_size=1, max_size=40), st.floats(0, 1))
def test_a_larger_share_holds_out_more_and_lets_nothing_back(tasks: set[str], share: float) -> None:
    """So a file that was held out stays so when the share grows."""
    runs = [told(Said(one or "x"), Answered("b"), task=one, id_=str(at)) for at, one in enumerate(sorted(tasks))]
    small = {made.task for made, out in chosen(runs, ExportTally(), share=share / 2) if out}
    large = {made.task for made, out in chosen(runs, ExportTally(), share=share) if out}
    assert small <= large


def test_the_share_of_many_tasks_is_about_what_was_asked_for() -> None:
    runs = [told(Said(str(n)), Answered("b"), id_=str(n)) for n in range(400)]
    tally = ExportTally()
    list(chosen(runs, tally, share=0.2))
    assert 50 < tally.chats[True] < 110


def test_runs_are_told_with_their_tools_and_models() -> None:
    """In the form of the Messages API and in that of chats."""
    chat_form = {"type": "function", "function": {"name": "b", "parameters": {"type": "object"}, "strict": True}}
    entry = {
        "messages": [],
        "tools": [{"name": "a", "input_schema": {}}, chat_form, {"type": "web_search"}],
        "model": "m",
    }
    run = run_of(entry, "r")
    assert run.tools == ({"name": "a", "input_schema": {}}, {"name": "b", "input_schema": {"type": "object"}})
    assert run.models == ("m",)

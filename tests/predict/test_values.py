"""How values are found: symbols of calls, shapes in text, leaves of results, sources of arguments."""

from __future__ import annotations

from typing import Any

import pytest

from agentaccel.predict.context import key_of, value_of
from agentaccel.predict.events import Answered, Event, Said
from agentaccel.predict.flatten import MOST_ELEMENTS, MOST_LEAVES, leaves_of
from agentaccel.predict.predictor import Predictor
from agentaccel.predict.tokens import MOST_TEXT, shape, symbol_of, values_in
from tests.predict.loops import call, learn, play, step


@pytest.mark.parametrize(
    ("arguments", "symbol"),
    [
        ({"command": "git diff --stat"}, "run:git.diff"),
        ({"command": "cd /src && FOO=1 sudo timeout 5 /usr/bin/git log"}, "run:git.log"),
        ({"cmd": "python -m pytest -q"}, "run:python.pytest"),
        ({"cmd": "python train.py"}, "run:python"),
        ({"script": "cat notes"}, "run:cat"),
        ({"command": "?!"}, "run"),
        ({"command": ["ls"]}, "run"),
        ({"query": "with x as (select 1) select * from x"}, "run:with"),
        ({"query": "weather in Rome"}, "run"),
        ({"sql": "DELETE FROM t"}, "run:delete"),
    ],
)
def test_a_call_is_told_by_the_shape_of_its_argument(arguments: dict[str, Any], symbol: str) -> None:
    assert symbol_of(call("run", **arguments)) == symbol
    assert symbol_of(call("other", **arguments)) == symbol.replace("run", "other")


@pytest.mark.parametrize(
    ("value", "expected"),
    [("mia_li_3668", "a_a_94"), ("SFO", "A3"), ("4WQ150", "X6"), ("2024-05-20", "94-92-92"), ("é", "é")],
)
def test_ids_of_a_kind_have_one_shape(value: str, expected: str) -> None:
    assert shape(value) == expected


def test_things_in_text_are_found_by_their_form() -> None:
    found = values_in("Book 'Deluxe Room' on 3rd of May 2024 for $1,250.50, see https://a.io/x?y=1. Mail /tmp/a.txt")
    assert found["~quoted"] == ["Deluxe Room"]
    assert found["~date"] == ["2024-05-03"]
    assert 1250.5 in found["~number"]
    assert found["~url"] == ["https://a.io/x?y=1"]
    assert found["~path"] == ["/tmp/a.txt"]


def test_little_of_a_long_result_is_kept() -> None:
    rows = [{"id": f"R{number}", "parts": [f"{number}-{at}" for at in range(50)]} for number in range(5000)]
    leaves = leaves_of(str(rows))
    assert sum(map(len, leaves.values.values())) <= MOST_LEAVES
    assert all(len(one) <= MOST_TEXT for one in leaves.values)
    kept = leaves_of('{"rows": [' + ",".join(f'{{"id": "R{number}"}}' for number in range(200)) + "]}")
    assert len(kept.values[".rows[*].id"]) == MOST_ELEMENTS == len(kept.records[".rows[*]"])


def test_keys_of_an_object_are_values_where_they_name_things() -> None:
    leaves = leaves_of('{"cards": {"card_77": {"bank": "A"}, "card_78": {"bank": "B"}}, "name": {"first": "Mia"}}')
    assert leaves.values[".cards.<key>"] == ["card_77", "card_78"]
    assert leaves.values[".cards.*.bank"] == ["A", "B"]
    assert leaves.values[".name.first"] == ["Mia"]


def test_keys_of_an_object_are_values_where_each_has_a_number() -> None:
    tables = leaves_of('{"tables": {"orders": 120, "refunds": 7.5}, "state": {"on": true, "off": false}}')
    assert tables.values[".tables.<key>"] == ["orders", "refunds"]
    assert tables.values[".tables.orders"] == [120]
    assert ".state.<key>" not in tables.values
    for fields in ('{"first": "Mia", "last": "Li"}', '[{"seat": 1, "price": 80}, {"seat": 2, "price": 90}]'):
        assert not [path for path in leaves_of(fields).values if "<key>" in path]


def test_a_token_with_colons_is_found_whole_and_in_parts() -> None:
    found = values_in("At 14:30 pull hub.io/team/app:1.2.3 (see arn:aws:s3:::logs/k1), not https://a.io:80/c. Note: ok")
    assert found["92:92"] == ["14:30"]
    assert found["92"] == ["14", "30", "80"]
    assert found["a.a/a/a:91.91.91"] == ["hub.io/team/app:1.2.3"]
    assert found["a:a:a91:::a/a91"] == ["arn:aws:s3:::logs/k1"]
    assert not [value for values in found.values() for value in values if value in ("Note:", "a.io:80/c")]


@pytest.mark.parametrize(
    ("result", "argument", "source"),
    [
        (lambda n: {"at": f"2024-05-{10 + n}T10:15:00"}, lambda n: f"2024-05-{10 + n}", "split"),
        (lambda n: {"file": f"/srv/data/report{n}.txt"}, lambda n: f"report{n}.txt", "basename"),
        (lambda n: {"file": f"/srv/data{n}/report.txt"}, lambda n: f"/srv/data{n}", "dirname"),
        (lambda n: {"name": f"Room {n} North"}, lambda n: f"room_{n}_north", "join"),
        (lambda n: {"name": f"HALL{n}Q"}, lambda n: f"hall{n}q", "lower"),
        (lambda n: {"page": 100 + n}, lambda n: 101 + n, "add"),
        (lambda n: {"room": f"R{n}X"}, lambda n: f"#R{n}X", "prefix"),
        (lambda n: {"count": f"{1000 + n}"}, lambda n: 1000 + n, "number"),
        (lambda n: {"code": f"K{n}J"}, lambda n: [f"K{n}J"], "list"),
        (lambda n: f"The parcel {n + 20}-AB-7 is with us, that is all.", lambda n: f"{n + 20}-AB-7", "~92-A2-91"),
        (lambda n: f"Newest is a/app:1.{n + 20}.2, that is all.", lambda n: f"a/app:1.{n + 20}.2", "~a/a:91.92.91"),
        (lambda n: {"rows": {f"t_{n}a": 3, f"t_{n}b": 4}}, lambda n: f"t_{n}a", "result look.rows.<key>"),
        (lambda n: f"- K{n}A\n- K{n}B", lambda n: f"K{n}A", "result"),
        (lambda n: f"{{'id': 'K{n}A', 'odd': None}}", lambda n: f"K{n}A", "result"),
    ],
)  # fmt: skip
def test_an_argument_is_made_of_a_value_at_hand(result: Any, argument: Any, source: str) -> None:
    def session(number: int) -> list[Event]:
        looked = step((call("look"), result(number)))
        return [Said("Go on."), *looked, *step((call("use", it=argument(number)), "ok")), Answered("Done.")]

    predictor = learn(Predictor(), map(session, range(11, 18)))
    best = play(predictor, session(9)[:3]).predict()[0]
    assert best.call == call("use", it=argument(9))
    assert source in best.rule


def test_what_the_user_mentions_is_picked_from_a_list() -> None:
    names = [f"channel-{letter}" for letter in "abcdefgh"]

    def session(number: int) -> list[Event]:
        name = names[number * 5 % 8]
        listed = step((call("list_channels"), names))
        return [
            Said(f"What is new in {name}?"),
            *listed,
            *step((call("read", channel=name), "[]")),
            Answered("Nothing."),
        ]

    predictor = learn(Predictor(), map(session, range(16)))
    for number in range(8):
        best = play(predictor, session(number)[:3]).predict()[0]
        assert best.call == call("read", channel=names[number * 5 % 8])


@pytest.mark.parametrize(
    "value", ["mia", "\0mia", 1, 1.5, True, None, [1, "a"], {"b": {"a": []}}, 2**80, [2**80, float("inf")], ["\ud800"]]
)
def test_a_value_is_had_back_from_its_key(value: Any) -> None:
    """As it was: large integers, too, and what no JSON of a provider holds."""
    again = value_of(key_of(value))
    assert again == value
    assert type(again) is type(value)


def test_what_is_no_key_is_no_value() -> None:
    for key in ("\0", "\0{", "\0" + "[" * 100_000):
        with pytest.raises(ValueError, match=r"Expecting|nested"):
            value_of(key)

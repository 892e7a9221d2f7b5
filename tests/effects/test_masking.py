"""Credentials are masked wherever they stand, and nothing else is changed: each kind, in each place."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from agentaccel.effects.masking import DEEPEST, MASK, Masks
from agentaccel.effects.secrets import credentials
from agentaccel.policy import StorePolicy

KEY = "ghp_" + "a1B2c3D4e5F6g7H8i9J0"
LINES = f"{'MIIEpAIBAAKCAQEAx5' * 4}\n{'q8Zk1vXw2LmNp4Rt7Yb3' * 3}\nAb9=\n"
PEM = f"-----BEGIN RSA PRIVATE KEY-----\n{LINES}-----END RSA PRIVATE KEY-----"
KINDS = {
    "a key of GitHub": (f"take {KEY} for it", KEY),
    "a key of Anthropic": ("x=sk-ant-api03-abcDEF123456_-xyz789", "sk-ant-api03-abcDEF123456_-xyz789"),
    "a key longer than its form": ("eyJhbGciOiJIUzI1NiJ9." + "b1" * 300 + ".c2d3e4f5 is it", "c2d3e4f5"),
    "a key behind another sign": ("Xghp_a1B2c3D4e5F6g7H8i9J0", "a1B2c3D4e5F6g7H8"),
    "a private key": (f"here:\n{PEM}\nand on", "Ab9="),
    "a private key in JSON": (json.dumps(PEM)[1:-1], "Ab9="),
    "a private key that is cut": (PEM.partition("Ab9=")[0] + "… (cut)", "q8Zk1vXw2LmNp4Rt7Yb3"),
    "a header": ("curl -H 'Authorization: Bearer abc.def-123456' x", "abc.def-123456"),
    "cookies": ("Cookie: theme=dark; flavour=a81kx02lq9", "a81kx02lq9"),
    "an address with a password": ("postgres://mia:hunter2@db.example/x", "hunter2"),
    "a connection": ("Server=db;Database=x;User Id=mia;Password=plum42", "plum42"),
    "a setting": ("export DB_PASSWORD=hunter2plum && run", "hunter2plum"),
    "a setting in quotes": ('password = "correct horse battery"', "battery"),
    "a short setting in quotes": ("with password: 'q7w', then", "q7w"),
    "JSON that is cut": ('{"n": 1, "password": "q7w", "no', "q7w"),
    "escaped JSON that is cut": (r'{"it": "{\"password\": \"q7w\", \"no', "q7w"),
    "a setting longer than its form": ("api_key=" + "x1" * 150 + "END", "END"),
    "a recovery phrase": ("legal winner thank year wave sausage worth useful legal winner thank yellow", "sausage"),
    "a recovery phrase on lines": (
        "1. legal\n2. winner\n3. thank\n4. year\n5. wave\n6. sausage\n7. worth\n8. useful\n9. legal\n10. winner\n"
        "11. thank\n12. yellow",
        "sausage",
    ),
    "a user with a password": ("mia:Pass1word2x", "Pass1word2x"),
    "a word without any order": ("use q8Zk1vXw2LmNp4Rt7Yb3.Hd6Jf9Gs0Aa1Bb2C now", "Hd6Jf9Gs0Aa1Bb2C"),
    "a packed key": (f"got {base64.b64encode(KEY.encode()).decode()} back", base64.b64encode(KEY.encode()).decode()),
}
"""What is said, and what of it nobody is to read."""
TOOLS: dict[str, Callable[[Masks, str], Any]] = {
    "a text": lambda masks, said: masks.text(said),
    "a result in JSON": lambda masks, said: masks.text(json.dumps({"rows": [{"note": said}]})),
    "JSON within JSON": lambda masks, said: masks.text(json.dumps([json.dumps({"note": said})])),
    "an argument": lambda masks, said: masks.arguments("run", {"command": said}),
    "an argument's field": lambda masks, said: masks.arguments("run", {"of": [{"it": said}]}),
    "the name of a field": lambda masks, said: masks.arguments("run", {"of": {said: 1}}),
    "a description": lambda masks, said: masks.schema("run", {"description": said}),
    "a default": lambda masks, said: masks.schema("run", {"properties": {"command": {"default": said}}}),
    "an example": lambda masks, said: masks.schema("run", {"properties": {"command": {"examples": [said]}}}),
}


@pytest.mark.parametrize("place", TOOLS)
@pytest.mark.parametrize("kind", KINDS)
def test_a_credential_is_masked_in_every_place(kind: str, place: str) -> None:
    said, secret = KINDS[kind]
    assert secret in said
    masks = Masks()
    made = json.dumps(TOOLS[place](masks, said), ensure_ascii=False)
    assert secret not in made
    assert MASK in made
    assert masks.count


def test_what_stands_around_a_credential_stays() -> None:
    """A mask in place of the line would be safe, and of no use."""
    said = f"git clone https://example.com/x && login {KEY}, then run the tests of src/app.py"
    assert Masks().text(said) == said.replace(KEY, MASK)
    assert Masks().text('{"user": "mia", "password": "plum", "n": 12345678901234567890123}') == (
        '{"user": "mia", "password": "<redacted>", "n": 12345678901234567890123}'
    )


ORDINARY = (
    "The order 4411 left on 2026-11-27 at 09:30; it weighs 12.5 kg.",
    "def login(user, password):\n    return check(user, password)\n",
    'token = found if found else None  # max_tokens=4096, "session_id": session_id',
    "Viewed code:\ndjango/contrib/auth/migrations/0011_update_proxy.py\nmodel_key = make_model_tuple(base2)",
    "commit 4f2a9c1be07d5e3344aa00bb11cc22dd33ee44ff in /usr/lib/python3.12/site-packages/click/core.py",
    "see https://docs.example.com/guide/how-prompt-caches-work-in-practice?page=2#section-3",
    "id 123e4567-e89b-42d3-a456-426614174000, sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
    'password: str = "", secret: bytes | None = None; "password": null',
    "Authorization: Bearer <token>\nexport API_KEY=your_key_here",
    '{ "a" : 1,  "b": [true, null, 1.50] }',
    "[not json, but begins so",
    "日本語のテキスト — naïve café 🙂\r\n\ttabs and\x0bodd spaces\u00a0stay ",
)


@pytest.mark.parametrize("said", ORDINARY)
def test_ordinary_text_is_unchanged_byte_for_byte(said: str) -> None:
    masks = Masks()
    assert masks.text(said) == said
    assert masks.arguments("run", {"note": said, "n": 1, "on": True, "of": None}) == {
        "note": said, "n": 1, "on": True, "of": None,
    }  # fmt: skip
    assert masks.everywhere(said) == said
    assert not masks.count


@pytest.mark.parametrize(
    "arguments",
    [
        {"password": "plum"},
        {"password": 40414243},
        {"user": {"password": "plum"}},
        {"credentials": {"of": {"mia": "plum"}}},
        {"cookies": ["plum"]},
        {"api_key": "plum"},
        {"db_password": "a plum in a pie"},
    ],
)
def test_a_value_is_masked_by_the_name_of_its_argument(arguments: dict[str, Any]) -> None:
    made = json.dumps(Masks().arguments("login", arguments))
    assert MASK in made
    assert "plum" not in made
    assert "40414243" not in made


def test_a_policy_says_what_is_sensitive() -> None:
    """By the patterns of StorePolicy, for a field by its path or its name, whatever the value is; also what a schema
    gives for it."""
    sensitive = StorePolicy(sensitive=("book.passenger.*", "*.seat")).is_sensitive
    given = {"passenger": {"name": "Mia", "age": 41}, "seat": ["12A"], "cabin": "economy"}
    assert Masks(sensitive).arguments("book", given) == {
        "passenger": {"name": MASK, "age": MASK}, "seat": [MASK], "cabin": "economy",
    }  # fmt: skip
    assert Masks(sensitive).arguments("look", given)["passenger"] == given["passenger"]
    assert Masks().arguments("book", given) == given
    schema = {"properties": {"seat": {"type": "string", "default": "12A"}, "cabin": {"default": "economy"}}}
    made = Masks(sensitive).schema("book", schema)
    assert made["properties"] == {"seat": {"type": "string", "default": MASK}, "cabin": {"default": "economy"}}


def test_what_is_masked_by_its_name_is_masked_everywhere_else() -> None:
    masks = Masks(StorePolicy(sensitive=("login.user",)).is_sensitive)
    masks.arguments("login", {"password": "plum pie", "user": "mia", "pin_code": 'say "x" é'})
    masks.arguments("login", {"password": 40414243, "passphrase": 'say "x" é', "secret": "ox"})
    said = 'I am mia: my password was plum pie, then 40414243, and the phrase say "x" é. An ox, a miasma.'
    made = masks.everywhere(said)
    assert made == f"I am {MASK}: my password was {MASK}, then {MASK}, and the phrase {MASK}. An ox, a miasma."
    assert MASK in masks.everywhere(json.dumps({"it": 'say "x" é'}))
    assert MASK in masks.everywhere(json.dumps({"it": 'say "x" é'}, ensure_ascii=False))
    assert masks.everywhere({"n": [40414243, 5, True]}) == {"n": [MASK, 5, True]}


def test_a_schema_stays_a_schema() -> None:
    """Names and types of arguments are no values, whatever they are called."""
    schema = {
        "type": "object",
        "required": ["password"],
        "properties": {
            "password": {
                "type": "string",
                "description": "The user's own, a string.",
                "minLength": 8,
                "default": "plum",
            },
            "secret_kind": {"enum": ["token", "password"]},
        },
        "$defs": {"token": {"anyOf": [{"type": "string", "example": "a1b2c3d4e5"}, {"type": "null"}]}},
    }
    masks = Masks()
    masks.arguments("login", {"password": "string"})
    masks.arguments("login", {"password": "password"})
    made = masks.everywhere(masks.schema("login", schema), schema=True)
    assert made["properties"]["password"].pop("default") == MASK
    assert made["$defs"]["token"]["anyOf"][0].pop("example") == MASK
    assert made["properties"]["password"].pop("description") == f"The user's own, a {MASK}."
    del schema["properties"]["password"]["description"]  # type: ignore[index,attr-defined]
    del schema["properties"]["password"]["default"], schema["$defs"]["token"]["anyOf"][0]["example"]  # type: ignore[index,attr-defined]
    assert made == schema


def test_what_is_nested_too_deeply_is_masked_as_a_whole() -> None:
    deep: Any = "plum"
    for _ in range(3 * DEEPEST):
        deep = {"a": [deep]}
    assert "plum" not in json.dumps(Masks().arguments("run", {"of": deep}))
    assert "plum" not in json.dumps(Masks().schema("run", deep))
    assert "plum" not in Masks().text(json.dumps(deep))
    assert Masks().text("[" * 20_000) == "[" * 20_000


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=20),
    lambda below: st.lists(below, max_size=3) | st.dictionaries(st.text(max_size=10), below, max_size=3),
    max_leaves=10,
)


@given(st.text(max_size=200), st.sampled_from(sorted(KINDS)), st.text(max_size=20, alphabet=" \n,;()é"))
@example("password=", "a key of GitHub", "")
def test_a_key_is_found_in_any_text(around: str, kind: str, between: str) -> None:
    """Whatever stands before it and behind it, with a space between."""
    said, secret = KINDS[kind]
    if kind == "a user with a password":
        around = between = ""
    made = Masks().text(f"{around}{between}\n{said}\n{between}{around.replace(secret, '')}")
    assert secret not in made


@given(st.text(max_size=300))
def test_places_are_in_order_and_apart(said: str) -> None:
    done = -1
    for start, end in credentials(said):
        assert done < start < end <= len(said)
        done = end


@given(json_values)
def test_masked_values_keep_their_form(value: Any) -> None:
    """Keys, lists and what is no text stay as they are, where no name says that they are secret."""
    masks = Masks()
    made = masks.arguments("run", {"of": value})
    assert masks.count or made == {"of": value}

"""Who is believed, and that nothing that cannot be understood is ever run early."""

from __future__ import annotations

import inspect
import json
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentaccel import Accel, ConfigError, Policy
from agentaccel.effects import shell as parse
from agentaccel.effects.cases import judge
from agentaccel.effects.launch import judge_tool
from agentaccel.effects.places import Surroundings
from agentaccel.effects.spec import spec_of
from agentaccel.effects.sql import surely_sql
from agentaccel.effects.texts import writes
from agentaccel.effects.verdict import Evidence, Source, Verdict, weigh
from agentaccel.types import Effect
from tests.anything import CHARACTERS
from tests.effects.corpora import adversarial, reads


def heard(source: Source, effect: Effect) -> Evidence:
    return Evidence(source=source, effect=effect, why="said in a test")


def test_silence_is_never() -> None:
    """Unknown is never."""
    assert weigh([]).launchable == judge_tool("get_everything", {}).launchable == "never"


def test_the_worst_of_those_that_speak_counts() -> None:
    """An annotation does not outvote what an argument says, nor the other way round."""
    verdict = weigh([heard("annotation", Effect.READ_LOCAL), heard("analyser", Effect.UNKNOWN)])
    assert verdict.launchable == "never"
    assert len(verdict.evidence) == 2
    assert weigh([heard("metadata", Effect.READ_REMOTE), heard("annotation", Effect.PURE)]).launchable == "asked"


@pytest.mark.parametrize("said", ["read_local", "unknown"])
def test_policy_and_declaration_decide_in_either_direction(said: str) -> None:
    """The user knows the tool; policy stands above code."""
    wanted = "predicted" if said == "read_local" else "never"
    other = "unknown" if said == "read_local" else "pure"
    analysed = [heard("analyser", Effect(other))]
    assert judge_tool("t", {}, declaration=said, heard=analysed).launchable == wanted
    assert judge_tool("t", {}, policy={"t": said}, declaration=other, heard=analysed).launchable == wanted
    assert judge_tool("t", {}, policy={"T": said}, declaration=other).launchable != wanted  # another name


def test_what_was_seen_to_write_stays_demoted() -> None:
    """Whoever says otherwise."""
    verdict = judge_tool("t", {}, policy={"t": "pure"}, declaration="pure", writes_seen=True)
    assert verdict.launchable == "never"


def test_a_predicate_tells_the_effect_from_the_arguments() -> None:
    """Per-argument predicates; one that fails or says nonsense is no permission."""
    by_verb = lambda arguments: "read_local" if arguments["verb"] == "get" else "unknown"  # noqa: E731
    assert judge_tool("t", {"verb": "get"}, declaration=by_verb).launchable == "predicted"
    assert judge_tool("t", {"verb": "put"}, declaration=by_verb).launchable == "never"
    assert judge_tool("t", {}, declaration=by_verb).launchable == "never"
    assert judge_tool("t", {}, declaration=lambda arguments: None).launchable == "never"  # type: ignore[arg-type,return-value]


def test_a_predicate_can_be_declared_on_a_tool() -> None:
    """`@accel.tool(effect=…)` takes it, and the tool runs as before."""
    accel = Accel(Policy(mode="observe"))

    def by_verb(arguments: Any) -> str:
        return "read_local"

    @accel.tool(effect=by_verb)
    def ask(verb: str) -> str:
        return verb

    assert ask("get") == "get"
    assert (spec := spec_of(ask)) is not None
    assert spec.effect is by_verb
    with pytest.raises(ConfigError):
        accel.tool(effect="harmless")


@pytest.mark.parametrize(
    "case",
    [
        None,
        5,
        [],
        "ls",
        {},
        {"kind": "shell"},
        {"kind": "shell", "input": "ls"},
        {"kind": "shell", "input": {}},
        {"kind": "shell", "input": {"command": ["ls"]}},
        {"kind": "shell", "input": {"command": None}},
        {"kind": "shell", "input": {"command": "ls", "env": {"PAGER": "x"}}},
        {"kind": "shell", "input": {"command": "ls", "shell": True}},
        {"kind": "shell", "input": {"command": "git status"}, "cwd": 5, "home": "/x"},
        {"kind": "shell", "input": {"command": "git status"}, "cwd": "relative", "home": "/x"},
        {"kind": "shell", "input": {"command": "ls"}, "cwd": "/x\0y"},
        {"kind": "shell", "input": {"command": "ls \ud800"}},
        {"kind": "shell", "input": {"command": "ls " + "a" * 100_000}},
        {"kind": "Shell", "input": {"command": "ls"}},
        {"kind": ["shell"], "input": {"command": "ls"}},
        {"kind": "sql", "input": {"sql": 5}},
        {"kind": "sql", "dialect": 5, "input": {"sql": "SELECT 1"}},
        {"kind": "sql", "dialect": "postgres", "input": {"sql": "SELECT " + "(" * 5_000}},
        {"kind": "sql", "dialect": "postgres", "input": {"sql": "SELECT " + "-" * 9_000 + "1"}},
        {"kind": "http", "input": {"method": "GET"}},
        {"kind": "http", "input": {"method": "GET", "url": 5}},
        {"kind": "http", "input": {"method": ["GET"], "url": "https://example.com/"}},
        {"kind": "mcp", "input": {}},
        {"kind": "shell", "input": {"command": " && ".join(["ls"] * 1_500) + " && rm x"}},
        {"kind": "shell", "input": {"command": "sed " + "s/\\a" * 1_500}},
        {"kind": "shell", "input": {"command": "awk '" + "NR==1 && " * 800 + "'"}},
        {"kind": "http", "input": {"method": "GET", "url": "https://" + "a." * 3_900}},
    ],
)
def test_what_is_malformed_is_never(case: object) -> None:
    """And no exception, for any input."""
    assert judge(case).launchable == "never"


@pytest.mark.slow
def test_long_text_is_told_quickly() -> None:
    """No pattern tries the ways to read a text one by one: this ends at all."""
    assert not surely_sql("/**/" * 20_000 + "x")
    assert surely_sql("/**/" * 20_000 + "DELETE FROM t")
    assert not surely_sql("with " * 20_000)
    for text in ("/*" * 40_000, "cp x\n" * 19_000, "create or " * 9_000, "(" * 90_000, "$" * 90_000, "a.b " * 20_000):
        assert writes(text) is None
    assert writes("x" * 100_001) is not None


def test_a_text_that_is_built_as_a_statement_may_hold_no_word_of_writing() -> None:
    """A sentence may; what it may not begin with stands in the data file."""
    for text in ("delete the notes", "Who may delete a note, and when?", "C++: set & get", "notes (of mine)"):
        assert writes(text) is None, text
    for text in ("x { delete }", "notes (delete)", "a = b; drop", "x\nDELETE FROM t", "db . notes . insertOne ({})"):
        assert writes(text) is not None, text


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(CHARACTERS, max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(CHARACTERS, max_size=6), inner, max_size=3),
    max_leaves=8,
)


@pytest.mark.slow
@given(st.sampled_from([*adversarial(), *reads()]), st.data())
@settings(max_examples=5 * settings.default.max_examples, deadline=None)
def test_a_case_with_a_spoiled_field_raises_nothing(one: Any, data: st.DataObject) -> None:
    """Whatever stands in any field."""
    case = json.loads(one.text)
    place = case if data.draw(st.booleans()) else case["input"]
    place[data.draw(st.sampled_from(sorted(place)))] = data.draw(VALUES)
    assert judge(case).launchable in ("predicted", "asked", "never")


@pytest.mark.slow
@given(st.sampled_from([one for one in adversarial() if one.case["kind"] == "shell"]), st.data())
@settings(max_examples=15 * settings.default.max_examples, deadline=None)
def test_a_refused_command_stays_refused_beside_a_read(one: Any, data: st.DataObject) -> None:
    """Joining a read to it, before or behind, gives no permission."""
    text = one.case["input"]["command"]
    joined = data.draw(
        st.sampled_from([f"ls; {text}", f"ls && {text}", f"{text}\nls", f"cat a | {text}", f"ls\n{text}"])
    )
    if not text.strip(" \n;") or text.lstrip().startswith("#") or text in ("2>/dev/null", "x=1", "ls |"):
        return  # nothing, beside a read, is a read, and so is a variable of no use, or a pipe that goes on
    if one.trick == "waits for input" and joined.startswith("cat a |"):
        return  # now it has input
    assert judge({"kind": "shell", "input": {"command": joined}}).launchable == "never", joined


@pytest.mark.slow
@given(st.text(alphabet=st.sampled_from(list("ab -/.;|&$`'\"\\()<>{}*?~!#=\n0219")), max_size=30))
@settings(max_examples=20 * settings.default.max_examples, deadline=None)
def test_what_the_parser_takes_holds_nothing_that_a_shell_would_act_on(text: str) -> None:
    """Whatever the text, only listed programs with listed words come out."""
    verdict = judge({"kind": "shell", "input": {"command": f"ls {text}"}}, Surroundings())
    if verdict.launchable != "never":
        plain = parse.commands(f"ls {text}")
        assert all(command.words[0].text in ("ls", "cd") for command in plain)


@pytest.mark.parametrize(("module", "case"), [
    ("tree_sitter_bash", {"kind": "shell", "input": {"command": "ls"}}),
    ("sqlglot", {"kind": "sql", "dialect": "sqlite", "input": {"sql": "SELECT 71237"}}),
])  # fmt: skip
def test_without_its_parser_nothing_is_run_early(module: str, case: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The evidence says which extra to install."""
    parse._parser.cache_clear()
    monkeypatch.setitem(sys.modules, module, None)
    verdict = judge(case)
    parse._parser.cache_clear()
    assert verdict.launchable == "never"
    assert 'pip install "agentaccel[effects]"' in verdict.evidence[0].why


def test_without_its_analyser_a_tool_says_once_that_nothing_of_it_runs_early() -> None:
    code = (
        "import logging, sys\n"
        "sys.modules['tree_sitter'] = sys.modules['sqlglot'] = None\n"
        "logging.basicConfig(format='%(message)s', stream=sys.stdout)\n"
        "from agentaccel.effects.places import Surroundings\n"
        "from agentaccel.effects.shell import judge_shell\n"
        "from agentaccel.effects.sql import judge_sql\n"
        "there = Surroundings()\n"
        "found = [judge_shell('ls', there), judge_shell('ls', there), judge_sql('select 1', 'sqlite')]\n"
        "print([one.launchable for one in found])\n"
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert said.splitlines() == [
        'agentaccel: no shell line is run early: tree-sitter-bash is not installed: pip install "agentaccel[effects]"',
        'agentaccel: no sql line is run early: sqlglot is not installed: pip install "agentaccel[effects]"',
        "['never', 'never', 'never']",
    ]


def deep(frames: int, ask: Callable[[], Verdict]) -> Verdict:
    return ask() if frames <= 0 else deep(frames - 1, ask)


@pytest.mark.parametrize("kind", ["sql", "shell"])
def test_a_failure_for_want_of_the_callers_stack_is_forgotten(kind: str) -> None:
    """The same text, with nearly no stack left and with all of it: both are reads."""
    texts = {"sql": "select a, b from t where id = 70 and b = 71", "shell": "ls -la src/seventy"}
    case = {"kind": kind, "input": {"sql" if kind == "sql" else "command": texts[kind]}, **(
        {"dialect": "sqlite"} if kind == "sql" else {})}  # fmt: skip
    depth = len(inspect.stack(0))
    seen = {deep(sys.getrecursionlimit() - depth - left, lambda: judge(case)).launchable for left in range(30, 90, 4)}
    assert seen >= {"never"}
    assert judge(case).launchable == "predicted"

"""When two recorded calls are the same call, and which of them only read.

What a log does not say of its tools is data with its source in `calls.toml`. A tool's label `read_only` in the file is
good enough to score a predictor by, and no proof of safety; of a shell the text of the command decides.
"""

from __future__ import annotations

import functools
import tomllib
from collections.abc import Mapping
from pathlib import Path

from agentaccel.effects.places import Surroundings
from agentaccel.effects.shell import judge_shell
from agentaccel.hashing import identity_bytes
from agentaccel.types import ToolCall

Key = tuple[str, bytes]
"""The identity of a call: its tool, and its arguments without those that have no effect on the result."""


def key_of(call: ToolCall) -> Key:
    """What two calls share that are exactly the same.

    >>> one = ToolCall(name="Bash", arguments={"command": "ls", "description": "List"})
    >>> key_of(one) == key_of(ToolCall(name="Bash", arguments={"command": "ls"}))
    True
    """
    left_out = _of_no_effect().get(call.name, frozenset())
    return call.name, identity_bytes({k: v for k, v in call.arguments.items() if k not in left_out})


def only_reads(call: ToolCall, labels: Mapping[str, bool]) -> bool:
    """Whether nothing that was read before is in doubt after `call`; tools without a label may write.

    >>> only_reads(ToolCall(name="Bash", arguments={"command": "rm x"}), {"Bash": False})
    False
    """
    text = call.arguments.get(_shells().get(call.name, ""))
    if isinstance(text, str):
        return _reads(text)
    return labels.get(call.name, False)


@functools.cache
def _reads(command: str) -> bool:
    return judge_shell(command, Surroundings()).launchable != "never"


@functools.cache
def _of_no_effect() -> Mapping[str, frozenset[str]]:
    return {tool: frozenset(names) for row in _data()["of_no_effect"] for tool, names in row["arguments"].items()}


@functools.cache
def _shells() -> Mapping[str, str]:
    return {tool: name for row in _data()["shell"] for tool, name in row["arguments"].items()}


def _data() -> dict[str, list[dict[str, dict[str, str]]]]:
    return tomllib.loads(Path(__file__).with_name("calls.toml").read_text(encoding="utf-8"))

"""A launch written out: for a shell, for a program, for Kubernetes, and as the engine's own file. All say the same."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from agentaccel.selfhost.render import Launch
from agentaccel.selfhost.tables import name_of


def as_shell(launched: Launch) -> str:
    """One line for a POSIX shell: the variables, and the command."""
    return " ".join(
        [*(f"{name}={shlex.quote(value)}" for name, value in launched.env.items()), shlex.join(launched.argv)]
    )


def as_told(launched: Launch) -> str:
    """The same for people who look on: without the values of variables, and of options that are named for a secret."""
    return " ".join([*(f"{name}={_HIDDEN}" for name in launched.env), *_told(launched.argv)])


def _told(words: Iterable[str]) -> Iterator[str]:
    """Words as a shell takes them. What follows the name of a secret is hidden up to the next option: some take several
    values. The first is hidden also where it looks like an option."""
    hides = first = False
    for word in words:
        name, joined, _ = word.partition("=")
        secret = _SECRET.search(name) is not None
        if hides and (first or not word.startswith("-")):
            yield _HIDDEN
            first = False
            continue
        hides = first = secret and not joined and word.startswith("-")
        yield f"{shlex.quote(name)}={_HIDDEN}" if secret and joined else shlex.quote(word)


_SECRET = re.compile(r"(keys?|token|passwords?|secrets?)$|^-hft$", re.IGNORECASE)
"""Ends the names of options and variables that hold a secret; -hft is llama.cpp's short word for --hf-token."""
_HIDDEN = "…"


def as_json(launched: Launch) -> str:
    """What a program would start: `argv`, `env`, and the rest by the names of `Launch`."""
    value = {
        "engine": launched.engine,
        "version": launched.version,
        "argv": launched.argv,
        "env": launched.env,
        "file": launched.file,
        "reads": launched.reads,
        "url": f"http://{launched.host}:{launched.port}",
        "health": launched.health,
        "reasons": launched.reasons,
    }
    return json.dumps(value, ensure_ascii=False, indent=2)


def as_yaml(launched: Launch) -> str:
    """A container of a Kubernetes pod and, where the engine reads one, its own file: two documents, and the reasons."""
    probe = {"httpGet": {"path": launched.health, "port": launched.port}}
    container: dict[str, Any] = {
        "name": launched.engine,
        "command": list(map(_unexpanded, launched.program)),
        "args": list(map(_unexpanded, launched.arguments)),
        "env": [{"name": name, "value": _unexpanded(value)} for name, value in launched.env.items()],
        "ports": [{"name": "http", "containerPort": launched.port}],
        "startupProbe": {**probe, "periodSeconds": 5, "failureThreshold": 120},
        "readinessProbe": probe,
    }
    head = [
        f"# {name_of(launched.engine)} {launched.version}: a container of a pod",
        *(f"# {one}" for one in launched.reasons),
    ]
    lines = [*head, *_yaml({name: value for name, value in container.items() if value != []})]
    if launched.file is not None:
        rest = f", but for {shlex.join(launched.extra)}" if launched.extra else ""
        said = f"the file {launched.reads}" if launched.reads else f"the same as a file for --config{rest}"
        lines += ["---", f"# {said}", *_yaml(launched.file)]
    return "\n".join(lines) + "\n"


def _unexpanded(word: str) -> str:
    """A word that Kubernetes, which replaces `$(NAME)`, hands over as it is."""
    return word.replace("$", "$$")


def _yaml(value: Any, indent: str = "") -> list[str]:
    """Lines of YAML. Every string stands in double quotes, as in JSON."""
    if isinstance(value, Mapping):
        pairs = [(f"{indent}{name}:", one) for name, one in value.items()]
    else:
        pairs = [(f"{indent}-", one) for one in value]
    lines = []
    for begin, one in pairs:
        if isinstance(one, Mapping | list) and one:
            inner = _yaml(one, f"{indent}  ")
            joined = begin.endswith("-")  # a member of a list begins on the line of its dash
            lines += [f"{begin} {inner[0].lstrip()}", *inner[1:]] if joined else [begin, *inner]
        else:
            lines.append(f"{begin} {json.dumps(one, ensure_ascii=False)}")
    return lines

"""The fields of a model's `config.json`, read one by one: each says what it must be, and none is guessed. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any, NoReturn

from agentaccel.checks import is_names
from agentaccel.errors import ConfigError
from agentaccel.facts import table

MOST = 10**7
"""A count above this is no dimension of a model."""


def row_of(model_type: str) -> Mapping[str, Any] | None:
    """What `facts/shapes.toml` knows of a `model_type`, the rows that it is like included; None where it is not listed.

    >>> row_of("qwen3")["mlp"], row_of("qwen9")
    ('gated', None)
    """
    models = table("shapes")["models"]
    if model_type not in models:
        return None
    row: dict[str, Any] = models[model_type]
    return {**(row_of(row["like"]) or {}), **row} if "like" in row else row


def _is_set(value: object) -> bool:
    """True if a field says something: null, false, 0 and nothing in a list or an object do not."""
    return value not in (None, False, 0, "", [], {})


def _named(row: Mapping[str, Any]) -> Iterator[str]:
    """The fields by which the row has its experts and its states: a model without such layers may have them, too."""
    for part in ("experts", "state"):
        yield from (value for value in (row.get(part) or {}).values() if isinstance(value, str))


class Fields:
    """A config under its row of the facts. What is read is remembered, and so is what the file does not say."""

    def __init__(self, config: Mapping[str, Any], row: Mapping[str, Any]) -> None:
        self.row = row
        self.config = dict(config)
        self.model_type: str = config["model_type"]
        self.usual: Mapping[str, Any] = row.get("usual", {})
        self.read = {"model_type", *row.get("also", ()), *self.usual, *_named(row)}
        """Names of the fields that are understood: those of the row, needed here or not, and those that were read."""
        self.taken = dict[str, Any]()
        """What the file does not say, and transformers takes."""
        for alias, name in row.get("aliases", {}).items():
            self._name(alias, name)

    def _name(self, alias: str, name: str) -> None:
        """Let `alias` be another name of a field; both may be there, with one value."""
        self.read.add(alias)
        if self.config.get(alias) is not None:
            if self.config.get(name) is None:
                self.config[name] = self.config[alias]
            elif self.config[name] != self.config[alias]:
                self.refuse(alias, f"and {name}, which means the same, is {self._shown(name)}")

    def refuse(self, name: str, what: str) -> NoReturn:
        """Raise: the field cannot be used as it is."""
        raise ConfigError(f"{name} of this config ({self.model_type}) is {self._shown(name)}; {what}")

    def _shown(self, name: str) -> str:
        return json.dumps(self.config.get(name))[:60]

    def get(self, name: str) -> Any:
        """The value, or what is taken where the file does not have the field; None for null, too."""
        self.read.add(name)
        if name not in self.config and name in self.usual:
            self.taken[name] = self.usual[name]
            return self.usual[name]
        return self.config.get(name)

    def count(self, name: str, least: int = 1) -> int:
        """A whole number of at least `least`, which has to be there."""
        value = self.get(name)
        if value is None:
            raise ConfigError(
                f'this config ({self.model_type}) does not say {name}: add "{name}": …, as the '
                "model's own config.json has it"
            )
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= MOST:
            self.refuse(name, f"give a whole number of at least {least}")
        return value

    def maybe(self, name: str, least: int = 1) -> int | None:
        """A whole number, or None where the field is null or missing."""
        return None if self.get(name) is None else self.count(name, least)

    def flag(self, name: str | bool) -> bool:
        """A yes or no: as the facts have it, or that of a field."""
        if isinstance(name, bool):
            return name
        value = self.get(name)
        if value is not None and not isinstance(value, bool):
            self.refuse(name, "give true or false")
        return bool(value)

    def words(self, name: str, length: int | None) -> Sequence[str] | None:
        """A list with one word for each of `length` layers; None where the field is null or missing."""
        value = self.get(name)
        if value is None:
            return None
        if not isinstance(value, list) or not is_names(value):
            self.refuse(name, "give a list with a word for each layer")
        if length is not None and len(value) != length:
            self.refuse(name, f"it has {len(value):,} words for {length:,} layers")
        return [str(word) for word in value]

    def check_rest(self) -> None:
        """Raise `ConfigError` for what may be about attention or weights, and was not understood."""
        for name, allowed in self.row.get("only", {}).items():
            self.read.add(name)
            value = self.config.get(name)
            if value is not None and value != allowed:
                self.refuse(name, f"only {json.dumps(allowed)} is understood")
        if unknown := unknown_fields(self.config, self.read):
            raise ConfigError(
                f"this config ({self.model_type}) has fields that may change what is kept of a token, and that are not "
                f"understood: {', '.join(unknown)}; leave them out of a copy of it if they change neither memory nor "
                "weights"
            )


def unknown_fields(config: Mapping[str, Any], known: set[str]) -> list[str]:
    """Names of the fields that say something, may be about attention, state or weights, and are not `known`."""
    facts = table("shapes")
    names = (name for name, value in config.items() if _is_set(value) and name not in known)
    telling = (name for name in names if any(fnmatchcase(name, pattern) for pattern in facts["telling"]))
    return sorted(name for name in telling if name not in facts["harmless"])

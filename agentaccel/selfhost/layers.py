"""Which layer of a model is which, by the rules of `facts/shapes.toml`: full attention, a window, a state. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from agentaccel.errors import ConfigError
from agentaccel.facts import table
from agentaccel.selfhost.fields import Fields

MOST_LAYERS = 10_000


def kinds_of(fields: Fields) -> list[str]:
    """What each layer is, as `kinds` of the facts calls it. Raises `ConfigError` for a word that it does not list."""
    return [_kind(fields, word) for word in _words(fields, fields.row["layers"])]


def _kind(fields: Fields, word: str) -> str:
    kinds: Mapping[str, str] = table("shapes")["kinds"]
    if word not in kinds:
        raise ConfigError(
            f"a layer of this config ({fields.model_type}) is {word[:60]!r}, of which nobody here has read what it "
            f"keeps of a token; understood are {', '.join(kinds)}"
        )
    return kinds[word]


def _words(fields: Fields, rules: Mapping[str, Any]) -> Sequence[str]:
    if "letters" in rules and (spelled := fields.get(rules["letters"])) is not None:
        return _spelled(fields, rules["letters"], spelled)
    needs_count = "letters" not in rules
    count = fields.count("num_hidden_layers") if needs_count else fields.maybe("num_hidden_layers")
    if count is not None and count > MOST_LAYERS:
        fields.refuse("num_hidden_layers", f"give at most {MOST_LAYERS:,}")
    if "switch" in rules and not fields.flag(rules["switch"]):
        fields.read.update(rules[name] for name in ("list", "after") if name in rules)
        return ["full_attention"] * fields.count("num_hidden_layers")
    if "list" in rules and (said := fields.words(rules["list"], count)) is not None:
        return said
    count = fields.count("num_hidden_layers")
    if "every" in rules:
        return _periodic(fields, rules["every"], count)
    first = fields.count(rules["after"], 0) if "after" in rules else 0
    if "all" not in rules:
        raise ConfigError(
            f"this config ({fields.model_type}) does not say which of its layers is which: add "
            f"{' or '.join(rules[name] for name in ('list', 'letters') if name in rules)}, as the model's own has it"
        )
    return [rules["all"] if index >= first else "full_attention" for index in range(count)]


def _spelled(fields: Fields, name: str, letters: object) -> list[str]:
    known: Mapping[str, str] = table("shapes")["letters"]
    if not isinstance(letters, str) or not letters or len(letters) > MOST_LAYERS or set(letters) - set(known):
        fields.refuse(name, f"give a letter for each layer, of {' '.join(known)}")
    count = fields.maybe("num_hidden_layers")
    if count not in (None, len(letters)):
        fields.refuse(name, f"it has {len(letters)} letters for {count} layers")
    return [known[letter] for letter in letters]


def _periodic(fields: Fields, rule: Mapping[str, Any], count: int) -> list[str]:
    """One layer of each period is of another kind: the last, or the one at an offset."""
    period = rule["usual"]
    if "field" in rule and fields.get(rule["field"]) is not None:
        period = fields.count(rule["field"])
    elif "field" in rule:
        fields.taken[rule["field"]] = period
    at = fields.count(rule["offset"], 0) if "offset" in rule else period - 1
    return [rule["is"] if index % period == at else rule["else"] for index in range(count)]

"""How an engine guesses tokens ahead, in its own options: pure."""

from __future__ import annotations

from collections.abc import Collection

from agentaccel.errors import ConfigError
from agentaccel.selfhost.plan import METHODS, Setting, Speculation
from agentaccel.selfhost.sheet import Row, Sheet


def place_speculation(sheet: Sheet, asked: Speculation, *, lossy: bool, beside: Collection[str]) -> None:
    """Place it on the sheet. `lossy` allows what changes replies; `beside` are the options that were written by hand.

    Raises `ConfigError` for what the engine, in its version, cannot do.
    """
    row, places = _method(sheet, asked.method), sheet.known["speculation"]
    if "cpu" in sheet.words and "not_on_cpu" in places:
        raise ConfigError(f"{sheet.name} does not speculate on a CPU: {places['not_on_cpu']}")
    if asked.method == row["of"] and row["of"] != row["name"]:
        sheet.say(f"{sheet.name}'s way of {asked.method}", f"{places['name']['at']} {row['name']}")
    sheet.place(places["name"]["at"], row["name"])
    rule = row.get("model", "none")
    if asked.model is None and rule == "needed":
        raise ConfigError(f"speculation by {asked.method} needs a model, the draft or the head: name it")
    if asked.model is not None and rule == "none":
        raise ConfigError(f"speculation by {asked.method} takes no model: leave it out")
    if asked.model is not None:
        sheet.place(places["model"]["at"], asked.model)
    sheet.place_all(row)
    _tokens(sheet, asked, row)
    if asked.schedule:
        _schedule(sheet, asked, row, beside)
    for name, value in asked.settings.items():
        _setting(sheet, name, value, row, lossy=lossy)
    sheet.words |= {word for word, holds in row.items() if holds is True}


def _method(sheet: Sheet, wanted: str) -> Row:
    rows: list[Row] = [row for row in sheet.known["methods"] if wanted in (row["name"], row["of"])]
    there = [row for row in rows if sheet.has(row)]
    if there:
        return there[0]
    if rows or wanted in METHODS:
        sheet.lacks(wanted, rows[0] if rows else None)
    names = [row["name"] for row in sheet.known["methods"] if sheet.has(row)]
    raise ConfigError(f"{sheet.name} knows no {wanted}: give one of {', '.join(names)}")


def _tokens(sheet: Sheet, asked: Speculation, row: Row) -> None:
    said = asked.tokens or max((drafted for _, drafted in asked.schedule), default=None)
    value = said or row.get("usual")
    if value is None:
        return
    if "tokens" not in row:
        raise ConfigError(f"{row['name']} of {sheet.name} takes no number of tokens: leave it out")
    for place in row["tokens"]:
        sheet.place(place["at"], int(value * place.get("times", 1)) + place.get("plus", 0))
    if said is None:
        sheet.say(row["why"], f"{row['tokens'][0]['at']} {value}")


def _schedule(sheet: Sheet, asked: Speculation, row: Row, beside: Collection[str]) -> None:
    if "no_schedule" in row:
        raise ConfigError(f"{sheet.name} has no schedule for {row['name']}: {row['no_schedule']}")
    if "schedule" not in row:
        sheet.lacks("schedule")
    if against := [one for one in sheet.known["speculation"].get("no_schedule_with", ()) if one in beside]:
        raise ConfigError(f"{sheet.name} leaves a schedule out under {against[0]}: give one of the two")
    begins = [1, *(load + 1 for load, _ in asked.schedule[:-1])]
    ranges = [[begin, load, drafted] for begin, (load, drafted) in zip(begins, asked.schedule, strict=True)]
    sheet.place(row["schedule"]["at"], ranges)


def _setting(sheet: Sheet, name: str, value: Setting, method: Row, *, lossy: bool) -> None:
    known = sheet.known["speculation"]
    fitting = [one for one, row in known["settings"].items() if method["of"] in row.get("of", (method["of"],))]
    if name not in fitting:
        raise ConfigError(f"{method['name']} of {sheet.name} knows no setting {name}; it knows {', '.join(fitting)}")
    row = known["settings"][name]
    if not sheet.has(row):
        sheet.lacks(name, row)
    if _is_lossy(row, value):
        if not lossy:
            raise ConfigError(f"{name}={value} changes what the model says: leave it out, or insist on it with lossy")
        sheet.say("it changes what the model says, as you insist", f"{name}={value}")
    sheet.place(f"{known['prefix']}{name}", value)


def _is_lossy(row: Row, value: Setting) -> bool:
    """True if a setting of that value changes what the model says, or if that cannot be told."""
    if "lossy_below" in row:
        return isinstance(value, bool | str) or not value >= row["lossy_below"]
    return row.get("lossy") is True or value in (row.get("lossy") or ())

"""A history as it was written beside one as it was sent: what was edited, and what should not have been.

Both in the plain form of `arranged.spaced`. What the product says of itself is not looked at.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

from agentaccel.policy import HistoryPolicy
from tests.fuzz.arranged import MARKS, spaced
from tests.fuzz.asked import Asked
from tests.fuzz.conversations import Json

HEADER = "Summary of this conversation so far, in place of its earlier messages: "
NOTE = re.compile(r"\[cleared: the result of (\w+), ([\d,]+) characters\]")


class Written(NamedTuple):
    """A history as its user wrote it."""

    plain: list[Json]
    raw: Any
    policy: HistoryPolicy
    asked: Asked


@dataclass(frozen=True, slots=True)
class Edit:
    """How a history was edited."""

    texts: dict[str, str]
    """What stands in the place of results, by their calls."""
    summary: str | None
    cut: int
    """Messages that a summary stands for."""
    used: frozenset[str] = frozenset()
    marked: frozenset[str] = frozenset()
    """Calls whose results carry a marker of the user's, and are not touched."""

    def lost(self, before: Edit) -> Iterator[str]:
        """What is no longer as it was in a request before this one."""
        if before.summary is not None and self.summary != before.summary and self.cut <= before.cut:
            yield "a summary was taken back"
        for call, text in before.texts.items():
            if call in self.texts and self.texts[call] != text:
                yield "a result that was edited is another text now"
            if call not in self.texts and self.cut <= before.cut and call not in self.marked:
                yield "a result that was edited is whole again"


class Place(NamedTuple):
    """A result in a history."""

    call: str
    at: int
    content: Any
    rest: Json


def amiss(written: Written, sent: list[Json]) -> tuple[Edit, list[str]]:
    """How `sent` was edited, and what is wrong with it."""
    said: list[str] = []
    start = next((i for i, one in enumerate(written.plain) if one.get("role") not in ("system", "developer")), 0)
    cut, summary, whole = start, None, sent
    found = summary_of(sent[start]) if len(sent) > start else None
    if found is not None:
        whole = unfolded(sent, start, found, written.asked, said)
        cut, summary = len(whole) - len(sent) + start + 1, found
        said += seam(written, sent, start, cut)
    texts = dict(_compared(written, whole, cut, said))
    used = {"summarise"} if summary is not None else set()
    for text in texts.values():
        used.add("clear_results" if NOTE.fullmatch(text) else "distil")
    return Edit(texts, summary, cut, frozenset(used), frozenset(_marked(written.raw))), said


def summary_of(message: Json) -> str | None:
    """The summary at the end of a message; None where there is none."""
    text = text_of(message.get("content"), last=True)
    return text[text.index(HEADER) + len(HEADER) :] if HEADER in text else None


def unfolded(sent: list[Json], start: int, summary: str, asked: Asked, said: list[str]) -> list[Json]:
    """`sent` with what its summary stands for in the place of it."""
    given = next((given for text, given in asked.summed.items() if _plain(text) == summary), None)
    if given is None:
        said.append("a summary that nobody made")
        return sent
    told = spaced(given)["input" if "input" in given else "messages"]
    earlier = summary_of(told[start])
    if earlier is not None:
        told = unfolded(told, start, earlier, asked, said)
    return [*told, *sent[start + 1 :]]


def seam(written: Written, sent: list[Json], start: int, cut: int) -> Iterator[str]:
    """What is wrong where a summary ends and the history goes on."""
    kept = [maker(one) for one in written.plain[cut:]]
    replies = sum(one == "model" and (not i or kept[i - 1] != one) for i, one in enumerate(kept))
    if replies < written.policy.keep_results:
        yield f"{replies} replies were kept"
    if kept and maker(written.plain[cut - 1]) == kept[0] == "model":
        yield "a reply was cut in two"
    makers = [maker(one) for one in written.plain[start:]]
    alone = ("user", "user") not in pairwise(makers) and not {"system", "developer"}.intersection(makers)
    if alone and len(sent) > start + 1 and maker(sent[start + 1]) == "user":
        yield "users speak twice in a row, who did not"
    if any(call_name(written.plain, one.call) in written.policy.pinned_tools for one in results(written.plain[:cut])):
        yield "a pinned result was summed up"
    if any(one.get("role") in ("system", "developer") for one in written.plain[start:cut]):
        yield "the operator's words were summed up"


def _compared(written: Written, whole: list[Json], cut: int, said: list[str]) -> Iterator[tuple[str, str]]:
    """The results that are not as written, by their calls, and what stands in their place."""
    plain, policy = written.plain, written.policy
    if len(plain) != len(whole):
        said.append(f"{len(plain)} messages became {len(whole)}")
        return
    old, new = results(plain), results(whole)
    if bare(plain, [one.call for one in old]) != bare(whole, [one.call for one in new]):
        said.append("more than results was changed")
    kept = {one.call for one in old[-policy.keep_results :]}
    answered = max((i for i, one in enumerate(plain) if maker(one) == "model"), default=-1)
    marked = set(_marked(written.raw))
    for was, now in zip(old, new, strict=False):
        if was.content == now.content:
            continue
        tool, text = call_name(plain, was.call), text_of(now.content)
        note = NOTE.fullmatch(text)
        if note is not None and (not policy.clear_results or note[1] != tool):
            said.append(f"a wrong note: {text}")
        given = next((given for made, given in written.asked.given.items() if _plain(made) == text), None)
        if note is None and (given is None or _plain(given) != text_of(was.content)):
            said.append("a text that nobody made of that result")
        for wrong, what in (
            (tool in policy.pinned_tools, "a pinned result"),
            (was.rest.get("is_error"), "an error"),
            (was.call in marked and was.at >= cut, "a marked result"),
            (any(one.get("type") not in ("text", "input_text") for one in was.content), "more than text"),
            (was.call in kept and was.at >= cut, "one of the last results"),
            (was.at > answered, "a result that the model has not seen"),
        ):
            if wrong:
                said.append(f"{what} was edited")
        if now.at >= cut:
            yield was.call, text


# --- reading ----------------------------------------------------------------------------------------------------------


def _plain(text: str) -> str:
    return " ".join(text.split())


def text_of(content: Any, last: bool = False) -> str:
    parts = content[-1:] if last and isinstance(content, list) else content
    texts = [str(one.get("text", "")) for one in parts or () if isinstance(one, dict)]
    return _plain("\n".join(texts))


def maker(item: Json) -> str:
    """Who made a message or item."""
    kind, role = str(item.get("type") or "message"), item.get("role")
    if kind.endswith("_output") or role == "tool":
        return "tool"
    if kind != "message" or role == "assistant":
        return "model"
    if role == "user" and any(one.get("type") == "tool_result" for one in item["content"]):
        return "tool"
    return str(role)


def results(said: list[Json]) -> list[Place]:
    found = []
    for at, item in enumerate(said):
        if item.get("type") == "function_call_output":
            found.append(Place(item["call_id"], at, item["output"], {}))
        elif item.get("role") == "tool":
            found.append(Place(item["tool_call_id"], at, item["content"], {}))
        elif item.get("role") == "user":
            blocks = [one for one in item["content"] if one.get("type") == "tool_result"]
            found += [Place(one["tool_use_id"], at, one["content"], one) for one in blocks]
    return found


def calls(said: list[Json]) -> Iterator[tuple[int, str, str]]:
    for at, item in enumerate(said):
        if item.get("type") == "function_call":
            yield at, item["call_id"], item["name"]
        for one in item.get("tool_calls") or ():
            yield at, one["id"], one["function"]["name"]
        for one in item.get("content") or () if item.get("role") == "assistant" else ():
            if one.get("type") == "tool_use":
                yield at, one["id"], one["name"]


def call_name(said: list[Json], call: str) -> str:
    return next((name for _, one, name in calls(said) if one == call), "")


def pairs(said: list[Json]) -> bool:
    """Whether a call lacks its result, or a result its call in front of it."""
    asked, given = {one: at for at, one, _ in calls(said)}, {one.call: one.at for one in results(said)}
    return set(asked) != set(given) or any(given[one] < at for one, at in asked.items())


def bare(said: Any, names: list[str]) -> Any:
    """A history without the contents of its results."""
    if isinstance(said, list):
        return [bare(one, names) for one in said]
    if not isinstance(said, dict):
        return said
    call = said.get("tool_use_id") or said.get("tool_call_id") or (said.get("call_id") if "output" in said else None)
    if call in names:
        return {name: value for name, value in said.items() if name not in ("content", "output")}
    return {name: bare(value, names) if name == "content" else value for name, value in said.items()}


def _marked(raw: Any) -> Iterator[str]:
    """Calls whose results carry a marker."""
    for item in raw if isinstance(raw, list) else ():
        for one in item.get("content") or () if isinstance(item.get("content"), list) else ():
            inner = one.get("content") if isinstance(one.get("content"), list) else []
            if one.get("type") == "tool_result" and any(name in part for name in MARKS for part in (one, *inner)):
                yield one["tool_use_id"]

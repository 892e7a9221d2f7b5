"""Servers that no data file can list: what was found out of each, and what it is sent for that.

Attached servers are known once they were asked; one on a private network is looked at before the first call to it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any

from agentaccel.cache.pauses import ANY, pauses
from agentaccel.cache.prefix import turn_of
from agentaccel.engine.conversation import Conversation
from agentaccel.engine.draft import Draft
from agentaccel.locks import Lock
from agentaccel.selfhost.hints import Hints, names_session, rendered, without
from agentaccel.selfhost.probe import Server
from agentaccel.selfhost.slots import Pins
from agentaccel.selfhost.tables import UNKNOWN, found, row
from agentaccel.types import CachePlan

Address = tuple[str, int]
"""Host and port."""

_SOON = 60.0
"""Seconds within which a request comes that is worth being prepared for."""
_MOST_LOOKS = 3
"""Looks at a server that does not answer."""


class Servers:
    """What one `Accel` knows of servers, by address. Thread-safe."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._known: dict[Address, Server] = {}
        self._refused: dict[Address, frozenset[str]] = {}
        self._looks: dict[Address, int] = {}
        self._pins: dict[Address, Pins] = {}
        self._under_way: dict[tuple[Address, str], int] = {}
        """Requests that have not ended, of each conversation that a slot is given to."""

    def know(self, address: Address, server: Server) -> None:
        """It was asked, or named: it is not looked at any more. A later answer replaces what was known before."""
        with self._lock:
            self._looks[_own(address)] = _MOST_LOOKS
            if server.dialect != UNKNOWN:
                self._known[_own(address)] = server

    def of(self, address: Address | None) -> Server | None:
        """What is known of a server; None where it was not asked, or nothing tells."""
        return self._known.get(_own(address)) if address is not None else None

    def place(self, address: Address | None) -> tuple[str, str] | None:
        """The provider and platform whose rules its cache has; None where they are not known."""
        server = self.of(address)
        return None if server is None or server.platform is None else ("compatible", server.platform)

    def is_told(self, address: Address | None) -> bool:
        """True if the server is known, or is being asked: nobody has to name it, or not yet."""
        return address is not None and (self.of(address) is not None or self._looks.get(_own(address), 0) < 0)

    def may_look(self, address: Address) -> bool:
        """True if the server is to be looked at now; whoever asks does it. Of several that ask at once, one does."""
        with self._lock:
            looks = self._looks.get(_own(address), 0)
            if looks >= _MOST_LOOKS or looks < 0:
                return False
            self._looks[_own(address)] = -looks - 1  # under way
            return True

    def looked(self, address: Address) -> None:
        """A look has ended without an answer: there may be another one."""
        with self._lock:
            self._looks[_own(address)] = abs(self._looks.get(_own(address), 0))

    def refuse(self, address: Address, places: Collection[str]) -> None:
        """The server has said that it does not know these fields: it is not sent them again."""
        with self._lock:
            self._refused[_own(address)] = self.refused(address) | frozenset(places)

    def refused(self, address: Address | None) -> frozenset[str]:
        """The fields that the server has said not to know."""
        return self._refused.get(_own(address), frozenset()) if address is not None else frozenset()

    # --- slots, where the user says that they are ours to give ------------------------------------------------------

    def pin(self, address: Address) -> None:
        """Nobody else uses the server: its slots are given to conversations of this process."""
        with self._lock:
            self._pins.setdefault(_own(address), Pins())

    def slot(self, address: Address | None, conversation: str) -> int | None:
        """The slot that the next request of a conversation, told by its key, goes to; None where the server is to
        choose, as while another request of the conversation is under way: in one slot, the next one would wait."""
        slots = self._slots(address)
        if address is None or not slots or (_own(address), conversation) in self._under_way:
            return None
        return self._pins[_own(address)].slot(conversation, slots)

    def announced(self, address: Address | None, conversation: str) -> None:
        """The next request of the conversation is known: the slot that it goes to is taken."""
        slots = self._slots(address)
        if address is not None and slots:
            with self._lock:
                self._pins[_own(address)] = self._pins[_own(address)].after(conversation, slots)

    def asked(self, address: Address | None, conversation: str) -> None:
        """A request of the conversation goes out, which is under way until it has `ended`."""
        self.announced(address, conversation)
        if address is not None and self._slots(address):
            with self._lock:
                one = (_own(address), conversation)
                self._under_way[one] = self._under_way.get(one, 0) + 1

    def ended(self, address: Address | None, conversation: str) -> None:
        """A request of the conversation has ended, however that was."""
        if address is not None and (_own(address), conversation) in self._under_way:
            with self._lock:
                one = (_own(address), conversation)
                left = self._under_way.pop(one, 0) - 1
                self._under_way |= {one: left} if left > 0 else {}

    def _slots(self, address: Address | None) -> int:
        """How many slots of a server are given; 0 where none are."""
        if address is None or _own(address) not in self._pins:
            return 0
        server = self.of(address)
        return (server.slots or 0) if server is not None and server.can("slots") else 0


def _own(address: Address) -> Address:
    """One name for this machine."""
    host, port = address
    return ("127.0.0.1" if host == "localhost" else host), port


# --- what a request is sent for that ----------------------------------------------------------------------------------


def hinted(
    plan: CachePlan, draft: Draft, conversation: Conversation, server: Server, key: bytes, *, isolate: bool, ahead: bool
) -> CachePlan:
    """The plan with what names the conversation to its server, and keeps tenants apart; the sender's own stays. `ahead`
    says that servers may be asked to compute what is likely to come next.

    Where the rules of the server's cache are known, `Routing` has said what goes into the body.
    """
    own = names_session(draft.sender.headers)
    told = Hints(
        session=None if own else conversation.id,
        parent=None if own else conversation.parent,
        tenant=conversation.tenant if isolate else None,
        next_turn_likely=ahead and _followed_soon(draft, conversation),
    )
    sent = rendered(told, server, key, draft.endpoint.wire)
    fields = {}
    if server.platform is None and draft.endpoint.wire in row(server.dialect).get("wires", ()):
        fields = _fitting(draft.request, sent.fields)
    reasons = [sent.reasons[name] for name in sent.headers.keys() | fields.keys()]
    if sent.unsent.get("tenant"):
        reasons.append(sent.unsent["tenant"])
    if not reasons:
        return plan
    return replace(
        plan, options={**plan.options, **fields}, headers=sent.headers, reasons=(*plan.reasons, *sorted(reasons))
    )


def in_slot(plan: CachePlan, draft: Draft, server: Server, slot: int) -> CachePlan:
    """The plan with the slot that its conversation has; the sender's own stays."""
    field = row(server.dialect)["slot"]
    if draft.endpoint.wire not in field["wires"] or field["field"] in draft.request:
        return plan
    reason = f"{field['field']} {field['means']}"
    return replace(plan, options={**plan.options, field["field"]: slot}, reasons=(*plan.reasons, reason))


def _followed_soon(draft: Draft, conversation: Conversation) -> bool:
    """True if another request follows within a minute, more likely than not."""
    beliefs = conversation.snapshot.joined(conversation.state.seen)
    followed = beliefs.followed(turn_of(draft.prompt), tools=draft.prompt.starts[1] > 0)
    return followed * (1.0 - pauses(beliefs, ANY).longer(_SOON)) > 0.5


def _fitting(request: Mapping[str, Any], fields: Mapping[str, Any]) -> dict[str, Any]:
    """The fields, or parts of them, that can be added to a request without touching what the sender wrote."""
    fitting = {name: value for name, value in fields.items() if name not in request}
    for name, value in fields.items():
        own = request.get(name)
        if isinstance(own, Mapping) and isinstance(value, Mapping):
            parts = {one: part for one, part in value.items() if one not in own}
            fitting |= {name: parts} if parts else {}
    return fitting


def unrefused(plan: CachePlan, refused: Collection[str]) -> CachePlan:
    """The plan without fields that its server has refused; the very plan where it has none of them."""
    left = without(plan.options, refused)
    if left == plan.options:
        return plan
    gone = ", ".join(sorted(one for one in refused if found(plan.options, one) is not None))
    return replace(plan, options=left, reasons=(*plan.reasons, f"left out, as this server refuses it: {gone}"))

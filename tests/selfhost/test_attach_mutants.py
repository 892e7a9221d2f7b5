"""The tests of attaching, looking and refusals bite: without any single guard they fail."""

from __future__ import annotations

from tests.mutants import Mutant, biting, running

GUARDS = (
    Mutant(
        guard="headers that another host is shown by a redirect",
        at="agentaccel.selfhost.asking:Asker._got",
        old="if urlsplit(old)[:2] != urlsplit(url)[:2]:",
        new="if False:",
    ),
    Mutant(
        guard="headers that another host is shown for its counters",
        at="agentaccel.selfhost.asking:Asker._headers",
        old="self.headers if urlsplit(url).hostname in self.hosts else {}",
        new="self.headers",
    ),
    Mutant(
        guard="headers of the client's that are no credentials",
        at="agentaccel.clients.looking:look_at",
        old='for name in ("host", *CREDENTIALS) if name in request.headers',
        new="for name in request.headers",
    ),
    Mutant(
        guard="looks from code whose calls go out as written",
        at="agentaccel.clients.looking:look_at",
        old="or current.get().bypass ",
        new="",
    ),
    Mutant(
        guard="a second look at a server that has answered",
        at="agentaccel.engine.servers:Servers.know",
        old="            self._looks[_own(address)] = _MOST_LOOKS\n",
        new="            self._looks.pop(_own(address), None)\n",
    ),
    Mutant(
        guard="a second name of a session",
        at="agentaccel.engine.servers:hinted",
        old="own = names_session(draft.sender.headers)",
        new="own = False",
    ),
    Mutant(
        guard="a salt over the sender's own",
        at="agentaccel.engine.servers:_fitting",
        old=" if one not in own}",
        new="}",
    ),
    Mutant(
        guard="headers where the plan is not applied",
        at="agentaccel.engine.engine:Engine._begin",
        old="headers=applied.headers",
        new="headers=planned.plan.headers",
    ),
    Mutant(
        guard="a field that is refused again and again",
        at="agentaccel.clients.attempt:Attempt.refused",
        old="places <= self._engine.servers.refused(self._server)",
        new="not places",
    ),
    Mutant(
        guard="fields that were refused before",
        at="agentaccel.engine.engine:Engine._for_its_server",
        old="return unrefused(chosen, refused) if refused else chosen",
        new="return chosen",
    ),
    Mutant(
        guard="counters of a replica that did not answer",
        at="agentaccel.selfhost.metrics:observed",
        old="if missing or not pairs:",
        new="if not pairs:",
    ),
    Mutant(
        guard="work of a server that nobody has consented to",
        at="agentaccel.engine.servers:hinted",
        old="next_turn_likely=ahead and ",
        new="next_turn_likely=",
    ),
    Mutant(
        guard="slots that are given to more conversations than there are",
        at="agentaccel.selfhost.slots:Pins.slot",
        old="None if pins.crowded else",
        new="",
    ),
    Mutant(
        guard="slots that a server has no more",
        at="agentaccel.selfhost.slots:Pins.after",
        old=" and slot < slots}",
        new="}",
    ),
    Mutant(
        guard="slots of a server that says to have more than can be",
        at="agentaccel.selfhost.slots:Pins.after",
        old="slots = min(slots, _MOST)",
        new="",
    ),
    Mutant(
        guard="requests that wait for one of their own conversation",
        at="agentaccel.engine.servers:Servers.slot",
        old=" or (_own(address), conversation) in self._under_way",
        new="",
    ),
    Mutant(
        guard="conversations whose requests seem never to end",
        at="agentaccel.engine.engine:Engine._end",
        old="self.servers.ended(endpoint.server, planned.conversation.key)",
        new="",
    ),
    Mutant(
        guard="one slot for all who announce",
        at="agentaccel.engine.engine:Engine.announced",
        old="self.servers.announced(endpoint.server, conversation.key)",
        new="pass",
    ),
    Mutant(
        guard="slots of a server that others may use",
        at="agentaccel.engine.servers:Servers._slots",
        old="if address is None or _own(address) not in self._pins:",
        new="if address is None or not self._pins.setdefault(_own(address), Pins()):",
    ),
    Mutant(
        guard="a slot over the sender's own",
        at="agentaccel.engine.servers:in_slot",
        old=' or field["field"] in draft.request',
        new="",
    ),
    Mutant(
        guard="slots that a server does not have, kept in a file of nothing",
        at="agentaccel.selfhost.slots:path_of",
        old="not 0 <= slot <= most",
        new="False",
    ),
    Mutant(
        guard="a server that came up between two questions",
        at="agentaccel.selfhost.asking:answered",
        old="and _NOBODY not in asked.values()",
        new="",
    ),
    Mutant(
        guard="gateways that pass on what the servers behind them say",
        at="agentaccel.selfhost.probe:_signs",
        old="if len(owners) == 1 else",
        new="if True else",
    ),
    Mutant(
        guard="a name that held for another server",
        at="agentaccel.clients.anthropic:_Whose.at",
        old='named[0] == "anthropic" or server == self.home',
        new="True",
    ),
    Mutant(
        guard="gateways that refuse a field, and are asked again",
        at="agentaccel.clients.anthropic:_may_be_ours",
        old='outgoing.endpoint.provider == "compatible"',
        new="True",
    ),
    Mutant(
        guard="markers that a server ignores",
        at="agentaccel.wire.anthropic.request:decode",
        old="if facts is not None and not facts.mark:",
        new="if False:",
    ),
    Mutant(
        guard="hints that do nothing on a wire",
        at="agentaccel.selfhost.hints:rendered",
        old='wire in hint.get("not_on", ())',
        new="False",
    ),
)

COMMAND = [
    *running(
        "tests/selfhost/test_wrapped.py",
        "tests/selfhost/test_attach.py",
        "tests/selfhost/test_metrics.py",
        "tests/selfhost/test_slots.py",
        "tests/selfhost/test_messages.py",
        "tests/selfhost/test_ahead.py",
    ),
    *("-o", "timeout=30"),
]

test_they_fail_without_the_guard, test_with_every_guard_they_pass = biting(GUARDS, COMMAND)

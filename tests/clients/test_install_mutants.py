"""The tests of `install` bite: without any single guard they fail."""

from __future__ import annotations

from tests.mutants import Mutant, biting, running

GUARDS = (
    Mutant(
        guard="a client that somebody has wrapped by hand, on middleware",
        at="agentaccel.clients.anthropic:middleware_for",
        old='if any(getattr(one, "agentaccel_engine", None) is not None for one in others):\n        return others',
        new="",
    ),
    Mutant(
        guard="ours twice in a copy",
        at="agentaccel.clients.anthropic:middleware_for",
        old="[one for one in given if switch_of(one) is None]",
        new="list(given)",
    ),
    Mutant(
        guard="a client that somebody has wrapped by hand, on transports",
        at="agentaccel.clients.constructors:Constructors._with_transport",
        old="if is_wrapped(client._client) is not None:\n            return",
        new="",
    ),
    Mutant(
        guard="what install has put around a client that is wrapped by hand",
        at="agentaccel.clients.transport:wrapped_http",
        old="client = without_switch(client)\n",
        new="",
    ),
    Mutant(
        guard="calls after the end, on middleware",
        at="agentaccel.clients.anthropic:_middleware",
        old="None if is_off(switch) else ",
        new="",
    ),
    Mutant(
        guard="clients that are made after the end by a constructor of ours that somebody has kept",
        at="agentaccel.clients.constructors:Constructors._guarded",
        old="if not self._switch.on:\n            return None",
        new="",
    ),
    Mutant(
        guard="constructors that somebody has put around ours",
        at="agentaccel.clients.constructors:_restore",
        old="if kind.__init__ is ours:\n        kind.__init__ = own",
        new="kind.__init__ = own",
    ),
    Mutant(
        guard="constructors that are not given back",
        at="agentaccel.clients.constructors:Constructors.give_back",
        old="self._undo.pop()()",
        new="self._undo.pop()",
    ),
    Mutant(
        guard="failures of ours that reach whoever makes a client",
        at="agentaccel.clients.constructors:Constructors._guarded",
        old="except Exception:",
        new="except KeyError:",
    ),
    Mutant(
        guard="another policy than the one that is installed",
        at="agentaccel.installation:_install",
        old="if policy is not None and wanted != there.policy:",
        new="if False:",
    ),
    Mutant(
        guard="SDKs where agentaccel is off",
        at="agentaccel.installation:Installation._take",
        old="self._off or ",
        new="",
    ),
)
COMMAND = [*running("tests/clients/test_install.py"), "-o", "timeout=60"]

test_they_fail_without_the_guard, test_with_every_guard_they_pass = biting(GUARDS, COMMAND)

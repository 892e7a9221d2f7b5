"""Guards of the texts that tools of MCP are given."""

from __future__ import annotations

from tests.mutants import Mutant

GUARDS = (
    Mutant(
        guard="words of writing in a statement",
        at="agentaccel.effects.texts:writes",
        old='no plain sentence" if words else None\n',
        new='no plain sentence" if False else None\n',
    ),
    Mutant(
        guard="a statement that is spelled as a sentence",
        at="agentaccel.effects.texts:writes",
        old="    if any(beginning.search(begins) for beginning in _beginnings()):\n",
        new="    if False:\n",
    ),
    Mutant(
        guard="a first word in capitals",
        at="agentaccel.effects.texts:writes",
        old='    if {word.lower() for word in capitals} & set(known["capitals"]):\n',
        new="    if False:\n",
    ),
    Mutant(
        guard="a program that an input names",
        at="agentaccel.effects.commands:_is_command",
        old='    return first in known["programs"] or (several and not _is_told(value))\n',
        new="    return several and not _is_told(value)\n",
    ),
    Mutant(
        guard="comments before a statement",
        at="agentaccel.effects.texts:writes",
        old='_COMMENT.sub("\\n", text))\n',
        new="text)\n",
    ),
    Mutant(
        guard="what stands in comments",
        at="agentaccel.effects.texts:writes",
        old=" if _ASKS.match(text) else text):\n",
        new=" if _ASKS.match(text) else begins):\n",
    ),
    Mutant(
        guard="methods that write",
        at="agentaccel.effects.texts:writes",
        old='        if {word.lower() for word in _WORDS.findall(name)} & set(known["methods"]):\n',
        new="        if False:\n",
    ),
    Mutant(
        guard="operators in a text that is no JSON",
        at="agentaccel.effects.texts:writes",
        old="    if found := re.search(rf",
        new="    if found := None and re.search(rf",
    ),
    Mutant(
        guard="a text that is JSON",
        at="agentaccel.effects.mcp:_leaves",
        old="            yield from _leaves(inner, depth + 1, name)\n",
        new="            pass\n",
    ),
    Mutant(
        guard="a command that is a list of words",
        at="agentaccel.effects.mcp:_leaves",
        old="        if not pattern and (line := joined(value)) is not None and (why := writes(line)) is not None:\n",
        new="        if (why := None) is not None:\n",
    ),
    Mutant(
        guard="a command of a database that is an object",
        at="agentaccel.effects.mcp:_no_command",
        old='    if depth and first in known["database_commands"] and isinstance(told, str):\n',
        new="    if False:\n",
    ),
    Mutant(
        guard="a deed that the name of an argument announces",
        at="agentaccel.effects.texts:_deed",
        old='    if set(words) & set(known["deeds"]):\n',
        new="    if False:\n",
    ),
    Mutant(
        guard="an address whose name does not say that it is one",
        at="agentaccel.effects.mcp:addressed",
        old=' or verdict.launchable == "never":\n            yield',
        new=":\n            yield",
    ),
)

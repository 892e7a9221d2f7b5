"""The tests of the export bite: without any single guard against a secret, an illegal chat or a lost file they fail."""

from __future__ import annotations

from tests.mutants import Mutant, biting, running

GUARDS = (
    Mutant(
        guard="keys in the form of their issuers",
        at="agentaccel.effects.secrets:_keys_in",
        old="yield from _whole(text, begun.finditer(text))",
        new="pass",
    ),
    Mutant(
        guard="keys behind another sign",
        at="agentaccel.effects.secrets:_keys_in",
        old="yield from _whole(text, filter(_behind, anywhere.finditer(text)))",
        new="pass",
    ),
    Mutant(
        guard="what a private key holds",
        at="agentaccel.effects.secrets:_whole",
        old='if key[0].startswith("-----BEGIN"):',
        new="if False:",
    ),
    Mutant(
        guard="the rest of a key that is longer than its form",
        at="agentaccel.effects.secrets:_whole",
        old="done = _on(_WORD_REST, text, key.end())",
        new="done = key.end()",
    ),
    Mutant(
        guard="headers and addresses with what is secret in them",
        at="agentaccel.effects.secrets:_said_in",
        old="yield said.start(), done",
        new="pass",
    ),
    Mutant(
        guard="all that stands in a cookie",
        at="agentaccel.effects.secrets:_said_in",
        old="_VALUE_REST if line is None else _LINE_REST",
        new="_VALUE_REST",
    ),
    Mutant(
        guard="settings in a text",
        at="agentaccel.effects.secrets:_said_in",
        old="            yield one.start(2), done",
        new="            pass",
    ),
    Mutant(
        guard="short values in quotes behind a strong name",
        at="agentaccel.effects.secrets:_said_in",
        old="            yield one.span(3)",
        new="            pass",
    ),
    Mutant(
        guard="paths and code behind a name, which are no secrets",
        at="agentaccel.effects.secrets:_said_in",
        old="and (_strong(one[1]) or _VALUE.fullmatch(one[2]))",
        new="",
    ),
    Mutant(
        guard="placeholders, which are no secrets",
        at="agentaccel.effects.secrets:_said_in",
        old="if not _harmless(text[said.start() : done].split()[-1]):",
        new="if True:",
    ),
    Mutant(
        guard="recovery phrases",
        at="agentaccel.effects.secrets:_apart",
        old="if recovers(one[0]):",
        new="if False:",
    ),
    Mutant(
        guard="a user with a password on a line",
        at="agentaccel.effects.secrets:_apart",
        old='if re.fullmatch(values["user"], part[0].strip()):',
        new="if False:",
    ),
    Mutant(
        guard="packed keys",
        at="agentaccel.effects.secrets:credentials",
        old=" or _packs_one(one[0])",
        new="",
    ),
    Mutant(
        guard="words without any order",
        at="agentaccel.effects.secrets:credentials",
        old='is_credential("", one[0]) or',
        new="",
    ),
    Mutant(
        guard="passwords of several words",
        at="agentaccel.effects.secrets:is_credential",
        old="        return _strong(name)\n",
        new="        return False\n",
    ),
    Mutant(
        guard="values by their names",
        at="agentaccel.effects.masking:Masks._value",
        old="(whole or is_credential(name, said))",
        new="whole",
    ),
    Mutant(
        guard="all that lies below a secret name",
        at="agentaccel.effects.masking:Masks._argument",
        old='whole = is_credential(name, "a b")',
        new="whole = False",
    ),
    Mutant(
        guard="arguments that a policy calls sensitive",
        at="agentaccel.effects.masking:Masks._argument",
        old="self._sensitive is not None and",
        new="False and",
    ),
    Mutant(
        guard="sensitive arguments by their paths",
        at="agentaccel.effects.masking:Masks._argument",
        old="(self._sensitive(tool, path) or self._sensitive(tool, name))",
        new="self._sensitive(tool, name)",
    ),
    Mutant(
        guard="JSON within a text",
        at="agentaccel.effects.masking:Masks._text",
        old="if isinstance(parsed, dict | list):",
        new="if False:",
    ),
    Mutant(
        guard="JSON that holds no secret, which stays as it is written",
        at="agentaccel.effects.masking:Masks._json",
        old="if self.count == before:",
        new="if False:",
    ),
    Mutant(
        guard="what a name says is secret, wherever else it stands",
        at="agentaccel.effects.masking:Masks._value",
        old="            self._know(said)\n",
        new="",
    ),
    Mutant(
        guard="secrets as they stand within JSON",
        at="agentaccel.effects.masking:_forms",
        old="return value, json.dumps(value)[1:-1], json.dumps(value, ensure_ascii=False)[1:-1]",
        new="return (value,)",
    ),
    Mutant(
        guard="short secrets within the words of others",
        at="agentaccel.effects.masking:Masks.everywhere",
        old="if len(one) >= _SHORTEST_WITHIN",
        new="if True",
    ),
    Mutant(
        guard="defaults and examples of a schema",
        at="agentaccel.effects.masking:Masks.schema",
        old="if key in _GIVEN:",
        new="if False:",
    ),
    Mutant(
        guard="types and names of a schema, which are no secrets",
        at="agentaccel.effects.masking:Masks.everywhere",
        old="(self._schema_without if schema else self._without)",
        new="self._without",
    ),
    Mutant(
        guard="what is nested too deeply to be looked at",
        at="agentaccel.effects.masking:Masks._value",
        old="if depth > DEEPEST:",
        new="if False:",
    ),
    Mutant(
        guard="secrets in results and in what was said",
        at="agentaccel.replay.export:_masked",
        old='masks.text(message["content"])',
        new='message["content"]',
    ),
    Mutant(
        guard="secrets in arguments",
        at="agentaccel.replay.export:_masked",
        old="_call(one, masks.arguments)",
        new="one",
    ),
    Mutant(
        guard="secrets in descriptions of tools",
        at="agentaccel.replay.export:_tool",
        old='masks.text(tool["description"])',
        new='tool["description"]',
    ),
    Mutant(
        guard="secrets in schemas of tools",
        at="agentaccel.replay.export:_tool",
        old='masks.schema(name, tool["input_schema"])',
        new='tool["input_schema"]',
    ),
    Mutant(
        guard="replies that go on without a result",
        at="agentaccel.replay.export:_OpenChat.take",
        old="        elif self._waiting:\n            self.cut = True\n            return False\n",
        new="",
    ),
    Mutant(
        guard="what is said before the results are there",
        at="agentaccel.replay.export:_OpenChat.take",
        old="if isinstance(event, Said):\n            if self._waiting:\n",
        new="if isinstance(event, Said):\n            if False:\n",
    ),
    Mutant(
        guard="replies before anything was said",
        at="agentaccel.replay.export:_OpenChat.take",
        old="        elif self._messages:\n",
        new="        else:\n",
    ),
    Mutant(
        guard="what is said twice in a row",
        at="agentaccel.replay.export:_OpenChat._say",
        old='if not self._messages or self._messages[-1]["role"] != role:',
        new="if True:",
    ),
    Mutant(
        guard="what follows the last reply",
        at="agentaccel.replay.export:_OpenChat.to_the_last_reply",
        old="self._messages[: ends[-1]] if ends else []",
        new="self._messages",
    ),
    Mutant(
        guard="conversations that are there twice",
        at="agentaccel.replay.export:chosen",
        old="chat.id in met",
        new="False",
    ),
    Mutant(
        guard="a task that lies on both sides",
        at="agentaccel.replay.export:chosen",
        old="is_held_out(chat.task, share)",
        new="is_held_out(chat.id, share)",
    ),
    Mutant(
        guard="consent",
        at="agentaccel.cli.export:export_command",
        old="if not consent:",
        new="if False:",
    ),
    Mutant(
        guard="what is there already",
        at="agentaccel.cli.export:export_command",
        old="if os.path.lexists(out) and not (out.is_dir() and not any(out.iterdir())):",
        new="if False:",
    ),
    Mutant(
        guard="files that others may read",
        at="agentaccel.cli.export:_new",
        old="0o600",
        new="0o644",
    ),
    Mutant(
        guard="an export that broke off",
        at="agentaccel.cli.export:write_files",
        old="shutil.rmtree(place, ignore_errors=True)",
        new="pass",
    ),
)

COMMAND = [
    *running("tests/replay/test_export.py", "tests/effects/test_masking.py", "tests/cli/test_export.py"),
    *("-m", "not slow"),
]

test_the_export_fails_without_the_guard, test_with_every_guard_it_passes = biting(GUARDS, COMMAND)

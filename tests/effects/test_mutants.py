"""The corpora bite: without any single guard they fail."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.mutants import Mutant, running, survives

GUARDS = (
    Mutant(
        guard="an option that is not listed",
        file="effects/options.py",
        old="        if letter not in form.short:\n",
        new="        if False:\n",
    ),
    Mutant(
        guard="a long option that is not listed",
        file="effects/options.py",
        old="    elif equals or name not in form.long_optional:\n",
        new="    elif False:\n",
    ),
    Mutant(
        guard="an operand too many, which is written",
        file="effects/options.py",
        old="    if len(operands) < form.least or (form.most is not None and len(operands) > form.most):\n",
        new="    if False:\n",
    ),
    Mutant(
        guard="a branch or tag that is made",
        file="effects/options.py",
        old="    if form.needs is not None and len(operands) > form.needs[1] and not form.needs[0] & given:\n",
        new="    if False:\n",
    ),
    Mutant(
        guard="a redirection to a file",
        file="effects/parse.py",
        old="        if tuple(parts) not in _SINKS:\n",
        new="        if False:\n",
    ),
    Mutant(
        guard="expansions and substitutions",
        file="effects/parse.py",
        old='    raise Refused(f"it holds {_named(piece.type)}")\n',
        new="    return text\n",
    ),
    Mutant(
        guard="a wildcard that becomes an option",
        file="effects/parse.py",
        old='    if glob and not wild and not re.match(r"--[a-z-]+=|[A-Za-z0-9_./]|~/", first):\n',
        new="    if False:\n",
    ),
    Mutant(
        guard="a brace expansion",
        file="effects/parse.py",
        old='    if "{" in bare and ("," in bare or ".." in bare):\n',
        new="    if False:\n",
    ),
    Mutant(
        guard="a line's end that the parser takes for a blank",
        file="effects/parse.py",
        old='        if b"\\n" in between and self._words and self._words[-1]:\n',
        new="        if False:\n",
    ),
    Mutant(
        guard="devices among operands",
        file="effects/places.py",
        old="    if _DEVICES.match(path) and not _PLAIN.fullmatch(whole):\n",
        new="    if False:\n",
    ),
    Mutant(
        guard="pipes among operands",
        file="effects/places.py",
        old='    if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode) or str(real) == "/dev/null"):\n',
        new="    if False:\n",
    ),
    Mutant(
        guard="settings that start a program",
        file="effects/repository.py",
        old="        if not _harmless(name, value, reads_worktree):\n",
        new="        if False:\n",
    ),
    Mutant(
        guard="sub-modules",
        file="effects/repository.py",
        old="    if reads_worktree:\n        _no_submodules(found)\n",
        new="",
    ),
    Mutant(
        guard="options of git before the sub-command",
        file="effects/git.py",
        old='        elif option.text not in ("--no-pager", "-P"):\n',
        new="        elif False:\n",
    ),
    Mutant(
        guard="verbs of git's sub-commands",
        file="effects/git.py",
        old="    if verb not in verbs:\n",
        new="    if False:\n",
    ),
    Mutant(
        guard="actions of find",
        file="effects/rules.py",
        old='        elif word.text not in known["tests"]:\n',
        new="        elif False:\n",
    ),
    Mutant(
        guard="functions of SQL that are not listed",
        file="effects/sql.py",
        old="        elif name not in known or token.token_type == kinds.STRING:\n",
        new="        elif False:\n",
    ),
    Mutant(
        guard="statements without a semicolon",
        file="effects/sql.py",
        old="        if token.token_type not in (kinds.IDENTIFIER, kinds.STRING) and token.text.lower() in verbs:\n",
        new="        if False:\n",
    ),
    Mutant(
        guard="functions that are spelled as columns",
        file="effects/sql.py",
        old='    if dialect in table("sql")["words"]["functions_as_columns"]:\n',
        new="    if False:\n",
    ),
    Mutant(
        guard="comments that servers run",
        file="effects/sql.py",
        old="    if match := _HIDES.search(text):\n",
        new="    if False and (match := _HIDES.search(text)):\n",
    ),
    Mutant(
        guard="deeds in an address",
        file="effects/http.py",
        old="    if found:\n",
        new="    if False:\n",
    ),
    Mutant(
        guard="machines nearby",
        file="effects/http.py",
        old="        if not address.is_global:\n",
        new="        if False:\n",
    ),
    Mutant(
        guard="servers that nobody trusts",
        file="effects/mcp.py",
        old='    if server.get("trusted") is not True:\n',
        new="    if False:\n",
    ),
    Mutant(
        guard="a tool that was declared differently",
        file="effects/mcp.py",
        old="    if listed_before and not _same(tool, earlier):\n",
        new="    if False:\n",
    ),
    Mutant(
        guard="two spellings that disagree",
        file="effects/mcp.py",
        old="        if hints.setdefault(plain, value) is not value:\n",
        new="        if False:\n",
    ),
    Mutant(
        guard="what was seen to write",
        file="effects/verdict.py",
        old='    for source in ("observed", "policy", "declaration"):\n',
        new='    for source in ("policy", "declaration", "observed"):\n',
    ),
    Mutant(
        guard="input that nobody gives",
        file="effects/shell.py",
        old="    if not command.fed and rules.waits(form, options, files):\n",
        new="    if False:\n",
    ),
    Mutant(
        guard="a wildcard before names that may look like options",
        file="effects/shell.py",
        old="    if any(word.wild for word in words) and not form.any_names:\n",
        new="    if False:\n",
    ),
    Mutant(
        guard="a pattern to look for that names several files",
        file="effects/rules.py",
        old="        if not given and options.operands and options.operands[0].glob:\n",
        new="        if False:\n",
    ),
    Mutant(
        guard="a jq program without an end",
        file="effects/rules.py",
        old="            if re.search(pattern, word.text):\n",
        new="            if False:\n",
    ),
    Mutant(
        guard="the whole disk by another name",
        file="effects/shell.py",
        old="    if rules.recursive(form, options):\n        rules.whole_disk(name, files, there)\n",
        new="",
    ),
    Mutant(
        guard="plain files only for what find starts",
        file="effects/rules.py",
        old="or not _only_plain_files(tests[: len(tests) - len(rest) - 1])",
        new="",
    ),
    Mutant(
        guard="what find starts",
        file="effects/shell.py",
        old="        _form_reads(replace(command, words=inner), *_forms()[inner[0].text], there)\n",
        new="",
    ),
    Mutant(
        guard="rows made out of nothing",
        file="effects/sql.py",
        old="        if not number.is_string and float(number.this) > MOST_MADE:\n",
        new="        if False:\n",
    ),
    Mutant(
        guard="a query that calls itself",
        file="effects/sql.py",
        old='    if not node.args.get("recursive"):\n',
        new="    if True:\n",
    ),
    Mutant(
        guard="operators of the schema",
        file="effects/sql.py",
        old='        if plain and plain not in table("sql")["words"]["operators"]:\n',
        new="        if False:\n",
    ),
    Mutant(
        guard="a function in quotes",
        file="effects/sql.py",
        old="        if token.token_type == kinds.IDENTIFIER and token.text.lower() not in left:\n",
        new="        if False:\n",
    ),
    Mutant(
        guard="an address within the address",
        file="effects/http.py",
        old="    _inner_address(name, value)\n",
        new="",
    ),
    Mutant(
        guard="a parameter without an end",
        file="effects/http.py",
        old='    if plain in known["endless_parameters"] and value.lower() not in ("false", "0", "no"):\n',
        new="    if False:\n",
    ),
    Mutant(
        guard="a tool that runs only as a task",
        file="effects/mcp.py",
        old='        raise Refused("the tool runs only as a task")\n',
        new="        pass\n",
    ),
    Mutant(
        guard="awk that writes",
        file="effects/awk.py",
        old='        if printing and token == ">":\n',
        new="        if False:\n",
    ),
    Mutant(
        guard="awk that grows",
        file="effects/awk.py",
        old="            _change(tokens, place)\n",
        new="            pass\n",
    ),
    Mutant(
        guard="names of awk",
        file="effects/awk.py",
        old="            _name(tokens, place)\n",
        new="            pass\n",
    ),
    Mutant(
        guard="a name with a dash that matches",
        file="effects/places.py",
        old='    if any(name.startswith("-") for name in found):\n',
        new="    if False:\n",
    ),
    Mutant(
        guard="devices by a relative name",
        file="effects/places.py",
        old="        _no_device(joined, joined, text)\n",
        new="",
    ),
    Mutant(
        guard="the worst of several sources",
        file="effects/verdict.py",
        old="    worst = max(deciding, key",
        new="    worst = min(deciding, key",
    ),
    Mutant(
        guard="an index that git rewrites",
        file="effects/early.py",
        old='        "GIT_OPTIONAL_LOCKS": "0",\n',
        new="",
    ),
    Mutant(
        guard="an index that git diff rewrites",
        file="effects/early.py",
        old='"diff.autoRefreshIndex=false", ',
        new="",
    ),
)

FAST = [f"tests/effects/test_{name}.py" for name in ("corpora", "repository", "verdicts", "sandbox")]
COMMAND = [*running(*FAST), "-m", "not traces"]


@pytest.mark.soak
@pytest.mark.parametrize("mutant", GUARDS, ids=lambda mutant: mutant.guard)
def test_the_corpora_fail_without_the_guard(mutant: Mutant, tmp_path: Path) -> None:
    """Chosen by us: a safety test that passes without what it tests is none."""
    assert survives(mutant, tmp_path, COMMAND) is None


@pytest.mark.soak
def test_with_every_guard_they_pass(tmp_path: Path) -> None:
    """Or the others would prove nothing."""
    assert survives(None, tmp_path, COMMAND) is not None

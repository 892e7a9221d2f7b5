"""Guards of how shell lines are read: words, options, places, settings of git."""

from __future__ import annotations

from tests.mutants import Mutant

GUARDS = (
    Mutant(
        guard="redirections that go on in another line",
        at="agentaccel.effects.reader:Pieces._sink",
        old='            raise Refused("a line ends in the middle of a redirection")\n',
        new="            pass\n",
    ),
    Mutant(
        guard="an option that is not listed",
        at="agentaccel.effects.options:_short",
        old="        if letter not in form.short:\n",
        new="        if False:\n",
    ),
    Mutant(
        guard="a long option that is not listed",
        at="agentaccel.effects.options:_long",
        old="    elif equals or name not in form.long_optional:\n",
        new="    elif False:\n",
    ),
    Mutant(
        guard="an operand too many, which is written",
        at="agentaccel.effects.options:_count",
        old="    if len(operands) < form.least or (form.most is not None and len(operands) > form.most):\n",
        new="    if False:\n",
    ),
    Mutant(
        guard="a branch or tag that is made",
        at="agentaccel.effects.options:_count",
        old="    if form.needs is not None and len(operands) > form.needs[1] and not form.needs[0] & given:\n",
        new="    if False:\n",
    ),
    Mutant(
        guard="a redirection to a file",
        at="agentaccel.effects.reader:Pieces._sink",
        old="        if tuple(parts) not in _SINKS:\n",
        new="        if False:\n",
    ),
    Mutant(
        guard="expansions and substitutions",
        at="agentaccel.effects.words:_decoded",
        old='    raise Refused(f"it holds {named(piece.type)}")\n',
        new="    return text, text\n",
    ),
    Mutant(
        guard="a wildcard that becomes an option",
        at="agentaccel.effects.words:read_word",
        old='    if glob and not wild and not re.match(r"--[a-z-]+=|[A-Za-z0-9_./]|~/", first):\n',
        new="    if False:\n",
    ),
    Mutant(
        guard="a brace expansion",
        at="agentaccel.effects.words:read_word",
        old='    if "{" in bare and ("," in bare or ".." in bare):\n',
        new="    if False:\n",
    ),
    Mutant(
        guard="a line's end that the parser takes for a blank",
        at="agentaccel.effects.reader:Pieces._goes_on_at",
        old='        if b"\\n" in between and self._words and self._words[-1]:\n',
        new="        if False:\n",
    ),
    Mutant(
        guard="devices among operands",
        at="agentaccel.effects.places:_no_device",
        old="    if _DEVICES.match(path) and not _PLAIN.fullmatch(whole):\n",
        new="    if False:\n",
    ),
    Mutant(
        guard="pipes among operands",
        at="agentaccel.effects.places:_look",
        old='    if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode) or str(real) == "/dev/null"):\n',
        new="    if False:\n",
    ),
    Mutant(
        guard="settings that start a program",
        at="agentaccel.effects.repository:_check",
        old="        if not _harmless(name, value, there, reads_worktree):\n",
        new="        if False:\n",
    ),
    Mutant(
        guard="sub-modules",
        at="agentaccel.effects.repository:starts_nothing",
        old="    if reads_worktree:\n        _no_submodules(found)\n",
        new="",
    ),
    Mutant(
        guard="options of git before the sub-command",
        at="agentaccel.effects.shell:read_only",
        old='        elif option.text not in ("--no-pager", "-P"):\n',
        new="        elif False:\n",
    ),
    Mutant(
        guard="verbs of git's sub-commands",
        at="agentaccel.effects.shell:_verb",
        old="    if verb not in verbs:\n",
        new="    if False:\n",
    ),
    Mutant(
        guard="a name with a dash that matches",
        at="agentaccel.effects.places:expanded",
        old='    if any(name.startswith("-") for name in found):\n',
        new="    if False:\n",
    ),
    Mutant(
        guard="devices by a relative name",
        at="agentaccel.effects.places:plain",
        old="        _no_device(joined, joined, text)\n",
        new="",
    ),
    Mutant(
        guard="an index that git rewrites",
        at="agentaccel.effects.early:environment",
        old='        "GIT_OPTIONAL_LOCKS": "0",\n',
        new="",
    ),
    Mutant(
        guard="an index that git diff rewrites",
        at="agentaccel.effects.early",
        old='"diff.autoRefreshIndex=false", ',
        new="",
    ),
    Mutant(
        guard="a number that is a width",
        at="agentaccel.effects.options:_width",
        old="    if name in form.widths and LARGE.search(value):\n",
        new="    if False:\n",
    ),
    Mutant(
        guard="an operand that is an option of old, or a file of options",
        at="agentaccel.effects.options:_count",
        old="    for word in operands if pattern is not None else ():\n",
        new="    for word in ():\n",
    ),
    Mutant(
        guard="links in an index",
        at="agentaccel.effects.repository:names_plain_files",
        old="        if _number(held[place + 24 : place + 28]) not in _PLAIN_MODES:\n",
        new="        if False:\n",
    ),
    Mutant(
        guard="blanks in an index",
        at="agentaccel.effects.repository:names_plain_files",
        old="        if not apart and not re.fullmatch(",
        new="        if False and not re.fullmatch(",
    ),
    Mutant(
        guard="files that settings name",
        at="agentaccel.effects.repository:_plain_value",
        old='        plain(Word(text=match[1], home=match[1].startswith("~")), there)\n',
        new="pass",
    ),
    Mutant(
        guard="a variable that is set to what is not fixed",
        at="agentaccel.effects.reader:TreeReader._assignment",
        old="        if not _VARIABLE.fullmatch(name.text.decode()) or word.glob or home or TURN in word.text:\n",
        new="        if False:\n",
    ),
    Mutant(
        guard="a variable that may not be set",
        at="agentaccel.effects.reader:TreeReader.close",
        old="        if self._sets_perhaps and not self.chained:\n",
        new="        if False:\n",
    ),
    Mutant(
        guard="a setting before a program that is not listed",
        at="agentaccel.effects.reader:Pieces._setting",
        old='        if text not in table("shell")["prefixes"]:\n',
        new="        if False:\n",
    ),
    Mutant(
        guard="a variable that becomes several words",
        at="agentaccel.effects.words:_decoded",
        old="        if value not in (TURN, _HOME) and not _ONE_WORD.fullmatch(value):\n",
        new="        if False:\n",
    ),
    Mutant(
        guard="a name in a loop that becomes several words",
        at="agentaccel.effects.words:Word.at",
        old="        if TURN_BARE in self.text and not _ONE_WORD.fullmatch(name):\n",
        new="        if False:\n",
    ),
    Mutant(
        guard="a file of input that is a pipe or a device",
        at="agentaccel.effects.shell:_judge",
        old="        plain(command.given, there)\n",
        new="        pass\n",
    ),
    Mutant(
        guard="a folder that a loop, a branch or a group moves to",
        at="agentaccel.effects.reader:TreeReader._finished",
        old='        if self._depth and any(words[0].text == "cd" for words in self._words if words):\n',
        new="        if False:\n",
    ),
    Mutant(
        guard="a folder from which cd may not have led",
        at="agentaccel.effects.reader:TreeReader._finished",
        old='        self.chained &= self._after in ("", "&&")\n',
        new="",
    ),
    Mutant(
        guard="a loop without an end that is written out",
        at="agentaccel.effects.reader:TreeReader._end",
        old="            if len(self.found) > MOST_COMMANDS:\n",
        new="            if False:\n",
    ),
    Mutant(
        guard="a variable that is set in a pipe",
        at="agentaccel.effects.reader:TreeReader.read",
        old="            elif self._set:\n                raise",
        new="            elif False:\n                raise",
    ),
    Mutant(
        guard="an alternative that becomes an option",
        at="agentaccel.effects.words:alternatives",
        old='    if any(_MAGIC.search(text) and not re.match(r"--[a-z-]+=|[A-Za-z0-9_./]", text) for text in texts):\n',
        new="    if False:\n",
    ),
)

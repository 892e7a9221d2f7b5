"""Guards of what stands at the places that a line names: links, pipes, the whole disk."""

from __future__ import annotations

from tests.mutants import Mutant

GUARDS = (
    Mutant(
        guard="pipes by a longer name",
        at="agentaccel.effects.shell:_form_reads",
        old='        for ending in ("", *form.completes):\n',
        new='        for ending in ("",):\n',
    ),
    Mutant(
        guard="a folder behind a link that cd leaves",
        at="agentaccel.effects.shell:_moved",
        old="    if inside.cwd is not None and rules.climbs(inside.cwd):\n",
        new="    if False:\n",
    ),
    Mutant(
        guard="a link that pwd does not tell",
        at="agentaccel.effects.shell:_form_reads",
        old="        rules.where(options, there)\n",
        new="        pass\n",
    ),
    Mutant(
        guard="the name by which a user's shell went to a folder",
        at="agentaccel.executors.shell:Shell._in_shell",
        old=', "PWD": str(self._folder)}',
        new="}",
    ),
    Mutant(
        guard="a pattern that looks at every name of the disk",
        at="agentaccel.effects.places:_Look._names",
        old="                    if self.listed > MOST_LISTED:\n",
        new="                    if False:\n",
    ),
    Mutant(
        guard="a pattern that opens every folder of the disk",
        at="agentaccel.effects.places:_Look._names",
        old="        if self.opened > MOST_OPENED or ",
        new="        if ",
    ),
    Mutant(
        guard="a pattern that goes over the files of the kernel",
        at="agentaccel.effects.places:_Look._names",
        old=" or _of_kernel(self._at(folder)):\n",
        new=":\n",
    ),
    Mutant(
        guard="a home folder behind =",
        at="agentaccel.effects.words:read_word",
        old="    if _ASSIGNS_HOME.match(bare):\n",
        new="    if False:\n",
    ),
    Mutant(
        guard="what the builtin of a shell prints otherwise",
        at="agentaccel.effects.rules:echo",
        old='    if texts in known["alone"] or (escaped and re.search(known["escapes"], " ".join(texts))):\n',
        new="    if False:\n",
    ),
    Mutant(
        guard="a place of jq that is worked out",
        at="agentaccel.effects.scripts:jq",
        old='        if re.search(known["assigns"], code) and re',
        new="        if False and re",
    ),
    Mutant(
        guard="flags of a substitution of jq",
        at="agentaccel.effects.scripts:jq",
        old=' or re.search(known["flagged"], code):\n',
        new=":\n",
    ),
    Mutant(
        guard="a text that jq repeats over and over",
        at="agentaccel.effects.scripts:jq",
        old="            _times(code)\n",
        new="            pass\n",
    ),
    Mutant(
        guard="words of another program that look like tests of find",
        at="agentaccel.effects.rules:find",
        old="only_plain_files(tests))\n",
        new="only_plain_files([word.text for word in words]))\n",
    ),
)

"""Guards of single programs of the shell."""

from __future__ import annotations

from tests.mutants import Mutant

GUARDS = (
    Mutant(
        guard="actions of find",
        file="effects/rules.py",
        old='        elif word.text not in known["tests"]:\n',
        new="        elif False:\n",
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
        old="            if not plain_files and not",
        new="            if False and not",
    ),
    Mutant(
        guard="what find starts",
        file="effects/shell.py",
        old="        _form_reads(replace(command, words=inner), *_forms()[inner[0].text], there)\n",
        new="",
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
        guard="values of find that make more, or go everywhere",
        file="effects/rules.py",
        old='    if not re.fullmatch(bounds.get(test, ".*"), rest.pop(0).text, re.DOTALL):\n',
        new="    if rest.pop(0) is None:\n",
    ),
    Mutant(
        guard="links out of a folder",
        file="effects/rules.py",
        old="    if options.given & form.follows:\n",
        new="    if False:\n",
    ),
    Mutant(
        guard="the home folder",
        file="effects/rules.py",
        old='        if word.home and word.text in ("~", "~/"):\n',
        new="        if False:\n",
    ),
    Mutant(
        guard="substitutions that grow",
        file="effects/rules.py",
        old='    if len(scripts) > 1 and growth > known["growth"]:\n',
        new="    if False:\n",
    ),
    Mutant(
        guard="awk that puts something in",
        file="effects/awk.py",
        old="        _bounded(name, tokens[place + 1 :])\n",
        new="        pass\n",
    ),
    Mutant(
        guard="settings of awk",
        file="effects/rules.py",
        old='        if name == "-v" and not re.fullmatch(table("shell")["awk"]["setting"], value):\n',
        new="        if False:\n",
    ),
    Mutant(
        guard="where xargs has its names from",
        file="effects/shell.py",
        old="                    xargs.names_files(before, command, place)\n",
        new="                    pass\n",
    ),
    Mutant(
        guard="what stands between the names and xargs",
        file="effects/xargs.py",
        old="    if not all(_chooses([word.text for word in command.words]) for command in before[1:]):\n",
        new="    if False:\n",
    ),
    Mutant(
        guard="errors among the names for xargs",
        file="effects/xargs.py",
        old="    if any(set(command.redirects) - {(2, None)} for command in before):\n",
        new="    if False:\n",
    ),
    Mutant(
        guard="options of xargs",
        file="effects/xargs.py",
        old='        elif option not in table("shell")["xargs"]["options"]:\n',
        new="        elif False:\n",
    ),
    Mutant(
        guard="what xargs starts",
        file="effects/shell.py",
        old='    if not form.any_names or form.operands not in ("path", "pattern"):\n',
        new="    if False:\n",
    ),
    Mutant(
        guard="how xargs starts it",
        file="effects/shell.py",
        old="    _form_reads(replace(command, words=inner, fed=False), form, needs_option, there)\n",
        new="",
    ),
    Mutant(
        guard="awk that doubles a line",
        file="effects/awk.py",
        old='.count("$") < 2',
        new='.count("$") < 99',
    ),
    Mutant(
        guard="awk that makes elements in a loop",
        file="effects/awk.py",
        old="        _loop(tokens[place:])\n",
        new="",
    ),
    Mutant(
        guard="a sub-command that no row has",
        file="effects/clients.py",
        old='            if not depth and options.operands and not verb.row.get("alone", False):\n',
        new="            if False:\n",
    ),
    Mutant(
        guard="a query of a client that writes",
        file="effects/clients.py",
        old='        _query(verb.row["sql"], options, there)\n',
        new="        pass\n",
    ),
    Mutant(
        guard="an address of a client that asks for a deed",
        file="effects/clients.py",
        old='        _address(verb.row["headers"], options)\n',
        new="        pass\n",
    ),
    Mutant(
        guard="settings of a client that start a program",
        file="effects/clients.py",
        old="    _settings(name, client, there)\n    return",
        new="    return",
    ),
    Mutant(
        guard="a database that would be made, or brought up to date",
        file="effects/clients.py",
        old="        _quiet(options.operands[0], there)\n",
        new="",
    ),
    Mutant(
        guard="an option without which it goes on, or does something else",
        file="effects/options.py",
        old="    if form.needs_all - given or (form.needs_one and not form.needs_one & given):\n",
        new="    if False:\n",
    ),
    Mutant(
        guard="what a wrapper starts",
        file="effects/shell.py",
        old='    if not inner or inner[0].text not in _forms() or inner[0].text in table("shell")["alone"]:\n',
        new='    if inner and inner[0].text not in _forms():\n        return Effect.READ_LOCAL, ""\n    if False:\n',
    ),
    Mutant(
        guard="a word of the shell that runs another",
        file="effects/rules.py",
        old='    if not fixed or texts[1] in table("shell")["builtins"]:\n',
        new="    if False:\n",
    ),
    Mutant(
        guard="a format that makes more than it is given",
        file="effects/rules.py",
        old='    if not re.fullmatch(table("shell")["printf"]["format"], text) or text.startswith("-"):\n',
        new="    if False:\n",
    ),
    Mutant(
        guard="what lies below a folder whose files are handed on",
        file="effects/xargs.py",
        old="        only_plain(folder, apart=apart)\n",
        new="",
    ),
    Mutant(
        guard="a variable that leads a client elsewhere",
        file="effects/clients.py",
        old="    return min((one for one in surrounding if beginnings and one.startswith(beginnings)), default=None)\n",
        new="    return None\n",
    ),
)

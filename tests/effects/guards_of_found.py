"""Guards of the kinds that strangers found: pipes that no word names, settings, credentials, commands in arguments."""

from __future__ import annotations

from tests.mutants import Mutant

GUARDS = (
    Mutant(
        guard="pipes below a folder",
        file="effects/unnamed.py",
        old="            plain_below(folder, form.lists, others=form.opens_below)\n",
        new="            pass\n",
    ),
    Mutant(
        guard="lists of what to leave out, above",
        file="effects/unnamed.py",
        old="            plain_around(folder, form.lists)\n",
        new="            pass\n",
    ),
    Mutant(
        guard="a file in the folder that diff is given",
        file="effects/shell.py",
        old="*(paired(files) if form.pairs else ())",
        new="*()",
    ),
    Mutant(
        guard="pipes among the files of git itself",
        file="effects/repository.py",
        old='        plain_below(folder, (), others=True, without=opens["not_looked_into"])\n',
        new="        pass\n",
    ),
    Mutant(
        guard="pipes beside git's objects",
        file="effects/repository.py",
        old="            plain_below(folder / name, (), others=True)\n",
        new="            pass\n",
    ),
    Mutant(
        guard="pipes among the lists of a work tree",
        file="effects/repository.py",
        old='    plain_below(root, opens["lists"], without=[".git"])\n',
        new="",
    ),
    Mutant(
        guard="pipes among the lists of a user of git",
        file="effects/repository.py",
        old='    plain_files(there.home / name for name in table("git")["opens"]["of_users"])\n',
        new="",
    ),
    Mutant(
        guard="pipes where the index names a file",
        file="effects/repository.py",
        old='        if not _plain_there(root / held[start:end].decode(errors="surrogateescape")):\n',
        new="        if False:\n",
    ),
    Mutant(
        guard="a pipe where a database was",
        file="effects/unnamed.py",
        old="    if not file.is_file():\n",
        new="    if False:\n",
    ),
    Mutant(
        guard="a pipe behind a redirection that came after the verdict",
        file="tools/line.py",
        old="            if not (stat.S_ISREG(opened.st_mode) or os.path.samestat(opened, os.stat(os.devnull))):\n",
        new="            if False:\n",
    ),
    Mutant(
        guard="settings of programs that are no clients",
        file="effects/shell.py",
        old='    clients.settings(name, table("shell")["settings"].get(name, {}), ',
        new="    clients.settings(name, {}, ",
    ),
    Mutant(
        guard="settings that matter to one sub-command",
        file="effects/clients.py",
        old="    settings(name, verb.row, there)\n",
        new="",
    ),
    Mutant(
        guard="settings whose names are a pattern",
        file="effects/clients.py",
        old='    return sorted(base.glob(name)) if "*" in name else [base / name]\n',
        new="    return [base / name]\n",
    ),
    Mutant(
        guard="a key of a known issuer, told elsewhere",
        file="effects/secrets.py",
        old='            if not (at_home or (bearer and row.get("bearer", False))) and pattern.search(layer):\n',
        new="            if False:\n",
    ),
    Mutant(
        guard="a setting that is a secret, with its value",
        file="effects/secrets.py",
        old='        if not bearer and re.search(table("secrets")["values"]["said"], layer):\n',
        new="        if False:\n",
    ),
    Mutant(
        guard="what is packed in a value",
        file="effects/secrets.py",
        old="    if depth == DEEPEST:\n",
        new="    if True:\n",
    ),
    Mutant(
        guard="a parameter that is named for a secret",
        file="effects/secrets.py",
        old='    if {*words, "".join(words)} & set(known["strong"]):\n',
        new="    if False:\n",
    ),
    Mutant(
        guard="a value that looks like a key",
        file="effects/secrets.py",
        old=' and len(value) >= values["least_opaque"] and _opaque(value):\n',
        new=" and False:\n",
    ),
    Mutant(
        guard="a value that looks like a key, of a name that may mean one",
        file="effects/secrets.py",
        old='    if weak and len(value) >= values["least_weak"] and _mixed(value):\n',
        new="    if False:\n",
    ),
    Mutant(
        guard="keys in headers",
        file="effects/http.py",
        old='    secrets.headers(host, given.get("headers") or {})\n',
        new="",
    ),
    Mutant(
        guard="keys among the words of a client",
        file="effects/clients.py",
        old="    for word in words if remote else ():\n",
        new="    for word in ():\n",
    ),
    Mutant(
        guard="keys among the arguments of a tool",
        file="effects/mcp.py",
        old="    _tells_no_key([value for _, value in leaves if isinstance(value, str)], hint)\n",
        new="",
    ),
    Mutant(
        guard="arguments whose names end in a word for a command",
        file="effects/commands.py",
        old='    if name in known["commands"] or last_word(name) in known["command_words"]:\n',
        new='    if name in known["commands"]:\n',
    ),
    Mutant(
        guard="a program behind another one",
        file="effects/commands.py",
        old="    if any(program in programs for program in _NEXT.findall(value)):\n",
        new="    if False:\n",
    ),
    Mutant(
        guard="an argument that begins with a program",
        file="effects/commands.py",
        old='    return name in known["inputs"] or (len(value.split()) > 1 and not searched)\n',
        new='    return name in known["inputs"]\n',
    ),
    Mutant(
        guard="a program and its words, apart",
        file="effects/mcp.py",
        old="        yield from started(value)\n",
        new="",
    ),
    Mutant(
        guard="a list that is a command",
        file="effects/mcp.py",
        old="            yield name, line\n",
        new="            pass\n",
    ),
    Mutant(
        guard="a tool that speaks of commands",
        file="effects/commands.py",
        old="    return any(isinstance(text, str) and re.search(about, ",
        new="    return False and any(isinstance(text, str) and re.search(about, ",
    ),
    Mutant(
        guard="a program in an argument",
        file="effects/code.py",
        old='    if found := re.search(known["refused"], bare):\n',
        new="    if found := None:\n",
    ),
    Mutant(
        guard="a program that calls what is not listed",
        file="effects/code.py",
        old='        if not pure or (root[:1].isupper() and root not in known["roots"]):\n',
        new="        if False:\n",
    ),
    Mutant(
        guard="a program that assigns to a part of something",
        file="effects/code.py",
        old='        return "it assigns to a part of something"\n',
        new="        pass\n",
    ),
    Mutant(
        guard="a program that calls by the name alone",
        file="effects/code.py",
        old='        return "it calls something by its name alone"\n',
        new="        pass\n",
    ),
)

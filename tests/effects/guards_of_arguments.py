"""Guards of the arguments of tools: deeds, programs, requests, switches, files and pipes, whatever they are named."""

from __future__ import annotations

from tests.mutants import Mutant

GUARDS = (
    Mutant(
        guard="a switch that is set",
        file="effects/deeds.py",
        old="    if stated is not None and (why := _switched(",
        new="    if False and (why := _switched(",
    ),
    Mutant(
        guard="a trial that is none",
        file="effects/deeds.py",
        old=" if on is negated else None",
        new=" if False else None",
    ),
    Mutant(
        guard="switches that are no booleans",
        file="effects/deeds.py",
        old="_STATED.get(str(value).strip().lower())",
        new="None",
    ),
    Mutant(
        guard="a deed that a value is",
        file="effects/deeds.py",
        old="    if deed := _deed(name, value.strip()):\n",
        new="    if deed := None:\n",
    ),
    Mutant(
        guard="a deed under a name that says nothing of one",
        file="effects/deeds.py",
        old="    return min(ends & (",
        new="    return None and min(ends & (",
    ),
    Mutant(
        guard="words of deeds that are written together",
        file="effects/deeds.py",
        old="stem[1] if stem and len(said) == 1 else None",
        new="None",
    ),
    Mutant(
        guard="a file that is opened to be written",
        file="effects/deeds.py",
        old='        if words[-1] == "mode" and',
        new="        if False and",
    ),
    Mutant(
        guard="a file that is written beside one that is read",
        file="effects/deeds.py",
        old="    return named and beside and",
        new="    return False and",
    ),
    Mutant(
        guard="where a copy goes",
        file="effects/deeds.py",
        old='        return beside or "/" in value or',
        new='        return "/" in value or',
    ),
    Mutant(
        guard="names of what stands around",
        file="effects/texts.py",
        old='    return f"{name}.{\'_\'.join(words)}" if name else "_".join(words)\n',
        new='    return "_".join(words)\n',
    ),
    Mutant(
        guard="keys that say nothing",
        file="effects/texts.py",
        old='    if name and set(words) <= set(table("mcp")["says_nothing"]):\n',
        new="    if False:\n",
    ),
    Mutant(
        guard="programs in a text of any name",
        file="effects/mcp.py",
        old=" and (why := calls(value)):\n",
        new=" and (why := None):\n",
    ),
    Mutant(
        guard="programs that are put into a text",
        file="effects/code.py",
        old="    if found := _PUT_IN.search(text):\n",
        new="    if found := None:\n",
    ),
    Mutant(
        guard="calls without parentheses",
        file="effects/code.py",
        old="    if (found := _OF_WHAT.fullmatch(text)) and",
        new="    if (found := None) and",
    ),
    Mutant(
        guard="a text that is one call",
        file="effects/code.py",
        old='text.rstrip(" \\t\\r\\n;.").endswith(")")',
        new="False",
    ),
    Mutant(
        guard="a call with a text in it",
        file="effects/code.py",
        old="    if not prose and not _HOLDING.search(text) and not whole:\n",
        new="    if not prose and not whole:\n",
    ),
    Mutant(
        guard="what is sent beside an address",
        file="effects/asked.py",
        old='        if sent and value and not (name == "json" and value is True):\n',
        new="        if False:\n",
    ),
    Mutant(
        guard="methods beside an address",
        file="effects/asked.py",
        old="            methods.append(str(value))\n",
        new="            pass\n",
    ),
    Mutant(
        guard="requests within arguments",
        file="effects/asked.py",
        old="        yield from request(one, depth + 1)\n",
        new="        pass\n",
    ),
    Mutant(
        guard="headers that are lines",
        file="effects/asked.py",
        old="            headers |= _headers(value)\n",
        new="            headers |= value if isinstance(value, dict) else {}\n",
    ),
    Mutant(
        guard="a path beside a host",
        file="effects/asked.py",
        old='        nowhere.append(texts["path"])\n',
        new="        pass\n",
    ),
    Mutant(
        guard="the first line of a request",
        file="effects/asked.py",
        old="(_is_method(line[1]) or line[3]):\n",
        new="False:\n",
    ),
    Mutant(
        guard="an address without a scheme",
        file="effects/asked.py",
        old='    return f"https://{value}" if named and',
        new='    return f"https://{value}" if False and',
    ),
    Mutant(
        guard="an address of another scheme",
        file="effects/asked.py",
        old='        return _OF_WEB.sub("https:", value, count=1)\n',
        new="        return None\n",
    ),
    Mutant(
        guard="names of devices elsewhere",
        file="effects/unnamed.py",
        old="            if opened and _OF_WINDOWS.fullmatch(text):\n",
        new="            if False:\n",
    ),
    Mutant(
        guard="devices under any name",
        file="effects/unnamed.py",
        old="            if opened or (_OF_KERNEL.match(",
        new="            if opened or (None and _OF_KERNEL.match(",
    ),
    Mutant(
        guard="pipes under any name",
        file="effects/unnamed.py",
        old="            plain_files(os.path.join(base, text) for base in (cwd, *folders))\n",
        new="",
    ),
    Mutant(
        guard="pipes that a pattern stands for",
        file="effects/unnamed.py",
        old="                plain_files(os.path.join(cwd, match) for match in _matches(text, there))\n",
        new="                pass\n",
    ),
    Mutant(
        guard="pipes in a folder beside",
        file="effects/unnamed.py",
        old="for base in (cwd, *folders))",
        new="for base in (cwd,))",
    ),
    Mutant(
        guard="pipes below a folder that is gone over",
        file="effects/unnamed.py",
        old="            plain_below(folder, (), others=True)\n    for last",
        new="            pass\n    for last",
    ),
    Mutant(
        guard="names with a home folder",
        file="effects/unnamed.py",
        old='        whole = re.sub(r"^(?:~|',
        new='        re.sub(r"^(?:~|',
    ),
    Mutant(
        guard="several names in one text",
        file="effects/unnamed.py",
        old=" if pieces else []\n",
        new=" if False else []\n",
    ),
    Mutant(
        guard="names with percent signs",
        file="effects/unnamed.py",
        old="    whole = unquote(bare)\n",
        new="    whole = bare\n",
    ),
)

"""Programs that a tool is given in a language that nobody names: whether all that one does is to work something out.

No reader of every language is at hand. So a text is taken for harmless only where each word that could do more is
missing, each call is one of mathematics or of texts, and nothing is assigned but a plain name.
"""

from __future__ import annotations

import re

from agentaccel.effects.tables import table

MOST_READ = 5_000
"""Characters of a program that are looked at."""
_CALL = re.compile(r"(?<![\w.])([A-Za-z_][\w.]*+)\s*+\(|\.(\w++)\s*+\(")
_TEXTS = re.compile(r"\"[^\"\\\n]*\"|'[^'\\\n]*'")


def does(text: str) -> str | None:
    """What the program may do beside working something out; None where it is certainly nothing.

    >>> does("2 * (3 + x)"), does("round(math.sqrt(2), 3)"), does("E404")
    (None, None, None)
    >>> does("open('x', 'w')")
    "it holds 'open'"
    """
    if len(text) > MOST_READ:
        return "it is too long to be looked at"
    known = table("mcp")["code"]
    bare = _TEXTS.sub('""', "\n".join(line for line in text.split("\n") if not re.match(known["imports"], line)))
    if found := re.search(known["refused"], bare):
        return f"it holds {found[0]!r}"
    for named, of_result in _CALL.findall(re.sub(r"\s+\.|\.\s+", ".", bare)):
        root, _, name = named.rpartition(".") if named else ("", "", of_result)
        root = root.split(".")[0]
        pure = name in known["calls"] or (root in known["roots"] and name in known["logs"])
        if not pure or (root[:1].isupper() and root not in known["roots"]):
            return f"it calls {name!r}"
    if re.search(r"[\w)]\s*[.\[][^=\n]*(?<![=!<>])=(?!=)", bare):
        return "it assigns to a part of something"
    if re.search(r"(?:^|[;\n])\s*[A-Za-z_][\w.]*[ \t]+(?:\"\"|[-/.~$][\w/.-]+)", bare):
        return "it calls something by its name alone"
    return None

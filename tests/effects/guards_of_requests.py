"""Guards of SQL, HTTP and MCP, and of how evidence is weighed."""

from __future__ import annotations

from tests.mutants import Mutant

GUARDS = (
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
        guard="rows made out of nothing",
        file="effects/sql_size.py",
        old="    if rows * text > MOST_MADE:\n",
        new="        if False:\n",
    ),
    Mutant(
        guard="a query that calls itself",
        file="effects/sql_size.py",
        old="        if own in tables and not any(ends):\n",
        new="        if False:\n",
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
        old="    if _endless(plain, value):\n",
        new="    if False:\n",
    ),
    Mutant(
        guard="a tool that runs only as a task",
        file="effects/mcp.py",
        old='        raise Refused("the tool runs only as a task")\n',
        new="        pass\n",
    ),
    Mutant(
        guard="the worst of several sources",
        file="effects/verdict.py",
        old="    worst = max(deciding, key",
        new="    worst = min(deciding, key",
    ),
    Mutant(
        guard="rows that are worked out",
        file="effects/sql_size.py",
        old="    if node.find(exp.Mul, exp.Pow, exp.BitwiseXor):\n",
        new="    if False:\n",
    ),
    Mutant(
        guard="steps that are too fine",
        file="effects/sql_size.py",
        old="    if any(re.search(rf",
        new="    if False and any(re.search(rf",
    ),
    Mutant(
        guard="a width in a format of SQL",
        file="effects/sql_size.py",
        old="        _format(node, exp)\n",
        new="",
    ),
    Mutant(
        guard="tables without an end",
        file="effects/sql.py",
        old='    if ".".join(parts) in lists["endless"]:\n',
        new="    if False:\n",
    ),
    Mutant(
        guard="files for tables",
        file="effects/sql.py",
        old='    if len(parts) > 1 and set(parts) & set(lists["files"]):\n',
        new="    if False:\n",
    ),
    Mutant(
        guard="functions that are spelled as columns of dual",
        file="effects/sql.py",
        old="        if only_dual and not column.table and",
        new="        if False and not column.table and",
    ),
    Mutant(
        guard="names that hold an address",
        file="effects/http.py",
        old="    if _HOLDS_ADDRESS.search(host) or any(",
        new="    if any(",
    ),
    Mutant(
        guard="names that lead anywhere",
        file="effects/http.py",
        old='for one in table("http")["leads_anywhere"]',
        new="for one in ()",
    ),
    Mutant(
        guard="ports of other services",
        file="effects/http.py",
        old='    if port == 0 or port in table("http")["refused_ports"]:\n',
        new="    if port == 0:\n",
    ),
    Mutant(
        guard="two hosts in one address",
        file="effects/http.py",
        old='    if not parts.path and "@" in url:\n',
        new="    if False:\n",
    ),
    Mutant(
        guard="a recipient and a message",
        file="effects/http.py",
        old='    if names & set(known["recipients"]) and names & set(known["messages"]):\n',
        new="    if False:\n",
    ),
    Mutant(
        guard="keys in an address",
        file="effects/http.py",
        old='    if re.fullmatch(known["secrets"], value.strip()):\n',
        new="    if False:\n",
    ),
    Mutant(
        guard="a form without a body",
        file="effects/http.py",
        old='        if not re.fullmatch(values.get(name.lower(), ".*"), value, re.IGNORECASE):\n',
        new="        if False:\n",
    ),
    Mutant(
        guard="another word for a hint",
        file="effects/mcp.py",
        old='            if any(part in plain for part in known["says_of_effects"]):\n',
        new="            if False:\n",
    ),
    Mutant(
        guard="a word behind an identifier",
        file="effects/http.py",
        old='    if not plural and word.lower() not in table("http")["things"]:\n',
        new="    if False:\n",
    ),
    Mutant(
        guard="rows of tables that multiply",
        file="effects/sql_size.py",
        old="    if len(tables) - tied >= 2:\n",
        new="    if False:\n",
    ),
)

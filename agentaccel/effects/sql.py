"""SQL statements: exactly one, a query, of nodes and functions that are on the lists of its dialect.

The verdict holds for a connection of its own, in a role that may only read, which the tool names. What a view, an
operator or a function of the schema does behind a plain name is that role's affair: no reader of text can see it.
"""

from __future__ import annotations

import re
from typing import Any

from agentaccel.effects.sql_size import bounded
from agentaccel.effects.tables import table
from agentaccel.effects.verdict import Refused, Verdict, analysed, judged, weigh, worked_out_once
from agentaccel.errors import MissingExtraError
from agentaccel.types import Effect

MAX_LENGTH = 5_000
"""Characters of a statement that are looked at: each takes some 10 µs, so all of them a twentieth of a second, in which
the interpreter's other threads have to wait for their turn again and again."""
MAX_DEPTH = 120
"""Parentheses within parentheses."""
_KEPT = 256
"""Statements whose verdicts are kept: each is asked for several times before it runs, and takes 10 µs a character."""
UNNAMED = ("postgres", "mysql", "sqlite")
"""Where no dialect is named, all of these must take the statement for a read."""

_NAME = r"[A-Za-z_][\w$-]*"
_SEQUENCES = {"nextval", "currval", "setval", "lastval"}
_HIDES = re.compile(r"/\*|--|\\|\$\$|\$[A-Za-z_]\w*\$|[\x00-\x08\x0b-\x1f\x7f]")
_STARTS = re.compile(
    r"\s*+\(*+\s*+(?:select|with|values|insert|update|delete|merge|create|drop|alter|truncate|grant|exec"
    r"|call|copy|replace|set|begin|do|explain|show|pragma|describe|vacuum|attach)\b",
    re.IGNORECASE,
)


def surely_sql(text: str) -> bool:
    """It goes on as statements do, too: a sentence that begins with "delete" is none.

    >>> surely_sql("DELETE FROM t"), surely_sql("delete a branch in git"), surely_sql("/* x */ select 1")
    (True, False, True)
    """
    return re.match(table("sql")["words"]["statement"], text, re.IGNORECASE | re.DOTALL) is not None


def looks_like_sql(text: str) -> bool:
    """It begins as statements do.

    >>> looks_like_sql("DELETE FROM t"), looks_like_sql("delivery status")
    (True, False)
    """
    match = _STARTS.match(text)
    return match is not None and bool(text[match.end() :].strip())


@judged("sql")
def judge_sql(text: str, dialect: str | None) -> Verdict:
    """The verdict about one statement in `dialect`, on a read-only connection that the tool names."""
    if len(text) > MAX_LENGTH or text.count("(") > MAX_DEPTH:
        raise Refused("it is too long to be looked at")
    if dialect is None:
        return weigh([one for name in UNNAMED for one in _judge(text, name).evidence])
    known = table("sql")["dialects"]
    if dialect.lower() not in known:
        raise Refused(f"the dialect {dialect!r} is not known")
    return _judge(text, known[dialect.lower()])


@worked_out_once("sql", _KEPT)
def _judge(text: str, dialect: str) -> Verdict:
    if match := _HIDES.search(text):
        raise Refused(f"it holds {match[0]!r}, which some servers and readers take differently")
    if dialect in ("mysql", "bigquery") and "#" in text:
        raise Refused("it holds '#', which may begin a comment")
    _sqlglot()
    plain = " ".join(text.split()).removesuffix(";").rstrip()
    if not _listing(plain, dialect):
        _query(_explained(plain, dialect, text), dialect)
    effect = Effect.READ_LOCAL if dialect in table("sql")["local"] else Effect.READ_REMOTE
    return analysed(
        effect, f"sql: a query ({dialect}) of functions that only read; on a read-only connection of its own"
    )


def _sqlglot() -> Any:
    try:
        import sqlglot
    except ImportError:
        raise MissingExtraError("effects", "sqlglot") from None
    return sqlglot


def _listing(plain: str, dialect: str) -> bool:
    forms = table("sql")["forms"].get(dialect, ())
    patterns = [one.replace("{name}", rf"(?:{_NAME}\.){{0,2}}{_NAME}").replace("{one}", _NAME) for one in forms]
    return any(re.fullmatch(pattern, plain, re.IGNORECASE | re.ASCII) for pattern in patterns)


def _explained(plain: str, dialect: str, text: str) -> str:
    """The query behind EXPLAIN, which plans it and does not run it; ANALYZE would."""
    match = re.match(table("sql")["forms"]["explaining"], text, re.IGNORECASE)
    return text[match.end() :] if match and dialect in table("sql")["forms"]["explain"] else text


def _query(text: str, dialect: str) -> None:
    sqlglot = _sqlglot()
    try:
        tokens = sqlglot.tokenize(text, read=dialect)
        _tokens(tokens, sqlglot.TokenType)
        _operators(tokens, sqlglot.TokenType)
        statements = sqlglot.parse(text, read=dialect, error_level=sqlglot.ErrorLevel.RAISE)
    except sqlglot.errors.SqlglotError:
        raise Refused(f"it does not parse as a query ({dialect})") from None
    statements = [one for one in statements if one is not None]
    if len(statements) != 1:
        raise Refused("it is not exactly one statement")
    root = statements[0]
    if not isinstance(root, sqlglot.exp.Select | sqlglot.exp.SetOperation | sqlglot.exp.Values | sqlglot.exp.Subquery):
        raise Refused("it is no query")
    named = [one.name.lower() for one in root.find_all(sqlglot.exp.TableAlias) if one.args.get("columns")]
    _calls(tokens, dialect, sqlglot.TokenType, named)
    if dialect in table("sql")["words"]["functions_as_columns"]:
        _columns(root, sqlglot.exp)
    for node in root.walk():
        _node(node, sqlglot.exp)
    _collations(root, dialect, sqlglot.exp)
    bounded(root, sqlglot.exp)


def _tokens(tokens: list[Any], kinds: Any) -> None:
    first = next(iter(tokens), None)
    if first is None or first.token_type not in (kinds.SELECT, kinds.WITH, kinds.VALUES, kinds.L_PAREN):
        raise Refused("it does not begin as a query")
    verbs = set(table("sql")["words"]["verbs"])
    for place, token in enumerate(tokens):
        if token.comments:
            raise Refused("it holds a comment")
        if token.token_type == kinds.SEMICOLON and place != len(tokens) - 1:
            raise Refused("it holds several statements")
        if token.text == "$":
            if tokens[place + 1 : place + 2] and tokens[place + 1].token_type == kinds.NUMBER:
                continue
            raise Refused("it holds '$', behind which a client may put something else")
        if token.token_type in (kinds.PARAMETER, kinds.L_BRACE, kinds.BLOCK_START, kinds.COLON_EQ, kinds.HINT):
            raise Refused(f"it holds {token.text!r}")
        if token.token_type not in (kinds.IDENTIFIER, kinds.STRING) and token.text.lower() in verbs:
            raise Refused(f"it holds {token.text!r}, which may begin another statement")
        if not token.text.isprintable() and token.token_type not in (kinds.STRING,):
            raise Refused("a name in it holds characters that cannot be seen")


def _operators(tokens: list[Any], kinds: Any) -> None:
    """Signs that touch one another are one operator for the server, whatever a reader makes of them."""
    signs, end = "", -1
    for token in tokens:
        quoted = token.token_type in (kinds.STRING, kinds.IDENTIFIER)
        if quoted or not re.fullmatch(r"[-+*/<>=~!@#%^&|`?]+", token.text):
            signs = ""
            continue
        signs = signs + token.text if token.start == end + 1 else token.text
        end = token.end
        plain = signs.rstrip("+-") if not re.search(r"[~!@#%^&|`?]", signs) else signs
        if plain and plain not in table("sql")["words"]["operators"]:
            raise Refused(f"it holds the operator {signs!r}")


def _calls(tokens: list[Any], dialect: str, kinds: Any, named: list[str]) -> None:
    """Every word before a parenthesis is a listed function, of the grammar, or a name with its columns, once each."""
    lists = table("sql")
    known = {*lists["functions"]["common"], *lists["functions"].get(dialect, ()), *lists["words"]["structure"]}
    left = list(named)
    for place, token in enumerate(tokens[:-1]):
        if tokens[place + 1].token_type != kinds.L_PAREN:
            continue
        if token.token_type == kinds.IDENTIFIER and token.text.lower() not in left:
            raise Refused(f"the function {token.text!r} in quotes is not one of the system")
        if place and tokens[place - 1].token_type == kinds.DOT and token.token_type != kinds.STAR:
            raise Refused(f"it calls {token.text!r} of a schema or an object")
        name = token.text.lower()
        if not re.match(r"\w", name) and token.token_type not in (kinds.IDENTIFIER, kinds.STRING):
            continue
        if name in left:
            left.remove(name)
        elif name not in known or token.token_type == kinds.STRING:
            raise Refused(f"the function {token.text!r} is not on the list of those that only read ({dialect})")


def _columns(root: Any, exp: Any) -> None:
    """Where n.f means f(n): a column is one of a table, a query or a listed name, never of a function's result."""
    sources = {one.alias_or_name.lower() for one in root.find_all(exp.Table) if isinstance(one.this, exp.Identifier)}
    sources |= {one.alias_or_name.lower() for one in root.find_all(exp.Subquery, exp.CTE)}
    functions = {one.alias_or_name.lower() for one in root.find_all(exp.Table) if isinstance(one.this, exp.Func)}
    functions |= {one.alias_or_name.lower() for one in root.find_all(exp.Lateral, exp.Unnest, exp.UDTF)}
    listed = {
        (alias.name.lower(), one.name.lower())
        for alias in root.find_all(exp.TableAlias)
        for one in alias.args.get("columns") or ()
    }
    only_dual = {one.name.lower() for one in root.find_all(exp.Table)} == {"dual"}
    of_dual = set(table("sql")["words"]["of_dual"])
    if only_dual:
        of_dual |= {one.alias.lower() for one in root.find_all(exp.Alias)}
    for column in root.find_all(exp.Column):
        if only_dual and not column.table and column.name.lower() not in of_dual:
            raise Refused(f"{column.sql()!r} is no column of dual, and may call a function")
        if (column.table.lower(), column.name.lower()) in listed:
            continue
        of = column.table.lower()
        if (
            of
            and column.name.lower() not in table("sql")["words"]["outputs"]
            and (of not in sources or of in functions)
        ):
            raise Refused(f"{column.sql()!r} may call a function")


def _node(node: Any, exp: Any) -> None:
    kind = type(node).__name__
    lists = table("sql")["nodes"]
    if isinstance(node, exp.Anonymous | exp.AnonymousAggFunc | exp.CombinedAggFunc):
        return  # its name was looked up among the words before a parenthesis
    if isinstance(node, exp.Func) and kind not in ("Cast", "Case") and not isinstance(node, exp.Binary):
        if kind in lists["refused_functions"]:
            raise Refused(f"it holds {kind}")
        return
    if kind not in lists["allowed"] and not isinstance(node, exp.Func):
        raise Refused(f"it holds {kind}, which is not on the list of what only reads")
    for check in _CHECKS.get(kind, ()):
        check(node, exp)


def _collations(root: Any, dialect: str, exp: Any) -> None:
    """Where a program may register its own, which are functions of its, only those of the system."""
    known = table("sql")["collations"].get(dialect)
    for node in root.find_all(exp.Collate) if known is not None else ():
        if node.expression.name.lower() not in known:
            raise Refused(f"the collation {node.expression.name!r} is not one of the system ({dialect})")


def _identifier(node: Any, exp: Any) -> None:
    if not re.fullmatch(r"[\w $-]+", node.name) or node.name.lower() in _SEQUENCES:
        raise Refused(f"the name {node.name!r} may stand for something else than a column or a table")


def _table(node: Any, exp: Any) -> None:
    if len(node.parts) > 3:
        raise Refused("a table is named through another server")
    if node.name.lower().startswith("pragma_"):
        raise Refused("a statement that sets something up stands in the place of a table")
    lists = table("sql")["tables"]
    parts = [part.name.lower() for part in node.parts]
    if ".".join(parts) in lists["endless"]:
        raise Refused(f"the table {'.'.join(parts)!r} has no end")
    if len(parts) > 1 and set(parts) & set(lists["files"]):
        raise Refused("a file stands in the place of a table")


def _data_type(node: Any, exp: Any) -> None:
    if node.this == exp.DataType.Type.USERDEFINED:
        raise Refused("it casts to a type of the schema")


def _select(node: Any, exp: Any) -> None:
    listed = table("sql")["nodes"]["clauses"]
    if not node.expressions:
        raise Refused("it selects nothing")
    for name, value in node.args.items():
        if value and name not in listed:
            raise Refused(f"it holds a clause ({name}) that is not on the list of what only reads")


def _table_hint(node: Any, exp: Any) -> None:
    if any(one.name.lower() not in ("nolock", "readuncommitted") for one in node.expressions):
        raise Refused("it asks for a lock")


_CHECKS = {
    "Identifier": (_identifier,),
    "Table": (_table,),
    "DataType": (_data_type,),
    "Select": (_select,),
    "WithTableHint": (_table_hint,),
}

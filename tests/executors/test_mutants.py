"""The tests of our executors, and of what may be launched, bite: without any single guard they fail."""

from __future__ import annotations

from tests.mutants import Mutant, biting, running

GUARDS = (
    Mutant(
        guard="early runs of what is not proven",
        at="agentaccel.executors.shell:Shell.execute",
        old="        if is_early() and not proven:\n",
        new="        if False:\n",
    ),
    Mutant(
        guard="early runs that lose their proof midway",
        at="agentaccel.executors.shell:Shell._without_shell",
        old="            if is_early() and not await is_proven(partial(self.judge, command)):\n",
        new="            if False:\n",
    ),
    Mutant(
        guard="timed-out early runs that are served",
        at="agentaccel.executors.shell:Shell.execute",
        old="        except TimeoutError:\n            if is_early():\n",
        new="        except TimeoutError:\n            if False:\n",
    ),
    Mutant(
        guard="programs that the system ended",
        at="agentaccel.executors.line:_status",
        old="    if is_early() and code < 0 and code != -signal.SIGPIPE:",
        new="    if False:",
    ),
    Mutant(
        guard="programs that an early run gave too little",
        at="agentaccel.executors.line:_status",
        old="    if is_early() and early.has_failed(",
        new="    if False and (",
    ),
    Mutant(
        guard="programs that cannot be started",
        at="agentaccel.executors.line:_start",
        old="    except (OSError, Refused) as failure:\n        if is_early():\n",
        new="    except (OSError, Refused) as failure:\n        if False:\n",
    ),
    Mutant(
        guard="files that cannot be opened",
        at="agentaccel.executors.line:_given",
        old="    except OSError as failure:\n        if is_early():\n",
        new="    except OSError as failure:\n        if False:\n",
    ),
    Mutant(
        guard="searches that lack files",
        at="agentaccel.executors.folder:_passed_over",
        old="    if failure.errno in _SHORTAGES:\n",
        new="    if False:\n",
    ),
    Mutant(
        guard="programs that shadow those of the system",
        at="agentaccel.executors.shell:Shell._differs",
        old="            if (ours is None and one == name) or not (",
        new="            if False and (",
    ),
    Mutant(
        guard="variables that lead git elsewhere",
        at="agentaccel.executors.shell:Shell._leads_elsewhere",
        old='        if name == "git" and (',
        new='        if name == "nothing" and (',
    ),
    Mutant(
        guard="the user's environment in proven lines",
        at="agentaccel.executors.shell:Shell._without_shell",
        old="        environment = {**early.environment(",
        new="        environment = {**self._surrounding(), **early.environment(",
    ),
    Mutant(
        guard="a time zone that names a file",
        at="agentaccel.executors.shell:Shell._without_shell",
        old="        if _ZONE.fullmatch(zone):\n",
        new="        if zone:\n",
    ),
    Mutant(
        guard="arguments that are more than a line",
        at="agentaccel.executors.shell:Shell._judge_call",
        old='        if set(arguments) != {"command"} or not',
        new="        if not",
    ),
    Mutant(
        guard="processes that are left behind",
        at="agentaccel.executors.processes:Processes.__aexit__",
        old="        finally:\n            self._signal(signal.SIGKILL)\n",
        new="        finally:\n",
    ),
    Mutant(
        guard="signals that reach the head of a session only",
        at="agentaccel.executors.processes:Processes._signal",
        old="                    os.killpg(process.pid, number)\n",
        new="                    os.kill(process.pid, number)\n",
    ),
    Mutant(
        guard="output without a bound in memory",
        at="agentaccel.executors.processes:Excerpt.feed",
        old="            del self._last[: -self._half]\n",
        new="            pass\n",
    ),
    Mutant(
        guard="redirections that are not made",
        at="agentaccel.executors.line:_redirected",
        old="    for stream, other in redirects:\n",
        new="    for stream, other in ():\n",
    ),
    Mutant(
        guard="commands that run though && says no",
        at="agentaccel.executors.line:_items",
        old='        if (after == "&&" and status) or',
        new="        if False or",
    ),
    Mutant(
        guard="links that lead out of a folder",
        at="agentaccel.executors.folder:_OpenFolders._inside",
        old="        if not real.is_relative_to(self._root):\n",
        new="        if False:\n",
    ),
    Mutant(
        guard="pipes and devices that are read",
        at="agentaccel.executors.folder:_OpenFolders._plain",
        old="        if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):\n",
        new="        if False:\n",
    ),
    Mutant(
        guard="files that are replaced",
        at="agentaccel.executors.folder:_OpenFolders._enter",
        old="        if (found.st_dev, found.st_ino) != (seen.st_dev, seen.st_ino):\n",
        new="        if False:\n",
    ),
    Mutant(
        guard="early statements that are not proven",
        at="agentaccel.executors.sql:Sql.query",
        old="        if is_early() and not proven:\n",
        new="        if False:\n",
    ),
    Mutant(
        guard="proven queries on the ordinary connection",
        at="agentaccel.executors.sql:Sql.query",
        old="        if proven and self.read_only is not None:\n",
        new="        if False:\n",
    ),
    Mutant(
        guard="files that a reader of a log leaves behind, and a pipe beside a database",
        at="agentaccel.executors.sql:_leaves_a_trace",
        old='    if left_beside(file) != ({"-wal", "-shm"} if keeps_log else set()):\n',
        new="    if False:\n",
    ),
    Mutant(
        guard="a pipe where a log of a database would be",
        at="agentaccel.effects.unnamed:left_beside",
        old='        found.add(ending if stat.S_ISREG(os.lstat(real + ending).st_mode) else "other")\n',
        new="        found.add(ending)\n",
    ),
    Mutant(
        guard="a read-only connection that takes anything",
        at="agentaccel.executors.sql:_sqlite_read_only",
        old="    connection.set_authorizer(_only_reads)\n",
        new="",
    ),
    Mutant(
        guard="an early query on the ordinary connection where the guard fails",
        at="agentaccel.executors.sql:Sql.query",
        old="            ways = [self.read_only] if is_early() else [self.read_only, self.connect]\n",
        new="            ways = [self.read_only, self.connect]\n",
    ),
    Mutant(
        guard="calls that fail by the guard alone",
        at="agentaccel.executors.sql:_Statement.run",
        old="            except Exception as error:\n                if getattr(",
        new="            except ZeroDivisionError as error:\n                if getattr(",
    ),
    Mutant(
        guard="a lock that is waited for twice",
        at="agentaccel.executors.sql",
        old="_TAKEN = {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}",
        new="_TAKEN = set[int]()",
    ),
    Mutant(
        guard="files below /tmp of early queries",
        at="agentaccel.executors.sql:_Guarded.bound",
        old='        self.execute("PRAGMA temp_store = MEMORY")\n',
        new="",
    ),
    Mutant(
        guard="early queries that fill the memory",
        at="agentaccel.executors.sql:_Guarded.bound",
        old=" or _resident() - before > _MOST_MEMORY, _STEPS",
        new=", _STEPS",
    ),
    Mutant(
        guard="early queries that were stopped before they began",
        at="agentaccel.executors.sql:_Guarded.bound",
        old="lambda: self._interrupted or ",
        new="lambda: ",
    ),
    Mutant(
        guard="pragmas that undo the guard",
        at="agentaccel.executors.sql:_only_reads",
        old="and name not in _WALLS)",
        new="and name != 'query_only')",
    ),
    Mutant(
        guard="statements that nobody waits for any more",
        at="agentaccel.executors.sql:Sql.query",
        old="            running.stop()\n",
        new="            pass\n",
    ),
    Mutant(
        guard="tools of which nobody said that they are safe beside others",
        at="agentaccel.effects.launch:_kept_from",
        old="        (not (spec.concurrent or spec.judge), ",
        new="        (False, ",
    ),
    Mutant(
        guard="tools that ask a person",
        at="agentaccel.effects.launch:_kept_from",
        old="        (spec.needs_approval, ",
        new="        (False, ",
    ),
    Mutant(
        guard="early requests that are not proven",
        at="agentaccel.executors.http:Http.request",
        old="        if is_early() and not await is_proven(partial(self._judge_call, asked)):\n",
        new="        if False:\n",
    ),
    Mutant(
        guard="early requests to another host",
        at="agentaccel.executors.http:Http._answer",
        old='                if is_early():\n                    raise NotProven("it is led to another host")\n',
        new="",
    ),
    Mutant(
        guard="early requests that are led to a deed",
        at="agentaccel.executors.http:Http._answer",
        old="            if is_early() and not await is_proven(partial(self.judge, url, method)):\n",
        new="            if False:\n",
    ),
    Mutant(
        guard="early answers that may be other ones on time",
        at="agentaccel.executors.http:Http._answer",
        old="                if is_early() and (answer.status_code in _PASSING or answer.status_code >= 500):\n",
        new="                if False:\n",
    ),
    Mutant(
        guard="secrets that another host is shown",
        at="agentaccel.executors.http:Http._answer",
        old="                headers = {name: value for name, value in headers.items() if name in _ANYWHERE}\n",
        new="",
    ),
    Mutant(
        guard="early requests by other methods",
        at="agentaccel.executors.http:Http._judge_call",
        old='if _fetches(arguments.get("method", "GET")) else _NO_FETCH',
        new="if True else _NO_FETCH",
    ),
    Mutant(
        guard="executors that are not ours",
        at="agentaccel.effects.launch:_heard",
        old="        elif spec.kind is not None:\n",
        new="        elif False:\n",
    ),
    Mutant(
        guard="predicted remote reads of new arguments",
        at="agentaccel.effects.launch:permission",
        old="        if allowance.familiar(call):\n",
        new="        if True:\n",
    ),
    Mutant(
        guard="predicted remote reads that nobody allowed",
        at="agentaccel.effects.launch:permission",
        old='    if launch == "asked" and _may_leave(call, allowance):\n',
        new='    if launch == "asked":\n',
    ),
    Mutant(
        guard="metadata that nobody trusts",
        at="agentaccel.effects.mcp:metadata_says",
        old="            if trusted:\n",
        new="            if True:\n",
    ),
)

TOOLS = [f"tests/executors/test_{name}.py" for name in ("shell", "shortage", "output", "folder", "http", "sql")]
COMMAND = running(*TOOLS, "tests/effects/test_launch.py")

test_the_tests_fail_without_the_guard, test_with_every_guard_they_pass = biting(GUARDS, COMMAND)

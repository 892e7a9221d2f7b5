"""Tools to adopt, whose reads are proven: a shell, a folder of files, a database, requests over HTTP.

Each declares of itself what may be run early and when (`agentaccel.effects.spec.ToolSpec`), and an early run is the
same code as one on time, so the model sees the same either way.

    from agentaccel.executors import Folder, Http, Shell, Sql

    shell, folder, database = Shell(cwd="."), Folder("."), Sql.sqlite("app.db")
    tools = accel.tools({"bash": shell.run, "query": database.query, "request": Http().request, **folder.tools()})
"""

from agentaccel.executors.folder import Folder
from agentaccel.executors.http import Http
from agentaccel.executors.shell import Ran, Shell
from agentaccel.executors.sql import Sql

__all__ = ["Folder", "Http", "Ran", "Shell", "Sql"]

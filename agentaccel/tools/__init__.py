"""Tools to adopt, whose reads are proven: a shell, a folder of files, a database.

Each declares of itself what may be run early and when (`agentaccel.effects.declare.ToolSpec`), and an early run is the
same code as one on time, so the model sees the same either way.

    from agentaccel.tools import Folder, Shell, Sql

    shell, folder, database = Shell(cwd="."), Folder("."), Sql.sqlite("app.db")
    tools = accel.tools({"bash": shell.run, "read_file": folder.read_file, "query": database.query})
"""

from agentaccel.tools.shell import Ran, Shell

__all__ = ["Ran", "Shell"]

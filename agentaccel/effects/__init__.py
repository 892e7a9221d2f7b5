"""What running a call would do to the world, with the evidence, and whether it may ever be run before the model asks.

Pure decisions over frozen values. Nothing here runs a tool; the only thing looked at outside the case is the disk,
where what a command does depends on it: the settings of a git repository, and whether an operand is a plain file.
"""

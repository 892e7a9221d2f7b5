"""The former name of `agentaccel.wire`."""

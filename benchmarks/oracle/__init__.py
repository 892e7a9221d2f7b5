"""What `agentaccel replay` does not ask of its clairvoyant plan: a proof, and requests of our own in pauses."""

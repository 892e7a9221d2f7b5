"""What acts on an agent's loop as a whole: when the requests of several branches go out."""

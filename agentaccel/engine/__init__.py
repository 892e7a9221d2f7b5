"""The only package that composes decisions: a request becomes a turn, and its reply a record and the next state."""

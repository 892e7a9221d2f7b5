"""The evidence: the trace store, one SQLite file, and what sessions ask of it."""

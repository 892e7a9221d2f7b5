"""The evidence: the trace store, and importers that read logs of other programs into the same records."""

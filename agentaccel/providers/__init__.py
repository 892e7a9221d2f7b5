"""Wire dialects, pure: a request body becomes a `Prompt`, a plan is written into a copy of it, a reply becomes `Usage`.

One module per dialect. A dialect never does I/O, never mutates what it is given and never decides anything.
"""

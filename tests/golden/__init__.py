"""The golden corpus: what is planned, sent and recorded for many made-up conversations, as canonical JSON.

    make golden                          # compare with the digests that are committed
    python -m tests.golden --write       # after a change of behaviour: anew, in the commit that explains it
    python -m tests.golden --out FOLDER  # write the rows themselves, to compare those of two commits

A refactoring leaves it equal. The names of its fields are its own, so a class, a field or a module may be renamed.
What is stored (rows of the trace store, learned counts, patterns) is taken as it is stored: those names are data.
"""

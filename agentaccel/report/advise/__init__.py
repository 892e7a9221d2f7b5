"""The few things to change first, each with its expected saving computed from the records at hand.

Each remedy is a function from recorded sessions to the sessions with one fault mended; both are replayed in the same
virtual time, and the saving is the difference of their costs. Nothing is said below 2 % of the bill, nor below what
the replay of the sessions as recorded misses their bill by.

`reading` makes sessions of records, `choose.advise` draws the advice; the others are remedies and what they need.
"""

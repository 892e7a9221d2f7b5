"""The demo: a support desk over a real SQLite database, run in five forms that break prompt caches in real life.

The model is scripted and stands behind the emulator; the anthropic SDK, the tools, the database, the planner, the trace
store and the report are the real ones. Figures are the emulator's, at list prices.
"""

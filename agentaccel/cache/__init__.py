"""Prompt-cache geometry: where to mark, what the provider is believed to hold, and what a request will cost.

Pure functions over frozen values; nothing here does I/O or reads a clock.
"""

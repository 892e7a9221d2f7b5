"""What Hypothesis draws from, for the whole suite."""

from __future__ import annotations

from hypothesis import strategies as st

CHARACTERS = st.characters(exclude_categories=["Cs"])
"""Those that Hypothesis takes by itself: all but surrogates. By itself it asks the codec about each, for seconds."""

"""Recorded conversations in virtual time: what they cost as recorded, and what they would cost under other rules."""

"""Toy models that every engine loads: trained here, in a minute. Run as programs, in vLLM's environment."""

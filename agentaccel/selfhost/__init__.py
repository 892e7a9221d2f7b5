"""Engines that people run themselves: what answers at an address, what it counts, and which hints it takes."""

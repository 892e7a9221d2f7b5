"""Engines that people run themselves: launched as processes of their own; what answers at an address, what it counts,
and which hints it takes. None is ever imported into the user's process."""

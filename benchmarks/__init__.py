"""One module for each figure that the README or the docs claim; `python -m benchmarks --list` names them."""

"""What changes in a prompt between turns: where two prompts first differ, and why.

Later parts of this package arrange a prompt (volatile text, tool sets); today it explains.
"""

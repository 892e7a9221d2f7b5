"""What changes in a prompt between turns: where two prompts first differ, and why; and what changes content by consent:
volatile text, tool sets, an older part of a conversation.
"""

from agentaccel.rewrite.extract import extractive

__all__ = ["extractive"]

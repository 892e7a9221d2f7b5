"""Sessions: the only package that composes decisions.

`handle` is what the user opens, `conversation` what has been seen of it, `compose` how a request becomes a turn and a
turn becomes a record.
"""

from agentaccel.session.compose import Composer
from agentaccel.session.conversation import Conversation
from agentaccel.session.handle import Announced, Scope, Session, bypassed, current

__all__ = ["Announced", "Composer", "Conversation", "Scope", "Session", "bypassed", "current"]

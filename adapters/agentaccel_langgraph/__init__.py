"""agentaccel in LangChain's `create_agent`, in deepagents, and in graphs of LangGraph that are written by hand.

agent = create_agent(model, tools, middleware=accelerated(accel, reads=["find_order"]))
"""

from agentaccel_langgraph.middleware import AccelMiddleware, accelerated
from agentaccel_langgraph.models import wrap_model

__all__ = ["AccelMiddleware", "accelerated", "wrap_model"]

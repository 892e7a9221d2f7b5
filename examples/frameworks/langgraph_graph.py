"""A graph of LangGraph, written by hand. It knows nothing of agentaccel, and runs offline, against the emulator."""

import asyncio
from typing import Any

from langchain_anthropic import ChatAnthropic
from langchain_core.tools import tool
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, tools_condition

from agentaccel_emulator import call, serve

SYSTEM = "You help the customers of a shop for lamps. Look an order up before you speak about it. " * 60


@tool
async def get_order(number: int) -> str:
    """Look an order up by its number."""
    return f"order {number}: one desk lamp, sent on Monday"


async def main() -> None:
    with serve(script=[call("get_order", {"number": 7}), "It was sent on Monday."]) as server:
        model = ChatAnthropic(model="claude-sonnet-5", base_url=server.url, api_key="any")
        bound = model.bind_tools([get_order])

        async def think(state: MessagesState) -> Any:
            return {"messages": [await bound.ainvoke([("system", SYSTEM), *state["messages"]])]}

        graph = StateGraph(MessagesState)
        graph.add_node("think", think)
        graph.add_node("tools", ToolNode([get_order]))
        graph.add_edge(START, "think")
        graph.add_conditional_edges("think", tools_condition)
        graph.add_edge("tools", "think")
        state = await graph.compile().ainvoke({"messages": [("user", "Where is order 7?")]})
    print(state["messages"][-1].text)


asyncio.run(main())

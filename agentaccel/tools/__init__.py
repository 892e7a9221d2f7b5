"""One tool call: answered by an early run or executed, and what is run early, when, and for whom."""

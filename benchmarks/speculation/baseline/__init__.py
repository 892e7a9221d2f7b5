"""The joint baseline of the development traces' README (4.2), rebuilt: what a careful afternoon's predictor does.

    context ─▶ backoff (which tool) x rules (which arguments) + recent calls ─▶ logistic confidence on 14 features

It shares no code with `agentaccel.predict`, so that no misreading is common to both.
"""

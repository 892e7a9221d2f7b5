"""The evidence: what the cache did, what it cost, what it could have cost, and why tokens were missed.

`report` folds records, from the trace store or from imported logs, into a `Report`; the other functions show it.
"""

from __future__ import annotations

from agentaccel.report.aggregate import report
from agentaccel.report.figures import By, Group, Report
from agentaccel.report.render import render_markdown, render_text, to_json

__all__ = ["By", "Group", "Report", "render_markdown", "render_text", "report", "to_json"]

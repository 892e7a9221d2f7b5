"""What is planned, sent and recorded for the cases of the corpus is what it was; see the package."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from agentaccel.types import CachePlan, Marker
from tests.golden import recorded
from tests.golden.corpus import chosen, committed, compared, made
from tests.golden.form import digest, plan_row, sent_row

_GROUPS = 24
"""So many tests share the cases."""
_MADE_UP = sorted(name for name in chosen() if not name.startswith("recorded "))


@pytest.mark.slow
@pytest.mark.parametrize("group", range(_GROUPS))
def test_a_refactoring_changes_no_plan_no_request_and_no_record(group: int, tmp_path: Path) -> None:
    """Where behaviour is meant to change: `python -m tests.golden --write`, in the commit that says why."""
    cases = chosen()
    found = {}
    for number, name in enumerate(_MADE_UP[group::_GROUPS]):
        (tmp_path / str(number)).mkdir()
        found[name] = made(cases[name], tmp_path / str(number))[1]
    assert compared(found) == []


@pytest.mark.traces
def test_recorded_exchanges_are_planned_and_read_as_before(tmp_path: Path) -> None:
    """Those of the files that somebody has looked at."""
    cases = dict(recorded.cases())
    if not set(cases) & set(committed()):
        pytest.skip("AGENTACCEL_TRACES names no exchanges that have a digest")
    found = {}
    for name, case in cases.items():
        (tmp_path / name).mkdir()
        found[name] = made(case, tmp_path / name)[1]
    assert compared(found) == []


def test_every_case_has_a_digest_and_every_digest_a_case() -> None:
    assert sorted(name for name in committed() if not name.startswith("recorded ")) == _MADE_UP


PLAN = CachePlan(
    markers=(Marker(path=("system", 0), ttl="5m", reason="end of system", ours=True),), reasons=("It pays.",)
)
REQUEST: dict[str, Any] = {"model": "m", "messages": [{"role": "user", "content": "Hello"}]}


@pytest.mark.parametrize(
    ("plan", "request_"),
    [
        (replace(PLAN, markers=()), REQUEST),
        (replace(PLAN, markers=(replace(PLAN.markers[0], ttl="1h"),)), REQUEST),
        (replace(PLAN, markers=(replace(PLAN.markers[0], path=("system", 1)),)), REQUEST),
        (replace(PLAN, reasons=("It pays!",)), REQUEST),
        (replace(PLAN, consents=("move_volatile",)), REQUEST),
        (replace(PLAN, options={"prompt_cache_key": "k"}), REQUEST),
        (PLAN, {**REQUEST, "messages": [{"role": "user", "content": "Hello."}]}),
        (PLAN, {"messages": REQUEST["messages"], "model": "m"}),
    ],
)
def test_one_changed_marker_reason_or_byte_is_found(plan: CachePlan, request_: dict[str, Any]) -> None:
    """The twin: of the plan, and of the request, whose order counts."""
    rows = [{"plan": plan_row(PLAN), "sent": sent_row(deepcopy(REQUEST))}]
    assert digest(rows) == digest([{"plan": plan_row(replace(PLAN)), "sent": sent_row(REQUEST)}])
    assert digest(rows) != digest([{"plan": plan_row(plan), "sent": sent_row(request_)}])

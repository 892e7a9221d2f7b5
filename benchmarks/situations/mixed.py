"""A bound on one conversation whose requests may each be sent as written or arranged, whatever pauses there are.

A token that is sent in m requests with the same text before it costs at least f(m) = min(m, w + (m - 1)·r): uncached
each time, or written once and read from then on. As written, the text before it is another one after each change;
arranged, it is always the same, but what was moved is sent uncached at the end of each request, and what was kept is
read. So with the choice made for every request, the cost is at least the sum of f over the tokens and the texts before
them, and what arranging itself takes. The least over all choices is found from the last request to the first: f grows
by 1, then by w + r - 1, then by r, so what a request adds depends only on how many later ones chose alike.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from agentaccel.replay.runs import Step


def least_mixed(
    written: Sequence[Step], bare: Sequence[Step], arranging: Sequence[float], moved: Sequence[int]
) -> float:
    """The least that the requests cost, each `written` or arranged.

    `bare` are the same without what may be moved; `arranging` is what sending each arranged takes beside them, and
    `moved` the tokens that it holds as written and not in `bare`. 0 where a text comes back after another one, of which
    this says nothing.
    """
    versions = [_static(step) for step in written]
    changes = [i for i in range(1, len(versions)) if versions[i] != versions[i - 1]]
    if len(set(versions)) != len(changes) + 1:
        return 0.0
    shared = _shared([*written, *bare])
    facts = written[0].prefix.facts
    grows = (1.0, facts.ttls[0].write + facts.read - 1.0, facts.read)
    # By how many later requests chose to be arranged, and to be written with the text of this one: the least so far.
    least = {(0, 0): 0.0}
    for index in range(len(written) - 1, -1, -1):
        if index + 1 in changes:
            least = _best(((arranged, 0), cost) for (arranged, _), cost in least.items())
        behind = max(bare[index].total - shared, 0)
        both = shared * grows[min(len(written) - 1 - index, 2)]
        found = []
        for (arranged, as_it_is), cost in least.items():
            way = grows[arranged] * behind + arranging[index]
            found.append(((min(arranged + 1, 2), as_it_is), cost + both + way))
            way = grows[as_it_is] * (behind + moved[index])
            found.append(((arranged, min(as_it_is + 1, 2)), cost + both + way))
        least = _best(found)
    return min(least.values())


def _best(found: Iterable[tuple[tuple[int, int], float]]) -> dict[tuple[int, int], float]:
    least: dict[tuple[int, int], float] = {}
    for state, cost in found:
        least[state] = min(cost, least.get(state, cost))
    return least


def _static(step: Step) -> bytes:
    end = step.prefix.starts[2]
    return step.prefix.hashes[end - 1] if end else b""


def _shared(steps: Sequence[Step]) -> int:
    """Tokens of the prefix that all of `steps` have in common."""
    end = 0
    for hashes in zip(*(step.prefix.hashes[: step.prefix.starts[2]] for step in steps), strict=False):
        if len(set(hashes)) > 1:
            break
        end += 1
    return min(step.tokens_at(end - 1) for step in steps)

"""The tests of choosing bite: without any single guard, or with a figure reckoned otherwise, they fail."""

from __future__ import annotations

from tests.mutants import Mutant, biting, running

_DRAFTERS = "agentaccel.selfhost.drafters"
_REPLAY = "agentaccel.selfhost.draft_replay"
_CHOOSING = "agentaccel.selfhost.choosing"
_CANDIDATES = "agentaccel.selfhost.candidates"
_MEASURED = "agentaccel.selfhost.measured_steps"
_ADVISING = "agentaccel.selfhost.advising"
_CHOSEN = "agentaccel.selfhost.chosen"
_TOKENS = "agentaccel.selfhost.tokens"
_STEPS = "agentaccel.selfhost.step_time"
_TALKS = "agentaccel.replay.talks"
_CLI = "agentaccel.cli.choose"

GUARDS = (
    # --- drafting
    Mutant(
        guard="lookups that draft all that follows",
        at=f"{_DRAFTERS}:PromptLookup.draft",
        old="text[end : end + self._tokens]",
        new="text[end:]",
    ),
    Mutant(
        guard="lookups that look for short ends first",
        at=f"{_DRAFTERS}:PromptLookup.__init__",
        old="range(longest, shortest - 1, -1)",
        new="range(shortest, longest + 1)",
    ),
    Mutant(
        guard="lookups that remember another conversation",
        at=f"{_DRAFTERS}:PromptLookup.begin",
        old="self._first: dict[tuple[int, ...], int] = {}",
        new="self._first: dict[tuple[int, ...], int] = getattr(self, '_first', {})",
    ),
    Mutant(
        guard="drafts of n-grams that are shorter than what has matched",
        at=f"{_DRAFTERS}:NgramSimple.draft",
        old="if most >= match else ()",
        new="if most > 0 else ()",
    ),
    Mutant(
        guard="n-grams of the first token",
        at=f"{_DRAFTERS}:NgramSimple.begin",
        old="self._next = 1",
        new="self._next = 0",
    ),
    Mutant(
        guard="n-grams in a conversation that is short",
        at=f"{_DRAFTERS}:NgramSimple.draft",
        old="if known <= match + self._tokens + 1:",
        new="if known <= match:",
    ),
    Mutant(
        guard="pools that are kept after five poor drafts",
        at=f"{_DRAFTERS}:NgramPool.judged",
        old="if self._low >= _STREAK:",
        new="if False:",
    ),
    Mutant(
        guard="poor drafts that are not in a row",
        at=f"{_DRAFTERS}:NgramPool.judged",
        old="if accepted < drafted / 4 else 0",
        new="if accepted < drafted / 4 else self._low",
    ),
    Mutant(
        guard="drafts of a pool that knows too little",
        at=f"{_DRAFTERS}:NgramPool.draft",
        old="or len(drafted) >= self._least",
        new="or drafted",
    ),
    Mutant(
        guard="pools that are full",
        at=f"{_DRAFTERS}:NgramPool.read",
        old="if self._written_over > _ROOM // 4:",
        new="if False:",
    ),
    Mutant(
        guard="replies of others, where nothing is remembered",
        at=f"{_DRAFTERS}:SuffixLookup.__init__",
        old="_Places() if remembers else None",
        new="_Places()",
    ),
    Mutant(
        guard="prompts of others",
        at=f"{_DRAFTERS}:SuffixLookup.read",
        old="if said and self._said is not None:",
        new="if self._said is not None:",
    ),
    Mutant(
        guard="matches across the end of a reply",
        at=f"{_DRAFTERS}:SuffixLookup.replied",
        old="self._said.part()",
        new="pass",
    ),
    Mutant(
        guard="drafts that are longer than what has matched",
        at=f"{_DRAFTERS}:_Bounds.after",
        old="int(matched * self.factor + 1e-6), ",
        new="",
    ),
    Mutant(
        guard="drafts below the depth of the tree",
        at=f"{_DRAFTERS}:_Bounds.after",
        old=", self.depth - matched)",
        new=")",
    ),
    Mutant(
        guard="tokens that are not likely enough",
        at=f"{_DRAFTERS}:_Places._followed",
        old="if count / among < bounds.least_likely:",
        new="if False:",
    ),
    Mutant(
        guard="likelihoods that count only the places that are left",
        at=f"{_DRAFTERS}:_Places._followed",
        old="score += count / among",
        new="score += count / len(following)",
    ),
    Mutant(
        guard="matches that are too short",
        at=f"{_DRAFTERS}:_Places.likely",
        old="max(order, bounds.shortest)",
        new="order",
    ),
    # --- replaying
    Mutant(
        guard="drafts that go on behind the end of a reply",
        at=f"{_REPLAY}:_right",
        old="done + at >= len(tokens) or",
        new="done + at < len(tokens) and",
    ),
    Mutant(
        guard="the token that each pass gives beside its draft",
        at=f"{_REPLAY}:_reply",
        old="min(done + right + 1, len(tokens))",
        new="min(done + max(right, 1), len(tokens))",
    ),
    Mutant(
        guard="passes without a draft, counted as verified",
        at=f"{_REPLAY}:_reply",
        old="if draft:",
        new="if True:",
    ),
    Mutant(
        guard="conversations that do not begin anew",
        at=f"{_REPLAY}:replayed",
        old="drafter.begin()",
        new="pass",
    ),
    Mutant(
        guard="sites that are counted together",
        at=f"{_REPLAY}:replayed",
        old="found.setdefault(talk.site, Drafted())",
        new="found.setdefault('', Drafted())",
    ),
    # --- what a step takes
    Mutant(
        guard="experts that are all awake at once",
        at=f"{_STEPS}:StepTime.seconds",
        old="(1 - math.pow(1 - self.active, computed))",
        new="1",
    ),
    Mutant(
        guard="lines that fall with more requests",
        at=f"{_STEPS}:fitted",
        old="slope <= 0 or",
        new="slope == 0 or",
    ),
    Mutant(
        guard="lines that begin below nothing",
        at=f"{_STEPS}:fitted",
        old="or fixed < 0",
        new="",
    ),
    Mutant(
        guard="keys and values of which each token reads its own",
        at=f"{_STEPS}:StepTime.seconds",
        old="self.per_request * requests",
        new="self.per_request * computed",
    ),
    Mutant(
        guard="GPUs that share a model, taken for one",
        at=f"{_STEPS}:estimated",
        old="rate * plan.gpus for rate",
        new="rate for rate",
    ),
    Mutant(
        guard="experts that no token goes through, computed",
        at=f"{_STEPS}:estimated",
        old="sum(parts) - parts.experts * (1 - (shape.active or 1.0))",
        new="sum(parts)",
    ),
    Mutant(
        guard="costs that grow on beyond the last measured one",
        at=f"{_STEPS}:between",
        old="return ordered[-1][1]",
        new="return ordered[-1][1] * requests / ordered[-1][0]",
    ),
    # --- choosing
    Mutant(
        guard="methods that earn less than their margin",
        at=f"{_CHOOSING}:choose",
        old="> math.log1p(margin_of(one))",
        new="> 0",
    ),
    Mutant(
        guard="acceptances that are a guess, trusted like measured ones",
        at=f"{_CHOOSING}:margin_of",
        old='"assumed" if option.candidate.rates.known == "assumed" else option.sure',
        new="option.sure",
    ),
    Mutant(
        guard="peaks",
        at=f"{_CHOOSING}:_worth",
        old="(math.log(option.speed) + math.log(option.at_peak)) / 2",
        new="math.log(option.speed)",
    ),
    Mutant(
        guard="a best method that drafts nothing and never would",
        at=f"{_CHOOSING}:choose",
        old="(_worth(one), one.pays_up_to)",
        new="_worth(one)",
    ),
    Mutant(
        guard="steps in which nothing is drafted, charged for drafts",
        at=f"{_CHOOSING}:_cost",
        old="    if rates is _NOTHING:\n        return 1.0\n",
        new="",
    ),
    Mutant(
        guard="drafting that costs nothing by itself",
        at=f"{_CHOOSING}:_cost",
        old='1.0 if not rates.drafted_per_token else table("drafting")["assumed"]["overhead"]',
        new="1.0",
    ),
    Mutant(
        guard="measured costs",
        at=f"{_CHOOSING}:_cost",
        old="if candidate.costs:",
        new="if False:",
    ),
    Mutant(
        guard="passes of a draft model",
        at=f"{_CHOOSING}:_modelled",
        old="step.cost(requests, rates.verified) + drafting",
        new="step.cost(requests, rates.verified)",
    ),
    Mutant(
        guard="loads beyond the measured ones, called measured",
        at=f"{_CHOOSING}:_sure",
        old="and min(loads) <= under.concurrency and under.peak <= max(loads)",
        new="",
    ),
    Mutant(
        guard="peaks beyond the measured loads, called measured",
        at=f"{_CHOOSING}:_sure",
        old="under.peak <= max(loads)",
        new="under.concurrency <= max(loads)",
    ),
    Mutant(
        guard="break-even without the schedule",
        at=f"{_CHOOSING}:_pays_up_to",
        old="_drafted(candidate, schedule, requests)",
        new="candidate.rates",
    ),
    Mutant(
        guard="break-even in powers of two",
        at=f"{_CHOOSING}:_pays_up_to",
        old="while high - low > 1:",
        new="while False:",
    ),
    Mutant(
        guard="schedules of engines that have none",
        at=f"{_CHOOSING}:_option",
        old="candidate.tokens is not None and _has_schedule(under, candidate.method)",
        new="candidate.tokens is not None",
    ),
    Mutant(
        guard="schedules that never draft nothing",
        at=f"{_CHOOSING}:_schedule",
        old="(0, 1.0), *",
        new="*",
    ),
    Mutant(
        guard="schedules that say nothing",
        at=f"{_CHOOSING}:_schedule",
        old="if {tokens for _, tokens in found} not in ({0}, {candidate.tokens}) else ()",
        new="",
    ),
    # --- candidates
    Mutant(
        guard="shorter drafts that end with the longer one",
        at=f"{_CANDIDATES}:_cut",
        old="[(most + 1) / (tokens + 1)]",
        new="[1.0]",
    ),
    Mutant(
        guard="shorter drafts that are as long as before",
        at=f"{_CANDIDATES}:_cut",
        old="min(drafted.drafted / drafted.steps, tokens)",
        new="drafted.drafted / drafted.steps",
    ),
    Mutant(
        guard="heads that draft as many tokens at any load",
        at=f"{_CANDIDATES}:of_head",
        old="speed(candidate, rates(count), concurrency, step)",
        new="count",
    ),
    Mutant(
        guard="guesses that are not called guesses",
        at=f"{_CANDIDATES}:of_head",
        old="guessed if head.acceptance is None else None",
        new="None",
    ),
    Mutant(
        guard="hybrids that lose their head where nothing matches",
        at=f"{_CANDIDATES}:of_hybrid",
        old="max(drafted.tokens - matched, 0) / head.rates.tokens_per_step",
        new="max(drafted.tokens - matched, 0)",
    ),
    Mutant(
        guard="settings of the user's that no replay goes by",
        at=f"{_CANDIDATES}:rows_of",
        old="_followed(row, settings)",
        new="_followed(row, {})",
    ),
    Mutant(
        guard="memory of an engine that is told to have none",
        at=f"{_CANDIDATES}:drafter_of",
        old="if requests and given",
        new="if given",
    ),
    Mutant(
        guard="settings that no drafter can have",
        at=f"{_CANDIDATES}:_followed",
        old='0 if row["follows"][name] in ("least", "requests") else 1',
        new="-1",
    ),
    Mutant(
        guard="ways that are alike, weighed twice",
        at=f"{_CANDIDATES}:rows_of",
        old='{(row["method"], key_of(row)): row for row in reversed(rows)}.values()',
        new="reversed(rows)",
    ),
    Mutant(
        guard="conversations that are not by themselves",
        at=f"{_CANDIDATES}:alone_of",
        old="(together(replayed(drafter_of(row), [talk]).values()) for talk in talks)",
        new="replayed(drafter_of(row), talks).values()",
    ),
    # --- what was measured
    Mutant(
        guard="the first of two measurements of the same",
        at=f"{_MEASURED}:_means",
        old="sum(values) / len(values)",
        new="values[0]",
    ),
    Mutant(
        guard="figures that contradict each other",
        at=f"{_MEASURED}:_check_sense",
        old='if given is not None and 1 - 1 / given > row["drafted_per_token"] + _ROUNDED:',
        new="if False:",
    ),
    Mutant(
        guard="rates without what was drafted",
        at=f"{_MEASURED}:_check_sense",
        old='if rates and "drafted_per_token" not in row:',
        new="if False:",
    ),
    Mutant(
        guard="rows that say nothing",
        at=f"{_MEASURED}:_check_sense",
        old='if "step" not in row and (method == "none" or not rates):',
        new="if False:",
    ),
    Mutant(
        guard="steps against steps of another load",
        at=f"{_MEASURED}:_costs",
        old="base[0][0] <= load <= base[-1][0]",
        new="True",
    ),
    Mutant(
        guard="steps of a method with other settings",
        at=f"{_MEASURED}:Measured.of",
        old="given is None or given == own",
        new="True",
    ),
    Mutant(
        guard="steps that are more to the point",
        at=f"{_MEASURED}:Measurements.applied",
        old="max(fitting, key=lambda one: one.says)",
        new="fitting[-1]",
    ),
    Mutant(
        guard="tokens a step in the mean of the steps",
        at=f"{_MEASURED}:_rates",
        old="len(given) / sum(1 / one for one in given)",
        new="sum(given) / len(given)",
    ),
    # --- advising
    Mutant(
        guard="measurements of one engine for all",
        at=f"{_ADVISING}:Wanted.__post_init__",
        old="if self.measured is not None and len(self.engines) > 1:",
        new="if False:",
    ),
    Mutant(
        guard="places of which too little was said",
        at=f"{_ADVISING}:advise",
        old="if site not in few",
        new="",
    ),
    Mutant(
        guard="replays of a method that was measured",
        at=f"{_ADVISING}:_candidates",
        old="if one.method not in told",
        new="",
    ),
    Mutant(
        guard="methods that return noise at a temperature",
        at=f"{_ADVISING}:_candidates",
        old="and hot:",
        new="and False:",
    ),
    Mutant(
        guard="what the engine cannot do",
        at=f"{_ADVISING}:_candidates",
        old="if why is None:",
        new="if True:",
    ),
    Mutant(
        guard="settings that no replay goes by, unsaid",
        at=f"{_ADVISING}:_known",
        old="if without else ours",
        new="if False else ours",
    ),
    Mutant(
        guard="hybrids of versions that have none",
        at=f"{_ADVISING}:_known",
        old='and has_by(under.version, hybrid["since"], None) is not False',
        new="",
    ),
    Mutant(
        guard="measurements that count for nothing, unsaid",
        at=f"{_ADVISING}:_candidates",
        old="refused.update(dict.fromkeys(wanted.measured.unused(others)))",
        new="pass",
    ),
    # --- what is said
    Mutant(
        guard="few tokens, unsaid",
        at=f"{_CHOSEN}:sentences",
        old="*[said] * few, ",
        new="",
    ),
    Mutant(
        guard="bounds above the peak",
        at=f"{_CHOSEN}:_at_peak",
        old="if under.concurrency <= chosen.pays_up_to < under.peak else",
        new="if True else",
    ),
    Mutant(
        guard="words that a shell would take apart",
        at=f"{_CHOSEN}:_words",
        old='f"{option} {shlex.quote(str(one))}"',
        new='f"{option} {one}"',
    ),
    Mutant(
        guard="texts in the quotes of JSON",
        at=f"{_CHOSEN}:_word",
        old="value if isinstance(value, str) else json.dumps(value)",
        new="json.dumps(value)",
    ),
    Mutant(
        guard="schedules that a plan loses",
        at=f"{_CHOSEN}:as_options",
        old="if plan.schedule:",
        new="if False:",
    ),
    Mutant(
        guard="tenants that can tell what others were told",
        at=f"{_CHOSEN}:sentences",
        old="if alone is not None:",
        new="if False:",
    ),
    # --- tokens, and conversations as tokens
    Mutant(
        guard="numbers of a server that are no tokens",
        at=f"{_TOKENS}:_is_token",
        old="and 0 <= value < FIRST_MARK",
        new="",
    ),
    Mutant(
        guard="tokens from a server that failed",
        at=f"{_TOKENS}:ByServer._asked",
        old="answer.status != 200 or",
        new="",
    ),
    Mutant(
        guard="texts of which a server makes nothing",
        at=f"{_TOKENS}:ByServer._asked",
        old="if not tokens and _WORD.search(text):",
        new="if False:",
    ),
    Mutant(
        guard="long texts in one question",
        at=f"{_TOKENS}:_parts",
        old="while len(text) > _MOST:",
        new="while False:",
    ),
    Mutant(
        guard="copies of one task",
        at=f"{_TALKS}:tokenised",
        old="if key not in seen:",
        new="if True:",
    ),
    Mutant(
        guard="one task's name in another workload",
        at=f"{_TALKS}:tokenised",
        old="(run.workload, run.task)",
        new='("", run.task)',
    ),
    Mutant(
        guard="results of tools that the model is said to have said",
        at=f"{_TALKS}:tokenised_run",
        old="isinstance(event, Asked | Answered)",
        new="isinstance(event, Asked | Answered | Returned)",
    ),
    Mutant(
        guard="ends of messages that the model need not say",
        at=f"{_TALKS}:tokenised_run",
        old="Passage([*tokens, _END], said=True)",
        new="Passage(tokens, said=True)",
    ),
    # --- the command
    Mutant(
        guard="files that are overwritten",
        at=f"{_CLI}:choose_command",
        old="(into.exists() or into.is_symlink())",
        new="False",
    ),
    Mutant(
        guard="two sources of one name",
        at=f"{_CLI}:_sources",
        old="name if called[name] == 1 else",
        new="name if True else",
    ),
    Mutant(
        guard="models that do not fit",
        at=f"{_CLI}:_room",
        old="if server is not None and",
        new="if False and server is not None and",
    ),
    Mutant(
        guard="sources in which nothing was said",
        at=f"{_CLI}:choose_command",
        old="if not one.said]",
        new="if False]",
    ),
)

COMMAND = [
    *running(
        *(f"tests/selfhost/test_{name}.py" for name in ("drafters", "draft_replay", "step_time", "choosing")),
        *("tests/selfhost/test_measured_steps.py", "tests/selfhost/test_advising.py"),
        *("tests/replay/test_talks.py", "tests/cli/test_choose.py"),
    ),
    *("-o", "timeout=30"),
]

test_they_fail_without_the_guard, test_with_every_guard_they_pass = biting(GUARDS, COMMAND)

"""The tests of the size of a server and of the budget of a turn bite: without any single guard they fail."""

from __future__ import annotations

from tests.mutants import Mutant, biting, running

GUARDS = (
    Mutant(
        guard="a prefix longer than what it begins",
        at="agentaccel.selfhost.sizing:ServerPlan.__post_init__",
        old="if self.prefix > self.context:",
        new="if False:",
    ),
    Mutant(
        guard="numbers that are slips",
        at="agentaccel.selfhost.sizing:ServerPlan.__post_init__",
        old="if getattr(self, name) > MOST:",
        new="if False:",
    ),
    Mutant(
        guard="more than all of a GPU's memory",
        at="agentaccel.selfhost.sizing:ServerPlan.__post_init__",
        old="or not 0 < self.share <= 1:",
        new="or not self.share:",
    ),
    Mutant(
        guard="heads that are taken for models",
        at="agentaccel.selfhost.sizing:ServerPlan.__post_init__",
        old="if self.shape.head:",
        new="if False:",
    ),
    Mutant(
        guard="memory that the engine does not take",
        at="agentaccel.selfhost.sizing:size_of",
        old="int(plan.gpu.memory * plan.share)",
        new="plan.gpu.memory",
    ),
    Mutant(
        guard="weights of the draft",
        at="agentaccel.selfhost.sizing:size_of",
        old="own + (draft.weights if draft is not None else 0)",
        new="own",
    ),
    Mutant(
        guard="keys of the draft",
        at="agentaccel.selfhost.sizing:size_of",
        old="[plan.shape] if plan.draft is None else [plan.shape, plan.draft]",
        new="[plan.shape]",
    ),
    Mutant(
        guard="weights that more GPUs share",
        at="agentaccel.selfhost.sizing:size_of",
        old="-(-heavy // n) + plan.batch",
        new="-(-heavy // plan.gpus) + plan.batch",
    ),
    Mutant(
        guard="batches that do not fit",
        at="agentaccel.selfhost.sizing:size_of",
        old="plan.batch * kept(plan.context, n) <= usable",
        new="kept(plan.context, n) <= usable",
    ),
    Mutant(
        guard="weights that leave nothing, and less",
        at="agentaccel.selfhost.sizing:size_of",
        old="max(0, usable - gpu_weights)",
        new="usable - gpu_weights",
    ),
    Mutant(
        guard="states in the sizes of sessions",
        at="agentaccel.selfhost.sizing:size_of",
        old=" + state_bytes(one, gpus=gpus) for one in models",
        new=" for one in models",
    ),
    Mutant(
        guard="tokens beyond a full window",
        at="agentaccel.selfhost.sizing:size_of",
        old="for one in plan.shape.layers if one.window is None",
        new="for one in plan.shape.layers",
    ),
    Mutant(
        guard="tokens that have left a window",
        at="agentaccel.selfhost.sizing:kept_bytes",
        old="min(tokens, layer.window)",
        new="tokens",
    ),
    Mutant(
        guard="scales of values, beside those of keys",
        at="agentaccel.selfhost.sizing:layer_bytes",
        old="heads * 2 * stored.scale",
        new="heads * stored.scale",
    ),
    Mutant(
        guard="a prefix that has left the window",
        at="agentaccel.selfhost.sizing:shared_bytes",
        old="0 if layer.window is None else max(0, context - layer.window)",
        new="0",
    ),
    Mutant(
        guard="windows that a session does not fill",
        at="agentaccel.selfhost.sizing:shared_bytes",
        old="max(0, context - layer.window)",
        new="context - layer.window",
    ),
    Mutant(
        guard="prefixes of which nothing is left",
        at="agentaccel.selfhost.sizing:shared_bytes",
        old="max(0, prefix - left)",
        new="(prefix - left)",
    ),
    Mutant(
        guard="states whose type is not known",
        at="agentaccel.selfhost.sizing:state_bytes",
        old="if shape.dtype is None:",
        new="if False:",
    ),
    Mutant(
        guard="recurrent states in a type of their own",
        at="agentaccel.selfhost.sizing:state_bytes",
        old="rows[shape.state_dtype or shape.dtype]",
        new="rows[shape.dtype]",
    ),
    Mutant(
        guard="states that are not shared out",
        at="agentaccel.selfhost.sizing:state_bytes",
        old="-(-layer.recurrent // gpus)",
        new="layer.recurrent",
    ),
    Mutant(
        guard="drafts whose attention has no such type",
        at="agentaccel.selfhost.sizing:_draft",
        old="kv_stored_as(stored.name, shape, gpu)",
        new="pass",
    ),
    Mutant(
        guard="savings of what is not quantised",
        at="agentaccel.selfhost.sizing:_unquantised",
        old="not stored.quantised or",
        new="",
    ),
    Mutant(
        guard="the copy of a prefix that is kept",
        at="agentaccel.selfhost.sizing:_prefix",
        old="(plan.batch - 1) * sum(shared)",
        new="plan.batch * sum(shared)",
    ),
    Mutant(
        guard="the room of the copy of a prefix",
        at="agentaccel.selfhost.sizing:_prefix",
        old="(free - copy) // alone",
        new="free // alone",
    ),
    Mutant(
        guard="prefixes that do not fit",
        at="agentaccel.selfhost.sizing:_prefix",
        old="if alone and free > copy else 0",
        new="if alone else 0",
    ),
    Mutant(
        guard="states that are shared with a prefix",
        at="agentaccel.selfhost.sizing:_prefix",
        old="whole + sum(state_bytes(one, gpus=plan.gpus) for one in models) - sum(each)",
        new="whole - sum(each)",
    ),
    Mutant(
        guard="numbers that begin a block",
        at="agentaccel.selfhost.gpus:StoredAs.of",
        old="-(-count * self.bytes // self.values)",
        new="count * self.bytes // self.values",
    ),
    Mutant(
        guard="names that several GPUs have",
        at="agentaccel.selfhost.gpus:gpu_of",
        old="if len(found) > 1:",
        new="if False:",
    ),
    Mutant(
        guard="a latent vector in types that it has not",
        at="agentaccel.selfhost.gpus:kv_stored_as",
        old='if not row.get("latent", True) and any(layer.latent for layer in shape.layers):',
        new="if False:",
    ),
    Mutant(
        guard="types of experts in models without",
        at="agentaccel.selfhost.gpus:weights_stored_as",
        old='if row["covers"] == ["experts"] and not shape.parameters.experts and not shape.head:',
        new="if False:",
    ),
    Mutant(
        guard="quantised weights of a kind that is not known",
        at="agentaccel.selfhost.gpus:weights_stored_as",
        old="        if name is None:\n            raise",
        new="        if False:\n            raise",
    ),
    Mutant(
        guard="the last token of a prompt, which is computed in any case",
        at="agentaccel.selfhost.turn_budget:TurnPlan.uncached",
        old="max(1, self.prompt - round(self.prompt * self.hit_rate))",
        new="self.prompt - round(self.prompt * self.hit_rate)",
    ),
    Mutant(
        guard="the token of the step itself",
        at="agentaccel.selfhost.turn_budget:speed_up_of",
        old="range(drafted + 1)",
        new="range(1, drafted + 1)",
    ),
    Mutant(
        guard="the cost of the step itself",
        at="agentaccel.selfhost.turn_budget:speed_up_of",
        old="drafted * cost + 1",
        new="drafted * cost or 1",
    ),
    Mutant(
        guard="acceptances that are no share",
        at="agentaccel.selfhost.turn_budget:speed_up_of",
        old='_check("--acceptance", acceptance, 0, 1, "give the share of drafted tokens that is accepted, 0 to 1")',
        new="pass",
    ),
    Mutant(
        guard="drafts of more tokens than there can be",
        at="agentaccel.selfhost.turn_budget:speed_up_of",
        old='_check("--draft-tokens", drafted, 1, 1000, "give at most 1,000")',
        new="pass",
    ),
    Mutant(
        guard="costs of a draft that are slips",
        at="agentaccel.selfhost.turn_budget:speed_up_of",
        old='"--draft-cost", cost, 0, 1000',
        new='"--draft-cost", cost, 0, MOST',
    ),
    Mutant(
        guard="numbers that are none",
        at="agentaccel.selfhost.turn_budget:_check",
        old="not is_amount(value) or",
        new="",
    ),
    Mutant(
        guard="steps that give less than a token",
        at="agentaccel.selfhost.turn_budget:SpeedUp.__post_init__",
        old='_check("--tokens-per-step", self.tokens_per_step, 1, MOST, "give 1 or more, such as 2.5")',
        new="pass",
    ),
    Mutant(
        guard="steps that cost nothing",
        at="agentaccel.selfhost.turn_budget:SpeedUp.__post_init__",
        old='_check("--step-cost", self.step_cost, LEAST, MOST, "give a number above 0, such as 1.2")',
        new="pass",
    ),
    Mutant(
        guard="what a step with a draft costs",
        at="agentaccel.selfhost.turn_budget:SpeedUp.factor",
        old="self.tokens_per_step / self.step_cost",
        new="self.tokens_per_step",
    ),
    Mutant(
        guard="rates without the tokens that they are of",
        at="agentaccel.selfhost.turn_budget:TurnPlan.__post_init__",
        old="if rate is not None and getattr(self, needs) is None:",
        new="if False:",
    ),
    Mutant(
        guard="a speed-up of nothing",
        at="agentaccel.selfhost.turn_budget:TurnPlan.__post_init__",
        old="if self.speed_up is not None and self.decode_rate is None:",
        new="if False:",
    ),
    Mutant(
        guard="tools and the network in the sum",
        at="agentaccel.selfhost.turn_budget:budget_of",
        old="plan.tools + plan.network",
        new="plan.tools",
    ),
    Mutant(
        guard="sums of which a part is not known",
        at="agentaccel.selfhost.turn_budget:budget_of",
        old="None if prefill is None or decoding is None else prefill + decoding + rest",
        new="(prefill or 0.0) + (decoding or 0.0) + rest",
    ),
    Mutant(
        guard="speculation below its break-even",
        at="agentaccel.selfhost.sized:turn_sentences",
        old="if gain.factor <= 1:",
        new="if False:",
    ),
    Mutant(
        guard="links on which a prefix that is not there hurts",
        at="agentaccel.selfhost.sized:_parting",
        old='"it hurts where the prefix is not there" if link < most else',
        new="",
    ),
    Mutant(
        guard="states that move with any prompt",
        at="agentaccel.selfhost.sized:disaggregation_of",
        old="kept_bytes(plan.shape, turn.uncached, stored) + state",
        new="kept_bytes(plan.shape, turn.uncached, stored)",
    ),
    Mutant(
        guard="links of no rate",
        at="agentaccel.selfhost.sized:check_link",
        old="or link < LEAST",
        new="",
    ),
)

COMMAND = running(
    "tests/selfhost/test_sizing.py",
    "tests/selfhost/test_turn_budget.py",
    "tests/selfhost/test_model_shape.py",
    "tests/cli/test_size.py",
)

test_they_fail_without_the_guard, test_with_every_guard_they_pass = biting(GUARDS, COMMAND)

"""How many draft tokens a step verifies: the choice of m."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from serving.spec.aim import EVERYBODY, Aim
from serving.spec.alternation import Alternation
from serving.spec.cost import Seconds, StepCost, StepLoad
from serving.spec.forecast import AchievedShare, ExpectedValues, Forecast, Probing, Stretches
from serving.spec.tree import DraftTree

# Drafting goes on until plain decoding is surely faster, and begins again when it surely pays: what lies
# between cannot be told from noise.
KEEPS_DRAFTING = 0.99
RESUMES_DRAFTING = 1.03
# A probe that comes so near is soon followed by another: two sequences prove little.
PROMISING = 0.97
# Drafting that was given up sooner was a mistake: the next probe is no nearer for it.
LASTED = 32  # steps
# Rows past the last node that the price looks at: where all are worth verifying, what would one more cost?
BEYOND = 8
# Steps that one forecast is for, and of which one is learned from: they are much alike, and plain ones short.
PLAIN_FORECAST, PLAIN_LEARNED = 16, 8
DRAFTED_FORECAST = DRAFTED_LEARNED = 2
# A probe drafts for a few: what it costs is lost where drafting does not pay.
PROBED = 2
# Of the price that the last step found, what the drafter is told: the next step's may be lower.
HINTED = 0.5
# Committed tokens of a sequence that a drafter is sent with its next tree, unless it has missed some.
USUALLY_FED = 8


class DraftPlan(NamedTuple):
    """What to ask of the drafter before the next step.

    nodes: the most draft tokens of a sequence. sequences: how many of them to draft for; 0: the drafter is
    not asked. price: the least path value that can be worth a row. urgent: they are those of priority 0.
    """

    nodes: int
    sequences: int
    price: float
    urgent: bool = False


NO_DRAFTS = DraftPlan(0, 0, 0.0)


class Choice(NamedTuple):
    """How many nodes of each tree are verified.

    explored[i]: the last so many of sizes[i] are verified for what they teach, not for what they are worth.
    share: of trees, in which that happens.
    tokens, seconds: what the step should commit and take, drafting excluded; None where nothing is predicted.
    """

    sizes: tuple[int, ...]
    explored: tuple[int, ...]
    tokens: float | None = None
    seconds: float | None = None
    share: float = 1.0

    @property
    def weights(self) -> NDArray[np.float64] | None:
        """float64 [sum of sizes]: 1 / how often such a node is verified; None where that is always."""
        if not any(self.explored):
            return None
        chosen = np.subtract(self.sizes, self.explored)
        counts = np.stack((chosen, self.explored), axis=1).ravel()
        return np.repeat(np.tile((1.0, 1.0 / self.share), len(chosen)), counts)


class StepOutcome(NamedTuple):
    """What came of a step.

    verified: rows of decoding sequences. committed: tokens. elapsed_s: since the step before, with the gap if
    there was work to do. forward_s: of the network and of choosing tokens; beside_s: of the rest without
    drafting. draft_s: given to drafting for `drafted` sequences, of which drafters were sent `fed` tokens.
    hidden: they were drafted for while another step ran, so that draft_s is only what was left of it.
    """

    load: StepLoad
    verified: int
    committed: int
    elapsed_s: float
    forward_s: float
    beside_s: float
    draft_s: float
    drafted: int
    fed: int = 0
    hidden: bool = False

    @property
    def caught_up(self) -> bool:
        """What that takes after a prompt or a pause says nothing of the trees to come."""
        return missed_much(self.fed, self.drafted)


class Controller(Protocol):
    """One engine's choice of m. A step calls choose, then observe; plan, for those who draft next."""

    @property
    def price(self) -> float:
        """Path value that is just worth a row of verification, as the last step found it."""
        ...

    def plan(self, load: StepLoad) -> DraftPlan:
        """What to draft for a next step of this load."""
        ...

    def choose(self, trees: Sequence[DraftTree], load: StepLoad, plan: DraftPlan) -> Choice:
        """How much of the trees to verify; trees[i] is empty where none came. plan: theirs."""
        ...

    def halves(self, load: StepLoad) -> bool:
        """Whether two halves by turns are faster, each drafted for while the other is verified."""
        ...

    def prefill_first(self, load: StepLoad) -> bool:
        """Whether its prompt chunks had better have a forward of their own, while trees are drafted."""
        ...

    def observe(self, outcome: StepOutcome) -> None:
        """Learn from the step that `choose` chose for."""
        ...


class AutoController:
    """m by what a verified token is worth and what it costs at this moment.

    Let rho be the tokens committed per second of decoding, drafting and gaps included. A step that verifies
    the M most valuable nodes commits `sequences + the sum of their V` tokens, and takes T(M) seconds in which
    the engine otherwise commits rho * T(M): the M with the largest difference is the best in the long run.
    The ratio within one step is not: beside a prompt chunk every node would look cheap, just when rows are
    dear. Nor does the time of prompts belong in rho: a prompt comes once per answer, however fast that is.

    rho is the rate that the cost model promises at this load, times the share of it that was achieved lately,
    so that it follows a change of load at once.

    Where some weigh more than others (aim.py), so do their nodes' values and their tokens in rho.
    """

    def __init__(self, cost: StepCost, max_nodes: int, explore: float = 0.01, seed: int = 0) -> None:
        """max_nodes: of one sequence. explore: share of trees that are verified whole."""
        self.price = 0.0
        self._aim = EVERYBODY
        self._cost, self._max_nodes, self._explore = cost, max_nodes, explore
        self._values = ExpectedValues(max_nodes)
        self._achieved = AchievedShare()
        self._probing = Probing()
        self._half_probed = False
        self._alternation = Alternation()
        self._drafting = True
        self._stretches = Stretches()
        self._plan = NO_DRAFTS
        self._forecasts: dict[tuple[int, int, int, bool], Forecast] = {}
        self._forecast_age = 0
        self._alike_steps = 0
        self._random = np.random.default_rng(seed)

    def aim_at(self, aim: Aim) -> Self:
        """From the next step on."""
        self._aim, self._forecasts = aim, {}
        return self

    def plan(self, load: StepLoad) -> DraftPlan:
        self._plan = self._planned(load) if load.sequences else NO_DRAFTS
        return self._plan

    def choose(self, trees: Sequence[DraftTree], load: StepLoad, plan: DraftPlan) -> Choice:
        if not trees:
            return Choice((), ())
        if not plan.sequences and not any(map(len, trees)):
            return self._nothing_drafted(load)
        values = [tree.path_values for tree in trees]
        if plan.sequences:
            self._values.observe(values, plan.sequences, plan.nodes, trusted=not self._drafting)
        every = np.concatenate(values)
        owners = np.repeat(np.arange(len(trees)), [len(tree) for tree in trees])
        alike = self._aim.alike(load)
        worth = every if alike else every * self._aim.of_each(load)[owners]
        order = np.argsort(-worth, kind="stable")
        seconds = self._cost.step_s(load, load.sequences + np.arange(len(every) + 1 + BEYOND))
        rate = self._achieved.share * self._forecast(load).best
        allowed = None if alike else self._fast_enough(every[order], load, plan)
        best = best_prefix(worth[order], seconds[: len(every) + 1], rate, allowed)
        self.price = rate * slope_after(seconds, best)
        chosen = np.bincount(owners[order[:best]], minlength=len(trees))
        tokens = load.sequences + float(every[order[:best]].sum())
        choice = Choice(tuple(chosen.tolist()), (0,) * len(trees), tokens, float(seconds[best]))
        whole = self._random.random(len(trees)) < self._explore
        return self._with_exploration(choice, whole, values, seconds) if whole.any() else choice

    def _fast_enough(self, values: NDArray[np.float64], load: StepLoad, plan: DraftPlan) -> NDArray[np.bool_]:
        """bool [n + 1]: prefixes that leave all together fast enough, or the fastest. As everywhere, of steps
        without prompts: beside a chunk every node would look cheap."""
        tokens = load.sequences + np.concatenate(([0.0], np.cumsum(values)))
        decoding = load._replace(prefill_tokens=0)
        seconds = self._cost.step_s(decoding, load.sequences + np.arange(len(tokens)))
        rates = tokens / (seconds + (0.0 if load.overlapped else self._cost.draft_s(plan.sequences)))
        least = min(self._aim.floor * self._forecast(load).fastest, float(rates.max()))
        return np.asarray(rates >= least)

    def observe(self, outcome: StepOutcome) -> None:
        alike = self._alike(outcome)
        if alike > 1:
            self._alike_steps += 1
            if self._alike_steps % alike:
                return
        self._cost.observe(outcome.load, outcome.verified, outcome.forward_s, outcome.beside_s)
        if outcome.drafted:
            self._observe_drafting(outcome)
        if not outcome.load.prefill_tokens:
            forecast = self._forecast(outcome.load)
            promised = outcome.elapsed_s * (forecast.drafted_rate if self._drafting else forecast.plain_rate)
            self._achieved.observe(outcome.committed, promised, alike)

    def _alike(self, outcome: StepOutcome) -> int:
        """Steps of which one is learned from: of what is rare or never twice the same, each."""
        if outcome.load.prefill_tokens or outcome.caught_up or outcome.hidden:
            return 1
        if not outcome.drafted:
            return PLAIN_LEARNED
        return DRAFTED_LEARNED if self._drafting else 1

    def _observe_drafting(self, outcome: StepOutcome) -> None:
        if outcome.caught_up:
            if not outcome.hidden:
                self._cost.observe_catching_up(outcome.drafted, outcome.fed, outcome.draft_s)
        elif not outcome.hidden:
            self._cost.observe_drafting(outcome.drafted, outcome.draft_s)
        elif outcome.load.overlapped:
            self._cost.observe_waiting(outcome.drafted, outcome.draft_s)

    def halves(self, load: StepLoad) -> bool:
        if load.sequences < 2 or not self._drafting or not self._aim.alike(load):
            return False
        half = StepLoad((load.sequences + 1) // 2, 0, load.kv_tokens // 2, overlapped=True)
        return self._alternation.decide(self._forecast(load).best, self._forecast(half).drafted)

    def prefill_first(self, load: StepLoad) -> bool:
        if not self._aim.alike(load):
            return False  # who is drafted for would wait while the others go on
        rows = load.sequences * (1 + self._forecast(load).nodes)
        drafting = self._cost.draft_s(load.sequences)
        alone = self._step_s(StepLoad(0, load.prefill_tokens, 0, overlapped=True), 0)
        apart = max(alone, drafting) + self._step_s(load._replace(prefill_tokens=0), rows)
        return apart < drafting + self._step_s(load, rows)

    def _step_s(self, load: StepLoad, rows: int) -> float:
        return float(self._cost.step_s(load, [rows])[0])

    def _nothing_drafted(self, load: StepLoad) -> Choice:
        nothing = (0,) * load.sequences
        if load.prefill_tokens:
            seconds = self._step_s(load, load.sequences)
        else:
            seconds = load.sequences / self._forecast(load).plain_rate
        return Choice(nothing, nothing, float(load.sequences), seconds)

    def _planned(self, load: StepLoad) -> DraftPlan:
        self._forecast_age += 1
        forecast = self._forecast(load)
        # A half is never decoded plainly for speed: that would be done with the whole.
        self._drafting = load.overlapped or self._pays(load, forecast)
        if self._drafting:
            self._stretches.drafted()
            if self._stretches.steps == LASTED:
                self._probing.restart()
            self._probing.postpone()
            self._half_probed = False
            sequences, _, urgent = forecast.group
            return DraftPlan(self._asked(forecast.nodes), sequences, HINTED * self.price, urgent)
        self._stretches.ended()
        return self._probe(load, forecast)

    def _probe(self, load: StepLoad, forecast: Forecast) -> DraftPlan:
        """Two steps: in the first, the drafter is mostly told what it has missed; the second shows what trees
        take. Otherwise drafting that was slow once would be thought so for ever. Where trees would not pay if
        they took no time, that need not be known."""
        promising = forecast.drafted > PROMISING * forecast.plain
        new = load.sequences <= PROBED and load.untold
        if not self._half_probed and not self._probing.due(promising=promising, new=new):
            return NO_DRAFTS
        self._half_probed = not self._half_probed and forecast.free > forecast.plain
        return DraftPlan(self._max_nodes, min(PROBED, load.sequences), 0.0)

    def _pays(self, load: StepLoad, forecast: Forecast) -> bool:
        """Whether to draft on, or to begin, what drafters have missed being told first."""
        wanted = KEEPS_DRAFTING if self._drafting else RESUMES_DRAFTING
        if forecast.drafted <= wanted * forecast.plain:
            return False
        missed = load.missed_tokens(urgent=forecast.group.urgent)
        if not missed_much(missed, forecast.group.sequences):
            return True
        stretch_s = self._stretches.expected * forecast.drafted_s
        told_s = self._cost.catch_up_s(missed)
        return forecast.drafted * stretch_s > wanted * forecast.plain * (stretch_s + told_s)

    def _asked(self, nodes: int) -> int:
        """Room for trees that turn out better than most."""
        return min(2 * nodes + 2, self._max_nodes)

    def _forecast(self, load: StepLoad) -> Forecast:
        """Of steps that only decode: a prompt chunk makes no node cheaper."""
        sequences = max(load.sequences, 1)
        overlapped = load.overlapped and load.sequences > 0
        if self._forecast_age >= self._forecast_for:
            self._forecasts, self._forecast_age = {}, 0
        key = sequences, load.priorities.count(0), load.urgent, overlapped
        if key not in self._forecasts:
            of = load._replace(sequences=sequences, prefill_tokens=0, overlapped=overlapped)
            self._forecasts[key] = self._values.forecast(of, self._cost, self._aim)
        return self._forecasts[key]

    @property
    def _forecast_for(self) -> int:
        if not self._plan.sequences:
            return PLAIN_FORECAST
        return DRAFTED_FORECAST if self._drafting else 1

    def _with_exploration(
        self,
        choice: Choice,
        whole: NDArray[np.bool_],
        values: list[NDArray[np.float64]],
        seconds: Seconds,
    ) -> Choice:
        """Verify a random few trees whole: what becomes of cheap nodes is seen nowhere else."""
        sizes = np.array([len(each) for each in values])
        verified = np.where(whole, sizes, choice.sizes)
        tokens = len(values) + sum(float(v[:n].sum()) for v, n in zip(values, verified, strict=True))
        return Choice(
            tuple(verified.tolist()),
            tuple((verified - choice.sizes).tolist()),
            tokens,
            float(seconds[verified.sum()]),
            self._explore,
        )


def missed_much(tokens: int, sequences: int) -> bool:
    """Whether so many committed tokens are more than drafters are usually sent for so many sequences."""
    return tokens > USUALLY_FED * sequences


def best_prefix(
    values: NDArray[np.float64],
    seconds: NDArray[np.float64],
    rate: float,
    allowed: NDArray[np.bool_] | None = None,
) -> int:
    """M that maximises `values[:M].sum() - rate * seconds[M]`, the least of several.

    values: [n], falling. seconds: [n + 1], of a step that verifies M of them; it need not be convex.
    allowed: [n + 1], which M may be chosen, at least one; None: all.
    """
    gained = np.concatenate(([0.0], np.cumsum(values))) - rate * seconds
    return int(np.argmax(gained if allowed is None else np.where(allowed, gained, -np.inf)))


def slope_after(seconds: NDArray[np.float64], place: int) -> float:
    """Slope of the lower convex hull of `seconds` to the right of `place`; 0 at its end."""
    more = np.arange(1, len(seconds) - place)
    if not len(more):
        return 0.0
    return float(((seconds[place + 1 :] - seconds[place]) / more).min())

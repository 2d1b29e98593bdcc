"""The engine: the step loop of one verifier."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field

import numpy as np

from serving.config import DraftBudget
from serving.engine.batch import Packer
from serving.engine.overlap import Overlap, Turn
from serving.engine.prefix_cache import PrefixCounts
from serving.engine.runner import ModelRunner
from serving.engine.sampler import Sampler
from serving.engine.scheduler import Scheduler, StepPlan
from serving.engine.sequence import Sequence
from serving.engine.speculator import DraftRound, Speculator
from serving.engine.timing import StepTimes
from serving.engine.verification import Verification, no_tree
from serving.metrics import EngineMetrics, StepReport
from serving.spec.accept import VerifyResult, cut
from serving.spec.calibrator import Calibrator
from serving.spec.controller import Choice, Controller, StepOutcome
from serving.spec.cost import StepLoad
from serving.spec.reliability import CalibrationError
from serving.spec.schedule import ScheduledController
from serving.spec.tree import ROOT, DraftTree
from serving.types import FinishReason, GenerationRequest, ModelCard, SpeculationStats, TokenDelta

NON_FINITE = "the model produced logits that are not finite for this request"


@dataclass(slots=True)
class EngineStats:
    """Sums since the start. prefix_queries, prefix_hits: see PrefixCounts.

    hidden_draft_s: of drafters' own time, what passed while other steps ran; times.draft is the rest.
    calibration: of draft confidences lately; None before the first fit.
    """

    steps: int = 0
    times: StepTimes = field(default_factory=StepTimes)
    speculation: SpeculationStats = field(default_factory=SpeculationStats)
    preemptions: int = 0
    prefix_queries: int = 0
    prefix_hits: int = 0
    hidden_draft_s: float = 0.0
    calibration: CalibrationError | None = None

    def add_step(
        self, plan: StepPlan, speculation: SpeculationStats, prefixes: PrefixCounts, times: StepTimes
    ) -> None:
        self.steps += 1
        self.preemptions += len(plan.preempted)
        self.prefix_queries += prefixes.queries
        self.prefix_hits += prefixes.hits
        self.speculation.add(speculation)
        self.times.add(times)


class Engine:
    """Continuous batching with draft trees. One thread calls everything.

    A step plans, takes the trees that are due (of all sequences, or of those whose turn it is: overlap.py),
    runs one packed forward, lets the target choose its own tokens along each tree, commits them, and asks for
    more.
    """

    def __init__(
        self,
        card: ModelCard,
        runner: ModelRunner,
        scheduler: Scheduler,
        packer: Packer,
        speculator: Speculator | None,
        overlap: Overlap,
        controllers: Callable[[DraftBudget], Controller],
        sampler: Sampler,
        metrics: EngineMetrics,
    ) -> None:
        self._card = card
        self._runner = runner
        self._scheduler = scheduler
        self._packer = packer
        self._speculator = speculator
        self._overlap = overlap
        self._controllers = controllers
        self._controller: Controller = ScheduledController.fixed(0)
        self._metrics = metrics
        self._sampler = sampler
        self._seq_ids = itertools.count()
        self._ended: list[TokenDelta] = []
        self._asking_s = 0.0
        self._committed_at: float | None = None  # by the last step; None: there was nothing to do since
        self.last_report = StepReport()
        self.stats = EngineStats()

    def card(self) -> ModelCard:
        return self._card

    @property
    def has_work(self) -> bool:
        return self._scheduler.has_work or bool(self._ended)

    @property
    def scheduler(self) -> Scheduler:
        return self._scheduler

    @property
    def calibrator(self) -> Calibrator | None:
        """None without speculation."""
        return self._speculator.calibrator if self._speculator else None

    @property
    def runner(self) -> ModelRunner:
        """The target itself, for whoever has other questions to it while the engine is idle."""
        return self._runner

    def add(self, request: GenerationRequest) -> None:
        """Queue a request. One that cannot run ends with an error from the next step."""
        length = len(request.prompt_ids) + len(request.output_ids)
        if length >= self._card.max_model_len:
            message = f"{length} tokens leave no room in a context of {self._card.max_model_len}"
            self._ended.append(TokenDelta(request.request_id, (), FinishReason.ERROR, message))
            return
        self._scheduler.add(Sequence.create(next(self._seq_ids), request))

    def choose_m(self, settings: DraftBudget) -> None:
        """From the next step on, choose m as the settings say. Without a drafter it stays 0."""
        if self._speculator is not None:
            self._controller = self._controllers(settings)

    def abort(self, request_id: str) -> None:
        """End a request wherever it is; unknown ids are ignored."""
        seq = self._scheduler.abort(request_id)
        if seq is not None:
            self._forget([seq])
            self._ended.append(
                TokenDelta(
                    request_id, (), FinishReason.ABORT, stats=seq.stats, cached_tokens=seq.cached_prompt
                )
            )

    def step(self) -> list[TokenDelta]:
        """One step: schedule, take drafts, run, verify, commit, ask for drafts. Returns what is new."""
        deltas, self._ended = self._ended, []
        if not self._scheduler.has_work:
            self._committed_at = None  # the last sequence was aborted: what follows is no time of steps
            return deltas
        began = self._committed_at or time.perf_counter()
        times = StepTimes()
        with times.measure("schedule"):
            turn = self._turn()
            asked = self._speculator.asked if self._speculator else no_drafts
            plan = self._scheduler.schedule(asked, turn.resting)
            self._forget(plan.preempted)
        drafts = self._take_drafts(plan, turn, times)
        if plan.empty:  # whose turn it was has been preempted
            return deltas
        prefill_tokens = sum(chunk.length for chunk in plan.prefills)
        load = _load_of([decode.seq for decode in plan.decodes], prefill_tokens, bool(turn.resting))
        with times.measure("choose"):
            choice = self._controller.choose(drafts.trees, load, drafts.plan)
        with times.measure("schedule"):
            trees = [tree[:size] for tree, size in zip(drafts.trees, choice.sizes, strict=True)]
            batch = self._packer.pack(plan, trees)
        with times.measure("forward"):
            logits = self._runner.forward(batch)
        with times.measure("sample"):
            verification = Verification(plan, trees, batch, logits)
            results = verification.results(self._sampler)
        with times.measure("compact"):
            self._compact(plan, results)
        speculation = SpeculationStats()
        with times.measure("output"):
            verification.keep_prompt_logprobs()
            deltas += self._commit(plan, verification, results, speculation)
            if self._speculator is not None:
                self._speculator.calibrator.observe(trees, results[: len(trees)], choice.weights)
        self._committed_at = time.perf_counter()
        committed = sum(len(result.token_ids) for result in results)
        outcome = _outcome(load, trees, committed, self._committed_at - began, drafts, times)
        with times.measure("choose"):
            self._controller.observe(outcome)
        self._ask_drafts()
        self._record(plan, drafts, choice, outcome, speculation, times)
        if not self._scheduler.has_work:
            self._committed_at = None
        return deltas

    def check_integrity(self) -> None:
        self._scheduler.check_integrity()

    def _turn(self) -> Turn:
        if self._speculator is None:
            return Turn(0)
        return self._overlap.turn(self._speculator.rounds, self._load_of_all, self._controller)

    def _load_of_all(self) -> StepLoad:
        """Of a step with all that there is to do."""
        return _load_of(self._decoding, self._chunk_size)

    @property
    def _decoding(self) -> list[Sequence]:
        return [seq for seq in self._scheduler.running if seq.is_decoding]

    @property
    def _chunk_size(self) -> int:
        """About what the next step can take of prompts."""
        return min(self._scheduler.prefill_pending, self._scheduler.max_num_batched_tokens)

    def _take_drafts(self, plan: StepPlan, turn: Turn, times: StepTimes) -> DraftRound:
        if self._speculator is None:
            return DraftRound([no_tree(decode.seq) for decode in plan.decodes])
        started = time.perf_counter()
        drafts = self._speculator.collect(plan.decodes, turn.rounds)
        # What this thread gave to drafting: asking (which drafts, where the drafter is in this process) and
        # waiting. A drafter elsewhere may have worked longer than it was waited for.
        spent = self._asking_s + time.perf_counter() - started
        times.draft = min(drafts.compute_s, spent)
        times.wire = spent - times.draft
        return drafts

    def _compact(self, plan: StepPlan, results: list[VerifyResult]) -> None:
        """Move accepted nodes' KV to where their positions belong, right behind the root."""
        source: list[int] = []
        target: list[int] = []
        for decode, result in zip(plan.decodes, results, strict=False):
            base = decode.seq.num_computed + 1
            for place, node in enumerate(result.accepted):
                if place != node:
                    source.append(self._slot(decode.seq, base + node))
                    target.append(self._slot(decode.seq, base + place))
        if source:
            self._runner.move_slots(np.array(source, np.int32), np.array(target, np.int32))

    def _slot(self, seq: Sequence, position: int) -> int:
        block, offset = divmod(position, self._packer.block_size)
        return seq.block_table[block] * self._packer.block_size + offset

    def _commit(
        self,
        plan: StepPlan,
        verification: Verification,
        results: list[VerifyResult],
        speculation: SpeculationStats,
    ) -> list[TokenDelta]:
        """Append what each sequence gained, end those that are done, count into `speculation`."""
        deltas = []
        for index, decode in enumerate(plan.decodes):
            result, seq = results[index], decode.seq
            seq.num_computed += 1 + len(result.accepted)
            counted = (seq.stats, speculation) if seq.num_output else ()  # the first token is the prompt's
            delta = self._emit(seq, verification, index, result)
            accepted = min(len(result.accepted), len(delta.token_ids))
            tree = verification.trees[index]
            for stats in counted:
                stats.record(len(tree), accepted, len(delta.token_ids), _offered(tree, result, accepted))
            deltas.append(delta)
        index = len(plan.decodes)
        for chunk in plan.prefills:
            chunk.seq.num_computed += chunk.length
            if chunk.last:
                deltas.append(self._emit(chunk.seq, verification, index, results[index]))
                index += 1
            else:
                self._scheduler.committed(chunk.seq)
        return deltas

    def _emit(
        self, seq: Sequence, verification: Verification, index: int, result: VerifyResult
    ) -> TokenDelta:
        """The delta of sequence `index` of the step."""
        tokens, reason = cut(result.token_ids, seq.request.params.stop_token_ids, self._scheduler.room(seq))
        error = NON_FINITE if result.failed and reason is None else None
        delta = TokenDelta(
            seq.request.request_id,
            tokens,
            reason if error is None else FinishReason.ERROR,
            error,
            seq.stats,
            seq.cached_prompt,
            verification.logprobs(index, result, len(tokens)),
            tuple(seq.prompt_logprobs) if seq.num_output == 0 else (),
        )
        seq.append(tokens)
        if delta.finish_reason is None:
            self._scheduler.committed(seq)
        else:
            self._scheduler.finish(seq, failed=result.failed)
            self._forget([seq])
        return delta

    def _ask_drafts(self) -> None:
        """Ask for the next step's trees. The time counts with theirs."""
        if self._speculator is None:
            return
        started = time.perf_counter()
        decoding = self._decoding
        free = [seq for seq in decoding if not self._speculator.is_drafting(seq)]
        rounds = len(self._speculator.rounds)
        of_all = _load_of(decoding, 0)
        for group in self._overlap.groups(free, rounds, of_all, self._controller):
            everyone = len(group) == len(decoding)
            load = of_all if everyone else _load_of(group, 0, self._overlap.alternating)
            plan = self._controller.plan(load._replace(missed=self._speculator.missed(group)))
            self._speculator.ask(((seq, self._scheduler.room(seq) - 1) for seq in group), plan)
        self._asking_s = time.perf_counter() - started

    def _forget(self, sequences: list[Sequence] | tuple[Sequence, ...]) -> None:
        if self._speculator is not None:
            self._speculator.forget(sequences)

    def _record(
        self,
        plan: StepPlan,
        drafts: DraftRound,
        choice: Choice,
        outcome: StepOutcome,
        speculation: SpeculationStats,
        times: StepTimes,
    ) -> None:
        scheduler = self._scheduler
        prefixes = scheduler.prefixes.take_counts()
        hidden_draft_s = drafts.compute_s - times.draft
        self.stats.add_step(plan, speculation, prefixes, times)
        self.stats.hidden_draft_s += hidden_draft_s
        if self.calibrator is not None:
            self.stats.calibration = self.calibrator.error
        self.last_report = StepReport(
            running=scheduler.num_running,
            waiting=scheduler.num_waiting,
            kv_usage=scheduler.blocks.usage,
            preemptions=len(plan.preempted),
            prefix_queries=prefixes.queries,
            prefix_hits=prefixes.hits,
            decoding=len(plan.decodes),
            drafts_wanted=drafts.asked + drafts.under_way,
            drafts=sum(size > 0 for size in choice.sizes),
            draft_tokens=sum(choice.sizes),
            accepted_tokens=speculation.accepted_tokens,
            accepted_per_position=speculation.accepted_per_position,
            drafter_failures=drafts.failures,
            calibration_error=asdict(self.stats.calibration) if self.stats.calibration else {},
            phase_seconds=times.by_phase(),
            hidden_draft_s=hidden_draft_s,
            price=self._controller.price,
            committed_tokens=speculation.committed_tokens,
            step_seconds=outcome.forward_s + outcome.beside_s,
            predicted_tokens=choice.tokens,
            predicted_seconds=choice.seconds,
        )
        self._metrics.observe_step(self.last_report)


def no_drafts(seq: Sequence) -> int:
    """For an engine without a drafter."""
    return 0


def _load_of(decoding: list[Sequence], prefill_tokens: int, overlapped: bool = False) -> StepLoad:
    context = sum([seq.num_computed for seq in decoding])
    priorities = tuple([seq.request.priority for seq in decoding])
    urgent = sum([not seq.request.priority and seq.wants_trees for seq in decoding])
    return StepLoad(len(decoding), prefill_tokens, context, overlapped, priorities, urgent)


def _outcome(
    load: StepLoad,
    trees: list[DraftTree],
    committed: int,
    elapsed_s: float,
    drafts: DraftRound,
    times: StepTimes,
) -> StepOutcome:
    # Choosing tokens waits for the network where that runs on another device.
    forward_s = times.forward + times.sample
    draft_s = times.draft + times.wire
    return StepOutcome(
        load,
        verified=load.sequences + sum(len(tree) for tree in trees),
        committed=committed,
        elapsed_s=elapsed_s,
        forward_s=forward_s,
        beside_s=times.total - forward_s - draft_s,
        draft_s=draft_s,
        drafted=drafts.asked,
        fed=drafts.fed,
        hidden=drafts.hidden,
    )


def _offered(tree: DraftTree, result: VerifyResult, accepted: int) -> int:
    """Depths at which the first `accepted` nodes of the path met draft tokens."""
    if accepted < len(result.accepted):
        return accepted
    return accepted + tree.continues(result.accepted[-1] if result.accepted else ROOT)

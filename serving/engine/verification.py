"""One step's look at the target's logits: its own tokens along every tree, for decodes and complete prompts."""

from __future__ import annotations

from torch import Tensor

from serving.engine.batch import Batch
from serving.engine.sampler import Draw, Sampler
from serving.engine.scheduler import StepPlan
from serving.engine.sequence import Sequence
from serving.spec.accept import VerifyResult, Visit, walk
from serving.spec.tree import ROOT, DraftTree


class Verification:
    """Knows which row of the logits answers for which node of which sequence.

    Sequences are numbered: decodes first, then the prompts that this step completes.
    """

    def __init__(self, plan: StepPlan, trees: list[DraftTree], batch: Batch, logits: Tensor) -> None:
        """trees[i] is what plan.decodes[i] verifies. logits: float32 [len(batch.logit_rows), vocab]."""
        self._logits = logits
        self._sequences = [decode.seq for decode in plan.decodes] + [c.seq for c in plan.prefills if c.last]
        self._first_row = [int(row) for row in batch.logit_start if row >= 0]
        self._trees = trees + [no_tree(seq) for seq in self._sequences[len(trees) :]]
        self._depths = [tree.depths for tree in self._trees]

    def results(self, sampler: Sampler) -> list[VerifyResult]:
        """What each sequence commits."""

        def choose(visits: list[Visit]) -> list[int]:
            rows = [self._first_row[index] + 1 + node for index, node in visits]
            return sampler.choose(self._logits, [self._draw(visit) for visit in visits], rows)

        return walk(self._trees, choose)

    def _draw(self, visit: Visit) -> Draw:
        seq, node = self._sequences[visit.sequence], visit.node
        depth = 0 if node == ROOT else int(self._depths[visit.sequence][node])
        position = len(seq.token_ids) + depth
        if seq.adjuster is not None:
            path = () if node == ROOT else (int(self._trees[visit.sequence].token_ids[node]),)
            seq.adjuster.catch_up(seq.token_ids, path)
            assert seq.adjuster.num_tokens == position, "the walk went back"
        return Draw(seq.request.params, seq.request.choice_index, position, seq.adjuster)


def no_tree(seq: Sequence) -> DraftTree:
    return DraftTree.empty(seq.seq_id, len(seq.token_ids))

"""One step's look at the target's logits: its own tokens along each tree, and their log-probabilities."""

from __future__ import annotations

from torch import Tensor

from serving.engine.batch import Batch, wanted_rows
from serving.engine.logprobs import token_logprobs
from serving.engine.sampler import Draw, Sampler
from serving.engine.scheduler import Prefill, StepPlan
from serving.engine.sequence import Sequence
from serving.spec.accept import VerifyResult, Visit, walk
from serving.spec.tree import ROOT, DraftTree
from serving.types import TokenLogprobs


class Verification:
    """Knows which row of the logits answers for which node of which sequence.

    Sequences are numbered: decodes first, then the prompts that this step completes.
    """

    def __init__(self, plan: StepPlan, trees: list[DraftTree], batch: Batch, logits: Tensor) -> None:
        """trees[i] is what plan.decodes[i] verifies. logits: float32 [len(batch.logit_rows), vocab]."""
        self._logits = logits
        self._sequences = [decode.seq for decode in plan.decodes] + [c.seq for c in plan.prefills if c.last]
        start = batch.logit_start.tolist()
        self._chunks = list(zip(plan.prefills, start[len(trees) :], strict=True))
        # Of a complete prompt the root is the last row.
        last_rows = [row + wanted_rows(chunk) - 1 for chunk, row in self._chunks if chunk.last]
        self._root_row = start[: len(trees)] + last_rows
        self.trees = trees + [no_tree(seq) for seq in self._sequences[len(trees) :]]
        self._depths = [tree.depths for tree in self.trees]

    def results(self, sampler: Sampler) -> list[VerifyResult]:
        """What each sequence commits."""

        def choose(visits: list[Visit]) -> list[int]:
            rows = [self._root_row[index] + 1 + node for index, node in visits]
            return sampler.choose(self._logits, [self._draw(visit) for visit in visits], rows)

        return walk(self.trees, choose)

    def logprobs(self, index: int, result: VerifyResult, kept: int) -> tuple[TokenLogprobs, ...]:
        """Of the first `kept` tokens that sequence `index` commits; none where it wants none."""
        likeliest = self._sequences[index].request.params.logprobs
        if likeliest is None:
            return ()
        nodes = (ROOT, *result.accepted)[:kept]  # each token was chosen at the node before it
        rows = [self._logits[self._root_row[index] + 1 + node] for node in nodes]
        return tuple(
            token_logprobs(row, token, likeliest)
            for row, token in zip(rows, result.token_ids[:kept], strict=True)
        )

    def keep_prompt_logprobs(self) -> None:
        """Append to the sequences' prompt_logprobs what this step's chunks tell."""
        for chunk, first_row in self._chunks:
            if chunk.seq.wants_prompt_logits:
                _keep_prompt_logprobs(chunk, self._logits[first_row : first_row + chunk.length])

    def _draw(self, visit: Visit) -> Draw:
        seq, node = self._sequences[visit.sequence], visit.node
        depth = 0 if node == ROOT else int(self._depths[visit.sequence][node])
        position = len(seq.token_ids) + depth
        if seq.adjuster is not None:
            path = () if node == ROOT else (int(self.trees[visit.sequence].token_ids[node]),)
            seq.adjuster.catch_up(seq.token_ids, path)
            assert seq.adjuster.num_tokens == position, "the walk went back"
        return Draw(seq.request.params, seq.request.choice_index, position, seq.adjuster)


def _keep_prompt_logprobs(chunk: Prefill, logits: Tensor) -> None:
    """logits: [chunk.length, vocab]; the row of a position tells of the token after it."""
    seq, known = chunk.seq, chunk.seq.prompt_logprobs
    likeliest = seq.request.params.logprobs
    assert likeliest is not None
    assert chunk.start <= len(known), "a part of the prompt was not computed"
    for position in range(len(known), min(chunk.start + chunk.length, seq.num_prompt - 1)):
        row = logits[position - chunk.start]
        known.append(token_logprobs(row, seq.token_ids[position + 1], likeliest))


def no_tree(seq: Sequence) -> DraftTree:
    return DraftTree.empty(seq.seq_id, len(seq.token_ids))

"""How long steps take on paper: whichever is slower of memory and arithmetic, plus what a step costs anyway.

A roofline with flat efficiencies. Nothing in it has been measured on the GPUs of machines.py.
"""

from __future__ import annotations

from typing import NamedTuple

from deploy.planning.machines import Gpu
from deploy.planning.shape import Shape

BYTES = 2  # bfloat16
# Shares of the data sheet that well-made kernels reach, what launches and the scheduler cost per step, and
# how long a sum over ranks takes however little is in it.
MEMORY_EFFICIENCY = 0.75
FLOPS_EFFICIENCY = 0.5
STEP_OVERHEAD_S = 0.0015
REDUCE_LATENCY_S = 15e-6
# Of a GPU's memory: what the engine may take, and of that what activations and the runtime need.
MEMORY_SHARE = 0.9
WORKSPACE_BYTES = 2e9


class Speculation(NamedTuple):
    """`acceptance_length`: tokens that a step brings (tau); `draft_tokens`: verified with each of them (m);
    `draft_share`: time for drafting as a share of the step that verifies.
    """

    acceptance_length: float
    draft_tokens: int
    draft_share: float


PLAIN = Speculation(1.0, 0, 0.0)


class Verifier(NamedTuple):
    """A model on `ranks` equal GPUs."""

    shape: Shape
    gpu: Gpu
    ranks: int

    @property
    def kv_tokens(self) -> int:
        """Tokens whose keys and values fit; 0 or less when not even the weights do."""
        usable = self.gpu.memory * MEMORY_SHARE - WORKSPACE_BYTES - self._weight_bytes
        return int(usable / self._kv_bytes)

    def step_s(self, sequences: int, context: float, speculation: Speculation) -> float:
        """Seconds of one step: `sequences` of `context` tokens each, drafts included."""
        rows = sequences * (1 + speculation.draft_tokens)
        memory = self._weight_bytes + sequences * context * self._kv_bytes
        return (1 + speculation.draft_share) * self._forward_s(rows, memory)

    def prefill_s(self, tokens: int) -> float:
        """Seconds that the GPU is busy with a prompt of this length."""
        return self._forward_s(tokens, self._weight_bytes)

    def _forward_s(self, rows: int, read_bytes: float) -> float:
        memory = read_bytes / (self.gpu.bandwidth * MEMORY_EFFICIENCY)
        flops = 2 * self.shape.parameters * rows / self.ranks / (self.gpu.flops * FLOPS_EFFICIENCY)
        return max(memory, flops) + self._reduce_s(rows) + STEP_OVERHEAD_S

    def _reduce_s(self, rows: int) -> float:
        """Two sums over all ranks in every layer, in a ring."""
        if self.ranks == 1:
            return 0.0
        sent = 2 * (self.ranks - 1) / self.ranks * rows * self.shape.hidden * BYTES
        return 2 * self.shape.layers * (sent / self.gpu.link + REDUCE_LATENCY_S)

    @property
    def _weight_bytes(self) -> float:
        """Of one rank."""
        return self.shape.parameters * BYTES / self.ranks

    @property
    def _kv_bytes(self) -> float:
        """Of one token on one rank."""
        return self.shape.kv_elements * BYTES / min(self.ranks, self.shape.kv_heads)

"""A rank's operations: those of its device on its part of the weights, and the sums that join the parts."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from serving.models.linear import Draws, Likeliest, Linear, LinearOps
from serving.models.ranks import Ranks


class ParallelLinearOps:
    """LinearOps whose rows of activations every rank has whole, and whose weights are split over the ranks.

    norm_linear, norm_swiglu: layers split by outputs; each rank keeps its own outputs.
    add_linear: a layer split by inputs; its outputs are summed over the ranks.
    embed, norm_logits: a layer split by tokens, in equal parts, zeros behind the last token.
    """

    def __init__(self, inner: LinearOps, ranks: Ranks, vocab_size: int) -> None:
        self.eps = inner.eps
        self.inner = inner
        self._ranks, self._vocab_size = ranks, vocab_size

    @property
    def size(self) -> int:
        """Number of ranks."""
        return self._ranks.shard.size

    def pack(self, weight: Tensor, bias: Tensor | None = None) -> Linear:
        return self.inner.pack(weight, bias)

    def pack_gate_up(self, gate: Linear, up: Linear) -> Linear:
        return self.inner.pack_gate_up(gate, up)

    def norm_linear(self, x: Tensor, norm: Tensor | None, layer: Linear) -> Tensor:
        return self.inner.norm_linear(x, norm, layer)

    def norm_swiglu(self, x: Tensor, norm: Tensor, layer: Linear) -> Tensor:
        return self.inner.norm_swiglu(x, norm, layer)

    def add_linear(self, residual: Tensor, x: Tensor, layer: Linear) -> None:
        # Rounded once, where one rank alone would round.
        residual += self.partial(x, layer).to(residual.dtype)

    def partial(self, x: Tensor, layer: Linear) -> Tensor:
        return self._ranks.sum(self.inner.partial(x, layer))

    def norm_logits(self, x: Tensor, norm: Tensor | None, layer: Linear) -> Tensor:
        """Whole rows on rank 0, which alone looks at them."""
        return self._ranks.columns(self.inner.norm_logits(x, norm, layer))[:, : self._vocab_size]

    def embed(self, token_ids: Tensor, layer: Linear) -> Tensor:
        """The token's owner has its row, the others have zeros: a sum that changes nothing."""
        local = token_ids - self._ranks.shard.rank * layer.out_features
        elsewhere = (local < 0) | (local >= layer.out_features)
        rows = self.inner.embed(local.masked_fill(elsewhere, 0), layer)
        return self._ranks.sum(rows.masked_fill(elsewhere.unsqueeze(1), 0))

    def norms(self, parts: Sequence[tuple[Tensor, Tensor]]) -> Tensor:
        return self.inner.norms(parts)

    def likeliest(self, logits: Tensor, count: int) -> Likeliest:
        return self.inner.likeliest(logits, count)

    def couple(self, logits: Tensor, token_ids: Tensor, draws: Draws) -> None:
        self.inner.couple(logits, token_ids, draws)

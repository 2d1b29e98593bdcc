"""The target's forward: packed rows in, logits of the wanted rows out."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from serving.engine.attention.base import AttentionBackend
from serving.engine.batch import Batch
from serving.models.decoder import Decoder


@dataclass(frozen=True, slots=True)
class ModelRunner:
    decoder: Decoder
    attention: AttentionBackend
    device: torch.device

    def forward(self, batch: Batch) -> Tensor:
        """float32 [len(batch.logit_rows), vocab], valid until the next call."""
        self.attention.begin(batch)
        hidden = self.decoder.forward(self._index(batch.token_ids), self.attention)
        wanted = hidden if len(batch.logit_rows) == len(hidden) else hidden[self._index(batch.logit_rows)]
        return self.decoder.logits(wanted)

    def _index(self, rows: NDArray[np.int32]) -> Tensor:
        return torch.from_numpy(rows.astype(np.int64)).to(self.device)

"""The target's forward: packed rows in, logits of the wanted rows out."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from serving.engine.attention.base import AttentionBackend
from serving.engine.batch import Batch
from serving.engine.features import FeatureCache
from serving.engine.followers import Followers
from serving.models.decoder import Decoder


@dataclass(frozen=True, slots=True)
class ModelRunner:
    """The network with its caches. features: None where no head wants any.

    followers: the other ranks that share the network, told here of everything that happens to it; None on
    those, and where there are none.
    """

    decoder: Decoder
    attention: AttentionBackend
    device: torch.device
    features: FeatureCache | None = None
    followers: Followers | None = None

    def forward(self, batch: Batch) -> Tensor:
        """float32 [len(batch.logit_rows), vocab], valid until the next call; on followers, of no meaning."""
        if self.followers is not None:
            self.followers.run(batch)
        self.attention.begin(batch)
        hidden = self._hidden(batch)
        wanted = hidden if len(batch.logit_rows) == len(hidden) else hidden[self._index(batch.logit_rows)]
        return self.decoder.logits(wanted)

    def move_slots(self, source: NDArray[np.int32], target: NDArray[np.int32]) -> None:
        """Move what is cached at slots; sources ascend, and none lies before its target."""
        if self.followers is not None:
            self.followers.move(source, target)
        self.attention.move_slots(source, target)
        if self.features is not None:
            self.features.move(source, target)

    def _hidden(self, batch: Batch) -> Tensor:
        token_ids = self._index(batch.token_ids)
        if self.features is None:
            return self.decoder.forward(token_ids, self.attention)
        self.features.begin(batch.num_rows)
        hidden = self.decoder.forward(token_ids, self.attention, self.features.tap)
        self.features.write(batch.slots)
        return hidden

    def _index(self, rows: NDArray[np.int32]) -> Tensor:
        return torch.from_numpy(rows.astype(np.int64)).to(self.device)

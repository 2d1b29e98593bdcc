"""The target as training sees it: what enters chosen layers, for whole conversations, by our own kernels."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from serving.config import ServeConfig
from serving.engine.batch import Packer
from serving.engine.placement import choose_placement
from serving.engine.scheduler import Prefill, StepPlan
from serving.engine.sequence import Sequence
from serving.models.architecture import Architecture
from serving.models.card import fingerprint
from serving.models.decoder import Decoder
from serving.models.hf_json import Json, read_json
from serving.models.sources import resolve
from serving.models.weights import Weights
from serving.types import GenerationRequest, SamplingParams
from training.data import Conversation
from training.errors import TrainingError

BLOCK_SIZE = 16
CHUNK = 512  # rows of one forward
LOGIT_ROWS = 64


def default_layers(num_layers: int) -> tuple[int, ...]:
    """Layers whose inputs EAGLE-3 fuses (0-based)."""
    if num_layers < 4:
        raise TrainingError(f"a target of {num_layers} layers is too shallow for three depths of features.")
    return (2, num_layers // 2, num_layers - 3)


@dataclass(frozen=True, slots=True)
class TargetFolder:
    """A model on disk: shape, configuration, and the two matrices that a head borrows."""

    folder: Path
    architecture: Architecture
    config: Json
    fingerprint: str

    @classmethod
    def open(cls, config: ServeConfig) -> TargetFolder:
        """Raises ModelLoadError."""
        folder = resolve(config.model, config.cache_dir)
        identity = fingerprint(folder, config.dtype)
        return cls(folder, Architecture.from_folder(folder), read_json(folder / "config.json"), identity)

    def embeddings(self) -> Tensor:
        """[vocab, hidden], as stored."""
        return self._matrix("model.embed_tokens.weight")

    def output_rows(self, token_ids: Tensor) -> Tensor:
        """[len(token_ids), hidden], as stored: these tokens' rows of the output projection."""
        tied = self.architecture.tie_word_embeddings
        return self._matrix("model.embed_tokens.weight" if tied else "lm_head.weight")[token_ids]

    def final_norm(self) -> Tensor:
        """[hidden], as stored."""
        return self._matrix("model.norm.weight")

    def _matrix(self, name: str) -> Tensor:
        return Weights.open(self.folder).get(name).clone()


class Captured(NamedTuple):
    """What the target computed for a conversation of n tokens, on the CPU.

    streams: bf16 [n, layers + 1, hidden], the residual stream that enters each captured layer, then the one
    that leaves the last layer (before the final norm).
    best: int32 [n], the token that the target likes best after each position; -1 where it was not asked.
    """

    streams: Tensor
    best: Tensor


class Target:
    """The network, ready to run one sequence at a time."""

    def __init__(self, config: ServeConfig, folder: TargetFolder, max_length: int) -> None:
        a = folder.architecture
        placement = choose_placement(config, a)
        ops = placement.linear_ops(a.rms_norm_eps)
        decoder = Decoder.load(a, Weights.open(folder.folder), ops, placement.dtype, placement.device)
        blocks = -(-max_length // BLOCK_SIZE)
        self._decoder = decoder
        self._device = placement.device
        self._attention = placement.attention(
            a,
            [layer.head_norms for layer in decoder.layers],
            num_blocks=blocks,
            block_size=BLOCK_SIZE,
            max_model_len=blocks * BLOCK_SIZE,
        )
        self._packer = Packer(CHUNK, 1, blocks, BLOCK_SIZE)
        self._blocks = list(range(blocks))
        self.num_layers = a.num_layers
        self.hidden_size = a.hidden_size

    def capture(self, conversation: Conversation, layers: tuple[int, ...]) -> Captured:
        """`best` is asked from the prompt's last position on."""
        token_ids = conversation.token_ids
        streams = torch.empty(len(token_ids), len(layers) + 1, self.hidden_size, dtype=torch.bfloat16)
        best = torch.full((len(token_ids),), -1, dtype=torch.int32)
        seq, asked = self._sequence(token_ids), conversation.prompt_len - 1
        for start in range(0, len(token_ids), CHUNK):
            length = min(CHUNK, len(token_ids) - start)
            hidden = self._forward(seq, start, length, layers, streams[start : start + length])
            if start + length > asked:
                best[max(start, asked) : start + length] = self._best(hidden[max(asked - start, 0) :])
        return Captured(streams, best)

    def _sequence(self, token_ids: NDArray[np.int32]) -> Sequence:
        assert len(token_ids) <= len(self._blocks) * BLOCK_SIZE
        prompt = tuple(int(token) for token in token_ids)
        seq = Sequence.create(0, GenerationRequest("capture", prompt, SamplingParams(max_tokens=1)))
        seq.block_table = self._blocks[: -(-len(prompt) // BLOCK_SIZE)]
        return seq

    def _forward(
        self, seq: Sequence, start: int, length: int, layers: tuple[int, ...], out: Tensor
    ) -> Tensor:
        """Fill out [length, layers + 1, hidden]; returns what leaves the last layer."""
        batch = self._packer.pack(StepPlan((), (Prefill(seq, start, length),), ()), [])
        self._attention.begin(batch)
        rows = torch.from_numpy(batch.token_ids.astype(np.int64)).to(self._device)

        def tap(layer: int, hidden: Tensor) -> None:
            if layer in layers:
                out[:, layers.index(layer)] = hidden

        hidden = self._decoder.forward(rows, self._attention, tap)
        out[:, -1] = hidden
        return hidden

    def _best(self, hidden: Tensor) -> Tensor:
        """int32 [rows]. Few rows at a time: their logits cover the whole vocabulary."""
        parts = [self._decoder.logits(part).argmax(-1).int().cpu() for part in hidden.split(LOGIT_ROWS)]
        return torch.cat(parts)

"""What drafter and verifier must know of a draft head, whatever format its checkpoint has."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from serving.errors import ModelLoadError
from serving.kernels.native import LANES
from serving.models.architecture import Architecture

Kind = Literal["eagle3", "eagle"]
FeatureNorm = Literal["none", "each", "joint"]

# Vocabularies are padded to multiples of at most this; a larger difference is another tokenizer.
PADDING = 512


@dataclass(frozen=True, slots=True)
class HeadConfig:
    """Sizes and choices of one head. kind: `eagle` is EAGLE-1 and EAGLE-2, which share a network.

    layer: its one decoder layer; hidden_size is the width of what it feeds back.
    vocab_size: of the target it was trained for. draft_vocab_size: rows of what it drafts from.
    feature_layers: target layers whose *input* residual streams it is fed; num_layers: what leaves the last.
    feature_norm: RMSNorm before `fc`, none, on each feature or on all of them as one vector.
    norm_before_residual: the residual starts from the normed hidden state.
    norm_output: what it feeds back is the normed output (EAGLE-3.1), not what enters the norm.
    fc_bias: of `eagle`'s fc; EAGLE-3's has none.
    """

    kind: Kind
    layer: Architecture
    target_hidden_size: int
    vocab_size: int
    draft_vocab_size: int
    feature_layers: tuple[int, ...]
    feature_norm: FeatureNorm = "none"
    norm_before_residual: bool = False
    norm_output: bool = False
    fc_bias: bool = False

    def check(self, target: Architecture) -> None:
        """Raises ModelLoadError when the head was not made for `target`."""
        self._check_width(target)
        if abs(self.vocab_size - target.vocab_size) >= PADDING:
            raise ModelLoadError(
                f"the head is for another model: its vocabulary has {self.vocab_size} tokens, "
                f"the target's {target.vocab_size}."
            )
        if self.draft_vocab_size > self.vocab_size:
            raise ModelLoadError(
                f"the head's draft_vocab_size {self.draft_vocab_size} exceeds its vocabulary "
                f"of {self.vocab_size}."
            )
        for layer in self.feature_layers:
            if not 0 <= layer <= target.num_layers:
                raise ModelLoadError(
                    f"the head is fed from layer {layer}, but the target has {target.num_layers} layers."
                )

    def _check_width(self, target: Architecture) -> None:
        if self.target_hidden_size != target.hidden_size:
            raise ModelLoadError(
                f"the head is for another model: it was made for a hidden size of {self.target_hidden_size}, "
                f"the target's is {target.hidden_size}."
            )
        width = self.layer.hidden_size
        if self.kind == "eagle" and width != target.hidden_size:
            raise ModelLoadError(f"an EAGLE-1/2 head must be as wide as its target, not {width}.")
        if width != target.hidden_size and width % LANES:
            raise ModelLoadError(f"the head's hidden size must be a multiple of {LANES}, not {width}.")

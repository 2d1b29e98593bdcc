"""The shape of a head, as its checkpoint's config.json states it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from serving.models.architecture import Architecture
from serving.models.hf_json import Json
from serving.models.rope import RopeConfig
from training.errors import TrainingError

Kind = Literal["eagle3", "eagle1"]
_ROPE_FIELDS = ("rope_theta", "rope_scaling", "rope_parameters")


@dataclass(frozen=True, slots=True)
class HeadConfig:
    """layers: target layers whose *inputs* are fused; one past the last means the last layer's output.

    fc_norm: RMSNorm on each feature before `fc` (EAGLE-3 only). rope_fields: the target's, verbatim.
    """

    kind: Kind
    hidden_size: int
    num_heads: int
    num_kv_heads: int
    head_dim: int
    intermediate_size: int
    vocab_size: int
    draft_vocab_size: int
    rms_norm_eps: float
    max_position_embeddings: int
    layers: tuple[int, ...]
    fc_norm: bool
    rope_fields: Json = field(default_factory=dict)

    @classmethod
    def for_target(
        cls,
        kind: Kind,
        architecture: Architecture,
        config: Json,
        layers: tuple[int, ...],
        draft_vocab_size: int,
    ) -> HeadConfig:
        """One layer shaped like the target's."""
        a = architecture
        return cls(
            kind=kind,
            hidden_size=a.hidden_size,
            num_heads=a.num_heads,
            num_kv_heads=a.num_kv_heads,
            head_dim=a.head_dim,
            intermediate_size=a.intermediate_size,
            vocab_size=a.vocab_size,
            draft_vocab_size=draft_vocab_size,
            rms_norm_eps=a.rms_norm_eps,
            max_position_embeddings=a.max_position_embeddings,
            layers=layers,
            fc_norm=kind == "eagle3",
            rope_fields={name: config[name] for name in _ROPE_FIELDS if config.get(name) is not None},
        )

    @property
    def rope(self) -> RopeConfig:
        return RopeConfig.from_hf(
            {"max_position_embeddings": self.max_position_embeddings, **self.rope_fields}
        )

    def to_json(self) -> dict[str, Any]:
        """config.json in SpecForge's layout."""
        eagle3 = self.kind == "eagle3"
        config: dict[str, Any] = {
            "architectures": ["LlamaForCausalLMEagle3" if eagle3 else "LlamaForCausalLMEagle"],
            "model_type": "llama",
            "hidden_size": self.hidden_size,
            "intermediate_size": self.intermediate_size,
            "num_attention_heads": self.num_heads,
            "num_key_value_heads": self.num_kv_heads,
            "head_dim": self.head_dim,
            "num_hidden_layers": 1,
            "hidden_act": "silu",
            "vocab_size": self.vocab_size,
            **self.rope_fields,
            "rms_norm_eps": self.rms_norm_eps,
            "max_position_embeddings": self.max_position_embeddings,
            "torch_dtype": "bfloat16",
        }
        if not eagle3:
            return config | {"bias": False}
        return config | {
            "draft_vocab_size": self.draft_vocab_size,
            "fc_norm": self.fc_norm,
            "eagle_config": {"eagle_aux_hidden_state_layer_ids": _written_layers(self.layers)},
        }

    @classmethod
    def from_json(cls, config: Json) -> HeadConfig:
        """What `to_json` writes. Raises TrainingError for another layout."""
        try:
            eagle3 = config["architectures"] == ["LlamaForCausalLMEagle3"]
            written = config["eagle_config"]["eagle_aux_hidden_state_layer_ids"] if eagle3 else []
            return cls(
                kind="eagle3" if eagle3 else "eagle1",
                hidden_size=config["hidden_size"],
                num_heads=config["num_attention_heads"],
                num_kv_heads=config["num_key_value_heads"],
                head_dim=config["head_dim"],
                intermediate_size=config["intermediate_size"],
                vocab_size=config["vocab_size"],
                draft_vocab_size=config["draft_vocab_size"] if eagle3 else config["vocab_size"],
                rms_norm_eps=config["rms_norm_eps"],
                max_position_embeddings=config["max_position_embeddings"],
                layers=_read_layers(written),
                fc_norm=bool(config.get("fc_norm", False)),
                rope_fields={name: config[name] for name in _ROPE_FIELDS if config.get(name) is not None},
            )
        except (KeyError, TypeError) as error:
            raise TrainingError(f"this config.json is not of a head trained here ({error!r}).") from error


def _written_layers(layers: tuple[int, ...]) -> list[int]:
    """Readers take a first id of 1 for layer *outputs* (the usual 1, L/2-1, L-4), any other for inputs."""
    return [layer - 1 for layer in layers] if layers[0] == 2 else list(layers)


def _read_layers(written: list[int]) -> tuple[int, ...]:
    outputs = bool(written) and written[0] == 1
    return tuple(layer + 1 if outputs else layer for layer in written)

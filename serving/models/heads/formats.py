"""Reading a head's config.json in the four formats that heads are published in."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from serving.errors import ModelLoadError
from serving.models.architecture import Architecture
from serving.models.heads.config import FeatureNorm, HeadConfig
from serving.models.hf_json import Json, flag, integer, read_json


def read_config(folder: Path, target: Architecture) -> HeadConfig:
    """The checked configuration of the head in `folder`. Raises ModelLoadError, in one sentence.

    Formats: EAGLE-3 as published and by SpecForge or SGLang (`draft_vocab_size`, or named Eagle3),
    speculators (`speculators_model_type`), and EAGLE-1/2 as published (anything else).
    """
    config = read_json(folder / "config.json")
    try:
        head = _read(config, target)
        head.check(target)
    except ModelLoadError as error:
        raise ModelLoadError(f"head {folder}: {error}") from None
    return head


def _read(config: Json, target: Architecture) -> HeadConfig:
    if "speculators_model_type" in config or "transformer_layer_config" in config:
        return _speculators(config, target)
    named = config.get("architectures") or [""]
    if "draft_vocab_size" in config or any("Eagle3" in str(name) for name in named):
        return _eagle3(config, target)
    return _eagle(config, target)


def _eagle3(config: Json, target: Architecture) -> HeadConfig:
    """As published, SpecForge, SGLang. The layer is Llama's whatever the target is."""
    inner = _inner(config, "eagle_config")
    if not flag(inner, "use_aux_hidden_state", True):
        raise ModelLoadError("heads with use_aux_hidden_state false are not supported.")
    if flag(config, "norm_output", False):
        # SpecForge: the norm before lm_head, which every head has; what is fed back is not normed.
        # SGLang and vLLM: what is fed back is normed. A wrong guess would only show as low acceptance.
        raise ModelLoadError(
            "norm_output in this format means different things to SpecForge and to SGLang: remove it from "
            "config.json if the head feeds back its output before the norm, or convert it to the speculators "
            "format if after."
        )
    vocab_size = integer(config, "vocab_size")
    return HeadConfig(
        kind="eagle3",
        layer=_layer(config, "llama"),
        target_hidden_size=integer(config, "target_hidden_size", integer(config, "hidden_size")),
        vocab_size=vocab_size,
        draft_vocab_size=integer(config, "draft_vocab_size", vocab_size),
        feature_layers=_feature_layers({**config, **inner}, target),
        feature_norm=_feature_norm({**config, **inner}),
        norm_before_residual=flag(config, "norm_before_residual", False),
    )


def _speculators(config: Json, target: Architecture) -> HeadConfig:
    """vLLM's speculators: the layer's configuration is nested, `norm_output` feeds back the normed output."""
    kind = config.get("speculators_model_type")
    if kind != "eagle3":
        raise ModelLoadError(f"speculators of type {kind!r} are not supported (supported: eagle3).")
    _check_verifier(_inner(_inner(config, "speculators_config"), "verifier"), target)
    inner = _inner(config, "transformer_layer_config")
    model_type = inner.get("model_type", "llama")
    if model_type not in ("llama", "qwen3"):
        raise ModelLoadError(f"heads with a layer of type {model_type!r} are not supported.")
    vocab_size = integer(inner, "vocab_size")
    return HeadConfig(
        kind="eagle3",
        layer=_layer(inner, model_type),
        target_hidden_size=integer(config, "target_hidden_size", integer(inner, "hidden_size")),
        vocab_size=vocab_size,
        draft_vocab_size=integer(config, "draft_vocab_size", vocab_size),
        feature_layers=_feature_layers(config, target),
        feature_norm=_feature_norm(config),
        norm_before_residual=flag(config, "norm_before_residual", False),
        norm_output=flag(config, "norm_output", False),
    )


def _eagle(config: Json, target: Architecture) -> HeadConfig:
    """EAGLE-1 and EAGLE-2 as published. Only `qkv_bias` puts biases on attention."""
    layer = replace(_layer(config, "llama"), qkv_bias=flag(config, "qkv_bias", False), o_bias=False)
    vocab_size = integer(config, "vocab_size")
    return HeadConfig(
        kind="eagle",
        layer=layer,
        target_hidden_size=layer.hidden_size,
        vocab_size=vocab_size,
        draft_vocab_size=vocab_size,
        feature_layers=(target.num_layers,),
        fc_bias=flag(config, "bias", True),
    )


def _layer(config: Json, model_type: str) -> Architecture:
    layers = integer(config, "num_hidden_layers", 1)
    if layers != 1:
        raise ModelLoadError(f"it has {layers} layers; heads of one layer are supported.")
    whole = config.get("layer_types") == ["full_attention"] or config.get("use_sliding_window") is False
    window = {"sliding_window": None} if whole else {}
    return Architecture.from_hf({**config, **window, "model_type": model_type, "num_hidden_layers": 1})


def _feature_layers(config: Json, target: Architecture) -> tuple[int, ...]:
    """By input. Written as inputs (2, L//2, L-3) or as outputs (1, L//2-1, L-4): a first id of 1 tells."""
    written = config.get("eagle_aux_hidden_state_layer_ids")
    if written is None:
        return (2, target.num_layers // 2, target.num_layers - 3)
    if not isinstance(written, list) or not written or any(type(layer) is not int for layer in written):
        raise ModelLoadError(f"eagle_aux_hidden_state_layer_ids must list layers, not {written!r}.")
    shift = 1 if written[0] == 1 else 0
    return tuple(layer + shift for layer in written)


def _feature_norm(config: Json) -> FeatureNorm:
    each, joint = flag(config, "fc_norm", False), flag(config, "norm_before_fc", False)
    if each and joint:
        raise ModelLoadError("fc_norm and norm_before_fc exclude each other.")
    return "each" if each else "joint" if joint else "none"


def _check_verifier(verifier: Json, target: Architecture) -> None:
    """speculators name the architecture of the model that the head was made for."""
    names = verifier.get("architectures") or []
    families = {str(name).removesuffix("ForCausalLM").lower() for name in names}
    if families and target.model_type not in families:
        raise ModelLoadError(f"it is for another model: a {names[0]}, not of type {target.model_type}.")


def _inner(config: Json, name: str) -> Json:
    inner = config.get(name) or {}
    if not isinstance(inner, Mapping):
        raise ModelLoadError(f"{name} must be a JSON object, not {inner!r}.")
    return inner

"""`python -m serving.models.gguf_conversion SOURCE FOLDER`: a GGUF file as safetensors.

transformers unpacks the blocks and names the tensors. It passes over what it has no name for - rope
scaling, tensors of variants - without a word, so that is read or refused here.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from gguf import GGUFReader, LlamaFileType
from safetensors.torch import save_file
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer, GgufConfig, PreTrainedConfig

from serving.errors import ModelLoadError
from serving.models.architecture import Architecture
from serving.models.rope import RopeConfig, inverse_frequencies

_ROPE_FACTORS = "rope_freqs.weight"
# What Llama 3.1 to 3.3 have in common; GGUF keeps none of it but the resulting factors.
_LLAMA3 = {
    "rope_type": "llama3",
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 8192,
}


def main(source: Path, folder: Path) -> int:
    """Exit status; whatever goes wrong becomes one line on stdout."""
    try:
        convert(source, folder)
    except Exception as error:
        reason = " ".join(str(error).split()) or type(error).__name__
        if not isinstance(error, ModelLoadError):
            reason = f"it is damaged, or of a kind that transformers does not know ({reason})"
        sys.stdout.write(reason)
        return 1
    return 0


def convert(source: Path, folder: Path) -> None:
    """Write configuration, safetensors and tokenizer to `folder`."""
    reader = GGUFReader(source)
    with _alone(source) as place:
        config = AutoConfig.from_pretrained(place, gguf_file=source.name)
        _add_rope_scaling(config, reader)
        Architecture.from_hf(config.to_dict())  # refuse before the work, not after
        tokenizer = AutoTokenizer.from_pretrained(place, gguf_file=source.name)
        loaded: Any = AutoModelForCausalLM.from_pretrained(
            place,
            config=config,
            gguf_file=source.name,
            dtype=_dtype(reader),
            quantization_config=GgufConfig(dequantize=True),
            output_loading_info=True,
        )
    model, info = loaded
    state = model.state_dict()
    if model.config.tie_word_embeddings:
        del state["lm_head.weight"]
    _check_complete(state, info["missing_keys"], reader)
    save_file(state, folder / "model.safetensors", metadata={"format": "pt"})
    (folder / "model.safetensors").chmod(0o644)  # safetensors writes 0600, but a cache may be shared
    model.config.architectures = [type(model).__name__]
    model.config.save_pretrained(folder)
    model.generation_config.save_pretrained(folder)
    tokenizer.save_pretrained(folder)


@contextmanager
def _alone(source: Path) -> Iterator[str]:
    """A folder with this file only: transformers prefers a config.json or tokenizer.json found beside it."""
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / source.name).symlink_to(source)
        yield folder


def _dtype(reader: GGUFReader) -> torch.dtype:
    """bfloat16 unless the file holds plain float32 or float16.

    Its relative rounding error, 2^-9, is below the steps of the block formats (Q8_0: 2^-8 of a block's
    largest weight, Q4: 2^-4): nothing that quantisation left is lost.
    """
    plain = {LlamaFileType.ALL_F32: torch.float32, LlamaFileType.MOSTLY_F16: torch.float16}
    return plain.get(_field(reader, "general.file_type"), torch.bfloat16)


def _check_complete(state: dict[str, torch.Tensor], missing: set[str], reader: GGUFReader) -> None:
    """Every tensor of the model comes from the file, and every tensor of the file is in the model."""
    if missing:
        raise ModelLoadError(f"it lacks {min(missing)}")
    count = sum(tensor.name != _ROPE_FACTORS for tensor in reader.tensors)
    if count != len(state):
        raise ModelLoadError(
            f"of its {count} tensors only {len(state)} are known: it is of an unsupported variant"
        )


def _add_rope_scaling(config: PreTrainedConfig, reader: GGUFReader) -> None:
    prefix = f"{_field(reader, 'general.architecture')}.rope.scaling."
    found = {
        name.removeprefix(prefix): _field(reader, name) for name in reader.fields if name.startswith(prefix)
    }
    factors = next((tensor.data for tensor in reader.tensors if tensor.name == _ROPE_FACTORS), None)
    if factors is not None:
        config.rope_parameters |= _llama3(torch.from_numpy(factors.copy()), config)
    elif found.get("type", "none") != "none":
        config.rope_parameters |= _scaling(found)


def _scaling(found: dict[str, Any]) -> dict[str, Any]:
    """Hugging Face's names for the scaling that a file's metadata describe."""
    found.pop("finetuned", None)  # says whether the model was trained with it, which changes nothing here
    names = {
        "type": "rope_type",
        "factor": "factor",
        "original_context_length": "original_max_position_embeddings",
    }
    if unknown := found.keys() - names.keys():
        raise ModelLoadError(f"its rope.scaling.{min(unknown)} is not supported")
    if found["type"] not in ("linear", "yarn"):
        raise ModelLoadError(f"rope scaling {found['type']!r} is not supported in GGUF files")
    return {names[name]: value for name, value in found.items()}


def _llama3(factors: torch.Tensor, config: PreTrainedConfig) -> dict[str, Any]:
    """The parameters whose frequencies are the plain ones divided by `factors` [head_dim // 2]."""
    scaling = _LLAMA3 | {"factor": float(factors.max())}
    plain = Architecture.from_hf(config.to_dict())
    scaled = RopeConfig.from_hf(config.to_dict() | {"rope_parameters": config.rope_parameters | scaling})
    fast, slow = (
        inverse_frequencies(rope, plain.head_dim, plain.max_position_embeddings).inverse
        for rope in (plain.rope, scaled)
    )
    if not torch.allclose(fast / slow, factors, rtol=1e-3):
        raise ModelLoadError(f"its {_ROPE_FACTORS} follows none of the known kinds of rope scaling")
    return scaling


def _field(reader: GGUFReader, name: str) -> Any:
    field = reader.get_field(name)
    return field.contents() if field else None


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), Path(sys.argv[2])))

"""What a router must know of a model: tokenizer, chat template, special tokens, identity."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Collection
from pathlib import Path
from typing import NamedTuple

from tokenizers import Tokenizer

from serving.errors import ModelLoadError
from serving.models.architecture import Architecture
from serving.models.generation_config import read_sampling_defaults
from serving.models.hf_json import Json, read_json
from serving.models.weights import INDEX
from serving.types import ModelCard

_SAMPLES_PER_FILE = 64
_SAMPLE_BYTES = 4096


class TokenizerFiles(NamedTuple):
    """tokenizer_json is the file's content; the rest is None where the model has none."""

    tokenizer_json: bytes
    chat_template: str | None
    bos_token: str | None
    eos_token: str | None


def read_card(
    folder: Path,
    name: str,
    architecture: Architecture,
    max_model_len: int,
    dtype: str,
    tensor_parallel_size: int = 1,
) -> ModelCard:
    """The card of the model in `folder`. Raises ModelLoadError naming the file that is missing or wrong."""
    # Ranks add in an order of their own: another number of them may round otherwise.
    arithmetic = dtype if tensor_parallel_size == 1 else f"{dtype}/{tensor_parallel_size}"
    files = read_tokenizer(folder)
    return ModelCard(
        name=name,
        fingerprint=fingerprint(folder, arithmetic),
        max_model_len=max_model_len,
        vocab_size=architecture.vocab_size,
        eos_token_ids=architecture.eos_token_ids,
        tokenizer_json=files.tokenizer_json,
        chat_template=files.chat_template,
        bos_token=files.bos_token,
        eos_token=files.eos_token,
        created=int(time.time()),
        sampling=read_sampling_defaults(folder),
    )


def read_tokenizer(folder: Path) -> TokenizerFiles:
    """Raises ModelLoadError naming the file that is missing or wrong."""
    path = folder / "tokenizer_config.json"
    config = read_json(path) if path.exists() else {}
    return TokenizerFiles(
        _tokenizer_json(folder / "tokenizer.json"),
        _chat_template(folder / "chat_template.jinja", config),
        _token(config, "bos_token"),
        _token(config, "eos_token"),
    )


def fingerprint(folder: Path, dtype: str, weight_files: Collection[str] | None = None) -> str:
    """16 hexadecimal digits: equal where replicas may continue each other's requests.

    weight_files: names of those that count, beside the index; None: all.
    Covers configuration and tokenizer whole, and of each weight file the size and 64 evenly spaced samples
    of 4 KiB (its header first): hashing tens of gigabytes would delay every start, and another training run
    moves every tensor.
    """
    digest = hashlib.sha256(dtype.encode())
    described = ("config.json", "tokenizer.json") + ((INDEX,) if weight_files is not None else ())
    for file in (folder / name for name in described):
        digest.update(file.read_bytes() if file.exists() else b"")
    for file in sorted([*folder.glob("*.safetensors"), *folder.glob("*.bin")]):
        if weight_files is not None and file.name not in weight_files:
            continue
        size = file.stat().st_size
        digest.update(f"{file.name}/{size}".encode())
        with file.open("rb") as content:
            for sample in range(_SAMPLES_PER_FILE):
                content.seek(size * sample // _SAMPLES_PER_FILE)
                digest.update(content.read(_SAMPLE_BYTES))
    return digest.hexdigest()[:16]


def _tokenizer_json(path: Path) -> bytes:
    if not path.exists():
        raise ModelLoadError(f"{path} is missing: a fast tokenizer is needed (save one with transformers).")
    content = path.read_bytes()
    try:
        Tokenizer.from_buffer(content)
    except Exception as error:  # tokenizers raises bare Exception
        raise ModelLoadError(f"{path} is not a valid tokenizer: {error}.") from error
    return content


def _chat_template(path: Path, config: Json) -> str | None:
    """chat_template.jinja, else tokenizer_config.json's: a string, or named templates with a `default`."""
    if path.exists():
        try:
            return path.read_text(encoding="utf-8")
        except UnicodeDecodeError as error:
            raise ModelLoadError(f"{path} is not UTF-8 text.") from error
    template = config.get("chat_template")
    if isinstance(template, list):
        named = {entry.get("name"): entry.get("template") for entry in template if isinstance(entry, dict)}
        template = named.get("default")
    if template is not None and not isinstance(template, str):
        raise ModelLoadError("tokenizer_config.json's chat_template must be text or named templates.")
    return template


def _token(config: Json, name: str) -> str | None:
    """Written as text, or as an object with its `content`."""
    value = config.get(name)
    if isinstance(value, dict):
        value = value.get("content")
    if value is not None and not isinstance(value, str):
        raise ModelLoadError(f"tokenizer_config.json's {name} must be text, not {value!r}.")
    return value

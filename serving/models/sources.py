"""From the `model` setting to a local folder."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from serving.config import DEFAULT
from serving.errors import ModelLoadError
from serving.models.folder import HEAD_FILES, check_folder

# Trained for the default model by `make head`.
DEFAULT_HEAD = Path(__file__).parent / "heads" / "default"


def resolve(model: str, cache_dir: Path, tensors: Collection[str] | None = None) -> Path:
    """A checked local folder with the model's configuration, safetensors and tokenizer.

    `model` is `default`, a folder, a .gguf file, `s3://bucket/prefix` or a Hugging Face id; an existing path
    wins over an id. Downloads and conversions are kept in `cache_dir`, hub models in the hub's own cache.
    tensors: of the safetensors, only files with one of these are downloaded; None: all.
    Raises ModelLoadError, in one sentence.
    """
    folder = _locate(model, cache_dir, tensors)
    check_folder(folder, tensors)
    return folder


def resolve_head(head: str, cache_dir: Path) -> Path:
    """A local folder with the configuration and the weights of a draft head, neither of them read yet.

    `head` is `default`, a folder, `s3://bucket/prefix` or a Hugging Face id. Raises ModelLoadError, in one
    sentence.
    """
    if head == DEFAULT:
        return DEFAULT_HEAD
    path = Path(head).expanduser()
    if head.startswith("s3://"):
        from serving.models import s3

        return s3.fetched(head, cache_dir, HEAD_FILES)
    if path.is_dir():
        return path
    from serving.models import hub

    if path.exists() or not hub.is_hub_id(head):
        raise ModelLoadError(
            f"head {head!r} is not found: it must be `default`, a folder, s3://bucket/prefix or a Hugging "
            "Face id (owner/name)."
        )
    return hub.snapshot(head, HEAD_FILES)


def _locate(model: str, cache_dir: Path, tensors: Collection[str] | None) -> Path:
    # Each client is imported only where it is used: a start that needs none should not wait for them.
    path = Path(model).expanduser()
    if model == DEFAULT:
        from serving.models.default_model import default_model

        return default_model(cache_dir)
    if model.startswith("s3://"):
        from serving.models import s3

        return s3.fetched(model, cache_dir, tensors=tensors)
    if path.suffix == ".gguf":
        from serving.models import gguf

        return gguf.converted(path, cache_dir)
    if path.is_dir():
        return path
    return _from_hub(model, path, tensors)


def _from_hub(model: str, path: Path, tensors: Collection[str] | None) -> Path:
    from serving.models import hub

    if path.exists():
        raise ModelLoadError(f"{model} is a file, but neither a folder nor a .gguf file.")
    if not hub.is_hub_id(model):
        raise ModelLoadError(
            f"model {model!r} is not found: it must be `default`, a folder, a .gguf file, s3://bucket/prefix "
            "or a Hugging Face id (owner/name)."
        )
    return hub.snapshot(model, tensors=tensors)

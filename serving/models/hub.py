"""Models by Hugging Face id."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from pathlib import Path

from huggingface_hub import hf_hub_download, snapshot_download
from huggingface_hub.errors import (
    EntryNotFoundError,
    GatedRepoError,
    IncompleteSnapshotError,
    LocalEntryNotFoundError,
    RepositoryNotFoundError,
)

from serving.errors import ModelLoadError
from serving.models.folder import MODEL_FILES
from serving.models.hf_json import Json
from serving.models.weights import INDEX, files_with, read_weight_map

_HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*/[\w.-]+")


def is_hub_id(model: str) -> bool:
    """Whether this can be `owner/name`."""
    return _HUB_ID.fullmatch(model) is not None


def snapshot(model: str, files: Sequence[str] = MODEL_FILES, tensors: Collection[str] | None = None) -> Path:
    """The folder with a model's matching files, in the hub's own cache that other tools share (HF_HOME).

    tensors: of the safetensors only those with one of these are fetched; None: all.
    HF_HUB_OFFLINE, HF_ENDPOINT and HF_TOKEN mean what they always do. Raises ModelLoadError.
    """
    try:
        patterns = list(files)
        if tensors is not None:
            patterns = [name for name in files if not name.endswith(".safetensors")]
            patterns += files_with(_weight_map(model), tensors)
        return Path(snapshot_download(model, allow_patterns=patterns))
    except ModelLoadError:
        raise
    except Exception as error:  # the client also lets errors of its HTTP library through
        raise ModelLoadError(_sentence(model, error)) from error


def _weight_map(model: str) -> Json | None:
    """None where the model has no index, or none can be had: what is fetched next says so."""
    try:
        return read_weight_map(Path(hf_hub_download(model, INDEX)).parent)
    except EntryNotFoundError:
        return None


def _sentence(model: str, error: Exception) -> str:
    match error:
        case GatedRepoError():
            return f"{model} is gated on the hub: accept its terms there and set HF_TOKEN."
        case RepositoryNotFoundError():
            return f"{model} is neither a local path nor a model on the hub (a private one needs HF_TOKEN)."
        case IncompleteSnapshotError():
            return f"{model} is only partly in the local cache, and the hub is offline or cannot be reached."
        case LocalEntryNotFoundError():
            return f"{model} is not in the local cache, and the hub is offline or cannot be reached."
        case _:
            reason = str(error).strip().partition("\n")[0].rstrip(".")
            return f"{model} cannot be fetched from the hub: {reason or type(error).__name__}."

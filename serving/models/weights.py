"""Lazy access to the safetensors of a model folder."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open

from serving.errors import ModelLoadError
from serving.models.hf_json import Json, read_json

SINGLE = "model.safetensors"
INDEX = "model.safetensors.index.json"


@dataclass(frozen=True, slots=True)
class Weights:
    """Tensors by their Hugging Face name, memory-mapped: reading one touches that tensor's pages only.

    Opening checks every shard's header against its size and the index, so that a truncated file or
    a missing tensor fails the start and not a request.
    """

    folder: Path
    _readers: dict[str, Any]  # tensor name -> the open shard that holds it
    _files: dict[str, Path]  # tensor name -> that shard's path, for errors

    @classmethod
    def open(cls, folder: Path, tensors: Collection[str] | None = None) -> Weights:
        """tensors: only the files that hold one of these need be there; None: all.

        Raises ModelLoadError naming the file that is missing, truncated or corrupt.
        """
        readers: dict[str, Any] = {}
        files: dict[str, Path] = {}
        for file, expected in _shards(folder, tensors).items():
            reader, found = _open_shard(file)
            if absent := expected - found:
                raise ModelLoadError(f"{file} lacks {min(absent)}, which {INDEX} places there.")
            for name in expected or found:
                readers[name], files[name] = reader, file
        return cls(folder, readers, files)

    @property
    def names(self) -> frozenset[str]:
        return frozenset(self._readers)

    def __contains__(self, name: str) -> bool:
        return name in self._readers

    def get(self, name: str) -> torch.Tensor:
        """The tensor as stored. It shares the file's pages (copy on write): clone what must outlive them."""
        reader = self._reader(name)
        with _reading(self._files[name]):
            tensor: torch.Tensor = reader.get_tensor(name)
            return tensor

    def shape(self, name: str) -> tuple[int, ...]:
        """Without reading the tensor."""
        reader = self._reader(name)
        with _reading(self._files[name]):
            return tuple(reader.get_slice(name).get_shape())

    def slice(self, name: str, dim: int, start: int, stop: int) -> torch.Tensor:
        """Elements start .. stop - 1 along `dim`, reading nothing else: one rank's share of a tensor.

        It shares the file's pages, as `get` does.
        """
        reader = self._reader(name)
        with _reading(self._files[name]):
            view = reader.get_slice(name)
            assert 0 <= start <= stop <= view.get_shape()[dim]
            part: torch.Tensor = view[(slice(None),) * dim + (slice(start, stop),)]
            return part

    def _reader(self, name: str) -> Any:
        if name not in self._readers:
            raise ModelLoadError(f"{self.folder} has no tensor {name}, which its config.json asks for.")
        return self._readers[name]


def files_with(weight_map: Json | None, tensors: Collection[str]) -> set[str]:
    """The names of the weight files that hold these, as far as the model has them.

    weight_map: the index's, tensor -> file; None: there is no index, and one file.
    """
    if weight_map is None:
        return {SINGLE} if tensors else set()
    return {weight_map[name] for name in tensors if name in weight_map}


def weight_map_of(index: Json, path: object) -> Json:
    """tensor -> file, as the index at `path` says. Raises ModelLoadError."""
    weight_map = index.get("weight_map")
    if not isinstance(weight_map, dict) or not weight_map:
        raise ModelLoadError(f"{path} has no weight_map.")
    for file in weight_map.values():
        if not isinstance(file, str) or Path(file).name != file:
            raise ModelLoadError(f"{path} names a shard that is not a file beside it: {file!r}.")
    return weight_map


def read_weight_map(folder: Path) -> Json | None:
    """None where the folder has no index. Raises ModelLoadError."""
    path = folder / INDEX
    return weight_map_of(read_json(path), path) if path.exists() else None


def _shards(folder: Path, tensors: Collection[str] | None) -> dict[Path, set[str]]:
    """Each wanted weight file with the tensors that the index expects in it (empty: whatever it holds)."""
    weight_map = read_weight_map(folder)
    if weight_map is not None:
        shards = _indexed(folder, weight_map)
        wanted = shards.keys() if tensors is None else {folder / f for f in files_with(weight_map, tensors)}
        return {file: expected for file, expected in shards.items() if file in wanted}
    if tensors is not None and not tensors:
        return {}
    if (folder / SINGLE).exists():
        return {folder / SINGLE: set()}
    if any(folder.glob("*.bin")) or any(folder.glob("*.pth")):
        raise ModelLoadError(f"{folder} has weights in pickle files only; convert them to safetensors.")
    raise ModelLoadError(f"{folder} has neither {SINGLE} nor {INDEX}.")


def _indexed(folder: Path, weight_map: Json) -> dict[Path, set[str]]:
    shards: dict[Path, set[str]] = {}
    for name, file in weight_map.items():
        shards.setdefault(folder / file, set()).add(name)
    return shards


def _open_shard(file: Path) -> tuple[Any, set[str]]:
    with _reading(file):
        reader: Any = safe_open(file, framework="pt")
        return reader, set(reader.keys())


@contextmanager
def _reading(file: Path) -> Iterator[None]:
    try:
        yield
    except FileNotFoundError:
        raise ModelLoadError(f"{file} is missing.") from None
    except (SafetensorError, OSError, ValueError) as error:
        raise ModelLoadError(f"{file} is truncated or corrupt ({error}); fetch it again.") from error

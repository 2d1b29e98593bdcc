"""The state of an interrupted run: everything that the next step depends on."""

from __future__ import annotations

import os
import pickle
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from training.errors import TrainingError

NAME = "checkpoint.pt"


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """After `step` steps. Random numbers are drawn from (seed, step), so no generator has a state to keep.

    config: the head's config.json. vocabulary: int64 [draft], what it proposes from.
    """

    step: int
    head: dict[str, Tensor]
    optimizers: list[dict[str, Any]]
    config: dict[str, Any]
    vocabulary: Tensor

    def save(self, folder: Path) -> None:
        """Written beside the old one, then renamed over it: a run that dies here can still resume."""
        state = {field.name: getattr(self, field.name) for field in fields(self)}
        temporary = folder / f"{NAME}.tmp"
        try:
            with temporary.open("wb") as file:
                torch.save(state, file)
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(folder / NAME)
        except OSError as error:
            raise TrainingError(
                f"cannot write the checkpoint to {folder}: {error.strerror or error}."
            ) from error

    @classmethod
    def load(cls, folder: Path) -> Checkpoint:
        """Raises TrainingError when it is damaged."""
        path = folder / NAME
        try:
            return cls(**torch.load(path, map_location="cpu", weights_only=True))
        except (OSError, RuntimeError, TypeError, EOFError, pickle.UnpicklingError) as error:
            raise TrainingError(f"{path} is damaged ({error}).") from error

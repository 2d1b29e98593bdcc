"""A tiny target."""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path

import pytest
from tiny_models import save_tiny, tiny_model

from training.options import serve_config
from training.target import Target, TargetFolder


@pytest.fixture(scope="session")
def target_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    model = tiny_model(num_hidden_layers=5, eos_token_id=0)
    return save_tiny(tmp_path_factory.mktemp("training") / "target", model)


@pytest.fixture(scope="session")
def options(target_path: Path) -> Namespace:
    return Namespace(model=str(target_path), threads=1, device="cpu", target_dtype="float32")


@pytest.fixture(scope="session")
def target_folder(options: Namespace) -> TargetFolder:
    return TargetFolder.open(serve_config(options))


@pytest.fixture(scope="session")
def target(options: Namespace, target_folder: TargetFolder) -> Target:
    return Target(serve_config(options), target_folder, max_length=64)

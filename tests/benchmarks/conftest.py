"""Draft heads for whole runs of benchmarks on the tiny model, and commands that end before a run."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from tiny_heads import TinyHead, save_head

from benchmarks.__main__ import main


class Ended(NamedTuple):
    status: int
    out: str
    err: str


@pytest.fixture(autouse=True)
def _small_caches(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of every engine that a benchmark starts: the default's 512 MiB take a second to be zero."""
    monkeypatch.setenv("CANOPY_ENGINE_KV_CACHE_MEMORY", "16MiB")


@pytest.fixture
def run_here(capsys: pytest.CaptureFixture[str]) -> Iterator[Callable[..., Ended]]:
    """A benchmark in this process, which has loaded torch: one that does not mind, or ends before."""
    import torch

    threads = torch.get_num_threads()

    def run(*arguments: str | Path) -> Ended:
        capsys.readouterr()
        try:
            status = main([str(argument) for argument in arguments])
        except SystemExit as end:  # argparse's
            status = int(end.code or 0)
        return Ended(status, *capsys.readouterr())

    yield run
    torch.set_num_threads(threads)


def vocab_size(tiny_model: Path) -> int:
    size: int = json.loads((tiny_model / "config.json").read_text())["vocab_size"]
    return size


@pytest.fixture(scope="session")
def tiny_head(tiny_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A random EAGLE-3 head as wide as the tiny model."""
    head = TinyHead(vocab_size=vocab_size(tiny_model))
    return save_head(head, tmp_path_factory.mktemp("heads") / "tiny", "specforge")


@pytest.fixture(scope="session")
def tiny_eagle1_head(tiny_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A random EAGLE-1 head as wide as the tiny model."""
    head = TinyHead(kind="eagle", vocab_size=vocab_size(tiny_model))
    return save_head(head, tmp_path_factory.mktemp("heads") / "tiny-eagle1", "published")

"""Ray Train's workers, against one process."""

from __future__ import annotations

import csv
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from texts import greedy

from training.target import Target

# Most of a minute: a cluster of its own comes up and goes, and three processes load torch.
pytestmark = [pytest.mark.ray, pytest.mark.slow]


def curve(out: Path) -> list[list[float]]:
    """Loss, acceptance by step and tokens, step by step."""
    with (out / "log.csv").open(newline="") as file:
        return [[float(row[name]) for name in list(row)[1:5]] for row in csv.DictReader(file)]


def test_two_workers_learn_as_one_with_the_double_batch(
    tmp_path: Path, target_path: Path, target: Target
) -> None:
    """On a cluster of their own: beside other tests' services, a shared one has no CPU left for workers."""
    data = tmp_path / "text.jsonl"
    data.write_text("".join(greedy(target, seed).to_json() + "\n" for seed in range(11)))
    common = "train --layers 2 3 4 --dtype float32 --target-dtype float32 --threads 1 --draft-vocab-size 64 "
    common += "--epochs 2 --ttt-steps 2 --lr 0.01 --held-out 0 --cpus-per-worker 0.5"

    def run(name: str, *more: str) -> Path:
        where = ["--model", str(target_path), "--data", str(data), "--out", str(tmp_path / name)]
        command = [sys.executable, "-m", "training", *common.split(), *where, *more]
        done = subprocess.run(
            command, capture_output=True, text=True, env={**os.environ, "RAY_ADDRESS": "local"}
        )
        assert done.returncode == 0, done.stderr
        return tmp_path / name

    one = run("one", "--batch-tokens", "52")
    # Steps of four, four and three conversations: the last is not shared evenly.
    two = run("two", "--batch-tokens", "26", "--workers", "2")
    assert len(curve(one)) == 6
    assert torch.allclose(torch.tensor(curve(one)), torch.tensor(curve(two)), atol=2e-3)
    heads = [load_file(out / "head" / "model.safetensors") for out in (one, two)]
    for name, tensor in heads[0].items():
        torch.testing.assert_close(tensor.float(), heads[1][name].float(), rtol=0.05, atol=0.01)

"""What training measures is what serving does: the drafter's own drafts, token by token."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from texts import LAYERS, greedy
from torch import Tensor

from serving.config import ServeConfig
from serving.drafting.messages import Extend, Open, Propose, SeqKey
from serving.engine.build_drafter import build_network_drafter
from serving.engine.head import HeadFiles
from serving.engine.placement import choose_placement
from serving.models.heads.fusion import Eagle3Fusion, LastFeature
from serving.models.weights import Weights
from training import __main__ as program
from training.acceptance import Judge
from training.batch import Example, pack
from training.data import Conversation
from training.export import TrainedHead
from training.objective import Borrowed
from training.target import Target, TargetFolder

STEPS = 3
KEY = SeqKey("verifier", 0)
TEXTS = range(100, 106)


def serve_config(model: Path, head: Path, method: str) -> ServeConfig:
    speculation = {"method": method, "head": str(head), "beam": 1, "max_depth": STEPS, "min_level_reach": 0.0}
    engine = {"num_threads": 1, "kv_cache_memory": "1MiB"}
    return ServeConfig.model_validate(
        {"model": str(model), "dtype": "float32", "engine": engine, "speculation": speculation}
    )


def fused(files: HeadFiles, config: ServeConfig, streams: Tensor) -> NDArray[np.float32]:
    """As the verifier sends them."""
    placement = choose_placement(config, files.target)
    if files.config.kind == "eagle3":
        ops = placement.linear_ops(files.config.layer.rms_norm_eps)
        fusion = Eagle3Fusion.load(files.config, files.weights(placement), ops)
        return fusion.fuse(streams[:, :-1].contiguous()).numpy()
    norm = Weights.open(files.target_folder).get("model.norm.weight")
    last = LastFeature((files.target.num_layers,), norm, files.target.rms_norm_eps)
    return last.fuse(streams[:, -1:]).numpy()


def drafted(config: ServeConfig, model: Path, text: Conversation, streams: Tensor) -> list[list[int]]:
    """The drafter's chain after each committed token of the answer but the last."""
    files = HeadFiles.find(config, model)
    drafter, features = build_network_drafter(config), fused(files, config, streams.float())
    drafter.open(Open(KEY, files.fingerprint, seed=0, choice_index=0, temperature=0.0))
    chains, start, tokens = [], 0, text.token_ids
    for base_len in range(text.prompt_len + 1, len(tokens)):
        first = int(tokens[0]) if start == 0 else None
        held = features[start : base_len - 1]
        extend = Extend(KEY, start, base_len, tokens[start + 1 : base_len], first, held)
        proposal = drafter.propose(Propose((extend,), (STEPS,), (STEPS,)))
        chains.append(proposal.trees[0].token_ids.tolist())
        start = base_len - 1
    return chains


def accepted(chain: list[int], following: list[int]) -> int:
    agreed = np.array(chain[: len(following)]) == np.array(following[: len(chain)])
    return int(np.cumprod(agreed).sum())


@pytest.mark.parametrize(("method", "served"), [("eagle3", "eagle3"), ("hass", "eagle")])
def test_drafter_accepts_what_training_measured(
    tmp_path: Path,
    target_path: Path,
    target: Target,
    target_folder: TargetFolder,
    monkeypatch: pytest.MonkeyPatch,
    method: str,
    served: str,
) -> None:
    data, run = tmp_path / "text.jsonl", tmp_path / "run"
    texts = [greedy(target, seed, response=12) for seed in TEXTS]
    data.write_text("".join(text.to_json() + "\n" for text in texts))
    words = "train --layers 2 3 4 --dtype float32 --target-dtype float32 --threads 1 --draft-vocab-size 64 "
    words += "--epochs 120 --batch-tokens 100 --ttt-steps 2 --lr 0.01 --muon-lr 0.05 --clip 5 --held-out 0"
    where = ["--method", method, "--model", str(target_path), "--data", str(data), "--out", str(run)]
    monkeypatch.setattr("sys.argv", ["training", *words.split(), *where])
    assert program.main() == 0

    head = TrainedHead.load(run / "head", target_folder.final_norm(), 64)
    borrowed = Borrowed.load(target_folder, head.vocabulary, torch.float32, torch.device("cpu"))
    judge = Judge.of(head.head, borrowed, head.vocabulary)
    config, total = serve_config(target_path, run / "head", served), 0
    for text in texts:
        captured = target.capture(text, LAYERS)
        right = judge.guesses(pack([Example(text, captured)], STEPS)).right
        measured = right.cumprod(0).sum(0).tolist()
        chains = drafted(config, target_path, text, captured.streams)
        answer = text.token_ids.tolist()[text.prompt_len :]
        ours = [accepted(chain, answer[1 + i :]) for i, chain in enumerate(chains)]
        assert ours == measured
        total += sum(measured)
    assert total > 20

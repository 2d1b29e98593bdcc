"""Whole runs from the command line: they learn, resume exactly, and refuse what does not fit."""

from __future__ import annotations

import csv
import json
import signal
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from texts import greedy

from training import __main__ as program
from training.checkpoint import NAME as CHECKPOINT
from training.progress import Progress, StepReport
from training.target import Target

SMALL = [
    *("--layers", "2", "3", "4", "--dtype", "float32", "--target-dtype", "float32", "--threads", "1"),
    *("--draft-vocab-size", "64", "--batch-tokens", "60", "--micro-tokens", "30", "--ttt-steps", "2"),
    *("--epochs", "2", "--held-out", "0.1", "--split-seed", "2"),
]


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory, target: Target) -> Path:
    path = tmp_path_factory.mktemp("data") / "text.jsonl"
    path.write_text("".join(greedy(target, seed).to_json() + "\n" for seed in range(24)))
    return path


def command(monkeypatch: pytest.MonkeyPatch, target: Path, data: Path, out: Path, *more: str) -> int:
    words = ["train", "--model", str(target), "--data", str(data), "--out", str(out), *SMALL, *more]
    monkeypatch.setattr("sys.argv", ["training", *words])
    return program.main()


def interrupt_after(monkeypatch: pytest.MonkeyPatch, steps: int) -> None:
    """As Ctrl-C would, while that step is being reported."""
    report = Progress.report

    def reporting(self: Progress, step: StepReport) -> None:
        report(self, step)
        if step.step + 1 == steps:
            signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(Progress, "report", reporting)


def log(out: Path) -> list[list[str]]:
    """Without the measured rate."""
    with (out / "log.csv").open(newline="") as file:
        return [[v for k, v in row.items() if k != "tokens_per_s"] for row in csv.DictReader(file)]


@pytest.mark.parametrize("more", [(), ("--deep-share", "0.5")], ids=["whole", "half-deep"])
def test_interrupted_run_resumes_to_the_same_weights(
    tmp_path: Path, target_path: Path, data: Path, monkeypatch: pytest.MonkeyPatch, more: tuple[str, ...]
) -> None:
    whole, cut = tmp_path / "whole", tmp_path / "cut"
    assert command(monkeypatch, target_path, data, whole, *more) == 0
    with monkeypatch.context() as patch:
        interrupt_after(patch, 3)
        assert command(patch, target_path, data, cut, *more) == 0
    assert not (cut / "head").exists()
    assert len(log(cut)) == 3
    assert command(monkeypatch, target_path, data, cut, "--resume", *more) == 0

    assert same_heads(whole, cut)
    assert log(cut) == log(whole)


def test_drafts_of_one_step_train_what_a_run_without_training_time_test_does(
    tmp_path: Path, target_path: Path, data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shallow, one = tmp_path / "shallow", tmp_path / "one"
    assert command(monkeypatch, target_path, data, shallow, "--deep-share", "0") == 0
    assert command(monkeypatch, target_path, data, one, "--ttt-steps", "1") == 0
    assert same_heads(shallow, one)


def same_heads(*runs: Path) -> bool:
    heads = [load_file(out / "head" / "model.safetensors") for out in runs]
    assert heads[0].keys() == heads[1].keys()
    return all(torch.equal(heads[0][name], heads[1][name]) for name in heads[0])


def test_training_learns(
    tmp_path: Path, target_path: Path, data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert command(monkeypatch, target_path, data, tmp_path, "--epochs", "12", "--lr", "0.01") == 0
    losses = [float(row[1]) for row in log(tmp_path)]
    assert sum(losses[-5:]) < 0.8 * sum(losses[:5])


def test_runs_that_do_not_fit_together(
    tmp_path: Path,
    target_path: Path,
    data: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def error(*more: str) -> str:
        assert command(monkeypatch, target_path, data, tmp_path, *more) == 1
        return capsys.readouterr().err

    assert "no checkpoint to resume from" in error("--resume")
    assert "--no-fusion is an ablation of eagle3" in error("--method", "hass", "--no-fusion")
    with monkeypatch.context() as patch:
        interrupt_after(patch, 1)
        assert command(patch, target_path, data, tmp_path) == 0
    assert "already holds a run" in error()
    assert "lr was 0.0006, not 0.1" in error("--resume", "--lr", "0.1")
    checkpoint = tmp_path / CHECKPOINT
    checkpoint.write_bytes(checkpoint.read_bytes()[:1000])
    assert "is damaged" in error("--resume")


@pytest.mark.parametrize("method", ["eagle1", "hass", "no-fusion"])
def test_other_methods_train_export_and_evaluate(
    tmp_path: Path, target_path: Path, data: Path, monkeypatch: pytest.MonkeyPatch, method: str
) -> None:
    run, head, out = tmp_path / "run", tmp_path / "exported", tmp_path / "out"
    flags = ["--no-fusion"] if method == "no-fusion" else ["--method", method]
    steps = "1" if method == "eagle1" else "2"
    learn = ["--epochs", "16", "--lr", "0.01", "--muon-lr", "0.05", "--clip", "5", "--ttt-steps", steps]
    assert command(monkeypatch, target_path, data, run, *flags, *learn) == 0
    losses = [float(row[1]) for row in log(run)]
    assert sum(losses[-5:]) < 0.9 * sum(losses[:5])

    assert main(monkeypatch, "export", "--run", run, "--out", head) == 0
    exported, final = (load_file(folder / "model.safetensors") for folder in (head, run / "head"))
    assert exported.keys() == final.keys()
    assert all(torch.equal(exported[name], final[name]) for name in exported)

    where = ["--model", target_path, "--data", data, "--layers", "2", "3", "4", "--threads", "1"]
    judged = ["--head", head, run / "head", "--out", out, "--all", "--steps", "3"]
    assert main(monkeypatch, "evaluate", *where, *judged, "--target-dtype", "float32") == 0
    report = json.loads((out / "evaluation.json").read_text())
    assert list(report) == ["exported", "run"]
    assert report["exported"] == report["run"]
    assert report["run"]["acceptance"][0] > 0.1  # of text that it was trained on
    assert report["run"]["positions"] == 24 * 8
    assert (out / "acceptance.png").stat().st_size > 1000
    assert (out / "calibration.png").stat().st_size > 1000


def main(monkeypatch: pytest.MonkeyPatch, *words: str | Path) -> int:
    monkeypatch.setattr("sys.argv", ["training", *map(str, words)])
    return program.main()


def test_broken_features_stop_the_run_before_they_reach_a_checkpoint(
    tmp_path: Path,
    target_path: Path,
    data: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    features = tmp_path / "features"
    words = ["--model", target_path, "--target-dtype", "float32", "--threads", "1", "--layers", "2", "3", "4"]
    assert main(monkeypatch, "capture", "--data", data, "--out", features, *words) == 0
    streams = features / "streams.bin"
    streams.write_bytes(b"\xff" * streams.stat().st_size)  # NaN everywhere
    settings = ["--out", tmp_path / "run", "--features", features, "--dtype", "float32", "--held-out", "0"]
    assert main(monkeypatch, "train", *settings, *words[:-4]) == 1
    assert "the loss of step 0 is not finite" in capsys.readouterr().err
    assert not (tmp_path / "run" / CHECKPOINT).exists()

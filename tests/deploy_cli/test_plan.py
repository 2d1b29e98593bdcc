"""`plan`: arithmetic that can be checked by hand, and directions in which it must go."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from aws_server import CommandLine

from deploy.planning.shape import read_shape

LLAMA_8B = {
    "model_type": "llama",
    "hidden_size": 4096,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "intermediate_size": 14336,
    "vocab_size": 128256,
    "max_position_embeddings": 131072,
    "rms_norm_eps": 1e-5,
    "rope_theta": 500000.0,
}
LLAMA_70B = LLAMA_8B | {
    "hidden_size": 8192,
    "num_hidden_layers": 80,
    "num_attention_heads": 64,
    "intermediate_size": 28672,
}


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return write(tmp_path, LLAMA_8B)


def write(folder: Path, config: dict[str, Any]) -> Path:
    (folder / "config.json").write_text(json.dumps(config))
    return folder


def plan(deploy: CommandLine, model: Path, *flags: object, rate: float = 20) -> list[dict[str, Any]]:
    load = ("--rate", rate, "--prompt-tokens", 800, "--output-tokens", 250)
    ran = deploy("plan", model, *load, "--json", *flags)
    assert ran.status == 0, ran.err
    options: list[dict[str, Any]] = json.loads(ran.out)["options"]
    return options


@pytest.mark.parametrize(
    ("config", "billions", "kv_bytes"), [(LLAMA_8B, 8.03, 131072), (LLAMA_70B, 70.6, 327680)]
)
def test_the_shape_of_published_models(
    tmp_path: Path, config: dict[str, Any], billions: float, kv_bytes: int
) -> None:
    shape = read_shape(str(write(tmp_path, config)), tmp_path)
    assert shape.parameters / 1e9 == pytest.approx(billions, rel=0.002)
    assert shape.kv_elements * 2 == kv_bytes


def test_a_model_is_planned_only_where_it_fits_and_divides(tmp_path: Path, deploy: CommandLine) -> None:
    ways = {(o["gpu"], o["tensor_parallel_size"]) for o in plan(deploy, write(tmp_path, LLAMA_70B))}
    assert ("H100", 4) in ways
    assert not ways & {("H100", 1), ("A10G", 4), ("L40S", 2)}  # 141 GB of weights
    odd = {"num_attention_heads": 9, "num_key_value_heads": 3, "hidden_size": 1152}
    assert {o["tensor_parallel_size"] for o in plan(deploy, write(tmp_path, LLAMA_8B | odd))} == {1}


def test_the_cheapest_comes_first_and_costs_what_its_machines_cost(
    model: Path, tmp_path: Path, deploy: CommandLine
) -> None:
    prices = tmp_path / "prices.json"
    per_hour = {"g6.xlarge": 2.0, "g5.xlarge": 0.5}
    document = {"as_of": "2026-01-02", "region": "eu-west-1", "usd_per_hour": per_hour}
    prices.write_text(json.dumps(document))
    found = plan(deploy, model, "--prices", prices)
    assert [o["usd_per_month"] for o in found] == sorted(o["usd_per_month"] for o in found)
    each = {o["machine"]: o["usd_per_month"] / o["machines"] for o in found}
    assert each == {"g6.xlarge": 1460, "g5.xlarge": 365}
    for option in found:
        written = 20 * 250 * 730 * 3600
        assert option["usd_per_million_output_tokens"] == pytest.approx(
            option["usd_per_month"] / written * 1e6, abs=1e-4
        )


def test_replicas_follow_the_load_and_never_fall_below_two(model: Path, deploy: CommandLine) -> None:
    one = ("--machine", "g5.xlarge")
    (light,), (heavy,) = plan(deploy, model, *one, rate=0.01), plan(deploy, model, *one, rate=100)
    (double,) = plan(deploy, model, *one, rate=200)
    assert light["replicas"] == 2
    assert double["replicas"] in (2 * heavy["replicas"] - 1, 2 * heavy["replicas"])


def test_better_drafts_and_laxer_limits_never_cost_more(model: Path, deploy: CommandLine) -> None:
    def cost(*flags: object) -> float:
        (option,) = plan(deploy, model, "--machine", "g5.xlarge", *flags, rate=100)
        assert option["tpot_ms"] <= 100
        return float(option["usd_per_month"])

    assert cost("--acceptance-length", 3) < cost() < cost("--acceptance-length", 1)
    assert cost() < cost("--tpot-ms", 25)
    (option,) = plan(deploy, model, "--machine", "g5.xlarge", "--acceptance-length", 1)
    assert not option["speculates"]  # drafts that are never accepted do not pay, and the service drops them


def test_an_estimate_is_called_one(model: Path, deploy: CommandLine) -> None:
    load = ("--rate", 1, "--prompt-tokens", 800, "--output-tokens", 250)
    shown = deploy("plan", model, *load, "--top", 1).out
    assert "has not been measured on these GPUs" in shown
    assert "us-east-1" in shown
    assert "has not been measured" in json.loads(deploy("plan", model, *load, "--json").out)["estimate"]


def test_what_cannot_be_planned(model: Path, tmp_path: Path, deploy: CommandLine) -> None:
    load = ("--rate", 1, "--prompt-tokens", 800, "--output-tokens", 250)
    assert "no machine carries this load" in deploy("plan", model, *load, "--tpot-ms", 1).error
    long = ("--rate", 1, "--prompt-tokens", 131072, "--output-tokens", 1)
    assert "131073 tokens, the model's context 131072" in deploy("plan", model, *long).error
    assert "config.json" in deploy("plan", tmp_path / "..", *load).error
    assert "must be a folder" in deploy("plan", "nothing", *load).error
    prices = tmp_path / "prices.json"
    assert "cannot be read" in deploy("plan", model, *load, "--prices", prices).error
    prices.write_text('{"as_of": "", "region": "", "usd_per_hour": {"g7.xlarge": 1}}')
    assert "unknown machines: g7.xlarge" in deploy("plan", model, *load, "--prices", prices).error
    prices.write_text('{"usd_per_hour": {}}')
    assert "must be JSON with" in deploy("plan", model, *load, "--prices", prices).error


@pytest.mark.parametrize("flag", [("--rate", "0"), ("--rate", "x"), ("--utilisation", "2"), ("--top", "1.5")])
def test_numbers_out_of_range_name_the_flag(
    model: Path, capsys: pytest.CaptureFixture[str], flag: tuple[str, str]
) -> None:
    from deploy.__main__ import main

    load = ("--rate", "1", "--prompt-tokens", "8", "--output-tokens", "8")
    with pytest.raises(SystemExit) as exit_:
        main(["plan", str(model), *load, *flag])
    assert exit_.value.code == 2
    assert f"argument {flag[0]}" in capsys.readouterr().err

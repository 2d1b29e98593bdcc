"""From a configuration to an engine: what is chosen, and what is refused in a sentence that says why."""

from __future__ import annotations

import logging
import platform
from pathlib import Path
from typing import Any

import pytest
import torch
from runs import request, run
from tiny_models import SMALL, config_for, own_cache, save_tiny, tiny_model
from tiny_tokenizers import byte_level

from serving.config import ServeConfig
from serving.engine import placement
from serving.engine.attention.native import NativeAttention
from serving.engine.attention.torch_backend import RowInvariantAttention, TorchAttention
from serving.engine.build import build_engine
from serving.engine.engine import Engine
from serving.engine.placement import choose_placement
from serving.errors import ConfigError, ModelLoadError
from serving.kernels.ahead import LEAST_FOR_SPEED
from serving.models.architecture import Architecture
from serving.models.linear import NativeLinearOps, RowInvariantLinearOps, TorchLinearOps


def build(folder: Path, dtype: str = "float32", **engine: Any) -> Engine:
    return build_engine(config_for(folder, dtype, **engine), None, "test")


def is_native(engine: Engine) -> bool:
    """Both halves of the network, or neither."""
    kinds = type(engine.runner.decoder.ops), type(engine.runner.attention)
    assert kinds in {(NativeLinearOps, NativeAttention), (TorchLinearOps, TorchAttention)}
    return kinds[0] is NativeLinearOps


# ---- what is chosen ----


def processor(monkeypatch: pytest.MonkeyPatch, *features: str) -> None:
    monkeypatch.setattr(platform, "machine", lambda: "x86_64")
    monkeypatch.setattr(placement, "cpu_features", lambda: " ".join(("flags", ":", *features)))


def test_the_kernels_are_used_where_they_can_be(llama: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    processor(monkeypatch, *LEAST_FOR_SPEED)
    assert is_native(build(llama))
    assert is_native(build(llama, "bfloat16", attention_backend="native"))
    assert not is_native(build(llama, attention_backend="torch"))


def test_without_avx512_they_are_used_only_by_name(
    llama: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    processor(monkeypatch, *LEAST_FOR_SPEED - {"avx512f"})
    assert not is_native(build(llama))
    assert "running without CPU kernels: this processor has no AVX-512" in caplog.text
    assert is_native(build(llama, attention_backend="native"))


def test_deterministic_chooses_among_torchs_ways_and_leaves_the_kernels(llama: Path) -> None:
    assert is_native(build(llama, deterministic=True))
    engine = build(llama, deterministic=True, attention_backend="torch")
    assert isinstance(engine.runner.decoder.ops, RowInvariantLinearOps)
    assert isinstance(engine.runner.attention, RowInvariantAttention)


def test_float16_runs_on_torch(llama: Path, caplog: pytest.LogCaptureFixture) -> None:
    engine = build(llama, "float16")
    assert not is_native(engine)
    assert "running without CPU kernels: the kernels do not do float16" in caplog.text
    assert len(run(engine, [request("r", (1, 2, 3), 5)])["r"].token_ids) == 5


def test_dtype_auto_is_one_of_the_two_that_were_timed(llama: Path) -> None:
    engine = build(llama, "auto")
    assert engine.runner.decoder.norm.dtype in (torch.float32, torch.bfloat16)
    assert len(run(engine, [request("r", (1, 2, 3), 5)])["r"].token_ids) == 5


@pytest.fixture
def no_compiler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache without kernels, on a machine that cannot make any."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CXX", raising=False)
    return tmp_path


@pytest.mark.parametrize("dtype", ["float32", "auto"])
def test_without_a_compiler_torch_does_the_work_and_says_so_once(
    llama: Path, no_compiler: Path, dtype: str, caplog: pytest.LogCaptureFixture
) -> None:
    config = config_for(llama, dtype).model_copy(update={"cache_dir": no_compiler})
    engine = build_engine(config, None, "test")
    assert not is_native(engine)
    assert caplog.text.count("running without CPU kernels: no C++ compiler found") == 1
    if dtype == "float32":
        with_kernels = run(build(llama), [request("r", (5, 6, 7), 20)])
        assert run(engine, [request("r", (5, 6, 7), 20)])["r"].token_ids == with_kernels["r"].token_ids


def test_native_without_a_compiler_is_refused(llama: Path, no_compiler: Path) -> None:
    config = config_for(llama, attention_backend="native").model_copy(update={"cache_dir": no_compiler})
    with pytest.raises(ConfigError, match=r"attention_backend is native, but no C\+\+ compiler found"):
        build_engine(config, None, "test")


def test_native_is_refused_for_what_the_kernels_cannot_do(llama: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="attention_backend is native, but the kernels do not do float16"):
        build(llama, "float16", attention_backend="native")
    odd = save_tiny(tmp_path, tiny_model(hidden_size=60, num_attention_heads=6, head_dim=10))
    with pytest.raises(ConfigError, match="hidden size, MLP size and head_dim must be multiples of 16"):
        build(odd, attention_backend="native")


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device")
def test_a_device_that_is_not_there_is_refused(llama: Path) -> None:
    with pytest.raises(ConfigError, match="torch sees no CUDA device"):
        build(llama, device="cuda")


def test_torch_has_the_threads_where_it_does_the_work() -> None:
    architecture = Architecture.from_hf(SMALL)
    for backend, expected in (("torch", 2), ("native", 1)):
        config = ServeConfig.load({"dtype": "float32"}, environ={})
        engine = config.engine.model_copy(update={"num_threads": 2, "attention_backend": backend})
        placement = choose_placement(config.model_copy(update={"engine": engine}), architecture)
        assert placement.threads == 2
        assert torch.get_num_threads() == expected


def test_the_dtype_chosen_once_is_kept(tmp_path: Path) -> None:
    architecture = Architecture.from_hf(SMALL)
    config = ServeConfig.load({"cache_dir": str(own_cache(tmp_path))}, environ={})
    first = choose_placement(config, architecture)
    (remembered,) = (tmp_path / "dtype").iterdir()
    assert remembered.read_text() == first.dtype_name
    other = "float32" if first.dtype_name == "bfloat16" else "bfloat16"
    remembered.write_text(other)
    assert choose_placement(config, architecture).dtype_name == other


# ---- sizes ----


def test_the_cache_is_as_large_as_its_memory(llama: Path) -> None:
    blocks = build(llama, kv_cache_memory="1MiB", block_size=32).scheduler.blocks
    assert (blocks.num_blocks, blocks.block_size) == (32, 32)  # 2 x 2 layers x 2 heads x 32 x 4 bytes a token
    assert build(llama, "bfloat16", kv_cache_memory="1MiB").scheduler.blocks.capacity_tokens == 2048


def test_a_cache_too_small_for_one_sequence_is_refused(llama: Path) -> None:
    with pytest.raises(ConfigError, match="max_model_len 256 does not fit the KV cache of 128 tokens"):
        build(llama, kv_cache_memory="128KiB")
    assert build(llama, kv_cache_memory="128KiB", max_model_len=128).card().max_model_len == 128


def test_a_cache_too_small_for_one_block_is_refused(tmp_path: Path) -> None:
    wide = save_tiny(tmp_path, tiny_model(head_dim=128, num_key_value_heads=4))
    with pytest.raises(ConfigError, match="no memory is left for a single block"):
        build(wide, kv_cache_memory="64KiB", block_size=32)


def test_more_context_than_the_model_has_is_refused(llama: Path) -> None:
    with pytest.raises(ConfigError, match="max_model_len 257 exceeds the model's context of 256"):
        build(llama, max_model_len=257)


def test_more_sequences_than_rows_are_refused(llama: Path) -> None:
    with pytest.raises(ConfigError, match=r"max_num_seqs \(17\) must not exceed"):
        build(llama, max_num_seqs=17, max_num_batched_tokens=16)


# ---- the card, the model's files ----


def test_card(llama: Path) -> None:
    config = config_for(llama, max_model_len=100).model_copy(update={"served_model_name": "tiny"})
    card = build_engine(config, None, "test").card()
    assert (card.name, card.max_model_len, card.vocab_size) == ("tiny", 100, SMALL["vocab_size"])
    assert card.tokenizer_json == byte_level()
    assert card.eos_token_ids == ()
    fingerprints = [build(llama, dtype).card().fingerprint for dtype in ("float32", "float32", "bfloat16")]
    assert fingerprints[0] == fingerprints[1] == card.fingerprint != fingerprints[2]
    assert build(llama).card().name == "llama"


def test_a_folder_without_a_model_is_named(tmp_path: Path) -> None:
    with pytest.raises(ModelLoadError, match=str(tmp_path)):
        build(tmp_path)


def test_the_log_says_what_runs(llama: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        build(llama, "bfloat16")
    assert (
        "model llama on cpu in bfloat16 with 1 threads, native kernels, 512 KV blocks of 16 tokens"
        in caplog.text
    )

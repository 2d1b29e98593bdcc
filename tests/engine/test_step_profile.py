"""The profile of step times: measured on the real network, remembered, and without a trace in the caches."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from runs import request, run
from tiny_models import config_for, own_cache

from serving.config import ServeConfig
from serving.drafting.colocated import ColocatedChannel
from serving.drafting.prompt_lookup import PromptLookupDrafter
from serving.engine.build import build_engine
from serving.engine.engine import Engine


def start(config: ServeConfig) -> Engine:
    return build_engine(config, ColocatedChannel(PromptLookupDrafter(config.speculation)), "test")


@pytest.fixture
def config(llama: Path, tmp_path: Path) -> ServeConfig:
    base = config_for(llama, "float32", max_num_batched_tokens=64)
    return base.model_copy(update={"cache_dir": own_cache(tmp_path)})


def profiles(config: ServeConfig) -> list[Path]:
    return list((config.cache_dir / "step_time").glob("*.json"))


@pytest.mark.parametrize("backend", ["native", "torch"])
def test_it_is_measured_once_and_only_for_mode_auto(config: ServeConfig, backend: str) -> None:
    engine = config.engine.model_copy(update={"attention_backend": backend})
    config = config.model_copy(update={"engine": engine})
    fixed = config.speculation.model_copy(update={"num_speculative_tokens": 3})
    start(config.model_copy(update={"speculation": fixed}))
    assert not profiles(config)
    start(config)
    (first,) = profiles(config)
    written = first.stat().st_mtime_ns
    start(config)
    assert profiles(config) == [first]
    assert first.stat().st_mtime_ns == written


def test_torchs_two_ways_are_measured_apart(config: ServeConfig) -> None:
    for deterministic in (False, True):
        changed = {"attention_backend": "torch", "deterministic": deterministic}
        start(config.model_copy(update={"engine": config.engine.model_copy(update=changed)}))
    assert len(profiles(config)) == 2


def test_it_can_be_measured_with_requests_under_way(config: ServeConfig) -> None:
    """Nothing that is cached changes: prompts computed before continue as if nothing had happened."""
    prompts = [request(f"r{i}", range(3 + i, 40 + i), 30) for i in range(3)]
    fixed = config.speculation.model_copy(update={"num_speculative_tokens": 3})
    undisturbed = run(start(config.model_copy(update={"speculation": fixed})), prompts)
    engine = start(config.model_copy(update={"speculation": fixed}))

    def switch(step: int) -> None:
        if step == 5:
            assert not profiles(config)
            engine.choose_m(config.speculation)
            assert profiles(config)

    outcomes = run(engine, prompts, before_step=switch)
    assert {n: o.token_ids for n, o in outcomes.items()} == {n: o.token_ids for n, o in undisturbed.items()}


@pytest.mark.slow  # it times this machine, which must not be busy
def test_a_step_takes_what_was_predicted(config: ServeConfig) -> None:
    """Within a factor that a busy machine allows; `benchmarks load` reports how well."""
    engine = start(config)
    ratios = []

    def note(step: int) -> None:
        report = engine.last_report
        if report.decoding and report.predicted_seconds:
            ratios.append(report.step_seconds / report.predicted_seconds)

    run(engine, [request(f"r{i}", range(3, 20 + i), 60) for i in range(4)], before_step=note)
    assert 0.5 < np.median(ratios[-30:]) < 2.0

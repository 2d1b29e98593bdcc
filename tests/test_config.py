"""Settings from files, the command line and the environment: the same values, and errors that name them."""

from __future__ import annotations

from typing import Any

import pytest

from serving.config import EngineConfig, ServeConfig
from serving.errors import ConfigError


def test_three_ways_of_writing_are_the_same() -> None:
    dotted = ServeConfig.load({"engine.block_size": 32, "router.api_keys": "a, b"}, environ={})
    nested = ServeConfig.load({"engine": {"block_size": 32}, "router": {"api_keys": ["a", "b"]}}, environ={})
    environ = {"CANOPY_ENGINE_BLOCK_SIZE": "32", "CANOPY_ROUTER_API_KEYS": "a,b", "PATH": "/bin"}
    assert dotted == nested
    assert dotted.router.api_keys == ("a", "b")
    assert ServeConfig.load({"engine.block_size": "32"}, environ=environ) == dotted


def test_values_win_over_the_environment() -> None:
    config = ServeConfig.load({"dtype": "float32"}, environ={"CANOPY_DTYPE": "bfloat16"})
    assert config.dtype == "float32"


@pytest.mark.parametrize(
    ("text", "size"), [("512MiB", 2**29), ("2GB", 2 * 10**9), ("1.5 KiB", 1536), (70000, 70000)]
)
def test_sizes(text: str | int, size: int) -> None:
    config = ServeConfig.load({"router.max_body_bytes": text}, environ={})
    assert config.router.max_body_bytes == size


def test_a_tree_written_as_text() -> None:
    config = ServeConfig.load(environ={"CANOPY_SPECULATION_STATIC_TREE": "[[0],[1],[0,0]]"})
    assert config.speculation.static_tree == ((0,), (1,), (0, 0))


@pytest.mark.parametrize(
    ("values", "environ", "message"),
    [
        (
            {"engine.max_num_seq": 1},
            {},
            r"engine.max_num_seq is not a setting \(did you mean engine.max_num_seqs",
        ),
        (
            {},
            {"CANOPY_ENGINE_MAX_NUM_SEQ": "4"},
            r"CANOPY_ENGINE_MAX_NUM_SEQ is not a setting \(did you mean",
        ),
        ({"engine.block_size": 20}, {}, r"engine.block_size: input should be 16, 32 or 64"),
        ({"router.max_body_bytes": "many"}, {}, r"router.max_body_bytes: 'many' is not a size"),
        ({"model": "x", "speculation.method": "eagle3"}, {}, r"method eagle3 needs a speculation.head"),
        ({"speculation": {"head": "x", "draft_model": "y"}}, {}, r"a head and a draft_model: say which"),
        ({"speculation": {"prompt_lookup_min": 9}}, {}, r"prompt_lookup_min must not exceed"),
        (
            {"replicas.drafters": 3, "autoscaling.max_drafters": 2},
            {},
            r"autoscaling.max_drafters must not be",
        ),
        ({"replicas.verifiers": 0}, {}, r"replicas.verifiers may be 0 only where autoscaling.max_verifiers"),
        ({"autoscaling.timezone": "Berlin"}, {}, r"autoscaling.timezone: 'Berlin' is no time zone"),
        (
            {"autoscaling.hours": [{"start": 420, "end": "20:00"}]},
            {},
            r"autoscaling.hours.0.start: 420 is no time of day; write it in quotes",
        ),
        (
            {"autoscaling.hours": '[{"start": "07:00", "end": "20:00", "verifiers": 2}]'},
            {},
            r"autoscaling.hours must not ask for more verifiers than autoscaling.max_verifiers",
        ),
    ],
)
def test_what_is_wrong_is_named(values: dict[str, object], environ: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        ServeConfig.load(values, environ=environ)


@pytest.mark.parametrize(
    ("values", "placement"),
    [
        ({}, "colocated"),
        ({"speculation.placement": "pool"}, "pool"),
        ({"replicas.drafters": 2}, "pool"),
        ({"replicas.drafter_gpus": 0.5}, "pool"),
        ({"replicas.pin_to_roles": True}, "pool"),
        ({"autoscaling.max_drafters": 4}, "pool"),
        ({"speculation.transport": "rdt"}, "pool"),
        ({"replicas.drafters": 2, "speculation.placement": "colocated"}, "colocated"),
    ],
)
def test_drafters_are_a_pool_where_they_have_something_of_their_own(
    values: dict[str, object], placement: str
) -> None:
    assert ServeConfig.load(values, environ={}).speculation.placement == placement


@pytest.mark.parametrize(
    ("values", "method", "head"),
    [
        ({}, "eagle3", "default"),
        ({"model": "mine"}, "prompt_lookup", None),
        ({"model": "mine", "speculation.head": "yours"}, "eagle3", "yours"),
        ({"speculation.draft_model": "small"}, "draft_model", None),
        ({"speculation.method": "off"}, "off", None),
        ({"speculation.method": "prompt_lookup"}, "prompt_lookup", None),
        ({"speculation": {"method": "eagle", "head": "yours"}}, "eagle", "yours"),
    ],
)
def test_the_drafter_follows_from_what_is_given(
    values: dict[str, object], method: str, head: str | None
) -> None:
    settled = ServeConfig.load(values, environ={}).speculation
    assert (settled.method, settled.head) == (method, head)
    again = ServeConfig.model_validate(ServeConfig.load(values, environ={}).model_dump())
    assert again.speculation == settled


def test_what_kubernetes_puts_into_the_environment_is_not_ours() -> None:
    environ = {
        "CANOPY_SERVICE_HOST": "10.0.0.1",
        "CANOPY_PORT_8000_TCP_ADDR": "10.0.0.1",
        "CANOPY_PORT": "tcp",
    }
    assert ServeConfig.load(environ=environ) == ServeConfig.load(environ={})


def test_the_keys_are_not_shown() -> None:
    assert "secret" not in repr(ServeConfig.load({"router.api_keys": "secret"}, environ={}))


@pytest.mark.parametrize(
    ("speculation", "mode"),
    [
        ({}, "auto"),
        ({"num_speculative_tokens": 5}, "fixed"),
        ({"num_speculative_tokens": 5, "mode": "auto"}, "auto"),
        ({"num_speculative_tokens_per_batch_size": "[[1, 4, 5], [5, 64, 0]]"}, "schedule"),
        ({"mode": "off"}, "off"),
        ({"min_throughput": 0.9}, "latency"),
        ({"min_throughput": 0.9, "mode": "auto"}, "auto"),
    ],
)
def test_how_m_is_chosen_follows_from_what_is_set(speculation: dict[str, Any], mode: str) -> None:
    assert ServeConfig.load({"speculation": speculation}, environ={}).speculation.chosen_mode == mode


@pytest.mark.parametrize(
    ("speculation", "message"),
    [
        ({"mode": "fixed"}, "mode fixed needs num_speculative_tokens"),
        ({"mode": "schedule"}, "mode schedule needs num_speculative_tokens_per_batch_size"),
        ({"num_speculative_tokens_per_batch_size": []}, "at least one entry"),
        ({"num_speculative_tokens_per_batch_size": [[5, 4, 1]]}, r"\[5, 4, 1\] is not \[first, last, m\]"),
        (
            {"num_speculative_tokens_per_batch_size": [[1, 4, 1], [4, 8, 0]]},
            "two entries are for 4 sequences",
        ),
    ],
)
def test_choices_of_m_that_make_no_sense(speculation: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        ServeConfig.load({"speculation": speculation}, environ={})


def test_user_config_changes_how_m_is_chosen_and_nothing_else() -> None:
    config = ServeConfig.load({"speculation.num_speculative_tokens": 5}, environ={})
    assert config.budget({}).chosen_mode == "fixed"
    assert config.budget({"speculation": {"mode": "auto"}}).chosen_mode == "auto"
    assert config.budget({"speculation": {"num_speculative_tokens": 2}}).num_speculative_tokens == 2
    assert config.budget({"speculation": {"mode": "latency"}}).chosen_mode == "latency"
    with pytest.raises(ConfigError, match=r"speculation\.beam is not a setting"):
        config.budget({"speculation": {"beam": 3}})
    with pytest.raises(ConfigError, match="speculation: "):
        config.budget({"speculation": "off"})
    with pytest.raises(ConfigError, match="engine is not a setting"):
        config.budget({"engine": {}})


def test_the_ranks_of_a_verifier_share_the_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.sched_getaffinity", lambda pid: set(range(8)))
    assert [EngineConfig(tensor_parallel_size=size).threads for size in (1, 3, 16)] == [8, 2, 1]
    assert EngineConfig(tensor_parallel_size=4, num_threads=6).threads == 6

"""After a hit a drafter knows what it would have known: the same features, the same trees, the same tokens
accepted. And only what is not cached is computed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from head_configs import HEADS, VOCAB, config
from numpy.typing import NDArray
from runs import Outcome, request, run, take_step
from tiny_models import config_for

from serving.config import ServeConfig
from serving.drafting.base import DraftChannel
from serving.drafting.colocated import ColocatedChannel
from serving.drafting.messages import Close, Extend, Open, Proposal, Propose
from serving.engine.batch import Batch
from serving.engine.build import build_engine
from serving.engine.engine import Engine
from serving.engine.runner import ModelRunner
from serving.replicas.drafters import build_drafter
from serving.types import FinishReason, GenerationRequest

FIRST = tuple(np.random.default_rng(1).integers(0, VOCAB, 37).tolist())
METHODS = [*HEADS, "draft_model", "prompt_lookup"]


@dataclass
class Recording(DraftChannel):
    """Keeps what a real drafter was sent and what it answered."""

    inner: DraftChannel
    sent: list[Extend] = field(default_factory=list)
    trees: list[tuple[Any, ...]] = field(default_factory=list)

    def submit(self, opens: Sequence[Open], propose: Propose) -> None:
        self.sent += propose.extends
        self.inner.submit(opens, propose)

    def collect(self) -> Proposal:
        proposal = self.inner.collect()
        assert not proposal.unknown
        self.trees += [
            (t.base_len, t.token_ids.tolist(), t.parents.tolist(), t.log_confidence.tolist())
            for t in proposal.trees
        ]
        return proposal

    def close(self, message: Close) -> None:
        self.inner.close(message)

    def forget(self) -> None:
        self.sent, self.trees = [], []


class Started(NamedTuple):
    engine: Engine
    channel: Recording


def start(of: ServeConfig) -> Started:
    channel = Recording(ColocatedChannel(build_drafter(of)))
    return Started(build_engine(of, channel, "test"), channel)


def rows_of(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Rows of each forward from now on."""
    rows: list[int] = []
    forward = ModelRunner.forward

    def counted(self: ModelRunner, batch: Batch) -> Any:
        rows.append(batch.num_rows)
        return forward(self, batch)

    monkeypatch.setattr(ModelRunner, "forward", counted)
    return rows


# ---- what a hit spares ----


def test_a_second_request_computes_only_what_is_not_cached(
    llama: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = build_engine(config_for(llama), None, "test")
    rows = rows_of(engine, monkeypatch)
    shared = tuple(np.random.default_rng(0).integers(0, 100, 100).tolist())
    first = run(engine, [request("first", (*shared, 1), 1)])["first"]
    assert (rows, first.cached_tokens) == ([101], 0)
    second = run(engine, [request("second", (*shared, 2, 3), 1)])["second"]
    assert (rows, second.cached_tokens) == ([101, 102 - 96], 96)
    assert (engine.stats.prefix_queries, engine.stats.prefix_hits) == (203, 96)


def test_a_conversation_computes_only_its_new_words(llama: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = build_engine(config_for(llama), None, "test")
    said = FIRST + run(engine, [request("first", FIRST, 40)])["first"].token_ids
    rows = rows_of(engine, monkeypatch)
    run(engine, [request("second", (*said, 5, 6, 7), 1)])
    assert rows == [len(said) + 3 - 64]


def test_it_can_be_turned_off(llama: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = build_engine(config_for(llama, enable_prefix_caching=False), None, "test")
    rows = rows_of(engine, monkeypatch)
    for name in ("first", "second"):
        assert run(engine, [request(name, FIRST, 1)])[name].cached_tokens == 0
    assert rows == [37, 37]


def test_nobody_begins_with_what_belongs_to_another_salt(llama: Path) -> None:
    engine = build_engine(config_for(llama), None, "test")
    salts = [None, "a", None, "a", "b"]
    cached = [run(engine, [request(f"r{i}", FIRST, 4, salt=salt)])[f"r{i}"] for i, salt in enumerate(salts)]
    assert [outcome.cached_tokens for outcome in cached] == [0, 0, 32, 32, 0]
    assert len({outcome.token_ids for outcome in cached}) == 1


def test_a_replayed_request_counts_its_prompt_only(llama: Path) -> None:
    engine = build_engine(config_for(llama), None, "test")
    output = run(engine, [request("first", FIRST, 40)])["first"].token_ids
    again = run(engine, [request("again", FIRST, 40, output=output[:30])])["again"]
    assert again.token_ids == output[30:]
    assert (again.cached_tokens, engine.stats.prefix_hits) == (37, 64)


def test_what_an_aborted_request_computed_is_of_use(llama: Path) -> None:
    """It goes while its prompt is read, and another while it speaks."""
    engine = build_engine(config_for(llama, max_num_batched_tokens=20), None, "test")
    cold = run(engine, [request("cold", FIRST, 20)])["cold"].token_ids
    for place, steps in enumerate((1, 5)):
        prompt = (place, *FIRST)
        outcomes = {"leaving": Outcome()}
        engine.add(request("leaving", prompt, 20))
        for _ in range(steps):
            take_step(engine, outcomes)
        engine.abort("leaving")
        take_step(engine, outcomes)
        assert outcomes["leaving"].reason is FinishReason.ABORT
        after = run(engine, [request("next", prompt, 20)])["next"]
        assert after.cached_tokens == (16, 32)[place]
    assert run(engine, [request("warm", FIRST, 20)])["warm"].token_ids == cold


# ---- what a drafter is told and answers ----


def conversations(first: Outcome) -> list[GenerationRequest]:
    """Requests with something in common with the first: its prompt, a part of it, all that was said."""
    said = FIRST + first.token_ids
    prompts = [FIRST, (*FIRST[:20], 3, 4), (*said, 1, 2), said[:65]]
    ways: list[dict[str, Any]] = [{}, {}, {"temperature": 1.0, "seed": 3}, {}]
    return [
        request(f"r{i}", prompt, 24, **way) for i, (prompt, way) in enumerate(zip(prompts, ways, strict=True))
    ]


@pytest.mark.parametrize(("dtype", "m"), [("float32", 16), ("bfloat16", 5)])
@pytest.mark.parametrize("method", METHODS)
def test_drafts_after_a_hit_are_those_of_a_cold_run(
    target: Path, drafts: dict[str, dict[str, Any]], method: str, dtype: str, m: int
) -> None:
    speculation = {
        **drafts.get(method, {"method": method}),
        "num_speculative_tokens": m,
        "min_path_value": 0.01,
    }
    roomy: dict[str, Any] = {"kv_cache_memory": 2**20}
    warm = start(config(target, dtype, speculation, **roomy))
    cold = start(config(target, dtype, speculation, **roomy, enable_prefix_caching=False))
    first, same = (asked_alone(side, request("first", FIRST, 40)) for side in (warm, cold))
    assert first == same
    for each in conversations(first):
        hit, missed = (asked_alone(side, each) for side in (warm, cold))
        assert hit.cached_tokens >= 16
        assert missed.cached_tokens == 0
        assert (hit.token_ids, hit.stats) == (missed.token_ids, missed.stats)
        assert warm.channel.trees == cold.channel.trees != []
        assert len(warm.channel.sent) == len(cold.channel.sent)
        for ours, theirs in zip(warm.channel.sent, cold.channel.sent, strict=True):
            assert (ours.start, ours.base_len) == (theirs.start, theirs.base_len)
            np.testing.assert_array_equal(ours.token_ids, theirs.token_ids)
            np.testing.assert_array_equal(features(ours), features(theirs))
        opening = warm.channel.sent[0]
        assert (opening.start, len(opening.token_ids)) == (0, len(each.prompt_ids))
        assert method not in HEADS or len(features(opening)) == len(each.prompt_ids)
    assert warm.engine.stats.speculation.accepted_tokens > 0


def asked_alone(side: Started, each: GenerationRequest) -> Outcome:
    side.channel.forget()
    return run(side.engine, [each])[each.request_id]


def features(extend: Extend) -> NDArray[Any]:
    return np.empty(0) if extend.features is None else extend.features

"""The step loop: endings, departures, company, failures of models and drafters, and what is sampled."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from adversary import Adversary, Oracle
from numpy.typing import NDArray
from runs import Outcome, assert_idle, request, run, take_step
from scipy import stats
from tiny_models import config_for, save_tiny, tiny_model
from transformers import AutoModelForCausalLM

from serving.config import SpeculationConfig
from serving.drafting.base import DraftChannel, Drafter
from serving.drafting.colocated import ColocatedChannel
from serving.drafting.messages import Close, Open, Proposal, Propose, SeqKey
from serving.drafting.prompt_lookup import PromptLookupDrafter
from serving.engine import speculator
from serving.engine.build import build_engine
from serving.engine.engine import NON_FINITE, Engine
from serving.spec.controller import DraftPlan
from serving.spec.schedule import ScheduledController
from serving.spec.tree import ROOT, DraftTree
from serving.types import FinishReason, GenerationRequest, SpeculationStats

PROMPT = tuple(np.random.default_rng(5).integers(0, 100, 20).tolist())
OTHERS = [tuple(np.random.default_rng(i).integers(0, 100, 4 + 9 * i).tolist()) for i in range(5)]
SAMPLED = {"temperature": 1.0, "top_p": 0.9, "seed": 7}


def build(
    folder: Path, channel: DraftChannel | None = None, dtype: str = "float32", m: int = 8, **engine: Any
) -> Engine:
    config = config_for(folder, dtype, **engine)
    speculation = config.speculation.model_copy(update={"num_speculative_tokens": m, "max_depth": 16})
    return build_engine(config.model_copy(update={"speculation": speculation}), channel, "test")


def plain(folder: Path, each: GenerationRequest, dtype: str = "float32", **engine: Any) -> tuple[int, ...]:
    return run(build(folder, dtype=dtype, **engine), [each])[each.request_id].token_ids


def texts(folder: Path, requests: Sequence[GenerationRequest], **options: Any) -> list[tuple[int, ...]]:
    """Prompt and plain output of each."""
    return [each.prompt_ids + plain(folder, each, **options) for each in requests]


# ---- endings ----


def first_at(tokens: Sequence[int], least: int) -> int:
    """The first place from `least` on whose token did not occur before it."""
    return next(i for i in range(least, len(tokens)) if tokens[i] not in tokens[:i])


@pytest.mark.parametrize("params", [{}, SAMPLED])
def test_nothing_is_said_after_a_stop_token_in_the_middle_of_an_accepted_block(
    llama: Path, params: dict[str, Any]
) -> None:
    """S1, S2: the block holds the stop token and more behind it, all of which came true."""
    (text,) = texts(llama, [request("r", PROMPT, 40, **params)])
    output = text[len(PROMPT) :]
    at = first_at(output, 4)
    oracle = Oracle([text])
    engine = build(llama, oracle, m=16)
    stop = frozenset({output[at]})
    outcome = run(engine, [request("r", PROMPT, 40, stop_token_ids=stop, **params)])["r"]
    assert outcome.token_ids == output[: at + 1]
    assert outcome.reason is FinishReason.STOP
    assert outcome.deltas == 2, "the first token, then the block"
    assert outcome.stats == SpeculationStats(1, at, 16, at, [1] * at, [1] * at)
    assert not oracle.held


@pytest.mark.parametrize("max_tokens", [1, 2, 5, 9])
def test_a_stop_token_past_max_tokens_does_not_count(llama: Path, max_tokens: int) -> None:
    """S1"""
    (text,) = texts(llama, [request("r", PROMPT, 40)])
    output = text[len(PROMPT) :]
    stop = frozenset({output[first_at(output, max_tokens)]})
    outcome = run(build(llama, Oracle([text])), [request("r", PROMPT, max_tokens, stop_token_ids=stop)])["r"]
    assert outcome.token_ids == output[:max_tokens]
    assert outcome.reason is FinishReason.LENGTH


def test_a_stop_token_as_the_bonus_token_and_as_the_very_first(llama: Path) -> None:
    (text,) = texts(llama, [request("r", PROMPT, 40)])
    output = text[len(PROMPT) :]
    at = first_at(output, 2)
    for place, m in ((0, 8), (at, at - 1)):
        engine = build(llama, Oracle([text]), m=m)
        stop = frozenset({output[place]})
        outcome = run(engine, [request("r", PROMPT, 40, stop_token_ids=stop)])["r"]
        assert outcome.token_ids == output[: place + 1]
        assert outcome.reason is FinishReason.STOP


@pytest.mark.parametrize("m", [0, 1, 16])
@pytest.mark.parametrize("room", [1, 2, 7, 14])
def test_the_context_limit_is_reached_exactly_with_drafts_pending(llama: Path, room: int, m: int) -> None:
    """S28"""
    prompt = (PROMPT * 4)[: 64 - room]
    (text,) = texts(llama, [request("r", prompt, 40)])
    engine = build(llama, Oracle([text]), m=m, max_model_len=64, kv_cache_memory="64KiB")
    outcome = run(engine, [request("r", prompt, 1000)])["r"]
    assert outcome.token_ids == text[len(prompt) : 64]
    assert len(outcome.token_ids) == room
    assert outcome.reason is FinishReason.LENGTH


@pytest.mark.parametrize(("prompt", "output"), [(64, 0), (65, 0), (60, 4)])
def test_a_request_without_room_for_a_token_ends_with_an_error(llama: Path, prompt: int, output: int) -> None:
    engine = build(llama, max_model_len=64)
    ids = (PROMPT * 4)[:prompt]
    full = GenerationRequest("full", ids, request("", ids, 100).params, output_ids=(1,) * output)
    outcomes = run(engine, [full, request("r", PROMPT, 3)])
    assert outcomes["full"].reason is FinishReason.ERROR
    assert "64 tokens leave no room" in (outcomes["full"].error or "") or prompt == 65
    assert outcomes["full"].token_ids == ()
    assert outcomes["r"].token_ids == plain(llama, request("r", PROMPT, 3))


def test_one_token_needs_no_draft(llama: Path) -> None:
    """S24: no decode step, no statistics to divide by."""
    channel = Recorder(Oracle([]))
    outcome = run(build(llama, channel), [request("r", PROMPT, 1)])["r"]
    assert outcome.reason is FinishReason.LENGTH
    assert outcome.stats == SpeculationStats()
    assert outcome.stats.tau == 0.0
    assert channel.asked == []


# ---- which requests are drafted for, and what is counted ----


class Recorder(DraftChannel):
    """Writes down what another channel is asked, and for how much."""

    def __init__(self, inner: DraftChannel) -> None:
        self.inner = inner
        self.asked: list[tuple[int, int]] = []

    def submit(self, opens: Sequence[Open], propose: Propose) -> None:
        nodes = zip(propose.extends, propose.max_nodes, strict=True)
        self.asked += [(extend.key.seq_id, most) for extend, most in nodes]
        self.inner.submit(opens, propose)

    def collect(self) -> Proposal:
        return self.inner.collect()

    def close(self, message: Close) -> None:
        self.inner.close(message)


def test_each_request_may_lower_the_number_of_draft_tokens(llama: Path) -> None:
    requests = [
        request(f"r{own}", prompt, 30, num_speculative_tokens=own)
        for own, prompt in zip((None, 0, 3, 100), OTHERS, strict=False)
    ]
    known = texts(llama, requests)
    recorder = Recorder(Oracle(known))
    outcomes = run(build(llama, recorder, m=5), requests)
    assert [
        prompt + outcomes[r.request_id].token_ids for prompt, r in zip(OTHERS, requests, strict=False)
    ] == known
    assert {seq for seq, _ in recorder.asked} == {0, 2, 3}
    assert max(most for seq, most in recorder.asked if seq == 2) == 3
    assert max(most for _, most in recorder.asked) == 5
    plainly = outcomes["r0"].stats
    assert (plainly.steps, plainly.draft_tokens, plainly.accepted_tokens, plainly.tau) == (
        29,
        0,
        0,
        1.0,
    )  # S24
    for own, cap in (("None", 5), ("3", 3), ("100", 5)):
        counted = outcomes[f"r{own}"].stats
        assert counted.committed_tokens == 29
        assert counted.accepted_tokens == counted.committed_tokens - counted.steps
        assert counted.steps == -(-29 // (cap + 1))


def test_who_has_missed_much_has_a_turn_while_others_are_drafted_for(
    llama: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each of these prompts is more than a drafter is sent in one step: they are told one by one."""
    monkeypatch.setattr(speculator, "MAX_FED", 2)
    requests = [request(f"r{i}", prompt, 20) for i, prompt in enumerate(OTHERS)]
    recorder = Recorder(Oracle(texts(llama, requests)))
    run(build(llama, recorder, m=2), requests)
    assert {seq for seq, _ in recorder.asked} == {0, 1, 2, 3, 4}


def test_the_urgent_are_drafted_for_where_the_plan_is_for_them(
    llama: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of the others the drafter has missed less."""
    monkeypatch.setattr(
        ScheduledController, "plan", lambda self, load: DraftPlan(2, load.urgent, 0.0, urgent=True)
    )
    requests = [replace(request(f"r{i}", prompt, 20), priority=int(i < 3)) for i, prompt in enumerate(OTHERS)]
    requests.append(request("r5", PROMPT, 20, num_speculative_tokens=0))
    recorder = Recorder(Oracle(texts(llama, requests)))
    run(build(llama, recorder, m=2), requests)
    assert {seq for seq, _ in recorder.asked} == {3, 4}


def test_sums_over_requests_are_the_engines(llama: Path) -> None:
    requests = [request(f"r{i}", prompt, 20) for i, prompt in enumerate(OTHERS)]
    engine = build(llama, Adversary(texts(llama, requests), 0, 100))
    total = SpeculationStats()
    for outcome in run(engine, requests).values():
        total.add(outcome.stats)
    assert total == engine.stats.speculation
    assert total.committed_tokens == 5 * 19
    accepted, offered = total.accepted_per_position, total.offered_per_position
    assert sum(accepted) == total.accepted_tokens > 20
    assert offered[0] <= total.steps
    assert all(right <= drafted for right, drafted in zip(accepted, offered, strict=False))
    assert all(deeper <= right for deeper, right in zip(offered[1:], accepted, strict=False))
    assert sum(offered) > sum(accepted), "the adversary was never refused"
    assert engine.stats.times.forward > 0
    assert engine.stats.steps >= 20 / 9


def test_speculation_can_be_turned_off(llama: Path) -> None:
    recorder = Recorder(Oracle([]))
    outcome = run(build(llama, recorder, m=0), [request("r", PROMPT, 10)])["r"]
    assert outcome.token_ids == plain(llama, request("r", PROMPT, 10))
    assert recorder.asked == []


# ---- company, replay ----


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_a_seeded_request_gets_one_answer_in_any_traffic(llama: Path, dtype: str) -> None:
    """S7, S8"""
    target = request("target", PROMPT, 30, **SAMPLED)
    answers = {plain(llama, target, dtype)}
    for mix in range(12):
        rng = np.random.default_rng(mix)
        others = [request(f"o{i}", OTHERS[i % 5], 20, temperature=1.0, seed=i) for i in range(mix % 7)]
        arrivals = [(int(step), each) for step, each in zip(rng.integers(0, 12, 7), others, strict=False)]
        channel = Adversary([target.prompt_ids + next(iter(answers))], mix, 100)
        rows = (16, 64)[mix % 2]
        engine = build(llama, channel, dtype, m=(0, 1, 4, 16)[mix % 4], max_num_batched_tokens=rows)
        answers.add(run(engine, arrivals=[*arrivals, (mix % 5, target)])["target"].token_ids)
    assert len(answers) == 1


def test_seed_and_choice_give_other_answers(llama: Path) -> None:
    requests = [
        request(f"{seed}-{choice}", PROMPT, 20, choice=choice, temperature=1.0, seed=seed)
        for seed in (1, 2)
        for choice in (0, 1)
    ]
    outcomes = run(build(llama), requests)
    assert len({outcome.token_ids for outcome in outcomes.values()}) == 4


@pytest.mark.parametrize("rows", [512, 16])
@pytest.mark.parametrize("backend", ["native", "torch"])
def test_equal_prefixes_in_one_step(llama: Path, rows: int, backend: str) -> None:
    """S21: read at once, or one after the other in chunks."""
    options: dict[str, Any] = {"attention_backend": backend}
    requests = [request("a", PROMPT, 20), request("b", PROMPT, 20), request("c", (*PROMPT, 3), 20)]
    known = texts(llama, requests, **options)
    engine = build(llama, Oracle(known), max_num_batched_tokens=rows, **options)
    outcomes = run(engine, requests)
    assert [each.prompt_ids + outcomes[each.request_id].token_ids for each in requests] == known
    assert engine.stats.prefix_hits == (0 if rows == 512 else 2 * 16)


@pytest.mark.parametrize("params", [{}, SAMPLED])
@pytest.mark.parametrize("m", [0, 8])
def test_a_replayed_request_goes_on_as_if_nothing_had_happened(
    llama: Path, m: int, params: dict[str, Any]
) -> None:
    whole = request("r", PROMPT, 30, **params)
    text = PROMPT + plain(llama, whole)
    for done in (1, 12, 29):
        before = text[len(PROMPT) : len(PROMPT) + done]
        again = request("r", PROMPT, 30, output=before, **params)
        outcome = run(build(llama, Adversary([text], done, 100), m=m), [again])["r"]
        assert before + outcome.token_ids == text[len(PROMPT) :]
        assert outcome.reason is FinishReason.LENGTH


# ---- departures ----


def test_abort_while_a_tree_is_pending(llama: Path) -> None:
    """S23: the tree arrives, and nobody wants it."""
    requests = [request(f"r{i}", prompt, 30) for i, prompt in enumerate(OTHERS)]
    known = texts(llama, requests)
    adversary = Adversary(known, 3, 100)
    engine = build(llama, adversary, m=4)
    outcomes = {each.request_id: Outcome() for each in requests}
    for each in requests:
        engine.add(each)
    for _ in range(4):
        take_step(engine, outcomes)
    open_before = len(adversary.held)
    engine.abort("r1")
    engine.abort("r1")
    engine.abort("nobody")
    assert len(adversary.held) == open_before - 1
    engine.check_integrity()
    while engine.has_work:
        take_step(engine, outcomes)
    assert outcomes["r1"].reason is FinishReason.ABORT
    said = outcomes["r1"].token_ids
    assert 0 < len(said) < 30
    assert (OTHERS[1] + said) == known[1][: len(OTHERS[1]) + len(said)]
    for index in (0, 2, 3, 4):
        assert OTHERS[index] + outcomes[f"r{index}"].token_ids == known[index]
    assert not adversary.held
    assert_idle(engine)


def test_all_leave_while_trees_are_pending_and_another_comes(llama: Path) -> None:
    adversary = Adversary(texts(llama, [request("r", PROMPT, 30)]), 4, 100)
    engine = build(llama, adversary)
    outcomes = {f"r{i}": Outcome() for i in range(3)}
    for name in outcomes:
        engine.add(request(name, PROMPT, 30))
    take_step(engine, outcomes)
    take_step(engine, outcomes)
    for name in outcomes:
        engine.abort(name)
    assert engine.has_work
    take_step(engine, outcomes)
    assert {outcome.reason for outcome in outcomes.values()} == {FinishReason.ABORT}
    assert_idle(engine)
    late = request("late", PROMPT, 30)
    assert run(engine, [late])["late"].token_ids == plain(llama, late)


def test_a_pause_after_an_abort_is_no_time_of_steps(llama: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Or whoever ends by a stop string would make every draft token look cheap to the next."""
    engine, elapsed, paused_s = build(llama, Oracle([])), list[float](), [0.0]
    clock = SimpleNamespace(perf_counter=lambda: time.perf_counter() + paused_s[0])
    monkeypatch.setattr("serving.engine.engine.time", clock)
    monkeypatch.setattr(engine._controller, "observe", lambda outcome: elapsed.append(outcome.elapsed_s))
    for name in ("stopped", "next"):
        engine.add(request(name, PROMPT, 8))
        engine.step()
        engine.abort(name)
        engine.step()
        paused_s[0] += 3600
    assert len(elapsed) == 2
    assert elapsed[1] < 3600


def test_abort_of_those_who_wait_or_are_being_read(llama: Path) -> None:
    engine = build(llama, Oracle([]), max_num_seqs=2, max_num_batched_tokens=16)
    names = ("reading", "next", "waiting")
    outcomes = {name: Outcome() for name in names}
    for name in names:
        engine.add(request(name, PROMPT * 3, 8))
    take_step(engine, outcomes)
    assert (engine.scheduler.num_running, engine.scheduler.num_waiting) == (1, 2)
    for name in ("waiting", "reading"):
        engine.abort(name)
    while engine.has_work:
        take_step(engine, outcomes)
    assert outcomes["next"].token_ids == plain(llama, request("next", PROMPT * 3, 8))
    for name in ("waiting", "reading"):
        assert outcomes[name].reason is FinishReason.ABORT
        assert outcomes[name].token_ids == ()
        assert outcomes[name].deltas == 1
    assert_idle(engine)


def test_a_late_tree_of_a_preempted_sequence_is_dropped(llama: Path) -> None:
    """S23: the tree asked for before the preemption arrives in the step that preempts."""
    requests = [request(f"r{i}", PROMPT[i:] + PROMPT[:i], 40) for i in range(3)]
    known = texts(llama, requests)
    oracle = Oracle(known)
    engine = build(llama, oracle, m=3, max_model_len=64, kv_cache_memory="96KiB")
    outcomes = run(engine, requests)
    assert engine.stats.preemptions > 0
    assert [each.prompt_ids + outcomes[each.request_id].token_ids for each in requests] == known
    assert not oracle.held


# ---- models and drafters that fail ----

POISON = 99


@pytest.fixture(scope="module")
def poisoned(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model that cannot read token 99. Its head is not tied, so it can say it."""
    model = tiny_model(head_dim=32)
    with torch.no_grad():
        model.get_input_embeddings().weight[POISON] = torch.nan
    return save_tiny(tmp_path_factory.mktemp("models") / "poisoned", model)


@pytest.mark.parametrize(
    ("dtype", "backend"), [("float32", "native"), ("bfloat16", "native"), ("float32", "torch")]
)
def test_unusable_logits_end_their_own_request_only(poisoned: Path, dtype: str, backend: str) -> None:
    """S11: in a short prompt, in an early chunk of a long one; then others inherit the blocks, but not what
    is in them."""
    options: dict[str, Any] = {"attention_backend": backend}
    healthy = [
        request(f"r{i}", [token % POISON for token in prompt], 12, stop_token_ids=frozenset({POISON}))
        for i, prompt in enumerate(OTHERS)
    ]
    expected = [plain(poisoned, each, dtype, **options) for each in healthy]
    known = [each.prompt_ids + output for each, output in zip(healthy, expected, strict=True)]
    sick = [request("short", (1, POISON, 2)), request("long", (*PROMPT[:5], POISON, *PROMPT * 3), 12)]
    options |= {"max_num_batched_tokens": 32, "kv_cache_memory": "192KiB", "max_model_len": 96}
    engine = build(poisoned, Adversary(known, 0, POISON), dtype, **options)
    for _ in range(2):
        outcomes = run(engine, [healthy[0], sick[0], *healthy[1:3], sick[1], *healthy[3:]])
        for name in ("short", "long"):
            assert outcomes[name].reason is FinishReason.ERROR
            assert outcomes[name].error == NON_FINITE
            assert outcomes[name].token_ids == ()
            assert outcomes[name].cached_tokens == 0
        assert [outcomes[each.request_id].token_ids for each in healthy] == expected


def test_unusable_logits_on_an_accepted_path_end_the_request_behind_it(poisoned: Path) -> None:
    """S11: what was accepted before is said, and nothing else."""
    said = next(
        (params, output)
        for params in ({"temperature": 2.0, "seed": seed} for seed in range(100))
        if POISON in (output := plain(poisoned, request("r", PROMPT[:6], 30, **params)))[3:]
    )
    params, output = said
    assert output[-1] == POISON, "plain decoding says it, cannot read it, and ends"
    oracle = Oracle([PROMPT[:6] + output])
    outcome = run(build(poisoned, oracle, m=16), [request("r", PROMPT[:6], 30, **params)])["r"]
    assert outcome.token_ids == output
    assert outcome.reason is FinishReason.ERROR
    assert not oracle.held


@pytest.mark.parametrize("stop", [frozenset(), frozenset({POISON})])
def test_nobody_begins_with_what_could_not_be_read(poisoned: Path, stop: frozenset[int]) -> None:
    """Not even where the text ended in time: its last token was a draft, so its KV is there."""
    prompt = tuple(token % POISON for token in PROMPT)
    params, output = next(
        (params, output)
        for params in ({"temperature": 2.0, "seed": seed} for seed in range(100))
        if POISON in (output := plain(poisoned, request("r", prompt, 30, **params)))[3:]
    )
    engine = build(poisoned, Oracle([prompt + output]), m=16)
    each = request("r", prompt, 30, stop_token_ids=stop, **params)
    for _ in range(2):
        outcome = run(engine, [each])["r"]
        assert outcome.token_ids == output
        assert outcome.reason is (FinishReason.STOP if stop else FinishReason.ERROR)
        assert outcome.cached_tokens == 0


@pytest.mark.parametrize("backend", ["native", "torch"])
def test_a_rejected_draft_that_the_model_cannot_read_does_no_harm(poisoned: Path, backend: str) -> None:
    requests = [request(f"r{seed}", PROMPT[:6], 20, temperature=1.0, seed=seed) for seed in range(8)]
    known = [
        text
        for text in texts(poisoned, requests, attention_backend=backend)
        if len(text) == 26 and POISON not in text
    ]
    assert len(known) > 1
    outcomes = run(build(poisoned, Tempting(known), attention_backend=backend), requests)
    for text in known:
        outcome = next(o for o in outcomes.values() if PROMPT[:6] + o.token_ids == text)
        assert outcome.stats.accepted_tokens > 5
        assert outcome.reason is FinishReason.LENGTH


class Tempting(Oracle):
    """The answer, each of its tokens beside one that must not be read."""

    def _tree(self, seq_id: int, tokens: list[int], max_nodes: int, max_depth: int) -> DraftTree:
        answer = self._answer_to(tokens)[: max_nodes // 2]
        drafted = [token for right in answer for token in (POISON, right)]
        parents = [parent for depth in range(len(answer)) for parent in [max(2 * depth - 1, ROOT)] * 2]
        return DraftTree.build(seq_id, len(tokens), drafted, parents, np.full(len(drafted), -0.1))


class Broken(Drafter):
    """Raises whenever it is called, or whenever it is asked for trees."""

    def __init__(self, everywhere: bool) -> None:
        self.everywhere = everywhere

    def open(self, message: Open) -> None:
        if self.everywhere:
            raise RuntimeError("open failed")

    def propose(self, message: Propose) -> Proposal:
        raise RuntimeError("propose failed")

    def close(self, message: Close) -> None:
        if self.everywhere:
            raise RuntimeError("close failed")


@pytest.mark.parametrize("everywhere", [True, False])
def test_a_drafter_that_raises_costs_only_speed(
    llama: Path, everywhere: bool, caplog: pytest.LogCaptureFixture
) -> None:
    requests = [request(f"r{i}", prompt, 12) for i, prompt in enumerate(OTHERS)]
    outcomes = run(build(llama, ColocatedChannel(Broken(everywhere))), requests)
    for each in requests:
        assert outcomes[each.request_id].token_ids == plain(llama, each)
        assert outcomes[each.request_id].stats.draft_tokens == 0
    assert "drafting failed" in caplog.text


@dataclass
class Forgetful(DraftChannel):
    """Answers nothing, or that it does not know anybody."""

    pleads: bool
    opens: int = 0
    asked: tuple[SeqKey, ...] = ()

    def submit(self, opens: Sequence[Open], propose: Propose) -> None:
        self.opens += len(opens)
        self.asked = tuple(extend.key for extend in propose.extends)
        starts = {extend.start == 0 for extend in propose.extends}
        assert starts == {bool(opens)}, "an opened sequence is told from its start"

    def collect(self) -> Proposal:
        return Proposal((), self.asked if self.pleads else (), 0.0)

    def close(self, message: Close) -> None: ...


@pytest.mark.parametrize("pleads", [True, False])
def test_a_drafter_that_never_answers_costs_only_speed(llama: Path, pleads: bool) -> None:
    channel = Forgetful(pleads)
    outcome = run(build(llama, channel), [request("r", PROMPT, 12)])["r"]
    assert outcome.token_ids == plain(llama, request("r", PROMPT, 12))
    assert channel.opens == (10 if pleads else 1)  # nothing is asked before the first token or for the last


def test_prompt_lookup_drafts_what_it_has_seen(llama: Path) -> None:
    """The real drafter on a text that the model itself keeps repeating."""
    text = PROMPT + plain(llama, request("r", PROMPT, 60))
    again = request("again", (*text, *PROMPT), 60)
    channel = ColocatedChannel(PromptLookupDrafter(SpeculationConfig(min_path_value=0.0)))
    outcome = run(build(llama, channel), [again])["again"]
    assert outcome.token_ids == plain(llama, again)
    assert outcome.stats.accepted_tokens > 0


# ---- the target's distribution ----


@pytest.mark.parametrize("filters", [{}, {"temperature": 0.7, "top_k": 5}])
def test_sampled_frequencies_are_those_of_the_model(tmp_path: Path, filters: dict[str, Any]) -> None:
    """Invariant 2: the second and third token, half of them from drafts, against transformers."""
    folder = save_tiny(tmp_path, tiny_model(seed=2, vocab_size=8))
    engine = build(folder, Eager(vocab=8), m=12, max_num_seqs=64)
    params = [{"temperature": 1.0, "seed": seed, **filters} for seed in range(1600)]
    outcomes = run(engine, [request(f"r{each['seed']}", (1, 2), 6, **each) for each in params])
    counts = np.zeros((8, 8))
    for outcome in outcomes.values():
        counts[outcome.token_ids[1:3]] += 1
    expected = 1600 * pair_probabilities(folder, filters)
    assert counts[expected == 0].sum() == 0
    likely = expected >= 5
    observed, anticipated = (np.append(n[likely], n[~likely].sum()) for n in (counts, expected))
    filled = anticipated > 0
    assert stats.chisquare(observed[filled], anticipated[filled]).pvalue > 1e-3
    assert engine.stats.speculation.tau > 1.2


class Eager(DraftChannel):
    """Drafts any words at all, two levels deep."""

    def __init__(self, vocab: int) -> None:
        self.vocab = vocab
        self.rng = np.random.default_rng(0)

    def submit(self, opens: Sequence[Open], propose: Propose) -> None:
        asked = zip(propose.extends, propose.max_nodes, strict=True)
        trees = (self._tree(extend.key.seq_id, extend.base_len, most) for extend, most in asked)
        self.answer = Proposal(tuple(trees), (), 0.0)

    def collect(self) -> Proposal:
        return self.answer

    def close(self, message: Close) -> None: ...

    def _tree(self, seq_id: int, base_len: int, max_nodes: int) -> DraftTree:
        broad = self.rng.permutation(self.vocab)[: -(-2 * max_nodes // 3)]
        deep = self.rng.permutation(self.vocab)[: max_nodes - len(broad)]
        parents = [ROOT] * len(broad) + [0] * len(deep)
        return DraftTree.build(seq_id, base_len, [*broad, *deep], parents, np.full(len(parents), -0.1))


def pair_probabilities(folder: Path, filters: dict[str, Any]) -> NDArray[np.float64]:
    """[8, 8]: of the second and third token after the prompt (1, 2)."""
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    contexts = torch.tensor([(1, 2, a, b) for a in range(8) for b in range(8)])
    with torch.inference_mode():
        logits = model(contexts).logits[:, 1:].double() / filters.get("temperature", 1.0)
    if "top_k" in filters:
        least = logits.topk(filters["top_k"]).values[..., -1:]
        logits = logits.masked_fill(logits < least, -torch.inf)
    first, second, third = logits.softmax(-1).view(8, 8, 3, 8).unbind(2)
    return torch.einsum("a,ab,abc->bc", first[0, 0], second[:, 0], third).numpy()

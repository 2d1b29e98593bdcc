"""The thread around the engine, with a real engine of a tiny model."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path
from queue import Queue

import pytest

from serving.config import ServeConfig
from serving.engine.build import build_engine
from serving.engine.engine import Engine
from serving.errors import ModelLoadError, RankLostError
from serving.replicas.step_loop import StepLoop
from serving.types import FinishReason, GenerationRequest, SamplingParams, TokenDelta

WAIT_S = 60.0  # until something counts as hanging, however busy the machine is


class Harness:
    """A running loop whose deltas land in a queue."""

    def __init__(self, model: Path) -> None:
        self.model = model
        self.deltas: Queue[TokenDelta] = Queue()
        self.died = threading.Event()
        self.loop = StepLoop(self.build, self.publish, self.died.set)
        self.card = self.loop.start().result(WAIT_S)

    def build(self) -> Engine:
        settings = {
            "model": str(self.model),
            "dtype": "float32",
            "engine": {"kv_cache_memory": "2MiB", "num_threads": 1},
        }
        return build_engine(ServeConfig.load(settings, environ={}), None, "test")

    def publish(self, deltas: list[TokenDelta]) -> None:
        for delta in deltas:
            self.deltas.put(delta)

    def hold(self) -> threading.Semaphore:
        """From now on each step has to be let through by a release."""
        steps = threading.Semaphore(0)

        def held(engine: Engine) -> None:
            step = engine.step

            def one_by_one() -> list[TokenDelta]:
                assert steps.acquire(timeout=WAIT_S)
                return step()

            engine.step = one_by_one  # type: ignore[method-assign]

        self.loop.ask(held).result(WAIT_S)
        return steps

    def until_final(self, request_id: str) -> list[TokenDelta]:
        got = []
        while not got or got[-1].finish_reason is None:
            delta = self.deltas.get(timeout=WAIT_S)
            if delta.request_id == request_id:
                got.append(delta)
        return got


def request(request_id: str, max_tokens: int = 20, prompt: tuple[int, ...] = (70, 71)) -> GenerationRequest:
    return GenerationRequest(request_id, prompt, SamplingParams(max_tokens=max_tokens, seed=1))


@pytest.fixture
def running(tiny_model: Path) -> Iterator[Harness]:
    harness = Harness(tiny_model)
    yield harness
    # Only a step that fails ends the loop.
    harness.loop.ask(lambda engine: setattr(engine, "step", _fail))
    harness.loop.add(request("last"))
    assert harness.died.wait(WAIT_S)


def _fail() -> list[TokenDelta]:
    raise RuntimeError("a bug")


def test_a_request_ends_with_one_final_delta(running: Harness) -> None:
    running.loop.add(request("a"))
    deltas = running.until_final("a")
    assert sum(len(delta.token_ids) for delta in deltas) == 20
    assert deltas[-1].finish_reason is FinishReason.LENGTH
    assert deltas[-1].stats is not None
    running.loop.ask(lambda engine: engine.check_integrity()).result(WAIT_S)  # it had another turn
    assert running.deltas.empty()


def test_the_engine_is_described_when_it_is_built(running: Harness) -> None:
    assert running.card.max_model_len == 2048


def test_requests_that_come_while_others_run_join_them(running: Harness) -> None:
    steps = running.hold()
    running.loop.add(request("long", max_tokens=100))
    steps.release()
    assert running.deltas.get(timeout=WAIT_S).request_id == "long"
    running.loop.add(request("short"))
    steps.release(30)
    running.until_final("short")
    steps.release(80)
    assert running.until_final("long")[-1].finish_reason is FinishReason.LENGTH


def test_an_aborted_request_ends_and_leaves_nothing_behind(running: Harness) -> None:
    steps = running.hold()
    running.loop.add(request("a"))
    steps.release()
    running.deltas.get(timeout=WAIT_S)
    running.loop.abort("a")
    steps.release(2)
    assert running.until_final("a")[-1].finish_reason is FinishReason.ABORT
    running.loop.ask(lambda engine: engine.check_integrity()).result(WAIT_S)


def test_a_request_that_cannot_run_fails_alone(running: Harness) -> None:
    running.loop.add(request("good", max_tokens=200))
    running.loop.add(request("bad", prompt=(70,) * 3000))
    assert running.until_final("bad")[-1].finish_reason is FinishReason.ERROR
    running.loop.add(request("later"))
    assert running.until_final("later")[-1].finish_reason is FinishReason.LENGTH


def test_an_answer_may_be_an_exception(running: Harness) -> None:
    question = running.loop.ask(lambda engine: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        question.result(WAIT_S)
    assert running.loop.ask(lambda engine: 7).result(WAIT_S) == 7


def test_the_age_of_a_step_is_seen_while_it_runs(running: Harness) -> None:
    assert running.loop.step_age_s == 0
    inside, go = threading.Event(), threading.Event()

    def slow() -> list[TokenDelta]:
        inside.set()
        assert go.wait(WAIT_S)
        return _fail()

    running.loop.ask(lambda engine: setattr(engine, "step", slow)).result(WAIT_S)
    running.loop.add(request("a"))
    assert inside.wait(WAIT_S)
    young = running.loop.step_age_s
    time.sleep(0.01)
    assert running.loop.step_age_s >= young + 0.01
    go.set()
    assert running.died.wait(WAIT_S)
    assert running.loop.step_age_s == 0


def test_a_failing_step_ends_every_running_request(running: Harness) -> None:
    steps = running.hold()
    for request_id in ("a", "b"):
        running.loop.add(request(request_id))
    steps.release()
    running.deltas.get(timeout=WAIT_S)
    running.loop.ask(lambda engine: setattr(engine, "step", _fail))
    steps.release()
    assert running.died.wait(WAIT_S)
    final = [delta for delta in running.deltas.queue if delta.finish_reason is not None]
    assert sorted(delta.request_id for delta in final) == ["a", "b"]
    assert {delta.finish_reason for delta in final} == {FinishReason.ERROR}


def test_a_lost_rank_is_no_requests_fault(running: Harness) -> None:
    """Nothing final is said of them: they go on elsewhere when this process has ended."""
    steps = running.hold()
    running.loop.add(request("a"))
    steps.release()
    running.deltas.get(timeout=WAIT_S)
    running.loop.ask(lambda engine: setattr(engine, "step", _lose_a_rank))
    steps.release()
    assert running.died.wait(WAIT_S)
    assert not [delta for delta in running.deltas.queue if delta.finish_reason is not None]


def _lose_a_rank() -> list[TokenDelta]:
    raise RankLostError("lost")


def test_a_model_that_cannot_be_loaded_is_reported(tmp_path: Path) -> None:
    with pytest.raises(ModelLoadError):
        Harness(tmp_path / "nothing")

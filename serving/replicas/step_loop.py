"""The thread that owns the engine: reads what came in, steps, publishes what came out."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, TypeVar

from serving.errors import RankLostError
from serving.replicas.load import VerifierMeter
from serving.types import FinishReason, GenerationRequest, ModelCard, TokenDelta

if TYPE_CHECKING:  # the verifier's front imports this file and must stay free of torch
    from serving.engine.engine import Engine

logger = logging.getLogger(__name__)
Answer = TypeVar("Answer")


class StepLoop:
    """Runs one engine in a thread of its own; every method here may be called from any other thread.

    `publish` is called in the loop's thread with the deltas of each step. When a step raises, every request
    that is running gets a final error, `died` is called, and the thread ends: an engine whose step failed
    half-way cannot be trusted with the next one. Where another rank is lost, no request gets an error: none
    is at fault, and they go on elsewhere.
    """

    def __init__(
        self,
        build: Callable[[], Engine],
        publish: Callable[[list[TokenDelta]], None],
        died: Callable[[], None],
    ) -> None:
        self._build = build
        self._publish = publish
        self._died = died
        self._inbox: SimpleQueue[Callable[[Engine], None]] = SimpleQueue()
        self._running: set[str] = set()
        self._step_began: float | None = None
        self._meter = VerifierMeter()
        self._built: Future[ModelCard] = Future()

    def start(self) -> Future[ModelCard]:
        """Start the thread. The future is done when the engine is built, or holds why it could not be."""
        threading.Thread(target=self._run, name="step-loop", daemon=True).start()
        return self._built

    def add(self, request: GenerationRequest) -> None:
        self._inbox.put(lambda engine: self._add(engine, request))

    def abort(self, request_id: str) -> None:
        self._inbox.put(lambda engine: engine.abort(request_id))

    def ask(self, question: Callable[[Engine], Answer]) -> Future[Answer]:
        """Run `question` between two steps; its result or exception goes into the future."""
        future: Future[Answer] = Future()
        self._inbox.put(lambda engine: _resolve(future, lambda: question(engine)))
        return future

    @property
    def step_age_s(self) -> float:
        """Seconds since the current step began; 0 between steps. Never blocks."""
        began = self._step_began
        return 0.0 if began is None else time.monotonic() - began

    def load(self) -> Future[dict[str, float]]:
        """What the number of verifiers follows, since the last call (VerifierMeter.take)."""
        return self.ask(self._load)

    def _run(self) -> None:
        try:
            engine = self._build()
            self._built.set_result(engine.card())
        except BaseException as error:
            self._built.set_exception(error)
            return
        try:
            while True:
                self._read_inbox(engine)
                self._emit(self._step(engine))
        except RankLostError:
            logger.exception("this process ends")
            self._died()
        except BaseException:
            logger.exception("the engine failed; this process ends")
            self._give_up()
            self._died()

    def _read_inbox(self, engine: Engine) -> None:
        """Carry out every command that has come in; sleep until there is one when there is nothing to do."""
        if not engine.has_work:
            self._inbox.get()(engine)
        while True:
            try:
                command = self._inbox.get_nowait()
            except Empty:
                return
            command(engine)

    def _step(self, engine: Engine) -> list[TokenDelta]:
        if not engine.has_work:
            return []
        self._step_began = began = time.monotonic()
        try:
            return engine.step()
        finally:
            self._step_began = None
            self._meter.stepped(time.monotonic() - began, engine.last_report.drafts_wanted)

    def _add(self, engine: Engine, request: GenerationRequest) -> None:
        self._running.add(request.request_id)
        self._meter.arrived(request.request_id)
        engine.add(request)

    def _emit(self, deltas: list[TokenDelta]) -> None:
        self._running.difference_update(d.request_id for d in deltas if d.finish_reason is not None)
        if deltas:
            self._meter.delivered(deltas)
            self._publish(deltas)

    def _load(self, engine: Engine) -> dict[str, float]:
        scheduler = engine.scheduler
        return self._meter.take() | {
            "running": float(scheduler.num_running),
            "waiting": float(scheduler.num_waiting),
            "kv_usage": scheduler.blocks.usage,
        }

    def _give_up(self) -> None:
        """End every request the engine holds; one in the inbox ends when its caller sees this process die."""
        error = "the engine failed"
        self._emit([TokenDelta(name, (), FinishReason.ERROR, error) for name in self._running])


def _resolve(future: Future[Answer], question: Callable[[], Answer]) -> None:
    try:
        future.set_result(question())
    except BaseException as error:
        future.set_exception(error)

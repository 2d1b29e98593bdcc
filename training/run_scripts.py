"""Many scripts at once on one engine: whatever they ask is answered in a common batch."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from serving.engine.engine import Engine
from serving.types import FinishReason, GenerationRequest, TokenDelta
from training.data import Conversation
from training.scripts import Ask, Said, Script


class Numbered(NamedTuple):
    number: int
    script: Script


class Outcome(NamedTuple):
    """conversation: None when the script gave up or the engine refused what it asked."""

    number: int
    conversation: Conversation | None


@dataclass(slots=True)
class _Running:
    number: int
    script: Script
    token_ids: list[int] = field(default_factory=list)


def run_scripts(engine: Engine, scripts: Iterator[Numbered], concurrency: int) -> Iterator[Outcome]:
    """Outcomes in the order in which they come about."""
    running: dict[str, _Running] = {}
    while True:
        while len(running) < concurrency and (new := next(scripts, None)) is not None:
            state = _Running(*new)
            # A script always asks once before it ends.
            _submit(engine, running, state, next(new.script))
        if not running:
            return
        for delta in engine.step():
            state = running[delta.request_id]
            state.token_ids += delta.token_ids
            if delta.finish_reason is not None:
                del running[delta.request_id]
                yield from _go_on(engine, running, state, delta)


def _submit(engine: Engine, running: dict[str, _Running], state: _Running, ask: Ask) -> None:
    state.token_ids = []
    running[str(state.number)] = state
    engine.add(GenerationRequest(str(state.number), ask.prompt_ids, ask.params))


def _go_on(
    engine: Engine, running: dict[str, _Running], state: _Running, last: TokenDelta
) -> Iterator[Outcome]:
    """Tell the script what was said; it asks again, or ends."""
    if last.finish_reason is FinishReason.ERROR:
        yield Outcome(state.number, None)
        return
    try:
        said = Said(tuple(state.token_ids), last.finish_reason is FinishReason.STOP)
        _submit(engine, running, state, state.script.send(said))
    except StopIteration as end:
        yield Outcome(state.number, end.value)

"""Loads everything that is compared: the same model, dtype and prompts for each. Imports torch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import Any

from benchmarks.answers import Method
from benchmarks.asked import Asked, ask, mixed
from benchmarks.identity import Comparer
from benchmarks.in_process import InProcess
from benchmarks.margins import MarginProbe
from benchmarks.over_http import OverHttp
from benchmarks.questions import Question
from benchmarks.reference import Loaded, open_fastest
from benchmarks.speed import tau
from benchmarks.speed.methods import (
    EAGLE3,
    EAGLE3_COLOCATED_HTTP,
    EAGLE3_LOOKUP,
    EAGLE3_POOL_HTTP,
    PLAIN,
    PLAIN_HTTP,
    POOL_HTTP,
    PROMPT_LOOKUP,
    TRANSFORMERS,
    WITH_HEAD,
)
from benchmarks.speed.options import Options
from benchmarks.stack import Stack
from benchmarks.target import Target
from serving.config import ServeConfig
from serving.router.model import ServedModel
from serving.router.tokenizer import Tokenizer


@dataclass(frozen=True, slots=True)
class Bench:
    """What is compared. methods: the first is plain, and all answers are compared with its own.

    wide: the methods with a head again, on engines for trees of any size (section `tau`).
    """

    dtype: str
    methods: tuple[Method, ...]
    wide: tuple[Method, ...]
    tasks: dict[str, list[Asked]]
    comparer: Comparer


def open_bench(
    options: Options,
    settings: Mapping[str, Any],
    questions: Mapping[str, Sequence[Question]],
    environment: dict[str, str],
    resources: ExitStack,
) -> Bench:
    """Loads models and starts other processes, which `resources` ends; they inherit `environment`.

    Raises BenchmarkError, and what loading a model raises.
    """
    target = Target.of(ServeConfig.load(dict(settings)))
    served, tokenizer = ServedModel(target.card), Tokenizer(target.card.tokenizer_json)
    tasks = {task: ask(task, each, served, options.max_tokens) for task, each in questions.items()}
    settings = {**settings, "dtype": target.dtype}
    opener = _Opener(options, settings, environment, resources)
    methods: list[Method] = []
    margin = None
    if "engine" in options.through:
        engine = opener.in_process()
        margin = MarginProbe(engine.engine).margin
        methods += [
            Method(PLAIN, engine, 0, PLAIN, "engine"),
            Method(PROMPT_LOOKUP, engine, None, PLAIN, "engine"),
            *(
                Method(name, opener.in_process(name), None, PLAIN, "engine")
                for name in opener.heads("engine")
            ),
        ]
    if "http" in options.through:
        client = opener.over_http()
        methods += [
            Method(PLAIN_HTTP, client, 0, PLAIN_HTTP, "http"),
            Method(POOL_HTTP, client, None, PLAIN_HTTP, "http"),
            *(
                Method(name, opener.over_http(name), None, PLAIN_HTTP, "http")
                for name in opener.heads("http")
            ),
        ]
    if options.with_transformers:
        loaded = Loaded(str(target.folder), target.dtype, target.threads, target.card.eos_token_ids)
        trial = mixed(tasks, 1)[0].prompt
        reference = open_fastest(loaded, tokenizer, options.max_tokens, trial, environment, resources)
        methods.append(Method(TRANSFORMERS, reference, 0, methods[0].name, "transformers"))
    wide = opener.wide() if options.measures_tau else ()
    return Bench(target.dtype, tuple(methods), wide, tasks, Comparer(tokenizer.decode, margin))


# What each method with a head changes in the service's settings.
_HEAD_SETTINGS: dict[str, dict[str, Any]] = {
    EAGLE3: {"speculation.with_prompt_lookup": False},
    EAGLE3_LOOKUP: {},
    EAGLE3_POOL_HTTP: {},
    EAGLE3_COLOCATED_HTTP: {"speculation.placement": "colocated"},
}


@dataclass(frozen=True, slots=True)
class _Opener:
    """Makes systems. They differ in how they draft alone."""

    options: Options
    settings: Mapping[str, Any]
    environment: dict[str, str]
    resources: ExitStack

    def heads(self, through: str) -> tuple[str, ...]:
        return WITH_HEAD[through] if self.options.has_head else ()

    def in_process(self, method: str = PROMPT_LOOKUP) -> InProcess:
        return InProcess(ServeConfig.load(self._settings(method)), self.options.max_tokens)

    def wide(self) -> tuple[Method, ...]:
        opener = replace(self, settings={**self.settings, **tau.SETTINGS})
        return tuple(
            Method(name, opener.in_process(name), None, name, "engine") for name in WITH_HEAD["engine"]
        )

    def over_http(self, method: str = POOL_HTTP) -> OverHttp:
        stack = self.resources.enter_context(Stack(self._settings(method), self.environment))
        return self.resources.enter_context(OverHttp(stack, self.options.max_tokens))

    def _settings(self, method: str) -> dict[str, Any]:
        if method not in _HEAD_SETTINGS:
            return dict(self.settings)
        head = {"speculation.method": "eagle3", "speculation.head": self.options.head}
        return {**self.settings, **head, **_HEAD_SETTINGS[method]}

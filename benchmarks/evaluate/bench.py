"""The engines that answer, one per way to draft, and what is known of them. Imports torch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

from benchmarks.answers import Answer, Prompt
from benchmarks.evaluate.methods import Method
from benchmarks.evaluate.options import Options
from benchmarks.identity import Comparer
from benchmarks.in_process import InProcess
from benchmarks.machine import describe
from benchmarks.margins import MarginProbe
from benchmarks.speed.methods import PLAIN
from serving.config import ServeConfig
from serving.engine.head import HeadFiles, uses_features
from serving.models.card import fingerprint
from serving.models.sources import resolve
from serving.router.model import ServedModel


@dataclass(frozen=True)
class Bench:
    """systems: by method's name."""

    options: Options
    methods: Sequence[Method]
    systems: dict[str, InProcess]

    @classmethod
    def open(cls, options: Options, methods: Sequence[Method]) -> Bench:
        """Raises what building an engine raises.

        An engine learns from its steps what a draft token is worth, so each method has its own.
        """
        systems = {method.name: InProcess(_config(options, method), options.max_tokens) for method in methods}
        return cls(options, methods, systems)

    @cached_property
    def served(self) -> ServedModel:
        return ServedModel(self.systems[PLAIN].engine.card())

    @cached_property
    def _probe(self) -> MarginProbe:
        return MarginProbe(self.systems[PLAIN].engine)

    def answer(self, method: str, prompt: Prompt, sampling: dict[str, Any]) -> Answer:
        (answer,) = self.systems[method].run([prompt], None, sampling).answers
        return answer

    def comparer(self, temperature: float, seed: int) -> Comparer:
        margin = partial(self._probe.margin, temperature=temperature, seed=seed)
        return Comparer(self.served.decode, margin)

    def settings(self) -> dict[str, Any]:
        """All that an answer or its time depends on."""
        machine = describe()["machine"]
        return {
            "model": self.options.model,
            "fingerprint": self.served.card.fingerprint,  # of weights and dtype
            "threads": _config(self.options, self.methods[0]).engine.threads,
            "max_tokens": self.options.max_tokens,
            "set": list(self.options.set),
            "methods": {method.name: self._described(method) for method in self.methods},
            "machine": {name: machine[name] for name in ("processor", "cores")},
        }

    def _described(self, method: Method) -> dict[str, Any]:
        """Settings, and the fingerprint of its network: a file may change under its name."""
        config = _config(self.options, method)
        target = resolve(config.model, config.cache_dir)
        drawn: dict[str, Any] = method.settings | {"speculation.mode": config.speculation.chosen_mode}
        if uses_features(config.speculation):
            drawn["fingerprint"] = HeadFiles.find(config, target).fingerprint
        elif config.speculation.draft_model is not None:
            folder = resolve(config.speculation.draft_model, config.cache_dir)
            drawn["fingerprint"] = fingerprint(folder, "")
        return drawn


def _config(options: Options, method: Method) -> ServeConfig:
    return ServeConfig.load(options.settings | method.settings)

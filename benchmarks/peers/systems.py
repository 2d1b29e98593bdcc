"""The systems that are compared: the same model, dtype and threads for each. Imports torch."""

from __future__ import annotations

import os
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

from benchmarks.answers import Method, Prompt
from benchmarks.errors import BenchmarkError
from benchmarks.in_process import InProcess
from benchmarks.peers import vllm
from benchmarks.peers.methods import (
    ASSISTED,
    CANOPY,
    CANOPY_PLAIN,
    TRANSFORMERS,
    TRANSFORMERS_LOOKUP,
    VLLM,
    VLLM_EAGLE3,
)
from benchmarks.peers.options import Options
from benchmarks.reference import Loaded, open_fastest
from benchmarks.target import Target
from serving.config import ServeConfig
from serving.models.sources import resolve, resolve_head
from serving.router.tokenizer import Tokenizer


@dataclass
class Systems:
    """Who takes part. notes: about those that do not, and versions.

    Loads models and starts other processes, which `resources` ends.
    """

    options: Options
    target: Target
    resources: ExitStack
    methods: list[Method] = field(default_factory=list)
    notes: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._config = ServeConfig.load(self.options.settings)
        self._tokenizer = Tokenizer(self.target.card.tokenizer_json)

    def open(self, trial: Prompt) -> None:
        """Raises BenchmarkError when vLLM does not start; that it refuses our head is a note."""
        self.methods = [
            Method(CANOPY_PLAIN, self._ours({"speculation.mode": "off"}), 0, CANOPY_PLAIN, "engine"),
            Method(CANOPY, self._ours({}), None, CANOPY_PLAIN, "engine"),
        ]
        self._open_transformers(trial)
        if self.options.vllm is None:
            self.notes[VLLM] = "not measured: --vllm names no environment"
        else:
            self._open_vllm(self.options.vllm, trial)

    def _ours(self, settings: dict[str, Any]) -> InProcess:
        """With an engine of its own: it learns from its steps what a draft token is worth."""
        settings = self.options.settings | {"dtype": self.target.dtype} | settings
        return InProcess(ServeConfig.load(settings), self.options.max_tokens)

    def _open_transformers(self, trial: Prompt) -> None:
        target, small = self.target, self.options.draft_model
        assistant = None if small is None else str(resolve(small, self._config.cache_dir))
        loaded = Loaded(
            str(target.folder), target.dtype, target.threads, target.card.eos_token_ids, assistant
        )
        system = open_fastest(
            loaded, self._tokenizer, self.options.max_tokens, trial, dict(os.environ), self.resources
        )
        drafts: dict[str, int | None] = {TRANSFORMERS: 0, TRANSFORMERS_LOOKUP: self.options.peer_draft_tokens}
        if assistant is not None:
            drafts[ASSISTED] = None
        self.methods += [
            Method(name, system, draft_tokens, TRANSFORMERS, "transformers")
            for name, draft_tokens in drafts.items()
        ]

    def _open_vllm(self, python: str, trial: Prompt) -> None:
        target = self.target
        loaded = vllm.Loaded(
            str(target.folder),
            target.dtype,
            target.card.eos_token_ids,
            target.card.max_model_len,
            max(self.options.batch),
        )
        plain = self._fastest_vllm(python, loaded, trial)
        self.methods.append(Method(VLLM, plain, 0, VLLM, "vllm"))
        self.notes[VLLM] = f"version {plain.version}, VLLM_CPU_OMP_THREADS_BIND={plain.binding}"
        speculation = self._config.speculation
        if speculation.method != "eagle3":
            return
        assert speculation.head is not None
        head = resolve_head(speculation.head, self._config.cache_dir)
        try:
            chain = loaded.with_eagle3(head, self.options.peer_draft_tokens)
            drafted = self._start_vllm(python, chain, plain.binding)
        except BenchmarkError as error:
            self.notes[VLLM_EAGLE3] = f"not measured: {str(error).strip().splitlines()[-1]}"
            return
        self.methods.append(Method(VLLM_EAGLE3, drafted, None, VLLM, "vllm"))

    def _fastest_vllm(self, python: str, loaded: vllm.Loaded, trial: Prompt) -> vllm.Vllm:
        """With whichever binding is faster here and now."""
        candidates = {self._start_vllm(python, loaded, binding): 0.0 for binding in vllm.bindings()}
        for candidate in candidates:
            candidate.run([trial], 0)  # for warming up
            candidates[candidate] = candidate.run([trial], 0).tokens_per_s
        fastest = max(candidates, key=candidates.__getitem__)
        for candidate in candidates.keys() - {fastest}:
            candidate.stop()
        return fastest

    def _start_vllm(self, python: str, loaded: vllm.Loaded, binding: str) -> vllm.Vllm:
        system = vllm.Vllm(python, loaded, self._tokenizer, self.options.max_tokens, binding)
        return self.resources.enter_context(system)

"""Loads everything that is compared: the same model, dtype and prompts for each. Imports torch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.answers import Method
from benchmarks.in_process import InProcess
from benchmarks.margins import MarginProbe
from benchmarks.over_http import OverHttp
from benchmarks.questions import Question
from benchmarks.reference import Loaded, open_fastest
from benchmarks.speed.asked import Asked, ask, mixed
from benchmarks.speed.identity import Comparer
from benchmarks.speed.methods import PLAIN, PLAIN_HTTP, POOL_HTTP, PROMPT_LOOKUP, TRANSFORMERS
from benchmarks.speed.options import Options
from benchmarks.stack import Stack
from serving.config import ServeConfig
from serving.engine.placement import choose_placement
from serving.models.architecture import Architecture
from serving.models.card import read_card
from serving.models.sources import resolve
from serving.router.model import ServedModel
from serving.router.tokenizer import Tokenizer
from serving.types import ModelCard


@dataclass(frozen=True, slots=True)
class Bench:
    """What is compared. methods: the first is plain, and all answers are compared with its own."""

    dtype: str
    methods: tuple[Method, ...]
    tasks: dict[str, list[Asked]]
    comparer: Comparer


@dataclass(frozen=True, slots=True)
class _Target:
    """The model that every method runs, its dtype decided."""

    folder: Path
    dtype: str
    threads: int
    card: ModelCard


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
    target = _target(ServeConfig.load(dict(settings)))
    served, tokenizer = ServedModel(target.card), Tokenizer(target.card.tokenizer_json)
    tasks = {task: ask(task, each, served, options.max_tokens) for task, each in questions.items()}
    settings = {**settings, "dtype": target.dtype}
    methods: list[Method] = []
    margin = None
    if "engine" in options.through:
        engine = InProcess(ServeConfig.load(settings), options.max_tokens)
        margin = MarginProbe(engine.engine).margin
        methods += [Method(PLAIN, engine, 0, PLAIN), Method(PROMPT_LOOKUP, engine, None, PLAIN)]
    if "http" in options.through:
        stack = resources.enter_context(Stack(settings, environment))
        client = resources.enter_context(OverHttp(stack, options.max_tokens))
        methods += [Method(PLAIN_HTTP, client, 0, PLAIN_HTTP), Method(POOL_HTTP, client, None, PLAIN_HTTP)]
    if options.with_transformers:
        loaded = Loaded(str(target.folder), target.dtype, target.threads, target.card.eos_token_ids)
        trial = mixed(tasks, 1)[0].prompt
        reference = open_fastest(loaded, tokenizer, options.max_tokens, trial, environment, resources)
        methods.append(Method(TRANSFORMERS, reference, 0, methods[0].name))
    return Bench(target.dtype, tuple(methods), tasks, Comparer(tokenizer.decode, margin))


def _target(config: ServeConfig) -> _Target:
    folder = resolve(config.model, config.cache_dir)
    architecture = Architecture.from_folder(folder)
    placement = choose_placement(config, architecture)
    limit = config.engine.max_model_len or architecture.max_position_embeddings
    card = read_card(folder, config.model_name, architecture, limit, placement.dtype_name)
    return _Target(folder, placement.dtype_name, placement.threads, card)

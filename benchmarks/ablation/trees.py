"""tau of trees of one size, grown with and without value and reranking, by the real drafter and verifier."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.ablation.asking import Questions, Taus, answer
from benchmarks.ablation.growth import FULL, VARIANTS, growth_of
from benchmarks.ablation.options import Options
from benchmarks.in_process import InProcess
from benchmarks.report import ALL_TASKS, Row
from benchmarks.stats import pooled, pooled_difference
from serving.config import ServeConfig
from serving.engine.build_drafter import build_network_drafter

SECTION = "ablation trees"


def measure(questions: Questions, options: Options) -> list[Row]:
    """Every variant at every size, on the same greedy answers."""
    return [row for beam in options.beam for row in _of_size(beam, questions, options)]


def _of_size(beam: int, questions: Questions, options: Options) -> Iterator[Row]:
    m = beam * options.depth
    taus = {variant: _answer(variant, beam, questions, options) for variant in VARIANTS}
    full = taus[FULL]
    for variant, own in taus.items():
        tau, more = pooled(own.parts), pooled_difference(own.parts, full.parts)
        same = sum(a == b for a, b in zip(own.answers, full.answers, strict=True))
        special = {
            "beam": beam,
            "depth": options.depth,
            "m": m,
            "tau_interval": list(tau[1:]),
            "vs_full": more.value,
            "vs_full_interval": list(more[1:]),
            "questions": len(own.parts),
            **own.as_json(),
        }
        yield Row(
            SECTION,
            ALL_TASKS,
            variant,
            1,
            tau=tau.value,
            identical=same / len(full.answers),
            special=special,
        )


def tree_config(beam: int, options: Options) -> ServeConfig:
    """Of trees of beam * depth nodes by the EAGLE-3 head."""
    return ServeConfig.load(
        {
            **options.settings,
            "speculation.method": "eagle3",
            "speculation.head": options.head,
            "speculation.beam": beam,
            "speculation.max_depth": options.depth,
            "speculation.num_speculative_tokens": beam * options.depth,
        }
    )


def _answer(variant: str, beam: int, questions: Questions, options: Options) -> Taus:
    config = tree_config(beam, options)
    drafter = build_network_drafter(config, growth_of(variant, beam))
    system = InProcess(config, options.max_tokens, drafter=drafter)
    return answer(system, questions, options, f"{variant}, m = {beam * options.depth}")

"""The ways to draft that are compared. How m is chosen is said by settings that all of them have."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from benchmarks.evaluate.options import Options
from benchmarks.speed.methods import EAGLE3, EAGLE3_LOOKUP, PLAIN, PROMPT_LOOKUP

DRAFT_MODEL = "draft_model"
EAGLE1 = "eagle1_static"
EAGLE2 = "eagle2_dynamic"

LEGEND = {
    PLAIN: "one token after the other",
    DRAFT_MODEL: "trees of a small model of its own",
    PROMPT_LOOKUP: "what followed the last tokens before, in prompt and answer",
    EAGLE1: "an EAGLE-1 head, trees of one shape",
    EAGLE2: "the same head, trees shaped by its confidence (EAGLE-2)",
    EAGLE3: "an EAGLE-3 head, trees shaped by its confidence",
    EAGLE3_LOOKUP: "EAGLE-3 merged with prompt lookup, the service's default",
}


@dataclass(frozen=True, slots=True)
class Method:
    """settings: what it adds to the options' own."""

    name: str
    settings: dict[str, Any]


def chosen(options: Options) -> list[Method]:
    """What there is a drafter for; plain is the first."""
    return list(_chosen(options))


def _chosen(options: Options) -> Iterator[Method]:
    alone = {"speculation.with_prompt_lookup": False}
    yield Method(PLAIN, {"speculation.method": "prompt_lookup", "speculation.mode": "off"})
    if options.draft_model is not None:
        small = {"speculation.method": "draft_model", "speculation.draft_model": options.draft_model}
        yield Method(DRAFT_MODEL, small | alone)
    yield Method(PROMPT_LOOKUP, {"speculation.method": "prompt_lookup"})
    if options.eagle1_head is not None:
        head = {"speculation.method": "eagle", "speculation.head": options.eagle1_head} | alone
        yield Method(EAGLE1, head | {"speculation.tree": "static"})
        yield Method(EAGLE2, head)
    if options.has_head:
        fused: dict[str, Any] = {"speculation.method": "eagle3", "speculation.head": options.head}
        yield Method(EAGLE3, fused | alone)
        yield Method(EAGLE3_LOOKUP, fused)

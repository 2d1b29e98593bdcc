"""Why our figures are as they are: written after looking, a paragraph each."""

from __future__ import annotations

SPEEDUPS: tuple[str, ...] = ()
TREES: tuple[str, ...] = ()
CONFIDENCE: tuple[str, ...] = ()
HEADS: tuple[str, ...] = ()
FEATURE_LOSS: tuple[str, ...] = ()
SCALING: tuple[str, ...] = ()
ALPHA: tuple[str, ...] = ()
THROUGHPUT: tuple[str, ...] = ()
PEERS: tuple[str, ...] = ()

"""Why our figures are as they are: written after looking, a paragraph each."""

from __future__ import annotations

SPEEDUPS: tuple[str, ...] = ()
TREES: tuple[str, ...] = ()
CONFIDENCE: tuple[str, ...] = ()
HEADS: tuple[str, ...] = ()
FEATURE_LOSS: tuple[str, ...] = ()
SCALING: tuple[str, ...] = ()
ALPHA: tuple[str, ...] = ()
THROUGHPUT: tuple[str, ...] = (
    """\
**Why** the lead ends at four requests here and not at 64: speculation spends arithmetic that decoding leaves
idle, and two cores leave little. For one request a verification of 16 rows takes 1.5 times one of a single
row; with several requests the rows of plain decoding have taken that room already. A fixed m then costs more
than it brings, here (0.31x to 0.75x) as for EAGLE in SGLang (0.88x); `auto` measures what a row costs and
decodes plainly instead.""",
)
PEERS: tuple[str, ...] = ()

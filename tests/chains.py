"""Draft trees without branches."""

from __future__ import annotations

from functools import cache

import numpy as np

from serving.spec.tree import ROOT, DraftTree


@cache
def chain(confidence: float, nodes: int, seq_id: int = 0) -> DraftTree:
    """Each node as likely as the one before it, under ten committed tokens."""
    logs = np.full(nodes, np.log(confidence))
    return DraftTree.build(seq_id, 10, range(nodes), range(ROOT, ROOT + nodes), logs)

"""Packed steps for tests of single parts, made by the engine's own packer."""

from __future__ import annotations

from collections.abc import Sequence as Seq

import numpy as np

from serving.engine.batch import Batch, Packer
from serving.engine.scheduler import Decode, Prefill, StepPlan
from serving.engine.sequence import Sequence
from serving.spec.tree import DraftTree
from serving.types import GenerationRequest, SamplingParams


def sequence(tokens: Seq[int], computed: int, table: Seq[int], seq_id: int = 0) -> Sequence:
    """`tokens` of which the first `computed` are in the cache, in the blocks of `table`."""
    request = GenerationRequest(f"r{seq_id}", tuple(tokens), SamplingParams(1000))
    made = Sequence.create(seq_id, request)
    made.num_computed, made.block_table = computed, list(table)
    return made


def chain_tree(base_len: int, tokens: Seq[int]) -> DraftTree:
    return DraftTree.build(0, base_len, tokens, range(-1, len(tokens) - 1), [-0.1] * len(tokens))


def random_tree(rng: np.random.Generator, base_len: int, nodes: int, vocab: int = 100) -> DraftTree:
    """`nodes` nodes, as likely deep as broad."""
    parents, tokens = [], []
    taken: set[tuple[int, int]] = set()
    while len(parents) < nodes:
        link = (int(rng.integers(max(len(parents) - 3, 0) - 1, len(parents))), int(rng.integers(vocab)))
        if link not in taken:
            taken.add(link)
            parents.append(link[0])
            tokens.append(link[1])
    return DraftTree.build(0, base_len, tokens, parents, -rng.exponential(0.5, nodes))


def path_of(tree: DraftTree, node: int) -> list[int]:
    """Nodes from the first level down to `node`."""
    return [] if node < 0 else [*path_of(tree, int(tree.parents[node])), node]


def pack(packer: Packer, decodes: Seq[tuple[Sequence, DraftTree]] = (), prefills: Seq[Prefill] = ()) -> Batch:
    plan = StepPlan(tuple(Decode(seq, len(tree)) for seq, tree in decodes), tuple(prefills), ())
    return packer.pack(plan, [tree for _, tree in decodes])

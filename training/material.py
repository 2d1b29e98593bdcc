"""The text of a run or an evaluation, and where its features come from."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Iterable
from dataclasses import dataclass

from training.batch import num_chains
from training.capture import LiveSource, Source
from training.data import Conversation, Split, read_conversations, shortened, split
from training.errors import TrainingError
from training.options import serve_config
from training.store import StreamStore
from training.target import Target, TargetFolder, default_layers


@dataclass(frozen=True, slots=True)
class Material:
    """layers: those whose inputs are (or will be) captured. longest: tokens of the longest conversation."""

    text: Split
    layers: tuple[int, ...]
    longest: int

    @classmethod
    def of(
        cls, conversations: Iterable[Conversation], layers: tuple[int, ...], options: Namespace
    ) -> Material:
        """Conversations too short to draft in are left out."""
        usable = [c for c in conversations if num_chains(c) >= 1]
        longest = max((len(c.token_ids) for c in usable), default=1)
        return cls(split(usable, options.held_out, options.split_seed), layers, longest)


def load_material(options: Namespace, target: TargetFolder) -> Material:
    """The text of `--features` or `--data`."""
    if options.features and options.data:
        raise TrainingError("give either --features or --data: captured features hold the text too.")
    if options.features:
        store = _open_store(options, target)
        return Material.of(store.conversations(), store.meta.layers, options)
    if not options.data:
        raise TrainingError("no text: give --features or --data.")
    a = target.architecture
    read = read_conversations(options.data, a.vocab_size, skip_broken=options.skip_broken)
    layers = tuple(options.layers or default_layers(a.num_layers))
    return Material.of(shortened(read, options.max_length), layers, options)


def open_source(options: Namespace, target: TargetFolder, material: Material) -> Source:
    """The store of `--features`, or the target itself."""
    if options.features:
        return _open_store(options, target).reader()
    return LiveSource(Target(serve_config(options), target, material.longest), material.layers)


def _open_store(options: Namespace, target: TargetFolder) -> StreamStore:
    store = StreamStore.open(options.features)
    if store.meta.fingerprint != target.fingerprint:
        raise TrainingError(f"{options.features} was captured from another model than {options.model}.")
    return store

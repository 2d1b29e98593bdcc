"""The text of a run or an evaluation, and where its features come from."""

from __future__ import annotations

from argparse import Namespace
from dataclasses import dataclass

from training.batch import num_chains
from training.capture import LiveSource, Source
from training.data import Split, read_conversations, shortened, split
from training.errors import TrainingError
from training.options import serve_config
from training.store import StreamStore
from training.target import Target, TargetFolder, default_layers


@dataclass(frozen=True, slots=True)
class Material:
    """layers: those whose inputs `source` has."""

    text: Split
    source: Source
    layers: tuple[int, ...]


def load_material(options: Namespace, target: TargetFolder) -> Material:
    """From `--features` or, live, from `--data`; conversations too short to draft in are left out."""
    if options.features and options.data:
        raise TrainingError("give either --features or --data: captured features hold the text too.")
    if options.features:
        return _stored(options, target)
    if options.data:
        return _live(options, target)
    raise TrainingError("no text: give --features or --data.")


def _stored(options: Namespace, target: TargetFolder) -> Material:
    store = StreamStore.open(options.features)
    if store.meta.fingerprint != target.fingerprint:
        raise TrainingError(f"{options.features} was captured from another model than {options.model}.")
    usable = [c for c in store.conversations() if num_chains(c) >= 1]
    text = split(usable, options.held_out, options.split_seed)
    return Material(text, store.reader(), store.meta.layers)


def _live(options: Namespace, target: TargetFolder) -> Material:
    a = target.architecture
    layers = tuple(options.layers or default_layers(a.num_layers))
    read = read_conversations(options.data, a.vocab_size, skip_broken=options.skip_broken)
    usable = [c for c in shortened(read, options.max_length) if num_chains(c) >= 1]
    longest = max((len(c.token_ids) for c in usable), default=1)
    source = LiveSource(Target(serve_config(options), target, longest), layers)
    return Material(split(usable, options.held_out, options.split_seed), source, layers)

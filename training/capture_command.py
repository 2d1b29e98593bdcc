"""`capture`: conversations in, a store of features out."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from pathlib import Path

from training.capture import capture
from training.data import read_conversations, shortened
from training.options import add_data, add_layers, add_target, serve_config
from training.store import StreamMeta, StreamStore
from training.target import Target, TargetFolder, default_layers


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("--out", type=Path, required=True, help="the store's folder; continued if it exists")
    add_target(parser)
    add_data(parser, required=True)
    add_layers(parser)


def run(options: Namespace) -> None:
    config = serve_config(options)
    folder = TargetFolder.open(config)
    a = folder.architecture
    layers = tuple(options.layers or default_layers(a.num_layers))
    read = read_conversations(options.data, a.vocab_size, skip_broken=options.skip_broken)
    conversations = shortened(read, options.max_length)
    store = StreamStore.open_for_writing(options.out, StreamMeta(folder.fingerprint, layers, a.hidden_size))
    longest = max((len(c.token_ids) for c in conversations), default=1)
    added = capture(Target(config, folder, longest), conversations, store)
    print(f"captured {added} conversations; {options.out} holds {len(store)} ({store.num_tokens} tokens)")

"""Features on disk: written once, continued after an interruption, refused when they do not fit."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest
import torch
from texts import LAYERS, conversation

from training import capture as capture_module
from training import store as store_module
from training.capture import LiveSource, capture
from training.errors import TrainingError
from training.store import StreamMeta, StreamStore
from training.target import Target

TEXTS = [conversation(seed) for seed in range(3)]


@pytest.fixture
def meta(target: Target) -> StreamMeta:
    return StreamMeta("fingerprint", LAYERS, target.hidden_size)


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_what_is_stored_is_what_the_target_says(tmp_path: Path, target: Target, meta: StreamMeta) -> None:
    assert capture(target, TEXTS, StreamStore.open_for_writing(tmp_path, meta)) == 3
    store, live = StreamStore.open(tmp_path), LiveSource(target, LAYERS)
    assert [text.to_json() for text in store.conversations()] == [text.to_json() for text in TEXTS]
    for text in TEXTS:
        stored, fresh = store.reader().captured(text), live.captured(text)
        assert torch.equal(stored.streams, fresh.streams)
        assert torch.equal(stored.best, fresh.best)


def test_captured_streams_are_those_of_transformers(target_path: Path, target: Target) -> None:
    from transformers import AutoModelForCausalLM

    text = TEXTS[0]
    model = AutoModelForCausalLM.from_pretrained(target_path, dtype=torch.float32)
    ids = torch.from_numpy(text.token_ids).long()[None]
    with torch.no_grad():
        entering = model(ids, output_hidden_states=True)
    captured = target.capture(text, LAYERS)
    for index, layer in enumerate(LAYERS):
        theirs = entering.hidden_states[layer][0]
        torch.testing.assert_close(captured.streams[:, index].float(), theirs, rtol=1e-2, atol=1e-2)
    last = model.model.norm(captured.streams[:, -1].float())
    torch.testing.assert_close(last, entering.hidden_states[-1][0], rtol=2e-2, atol=2e-2)
    asked = text.prompt_len - 1
    assert captured.best[:asked].tolist() == [-1] * asked
    assert captured.best[asked:].tolist() == entering.logits[0, asked:].argmax(-1).tolist()


def test_interrupted_capture_continues_to_the_same_files(
    tmp_path: Path, target: Target, meta: StreamMeta
) -> None:
    whole, cut = tmp_path / "whole", tmp_path / "cut"
    capture(target, TEXTS, StreamStore.open_for_writing(whole, meta))
    capture(target, TEXTS[:1], StreamStore.open_for_writing(cut, meta))
    # As if killed while writing: data without an index entry, and half an entry.
    for name in ("tokens.bin", "streams.bin", "index.jsonl"):
        with (cut / name).open("ab") as file:
            file.write(b'{"digest": "')
    assert capture(target, TEXTS, StreamStore.open_for_writing(cut, meta)) == 2
    assert contents(cut) == contents(whole)


def test_full_disk_is_said_and_the_store_stays_usable(
    tmp_path: Path, target: Target, meta: StreamMeta, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, written = StreamStore.open_for_writing(tmp_path, meta), store_module._append

    def fail_late(path: Path, content: bytes) -> None:
        if path.name == "streams.bin" and path.stat().st_size:
            written(path, content[:100])
            raise OSError(errno.ENOSPC, "No space left on device")
        written(path, content)

    monkeypatch.setattr(store_module, "_append", fail_late)
    with pytest.raises(TrainingError, match="is full"):
        capture(target, TEXTS, store)
    monkeypatch.undo()
    assert len(StreamStore.open(tmp_path)) == 1
    assert capture(target, TEXTS, StreamStore.open_for_writing(tmp_path, meta)) == 2


def test_what_cannot_fit_is_refused_before_it_starts(
    tmp_path: Path, target: Target, meta: StreamMeta, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(capture_module, "_free_bytes", lambda folder: 1000)
    with pytest.raises(TrainingError, match="capture less"):
        capture(target, TEXTS, StreamStore.open_for_writing(tmp_path, meta))


def test_stores_that_do_not_fit_are_refused(tmp_path: Path, target: Target, meta: StreamMeta) -> None:
    with pytest.raises(TrainingError, match="run `capture` first"):
        StreamStore.open(tmp_path)
    capture(target, TEXTS, StreamStore.open_for_writing(tmp_path, meta))
    with pytest.raises(TrainingError, match="another target"):
        StreamStore.open_for_writing(tmp_path, StreamMeta("other", LAYERS, meta.hidden_size))
    streams = tmp_path / "streams.bin"
    streams.write_bytes(streams.read_bytes()[:-1])
    with pytest.raises(TrainingError, match="truncated"):
        StreamStore.open(tmp_path)

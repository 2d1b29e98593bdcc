"""Which part of a network is whose: together the ranks have all of it, and none has more than its share."""

from __future__ import annotations

import pytest

from serving.errors import ConfigError
from serving.models.architecture import Architecture
from serving.models.sharding import Shard

CONFIG = {
    "model_type": "llama",
    "hidden_size": 576,
    "num_hidden_layers": 2,
    "num_attention_heads": 9,
    "num_key_value_heads": 3,
    "intermediate_size": 1536,
    "vocab_size": 49152,
    "max_position_embeddings": 8192,
}


def architecture(**change: int) -> Architecture:
    return Architecture.from_hf({**CONFIG, **change})


def test_the_default_model_on_three_ranks() -> None:
    a = architecture()
    parts = [Shard(rank, 3) for rank in range(3)]
    assert [tuple(part.queries(a)) for part in parts] == [(0, 192, 192), (192, 384, 192), (384, 576, 192)]
    assert [tuple(part.keys(a)) for part in parts] == [(0, 64, 64), (64, 128, 64), (128, 192, 64)]
    assert [part.inner(a).width for part in parts] == [512] * 3
    assert [part.vocabulary(a).start for part in parts] == [0, 16384, 32768]
    local = parts[1].of(a)
    assert (local.num_heads, local.num_kv_heads, local.intermediate_size) == (3, 1, 512)
    assert (local.hidden_size, local.vocab_size) == (576, 49152)


def test_neighbours_share_a_key_head_that_there_are_too_few_of() -> None:
    a = architecture(num_attention_heads=8, num_key_value_heads=2, head_dim=64)
    assert [Shard(rank, 8).keys(a).start for rank in range(8)] == [0] * 4 + [64] * 4
    assert Shard(5, 8).of(a).num_kv_heads == 1


@pytest.mark.parametrize("total", [16, 90, 100, 112, 1536, 49153])
@pytest.mark.parametrize("size", [2, 3, 4, 8])
def test_parts_are_whole_strips_and_cover_everything_once(total: int, size: int) -> None:
    a = architecture(vocab_size=total)
    parts = [Shard(rank, size).vocabulary(a) for rank in range(size)]
    assert [part.start for part in parts] == [0, *(part.stop for part in parts[:-1])]
    assert parts[-1].stop == total
    assert len({part.width for part in parts}) == 1
    assert parts[0].width % 16 == 0
    assert all(part.stop - part.start <= part.width < total / size + 16 for part in parts)


def test_one_rank_has_everything_as_it_is() -> None:
    a = architecture(intermediate_size=1000, vocab_size=77)
    assert Shard().of(a) == a
    assert tuple(Shard().vocabulary(a)) == (0, 77, 77)


@pytest.mark.parametrize(
    ("size", "heads", "kv_heads", "message"),
    [
        (2, 9, 3, "tensor_parallel_size 2 does not divide the model's 9 attention heads"),
        (4, 12, 3, "tensor_parallel_size 4 neither divides the model's 3 key/value heads nor is a multiple"),
    ],
)
def test_what_cannot_be_split_is_refused(size: int, heads: int, kv_heads: int, message: str) -> None:
    a = architecture(num_attention_heads=heads, num_key_value_heads=kv_heads, head_dim=64)
    with pytest.raises(ConfigError, match=message):
        Shard(0, size).of(a)

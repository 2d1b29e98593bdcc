"""PrefixCache: which beginnings are found, and whose."""

from __future__ import annotations

from collections.abc import Sequence as Seq

import pytest

from serving.engine.blocks import BlockManager
from serving.engine.prefix_cache import PrefixCache
from serving.engine.sequence import Sequence
from serving.types import GenerationRequest, SamplingParams

SIZE = 4
TEXT = tuple(range(100, 120))


def sequence(tokens: Seq[int], salt: str | None = None) -> Sequence:
    request = GenerationRequest("r", tuple(tokens), SamplingParams(8), cache_salt=salt)
    return Sequence.create(0, request)


def cache_with(tokens: Seq[int], salt: str | None = None, computed: int | None = None) -> PrefixCache:
    """After a sequence with `tokens` was computed, or `computed` of them."""
    prefixes = PrefixCache(BlockManager(32, SIZE))
    compute(prefixes, sequence(tokens, salt), len(tokens) if computed is None else computed)
    return prefixes


def compute(prefixes: PrefixCache, seq: Sequence, positions: int) -> None:
    assert prefixes.blocks.grow(seq.block_table, len(seq.token_ids))
    seq.num_computed = positions
    prefixes.publish(seq)
    prefixes.check_integrity(seq)
    prefixes.blocks.release(seq.block_table)


@pytest.mark.parametrize(
    ("tokens", "blocks"),
    [
        (TEXT, 4),  # the last token is left to compute
        ((*TEXT, 7), 5),
        (TEXT[:4], 0),
        (TEXT[:5], 1),
        ((*TEXT[:9], 7, *TEXT[10:]), 2),
        ((7, *TEXT[1:]), 0),
        (TEXT[4:], 0),  # the same tokens elsewhere
        ((*TEXT[4:8], *TEXT[:4], *TEXT[8:]), 0),
    ],
)
def test_what_is_found_begins_with_the_same_tokens(tokens: tuple[int, ...], blocks: int) -> None:
    assert len(cache_with(TEXT).find(sequence(tokens))) == blocks


@pytest.mark.parametrize(("computed", "blocks"), [(0, 0), (3, 0), (4, 1), (15, 3), (16, 4)])
def test_only_what_was_computed_is_found(computed: int, blocks: int) -> None:
    assert len(cache_with(TEXT, computed=computed).find(sequence(TEXT))) == blocks


def test_what_was_accepted_behind_the_end_of_a_text_is_not_part_of_it() -> None:
    """A stop token cut the text after eleven tokens; the tree's KV goes on."""
    prefixes, seq = PrefixCache(BlockManager(8, SIZE)), sequence(TEXT[:11])
    assert prefixes.blocks.grow(seq.block_table, 16)
    seq.num_computed = 14
    prefixes.publish(seq)
    assert len(prefixes.find(sequence(TEXT))) == 2
    assert [prefixes.blocks.key(block) is None for block in seq.block_table] == [False, False, True, True]


@pytest.mark.parametrize("salt", [None, "a", "b", "é" * 500, "\x00"])
def test_a_salt_keeps_tenants_apart(salt: str | None) -> None:
    prefixes = cache_with(TEXT, salt)
    for other in (None, "a", "b", "é" * 500, "\x00"):
        assert len(prefixes.find(sequence(TEXT, other))) == (4 if other == salt else 0)


def test_a_salt_that_spells_a_block_does_not_stand_for_it() -> None:
    """Else its owner could read on where another's text begins with that block."""
    spelt = b"".join(token.to_bytes(4, "little") for token in TEXT[:SIZE]).decode()
    assert cache_with(TEXT).find(sequence(TEXT[SIZE:], spelt)) == []


def test_a_text_that_grows_is_published_as_it_grows() -> None:
    prefixes, seq = PrefixCache(BlockManager(8, SIZE)), sequence(TEXT[:6])
    for length in range(6, 14):
        assert prefixes.blocks.grow(seq.block_table, length)
        seq.num_computed = length - 1
        prefixes.publish(seq)
        prefixes.check_integrity(seq)
        assert len(prefixes.find(sequence(TEXT))) == (length - 1) // SIZE
        seq.append([TEXT[length]])


def test_a_writable_block_under_a_key_is_a_bug() -> None:
    prefixes, seq = PrefixCache(BlockManager(8, SIZE)), sequence(TEXT[:8])
    assert prefixes.blocks.grow(seq.block_table, 8)
    seq.num_computed = 8
    prefixes.publish(seq)
    seq.num_computed = 7
    with pytest.raises(AssertionError):
        prefixes.check_integrity(seq)


def test_a_block_under_a_wrong_key_is_a_bug() -> None:
    prefixes, seq = PrefixCache(BlockManager(8, SIZE)), sequence(TEXT[:8])
    assert prefixes.blocks.grow(seq.block_table, 8)
    seq.num_computed = 8
    prefixes.publish(seq)
    seq.block_keys.reverse()
    with pytest.raises(AssertionError):
        prefixes.check_integrity(seq)

"""Sequence: what is derived from tokens and counts."""

from __future__ import annotations

import pytest

from serving.engine.sequence import Sequence, Status
from serving.types import GenerationRequest, SamplingParams


def sequence(prompt: int = 4, output: int = 0, max_tokens: int = 10) -> Sequence:
    ids = tuple(range(100, 100 + prompt + output))
    request = GenerationRequest("r", ids[:prompt], SamplingParams(max_tokens), output_ids=ids[prompt:])
    return Sequence.create(7, request)


def test_new_sequence_has_everything_to_compute() -> None:
    seq = sequence(prompt=4)
    assert (seq.seq_id, seq.token_ids, seq.root) == (7, [100, 101, 102, 103], 103)
    assert (seq.num_prompt, seq.num_output, seq.remaining) == (4, 0, 10)
    assert (seq.num_computed, seq.num_uncomputed, seq.num_drafted) == (0, 4, 0)
    assert seq.status is Status.WAITING
    assert not seq.is_decoding
    assert not seq.finished


def test_replayed_output_counts_as_output_and_is_computed_like_a_prompt() -> None:
    seq = sequence(prompt=4, output=3, max_tokens=10)
    assert (seq.num_prompt, seq.num_output, seq.remaining) == (4, 3, 7)
    assert (seq.num_uncomputed, seq.root) == (7, 106)


def test_append_moves_the_root() -> None:
    seq = sequence(prompt=4, max_tokens=10)
    seq.num_computed = 4
    seq.append((1, 2, 3))
    assert (seq.root, seq.num_output, seq.remaining, seq.num_uncomputed) == (3, 3, 7, 3)


@pytest.mark.parametrize(("num_computed", "decoding"), [(0, False), (2, False), (3, True)])
def test_decoding_means_that_only_the_root_is_left(num_computed: int, decoding: bool) -> None:
    seq = sequence(prompt=4)
    seq.num_computed = num_computed
    assert seq.is_decoding is decoding


def test_append_beyond_max_tokens_is_a_bug() -> None:
    seq = sequence(max_tokens=2)
    with pytest.raises(AssertionError):
        seq.append((1, 2, 3))


def test_restart_keeps_tokens_and_counts() -> None:
    seq = sequence(prompt=4)
    seq.append((1, 2))
    seq.num_computed = seq.num_drafted = 5
    seq.status = Status.RUNNING
    seq.stats.record(drafted=3, accepted=1, committed=2, offered=2)
    seq.restart()
    assert (seq.num_computed, seq.num_drafted, seq.status) == (0, 0, Status.WAITING)
    assert (seq.token_ids, seq.num_uncomputed) == ([100, 101, 102, 103, 1, 2], 6)
    assert seq.stats.committed_tokens == 2


def test_sequences_are_equal_only_to_themselves() -> None:
    """Queues remove by identity: two choices of one prompt must not be taken for each other."""
    first, second = sequence(), sequence()
    assert first != second
    assert [first, second].index(second) == 1


def test_statistics_without_a_draft_are_defined() -> None:
    """S24."""
    seq = sequence()
    assert seq.stats.tau == 0.0
    seq.stats.record(drafted=0, accepted=0, committed=1, offered=0)
    assert (seq.stats.tau, seq.stats.draft_tokens, seq.stats.accepted_tokens) == (1.0, 0, 0)
    assert seq.stats.accepted_per_position == []

"""A choice's tokens, text and finish reason end together."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest
from http_harness import EOS_ID, TOKENIZER, ScriptedVerifier, encode
from tiny_tokenizers import byte_level

from serving.errors import GenerationError, UnavailableError
from serving.router.choice import Choice, Piece
from serving.router.detokenizer import DetokenizerFactory
from serving.router.tokenizer import Tokenizer
from serving.types import FinishReason, GenerationRequest, SamplingParams, SpeculationStats, TokenDelta

DETOKENIZERS = DetokenizerFactory(Tokenizer(byte_level()))
STOP, LENGTH = FinishReason.STOP, FinishReason.LENGTH


def request(*stop_token_ids: int, **params: Any) -> GenerationRequest:
    params = SamplingParams(50, stop_token_ids=frozenset((EOS_ID, *stop_token_ids)), **params)
    return GenerationRequest("r", (1,), params)


def choice(*stops: str, stop_token_ids: tuple[int, ...] = (), **params: Any) -> Choice:
    return Choice(request(*stop_token_ids, **params), 0, DETOKENIZERS.new(), stops)


def delta(token_ids: Iterable[int], reason: FinishReason | None = None, **more: object) -> TokenDelta:
    return TokenDelta("r", tuple(token_ids), reason, **more)


async def pieces_of(verifier: ScriptedVerifier, one: Choice) -> list[Piece]:
    return [piece async for piece in one.stream(verifier)]


def text_of(pieces: list[Piece]) -> str:
    return "".join(piece.text for piece in pieces)


async def test_eos_is_counted_but_not_written() -> None:
    ids = encode("hello world")
    verifier = ScriptedVerifier(script=lambda _: [delta(ids[:2]), delta([*ids[2:], EOS_ID], STOP)])
    one = choice()
    pieces = await pieces_of(verifier, one)
    assert text_of(pieces) == "hello world"
    assert pieces[-1].finish_reason is STOP
    assert one.token_ids == [*ids, EOS_ID]
    assert verifier.aborted == []


async def test_a_stop_token_of_the_vocabulary_is_not_written_either() -> None:
    ids = encode("hello world")
    one = choice(stop_token_ids=(ids[-1],))
    pieces = await pieces_of(ScriptedVerifier(script=lambda _: [delta(ids, STOP)]), one)
    assert text_of(pieces) == TOKENIZER.decode(ids[:-1])
    assert one.token_ids == ids


async def test_the_last_token_is_written_when_length_ends_it() -> None:
    ids = encode("hello world")
    pieces = await pieces_of(ScriptedVerifier(script=lambda _: [delta(ids, LENGTH)]), choice())
    assert (text_of(pieces), pieces[-1].finish_reason) == ("hello world", LENGTH)


@pytest.mark.parametrize("by", [1, 2, 3, 100])
async def test_a_stop_string_ends_text_and_tokens_together(by: int) -> None:
    ids = encode("the quick brown fox jumps")
    steps = [delta(ids[i : i + by]) for i in range(0, len(ids), by)]
    verifier = ScriptedVerifier(script=lambda _: [*steps, delta([EOS_ID], STOP)])
    one = choice("own f")
    pieces = await pieces_of(verifier, one)
    assert text_of(pieces) == "the quick br"
    assert pieces[-1].finish_reason is STOP
    needed = next(n for n in range(len(ids)) if "own f" in TOKENIZER.decode(ids[:n]))
    assert one.token_ids == ids[:needed]
    assert verifier.aborted == ["r"], "the rest must not be generated"


@pytest.mark.parametrize("by", [1, 3, 100])
async def test_a_stop_string_waits_for_min_tokens(by: int) -> None:
    ids = encode("the fox and the fox and the fox")
    least = next(n for n in range(len(ids)) if TOKENIZER.decode(ids[:n]).startswith("the fox"))
    steps = [delta(ids[i : i + by]) for i in range(0, len(ids), by)]
    one = choice("fox", min_tokens=least)
    pieces = await pieces_of(ScriptedVerifier(script=lambda _: [*steps, delta([EOS_ID], STOP)]), one)
    assert text_of(pieces) == "the fox and the "
    assert pieces[-1].finish_reason is STOP


async def test_a_beginning_of_a_stop_string_is_written_at_the_end() -> None:
    ids = encode("the quick brown")
    pieces = await pieces_of(ScriptedVerifier(script=lambda _: [delta([*ids, EOS_ID], STOP)]), choice("wnX"))
    assert text_of(pieces) == "the quick brown"


async def test_a_stop_string_before_eos_in_the_same_step_wins() -> None:
    ids = encode("the quick brown")
    one = choice("quick")
    pieces = await pieces_of(ScriptedVerifier(script=lambda _: [delta([*ids, EOS_ID], STOP)]), one)
    assert text_of(pieces) == "the "
    assert EOS_ID not in one.token_ids


async def test_a_flushed_replacement_can_complete_a_stop_string() -> None:
    half = encode("🙃")[:1]
    one = choice("\ufffd")
    pieces = await pieces_of(ScriptedVerifier(script=lambda _: [delta(half, LENGTH)]), one)
    assert (text_of(pieces), one.finish_reason) == ("", STOP)


async def test_the_latest_statistics_are_kept_when_a_stop_string_ends_it() -> None:
    stats = SpeculationStats(steps=3)
    one = choice("brown")
    await pieces_of(ScriptedVerifier(script=lambda _: [delta(encode("a brown fox"), stats=stats)]), one)
    assert one.stats is stats


async def test_the_engines_error_is_the_callers() -> None:
    last = delta([], FinishReason.ERROR, error="the logits are not finite")
    with pytest.raises(GenerationError, match="the logits are not finite"):
        await pieces_of(ScriptedVerifier(script=lambda _: [delta([5]), last]), choice())


async def test_an_abort_by_the_server_is_an_error() -> None:
    with pytest.raises(UnavailableError):
        await pieces_of(ScriptedVerifier(script=lambda _: [delta([], FinishReason.ABORT)]), choice())


async def test_a_stream_without_an_end_is_never_a_success() -> None:
    one = choice()
    with pytest.raises(GenerationError, match="without a final event"):
        await pieces_of(ScriptedVerifier(script=lambda _: [delta([5])]), one)
    assert one.token_ids == [5]


async def test_leaving_early_aborts() -> None:
    verifier = ScriptedVerifier(script=lambda _: [delta([5]), delta([6], LENGTH)])
    stream = choice().stream(verifier)
    await anext(stream)
    await stream.aclose()
    assert verifier.aborted == ["r"]

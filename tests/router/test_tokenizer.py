"""Encoding, beside an event loop that has other requests to serve."""

from __future__ import annotations

import asyncio

from http_harness import TOKENIZER
from tiny_tokenizers import byte_level

from serving.router.tokenizer import Tokenizer


async def test_a_long_text_does_not_stop_the_event_loop() -> None:
    text = "the quick brown fox " * 50_000
    encoding = asyncio.create_task(Tokenizer(byte_level()).encode(text, add_special_tokens=False))
    turns = 0
    while not encoding.done():
        await asyncio.sleep(0)
        turns += 1
    assert turns > 20
    assert await encoding == tuple(TOKENIZER.encode(text, add_special_tokens=False).ids)

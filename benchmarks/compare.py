"""Whether two answers are the same, and where they part."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from benchmarks.answers import Answer

Decode = Callable[[Sequence[int]], str]


def same(answer: Answer, plain: Answer) -> bool:
    """By token where both have tokens, by text where one came over HTTP."""
    if answer.token_ids is not None and plain.token_ids is not None:
        return answer.token_ids == plain.token_ids
    return answer.text == plain.text


def first_difference(answer: Answer, plain: Answer, decode: Decode) -> int:
    """Index of the token of `plain`, which has token_ids, at which a different `answer` parts from it."""
    assert plain.token_ids is not None
    if answer.token_ids is None:
        return _where_text_parts(answer.text, plain.token_ids, decode)
    pairs = zip(answer.token_ids, plain.token_ids, strict=False)
    shorter = min(len(answer.token_ids), len(plain.token_ids))
    return next((i for i, (ours, theirs) in enumerate(pairs) if ours != theirs), shorter)


def _where_text_parts(text: str, plain: Sequence[int], decode: Decode) -> int:
    for length in range(1, len(plain) + 1):
        settled = decode(plain[:length]).rstrip("\N{REPLACEMENT CHARACTER}")  # perhaps half a character
        if not text.startswith(settled):
            return length - 1
    return len(plain)

"""Answers are used again where the same request asks for the same answer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from bedrock import Bedrock

TABLE = "responses"


def test_temperature_0_is_asked_once(ask: Any, bedrock: Bedrock) -> None:
    first, second = ask({"temperature": 0}), ask({"temperature": 0.0})
    assert (first.headers["X-Cache"], second.headers["X-Cache"]) == ("miss", "hit")
    one, two = first.json(), second.json()
    assert (one["choices"], one["usage"]) == (two["choices"], two["usage"])
    assert one["id"] != two["id"]
    assert len(bedrock.asked) == 1


def test_a_stream_fills_and_uses_it(ask: Any, bedrock: Bedrock) -> None:
    request = {"temperature": 0, "stream": True}
    ask(request).events()
    *chunks, done = ask(request).events()
    assert "".join(c["choices"][0]["delta"].get("content", "") for c in chunks) == "Hello there"
    assert (chunks[-1]["choices"][0]["finish_reason"], done) == ("stop", "[DONE]")
    ask({"temperature": 0}).json()
    assert len(bedrock.asked) == 1


@pytest.mark.parametrize("body", [{}, {"temperature": 0.5}], ids=str)
def test_others_are_asked_again(ask: Any, bedrock: Bedrock, body: dict[str, Any]) -> None:
    ask(body).json()
    ask(body).json()
    assert len(bedrock.asked) == 2


@pytest.mark.parametrize(
    "other",
    [
        {"messages": [{"role": "user", "content": "Ho"}]},
        {"messages": [{"role": "system", "content": "x"}, {"role": "user", "content": "Hi"}]},
        {"max_tokens": 3},
        {"stop": "."},
        {"top_p": 0.5},
    ],
    ids=str,
)
def test_all_that_changes_an_answer_is_in_the_key(ask: Any, bedrock: Bedrock, other: dict[str, Any]) -> None:
    ask({"temperature": 0}).json()
    ask({"temperature": 0} | other).json()
    assert len(bedrock.asked) == 2


def test_a_stream_that_broke_off_is_not_kept(ask: Any, bedrock: Bedrock) -> None:
    bedrock.breaks_off = "internalServerException"
    ask({"temperature": 0, "stream": True}).events()
    bedrock.breaks_off = None
    assert ask({"temperature": 0}).headers["X-Cache"] == "miss"


def test_an_expired_answer_is_not_used(ask: Any, bedrock: Bedrock, clients: Callable[[str], Any]) -> None:
    """DynamoDB drops it within two days only."""
    ask({"temperature": 0}).json()
    dynamodb = clients("dynamodb")
    (item,) = dynamodb.scan(TableName=TABLE)["Items"]
    assert int(item["expires_at"]["N"]) - int(item["created_at"]["N"]) // 1000 == 60
    dynamodb.put_item(TableName=TABLE, Item=item | {"expires_at": {"N": "1"}})
    assert ask({"temperature": 0}).headers["X-Cache"] == "miss"


def test_without_a_table_requests_are_answered(
    ask: Any, bedrock: Bedrock, clients: Callable[[str], Any]
) -> None:
    clients("dynamodb").delete_table(TableName=TABLE)
    assert ask({"temperature": 0}).status == 200

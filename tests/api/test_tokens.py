"""`/tokenize` and `/detokenize` as vLLM answers them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from http_harness import CARD, MODEL, PATIENCE_S, TOKENIZER, ScriptedVerifier, config, encode, serve
from tiny_tokenizers import EOS

CHAT = [{"role": "user", "content": "Hi"}]
TEMPLATED = "<|im_start|>user\nHi<|im_end|>\n"
OPENING = "<|im_start|>assistant\n"


@pytest.fixture(autouse=True)
def _nothing_is_generated(verifier: ScriptedVerifier) -> Iterator[None]:
    yield
    assert verifier.requests == []


def test_a_text(http: httpx.Client) -> None:
    ids = encode("the quick 🙃")
    answer = http.post("/tokenize", json={"model": MODEL, "prompt": "the quick 🙃"}).json()
    assert answer == {
        "count": len(ids),
        "max_model_len": CARD.max_model_len,
        "tokens": ids,
        "token_strs": None,
    }


def test_names_of_tokens(http: httpx.Client) -> None:
    answer = http.post("/tokenize", json={"prompt": f"a quick{EOS}", "return_token_strs": True}).json()
    assert answer["token_strs"] == [TOKENIZER.id_to_token(i) for i in answer["tokens"]]
    assert answer["token_strs"][-1] == EOS


@pytest.mark.parametrize(
    ("params", "text"),
    [
        ({}, TEMPLATED + OPENING),
        ({"add_generation_prompt": False}, TEMPLATED),
        ({"add_generation_prompt": True, "add_special_tokens": False}, TEMPLATED + OPENING),
    ],
)
def test_a_conversation(http: httpx.Client, params: dict[str, Any], text: str) -> None:
    answer = http.post("/tokenize", json={"model": MODEL, "messages": CHAT, **params}).json()
    assert answer["tokens"] == encode(text)


@pytest.mark.parametrize("text", ["", "the quick 🙃", TEMPLATED, "the quick " * 2000])
def test_there_and_back(http: httpx.Client, text: str) -> None:
    tokens = http.post("/tokenize", json={"prompt": text[:8000]}).json()["tokens"]
    for part in (tokens[:1500], tokens[-3:]):
        back = http.post("/detokenize", json={"model": MODEL, "tokens": part}).json()
        assert back == {"prompt": TOKENIZER.decode(part, skip_special_tokens=False)}


@pytest.mark.parametrize(
    ("path", "body", "status", "param"),
    [
        ("/tokenize", {}, 400, "prompt"),
        ("/tokenize", {"prompt": "a", "messages": CHAT}, 400, "prompt"),
        ("/tokenize", {"prompt": ["a"]}, 400, "prompt"),
        ("/tokenize", {"prompt": "a", "add_generation_prompt": True}, 400, "add_generation_prompt"),
        ("/tokenize", {"messages": []}, 400, "messages"),
        ("/tokenize", {"messages": [{"role": "wizard", "content": "a"}]}, 400, "messages.0.role"),
        ("/tokenize", {"messages": [{**CHAT[0], "audio": {}}]}, 400, "messages.0.audio"),
        ("/tokenize", {"prompt": "a", "add_special_tokens": 1}, 400, "add_special_tokens"),
        ("/tokenize", {"prompt": "a", "chat_template": "{{ x }}"}, 400, "chat_template"),
        ("/tokenize", {"prompt": "a", "nonsense": 1}, 400, "nonsense"),
        ("/tokenize", {"model": "gpt-9", "prompt": "a"}, 404, "model"),
        ("/detokenize", {}, 400, "tokens"),
        ("/detokenize", {"tokens": "a"}, 400, "tokens"),
        ("/detokenize", {"tokens": [1, "a"]}, 400, "tokens.1"),
        ("/detokenize", {"tokens": [382]}, 400, "tokens"),
        ("/detokenize", {"tokens": [-1]}, 400, "tokens"),
        ("/detokenize", {"tokens": [10**30]}, 400, "tokens"),
        ("/detokenize", {"tokens": [1], "nonsense": 1}, 400, "nonsense"),
        ("/detokenize", {"model": "gpt-9", "tokens": [1]}, 404, "model"),
    ],
)
def test_wrong(http: httpx.Client, path: str, body: dict[str, Any], status: int, param: str) -> None:
    response = http.post(path, json=body)
    assert (response.status_code, response.json()["error"]["param"]) == (status, param)


def test_they_are_guarded_as_completions_are() -> None:
    with serve(settings=config(api_keys=("key",))) as running:
        for path, body in (("tokenize", {"prompt": "a"}), ("detokenize", {"tokens": [1]})):
            assert httpx.post(f"{running.url}/{path}", json=body, timeout=PATIENCE_S).status_code == 401
            headers = {"Authorization": "Bearer key"}
            answer = httpx.post(f"{running.url}/{path}", json=body, headers=headers, timeout=PATIENCE_S)
            assert answer.status_code == 200

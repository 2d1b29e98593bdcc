"""What an application developer does with the official client, and what a clumsy one sends."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx
import pytest
from deployed import PATIENCE_S, Deployed

pytestmark = pytest.mark.ray

HELLO: list[Any] = [{"role": "user", "content": "abcabcabc"}]


def test_probes(tiny: Deployed) -> None:
    assert tiny.get("health").status_code == 200
    assert tiny.get("ready").status_code == 200


def test_models(tiny: Deployed) -> None:
    (model,) = tiny.client().models.list().data
    assert model.id == "tiny"


def test_chat(tiny: Deployed) -> None:
    answer = tiny.client().chat.completions.create(
        model="tiny", messages=HELLO, max_tokens=20, temperature=0, seed=1
    )
    (choice,) = answer.choices
    assert choice.finish_reason == "length"
    assert answer.usage is not None
    assert answer.usage.completion_tokens == 20
    assert answer.usage.total_tokens == 20 + answer.usage.prompt_tokens
    assert answer.model_extra is not None
    speculation = answer.model_extra["speculation"]
    assert speculation["steps"] >= 1
    assert speculation["accepted_tokens"] <= speculation["draft_tokens"]


def test_prefix_hits_are_counted_and_belong_to_a_salt(tiny: Deployed) -> None:
    prompt = list(range(5, 45))

    def ask(salt: str) -> int:
        answer = tiny.client().completions.create(
            model="tiny", prompt=prompt, max_tokens=1, extra_body={"cache_salt": salt}
        )
        assert answer.usage is not None
        assert answer.usage.prompt_tokens_details is not None
        return answer.usage.prompt_tokens_details.cached_tokens or 0

    before = [counted(tiny, f"vllm:prefix_cache_{what}_total") for what in ("queries", "hits")]
    assert [ask("a"), ask("a"), ask("b")] == [0, 32, 0]
    after = [counted(tiny, f"vllm:prefix_cache_{what}_total") for what in ("queries", "hits")]
    assert [b - a for a, b in zip(before, after, strict=True)] == [3 * 40, 32]


def counted(tiny: Deployed, name: str) -> float:
    lines = tiny.get("metrics").text.splitlines()
    return sum(float(line.rsplit(" ", 1)[1]) for line in lines if line.startswith(name))


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_a_stream_joins_to_the_same_text(tiny: Deployed, temperature: float) -> None:
    request: dict[str, Any] = {
        "model": "tiny",
        "messages": HELLO,
        "max_tokens": 60,
        "temperature": temperature,
        "seed": 5,
    }
    whole = tiny.client().chat.completions.create(**request)
    stream = tiny.client().chat.completions.create(
        **request, stream=True, stream_options={"include_usage": True}
    )
    chunks = list(stream)
    text = "".join(c.choices[0].delta.content or "" for c in chunks if c.choices)
    assert text == whole.choices[0].message.content
    assert chunks[-1].usage is not None
    assert whole.usage is not None
    assert chunks[-1].usage.completion_tokens == whole.usage.completion_tokens == 60
    assert chunks[-1].usage.prompt_tokens == whole.usage.prompt_tokens
    details = chunks[-1].usage.prompt_tokens_details
    assert details is not None
    assert details.cached_tokens == (whole.usage.prompt_tokens - 1) // 16 * 16 > 0
    assert len([c for c in chunks if c.choices and c.choices[0].finish_reason]) == 1


async def test_concurrent_requests_answer_as_they_do_alone(tiny: Deployed) -> None:
    client = tiny.async_client()

    async def complete(seed: int) -> str:
        answer = await client.completions.create(
            model="tiny", prompt=f"{seed}-{seed}-", max_tokens=40, temperature=0.8, seed=seed
        )
        return answer.choices[0].text

    together = await asyncio.gather(*[complete(seed) for seed in range(12)])
    alone = [await complete(seed) for seed in range(12)]
    assert together == alone
    assert len(set(together)) == 12


def test_choices_differ_and_are_counted(tiny: Deployed) -> None:
    answer = tiny.client().completions.create(
        model="tiny", prompt="abc", max_tokens=10, n=3, temperature=1, seed=3
    )
    assert [choice.index for choice in answer.choices] == [0, 1, 2]
    assert len({choice.text for choice in answer.choices}) == 3
    assert answer.usage is not None
    assert answer.usage.completion_tokens == 30


def test_stop_string_ends_the_text_before_it(tiny: Deployed) -> None:
    request: dict[str, Any] = {"model": "tiny", "prompt": "abc", "max_tokens": 40, "temperature": 0}
    full = tiny.client().completions.create(**request).choices[0].text
    stop = full[10:12]
    (choice,) = tiny.client().completions.create(**request, stop=stop).choices
    assert choice.text == full[: full.index(stop)]
    assert choice.finish_reason == "stop"


def test_the_request_id_comes_back(tiny: Deployed) -> None:
    answer = tiny.get("v1/models", headers={"X-Request-Id": "mine-1"})
    assert answer.headers.get_list("x-request-id") == ["mine-1"]


def test_metrics_of_all_processes_are_merged(tiny: Deployed) -> None:
    tiny.client().completions.create(model="tiny", prompt="abc", max_tokens=4)
    text = tiny.get("metrics").text
    assert 'vllm:generation_tokens_total{model_name="tiny"}' in text  # counted by the router
    assert 'vllm:num_requests_running{model_name="tiny"}' in text  # counted by rank 0


BAD: list[tuple[bytes, int, str | None]] = [
    (b"", 400, None),
    (b"{", 400, None),
    (b"[]", 400, None),
    (b'{"model": "tiny", "prompt": "\xff"}', 400, None),
    (b'{"model": "tiny"}', 400, "prompt"),
    (b'{"model": "tiny", "prompt": ""}', 400, "prompt"),
    (b'{"model": "tiny", "prompt": [100000]}', 400, "prompt"),
    (b'{"model": "tiny", "prompt": [-1]}', 400, "prompt"),
    (b'{"model": "other", "prompt": "a"}', 404, "model"),
    (b'{"model": "tiny", "prompt": "a", "max_tokens": 0}', 400, "max_tokens"),
    (b'{"model": "tiny", "prompt": "a", "max_tokens": "5"}', 400, "max_tokens"),
    (b'{"model": "tiny", "prompt": "a", "temperature": -1}', 400, "temperature"),
    (b'{"model": "tiny", "prompt": "a", "top_p": 0}', 400, "top_p"),
    (b'{"model": "tiny", "prompt": "a", "n": 1000}', 400, "n"),
    (b'{"model": "tiny", "prompt": "a", "logit_bias": {"-5": 1}}', 400, "logit_bias"),
    (b'{"model": "tiny", "prompt": "a", "no_such_thing": 1}', 400, "no_such_thing"),
    (b'{"model": "tiny", "prompt": "%s"}' % (b"a" * 3000), 400, "prompt"),
    (b'{"model": "tiny", "prompt": "%s"}' % (b"a" * 2**23), 413, None),
]


@pytest.mark.parametrize(("body", "status", "param"), BAD, ids=lambda value: str(value)[:60])
def test_bad_input_names_the_field(tiny: Deployed, body: bytes, status: int, param: str | None) -> None:
    headers = {"Content-Type": "application/json"}
    answer = httpx.post(f"{tiny.url}/v1/completions", content=body, headers=headers, timeout=PATIENCE_S)
    assert answer.status_code == status, answer.text
    error = answer.json()["error"]
    assert error["param"] == param
    assert error["message"]


def test_nothing_leaks_after_bad_input(tiny: Deployed) -> None:
    tiny.wait_until_idle()
    tiny.client().completions.create(model="tiny", prompt="abc", max_tokens=4)

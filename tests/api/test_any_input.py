"""Whatever a client combines, the answer is a completion or a 4xx that names a field of its request."""

from __future__ import annotations

from typing import Any

import httpx
from http_harness import MODEL
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

ODD: list[Any] = [None, -1, 0, 1, 2, 0.5, 1e308, -1e308, 2**63, "", "a", True, [], [1], ["a"], {}, {"5": 1}]
FIELDS = [
    *("max_tokens", "min_tokens", "temperature", "top_p", "top_k", "min_p", "seed", "n", "stop", "stream"),
    *("presence_penalty", "frequency_penalty", "repetition_penalty", "logit_bias", "ignore_eos"),
    *("logprobs", "top_logprobs", "echo", "best_of", "stop_token_ids", "stream_options", "suffix", "tools"),
    *("priority", "prompt_cache_key"),
]
PARAMS = st.dictionaries(st.sampled_from(FIELDS), st.sampled_from(ODD), max_size=5)
PROMPTS = st.sampled_from(["Hi", ["Hi", "a"], [5, 6], [[5], [6]], ["Hi"] * 9, [1.5], [[]], None])
ROUTES = st.sampled_from([("/v1/chat/completions", "messages"), ("/v1/completions", "prompt")])


@settings(
    max_examples=150,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(params=PARAMS, prompt=PROMPTS, route=ROUTES)
def test_no_5xx(http: httpx.Client, params: dict[str, Any], prompt: Any, route: tuple[str, str]) -> None:
    path, param = route
    asked = [{"role": "user", "content": "Hi"}] if param == "messages" else prompt
    body = {"model": MODEL, param: asked, **params}
    response = http.post(path, json=body)
    assert response.status_code in (200, 400), (body, response.text)
    if response.status_code == 400:
        assert response.json()["error"]["param"].split(".")[0] in body, (body, response.text)
    elif params.get("stream"):
        assert response.text.endswith("data: [DONE]\n\n")
        assert '"error"' not in response.text, (body, response.text)

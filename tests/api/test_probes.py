"""Alive, ready, models, metrics."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import httpx
import openai
import pytest
from http_harness import MODEL, PATIENCE_S, Running, ScriptedVerifier, config, eventually, serve
from prometheus_client.parser import text_string_to_metric_families

from serving.config import ServeConfig

CHAT = {"model": MODEL, "messages": [{"role": "user", "content": "Hi"}]}


def client_of(running: Running) -> httpx.Client:
    return httpx.Client(base_url=running.url, timeout=PATIENCE_S)


def test_before_a_verifier_is_up() -> None:
    impatient = config(connect_wait_s=0.05)
    with serve(ScriptedVerifier(up=False), impatient) as running, client_of(running) as http:
        assert http.get("/health").status_code == 200
        eventually(lambda: "no verifier is up" in http.get("/ready").text)
        for response in (
            http.get("/ready"),
            http.get("/v1/models"),
            http.post("/v1/chat/completions", json=CHAT),
            http.post("/v1/completions", json={"model": MODEL, "prompt": "Hi"}),
        ):
            assert response.status_code == 503
            error = response.json()["error"]
            assert (error["type"], error["code"]) == ("server_error", "unavailable")
        running.verifier.up = True
        eventually(lambda: http.get("/ready").status_code == 200)
        assert http.post("/v1/chat/completions", json=CHAT).status_code == 200
        running.verifier.up = False  # later: ready follows the verifiers, not what was once true
        assert http.get("/ready").status_code == 503
        assert http.get("/health").status_code == 200


def test_where_verifiers_come_with_requests_a_router_without_one_is_ready() -> None:
    """Once it knows the model. Asking for one would bring one."""
    settings = ServeConfig.load(
        {"served_model_name": MODEL, "replicas.verifiers": 0, "autoscaling.max_verifiers": 1}, environ={}
    )
    with serve(ScriptedVerifier(), settings) as running, client_of(running) as http:
        eventually(lambda: http.get("/ready").status_code == 200)
        running.verifier.up = False
        assert http.get("/ready").status_code == 200


def test_a_request_waits_for_a_router_that_has_just_started() -> None:
    with (
        serve(ScriptedVerifier(up=False)) as running,
        client_of(running) as http,
        ThreadPoolExecutor() as pool,
    ):
        answer = pool.submit(http.post, "/v1/chat/completions", json=CHAT)
        eventually(lambda: "no verifier is up" in http.get("/ready").text)
        assert not answer.done()
        running.verifier.up = True
        assert answer.result().status_code == 200


def test_models(client: openai.OpenAI, http: httpx.Client) -> None:
    (model,) = client.models.list().data
    assert (model.id, model.object, model.created) == (MODEL, "model", 1_700_000_000)
    assert model.max_model_len == 200
    assert client.models.retrieve(MODEL) == model
    assert http.get("/v1/models/org/other").status_code == 404
    with pytest.raises(openai.NotFoundError, match="other"):
        client.models.retrieve("other")


def test_metrics_count_a_request(http: httpx.Client) -> None:
    def value(name: str, **labels: str) -> float:
        families = text_string_to_metric_families(http.get("/metrics").text)
        samples = [sample for family in families for sample in family.samples if sample.name == name]
        return sum(s.value for s in samples if labels.items() <= s.labels.items())

    names = (
        "vllm:prompt_tokens_total",
        "vllm:generation_tokens_total",
        "vllm:time_to_first_token_seconds_count",
    )
    before = [value(name, model_name=MODEL) for name in names]
    stopped = value("vllm:request_success_total", finished_reason="stop")
    answered = value("canopy:http_requests_total", route="/v1/chat/completions", status="200")
    usage = http.post("/v1/chat/completions", json=CHAT).json()["usage"]
    after = [value(name, model_name=MODEL) for name in names]
    assert [b - a for a, b in zip(before, after, strict=True)] == [
        usage["prompt_tokens"],
        usage["completion_tokens"],
        1,
    ]
    assert value("vllm:request_success_total", finished_reason="stop") == stopped + 1
    assert value("canopy:http_requests_total", route="/v1/chat/completions", status="200") == answered + 1
    assert value("canopy:http_requests_in_flight", model_name=MODEL) == 1, "this very scrape"


def test_openapi_documents_the_requests(http: httpx.Client) -> None:
    document = http.get("/openapi.json").json()
    for path, schema in (
        ("/v1/chat/completions", "ChatCompletionRequest"),
        ("/v1/completions", "TextCompletionRequest"),
        ("/tokenize", "TokenizeRequest"),
        ("/detokenize", "DetokenizeRequest"),
    ):
        body = document["paths"][path]["post"]["requestBody"]["content"]["application/json"]["schema"]
        assert body == {"$ref": f"#/components/schemas/{schema}"}
        assert document["components"]["schemas"][schema]["additionalProperties"] is False
    properties = document["components"]["schemas"]["TextCompletionRequest"]["properties"]
    assert {"model", "temperature", "num_speculative_tokens", "logit_bias", "echo"} <= set(properties)
    references = set(_references(document))
    assert references <= {f"#/components/schemas/{name}" for name in document["components"]["schemas"]}
    assert len(references) > 10


def _references(node: object) -> list[str]:
    if isinstance(node, dict):
        found = [node["$ref"]] if isinstance(node.get("$ref"), str) else []
        return found + [ref for value in node.values() for ref in _references(value)]
    return [ref for value in node for ref in _references(value)] if isinstance(node, list) else []

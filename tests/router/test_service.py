"""Readiness: the service keeps asking, and says why it is not ready."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest
from http_harness import CARD, PATIENCE_S, ScriptedVerifier, config

from serving.errors import ModelReplacedError, TokenizerReplacedError, UnavailableError
from serving.router import service as service_module
from serving.router.service import Service
from serving.types import GenerationRequest, SamplingParams


@pytest.fixture(autouse=True)
def _quick_retries(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service_module, "_RETRY_S", 0.01)


async def reason_not_ready(service: Service, reason: str) -> None:
    """Wait until the service gives this reason."""
    async with asyncio.timeout(PATIENCE_S):
        while True:
            with pytest.raises(UnavailableError) as error:
                _ = service.model
            if reason in str(error.value):
                return
            await asyncio.sleep(0.01)


async def test_ready_once_a_verifier_is_up() -> None:
    verifier = ScriptedVerifier(up=False)
    service = Service(config(), verifier)
    connecting = asyncio.create_task(service.connect())
    await reason_not_ready(service, "no verifier is up")
    verifier.up = True
    await asyncio.wait_for(connecting, PATIENCE_S)
    assert service.model.card is verifier.card


@pytest.mark.parametrize(
    ("wrong", "reason"),
    [
        ({"tokenizer_json": b"{}"}, "tokenizer.json cannot be read"),
        ({"chat_template": "{% if %}"}, "does not parse"),
    ],
)
async def test_an_unusable_model_is_never_ready(wrong: dict[str, object], reason: str) -> None:
    service = Service(config(), ScriptedVerifier(card=replace(CARD, **wrong)))
    connecting = asyncio.create_task(service.connect())
    await reason_not_ready(service, reason)
    connecting.cancel()


async def test_a_silent_verifier(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service_module, "_DESCRIBE_TIMEOUT_S", 0.01)

    class Silent(ScriptedVerifier):
        async def describe(self) -> None:
            await asyncio.sleep(60)

    service = Service(config(), Silent())
    connecting = asyncio.create_task(service.connect())
    await reason_not_ready(service, "no verifier has answered")
    connecting.cancel()


@pytest.mark.parametrize("error", [TokenizerReplacedError, ModelReplacedError])
async def test_a_model_of_another_tokenizer_is_read_when_it_answers(error: type[ModelReplacedError]) -> None:
    """A rolling update in place: a router that knows the old tokenizer must not go on with it. Where only an
    answer that had begun cannot go on, what the router knows is still right."""
    newer = replace(CARD, chat_template="{{ messages }}", fingerprint="fp-2")
    verifier = ScriptedVerifier()
    service = Service(config(), verifier)
    await service.connect()
    request = GenerationRequest("r", (1,), SamplingParams(max_tokens=1), tokenizer=service.model.tokenizer)
    verifier.card, verifier.script = newer, lambda _: [error("another model is served now")]
    with pytest.raises(ModelReplacedError):
        async for _ in service.generate(request):
            pass
    await service.connected()
    assert service.model.card is (newer if error is TokenizerReplacedError else CARD)

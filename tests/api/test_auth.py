"""API keys, where they are configured."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import httpx
import openai
import pytest
from http_harness import MODEL, PATIENCE_S, config, serve

from serving.api.auth import ApiKeys
from serving.config import RouterConfig, ServeConfig
from serving.errors import AuthenticationError, ConfigError

HI = [{"role": "user", "content": "Hi"}]


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    file = tmp_path_factory.mktemp("keys") / "keys"
    file.write_text("# staff\nfrom-file  # Ada\n")
    with serve(settings=config(api_keys=("from-config",), api_keys_file=file)) as running:
        yield running.url


@pytest.mark.parametrize("key", ["from-config", "from-file"])
def test_a_key_opens(guarded: str, key: str) -> None:
    with openai.OpenAI(base_url=f"{guarded}/v1", api_key=key) as client:
        assert client.chat.completions.create(model=MODEL, messages=HI).choices


@pytest.mark.parametrize(
    "header",
    [None, "", "Bearer", "Bearer wrong", "Bearer from-confi", "Basic from-config", "from-config"],
)
@pytest.mark.parametrize(("method", "path"), [("POST", "/v1/chat/completions"), ("GET", "/v1/models")])
def test_without_one_it_is_401(guarded: str, header: str | None, method: str, path: str) -> None:
    headers = {} if header is None else {"Authorization": header}
    response = httpx.request(method, guarded + path, headers=headers, timeout=PATIENCE_S)
    assert response.status_code == 401
    assert response.headers["www-authenticate"] == "Bearer"
    assert response.json()["error"]["code"] == "invalid_api_key"
    assert "from-" not in response.text


@pytest.mark.parametrize("path", ["/health", "/ready", "/metrics"])
def test_probes_are_open(guarded: str, path: str) -> None:
    assert httpx.get(guarded + path, timeout=PATIENCE_S).status_code == 200


def test_without_keys_everyone_may_enter() -> None:
    ApiKeys.from_config(RouterConfig()).check(None)


def test_keys_from_the_environment() -> None:
    settings = ServeConfig.load(environ={"CANOPY_ROUTER_API_KEYS": "one, two"})
    keys = ApiKeys.from_config(settings.router)
    keys.check("Bearer one")
    keys.check("bearer two")
    with pytest.raises(AuthenticationError):
        keys.check("Bearer three")


@pytest.mark.parametrize("content", [None, "", "# only a comment\n", b"\xff"])
def test_a_key_file_without_keys_is_refused_not_ignored(tmp_path: Path, content: str | bytes | None) -> None:
    file = tmp_path / "keys"
    if content is not None:
        file.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(ConfigError, match="api_keys_file"):
        ApiKeys.from_config(RouterConfig(api_keys_file=file))


def test_an_empty_key_is_refused() -> None:
    with pytest.raises(ConfigError, match="empty"):
        ApiKeys.from_config(RouterConfig(api_keys=("good", " ")))


def test_keys_are_not_shown() -> None:
    assert "secret" not in repr(RouterConfig(api_keys=("secret",)))

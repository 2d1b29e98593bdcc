"""One chat completion through the service."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from deploy.cluster.connection import Cluster
from deploy.errors import DeployError, NotHealthyError
from deploy.rollout.forward import connection_to

TIMEOUT_S = 120.0
_QUESTION = "Say hello."


class Smoke(NamedTuple):
    """`url`: where clients ask, a load balancer's for example; None: through the Kubernetes API, past it.
    `api_key`: empty for a service that has none.
    """

    url: str | None
    api_key: str

    def test(self, cluster: Cluster, service: str) -> str:
        """The answer. Raises NotHealthyError, and DeployError where it is the test that is wrong."""
        with self._connection(cluster, service) as connection:
            try:
                models = self._ask(connection, "GET", "/v1/models", None)
                model = models["data"][0]["id"]
                messages = [{"role": "user", "content": _QUESTION}]
                body = {"model": model, "messages": messages, "max_tokens": 8, "temperature": 0}
                answer = self._ask(connection, "POST", "/v1/chat/completions", body)
                content = answer["choices"][0]["message"]["content"]
            except (OSError, HTTPException) as error:
                raise NotHealthyError(
                    f"the service does not answer: {error or type(error).__name__}."
                ) from error
            except (LookupError, TypeError, ValueError) as error:
                raise NotHealthyError("the service answers something else than a chat completion.") from error
        if not content:
            raise NotHealthyError("the service answers an empty chat completion.")
        return str(content)

    @contextmanager
    def _connection(self, cluster: Cluster, service: str) -> Iterator[HTTPConnection]:
        if self.url is None:
            with connection_to(cluster, service, TIMEOUT_S) as connection:
                yield connection
            return
        parts = urlsplit(self.url)
        kind = HTTPSConnection if parts.scheme == "https" else HTTPConnection
        opened = kind(parts.netloc, timeout=TIMEOUT_S)
        try:
            yield opened
        finally:
            opened.close()

    def _ask(self, connection: HTTPConnection, method: str, path: str, body: Any) -> Any:
        headers = {"Content-Type": "application/json"}
        if self.api_key:
            headers["Authorization"] = f"Bearer {self.api_key}"
        prefix = urlsplit(self.url).path.rstrip("/") if self.url else ""
        connection.request(method, prefix + path, json.dumps(body) if body else None, headers)
        response = connection.getresponse()
        content = response.read()
        if response.status in (401, 403):
            raise DeployError(
                "the new version is ready, but not tested and not rolled back: it wants another API key "
                "(ROLLOUT_API_KEY)."
            )
        if response.status != 200:
            raise NotHealthyError(f"{path} was answered {response.status}.")
        return json.loads(content)

"""The API's keys: `Authorization: Bearer KEY`, against a secret with one key per line."""

from __future__ import annotations

import hashlib
import hmac
import time
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError

from chat_lambda.errors import RequestError

# A key that was taken away is refused after this at the latest.
_FRESH_S = 300


class Keys:
    """`client` is boto3's secretsmanager."""

    def __init__(self, client: Any, secret: str) -> None:
        self._client = client
        self._secret = secret
        self._digests: tuple[bytes, ...] = ()
        self._read_at = -_FRESH_S * 1.0

    def check(self, authorization: str) -> None:
        """Raises RequestError. Without a readable key nobody is let in."""
        if time.monotonic() - self._read_at >= _FRESH_S:
            self._read()
        scheme, _, key = authorization.partition(" ")
        given = _digest(key.strip())
        matches = [hmac.compare_digest(given, digest) for digest in self._digests]
        if scheme.lower() != "bearer" or not any(matches):
            raise RequestError(
                "a valid API key is needed: `Authorization: Bearer KEY`", status=401, code="invalid_api_key"
            )

    def _read(self) -> None:
        try:
            text = self._client.get_secret_value(SecretId=self._secret)["SecretString"]
        except (ClientError, BotoCoreError, KeyError) as error:
            raise RequestError("the API's keys cannot be read", status=503, code="unavailable") from error
        self._digests = tuple(_digest(line.strip()) for line in text.splitlines() if line.strip())
        self._read_at = time.monotonic()


def _digest(key: str) -> bytes:
    return hashlib.sha256(key.encode("utf-8", "surrogateescape")).digest()

"""Optional API keys: `Authorization: Bearer KEY`."""

from __future__ import annotations

import hashlib
import hmac
from pathlib import Path

from serving.config import RouterConfig
from serving.errors import AuthenticationError, ConfigError


class ApiKeys:
    """The accepted keys, kept as digests. None at all: everyone may enter."""

    def __init__(self, keys: tuple[str, ...]) -> None:
        self._digests = tuple(_digest(key) for key in keys)

    @classmethod
    def from_config(cls, config: RouterConfig) -> ApiKeys:
        """Raises ConfigError when a key file is asked for and gives no key: never open by accident."""
        keys = tuple(key.strip() for key in config.api_keys)
        if config.api_keys_file is not None:
            keys += _read_keys(config.api_keys_file)
        if not all(keys):
            raise ConfigError("router.api_keys: a key is empty")
        return cls(keys)

    def check(self, authorization: str | None) -> None:
        """Raises AuthenticationError. The time taken does not depend on which key is nearly right."""
        if not self._digests:
            return
        scheme, _, key = (authorization or "").partition(" ")
        given = _digest(key.strip())
        matches = [hmac.compare_digest(given, digest) for digest in self._digests]
        if scheme.lower() != "bearer" or not any(matches):
            raise AuthenticationError("a valid API key is needed: `Authorization: Bearer KEY`")


def _digest(key: str) -> bytes:
    return hashlib.sha256(key.encode()).digest()


def _read_keys(path: Path) -> tuple[str, ...]:
    try:
        lines = path.read_text().splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"router.api_keys_file: cannot read {path}: {error}") from error
    keys = tuple(key for line in lines if (key := line.partition("#")[0].strip()))
    if not keys:
        raise ConfigError(f"router.api_keys_file: {path} has no key")
    return keys

"""An AWS on loopback, and a command line that talks to it."""

from __future__ import annotations

import urllib.request
from pathlib import Path
from typing import NamedTuple

import pytest

from deploy.__main__ import main

BUCKET = "models"


class Ran(NamedTuple):
    status: int
    out: str
    err: str

    @property
    def error(self) -> str:
        """The one sentence that an operator reads; fails when there is more than that."""
        lines = [line for line in self.err.splitlines() if line.startswith("error: ")]
        assert len(lines) == 1, self.err
        assert "Traceback" not in self.err
        return lines[0].removeprefix("error: ")


class CommandLine:
    def __init__(self, capfd: pytest.CaptureFixture[str]) -> None:
        self._capfd = capfd

    def __call__(self, *arguments: object) -> Ran:
        self._capfd.readouterr()
        status = main([str(argument) for argument in arguments])
        out, err = self._capfd.readouterr()
        return Ran(status, out, err)


def point_at(endpoint: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Let this process's AWS configuration name the server, which is emptied, and nothing else."""
    ask(f"{endpoint}/moto-api/reset")
    for name in ("AWS_PROFILE", "AWS_SESSION_TOKEN", "AWS_REGION"):
        monkeypatch.delenv(name, raising=False)
    for name, value in {
        "AWS_ENDPOINT_URL": endpoint,
        "AWS_ACCESS_KEY_ID": "key",
        "AWS_SECRET_ACCESS_KEY": "secret",
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_MAX_ATTEMPTS": "1",
        "AWS_EC2_METADATA_DISABLED": "true",
        "AWS_SHARED_CREDENTIALS_FILE": str(tmp_path / "no-credentials"),
        "AWS_CONFIG_FILE": str(tmp_path / "no-config"),
        "CANOPY_CACHE_DIR": str(tmp_path / "cache"),
    }.items():
        monkeypatch.setenv(name, value)


def check_permissions_after(endpoint: str, actions: str) -> None:
    """Let moto check credentials and policies from the n-th action on; `inf`: never."""
    ask(f"{endpoint}/moto-api/reset-auth", actions.encode())


def ask(url: str, body: bytes = b"") -> None:
    request = urllib.request.Request(url, data=body, method="POST", headers={"Content-Type": "text/plain"})
    urllib.request.urlopen(request).close()

"""A command line, and who may do what in the AWS that it talks to."""

from __future__ import annotations

from typing import NamedTuple

import pytest
from loopback_aws import ask

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


def check_permissions_after(endpoint: str, actions: str) -> None:
    """Let moto check credentials and policies from the n-th action on; `inf`: never."""
    ask(f"{endpoint}/moto-api/reset-auth", actions.encode())

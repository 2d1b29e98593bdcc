"""The whole service in processes of its own, as `serve run` would start it, and what can be asked of it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from benchmarks.errors import BenchmarkError
from benchmarks.memory import ProcessMemory, of_tree

STOP_TIMEOUT_S = 60.0
# As `make serve` has it.
ENVIRONMENT = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_SERVE_PROXY_USE_GRPC": "1"}


class Stack:
    """A context manager around `benchmarks.stack_process`. Raises BenchmarkError when it does not come up.

    `settings` are ServeConfig's; the processes inherit `environment`, and what `make serve` adds to it.
    """

    def __init__(self, settings: dict[str, Any], environment: dict[str, str]) -> None:
        self._log = tempfile.TemporaryFile("w+")  # noqa: SIM115 - closed in __exit__
        # A session of its own: an interrupt reaches this process alone, which then ends the other in order.
        self._process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.stack_process"],
            cwd=Path(__file__).parent.parent,
            env=environment | ENVIRONMENT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
            start_new_session=True,
        )
        try:
            started = self._ask(settings)
        except BaseException:
            self._stop()
            raise
        self.url: str = started["url"]

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop()

    def counters(self) -> dict[str, Any]:
        """The verifier's `EngineStats` as a dictionary."""
        return self._ask("counters")

    def memory(self) -> list[ProcessMemory]:
        """Of every process of the service, this one not among them."""
        return of_tree(self._process.pid)

    def _ask(self, question: Any) -> dict[str, Any]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            self._process.stdin.write(json.dumps(question) + "\n")
            self._process.stdin.flush()
            line = self._process.stdout.readline()
        except BrokenPipeError:
            line = ""
        if not line:
            raise BenchmarkError(f"the service ended by itself:\n{self._last_words()}")
        answer: dict[str, Any] = json.loads(line)
        if "error" in answer:
            raise BenchmarkError(f"the service failed: {answer['error']}")
        return answer

    def _last_words(self) -> str:
        self._log.seek(0, os.SEEK_END)
        self._log.seek(max(0, self._log.tell() - 4000))
        return self._log.read()

    def _stop(self) -> None:
        """The other process ends when its input does."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        try:
            self._process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process.stdout.close()
        self._log.close()

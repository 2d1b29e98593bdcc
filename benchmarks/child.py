"""A process of our own that answers questions, one JSON line each."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from benchmarks.errors import BenchmarkError

ROOT = Path(__file__).parent.parent
STOP_TIMEOUT_S = 60.0


class _Stopped(ABC):
    """A context manager that stops itself."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    @abstractmethod
    def stop(self) -> None: ...


class Child(_Stopped):
    """Runs `python -m module`, whose main calls `serve_lines`; a context manager that ends it.

    python: of another environment, if need be. Raises BenchmarkError where there is none.
    """

    def __init__(self, module: str, environment: dict[str, str], python: str = sys.executable) -> None:
        self._module = module
        self._log = tempfile.TemporaryFile("w+")  # noqa: SIM115 - closed in `stop`
        # A session of its own: an interrupt reaches this process alone, which then ends the other in order.
        try:
            self._process = subprocess.Popen(
                [python, "-m", module],
                cwd=ROOT,
                env=environment,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._log,
                text=True,
                start_new_session=True,
            )
        except OSError as error:
            self._log.close()
            raise BenchmarkError(f"{python} cannot be run: {error}") from None

    @property
    def pid(self) -> int:
        return self._process.pid

    def ask(self, question: Any) -> dict[str, Any]:
        """Raises BenchmarkError when the process fails to answer."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            self._process.stdin.write(json.dumps(question) + "\n")
            self._process.stdin.flush()
            line = self._process.stdout.readline()
        except BrokenPipeError:
            line = ""
        if not line:
            raise BenchmarkError(f"{self._module} ended by itself:\n{self._last_words()}")
        answer: dict[str, Any] = json.loads(line)
        if "error" in answer:
            raise BenchmarkError(f"{self._module} failed: {answer['error']}")
        return answer

    def stop(self) -> None:
        """The process ends when its input does."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with suppress(BrokenPipeError):  # it has ended already, a question unread
            self._process.stdin.close()
        try:
            self._process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process.stdout.close()
        self._log.close()

    def _last_words(self) -> str:
        self._log.seek(0, os.SEEK_END)
        self._log.seek(max(0, self._log.tell() - 4000))
        return self._log.read()


class ChildOwner(_Stopped):
    """What is done in a process of its own; a context manager that ends the process."""

    def __init__(self, child: Child) -> None:
        self._child = child

    def stop(self) -> None:
        """May be called twice."""
        self._child.stop()

    @contextmanager
    def _starting(self) -> Iterator[None]:
        """For the owner's constructor: where it fails, nobody else would end the process."""
        try:
            yield
        except BaseException:
            self.stop()
            raise


def serve_lines(answer: Callable[[Any], dict[str, Any]], reason: Callable[[Exception], str] = str) -> None:
    """The child's side: answers every line until the input ends.

    The first exception is answered with its `reason` and ends this. What libraries print goes to standard
    error.
    """
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    for line in sys.stdin:
        try:
            reply = answer(json.loads(line))
        except Exception as error:
            answers.write(json.dumps({"error": reason(error) or type(error).__name__}) + "\n")
            return
        answers.write(json.dumps(reply) + "\n")

"""The whole service in processes of its own, as `make serve` would start it, and what can be asked of it."""

from __future__ import annotations

from typing import Any

from benchmarks.child import Child, ChildOwner
from benchmarks.memory import ProcessMemory, of_tree

# What `make serve` sets.
ENVIRONMENT = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_SERVE_PROXY_USE_GRPC": "1", "MALLOC_ARENA_MAX": "2"}


class Stack(ChildOwner):
    """A context manager. Raises BenchmarkError, with Serve's own words, when the service does not come up.

    `settings` are ServeConfig's; the processes inherit `environment`.
    """

    def __init__(self, settings: dict[str, Any], environment: dict[str, str]) -> None:
        super().__init__(Child("benchmarks.stack_process", environment | ENVIRONMENT))
        with self._starting():
            self.url: str = self._child.ask(settings)["url"]

    def counters(self) -> dict[str, Any]:
        """The verifier's `EngineStats` as a dictionary."""
        return self._child.ask("counters")

    def memory(self) -> list[ProcessMemory]:
        """Of every process of the service, this one not among them."""
        return of_tree(self._child.pid)

"""Starts the service on a Ray cluster of its own, and answers questions about it (see `Child`).

The first line is the settings, answered by the service's `url`. Then `"counters"` is answered by the
verifier's counters. The end of the input ends the service.
"""

from __future__ import annotations

import socket
import time
import urllib.error
import urllib.request
from typing import Any

import ray
from ray import serve

from benchmarks.child import serve_lines
from serving.app import build

HOST = "127.0.0.1"
READY_TIMEOUT_S = 120.0


def main() -> None:
    try:
        serve_lines(_answer, reason)
    finally:
        serve.shutdown()  # type: ignore[no-untyped-call]
        ray.shutdown()


def _answer(question: Any) -> dict[str, Any]:
    if question != "counters":
        return {"url": _start(question)}
    verifier = serve.get_deployment_handle("Verifier", "default")
    counters: dict[str, Any] = verifier.stats.remote().result(timeout_s=60)
    return counters


def _start(settings: dict[str, Any]) -> str:
    """As `serve run` does it, but never on a cluster that runs already, and on a free port."""
    application = build(settings)
    ray.init(address="local", namespace="serve", log_to_driver=False)
    port = free_port()
    serve.start(http_options={"host": HOST, "port": port})
    serve.run(application)
    url = f"http://{HOST}:{port}"
    wait_until_ready(f"{url}/ready")
    return url


def reason(error: Exception) -> str:
    """What Serve says of deployments that did not start, or else the error itself."""
    applications = serve.status().applications.values() if ray.is_initialized() else ()
    messages = [d.message for app in applications for d in app.deployments.values() if d.message]
    return "\n".join(messages) or str(error)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        port: int = probe.getsockname()[1]
        return port


def wait_until_ready(url: str) -> None:
    end = time.monotonic() + READY_TIMEOUT_S
    while True:
        try:
            urllib.request.urlopen(url, timeout=5).close()
            return
        except (urllib.error.URLError, TimeoutError) as error:
            if time.monotonic() > end:
                raise TimeoutError(f"not ready after {READY_TIMEOUT_S:.0f} s: {error}") from None
            time.sleep(0.2)


if __name__ == "__main__":
    main()

"""What stands before a function: Lambda's runtime API on loopback, and a gateway that uses it."""

from __future__ import annotations

import json
import queue
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple

DELIMITER = bytes(8)
PATIENCE_S = 60.0  # until something counts as hanging, however busy the machine is


class Part(NamedTuple):
    """One chunk of a reply; None: the reply has ended."""

    data: bytes | None


@dataclass
class Reply:
    """As it comes in: `chunks` blocks until there is another."""

    status: int
    headers: dict[str, str]
    rest: bytes
    parts: queue.Queue[Part]

    def chunks(self) -> Iterator[bytes]:
        if self.rest:
            yield self.rest
        while (part := self.parts.get(timeout=PATIENCE_S)).data is not None:
            yield part.data

    def json(self) -> dict[str, Any]:
        answer = json.loads(b"".join(self.chunks()))
        assert isinstance(answer, dict)
        return answer

    def events(self) -> list[Any]:
        """Of a stream of server-sent events, the last one `[DONE]`."""
        lines = b"".join(self.chunks()).decode().split("\n\n")
        assert lines.pop() == ""
        texts = [line.removeprefix("data: ") for line in lines]
        return [json.loads(text) if text != "[DONE]" else text for text in texts]


@dataclass
class Gateway:
    """Every invocation has its parts; the function works on one at a time."""

    events: queue.Queue[tuple[dict[str, Any], queue.Queue[Part]]] = field(default_factory=queue.Queue)
    answered: queue.Queue[Part] = field(default_factory=queue.Queue)
    modes: list[str | None] = field(default_factory=list)
    init_errors: queue.Queue[dict[str, str]] = field(default_factory=queue.Queue)

    def send(self, event: dict[str, Any]) -> Reply:
        """Returns when status and headers are there."""
        parts: queue.Queue[Part] = queue.Queue()
        self.events.put((event, parts))
        received = b""
        while DELIMITER not in received:
            data = parts.get(timeout=PATIENCE_S).data
            assert data is not None, "the reply ended before its delimiter"
            received += data
        head, _, rest = received.partition(DELIMITER)
        prelude = json.loads(head)
        return Reply(prelude["statusCode"], prelude["headers"], rest, parts)


def served(gateway: Gateway) -> ThreadingHTTPServer:
    """The runtime API of `gateway` on a free port; the caller starts and stops it."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            assert self.path == "/2018-06-01/runtime/invocation/next"
            event, gateway.answered = gateway.events.get()
            data = json.dumps(event).encode()
            self.send_response(200)
            self.send_header("Lambda-Runtime-Aws-Request-Id", "1234")
            self.send_header("Lambda-Runtime-Trace-Id", "Root=1")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def do_POST(self) -> None:
            if self.path == "/2018-06-01/runtime/init/error":
                gateway.init_errors.put(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            else:
                assert self.path == "/2018-06-01/runtime/invocation/1234/response"
                gateway.modes.append(self.headers["Lambda-Runtime-Function-Response-Mode"])
                self._take_chunks()
            self.send_response(202)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def _take_chunks(self) -> None:
            while size := int(self.rfile.readline(), 16):
                gateway.answered.put(Part(self.rfile.read(size)))
                self.rfile.readline()
            self.rfile.readline()
            gateway.answered.put(Part(None))

        def log_message(self, *_: object) -> None:
            pass

    return ThreadingHTTPServer(("127.0.0.1", 0), Handler)

"""A service that answers chat completions, or not."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class ChatService:
    """`status`: of every answer. `key`: asked for where not empty. `asked`: bodies of chat completions."""

    def __init__(self) -> None:
        self.status, self.key, self.text = 200, "", "Hello."
        self.asked: list[Any] = []
        self.address = ("", 0)

    @contextmanager
    def serving(self) -> Iterator[ChatService]:
        server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        self.address = ("127.0.0.1", server.server_port)
        try:
            yield self
        finally:
            server.shutdown()
            server.server_close()


def _handler(service: ChatService) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            self._answer({"data": [{"id": "tiny"}]})

        def do_POST(self) -> None:
            service.asked.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self._answer({"choices": [{"message": {"role": "assistant", "content": service.text}}]})

        def log_message(self, *_: Any) -> None:
            pass

        def _answer(self, document: Any) -> None:
            allowed = not service.key or self.headers["Authorization"] == f"Bearer {service.key}"
            content = json.dumps(document).encode()
            self.send_response(service.status if allowed else 401)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

    return Handler

"""A real HTTP server on the loopback interface that misbehaves on request."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@dataclass
class FileServer:
    """Serves `files` by path. `cuts`: after how many body bytes each next request breaks off (None: not).

    `statuses`: what each next request is answered with instead. `ranges`: the Range header of every request.
    """

    files: dict[str, bytes] = field(default_factory=dict)
    honours_ranges: bool = True
    cuts: list[int | None] = field(default_factory=list)
    statuses: list[int] = field(default_factory=list)
    ranges: list[str | None] = field(default_factory=list)
    url: str = ""


def _handler(server: FileServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_HEAD(self) -> None:
            self._answer(server.files.get(self.path.partition("?")[0]), 0)

        def do_GET(self) -> None:
            server.ranges.append(self.headers["Range"])
            if server.statuses:
                self.send_error(server.statuses.pop(0))
                return
            cut = server.cuts.pop(0) if server.cuts else None
            self._answer(server.files.get(self.path.partition("?")[0]), cut)

        def _answer(self, body: bytes | None, cut: int | None) -> None:
            if body is None:
                self.send_error(404)
                return
            wanted = self.headers["Range"] if server.honours_ranges else None
            start = int(wanted.removeprefix("bytes=").removesuffix("-")) if wanted else 0
            if start and start >= len(body):
                self.send_error(416)
                return
            self.send_response(206 if start else 200)
            self.send_header(
                "Content-Type", "text/html" if self.path.endswith("/") else "application/octet-stream"
            )
            self.send_header("Content-Length", str(len(body) - start))
            self.end_headers()
            self.wfile.write(body[start:] if cut is None else body[start : start + cut])

        def log_message(self, *_: object) -> None:
            pass

    return Handler


@contextmanager
def serve_files() -> Iterator[FileServer]:
    state = FileServer()
    with ThreadingHTTPServer(("127.0.0.1", 0), _handler(state)) as http:
        state.url = f"http://127.0.0.1:{http.server_port}"
        thread = threading.Thread(target=http.serve_forever, daemon=True)
        thread.start()
        yield state
        http.shutdown()
        thread.join()

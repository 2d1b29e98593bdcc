"""A real HTTP server on the loopback interface that misbehaves on request."""

from __future__ import annotations

import threading
from base64 import b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import NamedTuple


class Request(NamedTuple):
    path: str
    range: str | None


@dataclass
class FileServer:
    """Serves `files` by path (queries are ignored), with extra `headers` by path.

    `cuts`: by path, after how many body bytes each next answer breaks off (None: it does not).
    `statuses`: by path, what each next request is answered with instead.
    """

    files: dict[str, bytes] = field(default_factory=dict)
    headers: dict[str, dict[str, str]] = field(default_factory=dict)
    honours_ranges: bool = True
    credentials: str | None = None
    cuts: dict[str, list[int | None]] = field(default_factory=dict)
    statuses: dict[str, list[int]] = field(default_factory=dict)
    requests: list[Request] = field(default_factory=list)
    url: str = ""

    def ranges(self, path: str) -> list[str | None]:
        """The Range header of every GET of `path`."""
        return [request.range for request in self.requests if request.path == path]


class _Handler(BaseHTTPRequestHandler):
    state: FileServer

    def do_HEAD(self) -> None:
        self._serve(with_body=False)

    def do_GET(self) -> None:
        self.state.requests.append(Request(self._file, self.headers["Range"]))
        self._serve(with_body=True)

    def _serve(self, with_body: bool) -> None:
        status = self._refusal()
        if status is not None:
            self._head(status, 0)
            return
        body = self.state.files[self._file]
        start = self._start()
        if start and start >= len(body):
            self._head(416, 0)
            return
        self._head(206 if start else 200, len(body) - start)
        if with_body:
            cut = (self.state.cuts.get(self._file) or [None]).pop(0)
            self.wfile.write(body[start:] if cut is None else body[start : start + cut])

    def _refusal(self) -> int | None:
        if pending := self.state.statuses.get(self._file):
            return pending.pop(0)
        if self.state.credentials is not None:
            expected = "Basic " + b64encode(self.state.credentials.encode()).decode()
            if self.headers["Authorization"] != expected:
                return 401
        return None if self._file in self.state.files else 404

    def _start(self) -> int:
        wanted = self.headers["Range"] if self.state.honours_ranges else None
        return int(wanted.removeprefix("bytes=").partition("-")[0]) if wanted else 0

    def _head(self, status: int, length: int) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(length))
        extra = {"WWW-Authenticate": 'Basic realm="files"'} if status == 401 else {}
        for name, value in (extra | self.state.headers.get(self._file, {})).items():
            self.send_header(name, value)
        self.end_headers()

    @property
    def _file(self) -> str:
        return self.path.partition("?")[0]

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def serve_files() -> Iterator[FileServer]:
    state = FileServer()
    handler = type("Handler", (_Handler,), {"state": state})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as http:
        state.url = f"http://127.0.0.1:{http.server_port}"
        thread = threading.Thread(target=http.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        yield state
        http.shutdown()
        thread.join()

"""A small Bedrock on loopback: the Converse API's two calls, with replies that a test puts there."""

from __future__ import annotations

import json
import struct
import threading
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import unquote

USAGE = {"inputTokens": 7, "outputTokens": 2, "totalTokens": 9}


@dataclass
class Refusal:
    status: int
    name: str
    message: str


@dataclass
class Bedrock:
    """texts: what the model says, in pieces; an exception name among them breaks a stream off.

    `hold` is waited for before the second piece, `asked` are the bodies of the calls so far.
    """

    texts: list[str] = field(default_factory=lambda: ["Hello", " there"])
    stop_reason: str = "end_turn"
    refusal: Refusal | None = None
    breaks_off: str | None = None
    hold: threading.Event = field(default_factory=threading.Event)
    asked: list[dict[str, Any]] = field(default_factory=list)
    paths: list[str] = field(default_factory=list)

    def whole(self) -> dict[str, Any]:
        message = {"role": "assistant", "content": [{"text": "".join(self.texts)}]}
        return {"output": {"message": message}, "stopReason": self.stop_reason, "usage": USAGE}

    def events(self) -> Iterator[bytes]:
        yield _frame("messageStart", {"role": "assistant"})
        for index, text in enumerate(self.texts):
            if index:
                self.hold.wait(60)
            yield _frame("contentBlockDelta", {"contentBlockIndex": 0, "delta": {"text": text}})
        if self.breaks_off:
            yield _frame(self.breaks_off, {"message": "too slow"}, "exception")
            return
        yield _frame("contentBlockStop", {"contentBlockIndex": 0})
        yield _frame("messageStop", {"stopReason": self.stop_reason})
        yield _frame("metadata", {"usage": USAGE, "metrics": {"latencyMs": 1}})


def served(bedrock: Bedrock) -> ThreadingHTTPServer:
    """A server of `bedrock` on a free port; the caller starts and stops it."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            bedrock.paths.append(unquote(self.path))
            bedrock.asked.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            if bedrock.refusal:
                name = {"x-amzn-ErrorType": bedrock.refusal.name}
                self._whole({"message": bedrock.refusal.message}, bedrock.refusal.status, name)
            elif self.path.endswith("/converse-stream"):
                self._chunks(bedrock.events())
            else:
                self._whole(bedrock.whole(), 200, {})

        def _whole(self, body: dict[str, Any], status: int, headers: dict[str, str]) -> None:
            data = json.dumps(body).encode()
            self.send_response(status)
            for name, value in {"Content-Type": "application/json", **headers}.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def _chunks(self, frames: Iterable[bytes]) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "application/vnd.amazon.eventstream")
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            for frame in frames:
                self.wfile.write(b"%x\r\n%s\r\n" % (len(frame), frame))
            self.wfile.write(b"0\r\n\r\n")

        def log_message(self, *_: object) -> None:
            pass

    return ThreadingHTTPServer(("127.0.0.1", 0), Handler)


def _frame(name: str, body: dict[str, Any], kind: str = "event") -> bytes:
    """One message of AWS's event stream: lengths, their checksum, headers, payload, a checksum of all."""
    values = {":message-type": kind, f":{kind}-type": name, ":content-type": "application/json"}
    headers = b"".join(
        bytes([len(key)]) + key.encode() + b"\x07" + struct.pack(">H", len(value)) + value.encode()
        for key, value in values.items()
    )
    payload = json.dumps(body).encode()
    prelude = struct.pack(">II", 16 + len(headers) + len(payload), len(headers))
    message = prelude + struct.pack(">I", zlib.crc32(prelude)) + headers + payload
    return message + struct.pack(">I", zlib.crc32(message))

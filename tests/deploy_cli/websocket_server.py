"""The server's side of a WebSocket (RFC 6455), as far as the Kubernetes client speaks it."""

from __future__ import annotations

import base64
import hashlib
from http.server import BaseHTTPRequestHandler
from typing import NamedTuple

_GUID = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
BINARY, CLOSE = 2, 8


class Frame(NamedTuple):
    opcode: int
    payload: bytes


def accept(handler: BaseHTTPRequestHandler) -> None:
    key = handler.headers["Sec-WebSocket-Key"] + _GUID
    handler.send_response(101)
    handler.send_header("Upgrade", "websocket")
    handler.send_header("Connection", "Upgrade")
    handler.send_header(
        "Sec-WebSocket-Accept", base64.b64encode(hashlib.sha1(key.encode()).digest()).decode()
    )
    handler.send_header("Sec-WebSocket-Protocol", "v4.channel.k8s.io")
    handler.end_headers()


def send(handler: BaseHTTPRequestHandler, payload: bytes, opcode: int = BINARY) -> None:
    size = len(payload)
    length = bytes([size]) if size < 126 else b"\x7e" + size.to_bytes(2, "big")
    handler.wfile.write(bytes([0x80 | opcode]) + length + payload)
    handler.wfile.flush()


def receive(handler: BaseHTTPRequestHandler) -> Frame:
    """CLOSE too when the connection ends."""
    start = handler.rfile.read(2)
    if len(start) < 2:
        return Frame(CLOSE, b"")
    size = start[1] & 0x7F
    if size >= 126:
        size = int.from_bytes(handler.rfile.read(2 if size == 126 else 8), "big")
    mask = handler.rfile.read(4)  # clients always mask
    payload = bytes(byte ^ mask[i % 4] for i, byte in enumerate(handler.rfile.read(size)))
    return Frame(start[0] & 0x0F, payload)

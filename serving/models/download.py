"""Fetching one pinned file over HTTP: resumable, verified, with a progress bar."""

from __future__ import annotations

import hashlib
import logging
import os
import ssl
import sys
import time
import urllib.error
import urllib.request
from http import HTTPStatus
from http.client import HTTPException, HTTPResponse
from pathlib import Path
from typing import NoReturn

from tqdm import tqdm

logger = logging.getLogger(__name__)

CHUNK_BYTES = 2**20
ATTEMPTS = 5
TIMEOUT_S = 60.0


class DownloadError(Exception):
    """The file could not be fetched; the message says why."""


class DigestMismatchError(DownloadError):
    """What was fetched is not the file that was pinned."""


def progress_bar(description: str, total: int | None, initial: int = 0) -> tqdm[NoReturn]:
    """A bar in bytes on stderr; redrawn rarely where that is a log and not a terminal."""
    interval = 0.2 if sys.stderr.isatty() else 5.0
    return tqdm(
        desc=description, total=total, initial=initial, unit="B", unit_scale=True, mininterval=interval
    )


def download(url: str, target: Path, sha256: str, *, pause_s: float = 1.0) -> None:
    """Fetch `url` to `target`, which appears only when its digest is right.

    Bytes already in `target`.part are kept and the rest is asked for with a Range request, here and in
    a later call. Proxies come from the environment, trusted certificates from PIP_CERT, REQUESTS_CA_BUNDLE
    or OpenSSL's own variables. Raises DownloadError.
    """
    part = target.with_name(target.name + ".part")
    _fetch_all(url, part, target.name, pause_s)
    accept(part, target, sha256)


def accept(file: Path, target: Path, sha256: str) -> None:
    """Move a fetched file to its place, or remove it: resuming from wrong bytes would fail for ever."""
    try:
        verify(file, sha256)
    except DigestMismatchError:
        file.unlink()
        raise
    file.replace(target)


def verify(file: Path, sha256: str) -> None:
    """Raises DigestMismatchError unless the file has this SHA-256 (hexadecimal)."""
    with file.open("rb") as content:
        found = hashlib.file_digest(content, "sha256").hexdigest()
    if found != sha256:
        raise DigestMismatchError(f"{file.name} has SHA-256 {found[:12]}… instead of {sha256[:12]}…")


def _fetch_all(url: str, part: Path, description: str, pause_s: float) -> None:
    reason: Exception | None = None
    for _ in range(ATTEMPTS):
        if reason is not None:
            logger.warning("download of %s interrupted (%s); resuming", description, reason)
            time.sleep(pause_s)
        try:
            return _fetch(url, part, description)
        except urllib.error.HTTPError as error:
            if error.code < HTTPStatus.INTERNAL_SERVER_ERROR:
                raise DownloadError(f"the server answered {error.code} {error.reason}") from error
            reason = error
        except (OSError, HTTPException) as error:
            reason = error
    raise DownloadError(f"interrupted {ATTEMPTS} times, last by: {reason}") from reason


def _fetch(url: str, part: Path, description: str) -> None:
    """One request: append what `part` lacks. Raises OSError when the connection ends early."""
    offset = part.stat().st_size if part.exists() else 0
    try:
        response = _open(url, offset)
    except urllib.error.HTTPError as error:
        if error.code == HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE:
            return  # nothing is left to fetch; the digest decides whether it is the right file
        raise
    with response:
        resumed = response.status == HTTPStatus.PARTIAL_CONTENT
        offset = offset if resumed else 0
        length = response.headers["Content-Length"]
        total = offset + int(length) if length else None
        with part.open("ab" if resumed else "wb") as file, progress_bar(description, total, offset) as bar:
            while chunk := response.read(CHUNK_BYTES):
                file.write(chunk)
                bar.update(len(chunk))
    if total is not None and part.stat().st_size < total:
        raise ConnectionError(f"the connection closed after {part.stat().st_size} of {total} bytes")


def _open(url: str, offset: int) -> HTTPResponse:
    request = urllib.request.Request(url, headers={"Range": f"bytes={offset}-"} if offset else {})
    handlers: list[urllib.request.BaseHandler] = [urllib.request.HTTPSHandler(context=_tls_context())]
    if proxy := os.environ.get("PIP_PROXY"):
        handlers.append(urllib.request.ProxyHandler({"http": proxy, "https": proxy}))
    response: HTTPResponse = urllib.request.build_opener(*handlers).open(request, timeout=TIMEOUT_S)
    return response


def _tls_context() -> ssl.SSLContext:
    bundle = os.environ.get("PIP_CERT") or os.environ.get("REQUESTS_CA_BUNDLE")
    if bundle is None:
        return ssl.create_default_context()  # reads SSL_CERT_FILE and SSL_CERT_DIR
    if Path(bundle).is_dir():
        return ssl.create_default_context(capath=bundle)
    return ssl.create_default_context(cafile=bundle)

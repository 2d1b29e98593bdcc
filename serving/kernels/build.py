"""Compiling and loading the CPU kernels: once per machine, source and compiler, into the cache folder."""

from __future__ import annotations

import ctypes
import hashlib
import logging
import os
import platform
import shutil
import subprocess
import tempfile
from functools import cache
from pathlib import Path

log = logging.getLogger(__name__)

SOURCE = Path(__file__).with_name("cpu.cpp")
HEADER = Path(__file__).with_name("pool.h")
COMPILE = ("-std=c++20", "-O3", "-march=native", "-fPIC", "-pthread", "-fno-exceptions", "-Wno-psabi")


class BuildError(Exception):
    """The kernels cannot be had on this machine; the plain torch path can."""


@cache
def load_library(cache_dir: Path) -> ctypes.CDLL:
    """The compiled kernels. Raises BuildError where they cannot be compiled, kept or loaded."""
    compiler = shutil.which(os.environ.get("CXX", "g++")) or shutil.which("clang++")
    if compiler is None:
        raise BuildError("no C++ compiler found (install g++ to make CPU decoding several times faster)")
    try:
        target = cache_dir / "kernels" / f"cpu-{_key(compiler)}.so"
        if not target.exists():
            _compile(compiler, target)
        return ctypes.CDLL(str(target))
    except OSError as error:  # the folder cannot be written, the compiler or the library is damaged
        raise BuildError(f"the CPU kernels cannot be compiled or loaded: {error}") from error


def _key(compiler: str) -> str:
    """Changes with the source, the flags, the compiler and the processor."""
    version = subprocess.run([compiler, "--version"], capture_output=True, text=True, check=False).stdout
    features = cpu_features()
    parts = (SOURCE.read_text(), HEADER.read_text(), *COMPILE, version, platform.machine(), features)
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]


def cpu_features() -> str:
    """What the processor can do, as far as the system says."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    return next((line for line in lines if line.startswith(("flags", "Features"))), "")


def _compile(compiler: str, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    log.info("compiling CPU kernels (once, a few seconds)")
    with tempfile.TemporaryDirectory(dir=target.parent) as folder:
        compiled, linked = f"{folder}/cpu.o", f"{folder}/cpu.so"
        _run(compiler, *COMPILE, "-c", str(SOURCE), "-o", compiled)
        _run(compiler, "-shared", "-pthread", compiled, "-o", linked)
        os.replace(linked, target)  # atomic: several processes may build at once


def _run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise BuildError(f"compiling the CPU kernels failed: {done.stderr.strip()[:500]}")

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
from collections.abc import Sequence
from functools import cache
from pathlib import Path

log = logging.getLogger(__name__)

SOURCE = Path(__file__).with_name("cpu.cpp")
HEADER = Path(__file__).with_name("pool.h")
COMPILE = ("-std=c++20", "-O3", "-fPIC", "-pthread", "-fno-exceptions", "-Wno-psabi")
NATIVE = ("-march=native",)


class BuildError(Exception):
    """The kernels cannot be had on this machine; the plain torch path can."""


@cache
def load_library(cache_dir: Path) -> ctypes.CDLL:
    """The compiled kernels: for this processor where there is a compiler, else those built ahead of time.

    Raises BuildError where they cannot be compiled, kept or loaded.
    """
    compiler = find_compiler()
    try:
        target = _native(compiler, cache_dir) if compiler is not None else _built_ahead()
        return ctypes.CDLL(str(target))
    except OSError as error:  # the folder cannot be written, the compiler or the library is damaged
        raise BuildError(f"the CPU kernels cannot be compiled or loaded: {error}") from error


def find_compiler() -> str | None:
    return shutil.which(os.environ.get("CXX", "g++")) or shutil.which("clang++")


def source_key(*others: str) -> str:
    """Changes with the source, the flags and what else is named."""
    parts = (SOURCE.read_text(), HEADER.read_text(), *COMPILE, *others)
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]


def _native(compiler: str, cache_dir: Path) -> Path:
    version = subprocess.run([compiler, "--version"], capture_output=True, text=True, check=False).stdout
    key = source_key(*NATIVE, version, platform.machine(), cpu_features())
    target = cache_dir / "kernels" / f"cpu-{key}.so"
    if not target.exists():
        log.info("compiling CPU kernels (once, a few seconds)")
        compile_library(compiler, NATIVE, target)
    return target


def _built_ahead() -> Path:
    from serving.kernels.ahead import built_ahead

    target = built_ahead(cpu_features().split())
    if target is None:
        raise BuildError("no C++ compiler found (install g++ to make CPU decoding several times faster)")
    return target


def cpu_features() -> str:
    """What the processor can do, as far as the system says."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    return next((line for line in lines if line.startswith(("flags", "Features"))), "")


def compile_library(compiler: str, flags: Sequence[str], target: Path) -> None:
    """Raises BuildError with the compiler's words."""
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent) as folder:
        compiled, linked = f"{folder}/cpu.o", f"{folder}/cpu.so"
        _run(compiler, *COMPILE, *flags, "-c", str(SOURCE), "-o", compiled)
        _run(compiler, "-shared", "-pthread", compiled, "-o", linked)
        os.replace(linked, target)  # atomic: several processes may build at once


def _run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise BuildError(f"compiling the CPU kernels failed: {done.stderr.strip()[:500]}")

"""Compiling the CPU kernels: once, by any number of processes, and what is said where it cannot be done."""

from __future__ import annotations

import multiprocessing
from multiprocessing.synchronize import Barrier
from pathlib import Path

import pytest
import torch

from serving.kernels import ahead
from serving.kernels.build import BuildError, cpu_features, find_compiler, load_library
from serving.kernels.native import Kernels


def libraries(cache: Path) -> list[Path]:
    return sorted((cache / "kernels").iterdir())


def hasty_compiler(folder: Path) -> Path:
    """This machine's, but it optimises nothing: three times as quick."""
    script = folder / "c++"
    script.write_text(f'#!/bin/sh\nexec {find_compiler()} "$@" -O0\n')
    script.chmod(0o755)
    return script


def build(cache: Path, barrier: Barrier) -> None:
    barrier.wait()
    Kernels(torch.float32, cache)


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cache that two processes filled at the same moment."""
    cache = tmp_path_factory.mktemp("cache")
    spawn = multiprocessing.get_context("spawn")
    barrier = spawn.Barrier(2)
    processes = [spawn.Process(target=build, args=(cache, barrier)) for _ in range(2)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CXX", str(hasty_compiler(tmp_path_factory.mktemp("compiler"))))
        for process in processes:
            process.start()
    for process in processes:
        process.join(120)
    assert [process.exitcode for process in processes] == [0, 0]
    return cache


def test_two_processes_may_build_at_once(built: Path) -> None:
    (library,) = libraries(built)  # one library, no leftovers
    assert library.suffix == ".so"


def test_a_built_library_is_not_built_again(built: Path) -> None:
    (library,) = libraries(built)
    before = library.stat()
    for dtype in (torch.float32, torch.bfloat16):
        assert Kernels(dtype, built).dtype is dtype
    after = library.stat()
    assert (after.st_ino, after.st_mtime_ns) == (before.st_ino, before.st_mtime_ns)


def test_a_damaged_library_is_an_error(built: Path, tmp_path: Path) -> None:
    (library,) = libraries(built)
    copy = tmp_path / "kernels" / library.name
    copy.parent.mkdir()
    copy.write_bytes(b"")
    with pytest.raises(BuildError, match="file too short"):
        load_library(tmp_path)


@pytest.mark.parametrize("compiler", [None, "no-such-compiler"])
def test_no_compiler(compiler: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CXX", raising=False)
    if compiler is not None:
        monkeypatch.setenv("CXX", compiler)
    with pytest.raises(BuildError, match="no C\\+\\+ compiler found"):
        load_library(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_the_best_library_that_the_processor_can_run_is_taken(tmp_path: Path) -> None:
    best, plain = ahead.LEVELS
    for level in ahead.LEVELS:
        (tmp_path / level.library).touch()
    assert ahead.built_ahead(best.needs, tmp_path) == tmp_path / best.library
    assert ahead.built_ahead(plain.needs, tmp_path) == tmp_path / plain.library
    assert ahead.built_ahead(plain.needs - {"avx512vl"}, tmp_path) is None
    (tmp_path / best.library).rename(tmp_path / "cpu-x86-64-v4-bf16-of-another-source.so")
    assert ahead.built_ahead(best.needs, tmp_path) == tmp_path / plain.library


@pytest.mark.slow
def test_without_a_compiler_a_library_built_ahead_is_loaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ahead.build_ahead(tmp_path)
    expected = ahead.built_ahead(cpu_features().split(), tmp_path)
    if expected is None:
        pytest.skip("this processor has no AVX-512")
    monkeypatch.setattr(ahead, "FOLDER", tmp_path)
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("CXX", raising=False)
    assert load_library(tmp_path / "no compiler")._name == str(expected)


@pytest.mark.parametrize(
    ("script", "message"),
    [
        ("#!/bin/sh\necho 'unknown option' >&2\nexit 1\n", "unknown option"),
        ("#!/no/such/interpreter\n", "No such file"),
    ],
)
def test_a_compiler_that_fails(
    script: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiler = tmp_path / "c++"
    compiler.write_text(script)
    compiler.chmod(0o755)
    monkeypatch.setenv("CXX", str(compiler))
    cache = tmp_path / "cache"
    with pytest.raises(BuildError, match=message):
        load_library(cache)
    assert not cache.exists() or libraries(cache) == []


def test_a_cache_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "kernels").write_text("a file where a folder should be")
    with pytest.raises(BuildError, match="File exists"):
        load_library(tmp_path)

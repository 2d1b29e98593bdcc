"""A cached folder is whole or absent, and only one builder works at a time."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from serving.errors import ModelLoadError
from serving.models.cache import build_once


def write(folder: Path) -> None:
    (folder / "file").write_text("built")


def test_built_once(tmp_path: Path) -> None:
    builds: list[Path] = []

    def build(folder: Path) -> None:
        builds.append(folder)
        write(folder)

    folder = tmp_path / "deep" / "model"
    assert build_once(folder, build) == folder
    assert build_once(folder, build) == folder
    assert (folder / "file").read_text() == "built"
    assert len(builds) == 1


def test_a_failed_build_leaves_no_folder_and_is_continued(tmp_path: Path) -> None:
    def fail(folder: Path) -> None:
        write(folder)
        raise ModelLoadError("interrupted.")

    def go_on(folder: Path) -> None:
        assert (folder / "file").read_text() == "built"

    with pytest.raises(ModelLoadError, match="interrupted"):
        build_once(tmp_path / "model", fail)
    assert not (tmp_path / "model").exists()
    build_once(tmp_path / "model", go_on)
    assert (tmp_path / "model" / "file").exists()


def test_concurrent_builders(tmp_path: Path) -> None:
    builds: list[Path] = []

    def build(folder: Path) -> None:
        builds.append(folder)
        time.sleep(0.1)
        write(folder)

    threads = [threading.Thread(target=build_once, args=(tmp_path / "model", build)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(builds) == 1


def test_a_killed_builder_does_not_hold_the_lock(tmp_path: Path) -> None:
    script = (
        "import os, pathlib, sys\n"
        "from serving.models.cache import build_once\n"
        "build_once(pathlib.Path(sys.argv[1]), lambda folder: os.kill(os.getpid(), 9))\n"
    )
    child = subprocess.run([sys.executable, "-c", script, str(tmp_path / "model")], check=False)
    assert child.returncode == -9
    assert (tmp_path / "model.partial").is_dir()
    build_once(tmp_path / "model", write)
    assert (tmp_path / "model" / "file").exists()


def test_unwritable_cache(tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("a file where a folder should be")
    with pytest.raises(ModelLoadError, match=r"the cache .*cache/deep cannot be written: Not a directory"):
        build_once(tmp_path / "cache" / "deep" / "model", write)

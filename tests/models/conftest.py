"""What the tests of model sources share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from file_server import FileServer, serve_files
from tiny_gguf import TinyGguf, write_tiny_gguf


@pytest.fixture
def file_server() -> Iterator[FileServer]:
    with serve_files() as server:
        yield server


@pytest.fixture(scope="session")
def tiny_gguf(tmp_path_factory: pytest.TempPathFactory) -> TinyGguf:
    return write_tiny_gguf(tmp_path_factory.mktemp("gguf") / "tiny.gguf")

"""Downloads against a real server: resumed, verified, and never left half done under the final name."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest
from file_server import FileServer

from serving.models.download import ATTEMPTS, DigestMismatchError, DownloadError, download

BODY = bytes(range(256)) * 40
SHA256 = hashlib.sha256(BODY).hexdigest()


@pytest.fixture
def target(tmp_path: Path) -> Path:
    return tmp_path / "file.bin"


def fetch(server: FileServer, target: Path) -> None:
    download(f"{server.url}/file", target, SHA256, pause_s=0)


def test_whole_file(file_server: FileServer, target: Path, capfd: pytest.CaptureFixture[str]) -> None:
    file_server.files["/file"] = BODY
    fetch(file_server, target)
    assert target.read_bytes() == BODY
    assert file_server.ranges("/file") == [None]
    assert list(target.parent.iterdir()) == [target]
    assert "file.bin: 100%" in capfd.readouterr().err


def test_interruptions_resume_where_they_were(file_server: FileServer, target: Path) -> None:
    file_server.files["/file"] = BODY
    file_server.cuts["/file"] = [1000, 500, None]
    fetch(file_server, target)
    assert target.read_bytes() == BODY
    assert file_server.ranges("/file") == [None, "bytes=1000-", "bytes=1500-"]


def test_a_later_call_resumes(file_server: FileServer, target: Path) -> None:
    file_server.files["/file"] = BODY
    file_server.cuts["/file"] = [100] * ATTEMPTS
    with pytest.raises(
        DownloadError, match=f"interrupted {ATTEMPTS} times, last by: .*500 of {len(BODY)} bytes"
    ):
        fetch(file_server, target)
    assert not target.exists()
    file_server.requests.clear()
    fetch(file_server, target)
    assert target.read_bytes() == BODY
    assert file_server.ranges("/file") == ["bytes=500-"]


def test_server_without_ranges_starts_over(file_server: FileServer, target: Path) -> None:
    file_server.files["/file"] = BODY
    file_server.honours_ranges = False
    file_server.cuts["/file"] = [1000, None]
    fetch(file_server, target)
    assert target.read_bytes() == BODY
    assert file_server.ranges("/file") == [None, "bytes=1000-"]


def test_part_that_is_complete_is_only_verified(file_server: FileServer, target: Path) -> None:
    file_server.files["/file"] = BODY
    target.with_name("file.bin.part").write_bytes(BODY)
    fetch(file_server, target)
    assert target.read_bytes() == BODY
    assert file_server.ranges("/file") == [f"bytes={len(BODY)}-"]


def test_wrong_content_is_removed_so_that_the_next_call_can_succeed(
    file_server: FileServer, target: Path
) -> None:
    file_server.files["/file"] = BODY[:-1] + b"!"
    with pytest.raises(DigestMismatchError, match=r"file\.bin\.part has SHA-256 .* instead of"):
        fetch(file_server, target)
    assert list(target.parent.iterdir()) == []
    file_server.files["/file"] = BODY
    fetch(file_server, target)
    assert target.read_bytes() == BODY


def test_server_errors_are_retried(file_server: FileServer, target: Path) -> None:
    file_server.files["/file"] = BODY
    file_server.statuses["/file"] = [503, 500]
    fetch(file_server, target)
    assert target.read_bytes() == BODY


def test_refusals_are_not_retried(file_server: FileServer, target: Path) -> None:
    with pytest.raises(DownloadError, match="the server answered 404"):
        fetch(file_server, target)
    assert len(file_server.requests) == 1


def test_local_file_url(tmp_path: Path, target: Path) -> None:
    (tmp_path / "source").write_bytes(BODY)
    download((tmp_path / "source").as_uri(), target, SHA256)
    assert target.read_bytes() == BODY


def test_nobody_listens(target: Path) -> None:
    with pytest.raises(DownloadError, match="refused"):
        download("http://127.0.0.1:9/file", target, SHA256, pause_s=0)


def test_configured_proxy_is_used(
    file_server: FileServer, target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A proxy receives the absolute URL of the host, which itself does not exist."""
    file_server.files["http://wheels.invalid/file"] = BODY
    monkeypatch.setenv("PIP_PROXY", file_server.url)
    download("http://wheels.invalid/file", target, SHA256, pause_s=0)
    assert target.read_bytes() == BODY

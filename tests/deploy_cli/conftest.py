from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest
from aws_server import BUCKET, CommandLine
from fake_kubernetes import FakeKubernetes
from loopback_aws import aws_server, point_at


@pytest.fixture(scope="session")
def endpoint() -> Iterator[str]:
    with aws_server() as url:
        yield url


@pytest.fixture
def aws(endpoint: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> str:
    """An empty AWS which this process is configured for; its address."""
    point_at(endpoint, monkeypatch, tmp_path)
    monkeypatch.setenv("CANOPY_CACHE_DIR", str(tmp_path / "cache"))
    return endpoint


@pytest.fixture
def s3(aws: str) -> Any:
    client = boto3.Session().client("s3")
    client.create_bucket(Bucket=BUCKET)
    return client


@pytest.fixture
def deploy(capfd: pytest.CaptureFixture[str]) -> CommandLine:
    return CommandLine(capfd)


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeKubernetes]:
    """An empty cluster, which this process's kubeconfig names."""
    fake = FakeKubernetes()
    with fake.serving(tmp_path) as kubeconfig:
        monkeypatch.setenv("KUBECONFIG", str(kubeconfig))
        yield fake

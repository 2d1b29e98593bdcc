"""Two services on the session's Ray cluster: a tiny random model and the real default one."""

from __future__ import annotations

import socket
import tempfile
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest
from cluster_log import alarms
from deployed import HOST, Deployed, deploy
from ray import serve


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """A test that fails says what the cluster's processes logged meanwhile."""
    report = yield
    if report.failed:
        report.sections.append(("the cluster's log", alarms(since=call.start - 5)))
    return report


@pytest.fixture(scope="session")
def port(ray_cluster: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    """Serve's HTTP port. Not its usual one: a service may be running on this machine."""
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        number = probe.getsockname()[1]
    with pytest.MonkeyPatch.context() as patch:
        # Services leave their metrics there: like everything else of the tests they go when pytest tidies up.
        patch.setattr(tempfile, "tempdir", str(tmp_path_factory.mktemp("temporary")))
        serve.start(http_options={"host": HOST, "port": number})
        yield number
        serve.shutdown()


@pytest.fixture(scope="session")
def tiny(port: int, tiny_model: Path) -> Deployed:
    settings = {
        "model": str(tiny_model),
        "served_model_name": "tiny",
        "dtype": "float32",
        "engine": {"kv_cache_memory": "8MiB", "max_num_seqs": 8, "num_threads": 1},
        # A busy machine's drafters are waited for, or tests would compare plain with plain.
        "speculation": {
            "num_speculative_tokens": 5,
            "placement": "pool",
            "overlap": "always",
            "deadline_s": 5.0,
        },
    }
    return deploy(port, "tiny", settings)


@pytest.fixture(scope="session")
def default(port: int) -> Deployed:
    settings = {
        "served_model_name": "smollm2",
        "engine": {"kv_cache_memory": "128MiB", "max_model_len": 2048},
        # Nor would it draft anything in mode auto.
        "speculation": {"num_speculative_tokens": 8, "placement": "pool", "deadline_s": 5.0},
    }
    return deploy(port, "default", settings)

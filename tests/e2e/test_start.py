"""What an operator sees at the start: which processes there are, and why one does not come up."""

from __future__ import annotations

from pathlib import Path

import psutil
import pytest
from deployed import Deployed, deploy, replicas_of, uses_torch
from ray import serve

pytestmark = pytest.mark.ray


def test_only_the_engine_loads_torch(tiny: Deployed) -> None:
    """Fronts, routers and prompt-lookup drafters stay light: seconds at the start, 200 MB each."""
    assert uses_torch(tiny.stats()["pid"])
    fronts = replicas_of("tiny")
    assert set(fronts.values()) == {"Router", "Verifier", "DrafterPool"}
    for pid in (*fronts, tiny.drafter_pid()):
        assert not uses_torch(pid), fronts.get(pid, "DrafterWorker")


def test_no_process_has_a_heap_for_each_thread(tiny: Deployed) -> None:
    """They would be filled one after the other. glibc must know the limit when a process starts."""
    for pid in (*replicas_of("tiny"), tiny.drafter_pid(), tiny.stats()["pid"]):
        assert psutil.Process(pid).environ()["MALLOC_ARENA_MAX"] == "2"


@pytest.mark.parametrize(
    ("file", "content", "reason"),
    [
        pytest.param("model.safetensors", None, "safetensors", marks=pytest.mark.slow),
        ("model.safetensors", b"broken", "model.safetensors"),
    ],
)
def test_a_broken_model_is_one_clear_sentence(
    port: int, tiny_model: Path, tmp_path: Path, file: str, content: bytes | None, reason: str
) -> None:
    for part in tiny_model.iterdir():
        (tmp_path / part.name).symlink_to(part)
    (tmp_path / file).unlink()
    if content is not None:
        (tmp_path / file).write_bytes(content)
    settings = {
        "model": str(tmp_path),
        "served_model_name": "broken",
        "speculation": {"method": "off"},
        "replicas": {"router_cpus": 0, "verifier_cpus": 0},  # the other services have taken both CPUs
    }
    with pytest.raises(RuntimeError):
        deploy(port, "broken", settings)
    message = serve.status().applications["broken"].deployments["Verifier"].message
    serve.delete("broken")
    assert "ModelLoadError" in message
    assert reason in message

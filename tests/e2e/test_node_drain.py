"""A node that is taken away under load: Serve starts the verifier elsewhere, and the requests go there."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.ray, pytest.mark.slow]

FOLDER = Path(__file__).parent


@pytest.mark.parametrize("how", ["drain", "sigterm"])
def test_a_node_that_goes_fails_no_request(tiny_model: Path, how: str) -> None:
    path = os.pathsep.join([str(FOLDER), str(FOLDER.parents[1])])
    done = subprocess.run(
        [sys.executable, str(FOLDER / "several_nodes.py"), str(tiny_model), how],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        timeout=280,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    seen = json.loads(done.stdout.splitlines()[-1])
    assert seen["outcomes"].keys() == {"same", "other"}, seen
    assert seen["outcomes"]["other"] == 0
    assert seen["outcomes"]["same"] > 3
    assert seen["migrated"] > 0
    assert seen["lost"] == 0

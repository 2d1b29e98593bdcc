"""Whose memory is whose."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from benchmarks.memory import DRIVER, of_tree, role_of

HOLD = "import sys; held = bytearray(b'x') * 40_000_000; print(flush=True); sys.stdin.read()"


@pytest.mark.parametrize(
    ("command", "role"),
    [
        (["ray::EngineWorker.take", "", ""], "EngineWorker"),
        (["ray::ServeReplica:default:Router", ""], "Router"),
        (["ray::IDLE"], "IDLE"),
        (["/env/bin/python", "-u", "/env/ray/dashboard/dashboard.py", "--host=127.0.0.1"], "dashboard"),
        (["/env/ray/core/src/ray/raylet/raylet", "--raylet_socket_name=/tmp/ray/raylet"], "raylet"),
        (["/env/bin/python", "-c", "from multiprocessing.forkserver import main"], None),
        (["ray-dashboard-NodeHead-0", "(/env/bin/python"], None),
        ([], None),
    ],
)
def test_roles(command: list[str], role: str | None) -> None:
    assert role_of(command) == role


def test_children_count_under_their_parent_s_role() -> None:
    child = subprocess.Popen(
        [sys.executable, "-c", HOLD], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    with child:
        assert child.stdout is not None
        child.stdout.readline()  # it holds its memory now
        alone = of_tree(child.pid)
        with_parent = of_tree(os.getpid())
    assert [process.role for process in alone] == [DRIVER]
    assert 40e6 < alone[0].own < alone[0].pss < 80e6  # it has pages of libraries, too
    assert len(with_parent) >= 2
    assert {process.role for process in with_parent} == {DRIVER}

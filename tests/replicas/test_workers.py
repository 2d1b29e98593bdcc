from __future__ import annotations

import frames
import pytest
from ray.exceptions import RayTaskError

from serving.errors import ModelLoadError
from serving.replicas.workers import unwrapped


async def failing() -> None:
    """As a call of a worker fails."""
    raise RayTaskError("start", "traceback", ModelLoadError("no such file")).as_instanceof_cause()


async def test_a_workers_error_comes_out_of_its_wrapping() -> None:
    with pytest.raises(ModelLoadError) as caught:
        await unwrapped(failing())
    assert type(caught.value) is ModelLoadError
    assert str(caught.value) == "no such file"


async def test_a_failed_call_is_forgotten() -> None:
    async def call(held: frames.Held) -> None:
        await unwrapped(failing())

    assert not await frames.are_left_by(call)

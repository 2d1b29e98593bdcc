"""What an exception leaves behind that was dealt with: in a cycle, all that its frames refer to."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Awaitable, Callable
from contextlib import suppress


class Held:
    """What a frame refers to."""


async def are_left_by(call: Callable[[Held], Awaitable[object]]) -> bool:
    """Whether `call`, which raises, leaves its frame behind, for the garbage to be collected."""
    held = Held()
    left = weakref.ref(held)
    gc.disable()
    try:
        with suppress(Exception):
            await call(held)
        del held
        return left() is not None
    finally:
        gc.enable()

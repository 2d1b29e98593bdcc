"""A limit on how long one request may take."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from serving.errors import RequestTimeoutError


@asynccontextmanager
async def deadline(seconds: float) -> AsyncGenerator[None, None]:
    """Cancels what runs inside after `seconds` and raises RequestTimeoutError instead."""
    try:
        async with asyncio.timeout(seconds) as limit:
            yield
    except TimeoutError:
        if not limit.expired():
            raise
        raise RequestTimeoutError(f"the request took longer than {seconds:g} s") from None

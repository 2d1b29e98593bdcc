"""How a replica learns that it is to go, while it can still do something about it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from ray import serve

# Serve has no public hook for this: `__del__` is called when the last request has ended.
from ray.serve._private.long_poll import LongPollClient, LongPollNamespace
from ray.serve.context import _get_global_client


class Membership:
    """Listens to what Serve tells every router: which replicas of a deployment are in service.

    A replica that is stopped (scale-down, rolling update, its node drains and its successor is up) is taken
    out of that set before it is told anything. One whose `user_config` changes is out of it for a moment.
    """

    def __init__(self, changed: Callable[[bool], None]) -> None:
        """`changed(in_service)` is called in this event loop, first when the calling replica has joined."""
        context, client = serve.get_replica_context(), _get_global_client()
        assert client is not None
        self._replica, self._changed = context.replica_id, changed
        self._in_service = False
        key: Any = (LongPollNamespace.DEPLOYMENT_TARGETS, context.replica_id.deployment_id)
        self._poll = LongPollClient(
            client._controller,
            {key: self._update},
            call_in_event_loop=asyncio.get_running_loop(),
            client_id=f"membership of {context.replica_tag}",
        )

    def _update(self, targets: Any) -> None:
        in_service = self._replica in {info.replica_id for info in targets.running_replicas}
        if in_service != self._in_service:
            self._in_service = in_service
            self._changed(in_service)

"""Drain the node of every machine that is about to go."""

from __future__ import annotations

import logging
import threading
import time
from concurrent.futures import ThreadPoolExecutor

from deploy.cluster.connection import Cluster
from deploy.cluster.errors import explained
from deploy.drain.node import Drain
from deploy.drain.notices import read
from deploy.drain.queue import LONG_POLL_S, Message, Queue
from deploy.errors import DeployError, NotHealthyError

WORKERS = 16  # an outage of a spot pool takes many machines at once
MAX_PAUSE_S = 60.0

logger = logging.getLogger(__name__)


class Watch:
    """Handles messages at the same time, and each only once at a time. A message is deleted when its nodes
    are cordoned, Ray knows and all pods are told to go; else it comes back.
    """

    def __init__(self, cluster: Cluster, queue: Queue, poll_s: float, rebalance: bool) -> None:
        self._cluster, self._queue = cluster, queue
        self._poll_s, self._rebalance = poll_s, rebalance
        self._under_way: set[str] = set()
        self._failed = 0
        self._lock = threading.Lock()

    def run(self, once: bool) -> None:
        """For ever; once: until the queue has nothing more.

        Raises DeployError for a queue that cannot be read at the start (later such troubles are waited out),
        NotHealthyError when messages were left.
        """
        with ThreadPoolExecutor(WORKERS) as pool:
            waiting = not once
            messages = self._queue.receive(0)
            while messages or waiting:
                for message in messages:
                    if self._begin(message):
                        pool.submit(self._handle, message)
                messages = self._receive() if waiting else self._queue.receive(0)
        if self._failed:
            raise NotHealthyError(f"{self._failed} messages could not be handled and are left in the queue.")

    def _receive(self) -> list[Message]:
        pause = 1.0
        while True:
            try:
                return self._queue.receive(LONG_POLL_S)
            except DeployError as error:
                logger.warning("%s Again in %.0f s.", error, pause)
                time.sleep(pause)
                pause = min(2 * pause, MAX_PAUSE_S)

    def _begin(self, message: Message) -> bool:
        """False for one that is being handled: its time out of sight is over before the drain is."""
        with self._lock:
            if message.id in self._under_way:
                return False
            self._under_way.add(message.id)
            return True

    def _handle(self, message: Message) -> None:
        try:
            self._drain(message)
            self._queue.delete(message)
        except DeployError as error:
            logger.error("%s The message comes back.", error)
            self._failed += 1
        except Exception:
            logger.exception("message %s cannot be handled; it comes back", message.id)
            self._failed += 1
        finally:
            with self._lock:
                self._under_way.discard(message.id)

    def _drain(self, message: Message) -> None:
        notice = read(message.body, self._rebalance)
        if notice is None:
            logger.warning("message %s is no notice of EC2; dropped", message.id)
            return
        cluster = self._cluster.another()
        nodes = _nodes(cluster)
        for instance in notice.instances:
            if instance not in nodes:
                logger.info("%s: %s is no node of this cluster", notice.kind, instance)
                continue
            logger.info("%s: draining %s (%s)", notice.kind, nodes[instance], instance)
            Drain(
                cluster=cluster,
                why=notice.kind,
                deadline_s=notice.deadline_s,
                poll_s=self._poll_s,
                force=True,
                say=logger.info,
            ).run(nodes[instance], until_empty=False)


def _nodes(cluster: Cluster) -> dict[str, str]:
    """Names of nodes by the ids of their machines (of `aws:///us-east-1a/i-0123`)."""
    with explained("nodes"):
        nodes = cluster.core.list_node().items
    return {
        node.spec.provider_id.rpartition("/")[2]: node.metadata.name
        for node in nodes
        if node.spec.provider_id
    }

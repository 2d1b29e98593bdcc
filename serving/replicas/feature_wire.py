"""How a head's features travel to a drafter: small ones in the message, large ones beside it."""

from __future__ import annotations

from dataclasses import replace
from itertools import accumulate
from typing import Any, NamedTuple, Protocol

import numpy as np
import ray
from numpy.typing import NDArray

from serving.drafting.messages import Propose
from serving.metrics import WireMetrics

Array = NDArray[Any]


class Carrier(Protocol):
    """A way past the message. path: its name in metrics."""

    path: str

    def put(self, array: Array) -> ray.ObjectRef[Array]:
        """Makes the array fetchable by the worker that the reference is an argument for."""
        ...

    def give_up(self, path: str, error: Exception) -> bool:
        """A message failed whose features took `path`. Whether they can take another one from now on."""
        ...


class _ObjectStore(Carrier):
    path = "object_store"

    def put(self, array: Array) -> ray.ObjectRef[Array]:
        return ray.put(array)

    def give_up(self, path: str, error: Exception) -> bool:
        return False


OBJECT_STORE = _ObjectStore()

# Ray copies an argument of more than 100 KiB into its object store anyway, as a part of the pickled message;
# as an array of its own it is read there without being copied again.
LARGE = 64 * 2**10


class Parcel(NamedTuple):
    """A message, and the features that were taken out of it; None: they are small, and still in it.

    path: that they take, as metrics name it.
    """

    propose: Propose
    features: ray.ObjectRef[Array] | None
    path: str


class FeatureWire:
    """The sending side. Counts what it sends."""

    def __init__(self, metrics: WireMetrics) -> None:
        self._metrics = metrics

    def pack(self, propose: Propose, carrier: Carrier) -> Parcel:
        """`carrier` takes the features of all sequences as one array, where they are large."""
        arrays = [extend.features for extend in propose.extends if extend.features is not None]
        size = sum(array.nbytes for array in arrays)
        tokens = sum(len(extend.token_ids) for extend in propose.extends)
        path = carrier.path if size >= LARGE else "inline"
        self._metrics.sent(tokens, size, path)
        if size < LARGE:
            return Parcel(propose, None, path)
        bare = replace(propose, extends=tuple(replace(extend, features=None) for extend in propose.extends))
        return Parcel(bare, carrier.put(arrays[0] if len(arrays) == 1 else np.concatenate(arrays)), path)


def joined_again(propose: Propose, features: Array) -> Propose:
    """What was packed. features: [rows of all extends, d], in their order."""
    ends = accumulate(len(extend.token_ids) for extend in propose.extends)
    extends = (
        replace(extend, features=features[end - len(extend.token_ids) : end])
        for extend, end in zip(propose.extends, ends, strict=True)
    )
    return replace(propose, extends=tuple(extends))

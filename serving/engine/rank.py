"""A rank of a verifier but the first: it owns a part of the network, and does what rank 0 tells."""

from __future__ import annotations

import logging

from serving.config import ServeConfig
from serving.engine.followers import follow
from serving.engine.network import agreed_placement, build_network
from serving.engine.runner import ModelRunner
from serving.models.ranks import Ranks

log = logging.getLogger(__name__)


class Rank:
    """Built together with rank 0's engine. Raises ModelLoadError, ConfigError or RankLostError."""

    def __init__(self, config: ServeConfig, ranks: Ranks) -> None:
        folder, placement = agreed_placement(config, ranks)
        network = build_network(config, folder, placement, ranks)
        self._runner = ModelRunner(network.decoder, network.attention, placement.device)
        self._ranks, self._block_size = ranks, config.engine.block_size
        log.info(
            "rank %d of %d: %d heads, %d key/value heads, on %s in %s",
            *(ranks.shard.rank, ranks.shard.size, network.part.num_heads, network.part.num_kv_heads),
            *(placement.device, placement.dtype_name),
        )

    def follow(self) -> None:
        """Until the engine ends. Raises RankLostError when it is lost."""
        follow(self._runner, self._ranks, self._block_size)

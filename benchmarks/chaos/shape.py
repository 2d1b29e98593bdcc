"""How large the cluster is, and which settings the service gets to fit it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from benchmarks.chaos.options import ServiceOptions
from benchmarks.parsing import pairs
from serving.config import ServeConfig
from serving.replicas.workers import FRONT_CPUS, drafter_bundle, verifier_bundle


@dataclass(frozen=True, slots=True)
class Shape:
    """Ray nodes by role. cpus: of one node. Each verifier has a node of its own, drafters share one."""

    settings: dict[str, Any]
    verifiers: int
    drafters: int
    ranks: int
    cpus: dict[str, int]

    @property
    def nodes(self) -> dict[str, int]:
        return {"verifier": self.verifiers, "drafter": int(self.drafters > 0)}

    @property
    def processes(self) -> dict[str, int]:
        """How many actors of each class there are when all is well."""
        return {
            "Router": 1,
            "Verifier": self.verifiers,
            "EngineWorker": self.verifiers,
            "RankWorker": self.verifiers * (self.ranks - 1),
            "DrafterPool": self.drafters,
            "DrafterWorker": self.drafters,
        }


def shape_for(options: ServiceOptions, model: str) -> Shape:
    """Raises ConfigError for settings that the service does not know."""
    settings = {
        "model": model,
        "served_model_name": "chaos",
        "dtype": options.dtype,
        "engine.tensor_parallel_size": options.tensor_parallel_size,
        "engine.kv_cache_memory": "16MiB",
        "engine.max_num_seqs": 32,
        "engine.num_threads": 1,
        "speculation.num_speculative_tokens": 5,
        "replicas.verifiers": options.verifiers,
        "replicas.drafters": options.drafters,
        "replicas.pin_to_roles": True,
        **pairs(options.set),
    }
    config = ServeConfig.load(settings)
    ranks, pool = config.engine.tensor_parallel_size, config.speculation
    drafters = config.replicas.drafters if pool.method != "off" and pool.placement == "pool" else 0
    cpus = {
        "router": config.replicas.router_cpus,
        "verifier": FRONT_CPUS + ranks * verifier_bundle(config)["CPU"],
        "drafter": drafters * (FRONT_CPUS + drafter_bundle(config)["CPU"]),
    }
    whole = {role: math.ceil(need) for role, need in cpus.items()}
    return Shape(settings, config.replicas.verifiers, drafters, ranks, whole)

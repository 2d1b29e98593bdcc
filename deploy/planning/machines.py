"""GPU machines of EC2: what they are, and what they cost by the hour."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from deploy.errors import DeployError


class Gpu(NamedTuple):
    """From the maker's data sheet. `memory` in bytes, `bandwidth` of it in bytes/s, `flops` per second, dense
    and in bfloat16, `link` to the machine's other GPUs in bytes/s and one direction.
    """

    name: str
    memory: float
    bandwidth: float
    flops: float
    link: float


class Machine(NamedTuple):
    name: str
    gpu: Gpu
    gpus: int


class Prices(NamedTuple):
    """On demand, Linux, US dollars per hour by name of the machine. `as_of`: a date; `where`: the region."""

    as_of: str
    where: str
    per_hour: Mapping[str, float]

    @classmethod
    def read(cls, path: Path) -> Prices:
        """From JSON: as_of (a date), region, usd_per_hour by name of the machine. Raises DeployError."""
        try:
            document = json.loads(path.read_text())
            per_hour = {str(name): float(price) for name, price in document["usd_per_hour"].items()}
            prices = cls(str(document["as_of"]), str(document["region"]), per_hour)
        except OSError as error:
            raise DeployError(f"{path} cannot be read: {error.strerror}.") from error
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise DeployError(
                f'{path} must be JSON with "as_of", "region" and "usd_per_hour" by name of the machine.'
            ) from error
        if unknown := per_hour.keys() - {machine.name for machine in MACHINES}:
            raise DeployError(f"{path}: usd_per_hour names unknown machines: {', '.join(sorted(unknown))}.")
        if bad := [name for name, price in per_hour.items() if not 0 < price < float("inf")]:
            raise DeployError(f"{path}: usd_per_hour must be positive: {', '.join(sorted(bad))}.")
        return prices


_GB, _TFLOPS = 1e9, 1e12
_PCIE_4 = 25 * _GB  # 32 on paper
_A10G = Gpu("A10G", 24 * _GB, 600 * _GB, 70 * _TFLOPS, _PCIE_4)
_L4 = Gpu("L4", 24 * _GB, 300 * _GB, 121 * _TFLOPS, _PCIE_4)
_L40S = Gpu("L40S", 48 * _GB, 864 * _GB, 362 * _TFLOPS, _PCIE_4)
_A100 = Gpu("A100", 40 * _GB, 1555 * _GB, 312 * _TFLOPS, 300 * _GB)
_H100 = Gpu("H100", 80 * _GB, 3350 * _GB, 989 * _TFLOPS, 450 * _GB)

MACHINES = (
    Machine("g5.xlarge", _A10G, 1),
    Machine("g5.12xlarge", _A10G, 4),
    Machine("g5.48xlarge", _A10G, 8),
    Machine("g6.xlarge", _L4, 1),
    Machine("g6.12xlarge", _L4, 4),
    Machine("g6.48xlarge", _L4, 8),
    Machine("g6e.xlarge", _L40S, 1),
    Machine("g6e.12xlarge", _L40S, 4),
    Machine("g6e.48xlarge", _L40S, 8),
    Machine("p4d.24xlarge", _A100, 8),
    Machine("p5.4xlarge", _H100, 1),
    Machine("p5.48xlarge", _H100, 8),
)

# List prices, rounded to the cent; they change and differ by region.
PRICES = Prices(
    as_of="2025-07",
    where="us-east-1",
    per_hour={
        "g5.xlarge": 1.01,
        "g5.12xlarge": 5.67,
        "g5.48xlarge": 16.29,
        "g6.xlarge": 0.80,
        "g6.12xlarge": 4.60,
        "g6.48xlarge": 13.35,
        "g6e.xlarge": 1.86,
        "g6e.12xlarge": 10.49,
        "g6e.48xlarge": 30.13,
        "p4d.24xlarge": 21.96,
        "p5.4xlarge": 6.88,
        "p5.48xlarge": 55.04,
    },
)

"""OpenMP's threads in this process, before it loads torch."""

from __future__ import annotations

import os
import sys
from typing import Any

from serving.config import ServeConfig


def wait_as_the_service_does(settings: dict[str, Any]) -> None:
    """OpenMP's threads in this process behave as those of the service's own engine."""
    assert "torch" not in sys.modules, "OpenMP has read its environment already"
    from serving.replicas.workers import compute_environment

    os.environ.update(compute_environment(ServeConfig.load(settings)))

"""The service that the options ask for."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.chaos.model import write_model
from benchmarks.chaos.options import GENERATED, ServiceOptions
from benchmarks.chaos.service import Service
from benchmarks.chaos.shape import shape_for


@contextmanager
def started(options: ServiceOptions) -> Iterator[Service]:
    """All of it. Raises BenchmarkError when it does not come up, ConfigError for wrong settings."""
    with tempfile.TemporaryDirectory() as folder:
        model = str(write_model(Path(folder))) if options.model == GENERATED else options.model
        with Service(shape_for(options, model)) as service:
            yield service

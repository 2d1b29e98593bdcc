"""`python -m serving.models [MODEL]`: bring a model into the cache ahead of time, and print its folder."""

from __future__ import annotations

import logging
import sys

from serving.config import ServeConfig
from serving.errors import CanopyError
from serving.models.sources import resolve


def main(arguments: list[str]) -> int:
    """Exit status 1 and one sentence on stderr when the model cannot be had."""
    logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stderr)
    try:
        config = ServeConfig.load({"model": arguments[0]} if arguments else None)
        folder = resolve(config.model, config.cache_dir)
    except CanopyError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    sys.stdout.write(f"{folder}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

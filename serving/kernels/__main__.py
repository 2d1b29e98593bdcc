"""`python -m serving.kernels`: compile the CPU kernels ahead of time, for an image without a compiler."""

from __future__ import annotations

import sys

from serving.kernels.ahead import FOLDER, build_ahead
from serving.kernels.build import BuildError


def main() -> int:
    """Exit status 1 and one sentence on stderr when they cannot be compiled."""
    try:
        for path in build_ahead(FOLDER):
            sys.stdout.write(f"{path}\n")
    except BuildError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
